"""Chains that predict worse what is left out are not shown: mixtures, sequences, nested models."""

import warnings

import numpy as np
import pytest

from hdp_nb import HDPHMM, HNHDP, Corpus, DPMixture, HDPMixture, NestedDP, load_model
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.models.left_out import (
    N_FOLDS,
    cut_stretches,
    draw_folds,
    halve_documents,
    log_documents,
    log_stretches,
)
from hdp_nb.models.stacking import score_chains
from hdp_nb.sequences.emissions import hmm_emission
from hdp_nb.sequences.samplers import HMMSampler, check_sequences

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")


def clouds(n=600):
    rng = np.random.default_rng(3)
    return rng.normal(6 * rng.integers(5, size=(n, 1)), 1, (n, 2))


def regimes():
    rng = np.random.default_rng(3)
    return rng.normal(6 * np.repeat(rng.integers(4, size=20), 20), 1)


def kinds():
    rng = np.random.default_rng(3)
    words = [rng.integers(5, size=25) + 5 * (j % 6) for j in range(90)]
    return Corpus.from_docs(words, n_words=30)


MODELS = {
    "mixture": (DPMixture("normal", n_iter=12, moves=0, random_state=0), clouds, {}),
    "blocks": (
        DPMixture("normal", sampler="subclusters", n_iter=4, moves=0, random_state=0),
        clouds,
        {},
    ),
    "mixture of groups": (
        HDPMixture("normal", n_iter=12, moves=0, random_state=0),
        clouds,
        {"groups": np.arange(600) % 7},
    ),
    "direct": (
        HDPHMM(emission="normal", sampler="direct", kappa=0, n_iter=8, moves=0, random_state=0),
        regimes,
        {},
    ),
    "weak limit": (
        HDPHMM(
            emission="normal", sampler="weak_limit", kappa=0, n_iter=20, moves=0, random_state=0
        ),
        regimes,
        {},
    ),
    "groups": (
        HDPHMM(emission="normal", sampler="direct", kappa=0, n_iter=8, moves=0, random_state=0),
        regimes,
        {"lengths": [100, 150, 150], "groups": ["b", "a", "b"]},
    ),
    "nested": (NestedDP(eta=0.5, n_iter=2, random_state=0), kinds, {}),
    "hybrid": (HNHDP(n_iter=2, random_state=0), kinds, {}),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_chain_that_is_behind_is_not_shown(name, tmp_path):
    model, data, options = MODELS[name]
    with pytest.warns(ConvergenceWarning, match="behind in predicting .* left out"):
        model.fit(data(), **options)
    best = int(np.argmin(model.behind_))
    assert model.behind_[best] == 0 and model.behind_[1 - best] > 0.01
    assert {*model.sample_chain_} == {best} and model.verdict_.grade == "behind"
    assert f"Chain {1 - best} is " in model.verdict_.found
    for row in model.trace_:
        assert np.array_equal(model.trace_[row], model.traces_[row][best])
    samples = model.samples_["z"] if isinstance(model.samples_, dict) else model.samples_
    assert len(samples) == len(model.sample_chain_)
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert again.verdict_ == model.verdict_ and np.array_equal(again.labels_, model.labels_)


@pytest.mark.parametrize(
    "model", [DPMixture("normal", n_iter=6), HDPHMM(emission="normal", n_iter=6)]
)
def test_where_there_is_little_all_chains_are_shown(model):
    model.set_params(moves=0, random_state=0).fit(clouds(150))
    assert {*model.sample_chain_} == {0, 1} and np.isnan(model.behind_).sum() == 1
    unit = "row" if isinstance(model, DPMixture) else "step"
    assert model.verdict_.grade == "small" and f"too few {unit}s" in model.verdict_.found


def test_chains_that_agree_are_not_compared():
    model = DPMixture("normal", n_iter=200, random_state=0).fit(clouds())
    assert model.converged_ and not model.behind_.any() and {*model.sample_chain_} == {0, 1}


def test_with_known_clusters_chains_begin_alike():
    model = NestedDP(categories=np.arange(90) % 6, n_iter=40, random_state=0).fit(kinds())
    assert model._judged()["apart"] is False
    assert NestedDP(n_iter=2, random_state=0).fit(kinds())._judged()["gate"].unit == "word"


def test_folds_are_even_and_hold_no_more_than_asked():
    sizes = np.random.default_rng(0).integers(1, 9, 500)
    fold = draw_folds(sizes, 600)
    left = sizes[fold >= 0].sum()
    assert 600 <= left < 609 and np.ptp(np.bincount(fold[fold >= 0], minlength=N_FOLDS)) <= 1
    assert np.array_equal(fold, draw_folds(sizes, 600))


@pytest.mark.parametrize("lengths", [[400], [1, 0, 7, 130, 0, 262], [3] * 133 + [1]])
def test_stretches_are_the_sequences(lengths):
    X = np.random.default_rng(0).normal(size=400)
    X[::7] = np.nan
    steps = check_sequences(X, lengths, "normal", None)[1]
    cuts = cut_stretches(steps)
    assert {*steps.offsets} <= {*cuts.offsets} and np.diff(cuts.offsets).max() <= 10
    assert len(cuts.left_out()) == np.isfinite(X).sum()  # all are left out once


def test_one_group_is_no_groups():
    emission, rng = hmm_emission("normal"), np.random.default_rng(0)
    prior, steps = check_sequences(regimes(), [100, 300], "normal", None)
    sampler = HMMSampler(emission, prior, steps, init=3)
    sample = sampler.snapshot(sampler.sweep(rng, sampler.init(rng))[0])
    grouped = sample._replace(n_ab=sample.n_ab[None], beta=np.array([sample.beta, sample.beta]))
    cuts = cut_stretches(steps, np.zeros(2, int))
    one, other = (log_stretches(emission, prior, s, cuts) for s in (sample, grouped))
    assert np.array_equal(one, other) and len(one) == len(cuts.left_out())


def test_the_true_clusters_predict_better_than_others():
    corpus, rng = kinds(), np.random.default_rng(0)
    model = NestedDP(n_iter=2, n_chains=1, n_topics=2, n_clusters=8)
    sampler, halves = model._sampler(corpus), halve_documents(corpus)
    true = np.arange(90) % 6
    log_p = []
    for c in (true, np.where(rng.random(90) < 0.3, rng.permutation(true), true)):
        state = sampler.init(rng)
        z = 2 * (np.repeat(c, corpus.doc_lengths) + 1)  # a topic for each cluster
        state = state._replace(z=z, c=c)
        log_p.append([log_documents(state, halves, 2, model._predictive)])
    found = score_chains(np.array(log_p), halves.left_out())
    assert found.within.tolist() == [True, False] and found.behind[1] > 0.1


def test_the_shown_path_is_that_of_a_kept_sample():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDPHMM(emission="normal", n_iter=60, random_state=0).fit(regimes())
    z = model.samples_[model.best_].z
    pairs = {*zip(z.tolist(), model.labels_.tolist())}
    assert len(pairs) == model.n_states_ == len({*z.tolist()})
