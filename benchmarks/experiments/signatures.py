"""Signatures of synthetic tumours: how many are found, and how well.

    python -m benchmarks.experiments.signatures [--tumours 1000] [--iter 600] [--jobs 1]
        [--seconds S]

Tumours of 9 types; from 11 to 40 signatures over 96 kinds of mutations, some of them in pairs with
a cosine of 0.9; a tumour has some of the signatures of its type, with hundreds to tens of thousands
of mutations, and every count is negative binomial. Four ways to find the signatures: the HDP with
the blocked sampler, with and without a power of the likelihood; the HDP on the tree of types with
that power; non-negative matrix factorisation (scikit-learn) with the rank that BIC chooses. The
power is one over the dispersion of the counts. Topics are those of the consensus of two chains with
at least 0.1% of the tokens. Found is a signature that is matched with a cosine above 0.9. Fits that
are in results/signatures.json already are not made again.
"""

import argparse
import multiprocessing
import time
import warnings

from benchmarks.common import cosines, machine, save, saved, table

SIGNATURES = (11, 18, 25, 32, 40)
TYPES, TUMOURS, KINDS = 9, 1000, 96
SIZE = 30.0  # of the negative binomial distribution
METHODS = ("HDP", "HDP, power", "TreeHDP, power", "NMF")
LEAST_SHARE = 0.001


