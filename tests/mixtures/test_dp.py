"""The Dirichlet process and its mixtures, against a list of all partitions and numerical
integration."""

import math
import os
import subprocess
import sys
from dataclasses import replace

import naive_dp
import numpy as np
import pytest
from naive import partitions
from numba import njit
from scipy import stats
from scipy.special import gammaln, logsumexp
from tiers import slow_unless

from hdp_nb.mcmc.chain import run_chain, run_chains
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.mcmc.priors import FIXED_PRIOR, Gamma
from hdp_nb.mixtures import likelihood
from hdp_nb.mixtures.dp import DPMixtureSampler, make_sweep, point_partition
from hdp_nb.mixtures.normal import find_likelihood
from hdp_nb.processes.dp import crp, log_eppf, resample_concentration
from hdp_nb.utils.special import log_antoniak

EXACT = 0.015  # largest error of a probability that a right sampler may make

PLANE = np.array(
    [[0, 0], [0.5, 0.2], [0.2, -0.4], [2.5, 2], [2, 2.6], [1.2, 1], [-1, 2.2], [2.4, 1.9]]
)
SCALE = np.array([[1.0, 0.3], [0.3, 0.8]])
# family -> hyperparameters, observations, log p(rows of one component) by a formula of its own
CASES = {
    "categorical": (
        dict(n_words=3, eta=0.5),
        np.array([0, 0, 1, 0, 2, 1, 1, 0]),
        lambda x: naive_dp.categorical(x, 0.5, 3),
    ),
    "multinomial": (
        dict(n_words=3, eta=0.5),
        np.array([[2, 0, 1], [1, 0, 1], [0, 3, 0], [0, 0, 0], [0, 1, 1], [3, 0, 0]]),
        lambda x: naive_dp.multinomial(x, 0.5),
    ),
    "normal_known_variance": (
        dict(n_dims=1, mean=0.5, mean_var=4.0, var=0.5),
        PLANE[:, :1],
        lambda x: naive_dp.normal_known_variance(x, 0.5, 4.0, 0.5),
    ),
    "normal_inverse_gamma": (
        dict(n_dims=2, mean=0.5, kappa=0.2, shape=1.5, scale=0.5),
        PLANE[:7],
        lambda x: naive_dp.normal_inverse_gamma(x, 0.5, 0.2, 1.5, 0.5),
    ),
    "normal_inverse_wishart": (
        dict(n_dims=2, mean=0.5, kappa=0.2, dof=4.0, scale=SCALE),
        PLANE,
        lambda x: naive_dp.normal_inverse_wishart(x, 0.5, 0.2, 4.0, SCALE),
    ),
}
families = pytest.mark.parametrize("name", CASES)
QUICK = {"categorical", "multinomial", "normal_inverse_wishart"}  # integers, counts, numbers
some_families = pytest.mark.parametrize("name", slow_unless(QUICK.__contains__, CASES))


def make_sampler(name, alpha=1.0, alpha_prior=None, n=None, fam=None):
    hyper, x, _ = CASES[name]
    fam = fam or find_likelihood(name)
    return DPMixtureSampler(fam, x[:n], fam.make_prior(**hyper), alpha, alpha_prior)


def chain(sampler, n_sweeps=30_000, seed=1):
    """Labels and alpha after every sweep."""
    fam, prior, data = sampler.packed
    rng, kernel = np.random.default_rng(seed), make_sweep(fam)
    state = sampler.state(np.arange(len(sampler.data)), capacity=len(sampler.data) + 1)
    z, alpha = np.empty((n_sweeps, len(sampler.data)), int), np.empty(n_sweeps)
    for s in range(n_sweeps):
        assert kernel(rng, state, data, prior, sampler.alpha_prior, 0, 0.0)[0] == len(state.z)
        z[s], alpha[s] = state.z, state.alpha[0]
    return z, alpha


