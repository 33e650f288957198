"""The franchise sampler against exact posteriors, the prior, its own bookkeeping, and wrong
samplers."""

import os
import subprocess
import sys
from itertools import product
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from naive import Gibbs, Posterior, log_prior, log_urn, log_words, sampled
from numba import njit
from numba.core.errors import TypingError
from rebind import rebind
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, logsumexp, poch
from tiers import slow_unless

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars, make_five_topics
from hdp_nb.mcmc.chain import run_chain, run_chains
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.topics import franchise, table_words
from hdp_nb.topics.counts import (
    TopicCounts,
    fold_in,
    log_likelihood,
    new_topic_workspace,
    predictive_topics,
    token_probabilities,
)
from hdp_nb.topics.franchise import (
    FranchiseSampler,
    _seat_tokens,
    _sweep_by_word,
    _sweep_franchise,
    empty_franchise,
    fill_workspace,
    log_franchise,
    seat_by_topic,
    serve_tables,
)
from hdp_nb.topics.table_words import log_acceptance, propose_dish
from hdp_nb.utils.special import draw_weighted, uncounted

# Six tiny corpora: (documents, vocabulary, eta, alpha, gamma)
TINY = [
    ([[0, 0, 1], [0, 2, 2], [1, 0]], 3, 0.5, 1.2, 0.7),
    ([[0, 0, 1], [], [0, 0, 1]], 2, 0.1, 0.5, 0.9),
    ([[0, 1, 2, 3], [3, 3, 0]], 4, 0.2, 2.0, 2.0),
    ([[0, 0, 0, 0], [1, 1, 1, 0]], 2, 1.0, 0.7, 3.0),
    ([[0, 1], [1, 2], [2, 0]], 5, 0.05, 5.0, 0.3),
    ([[4, 4], [4, 1, 0], [1, 1]], 6, 2.0, 0.2, 1.0),  # words 2, 3 and 5 never occur
]
TOLERANCE = 0.015


@njit
def _collect(sweep, rng, state, workspace, x, offsets, lengths, prior, n, p_K, p_T, same, conc):
    for _ in range(n):
        if not sweep(rng, state, workspace, x, offsets, lengths, prior, True):
            raise RuntimeError("more dishes than tokens")
        p_K[state.K[()]] += 1 / n
        p_T[state.n_tables.sum()] += 1 / n
        conc[0] += state.alpha[()] / n
        conc[1] += state.gamma[()] / n
        for a in range(x.size):
            for b in range(x.size):
                same[a, b] += (state.z[a] == state.z[b]) / n


def collect(sampler, n, seed=0, sweep=_sweep_franchise):
    "P(K), P(tables), co-clustering and mean concentrations over n sweeps of the kernel."
    c, rng = sampler.corpus, np.random.default_rng(seed)
    state = sampler.init(rng)
    N = c.n_tokens
    out = np.zeros(N + 1), np.zeros(N + 1), np.zeros((N, N)), np.zeros(2)
    workspace = new_topic_workspace(c.n_words, max(c.doc_lengths), state.m_k.size)
    _collect(sweep, rng, state, workspace, c.x, c.offsets, c.doc_lengths, sampler.prior, n, *out)
    return out


def largest_error(estimates, exact):
    return max(
        abs(a - b).max() for a, b in zip(estimates, (exact.n_dishes, exact.n_tables, exact.same))
    )


@pytest.mark.parametrize("docs, V, eta, alpha, gamma", TINY)
def test_exact_posterior(docs, V, eta, alpha, gamma):
    sampler = FranchiseSampler(Corpus.from_docs(docs, n_words=V), eta, alpha, gamma, None, None)
    assert (
        largest_error(collect(sampler, 60_000), Posterior(docs, V, eta, alpha, gamma)) < TOLERANCE
    )


@njit
def sweep_by_word(rng, state, workspace, x, offsets, lengths, prior, serve):
    return _sweep_by_word(rng, state, workspace, x, offsets, lengths, prior)


@pytest.mark.parametrize("case", TINY)
def test_exact_posterior_by_word(case):
    docs, V, *parameters = case
    sampler = FranchiseSampler(Corpus.from_docs(docs, n_words=V), *parameters, None, None)
    found = collect(sampler, 60_000, sweep=sweep_by_word)
    assert largest_error(found, Posterior(*case)) < TOLERANCE


def sweep_by_few_words(new, passes, **others):
    "The kernel of a sweep in which two words propose, where `_PASSES` and `_NEW` are these."
    names = {"_FEW": 2, "_PASSES": passes, "_NEW": new}
    for name in ("_middle", "propose_dish", "log_acceptance", "order_dish"):
        names[name] = rebind(getattr(table_words, name), **{**names, **others})
    serve = rebind(serve_tables, **names)
    return rebind(_sweep_franchise, serve_tables=serve)


