"""Unions of topics on which chains agree, and what a consensus says of them."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from hdp_nb import HDP, LDA, make_bars
from hdp_nb.models.consensus import Components, find_consensus
from hdp_nb.models.matching import match_one_to_one
from hdp_nb.models.unions import agreement, departures, joint_departures, unite


def partition(label):
    return {frozenset(np.flatnonzero(label == k)) for k in np.unique(label[label >= 0])}


def cut_topics(rng, n_chains=2, n_topics=6):
    "Chains that each have a topic as it is, or as two halves: words by topics, chains, topics."
    phi = rng.dirichlet(np.full(100, 0.1), n_topics) * 2000
    tables, chain, truth = [], [], []
    for c in range(n_chains):
        for k, row in enumerate(phi):
            first = rng.random(100) < 0.5
            parts = [row * first, row * ~first] if rng.random() < 0.5 else [row]
            tables += parts
            chain += [c] * len(parts)
            truth += [k] * len(parts)
    return rng.poisson(np.array(tables)).T, np.array(chain), np.array(truth)


@pytest.mark.parametrize("n_chains", [2, 3, 4])
def test_topics_cut_otherwise_are_found_together(n_chains):
    rng, right = np.random.default_rng(n_chains), []
    for _ in range(10):
        table, chain, truth = cut_topics(rng, n_chains)
        label = unite(departures(csr_array(table)), chain, table.sum(axis=0) / table.sum())
        pure = [u for u in partition(label) if len(set(truth[list(u)])) == 1]
        right.append(sum(map(len, pure)) / len(truth))
    assert np.mean(right) > 0.95


def test_order_plays_no_part():
    rng = np.random.default_rng(0)
    for _ in range(5):
        table, chain, _ = cut_topics(rng, 3)
        share = table.sum(axis=0) / table.sum()
        label = unite(departures(csr_array(table)), chain, share)
        order, renamed = rng.permutation(len(chain)), rng.permutation(3)
        again = unite(departures(csr_array(table[:, order])), renamed[chain][order], share[order])
        back = np.empty_like(again)
        back[order] = again
        assert partition(back) == partition(label)


def test_settled_unions_agree_and_random_ones_do_not():
    rng = np.random.default_rng(1)
    table, chain, _ = cut_topics(rng)
    gram = departures(csr_array(table))
    for union in partition(unite(gram, chain, table.sum(axis=0) / table.sum())):
        assert agreement(gram, chain, np.array(sorted(union)), 2) >= 0.5
    # Two divisions of 3,000 random documents of a corpus without topics, which have nothing in
    # common but the corpus.
    X = rng.multinomial(30, rng.dirichlet(np.ones(200)), 3000)
    z = rng.integers(12, size=(2, 3000))
    groups = np.concatenate([np.eye(12)[row] for row in z], axis=1)
    words, documents = csr_array(X.T @ groups), csr_array(groups * X.sum(axis=1)[:, None])
    label = unite(joint_departures(words, documents), np.repeat([0, 1], 12), np.full(24, 1 / 12))
    assert (label < 0).all()


def test_the_same_words_in_other_documents_are_not_the_same():
    words = csr_array(np.array([[9, 9, 0, 9, 9, 0], [0, 0, 9, 0, 0, 9]]))
    first, second = np.eye(3)[[0, 1, 2]], np.eye(3)[[0, 1, 2]]
    same = joint_departures(words, csr_array(np.hstack([first, second]) * 9))
    chain, share = np.repeat([0, 1], 3), np.full(6, 1 / 3)
    label = unite(same, chain, share)
    assert len(set(label[:3])) == 3 and np.array_equal(label[:3], label[3:])
    label = unite(joint_departures(words), chain, share)  # words alone cannot tell the first two
    swapped = joint_departures(words, csr_array(np.hstack([first, second[:, [1, 0, 2]]]) * 9))
    label = unite(swapped, chain, share)
    assert label[0] == label[4] != label[1] == label[3]


@pytest.mark.parametrize("shares", [[1.0, 1.0], [1.0, 0.99, 0.01], [0.98, 0.02, 0.99, 0.01]])
def test_a_topic_with_most_of_the_tokens(shares):
    "Nearly the corpus: it departs little from it, and is the same in both chains all the same."
    rng, half = np.random.default_rng(0), len(shares) // 2
    chain, p = np.repeat([0, 1], [half, len(shares) - half]), rng.dirichlet(np.ones(50))
    table = np.array([rng.multinomial(int(10_000 * share), p) for share in shares]).T
    label = unite(departures(csr_array(table)), chain, np.array(shares))
    largest = [max(np.flatnonzero(chain == c), key=shares.__getitem__) for c in (0, 1)]
    assert label[largest[0]] == label[largest[1]] >= 0


def test_no_chains_one_chain_nothing():
    assert np.array_equal(unite(np.eye(3), np.zeros(3, int), np.full(3, 1 / 3)), [0, 1, 2])
    assert len(unite(np.zeros((0, 0)), np.zeros(0, int), np.zeros(0))) == 0
    nothing = departures(csr_array((4, 3)))
    assert (unite(nothing, np.array([0, 0, 1]), np.full(3, 0.5)) == -1).all()


def test_a_union_is_as_if_it_were_one_topic():
    rng = np.random.default_rng(2)
    counts, documents = rng.poisson(3, (8, 4)), rng.poisson(3, (5, 4))
    weight, prior = rng.gamma(2, 1, (1, 5)), rng.gamma(2, 1, (2, 8))
    sample = Components(
        csr_array(counts), prior, np.array([0, 1, 1, 0]), csr_array(documents), weight
    )
    to = np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
    united = Components(
        csr_array(counts @ to),
        np.array([prior.sum(axis=0)]),  # each is of one topic of either kind
        np.zeros(2, int),
        csr_array(documents @ to),
        np.column_stack([weight[:, :4] @ to, weight[:, 4]]),
    )
    got = find_consensus([sample] * 2, [0, 1], labels=[np.array([0, 1, 0, 1])] * 2)
    want = find_consensus([united] * 2, [0, 1], labels=[np.array([0, 1])] * 2)
    order = [0, 1] if np.allclose(got.shares, want.shares) else [1, 0]
    for name in ("shares", "words", "words_sd", "documents", "documents_sd", "existence"):
        assert np.allclose(getattr(got, name), getattr(want, name)), (name, order)


def test_one_to_one_is_a_permutation_whatever_is_there():
    rng = np.random.default_rng(3)
    first = rng.poisson(2, (30, 5)) * (np.arange(5) < 4)  # the last has no token
    orders = [np.arange(5), *(rng.permutation(5) for _ in range(6))]
    labels = match_one_to_one([csr_array(first[:, order]) for order in orders])
    for order, label in zip(orders, labels):
        assert sorted(label) == list(range(5))
        assert np.array_equal(label[order < 4], order[order < 4])


@pytest.mark.parametrize("K", [1, 3, 12, 40])
def test_lda_shows_as_many_topics_as_it_was_asked_for(K):
    corpus, _ = make_bars(60, 30, random_state=0)
    model = LDA(K, n_iter=20, random_state=1).fit(corpus)
    assert model.n_topics_ == len(model.components_) == len(model.existence_) == K
    assert np.isclose(model.topic_shares_.sum(), 1) and np.allclose(model.doc_topic_[:, K], 0)
    assert model.transform(corpus[:3]).shape == (3, K + 1)
    # They are the best chain's: its words, averaged over its samples, and no other's.
    mine = model.sample_chain_ == model.sample_chain_[model.best_]
    words = model.word_shares_
    assert np.allclose(model.topic_shares_ @ model.components_, words, atol=0.05)
    there = [np.isin(np.arange(K), to) for to in model._matched()]
    assert np.all([row for row, is_mine in zip(there, mine) if is_mine])
    assert np.allclose(model.existence_, np.mean(there, axis=0))


def test_what_two_chains_cut_otherwise_is_shown_once():
    """Chains from many topics on text of six subjects, each of two halves: whatever the chains
    do with the halves, the display has all words in it and is the same from other seeds.
    """
    rng = np.random.default_rng(0)
    halves = rng.dirichlet(np.full(300, 0.05), 12)
    docs = []
    for _ in range(240):
        k = rng.integers(6)
        pi = 0.9 * rng.dirichlet([3, 3])
        p = pi @ halves[2 * k : 2 * k + 2] + 0.1 * rng.dirichlet(np.full(12, 0.1)) @ halves
        docs.append(rng.multinomial(40, p))
    shown = [
        HDP(init=60, n_iter=100, n_chains=2, random_state=s).fit(np.array(docs)) for s in (0, 1)
    ]
    for model in shown:
        assert model.topic_shares_.sum() > 0.95
        assert 6 <= model.n_topics_ <= 16
        found = model.consensus()
        parts = [found.parts(k) for k in range(found.n_components)]
        assert all(set(part["chain"]) == {0, 1} for part in parts)
        share = np.sum([sum(part["share"]) for part in parts])
        assert np.isclose(share, 2 * found.shares[: found.n_components].sum(), atol=0.05)
