"""HDP as a user meets it: scikit-learn's contract, results, scores, files."""
import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from hdp_nb.corpus import Corpus, make_bars
from hdp_nb.estimators import HDP
from hdp_nb.evaluate import Unigram, document_completion

quick = partial(HDP, n_iter=8, thin=2, random_state=0)


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_docs=80, doc_len=40, grid=4, random_state=0)[0]


@pytest.fixture(scope="module")
def fitted(bars):
    return quick().fit(bars)


# scikit-learn's checks feed fractions, which a model of counts must refuse; so round them up first.
class WholeHDP(HDP):
    def _corpus(self, X, reset=False):
        if not isinstance(X, Corpus):
            try:
                X = sp.csr_array(X).ceil() if sp.issparse(X) else np.ceil(X)
            except TypeError:                     # objects, strings: the estimator's own business
                pass
        return super()._corpus(X, reset)


@parametrize_with_checks([WholeHDP(n_iter=4, thin=1)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_results(bars, fitted):
    K = fitted.n_topics_
    assert fitted.components_.shape == (K, 16) and np.allclose(fitted.components_.sum(axis=1), 1)
    assert np.isclose(fitted.topic_shares_.sum(), 1) and (np.diff(fitted.topic_shares_) <= 0).all()
    assert fitted.doc_topic_.shape == (80, K) and np.allclose(fitted.doc_topic_.sum(axis=1), 1)
    assert set(fitted.trace_) == {"n_topics", "log_joint", "log_likelihood", "alpha", "gamma", "n_tables"}
    assert all(len(values) == 8 for values in fitted.trace_.values())
    assert fitted.trace_["n_topics"][-1] == K and fitted.trace_["alpha"][-1] == fitted.alpha_
    assert len(fitted.samples_) == 3                        # sweeps 4 and 6, and the last
    proportions = fitted.transform(bars)
    assert proportions.shape == (80, K) and np.allclose(proportions.sum(axis=1), 1)
    assert np.corrcoef(proportions.ravel(), fitted.doc_topic_.ravel())[0, 1] > 0.8   # the same documents, inferred anew


def test_same_result_for_every_form_of_the_counts(bars):
    X = bars.to_matrix()
    order = Corpus.from_matrix(X)                          # tokens in the order a matrix has them
    results = [quick().fit(Y).components_ for Y in (order, X, sp.csr_matrix(X), X.toarray(), sp.coo_array(X), X.toarray().astype(float))]
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
    model = quick().fit(bars, callback=lambda sweep, state: seen.append((sweep, state.z.copy(), float(state.alpha), float(state.gamma))))
    assert [s[0] for s in seen] == list(range(8))
    assert all(z.shape == (bars.n_tokens,) and z.min() == 0 for _, z, _, _ in seen)
    assert [a for _, _, a, _ in seen] == model.trace_["alpha"].tolist()
    assert [len(np.unique(z)) for _, z, _, _ in seen] == model.trace_["n_topics"].tolist()


def test_fixed_concentrations(bars):
    model = quick(alpha=2.5, gamma=0.7, alpha_prior=None, gamma_prior=None).fit(bars)
    assert set(model.trace_["alpha"]) == {2.5} and set(model.trace_["gamma"]) == {0.7}


def test_seeds_and_threads(bars):
    model = quick(n_chains=3, n_jobs=1)
    a, b = clone(model).fit(bars), clone(model).set_params(n_jobs=2).fit(bars)
    assert np.array_equal(a.components_, b.components_) and a.traces_["log_joint"].shape == (3, 8)
    assert len(a.samples_) == 9 and a.best_ in (2, 5, 8)
    assert not np.array_equal(a.components_, clone(model).set_params(random_state=1).fit(bars).components_)


def test_checkpoint_goes_on(bars, tmp_path):
    whole = quick().fit(bars)

    def stop(sweep, state):
        if sweep == 4:
            raise KeyboardInterrupt
    part = quick().fit(bars, callback=stop, checkpoint=tmp_path/"run.npz")
    assert len(part.trace_["n_topics"]) == 5
    resumed = quick().fit(bars, checkpoint=tmp_path/"run.npz")
    assert np.array_equal(resumed.components_, whole.components_)


def test_interrupted_in_burn_in_keeps_what_is_done(bars):
    def stop(sweep, state):
        raise KeyboardInterrupt
    model = quick().fit(bars, callback=stop)
    assert len(model.trace_["n_topics"]) == 1 and len(model.samples_) == 1 and np.isfinite(model.score(bars))


def test_scores(bars):
    train, test = bars[:60], bars[60:]
    model = HDP(n_iter=80, random_state=0).fit(train)
    assert model.score(test) == model.score(test) == document_completion(model, test, random_state=0)
    assert np.isclose(model.perplexity(test), np.exp(-model.score(test)))
    assert model.score(test) > Unigram().fit(train).score(test) + 0.1


def test_predictive_probabilities_sum_to_one(fitted):
    V = fitted.n_features_in_
    observed = Corpus.from_docs([[0, 1, 2, 3]]*V, n_words=V)
    each_word = Corpus.from_docs([[v] for v in range(V)], n_words=V)
    p = np.exp(fitted.log_predictive(observed, each_word))
    assert abs(p.sum() - 1) < 0.05                        # each term has a fold-in of its own


def test_save_and_load(bars, fitted, tmp_path):
    fitted.save(tmp_path/"m.npz")
    again = HDP.load(tmp_path/"m.npz")
    assert np.array_equal(again.transform(bars), fitted.transform(bars)) and again.score(bars) == fitted.score(bars)
    assert all(np.array_equal(again.trace_[name], fitted.trace_[name]) for name in fitted.trace_)
    assert again.top_words() == fitted.top_words() and again.n_topics_ == fitted.n_topics_
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(bars), fitted.transform(bars))

    whole = (tmp_path/"m.npz").read_bytes()
    (tmp_path/"cut.npz").write_bytes(whole[:len(whole)//2])
    bars.save(tmp_path/"corpus.npz")
    for name in ("cut.npz", "corpus.npz"):
        with pytest.raises(ValueError, match=name):
            HDP.load(tmp_path/name)

    class Other(HDP):
        pass
    with pytest.raises(ValueError, match="takes a saved Other"):
        Other.load(tmp_path/"m.npz")


def test_pipeline_and_grid_search():
    texts = ["sea ship storm", "ship sea sea", "bread wine cheese", "wine bread bread"]*6
    pipeline = make_pipeline(CountVectorizer(), quick())
    assert pipeline.fit_transform(texts).shape[0] == 24
    X = CountVectorizer().fit_transform(texts + ["sea ship storm bread wine"]*4)
    X = sp.vstack([X]*2).tocsr()*3
    search = GridSearchCV(quick(), {"eta": [0.1, 1.0]}, cv=2).fit(X)
    assert search.best_params_["eta"] in (0.1, 1.0) and np.isfinite(search.best_score_)


def test_vocabulary():
    corpus = Corpus.from_docs([["sea", "ship", "sea"], ["bread", "wine"]])
    model = quick().fit(corpus)
    assert set(model.top_words(4)[0]) == {"sea", "ship", "bread", "wine"}
    assert quick().fit(corpus.to_matrix()).top_words(1)[0][0] in {"0", "1", "2", "3"}


@pytest.mark.parametrize("params, message", [
    (dict(sampler="gibbs"), "sampler must be one of 'crf'"),
    (dict(eta=0), "eta must be a finite number above 0, got 0"),
    (dict(alpha=-1), "alpha must"), (dict(gamma=0), "gamma must"), (dict(alpha_prior=(1, 0)), "alpha_prior must"),
    (dict(n_iter=0), "n_iter"), (dict(burn_in=8), "burn_in"), (dict(burn_in=-1), "burn_in"), (dict(thin=0), "thin"),
    (dict(n_chains=0), "n_chains"), (dict(random_state="x"), "random_state"), (dict(init=0), "init"),
    (dict(init=np.zeros(3, int)), "z must hold"),
])
def test_bad_parameters(bars, params, message):
    with pytest.raises(ValueError, match=message):
        quick(**params).fit(bars)