def error(z, exact):
    """Largest error of P(K) and of the co-clustering of any pair."""
    n = 1 + (np.diff(np.sort(z)) > 0).sum(axis=1)
    K = np.bincount(n, minlength=len(exact.n_components)) / len(z)
    together = (z[:, :, None] == z[:, None]).mean(axis=0)
    return max(abs(K - exact.n_components).max(), abs(together - exact.together).max())


# --- the mixture sampler hits the exact posterior
# --------------------------------------------------


@some_families
@pytest.mark.parametrize("alpha", slow_unless(lambda alpha: alpha == 3.0, [1.0, 3.0]))
def test_exact_posterior(name, alpha):
    _, x, log_marginal = CASES[name]
    exact = naive_dp.posterior(x, log_marginal, alpha)
    assert error(chain(make_sampler(name, alpha))[0], exact) < EXACT
    if alpha == 3.0:  # a posterior under another alpha is not mistaken for it
        assert error(chain(make_sampler(name, 2.0), 10_000)[0], exact) > 2 * EXACT


@some_families
def test_exact_posterior_with_alpha_resampled(name):
    _, x, log_marginal = CASES[name]
    exact = naive_dp.posterior(x, log_marginal, alpha_prior=(2.0, 1.0))
    z, alpha = chain(make_sampler(name, 5.0, (2.0, 1.0)), 50_000)
    assert error(z, exact) < EXACT
    assert alpha.mean() == pytest.approx(exact.alpha, rel=0.02)
    wrong = naive_dp.posterior(x, log_marginal, alpha_prior=(2.0, 2.0))
    assert alpha.mean() != pytest.approx(wrong.alpha, rel=0.1)


def forget(stats, k, data, i):
    pass


def unnormalised(prior, stats, k, data, i):
    return math.log(stats.n_kv[k, data[i]] + prior.eta[data[i]])


@pytest.mark.parametrize(
    "broken",
    [dict(remove=njit(forget)), dict(log_predictive=njit(unnormalised))],
    ids=lambda d: [*d][0],
)
def test_control_broken_family(broken):
    """An observation that is not taken out before it chooses; a predictive without its
    denominator."""
    _, x, log_marginal = CASES["categorical"]
    sampler = make_sampler("categorical", fam=replace(likelihood.categorical, **broken))
    assert error(chain(sampler, 5_000)[0], naive_dp.posterior(x, log_marginal)) > 2 * EXACT


def explicit_parameters(x, alpha, mean, width, noise, keep_own, n_sweeps=40_000):
    """Gibbs over each observation's parameter: Teh et al. eqs 32-35 for one group, or Neal's
    Algorithm 8."""
    rng, phi = np.random.default_rng(2), list(map(float, range(len(x))))
    z = np.empty((n_sweeps, len(x)), int)
    for s in range(n_sweeps):
        for i, value in enumerate(x):
            others = phi[:i] + phi[i + 1 :]
            alone = phi[i] not in others
            candidates = sorted(set(others))
            weights = [others.count(theta) for theta in candidates] + [alpha]
            candidates.append(phi[i] if alone and keep_own else rng.normal(mean, width))
            weights = [
                w * math.exp(-0.5 * ((value - theta) / noise) ** 2)
                for w, theta in zip(weights, candidates)
            ]
            u = rng.random() * sum(weights)
            for theta, w in zip(candidates, weights):  # noqa: B007
                u -= w
                if u < 0:
                    break
            phi[i] = theta
        z[s] = [phi.index(theta) for theta in phi]
        for theta in set(phi):
            members = [i for i in range(len(x)) if phi[i] == theta]
            precision = width**-2 + len(members) * noise**-2
            centre = (mean * width**-2 + sum(x[i] for i in members) * noise**-2) / precision
            new = rng.normal(centre, precision**-0.5)
            for i in members:
                phi[i] = new
    return z


