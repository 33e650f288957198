"""States with linear dynamics: exact, with what is conditioned on, and bad input refused."""

import numpy as np
import pytest
from naive_hmm import Posterior
from scipy.special import multigammaln
from test_hmm import distance
from test_state_moves import FAIR, FIXED, alternate

from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models.loading import load_model
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.sequences.autoregression import autoregression, make_autoregression_prior
from hdp_nb.sequences.emissions import hmm_emission
from hdp_nb.sequences.hdp_hmm import MISSING_STEP
from hdp_nb.sequences.samplers import HMMSampler, check_sequences

X = np.array([[0.3, 1], [0.1, 0.6], [2, 0.1], [np.nan, 0], [2, 3], [5, 1], [4, 1.2], [0, 3]])
HYPER = dict(order=1, kappa=0.4, dof=4.0, scale=0.3)


def read(lengths=(5, 3), **hyper):
    return check_sequences(X, list(lengths), "autoregression", None, **HYPER | hyper)


def log_marginal(prior, x, past):
    "By inverses and determinants, of some steps given their past."
    D, n, K_0, A_0 = len(prior.coef), len(x), np.diag(prior.precision), prior.coef
    U = np.column_stack([np.ones(n), past])
    K_n = K_0 + U.T @ U
    A_n = (A_0 @ K_0 + x.T @ U) @ np.linalg.inv(K_n)
    S_n = prior.scale + x.T @ x + A_0 @ K_0 @ A_0.T - A_n @ K_n @ A_n.T
    log_det = lambda a: np.linalg.slogdet(a)[1]
    return (
        D / 2 * (log_det(K_0) - log_det(K_n) - n * np.log(np.pi))
        + (prior.dof * log_det(prior.scale) - (prior.dof + n) * log_det(S_n)) / 2
        + multigammaln((prior.dof + n) / 2, D)
        - multigammaln(prior.dof / 2, D)
    )


def exact(prior, seen, **past):
    "Posterior of the states if just these steps are explained, by the row before them or others."
    x = X - prior.mean
    before = np.vstack([x[:1], x[:-1]])
    for t, row in past.items():
        before[int(t[1:])] = row
    log_p = lambda rows: log_marginal(prior, x[rows], before[rows]) if rows else 0.0
    steps = [t if t in seen else None for t in range(8)]
    return Posterior([steps[:5], steps[5:]], 1, 1.0, 1.2, 0.8, 0.9, emission=log_p)


@pytest.mark.slow  # one more kind of emissions for all kernels of sequences
def test_sweeps_and_moves_are_exact():
    "0 and 5 have no past, 3 is missing, 4 follows it; the control gives 5 the step before it."
    prior, sequences = read()
    sampler = HMMSampler(
        hmm_emission("autoregression"), prior, sequences, "direct", 1.2, 0.8, 0.9, **FIXED
    )
    zs = np.array(alternate(sampler, FAIR._replace(n_moves=4), 6000))
    p_K = np.bincount([len(set(z)) for z in zs], minlength=9) / len(zs)
    found = p_K, np.mean([np.equal.outer(z, z) for z in zs], axis=0)
    assert distance(found, exact(prior, {1, 2, 6, 7})) < 0.025
    assert distance(found, exact(prior, {1, 2, 5, 6, 7})) > 0.06


def test_what_is_conditioned_on():
    for order, seen in ((1, [1, 2, 6, 7]), (2, [2, 7])):
        marks = read(order=order)[1].marks
        assert np.flatnonzero(marks & MISSING_STEP == 0).tolist() == seen
    assert np.flatnonzero(read([8], order=2)[1].marks & MISSING_STEP == 0).tolist() == [2, 6, 7]


def planted(n_steps=600):
    "Two rotations in the plane, 50 steps at a time, far from 0; one dead column."
    rng, y, z = np.random.default_rng(0), np.ones(2), np.arange(n_steps) // 50 % 2
    out = np.full((n_steps, 3), 7.0)
    for t, k in enumerate(z):
        c, s = np.cos(0.3), np.sin(0.3) * (1 - 2 * k)
        y = 0.98 * np.array([[c, -s], [s, c]]) @ y + 0.1 * rng.standard_normal(2)
        out[t, :2] = 500 + y
    return out, z


