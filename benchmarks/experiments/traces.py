"""Whether the direct and the parallel sampler come to the same, where those of Terenin, Magnusson
and Jonsson (2020) do not: log likelihood and number of topics against CPU time.

    python -m benchmarks.experiments.traces CORPUS [--seconds 200] [--from-one 40] [--handed 20]
        [--seed 0] [--franchise 60] [--turn 10] [--only direct]
    python -m benchmarks.experiments.traces --recorded CLONE

CORPUS: the path of a file that `load_corpus` reads; the paper's cgcbib.txt is abstracts on the
nematode, too. alpha 0.1, eta 0.01 and gamma 1 are held fixed, as in the paper.

Chains of the direct and of the parallel sampler, one thread each: from one topic, as in the paper,
without moves between numbers of topics and with the moves of topics, for --from-one seconds of CPU
time each; from 400 topics without moves, for --seconds. Then these two change places for --handed
seconds: each sampler goes on from where the other one ended, and from where it ended itself. What
one of them takes for the posterior the other must, too. A third one goes on with them: the parallel
sampler with the paper's Poisson Polya urn in the place of exact draws of the topics. With
--franchise, a fourth: the Chinese restaurant franchise, which then begins with 400 topics of its
own, for so many seconds.

Pairs take turns, --turn seconds each, so that a machine whose speed drifts slows all of them; with
--only, one of a pair runs in a process of its own, beside the other. The time is that of whole
sweeps with their own trace, without the compiler and without what is computed for this script
alone. Noted at the end of every turn:

sweeps, topics, topics with a thousandth of the tokens or more; log p(x | z); the log likelihood
that the paper's program writes, which is that of LDA with 1,000 topics,
log p(x | z) + log p(z | 1,000 topics, 0.1 each); the log probability of the words with their topics
summed out given the weights (`log_mixture`).

results/traces_NAME.json is written after every round. Runs of other seeds that are in it are kept.
In it is also what the two log probabilities are while all tokens are in one topic.

CLONE: a working copy of the paper's results, github.com/aterenin/Parallel-HDP-Experiments. Their
log likelihoods and numbers of topics at some sweeps go into results/traces_recorded.json.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.common import load, machine, save, saved, short, table

ALPHA, ETA, GAMMA = 0.1, 0.01, 1.0
CAPACITY = 1000  # topics of the formula
SAMPLED = "direct", "parallel"
RECORDED = 0, 100, 300, 1000, 3000, *range(10_000, 100_001, 10_000)  # sweeps of the paper's chains
NOTED = "seconds", "sweeps", "K", "K above .1%", "words", "recorded formula", "mixture"


class Flat(NamedTuple):
    "Topics of tokens under equal weights."

    z: Any
    n_k: Any
    alpha: Any
    beta: Any


def recorded_formula(log_words, state, offsets):
    """The log likelihood as the paper's program has it, of a state with log p(x | z); None if there
    are more topics than its formula has.
    """
    import numpy as np

    from hdp_nb.topics.direct import log_topics

    if state.K > CAPACITY:
        return None
    weights = np.array(ALPHA * CAPACITY), np.full(CAPACITY, 1 / CAPACITY)
    return round(log_words + log_topics(Flat(state.z, state.n_k, *weights), offsets))


def one_topic(corpus):
    "log p(x | z) and the recorded formula with all tokens in one topic."
    import numpy as np

    from hdp_nb.topics.counts import log_likelihood
    from hdp_nb.topics.direct import DirectSampler

    state = DirectSampler(corpus, ETA, ALPHA, GAMMA, init=1).init(np.random.default_rng(0))
    words = log_likelihood(state.n_vk, state.n_k, ETA)
    formula = recorded_formula(words, state, corpus.offsets)
    return {"words": round(words), "recorded formula": formula}


def read_recorded(clone):
    "Log likelihoods and numbers of topics of the paper's chains at some sweeps, by chain."
    found = {}
    for corpus, sampler, name in (
        ("AP", "direct", "ap_ilda"),
        ("AP", "parallel", "ap"),
        ("CGCBIB", "direct", "cgcbib_ilda"),
        ("CGCBIB", "parallel", "cgcbib"),
    ):
        for i in range(1, 6):
            folder = clone / f"results_{name}{f'_{i}' * (i > 1)}"
            (file,) = folder.glob("**/likelihood.txt")
            likelihood = dict(line.split() for line in file.read_text().splitlines())
            text = (file.parent / "ActiveTopicsInData.csv").read_text()
            K = [int(k) for k in text.replace("\n", "").strip(", ").split(",")][-RECORDED[-1] :]
            found[f"{corpus}, {sampler}, {i}"] = {
                "log likelihood": [round(float(likelihood[str(n)])) for n in RECORDED],
                "K": [K[max(n, 1) - 1] for n in RECORDED],
            }
    return found


def samplers():
    "Samplers by name; the urn draws topics from numbers with Poisson distributions."
    import numpy as np

    from hdp_nb.models.topic_models import SAMPLERS
    from hdp_nb.topics.parallel import ParallelSampler, in_turn, sample_topics

    def urn(kernel, blocks, *args):
        if kernel is not sample_topics:
            return in_turn(kernel, blocks, *args)
        seed, L, (eta, *_), n_vk, plan, work = args
        g = np.random.default_rng(int(seed)).poisson(eta + n_vk[:, :L]).astype(float)
        g[g.sum(axis=1) == 0] = 1e-9  # a word without a topic: all are the same to it
        work.g[:, :L], work.total[:] = g, 0
        work.total[0, :L] = g[np.diff(plan.start) > 0].sum(axis=0)

    class Urn(ParallelSampler):
        def _sweep(self, rng, state, run=None):
            return super()._sweep(rng, state, urn)

    return SAMPLERS | {"urn": Urn}


class Run:
    "A chain, and what is noted of it."

    def __init__(self, corpus, name, start, moves, seed):
        import numpy as np

        from hdp_nb.moves.schedule import TopicMoves

        def make(documents, start):
            base = samplers()[name](documents, ETA, ALPHA, GAMMA, None, None, start)
            return TopicMoves(base) if moves else base

        rng, few = np.random.default_rng(seed), make(corpus[:100], 10)
        state = few.init(rng)
        for _ in range(3):  # compiles
            state = few.sweep(rng, state)[0]
        self.sampler, self.rng = make(corpus, start), np.random.default_rng(seed)
        self.corpus, self.state = corpus, self.sampler.init(self.rng)
        self.seconds, self.sweeps, self.notes = 0.0, 0, {key: [] for key in NOTED}

    def advance(self, until):
        "Sweep until so many seconds are used."
        while self.seconds < until:
            began = time.process_time()
            self.state, info = self.sampler.sweep(self.rng, self.state)
            self.seconds += time.process_time() - began
            self.sweeps += 1
        words, state = float(info["log_likelihood"]), getattr(self.state, "base", self.state)
        values = (
            round(self.seconds, 1),
            self.sweeps,
            int(info["n_topics"]),
            int(info["topics_above_0.1%"]),
            round(words),
            recorded_formula(words, state, self.corpus.offsets),
            round(float(info["log_mixture"])),
        )
        for key, value in zip(NOTED, values):
            self.notes[key].append(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("corpus", type=Path, nargs="?")
    parser.add_argument("--recorded", type=Path, metavar="CLONE")
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--from-one", type=float, default=40)
    parser.add_argument("--handed", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--franchise", type=float, default=0)
    parser.add_argument("--turn", type=int, default=10)
    parser.add_argument("--only", choices=SAMPLED, help="none is handed over then")
    options = parser.parse_args()
    if options.recorded:
        found = {"sweeps": RECORDED, "chains": read_recorded(options.recorded)}
        save("traces_recorded", found)
        return
    if not options.corpus:
        parser.error("CORPUS or --recorded CLONE is needed")
    corpus = load(options.corpus)[0]
    name = f"traces_{short(options.corpus)}"
    runs, found = (
        {},
        {
            "documents": corpus.n_docs,
            "tokens": corpus.n_tokens,
            "words": corpus.n_words,
            "settings": {"alpha": ALPHA, "eta": ETA, "gamma": GAMMA, "capacity": CAPACITY},
            "one topic": one_topic(corpus),
            "machine": machine(),
        },
    )

    def in_turns(chains, seconds):
        for until in range(options.turn, int(seconds) + 1, options.turn):
            for key, run in chains.items():
                run.advance(until)
                runs[f"{key}, seed {options.seed}"] = run.notes
            # Read again each time: another process may have made some of them.
            save(name, found | {"runs": saved(name).get("runs", {}) | runs})
            print(until, *(r.notes["K"][-1] for r in chains.values()), flush=True)

    def make(sampler, start, moves=False):
        return Run(corpus, sampler, start, moves, options.seed)

    chosen = [options.only] if options.only else SAMPLED
    if options.from_one:
        for moves in (False, True):
            label = f"{', topic moves' * moves}, from 1"
            in_turns({f"{s}{label}": make(s, 1, moves) for s in chosen}, options.from_one)
    if options.seconds:
        many = {f"{s}, from 400": make(s, 400) for s in chosen}
        in_turns(many, options.seconds)
    if options.seconds and not options.only:
        ends = {s: many[f"{s}, from 400"].state for s in SAMPLED}
        heirs = (*SAMPLED, "urn", *["crf"] * bool(options.franchise))
        handed = {f"{s}, after {end}": make(s, ends[end]) for end in SAMPLED for s in heirs}
        in_turns(handed, options.handed)
    if options.franchise:
        in_turns({"crf, from 400": make("crf", 400)}, options.franchise)
    columns = ["sweeps", "K", "K above .1%", "words", "recorded formula"]
    table(["chain", *columns], [[k, *(r[c][-1] for c in columns)] for k, r in runs.items()])


if __name__ == "__main__":
    main()
