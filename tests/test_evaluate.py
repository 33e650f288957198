"""Document completion and the baseline: the cut, the average, the numbers, and what the HDP's part of it estimates."""
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import poch
from sklearn.exceptions import NotFittedError

from hdp_nb.corpus import Corpus, make_bars
from hdp_nb.estimators import HDP
from hdp_nb.evaluate import Unigram, document_completion, perplexity
from hdp_nb.franchise import TopicCounts


class Recorder:
    "A model that remembers what it was asked, and answers with known numbers."
    def log_predictive(self, observed, heldout, random_state=None):
        self.observed, self.heldout, self.rng = observed, heldout, random_state
        return -np.arange(heldout.n_tokens)**2.0


def completed(X, **options):
    model = Recorder()
    score = document_completion(model, X, **options)
    return model, score


@pytest.fixture(scope="module")
def bars():
    return make_bars(n_docs=40, doc_len=30, grid=4, random_state=0)[0]


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_every_document_is_cut_and_nothing_lost(bars, share):
    model, score = completed(bars, test_size=share, random_state=3)
    assert (model.heldout.doc_lengths == 30*share).all()
    assert ((model.observed.to_matrix() + model.heldout.to_matrix()) != bars.to_matrix()).nnz == 0
    assert score == -np.mean(np.arange(model.heldout.n_tokens)**2.0)          # a mean, of all tokens alike


def test_a_fifth_is_the_default(bars):
    assert completed(bars)[0].heldout.n_tokens == bars.n_tokens/5


def test_the_same_seed_cuts_alike_for_every_model(bars):
    a, b, other = (completed(bars, random_state=seed)[0] for seed in (1, np.random.default_rng(1), 2))
    assert np.array_equal(a.heldout.x, b.heldout.x) and not np.array_equal(a.heldout.x, other.heldout.x)
    assert a.rng.random() == b.rng.random()                                   # the model goes on with the generator of the cut


def test_empty_documents_stay_in_place():
    model, _ = completed(np.array([[0, 0], [5, 5], [0, 0], [1, 0]]), random_state=0)
    assert model.observed.doc_lengths.tolist() == [0, 8, 0, 1] and model.heldout.doc_lengths.tolist() == [0, 2, 0, 0]


@pytest.mark.parametrize("X, options, message", [
    (np.eye(3, dtype=int), {}, "X must have documents long enough"),
    (np.full((2, 3), 4), {"test_size": 0}, "test_size"), (np.full((2, 3), 4), {"test_size": 1.0}, "test_size"),
    (np.full((2, 3), -1), {}, "[Nn]egative|at least 0"), (np.full((2, 3), 4), {"random_state": "x"}, "random_state"),
])
def test_bad_input(X, options, message):
    with pytest.raises(ValueError, match=message):
        completed(X, **options)


def test_perplexity():
    "V equally likely words have a perplexity of V, whatever the base of somebody's logarithms."
    assert np.isclose(perplexity(np.log(1/37)), 37) and perplexity(0.0) == 1


def test_unigram():
    X = np.array([[3, 0, 1], [1, 0, 0]])
    model = Unigram(eta=0.1).fit(X)
    assert np.allclose(model.probabilities_, np.array([4.1, 0.1, 1.1])/5.3)
    heldout = Corpus.from_docs([[2], [1, 0]], n_words=3)
    assert np.allclose(model.log_predictive(None, heldout), np.log(np.array([1.1, 0.1, 4.1])/5.3))
    assert np.allclose(Unigram().fit(X).probabilities_, np.array([4.5, 0.5, 1.5])/6.5)
    for form in (sp.csr_array(X), Corpus.from_matrix(X)):
        assert np.array_equal(Unigram(eta=0.1).fit(form).probabilities_, model.probabilities_)


def test_unigram_scores_as_others_do(bars):
    model = Unigram().fit(bars)
    assert model.score(bars) == model.score(bars) == document_completion(model, bars, random_state=0)
    assert model.score(bars) != document_completion(model, bars, random_state=1)
    assert np.isclose(model.score(bars), np.log(1/16), atol=0.1)              # pixels are about equally frequent


def test_unigram_refuses():
    with pytest.raises(NotFittedError):
        Unigram().log_predictive(None, np.eye(2, dtype=int))
    for eta in (0, -1, float("nan"), "x"):
        with pytest.raises(ValueError, match="eta must"):
            Unigram(eta=eta).fit(np.eye(2, dtype=int))
    with pytest.raises(ValueError, match="3"):
        Unigram().fit(np.eye(3, dtype=int)).score(np.full((2, 4), 5))


def test_completion_is_exact_where_topics_are_known():
    """Two topics known to six digits: the probability of a next word is a sum over all topics of the words seen.

    The HDP answers by Gibbs sampling, so it sees the same document 4,000 times.
    """
    phi, doc, V, alpha = np.array([[.7, .2, .1], [.1, .2, .7]]), [2, 2, 2, 0], 3, 1.5
    model = HDP(n_iter=1, random_state=0).fit(np.eye(3, dtype=int))
    counts = sp.csr_array((phi.T*1e7).astype(int))
    model.samples_ = [TopicCounts(counts.data, counts.indices, counts.indptr, np.array([3, 1, 0])/4, np.array(alpha), np.array(1.0), np.array(0.5))]
    weight, exact, total = alpha*np.array([.75, .25]), np.zeros(V), 0.0
    for z in product(range(2), repeat=4):
        n = np.bincount(z, minlength=2)
        p = np.prod(poch(weight, n))*np.prod(phi[list(z), doc])
        exact, total = exact + p*((n + weight)/(4 + alpha)) @ phi, total + p
    observed, heldout = Corpus.from_docs([doc]*4000, n_words=V), Corpus.from_docs([[0, 1, 2]]*4000, n_words=V)
    p = np.exp(model.log_predictive(observed, heldout, 0)).reshape(4000, V)
    assert np.allclose(p.sum(axis=1), 1) and abs(p.mean(axis=0) - exact/total).max() < 0.003
    assert abs(phi.T @ weight/alpha - exact/total).max() > 0.05               # the prior alone is far off
