"""The HDP-HMM, slow and readable: its posterior by enumeration, and a plain Gibbs sampler.

Nothing here is imported from the package. Sequences are lists of symbols, None where one is
missing; steps are numbered through all of them.
"""

from collections import Counter
from functools import cache, lru_cache
from math import comb, exp, factorial, lgamma, log

import numpy as np
from naive import log_words, partitions


def transitions(z, lengths):
    "Counts of (from, to); all sequences start from None, a restaurant of its own."
    counts, i = Counter(), 0
    for n in lengths:
        for t in range(n):
            counts[None if t == 0 else z[i + t - 1], z[i + t]] += 1
        i += n
    return counts


@lru_cache
def stirling(n):
    "Unsigned Stirling numbers of the first kind s(n, 0..n)."
    return np.convolve(stirling(n - 1), [n - 1, 1]) if n else np.ones(1)


@lru_cache(10_000)
def tables_polynomial(n, alpha, kappa):
    "Coefficients in beta of c (c + 1) ... (c + n - 1), where c = alpha beta + kappa."
    out = np.zeros(n + 1)
    for m, s in enumerate(stirling(n)):
        for r in range(m + 1):
            out[r] += s * comb(m, r) * alpha**r * kappa ** (m - r)
    return out


def state_polynomial(z, lengths, alpha, kappa=0.0):
    """p(z | alpha, kappa, gamma) as a polynomial.

    Entry m is the weight of all seatings in which the oracle is asked m times.

    Rows integrated out leave prod_j Gamma(c_j) / Gamma(c_j + n_j) prod_k (alpha beta_k + kappa [j =
    k])_{n_jk}; powers of the beta_k integrate
    to gamma^K prod (m_k - 1)! / gamma_m, of which gamma^K / gamma_m is left for the caller.
    """
    counts, out = transitions(z, lengths), np.ones(1)
    for k in set(z):
        p = np.ones(1)
        for (a, b), n in counts.items():
            if b == k:
                p = np.convolve(p, tables_polynomial(n, alpha, kappa * (a == k)))
        out = np.convolve(
            out, [c * factorial(max(m - 1, 0)) if m else 0.0 for m, c in enumerate(p)]
        )
    for a in {a for a, _ in counts}:
        n, conc = sum(c for (b, _), c in counts.items() if b == a), alpha + kappa * (a is not None)
        out = out * exp(lgamma(conc) - lgamma(conc + n))
    return out


def log_gamma_density(v, shape, rate):
    return (shape - 1) * log(v) - rate * v


class Posterior:
    """Exact posterior of tiny sequences under the HDP-HMM.

    `n_states[k]`: P(K = k); `same[s, t]`: probability that steps s and t share a state;
    `evidence`: p(x).
    Sticky where kappa > 0: row j has concentration alpha + kappa, of which kappa belongs to j
    itself; the start has no such row.
    `emission(indices)` is the log marginal of the steps in one state; by default symbols with a
    Dirichlet prior.
    """

    def __init__(self, sequences, n_symbols, eta, alpha=1.0, gamma=1.0, kappa=0.0, emission=None):
        self.x, self.lengths, self.V = (
            [v for s in sequences for v in s],
            [len(s) for s in sequences],
            n_symbols,
        )
        self.emission, self.z = emission, list(partitions(len(self.x)))
        p = np.array([self.prior(z, alpha, gamma, kappa) for z in self.z]) * self.words(eta)
        self.evidence = p.sum()
        self._summarise(p / p.sum())

    def prior(self, z, alpha, gamma, kappa):
        poly = state_polynomial(z, self.lengths, alpha, kappa)
        return sum(
            c * gamma ** (max(z) + 1) * exp(lgamma(gamma) - lgamma(gamma + m))
            for m, c in enumerate(poly)
        )

    def words(self, eta):
        "p(x | z) for every partition z."
        out, emission = [], cache(lambda steps: self.emission(list(steps)))
        for z in self.z:
            if self.emission is None:
                seen = [i for i, v in enumerate(self.x) if v is not None]
                out.append(log_words([self.x[i] for i in seen], [z[i] for i in seen], self.V, eta))
            else:
                out.append(
                    sum(
                        emission(
                            tuple(i for i in range(len(z)) if z[i] == k and self.x[i] is not None)
                        )
                        for k in set(z)
                    )
                )
        return np.exp(out)

    def _summarise(self, p):
        N = len(self.x)
        self.n_states, self.same = np.zeros(N + 1), np.zeros((N, N))
        for z, weight in zip(self.z, p):
            self.n_states[max(z) + 1] += weight
            self.same += weight * np.equal.outer(z, z)

    def hyper(
        self,
        eta,
        alpha,
        gamma,
        kappa=0.0,
        alpha_prior=None,
        gamma_prior=None,
        kappa_prior=None,
        eta_prior=None,
        n_grid=40,
    ):
        """Posterior means of alpha, gamma, kappa, eta; those with a Gamma prior by quadrature.

        Also makes `n_states` and `same` those of the same posterior.
        """

        def nodes(value, prior):
            if prior is None:
                return np.array([value]), np.ones(1)
            u, w = np.polynomial.legendre.leggauss(n_grid)
            v = np.exp(log(1e-6) + (log(60.0) - log(1e-6)) * (u + 1) / 2)
            return v, w * v * np.exp([log_gamma_density(x, *prior) for x in v])

        alphas, w_a = nodes(alpha, alpha_prior)
        gammas, w_g = nodes(gamma, gamma_prior)
        kappas, w_k = nodes(kappa, kappa_prior)
        etas, w_e = nodes(eta, eta_prior)
        words = np.array([self.words(e) for e in etas])  # (eta, z)
        m = np.arange(len(self.x) + 1)
        norm = np.array([[exp(lgamma(g) - lgamma(g + i)) for i in m] for g in gammas])  # (gamma, m)
        p, sums = np.zeros(len(self.z)), np.zeros(4)
        for s, z in enumerate(self.z):
            at_g = gammas ** (max(z) + 1) * w_g
            means = np.zeros(4)
            total = 0.0
            for a, wa in zip(alphas, w_a):
                for k, wk in zip(kappas, w_k):
                    poly = state_polynomial(z, self.lengths, a, k)
                    by_gamma = at_g * (norm[:, : len(poly)] @ poly) * wa * wk
                    mass = by_gamma.sum()
                    total += mass
                    means += np.array([a * mass, (gammas * by_gamma).sum(), k * mass, 0.0])
            by_eta = words[:, s] * w_e
            p[s] = total * by_eta.sum()
            means *= by_eta.sum()
            means[3] = total * (etas * by_eta).sum()
            sums += means
        self._summarise(p / p.sum())
        return sums / p.sum()


