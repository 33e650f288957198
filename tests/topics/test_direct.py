"""Direct assignment, the hybrid and LDA against exact posteriors, the prior, their own
bookkeeping, and wrong samplers."""

import math
from collections import Counter
from functools import cache
from itertools import product
from math import exp
from types import SimpleNamespace

import numpy as np
import pytest
from naive import Direct, Posterior, check_prior, log_words, sampled
from numba import njit
from scipy.special import gammaln, poch
from tiers import slow_unless
from topics.test_franchise import TINY, TOLERANCE, check_counts, draw_words, largest_error, seat

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.mcmc.priors import Gamma, LogNormal, fixed_prior, log_density
from hdp_nb.processes.dp import log_concentration, slice_concentration
from hdp_nb.processes.weights import (
    count_tables,
    document_alpha,
    draw_beta,
    find_pool,
    resample_alpha,
)
from hdp_nb.topics import direct
from hdp_nb.topics.counts import (
    NO_SEEDS,
    bound_eta,
    new_topic_workspace,
    predictive_topics,
    renumber_topics,
    resample_eta,
    resample_hyperparameters,
    resize_capacity,
)
from hdp_nb.topics.direct import (
    DirectSampler,
    DirectState,
    HybridSampler,
    HybridState,
    _sweep_direct,
    _sweep_direct_by_word,
    _sweep_hybrid,
    add_tables,
    add_weights,
    assign_tokens,
    convert_state,
    log_topics,
    log_weights,
)
from hdp_nb.topics.franchise import FranchiseSampler, FranchiseState, empty_franchise, seat_by_topic
from hdp_nb.topics.lda import LDASampler, _sweep_lda, _sweep_lda_by_word, resample_finite_weights
from hdp_nb.topics.table_words import seat_tables
from hdp_nb.topics.word_order import WeightTree, assign_by_word, new_tree
from hdp_nb.utils.special import log_antoniak, log_stirling

BOTH = pytest.mark.parametrize("kind", [DirectSampler, HybridSampler])


@cache
def posterior(i):
    return Posterior(*TINY[i])


@njit
def _collect(kernel, rng, state, workspace, x, offsets, lengths, prior, n, p_K, p_T, same, mean):
    for _ in range(n):
        if not kernel(rng, state, workspace, x, offsets, lengths, prior):
            raise RuntimeError("more topics than tokens")
        p_K[state.K[()]] += 1 / n
        p_T[state.n_tables.sum()] += 1 / n
        mean[0] += state.alpha[()] / n
        mean[1] += state.gamma[()] / n
        mean[2] += state.beta[state.K[()]] / n
        for a in range(x.size):
            for b in range(x.size):
                same[a, b] += (state.z[a] == state.z[b]) / n


def collect(sampler, n, kernel=None, seed=0):
    "P(K), P(tables), co-clustering, and the means of alpha, gamma and beta_u over n sweeps."
    c, rng = sampler.corpus, np.random.default_rng(seed)
    state, N = sampler.init(rng), c.n_tokens
    out = np.zeros(N + 1), np.zeros(N + 1), np.zeros((N, N)), np.zeros(3)
    workspace = new_topic_workspace(c.n_words, max(c.doc_lengths), state.m_k.size)
    _collect(
        kernel or (_sweep_hybrid if isinstance(sampler, HybridSampler) else _sweep_direct),
        rng,
        state,
        workspace,
        c.x,
        c.offsets,
        c.doc_lengths,
        sampler.prior,
        n,
        *out,
    )
    return out


# ---------------------------------------------------------------- exact


@BOTH
@pytest.mark.parametrize("i", range(len(TINY)))
def test_exact_posterior(kind, i):
    docs, V, eta, alpha, gamma = TINY[i]
    exact = posterior(i)
    K, T, same, (_, _, beta_u) = collect(
        kind(Corpus.from_docs(docs, n_words=V), eta, alpha, gamma, None, None, init=2), 60_000
    )
    assert (
        abs(K - exact.n_dishes).max() < TOLERANCE
        and abs(T - exact.n_tables).max() < TOLERANCE
        and abs(same - exact.same).max() < TOLERANCE
    )
    tables = np.arange(len(T))
    assert (
        abs(beta_u - (exact.n_tables * gamma / (gamma + tables)).sum()) < 0.005
    )  # E[beta_u | tables] is gamma/(gamma + tables)


@njit
def stale_sweep(rng, state, workspace, x, offsets, lengths, prior):
    "The control: beta is drawn before gamma is."
    state.m_k[:] = 0
    for j in range(lengths.size):
        a, b = offsets[j], offsets[j + 1]
        assign_tokens(rng, state, workspace, x, offsets, j, 0, False)
        state.n_tables[j] = count_tables(
            rng,
            state.z,
            workspace.n_jk,
            state.m_k,
            state.beta,
            document_alpha(state.alpha, j),
            a,
            b,
        )
    renumber_topics(state, workspace.label)
    draw_beta(rng, state.beta, state.m_k, state.K[()], state.gamma[()])
    resample_hyperparameters(rng, state, prior, lengths, workspace.m)
    return True


@pytest.mark.parametrize("prior", slow_unless(lambda prior: prior != (1, 1), [(1, 1), (0.5, 0.1)]))
def test_exact_with_concentrations_resampled(prior):
    """One word in each of six documents, where the order of updates matters most; and a corpus
    where it matters less."""
    docs, V, eta = [[0]] * 6, 2, 5.0
    _, mean_gamma, p_K = Posterior(docs, V, eta).concentrations((1, 1), prior)
    make = lambda kind: kind(Corpus.from_docs(docs, n_words=V), eta, 1, 1, None, prior, init=1)
    for kind in (DirectSampler, HybridSampler):
        K, _, _, (_, gamma, _) = collect(make(kind), 100_000)
        assert abs(K - p_K).max() < TOLERANCE and abs(gamma / mean_gamma - 1) < 0.05
    K = collect(make(DirectSampler), 20_000, stale_sweep)[0]
    assert abs(K - p_K).max() > 2 * TOLERANCE  # the control


