"""What samplers are held against: the enumeration, held against other ways to the same numbers, and
the joint test, with samplers that are right and wrong.
"""

from itertools import product
from math import exp, lgamma, log

import numpy as np
import pytest

from hdp_nb.mcmc.exact import (
    exact_posterior,
    joint_distribution_test,
    log_words,
    partitions,
    posterior_error,
    posterior_scores,
)


@pytest.mark.parametrize("n, bell", list(enumerate([1, 1, 2, 5, 15, 52, 203, 877])))
def test_every_partition_comes_once(n, bell):
    found = partitions(n)
    assert len(found) == len(set(found)) == bell
    for z in found:
        assert all(k <= max(z[:i], default=-1) + 1 for i, k in enumerate(z))


@pytest.mark.parametrize("z", partitions(4))
@pytest.mark.parametrize("eta", [0.2, 1.0, 3.0])
def test_words_have_probabilities(z, eta):
    "They add up to 1 over all words, and are those of urns drawn from one word after the other."
    total = sum(exp(log_words(words, z, 3, eta)) for words in product(range(3), repeat=4))
    assert np.isclose(total, 1)
    words = (0, 2, 2, 1)
    urns = 0.0
    for i, (v, k) in enumerate(zip(words, z, strict=True)):
        before = [w for w, c in zip(words[:i], z[:i], strict=True) if c == k]
        urns += log((before.count(v) + eta) / (len(before) + 3 * eta))
    assert np.isclose(log_words(words, z, 3, eta), urns)


def test_a_missing_word_has_no_factor():
    assert log_words((0, -1, 1), (0, 0, 1), 2, 0.5) == log_words((0, 1), (0, 1), 2, 0.5)


def log_restaurant(z, alpha=1.5):
    sizes = np.bincount(z)
    total = len(sizes) * log(alpha) + sum(map(lgamma, sizes))
    return total + lgamma(alpha) - lgamma(alpha + len(z))


def test_posterior_of_a_restaurant():
    "Without data: a distribution, expected tables as the urn has them, two customers together."
    exact = exact_posterior(6, log_restaurant)
    assert np.isclose(exact.log_evidence, 0) and np.isclose(exact.p_K.sum(), 1)
    expected = sum(1.5 / (1.5 + i) for i in range(6))
    assert np.isclose(exact.p_K @ np.arange(7), expected)
    off = ~np.eye(6, dtype=bool)
    assert np.allclose(exact.together[off], 1 / 2.5) and np.allclose(np.diag(exact.together), 1)


def test_error_of_draws():
    "Draws in proportion have none, whatever components are called; others have as much as is off."
    rng, zs = np.random.default_rng(0), partitions(4)
    exact = exact_posterior(4, log_restaurant)
    p = np.exp([log_restaurant(z) for z in zs])
    draws = [zs[i] for i in rng.choice(len(zs), 20_000, p=p)]
    renamed = [np.array([7, 3, 5, 11])[list(z)] for z in draws]
    assert posterior_error(draws, exact) == posterior_error(renamed, exact) < 0.015
    assert posterior_error([(0, 0, 0, 0)], exact) > 0.5
    for bad in ([], [(0, 0)], [0, 1]):
        with pytest.raises(ValueError, match="^draws must be sequences of 4 components, .* got"):
            posterior_error(bad, exact)


def test_scores_of_chains():
    "Standard normal, as nearly as Student's t is, of independent draws; far off of another model."
    rng, zs = np.random.default_rng(0), partitions(4)
    exact = exact_posterior(4, log_restaurant)

    def scores(conc, n_chains=20):
        p = np.exp([log_restaurant(z, conc) for z in zs])
        draw = lambda: [zs[i] for i in rng.choice(len(zs), 400, p=p)]
        return posterior_scores([draw() for _ in range(n_chains)], exact)

    right = scores(1.5)
    assert list(right) == [
        *(f"K = {k}" for k in range(5)),
        *("0, 1", "0, 2", "0, 3", "1, 2", "1, 3", "2, 3"),
    ]
    z = np.array([[*scores(1.5).values()] for _ in range(60)])[:, 1:]  # there is always a component
    assert right["K = 0"] == 0 and abs(z).max() < 5 and 0.9 < z.std() < 1.2
    assert max(map(abs, scores(1.9).values())) > 5
    with pytest.raises(ValueError, match="^chains must be two or more, got 1$"):
        scores(1.5, 1)