@njit
def _accept(workspace, n_vk, x, tokens, s, k, old, eta):
    "As if every proposal were as probable as the old dish."
    return 0.0


@pytest.mark.slow  # quickly in notebook 04_topics/11_table_words
@pytest.mark.parametrize("new, passes", [(2.0, 0), (0.1, 5)])
def test_exact_where_few_words_propose(new, passes):
    """Of the customers of a table of three or more two speak: always, or where other tables have
    two dishes or more. By the package's rule that takes more than can be enumerated."""
    case = ([[0, 0, 1, 0], [1, 1, 0], [1]], 2, 0.4, 0.6, 1.0)
    exact = Posterior(*case)
    sampler = FranchiseSampler(Corpus.from_docs(case[0], n_words=2), *case[2:], None, None)
    run = lambda n, **names: largest_error(
        collect(sampler, n, sweep=sweep_by_few_words(new, passes, **names)), exact
    )
    assert run(60_000) < TOLERANCE
    assert run(20_000, log_acceptance=_accept) > 2 * TOLERANCE


def run_naive(case, n, **options):
    docs, V, eta, alpha, gamma = case
    gibbs = Gibbs(docs, V, eta, alpha, gamma, np.random.default_rng(0), **options)
    return largest_error(
        sampled((gibbs.sweep() for _ in range(n)), sum(map(len, docs))), Posterior(*case)
    )


@pytest.mark.parametrize(
    "mistake, case, serve",
    [
        pytest.param("fresh", ([[0], [0], [1]], 2, 0.5, 1.0, 1.0), True, marks=pytest.mark.slow),
        pytest.param("product", TINY[1], True, marks=pytest.mark.slow),
        ("vacated", ([[0], [0], [], [1]], 2, 0.5, 1.0, 1.0), False),
    ],
)
def test_the_same_check_rejects_wrong_samplers(mistake, case, serve):
    assert run_naive(case, 10_000, serve=serve) < TOLERANCE
    assert run_naive(case, 10_000, serve=serve, mistake=mistake) > 2 * TOLERANCE


@pytest.mark.parametrize(
    "alpha_prior, gamma_prior",
    [pytest.param((1, 1), (1, 1), marks=pytest.mark.slow), ((2, 0.5), (0.1, 1))],
)
def test_exact_with_concentrations_resampled(alpha_prior, gamma_prior):
    docs, V, eta = TINY[1][:3]
    mean_alpha, mean_gamma, p_K = Posterior(docs, V, eta).concentrations(alpha_prior, gamma_prior)
    sampler = FranchiseSampler(
        Corpus.from_docs(docs, n_words=V), eta, 1, 1, alpha_prior, gamma_prior
    )
    K, _, _, (alpha, gamma) = collect(sampler, 200_000)
    assert abs(K - p_K).max() < TOLERANCE
    assert abs(alpha / mean_alpha - 1) < 0.03 and abs(gamma / mean_gamma - 1) < 0.05
    # the control: a rate taken for a scale is far outside
    wrong = Posterior(docs, V, eta).concentrations(
        (alpha_prior[0], 1 / alpha_prior[1]), gamma_prior
    )[0]
    assert alpha_prior[1] == 1 or abs(alpha / wrong - 1) > 0.1


def sequential_prediction(docs, V, eta, alpha, gamma):
    """P(K) when every token takes a table, and a new table a dish, given the tokens before it:
    Wang & Blei's start."""
    tokens, p_K = (
        [(j, v) for j, doc in enumerate(docs) for v in doc],
        np.zeros(sum(map(len, docs)) + 1),
    )

    def seat(i, tables, probability):  # tables: (document, dish, its words)
        if i == len(tokens):
            p_K[len({dish for _, dish, _ in tables})] += probability
            return
        j, v = tokens[i]
        dishes = {dish for _, dish, _ in tables}

        def f(dish):
            words = [w for _, d, ws in tables if d == dish for w in ws]
            return (words.count(v) + eta) / (len(words) + V * eta)

        ways = [
            (len(ws) * f(dish), tables[:s] + [(j, dish, ws + [v])] + tables[s + 1 :])
            for s, (where, dish, ws) in enumerate(tables)
            if where == j
        ]
        for dish in [*dishes, len(dishes)]:
            m = sum(d == dish for _, d, _ in tables) or gamma
            ways.append((alpha * m / (len(tables) + gamma) * f(dish), tables + [(j, dish, [v])]))
        for weight, after in ways:
            seat(i + 1, after, probability * weight / sum(w for w, _ in ways))

    seat(0, [], 1.0)
    return p_K


