"""States and clusters of measurements: tails, overdispersed counts, rounding, gaps.

    python -m benchmarks.sequences.measurements [--cases returns spikes] [--seeds 0 1] [--peers]

Every case has planted states, or clusters. Of a default fit with `emission="student"`,
`"negative_binomial"` or `"categorical"` (of rows with `likelihood="student"`): states that hold at
least 1% of the steps, adjusted Rand index, accuracy of the best matching of states, the verdict and
CPU seconds; and the same with `"normal"` or `"poisson"`. Beside it the accuracy of the most
probable path, or partition, given the planted parameters, which no fit can be expected to beat.
With `--peers`, which goes on from the file, hmmlearn's usual recipe: the number of states by BIC,
from 1 to 8 over three starts; for rows scikit-learn's mixture by BIC. The table is
results/measurements.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved

PLAIN = {"student": "normal", "negative_binomial": "poisson"}


def chain(rng, n, P):
    import numpy as np

    z, c, u = np.zeros(n, int), np.cumsum(P, axis=1), rng.random(n)
    z[0] = rng.integers(len(P))
    for t in range(1, n):
        z[t] = min((c[z[t - 1]] < u[t]).sum(), len(P) - 1)
    return z


def staying(K, stay):
    import numpy as np

    return np.full((K, K), (1 - stay) / (K - 1)) + np.eye(K) * (stay - (1 - stay) / (K - 1))


def best_path(log_f, P, lengths):
    "Most probable path by planted transitions and log likelihoods of the steps."
    import numpy as np

    from hdp_nb.sequences.predict import viterbi

    K = len(P)
    z, back = np.empty(len(log_f), np.int64), np.empty((len(log_f), K), np.int16)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    log_P = np.log(P + 1e-12)
    viterbi(np.full(K, -np.log(K)), np.ascontiguousarray(log_P.T), log_f, offsets, z, back)
    return z


def draw(case, seed):
    "Steps, lengths of sequences, planted states, the emission, and the accuracy of the best path."
    import numpy as np
    from scipy import stats

    rng = np.random.default_rng([seed, sum(map(ord, case))])
    lengths = None
    if case == "returns":
        P = np.array([[0.99, 0.01], [0.03, 0.97]])
        z, mean, sd = chain(rng, 1500, P), [0.0006, -0.001], [0.007, 0.022]
        X = np.array(mean)[z] + np.array(sd)[z] * rng.standard_t(4, 1500) / np.sqrt(2)
        log_f = [stats.t.logpdf(X, 4, m, s / np.sqrt(2)) for m, s in zip(mean, sd)]
        X, kind = X[:, None], "student"
    elif case == "tails":
        P, mean = staying(3, 0.95), np.array([[0, 0], [6, 0], [0, 6.0]])
        z = chain(rng, 2000, P)
        w = rng.chisquare(4, 2000) / 4
        X, kind = mean[z] + rng.normal(size=(2000, 2)) / np.sqrt(w)[:, None], "student"
        log_f = [stats.multivariate_t.logpdf(X, m, np.eye(2), 4) for m in mean]
    elif case in ("spikes", "poisson spikes"):
        P, rate = staying(3, 0.95), rng.gamma(2, 2.5, (3, 10))
        z = chain(rng, 1500, P)
        m = rate[z]
        if case == "spikes":
            X = rng.poisson(m * rng.gamma(3, 1 / 3, m.shape))
            log_f = [stats.nbinom.logpmf(X, 3, 3 / (3 + r)).sum(axis=1) for r in rate]
        else:
            X = rng.poisson(m)
            log_f = [stats.poisson.logpmf(X, r).sum(axis=1) for r in rate]
        kind = "negative_binomial"
    elif case == "ragged":
        P, mean = staying(3, 0.95), np.array([[0, 0], [4, 0], [0, 4.0]])
        lengths = rng.integers(1, 500, 50)
        z = np.concatenate([chain(rng, n, P) for n in lengths])
        X, kind = mean[z] + rng.normal(size=(len(z), 2)), "student"
        log_f = [-0.5 * ((X - m) ** 2).sum(axis=1) for m in mean]
    elif case == "rounded":
        P, mean = staying(3, 0.95), np.array([[0, 0], [5, 0], [0, 5.0]])
        z = chain(rng, 2000, P)
        X, kind = (mean[z] + rng.normal(size=(2000, 2))).round(), "student"
        log_f = [-0.5 * ((X - m) ** 2).sum(axis=1) for m in mean]
    elif case in ROWS:
        mean = 10.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
        z, P, kind = rng.integers(4, size=1500), None, "student"
        w = rng.chisquare(4, 1500) / 4 if case == "rows with tails" else np.ones(1500)
        X = mean[z] * (0.5 if case == "rounded rows" else 1.0)
        X += rng.normal(size=X.shape) / np.sqrt(w)[:, None]
        if case == "rounded rows":
            X, mean = X.round(), mean / 2
        log_f = [-0.5 * ((X - m) ** 2).sum(axis=1) for m in mean]
        if case == "rows with gaps":
            gone = rng.random(X.shape) < 0.1
            log_f = [-0.5 * np.where(gone, 0, (X - m) ** 2).sum(axis=1) for m in mean]
            X[gone] = np.nan
    elif case == "symbols":
        P, phi = staying(6, 0.9), rng.dirichlet(np.full(20, 0.3), 6)
        z = chain(rng, 5000, P)
        X, kind = np.array([rng.choice(20, p=phi[k]) for k in z]), "categorical"
        log_f = [np.log(p[X] + 1e-12) for p in phi]
    elif case == "ten columns":
        P, mean = staying(8, 0.95), rng.normal(0, 2, (8, 10))
        z = chain(rng, 2000, P)
        X, kind = mean[z] + rng.normal(size=(2000, 10)), "student"
        log_f = [-0.5 * ((X - m) ** 2).sum(axis=1) for m in mean]
    elif case.startswith("dwell"):
        stay = 1 - 1 / int(case.split()[1])
        P, mean = staying(4, stay), np.array([[0, 0], [4, 0], [0, 4], [4, 4.0]])
        z = chain(rng, 2000, P)
        X, kind = mean[z] + rng.normal(size=(2000, 2)), "student"
        log_f = [-0.5 * ((X - m) ** 2).sum(axis=1) for m in mean]
    elif case == "animals":
        mean = np.array([[0.0, 0.1, 1.0], [0.3, 0, 0.8], [0.9, 0.4, 0.2], [-0.6, 0.9, 0.1]])
        sd, stay = np.array([0.05, 0.18, 0.35, 0.5]), np.array([0.995, 0.98, 0.97, 0.93])
        P = np.diag(stay) + (1 - np.eye(4)) * ((1 - stay) / 3)[:, None]
        lengths = np.array([4000, 3500, 3500, 3000, 3000, 3000])
        z = np.concatenate([chain(rng, n, P) for n in lengths])
        X, kind = mean[z] + rng.normal(size=(len(z), 3)) * sd[z][:, None], "student"
        log_f = [-0.5 * ((X - m) ** 2).sum(axis=1) / s**2 - 3 * np.log(s) for m, s in zip(mean, sd)]
        for start in rng.integers(len(z), size=60):  # gaps of one to a hundred steps
            X[start : start + int(rng.integers(1, 100))] = np.nan
        log_f = [np.where(np.isnan(X[:, 0]), 0.0, f) for f in log_f]
    log_f = np.ascontiguousarray(np.array(log_f).T)
    if P is None:
        return X, lengths, z, kind, accuracy(z, log_f.argmax(axis=1))
    all_lengths = [len(z)] if lengths is None else lengths
    return X, lengths, z, kind, accuracy(z, best_path(log_f, P, all_lengths))


ROWS = ("rows with tails", "rounded rows", "rows with gaps", "normal rows")
CASES = (
    *ROWS,
    "rounded",
    *("returns", "tails", "spikes", "poisson spikes", "ragged", "symbols", "ten columns"),
    *("dwell 2", "dwell 10", "dwell 50", "dwell 200", "animals"),
)


def accuracy(truth, found):
    "Share of steps in the planted state that their state is matched with, one to one."
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    t, g = (np.unique(a, return_inverse=True)[1] for a in (truth, found))
    both = np.zeros((t.max() + 1, g.max() + 1))
    np.add.at(both, (t, g), 1)
    return float(both[linear_sum_assignment(-both)].sum() / len(t))


def tell(z, labels):
    "What a clustering is like beside the planted one."
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    large = lambda labels: int((np.bincount(labels) >= 0.01 * len(labels)).sum())
    return {
        "found": large(np.unique(labels, return_inverse=True)[1]),
        "planted": large(z),
        "ari": round(float(adjusted_rand_score(z, labels)), 3),
        "accuracy": round(accuracy(z, labels), 3),
    }


def study(case, seed, plain):
    "One fit by default, or with the plain likelihood; None where that has no use."
    import numpy as np

    from hdp_nb import HDPHMM, DPMixture

    X, lengths, z, kind, told = draw(case, seed)
    if plain and (kind not in PLAIN or (case in ROWS and np.isnan(X).any())):
        return None
    kind, began = PLAIN[kind] if plain else kind, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case in ROWS:
            model = DPMixture(kind, random_state=seed, n_jobs=1).fit(X)
        else:
            model = HDPHMM(emission=kind, random_state=seed, n_jobs=1).fit(X, lengths)
    spent = round(time.process_time() - began, 1)
    grade = model.verdict_.grade
    return tell(z, model.labels_) | {"told": round(told, 3), "grade": grade, "cpu": spent}


def peer(case, seed):
    "hmmlearn, or scikit-learn's mixture, by BIC; None where it takes no gaps."
    import numpy as np
    from hmmlearn.hmm import CategoricalHMM, GaussianHMM, PoissonHMM
    from sklearn.mixture import GaussianMixture

    X, lengths, z, kind, told = draw(case, seed)
    if np.isnan(X).any():
        return None
    X, began = X.reshape(len(X), -1), time.process_time()
    full = {"covariance_type": "full", "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case in ROWS:
            fits = [GaussianMixture(k, n_init=3, **full).fit(X) for k in range(1, 9)]
            labels = min(fits, key=lambda fit: fit.bic(X)).predict(X)
        else:
            of = {"student": GaussianHMM, "categorical": CategoricalHMM}.get(kind, PoissonHMM)
            more = {"covariance_type": "full"} if of is GaussianHMM else {}
            X = X / X.std(axis=0) if of is GaussianHMM else X
            fits = [
                of(k, n_iter=200, random_state=r, **more).fit(X, lengths)
                for k in range(1, 9)
                for r in range(3)
            ]
            best = min(fits, key=lambda fit: fit.bic(X, lengths))
            labels = best.predict(X, lengths)
    return tell(z, labels) | {"told": round(told, 3), "cpu": round(time.process_time() - began, 1)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--peers", action="store_true")
    args = parser.parse_args()
    found = saved("measurements") or {"machine": machine(), "fits": {}}
    for case in args.cases:
        for seed in args.seeds:
            of = found["fits"].setdefault(case, {})
            if args.peers:
                of[f"peer {seed}"] = peer(case, seed)
            else:
                of[f"default {seed}"] = study(case, seed, False)
                if seed == args.seeds[0]:
                    of[f"plain {seed}"] = study(case, seed, True)
            print(case, seed, of, flush=True)
            save("measurements", found)
