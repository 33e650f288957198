"""Topics found over shards, with moves between the sweeps and without, in the same CPU time.

    python -m benchmarks.distributed.shard_moves [--seconds 60] [--groups 16]
        [--begin 1 sample many]

Two million tokens of 95 planted topics whose frequencies are 1/rank, over 5,000 words, in ten
shards; one thread. Chains begin with one topic at random; with the topics of a fit to a sample of
200,000 tokens, as `hdp_nb.distributed.fit.fit` does by default with a larger one; or with 190 at
random. Every ten sweeps: how many of the planted topics have one at a cosine above 0.9, how many
topics have a thousandth of the tokens, the log joint density for a token, and CPU seconds of sweeps
and of moves. Goes to benchmarks/results/shard_moves.json, which the notebook
14_distributed/06_start shows; what is there already is not computed again.
"""

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.common import bars_found, machine, save, saved

V, TOPICS, DOCS, LENGTH, SAMPLE = 5000, 95, 20_000, 100, 200_000


def plant():
    "The topics, and documents in shards."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus

    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.full(V, 0.05), TOPICS)
    weight = 1 / np.arange(1, TOPICS + 1)
    below, shards = phi.cumsum(axis=1), []
    for _ in range(10):
        theta = rng.dirichlet(2 * weight / weight.sum(), DOCS // 10)
        n = np.array([rng.multinomial(LENGTH, p / p.sum()) for p in theta])
        z = np.repeat(np.tile(np.arange(TOPICS), len(n)), n.ravel())
        x, u = np.empty(z.size, np.int32), rng.random(z.size) * (1 - 1e-12)
        for k in range(TOPICS):
            x[z == k] = np.searchsorted(below[k], u[z == k] * below[k, -1], side="right")
        shards.append(Corpus(x, LENGTH * np.arange(len(n) + 1), n_words=V))
    return phi, shards


def begin(name, corpus):
    "What a chain begins with, and CPU seconds that it took."
    import numpy as np

    from hdp_nb.models.topic_models import HDP

    if name != "sample":
        return (1 if name == "1" else 190), 0.0
    before = time.process_time()
    drawn = corpus.sample(np.random.default_rng(0), SAMPLE)
    small = HDP(sampler="parallel", n_chains=1, n_iter=100, init=20, random_state=0).fit(drawn)
    return small.samples_[-1], time.process_time() - before


def chain(corpus, phi, first, groups, seconds, moved):
    "Rows of a chain; moved[0] is raised by the CPU seconds of moves."
    import numpy as np

    from hdp_nb.distributed.fit import ShardSampler

    options = {"eta_prior": (1, 1), "moves": groups}
    with tempfile.TemporaryDirectory() as folder:
        sampler = ShardSampler(corpus, folder, 0.1, init=first, **options)
        rng, rows, n, tally = np.random.default_rng(1), [], 0, np.zeros(2, int)
        state, moved[0], spent = sampler.init(rng), 0.0, 0.0
        while spent < seconds:
            before = time.process_time()
            state, info = sampler.sweep(rng, state)
            spent += time.process_time() - before
            n += 1
            if groups:
                tally += int(info["moves_proposed"]), int(info["moves_accepted"])
            if n % 10 == 0 or spent >= seconds:
                counts = state.base.n_vk[:, : int(state.base.K)].astype(float)
                share = counts.sum(axis=0) / corpus.n_tokens
                row = {
                    "sweep": n,
                    "cpu_s": round(spent, 2),
                    "moves_s": round(moved[0], 2),
                    "found": int(bars_found(counts, phi)),
                    "topics": int((share > 0.001).sum()),
                    "log_joint": round(float(info["log_joint"]) / corpus.n_tokens, 4),
                    "proposed": int(tally[0]),
                    "accepted": int(tally[1]),
                }
                print(groups, row, flush=True)
                rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--begin", nargs="+", default=["1", "sample", "many"])
    args = parser.parse_args()

    from hdp_nb.distributed import fit as distributed
    from hdp_nb.distributed.shards import write_shards

    moved, move = [0.0], distributed.move_shards

    def timed(*arguments):
        before = time.process_time()
        done = move(*arguments)
        moved[0] += time.process_time() - before
        return done

    distributed.move_shards = timed
    found = {"runs": {}, **saved("shard_moves")}
    with tempfile.TemporaryDirectory() as folder:
        phi, shards = plant()
        corpus = write_shards(Path(folder) / "corpus", shards)
        small = write_shards(Path(folder) / "small", [shards[0][:200]])
        for groups in (0, args.groups):  # compiles what is timed
            chain(small, phi, 3, groups, 1.0, moved)
        for name in args.begin:
            wanted = [n for n in (0, args.groups) if f"{name}-{n}" not in found["runs"]]
            first, start = begin(name, corpus) if wanted else (None, 0.0)
            for groups in wanted:
                key = f"{name}-{groups}"
                rows = chain(corpus, phi, first, groups, args.seconds, moved)
                found["runs"][key] = {"start_s": round(start, 1), "rows": rows}
                found |= {
                    "tokens": corpus.n_tokens,
                    "planted": TOPICS,
                    "seconds": args.seconds,
                    "machine": machine(),
                }
                save("shard_moves", found)


if __name__ == "__main__":
    main()