@BOTH
def test_exact_with_all_concentrations_resampled(kind):
    docs, V, eta = TINY[1][:3]
    mean_alpha, mean_gamma, p_K = posterior(1).concentrations((2, 0.5), (0.1, 1))
    K, _, _, (alpha, gamma, _) = collect(
        kind(Corpus.from_docs(docs, n_words=V), eta, 1, 1, (2, 0.5), (0.1, 1), init=1), 200_000
    )
    assert (
        abs(K - p_K).max() < TOLERANCE
        and abs(alpha / mean_alpha - 1) < 0.03
        and abs(gamma / mean_gamma - 1) < 0.06
    )


@pytest.mark.parametrize("mistake", ["lost", pytest.param("even", marks=pytest.mark.slow)])
def test_the_same_check_rejects_wrong_samplers(mistake):
    docs, V, eta, alpha, gamma = case = [[0], [0], [1]], 2, 0.5, 1.0, 4.0
    exact = Posterior(*case)

    def error(mistake):
        gibbs = Direct(docs, V, eta, alpha, gamma, np.random.default_rng(0), mistake)
        K, T, same = sampled((gibbs.sweep() for _ in range(10_000)), 3)
        return max(
            abs(K - exact.n_dishes).max(),
            abs(T - exact.n_tables).max(),
            abs(same - exact.same).max(),
        )

    assert error(None) < TOLERANCE < 2 * TOLERANCE < error(mistake)


@pytest.mark.parametrize(
    "kind", [DirectSampler, pytest.param(HybridSampler, marks=pytest.mark.slow)]
)
def test_prior(kind):
    check_prior(
        lambda docs, seed: (
            run_chain(
                kind(Corpus.from_docs(docs, n_words=1), 0.5, 1.0, 1.0, None, None),
                np.random.default_rng(seed),
                1200,
                burn_in=200,
            ).trace
        )
    )


# ---------------------------------------------------------------- the kernel's corrections


def assign_slowly(rng, state, x, first, end, j):
    """(37') as it stands, every weight anew for every token: returns where it had no slot left for
    the pool."""
    (z, n_vk, n_k, beta), alpha = (
        (state.z, state.n_vk, state.n_k, state.beta),
        float(state.alpha[j]),
    )
    pool, spare = find_pool(n_k, beta)
    for i in range(first, end):
        if spare < 0:
            return i
        v, k = x[i], z[i]
        n_vk[v, k] -= 1
        n_k[k] -= 1
        z[i] = -1
        if n_k[k] == 0:
            beta[pool] += beta[k]
            beta[k] = 0
        doc = z[first:end]
        w = (
            (np.bincount(doc[doc >= 0], minlength=n_k.size) + alpha * beta)
            / (n_k + len(n_vk) * state.eta)
            * (n_vk[v] + state.eta)
        )
        z[i] = k = np.searchsorted(np.cumsum(w), rng.random() * w.sum(), side="right")
        n_vk[v, k] += 1
        n_k[k] += 1
        if k == pool:
            b, pool = rng.beta(1.0, float(state.gamma)), spare
            beta[pool], beta[k] = (1 - b) * beta[k], b * beta[k]
            spare = find_pool(n_k, beta)[1]
    return end


@pytest.mark.parametrize("capacity", [16, 32, 48, 288, 544])
def test_kernel_draws_what_its_definition_draws(capacity):
    """Topics in slots all over the place, births and deaths, words that repeat: from one stream of
    random numbers the same topics."""
    rng, lengths, V = np.random.default_rng(capacity), [60, 0, 1, 90, 2, 40], 5
    c = SimpleNamespace(n_tokens=sum(lengths), n_docs=len(lengths), n_words=V)
    x, offsets, slots = (
        rng.integers(V, size=c.n_tokens).astype(np.int32),  # as in a Corpus: no kernels of its own
        np.append(0, np.cumsum(lengths)),
        rng.choice(capacity, 13, replace=False),
    )
    state = add_weights(
        rng, empty_franchise(c, rng.gamma(3.0, 20.0, size=c.n_docs), 30.0, 0.5, capacity=capacity)
    )
    state.z[:] = rng.choice(slots[:-1], c.n_tokens)
    np.add.at(state.n_vk, (x, state.z), 1)
    state.n_k[:] = state.n_vk.sum(axis=0)
    state.beta[:] = 0
    state.beta[slots] = rng.dirichlet(np.ones(13))
    slow = type(state)(*(array.copy() for array in state))
    workspace, births = new_topic_workspace(V, 90, capacity), 0
    for repeat in range(4):
        for j, (a, b) in enumerate(zip(offsets, offsets[1:])):
            streams, used = [np.random.default_rng([repeat, j]) for _ in range(2)], state.n_k > 0
            assert a + assign_tokens(
                streams[0], state, workspace, x, offsets, j, 0, False
            ) == assign_slowly(streams[1], slow, x, a, b, j)
            births += (state.n_k[~used] > 0).sum()
            assert all(
                np.array_equal(getattr(state, name), getattr(slow, name))
                for name in ("z", "n_vk", "n_k")
            )
            assert np.allclose(state.beta, slow.beta, rtol=1e-9)
    assert births >= 3


class ByWord(DirectSampler):
    "Tokens in the order of words from the first topic on."

    _many = 0


class HybridByWord(HybridSampler):
    _many = 0


class FranchiseByWord(FranchiseSampler):
    _many = 0


