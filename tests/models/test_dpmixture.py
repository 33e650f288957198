"""DPMixture: what a user does with it, scikit-learn's checks, and what it says to bad input."""

import re
import warnings

import numpy as np
import pytest
from naive_dp import categorical, posterior
from quickstart import check_quick_start
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models import mixture_models
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.models.topic_models import HDP
from hdp_nb.moves.schedule import Moves

rng = np.random.default_rng(0)
TRUTH = np.repeat([0, 1, 2], (50, 40, 30))
CLOUDS = np.array([[0, 0], [8, 0], [0, 8]])[TRUTH] + rng.normal(size=(120, 2))
COUNTS = np.array(
    [
        rng.multinomial(30, p)
        for p in np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])[TRUTH]
    ]
)
WORDS = np.array([0, 0, 1, 0, 2, 1])


def quick(likelihood="normal", **params):
    settings = {"n_iter": 200, "thin": 5, "n_chains": 1, "random_state": 1}
    return DPMixture(likelihood, **settings | params)


@parametrize_with_checks([quick(n_iter=20)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "likelihood, X",
    [
        ("normal", CLOUDS),
        ("normal_inverse_wishart", CLOUDS),
        pytest.param("normal_inverse_gamma", CLOUDS, marks=pytest.mark.slow),
        pytest.param("normal_known_variance", CLOUDS, marks=pytest.mark.slow),
        ("multinomial", COUNTS),
        ("multinomial", csr_array(COUNTS)),
    ],
)
def test_finds_three_clusters(likelihood, X):
    prior = {"var": 1.0, "mean_var": 20.0} if likelihood == "normal_known_variance" else None
    model = quick(likelihood, prior=prior, n_iter=1000)
    labels = model.fit_predict(X)
    assert adjusted_rand_score(TRUTH, labels) > 0.9
    sizes = np.bincount(labels)
    assert len(sizes) == model.n_components_ and (np.diff(sizes) <= 0).all()  # the largest first
    assert adjusted_rand_score(TRUTH, model.predict(X)) > 0.9
    assert all(len(mean) == model.n_components_ for mean in model.components_.values())


def test_categorical_density_is_the_exact_one():
    "The predictive averaged over samples is p(x, v) / p(x), known by enumeration of partitions."
    model = DPMixture(
        "categorical",
        alpha=1.0,
        prior={"eta": 0.5, "n_symbols": 3},
        n_iter=10_000,
        burn_in=0,
        thin=5,
        random_state=2,
    )
    p = np.exp(model.fit(WORDS).score_samples(np.arange(3)))
    evidence = [
        posterior(x, lambda rows: categorical(rows, 0.5, 3)).log_evidence
        for x in (WORDS, *(np.append(WORDS, v) for v in range(3)))
    ]
    exact = np.exp(np.array(evidence[1:]) - evidence[0])
    assert p == pytest.approx(exact, abs=0.01) and p.sum() == pytest.approx(1)
    assert model.score(WORDS) == pytest.approx(np.log(p)[WORDS].mean())
    model.set_params(n_iter=50)  # flat or a column
    flat = model.fit(WORDS).score_samples(np.arange(3))
    assert (model.fit(WORDS[:, None]).score_samples([[0], [1], [2]]) == flat).all()


def test_predict_averages_over_samples():
    model = quick().fit(CLOUDS)
    # by its definition: a companion of x, from its component, in every sample
    X, C, votes = CLOUDS[::7] + 1.0, model.n_components_, []
    for x in X:
        p = np.zeros(C)
        for z, alpha in zip(model.samples_["z"], model.samples_["alpha"]):
            w = np.exp(model._sampler().log_weights(model._sampler().state(z, alpha), x[None])[0])
            for k in range(z.max() + 1):
                p += (
                    w[k]
                    / w.sum()
                    * np.bincount(model.labels_[z == k], minlength=C)
                    / (z == k).sum()
                )
        votes.append(p.argmax())
    assert (model.predict(X) == votes).all()


def test_traces_callback_and_samples():
    seen = []
    model = quick(n_iter=30, burn_in=10, n_chains=2).fit(
        CLOUDS, callback=lambda sweep, state: seen.append((sweep, state.z.copy(), state.alpha[0]))
    )
    assert (
        len(seen) == 60
        and {sweep for sweep, *_ in seen} == set(range(30))
        and len(seen[0][1]) == 120
    )
    assert {*model.trace_} == {
        *("n_components", "log_joint", "log_likelihood", "alpha", "log_mixture", "joined"),
        *("share_1", "share_2", "share_3"),
        *("splits_proposed", "splits_accepted", "merges_proposed", "merges_accepted"),
    }
    assert {*quick(n_iter=4, moves=0).fit(CLOUDS).trace_} == {*model.trace_} - {
        *("joined", "splits_proposed", "splits_accepted", "merges_proposed", "merges_accepted")
    }
    assert all(trace.shape == (30,) for trace in model.trace_.values()) and model.traces_[
        "alpha"
    ].shape == (2, 30)
    assert model.samples_["z"].shape == (8, 120) and model.burn_in_ == 10
    assert (quick(n_iter=10, burn_in=9).fit(CLOUDS).samples_["z"]).shape == (1, 120)


def test_the_same_seed_the_same_model():
    a, b, serial = (quick(n_iter=20, n_chains=3, n_jobs=n).fit(CLOUDS) for n in (2, 2, 1))
    assert (a.samples_["z"] == b.samples_["z"]).all() and (
        a.samples_["z"] == serial.samples_["z"]
    ).all()
    assert not np.array_equal(
        a.trace_["log_joint"], clone(a).set_params(random_state=5).fit(CLOUDS).trace_["log_joint"]
    )


def test_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    quick(n_iter=10, burn_in=5).fit(CLOUDS, checkpoint=path)
    resumed, whole = (
        quick(n_iter=30, burn_in=5).fit(CLOUDS, checkpoint=path),
        quick(n_iter=30, burn_in=5).fit(CLOUDS),
    )
    assert all((resumed.trace_[name] == whole.trace_[name]).all() for name in whole.trace_)
    with pytest.raises(ValueError, match="alpha_prior"):
        quick(n_iter=30, burn_in=5, alpha=1.0).fit(CLOUDS, checkpoint=path)


@pytest.mark.parametrize(
    "model, X",
    [
        (quick(n_iter=20, prior={"dof": 5, "scale": np.eye(2)}), CLOUDS),
        (quick("multinomial", n_iter=20, prior=[1, 2, 3]), csr_array(COUNTS)),
        (quick("categorical", n_iter=20, prior={"n_symbols": 4}, alpha=1.0), WORDS),
    ],
)
def test_save_and_load(tmp_path, model, X):
    path = tmp_path / "model.npz"
    model.fit(X).save(path)
    again = DPMixture.load(path)
    assert (again.predict(X) == model.predict(X)).all() and again.score(X) == model.score(X)
    assert (again.labels_ == model.labels_).all() and again.n_components_ == model.n_components_
    assert all((again.trace_[name] == model.trace_[name]).all() for name in model.trace_)
    with pytest.raises(ValueError, match="HDP"):
        HDP.load(path)
    model.feature_names_in_ = np.array(["height", "width"], object)  # as a data frame leaves them
    model.save(path)
    assert DPMixture.load(path).feature_names_in_.tolist() == ["height", "width"]


@pytest.mark.parametrize(
    "params, X, match",
    [
        (dict(likelihood="gaussian"), CLOUDS, "likelihood must be one of 'normal', 'categorical'"),
        (dict(likelihood=None), CLOUDS, "likelihood must be"),
        (dict(alpha=0), CLOUDS, "alpha must be a finite number above 0, .*; got 0"),
        (dict(alpha=(2, 1)), CLOUDS, r"alpha must be .*got \(2, 1\); write Gamma\(2, 1\)"),
        (dict(prior=3), CLOUDS, "prior must be None or a dict"),
        (dict(likelihood="multinomial", prior=Gamma(1, 1)), COUNTS, "eta of prior must be a num"),
        (dict(moves=Moves(split_merge=2)), CLOUDS, "moves must have split_merge='auto' in a DPM"),
        (dict(prior={"kappa": -1}), CLOUDS, "kappa must be"),
        (
            dict(prior={"typo": 1}),
            CLOUDS,
            "prior must be None or a dict of some of mean, kappa, dof, scale, got .*typo",
        ),
        (dict(n_iter=0), CLOUDS, "n_iter"),
        (dict(burn_in=300), CLOUDS, "burn_in"),
        (dict(thin=0), CLOUDS, "thin"),
        (dict(n_chains=0), CLOUDS, "n_chains"),
        (dict(random_state=-1), CLOUDS, "random_state"),
        ({}, [[1.0, np.nan]], "NaN"),
        ({}, [[1.0, np.inf]], "infinity"),
        ({}, [1.0, 2.0], "2D array"),
        (dict(likelihood="multinomial"), -COUNTS, "negative"),
        (dict(likelihood="multinomial"), COUNTS + 0.5, "whole numbers"),
        (dict(likelihood="multinomial", prior=0), COUNTS, "eta must be"),
        (
            dict(likelihood="multinomial", prior={"mean": 1}),
            COUNTS,
            "prior must be None or a dict of some of eta, got {'mean': 1}",
        ),
        (
            dict(likelihood="categorical", prior={"n_symbols": 2}),
            WORDS,
            "below n_words = 2, got 2|below n_symbols",
        ),
        (
            dict(likelihood="categorical", prior={"n_symbols": 0}),
            WORDS,
            "(n_words|n_symbols) must be",
        ),
        (dict(likelihood="categorical"), [], "sample"),
        (dict(likelihood="categorical"), COUNTS, "one symbol per observation"),
        (dict(likelihood="categorical"), [0.5, 1.0], "whole numbers"),
        (dict(likelihood="categorical"), [-1, 1], "negative"),
    ],
)
def test_bad_input(params, X, match):
    with pytest.raises(ValueError, match=match):
        quick(**params).fit(X)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("likelihood", ["multinomial", "poisson"])
def test_the_documents_of_a_corpus_are_rows_of_counts(likelihood, even, tmp_path):
    "Not the numbers of their words, where all documents are equally long."
    docs = [list("aab" if i % 2 else "bcc") + ["c"] * (0 if even else i) for i in range(8)]
    corpus, path = Corpus.from_docs(docs), tmp_path / "model.npz"
    counts = corpus.to_matrix().toarray()
    model, plain = (quick(likelihood, n_iter=10).fit(X) for X in (corpus, counts))
    model.save(path)
    for known in (model, DPMixture.load(path)):
        assert known.vocabulary_ == list("abc") and known.data_.shape == (8, 3)
        assert known.score(corpus) == known.score(counts) == plain.score(counts)
        with pytest.raises(ValueError, match=r"X\.over\(vocab\)"):
            known.predict(Corpus.from_docs([list("cab")], vocab=list("cab")))
    for other in ("normal", "categorical"):
        with pytest.raises(ValueError, match=f"likelihood is '{other}', got a Corpus"):
            quick(other).fit(corpus)


def test_bad_new_rows():
    model = quick("categorical", n_iter=10, prior={"n_symbols": 3}).fit(WORDS)
    with pytest.raises(ValueError, match="got 3"):
        model.predict([0, 3])
    with pytest.raises(ValueError, match="features"):
        quick(n_iter=10).fit(CLOUDS).score(CLOUDS[:, :1])
    with pytest.raises(ValueError, match="takes a saved DPMixture|pickled|damaged"):
        DPMixture.load(__file__)


def test_rows_that_are_clusters_of_their_own_are_told():
    "Full covariances in as many columns as rows, and a variance in other units."
    x = np.random.default_rng(5).normal(size=(40, 12))
    full, known = ("normal", x, "prior=None.*inverse_gamma"), ("normal_known_variance", x * 50, "")
    for likelihood, X, also in (full, known):
        says = f"of 40 rows are clusters of their own by likelihood='{likelihood}' with {also}"
        with pytest.warns(UserWarning, match=says) as told:
            quick(likelihood, n_iter=60).fit(X)
        assert [w.filename for w in told] == [__file__] and "\n" not in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick("normal_inverse_gamma", n_iter=60).fit(x[:, :2])
        quick("normal_known_variance", n_iter=60, prior={"var": 2500.0}).fit(x * 50)
        quick("normal", n_iter=60).fit(x[:19])  # too few to tell


def test_values_that_stand_for_missing_ones_are_told():
    "A few rows with 9999 widen the default prior, by which clusters can be lost."
    X = np.concatenate([np.random.default_rng(6).normal(m, 1, (60, 2)) for m in (0, 6, 12)])
    marked = np.where(np.arange(180)[:, None] % 60 == 7, [9999, 0], X)
    says = "far from all others in column 0, such as (9999|-1e.06), which"
    with pytest.warns(UserWarning, match=says) as told:
        model = quick("normal", n_iter=4).fit(marked)
        model.predict(X[:3])  # which needs the prior again, and does not warn of it again
        HDPHMM(emission="normal", n_iter=4).fit(np.append(X[:, 0], -1e6))
    assert [w.filename for w in told if re.search(says, str(w.message))] == [__file__] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        quick("normal", n_iter=4).fit(X)
        quick("normal", n_iter=4).fit(np.concatenate([X, X[:60] + 40]))


def test_quick_start(tmp_path, monkeypatch):
    check_quick_start("DPMixture", tmp_path, monkeypatch)


def test_many_rows_are_weighed_in_blocks_by_threads(monkeypatch):
    """The blocks, the tasks within and the number of threads change no bit."""
    model = quick(n_iter=60).fit(CLOUDS)
    whole = model.predict_proba(CLOUDS), model.score_samples(CLOUDS)
    monkeypatch.setattr(mixture_models, "_ROWS_AT_ONCE", 50)
    monkeypatch.setattr(mixture_models, "_ROWS_A_TASK", 7)
    for n_jobs in (1, 2):
        model.n_jobs = n_jobs
        parts = model.predict_proba(CLOUDS), model.score_samples(CLOUDS)
        assert (parts[0] == whole[0]).all() and (parts[1] == whole[1]).all()


def test_labels_are_the_mean_over_samples_spread_evenly(monkeypatch):
    """Of more samples than that every so many; with one the labels are that sample's."""
    model = quick(n_iter=200).fit(CLOUDS)
    n = len(model.samples_["z"])
    assert n > 5
    for most, taken in ((5, range(0, n, -(-n // 5))), (1, [0]), (10_000, range(n))):
        monkeypatch.setattr(mixture_models, "LABELLED_BY", most)
        total = 0.0
        for i in taken:
            of, state = model._state(model._sampler(), i)
            weights = np.exp(of.log_weights(state, CLOUDS))
            weights /= weights.sum(axis=1, keepdims=True)
            total = total + model._of_clusters(weights, model.samples_["z"][i])
        assert np.allclose(model.predict_proba(CLOUDS), total / len(taken), atol=1e-12)