def test_sequential_prediction():
    """The start, drawn many times, against all its paths; it is not the posterior, and the check
    can tell."""
    case = docs, V, eta, alpha, gamma = [[0, 1], [1, 0], [0, 1]], 2, 0.05, 0.3, 0.5
    sampler, rng = (
        FranchiseSampler(Corpus.from_docs(docs, n_words=V), eta, alpha, gamma, None, None),
        np.random.default_rng(0),
    )
    K = np.bincount([int(sampler.init(rng).K) for _ in range(20_000)], minlength=7) / 20_000
    assert abs(K - sequential_prediction(*case)).max() < TOLERANCE
    assert abs(K - Posterior(*case).n_dishes).max() > 2 * TOLERANCE


@pytest.mark.parametrize("fixed, free", [("alpha", "gamma"), ("gamma", "alpha")])
def test_one_concentration_fixed(fixed, free):
    sampler = FranchiseSampler(
        Corpus.from_docs([[0, 0, 1], [0, 2]]), 0.5, 1.5, 1.5, **{f"{fixed}_prior": None}
    )
    trace = run_chain(sampler, np.random.default_rng(0), 5).trace
    assert set(trace[fixed]) == {1.5} and len({1.5, *trace[free]}) == 6


def test_log_joint():
    docs, V, eta, alpha, gamma = TINY[0]
    corpus = Corpus.from_docs(docs, n_words=V)
    chain = run_chain(
        FranchiseSampler(corpus, eta, alpha, gamma, None, None), np.random.default_rng(0), 5
    )
    state = chain.state
    words = 0.0
    for a, b in zip(corpus.offsets, corpus.offsets[1:]):
        words += log_urn(np.bincount(state.t[a:b])) if b > a else 0.0
    expected = (
        log_prior(alpha, gamma, state.n_tables.sum(), int(state.K), corpus.doc_lengths)
        + words
        + log_urn(state.m_k[: int(state.K)])
    )
    assert np.isclose(log_franchise(state, corpus.offsets), expected)
    likelihood = log_words(corpus.x.tolist(), state.z.tolist(), V, eta)
    assert np.isclose(log_likelihood(state.n_vk, state.n_k, eta), likelihood)
    assert np.isclose(chain.trace["log_joint"][-1], expected + likelihood) and np.isclose(
        chain.trace["log_likelihood"][-1], likelihood
    )


@pytest.mark.slow
def test_prior():
    "V = 1: the words say nothing, so the sampler must give the prior."
    corpus = Corpus.from_docs([[0] * 100] * 50, n_words=1)
    K, tables = [], []
    for seed in range(4):
        sampler = FranchiseSampler(corpus, 0.5, 1.0, 1.0, None, None)
        trace = run_chain(sampler, np.random.default_rng(seed), 2000, burn_in=200).trace
        K.append(trace["n_topics"][200:].mean())
        tables.append(trace["n_tables"][200:].mean() / 50)
    harmonic = sum(1 / i for i in range(1, 101))
    assert abs(np.mean(tables) / harmonic - 1) < 0.005  # 5.187 tables per document
    assert abs(np.mean(K) - 6.12) < max(4 * np.std(K, ddof=1) / 2, 0.05)


# ---------------------------------------------------------------- bookkeeping


def check_counts(state, corpus):
    "Every count follows from the tables of the tokens and the dishes of the tables."
    document = np.repeat(np.arange(corpus.n_docs), corpus.doc_lengths)
    K, place = int(state.K), corpus.offsets[document] + state.t
    n_jt = np.bincount(place, minlength=corpus.n_tokens)
    for j, (a, b) in enumerate(zip(corpus.offsets, corpus.offsets[1:])):
        T = state.n_tables[j]
        assert (n_jt[a : a + T] > 0).all() and not n_jt[a + T : b].any()
    assert (n_jt == state.n_jt).all()
    assert (state.k_jt[place] == state.z).all()
    n_vk = np.zeros_like(state.n_vk)
    np.add.at(n_vk, (corpus.x, state.z), 1)
    assert (n_vk == state.n_vk).all() and (n_vk.sum(0) == state.n_k).all()
    assert (np.bincount(state.k_jt[n_jt > 0], minlength=state.m_k.size) == state.m_k).all()
    assert (state.m_k[:K] > 0).all() and not state.m_k[K:].any()


