"""The blocked sampler, coarse counts, and corpora that hold counts: against exact posteriors, the
prior, and wrong samplers."""

import numpy as np
import pytest
from naive import Posterior
from scipy.sparse import csr_array
from scipy.stats import binom, chi2, multinomial
from topics.test_franchise import TINY, TOLERANCE, draw_words, seat, seating_state

from hdp_nb.corpora.corpus import Corpus, coarsen
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.moves.schedule import Moves
from hdp_nb.topics.blocked import (
    BlockedSampler,
    BlockedState,
    documents_of,
    draw_binomial,
    share_tokens,
)
from hdp_nb.topics.direct import DirectSampler, HybridSampler
from hdp_nb.topics.franchise import FranchiseSampler
from hdp_nb.topics.parallel import ParallelSampler


def collect(sampler, n):
    "P(K), P(tables), co-clustering, and the means of alpha and gamma over n sweeps."
    rng, N = np.random.default_rng(0), sampler.corpus.n_tokens
    state, c = sampler.init(rng), sampler.corpus
    p_K, p_T, same, means = np.zeros(N + 1), np.zeros(N + 1), np.zeros((N, N)), np.zeros(2)
    cell = np.repeat(np.arange(c.n_docs), c.doc_lengths) * c.n_words + c.x
    order = np.argsort(cell, kind="stable")
    for _ in range(n):
        state = sampler._sweep(rng, state)
        z = np.empty(N, int)
        z[order] = state.z[np.lexsort((rng.random(N), cell))]  # alike but for their places
        p_K[int(state.K)] += 1 / n
        p_T[state.n_tables.sum()] += 1 / n
        same += np.equal.outer(z, z) / n
        means += [state.alpha / n, state.gamma / n]
    return p_K, p_T, same, means


@pytest.mark.parametrize("i", [pytest.param(0, marks=pytest.mark.slow), 3])
def test_exact_posterior(i):
    docs, V, eta, alpha, gamma = TINY[i]
    exact = Posterior(docs, V, eta, alpha, gamma)
    sampler = BlockedSampler(Corpus.from_docs(docs, n_words=V), eta, alpha, gamma, None, None)
    K, T, same, _ = collect(sampler, 25_000)
    assert abs(K - exact.n_dishes).max() < 1.5 * TOLERANCE
    assert abs(T - exact.n_tables).max() < 1.5 * TOLERANCE
    assert abs(same - exact.same).max() < 1.5 * TOLERANCE
    wrong = Posterior(docs, V, 2 * eta, alpha, gamma)  # the control
    assert max(abs(K - wrong.n_dishes).max(), abs(same - wrong.same).max()) > 3 * TOLERANCE


def test_exact_with_concentrations_resampled():
    docs, V, eta = TINY[0][:3]
    mean_alpha, mean_gamma, p_K = Posterior(docs, V, eta).concentrations((2, 0.5), (1, 1))
    sampler = BlockedSampler(Corpus.from_docs(docs, n_words=V), eta, 1, 1, (2, 0.5), (1, 1))
    K, _, _, (alpha, gamma) = collect(sampler, 40_000)
    assert abs(K - p_K).max() < 2 * TOLERANCE
    assert abs(alpha / mean_alpha - 1) < 0.06 and abs(gamma / mean_gamma - 1) < 0.08


@pytest.mark.slow  # alpha of every document compiles all of it once more
@pytest.mark.parametrize("right", [True, False])
def test_geweke(right):
    "alpha of every document and eta are free; the control believes in another prior of eta."
    lengths, V = [4, 3, 0, 5], 3
    offsets = np.append(0, np.cumsum(lengths))
    claimed = (3.0, 3.0) if right else (3.0, 1.5)

    def prior_draw(rng):
        alpha, gamma, eta = rng.gamma(2.0, 0.5, 4), rng.gamma(1.0), max(rng.gamma(3.0) / 3, 1e-6)
        state = seating_state(
            *seat(rng, lengths, alpha, gamma), offsets[-1] * [0], lengths, V, alpha, gamma
        )
        return state._replace(eta=np.array(eta))

    def sweep(rng, state, x):
        sampler = BlockedSampler(
            Corpus(x, offsets, n_words=V),
            alpha_prior=(2.0, 2.0),
            gamma_prior=(1.0, 1.0),
            eta_prior=claimed,
            init=state,
            alpha_per_document=True,
        )
        return sampler._sweep(rng, sampler.init(rng)).seated(rng, offsets)

    def statistics(state, x):
        return {
            "K": float(state.K),
            "alpha": float(state.alpha.mean()),
            "gamma": float(state.gamma),
            "eta": float(state.eta),
            "tables": float(state.n_tables.sum()),
            "same": float((np.bincount(x) ** 2).sum()),
        }

    z = joint_distribution_test(
        np.random.default_rng(3),
        prior_draw,
        lambda rng, s: draw_words(rng, s, lengths, V, float(s.eta)),
        sweep,
        statistics,
        n_draws=400,
        n_rounds=3,
    )
    worst = max(map(abs, z.values()))
    assert worst < 4 if right else worst > 4, z


