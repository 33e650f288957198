"""Known topics: the sampler against the prior, with moves and controls, and what it keeps."""

import numpy as np
import pytest
from naive import Posterior
from topics.test_blocked import collect
from topics.test_franchise import TINY, TOLERANCE

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.moves.schedule import TopicMoves
from hdp_nb.topics.blocked import BlockedSampler, Told, draw_weights
from hdp_nb.topics.known import KnownSampler

LENGTHS, V = [5, 4, 0, 6], 3
OFFSETS = np.append(0, np.cumsum(LENGTHS))
TOLD = Told(np.array([[6.5, 3.2], [0.4, 0.1], [0.1, 0.2]]), np.array(0.8))


def draw_prior(rng, told):
    "Topics and tables of all tokens, and the concentrations, by (KN1) and (KN2) and sticks."
    alpha, gamma, eta = rng.gamma(3.0, 0.5), rng.gamma(3.0, 0.3), max(rng.gamma(3.0) / 3, 1e-3)
    F, b, L = told.c.shape[1], float(told.b), 300
    beta, rest = np.zeros(F + L), rng.dirichlet([*[b] * F, gamma])
    beta[:F], rest = rest[:F], rest[F]
    for k in range(F, F + L):
        stick = rng.beta(1, gamma) if k < F + L - 1 else 1.0
        beta[k], rest = stick * rest, (1 - stick) * rest
    z, m_k, n_tables = [], np.zeros(F + L, int), np.zeros(len(LENGTHS), int)
    for j, n in enumerate(LENGTHS):
        pi = rng.standard_gamma(np.maximum(alpha * beta, 1e-12)) + 1e-300
        own = rng.choice(len(beta), n, p=pi / pi.sum())
        for k, n_jk in zip(*np.unique(own, return_counts=True)):
            a = alpha * beta[k]
            m = 1 + sum(rng.random() * (a + i) < a for i in range(1, n_jk))
            m_k[k] += m
            n_tables[j] += m
        z += own.tolist()
    order = [*range(F), *dict.fromkeys(k for k in z if k >= F)]
    number = {k: i for i, k in enumerate(order)}
    return np.array([number[k] for k in z]), m_k[order], n_tables, alpha, gamma, eta


def draw_words(rng, z, told, eta):
    c = np.pad(told.c, [(0, 0), (0, int(z.max(initial=0)) + 1)])
    phi = [rng.dirichlet(eta + c[:, k] + 1e-9) for k in range(c.shape[1])]
    return np.array([rng.choice(V, p=phi[k]) for k in z])


def make(x, told, eta_prior, **more):
    priors = dict(alpha_prior=(3.0, 2.0), gamma_prior=(3.0, 1 / 0.3), eta_prior=eta_prior)
    return KnownSampler(Corpus(x, OFFSETS, n_words=V), told=told, **priors, **more)


@pytest.mark.slow
@pytest.mark.parametrize("with_moves", [False, True])
@pytest.mark.parametrize("wrong", [None, "eta", "weight", "told"])
def test_geweke(with_moves, wrong):
    "All concentrations are free; controls believe in another prior, weight, or in other topics."
    claimed = (3.0, 1.2) if wrong == "eta" else (3.0, 3.0)
    told = TOLD
    if wrong == "weight":
        told = TOLD._replace(b=np.array(4.0))
    if wrong == "told":
        told = TOLD._replace(c=TOLD.c[::-1].copy())

    def sweep(rng, state, x):
        z, m_k, n_tables, alpha, gamma, eta = state
        seated = make(x, told, claimed, init=z).init(rng)
        values = dict(alpha=np.array(alpha), gamma=np.array(gamma), eta=np.array(eta))
        seated.m_k[: len(m_k)], seated.n_tables[:] = m_k, n_tables
        seated = seated._replace(**values)
        draw_weights(rng, seated, told)
        sampler = make(x, told, claimed, init=seated)
        if with_moves:
            sampler = TopicMoves(sampler, n_moves=3, tune=0, least=1)
        first = sampler.init(rng)
        for _ in range(2):
            first, _ = sampler.sweep(rng, first)
        found = first.z  # the tokens of a cell are alike but for their places
        cell = np.repeat(np.arange(4), LENGTHS) * V + x
        z = np.empty(len(x), int)
        z[np.argsort(cell, kind="stable")] = found[np.lexsort((rng.random(len(x)), cell))]
        m_k = first.m_k[: int(first.K)].copy()
        of = float(first.alpha), float(first.gamma), float(first.eta)
        return z, m_k, first.n_tables.copy(), *of

    def statistics(state, x):
        z, m_k, n_tables, alpha, gamma, eta = state
        in_known = [float((z == f).sum()) for f in range(2)]
        return {
            "new": float(len({k for k in z if k >= 2})),
            "first": in_known[0],
            "second": in_known[1],
            "word 0 in first": float(((z == 0) & (x == 0)).sum()),
            "tables": float(n_tables.sum()),
            "tables of the first": float(m_k[0]),
            "alpha": alpha,
            "gamma": gamma,
            "eta": eta,
            "same": float((np.bincount(x) ** 2).sum()),
        }

    z = joint_distribution_test(
        np.random.default_rng(5),
        lambda rng: draw_prior(rng, TOLD),
        lambda rng, s: draw_words(rng, s[0], TOLD, s[-1]),
        sweep,
        statistics,
        n_draws=300,
        n_rounds=3,
    )
    worst = max(map(abs, z.values()))
    assert worst < 4 if wrong is None else worst > 4, z


