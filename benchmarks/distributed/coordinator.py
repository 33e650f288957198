"""What the coordinator of a fit to shards holds, by the number of documents.

    python -m benchmarks.distributed.coordinator [--documents 100000 1000000] [--sweeps 3]

Documents of ten tokens over 2,000 words, 20 topics to begin with, shards of half a million tokens
that one worker process of a dask cluster sweeps. Each size in a process of its own: bytes of the
corpus object, of the state and of the checkpoint, of the file of lengths that is mapped; and the
memory of the process that is its own (anonymous pages) before the corpus is opened, after it, and
after the sweeps, and its peak. Goes to benchmarks/results/coordinator.json, which
nbs/14_distributed/01_fit.ipynb shows, with what the numbers say of a hundred million documents.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.common import machine, save, table, this_script

V, LENGTH, TOPICS = 2000, 10, 20


def anonymous():
    "Megabytes of this process's own memory: not of files that are mapped."
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/smaps_rollup: no line Anonymous")


def documents(n):
    "Corpora of random documents, each a shard."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus

    rng, per_shard = np.random.default_rng(0), 50_000
    for first in range(0, n, per_shard):
        m = min(per_shard, n - first)
        topic = rng.integers(TOPICS, size=m).repeat(LENGTH)
        x = (topic * (V // TOPICS) + rng.integers(V // TOPICS, size=m * LENGTH)).astype(np.int32)
        yield Corpus(x, LENGTH * np.arange(m + 1), n_words=V)


def held(things):
    "Bytes of the arrays that objects hold, each array once."
    import numpy as np

    seen, todo = {}, list(things)
    while todo:
        thing = todo.pop()
        if isinstance(thing, np.ndarray):
            if not isinstance(thing.base, np.memmap):
                seen[id(thing)] = thing.nbytes
        elif isinstance(thing, (tuple, list)):
            todo += thing
        elif hasattr(thing, "__dict__"):
            todo += vars(thing).values()
    return sum(seen.values())


def measure(folder, sweeps):
    "One size, in this process."
    import numpy as np
    from distributed import Client, LocalCluster

    from hdp_nb.distributed.fit import ShardSampler
    from hdp_nb.distributed.shards import ShardedCorpus, write_shards
    from hdp_nb.mcmc.chain import run_chain

    write_shards(folder / "warm", documents(2000), n_words=V, format="parquet")
    options = {"threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(n_workers=1, **options) as cluster, Client(cluster) as client:

        def sweep(name, n):
            corpus = ShardedCorpus(folder / name)
            opened = anonymous()
            sampler = ShardSampler(corpus, folder / f"run-{name}", 0.5, init=TOPICS, client=client)
            start = time.process_time()
            chain = run_chain(
                sampler,
                np.random.default_rng(0),
                n,
                burn_in=n,
                checkpoint=folder / f"{name}.npz",
                checkpoint_every=1,
            )
            return corpus, chain.state, opened, time.process_time() - start

        sweep("warm", 1)  # kernels
        before, peak, done = anonymous(), [0.0], threading.Event()

        def watch():
            while not done.wait(0.02):
                peak[0] = max(peak[0], anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        corpus, state, opened, seconds = sweep("corpus", sweeps)
        done.set()
        watcher.join()
        lengths = [*(folder / "run-corpus").glob("lengths-*.npy")]
        mb = lambda size: round(size / 1e6, 3)
        return {
            "documents": corpus.n_docs,
            "tokens": corpus.n_tokens,
            "shards": corpus.n_shards,
            "corpus_mb": mb(held([corpus])),
            "state_mb": mb(held([state])),
            "checkpoint_mb": mb((folder / "corpus.npz").stat().st_size),
            "mapped_mb": mb(sum(path.stat().st_size for path in lengths)),
            "before_mb": round(before, 1),
            "opened_mb": round(opened, 1),
            "after_mb": round(anonymous(), 1),
            "peak_mb": round(peak[0], 1),
            "cpu_s": round(seconds, 2),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--sweeps", type=int, default=3)
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        print(json.dumps(measure(args.one, args.sweeps)))
        return
    from hdp_nb.distributed.shards import write_shards

    runs = []
    for n in args.documents:
        with tempfile.TemporaryDirectory() as folder:
            write_shards(Path(folder, "corpus"), documents(n), n_words=V, format="parquet")
            command = [
                sys.executable,
                *this_script(),
                "--one",
                folder,
                "--sweeps",
                str(args.sweeps),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    save("coordinator", {"machine": machine(), "words": V, "topics": TOPICS, "runs": runs})
    table(list(runs[0]), [run.values() for run in runs])


if __name__ == "__main__":
    main()
