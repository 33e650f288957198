"""Slow, readable oracles: the hierarchical Dirichlet process from its definition, by enumeration.

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
        total += lgamma(n_words * eta) - lgamma(n + n_words * eta)
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
    return (
        n_tables * log(alpha)
        - sum(rising(alpha, n) for n in lengths)
        + n_dishes * log(gamma)
        - rising(gamma, n_tables)
    )


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
            self.same += p * np.equal.outer(z, z)
        total = self.n_dishes.sum()
        for a in (self.n_dishes, self.n_tables, self.same):
            a /= total

    def concentrations(self, alpha_prior, gamma_prior, n_grid=400):
        """Posterior means and P(K) when alpha and gamma have Gamma(shape, rate) priors.

        By quadrature: Gauss-Legendre in log alpha and log gamma.
        """
        nodes, w = np.polynomial.legendre.leggauss(n_grid)
        lo, hi = -140.0, log(200.0)  # a shape of 0.1 has mass as far down as that
        values = np.exp(lo + (hi - lo) * (nodes + 1) / 2)

        def log_density(v, prior):
            a, b = prior
            return a * np.log(v) - b * v  # the Jacobian of the log adds one power of v

        T, K = np.nonzero(self.weights)
        lw = np.log(self.weights[T, K])
        alpha_part = (
            np.array(
                [
                    [t * log(a) - sum(lgamma(a + n) - lgamma(a) for n in self.lengths) for t in T]
                    for a in values
                ]
            )
            + log_density(values, alpha_prior)[:, None]
        )
        gamma_part = (
            np.array(
                [[k * log(g) - (lgamma(g + t) - lgamma(g)) for t, k in zip(T, K)] for g in values]
            )
            + log_density(values, gamma_prior)[:, None]
        )
        A, G = np.exp(alpha_part - alpha_part.max()), np.exp(gamma_part - gamma_part.max())
        base = np.exp(lw - lw.max())
        a_mass, g_mass = w @ A, w @ G
        joint = base * a_mass * g_mass
        joint_sum = joint.sum()
        p_K = np.bincount(K, weights=joint, minlength=self.weights.shape[1]) / joint_sum
        return (
            (base * ((w * values) @ A) * g_mass).sum() / joint_sum,
            (base * a_mass * ((w * values) @ G)).sum() / joint_sum,
            p_K,
        )


class Gibbs:
    """Gibbs sampling in the franchise, in plain Python, with the papers' formulas as they stand.

    `mistake` puts in one of the errors that a check of a sampler must reject:
    "fresh": Teh et al.'s eqs 32-34 as printed, topics kept as explicit distributions; a token or a
        table whose dish nobody else has is offered a fresh draw from the base distribution only.
    "product": the words of a table multiplied by single predictives that are not updated in
    between.
    "vacated": a table that its last token has left still counts for its dish.
    None: nothing wrong, topics integrated out.
    """

    def __init__(self, docs, n_words, eta, alpha, gamma, rng, mistake=None, serve=True):
        self.docs, self.V, self.eta, self.alpha, self.gamma = docs, n_words, eta, alpha, gamma
        self.rng, self.mistake, self.serve = rng, mistake, serve
        self.t = [[0] * len(doc) for doc in docs]
        self.k = [{0: 0} if doc else {} for doc in docs]
        self.phi = {0: self.draw_topic({})}

    def draw_topic(self, counts):
        return self.rng.dirichlet([counts.get(v, 0) + self.eta for v in range(self.V)])

    def draw(self, weights):
        w = np.array(list(weights.values()))
        return list(weights)[
            np.searchsorted(np.cumsum(w), self.rng.random() * w.sum(), side="right")
        ]

    def tables(self):
        return Counter(dish for k_j in self.k for dish in k_j.values())

    def counts(self, dish):
        return Counter(
            v
            for doc, t_j, k_j in zip(self.docs, self.t, self.k)
            for v, s in zip(doc, t_j)
            if s in k_j and k_j[s] == dish
        )

    def likelihood(self, words, dish):
        "Joint probability of the words under a dish, given the other words that it has."
        if self.mistake == "fresh":
            return np.prod(self.phi[dish][words])
        counts, p = self.counts(dish), 1.0
        for v in words:
            p *= (counts[v] + self.eta) / (sum(counts.values()) + self.V * self.eta)
            counts[v] += self.mistake != "product"
        return p

    def new_dish(self, m):
        dish = next(d for d in range(len(m) + 1) if d not in m)
        if self.mistake == "fresh":
            self.phi[dish] = self.draw_topic({})
        return dish

    def token(self, j, i):
        v, t_j, k_j, before = self.docs[j][i], self.t[j], self.k[j], self.tables()
        table, t_j[i] = t_j[i], None
        if table not in t_j:
            del k_j[table]
        m = before if self.mistake == "vacated" else self.tables()
        menu = {**m, self.new_dish(m): self.gamma}
        if self.mistake == "fresh":
            menu = {self.draw(menu): sum(menu.values())}  # (32)
        a = self.alpha / (sum(m.values()) + self.gamma)
        weights = {(s, dish): t_j.count(s) * self.likelihood([v], dish) for s, dish in k_j.items()}
        new = next(s for s in range(len(k_j) + 1) if s not in k_j)
        weights.update(
            {(new, dish): a * w * self.likelihood([v], dish) for dish, w in menu.items()}
        )
        t_j[i], k_j_dish = self.draw(weights)  # (33)
        k_j[t_j[i]] = k_j_dish

    def table(self, j, s):
        words = [v for v, table in zip(self.docs[j], self.t[j]) if table == s]
        del self.k[j][s]
        m = self.tables()
        menu = {**m, self.new_dish(m): self.gamma}
        self.k[j][s] = self.draw(
            {d: w * self.likelihood(words, d) for d, w in menu.items()}
        )  # (34)

    def sweep(self):
        for j, doc in enumerate(self.docs):
            for i in range(len(doc)):
                self.token(j, i)
            for s in list(self.k[j]) if self.serve else ():
                self.table(j, s)
        if self.mistake == "fresh":
            self.phi = {dish: self.draw_topic(self.counts(dish)) for dish in self.tables()}  # (35)
        return np.array([self.k[j][s] for j, t_j in enumerate(self.t) for s in t_j]), sum(
            map(len, self.k)
        )


class Direct:
    """Direct assignment in plain Python, for fixed concentrations; `beta` maps topics, and the
    pool "u", to weights.

    `mistake`: "lost", the weight of a topic that dies does not go back to the pool; "even", a new
    topic takes a uniform
    share of the pool, whatever gamma is.
    """

    def __init__(self, docs, n_words, eta, alpha, gamma, rng, mistake=None):
        self.docs, self.V, self.eta, self.alpha, self.gamma, self.rng, self.mistake = (
            docs,
            n_words,
            eta,
            alpha,
            gamma,
            rng,
            mistake,
        )
        self.z, self.beta = [[0] * len(doc) for doc in docs], {0: 0.5, "u": 0.5}

    def token(self, j, i):
        v, old, self.z[j][i] = self.docs[j][i], self.z[j][i], None
        others = [
            (w, k) for doc, z in zip(self.docs, self.z) for w, k in zip(doc, z) if k is not None
        ]
        n_k, n_vk = Counter(k for _, k in others), Counter(others)
        if old not in n_k:
            weight = self.beta.pop(old)
            self.beta["u"] += weight * (self.mistake != "lost")
        w = [
            (self.alpha * b + self.z[j].count(k))
            * (n_vk[v, k] + self.eta)
            / (n_k[k] + self.V * self.eta)
            for k, b in self.beta.items()
        ]
        k = list(self.beta)[np.searchsorted(np.cumsum(w), self.rng.random() * sum(w), side="right")]
        if k == "u":
            b = self.rng.beta(1, 1 if self.mistake == "even" else self.gamma)
            k = next(k for k in range(len(self.beta)) if k not in self.beta)
            self.beta[k], self.beta["u"] = b * self.beta["u"], (1 - b) * self.beta["u"]
        self.z[j][i] = k

    def sweep(self):
        for j, doc in enumerate(self.docs):
            for i in range(len(doc)):
                self.token(j, i)
        m = Counter()
        for z in self.z:
            for k, n in Counter(z).items():
                m[k] += sum(
                    self.rng.random() * (self.alpha * self.beta[k] + l) < self.alpha * self.beta[k]
                    for l in range(n)
                )
        self.beta = dict(zip([*m, "u"], self.rng.dirichlet([*m.values(), self.gamma])))
        return np.array(sum(self.z, [])), sum(m.values())


def sampled(z_and_tables, n_tokens):
    "P(K), P(tables) and co-clustering from pairs (topics of the tokens, number of tables)."
    p_K, p_T, same = np.zeros(n_tokens + 1), np.zeros(n_tokens + 1), np.zeros((n_tokens, n_tokens))
    for n, (z, tables) in enumerate(z_and_tables, 1):  # noqa: B007
        p_K[len(set(z.tolist()))] += 1
        p_T[tables] += 1
        same += np.equal.outer(z, z)
    return p_K / n, p_T / n, same / n


def check_prior(chain):
    """V = 1: the words say nothing, so a sampler must give the prior.

    `chain(docs, seed)` is the trace of a sampler of these documents of one word, with alpha = gamma
    = 1 fixed; its first 200 sweeps are left out.
    """
    traces = [chain([[0] * 100] * 50, seed) for seed in range(3)]
    assert (
        abs(
            np.mean([trace["n_tables"][200:].mean() for trace in traces])
            / 50
            / sum(1 / i for i in range(1, 101))
            - 1
        )
        < 0.01
    )  # 5.187 tables per document
    pieces = np.array(
        [[piece.mean() for piece in np.array_split(trace["n_topics"][200:], 5)] for trace in traces]
    )
    error = max(
        pieces.std(ddof=1) / 15**0.5, pieces.mean(axis=1).std(ddof=1) / 3**0.5
    )  # three chains that happen to agree say little by themselves
    assert abs(pieces.mean() - 6.136) < max(4 * error, 0.1)
