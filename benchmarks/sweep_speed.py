"""How long a Gibbs sweep takes, per token, on one core: the franchise sampler, and tomotopy's HDP if it is installed.

    python benchmarks/sweep_speed.py [--quick]

CPU time of whole sweeps with everything that belongs to them (tokens, tables, concentrations), after a burn-in. Each sampler has its own
number of topics at a given eta, so compare rows of similar K. The samplers take turns, so that a machine whose speed drifts slows both.
"""
import argparse
import os
import platform
import statistics
import time

import numba
import numpy as np

from hdp_nb.corpus import load_corpus, make_bars
from hdp_nb.franchise import FranchiseSampler

try:
    import tomotopy
except ImportError:
    tomotopy = None


class Franchise:
    name = "hdp_nb crf"

    def __init__(self, corpus, eta):
        self.sampler, self.rng = FranchiseSampler(corpus, eta=eta, init=100), np.random.default_rng(0)
        self.state, self.n_docs = self.sampler.init(self.rng), corpus.n_docs

    def sweep(self):
        self.state, self.info = self.sampler.sweep(self.rng, self.state)

    def result(self):
        return self.info["n_topics"], self.info["n_tables"]/self.n_docs


class Tomotopy:
    name = f"tomotopy {tomotopy.__version__}" if tomotopy else ""

    def __init__(self, corpus, eta):
        self.model = tomotopy.HDPModel(alpha=1.0, gamma=1.0, eta=eta, seed=0)
        for j in range(corpus.n_docs):
            self.model.add_doc([str(v) for v in corpus[j]])

    def sweep(self):
        self.model.train(1, workers=1)

    def result(self):
        return self.model.live_k, self.model.num_tables/len(self.model.docs)


def measure(corpus, eta, burn_in, n):
    samplers = [make(corpus, eta) for make in (Franchise, Tomotopy) if make is Franchise or tomotopy]
    for sampler in samplers:
        for _ in range(burn_in):
            sampler.sweep()
    seconds = {sampler: [] for sampler in samplers}
    for _ in range(n):
        for sampler in samplers:
            start = time.process_time()
            sampler.sweep()
            seconds[sampler].append(time.process_time() - start)
    return [(sampler.name, *sampler.result(), statistics.median(seconds[sampler])/corpus.n_tokens*1e9) for sampler in samplers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sweeps")
    burn_in, n = (5, 3) if parser.parse_args().quick else (60, 11)
    corpora = {"bars": make_bars(concentration=2.0, random_state=0)[0], "sotu": load_corpus("sotu")}
    print(f"{platform.machine()}, {os.cpu_count()} cores; Python {platform.python_version()}, NumPy {np.__version__}, numba {numba.__version__}; "
          f"median of {n} sweeps after {burn_in}\n")
    print("| corpus | tokens | eta | sampler | K | tables per document | ns per token |\n|---|---|---|---|---|---|---|")
    for name, corpus in corpora.items():
        for eta in (0.5, 0.1, 0.05):
            for sampler, K, tables, ns in measure(corpus, eta, burn_in, n):
                print(f"| {name} | {corpus.n_tokens:,} | {eta} | {sampler} | {K} | {tables:.2f} | {ns:.0f} |", flush=True)


if __name__ == "__main__":
    main()
