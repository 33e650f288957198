"""Do intervals of default fits hold the truth?  Shares of planted topics, and of documents.

    python -m benchmarks.models.intervals [--corpora 8]

Corpora of three topics over 500 words and of eight over 96 kinds are drawn anew for each seed, and
fitted by `HDP(random_state=seed)`. Of every planted topic that the fit shows (cosine above 0.9):
does the 90% interval of its share hold its share of the tokens, and that of each document's
proportion the proportion that its words were drawn with, over all documents, above .05, and below?
The table is results/intervals.json.
"""

import argparse
import time
import warnings
from types import SimpleNamespace

from benchmarks.common import cosines, machine, save, table

KINDS = {
    "three topics": dict(n_docs=200, length=150, n_topics=3, n_words=500, eta=0.05, alpha=0.5),
    "signatures": dict(n_docs=200, length=500, n_topics=8, n_words=96, eta=0.1, alpha=0.3),
}


def draw(seed, n_docs, length, n_topics, n_words, eta, alpha):
    "A corpus and what it was drawn from."
    import numpy as np

    from hdp_nb import Corpus

    rng = np.random.default_rng([seed, 5])
    phi = rng.dirichlet(np.full(n_words, eta), n_topics)
    weights = rng.dirichlet(np.full(n_topics, 5.0))
    theta = rng.dirichlet(alpha * n_topics * weights, n_docs)
    z = [rng.choice(n_topics, length, p=p) for p in theta]
    docs = [[rng.choice(n_words, p=phi[k]) for k in of] for of in z]
    shares = np.bincount(np.concatenate(z), minlength=n_topics) / (n_docs * length)
    return Corpus.from_docs(docs, n_words=n_words), SimpleNamespace(
        phi=phi, theta=theta, shares=shares
    )


def study(kind, seed):
    "Of one fit: how many intervals there are, and how many hold the truth."
    import numpy as np

    from hdp_nb import HDP

    corpus, truth = draw(seed, **KINDS[kind])
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(random_state=seed, n_jobs=1).fit(corpus)
    low, high = model.share_interval()
    below, above = model.consensus().document_interval()
    shares, documents, real = [], [np.zeros(0, bool)], [np.zeros(0)]
    for k, row in enumerate(cosines(model.components_, truth.phi)):
        true = int(row.argmax())
        if row[true] > 0.9:
            theta = truth.theta[:, true]
            shares.append(bool(low[k] <= truth.shares[true] <= high[k]))
            documents.append((below[:, k] <= theta) & (theta <= above[:, k]))
            real.append(theta)
    documents, real = np.concatenate(documents), np.concatenate(real)
    noted = {"planted": len(truth.phi), "found": len(shares)}
    noted["shares"] = [sum(shares), len(shares)]
    for name, some in [("documents", real >= 0), ("above", real > 0.05), ("below", real <= 0.05)]:
        noted[name] = [int(documents[some].sum()), int(some.sum())]
    noted["grade"] = model.verdict_.grade
    noted["seconds"] = round(time.process_time() - began, 1)
    return noted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpora", type=int, default=8, help="of each kind")
    options = parser.parse_args()
    found, rows = {"runs": {}, "machine": machine()}, []
    for kind in KINDS:
        for seed in range(1, options.corpora + 1):
            found["runs"][f"{kind}, seed {seed}"] = study(kind, seed)
            print(kind, seed, found["runs"][f"{kind}, seed {seed}"], flush=True)
            save("intervals", found)
        mine = [run for name, run in found["runs"].items() if name.startswith(kind + ",")]
        cells = [
            f"{sum(run[key][0] for run in mine)} of {sum(run[key][1] for run in mine)}"
            for key in ("shares", "documents", "above", "below")
        ]
        rows.append([kind, sum(run["found"] for run in mine), *cells])
    table(["corpora", "topics found", "shares", "documents", "above .05", "below"], rows)


if __name__ == "__main__":
    main()
