"""Processes that are killed at any moment, again and again: every fit goes on to the same bits."""

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter

import numpy as np
import pytest
from tiers import slow_unless

from hdp_nb.cli import main as cli
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed import fit as distributed
from hdp_nb.distributed.shards import ShardedCorpus, write_shards
from hdp_nb.models.grouped_mixtures import HDPMixture
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.nested_models import HNHDP
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.models.variational_models import OnlineHDP

BARS, _ = make_bars(120, 40, grid=4, random_state=0)
SIDES = np.where(np.arange(120) < 50, "early", "late")
CORPUS = Corpus(BARS.x, BARS.offsets, [f"w{v}" for v in range(16)], {"age": SIDES})
POINTS = np.random.default_rng(0).normal(size=(300, 2)) + np.arange(300)[:, None] % 3 * 4
SYMBOLS = np.random.default_rng(1).integers(0, 5, 400) + np.arange(400) // 100 % 2 * 3
TWICE = {"n_iter": 300, "n_chains": 2, "random_state": 3}


def shards_of(folder):
    "The same for all runs; the first, unbroken one writes them."
    shards = folder.parent.parent / "shards"
    if shards.exists():
        return ShardedCorpus(shards)
    return write_shards(shards, iter(CORPUS), n_words=16, shard_tokens=900)


def in_shards(model):
    return lambda file: distributed.fit(model, shards_of(file), file)


def command_line(file):
    "`hdp_nb fit` in the folder of the file; what it wrote."
    os.chdir(file.parent)
    CORPUS.save("corpus.npz")
    options = "--n-iter 300 --seed 1 --quiet --overwrite"
    assert cli.main(["fit", "corpus.npz", "--out", file.name, *options.split()]) == 0
    return {path.name: path.read_bytes() for path in sorted(file.iterdir())}


# What is fitted: a call that takes the path of its checkpoint, a file or a folder.
FITS = {
    **{
        name: lambda file, name=name: HDP(sampler=name, **TWICE).fit(CORPUS, checkpoint=file)
        for name in ("crf", "direct", "hybrid", "parallel", "blocked")
    },
    "LDA": lambda file: LDA(8, **TWICE).fit(CORPUS, checkpoint=file),
    "tree": lambda file: TreeHDP(["age"], **TWICE).fit(CORPUS, checkpoint=file),
    "nested": lambda file: HNHDP(n_clusters=4, **TWICE).fit(CORPUS, checkpoint=file),
    "mixture": lambda file: DPMixture(likelihood="normal", **TWICE).fit(POINTS, checkpoint=file),
    "mixture of groups": lambda file: HDPMixture(likelihood="normal", **TWICE).fit(
        POINTS, groups=np.arange(300) // 75, checkpoint=file
    ),
    **{
        f"states, {name}": lambda file, name=name: HDPHMM(sampler=name, **TWICE).fit(
            SYMBOLS, checkpoint=file
        )
        for name in ("direct", "beam", "weak_limit")
    },
    "shards": in_shards(
        HDP(sampler="parallel", init=8, n_iter=60, moves=0, n_chains=1, random_state=2)
    ),
    "shards, stream": in_shards(OnlineHDP(n_topics=6, batch_size=20, n_passes=30, random_state=0)),
    "command line": command_line,
}
KILLS = 14  # of each


def leaves(nest):
    "All arrays and bytes in a nest of fits, tuples, lists and dicts."
    if hasattr(nest, "fit"):
        names = "traces_", "trace_", "samples_", "state_", "components_", "labels_"
        nest = [getattr(nest, name, None) for name in names]
    if isinstance(nest, dict):
        nest = [*nest.items()]
    if not isinstance(nest, (tuple, list)):
        return [nest if isinstance(nest, bytes) else np.asarray(nest).tobytes()]
    return [leaf for part in nest for leaf in leaves(part)]


def kill(fit, file, wait):
    "Begin or continue the fit in another process, and kill that after so many seconds."
    child = multiprocessing.get_context("fork").Process(target=fit, args=(file,))
    child.start()
    child.join(wait)
    child.kill()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux, where a process may fork")
@pytest.mark.parametrize("name", slow_unless(lambda name: name == "shards", FITS))
def test_killed_again_and_again(tmp_path, monkeypatch, request, name):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    fit, rng, ended = FITS[name], np.random.default_rng(0), Counter()
    (tmp_path / "unbroken").mkdir()
    fit(tmp_path / "unbroken" / "run")  # compiles
    (tmp_path / "again").mkdir()
    began = time.monotonic()
    whole = leaves(fit(tmp_path / "again" / "run"))
    took, runs, found = time.monotonic() - began, 0, []
    n_kills = KILLS if request.config.getoption("--slow") else 3
    while ended[-signal.SIGKILL] < n_kills and sum(ended.values()) < 50 * n_kills:
        runs += 1
        (tmp_path / str(runs)).mkdir()
        file, code = tmp_path / str(runs) / "run", -signal.SIGKILL
        while ended[-signal.SIGKILL] < n_kills and code != 0:
            code = kill(fit, file, rng.uniform(0, 0.5 * took))
            ended[code] += 1
            found += file.parent.glob("run*")
        assert leaves(fit(file)) == whole
    assert ended[-signal.SIGKILL] == n_kills and found and len(set(whole)) > 5
