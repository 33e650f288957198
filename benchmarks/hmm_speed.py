"""How many steps per second the HDP-HMM's samplers and EM make, on one core; hmmlearn's EM beside ours if it is installed.

    OPENBLAS_NUM_THREADS=1 python benchmarks/hmm_speed.py [--quick]

CPU time of whole sweeps with all hyperparameters, on letters (27 symbols) emitted by a hundred states. EM: iterations at K = 30 on the same
letters, the two taking turns. A published figure to compare with: pyhsmm's weak limit made 63 thousand steps per second at K = 100 (another machine).
"""
import argparse
import os
import platform
import statistics
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numba                                                    # noqa: E402
import numpy as np                                              # noqa: E402

from hdp_nb.hmm import FiniteHMM, HMMSampler, check_sequences, symbols   # noqa: E402

try:
    import hmmlearn
    from hmmlearn.hmm import CategoricalHMM
except ImportError:
    hmmlearn = None


def letters(T, K=100, V=27):
    "States and symbols of a chain with sparse rows and sparse emissions."
    rng = np.random.default_rng(0)
    p, phi, z, u = rng.dirichlet(np.full(K, .1), K).cumsum(1), rng.dirichlet(np.full(V, .1), K).cumsum(1), np.zeros(T, int), rng.random((T, 2))*.999999
    for t in range(1, T):
        z[t] = np.searchsorted(p[z[t - 1]], u[t, 0])
    return z, np.array([np.searchsorted(phi[k], r) for k, r in zip(z, u[:, 1])])


def sweeps(method, z, x, n):
    "(states, millions of steps per second)."
    sampler = HMMSampler(symbols, *check_sequences(x, None, "categorical", None, 27, .1), method, 5.0, 5.0, eta_prior=(1, 1), init=z, n_states=100)
    rng, seconds = np.random.default_rng(0), []
    state, _ = sampler.sweep(rng, sampler.init(rng))
    for _ in range(n):
        start = time.process_time()
        state, info = sampler.sweep(rng, state)
        seconds.append(time.process_time() - start)
    return info["n_states"], len(x)/statistics.median(seconds)/1e6


def em(x, n, K=30):
    "Millions of steps per second of an EM iteration: ours, hmmlearn's; in turns."
    model = FiniteHMM(K, "ml", n_symbols=27)
    _, sequences = check_sequences(x, None, "categorical", None, 27)
    rng, seconds = np.random.default_rng(0), {"hdp_nb": [], "hmmlearn": []}
    theta = [rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K), rng.dirichlet(np.ones(27), K)]
    for i in range(n + 1):
        start = time.process_time()
        _, counts = model._expect(theta, sequences, sequences.data)
        theta_new = [model._parameters(c, 0.0) for c in counts]
        if i:
            seconds["hdp_nb"].append(time.process_time() - start)
        if hmmlearn:
            other = CategoricalHMM(K, n_iter=1, tol=-np.inf, init_params="", implementation="scaling", n_features=27)
            other.startprob_, other.transmat_, other.emissionprob_ = theta
            start = time.process_time()
            other.fit(x[:, None])
            if i:
                seconds["hmmlearn"].append(time.process_time() - start)
            if i == 0:
                print("largest difference of the new transition matrices:", f"{abs(other.transmat_ - theta_new[1]).max():.1e}")
    return {name: len(x)/statistics.median(s)/1e6 for name, s in seconds.items() if s}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and sweeps")
    T, n = (20_000, 3) if parser.parse_args().quick else (100_000, 7)
    print(f"{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}"
          + (f", hmmlearn {hmmlearn.__version__}" if hmmlearn else "") + f"; {T:,} steps, median of {n}\n")
    z, x = letters(T)
    rows = [("sweep, " + method, *sweeps(method, z, x, n)) for method in ("direct", "beam", "weak_limit")]
    rows += [(f"EM, {name}", 30, speed) for name, speed in em(x, n).items()]
    print("| | states | million steps per second |\n|---|---|---|")
    for name, K, speed in rows:
        print(f"| {name} | {K} | {speed:.2f} |")


if __name__ == "__main__":
    main()
