"""Dwell times with a law of their own: do their intervals hold, and is the path better known?

    python -m benchmarks.sequences.durations [--seeds 10] [--first 0] [--both 5] [--geometric 3]
        [--steps 2500] [--sweeps 1000]

Planted: four states whose visits last one step and a negative binomial number more, with means of
20 to 40 and shapes 4 to 8 that each seed draws anew, and which emit normal numbers 1.5 standard
deviations apart. `HDPHMM(emission="normal")` with its defaults and the whole series (and with fewer
sweeps, where --sweeps says so), with duration="negative_binomial" for all seeds and "geometric" for
the first of them: what share of the
90% intervals of `dwell_times` holds the truth, of the laws' mean, standard deviation and shape; and
how many steps are in the right state, beside the most probable states by the true parameters.
`geometric`: the same with geometric visits, fitted both ways, for what the wider model loses. One
core. Runs that are in results/durations.json already are not made again.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved, table

K, APART = 4, 1.5
KINDS = ("negative_binomial", "geometric")


def draw(kind, seed, n, part=0):
    "Observations, states, shapes and probabilities of staying in a stage, transitions."
    import numpy as np

    rng = np.random.default_rng([seed, 60])
    mean, r = rng.uniform(20, 40, K), rng.integers(4, 9, K)
    if kind == "geometric":
        r = np.ones(K, int)
    q = (mean - 1) / (mean - 1 + r)
    p = rng.dirichlet(np.full(K, 2.0), K)
    np.fill_diagonal(p, 0.0)
    p /= p.sum(axis=1, keepdims=True)
    rng = np.random.default_rng([seed, 61, part])  # other visits by the same laws
    z, k = [], rng.integers(K)
    while len(z) < n:
        z += [k] * int(1 + rng.negative_binomial(r[k], 1 - q[k]))
        k = rng.choice(K, p=p[k])
    z = np.array(z[:n])
    return rng.normal(APART * z, 1.0), z, r, q, p


def told(x, z, r, q, p):
    "Share of steps that are right by the most probable states, given the true parameters."
    import numpy as np

    from hdp_nb.sequences.stages import Stages, forward_stages, lay_stages, smooth_stages

    S = int(r.sum())
    at, enter, begin = np.zeros(K + 1, np.int64), np.empty(S), np.empty(S)
    lay_stages(r.astype(np.int64), q, K, at, enter, begin)
    stages = Stages(np.full(K, 1 / K), p, r.astype(np.int64), q, at, enter, begin)
    f = np.exp(-((x[:, None] - APART * np.arange(K)) ** 2) / 2)
    messages, proba, offsets = np.zeros((len(x), S)), np.empty_like(f), np.array([0, len(x)])
    forward_stages(stages, f, offsets, messages, np.empty(len(x)))
    smooth_stages(stages, f, offsets, messages, proba)
    return float((proba.argmax(axis=1) == z).mean())


def matched(labels, z):
    "The state that is shown for each true one, -1 for none, and the share of steps in these."
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    both = np.zeros((K, max(K, labels.max() + 1)), int)
    np.add.at(both, (z, labels), 1)
    own, shown = linear_sum_assignment(-both)
    found = np.where(both[own, shown] > 0, shown, -1)
    return found, float(both[own, shown].sum() / len(z))


def one(kind, duration, seed, n, sweeps):
    "A series fitted, and what it says of dwell times."

    from hdp_nb import HDPHMM
    from hdp_nb.sequences.durations import mean_dwell, sd_dwell

    x, z, r, q, p = draw(kind, seed, n)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the numbers below say what it is worth
        options = {"n_iter": sweeps, "random_state": seed, "n_jobs": 1}
        model = HDPHMM(emission="normal", duration=duration, **options)
        model.fit(x[:, None])
    seconds = time.process_time() - began
    found, right = matched(model.labels_, z)
    out = {
        "states": int(model.n_states_),
        "grade": model.verdict_.grade,
        "right": right,
        "told": told(x, z, r, q, p),
        "seconds": round(seconds, 1),
    }
    out["score"] = float(model.score(draw(kind, seed, n, 1)[0][:, None], method="plug-in") / n)
    if duration == "negative_binomial":
        laws, truth = model.dwell_times().law, {}
        truth["law_mean"], truth["law_sd"], truth["shape"] = mean_dwell(r, q), sd_dwell(r, q), r
        for name, true in truth.items():
            low, high = laws[f"{name}_low"], laws[f"{name}_high"]
            out[name] = [
                [float(true[k]), *((low[j], laws[name][j], high[j]) if j >= 0 else ())]
                for k, j in enumerate(found.tolist())
            ]
    return out


def held(runs, name):
    "How many intervals hold the truth, and of how many."
    rows = [row for run in runs for row in run[name]]
    return sum(len(row) == 4 and row[1] <= row[0] <= row[3] for row in rows), len(rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--both", type=int, default=5, help="seeds fitted both ways")
    parser.add_argument("--geometric", type=int, default=3, help="seeds of geometric visits")
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--sweeps", type=int, default=1000)
    args = parser.parse_args()
    found = saved("durations") or {"runs": {}}
    both = args.first + args.both
    todo = [("negative_binomial", d, s) for s in range(args.first, both) for d in KINDS]
    todo += [("negative_binomial", KINDS[0], s) for s in range(both, args.seeds)]
    todo += [("geometric", d, s) for s in range(args.geometric) for d in KINDS]
    for kind, duration, seed in todo:
        name = f"{kind} visits, {duration}, seed {seed}, {args.steps} steps, {args.sweeps} sweeps"
        if name not in found["runs"]:
            found["runs"][name] = one(kind, duration, seed, args.steps, args.sweeps)
            found["machine"] = machine()
            save("durations", found)
        run = found["runs"][name]
        print(name, {k: v for k, v in run.items() if not isinstance(v, list)}, flush=True)
    fitted = lambda kind, d: [
        run for name, run in found["runs"].items() if name.startswith(f"{kind} visits, {d},")
    ]
    for kind in KINDS:
        rows = [
            [d, len(runs), *(f"{sum(r[c] for r in runs) / len(runs):.4f}" for c in columns)]
            for columns in [("right", "told", "score")]
            for d in KINDS
            if (runs := fitted(kind, d))
        ]
        print(f"\n{kind} visits")
        table(["duration", "seeds", "right", "told", "score"], rows)
        if runs := fitted(kind, "negative_binomial"):
            print({name: held(runs, name) for name in ("law_mean", "law_sd", "shape")})


if __name__ == "__main__":
    main()
