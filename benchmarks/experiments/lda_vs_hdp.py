"""How many topics: LDA told a number against the HDP, on the same token kernel, and what moves of
tables and of topics add to it (section 6.1 of Teh et al. 2006).

    python -m benchmarks.experiments.lda_vs_hdp CORPUS [--topics 10 20 40 60 80 120]
        [--learned 60 120] [--folds 5] [--sweeps 250] [--eta 0.1 0.25 1 learned] [--starts 10 150]
        [--hdp "direct, from 10" "hybrid, from 150"] [--every 1] [--score-every 1]

CORPUS: 'sotu', 'kjv', or the path of a file that `load_corpus` reads, of which every n-th document
is taken with --every n. Its documents are dealt into ten piles; the first --folds of these are held
out in turn, and what is printed are differences within a fold. All chains: the same prior (eta 0.5,
alpha and gamma from Gamma(1, 1)), the same number of sweeps, of which the second half is kept at
every tenth; the token kernel is that of direct assignment throughout.

LDA with uniform weights at several numbers of topics, and with learned weights; the HDP from 10 and
from 150 topics (--starts) by direct assignment alone, with ten proposals of split-merge before each
sweep, with the moves of topics, with moves of whole tables (the hybrid), and with both (--hdp:
these).

Scores, log probabilities per word: `document_completion` (four fifths of a document's words are
seen) of the pile, and equation 54 (`left_to_right`, five particles) of the first 200 of its
documents, with --score-every n of every n-th, which is wanted where documents are in order of time;
each for averages over 1, 2, 4, 8 and all samples (means over twenty subsets of the samples).

On the first fold the HDP with moves of topics is fitted with other values of eta, too, and with eta
learned. Runs that are in results/lda_vs_hdp_NAME.json already are not made again.
"""

import argparse
import time

from benchmarks.common import load, machine, save, saved, short, table

SIZES = (1, 2, 4, 8)
ARMS = {
    "direct": dict(sampler="direct", moves=0),
    "direct, split-merge": dict(sampler="direct", moves=(0, 10)),
    "direct, topic moves": dict(sampler="direct", moves="auto"),
    "hybrid": dict(sampler="hybrid", moves=0),
    "hybrid, topic moves": dict(sampler="hybrid", moves="auto"),
}


def models(options):
    "{name: what makes the model of `eta` and what else a chain takes}."
    from hdp_nb import HDP, LDA, Moves

    made = {f"LDA {K}": (LDA, dict(n_topics=K)) for K in options.topics}
    for K in options.learned:
        made[f"LDA {K}, learned"] = (LDA, dict(n_topics=K, weights="learned"))
    for arm, how in ARMS.items():
        how = how | {"moves": Moves(*how["moves"])} if isinstance(how["moves"], tuple) else how
        made |= {f"{arm}, from {k}": (HDP, dict(init=k, **how)) for k in options.starts}
    return {
        arm: how
        for arm, how in made.items()
        if not options.hdp or arm in options.hdp or arm.startswith("LDA")
    }


def score(model, test, every):
    "Held-out log probability per word for averages over several numbers of samples, both ways."
    import numpy as np
    from scipy.special import logsumexp

    from hdp_nb import left_to_right

    observed, heldout = test.split_tokens(0.2, np.random.default_rng(0))
    whole, samples = test[::every][:200], model.samples_
    tokens, documents = [], []
    for sample in samples:
        model.samples_ = [sample]
        tokens.append(model.log_predictive(observed, heldout, random_state=0))
        documents.append(
            left_to_right(model, whole, n_particles=5, n_moves=50, by_document=True, random_state=0)
        )
    model.samples_ = samples
    rng, n = np.random.default_rng(0), len(samples)

    def curve(log_p, size):
        return [
            float(
                np.mean(
                    [
                        (logsumexp(log_p[rng.permutation(n)[:m]], axis=0) - np.log(m)).sum() / size
                        for _ in range(20 if m < n else 1)
                    ]
                )
            )
            for m in (*SIZES, n)
        ]

    return {
        "completion": curve(np.array(tokens), heldout.n_tokens),
        "equation 54": curve(np.array(documents), whole.n_tokens),
    }


