"""Topics to begin with, from anchor words."""

import itertools
import threading
import weakref

import numpy as np
import pytest
from scipy.optimize import nnls
from scipy.sparse import csr_array
from sklearn.base import clone

from hdp_nb.cli.main import main
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.distributed.engine import sum_on_engine
from hdp_nb.distributed.fit import fit
from hdp_nb.distributed.shards import write_shards
from hdp_nb.distributed.start import ShardPairs
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.topics.anchors import (
    CorpusPairs,
    anchor_topics,
    choose_anchors,
    draw_topics,
    move_corners,
    multiply_pairs,
    place_words,
    share_words,
)
from hdp_nb.topics.counts import TopicCounts


def pairs_plain(documents, n_words, same=False):
    "Q of (N1); the control lets tokens make pairs with themselves."
    Q = np.zeros((n_words, n_words))
    for x in documents:
        if len(x) < 2:
            continue
        for i, h in itertools.product(range(len(x)), repeat=2):
            if i != h or same:
                Q[x[i], x[h]] += 1 / (len(x) - 1)
    return Q


def expected_pairs(phi, beta, alpha):
    "Its expectation for one token, (N2)."
    return phi.T @ (alpha * np.outer(beta, beta) + np.diag(beta)) @ phi / (alpha + 1)


def random_corpus(seed=0, V=30):
    "Documents of 0 to 11 tokens."
    rng = np.random.default_rng(seed)
    docs = [rng.integers(0, V, size=n) for n in rng.integers(0, 12, size=40)]
    return docs, Corpus(
        np.concatenate(docs), np.append(0, np.cumsum([len(x) for x in docs])), n_words=V
    )


def zipf_corpus(seed, K=12, V=400, n_docs=1500, length=40):
    "Documents of topics with frequencies 1/rank, and the topics."
    rng = np.random.default_rng(seed)
    phi, beta = rng.dirichlet(np.full(V, 0.03), size=K), 1 / np.arange(1, K + 1)
    pi = rng.dirichlet(beta / beta.sum(), size=n_docs)
    n_jv = rng.multinomial(length, pi @ phi)
    x = np.repeat(np.tile(np.arange(V), n_docs), n_jv.ravel())
    return phi, Corpus(x, length * np.arange(n_docs + 1), n_words=V)


def cosines(phi, n_vk):
    "Of every true topic with the nearest of some counts."
    size = np.linalg.norm(phi, axis=1)[:, None] * np.linalg.norm(n_vk, axis=0)
    return (phi @ n_vk / size).max(axis=1)


def test_products_of_pairs():
    docs, corpus = random_corpus()
    a, out = np.random.default_rng(1).standard_normal((30, 5)).astype(np.float32), np.ones((30, 5))
    out = out.astype(np.float32)
    multiply_pairs(corpus.x, corpus.offsets, a, out)
    assert np.allclose(out, 1 + pairs_plain(docs, 30) @ a, atol=1e-4)
    assert not np.allclose(out, 1 + pairs_plain(docs, 30, same=True) @ a, atol=0.1)


def test_pairs_have_the_expectation_of_the_model():
    phi = np.array([[0.5, 0.0, 0.3, 0.2], [0.0, 0.6, 0.1, 0.3]])
    beta, alpha, n = np.array([0.7, 0.3]), 1.5, 3
    sums = {False: 0.0, True: 0.0}
    for z in itertools.product(range(2), repeat=n):
        p_z = np.prod([(alpha * beta[z[i]] + z[:i].count(z[i])) / (alpha + i) for i in range(n)])
        for x in itertools.product(range(4), repeat=n):
            p = p_z * np.prod(phi[z, x])
            for same in sums:
                sums[same] += p * pairs_plain([x], 4, same)
    exact = n * expected_pairs(phi, beta, alpha)
    assert np.allclose(sums[False], exact) and abs(sums[True] - exact).max() > 0.1


def test_shares_are_least_squares():
    rng = np.random.default_rng(2)
    corner = rng.standard_normal((6, 8)) + 2 * np.eye(6, 8)
    word = rng.dirichlet(np.full(6, 0.5), size=40) @ corner + 0.3 * rng.standard_normal((40, 8))
    word[0] = 0.0
    c = np.full((40, 6), np.nan)
    share_words(corner @ corner.T, word @ corner.T, 1e-13, c)
    exact = np.array([nnls(corner.T, e)[0] for e in word])
    assert np.allclose(c, exact, atol=1e-4) and (exact[1:] == 0).any() and not c[0].any()


