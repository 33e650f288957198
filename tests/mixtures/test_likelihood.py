"""The formulas of every likelihood by integration, and wrong ones that the contract rejects."""

import math
import os
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from likelihood_contract import CASES, case
from numba import njit
from scipy import integrate, special, stats
from tiers import slow_unless

from hdp_nb.mixtures.likelihood import categorical, grow_stats, multinomial, poisson
from hdp_nb.mixtures.normal import (
    likelihoods,
    normal_inverse_gamma,
    normal_inverse_wishart,
    normal_known_variance,
)
from hdp_nb.mixtures.testing import IDENTITIES, assert_same, filled

PSI = np.array([[2, 0.5, 0], [0.5, 1, -0.2], [0, -0.2, 1.5]])
NORMAL = [name for name in likelihoods if name.startswith("normal")]
OWN = [n for n, fam in likelihoods.items() if n != "geometric" and fam.augmentation is None]


def total_probability(fam, prior, slots, k):
    "Sum or integral of the predictive over everything that could come next."
    if fam.name == "categorical":
        x = np.arange(len(prior.eta))
        return sum(math.exp(fam.log_predictive(prior, slots, k, x, i)) for i in x)
    if fam.name == "multinomial":  # rows of 3 words, times the orders they could have come in
        x = np.array([r for r in product(range(4), repeat=len(prior.eta)) if sum(r) == 3])
        ways = np.exp(special.gammaln(4) - special.gammaln(x + 1).sum(1))
        return sum(
            w * math.exp(fam.log_predictive(prior, slots, k, x, i)) for i, w in enumerate(ways)
        )
    if fam.name == "poisson":
        x = np.arange(400)[:, None]
        return sum(math.exp(fam.log_predictive(prior, slots, k, x, i)) for i in range(len(x)))
    if fam.name == "von_mises":
        x = np.linspace(-math.pi, math.pi, 2001)[:-1, None]
        p = [math.exp(fam.log_predictive(prior, slots, k, x, i)) for i in range(len(x))]
        return np.mean(p) * 2 * math.pi
    if fam.name in ("gamma", "lognormal"):  # x = exp(sinh(u)), and a 0 that has a mass
        u = np.linspace(-7.2, 7.2, 4001)
        x = np.exp(np.sinh(u))[:, None]
        p = np.exp([fam.log_predictive(prior, slots, k, x, i) for i in range(len(x))])
        zero = 0.0
        if fam.name == "gamma" and prior.mass.any():
            zero = math.exp(fam.log_predictive(prior, slots, k, np.zeros((1, 1)), 0))
        return zero + (p * x[:, 0] * np.cosh(u)).sum() * (u[1] - u[0])
    # x = centre + sinh(u) carries a grid far into the tails
    D, u = (
        len(prior.mean),
        (np.linspace(-30, 30, 2401) if len(prior.mean) == 1 else np.linspace(-9, 9, 81)),
    )
    grid = np.array(list(product(u, repeat=D)))
    x = np.sinh(grid) + (slots.mean[k] if slots.n[k] else prior.mean)
    p = np.exp([fam.log_predictive(prior, slots, k, x, i) for i in range(len(x))])
    return (p * np.cosh(grid).prod(1)).sum() * (u[1] - u[0]) ** D


def check_normalised(fam, prior, data):
    slots = filled(fam, prior, data, k=1)
    near = 1e-5 if fam.name == "gamma" else 1e-6  # small shapes put some below the least float
    for k in range(2):
        assert total_probability(fam, prior, slots, k) == pytest.approx(1, abs=near)


@pytest.mark.parametrize(
    "name, i",
    [c for c in CASES if c[0] in OWN and likelihoods[c[0]].examples[c[1]][0].get("n_dims", 1) == 1],
)
def test_predictive_is_a_distribution(name, i):
    check_normalised(*case(name, i))


@pytest.mark.parametrize("name", NORMAL)
def test_predictive_in_the_plane_is_a_distribution(name):
    fam = likelihoods[name]
    prior = fam.make_prior(n_dims=2, mean=[0.5, -1])
    check_normalised(
        fam, prior, np.random.default_rng(1).standard_normal((9, 2)) @ [[1, 0.7], [0, 0.6]]
    )


# --- families that are wrong in ways that are easy to write -------------------------------------


def forgets_eta(prior, s, k, x, i):
    return math.log((s.n_kv[k, x[i]] + prior.eta[x[i]]) / (s.n_k[k] + 1))


def product_of_words(prior, s, k, x, idx):
    return sum(categorical.log_predictive(prior, s, k, x, i) for i in idx)


