"""Held out: `HDP` with all its defaults against an LDA whose number of topics an oracle gave.

    python -m benchmarks.topics.oracle [--corpus NAME ...] [--seeds 3] [--seconds 10 20 60]
        [--only oracle averaged hdp direct] [--show]

Corpora: sotu, kjv, bars, and, where HDP_NB_DATA names a folder that has them, cgc and nips (the
papers with their sections as one corpus). Nine tenths of the documents are learned from, words
that are not in these are left out, half of the words of the others is shown and the other half
predicted: the same halves for all, by the same code (Gibbs with topics held fixed).

The LDA is tomotopy's, on one worker, with its defaults: it learns alpha, a number for each topic,
every ten sweeps, and holds eta. The oracle tries two values of eta, and with the better one other
numbers of topics, for 20 CPU seconds each, and gives it those with the best score on the held-out
documents themselves; its tries cost nothing. It is scored by its topics after 10, 20 and 60 CPU
seconds, with the concentrations that it has learned ("own"), and with the best of these and of sums
of 1 and 5 ("helped"). That is one state, as its program predicts. "averaged" runs it again, keeps a
state of every ten sweeps, and predicts by the mean over those of the second half of
what the seconds gave, which is not what its program does, but what `HDP` does ("average").

`HDP` has two chains, from one topic and from a hundred, each of which has half of the seconds, as
on two cores with `max_time` at half of them, by which it plans the annealing of its moves.
"average": what it predicts, the mean over the samples that it keeps, of both chains, which are
weighed by stacking (what this takes, "weighing", is not counted); "equal": without weights. "one":
the last state of the chain that it would show, which predicts best what is left out. "alone": the
last state of one chain, `n_chains=1`, that begins with a hundred topics and has all of the time,
and "alone, average" the mean over what it keeps, but for the longest time. Every time is a run of
its own.

"direct" is `HDP(sampler="direct")`, its other parameters being the defaults.

Seconds are those of the processor for learning: neither compiling, nor reading, nor scoring counts.
Runs are saved as they end, and not made again unless they were shorter than what is asked for.
"""

import argparse
import os
import time
from itertools import product
from pathlib import Path

from benchmarks.common import load, machine, nips_sections, save, saved, table, tomotopy_step

BUDGETS = [10, 20, 60]
TRIED = 20  # CPU seconds of a try of the oracle
ETAS = {"bars": [0.5, 0.1]}  # that it tries, with the first of the numbers; of texts:
ETAS_OF_TEXTS = [0.1, 0.01]  # the second is tomotopy's default
NUMBERS = {"bars": [20, 30]}  # of topics; of texts:
NUMBERS_OF_TEXTS = [100, 200, 400]
CONCENTRATIONS = [1.0, 5.0]  # sums of the parameters of a new document, tried beside its own
PARTS = ["oracle", "averaged", "hdp", "direct"]
CORPORA = ["sotu", "cgc", "kjv", "bars", "nips"]
AT_ONCE = 5  # sweeps in one call of tomotopy, each of which costs something
THIN, MOST = 10, 10_000
WARM = set()  # corpora and parts whose kernels this process has loaded


def parts(name):
    "Documents to learn from, and others, over the words that are in the first."
    import numpy as np

    if name == "nips":
        corpus = nips_sections()
    else:
        path = Path(os.environ.get("HDP_NB_DATA", "")) / name / f"{name}.npz"
        corpus = load(path if name == "cgc" else name)[0]
    learned, others = (part.to_matrix() for part in corpus.split_docs(0.1, 0))
    seen = np.asarray(learned.sum(axis=0)).ravel() > 0
    kind = type(corpus)
    return [kind.from_matrix(X[:, seen]) for X in (learned, others)]


