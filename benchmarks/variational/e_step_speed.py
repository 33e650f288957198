"""How fast documents pass through a variational E-step, on one core: this package, scikit-learn's
LDA, and gensim's if it is installed.

    python -m benchmarks.variational.e_step_speed [--quick]

A thousand passages of the State of the Union addresses (127 tokens, 103 distinct words each) and
the same topics for all, from one online pass. CPU time of E-step and statistics,
with everything that belongs to them. Once at 20 iterations in every document, no more and no less;
once as each is used, with its own rule for when a document
has settled. They take turns, so that a machine whose speed drifts slows all of them. Then the parts
of ours, at 20 iterations: topics, E-step, statistics; and of the E-step the passes over words and
topics, and exp(digamma), which are timed by themselves. At the end two threads against one, in wall
time. Results go to results/e_step.json, unless --quick.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core for all

import argparse
import platform
import statistics
import time

import numba
import numpy as np
import sklearn
from numba import njit
from sklearn.decomposition import LatentDirichletAllocation

from benchmarks.common import machine, save, table
from hdp_nb.corpora.readers import load_corpus
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.variational.e_step import (
    EStepRules,
    _pass_words,
    aligned,
    distinct_words,
    e_step,
    exp_digamma,
    make_batch,
    topic_factors,
    topic_statistics,
)

try:
    import gensim
    from gensim.models import LdaModel
except ImportError:
    gensim = None

FIXED = 20


class Ours:
    name = "hdp_nb"

    def __init__(self, corpus, lam, fixed):
        self.batch, self.lam, self.weight = (
            make_batch(distinct_words(corpus), corpus.n_words),
            lam,
            np.full(lam.shape[1], 1 / lam.shape[1]),
        )
        self.rules = EStepRules(0.0, FIXED, 0.0) if fixed else EStepRules()

    def run(self, n_jobs=None):
        E = topic_factors(self.lam, self.batch, n_jobs)
        found = e_step(self.batch, E, self.weight, 1.0 + 1e-9, rules=self.rules, n_jobs=n_jobs)
        topic_statistics(self.batch, E, found, self.lam.shape[1], n_jobs)
        return found.n_iter.mean()


class ScikitLearn:
    name = f"scikit-learn {sklearn.__version__}"

    def __init__(self, corpus, lam, fixed):
        K = lam.shape[1]
        options = dict(max_doc_update_iter=FIXED, mean_change_tol=0.0) if fixed else {}
        self.model, self.X, self.lam = (
            LatentDirichletAllocation(K, doc_topic_prior=1 / K, **options),
            corpus.to_matrix().astype(float).tocsr(),
            lam,
        )
        self.model._init_latent_vars(corpus.n_words)
        self.model.components_ = np.ascontiguousarray(lam.T)

    def run(self):
        from sklearn.decomposition._online_lda_fast import _dirichlet_expectation_2d

        self.model.exp_dirichlet_component_ = np.exp(
            _dirichlet_expectation_2d(self.model.components_)
        )
        self.model._e_step(self.X, cal_sstats=True, random_init=False)
        return float("nan")


class Gensim:
    name = f"gensim {gensim.__version__}" if gensim else ""

    def __init__(self, corpus, lam, fixed):
        K = lam.shape[1]
        options = dict(iterations=FIXED, gamma_threshold=0.0) if fixed else {}
        self.bow = [
            [(int(v), int(n)) for v, n in zip(*np.unique(doc, return_counts=True))]
            for doc in corpus
        ]
        self.model = LdaModel(
            id2word={v: str(v) for v in range(corpus.n_words)},
            num_topics=K,
            alpha=[1 / K] * K,
            eta=0.5,
            **options,
        )
        self.model.state.sstats = np.ascontiguousarray(lam.T - 0.5).astype(self.model.dtype)

    def run(self):
        self.model.sync_state()
        self.model.inference(self.bow, collect_sstats=True)
        return float("nan")


def measure(runners, n):
    for runner in runners:
        runner.run()
    seconds = {runner: [] for runner in runners}
    for _ in range(n):
        for runner in runners:
            start = time.process_time()
            runner.run()
            seconds[runner].append(time.process_time() - start)
    return [statistics.median(seconds[runner]) for runner in runners]


@njit
def only_passes(E, rows, counts, offsets, e, t, norm):
    "The passes over words and topics of FIXED iterations in all documents, and nothing else."
    for j in range(len(offsets) - 1):
        a = offsets[j]
        b = a + (offsets[j + 1] - a + 7) // 8 * 8  # whole eights, the last with words of the next
        for _ in range(FIXED):
            _pass_words(E, rows[a:b], counts[a:b], e, t, norm[a:b])


@njit
def only_digamma(n_docs, w, e):
    "exp(digamma) of all topics, as often as these iterations need it."
    for _ in range(n_docs * FIXED):
        for k in range(len(w)):
            e[k] = max(exp_digamma(w[k] + 1e-9 * e[k]), 1e-100)


def parts(ours, n):
    "CPU seconds of the parts of one run at FIXED iterations, the least of n."
    batch, K = ours.batch, ours.lam.shape[1]
    E = topic_factors(ours.lam, batch)
    again = lambda: e_step(batch, E, ours.weight, 1.0 + 1e-9, rules=ours.rules)
    found = again()
    e, t = aligned(2, E.shape[1])
    e[:] = 1.0
    docs, w = batch.docs, np.full(E.shape[1], 1 / K)
    rows, counts = np.pad(batch.rows, (0, 7)), np.pad(docs.counts, (0, 7))
    norm = np.empty(len(rows))
    runs = {
        "topics": lambda: topic_factors(ours.lam, batch),
        "E-step": again,
        "statistics": lambda: topic_statistics(batch, E, found, K),
        "passes": lambda: only_passes(E, rows, counts, docs.offsets, e, t, norm),
        "exp(digamma)": lambda: only_digamma(len(docs.lengths), w, e.copy()),
    }
    seconds = {}
    for name, run in runs.items():
        run()
        times = []
        for _ in range(n):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
        seconds[name] = min(times)
    # Each number of a document's rows of E is multiplied and added twice in a pass.
    numbers = len(batch.rows) * E.shape[1] * FIXED
    rates = {
        "Gflop/s": 4e-9 * numbers / seconds["passes"],
        "GB/s": 8e-9 * numbers / seconds["passes"],
        "KB a document": 8e-3 * len(batch.rows) / len(docs.lengths) * E.shape[1],
    }
    return {"seconds": seconds, **rates}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer documents, one repetition")
    quick = parser.parse_args().quick
    every, n = load_corpus("sotu"), 1 if quick else 5
    corpus = every[:: 28 if quick else 6]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy"
        f" {np.__version__}, numba {numba.__version__}; {corpus.n_docs} documents, median of {n}\n"
    )
    print(
        "| K | iterations | program | documents per second | tokens per second | hdp_nb is faster"
        " by |\n|---|---|---|---|---|---|"
    )
    rows, pieces = [], {}
    for K in (20, 100, 300):
        lam = (
            OnlineHDP(n_topics=K, split_merge=False, batch_size=500, n_passes=1, random_state=0)
            .fit(every)
            .state_["lam"]
        )
        for fixed in (True, False):
            runners = [
                make(corpus, lam, fixed)
                for make in (Ours, ScikitLearn, Gensim)
                if make is not Gensim or gensim
            ]
            times = measure(runners, n)
            for runner, t in zip(runners, times):
                rule = FIXED if fixed else "own rule"
                speeds = f"{corpus.n_docs / t:,.0f} | {corpus.n_tokens / t:,.0f}"
                print(
                    f"| {K} | {rule} | {runner.name} | {speeds} | {t / times[0]:.1f} |", flush=True
                )
                rows.append(
                    {
                        "topics": K,
                        "iterations": rule,
                        "program": runner.name,
                        "documents per second": corpus.n_docs / t,
                        "hdp_nb is faster by": t / times[0],
                    }
                )
        pieces[K] = parts(Ours(corpus, lam, True), n)
    if not quick:
        about = {"documents": corpus.n_docs, "tokens": corpus.n_tokens}
        save("e_step", {"machine": machine(), **about, "rows": rows, "parts": pieces})
    print()
    table(
        ["K", *pieces[100]["seconds"], *list(pieces[100])[1:]],
        [
            [K, *(f"{s:.4f}" for s in p["seconds"].values()), *(f"{p[r]:.0f}" for r in list(p)[1:])]
            for K, p in pieces.items()
        ],
    )
    ours = Ours(corpus, lam, True)
    wall = {}
    for n_jobs in (1, 2) * n:
        start = time.perf_counter()
        ours.run(n_jobs)
        wall.setdefault(n_jobs, []).append(time.perf_counter() - start)
    print(
        f"\ntwo threads against one, wall time, K = {K}: {min(wall[1]) / min(wall[2]):.2f} times as"
        " fast"
    )


if __name__ == "__main__":
    main()
