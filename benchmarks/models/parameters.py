"""Do intervals of the parameters of clusters and states hold the truth?

    python -m benchmarks.models.parameters [--data 12] [--only NAME ...]

For every likelihood data of three clusters that hardly overlap are drawn anew for each seed, and
fitted by `DPMixture` and by `HDPHMM` with their defaults (with fewer sweeps). Of every cluster and
every state that the consensus has: does the 90% interval of each of its parameters hold the true
one? The table is results/parameters.json.
"""

import argparse
import time
import warnings

import numpy as np

from benchmarks.common import machine, save, table

N = {"DPMixture": 150, "HDPHMM": 300}
ROUND = np.linspace(0, 2 * np.pi, 4)[:3]


def normal(rng, z, equal=False):
    mean = 12 * np.column_stack([np.cos(ROUND), np.sin(ROUND)]) + rng.normal(size=(3, 2))
    sd = np.ones((3, 2)) if equal else np.exp(rng.normal(0, 0.3, (3, 2)))
    cov = np.array([np.diag(s**2) for s in sd])
    truth = {"mean": mean} if equal else {"mean": mean, "variance": sd**2, "covariance": cov}
    return mean[z] + sd[z] * rng.normal(size=(len(z), 2)), truth


def poisson(rng, z):
    rate = rng.permuted(np.array([[2.0, 30.0, 9.0]] * 4), axis=1).T
    rate[:, 0] = [1, 12, 40]
    return rng.poisson(rate[z]), {"rate": rate}


def words(rng, z, n):
    phi = rng.dirichlet(np.full(9, 0.5), 3) * 0.1
    for k in range(3):
        phi[k, 3 * k : 3 * k + 3] += 0.3
    phi /= phi.sum(axis=1, keepdims=True)
    rows = np.array([rng.multinomial(n, phi[k]) for k in z])
    return (rows if n > 1 else rows.argmax(axis=1)), {"phi": phi}


def dynamics(rng, z):
    coef = np.array([[[0.9]], [[-0.9]], [[0.0]]])
    intercept, sd = np.array([[0.0], [0.0], [8.0]]), np.array([0.5, 0.5, 1.0])
    x = [0.0]
    for k in z[1:]:
        x.append(coef[k, 0, 0] * x[-1] + intercept[k, 0] + sd[k] * rng.normal())
    return np.array(x)[:, None], {
        "coef": coef,
        "intercept": intercept,
        "covariance": (sd**2)[:, None, None],
    }


KINDS = {
    "normal_known_variance": lambda rng, z: normal(rng, z, equal=True),
    "normal_inverse_gamma": normal,
    "normal_inverse_wishart": normal,
    "poisson": poisson,
    "multinomial": lambda rng, z: words(rng, z, 40),
    "categorical": lambda rng, z: words(rng, z, 1),
    "autoregression": dynamics,
}


def path(rng, n, stay):
    "Which cluster each row is of, or which state each step."
    z = rng.integers(3, size=n)
    for t in range(1, n):
        if rng.random() < stay:
            z[t] = z[t - 1]
    return z


def study(model, kind, seed):
    "Of each parameter: how many intervals hold the truth, and how many there are."
    import hdp_nb

    rng = np.random.default_rng([seed, 9])
    z = path(rng, N[model] * (3 if kind == "autoregression" else 1), 0.95 * (model == "HDPHMM"))
    X, truth = KINDS[kind](rng, z)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind_of = {"DPMixture": "likelihood", "HDPHMM": "emission"}[model]
        made = getattr(hdp_nb, model)(**{kind_of: kind}, n_iter=200, random_state=seed)
        found = made.fit(X).consensus()
    counts = {}
    steps = found.documents[:, : found.n_components].argmax(axis=1)
    for l in range(found.n_components):
        mine = z[steps == l]
        if len(mine) < 20:
            continue
        k = np.bincount(mine).argmax()
        for name, real in truth.items():
            if name in found.parameters:
                low, high = found.parameter_interval(name)
                inside = (low[l] <= real[k]) & (real[k] <= high[l])
                if name == "covariance":
                    inside = np.diag(inside)
                noted = counts.setdefault(name, [0, 0])
                noted[0] += int(inside.sum())
                noted[1] += inside.size
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", type=int, default=12, help="sets of data of each kind")
    parser.add_argument("--only", nargs="*", help="names of likelihoods")
    options = parser.parse_args()
    found, rows = {"runs": {}, "machine": machine()}, []
    for kind in options.only or KINDS:
        for model in ("DPMixture", "HDPHMM"):
            if (model, kind) in [("DPMixture", "autoregression"), ("DPMixture", "categorical")]:
                continue  # one symbol a row has no clusters, rows have no past
            began, total = time.process_time(), {}
            for seed in range(options.data):
                for name, counts in study(model, kind, seed).items():
                    total[name] = np.add(total.get(name, 0), counts)
            for name, (inside, n) in total.items():
                key = f"{model}, {kind}, {name}"
                found["runs"][key] = [int(inside), int(n)]
                rows.append([key, f"{inside} of {n}", f"{inside / n:.0%}"])
                print(*rows[-1], round(time.process_time() - began, 1), flush=True)
            save("parameters", found)
    table(["model, likelihood, parameter", "inside", "coverage"], rows)


if __name__ == "__main__":
    main()