class Gibbs:
    """Direct assignment in plain Python, with alpha, gamma, kappa and eta fixed.

    `mistake="self"` leaves out what a self-transition does to its own counts.
    """

    def __init__(self, sequences, n_symbols, eta, alpha, gamma, rng, kappa=0.0, mistake=None):
        self.x, self.lengths, self.V = (
            [v for s in sequences for v in s],
            [len(s) for s in sequences],
            n_symbols,
        )
        self.eta, self.alpha, self.gamma, self.kappa, self.rng, self.mistake = (
            eta,
            alpha,
            gamma,
            kappa,
            rng,
            mistake,
        )
        self.first = set(np.cumsum([0] + self.lengths)[:-1].tolist())
        self.z, self.beta, self.rest = [0] * len(self.x), {0: 0.5}, 0.5

    def counts(self):
        "Transitions between steps that have a state (those without one interrupt the chain)."
        n = Counter()
        for i, k in enumerate(self.z):
            a = None if i in self.first else self.z[i - 1]
            if k is not None and (i in self.first or a is not None):
                n[a, k] += 1
        return n

    def emission(self, i, k):
        if self.x[i] is None:
            return 1.0
        others = [self.x[j] for j in range(len(self.x)) if self.z[j] == k and self.x[j] is not None]
        return (others.count(self.x[i]) + self.eta) / (len(others) + self.V * self.eta)

    def step(self, i):
        self.z[i] = None
        for k in set(self.beta) - set(self.z):
            self.rest += self.beta.pop(k)
        a = None if i in self.first else self.z[i - 1]
        b = None if i + 1 in self.first or i + 1 == len(self.z) else self.z[i + 1]
        n, new, al, ka, right = (
            self.counts(),
            max(self.beta, default=-1) + 1,
            self.alpha,
            self.kappa,
            self.mistake != "self",
        )
        row = lambda k: sum(c for (j, _), c in n.items() if j == k)
        weights = {}
        for k, w in [*self.beta.items(), (new, self.rest)]:
            stay = a is not None and a == k
            p = (al * w + ka * stay + n[a, k]) * self.emission(i, k)
            if b is not None:
                p *= (al * self.beta[b] + ka * (k == b) + n[k, b] + right * (stay and k == b)) / (
                    al + ka + row(k) + right * stay
                )
            weights[k] = p
        u = self.rng.random() * sum(weights.values())
        for k, w in weights.items():
            self.z[i] = k
            u -= w
            if u < 0:
                break
        if k == new:
            b = self.rng.beta(1, self.gamma)
            self.beta[k], self.rest = b * self.rest, (1 - b) * self.rest

    def tables(self, n, conc):
        return sum(self.rng.random() * (conc + l) < conc for l in range(n))

    def weights(self):
        "Tables of the oracle, then beta given them."
        m = Counter()
        for (a, k), n in self.counts().items():
            own = self.kappa * (a == k)
            served = self.tables(n, self.alpha * self.beta[k] + own)
            m[k] += served - self.rng.binomial(served, own / (own + self.alpha * self.beta[k]))
        labels = sorted(m)
        draw = self.rng.dirichlet([m[k] for k in labels] + [self.gamma])
        self.beta, self.rest = dict(zip(labels, draw)), draw[-1]

    def sweep(self):
        for i in range(len(self.z)):
            self.step(i)
        self.weights()
        return np.array(self.z)