def test_states_of_other_samplers():
    corpus = Corpus.from_docs([[3, 0, 3, 1], [], [2, 1, 0, 0, 0]] * 8, n_words=5)
    for kind in (FranchiseSampler, DirectSampler, HybridSampler, ParallelSampler):
        old = kind(corpus, init=4).init(np.random.default_rng(0))
        sampler = BlockedSampler(corpus, init=old)
        state = sampler.init(np.random.default_rng(1))
        sampler.check(state)
        n_jk = documents_of(state.topic, state.run, corpus.offsets, int(state.K)).toarray()
        document = np.repeat(np.arange(24), corpus.doc_lengths)
        counted = np.zeros_like(n_jk)
        np.add.at(counted, (document, old.z), 1)
        assert (n_jk == counted).all() and state.n_vk.sum() == corpus.n_tokens
        again = kind(corpus, init=state)
        begun = again.init(np.random.default_rng(2))
        again.check(begun)
        assert (begun.z == state.z).all()


def test_large_counts_stay_counts():
    "1e8 tokens: neither the corpus nor a chain with moves writes them out."
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(30, 0.3), 3)
    X = rng.multinomial(2_000_000, rng.dirichlet(np.ones(3), 50) @ phi)
    corpus = Corpus.from_matrix(csr_array(X))
    model = HDP(sampler="blocked", init=8, n_iter=40, n_chains=1, random_state=0).fit(corpus)
    assert "x" not in vars(corpus) and corpus.n_tokens == 10**8
    assert (corpus.word_counts() == X.sum(axis=0)).all()
    assert (corpus[[4, 2]].to_matrix().toarray() == X[[4, 2]]).all()
    assert model.samples_[-1].n_jk.sum() == 10**8 and model.doc_topic_.shape[0] == 50
    assert "x" not in vars(corpus)
    state = BlockedSampler(corpus, init=3).init(rng)
    assert isinstance(state, BlockedState) and len(state.run) <= 3 * 50 * 30