@pytest.mark.parametrize("init", ["sequential", 1, 50])
@pytest.mark.parametrize("gamma", [1.0, 60.0])  # 60: dishes come and go, the arrays must grow
def test_counts_after_every_sweep(init, gamma):
    docs = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)[0]
    corpus = Corpus.from_docs([*docs, [], [3]], n_words=16)
    sampler = FranchiseSampler(corpus, 0.1, 2.0, gamma, (1, 1), None, init)
    rng = np.random.default_rng(0)
    state = sampler.init(rng)
    check_counts(state, corpus)
    capacities = {state.m_k.size}
    for _ in range(15):
        state, info = sampler.sweep(rng, state)
        check_counts(state, corpus)
        assert info["n_topics"] == state.K and info["n_tables"] == state.n_tables.sum()
        capacities.add(state.m_k.size)
    assert gamma == 1.0 or max(capacities) > 16


def test_random_start_has_as_many_topics_as_asked_for():
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    assert FranchiseSampler(corpus, init=12).init(np.random.default_rng(0)).K == 12


@pytest.mark.parametrize("length", [4, 12, 32])
def test_weighted_draws_are_exact(length):
    """Whole weights and evenly spaced uniforms: every index comes exactly as often as its weight
    says, and zeros never."""
    p = np.random.default_rng(length).integers(0, 4, length).astype(float)
    n = int(p.sum())
    plain = getattr(draw_weighted, "py_func", draw_weighted)
    drawn = [
        plain(SimpleNamespace(random=lambda: (i + 0.5) / n), p, np.empty(length)) for i in range(n)
    ]
    assert np.bincount(drawn, minlength=length).tolist() == p.tolist()
    for p in (
        [0.1, 0, 0.7, 0, 0.1, 0, 0, 0.1],
        [0.1, 0.1, 0.7, 0, 0.1, 0, 0, 0],
        [0, 0.1, 0, 0.7, 0, 0, 0, 0.2],
    ):
        for u in (
            0.0,
            np.nextafter(1, 0),
            1 + 1e-9,
        ):  # the first, the last, and one that rounding made too large
            assert p[plain(SimpleNamespace(random=lambda: u), np.array(p), np.empty(8))] > 0


def test_a_sweep_goes_on_where_it_ran_out_of_slots(monkeypatch):
    """Arrays grow in the middle of a sweep. Whoever has a seat by then keeps it: in the first
    sweep nobody is asked twice."""
    corpus, _ = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)
    calls = []

    def spy(rng, state, workspace, *args):
        begun, seated = workspace.at.tolist(), (state.t.copy(), state.z.copy())
        done = _sweep_franchise(rng, state, workspace, *args)
        calls.append((begun, workspace.at.tolist(), seated, done))
        return done

    monkeypatch.setattr(franchise, "_sweep_franchise", spy)
    sampler, rng = FranchiseSampler(corpus, 0.1, 2.0, 60.0, None, None), np.random.default_rng(0)
    state = sampler.init(rng)
    assert len(calls) > 2 and [done for *_, done in calls] == [False] * (len(calls) - 1) + [True]
    for (_, ended, _, _), (begun, _, (t, z), _) in zip(calls, calls[1:]):
        assert begun == ended and (t >= 0).sum() == corpus.offsets[begun[0]] + begun[2]
        assert (state.t[t >= 0] == t[t >= 0]).all() and (state.z[t >= 0] == z[t >= 0]).all()


