"""Tables, intervals, merged, dropped and named components of states and clusters."""

import numpy as np
import pandas as pd
import pytest

from hdp_nb import HDPHMM, DPMixture, load_model
from hdp_nb.models.components import follow, unite_parameters, with_interval
from hdp_nb.models.consensus import Components, group_table
from hdp_nb.models.states import find_bouts

LEVELS = np.tile([0.0, 9.0, 4.0, 9.0, 0.0], 2)


def recording(seed, levels=LEVELS):
    return np.random.default_rng(seed).normal(np.repeat(levels, 15))[:, None]


X = [recording(seed) for seed in range(3)]
NEW = [recording(7)[:40], recording(8)[20:90], recording(9)[:1]]


@pytest.fixture(scope="module")
def model():
    return HDPHMM(emission="normal", n_iter=200, random_state=0).fit(X)


@pytest.fixture(scope="module")
def grouped():
    hmm = HDPHMM(emission="normal", n_iter=200, random_state=0)
    return hmm.fit(X, groups=["b", "a", "b"])


def paths(model):
    "The paths of the samples in numbers of what is shown, worked out row by row."
    return [np.append(to, -1)[s.z] for s, to in zip(model.samples_, model._followed()[1])]


def test_following_by_hand():
    "A part is a component that lies within; a union is the same one if its cosine is .75."
    labels = np.repeat([0, 1], [6, 4])
    tables = {
        (0, 0, 0, 0, 2, 2, 1, 1, 1, 1): [0, 1, 0],  # in two pieces
        (0,) * 10: [0],  # 6 of 10: the cosine is .77
        (0, 0, 0, 1, 1, 1, 1, 1, 1, 1): [-1, 1],  # 3 of 6, cosine .71; 4 of 7, cosine .76
    }
    samples = [Components(group_table(np.array(z), max(z) + 1)) for z in tables]
    assert [a.tolist() for a in follow(samples, labels, 2)] == [*tables.values()]


def test_uniting_nothing_changes_nothing():
    "Whatever the order, and with a covariance that has no mean."
    given = {"mean": np.arange(6.0).reshape(3, 2), "covariance": np.full((3, 2, 2), np.inf)}
    same = unite_parameters(given, np.array([2, 0, 1]), 3, np.ones(3))
    assert (same["mean"] == given["mean"][[1, 2, 0]]).all() and np.isinf(same["covariance"]).all()


def test_intervals_are_those_of_the_samples(model):
    "Shares, dwell times and means, sample by sample."
    table, K = model.components(level=0.8), model.n_states_
    shares = np.array([[np.mean(z == k) for k in range(K)] for z in paths(model)])
    low, high = np.quantile(shares, [0.1, 0.9], axis=0, method="weibull")
    assert np.allclose(table["share"], shares.mean(axis=0))
    assert np.allclose(table["share_low"], low) and np.allclose(table["share_high"], high)
    for k in range(K):
        bouts = []
        for z in paths(model):
            runs = [
                run
                for part in np.split(z, 3)
                for run in np.split(part, np.flatnonzero(np.diff(part)) + 1)
            ]
            lengths = [len(run) for run in runs if run[0] == k]
            bouts += [np.mean(lengths)] if lengths else []
        assert np.isclose(table["dwell"][k], np.mean(bouts))
        assert np.isclose(table["dwell_low"][k], np.quantile(bouts, 0.1, method="weibull"))
    samples, found = model._followed()
    drawn = [s.draws["mean"][to == 0, :, 0].ravel() for s, to in zip(samples, found)]
    one = with_interval("mean", np.concatenate(drawn)[:, None], 0.8)
    if all((to == 0).sum() <= 1 for to in found):
        assert np.isclose(table["mean_low"][0], one["mean_low"][0])
    x, y = np.concatenate(X), model.labels_
    for k in range(K):  # of a normal with known steps, nearly
        n = np.count_nonzero(y == k)
        width = 2 * 1.2816 * x[y == k].std() / np.sqrt(n)
        assert 0.7 < (table["mean_high"][k] - table["mean_low"][k]) / width < 1.6


