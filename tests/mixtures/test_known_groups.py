"""Known clusters in groups: the sampler against its posterior, moves, concentrations, contract."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import joint_distribution_test, partitions
from hdp_nb.mixtures.augmented import AugmentedSampler
from hdp_nb.mixtures.hdp import HDP_PRIOR
from hdp_nb.mixtures.known import FIXED, tell_components
from hdp_nb.mixtures.known_groups import KNOWN_GROUPS, KnownGroupsSampler
from hdp_nb.mixtures.likelihood import poisson
from hdp_nb.mixtures.product import as_likelihood
from hdp_nb.mixtures.split_merge import MixtureMoves
from hdp_nb.utils.special import log_stirling

RARE = {"rare": {"rate": 1.0}, "absent": {"rate": 40.0}}
X, GROUP = np.array([0, 1, 7, 38]), np.array([1, 0, 0, 1])


class WrongMoves(KnownGroupsSampler):
    "Splits a known one as if it were new."

    process = KNOWN_GROUPS._replace(log_split=HDP_PRIOR.log_split)


def sampler(x=X, group=GROUP, b=0.7, prior=None, kind=KnownGroupsSampler):
    own = poisson.make_prior(shape=2.0, rate=1.0)
    told = tell_components(poisson, own, RARE, np.array([3, np.inf]), b)
    return kind(poisson, x, own, group, 1.2, 1.5, prior, prior, told=told)


def log_rows(s, k, told=((1.0, 3), (40.0, FIXED), (0.0, 0))):
    rate_told, n_told = told[min(k, 2)]
    shape, rate = 2.0 + rate_told * n_told, 1.0 + n_told
    total = gammaln(shape + s.sum()) - gammaln(shape)
    return total - shape * np.log1p(len(s) / rate) - s.sum() * math.log(rate + len(s))


def log_joint(z, x=X, b=0.7, F=2, alpha=1.2, gamma=1.5):
    "log p(z, x) from the restaurants, but for a constant."
    n = np.zeros((2, max(int(z.max()) + 1, F)), int)
    np.add.at(n, (GROUP, z), 1)
    ways, terms = log_stirling(n.max()), []
    for m in itertools.product(*(range(min(c, 1), c + 1) for c in n.ravel())):
        m = np.reshape(m, n.shape)
        m_k, T = m.sum(axis=0), m.sum()
        one = ways[n, m].sum() + T * math.log(alpha) - gammaln(gamma + F * b + T)
        one += (gammaln(b + m_k[:F]) - gammaln(b)).sum()
        terms.append(one + (math.log(gamma) + gammaln(m_k[F:])).sum())
    return logsumexp(terms) + sum(log_rows(x[z == k], k) for k in np.unique(z))


def in_order(z):
    first = {0: 0, 1: 1}
    return tuple(first.setdefault(k, len(first)) for k in z)


def posterior(x, b):
    named = set()
    for z in partitions(4):
        for names in np.ndindex(*[3] * (max(z) + 1)):
            taken = [f for f in names if f < 2]
            if len({*taken}) == len(taken):
                new = iter(range(2, 9))
                number = [f if f < 2 else next(new) for f in names]
                named.add(in_order([number[k] for k in z]))
    log_p = {z: log_joint(np.array(z), x, b) for z in named}
    total = logsumexp([*log_p.values()])
    return {z: math.exp(p - total) for z, p in log_p.items()}


def apart(moves, n=8000, x=X, b=0.7):
    "Total variation between draws and the exact posterior."
    rng, seen, exact = np.random.default_rng(0), {}, posterior(x, b)
    state = moves.init(rng)
    for _ in range(n):
        state, _ = moves.sweep(rng, state)
        z = in_order(state.z.tolist())
        seen[z] = seen.get(z, 0) + 1 / n
    assert {*seen} <= {*exact}
    return sum(abs(seen.get(z, 0) - p) for z, p in exact.items()) / 2


def test_posterior_with_and_without_moves():
    "Four counts in two groups, every labelling; a sampler with another weight is not there."
    assert apart(sampler()) < 0.03
    assert apart(MixtureMoves(sampler(), 2, tune=0)) < 0.03
    assert apart(sampler(b=3.7), 2000) > 0.3


def test_moves_share_the_weight_of_known_ones():
    "A known component keeps the share q of its weight with a factor q^b: moves without are told."
    x, b, found = np.array([0, 1, 2, 3]), 3.7, {}
    for kind in (KnownGroupsSampler, WrongMoves):
        moves = MixtureMoves(sampler(x, b=b, kind=kind), 2, tune=0)
        found[kind] = apart(moves, 4000, x, b)
    assert found[KnownGroupsSampler] < 0.05 < 0.15 < found[WrongMoves]


def test_contract():
    "Counts equal a recount, known ones stay, the seed gives the same, snapshots restore it."
    x = np.random.default_rng(1).poisson([1] * 20 + [12] * 20)
    own = sampler(x, np.arange(40) % 3, prior=(1, 1))
    moves = MixtureMoves(own.start(9), 2, tune=4)
    chains = [run_chain(moves, np.random.default_rng(1), 12) for _ in range(2)]
    for chain in chains:
        moves.check(chain.state)
        moves.check(moves.snapshot(chain.state))
        state = chain.state.base
        K = int(state.K[0])
        assert K >= 2 and (state.n_k[2:K] > 0).all() and state.n_k.sum() == len(x) + 2
        assert state.beta[: K + 1].sum() == pytest.approx(1)
    assert np.array_equal(chains[0].state.z, chains[1].state.z)
    one = chains[0].trace["log_joint"]
    assert np.array_equal(one, chains[1].trace["log_joint"])
    again = moves.base.state(**moves.snapshot(chains[0].state))
    assert moves.base.info(again)["log_joint"] == pytest.approx(one[-1])
    wrong = chains[0].state.base
    wrong.stats.total[0, 0] += 1
    with pytest.raises(ValueError, match="total"):
        moves.check(chains[0].state)
    wrong.stats.total[0, 0] -= 1
    wrong.m_k[0] += 1
    with pytest.raises(ValueError, match="m_k|n_tables"):
        moves.check(chains[0].state)


def test_growth_keeps_what_is_told():
    x = np.arange(0, 400, 4)
    many = sampler(x, np.arange(100) % 2).start(60)
    rng = np.random.default_rng(0)
    state = many.grow(many.state(2 + np.arange(3).repeat(34)[:100], capacity=4))
    assert np.array_equal(state.stats.n[-2:], [3, FIXED])
    for _ in range(3):
        state, _ = many.sweep(rng, state)
        many.check(state)
    assert np.array_equal(state.stats.n[len(state.n_k) :], [3, FIXED])


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [None, "weight", "told"])
def test_geweke(wrong):
    "Concentrations are free; controls believe in another weight, or in other rates."
    group = np.array([0, 0, 0, 0, 1, 1, 1])

    def draw_prior(rng):
        alpha, gamma = rng.gamma(3.0, 0.5, 2)
        beta, z = rng.dirichlet([0.7, 0.7, gamma]), []
        for j in group:
            n_jk = np.bincount([k for k, of in zip(z, group) if of == j], minlength=len(beta))
            w = n_jk + alpha * beta
            k = int(rng.choice(len(w), p=w / w.sum()))
            if k == len(beta) - 1:
                share = rng.beta(1, gamma)
                beta = np.append(beta[:-1], [share * beta[-1], (1 - share) * beta[-1]])
            z.append(k)
        return np.array(z), alpha, gamma, np.maximum(beta, 1e-300)

    def draw_data(rng, theta):
        rates = np.append([rng.gamma(5) / 4, rng.gamma(82) / 3], rng.gamma(2.0, size=9))
        return rng.poisson(rates[theta[0]])

    def make(x, alpha, gamma):
        own = poisson.make_prior(shape=2.0, rate=1.0)
        known = {"rare": {"rate": 30.0 if wrong == "told" else 1.0}, "many": {"rate": 40.0}}
        b = 4.0 if wrong == "weight" else 0.7
        told = tell_components(poisson, own, known, np.array([3, 2]), b)
        free = (3.0, 2.0)
        return KnownGroupsSampler(poisson, x, own, group, alpha, gamma, free, free, told=told)

    def sweep(rng, theta, x):
        own = make(x, *theta[1:3])
        moves = MixtureMoves(own, 2, tune=0)
        state = moves.init(rng)._replace(base=own.state(*theta))
        for _ in range(2):
            state, _ = moves.sweep(rng, state)
        inside = state.base
        kept = inside.beta[: int(inside.K[0]) + 1].copy()
        return inside.z.copy(), float(inside.alpha), float(inside.gamma), kept

    def statistics(theta, x):
        z, alpha, gamma, beta = theta
        n_k = np.bincount(z, minlength=2)
        return {
            "alpha": alpha,
            "gamma": gamma,
            "new": float((n_k[2:] > 0).sum()),
            "first": float(n_k[0]),
            "second": float(n_k[1]),
            "weight": float(beta[0]),
            "unseen": float(beta[-1]),
            "sum of the first": float(x[z == 0].sum()),
            "same": float((n_k**2).sum()),
        }

    found = joint_distribution_test(
        np.random.default_rng(3), draw_prior, draw_data, sweep, statistics, n_draws=600, n_rounds=3
    )
    worst = max(map(abs, found.values()))
    assert worst < 4 if wrong is None else worst > 4, found


@pytest.mark.slow
def test_latent_variables():
    "Counts that vary more than Poisson's: rows of a known cluster go there; counts stay right."
    fam, rng = as_likelihood("negative_binomial"), np.random.default_rng(0)
    x = np.concatenate([rng.poisson(4, (60, 1)), rng.poisson(4, (20, 1)) + 30])
    own = fam.default_prior(x)
    told = tell_components(fam, own, {"a": {"rate": [4.0]}}, np.array([100]))
    base = KnownGroupsSampler(fam, x, own, np.arange(80) % 2, told=told)
    moves = AugmentedSampler(MixtureMoves(base, 2, tune=10))
    chain = run_chain(moves, rng, 80)
    moves.check(chain.state)
    assert (chain.state.z[:60] == 0).mean() > 0.9 and (chain.state.z[60:] > 0).all()
