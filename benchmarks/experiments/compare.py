"""This package beside its peers: everything that the notebook 13_experiments/09_benchmarks shows,
by one command.

    python -m benchmarks.experiments.compare [--corpus NAME ...] [--only PART ...]
        [--models NAME ...] [--seconds 30]

The script makes an environment of its own, benchmarks/.env, and installs there what it compares
(benchmarks/requirements.txt). Its parts:

curves: held-out score against CPU time, with memory, topics and time per token. Every model runs in
a process of its own on one thread, with the same priors
(eta 0.1, of bars 0.5; alpha and gamma 1 to begin with, learned where the model can) on the same
nine tenths of the documents. At 1, 2, 5, 10, 20, 30, ... CPU
seconds its topics and their weights are copied; the last tenth of the documents is scored with all
of them by the same code: half a document's words are shown,
its proportions found by Gibbs with topics held fixed, and the log probability of the other half
taken (document completion), by one sample of every sampler. The clock is
the CPU time of training alone: neither compiling, nor reading, nor scoring counts. Memory is the
most that training held over what the process had after reading,
importing and compiling. Topics are those that hold 99% of the held-out documents. Peers are scored
with the concentration they have learned, with 1 and with 5 (a
new document's sum of Dirichlet parameters), and the best of the three counts ("heldout"); this
package only with its own ("own"; "helped" is the best of three).

speed, prior, starts, memory, hmm: topics/sweep_speed.py, topics/prior_test.py, moves/any_start.py,
models/memory.py, sequences/hmm_speed.py, which can be run by themselves, too.

--corpus takes bundled corpora, "bars" (500,000 tokens), or files in a format that `load_corpus`
reads. Results go to benchmarks/results, in one file for each part and
corpus; those of models that are not run again stay. A picture of the curves stands beside them.
"""

import argparse
import gc
import json
import subprocess
import sys
import time

from benchmarks.common import (
    RESULTS,
    bars_found,
    forget_peak,
    here,
    in_environment,
    load,
    machine,
    memory,
    peak_memory,
    save,
    saved,
    short,
    table,
    this_script,
    tomotopy_step,
)

MARKS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600]
CONCENTRATIONS = [1.0, 5.0]  # of a new document, tried for the peers beside their own


def gibbs(sampler, moves=0):
    def start(corpus, eta, seed):
        import numpy as np

        from hdp_nb.moves.split_merge import HDPSplitMerge
        from hdp_nb.topics import counts as topics
        from hdp_nb.topics import direct, franchise, lda, parallel

        kind = {
            "crf": franchise.FranchiseSampler,
            "direct": direct.DirectSampler,
            "hybrid": direct.HybridSampler,
            "parallel": parallel.ParallelSampler,
            "LDA": lda.LDASampler,
        }[sampler]
        model, rng = (
            kind(
                corpus,
                eta=eta,
                **dict(n_topics=100, weights="learned") if sampler == "LDA" else dict(init=100),
            ),
            np.random.default_rng(seed),
        )
        model = HDPSplitMerge(model, moves, until=50) if moves else model
        state = [model.init(rng)]

        def step():
            state[0], _ = model.sweep(rng, state[0])
            return corpus.n_tokens

        return (
            step,
            lambda: topics.predictive_topics(model.snapshot(state[0])),
            lambda: int(model.snapshot(state[0]).n_vk.shape[1]),
        )

    return start


def online(split_merge):
    def start(corpus, eta, seed):
        from hdp_nb.models.variational_models import OnlineHDP

        model = OnlineHDP(
            n_topics=100,
            split_merge=split_merge,
            eta=None,  # learned
            n_docs=corpus.n_docs,
            batch_size=200,
            random_state=seed,
        )

        def step():
            batch = step.X[step.at : step.at + 200]
            step.at = 0 if step.at + 200 >= corpus.n_docs else step.at + 200
            model.partial_fit(batch)
            return int(batch.sum())

        step.X, step.at = corpus.to_matrix(), 0
        return step, lambda: next(model.posterior_topics()), lambda: model.n_topics_

    return start


