"""Rows of counts from tables: the numbers of the likelihood, and the laws of its samplers."""

from dataclasses import replace

import numpy as np
import pytest
from naive_dp import multinomial as log_marginal
from naive_dp import posterior
from numba import njit
from scipy.special import logsumexp
from tiers import sweeps

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mixtures import count_tables
from hdp_nb.mixtures.dp import DPMixtureSampler
from hdp_nb.mixtures.likelihood import multinomial
from hdp_nb.mixtures.split_merge import MixtureMoves
from hdp_nb.models.left_out import draw_folds, log_rows
from hdp_nb.models.mixture_models import DPMixture

ROWS = np.array([[2, 0, 1], [1, 0, 1], [0, 3, 0], [0, 0, 0], [0, 1, 1], [3, 0, 0]])
EXACT = posterior(ROWS, lambda x: log_marginal(x, 0.5), alpha_prior=(1.0, 1.0))


def table(n=40, V=12, scale=20.0):
    "Rows with gaps, counts small and large, and one row of nothing."
    rng = np.random.default_rng(3)
    data = rng.poisson(rng.choice([0.0, 0.5, scale], (n, V)))
    data[0] = 0
    return data


@pytest.mark.parametrize("eta", [0.5, 1e-300, 1e4, [0.01, 0.5, 0.5, 7.0] * 3], ids=str)
@pytest.mark.parametrize("small, most", [(16, 2**20), (0, 2**20), (3, 40), (10**6, 3)])
def test_the_numbers_of_the_likelihood(eta, small, most, monkeypatch):
    monkeypatch.setattr(count_tables, "SMALL", small)
    monkeypatch.setattr(count_tables, "MOST", most)
    data, plain, kind = table(), multinomial.make_prior(12, eta), multinomial.packing
    prior = kind.prior(plain, data)
    rows, rng, K = kind.rows(prior, data), np.random.default_rng(0), 5
    z = rng.integers(K, size=len(data))
    here, there = (multinomial.init_stats(plain, K + 2) for _ in range(2))
    for i, k in enumerate(z):
        multinomial.add(here, k, data, i)
        kind.add(there, k, rows, i)
    weights, out = kind.prepare(prior, there, K, rows), np.empty(K + 2)
    for _ in range(100):
        i, k = rng.integers(len(data)), rng.integers(K)
        multinomial.remove(here, z[i], data, i)
        kind.remove(there, z[i], rows, i)
        kind.weigh(prior, there, K, rows, i, z[i], weights, out)
        exact = [multinomial.log_predictive(plain, here, j, data, i) for j in range(K + 1)]
        np.testing.assert_allclose(out[: K + 1], exact, rtol=1e-12, atol=1e-9)
        one_by_one = [kind.log_predictive(prior, there, j, rows, i) for j in range(K + 1)]
        np.testing.assert_allclose(one_by_one, exact, rtol=1e-12, atol=1e-9)
        multinomial.add(here, k, data, i)
        kind.add(there, k, rows, i)
        if k != z[i]:
            kind.renew(prior, there, k, rows, i, weights)
            kind.renew(prior, there, z[i], rows, i, weights)
        z[i] = k
    assert all((a == b).all() for a, b in zip(here, there))
    assert (weights == kind.prepare(prior, there, K, rows)).all()
    for k in range(K + 1):
        pair = kind.log_marginal(prior, there, k), multinomial.log_marginal(plain, here, k)
        np.testing.assert_allclose(*pair, rtol=1e-12, atol=1e-9)
    multinomial.move(there, K - 1, 1)
    kind.vacate(1, K - 1, weights)
    assert (weights == kind.prepare(prior, there, K - 1, rows)).all()


N, EXACT_WITHIN = sweeps(20_000, 0.012)


def error(sampler, n_sweeps=N):
    "Largest error of P(K), against the enumerated posterior."
    chain = run_chain(sampler, np.random.default_rng(0), n_sweeps, burn_in=50, thin=n_sweeps)
    K = np.bincount(chain.trace["n_components"].astype(int), minlength=7) / n_sweeps
    return abs(K - EXACT.n_components).max()


