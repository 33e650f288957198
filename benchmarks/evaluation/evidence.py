"""Does the evidence prefer the model that the words are from?

    python -m benchmarks.evaluation.evidence

Twenty corpora of 15 documents of 20 tokens over 10 words: ten drawn from LDA with two topics, ten
from LDA with four, topics from a Dirichlet distribution with parameter 0.1. The evidence of each
under both models by stepping stones, there and back, twice with different seeds. Writes
results/evidence.json: of every run log_p and its error, the same of the way back, and whether the
two agree.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, table

KINDS = ["LDA(2)"] * 10 + ["LDA(4)"] * 10
SHAPE = dict(n_docs=15, doc_len=20, n_words=10)


def draw(kind, seed):
    "A corpus of one kind."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus

    rng, K = np.random.default_rng(seed), int(kind[4])
    phi = rng.dirichlet(np.full(SHAPE["n_words"], 0.1), K)
    pi = rng.dirichlet(np.full(K, 1.0 / K), SHAPE["n_docs"])
    words = pi @ phi
    words /= words.sum(axis=1, keepdims=True)
    return Corpus.from_matrix(rng.multinomial(SHAPE["doc_len"], words))


def main():
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    from hdp_nb import LDA
    from hdp_nb.evaluation.evidence import log_evidence
    from hdp_nb.mcmc.convergence import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # whether both ways agree is written down
    models = {"LDA(2)": LDA(2, eta=0.1), "LDA(4)": LDA(4, eta=0.1)}
    runs, rows, began = [], [], time.process_time()
    for seed, kind in enumerate(KINDS):
        corpus, run = draw(kind, seed), {"kind": kind}
        for name, model in models.items():
            both = [
                log_evidence(model, corpus, n_steps=30, n_sweeps=250, burn_in=50, random_state=s)
                for s in (0, 1)
            ]
            run[name] = [[*(round(value, 3) for value in f[:4]), bool(f.agrees)] for f in both]
        best = max(models, key=lambda name: sum(p for p, *_ in run[name]))
        run["preferred"] = best
        runs.append(run)
        both = [f"{run[name][0][0]:.1f} {run[name][1][0]:.1f}" for name in models]
        rows.append([kind, best, *both])
    seconds = time.process_time() - began
    save("evidence", {"runs": runs, "seconds": seconds, "machine": machine()})
    table(["kind", "preferred", *models], rows)
    print(sum(run["kind"] == run["preferred"] for run in runs), "of", len(runs), f"{seconds:.0f} s")


if __name__ == "__main__":
    main()
