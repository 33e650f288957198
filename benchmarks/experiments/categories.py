"""Categories nobody wrote down: the nested models, a mixture and the HDP on chapters of the Bible,
and on documents drawn from the hNHDP (the experiments of Ma, Sato & Nakagawa 2014).

    python -m benchmarks.experiments.categories [--splits 5] [--sweeps 150] [--shares 0.4]
        [--parts bible starts drawn whole nips] [--papers-by HDP hNHDP NDP]

bible: five splits; a fifth of the chapters is held out, of which a hundred are scored; models learn
from a share of the others (--shares; two fifths). Of each model: the perplexity of whole test
documents and of their completion (every fifth token); clusters in use, and their agreement with the
ten divisions, beside k-means on tf-idf, told that they are ten, and the largest topic of a document
under the HDP. Of the HDP whole documents are scored from left to right, by draws of the proportions
from their prior, and with the proportions that all documents have on average. Of the hNHDP: topics
in use, what a local word costs, and where it predicts better than without word selection; with
--truncations, at most so many topics a measure instead of 30.

starts: the same share of the first split, from five clusters, the square root of the number of
documents, and a hundred; three chains each (--starting: of which models). drawn: documents from the
hNHDP itself with twelve clusters, five corpora. whole: all chapters, one chain, for figures.
nips, not run unless it is asked for: all papers of NIPS that have a section, in the folder that
HDP_NB_DATA names, a fifth of them held out, of which a hundred are scored; the models --papers-by.

Chains have 150 sweeps, of which the second half is kept at every tenth (paper: 1000 and 500), one
chain a model and split, from the package's own start. Runs that are in results/categories.json
already are not made again.
"""

import argparse
import time

from benchmarks.common import machine, nips_sections, save, saved, table

DIVISION = "division"
PAPERS_SWEEPS = 100  # of the runs on papers without a number of sweeps in their names


def makers(n_iter, **more):
    "{name: a function that makes the model with a random_state}."
    from functools import partial

    from hdp_nb import HDP, HNHDP, Gamma, NestedDP

    chain = dict(n_iter=n_iter, n_chains=1, n_jobs=1)
    nested = {**chain, "init": None, "eta": 0.5, **more}
    return {
        "HDP": partial(HDP, sampler="direct", gamma=Gamma(5, 0.1), alpha=Gamma(0.1, 0.1), **chain),
        "NDP": partial(NestedDP, **nested),
        "mixture": partial(NestedDP, **{**nested, "n_topics": 1}),
        "hNHDP-nosel": partial(HNHDP, word_selection=False, **nested),
        "hNHDP": partial(HNHDP, **nested),
    }


def whole(model, test):
    "Perplexity of whole documents; of the HDP estimated from left to right."
    import numpy as np

    from hdp_nb import left_to_right

    options = dict(n_particles=5, n_moves=50, random_state=0)
    return round(float(np.exp(-left_to_right(model, test, **options))), 2)


def otherwise(model, test, n_draws=30):
    "The HDP's perplexity of whole documents: proportions from their prior, and their mean."
    import numpy as np
    from scipy.special import logsumexp

    rng, drawn, mean = np.random.default_rng(0), [], []
    documents = test.to_matrix()
    for phi, weight in model.posterior_topics(test):
        used = weight > 0
        log_phi, a = phi[:, used], weight[used]
        draws = rng.dirichlet(a, size=n_draws)
        drawn.append(logsumexp(documents @ np.log(log_phi @ draws.T), axis=1) - np.log(n_draws))
        mean.append(documents @ np.log(log_phi @ (a / a.sum())))
    return {
        name: round(
            float(np.exp(-(logsumexp(v, axis=0) - np.log(len(v))).sum() / test.n_tokens)), 2
        )
        for name, v in (("prior", drawn), ("mean", mean))
    }


def agreement(truth, labels):
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    return {
        "nmi": round(float(normalized_mutual_info_score(truth, labels)), 4),
        "ari": round(float(adjusted_rand_score(truth, labels)), 4),
    }


def scores(name, model, train, test, truth):
    "What is noted of a fit."
    import numpy as np

    from hdp_nb import document_completion

    note = {
        "whole": whole(model, test),
        "completion": round(float(np.exp(-document_completion(model, test, random_state=0))), 2),
    }
    if name == "HDP":
        note |= otherwise(model, test) | {"K": int(model.n_topics_)}
        note |= agreement(truth, model.doc_topic_.argmax(axis=1))
        return note
    last = slice(model.burn_in_, None)
    note |= {
        "clusters": model.trace_["n_clusters"][last][::10].astype(int).tolist(),
        "document moves": round(float(model.trace_["document_moves"][last].mean()), 2),
        **agreement(truth, model.labels_),
    }
    if name != "mixture":
        shares = np.bincount(model.topic_cluster_ + 1)
        note["topics of a measure"] = [int(shares[0]), int(shares[1:].max())]
    return note