@pytest.mark.slow  # two observations are in notebook 12
@pytest.mark.parametrize("x, alpha, noise", [((0.0, 2.0), 0.5, 0.7), ((0.0, 0.4, 2.0), 1.0, 0.7)])
def test_control_equations_32_to_34(x, alpha, noise):
    """Audit of the paper: a singleton that draws a fresh parameter is wrong, one that keeps its
    own is right."""
    exact = naive_dp.posterior(
        np.array(x)[:, None],
        lambda rows: naive_dp.normal_known_variance(rows, 0.0, 4.0, noise**2),
        alpha,
    )
    assert error(explicit_parameters(x, alpha, 0.0, 2.0, noise, keep_own=True), exact) < EXACT
    assert error(explicit_parameters(x, alpha, 0.0, 2.0, noise, keep_own=False), exact) > 10 * EXACT


# --- what can't be listed: the joint distribution test
# ---------------------------------------------


def geweke(rate):
    """z scores for 25 words from a true DP mixture, alpha ~ Gamma(2, 1), sampled as if Gamma(2,
    rate)."""
    fam, n, V = likelihood.categorical, 25, 4
    prior, rng = fam.make_prior(n_words=V, eta=0.3), np.random.default_rng(4)

    def prior_draw(rng):
        alpha = rng.gamma(2.0)
        return crp(rng, n, alpha), alpha

    def data_draw(rng, theta):
        z, x, seen = theta[0], np.zeros(n, np.int64), {}
        for i, k in enumerate(z.tolist()):  # an urn per component
            urn = seen.setdefault(k, [])
            at = int(rng.random() * (len(urn) + V * 0.3))
            x[i] = urn[at] if at < len(urn) else rng.integers(V)
            urn.append(x[i])
        return x

    def sweep(rng, theta, x):
        sampler = DPMixtureSampler(fam, x, prior, 1.0, (2.0, rate))
        state = sampler.sweep(rng, sampler.state(*theta))[0]
        return state.z, state.alpha[0]

    def statistics(theta, x):
        sizes = np.bincount(theta[0])
        return {
            "K": len(sizes),
            "largest": sizes.max(),
            "alpha": theta[1],
            "log alpha": math.log(theta[1]),
            "same word": (x[0] == x[1:]).sum(),
            "neighbours": (theta[0][0] == theta[0][1:]).sum(),
        }

    return joint_distribution_test(
        rng, prior_draw, data_draw, sweep, statistics, n_draws=1000, n_rounds=4
    )


def test_joint_distribution():
    assert max(map(abs, geweke(1.0).values())) < 4.5
    assert max(map(abs, geweke(1.3).values())) > 4.5


def test_without_information_the_posterior_is_the_prior():
    """One word only, V = 1: K has the distribution of eq 47, alpha keeps its prior."""
    fam, n = likelihood.categorical, 40
    sampler = DPMixtureSampler(fam, np.zeros(n, int), fam.make_prior(n_words=1), 1.5, None)
    z, _ = chain(sampler, 20_000)
    assert (
        abs(
            np.bincount(z.max(1) + 1, minlength=n + 1) / len(z) - np.exp(log_antoniak(n, 1.5))
        ).max()
        < 0.01
    )
    free = DPMixtureSampler(fam, np.zeros(n, int), sampler.prior, 1.0, (3.0, 2.0))
    _, alpha = chain(free, 20_000)
    assert stats.ks_1samp(alpha[::20], stats.gamma(3.0, scale=0.5).cdf).pvalue > 1e-3
    assert stats.ks_1samp(alpha[::20], stats.gamma(3.0, scale=0.6).cdf).pvalue < 1e-6


# --- contracts
# ---------------------------------------------------------------------------------------


def scattered(name, n=60):
    """A sampler with enough observations to fill and empty components often."""
    rng, (hyper, x, _) = np.random.default_rng(6), CASES[name]
    fam = find_likelihood(name)
    data = (
        rng.normal(0, 3, (n, x.shape[1]))
        if name.startswith("normal")
        else x[rng.integers(len(x), size=n)]
    )
    return DPMixtureSampler(fam, data, fam.make_prior(**hyper), 5.0)


