"""Fits by worker processes: any number of them, one that is slow, a scheduler that is killed and
started again, shards that get lost. What comes out has the same bytes, or one line says what is
wrong and the next call of `fit` ends with the same bytes.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed.engine import connect, local_workers
from hdp_nb.distributed.fit import fit
from hdp_nb.distributed.shards import find_shared, write_shards
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.utils.files import load_npz

dask = pytest.importorskip("distributed")

pytestmark = pytest.mark.slow

CORPUS = Corpus.from_docs([[], *make_bars(n_docs=150, doc_len=30, grid=4, random_state=0)[0], [3]])
MODEL = dict(
    sampler="parallel",
    n_iter=6,
    burn_in=1,
    thin=2,
    init=20,
    eta=Gamma(1, 1),
    n_chains=1,
    moves=0,
    random_state=3,
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    return write_shards(folder / "corpus", iter(CORPUS), n_words=16, shard_tokens=400)


@pytest.fixture(scope="module")
def alone(corpus, tmp_path_factory):
    "What this process has written, by one thread."
    run = tmp_path_factory.mktemp("alone")
    fit(HDP(**MODEL), corpus, run)
    return contents(run)


def contents(run):
    "The topics of all tokens after the last sweep, byte by byte, and the checkpoint's arrays."
    arrays = load_npz(Path(run) / "chain.npz")
    last = f"z-{int(arrays['state/t']):06d}-*"
    return {path.name: path.read_bytes() for path in Path(run).glob(last)}, arrays


def same(one, other):
    files, arrays = zip(one, other)
    return (
        files[0] == files[1]
        and len(files[0]) > 10
        and set(arrays[0]) == set(arrays[1])
        and all(np.array_equal(arrays[0][name], arrays[1][name]) for name in arrays[0])
    )


def test_what_is_compared_differs_where_the_seed_does(corpus, alone, tmp_path):
    fit(HDP(**MODEL | {"random_state": 4}), corpus, tmp_path)
    assert not same(contents(tmp_path), alone)


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_any_number_of_workers(corpus, alone, tmp_path, n):
    with local_workers(n) as client:
        assert len(client.nthreads()) == n
        fit(HDP(**MODEL), corpus, tmp_path, client)
    assert same(contents(tmp_path), alone)


def test_moves_between_sweeps(corpus, alone, tmp_path):
    "By workers, two of which share the passes, as by this process."
    model = HDP(**MODEL | {"moves": 3})
    fitted = fit(clone(model), corpus, tmp_path / "here")
    want = contents(tmp_path / "here")
    with local_workers(2) as client:
        fit(clone(model), corpus, tmp_path / "there", client)
    assert same(contents(tmp_path / "there"), want)
    assert int(want[1]["state/t"]) > MODEL["n_iter"] and fitted.trace_["moves_accepted"].sum() > 0
    assert not same(want, alone)


DEADLY = """
import os
import signal
from hdp_nb.distributed import start as begin_shards

multiply, done = begin_shards.multiply_pairs, []


def once_more(*args):
    done.append(1)
    if len(done) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    multiply(*args)


begin_shards.multiply_pairs = once_more
"""


@pytest.mark.parametrize("n, deadly", [(1, False), (4, False), (2, True)])
def test_anchor_words(corpus, tmp_path, n, deadly):
    "By any number of workers, one of which may die while it multiplies, as by this process."
    begun = lambda run, **how: fit(HDP(**MODEL), corpus, tmp_path / run, n_anchors=8, **how)
    begun("here")
    with local_workers(n) as client:
        before = client.run(os.getpid)
        if deadly:
            client.run(exec, DEADLY, {}, workers=[min(before)])
        begun("there", client=client)
        client.wait_for_workers(n, timeout=60)
        assert (set(before.values()) == set(client.run(os.getpid).values())) == (not deadly)
    want, found = (load_npz(tmp_path / run / "anchors.npz") for run in ("here", "there"))
    assert want.keys() == found.keys() and all(np.array_equal(want[k], found[k]) for k in want)
    assert same(contents(tmp_path / "there"), contents(tmp_path / "here"))


@pytest.mark.parametrize(
    "model", [HDP(**MODEL), OnlineHDP(n_topics=3, random_state=0)], ids=["hdp", "online"]
)
def test_workers_without_a_folder_of_ours(tmp_path, like_s3, model):
    "Corpus, tasks and topics of tokens are in a bucket; the run's folder is the coordinator's own."
    options = {"n_words": 16, "shard_tokens": 400, "format": "parquet"}
    there, here = (
        write_shards(where, iter(CORPUS), **options) for where in ("s3://texts/c", tmp_path / "c")
    )
    want = fit(clone(model), here, tmp_path / "here")
    with local_workers(2) as client:
        fitted = fit(clone(model), there, tmp_path / "run", client, shared="s3://texts/tasks")
    assert np.array_equal(fitted.components_, want.components_)
    assert {path.name[:6] for path in (tmp_path / "run").iterdir()} <= {
        "chain.",
        "shared",
        "length",
    }
    place = find_shared(tmp_path / "run")
    assert re.fullmatch("s3://texts/tasks/run-[0-9a-f]{32}", place.path)
    if isinstance(model, HDP):
        files, arrays = contents(tmp_path / "here")
        remote = {name: place.read(name) for name in files}
        assert same((remote, load_npz(tmp_path / "run" / "chain.npz")), (files, arrays))


SLOW = """
import time
from hdp_nb.distributed import fit as distributed

