"""Moves that the bound judges, beside those that predictions judge, plain inference and a sampler.

    python -m benchmarks.experiments.online_bound [--parts text bars stream] [--splits 5]
        [--documents 1000000] [--no-bound] [--arms "memoized, from 10" ...]

text: the Bible, the five splits of online_text.py, 200 documents of each kept for scoring; eta 0.5,
0.1 and learned; 48 passes in minibatches of 500. Arms: Algorithm 2 of Bryant & Sudderth with one
round of the restricted iteration, as printed, and with eight; memoized inference in batches of 100,
24 rounds, in the last quarter of which nothing is split; the package's moves; plain inference; the
sampler; and both kinds of moves one after the other: the memoized ones from the model that the
package's end with. Of every model the bound of the whole corpus, too, after 10 passes without
moves.

bars: the paper's, documents of three densities, and Zipf frequencies; five corpora of each; 12
passes (dense documents: 24) in minibatches of 200, kappa 0.5, eta 0.5; all with moves from two
topics. Scores are against those of the true bars, by E-step.

stream: documents of real shape. Topics are those of a sampler that has seen addresses, the Bible
and, where HDP_NB_DATA names a folder that has them, papers of NIPS, together; a quarter of them
occurs after each quarter of the stream, and the three kinds of text change their proportions.
Minibatches of 1,000; with moves from ten topics, and without moves. --streams names the seeds of
the documents. The score of the planted topics themselves is kept beside.

Runs that are in results/online_bound.json already are not made again.
That file has two corpora of bars (--parts bars --splits 2), without a sampler and 50 topics; no
bounds at eta 0.5 (--parts text --eta 0.5 --no-bound), where plain inference and the package's
moves are those of online_kjv.json, as is the sampler at every eta; both kinds of moves one after
the other once, at eta 0.1; a
stream of a million documents (--parts stream), and three of 250,000 (--parts stream --documents
250000 --streams 0 1 2), 200 topics without moves in the first of these only.

Another --corpus has a file of its own: online_bound_sotu.json and online_bound_cgc.json have five
splits with eta learned, 24 passes, no bounds and not the arm with both kinds of moves (--parts text
--eta learned --passes 24 --no-bound --arms ..., with --corpus sotu and HDP_NB_DATA/cgc/cgc.npz).
"""

import argparse
import itertools
import os
import time
from pathlib import Path

from benchmarks.common import load, machine, memory, save, saved, short, table
from benchmarks.experiments.online_text import Known, online, sampled

BATCH, ROUNDS = 500, 24
TEXT = (
    "Algorithm 2, as printed",
    "Algorithm 2, eight rounds",
    "memoized, from 10",
    "moves, from 10",
    "plain, 200",
    "sampler",
    "moves, then memoized",
)
BARS = {
    "0.1": dict(concentration=2),
    "0.3": dict(concentration=6),
    "1": dict(concentration=20),
    "0.1, Zipf": dict(concentration=2, shares="zipf"),
}
BARS_ARMS = (
    "Algorithm 2, as printed",
    "Algorithm 2, eight rounds",
    "memoized, from 2",
    "moves, from 2",
    "plain, 20",
    "plain, 50",
    "sampler",
)
STREAM = {"moves, from 10": (10, True), "plain, 100": (100, False), "plain, 200": (200, False)}