def product_in_row(prior, s, k, x, i):
    return float(x[i] @ np.log((s.n_kv[k] + prior.eta) / (s.n_k[k] + prior.eta_sum)))


def with_coefficient(prior, s, k, x, i):
    return (
        multinomial.log_predictive(prior, s, k, x, i)
        + special.gammaln(x[i].sum() + 1)
        - special.gammaln(x[i] + 1).sum()
    )


def mean_is_certain(prior, s, k, x, i):
    loc = normal_known_variance.expected(prior, s, k + 1)["mean"][k]
    return stats.norm.logpdf(x[i], loc, prior.var**0.5).sum()


def normal_tails(prior, s, k, x, i):
    e = normal_inverse_gamma.expected(prior, s, k + 1)
    return stats.norm.logpdf(x[i], e["mean"][k], e["variance"][k] ** 0.5).sum()


def rate_is_certain(prior, s, k, x, i):
    return stats.poisson.logpmf(x[i], poisson.expected(prior, s, k + 1)["rate"][k]).sum()


def wrong_exponent(prior, s, k, x, i):
    normal_inverse_wishart.log_predictive(
        prior, s, k, x, i
    )  # the constants are right, the power is not
    return normal_inverse_wishart.log_predictive(prior._replace(dof=prior.dof + 1), s, k, x, i)


def keeps_old_constants(s, k, x, i):
    stale = s.stale[k]
    normal_inverse_wishart.add(s, k, x, i)
    s.stale[k] = stale


def leaves_mean(s, k, x, i):
    mean = s.mean[k].copy()
    normal_inverse_gamma.remove(s, k, x, i)
    s.mean[k] = mean


def leaves_source(s, src, dst):
    for a in s:
        a[dst] = a[src]


WRONG = [
    (categorical, dict(log_predictive=forgets_eta), IDENTITIES["chain_rule"]),
    (categorical, dict(log_predictive=forgets_eta), check_normalised),
    (categorical, dict(log_block=product_of_words), IDENTITIES["chain_rule"]),
    (categorical, dict(log_block=product_of_words), IDENTITIES["block"]),
    (categorical, dict(move=leaves_source), IDENTITIES["empty"]),
    (categorical, dict(remove=lambda s, k, x, i: None), IDENTITIES["add_remove"]),
    (multinomial, dict(log_predictive=product_in_row), IDENTITIES["chain_rule"]),
    (multinomial, dict(log_predictive=product_in_row), IDENTITIES["empty"]),
    (multinomial, dict(log_predictive=with_coefficient), IDENTITIES["chain_rule"]),
    (multinomial, dict(log_predictive=with_coefficient), check_normalised),
    (poisson, dict(log_predictive=rate_is_certain), IDENTITIES["chain_rule"]),
    (poisson, dict(move=leaves_source), IDENTITIES["empty"]),
    (normal_known_variance, dict(log_predictive=mean_is_certain), IDENTITIES["chain_rule"]),
    (normal_inverse_gamma, dict(log_predictive=normal_tails), IDENTITIES["chain_rule"]),
    (normal_inverse_gamma, dict(remove=leaves_mean), IDENTITIES["add_remove"]),
    (normal_inverse_wishart, dict(log_predictive=wrong_exponent), IDENTITIES["chain_rule"]),
    (normal_inverse_wishart, dict(log_predictive=wrong_exponent), check_normalised),
    (normal_inverse_wishart, dict(add=keeps_old_constants), IDENTITIES["chain_rule"]),
    (normal_inverse_wishart, dict(move=leaves_source), IDENTITIES["empty"]),
]


@pytest.mark.parametrize(
    "fam, slip, check",
    WRONG,
    ids=[f"{f.name}-{'-'.join(s)}-{c.__name__.strip('_')}" for f, s, c in WRONG],
)
def test_contract_rejects(fam, slip, check):
    right, prior, data = case(fam.name)
    check(right, prior, data)
    with pytest.raises(AssertionError):
        check(replace(fam, **slip), prior, data)


# --- the formulas, from the raw data and by integration -----------------------------------------