def farthest_plain(place, often, n):
    "Each the farthest from the flat through those before, by least squares."
    chosen = [max(np.flatnonzero(often), key=lambda v: np.linalg.norm(place[v]))]
    while len(chosen) < n:
        base = place[chosen[0]]
        span = (place[chosen[1:]] - base).T

        def distance(v):
            y = place[v] - base
            return np.linalg.norm(
                y - span @ np.linalg.lstsq(span, y, rcond=None)[0] if len(chosen) > 1 else y
            )

        chosen.append(max(np.flatnonzero(often), key=distance))
    return chosen


def test_anchors_are_the_farthest():
    rng = np.random.default_rng(3)
    place, often = rng.standard_normal((50, 7)), rng.random(50) < 0.8
    chosen = choose_anchors(place, often, 8)
    assert chosen.tolist() == farthest_plain(place, often, 8) and often[chosen].all()
    flat = np.hstack([place[:, :2], np.zeros((50, 3))])
    assert len(choose_anchors(flat, often, 6)) == 3  # no more that differ


def test_corners_are_least_squares_by_token():
    rng = np.random.default_rng(7)
    shares = rng.dirichlet(np.full(4, 0.3), size=200).astype(np.float32)
    place = shares @ rng.standard_normal((4, 6)) + 0.2 * rng.standard_normal((200, 6))
    place, n_v = place.astype(np.float32), rng.integers(1, 1000, size=200)
    found = move_corners(place, shares, n_v, np.zeros((4, 6), np.float32))
    root = np.sqrt(n_v)[:, None]
    exact, by_word = (
        np.linalg.lstsq(shares * w, place * w, rcond=None)[0] for w in (root, np.ones_like(root))
    )
    assert abs(found - exact).max() < 0.001 < 0.01 < abs(found - by_word).max()
    unused = np.hstack([shares, np.zeros((200, 1), np.float32)])
    before = np.full((5, 6), 3.0, np.float32)
    assert np.allclose(move_corners(place, unused, n_v, before)[4], 3.0)  # stays where it was


def recovered(phi, beta, alpha, same=False):
    "The largest error of topics that come from the exact expectation of Q."
    K, V = phi.shape
    Q, often = 1e6 * expected_pairs(phi, beta, alpha), np.ones(V, bool)
    if same:
        Q = Q + np.diag(Q.sum(axis=1))
    n_v = Q.sum(axis=1)
    place = place_words(
        lambda a: (Q @ a).astype(np.float32), n_v, often, K, np.random.default_rng(0)
    )
    corner = place[choose_anchors(place, often, K)]
    c = np.empty((V, len(corner)), np.float32)
    share_words(corner @ corner.T, place @ corner.T, 1e-10, c)
    found = c / c.sum(axis=1, keepdims=True) * n_v[:, None]
    found /= found.sum(axis=0)
    return (abs(phi[:, :, None] - found[None]).sum(axis=1) / 2).min(axis=1).max()


def test_topics_of_exact_pairs():
    K, V, rng = 8, 60, np.random.default_rng(4)
    phi = rng.dirichlet(np.full(V, 0.3), size=K)
    phi[:, :K] = np.diag(phi[:, :K].diagonal() + 0.02)  # a word of each topic's own
    beta = 1 / np.arange(1, K + 1) / (1 / np.arange(1, K + 1)).sum()
    without = phi.copy()
    without[:, K - 1] = 0.05
    phi, without = (p / p.sum(axis=1, keepdims=True) for p in (phi, without))
    assert recovered(phi, beta, 2.0) < 0.01
    assert recovered(without, beta, 2.0) > 0.05  # a topic without an anchor
    assert recovered(phi, beta, 2.0, same=True) > 0.05  # tokens that make pairs with themselves


def test_most_topics_of_documents_are_found():
    phi, corpus = zipf_corpus(5)
    start = anchor_topics(corpus, 12, min_count=10, random_state=0)
    n_vk = start.n_vk.toarray()
    start.check()
    assert (cosines(phi, n_vk) > 0.9).sum() >= 11
    shuffled = np.random.default_rng(0).permutation(corpus.x)  # no word has company of its own
    lost = anchor_topics(
        Corpus(shuffled, corpus.offsets, n_words=400), 12, min_count=10, random_state=0
    )
    assert (cosines(phi, lost.n_vk.toarray()) > 0.9).sum() <= 1
    n_v = np.bincount(corpus.x, minlength=400)
    assert abs(n_vk.sum(axis=1) - n_v).max() <= 12 and np.isclose(start.beta.sum(), 1)
    again = anchor_topics(corpus, 12, min_count=10, random_state=0)
    assert all(np.array_equal(a, b) for a, b in zip(start, again))


