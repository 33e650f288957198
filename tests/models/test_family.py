"""What components say of the likelihood that they are of."""

import numpy as np
import pytest

from hdp_nb.models.family import suggest_family

RNG = np.random.default_rng(0)
LABELS = np.repeat([0, 1, 2], [500, 300, 200])
ROWS = RNG.normal(size=(1000, 2))


def normal(means, variances):
    return {"mean": np.array(means, float), "variance": np.array(variances, float)}


APART = normal([[0, 0], [9, 0], [0, 9]], [[1, 1], [1, 1], [9, 9]])
TAILS = normal([[0, 0], [9, 0], [9.5, 0.5]], [[1, 1], [1, 1], [9, 9]])


def test_a_narrow_component_within_a_broad_one():
    said = suggest_family("emission", ROWS, LABELS, TAILS)
    assert said.startswith("Components 1 and 2 have nearly the same mean, and one has 9.0 times")
    assert 'emission="student"' in said
    full = {"mean": TAILS["mean"], "covariance": np.array([np.diag(v) for v in TAILS["variance"]])}
    assert suggest_family("emission", ROWS, LABELS, full) == said


@pytest.mark.parametrize(
    "labels, parameters",
    [
        (LABELS, APART),
        (np.where(np.arange(1000) < 995, LABELS % 2, 2), TAILS),  # the broad one has 5 rows
        (LABELS, TAILS | {"variance": np.ones((3, 2))}),
        (LABELS, {"phi": np.ones((3, 4)) / 4}),
        (LABELS, {"mean": TAILS["mean"], "scale": np.ones((3, 2, 2)), "df": np.ones(3)}),
    ],
)
def test_nothing_is_said(labels, parameters):
    assert suggest_family("likelihood", ROWS, labels, parameters) == ""


def test_counts_that_vary():
    rate = np.array([[2.0, 9], [20, 3], [5, 5]])
    mean = rate[LABELS]
    steady, bursts = RNG.poisson(mean), RNG.poisson(mean * RNG.gamma(3, 1 / 3, mean.shape))
    assert suggest_family("likelihood", steady, LABELS, {"rate": rate}) == ""
    said = suggest_family("likelihood", bursts, LABELS, {"rate": rate})
    assert "times as much as Poisson counts would" in said and "negative_binomial" in said
    known = {"rate": rate, "size": np.full_like(rate, 3.0)}
    assert suggest_family("likelihood", bursts, LABELS, known) == ""
    gaps = bursts.astype(float)
    gaps[::7, 0] = np.nan
    assert "negative_binomial" in suggest_family("likelihood", gaps, LABELS, {"rate": rate})