@pytest.mark.parametrize("eta", [0.3, 1.0, 4.0])
def test_dirichlet_as_printed(eta):
    "Wang and Blei's eqs 6 and 7, in log-gammas."
    V, lgamma = 7, special.gammaln
    rng, prior = np.random.default_rng(2), categorical.make_prior(V, eta)
    x = rng.integers(0, V, 30)
    n_v, c_v = np.bincount(x[:20], minlength=V), np.bincount(x[20:], minlength=V)
    slots = filled(categorical, prior, x, range(20))
    eq_6 = lgamma(V * eta) - lgamma(20 + V * eta) + lgamma(n_v + eta).sum() - V * lgamma(eta)
    eq_7 = (
        lgamma(20 + V * eta)
        - lgamma(30 + V * eta)
        + lgamma(n_v + c_v + eta).sum()
        - lgamma(n_v + eta).sum()
    )
    assert categorical.log_marginal(prior, slots, 0) == pytest.approx(eq_6, rel=1e-12)
    assert categorical.log_block(prior, slots, 0, x, np.arange(20, 30)) == pytest.approx(
        eq_7, rel=1e-12
    )
    rows = np.stack([n_v, c_v])  # the same words as two rows of counts
    prior = multinomial.make_prior(V, eta)
    slots = filled(multinomial, prior, rows, [0])
    assert multinomial.log_marginal(prior, slots, 0) == pytest.approx(eq_6, rel=1e-12)
    assert multinomial.log_predictive(prior, slots, 0, rows, 1) == pytest.approx(eq_7, rel=1e-12)
    # a new topic: 1/V for one word, not 1/V^n for a table of the same word
    assert categorical.log_predictive(prior, slots, 1, x, 0) == pytest.approx(-math.log(V))
    twice = np.array([3, 3])
    assert categorical.log_block(prior, slots, 1, twice, np.arange(2)) == pytest.approx(
        math.log((eta + 1) / (V * eta + 1) / V)
    )


def test_marginal_of_two_words_by_integration():
    prior, x = categorical.make_prior(2, eta=[1.7, 0.6]), np.array([0, 1, 1, 0, 1])
    numeric = integrate.quad(lambda p: p**2 * (1 - p) ** 3 * stats.beta.pdf(p, 1.7, 0.6), 0, 1)[0]
    assert categorical.log_marginal(prior, filled(categorical, prior, x), 0) == pytest.approx(
        math.log(numeric), rel=1e-8
    )


def test_poisson_by_integration():
    prior, x = poisson.make_prior(shape=0.7, rate=0.4), np.array([[3], [0], [7], [2]])
    f = lambda rate: stats.poisson.pmf(x, rate).prod() * stats.gamma.pdf(rate, 0.7, scale=1 / 0.4)
    numeric, mean = (
        integrate.quad(g, 0, 60, points=[0.01, 4])[0] for g in (f, lambda rate: rate * f(rate))
    )
    slots = filled(poisson, prior, x)
    assert poisson.log_marginal(prior, slots, 0) == pytest.approx(math.log(numeric), rel=1e-8)
    assert poisson.expected(prior, slots, 1)["rate"][0, 0] == pytest.approx(
        mean / numeric, rel=1e-7
    )
    assert poisson.log_predictive(prior, slots, 0, x, 2) == pytest.approx(
        stats.nbinom(12.7, 4.4 / 5.4).logpmf(7), rel=1e-10
    )


# --- explicit parameters ------------------------------------------------------------------------


def check_draws(fam, prior, data, n_draws=3000):
    "Densities under drawn parameters average to the predictive, products of two to the block."
    slots, params, rng, n = (
        filled(fam, prior, data[:-2]),
        fam.new_params(prior, 2),
        np.random.default_rng(8),
        len(data),
    )
    for k in range(2):
        total = []
        for _ in range(n_draws):
            fam.draw(rng, prior, slots, k, params)
            fx, fy = (math.exp(fam.log_density(prior, params, k, data, i)) for i in (n - 2, n - 1))
            total.append((fx, fx * fy))
        exact = [
            fam.log_predictive(prior, slots, k, data, n - 2),
            fam.log_block(prior, slots, k, data, np.array([n - 2, n - 1])),
        ]
        mean, error = np.mean(total, 0), np.std(total, 0) / n_draws**0.5
        assert (abs(mean - np.exp(exact)) < 4 * error + 1e-12 * np.exp(exact)).all(), (
            mean / np.exp(exact),
            error / np.exp(exact),
        )


DRAWS = ["categorical", "multinomial", "poisson", "normal_known_variance", "normal_inverse_gamma"]


@pytest.mark.parametrize(
    "name, i",
    [(name, i) for name in DRAWS for i in range(2) if (name, i) != ("multinomial", 1)]
    + [("normal_inverse_wishart", 0)],
)  # (words of eta 0.01: an average that never settles)
def test_draws(name, i):
    check_draws(*case(name, i))