@pytest.mark.parametrize("i", range(len(TINY)))
def test_exact_posterior_by_word(i):
    docs, V, eta, alpha, gamma = TINY[i]
    sampler = DirectSampler(Corpus.from_docs(docs, n_words=V), eta, alpha, gamma, None, None, 2)
    assert largest_error(collect(sampler, 60_000, _sweep_direct_by_word), posterior(i)) < TOLERANCE


@pytest.mark.parametrize("kind", [ByWord, HybridByWord, FranchiseByWord])
def test_many_topics(kind):
    """From four hundred topics on tokens are visited word by word; such a chain runs out of room,
    begins anew from any of its states, and is none the worse for it."""
    corpus, _ = make_bars(n_docs=60, doc_len=40, grid=4, random_state=0)
    options, n = dict(eta=0.1, gamma=50.0, gamma_prior=None, init=14), 30
    whole = run_chain(kind(corpus, **options), np.random.default_rng(0), n)
    kind(corpus).check(whole.state)
    usual = run_chain(kind.__base__(corpus, **options), np.random.default_rng(0), n)
    means = [chain.trace["log_likelihood"][-10:].mean() for chain in (whole, usual)]
    assert whole.state.n_k.size > 16 and abs(means[0] / means[1] - 1) < 0.05


@pytest.mark.parametrize("kind", [DirectSampler, HybridSampler, FranchiseSampler])
def test_from_how_many_topics_on(kind):
    corpus, _ = make_bars(n_docs=60, doc_len=40, grid=4, random_state=0)
    seen = []

    def seat_and_note(kernel, rng, state, *more):
        seen.append(kernel.__name__)
        return state

    for K in (399, 400):
        sampler = kind(corpus, init=np.arange(corpus.n_tokens) % K)
        state = sampler.init(np.random.default_rng(0))
        sampler._drive = seat_and_note
        sampler._sweep(np.random.default_rng(0), state, *[True] * (kind is FranchiseSampler))
    assert len(seen) == 2 and not seen[0].endswith("by_word") and seen[1].endswith("by_word")


def test_every_token_of_a_word_is_visited_where_room_runs_out():
    "An interrupted pass goes on where it was, and leaves counts that are those of the topics."
    corpus, _ = make_bars(n_docs=30, doc_len=40, grid=4, random_state=0)
    rng, calls = np.random.default_rng(0), 0
    sampler = DirectSampler(corpus, 2.0, 30.0, 300.0, None, None, init=14)
    state = sampler.init(rng)
    at = np.zeros(3, np.int64)
    while True:
        workspace = new_topic_workspace(corpus.n_words, 40, state.n_k.size)
        workspace.at[:] = at
        done = assign_by_word(rng, state, state.beta, workspace, corpus.x, corpus.offsets, False)
        check = np.zeros_like(state.n_vk)
        np.add.at(check, (corpus.x, state.z), 1)
        assert (check == state.n_vk).all() and (check.sum(axis=0) == state.n_k).all()
        assert np.isclose(state.beta.sum(), 1.0) and (state.beta[state.n_k > 0] > 0).all()
        if done:
            break
        assert tuple(workspace.at[[0, 2]]) > tuple(at[[0, 2]]) or calls == 0
        at, calls = workspace.at.copy(), calls + 1
        state = resize_capacity(state, state.n_k.size + 16)
    assert calls > 1 and (state.n_k > 0).sum() > 30


def twin_by_word(rng, docs, z, beta, V, eta, alpha, gamma):
    "One pass over all tokens in the order of words, by (37') from scratch; returns their topics."
    x, document = np.concatenate(docs), np.repeat(range(len(docs)), [len(d) for d in docs])
    z, beta = list(z), dict(enumerate(beta[:-1])) | {"u": beta[-1]}
    for i in np.argsort(x, kind="stable"):
        old, z[i] = z[i], None
        if old not in z:
            beta["u"] += beta.pop(old)
        p = []
        for k in beta:
            has = [a for a in range(len(z)) if z[a] == k]
            own = sum(document[a] == document[i] for a in has) + alpha * beta[k]
            p.append(own * (sum(x[a] == x[i] for a in has) + eta) / (len(has) + V * eta))
        k = list(beta)[rng.choice(len(p), p=np.divide(p, sum(p)))]
        if k == "u":
            b, k = rng.beta(1, gamma), f"new {i}"
            beta[k], beta["u"] = b * beta["u"], (1 - b) * beta["u"]
        z[i] = k
    return z


def test_one_pass_by_word():
    """Documents that have as many topics as tokens, so that their lists are full: partitions after
    one pass from the same state, as often as the twin has them."""
    docs, V, eta, alpha, gamma = [[4, 4], [4, 1, 0], [1, 1]], 6, 2.0, 0.2, 1.0
    corpus, z, n = Corpus.from_docs(docs, n_words=V), np.array([0, 1, 0, 1, 1, 0, 2]), 8000
    rng, beta = np.random.default_rng(0), np.array([0.4, 0.3, 0.2, 0.1])
    begin = DirectSampler(corpus, eta, alpha, gamma, None, None, init=z).init(rng)
    begin.beta[:] = np.append(beta, np.zeros(begin.beta.size - 4))
    found = [Counter(), Counter()]
    for _ in range(n):
        state = convert_state(DirectState, begin)
        workspace = new_topic_workspace(V, 3, state.n_k.size)
        assert assign_by_word(rng, state, state.beta, workspace, corpus.x, corpus.offsets, False)
        for way, topics in enumerate(
            (list(state.z), twin_by_word(rng, docs, z, beta, V, eta, alpha, gamma))
        ):
            found[way][tuple(topics.index(k) for k in topics)] += 1
    both = [(found[0][p], found[1][p]) for p in set(found[0]) | set(found[1])]
    off = np.array([(a - b) / math.sqrt(a + b) for a, b in both if a + b > 10])
    assert len(off) > 50 and abs(off).max() < 4.5 and 0.6 < (off**2).mean() < 1.5


