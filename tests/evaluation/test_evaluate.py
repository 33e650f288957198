"""Document completion, the baseline, the left-to-right estimator, and coherence."""

from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import poch
from sklearn.exceptions import NotFittedError

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation.scores import (
    Unigram,
    _select,
    coherence_npmi,
    document_completion,
    left_to_right,
    log_left_to_right,
    perplexity,
)
from hdp_nb.models.topic_models import HDP
from hdp_nb.topics.counts import TopicCounts


class Recorder:
    "A model that remembers what it was asked, and answers with known numbers."

    def log_predictive(self, observed, heldout, random_state=None):
        self.observed, self.heldout, self.rng = observed, heldout, random_state
        return -(np.arange(heldout.n_tokens) ** 2.0)


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
    assert (model.heldout.doc_lengths == 30 * share).all()
    assert ((model.observed.to_matrix() + model.heldout.to_matrix()) != bars.to_matrix()).nnz == 0
    assert score == -np.mean(
        np.arange(model.heldout.n_tokens) ** 2.0
    )  # a mean, of all tokens alike


def test_a_fifth_is_the_default(bars):
    assert completed(bars)[0].heldout.n_tokens == bars.n_tokens / 5


def test_the_same_seed_cuts_alike_for_every_model(bars):
    a, b, other = (
        completed(bars, random_state=seed)[0] for seed in (1, np.random.default_rng(1), 2)
    )
    assert np.array_equal(a.heldout.x, b.heldout.x) and not np.array_equal(
        a.heldout.x, other.heldout.x
    )
    assert a.rng.random() == b.rng.random()  # the model goes on with the generator of the cut


def test_empty_documents_stay_in_place():
    model, _ = completed(np.array([[0, 0], [5, 5], [0, 0], [1, 0]]), random_state=0)
    assert model.observed.doc_lengths.tolist() == [
        0,
        8,
        0,
        1,
    ] and model.heldout.doc_lengths.tolist() == [0, 2, 0, 0]


@pytest.mark.parametrize(
    "X, options, message",
    [
        (np.eye(3, dtype=int), {}, "X must have documents long enough"),
        (np.full((2, 3), 4), {"test_size": 0}, "test_size"),
        (np.full((2, 3), 4), {"test_size": 1.0}, "test_size"),
        (np.full((2, 3), -1), {}, "[Nn]egative|at least 0"),
        (np.full((2, 3), 4), {"random_state": "x"}, "random_state"),
    ],
)
def test_bad_input(X, options, message):
    with pytest.raises(ValueError, match=message):
        completed(X, **options)


def test_perplexity():
    "V equally likely words have a perplexity of V, whatever the base of somebody's logarithms."
    assert np.isclose(perplexity(np.log(1 / 37)), 37) and perplexity(0.0) == 1


def test_unigram():
    X = np.array([[3, 0, 1], [1, 0, 0]])
    model = Unigram(eta=0.1).fit(X)
    assert np.allclose(model.probabilities_, np.array([4.1, 0.1, 1.1]) / 5.3)
    heldout = Corpus.from_docs([[2], [1, 0]], n_words=3)
    assert np.allclose(model.log_predictive(None, heldout), np.log(np.array([1.1, 0.1, 4.1]) / 5.3))
    assert np.allclose(Unigram().fit(X).probabilities_, np.array([4.5, 0.5, 1.5]) / 6.5)
    for form in (sp.csr_array(X), Corpus.from_matrix(X)):
        assert np.array_equal(Unigram(eta=0.1).fit(form).probabilities_, model.probabilities_)


def test_unigram_scores_as_others_do(bars):
    model = Unigram().fit(bars)
    assert (
        model.score(bars) == model.score(bars) == document_completion(model, bars, random_state=0)
    )
    assert model.score(bars) != document_completion(model, bars, random_state=1)
    assert np.isclose(
        model.score(bars), np.log(1 / 16), atol=0.1
    )  # pixels are about equally frequent


