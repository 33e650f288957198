"""DP mixtures by blocks of rows: exact, by any of their moves; what DPMixture makes of them."""

import os
import subprocess
import sys

import numpy as np
import pytest
from naive_dp import (
    categorical,
    multinomial,
    normal_inverse_gamma,
    normal_inverse_wishart,
    posterior,
)
from scipy.sparse import csr_array
from sklearn.metrics import adjusted_rand_score

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mixtures.dp import DPMixtureSampler
from hdp_nb.mixtures.normal import likelihoods
from hdp_nb.mixtures.row_blocks import ROWS
from hdp_nb.mixtures.subclusters import SubclusterSampler, settle
from hdp_nb.models.mixture_models import MANY_ROWS, DPMixture

SIX = np.array([[0, 0], [0.5, 0.2], [0.2, -0.4], [2.5, 2], [2, 2.6], [1.2, 1]])
COUNTS = np.array([[4, 1, 0], [3, 0, 1], [0, 1, 4], [1, 0, 3], [1, 4, 0], [0, 2, 0]])
TILTED = np.array([[1.0, 0.3], [0.3, 0.8]])
# name: rows, hyperparameters, log marginal of the members of a component
EXACT = {
    "normal_inverse_wishart": (
        SIX,
        {"n_dims": 2, "mean": 0.3, "kappa": 0.4, "dof": 4.5, "scale": TILTED},
        lambda x: normal_inverse_wishart(x, 0.3, 0.4, 4.5, TILTED),
    ),
    "normal_inverse_gamma": (
        SIX,
        {"n_dims": 2, "mean": 0.3, "kappa": 0.4, "shape": 1.3, "scale": 0.8},
        lambda x: normal_inverse_gamma(x, 0.3, 0.4, 1.3, 0.8),
    ),
    "multinomial": (COUNTS, {"n_words": 3, "eta": 0.6}, lambda x: multinomial(x, 0.6)),
    "categorical": (
        np.array([0, 0, 1, 2, 2, 1]),
        {"n_words": 3, "eta": 0.3},
        lambda x: categorical(x, 0.3, 3),
    ),
}


def make(name, n_proposals=1, **options):
    "The sampler of six rows."
    X, hyper, _ = EXACT[name]
    fam = likelihoods[name]
    base = DPMixtureSampler(fam, X, fam.make_prior(**hyper), 1.5, (2.0, 1.5))
    return SubclusterSampler(base, n_proposals, **{"tune": 0, "n_singles": 1} | options)


def error(name, sampler, n_sweeps):
    "Largest error of P(K), and of alpha's mean in units of itself, against the enumeration."
    X, _, log_marginal = EXACT[name]
    exact = posterior(X, log_marginal, 1.5, (2.0, 1.5))
    trace = run_chain(sampler, np.random.default_rng(0), n_sweeps, thin=n_sweeps).trace
    K = np.bincount(trace["n_components"].astype(int), minlength=7) / n_sweeps
    return max(abs(K - exact.n_components).max(), abs(trace["alpha"].mean() / exact.alpha - 1))


@pytest.mark.parametrize(
    "name",
    [
        "normal_inverse_wishart",
        "multinomial",
        pytest.param("normal_inverse_gamma", marks=pytest.mark.slow),
        pytest.param("categorical", marks=pytest.mark.slow),
    ],
)
def test_hits_the_enumerated_posterior(name):
    assert error(name, make(name), 900) < 0.07


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_hits_the_enumerated_posterior_closely(name):
    assert error(name, make(name, scans=2), 6000) < 0.04


class OnlySplits(SubclusterSampler):
    "Splits, merges and blocks of rows; no single rows."

    def _single(self, rng, parts):
        pass


class Emptying(SubclusterSampler):
    "Wrong: rows go where they have chosen, and components that become empty are forgotten."

    def _gibbs(self, rng, parts):
        natural = self.rows.draw(rng, parts.n, parts.total)
        chosen, _, log_p = self._choose(rng.random(self.n), None, natural, np.log(parts.n))
        parts.z[:] = np.unique(chosen, return_inverse=True)[1]
        n = np.bincount(parts.z)
        return n, self.rows.sums(None, parts.z, len(n)), log_p


def as_kind(kind, sampler):
    return kind(sampler.base, sampler.n_proposals, tune=0, n_singles=1)


def test_wrong_samplers_are_rejected():
    right = make("multinomial")
    assert error("multinomial", as_kind(Emptying, right), 300) > 0.15