def test_shards_begin_with_anchors(tmp_path):
    phi, corpus = zipf_corpus(6, n_docs=600)
    shards = write_shards(tmp_path / "corpus", [corpus[:250], corpus[250:]], n_words=400)
    start = anchor_topics(shards, 12, min_count=10, random_state=0)
    whole = anchor_topics(corpus, 12, min_count=10, random_state=0)
    assert (cosines(start.n_vk.toarray().T, whole.n_vk.toarray()) > 0.99).all()
    model = HDP(sampler="parallel", n_chains=1, n_iter=2, n_jobs=1, init=start, random_state=0)
    fit(model, shards, tmp_path / "run")
    assert (cosines(phi, model.samples_[-1].n_vk.toarray()) > 0.8).sum() >= 9


def by_fours(terms):
    "Their sum, in fours of what is summed in fours."
    while len(terms) > 1:
        groups = [terms[i : i + 4] for i in range(0, len(terms), 4)]
        terms = [sum(group[1:], group[0]) for group in groups]
    return terms[0]


@pytest.mark.parametrize("n", [1, 2, 4, 5, 16, 17, 63])
def test_sums_have_one_order(n):
    terms = np.random.default_rng(n).standard_normal((n, 500), dtype=np.float32)
    before, held, most, busy = terms.copy(), [0], [0], threading.Lock()

    def gone():
        with busy:
            held[0] -= 1

    def call(job, i):
        out = terms[i].copy()
        with busy:
            held[0] += 1
            most.append(held[0])
        weakref.finalize(out, gone)
        return out

    for n_threads in (1, 3):
        found = sum_on_engine(None, call, lambda where: where, None, range(n), n_threads)
        assert np.array_equal(found, by_fours(list(terms)))
        del found
        # a sum for each level, and what is done or being done
        assert max(most) <= np.ceil(np.log2(n) / 2) + 1 + (n_threads if n_threads > 1 else 0)
        most.clear()
    left_to_right = np.add.accumulate(terms)[-1]  # the control, but where it is the same order
    assert (n <= 5) == np.array_equal(left_to_right, by_fours(list(terms)))
    assert np.array_equal(terms, before) and held[0] == 0


def test_pairs_of_shards_are_those_of_the_corpus(tmp_path):
    docs, corpus = random_corpus()
    shards = write_shards(tmp_path / "corpus", iter(corpus), n_words=30, shard_tokens=20)
    rng = np.random.default_rng(1)
    a, Q = rng.standard_normal((30, 5)).astype(np.float32), pairs_plain(docs, 30)
    pairs, whole = ShardPairs(shards, tmp_path), CorpusPairs(corpus)
    assert len(pairs.shards) > 5 and np.array_equal(pairs.n_v, whole.n_v)
    for one in (pairs, whole):
        assert np.allclose(one.multiply_pairs(a), Q @ a, atol=1e-4)
    corner = rng.standard_normal((4, 5)).astype(np.float32)
    gram, b = corner @ corner.T, a @ corner.T
    before = b.copy()
    shares = np.empty_like(b)
    share_words(gram, b.copy(), 1e-4, shares)
    for one in (pairs, whole):
        assert np.array_equal(one.share_words(gram, before.copy()), shares)
    assert np.array_equal(pairs.share_words(gram, b), shares) and np.array_equal(b, before)
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_workers_begin_as_threads_do(tmp_path):
    "A sample, anchor words, random topics: the same bytes from workers, threads and one thread."
    dask = pytest.importorskip("distributed")
    _, corpus = zipf_corpus(6, n_docs=600)
    shards = write_shards(tmp_path / "corpus", iter(corpus), n_words=400, shard_tokens=2000)
    model = HDP(sampler="parallel", n_chains=1, n_iter=1, n_jobs=1, moves=0, random_state=0)
    drawn = lambda **how: shards.sample(np.random.default_rng(0), 3000, **how)
    begun = lambda run, **how: fit(clone(model), shards, tmp_path / run, **how)
    here, one = drawn(), begun("one", n_anchors=12)
    random = begun("random", n_anchors=None) if model.set_params(init=30) else None
    with dask.Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as client:
        for how in ({"client": client}, {"n_threads": 2}):
            there = drawn(**how)
            assert np.array_equal(there.x, here.x) and np.array_equal(there.offsets, here.offsets)
        there = begun("there", client=client, n_anchors=12)
        drawn_there = begun("random there", client=client)
    threads = begun("threads", n_anchors=12) if model.set_params(n_jobs=2) else None
    for want, found in ((one, there), (one, threads), (random, drawn_there)):
        assert all(np.array_equal(a, b) for a, b in zip(want.samples_[-1], found.samples_[-1]))
    assert not np.array_equal(one.components_, random.components_)
    shared = f"job-000000-{'?' * 32}.npz"  # what tasks of the start had in common
    assert not list((tmp_path / "there").glob(shared))