write = distributed.write_shard_topics


def slowly(corpus, place, t, i, z):
    time.sleep(0.3)
    write(corpus, place, t, i, z)
    open(place.at(f"slow-{t}-{i}"), "w").close()


distributed.write_shard_topics = slowly
"""


def test_a_slow_worker(corpus, alone, tmp_path):
    with local_workers(2) as client:
        client.run(exec, SLOW, {}, workers=[min(client.nthreads())])
        fit(HDP(**MODEL), corpus, tmp_path, client)
    slow = len(list(tmp_path.glob("slow-*")))
    assert 0 < slow < MODEL["n_iter"] * corpus.n_shards  # it did some, the other one did more
    assert same(contents(tmp_path), alone)


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@contextmanager
def process(module, *arguments):
    "A process of dask's; it is killed in the end."
    command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--no-dashboard"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(command, **quiet)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def scheduler(port):
    return process("dask_scheduler", "--host", "127.0.0.1", "--port", str(port))


def worker(port, folder):
    where = f"tcp://127.0.0.1:{port}"
    local = "--local-directory", str(folder)
    return process("dask_worker", where, "--nthreads", "1", "--no-nanny", *local)


def connected(port, n=1):
    "A client of the scheduler, once it answers and has workers."
    for _ in range(60):
        try:
            client = connect(f"tcp://127.0.0.1:{port}")
            break
        except OSError:
            time.sleep(1)
    client.wait_for_workers(n, timeout=60)
    return client


def at_sweep(t, act):
    "A callback for `fit`."

    def callback(sweep, state):
        if sweep + 1 == t:
            act()

    return callback


def test_a_scheduler_that_is_killed(corpus, alone, tmp_path):
    """After the second sweep. Said in one line, and said again by a call with the same client; with
    another scheduler at the same address the call goes on.
    """
    port, run = free_port(), tmp_path / "run"
    where = f"tcp://127.0.0.1:{port}"
    with scheduler(port) as first, worker(port, tmp_path), connected(port) as client:

        def kill():
            first.kill()
            first.wait()

        with pytest.raises(OSError, match="client: .*scheduler") as said:
            fit(HDP(**MODEL), corpus, run, client, callback=at_sweep(2, kill))
        assert where in str(said.value) and "\n" not in str(said.value)
        with pytest.raises(OSError, match=f"client: .*scheduler.*{where}"):
            fit(HDP(**MODEL), corpus, run, client)
    assert int(load_npz(run / "chain.npz")["state/t"]) == 2
    with scheduler(port), worker(port, tmp_path), connected(port):
        fit(HDP(**MODEL), corpus, run, where)
    assert same(contents(run), alone)


@pytest.mark.parametrize("lost", ["shard", "topics"])
def test_a_file_that_is_lost_on_the_way(corpus, alone, tmp_path, lost):
    "Of the corpus, or of the run: named, and put back the call goes on."
    folder, run = tmp_path / "corpus", tmp_path / "run"
    shutil.copytree(corpus.folder, folder)
    path = folder / "shard-000002.npz" if lost == "shard" else run / "z-000002-000002.npz"
    away = tmp_path / "away"

    def lose():
        os.replace(path, away)

    with local_workers(2) as client:
        with pytest.raises((ValueError, OSError), match=re.escape(path.name)) as said:
            fit(HDP(**MODEL), folder, run, client, callback=at_sweep(2, lose))
        assert "\n" not in str(said.value)
        os.replace(away, path)
        fit(HDP(**MODEL), folder, run, client)
    assert same(contents(run), alone)
