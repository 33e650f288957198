"""The enumeration that samplers are held against, held against other ways to the same numbers."""

from itertools import product
from math import exp, lgamma, log

import numpy as np
import pytest

from hdp_nb.exact import exact_posterior, log_words, partitions, posterior_error


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
