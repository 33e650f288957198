"""Whether samplers stay right and small however long they run, and whatever the shape of the data.

    python -m benchmarks.utils.endurance sweeps [--only direct beam ...] [--n 1e6]
    python -m benchmarks.utils.endurance tokens [--only direct ...] [--seconds 3600]
    python -m benchmarks.utils.endurance shapes [--only direct ...]

sweeps: a million of each sampler on data of sixty observations, with its moves. tokens: ten
million tokens of twenty topics, for an hour of CPU time. shapes: a million documents of one token,
and one document of ten million, three sweeps each. A hundred times, or after every sweep where
there are fewer, the state is held against a recount of what it says of every observation, and the
run ends where a single number is off. Memory is what the process holds after a tenth of the run,
at its end, and at most. Results: benchmarks/results/endurance.json
"""

import argparse
import gc
import time

from benchmarks.common import forget_peak, machine, memory, peak_memory, save, saved, table

TOPICS = ("crf", "direct", "hybrid", "parallel", "blocked", "LDA", "tree")
OTHERS = ("states direct", "states beam", "states weak_limit", "mixture", "nested")


def topics(name, corpus, **options):
    "A sampler of topics as its estimator makes it."
    from hdp_nb import HDP, LDA, TreeHDP

    if name == "LDA":
        return LDA(5, weights="learned", n_iter=200, **options)._sampler(corpus)
    kind = TreeHDP if name == "tree" else HDP
    first = {} if name == "tree" else {"sampler": name}
    return kind(**first, init=5, n_iter=200, n_chains=1, n_jobs=1, **options)._sampler(corpus)


def small(name):
    "A sampler of sixty observations."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus
    from hdp_nb.mixtures.likelihood import likelihoods
    from hdp_nb.mixtures.split_merge import MixtureMoves
    from hdp_nb.models.mixture_models import DPMixtureSampler
    from hdp_nb.nested.sampler import NestedSampler
    from hdp_nb.sequences.emissions import hmm_emission
    from hdp_nb.sequences.moves import StateMoves
    from hdp_nb.sequences.samplers import HMMSampler, check_sequences

    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, 60) + 3 * (np.arange(60) >= 30)
    corpus = Corpus(x, np.arange(0, 61, 10), None, {"half": list("aaabbb")})
    if name in TOPICS:
        return topics(name, corpus)
    if name == "nested":
        return NestedSampler(corpus, n_clusters=4, n_topics=3)
    if name == "mixture":
        points, normal = x[:, None] + rng.normal(size=(60, 2)), "normal_inverse_wishart"
        prior = likelihoods[normal].default_prior(points)
        return MixtureMoves(DPMixtureSampler(likelihoods[normal], points, prior), 2, 100)
    prior, sequences = check_sequences(x, [20, 40], "categorical", None)
    method = name.removeprefix("states ")
    emission = hmm_emission("categorical")
    return StateMoves(HMMSampler(emission, prior, sequences, method, init=8, max_states=12))


def endure(sampler, n, seconds=float("inf")):
    "At most n sweeps, and so many seconds of them; what is noted."
    import numpy as np

    rng = np.random.default_rng(1)
    state = sampler.init(rng)
    sampler.check(state)
    began, checked, done, early = time.process_time(), 0.0, 0, None
    marks, recounts = 0, 1
    forget_peak()

    def spent():
        return time.process_time() - began - checked

    while done < n and spent() < seconds:
        state, info = sampler.sweep(rng, state)
        done += 1
        share = max(done / n, spent() / seconds)
        if share * 100 >= marks + 1 or done == n:
            before, marks = time.process_time(), max(int(share * 100), marks + 1)
            sampler.check(state)
            sampler.check(sampler.snapshot(state))
            recounts += 1
            checked += time.process_time() - before
            if early is None and share >= 0.1:
                gc.collect()
                early = memory()
    took = spent()
    assert all(np.isfinite(float(value)) for value in info.values())
    gc.collect()
    return {
        "sweeps": done,
        "recounts": recounts,
        "seconds": round(took, 1),
        "early": round(early, 1),
        "end": round(memory(), 1),
        "peak": round(peak_memory(), 1),
    }


def many_tokens(seed=0, n_docs=50_000, length=200, K=20, V=5000):
    "Documents of topics of Zipf frequencies, ten million tokens in all."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus

    rng = np.random.default_rng(seed)
    below, beta = rng.dirichlet(np.full(V, 0.05), K).cumsum(axis=1), 1 / np.arange(1, K + 1)
    z = np.concatenate([rng.choice(K, length, p=rng.dirichlet(5 * beta)) for _ in range(n_docs)])
    x, u = np.empty(len(z), np.int32), rng.random(len(z)) * below[:, -1].min()
    for k in range(K):
        x[z == k] = np.searchsorted(below[k], u[z == k])
    return Corpus(x, np.arange(0, len(x) + 1, length))


def shape(name):
    "A corpus that is all documents, or all one document."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus

    n = 1_000_000 if name == "documents of one token" else 10_000_000
    x = np.random.default_rng(0).integers(0, 1000, n)
    return Corpus(x, np.arange(n + 1) if n == 1_000_000 else [0, n])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("part", choices=("sweeps", "tokens", "shapes"))
    parser.add_argument("--only", nargs="+", choices=TOPICS + OTHERS)
    parser.add_argument("--n", type=float, default=1e6)
    parser.add_argument("--seconds", type=float, default=3600)
    options = parser.parse_args()
    made = {}
    if options.part == "sweeps":
        for name in options.only or TOPICS + OTHERS:
            endure(small(name), 150)  # compiles
            made[name] = endure(small(name), int(options.n))
            print(name, made[name], flush=True)
    elif options.part == "tokens":
        corpus = many_tokens()
        for name in options.only or ("direct",):
            made[name] = endure(topics(name, corpus, moves=0), 10**9, options.seconds)
    else:
        for kind in ("documents of one token", "one document"):
            corpus = shape(kind)
            for name in options.only or TOPICS[:-1]:
                plain = {} if name == "LDA" else {"moves": 0}
                made[f"{kind}, {name}"] = endure(topics(name, corpus, **plain), 3)
                print(kind, name, made[f"{kind}, {name}"], flush=True)
    found = saved("endurance")
    part = found.setdefault(options.part, {})
    part.update(made)
    found["machine"] = machine()
    save("endurance", found)
    head = ["sampler", "sweeps", "recounts", "seconds", "MB early", "MB at the end", "MB at most"]
    table(head, [[name, *row.values()] for name, row in part.items()])


if __name__ == "__main__":
    main()
