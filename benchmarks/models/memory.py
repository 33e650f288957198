"""How much memory a fit takes over Python and the data, on data of the size of the Associated
Press corpus.

    python -m benchmarks.models.memory [--sweeps 300] [--corpus NAME]

2,246 synthetic documents, 435,838 tokens of 10,473 words. Every sampler in a fresh process, as the
estimator `HDP` runs it with its defaults, two chains side by side, and eta 0.1, and the default
with one chain, with and without moves; what the process holds is noted after the imports, after the
data are there, after a tiny fit that compiles everything, and the peak of the real fit (on Linux;
elsewhere the peak is that of the whole process). Beside them tomotopy's HDP, from a hundred topics,
and its LDA with a hundred, in processes that import numpy and tomotopy only: their fits begin with
the documents being added.
"""

import argparse
import gc
import json
import subprocess
import sys
import time
import warnings

from benchmarks.common import (
    forget_peak,
    here,
    load,
    machine,
    memory,
    peak_memory,
    save,
    saved,
    short,
    table,
    this_script,
    tomotopy_step,
)

PEERS = ["tomotopy HDP", "tomotopy LDA"]
ALONE = {"crf, one chain": {"n_chains": 1}, "crf, one, no moves": {"n_chains": 1, "moves": 0}}
SAMPLERS = ["direct", "hybrid", "crf", "parallel", *ALONE, *PEERS]


def draw_documents(n_docs=2246, n_tokens=435_838, n_words=10_473, n_topics=100):
    "Words of documents of a hundred topics, by Zipf's law, and where each document begins."
    import numpy as np

    rng = np.random.default_rng(0)
    phi = rng.gamma(0.3, size=(n_topics, n_words)) / np.arange(1, n_words + 1) ** 0.8 + 1e-9
    phi /= phi.sum(axis=1, keepdims=True)
    offsets = np.linspace(0, n_tokens, n_docs + 1).astype(int)
    theta = rng.dirichlet(np.full(n_topics, 0.03), size=n_docs)
    z = np.concatenate(
        [
            rng.choice(n_topics, size=end - first, p=p)
            for first, end, p in zip(offsets, offsets[1:], theta)
        ]
    )
    x = np.empty(n_tokens, np.int64)
    for k in range(n_topics):
        x[z == k] = rng.choice(n_words, size=(z == k).sum(), p=phi[k])
    return x, offsets, n_words


def synthetic():
    "These documents as a corpus."
    import numpy as np

    from hdp_nb.corpora.corpus import Corpus

    x, offsets, n_words = draw_documents()
    return Corpus.from_docs(np.split(x, offsets[1:-1]), n_words=n_words)


class Documents:
    "Documents as `tomotopy_step` takes them, without anything of this package."

    def __init__(self, x, offsets):
        self.x, self.offsets, self.n_docs, self.n_tokens = x, offsets, len(offsets) - 1, len(x)

    def __getitem__(self, j):
        return self.x[self.offsets[j] : self.offsets[j + 1]]


def run_peer(name, sweeps):
    "One fit of tomotopy's: prints what the process held as JSON."
    import numpy as np

    found = {"libraries": memory()}
    import tomotopy

    make = {
        "tomotopy HDP": lambda: tomotopy.HDPModel(
            alpha=1.0, gamma=1.0, eta=0.1, initial_k=100, seed=1
        ),
        "tomotopy LDA": lambda: tomotopy.LDAModel(k=100, eta=0.1, seed=1),
    }[name]
    found["package"] = memory()
    x, offsets, _ = draw_documents()
    documents, x = Documents(x.astype(np.int32), offsets), None
    gc.collect()
    forget_peak()
    found["data"] = memory()
    tomotopy_step(make(), Documents(documents.x[:4000], np.arange(0, 4001, 100)))()
    gc.collect()
    forget_peak()
    found["compiled"] = memory()  # nothing is, but the libraries have begun
    start = time.process_time()
    model = make()
    step = tomotopy_step(model, documents)
    for _ in range(sweeps):
        step()
    found |= {
        "seconds": time.process_time() - start,
        "fitted": memory(),
        "peak": peak_memory(),
        "K": model.live_k if name == "tomotopy HDP" else model.k,
        "sweeps": sweeps,
        "corpus": (documents.x.nbytes + offsets.nbytes) / 2**20,
    }
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


def run(sampler, corpus_name, sweeps):
    "One fit: prints what it held as JSON."
    import numba  # noqa: F401
    import numpy as np  # noqa: F401
    import scipy.sparse  # noqa: F401
    import sklearn.base  # noqa: F401

    found = {"libraries": memory()}
    from hdp_nb import HDP

    HDP()
    found["package"] = memory()
    corpus = synthetic() if corpus_name is None else load(corpus_name)[0]
    gc.collect()
    forget_peak()
    found["data"] = memory()
    kind, more = sampler.split(", ")[0], ALONE.get(sampler, {})
    options = {"sampler": kind, "eta": 0.1, "random_state": 0} | more
    warnings.simplefilter("ignore")  # so few sweeps have not converged
    HDP(n_iter=4, thin=1, **options).fit(corpus[:40])
    found["compiling_peak"] = peak_memory()
    gc.collect()
    forget_peak()
    found["compiled"] = memory()
    start = time.process_time()
    model = HDP(n_iter=sweeps, **options).fit(corpus)
    found |= {
        "seconds": time.process_time() - start,
        "fitted": memory(),
        "peak": peak_memory(),
        "K": model.n_topics_,
        "sweeps": sweeps,
        "samples": sum(array.nbytes for sample in model.samples_ for array in sample) / 2**20,
        "corpus": (
            sum(array.nbytes for array in (corpus.x, corpus.offsets, corpus.doc_lengths)) / 2**20
        ),
    }
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sweeps", type=int, default=300)
    parser.add_argument("--corpus", help="instead of the synthetic one")
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=SAMPLERS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    here(parser)
    args = parser.parse_args()
    if args.run in PEERS:
        return run_peer(args.run, args.sweeps)
    if args.run:
        return run(args.run, args.corpus, args.sweeps)
    name, rows = "memory" + (f"_{short(args.corpus)}" if args.corpus else ""), []
    samplers = saved(name).get("samplers", {})
    for sampler in args.samplers:
        if sampler in PEERS and args.corpus:
            continue
        command = [
            sys.executable,
            *this_script(),
            "--run",
            sampler,
            "--sweeps",
            str(args.sweeps),
        ] + (["--corpus", args.corpus] if args.corpus else [])
        samplers[sampler] = found = json.loads(
            subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        )
        save(
            name,
            {
                "machine": machine(),
                "samplers": {
                    sampler: samplers[sampler] for sampler in SAMPLERS if sampler in samplers
                },
            },
        )
        rows.append(
            [
                sampler,
                *(
                    f"{found[key]:.0f}"
                    for key in ("libraries", "package", "data", "compiled", "peak")
                ),
                f"{found['peak'] - found['compiled']:.0f}",
                found["K"],
            ]
        )
    table(
        [
            "sampler",
            "libraries",
            "and package",
            "and data",
            "and compiled",
            "peak of the fit",
            "the fit alone",
            "topics",
        ],
        rows,
    )


if __name__ == "__main__":
    main()
