"""What a sweep costs where counts are large.

    python -m benchmarks.topics.large_counts [--fits]

1,000 samples of 96 kinds, drawn from 15 signatures, with 1,000 to 1,000,000 mutations each; every
kind is in every sample, so that all have the same 96,000 cells. Noted are CPU seconds of a sweep of
the blocked sampler (the median of 15) from the true topics, with the trace, and those of direct and
parallel sampling, which visit tokens, as long as there are 10 million at most; what a corpus, a
state and a kept sample hold in memory; and CPU seconds of the proportions of 100 new samples, of
their score, and, up to 100,000 mutations, of proportions token by token. "100" are samples of 100
mutations as they are drawn, in which about half of the kinds do not occur.

With --fits whole fits are made instead: 200 samples of 12 signatures, 3,000 or 10,000 mutations
each, by the franchise and blocked, 150 sweeps of two chains; of the smaller one blocked also for as
many sweeps more as the franchise takes longer. Noted are how many signatures are found (cosine
.95), and whether the chains agree.
"""

import argparse
import statistics
import time

from benchmarks.common import cosines, machine, save, saved, table

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


def predictions(sampler, state, counts):
    "CPU seconds of transform and score of a model with one sample, and of the former by tokens."
    from scipy.sparse import csr_array

    from hdp_nb import HDP, Corpus

    model = HDP(sampler="blocked", power=1, n_iter=2, n_chains=1, init=1, moves=0, random_state=0)
    model.fit(sampler.corpus)
    model.samples_, model.best_ = [sampler.snapshot(state)], 0
    model = model.one_sample()
    new = Corpus.from_matrix(csr_array(counts))
    calls = {"transform": model.transform, "score": model.score}
    if counts.sum() <= 1.1e7:
        tokens = Corpus(new.x, new.offsets, n_words=KINDS)
        calls["transform_tokens"] = lambda _: model.transform(tokens)
    spent = {}
    for name, call in calls.items():
        call(new[:2])
        began = time.process_time()
        call(new)
        spent[name] = time.process_time() - began
    return spent


def fits():
    "Fits of two corpora by two samplers."
    import warnings

    import numpy as np

    from hdp_nb import HDP

    rng, found = np.random.default_rng(0), []
    phi = rng.dirichlet(np.full(KINDS, 0.3), 12)
    for sampler in ("blocked", "crf"):  # compiled before anything is measured
        HDP(sampler=sampler, n_iter=12, n_jobs=1, random_state=0).fit(rng.poisson(2.0, (20, KINDS)))
    for n, samplers in ((3000, ("blocked", "crf", "blocked")), (10_000, ("blocked", "crf"))):
        X = rng.multinomial(n, rng.dirichlet(np.full(12, 0.15), 200) @ phi)
        per_cell, sweeps = n * 200 / np.count_nonzero(X), 150
        for sampler in samplers:
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                run = dict(n_iter=sweeps, n_jobs=1, random_state=0)
                model = HDP(sampler=sampler, power=1, **run).fit(X)
            cpu = time.process_time() - began
            cosine = cosines(phi, model.components_).max(axis=1)
            found.append(
                {
                    "mutations": n,
                    "per_cell": float(per_cell),
                    "sampler": sampler,
                    "sweeps": sweeps,
                    "cpu": cpu,
                    "agree": bool(model.converged_),
                    "found": int((cosine > 0.95).sum()),
                    "n_topics": int((model.topic_shares_ > 0.005).sum()),
                }
            )
            print(found[-1], flush=True)
            sweeps = 150 if sampler == "blocked" else int(150 * cpu / found[-2]["cpu"])
    return found


def size(arrays):
    return sum(array.nbytes for array in arrays)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fits", action="store_true")
    if parser.parse_args().fits:
        save("large_counts", {**saved("large_counts"), "fits": fits()})
        return
    import numpy as np
    from scipy.sparse import csr_array

    from hdp_nb.corpora.corpus import Corpus
    from hdp_nb.topics.blocked import BlockedSampler
    from hdp_nb.topics.direct import DirectSampler
    from hdp_nb.topics.parallel import ParallelSampler

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
        row |= predictions(sampler, state, rng.multinomial(n, pi[:100] @ phi))
        rows.append(row)
        print(row, flush=True)
        save("large_counts", {**saved("large_counts"), "machine": machine(), "rows": rows})
    heads = ["mutations", "cells", "blocked", "direct", "parallel"]
    table(heads, [[f"{row[h]:.3g}" if h in row else "" for h in heads] for row in rows])


if __name__ == "__main__":
    main()