def price(model):
    "What one more local word costs all local topics together in (15''), in nats."
    import numpy as np
    from scipy.special import gammaln

    from hdp_nb.nested.hnhdp import LOCAL

    prices = []
    for counts in model.samples_:
        n_l, S = counts.n_vk.sum(axis=0)[counts.cluster >= 0], (counts.q == LOCAL).sum()
        new, old = (S + 1) * model.eta, S * model.eta
        prices.append((gammaln(new) - gammaln(new + n_l) - gammaln(old) + gammaln(old + n_l)).sum())
    return float(np.mean(prices))


def selection(full, without, train, test):
    "Where word selection predicts better, and which words are global."
    import numpy as np

    observed, heldout = test.split_tokens(0.2, np.random.default_rng(0))
    gain = full.log_predictive(observed, heldout) - without.log_predictive(observed, heldout)
    side, counts = full.word_global_[heldout.x] > 0.5, train.word_counts()
    is_global = full.word_global_ > 0.5
    return {
        "price": round(price(full), 2),
        "global tokens": round(float(side.mean()), 4),
        "gain local": round(float(gain[~side].mean()), 4),
        "gain global": round(float(gain[side].mean()), 4),
        "median local": float(np.median(counts[~is_global])),
        "median global": float(np.median(counts[is_global])),
        "global words": round(float(is_global.mean()), 4),
    }


def cut(seed):
    "Chapters to learn from, and a hundred others."
    import numpy as np

    from hdp_nb.corpora.readers import load_corpus

    train, test = load_corpus("kjv").split_docs(0.2, np.random.default_rng(seed))
    _, test = test.split_docs(100, np.random.default_rng(100 + seed))
    return train, test, np.random.default_rng(200 + seed).permutation(train.n_docs)


def bible(seed, share, truncations, n_iter):
    "All models on one part of one split."
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.feature_extraction.text import TfidfTransformer

    from hdp_nb import HNHDP
    from hdp_nb.evaluation.scores import Unigram

    train, test, order = cut(seed)
    part = train[np.sort(order[: int(share * train.n_docs)])]
    truth = part.groups[DIVISION]
    flat = np.log(Unigram().fit(part).probabilities_)[test.x].mean()
    found, fits = {"documents": part.n_docs, "tokens": part.n_tokens}, {}
    found["unigram"] = round(float(np.exp(-flat)), 2)
    made = makers(n_iter)
    made["hNHDP, known"] = lambda random_state: HNHDP(
        categories=DIVISION, eta=0.5, n_iter=n_iter, n_chains=1, n_jobs=1, random_state=random_state
    )
    for L in truncations:
        made[f"hNHDP, L = {L}"] = makers(n_iter, n_topics=L)["hNHDP"]
    for name, make in made.items():
        began = time.process_time()
        fits[name] = make(random_state=seed).fit(part)
        seconds = time.process_time() - began
        found[name] = {**scores(name, fits[name], part, test, truth), "seconds": round(seconds, 1)}
        print(seed, share, name, found[name], flush=True)
    found["selection"] = selection(fits["hNHDP"], fits["hNHDP-nosel"], part, test)
    tfidf = TfidfTransformer().fit_transform(part.to_matrix())
    found["k-means"] = agreement(truth, KMeans(10, n_init=5, random_state=seed).fit_predict(tfidf))
    return found


def start(k, seed, share, names, n_iter):
    "Clusters and scores of a chain that begins with so many clusters."
    import numpy as np

    train, test, order = cut(0)
    part = train[np.sort(order[: int(share * train.n_docs)])]
    found = {}
    for name in names:
        make = makers(n_iter, init=None if k == "sqrt" else int(k))[name]
        model = make(random_state=seed).fit(part)
        found[name] = scores(name, model, part, test, part.groups[DIVISION])
        last = model.trace_["log_mixture"][model.burn_in_ :].mean() / part.n_tokens
        found[name]["log mixture"] = round(float(last), 4)
        found[name]["course"] = model.trace_["n_clusters"][::10].astype(int).tolist()
        print(k, seed, name, found[name], flush=True)
    return found


def drawn(seed, n_iter):
    "All models on documents from the hNHDP itself."
    import numpy as np

    from hdp_nb import HNHDP
    from hdp_nb.corpora.synthetic import make_nested

    corpus, theta = make_nested(400, n_words=(60, 60), n_clusters=12, random_state=seed)
    train, test = corpus[:300], corpus[300:]
    truth, found = train.groups["cluster"], {}
    for name, make in makers(n_iter, n_topics=10, eta=0.2).items():
        model = make(random_state=seed, eta=0.2).fit(train)
        found[name] = scores(name, model, train, test, truth)
        if name == "hNHDP":
            right = (model.word_global_ > 0.5) == (np.arange(corpus.n_words) < 60)
            found[name]["words right"] = round(float(right.mean()), 4)
    known = HNHDP(
        categories="cluster", n_topics=10, eta=0.2, n_iter=n_iter, n_chains=1, random_state=seed
    ).fit(train)
    found["hNHDP, known"] = {"whole": whole(known, test)}
    print(seed, {name: r["whole"] for name, r in found.items()}, flush=True)
    return found


