"""Known signatures beside new ones: what is found, error and intervals of exposures, time.

    python -m benchmarks.topics.known [--only A B absent wrong] [--seeds 1]

Eight known signatures of 96 kinds and two new ones, with cosines below 0.75. A: 200 samples of
about 1,000 mutations; B: 60 of about 20,000, counts overdispersed (negative binomial, size 30).
`HDP(known=...)`, told the eight with the default strength, and, as EM is, fixed ones (a strength
without bound); beside them `HDP()` that is told nothing, EM
with the eight fixed and two free (told the rank, best of five starts), NMF with the eight fixed and
two free (likewise), EM told all ten (the ceiling), and scikit-learn's NMF told the rank (best of
five). `absent`: A without two of the eight, all eight told. `wrong`: A with one of the eight told
mixed with another (cosine 0.9 to the truth), at strength 100. Of each fit:
known signatures whose row is like them (cosine above 0.9, by name where the method has names),
least cosine of these, share of the true spectrum in each new one,
false ones (above .1% of the mutations, cosine with all true ones below 0.9), the mean total
variation of true and found exposures, the means and those that are nearest in expectation
(`nearest_proportions`), how many of the exposures above 0 are in their 90% intervals,
whether the fit says that it has converged, and CPU seconds after a first fit that compiles. One
core. Results go to results/known.json; what is there already and not asked for stays.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved

NAMES = [f"S{k}" for k in range(8)]
ACTIVE = 0.9, 0.5, 0.4, 0.4, 0.3, 0.3, 0.6, 0.5, 0.15, 0.25
CONCENTRATIONS = 0.08, 0.08, 0.1, 0.25, 0.3, 0.3, 1.0, 1.5, 0.15, 0.8
SHAPES = {
    "A": dict(n=200, length=1000),
    "B": dict(n=60, length=20_000, size=30),
    "absent": dict(n=200, length=1000, absent=(2, 5)),
    "wrong": dict(n=200, length=1000),
}


def unit(rows):
    import numpy as np

    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def spectra(rng):
    "Three sparse ones, three middling, two flat; and two new ones."
    import numpy as np

    phi = np.zeros((0, 96))
    for conc in CONCENTRATIONS:
        while True:
            p = rng.dirichlet(np.full(96, conc)) + 2e-4
            if not len(phi) or (unit(phi) @ unit(p)).max() < 0.75:
                phi = np.vstack([phi, p / p.sum()])
                break
    return phi


def planted(seed, n, length, size=None, absent=()):
    "Counts (n, 96), exposures (n, 10), spectra (10, 96)."
    import numpy as np

    rng = np.random.default_rng([seed, 62])
    phi, active = spectra(np.random.default_rng(7)), np.array(ACTIVE)
    active[list(absent)] = 0
    on = rng.random((n, 10)) < active
    on[on[:, :8].sum(axis=1) == 0, 0] = True
    w = on * rng.lognormal(0, 0.8, (n, 10))
    pi = w / w.sum(axis=1, keepdims=True)
    mean = np.maximum(rng.lognormal(np.log(length), 0.3, n), 50)[:, None] * (pi @ phi)
    if size is not None:
        mean = mean * rng.gamma(size, 1 / size, mean.shape)
    return rng.poisson(mean), pi, phi


def fit_em(X, phi, n_free, rng, n_steps=1000):
    "Exposures and spectra, the first of which are fixed; the log likelihood."
    import numpy as np

    phi = np.vstack([phi, rng.dirichlet(np.ones(X.shape[1]), n_free)])
    pi, fixed = np.full((len(X), len(phi)), 1 / len(phi)), len(phi) - n_free
    for _ in range(n_steps):
        ratio = X / (pi @ phi)
        new = pi * (ratio @ phi.T)
        if n_free:
            free = phi[fixed:] * (pi[:, fixed:].T @ ratio) + 1e-12
            phi[fixed:] = free / free.sum(axis=1, keepdims=True)
        pi = new / new.sum(axis=1, keepdims=True)
    return pi, phi, float((X * np.log(pi @ phi)).sum())


def fit_nmf(X, seed):
    from sklearn.decomposition import NMF

    best = None
    for s in range(5):
        model = NMF(10, solver="mu", beta_loss="kullback-leibler", init="random", random_state=s)
        model.set_params(max_iter=2000, tol=1e-6)
        W = model.fit_transform(X)
        if best is None or model.reconstruction_err_ < best[0]:
            best = model.reconstruction_err_, W * model.components_.sum(axis=1), model.components_
    _, W, H = best
    return W / W.sum(axis=1, keepdims=True), H / H.sum(axis=1, keepdims=True)


def fit_nmf_fixed(X, phi, n_free, seed, n_steps=2000):
    """Exposures and spectra by NMF with the divergence of Kullback and Leibler (Lee and Seung's
    multiplicative updates, by turns), the first spectra fixed; best of five starts.
    """
    import numpy as np

    best = None
    for s in range(5):
        rng, fixed = np.random.default_rng([seed, s]), len(phi)
        H = np.vstack([phi, rng.dirichlet(np.ones(X.shape[1]), n_free)])
        W = rng.random((len(X), len(H))) * X.sum(axis=1, keepdims=True) / len(H) + 1e-9
        for _ in range(n_steps):
            W *= (X / (W @ H)) @ H.T / H.sum(axis=1)
            H[fixed:] *= (W[:, fixed:].T @ (X / (W @ H))) / (W[:, fixed:].sum(axis=0)[:, None])
            H[fixed:] += 1e-12
        mean = W @ H
        divergence = float((mean - X * np.log(mean)).sum())
        if best is None or divergence < best[0]:
            best = divergence, W * H.sum(axis=1), H
    _, W, H = best
    return W / W.sum(axis=1, keepdims=True), H / H.sum(axis=1, keepdims=True)


def judge(components, docs, pi, phi, named=None, interval=None):
    "How near a fit has come; `named` are the rows of the first known ones."
    import numpy as np
    from scipy.optimize import linear_sum_assignment, nnls

    cosine, present = unit(components) @ unit(phi).T, np.flatnonzero(pi.sum(axis=0) > 0)
    rows, of = linear_sum_assignment(-cosine)
    to = {int(j): int(i) for i, j in zip(rows, of) if cosine[i, j] > 0.8}
    if named is not None:
        new = {j: i for j, i in to.items() if j >= 8 and i not in named.values()}
        to = {**new, **named}
    found, K = np.zeros((len(pi), 11)), len(components)
    for j, i in to.items():
        found[:, j] += docs[:, i]
    found[:, 10] = 1 - found[:, :10].sum(axis=1)
    pure = []
    for j in (8, 9):
        w = nnls(phi.T, components[to[j]])[0] if j in to else np.zeros(10)
        pure.append(float(w[j] / max(w.sum(), 1e-300)))
    own = [float(cosine[to[j], j]) if j in to else 0.0 for j in present if j < 8]
    large = docs.mean(axis=0)[:K] > 0.001
    out = {
        "topics": int(large.sum()),
        "known": int((np.array(own) > 0.9).sum()),
        "least_cosine": min(own),
        "new_pure": pure,
        "false": int((cosine.max(axis=1)[large] < 0.9).sum()),
        "error": float(0.5 * np.abs(found - np.pad(pi, [(0, 0), (0, 1)])).sum(axis=1).mean()),
    }
    if interval is not None:
        low, high = interval
        held = [
            (low[:, i] <= pi[:, j]) & (pi[:, j] <= high[:, i]) | (pi[:, j] == 0)
            for j, i in to.items()
        ]
        positive = sum(int((pi[:, j] > 0).sum()) for j in to)
        misses = sum(int((~inside).sum()) for inside in held)
        out["held"] = 1 - misses / positive
    return out


def fit_hdp(X, pi, phi, known, seed):
    from hdp_nb import HDP

    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(known=known, n_jobs=1, random_state=seed).fit(X)
    seconds, K = time.process_time() - start, model.n_topics_
    shown = model.consensus_as_shown()
    low, high = shown.document_interval(0.9)
    named = {int(f): k for k, f in enumerate(model.known_) if f >= 0} if known else None
    out = judge(model.components_, model.doc_topic_[:, :K], pi, phi, named, (low, high))
    near = judge(model.components_, shown.nearest_proportions()[:, :K], pi, phi, named)
    out |= {"error_nearest": near["error"]}
    out |= {"converged": bool(model.converged_), "seconds": seconds}
    if known is not None:
        table = model.known_topics()
        out["used"] = [float(u) for u, k in zip(table["used"], table["known"]) if k]
        out["moved"] = [float(c) for c, k in zip(table["cosine"], table["known"]) if k]
    return out


def told_wrongly(phi, k=6, other=3):
    "The spectra, one of them mixed with another so that its cosine is 0.9."
    import numpy as np

    shares = np.linspace(0, 1, 1001)
    mixed = shares[:, None] * phi[other] + (1 - shares[:, None]) * phi[k]
    out = phi[:8].copy()
    out[k] = mixed[np.abs(unit(mixed) @ unit(phi[k]) - 0.9).argmin()]
    return out


def measure(case, seed):
    import numpy as np

    from hdp_nb import Known

    X, pi, phi = planted(seed, **SHAPES[case])
    eight = dict(zip(NAMES, told_wrongly(phi) if case == "wrong" else phi[:8]))
    known = Known(eight, strength=100.0 if case == "wrong" else 1000.0)
    found = {"known": fit_hdp(X, pi, phi, known, seed)}
    if case in ("A", "B"):
        found["known, fixed"] = fit_hdp(X, pi, phi, Known(eight, strength=np.inf), seed)
        rng, as_named = np.random.default_rng(seed), {k: k for k in range(8)}
        found["nothing told"] = fit_hdp(X, pi, phi, None, seed)
        best = max((fit_em(X, phi[:8], 2, rng) for _ in range(5)), key=lambda fit: fit[2])
        found["EM, eight fixed, two free"] = judge(best[1], best[0], pi, phi, as_named)
        found["EM, all ten told"] = judge(phi, fit_em(X, phi, 0, rng)[0], pi, phi)
        docs, components = fit_nmf_fixed(X, phi[:8], 2, seed)
        found["NMF, eight fixed, two free"] = judge(components, docs, pi, phi, as_named)
        docs, components = fit_nmf(X, seed)
        found["NMF, rank told"] = judge(components, docs, pi, phi)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=[*SHAPES], choices=[*SHAPES])
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    rows = saved("known") or {}
    X, pi, phi = planted(99, n=20, length=100)
    for known in (dict(zip(NAMES, phi[:8])), None):  # compiles
        fit_hdp(X, pi, phi, known, 0)
    X, pi, phi = planted(99, n=20, length=20_000)
    fit_hdp(X, pi, phi, None, 0)
    for case in options.only:
        for seed in range(options.seeds):
            rows.setdefault(case, {})[str(seed)] = found = measure(case, seed)
            save("known", {**rows, "machine": machine()})
            for name, row in found.items():
                print(case, seed, name, row, flush=True)


if __name__ == "__main__":
    main()
