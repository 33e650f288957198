"""Keypoints of animals: syllables as autoregressions, with the glitches of a tracker.

    python -m benchmarks.sequences.keypoints [--seeds 0 1] [--clean]

Planted are six syllables, rotations in four columns, of three animals with 800 frames each; a
syllable lasts twenty frames on the average. Every column has tracking noise of sd .1, and at 1% of
the frames, by `--seeds`, a glitch: all columns are off by Normal numbers of sd 5, for one frame.
Of default fits of `HDPHMM` with `emission="student_autoregression"` and `"autoregression"`: states
that are shown, those that hold at least 1% of the frames, adjusted Rand index, accuracy of the best
matching, the number of states that chains have on the average, the verdict and CPU seconds. With
`--clean`, which goes on from the file, the same without noise and glitches. The table is
results/keypoints.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved
from benchmarks.sequences.measurements import chain, staying, tell

KINDS = ("student_autoregression", "autoregression")
N_STATES, N_COLUMNS, N_FRAMES, N_ANIMALS = 6, 4, 800, 3


def record(seed, glitches=True):
    "Recordings of three animals, and the planted states of all frames."
    import numpy as np

    rng, D = np.random.default_rng(1), N_COLUMNS  # the same movements for every seed
    A, b, sd = [], rng.normal(0, 0.3, (N_STATES, D)), rng.uniform(0.2, 0.5, (N_STATES, D))
    for k in range(N_STATES):
        turn, c, s = 0.95 * np.eye(D), np.cos(0.15 + 0.35 * k), np.sin(0.15 + 0.35 * k)
        turn[:2, :2] = 0.95 * np.array([[c, -s], [s, c]])
        Q = np.linalg.qr(rng.normal(size=(D, D)))[0]
        A.append(Q @ turn @ Q.T)
    parts, states = [], []
    for _ in range(N_ANIMALS):
        z, x = chain(rng, N_FRAMES, staying(N_STATES, 0.95)), np.zeros((N_FRAMES, D))
        for t in range(1, N_FRAMES):
            x[t] = A[z[t]] @ x[t - 1] + b[z[t]] + sd[z[t]] * rng.normal(size=D)
        parts.append(x)
        states.append(z)
    if glitches:
        rng = np.random.default_rng([seed, 7])
        for x in parts:
            x += rng.normal(0, 0.1, x.shape)
            odd = rng.random(N_FRAMES) < 0.01
            x[odd] += rng.normal(0, 5, (odd.sum(), D))
    return parts, np.concatenate(states)


def study(seed, kind, glitches):
    "One fit by default."
    from hdp_nb import HDPHMM

    parts, z = record(seed, glitches)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDPHMM(emission=kind, random_state=seed, n_jobs=1).fit(parts)
    spent, used = round(time.process_time() - began, 1), model.traces_["n_states"]
    out = {"states": model.n_states_, **tell(z, model.labels_), "grade": model.verdict_.grade}
    out["chains"] = used[:, model.burn_in_ :].mean(axis=1).round(1).tolist()
    for name in ("df", "glitch", "times"):
        if name in model.traces_:
            out[name] = round(float(model.traces_[name][:, model.burn_in_ :].mean()), 4)
    return out | {"cpu": spent}


def warm_up(kind):
    "A fit of a few sweeps."
    from hdp_nb import HDPHMM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        HDPHMM(emission=kind, n_iter=12, burn_in=6, moves=2, n_jobs=1, random_state=0).fit(
            record(0)[0]
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--clean", action="store_true")
    args = parser.parse_args()
    found = saved("keypoints") or {"machine": machine(), "glitches": {}, "clean": {}}
    for kind in KINDS:  # kernels are compiled before the clock starts
        warm_up(kind)
    for seed in args.seeds:
        fits = found["clean" if args.clean else "glitches"].setdefault(str(seed), {})
        for kind in KINDS:
            fits[kind] = study(seed, kind, not args.clean)
            print(seed, kind, fits[kind], flush=True)
            save("keypoints", found)
