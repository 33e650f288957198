"""This package beside its peers: held-out score against CPU time, time per token, memory, topics found.

    python benchmarks/compare.py [--corpus sotu] [--seconds 60] [--only NAME ...] [--out results/compare]

The script makes an environment of its own, benchmarks/.env, and installs there what it compares (requirements.txt beside it). Every
model then runs in a process of its own on one thread, with the same priors (eta 0.1; alpha and gamma 1, learned where the model can) on the same nine tenths of
the documents. At 1, 2, 5, 10, 20 ... CPU seconds its topics and their weights are copied; the last tenth of the documents is scored with all of them by the same code:
half a document's words are shown, its proportions found by Gibbs with topics held fixed, and the log probability of the other half taken (document completion).
The clock is the CPU time of training alone: neither compiling, nor reading, nor scoring counts. K, passes, time per token and memory are those of the last mark.

--corpus takes a bundled corpus, "bars" (500,000 tokens), or a file in a format that `load_corpus` reads. Writes table.md, curves.png, marks.json.
"""
import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[name + "_NUM_THREADS"] = "1"

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ETA, MARKS = 0.1, [1, 2, 5, 10, 20, 30, 60, 120, 300, 600]


def gibbs(sampler):
    def start(corpus, seed):
        import numpy as np
        from hdp_nb import direct, franchise
        classes = {"crf": franchise.FranchiseSampler, "direct": direct.DirectSampler, "hybrid": direct.HybridSampler}
        model, rng = classes[sampler](corpus, eta=ETA, init=100), np.random.default_rng(seed)
        model.sweep(rng, model.init(rng))                                # compiles
        rng = np.random.default_rng(seed)
        state = [model.init(rng)]

        def step():
            state[0], _ = model.sweep(rng, state[0])
            return corpus.n_tokens
        return step, lambda: franchise.predictive_topics(model.snapshot(state[0])), lambda: int(state[0].K)
    return start


def online(split_merge):
    def start(corpus, seed):
        from hdp_nb.estimators import OnlineHDP
        make = lambda: OnlineHDP(n_topics=100, split_merge=split_merge, eta=ETA, n_docs=corpus.n_docs, batch_size=200, random_state=seed)
        X = corpus.to_matrix()
        make().partial_fit(X[:400])
        model, at = make(), [0]

        def step():
            batch = X[at[0]:at[0] + 200]
            at[0] = 0 if at[0] + 200 >= X.shape[0] else at[0] + 200
            model.partial_fit(batch)
            return int(batch.sum())
        return step, lambda: next(model.posterior_topics()), lambda: model.n_topics_
    return start


def start_tomotopy(corpus, seed):
    import numpy as np
    import tomotopy
    model = tomotopy.HDPModel(alpha=1.0, gamma=1.0, eta=ETA, initial_k=100, seed=seed + 1)
    for j in range(corpus.n_docs):
        model.add_doc([str(v) for v in corpus[j]])

    def step():
        model.train(1, workers=1)
        return corpus.n_tokens

    def topics():
        # The number of tables of a topic is not to be had; a topic's share of the tokens stands for its share of the tables.
        live = [k for k in range(model.k) if model.is_live_topic(k)]
        phi = np.full((corpus.n_words, len(live)), 1/corpus.n_words)
        for i, k in enumerate(live):
            phi[[int(word) for word in model.used_vocabs], i] = model.get_topic_word_dist(k)
        share = np.array(model.get_count_by_topics(), float)[live]
        return phi, model.alpha*share/share.sum()
    return step, topics, lambda: model.live_k


def start_gensim(corpus, seed):
    import numpy as np
    from gensim.corpora import Dictionary
    from gensim.models import HdpModel
    X = corpus.to_matrix().tocsr()
    bow = [list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist())) for a, b in zip(X.indptr, X.indptr[1:])]
    words = Dictionary.from_corpus([[(v, 1) for v in range(corpus.n_words)]])
    model = HdpModel(bow[:1], words, T=150, K=15, eta=ETA, random_state=seed)
    model.m_D, at = corpus.n_docs, [0]

    def step():
        chunk = bow[at[0]:at[0] + 256]
        at[0] = 0 if at[0] + 256 >= len(bow) else at[0] + 256
        model.update_chunk(chunk)
        return sum(n for document in chunk for _, n in document)

    def topics():
        model.update_expectations()
        weight, phi = model.hdp_to_lda()
        return np.asarray(phi).T, np.asarray(weight)
    return step, topics, lambda: model.m_T


def sklearn_lda(K):
    def start(corpus, seed):
        from sklearn.decomposition import LatentDirichletAllocation
        import numpy as np
        model = LatentDirichletAllocation(K, doc_topic_prior=1/K, topic_word_prior=ETA, learning_method="online", batch_size=200,
                                          total_samples=corpus.n_docs, learning_decay=0.6, learning_offset=1.0, random_state=seed)
        X, at = corpus.to_matrix().tocsr(), [0]

        def step():
            batch = X[at[0]:at[0] + 200]
            at[0] = 0 if at[0] + 200 >= X.shape[0] else at[0] + 200
            model.partial_fit(batch)
            return int(batch.sum())
        return step, lambda: ((model.components_/model.components_.sum(axis=1, keepdims=True)).T, np.full(K, 1/K)), lambda: K
    return start


CONTESTANTS = {
    "hdp_nb direct": gibbs("direct"), "hdp_nb hybrid": gibbs("hybrid"), "hdp_nb crf": gibbs("crf"),
    "hdp_nb online": online(False), "hdp_nb online, split-merge": online(True),
    "tomotopy HDP": start_tomotopy, "gensim HdpModel": start_gensim,
    "scikit-learn LDA, K=50": sklearn_lda(50), "scikit-learn LDA, K=100": sklearn_lda(100),
}


