"""States of movement: step lengths and turning angles.

    python -m benchmarks.sequences.movement [--seeds 0 1 2] [--steps 1500] [--peers]

Planted are three states that last twenty steps on the average: at rest, searching, and travelling.
Steps are gamma distributed, with means 20, 100 and 300, turning angles von Mises. Of a default fit
of `HDPHMM` with `{"step": "gamma", "angle": "von_mises"}`: states that hold at least 1% of the
steps, adjusted Rand index, accuracy of the best matching of states, the verdict and CPU seconds.
Beside it the accuracy of the most probable path given the planted parameters, and the same fit with
`"normal"` for both columns. With `--peers`, which goes on from the file, hmmlearn's Gaussian HMM,
the number of states by BIC from 1 to 8 over three starts. The table is results/movement.json, in
which fits of another number of steps stand apart, and are of the default only.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved
from benchmarks.sequences.measurements import accuracy, best_path, chain, staying, tell

MEANS, SHAPES = (20.0, 100.0, 300.0), (1.2, 2.5, 5.0)
DIRECTIONS, CONCENTRATIONS = (3.14, 0.0, 0.0), (0.5, 1.0, 6.0)
OURS = {"step": "gamma", "angle": "von_mises"}
PLAIN = {("step", "angle"): "normal"}


def draw(seed, steps):
    "A frame, planted states, and the accuracy of the best path."
    import numpy as np
    import pandas as pd
    from scipy import stats

    rng, P = np.random.default_rng(seed), staying(3, 0.95)
    z, mean, shape = chain(rng, steps, P), np.array(MEANS), np.array(SHAPES)
    mu, kappa = np.array(DIRECTIONS), np.array(CONCENTRATIONS)
    step, angle = rng.gamma(shape[z], (mean / shape)[z]), rng.vonmises(mu[z], kappa[z])
    log_f = stats.gamma.logpdf(step[:, None], shape, scale=mean / shape)
    log_f += stats.vonmises.logpdf(angle[:, None], kappa, mu)
    path = best_path(np.ascontiguousarray(log_f), P, [steps])
    return pd.DataFrame({"step": step, "angle": angle}), z, accuracy(z, path)


def study(seed, steps, emission):
    "One fit by default."
    from hdp_nb import HDPHMM

    X, z, told = draw(seed, steps)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDPHMM(emission=emission, random_state=seed, n_jobs=1).fit(X)
    spent = round(time.process_time() - began, 1)
    grade = model.verdict_.grade
    return tell(z, model.labels_) | {"told": round(told, 3), "grade": grade, "cpu": spent}


def peer(seed, steps):
    "hmmlearn by BIC, on columns of variance 1."
    from hmmlearn.hmm import GaussianHMM

    X, z, told = draw(seed, steps)
    X, began = (X / X.std()).to_numpy(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            GaussianHMM(k, "full", n_iter=200, random_state=start).fit(X)
            for k in range(1, 9)
            for start in range(3)
        ]
        labels = min(fits, key=lambda fit: fit.bic(X)).predict(X)
    return tell(z, labels) | {"told": round(told, 3), "cpu": round(time.process_time() - began, 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    found = saved("movement") or {"machine": machine(), "steps": args.steps, "fits": {}}
    for seed in args.seeds:
        usual = args.steps == found["steps"]
        fits = found.setdefault("fits" if usual else f"{args.steps} steps", {})
        fits = fits.setdefault(str(seed), {})
        if args.peers:
            fits["peer"] = peer(seed, args.steps)
        else:
            fits["default"] = study(seed, args.steps, OURS)
            print(seed, fits["default"], flush=True)
            if usual and seed == args.seeds[0]:
                fits["plain"] = study(seed, args.steps, PLAIN)
        print(seed, fits, flush=True)
        save("movement", found)
