"""Sharded corpora: the chain of the parallel sampler to the last bit, by threads and by workers,
one of which dies; killed runs; online inference; bad input.
"""

import multiprocessing
import os
import shutil
import signal
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed import engine
from hdp_nb.distributed import fit as distributed
from hdp_nb.distributed import online as stream_shards
from hdp_nb.distributed import shards as shards_module
from hdp_nb.distributed import start as begin_shards
from hdp_nb.distributed.engine import on_engine
from hdp_nb.distributed.fit import ShardSampler, fit, topics_of
from hdp_nb.distributed.shards import ShardedCorpus, find_shared, write_shards
from hdp_nb.distributed.transform import model_digest
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.moves.schedule import Moves
from hdp_nb.topics.parallel import ParallelSampler
from hdp_nb.utils.files import load_npz, save_npz

CORPUS = Corpus.from_docs(
    [[], *make_bars(n_docs=250, doc_len=40, grid=4, random_state=0)[0], [], [3]], n_words=25
)  # five words never occur
MODEL = dict(
    sampler="parallel",
    n_iter=6,
    burn_in=1,
    init=30,
    thin=2,
    eta=Gamma(1, 1),
    n_chains=1,
    moves=0,
    random_state=3,
)


@pytest.fixture(scope="module")
def whole():
    return HDP(**MODEL).fit(CORPUS)


@pytest.fixture
def shards(tmp_path):
    return write_shards(tmp_path / "corpus", iter(CORPUS), n_words=25, shard_tokens=1200)


def same(one, other):
    """Whether two fits are one; shards keep no counts of documents in their samples."""
    return (
        all(np.array_equal(one.trace_[name], other.trace_[name]) for name in one.trace_)
        and np.array_equal(one.components_, other.components_)
        and np.array_equal(one.topic_shares_, other.topic_shares_)
        and np.array_equal(one.matches_, other.matches_)
        and len(one.samples_) == len(other.samples_)
        and all(
            np.array_equal(getattr(x, name), getattr(y, name))
            for x, y in zip(one.samples_, other.samples_)
            for name in x._fields
            if not name.startswith("doc_")
        )
    )


# ---------------------------------------------------------------- shards


def test_shards(tmp_path, shards):
    assert (shards.n_docs, shards.n_tokens, shards.n_words) == (
        253,
        CORPUS.n_tokens,
        25,
    ) and shards.n_shards == 9
    assert sum(([list(doc) for doc in part] for part in shards), []) == [
        list(doc) for doc in CORPUS
    ]
    assert np.array_equal(shards.word_counts, CORPUS.word_counts()) and np.array_equal(
        shards.doc_lengths, CORPUS.doc_lengths
    )
    assert ShardedCorpus(tmp_path / "corpus").digest == shards.digest
    other = write_shards(
        tmp_path / "pieces", (CORPUS[a : a + 100] for a in (0, 100, 200))
    )  # a Corpus is a shard
    assert (
        other.n_shards == 3
        and other.shard(2) == Corpus(CORPUS[200:].x, CORPUS[200:].offsets, n_words=other.n_words)
        and other.digest != shards.digest
    )
    words = write_shards(
        tmp_path / "words",
        (doc.split() for doc in ["b a", "a", "c c a"]),
        vocab=["a", "b", "c"],
        shard_tokens=3,
    )
    assert (
        words.vocab == ["a", "b", "c"]
        and words.n_shards == 2
        and words.shard(1) == Corpus([2, 2, 0], [0, 3], ["a", "b", "c"])
    )
    grown = write_shards(
        tmp_path / "grown", [[0, 1], [5], [2]], shard_tokens=1
    )  # no vocabulary: as many as turn up
    assert (
        grown.n_words == 6
        and grown.word_counts.tolist() == [1, 1, 1, 0, 0, 1]
        and [part.n_words for part in grown] == [6] * 3
    )


def test_a_stream_is_never_all_in_memory(tmp_path):
    open_documents, most = set(), 0

    class Document(list):
        def __init__(self, j):
            super().__init__([j % 7] * 10)
            open_documents.add(id(self))
            nonlocal most
            most = max(most, len(open_documents))

        def __del__(self):
            open_documents.discard(id(self))

    assert (
        write_shards(tmp_path / "c", map(Document, range(500)), shard_tokens=100).n_docs == 500
        and most <= 12
    )


