"""Documents in parallel: against exact posteriors, the prior, its own bookkeeping, any number of
threads, and wrong samplers."""

from functools import cache, partial
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import effective_n_jobs
from naive import Posterior, check_prior
from numba import njit
from scipy import stats
from topics.test_direct import check_state, direct_state
from topics.test_franchise import TINY, TOLERANCE, check_counts, draw_words, seat

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.mcmc.chain import run_chain, run_chains
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.models.topic_models import HDP
from hdp_nb.topics.counts import log_likelihood, pad_capacity
from hdp_nb.topics.direct import (
    DirectSampler,
    DirectState,
    HybridSampler,
    HybridState,
    log_topics,
    log_weights,
)
from hdp_nb.topics.franchise import FranchiseSampler, FranchiseState
from hdp_nb.topics.parallel import (
    Offered,
    ParallelSampler,
    _open_pool,
    _scale_topics,
    _seat_words,
    _sweep_parallel,
    add_up_words,
    count_words,
    find_topic,
    in_turn,
    make_plan,
    new_parallel_workspace,
    sample_topics,
    side_by_side,
    sweep_documents,
)
from hdp_nb.topics.vector_kernels import gamma_from_one, gamma_in_cell, gamma_table, stream, uniform

sweep_in_one_call = njit(_sweep_parallel)


@njit
def jitted_in_turn(kernel, blocks, *args):
    kernel(0, blocks, *args)


@njit
def _collect(rng, state, table, work, plan, prior, n, relative, p_K, p_T, same, mean):
    for _ in range(n):
        K = state.K[()]
        atoms, least = _open_pool(rng, state, plan.lengths)
        # the control: topics heavier than a part of the pool are offered, and the pool depends
        # on z
        if relative:
            least, rest, atoms = state.beta[K] / 4, state.beta[K], np.zeros(0)
            while rest > least:
                b = rng.beta(1.0, state.gamma[()]) * rest
                rest -= b
                if b > least:
                    atoms = np.append(atoms, b)
        L = K + atoms.size
        if L >= state.beta.size:
            raise RuntimeError("more topics than expected")
        state.beta[K:] = 0.0
        state.beta[K:L] = atoms
        sweep_in_one_call(jitted_in_turn, rng, state, Offered(L, least), table, work, plan, prior)
        p_K[state.K[()]] += 1 / n
        p_T[state.n_tables.sum()] += 1 / n
        mean[0] += state.alpha[()] / n
        mean[1] += state.gamma[()] / n
        mean[2] += state.beta[state.K[()]] / n
        for a in range(plan.x.size):
            for b in range(plan.x.size):
                same[a, b] += (state.z[a] == state.z[b]) / n


def with_capacity(state, capacity):
    return state._replace(
        **{
            name: pad_capacity(getattr(state, name), capacity)
            for name in ("n_vk", "n_k", "m_k", "beta")
        }
    )


def collect(sampler, n, relative=False, seed=0):
    "P(K), P(tables), co-clustering, and the means of alpha, gamma and beta_u over n sweeps."
    rng, N = np.random.default_rng(seed), sampler.corpus.n_tokens
    state = with_capacity(sampler.init(rng), 256)
    out = np.zeros(N + 1), np.zeros(N + 1), np.zeros((N, N)), np.zeros(3)
    _collect(
        rng,
        state,
        gamma_table(sampler.eta),
        new_parallel_workspace(sampler.plan, 256),
        sampler.plan,
        sampler.prior,
        n,
        relative,
        *out,
    )
    return out


@cache
def posterior(i):
    return Posterior(*TINY[i])


# ---------------------------------------------------------------- exact


@pytest.mark.parametrize("i", range(len(TINY)))
def test_exact_posterior(i):
    docs, V, eta, alpha, gamma = TINY[i]
    exact = posterior(i)
    K, T, same, (_, _, beta_u) = collect(
        ParallelSampler(Corpus.from_docs(docs, n_words=V), eta, alpha, gamma, None, None, init=2),
        100_000,
    )
    assert (
        abs(K - exact.n_dishes).max() < TOLERANCE
        and abs(T - exact.n_tables).max() < TOLERANCE
        and abs(same - exact.same).max() < TOLERANCE
    )
    tables = np.arange(len(T))
    assert abs(beta_u - (exact.n_tables * gamma / (gamma + tables)).sum()) < 0.005