@families
def test_counts_equal_a_recount_after_every_sweep(name):
    sampler, rng = scattered(name), np.random.default_rng(7)
    state, seen = sampler.init(rng), set()
    for _ in range(30):
        state, info = sampler.sweep(rng, state)
        K = state.K[0]
        assert sorted(set(state.z)) == list(range(K)) and state.n_k.sum() == len(state.z)
        assert (state.n_k == np.bincount(state.z, minlength=len(state.n_k))).all()
        again = sampler.state(state.z, state.alpha[0])
        assert sampler.info(again)["log_joint"] == pytest.approx(info["log_joint"], rel=1e-10)
        marginals = [
            sampler.fam.log_marginal(sampler.prior, state.stats, k)
            for k in range(K, len(state.n_k))
        ]
        assert np.allclose(marginals, 0, atol=1e-12)  # free slots are empty
        assert info["n_components"] == K and info["alpha"] == state.alpha[0]
        seen.add(K)
    assert len(seen) > 3


@families
def test_capacity_does_not_show(name):
    sampler, n = scattered(name), 60
    small, large = (sampler.state(np.zeros(n), capacity=c) for c in (1, 100))
    one, other = np.random.default_rng(8), np.random.default_rng(8)
    for _ in range(10):
        (small, a), (large, b) = sampler.sweep(one, small), sampler.sweep(other, large)
        assert (small.z == large.z).all() and a == b
    assert len(small.n_k) < 100 == len(large.n_k)


def test_the_kernel_stops_before_the_observation_it_has_no_slot_for():
    sampler = scattered("categorical")
    state = sampler.state(np.zeros(60), capacity=2)
    rng, before = np.random.default_rng(0), None
    sweep, data, prior = make_sweep(sampler.fam), sampler.data, sampler.prior
    at, log_p = sweep(rng, state, data, prior, FIXED_PRIOR, 0, 0.0)
    assert 0 < at < 60 and state.K[0] == len(state.n_k) == 2
    before, used = state.z.copy(), rng.bit_generator.state
    assert sweep(rng, state, data, prior, FIXED_PRIOR, at, log_p) == (at, log_p)
    assert (state.z == before).all() and rng.bit_generator.state == used


def test_seeds_reproduce_and_snapshots_restore():
    sampler = scattered("normal_inverse_wishart")
    a, b = (run_chain(sampler, np.random.default_rng(9), 20, thin=5) for _ in range(2))
    assert all((a.trace[name] == b.trace[name]).all() for name in a.trace)
    shares = ["share_1", "share_2", "share_3"]
    log_p = ["log_joint", "log_likelihood", "alpha", *shares, "log_mixture"]
    assert list(a.trace) == ["n_components", *log_p]
    last = sampler.state(**a.samples[-1])
    assert sampler.info(last)["log_joint"] == pytest.approx(a.trace["log_joint"][15], rel=1e-12)


def test_resumed_is_the_run_that_never_stopped(tmp_path):
    sampler, path = scattered("categorical"), tmp_path / "chain.npz"
    whole = run_chain(sampler, np.random.default_rng(10), 20)
    run_chain(sampler, np.random.default_rng(10), 7, checkpoint=path)
    rest = run_chain(sampler, np.random.default_rng(99), 20, checkpoint=path)
    assert all((whole.trace[name] == rest.trace[name]).all() for name in whole.trace)
    assert (whole.state.z == rest.state.z).all()
    other = DPMixtureSampler(sampler.fam, sampler.data, sampler.prior, 5.0, (1.0, 2.0))
    with pytest.raises(ValueError, match="alpha_prior"):
        run_chain(other, np.random.default_rng(0), 20, checkpoint=path)


def test_chains_side_by_side_are_the_serial_ones():
    sampler = scattered("categorical")
    serial, threads = (
        run_chains(sampler, np.random.default_rng(11), 3, 10, n_jobs=n) for n in (1, 2)
    )
    assert all((a.state.z == b.state.z).all() for a, b in zip(serial, threads))


def short_run(name):
    sampler, rng = scattered(name, 20), np.random.default_rng(12)
    state = sampler.init(rng)
    for _ in range(3):
        state, info = sampler.sweep(rng, state)
    return f"{state.z.tolist()} {info['log_joint']:.6f}"