class Fixed:
    "Topics and weights from anywhere, for `hdp_nb.evaluate.document_completion`."

    def __init__(self, phi, weight, n_sweeps=60, burn_in=20):
        import numpy as np
        capacity = -(-len(weight)//4)*4
        self.phi, self.weight = np.zeros((phi.shape[0], capacity)), np.zeros(capacity)
        self.phi[:, :len(weight)], self.weight[:len(weight)] = phi, weight
        self.n_sweeps, self.burn_in = n_sweeps, burn_in

    def log_predictive(self, observed, heldout, random_state):
        import numpy as np
        from hdp_nb.franchise import fold_in, token_probabilities
        pi, p = np.zeros((observed.n_docs, self.weight.size)), np.zeros(heldout.n_tokens)
        fold_in(np.random.default_rng(random_state), observed.x, observed.offsets, self.phi, self.weight, self.n_sweeps, self.burn_in, pi)
        token_probabilities(heldout.x, heldout.offsets, self.phi, pi, p)
        return np.log(p)


def load(name):
    "Training documents, and documents to be scored."
    from hdp_nb.corpus import load_corpus, make_bars
    corpus = make_bars(n_docs=2000, doc_len=250, concentration=2.0, random_state=0)[0] if name == "bars" else load_corpus(name)
    return corpus.split_docs(0.1, 0)


def run(name, corpus_name, seconds, seed):
    "One contestant: prints its marks as JSON."
    import numpy as np
    from hdp_nb.evaluate import document_completion
    train, test = load(corpus_name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step, topics, size = CONTESTANTS[name](train, seed)
    clock, tokens, marks, recent = 0.0, 0, [], []
    for mark in [m for m in MARKS if m <= seconds]:
        while clock < mark:
            start = time.process_time()
            n = step()
            spent = time.process_time() - start
            clock, tokens, recent = clock + spent, tokens + n, recent[-20:] + [spent/n*1e9]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        phi, weight = topics()
        marks.append({"seconds": clock, "heldout": document_completion(Fixed(phi, weight), test, 0.5, random_state=0), "K": size(),
                      "ns": float(np.median(recent)), "MB": memory/1024, "passes": tokens/train.n_tokens})
    print(json.dumps(marks))


def environment():
    "The Python of benchmarks/.env, with everything installed."
    python = HERE/".env"/("Scripts" if os.name == "nt" else "bin")/"python"
    wanted = (HERE/"requirements.txt").read_text()
    stamp = HERE/".env"/"installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        print("Installing the peers into benchmarks/.env", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", HERE/".env"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "-r", HERE/"requirements.txt", "-e", HERE.parent], check=True)
        stamp.write_text(wanted)
    return python


def describe(corpus_name, train, seconds):
    import numba
    import numpy as np
    processor = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")),
                     platform.processor()) if Path("/proc/cpuinfo").exists() else platform.processor()
    return (f"{corpus_name}: {train.n_docs:,} documents and {train.n_tokens:,} tokens of {train.n_words:,} words to learn from, {seconds} CPU seconds each, one thread. "
            f"{processor}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}.")


def report(found, text, seconds, out):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    columns = [m for m in MARKS if m <= seconds]
    lines = [text, "", "| model | " + " | ".join(f"{m} s" for m in columns) + " | K | passes | ns per token | MB |", "|---" * (len(columns) + 5) + "|"]
    figure, axes = plt.subplots(figsize=(8, 5))
    for name, marks in found.items():
        scores = [f"{m['heldout']:.3f}" for m in marks] + [""]*(len(columns) - len(marks))
        last = marks[-1]
        lines.append(f"| {name} | " + " | ".join(scores) + f" | {last['K']} | {last['passes']:.0f} | {last['ns']:.0f} | {last['MB']:.0f} |")
        axes.plot([m["seconds"] for m in marks], [m["heldout"] for m in marks], "o-" if name.startswith("hdp_nb") else "s--", ms=4, label=name)
    axes.set(xscale="log", xlabel="CPU seconds of training", ylabel="held-out log probability per token")
    axes.legend(fontsize=8)
    figure.tight_layout()
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out/"curves.png", dpi=130)
    (out/"table.md").write_text("\n".join(lines) + "\n")
    (out/"marks.json").write_text(json.dumps({"machine": text, "models": found}, indent=1))
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", default="sotu")
    parser.add_argument("--seconds", type=int, default=60, help="CPU seconds of training for each")
    parser.add_argument("--only", nargs="+", choices=CONTESTANTS, default=list(CONTESTANTS), metavar="NAME", help=", ".join(CONTESTANTS))
    parser.add_argument("--out", type=Path, default=Path("results/compare"))
    parser.add_argument("--here", action="store_true", help="use this Python, which has everything, instead of benchmarks/.env")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant:
        return run(args.contestant, args.corpus, args.seconds, args.seed)
    if not args.here:
        sys.exit(subprocess.call([environment(), __file__, "--here", *sys.argv[1:]]))
    found = {}
    for name in args.only:
        print(f"{name} ...", file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, __file__, "--contestant", name, "--corpus", args.corpus, "--seconds", str(args.seconds), "--seed", str(args.seed)],
                              stdout=subprocess.PIPE, text=True)
        if done.returncode:
            print(f"{name} failed, see above; the others go on", file=sys.stderr)
        else:
            found[name] = json.loads(done.stdout.splitlines()[-1])
    report(found, describe(args.corpus, load(args.corpus)[0], args.seconds), args.seconds, args.out)


if __name__ == "__main__":
    main()
