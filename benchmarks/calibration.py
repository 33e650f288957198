"""Do intervals hold the truth on corpora of three shapes, simulated from a fit and fitted again?

    python benchmarks/calibration.py [--n 20]

Counts of five topics over 96 words, bars, and short documents of eight topics over 300 words: the
default HDP by direct assignment, two chains of 300 sweeps, and as many fits of corpora of the same
shape. Noted are the coverage of 90% intervals of the number of topics, of shares and of words, how
many true topics were found, and the ranks of the true shares. Shapes that are in
results/calibration.json already are not made again.
"""

import argparse
import time
import warnings

from common import machine, save, saved, table


def shapes():
    "Three corpora."
    from hdp_nb.synthetic import make_bars, make_signatures

    return {
        "signatures": make_signatures(100, 200, n_topics=5, random_state=0)[0],
        "bars": make_bars(200, 80, grid=5, random_state=0)[0],
        "short": make_signatures(300, 40, n_words=300, n_topics=8, random_state=0)[0],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--n", type=int, default=20, help="simulated corpora of each shape")
    n = parser.parse_args().n
    from hdp_nb import HDP
    from hdp_nb.calibration import calibrate

    found, rows = saved("calibration") or {"shapes": {}}, []
    for name, corpus in shapes().items():
        if name not in found["shapes"]:
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = HDP("direct", eta=0.5, n_iter=300, thin=5, n_jobs=1, random_state=0).fit(
                    corpus
                )
                result = calibrate(model, corpus, n)
            good = result.found
            found["shapes"][name] = {
                "coverage": {what: list(row) for what, row in result.coverage().items()},
                "found": float(good.mean()),
                "ranks": result.shares[good, 3].round(4).tolist(),
                "n_topics": result.n_topics.tolist(),
                "n_ranks": result.n_ranks.round(4).tolist(),
                "converged": float(result.converged.mean()),
                "n": n,
                "seconds": time.process_time() - began,
            }
            found["machine"] = machine()
            save("calibration", found)
        run = found["shapes"][name]
        cells = [f"{mean:.3f} ({error:.3f})" for mean, error, _ in run["coverage"].values()]
        rows.append([name, f"{run['found']:.2f}", *cells, f"{run['seconds']:.0f}"])
    table(["shape", "found", "number", "shares", "words", "CPU s"], rows)


if __name__ == "__main__":
    main()
