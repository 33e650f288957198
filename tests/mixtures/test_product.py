"""Products of likelihoods over the columns of a table, and the mappings that users write."""

import numpy as np
import pandas as pd
import pytest

from hdp_nb import HDPHMM, DPMixture, load_model
from hdp_nb.mixtures.likelihood import likelihoods, poisson
from hdp_nb.mixtures.normal import normal_inverse_wishart
from hdp_nb.mixtures.product import Block, as_likelihood, make_product
from hdp_nb.mixtures.testing import DRAWS, IDENTITIES, check_likelihood, filled
from hdp_nb.models.columns import read_columns

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")

MAPPING = {0: "poisson", (1, 2): "normal", 3: "categorical"}


def table(gaps=False, n=10):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, 2)).round(1)
    x = np.column_stack([rng.poisson(3, n), points, rng.integers(0, 3, n)])
    if gaps:
        x[2, 0], x[4, 1], x[5] = np.nan, np.nan, [np.nan, 0.3, -1.0, np.nan]
    return x


@pytest.mark.parametrize("check", [*IDENTITIES, *DRAWS])
def test_contract(check):
    check_likelihood(as_likelihood(MAPPING), table(), only=[check])


@pytest.mark.parametrize("check", ["chain_rule", "add_remove", "block", "empty"])
def test_identities_with_gaps(check):
    check_likelihood(as_likelihood(MAPPING), table(gaps=True), only=[check])


def test_a_product_is_the_sum_of_its_blocks_over_the_rows_that_each_has():
    fam, x = as_likelihood(MAPPING), table(gaps=True)
    prior = fam.default_prior(x)
    found = fam.log_marginal(prior, filled(fam, prior, fam.check_data(x, prior)), 0)
    wanted = 0.0
    for one, own in ((poisson, x[:, :1]), (normal_inverse_wishart, x[:, 1:3])):
        own = own[~np.isnan(own).any(axis=1)]
        p = one.default_prior(own)
        wanted += one.log_marginal(p, filled(one, p, one.check_data(own, p)), 0)
    symbols = likelihoods["categorical"]
    own = x[~np.isnan(x[:, 3]), 3]
    p = symbols.default_prior(own)
    wanted += symbols.log_marginal(p, filled(symbols, p, symbols.check_data(own, p)), 0)
    assert found == pytest.approx(wanted, rel=1e-12)


def test_the_same_mapping_is_the_same_likelihood():
    assert as_likelihood(MAPPING) is as_likelihood(dict(MAPPING))
    assert as_likelihood(poisson) is poisson
    assert as_likelihood({"n": poisson}) is as_likelihood({"n": "poisson"})
    last = as_likelihood({("x", "y"): "student", "n": "poisson"}).blocks[-1]
    assert last.label == "x,y" and last.fam.name == "student"


@pytest.mark.parametrize(
    "mapping, message",
    [
        ({}, "likelihood must have a column or more, got an empty mapping"),
        ({"a": "normal", ("a", "b"): "normal"}, "must have each column once, got 'a' twice"),
        ({1.5: "normal"}, "must map columns, by name or number, or tuples of them, got 1.5"),
        ({(): "normal"}, r"must map columns, .* got \(\)"),
        ({"a": "nought"}, r"likelihood\['a'\] must be one of .* got 'nought'"),
        ({"a": {"b": "normal"}}, "must map to single families, got a mapping for 'a'"),
        ({("a", "b"): "categorical"}, "has one column for 'categorical', got"),
        ({"a": "student", "b": "negative_binomial"}, "takes one of student or negative_binomial"),
    ],
)
def test_mappings_that_are_refused(mapping, message):
    with pytest.raises(ValueError, match=message):
        as_likelihood(mapping)


def test_blocks_that_are_refused():
    with pytest.raises(ValueError, match="a label each, and be at least one"):
        make_product((Block("a", 1, poisson), Block("a", 1, poisson)))
    with pytest.raises(ValueError, match="that the last one, got 'a' before it"):
        make_product((Block("a", 1, likelihoods["student"]), Block("b", 1, poisson)))


def frame(n=120, seed=0):
    "Two regimes in turns of thirty, with gaps."
    rng, z = np.random.default_rng(seed), np.arange(n) // 30 % 2
    out = pd.DataFrame(
        {
            "unused": np.arange(n),
            "calls": rng.poisson(np.array([2, 12])[z]),
            "sky": np.where(rng.random(n) < 0.1 + 0.8 * z, "blue", "grey"),
            "x": rng.normal(np.array([0, 9])[z], 1),
            "y": rng.normal(size=n),
        }
    )
    out.loc[3, "x"], out.loc[5, "sky"] = np.nan, None
    return out, z


