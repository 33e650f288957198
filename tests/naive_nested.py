"""Oracles for the hybrid nested/hierarchical DP: enumeration, and Gibbs in plain Python.

Nothing here is imported from the package. A token's topic is written (s, l): topic l of the global
measure (s = 0) or of cluster s - 1. `kind` says which words a side may have: "words" (the full
model), "topics" (no word selection: all words on both sides), "nested" (no global side).
"""

from collections import Counter
from itertools import product
from math import exp, lgamma, log

import numpy as np


def log_beta(a, b):
    return lgamma(a) + lgamma(b) - lgamma(a + b)


def log_dirichlet_counts(counts, conc, n_cells):
    """Probability of a sequence of cells with these counts, its weights Dirichlet(conc/n_cells,
    ...).
    """
    a = conc / n_cells
    return (
        lgamma(conc) - lgamma(conc + sum(counts)) + sum(lgamma(a + n) - lgamma(a) for n in counts)
    )


def log_clusters(c, K, gamma):
    return log_dirichlet_counts(Counter(c).values(), gamma, K)


class Model:
    "Sizes, documents (lists of word ids) and fixed parameters."

    def __init__(
        self, docs, V, K, L, alpha=1.0, beta=1.0, gamma=1.0, eta=0.5, kind="words", shared=False
    ):
        self.docs, self.V, self.K, self.L = docs, V, K, L
        self.alpha, self.beta, self.gamma, self.eta, self.kind, self.shared = (
            alpha,
            beta,
            gamma,
            eta,
            kind,
            shared,
        )

    def words_of(self, s, q):
        "The words that the topics of measure s can have."
        if self.kind != "words":
            return list(range(self.V))
        return [v for v in range(self.V) if q[v] == (s == 0)]

    def log_joint(self, c, q, z):
        """log p(x, z, c, q | gamma): weights, topics, epsilon, omega and pi integrated out. z: one
        (s, l) per token, document by document.
        """
        tokens = [(v, c[j]) for j, doc in enumerate(self.docs) for v in doc]
        total = log_clusters(c, self.K, self.gamma)
        if self.kind == "words":  # pi
            total += log_beta(self.alpha + sum(q), self.beta + self.V - sum(q)) - log_beta(
                self.alpha, self.beta
            )
        sides = Counter((0 if self.shared else k, s == 0) for (v, k), (s, l) in zip(tokens, z))
        if self.kind != "nested":  # epsilon
            total += sum(
                log_beta(self.alpha + sides[k, True], self.beta + sides[k, False])
                - log_beta(self.alpha, self.beta)
                for k in range(1 if self.shared else self.K)
            )
        sizes, words = Counter(z), Counter((s, l, v) for (v, k), (s, l) in zip(tokens, z))
        for s in range(self.K + 1):  # weights
            total += log_dirichlet_counts(
                [n for (r, _), n in sizes.items() if r == s],
                self.alpha if s == 0 else self.beta,
                self.L,
            )
        for (s, l), n in sizes.items():  # topics
            support = self.words_of(s, q)
            counts = [words[s, l, v] for v in support]
            total += (
                log_dirichlet_counts(counts, self.eta * len(support), len(support))
                if sum(counts) == n
                else -np.inf
            )
        return total

    def configurations(self):
        "Every (c, q, z) that is possible."
        tokens = [(v, j) for j, doc in enumerate(self.docs) for v in doc]
        selections = (
            [q for q in product([0, 1], repeat=self.V) if 1 <= sum(q) < self.V]
            if self.kind == "words"
            else [(0,) * self.V]
        )
        for c in product(range(self.K), repeat=len(self.docs)):
            for q in selections:

                def menu(v, j):
                    sides = {
                        "words": [0 if q[v] else c[j] + 1],
                        "topics": [0, c[j] + 1],
                        "nested": [c[j] + 1],
                    }[self.kind]
                    return [(s, l) for s in sides for l in range(self.L)]

                for z in product(*(menu(v, j) for v, j in tokens)):
                    yield c, q, z


