"""Does a fit know whether what it shows is right?  Sixty fits, and long chains that tell.

    python -m benchmarks.models.verdict [--seeds 3] [--only NAME ...]

On each of ten data sets the default fit, with moves and without them, for some seeds. The reference
is a chain of 1,000 sweeps from the true topics (on text: from thirty at random). A fit is *right*
if what it shows agrees with the reference: it shows as many topics with 1% of the tokens; of the
chains that are shown, taken together, the mean number of such topics differs by less than 0.5, and
of the three largest shares the means and both ends of the 90% intervals by less than 0.03. The
grade of the verdict ought to be 'agree' then, and only then. Models are kept in benchmarks/.fits,
so that what is there is not fitted again.
"""

import argparse
import itertools

from benchmarks.common import machine, save, saved, table
from benchmarks.models.shown import fitted

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
SHARES = ("share_1", "share_2", "share_3")
LARGE = 0.01  # of the tokens
MOVES = {"with": "auto", "without": 0}


def load(data):
    "The corpus, and topics of its tokens for the reference to begin with."
    from hdp_nb.corpora import synthetic
    from hdp_nb.corpora.readers import load_corpus

    if data == "addresses":
        return load_corpus("sotu")[::10], 30
    name, options = SYNTHETIC[data]
    corpus, truth = getattr(synthetic, name)(**options, random_state=6)
    return corpus, truth.z


def note(model, seconds):
    "What a fit shows: large topics, and the largest shares in the chains that are shown."
    import numpy as np

    shown = np.unique(model.sample_chain_)
    draws = {
        name: model.traces_[name][shown, model.burn_in_ :] for name in ("topics_above_1%", *SHARES)
    }
    return {
        "topics": int((model.topic_shares_ >= LARGE).sum()),
        "means": {name: drawn.mean(axis=1).tolist() for name, drawn in draws.items()},
        "mean": {name: float(drawn.mean()) for name, drawn in draws.items()},
        "ends": {name: np.quantile(draws[name], [0.05, 0.95]).tolist() for name in SHARES},
        "grade": model.verdict_.grade,
        "says": model.verdict_.found,
        "converged": model.converged_,
        "shown": shown.tolist(),
        "chains": len(model.behind_),
        "seconds": seconds,
    }


def is_right(run, reference):
    "Whether what a fit shows agrees with the reference."
    far = lambda key, name: abs(run[key][name] - reference[key][name])
    ends = [abs(a - b) for s in SHARES for a, b in zip(run["ends"][s], reference["ends"][s])]
    return bool(
        run["topics"] == reference["topics"]
        and far("mean", "topics_above_1%") < 0.5
        and max(far("mean", name) for name in SHARES) < 0.03
        and max(ends) < 0.03
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of data sets")
    options = parser.parse_args()
    found = saved("verdict") or {"references": {}, "runs": {}}
    rows = []

    def run(kept, name, corpus, **params):
        model, seconds = fitted("verdict " + name, corpus, **params)
        old = kept.get(name, {}).get("seconds")
        kept[name] = note(model, seconds or old)
        print(name, kept[name]["topics"], kept[name]["grade"], flush=True)
        return kept[name]

    for data in options.only or DATA:
        corpus, begin = load(data)
        long = dict(init=begin, n_chains=1, n_iter=1000, random_state=0)
        reference = run(found["references"], data, corpus, **long)
        for how, seed in itertools.product(MOVES, range(12, 12 + options.seeds)):
            name = f"{data}, {how} moves, seed {seed}"
            fit = run(found["runs"], name, corpus, moves=MOVES[how], random_state=seed)
            fit["right"] = is_right(fit, reference)
            rows.append(
                [
                    name,
                    fit["topics"],
                    reference["topics"],
                    "yes" if fit["right"] else "no",
                    fit["grade"],
                    "yes" if fit["converged"] else "no",
                    fit["seconds"],
                ]
            )
        found["machine"] = machine()
        save("verdict", found)
    table(["fit", "topics above 1%", "reference", "right", "grade", "converged", "CPU s"], rows)
    tally = [(fit["right"], fit["grade"] == "agree") for fit in found["runs"].values()]
    good, missed = sum(a == b for a, b in tally), sum(b and not a for a, b in tally)
    right = sum(a for a, _ in tally)
    print(f"\n{right} of {len(tally)} right; the grade is right of {good}; {missed} passed wrongly")


if __name__ == "__main__":
    main()
