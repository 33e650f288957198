"""Chains on texts, whose topics nobody knows: what they say after minutes, by where they began.

    python -m benchmarks.moves.texts CORPUS [--starts 1 20 100 300 sequential] [--seconds 80]
        [--sampler crf] [--without]

CORPUS: 'sotu', 'kjv', or the path of a file that `load_corpus` reads. At most 2,000 documents to
learn from, at most 300 others to be scored by document completion (half of the words are shown);
eta 0.1. Of a chain: topics above 0.1% of the tokens, log likelihood with the topics of the tokens
integrated out, score of the average of the samples of the second half of the time. Of two chains:
the share of the tokens of the one whose topic has a counterpart in the other, a cosine of 0.9, the
topics being those of the last sweep. And the verdict on the chains from 1 and from 100. Runs that
are in results/texts.json already are not made again.
"""

import argparse
import itertools
import time

from benchmarks.common import cosines, cut, machine, save, saved, short, table

MARKS = [10, 20, 40, 80, 160, 320, 640]
SCORED = 12  # samples of the second half that are averaged
WATCHED = ("topics_above_0.1%", "topics_above_1%", "log_mixture", "n_topics")


def make(corpus, sampler, start, moves):
    from hdp_nb.models.topic_models import SAMPLERS
    from hdp_nb.moves.schedule import TopicMoves

    begin = start if start == "sequential" else int(start)
    base = SAMPLERS[sampler](corpus, eta=0.1, init=begin)
    return TopicMoves(base) if moves else base


class Scorer:
    "Held-out score of the average of samples, by document completion."

    def __init__(self, test):
        import numpy as np

        self.observed, self.heldout = test.split_tokens(0.5, np.random.default_rng(0))
        self.sum, self.n = np.zeros(self.heldout.n_tokens), 0

    def add(self, sample):
        import numpy as np

        from hdp_nb.topics.counts import fold_in, predictive_topics, token_probabilities

        phi, weight = predictive_topics(sample)
        pi, p = np.empty((self.observed.n_docs, weight.size)), np.zeros(self.sum.size)
        rng = np.random.default_rng(self.n)
        fold_in(rng, self.observed.x, self.observed.offsets, phi, weight, 60, 20, pi)
        token_probabilities(self.heldout.x, self.heldout.offsets, phi, pi, p)
        self.sum, self.n = self.sum + p, self.n + 1

    def score(self):
        import numpy as np

        return float(np.log(self.sum / self.n).mean())


def run(train, test, start, options):
    "One chain: what is noted of it, its trace, and its last topics as counts."
    import numpy as np

    tiny = make(train[:20], options.sampler, start, not options.without)
    rng = np.random.default_rng(0)
    state = tiny.init(rng)
    for _ in range(3):
        state, _ = tiny.sweep(rng, state)  # compiles
    model, rng = make(train, options.sampler, start, not options.without), np.random.default_rng(1)
    marks, scorer, trace = [], Scorer(test), {name: [] for name in WATCHED}
    times = [m for m in MARKS if m < options.seconds] + [options.seconds]
    due = list(np.linspace(0.5, 1, SCORED + 1)[1:] * options.seconds)
    began = time.process_time()
    state = model.init(rng)
    clock, half = time.process_time() - began, None
    while times:
        began = time.process_time()
        state, info = model.sweep(rng, state)
        clock += time.process_time() - began
        for name in WATCHED:
            trace[name].append(float(info[name]))
        if clock > options.seconds / 2 and half is None:
            half = len(trace["n_topics"])
        if clock >= due[0]:
            due = [t for t in due if t > clock] + [np.inf]
            scorer.add(model.snapshot(state))
        if clock >= times[0]:
            times = [t for t in times if t > clock]
            marks.append(
                {
                    "seconds": round(clock, 1),
                    "sweeps": len(trace["n_topics"]),
                    "topics": int(info["topics_above_0.1%"]),
                    "log_mixture": round(info["log_mixture"] / train.n_tokens, 4),
                }
            )
    found = {"marks": marks, "heldout": round(scorer.score(), 4), "topics": marks[-1]["topics"]}
    kept = {name: np.array(values[half:]) for name, values in trace.items()}
    return found, kept, np.asarray(state.n_vk[:, : int(state.K)]).T.astype(float)


def counterparts(a, b, least=0.9):
    "Share of the tokens of the topics of counts `a` that have one among `b` with such a cosine."

    a, b = a[a.sum(axis=1) > 0], b[b.sum(axis=1) > 0]
    has = cosines(a, b).max(axis=1) > least
    return float(a[has].sum() / a.sum())


def verdict(traces):
    "What `judge` says of chains, thinned to as many draws as the shortest has."
    import numpy as np

    from hdp_nb.mcmc.convergence import judge

    n = min(len(trace["n_topics"]) for trace in traces)
    at = [np.linspace(0, len(trace["n_topics"]) - 1, n).astype(int) for trace in traces]
    told = judge({name: [t[name][i] for t, i in zip(traces, at)] for name in WATCHED})
    return bool(told.converged), {name: round(float(told[name].rhat), 2) for name in WATCHED}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--starts", nargs="+", default=["1", "20", "100", "300", "sequential"])
    parser.add_argument("--seconds", type=float, default=80)
    parser.add_argument("--sampler", default="crf", choices=["crf", "direct", "hybrid", "parallel"])
    parser.add_argument("--without", action="store_true", help="the sampler without moves")
    options = parser.parse_args()
    train, test = cut(options.corpus)
    how = "without" if options.without else "with"
    name = f"{short(options.corpus)}, {options.sampler}, {how} moves, {options.seconds:g} s"
    found = saved("texts") or {"runs": {}}
    if name not in found["runs"]:
        chains = {start: run(train, test, start, options) for start in options.starts}
        made = {
            "documents": train.n_docs,
            "tokens": train.n_tokens,
            "words": train.n_words,
            "chains": {start: chain[0] for start, chain in chains.items()},
            "counterparts": {
                f"{a}, {b}": round(counterparts(chains[a][2], chains[b][2]), 3)
                for a, b in itertools.permutations(chains, 2)
            },
        }
        apart = [chains[start][1] for start in ("1", "100") if start in chains]
        if len(apart) == 2:
            made["converged"], made["rhat"] = verdict(apart)
        found = saved("texts") or {"runs": {}}  # another run may have saved meanwhile
        found["runs"][name], found["machine"] = made, machine()
        save("texts", found)
    made = found["runs"][name]
    print(f"\n{name}: {made['documents']} documents, {made['tokens']} tokens")
    rows = [
        [start, *(f"{m['topics']}" for m in chain["marks"]), chain["marks"][-1]["sweeps"]]
        + [f"{chain['marks'][-1]['log_mixture']:.4f}", f"{chain['heldout']:.4f}"]
        for start, chain in made["chains"].items()
    ]
    marks = [f"{m['seconds']:.0f} s" for m in next(iter(made["chains"].values()))["marks"]]
    table(["from", *marks, "sweeps", "log mixture", "held out"], rows)
    print("counterparts:", made["counterparts"])
    print("verdict:", made.get("converged"), made.get("rhat"))


if __name__ == "__main__":
    main()