@pytest.mark.parametrize("case", [TINY[3], ([[0], [0], [1]], 2, 0.5, 1.0, 4.0)])
def test_the_same_check_rejects_a_threshold_that_depends_on_the_state(case):
    docs, V, eta, alpha, gamma = case
    exact, sampler = (
        Posterior(*case),
        ParallelSampler(Corpus.from_docs(docs, n_words=V), eta, alpha, gamma, None, None, init=2),
    )
    errors = [
        max(abs(K - exact.n_dishes).max(), abs(same - exact.same).max())
        for K, _, same, _ in (collect(sampler, 100_000, relative) for relative in (False, True))
    ]
    assert errors[0] < TOLERANCE < 2 * TOLERANCE < errors[1]


def test_exact_with_concentrations_resampled():
    docs, V, eta = [[0]] * 6, 2, 5.0
    _, mean_gamma, p_K = Posterior(docs, V, eta).concentrations((1, 1), (0.5, 0.1))
    K, _, _, (_, gamma, _) = collect(
        ParallelSampler(Corpus.from_docs(docs, n_words=V), eta, 1, 1, None, (0.5, 0.1), init=1),
        100_000,
    )
    assert abs(K - p_K).max() < TOLERANCE and abs(gamma / mean_gamma - 1) < 0.05
    docs, V, eta = TINY[0][:3]
    mean_alpha, mean_gamma, p_K = posterior(0).concentrations((2, 0.5), (1, 1))
    K, _, _, (alpha, gamma, _) = collect(
        ParallelSampler(Corpus.from_docs(docs, n_words=V), eta, 1, 1, (2, 0.5), (1, 1), init=1),
        200_000,
    )
    assert (
        abs(K - p_K).max() < TOLERANCE
        and abs(alpha / mean_alpha - 1) < 0.03
        and abs(gamma / mean_gamma - 1) < 0.05
    )


def test_prior():
    check_prior(
        lambda docs, seed: (
            run_chain(
                ParallelSampler(Corpus.from_docs(docs, n_words=1), 0.5, 1.0, 1.0, None, None),
                np.random.default_rng(seed),
                1200,
                burn_in=200,
            ).trace
        )
    )


@pytest.mark.parametrize(
    "per_document, right",
    [pytest.param(False, True, marks=pytest.mark.slow), (True, True), (False, False)],
)
def test_geweke(per_document, right):
    """alpha (one, or one for each document), gamma and eta all from their priors; the control
    claims another prior of eta."""
    lengths, V = [4, 3, 0, 5], 3
    offsets = np.append(0, np.cumsum(lengths))
    priors = dict(alpha=(2.0, 2.0), gamma=(1.0, 1.0), eta=(3.0, 5.0))
    claimed = {f"{name}_prior": prior for name, prior in priors.items()} | (
        {} if right else dict(eta_prior=(3.0, 2.0))
    )

    def prior_draw(rng):
        alpha, gamma, eta = (rng.gamma(a) / b for a, b in priors.values())
        alphas = rng.gamma(2.0, size=4) / 2.0 if per_document else None
        t, k = seat(rng, lengths, alphas if per_document else [alpha] * 4, gamma)
        return direct_state(DirectState, t, k, lengths, V, alpha, gamma, eta, rng, alphas)

    def statistics(state, x):
        return {
            "K": float(state.K),
            "tables": float(state.n_tables.sum()),
            "alpha": float(state.alpha.mean()),
            "alpha_0": float(state.alpha.flat[0]),
            "gamma": float(state.gamma),
            "eta": float(state.eta),
            "alone": float((state.n_k == 1).sum()),
            "same": float((np.bincount(x) ** 2).sum()),
            "largest": float(state.n_k.max()),
            "pool": float(state.beta[state.K]),
            "top": float(state.beta.max()),
        }

    z = joint_distribution_test(
        np.random.default_rng(3),
        prior_draw,
        lambda rng, s: draw_words(rng, s, lengths, V, float(s.eta)),
        lambda rng, s, x: ParallelSampler(Corpus(x, offsets, n_words=V), **claimed)._sweep(rng, s),
        statistics,
        n_draws=500 if right else 300,
    )
    worst = max(map(abs, z.values()))
    assert worst < 4 if right else worst > 6, z