def test_running_values_are_those_of_the_counts():
    """At every draw the coefficients, updated in small steps, follow from the counts.

    Dishes come and go here, so that every branch of the kernel is taken; a step left out changes
    probabilities too
    little for the exact tests to see.
    """
    corpus, _ = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)
    x, eta, alpha, gamma = corpus.x, 0.1, 2.0, 30.0
    sampler, rng = FranchiseSampler(corpus, eta, alpha, gamma, None, None), np.random.default_rng(0)
    state = sampler.sweep(rng, sampler.init(rng))[0]
    capacity = 4 * state.m_k.size
    room = lambda a: np.concatenate(
        [a, np.zeros(a.shape[:-1] + (capacity - a.shape[-1],), a.dtype)], axis=-1
    )
    state = state._replace(n_vk=room(state.n_vk), n_k=room(state.n_k), m_k=room(state.m_k))
    workspace = new_topic_workspace(corpus.n_words, 30, capacity)
    fill_workspace(state, workspace)

    def check():
        "One of the dishes that nobody serves has the mass gamma, the others none."
        assert (workspace.mass == state.m_k)[state.m_k > 0].all() and sorted(
            workspace.mass[state.m_k == 0]
        )[-2:] == [0, gamma]
        assert np.allclose(workspace.total, state.n_k + corpus.n_words * eta)
        assert np.allclose(workspace.inverse, 1 / workspace.total)
        assert np.allclose(workspace.base, workspace.mass / workspace.total)
        assert np.array_equal(workspace.coef, workspace.base) and not workspace.n_jk.any()
        assert workspace.mass[workspace.free[0]] == gamma and workspace.m[0] == state.m_k.sum()

    def seat(j, **broken):
        "The kernel in Python; at every draw of a document the coefficients are those of (K1')."
        here = slice(*corpus.offsets[j : j + 2])

        def weigh(coef, *others):
            n_jk = np.bincount(state.k_jt[here], state.n_jt[here], capacity)
            assert np.array_equal(workspace.n_jk, n_jk)
            w = (state.m_k.sum() + gamma) / alpha
            assert np.allclose(coef, (workspace.mass + w * n_jk) / workspace.total)
            return franchise.weigh(coef, *others)

        names = {**vars(franchise), "weigh": weigh, **broken}
        plain = FunctionType(_seat_tokens.py_func.__code__, names)
        return plain(rng, state, workspace, x, corpus.offsets, j, 0)

    def order_dish(*arguments):
        "It is told how many dishes other tables have: the table is not among those of m_k."
        assert arguments[6] == (state.m_k > 0).sum()
        return franchise.order_dish(*arguments)

    names = {**vars(franchise), "order_dish": order_dish}
    serve = FunctionType(serve_tables.py_func.__code__, names)
    opened = closed = 0
    for j, (a, b) in enumerate(zip(corpus.offsets, corpus.offsets[1:])):
        before = state.m_k > 0
        assert seat(j) == b - a
        check()
        assert serve(rng, state, workspace, x, corpus.offsets, j, 0) == state.n_tables[j]
        check()
        opened, closed = (
            opened + (~before & (state.m_k > 0)).sum(),
            closed + (before & (state.m_k == 0)).sum(),
        )
    assert opened > 5 and closed > 5
    with pytest.raises(AssertionError):
        for j in range(corpus.n_docs):
            seat(j, _refresh=lambda *arguments: None)


def test_kernels_that_count_no_references_make_no_arrays():
    assert uncounted(lambda a: a[1:].sum())(np.arange(3.0)) == 3.0
    with pytest.raises(TypingError, match="zeros"):
        uncounted(lambda n: np.zeros(n).sum())(3)


@pytest.mark.parametrize("s, more", [*product([2, 8, 9, 16, 17, 33], [0, 1, 20]), (700, 0)])
def test_proposals_of_dishes(s, more):
    """Wang and Blei's eq 7 from gamma functions, over the proposals (T1), (T3), is the ratio that
    accepts; for numbers of words below, at and above those at which products are scaled."""
    V, K, eta, free, mine, n = 9, 16, 0.01, 5, 7, s + more
    rng = np.random.default_rng(n)
    workspace, n_vk = new_topic_workspace(V, n, K), rng.integers(0, 2000, (V, K)).astype(np.int32)
    n_vk[:, 5:] = n_vk[::2, 0] = 0  # slot 5 is free; some words of topic 0 are new to it
    workspace.mass[:6], workspace.free[0] = [3, 1, 4, 1, 5, 0.7], free
    workspace.total[:] = n_vk.sum(axis=0) + V * eta
    workspace.inverse[:] = 1 / workspace.total
    x = rng.integers(V, size=n).astype(np.int32)
    n_v = np.bincount(x, minlength=V)[:, None]
    log_f = (gammaln(n_vk + n_v + eta) - gammaln(n_vk + eta)).sum(axis=0)
    log_f += gammaln(workspace.total) - gammaln(workspace.total + n)
    first = np.bincount(x[:s], minlength=V)[:, None]
    log_q = (gammaln(n_vk + first + eta) - gammaln(n_vk + eta)).sum(axis=0)
    log_q -= s * np.log(workspace.total + (0 if s <= 8 else (s - 1) / 2))
    with np.errstate(divide="ignore"):
        log_mass = np.log(workspace.mass)
    log_p, log_q = log_mass + log_f, log_mass + log_q
    if more:
        log_q[free] = np.logaddexp(log_q[free], np.log(0.1) + logsumexp(log_q))
    for old in (0, 3, mine) * 4:
        k, log_a = propose_dish(rng, workspace, n_vk, x, np.arange(n), s, old, eta)
        log_a += log_acceptance(workspace, n_vk, x, np.arange(n), s, k, old, eta)
        assert (workspace.seen == n_v[:, 0]).all()
        workspace.seen[:] = 0
        old = free if old == mine else old
        assert np.isclose(log_a, log_p[k] - log_q[k] - log_p[old] + log_q[old], atol=1e-6)