def test_a_fit_to_shards_keeps_its_anchors(tmp_path):
    _, corpus = zipf_corpus(6, n_docs=600)
    shards = write_shards(tmp_path / "corpus", [corpus[:250], corpus[250:]], n_words=400)
    model = HDP(sampler="parallel", n_chains=1, n_iter=1, n_jobs=1, random_state=0)
    once = fit(model, shards, tmp_path / "run", n_anchors=12).samples_[-1]
    kept = np.load(tmp_path / "run" / "anchors.npz")
    assert kept["n_anchors"] == 12 and kept["beta"].size == 13
    further = fit(clone(model).set_params(n_iter=2), shards, tmp_path / "run", n_anchors=12)
    whole = fit(clone(model).set_params(n_iter=2), shards, tmp_path / "whole", n_anchors=12)
    for a, b in zip(further.samples_[-1], whole.samples_[-1]):
        assert np.array_equal(a, b)
    assert not np.array_equal(once.data, whole.samples_[-1].data)
    with pytest.raises(ValueError, match="began with 12, got 11"):
        fit(model, shards, tmp_path / "run", n_anchors=11)
    np.savez(tmp_path / "whole" / "anchors.npz", other=1)
    with pytest.raises(ValueError, match="anchors.npz holds no topics of anchor words"):
        fit(model, shards, tmp_path / "whole", n_anchors=12)
    with pytest.raises(ValueError, match="n_anchors: n_topics must be at most the number of words"):
        fit(model, shards, tmp_path / "other", n_anchors=401)
    with pytest.raises(ValueError, match="n_anchors must be None for an OnlineHDP, got 12"):
        fit(OnlineHDP(), shards, tmp_path / "online", n_anchors=12)


def test_anchors_from_a_shell(tmp_path, capsys):
    _, corpus = zipf_corpus(6, n_docs=600)
    write_shards(tmp_path / "corpus", [corpus], n_words=400)
    command = ["shards", "fit", str(tmp_path / "corpus"), "--out", str(tmp_path / "run"), "--quiet"]
    command += ["--n-iter", "1", "--n-jobs", "1", "--anchors", "12"]
    assert main(command) == 0
    assert (tmp_path / "run" / "anchors.npz").exists() and "Results" in capsys.readouterr().out
    assert main([*command, "--init", "3"]) != 0
    assert "--anchors and --init are two ways to begin" in capsys.readouterr().err


def test_tokens_get_topics_of_their_words():
    n_vk = np.array([[3, 0, 1], [0, 0, 0], [0, 5, 0]])
    sparse = csr_array(n_vk)
    counts = TopicCounts(
        sparse.data, sparse.indices, sparse.indptr, np.full(4, 0.25), *np.ones((3, 1))
    )
    x = np.random.default_rng(0).integers(0, 3, size=30_000)
    corpus = Corpus(x, [0, 10_000, 10_000, 30_000], n_words=3)
    z = draw_topics(corpus, counts, random_state=1)
    shares = np.array([np.bincount(z[x == v], minlength=3) / (x == v).sum() for v in range(3)])
    exact = np.array([[0.75, 0, 0.25], [3 / 9, 5 / 9, 1 / 9], [0, 1, 0]])
    assert abs(shares - exact).max() < 0.02 and not shares[exact == 0].any()
    assert np.array_equal(z, draw_topics(corpus, counts, random_state=1))
    HDP(sampler="parallel", n_chains=1, n_iter=2, n_jobs=1, init=z[:300], moves=0).fit(
        Corpus(x[:300], [0, 100, 300])
    )
    with pytest.raises(ValueError, match="counts must be of the corpus's 30 words, got 3"):
        draw_topics(random_corpus()[1], counts)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"n_topics": 0}, "n_topics must be a whole number of at least 1, got 0"),
        ({"n_topics": 31}, "n_topics must be at most the number of words"),
        ({"min_count": 0}, "min_count must be"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"gamma": np.nan}, "gamma must be"),
        ({"eta": -1.0}, "eta must be"),
    ],
)
def test_bad_arguments_are_named(more, message):
    corpus = random_corpus()[1]
    with pytest.raises(ValueError, match=message):
        anchor_topics(corpus, **{"n_topics": 3, "min_count": 1, **more})