# ---------------------------------------------------------------- bookkeeping


@pytest.mark.parametrize("init", [1, 50])  # (the notebook begins by sequential prediction, too)
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 60.0])  # 60: topics come and go, the arrays must grow
def test_counts_after_every_sweep(init, gamma):
    docs = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)[0]
    corpus = Corpus.from_docs([[], *docs, [], [3]], n_words=20)
    sampler, rng = (
        ParallelSampler(corpus, 0.1, 2.0, gamma, (1, 1), None, init, eta_prior=(1, 1), n_threads=2),
        np.random.default_rng(0),
    )
    state = sampler.init(rng)
    check_state(state, corpus)
    capacities = {state.m_k.size}
    for _ in range(10):
        state, info = sampler.sweep(rng, state)
        check_state(state, corpus)
        assert (
            info["n_topics"] == state.K
            and info["n_tables"] == state.n_tables.sum()
            and info["alpha"] == state.alpha
            and info["eta"] == state.eta
        )
        assert np.isclose(
            info["log_likelihood"], log_likelihood(state.n_vk, state.n_k, state.eta[()])
        )
        assert np.isclose(
            info["log_joint"] - info["log_likelihood"],
            log_topics(state, corpus.offsets)
            + log_weights(state.beta, state.K[()], state.gamma[()]),
        )
        capacities.add(state.m_k.size)
    assert gamma < 60 or max(capacities) > 16


def test_blocks():
    "Every word and every document in one block, whatever their sizes; every word's tokens."
    rng = np.random.default_rng(0)
    lengths = np.append(rng.integers(0, 40, size=300), [5000, 0, 0])
    corpus = Corpus(
        rng.zipf(1.3, size=lengths.sum()).clip(max=999).astype(np.int32),
        np.append(0, np.cumsum(lengths)),
        n_words=1200,
    )
    plan = make_plan(corpus)
    for block, n in ((plan.word_block, 1200), (plan.doc_block, 303)):
        assert (
            block[0] == 0
            and block[-1] == n
            and (np.diff(block) >= 0).all()
            and len(block) == len(plan.word_block) > 5
        )
    assert (np.sort(plan.by_word) == np.arange(corpus.n_tokens)).all()
    assert all(
        (corpus.x[plan.by_word[a:b]] == v).all()
        for v, (a, b) in enumerate(zip(plan.start, plan.start[1:]))
    )


def test_light_topics_are_left_alone():
    "Tokens of a topic below the threshold stay where they are, and no others join."
    corpus, _ = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)
    sampler, rng = ParallelSampler(corpus, 0.1, 5.0, init=6), np.random.default_rng(0)
    state = sampler.init(rng)
    plan, z = sampler.plan, state.z.copy()
    work = new_parallel_workspace(plan, state.beta.size)
    state.beta[:7] = 0.3, 1e-9, 0.2, 0.2, 1e-9, 0.2, 0.1
    in_turn(
        sample_topics, work.log_p.size, np.uint64(1), 6, gamma_table(0.1), state.n_vk, plan, work
    )
    _scale_topics(rng, state, Offered(6, 1e-6), plan, work)
    in_turn(add_up_words, work.log_p.size, 6, state.beta, plan, work)
    in_turn(sweep_documents, work.log_p.size, np.uint64(2), 6, state, plan, work)
    light = np.isin(z, [1, 4])
    assert (
        (np.isin(state.z, [1, 4]) == light).all()
        and (state.z[light] == z[light]).all()
        and (state.z[~light] != z[~light]).mean() > 0.3
    )