def summary(c, q, z):
    """What is compared: documents in one cluster, words that are global, tokens in one topic,
    tokens in global topics.
    """
    c, q, z = np.array(c), np.array(q), np.array([s * 10_000 + l for s, l in z])
    return (
        np.equal.outer(c, c).astype(float),
        (q == 1).astype(float),
        np.equal.outer(z, z).astype(float),
        (z < 10_000).astype(float),
    )


class Posterior:
    """Exact posterior means of `summary`, in `mean`.

    With a Gamma(shape, rate) prior of gamma also E[gamma], in `gamma`.

    `weigh(c)`, if given, is a further factor: how a wrong sampler would weigh clusterings.
    """

    def __init__(self, model, prior=None, weigh=lambda c: 1.0):
        nodes = np.array([model.gamma]) if prior is None else np.exp(np.linspace(-60, 6, 4000))
        density = (
            np.ones_like(nodes) if prior is None else nodes ** prior[0] * np.exp(-prior[1] * nodes)
        )
        self.mean, self.gamma, total, known = None, 0.0, 0.0, {}
        for c, q, z in model.configurations():
            if not weigh(c):
                continue
            sizes = tuple(sorted(Counter(c).values()))
            if sizes not in known:
                values = density * np.exp([log_clusters(c, model.K, g) for g in nodes])
                known[sizes] = values.sum(), values @ nodes
            mass, first = (
                a * weigh(c) * exp(model.log_joint(c, q, z) - log_clusters(c, model.K, model.gamma))
                for a in known[sizes]
            )
            parts = [mass * a for a in summary(c, q, z)]
            self.mean = parts if self.mean is None else [a + b for a, b in zip(self.mean, parts)]
            self.gamma, total = self.gamma + first, total + mass
        self.mean, self.gamma = [a / total for a in self.mean], self.gamma / total