def test_draws_of_covariances():
    "With degrees of freedom enough for averages to settle."
    fam = normal_inverse_wishart
    prior = fam.make_prior(3, mean=[1, -2, 0], kappa=2, dof=9, scale=3 * PSI)
    X = np.random.default_rng(1).standard_normal((9, 3)) @ [
        [1, 0.7, 0],
        [0, 0.6, 0.3],
        [0, 0, 1],
    ] + [1, -1, 0]
    check_draws(fam, prior, X)
    slots, params, rng, sigma, mean = (
        filled(fam, prior, X),
        fam.new_params(prior, 1),
        np.random.default_rng(0),
        0.0,
        0.0,
    )
    for _ in range(3000):
        fam.draw(rng, prior, slots, 0, params)
        M = params[0, 3:12].reshape(3, 3)
        sigma, mean = sigma + np.linalg.inv(M.T @ M) / 3000, mean + params[0, :3] / 3000
    np.testing.assert_allclose(params[0, 12], math.log(abs(np.linalg.det(M))), rtol=1e-9)
    found = fam.expected(prior, slots, 1)
    np.testing.assert_allclose(sigma, found["covariance"][0], atol=0.05)
    np.testing.assert_allclose(mean, found["mean"][0], atol=0.05)


POINTS = np.array([[0.3], [1.9], [-0.8], [1.1]])


def test_known_variance_by_integration():
    fam = normal_known_variance
    prior = fam.make_prior(mean=0.4, mean_var=3.0, var=0.8)
    f = lambda mu: np.prod(stats.norm.pdf(POINTS, mu, 0.8**0.5)) * stats.norm.pdf(mu, 0.4, 3**0.5)
    numeric = integrate.quad(f, -15, 15, points=[0.6])[0]
    slots = filled(fam, prior, POINTS)
    assert fam.log_marginal(prior, slots, 0) == pytest.approx(math.log(numeric), rel=1e-9)
    mean = integrate.quad(lambda mu: mu * f(mu), -15, 15, points=[0.6])[0] / numeric
    assert fam.expected(prior, slots, 1)["mean"][0, 0] == pytest.approx(mean, rel=1e-8)


@pytest.mark.parametrize(
    "fam, hyper",
    [
        (normal_inverse_gamma, dict(kappa=0.4, shape=2.2, scale=1.3)),
        (normal_inverse_wishart, dict(kappa=0.4, dof=4.4, scale=2.6)),
    ],
)
def test_unknown_variance_by_integration(fam, hyper):
    prior = fam.make_prior(mean=0.4, **hyper)
    mu, log_var = np.meshgrid(np.linspace(-50, 50, 5001), np.linspace(-9, 15, 481))
    var = np.exp(log_var)
    joint = (
        stats.norm.logpdf(mu, 0.4, (var / 0.4) ** 0.5)
        + stats.invgamma.logpdf(var, 2.2, scale=1.3)
        + log_var
    )
    joint = (
        np.exp(joint + sum(stats.norm.logpdf(p, mu, var**0.5) for p in POINTS[:, 0]))
        * (100 / 5000)
        * (24 / 480)
    )
    slots = filled(fam, prior, POINTS)
    assert fam.log_marginal(prior, slots, 0) == pytest.approx(math.log(joint.sum()), rel=1e-7)
    found = fam.expected(prior, slots, 1)
    assert found["mean"][0, 0] == pytest.approx((mu * joint).sum() / joint.sum(), rel=1e-6)
    spread = found["variance"][0, 0] if "variance" in found else found["covariance"][0, 0, 0]
    assert spread == pytest.approx((var * joint).sum() / joint.sum(), rel=1e-5)


def test_gamma_predictive_is_students_t():
    prior = normal_inverse_gamma.make_prior(2, mean=[0, 3], kappa=0.7, shape=1.1, scale=[2, 0.3])
    x = np.random.default_rng(3).normal(1, 2, (6, 2))
    slots, t = filled(normal_inverse_gamma, prior, x, range(5)), 0.0
    for d in range(2):
        y = x[:5, d]
        b = (
            prior.scale[d]
            + 0.5 * ((y - y.mean()) ** 2).sum()
            + 0.5 * 0.7 * 5 / 5.7 * (y.mean() - prior.mean[d]) ** 2
        )
        t += stats.t(
            2 * 3.6, (0.7 * prior.mean[d] + y.sum()) / 5.7, (b / 3.6 * 6.7 / 5.7) ** 0.5
        ).logpdf(x[5, d])
    assert normal_inverse_gamma.log_predictive(prior, slots, 0, x, 5) == pytest.approx(t, rel=1e-12)