def test_a_sweep_of_the_documents_from_its_definition():
    """One token in each of many documents: the topics that it chooses have the probabilities of
    (P2)."""
    corpus = Corpus.from_docs([[0, 1]] + [[2]] * 20_000, n_words=4)
    sampler, rng = (
        ParallelSampler(corpus, 0.3, 1.7, init=np.append([0, 1], np.arange(20_000) % 3)),
        np.random.default_rng(0),
    )
    state = sampler.init(rng)
    plan = sampler.plan
    work = new_parallel_workspace(plan, state.beta.size)
    in_turn(
        sample_topics, work.log_p.size, np.uint64(1), 3, gamma_table(0.3), state.n_vk, plan, work
    )
    _scale_topics(rng, state, Offered(3, 0.0), plan, work)
    in_turn(add_up_words, work.log_p.size, 3, state.beta, plan, work)
    in_turn(sweep_documents, work.log_p.size, np.uint64(2), 3, state, plan, work)
    phi = work.g[2, :3] * work.inv[:3]
    p = state.beta[:3] * phi / (state.beta[:3] * phi).sum()
    assert abs(np.bincount(state.z[2:], minlength=3) / 20_000 - p).max() < 0.015
    total = work.total[
        :, 1
    ].sum()  # topic 1: its sum is that of the words that occur, and the absent word's
    assert 1 / work.inv[1] >= total and np.isclose(work.g[:3, 1].sum(), total)


@pytest.mark.parametrize("absent", [0, 1])
def test_topics_are_scaled_by_all_words(absent):
    "Also by those that do not occur, of which there is one at most: numbers after V are not read."
    corpus = Corpus.from_docs([[0, 1, 1], [2, 0]], n_words=3 + absent)
    sampler, rng = ParallelSampler(corpus, 0.4, init=2), np.random.default_rng(0)
    state = sampler.init(rng)
    plan = sampler.plan._replace(start=np.append(sampler.plan.start, 5)[:-1])
    work = new_parallel_workspace(plan, state.beta.size)
    in_turn(
        sample_topics, work.log_p.size, np.uint64(1), 2, gamma_table(0.4), state.n_vk, plan, work
    )
    _scale_topics(np.random.default_rng(1), state, Offered(2, 0.0), plan, work)
    others = np.random.default_rng(1).standard_gamma(0.4, 2) * absent
    assert np.allclose(1 / work.inv[:2], work.g[:3, :2].sum(axis=0) + others)


@pytest.mark.parametrize("eta", [1e-6, 1e-3, 1.0, 3.0])
def test_any_eta(eta):
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    chain = run_chain(
        ParallelSampler(corpus, eta, 2.0, 5.0, None, None, init=5), np.random.default_rng(0), 20
    )
    check_state(chain.state, corpus)
    assert (
        np.isfinite(chain.trace["log_joint"]).all() and len(set(chain.trace["n_topics"])) > 1
    )  # births and deaths


# ---------------------------------------------------------------- threads


def equal(a, b):
    return (
        all(np.array_equal(p, q) for p, q in zip(a.state, b.state))
        and a.rng.bit_generator.state == b.rng.bit_generator.state
        and all(np.array_equal(a.trace[name], b.trace[name]) for name in a.trace)
    )


def test_same_chain_for_any_number_of_threads(tmp_path):
    corpus, _ = make_bars(n_docs=120, doc_len=60, grid=4, random_state=0)
    sampler = lambda n: ParallelSampler(
        corpus, eta_prior=(1, 1), alpha_per_document=True, init=30, n_threads=n
    )
    one = run_chain(sampler(1), np.random.default_rng(0), 8)
    assert sampler(1).plan.doc_block.size > 7
    for n in (2, 3, 7):
        assert equal(one, run_chain(sampler(n), np.random.default_rng(0), 8))
    assert not equal(one, run_chain(sampler(2), np.random.default_rng(1), 8))
    run_chain(
        sampler(2), np.random.default_rng(0), 4, checkpoint=tmp_path / "run.npz"
    )  # stopped, and resumed with other threads
    assert equal(
        one, run_chain(sampler(1), np.random.default_rng(9), 8, checkpoint=tmp_path / "run.npz")
    )


