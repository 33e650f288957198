"""Addresses to 1980, then to 2021 with the topics of the first fit known.

    python -m benchmarks.topics.known_years [--sweeps 60] [--late 240]

`HDP()` on the passages of the State of the Union addresses to 1980, then `continue_with` those from
1981 on, with sweeps of their own; and two fits of all of them with other seeds. Defaults but for
the sweeps, which keep it to minutes; what is in results/ had `--sweeps 20 --late 20`. Of the known
topics: how many are still shown under their names and used, and their cosines with what they were;
of the new ones, their words, shares and the cosine with the known topic that they are most like.
Then shares of the years from 1981: topics of two fits are matched one to one by their words (cosine
above 0.75, topics with 0.3% of these years or more in one of the fits); in how many pairs the 90%
intervals of the shares overlap, or one share is at most twice the other, and how much of the tokens
the pairs hold: for the continued fit with each fit of all, and for these two with each other. CPU
seconds of all processes. Results go to results/known_years.json.
"""

import argparse
import time
import warnings

from benchmarks.common import cosines, machine, save

LAST, LEAST_COSINE, LEAST_SHARE = 1980, 0.75, 0.003


def fitted(model, X):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    seconds = time.process_time() - start
    print(f"{model.n_topics_} topics after {seconds:.0f} s", flush=True)
    return model, seconds


def late_shares(model, group):
    "Words of the topics, and mean shares of group 1 with their 90% intervals."
    from hdp_nb.models.consensus import central_interval

    draws = model.group_draws(group, 2)[:, 1, : model.n_topics_]
    return model.components_, draws.mean(axis=0), *central_interval(draws, 0.9)


def agree(one, other):
    "How far shares of the topics of two fits agree, matched one to one by their words."
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    cosine = cosines(one[0], other[0])
    a, b = linear_sum_assignment(-cosine)
    good = (cosine[a, b] > LEAST_COSINE) & (np.maximum(one[1][a], other[1][b]) > LEAST_SHARE)
    a, b = a[good], b[good]
    overlap = (one[2][a] <= other[3][b]) & (other[2][b] <= one[3][a])
    small, large = np.minimum(one[1][a], other[1][b]), np.maximum(one[1][a], other[1][b])
    return {
        "pairs": len(a),
        "topics": [int((fit[1] > LEAST_SHARE).sum()) for fit in (one, other)],
        "overlap": float(overlap.mean()),
        "within_twice": float((large <= 2 * small).mean()),
        "tokens_in_pairs": [float(one[1][a].sum()), float(other[1][b].sum())],
        "difference": float(np.abs(one[1][a] - other[1][b]).sum()),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sweeps", type=int, default=60)
    parser.add_argument("--late", type=int, default=240)
    options = parser.parse_args()
    import numpy as np

    from hdp_nb import HDP, make_bars
    from hdp_nb.corpora.readers import load_corpus

    hdp = lambda seed: HDP(n_iter=options.sweeps, n_jobs=1, random_state=seed)
    fitted(hdp(0), make_bars(30, 30, grid=3, random_state=0)[0])  # compiles
    corpus = load_corpus("sotu")
    late = np.asarray(corpus.groups["year"]).astype(int) > LAST
    first, seconds = fitted(hdp(0), corpus[np.flatnonzero(~late)])
    start = time.process_time()
    first.set_params(n_iter=options.late)  # `continue_with` takes the settings of the first fit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        later = first.continue_with(corpus[np.flatnonzero(late)])
    found = {"seconds": {"to 1980": seconds, "continued": time.process_time() - start}}
    table = later.known_topics()
    known, share = np.array(table["known"]), np.array(table["share"])
    cosine, used = np.array(table["cosine"]), np.array(table["used"])
    found["sweeps"], found["sweeps_continued"] = options.sweeps, options.late
    found["converged"] = {"to 1980": bool(first.converged_), "continued": bool(later.converged_)}
    found["known"] = {
        "topics_to_1980": first.n_topics_,
        "told": len(later.known_names_),
        "shown": int(known.sum()),
        "names_kept": sum(
            later.known_names_[f] == label
            for f, label in zip(later.known_, table["label"])
            if f >= 0
        ),
        "used": int((known & (used > 0.5)).sum()),
        "cosine_of_used": np.quantile(cosine[known & (used > 0.5)], [0, 0.1, 0.5]).tolist(),
    }
    words = later.top_words(8)
    found["new"] = [
        {
            "words": [str(word) for word in words[k]],
            "share": float(share[k]),
            "used": float(used[k]),
            "like": table["like"][k],
            "cosine": float(cosine[k]),
        }
        for k in np.flatnonzero(~known)
    ]
    shares = {"continued": late_shares(later, np.ones(late.sum(), int))}
    for seed in (1, 2):
        model, found["seconds"][f"all, seed {seed}"] = fitted(hdp(seed), corpus)
        shares[f"all, seed {seed}"] = late_shares(model, late.astype(int))
    pairs = (
        ("continued", "all, seed 1"),
        ("continued", "all, seed 2"),
        ("all, seed 1", "all, seed 2"),
    )
    found["agreement"] = {f"{a}; {b}": agree(shares[a], shares[b]) for a, b in pairs}
    save("known_years", found | {"machine": machine()})
    print(found)


if __name__ == "__main__":
    main()
