"""Autoregressions with tails and glitches: exact, their proposals, estimators, bad input."""

import math

import numpy as np
import pytest
from scipy import stats

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import exact_posterior, posterior_error
from hdp_nb.mixtures.augmented import AugmentedSampler
from hdp_nb.models.loading import load_model
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.plotting.components import plot_components, plot_states, plot_transitions
from hdp_nb.sequences.autoregression import autoregression
from hdp_nb.sequences.emissions import hmm_emission
from hdp_nb.sequences.hdp_hmm import sequence_prior
from hdp_nb.sequences.samplers import HMMSampler, check_sequences
from hdp_nb.sequences.student_autoregression import student_autoregression as fam

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
LINE, NAME = np.array([0.2, 0.4, 5.0, -0.3, 0.1, 0.4]), "student_autoregression"
HYPER = {"mean": 0.0, "kappa": 1.0, "spread": 1.0, "dof": 3.0, "scale": 0.6}
TAILS = {"df": 3.0, "times": 40.0, "glitch": 0.2}
SEEN = (1, 2, 4, 5)  # 0 and 3 have no past


def marginals(shares):
    "Probability of every set of steps for every share of glitches, parameters on a grid."
    v, u, df, times = np.linspace(-6, 6, 41), np.linspace(-5, 6, 45), TAILS["df"], TAILS["times"]
    sd = np.exp(u / 2)[:, None, None]
    base = np.exp(u) * stats.invgamma.pdf(np.exp(u), 1.5, scale=0.3) * (u[1] - u[0])
    normal = stats.norm.pdf(v) * (v[1] - v[0])
    base = base[:, None, None] * normal[:, None] * normal
    a, b, out = v[:, None] * sd, 1 + v * sd, {(): np.ones(len(shares))}
    narrow, wide = {}, {}
    for t in SEEN:
        e = (LINE[t] - a - b * LINE[t - 1]) / sd
        narrow[t], wide[t] = (stats.t.pdf(e / s**0.5, df) / s**0.5 / sd for s in (1.0, times))
    for code in range(1, 16):
        steps = tuple(t for i, t in enumerate(SEEN) if code >> i & 1)
        each = [
            base * np.prod([(1 - p) * narrow[t] + p * wide[t] for t in steps], 0) for p in shares
        ]
        out[steps] = np.array([f.sum() for f in each])
    return out


def posterior():
    "The share, Beta(1, 4), is one for all states, so it is summed out after their product."
    p, mass = np.polynomial.legendre.leggauss(10)
    p = (p + 1) / 2
    mass, known = mass * 2 * (1 - p) ** 3, marginals(p)

    def log_joint(z):
        blocks = [tuple(t for t in SEEN if z[t] == k) for k in set(z)]
        total = (mass * np.prod([known[block] for block in blocks], axis=0)).sum()
        return math.log(sequence_prior(list(z), [3, 3], 1.2, 0.8, 0.4)) + math.log(total)

    return exact_posterior(6, log_joint)


@pytest.mark.parametrize(
    "method, n", [("direct", 10_000), pytest.param("beam", 60_000, marks=pytest.mark.slow)]
)
def test_chains_are_exact(method, n):
    target = posterior()
    held = dict(alpha=1.2, gamma=0.8, kappa=0.4, alpha_prior=None, gamma_prior=None, init=2)

    def error(n, **tails):
        prior, sequences = check_sequences(LINE, [3, 3], NAME, None, **HYPER, **tails)
        sampler = HMMSampler(hmm_emission(NAME), prior, sequences, method, **held)
        chain = run_chain(AugmentedSampler(sampler), np.random.default_rng(0), n, thin=1)
        return posterior_error([sample.z for sample in chain.samples], target)

    assert error(n, **TAILS) < 0.03
    assert error(3000, df=1e6, glitch=0) > 0.1  # Normal noise


@pytest.mark.parametrize("glitch", [0.0, 0.1])
def test_a_proposal_and_its_excess(glitch):
    "The mean of exp(excess) is the exact predictive of a step without a weight, over what is said."
    rng = np.random.default_rng(0)
    prior = fam.make_prior(1, df=2.5, glitch=glitch, times=30.0)
    data = fam.check_data(rng.normal(size=14).cumsum(), prior)
    slots = fam.init_stats(prior, 1)
    for t in range(1, 12):
        fam.add(slots, 0, data, t)
    for far in (0.0, 3.0, 20.0):
        one, u = data.copy(), np.linspace(-14, 5, 3000)
        one[13, 0] += far
        one[13, 1] = 0.0
        said = math.exp(fam.log_predictive(prior, slots, 0, one, 13))
        each = []
        for w in np.exp(u):
            one[13, 1] = w
            each.append(math.exp(fam.log_predictive(prior, slots, 0, one, 13)) * w)
        gamma = stats.gamma(1.25, scale=1 / 1.25)
        weight = (1 - glitch) * gamma.pdf(np.exp(u)) + glitch * 30 * gamma.pdf(30 * np.exp(u))
        exact, excess = (np.array(each) * weight).sum() * (u[1] - u[0]), []
        for _ in range(2000):
            fam.augmentation.propose(rng, prior, slots, 0, one, 13)
            excess.append(math.exp(fam.augmentation.log_excess(prior, slots, 0, one, 13)))
        off = 5 * np.std(excess) / len(excess) ** 0.5 + 2e-3
        assert abs(np.mean(excess) - exact / said) < off and abs(exact / said - 1) < 0.1
        if far == 20.0:  # as if tails were lighter than those of the proposal
            slots.tails[0, 0] *= 4
            wrong = math.exp(fam.augmentation.log_excess(prior, slots, 0, one, 13))
            slots.tails[0, 0] /= 4
            assert abs(wrong / excess[-1] - 1) > 0.1


