"""Does the consensus of all samples find what is there, from any start, and again?

    python -m benchmarks.models.consensus

Planted: counts of three topics over 96 words, and bars; two chains of direct assignment from one
topic, from the true number, from a hundred, and from opposite starts. Noted are the probability of
existence of the component nearest to each planted topic, its cosine, and the largest probability of
any other component. Text: every tenth passage of the State of the Union addresses, words that occur
five times or more; two runs of four chains with different seeds. Of the tokens in the components of
one run, the share in those that have one with a cosine above 0.9 in the other run. Runs that are in
results/consensus.json already are not made again.
"""

import argparse
import itertools
import time
import warnings

from benchmarks.common import cosines, machine, save, saved, table

PLANTED = {
    "three topics": ("make_signatures", dict(n_docs=400, doc_len=300), 3),
    "bars": ("make_bars", dict(n_docs=500, doc_len=100), 20),
}
TEXTS = {"short": (0.1, 300), "default": (0.5, 600)}  # eta, sweeps
SWEEPS = 300  # for planted topics


def fit(corpus, **options):
    "The consensus of a fit, the fit, and CPU seconds."
    from hdp_nb import HDP

    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(sampler="direct", n_jobs=1, **{"eta": 0.5} | options).fit(corpus)
    return model.consensus(), model, time.process_time() - began


def planted(data, start):
    "What the consensus of chains from one start says of topics that are known."
    from hdp_nb.corpora import synthetic

    name, options, n_topics = PLANTED[data]
    corpus, truth = getattr(synthetic, name)(**options, random_state=6)
    init = n_topics if start == "true" else start
    found, model, seconds = fit(corpus, n_iter=SWEEPS, init=init, random_state=1)
    cosine = cosines(truth.phi, found.words)
    nearest = cosine.argmax(axis=1)
    others = [p for k, p in enumerate(found.existence.tolist()) if k not in nearest]
    return {
        "existence": found.existence[nearest].tolist(),
        "cosine": cosine.max(axis=1).tolist(),
        "distinct": len(set(nearest.tolist())) == len(truth.phi),
        "others": max(others, default=0.0),
        "n_topics": [float(f(model.trace_["n_topics"][model.burn_in_ :])) for f in (min, max)],
        "seconds": seconds,
    }


def text():
    "The addresses, without rare words."
    import numpy as np

    from hdp_nb import Corpus
    from hdp_nb.corpora.readers import load_corpus

    corpus = load_corpus("sotu")[::10]
    X = corpus.to_matrix()
    frequent = np.flatnonzero(X.sum(axis=0) >= 5)
    return Corpus.from_matrix(X[:, frequent], vocab=[corpus.vocab[v] for v in frequent])


def addresses(seed, eta, sweeps):
    "What is noted of the consensus of four chains, and the words of its topics."
    found, model, seconds = fit(text(), n_iter=sweeps, n_chains=4, eta=eta, random_state=seed)
    n = found.n_components
    noted = {
        "shares": found.topic_shares_.tolist(),
        "existence": found.existence[:n].tolist(),
        "top": found.top_words(8),
        "similarity": found.similarity.tolist(),
        "kept": len(model.samples_),
        "K": [float(row[model.burn_in_ :].mean()) for row in model.traces_["n_topics"]],
        "converged": model.converged_,
        "seconds": seconds,
    }
    return noted, found.components_


def again(shares, words, others, least=0.9):
    "Share of the tokens in components that are in those with a like one among the others."
    import numpy as np

    like = cosines(words, others).max(axis=1) > least
    return float(np.array(shares)[like].sum() / sum(shares))


def main():
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    found = saved("consensus") or {"planted": {}, "text": {}}
    rows = []
    for data, start in itertools.product(PLANTED, (1, "true", 100, "opposite")):
        name = f"{data}, from {start}"
        if name not in found["planted"]:
            found["planted"][name] = planted(data, start)
            found["machine"] = machine()
            save("consensus", found)
        run = found["planted"][name]
        rows.append(
            [
                name,
                f"{min(run['existence']):.2f}",
                f"{min(run['cosine']):.4f}",
                f"{run['others']:.2f}",
                f"{min(run['n_topics'])}-{max(run['n_topics'])}",
                f"{run['seconds']:.0f}",
            ]
        )
    table(["planted", "P(exists)", "cosine", "others", "K", "CPU s"], rows)
    for name, (eta, sweeps) in TEXTS.items():
        if name not in found["text"]:
            (a, x), (b, y) = (addresses(seed, eta, sweeps) for seed in (0, 1))
            both = [again(a["shares"], x, y), again(b["shares"], y, x)]
            found["text"][name] = {"0": a, "1": b, "again": both}
            save("consensus", found)
        runs = found["text"][name]
        a, b = runs["0"], runs["1"]
        for run in (a, b):
            print(
                f"{name}: {len(run['shares'])} components with {sum(run['shares']):.1%} of the"
                f" tokens, K {min(run['K']):.0f} to {max(run['K']):.0f}, {run['seconds']:.0f} CPU s"
            )
        print("of their tokens in components that the other run has:", runs["again"])


if __name__ == "__main__":
    main()