# ---------------------------------------------------------------- the same chain


@pytest.mark.parametrize("shard_tokens, n_jobs", [(700, 3), (10**6, 1)])
def test_same_chain_as_in_one_piece(tmp_path, whole, shard_tokens, n_jobs):
    corpus = write_shards(tmp_path / "corpus", iter(CORPUS), n_words=25, shard_tokens=shard_tokens)
    model = fit(HDP(**MODEL, n_jobs=n_jobs), corpus, tmp_path / "run")
    assert corpus.n_shards == (14 if shard_tokens == 700 else 1) and same(model, whole)
    assert (
        len([path for path in (tmp_path / "run").iterdir() if not path.name.startswith("z-000006")])
        == 2 + corpus.n_shards
    )  # the checkpoint, the lengths of documents and the sweep before
    assert not same(fit(HDP(**MODEL | {"random_state": 4}), corpus, tmp_path / "other"), whole)


def test_one_corpus_is_cut_and_keeps_its_words(tmp_path):
    "In the same places as the stream of its documents, with words that none of them has, too."
    words = [f"w{v}" for v in range(27)]
    named = Corpus(CORPUS.x, CORPUS.offsets, words)
    one = write_shards(tmp_path / "one", named, shard_tokens=1200)
    other = write_shards(tmp_path / "other", iter(CORPUS), n_words=27, shard_tokens=1200)
    assert one.vocab == words and one.n_words == 27 and one.n_shards == other.n_shards > 2
    assert all(np.array_equal(a.x, b.x) for a, b in zip(one, other))
    assert write_shards(tmp_path / "ids", CORPUS, shard_tokens=1200).n_words == CORPUS.n_words
    counts = Corpus.from_matrix(named.to_matrix(), words)
    again = write_shards(tmp_path / "counts", counts, shard_tokens=1200)
    assert all((a.to_matrix() != b.to_matrix()).nnz == 0 for a, b in zip(again, one))


@pytest.mark.parametrize("alphas", [True, False])
def test_same_state(tmp_path, shards, alphas):
    "Every array of the state, and the topic of every token."
    options = dict(eta=0.3, alpha_per_document=alphas, init=20)
    chain = run_chain(ParallelSampler(CORPUS, **options), np.random.default_rng(0), 4)
    sampler = ShardSampler(shards, tmp_path / "run", **options)
    other = run_chain(sampler, np.random.default_rng(0), 4)
    z = np.concatenate([sampler.topics(other.state, i) for i in range(shards.n_shards)])
    assert all(
        np.array_equal(getattr(chain.state, name), getattr(other.state.base, name))
        for name in chain.state._fields
        if name not in ("z", "n_tables")
    )
    alike = np.ndim(chain.state.alpha) == 0  # then their sum is kept
    tables = chain.state.n_tables.sum(keepdims=True) if alike else chain.state.n_tables
    assert np.array_equal(tables, other.state.base.n_tables)
    assert (
        np.array_equal(chain.state.z, z)
        and chain.rng.bit_generator.state == other.rng.bit_generator.state
    )


def test_begun_with_topics(tmp_path, shards, whole):
    model = HDP(**MODEL | {"init": whole.samples_[-1], "n_iter": 3})
    first = fit(model, shards, tmp_path / "run").trace_
    assert (
        abs(first["n_topics"][0] - whole.n_topics_) < 10
        and first["log_likelihood"][0] > whole.trace_["log_likelihood"][0]
    )
    assert (
        fit(model, shards, tmp_path / "again").trace_["log_joint"].tolist()
        == first["log_joint"].tolist()
    )


