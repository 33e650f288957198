"""Moves by groups of topics: divisions of documents against all assignments, the exact posterior,
wrong moves that it rejects; over shards the bytes of a corpus in memory, whatever the shards and
threads, and after the process was killed; limits.
"""

import itertools
import math
import multiprocessing
import os
import signal
import sys

import numpy as np
import pytest

from hdp_nb.cli.main import main
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed import start as between_sweeps
from hdp_nb.distributed.fit import ShardSampler, fit
from hdp_nb.distributed.shards import write_shards
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import exact_posterior, log_hdp, log_words, posterior_error
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.moves import divisions
from hdp_nb.moves import groups as group_moves
from hdp_nb.topics.parallel import ParallelSampler
from hdp_nb.utils.files import load_npz
from hdp_nb.utils.special import log_rising

BARS = Corpus.from_docs(
    [[], *make_bars(n_docs=120, doc_len=30, grid=3, random_state=0)[0], [], [3]], n_words=12
)  # three words never occur


# ---------------------------------------------------------------- divisions of documents


def move_table(one, two, share, new, urn=False, n_topics=1):
    "One move of topic 0, which has all words."
    V = len(one)
    return divisions.PairTable(
        np.array([0] + [-1] * (n_topics - 1)),
        np.arange(V + 1),
        np.zeros(V, np.int64),
        np.array(one),
        np.array(two),
        np.array([1.3]),
        np.array([share]),
        np.array([new]),
        np.array([urn]),
    )


def divide(table, docs, z, alpha, first=0, seed=3):
    "The topics of the tokens, the sum of log Z/R, words in the second part."
    x, offsets = np.concatenate(docs), np.append(0, np.cumsum([len(doc) for doc in docs]))
    tokens = divisions.DocumentTokens(x, offsets, np.array(z), np.array(alpha), first)
    log_p, n_two = np.zeros(1), np.zeros(len(table.column), np.int64)
    divisions.divide_documents(np.uint64(seed), table, tokens, log_p, n_two)
    return tokens.z, log_p[0], n_two


@pytest.mark.parametrize("alpha", [0.7, 9.0])
def test_every_assignment_has_its_probability(alpha):
    """With tokens of another topic in between, which stay as they are. The control are the
    probabilities for another share.
    """
    one, two, J = np.array([0.6, 0.3, 0.1]), np.array([0.1, 0.3, 0.6]), 20_000
    x, z = np.array([0, 2, 1, 0, 2, 1]), np.array([0, 0, 1, 0, 0, 0])
    own = x[z == 0]

    def weights(u):
        a, c, found = alpha * 1.3 * u, alpha * 1.3 * (1 - u), {}
        for way in itertools.product((0, 2), repeat=5):
            n, way = way.count(0), np.array(way)
            words = np.prod(np.where(way == 0, one[own], two[own]))
            found[tuple(way)] = words * math.exp(log_rising(a, n) + log_rising(c, 5 - n))
        return found, math.log(sum(found.values())) - log_rising(a + c, 5)

    table = move_table(one, two, 0.4, 2, n_topics=2)
    drawn, log_p, n_two = divide(table, [x] * J, np.tile(z, J), np.full(J, alpha))
    drawn = drawn.reshape(J, 6)
    assert (drawn[:, 2] == 1).all()
    assert np.array_equal(n_two, np.bincount(np.tile(x, J)[drawn.ravel() == 2], minlength=3))
    rows, count = np.unique(drawn[:, z == 0], axis=0, return_counts=True)
    count = dict(zip(map(tuple, rows.tolist()), count / J))

    def distance(p):
        total = sum(p.values())
        return 0.5 * sum(abs(count.get(way, 0) - w / total) for way, w in p.items())

    p, log_z = weights(0.4)
    assert math.isclose(log_p / J, log_z, abs_tol=1e-6)
    assert distance(p) < 0.03 < distance(weights(0.8)[0])


