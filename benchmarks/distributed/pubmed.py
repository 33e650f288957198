"""A tenth of PubMed's shape with planted topics: how many are found, and how well is predicted?

    python -m benchmarks.distributed.pubmed FOLDER [--size middle|tenth] [--start anchors|truth]
        [--topics 600] [--iter 40]
    python -m benchmarks.distributed.pubmed FOLDER --cost 100 1000 10000

Documents of about 94 tokens of 500 planted topics whose frequencies are 1/rank, over 90,000 words:
a topic is drawn from Dirichlet(0.01), the value of the published runs of PubMed (Terenin et al.
2020), the proportions of a document from a Dirichlet process with concentration 2. FOLDER/corpus
gets the corpus, 77 million tokens in ten shards; --size middle takes 5.6 million of the first one.
Sweeps of the sampler on shards begin with `anchor_topics` of the corpus, or with the truth. What
there is in FOLDER is gone on with: stopped or killed, the same command goes on where it was, and a
larger --iter goes on from where it ended.

A topic is found if one of the sample has a cosine above 0.9 with it. Counts of the true topics'
tokens have such a cosine only if they are many, so the same is counted for them: what can be found
at all. The score is document completion on 2,000 documents more, by a single state or by the true
topics. With --cost: CPU seconds of the parts of a sweep over 5.6 million tokens by the number of
topics, the planted ones merged or cut in equal pieces; where there would be more than 100 million
pairs of a word and a topic, ten words are taken for one. Everything goes to
benchmarks/results/pubmed.json, which nbs/14_distributed/01_fit.ipynb shows.
"""

import argparse
import json
import resource
import shutil
import time
from pathlib import Path

import numpy as np
from numba import njit
from scipy.sparse import csc_array, csr_array

from benchmarks.common import machine, save, saved
from benchmarks.distributed.streaming import Fixed, counts_of
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.distributed import fit as distributed
from hdp_nb.distributed.shards import ShardedCorpus, write_shards
from hdp_nb.evaluation.scores import document_completion
from hdp_nb.models.topic_models import HDP
from hdp_nb.topics.anchors import anchor_topics
from hdp_nb.topics.counts import TopicCounts

K, V, ALPHA, ETA, LENGTH, DOCS, SHARDS = 500, 90_000, 2.0, 0.01, 94, 82_000, 10
MIDDLE = 60_000  # documents
FRONT = 4096  # of the most probable words of a topic, among which nearly all tokens are


@njit
def draw_documents(rng, lengths, beta, word, below, x):
    """Documents: topics from an urn, which integrates the proportions out, then words.

    `beta` (K,) are cumulated weights, `word` (K, V) the words of every topic, the most probable
    first, and `below` (K, V) their probabilities, cumulated.
    """
    n_topics, n_words = below.shape
    z, i = np.empty(lengths.max(), np.int64), 0
    for n in lengths:
        for l in range(n):
            if rng.random() * (ALPHA + l) < ALPHA:
                u = rng.random() * beta[n_topics - 1]
                k = min(np.searchsorted(beta, u, side="right"), n_topics - 1)
            else:
                k = z[int(rng.random() * l)]
            z[l] = k
            u = rng.random() * below[k, n_words - 1]
            front = below[k, : min(FRONT, n_words)]
            r = np.searchsorted(front, u, side="right")
            if r == front.size:
                r = min(np.searchsorted(below[k], u, side="right"), n_words - 1)
            x[i] = word[k, r]
            i += 1


def truth():
    "Weights and topics."
    phi = np.random.default_rng(0).standard_gamma(ETA, size=(K, V))
    beta = 1.0 / np.arange(1, K + 1)
    return beta / beta.sum(), phi / phi.sum(axis=1, keepdims=True)


def documents(beta, phi, n_docs, seed):
    "Corpora, each a shard."
    rng = np.random.default_rng(seed)
    word = np.argsort(-phi, axis=1).astype(np.int32)
    below = np.cumsum(np.take_along_axis(phi, word, axis=1), axis=1)
    for first in range(0, n_docs, DOCS):
        lengths = np.maximum(rng.poisson(LENGTH, size=min(DOCS, n_docs - first)), 1)
        x = np.empty(lengths.sum(), np.int32)
        draw_documents(rng, lengths, np.cumsum(beta), word, below, x)
        yield Corpus(x, np.append(0, np.cumsum(lengths)), n_words=V)


def units(phi):
    "Topics of length 1, float32."
    return (phi / np.maximum(np.linalg.norm(phi, axis=1, keepdims=True), 1e-300)).astype(np.float32)


