"""Gamma, von Mises and log-normal columns: what they refuse, and mixtures and states of them."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from tiers import slow_unless

from hdp_nb import HDPHMM, DPMixture, HDPMixture, load_model
from hdp_nb.mixtures.likelihood import likelihoods
from hdp_nb.mixtures.product import as_likelihood
from hdp_nb.mixtures.testing import check_likelihood, filled
from hdp_nb.models.components import component_covariances, component_means

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")

KINDS = {"step": "gamma", "angle": "von_mises"}


def track(n=160, seed=0):
    "Two states in turns of forty steps: short steps that turn back, and long ones straight on."
    rng, z = np.random.default_rng(seed), np.arange(n) // 40 % 2
    step = rng.gamma(np.array([2, 8])[z], np.array([1, 5])[z])
    angle = rng.vonmises(np.array([np.pi, 0])[z], np.array([2, 8])[z])
    return pd.DataFrame({"step": step, "angle": angle}), z


def test_a_product_of_them_keeps_the_contract_with_gaps():
    X = track(10)[0].to_numpy(copy=True)
    X[2, 0], X[4, 1], X[5] = np.nan, np.nan, np.nan
    fam = as_likelihood({0: "gamma", 1: "von_mises"})
    check_likelihood(fam, X, only=["chain_rule", "add_remove", "block", "empty"])


def test_a_mixture_of_a_frame_with_gaps(tmp_path):
    X, z = track()
    X.loc[3, "step"], X.loc[7, "angle"] = np.nan, np.nan
    model = DPMixture(KINDS, n_iter=60, n_chains=1, random_state=0).fit(X)
    agree = np.mean(model.labels_ == z)
    assert max(agree, 1 - agree) > 0.95
    assert {*model.components_} == {
        "step.shape",
        "step.rate",
        "angle.direction",
        "angle.concentration",
    }
    model.save(tmp_path / "m.npz")
    assert (load_model(tmp_path / "m.npz").predict(X) == model.labels_).all()


def test_states_of_a_frame():
    X, z = track()
    settings = {"n_iter": 60, "n_chains": 1, "init": 4, "max_states": 6, "random_state": 0}
    model = HDPHMM(emission=KINDS, **settings).fit([X[:80], X[80:]])
    agree = np.mean((model.labels_ == model.labels_[0]) == (z == z[0]))
    assert agree > 0.95
    rows, states = model.sample(300, 0)
    assert (rows[:, 0] > 0).all() and (abs(rows[:, 1]) <= math.pi).all()


@pytest.mark.parametrize("name", ["gamma", "von_mises"])
@pytest.mark.parametrize("n", [0, 1, 2, 40])
def test_the_table_of_a_predictive_is_as_good_as_its_nodes(name, n):
    fam, x = likelihoods[name], track(400)[0]["step" if name == "gamma" else "angle"]
    X = x.to_numpy()[:, None]
    prior = fam.default_prior(X)
    data, often = fam.check_data(X, prior), filled(fam, prior, X, range(n))
    found = [fam.log_predictive(prior, often, 0, data, i % 400) for i in range(800)][400:]
    once = [
        fam.log_predictive(prior, filled(fam, prior, X, range(n)), 0, data, i)
        for i in range(0, 400, 7)
    ]
    assert (often.asked[0] == -1).any()
    np.testing.assert_allclose(found[::7], once, rtol=1e-8, atol=1e-8)
    fam.add(often, 0, data, 0)  # which makes another component of it
    fresh = filled(fam, prior, X, [*range(n), 0])
    pair = [fam.log_predictive(prior, slots, 0, data, 5) for slots in (often, fresh)]
    assert pair[0] == pytest.approx(pair[1], abs=1e-10)


def test_means_and_covariances_of_positive_components():
    rng = np.random.default_rng(0)
    X = np.where(rng.random(4000) < 0.3, 0.0, rng.gamma(2.0, 3.0, 4000))[:, None]
    model = DPMixture("gamma", n_iter=5, n_chains=1, init=1, moves=0, random_state=0)
    for fitted, data in (
        (model.fit(X), X),
        (HDPHMM(emission="gamma", n_iter=5, n_chains=1, init=1, moves=0).fit(X), X),
    ):
        large = np.argmax(np.bincount(fitted.labels_))
        assert fitted.means_[large, 0] == pytest.approx(data.mean(), rel=0.05)
        spread = getattr(fitted, "covars_", None)
        spread = fitted.covariances_ if spread is None else spread
        assert spread[large, 0, 0] == pytest.approx(data.var(), rel=0.1)
    logs = {"log_mean": np.array([[1.0]]), "log_variance": np.array([[0.25]])}
    mean, variance = stats.lognorm.stats(0.5, scale=np.e)
    assert component_means(logs)[0, 0] == pytest.approx(mean)
    assert component_covariances(logs)[0, 0, 0] == pytest.approx(variance)
    with pytest.raises(AttributeError, match="means_: the likelihood has direction, conc"):
        print(DPMixture("von_mises", n_iter=2, n_chains=1).fit(np.ones((5, 1))).means_)


@pytest.mark.slow  # other answers of models whose fits are tested above
def test_answers_of_a_fit():
    X, z = track()
    settings = {"n_iter": 40, "n_chains": 1, "init": 4, "max_states": 6, "random_state": 0}
    model = HDPHMM(emission=KINDS, **settings).fit(X)
    table = model.components()
    assert {"step.shape", "step.rate", "angle.concentration"} <= {*table}
    assert model.score_steps(X).sum() == pytest.approx(model.score(X, method="plug-in"))
    assert (model.predict_proba(X).argmax(axis=1) == model.predict(X, method="posterior")).all()
    groups = np.where(np.arange(len(X)) < 80, "one", "two")
    both = HDPMixture(KINDS, n_iter=40, n_chains=1, random_state=0).fit(X, groups=groups)
    agree = np.mean(both.labels_ == z)
    assert max(agree, 1 - agree) > 0.9


@pytest.mark.parametrize(
    "name", slow_unless(lambda name: name != "lognormal", ["gamma", "von_mises", "lognormal"])
)
def test_a_constant_column_is_one_cluster(name):
    model = DPMixture(name, n_iter=30, n_chains=1, random_state=0).fit(np.full((60, 1), 2.0))
    assert np.bincount(model.labels_).max() >= 57
    assert np.isfinite(model.score(np.full((5, 1), 2.0)))


def test_angles_beyond_a_turn_are_wrapped_and_said_once():
    x = track()[0]["angle"].to_numpy()[:, None]
    far = x + 4 * math.pi
    with pytest.warns(UserWarning, match="angles beyond 2 pi, such as .*, which are wrapped") as w:
        found = DPMixture("von_mises", n_iter=10, n_chains=1, random_state=0).fit(far)
    assert sum("beyond 2 pi" in str(one.message) for one in w) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        same = DPMixture("von_mises", n_iter=10, n_chains=1, random_state=0).fit(x)
        DPMixture("von_mises", n_iter=2, n_chains=1).fit(x % (2 * math.pi))  # from 0 to 2 pi
    assert (found.labels_ == same.labels_).all()


def test_zeros_get_a_mass_where_the_data_have_them():
    X, z = track()
    X.loc[z == 0, "step"] *= np.random.default_rng(1).random((z == 0).sum()) < 0.5
    model = DPMixture(KINDS, n_iter=40, n_chains=1, random_state=0).fit(X)
    zero = model.components_["step.zero"]
    assert zero.max() > 0.3 and zero.min() < 0.1
    fam = likelihoods["gamma"]
    prior = fam.make_prior(zeros=True)
    stats = filled(fam, prior, np.array([[0.0], [0.0], [2.0]]))
    assert fam.expected(prior, stats, 1)["zero"][0, 0] == pytest.approx(3 / 5)


@pytest.mark.parametrize(
    "name, x, prior, message",
    [
        ("gamma", [1.0, 0.0, 2.0, 3.0], {"zeros": False}, "above 0 in column 0, got 0; zeros=True"),
        ("gamma", [1.0, -0.5, 2.0, 3.0], None, "X must not be negative, got -0.5"),
        ("gamma", [1.0, np.inf, 2.0, 3.0], None, "infinity|finite"),
        ("gamma", [np.nan, np.nan], None, "X must have"),
        ("gamma", [1.0, 2.0, 3.0], {"zeros": 1}, "zeros must be True or False"),
        ("gamma", [1.0, 2.0, 3.0], {"shape": -1.0}, "shape of prior must be"),
        ("von_mises", [1.0, 2.0, 3.0], {"concentration": 0.0}, "concentration of prior must be"),
        ("von_mises", [1.0, np.inf, 3.0], None, "infinity|finite"),
        ("lognormal", [1.0, 0.0, 3.0], None, "X must be above 0, got 0"),
        ("lognormal", [1.0, -2.0, 3.0], None, "X must be above 0, got -2"),
    ],
)
def test_cells_that_are_refused(name, x, prior, message):
    for model in (DPMixture(name, prior=prior, n_iter=2), HDPHMM(emission=name, prior=prior)):
        with pytest.raises(ValueError, match=message):
            model.fit(np.array(x)[:, None])