@pytest.mark.parametrize("small", [0, 1, 16])
@pytest.mark.parametrize("moves", [False, True])
def test_hits_the_enumerated_posterior(moves, small, monkeypatch):
    monkeypatch.setattr(count_tables, "SMALL", small)
    sampler = DPMixtureSampler(multinomial, ROWS, multinomial.make_prior(3))
    assert error(MixtureMoves(sampler, 2, scans=1, tune=0) if moves else sampler) < EXACT_WITHIN


@njit
def forget_row(prior, stats, k, rows, i, weights):
    pass


@njit
def forget_slot(k, last, weights):
    pass


@pytest.mark.parametrize(
    "broken", [{"renew": forget_row}, {"vacate": forget_slot}], ids=["renew", "vacate"]
)
def test_control_weights_that_are_not_renewed(broken):
    fam = replace(multinomial, packing=multinomial.packing._replace(**broken))
    assert error(DPMixtureSampler(fam, ROWS, fam.make_prior(3))) > 0.03


@njit
def half(prior, stats, k, data, i):
    return 0.5 * multinomial_predictive(prior, stats, k, data, i)


multinomial_predictive = multinomial.log_predictive


def test_a_copy_with_another_part_has_no_packing():
    assert replace(multinomial, log_predictive=half).packing is None
    assert replace(multinomial, name="other").packing is multinomial.packing
    sampler = DPMixtureSampler(replace(multinomial, packing=None), ROWS, multinomial.make_prior(3))
    assert sampler.packed[2] is sampler.data
    again = sampler.with_data(ROWS[:2].copy())
    assert again.packed[2] is again.data


def planted(n=200, V=300):
    rng = np.random.default_rng(1)
    words = rng.dirichlet(np.full(V, 0.05), 4)
    return np.stack([rng.multinomial(25, words[k]) for k in rng.integers(4, size=n)])


def test_more_slots_jobs_and_interruptions_change_nothing(tmp_path):
    X, path = planted(), tmp_path / "chain.npz"
    sampler = MixtureMoves(DPMixtureSampler(multinomial, X, multinomial.make_prior(300)), 2, tune=4)
    tight, ample = (sampler.base.state(np.zeros(200, int), capacity=c) for c in (2, 64))
    one, other = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(10):
        tight, ample = (sampler.base.sweep(*pair)[0] for pair in ((one, tight), (other, ample)))
        assert (tight.z == ample.z).all() and tight.alpha == ample.alpha
    whole = run_chain(sampler, np.random.default_rng(0), 12)
    run_chain(sampler, np.random.default_rng(0), 5, checkpoint=path)
    rest = run_chain(sampler, np.random.default_rng(9), 12, checkpoint=path)
    assert all((whole.trace[name] == rest.trace[name]).all() for name in whole.trace)
    make = lambda n_jobs: DPMixture("multinomial", n_iter=40, n_jobs=n_jobs, random_state=0)
    serial, threads = make(1).fit(X), make(2).fit(X)
    assert (serial.samples_["z"] == threads.samples_["z"]).all()
    assert (serial.trace_["log_joint"] == threads.trace_["log_joint"]).all()


def test_rows_left_out_are_not_among_those_that_predict():
    X, z = planted(60), np.arange(60) % 3
    sampler = DPMixtureSampler(multinomial, X, multinomial.make_prior(300))
    fold, wanted = draw_folds(np.ones(60), 40), np.empty(60)
    for f in range(5):
        rest = DPMixtureSampler(multinomial, X[fold != f], sampler.prior)
        log_w = rest.log_weights(rest.state(z[fold != f], 1.3), X[fold == f])
        wanted[fold == f] = logsumexp(log_w, axis=1)
    found = log_rows(sampler, {"z": z, "alpha": 1.3}, fold)
    np.testing.assert_allclose(found, wanted[fold >= 0], rtol=1e-12)


def test_what_is_kept_follows_the_entries_and_not_the_columns():
    X = planted()
    wide = np.hstack([X, np.zeros((200, 5000), int)])
    for data in (X, wide):
        prior = count_tables.make_tables(multinomial.make_prior(data.shape[1]), data)
        rows = count_tables.list_entries(prior, data)
        assert len(rows.column) == len(rows.times) == np.count_nonzero(X)
        assert prior.first[-1] == np.minimum(X.max(axis=0), count_tables.SMALL).sum()
        assert len(prior.log_rising) == X.sum(axis=0).max() + 1
