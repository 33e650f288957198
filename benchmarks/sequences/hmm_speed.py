"""How many steps per second the HDP-HMM's samplers and EM make, on one core; hmmlearn's EM and
pyhsmm's weak limit beside ours where they can be had.

    python -m benchmarks.sequences.hmm_speed [--quick] [--pyhsmm PYTHON]
    python -m benchmarks.sequences.hmm_speed --memory

The second measures what fits of a million steps of ten states hold at most, two chains side by side
and a process for each: `HDPHMM` by two samplers, with and without moves, a dozen sweeps.

CPU time of whole sweeps with all hyperparameters, on letters (27 symbols) emitted by a hundred
states. EM: iterations at K = 30 on the same
letters, the two taking turns.

pyhsmm is older than our Python. Its last release, 0.1.7, was built with Python 3.8 and `pip install
--no-build-isolation pyhsmm` after
`pip install "setuptools<60" wheel "cython<3" "numpy<1.24" "scipy<1.11" "matplotlib<3.8" future six
nose pybasicbayes`; its setup.py fetches the
headers of Eigen from an address that is gone, and must be handed a copy (3.4.0 will do). PYTHON is
that interpreter: it gets the same letters and
the same states to begin from.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.common import (
    forget_peak,
    here,
    in_environment,
    machine,
    memory,
    peak_memory,
    save,
    saved,
    table,
    this_script,
)


def letters(T, K=100, V=27):
    "States and symbols of a chain with sparse rows and sparse emissions."
    import numpy as np

    rng = np.random.default_rng(0)
    p, phi, z, u = (
        rng.dirichlet(np.full(K, 0.1), K).cumsum(1),
        rng.dirichlet(np.full(V, 0.1), K).cumsum(1),
        np.zeros(T, int),
        rng.random((T, 2)) * 0.999999,
    )
    for t in range(1, T):
        z[t] = np.searchsorted(p[z[t - 1]], u[t, 0])
    return z, np.array([np.searchsorted(phi[k], r) for k, r in zip(z, u[:, 1])])


def sweeps(method, z, x, n):
    "(states, millions of steps per second)."
    import numpy as np

    from hdp_nb.sequences.emissions import symbols
    from hdp_nb.sequences.samplers import HMMSampler, check_sequences

    sampler = HMMSampler(
        symbols,
        *check_sequences(x, None, "categorical", None, 27, 0.1),
        method,
        5.0,
        5.0,
        eta_prior=(1, 1),
        init=z,
        max_states=100,
    )
    rng, seconds = np.random.default_rng(0), []
    state, _ = sampler.sweep(rng, sampler.init(rng))
    for _ in range(n):
        start = time.process_time()
        state, info = sampler.sweep(rng, state)
        seconds.append(time.process_time() - start)
    return info["n_states"], len(x) / statistics.median(seconds) / 1e6


def em(x, n, K=30):
    """Millions of steps per second of an EM iteration, ours and hmmlearn's in turns; and by how
    much the new transition matrices differ at most.
    """
    import numpy as np
    from hmmlearn.hmm import CategoricalHMM

    from hdp_nb.sequences.finite import FiniteHMM
    from hdp_nb.sequences.samplers import check_sequences

    model = FiniteHMM(K, method="ml", n_symbols=27)
    _, sequences = check_sequences(x, None, "categorical", None, 27)
    rng, seconds = np.random.default_rng(0), {"hdp_nb": [], "hmmlearn": []}
    theta = [rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K), rng.dirichlet(np.ones(27), K)]
    for i in range(n + 1):  # the first compiles
        other = CategoricalHMM(
            K, n_iter=1, tol=-np.inf, init_params="", implementation="scaling", n_features=27
        )
        other.startprob_, other.transmat_, other.emissionprob_ = theta
        start = time.process_time()
        _, counts = model._expect(theta, sequences, sequences.data)
        theta_new = [model._parameters(c, 0.0) for c in counts]
        middle = time.process_time()
        other.fit(x[:, None])
        if i:
            seconds["hdp_nb"].append(middle - start)
            seconds["hmmlearn"].append(time.process_time() - middle)
    return {name: len(x) / statistics.median(s) / 1e6 for name, s in seconds.items()}, float(
        abs(other.transmat_ - theta_new[1]).max()
    )


PYHSMM = """
import sys, time
import numpy as np, scipy.misc, scipy.special
scipy.misc.logsumexp = scipy.special.logsumexp          # it moved
import pyhsmm
z, x = np.load(sys.argv[1])
states = [pyhsmm.distributions.Categorical(alpha_0=2.7, K=27) for _ in range(100)]
model = pyhsmm.models.WeakLimitHDPHMM(alpha_a_0=1., alpha_b_0=1., gamma_a_0=1., gamma_b_0=1.,
                                      init_state_concentration=1., obs_distns=states)
