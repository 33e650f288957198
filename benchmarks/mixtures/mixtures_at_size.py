"""DP mixtures of many rows, by blocks of rows and sub-clusters: what they cost, what they find.

    python -m benchmarks.mixtures.mixtures_at_size [--only plane wide peers crossover]
        [--sweeps 100]

`plane`: a million points in the plane, of twelve normal clusters. `wide`: 100,000 points in 128
dimensions, of 79 clusters. Both from one component, with `--sweeps` sweeps, `--tune` of them (25 in
the plane, 50 in many dimensions, unless it is given) with the moves of a burn-in: CPU seconds,
components, normalised mutual information with the planted clusters, and which of these are together
in one component, saved every five sweeps, so that a run may be stopped. `peers`: scikit-learn's
BayesianGaussianMixture, with a Dirichlet process prior of weights and more components than there
are, on a tenth of `plane` and a twentieth of `wide`, for a few iterations, and the collapsed
sampler on fewer; the seconds are to be scaled by the number of rows. `crossover`: `DPMixture` with
its defaults, on one thread, for 100 sweeps, by either sampler, on 5,000, 20,000 and 50,000 points
in the plane, of twelve clusters that overlap; scored on as many others. One core. Results go to
results/mixtures_at_size.json; what is there already and not asked for stays.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved, table

SHAPES = {  # rows, dimensions, clusters, spread of their centres
    "plane": (1_000_000, 2, 12, 10.0),
    "wide": (100_000, 128, 79, 1.0),
    "crossover": (100_000, 2, 12, 3.0),
}
NESTED = ["peers", "crossover"]  # parts of several runs
SIZES = [5_000, 20_000, 50_000]
TUNE = {"plane": 25, "wide": 50}  # sweeps with the moves of a burn-in


def draw_points(shape):
    "Points, and the clusters they were drawn from."
    import numpy as np

    n, n_dims, n_clusters, spread = SHAPES[shape]
    rng = np.random.default_rng(1)
    shares = rng.dirichlet(np.full(n_clusters, 10.0))
    truth = rng.choice(n_clusters, n, p=shares)
    centres = rng.normal(0, spread, (n_clusters, n_dims))
    shapes = rng.normal(0, 1.2 / np.sqrt(n_dims), (n_clusters, n_dims, n_dims))
    X = np.empty((n, n_dims))
    for k in range(n_clusters):
        rows = np.flatnonzero(truth == k)
        noise = rng.normal(size=(len(rows), n_dims))
        X[rows] = centres[k] + noise @ (shapes[k] + 0.5 * np.eye(n_dims))
    return X, truth


def note(name, found):
    "Save what was found, beside what is there already."
    save("mixtures_at_size", {**saved("mixtures_at_size"), "machine": machine(), name: found})


def agreement(truth, z):
    "Normalised mutual information."
    from sklearn.metrics import normalized_mutual_info_score

    return float(normalized_mutual_info_score(truth, z))


def together(truth, z):
    "Sizes of the planted clusters that have most of their rows in a component with another such."
    import numpy as np

    sizes, home = np.bincount(truth), {}
    for k in np.unique(truth):
        home.setdefault(int(np.bincount(z[truth == k]).argmax()), []).append(int(sizes[k]))
    return [sorted(held) for held in home.values() if len(held) > 1]


def run(shape, options):
    "One chain of the sub-cluster sampler; what is noted of it is saved every five sweeps."
    import numpy as np

    from hdp_nb.mixtures.dp import DPMixtureSampler
    from hdp_nb.mixtures.normal import normal_inverse_wishart as normal
    from hdp_nb.mixtures.subclusters import SubclusterSampler

    tune = TUNE[shape] if options.tune is None else options.tune
    name = shape if tune == TUNE[shape] else f"{shape}, burn-in of {tune}"
    X, truth = draw_points(shape)
    make = lambda X, tune: SubclusterSampler(
        DPMixtureSampler(normal, X, normal.default_prior(X)), tune=tune
    )
    tiny, rng = make(X[:500], 2), np.random.default_rng(0)  # compiles
    state = tiny.init(rng)
    for _ in range(3):
        state, _ = tiny.sweep(rng, state)
    rng, began, scoring = np.random.default_rng(0), time.process_time(), 0.0
    sampler = make(X, tune).start(1)
    state, trace, seconds = sampler.init(rng), [], []
    for sweep in range(1, options.sweeps + 1):
        state, info = sampler.sweep(rng, state)
        trace.append(info)
        seconds.append(time.process_time() - began - scoring)
        if sweep % 5 == 0 or sweep == options.sweeps:
            half = trace[sweep // 2 :]
            found = {
                "rows": len(X),
                "sweeps": sweep,
                "tune": tune,
                "seconds": seconds[-1],
                "seconds_tuning": seconds[:tune][-1],
                "K": [info["n_components"] for info in trace],
                "large": int((state.n_k > 0.001 * len(X)).sum()),
                "true": len(np.unique(truth)),
                "nmi": agreement(truth, state.z),
                "together": together(truth, state.z),
                "log_mixture": float(np.mean([info["log_mixture"] for info in half])) / len(X),
                "shares": [float(np.mean([i[f"share_{j}"] for i in half])) for j in (1, 2, 3)],
            }
            note(name, found)
            scoring = time.process_time() - began - seconds[-1]
            print(f"{name}: {sweep} sweeps, {found['K'][-1]} components, NMI {found['nmi']:.4f}")


def variational(shape, part, n_components, n_iter):
    "scikit-learn's BayesianGaussianMixture on the first rows."
    import numpy as np
    from sklearn.mixture import BayesianGaussianMixture

    X, truth = draw_points(shape)
    X, truth = X[: len(X) // part], truth[: len(X) // part]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged
        model = BayesianGaussianMixture(
            n_components=n_components,
            weight_concentration_prior_type="dirichlet_process",
            max_iter=n_iter,
            tol=0.0,
            random_state=0,
        ).fit(X)
    seconds, z = time.process_time() - began, model.predict(X)
    return {
        "rows": len(X),
        "components": n_components,
        "iterations": int(model.n_iter_),
        "converged": bool(model.converged_),
        "seconds": seconds,
        "large": int((np.bincount(z) > 0.001 * len(X)).sum()),
        "nmi": agreement(truth, z),
    }


def collapsed(shape, n_rows, n_sweeps):
    "The collapsed sampler from the planted clusters; CPU seconds of a sweep."
    import numpy as np

    from hdp_nb.mixtures.dp import DPMixtureSampler
    from hdp_nb.mixtures.normal import normal_inverse_wishart as normal

    X, truth = draw_points(shape)
    X, truth = X[:n_rows], np.unique(truth[:n_rows], return_inverse=True)[1]
    sampler, rng = DPMixtureSampler(normal, X, normal.default_prior(X)), np.random.default_rng(0)
    state, _ = sampler.sweep(rng, sampler.state(truth))  # compiles
    began = time.process_time()
    for _ in range(n_sweeps):
        state, _ = sampler.sweep(rng, state)
    return {"rows": n_rows, "sweeps": n_sweeps, "seconds": time.process_time() - began}


def crossover(n, sampler):
    "A fit of `DPMixture` to n points by one of the samplers, and its score on n others."
    from hdp_nb import DPMixture

    X, truth = draw_points("crossover")
    make = lambda n_iter: DPMixture(
        "normal", sampler=sampler, n_iter=n_iter, n_jobs=1, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that chains do not agree, which is noted
        make(4).fit(X[:500])  # compiles
        began = time.process_time()
        model = make(100).fit(X[:n])
        seconds = time.process_time() - began
    return {
        "rows": n,
        "sweeps": 200,  # of both chains
        "seconds": seconds,
        "nmi": agreement(truth[:n], model.labels_),
        "components": int(model.n_components_),
        "converged": bool(model.converged_),
        "score": float(model.score(X[-n:])),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parts = ["plane", "wide", "peers", "crossover"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--sweeps", type=int, default=100)
    parser.add_argument("--tune", type=int)
    options = parser.parse_args()

    for shape in ("plane", "wide"):
        if shape in options.only:
            run(shape, options)
    if "peers" in options.only:
        peers = {
            "plane, variational": variational("plane", 10, 30, 20),
            "plane, collapsed": collapsed("plane", 20_000, 3),
            "wide, variational": variational("wide", 20, 100, 3),
            "wide, collapsed": collapsed("wide", 1000, 1),
        }
        note("peers", peers)
    if "crossover" in options.only:
        for n in SIZES:
            for sampler in ("collapsed", "subclusters"):
                name = f"{sampler}, {n}"
                note(
                    "crossover",
                    saved("mixtures_at_size").get("crossover", {}) | {name: crossover(n, sampler)},
                )
    columns, rows = ["what", "rows", "CPU s", "us a row and sweep", "large", "NMI"], []
    found = saved("mixtures_at_size")
    runs = {name: run for name, run in found.items() if name not in ("machine", *NESTED)}
    for part in NESTED:
        runs |= found.get(part, {})
    for name, r in runs.items():
        us = 1e6 * r["seconds"] / r["rows"] / r.get("sweeps", r.get("iterations"))
        rest = r.get("large", ""), f"{r['nmi']:.3f}" if "nmi" in r else ""
        rows.append([name, r["rows"], f"{r['seconds']:.1f}", f"{us:.2f}", *rest])
    table(columns, rows)


if __name__ == "__main__":
    main()