def papers(seed, name, n_iter):
    "One model on four fifths of all papers of NIPS, scored on a hundred others."
    import numpy as np

    train, test = nips_sections().split_docs(0.2, np.random.default_rng(seed))
    _, test = test.split_docs(100, np.random.default_rng(100 + seed))
    began = time.process_time()
    model = makers(n_iter)[name](random_state=seed).fit(train)
    found = {
        "documents": train.n_docs,
        "tokens": train.n_tokens,
        "sweeps": n_iter,
        "machine": machine(),
        "seconds": round(time.process_time() - began, 1),
        **scores(name, model, train, test, train.groups["section"]),
    }
    last = model.trace_["log_mixture"][model.burn_in_ :].mean() / train.n_tokens
    found["log mixture"] = round(float(last), 4)
    if name != "HDP":
        found["course"] = model.trace_["n_clusters"][::10].astype(int).tolist()
    print(seed, name, found, flush=True)
    return found


def all_chapters(n_iter):
    "One chain of the hNHDP on all chapters: clusters, topics, sides of words."
    import numpy as np

    from hdp_nb.corpora.readers import load_corpus

    corpus = load_corpus("kjv")
    model = makers(n_iter)["hNHDP"](random_state=0).fit(corpus)
    words = model.top_words(10)
    first = [int(np.flatnonzero(model.topic_cluster_ == k)[0]) for k in range(model.n_clusters_)]
    top = np.flatnonzero(model.topic_cluster_ == -1)[:3]
    return {
        "labels": model.labels_.tolist(),
        "division": corpus.groups[DIVISION].tolist(),
        "global topics": [" ".join(words[t]) for t in top],
        "local topics": [" ".join(words[t]) for t in first],
        "global words": model.global_words_[:25],
        "local words": model.local_words_[:25],
        "sides": {
            w: round(float(model.word_global_[corpus.vocab.index(w)]), 2)
            for w in PSALM.split()
            if w in corpus.vocab
        },
        **scores("hNHDP", model, corpus, corpus[:20], corpus.groups[DIVISION]),
    }


PSALM = """lord shepherd want maketh lie green pastures leadeth still waters restoreth soul paths
righteousness sake walk valley shadow death fear evil art thou thy rod staff comfort preparest table
presence mine enemies anointest head oil cup runneth"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parts = ["bible", "starts", "drawn", "whole"]
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=150)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.4])
    parser.add_argument("--truncations", nargs="*", type=int, default=[])
    parser.add_argument("--starting", nargs="+", default=["mixture", "hNHDP"])
    parser.add_argument("--parts", nargs="+", default=parts, choices=[*parts, "nips"])
    parser.add_argument("--papers-by", nargs="+", default=["HDP", "hNHDP", "NDP"])
    options = parser.parse_args()
    found = saved("categories") or {}
    if options.parts != ["nips"]:
        found["sweeps"] = options.sweeps

    def note(part, key, run, *arguments):
        if key not in found.setdefault(part, {}):
            found[part][key] = run(*arguments, options.sweeps)
            if part != "nips":  # whose runs say it themselves
                found["machine"] = machine()
            save("categories", found)

    if "drawn" in options.parts:
        for seed in range(options.splits):
            note("drawn", str(seed), drawn, seed)
    if "bible" in options.parts:
        for seed in range(options.splits):
            for share in options.shares:
                note("bible", f"{share}, split {seed}", bible, seed, share, options.truncations)
    if "starts" in options.parts:
        chosen = options.shares[-1], options.starting
        for k in ("5", "sqrt", "100"):
            for seed in range(3):
                note("starts", f"from {k}, seed {seed}", start, k, seed, *chosen)
    if "whole" in options.parts:
        note("whole", "hNHDP", all_chapters)
    if "nips" in options.parts:
        for seed in range(options.splits):
            for name in options.papers_by:
                key = f"{name}, split {seed}"
                if options.sweeps != PAPERS_SWEEPS:
                    key += f", {options.sweeps} sweeps"
                note("nips", key, papers, seed, name)
    for share in options.shares:
        rows = [r for key, r in found.get("bible", {}).items() if key.startswith(f"{share},")]
        if rows:
            names = [n for n, r in rows[0].items() if isinstance(r, dict) and "whole" in r]
            mean = lambda name, what: sum(r[name][what] for r in rows) / len(rows)
            head = ["model", "whole", "completion"]
            table(head, [[n, *(f"{mean(n, w):.1f}" for w in head[1:])] for n in names])


if __name__ == "__main__":
    main()