model.add_data(x, stateseq=z.astype(np.int32))
seconds = []
for _ in range(int(sys.argv[2]) + 1):
    start = time.process_time()
    model.resample_model()
    seconds.append(time.process_time() - start)
print(len(x)/np.median(seconds[1:])/1e6)
"""


def pyhsmm(python, z, x, n):
    """Millions of steps per second of pyhsmm's weak limit of 100 states, measured by the
    interpreter that has it.
    """
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/letters.npy", np.array([z, x]))
        out = subprocess.run(
            [python, "-c", PYHSMM, f"{folder}/letters.npy", str(n)],
            check=True,
            capture_output=True,
            text=True,
        )
    return float(out.stdout.split()[-1])


LARGE = [(method, moves) for method in ("direct", "weak_limit") for moves in (0, "auto")]


def large_fit(method, moves, n_steps, n_iter):
    "One fit of `HDPHMM`: prints what it held as JSON."
    import warnings

    from hdp_nb import HDPHMM

    warnings.simplefilter("ignore")
    x, options = letters(n_steps, K=10)[1], dict(moves=moves, n_symbols=27, random_state=0)
    HDPHMM(sampler=method, n_iter=12, burn_in=2, max_states=20, **options).fit(x[:500])  # compiles
    forget_peak()
    found, begin = {"before": memory()}, time.process_time()
    model = HDPHMM(sampler=method, n_iter=n_iter, burn_in=2, max_states=20, **options).fit(x)
    found |= {"peak": peak_memory(), "states": model.n_states_}
    found["seconds"] = (time.process_time() - begin) / (2 * n_iter)
    print(json.dumps({name: round(value, 2) for name, value in found.items()}))


def large(n_steps, n_iter):
    "A row for each sampler, with and without moves."
    rows = []
    for method, moves in LARGE:
        command = [
            sys.executable,
            *this_script(),
            "--run",
            method,
            str(moves),
            str(n_steps),
            str(n_iter),
        ]
        out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        rows.append({"method": method, "moves": str(moves), **json.loads(out)})
    save("hmm", saved("hmm") | {"large": {"machine": machine(), "steps": n_steps, "rows": rows}})
    table(list(rows[0]), [list(row.values()) for row in rows])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and sweeps")
    parser.add_argument("--pyhsmm", metavar="PYTHON", help="an interpreter that has pyhsmm")
    parser.add_argument("--memory", action="store_true", help="of fits of a million steps")
    parser.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    here(parser)
    args = parser.parse_args()
    if args.run:
        method, moves, *numbers = args.run
        return large_fit(method, moves if moves == "auto" else int(moves), *map(int, numbers))
    if args.memory:
        return large(1_000_000, 12)
    in_environment(args)
    T, n = (20_000, 3) if args.quick else (100_000, 7)
    z, x = letters(T)
    rows = [
        (f"sweep, {method}", *sweeps(method, z, x, n))
        for method in ("direct", "beam", "weak_limit")
    ]
    if args.pyhsmm:
        rows.append(("sweep, weak_limit of pyhsmm", 100, pyhsmm(args.pyhsmm, z, x, n)))
    speed, difference = em(x, n)
    rows += [("EM", 30, speed["hdp_nb"]), ("EM of hmmlearn", 30, speed["hmmlearn"])]
    save(
        "hmm",
        (saved("hmm") or {})
        | {
            "machine": machine(),
            "steps": T,
            "repeats": n,
            "difference": difference,
            "rows": [
                {"what": name, "states": K, "millions": float(f"{million:.3g}")}
                for name, K, million in rows
            ],
        },
    )
    print(
        f"{T:,} steps, median of {n}; largest difference of the two new transition matrices:"
        f" {difference:.1e}"
    )
    table(
        ["", "states", "million steps per second"],
        [(name, K, f"{million:.3g}") for name, K, million in rows],
    )


if __name__ == "__main__":
    main()