def test_unigram_refuses():
    with pytest.raises(NotFittedError):
        Unigram().log_predictive(None, np.eye(2, dtype=int))
    for eta in (0, -1, float("nan"), "x"):
        with pytest.raises(ValueError, match="eta must"):
            Unigram(eta=eta).fit(np.eye(2, dtype=int))
    with pytest.raises(ValueError, match="3"):
        Unigram().fit(np.eye(3, dtype=int)).score(np.full((2, 4), 5))


def test_completion_is_exact_where_topics_are_known():
    """The probability of a next word under two known topics is a sum over all topic assignments.

    The HDP answers by Gibbs sampling, so it sees the same document 4,000 times.
    """
    phi, doc, V, alpha = np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]), [2, 2, 2, 0], 3, 1.5
    model = HDP(n_iter=1, n_chains=1, moves=0, random_state=0).fit(np.eye(3, dtype=int))
    counts = sp.csr_array((phi.T * 1e7).astype(int))
    model.samples_ = [
        TopicCounts(
            counts.data,
            counts.indices,
            counts.indptr,
            np.array([3, 1, 0]) / 4,
            np.array(alpha),
            np.array(1.0),
            np.array(0.5),
        )
    ]
    weight, exact, total = alpha * np.array([0.75, 0.25]), np.zeros(V), 0.0
    for z in product(range(2), repeat=4):
        n = np.bincount(z, minlength=2)
        p = np.prod(poch(weight, n)) * np.prod(phi[list(z), doc])
        exact, total = exact + p * ((n + weight) / (4 + alpha)) @ phi, total + p
    observed, heldout = (
        Corpus.from_docs([doc] * 4000, n_words=V),
        Corpus.from_docs([[0, 1, 2]] * 4000, n_words=V),
    )
    p = np.exp(model.log_predictive(observed, heldout, 0)).reshape(4000, V)
    assert np.allclose(p.sum(axis=1), 1) and abs(p.mean(axis=0) - exact / total).max() < 0.003
    assert abs(phi.T @ weight / alpha - exact / total).max() > 0.05  # the prior alone is far off


# --- left to right ---


def exact_log_probability(words, phi, weight):
    "log p(words) under fixed topics (rows of phi): all assignments of topics, added up."
    K, total = len(weight), 0.0
    for z in product(range(K), repeat=len(words)):
        n = np.bincount(z, minlength=K)
        total += np.prod(poch(weight, n)) * np.prod([phi[k, v] for k, v in zip(z, words)])
    return np.log(total / poch(weight.sum(), len(words)))


class Known:
    "A topic model that is given, not learned."

    def __init__(self, *samples):
        self.samples = samples

    def posterior_topics(self, X):
        return ((phi.T, weight) for phi, weight in self.samples)


PHI, WEIGHT = (
    np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.1, 0.8, 0.1]]),
    np.array([0.5, 0.3, 0.1]),
)
WORDS = np.array([0, 2, 0, 2, 1, 2, 2], np.int32)


def off_by(estimates, exact):
    "How many standard errors the mean of exp(estimates) is off."
    ratio = np.exp(np.array(estimates) - exact)
    return (ratio.mean() - 1) / (ratio.std(ddof=1) / len(ratio) ** 0.5)


def peeking(rng, words, phi_vk, weight, n_particles, n_moves):
    "A control: the word that is to be predicted is counted already. One particle, no moves."
    n, log_p = weight.copy(), 0.0
    for i, v in enumerate(words):
        p = n * phi_vk[v]
        n[rng.choice(len(n), p=p / p.sum())] += 1
        log_p += np.log(n @ phi_vk[v] / (i + 1 + weight.sum()))
    return log_p


def apart(rng, words, phi_vk, weight, n_particles, n_moves):
    "A control: particles are averaged at every word without selection, and without moves."
    n, log_p = np.tile(weight, (n_particles, 1)), 0.0
    for i, v in enumerate(words):
        p = n * phi_vk[v]
        log_p += np.log(p.sum(axis=1).mean() / (i + weight.sum()))
        n[
            np.arange(n_particles),
            (p.cumsum(axis=1) < rng.random((n_particles, 1)) * p.sum(axis=1, keepdims=True)).sum(
                axis=1
            ),
        ] += 1
    return log_p