def test_a_snapshot_stays_as_it_was():
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    sampler, rng = FranchiseSampler(corpus, 0.1), np.random.default_rng(0)
    state = sampler.init(rng)
    snapshot = sampler.snapshot(state)
    assert (snapshot.n_vk.toarray() == state.n_vk[:, : int(state.K)]).all() and len(
        snapshot.beta
    ) == state.K + 1
    kept = [np.array(a) for a in snapshot]
    for _ in range(3):
        state, _ = sampler.sweep(rng, state)
    assert all(np.array_equal(a, b) for a, b in zip(kept, snapshot)) and float(
        snapshot.alpha
    ) != float(state.alpha)


@pytest.mark.parametrize(
    "other",
    [
        dict(eta=0.2),
        dict(alpha_prior=(2, 1)),
        dict(alpha_prior=(1, 2)),
        dict(gamma_prior=None),
        dict(alpha=2.0),
        dict(gamma=2.0),
        "documents",
    ],
)
def test_a_checkpoint_of_another_model_is_refused(other, tmp_path):
    corpus, _ = make_bars(n_docs=10, doc_len=10, grid=3, random_state=0)
    run = lambda corpus, **model: run_chain(
        FranchiseSampler(corpus, **model),
        np.random.default_rng(0),
        2,
        checkpoint=tmp_path / "c.npz",
    )
    run(corpus, eta=0.1)
    different = {"eta": 0.1} if other == "documents" else {"eta": 0.1, **other}
    with pytest.raises(ValueError, match="c.npz"):
        run(corpus[::-1] if other == "documents" else corpus, **different)


def test_seeds_reproduce_and_resume_is_identical(tmp_path):
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    run = lambda n, **kw: run_chain(
        FranchiseSampler(corpus, 0.1), np.random.default_rng(7), n, thin=3, **kw
    )
    whole, again = run(20), run(20)
    run(9, checkpoint=tmp_path / "c.npz", checkpoint_every=4)
    resumed = run(20, checkpoint=tmp_path / "c.npz")
    for other in (again, resumed):
        for a, b in zip(whole.state, other.state):
            assert np.array_equal(a, b)
        assert all(np.array_equal(whole.trace[name], other.trace[name]) for name in whole.trace)
        assert all(
            np.array_equal(a, b) for s, r in zip(whole.samples, other.samples) for a, b in zip(s, r)
        )


def test_the_same_without_the_compiler(tmp_path):
    "NUMBA_DISABLE_JIT=1 runs the kernels as plain Python, and must give the same chain."
    script = """
import sys
import numpy as np
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.topics.franchise import FranchiseSampler
corpus, _ = make_bars(n_docs=8, doc_len=60, grid=3, random_state=0)
sampler = FranchiseSampler(corpus, 0.01, gamma=8.0, gamma_prior=None)
state = run_chain(sampler, np.random.default_rng(1), 4).state
np.savez(sys.argv[1], **state._asdict())
"""
    states = []
    for disable in ("0", "1"):
        path = tmp_path / f"{disable}.npz"
        subprocess.run(
            [sys.executable, "-c", script, path],
            check=True,
            env={**os.environ, "NUMBA_DISABLE_JIT": disable},
        )
        with np.load(path) as arrays:
            states.append(dict(arrays))
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


def test_chains_in_threads_are_the_serial_ones():
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    one, two = (
        run_chains(FranchiseSampler(corpus, 0.1), np.random.default_rng(1), 3, 6, n_jobs=n)
        for n in (1, 2)
    )
    assert all(np.array_equal(a.state.z, b.state.z) for a, b in zip(one, two))
    assert not np.array_equal(one[0].state.z, one[1].state.z)


def test_seat_by_topic():
    corpus = Corpus.from_docs([[0, 1, 1], [], [2, 0]], n_words=3)
    state = seat_by_topic(corpus, [7, 3, 7, 3, 3], 1.0, 1.0)  # labels with gaps
    check_counts(state, corpus)
    assert (
        state.z.tolist() == [1, 0, 1, 0, 0]
        and state.n_tables.tolist() == [2, 0, 1]
        and state.m_k[:2].tolist() == [2, 1]
    )
    for bad in ([0, 1], [0.5] * 5, [[0]] * 5):
        with pytest.raises(ValueError, match="z must hold one whole number per token"):
            seat_by_topic(corpus, bad, 1.0, 1.0)


def test_large_tables_in_logarithms():
    """Documents of one topic: tables of hundreds of words, whose predictives underflow if
    multiplied up."""
    corpus = Corpus.from_docs([[0] * 400, [1] * 400, [0] * 400, [1] * 400], n_words=5000)
    chain = run_chain(
        FranchiseSampler(corpus, 0.01, 0.5, 1.0, None, None), np.random.default_rng(0), 50
    )
    check_counts(chain.state, corpus)
    z = chain.state.z.reshape(4, 400)
    majority = [np.bincount(row).argmax() for row in z]
    assert majority[0] == majority[2] != majority[1] == majority[3]


