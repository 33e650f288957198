"The power of the likelihood and the evidence, against sums over all divisions of a few tokens."

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.base import clone

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.evaluation.evidence import PoweredHDP, PoweredLDA, log_evidence
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.exact import exact_posterior, log_hdp, log_words, partitions, posterior_error
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.mixtures.dp import make_log_likelihood
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.processes.dp import log_eppf

DOCS = [[0, 0, 1], [2, 0]]
CORPUS = Corpus.from_docs(DOCS, n_words=3)
DOCUMENT = np.repeat([0, 1], CORPUS.doc_lengths)


def exact(power, alpha=1.5, gamma=1.0, eta=0.3):
    return exact_posterior(
        5, lambda z: power * log_words(CORPUS.x, z, 3, eta) + log_hdp(z, DOCUMENT, alpha, gamma)
    )


def test_a_power_samples_what_it_says():
    sampler = PoweredHDP(CORPUS, 0.3, 1.5, 1.0, None, None, init=2, power=0.4)
    rng = np.random.default_rng(0)
    state, draws = sampler.init(rng), []
    for _ in range(6000):
        state, info = sampler.sweep(rng, state)
        draws.append(state.z.copy())
    assert posterior_error(draws, exact(0.4)) < 0.03
    assert posterior_error(draws, exact(1.0)) > 0.05  # the control
    assert sampler.params()["power"] == 0.4 and info["log_joint"] > info["log_likelihood"] - 50


def test_the_evidence_is_that_of_the_sum():
    found = log_evidence(
        HDP(eta=0.3, alpha=1.5, gamma=1.0), CORPUS, n_steps=10, n_sweeps=1500, burn_in=50
    )
    assert abs(found.log_p - exact(1).log_evidence) < 0.06 and 0 < found.error < 0.05
    total = []
    for z in itertools.product(range(2), repeat=5):
        value = log_words(CORPUS.x, z, 3, 0.3)
        for j in (0, 1):
            n = np.bincount(np.array(z)[DOCUMENT == j], minlength=2)
            value += math.lgamma(1.5) - math.lgamma(1.5 + n.sum())
            value += sum(math.lgamma(0.75 + m) - math.lgamma(0.75) for m in n)
        total.append(value)
    model = LDA(2, eta=0.3, alpha=1.5)
    found = log_evidence(model, CORPUS, n_steps=10, n_sweeps=1500, burn_in=50)
    assert abs(found.log_p - logsumexp(total)) < 0.06
    assert "log evidence" in repr(found)


def test_a_tree_without_levels_has_the_evidence_of_an_hdp():
    run = {"n_steps": 10, "n_sweeps": 1500, "burn_in": 50}
    tree = TreeHDP([], concentrations=[1.0, 1.5], eta=0.3)
    found = log_evidence(tree, CORPUS, **run)
    assert abs(found.log_p - exact(1).log_evidence) < 0.06 and 0 < found.error < 0.05
    assert abs(found.integrated - exact(1).log_evidence) < 0.1
    other = log_evidence(TreeHDP([], concentrations=[1.0, 15.0], eta=0.3), CORPUS, **run)
    assert abs(other.log_p - exact(1).log_evidence) > 0.1  # the control


def test_the_evidence_of_a_mixture_is_that_of_the_sum():
    X = np.array([[0.1], [0.3], [2.0], [2.4], [-1.0]])
    model = DPMixture("normal", alpha=1.3)
    found = log_evidence(model, X, n_steps=10, n_sweeps=1500, burn_in=50)
    sampler = clone(model)
    sampler.data_ = X
    sampler = sampler._sampler()
    log_p = make_log_likelihood(sampler.fam)
    total = []
    for z in partitions(5):
        state = sampler.state(np.array(z))
        total.append(log_p(state, sampler.prior) + log_eppf(state.n_k, 1.3))
    assert abs(found.log_p - logsumexp(total)) < 0.06
    assert abs(found.log_p - total[0]) > 0.1  # one component alone: the control
    assert not hasattr(model, "data_")


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_way_that_is_too_short_is_told_by_the_way_back(is_long):
    "Two clouds of rows, far apart: a bound, by one partition alone, is between the two ways."
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(0, 1, (20, 1)), rng.normal(9, 1, (20, 1))])
    model = DPMixture("normal", alpha=1.0)
    sampler = clone(model)
    sampler.data_ = X
    sampler = sampler._sampler()
    state = sampler.state(np.repeat([0, 1], 20))
    bound = make_log_likelihood(sampler.fam)(state, sampler.prior) + log_eppf(state.n_k, 1.0)
    if is_long:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = log_evidence(model, X, n_steps=20, n_sweeps=3000, burn_in=100)
        assert found.agrees and min(found.log_p, found.backward) > bound - 0.5
        return
    with pytest.warns(
        ConvergenceWarning, match="from the prior gives .*, the way back .* above 20"
    ):
        found = log_evidence(model, X, n_steps=6, n_sweeps=20, burn_in=5)
    assert found.log_p < bound < found.backward and not found.agrees


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="power must be 0 to 1, got 2"):
        PoweredHDP(CORPUS, power=2)
    for learned in (HDP(), HDP(eta=Gamma(1, 1))):
        with pytest.raises(ValueError, match="eta must be a number where"):
            log_evidence(learned, CORPUS)
    with pytest.raises(ValueError, match='weights must be "uniform"'):
        PoweredLDA(CORPUS, 2, weights="learned")
    with pytest.raises(ValueError, match="model must be an HDP.* or DPMixture, got HDPHMM"):
        log_evidence(HDPHMM(), CORPUS)
    with pytest.raises(ValueError, match="eta must be a number where"):
        log_evidence(TreeHDP([]), CORPUS)
    with pytest.raises(ValueError, match="seed_words must be None for the evidence, got {'a'"):
        log_evidence(HDP(eta=0.5, seed_words={"a": [0]}), CORPUS)
    with pytest.raises(ValueError, match='power must be "auto" or 1 for the evidence, got 0.5'):
        log_evidence(TreeHDP([], eta=0.5, power=0.5), CORPUS)
    with pytest.raises(ValueError, match="n_steps"):
        log_evidence(HDP(eta=0.5), CORPUS, n_steps=1)
