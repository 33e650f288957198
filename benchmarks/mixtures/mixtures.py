"""Whether chains of a DP mixture forget where they began, and what a sweep costs.

    python -m benchmarks.mixtures.mixtures [--dims 2 4 16] [--starts 1 60] [--seeds 2]
        [--sweeps 1000]

Twenty thousand points of eight normal clusters, with the splits, merges and joins that DPMixture
makes by default. Of a chain: P(K) over its second half, the numbers of components in the first 60
sweeps, the shares of the three largest components and those of the true clusters, the log
probability of the points (`log_mixture`), CPU seconds. Runs that are in results/mixtures.json
already are not made again.
"""

import argparse
import itertools
import time

import numpy as np

from benchmarks.common import machine, save, saved, table

N_POINTS, N_CLUSTERS, MOVES = 20_000, 8, 2


def draw_points(n_dims):
    "Points, and the shares of the true clusters, the largest first."
    rng = np.random.default_rng(1)
    centres = rng.normal(0, 3, (N_CLUSTERS, n_dims))
    shapes = rng.normal(0, 1.2 / np.sqrt(n_dims), (N_CLUSTERS, n_dims, n_dims))
    z = rng.integers(N_CLUSTERS, size=N_POINTS)
    noise = rng.normal(size=(N_POINTS, n_dims))
    X = centres[z] + np.einsum("nij,nj->ni", shapes[z] + 0.5 * np.eye(n_dims), noise)
    return X, np.sort(np.bincount(z))[::-1] / N_POINTS


def run(n_dims, start, seed, n_sweeps):
    "One chain; what is noted of it."
    from hdp_nb.mixtures.dp import DPMixtureSampler
    from hdp_nb.mixtures.normal import normal_inverse_wishart as normal
    from hdp_nb.mixtures.split_merge import MixtureMoves

    X, true = draw_points(n_dims)
    make = lambda X: MixtureMoves(DPMixtureSampler(normal, X, normal.default_prior(X)), MOVES)
    tiny, rng = make(X[:50]), np.random.default_rng(0)  # compiles
    state = tiny.init(rng)
    for _ in range(3):
        state, _ = tiny.sweep(rng, state)
    sampler, rng = make(X).start(start), np.random.default_rng(seed)
    began, state, trace = time.process_time(), sampler.init(rng), []
    for _ in range(n_sweeps):
        state, info = sampler.sweep(rng, state)
        trace.append(info)
    seconds, half = time.process_time() - began, n_sweeps // 2
    K = np.array([info["n_components"] for info in trace])
    mean = lambda name: float(np.mean([info[name] for info in trace[half:]]))
    return {
        "K": np.bincount(K[half:]).tolist(),
        "first": K[:60].tolist(),
        "lm": mean("log_mixture"),
        "shares": [mean(f"share_{i}") for i in (1, 2, 3)],
        "true": true[:3].tolist(),
        "seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dims", nargs="+", type=int, default=[2, 4, 16])
    parser.add_argument("--starts", nargs="+", type=int, default=[1, 60])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sweeps", type=int, default=1000)
    options = parser.parse_args()
    found, rows = saved("mixtures") or {"runs": {}}, []
    for d, k, seed in itertools.product(options.dims, options.starts, range(options.seeds)):
        name = f"{d} dimensions, from {k}, seed {seed}"
        if name not in found["runs"]:
            found["runs"][name] = run(d, k, seed, options.sweeps)
            found["machine"] = machine()
            save("mixtures", found)
        r = found["runs"][name]
        n = sum(r["K"])
        often = ", ".join(f"{i}: {c / n:.2f}" for i, c in enumerate(r["K"]) if c > n / 20)
        us = 1e6 * r["seconds"] / options.sweeps / N_POINTS
        rows.append([name, often, f"{r['lm']:.1f}", f"{r['seconds']:.0f}", f"{us:.1f}"])
    table(["chain", "P(K)", "log mixture", "s", "us a point and sweep"], rows)


if __name__ == "__main__":
    main()
