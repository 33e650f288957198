"""How long a Gibbs sweep takes, per token, on one core: this package's samplers and tomotopy's
HDP at the same number of topics.

    python -m benchmarks.topics.sweep_speed [--quick] [--corpus NAME ...] [--samplers NAME ...]

tomotopy runs first, from 20 and from 100 topics, about as many of which it keeps; every sampler of
this package begins from the topics that its tokens then have. CPU time
of whole sweeps with everything that belongs to them (tokens, tables, weights, concentrations), the
median of some. All take turns, so that a machine whose speed
drifts slows all of them. K is the mean over the sweeps that are timed.
"""

import argparse
import statistics
import time

from benchmarks.common import (
    here,
    in_environment,
    load,
    machine,
    save,
    saved,
    short,
    table,
    tomotopy_step,
)

STARTS = {20: 0.5, 100: 0.1}  # topics to begin with, eta
SAMPLERS = ["direct", "hybrid", "crf", "parallel"]


class Tomotopy:
    def __init__(self, corpus, eta, topics):
        import tomotopy

        self.model = tomotopy.HDPModel(alpha=1.0, gamma=1.0, eta=eta, initial_k=topics, seed=1)
        self.step = tomotopy_step(self.model, corpus)

    def sweep(self):
        self.step()
        return self.model.live_k

    def topics(self, corpus):
        "The topic of every token, checked to be in our order."
        import numpy as np

        words = np.array([int(word) for word in self.model.used_vocabs])
        if not np.array_equal(
            np.concatenate([words[doc.words] for doc in self.model.docs]), corpus.x
        ):
            raise RuntimeError("tomotopy has the tokens in another order")
        return np.concatenate([doc.topics for doc in self.model.docs]).astype(int)


class Ours:
    def __init__(self, name, corpus, eta, z):
        import numpy as np

        from hdp_nb.models import topic_models

        self.sampler, self.rng = (
            topic_models.SAMPLERS[name](corpus, eta, 1.0, 1.0, (1, 1), (1, 1), z),
            np.random.default_rng(0),
        )
        self.state = self.sampler.init(self.rng)

    def sweep(self):
        self.state, info = self.sampler.sweep(self.rng, self.state)
        return info["n_topics"]


def measure(corpus, topics, names, burn_in, n):
    "ns per token and K, by sampler."
    eta = STARTS[topics]
    peer = Tomotopy(corpus, eta, topics)
    for _ in range(burn_in):
        peer.sweep()
    z = peer.topics(corpus)
    samplers = {"tomotopy": peer} | {name: Ours(name, corpus, eta, z) for name in names}
    seconds, K = {name: [] for name in samplers}, {name: [] for name in samplers}
    for i in range(n + 3):
        for name, sampler in samplers.items():
            start = time.process_time()
            k = sampler.sweep()
            if i >= 3:  # the first compiles, and gets over the start
                seconds[name].append(time.process_time() - start)
                K[name].append(k)
    return {
        name: {
            "ns": round(statistics.median(s) / corpus.n_tokens * 1e9, 1),
            "K": round(statistics.mean(K[name]), 1),
        }
        for name, s in seconds.items()
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer sweeps")
    parser.add_argument(
        "--corpus", nargs="+", default=["sotu", "bars"], help='bundled corpora, "bars", files'
    )
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=SAMPLERS)
    here(parser)
    args = parser.parse_args()
    in_environment(args)
    burn_in, n, rows = *((10, 3) if args.quick else (30, 7)), []
    corpora = saved("speed").get("corpora", {})
    for name in args.corpus:
        corpus = load(name)[0]
        for topics in STARTS:
            found = measure(corpus, topics, args.samplers, burn_in, n)
            corpora.setdefault(short(name), {})[str(topics)] = found
            save("speed", {"machine": machine(), "corpora": corpora})
            for sampler, row in found.items():
                rows.append(
                    [
                        short(name),
                        f"{corpus.n_tokens:,}",
                        STARTS[topics],
                        sampler,
                        row["K"],
                        row["ns"],
                        f"{found['tomotopy']['ns'] / row['ns']:.2f}",
                    ]
                )
    table(
        ["corpus", "tokens", "eta", "sampler", "K", "ns per token", "times as fast as tomotopy"],
        rows,
    )


if __name__ == "__main__":
    main()
