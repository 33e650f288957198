"""Known clusters: those of a control group found again in patients, by name, and one more as new.

    python -m benchmarks.mixtures.known [--seeds 3]

600 rows of controls in three Normal clusters of two columns, four standard deviations apart, and
600 of patients in these and a fourth with a tenth of the rows. `DPMixture(known=...)` of the
patients, told the clusters that the fit of the controls has, or the truth and a cluster that no
patient has; all else defaults. Of each: share of the rows of the three that have their
names, and of the fourth's that are in one new cluster; of a tenth of the rows nothing better can be
said than by the true densities, which is beside (`ceiling`). By the controls' fit alone: alarms at
a rate of 1%, with 1,000 controls held out, among 4,000 further ones, and among patients of the
fourth cluster. Results go to results/known_clusters.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save


def measure(seed):
    import numpy as np
    from scipy.stats import multivariate_normal

    from hdp_nb import DPMixture

    rng = np.random.default_rng([seed, 62])
    mu, share = np.array([[0, 0], [4, 0], [0, 4], [4, 4.0]]), np.array([0.4, 0.3, 0.2, 0.1])
    three = share[:3] / share[:3].sum()
    control = rng.normal(mu[rng.choice(3, 600, p=three)])
    z = rng.choice(4, 600, p=share)
    X = rng.normal(mu[z])
    log_p = np.log(share) + np.column_stack([multivariate_normal(m).logpdf(X) for m in mu])
    options, found = dict(likelihood="normal", random_state=seed), {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = DPMixture(**options).fit(control)
        true = {f"cluster {k}": {"mean": mu[k], "cov": np.eye(2)} for k in range(3)}
        true["absent"] = {"mean": [-8, -8], "cov": np.eye(2)}
        for what, known in {"fit": first, "truth": true}.items():
            begin = time.process_time()
            model = DPMixture(known=known, **options).fit(X)
            seconds = time.process_time() - begin
            means, labels = model.means_, model.labels_
            of = np.linalg.norm(means[:, None] - mu, axis=2).argmin(axis=1)
            old, new = model.known_ >= 0, model.known_ < 0
            is_old = z < 3
            found[what] = {
                "by_name": float((old[labels] & (of[labels] == z))[is_old].mean()),
                "new_found": float((new[labels] & (of[labels] == 3))[~is_old].mean()),
                "clusters": int((np.bincount(labels) >= 6).sum()),
                "absent": float((labels == 3).mean()) if what == "truth" else 0.0,
                "converged": bool(model.converged_),
                "cpu_s": seconds,
            }
        best = log_p.argmax(axis=1) == z
        found["ceiling"] = {
            "by_name": float(best[z < 3].mean()),
            "new_found": float(best[z == 3].mean()),
        }
        draw = lambda n: rng.normal(mu[rng.choice(3, n, p=three)])
        held_out, more = draw(1000), draw(4000)
        found["alarm"] = {
            "false_alarms": float(first.alarm(more, held_out).steps.mean()),
            "of_the_fourth": float(first.alarm(X[z == 3], held_out).steps.mean()),
        }
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    out = {"machine": machine(), "results": []}
    for seed in range(args.seeds):
        out["results"].append(measure(seed))
        print(seed, out["results"][-1], flush=True)
        save("known_clusters", out)


if __name__ == "__main__":
    main()