@pytest.mark.parametrize(
    "n_particles, n_moves, estimator",
    [
        (1, 0, log_left_to_right),
        (1, 9, log_left_to_right),
        (6, 0, log_left_to_right),
        (6, 2, log_left_to_right),
        (6, 9, log_left_to_right),
        (1, 0, peeking),
        (6, 0, apart),
    ],
)
def test_left_to_right_is_unbiased(n_particles, n_moves, estimator):
    rng, right = np.random.default_rng(1), estimator is log_left_to_right
    phi_vk, weight = np.pad(PHI.T.copy(), ((0, 0), (0, 1))), np.append(WEIGHT, 0)
    estimates = [
        estimator(rng, WORDS, phi_vk, weight, n_particles, n_moves)
        for _ in range(20_000 if right else 2000)
    ]
    z = off_by(estimates, exact_log_probability(WORDS, PHI, WEIGHT))
    assert abs(z) < 3 if right else abs(z) > 8


def test_moves_and_particles_lessen_the_noise():
    rng, phi_vk, weight = (
        np.random.default_rng(0),
        np.pad(PHI.T.copy(), ((0, 0), (0, 1))),
        np.append(WEIGHT, 0),
    )
    noise = [
        np.std(
            [
                log_left_to_right(rng, np.tile(WORDS, 4), phi_vk, weight, R, moves)
                for _ in range(500)
            ]
        )
        for R, moves in [(1, 0), (5, 0), (5, 28)]
    ]
    assert noise[0] > 1.5 * noise[1] > 1.5 * 1.2 * noise[2]


def test_selection_copies_whole_particles():
    "Expected numbers of copies are proportional to q; topics and counts are copied together."
    rng, R, q = np.random.default_rng(0), 5, np.array([0.1, 2.0, 0.0, 1.0, 1.9])
    seen = np.zeros(R)
    for _ in range(4000):
        z, n_rk, copies = (
            np.arange(R)[:, None] * np.ones(3, int),
            np.arange(R)[:, None] * np.ones(2),
            np.zeros(R, int),
        )
        _select(rng, q, copies, z, n_rk, 3)
        assert (z[:, 0] == n_rk[:, 1]).all() and (z == z[:, :1]).all()
        n = np.bincount(z[:, 0], minlength=R)
        assert (abs(n - q) < 1).all()
        seen += n
    assert abs(seen / 4000 - q).max() < 0.03
    _select(rng, np.zeros(R), copies, z, n_rk, 3)  # all impossible: still R particles
    _select(rng, np.full(R, 1e-300), copies, z, n_rk, 3)


def test_left_to_right_averages_probabilities_of_samples():
    samples = [(PHI, WEIGHT), (PHI[:2], 3 * WEIGHT[:2])]
    docs = [[0, 2, 0, 2, 1], [], [1, 1, 1, 0]]
    exact = [
        np.logaddexp(*(exact_log_probability(doc, *sample) for sample in samples)) - np.log(2)
        for doc in docs
    ]
    corpus = Corpus.from_docs(docs, n_words=3)
    result = left_to_right(
        Known(*samples), corpus, n_particles=5000, by_document=True, random_state=0
    )
    assert np.allclose(result, exact, atol=0.015) and result[1] == 0
    assert (
        left_to_right(Known(*samples), corpus, 50, random_state=3)
        == left_to_right(Known(*samples), corpus.to_matrix(), 50, random_state=3)
        != left_to_right(Known(*samples), corpus, 50, random_state=4)
    )
    assert np.isclose(
        left_to_right(Known(*samples), corpus, 5000, None, random_state=0),
        sum(exact) / 9,
        atol=0.01,
    )


def test_left_to_right_where_documents_differ_in_their_weights():
    weights, docs = np.array([WEIGHT, 3 * WEIGHT[::-1], WEIGHT]), [[0, 2, 0], [0, 2, 0], []]
    exact = [exact_log_probability(doc, PHI, weight) for doc, weight in zip(docs, weights)]
    result = left_to_right(
        Known((PHI, weights)),
        Corpus.from_docs(docs, n_words=3),
        n_particles=5000,
        by_document=True,
        random_state=0,
    )
    assert np.allclose(result, exact, atol=0.01) and abs(exact[0] - exact[1]) > 0.1