def test_tokens_of_counts_are_there_for_those_who_ask():
    X = np.array([[2, 0, 3], [0, 0, 0], [1, 1, 0]])
    corpus = Corpus.from_matrix(csr_array(X), groups={"side": ["a", "b", "a"]})
    listed = Corpus(
        [0, 0, 2, 2, 2, 0, 1], [0, 5, 5, 7], n_words=3, groups={"side": ["a", "b", "a"]}
    )
    assert corpus.is_counts and not listed.is_counts and corpus == listed
    assert (corpus.to_matrix() != listed.to_matrix()).nnz == 0
    same = Corpus.from_matrix(csr_array(X))
    X[0, 0] = 9  # a corpus has counts of its own
    assert same.x.tolist() == [0, 0, 2, 2, 2, 0, 1]
    twice = csr_array((np.array([1, 1, 2]), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    assert Corpus.from_matrix(twice).to_matrix().toarray().tolist() == [[2, 2]]
    assert twice.data.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    "options, says",
    [
        (dict(init="sequential"), "init.*blocked.*sequential"),
        (dict(moves=Moves(split_merge=2)), "split_merge.*blocked.*2"),
        (dict(gamma=1e8), "gamma must be at most.*'blocked'"),
        (dict(power=0.0), "power"),
        (dict(power=1.5), "power"),
        (dict(power=1e-9), "power must leave at least 1 token"),
    ],
)
def test_bad_arguments(options, says):
    corpus = Corpus.from_docs([[0, 1], [1, 1]])
    with pytest.raises(ValueError, match=says):
        HDP(sampler="blocked", n_iter=3, **{"moves": 0} | options).fit(corpus)


def test_binomial_of_no_and_of_all():
    rng = np.random.default_rng(0)
    assert [draw_binomial(rng, 10**6, p) for p in (0.0, 1.0)] == [0, 10**6]
    assert draw_binomial(rng, 0, 0.3) == 0


class Tries:
    "Numbers for one try of a rejection sampler; a second ends it."

    def __init__(self, *numbers):
        self.numbers = iter(numbers)

    def random(self):
        return next(self.numbers)


@pytest.mark.parametrize("n, p", [(21, 0.5), (34, 0.3), (1000, 0.015), (400, 0.97)])
def test_binomial_tries_are_accepted_as_often_as_they_should_be(n, p):
    """A try is a point (u, v) of a square. At every u the points below some v are accepted, never
    all of them (or the hat would not cover the probabilities); the area of those that lead to k is
    in proportion to its probability."""
    plain, size, area = getattr(draw_binomial, "py_func", draw_binomial), 2000, np.zeros(n + 1)

    def accepted(u, v):
        try:
            return plain(Tries(u, v), n, p)
        except StopIteration:
            return None

    for u in (np.arange(size) + 0.5) / size:
        low, high, k = 1e-9, 1.0 - 1e-9, accepted(u, 1e-9)
        assert accepted(u, high) is None
        if k is None:
            continue
        while high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (low, middle) if accepted(u, middle) is None else (middle, high)
        area[k] += low
    found = area / area.sum()
    assert abs(found - binom.pmf(np.arange(n + 1), n, p)).max() < 0.001
    wrong = binom.pmf(np.arange(n + 1), n, p + 0.01 * (1 - 2 * (p > 0.5)))  # the control
    assert abs(found - wrong).max() > 0.002


@pytest.mark.parametrize("n", [3, 12, 60])
def test_tokens_are_shared_multinomially(n):
    "Topics that expect more than four tokens, and others, and one of no weight."
    p, draws = np.array([0.2, 0.5, 0.0, 0.3]), 6000
    rng, count, sums, seen = np.random.default_rng(0), np.zeros(4, int), np.empty(4), {}
    for _ in range(draws):
        count[:] = 0
        share_tokens(rng, n, 1.7 * p, 4, sums, count)
        assert count.sum() == n and count[2] == 0
        seen[tuple(count)] = seen.get(tuple(count), 0) + 1

    def distance(p):
        "Of the counts that are expected ten times: Pearson's, by its 1e-6 quantile."
        every = [(a, b, 0, n - a - b) for a in range(n + 1) for b in range(n + 1 - a)]
        expected = draws * multinomial.pmf(every, n, p)
        often = expected > 10
        found = np.array([seen.get(counts, 0) for counts in every])
        parts = (found - expected)[often] ** 2 / expected[often]
        return parts.sum() / chi2(often.sum()).ppf(1 - 1e-6)

    assert distance(p) < 1
    assert distance([0.2, 0.45, 0.0, 0.35]) > 1  # the control


# ---------------------------------------------------------------- coarse counts


def test_coarse_counts_are_a_share_of_the_counts_on_average():
    rng = np.random.default_rng(0)
    X = rng.poisson(7.0, (40, 12))
    corpus = Corpus.from_matrix(X, [f"w{v}" for v in range(12)], {"side": ["a", "b"] * 20})
    draws = [coarsen(corpus, 0.23, rng) for _ in range(400)]
    Y = np.array([coarse.to_matrix().toarray() for coarse in draws])
    assert abs(Y - 0.23 * X).max() < 1 and abs(Y.mean(axis=0) - 0.23 * X).max() < 0.15
    assert abs(Y.sum(axis=2) - 0.23 * X.sum(axis=1)).max() < 1
    assert (
        draws[0].vocab == corpus.vocab and (draws[0].groups["side"] == corpus.groups["side"]).all()
    )
    assert coarsen(corpus, 1.0) is corpus and coarsen(corpus, 0.5) == coarsen(corpus, 0.5)
    whole = Corpus.from_matrix(4 * X)
    assert (coarsen(whole, 0.25).to_matrix().toarray() == X).all()  # exact where it can be


@pytest.mark.parametrize(
    "model", [HDP(sampler="direct"), HDP(sampler="blocked"), TreeHDP(["side"])]
)
def test_a_power_is_the_posterior_of_fewer_tokens(model):
    "Of whole counts exactly: the same chain."
    X = np.random.default_rng(1).poisson(2.0, (20, 6))
    groups = {"side": ["a", "b"] * 10}
    model.set_params(n_iter=12, init=3, moves=0, n_chains=1, random_state=0)
    one = model.set_params(power=1.0).fit(Corpus.from_matrix(X, groups=groups)).trace_
    other = model.set_params(power=0.2).fit(Corpus.from_matrix(5 * X, groups=groups)).trace_
    assert all(np.array_equal(one[name], other[name]) for name in one)
    control = model.set_params(power=0.4).fit(Corpus.from_matrix(5 * X, groups=groups)).trace_
    assert not np.array_equal(one["log_joint"], control["log_joint"])


def test_chains_of_a_corpus_out_of_order():
    "Tokens in any order have the chain of their counts, and z in their own order."
    docs = [[2, 0, 2, 1], [1, 0, 0]]
    chains = [
        run_chain(BlockedSampler(Corpus.from_docs(d, n_words=3)), np.random.default_rng(0), 8)
        for d in (docs, [sorted(doc) for doc in docs])
    ]
    assert np.array_equal(chains[0].trace["log_joint"], chains[1].trace["log_joint"])
    order = np.array([1, 3, 0, 2, 5, 6, 4])
    assert (chains[0].state.z[order] == chains[1].state.z).all()
