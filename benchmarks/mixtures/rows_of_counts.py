"""Fits of rows of counts by DP mixtures, and what a row costs a sweep.

    python -m benchmarks.mixtures.rows_of_counts [--sweeps 20]

Two tables: scikit-learn's digits, 1,797 rows of 64 counts, and 2,000 sparse rows of 5,000 columns,
40 words each of one of twenty distributions. Of a fit by `DPMixture` with its defaults: CPU
seconds once kernels are compiled, clusters, adjusted Rand index beside the labels. Of a sweep
over the fitted clusters: nanoseconds per entry that is not 0 and component, with the tables of
notebook 03_mixtures/11_count_tables and without, in turns.
"""

import argparse
import time
import warnings
from dataclasses import replace

import numpy as np

from benchmarks.common import machine, save, table


def tables():
    "Name, rows and labels of each table."
    from sklearn.datasets import load_digits

    digits, rng = load_digits(), np.random.default_rng(0)
    yield "digits", digits.data.astype(int), digits.target
    words, z = rng.dirichlet(np.full(5000, 0.05), 20), rng.integers(20, size=2000)
    yield "wide", np.stack([rng.multinomial(40, words[k]) for k in z]), z


def fit(X, labels):
    "A fit with all defaults; what is noted of it."
    from sklearn.metrics import adjusted_rand_score

    from hdp_nb import DPMixture

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        DPMixture("multinomial", n_iter=20, random_state=0).fit(X[:100])  # compiles
        began = time.process_time()
        model = DPMixture("multinomial", random_state=0).fit(X)
        seconds = time.process_time() - began
    found = {
        "seconds": seconds,
        "components": model.n_components_,
        "ari": adjusted_rand_score(labels, model.labels_),
        "converged": bool(model.converged_),
    }
    return found, model.labels_


def sweeps(X, z, n):
    "Median CPU nanoseconds of a sweep, per entry and component, with and without the tables."
    from hdp_nb.mixtures.dp import DPMixtureSampler
    from hdp_nb.mixtures.likelihood import multinomial

    prior, ns = multinomial.default_prior(X), {"tables": [], "columns": []}
    likelihoods = {"tables": multinomial, "columns": replace(multinomial, packing=None)}
    runs = {}
    for name, fam in likelihoods.items():
        sampler = DPMixtureSampler(fam, X, prior)
        runs[name] = sampler, sampler.state(z), np.random.default_rng(0)
    for _ in range(n + 1):
        for name, (sampler, state, rng) in runs.items():
            began = time.process_time()
            state, info = sampler.sweep(rng, state)
            took = time.process_time() - began
            runs[name] = sampler, state, rng
            ns[name].append(1e9 * took / np.count_nonzero(X) / info["n_components"])
    (_, one, _), (_, other, _) = runs.values()
    assert (one.z == other.z).all()  # the same chain
    return {name: float(np.median(took[1:])) for name, took in ns.items()}  # the first compiles


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sweeps", type=int, default=20)
    options = parser.parse_args()
    found, rows = {"machine": machine(), "tables": {}}, []
    for name, X, labels in tables():
        run, z = fit(X, labels)
        run |= {"rows": len(X), "columns": X.shape[1], "entries": np.count_nonzero(X) / len(X)}
        run["ns"] = sweeps(X, z, options.sweeps)
        found["tables"][name] = run
        save("rows_of_counts", found)
        cells = [f"{run['seconds']:.1f}", run["components"], f"{run['ari']:.3f}"]
        cells += [f"{run['ns'][form]:.2f}" for form in ("tables", "columns")]
        rows.append([name, *cells])
    table(["table", "s", "clusters", "ARI", "ns, tables", "ns, columns"], rows)


if __name__ == "__main__":
    main()