def found(true, n_vk):
    "How many true topics have a cosine above 0.9, 0.8, 0.5 with a topic of some counts."
    size = np.sqrt((n_vk.astype(np.float32) ** 2).sum(axis=0))
    cosines = (true @ n_vk.astype(np.float32)) / np.maximum(size, 1e-30)
    return {f"{least}": int((cosines.max(axis=1) > least).sum()) for least in (0.9, 0.8, 0.5)}


def most_found(beta, phi, n_tokens, test):
    "What the counts of the true topics' own tokens would show, so many tokens in all."
    counts = true_counts(beta, phi, n_tokens)
    n_vk = counts.n_vk.toarray()
    return {
        "tokens": int(n_tokens),
        "smallest": int(n_vk.sum(axis=0).min()),
        "found": found(units(phi), n_vk),
        "score": score(counts, test),
    }


def score(counts, test):
    "Document completion by one sample."
    shell = HDP()
    shell.samples_, shell.n_features_in_, shell.vocabulary_ = [counts], V, None
    return document_completion(shell, test, random_state=0)


def true_counts(beta, phi, n_tokens):
    "The true topics, as if so many tokens had been seen of them."
    n_vk = csr_array(np.random.default_rng(6).poisson(n_tokens * beta * phi.T).astype(np.int32))
    return kept(n_vk, beta)


def kept(n_vk, beta):
    "Counts and weights as a sample."
    return TopicCounts(
        n_vk.data,
        n_vk.indices,
        n_vk.indptr,
        np.append(beta, 1e-4) / (1 + 1e-4),
        np.array(ALPHA),
        np.array(1.0),
        np.array(ETA),
    )


