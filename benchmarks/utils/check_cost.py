"""What checking costs: a state when a checkpoint is loaded, and each kept sample, beside a sweep.

    python -m benchmarks.utils.check_cost

On the addresses in data/, by every topic sampler and in a tree of decades, from fifty topics, after
twenty sweeps without moves. The best of five. Results: benchmarks/results/check_cost.json
"""

import argparse
import time

from benchmarks.common import machine, save, table


def cases():
    "{name: sampler}"
    from hdp_nb import HDP, Moves, TreeHDP, load_corpus
    from hdp_nb.corpora.corpus import Corpus
    from hdp_nb.models.topic_models import SAMPLERS

    corpus = load_corpus("sotu")
    plain = dict(moves=0, init=50, n_chains=1)
    for sampler in SAMPLERS:
        yield sampler, HDP(sampler=sampler, moves=Moves(split_merge=0), **plain)._sampler(corpus)
    years = {"decade": [str(label)[:3] for label in next(iter(corpus.groups.values()))]}
    grouped = Corpus(corpus.x, corpus.offsets, corpus.vocab, years)
    yield "tree", TreeHDP(**plain)._sampler(grouped)


def best(call, n=5):
    "Seconds of the fastest of n calls."
    seconds = []
    for _ in range(n):
        began = time.process_time()
        call()
        seconds.append(time.process_time() - began)
    return min(seconds)


def run(sampler):
    import numpy as np

    rng = np.random.default_rng(0)
    state = sampler.init(rng)
    for _ in range(20):
        state, _ = sampler.sweep(rng, state)
    kept = sampler.snapshot(state)
    found = {"state": best(lambda: sampler.check(state)), "kept": best(lambda: sampler.check(kept))}

    def sweep():
        nonlocal state
        state, _ = sampler.sweep(rng, state)

    return {**found, "sweep": best(sweep)}


def main():
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    found = {"machine": machine(), "runs": {name: run(sampler) for name, sampler in cases()}}
    save("check_cost", found)
    head = ["sampler", "sweep, ms", "check of a state", "check of a kept sample"]
    rows = [
        [name, f"{1e3 * r['sweep']:.0f}", *(f"{r[k] / r['sweep']:.3f}" for k in ("state", "kept"))]
        for name, r in found["runs"].items()
    ]
    table(head, rows)


if __name__ == "__main__":
    main()