def test_begun_with_a_sample_of_the_documents(tmp_path, monkeypatch):
    """Thirty sweeps from a hundred random topics are the control: they do not come down to ten."""
    monkeypatch.setattr(distributed, "SAMPLE_SWEEPS", 80)
    corpus, _ = make_bars(n_docs=500, doc_len=80, grid=5, concentration=2.0, random_state=3)
    shards = write_shards(tmp_path / "corpus", iter(corpus), n_words=25, shard_tokens=9000)
    drawn = shards.sample(np.random.default_rng(0), 20_000)
    assert drawn.shape[1] == 25 and 15_000 < drawn.n_tokens < 25_000
    whole = shards.sample(np.random.default_rng(0), 10**9)
    assert np.array_equal(whole.x, corpus.x) and np.array_equal(whole.offsets, corpus.offsets)
    few = shards.sample(np.random.default_rng(0), 1)  # a document at least, however long
    assert few.n_docs == 1 and few.n_tokens == 80
    model = HDP(sampler="parallel", n_chains=1, n_iter=8, random_state=0)
    model = fit(model, shards, tmp_path / "run")
    assert (model.trace_["n_topics"] >= 10).all() and (model.topic_shares_ > 0.01).sum() == 10
    resumed = fit(
        HDP(sampler="parallel", n_chains=1, n_iter=8, random_state=0), shards, tmp_path / "run"
    )
    assert same(model, resumed)
    random = fit(
        HDP(sampler="parallel", n_chains=1, n_iter=30, init=100, random_state=0),
        shards,
        tmp_path / "random",
    )
    assert (random.topic_shares_ > 0.01).sum() > 12


