"""Kinds of documents, by defaults: documents of 15, 60 and 150 words, kinds of equal and unequal
sizes, proportions that are the kind's or differ by document.

    python -m benchmarks.nested.kinds [--words 15 60 150] [--models NestedDP HNHDP "eta .5" peers]
        [--seeds 1]

500 documents of twelve equal kinds, or of eleven of 150 down to 5 documents; each kind has two
topics of its own over 500 local words, and four topics over 500 global words are shared by all (40%
of the tokens). `eta .5`: both models with eta held fixed at 0.5. Of a fit: clusters, adjusted Rand
index, the clusters' own kinds (those of which most documents are in one cluster, most of which they
are), what `converged_` says, words on the right side and the share of global tokens, documents in a
wrong cluster whose `cluster_proba` is above .9, and CPU seconds. Peers: k-means with the true
number of kinds and Ward with the number by silhouette, on the proportions of scikit-learn's LDA
with twenty topics and of `HDP`. One core. Runs that are in results/kinds.json already are not made
again.
"""

import argparse
import itertools
import time
import warnings

from benchmarks.common import machine, save, saved, table

UNEQUAL = 150, 100, 70, 50, 40, 30, 20, 15, 10, 10, 5
SIZES = {"equal": 12, "unequal": UNEQUAL}
VARYING = 3.0  # sum of the Dirichlet parameters of a document's proportions, where these differ


def planted(words, sizes, varying, seed):
    "Documents, and the kind of each; the first half of the words are global."
    import numpy as np

    from hdp_nb import Corpus

    rng, n_own, n_shared, half = np.random.default_rng([seed, 63]), 2, 4, 500
    kinds = np.repeat(np.arange(12), 42)[:500] if sizes == "equal" else None
    kinds = np.repeat(np.arange(len(UNEQUAL)), UNEQUAL) if kinds is None else kinds
    n_kinds, topics = kinds.max() + 1, np.zeros((n_shared + n_own * (kinds.max() + 1), 2 * half))
    topics[:n_shared, :half] = rng.dirichlet(np.full(half, 0.05), n_shared)
    topics[n_shared:, half:] = rng.dirichlet(np.full(half, 0.05), n_own * n_kinds)
    own = np.array([rng.dirichlet(np.full(n_own, 2.0)) for _ in range(n_kinds)])
    shared = rng.dirichlet(np.full(n_shared, 2.0))
    docs = []
    for k in kinds:
        both = np.concatenate([0.4 * shared, 0.6 * own[k]])
        pi = rng.dirichlet(VARYING * both) if varying else both
        t = rng.choice(len(both), words, p=pi)
        t = np.where(t < n_shared, t, t + n_own * k)
        docs.append([rng.choice(2 * half, p=topics[i]) for i in t])
    return Corpus.from_docs(docs, n_words=2 * half), kinds


def own_clusters(kinds, labels):
    "Kinds that have a cluster of their own."
    import numpy as np

    both = np.zeros((kinds.max() + 1, labels.max() + 1), int)
    np.add.at(both, (kinds, labels), 1)
    best = both.argmax(axis=1)
    hits = both[np.arange(len(both)), best]
    own = (2 * hits > both.sum(axis=1)) & (2 * hits > both.sum(axis=0)[best])
    return int(own.sum())


