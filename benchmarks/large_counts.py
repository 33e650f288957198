"""What a sweep costs where counts are large.

    python benchmarks/large_counts.py

1,000 samples of 96 kinds, drawn from 15 signatures, with 1,000 to 1,000,000 mutations each; every
kind is in every sample, so that all have the same 96,000 cells. Noted are CPU seconds of a sweep of
the blocked sampler (the median of 15) from the true topics, with the trace, and those of direct and
parallel sampling, which visit tokens, as long as there are 10 million at most; and what a corpus,
a state and a kept sample hold in memory. "100" are samples of 100 mutations as they are drawn, in
which about half of the kinds do not occur.
"""

import argparse
import statistics
import time

from common import machine, save, table

SAMPLES, KINDS, TOPICS = 1000, 96, 15
MUTATIONS = (1_000, 10_000, 100_000, 1_000_000)


def draw(n, rng):
    "Topics, proportions and counts; with n of 1,000 or more every count is at least 1."
    import numpy as np

    phi = rng.dirichlet(np.full(KINDS, 0.3), TOPICS)
    pi = rng.dirichlet(np.full(TOPICS, 0.2), SAMPLES)
    counts = rng.multinomial(n, pi @ phi)
    return phi, pi, np.maximum(counts, 1) if n >= MUTATIONS[0] else counts


def truth_of(sampler, phi, pi, rng):
    "A state in which every cell is shared out by the true topics."
    import numpy as np

    cells = sampler.cells
    document = np.repeat(np.arange(SAMPLES), np.diff(cells.indptr))
    p = pi[document] * phi[:, cells.word].T
    shares = rng.multinomial(cells.n, p / p.sum(axis=1, keepdims=True))
    at, topic = np.nonzero(shares)
    return sampler._seated(rng, topic, shares[at, topic].astype(np.int32))


def seconds(sampler, state, rng, n=15):
    "Median CPU seconds of a sweep, and the last state."
    spent = []
    for _ in range(n):
        began = time.process_time()
        state, _ = sampler.sweep(rng, state)
        spent.append(time.process_time() - began)
    return statistics.median(spent), state


def size(arrays):
    return sum(array.nbytes for array in arrays)


def main():
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    import numpy as np
    from scipy.sparse import csr_array

    from hdp_nb.blocked import BlockedSampler
    from hdp_nb.corpus import Corpus
    from hdp_nb.direct import DirectSampler
    from hdp_nb.parallel import ParallelSampler

    rows = []
    for n in (100, *MUTATIONS):
        rng = np.random.default_rng(0)
        phi, pi, counts = draw(n, rng)
        corpus = Corpus.from_matrix(csr_array(counts))
        sampler = BlockedSampler(corpus)
        state = truth_of(sampler, phi, pi, rng)
        state, _ = sampler.sweep(rng, state)
        cpu, state = seconds(sampler, state, rng)
        row = {"mutations": n, "tokens": corpus.n_tokens, "cells": len(sampler.cells.n)}
        row |= {"blocked": cpu, "shares": len(state.run), "n_topics": int(state.K)}
        row["bytes"] = {
            "cells": size(sampler.cells),
            "state": size(state),
            "sample": size(sampler.snapshot(state)),
        }
        for name, kind in (("direct", DirectSampler), ("parallel", ParallelSampler)):
            if corpus.n_tokens <= 1.1e7:
                other = kind(corpus, init=state)
                begun = other.init(rng)
                row[name], _ = seconds(other, begun, rng, 3)
        rows.append(row)
        print(row, flush=True)
        save("large_counts", {"machine": machine(), "rows": rows})
    heads = ["mutations", "cells", "blocked", "direct", "parallel"]
    table(heads, [[f"{row[h]:.3g}" if h in row else "" for h in heads] for row in rows])


if __name__ == "__main__":
    main()