@pytest.mark.slow
def test_splits_need_their_probability(monkeypatch):
    "Splits and merges with blocks of rows alone are exact; without (I6), or tuned, they are not."
    right = make("multinomial", 3)
    assert error("multinomial", as_kind(OnlySplits, right), 3000) < 0.06
    assert error("multinomial", make("multinomial"), 1500) < 0.03
    assert error("multinomial", make("multinomial", tune=1500), 1500) > 0.05
    monkeypatch.setattr("hdp_nb.mixtures.subclusters.log_parts", lambda odds, second: 0.0)
    assert error("multinomial", as_kind(OnlySplits, right), 600) > 0.1


def test_rows_move_in_turn_and_leave_none_empty():
    rng = np.random.default_rng(0)
    for _ in range(200):
        z = np.unique(rng.integers(4, size=8), return_inverse=True)[1]
        chosen, n_k = rng.integers(z.max() + 1, size=8), np.bincount(z)
        plain = z.copy()
        for i in range(8):
            if (plain == plain[i]).sum() > 1:
                plain[i] = chosen[i]
        settle(z, chosen, n_k)
        assert (z == plain).all() and (n_k == np.bincount(z)).all() and n_k.min() > 0


def test_products_of_columns_written_out_or_not():
    "With more than eight columns sums and densities of few components are made in another way."
    rng, fam = np.random.default_rng(0), likelihoods["normal_inverse_wishart"]
    X = rng.normal(size=(40, 9)) @ rng.normal(size=(9, 9))
    prior, z = fam.default_prior(X), np.arange(40) % 2
    rows = ROWS[fam.name](prior, X)
    n, T, every = np.bincount(z), rows.features(slice(None)), np.arange(40)
    total = np.array([T[z == k].sum(axis=0) for k in (0, 1)])
    assert np.allclose(rows.sums(None, z, 2), total)
    assert np.allclose(rows.sums(every[::-1], z[::-1], 2), total)
    natural = rows.draw(rng, n, total)
    assert np.allclose(rows.log_density(every, natural), T @ natural.coef + natural.const)
    state = DPMixtureSampler(fam, X, prior).state(z)
    log_m = [fam.log_marginal(prior, state.stats, k) for k in (0, 1)]
    assert np.allclose(rows.log_marginal(n, total), log_m)


@pytest.mark.parametrize("spread", [30.0, 0.0])
def test_densities_that_cannot_matter_are_left_out(spread, monkeypatch):
    "And no others, where clusters are apart; none where they are not."
    rng, fam, every = (
        np.random.default_rng(0),
        likelihoods["normal_inverse_wishart"],
        np.arange(3000),
    )
    z = every % 12
    X = rng.normal(size=(3000, 40)) @ rng.normal(size=(40, 40))
    X += spread * rng.normal(size=(12, 40))[z]
    rows = ROWS[fam.name](fam.default_prior(X), X)
    natural = rows.draw(rng, np.bincount(z), rows.sums(None, z, 12))
    exact = rows.log_density(every, natural)
    below = exact.max(axis=1)[:, None] - exact
    found = rows.choices(natural)[0](every)
    there = np.isfinite(found)
    assert np.allclose(found[there], exact[there])
    assert below[~there].min() > 50 and there.mean() < 0.25 if spread else there.all()
    if not spread:
        monkeypatch.setattr("hdp_nb.mixtures.row_blocks.NEGLIGIBLE", -np.inf)
        assert below[np.isinf(rows.choices(natural)[0](every))].min() < 50


CLOUDS = np.random.default_rng(0).normal(size=(300, 2))
TRUTH = np.repeat([0, 1, 2], 100)
CLOUDS += np.array([[0, 0], [8, 0], [0, 8]])[TRUTH]


def quick(likelihood="normal", **params):
    few = {"n_iter": 40, "thin": 5, "sampler": "subclusters", "random_state": 1}
    return DPMixture(likelihood, **few | params)


def test_the_burn_in_ends():
    fam = likelihoods["normal_inverse_wishart"]
    base = DPMixtureSampler(fam, CLOUDS, fam.default_prior(CLOUDS))
    for k in (1, 60):
        trace = run_chain(
            SubclusterSampler(base, 0, tune=12).start(k), np.random.default_rng(0), 20
        ).trace
        proposed = trace["splits_proposed"] + trace["merges_proposed"]
        assert proposed[:12].min() > 0 and not proposed[12:].any()
        assert not trace["dissolved"][12:].any() and (k == 1 or trace["dissolved"].sum() > 30)
        assert 3 <= trace["n_components"][-1] < 10


