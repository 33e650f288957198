"""What worker processes cost and bring: a sweep over a corpus in shards, and a start by anchor
words, by threads and by worker processes.

    python -m benchmarks.distributed.workers [--workers 1 2 4 8] [--shards 2 6] [--topics 100]
        [--sweeps 7] [--large 20]

Shards of a million tokens over 20,000 words, as streaming.py draws them; sweeps begin with the
topics of the first one, fitted alone. Workers are processes of a local dask cluster on this
machine, one thread each. For every way to sweep, from the same start (all draw the same numbers):
seconds by the clock, of them those in which documents are swept and scored (the tasks); CPU seconds
of this process and of the workers; bytes of the jobs that workers read, of the results that come
back, of the topics on disk. The quickest sweep of some, after one that compiles. Beside it the
quicker of two starts: as many topics by anchor words, of which the products of pairs of words and
the words' equations are tasks. Then the same for a longer corpus, and by one thread for a much
longer one.
Goes to benchmarks/results/workers.json, which nbs/14_distributed/01_fit.ipynb shows.
"""

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

from benchmarks.common import machine, save, table


def cpu(client):
    "CPU seconds so far: of this process, of the workers."
    return time.process_time(), sum(client.run(time.process_time).values()) if client else 0.0


def measure_start(corpus, n_topics, folder, client=None, threads=1):
    "Seconds by the clock, and CPU seconds here and of the workers, of a start by anchor words."
    from hdp_nb.distributed.start import ShardPairs
    from hdp_nb.topics.anchors import anchor_topics

    rows = []
    for _ in range(3):
        start, before = time.perf_counter(), cpu(client)
        pairs = ShardPairs(corpus, folder, client, threads)
        anchor_topics(pairs, n_topics, random_state=0)
        used = (b - a for a, b in zip(before, cpu(client)))
        rows.append((time.perf_counter() - start, *used))
    names = "start_wall", "start_cpu_here", "start_cpu_workers"
    return {name: round(value, 3) for name, value in zip(names, min(rows[1:]))}


def measure(corpus, counts, eta, folder, n, client=None, threads=1):
    "The quickest of n sweeps."
    import numpy as np

    from hdp_nb.distributed import fit as distributed

    spent, rows = {}, []

    class Timed(distributed.Phases):
        def __call__(self, kernel, blocks, *args):
            start = time.perf_counter()
            super().__call__(kernel, blocks, *args)
            spent[kernel.__name__] = time.perf_counter() - start

        def tasks(self, *args, **more):
            return self.weighed(super().tasks(*args, **more))

        def weighed(self, results):
            for i, result in results:
                spent["results"] += sum(
                    np.asarray(a).nbytes
                    for a in (result if isinstance(result, tuple) else [result])
                )
                yield i, result

    sampler = distributed.ShardSampler(
        corpus, folder, eta, init=counts, client=client, n_threads=threads
    )
    phases, distributed.Phases = distributed.Phases, Timed
    try:
        rng = np.random.default_rng(0)
        state = sampler.init(rng)
        for i in range(n + 1):
            spent.update(results=0)
            start, before = time.perf_counter(), cpu(client)
            state, info = sampler.sweep(rng, state)
            here, there = (b - a for a, b in zip(before, cpu(client)))
            rows.append(
                {
                    "wall": time.perf_counter() - start,
                    "documents": spent["sweep_documents"],
                    "score": spent["log_doc_blocks"] + spent["log_mixture_blocks"],
                    "cpu_here": here,
                    "cpu_workers": there,
                    "jobs_mb": (
                        sum(
                            path.stat().st_size
                            for path in [
                                *sampler.run.glob(f"job-{i:06d}-*sweep_shard*"),
                                *sampler.run.glob(f"job-{i + 1:06d}-*score_shard*"),
                            ]
                        )
                        / 1e6
                    ),
                    "results_mb": spent["results"] / 1e6,
                    "topics_mb": (
                        sum(path.stat().st_size for path in sampler.run.glob(f"z-{i + 1:06d}-*"))
                        / 1e6
                    ),
                    "K": info["n_topics"],
                }
            )
    finally:
        distributed.Phases = phases
    return {
        name: round(float(value), 4)
        for name, value in min(rows[1:], key=lambda row: row["wall"]).items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument(
        "--shards",
        type=int,
        nargs="+",
        default=[2, 6],
        help="sizes of the corpus, in shards of a million tokens",
    )
    parser.add_argument(
        "--topics", type=int, default=100, help="that the fit of the first shard begins with"
    )
    parser.add_argument("--sweeps", type=int, default=7)
    parser.add_argument(
        "--large", type=int, default=20, help="shards of a corpus for one thread and three sweeps"
    )
    args = parser.parse_args()
    from distributed import Client, LocalCluster

    from benchmarks.distributed.streaming import DOCS, ETA, LENGTH, V, shards
    from hdp_nb.distributed.shards import write_shards
    from hdp_nb.models.topic_models import HDP

    runs = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        corpora = [
            write_shards(
                folder / f"corpus-{n}", islice(shards((n + 1) * LENGTH * DOCS, 1), n), n_words=V
            )
            for n in (*args.shards, args.large)
        ]
        large = corpora.pop()
        counts = (
            HDP(sampler="direct", eta=ETA, n_iter=30, init=args.topics, random_state=0)
            .fit(corpora[0].shard(0))
            .samples_[-1]
        )

        def add(how, n, client=None, threads=1, corpora=corpora, sweeps=args.sweeps):
            for corpus in corpora:
                run = folder / f"{how}-{n}-{corpus.n_tokens}"
                found = measure(corpus, counts, ETA, run, sweeps, client, threads)
                found |= measure_start(corpus, args.topics, run, client, threads)
                runs.append(
                    {
                        "how": how,
                        "n": n,
                        "tokens": corpus.n_tokens,
                        "documents_in_all": corpus.n_docs,
                        "shards": corpus.n_shards,
                        **found,
                    }
                )

        add("threads", 1, corpora=[large], sweeps=3)
        for n in args.workers:
            add("threads", n, threads=n)
        for n in args.workers:
            with (
                LocalCluster(
                    n_workers=n, threads_per_worker=1, processes=True, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
            ):
                add("workers", n, client)
    save("workers", {"machine": machine(), "words": V, "runs": runs})
    table(list(runs[0]), [run.values() for run in runs])


if __name__ == "__main__":
    main()