@pytest.mark.parametrize("n", [1, 64, 65, 900])
def test_documents_of_any_length(n):
    """Where both parts have the same words, what is divided is the urn's: the constant is known.
    The parts have the numbers of tokens that the urn gives them.
    """
    rng = np.random.default_rng(n)
    one, x = np.array([0.5, 0.3, 0.2]), rng.choice(3, n)
    for share in (0.3, 1e-9):
        z, log_p, n_two = divide(move_table(one, one, share, 1), [x], [0] * n, 0.4)
        assert math.isclose(log_p, np.log(one[x]).sum(), rel_tol=1e-9, abs_tol=2e-6)
        assert np.array_equal(n_two, np.bincount(x[z == 1], minlength=3))
    J = 200_000 // n
    second = []
    for urn in (False, True):
        z, _, _ = divide(move_table(one, one, 0.3, 1, urn), [x] * J, [0] * n * J, 0.4)
        m = (z.reshape(J, n) == 1).sum(axis=1) / n
        second.append([m.mean(), (m == 1).mean(), (m == 0).mean()])
    assert np.allclose(second, [0.7, *second[0][1:]], atol=4 * 0.5 / math.sqrt(J))


def test_the_urn_takes_documents_that_a_launched_move_leaves():
    x = np.zeros(2001, int)
    z, log_p, n_two = divide(move_table([1.0], [1.0], 0.4, 1, urn=True), [x], [0] * 2001, 5.0)
    assert log_p == 0.0 and n_two.sum() == (z == 1).sum() and 0 < n_two[0] < 2001


def state_of(corpus, z, beta, eta=0.3, alpha=1.0, gamma=1.5):
    "A state of the parallel sampler with these topics and weights."
    sampler = ParallelSampler(corpus, eta, alpha, gamma, None, None, init=len(beta) - 1)
    state = sampler.init(np.random.default_rng(0))
    state.z[:], state.n_vk[:], state.beta[:] = z, 0, 0.0
    np.add.at(state.n_vk, (corpus.x, state.z), 1)
    state.n_k[:], state.K[()] = state.n_vk.sum(axis=0), len(beta) - 1
    state.beta[: len(beta)] = beta
    return sampler, state


def agrees(state, corpus):
    "Whether counts are those of the topics, and weights those of as many."
    K = int(state.K)
    n_vk = np.zeros_like(state.n_vk)
    np.add.at(n_vk, (corpus.x, state.z), 1)
    return (
        np.array_equal(n_vk, state.n_vk)
        and np.array_equal(n_vk.sum(axis=0), state.n_k)
        and (state.n_k[:K] > 0).all()
        and (state.beta[: K + 1] > 0).all()
        and not state.beta[K + 1 :].any()
        and math.isclose(state.beta.sum(), 1.0)
    )


def test_long_documents():
    "With 901 tokens of one topic no launched move is made of it; with 900 there are such moves."
    accepted = {}
    for n in (900, 901):
        corpus = Corpus.from_docs([np.arange(n) % 2, *[[0] * 20, [1] * 20] * 20])
        _, state = state_of(corpus, np.zeros(corpus.n_tokens, int), [0.9, 0.1])
        table, words = group_moves.tabulate_moves(
            state, [group_moves.TopicMove(group_moves.LAUNCHED, False, 0, (0,), np.array([], int))]
        )
        passes = divisions.LocalPasses(corpus, state)
        _, possible = group_moves.launch_moves(
            state, passes, table, words, np.array([1, 2], np.uint64)
        )
        accepted[n] = bool(possible[0])
        rng = np.random.default_rng(0)
        for _ in range(5):  # whatever is proposed
            state, _ = group_moves.move_topics(rng, state, corpus, 3)
            assert agrees(state, corpus)
    assert accepted == {900: True, 901: False}


@pytest.mark.parametrize(
    "docs",
    [[[0]], [[], [0, 0], []], [[2] * 40], [[0, 1, 2] * 5] * 8, [[i % 5] for i in range(30)]],
    ids=["one token", "empty documents", "one word", "the same words in all", "short"],
)
@pytest.mark.parametrize("alphas", [False, True])
def test_small_corpora(docs, alphas):
    corpus = Corpus.from_docs(docs, n_words=6)
    sampler = ParallelSampler(corpus, 0.3, init=3, alpha_per_document=alphas)
    rng = np.random.default_rng(0)
    state, total = sampler.init(rng), 0
    for _ in range(12):
        state, _ = sampler.sweep(rng, state)
        state, tally = group_moves.move_topics(rng, state, corpus, 3)
        total += tally
        assert agrees(state, corpus) and (tally[..., 1] <= tally[..., 0]).all()
    assert total[..., 0].sum() >= 12


# ---------------------------------------------------------------- the posterior