def start_tomotopy(corpus, eta, seed):
    import numpy as np
    import tomotopy

    model = tomotopy.HDPModel(alpha=1.0, gamma=1.0, eta=eta, initial_k=100, seed=seed + 1)
    step = tomotopy_step(model, corpus)

    def topics():
        # The number of tables of a topic is not to be had; a topic's share of the tokens stands for
        # its share of the tables.
        live = [k for k in range(model.k) if model.is_live_topic(k)]
        phi = np.full((corpus.n_words, len(live)), 1 / corpus.n_words)
        for i, k in enumerate(live):
            phi[[int(word) for word in model.used_vocabs], i] = model.get_topic_word_dist(k)
        share = np.array(model.get_count_by_topics(), float)[live]
        return phi, model.alpha * share / share.sum()

    return step, topics, lambda: model.live_k


def tomotopy_lda(K):
    def start(corpus, eta, seed):
        import numpy as np
        import tomotopy

        model = tomotopy.LDAModel(k=K, alpha=1 / K, eta=eta, seed=seed + 1)
        step = tomotopy_step(model, corpus)

        def topics():
            phi = np.full((corpus.n_words, K), 1 / corpus.n_words)
            phi[[int(word) for word in model.used_vocabs]] = np.transpose(
                [model.get_topic_word_dist(k) for k in range(K)]
            )
            return phi, np.array(model.alpha, float)

        return step, topics, lambda: K

    return start


def start_gensim(corpus, eta, seed):
    import numpy as np
    from gensim.corpora import Dictionary
    from gensim.models import HdpModel

    X = corpus.to_matrix().tocsr()
    bow = [
        list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist()))
        for a, b in zip(X.indptr, X.indptr[1:])
    ]
    words = Dictionary.from_corpus([[(v, 1) for v in range(corpus.n_words)]])
    model = HdpModel(bow[:1], words, T=150, K=15, eta=eta, random_state=seed)
    model.m_D, at = corpus.n_docs, [0]

    def step():
        chunk = bow[at[0] : at[0] + 256]
        at[0] = 0 if at[0] + 256 >= len(bow) else at[0] + 256
        model.update_chunk(chunk)
        return sum(n for document in chunk for _, n in document)

    def topics():
        model.update_expectations()
        weight, phi = model.hdp_to_lda()
        return np.asarray(phi).T, np.asarray(weight)

    return step, topics, lambda: model.m_T


def sklearn_lda(K):
    def start(corpus, eta, seed):
        import numpy as np
        from sklearn.decomposition import LatentDirichletAllocation

        model = LatentDirichletAllocation(
            K,
            doc_topic_prior=1 / K,
            topic_word_prior=eta,
            learning_method="online",
            batch_size=200,
            total_samples=corpus.n_docs,
            learning_decay=0.6,
            learning_offset=1.0,
            random_state=seed,
        )
        X, at = corpus.to_matrix().tocsr(), [0]

        def step():
            batch = X[at[0] : at[0] + 200]
            at[0] = 0 if at[0] + 200 >= X.shape[0] else at[0] + 200
            model.partial_fit(batch)
            return int(batch.sum())

        return (
            step,
            lambda: (
                (model.components_ / model.components_.sum(axis=1, keepdims=True)).T,
                np.full(K, 1 / K),
            ),
            lambda: K,
        )

    return start


CONTESTANTS = {
    "hdp_nb direct": gibbs("direct"),
    "hdp_nb direct, split-merge": gibbs("direct", 10),
    "hdp_nb hybrid": gibbs("hybrid"),
    "hdp_nb crf": gibbs("crf"),
    "hdp_nb parallel": gibbs("parallel"),
    "hdp_nb online": online(False),
    "hdp_nb online, split-merge": online(True),
    "hdp_nb LDA, K=100": gibbs("LDA"),
    "tomotopy HDP": start_tomotopy,
    "tomotopy LDA, K=100": tomotopy_lda(100),
    "gensim HdpModel": start_gensim,
    "scikit-learn LDA, K=50": sklearn_lda(50),
    "scikit-learn LDA, K=100": sklearn_lda(100),
}


