"""Do intervals hold the truth on corpora of four shapes, simulated from a fit and fitted again?

    python -m benchmarks.evaluation.calibration [--n 20]

Counts of five topics over 96 words, bars, short documents of eight topics over 300 words, and
documents whose proportions depend on two covariates: an HDP by direct assignment, two chains, and
as many fits of corpora of the same shape. Noted are the coverage of 90% intervals of the number of
topics, of shares, words and effects, how many true topics were found, and the ranks of the true
shares. How many sweeps there are is noted, too: "short" is run once in 300 and once in more. The
last three fit the simulated documents together with those that they were simulated from.
Shapes that are in results/calibration.json already are not made again.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save, saved, table

LONG = 12_000


def shapes():
    "Corpora, sweeps, and how each is calibrated."
    from hdp_nb.corpora.synthetic import make_bars, make_signatures
    from hdp_nb.evaluation.effects import make_effects

    counts = make_signatures(100, 200, n_topics=5, random_state=0)[0]
    bars = make_bars(200, 80, grid=5, random_state=0)[0]
    short = make_signatures(300, 40, n_words=300, n_topics=8, random_state=0)[0]
    dependent, covariates, _ = make_effects(100, 100, random_state=0)
    asked = {"covariates": covariates, "formula": "~ party + year"}
    return {
        "signatures": (counts, 300, {}),
        "bars": (bars, 300, {}),
        "short": (short, 300, {}),
        "covariates": (dependent, 300, asked),
        "short, long chains": (short, LONG, {}),
        "signatures, with data": (counts, 300, {"with_data": True}),
        "bars, with data": (bars, 300, {"with_data": True}),
        "short, long chains, with data": (short, LONG, {"with_data": True}),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--n", type=int, default=20, help="simulated corpora of each shape")
    n = parser.parse_args().n
    from hdp_nb import HDP
    from hdp_nb.evaluation.calibration import calibrate

    found, rows = saved("calibration") or {"shapes": {}}, []
    for name, (corpus, sweeps, asked) in shapes().items():
        if name not in found["shapes"]:
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options = dict(n_iter=sweeps, thin=max(5, sweeps // 100), n_jobs=1, random_state=0)
                model = HDP(sampler="direct", eta=0.5, **options).fit(corpus)
                result = calibrate(model, corpus, n, **asked)
            good = result.found
            found["shapes"][name] = {
                "coverage": {what: list(row) for what, row in result.coverage().items()},
                "found": float(good.mean()),
                "ranks": result.shares[good, 3].round(4).tolist(),
                "n_topics": result.n_topics.tolist(),
                "n_ranks": result.n_ranks.round(4).tolist(),
                "converged": float(result.converged.mean()),
                "n": n,
                "sweeps": sweeps,
                "seconds": time.process_time() - began,
            }
            found["machine"] = machine()
            save("calibration", found)
        run = found["shapes"][name]
        cells = [f"{mean:.3f} ({error:.3f})" for mean, error, _ in run["coverage"].values()]
        cells += [""] * (4 - len(cells))
        rows.append([name, f"{run['found']:.2f}", *cells, f"{run['seconds']:.0f}"])
    table(["shape", "found", "number", "shares", "words", "effects", "CPU s"], rows)


if __name__ == "__main__":
    main()