def test_tree_of_no_weights():
    assert isinstance(new_tree(0), WeightTree) and new_tree(257).upper.size == 2


def test_lda_with_very_many_topics():
    "Words come in order from a number of topics on; counts stay those of the topics."
    corpus, _ = make_bars(n_docs=40, doc_len=40, grid=4, random_state=0)
    for K, kernel in ((8, _sweep_lda), (LDASampler._many, _sweep_lda_by_word)):
        sampler, seen = LDASampler(corpus, K, weights="learned"), []
        drive = sampler._drive

        def noted(kernel, *rest, seen=seen, drive=drive):
            seen.append(kernel)
            return drive(kernel, *rest)

        sampler._drive = noted
        chain = run_chain(sampler, np.random.default_rng(0), 5)
        assert set(seen) == {kernel}
        sampler.check(chain.state)
        check = np.zeros_like(chain.state.n_vk)
        np.add.at(check, (corpus.x, chain.state.z), 1)
        assert (check == chain.state.n_vk).all() and chain.state.K == K


def test_capacity_follows_the_topics():
    "It grows within a sweep, shrinks before one, and is a multiple of 16 whatever it was."
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    sampler, rng = DirectSampler(corpus, init=200), np.random.default_rng(0)
    state = sampler.init(rng)
    widths = [state.n_k.size]
    for _ in range(60):
        state, _ = sampler.sweep(rng, state)
        widths.append(state.n_k.size)
        check_state(state, corpus)
    assert widths[0] == 208 and widths[-1] == 16 * (1 + (int(state.K) + 1) // 16) and state.K < 30
    odd = state._replace(
        n_vk=state.n_vk[:, :30],
        **{name: getattr(state, name)[:30] for name in ("n_k", "m_k", "beta")},
    )
    assert DirectSampler(corpus, init=odd).sweep(rng, odd)[0].n_k.size % 16 == 0


# ---------------------------------------------------------------- Geweke: every hyperparameter free


def direct_state(kind, t, k, lengths, V, alpha, gamma, eta, rng, all_alphas=None):
    "A state from tables of tokens and dishes of tables, and weights drawn for them."
    offsets = np.append(0, np.cumsum(lengths))
    state = empty_franchise(
        SimpleNamespace(n_tokens=offsets[-1], n_docs=len(lengths), n_words=V),
        alpha if all_alphas is None else all_alphas,
        gamma,
        eta,
        capacity=32,
    )
    for j, (t_j, k_j) in enumerate(zip(t, k)):
        state.n_tables[j] = len(k_j)
        np.add.at(state.m_k, k_j, 1)
        state.z[offsets[j] : offsets[j + 1]] = [k_j[s] for s in t_j]
    state.K[()] = (state.m_k > 0).sum()
    full = add_weights(rng, state)
    return kind(**{name: getattr(full, name) for name in kind._fields})


@pytest.mark.parametrize(
    "kind, per_document, right",
    [
        pytest.param(DirectSampler, False, True, marks=pytest.mark.slow),
        (DirectSampler, True, True),
        (HybridSampler, False, True),
        pytest.param(HybridSampler, True, True, marks=pytest.mark.slow),
        pytest.param(FranchiseSampler, True, True, marks=pytest.mark.slow),
        (DirectSampler, True, False),
    ],
)
def test_geweke(kind, per_document, right):
    """alpha (one, or one for each document), gamma and eta all from their priors; the control
    claims another prior of eta."""
    lengths, V = [4, 3, 0, 5], 3
    offsets = np.append(0, np.cumsum(lengths))
    priors = dict(alpha=(2.0, 2.0), gamma=(1.0, 1.0), eta=(3.0, 5.0))
    claimed = {f"{name}_prior": prior for name, prior in priors.items()} | (
        {} if right else dict(eta_prior=(3.0, 2.0))
    )
    state_class = FranchiseState if kind is FranchiseSampler else kind._state

    def prior_draw(rng):
        alpha, gamma, eta = (rng.gamma(a) / b for a, b in priors.values())
        alphas = rng.gamma(2.0, size=4) / 2.0 if per_document else None
        t, k = seat(rng, lengths, alphas if per_document else [alpha] * 4, gamma)
        if kind is FranchiseSampler:
            state = empty_franchise(
                SimpleNamespace(n_tokens=offsets[-1], n_docs=4, n_words=V),
                alphas,
                gamma,
                eta,
                capacity=32,
            )
            state.t[:] = np.concatenate(t)
            for j, (t_j, k_j) in enumerate(zip(t, k)):
                state.n_tables[j], state.k_jt[offsets[j] : offsets[j] + len(k_j)] = len(k_j), k_j
                state.n_jt[offsets[j] : offsets[j] + len(k_j)] = np.bincount(
                    t_j, minlength=len(k_j)
                )
                np.add.at(state.m_k, k_j, 1)
                state.z[offsets[j] : offsets[j + 1]] = [k_j[s] for s in t_j]
            state.K[()] = (state.m_k > 0).sum()
            return state
        if state_class is DirectState:
            return direct_state(DirectState, t, k, lengths, V, alpha, gamma, eta, rng, alphas)
        return add_tables(
            rng,
            direct_state(DirectState, t, k, lengths, V, alpha, gamma, eta, rng, alphas),
            offsets,
        )

    def sweep(rng, state, x):
        sampler = kind(Corpus(x, offsets, n_words=V), **claimed)
        return (
            sampler._sweep(rng, state, True)
            if kind is FranchiseSampler
            else sampler._sweep(rng, state)
        )

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
            **(
                {}
                if state_class is FranchiseState
                else {"pool": float(state.beta[state.K]), "top": float(state.beta.max())}
            ),
        }

    z = joint_distribution_test(
        np.random.default_rng(3),
        prior_draw,
        lambda rng, s: draw_words(rng, s, lengths, V, float(s.eta)),
        sweep,
        statistics,
        n_draws=800 if right else 400,
    )
    worst = max(map(abs, z.values()))
    assert worst < 4 if right else worst > 6, z