class Fixed:
    """Topics and weights from anywhere, for `hdp_nb.evaluation.scores.document_completion`; then
    `n_topics` of them hold 99% of the documents.
    """

    def __init__(self, phi, weight, n_sweeps=60, burn_in=20):
        import numpy as np

        capacity = -(-len(weight) // 4) * 4
        self.phi, self.weight = np.zeros((phi.shape[0], capacity)), np.zeros(capacity)
        self.phi[:, : len(weight)], self.weight[: len(weight)] = phi, weight
        self.n_sweeps, self.burn_in = n_sweeps, burn_in

    def log_predictive(self, observed, heldout, random_state):
        import numpy as np

        from hdp_nb.topics.counts import fold_in, token_probabilities

        pi, p = np.zeros((observed.n_docs, self.weight.size)), np.zeros(heldout.n_tokens)
        fold_in(
            np.random.default_rng(random_state),
            observed.x,
            observed.offsets,
            self.phi,
            self.weight,
            self.n_sweeps,
            self.burn_in,
            pi,
        )
        token_probabilities(heldout.x, heldout.offsets, self.phi, pi, p)
        share = np.sort(observed.doc_lengths @ pi)[::-1].cumsum()
        self.n_topics = 1 + int(np.searchsorted(share, 0.99 * share[-1]))
        return np.log(p)


def run(name, corpora, seconds, seed):
    "One contestant: prints its marks as JSON, a line for each corpus."
    import numpy as np

    from hdp_nb.evaluation.scores import document_completion

    ours = name.startswith("hdp_nb")

    def score(phi, weight, documents):
        "Held-out score with its own concentration, the best with that and others, and the topics."
        fixed = [
            Fixed(phi, weight / weight.sum() * total) for total in [weight.sum(), *CONCENTRATIONS]
        ]
        found = [document_completion(model, documents, 0.5, random_state=0) for model in fixed]
        return (
            round(found[0], 4),
            round(max(found), 4),
            fixed[0 if ours else int(np.argmax(found))].n_topics,
        )

    for number, corpus_name in enumerate(corpora):
        corpus, true = load(corpus_name)
        train, test = corpus.split_docs(0.1, 0)
        eta, n_words = 0.5 if corpus_name == "bars" else 0.1, train.n_words
        if number == 0:  # imports and compiles
            step, topics, size = CONTESTANTS[name](train[:40], eta, seed)
            step()
            score(*topics(), test[:2])
        step = topics = size = None
        gc.collect()
        forget_peak()
        before = memory()
        step, topics, size = CONTESTANTS[name](train, eta, seed)
        clock, tokens, marks, recent, peak = 0.0, 0, [], [], 0.0
        for mark in [m for m in MARKS if m <= seconds]:
            while clock < mark:
                start = time.process_time()
                n = step()
                spent = time.process_time() - start
                clock, tokens, recent = clock + spent, tokens + n, recent[-20:] + [spent / n * 1e9]
            peak = max(peak, peak_memory() - before)
            phi, weight = topics()
            own, best, n_topics = score(phi, weight, test)
            marks.append(
                {
                    "seconds": round(clock, 2),
                    "own": own,
                    "helped": best,
                    "heldout": own if ours else best,
                    "K": size(),
                    "topics": n_topics,
                    "ns": round(float(np.median(recent))),
                    "MB": round(peak, 1),
                    "passes": round(tokens / train.n_tokens, 2),
                }
                | ({} if true is None else {"bars": bars_found(phi[:n_words], true)})
            )
            del phi
            gc.collect()
            forget_peak()
        print(json.dumps(marks), flush=True)


def curves(args):
    trains = {short(corpus): load(corpus)[0].split_docs(0.1, 0)[0] for corpus in args.corpus}
    for model in args.models:
        print(f"{model} ...", file=sys.stderr, flush=True)
        command = [
            sys.executable,
            *this_script(),
            "--contestant",
            model,
            "--corpus",
            *args.corpus,
            "--seconds",
            str(args.seconds),
            "--seed",
            str(args.seed),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as contestant:
            for (corpus, train), line in zip(
                trains.items(), contestant.stdout
            ):  # a line for each corpus, when it is done
                models = saved(f"curves_{corpus}").get("models", {}) | {model: json.loads(line)}
                save(
                    f"curves_{corpus}",
                    {
                        "corpus": corpus,
                        "documents": train.n_docs,
                        "tokens": train.n_tokens,
                        "words": train.n_words,
                        "machine": machine(),
                        "models": {name: models[name] for name in CONTESTANTS if name in models},
                    },
                )
        if contestant.returncode:
            print(f"{model} failed, see above; the others go on", file=sys.stderr)
    for corpus in trains:
        report(saved(f"curves_{corpus}"))


def report(found):
    "Table and picture of a corpus."
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = MARKS[: max(map(len, found["models"].values()))]
    print(
        f"\n{found['corpus']}: {found['documents']:,} documents, {found['tokens']:,} tokens of"
        f" {found['words']:,} words; {found['machine']}\n"
    )
    rows = []
    figure, axes = plt.subplots(figsize=(8, 5))
    for name, marks in found["models"].items():
        last = marks[-1]
        rows.append(
            [
                name,
                *(f"{m['heldout']:.3f}" for m in marks),
                *[""] * (len(columns) - len(marks)),
                *(last.get(key, "") for key in ("K", "topics", "bars", "passes", "ns", "MB")),
            ]
        )
        axes.plot(
            [m["seconds"] for m in marks],
            [m["heldout"] for m in marks],
            "o-" if name.startswith("hdp_nb") else "s--",
            ms=4,
            label=name,
        )
    table(
        [
            "model",
            *(f"{m} s" for m in columns),
            "K",
            "topics",
            "bars",
            "passes",
            "ns per token",
            "MB",
        ],
        rows,
    )
    axes.set(
        xscale="log",
        xlabel="CPU seconds of training",
        ylabel="held-out log probability per token",
        title=found["corpus"],
    )
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(RESULTS / f"curves_{found['corpus']}.png", dpi=110)
    plt.close(figure)


SCRIPTS = {
    "speed": "benchmarks.topics.sweep_speed",
    "prior": "benchmarks.topics.prior_test",
    "starts": "benchmarks.moves.any_start",
    "memory": "benchmarks.models.memory",
    "hmm": "benchmarks.sequences.hmm_speed",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpus", nargs="+", default=["sotu", "kjv", "bars"])
    parser.add_argument(
        "--only",
        nargs="+",
        choices=["curves", *SCRIPTS],
        default=["curves", *SCRIPTS],
        metavar="PART",
        help=", ".join(["curves", *SCRIPTS]),
    )
    parser.add_argument(
        "--models",
        nargs="+",
        choices=CONTESTANTS,
        default=list(CONTESTANTS),
        metavar="NAME",
        help="for the curves: " + ", ".join(CONTESTANTS),
    )
    parser.add_argument(
        "--seconds", type=int, default=30, help="CPU seconds of training for each, for the curves"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--pyhsmm", metavar="PYTHON", help="for hmm: an interpreter that has pyhsmm"
    )
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    here(parser)
    args = parser.parse_args()
    if args.contestant:
        return run(args.contestant, args.corpus, args.seconds, args.seed)
    in_environment(args)
    more = {
        "speed": ["--corpus", *args.corpus],
        "hmm": ["--pyhsmm", args.pyhsmm] if args.pyhsmm else [],
    }
    for part in args.only:
        if part == "curves":
            curves(args)
        else:
            subprocess.run(
                [sys.executable, "-m", SCRIPTS[part], *more.get(part, []), "--here"], check=False
            )


if __name__ == "__main__":
    main()
