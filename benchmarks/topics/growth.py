"""What a token costs in a sweep, as topics, documents, vocabularies and corpora grow.

    python -m benchmarks.topics.growth [--quick] [--only topics length words tokens]

Documents are drawn from planted topics, each of two hundred words and, for a fifth of its tokens,
of all words alike; six topics a document, on average. Every sampler begins with the topics that the
tokens were drawn from, so that the number of topics is the planted one; `HDP` and `LDA` of this
package with everything that belongs to a sweep: tokens, tables, weights, concentrations, trace.
Beside them, where a sweep takes no minutes, tomotopy's HDP and LDA, told the number of topics, and
scikit-learn's online LDA, a pass over the corpus. CPU time on one core, median of some sweeps.
tomotopy's HDP keeps other numbers of topics than it is given: K says how many it had.
"""

import argparse
import statistics
import time

from benchmarks.common import here, in_environment, machine, save, saved, table, tomotopy_step

USUAL = {"topics": 100, "length": 200, "words": 10_000, "tokens": 400_000}
AXES = {
    "topics": [30, 100, 300, 1000, 2000, 3000],
    "length": [20, 100, 500, 2000, 5000],
    "words": [1000, 10_000, 50_000, 200_000],
    "tokens": [100_000, 1_000_000, 5_000_000, 20_000_000],
}
OURS = ["crf", "direct", "lda"]
PEERS = ["tomotopy LDA", "tomotopy HDP", "scikit-learn"]
LARGEST = {"scikit-learn": 6e8, "tomotopy LDA": 1e10, "tomotopy HDP": 1e10}  # topics x tokens


def draw(topics, length, words, tokens):
    "Planted documents: the corpus, and the topic of every token."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus

    rng = np.random.default_rng(0)
    base = 1.0 / (5.0 + np.arange(words))
    base /= base.sum()
    n = tokens // length
    own = [rng.choice(words, min(200, words), replace=False, p=base) for _ in range(topics)]
    weight = [rng.gamma(0.5, size=v.size) * base[v] ** 0.5 for v in own]
    share = rng.gamma(1.0, size=topics)
    z = np.empty(n * length, np.int32)
    for j in range(n):
        k = rng.choice(topics, min(topics, 1 + rng.poisson(5)), p=share / share.sum())
        p = rng.gamma(0.7, size=k.size) + 1e-9
        z[j * length : (j + 1) * length] = rng.choice(k, length, p=p / p.sum())
    x = rng.choice(words, z.size, p=base).astype(np.int32)
    apart = rng.random(z.size) < 0.8
    order = np.flatnonzero(apart)
    order = order[np.argsort(z[order], kind="stable")]
    ends = np.cumsum(np.bincount(z[order], minlength=topics))
    for k, mine in enumerate(np.split(order, ends[:-1])):
        x[mine] = rng.choice(own[k], mine.size, p=weight[k] / weight[k].sum())
    offsets = np.arange(0, z.size + 1, length)
    return Corpus(x, offsets, np.array([f"w{v}" for v in range(words)])), z


class Ours:
    def __init__(self, name, corpus, z, K):
        import numpy as np

        from hdp_nb.models.topic_models import SAMPLERS
        from hdp_nb.topics.lda import LDASampler

        self.rng = np.random.default_rng(0)
        if name == "lda":
            self.sampler = LDASampler(corpus, K, init=z)
        else:
            self.sampler = SAMPLERS[name](corpus, 0.05, 1.0, 1.0, (1, 1), (1, 1), z)
        self.state = self.sampler.init(self.rng)

    def sweep(self):
        self.state, info = self.sampler.sweep(self.rng, self.state)
        return info["n_topics"]


class Tomotopy:
    def __init__(self, name, corpus, K):
        import tomotopy

        if name.endswith("LDA"):
            self.model = tomotopy.LDAModel(k=K, alpha=0.1, eta=0.05, seed=1)
        else:
            self.model = tomotopy.HDPModel(initial_k=K, eta=0.05, seed=1)
        self.step = tomotopy_step(self.model, corpus)

    def sweep(self):
        self.step()
        return getattr(self.model, "live_k", self.model.k)


class ScikitLearn:
    def __init__(self, corpus, K):
        import numpy as np
        from scipy.sparse import csr_array
        from sklearn.decomposition import LatentDirichletAllocation

        document = np.repeat(np.arange(corpus.n_docs), corpus.doc_lengths)
        shape = corpus.n_docs, corpus.n_words
        self.X = csr_array((np.ones(len(document)), (document, corpus.x)), shape)
        self.model, self.K = LatentDirichletAllocation(K, random_state=0), K

    def sweep(self):
        self.model.partial_fit(self.X)
        return self.K


def measure(place, sweeps, names):
    "ns a token and K of every program, at one place of an axis."
    corpus, z = draw(**place)
    K, found = place["topics"], {}
    for name in names:
        if name in OURS:
            program = Ours(name, corpus, z, K)
        elif name in LARGEST and K * corpus.n_tokens > LARGEST[name]:
            continue
        elif name == "scikit-learn":
            program = ScikitLearn(corpus, K)
        else:
            program = Tomotopy(name, corpus, K)
        seconds = []
        for i in range(sweeps[name in OURS] + 1):
            start = time.process_time()
            topics = program.sweep()
            if i:  # the first compiles
                seconds.append(time.process_time() - start)
        ns = statistics.median(seconds) / corpus.n_tokens * 1e9
        found[name] = {"ns": round(ns, 1), "K": int(topics)}
        del program
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sweeps, two places of an axis")
    parser.add_argument("--only", nargs="+", choices=AXES, default=list(AXES))
    parser.add_argument("--names", nargs="+", choices=OURS + PEERS, default=OURS + PEERS)
    here(parser)
    args = parser.parse_args()
    in_environment(args)
    results, rows = saved("growth").get("axes", {}), []
    for axis in args.only:
        for value in AXES[axis][:2] if args.quick else AXES[axis]:
            place = USUAL | {axis: value}
            found = measure(place, (2, 3) if args.quick else (3, 5), args.names)
            results.setdefault(axis, {})[str(value)] = found
            if not args.quick:
                save("growth", {"machine": machine(), "usual": USUAL, "axes": results})
            rows += [[axis, f"{value:,}", n, r["K"], r["ns"]] for n, r in found.items()]
            print(rows[-len(found) :], flush=True)
    table(["axis", "", "program", "K", "ns per token"], rows)


if __name__ == "__main__":
    main()