def test_the_same_without_the_compiler():
    names = ["categorical", "normal_inverse_wishart"]
    code = f"import test_dp; print(*map(test_dp.short_run, {names}), sep='\\n')"
    plain = subprocess.run(
        [sys.executable, "-c", code],
        cwd=os.path.dirname(__file__),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    ).stdout
    assert plain.splitlines() == [short_run(name) for name in names]


# --- densities
# -----------------------------------------------------------------------------------------


@families
def test_log_joint_and_predictive_density(name):
    """Sums over all partitions: of the joint, log p(x); of joint times predictive, p(x and one
    more)."""
    _, x, log_marginal = CASES[name]
    sampler = make_sampler(name, 1.3, n=5)
    states = [sampler.state(z, capacity=5) for z in partitions(5)]
    log_joint = np.array([sampler.info(state)["log_joint"] for state in states])
    evidence = naive_dp.posterior(x[:5], log_marginal, 1.3).log_evidence
    assert logsumexp(log_joint) == pytest.approx(evidence, abs=1e-9)
    new = logsumexp(
        log_joint - evidence + [sampler.log_density(state, x[5:6])[0] for state in states]
    )
    more = naive_dp.posterior(x[:6], log_marginal, 1.3).log_evidence
    assert new == pytest.approx(more - evidence, abs=1e-9)


def test_log_joint_includes_the_prior_of_alpha():
    fixed, free = make_sampler("categorical"), make_sampler("categorical", alpha_prior=(2.0, 3.0))
    z = [0, 0, 1, 0, 2, 1, 1, 0]
    difference = (
        free.info(free.state(z, 0.7))["log_joint"] - fixed.info(fixed.state(z, 0.7))["log_joint"]
    )
    assert difference == pytest.approx(stats.gamma(2.0, scale=1 / 3).logpdf(0.7))


def test_log_weights_when_every_slot_is_in_use():
    sampler = make_sampler("categorical")
    full, roomy = sampler.state(np.arange(8) % 3, capacity=4), sampler.state(np.arange(8) % 3)
    full = full._replace(n_k=full.n_k[:3], stats=type(full.stats)(*(a[:3] for a in full.stats)))
    assert (sampler.log_weights(full, [0, 1, 2]) == sampler.log_weights(roomy, [0, 1, 2])).all()
    assert np.exp(sampler.log_density(full, [0, 1, 2])).sum() == pytest.approx(1)


# --- partitions
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.01, 1.0, 40.0])
def test_eppf_and_crp(alpha):
    exact = {z: math.exp(log_eppf(np.bincount(z), alpha)) for z in partitions(5)}
    assert sum(exact.values()) == pytest.approx(1)
    assert log_eppf([3, 0, 2], alpha) == log_eppf([2, 3], alpha)
    rng, seen = np.random.default_rng(13), dict.fromkeys(exact, 0)
    for _ in range(20_000):
        seen[tuple(crp(rng, 5, alpha).tolist())] += 1
    assert max(abs(seen[z] / 20_000 - p) for z, p in exact.items()) < EXACT
    assert len(crp(rng, 0, alpha)) == 0


def test_point_partition_is_closest_to_the_others():
    """The variation of information is a sum of two conditional entropies."""

    def conditional_entropy(z, given):
        return sum(
            stats.entropy(np.unique(z[given == c], return_counts=True)[1]) * np.mean(given == c)
            for c in set(given)
        )

    rng = np.random.default_rng(14)
    samples = [rng.permutation(crp(rng, 12, 2.0)) for _ in range(30)]
    distance = [
        sum(conditional_entropy(z, w) + conditional_entropy(w, z) for w in samples) for z in samples
    ]
    assert distance[point_partition(samples)] == pytest.approx(min(distance))
    assert point_partition([np.zeros(5, np.int32)]) == 0


# --- the concentration
# -----------------------------------------------------------------------------------


