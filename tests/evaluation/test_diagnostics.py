"""R-hat and effective sample sizes, traces for ArviZ, matched topics, compared partitions."""

import copy
import sys
import warnings
from importlib.util import find_spec
from itertools import permutations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation.diagnostics import (
    autocorrelation,
    ess,
    match_topics,
    posterior_similarity,
    rhat,
    summary,
    topic_shares,
)
from hdp_nb.evaluation.scores import coherence_npmi
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mixtures.dp import point_partition
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.topic_models import HDP
from hdp_nb.plotting.plots import plot_bars_topics, plot_topics


def correlated(rng, r, M=4, n=20_000):
    "Chains with autocorrelation r**t, settled from the start: n_eff is M n (1 - r)/(1 + r)."
    x = rng.normal(size=(M, n))
    for i in range(1, n):
        x[:, i] = r * x[:, i - 1] + (1 - r * r) ** 0.5 * x[:, i]
    return x


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_docs=40, doc_len=20, grid=4, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(bars):
    run = dict(n_iter=60, burn_in=20, thin=3, n_chains=3, init=12, moves=0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return HDP(**run).fit(bars)


# --- R-hat and effective sample size ---


@pytest.mark.parametrize("r", [0.0, 0.6, 0.9])
def test_ess_of_a_chain_that_is_known(r):
    x = correlated(np.random.default_rng(0), r)
    for method in ("bulk", "mean"):
        assert abs(ess(x, method) / (x.size * (1 - r) / (1 + r)) - 1) < 0.15
    assert abs(ess(x[0]) / (x[0].size * (1 - r) / (1 + r)) - 1) < 0.3  # one chain, a flat array
    assert 0 < ess(x, "tail") < 1.1 * x.size and rhat(x) < 1.01
    assert np.allclose(autocorrelation(x, 30), r ** np.arange(31), atol=0.03)


def split_rhat(x):
    "Of two halves of every chain, without ranks."
    x = np.concatenate(np.array_split(x, 2, axis=1))
    n, W = x.shape[1], x.var(axis=1, ddof=1).mean()
    return (((n - 1) / n * W + x.mean(axis=1).var(ddof=1)) / W) ** 0.5


@pytest.mark.parametrize("shift, drift", [(0, 0), (0.2, 0), (0, 1)])
def test_rhat_finds_chains_that_differ_or_drift(shift, drift):
    "Of normal draws the ranks make hardly a difference."
    x = (
        np.random.default_rng(0).normal(size=(4, 2000))
        + shift * np.arange(4)[:, None]
        + drift * np.linspace(0, 1, 2000)
    )
    assert abs(rhat(x) - split_rhat(x)) < 0.005 and (rhat(x) < 1.01) == (shift == drift == 0)


def test_chains_in_different_modes_are_worth_little():
    x = np.random.default_rng(0).normal(size=(2, 1000)) + [[-5], [5]]
    assert rhat(x) > 1.7 and ess(x) < 5 and min(ess(x[0]), ess(x[1])) > 800
    assert rhat(x + [[10], [0]]) < 1.01  # in the same mode they are not told


def test_every_form_of_traces(fitted):
    kept = {name: rows[:, 20:] for name, rows in fitted.traces_.items()}
    chains = [{name: rows[m] for name, rows in kept.items()} for m in range(3)]
    for diagnostic in (rhat, ess):
        expected = {name: diagnostic(rows) for name, rows in kept.items()}
        for form in (fitted, kept, chains, tuple(chains)):
            np.testing.assert_equal(diagnostic(form), expected)
        shares = topic_shares(fitted, 2)
        np.testing.assert_equal(
            diagnostic(shares), [diagnostic(shares[:, :, 0]), diagnostic(shares[:, :, 1])]
        )
    assert 1 <= expected["n_tables"] < 120


def test_nothing_to_tell_is_nan():
    x = np.random.default_rng(0).normal(size=(2, 50))
    for nothing in (np.ones((2, 50)), x[:, :3], np.where(x == x[1, 7], np.nan, x)):
        assert np.isnan(rhat(nothing)) and np.isnan(ess(nothing))
    assert np.isnan(rhat(x[:1])) and ess(x[:1]) > 10
    assert np.isnan(autocorrelation(np.ones(9), 3)).all()


@pytest.mark.parametrize(
    "traces", [None, "alpha", [], 3.0, np.ones((2, 3, 4, 5)), np.empty((2, 0)), [[1.0, 2.0], [1.0]]]
)
def test_traces_that_are_none(traces):
    for diagnostic in (rhat, ess, summary):
        with pytest.raises(ValueError, match="traces"):
            diagnostic(traces)


def test_refuses():
    with pytest.raises(ValueError, match="method"):
        ess(np.ones((2, 50)), "fast")
    with pytest.raises(ValueError, match="n_lags"):
        autocorrelation(np.arange(5.0), 5)
    with pytest.raises(NotFittedError):
        topic_shares(HDP())
    model = HDP()
    model.samples_ = []  # fitted, and nothing kept, like the models that do not sample
    with pytest.raises(ValueError, match="^model: takes .* got HDP"):
        topic_shares(model)


def test_autocorrelation_is_its_definition():
    x = np.random.default_rng(0).normal(size=(3, 40)).cumsum(axis=1) + [[0], [50], [-9]]
    c = x - x.mean(axis=1, keepdims=True)
    covariance = np.array([(c[:, t:] * c[:, : 40 - t]).sum() for t in range(40)])
    assert np.allclose(autocorrelation(x, 39), covariance / covariance[0])
    assert np.allclose(autocorrelation(x[0], 5), autocorrelation(x[:1], 5))


# --- fitted models ---


def test_topic_shares_are_sorted_and_of_their_chain(fitted):
    shares = topic_shares(fitted, 4)
    assert shares.shape == (3, 14, 4)  # sweeps 20, 23, ..., 59
    assert (np.diff(shares, axis=2) <= 0).all() and (shares.sum(axis=2) <= 1 + 1e-12).all()
    n_k = fitted.samples_[14 + 3].n_vk.sum(axis=0)
    assert np.allclose(shares[1, 3], np.sort(n_k)[::-1][:4] / n_k.sum())
    assert (
        np.isclose(topic_shares(fitted, 40).sum(axis=2), 1).all()
        and (topic_shares(fitted, 40)[:, :, -1] == 0).all()
    )
    assert fitted.sample_chain_.tolist() == [0] * 14 + [1] * 14 + [2] * 14
    assert np.allclose(
        topic_shares(fitted)[fitted.sample_chain_[fitted.best_], -1],
        fitted.one_sample().topic_shares_[:5],
    )


def test_mixtures_have_traces_but_no_topics():
    "Their samples and parameters are dicts."
    mixture = DPMixture(n_iter=8, n_chains=2, random_state=0).fit([0, 0, 1, 2, 1, 0])
    assert summary(mixture).keys() == mixture.traces_.keys()
    corpus = Corpus.from_docs([["a", "b"]])
    for refuse in (plot_topics, plot_bars_topics, lambda m: coherence_npmi(m, corpus)):
        with pytest.raises(ValueError, match="fitted topic model .* got DPMixture"):
            refuse(mixture)


def test_summary(fitted):
    table = summary(fitted, n_shares=2)
    assert [*table] == [*fitted.traces_] and "share_1" in table
    untraced = copy.copy(fitted)
    untraced.traces_ = {k: v for k, v in fitted.traces_.items() if not k.startswith("share")}
    shares = summary(untraced, n_shares=2)
    assert [*shares] == [*untraced.traces_, "share of topic 1", "share of topic 2"]
    assert abs(shares["share of topic 1"].mean - table["share_1"].mean) < 0.02
    x = fitted.traces_["n_tables"][:, 20:]
    assert table["n_tables"] == (x.mean(), x.std(), rhat(x), ess(x), ess(x, "tail"))
    lines = str(table).splitlines()
    assert len(lines) == 1 + len(table) and len({*map(len, lines)}) == 1 and "nan" not in str(table)
    assert f"{rhat(x):.3f}" in next(line for line in lines if line.startswith("n_tables"))
    assert "share of topic 1" not in summary(fitted.traces_) and summary(x)[""].mean == x.mean()


@pytest.mark.parametrize("module", [name for name in ("arviz", "arviz_base") if find_spec(name)])
def test_to_arviz(fitted, module, monkeypatch):
    "As ArviZ makes it, whichever release of it is there."
    if module == "arviz_base":
        monkeypatch.setattr("hdp_nb.mcmc.convergence.find_spec", lambda name: name == module)
    data = fitted.to_arviz()
    assert {*data.posterior.data_vars} == {*fitted.traces_} and {*data.sample_stats.data_vars} == {
        "log_joint"
    }
    for name, rows in fitted.traces_.items():
        assert data.posterior[name].dims == ("chain", "draw") and np.array_equal(
            data.posterior[name], rows[:, 20:]
        )
    assert np.array_equal(data.sample_stats["log_joint"], data.posterior["log_joint"])
    assert data.posterior["draw"].values.tolist() == [*range(20, 60)]


def test_to_arviz_before_1(fitted, monkeypatch):
    "Its releases before 1.0 take groups as arguments; a stand-in notes what it is given."

    class Old:
        @staticmethod
        def from_dict(posterior=None, *, sample_stats=None, coords=None):
            return posterior, sample_stats, coords

    monkeypatch.setattr("hdp_nb.mcmc.convergence._arviz", lambda: Old)
    posterior, sample_stats, coords = fitted.to_arviz()
    assert (
        {*posterior} == {*fitted.traces_}
        and {*sample_stats} == {"log_joint"}
        and posterior["alpha"].shape == (3, 40)
    )
    assert coords["draw"].tolist() == [*range(20, 60)]


def test_chains_that_were_stopped(bars):
    "Ctrl-C in one chain: as many draws as the shortest has, or an error that says so."
    pytest.importorskip("arviz")

    def stop_at(sweep):
        def callback(s, state):
            if s == sweep:
                raise KeyboardInterrupt

        return callback

    short = HDP(n_iter=12, burn_in=4, init=100, moves=0, n_jobs=1, random_state=0)
    with pytest.warns(ConvergenceWarning):
        model = clone(short).fit(bars, callback=[None, stop_at(8)])
    assert model.to_arviz().posterior["alpha"].shape == (2, 5)
    assert topic_shares(model).shape[:2] == (2, 2) and np.isfinite(ess(model)["alpha"])
    with pytest.warns(ConvergenceWarning):
        model = clone(short).fit(bars, callback=[None, stop_at(2)])
    with pytest.raises(ValueError, match="burn-in of 4"):
        model.to_arviz()
    with pytest.raises(NotFittedError):
        HDP().to_arviz()


def test_without_arviz(fitted, monkeypatch):
    "Only what is ArviZ's own needs it."
    expected = str(summary(fitted))
    for name in ("arviz", "arviz_base", "arviz_stats", "arviz_stats.base"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    monkeypatch.setattr("hdp_nb.mcmc.convergence.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install 'hdp_nb\[arviz\]'"):
        fitted.to_arviz()
    assert str(summary(fitted)) == expected


def test_saved_samples_know_their_chain(fitted, tmp_path):
    fitted.save(tmp_path / "model.npz")
    assert np.array_equal(topic_shares(HDP.load(tmp_path / "model.npz")), topic_shares(fitted))


# --- matching ---


def distances(a, b, distance):
    if distance == "hellinger":
        return np.array([[(((p**0.5 - q**0.5) ** 2).sum() / 2) ** 0.5 for q in b] for p in a])
    return np.array([[abs(p - q).sum() / 2 for q in b] for p in a])


@pytest.mark.parametrize("distance", ["hellinger", "total_variation"])
@pytest.mark.parametrize("K_a, K_b", [(5, 5), (3, 5), (5, 3), (1, 4)])
def test_matching_is_the_best_of_all(K_a, K_b, distance):
    rng = np.random.default_rng(0)
    for _ in range(5):
        a, b = rng.dirichlet(np.full(6, 0.5), K_a), rng.dirichlet(np.full(6, 0.5), K_b)
        d = distances(a, b, distance)
        permutation, found = match_topics(a, b, distance)
        pairs = permutation >= 0
        assert pairs.sum() == min(K_a, K_b) == len({*permutation[pairs]})
        assert (
            np.allclose(found[pairs], d[pairs, permutation[pairs]])
            and np.isnan(found[~pairs]).all()
        )
        square = np.zeros((max(K_a, K_b),) * 2)  # who is left alone costs nothing
        square[:K_a, :K_b] = d
        best = min(square[range(len(s)), s].sum() for s in permutations(range(len(square))))
        assert np.isclose(found[pairs].sum(), best)


def test_matching_finds_a_permutation(bars):
    model = HDP(n_iter=20, n_chains=1, random_state=0).fit(bars)
    order = np.random.default_rng(0).permutation(model.n_topics_)
    permutation, d = match_topics(model, model.components_[order])
    assert np.array_equal(order[permutation], np.arange(model.n_topics_)) and (d < 1e-7).all()
    assert match_topics(np.eye(3)[:2], np.eye(3)[[2, 0]]).distances.tolist() == [
        0,
        1,
    ]  # nothing in common


@pytest.mark.parametrize(
    "a, b, options, message",
    [
        (np.eye(3), np.eye(4), {}, "3 words"),
        (np.ones((2, 3)), np.eye(3), {}, "^a: "),
        (np.eye(3), "x", {}, "^b: "),
        (np.eye(3), [], {}, "^b: "),
        (np.eye(3), np.eye(3), {"distance": "cosine"}, "distance"),
        (np.array([[2.0, -1.0]]), np.eye(2), {}, "^a: "),
    ],
)
def test_matching_refuses(a, b, options, message):
    with pytest.raises(ValueError, match=message):
        match_topics(a, b, **options)


# --- similarity ---


def test_similarity_of_items_and_of_documents():
    rng = np.random.default_rng(0)
    z, offsets = rng.integers(4, size=(7, 12)), np.array([0, 3, 3, 8, 12])
    same = (z[:, :, None] == z[:, None, :]).mean(axis=0)
    assert np.allclose(posterior_similarity(z), same)
    assert np.allclose(
        posterior_similarity(list(z * 3 + 100 * np.arange(7)[:, None])), same
    )  # other labels, the same partitions
    parts = [slice(a, b) for a, b in zip(offsets, offsets[1:])]
    result = posterior_similarity(z, offsets)
    for j, jj in [(0, 2), (2, 3), (0, 0), (3, 0)]:
        assert np.isclose(result[j, jj], same[parts[j], parts[jj]].mean())
    assert (
        np.isnan(result[1]).all()
        and np.isnan(result[:, 1]).all()
        and np.isfinite(result[[0, 2, 3]][:, [0, 2, 3]]).all()
    )


def test_similarity_and_the_chosen_partition_agree():
    "Three noisy copies of one partition and one of another: pairs have their shares of samples."
    truth, other = np.repeat([0, 1, 2], 4), np.tile([0, 1], 6)
    z = np.array([truth, (truth + 1) % 3, other, truth + 5])
    similarity = posterior_similarity(z)
    assert (
        similarity[0, 1] == 0.75
        and similarity[0, 2] == 1
        and similarity[0, 4] == 0.25
        and similarity[0, 5] == 0
    )
    assert point_partition(z) in (0, 1, 3)


@pytest.mark.parametrize(
    "z, offsets, message",
    [
        (np.ones((2, 3)), None, "^z: "),
        (np.empty((0, 3), int), None, "^z: "),
        (np.array([[0, -1]]), None, "^z: "),
        (np.zeros((1, 20_001), int), None, "chosen"),
        (np.zeros((1, 3), int), [0, 2], "offsets"),
        (np.zeros((1, 3), int), [0, 2, 1, 3], "offsets"),
        (np.zeros((1, 3), int), [1, 3], "offsets"),
    ],
)
def test_similarity_refuses(z, offsets, message):
    with pytest.raises(ValueError, match=message):
        posterior_similarity(z, offsets)


def test_similarity_of_a_fit(bars):
    "Topics of tokens come by the callback; a corpus brings its own offsets."
    kept = []
    HDP(n_iter=30, n_chains=1, random_state=0).fit(
        bars, callback=lambda sweep, state: kept.append(state.z.copy()) if sweep >= 20 else None
    )
    similarity = posterior_similarity(kept, bars.offsets)
    assert (
        similarity.shape == (40, 40)
        and np.allclose(similarity, similarity.T)
        and (0 <= similarity).all()
        and (similarity <= 1 + 1e-12).all()
    )
    few = Corpus.from_matrix(bars.to_matrix()[:5])
    assert np.allclose(
        posterior_similarity(np.array(kept)[:, : few.n_tokens], few.offsets), similarity[:5, :5]
    )
