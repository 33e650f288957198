"""Groups that share components: exact with every likelihood, by sweeps and by moves."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from numba import njit
from scipy import integrate
from scipy.special import gammaln
from test_dp import CASES
from tiers import slow_unless, sweeps

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import exact_posterior, joint_distribution_test, posterior_error
from hdp_nb.mixtures.dp import DPMixtureSampler
from hdp_nb.mixtures.hdp import HDP_PRIOR, HDPMixtureSampler, group_rows
from hdp_nb.mixtures.likelihood import categorical
from hdp_nb.mixtures.normal import find_likelihood
from hdp_nb.mixtures.split_merge import DPSplitMerge, MixtureMoves
from hdp_nb.processes.weights import draw_beta
from hdp_nb.utils.special import log_stirling

GROUP = np.array([2, 0, 1, 0, 2, 0])
WRONG = 0.03  # least error of a probability that a wrong sampler must make, a right one half of it
N, EXACT = sweeps(20_000, WRONG / 2)


def by_tables(z, group):
    "Ways to seat a partition, by the number of tables: without concentrations."
    n = np.zeros((max(group) + 1, max(z) + 1), int)
    np.add.at(n, (group, list(z)), 1)
    ways, found = log_stirling(n.max()), Counter()
    for m in product(*(range(min(c, 1), c + 1) for c in n.ravel())):
        m = np.reshape(m, n.shape)
        found[int(m.sum())] += np.exp(ways[n, m].sum() + gammaln(m.sum(axis=0)).sum())
    return found


def expected(f, prior, value):
    "f of a concentration that has a Gamma prior, or is known."
    if prior is None:
        return f(value)
    a, b = prior
    density = lambda c: c**a * b**a * math.exp(-b * c) / math.gamma(a)
    return integrate.quad(lambda u: f(math.exp(u)) * density(math.exp(u)), -30, 6)[0]


def posterior(log_likelihood, alpha, gamma, prior, group=GROUP):
    n, sizes = len(group), np.bincount(group)
    of_alpha = [
        expected(
            lambda a: np.exp(T * np.log(a) + (gammaln(a) - gammaln(a + sizes)).sum()), prior, alpha
        )
        for T in range(n + 1)
    ]
    of_gamma = [
        [
            expected(lambda g: np.exp(K * np.log(g) + gammaln(g) - gammaln(g + T)), prior, gamma)
            for T in range(n + 1)
        ]
        for K in range(n + 1)
    ]

    def log_joint(z):
        K, ways = max(z) + 1, by_tables(z, group)
        total = sum(w * of_alpha[T] * of_gamma[K][T] for T, w in ways.items())
        return math.log(total) + log_likelihood(np.array(z))

    return exact_posterior(n, log_joint)


def make(name, prior=None, kind=HDPMixtureSampler):
    hyper, X, _ = CASES[name]
    fam = find_likelihood(name)
    return kind(fam, X[:6], fam.make_prior(**hyper), GROUP, 0.8, 1.5, prior, prior)


def enumerated(name, prior=None):
    _, X, log_marginal = CASES[name]
    blocks = lambda z: (X[:6][z == k] for k in range(z.max() + 1))
    return posterior(lambda z: sum(map(log_marginal, blocks(z))), 0.8, 1.5, prior)


def error(sampler, exact, n=N):
    chain = run_chain(sampler, np.random.default_rng(4), n, burn_in=100, thin=1)
    return posterior_error([sample["z"] for sample in chain.samples], exact)


@pytest.mark.parametrize("prior", slow_unless(bool, [None, (2.0, 1.5)]), ids=["held", "learned"])
@pytest.mark.parametrize("name", CASES)
def test_exact_with_every_likelihood(name, prior):
    sampler, exact = make(name, prior), enumerated(name, prior)
    assert error(sampler, exact) < EXACT
    assert error(MixtureMoves(sampler, 2, tune=0), exact) < EXACT


def test_exact_with_scans():
    sampler = make("normal_inverse_wishart", (2.0, 1.5))
    exact = enumerated("normal_inverse_wishart", (2.0, 1.5))
    assert error(DPSplitMerge(sampler, 2, scans=2), exact) < EXACT


class EveryRowATable(HDPMixtureSampler):
    def _draw_top(self, rng, state, alpha_prior, gamma_prior):
        state.m_k[:] = state.n_k
        draw_beta(rng, state.beta, state.m_k, int(state.K[0]), float(state.gamma))


@njit
def without_jacobian(rng, state, size, k1, k2):
    out, share = HDP_PRIOR.log_split(rng, state, size, k1, k2)
    return out + math.log(share * (1.0 - share)), share


class WrongSplits(HDPMixtureSampler):
    process = HDP_PRIOR._replace(log_split=without_jacobian)


def test_wrong_samplers_are_rejected():
    exact = enumerated("categorical")
    assert error(make("categorical", kind=EveryRowATable), exact, 8000) > WRONG
    assert error(DPSplitMerge(make("categorical", kind=WrongSplits), 2), exact, 8000) > WRONG
    assert error(MixtureMoves(make("categorical"), 2, tune=8000), exact, 8000) > WRONG
    _, X, _ = CASES["categorical"]
    prior = categorical.make_prior(n_words=3, eta=0.5)
    assert error(DPMixtureSampler(categorical, X[:6], prior, 0.8, None), exact, 8000) > WRONG


def move(kind, n_draws, learned=True):
    "How far the joint distribution moves, in standard errors, of 20 rows in 4 groups."
    fam = find_likelihood("normal_known_variance")
    own = fam.make_prior(n_dims=1, mean_var=4.0)
    group = np.repeat(np.arange(4), [2, 4, 6, 8])
    prior = (3.0, 3.0) if learned else None
    new = lambda X: kind(fam, X, own, group, 1.0, 1.0, prior, prior)

    def prior_draw(rng):
        alpha, gamma = rng.gamma(3, 1 / 3, 2) if learned else (1.0, 1.0)
        beta, z = np.array([1.0]), np.empty(20, int)
        for j in range(4):
            n_jk = np.zeros(len(beta) - 1)
            for i in np.flatnonzero(group == j):
                w = alpha * beta
                w[:-1] += n_jk
                k = rng.choice(len(w), p=w / w.sum())
                if k == len(n_jk):
                    b = rng.beta(1, gamma)
                    beta = np.append(beta[:-1], [b * beta[-1], (1 - b) * beta[-1]])
                    n_jk = np.append(n_jk, 0)
                n_jk[k] += 1
                z[i] = k
        return {"z": z, "alpha": alpha, "gamma": gamma, "beta": beta}

    def data_draw(rng, theta):
        "Rows given their components: the means integrated out, by drawing them."
        means = rng.normal(0, 2, theta["z"].max() + 1)
        return rng.normal(means[theta["z"]])[:, None]

    def sweep(rng, theta, X):
        sampler = new(X)
        inner = sampler.state(**theta)
        moves = DPSplitMerge(sampler, 3)
        inner = moves._propose(rng, inner, np.zeros(4, np.int64))
        return sampler.snapshot(sampler.sweep(rng, inner)[0])

    def statistics(theta, X):
        beta, z = theta["beta"], theta["z"]
        counts = np.bincount(z)
        return {
            "K": len(counts),
            "alpha": theta["alpha"],
            "gamma": theta["gamma"],
            "rest": beta[-1],
            "squares": (beta**2).sum(),
            "largest": counts.max(),
            "together": (z[:2] == z[-2:]).sum(),
            "x2": (X**2).mean(),
        }

    return joint_distribution_test(
        np.random.default_rng(0),
        prior_draw,
        data_draw,
        sweep,
        statistics,
        n_draws=n_draws,
        n_rounds=5,
    )


def test_the_joint_distribution_stays():
    moved = move(HDPMixtureSampler, 1500)
    assert max(map(abs, moved.values())) < 4, moved


@pytest.mark.filterwarnings("ignore:statistics")
def test_it_moves_without_the_jacobian():
    moved = move(WrongSplits, 400, learned=False)
    moved = [value for value in moved.values() if np.isfinite(value)]
    assert max(map(abs, moved)) > 6, moved


def test_one_group_is_a_mixture_with_two_concentrations():
    "Its partitions are not those of a DP mixture, unless gamma is large: then alpha decides."
    X = CASES["categorical"][1][:6]
    prior = categorical.make_prior(n_words=3, eta=0.5)
    dp = DPMixtureSampler(categorical, X, prior, 0.8, None)
    known = lambda z: dp.info(dp.state(z))["log_joint"]
    exact = exact_posterior(6, lambda z: known(np.array(z)))
    one = HDPMixtureSampler(categorical, X, prior, np.zeros(6, int), 0.8, 1e7, None, None)
    assert error(one, exact) < EXACT
    assert error(make("categorical"), exact, 4000) > WRONG


def test_capacity_does_not_show():
    sampler, chains = make("categorical"), []
    for capacity in (3, 100):
        rng, state = np.random.default_rng(5), sampler.state(np.zeros(6, int), capacity=capacity)
        infos = [(sampler.sweep(rng, state))]
        for _ in range(20):
            infos.append(sampler.sweep(rng, infos[-1][0]))
        chains.append([info for _, info in infos])
    assert chains[0] == chains[1]


def test_groups():
    groups = group_rows([1, 0, 1, 2])
    assert groups.order.tolist() == [1, 0, 2, 3] and groups.offsets.tolist() == [0, 1, 3, 4]
    for bad, says in (([0, 0, 2], "got none in 1"), ([0, -1], "group"), ([0.5, 1], "integers")):
        with pytest.raises(ValueError, match=says):
            group_rows(bad)
    with pytest.raises(ValueError, match="one entry for each of 2 rows"):
        HDPMixtureSampler(categorical, [0, 1], categorical.make_prior(n_words=2), [0])


def test_weights_of_groups():
    sampler = make("categorical")
    z = np.array([0, 0, 1, 0, 1, 1])
    state = sampler.state(z, alpha=2.0, beta=[0.5, 0.3, 0.2])
    found = sampler.group_weights(state, [0, 1, -1])
    wanted = np.array([[2 + 1, 1 + 0.6, 0.4], [1, 1 + 0.6, 0.4], [1, 0.6, 0.4]])
    np.testing.assert_allclose(found, wanted / wanted.sum(axis=1, keepdims=True))
    log_w = sampler.log_weights(state, [0, 1], [1, -1])
    each = sampler.log_predictives(state, [0, 1])
    np.testing.assert_allclose(log_w, each + np.log(found[[1, 2]]))
