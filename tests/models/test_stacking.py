"""Weights of chains that do not agree, in every model that has them (10_models/10_stacking)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tiers import slow_unless

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed.transform import score_documents
from hdp_nb.evaluation.scores import left_to_right
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.models.loading import load_model
from hdp_nb.models.stacking import (
    chain_weights,
    compare_chains,
    leave_out,
    predict_left_out,
    stack,
    weigh_chains,
)
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.moves.schedule import Moves
from hdp_nb.topics.counts import fold_in, predictive_topics

BARS = make_bars(n_docs=120, doc_len=30, grid=4, random_state=0)[0]
BARS = Corpus.from_docs(
    [BARS[j] for j in range(120)],
    n_words=16,
    groups={"author": [("ann", "ben")[j % 2] for j in range(120)]},
)
TRAIN, TEST = BARS[:100], BARS[100:]
few = {"n_iter": 14, "burn_in": 4, "thin": 3, "n_chains": 2, "n_jobs": 1, "random_state": 0}
MODELS = {
    **{
        f"HDP, {s}": HDP(sampler=s, moves=0, **few)
        for s in ("crf", "direct", "hybrid", "parallel", "blocked")
    },
    "HDP, seeds": HDP(seed_words={"first": [0, 1]}, **few),
    "HDP, moves": HDP(sampler="direct", moves=Moves(split_merge=2), **few),
    "LDA": LDA(6, **few),
    "TreeHDP": TreeHDP(["author"], **few),
}


QUICK = {"HDP, crf", "HDP, direct", "HDP, blocked", "LDA", "TreeHDP"}


def of_kinds(names):
    return slow_unless(QUICK.__contains__, [name for name in MODELS if name in names])


@pytest.fixture(scope="module", params=of_kinds(MODELS))
def fitted(request):
    states = []
    with pytest.warns(UserWarning):
        model = MODELS[request.param].fit(TRAIN, callback=lambda _, state: states.append(state))
    return model, states


def test_samples_of_a_chain_share_its_weight(fitted):
    model, _ = fitted
    assert not model.converged_
    w = model.sample_weights_
    assert w.shape == (len(model.samples_),) and w.min() >= 0
    assert_allclose(w.sum(), 1)
    for c in np.unique(model.sample_chain_):
        assert np.ptp(w[model.sample_chain_ == c]) == 0


def test_predictions_are_averages_with_these_weights(fitted):
    model, _ = fitted
    observed, heldout = TEST.split_tokens(0.5, 0)
    alone = [model.one_sample(i) for i in range(len(model.samples_))]
    # Over shards every sample begins with the same random numbers, alone or not.
    log_p = np.array([score_documents(one, TEST, 0.5)[0] for one in alone])
    single = Corpus.from_docs([TEST[j][[0, 1]] for j in range(20)], n_words=16, groups=TEST.groups)
    by_one = np.array([score_documents(one, single, 0.5)[0] for one in alone])
    assert_allclose(
        score_documents(model, single, 0.5)[0],
        np.log(model.sample_weights_ @ np.exp(by_one)),  # of one token each
    )
    equal = np.log(np.exp(by_one).mean(axis=0))
    if np.ptp(model.sample_weights_) > 0.05:
        assert not np.allclose(score_documents(model, single, 0.5)[0], equal)
    p = model.log_predictive(observed, heldout)
    assert np.isfinite(p).all() and np.isfinite(log_p).all()


def test_weights_are_kept_with_the_model(fitted, tmp_path):
    model, _ = fitted
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert_array_equal(again.sample_weights_, model.sample_weights_)
    assert again.score(TEST) == model.score(TEST)
    assert_array_equal(model.one_sample(0).sample_weights_, [1])


def test_chains_that_agree_count_by_their_samples():
    bars = make_bars(n_docs=60, doc_len=40, grid=3, random_state=1)[0]
    model = HDP(sampler="direct", n_iter="auto", n_jobs=1, random_state=2).fit(bars)
    assert model.converged_  # else this shows nothing
    assert_allclose(model.sample_weights_, 1 / len(model.samples_))


def test_a_worse_chain_is_not_shown():
    corpus, truth = make_bars(n_docs=200, doc_len=30, grid=4, random_state=0)
    model = HDP(sampler="direct", moves=0, init="opposite", n_iter=60, n_chains=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"Chain 0 is 0\.\d+ nats a word behind.*not shown"):
        model.fit(corpus)
    assert model.behind_[0] > 0.05 and model.behind_[1] == 0
    assert set(model.sample_chain_) == {1} == {model.sample_chain_[model.best_]}
    assert_array_equal(model.trace_["alpha"], model.traces_["alpha"][1])
    assert chain_weights(model) == [0, 1]
    # All that is shown is the other chain's, which has the planted topics.
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert (unit(truth.phi) @ unit(model.components_).T).max(axis=1).min() > 0.9
    assert model.topic_shares_.sum() > 0.9


def test_a_chain_that_is_as_good_is_shown_too():
    corpus, _ = make_bars(n_docs=100, doc_len=30, grid=4, random_state=0)
    with pytest.warns(ConvergenceWarning) as warned:
        model = HDP(sampler="direct", moves=0, init=20, n_iter=60, random_state=0).fit(corpus)
    assert set(model.sample_chain_) == {0, 1, 2} and "not shown" not in str(warned[0].message)


def test_chains_are_compared_document_by_document():
    rng = np.random.default_rng(0)
    document, common = np.repeat(np.arange(100), 10), np.repeat(rng.normal(0, 1, 100), 10)
    best = common + rng.normal(0, 0.1, 1000)
    other = best - np.repeat(rng.normal(0.02, 0.2, 100), 10)  # in some documents it is better
    behind, error, within = compare_chains(
        np.array([best, best - 0.02, best - 0.004, other]), document
    )
    assert_allclose(behind[:3], [0, 0.02, 0.004])
    assert_allclose(error[:3], 0, atol=1e-9)
    assert within.tolist() == [True, False, True, True]
    # The standard error of the last is that of the mean of 100 documents' means.
    means = (best - other).reshape(100, 10).mean(axis=1)
    assert_allclose(abs(behind[3] - means.mean()), 0, atol=1e-12)
    assert_allclose(error[3], means.std(ddof=1) / 10)
    few = compare_chains(np.array([best, best - 5.0])[:, :150], document[:150])
    assert few[2].all()  # 150 hidden words tell nothing


def test_a_chain_that_was_stopped_early_counts_by_its_weight_too():
    "And not by how many samples it has."
    assigned = []

    def stop(_, state):
        assigned.append(np.array(state.z))
        if len(assigned) == 23:  # the second chain, at its ninth sweep
            raise KeyboardInterrupt

    with pytest.warns(UserWarning):
        model = HDP(sampler="direct", init=20, moves=0, **few).fit(TRAIN, callback=stop)
    n = np.bincount(model.sample_chain_)
    last = [model.samples_[i] for i in n.cumsum() - 1]
    topics_of = lambda counts, _: predictive_topics(counts)
    weights = weigh_chains(
        TRAIN, [[(assigned[13], last[0])], [(assigned[22], last[1])]], topics_of
    ).weights
    assert n[0] > n[1] > 0 and 0.01 < weights[0] < 0.99
    assert_allclose(chain_weights(model), weights)
    assert_allclose(model.sample_weights_, np.repeat(weights / n, n))


def test_weights_are_the_same_in_processes_and_after_a_resumption(tmp_path):
    model = MODELS["HDP, direct"]
    found = []
    for n_jobs in (1, 2):
        other = HDP(**{**model.get_params(), "n_jobs": n_jobs})
        with pytest.warns(UserWarning):
            found.append(other.fit(TRAIN, checkpoint=tmp_path / f"{n_jobs}").sample_weights_)
    with pytest.warns(UserWarning):
        resumed = HDP(**model.get_params()).fit(TRAIN, checkpoint=tmp_path / "1")
    assert_array_equal(found[0], found[1])
    assert_array_equal(found[0], resumed.sample_weights_)


def test_models_without_weights_count_samples_equally(tmp_path):
    "As those that earlier versions saved, and other people's."
    with pytest.warns(UserWarning):
        model = HDP(sampler="direct", init=20, moves=0, **few).fit(TRAIN)
    assert np.ptp(model.sample_weights_) > 0
    with_weights = left_to_right(model, TEST, random_state=0)
    del model.sample_weights_
    equal = left_to_right(model, TEST, random_state=0)
    assert equal != with_weights
    model.save(tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").score(TEST) == model.score(TEST)
    model.sample_weights_ = np.full(len(model.samples_), 1 / len(model.samples_))
    assert_allclose(left_to_right(model, TEST, random_state=0), equal)


@pytest.mark.parametrize("weights", [[0.5], [0.7, 0.7], [-0.5, 1.5]])
def test_bad_weights_in_a_file_are_named(tmp_path, weights):
    with pytest.warns(UserWarning):
        model = HDP(sampler="direct", moves=0, **{**few, "thin": 100}).fit(TRAIN)
    assert len(model.samples_) in (2, 4)
    if len(model.samples_) == 4:
        weights = np.repeat(weights, 2) / 2
    model.sample_weights_ = np.array(weights)
    model.save(tmp_path / "m.npz")
    with pytest.raises(ValueError, match="sample_weights_"):
        load_model(tmp_path / "m.npz")


def test_large_counts_and_given_topics_are_not_weighed():
    X = np.random.default_rng(0).poisson(150, (20, 6))
    with pytest.warns(UserWarning):
        model = HDP(**few).fit(X)
    assert model.sampler_ == "blocked" and np.ptp(model.sample_weights_) == 0
    with pytest.warns(UserWarning):
        given = HDP(sampler="direct", moves=0, **few).fit(TRAIN)
        tree = TreeHDP(["author"], moves=0, **few).fit(TRAIN, topics=given)
    assert np.ptp(tree.sample_weights_) == 0


def test_documents_of_one_token_leave_nothing_to_weigh_by():
    corpus = Corpus.from_docs([[v % 4] for v in range(40)], n_words=4)
    with pytest.warns(UserWarning):
        model = HDP(sampler="direct", moves=0, **few).fit(corpus)
    assert_allclose(model.sample_weights_, 1 / len(model.samples_))


def test_what_is_left_out():
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 600, 300)
    corpus = Corpus.from_docs([rng.integers(0, 9, n) for n in lengths], n_words=9)
    left = leave_out(rng, corpus)
    assert len(set(left.rows)) == len(left.rows) < 300
    taken = 0
    for j, seen, hidden in left.documents():
        both = np.concatenate([seen, hidden]) - corpus.offsets[j]
        assert len(set(both)) == len(both) == min(lengths[j], 200)
        assert 0 <= both.min() and both.max() < lengths[j]
        assert 0 <= len(seen) - len(hidden) <= 1
        taken += len(both)
    assert 20_000 <= taken < 20_200


# Not those with weights of documents that differ, or with words that no document has.
@pytest.mark.parametrize("fitted", of_kinds(set(MODELS) - {"TreeHDP", "HDP, seeds"}), indirect=True)
def test_a_document_is_predicted_as_if_it_were_not_in_the_corpus(fitted):
    "Topics of the other documents, counted anew, give the same."
    model, states = fitted
    counts, z = model.samples_[-1], np.array(states[-1].z)
    left, K = leave_out(np.random.default_rng(3), TRAIN), counts.n_vk.shape[1]
    phi, weight = predictive_topics(counts)
    p = predict_left_out(np.random.default_rng(0), TRAIN, left, z, counts, weight)
    rng, known, eta = np.random.default_rng(0), [], float(counts.eta)
    for j, seen, hidden in left.documents():
        others = np.repeat(np.arange(100), TRAIN.doc_lengths) != j
        n_vk = np.zeros((16, K))
        np.add.at(n_vk, (TRAIN.x[others], z[others]), 1)
        phi[:, :K] = (n_vk + eta) / (n_vk.sum(axis=0) + 16 * eta)
        pi, x = np.empty((1, len(weight))), TRAIN.x
        fold_in(rng, x[seen], np.array([0, len(seen)]), phi, weight, 25, 5, pi)
        known.append(phi[x[hidden]] @ pi[0])
    assert_allclose(p, np.concatenate(known))


def test_stack_of_one_chain_and_of_equal_ones():
    p = np.random.default_rng(0).random((1, 50))
    assert_array_equal(stack(p), [1])
    assert_allclose(stack(np.repeat(p, 3, axis=0)), 1 / 3)


@pytest.mark.parametrize("fitted", of_kinds(set(MODELS) - {"TreeHDP", "HDP, seeds"}), indirect=True)
def test_chains_that_are_the_same_share_alike(fitted):
    model, states = fitted
    topics_of = lambda counts, _: (None, np.atleast_2d(predictive_topics(counts)[1])[0])
    z, last = [np.array(states[-1].z)] * 2, [model.samples_[-1]] * 2
    weights, log_p = weigh_chains(TRAIN, [[state] for state in zip(z, last)], topics_of)[:2]
    assert_allclose(weights, 0.5)
    assert log_p[0] == log_p[1] < 0