# ---------------------------------------------------------------- bookkeeping


def check_state(state, corpus):
    document, K = np.repeat(np.arange(corpus.n_docs), corpus.doc_lengths), int(state.K)
    n_vk, n_jk = np.zeros_like(state.n_vk), np.zeros((corpus.n_docs, K), int)
    np.add.at(n_vk, (corpus.x, state.z), 1)
    np.add.at(n_jk, (document, state.z), 1)
    assert (n_vk == state.n_vk).all() and (n_vk.sum(0) == state.n_k).all()
    assert (state.n_k[:K] > 0).all() and not state.n_k[K:].any() and not state.m_k[K:].any()
    assert (
        (state.m_k[:K] >= (n_jk > 0).sum(0)).all()
        and (state.m_k[:K] <= n_jk.sum(0)).all()
        and state.m_k.sum() == state.n_tables.sum()
    )
    assert ((n_jk > 0).sum(1) <= state.n_tables).all() and (
        state.n_tables <= corpus.doc_lengths
    ).all()
    assert (
        np.isclose(state.beta.sum(), 1)
        and (state.beta[: K + 1] > 0).all()
        and not state.beta[K + 1 :].any()
    )
    if isinstance(state, HybridState):
        check_counts(state, corpus)


@BOTH
@pytest.mark.parametrize("init", ["sequential", 1, 50])
@pytest.mark.parametrize("gamma", [1.0, 60.0])  # 60: topics come and go, the arrays must grow
def test_counts_after_every_sweep(kind, init, gamma):
    docs = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)[0]
    corpus = Corpus.from_docs([*docs, [], [3]], n_words=16)
    sampler, rng = kind(corpus, 0.1, 2.0, gamma, (1, 1), None, init), np.random.default_rng(0)
    state = sampler.init(rng)
    check_state(state, corpus)
    capacities = {state.m_k.size}
    for _ in range(15):
        state, info = sampler.sweep(rng, state)
        check_state(state, corpus)
        assert info["n_topics"] == state.K and info["n_tables"] == state.n_tables.sum()
        capacities.add(state.m_k.size)
    assert gamma == 1.0 or max(capacities) > 16


@pytest.mark.parametrize("kernel", ["_sweep_direct", "_sweep_hybrid"])
def test_a_sweep_goes_on_where_it_ran_out_of_room(kernel):
    """With room from the start or with arrays that grow on the way, the draws that are made are
    the same until a slot is missing, and all tokens get theirs."""
    corpus, _ = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)
    kind, seen = {"_sweep_direct": DirectSampler, "_sweep_hybrid": HybridSampler}[kernel], []

    def spy(rng, state, workspace, *args):
        begun = workspace.at.tolist()
        done = getattr(direct, kernel)(rng, state, workspace, *args)
        seen.append((begun, workspace.at.tolist(), done))
        return done

    sampler = kind(corpus, 0.1, 20.0, 200.0, None, None, init=1)
    drive = sampler._drive
    sampler._drive = lambda kernel, *rest: drive(spy, *rest)
    rng = np.random.default_rng(0)
    state = sampler._sweep(rng, sampler.init(rng))
    check_state(state, corpus)
    assert len(seen) > 2 and [done for *_, done in seen] == [False] * (len(seen) - 1) + [True]
    assert all(ended == begun for (_, ended, _), (begun, _, _) in zip(seen, seen[1:])) and seen[-1][
        1
    ] == [0, 0, 0]


@BOTH
def test_resumes_bit_identically(kind, tmp_path):
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    sampler = lambda **more: kind(
        corpus, eta_prior=(1, 1), alpha_per_document=True, init=10, **more
    )
    whole = run_chain(sampler(), np.random.default_rng(0), 10)
    run_chain(sampler(), np.random.default_rng(0), 4, checkpoint=tmp_path / "run.npz")
    resumed = run_chain(sampler(), np.random.default_rng(9), 10, checkpoint=tmp_path / "run.npz")
    assert all(np.array_equal(a, b) for a, b in zip(whole.state, resumed.state))
    assert all(np.array_equal(whole.trace[name], resumed.trace[name]) for name in whole.trace)
    with pytest.raises(ValueError, match="eta"):
        run_chain(sampler(eta=0.3), np.random.default_rng(0), 12, checkpoint=tmp_path / "run.npz")


def test_log_joint():
    "(36) and the density of the weights, from their definitions."
    docs, V, eta, alpha, gamma = TINY[0]
    corpus = Corpus.from_docs(docs, n_words=V)
    chain = run_chain(
        DirectSampler(corpus, eta, alpha, gamma, None, None), np.random.default_rng(1), 6
    )
    state, K = chain.state, int(chain.state.K)
    n_jk = np.array(
        [np.bincount(state.z[a:b], minlength=K) for a, b in zip(corpus.offsets, corpus.offsets[1:])]
    )
    topics = sum(
        gammaln(alpha) - gammaln(alpha + n.sum()) + np.log(poch(alpha * state.beta[:K], n)).sum()
        for n in n_jk
    )
    weights = K * np.log(gamma) + (gamma - 1) * np.log(state.beta[K]) - np.log(state.beta[:K]).sum()
    assert np.isclose(log_topics(state, corpus.offsets), topics) and np.isclose(
        log_weights(state.beta, K, gamma), weights
    )
    words = log_words(corpus.x.tolist(), state.z.tolist(), V, eta)
    assert np.isclose(chain.trace["log_joint"][-1], topics + weights + words) and np.isclose(
        chain.trace["log_likelihood"][-1], words
    )