def test_weight_of_nothing_is_nothing_known():
    "Topics that hardly have a weight leave the posterior of the others as it is."
    docs, n_words, eta, alpha, gamma = TINY[3]
    corpus = Corpus.from_docs(docs, n_words=n_words)
    told = Told(np.full((n_words, 1), 0.5), np.array(1e-9))
    sampler = KnownSampler(corpus, eta, alpha, gamma, None, None, told=told)
    exact = Posterior(docs, n_words, eta, alpha, gamma)
    K, T, same, _ = collect(sampler, 20_000)
    assert abs(K[1 : 1 + len(exact.n_dishes)] - exact.n_dishes[: len(K) - 1]).max() < 0.05
    assert abs(T - exact.n_tables).max() < 2 * TOLERANCE
    assert abs(same - exact.same).max() < 2 * TOLERANCE


def planted(rng, n=40, length=60):
    phi = rng.dirichlet(np.full(12, 0.3), 4)
    pi = rng.dirichlet(np.full(4, 0.4), n)
    return Corpus.from_matrix(rng.multinomial(length, pi @ phi)), phi


def test_contract():
    "Counts equal a recount, known topics stay, the seed and a resumed chain give the same."
    corpus, phi = planted(np.random.default_rng(0))
    told = Told(50 * np.vstack([phi[:2], np.eye(12)[0]]).T, np.array(1.0))
    moves = TopicMoves(KnownSampler(corpus, told=told, eta_prior=(1, 1), init=7), 3, tune=4)
    chains = [run_chain(moves, np.random.default_rng(1), 12) for _ in range(2)]
    for chain in chains:
        state = chain.state.base
        moves.check(chain.state)
        assert int(state.K) >= 3 and (state.n_k[3 : int(state.K)] > 0).all()
        assert state.n_vk.sum() == corpus.n_tokens
    assert np.array_equal(chains[0].state.z, chains[1].state.z)
    again = KnownSampler(corpus, told=told, eta_prior=(1, 1), init=chains[0].state.base)
    assert np.array_equal(again.init(np.random.default_rng(2)).z, chains[0].state.z)
    with pytest.raises(ValueError, match="told must have pseudo-tokens"):
        KnownSampler(corpus, told=Told(np.zeros((12, 1)), np.array(1.0)))


def test_both_starts_find_them_by_name():
    corpus, phi = planted(np.random.default_rng(3), 60, 300)
    told = Told(1000 * phi[:3].T, np.array(1.0))
    sampler = TopicMoves(KnownSampler(corpus, told=told, eta_prior=(1, 1)), None, tune=40)
    for k in (1, 20):
        state = run_chain(sampler.start(k), np.random.default_rng(1), 80).state
        n = state.n_vk[:, : int(state.K)].astype(float)
        unit = n / np.maximum(np.linalg.norm(n, axis=0), 1e-300)
        cosine = (phi / np.linalg.norm(phi, axis=1, keepdims=True)) @ unit
        assert (cosine[np.arange(3), np.arange(3)] > 0.97).all(), (k, cosine)


def test_nothing_told_is_the_blocked_sampler():
    corpus, _ = planted(np.random.default_rng(0), 10)
    sampler = BlockedSampler(corpus, init=3, eta_prior=(1, 1))
    assert sampler.told.c.shape == (12, 0)
    assert "told" not in sampler.params()