def test_small_components_can_be_left_out(model):
    table = model.components()
    few = model.components(min_share=0.3)
    assert list(few["state"]) == [k for k in table["state"] if table["share"][k] >= 0.3]
    with pytest.raises(ValueError, match="min_share must be a number from 0 to 1, got 2"):
        model.components(min_share=2)


@pytest.mark.parametrize("which", ["model", "grouped"])
def test_transitions(which, request):
    "Rows of the mean sum to 1, lie within their intervals and near those that are shown."
    fitted = request.getfixturevalue(which)
    found = fitted.transitions()
    assert found.mean.shape == fitted.transmat_.shape
    assert np.allclose(found.mean.sum(axis=-1), 1)
    assert (found.low <= found.mean).all() and (found.mean <= found.high).all()
    inside = (found.low <= fitted.transmat_) & (fitted.transmat_ <= found.high)
    assert inside.mean() > 0.9


def test_bouts_cover_the_paths(model):
    table = model.bouts()
    z = np.concatenate([[state] * n for state, n in zip(table["state"], table["length"])])
    assert (z == model.labels_).all()
    assert (np.subtract(table["end"], table["start"]) == table["length"]).all()
    ends = [max(table["end"][table["sequence"] == s]) for s in range(3)]
    assert ends == [len(x) for x in X]
    of_new = model.bouts(NEW)
    for s, path in enumerate(model.predict(NEW)):
        here = of_new[of_new["sequence"] == s]
        assert (np.repeat(here["state"], here["length"]) == path).all()
    sequence, start, end = find_bouts(np.array([1, 1, 1]), np.array([0, 0, 2, 2, 3]))
    assert (sequence.tolist(), start.tolist(), end.tolist()) == ([1, 3], [0, 2], [2, 3])


def test_a_list_for_a_list(model, grouped):
    lengths = [len(x) for x in NEW]
    for fitted, more in ((model, {}), (grouped, {"groups": ["a", "b", "a"]})):
        for method in ("predict", "predict_proba"):
            ask = getattr(fitted, method)
            parts, whole = ask(NEW, **more), ask(np.concatenate(NEW), lengths, **more)
            assert isinstance(parts, list) and [len(part) for part in parts] == lengths
            assert (np.concatenate(parts) == whole).all()
        posterior = fitted.predict(NEW, method="posterior", **more)
        assert (np.concatenate(posterior) == whole.argmax(axis=1)).all()


def test_merged_states(model, tmp_path):
    "Labels, predictions and flows add up, densities stay, and a file keeps it all."
    model.relabel({1: "high"})
    merged = model.merge([0, "high"])
    model.relabel(None)
    to = np.full(model.n_states_, -1)
    to[[0, 1]] = merged.labels_[model.labels_ == 0][0]
    for k in range(2, model.n_states_):
        to[k] = merged.labels_[model.labels_ == k][0]
    assert merged.n_states_ == model.n_states_ - 1 and model.parts_ is None
    assert (merged.labels_ == to[model.labels_]).all()
    assert "high" in merged.component_labels_ and merged.component_labels_[to[0]] == "high"
    merged.save(tmp_path / "merged.npz")
    again = load_model(tmp_path / "merged.npz")
    for one in (merged, again):
        assert all((a == to[b]).all() for a, b in zip(one.predict(NEW), model.predict(NEW)))
        added = model.predict_proba(NEW)[0] @ np.eye(one.n_states_)[to]
        assert np.allclose(one.predict_proba(NEW)[0], added)
        assert one.score(NEW) == model.score(NEW)
        assert np.allclose(one.transmat_.sum(axis=1), 1)
        assert one.component_labels_ == merged.component_labels_
        assert list(one.components()["state"]) == [*range(one.n_states_)]
        steps, states = one.sample(200, random_state=0)
        assert states.max() < one.n_states_
    x = np.concatenate(X)[model.labels_ < 2]
    assert abs(merged.emissions_["mean"][to[0]] - x.mean()) < 0.2
    assert abs(merged.emissions_["covariance"][to[0], 0, 0] / x.var() - 1) < 0.1


