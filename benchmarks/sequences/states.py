"""Whether chains over sequences forget where they began: the number of states from one state and
from many, with and without the moves that split and merge states.

    python -m benchmarks.sequences.states [--data six sticky regimes]
        [--samplers direct beam weak_limit] [--starts 1 20 60] [--seeds 2] [--sweeps 1000]
        [--without]
    python -m benchmarks.sequences.states --verdict
    python -m benchmarks.sequences.states --seconds

Data: "six" are 5,000 steps of six states with 30 symbols, "sticky" the same with states that stay,
fitted with kappa learned, "regimes" 300 and 300 numbers from two normal distributions. Of a chain:
how often each number of states was seen in its second half, of all states and of those with 1% of
the steps; moves accepted after the tuning; CPU seconds, without compiling. Runs that are in
results/states.json already are not made again.

With --verdict twelve fits of `HDPHMM` with its defaults to sequences like "six" of different seeds,
half of them without moves: what `converged_` says, and how many states each chain has.

With --seconds one chain of each sampler on "six" from 20 states, without moves and with them, one
after the other: their seconds can be compared, which those of the runs above can only be where one
machine made them all.
"""

import argparse
import itertools
import time
import warnings

from benchmarks.common import machine, save, saved, table


def make(data, seed=0):
    "Observations, the name of the emission, and options of the sampler."
    import numpy as np

    rng, K, V = np.random.default_rng(seed), 6, 30
    if data == "regimes":
        return np.append(rng.normal(-2, 1, 300), rng.normal(2, 1, 300)), "normal", {}
    rows, phi = rng.dirichlet(np.ones(K), K), rng.dirichlet(np.full(V, 0.1), K)
    if data == "sticky":
        rows = 0.7 * np.eye(K) + 0.3 * rows
    z = [0]
    for _ in range(4999):
        z.append(rng.choice(K, p=rows[z[-1]]))
    x = np.array([rng.choice(V, p=phi[k]) for k in z])
    return x, "categorical", {"kappa_prior": (10, 1)} if data == "sticky" else {}


def run(data, method, start, seed, sweeps, moves):
    "One chain; what is noted of it."
    import numpy as np

    from hdp_nb.sequences.emissions import hmm_emission
    from hdp_nb.sequences.moves import StateMoves
    from hdp_nb.sequences.samplers import HMMSampler, check_sequences

    x, name, options = make(data)

    def sampler(x, tune):
        prior, sequences = check_sequences(x, None, name, None)
        base = HMMSampler(
            hmm_emission(name), prior, sequences, method, init=start, max_states=60, **options
        )
        return StateMoves(base, tune=tune) if moves else base

    small, rng = sampler(x[:50], 0), np.random.default_rng(0)
    state = small.init(rng)
    for _ in range(3):  # compiles
        state, _ = small.sweep(rng, state)
    model, rng, began = sampler(x, 300), np.random.default_rng(seed), time.process_time()
    state, large, every, accepted = model.init(rng), [], [], 0
    for sweep in range(sweeps):
        state, info = model.sweep(rng, state)
        every.append(info["n_states"])
        large.append(int((state.n_k >= len(x) / 100).sum()))
        accepted += info.get("moves_accepted", 0) * (sweep >= 300)
    return {
        "all": np.bincount(every[sweeps // 2 :]).tolist(),
        "large": np.bincount(large[sweeps // 2 :]).tolist(),
        "accepted": accepted,
        "seconds": round(time.process_time() - began, 2),
    }


def verdicts(found, n_seeds=6):
    "Two fits to each of several sequences, and a table of them."
    from hdp_nb import HDPHMM

    rows = found.setdefault("verdicts", [])
    for seed, moves in itertools.product(range(n_seeds), (0, "auto")):
        if [row for row in rows if row["seed"] == seed and row["moves"] == str(moves)]:
            continue
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = HDPHMM(moves=moves, random_state=seed, n_jobs=1).fit(make("six", seed)[0])
        row = {"seed": seed, "moves": str(moves), "converged": model.converged_}
        for name in ("states_above_1%", "log_mixture"):
            row[name] = [round(mean, 2) for mean in model.convergence_[name].means]
        row["rhat"] = {
            name: round(r.rhat, 3) for name, r in model.convergence_.items() if r.ok is False
        }
        row["seconds"] = round(time.process_time() - began, 1)
        rows.append(row)
        save("states", found)
    table(list(rows[0]), [list(row.values()) for row in rows])


def side_by_side(found):
    "Seconds of every sampler without moves and with them."
    timed = found["seconds_side_by_side"] = {"machine": machine()}
    for method, moves in itertools.product(("direct", "beam", "weak_limit"), (False, True)):
        name = f"{method}, {'with' if moves else 'without'}"
        timed[name] = run("six", method, 20, 0, 1000, moves)["seconds"]
        print(name, timed[name])
    save("states", found)


def distance(counts):
    "The largest total variation between any two distributions."
    import numpy as np

    p = np.array(list(itertools.zip_longest(*counts, fillvalue=0))).T
    p = p / p.sum(axis=1, keepdims=True)
    return max((abs(a - b).sum() / 2 for a in p for b in p), default=0.0)


def span(counts):
    "The most frequent number of states and its share."
    best = max(range(len(counts)), key=counts.__getitem__)
    return f"{best} ({counts[best] / sum(counts):.2f})"


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parse.add_argument("--data", nargs="+", default=["six", "sticky", "regimes"])
    parse.add_argument("--samplers", nargs="+", default=["direct", "beam", "weak_limit"])
    parse.add_argument("--starts", nargs="+", type=int, default=[1, 20, 60])
    parse.add_argument("--seeds", type=int, default=2)
    parse.add_argument("--sweeps", type=int, default=1000)
    parse.add_argument("--without", action="store_true", help="no moves")
    parse.add_argument("--verdict", action="store_true", help="what converged_ says")
    parse.add_argument("--seconds", action="store_true", help="what moves cost, side by side")
    options = parse.parse_args()
    how, found = "without" if options.without else "with", saved("states") or {"runs": {}}
    if options.verdict:
        return verdicts(found)
    if options.seconds:
        return side_by_side(found)
    for data, method in itertools.product(options.data, options.samplers):
        chosen = []
        for start, seed in itertools.product(options.starts, range(options.seeds)):
            name = f"{data}, {method}, {how} moves, from {start}, seed {seed}, {options.sweeps}"
            if name not in found["runs"]:
                arguments = data, method, start, seed, options.sweeps, not options.without
                found["runs"][name] = run(*arguments)
                found["machine"] = machine()
                save("states", found)
            chosen.append((start, found["runs"][name]))
        print(f"\n{data}, {method}, {how} moves")
        rows = [
            [start, span(r["large"]), span(r["all"]), r["accepted"], f"{r['seconds']:.1f}"]
            for start, r in chosen
        ]
        table(["from", "states above 1%", "states", "accepted", "s"], rows)
        for kind, what in (("large", "states above 1%"), ("all", "states")):
            print(
                f"largest total variation of P({what}) between any two runs"
                f" {distance([r[kind] for _, r in chosen]):.3f}"
            )


if __name__ == "__main__":
    main()