def test_scores_of_what_never_happens():
    "What is rare, and in no chain, is no surprise; what is impossible and happens is."
    rare = exact_posterior(2, lambda z: -12.0 * max(z))
    one = [[(0, 0)] * 50] * 3
    assert max(map(abs, posterior_scores(one, rare).values())) < 0.1
    never = exact_posterior(2, lambda z: -np.inf if max(z) else 0.0)
    assert posterior_scores(one, never)["K = 2"] == 0
    assert posterior_scores([[(0, 1)] * 50] * 3, never)["K = 2"] == np.inf


# ---------------------------------------------------------------- the joint test

N = 4


def prior(rng):
    return rng.gamma(2, 1 / 3)


def data(rng, rate):
    return rng.poisson(rate, N)


def posterior(rng, rate, y):
    return rng.gamma(2 + y.sum(), 1 / (3 + N))


def wrong_shape(rng, rate, y):
    return rng.gamma(2.5 + y.sum(), 1 / (3 + N))


def wrong_width(rng, rate, y):
    return (2 + y.sum()) / (3 + N)  # its mean instead of a draw


def functions(rate, y):
    return {
        "rate": rate,
        "spread": (rate - 2 / 3) ** 2,
        "y": y.mean(),
        "var y": y.var(),
        "fixed": 1.0,
    }


@pytest.mark.filterwarnings("ignore:statistics. never moved")
def test_joint_test_passes_the_right_and_rejects_the_wrong():
    score = lambda sweep: joint_distribution_test(
        np.random.default_rng(0), prior, data, sweep, functions, n_draws=3000
    )
    right = score(posterior)
    assert list(right) == ["rate", "spread", "y", "var y", "fixed"] and right["fixed"] == 0
    assert max(map(abs, right.values())) < 4
    assert abs(score(wrong_shape)["rate"]) > 6
    narrow = score(wrong_width)  # right mean, wrong variance
    assert abs(narrow["rate"]) < 4 and narrow["spread"] < -6


@pytest.mark.filterwarnings("ignore:statistics. never moved")
def test_joint_test_scores_are_standard_normal():
    z = [
        list(
            joint_distribution_test(
                rng, prior, data, posterior, functions, n_draws=200, n_rounds=2
            ).values()
        )[:4]
        for rng in np.random.default_rng(1).spawn(150)
    ]
    assert abs(np.mean(z)) < 0.2 and abs(np.std(z) - 1) < 0.12


def test_joint_test_of_what_moves_for_certain_is_infinite():
    z = joint_distribution_test(
        np.random.default_rng(0),
        lambda rng: 0.0,
        lambda rng, t: 0,
        lambda rng, t, y: t + 1,
        lambda t, y: {"t": t},
        n_draws=5,
    )
    assert z == {"t": np.inf}


@pytest.mark.parametrize("wrong", [False, True])
def test_joint_test_of_an_array_that_the_sweep_changes(wrong):
    "A statistic may be an array without axes in theta: it is looked at when it is noted."

    def sweep(rng, theta, y):
        theta[()] = (wrong_shape if wrong else posterior)(rng, float(theta), y)
        return theta

    z = joint_distribution_test(
        np.random.default_rng(0),
        lambda rng: np.array(prior(rng)),
        lambda rng, theta: data(rng, float(theta)),
        sweep,
        lambda theta, y: {"rate": theta},
    )
    assert (abs(z["rate"]) > 6) == wrong and z["rate"] != 0


def test_joint_test_says_what_it_cannot_use():
    def test(sweep=posterior, statistics=functions, **numbers):
        return joint_distribution_test(
            np.random.default_rng(0), prior, data, sweep, statistics, **numbers
        )

    with pytest.warns(UserWarning, match="^statistics: never moved, .*: 'fixed'$"):
        test(n_draws=5)
    for bad in (np.ones(1), [1.0], "a", None, 1j):
        with pytest.raises(ValueError, match="^statistics must be numbers, got rate = "):
            test(statistics=lambda rate, y, bad=bad: {"rate": bad})
    with pytest.raises(ValueError, match="^sweep must return theta, got None$"):
        test(sweep=lambda rng, rate, y: None)
    for numbers in ({"n_draws": 0}, {"n_draws": 1}, {"n_rounds": 0}):
        with pytest.raises(ValueError, match=f"^{[*numbers][0]} must be"):
            test(**numbers)