DOCS, ALPHA, GAMMA, ETA = [[0, 1, 0], [], [1, 2], [2]], 1.0, 1.5, 0.5
TINY = Corpus.from_docs([np.array(doc, int) for doc in DOCS], n_words=3)
DOCUMENT = np.repeat(np.arange(4), TINY.doc_lengths)


@pytest.fixture(scope="module")
def exact():
    return exact_posterior(
        TINY.n_tokens, lambda z: log_hdp(z, DOCUMENT, ALPHA, GAMMA) + log_words(TINY.x, z, 3, ETA)
    )


def error(exact, n, n_groups=2, seed=0):
    "Distance of sweeps and moves in turns from the exact posterior; acceptance by kind."
    sampler = ParallelSampler(TINY, ETA, ALPHA, GAMMA, None, None, init=2)
    rng, draws, total = np.random.default_rng(seed), [], 0
    state = sampler.init(rng)
    for _ in range(n):
        state = sampler._sweep(rng, state)
        for _ in range(3):
            state, tally = group_moves.move_topics(rng, state, TINY, n_groups)
            draws.append(state.z.copy())
            total += tally
    return posterior_error(draws, exact), total


def no_weights(state, move, w, parts, counts, log_z):
    "Without gamma/(u (1 - u))."
    right = RATIO(state, move, w, parts, counts, log_z)
    return right + np.log(parts[2]).sum() - math.log(state.gamma)


def no_constant(state, move, w, parts, counts, log_z):
    "As if documents were divided by words alone."
    return RATIO(state, move, w, parts, counts, log_z + 1.0)


RATIO = group_moves.log_split


def test_exact_and_wrong_moves(exact, monkeypatch):
    far, tally = error(exact, 500)
    assert far < 0.1 and (tally[..., 1] > 0).all()
    monkeypatch.setattr(group_moves, "log_split", no_weights)
    assert error(exact, 150)[0] > 0.2


@pytest.mark.slow
@pytest.mark.parametrize("n_groups", [1, 2, 4])
def test_exact_in_long_runs(exact, n_groups):
    far, tally = error(exact, 12_000, n_groups, seed=n_groups)
    assert far < 0.02 and (tally[..., 1] > 100).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, wrong",
    [
        ("log_split", no_constant),
        ("log_choice", lambda *args: 0.0),
        ("log_lift", lambda *args: 0.0),
        ("log_groups", lambda n: np.log(np.full(n.shape, 1 / len(n))) + (n > 0)),
    ],
    ids=["constant", "choice", "words", "groups"],
)
def test_what_is_wrong_is_seen(exact, monkeypatch, name, wrong):
    monkeypatch.setattr(group_moves, name, wrong)
    assert error(exact, 4000)[0] > 0.04


# ---------------------------------------------------------------- over shards


def reference(n_groups, n, alphas=False, seed=0):
    "Sweeps in memory, moves before all but the first; the state, and moves by round."
    sampler = ParallelSampler(BARS, 0.3, eta_prior=(1, 1), init=6, alpha_per_document=alphas)
    rng, rows = np.random.default_rng(seed), [(0, 0)]
    state = sampler.init(rng)
    for i in range(n):
        if i:
            state, tally = group_moves.move_topics(rng, state, BARS, n_groups)
            rows.append(tuple(tally.sum(axis=(0, 1))))
        state, _ = sampler.sweep(rng, state)
    return state, rows, rng


@pytest.mark.parametrize(
    "shard_tokens, n_threads, alphas", [(300, 3, True), (1000, 1, False), (10**6, 1, True)]
)
def test_the_moves_of_a_corpus_in_memory(tmp_path, shard_tokens, n_threads, alphas):
    want, rows, rng = reference(4, 7, alphas)
    corpus = write_shards(tmp_path / "c", iter(BARS), n_words=12, shard_tokens=shard_tokens)
    assert corpus.n_shards == {300: 13, 1000: 4, 10**6: 1}[shard_tokens]
    sampler = ShardSampler(
        corpus,
        tmp_path / "run",
        0.3,
        eta_prior=(1, 1),
        init=6,
        alpha_per_document=alphas,
        n_threads=n_threads,
        moves=4,
    )
    chain = run_chain(sampler, np.random.default_rng(0), 7)
    state = chain.state.base
    z = np.concatenate([sampler.topics(chain.state, i) for i in range(corpus.n_shards)])
    assert np.array_equal(z, want.z)
    for name in ("n_vk", "n_k", "m_k", "beta", "K", "alpha", "gamma", "eta"):
        assert np.array_equal(getattr(state, name), getattr(want, name)), name
    moved = [chain.trace[f"moves_{what}"].tolist() for what in ("proposed", "accepted")]
    assert list(zip(*moved)) == rows and sum(moved[1]) > 0
    assert chain.rng.bit_generator.state == rng.bit_generator.state
    sampler.check(chain.state)


