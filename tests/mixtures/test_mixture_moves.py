"""Splits, merges and joins of a DP mixture: exact once the joins are over, from any start."""

import warnings

import numpy as np
import pytest
from naive_dp import normal_inverse_wishart, posterior

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mixtures.dp import DPMixtureSampler
from hdp_nb.mixtures.normal import likelihoods
from hdp_nb.mixtures.split_merge import MixtureMoves
from hdp_nb.models.mixture_models import DPMixture

NORMAL = likelihoods["normal_inverse_wishart"]
SIX = np.array([[0, 0], [0.5, 0.2], [0.2, -0.4], [2.5, 2], [2, 2.6], [1.2, 1]])
PRIOR = NORMAL.make_prior(n_dims=2)
EXACT = posterior(
    SIX,
    lambda x: normal_inverse_wishart(x, PRIOR.mean, PRIOR.kappa, PRIOR.dof, PRIOR.scale),
    alpha_prior=(1.0, 1.0),
)


def error(tune, n_sweeps=20_000):
    "Largest error of P(K) in the sweeps after the first 50, against the enumerated posterior."
    sampler = MixtureMoves(DPMixtureSampler(NORMAL, SIX, PRIOR), 1, tune=tune)
    chain = run_chain(sampler, np.random.default_rng(0), n_sweeps, burn_in=50, thin=n_sweeps)
    K = np.bincount(chain.trace["n_components"][50:].astype(int), minlength=7) / (n_sweeps - 50)
    return abs(K - EXACT.n_components).max()


def test_exact_after_the_joins():
    assert error(tune=50) < 0.012


def test_joins_in_every_sweep_are_rejected():
    assert error(tune=20_000) > 0.03


def test_joins_end():
    sampler = MixtureMoves(DPMixtureSampler(NORMAL, SIX, PRIOR), 2, tune=8).start(5)
    joined = run_chain(sampler, np.random.default_rng(1), 30).trace["joined"]
    assert joined[:8].sum() > 0 and not joined[8:].any()


def clusters(n, rng):
    "Eight normal clusters that overlap, in the plane."
    centres, shapes = rng.normal(0, 2, (8, 2)), rng.normal(0, 0.85, (8, 2, 2))
    z = rng.integers(8, size=n)
    spread = shapes[z] + 0.5 * np.eye(2)
    return centres[z] + np.einsum("nij,nj->ni", spread, rng.normal(size=(n, 2)))


@pytest.mark.slow
def test_the_verdict_knows_that_moves_were_enough():
    X = clusters(600, np.random.default_rng(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = DPMixture("normal", random_state=0).fit(X)
    assert found.converged_ and found.traces_["n_components"].shape == (2, 1000)


def test_the_verdict_knows_that_moves_were_needed():
    X = clusters(600, np.random.default_rng(1))
    with pytest.warns(ConvergenceWarning, match="behind in predicting rows left out"):
        alone = DPMixture("normal", moves=0, n_iter=40, random_state=0).fit(X)
    assert not alone.converged_


def test_runs_until_the_chains_agree():
    X = clusters(400, np.random.default_rng(2))
    model = DPMixture("normal", n_iter="auto", random_state=0).fit(X)
    assert model.converged_ and 100 <= len(model.trace_["alpha"]) < 3000
    short = DPMixture("normal", n_iter=100_000, n_chains=1, random_state=0).fit(X, max_time=0.2)
    assert len(short.trace_["alpha"]) < 100_000 and short.converged_ is None


@pytest.mark.parametrize("init, n", [(None, None), (1, 1), (7, 7)])
def test_starts(init, n):
    X = clusters(50, np.random.default_rng(3))
    model = DPMixture("normal", init=init, moves=0, n_iter=1, n_chains=1, random_state=0)
    seen = []
    model.fit(X, callback=lambda sweep, state: seen.append(state.K[0]))
    assert n is None or seen[0] <= n + 10
    assert len(model.labels_) == 50


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("init", 0, 'init must be "opposite", None or a number of components, got 0'),
        ("init", "many", 'init must be "opposite"'),
        ("n_chains", 0, "n_chains"),
        ("n_iter", "long", "n_iter must be a whole number or 'auto'"),
    ],
)
def test_bad_arguments(name, value, message):
    with pytest.raises(ValueError, match=message):
        DPMixture("normal", **{"n_iter": 4, name: value}).fit(SIX)


def test_auto_needs_two_chains():
    with pytest.raises(ValueError, match="n_chains must be at least 2"):
        DPMixture("normal", n_iter="auto", n_chains=1).fit(SIX)


def test_bad_tune():
    with pytest.raises(ValueError, match="tune"):
        MixtureMoves(DPMixtureSampler(NORMAL, SIX, PRIOR), 1, tune=-1)


def test_one_row_and_equal_rows():
    for X in (SIX[:1], np.ones((5, 2))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = DPMixture(
                "normal_known_variance", prior={"var": 1.0}, n_iter=20, random_state=0
            ).fit(X)
        assert 1 <= model.n_components_ <= len(X) and len(model.labels_) == len(X)


@pytest.mark.parametrize("sampler", ["collapsed", "subclusters"])
def test_a_time_that_is_ample_changes_nothing(sampler):
    "And one that is not shortens what is done in young chains, none of which is kept."
    z = np.repeat(np.arange(12), 30)
    X = np.stack([z % 4, z // 4], 1) * 9.0 + np.random.default_rng(0).normal(size=(len(z), 2))
    make = lambda n: DPMixture("normal", sampler=sampler, n_iter=n, random_state=0)
    plain, timed = make(60).fit(X), make(60).fit(X, max_time=1e6)
    np.testing.assert_array_equal(plain.labels_, timed.labels_)
    np.testing.assert_array_equal(plain.trace_["log_joint"], timed.trace_["log_joint"])
    short = make(10**6).fit(X, max_time=0.3)
    young = "joined" if sampler == "collapsed" else "dissolved"
    kept = short.traces_[young][:, short.burn_in_ :]
    assert kept.size == 0 or np.nansum(kept) == 0
    assert plain.traces_[young][:, 30:].sum() == 0
