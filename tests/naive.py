"""Slow, readable oracles: the hierarchical Dirichlet process as its definition says, by enumeration.

Nothing here is imported from the package: these are what its samplers are held against.
A seating is written as `tables[j][i]`, the table of token i of document j, and `dishes[j][t]`.
"""
from collections import Counter
from itertools import product
from math import exp, lgamma, log

import numpy as np


def partitions(n):
    "Every partition of `n` items, as restricted growth strings: 000, 001, 010, 011, 012, ..."
    def grow(prefix, used):
        if len(prefix) == n:
            yield tuple(prefix)
            return
        for b in range(used + 1):
            yield from grow(prefix + [b], max(used, b + 1))
    yield from grow([], 0)


def log_words(words, topics, n_words, eta):
    "log p(x | z), the topics integrated out (Wang & Blei, eq 6)."
    total = 0.0
    for k in set(topics):
        counts = Counter(w for w, z in zip(words, topics) if z == k)
        n = sum(counts.values())
        total += lgamma(n_words*eta) - lgamma(n + n_words*eta)
        total += sum(lgamma(c + eta) - lgamma(eta) for c in counts.values())
    return total


def log_urn(sizes):
    "The part of a Chinese restaurant's probability that does not depend on its concentration."
    return sum(lgamma(s) for s in sizes)


def seatings(docs, n_words, eta):
    """Every seating of the franchise: (z, tables per document, dishes, log weight).

    The weight is p(x, t, k) without the factors in alpha and gamma, which `posterior` puts in,
    so that one enumeration serves every value of the concentrations.
    """
    words = [w for doc in docs for w in doc]
    for tables in product(*(list(partitions(len(doc))) for doc in docs)):
        n_tables = [max(t) + 1 if t else 0 for t in tables]
        seats = sum(log_urn(Counter(t).values()) for t in tables)
        first = np.cumsum([0] + n_tables)
        of_token = [first[j] + t for j, doc in enumerate(tables) for t in doc]
        for dishes in partitions(sum(n_tables)):
            z = tuple(dishes[t] for t in of_token)
            weight = seats + log_urn(Counter(dishes).values()) + log_words(words, z, n_words, eta)
            yield z, sum(n_tables), max(dishes, default=-1) + 1, weight


def log_prior(alpha, gamma, n_tables, n_dishes, lengths):
    "The factors of p(t, k) that hold the concentrations (Wang & Blei, eqs 2 and 4)."
    rising = lambda a, n: lgamma(a + n) - lgamma(a)
    return (n_tables*log(alpha) - sum(rising(alpha, n) for n in lengths)
            + n_dishes*log(gamma) - rising(gamma, n_tables))


class Posterior:
    """Exact posterior of a tiny corpus under the HDP.

    `n_dishes[k]`, `n_tables[t]`: probabilities; `same[a, b]`: probability that tokens a and b
    share a topic; `weights[t, k]`: total weight of the seatings with t tables and k dishes.
    """
    def __init__(self, docs, n_words, eta, alpha=1.0, gamma=1.0):
        self.lengths = [len(d) for d in docs]
        N = sum(self.lengths)
        self.weights = np.zeros((N + 1, N + 1))
        self.n_dishes, self.n_tables, self.same = np.zeros(N + 1), np.zeros(N + 1), np.zeros((N, N))
        for z, T, K, weight in seatings(docs, n_words, eta):
            self.weights[T, K] += exp(weight)
            p = exp(weight + log_prior(alpha, gamma, T, K, self.lengths))
            self.n_dishes[K] += p
            self.n_tables[T] += p
            self.same += p*np.equal.outer(z, z)
        total = self.n_dishes.sum()
        for a in (self.n_dishes, self.n_tables, self.same):
            a /= total

    def concentrations(self, alpha_prior, gamma_prior, n_grid=400):
        """Posterior means and P(K) when alpha and gamma have Gamma(shape, rate) priors.

        By quadrature: Gauss-Legendre in log alpha and log gamma.
        """
        nodes, w = np.polynomial.legendre.leggauss(n_grid)
        lo, hi = log(1e-7), log(200.0)
        values = np.exp(lo + (hi - lo)*(nodes + 1)/2)
        def log_density(v, prior):
            a, b = prior
            return a*np.log(v) - b*v      # the Jacobian of the log adds one power of v
        T, K = np.nonzero(self.weights)
        lw = np.log(self.weights[T, K])
        alpha_part = np.array([[t*log(a) - sum(lgamma(a + n) - lgamma(a) for n in self.lengths)
                                for t in T] for a in values]) + log_density(values, alpha_prior)[:, None]
        gamma_part = np.array([[k*log(g) - (lgamma(g + t) - lgamma(g)) for t, k in zip(T, K)]
                               for g in values]) + log_density(values, gamma_prior)[:, None]
        A, G = np.exp(alpha_part - alpha_part.max()), np.exp(gamma_part - gamma_part.max())
        base = np.exp(lw - lw.max())
        a_mass, g_mass = w @ A, w @ G
        joint = base*a_mass*g_mass
        joint_sum = joint.sum()
        p_K = np.bincount(K, weights=joint, minlength=self.weights.shape[1])/joint_sum
        return ((base*((w*values) @ A)*g_mass).sum()/joint_sum,
                (base*a_mass*((w*values) @ G)).sum()/joint_sum, p_K)
