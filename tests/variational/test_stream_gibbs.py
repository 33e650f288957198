"""Streams that sample: exact given the past, the same however they are cut, saved and loaded."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.special import gammaln

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed.fit import fit
from hdp_nb.distributed.shards import ShardedCorpus, write_shards
from hdp_nb.evaluation.scores import document_completion
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.topics.counts import new_topic_workspace, resize_capacity
from hdp_nb.topics.direct import DirectSampler
from hdp_nb.utils.states import check_stream
from hdp_nb.variational.e_step import distinct_words, take
from hdp_nb.variational.gibbs import (
    SampledState,
    SweepRules,
    Tokens,
    assign_held,
    first_sampled_state,
    gibbs_step,
    list_tokens,
    round_at_random,
    sweep_minibatch,
    sweep_with_room,
)
from hdp_nb.variational.online import OnlineOptions


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_docs=700, doc_len=40, grid=5, n_test=100, concentration=2.0, random_state=4)


def quick(**params):
    return OnlineHDP(
        **{"n_topics": 3, "e_step": "gibbs", "batch_size": 150, "random_state": 0} | params
    )


def same(one, other):
    return all(np.array_equal(one.state_[name], a) for name, a in other.state_.items())


def test_without_a_past_a_sweep_is_the_direct_sampler_s(bars):
    corpus, rngs = bars[0][:50], [np.random.default_rng(1) for _ in range(2)]
    sampler = DirectSampler(corpus, alpha_prior=(1, 1), gamma_prior=(1, 1), init=5)
    one, other = (sampler.init(np.random.default_rng(0)) for _ in range(2))
    tokens = Tokens(corpus.x, corpus.offsets, corpus.doc_lengths)
    for past in (np.zeros(0, np.int64), np.ones(1, np.int64)):  # the second: a table too many
        for _ in range(3):
            one, _ = sampler.sweep(rngs[0], one)
            other = sweep_with_room(rngs[1], other, tokens, past, sampler.prior)
        assert all(np.array_equal(a, b) for a, b in zip(one, other)) == (len(past) == 0)


def test_tables_are_kept_when_the_slots_run_out():
    "Documents of one token, so of one table; slots for more topics are made between two of them."
    corpus = Corpus(np.zeros(60, np.int32), np.arange(61), n_words=1)
    sampler = DirectSampler(corpus, 0.5, 50.0, 50.0, None, None, init=1)
    tokens = Tokens(corpus.x, corpus.offsets, corpus.doc_lengths)
    state, rng = sampler.init(np.random.default_rng(0)), np.random.default_rng(1)
    for past in (np.zeros(0, np.int64), np.array([3])):
        state = sweep_with_room(rng, state, tokens, past, sampler.prior)
        assert state.K > 16 and state.m_k.sum() == 60 + past.sum()


def test_a_sweep_goes_on_where_the_slots_ran_out():
    "No token of the document is visited twice, or those before it would change their topics."
    corpus = Corpus(np.zeros(60, np.int32), np.array([0, 60]), n_words=1)
    sampler = DirectSampler(corpus, 0.5, 50.0, 50.0, None, None, init=1)
    state, rng = sampler.init(np.random.default_rng(0)), np.random.default_rng(1)
    what = Tokens(corpus.x, corpus.offsets, corpus.doc_lengths), np.zeros(0, np.int64)
    work = new_topic_workspace(1, 60, state.n_k.size)
    assert not sweep_minibatch(rng, state, work, *what, sampler.prior, False)
    done, state = work.at[2], resize_capacity(state, 128)
    before, work = state.z[:done].copy(), new_topic_workspace(1, 60, 128)._replace(at=work.at)
    assert 16 < done < 60 and sweep_minibatch(rng, state, work, *what, sampler.prior, False)
    z = state.z[:done]
    assert np.array_equal(np.equal.outer(z, z), np.equal.outer(before, before))


def test_a_topic_of_the_past_has_the_posterior_of_a_known_beta(bars):
    """One document, one word, topics that the past has left; no births: (S2) in closed form."""
    state = first_sampled_state(2, 1.0, 1.0, 0.5)._replace(
        lam=np.array([[6.5, 0.5], [0.5, 2.5]]),
        beta=np.array([0.5, 0.3, 0.2]),
        tables=np.array([4, 2]),
        mass=np.array(5.0),
        seen=np.array(5),
    )
    docs = distinct_words(Corpus([1], [0, 1], n_words=2))
    held = OnlineOptions(1e6, 0.6, None, None, None)
    first = 0
    for seed in range(3000):
        new, _ = gibbs_step(
            np.random.default_rng(seed), state, docs, 6, held, SweepRules(1, births=False)
        )
        first += (new.lam - new.eta)[1, 0] > 0
    p = np.array([0.5 * 0.5 / 7.0, 0.3 * 2.5 / 3.0])
    assert abs(first / 3000 - p[0] / p.sum()) < 0.02
    assert abs(first / 3000 - 0.5 / 0.8) > 0.1  # control: weights without the words of the past


def test_rounding_keeps_the_mean():
    drawn = round_at_random(np.random.default_rng(0), np.full((4000, 2), [0.25, 2.0]))
    assert abs(drawn[:, 0].mean() - 0.25) < 0.03 and (drawn[:, 1] == 2).all()


def test_bars_are_found(bars):
    model = quick().fit(bars[0])
    unit = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)
    cosine = unit(bars[1].phi) @ unit(model.components_).T
    assert (cosine.max(axis=1) > 0.9).all() and model.n_topics_ < 40
    other = OnlineHDP(n_topics=3, n_passes=2, random_state=0).fit(bars[0])
    gap = [document_completion(m, bars[1].test, random_state=0) for m in (model, other)]
    assert gap[0] > gap[1] - 0.03
    assert model.state_["t"] == 6 and len(model.trace_["bound"]) == 6  # the last: who judges
    assert np.isfinite(model.trace_["bound"]).all() and model.state_["seen"] == 700


def test_two_streams_are_compared(bars):
    "They agree on ten bars; where one cannot find what the other does, the better one is shown."
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = quick(n_topics=10, batch_size=700).fit(bars[0])
    assert model.converged_ and len(model.looks_["heldout"]) == 1
    held = model.convergence_["heldout"]
    assert model.looks_["heldout"][0] == max(held.means) and held.ok
    with pytest.warns(ConvergenceWarning, match="begun with few topics and with many"):
        model = quick(n_topics=2, batch_size=700).fit(bars[0])
    held = model.convergence_["heldout"]
    assert not model.converged_ and not held.ok and held.means[0] < held.means[1] - 0.02
    assert model.looks_["heldout"][0] == held.means[1]
    alone = quick(n_passes=1).fit(bars[0])
    assert alone.converged_ is None and not alone.looks_ and alone.state_["t"] == 5


@pytest.mark.parametrize("sizes", [[1, 349], [37], [700]])
def test_the_same_however_it_is_cut(bars, sizes):
    corpus = bars[0][:350]
    want, model, lo, i = quick().partial_fit(corpus), quick(), 0, 0
    while lo < 350:
        size = sizes[i % len(sizes)]
        model, lo, i = model.partial_fit(corpus[lo : lo + size]), lo + size, i + 1
    assert same(model, want) and model.rng_ == want.rng_ and model.state_["seen"] == 350


def test_stopped_saved_and_resumed_to_the_last_bit(bars, tmp_path):
    straight, model = quick(n_docs=700), quick(n_docs=700)
    for lo in range(0, 700, 100):
        straight.partial_fit(bars[0][lo : lo + 100])
        model.partial_fit(bars[0][lo : lo + 100])
        model.save(tmp_path / "model.npz")
        model = pickle.loads(pickle.dumps(OnlineHDP.load(tmp_path / "model.npz")))
    assert same(model, straight) and model.rng_ == straight.rng_
    assert not same(quick(n_docs=700, random_state=1).partial_fit(bars[0]), straight)
    assert all(np.array_equal(model.trace_[name], a) for name, a in straight.trace_.items())


def test_documents_that_wait_show_and_are_forgotten(bars):
    model = quick().partial_fit(bars[0][:200])  # 50 wait
    assert model.state_["seen"] == 200 and model.waiting_["before_seen"] == 150
    shown = (model.state_["lam"] - model.state_["eta"]).sum()
    before = (model.waiting_["before_lam"] - model.waiting_["before_eta"]).sum()
    assert shown > before + 1500


def test_documents_that_wait_make_nothing_worse():
    corpus = make_bars(
        n_docs=2400, doc_len=40, grid=5, n_test=300, concentration=2.0, random_state=2
    )
    score = {}
    for n in (400, 1199, 1200, 1800, 2399):
        model = quick(n_topics=10, batch_size=1200).partial_fit(corpus[0][:n])
        assert model.state_["seen"] == n and model.state_["mass"] == n
        score[n] = model.score(corpus[1].test)
    assert score[1199] > score[400] - 0.005
    assert min(score[1800], score[2399]) > score[1200] - 0.005, score


def test_topics_held_while_documents_wait_have_the_enumerated_posterior():
    phi, weights = np.array([[0.7, 0.2], [0.3, 0.8]]), np.array([0.5, 1.5])
    p, x = np.zeros((2, 2, 2)), np.array([0, 1, 0])
    for z in np.ndindex(p.shape):
        n = np.bincount(z, minlength=2)
        p[z] = np.exp(gammaln(weights + n).sum() + np.log(phi[x, z]).sum())
    found, rng, n = np.zeros_like(p), np.random.default_rng(0), 20_000
    words, offsets, z = np.tile(x, n), np.arange(n + 1) * 3, np.zeros(3 * n, np.int64)
    assign_held(rng, z, words, offsets, phi, weights, 10)
    np.add.at(found, tuple(z.reshape(n, 3).T), 1 / n)
    assert abs(found - p / p.sum()).max() < 0.012


def test_several_passes_replace_what_is_known(bars):
    few = bars[0][:300]
    model = quick(n_passes=3).fit(few)
    n = (model.state_["lam"] - model.state_["eta"]).sum()
    assert model.state_["mass"] == 300 and abs(n / few.n_tokens - 1) < 0.1


def test_no_births_without_split_merge(bars):
    trace = quick(split_merge=False).fit(bars[0]).trace_
    assert (np.diff(trace["n_topics"]) <= 0).all() and trace["n_topics"][0] <= 30


def test_as_many_topics_as_asked_for_without_split_merge(bars):
    seven = dict(n_topics=7, split_merge=False)
    for learn in (quick(**seven).fit, quick(**seven).partial_fit):
        model = learn(bars[0])
        assert model.n_topics_ == 7 and (model.trace_["n_topics"] == 7).all()
        assert not model.trace_["merges"].any()
    assert quick(**seven).partial_fit(bars[0][:90]).n_topics_ == 7  # which wait


def test_ctrl_c_and_empty_documents(bars):
    def stop(i, state):
        if i == 1:
            raise KeyboardInterrupt

    model = quick().fit(bars[0], callback=stop)
    assert model.interrupted_ and model.state_["t"] == 1
    X = np.vstack([np.zeros((200, 25), int), bars[0][:200].to_matrix().toarray()])
    model = quick().partial_fit(X).partial_fit(np.zeros((300, 25), int))
    assert model.state_["seen"] == 700 and np.isfinite(model.score(bars[1].test))
    assert quick(alpha=1.0, gamma=1.0, eta=0.5).fit(X[:201]).alpha_ == 1


def test_tokens_of_documents():
    tokens = list_tokens(take(distinct_words(Corpus([2, 0, 2, 1], [0, 3, 3, 4])), [0, 1, 2]))
    assert tokens.x.tolist() == [0, 2, 2, 1] and tokens.offsets.tolist() == [0, 3, 3, 4]


@pytest.mark.parametrize(
    "change, says",
    [
        ({"tables": np.array([1, 0])}, r"tables\[1\]"),
        ({"tables": np.array([1, 9])}, r"tables\[1\]"),
        ({"lam": np.array([[1.5, 1.5], [0.7, 0.5]])}, "whole"),
        ({"lam": np.array([[1.5, 1.5], [0.5, -0.5]])}, "lam"),
        ({"mass": np.array(-1.0)}, "mass"),
        ({"known": np.zeros(3)}, "known"),
    ],
)
def test_states_that_cannot_be(change, says):
    good = SampledState(
        lam=np.array([[1.5, 2.5], [0.5, 0.5]]),
        beta=np.array([0.4, 0.4, 0.2]),
        **{name: np.array(0.5) for name in ("alpha", "gamma", "eta", "mass")},
        t=np.array(1),
        seen=np.array(2),
        tables=np.array([1, 1]),
        known=np.ones(2),
    )
    check_stream(good, 2)
    with pytest.raises(ValueError, match=says):
        check_stream(good._replace(**change), 2)


def test_bad_arguments(bars, tmp_path):
    for bad, says in (({"e_step": "sampled"}, "e_step"), ({"batch_size": 0}, "batch_size")):
        with pytest.raises(ValueError, match=says):
            quick(**bad).fit(bars[0])
    model = quick().partial_fit(bars[0][:20]).set_params(e_step="variational")
    with pytest.raises(ValueError, match="e_step must stay what the stream began with"):
        model.partial_fit(bars[0][:20])
    write_shards(tmp_path / "corpus", [bars[0]])
    with pytest.raises(ValueError, match='e_step must be "variational" for a fit from shards'):
        fit(quick(), ShardedCorpus(tmp_path / "corpus"), tmp_path / "run")
