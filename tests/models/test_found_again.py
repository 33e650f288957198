"""Whether another fit would find a topic again: where it is given, and by what."""

import warnings

import numpy as np
import pytest

from hdp_nb import HDP, load_model, make_bars
from hdp_nb.models.found_again import found_again


@pytest.fixture(scope="module")
def bars():
    return make_bars(60, 40, grid=3, random_state=0)[0]


@pytest.mark.parametrize("n_chains", [1, 3])
def test_of_a_fit(bars, n_chains, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(n_chains=n_chains, n_iter=60, random_state=0).fit(bars)
    again = model.found_again_
    assert again.shape == (model.n_topics_,) and ((again > 0) & (again < 1)).all()
    assert np.isnan(model.chain_likeness()).all() == (n_chains == 1)
    table = model.topics()
    shown = np.asarray(table["found_again"])
    assert np.array_equal(shown[:-1], again) and np.isnan(shown[-1])
    model.save(tmp_path / "model.npz")
    assert np.array_equal(load_model(tmp_path / "model.npz").found_again_, again)


def test_more_likeness_more_tokens_more_existence_is_more():
    n = np.array([100, 1000])
    assert (found_again([0.9, 0.5], n[::-1], [1, 1]) > found_again([0.5, 0.5], n, [1, 1]))[0]
    small, large = found_again([0.8, 0.8], n, [1, 1])
    assert large > small
    rare, sure = found_again([np.nan, np.nan], n[[0, 0]], [0.3, 1.0])
    assert sure > rare


def test_nothing_shown_and_a_topic_that_one_chain_lacks():
    assert found_again([], np.zeros(0), []).shape == (0,)
    one, both = found_again([0.0, 0.95], np.array([500, 500]), [0.6, 1.0])
    assert one < 0.5 < both
