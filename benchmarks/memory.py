"""How much memory a fit takes over Python and the data, on data of the size of the Associated
Press corpus.

    python benchmarks/memory.py [--sweeps 300] [--corpus NAME]

2,246 synthetic documents, 435,838 tokens of 10,473 words. Every sampler in a fresh process, as the
estimator `HDP` runs it with its defaults and eta 0.1; what the process
holds is noted after the imports, after the data are there, after a tiny fit that compiles
everything, and the peak of the real fit (on Linux; elsewhere the peak is that of
the whole process).
"""

import argparse
import gc
import json
import subprocess
import sys
import time

from common import forget_peak, here, load, machine, memory, peak_memory, save, saved, short, table

SAMPLERS = ["direct", "hybrid", "crf", "parallel"]


def synthetic(n_docs=2246, n_tokens=435_838, n_words=10_473, n_topics=100):
    "Documents of a hundred topics, words by Zipf's law."
    import numpy as np

    from hdp_nb.corpus import Corpus

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
    return Corpus.from_docs(np.split(x, offsets[1:-1]), n_words=n_words)


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
    HDP(sampler, eta=0.1, n_iter=4, thin=1, random_state=0).fit(corpus[:40])
    found["compiling_peak"] = peak_memory()
    gc.collect()
    forget_peak()
    found["compiled"] = memory()
    start = time.process_time()
    model = HDP(sampler, eta=0.1, n_iter=sweeps, random_state=0).fit(corpus)
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
    if args.run:
        return run(args.run, args.corpus, args.sweeps)
    name, rows = "memory" + (f"_{short(args.corpus)}" if args.corpus else ""), []
    samplers = saved(name).get("samplers", {})
    for sampler in args.samplers:
        command = [sys.executable, __file__, "--run", sampler, "--sweeps", str(args.sweeps)] + (
            ["--corpus", args.corpus] if args.corpus else []
        )
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