KINDS = {("x", "y"): "student", "calls": "poisson", "sky": "categorical"}


@pytest.mark.slow  # test_clusters_of_rows has another frame
def test_mixture_of_a_frame(tmp_path):
    X, z = frame()
    model = DPMixture(KINDS, n_iter=60, n_chains=1, random_state=0).fit(X)
    again = DPMixture(KINDS, n_iter=60, n_chains=1, random_state=0).fit(X[[*X][::-1]])
    assert (again.labels_ == model.labels_).all()  # whatever the order of the columns
    assert model.n_components_ == 2 and {*model.components_} >= {"calls.rate", "x,y.mean"}
    assert np.mean(model.labels_ == z) in (0, 1)
    assert model.categories_["sky"].tolist() == ["blue", "grey"]
    model.save(tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.likelihood == KINDS and loaded.score(X) == model.score(X)
    assert (loaded.predict(X) == model.labels_).all()
    with pytest.raises(ValueError, match="values of the fit in column 'sky', .* got 'red'"):
        model.predict(X.replace("grey", "red"))


@pytest.mark.slow  # test_states_of_a_frame has another frame
def test_hidden_markov_model_of_frames(tmp_path):
    X, z = frame()
    parts = [X[:70], X[70:]]
    settings = {"n_iter": 60, "n_chains": 1, "init": 4, "max_states": 6, "random_state": 0}
    model = HDPHMM(emission=KINDS, **settings).fit(parts)
    assert np.mean((model.labels_ == 0) == (z == 0)) in (0, 1) and model.n_states_ == 2
    model.save(tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.score(parts) == model.score(parts)
    assert (np.concatenate(loaded.predict(parts)) == model.labels_).all()
    rows, states = model.sample(300, 0)
    high = model.emissions_["x,y.mean"][:, 0].argmax()
    assert rows[states == high, 0].mean() > rows[states != high, 0].mean() + 5  # x comes first
    assert {*np.unique(rows[:, 3])} == {0, 1}


def test_hyperparameters_by_column():
    X, _ = frame()
    prior = {("x", "y"): {"df": 50.0}, "calls": {"shape": 2.0}}
    model = HDPHMM(emission=KINDS, prior=prior, n_iter=4, n_chains=1, init=2, random_state=0)
    fitted = model.fit(X).prior_
    assert fitted["poisson_0_shape"] == 2 and fitted["student_2_df"] == 50
    for wrong, message in (
        ({"colour": {}}, "prior must be None or a dict by columns of the mapping, .* got"),
        (3.0, "prior must be None or a dict by columns"),
        ({"calls": {"colour": 1}}, "prior must be None or a dict of some of shape, rate"),
        ({"calls": {"shape": -1.0}}, r"shape must be .* -1.* \(in 'calls', 'poisson'\)"),
    ):
        with pytest.raises(ValueError, match=message):
            HDPHMM(emission=KINDS, prior=wrong, n_iter=2).fit(X)
        with pytest.raises(ValueError, match=message):
            DPMixture(KINDS, prior=wrong, n_iter=2).fit(X)


@pytest.mark.parametrize(
    "mapping, change, message",
    [
        ({"step": "normal"}, {}, "must name columns of X, which are 'unused', .*; got 'step'"),
        ({"sky": "poisson"}, {}, r"numbers in column 'sky' \(poisson\), got 'grey'|'blue'"),
        ({"calls": "poisson"}, {"calls": -1.0}, r"not be negative, got -1 \(in 'calls', 'poisson'"),
        ({"x": "normal", "y": "normal"}, {"x": np.nan}, r"not missing, got none \(in 'x'"),
        ({0: "normal"}, {}, "must name columns of X, .* got 0"),
    ],
)
def test_frames_that_are_refused(mapping, change, message):
    X, _ = frame()
    with pytest.raises(ValueError, match=message):
        DPMixture(mapping, n_iter=2).fit(X.assign(**change))
    with pytest.raises(ValueError, match=message):
        HDPHMM(emission=mapping, n_iter=2).fit(X.assign(**change))


def test_arrays_that_are_refused():
    for mapping, message in (({"x": "normal"}, "must be a data frame"), ({4: "normal"}, "got 4")):
        with pytest.raises(ValueError, match=message):
            read_columns([table()], mapping, "likelihood")
