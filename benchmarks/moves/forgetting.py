"""Whether chains forget where they began: the number of topics after a default run, from few topics
and from many, with and without the moves that change their number.

    python -m benchmarks.moves.forgetting [--data easy near] [--samplers direct crf]
        [--starts 1 3 30 100] [--seeds 5] [--sweeps 300] [--without]

Data are drawn from known topics (`make_signatures`, `make_bars`, `make_five_topics`). Of a chain:
P(K) over its second half, K being the number of topics with 0.1% of the tokens or more, and of all;
how many true topics have one with a cosine of 0.95; extra topics above 0.5%; CPU seconds. The start
"long" is a reference: from the true number of topics, ten times as many sweeps. Runs that are in
results/forgetting.json already are not made again.
"""

import argparse
import itertools
import time

from benchmarks.common import cosines, machine, save, saved, table

DATA = {
    "easy": ("make_signatures", dict(n_docs=400, doc_len=300)),
    "near": ("make_signatures", dict(n_docs=400, doc_len=300, cosine=0.8)),
    "ten": ("make_signatures", dict(n_docs=2000, doc_len=300, n_topics=10)),
    "long": ("make_signatures", dict(n_docs=1000, doc_len=1000)),
    "short": ("make_signatures", dict(n_docs=1000, doc_len=100)),
    "zipf": ("make_signatures", dict(n_docs=1000, doc_len=1000, n_topics=20, shares="zipf")),
    "bars": ("make_bars", dict(n_docs=2000, doc_len=250)),
    "rare bars": ("make_bars", dict(n_docs=2000, doc_len=250, shares="zipf")),
    "five": ("make_five_topics", dict(n_docs=100, doc_len=50)),
}

STARTS = ["1", "2", "3", "30", "100", "sequential", "long"]


def run(data, sampler, start, seed, sweeps, moves, eta=0.5):
    "One chain of `sweeps` sweeps; what is noted of it."
    import numpy as np

    from hdp_nb import HDP
    from hdp_nb.corpora import synthetic

    name, options = DATA[data]
    long, sweeps = start == "long", 10 * sweeps if start == "long" else sweeps
    corpus, truth = getattr(synthetic, name)(**options, random_state=5)

    def make(corpus):
        begin = start if start == "sequential" else len(truth.phi) if long else int(start)
        moved = "auto" if moves else 0
        model = HDP(sampler=sampler, eta=eta, moves=moved, init=begin, n_iter=sweeps, n_jobs=1)
        return model._sampler(corpus)

    tiny = make(corpus[:10])  # compiles
    rng = np.random.default_rng(0)
    state = tiny.init(rng)
    for _ in range(3):
        state, _ = tiny.sweep(rng, state)
    model, rng, began = make(corpus), np.random.default_rng(seed), time.process_time()
    state, large, every = model.init(rng), [], []
    for _ in range(sweeps):
        state, info = model.sweep(rng, state)
        large.append(info["topics_above_0.1%"])
        every.append(info["n_topics"])
    seconds, half = time.process_time() - began, sweeps // 2
    K = int(state.K)
    phi = (np.asarray(state.n_vk[:, :K]) + 0.5).T
    cosine = cosines(truth.phi, phi)
    shares = np.asarray(state.n_k[:K]) / corpus.n_tokens
    return {
        "large": np.bincount(large[half:]).tolist(),
        "all": np.bincount(every[half:]).tolist(),
        "settled": next(i for i in range(sweeps) if len(set(large[i:])) == 1),
        "found": int((cosine.max(axis=1) > 0.95).sum()),
        "true": len(truth.phi),
        "extra": int(((shares > 0.005) & (cosine.max(axis=0) < 0.95)).sum()),
        "log_mixture": info["log_mixture"] / corpus.n_tokens,
        "seconds": seconds,
    }


def span(counts):
    "Smallest and largest K that has one draw in twenty."
    total = sum(counts)
    seen = [k for k, n in enumerate(counts) if n >= total / 20]
    return f"{seen[0]}-{seen[-1]}" if seen[0] < seen[-1] else str(seen[0])


def distance(runs):
    "Largest total variation between P(K) of any two lists of counts."
    most = 0.0
    for a, b in itertools.combinations(runs, 2):
        n = max(len(a), len(b))
        a, b = a + [0] * (n - len(a)), b + [0] * (n - len(b))
        most = max(most, sum(abs(x / sum(a) - y / sum(b)) for x, y in zip(a, b)) / 2)
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", nargs="+", default=["easy", "near"], choices=DATA)
    parser.add_argument("--samplers", nargs="+", default=["crf", "direct", "hybrid", "parallel"])
    parser.add_argument("--starts", nargs="+", default=STARTS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=300)
    parser.add_argument("--without", action="store_true", help="samplers without moves")
    parser.add_argument("--learned", action="store_true", help="eta learned, not 0.5")
    options = parser.parse_args()
    found = saved("forgetting") or {"runs": {}}
    for data, sampler in itertools.product(options.data, options.samplers):
        chosen = []
        for start, seed in itertools.product(options.starts, range(options.seeds)):
            if start == "long" and seed > 0:
                continue
            how = "without" if options.without else "with"
            name = f"{data}, {sampler}, {how} moves, from {start}, seed {seed}, {options.sweeps}"
            name += ", eta learned" if options.learned else ""
            if name not in found["runs"]:
                found["runs"][name] = run(
                    data,
                    sampler,
                    start,
                    seed,
                    options.sweeps,
                    not options.without,
                    None if options.learned else 0.5,
                )
                found["machine"] = machine()
                save("forgetting", found)
            chosen.append((start, found["runs"][name]))
        rows = [
            [
                start,
                span(r["large"]),
                span(r["all"]),
                f"{r['found']} of {r['true']}",
                r["extra"],
                r["settled"],
                f"{r['log_mixture']:.4f}",
                f"{r['seconds']:.1f}",
            ]
            for start, r in chosen
        ]
        print(f"\n{data}, {sampler}, {'without' if options.without else 'with'} moves")
        head = ["from", "K above .1%", "K", "found", "extra", "settled", "log mixture", "s"]
        table(head, rows)
        for kind, what in (("large", "K above .1%"), ("all", "K")):
            by_start = [
                [sum(counts) for counts in itertools.zip_longest(*runs, fillvalue=0)]
                for runs in (
                    [r[kind] for at, r in chosen if at == start] for start in options.starts
                )
            ]
            print(
                f"largest total variation of P({what}) between any two runs"
                f" {distance([r[kind] for _, r in chosen]):.3f}, between any two starts, seeds"
                f" taken together, {distance(by_start):.3f}"
            )


if __name__ == "__main__":
    main()
