"""Oracles for trees of Dirichlet processes: every seating plan of a nested franchise.

A tree is `parent[s]` of every node (the root is 0, parents come before children, parent[0] is -1)
and `node[j]`, the node that
document j hangs under. Every node and every document has a restaurant. A table of a document is a
customer of its node, a table
of a node is a customer of the parent, a table of the root is a topic.
"""

from collections import Counter
from itertools import product
from math import exp, lgamma, log

import numpy as np
from naive import log_words, partitions


def log_crp(seating, concentration):
    "Log probability of one partition under the Chinese restaurant process."
    sizes = Counter(seating).values()
    return (
        len(sizes) * log(concentration)
        + sum(lgamma(n) for n in sizes)
        + lgamma(concentration)
        - lgamma(concentration + len(seating))
    )


def at_tables(customers, seating):
    "Customers are tuples of tokens; so are the tables they sit at."
    return [
        sum((c for c, t in zip(customers, seating) if t == table), ())
        for table in range(max(seating, default=-1) + 1)
    ]


def name_topics(tables, gamma, given):
    """Every way to serve the root's tables a given topic each (0, 1, ...) or a new one (-1).

    With its log probability.

    `given[k]` customers ate topic k before anybody came, so this is what the root's restaurant does
    after they did.
    """
    sizes, before = [len(table) for table in tables], sum(given)
    for names in product(range(-1, len(given)), repeat=len(tables)):
        old = [k for k in names if k >= 0]
        if len(set(old)) == len(old):
            yield (
                names,
                (
                    sum(
                        log(gamma) + lgamma(n) if k < 0 else lgamma(given[k] + n) - lgamma(given[k])
                        for n, k in zip(sizes, names)
                    )
                    + lgamma(gamma + before)
                    - lgamma(gamma + before + sum(sizes))
                ),
            )


def nested_seatings(docs, node, parent, conc, alpha, given=()):
    """Every seating of all restaurants.

    (Topics as tuples of tokens, which given topic each is or -1, customers of every node, log
    probability.)

    Tokens are numbered through all documents. `conc[s]` is the concentration of node s, `alpha`
    that of the documents.
    """

    def serve(s, customers, log_p):
        "Nodes s, s - 1, ..., 0: all that hangs under them is seated."
        for seating in partitions(len(customers[s])):
            if s == 0:
                seats = [
                    [c for c, t in zip(customers[0], seating) if t == table]
                    for table in range(max(seating, default=-1) + 1)
                ]
                for names, p in name_topics(seats, conc[0], given):
                    yield (
                        at_tables(customers[0], seating),
                        names,
                        [len(c) for c in customers],
                        log_p + p,
                    )
            else:
                above = list(customers)
                above[parent[s]] = above[parent[s]] + at_tables(customers[s], seating)
                yield from serve(s - 1, above, log_p + log_crp(seating, conc[s]))

    def seat(j, first, customers, log_p):
        "Documents j, j + 1, ..."
        if j == len(docs):
            yield from serve(len(parent) - 1, customers, log_p)
            return
        tokens = [(first + i,) for i in range(len(docs[j]))]
        for seating in partitions(len(tokens)):
            above = list(customers)
            above[node[j]] = above[node[j]] + at_tables(tokens, seating)
            yield from seat(j + 1, first + len(tokens), above, log_p + log_crp(seating, alpha))

    yield from seat(0, 0, [[] for _ in parent], 0.0)


def urn(words, a):
    "Probability of words drawn one after the other from an urn with a[v] balls of word v at first."
    a, p = np.array(a, float), 1.0
    for v in words:
        p *= a[v] / a.sum()
        a[v] += 1
    return p


class TreePosterior:
    """Exact posterior of a tiny corpus under a tree of Dirichlet processes.

    `n_topics[k]`: probabilities; `same[a, b]`: probability that tokens a and b share a topic;
    `customers[s]`: expected customers of
    node s; `unseen[s]`: expected weight, at node s, of all topics that no token has.

    Topics may be given: `given[k]` their tables at the root, `phi[k]` their words, or, where they
    are seeded, `seeds[:, k]` what is added to eta for every word. They do not count as topics, nor
    their tables as customers; `tokens[k]` is the expected number of tokens in each.
    """

    def __init__(self, docs, node, parent, conc, alpha, n_words, eta, given=(), phi=(), seeds=None):
        words, S, F = [w for doc in docs for w in doc], len(parent), len(given)
        N, total = len(words), 0.0
        self.n_topics, self.same, self.customers, self.unseen, self.tokens = (
            np.zeros(shape) for shape in (N + 1, (N, N), S, S, F)
        )
        for topics, names, customers, log_p in nested_seatings(
            docs, node, parent, conc, alpha, given
        ):
            z = np.empty(N, int)
            for k, (tokens, name) in enumerate(zip(topics, names)):
                z[list(tokens)] = name if name >= 0 else F + k
            new = [i for i in range(N) if z[i] >= F]
            log_p += log_words([words[i] for i in new], z[new].tolist(), n_words, eta)
            if seeds is None:
                p = exp(log_p) * np.prod([phi[z[i]][words[i]] for i in range(N) if z[i] < F])
            else:
                p = exp(log_p)
                for k in range(F):
                    p *= urn([words[i] for i in range(N) if z[i] == k], eta + seeds[:, k])
            pool = np.empty(S)
            for s in range(S):
                pool[s] = (
                    conc[s]
                    / (conc[s] + customers[s] + (0 if s else sum(given)))
                    * (pool[parent[s]] if s else 1.0)
                )
            self.n_topics[names.count(-1)] += p
            self.tokens += p * np.bincount(z, minlength=F)[:F]
            self.same += p * np.equal.outer(z, z)
            self.customers += p * np.array(customers)
            self.unseen += p * pool
            total += p
        for a in (self.n_topics, self.same, self.customers, self.unseen, self.tokens):
            a /= total
