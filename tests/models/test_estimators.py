"""HDP as a user meets it: scikit-learn's contract, results, scores, files."""

import copy
import json
import pickle
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from quickstart import check_quick_start
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation.scores import Unigram, document_completion, left_to_right
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.priors import Gamma, LogNormal
from hdp_nb.models.exchange import to_pyldavis
from hdp_nb.models.loading import load_model
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.nested_models import HNHDP
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.models.variational_models import OnlineHDP, VariationalHDP
from hdp_nb.topics.direct import DirectSampler, HybridSampler
from hdp_nb.topics.franchise import FranchiseSampler
from hdp_nb.topics.lda import LDASampler
from hdp_nb.utils.files import load_npz, save_npz

# One short chain of plain sweeps: whether chains agree is the business of test_convergence.
plain = dict(n_chains=1, init=100)
quick = partial(HDP, n_iter=8, thin=2, moves=0, random_state=0, **plain)


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_docs=80, doc_len=40, grid=4, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(bars):
    return quick().fit(bars)


# scikit-learn's checks feed fractions, which a model of counts must refuse; so round them up first.
class Whole:
    def _corpus(self, X, reset=False):
        if not isinstance(X, Corpus):
            try:
                X = sp.csr_array(X).ceil() if sp.issparse(X) else np.ceil(X)
            except TypeError:  # objects, strings: the estimator's own business
                pass
        return super()._corpus(X, reset)


class WholeHDP(Whole, HDP):
    pass


class WholeLDA(Whole, LDA):
    pass