@pytest.mark.parametrize("which", ["model", "grouped"])
def test_dropped_states(which, request):
    "Its steps go to others, and all that sums to 1 still does."
    fitted = request.getfixturevalue(which)
    less, gone = fitted.drop([1]), fitted.labels_ == 1
    assert less.n_states_ == fitted.n_states_ - 1
    place = {fitted.labels_[i]: less.labels_[i] for i in np.flatnonzero(~gone)}
    assert (less.labels_[~gone] == [place[k] for k in fitted.labels_[~gone]]).all()
    assert np.allclose(less.transmat_.sum(axis=-1), 1) and np.isclose(less.weights_.sum(), 1)
    given = {} if which == "model" else {"groups": ["a", "b", "a"]}
    assert all(np.allclose(part.sum(axis=1), 1) for part in less.predict_proba(NEW, **given))
    assert np.allclose(
        np.sort(less.emissions_["mean"].ravel()),
        np.sort(fitted.emissions_["mean"][np.arange(fitted.n_states_) != 1].ravel()),
    )


def test_what_cannot_be_done(model):
    K = model.n_states_
    for groups, message in (
        ([[*range(K)]], f"groups must leave two states or more, got all {K} in one group"),
        ([[0, 1], [1, 2]], "groups must not share a state, got 1 twice"),
        ([[0, K]], "state must be"),
        ([["low", 1]], "'low' is none of"),
    ):
        with pytest.raises(ValueError, match=message):
            model.merge(*groups)
    with pytest.raises(ValueError, match=f"must leave one state or more, got all {K}"):
        model.drop(range(K))
    for labels in (["a"], {0: 3}, "a", {0: "b", 1: "b"}):
        with pytest.raises(ValueError, match="labels must"):
            model.relabel(labels)
    with pytest.raises(ValueError, match="other must be a fitted model"):
        model.match(3)
    with pytest.raises(ValueError, match="same 450 rows or steps, got 150"):
        model.match(HDPHMM(emission="normal", n_iter=20, random_state=0).fit(X[0]))


def test_matching_finds_a_permutation(model):
    "The same states in another order, on the steps of the fit and on new ones."
    K = model.n_states_
    other = model._regrouped(np.arange(K))
    order = np.random.default_rng(0).permutation(K)
    other._show_parts(order[other._number()], order[other.labels_])
    found = model.match(other)
    assert (found.permutation == order).all() and (found.distances == 0).all()
    seen = np.unique(np.concatenate(model.predict(NEW)))
    assert (model.match(other, NEW).permutation[seen] == order[seen]).all()


def test_a_new_group_is_a_child_of_the_parent(grouped):
    "Nothing is known of its transitions but the global weights; a group of the fit is itself."
    own, new = (grouped.predict_proba(NEW[1], groups=[g]) for g in ("a", "new"))
    assert own.shape == new.shape and np.allclose(new.sum(axis=1), 1) and not (own == new).all()
    x = [recording(1)[:1]]
    sample, mean = grouped.samples_[grouped.best_], grouped.emissions_
    density = np.exp(-((x[0][0] - mean["mean"].ravel()) ** 2) / 2 / mean["covariance"].ravel())
    first = grouped.weights_[:-1] * density / np.sqrt(mean["covariance"].ravel())
    proba = grouped.predict_proba(x, groups=["new"])[0][0]
    assert sample.beta.shape == (3, grouped.n_states_ + 1)
    assert np.allclose(proba, first / first.sum(), atol=0.02)
    both = grouped.predict(NEW, groups=["new", "a", "new"])
    assert (both[1] == grouped.predict(NEW[1], groups=["a"])).all()
    assert np.isfinite(grouped.score(NEW, groups=["new", "a", "newer"]))
    with pytest.raises(ValueError, match="kind of those of the fit .'a', 'b'., got 3"):
        grouped.predict(NEW[0], groups=[3])


def test_dwell_times_of_the_model(model):
    "Drawn paths have the mean that a geometric time has, and the samples their own."
    found = model.dwell_times()
    assert np.allclose(found.mean, model.components()["dwell"])
    assert [len(a) for a in found.runs] == [
        sum(
            np.count_nonzero(z[find_bouts(z, np.arange(0, 451, 150))[1]] == k) for z in paths(model)
        )
        for k in range(model.n_states_)
    ]
    assert "steps a bout lasts" in repr(found) and len(found.table()) == model.n_states_


