"""The paper's NIPS split: scores against CPU time of online inference with moves and without, a
sampler, and gensim's HDP (Bryant & Sudderth 2012, figures 2b, 2e and 2h).

    HDP_NB_DATA=FOLDER python -m benchmarks.experiments.online_nips [--seconds 240]
        [--arms "plain, 300" ...] [--splits 0]

1,392 papers to learn from and 348 to score, drawn at random (which ones the paper had is not known;
--splits names the seeds of the draw and of the methods); minibatches of 200, kappa 0.5; eta begins
at 0.5 and is learned, but by gensim, which cannot and has its own 0.01. Every method has so many
CPU seconds, what compiling and scoring take not counted; with moves, nothing new is tried in the
last quarter. "Algorithm 2" is the paper's, whose moves the bound judges, with eight rounds of the
restricted iteration. The direct sampler is scored by its last sample. Scores by completion (four
fifths of a paper's words are seen) with the E-step's weights for all. A point of a curve: CPU
seconds, passes, topics, topics in use (the fewest that hold 99% of the words; of gensim's, which
hdp_to_lda makes equally large, it says nothing), score.

Curves are kept in results/online_nips.json; those that are there already are not made again, unless
they were shorter. In that file "moves, from 100" and "sampler" have an hour, "plain, 300" and
"Algorithm 2, from 100" have 600 seconds, the others 120: --seconds 3600 --arms "moves, from 100"
sampler, and so on; and four more splits have 120 seconds of four methods: --seconds 120 --splits 1
2 3 4 --arms "moves, from 100" sampler "plain, 100" "Algorithm 2, from 100".
"""

import argparse
import itertools
import os
import time
from pathlib import Path

from benchmarks.common import load, machine, save, saved
from benchmarks.experiments.online_text import Known

BATCH, KAPPA = 200, 0.5
ROUNDS = 8  # of Algorithm 2's restricted iteration, the better of those that online_bound.py tries
ARMS = {
    "moves, from 100": (100, True),
    "plain, 300": (300, False),
    "sampler": None,
    "plain, 100": (100, False),
    "gensim": 300,
    "moves, from 300": (300, True),
    "plain, 1000": (1000, False),
    "Algorithm 2, from 100": (100, "printed"),
}


class Curve:
    "Points at times that grow by a quarter, and whether the time is up."

    def __init__(self, test, seconds, first=4.0):
        self.test, self.seconds, self.next, self.points = test, seconds, first, []
        self.spent, self.since = 0.0, time.process_time()

    def add(self, passes, state):
        "True once the time is up; `state` makes the state if it is to be scored."
        import numpy as np

        from hdp_nb.evaluation.scores import document_completion

        self.spent += time.process_time() - self.since
        over = self.spent >= self.seconds
        if self.spent >= self.next or over:
            lam, *rest = state()
            words = np.sort(lam.sum(axis=0) - len(lam) * float(rest[-1]))[::-1]
            used = int(np.searchsorted(np.cumsum(words), 0.99 * words.sum())) + 1
            score = document_completion(Known(lam, *rest), self.test, random_state=0)
            point = [round(self.spent, 1), round(passes, 2), lam.shape[1], used, round(score, 5)]
            self.points.append(point)
            print(point, flush=True)
            self.next = max(self.next, self.spent) * 1.25
        self.since = time.process_time()
        return over


def minibatches(n_docs, rng):
    "Rows of one minibatch after another, and how many passes that makes, without end."
    import numpy as np

    n, t = -(-n_docs // BATCH), 0
    while True:
        for rows in np.array_split(rng.permutation(n_docs), n):
            t += 1
            yield np.sort(rows), t / n


def online(train, curve, K, moves, seed):
    "Fill the curve of online inference."
    import numpy as np

    from benchmarks.variational.bound_moves import BoundRules, printed_step
    from hdp_nb.variational.e_step import distinct_words, take
    from hdp_nb.variational.moves import online_step
    from hdp_nb.variational.online import OnlineOptions, first_online_state, settling

    printed = moves == "printed"
    options = OnlineOptions(kappa=KAPPA, eta_prior=(1.0, 1.0), split_merge=bool(moves))
    docs, rng = distinct_words(train), np.random.default_rng(seed)
    state = first_online_state(rng, train.n_words, K, 1.0, 1.0, 0.5)
    for rows, passes in minibatches(train.n_docs, rng):
        late, batch = curve.spent > 0.75 * curve.seconds, take(docs, rows)
        if printed:
            rules = BoundRules(rounds=ROUNDS, split=not late)
            state, _ = printed_step(rng, state, batch, train.n_docs, options, rules)
        else:
            now = settling(options) if late else options
            state, _ = online_step(rng, state, batch, train.n_docs, now)
        if curve.add(passes, lambda: state[:5]):
            return


def sampled(train, curve, seed):
    "Fill the curve of direct assignment, without moves."
    import numpy as np

    from hdp_nb import HDP, Gamma

    def note(sweep, state):
        def last():
            K = int(state.K)
            beta = np.append(state.beta[:K], 1 - state.beta[:K].sum())
            return state.n_vk[:, :K] + state.eta, beta, state.alpha, state.gamma, state.eta

        if curve.add(sweep + 1.0, last):
            raise KeyboardInterrupt  # ends the run as Ctrl-C would

    HDP(
        sampler="direct",
        eta=Gamma(1, 1),
        moves=0,
        n_iter=100_000,
        n_chains=1,
        n_jobs=1,
        random_state=seed,
    ).fit(train, callback=note)


def gensim(train, curve, T, seed, eta=0.01):
    "Fill the curve of gensim's HDP."
    import numpy as np

    from benchmarks.experiments.online_peers import Gensim

    model = Gensim(train, T, eta, seed, kappa=KAPPA)
    for rows, passes in minibatches(train.n_docs, np.random.default_rng(seed)):
        model.step(rows)
        if curve.add(passes, model.state):
            return


def fill(arm, train, curve, seed):
    if ARMS[arm] is None:
        sampled(train, curve, seed)
    elif arm == "gensim":
        gensim(train, curve, ARMS[arm], seed)
    else:
        online(train, curve, *ARMS[arm], seed)


def main():
    import numpy as np

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=240.0, help="of CPU time, for each method")
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--splits", type=int, nargs="+", default=[0])
    options = parser.parse_args()
    corpus = load(Path(os.environ["HDP_NB_DATA"]) / "nips" / "nips.npz")[0]
    for split, arm in itertools.product(options.splits, options.arms):
        train, test = corpus.split_docs(348, np.random.default_rng(split))
        sizes = {"train": train.n_docs, "test": test.n_docs, "words": train.n_words}
        sizes["tokens"] = corpus.n_tokens
        key = arm + f", split {split}" * (split > 0)
        done = saved("online_nips").get("curves", {}).get(key, [[0.0]])
        if done[-1][0] >= options.seconds:
            continue
        print(key, flush=True)
        fill(arm, train[:20], Curve(test[:5], 0.01), split)  # compiles
        curve = Curve(test, options.seconds)
        fill(arm, train, curve, split)
        found = {"curves": {}} | saved("online_nips") | sizes | {"machine": machine()}
        found["curves"][key] = curve.points
        save("online_nips", found)


if __name__ == "__main__":
    main()