def test_without_tails_it_is_the_autoregression():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(30, 2)).cumsum(axis=0)
    tailed, plain = fam.default_prior(x, df=1e9, glitch=0), autoregression.default_prior(x)
    data, own = fam.check_data(x, tailed), autoregression.check_data(x, plain)
    a, b = fam.init_stats(tailed, 1), autoregression.init_stats(plain, 1)
    for t in range(1, 25):
        fam.add(a, 0, data, t)
        autoregression.add(b, 0, own, t)
    found, wanted = fam.expected(tailed, a, 1), autoregression.expected(plain, b, 1)
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value)
    new = fam.augmentation.forget(tailed, data)
    pair = (
        fam.log_predictive(tailed, a, 0, new, 27),
        autoregression.log_predictive(plain, b, 0, own, 27),
    )
    assert abs(pair[0] - pair[1]) < 1e-4


def turning(n=400, seed=0):
    "Two rotations in the plane, and glitches of one step."
    rng, y, z = np.random.default_rng(seed), np.ones(2), np.arange(n) // 50 % 2
    out = np.zeros((n, 2))
    for t, k in enumerate(z):
        c, s = np.cos(0.3), np.sin(0.3) * (1 - 2 * k)
        y = out[t] = 0.98 * np.array([[c, -s], [s, c]]) @ y + 0.1 * rng.standard_normal(2)
    odd = rng.random(n) < 0.02
    out[odd] += rng.normal(0, 4, (odd.sum(), 2))
    return out, z


@pytest.mark.slow  # one more kind of emissions for all kernels of sequences
def test_estimator(tmp_path):
    "Two states in spite of glitches; drawn, forecast, scored, edited, saved, plotted."
    x, z = turning(800)
    model = HDPHMM(emission=NAME, n_iter=400, random_state=0).fit(x, [400, 400])
    share = np.bincount(model.labels_) / 800
    assert (share > 0.02).sum() == 2
    assert max(np.mean(model.labels_ == z), np.mean(model.labels_ != z)) > 0.95
    assert 0.01 < np.median(model.trace_["glitch"][200:]) < 0.1
    assert np.median(model.trace_["times"][200:]) > 100
    assert model.emissions_["df"].shape == (model.n_states_,)
    y, states = model.sample(300, 0)
    assert y.shape == (300, 2) and np.isfinite(y).all() and len(states) == 300
    ahead = model.forecast(x[:395], 5)
    assert (ahead.low < x[395:400]).mean() > 0.6 and ahead.mean.shape == (5, 2)
    assert (model.predict(x, [400, 400]) == model.labels_).mean() > 0.97
    assert np.isfinite(model.score_steps(x)).all()
    for figure in (
        plot_states(model, x),
        plot_transitions(model),
        plot_transitions(model, kind="graph"),
        plot_components(model, x),
    ):
        figure.canvas.draw()
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert again.score(x) == model.score(x) and (again.predict(x) == model.predict(x)).all()
    assert again.merge([0, 1]).n_states_ == model.n_states_ - 1
    assert np.isfinite(model.consensus().parameter_interval("coef", 0.9)).all()


@pytest.mark.parametrize(
    "prior, message",
    [
        ({"df": -1.0}, "df of prior must be"),
        ({"glitch": 0.7}, "glitch of prior must be"),
        ({"glitch": -0.1}, "glitch of prior must be"),
        ({"times": 0.0}, "times of prior must be"),
        ({"order": 0}, "order must be a whole number of at least 1, got 0"),
        ({"size": 1.0}, "prior must be None or a dict of some of order, mean"),
    ],
)
def test_bad_input(prior, message):
    with pytest.raises(ValueError, match=message):
        HDPHMM(emission=NAME, prior=prior, n_iter=2).fit(turning(30)[0])


def test_rows_without_a_past_are_not_taken():
    with pytest.raises(ValueError, match="likelihood must be one of"):
        DPMixture(NAME).fit(turning(30)[0])
