"""Known states: controls' states found again in mutants, by name, and a fourth as new.

    python -m benchmarks.sequences.known [--seeds 3]

Six control sequences of 400 steps with three states, six of mutants with these and a fourth, each
state 20 steps at a time on average: Normal observations in two columns, whose states are four
standard deviations apart, or twelve symbols. `HDPHMM(known=...)` of the mutants, by what the fit of
the controls has found, or by the truth; 300 sweeps, else defaults. Of each: share of the steps of
the three states that have their names; share of the fourth's that are in one new state, and of that
state's that are the fourth's; whether it converged; CPU seconds. Without known states: the steps of
the fourth that the controls' fit gives to no state (`predict_proba(none=True)`), and its alarm at a
rate of 1%, with thresholds from 60 control sequences that were not in the fit: stretches of twenty
steps of 60 further control sequences with an alarm, and visits of mutants to the fourth state with
one. Results go to results/known_states.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save

N, STEPS, STAY = 6, 400, 0.95


def path(rng, n_states):
    import numpy as np

    z = np.zeros(STEPS, int)
    for t in range(1, STEPS):
        others = [k for k in range(n_states) if k != z[t - 1]]
        z[t] = z[t - 1] if rng.random() < STAY else rng.choice(others)
    return z


def emit(rng, kind, z, truth):
    import numpy as np

    if kind == "normal":
        return rng.normal(truth[z])
    return np.array([rng.choice(12, p=truth[k]) for k in z])


def judge(model, z):
    import numpy as np

    labels, K = model.labels_, model.n_states_
    table = np.array([np.bincount(labels[z == k], minlength=K) for k in range(4)])
    new = np.flatnonzero(model.known_ < 0)
    best = new[table[3, new].argmax()] if len(new) else -1
    used = table.sum(axis=0) / len(z) > 0.01
    return {
        "by_name": float(np.trace(table[:3, :3]) / table[:3].sum()),
        "new_found": float(table[3, best] / table[3].sum()) if best >= 0 else 0.0,
        "new_pure": float(table[3, best] / max(table[:, best].sum(), 1)) if best >= 0 else 0.0,
        "states": int(used.sum()),
        "converged": bool(model.converged_),
    }


def measure(kind, seed):
    import numpy as np

    from hdp_nb import HDPHMM, Known
    from hdp_nb.models.states import find_bouts

    rng = np.random.default_rng([seed, 62])
    truth = np.array([[0, 0], [4, 0], [0, 4], [4, 4.0]])
    if kind != "normal":
        truth = rng.dirichlet(np.full(12, 0.4), 4)
    draw = lambda n, K: [path(rng, K) for _ in range(n)]
    control, mutant, held, more = draw(N, 3), draw(N, 4), draw(60, 3), draw(60, 3)
    data = [[emit(rng, kind, z, truth) for z in part] for part in (control, mutant, held, more)]
    options = dict(emission=kind, n_iter=300, random_state=seed)
    if kind != "normal":
        options["prior"] = {"n_symbols": 12}
    found, z = {}, np.concatenate(mutant)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.process_time()
        first = HDPHMM(**options).fit(data[0])
        found["controls"] = {"states": int(first.n_states_), "cpu_s": time.process_time() - begin}
        true = np.concatenate(control)
        name = [
            np.bincount(true[first.labels_ == k], minlength=3).argmax()
            for k in range(first.n_states_)
        ]
        order = [name.index(k) for k in range(3)]  # the largest of each
        emissions = first.emissions_
        sizes = np.bincount(first.labels_)[order]
        found_states = {
            f"state {k}": {key: a[at] for key, a in emissions.items()} for k, at in enumerate(order)
        }
        told = {
            "fit": Known(found_states, strength=sizes),
            "truth": {
                f"state {k}": {"mean": truth[k], "cov": np.eye(2)}
                if kind == "normal"
                else {"phi": truth[k]}
                for k in range(3)
            },
        }
        for what, known in told.items():
            begin = time.process_time()
            model = HDPHMM(known=known, **options).fit(data[1])
            seconds = time.process_time() - begin
            found[what] = judge(model, z) | {"cpu_s": seconds}
        none = np.concatenate([p[:, -1] for p in first.predict_proba(data[1], none=True)])
        alarm = first.alarm(data[3], data[2])
        threshold = alarm.threshold
        stretches = alarm.steps.reshape(-1, 20).any(axis=1)
        novelty = np.concatenate(first.novelty(data[1]))
    offsets = np.arange(N + 1) * STEPS
    of, start, end = find_bouts(z, offsets)
    visits = [(novelty[a:b] > threshold).any() for a, b in zip(start, end) if z[a] == 3]
    found["alarm"] = {
        "none_of_fourth": float((none[z == 3] > 0.5).mean()),
        "none_of_known": float((none[z < 3] > 0.5).mean()),
        "false_alarms": float(stretches.mean()),
        "stretches": len(stretches),
        "visits_found": float(np.mean(visits)),
    }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    out = {"machine": machine(), "results": {"normal": [], "categorical": []}}
    for seed in range(args.seeds):
        for kind, rows in out["results"].items():
            rows.append(measure(kind, seed))
            print(kind, seed, rows[-1], flush=True)
            save("known_states", out)


if __name__ == "__main__":
    main()
