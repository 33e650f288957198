"""Does a fit know whether what it shows is right?  Sixty fits, and long chains that tell.

    python -m benchmarks.models.verdict [--seeds 3] [--only NAME ...]

On each of ten data sets the default fit, with moves and without them, for some seeds. The reference
is a chain of 1,000 sweeps from the true topics (on text: from thirty at random; of 10,000 on five
topics, where a large topic is one for some hundred sweeps, and then two). A fit is *right* if what
it shows agrees with what the reference shows: each large topic of the reference, or several of them
that the fit shows as one, has a large topic of the fit with the same words (cosine above 0.9) and
nearly the same share: it differs by less than 0.03, and so do both ends of its 90% interval. The
grade of the verdict ought to be 'agree' then, and only then. Models are kept in benchmarks/.fits,
so that what is there is not fitted again.
"""

import argparse
import itertools

from benchmarks.common import cosines, machine, save, saved, table
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
SWEEPS = {"five topics": 10_000}  # of the reference
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


def large_topics(model):
    "Words of the topics that a fit shows and that hold 1% of the tokens; draws of their shares."
    import numpy as np

    large = np.flatnonzero(model.topic_shares_ >= LARGE)
    return model.components_[large], model._share_draws()[:, large]


def judge(model, reference):
    "What is wrong with what a fit shows, beside the reference; nothing if all is right."
    import numpy as np

    from hdp_nb.models.consensus import central_interval

    (words, draws), (real, true) = large_topics(model), large_topics(reference)
    together = cosines(real, words).argmax(axis=1)  # topics of the reference that are one here
    if missing := len(words) - len(np.unique(together)):
        return f"{missing} of {len(words)} topics are none of the reference's"
    for k in range(len(words)):
        mine = together == k
        [[cosine]] = cosines((true[:, mine].mean(axis=0) @ real[mine])[None], words[k : k + 1])
        if cosine < 0.9:
            return f"a cosine of {cosine:.2f}"
        both = draws[:, k], true[:, mine].sum(axis=1)
        share, low, high = np.abs(np.subtract(*((a.mean(), *central_interval(a)) for a in both)))
        if max(share, low, high) >= 0.03:
            return f"a share by {share:.2f}, its interval by {max(low, high):.2f}"
    return ""


def note(model, seconds):
    "What a fit says."
    return {
        "topics": len(large_topics(model)[0]),
        "grade": model.verdict_.grade,
        "says": model.verdict_.found,
        "converged": model.converged_,
        "shown": sorted({int(c) for c in model.sample_chain_}),
        "chains": len(model.behind_),
        "seconds": seconds,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="names of data sets")
    options = parser.parse_args()
    found = saved("verdict") or {"references": {}, "runs": {}}
    rows = []

    def run(kept, name, corpus, **params):
        model, seconds = fitted("verdict " + name, corpus, **params)
        kept[name] = note(model, seconds or kept.get(name, {}).get("seconds"))
        return model, kept[name]

    for data in options.only or DATA:
        corpus, begin = load(data)
        long = dict(init=begin, n_chains=1, n_iter=SWEEPS.get(data, 1000), random_state=0)
        reference, _ = run(found["references"], data, corpus, **long)
        for how, seed in itertools.product(MOVES, range(12, 12 + options.seeds)):
            name = f"{data}, {how} moves, seed {seed}"
            model, noted = run(found["runs"], name, corpus, moves=MOVES[how], random_state=seed)
            noted["wrong"] = judge(model, reference)
            print(name, noted["wrong"] or "right", noted["grade"], flush=True)
            rows.append(
                [name, noted["wrong"], noted["grade"], noted["converged"], noted["seconds"]]
            )
        found["machine"] = machine()
        save("verdict", found)
    table(["fit", "wrong", "grade", "converged", "CPU s"], rows)
    tally = [(not run["wrong"], run["grade"] == "agree") for run in found["runs"].values()]
    good, missed = sum(a == b for a, b in tally), sum(b and not a for a, b in tally)
    right = sum(a for a, _ in tally)
    print(f"\n{right} of {len(tally)} right; the grade is right of {good}; {missed} passed wrongly")


if __name__ == "__main__":
    main()