def run(kind, how, train, test, seed, n_iter, every):
    "One chain; what is noted of it."
    began = time.process_time()
    model = kind(n_iter=n_iter, n_chains=1, n_jobs=1, random_state=seed, **how).fit(train)
    seconds, last = time.process_time() - began, slice(model.burn_in_, None)
    return {
        **score(model, test, every),
        "K": model.trace_["n_topics"][::2].astype(int).tolist(),
        "K above .1%": round(float(model.trace_["topics_above_0.1%"][last].mean()), 2),
        "log mixture": round(float(model.trace_["log_mixture"][last].mean() / train.n_tokens), 5),
        "alpha": round(float(model.trace_["alpha"][last].mean()), 3),
        "gamma": round(float(model.trace_["gamma"][last].mean()), 3),
        "eta": round(float(model.trace_["eta"][last].mean()), 4),
        "seconds": round(seconds, 1),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--topics", nargs="+", type=int, default=[10, 20, 40, 60, 80, 120])
    parser.add_argument("--learned", nargs="*", type=int, default=[60, 120])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=250)
    parser.add_argument("--eta", nargs="*", default=["0.1", "0.25", "1", "learned"])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--score-every", type=int, default=1)
    parser.add_argument("--starts", nargs="+", type=int, default=[10, 150])
    parser.add_argument("--hdp", nargs="*", help="only these of the HDP")
    options = parser.parse_args()
    import numpy as np

    corpus = load(options.corpus)[0][:: options.every]
    name = f"lda_vs_hdp_{short(options.corpus)}"
    found = saved(name) or {"runs": {}}
    found |= {
        "documents": corpus.n_docs,
        "tokens": corpus.n_tokens,
        "words": corpus.n_words,
        "sweeps": options.sweeps,
        "folds": options.folds,
        "score every": options.score_every,
        "sizes": [*SIZES, len(range(options.sweeps // 2, options.sweeps, 10))],
    }
    pile = np.random.default_rng(0).permutation(corpus.n_docs) % 10
    made = models(options)
    todo = [(fold, arm, *made[arm], "0.5") for fold in range(options.folds) for arm in made]
    todo += [
        (0, arm, *made[arm], eta)
        for eta in options.eta
        for arm in made
        if arm.startswith("direct, topic moves")
    ]
    for fold, arm, kind, how, eta in todo:
        key = f"{arm}, eta {eta}, fold {fold}"
        if key in found["runs"]:
            continue
        prior = {"eta": None if eta == "learned" else float(eta)}
        train, test = corpus[pile != fold], corpus[pile == fold]
        found["runs"][key] = run(
            kind, how | prior, train, test, fold, options.sweeps, options.score_every
        )
        found["machine"] = machine()
        save(name, found)
        r = found["runs"][key]
        print(
            f"{key}: K {r['K'][-1]} ({r['K above .1%']}), completion {r['completion'][-1]:.4f},"
            f" (54) {r['equation 54'][-1]:.4f}, {r['seconds']} s",
            flush=True,
        )
    rows = []
    for arm in made:
        keys = [f"{arm}, eta 0.5, fold {fold}" for fold in range(options.folds)]
        runs = [found["runs"][key] for key in keys if key in found["runs"]]
        mean = lambda get: np.mean([get(r) for r in runs])
        rows.append(
            [
                arm,
                f"{mean(lambda r: np.mean(r['K'][len(r['K']) // 2 :])):.1f}",
                f"{mean(lambda r: r['K above .1%']):.1f}",
                f"{mean(lambda r: r['completion'][-1]):.4f}",
                f"{mean(lambda r: r['equation 54'][-1]):.4f}",
                f"{mean(lambda r: r['seconds']):.1f}",
            ]
        )
    table(["model", "K", "K above .1%", "completion", "equation 54", "s"], rows)


if __name__ == "__main__":
    main()
