"""Known clusters: those of a control group found again in patients, by name, and one more as new.

    python -m benchmarks.mixtures.known [--seeds 3]

600 rows of controls in three Normal clusters of two columns, four standard deviations apart, and
600 of patients in these and a fourth with a tenth of the rows. `DPMixture(known=...)` of the
patients, told the clusters that the fit of the controls has, or the truth and a cluster that no
patient has; all else defaults. Of each: share of the rows of the three that have their
names, and of the fourth's that are in one new cluster; of a tenth of the rows nothing better can be
said than by the true densities, which is beside (`ceiling`). By the controls' fit alone: alarms at
a rate of 1%, with 1,000 controls held out, among 4,000 further ones, and among patients of the
fourth cluster. The same rows in three wards, which see other shares of the clusters, by
`HDPMixture` (`groups`; its ceiling has the densities and the shares of the wards). Results go to
results/known_clusters.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save


def judge(model, mu, z, has_absent=False):
    "Shares of rows with the right names, of a model with known clusters."
    import numpy as np

    labels = model.labels_
    of = np.linalg.norm(model.means_[:, None] - mu, axis=2).argmin(axis=1)
    old, new, is_old = model.known_ >= 0, model.known_ < 0, z < 3
    return {
        "by_name": float((old[labels] & (of[labels] == z))[is_old].mean()),
        "new_found": float((new[labels] & (of[labels] == 3))[~is_old].mean()),
        "clusters": int((np.bincount(labels) >= 6).sum()),
        "absent": float((labels == 3).mean()) if has_absent else 0.0,
        "converged": bool(model.converged_),
    }


def best(log_p, z):
    "The same by the true densities and shares."
    right = log_p.argmax(axis=1) == z
    return {"by_name": float(right[z < 3].mean()), "new_found": float(right[z == 3].mean())}


def in_wards(mu, seed, options):
    "Controls and patients in three wards, by `HDPMixture`."
    import numpy as np
    from scipy.stats import multivariate_normal

    from hdp_nb import HDPMixture

    rng = np.random.default_rng([seed, 63])
    ward = np.repeat(np.arange(3), 200)
    share = np.array([[0.6, 0.2, 0.1, 0.1], [0.2, 0.5, 0.1, 0.2], [0.3, 0.2, 0.5, 0.0]])

    def draw(rows, n_clusters):
        p = share[:, :n_clusters] / share[:, :n_clusters].sum(axis=1, keepdims=True)
        z = np.array([rng.choice(n_clusters, p=p[j]) for j in rows])
        return rng.normal(mu[z]), z

    first = HDPMixture(**options).fit(draw(ward, 3)[0], groups=ward)
    X, z = draw(ward, 4)
    begin = time.process_time()
    model = HDPMixture(known=first, **options).fit(X, groups=ward)
    seconds = time.process_time() - begin
    with np.errstate(divide="ignore"):
        log_p = np.log(share)[ward]
    log_p = log_p + np.column_stack([multivariate_normal(m).logpdf(X) for m in mu])
    at = model.known_ < 0
    wards, many = np.repeat(np.arange(3), 400), np.repeat(np.arange(3), 1400)
    held_out, more = draw(wards, 3)[0], draw(many, 3)[0]
    alarm = first.alarm(more, held_out, many, wards)
    fourth = first.alarm(X[z == 3], held_out, ward[z == 3], wards)
    return judge(model, mu, z) | {
        "ceiling": best(log_p, z),
        "new_weight": model.group_weights_[:, :-1][:, at].sum(axis=1).tolist(),
        "false_alarms": float(alarm.steps.mean()),
        "of_the_fourth": float(fourth.steps.mean()),
        "cpu_s": seconds,
    }


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
            found[what] = judge(model, mu, z, what == "truth") | {"cpu_s": seconds}
        found["ceiling"] = best(log_p, z)
        found["groups"] = in_wards(mu, seed, options)
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