def test_a_model_that_knows_the_probability_is_asked_for_it():
    class Exact:
        def score_samples(self, X):
            return -2.0 * X.doc_lengths

    X = np.array([[3, 0, 1], [0, 0, 0], [1, 1, 1]])
    assert left_to_right(Exact(), X) == -2 and left_to_right(
        Exact(), X, by_document=True
    ).tolist() == [-8, 0, -6]


def test_impossible_words():
    "Topics that lack words: a document has others; a word that no topic has is impossible."
    phi = np.array([[0.5, 0.5, 0, 0], [0, 0, 1, 0]])
    docs = [[0, 1, 0], [2, 2], [0, 2], [0, 3, 1]]
    exact = [exact_log_probability(doc, phi, WEIGHT[:2]) for doc in docs[:3]]
    result = left_to_right(
        Known((phi, WEIGHT[:2])),
        Corpus.from_docs(docs, n_words=4),
        by_document=True,
        random_state=0,
    )
    assert np.allclose(result[:3], exact) and result[3] == -np.inf


def test_one_topic_leaves_nothing_to_estimate(bars):
    model = Unigram().fit(bars)
    assert np.isclose(
        left_to_right(model, bars, n_particles=1, n_moves=0),
        model.log_predictive(None, bars).mean(),
    )


def test_left_to_right_of_a_fitted_model(bars):
    "The hierarchical Dirichlet process is better than the baseline, and the same call serves both."
    train, test = bars[:30], bars[30:]
    model = HDP(n_iter=60, n_chains=1, moves=0, random_state=0).fit(train)
    assert (
        left_to_right(model, test, random_state=0) > left_to_right(Unigram().fit(train), test) + 0.1
    )
    [(phi_vk, weight), *_] = model.posterior_topics(test)
    assert np.allclose(phi_vk.sum(axis=0)[weight > 0], 1) and np.isclose(
        weight.sum(), model.samples_[0].alpha
    )
    log_p = left_to_right(model, test, by_document=True, random_state=0)
    assert log_p.shape == (10,) and np.isclose(
        log_p.sum() / test.n_tokens, left_to_right(model, test, random_state=0)
    )