def test_find_pool():
    assert find_pool(np.array([3, 0, 2, 0, 0]), np.array([0.3, 0, 0.2, 0.5, 0])) == (3, 1)
    assert find_pool(np.array([3, 2, 0]), np.array([0.3, 0.2, 0.5])) == (2, -1)


def test_tiny_weights_survive():
    """gamma so small that its gamma draw rounds to 0: the pool is still there, and the sum is
    still 1."""
    beta = np.zeros(4)
    draw_beta(np.random.default_rng(0), beta, np.array([5, 1, 0, 0]), 2, 1e-6)
    assert 0 < beta[2] < 1e-200 and np.isclose(beta.sum(), 1) and beta[3] == 0


# ---------------------------------------------------------------- tables, states of other samplers


def test_seat_tables():
    """Numbers of tables are Antoniak's for every document and topic; a table's dish is the topic
    of its tokens."""
    corpus = Corpus.from_docs([[0] * 5, [], [0, 0, 0]], n_words=1)
    state = add_weights(
        np.random.default_rng(0),
        seat_by_topic(corpus, np.array([0, 0, 0, 0, 1, 0, 1, 1]), np.array([2.0, 1.0, 4.0]), 1.0),
    )
    state.beta[:3] = 0.5, 0.3, 0.2
    rng, counts = np.random.default_rng(1), np.zeros((2, 6))
    for _ in range(20_000):
        seat_tables(rng, state, state.beta, np.zeros(state.m_k.size), corpus.offsets)
        tables = state.k_jt[: state.n_tables[0]], state.k_jt[5 : 5 + state.n_tables[2]]
        counts[0, (tables[0] == 0).sum()] += 1 / 20_000
        counts[1, (tables[1] == 1).sum()] += 1 / 20_000
    check_counts(state, corpus)
    assert (
        abs(counts[0, :5] - np.exp(log_antoniak(4, 2.0 * 0.5))).max() < 0.01
        and abs(counts[1, :3] - np.exp(log_antoniak(2, 4.0 * 0.3))).max() < 0.01
    )


def test_states_of_other_samplers():
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    kinds = {
        FranchiseSampler: FranchiseState,
        DirectSampler: DirectState,
        HybridSampler: HybridState,
    }
    for first in kinds:
        old = run_chain(first(corpus, 0.3, eta_prior=(1, 1)), np.random.default_rng(0), 5).state
        kept = [array.copy() for array in old]
        for kind, name in kinds.items():
            state = kind(corpus, init=old, eta_prior=(1, 1)).init(np.random.default_rng(1))
            assert (
                isinstance(state, name)
                and (state.z == old.z).all()
                and (state.alpha, state.gamma, state.eta) == (old.alpha, old.gamma, old.eta)
            )
            (check_counts if name is FranchiseState else check_state)(state, corpus)
            run_chain(
                kind(corpus, init=old, eta_prior=(1, 1)), np.random.default_rng(1), 2
            )  # leaves the state it begins from alone
            assert all(np.array_equal(a, b) for a, b in zip(kept, old))
            held = kind(corpus, eta=0.7, alpha=3.0, alpha_prior=None, init=old).init(
                np.random.default_rng(1)
            )
            assert held.eta == 0.7 and held.alpha == 3.0 and held.gamma == old.gamma
            assert kind(corpus, init=old, alpha_per_document=True).init(
                np.random.default_rng(1)
            ).alpha.shape == (40,)
        other = Corpus.from_docs([[0, 1]], n_words=16)
        with pytest.raises(ValueError, match="this corpus: z must have shape"):
            DirectSampler(other, init=old).init(np.random.default_rng(0))


# ---------------------------------------------------------------- concentrations


def test_slice_concentration():
    n, T, a, b = np.array([5, 30, 8, 0]), 9, 1.5, 0.7
    prior = Gamma(a, b)
    u = np.linspace(-12, 6, 8000)
    density = np.exp(np.array([log_concentration(v, n, T, prior) for v in u]))
    log_p = (
        (a + T) * u - b * np.exp(u) + sum(gammaln(np.exp(u)) - gammaln(np.exp(u) + m) for m in n)
    )
    assert np.allclose(np.log(density), log_p)
    density /= density.sum()
    rng, conc, draws = np.random.default_rng(0), 1.0, np.empty(20_000)
    for i in range(draws.size):
        draws[i] = conc = slice_concentration(rng, conc, n, T, prior)
    grid = np.cumsum(density)
    assert abs(np.searchsorted(np.sort(draws), np.exp(u)) / draws.size - grid).max() < TOLERANCE
    wrong = np.cumsum(
        np.exp(log_p - u) / np.exp(log_p - u).sum()
    )  # without the Jacobian of the logarithm
    assert (
        abs(np.searchsorted(np.sort(draws), np.exp(u)) / draws.size - wrong).max() > 2 * TOLERANCE
    )


def test_slice_concentration_takes_any_prior():
    "A log-normal prior, against integration; the control forgets the Jacobian of the logarithm."
    n, T, prior = np.array([5, 30, 8, 0]), 9, LogNormal(0.3, 0.6)
    u = np.linspace(-6, 5, 4000)
    log_p = T * u + sum(gammaln(np.exp(u)) - gammaln(np.exp(u) + m) for m in n)
    log_p += np.array([log_density(prior, math.exp(v)) for v in u])
    rng, conc, draws = np.random.default_rng(0), 1.0, np.empty(20_000)
    for i in range(draws.size):
        draws[i] = conc = slice_concentration(rng, conc, n, T, prior)
    right, wrong = (np.cumsum(np.exp(log_p + k * u)) / np.exp(log_p + k * u).sum() for k in (1, 0))
    seen = np.searchsorted(np.sort(draws), np.exp(u)) / draws.size
    assert abs(seen - right).max() < TOLERANCE and abs(seen - wrong).max() > 2 * TOLERANCE
    assert slice_concentration(rng, 1.7, n, T, fixed_prior()) == 1.7


