"""Likelihoods with latent variables of rows, and the sampler around them."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import special, stats
from sklearn.metrics import adjusted_rand_score
from tiers import slow_unless, sweeps

from hdp_nb import HDPHMM, DPMixture, load_model
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import exact_posterior, log_hdp, posterior_error
from hdp_nb.mcmc.priors import Gamma, LogNormal
from hdp_nb.mixtures.augmented import AugmentedSampler
from hdp_nb.mixtures.dp import DPMixtureSampler
from hdp_nb.mixtures.hdp import HDPMixtureSampler
from hdp_nb.mixtures.negative_binomial import negative_binomial
from hdp_nb.mixtures.split_merge import MixtureMoves
from hdp_nb.mixtures.student import draw_between, student
from hdp_nb.mixtures.testing import IDENTITIES, filled
from hdp_nb.processes.dp import log_eppf
from hdp_nb.sequences.emissions import hmm_emission
from hdp_nb.sequences.hdp_hmm import sequence_prior
from hdp_nb.sequences.samplers import HMMSampler, check_sequences

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")


def with_latents(fam, i, seed=0):
    "An example with heavy tails, and rows whose latent variables differ."
    hyper, X = fam.examples[i]
    prior = fam.make_prior(**{**hyper, fam.augmentation.learned: 2.0})
    data, n = fam.check_data(X, prior), fam.augmentation.n_latents(prior)
    latents = np.random.default_rng(seed).gamma(1.5, 1 / 1.5, (len(data), n))
    if fam is negative_binomial:  # what the gains add up to, for all components
        x, g = data[:, : n - 1], latents[:, 1:]
        latents[:, 0] = (x * np.log(g) - special.gammaln(x + 1)).sum(axis=1)
    return prior, fam.augmentation.remember(prior, data, latents)


BOTH = pytest.mark.parametrize("fam", [student, negative_binomial], ids=lambda fam: fam.name)


@pytest.mark.parametrize("check", ["chain_rule", "add_remove", "block", "empty"])
@pytest.mark.parametrize("i", [0, 1])
@BOTH
def test_identities_whatever_the_latent_variables(fam, i, check):
    IDENTITIES[check](fam, *with_latents(fam, i))


@BOTH
def test_wrong_weights_break_the_identities(fam):
    "Latent variables that only some parts look at."
    prior, data = with_latents(fam, 1)
    ones = np.ones_like(data[:, -fam.augmentation.n_latents(prior) :])
    stats_ = filled(fam, prior, data[:5])
    plain = filled(fam, prior, fam.augmentation.remember(prior, data, ones)[:5])
    one = [fam.log_predictive(prior, s, 0, data, 6) for s in (stats_, plain)]
    assert abs(one[0] - one[1]) > 0.01


def test_a_new_student_row_has_a_density():
    "Its weight summed out by Laplace's method; adds up to 1, nearly."
    for df, n, off in ((2.0, 0, 0.06), (4.0, 3, 0.03), (4.0, 50, 2e-3), (1e6, 5, 1e-3)):
        prior = student.make_prior(df=df, mean=0.3, scale=2.0)
        seen = stats.t(3).ppf((np.arange(n) + 0.5) / max(n, 1)) if n else np.empty(0)
        slots = filled(student, prior, np.column_stack([seen, np.ones(n)]))
        u = np.linspace(-16, 16, 4001)
        rows = np.column_stack([0.3 + np.sinh(u), np.zeros(len(u))])
        p = np.exp([student.log_predictive(prior, slots, 0, rows, i) for i in range(len(u))])
        assert (p * np.cosh(u)).sum() * (u[1] - u[0]) == pytest.approx(1, abs=off)


def test_a_new_count_has_a_probability():
    for size, n, off in (
        (0.5, 0, 0.05),
        (3.0, 3, 0.01),
        (3.0, 50, 1e-3),
        (3.0, 200, 1e-3),
        (1e6, 5, 1e-4),
    ):
        prior = negative_binomial.make_prior(shape=2.0, rate=0.5, size=size)
        seen = (
            negative_binomial.check_data(np.arange(n)[:, None] % 7, prior)
            if n
            else np.empty((0, 3))
        )
        slots = filled(negative_binomial, prior, seen)
        rows = np.column_stack([np.arange(3000.0), np.zeros((3000, 2))])
        log_p = [negative_binomial.log_predictive(prior, slots, 0, rows, i) for i in range(3000)]
        assert np.exp(log_p).sum() == pytest.approx(1, abs=off)


@BOTH
def test_the_density_of_a_row_is_that_of_samples(fam):
    "Latent variables summed out given the parameters: a Student or negative binomial density."
    prior, data = with_latents(fam, 0)
    params, rng = fam.new_params(prior, 1), np.random.default_rng(0)
    fam.draw(rng, prior, filled(fam, prior, data), 0, params)
    named = {name: a[0] for name, a in fam.name_params(prior, params).items()}
    new = fam.augmentation.forget(prior, data)
    found = [fam.log_density(prior, params, 0, new, i) for i in range(len(new))]
    if fam is student:
        wanted = stats.t(named["df"], named["mean"][0], named["scale"][0, 0] ** 0.5).logpdf(
            new[:, 0]
        )
    else:
        r, m = named["size"][0], named["rate"][0]
        wanted = stats.nbinom(r, r / (r + m)).logpmf(new[:, 0])
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
    x = fam.sample(rng, fam.name_params(prior, params), np.zeros(20_000, int))[:, 0]
    low, high = np.quantile(x, [0.2, 0.8])
    if fam is student:
        t = stats.t(named["df"], named["mean"][0], named["scale"][0, 0] ** 0.5)
        assert t.cdf(high) - t.cdf(low) == pytest.approx(0.6, abs=0.02)
    else:
        assert x.mean() == pytest.approx(m, rel=0.05)
        assert x.var() == pytest.approx(m + m * m / r, rel=0.15)


# --- the posterior of a few rows ------------------------------------------------------------------

X = np.array([-0.4, 0.1, 0.3, 2.2, 9.0])
COUNTS = np.array([1, 0, 3, 9, 14])
STUDENT = {"mean": 0.5, "kappa": 0.3, "dof": 3.0, "scale": 0.6}


MEANS, LOG_SQUARES = np.linspace(-30, 40, 701)[:, None], np.linspace(-4.5, 9, 91)
SQUARES = np.exp(LOG_SQUARES)[None]


@cache
def row_of_student(i, df):
    return stats.t.logpdf(X[i], df, MEANS, np.sqrt(SQUARES))


def student_marginal(rows, df, row=row_of_student):
    log_f = stats.norm.logpdf(MEANS, 0.5, np.sqrt(SQUARES / 0.3)) + np.log(SQUARES)
    log_f = log_f + stats.invgamma.logpdf(SQUARES, 1.5, scale=0.3)
    log_f = sum((row(i, df) for i in rows), log_f)
    cell = (MEANS[1, 0] - MEANS[0, 0]) * (LOG_SQUARES[1] - LOG_SQUARES[0])
    return math.log(np.exp(log_f).sum() * cell)


def count_marginal(rows, size):
    u = np.linspace(-14, 6, 2001)
    log_f = stats.gamma.logpdf(np.exp(u), 0.8, scale=5) + u
    for i in rows:
        log_f = log_f + stats.nbinom.logpmf(COUNTS[i], size, size / (size + np.exp(u)))
    return math.log(np.exp(log_f).sum() * (u[1] - u[0]))


CASES = {
    "student": (student, X, STUDENT, "df", student_marginal, Gamma(2, 0.4)),
    "negative_binomial": (
        negative_binomial,
        COUNTS,
        {"shape": 0.8, "rate": 0.2},
        "size",
        count_marginal,
        LogNormal(0.5, 1.0),
    ),
}


def posterior(name, log_prior, marginal=None):
    "Of partitions of five rows; the hyperparameter is learned, and summed out on a grid."
    _, _, _, _, own, prior = CASES[name]
    marginal = cache(marginal or own)
    grid = np.exp(np.linspace(math.log(0.05), math.log(60), 12))

    def log_joint(z):
        z = np.array(z)
        blocks = [tuple(np.flatnonzero(z == k)) for k in range(z.max() + 1)]
        each = [sum(marginal(block, value) for block in blocks) for value in grid]
        log_p = np.array(each) + [prior.log_density(value) + math.log(value) for value in grid]
        return log_prior(z) + np.logaddexp.reduce(log_p)

    return exact_posterior(5, log_joint)


def in_a_mixture(z):
    return log_eppf(np.bincount(z), 0.8)


def in_a_sequence(z):
    return math.log(sequence_prior(z.tolist(), [3, 2], 1.2, 0.8, 0.4))


@pytest.mark.parametrize("moves", slow_unless(bool, [False, True]))
@pytest.mark.parametrize("name", CASES)
def test_mixtures_are_exact(name, moves):
    n, most = sweeps(20_000, 0.025)
    fam, rows, hyper, learned, _, prior = CASES[name]
    sampler = DPMixtureSampler(fam, rows, fam.make_prior(**hyper, **{learned: prior}), 0.8, None)
    sampler = MixtureMoves(sampler, 1, tune=0) if moves else sampler
    target = posterior(name, in_a_mixture)
    chain = run_chain(AugmentedSampler(sampler), np.random.default_rng(0), n, thin=1)
    assert posterior_error([sample["z"] for sample in chain.samples], target) < most
    flat = fam.make_prior(**hyper, **{learned: 1e6})  # Normal, or Poisson
    fixed = AugmentedSampler(DPMixtureSampler(fam, rows, flat, 0.8, None))
    chain = run_chain(fixed, np.random.default_rng(0), 4000, thin=1)
    assert posterior_error([sample["z"] for sample in chain.samples], target) > 0.1


@pytest.mark.parametrize("moves", slow_unless(bool, [False, True]))
@pytest.mark.parametrize("name", CASES)
def test_groups_are_exact(name, moves):
    n, most = sweeps(20_000, 0.025)
    fam, rows, hyper, learned, _, prior = CASES[name]
    group, own = np.array([0, 1, 0, 1, 0]), fam.make_prior(**hyper, **{learned: prior})
    sampler = HDPMixtureSampler(fam, rows, own, group, 1.2, 0.8, None, None)
    sampler = MixtureMoves(sampler, 1, tune=0) if moves else sampler
    target = posterior(name, lambda z: log_hdp(z, group, 1.2, 0.8))
    chain = run_chain(AugmentedSampler(sampler), np.random.default_rng(0), n, thin=1)
    assert posterior_error([sample["z"] for sample in chain.samples], target) < most


@pytest.mark.parametrize(
    "name, method, n",
    [
        ("student", "direct", 20_000),
        pytest.param("negative_binomial", "beam", 40_000, marks=pytest.mark.slow),
        pytest.param("student", "beam", 80_000, marks=pytest.mark.slow),
        pytest.param("negative_binomial", "direct", 80_000, marks=pytest.mark.slow),
    ],
)
def test_hidden_markov_models_are_exact(name, method, n):
    n, most = sweeps(n, 0.025)
    _, rows, hyper, learned, _, prior = CASES[name]
    own, sequences = check_sequences(rows, [3, 2], name, None, **hyper, **{learned: prior})
    held = dict(alpha=1.2, gamma=0.8, kappa=0.4, alpha_prior=None, gamma_prior=None, init=2)
    sampler = HMMSampler(hmm_emission(name), own, sequences, method, **held)
    target = posterior(name, in_a_sequence)
    chain = run_chain(AugmentedSampler(sampler), np.random.default_rng(0), n, thin=1)
    assert posterior_error([sample.z for sample in chain.samples], target) < most
    flat, _ = check_sequences(rows, [3, 2], name, None, **hyper, **{learned: 1e6})
    fixed = AugmentedSampler(HMMSampler(hmm_emission(name), flat, sequences, method, **held))
    chain = run_chain(fixed, np.random.default_rng(0), 4000, thin=1)
    assert posterior_error([sample.z for sample in chain.samples], target) > 0.1


# --- estimators -----------------------------------------------------------------------------------


def rows_with_tails(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n)
    return np.array([[0, 0], [12, 0], [0, 12]])[z] + rng.standard_t(3, (n, 2)), z


def test_tails_are_no_clusters(tmp_path):
    X, z = rows_with_tails()
    model = DPMixture("student", n_iter=300, random_state=0).fit(X)
    share = np.bincount(model.labels_) / len(X)
    assert (share > 0.02).sum() == 3 and 1.5 < np.median(model.trace_["df"][150:]) < 8
    assert model.components_["df"].shape == (model.n_components_,)
    samples = model.samples_
    assert samples["latents"].shape == (len(samples["z"]), 400, 1) and samples["learned"].ndim == 2
    far = abs(X - np.array([[0, 0], [12, 0], [0, 12]])[z]).max(axis=1)
    weight = samples["latents"][:, :, 0].mean(axis=0)
    assert weight[far > 5].mean() < 0.45 < 0.8 < weight[far < 1].mean()
    assert model.score_samples([[0, 0], [6, 6]])[0] > model.score_samples([[0, 0], [6, 6]])[1]
    assert (model.predict(X) == model.labels_).mean() > 0.97
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert again.score(X) == model.score(X) and again.best_ == model.best_
    table = model.consensus()
    assert np.isfinite(table.parameter_interval("mean", 0.9)).all()


def test_overdispersed_counts_are_no_states(tmp_path):
    rng = np.random.default_rng(0)
    z = np.repeat(rng.integers(3, size=20), 20)
    mean = np.array([[1.0, 20, 3], [15, 2, 3], [5, 5, 30]])[z]
    X = rng.poisson(mean * rng.gamma(3, 1 / 3, mean.shape)).astype(float)
    X[7] = np.nan
    model = HDPHMM(emission="negative_binomial", n_iter=300, random_state=0).fit(X, [200, 0, 200])
    share = np.bincount(model.labels_) / len(X)
    assert (share > 0.02).sum() == 3 and 1.5 < np.median(model.trace_["size"][150:]) < 6
    assert model.emissions_["size"].shape == model.emissions_["rate"].shape == (model.n_states_, 3)
    assert (model.predict(X, [200, 0, 200]) == model.labels_).mean() > 0.97
    score = model.score_samples(X, [200, 0, 200])
    assert np.isfinite(score).all() and abs(score[1]) < 1e-9
    new, states = model.sample(50, 0)
    assert np.isfinite(model.score(new, method="plug-in")) and len(states) == 50
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert (again.score_samples(X, [200, 0, 200]) == score).all()
    for method in ("beam", "weak_limit"):
        other = HDPHMM(
            emission="negative_binomial", sampler=method, max_states=6, n_iter=30, random_state=0
        ).fit(X, [200, 0, 200], groups=["a", "b", "a"])
        assert np.isfinite(other.trace_["size"]).all()


@pytest.mark.parametrize("name", ["student", "negative_binomial"])
def test_resumed_and_with_more_jobs_the_same(name, tmp_path):
    X = np.round(abs(rows_with_tails(60)[0]))
    fit = lambda **options: HDPHMM(emission=name, random_state=1, init=3, burn_in=4, **options)
    whole = fit(n_iter=12, n_jobs=1).fit(X)
    fit(n_iter=6).fit(X, checkpoint=tmp_path / "c.npz")
    again = fit(n_iter=12, n_jobs=2).fit(X, checkpoint=tmp_path / "c.npz")
    assert np.array_equal(whole.trace_["log_joint"], again.trace_["log_joint"])
    assert np.array_equal(whole.samples_[-1].latents, again.samples_[-1].latents)


@pytest.mark.parametrize(
    "name, prior, message",
    [
        ("student", {"df": -1.0}, "df of prior must be a finite number above 0"),
        ("student", {"size": 1.0}, "prior must be None or a dict of some of mean, kappa"),
        ("negative_binomial", {"size": [1.0, 2.0, 3.0]}, "size must be"),
        ("negative_binomial", {"df": 1.0}, "prior must be None or a dict of some of shape"),
    ],
)
def test_bad_hyperparameters(name, prior, message):
    with pytest.raises(ValueError, match=message):
        DPMixture(name, prior=prior, n_iter=2).fit(np.round(abs(rows_with_tails(30)[0])))


def test_states_that_cannot_be(tmp_path):
    prior = student.make_prior(**STUDENT)
    sampler = AugmentedSampler(DPMixtureSampler(student, X, prior))
    state = sampler.init(np.random.default_rng(0))
    sampler.check(state)
    for wrong in (-state.latents, state.latents[:3], 2 * state.latents):
        with pytest.raises(ValueError):
            sampler.check(state._replace(latents=wrong))


# --- cells that are missing, or rounded -----------------------------------------------------------


@pytest.mark.parametrize(
    "a, b",
    [(-np.inf, np.inf), (-0.3, 0.4), (-1.0, 3.0), (0.5, 0.9), (-9.0, -8.5), (2.0, np.inf), (-4, 0)],
)
def test_normal_numbers_between_two_others(a, b):
    rng = np.random.default_rng(0)
    x = np.array([draw_between(rng, float(a), float(b)) for _ in range(20_000)])
    assert a <= x.min() and x.max() <= b
    assert stats.kstest(x, stats.truncnorm(a, b).cdf).pvalue > 1e-3


ROUNDED = np.array([0.0, 0.0, 1.0, 1.0, 5.0])


def test_rounded_rows_are_exact():
    "Against Student probabilities of the cells; taken as exact numbers they are something else."
    prior, (n, most) = CASES["student"][5], sweeps(20_000, 0.025)

    @cache
    def cell(i, df):
        ends = (ROUNDED[i] + np.array([-0.5, 0.5])[:, None, None] - MEANS) / np.sqrt(SQUARES)
        inside = special.stdtr(df, ends[1]) - special.stdtr(df, ends[0])
        return np.log(np.maximum(inside, 1e-300))

    target = posterior("student", in_a_mixture, lambda rows, df: student_marginal(rows, df, cell))
    for grid, right in ((1.0, True), (0.0, False)):
        given = student.make_prior(**STUDENT, df=prior, grid=grid)
        sampler = AugmentedSampler(DPMixtureSampler(student, ROUNDED, given, 0.8, None))
        chain = run_chain(sampler, np.random.default_rng(0), n if right else 4000, thin=1)
        error = posterior_error([sample["z"] for sample in chain.samples], target)
        assert error < most if right else error > 0.05, (grid, error)


def test_a_missing_cell_is_exact():
    "One cell of a row in the plane; with next to no tails the marginal is known."
    n, most = sweeps(20_000, 0.025)
    rows = np.array([[0.1, 0.0], [0.4, 0.7], [2.0, np.nan], [2.3, 1.9], [-0.2, 0.3]])
    prior = student.make_prior(2, [0.5, 0.5], 0.3, 3.5, [[0.6, 0.3], [0.3, 0.6]], df=1e9)
    data = student.check_data(rows, prior)

    def log_joint(z):
        z, out = np.array(z), log_eppf(np.bincount(z), 0.8)
        for k in range(z.max() + 1):
            block = [i for i in np.flatnonzero(z == k) if i != 2]
            slots = filled(student, prior, data, block, capacity=1)
            out += student.log_marginal(prior, slots, 0)
            if z[2] == k:
                out += student.log_predictive(prior, slots, 0, data, 2)
        return out

    target = exact_posterior(5, log_joint)
    sampler = AugmentedSampler(DPMixtureSampler(student, rows, prior, 0.8, None))
    chain = run_chain(sampler, np.random.default_rng(0), n, thin=1)
    assert posterior_error([sample["z"] for sample in chain.samples], target) < most
    full = np.where(np.isnan(rows), 0.5, rows)  # the control: the prior mean put in its place
    sampler = AugmentedSampler(DPMixtureSampler(student, full, prior, 0.8, None))
    chain = run_chain(sampler, np.random.default_rng(0), 4000, thin=1)
    assert posterior_error([sample["z"] for sample in chain.samples], target) > 0.05


def test_the_cells_that_a_row_has():
    "Predictives of a row with gaps add up the full one; an empty row is certain."
    prior, data = with_latents(student, 1)
    slots = filled(student, prior, data)
    gap, u = data[:1].copy(), np.linspace(-12, 12, 2001)
    gap[0, 1] = np.nan
    rows = np.repeat(data[:1], len(u), axis=0)
    rows[:, 1] = np.sinh(u)
    p = np.exp([student.log_predictive(prior, slots, 0, rows, i) for i in range(len(u))])
    total = np.log((p * np.cosh(u)).sum() * (u[1] - u[0]))
    assert student.log_predictive(prior, slots, 0, gap, 0) == pytest.approx(total, abs=1e-5)
    gap[0, :3] = np.nan
    assert student.log_predictive(prior, slots, 0, gap, 0) == 0.0


def test_mixtures_of_rows_with_gaps(tmp_path):
    X, z = rows_with_tails()
    rng = np.random.default_rng(1)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[5] = np.nan
    model = DPMixture("student", n_iter=300, random_state=0).fit(X)
    some = ~np.isnan(X).any(axis=1)
    assert (np.bincount(model.labels_) > 8).sum() == 3
    assert adjusted_rand_score(z[some], model.labels_[some]) > 0.95
    assert model.samples_["latents"].shape[2] == 3 and np.isfinite(model.samples_["latents"]).all()
    assert np.isfinite(model.score_samples(X)).all() and abs(model.score_samples(X[5:6])[0]) < 1e-9
    model.save(tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").score(X) == model.score(X)
    with pytest.raises(ValueError, match="X must have a number in every column, got none in col"):
        DPMixture("student").fit(np.column_stack([X, np.full(400, np.nan)]))
    with pytest.raises(ValueError, match="NaN"):
        DPMixture("normal").fit(X)


def test_rounded_steps_are_no_states():
    rng = np.random.default_rng(0)
    z = np.repeat(rng.integers(3, size=30), 20)
    X = (np.array([[0, 0], [6, 0], [0, 6.0]])[z] + rng.normal(size=(600, 2))).round()
    X[rng.random(600) < 0.05, 0] = np.nan
    X[40:60] = np.nan
    model = HDPHMM(emission="student", n_iter=300, random_state=0).fit(X)
    assert (model.prior_["grid"] == 1).all()
    assert (np.bincount(model.labels_) > 6).sum() == 3
    assert adjusted_rand_score(z, model.labels_) > 0.9
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize(
    "column, unit",
    [
        (np.arange(40) % 7 * 0.5 - 1, 0.5),
        (np.arange(40) % 7 * 1000.0 + 1000, 1000.0),
        (np.arange(40) % 7, 0),  # counts
        (np.arange(40) % 2, 0),
        (np.arange(40) * 0.1, 0),  # each value once
        (np.arange(40) % 7 * 0.5 + (np.arange(40) % 2) * 1e-3, 0),
    ],
)
def test_columns_on_a_grid_are_found(column, unit):
    assert student.default_prior(column).grid[0] == pytest.approx(unit)
    assert student.default_prior(column, grid=0).grid[0] == 0