def test_geometric_dwell_times_pass_the_check():
    "And regular ones do not."
    rng, kinds = np.random.default_rng(0), {}
    for kind, lengths in (("regular", np.full(40, 12)), ("geometric", rng.geometric(1 / 12, 40))):
        x = rng.normal(np.repeat(np.arange(40) % 2 * 8.0, lengths))
        hmm = HDPHMM(emission="normal", n_iter=200, random_state=0).fit(x)
        kinds[kind] = hmm.drop(range(2, hmm.n_states_)).dwell_times()
        assert kinds[kind].low.min() - 1 < lengths.mean() < kinds[kind].high.max() + 1
    right = kinds["geometric"]
    assert (right.implied_low < 12).all() and (12 < right.implied_high).all()
    assert kinds["regular"].p_value.max() < 0.05 < kinds["geometric"].p_value.min()


def test_clusters_merged_and_dropped(tmp_path):
    "Rows of a dropped cluster go to the nearest other; a file keeps the parts."
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 20.0, 26.0], [60, 40, 30])[:, None] + rng.normal(size=(130, 1))
    model = DPMixture("normal", n_iter=200, random_state=0).fit(x)
    model = model.drop(range(3, model.n_components_))
    assert np.bincount(model.labels_).tolist() == [60, 40, 30]
    less, merged = model.drop([2]), model.merge([1, 2])
    assert (less.labels_ == merged.labels_).all() and np.bincount(less.labels_).tolist() == [70, 60]
    proba, wide = merged.predict_proba(x), model.predict_proba(x)
    assert (
        np.allclose(proba.sum(axis=1), 1)
        and (proba[:, :-1].argmax(axis=1) == merged.predict(x)).all()
    )
    assert np.allclose(proba[:, 0], wide[:, 1:-1].sum(axis=1))
    assert np.allclose(proba[:, -1], wide[:, -1])
    assert model.predict_proba([[500.0]])[0, -1] > 0.9 > 0.1 > wide[:, -1].max()
    assert (merged.score_samples(x) == model.score_samples(x)).all()
    merged.save(tmp_path / "merged.npz")
    again = load_model(tmp_path / "merged.npz")
    assert (again.predict(x) == merged.predict(x)).all()
    assert again.components().equals(merged.components())
    table = model.components()
    for k, rows in enumerate((x[:60], x[60:100], x[100:])):
        width = 2 * 1.645 * rows.std() / np.sqrt(len(rows))
        assert 0.7 < (table["mean_high"][k] - table["mean_low"][k]) / width < 1.6
        assert table["mean_low"][k] < rows.mean() < table["mean_high"][k]
    with pytest.raises(ValueError, match="two clusters or more, got all 3"):
        model.merge([0, 1, 2])


def test_columns_of_different_kinds():
    "Spreads are deviations of each column, and those of merged clusters hold how far means differ."
    rng, z = np.random.default_rng(0), np.repeat([0, 1, 2], [60, 50, 40])
    X = {"x": rng.normal(20.0 * z), "site": z}
    model = DPMixture({"x": "normal", "site": "categorical"}, n_iter=200, random_state=0).fit(
        pd.DataFrame(X)
    )
    model = model.drop(range(3, model.n_components_))
    table, merged = model.components(), model.merge([1, 2]).components()
    shown = np.sqrt(model.components_["x.covariance"].ravel())  # the prior's share included
    assert np.allclose(table["x.sd"], shown, rtol=0.05) and "x.covariance" not in table
    sd = [X["x"][z == 0].std(), X["x"][z > 0].std()]
    apart = merged["x.sd"].argmax()  # two means 20 apart
    assert abs(merged["x.sd"][apart] / max(sd) - 1) < 0.05


def test_steps_add_up_to_the_plug_in(model):
    steps = model.score_steps(NEW)
    assert [len(one) for one in steps] == [len(x) for x in NEW]
    assert np.allclose([one.sum() for one in steps], model.score_samples(NEW, method="plug-in"))
    joined = model.score_steps(np.concatenate(NEW), [len(x) for x in NEW])
    assert (joined == np.concatenate(steps)).all()
    gap = np.array(NEW[0], float)
    gap[1] = np.nan
    assert model.score_steps(gap)[1] == 0


