"""Splits and merges that the bound judges, and memoized inference: every change of the bound
against the bound by its definition, on dense arrays.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from naive_variational import full_bound

from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.variational.bound import dense_responsibilities, first_state
from hdp_nb.variational.e_step import (
    Hyperpriors,
    distinct_words,
    doc_topics,
    e_step,
    fit_batch,
    make_batch,
    topic_factors,
)
from hdp_nb.variational.online import OnlineOptions, first_online_state, learning_rate, update

sys.path.append(str(Path(__file__).parents[2]))
from benchmarks.variational import bound_moves as bm

FIXED = OnlineOptions(alpha_prior=None, gamma_prior=None, eta_prior=None)
PRIORS = OnlineOptions(alpha_prior=(1.0, 1.0), gamma_prior=(2.0, 1.0), eta_prior=(1.0, 1.0))


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_docs=60, doc_len=40, grid=4, concentration=2.0, random_state=0)


def memoized(bars, n_topics=3, size=15, seed=0, laps=1, options=FIXED):
    rng, docs = np.random.default_rng(seed), distinct_words(bars[0])
    state = first_state(rng, bars[0].n_words, n_topics, 1.3, 0.8, 0.4)
    return bm.many_laps(bm.first_memoized(docs, state, size, rng), rng, options, laps), rng


def dense(model):
    "Counts and responsibilities of all documents, part by part."
    X, resp, (V, K) = [], [], model.stats.shape
    for part in model.parts:
        counts = np.zeros((len(part.n), V))
        counts[part.batch.doc, part.batch.docs.words] = part.batch.docs.counts
        X.append(counts)
        resp.append(dense_responsibilities(part.batch, part.E, part.found, (V, K)))
    return np.concatenate(X), np.concatenate(resp)


def bound_of(X, resp, lam, weight, alpha, eta):
    "The documents' and topics' parts; theta at its best for the responsibilities."
    n = np.einsum("jv,jvk->jk", X, resp)
    beta = np.append(weight, alpha - weight.sum()) / alpha
    theta = alpha * beta + np.column_stack([n, np.zeros(len(n))])
    safe = np.where((X[..., None] > 0) & (resp > 0), resp, 1e-300)
    return full_bound(X, safe, theta, lam, beta, alpha, eta)


def parts_of(state):
    return float(state.alpha) * state.beta[:-1], float(state.alpha), float(state.eta)


@pytest.mark.parametrize("options", [FIXED, PRIORS])
def test_what_is_remembered_makes_the_bound_of_the_corpus(bars, options):
    model, rng = memoized(bars, laps=2, options=options)
    X, resp = dense(model)
    state, (weight, alpha, eta) = model.state, parts_of(model.state)
    assert np.allclose(model.stats, np.einsum("jv,jvk->vk", X, resp), atol=1e-9)
    assert np.allclose(state.lam, eta + model.stats, rtol=1e-12)
    K, gamma = len(weight), float(state.gamma)
    rest = K * np.log(gamma) + gamma * np.log(state.beta[-1])
    exact = bound_of(X, resp, state.lam, weight, alpha, eta) + rest
    assert abs(bm.bound(model) - exact) < 1e-6
    wrong = model._replace(parts=[part._replace(entropy=0.0) for part in model.parts])
    assert abs(bm.bound(wrong) - exact) > 1  # a bound without the entropy is told apart
    priors = 2 * np.log(gamma) - 3 * gamma
    assert np.isclose(bm.bound(model, (3.0, 3.0)) - bm.bound(model), priors)


@pytest.mark.parametrize("options", [FIXED, PRIORS])
def test_the_bound_of_the_corpus_never_falls(bars, options):
    priors = options.gamma_prior, options.alpha_prior, options.eta_prior
    model, rng = memoized(bars, n_topics=6, laps=0)
    bounds = [bm.bound(model, *priors)]
    for _ in range(12):
        model = bm.lap(model, rng, options)
        bounds.append(bm.bound(model, *priors))
    assert min(np.diff(bounds)) > -1e-6 and bounds[-1] > bounds[0] + 50
    # who forgets to subtract counts documents twice, and the bound is of nothing
    model, rng = memoized(bars, n_topics=6, laps=2)
    wrong = bm.lap(model, rng, FIXED, subtract=False)
    assert wrong.stats.sum() > 1.9 * bars[0].n_tokens
    assert bm.bound(wrong) < bm.bound(model) - 50 or bm.bound(wrong) > 0
    assert np.isclose(bm.lap(model, rng, FIXED).stats.sum(), bars[0].n_tokens)


def test_at_the_fixed_point_of_batch_inference_memoized_inference_stays(bars):
    docs, rng = distinct_words(bars[0]), np.random.default_rng(0)
    state = first_state(rng, bars[0].n_words, 5, 1.3, 0.8, 0.4)
    state, found, trace = fit_batch(docs, state, Hyperpriors(), max_iter=5000, tol=1e-13)
    model = bm.first_memoized(docs, state, 15, rng, doc_topics(found, 5))
    best = trace["bound"][-1]
    assert len(model.parts) == 4 and abs(bm.bound(model) - best) < 1e-3
    later = bm.many_laps(model, rng, FIXED, 20)
    assert abs(bm.bound(later) - best) < 1e-3 and np.allclose(later.state.lam, state.lam, atol=0.01)


def test_a_merge_changes_the_bound_by_as_much_as_is_said(bars):
    model, rng = memoized(bars, n_topics=4, laps=3)
    X, resp = dense(model)
    weight, alpha, eta = parts_of(model.state)
    before = bound_of(X, resp, model.state.lam, weight, alpha, eta)
    for k1, k2 in ((0, 1), (3, 2)):
        lam, merged, w = model.state.lam.copy(), resp.copy(), weight.copy()
        lam[:, k1] += lam[:, k2] - eta
        merged[..., k1] += merged[..., k2]
        w[k1] += w[k2]
        stay = np.arange(4) != k2
        exact = bound_of(X, merged[..., stay], lam[:, stay], w[stay], alpha, eta) - before
        batches = bm.as_batches(model)
        said = bm.merge_exactly(model, batches, k1, k2)
        assert abs(said - exact) < 1e-6
        assert abs(said - bm.merged_entropy(batches, k1, k2) - exact) > 1  # needs the entropy
        after = bm.apply_merge(model, k1, k2)
        assert bm.judged(after, FIXED) > bm.judged(model, FIXED) + said - 1e-6  # E-steps gain more
        assert np.isclose(after.stats.sum(), bars[0].n_tokens)


def divided(tokens, two, batches, resp, k):
    "Responsibilities with those of topic k divided."
    new, i, first = np.concatenate([resp, 0 * resp[..., :1]], axis=-1), 0, 0
    for batch, E, found, e in batches:
        own = batch.docs.counts * E[batch.rows, k] * e[batch.doc, k] / found.norm > 1e-8
        for j, v in zip(batch.doc[own] + first, batch.docs.words[own]):
            assert v == tokens.at[i]
            new[j, v, [k, -1]] = resp[j, v, k] * np.array([two.u[i], 1 - two.u[i]])
            i += 1
        first += len(batch.docs.lengths)
    assert i == len(tokens.r)
    return new


def test_a_split_of_the_corpus_changes_the_bound_by_as_much_as_is_said(bars):
    model, rng = memoized(bars, n_topics=2, laps=3)
    X, resp = dense(model)
    weight, alpha, eta = parts_of(model.state)
    before = bound_of(X, resp, model.state.lam, weight, alpha, eta)
    batches, rose = bm.as_batches(model), 0
    for k in (0, 1):
        said, (tokens, two) = bm.divide(model, batches, k, rng)
        new = divided(tokens, two, batches, resp, k)
        lam = np.column_stack([model.state.lam, two.lam[:, 1]])
        lam[:, k] = two.lam[:, 0]
        w = np.append(weight, two.weight[1])
        w[k] = two.weight[0]
        assert np.isclose(two.weight.sum(), weight[k])
        assert abs(bound_of(X, new, lam, w, alpha, eta) - before - said) < 1e-4
        after = bm.apply_splits(model, batches, {k: (tokens, two)})
        assert bm.judged(after, FIXED) > bm.judged(model, FIXED) + said - 1e-4
        rose += said > 0
    assert rose  # eight bars in two topics


@pytest.mark.parametrize("seen", [0, 400])
def test_a_split_of_a_minibatch_changes_the_bound_by_as_much_as_is_said(bars, seen):
    "Algorithm 2: both sides at their best for the minibatch, which stands for D documents."
    rng, docs, n_docs = np.random.default_rng(1), distinct_words(bars[0]), 150
    state = first_online_state(rng, bars[0].n_words, 3, 1.3, 0.8, 0.4)
    state = state._replace(lam=state.lam + 5 * rng.random(state.lam.shape), seen=np.array(seen))
    batch, scale = make_batch(docs, len(state.lam)), n_docs / len(docs.lengths)
    E = topic_factors(state.lam, batch)
    found = e_step(batch, E, *parts_of(state)[:2])
    new = update(state, batch, E, found, n_docs, FIXED)
    rho = learning_rate(seen, len(docs.lengths), FIXED)
    X = np.zeros((60, len(state.lam)))
    X[batch.doc, batch.docs.words] = batch.docs.counts
    resp = dense_responsibilities(batch, E, found, state.lam.shape)
    batches, (weight, alpha, eta) = [(batch, E, found, bm.spread(found, 3))], parts_of(new)

    def whole(resp, lam, w):
        own = bm.topic_terms(lam, eta).sum()
        return scale * (bound_of(X, resp, lam, w, alpha, eta) - own) + own

    tokens = bm.topic_tokens(batches, 1)
    for rounds in (1, 4):
        said, two = bm.split_trial(state, new, rho, batches, 1, scale, rounds)
        # (6) for each: together the topic that is not split, but that eta is in both
        assert np.allclose(two.lam.sum(axis=1), new.lam[:, 1] + eta)
        lam, w = np.column_stack([new.lam, two.lam[:, 1]]), np.append(weight, two.weight[1])
        lam[:, 1], w[1] = two.lam[:, 0], two.weight[0]
        exact = whole(divided(tokens, two, batches, resp, 1), lam, w) - whole(resp, new.lam, weight)
        assert np.isclose(two.weight.sum(), weight[1]) and abs(said - exact) < 1e-4
        unscaled = bm.split_change(tokens, two, new.lam[:, 1], weight[1], 1.0, eta)
        assert abs(unscaled - exact) > 1  # documents that are not scaled are told apart


def test_the_restricted_iteration_climbs(bars):
    "From the paper's start, round by round; and a round more is no worse than a round less."
    model, rng = memoized(bars, n_topics=2, laps=3)
    batches = bm.as_batches(model)
    gains = [bm.divide(model, batches, 0, np.random.default_rng(5), r)[0] for r in (1, 2, 4, 8)]
    assert (np.diff(gains) > -1e-6).all() and gains[-1] > gains[0]


@pytest.mark.parametrize("n_topics", [1, pytest.param(12, marks=pytest.mark.slow)])
def test_moves_of_the_corpus_raise_the_bound_and_find_the_bars(n_topics):
    bars = make_bars(n_docs=150, doc_len=60, grid=4, concentration=2.0, random_state=0)
    model, rng = memoized(bars, n_topics=n_topics, size=40)
    trace, counts = [bm.judged(model, FIXED)], np.zeros(2, int)
    for i in range(15):
        model, done = bm.move(model, rng, FIXED, split=i < 10)
        trace.append(bm.judged(model, FIXED))
        counts += done
    assert min(np.diff(trace)) > -1e-6
    assert model.stats.shape[1] == 8 == n_topics + counts[0] - counts[1]
    assert np.isclose(model.stats.sum(), bars[0].n_tokens)


def test_algorithm_2_merges_copies_and_splits_blends(bars):
    docs, rng = distinct_words(bars[0]), np.random.default_rng(0)
    phi = bars[1].phi.T
    copies = np.column_stack([phi, phi[:, :1]]) * 200 + 0.4
    start = first_online_state(rng, len(phi), 9, 8.0, 1.0, 0.4)._replace(lam=copies)
    state, info = bm.printed_step(rng, start, docs, 60, FIXED, bm.BoundRules(split=False))
    assert info == {"splits": 0, "merges": 1} and state.lam.shape[1] == len(state.beta) - 1 == 8
    assert np.isclose(state.beta.sum(), 1)
    blend = np.column_stack([phi[:, 0] + phi[:, 1], phi[:, 2:]]) * 200 + 0.4
    blend[:, 0] += 1e-3 * rng.random(len(phi))
    start = first_online_state(rng, len(phi), 7, 2.0, 1.0, 0.4)._replace(lam=blend)
    state, info = bm.printed_step(rng, start, docs, 60, FIXED)
    assert info["splits"] >= 1 and state.lam.shape[1] == len(state.beta) - 1 == 7 + info["splits"]
    assert np.isclose(state.beta.sum(), 1) and (state.lam >= 0).all()


def test_pairs_that_occur_together():
    n = np.array([[3.0, 3, 0, 0], [0, 0, 5, 0], [1, 1, 1, 0]])
    assert bm.together(n, 5) == [(0, 1)]
    assert bm.together(n, 0) == []