def draw_signatures(rng, n):
    "Signatures, a half of them sparse; a sixth is mixed with another one to a cosine of 0.9."
    import numpy as np

    shape = np.where(np.arange(n) % 2, 0.05, 0.4)
    phi = np.array([rng.dirichlet(np.full(KINDS, a)) for a in shape])
    phi = np.maximum(phi, 1e-9)
    for k in range(n // 6):
        one, other, low, high = phi[2 * k], phi[2 * k + 1], 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            mixed = (1 - middle) * other + middle * one
            alike = cosines(one[None], mixed[None])[0, 0]
            low, high = (middle, high) if alike < 0.9 else (low, middle)
        phi[2 * k + 1] = mixed
    return phi / phi.sum(axis=1, keepdims=True)


def draw_tumours(n, seed, n_tumours=TUMOURS):
    "Counts, types and signatures of one data set of n signatures."
    import numpy as np

    rng = np.random.default_rng([n, seed])
    phi = draw_signatures(rng, n)
    kind = np.sort(rng.integers(TYPES, size=n_tumours))
    common = np.arange(n) % 9 == 0  # in tumours of every type
    has = common | (rng.random((TYPES, n)) < 0.3)
    for k in np.flatnonzero(~has.any(axis=0)):
        has[rng.integers(TYPES), k] = True
    often = np.where(common, 0.95, rng.uniform(0.2, 0.9, (TYPES, n))) * has
    level = rng.normal(2.8, 0.4, (TYPES, n))  # of the logarithm (base 10) of the mutations
    there = rng.random((n_tumours, n)) < often[kind]
    exposure = there * 10 ** rng.normal(level[kind], 0.35)
    mean = exposure @ phi
    counts = rng.negative_binomial(SIZE, SIZE / (SIZE + np.maximum(mean, 1e-12)))
    return counts, kind, phi


def factorise(X, rank, seed=0):
    "Signatures and exposures of a rank, and their Poisson deviance."
    import numpy as np
    from scipy.special import xlogy
    from sklearn.decomposition import NMF

    how = dict(solver="mu", beta_loss="kullback-leibler", init="nndsvda", max_iter=400, tol=1e-4)
    model = NMF(rank, random_state=seed, **how)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        W = model.fit_transform(X.astype(float))
    mean = np.maximum(W @ model.components_, 1e-9)
    deviance = 2 * float((xlogy(X, X / mean) - X + mean).sum())
    return model.components_, mean, deviance


def dispersion(X, rank=45):
    "Pearson's chi-square over its degrees of freedom, with more signatures than there can be."
    _, mean, _ = factorise(X, rank)
    rows, columns = X.shape
    freedom = rows * columns - rank * (rows + columns - rank)
    return float((((X - mean) ** 2) / (mean + 1)).sum() / freedom)


def find(method, X, kind, power, options):
    "Signatures that a method finds, and what else is to be noted."
    import numpy as np
    from scipy.sparse import csr_array

    from hdp_nb import HDP, Corpus, Gamma, TreeHDP

    if method == "NMF":
        n, best = X.sum(), None
        for rank in range(5, 46, 3):
            phi, _, deviance = factorise(X, rank)
            free = rank * (sum(X.shape) - rank)
            score = deviance * power + free * np.log(X.size)  # quasi-likelihood
            if best is None or score < best[0]:
                best = score, phi, rank
        return best[1] / best[1].sum(axis=1, keepdims=True), {"rank": best[2], "tokens": int(n)}
    corpus = Corpus.from_matrix(csr_array(X), groups={"type": [f"t{k}" for k in kind]})
    seconds = options["max_time"]
    chains = dict(n_jobs=1, random_state=0, eta=Gamma(1, 1), n_iter=options["n_iter"])
    if method == "HDP":
        model = HDP(sampler="blocked", power=1, **chains)
    elif method == "HDP, power":
        model = HDP(sampler="blocked", power=power, **chains)
    else:
        model = TreeHDP(["type"], power=power, **chains)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(corpus, max_time=seconds)
    keep = model.topic_shares_ >= LEAST_SHARE
    n_k = model.samples_[-1].n_vk.sum()
    rhat = {name: float(row.rhat) for name, row in model.convergence_.items()}
    return model.components_[keep], {
        "all": int(model.n_topics_),
        "sweeps": int(len(model.trace_["n_topics"])),
        "n_topics": [float(row[len(row) // 2 :].mean()) for row in model.traces_["n_topics"]],
        "rhat": max(rhat.values()),
        "tokens": int(n_k),
    }


def judge(found, phi):
    "Number, precision, recall and mean cosine of the signatures that are found; their sum."
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    alike = cosines(found, phi)
    rows, columns = linear_sum_assignment(np.where(alike > 0.9, -alike, 1.0))
    matched = alike[rows, columns]
    matched = matched[matched > 0.9]
    precision, recall = len(matched) / len(found), len(matched) / len(phi)
    cosine = float(matched.mean()) if len(matched) else 0.0
    return {
        "found": len(found),
        "precision": precision,
        "recall": recall,
        "cosine": cosine,
        "composite": precision + recall + cosine,
    }


def job(task):
    "One fit of one data set."
    n, method, seed, n_tumours, power, options = task
    X, kind, phi = draw_tumours(n, seed, n_tumours)
    began = time.process_time()
    found, notes = find(method, X, kind, power, options)
    seconds = time.process_time() - began
    made = {"signatures": n, "method": method, "power": power, "cpu_seconds": seconds}
    return {**made, **judge(found, phi), **notes}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", type=int, default=len(SIGNATURES))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tumours", type=int, default=TUMOURS)
    parser.add_argument("--iter", type=int, default=600)
    parser.add_argument("--seconds", type=float, help="of each fit, at most")
    args = parser.parse_args()
    options = dict(n_iter=args.iter, max_time=args.seconds)
    rows = (saved("signatures") or {}).get("fits", [])
    done = {(row["signatures"], row["method"]) for row in rows}
    for method in METHODS[:3]:  # compiled once, before there are several processes
        job((6, method, 0, 30, 0.5, dict(n_iter=12)))
    powers, context = {}, multiprocessing.get_context("fork")
    with context.Pool(args.jobs) as pool:
        sets = SIGNATURES[: args.sets]
        data = [draw_tumours(n, 0, args.tumours) for n in sets]
        spread = pool.map(dispersion, [X for X, _, _ in data])
        powers = {n: min(1.0, 1.0 / d) for n, d in zip(sets, spread)}
        tasks = [
            (n, method, 0, args.tumours, powers[n], options)
            for n in sets
            for method in METHODS
            if (n, method) not in done
        ]
        for row in pool.imap_unordered(job, tasks, chunksize=1):
            rows.append(row)
            print(
                {k: row[k] for k in ("signatures", "method", "composite", "cpu_seconds")},
                flush=True,
            )
            rows.sort(key=lambda row: (METHODS.index(row["method"]), row["signatures"]))
            note = {"machine": machine(), "tumours": args.tumours, "sweeps": args.iter}
            save("signatures", {**note, "fits": rows})
    heads = ["method", "signatures", "found", "precision", "recall", "cosine", "composite"]
    table(heads, [[row[h] if h == "method" else f"{row[h]:.3g}" for h in heads] for row in rows])


if __name__ == "__main__":
    main()