def test_a_sample_goes_on_after_ctrl_c(tmp_path, shards, monkeypatch):
    "What was swept is not swept again, with the same result; of no seed all is drawn anew."
    monkeypatch.setattr(distributed, "SAMPLE_SWEEPS", 20)
    plain, done, at = ParallelSampler.sweep, [], [0]

    def sweep(*args):
        done.append(1)
        if len(done) == at[0]:
            os.kill(os.getpid(), signal.SIGINT)
        return plain(*args)

    monkeypatch.setattr(ParallelSampler, "sweep", sweep)

    def begin(name, interrupted, **more):
        done.clear()
        at[0] = 7 if interrupted else 0
        model = HDP(**MODEL | {"n_iter": 2, "init": "opposite"} | more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # there are few sweeps
            fit(model, shards, tmp_path / name)

    for more in ({}, {"random_state": None}):
        with pytest.raises(KeyboardInterrupt):
            begin(f"cut {more}", True, **more)
        before = len(done)
        assert 7 <= before < 40  # a machine may sweep on until the signal is seen
        begin(f"cut {more}", False, **more)
        compared = 6  # three more sweeps of each of the two chains, which are compared by them
        assert len(done) == (40 if more else 40 - before) + compared
    begin("whole", False)
    one, other = (load_npz(tmp_path / name / "sample.npz") for name in ("whole", "cut {}"))
    assert all(
        np.array_equal(one[name], other[name], equal_nan=True) for name in one if name != "meta"
    )
    assert not [*tmp_path.glob("*/sample-*")]


def test_another_corpus_is_named(tmp_path, shards):
    fit(HDP(**MODEL | {"n_iter": 1, "burn_in": 0, "eta": 0.5}), shards, tmp_path / "run")
    other = write_shards(tmp_path / "other", [[1, 2], [30]])
    with pytest.raises(ValueError, match="made with corpus = "):
        fit(HDP(**MODEL | {"n_iter": 1, "burn_in": 0, "eta": 0.5}), other, tmp_path / "run")


def test_what_is_documented_of_a_fit_is_there(tmp_path, shards, whole):
    model = fit(HDP(**MODEL), shards, tmp_path / "run")
    assert model.thin_ == 2 and np.array_equal(model.sample_weights_, whole.sample_weights_)
    assert model_digest(model) == model_digest(whole)


@pytest.mark.slow
def test_begun_with_a_sample_twice(tmp_path, monkeypatch):
    "Two fits that know nothing of each other are the same."
    monkeypatch.setattr(distributed, "SAMPLE_SWEEPS", 80)
    corpus, _ = make_bars(n_docs=500, doc_len=80, grid=5, concentration=2.0, random_state=3)
    shards = write_shards(tmp_path / "corpus", iter(corpus), n_words=25, shard_tokens=9000)
    one, other = (
        fit(HDP(sampler="parallel", n_chains=1, n_iter=8, random_state=0), shards, tmp_path / name)
        for name in ("one", "other")
    )
    assert same(one, other)


# ---------------------------------------------------------------- death


def test_a_task_done_twice_writes_the_same_bytes(tmp_path, shards, whole, monkeypatch):
    "By somebody else, who has but the job's file, and while its first result is already there."
    paths = []

    def twice(client, call, read, path, parts):
        paths.append(path)
        for part in parts:
            results = []
            for read_again in (read, read.__wrapped__):
                result = call(read_again(path), part)
                files = {name.name: name.read_bytes() for name in tmp_path.glob("*/z-*")}
                results.append(
                    (
                        (
                            np.concatenate([np.ravel(a) for a in result])
                            if isinstance(result, tuple)
                            else result
                        ),
                        files,
                    )
                )
            assert np.array_equal(results[0][0], results[1][0]) and results[0][1] == results[1][1]
            yield part, result

    monkeypatch.setattr(distributed, "on_client", twice)
    for module in (shards_module, begin_shards):
        monkeypatch.setattr(module, "on_engine", lambda client, *args: on_engine(None, *args))
    client = SimpleNamespace(map=None, nthreads=None)
    assert same(fit(HDP(**MODEL), shards, tmp_path / "run", client), whole)
    shutil.rmtree(tmp_path / "run")  # a worker may remember jobs: no two have the same name
    assert (
        same(fit(HDP(**MODEL), shards, tmp_path / "run", client), whole)
        and len(set(paths)) == len(paths) == 2 * 3 * MODEL["n_iter"]  # two fits, three jobs a sweep
    )
    tiny = MODEL | dict(eta=1e-6, init=3, gamma=20.0)  # topics whose gamma variates are all 0
    assert same(fit(HDP(**tiny), shards, tmp_path / "tiny", client), HDP(**tiny).fit(CORPUS))


def kill_in_the_middle(t, how_many):
    """From now on this process is killed when the topics of sweep t have been written `how_many`
    times.
    """
    write, left = distributed.write_shard_topics, [how_many]

    def deadly(corpus, place, sweep, i, z):
        write(corpus, place, sweep, i, z)
        left[0] -= sweep == t
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    distributed.write_shard_topics = deadly


def fit_and_die(corpus, run):
    kill_in_the_middle(3, 4)
    fit(HDP(**MODEL), corpus, run)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, where a process may fork")
def test_killed_and_resumed(tmp_path, shards, whole):
    "The whole process is killed within the third sweep."
    child = multiprocessing.get_context("fork").Process(
        target=fit_and_die, args=(shards, tmp_path / "run")
    )
    child.start()
    child.join(60)
    names = [path.name for path in (tmp_path / "run").iterdir()]
    assert (
        child.exitcode == -signal.SIGKILL
        and sum(name.startswith("z-000003") for name in names) == 4
        and "chain.npz" in names
    )
    assert int(load_npz(tmp_path / "run" / "chain.npz")["state/t"]) == 2
    assert same(fit(HDP(**MODEL), shards, tmp_path / "run"), whole)
    z = np.concatenate([topics_of(tmp_path / "run", shards, i) for i in range(shards.n_shards)])
    assert np.array_equal(np.bincount(z), whole.samples_[-1].n_vk.sum(axis=0))


def test_tasks_and_topics_of_tokens_elsewhere(tmp_path, shards, whole):
    "With an interruption; two fits in the same place; what is lost there, and other places."
    shared = f"memory://{tmp_path.name}/tasks"

    def stop(sweep, state):
        if sweep == 2:
            raise KeyboardInterrupt

    run, other = tmp_path / "run", tmp_path / "other"
    fit(HDP(**MODEL), shards, run, shared=shared, callback=stop)
    fit(HDP(**MODEL | {"random_state": 4}), shards, other, shared=shared)
    resumed = fit(HDP(**MODEL), shards, run)  # it finds the place by itself
    assert same(resumed, whole)
    z = np.concatenate([topics_of(run, shards, i) for i in range(shards.n_shards)])
    assert np.array_equal(np.bincount(z), whole.samples_[-1].n_vk.sum(axis=0))
    assert {path.name[:5] for path in run.iterdir()} == {"chain", "share", "lengt"}
    names = find_shared(run).names("")
    assert len(names) == 2 * shards.n_shards and find_shared(run) != find_shared(other)
    assert same(fit(HDP(**MODEL), shards, run, shared=shared), whole)
    with pytest.raises(
        ValueError, match="shared must be where the fit in .*run has begun, in memory:"
    ):
        fit(HDP(**MODEL), shards, run, shared=tmp_path / "elsewhere")
    fit(HDP(**MODEL), shards, tmp_path / "own")
    with pytest.raises(ValueError, match="shared must be where the fit in .*own has begun"):
        fit(HDP(**MODEL), shards, tmp_path / "own", shared=shared)
    last = sorted(names)[-1]
    find_shared(run).remove(last)
    with pytest.raises(
        ValueError, match=rf"run: the topics of shard .* are missing: memory:.*{last}"
    ):
        fit(HDP(**MODEL | {"n_iter": 7}), shards, run)
    (run / "shared.json").write_text("{")
    with pytest.raises(ValueError, match="shared.json: "):
        find_shared(run)


DEADLY = """
import sys
from hdp_nb.distributed import start as begin_shards
from hdp_nb.distributed import fit as distributed
from hdp_nb.distributed import engine
from hdp_nb.distributed import online as stream_shards
from hdp_nb.distributed import shards as shards_module
sys.path[:0] = {path!r}
from test_distributed import kill_in_the_middle
kill_in_the_middle(3, 2)
"""


def test_workers_one_of_which_is_killed(tmp_path, shards, whole):
    """Two processes; one is killed in the third sweep, after its second shard, and what it had
    done is done again.
    """
    dask = pytest.importorskip("distributed")
    with (
        dask.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        workers = client.run(os.getpid)
        client.run(exec, DEADLY.format(path=sys.path), {}, workers=[min(workers)])
        model = fit(HDP(**MODEL), shards, tmp_path / "run", client)
        assert same(model, whole)
        client.wait_for_workers(2, timeout=30)
        after = client.run(os.getpid)
        assert (
            workers[min(workers)] not in after.values() and workers[max(workers)] in after.values()
        )


@pytest.fixture(scope="module")
def two():
    "A client with two worker processes."
    pytest.importorskip("distributed")
    with engine.local_workers(2) as client:
        yield client


def test_ctrl_c_of_a_terminal_leaves_the_workers(two):
    "It goes to all processes; those that take the place of others ignore it, too."
    task = lambda job, part: job + part
    for again in (False, True):
        if again:
            two.restart()
        workers = two.run(os.getpid)
        for pid in workers.values():
            os.kill(pid, signal.SIGINT)
        assert dict(engine.on_engine(two, task, 1, range(5))) == {i: i + 1 for i in range(5)}
        assert two.run(os.getpid) == workers


def test_a_worker_that_has_just_died(two):
    os.kill(min(two.run(os.getpid).values()), signal.SIGKILL)
    for _ in range(3):
        engine.check_client(two)


def test_no_workers_left(monkeypatch):
    dask = pytest.importorskip("distributed")
    monkeypatch.setattr(engine, "PATIENCE", 0.5)
    with (
        dask.LocalCluster(n_workers=0, dashboard_address=None, silence_logs=50) as cluster,
        dask.Client(cluster) as client,
        pytest.raises(OSError, match=r"client: .* no workers for 0\.5 seconds.* goes on"),
    ):
        list(engine.on_engine(client, max, 1, [2, 3]))


def test_a_client_that_is_closed():
    "By any way to give out tasks, from the beginning or on the way."
    dask = pytest.importorskip("distributed")
    with dask.LocalCluster(
        n_workers=1, processes=False, dashboard_address=None, silence_logs=50
    ) as cluster:
        client = dask.Client(cluster)
        results = engine.on_engine(client, lambda job, part: time.sleep(part), None, [0, 2])
        next(results)
        client.close()
        for call in (
            lambda: next(results),
            lambda: list(engine.on_engine(client, max, 1, [2])),
            lambda: list(engine.on_client(client, max, int, 1, [2])),
            lambda: engine.sum_on_engine(client, max, int, 1, [2, 3]),
        ):
            with pytest.raises(OSError, match="client: the scheduler.* goes on from there"):
                call()
        with pytest.raises(OSError, match="client: the scheduler.* does not answer"):
            engine.check_client(client)


# ---------------------------------------------------------------- online inference

ONLINE = dict(n_topics=6, batch_size=20, n_passes=2, random_state=0)


def online_same(one, other):
    return all(np.array_equal(one.trace_[name], other.trace_[name]) for name in one.trace_) and all(
        np.array_equal(one.state_[name], other.state_[name]) for name in one.state_
    )


def test_online_moves_add_up(tmp_path, monkeypatch):
    "What is traced of a shard is the sum over its minibatches, for every kind of move."
    corpus, moves, calls = (
        write_shards(tmp_path / "corpus", iter(CORPUS), n_words=25, shard_tokens=2500),
        ("tried", "splits", "births", "merges", "deletes"),
        [],
    )

    def step(*args):
        state, info = online_step(*args)
        calls.append(1)
        return state, info | dict.fromkeys(moves, len(calls))

    online_step = stream_shards.online_step
    monkeypatch.setattr(stream_shards, "online_step", step)
    trace = fit(OnlineHDP(**ONLINE | {"n_passes": 1}), corpus, tmp_path / "run").trace_
    assert len(calls) > corpus.n_shards and all(
        trace[name].sum() == len(calls) * (len(calls) + 1) // 2 for name in moves
    )


def test_online(tmp_path, monkeypatch):
    """Shards in random order; the same by workers, and when it is stopped and resumed; as good as
    OnlineHDP.fit.
    """
    corpus = write_shards(tmp_path / "corpus", iter(CORPUS), n_words=25, shard_tokens=2500)
    model, seen = OnlineHDP(**ONLINE), []
    fit(model, corpus, tmp_path / "run", callback=lambda i, state: seen.append(int(state.seen)))
    assert (
        len(seen) == 2 * corpus.n_shards == len(model.trace_["n_topics"])
        and seen[-1] == 2 * 253
        and model.trace_["tried"].sum() > 10
    )
    share = np.bincount(CORPUS.x) / CORPUS.n_tokens
    alone = np.log(share[share > 0]) @ share[share > 0]  # one topic for all
    assert model.score(CORPUS) > max(
        alone + 0.5, OnlineHDP(**ONLINE).fit(CORPUS).score(CORPUS) - 0.1
    )  # 250 short documents: from seed to seed they differ by as much
    dask = pytest.importorskip("distributed")
    with dask.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None, silence_logs=50
    ) as client:

        def stop(i, state):
            if i == 2:
                raise KeyboardInterrupt

        fit(OnlineHDP(**ONLINE), corpus, tmp_path / "again", client, callback=stop)
        assert int(load_npz(tmp_path / "again" / "chain.npz")["state/base/seen"]) == seen[2]
        other = fit(OnlineHDP(**ONLINE), corpus, tmp_path / "again", client)
        assert online_same(model, other) and not [
            path for path in (tmp_path / "again").iterdir() if path.name.startswith("job")
        ]
    assert not online_same(
        model, fit(OnlineHDP(**ONLINE | {"random_state": 1}), corpus, tmp_path / "other")
    )
    assert model.transform(corpus.shard(0)).shape[1] == model.n_topics_ + 1


# ---------------------------------------------------------------- bad input


def test_bad_streams(tmp_path):
    for options, says in [
        (dict(docs=[["a", "b"]]), "vocab must be given"),
        (dict(docs=[["a", "z"]], vocab=["a", "b"]), "'z'"),
        (dict(docs=[]), "token"),
        (dict(docs=[[0, 9]], n_words=5), "n_words"),
        (dict(docs=[[0]], shard_tokens=0), "shard_tokens"),
        (dict(docs=[[]]), "token"),
        (dict(docs=[Corpus([0], [0, 1], ["a"]), Corpus([0], [0, 1], ["b"])]), "'b'"),
        (dict(docs=[Corpus([0], [0, 1], ["a"]), Corpus([0, 1], [0, 2], ["a", "b"])]), "words"),
    ]:
        with pytest.raises(ValueError, match=says):
            write_shards(tmp_path / says, **options)
        assert not (tmp_path / says / "index.npz").exists()
    write_shards(tmp_path / "c", [[0]])
    with pytest.raises(ValueError, match="folder"):
        write_shards(tmp_path / "c", [[1]])


def test_damaged_corpora(tmp_path, shards):
    """A folder without an index, a missing shard, one that is cut off, another one in its place, a
    foreign index.
    """
    folder = tmp_path / "corpus"
    with pytest.raises(ValueError, match="write_shards"):
        fit(HDP(**MODEL), tmp_path, tmp_path / "run")
    path, whole = folder / "shard-000004.npz", (folder / "shard-000004.npz").read_bytes()
    path.unlink()
    with pytest.raises(ValueError, match="shard 4 of 9 is missing.*shard-000004"):
        ShardedCorpus(folder)
    for content, says in [
        (whole[:-100], "shard-000004.npz: not a whole"),
        (
            (folder / "shard-000005.npz").read_bytes(),
            "shard-000004.npz: takes the shard that was written",
        ),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=says):
            fit(HDP(**MODEL), folder, tmp_path / "run")
    path.write_bytes(whole)
    fit(HDP(**MODEL), folder, tmp_path / "run")
    save_npz(folder / "index.npz", {"meta": np.array('{"format": "tea"}')})
    with pytest.raises(ValueError, match="index.npz.*'tea'"):
        ShardedCorpus(folder)


def test_foreign_runs(tmp_path, shards):
    """A checkpoint of another corpus or model; topics that are another corpus's, cut off, or
    missing.
    """
    fit(HDP(**MODEL | {"n_iter": 2}), shards, tmp_path / "run")
    other = write_shards(tmp_path / "other", iter(CORPUS), n_words=25, shard_tokens=5000)
    for model, corpus, says in [
        (HDP(**MODEL), other, "corpus"),
        (HDP(**MODEL | {"eta": 0.7}), shards, "eta"),
        (OnlineHDP(), shards, "sampler"),
    ]:
        with pytest.raises(ValueError, match=f"chain.npz.*{says}"):
            fit(model, corpus, tmp_path / "run")
    fit(HDP(**MODEL | {"n_iter": 2}), other, tmp_path / "foreign")
    path = tmp_path / "run" / "z-000002-000001.npz"
    whole = path.read_bytes()
    for content, says in [
        ((tmp_path / "foreign" / path.name).read_bytes(), "takes the topics of shard 1"),
        (whole[:100], "whole"),
        (None, "missing"),
    ]:
        path.unlink() if content is None else path.write_bytes(content)
        with pytest.raises(
            ValueError, match=f"{says}.*{path.name}" if content is None else f"{path.name}.*{says}"
        ):
            fit(HDP(**MODEL), shards, tmp_path / "run")
    path.write_bytes(whole)
    assert (
        fit(HDP(**MODEL), shards, tmp_path / "run").trace_["n_topics"].size == 6
    )  # nothing was spoilt


@pytest.mark.parametrize(
    "model, says",
    [
        (HDP(sampler="direct", n_chains=1), "model"),
        (LDA(), "model"),
        (HDP(sampler="parallel"), "model"),
        (HDP(sampler="parallel", n_chains=1, moves=Moves(split_merge=3)), "model"),
        (HDP(sampler="parallel", n_chains=1, init="sequential"), "init"),
        (HDP(sampler="parallel", n_iter=0, n_chains=1), "n_iter"),
        (HDP(sampler="parallel", n_chains=1, eta=-1), "eta"),
        (OnlineHDP(batch_size=0), "batch_size"),
    ],
)
def test_bad_models(tmp_path, shards, model, says):
    with pytest.raises(ValueError, match=says):
        fit(model, shards, tmp_path / "run")


def test_topics_to_begin_with_of_another_vocabulary(tmp_path, whole):
    with pytest.raises(ValueError, match="init.*7 words.*25"):
        fit(
            HDP(sampler="parallel", n_chains=1, init=whole.samples_[-1]),
            write_shards(tmp_path / "seven", [[6]]),
            tmp_path / "run",
        )


def test_clients(tmp_path, shards, monkeypatch):
    with pytest.raises(ValueError, match="client.*17"):
        fit(HDP(**MODEL), shards, tmp_path / "run", client=17)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install \"hdp_nb\[dask\]\""):
        fit(HDP(**MODEL), shards, tmp_path / "run", client="tcp://localhost:8786")


def test_what_shards_cannot_do_is_refused(tmp_path):
    pieces = write_shards(tmp_path / "shards", [make_bars(20, 10, random_state=0)[0]])
    model = HDP(sampler="parallel", n_chains=1, n_iter=3, init=3, moves=0, power=0.5)
    with pytest.raises(
        ValueError, match='power must be "auto" or 1 for a fit from shards, got 0.5'
    ):
        fit(model, pieces, tmp_path / "run")
    assert not (tmp_path / "run").exists()
