"""Splits and merges of topics that the variational bound judges: Algorithm 2 of Bryant & Sudderth
(2012), and memoized inference after Hughes & Sudderth (2013).

For online_bound.py, which runs both beside what the package has, and for the notebook
13_experiments/05_online, which says what is done here. Numbers of equations are the paper's.

Comparisons between numbers of topics leave K log gamma out: an empty topic costs nothing.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import digamma, gammaln

from hdp_nb.variational.bound import (
    EStep,
    VariationalState,
    step_eta,
    update_alpha,
    update_beta,
    update_gamma,
)
from hdp_nb.variational.e_step import (
    Batch,
    EStepRules,
    best_of_two,
    doc_topics,
    e_step,
    exp_digamma,
    make_batch,
    take,
    topic_factors,
    topic_statistics,
)
from hdp_nb.variational.moves import merge_candidates, merge_change, topic_terms
from hdp_nb.variational.online import learning_rate, update

ON = EStepRules(max_iter=10, drop=0.0)  # to go on from where documents were


class Tokens(NamedTuple):
    "The fractional tokens of one topic, document by document."

    r: np.ndarray  # (m,) n_w(j) phi_jwk
    at: np.ndarray  # (m,) their words
    ends: np.ndarray  # (J',) where documents end
    n: np.ndarray  # (J',) tokens of the topic in each


class Divided(NamedTuple):
    "The tokens of one topic, divided between two."

    u: np.ndarray  # (m,) share of the first
    n: np.ndarray  # (J',) tokens of the first in each document
    words: np.ndarray  # (V, 2) tokens of both, word by word
    entropy: float  # of the shares, in nats
    lam: np.ndarray  # (V, 2)
    weight: np.ndarray  # (2,) alpha beta of both


@njit
def _share_tokens(r, at, ends, E1, E2, w1, w2, n, u, words):
    """Algorithm 1, lines 2 to 6: (3) and (4) for two topics, everything else held fixed.

    n (J',) is where to begin, and is changed; u and words are filled. Returns the entropy.
    """
    words[:] = 0.0
    lo, entropy = 0, 0.0
    for j in range(ends.shape[0]):
        hi, N = ends[j], 0.0
        for i in range(lo, hi):
            N += r[i]
        for _ in range(20):
            x = max(exp_digamma(w1 + n[j]), 1e-100)
            y = max(exp_digamma(w2 + max(N - n[j], 0.0)), 1e-100)
            new = 0.0
            for i in range(lo, hi):
                p, q = x * E1[at[i]], y * E2[at[i]]
                u[i] = p / (p + q)
                new += r[i] * u[i]
            change, n[j] = abs(new - n[j]), min(new, N)
            if change <= 1e-4 * N:
                break
        for i in range(lo, hi):
            words[at[i], 0] += r[i] * u[i]
            words[at[i], 1] += r[i] * (1.0 - u[i])
            if 0.0 < u[i] < 1.0:
                entropy -= r[i] * (u[i] * math.log(u[i]) + (1.0 - u[i]) * math.log(1.0 - u[i]))
        lo = hi
    return entropy


def spread(found, K):
    "e_jk of an E-step as a matrix (J, K), 0 where a document does not have a topic."
    e = np.zeros((len(found.n_active), K))
    j, a = np.nonzero(np.arange(found.active.shape[1]) < found.n_active[:, None])
    e[j, found.active[j, a]] = found.e_jk[j, a]
    return e


def topic_tokens(batches, k, least=1e-8):
    """The tokens of a topic in the documents of some batches, each (batch, E, found, e).

    Entries with fewer than `least` tokens are left out.
    """
    r, at, sizes = [], [], []
    for batch, E, found, e in batches:
        all_r = batch.docs.counts * E[batch.rows, k] * e[batch.doc, k] / found.norm
        own = np.flatnonzero(all_r > least)
        r.append(all_r[own])
        at.append(batch.vocab[batch.rows[own]])
        sizes.append(np.bincount(batch.doc[own], minlength=len(batch.docs.lengths)))
    r, at, sizes = map(np.concatenate, (r, at, sizes))
    ends = np.cumsum(sizes[sizes > 0])
    n = np.add.reduceat(r, np.append(0, ends[:-1])) if len(ends) else np.empty(0)
    return Tokens(r, at, ends, n)


def log_topics(lam):
    "E[log phi] (V, K) of topics with these Dirichlet parameters."
    return digamma(lam) - digamma(lam.sum(axis=0))


def restricted_iteration(tokens, lam, weight, n, m_step, rounds):
    """Algorithm 1: divide the tokens of a topic between two, everything else held fixed.

    Parameters
    ----------
    tokens : Tokens
    lam : float array, shape (V, 2)
        Where to begin.
    weight : float array, shape (2,)
        alpha beta, likewise.
    n : float array, shape (J',)
        Tokens of the first in each document, likewise.
    m_step : callable
        lam and weight of tokens (V, 2) and of documents (J', 2).
    rounds : int

    Returns
    -------
    Divided
        With what the last M-step has made.
    """
    u, words, n = np.empty(len(tokens.r)), np.empty(lam.shape), n.copy()
    for _ in range(rounds):
        E1, E2 = (np.maximum(e, 1e-200) for e in np.exp(log_topics(lam)).T)
        w1, w2 = (float(w) for w in weight)
        entropy = _share_tokens(tokens.r, tokens.at, tokens.ends, E1, E2, w1, w2, n, u, words)
        lam, weight = m_step(words, np.column_stack([n, tokens.n - n]))
    return Divided(u, n, words, entropy, lam, weight)


def documents_part(n, weight):
    "Sum over documents of the bound's log Gamma(alpha beta_k + n_jk) - log Gamma(alpha beta_k)."
    return float((gammaln(weight + n) - gammaln(weight)).sum())


def split_change(tokens, new, lam_k, weight, scale, eta):
    """Change of the bound when a topic is replaced by two, in nats.

    Parameters
    ----------
    tokens : Tokens
    new : Divided
    lam_k : float array, shape (V,)
        The topic, at its best for these tokens, as the two are for theirs.
    weight : float
        alpha beta of the topic.
    scale : float
        Documents that one stands for.
    eta : float
    """
    n = np.column_stack([new.n, tokens.n - new.n])
    fit = (new.words * log_topics(new.lam)).sum()
    fit -= new.words.sum(axis=1) @ log_topics(lam_k[:, None])[:, 0]
    mass = documents_part(n, new.weight) - documents_part(tokens.n, weight)
    own = topic_terms(new.lam, eta).sum() - topic_terms(lam_k[:, None], eta)[0]
    return float(scale * (new.entropy + fit + mass) + own)


# Algorithm 2


class BoundRules(NamedTuple):
    "Options of the moves that the bound judges."

    rounds: int = 8  # of the restricted iteration; as printed: 1
    max_splits: int = 5  # in a minibatch
    pairs: int = 50  # tried as merges in a minibatch, those that occur together most
    split: bool = True  # False: only merges


def together(n, pairs):
    "Pairs of topics with positive covariance over documents (J, K), the most correlated first."
    d = n - n.mean(axis=0)
    cov, size = d.T @ d, np.sqrt((d * d).sum(axis=0)) + 1e-100
    score = np.where(cov > 0, cov / np.outer(size, size), -1.0)
    score[np.tril_indices(len(score))] = -1.0
    best = np.argsort(-score, axis=None, kind="stable")[:pairs]
    return [divmod(int(i), len(score)) for i in best if score.flat[i] > 0]


def merge_by_bound(state, batch, E, found, n_docs, pairs):
    """Algorithm 2, lines 9 to 13: merge pairs of topics where that raises the bound.

    A topic takes part in one merge at most, so that each change is that of the model at hand.

    Returns the state, expected tokens (J, K) of the documents, and the number of merges.
    """
    n, eta = doc_topics(found, len(state.beta) - 1), float(state.eta)
    own, scale = topic_terms(state.lam, eta), n_docs / len(n)
    lam, beta, stay, touched = state.lam.copy(), state.beta.copy(), [True] * n.shape[1], set()
    for k1, k2 in together(n, pairs):
        if not touched & {k1, k2}:
            change, column = merge_change(state, batch, E, found, k1, k2)
            if scale * change.sum() + topic_terms(column, eta)[0] - own[k1] - own[k2] > 0:
                lam[:, k1], beta[k1] = column[:, 0], beta[k1] + beta[k2]
                n[:, k1] += n[:, k2]
                stay[k2] = False
                touched |= {k1, k2}
    lam = np.ascontiguousarray(lam[:, stay])
    state = state._replace(lam=lam, beta=beta[[*stay, True]])
    return state, n[:, stay], len(touched) // 2


def split_trial(old, new, rho, batches, k, scale, rounds):
    """Divide a topic as Algorithm 1 does, from the paper's start, and judge it.

    Parameters
    ----------
    old, new : OnlineState
        Before and after the update (6), (7) of the minibatch.
    rho : float
        Rate of the update.
    batches : list
        The minibatch, see `topic_tokens`.
    k : int
    scale : float
    rounds : int

    Returns
    -------
    change : float
        Of the bound, in nats. The topic that is not split is that of `new`, which is at its best,
        too, for the documents' responsibilities.
    Divided
    """
    tokens, eta, alpha = topic_tokens(batches, k), float(new.eta), float(new.alpha)
    if not len(tokens.ends):
        return -np.inf, None
    kept = (1 - rho) * (old.lam[:, k] - float(old.eta))
    hat = new.lam[:, k] - kept - (1 - rho) * eta  # rho lambda-hat
    beta1 = (1 - rho) * old.beta[k]
    beta2 = max(new.beta[k] - beta1, 1e-20)  # rho beta-hat

    def m_step(words, n):
        lam = eta + rho * scale * words
        lam[:, 0] += kept
        now = alpha * np.array([omega, 1 - omega]) * new.beta[k]
        T = (now * (digamma(now + n) - digamma(now))).sum(axis=0)
        share = beta2 * T / T.sum()
        return lam, alpha * np.array([beta1 + share[0], max(share[1], 1e-20)])

    omega = beta1 / (beta1 + beta2)
    start = np.column_stack([kept + (1 - rho) * eta, np.maximum(hat, 1e-100)])
    weight = alpha * np.array([beta1, beta2])
    found = restricted_iteration(tokens, start, weight, omega * tokens.n, m_step, rounds)
    weight = alpha * float(new.beta[k])
    return split_change(tokens, found, new.lam[:, k], weight, scale, eta), found


def printed_step(rng, state, docs, n_docs, options, rules=BoundRules()):  # noqa: B008
    """Algorithm 2: learn from one minibatch, merge and split topics where the bound rises.

    Parameters
    ----------
    rng : numpy.random.Generator
        For the order in which topics are tried.
    state : OnlineState
    docs : Docs
    n_docs : int
        D, the documents that the minibatch stands for.
    options : OnlineOptions
        Of the update.
    rules : BoundRules

    Returns
    -------
    state : OnlineState
    info : dict
        splits, merges.
    """
    batch, scale = make_batch(docs, len(state.lam)), n_docs / len(docs.lengths)

    def documents(state, start=None):
        E, weight = topic_factors(state.lam, batch), float(state.alpha) * state.beta[:-1]
        how = EStepRules(options.tol) if start is None else ON
        return E, e_step(batch, E, weight, float(state.alpha), start, how)

    E, found = documents(state)
    state, n, merges = merge_by_bound(state, batch, E, found, n_docs, rules.pairs)
    if merges:
        E, found = documents(state, n)
    new, splits = update(state, batch, E, found, n_docs, options), 0
    rho = learning_rate(int(state.seen), len(docs.lengths), options)
    K = len(state.beta) - 1
    batches, lam, beta = [(batch, E, found, spread(found, K))], new.lam, new.beta
    for k in rng.permutation(K) if rules.split else ():
        change, two = split_trial(state, new, rho, batches, k, scale, rules.rounds)
        if change > 0:
            share = two.weight / two.weight.sum()
            lam = np.column_stack([lam, two.lam[:, 1]])
            beta = np.concatenate([beta[:-1], beta[[k]] * share[1], beta[-1:]])
            lam[:, k], beta[k] = two.lam[:, 0], beta[k] * share[0]
            splits += 1
            if splits == rules.max_splits:
                break
    return new._replace(lam=lam, beta=beta), {"splits": splits, "merges": merges}


# Memoized inference


class Part(NamedTuple):
    "One batch of a corpus, and what is remembered of it."

    batch: Batch
    E: np.ndarray  # (W, >= K) of the E-step that `found` is of
    found: EStep
    n: np.ndarray  # (J, K) expected tokens
    S: np.ndarray  # (W, K) statistics of the topics
    entropy: float  # of the responsibilities


class Memoized(NamedTuple):
    "Topics of a whole corpus, and what is remembered of its batches."

    state: VariationalState
    stats: np.ndarray  # (V, K) sum of the parts' statistics; lambda = eta + stats
    parts: list[Part]


def log_normalisers(lam, eta):
    "The topics' part of the bound (K,), with their words', where lambda = eta + statistics."
    V = len(lam)
    return gammaln(V * eta) - V * gammaln(eta) - gammaln(lam.sum(axis=0)) + gammaln(lam).sum(axis=0)


def visit(batch, state, n=None):
    "E-step of a batch: afresh, or on from n (J, K), whichever a document's bound prefers."
    K, weight, alpha = state.lam.shape[1], float(state.alpha) * state.beta[:-1], float(state.alpha)
    E = topic_factors(state.lam, batch)
    found = e_step(batch, E, weight, alpha)
    if n is not None:
        found = best_of_two(batch, found, e_step(batch, E, weight, alpha, n, ON))
    n, S = doc_topics(found, K), topic_statistics(batch, E, found, K)
    N = batch.docs.lengths
    mass = documents_part(n, weight) + (gammaln(alpha) - gammaln(alpha + N)).sum()
    entropy = found.bound.sum() - mass - (S * np.log(E[:, :K])).sum()
    return Part(batch, E, found, n, S, float(entropy))


def gather(parts, n_words):
    "Sum of the parts' statistics (V, K)."
    stats = np.zeros((n_words, parts[0].S.shape[1]))
    for part in parts:
        stats[part.batch.vocab] += part.S
    return stats


def together_again(parts, state):
    "The model of parts whose E-steps are new: lambda at its best."
    stats = gather(parts, len(state.lam))
    return Memoized(state._replace(lam=float(state.eta) + stats), stats, parts)


def first_memoized(docs, state, batch_size, rng, n=None):
    """Cut documents into batches at random, and make the first E-step of each.

    n (J, K) are expected tokens to go on from, if there are any.
    """
    order = rng.permutation(len(docs.lengths))
    rows = map(np.sort, np.array_split(order, max(1, round(len(order) / batch_size))))
    batch = lambda part: make_batch(take(docs, part), len(state.lam))
    parts = [visit(batch(part), state, None if n is None else n[part]) for part in rows]
    return together_again(parts, state)


def bound(model, gamma_prior=None, alpha_prior=None, eta_prior=None):
    """The bound of the whole corpus, in nats.

    Priors are (shape, rate) of the concentrations that are learned. Terms as in `global_bound`.
    """
    state, N = model.state, np.concatenate([part.batch.docs.lengths for part in model.parts])
    alpha, gamma, eta = (float(x) for x in (state.alpha, state.gamma, state.eta))
    weight, K = alpha * state.beta[:-1], len(state.beta) - 1
    total = sum(part.entropy + documents_part(part.n, weight) for part in model.parts)
    total += (gammaln(alpha) - gammaln(alpha + N)).sum()
    total += log_normalisers(state.lam, eta).sum()
    total += K * math.log(gamma) + gamma * math.log(state.beta[-1])
    for x, prior in ((alpha, alpha_prior), (gamma, gamma_prior), (eta, eta_prior)):
        if prior is not None:
            total += (prior[0] - 1) * math.log(x) - prior[1] * x
    return float(total)


def learn_eta(stats, eta, prior):
    "A step of eta, halved until the bound does not fall; topics move along."
    value = lambda x: (
        log_normalisers(x + stats, x).sum() + (prior[0] - 1) * math.log(x) - prior[1] * x
    )
    step = math.log(step_eta(eta + stats, eta, prior) / eta)
    while abs(step) > 1e-8 and value(eta * math.exp(step)) < value(eta):
        step /= 2
    return eta * math.exp(step) if abs(step) > 1e-8 else eta


def lap(model, rng, options, subtract=True):
    """Visit every batch once, in any order, and then improve weights and concentrations.

    The bound of the corpus never falls. `options` are OnlineOptions, for the priors; `subtract` is
    for a check: without it a batch's old statistics stay.
    """
    state, stats, parts = model.state, model.stats.copy(), list(model.parts)
    for b in rng.permutation(len(parts)):
        old, new = parts[b], visit(parts[b].batch, state, parts[b].n)
        stats[new.batch.vocab] += new.S - old.S if subtract else new.S
        np.maximum(stats, 0.0, out=stats)  # below 0 by rounding
        state, parts[b] = state._replace(lam=float(state.eta) + stats), new
    if subtract:
        stats = gather(parts, len(stats))  # rounding does not add up
    found = EStep(*(np.concatenate(field) for field in zip(*(part.found for part in parts))))
    alpha, gamma, eta = (float(x) for x in (state.alpha, state.gamma, state.eta))
    beta = update_beta(found, state.beta, alpha, gamma)
    if options.alpha_prior is not None:
        N = np.concatenate([part.batch.docs.lengths for part in parts])
        alpha = update_alpha(found, N, beta, alpha, options.alpha_prior)
    if options.gamma_prior is not None:
        gamma = update_gamma(beta, options.gamma_prior)
    if options.eta_prior is not None:
        eta = learn_eta(stats, eta, options.eta_prior)
    concentrations = map(np.array, (alpha, gamma, eta))
    return Memoized(VariationalState(eta + stats, beta, *concentrations), stats, parts)


def many_laps(model, rng, options, laps):
    "`lap` again and again."
    for _ in range(laps):
        model = lap(model, rng, options)
    return model


def as_batches(model):
    "The parts of a model as `topic_tokens` takes them."
    K = model.stats.shape[1]
    return [(part.batch, part.E, part.found, spread(part.found, K)) for part in model.parts]


def merged_entropy(batches, k1, k2):
    "Change of the entropy when the responsibilities of two topics are added up."
    plog = lambda p: p * np.log(np.maximum(p, 1e-300))
    out = 0.0
    for batch, E, found, e in batches:
        p, q = (E[batch.rows, k] * e[batch.doc, k] / found.norm for k in (k1, k2))
        out -= batch.docs.counts @ (plog(p + q) - plog(p) - plog(q))
    return float(out)


def merge_exactly(model, batches, k1, k2):
    "Change of the bound of the corpus when two topics become one, in nats."
    state, eta = model.state, float(model.state.eta)
    n, weight = np.concatenate([part.n[:, [k1, k2]] for part in model.parts]), state.beta[[k1, k2]]
    weight = float(state.alpha) * weight
    mass = documents_part(n.sum(axis=1), weight.sum()) - documents_part(n, weight)
    two = state.lam[:, [k1, k2]]
    terms = log_normalisers(np.column_stack([two.sum(axis=1) - eta, two]), eta)
    return merged_entropy(batches, k1, k2) + mass + float(terms[0] - terms[1] - terms[2])


def anew(model, lam, beta, starts):
    "E-steps of all batches under other topics, on from expected tokens of theirs."
    state = model.state._replace(lam=lam, beta=beta)
    parts = [visit(part.batch, state, n) for part, n in zip(model.parts, starts)]
    return together_again(parts, state)


def apply_merge(model, k1, k2):
    "The model with topic k2 in k1, after E-steps of all batches."
    state, stay = model.state, np.arange(model.stats.shape[1]) != k2
    lam, beta, starts = state.lam.copy(), state.beta.copy(), []
    lam[:, k1] += lam[:, k2] - float(state.eta)
    beta[k1] += beta[k2]
    for part in model.parts:
        n = part.n.copy()
        n[:, k1] += n[:, k2]
        starts.append(np.ascontiguousarray(n[:, stay]))
    return anew(model, np.ascontiguousarray(lam[:, stay]), beta[np.append(stay, True)], starts)


def divide(model, batches, k, rng, rounds=8):
    """Divide a topic in two over the whole corpus, begun from two documents that use it.

    Returns the change of the bound, and what `apply_splits` takes.
    """
    state, tokens = model.state, topic_tokens(batches, k)
    if (tokens.n >= 1).sum() < 2:
        return -np.inf, None
    eta, weight = float(state.eta), float(state.alpha) * state.beta[k]
    two = rng.choice(len(tokens.n), 2, replace=False, p=tokens.n / tokens.n.sum())
    seeds, starts = np.zeros((len(state.lam), 2)), np.append(0, tokens.ends)
    for c, j in enumerate(two):
        own = slice(starts[j], starts[j + 1])
        seeds[tokens.at[own], c] = tokens.r[own]
    share = seeds.sum(axis=0) / seeds.sum()

    def m_step(words, n):
        total = n.sum(axis=0) + 1e-10
        return eta + words, weight * total / total.sum()

    f = (seeds + share) / (seeds.sum(axis=1) + 1.0)[:, None]
    lam = eta + (state.lam[:, [k]] - eta) * f
    first = restricted_iteration(tokens, lam, weight * share, share[0] * tokens.n, m_step, rounds)
    return split_change(tokens, first, state.lam[:, k], weight, 1.0, eta), (tokens, first)


def apply_splits(model, batches, found):
    """The model with some topics divided, after E-steps of all batches.

    `found` has what `divide` found, by topic.
    """
    lam, beta, starts = model.state.lam, model.state.beta, [part.n for part in model.parts]
    for k, (_, two) in found.items():
        share = two.weight / two.weight.sum()
        lam = np.column_stack([lam, two.lam[:, 1]])
        beta = np.concatenate([beta[:-1], beta[[k]] * share[1], beta[-1:]])
        lam[:, k], beta[k] = two.lam[:, 0], beta[k] * share[0]
        starts = [np.column_stack([n, np.zeros(len(n))]) for n in starts]
        done = 0
        for n, (batch, E, its, e) in zip(starts, batches):
            r = batch.docs.counts * E[batch.rows, k] * e[batch.doc, k] / its.norm
            rows = np.unique(batch.doc[r > 1e-8])
            first = two.n[done : done + len(rows)]
            n[rows, -1], n[rows, k] = np.maximum(n[rows, k] - first, 0.0), first
            done += len(rows)
    return anew(model, np.ascontiguousarray(lam), beta, starts)


def judged(model, options):
    "What moves are compared by: the bound without K log gamma."
    gamma = math.log(float(model.state.gamma))
    priors = options.gamma_prior, options.alpha_prior, options.eta_prior
    return bound(model, *priors) - model.stats.shape[1] * gamma


def move(model, rng, options, pairs=20, tries=3, laps=2, split=True):
    """One round of merges and splits that raise the bound of the whole corpus, and laps.

    Those that raise it at once are made. Where none does, the most promising `tries` of both kinds
    are refitted by as many laps as the model without them, one after another, until one has the
    larger bound.

    Returns the model, and how many (splits, merges) were made.
    """
    batches = as_batches(model)
    n = np.concatenate([part.n for part in model.parts])
    candidates = merge_candidates(model.state, n, pairs) if n.shape[1] > 1 else []
    changes = {pair: merge_exactly(model, batches, *pair) for pair in candidates}
    best = sorted(changes, key=changes.get, reverse=True)
    if best and changes[best[0]] > 0:
        return lap(apply_merge(model, *best[0]), rng, options), (0, 1)
    found = {}
    for k in range(n.shape[1]) if split else ():
        change, two = divide(model, batches, k, rng)
        if two is not None:
            changes[k], found[k] = change, two
    better = {k: two for k, two in found.items() if changes[k] > 0}
    if better:
        return lap(apply_splits(model, batches, better), rng, options), (len(better), 0)
    trials = [((0, 1), apply_merge(model, *pair)) for pair in best[:tries]]
    for k in sorted(found, key=changes.get, reverse=True)[:tries]:
        trials.append(((1, 0), apply_splits(model, batches, {k: found[k]})))
    model = many_laps(model, rng, options, laps)
    for made, trial in trials:
        trial = many_laps(trial, rng, options, laps)
        if judged(trial, options) > judged(model, options):
            return trial, made
    return model, (0, 0)