def test_chains_side_by_side_with_threads_of_their_own():
    corpus, _ = make_bars(n_docs=80, doc_len=40, grid=4, random_state=0)
    alone = run_chains(ParallelSampler(corpus, init=20), np.random.default_rng(0), 3, 6)
    crowd = run_chains(
        ParallelSampler(corpus, init=20, n_threads=2), np.random.default_rng(0), 3, 6, n_jobs=3
    )
    assert all(equal(a, b) for a, b in zip(alone, crowd)) and not equal(alone[0], alone[1])


def test_pieces_cover_all_blocks_and_errors_come_out():
    calls = []
    pool = SimpleNamespace(
        submit=lambda kernel, *args: SimpleNamespace(result=partial(kernel, *args))
    )
    for blocks in (0, 1, 5, 128):
        calls.clear()
        side_by_side(pool, 3, lambda first, end, tag: calls.append((first, end)), blocks, "tag")
        assert [b for first, end in calls for b in range(first, end)] == list(
            range(blocks)
        ) and len(calls) <= 12
    with pytest.raises(ZeroDivisionError):
        side_by_side(pool, 2, lambda first, end: 1 // 0, 4)


# ---------------------------------------------------------------- states, estimators


def test_states_of_other_samplers():
    """From every sampler to this one and from this one to every sampler (test_direct has the other
    nine pairs, and runs them)."""
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    kinds = {
        FranchiseSampler: FranchiseState,
        DirectSampler: DirectState,
        HybridSampler: HybridState,
        ParallelSampler: DirectState,
    }
    for first, second in [(kind, ParallelSampler) for kind in kinds] + [
        (ParallelSampler, kind) for kind in kinds
    ]:
        old = first(corpus, 0.3, 2.0, 3.0, init=7, eta_prior=(1, 1)).init(np.random.default_rng(0))
        kept = [array.copy() for array in old]
        sampler = second(corpus, init=old, eta_prior=(1, 1))
        state = sampler.init(np.random.default_rng(1))
        assert (
            isinstance(state, kinds[second])
            and (state.z == old.z).all()
            and (state.alpha, state.gamma, state.eta) == (old.alpha, old.gamma, old.eta)
        )
        (check_counts if second is FranchiseSampler else check_state)(state, corpus)
        if second is ParallelSampler:
            run_chain(sampler, np.random.default_rng(1), 2)
        assert all(np.array_equal(a, b) for a, b in zip(kept, old))
        held = second(corpus, eta=0.7, alpha=4.0, alpha_prior=None, init=old).init(
            np.random.default_rng(1)
        )
        assert held.eta == 0.7 and held.alpha == 4.0 and held.gamma == old.gamma


def test_hdp():
    """The estimator runs this sampler, with all threads that its chains leave, and the result does
    not depend on them."""
    corpus, _ = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)
    fit = lambda **options: HDP(
        sampler="parallel",
        gamma=0.3,
        eta=0.5,
        n_iter=6,
        thin=1,
        init=9,
        moves=0,
        n_chains=1,
        random_state=0,
        **options,
    ).fit(corpus)
    one = fit()
    chain = run_chain(
        ParallelSampler(corpus, 0.5, 1.0, 0.3, gamma_prior=None, init=9),
        np.random.default_rng(0).spawn(1)[0],
        6,
        burn_in=3,
    )
    assert np.array_equal(one.trace_["log_joint"], chain.trace["log_joint"])
    assert np.array_equal(one.components_, fit(n_jobs=4).components_)
    assert [
        HDP(sampler="parallel", moves=0, n_jobs=n, n_chains=c)._sampler(corpus).n_threads
        for n, c in ((None, 1), (6, 1), (6, 2), (2, 3))
    ] == [effective_n_jobs(-1), 6, 3, 1]


