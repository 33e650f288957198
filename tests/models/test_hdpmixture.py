"""HDPMixture: what it shows of groups, what it predicts for them, and what it refuses."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from hdp_nb import Corpus, DPMixture, Gamma, HDPMixture, load_model

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
CENTRES = np.array([[0, 0], [7, 0], [0, 7]])
SHARES = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]])


def planted(seed=0, n=150):
    rng = np.random.default_rng(seed)
    group = np.repeat([0, 1], n)
    kind = np.concatenate([rng.choice(3, n, p=p) for p in SHARES])
    return CENTRES[kind] + rng.normal(size=(2 * n, 2)), np.array(["b", "a"])[group], kind


@pytest.fixture(scope="module")
def model():
    X, groups, _ = planted()
    return HDPMixture("normal", n_iter=200, random_state=0).fit(X, groups=groups)


def numbers(model, kind):
    "The cluster that most rows of each kind are in."
    return [np.bincount(model.labels_[kind == k]).argmax() for k in range(3)]


def test_clusters_and_weights(model):
    X, groups, kind = planted()
    assert adjusted_rand_score(kind, model.labels_) > 0.95 and model.verdict_.grade == "agree"
    assert model.groups_.tolist() == ["a", "b"] and model.converged_
    of, J = numbers(model, kind), len(model.groups_)
    assert model.group_weights_.shape == (J, model.n_components_ + 1)
    np.testing.assert_allclose(model.group_weights_.sum(axis=1), 1)
    assert abs(model.group_weights_[:, of] - SHARES[::-1]).max() < 0.1
    low, high = model.group_weight_interval()
    assert ((low <= model.group_weights_) & (model.group_weights_ <= high)).all()
    wide = model.group_weight_interval(0.99)
    assert (wide[0] <= low).all() and (wide[1] >= high).all() and (wide[1] > high).any()
    assert abs(model.components_["mean"][of] - CENTRES).max() < 0.4
    assert {"alpha", "gamma", "joined", "splits_accepted"} <= model.trace_.keys()


def test_the_order_of_rows_and_names_of_groups_do_not_matter(model):
    X, groups, kind = planted()
    other = HDPMixture("normal", n_iter=200, random_state=0).fit(
        [X[groups == "b"], X[groups == "a"]]
    )
    assert other.groups_.tolist() == [0, 1]
    a, b = model.group_weights_[::-1][:, numbers(model, kind)], other.group_weights_
    by_kind = np.concatenate([kind[groups == "b"], kind[groups == "a"]])
    assert abs(a - b[:, numbers(other, by_kind)]).max() < 0.02


def test_predictions_know_the_group(model):
    between, kind = [[3.5, 0.0]], planted()[2]
    of = numbers(model, kind)
    odds = [model.predict_proba(between, groups=[g])[0, of] for g in "ab"]
    assert odds[1][0] > odds[0][0] + 0.1
    p = model.predict_proba([[0.0, 0.0], [60.0, 60.0]], groups=["a", "a"])
    assert p.shape == (2, model.n_components_ + 1) and p[1, -1] > 0.99 > 0.1 > p[0, -1]
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.predict(CENTRES, ["a", "b", "new"]).tolist() == of
    new, none = (model.score_samples(between, groups) for groups in (["other"], None))
    assert new == none and new != model.score_samples(between, ["a"])
    X, groups, _ = planted(1)
    assert model.score(X, groups=groups) > model.score(X, groups=groups[::-1])
    assert model.score(X, groups=groups) > model.score(X)


def test_weights_of_new_groups(model):
    kind = planted()[2]
    of, rng = numbers(model, kind), np.random.default_rng(5)
    z = rng.choice(3, 300, p=[0.05, 0.9, 0.05])
    X, labels = CENTRES[z] + rng.normal(size=(300, 2)), np.repeat(["x", "a", "y"], 100)
    found = model.transform(X, labels)
    assert found.shape == (3, model.n_components_ + 1)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    assert abs(found[1:, of[1]] - 0.9).max() < 0.1  # x and y; "a" has its own rows, too
    at_a = (150 * SHARES[1, 1] + 90) / 250
    assert abs(found[0, of[1]] - at_a) < 0.1
    np.testing.assert_array_equal(found, model.transform(X, labels))
    far = model.transform(np.full((40, 2), 70.0) + rng.normal(size=(40, 2)))
    assert far.shape[0] == 1 and far[0, -1] > 0.8


def test_saved(model, tmp_path):
    model.save(tmp_path / "model.npz")
    again, (X, groups, _) = load_model(tmp_path / "model.npz"), planted(2)
    for name in ("predict_proba", "transform", "score_samples"):
        np.testing.assert_array_equal(
            getattr(again, name)(X, groups), getattr(model, name)(X, groups)
        )
    np.testing.assert_array_equal(again.group_weight_interval(), model.group_weight_interval())
    assert again.groups_.tolist() == ["a", "b"] and again.verdict_ == model.verdict_


def test_consensus_has_the_groups(model):
    found = model.consensus()
    assert found.n_components == 3 and found.documents.shape[0] == 2
    K = found.n_components
    of = [
        np.bincount(found.labels[0][model.samples_["z"][0][planted()[2] == k]]).argmax()
        for k in range(3)
    ]
    assert abs(found.documents[:, :K][:, of] - SHARES[::-1]).max() < 0.1
    assert np.isfinite(found.parameter_interval("mean")).all()


def test_resumed_and_threaded(tmp_path):
    X, groups, _ = planted(n=40)
    make = lambda **more: HDPMixture("normal", n_iter=20, random_state=3, **more)
    plain = make(n_jobs=1).fit(X, groups=groups)
    threads = make(n_jobs=2).fit(X, groups=groups)

    def stop(sweep, state):
        if sweep == 12:
            raise RuntimeError

    file = tmp_path / "chains.npz"
    with pytest.raises(RuntimeError):
        make(n_jobs=1).fit(X, groups=groups, callback=stop, checkpoint=file)
    resumed = make(n_jobs=1).fit(X, groups=groups, checkpoint=file)
    for other in (threads, resumed):
        np.testing.assert_array_equal(plain.samples_["z"], other.samples_["z"])
        np.testing.assert_array_equal(plain.samples_["beta"], other.samples_["beta"])
    with pytest.raises(ValueError, match="checkpoint: can't resume"):
        make(n_jobs=1).fit(X, groups=groups[::-1], checkpoint=file)


@pytest.mark.parametrize(
    "likelihood, X",
    [
        pytest.param("categorical", np.arange(40) % 4, marks=pytest.mark.slow),
        ("multinomial", csr_array(np.random.default_rng(0).poisson(1, (40, 5)))),
        ("poisson", np.random.default_rng(0).poisson([2, 9], (40, 2))),
        pytest.param(
            "normal_inverse_gamma",
            np.random.default_rng(0).normal(size=(40, 2)),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "normal_known_variance",
            np.random.default_rng(0).normal(size=(40, 2)),
            marks=pytest.mark.slow,
        ),
        ("student", np.random.default_rng(0).standard_t(3, (40, 2))),
        ("negative_binomial", np.random.default_rng(0).poisson([2, 9], (40, 2))),
    ],
)
def test_every_likelihood(likelihood, X, tmp_path):
    model = HDPMixture(likelihood, n_iter=8, n_chains=1, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*clusters of their own")
        model.fit(X, groups=np.arange(40) % 3)
    model.save(tmp_path / "model.npz")
    again, few = load_model(tmp_path / "model.npz"), X[:6]
    for of in (model, again):
        assert of.predict_proba(few, [0, 1, 2, 0, 1, 9]).shape == (6, model.n_components_ + 1)
    assert again.score(few) == model.score(few) and np.isfinite(model.score(few))


def test_missing_cells():
    X, groups, kind = planted()
    X[::9, 0] = np.nan
    model = HDPMixture("student", n_iter=80, random_state=0).fit(X, groups=groups)
    assert adjusted_rand_score(kind, model.labels_) > 0.85
    assert np.isfinite(model.group_weight_interval()).all()


def test_groups_of_a_corpus():
    docs = 10 * [["tea"] * 5 + ["milk"]] + 10 * [["sea"] * 4 + ["boat"]]
    corpus = Corpus.from_docs(docs, groups={"shop": 10 * ["x", "y"]})
    model = HDPMixture("multinomial", n_iter=40, n_chains=1, random_state=0)
    model.fit(corpus, groups="shop")
    assert model.groups_.tolist() == ["x", "y"] and model.vocabulary_ == corpus.vocab
    assert model.predict(corpus, "shop").tolist() == model.labels_.tolist()


def test_one_group_without_a_label():
    X = planted(n=30)[0]
    model = HDPMixture("normal", n_iter=20, random_state=0).fit(X)
    assert model.groups_ is None and len(model.group_weights_) == 1
    assert model.score(X) == model.score_samples(X).mean()


def test_groups_pay_where_shares_differ():
    "Held-out rows of overlapping kinds, beside a mixture that does not know the groups."
    rng = np.random.default_rng(0)

    def draw(n):
        group = np.repeat(np.arange(10), n)
        kind = rng.random(10 * n) < np.where(group % 2, 0.95, 0.05)
        return rng.normal(2.5 * kind[:, None], 1, (10 * n, 2)), group

    (X, group), (new, of) = draw(40), draw(40)
    alone = DPMixture("normal", n_iter=200, random_state=0).fit(X).score(new)
    assert (
        HDPMixture("normal", n_iter=200, random_state=0).fit(X, groups=group).score(new, groups=of)
        > alone + 0.2
    )


@pytest.mark.parametrize(
    "X, groups, message",
    [
        (np.eye(4), ["a", None, "b", "a"], "whole number or string for each of the 4 rows, got No"),
        (np.eye(4), ["a", np.nan, "b", "a"], "got nan at 1"),
        (np.eye(4), [1.0, np.nan, 2.0, 2.0], "got 1.0 at 0"),
        (np.eye(4), ["a", 1, 1, 1], "got 1 at 1"),
        (np.eye(4), ["a", "b"], "for each of the 4 rows, got object of shape .2,"),
        (np.eye(4), "ward", "one label per row, or a column of X that holds them .none here."),
        ([np.eye(2), np.zeros((0, 2))], None, "rows in every group, got none in group 1"),
        ([np.eye(2), np.eye(3)], None, r"same columns in every group, got \(2, 2\) in group 0"),
        ([np.eye(2), np.eye(2)], [0, 0, 1, 1], "groups must be None where X is a list"),
        ([["a", "b"], ["c", "d"]], [0, 1], "X"),
        (np.full((4, 2), np.inf), [0, 0, 1, 1], "inf"),
    ],
)
def test_bad_groups(X, groups, message):
    with pytest.raises(ValueError, match=message):
        HDPMixture("normal", n_iter=2).fit(X, groups=groups)


def test_bad_arguments(model):
    X, groups, _ = planted(n=10)
    for name, value in (("alpha", 0), ("gamma", -1), ("gamma", "one"), ("init", 0), ("moves", -1)):
        with pytest.raises(ValueError, match=name):
            HDPMixture("normal", n_iter=2, **{name: value}).fit(X, groups=groups)
    with pytest.raises(ValueError, match="groups must be strings, as in the fit, got whole num"):
        model.predict(X, np.zeros(20, int))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(np.zeros((2, 3)), ["a", "b"])
    with pytest.raises(ValueError, match="for each of the 20 rows"):
        model.transform(X, ["a"])
    with pytest.raises(ValueError, match="level"):
        model.group_weight_interval(2)


def test_held_concentrations_stay():
    X, groups, _ = planted(n=20)
    model = HDPMixture("normal", alpha=2.0, gamma=Gamma(2, 1), n_iter=20, random_state=0)
    model.fit(X, groups=groups)
    assert (model.trace_["alpha"] == 2).all() and len({*model.trace_["gamma"]}) > 10


def test_a_million_groups_of_one_row_each():
    n = 1_000_000
    X = np.random.default_rng(0).normal(8.0 * (np.arange(n) % 2), 1)[:, None]
    model = HDPMixture("normal", init=2, moves=0, n_iter=2, n_chains=1, thin=1, random_state=0)
    model.fit(X, groups=np.arange(n))
    assert model.group_weights_.shape == (n, model.n_components_ + 1)


def test_as_many_groups_as_rows():
    X, _, kind = planted(n=50)
    model = HDPMixture("normal", n_iter=60, random_state=0).fit(X, groups=np.arange(100))
    assert adjusted_rand_score(kind, model.labels_) > 0.9
    own = model.group_weights_[np.arange(100), model.labels_]
    assert own.mean() > model.group_weights_[np.arange(100), model.labels_[::-1]].mean()


def test_frames_with_a_column_of_groups_or_one_for_each_group():
    rng, z = np.random.default_rng(0), np.repeat([0, 1, 0, 1], [30, 10, 10, 30])
    X = pd.DataFrame({"x": rng.normal(6 * z), "calls": rng.poisson(3 + 5 * z)})
    X["site"], ward = np.where(z == 0, "a", "b"), np.repeat(["north", "south"], 40)
    kinds = {"x": "student", "calls": "poisson", "site": "categorical"}
    settings = {"n_iter": 400, "init": 2, "n_chains": 1, "random_state": 0}
    model = HDPMixture(kinds, **settings).fit(X.assign(ward=ward), groups="ward")
    assert model.groups_.tolist() == ["north", "south"]
    assert adjusted_rand_score(z, model.labels_) > 0.9 and np.ptp(model.group_weights_[:, 0]) > 0.3
    parts = HDPMixture(kinds, **settings).fit([X[:40], X[40:]])
    assert (parts.labels_ == model.labels_).all() and parts.groups_.tolist() == [0, 1]
    numbers = X[["x", "calls"]].assign(ward=ward)
    plain = HDPMixture("normal", **settings).fit(numbers, groups="ward")
    assert plain.n_features_in_ == 2 and plain.feature_names_in_.tolist() == ["x", "calls"]
    assert (plain.predict(numbers, groups="ward") == plain.predict(X[["x", "calls"]], ward)).all()
    with pytest.raises(ValueError, match=r"a column of X that holds them \(x, calls, ward\)"):
        plain.predict(numbers, groups="town")
    with pytest.raises(ValueError, match=r"same columns in every group, got \['x', 'calls', 's"):
        parts.fit([X[:40], X[40:].rename(columns={"site": "place"})])


def test_merged_and_dropped_clusters_have_weights_in_groups(tmp_path):
    rng = np.random.default_rng(0)
    X = np.repeat([0.0, 20.0, 26.0], [60, 40, 30])[:, None] + rng.normal(size=(130, 1))
    model = HDPMixture("normal", n_iter=200, random_state=0).fit(X, groups=65 * ["a", "b"])
    model = model.drop(range(3, model.n_components_))
    merged, less = model.merge([1, 2]), model.drop([2])
    assert (
        np.bincount(merged.labels_).tolist() == [70, 60] and (less.labels_ == merged.labels_).all()
    )
    wide = model.group_weights_
    assert np.allclose(merged.group_weights_[:, 0], wide[:, 1] + wide[:, 2])
    assert np.allclose(merged.group_weights_.sum(axis=1), 1)
    merged.relabel({0: "far"}).save(tmp_path / "merged.npz")
    again = load_model(tmp_path / "merged.npz")
    assert again.component_labels_ == ["far", "cluster 1"]
    assert (again.predict(X, ["a"] * 130) == merged.labels_).all()
