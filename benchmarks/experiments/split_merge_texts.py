"""Split and merge on texts (Wang & Blei 2012, figures 5 to 8): their own algorithm, which is the
franchise with uniform anchors, beside informed anchors, moves of topics, and direct assignment.

    python -m benchmarks.experiments.split_merge_texts CORPUS [--seeds 20] [--sweeps 500]
        [--samplers crf direct] [--arms "no moves" uniform informed "topic moves"]

CORPUS: 'jargon', 'kjv', or 'nips_sections', of which every fifth is taken and which is read from
the folder that HDP_NB_DATA names. As in the paper 80% of the documents are for training (a seed
cuts the documents, too), eta is 0.2, priors are Gamma(1, 1), the start is sequential prediction,
and there are proposals, here ten, before each of the first 50 sweeps. The moves of topics are made
as by default, annealing included. Noted of a run: the log likelihood per word, the best so far at
ten marks, and its mean over the last tenth of the sweeps; the held-out score of the average of six
samples of the second half; topics; proposals accepted; CPU seconds. Runs that are in
results/split_merge_texts.json already are not made again. That file has twenty seeds of all.
"""

import argparse
import itertools
import time

from benchmarks.common import load, machine, nips_sections, save, saved, table

ARMS = ("no moves", "uniform", "informed", "topic moves")
ETA, PROPOSALS, UNTIL = 0.2, 10, 50


def make(sampler, arm, n_iter, seed):
    from hdp_nb import HDP
    from hdp_nb.moves.schedule import Moves
    from hdp_nb.moves.split_merge import HDPSplitMerge

    class Uniform(HDP):
        def _sampler(self, corpus):
            made = super()._sampler(corpus)
            return HDPSplitMerge(made.base, made.n_proposals, made.until, anchors="uniform")

    return (Uniform if arm == "uniform" else HDP)(
        sampler=sampler,
        eta=ETA,
        moves=Moves(
            1 if arm == "topic moves" else 0,
            split_merge=PROPOSALS if arm in ("uniform", "informed") else 0,
            until=UNTIL,
        ),
        init="sequential",
        n_iter=n_iter,
        burn_in=n_iter // 2,
        thin=n_iter // 10,
        n_chains=1,
        n_jobs=1,
        random_state=seed,
    )


def run(corpus, sampler, arm, seed, n_iter):
    "One run to a split."
    import warnings

    import numpy as np

    from hdp_nb import document_completion

    train, test = corpus.split_docs(0.2, np.random.default_rng(seed))
    model, began = make(sampler, arm, n_iter, seed), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a single chain nobody knows whether it has converged
        model.fit(train)
    seconds, trace = time.process_time() - began, model.trace_
    score = trace["log_likelihood"] / train.n_tokens
    best = np.maximum.accumulate(score)
    tried = [f"{kind}_{what}" for kind in ("splits", "merges") for what in ("proposed", "accepted")]
    return {
        "best": best[n_iter // 10 - 1 :: n_iter // 10].round(5).tolist(),
        "last": round(float(score[-n_iter // 10 :].mean()), 5),
        "held out": round(document_completion(model, test, 0.2, random_state=0), 5),
        "samples": len(model.samples_),
        "topics": int(trace["n_topics"][-1]),
        **{name: int(trace[name].sum()) for name in tried if name in trace},
        "seconds": round(seconds, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("corpus", choices=["jargon", "kjv", "nips_sections"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=500)
    parser.add_argument("--samplers", nargs="+", default=["crf", "direct"])
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS)
    options = parser.parse_args()
    name = options.corpus
    corpus = nips_sections()[::5] if name == "nips_sections" else load(name)[0]
    made, rows = lambda: saved("split_merge_texts").get("runs", {}), []
    kinds = list(itertools.product(options.samplers, options.arms))
    for sampler, arm in kinds:
        run(corpus[:50], sampler, arm, 0, 10)  # compiles
    for seed, (sampler, arm) in itertools.product(range(options.seeds), kinds):
        key = f"{name}, {sampler}, {arm}, seed {seed}"
        if key not in made():
            found = run(corpus, sampler, arm, seed, options.sweeps)
            # Read again: another process may have made some of them.
            runs = made() | {key: found}
            save(
                "split_merge_texts", {"runs": runs, "sweeps": options.sweeps, "machine": machine()}
            )
            print(key, found, flush=True)
    for sampler, arm in kinds:
        runs = [made()[f"{name}, {sampler}, {arm}, seed {i}"] for i in range(options.seeds)]
        mean = lambda what: sum(r[what] for r in runs) / len(runs)
        shown = [f"{mean(what):.4f}" for what in ("last", "held out")]
        rows.append([sampler, arm, *shown, f"{mean('topics'):.0f}", f"{mean('seconds'):.1f}"])
    table(["sampler", "moves", "last", "held out", "topics", "s"], rows)


if __name__ == "__main__":
    main()