class Gibbs(Model):
    """Gibbs sampling by the paper's equations 8 to 16, with weights and topics drawn.

    `mistake` puts in an error that a check must reject:
    "epsilon": eq 13 as printed, with the global tokens of all documents in every cluster's epsilon.
    "minus one": m_k - 1 for every cluster, as the equation for c_j has it.
    "reverse": a flip of a word accepted without the probability of the way back.
    """

    def __init__(self, *args, rng, mistake=None, **options):
        super().__init__(*args, **options)
        self.rng, self.mistake, self.pi = rng, mistake, 0.5
        self.c = [int(k) for k in rng.integers(self.K, size=len(self.docs))]
        self.q = [int(v == 0 and self.kind == "words") for v in range(self.V)]
        self.z = [
            [(0 if self.kind == "words" and self.q[v] else self.c[j] + 1, 0) for v in doc]
            for j, doc in enumerate(self.docs)
        ]

    def draw(self, weights):
        w = np.array(weights)
        return int(np.searchsorted(np.cumsum(w), self.rng.random() * w.sum(), side="right"))

    def tokens(self):
        return [(j, i, v) for j, doc in enumerate(self.docs) for i, v in enumerate(doc)]

    def parameters(self):
        "Equations 9 to 13, for every cluster."
        n = Counter((*self.z[j][i], v) for j, i, v in self.tokens())
        side = Counter((self.c[j], self.z[j][i][0] == 0) for j, i, v in self.tokens())
        self.mix = np.zeros((self.K + 1, self.L, self.V))  # weight times topic
        for s in range(self.K + 1):
            support = self.words_of(s, self.q)
            sizes = [sum(n[s, l, v] for v in support) for l in range(self.L)]
            w = self.rng.dirichlet(
                [(self.alpha if s == 0 else self.beta) / self.L + size for size in sizes]
            )
            for l in range(self.L):
                self.mix[s, l, support] = w[l] * self.rng.dirichlet(
                    [self.eta + n[s, l, v] for v in support]
                )
        everywhere = sum(side[k, True] for k in range(self.K))
        self.eps = [
            self.rng.beta(
                self.alpha + (everywhere if self.mistake == "epsilon" else side[k, True]),
                self.beta + side[k, False],
            )
            for k in range(self.K)
        ]
        if self.kind == "nested":
            self.eps = [0.0] * self.K

    def topics_of(self, k, v):
        "p(z = t, x = v | c = k) for the global topics, then the local ones (8)."
        return np.concatenate(
            [self.eps[k] * self.mix[0, :, v], (1 - self.eps[k]) * self.mix[k + 1, :, v]]
        )

    def cluster(self, j):
        "c_j with the topics of the document's tokens summed out, then these (8)."
        self.c[j], weights = None, []
        for k in range(self.K):
            m = self.c.count(k)
            if self.mistake == "minus one":
                m = max(m - 1, 0)
            weight = m + self.gamma / self.K
            weights.append(weight * np.prod([self.topics_of(k, v).sum() for v in self.docs[j]]))
        k = self.c[j] = self.draw(weights)
        for i, v in enumerate(self.docs[j]):
            t = self.draw(self.topics_of(k, v))
            self.z[j][i] = (0, t) if t < self.L else (k + 1, t - self.L)

    def allocate(self, v, q, fixed):
        """Seat the tokens of v one after the other under the word sides q.

        With `fixed` they take these topics again. Returns the topics and sum log Z, where Z
        normalises every choice.
        """
        places = [(j, i) for j, i, w in self.tokens() if w == v]
        others = [(self.z[j][i], w) for j, i, w in self.tokens() if w != v]
        chosen, log_p = [], 0.0
        for r, (j, _) in enumerate(places):
            s = 0 if q[v] else self.c[j] + 1
            conc, S = self.alpha if s == 0 else self.beta, len(self.words_of(s, q))
            seated = [z for z, w in others] + chosen
            weights = []
            for l in range(self.L):
                n, same = (
                    seated.count((s, l)),
                    sum(z == (s, l) and w == v for z, w in others) + chosen.count((s, l)),
                )
                weights.append((n + conc / self.L) * (same + self.eta) / (n + S * self.eta))
            l = fixed[r][1] if fixed else self.draw(weights)
            log_p += log(weights[l] / sum(weights))
            chosen.append((s, l))
        return places, chosen, log_p

    def flip(self, v):
        """Put the word v on the other side, its tokens re-allocated: forward and reverse
        probabilities.
        """
        q = list(self.q)
        q[v] = 1 - q[v]
        if not 1 <= sum(q) < self.V:
            return False
        flat = lambda: [t for row in self.z for t in row]
        prior = lambda q: sum(log(self.pi if g else 1 - self.pi) for g in q)
        joint = lambda q: (
            self.log_joint(self.c, q, flat())
            - log_beta(self.alpha + sum(q), self.beta + self.V - sum(q))
            + prior(q)
        )
        places = [(j, i) for j, i, w in self.tokens() if w == v]
        before, old = joint(self.q), [self.z[j][i] for j, i in places]
        _, _, reverse = self.allocate(v, self.q, old)
        _, new, forward = self.allocate(v, q, None)
        for (j, i), t in zip(places, new):
            self.z[j][i] = t
        log_ratio = joint(q) - before + (0.0 if self.mistake == "reverse" else reverse - forward)
        if log(1 - self.rng.random()) < log_ratio:
            self.q = q
            return True
        for (j, i), t in zip(places, old):
            self.z[j][i] = t
        return False

    def sweep(self):
        self.parameters()
        for j in range(len(self.docs)):
            self.cluster(j)
        if self.kind == "words":
            for _ in range(self.V):
                self.flip(int(self.rng.integers(self.V)))
            self.pi = self.rng.beta(self.alpha + sum(self.q), self.beta + self.V - sum(self.q))
        return summary(self.c, self.q, [t for row in self.z for t in row])


def sampled(summaries):
    "Means of the summaries."
    mean = []
    for n, parts in enumerate(summaries, 1):
        mean = (
            [np.array(a) for a in parts]
            if n == 1
            else [m + (a - m) / n for m, a in zip(mean, parts)]
        )
    return mean


def largest_error(a, b):
    return [float(abs(x - y).max()) for x, y in zip(a, b)]
