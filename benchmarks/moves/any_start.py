"""Whether it matters where a fit begins: held-out score after 30 CPU seconds from 2 topics, from
100, and by sequential prediction, with and without split-merge moves.

    python -m benchmarks.moves.any_start [--corpus sotu] [--seconds 30] [--samplers direct]
        [--moves 0 10]

2,000 documents to learn from, 300 others to be scored by document completion (half of the words are
shown), eta 0.1. Noted at several times: the score of the
sample of that moment, topics; in the end also that of the average of ten samples of the second half
of the time.
"""

import argparse
import time

from benchmarks.common import cut, here, machine, save, saved, short, table

MARKS = [2, 5, 10, 15, 20, 25, 30, 60, 120]


def run(train, test, sampler, start, moves, until, seconds, seed=0):
    "One chain: its marks, and the score of the average."
    import numpy as np

    from hdp_nb.models import topic_models
    from hdp_nb.moves.split_merge import HDPSplitMerge
    from hdp_nb.topics.counts import fold_in, predictive_topics, token_probabilities

    observed, heldout = test.split_tokens(0.5, np.random.default_rng(0))

    def make(corpus):
        made = topic_models.SAMPLERS[sampler](corpus, 0.1, 1.0, 1.0, (1, 1), (1, 1), start)
        return HDPSplitMerge(made, moves, until) if moves else made

    def predict(model, state):
        phi, weight = predictive_topics(model.snapshot(state))
        pi, p = np.empty((observed.n_docs, weight.size)), np.zeros(heldout.n_tokens)
        fold_in(np.random.default_rng(0), observed.x, observed.offsets, phi, weight, 60, 20, pi)
        token_probabilities(heldout.x, heldout.offsets, phi, pi, p)
        return p

    tiny = make(train[:40])
    tiny.sweep(np.random.default_rng(0), tiny.init(np.random.default_rng(0)))  # compiles
    model, rng = make(train), np.random.default_rng(seed)
    began = time.process_time()
    state, info = model.init(rng), {}
    clock, sweeps, marks, kept, times = (
        time.process_time() - began,
        0,
        [],
        [],
        [m for m in MARKS if m <= seconds],
    )
    keep_at = list(np.linspace(0.55, 1, 10) * seconds)
    while times:
        began = time.process_time()
        state, info = model.sweep(rng, state)
        clock, sweeps = clock + time.process_time() - began, sweeps + 1
        if clock >= keep_at[0]:
            keep_at = [t for t in keep_at if t > clock] + [np.inf]
            kept.append(predict(model, state))
        if clock >= times[0]:
            times = times[1:]
            marks.append(
                {
                    "seconds": round(clock, 2),
                    "heldout": round(float(np.log(predict(model, state)).mean()), 4),
                    "K": int(info["n_topics"]),
                    "sweeps": sweeps,
                    "log_joint": round(info["log_joint"] / train.n_tokens, 4),
                }
            )
    return {
        "sampler": sampler,
        "start": start,
        "moves": moves,
        "until": until,
        "seed": seed,
        "marks": marks,
        "average": round(float(np.log(np.mean(kept, axis=0)).mean()), 4),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--corpus", default="sotu")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--samplers", nargs="+", default=["direct"])
    parser.add_argument("--starts", nargs="+", default=["2", "100", "sequential"])
    parser.add_argument("--moves", nargs="+", type=int, default=[0, 10], help="proposals a sweep")
    parser.add_argument("--until", type=int, help="sweeps with proposals; not given: all")
    parser.add_argument("--seed", type=int, default=0)
    here(parser)
    args = parser.parse_args()
    train, test = cut(args.corpus)
    name, rows = f"starts_{short(args.corpus)}", []
    key = lambda found: tuple(
        found[part] for part in ("sampler", "start", "moves", "until", "seed")
    )
    for sampler in args.samplers:
        for moves in args.moves:
            for start in args.starts:
                found = run(
                    train,
                    test,
                    sampler,
                    int(start) if start.isdigit() else start,
                    moves,
                    args.until if moves else None,
                    args.seconds,
                    args.seed,
                )
                others = [run for run in saved(name).get("runs", []) if key(run) != key(found)]
                save(
                    name,
                    {
                        "machine": machine(),
                        "corpus": short(args.corpus),
                        "documents": train.n_docs,
                        "tokens": train.n_tokens,
                        "runs": [*others, found],
                    },
                )
                rows.append(
                    [
                        sampler,
                        moves,
                        start,
                        *(f"{mark['heldout']:.3f}" for mark in found["marks"]),
                        f"{found['average']:.3f}",
                        found["marks"][-1]["K"],
                        found["marks"][-1]["sweeps"],
                    ]
                )
                print(rows[-1], flush=True)
    table(
        [
            "sampler",
            "moves",
            "start",
            *(f"{m} s" for m in MARKS if m <= args.seconds),
            "average",
            "K",
            "sweeps",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