@pytest.mark.parametrize("D", [1, 2, 5])
def test_wishart_by_the_candidates_formula(D):
    "f = p(x | theta) h(theta) / p(theta | x) for any theta; the predictive is a multivariate t."
    rng, fam, n, kappa0, nu0 = np.random.default_rng(D), normal_inverse_wishart, 8, 0.6, D + 0.5
    mu0, A = rng.standard_normal(D), rng.standard_normal((D, D))
    Psi0, x = A @ A.T + np.eye(D), rng.standard_normal((n + 1, D)) @ A + 1
    prior, y = fam.make_prior(D, mu0, kappa0, nu0, Psi0), x[:n]
    slots, kappa, nu, off = filled(fam, prior, x, range(n)), kappa0 + n, nu0 + n, y.mean(0) - mu0
    mu, Psi = (
        mu0 + n / kappa * off,
        Psi0 + n * np.cov(y.T, bias=True).reshape(D, D) + kappa0 * n / kappa * np.outer(off, off),
    )
    density = lambda m, S, mu, kappa, nu, Psi: (
        stats.multivariate_normal(mu, S / kappa).logpdf(m) + stats.invwishart(nu, Psi).logpdf(S)
    )
    for _ in range(3):
        m, S = (
            rng.standard_normal(D),
            np.atleast_2d(stats.wishart(D + 2, np.eye(D)).rvs(random_state=rng)),
        )
        f = (
            stats.multivariate_normal(m, S).logpdf(y).sum()
            + density(m, S, mu0, kappa0, nu0, Psi0)
            - density(m, S, mu, kappa, nu, Psi)
        )
        assert fam.log_marginal(prior, slots, 0) == pytest.approx(f, rel=1e-9)
    df = nu - D + 1
    t = stats.multivariate_t(mu, Psi * (kappa + 1) / (kappa * df), df=df).logpdf(x[n])
    assert fam.log_predictive(prior, slots, 0, x, n) == pytest.approx(t, rel=1e-10)
    found = fam.expected(prior, slots, 1)
    np.testing.assert_allclose(found["mean"][0], mu, rtol=1e-10)
    np.testing.assert_allclose(found["covariance"][0], Psi / (nu - D - 1), rtol=1e-9)


@pytest.mark.parametrize("name", NORMAL)
def test_units_do_not_matter(name):
    "Data and prior in other units (and rotated, for full covariances): only the volume changes."
    fam, rng, D, n = likelihoods[name], np.random.default_rng(4), 2, 12
    x = rng.standard_normal((n, D))
    A, shift = (
        (
            np.diag([3.0, 0.01])
            if name != "normal_inverse_wishart"
            else np.array([[3, 1], [-2, 0.1]])
        ),
        np.array([5.0, -700]),
    )
    other = {
        "normal_known_variance": dict(mean_var=[9, 1e-4], var=[9, 1e-4]),
        "normal_inverse_gamma": dict(scale=[4.5, 5e-5]),
        "normal_inverse_wishart": dict(scale=A @ A.T),
    }[name]
    one = fam.make_prior(D)
    two = fam.make_prior(D, mean=shift, **other)
    moved = x @ A.T + shift
    a, b = (
        fam.log_marginal(one, filled(fam, one, x), 0),
        fam.log_marginal(two, filled(fam, two, moved), 0),
    )
    assert b == pytest.approx(a - n * math.log(abs(np.linalg.det(A))), rel=1e-9)


def test_expected_words():
    prior = categorical.make_prior(3, eta=[1, 2, 0.5])
    slots = filled(categorical, prior, np.array([0, 0, 2]), k=1)
    phi = categorical.expected(prior, slots, 2)["phi"]
    np.testing.assert_allclose(phi, [np.array([1, 2, 0.5]) / 3.5, np.array([3, 2, 1.5]) / 6.5])


def test_expected_without_a_finite_variance():
    "A prior with so few degrees of freedom that its variance has no mean."
    gamma, wishart = (
        normal_inverse_gamma.make_prior(shape=0.5),
        normal_inverse_wishart.make_prior(2, dof=1.5),
    )
    assert np.isinf(
        normal_inverse_gamma.expected(gamma, normal_inverse_gamma.init_stats(gamma, 1), 1)[
            "variance"
        ]
    ).all()
    assert np.isnan(
        normal_inverse_wishart.expected(wishart, normal_inverse_wishart.init_stats(wishart, 1), 1)[
            "covariance"
        ]
    ).all()


# --- rounding -----------------------------------------------------------------------------------


def make_churn(fam):
    add, remove = fam.add, fam.remove

    @njit
    def churn(rng, slots, data, times):
        for _ in range(times):
            i = rng.integers(0, len(data))
            remove(slots, 0, data, i)
            add(slots, 0, data, i)

    return churn