def nested(name, corpus, kinds, seed):
    "A default fit of a nested model."
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    from hdp_nb import HNHDP, NestedDP

    options = {"eta": 0.5} if name.endswith("eta .5") else {}
    model = (HNHDP if name.startswith("HNHDP") else NestedDP)(random_state=seed, **options)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(corpus)
    seconds, labels = time.process_time() - began, model.labels_
    proba = model.cluster_proba(corpus)
    to_kind = np.array([np.bincount(kinds[labels == k]).argmax() for k in range(labels.max() + 1)])
    wrong = to_kind[labels] != kinds
    seen = corpus.word_counts() >= 5
    right = (model.word_global_ > 0.5) == (np.arange(corpus.n_words) < corpus.n_words // 2)
    chains = [float(t[-50:].mean()) for t in model.traces_["log_mixture"]]
    return {
        "clusters": int(model.n_clusters_),
        "ari": adjusted_rand_score(kinds, labels),
        "own": own_clusters(kinds, labels),
        "topics": int(model.n_topics_),
        "converged": bool(model.converged_),
        "words_right": float(right[seen].mean()) if name.startswith("HNHDP") else None,
        "global_share": float(np.mean(model.trace_["global_share"][-50:])),
        "sure": float((proba.max(axis=1) > 0.9).mean()),
        "sure_and_wrong": float((proba.max(axis=1) > 0.9)[wrong].mean()) if wrong.any() else 0.0,
        "wrong": float(wrong.mean()),
        "log_mixture": chains,
        "seconds": seconds,
    }


def peers(corpus, kinds, seed):
    "Proportions of other models, cut by k-means and by Ward."
    import numpy as np
    from sklearn.cluster import AgglomerativeClustering, KMeans
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.metrics import adjusted_rand_score, silhouette_score

    from hdp_nb import HDP

    out, K = {}, kinds.max() + 1
    for name in ("LDA", "HDP"):
        began = time.process_time()
        if name == "LDA":
            pi = LatentDirichletAllocation(20, random_state=seed).fit_transform(corpus.to_matrix())
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                pi = HDP(random_state=seed).fit(corpus).doc_topic_
        told = KMeans(K, n_init=10, random_state=seed).fit_predict(pi)
        cuts = [AgglomerativeClustering(k).fit_predict(pi) for k in range(2, 25)]
        best = max(cuts, key=lambda labels: silhouette_score(pi, labels))
        seconds = time.process_time() - began
        out[f"{name}, k-means told"] = {
            "clusters": int(K),
            "ari": adjusted_rand_score(kinds, told),
            "own": own_clusters(kinds, told),
            "seconds": seconds,
        }
        out[f"{name}, Ward"] = {
            "clusters": int(np.max(best) + 1),
            "ari": adjusted_rand_score(kinds, best),
            "own": own_clusters(kinds, best),
            "seconds": seconds,
        }
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    models = ["NestedDP", "HNHDP", "eta .5", "peers"]
    parser.add_argument("--words", nargs="+", type=int, default=[15, 60, 150])
    parser.add_argument("--models", nargs="+", default=models, choices=models)
    parser.add_argument("--sizes", nargs="+", default=["equal", "unequal"])
    parser.add_argument("--proportions", nargs="+", default=["fixed", "varying"])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    found = saved("kinds") or {"runs": {}}
    names = [
        ["NestedDP, eta .5", "HNHDP, eta .5"] if m == "eta .5" else [m] for m in options.models
    ]
    cases = (options.words, options.sizes, options.proportions, range(options.seeds))
    for words, sizes, how, seed in itertools.product(*cases):
        corpus, kinds = planted(words, sizes, how == "varying", seed)
        case, rows = f"{words} words, {sizes}, {how}, seed {seed}", []
        for name in itertools.chain(*names):
            if f"{case}, {name}" not in found["runs"]:
                run = (
                    {"peers": peers(corpus, kinds, seed)}
                    if name == "peers"
                    else nested(name, corpus, kinds, seed)
                )
                found["runs"][f"{case}, {name}"] = run
                found["machine"] = machine()
                save("kinds", found)
            run = found["runs"][f"{case}, {name}"]
            for who, r in (run["peers"] if name == "peers" else {name: run}).items():
                rows.append(
                    [
                        who,
                        r["clusters"],
                        f"{r['ari']:.3f}",
                        r["own"],
                        r.get("converged", ""),
                        f"{r['words_right']:.3f}" if r.get("words_right") else "",
                        f"{r['global_share']:.2f}" if "global_share" in r else "",
                        f"{r['sure_and_wrong']:.2f}" if "sure_and_wrong" in r else "",
                        f"{r['seconds']:.1f}",
                    ]
                )
        print(f"\n{case}", flush=True)
        head = ["", "clusters", "ARI", "own", "converged", "words", "global", "sure & wrong", "s"]
        table(head, rows)


if __name__ == "__main__":
    main()