class Scorer:
    "Mean log probability of the hidden halves of documents."

    def __init__(self, documents, learned):
        import numpy as np

        self.learned = learned
        self.shown, self.hidden = documents.split_tokens(0.5, np.random.default_rng(0))

    def add(self, p, phi, weight, n_sweeps, burn_in, seed):
        "Add the probabilities of the hidden tokens by these topics to p."
        import numpy as np

        from hdp_nb.topics.counts import fold_in, token_probabilities

        room = -len(weight) % 4
        phi, weight = np.pad(phi, ((0, 0), (0, room))), np.pad(weight, (0, room))
        pi, rng = np.empty((self.shown.n_docs, len(weight))), np.random.default_rng(seed)
        fold_in(rng, self.shown.x, self.shown.offsets, phi, weight, n_sweeps, burn_in, pi)
        token_probabilities(self.hidden.x, self.hidden.offsets, phi, pi, p)

    def one(self, phi, weight):
        "By the topics of one sample."
        import numpy as np

        p = np.zeros(self.hidden.n_tokens)
        self.add(p, phi, weight, 60, 20, 0)
        return round(float(np.log(p).mean()), 4)

    def probabilities(self, samples):
        "The mean over samples of the probability of every hidden token."
        from hdp_nb.topics.counts import predictive_topics

        return self.mean(predictive_topics(sample) for sample in samples)

    def mean(self, topics):
        "The mean of the probability of every hidden token over pairs of topics and their weights."
        import numpy as np

        p, n = np.zeros(self.hidden.n_tokens), 0
        for phi, weight in topics:
            self.add(p, phi, weight, 25, 5, n)
            n += 1
        return p / n

    def average(self, chains):
        """By all samples of all chains, with the weights that `HDP` gives to chains that do not
        agree, and with equal ones; and by the last state of the chain that it shows.
        """
        import numpy as np

        from hdp_nb.models.stacking import weigh_chains
        from hdp_nb.topics.counts import predictive_topics

        p = np.array([self.probabilities(chain["samples"]) for chain in chains])
        z, last = ([chain[what] for chain in chains] for what in ("z", "last"))
        began = time.process_time()
        topics_of = lambda counts, _: predictive_topics(counts)
        states = [[state] for state in zip(z, last)]
        weights, left_out = weigh_chains(self.learned, states, topics_of)[:2]
        seconds = time.process_time() - began
        numbers = np.array([len(chain["samples"]) for chain in chains])
        score = lambda w: round(float(np.log(w @ p).mean()), 4)
        best = int(np.argmax(left_out))
        return {
            "average": score(weights),
            "equal": score(numbers / numbers.sum()),
            "weights": weights.round(3).tolist(),
            "weighing": round(seconds, 2),
            "one": self.one(*predictive_topics(last[best])),
            "eta": round(float(last[best].eta), 4),
        }


def run_lda(documents, scorer, n_topics, eta, seed, budgets, averaged=False):
    "tomotopy's LDA, looked at after so many CPU seconds."
    import numpy as np
    import tomotopy

    def topics():
        phi = np.zeros((documents.n_words, n_topics))
        phi[[int(word) for word in model.used_vocabs]] = np.transpose(
            [model.get_topic_word_dist(k) for k in range(n_topics)]
        )
        return phi, np.array(model.alpha, float)

    model = tomotopy.LDAModel(k=n_topics, eta=eta, seed=seed + 1)
    step, clock, n, marks = tomotopy_step(model, documents, AT_ONCE), 0.0, 0, {}
    kept = {}  # topics and weights by the number of sweeps
    for budget in budgets:
        while clock < budget:
            began = time.process_time()
            step()
            clock, n = clock + time.process_time() - began, n + AT_ONCE
            if averaged and n % THIN == 0:
                kept[n] = topics()
        phi, own = topics()
        found = [scorer.one(phi, own / own.sum() * total) for total in [own.sum(), *CONCENTRATIONS]]
        marks[str(budget)] = {
            "seconds": round(clock, 2),
            "sweeps": n,
            "own": found[0],
            "helped": max(found),
            "alpha": round(float(own.sum()), 3),
        }
        if averaged:
            kept = {m: state for m, state in kept.items() if m > n / 2}
            score = float(np.log(scorer.mean(kept.values())).mean())
            marks[str(budget)] |= {"states": len(kept), "average": round(score, 4)}
    return marks