@pytest.mark.parametrize("name", NORMAL)
def test_far_from_the_origin_and_after_much_traffic(name):
    fam, rng = likelihoods[name], np.random.default_rng(6)
    near = rng.standard_normal((60, 2))
    far = near + 1e8
    priors = fam.make_prior(2), fam.make_prior(2, mean=1e8)
    slots = filled(fam, priors[1], far)
    exact = fam.log_marginal(priors[0], filled(fam, priors[0], near), 0)
    assert fam.log_marginal(priors[1], slots, 0) == pytest.approx(exact, rel=1e-6)
    make_churn(fam)(rng, slots, far, 3000)
    assert fam.log_marginal(priors[1], slots, 0) == pytest.approx(exact, rel=1e-6)
    control = (far**2).sum(0) - 60 * far.mean(
        0
    ) ** 2  # what the textbook sums would have for the scatter
    assert (abs(control / ((near - near.mean(0)) ** 2).sum(0) - 1) > 0.1).any()


def test_wishart_says_when_precision_is_lost():
    "An absurd outlier takes the digits of the scatter with it: an error, not NaN."
    fam = normal_inverse_wishart
    prior = fam.make_prior(3, scale=1e-6)
    x = np.random.default_rng(7).standard_normal((6, 3))
    x[5] = [1e14, 2e14, -3e14]
    slots = filled(fam, prior, x)
    fam.remove(slots, 0, x, 5)
    with pytest.raises(ValueError, match="scale is too small"):
        for i in range(5):
            fam.log_predictive(prior, slots, 0, x, i)
            fam.remove(slots, 0, x, i)


@pytest.mark.parametrize("name", NORMAL)
def test_after_a_change_of_prior(name):
    "The constants belong to the prior they were made with; marking them stale makes them anew."
    fam, prior, data = case(name)
    slots, other = filled(fam, prior, data), fam.make_prior(mean=3.0)
    old = fam.log_predictive(prior, slots, 0, data, 0)
    slots.stale[:] = True
    new = fam.log_predictive(other, slots, 0, data, 0)
    assert new == fam.log_predictive(other, filled(fam, other, data), 0, data, 0) != old


# --- used from a compiled sampler, and grown ----------------------------------------------------


def make_score(fam):
    add, remove, log_predictive, log_block, log_marginal, move, clear = (
        fam.add,
        fam.remove,
        fam.log_predictive,
        fam.log_block,
        fam.log_marginal,
        fam.move,
        fam.clear,
    )

    @njit(nogil=True)
    def score(prior, slots, data, z, idx):
        out = 0.0
        for i in range(len(data)):
            for k in range(2):
                out += log_predictive(prior, slots, k, data, i) / (k + 1)
            add(slots, z[i], data, i)
        out += log_block(prior, slots, 1, data, idx) + log_marginal(prior, slots, 0)
        remove(slots, z[0], data, 0)
        move(slots, 1, 2)
        clear(slots, 0)
        return out + log_marginal(prior, slots, 2)

    return score


@pytest.mark.parametrize(
    "name", slow_unless(lambda name: name == "normal_inverse_gamma", likelihoods)
)
def test_closing_over_a_family(name):
    "A compiled loop over the family's functions gives what the same loop gives from Python."
    fam, prior, data = case(name, -1)
    z, idx, score = np.arange(len(data)) % 2, np.array([0, 3, 5]), make_score(fam)
    compiled, plain = fam.init_stats(prior, 3), fam.init_stats(prior, 3)
    value = score(prior, compiled, data, z, idx)
    assert value == pytest.approx(
        getattr(score, "py_func", score)(prior, plain, data, z, idx), rel=1e-12
    )
    assert_same(fam, compiled, plain)


@pytest.mark.parametrize("name", [*likelihoods])
def test_grow_stats(name):
    fam, prior, data = case(name, -1)
    small = filled(fam, prior, data, k=1)
    fam.log_predictive(prior, small, 1, data, 0)
    big = grow_stats(fam, prior, small, 5)
    assert all(len(a) == 5 for a in big)
    assert_same(fam, big, filled(fam, prior, data, k=1, capacity=5))
    for k in range(5):
        np.testing.assert_allclose(
            fam.log_predictive(prior, big, k, data, 0),
            fam.log_predictive(prior, small, int(k == 1), data, 0),
        )
    assert not any(np.shares_memory(a, b) for a, b in zip(small, big))


def all_numbers():
    for name, i in CASES:
        fam, prior, data = case(name, i)
        slots = filled(fam, prior, data, range(5))
        yield from (
            fam.log_predictive(prior, slots, k, data, j) for k in (0, 1) for j in range(len(data))
        )
        yield from (
            fam.log_marginal(prior, slots, 0),
            fam.log_block(prior, slots, 0, data, np.arange(5, len(data))),
        )


