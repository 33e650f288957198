"""Does a fit know whether it has converged?  Forty fits, and long chains that tell.

    python -m benchmarks.models.verdict [--seeds 2]

On each of ten data sets the default fit (two chains from opposite starts), with moves and without
them, for some seeds. The reference is a chain of 1,000 sweeps from the true topics (on text: from
thirty at random). A fit is *right* if all its chains agree with the reference: the means of topics
with 1% of the tokens differ by less than 0.5, those of the three largest shares by less than 0.03,
and the mean log likelihood with the topics of the tokens summed out by less than 0.0005 a token or
five times the reference's standard deviation. The verdict (`converged_`) ought to say so. Runs that
are in results/verdict.json already are not made again.
"""

import argparse
import itertools
import time
import warnings

from benchmarks.common import machine, save, saved, table

SYNTHETIC = {
    "three topics": ("make_signatures", dict(n_docs=400, doc_len=300)),
    "near topics": ("make_signatures", dict(n_docs=400, doc_len=300, cosine=0.8)),
    "few words": ("make_signatures", dict(n_docs=300, doc_len=100, n_words=40)),
    "short documents": ("make_signatures", dict(n_docs=1000, doc_len=50)),
    "six topics": ("make_signatures", dict(n_docs=500, doc_len=200, n_topics=6)),
    "Zipf": ("make_signatures", dict(n_docs=400, doc_len=300, n_topics=8, shares="zipf")),
    "bars": ("make_bars", dict(n_docs=500, doc_len=100)),
    "large bars": ("make_bars", dict(n_docs=800, doc_len=200)),
    "five topics": ("make_five_topics", dict(n_docs=100, doc_len=50)),
}
DATA = [*SYNTHETIC, "addresses"]
JUDGED = ("topics_above_1%", "log_mixture", "share_1", "share_2", "share_3")


def load(data):
    "The corpus, and topics of its tokens for the reference to begin with."
    from hdp_nb.corpora import synthetic
    from hdp_nb.corpora.readers import load_corpus

    if data == "addresses":
        return load_corpus("sotu")[::10], 30
    name, options = SYNTHETIC[data]
    corpus, truth = getattr(synthetic, name)(**options, random_state=6)
    return corpus, truth.z


def fit(corpus, seed, **options):
    "Means of both chains, the verdict, and CPU seconds."
    from hdp_nb import HDP

    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(n_jobs=1, random_state=seed, **options).fit(corpus)
    kept = {name: model.traces_[name][:, model.burn_in_ :] for name in JUDGED}
    return {
        "means": {name: kept[name].mean(axis=1).tolist() for name in JUDGED},
        "spread": {name: float(kept[name][0].std()) for name in JUDGED},
        "converged": model.converged_,
        "tokens": corpus.n_tokens,
        "seconds": time.process_time() - began,
    }


def is_right(run, reference):
    "Whether all chains of a run agree with the reference."
    top, log, *shares = JUDGED
    least = max(0.0005 * run["tokens"], 5 * reference["spread"][log])
    far = lambda name: max(abs(m - reference["means"][name][0]) for m in run["means"][name])
    return far(top) < 0.5 and far(log) < least and max(map(far, shares)) < 0.03


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    found = saved("verdict") or {"references": {}, "runs": {}}
    rows, tally = [], {}
    for data in DATA:
        corpus, begin = load(data)
        if data not in found["references"]:
            found["references"][data] = fit(corpus, 0, init=begin, n_chains=1, n_iter=1000)
            save("verdict", found)
        reference = found["references"][data]
        for moves, seed in itertools.product(("auto", 0), range(12, 12 + options.seeds)):
            name = f"{data}, {'with' if moves else 'without'} moves, seed {seed}"
            if name not in found["runs"]:
                found["runs"][name] = fit(corpus, seed, moves=moves)
                found["machine"] = machine()
                save("verdict", found)
            run = found["runs"][name]
            right = run["right"] = is_right(run, reference)
            says = (right, run["converged"])
            tally[says] = tally.get(says, 0) + 1
            means = run["means"][JUDGED[0]]
            rows.append(
                [
                    name,
                    " / ".join(f"{mean:.1f}" for mean in means),
                    f"{reference['means'][JUDGED[0]][0]:.1f}",
                    "yes" if right else "no",
                    "yes" if run["converged"] else "no",
                    f"{run['seconds']:.1f}",
                ]
            )
    save("verdict", found)
    table(["fit", "topics above 1%", "reference", "right", "verdict", "s"], rows)
    good = sum(n for (right, says), n in tally.items() if right == says)
    print(f"\nthe verdict is right in {good} of {sum(tally.values())}: {tally}")


if __name__ == "__main__":
    main()
