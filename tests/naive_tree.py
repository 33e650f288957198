"""Slow, readable oracles for trees of Dirichlet processes: every seating plan of a nested franchise, one after the other.

A tree is `parent[s]` of every node (the root is 0, parents come before children, parent[0] is -1) and `node[j]`, the node that
document j hangs under. Every node and every document has a restaurant. A table of a document is a customer of its node, a table
of a node is a customer of the parent, a table of the root is a topic.
"""
from collections import Counter
from math import exp, lgamma, log

import numpy as np

from naive import log_words, partitions


def log_crp(seating, concentration):
    "Log probability of one partition under the Chinese restaurant process."
    sizes = Counter(seating).values()
    return (len(sizes)*log(concentration) + sum(lgamma(n) for n in sizes)
            + lgamma(concentration) - lgamma(concentration + len(seating)))


def at_tables(customers, seating):
    "Customers are tuples of tokens; so are the tables they sit at."
    return [sum((c for c, t in zip(customers, seating) if t == table), ()) for table in range(max(seating, default=-1) + 1)]


def nested_seatings(docs, node, parent, conc, alpha):
    """Every seating of all restaurants: (topics as tuples of tokens, customers of every node, log probability).

    Tokens are numbered through all documents. `conc[s]` is the concentration of node s, `alpha` that of the documents.
    """
    def serve(s, customers, log_p):
        "Nodes s, s - 1, ..., 0: all that hangs under them is seated."
        for seating in partitions(len(customers[s])):
            tables, p = at_tables(customers[s], seating), log_p + log_crp(seating, conc[s])
            if s == 0:
                yield tables, [len(c) for c in customers], p
            else:
                above = list(customers)
                above[parent[s]] = above[parent[s]] + tables
                yield from serve(s - 1, above, p)

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


class TreePosterior:
    """Exact posterior of a tiny corpus under a tree of Dirichlet processes.

    `n_topics[k]`: probabilities; `same[a, b]`: probability that tokens a and b share a topic; `customers[s]`: expected customers of
    node s; `unseen[s]`: expected weight, at node s, of all topics that no token has.
    """
    def __init__(self, docs, node, parent, conc, alpha, n_words, eta):
        words, S = [w for doc in docs for w in doc], len(parent)
        N, total = len(words), 0.0
        self.n_topics, self.same, self.customers, self.unseen = np.zeros(N + 1), np.zeros((N, N)), np.zeros(S), np.zeros(S)
        for topics, customers, log_p in nested_seatings(docs, node, parent, conc, alpha):
            z = np.empty(N, int)
            for k, tokens in enumerate(topics):
                z[list(tokens)] = k
            p = exp(log_p + log_words(words, z.tolist(), n_words, eta))
            pool = np.empty(S)
            for s in range(S):
                pool[s] = conc[s]/(conc[s] + customers[s])*(pool[parent[s]] if s else 1.0)
            self.n_topics[len(topics)] += p
            self.same += p*np.equal.outer(z, z)
            self.customers += p*np.array(customers)
            self.unseen += p*pool
            total += p
        for a in (self.n_topics, self.same, self.customers, self.unseen):
            a /= total