def test_a_path_and_its_joint_density(model):
    "The density of a step in a state is taken from the scores of single steps."
    x, K = NEW[0][:4], model.n_states_
    for algorithm in ("viterbi", "map"):
        best, path = model.decode(x, algorithm=algorithm)
        joint = (
            np.log(model.startprob_[path[0]]) + np.log(model.transmat_[path[:-1], path[1:]]).sum()
        )
        alone = [model.decode(x[[t]]) for t in range(4)]
        if all(one[0] == k for (_, one), k in zip(alone, path)):
            joint += sum(log_p - np.log(model.startprob_[k]) for (log_p, _), k in zip(alone, path))
            assert np.isclose(best, joint)
    both = model.decode(NEW)
    assert np.isclose(both[0], sum(model.decode(x)[0] for x in NEW))
    assert [z.tolist() for z in both[1]] == [z.tolist() for z in model.predict(NEW)]
    if K > 2:
        assert np.isclose(model.merge([1, 2]).decode(x)[0], model.decode(x)[0])
    with pytest.raises(ValueError, match="algorithm must be 'viterbi' or 'map', got 'best'"):
        model.decode(x, algorithm="best")


def test_names_of_hmmlearn(model):
    K = model.n_states_
    assert model.means_.shape[0] == model.covars_.shape[0] == K and model.covars_.ndim == 3
    assert model.startprob_.shape == (K,)
    p = model.get_stationary_distribution()
    assert np.allclose(p @ model.transmat_, p) and np.isclose(p.sum(), 1)
    assert not hasattr(model, "lambdas_") and not hasattr(model, "emissionprob_")
    assert not hasattr(HDPHMM(), "means_")


def test_rows_drawn_from_a_mixture():
    rng = np.random.default_rng(0)
    x = np.repeat([0.0, 20.0, 40.0], [60, 40, 30])[:, None] + rng.normal(size=(130, 1))
    model = DPMixture("normal", n_iter=200, random_state=0).fit(x)
    model = model.drop(range(3, model.n_components_))
    assert np.allclose(model.weights_, np.array([60, 40, 30]) / 130)
    assert model.covariances_.shape == (3, 1, 1)
    for one in (model, model.merge([1, 2])):
        rows, labels = one.sample(3000, random_state=0)
        assert rows.shape == (3000, 1)
        for k in range(one.n_components_):
            assert abs(rows[labels == k].mean() - x[one.labels_ == k].mean()) < 1
    assert model.drop([2]).sample(3000, random_state=0)[0].max() < 30
    rows, labels = model.sample(3000, random_state=0)
    share = np.bincount(labels) / 3000
    assert abs(share - model.weights_).max() < 0.03
    assert (model.predict(rows) == labels).mean() > 0.99
    kinds = {"x": "normal", "site": "categorical"}
    X = pd.DataFrame({"x": x.ravel(), "site": np.repeat(["a", "b", "c"], [60, 40, 30])})
    rows = DPMixture(kinds, n_iter=60, random_state=0).fit(X).sample(20, random_state=0)[0]
    assert rows.shape == (20, 2)
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)


def test_a_sample_that_has_none_of_the_components_that_are_shown(monkeypatch):
    X = np.random.default_rng(0).normal(np.repeat([0, 9, 0, 9, 0], 20))
    model = HDPHMM(emission="normal", n_iter=100, n_chains=1, random_state=0).fit(X)
    samples, found = model._followed()
    found[0 if model.best_ else 1][:] = -1
    monkeypatch.setattr(HDPHMM, "_followed", lambda self: (samples, found))
    table = model.components()
    assert max(table["existence"]) < 1 and all(x == x for x in table["mean"])