@pytest.mark.parametrize("sparse", [False, True])
def test_an_estimator_of_many_rows(tmp_path, sparse):
    "Clusters found; kept, saved and resumed as with the collapsed sampler."
    if sparse:
        rng, words = np.random.default_rng(2), np.full((3, 6), 0.04) + np.eye(3, 6) * 0.76
        X, kind = csr_array(rng.multinomial(30, words[TRUTH])), "multinomial"
    else:
        X, kind = CLOUDS, "normal"
    model = quick(kind).fit(X, checkpoint=tmp_path / "run.npz")
    assert model.sampler_ == "subclusters" and model.traces_["dissolved"].shape == (2, 40)
    assert adjusted_rand_score(TRUTH, model.labels_) > 0.95
    assert adjusted_rand_score(TRUTH, model.predict(X)) > 0.95 and np.isfinite(model.score(X))
    again = quick(kind, n_jobs=1).fit(X, checkpoint=tmp_path / "run.npz")
    assert (again.samples_["z"] == model.samples_["z"]).all()
    model.save(tmp_path / "model.npz")
    loaded = DPMixture.load(tmp_path / "model.npz")
    assert loaded.sampler_ == "subclusters" and (loaded.predict(X) == model.predict(X)).all()


def test_which_sampler():
    assert quick(sampler="auto", n_iter=2).fit(CLOUDS).sampler_ == "collapsed"
    symbols = np.arange(MANY_ROWS) % 3
    many = quick("categorical", sampler="auto", n_iter=2, n_chains=1).fit(symbols)
    assert many.sampler_ == "subclusters" and many.samples_["z"].shape == (1, MANY_ROWS)
    alone = quick(moves=0, n_iter=4, n_chains=1).fit(CLOUDS)
    assert alone.sampler_ == "subclusters" and not alone.trace_["splits_proposed"].any()
    with pytest.raises(ValueError, match="^sampler must be one of 'auto', 'collapsed', 'sub"):
        quick(sampler="fast").fit(CLOUDS)
    with pytest.raises(ValueError, match='^sampler must be "collapsed" unless likelihood is one'):
        quick("poisson").fit(COUNTS)


@pytest.mark.parametrize(
    "argument, value",
    [("n_proposals", -1), ("until", -1), ("scans", 0.5), ("tune", -1), ("n_singles", 0)],
)
def test_bad_arguments(argument, value):
    with pytest.raises(ValueError, match=f"^{argument}"):
        make("multinomial", **{argument: value})


def test_a_scale_that_is_lost():
    "Squares of the rows that swallow the prior's scale are named, not sampled from."
    X = np.append(CLOUDS, [[1e9, 1e9]], axis=0)
    with pytest.raises(ValueError, match="^prior scale must not be lost"):
        quick(prior={"scale": 1e-6}).fit(X)


@pytest.mark.slow
def test_the_same_labels_with_any_number_of_threads():
    script = """
import numpy as np
from hdp_nb.models.mixture_models import DPMixture
X = np.random.default_rng(0).normal(size=(4000, 30)) + 3 * (np.arange(4000) % 4)[:, None]
model = DPMixture("normal", sampler="subclusters", n_iter=20, n_chains=1, random_state=0).fit(X)
print(model.samples_["z"].astype(int).tobytes().hex()[:2000], model.n_components_)
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            check=True,
            capture_output=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": str(n), "OMP_NUM_THREADS": str(n)},
        ).stdout
        for n in (1, 2)
    }
    assert len(found) == 1


def test_scale_that_is_lost_beside_the_squares():
    "Two clusters so far apart that sums of squares have no digits for what is within."
    z = np.random.default_rng(0).integers(0, 2, 2000)
    x = (1e7 * z + np.random.default_rng(1).normal(size=2000))[:, None]
    for name, scale in (("normal_inverse_gamma", 0.5), ("normal", 1.0)):
        prior = {"scale": scale, "mean": 0.0, "kappa": 1e-12}
        model = DPMixture(name, prior=prior, n_iter=4, sampler="subclusters", random_state=0)
        with pytest.raises(ValueError, match="^prior scale must not be lost beside the squares"):
            model.fit(x)
        nearer = x - 9.9e6 * z[:, None]
        assert len(model.fit(nearer).labels_) == 2000
    found = DPMixture("normal_inverse_gamma", prior={"scale": 0.5, "kappa": 1e-12}, n_iter=20)
    assert found.set_params(sampler="collapsed", random_state=0).fit(x).n_components_ == 2


def test_rows_of_a_hundred_million_counts():
    "Log probabilities of 1e9, whose exponentials add up to 1 in few digits."
    rng = np.random.default_rng(0)
    z = rng.integers(0, 5, 2000)
    X = rng.multinomial(10**8, rng.dirichlet(np.full(20, 0.5), 5)[z])
    model = DPMixture("multinomial", n_iter=12, sampler="subclusters", random_state=0).fit(X)
    assert adjusted_rand_score(model.labels_, z) == 1
