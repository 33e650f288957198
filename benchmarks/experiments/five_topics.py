"""Split and merge on the synthetic set of Wang & Blei (2012), figures 3 and 4: their own algorithm,
in the franchise with uniform anchors, to the paper's length, beside what else there is.

    python -m benchmarks.experiments.five_topics [--seeds 20] [--sweeps 1000]
        [--samplers crf direct] [--arms "no moves" uniform informed "topic moves"]

100 documents of 50 words from five topics over twelve words, two of them much alike
(`make_five_topics`); eta 0.5, Gamma(0.1, 1) priors, sequential prediction as the start, one
proposal a sweep. A run has found five topics if there are exactly five of 5% of the tokens or more
in most of its last half. Arms: no moves; proposals with uniform anchors (the paper's); with
informed ones; and the moves of topics with the topics of all tokens integrated out. Noted of a run:
whether it has, after 500 and after all sweeps; the best log likelihood per word so far, at ten
marks; proposals accepted; CPU seconds. Runs that are in results/five_topics.json already are not
made again.
"""

import argparse
import itertools
import time

from benchmarks.common import machine, save, saved, table

ARMS = ("no moves", "uniform", "informed", "topic moves")


def run(sampler, arm, seed, n_iter):
    import numpy as np

    from hdp_nb.corpora.synthetic import make_five_topics
    from hdp_nb.models.topic_models import SAMPLERS
    from hdp_nb.moves.schedule import TopicMoves
    from hdp_nb.moves.split_merge import HDPSplitMerge

    corpus, _ = make_five_topics(random_state=seed)
    prior = dict(alpha_prior=(0.1, 1), gamma_prior=(0.1, 1))
    model = SAMPLERS[sampler](corpus, 0.5, init="sequential", **prior)
    if arm in ("uniform", "informed"):
        model = HDPSplitMerge(model, anchors=arm)
    elif arm == "topic moves":
        model = TopicMoves(model)
    rng, began = np.random.default_rng(seed), time.process_time()
    state, big, score, tally = model.init(rng), [], [], {}
    for _ in range(n_iter):
        state, info = model.sweep(rng, state)
        big.append(int((state.n_k >= 0.05 * corpus.n_tokens).sum()))
        score.append(info["log_likelihood"])
        for name in info:
            if name.endswith(("proposed", "accepted")):
                tally[name] = tally.get(name, 0) + int(info[name])
    big, best = np.array(big), np.maximum.accumulate(score) / corpus.n_tokens
    most = lambda n: bool((big[n // 2 : n] == 5).mean() > 0.5)
    return {
        "found": {str(n): most(n) for n in (n_iter // 2, n_iter)},
        "best": best[n_iter // 10 - 1 :: n_iter // 10].round(5).tolist(),
        **tally,
        "seconds": round(time.process_time() - began, 2),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--sweeps", type=int, default=1000)
    parser.add_argument("--samplers", nargs="+", default=["crf", "direct"])
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS)
    options = parser.parse_args()
    found, rows = saved("five_topics") or {"runs": {}}, []
    found |= {"seeds": options.seeds, "sweeps": options.sweeps}
    for sampler, arm in itertools.product(options.samplers, options.arms):
        runs = []
        for seed in range(options.seeds):
            key = f"{sampler}, {arm}, seed {seed}"
            if key not in found["runs"]:
                found["runs"][key] = run(sampler, arm, seed, options.sweeps)
                found["machine"] = machine()
                save("five_topics", found)
            runs.append(found["runs"][key])
        halves = [sum(list(r["found"].values())[i] for r in runs) for i in (0, 1)]
        best = sum(r["best"][-1] for r in runs) / len(runs)
        rows.append([sampler, arm, *halves, f"{best:.4f}", f"{runs[-1]['seconds']:.1f}"])
    table(["sampler", "moves", "found by half", "by the end", "best", "s"], rows)


if __name__ == "__main__":
    main()