def sampled(states, n_steps):
    "P(K) and co-clustering from state sequences."
    p_K, same, n = np.zeros(n_steps + 1), np.zeros((n_steps, n_steps)), 0
    for z in states:
        p_K[len(set(z.tolist()))] += 1
        same += np.equal.outer(z, z)
        n += 1
    return p_K / n, same / n


class GroupedPosterior(Posterior):
    """Exact posterior of tiny sequences in groups, by the urn with an oracle for every group.

    Every group has an HDP-HMM of its own, under a parent Dirichlet process.

    `group[s]` is the group of sequence s, `conc` the concentration of the groups' weights around
    the parent's.
    """

    def __init__(self, sequences, group, n_symbols, eta, alpha, gamma, conc, kappa=0.0):
        self.group, self.conc = group, conc
        super().__init__(sequences, n_symbols, eta, alpha, gamma, kappa)

    def prior(self, z, alpha, gamma, kappa):
        "Step by step: an old transition, the bonus, or the oracles of the group and its parent."
        steps, i = [], 0
        for g, n in zip(self.group, self.lengths):
            steps += [(g, None if t == 0 else z[i + t - 1], z[i + t]) for t in range(n)]
            i += n

        def go(s, done, told, parent):
            if s == len(steps):
                return 1.0
            g, a, k = steps[s]
            after, named = done + Counter([(g, a, k)]), told + Counter([(g, k)])
            stay = kappa * (a == k)
            p = (
                (done[g, a, k] + stay) * go(s + 1, after, told, parent)
                if done[g, a, k] + stay
                else 0.0
            )
            asked = sum(c for (h, _), c in told.items() if h == g)
            if told[g, k]:
                p += alpha * told[g, k] / (asked + self.conc) * go(s + 1, after, named, parent)
            p += (
                alpha
                * self.conc
                / (asked + self.conc)
                * (parent[k] or gamma)
                / (sum(parent.values()) + gamma)
                * go(s + 1, after, named, parent + Counter([k]))
            )
            return p / (
                sum(c for (h, b, _), c in done.items() if (h, b) == (g, a))
                + alpha
                + kappa * (a is not None)
            )

        return go(0, Counter(), Counter(), Counter())


def urn_paths(new, n_ab, start, base, beta_u, alpha, gamma, kappa, predictive, gamma_new=None):
    """p(new | counts of a sample) by the sum over all paths, rows and new states integrated out.

    n_ab[a][k] and start[k] are the sample's transitions, base[k] = alpha beta_k, predictive(k,
    earlier, v) the probability of v in state k after `earlier` in the same sequence; states from
    K on are new. gamma_new is the concentration of a group's new states around its parent's.
    """
    K = len(base)

    def go(t, a, moves, seen, group, parent):
        if t == len(new):
            return 1.0
        row = start if a is None else n_ab[a] if a < K else [0] * K
        own = Counter({k: c for (b, k), c in moves.items() if b == a})
        conc, total = sum(row) + sum(own.values()) + alpha + kappa * (a is not None), 0.0

        def then(k, weight, group, parent):
            if not weight:
                return 0.0
            before = seen.get(k, ())
            fit, after = 1.0, seen
            if new[t] is not None:
                fit, after = predictive(k, before, new[t]), {**seen, k: (*before, new[t])}
            after = after if k in after else {**after, k: ()}
            moved = moves if a is None else moves + Counter([(a, k)])
            return weight / conc * fit * go(t + 1, k, moved, after, group, parent)

        unseen = [k for k in seen if k >= K]
        for k in [*range(K), *unseen]:
            here = base[k] + row[k] if k < K else 0.0
            total += then(k, here + own[k] + kappa * (a == k), group, parent)
        for k in [*unseen, K + len(unseen)]:
            named, up = group + Counter([k]), 1.0
            if gamma_new is not None:
                up = gamma_new / (sum(group.values()) + gamma_new)
                table = group[k] / (sum(group.values()) + gamma_new)
                total += then(k, alpha * beta_u * table, named, parent)
            dish = (parent[k] or gamma) / (sum(parent.values()) + gamma)
            total += then(k, alpha * beta_u * up * dish, named, parent + Counter([k]))
        return total

    return go(0, None, Counter(), {}, Counter(), Counter())
