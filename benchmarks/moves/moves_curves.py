"""Held-out score against CPU time with moves and without them: what the moves cost where nothing is
gained, on texts and on bars.

    python -m benchmarks.moves.moves_curves [--corpus sotu kjv bars] [--samplers crf direct]
        [--eta fixed learned] [--seeds 2] [--seconds 30]

A chain of the franchise and one of direct assignment from 100 topics at random, eta 0.1 (of
bars 0.5) or learned, as `HDP` would run it in 300 sweeps (with moves annealed in the first hundred,
where there are any: with 1,000 words and fifty topics there are none). At 1, 2, 5, 10, 20 and 30
CPU seconds one sample is scored by document completion on a tenth of the documents. Results:
benchmarks/results/moves_curves.json
"""

import argparse
import itertools
import time

from benchmarks.common import load, machine, save, saved, short, table

MARKS = [1, 2, 5, 10, 20, 30]


def run(corpus, sampler, moves, eta, seed, seconds):
    "Scores at the marks, and how many sweeps had been made."
    import numpy as np

    from hdp_nb import HDP, Moves
    from hdp_nb.evaluation.scores import document_completion

    train, test = load(corpus)[0].split_docs(0.1, 0)

    def make(corpus):
        return HDP(sampler=sampler, eta=eta, moves=Moves(moves, split_merge=0), init=100)._sampler(
            corpus
        )

    def sweep_through(model, rng, state, seconds):
        clock, sweeps = 0.0, 0
        while clock < seconds:
            began = time.process_time()
            state, _ = model.sweep(rng, state)
            clock, sweeps = clock + time.process_time() - began, sweeps + 1
            yield clock, sweeps, state

    tiny = make(train[:40])  # compiles
    rng = np.random.default_rng(0)
    for _ in sweep_through(tiny, rng, tiny.init(rng), 2.0):
        pass
    model, rng, marks = make(train), np.random.default_rng(seed), []
    due, shell = [m for m in MARKS if m <= seconds], HDP()
    shell.n_features_in_, shell.vocabulary_ = train.n_words, None
    for clock, sweeps, state in sweep_through(model, rng, model.init(rng), seconds):
        if clock < due[len(marks)]:
            continue
        shell.samples_ = [model.snapshot(state)]
        score = document_completion(shell, test, random_state=0)
        while len(marks) < len(due) and clock >= due[len(marks)]:  # a sweep may pass several
            marks.append({"score": round(score, 4), "sweeps": sweeps, "K": int(state.K)})
    return marks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpus", nargs="+", default=["sotu", "kjv", "bars"])
    parser.add_argument("--samplers", nargs="+", default=["crf", "direct"])
    parser.add_argument("--eta", nargs="+", default=["fixed", "learned"])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30)
    options = parser.parse_args()
    found = saved("moves_curves") or {"runs": {}}
    cases = itertools.product(options.corpus, options.samplers, options.eta)
    rows = []
    for corpus, sampler, how in cases:
        for seed, moves in itertools.product(range(options.seeds), (0, "auto")):
            name = f"{short(corpus)}, {sampler}, eta {how}, moves {moves}, seed {seed}"
            if name not in found["runs"]:
                eta = None if how == "learned" else 0.5 if corpus == "bars" else 0.1
                made = run(corpus, sampler, moves, eta, seed, options.seconds)
                found = saved("moves_curves") or found  # another run may have saved meanwhile
                found["runs"][name], found["machine"] = made, machine()
                save("moves_curves", found)
            marks = found["runs"][name]
            rows.append([name, *(f"{m['score']:.3f}" for m in marks), marks[-1]["sweeps"]])
    table(["chain", *(f"{m} s" for m in MARKS if m <= options.seconds), "sweeps"], rows)


if __name__ == "__main__":
    main()