class Run:
    "A chain of `HDP` that has so many CPU seconds, with what it would keep."

    def __init__(self, sampler, rng, seconds):
        from hdp_nb.mcmc.convergence import Pace, plan_rounds

        self.sampler, self.rng, self.clock = sampler, rng, 0.0
        self.kept, self.n, self.thin, self.rounds = {}, 0, THIN, plan_rounds(MOST, THIN, 5)
        self.pace = Pace(sampler, seconds, MOST, clock=lambda: self.clock)
        self.looks = {*self.pace.looks(self.rounds)}
        began = time.process_time()
        self.state = sampler.init(rng)
        self.clock += time.process_time() - began
        while self.clock < seconds:
            self.sweep()

    def sweep(self):
        began, n = time.process_time(), self.n
        self.state, _ = self.sampler.sweep(self.rng, self.state)
        if n % self.thin == 0:
            self.kept[n] = self.sampler.snapshot(self.state)
        self.clock += time.process_time() - began
        self.n += 1
        if n + 1 in self.looks:
            self.pace.look(n + 1)
            if n + 1 < self.rounds[0]:
                self.kept, self.thin = {}, self.pace.thin(THIN)

    def told(self):
        "What `HDP` would keep, and its last state."
        n = self.n
        first = next(end for end in self.rounds if end >= n) // 2
        first = max(first, -(-self.pace.annealed // self.thin) * self.thin)
        samples = [sample for i, sample in self.kept.items() if i >= first]
        last = self.sampler.snapshot(self.state)
        return {
            "samples": samples + [last] * (n - 1 not in self.kept),
            "last": last,
            "z": self.state.z,
            "sweeps": n,
            "annealed": self.pace.annealed,
        }


def run_hdp(documents, scorer, seed, budgets, sampler="auto", lacking=()):
    "`HDP` with its defaults, but for the sampler: both chains, and one alone if it is lacking."
    import numpy as np

    from hdp_nb.mcmc.convergence import begin_apart
    from hdp_nb.models.topic_models import HDP
    from hdp_nb.topics.counts import predictive_topics

    def chains(seconds, only=(0, 1)):
        "What is told of chains that begin from one topic and from a hundred."
        model = HDP(sampler=sampler)
        samplers = begin_apart(model._sampler(documents), model.n_chains)
        rngs = np.random.default_rng(seed).spawn(model.n_chains)
        return [Run(samplers[i], rngs[i], seconds).told() for i in only]

    marks = {}
    for budget in budgets:
        both = chains(budget / 2)
        marks[str(budget)] = {
            "sweeps": [chain["sweeps"] for chain in both],
            "annealed": [chain["annealed"] for chain in both],
            "samples": [len(chain["samples"]) for chain in both],
            "topics": [int(chain["last"].n_vk.shape[1]) for chain in both],
            **scorer.average(both),
        }
        if str(budget) in lacking:
            (alone,) = chains(budget, only=(1,))
            marks[str(budget)] |= {
                "alone": scorer.one(*predictive_topics(alone["last"])),
                "alone, average": scorer.average([alone])["average"],
                "alone, sweeps": alone["sweeps"],
            }
    return marks


def note(corpus, part, key, found):
    "Save one run beside what is there; other processes may have saved meanwhile."
    now = {"corpora": {}} | saved("oracle")
    now["machine"] = machine()
    now["corpora"].setdefault(corpus, {}).setdefault(part, {})[key] = found
    save("oracle", now)


def had(corpus, part):
    "What is saved of a part."
    return saved("oracle").get("corpora", {}).get(corpus, {}).get(part, {})


def best_try(corpus):
    "Number of topics and eta of the best try of the oracle."
    tries = had(corpus, "tries")
    return max(tries, key=lambda key: tries[key]["helped"])


def consult(name, documents, scorer):
    "The tries of the oracle: values of eta, then other numbers of topics with the better one."

    def give(n, eta):
        key = f"{n}, {eta:g}"
        if key not in had(name, "tries"):
            found = run_lda(documents, scorer, n, eta, 100, [TRIED])
            note(name, "tries", key, found[str(TRIED)])
        return had(name, "tries")[key]["helped"]

    first, *others = NUMBERS.get(name, NUMBERS_OF_TEXTS)
    eta = max(ETAS.get(name, ETAS_OF_TEXTS), key=lambda eta: give(first, eta))
    for n in others:
        give(n, eta)


def lacks(name, part, seed, budgets):
    "Whether a run is yet to be made, or was too short."
    mark = had(name, part).get(str(seed), {}).get(str(budgets[-1]), {})
    return not mark or (part in ("hdp", "direct") and "equal" not in mark)


def run(name, only, seed, budgets):
    "All that is asked of one corpus and seed."
    documents, others = parts(name)
    scorer = Scorer(others, documents)
    about = {
        "documents": documents.n_docs,
        "tokens": documents.n_tokens,
        "words": documents.n_words,
        "hidden": scorer.hidden.n_tokens,
    }
    for key, value in about.items():
        note(name, "about", key, value)
    if "oracle" in only:
        consult(name, documents, scorer)
        n, eta = (given := best_try(name)).split(", ")
        before = had(name, "oracle").get(str(seed), {})
        if lacks(name, "oracle", seed, budgets) or before.get("given") != given:
            found = run_lda(documents, scorer, int(n), float(eta), seed, budgets)
            note(name, "oracle", str(seed), {"given": given, **found})
            told = [mark["own"] for mark in found.values()]
            print(name, "oracle", n, eta, seed, told, flush=True)
    if "averaged" in only and lacks(name, "averaged", seed, budgets):
        n, eta = best_try(name).split(", ")
        found = run_lda(documents, scorer, int(n), float(eta), seed, budgets, averaged=True)
        note(name, "averaged", str(seed), found)
        told = [(mark["own"], mark["average"]) for mark in found.values()]
        print(name, "averaged", n, eta, seed, told, flush=True)
    for part, sampler in (("hdp", "auto"), ("direct", "direct")):
        if part in only and lacks(name, part, seed, budgets):
            if (name, part) not in WARM:
                WARM.add((name, part))  # compiles, and passes the burn-in
                short = documents[:60]
                run_hdp(short, Scorer(others[:5], short), 0, [3, 6], sampler)
            before = had(name, part).get(str(seed), {})
            lacking = [str(b) for b in budgets[:-1] if "alone" not in before.get(str(b), {})]
            found = run_hdp(documents, scorer, seed, budgets, sampler, lacking)
            found = {key: before.get(key, {}) | mark for key, mark in found.items()}
            note(name, part, str(seed), before | found)
            told = [mark["average"] for mark in found.values()]
            print(name, part, seed, told, flush=True)


def differences(corpus, part, ours, its, budget):
    """Of runs with the same seed: mean, standard error where there are two or more, and how many
    there are.
    """
    import numpy as np

    hdp, lda, key = had(corpus, part), had(corpus, "oracle"), str(budget)
    pairs = [(hdp[s].get(key, {}), lda[s].get(key, {})) for s in hdp if s in lda]
    d = np.array([one[ours] - other[its] for one, other in pairs if ours in one and its in other])
    error = d.std(ddof=1) / np.sqrt(len(d)) if len(d) > 1 else float("nan")
    return (float(d.mean()) if len(d) else float("nan")), float(error), len(d)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpus", nargs="+", choices=CORPORA, default=CORPORA)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=["oracle", "hdp"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", nargs="+", type=int, choices=BUDGETS, default=BUDGETS)
    parser.add_argument("--show", action="store_true", help="what is there; nothing is run")
    options = parser.parse_args()
    for seed in range(0 if options.show else options.seeds):
        for name in options.corpus:
            run(name, options.only, seed, sorted(options.seconds))
    rows = []
    for name, part, budget in product(options.corpus, PARTS[2:], BUDGETS):
        cells = []
        for ours in ("average", "one", "alone", "alone, average"):
            mean, error, n = differences(name, part, ours, "own", budget)
            cells.append(f"{mean:+.3f} ({error:.3f}, {n})" if n else "")
        helped, _, n = differences(name, part, "average", "helped", budget)
        if n:
            rows.append([name, part, budget, *cells, f"{helped:+.3f}"])
    table(["corpus", "", "s", "average", "one", "alone", "alone, average", "against helped"], rows)


if __name__ == "__main__":
    main()