def pieces(beta, phi, n_topics):
    "The planted topics merged by their neighbours in rank, or cut in equal pieces."
    if n_topics < K:
        groups = np.arange(K) * n_topics // K
        weight = np.bincount(groups, beta)
        merged = np.zeros((n_topics, phi.shape[1]))
        np.add.at(merged, groups, beta[:, None] * phi)
        return weight, merged / weight[:, None]
    return np.repeat(beta, n_topics // K) / (n_topics // K), phi


def cost(corpus, beta, phi, n_topics, folder):
    "CPU seconds of the parts of a sweep, the second one."
    weight, phi = pieces(beta, phi, n_topics)
    rng, n_words, each = np.random.default_rng(7), phi.shape[1], len(weight) // len(phi)
    columns = [
        rng.poisson(corpus.n_tokens * weight[k] * phi[k // each]).astype(np.int32)
        for k in range(n_topics)
    ]
    indices = [np.flatnonzero(n) for n in columns]
    n_vk = csc_array(
        (
            np.concatenate([n[i] for n, i in zip(columns, indices)]),
            np.concatenate(indices),
            np.append(0, np.cumsum([len(i) for i in indices])),
        ),
        shape=(n_words, n_topics),
    ).tocsr()
    del columns, indices
    spent = {}

    class Timed(distributed.Phases):
        def __call__(self, kernel, blocks, *args):
            start = time.process_time()
            super().__call__(kernel, blocks, *args)
            spent[kernel.__name__] = time.process_time() - start

    phases, distributed.Phases = distributed.Phases, Timed
    try:
        sampler = distributed.ShardSampler(
            corpus, folder, ETA, ALPHA, 1.0, (1, 1), (1, 1), kept(n_vk, weight)
        )
        state, rng = sampler.init(rng), np.random.default_rng(0)
        for _ in range(2):
            start = time.process_time()
            state, info = sampler.sweep(rng, state)
            total = time.process_time() - start
    finally:
        distributed.Phases = phases
    words = spent["sample_topics"] + spent["add_up_words"]
    scores = spent["log_doc_blocks"] + spent["log_mixture_blocks"]
    return {
        "topics": n_topics,
        "words": n_words,
        "K": info["n_topics"],
        "tokens": corpus.n_tokens,
        "documents_ns": round(1e9 * spent["sweep_documents"] / corpus.n_tokens, 1),
        "scores_ns": round(1e9 * scores / corpus.n_tokens, 1),
        "words_s": round(words, 2),
        "words_ns": round(1e9 * words / (n_words * n_topics), 1),
        "sweep_s": round(total, 2),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def costs(options, middle, beta, phi):
    "One row for every number of topics."
    rows = []
    few = phi.reshape(K, -1, 10).sum(axis=2)
    for n in options.cost:
        for n_words in (V, V // 10):
            if n * n_words > 1e8:
                continue
            corpus, folder = middle, options.folder / f"cost-{n}-{n_words}"
            if n_words < V:
                one = middle.shard(0)
                one = Corpus(one.x // 10, one.offsets, n_words=n_words)
                corpus = write_shards(folder / "corpus", [one], n_words=n_words)
            rows.append(cost(corpus, beta, phi if n_words == V else few, n, folder / "run"))
            print(json.dumps(rows[-1]), flush=True)
            save("pubmed", saved("pubmed") | {"cost": rows, "cost_machine": machine()})
            shutil.rmtree(folder)


def keep(name, run):
    "Write one run, with what is there of others."
    results = saved("pubmed")
    save("pubmed", results | {"runs": results.get("runs", {}) | {name: run}})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", choices=["middle", "tenth"], default="tenth")
    parser.add_argument("--start", choices=["anchors", "truth"], default="anchors")
    parser.add_argument("--topics", type=int, default=600, help="anchors to begin with")
    parser.add_argument("--iter", type=int, default=40, help="sweeps")
    parser.add_argument("--cost", type=int, nargs="+", help="topics whose cost to measure instead")
    options = parser.parse_args()
    beta, phi = truth()
    if not (options.folder / "corpus").exists():
        write_shards(
            options.folder / "corpus",
            documents(beta, phi, SHARDS * DOCS, 1),
            n_words=V,
            format="parquet",
        )
    corpus = ShardedCorpus(options.folder / "corpus")
    if options.size == "middle" or options.cost:
        if not (options.folder / "middle").exists():
            write_shards(
                options.folder / "middle", [corpus.shard(0)[:MIDDLE]], n_words=V, format="parquet"
            )
        corpus = ShardedCorpus(options.folder / "middle")
    if options.cost:
        costs(options, corpus, beta, phi)
        return
    [test] = documents(beta, phi, 2000, 2)
    true, name = units(phi), f"{options.size}-{options.start}"
    results = saved("pubmed")
    if "most" not in results:
        results |= {"machine": machine(), "topics": K, "words": V}
        sizes = (1e6, 5_639_864, 2e7, 77_073_819)
        results["most"] = [most_found(beta, phi, n, test) for n in sizes]
        results["truth"] = document_completion(Fixed(phi, ALPHA * beta), test, random_state=0)
        save("pubmed", results)
    print(f"{corpus}; score of the true topics {results['truth']:.4f}", flush=True)
    begun = options.folder / f"{name}.npz"
    run = results.get("runs", {}).get(name, {"tokens": corpus.n_tokens, "rows": []})
    if not begun.exists():
        before = time.process_time()
        if options.start == "anchors":
            start = anchor_topics(corpus, options.topics, random_state=0)
        else:
            start = true_counts(beta, phi, corpus.n_tokens)
        run["start"] = {
            "cpu_s": round(time.process_time() - before, 1),
            "topics": start.beta.size - 1,
            "found": found(true, start.n_vk.toarray()),
            "score": score(start._replace(eta=np.array(ETA)), test),
        }
        print(run["start"], flush=True)
        np.savez(begun, **start._asdict())
        keep(name, run)
    with np.load(begun) as arrays:
        start = TopicCounts(**arrays)
    clock = [time.process_time(), time.perf_counter()]

    def line(i, state):
        row = {
            "n": i + 1,
            "cpu_s": round(time.process_time() - clock[0], 2),
            "wall_s": round(time.perf_counter() - clock[1], 2),
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            "topics": int(state.K),
            "heavy": int((state.n_k > 1e-4 * state.n_k.sum()).sum()),
            "alpha": round(float(state.alpha), 3),
            "gamma": round(float(state.gamma), 2),
            "eta": round(float(state.eta), 5),
        }
        if i % 5 == 4 or i in (0, 1, 2, options.iter - 1):
            counts = counts_of(state)
            row |= {"found": found(true, state.n_vk[:, : int(state.K)])}
            row |= {"score": round(score(counts, test), 5)}
        run["rows"] = [old for old in run["rows"] if old["n"] <= i] + [row]
        keep(name, run)
        print(json.dumps(row), flush=True)
        clock[:] = time.process_time(), time.perf_counter()

    model = HDP(
        sampler="parallel",
        n_chains=1,
        n_iter=options.iter,
        thin=5,
        n_jobs=1,
        init=start,
        moves=0,
        random_state=0,
    )
    distributed.fit(model, corpus, options.folder / name, callback=line)
    run["average"] = document_completion(model, test, random_state=0)
    run["samples"] = len(model.samples_)
    keep(name, run)
    print(f"score with all {run['samples']} samples that are kept {run['average']:.4f}")


if __name__ == "__main__":
    main()