def test_completion_wants_a_model():
    with pytest.raises(ValueError, match="^model must be a fitted topic model.* got 'HDP'"):
        document_completion("HDP", np.ones((2, 3), int))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_particles": 0}, "n_particles"),
        ({"n_particles": 2.5}, "n_particles"),
        ({"n_moves": -1}, "n_moves"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_left_to_right_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        left_to_right(Known((PHI, WEIGHT)), np.ones((2, 3), int), **options)


def test_left_to_right_refuses_other_vocabularies():
    with pytest.raises(ValueError, match="3"):
        left_to_right(Known((PHI, WEIGHT)), np.ones((2, 4), int))
    with pytest.raises(NotFittedError):
        left_to_right(HDP(), np.ones((2, 4), int))


# --- coherence ---


def naive_npmi(v, w, docs):
    "Equation (E8) of the notebook, with its three corners."
    share = lambda *words: np.mean([all(word in doc for word in words) for doc in docs if len(doc)])
    if share(v) in (0, 1) or share(w) in (0, 1):
        return 0.0
    return np.log(share(v, w) / share(v) / share(w)) / -np.log(share(v, w)) if share(v, w) else -1.0


def test_coherence_is_the_mean_over_pairs():
    rng = np.random.default_rng(0)
    docs = [rng.integers(12, size=rng.integers(6)).tolist() for _ in range(25)] + [[], [0, 0, 1]]
    corpus = Corpus.from_docs(docs, n_words=14)  # words 12 and 13 never occur
    topics = [[0, 1, 2, 3], [4, 13], [5, 12, 13, 6], rng.permutation(14).tolist(), [7, 8, 9]]
    topic, mean = coherence_npmi(topics, corpus, n_words=20)
    expected = [
        np.mean([naive_npmi(v, w, docs) for v, w in combinations(words, 2)]) for words in topics
    ]
    assert (
        np.allclose(topic, expected)
        and np.isclose(mean, np.mean(expected))
        and len({*np.round(topic, 6)}) > 3
    )
    first = coherence_npmi(topics, corpus.to_matrix(), n_words=2).topics
    assert np.allclose(first, [naive_npmi(*words[:2], docs) for words in topics])


def test_coherence_at_its_corners():
    corpus = Corpus.from_docs(
        [["a", "b", "e"], ["a", "b", "e", "e"], ["c", "e"], ["d", "c", "e"], []],
        vocab=list("abcdef"),
    )
    value = {
        pair: coherence_npmi([list(pair)], corpus).mean
        for pair in ("ab", "ac", "ae", "af", "a?", "ef")
    }
    assert value == {"ab": 1, "ac": -1, "ae": 0, "af": 0, "a?": 0, "ef": 0}


def test_coherence_as_gensim_has_it():
    "Where all pairs occur together; for others gensim adds 1e-12 and has about -0.9 for our -1."
    corpora = pytest.importorskip("gensim.corpora")
    models = pytest.importorskip("gensim.models")
    rng = np.random.default_rng(0)
    docs = [[f"w{v}" for v in rng.permutation(9)[:5]] for _ in range(60)]
    topics = [[f"w{v}" for v in rng.permutation(9)[:4]] for _ in range(3)]
    other = models.CoherenceModel(
        topics=topics,
        texts=docs,
        dictionary=corpora.Dictionary(docs),
        coherence="c_npmi",
        window_size=50,
        processes=1,
    )
    ours = coherence_npmi(topics, Corpus.from_docs(docs))
    assert np.allclose(ours.topics, other.get_coherence_per_topic(), atol=1e-9) and np.isclose(
        ours.mean, other.get_coherence()
    )


def test_coherence_of_a_model(bars):
    model = HDP(n_iter=60, n_chains=1, moves=0, random_state=0).fit(bars)
    topics, mean = coherence_npmi(model, bars, n_words=4)
    assert topics.shape == (model.n_topics_,) and np.isclose(mean, topics.mean())
    assert np.allclose(
        topics,
        coherence_npmi([[int(v) for v in words] for words in model.top_words(4)], bars).topics,
    )
    assert topics[:4].mean() > 0.2  # pixels of a bar are on together
    named = Corpus.from_matrix(bars.to_matrix(), vocab=[f"p{v}" for v in range(16)])
    model = HDP(n_iter=5, n_chains=1, moves=0, random_state=0).fit(named)
    order = np.random.default_rng(0).permutation(16)  # the same words, numbered in another way
    shuffled = Corpus.from_matrix(
        bars.to_matrix().toarray()[:, order], vocab=[f"p{v}" for v in order]
    )
    assert np.allclose(
        coherence_npmi(model, shuffled, 4).topics, coherence_npmi(model, named, 4).topics
    )


@pytest.mark.parametrize(
    "topics, options, message",
    [
        ([[0, 1], [2]], {}, "two words"),
        ([], {}, "two words"),
        ([[0, 16]], {}, "16"),
        ([[0, -2]], {}, "-2"),
        ([[0, 1.5]], {}, "1.5"),
        ([["a", "b"]], {}, "'a'"),
        ([[0, 1]], {"n_words": 1}, "n_words"),
    ],
)
def test_coherence_refuses(bars, topics, options, message):
    with pytest.raises(ValueError, match=message):
        coherence_npmi(topics, bars, **options)


def test_coherence_refuses_other_vocabularies(bars):
    model = HDP(n_iter=2, n_chains=1, moves=0, random_state=0).fit(bars)
    with pytest.raises(ValueError, match="16"):
        coherence_npmi(model, np.eye(5, dtype=int))
    with pytest.raises(NotFittedError):
        coherence_npmi(HDP(), bars)
