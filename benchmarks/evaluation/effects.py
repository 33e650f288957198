"""Do intervals of effects hold the true ones, on corpora whose effects are known?

    python -m benchmarks.evaluation.effects [--n 200]

Two shapes of `hdp_nb.evaluation.effects.make_effects`: long documents, and short ones about topics
that are more alike. Every corpus is fitted by two chains of direct assignment of 200 sweeps;
the eight effects of party and year on four topics are estimated by composition, by regression of
the mean proportions as if they were observed, and of the true proportions. Noted are how many are
in their 95% intervals (a corpus counts once: its eight effects are not independent), the slope of
estimates on true effects, the mean standard deviation, and CPU seconds. Seeds that are in
results/effects.json already are not made again.
"""

import argparse
import time
import warnings

from benchmarks.common import cosines, machine, save, saved, table

SHAPES = {
    "long": dict(n_docs=100, doc_len=200),
    "short": dict(n_docs=200, doc_len=60, n_words=30, spread=8.0, eta=0.3),
}
WAYS = ("composition", "plug-in", "known")


def one(shape, seed):
    "Estimates and standard errors of one corpus by all ways, and what it cost."
    import numpy as np
    from scipy.stats import t

    from hdp_nb import HDP
    from hdp_nb.evaluation.effects import effects, make_effects

    corpus, covariates, truth = make_effects(**SHAPES[shape], random_state=seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(sampler="direct", eta=0.5, n_iter=200, thin=5, n_jobs=1, random_state=seed).fit(
            corpus
        )
    fitted = time.process_time()
    found = model.consensus()
    agreed = time.process_time()
    result = effects(model, covariates, "~ party + year", consensus=found)
    done = time.process_time()
    cosine = cosines(truth.phi, found.components_)
    which = cosine.argmax(axis=1)
    X = np.column_stack(
        [np.ones(corpus.n_docs), covariates["party"] == "b", covariates["year"]]
    ).astype(float)
    A = np.linalg.pinv(X)
    h = (X * A.T).sum(axis=1)

    def plain(Y):
        b = A @ Y
        var = (A**2) @ ((Y - X @ b) ** 2 / (1 - h)[:, None])
        return b[1:], np.sqrt(var)[1:], t.ppf(0.975, len(X) - 3)

    mean, sd, freedom, unsure = result.linear(np.eye(3)[1:])
    ways = {
        "composition": (mean[:, which], sd[:, which], t.ppf(0.975, freedom[:, which])),
        "plug-in": plain(found.documents[:, which]),
        "known": plain(truth.pi),
    }
    noted = {"found": bool(cosine.max(axis=1).min() > 0.9 and len(set(which.tolist())) == 4)}
    for name, (b, s, times) in ways.items():
        noted[name] = {
            "inside": float((abs(b - truth.b[1:]) < times * s).mean()),
            "product": float((b * truth.b[1:]).sum()),
            "square": float((truth.b[1:] ** 2).sum()),
            "sd": float(s.mean()),
        }
    noted["unsure"] = float(unsure[:, which].mean())
    noted["seconds"] = [fitted - began, agreed - fitted, done - agreed]
    return noted


def summary(runs):
    "What is shown of all corpora of one shape."
    import numpy as np

    good = [run for run in runs if run["found"]]
    row = {"n": len(runs), "found": len(good) / len(runs)}
    for name in WAYS:
        inside = np.array([run[name]["inside"] for run in good])
        row[name] = {
            "covered": float(inside.mean()),
            "error": float(inside.std() / np.sqrt(len(inside))),
            "slope": sum(r[name]["product"] for r in good) / sum(r[name]["square"] for r in good),
            "sd": float(np.mean([run[name]["sd"] for run in good])),
        }
    row["unsure"] = float(np.mean([run["unsure"] for run in good]))
    # The first corpus of a process compiles kernels.
    row["seconds"] = np.median([run["seconds"] for run in runs], axis=0).tolist()
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--n", type=int, default=200, help="corpora of each shape")
    n = parser.parse_args().n
    found = saved("effects") or {"coverage": {}, "runs": {}}
    for shape in SHAPES:
        runs = found["runs"].setdefault(shape, [])
        for seed in range(len(runs), n):
            runs.append(one(shape, seed))
            if len(runs) % 20 == 0 or len(runs) == n:
                found["coverage"][shape], found["machine"] = summary(runs), machine()
                save("effects", found)
    rows = []
    for shape, row in found["coverage"].items():
        for name in WAYS:
            cells = [f"{row[name][key]:.3f}" for key in ("covered", "error", "slope", "sd")]
            rows.append([shape, name, *cells])
    table(["shape", "way", "covered", "s.e.", "slope", "sd"], rows)


if __name__ == "__main__":
    main()