@parametrize_with_checks(
    [
        WholeHDP(n_iter=4, thin=1, moves=0, **plain),
        WholeHDP(sampler="direct", n_iter=4, thin=1, moves=0, **plain),
        WholeLDA(3, n_iter=4, thin=1, n_chains=1),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_results(bars, fitted):
    K = fitted.n_topics_
    assert fitted.components_.shape == (K, 16) and np.allclose(fitted.components_.sum(axis=1), 1)
    assert fitted.topic_shares_.sum() < 1 + 1e-9 and (np.diff(fitted.topic_shares_) <= 0).all()
    assert fitted.doc_topic_.shape == (80, K + 1) and np.allclose(fitted.doc_topic_.sum(axis=1), 1)
    assert set(fitted.trace_) == {
        "n_topics",
        "log_joint",
        "log_likelihood",
        "alpha",
        "gamma",
        "eta",
        "n_tables",
        "log_mixture",
        "topics_above_0.1%",
        "topics_above_1%",
        "share_1",
        "share_2",
        "share_3",
    }
    assert all(len(values) == 8 for values in fitted.trace_.values())
    one = fitted.one_sample()
    assert fitted.trace_["n_topics"][-1] == one.n_topics_
    assert fitted.trace_["alpha"][-1] == one.alpha_
    assert len(fitted.samples_) == 3  # sweeps 4 and 6, and the last
    assert np.isclose(fitted.alpha_, np.mean([counts.alpha for counts in fitted.samples_]))
    proportions = fitted.transform(bars)
    assert proportions.shape == (80, K + 1) and np.allclose(proportions.sum(axis=1), 1)
    assert (
        np.corrcoef(proportions.ravel(), fitted.doc_topic_.ravel())[0, 1] > 0.6
    )  # the same documents, inferred anew; in another order, about 0


def test_arguments_reach_the_sampler(bars):
    "No two of them alike, so that none can stand in for another."
    model = HDP(
        gamma=Gamma(2, 3),
        alpha=Gamma(5, 7),
        eta=0.2,
        init=9,
        moves=0,
        n_iter=6,
        n_chains=1,
        thin=1,
        random_state=0,
    ).fit(bars)
    sampler = FranchiseSampler(
        bars, 0.2, alpha=5 / 7, gamma=2 / 3, alpha_prior=(5, 7), gamma_prior=(2, 3), init=9
    )
    chain = run_chain(sampler, np.random.default_rng(0).spawn(1)[0], 6, burn_in=3)
    assert all(np.array_equal(model.trace_[name], chain.trace[name]) for name in chain.trace)
    assert len(model.samples_) == 3 and all(
        np.array_equal(a, b) for s, t in zip(model.samples_, chain.samples) for a, b in zip(s, t)
    )


@pytest.mark.parametrize(
    "name, kind", [("crf", FranchiseSampler), ("direct", DirectSampler), ("hybrid", HybridSampler)]
)
def test_every_sampler(bars, name, kind):
    options = dict(
        alpha=5 / 7,
        gamma=2 / 3,
        eta=0.5,
        gamma_prior=(2, 3),
        alpha_prior=(5, 7),
        eta_prior=(3, 11),
        init=9,
    )
    priors = dict(alpha=Gamma(5, 7), gamma=Gamma(2, 3), eta=Gamma(3, 11))
    run = dict(moves=0, n_iter=6, thin=1, n_chains=1, random_state=0)
    model = HDP(sampler=name, init=9, **run, **priors).fit(bars)
    chain = run_chain(kind(bars, **options), np.random.default_rng(0).spawn(1)[0], 6, burn_in=3)
    assert all(np.array_equal(model.trace_[name], chain.trace[name]) for name in chain.trace)
    assert (
        model.one_sample().eta_ == model.trace_["eta"][-1] != 0.5
        and np.unique(chain.state.alpha).size == 1
        and model.one_sample().alpha_ == chain.state.alpha.mean()
    )
    assert np.isfinite(model.score(bars)) and np.allclose(model.transform(bars).sum(axis=1), 1)


def test_lda(bars):
    options = dict(
        alpha=5 / 7,
        eta=0.5,
        gamma=2 / 3,
        alpha_prior=(5, 7),
        gamma_prior=(2, 3),
        eta_prior=(3, 11),
        weights="learned",
    )
    priors = dict(alpha=Gamma(5, 7), gamma=Gamma(2, 3), eta=Gamma(3, 11), weights="learned")
    model = LDA(5, n_iter=6, thin=1, n_chains=1, random_state=0, **priors).fit(bars)
    chain = run_chain(
        LDASampler(bars, 5, **options), np.random.default_rng(0).spawn(1)[0], 6, burn_in=3
    )
    assert all(np.array_equal(model.trace_[name], chain.trace[name]) for name in chain.trace)
    assert (
        model.n_topics_ == 5
        and model.components_.shape == (5, 16)
        and np.allclose(model.transform(bars).sum(axis=1), 1)
    )
    assert (
        all(counts.beta[-1] == 0 for counts in model.samples_)
        and model.samples_[0].beta[:5].std() > 0
    )
    assert np.allclose(
        LDA(5, n_iter=2, n_chains=1, random_state=0).fit(bars).samples_[0].beta, [0.2] * 5 + [0]
    )


def test_a_fit_begins_where_another_sampler_was(bars, tmp_path):
    states = []
    reached = (
        HDP(sampler="hybrid", moves=0, n_iter=20, n_chains=1, random_state=0)
        .fit(bars, callback=lambda sweep, state: states.append(state))
        .trace_["log_likelihood"][-1]
    )
    for sampler in ("crf", "direct", "hybrid"):
        one = dict(moves=0, n_iter=1, n_chains=1, random_state=0)
        model = HDP(sampler=sampler, init=states[-1], **one).fit(bars)
        assert (
            model.trace_["log_likelihood"][0]
            > reached - 300
            > HDP(sampler=sampler, **one).fit(bars).trace_["log_likelihood"][0]
        )
        model.save(tmp_path / "model.npz")  # keeps the topics of the start
        assert (
            HDP.load(tmp_path / "model.npz").fit(bars).trace_["log_likelihood"][0] > reached - 300
        )
    assert (
        LDA(40, init=states[-1], n_iter=1, n_chains=1, random_state=0)
        .fit(bars)
        .trace_["log_likelihood"][0]
        > reached - 300
    )


@pytest.mark.parametrize("seed", range(4))
def test_one_sample_is_the_best_chains_last(bars, seed):
    "Every attribute from the formula in its docstring, for chains that differ."
    model = quick(n_chains=3, n_iter=9, random_state=seed).fit(bars)
    best = model.sample_chain_[model.best_]  # which that is, tests/models/test_stacking.py asks
    assert all(
        np.array_equal(model.trace_[name], rows[best]) for name, rows in model.traces_.items()
    )
    assert len({tuple(row) for row in model.traces_["log_joint"]}) == 3
    shown = sorted(set(model.sample_chain_))  # sweeps 4, 6, 8 of each; the last is kept once
    assert model.burn_in_ == 4 and model.sample_chain_.tolist() == np.repeat(shown, 3).tolist()
    assert model.best_ == 3 * shown.index(best) + 2
    counts, every, model = model.samples_[model.best_], model, model.one_sample()
    assert model.samples_ == [counts] and len(every.samples_) == 3 * len(shown)
    assert (
        counts.alpha == model.alpha_ == model.trace_["alpha"][-1]
        and counts.gamma == model.gamma_ == model.trace_["gamma"][-1]
    )

    n_vk, order = counts.n_vk.toarray(), np.argsort(model.matches_)
    n_k, weight = n_vk.sum(axis=0), counts.alpha * counts.beta[:-1]
    assert (np.diff(n_k[order]) <= 0).all() and np.allclose(
        model.topic_shares_, n_k[order] / bars.n_tokens
    )
    assert np.allclose(
        model.components_, ((n_vk + counts.eta) / (n_k + 16 * counts.eta))[:, order].T
    )
    total = counts.alpha * counts.beta.sum()
    n_jk = model.doc_topic_[:, :-1] * (bars.doc_lengths + total)[:, None] - weight[order]
    assert (
        np.allclose(n_jk, n_jk.round(), atol=1e-6)
        and n_jk.min() > -1e-6
        and np.allclose(n_jk.sum(axis=0), n_k[order])
    )
    prior = np.append(weight[order], counts.alpha * counts.beta[-1]) / total
    assert np.allclose(model.transform(np.zeros((1, 16), int)), prior)
    assert [words[0] for words in model.top_words(1)] == [
        str(v) for v in model.components_.argmax(axis=1)
    ]


def test_shown_chains_are_not_always_the_first(bars):
    "Else the test above would say less than it seems to."
    assert (
        len({quick(n_chains=3, n_iter=9, random_state=seed).fit(bars).best_ for seed in range(4)})
        > 1
    )


def test_same_result_for_every_form_of_the_counts(bars):
    X = bars.to_matrix()
    order = Corpus.from_matrix(X)  # tokens in the order a matrix has them
    results = [
        quick().fit(Y).components_
        for Y in (
            order,
            X,
            sp.csr_matrix(X),
            X.toarray(),
            sp.coo_array(X),
            X.toarray().astype(float),
        )
    ]
    assert all(np.array_equal(results[0], r) for r in results[1:])


def test_words_that_never_occur_and_empty_documents():
    X = np.array([[3, 0, 1, 0], [0, 0, 0, 0], [2, 0, 2, 0]])
    model = quick().fit(X)
    assert model.components_.shape[1] == 4 and (model.components_ > 0).all()
    empty = model.transform(np.zeros((2, 4), int))
    assert np.allclose(empty.sum(axis=1), 1) and np.allclose(empty[0], empty[1])
    assert model.doc_topic_.shape[0] == 3


def test_callback_sees_every_sweep(bars):
    seen = []
    model = quick().fit(
        bars,
        callback=lambda sweep, state: seen.append(
            (sweep, state.z.copy(), float(state.alpha), float(state.gamma))
        ),
    )
    assert [s[0] for s in seen] == list(range(8))
    assert all(z.shape == (bars.n_tokens,) and z.min() == 0 for _, z, _, _ in seen)
    assert [a for _, _, a, _ in seen] == model.trace_["alpha"].tolist()
    assert [len(np.unique(z)) for _, z, _, _ in seen] == model.trace_["n_topics"].tolist()


def test_fixed_concentrations(bars):
    model = quick(alpha=2.5, gamma=0.7).fit(bars)
    assert set(model.trace_["alpha"]) == {2.5} and set(model.trace_["gamma"]) == {0.7}


def test_seeds_and_threads(bars):
    model = quick(n_chains=3, n_jobs=1)
    a, b = clone(model).fit(bars), clone(model).set_params(n_jobs=2).fit(bars)
    assert np.array_equal(a.components_, b.components_) and a.traces_["log_joint"].shape == (3, 8)
    assert len(a.samples_) == 3 * len(set(a.sample_chain_)) and a.best_ % 3 == 2
    assert not np.array_equal(
        a.components_, clone(model).set_params(random_state=1).fit(bars).components_
    )


def test_checkpoint_goes_on(bars, tmp_path):
    whole = quick().fit(bars)

    def stop(sweep, state):
        if sweep == 4:
            raise KeyboardInterrupt

    part = quick().fit(bars, callback=stop, checkpoint=tmp_path / "run.npz")
    assert len(part.trace_["n_topics"]) == 5
    resumed = quick().fit(bars, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(resumed.components_, whole.components_)


@pytest.mark.parametrize("seed", [0, np.int64(0), None])
def test_checkpoint_of_a_shorter_run_goes_on_and_that_of_another_seed_does_not(
    bars, tmp_path, seed
):
    "The burn-in is half of all sweeps, before and after; a seed that nobody has named is any seed."
    longer = dict(burn_in=None, thin=2, n_chains=2)
    quick(n_iter=8, random_state=0, **longer).fit(bars, checkpoint=tmp_path / "run.npz")
    before = [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    for n_iter in (8, 12):
        with pytest.raises(ValueError, match="made with random_state = 0, now random_state = 5"):
            quick(n_iter=n_iter, random_state=5, **longer).fit(
                bars, checkpoint=tmp_path / "run.npz"
            )
    with pytest.raises(ValueError, match="give burn_in = 4"):
        quick(n_iter=10, random_state=seed, **longer).fit(bars, checkpoint=tmp_path / "run.npz")
    assert before == [path.read_bytes() for path in sorted(tmp_path.iterdir())]
    resumed = quick(n_iter=12, random_state=seed, **longer).fit(
        bars, checkpoint=tmp_path / "run.npz"
    )
    whole = quick(n_iter=12, random_state=0, **longer).fit(bars)
    assert np.array_equal(resumed.components_, whole.components_) and resumed.burn_in_ == 6
    assert len(resumed.samples_) == len(whole.samples_) > 4
    for one, two in zip(resumed.samples_, whole.samples_):
        assert all(np.array_equal(a, b) for a, b in zip(one, two))


def test_interrupted_in_burn_in_keeps_what_is_done(bars):
    def stop(sweep, state):
        raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="ended in its burn-in, after 1 of 6 sweeps"):
        model = quick(n_iter=12).fit(bars, callback=stop)
    assert len(model.trace_["n_topics"]) == len(model.samples_) == 1 and model.interrupted_
    assert model.converged_ is False and np.isfinite(model.score(bars))
    with warnings.catch_warnings():  # one sweep after the burn-in is enough to say nothing
        warnings.simplefilter("error")
        model = quick(n_iter=12, burn_in=0).fit(bars, callback=stop)
    assert model.interrupted_ and model.converged_ is None


def test_scores(bars):
    train, test = bars[:60], bars[60:]
    model = HDP(n_iter=80, n_chains=1, moves=0, random_state=0).fit(train)
    assert (
        model.score(test) == model.score(test) == document_completion(model, test, random_state=0)
    )
    assert np.isclose(model.perplexity(test), np.exp(-model.score(test)))
    assert model.score(test) > Unigram().fit(train).score(test) + 0.1


def test_predictive_probabilities_sum_to_one(fitted):
    V = fitted.n_features_in_
    observed = Corpus.from_docs([[0, 1, 2, 3]] * V, n_words=V)
    each_word = Corpus.from_docs([[v] for v in range(V)], n_words=V)
    some = [np.exp(fitted.log_predictive(observed, each_word, seed)) for seed in range(8)]
    assert abs(np.mean(some, axis=0).sum() - 1) < 0.05  # each term has a fold-in of its own


def test_predictions_average_over_all_samples(bars):
    "The prediction for a document of which nothing was observed follows from the weights alone."
    model = quick(n_chains=2).fit(bars)
    p = 0.0
    for w, counts in zip(model.sample_weights_, model.samples_):
        n_vk, share = counts.n_vk.toarray() + counts.eta, counts.beta[:-1]
        p += w * ((n_vk / n_vk.sum(axis=0)) @ share + (1 - share.sum()) / 16)
    nothing, each_word = (
        Corpus.from_docs([[]] * 16, n_words=16),
        Corpus.from_docs([[v] for v in range(16)], n_words=16),
    )
    assert np.allclose(np.exp(model.log_predictive(nothing, each_word)), p) and np.isclose(
        p.sum(), 1
    )
    assert not np.allclose(p, p[0])


def test_log_predictive_draws_from_the_generator_it_is_given(bars, fitted):
    observed, heldout = bars.split_tokens(0.2, 0)
    results = [
        fitted.log_predictive(observed, heldout, seed) for seed in (0, np.random.default_rng(0), 1)
    ]
    assert np.array_equal(results[0], results[1]) and not np.array_equal(results[0], results[2])


def test_parts_that_do_not_fit_together(bars, fitted):
    observed, heldout = bars.split_tokens(0.2, 0)
    with pytest.raises(
        ValueError, match="heldout must hold the same documents as observed, got 79 and 80"
    ):
        fitted.log_predictive(observed, heldout[1:])
    with pytest.raises(ValueError, match="X must have documents of 3 tokens or more"):
        fitted.score(np.eye(16, dtype=int))


def test_files_of_other_versions(bars, fitted, tmp_path):
    "An older format is read, a newer one refused; so is what is not whole, with a reason."
    path = tmp_path / "m.npz"
    fitted.save(path)
    arrays = load_npz(path)
    meta = json.loads(arrays.pop("meta").item())

    def write(change=lambda meta: None, arrays=arrays):
        changed = copy.deepcopy(meta)
        change(changed)
        save_npz(path, {"meta": np.array(json.dumps(changed)), **arrays})

    def old(meta):
        meta["format"] = "hdp_nb model 2"
        for name in ("program", "dicts", "samples", "arrays"):
            del meta[name]
        del meta["params"]["power"]  # a parameter that came later has its default

    write(old)
    again = HDP.load(path)
    assert (
        again.score(bars) == fitted.score(bars)
        and np.array_equal(again.trace_["alpha"], fitted.trace_["alpha"])
        and again.power == 1.0
    )

    for change, reason in [
        (
            lambda m: m.update(format="hdp_nb model 7", program="hdp_nb 9.9"),
            "format 2 to 6.*got 'hdp_nb model 7', written by hdp_nb 9.9; a newer hdp_nb reads it",
        ),
        (lambda m: m.update(format="hdp_nb model 1"), "got 'hdp_nb model 1'"),
        (lambda m: m.update(format="hdp_nb chain 1"), "takes a file that `save` of a model wrote"),
        (lambda m: m.pop("params"), "takes a file that `save` of a model wrote"),
        (
            lambda m: m["params"].update(telepathy=1),
            "written by hdp_nb .*: unknown parameters telepathy",
        ),
        (
            lambda m: m["results"].update(transform="lambda X: X"),
            "not names of results: 'transform'",
        ),
        (lambda m: m["results"].update(__class__="Corpus"), "not names of results"),
        (lambda m: m["samples"].update(samples_=7), "not a whole HDP"),
        (lambda m: m["samples"].update(samples_=1), "not a whole HDP"),
    ]:
        write(change)
        with pytest.raises(ValueError, match=reason) as error:
            HDP.load(path)
        assert str(path) in str(error.value)
    for some in (
        {key: a for key, a in arrays.items() if key != "components_"},
        arrays | {"more_": np.zeros(3)},
        {key: a for key, a in arrays.items() if key != "samples_/1/beta"},
    ):
        write(arrays=some)
        with pytest.raises(ValueError, match="not a whole HDP.*missing or too many"):
            HDP.load(path)


def test_a_model_of_any_class(fitted, bars, tmp_path):
    path = tmp_path / "m.npz"
    for model in (
        fitted,
        LDA(
            3,
            n_iter=2,
            n_chains=1,
            random_state=np.random.RandomState(0),
            eta=np.float32(0.5),
            thin=np.int64(1),
        ).fit(bars),
    ):
        model.save(path)
        again = load_model(path)
        assert type(again) is type(model) and again.score(bars) == model.score(bars)
    assert again.random_state is None and again.eta == 0.5
    again.traces_ = {
        "alpha_news/sport": np.arange(3.0),
        "0/x": np.zeros(3),
    }  # a level of a tree may have any name
    again.names_ = {}
    again.save(path)
    assert [*load_model(path).traces_] == ["alpha_news/sport", "0/x"] and load_model(
        path
    ).names_ == {}
    Unknown = type("Unknown", (LDA,), {})
    Unknown(3, n_iter=2, n_chains=1).fit(bars).save(path)
    with pytest.raises(ValueError, match="takes a saved HDP, LDA, .*, got a saved Unknown"):
        load_model(path)
    again.init = object()
    with pytest.raises(TypeError, match="save takes parameters that are"):
        again.save(path)


def test_nothing_is_executed_in_loading(fitted, tmp_path):
    "A pickled object, in an array or instead of the file, is refused unread."

    class Bomb:
        def __reduce__(self):
            return Path.touch, (tmp_path / "boom",)

    fitted.save(tmp_path / "m.npz")
    arrays = load_npz(tmp_path / "m.npz")
    np.savez(tmp_path / "m.npz", **arrays | {"components_": np.array([Bomb()], object)})
    (tmp_path / "p.npz").write_bytes(pickle.dumps(Bomb()))
    for name in ("m.npz", "p.npz"):
        for load in (HDP.load, load_model):
            with pytest.raises(ValueError, match=name):
                load(tmp_path / name)
    assert not (tmp_path / "boom").exists()


def test_save_and_load(bars, fitted, tmp_path):
    fitted.save(tmp_path / "m.npz")
    again = HDP.load(tmp_path / "m.npz")
    assert np.array_equal(again.transform(bars), fitted.transform(bars)) and again.score(
        bars
    ) == fitted.score(bars)
    assert all(np.array_equal(again.trace_[name], fitted.trace_[name]) for name in fitted.trace_)
    assert again.top_words() == fitted.top_words() and again.n_topics_ == fitted.n_topics_
    assert np.array_equal(
        pickle.loads(pickle.dumps(fitted)).transform(bars), fitted.transform(bars)
    )

    whole = (tmp_path / "m.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    bars.save(tmp_path / "corpus.npz")
    for name in ("cut.npz", "corpus.npz"):
        with pytest.raises(ValueError, match=name):
            HDP.load(tmp_path / name)

    class Other(HDP):
        pass

    with pytest.raises(ValueError, match="takes a saved Other"):
        Other.load(tmp_path / "m.npz")


def test_pipeline_and_grid_search():
    texts = ["sea ship storm", "ship sea sea", "bread wine cheese", "wine bread bread"] * 6
    pipeline = make_pipeline(CountVectorizer(), quick())
    assert pipeline.fit_transform(texts).shape[0] == 24
    X = CountVectorizer().fit_transform(texts + ["sea ship storm bread wine"] * 4)
    X = sp.vstack([X] * 2).tocsr() * 3
    assert pipeline[-1].top_words(1, vocab=pipeline[0].get_feature_names_out())[0][0] in {
        "sea",
        "ship",
        "storm",
        "bread",
        "wine",
        "cheese",
    }
    assert pipeline.get_feature_names_out().tolist() == [
        *(f"hdp{k}" for k in range(pipeline[-1].n_topics_)),
        "hdp_rest",
    ]
    search = GridSearchCV(quick(), {"eta": [0.1, 1.0]}, cv=2).fit(X)
    assert search.best_params_["eta"] in (0.1, 1.0) and np.isfinite(search.best_score_)


def test_vocabulary():
    corpus = Corpus.from_docs([["sea", "ship", "sea"], ["bread", "wine"]])
    model = quick().fit(corpus)
    assert set(model.top_words(4)[0]) == {"sea", "ship", "bread", "wine"}
    assert quick().fit(corpus.to_matrix()).top_words(1)[0][0] in {"0", "1", "2", "3"}


def test_another_vocabulary_is_refused():
    "The same number of words, in another order: ids would match, words would not."
    model = quick().fit(Corpus.from_docs([["a", "b", "c"] * 5] * 4))
    other = Corpus.from_docs([["b", "b", "c"] * 5], vocab=["b", "c", "a"])
    for use in (
        model.transform,
        model.score,
        model.perplexity,
        lambda X: left_to_right(model, X, 2),
        lambda X: to_pyldavis(model, X),
    ):
        with pytest.raises(ValueError, match="over\\(vocab\\)"):
            use(other)
    right = Corpus.from_docs([["b", "b", "c"] * 5], vocab=["a", "b", "c"])
    assert (
        model.transform(other.over(model.vocabulary_)) == model.transform(right)
    ).all() and model.transform(right.to_matrix()).shape == (1, model.n_topics_ + 1)


@pytest.mark.parametrize("method", ["transform", "score", "perplexity"])
def test_not_fitted(bars, method):
    with pytest.raises(NotFittedError):
        getattr(HDP(), method)(bars)


def test_tables_of_words_and_topics(bars, fitted):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(fitted.top_words(3, table=True))
    assert frame.shape == (3 * fitted.n_topics_, 6) and frame.columns.tolist() == [
        "topic",
        "share",
        "rank",
        "word",
        "probability",
        "lift",
    ]
    lift = frame["probability"] / fitted.word_shares_[frame["word"].astype(int)]
    assert np.allclose(frame["lift"], lift)
    by_lift = pd.DataFrame(fitted.top_words(16, table=True, by="lift"))["lift"].to_numpy()
    assert (np.diff(by_lift.reshape(-1, 16), axis=1) <= 1e-12).all()
    words = frame.pivot(index="topic", columns="rank", values="word").values.tolist()
    assert words == fitted.top_words(3) and frame["share"][0] == fitted.topic_shares_[0]
    assert all(
        fitted.components_[t, int(w)] == p
        for t, w, p in zip(frame["topic"], frame["word"], frame["probability"])
    )
    named = [f"w{v}" for v in range(16)]
    assert fitted.top_words(2, vocab=named) == [
        [f"w{v}" for v in row] for row in fitted.top_words(2)
    ]
    with pytest.raises(ValueError, match="vocab must name the 16 columns of X, got 3 words"):
        fitted.top_words(vocab=["a", "b", "c"])
    shares = clone(fitted).set_output(transform="pandas").fit(bars).transform(bars)
    assert shares.columns.tolist()[:-1] == [f"hdp{k}" for k in range(fitted.n_topics_)]
    assert shares.columns[-1] == "hdp_rest"
    assert np.array_equal(shares, fitted.transform(bars))


@pytest.mark.parametrize("X", ["the sea", Path("folder")])
def test_texts_are_told_where_to_go(X):
    with pytest.raises(ValueError, match="take a list of strings.*Corpus.from_docs"):
        HDP().fit(X)


@pytest.mark.parametrize(
    "model",
    [
        quick(),
        quick(seed_words={"first": ["0", "1"]}),
        VariationalHDP(n_topics=4, max_iter=3, tol=0, random_state=0),
        OnlineHDP(n_passes=1, random_state=0),
    ],
)
def test_loaded_and_saved_again_the_same_bytes(bars, model, tmp_path):
    words = [str(v) for v in range(bars.n_words)]
    X = Corpus.from_matrix(bars.to_matrix(), words)
    model.fit(X).save(tmp_path / "one.npz")
    load_model(tmp_path / "one.npz").save(tmp_path / "other.npz")
    one, other = ((tmp_path / f"{name}.npz").read_bytes() for name in ("one", "other"))
    assert one == other


@pytest.mark.parametrize(
    "X",
    [
        [[0, 1], [0, 1, 2], [3]],
        [list(range(5 + j % 7)) for j in range(3000)],
        np.array([[0, 1], [2]], object),
        [np.arange(3), np.arange(2)],
    ],
)
@pytest.mark.parametrize(
    "model",
    [
        HDP(n_iter=1, n_chains=1, moves=0),
        VariationalHDP(max_iter=1),
        OnlineHDP(),
        HNHDP(n_iter=1),
        DPMixture("multinomial", n_iter=1),
        Unigram(),
    ],
)
def test_lists_of_word_ids_are_told_where_to_go(model, X):
    with pytest.raises(
        ValueError,
        match=r"X must be .*, got rows of \d+ to \d+ values"
        + ("" if isinstance(model, DPMixture) else "; Corpus.from_docs takes lists"),
    ):
        model.fit(X)
    if not isinstance(model, DPMixture):
        with pytest.raises(ValueError, match="X must be .*, got rows beside single values"):
            model.fit([[0, 1], None])


@pytest.mark.parametrize(
    "params, message",
    [
        (dict(sampler="gibbs"), "sampler must be one of 'auto', 'crf'"),
        (dict(eta=0), "eta must be a finite number above 0, .*; got 0"),
        (dict(alpha=-1), "alpha must"),
        (dict(gamma=0), "gamma must"),
        (dict(alpha=(1, 2)), "alpha must .*; write Gamma\\(1, 2\\) for a prior"),
        (dict(n_iter=0), "n_iter"),
        (dict(burn_in=8), "burn_in"),
        (dict(burn_in=-1), "burn_in"),
        (dict(thin=0), "thin"),
        (dict(n_chains=0), "n_chains"),
        (dict(random_state="x"), "random_state"),
        (dict(init=0), "init"),
        (dict(init="opposed"), "init must be .*opposite"),
        (dict(moves=-1), "moves must be .*, got -1"),
        (dict(moves="many"), "moves must be \"auto\" or .*, got 'many'"),
        (dict(init=np.zeros(3, int)), "init must hold"),
    ],
)
def test_bad_parameters(bars, params, message):
    with pytest.raises(ValueError, match=message):
        quick(**params).fit(bars)


@pytest.mark.parametrize(
    "model, X",
    [
        (HDP(alpha=LogNormal(0.0, 1.0), moves=0, **plain), 3 * np.eye(4, dtype=int)),
        (
            TreeHDP(levels=[], concentrations=[LogNormal(0, 1), 1.0], **plain),
            3 * np.eye(4, dtype=int),
        ),
        (DPMixture("normal", alpha=Gamma(2.0, 1.0)), np.arange(12.0).reshape(6, 2)),
    ],
    ids=["HDP", "TreeHDP", "DPMixture"],
)
def test_priors_are_saved_as_priors(model, X, tmp_path):
    "A prior that is an object comes back as one: a loaded model predicts and can be refitted."
    model = model.set_params(n_iter=10, thin=2, random_state=0).fit(X)
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    for name, value in model.get_params().items():
        assert again.get_params()[name] == value
    assert again.score(X + X) == model.score(X + X)
    assert np.array_equal(again.fit(X).trace_["alpha"], model.trace_["alpha"])


@pytest.mark.parametrize("model", ["HDP", "LDA"])
def test_quick_start(model, tmp_path, monkeypatch):
    check_quick_start(model, tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", [HDP, partial(LDA, 5), TreeHDP])
def test_eta_is_learned_unless_a_number_is_given(bars, kind):
    "A prior has it learned from where it begins anyway; topics that are given bring theirs."
    run = {"n_iter": 4, "thin": 1, "n_chains": 1, "random_state": 0}
    eta = lambda **options: kind(**options, **run).fit(bars).trace_["eta"]
    learned = eta()
    assert len(set(learned)) == 4 and np.array_equal(learned, eta(eta=Gamma(1, 1)))
    assert not np.array_equal(learned, eta(eta=Gamma(30, 1)))
    assert (eta(eta=0.25) == 0.25).all()
    wide = Corpus(bars.x, bars.offsets, n_words=101)
    first = 20 / 101 if kind in (HDP, TreeHDP) else 0.5
    for prior in (None, Gamma(1, 1)):
        assert kind(eta=prior, **run)._eta(wide.n_words)[0] == first
    if kind is TreeHDP:
        given = HDP(eta=0.125, **run).fit(bars)
        assert (TreeHDP(**run).fit(bars, topics=given).trace_["eta"] == 0.125).all()


@pytest.mark.parametrize("make", [HDP, HNHDP, OnlineHDP, TreeHDP, VariationalHDP])
def test_a_fit_that_is_refused_or_stopped_changes_nothing(make):
    texts, others = ["ship sea storm", "bread wine cheese"] * 10, ["law court", "opera violin"] * 10
    passes = {OnlineHDP: "n_passes", VariationalHDP: "max_iter"}.get(make, "n_iter")
    model = make(random_state=0, **{passes: 5})
    groups = {"groups": ["a", "b"] * 10} if make is TreeHDP else {}
    model.fit(texts, **groups)
    before = model.vocabulary_, model.components_.copy(), model.get_params()

    def stop(*_):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        model.fit(others, callback=stop, **groups)
    with pytest.raises(ValueError):
        model.set_params(**{passes: -1}).fit(others, **groups)
    assert model.vocabulary_ == before[0] and np.array_equal(model.components_, before[1])
    assert model.get_params() == before[2] | {passes: -1}


def test_a_mixture_keeps_its_own_rows(tmp_path):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(20, 2)), rng.normal(size=(20, 2)) + 6]) + 100
    model, new = DPMixture("normal", n_iter=30, random_state=0).fit(X), X[:3].copy()
    score = model.score(new)
    X -= X.mean(axis=0)
    assert model.score(new) == score
    model.save(tmp_path / "model.npz")
    with pytest.raises(ValueError):
        model.set_params(alpha=-1.0).fit(X)
    assert model.set_params(alpha=1.0).score(new) == score


def test_names_of_topics_in_a_column_transformer():
    pandas = pytest.importorskip("pandas")
    from sklearn.compose import make_column_transformer

    frame = pandas.DataFrame({"text": ["ship sea storm", "bread wine cheese"] * 10})
    model = HDP(n_iter=5, n_chains=1, moves=0, random_state=0)
    made = make_column_transformer((model, "text")).set_output(transform="pandas")
    names = made.fit_transform(frame).columns
    assert names[0] == "hdp__hdp0" and names[-1] == "hdp__hdp_rest"
