"""The prior test: documents of one word that is always the same say nothing, so a sampler must
give the prior.

    python -m benchmarks.topics.prior_test [--sweeps 10000]

50 documents of 100 words, V = 1, alpha = gamma = 1 fixed. A document then has 1 + 1/2 + ... + 1/100
= 5.187 tables on average; the number of topics has the distribution
of the tables of a Chinese restaurant with as many customers as there are tables, 6.136 on average,
computed here by convolution. Four chains of every sampler of this
package and of tomotopy's HDP; the first tenth of every chain (or a little more) is left out. Errors
are the larger of two standard errors:
over the chains, and over fifteen pieces of each.
"""

import argparse
import time

from benchmarks.common import here, in_environment, machine, save, saved, table

J, N, CHAINS, PIECES = 50, 100, 4, 15


def exact():
    "Mean tables of a document, and mean topics."
    import numpy as np

    def seats(n):
        "P(tables) of n customers."
        p = np.ones(1)
        for i in range(n):
            p = np.convolve(p, [i / (1 + i), 1 / (1 + i)])
        return p

    of_one, of_all = seats(N), np.ones(1)
    for _ in range(J):
        of_all = np.convolve(of_all, of_one)
    topics = np.cumsum(
        np.append(0.0, 1 / np.arange(1, len(of_all)))
    )  # E[K | m tables] = 1 + 1/2 + ... + 1/m
    return float(of_one @ np.arange(N + 1)), float(of_all @ topics)


def ours(name):
    def chain(seed, sweeps):
        import numpy as np

        from hdp_nb.corpora.corpus import Corpus
        from hdp_nb.mcmc.chain import run_chain
        from hdp_nb.models import topic_models

        corpus = Corpus.from_docs([[0] * N] * J, n_words=1)
        sampler = topic_models.SAMPLERS[name](corpus, 0.5, 1.0, 1.0, None, None, 1)
        trace = run_chain(sampler, np.random.default_rng(seed), sweeps).trace
        return trace["n_tables"] / J, trace["n_topics"]

    return chain


def tomotopy(seed, sweeps):
    import numpy as np
    import tomotopy

    model = tomotopy.HDPModel(alpha=1.0, gamma=1.0, eta=0.5, initial_k=2, seed=seed + 1)
    model.optim_interval = 0  # alpha and gamma stay as they are
    for _ in range(J):
        model.add_doc(["a"] * N)
    found = []
    for _ in range(sweeps):
        model.train(1, workers=1)
        found.append((model.num_tables / J, model.live_k))
    if (model.alpha, model.gamma) != (1.0, 1.0):
        raise RuntimeError("alpha and gamma should have stayed at 1")
    return np.array(found).T


SAMPLERS = {
    "hdp_nb crf": ours("crf"),
    "hdp_nb direct": ours("direct"),
    "hdp_nb hybrid": ours("hybrid"),
    "hdp_nb parallel": ours("parallel"),
    "tomotopy HDP": tomotopy,
}


def main():
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sweeps", type=int, default=10_000)
    parser.add_argument(
        "--models",
        nargs="+",
        choices=SAMPLERS,
        default=list(SAMPLERS),
        metavar="NAME",
        help=", ".join(SAMPLERS),
    )
    here(parser)
    args = parser.parse_args()
    in_environment(args)
    tables, topics = exact()
    print(f"exact: {tables:.4f} tables per document, {topics:.4f} topics")
    models, rows = saved("prior").get("models", {}), []
    for name in args.models:
        start = time.process_time()
        kept = 9 * args.sweeps // 10 // PIECES * PIECES
        pieces = np.array(
            [
                [
                    series[-kept:].reshape(PIECES, -1).mean(axis=1)
                    for series in SAMPLERS[name](seed, args.sweeps)
                ]
                for seed in range(CHAINS)
            ]
        )
        runs = pieces.mean(axis=2)
        mean, error = runs.mean(axis=0), np.std(runs, axis=0, ddof=1) / CHAINS**0.5
        error = np.maximum(error, np.std(pieces, axis=(0, 2), ddof=1) / (CHAINS * PIECES) ** 0.5)
        models[name] = {
            "tables": round(mean[0], 4),
            "tables_error": round(error[0], 4),
            "topics": round(mean[1], 4),
            "topics_error": round(error[1], 4),
            "chains": np.round(runs, 3).tolist(),
            "sweeps": args.sweeps,
        }
        rows.append(
            [
                name,
                f"{mean[0]:.3f} ({error[0]:.3f})",
                f"{mean[0] / tables - 1:+.2%}",
                f"{mean[1]:.3f} ({error[1]:.3f})",
                f"{time.process_time() - start:.1f}",
            ]
        )
        save(
            "prior",
            {
                "machine": machine(),
                "exact": {"tables": round(tables, 4), "topics": round(topics, 4)},
                "models": {name: models[name] for name in SAMPLERS if name in models},
            },
        )
    table(["sampler", "tables per document", "off by", "topics", "CPU s"], rows)


if __name__ == "__main__":
    main()