@pytest.mark.parametrize(
    "options, says",
    [
        (dict(n_threads=0), "n_threads.*0"),
        (dict(n_threads=1.5), "n_threads.*1.5"),
        (dict(eta=0), "eta"),
        (dict(init="luck"), "init"),
    ],
)
def test_bad_arguments(options, says):
    with pytest.raises(ValueError, match=says):
        ParallelSampler(Corpus.from_docs([[0, 1], [1]]), **options)


def test_bars():
    "All ten bars, from 40 random topics."
    corpus, truth = make_bars(n_docs=300, doc_len=60, grid=5, concentration=1.0, random_state=3)
    state = run_chain(ParallelSampler(corpus, init=40), np.random.default_rng(0), 200).state
    learned = (state.n_vk[:, state.n_k >= 0.02 * corpus.n_tokens] + 0.5).T
    cosine = (truth.phi / np.linalg.norm(truth.phi, axis=1, keepdims=True)) @ (
        learned / np.linalg.norm(learned, axis=1, keepdims=True)
    ).T
    assert cosine.max(axis=1).min() > 0.95


# ---------------------------------------------------------------- random numbers


@njit
def numbers(seed, n, length):
    out = np.empty((n, length))
    for i in range(n):
        s = stream(seed, i)
        for t in range(length):
            out[i, t], s = uniform(s)
    return out


def test_streams():
    u, again, other = (numbers(np.uint64(seed), 2000, 50) for seed in (7, 7, 8))
    assert (
        np.array_equal(u, again)
        and 0 <= u.min()
        and u.max() < 1
        and np.unique(np.append(u, other)).size == 200_000
    )
    for sample in (
        u,
        u[:, 0],
        u[0],
        u[:-1] - u[1:] + (u[:-1] < u[1:]),
        u[:, :-1] - u[:, 1:] + (u[:, :-1] < u[:, 1:]),
        u - other + (u < other),
    ):
        assert stats.kstest(sample.ravel(), "uniform").pvalue > 0.001


@njit
def gammas(table, cells, s, n):
    out, shape = np.empty(n), table.shape
    for i in range(n):
        if shape > 1.0 or not cells:
            out[i], s = gamma_from_one(shape, s)
        else:
            c, s = uniform(s)
            u, s = uniform(s)
            w, s = uniform(s)
            out[i], s = gamma_in_cell(table, int(1024 * c), u, w, s)
    return out


@pytest.mark.parametrize("shape", [1e-4, 0.01, 0.1, 0.5, 0.9, 1.0])
def test_gamma_cells(shape):
    draws = gammas(gamma_table(shape), True, np.uint64(1), 100_000)
    if shape < 0.001:  # most are too small for a number
        x = np.array([1e-300, 1e-100, 1e-10, 0.1, 1.0])
        assert (
            abs((draws[:, None] > x).mean(0) - stats.gamma(shape).sf(x)).max()
            < 4 * (shape * 700 / 100_000) ** 0.5
        )
        return
    p = stats.gamma(shape).cdf(draws)
    assert (
        stats.chisquare(np.bincount((1024 * p).astype(int).clip(max=1023), minlength=1024)).pvalue
        > 0.001
    )
    assert stats.kstest((1024 * p) % 1, "uniform").pvalue > 0.001  # within the cells
    assert (
        stats.kstest(
            gammas(gamma_table(shape + 1), False, np.uint64(2), 50_000), stats.gamma(shape + 1).cdf
        ).pvalue
        > 0.001
    )


