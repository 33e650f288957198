"""Forecasts of HDPHMM: do intervals hold, and is the next step better known than by one AR?

    python -m benchmarks.sequences.forecast [--seeds 5] [--steps 3000]

Two kinds of series: `regimes`, an autoregression of first order whose coefficient, level and noise
change with one of three states that last 40 steps; and `plain`, the same without states. Fitted to
the first two thirds. On the rest: the mean log density of a step given all before it, of
`HDPHMM("autoregression")` and of an AR of the same order by least squares, with normal noise and
with Student's; and from every 20th step, what share of the next ten is within the 90% intervals of
`forecast`, by how far ahead. `levels`: the states have levels and no autoregression, `HDPHMM`
("normal"). One core. Results go to results/forecast.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, table

AHEAD, EVERY = 10, 20
KINDS = {"regimes": "autoregression", "plain": "autoregression", "levels": "normal"}


def draw(kind, seed, n):
    "A series."
    import numpy as np

    rng = np.random.default_rng([seed, 71])
    coef, level, noise = [0.9, 0.2, -0.5], [0.0, 2.0, 5.0], [0.3, 1.0, 0.5]
    x, z = np.zeros(n), 0
    for t in range(1, n):
        if kind != "plain" and rng.random() < 1 / 40:
            z = (z + rng.integers(1, 3)) % 3
        past = 0.0 if kind == "levels" else coef[z] * (x[t - 1] - level[z])
        x[t] = level[z] + past + noise[z] * rng.normal()
    return x


def log_densities_of_ar(x, n):
    "Mean log density of the steps from n on, by an AR(1) of those before: normal, and Student's."
    import numpy as np
    from scipy import stats

    past, now = np.column_stack([np.ones(len(x) - 1), x[:-1]]), x[1:]
    coef = np.linalg.lstsq(past[: n - 1], now[: n - 1], rcond=None)[0]
    left = now - past @ coef
    df, at, scale = stats.t.fit(left[: n - 1])
    normal = stats.norm.logpdf(left[n - 1 :], scale=left[: n - 1].std())
    return float(normal.mean()), float(stats.t.logpdf(left[n - 1 :], df, at, scale).mean())


def one(kind, seed, n_steps):
    "A series fitted, and its forecasts."
    import numpy as np

    from hdp_nb import HDPHMM

    x = draw(kind, seed, n_steps)
    n = 2 * n_steps // 3
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the numbers below say what it is worth
        model = HDPHMM(emission=KINDS[kind], random_state=seed).fit(x[:n, None])
    seconds = time.process_time() - began
    score = float(model.score_steps(x[:, None])[n:].mean())
    inside = []
    for end in range(n, n_steps - AHEAD, EVERY):
        ahead = model.forecast(x[:end, None], AHEAD)
        true = x[end : end + AHEAD]
        inside.append((ahead.low[:, 0] <= true) & (true <= ahead.high[:, 0]))
    normal, student = log_densities_of_ar(x, n)
    return {
        "states": int(model.n_states_),
        "seconds": seconds,
        "score": score,
        "ar_normal": normal,
        "ar_student": student,
        "inside": np.mean(inside, axis=0).tolist(),
        "forecasts": len(inside),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3000)
    args = parser.parse_args()
    found = {"machine": machine(), "steps": args.steps}
    for kind in KINDS:
        found[kind] = [one(kind, seed, args.steps) for seed in range(args.seeds)]
        save("forecast", found)
        rows = [
            [seed, f["states"], f"{f['score']:.3f}", f"{f['ar_normal']:.3f}"]
            + [f"{f['ar_student']:.3f}", f"{sum(f['inside']) / AHEAD:.3f}", f"{f['seconds']:.1f}"]
            for seed, f in enumerate(found[kind])
        ]
        print(kind)
        table(["seed", "states", "HDPHMM", "AR", "AR, Student", "inside", "CPU s"], rows)


if __name__ == "__main__":
    main()
