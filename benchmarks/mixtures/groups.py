"""Rows in groups that share clusters: found from any start, weights of groups, time, beside a peer.

    python -m benchmarks.mixtures.groups [--only starts intervals peers] [--seeds 5] [--fits 60]

`starts`: eight normal clusters in three columns, 12 groups of 500 rows, shares by group, the rarest
cluster .2% of all rows. `HDPMixture`, one chain of 1,000 sweeps that begins with one, eight and a
hundred clusters, five seeds of data each: which of the planted clusters are found (one for one, in
a component of which it is the most, with most of its rows), components beside these of more than
.1% of the rows, in the clustering that is shown and in the consensus of the chain's samples, and
CPU seconds. `intervals`: groups drawn from the model itself, four clusters far apart, 10 groups of
5 to 59 rows: how many of the 90% intervals of group weights hold them, over all weights, and by
whether these are below .05. `peers`: the default fit, of two chains, beside scikit-learn's
BayesianGaussianMixture (a Dirichlet process prior, 30 components) and `DPMixture` on the rows of
all groups together, on data that overlap more: adjusted Rand index, F1 of the rarest cluster,
components above .1%, mean log density of as many new rows of the same groups, and CPU seconds. One
core. Results go to results/groups.json; what is there already and not asked for stays.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved, table

SHAPE = dict(n_groups=12, n_rows=500, rarest=0.002)
STARTS = 1, 8, 100
SWEEPS = 1000
LEAST = 0.001  # of all rows; a cluster that has fewer is not counted


def draw_kinds(rng, shares, n_rows, rarest):
    "Kinds of the rows of groups, the last one put in at random."
    import numpy as np

    kind = np.concatenate([rng.choice(len(p), n_rows, p=p) for p in shares])
    kind[rng.choice(len(kind), round(rarest * len(kind)), replace=False)] = len(shares[0])
    return kind


def planted(seed, distance, n_groups, n_rows, rarest, n_sets=1):
    "Sets of rows of eight kinds at the corners of a cube, with group and kind of each."
    import numpy as np

    rng = np.random.default_rng([seed, 61])
    corners = np.array(np.meshgrid(*3 * [[0, distance]])).reshape(3, -1).T
    shares, spread = rng.dirichlet(np.ones(7), n_groups), rng.uniform(0.6, 1.4, (8, 3))
    group, sets = np.repeat(np.arange(n_groups), n_rows), []
    for _ in range(n_sets):
        kind = draw_kinds(rng, shares, n_rows, rarest)
        X = corners[kind] + spread[kind] * rng.normal(size=(len(kind), 3))
        sets.append((X, group, kind))
    return sets


def compare(kind, z):
    "How many planted kinds have a component of their own, and what else there is."
    import numpy as np

    table = np.zeros((kind.max() + 1, z.max() + 1), int)
    np.add.at(table, (kind, z), 1)
    of_kind, of_component = table.argmax(axis=1), table.argmax(axis=0)
    own = of_component[of_kind] == np.arange(len(table))
    most = table.max(axis=1) > 0.5 * table.sum(axis=1)
    large = np.flatnonzero(table.sum(axis=0) > LEAST * len(z))
    hits = table[-1, of_kind[-1]]
    return {
        "found": int((own & most).sum()),
        "extra": int(len(set(large.tolist()) - set(of_kind[own].tolist()))),
        "components": int((table.sum(axis=0) > 0).sum()),
        "f1_rarest": float(2 * hits / (table[-1].sum() + table[:, of_kind[-1]].sum())),
    }


def start(seed, k):
    "One fit from k clusters."
    import numpy as np

    from hdp_nb import HDPMixture

    [(X, group, kind)] = planted(seed, 7, **SHAPE)
    model = HDPMixture("normal", init=k, n_iter=SWEEPS, n_chains=1, random_state=seed)
    began = time.process_time()
    model.fit(X, groups=group)
    seconds = time.process_time() - began
    consensus = model.consensus()
    shares = consensus.shares[: consensus.n_components]
    return {
        "seconds": seconds,
        "consensus": int((shares > LEAST).sum()),
        "mean_components": float(np.mean(model.trace_["n_components"][SWEEPS // 2 :])),
        **compare(kind, model.labels_),
    }


def intervals(seed, n_kinds=4, n_groups=10):
    "Of one fit: whether each interval holds its weight, and the weights."
    import numpy as np

    from hdp_nb import HDPMixture

    rng = np.random.default_rng([seed, 62])
    alpha, beta = rng.gamma(3, 1), rng.dirichlet(np.ones(n_kinds))
    weights, sizes = rng.dirichlet(alpha * beta + 1e-3, n_groups), rng.integers(5, 60, n_groups)
    group = np.repeat(np.arange(n_groups), sizes)
    kind = np.concatenate([rng.choice(n_kinds, n, p=p) for n, p in zip(sizes, weights)])
    X = 12.0 * kind[:, None] + rng.normal(size=(len(kind), 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so short a run may not agree
        model = HDPMixture("normal", n_iter=200, random_state=seed).fit(X, groups=group)
    low, high = model.group_weight_interval()
    seen = np.unique(kind)
    of = [np.bincount(model.labels_[kind == k]).argmax() for k in seen]
    true = weights[:, seen]
    inside = (low[:, of] <= true) & (true <= high[:, of])
    return inside.ravel().tolist(), true.ravel().tolist()


def peers(seed):
    "The same overlapping rows by three models."
    from sklearn.metrics import adjusted_rand_score
    from sklearn.mixture import BayesianGaussianMixture

    from hdp_nb import DPMixture, HDPMixture

    (X, group, kind), (new, of, _) = planted(seed, 4, **SHAPE, n_sets=2)
    models = {
        "HDPMixture": HDPMixture("normal", n_iter=400, n_jobs=1, random_state=seed),
        "DPMixture": DPMixture("normal", n_iter=400, n_jobs=1, random_state=seed),
        "BayesianGaussianMixture": BayesianGaussianMixture(
            n_components=30,
            weight_concentration_prior_type="dirichlet_process",
            max_iter=1000,
            random_state=seed,
        ),
    }
    found = {}
    for name, model in models.items():
        groups, new_groups = ({"groups": g} if name == "HDPMixture" else {} for g in (group, of))
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that chains do not agree, which is noted
            model.fit(X, **groups)
        seconds, z = time.process_time() - began, model.predict(X, **groups)
        found[name] = {
            "seconds": seconds,
            "ari": float(adjusted_rand_score(kind, z)),
            "score": float(model.score(new, **new_groups)),
            "converged": bool(model.converged_),
            **compare(kind, z),
        }
    return found


def note(name, found):
    "Save what was found, beside what is there already."
    save("groups", {**saved("groups"), "machine": machine(), name: found})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parts = ["starts", "intervals", "peers"]
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fits", type=int, default=60)
    options = parser.parse_args()

    if "starts" in options.only:
        start(99, 8)  # compiles
        found = {f"{k}, {seed}": start(seed, k) for k in STARTS for seed in range(options.seeds)}
        note("starts", found)
        table(["start, seed", *found["1, 0"]], [[n, *f.values()] for n, f in found.items()])
    if "intervals" in options.only:
        pairs = [intervals(seed) for seed in range(options.fits)]
        inside, true = (sum((pair[i] for pair in pairs), []) for i in range(2))
        rates = {
            name: [sum(inside[i] for i in which), len(which)]
            for name, which in {
                "all": range(len(true)),
                "below .05": [i for i, w in enumerate(true) if w < 0.05],
                "above .05": [i for i, w in enumerate(true) if w >= 0.05],
            }.items()
        }
        note("intervals", rates)
        print({name: f"{held / n:.3f} of {n}" for name, (held, n) in rates.items()})
    if "peers" in options.only:
        peers(99)  # compiles
        found = {str(seed): peers(seed) for seed in range(options.seeds)}
        note("peers", found)
        for seed, models in found.items():
            for name, row in models.items():
                print(seed, name, row)


if __name__ == "__main__":
    main()