def algorithm_2(train, K, rounds, eta, learn, seed, n_passes, batch=BATCH, **more):
    "The state after so many passes; in the last quarter of them nothing is split."
    import numpy as np

    from benchmarks.variational.bound_moves import BoundRules, printed_step
    from hdp_nb.variational.e_step import distinct_words, take
    from hdp_nb.variational.online import OnlineOptions, first_online_state

    options = OnlineOptions(eta_prior=(1.0, 1.0) if learn else None, **more)
    docs, rng = distinct_words(train), np.random.default_rng(seed)
    state, made = first_online_state(rng, train.n_words, K, 1.0, 1.0, eta), [0, 0]
    for p in range(1, n_passes + 1):
        rules = BoundRules(rounds=rounds, split=p <= 0.75 * n_passes)
        for rows in np.array_split(rng.permutation(train.n_docs), -(-train.n_docs // batch)):
            now = take(docs, np.sort(rows))
            state, info = printed_step(rng, state, now, train.n_docs, options, rules)
            made = [made[0] + info["splits"], made[1] + info["merges"]]
    return state[:5], {"splits": made[0], "merges": made[1]}


def memoized(train, start, learn, seed, n_rounds, batch, split=True):
    "The model after so many rounds of moves, from a state."
    import numpy as np

    from benchmarks.variational.bound_moves import first_memoized, lap, move
    from hdp_nb.variational.e_step import distinct_words
    from hdp_nb.variational.online import OnlineOptions

    options, rng = (
        OnlineOptions(eta_prior=(1.0, 1.0) if learn else None),
        np.random.default_rng(seed),
    )
    model, made = first_memoized(distinct_words(train), start, batch, rng), [0, 0]
    model = lap(model, rng, options)
    for i in range(n_rounds):
        if split is None:
            model = lap(model, rng, options)
        else:
            model, done = move(model, rng, options, split=i < 0.75 * n_rounds)
            made = [made[0] + done[0], made[1] + done[1]]
    return model, {"splits": made[0], "merges": made[1]}


def settled(train, state, learn, seed):
    "The model after 10 passes without moves, and its bound."
    from benchmarks.variational.bound_moves import judged
    from hdp_nb.variational.bound import VariationalState
    from hdp_nb.variational.online import OnlineOptions

    model, _ = memoized(train, VariationalState(*state), learn, seed, 10, 100, split=None)
    return model.state, judged(model, OnlineOptions(eta_prior=(1.0, 1.0) if learn else None))


def fit(arm, train, eta, learn, seed, n_passes, batch, n_iter=240, **more):
    "The state that an arm ends with, after n_iter sweeps if it samples, and what it has counted."
    import numpy as np

    from hdp_nb.variational.bound import VariationalState, first_state

    K = int(arm.split()[-1]) if arm[-1].isdigit() else more.pop("K", 10)
    more.pop("K", None)
    if arm.startswith("Algorithm 2"):
        rounds = 1 if arm.endswith("printed") else 8
        return algorithm_2(train, K, rounds, eta, learn, seed, n_passes, batch, **more)
    if arm.startswith("memoized"):
        start = first_state(np.random.default_rng(seed), train.n_words, K, 1.0, 1.0, eta)
        model, made = memoized(train, start, learn, seed, ROUNDS, 100)
        return model.state, made
    if arm == "sampler":
        return sampled(train, eta, learn, seed, n_iter), {}
    moves = arm.startswith("moves")
    state = online(train, K, moves, eta, learn, seed, n_passes, batch, **more)
    if arm == "moves, then memoized":
        start = VariationalState(*state)
        model, made = memoized(train, start, learn, seed, ROUNDS, 100)
        return model.state, made
    return state, {}


def score(state, test):
    from hdp_nb.evaluation.scores import document_completion

    return document_completion(Known(*state), test, random_state=0)


def text(corpus, arm, eta, split, n_passes, with_bound=True):
    "One fit to a split, its score, and its bound after more passes."
    import numpy as np

    train, test = corpus.split_docs(200, np.random.default_rng(split))
    learn, value = eta == "learned", 0.5 if eta == "learned" else float(eta)
    began = time.process_time()
    state, made = fit(arm, train, value, learn, split, n_passes, BATCH)
    seconds = time.process_time() - began
    found = {
        "score": round(score(state, test), 5),
        "K": int(state[0].shape[1]),
        "alpha": round(float(state[2]), 3),
        "eta": round(float(state[4]), 4),
        "seconds": round(seconds, 1),
    } | made
    if with_bound:
        later, bound = settled(train, state, learn, split)
        found |= {"bound": round(bound, 1), "settled": round(score(later, test), 5)}
    return found


def bars(arm, kind, seed):
    "One fit to a corpus of bars, and its score against the truth."
    import numpy as np

    from hdp_nb.corpora.synthetic import make_bars

    train, truth = make_bars(n_test=200, random_state=seed, **BARS[kind])
    n_passes = 24 if kind == "1" else 12
    began = time.process_time()
    state, made = fit(arm, train, 0.5, False, seed, n_passes, 200, n_iter=100, K=2, kappa=0.5)
    seconds = time.process_time() - began
    share = truth.pi.mean(axis=0) if "Zipf" in kind else np.full(20, 0.05)
    concentration = BARS[kind]["concentration"]
    true = truth.phi.T * 1e7 + 1e-3, np.append(share, 1e-9), concentration, 1.0, 0.1
    unit = state[0] / np.linalg.norm(state[0], axis=0)
    found = (truth.phi / np.linalg.norm(truth.phi, axis=1)[:, None] @ unit).max(axis=1) > 0.9
    return {
        "gap": round(score(state, truth.test) - score(true, truth.test), 5),
        "K": int(state[0].shape[1]),
        "found": int(found.sum()),
        "seconds": round(seconds, 1),
    } | made


def real_topics(seed=0, n_docs=600, n_iter=150):
    """Topics of three kinds of text in one vocabulary, and how much each kind has of them.

    Returns phi (K, V) in the order of their weights, weights (kinds, K), names of the kinds.
    """
    import numpy as np
    import scipy.sparse as sp

    from hdp_nb import HDP
    from hdp_nb.corpora.corpus import Corpus

    names, rng = ["sotu", "kjv"], np.random.default_rng(seed)
    if "HDP_NB_DATA" in os.environ:
        names.append(str(Path(os.environ["HDP_NB_DATA"]) / "nips" / "nips.npz"))
    kinds, of, number, parts = [], [], {}, []
    for i, name in enumerate(names):
        corpus = load(name)[0]
        some = corpus[np.sort(rng.permutation(corpus.n_docs)[: n_docs if i < 2 else n_docs // 4])]
        X = some.to_matrix().tocoo()
        words = corpus.vocab
        if words is None:
            words = Path(name).with_name("vocab.txt").read_text(encoding="utf-8").split("\n")
        names_of = words[: corpus.n_words]
        column = np.array([number.setdefault(word, len(number)) for word in names_of])
        parts.append((X.data, X.row, column[X.col], X.shape[0]))
        of += [i] * X.shape[0]
        kinds.append(Path(name).stem)
    rows = [sp.csr_array((d, (r, c)), (n, len(number))) for d, r, c, n in parts]
    corpus, last = Corpus.from_matrix(sp.vstack(rows).tocsr()), {}
    HDP(sampler="direct", eta=0.1, moves=0, n_iter=n_iter, n_chains=1, random_state=seed).fit(
        corpus, callback=lambda sweep, state: last.update(state=state)
    )
    state = last["state"]
    K = int(state.K)
    n = np.zeros((corpus.n_docs, K))
    np.add.at(n, (np.repeat(np.arange(corpus.n_docs), corpus.doc_lengths), state.z), 1)
    order = np.argsort(-n.sum(axis=0))
    order = order[n.sum(axis=0)[order] >= 200]
    phi = (state.n_vk[:, order] + 0.01).T
    weights = np.array([n[np.array(of) == i][:, order].sum(axis=0) for i in range(len(kinds))])
    return phi / phi.sum(axis=1, keepdims=True), weights + 1.0, kinds


class Texts:
    "Documents of planted topics, made as they are asked for."

    def __init__(self, phi, weights, seed, length=100, alpha=4.0):
        import numpy as np

        self.cdf, self.rng = np.cumsum(phi, axis=1), np.random.default_rng(seed)
        self.weights, self.length, self.alpha = weights, length, alpha
        # every fourth topic, by weight, is there from the beginning, and so on
        self.since = np.random.default_rng(0).permutation(np.arange(len(phi)) % 4)

    def make(self, n, when):
        "n documents at a time from 0 to 1."
        import numpy as np

        from hdp_nb.corpora.corpus import Corpus

        kinds = len(self.weights)
        mix = 1.1 + np.cos(2 * np.pi * (when - np.arange(kinds) / kinds))
        kind = self.rng.choice(kinds, n, p=mix / mix.sum())
        there = self.since <= min(int(4 * when), 3)
        z = np.empty((n, self.length), np.int64)
        for i in range(kinds):
            rows, w = np.flatnonzero(kind == i), self.weights[i] * there
            pi = np.cumsum(self.rng.dirichlet(self.alpha * w / w.sum() + 1e-12, len(rows)), axis=1)
            u = self.rng.random((len(rows), self.length))
            z[rows] = (u[..., None] > pi[:, None, :-1]).sum(axis=-1)
        x, flat, u = np.empty(z.size, np.int64), z.ravel(), self.rng.random(z.size)
        order = np.argsort(flat, kind="stable")
        cuts = np.searchsorted(flat[order], np.arange(len(self.cdf) + 1))
        for k, (a, b) in enumerate(zip(cuts[:-1], cuts[1:])):
            x[order[a:b]] = np.searchsorted(self.cdf[k], u[order[a:b]])
        V = self.cdf.shape[1]
        offsets = np.arange(n + 1) * self.length
        return Corpus(np.minimum(x, V - 1).astype(np.int32), offsets, n_words=V)


def stream(planted, K, moves, seed, n_docs, batch=1000):
    "Topics, score, and planted topics that are found, after every eighth."
    import numpy as np

    from hdp_nb.variational.e_step import distinct_words
    from hdp_nb.variational.moves import online_step
    from hdp_nb.variational.online import OnlineOptions, first_online_state

    phi, weights, _ = planted
    texts, rng = Texts(phi, weights, seed), np.random.default_rng(100 + seed)
    test, options = Texts(phi, weights, 1000 + seed).make(500, 0.999), OnlineOptions()
    options = options._replace(split_merge=moves)
    state, found, spent = first_online_state(rng, phi.shape[1], K, 1.0, 1.0, 0.1), [], 0.0
    n_batches, unit = n_docs // batch, phi / np.linalg.norm(phi, axis=1)[:, None]
    for t in range(1, n_batches + 1):
        docs = distinct_words(texts.make(batch, (t - 0.5) / n_batches))
        began = time.process_time()
        state, _ = online_step(rng, state, docs, t * batch, options)
        spent += time.process_time() - began
        if t % (n_batches // 8) == 0:
            mean = state.lam - float(state.eta)
            mean = mean / (np.linalg.norm(mean, axis=0) + 1e-300)
            there = texts.since <= min(int(4 * (t - 0.5) / n_batches), 3)
            hits = (unit @ mean).max(axis=1) > 0.9
            found.append(
                {
                    "documents": t * batch,
                    "K": int(state.lam.shape[1]),
                    "score": round(score(state[:5], test), 5),
                    "there": int(there.sum()),
                    "found": int((hits & there).sum()),
                    "eta": round(float(state.eta), 4),
                    "alpha": round(float(state.alpha), 3),
                    "seconds": round(spent, 1),
                    "megabytes": round(memory()),
                }
            )
            print(found[-1], flush=True)
    return found


def known(planted, seed):
    "The score of the planted topics themselves, at the end of a stream."
    import numpy as np

    phi, weights, _ = planted
    test = Texts(phi, weights, 1000 + seed).make(500, 0.999)
    kinds = 1.1 + np.cos(2 * np.pi * (0.999 - np.arange(len(weights)) / len(weights)))
    share = kinds @ (weights / weights.sum(axis=1, keepdims=True)) / kinds.sum()
    state = phi.T * 1e7 + 1e-3, np.append(share, 1e-9), 4.0, 1.0, 0.1
    return round(score(state, test), 5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", nargs="+", default=["text", "bars", "stream"])
    parser.add_argument("--corpus", default="kjv")
    parser.add_argument("--splits", type=int, default=5, help="or corpora of bars")
    parser.add_argument("--eta", nargs="+", default=["0.1", "learned", "0.5"])
    parser.add_argument("--passes", type=int, default=48)
    parser.add_argument("--arms", nargs="+", help="only these")
    parser.add_argument("--no-bound", action="store_true", help="leave the bound of text out")
    parser.add_argument("--documents", type=int, default=1_000_000, help="of the stream")
    parser.add_argument("--streams", type=int, nargs="+", default=[0], help="seeds of the stream")
    options = parser.parse_args()
    name = "online_bound" + f"_{short(options.corpus)}" * (options.corpus != "kjv")
    found = {"text": {}, "bars": {}, "stream": {}} | saved(name)
    found |= {"splits": options.splits, "passes": options.passes}

    def note(kind, key, make, *arguments):
        if key not in found[kind]:
            found[kind][key] = make(*arguments)
            found["machine"] = machine()
            save(name, found)
            print(key, found[kind][key], flush=True)
        return found[kind][key]

    chosen = lambda arms: [arm for arm in arms if not options.arms or arm in options.arms]
    mean = lambda runs, what: sum(run[what] for run in runs) / len(runs)
    corpus = load(options.corpus)[0]
    of_text = list(itertools.product(options.eta, chosen(TEXT)))
    of_bars = list(itertools.product(BARS, chosen(BARS_ARMS)))
    for i in range(options.splits):
        for eta, arm in of_text if "text" in options.parts else ():
            key = f"{arm}, eta {eta}, split {i}"
            note("text", key, text, corpus, arm, eta, i, options.passes, not options.no_bound)
        for kind, arm in of_bars if "bars" in options.parts else ():
            note("bars", f"{arm}, {kind}, corpus {i}", bars, arm, kind, i)

    def show(kind, names, columns, cases, of):
        rows = []
        for which, arm in cases:
            runs = [found[kind].get(of(arm, which, i)) for i in range(options.splits)]
            if all(runs):
                rows.append([which, arm, *(f"{mean(runs, what):.4f}" for what in columns)])
        table([*names, *columns], rows)

    of = lambda arm, eta, i: f"{arm}, eta {eta}, split {i}"
    show("text", ["eta", "model"], ["score", "K", "seconds"], of_text, of)
    of = lambda arm, bar, i: f"{arm}, {bar}, corpus {i}"
    show("bars", ["bars", "model"], ["gap", "K", "found", "seconds"], of_bars, of)
    if "stream" in options.parts:
        planted = real_topics()
        found["planted"] = {"topics": planted[0].shape[0], "words": planted[0].shape[1]}
        found["planted"]["kinds"] = planted[2]
        found["planted"]["scores"] = [known(planted, seed) for seed in range(3)]
        for seed, arm in itertools.product(options.streams, chosen(STREAM)):
            key = f"{arm}, {options.documents} documents" + f", seed {seed}" * (seed > 0)
            note("stream", key, stream, planted, *STREAM[arm], seed, options.documents)


if __name__ == "__main__":
    main()
