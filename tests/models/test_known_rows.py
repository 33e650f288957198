"""Known states and clusters of the estimators: what is shown, alarms, saving, bad input."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import hdp_nb
from hdp_nb import HDPHMM, DPMixture, HDPMixture, Known
from hdp_nb.models.known_rows import conformal_threshold, hellinger

KNOWN = {"low": {"rate": 2.0}, "high": {"rate": 30.0}, "absent": {"rate": 300.0}}


def rows(seed=0, n=90):
    rng = np.random.default_rng(seed)
    true = np.repeat(rng.integers(3, size=n // 9), 9)
    return rng.poisson(np.array([2, 30, 90])[true]), true


def fit(kind, known=KNOWN, seed=0, **more):
    x, _ = rows(seed)
    name = {"emission": "poisson"} if kind is HDPHMM else {"likelihood": "poisson"}
    broad = {"shape": 1.0, "rate": 0.01}  # what is new may be anywhere
    options = dict(prior=broad, n_iter=60, n_chains=2, random_state=0, n_jobs=1) | name | more
    if kind is HDPHMM:
        options |= {"max_states": 8}
    of_fit = {"groups": np.arange(len(x)) % 2} if kind is HDPMixture else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hdp_nb.ConvergenceWarning)
        return kind(known=known, **options).fit(x[:, None], **of_fit)


@pytest.fixture(scope="module", params=[HDPHMM, DPMixture, HDPMixture])
def model(request):
    return fit(request.param)


def test_what_is_shown(model):
    x, true = rows()
    assert model.known_[:4].tolist() == [0, 1, 2, -1]
    assert model.component_labels_[:3] == [*KNOWN]
    for k, wanted in ((0, 0), (1, 1), (2, 3)):
        assert (model.labels_[true == k] == wanted).mean() > 0.9
    table = model.components()
    assert list(table["known"])[:4] == [True, True, True, False]
    assert list(table["used"])[:3] == [1.0, 1.0, 0.0] and list(table["like"])[3] == "high"
    distance = np.array(table["distance"])
    assert (distance[:3] < 0.1).all() and distance[3] > 0.9
    assert (np.array(table["distance_low"])[:4] <= distance[:4]).all()
    assert model.told_["rate"].ravel() == pytest.approx([2, 30, 300], rel=0.01)
    assert model.consensus().n_components >= 4


def test_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model.npz")
    again = type(model).load(tmp_path / "model.npz")
    assert again.known_names_ == [*KNOWN] and np.array_equal(again.known_, model.known_)
    x = rows()[0][:9, None]
    assert np.array_equal(again.predict(x), model.predict(x))
    assert np.allclose(again.novelty(x), model.novelty(x))


def test_predictions_of_what_is_new(model):
    x = np.repeat([2, 2000, 30], 9)[:, None]
    proba = model.predict_proba(x, none=True) if type(model) is HDPHMM else model.predict_proba(x)
    assert proba.shape[1] == model._n_shown() + 1 and np.allclose(proba.sum(axis=1), 1)
    assert ((proba[:, -1] > 0.5) == (x[:, 0] > 1000)).all()
    assert ((model.novelty(x) > 0) == (x[:, 0] > 1000)).all()


def test_merged_and_dropped_ones(model):
    merged = model.merge([0, 3])
    k = merged.component_labels_.index("low")
    assert merged.known_[k] == 0 and sorted(merged.known_[merged.known_ >= 0]) == [0, 1, 2]
    dropped = model.drop([2])
    assert sorted(dropped.known_[dropped.known_ >= 0]) == [0, 1]
    assert dropped.predict(rows()[0][:3, None]).max() < dropped._n_shown()


@pytest.mark.parametrize("kind", [HDPHMM, DPMixture, HDPMixture])
def test_next_data(kind):
    "A fitted model is known to the next one, by its names; a clone of that is not fitted to it."
    first = fit(kind)
    second = fit(kind, Known(first, strength=50), seed=1)
    assert second.known_names_ == [
        label
        for k, label in enumerate(first.component_labels_)
        if np.mean(first.labels_ == k) >= 0.001
    ]
    assert hasattr(clone(second).known.table, "labels_")


def test_alarms(model):
    x = np.repeat([2, 2000, 30], 9)[:, None]
    if type(model) is HDPHMM:
        held_out = [rows(seed)[0][:, None] for seed in range(2, 8)]
        alarm = model.alarm(x, held_out, rate=0.1, stretch=9)
        assert alarm.n_stretches == 60 and alarm.steps[9:18].all()
        assert not (alarm.steps[:5].any() or alarm.steps[23:].any())
        with pytest.raises(ValueError, match="held_out must have 99 stretches or more"):
            model.alarm(x, held_out, stretch=9)
        return
    held_out = np.concatenate([rows(seed)[0] for seed in range(2, 8)])[:, None]
    alarm = model.alarm(x, held_out)
    assert np.flatnonzero(alarm.steps).tolist() == [*range(9, 18)] and alarm.n_stretches == 540


def test_thresholds_are_exceeded_as_often_as_asked():
    "By (KV2): the mean rate of false alarms, over many calibrations; the median is no threshold."
    rng, rates = np.random.default_rng(0), {0.01: [], 0.1: []}
    for _ in range(400):
        for rate, of in rates.items():
            threshold = conformal_threshold(rng.normal(size=199), rate)
            of.append((rng.normal(size=500) > threshold).mean())
    for rate, of in rates.items():
        assert 0.8 * rate < np.mean(of) < 1.1 * rate
    assert conformal_threshold(np.arange(99.0), 0.5) == 49


def test_hellinger_against_an_integral():
    one = {"mean": np.array([[1.0]]), "variance": np.array([[2.0]])}
    other = {"mean": np.array([[-0.5]]), "variance": np.array([[0.3]])}
    grid = np.linspace(-12, 12, 20_001)
    f, g = (
        np.exp(-((grid - of["mean"][0]) ** 2) / (2 * of["variance"][0]))
        / np.sqrt(2 * np.pi * of["variance"][0])
        for of in (one, other)
    )
    exact = np.sqrt(1 - np.trapezoid(np.sqrt(f * g), grid))
    assert hellinger(one, other)[0, 0] == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize("kind", [HDPHMM, DPMixture, HDPMixture])
@pytest.mark.parametrize(
    "known, message",
    [
        ({}, "known must be a dict from names to parameters"),
        ([[1.0]], "known must be a dict from names to parameters"),
        ({1: {"rate": 1.0}}, "known must have strings for names"),
        ({"a": {"rate": [1.0, 2.0]}}, r"known\['a'\] rate must have 1 numbers, one for each"),
        ({"a": {"rate": -1.0}}, r"known\['a'\] rate must be above 0"),
        ({"a": {"rate": "x"}}, r"known\['a'\] rate must be numbers"),
        ({"a": {"mean": 1.0}}, r"known\['a'\] must have rate, got mean"),
        ({"a": 3.0}, r"known\['a'\] must be a dict with rate"),
        (Known({"a": {"rate": 1.0}}, strength=0), "strength of known must be 1 or more"),
        (Known({"a": {"rate": 1.0}}, strength=[1, 2]), "strength of known must be a number, or"),
        (Known({"a": {"rate": 1.0}}, weight=0), "weight of known must be a number above 0"),
        ({f"{k}": {"rate": 1.0} for k in range(91)}, "known must not have more"),
        (hdp_nb.LDA(2), "known must be a fitted"),
    ],
)
def test_bad_input(kind, known, message):
    with pytest.raises(ValueError, match=message):
        fit(kind, known, n_iter=2, n_chains=1)


def test_other_bad_input():
    x = rows()[0]
    clusters = DPMixture("poisson", n_iter=4, n_chains=1).fit(x[:, None])
    with pytest.raises(ValueError, match="known must be a fitted HDPHMM"):
        fit(HDPHMM, clusters, n_iter=2)
    with pytest.raises(ValueError, match="known must be of 'categorical'.*a fit of 'poisson'"):
        DPMixture(known=clusters).fit([0, 1, 1])
    with pytest.raises(ValueError, match="known must be a fitted HDPMixture"):
        fit(HDPMixture, clusters, n_iter=2)
    with pytest.raises(ValueError, match="known must be None where sequences have groups"):
        HDPHMM(emission="poisson", known=KNOWN).fit(x, [45, 45], groups=[0, 1])
    with pytest.raises(ValueError, match="sampler must be 'auto' or 'collapsed' with known"):
        DPMixture("normal", known={"a": {"mean": 0, "cov": 1}}, sampler="subclusters").fit(
            np.arange(9.0)[:, None]
        )
    with pytest.raises(ValueError, match="covariance must be symmetric and positive definite"):
        known = {"a": {"mean": [0, 0], "cov": [[1, 2], [2, 1]]}}
        DPMixture("normal", known=known).fit(np.zeros((5, 2)) + np.arange(5)[:, None])
    with pytest.raises(ValueError, match="phi must sum to 1"):
        HDPHMM(known={"a": {"probabilities": [0.5, 0.2]}}).fit([0, 1, 0])
    with pytest.raises(ValueError, match="known takes components of .*; got those of 'autoreg"):
        HDPHMM(emission="autoregression", known={"a": {"mean": 0}}).fit(np.arange(20.0))


def test_groups_with_known_clusters():
    "Weights of groups, of new rows, and their intervals; a fit that is continued ends the same."
    model = fit(HDPMixture)
    x, true = rows()
    weights = model.group_weights_
    assert weights.shape == (2, model.n_components_ + 1) and np.allclose(weights.sum(axis=1), 1)
    share = (true == 0).reshape(-1, 2).mean(axis=0)
    assert weights[:, 0] == pytest.approx(share, abs=0.1) and weights[:, 2].max() < 0.05
    low, high = model.group_weight_interval()
    assert ((low <= weights) & (weights <= high)).all()
    new = model.transform(np.full((40, 1), 30), groups=40 * [7])
    assert new[0, 1] > 0.8 and np.allclose(new.sum(), 1)
    alarm = model.alarm([[2], [2000]], x[:, None], [0, 1], np.arange(90) % 2, rate=0.05)
    assert alarm.steps.tolist() == [False, True]


def test_nothing_known_has_the_same_bits():
    x = rows()[0][:, None]
    one, other = (
        HDPMixture("poisson", n_iter=10, n_chains=1, random_state=0, **more).fit(x)
        for more in ({}, {"known": None})
    )
    assert np.array_equal(one.labels_, other.labels_) and (one.known_ == -1).all()
    assert np.array_equal(one.trace_["log_joint"], other.trace_["log_joint"])


@pytest.mark.parametrize("kind", [DPMixture, HDPMixture])
def test_resumed(kind, tmp_path):
    "A run that is stopped and resumed from its checkpoint ends as one in one go does."
    x = rows()[0][:, None]
    make = lambda n: kind("poisson", known=KNOWN, n_iter=n, n_chains=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hdp_nb.ConvergenceWarning)
        whole = make(20).fit(x)
        halfway = []

        def stop(sweep, state):
            halfway.append(sweep)
            if sweep == 11:
                raise KeyboardInterrupt

        part = make(20).fit(x, callback=stop, checkpoint=tmp_path / "at")
        again = make(20).fit(x, checkpoint=tmp_path / "at")
    assert part.interrupted_ and len(halfway) < 20
    assert np.array_equal(again.samples_["z"], whole.samples_["z"])