def test_same_numbers_compiled_or_not():
    "To the last digits of log-gamma, of which C and Python have different ones."
    here = list(all_numbers())
    script = "from test_likelihood import *; print(*[float(v).hex() for v in all_numbers()])"
    plain = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=os.path.dirname(os.path.abspath(__file__)),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert len(here) > 15 * len(CASES)
    np.testing.assert_allclose(
        [float.fromhex(v) for v in plain.stdout.split()], here, rtol=1e-12, atol=1e-12
    )


# --- bad input ----------------------------------------------------------------------------------

BAD_HYPER = [
    (fam, dict(n_words=n), "n_words")
    for fam in ("categorical", "multinomial")
    for n in (0, -1, 2.5, None, "3")
]
BAD_HYPER += [
    (fam, dict(n_words=3, eta=eta), "eta")
    for fam in ("categorical", "multinomial")
    for eta in (0, -1, math.nan, math.inf, [1, 2], [1, 2, 0], "x", None)
]
BAD_HYPER += [(fam, dict(n_dims=n), "n_dims") for fam in NORMAL for n in (0, 1.5, None)]
BAD_HYPER += [
    (fam, dict(n_dims=2, mean=m), "mean")
    for fam in NORMAL
    for m in (math.nan, [1, 2, 3], "x", math.inf)
]
BAD_HYPER += [
    ("poisson", {name: v}, name) for name in ("shape", "rate") for v in (0, -1, math.nan, [1, 2])
]
BAD_HYPER += [("poisson", dict(n_dims=n), "n_dims") for n in (0, 1.5, None)]
BAD_HYPER += [
    ("normal_known_variance", {name: v}, name)
    for name in ("var", "mean_var")
    for v in (0, -1, math.nan, [1, 2])
]
BAD_HYPER += [
    (fam, dict(kappa=v), "kappa")
    for fam in NORMAL[1:]
    for v in (0, -1, math.nan, math.inf, "x", None)
]
BAD_HYPER += [
    ("normal_inverse_gamma", {name: v}, name)
    for name in ("shape", "scale")
    for v in (0, -1, math.nan)
]
BAD_HYPER += [
    ("normal_inverse_wishart", dict(n_dims=2, dof=v), "dof") for v in (1, 0, -3, math.nan, "x")
]
BAD_HYPER += [
    ("normal_inverse_wishart", dict(n_dims=2, scale=v), "scale")
    for v in (
        0,
        -1,
        math.nan,
        np.eye(3),
        [[1, 2], [2, 1]],
        [[1, 0.5], [0, 1]],
        [[1, math.nan], [math.nan, 1]],
        "x",
    )
]


@pytest.mark.parametrize("name, hyper, argument", BAD_HYPER)
def test_bad_hyperparameters(name, hyper, argument):
    with pytest.raises(ValueError, match=rf"^{argument} must be .* got"):
        likelihoods[name].make_prior(**hyper)


BAD_DATA = [
    ("categorical", X)
    for X in ([0, -1], [0, 5], [0.5], [math.nan], [math.inf], [[0, 1]], [], ["a"], 3, None)
]
BAD_DATA += [
    ("multinomial", X)
    for X in (
        [[0, 1, 2]],
        [0, 1, 2, 3],
        [[0, 1, 2, -1]],
        [[0, 1, 2, 0.5]],
        [[0, 1, 2, math.nan]],
        [[0, 1, 2, math.inf]],
        np.empty((0, 4)),
        [["a"] * 4],
        [[1, 2], [3]],
    )
]
BAD_DATA += [
    ("poisson", X) for X in ([0, -1], [0.5], [math.nan], [math.inf], [[0, 1]], [], ["a"], 3, None)
]
BAD_DATA += [
    (name, X)
    for name in NORMAL
    for X in ([math.nan], [[math.inf]], [-1e155], [[1, 2]], [], [["a"]], [[[1.0]]], 3.0, None)
]


@pytest.mark.parametrize("name, X", BAD_DATA)
def test_bad_data(name, X):
    fam = likelihoods[name]
    with pytest.raises(ValueError, match="^X must .* got"):
        fam.check_data(X, fam.make_prior(**fam.examples[0][0]))


def test_data_in_other_clothes():
    from scipy.sparse import csr_array

    rows = [[1, 0, 2, 0], [0, 0, 0, 4]]
    prior = multinomial.make_prior(4)
    for X in (rows, np.array(rows, float), np.array(rows, np.uint8), csr_array(np.array(rows))):
        out = multinomial.check_data(X, prior)
        assert out.dtype == np.int64 and out.tolist() == rows
    prior = categorical.make_prior(3)
    for X in ([0, 2, 1], [[0], [2], [1]], np.array([0.0, 2.0, 1.0])):
        out = categorical.check_data(X, prior)
        assert out.dtype == np.int64 and out.tolist() == [0, 2, 1]
    prior = normal_inverse_gamma.make_prior(1)
    for X in ([1, 2], [[1], [2]], np.array([[1, 9], [2, 9]], np.float32)[:, :1]):
        out = normal_inverse_gamma.check_data(X, prior)
        assert out.dtype == np.float64 and out.tolist() == [[1], [2]] and out.flags.c_contiguous