@pytest.mark.parametrize("n_have, n_left_out", [(1, 1), (2, 1), (3, 0), (4, 0)])
def test_components_that_few_samples_have(n_have, n_left_out):
    "(C3) by hand: four samples of two chains, of which some have a component of one row."
    z = np.repeat([0, 1], [150, 90])
    zs = np.tile(z, (4, 1))
    zs[:n_have, 3] = 2
    model = DPMixture("normal")
    model.samples_, model.sample_chain_ = {"z": zs}, np.array([0, 0, 1, 1])
    model.best_, model.labels_, model.n_components_ = 0, zs[0], 3
    model.parts_, model.known_names_ = None, []
    parts = model._lasting(zs, 0)
    assert model.fleeting_ == n_left_out
    assert parts is None if n_left_out == 0 else parts.tolist() == [0, 1, -1]
    assert model._lasting(zs, 3) is None and model.fleeting_ == 0  # all are known
    # a component of one row in a hundred, or more, is no matter of chance
    zs[:n_have, :9] = 2
    assert model._lasting(zs, 0) is None and model.fleeting_ == 0


def test_no_more_than_a_twentieth_is_left_out():
    "Where most components are tiny, the smallest ones are left out, until they have 5%."
    n = 1000
    z = np.repeat(np.arange(125), 8)
    z[-4:] = z[-5]
    model = DPMixture("normal")
    model.samples_, model.sample_chain_ = {"z": np.array([z, 0 * z])}, np.array([0, 1])
    model.best_, model.parts_, model.known_names_ = 0, None, []
    model.n_components_ = 125
    model.labels_ = model._number()[z]
    parts = model._lasting(model.samples_["z"], 0)
    share = np.count_nonzero(np.isin(z, np.flatnonzero(parts < 0))) / n
    assert 0.04 < share < 0.05 and model.fleeting_ == np.count_nonzero(parts < 0)


@pytest.mark.parametrize("grouped", [False, True])
def test_states_that_few_samples_have(grouped, monkeypatch, tmp_path):
    "What is left out is in no label, no transition and no prediction, as if it had been dropped."
    groups = ["b", "a", "b"] if grouped else None
    hmm = HDPHMM(emission="normal", n_iter=60, n_chains=1, random_state=0)
    whole = hmm.fit(X, groups=groups)
    assert whole.fleeting_ == 0 and whole.parts_ is None
    left_out = whole._number() == whole.n_states_ - 1
    parts = np.where(left_out, -1, whole._number())
    monkeypatch.setattr(HDPHMM, "_lasting", lambda model, paths, n_known: parts)
    model = HDPHMM(**hmm.get_params()).fit(X, groups=groups)
    dropped = whole.drop([whole.n_states_ - 1])
    to = dropped.parts_[[np.flatnonzero(parts == k)[0] for k in range(model.n_states_)]]
    order = np.ix_(to, to) if groups is None else np.ix_([0, 1], to, to)
    np.testing.assert_allclose(model.transmat_, dropped.transmat_[order])
    assert model.n_states_ == whole.n_states_ - 1 == model.labels_.max() + 1
    kept = whole.labels_ < model.n_states_
    assert np.mean(model.labels_[kept] == whole.labels_[kept]) > 0.9
    given = {"groups": ["a", "a", "b"]} if grouped else {}
    for one, other in zip(model.predict(NEW, **given), dropped.predict(NEW, **given)):
        np.testing.assert_array_equal(to[one], other)
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert len(model.components()["state"]) == model.n_states_


def test_clusters_that_few_samples_have(monkeypatch):
    "Rows of a cluster that is left out go where they would if it were dropped."
    rows = [[9, 0, 0]] * 9 + [[0, 9, 1]] * 7 + [[0, 5, 9]] * 4
    mixture = DPMixture("multinomial", n_iter=100, random_state=0)
    whole = mixture.fit(rows)
    dropped = whole.drop([2])
    parts = np.where(whole._number() == 2, -1, whole._number())
    monkeypatch.setattr(DPMixture, "_lasting", lambda model, z, n_known: parts)
    model = DPMixture(**mixture.get_params()).fit(rows)
    assert model.n_components_ == 2 and len(model.weights_) == 2
    # of equal size order aside, as dropped
    to = np.array([dropped.labels_[model.labels_ == k][0] for k in range(2)])
    np.testing.assert_array_equal(to[model.labels_], dropped.labels_)
    np.testing.assert_allclose(model.components_["phi"], dropped.components_["phi"][to])