def test_resample_eta():
    "Against integration; the control forgets that a topic's concentration is V eta."
    n_vk = np.array(
        [[9, 0, 1, 0], [0, 4, 0, 0], [1, 0, 0, 0], [0, 1, 3, 0], [0, 0, 0, 0]], np.int32
    )
    n_k, (a, b) = n_vk.sum(0), (2.0, 3.0)
    eta = np.exp(np.linspace(-12, 5, 5000))

    def mean(V):
        log_p = (
            a * np.log(eta)
            - b * eta
            + sum(gammaln(V * eta) - gammaln(V * eta + n) for n in n_k)
            + sum(gammaln(eta + n) - gammaln(eta) for n in n_vk.ravel())
        )
        p = np.exp(log_p - log_p.max())
        return (p * eta).sum() / p.sum()

    rng, draws = np.random.default_rng(0), [0.5]
    for _ in range(20_000):
        draws.append(resample_eta(rng, draws[-1], n_vk, n_k, NO_SEEDS, Gamma(a, b)))
    assert abs(np.mean(draws) / mean(5) - 1) < 0.03 < 0.1 < abs(np.mean(draws) / mean(1) - 1)
    assert resample_eta(rng, 1e-6, n_vk, n_k, NO_SEEDS, Gamma(1e-3, 1e12)) == 1e-6


def test_bounds_of_eta():
    "Counts keep all digits beside V eta, which does not vanish."
    assert bound_eta(30.0, 60) == 0.5 and bound_eta(1e-9, 60) == bound_eta(0.0, 60) == 1e-6
    for V in (1, 60, 10**6):
        total = V * bound_eta(1e300, V)
        assert total == pytest.approx(2.0**40) == V * bound_eta(1.01 * total, V)
        assert [round(n + total - total, 3) for n in (1, 2**31 - 1)] == [1, 2**31 - 1]


def test_resample_alpha():
    "One for all documents, or one for each, against quadrature."
    rng, prior, n = np.random.default_rng(0), Gamma(2.0, 1.0), 6000
    n_tables, lengths = np.array([4, 0, 2]), np.array([6, 0, 9])
    one, each, mean, means = np.array(1.0), np.ones(3), 0.0, np.zeros(3)
    for _ in range(n):
        resample_alpha(rng, one, n_tables, lengths, prior)
        resample_alpha(rng, each, n_tables, lengths, prior)
        mean, means = mean + one / n, means + each / n

    def exact(documents):
        at = np.linspace(1e-4, 40, 40_000)
        p = at * np.exp(-at)
        for j in documents:
            p *= at ** n_tables[j] / poch(at, lengths[j])
        return (p * at).sum() / p.sum()

    assert abs(mean / exact([0, 1, 2]) - 1) < 0.05
    assert abs(means / [exact([j]) for j in range(3)] - 1).max() < 0.05
    assert abs(mean / exact([0]) - 1) > 0.1  # the control
    before = each.copy()
    resample_alpha(rng, each, n_tables, lengths, fixed_prior())
    assert np.array_equal(each, before)


# ---------------------------------------------------------------- LDA


def exact_lda(docs, V, eta, alpha, gamma, K, learned):
    """Co-clustering and E[tables], by all ways to give tokens topics (and, for learned weights,
    all numbers of tables)."""
    words, lengths = [v for doc in docs for v in doc], [len(doc) for doc in docs]
    document, stirling = (
        np.repeat(np.arange(len(docs)), lengths),
        np.exp(log_stirling(max(lengths))),
    )
    same, total, tables = np.zeros((len(words),) * 2), 0.0, 0.0
    for z in product(range(K), repeat=len(words)):
        n_jk = np.zeros((len(docs), K), int)
        np.add.at(n_jk, (document, z), 1)
        for m in product(*(range(min(n, 1), n + 1) for n in n_jk.ravel())):
            m = np.reshape(m, n_jk.shape)
            weights = (
                np.prod(poch(gamma / K, m.sum(0))) / poch(gamma, m.sum())
                if learned
                else K ** -float(m.sum())
            )
            p = (
                exp(log_words(words, z, V, eta))
                * np.prod(stirling[n_jk, m])
                * alpha ** m.sum()
                * weights
            )
            same, tables, total = same + p * np.equal.outer(z, z), tables + p * m.sum(), total + p
    return same / total, tables / total


def test_gamma_of_finitely_many_topics():
    "Given the tables, against quadrature, with the weights integrated out; a fixed one stays."
    rng, m_k, m, K = np.random.default_rng(0), np.array([5, 2, 0, 9]), np.array([50, 60]), 3
    own = m[:1]  # of the workspace; what comes after it stays
    beta, gamma, mean, n = np.zeros(4), 1.0, 0.0, 6000
    assert resample_finite_weights(rng, beta, m_k, K, 0.7, fixed_prior(), own) == 0.7
    assert np.isclose(beta[:K].sum(), 1) and beta[K] == 0
    for _ in range(n):
        gamma = resample_finite_weights(rng, beta, m_k, K, gamma, Gamma(2.0, 1.0), own)
        mean += gamma / n
    assert m.tolist() == [7, 60]

    def exact(K):
        at = np.linspace(1e-4, 30, 30_000)
        p = at * np.exp(-at) / poch(at, 7) * poch(at / K, 5) * poch(at / K, 2)
        return (p * at).sum() / p.sum()

    assert abs(mean / exact(K) - 1) < 0.05
    assert abs(mean / exact(30) - 1) > 0.1  # the control


OTHER = ([[0, 1], [], [1, 1, 2]], 3, 0.3, 2.0, 0.8)


class LDAByWord(LDASampler):
    "Tokens in the order of words from the first topic on."

    _many = 0