def test_the_seed_and_the_groups_matter():
    "What the other test compares is not the same for all."
    z = [reference(groups, 4, seed=seed)[0].z for groups, seed in ((4, 0), (4, 1), (5, 0))]
    assert not any(np.array_equal(a, b) for a, b in itertools.combinations(z, 2))


MODEL = dict(
    sampler="parallel",
    n_iter=6,
    burn_in=1,
    init=6,
    eta=Gamma(1, 1),
    n_chains=1,
    moves=4,
    random_state=3,
)


def fit_and_die(corpus, run):
    "Killed in the moves before the fourth sweep, when half of the shards are divided."
    write, left = between_sweeps.write_shard_topics, [corpus.n_shards // 2]

    def deadly(corpus, place, t, i, z):
        write(corpus, place, t, i, z)
        kept = load_npz(run / "chain.npz") if (run / "chain.npz").exists() else {}
        if len(kept.get("trace/n_topics", ())) == 3:
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    between_sweeps.write_shard_topics = deadly
    fit(HDP(**MODEL), corpus, run)


def contents(run):
    "The checkpoint's arrays, and the topics that belong to it, byte by byte."
    arrays = load_npz(run / "chain.npz")
    t = int(arrays["state/t"])
    return arrays, {path.name: path.read_bytes() for path in run.glob(f"z-{t:06d}-*")}


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, where a process may fork")
def test_killed_and_resumed(tmp_path):
    corpus = write_shards(tmp_path / "c", iter(BARS), n_words=12, shard_tokens=500)
    fit(HDP(**MODEL), corpus, tmp_path / "whole")
    arrays, files = contents(tmp_path / "whole")
    child = multiprocessing.get_context("fork").Process(
        target=fit_and_die, args=(corpus, tmp_path / "run")
    )
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    assert len(load_npz(tmp_path / "run" / "chain.npz")["trace/n_topics"]) == 3
    fitted = fit(HDP(**MODEL), corpus, tmp_path / "run")
    again, others = contents(tmp_path / "run")
    assert len(files) == corpus.n_shards and files == others
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)
    assert fitted.trace_["moves_proposed"].sum() > 10 and fitted.trace_["moves_proposed"][0] == 0


def test_what_is_not_taken(tmp_path):
    corpus = write_shards(tmp_path / "c", iter(BARS), n_words=12, shard_tokens=500)
    for moves in (-1, 1.5, 10_001, "many"):
        with pytest.raises(ValueError, match="moves must be"):
            fit(HDP(**MODEL | {"moves": moves}), corpus, tmp_path / "run")
    none = fit(HDP(**MODEL | {"moves": 0, "n_iter": 2}), corpus, tmp_path / "run")
    assert "moves_proposed" not in none.trace_
    with pytest.raises(ValueError, match="chain.npz"):
        fit(HDP(**MODEL), corpus, tmp_path / "run")
    fit(OnlineHDP(n_topics=3, random_state=0), corpus, tmp_path / "online")


def test_from_a_shell(tmp_path, capsys):
    write_shards(tmp_path / "c", iter(BARS), n_words=12, shard_tokens=2000)
    command = ["shards", "fit", str(tmp_path / "c"), "--quiet", "--n-jobs", "1", "--init", "3"]
    command += ["--n-iter", "3", "--out"]
    for moves, expected in (("2", 2), ("0", None), ("auto", 16)):
        out = tmp_path / moves
        assert main([*command, str(out), "--moves", moves]) == 0
        trace = HDP.load(out / "model.npz").trace_
        assert ("moves_proposed" in trace) == (expected is not None)
        assert expected is None or 0 < trace["moves_proposed"].max() <= expected
    capsys.readouterr()
    command = [*command[:-3], "--out", str(tmp_path / "new")]
    assert main([*command, "--model", "online", "--moves", "2"]) == 2
    assert "--moves takes --model hdp" in capsys.readouterr().err
