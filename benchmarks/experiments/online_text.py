"""Online inference with moves, without, and a sampler, at several eta; a stream of bars with the
plain arms (Bryant & Sudderth 2012, figure 2).

    python -m benchmarks.experiments.online_text [--corpus kjv] [--splits 5]
        [--eta 0.5 0.1 learned] [--models "moves, from 10" "plain, 200" sampler] [--passes 48]
        [--stream 3] [--arms "moves, from 2"]

text: 200 documents of each of five splits are kept for scoring, by completion (four fifths of their
words are seen) with the E-step's weights for all models. Online inference in minibatches of 500,
kappa 0.6, with moves from 10 and from 100 topics and without moves from 20 to 1,000; in the last
quarter nothing new is tried. The direct sampler, 240 sweeps, its last sample. In the
same minibatches scikit-learn's LDA with 100 topics, and gensim's HDP with its truncation at 150: a
quarter of the passes, for they take longer over each; both are left out where eta is learned, for
they cannot.

stream: documents of 50 words over twenty bars, five of which occur in the first quarter, five more
after each, 250,000 in 1,000 minibatches, never seen again; with moves from two topics, and
without moves with 20, 50 and 100. The score is of documents that mix all bars.

Runs that are in results/online_CORPUS.json already are not made again.
online_kjv.json has moves from 10 topics, 20, 200 and 1,000 without (1,000 not at eta 0.1), the
sampler, LDA and gensim.
"""

import argparse
import itertools
import time

from benchmarks.common import load, machine, save, saved, short, table

ARMS = {
    "moves, from 10": (10, True),
    "moves, from 100": (100, True),
    "plain, 20": (20, False),
    "plain, 50": (50, False),
    "plain, 100": (100, False),
    "plain, 200": (200, False),
    "plain, 1000": (1000, False),
    "sampler": None,
    "LDA, 100": ("ScikitLearn", 100),
    "gensim": ("Gensim", 150),
}
STREAM = {"moves, from 2": (2, True)} | {f"plain, {K}": (K, False) for K in (20, 50, 100)}


class Known:
    "A variational state with what a score needs."

    def __init__(self, *state):
        from hdp_nb.variational.bound import VariationalState

        self.state = VariationalState(*state)

    def log_predictive(self, observed, heldout, random_state=None):
        import numpy as np

        from hdp_nb.variational.online import predict_tokens

        return np.log(predict_tokens(observed, heldout, self.state))


