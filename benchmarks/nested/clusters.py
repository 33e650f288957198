"""Whether clusters of documents depend on where a chain begins: on documents of twelve known
clusters, on chapters of the Bible and on NIPS papers.

    python -m benchmarks.nested.clusters [--data twelve kjv nips] [--models HNHDP NestedDP mixture]
        [--starts 1 3 sqrt 100] [--seeds 5] [--sweeps 110]

Chains of the nested models from one cluster, three, the square root of the number of documents, and
one hundred. Of a chain, over its last thirty sweeps: clusters in use, log joint (N1) and log
probability of the words given clusters, per token, documents that changed clusters per sweep, and
splits and merges accepted; adjusted Rand index and normalised mutual information against the known
groups, the perplexity of test documents (Ma et al. 2014), and CPU seconds. `nips` is read from the
folder that HDP_NB_DATA names. Runs that are in results/clusters.json already are not made again.
"""

import argparse
import itertools
import time

from benchmarks.common import machine, nips_sections, save, saved, table


def load(data):
    "Training and test documents, and the true group of each training document."
    import numpy as np

    from hdp_nb.corpora.readers import load_corpus
    from hdp_nb.corpora.synthetic import make_nested

    if data.startswith("twelve"):
        n_docs = int(data.split()[1])
        corpus, _ = make_nested(n_docs + 100, n_words=(60, 60), n_clusters=12, random_state=3)
        train, test = corpus[:n_docs], corpus[n_docs:]
        return train, test, train.groups["cluster"]
    if data == "kjv":
        corpus, level, share = load_corpus("kjv"), "division", 0.6
    else:
        corpus, level, share = nips_sections(), "section", 0.12
    train, test = corpus.split_docs(0.2, np.random.default_rng(0))  # as notebook 94 does
    _, test = test.split_docs(100, np.random.default_rng(2))
    order = np.random.default_rng(1).permutation(train.n_docs)
    part = train[np.sort(order[: int(share * train.n_docs)])]
    return part, test, part.groups[level]


def run(data, name, start, seed, sweeps):
    "One chain; what is noted of it."
    import numpy as np
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    from hdp_nb import HNHDP, NestedDP

    train, test, truth = load(data)
    kind = HNHDP if name == "HNHDP" else NestedDP
    options = {"eta": 0.5} | ({"n_topics": 1} if name == "mixture" else {})
    if data.startswith("twelve"):
        options |= {"eta": 0.2, "n_topics": options.get("n_topics", 10)}
    init = None if start == "sqrt" else int(start)
    last = min(30, sweeps // 2)
    model = kind(
        **options,
        init=init,
        n_iter=sweeps,
        burn_in=sweeps - last,
        thin=10,
        n_chains=1,
        random_state=seed,
    )
    began = time.process_time()
    model.fit(train)
    seconds = time.process_time() - began
    end = {key: values[-last:] for key, values in model.trace_.items()}
    return {
        "clusters": np.bincount(end["n_clusters"].astype(int)).tolist(),
        "log_joint": end["log_joint"].mean() / train.n_tokens,
        "log_mixture": end["log_mixture"].mean() / train.n_tokens,
        "ari": adjusted_rand_score(truth, model.labels_),
        "nmi": normalized_mutual_info_score(truth, model.labels_),
        "perplexity": float(np.exp(-model.score_samples(test).sum() / test.n_tokens)),
        "document_moves": end["document_moves"].mean(),
        "split_merge": end["split_merge_accepted"].mean(),
        "seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    sets = ["twelve 600", "twelve 800", "kjv", "nips"]
    parser.add_argument("--data", nargs="+", default=sets[:3], choices=sets)
    parser.add_argument("--models", nargs="+", default=["HNHDP", "NestedDP", "mixture"])
    parser.add_argument("--starts", nargs="+", default=["1", "3", "sqrt", "100"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=110)
    options = parser.parse_args()
    found = saved("clusters") or {"runs": {}}
    for data, name in itertools.product(options.data, options.models):
        rows = []
        for start, seed in itertools.product(options.starts, range(options.seeds)):
            key = f"{data}, {name}, from {start}, seed {seed}, {options.sweeps}"
            if key not in found["runs"]:
                found["runs"][key] = run(data, name, start, seed, options.sweeps)
                found["machine"] = machine()
                save("clusters", found)
            r = found["runs"][key]
            at = [k for k, n in enumerate(r["clusters"]) if n]
            rows.append(
                [
                    start,
                    f"{at[0]}-{at[-1]}",
                    f"{r['log_joint']:.4f}",
                    f"{r['log_mixture']:.4f}",
                    f"{r['ari']:.3f}",
                    f"{r['nmi']:.3f}",
                    f"{r['perplexity']:.1f}",
                    f"{r['document_moves']:.1f}",
                    f"{r['split_merge']:.2f}",
                    f"{r['seconds']:.1f}",
                ]
            )
        print(f"\n{data}, {name}, {options.sweeps} sweeps")
        head = [
            "from",
            "clusters",
            "joint",
            "words",
            "ARI",
            "NMI",
            "perplexity",
            "moves",
            "splits",
            "s",
        ]
        table(head, rows)


if __name__ == "__main__":
    main()
