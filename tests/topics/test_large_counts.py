"Documents of large counts: which sampler they get, and predictions that go by cells."

from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import poch

from hdp_nb.corpora.corpus import LARGE_COUNT, Corpus
from hdp_nb.corpora.synthetic import make_signatures
from hdp_nb.models.loading import load_model
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.moves.schedule import Moves
from hdp_nb.topics.blocked import (
    CellCounts,
    cell_counts,
    document_runs,
    fold_in_cells,
    fold_in_runs,
)

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
RUN = dict(n_iter=30, n_chains=1, init=4, moves=0, random_state=0)


def counts_and_truth(n=24, tokens=96 * 2 * LARGE_COUNT):
    "Counts of four topics, large ones, and their topics and proportions."
    _, truth = make_signatures(n_docs=1, n_topics=4, random_state=3)
    rng = np.random.default_rng(4)
    pi = rng.dirichlet(np.full(4, 0.3), n)
    X = rng.multinomial(tokens, pi @ truth.phi)
    X[1] = 0
    return X, truth.phi, pi


@pytest.fixture(scope="module")
def fitted():
    X, phi, pi = counts_and_truth()
    start = rows_of_topics(X, phi, pi)
    model = HDP(sampler="direct", **{**RUN, "n_iter": 4, "init": start}).fit(X)
    return model, X


def rows_of_topics(X, phi, pi):
    "Topics of all tokens, drawn given the truth."
    rng, z = np.random.default_rng(5), []
    for n_j, pi_j in zip(X, pi):
        for v in np.flatnonzero(n_j):
            p = pi_j * phi[:, v]
            z += [rng.choice(4, n_j[v], p=p / p.sum())]
    return np.concatenate(z)