# ---------------------------------------------------------------- new documents


def test_predictive_topics():
    """Posterior means, and alpha beta_k from numbers of tables, not of tokens; what was never seen
    is uniform and has gamma's share."""
    n_vk = np.array(
        [[3, 0, 0, 1], [0, 5, 0, 0], [0, 0, 2, 0]]
    )  # four topics: one more than a multiple of 4 allows
    counts = TopicCounts(
        *[getattr(sp.csr_array(n_vk), a) for a in ("data", "indices", "indptr")],
        np.array([2, 1, 1, 4, 0.5]) / 8.5,
        np.array(3.0),
        np.array(0.5),
        np.array(0.1),
    )
    phi, weight = predictive_topics(counts)
    assert len(weight) == 8 and np.allclose(
        weight, 3.0 * np.array([2, 1, 1, 4, 0.5, 0, 0, 0]) / 8.5
    )
    assert (
        np.allclose(phi[:, 0], np.array([3.1, 0.1, 0.1]) / 3.3)
        and np.allclose(phi[:, 4], 1 / 3)
        and not phi[:, 5:].any()
    )


def exact_proportions(doc, phi, weight):
    "E[(n_k + w_k)/(n + sum w) | doc] by adding up all assignments of its tokens to topics."
    pi, total = np.zeros(len(weight)), 0.0
    for z in product(range(len(weight)), repeat=len(doc)):
        n = np.bincount(z, minlength=len(weight)) if z else np.zeros(len(weight))
        p = np.prod(poch(weight, n)) * np.prod(phi[doc, list(z)])
        pi, total = pi + p * (n + weight) / (len(doc) + weight.sum()), total + p
    return pi / total


def test_fold_in():
    """Against all assignments. Several documents, one of them empty: none may leave anything to
    the next."""
    phi = np.array([[0.7, 0.1, 0.3, 0.25], [0.2, 0.8, 0.3, 0.25], [0.1, 0.1, 0.4, 0.5]])
    weight, docs = np.array([0.6, 0.3, 1.1, 0.2]), [[0, 0, 0, 0], [], [1, 2], [1, 1, 1]]
    offsets, pi, p = np.array([0, 4, 4, 6, 9]), np.empty((4, 4)), np.full(9, 0.5)
    x = np.array(sum(docs, []), np.int32)
    fold_in(np.random.default_rng(0), x, offsets, phi, weight, 60_000, 10, pi)
    exact = np.array([exact_proportions(doc, phi, weight) for doc in docs])
    assert (
        abs(pi - exact).max() < 0.01
        and np.allclose(pi[1], weight / weight.sum())
        and np.allclose(pi.sum(axis=1), 1)
    )
    fold_in(
        np.random.default_rng(0), x, offsets, phi, weight, 1, 0, pi
    )  # one sweep, kept: also whole
    assert np.allclose(pi.sum(axis=1), 1)
    token_probabilities(x, offsets, phi, exact, p)
    document = np.repeat(np.arange(4), [4, 0, 2, 3])
    assert np.allclose(p, 0.5 + (exact[document] * phi[x]).sum(axis=1))


# ---------------------------------------------------------------- Geweke: every hyperparameter free


def seating_state(t, k, x, lengths, V, alpha, gamma):
    "A FranchiseState from tables of tokens and dishes of tables, counted anew."
    offsets = np.append(0, np.cumsum(lengths))
    corpus = SimpleNamespace(n_tokens=len(x), n_docs=len(lengths), n_words=V)
    state = empty_franchise(corpus, alpha, gamma, capacity=32)
    state.t[:] = np.concatenate(t)
    for j, (t_j, k_j) in enumerate(zip(t, k)):
        state.n_tables[j] = len(k_j)
        for s, dish in enumerate(k_j):
            state.n_jt[offsets[j] + s], state.k_jt[offsets[j] + s] = t_j.count(s), dish
            state.m_k[dish] += 1
        state.z[offsets[j] : offsets[j + 1]] = [k_j[s] for s in t_j]
    state.K[()] = (state.m_k > 0).sum()
    return state


def seat(rng, lengths, alpha, gamma):
    t, k, m = [], [], []
    for n, alpha_j in zip(lengths, np.broadcast_to(alpha, len(lengths))):
        t_j, k_j, sizes = [], [], []
        for i in range(n):
            s = int(
                np.searchsorted(
                    np.cumsum(sizes + [alpha_j]), rng.random() * (i + alpha_j), side="right"
                )
            )
            if s == len(sizes):
                d = int(
                    np.searchsorted(
                        np.cumsum(m + [gamma]), rng.random() * (sum(m) + gamma), side="right"
                    )
                )
                m += [0] * (d == len(m))
                m[d] += 1
                sizes.append(0)
                k_j.append(d)
            sizes[s] += 1
            t_j.append(s)
        t.append(t_j)
        k.append(k_j)
    return t, k