def online(train, K, moves, eta, learn, seed, n_passes, batch=500, **more):
    "The state after so many passes."
    import numpy as np

    from hdp_nb.variational.e_step import distinct_words, take
    from hdp_nb.variational.moves import online_step
    from hdp_nb.variational.online import OnlineOptions, first_online_state, settling

    options = OnlineOptions(eta_prior=(1.0, 1.0) if learn else None, split_merge=moves, **more)
    docs, rng = distinct_words(train), np.random.default_rng(seed)
    state = first_online_state(rng, train.n_words, K, 1.0, 1.0, eta)
    for p in range(1, n_passes + 1):
        now = settling(options) if p > 0.75 * n_passes else options
        for rows in np.array_split(rng.permutation(train.n_docs), -(-train.n_docs // batch)):
            state, _ = online_step(rng, state, take(docs, np.sort(rows)), train.n_docs, now)
    return state[:5]


def sampled(train, eta, learn, seed, n_iter=240):
    "The last state of direct assignment, in the same form."
    import numpy as np

    from hdp_nb import HDP, Gamma

    last, prior = {}, Gamma(1, 1) if learn else eta

    def note(sweep, state):
        last["state"] = state

    HDP(
        sampler="direct", eta=prior, moves=0, n_iter=n_iter, n_chains=1, n_jobs=1, random_state=seed
    ).fit(train, callback=note)
    state = last["state"]
    K = int(state.K)
    beta = np.append(state.beta[:K], 1 - state.beta[:K].sum())
    return state.n_vk[:, :K] + state.eta, beta, state.alpha, state.gamma, state.eta


def peer(train, kind, K, eta, seed, n_passes, batch=500):
    "The state of another package's model after a quarter of so many passes."
    import numpy as np

    from benchmarks.experiments import online_peers

    model, rng = getattr(online_peers, kind)(train, K, eta, seed), np.random.default_rng(seed)
    for _ in range(n_passes // 4):
        for rows in np.array_split(rng.permutation(train.n_docs), -(-train.n_docs // batch)):
            model.step(np.sort(rows))
    return model.state()


def run(corpus, arm, eta, split, n_passes):
    "One fit and its score."
    import numpy as np

    from hdp_nb.evaluation.scores import document_completion

    train, test = corpus.split_docs(200, np.random.default_rng(split))
    learn, value = eta == "learned", 0.5 if eta == "learned" else float(eta)
    began = time.process_time()
    if ARMS[arm] is None:
        state = sampled(train, value, learn, split)
    elif isinstance(ARMS[arm][0], str):
        state = peer(train, *ARMS[arm], value, split, n_passes)
    else:
        state = online(train, *ARMS[arm], value, learn, split, n_passes)
    seconds = time.process_time() - began
    return {
        "score": round(document_completion(Known(*state), test, random_state=0), 5),
        "K": int(state[0].shape[1]),
        "alpha": round(float(state[2]), 3),
        "eta": round(float(state[4]), 4),
        "seconds": round(seconds, 1),
    }


def stream(K, moves, seed, n_batches=1000, batch_size=250, doc_len=50, grid=10, weight=0.2):
    "Topics and score after every quarter."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus
    from hdp_nb.corpora.synthetic import make_bars
    from hdp_nb.evaluation.scores import document_completion
    from hdp_nb.variational.e_step import distinct_words
    from hdp_nb.variational.moves import online_step
    from hdp_nb.variational.online import OnlineOptions, first_online_state

    rng, own, found = np.random.default_rng(seed), np.random.default_rng(100 + seed), []
    order = np.random.default_rng(200 + seed).permutation(2 * grid)
    phi = make_bars(n_docs=1, grid=grid, random_state=0)[1].phi[order]

    def documents(n, n_bars):
        weights = rng.dirichlet(np.full(n_bars, weight), n)
        return Corpus.from_matrix(rng.multinomial(doc_len, weights @ phi[:n_bars]))

    test, options = documents(500, 2 * grid), OnlineOptions(kappa=0.5, split_merge=moves)
    state = first_online_state(own, grid**2, K, 1.0, 1.0, 0.5)
    for t in range(1, n_batches + 1):
        batch = documents(batch_size, grid // 2 * (1 + 4 * (t - 1) // n_batches))
        state, _ = online_step(own, state, distinct_words(batch), t * batch_size, options)
        if t % (n_batches // 4) == 0:
            score = document_completion(Known(*state[:5]), test, random_state=0)
            found.append([int(state.lam.shape[1]), round(score, 5)])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpus", default="kjv")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--eta", nargs="+", default=["0.5", "0.1", "learned"])
    parser.add_argument("--models", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--passes", type=int, default=48)
    parser.add_argument("--arms", nargs="+", default=list(STREAM), choices=STREAM)
    parser.add_argument("--stream", type=int, default=3, help="seeds of the stream")
    options = parser.parse_args()
    corpus, name = load(options.corpus)[0], f"online_{short(options.corpus)}"
    found = saved(name) or {"runs": {}, "stream": {}}
    found |= {"splits": options.splits, "passes": options.passes, "documents": corpus.n_docs}

    def note(kind, key, make, *arguments):
        if key not in found[kind]:
            found[kind][key] = make(*arguments)
            found["machine"] = machine()
            save(name, found)
            print(key, found[kind][key], flush=True)
        return found[kind][key]

    for seed, arm in itertools.product(range(options.stream), options.arms):
        note("stream", f"{arm}, seed {seed}", stream, *STREAM[arm], seed)
    rows = []
    for eta, arm in itertools.product(options.eta, options.models):
        if eta == "learned" and ARMS[arm] and isinstance(ARMS[arm][0], str):
            continue
        runs = [
            note("runs", f"{arm}, eta {eta}, split {i}", run, corpus, arm, eta, i, options.passes)
            for i in range(options.splits)
        ]
        mean = lambda what: sum(r[what] for r in runs) / len(runs)
        rows.append(
            [eta, arm, f"{mean('score'):.4f}", f"{mean('K'):.1f}", f"{mean('seconds'):.1f}"]
        )
    table(["eta", "model", "score", "topics", "s"], rows)


if __name__ == "__main__":
    main()