@pytest.mark.slow  # one more kind of emissions for all kernels of sequences
def test_estimator(tmp_path):
    "From both starts; coefficients in the units of the data; drawn, scored, saved."
    x, z = planted()
    model = HDPHMM(emission="autoregression", kappa=Gamma(10, 1), n_iter=250, random_state=0)
    with np.errstate(all="raise"), pytest.warns():
        model.set_params(prior={"order": 2}, n_iter=4, burn_in=1).fit(x[:40])
    model.set_params(prior=None, n_iter=250, burn_in=None).fit(x, [300, 300])
    assert (
        model.n_states_ == 2 and max(np.mean(model.labels_ == z), np.mean(model.labels_ != z)) > 0.9
    )
    first = model.emissions_["coef"][model.labels_[20]]
    np.testing.assert_allclose(first[:2, :2], [[0.936, -0.29], [0.29, 0.936]], atol=0.06)
    fixed = np.linalg.solve(np.eye(2) - first[:2, :2], model.emissions_["intercept"][0][:2])
    assert model.emissions_["covariance"].shape == (2, 3, 3) and np.isfinite(fixed).all()
    y, states = model.sample(200, 0)
    assert y.shape == (200, 3) and abs(y[:, :2] - 500).max() < 20 and len(set(states)) == 2
    score = lambda x: model.score(x, method="plug-in")
    assert score(x[:100]) > score(x[:100][::-1])
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert (
        again.score(y, method="plug-in") == score(y)
        and (again.predict(y) == model.predict(y)).all()
    )


LINE = np.random.default_rng(0).normal(size=12)


@pytest.mark.parametrize(
    "x, lengths, params, message",
    [
        (X, [7, 1], {}, "lengths must be 0 or above order = 1, got 1"),
        (X, [6, 2], {"prior": {"order": 2}}, "lengths must be 0 or above order = 2, got 2"),
        (
            X[2:5],
            None,
            {"prior": {"order": 1}},
            "X must have a step that is not missing, nor any of the 1 bef",
        ),
        (X, None, {"prior": {"order": 0}}, "order must be a whole number of at least 1, got 0"),
        (
            X,
            None,
            {"prior": {"coef": np.eye(3)}},
            "coef must be a number or a finite matrix of 2 x",
        ),
        (X, None, {"prior": {"scale": -1}}, "scale must be"),
        (X, None, {"prior": {"eta": 1}}, "prior must be None or a dict of some of order, mean, co"),
        (np.full((4, 2), np.inf), None, {}, "X must be finite"),
        (np.column_stack([LINE, 2 * LINE]), None, {}, "not combinations of others"),
        (np.column_stack([LINE, np.ones(12)]), None, {}, "got 1 in all rows of column 1"),
    ],
)
def test_bad_input(x, lengths, params, message):
    with pytest.raises(ValueError, match=message):
        HDPHMM(emission="autoregression", n_iter=2, **params).fit(x, lengths)


def test_rows_without_a_past_are_not_taken():
    with pytest.raises(ValueError, match="likelihood must be one of"):
        DPMixture("autoregression").fit(X)


def test_the_default_prior_of_singular_data():
    "Constant and perfectly predictable columns, and fewer rows than coefficients."
    ramp = np.arange(50.0)
    for x in (np.ones((50, 2)), ramp, ramp[:3], np.ones((2, 4))):
        prior = autoregression.default_prior(x)
        data, stats = autoregression.check_data(x, prior), autoregression.init_stats(prior, 1)
        for t in range(1, len(data)):
            autoregression.add(stats, 0, data, t)
        assert np.isfinite(autoregression.log_marginal(prior, stats, 0))
    with pytest.raises(ValueError, match="dof must be"):
        make_autoregression_prior(2, dof=1.0)
