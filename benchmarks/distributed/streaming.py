"""Fifty million tokens from disk: seconds per sweep, memory, held-out score and topics found, by
the parallel sampler and by online inference.

    python -m benchmarks.distributed.streaming FOLDER [--model parallel|online] [--tokens 50e6]
        [--iter 40] [--jobs 1]

Writes a corpus in shards to FOLDER/corpus, unless it is there: documents of about 200 tokens drawn
from an HDP that is cut off at 100 topics, over
20,000 words. Then fits the model to it, one shard in memory at a time, with a checkpoint after
every sweep (of the parallel sampler) or shard (of online
inference): stopped or killed, the same command goes on where it was, and a larger --iter goes on
from where it ended. A line for every sweep or shard goes to
FOLDER/MODEL.csv as well; memory is the largest resident set of the process so far. The score is
document completion on 500 documents more, once for every fifth
line; the first line of output has that of the true topics. In the end everything goes to
benchmarks/results/streaming_MODEL.json, which nbs/14_distributed/01_fit.ipynb shows.
"""

import argparse
import csv
import resource
import time
from pathlib import Path

import numpy as np
from numba import njit

from benchmarks.common import cosines, machine, save
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.distributed.fit import fit
from hdp_nb.distributed.shards import ShardedCorpus, write_shards
from hdp_nb.evaluation.scores import document_completion
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.topics.counts import keep_counts

K, V, ALPHA, GAMMA, ETA, LENGTH, DOCS = 100, 20_000, 2.0, 25.0, 0.05, 200, 5000


@njit
def draw_documents(rng, lengths, beta, below, x):
    """Documents: proportions from Dir(alpha beta), then topics and words.

    `below` (K, V) are cumulative probabilities of words.
    """
    pi, i = np.empty(beta.size), 0
    for n in lengths:
        total = 0.0
        for k in range(beta.size):
            total += rng.standard_gamma(ALPHA * beta[k])
            pi[k] = total
        for _ in range(n):
            k = min(np.searchsorted(pi, rng.random() * total, side="right"), beta.size - 1)
            x[i] = min(np.searchsorted(below[k], rng.random(), side="right"), V - 1)
            i += 1


def truth():
    "Weights and topics."
    rng = np.random.default_rng(0)
    sticks = rng.beta(1.0, GAMMA, size=K)
    beta = sticks * np.append(1.0, np.cumprod(1.0 - sticks)[:-1])
    phi = rng.standard_gamma(ETA, size=(K, V))
    return beta / beta.sum(), phi / phi.sum(axis=1, keepdims=True)


