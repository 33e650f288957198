"""What levels cost: seconds of a Gibbs sweep over the State of the Union addresses, with more and
more nodes between the corpus and its passages.

    python -m benchmarks.topics.tree_speed [--quick]

CPU time of whole sweeps, on one core. All samplers begin with the same 100 random topics and take
turns, so that a machine whose speed drifts slows
all of them; a ratio is the median over the turns of a sweep's time by that of the sampler for two
levels (the direct one, which knows no trees).
"""

import argparse
import os
import platform
import time

import numba
import numpy as np

from hdp_nb.corpora.readers import load_corpus
from hdp_nb.topics.direct import DirectSampler
from hdp_nb.topics.tree import TreeSampler


def samplers(corpus):
    z = np.random.default_rng(0).integers(100, size=corpus.n_tokens)
    yield "two levels, direct sampler", DirectSampler(corpus, eta=0.1, init=z)
    for levels in ([], ["period"], ["period", "president"], ["period", "president", "speech"]):
        name = (
            f"{['two', 'three', 'four', 'five'][len(levels)]} levels:"
            f" {' > '.join(['corpus', *levels, 'passage'])}"
        )
        yield name, TreeSampler(corpus, levels, eta=0.1, init=z)
    yield (
        f"{name}; a concentration for every node",
        TreeSampler(corpus, levels, eta=0.1, init=z, per_node=True),
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sweeps")
    burn_in, n = (5, 5) if parser.parse_args().quick else (40, 41)
    names, kinds = zip(*samplers(load_corpus("sotu")))
    rngs = [np.random.default_rng(0) for _ in kinds]
    states = [sampler.init(rng) for sampler, rng in zip(kinds, rngs)]
    seconds = np.zeros((burn_in + n, len(kinds)))
    for turn in seconds:
        for i, (sampler, rng) in enumerate(zip(kinds, rngs)):
            start = time.process_time()
            states[i], _ = sampler.sweep(rng, states[i])
            turn[i] = time.process_time() - start
    seconds = seconds[burn_in:]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy"
        f" {np.__version__}, numba {numba.__version__}; medians of {n} sweeps after {burn_in}\n"
    )
    print("| sampler | nodes | K | ms per sweep | ratio |\n|---|---|---|---|---|")
    for name, sampler, state, own, ratio in zip(
        names,
        kinds,
        states,
        np.median(seconds, axis=0),
        np.median(seconds / seconds[:, :1], axis=0),
    ):
        print(
            f"| {name} | {len(getattr(sampler, 'nodes', [0]))} | {state.K} | {1000 * own:.0f} |"
            f" {ratio:.2f} |"
        )


if __name__ == "__main__":
    main()