@pytest.mark.parametrize("eta", [0.1, 0.5, 1.0, 2.5])
def test_topics_drawn(eta):
    "The variates of sample_topics: words without tokens have shape eta, the others eta + n."
    corpus = Corpus.from_docs([[0] * 3 + [1]] + [[v] for v in range(3000)])
    plan, n_vk = make_plan(corpus), np.zeros((3000, 40), np.int32)
    n_vk[0], n_vk[1] = 3, 1
    work = new_parallel_workspace(plan, 40)
    sample_topics(0, work.log_p.size, np.uint64(3), 40, gamma_table(eta), n_vk, plan, work)
    p = stats.gamma(eta).cdf(work.g[2:])
    assert (
        stats.chisquare(np.histogram(p, bins=1024, range=(0, 1))[0]).pvalue
        > 0.001
        < stats.chisquare(np.histogram(p, bins=4096, range=(0, 1))[0][8:40]).pvalue
    )
    assert (
        stats.kstest(work.g[0], stats.gamma(eta + 3).cdf).pvalue
        > 0.001
        < stats.kstest(work.g[1], stats.gamma(eta + 1).cdf).pvalue
    )
    assert np.allclose(work.total.sum(0), work.g.sum(0))


def test_tables_of_words():
    "The tables that eta is resampled from: their mean number."
    n_vk = np.array([[9, 0, 1], [0, 4, 0], [1, 0, 0], [0, 1, 3]])
    corpus = Corpus.from_docs([np.repeat(np.arange(4), n_vk.sum(1))])
    sampler = ParallelSampler(
        corpus, 0.7, init=np.concatenate([np.repeat(np.arange(3), row) for row in n_vk])
    )
    state = sampler.init(np.random.default_rng(0))
    work, tables = new_parallel_workspace(sampler.plan, state.beta.size), []
    work.label[:] = np.arange(state.beta.size)
    count_words(0, work.log_p.size, state, sampler.plan, work)
    for seed in range(4000):
        _seat_words(0, work.log_p.size, np.uint64(seed), state, sampler.plan, work)
        tables.append(work.tables.sum())
    expected = sum(0.7 / (0.7 + l) for n in n_vk.ravel() for l in range(n))
    assert (state.n_vk[:, :3] == n_vk).all() and abs(np.mean(tables) - expected) < 0.1


def test_find_topic():
    below = np.array([[0.1, 0.1, 0.4, 0.4, 0.9]])
    assert [find_topic(below, 0, 5, t) for t in (0, 0.05, 0.1, 0.3, 0.4, 0.8, 0.9, 2)] == [
        0,
        0,
        2,
        2,
        4,
        4,
        4,
        4,
    ]


def test_pool():
    """The pieces are those of the stick-breaking construction that are above the threshold: their
    number and their sum."""
    gamma, sums, number, drawn = 3.0, [], [], []
    state = SimpleNamespace(
        beta=np.array([0.8, 0.2]), K=np.array(1), alpha=np.array(1.0), gamma=np.array(gamma)
    )
    State = DirectState(
        *[np.zeros(1)] * 5, state.beta, state.K, state.alpha, state.gamma, np.array(0.5)
    )
    rng, lengths = np.random.default_rng(0), np.array([20, 0, 30])
    tables = np.log(21) + np.log(31)
    for _ in range(4000):
        atoms, least = _open_pool(rng, State, lengths)
        assert (
            np.isclose(least, gamma / (gamma + tables) / 16)
            and (atoms > least).all()
            and atoms.sum() < 0.2
        )
        number.append(len(atoms))
        sums.append(atoms.sum())
        pieces, rest = [], 0.2
        while rest > least:
            pieces.append(rng.beta(1, gamma) * rest)
            rest -= pieces[-1]
        drawn.append([sum(p > least for p in pieces), sum(p for p in pieces if p > least)])
    assert (
        abs(np.mean(number) - np.mean(drawn, 0)[0]) < 0.1
        and abs(np.mean(sums) - np.mean(drawn, 0)[1]) < 0.003
    )


def test_room_for_pieces_is_doubled():
    "And not made for each: of many pieces at most half of the room is left."
    values = {
        "beta": np.ones(1),
        "K": np.array(0),
        "alpha": np.array(1.0),
        "gamma": np.array(200.0),
    }
    fields = {name: values.get(name, np.zeros(1)) for name in DirectState._fields}
    plain = getattr(_open_pool, "py_func", _open_pool)
    atoms, _ = plain(np.random.default_rng(0), DirectState(**fields), np.array([20]))
    assert len(atoms) > 100 and len(atoms) <= len(atoms.base) < 2 * len(atoms)