def draw_words(rng, state, lengths, V, eta):
    "Words given the seating: an urn for every dish. Fills the state's word counts."
    state.n_vk[:], state.n_k[:] = 0, 0
    x = np.zeros(len(state.z), np.int32)
    for i, k in enumerate(state.z):
        w = state.n_vk[:, k] + eta
        x[i] = np.searchsorted(np.cumsum(w), rng.random() * w.sum(), side="right")
        state.n_vk[x[i], k] += 1
        state.n_k[k] += 1
    return x


@pytest.mark.parametrize("right", [True, False])
def test_geweke(right):
    lengths, V, eta = [4, 3, 0, 5], 3, 0.4
    offsets = np.append(0, np.cumsum(lengths))
    prior, claimed = ((2.0, 2.0), (1.0, 1.0)), ((2.0, 2.0) if right else (3.0, 2.0), (1.0, 1.0))

    def prior_draw(rng):
        alpha, gamma = (rng.gamma(a) / b for a, b in prior)
        return seating_state(
            *seat(rng, lengths, alpha, gamma), offsets[-1] * [0], lengths, V, alpha, gamma
        )

    def sweep(rng, state, x):
        sampler = FranchiseSampler(Corpus(x, offsets, n_words=V), eta, 1.0, 1.0, *claimed)
        return sampler._sweep(rng, state, serve=True)

    def statistics(state, x):
        return {
            "K": float(state.K),
            "tables": float(state.n_tables.sum()),
            "alpha": float(state.alpha),
            "gamma": float(state.gamma),
            "alone": float((state.n_k == 1).sum()),
            "same": float((np.bincount(x) ** 2).sum()),
            "largest": float(state.n_k.max()),
            "joint": float(state.K) * float(state.alpha),
        }

    z = joint_distribution_test(
        np.random.default_rng(3),
        prior_draw,
        lambda rng, s: draw_words(rng, s, lengths, V, eta),
        sweep,
        statistics,
        n_draws=1500 if right else 600,
    )
    worst = max(map(abs, z.values()))
    assert worst < 4 if right else worst > 6, z


# ---------------------------------------------------------------- topics


def matched(components, phi, least=0.95):
    "How many true topics have a learned one of their own with a cosine above `least`."
    unit = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)
    cosine = unit(phi) @ unit(components).T
    return (cosine[linear_sum_assignment(-cosine)] > least).sum()


def test_bars():
    "All 20 bars, and no other topic of 1% or more, on at least 4 of 5 seeds."
    found = 0
    for seed in range(5):
        corpus, truth = make_bars(n_docs=300, doc_len=100, concentration=2.0, random_state=seed)
        state = run_chain(FranchiseSampler(corpus), np.random.default_rng(seed), 60).state
        big = state.n_k >= 0.01 * corpus.n_tokens
        found += big.sum() == 20 and matched((state.n_vk[:, big] + 0.5).T, truth.phi) == 20
    assert found >= 4


@pytest.mark.parametrize("seed", slow_unless(lambda seed: seed == 0, range(5)))
def test_five_topics(seed):
    """Wang and Blei's set, 1000 sweeps as in the paper: 4 or 5 topics, since two are alike.

    Topics of 5% or more are counted: on some seeds a sixth of 1 to 4% stays for hundreds of sweeps.
    """
    corpus, truth = make_five_topics(random_state=seed)
    sampler = FranchiseSampler(corpus, 0.5, 1.0, 1.0, (0.1, 1), (0.1, 1))
    state = run_chain(sampler, np.random.default_rng(seed), 1000).state
    assert (state.n_k >= 0.05 * corpus.n_tokens).sum() in (4, 5)


@pytest.mark.parametrize(
    "argument, value",
    [
        ("eta", 0),
        ("eta", -1),
        ("eta", 1e-7),
        ("eta", float("nan")),
        ("alpha", 0),
        ("gamma", float("inf")),
        ("alpha_prior", (1,)),
        ("alpha_prior", (0, 1)),
        ("gamma_prior", "x"),
        ("gamma_prior", (1, -1)),
        ("init", "random"),
        ("init", 0),
    ],
)
def test_bad_arguments(argument, value):
    with pytest.raises(ValueError, match=f"^{argument}"):
        FranchiseSampler(Corpus.from_docs([[0, 1]]), **{argument: value})