@pytest.mark.parametrize("name", OWN)
def test_default_prior(name):
    fam, _, data = case(name, -1)
    prior = fam.default_prior(data)
    assert np.array_equal(fam.check_data(data, prior), data)
    IDENTITIES["chain_rule"](fam, prior, data)
    if name in NORMAL:
        np.testing.assert_allclose(prior.mean, data.mean(0))
        assert (fam.default_prior(data, mean=7).mean == 7).all()
        flat = fam.default_prior(np.full((4, 2), 3.0))  # constant columns have no spread to go by
        assert np.isfinite(fam.log_marginal(flat, filled(fam, flat, np.full((4, 2), 3.0)), 0))
    elif name == "poisson":
        np.testing.assert_allclose(prior.shape, data.mean(0))
        assert (fam.default_prior(data, shape=3).shape == 3).all() and fam.default_prior(
            [0, 0]
        ).shape == 1
    elif name == "gamma":
        assert (fam.default_prior(data, scale=3).scale == 3).all()
    elif name == "von_mises":
        assert (fam.default_prior(data, concentration=3.0).number == 3).all()
    elif name == "lognormal":
        assert (fam.default_prior(data, mean=7).mean == 7).all()
    else:
        assert (fam.default_prior(data, eta=2.0).eta == 2).all()
    with pytest.raises(ValueError, match="^X must"):
        fam.default_prior([[math.nan]])


COLUMNS = np.random.default_rng(0).normal(size=(30, 3))


@pytest.mark.parametrize(
    "name, column, message",
    [
        (
            "normal_inverse_gamma",
            np.full(30, 2.5),
            r"got 2\.5 in all rows of column 3; leave it out",
        ),
        ("normal_inverse_wishart", np.full(30, 2.5), "in all rows of column 3"),
        ("normal_inverse_wishart", COLUMNS[:, 1], "column [13], which is"),
        ("normal_inverse_wishart", COLUMNS @ [1, -2, 3] + 1e3, "column [0-3], which is"),
    ],
)
def test_columns_that_say_nothing_are_named(name, column, message):
    fam = likelihoods[name]
    with pytest.raises(ValueError, match=message):
        fam.default_prior(np.column_stack([COLUMNS, column]))


def test_columns_that_nearly_say_nothing_are_taken():
    "Copies of a column but for noise, rows no more than columns, and variances by column."
    rng = np.random.default_rng(1)
    noisy = np.column_stack([COLUMNS, COLUMNS[:, 1] + 1e-4 * rng.normal(size=30)])
    twice = np.column_stack([COLUMNS, COLUMNS[:, 1]])
    far = np.append(COLUMNS, [[1e9, 1e9, 1e9]], axis=0)  # has all of the variance
    for x in (noisy, noisy[:4], twice[:9], 1e8 * noisy, noisy + 1e6, far):
        likelihoods["normal_inverse_wishart"].default_prior(x)
    likelihoods["normal_inverse_gamma"].default_prior(twice)


def test_copies_make_parts_anew_that_were_not_given():
    "A prior from the data, the chain rule's block and what is kept follow the copy's own parts."
    loose = replace(categorical, default_prior=None, log_block=None, kept=None)
    prior, x = loose.make_prior(3, eta=0.5), np.array([0, 1, 1])
    half = replace(
        loose,
        make_prior=lambda n_words, eta=2.0: categorical.make_prior(n_words, eta),
        log_predictive=njit(lambda prior, stats, k, data, i: -0.5),
        stats_type=namedtuple("Other", ["n_kv", "n_k", "more"]),
    )
    assert (loose.default_prior(x, n_words=3).eta == 0.5).all()
    assert (half.default_prior(x, n_words=3).eta == 2).all()
    stats = categorical.init_stats(prior, 1)
    assert half.log_block(prior, stats, 0, x, np.arange(3)) == -1.5
    assert np.isclose(
        loose.log_block(prior, stats, 0, x, np.arange(3)),
        categorical.log_block(prior, stats, 0, x, np.arange(3)),
    )
    assert half.kept == ("n_kv", "n_k", "more") and loose.kept == ("n_kv", "n_k")
    given = replace(categorical, name="again")  # what was given is handed on
    assert given.log_block is categorical.log_block and given.add is categorical.add