@pytest.mark.parametrize(
    "K, case, weights, kind",
    [
        (2, TINY[1], "uniform", LDASampler),
        (3, OTHER, "learned", LDASampler),
        (3, OTHER, "learned", LDAByWord),
        pytest.param(2, TINY[1], "uniform", LDAByWord, marks=pytest.mark.slow),
        pytest.param(2, TINY[1], "learned", LDASampler, marks=pytest.mark.slow),
        pytest.param(3, OTHER, "uniform", LDASampler, marks=pytest.mark.slow),
    ],
)
def test_exact_lda(K, case, weights, kind):
    docs, V, eta, alpha, gamma = case
    same, tables = exact_lda(*case, K, weights == "learned")
    sampler = kind(
        Corpus.from_docs(docs, n_words=V), K, eta, alpha, gamma, None, None, weights=weights
    )
    rng = np.random.default_rng(0)
    state, found, mean = sampler.init(rng), np.zeros_like(same), 0.0
    for _ in range(20_000):
        state = sampler._sweep(rng, state)
        found += np.equal.outer(state.z, state.z) / 20_000
        mean += state.n_tables.sum() / 20_000
    assert abs(found - same).max() < TOLERANCE and abs(mean - tables) < 2 * TOLERANCE
    other = exact_lda(*case, K, weights != "learned")
    assert (
        abs(found - other[0]).max() > 2 * TOLERANCE or abs(mean - other[1]) > 4 * TOLERANCE
    )  # the two are told apart


@pytest.mark.parametrize("right", [True, False])
def test_geweke_lda(right):
    "All hyperparameters and the weights free; the control claims another prior of gamma."
    lengths, V, K = [4, 3, 0, 5], 3, 3
    offsets = np.append(0, np.cumsum(lengths))
    priors = dict(alpha_prior=(2.0, 2.0), gamma_prior=(3.0, 1.0), eta_prior=(3.0, 5.0))
    claimed = priors | ({} if right else dict(gamma_prior=(3.0, 6.0)))

    def prior_draw(rng):
        alpha, gamma, eta = (rng.gamma(a) / b for a, b in priors.values())
        beta = rng.dirichlet(np.full(K, gamma / K))
        z = np.concatenate(
            [
                rng.choice(K, p=rng.dirichlet(np.maximum(alpha * beta, 1e-12)), size=n)
                for n in lengths
            ]
        )
        state = empty_franchise(
            SimpleNamespace(n_tokens=12, n_docs=4, n_words=V), alpha, gamma, eta, capacity=4
        )
        state.z[:], state.K[()] = z, K
        arrays = state._asdict() | dict(beta=np.append(beta, 0.0))
        return DirectState(**{name: arrays[name] for name in DirectState._fields})

    def statistics(state, x):
        return {
            "alpha": float(state.alpha),
            "gamma": float(state.gamma),
            "eta": float(state.eta),
            "top": float(state.beta.max()),
            "largest": float(state.n_k.max()),
            "same": float((np.bincount(x) ** 2).sum()),
            "beta 0": float(state.beta[0]),
            "log gamma": float(np.log(state.gamma)),
        }

    z = joint_distribution_test(
        np.random.default_rng(3),
        prior_draw,
        lambda rng, s: draw_words(rng, s, lengths, V, float(s.eta)),
        lambda rng, s, x: LDASampler(
            Corpus(x, offsets, n_words=V), K, weights="learned", **claimed
        )._sweep(rng, s),
        statistics,
        n_draws=1200 if right else 600,
    )
    worst = max(map(abs, z.values()))
    assert worst < 4 if right else worst > 6, z


def test_lda_snapshot():
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)
    for weights in ("uniform", "learned"):
        sampler, rng = LDASampler(corpus, 6, 0.2, weights=weights), np.random.default_rng(0)
        state, info = sampler.sweep(rng, sampler.init(rng))
        assert (
            info["n_topics"] == 6 and state.n_k.sum() == corpus.n_tokens and not state.n_k[6:].any()
        )
        counts = sampler.snapshot(state)
        expected = (
            np.full(6, 1 / 6)
            if weights == "uniform"
            else (state.m_k[:6] + state.gamma / 6) / (state.m_k.sum() + state.gamma)
        )
        assert np.allclose(counts.beta, [*expected, 0])
        phi, weight = predictive_topics(counts)
        assert (
            phi.shape == (16, 8)
            and np.allclose(weight, state.alpha * np.array([*expected, 0, 0]))
            and np.isclose(weight.sum(), state.alpha)
        )


@pytest.mark.parametrize(
    "options, says",
    [
        (dict(n_topics=0), "n_topics.*0"),
        (dict(n_topics=2.5), "n_topics.*2.5"),
        (dict(n_topics=True), "n_topics"),
        (dict(weights="equal"), "weights.*equal"),
        (dict(init=np.array([0, 1, 2])), "init.*0..1"),
        (dict(init=np.array([0])), "init"),
        (dict(eta=0), "eta"),
        (dict(eta_prior=(1,)), "eta_prior"),
    ],
)
def test_bad_lda(options, says):
    with pytest.raises(ValueError, match=says):
        LDASampler(Corpus.from_docs([[0, 1], [1]]), **{"n_topics": 2, **options})


# ---------------------------------------------------------------- topics


@BOTH
def test_bars(kind):
    "All ten bars, from 40 random topics."
    corpus, truth = make_bars(n_docs=300, doc_len=60, grid=5, concentration=1.0, random_state=3)
    state = run_chain(kind(corpus, init=40), np.random.default_rng(0), 150).state
    learned = (state.n_vk[:, state.n_k >= 0.02 * corpus.n_tokens] + 0.5).T
    cosine = (truth.phi / np.linalg.norm(truth.phi, axis=1, keepdims=True)) @ (
        learned / np.linalg.norm(learned, axis=1, keepdims=True)
    ).T
    assert cosine.max(axis=1).min() > 0.95