def shards(n_tokens, seed):
    "Corpus after corpus."
    rng, (beta, phi) = np.random.default_rng(seed), truth()
    below = np.cumsum(phi, axis=1)
    while n_tokens > 0:
        lengths = rng.poisson(LENGTH, size=min(DOCS, -(-n_tokens // LENGTH)))
        x = np.empty(lengths.sum(), np.int32)
        draw_documents(rng, lengths, beta, below, x)
        yield Corpus(x, np.append(0, np.cumsum(lengths)), n_words=V)
        n_tokens -= len(x)


class Fixed(HDP):
    "A model with known topics, to predict with."

    def __init__(self, phi=None, weight=None):
        super().__init__()
        self.phi, self.weight = phi, weight
        self.n_features_in_, self.vocabulary_, self.samples_ = phi.shape[1], None, [None]

    def posterior_topics(self, X=None):
        phi = np.zeros((self.phi.shape[1], 4 * (len(self.weight) // 4 + 1)))
        phi[:, : len(self.weight)] = self.phi.T
        return iter([(phi, np.pad(self.weight, (0, phi.shape[1] - len(self.weight))))])


def counts_of(state):
    "What a sample keeps of a state without tokens."
    beta = np.append(state.m_k[: int(state.K)], state.gamma)
    return keep_counts(state, beta / beta.sum(), None)


def score(model, state, test):
    "Document completion by a state of the fit."
    if isinstance(model, OnlineHDP):
        shell = OnlineHDP()
        shell.state_ = {
            name: getattr(state, name) for name in ("lam", "beta", "alpha", "gamma", "eta")
        }
    else:
        shell = HDP()
        shell.samples_ = [counts_of(state)]
    shell.n_features_in_, shell.vocabulary_ = V, None
    return document_completion(shell, test, random_state=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", choices=["parallel", "online"], default="parallel")
    parser.add_argument("--tokens", type=float, default=50e6)
    parser.add_argument(
        "--iter", type=int, default=40, help="sweeps, or passes of online inference"
    )
    parser.add_argument("--jobs", type=int, default=1, help="threads")
    options = parser.parse_args()
    start = time.perf_counter()
    if not (options.folder / "corpus" / "index.npz").exists():
        write_shards(options.folder / "corpus", shards(int(options.tokens), 1), n_words=V)
    corpus = ShardedCorpus(options.folder / "corpus")
    [test] = shards(500 * LENGTH, 2)
    beta, phi = truth()
    found = {
        "machine": machine(),
        "tokens": corpus.n_tokens,
        "documents": corpus.n_docs,
        "words": V,
        "shards": corpus.n_shards,
        "mb_on_disk": sum(path.stat().st_size for path in corpus.folder.iterdir()) / 1e6,
        "truth": document_completion(Fixed(phi, ALPHA * beta), test, random_state=0),
    }
    print(
        f"{corpus}, {time.perf_counter() - start:.0f} s; score of the true topics"
        f" {found['truth']:.4f}",
        flush=True,
    )
    if options.model == "parallel":
        small = options.folder / "first-shard.npz"
        if not small.exists():
            HDP(sampler="direct", eta=ETA, n_iter=100, init=100, random_state=0).fit(
                corpus.shard(0)
            ).save(small)
        small = HDP.load(small)
        found["first_shard"] = document_completion(small, test, random_state=0)
        print(
            f"the first shard alone: {small.n_topics_} topics, score {found['first_shard']:.4f};"
            f" {time.perf_counter() - start:.0f} s so far",
            flush=True,
        )
        model = HDP(
            sampler="parallel",
            eta=ETA,
            n_iter=options.iter,
            burn_in=min(15, options.iter - 1),
            thin=5,
            n_jobs=options.jobs,
            init=small.samples_[-1],
            moves=0,
            random_state=0,
        )
    else:
        model = OnlineHDP(
            n_topics=20, batch_size=1000, n_passes=options.iter, n_jobs=options.jobs, random_state=0
        )
    clock = [time.process_time(), time.perf_counter()]

    def line(i, state):
        cpu, wall = time.process_time() - clock[0], time.perf_counter() - clock[1]
        topics = int(state.K) if options.model == "parallel" else len(state.beta) - 1
        last = i + 1 == (
            options.iter if options.model == "parallel" else options.iter * corpus.n_shards
        )
        row = {
            "n": i + 1,
            "cpu_s": round(cpu, 2),
            "wall_s": round(wall, 2),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "topics": topics,
            "alpha": round(float(state.alpha), 3),
            "gamma": round(float(state.gamma), 2),
            "score": round(score(model, state, test), 4) if i % 5 == 0 or last else "",
        }
        path = options.folder / f"{options.model}.csv"
        new = not path.exists()
        with open(path, "a", newline="") as f:
            out = csv.DictWriter(f, row)
            out.writeheader() if new else None
            out.writerow(row)
        print(" ".join(f"{name} {value}" for name, value in row.items()), flush=True)
        clock[:] = time.process_time(), time.perf_counter()

    fit(model, corpus, options.folder / options.model, callback=line)
    cosine = cosines(phi, model.components_)
    with open(options.folder / f"{options.model}.csv", newline="") as f:
        found["rows"] = [
            {name: float(value) for name, value in row.items() if value}
            for row in csv.DictReader(f)
        ]
    found |= {
        "average": document_completion(model, test, random_state=0),
        "topics": model.n_topics_,
        "heavy": int((model.topic_shares_ > 1e-4).sum()),
        "true_heavy": int((beta > 1e-4).sum()),
        "found": int((cosine.max(axis=1)[beta > 1e-4] > 0.9).sum()),
    }
    save(f"streaming_{options.model}", found)
    print(
        f"{found['topics']} topics, {found['heavy']} with more than 1 token in 10,000; of the"
        f" {found['true_heavy']} true ones as heavy as that {found['found']} are found (cosine"
        f" above 0.9); score with all that it predicts with {found['average']:.4f}"
    )


if __name__ == "__main__":
    main()
