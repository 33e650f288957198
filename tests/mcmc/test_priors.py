"""Priors of concentrations: densities, draws, every model that takes one, and files."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln
from sklearn.base import clone

from hdp_nb import HDP, HDPHMM, HNHDP, LDA, Corpus, DPMixture, NestedDP, TreeHDP, load_model
from hdp_nb.mcmc.exact import exact_posterior, log_words, posterior_error
from hdp_nb.mcmc.priors import (
    ConcentrationPrior,
    Gamma,
    LogNormal,
    as_prior,
    fixed_prior,
    prior_from_dict,
    prior_to_dict,
    scaled_prior,
)
from hdp_nb.utils.special import log_stirling

PRIORS = {
    "gamma": (Gamma(2.0, 0.7), stats.gamma(2.0, scale=1 / 0.7)),
    "log-normal": (LogNormal(0.4, 0.6), stats.lognorm(0.6, scale=math.exp(0.4))),
}
every_prior = pytest.mark.parametrize("name", PRIORS)


@every_prior
def test_densities(name):
    prior, exact = PRIORS[name]
    for x in (1e-3, 0.5, 1.0, 20.0):
        assert prior.log_density(x) == pytest.approx(exact.logpdf(x), rel=1e-12)
        scaled = scaled_prior(prior, 3.0).log_density(3 * x)
        assert scaled == pytest.approx(exact.logpdf(x) - math.log(3), rel=1e-12)


@every_prior
@pytest.mark.parametrize("power, rate", [(0.0, 0.0), (4.0, 1.3)])
def test_draws(name, power, rate):
    "The conditional prior(x) x^power exp(-rate x), against its distribution function."
    prior, exact = PRIORS[name]
    rng, x, draws = np.random.default_rng(0), 1.0, []
    for _ in range(30_000):
        x = prior.resample(rng, x, power, rate)
        draws.append(x)
    weight = lambda x, power=power: exact.pdf(x) * x**power * math.exp(-rate * x)
    total = integrate.quad(weight, 0, np.inf)[0]
    for edge in np.quantile(draws, [0.1, 0.5, 0.9]):
        below = integrate.quad(weight, 0, edge)[0] / total
        assert np.mean(np.array(draws) < edge) == pytest.approx(below, abs=0.015)
    if power:  # a sampler that forgets the power
        edge, plain = np.median(draws), lambda x: weight(x, 0.0)
        below = integrate.quad(plain, 0, edge)[0] / integrate.quad(plain, 0, np.inf)[0]
        assert abs(below - 0.5) > 0.1


def test_what_is_taken_and_what_is_refused():
    assert as_prior("p", None) == fixed_prior() and not as_prior("p", None).free
    assert as_prior("p", (2, 3)) == Gamma(2, 3) and as_prior("p", [2, 3]).free
    assert as_prior("p", LogNormal(0, 1)) == LogNormal(0, 1)
    for wrong in ((0, 1), (1, -1), (1,), "ab", 3.0, (1, float("nan"))):
        with pytest.raises(ValueError, match=r"^alpha_prior must be None or two finite numbers"):
            as_prior("alpha_prior", wrong)
    for wrong in ((0, 0), (float("nan"), 1), (0, -1)):
        with pytest.raises(ValueError, match="LogNormal must have a finite mean and"):
            LogNormal(*wrong)


def test_as_json_and_back():
    for prior in (fixed_prior(), Gamma(1, 2), LogNormal(-0.3, 2)):
        assert prior_from_dict(prior_to_dict(prior)) == prior
    with pytest.raises(ValueError, match="must be one of fixed, gamma, log_normal, got 'cauchy'"):
        prior_from_dict({"prior": "cauchy", "parameters": [0, 1]})


# --- every model that draws a concentration -------------------------------------------------------

NARROW = LogNormal(1.5, 0.01)  # so narrow that what is drawn can only come from it
DOCS = Corpus.from_docs(
    [[0, 1, 2, 0], [3, 3, 2, 1, 0], [0, 0, 1], [2, 3, 3, 2]], groups={"half": ["a", "a", "b", "b"]}
)
SEQUENCE = np.array([0, 1, 0, 1, 2, 2, 2, 0, 1, 0, 2, 2])
RUN = {"n_iter": 40, "n_chains": 1, "random_state": 0}
MODELS = {
    **{
        f"HDP-{sampler}": (HDP(sampler=sampler, alpha=NARROW, gamma=NARROW, **RUN), DOCS)
        for sampler in ("crf", "direct", "hybrid", "parallel")
    },
    "LDA": (LDA(3, alpha=NARROW, **RUN), DOCS),
    "TreeHDP": (TreeHDP(levels=["half"], concentrations=NARROW, **RUN), DOCS),
    "DPMixture": (DPMixture(alpha=NARROW, **RUN), SEQUENCE),
    "HNHDP": (HNHDP(n_clusters=3, n_topics=3, conc_cluster=NARROW, **RUN), DOCS),
    "NestedDP": (NestedDP(n_clusters=3, n_topics=3, conc_cluster=NARROW, **RUN), DOCS),
    **{
        f"HDPHMM-{sampler}": (
            HDPHMM(sampler=sampler, alpha=NARROW, gamma=NARROW, max_states=4, **RUN),
            SEQUENCE,
        )
        for sampler in ("direct", "beam", "weak_limit")
    },
}
every_model = pytest.mark.parametrize("name", MODELS)


def priors_of(model):
    "Its parameters that are drawn from the narrow prior."
    return {name: value for name, value in model.get_params().items() if value == NARROW}


def drawn(model):
    "Traces of the concentrations that are drawn."
    names = [name for name in model.trace_ if name.startswith(("alpha", "gamma", "conc"))]
    return {name: model.trace_[name] for name in names if np.ptp(model.trace_[name]) > 0}


@every_model
def test_every_model_draws_from_a_log_normal_prior(name, tmp_path):
    model, X = MODELS[name]
    model = clone(model).fit(X)
    traces = drawn(model)
    assert len(traces) >= len(priors_of(model))
    for trace in traces.values():
        assert np.abs(np.log(trace[20:]) - 1.5).max() < 0.08
    model.save(tmp_path / "model.npz")
    for again in (load_model(tmp_path / "model.npz"), type(model).load(tmp_path / "model.npz")):
        assert priors_of(again) == priors_of(model) and priors_of(again)
        assert again.get_params().keys() == model.get_params().keys()
    again.fit(X)  # of the parameters that were read, so the same chain
    assert (again.trace_["log_joint"] == model.trace_["log_joint"]).all()


def test_a_list_of_priors_of_every_kind_is_kept(tmp_path):
    priors = [LogNormal(0, 1), 0.5, Gamma(2, 1)]
    model = TreeHDP(levels=["half"], concentrations=priors, n_iter=4, n_chains=1, random_state=0)
    model.fit(DOCS).save(tmp_path / "tree.npz")
    first, second, third = load_model(tmp_path / "tree.npz").concentrations
    assert first == LogNormal(0, 1) and isinstance(first, ConcentrationPrior)
    assert second == 0.5 and third == Gamma(2, 1) and third.free


# --- exact posteriors -----------------------------------------------------------------------------

LOG_GRID = np.linspace(-7, 7, 2001)
GRID = np.exp(LOG_GRID)


def on_grid(prior):
    "Log of the prior mass at every point of the grid, which is even in log x."
    return (
        np.array([prior.log_density(x) for x in GRID])
        + LOG_GRID
        + np.log(LOG_GRID[1] - LOG_GRID[0])
    )


def restaurant(n):
    "Log Gamma(x) / Gamma(x + n) on the grid."
    return gammaln(GRID) - gammaln(GRID + n)


def total_and_mean(log_w):
    "Log of the sum of weights on the grid, and the mean of the concentration under them."
    high = log_w.max()
    w = np.exp(log_w - high)
    return high + np.log(w.sum()), w @ GRID / w.sum()


def exact_mixture(words, n_words, eta, prior):
    "Posterior of the partition and posterior mean of alpha, alpha integrated out by quadrature."
    base = on_grid(prior) + restaurant(len(words))
    cache = {}

    def log_joint(z):
        sizes = np.bincount(z)
        K = len(sizes)
        if K not in cache:
            cache[K] = total_and_mean(base + K * LOG_GRID)
        return cache[K][0] + gammaln(sizes).sum() + log_words(words, z, n_words, eta)

    posterior = exact_posterior(len(words), log_joint)
    return posterior, sum(p * cache[K][1] for K, p in enumerate(posterior.p_K) if p > 0)


def test_mixture_against_quadrature():
    words, prior = (0, 0, 1, 2, 0), LogNormal(1.0, 0.5)
    exact, mean = exact_mixture(words, 3, 0.4, prior)
    wrong, wrong_mean = exact_mixture(words, 3, 0.4, Gamma(1.0, 1.0))
    model = DPMixture(
        alpha=prior,
        prior={"eta": 0.4, "n_symbols": 3},
        n_iter=20_000,
        burn_in=100,
        thin=1,
        n_chains=1,
        random_state=0,
    ).fit(words)
    draws, alpha = model.samples_["z"], model.trace_["alpha"][100:]
    assert posterior_error(draws, exact) < 0.02 < 0.1 < posterior_error(draws, wrong)
    assert abs(alpha.mean() / mean - 1) < 0.03 < 0.3 < abs(alpha.mean() / wrong_mean - 1)


def exact_hdp(docs, n_words, eta, prior):
    """Posterior of the topics' partition, and posterior means of alpha and gamma.

    Given numbers of tables both concentrations are independent of everything else, so each is
    integrated out on its own.
    """
    words = [w for doc in docs for w in doc]
    of = np.repeat(np.arange(len(docs)), [len(doc) for doc in docs])
    log_s = log_stirling(len(words))
    local = on_grid(prior) + sum(restaurant(len(doc)) for doc in docs)
    by_tables = {m: total_and_mean(local + m * LOG_GRID) for m in range(1, len(words) + 1)}
    by_topics = {
        (m, K): total_and_mean(on_grid(prior) + restaurant(m) + K * LOG_GRID)
        for m in range(1, len(words) + 1)
        for K in range(1, m + 1)
    }
    terms = []  # log weight, means of alpha and gamma

    def log_joint(z):
        n_jk = np.zeros((len(docs), max(z) + 1), int)
        np.add.at(n_jk, (of, list(z)), 1)
        K, total, given = n_jk.shape[1], -np.inf, log_words(words, z, n_words, eta)
        for m in itertools.product(*(range(min(n, 1), n + 1) for n in n_jk.ravel())):
            m_jk = np.array(m).reshape(n_jk.shape)
            m_k, n = m_jk.sum(axis=0), m_jk.sum()
            log_w = given + log_s[n_jk, m_jk].sum() + gammaln(m_k).sum()
            log_w += by_tables[n][0] + by_topics[n, K][0]
            terms.append((log_w, by_tables[n][1], by_topics[n, K][1]))
            total = np.logaddexp(total, log_w)
        return total

    posterior = exact_posterior(len(words), log_joint)
    log_w, alpha, gamma = np.array(terms).T
    w = np.exp(log_w - posterior.log_evidence)
    assert w.sum() == pytest.approx(1)
    return posterior, w @ alpha, w @ gamma


def test_hdp_against_enumeration():
    docs, prior = [[0, 1, 0], [0, 2]], LogNormal(1.0, 0.5)
    exact, alpha, gamma = exact_hdp(docs, 3, 0.4, prior)
    wrong, wrong_alpha, wrong_gamma = exact_hdp(docs, 3, 0.4, Gamma(1.0, 1.0))
    draws = []
    model = HDP(
        sampler="direct",
        alpha=prior,
        gamma=prior,
        eta=0.4,
        n_iter=20_000,
        n_chains=1,
        moves=0,
        random_state=0,
    ).fit(Corpus.from_docs(docs), callback=lambda sweep, state: draws.append(np.array(state.z)))
    draws = draws[100:]
    means = {name: model.trace_[name][100:].mean() for name in ("alpha", "gamma")}
    assert posterior_error(draws, exact) < 0.02 < 0.1 < posterior_error(draws, wrong)
    for name, right, other in (("alpha", alpha, wrong_alpha), ("gamma", gamma, wrong_gamma)):
        assert abs(means[name] / right - 1) < 0.03 < 0.3 < abs(means[name] / other - 1)