def test_which_corpora_have_large_counts():
    X, _, _ = counts_and_truth()
    counted = Corpus.from_matrix(X)
    assert counted.has_large_counts and counted[:5].has_large_counts
    assert not Corpus(counted.x, counted.offsets, n_words=96).has_large_counts  # tokens
    assert not Corpus.from_matrix(X // (4 * LARGE_COUNT)).has_large_counts
    assert not Corpus.from_matrix(np.zeros((2, 3), int)).has_large_counts


def test_counts_are_split_without_writing_tokens_out():
    X, _, _ = counts_and_truth()
    corpus = Corpus.from_matrix(csr_array(X))
    seen, held = corpus.split_tokens(0.2, 0)
    assert not any("x" in vars(part) for part in (corpus, seen, held))
    assert np.array_equal(seen.to_matrix().toarray() + held.to_matrix().toarray(), X)
    assert np.array_equal(held.doc_lengths, np.rint(0.2 * X.sum(axis=1)))
    one = Corpus.from_matrix([[2**30 + 7, 0, 5]])  # beyond NumPy's hypergeometric numbers
    seen, held = one.split_tokens(0.25, 0)
    assert seen.n_tokens + held.n_tokens == one.n_tokens
    assert abs(held.n_tokens / one.n_tokens - 0.25) < 1e-4


@pytest.mark.parametrize("each", [False, True])
def test_proportions_of_small_documents_by_all_topics_of_their_tokens(each):
    "(A3) exactly, for documents of the same weights and of weights of their own."
    docs = [[0, 0, 1], [], [2, 2, 2, 2]]
    phi = np.array([[0.5, 0.1, 0.3, 0.2], [0.4, 0.2, 0.1, 0.2], [0.1, 0.7, 0.6, 0.6]])
    weight = np.array([[0.7, 0.4, 1.0, 0.0], [0.2, 0.1, 0.5, 0.0], [1.5, 0.3, 0.2, 0.0]])
    weight = weight if each else weight[0]
    cells, pi = cell_counts(Corpus.from_docs(docs, n_words=3)), np.empty((3, 4))
    fold_in_cells(np.random.default_rng(0), cells, phi, weight, 10_000, 10, pi)

    def exact(doc, a):
        total, mean = 0.0, np.zeros(4)
        for z in product(range(3), repeat=len(doc)):
            n_k = np.bincount(np.array(z, int), minlength=4)
            p = poch(a[:3], n_k[:3]).prod() * phi[doc, z].prod() if doc else 1.0
            total, mean = total + p, mean + p * (a + n_k) / (a.sum() + len(doc))
        return mean / total

    weights = np.broadcast_to(weight, (3, 4))
    assert abs(pi - [exact(doc, a) for doc, a in zip(docs, weights)]).max() < 0.01
    assert (pi[:, 3] == 0).all() and np.allclose(pi[1], weights[1] / weights[1].sum())
    assert abs(pi[0] - exact([0, 0, 2], weights[0])).max() > 0.05  # the control


def test_proportions_by_cells_are_those_by_tokens(fitted):
    model, X = fitted
    tokens = Corpus.from_matrix(X)
    tokens = Corpus(tokens.x, tokens.offsets, n_words=96)
    by_cells, by_tokens = model.transform(X), model.transform(tokens)
    assert abs(by_cells - by_tokens).max() < 0.02 < abs(by_cells - by_tokens[::-1]).max()
    assert np.allclose(by_cells.sum(axis=1), 1)
    assert np.array_equal(model.transform(X[3:5]), by_cells[3:5])  # nobody knows the others


@pytest.mark.parametrize("kind", [HDP, LDA, TreeHDP])
def test_scores_by_cells_are_those_by_tokens(kind, fitted):
    model, X = fitted
    sides = {"side": np.where(np.arange(len(X)) % 2, "a", "b")}
    new = Corpus.from_matrix(X, groups=sides)
    if kind is LDA:
        model = LDA(4, n_iter=30, n_chains=1, random_state=0).fit(new)
    elif kind is TreeHDP:
        model = TreeHDP(["side"], n_iter=10, n_chains=1, init=4, moves=0, random_state=0).fit(new)
    parts = new.split_tokens(0.2, 0)
    by_cells = model.log_predictive(*parts, 0)
    by_tokens = model.log_predictive(
        *(Corpus(part.x, part.offsets, groups=part.groups, n_words=96) for part in parts), 0
    )
    assert by_cells.shape == (parts[1].n_tokens,)
    assert abs(by_cells - by_tokens).mean() < 0.1 < 0.5 < abs(by_cells - by_tokens[::-1]).mean()
    assert abs(by_cells.mean() - by_tokens.mean()) < 0.005
    assert np.isclose(model.score(new), by_cells.mean(), atol=0.02)


def test_a_saved_model_knows_its_sampler(tmp_path):
    X, _, _ = counts_and_truth()
    model = HDP(**RUN).fit(X)
    assert model.sampler_ == "blocked" and model.sampler == "auto"
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert again.sampler_ == "blocked" and again.score(X) == model.score(X)


def test_where_the_blocked_sampler_is_not_taken():
    X, phi, pi = counts_and_truth(6)
    others = dict(moves=Moves(split_merge=1)), dict(init="sequential"), dict(seed_words={"a": [0]})
    for other in others:
        model = HDP(**{**RUN, "n_iter": 2, **other}).fit(X)
        assert model.sampler_ == "crf", other
    assert HDP(**RUN).fit(X // LARGE_COUNT).sampler_ == "crf"
    with pytest.raises(ValueError, match="sampler must be one of 'auto', 'crf'.* got 'gibbs'"):
        HDP(sampler="gibbs").fit(X)


@pytest.mark.parametrize("model", [HDP(sampler="crf", init=4, moves=0), LDA(4)], ids=["crf", "LDA"])
def test_more_tokens_than_memory_holds_are_told_with_a_way_out(model, monkeypatch):
    def full(*args):
        raise MemoryError("Unable to allocate 14.2 GiB")

    monkeypatch.setattr(type(model), "_run", full)
    with pytest.raises(MemoryError, match="X has 9 tokens.*'blocked'.*14.2 GiB"):
        model.set_params(n_iter=2, n_chains=1).fit([[4, 5]])


def test_topics_that_hardly_have_a_word_leave_proportions_finite():
    cells = cell_counts(Corpus.from_matrix([[200, 0, 0], [0, 300, 100]]))
    phi, pi = np.full((3, 4), 1e-300), np.empty((2, 4))
    phi[0, 0] = 1.0
    fold_in_cells(np.random.default_rng(0), cells, phi, np.array([1, 1e-200, 1e-200, 0]), 20, 5, pi)
    assert np.isfinite(pi).all() and np.allclose(pi.sum(axis=1), 1) and pi[0, 0] > 0.99
    phi[1:] = 0.0  # a word that no topic has is no reason for a column that is no topic
    fold_in_cells(np.random.default_rng(0), cells, phi, np.array([1, 1.0, 1.0, 0]), 20, 5, pi)
    assert (pi[:, 3] == 0).all() and np.allclose(pi.sum(axis=1), 1)


def test_a_document_s_row_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    phi, theta = rng.dirichlet(np.full(30, 0.1), 4), rng.dirichlet(np.full(4, 0.3), 40)
    M = np.array([rng.multinomial(4000, t @ phi) for t in theta])
    model = HDP(n_iter=30, n_chains=1, random_state=0).fit(M)
    few = rng.multinomial(12, theta[0] @ phi, size=1)
    alone = [model.transform(row[None])[0] for row in (few[0], M[0])]
    assert np.array_equal(model.transform(np.vstack([few, M]))[:2], alone)


def test_a_document_is_scored_by_its_own_counts():
    "Whether by words or by tokens is not for the other documents to say, large ones or small."
    rng = np.random.default_rng(0)
    phi, theta = rng.dirichlet(np.full(30, 0.1), 4), rng.dirichlet(np.full(4, 0.3), 40)
    M = np.array([rng.multinomial(6000, t @ phi) for t in theta])
    few = np.array([rng.multinomial(40, t @ phi) for t in np.tile(theta, (6, 1))])
    model = HDP(n_iter=30, burn_in=29, n_chains=1, random_state=0).fit(M)
    assert len(model.samples_) == 1  # so that what is first draws the same, whoever follows

    def parts(*tables):
        halves = [Corpus.from_matrix(table).split_tokens(0.4, 0) for table in tables]
        return [
            Corpus.from_matrix(np.vstack([half[i].to_matrix().toarray() for half in halves]))
            for i in (0, 1)
        ]

    for first, others in (few[:1], M), (M[:1], few), (np.vstack([M[:1], few[:1], M[1:2]]), few):
        seen, held = parts(first)
        alone = model.log_predictive(seen, held, 0)
        together = parts(first, others)
        assert together[0].has_large_counts != seen.has_large_counts or len(first) > 1
        assert np.allclose(model.log_predictive(*together, 0)[: held.n_tokens], alone, atol=1e-12)
    assert not np.allclose(model.log_predictive(seen, held, 1), alone)  # the control


def test_documents_fold_in_run_by_run():
    rng = np.random.default_rng(0)
    X = rng.multinomial(4000, np.full(6, 1 / 6), size=5)
    X[1], X[2] = [3, 0, 0, 1, 0, 0], 0
    corpus = Corpus.from_matrix(X)
    runs = document_runs(corpus)
    assert [run[:2] for run in runs] == [(0, 1), (1, 3), (3, 5)]
    assert [isinstance(run[2], CellCounts) for run in runs] == [True, False, True]
    assert [run[:2] for run in document_runs(Corpus(corpus.x, corpus.offsets))] == [(0, 5)]
    phi, weight = rng.dirichlet(np.ones(6), 4).T, rng.random((5, 4))
    pi = fold_in_runs(np.random.default_rng(1), runs, phi, weight, 40, 5)
    again = np.empty((5, 4))
    fold_in_cells(np.random.default_rng(2), cell_counts(corpus), phi, weight, 40, 5, again)
    assert np.allclose(pi.sum(axis=1), 1) and abs(pi - again)[[0, 3, 4]].max() < 0.05
    assert np.allclose(pi[2], weight[2] / weight[2].sum())


def test_a_large_document_among_small_ones_is_split_by_its_counts():
    X = np.ones((200, 4), int)
    X[7] = 10**4
    corpus = Corpus.from_matrix(X)
    seen, held = corpus.split_tokens(0.25, 0)
    assert not corpus.has_large_counts
    assert not any("x" in vars(part) for part in (corpus, seen, held))
    assert np.array_equal(held.doc_lengths, np.rint(0.25 * X.sum(axis=1)))