def cdf_gap(draw, n, n_tables, shape, rate, n_draws=15_000):
    """Largest distance between the cdfs of a chain of draws and of eq 47 times the prior,
    integrated."""
    grid = np.exp(np.linspace(-25, 12, 40_001))
    log_p = (shape + n_tables) * np.log(grid) - rate * grid
    log_p += sum(gammaln(grid) - gammaln(grid + n_j) for n_j in n if n_j)
    exact = np.exp(log_p - logsumexp(log_p)).cumsum()
    value, values = 1.0, []
    for _ in range(n_draws):
        value = draw(value)
        values.append(value)
    return abs(np.searchsorted(np.sort(values), grid) / n_draws - exact).max()


CONCENTRATIONS = [
    ([5, 0, 3, 8], 6, 1.0, 1.0),
    ([0, 0], 0, 2.0, 3.0),
    ([], 0, 1.0, 0.5),
    ([1], 1, 1.0, 1.0),
    ([10], 1, 1.0, 1.0),
    ([100_000], 30, 1.0, 1.0),
    ([20] * 50, 400, 1.0, 0.1),
    ([7, 7], 14, 0.5, 0.01),
]


@pytest.mark.parametrize("n, n_tables, shape, rate", CONCENTRATIONS)
def test_concentration_matches_integration(n, n_tables, shape, rate):
    rng, sizes = np.random.default_rng(15), np.array(n, np.int64)
    assert (
        cdf_gap(
            lambda c: resample_concentration(rng, c, sizes, n_tables, Gamma(shape, rate)),
            n,
            n_tables,
            shape,
            rate,
        )
        < 0.03
    )


@pytest.mark.parametrize("with_s, w_shape", [(False, 1), (True, 0)])
def test_control_concentration(with_s, w_shape):
    """Without s, or with w ~ Beta(alpha, n)."""
    n, n_tables, shape, rate = CONCENTRATIONS[0]
    rng, sizes = np.random.default_rng(16), np.array(n)[np.array(n) > 0]

    def wrong(c):
        s = (rng.random(3) < sizes / (sizes + c)).sum() if with_s else 0
        w = np.maximum(rng.beta(c + w_shape, sizes), 1e-300)
        return rng.gamma(shape + n_tables - s) / (rate - np.log(w).sum())

    assert cdf_gap(wrong, n, n_tables, shape, rate, 5000) > 0.1


@pytest.mark.parametrize("conc", [1e-100, 1e-9, 1.0, 1e12, 1e300])
@pytest.mark.parametrize("n, n_tables", [([10**9, 1, 0], 2), ([0], 0), ([3] * 1000, 3000)])
@pytest.mark.parametrize("shape, rate", [(1e-4, 1e-4), (1.0, 1.0), (1e3, 1e6)])
def test_concentration_stays_finite_and_positive(conc, n, n_tables, shape, rate):
    rng = np.random.default_rng(17)
    for _ in range(200):
        conc = resample_concentration(
            rng, conc, np.array(n, np.int64), n_tables, Gamma(shape, rate)
        )
        assert 0 < conc < np.inf


# --- bad input
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0, -1.0, math.nan, math.inf, "one", None, [1, 2]])
def test_bad_alpha(bad):
    for call in (
        lambda: crp(np.random.default_rng(0), 3, bad),
        lambda: log_eppf([1, 2], bad),
        lambda: make_sampler("categorical", bad),
    ):
        with pytest.raises(ValueError, match="^alpha must be a finite number above 0, got"):
            call()


@pytest.mark.parametrize(
    "bad", [1.0, (1.0,), (1, 2, 3), (0.0, 1.0), (1.0, math.inf), ("a", 1), "ab"]
)
def test_bad_alpha_prior(bad):
    with pytest.raises(ValueError, match="^alpha_prior must be None or two finite numbers above 0"):
        make_sampler("categorical", alpha_prior=bad)


def test_bad_data():
    fam = likelihood.categorical
    for bad in ([], [0, 3], [-1], [0.5], [[0, 1]]):
        with pytest.raises(ValueError, match="X must"):
            DPMixtureSampler(fam, bad, fam.make_prior(n_words=3))
