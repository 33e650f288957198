"""Vanishing and huge values of every number that an estimator takes: a result, or a ValueError that
names it, and an end in any case.
"""

import faulthandler
import itertools
import warnings
from functools import partial

import numpy as np
import pytest
from tiers import slow_unless

from hdp_nb import (
    HDP,
    HDPHMM,
    HNHDP,
    LDA,
    DPMixture,
    HDPMixture,
    NestedDP,
    OnlineHDP,
    TreeHDP,
    VariationalHDP,
)
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models.topic_models import SAMPLERS
from hdp_nb.topics.tree import TreeSampler
from hdp_nb.utils.checks import MOST_ETA

rng = np.random.default_rng(0)
TEXTS = Corpus.from_docs(
    [rng.integers(4, size=n) + 3 * (n % 2) for n in (0, 1, 5, 9, 12, 8, 7)],
    n_words=7,
    groups={"side": list("aabbabb")},
)
ROWS, POINTS = (
    rng.integers(3, size=(30, 4)),
    rng.normal(size=(30, 2)) + rng.integers(2, size=(30, 1)),
)
STEPS = np.repeat([0, 1, 0, 2, 1, 0], 5)
SMALL = 5e-324, 1e-300, 1e-100, 1e-30, 1e-12, 1e-6, 1e-3
VALUES = [0.0, -1.0, np.nan, np.inf, *SMALL, 1e3, 1e6, 1e9, 1e12, 1e15, 1e30, 1e100, 1e300]
CHAINS = dict(n_iter=4, burn_in=2, thin=1, n_chains=1, random_state=0)
LEARNED = {"alpha", "gamma", "eta", "kappa", "concentrations", "conc_cluster"}


def case(kind, data, numbers, **fixed):
    return partial(kind, **fixed), data, numbers


def hdp(sampler):
    numbers = dict(gamma=1.0, alpha=1.0, eta=0.5, power=1.0)
    return case(HDP, TEXTS, numbers, sampler=sampler, init=3, **CHAINS)


def states(sampler, data=STEPS, **options):
    numbers = dict(gamma=1.0, alpha=1.0, kappa=1.0)
    numbers |= {} if "emission" in options else dict(prior=0.5)
    return case(HDPHMM, data, numbers, sampler=sampler, **options, **CHAINS)


def online(e_step):
    numbers = dict(gamma=1.0, alpha=1.0, eta=0.5)
    return case(OnlineHDP, TEXTS, numbers, e_step=e_step, batch_size=3, n_passes=2, random_state=0)


LEVELS = dict(concentrations=1.0, eta=0.5, power=1.0)
CLUSTERS = dict(conc_local=1.0, conc_cluster=1.0, eta=0.5)
CASES = {
    **{f"HDP, {s}": hdp(s) for s in SAMPLERS},
    "LDA": case(
        LDA, TEXTS, dict(gamma=1.0, alpha=1.0, eta=0.5), n_topics=3, weights="learned", **CHAINS
    ),
    "TreeHDP": case(TreeHDP, TEXTS, LEVELS, init=3, **CHAINS),
    "VariationalHDP": case(
        VariationalHDP,
        TEXTS,
        dict(gamma=1.0, alpha=1.0, eta=0.5, tol=1e-3),
        n_topics=5,
        max_iter=4,
        random_state=0,
    ),
    **{f"OnlineHDP, {e_step}": online(e_step) for e_step in ("variational", "gibbs")},
    "DPMixture, categorical": case(DPMixture, STEPS, dict(alpha=1.0, prior=0.5), **CHAINS),
    "DPMixture, normal": case(DPMixture, POINTS, dict(alpha=1.0), likelihood="normal", **CHAINS),
    "HDPMixture": case(
        HDPMixture,
        [POINTS[:12], POINTS[12:]],
        dict(alpha=1.0, gamma=1.0),
        likelihood="normal",
        **CHAINS,
    ),
    "HNHDP": case(HNHDP, TEXTS, CLUSTERS | dict(conc_global=1.0), **CHAINS),
    "NestedDP": case(NestedDP, TEXTS, CLUSTERS, **CHAINS),
    **{f"HDPHMM, {s}": states(s) for s in ("direct", "beam", "weak_limit")},
    "HDPHMM, normal": states("direct", POINTS, emission="normal"),
}


def settings(numbers):
    "Every number by itself, and of a prior each of the two, at every value."
    for name, value in itertools.product(numbers, VALUES):
        yield name, value
        if name in LEARNED:
            yield name, (value, 1)
            yield name, (1, value)


def outcome(make, data, name, value):
    "None for a result that is finite, or what is wrong."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.filterwarnings("ignore", ".*are clusters of their own.*")
            value = Gamma(*value) if isinstance(value, tuple) else value
            model = make(**{name: value}).fit(data)
    except ValueError as error:
        known = name, "Gamma must", *["eta"] * (name == "prior")
        named = any(word in str(error) for word in known)  # which may draw a value beyond reason
        return None if named else f"ValueError: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    arrays = dict(getattr(model, "trace_", {}))
    shown = getattr(model, "components_", {})
    arrays |= shown if isinstance(shown, dict) else {"components_": shown}
    odd = [key for key, array in arrays.items() if not np.isfinite(array).all()]
    return f"not finite: {odd}" if odd else None


def faults(make, data, numbers):
    "What is wrong, by the setting; the process ends where a compiled loop does not."
    found = {}
    for setting in settings(numbers):
        faulthandler.dump_traceback_later(300, exit=True)
        try:
            found[setting] = outcome(make, data, *setting)
        finally:
            faulthandler.cancel_dump_traceback_later()
    return {setting: fault for setting, fault in found.items() if fault}


OFTEN = "HDP, direct", "VariationalHDP", "HDPHMM, weak_limit"


@pytest.mark.parametrize("name", slow_unless(lambda name: name in OFTEN, CASES))
def test_numbers_end_in_a_result_or_an_error_that_names_them(name):
    assert faults(*CASES[name]) == {}


def test_there_are_as_many_fits_as_are_claimed():
    assert sum(len([*settings(numbers)]) for _, _, numbers in CASES.values()) > 2900


class Careless:
    "An estimator without any checks."

    def __init__(self, gamma):
        self.gamma = gamma

    def fit(self, data):
        self.trace_ = {"log": np.array([-np.log(self.gamma)])}
        if self.gamma > 1e200:
            raise ValueError("out of range")
        return self


def test_a_careless_estimator_is_found_out():
    found = faults(Careless, None, {"gamma": 1.0})
    assert {setting[1] for setting in found} >= {0.0, -1.0, np.inf, 1e300}
    assert ("gamma", 1e100) not in found and ("gamma", 5e-324) not in found


KINDS = {**SAMPLERS, "tree": partial(TreeSampler, levels=["side"])}


@pytest.mark.parametrize("name", slow_unless(lambda name: name in ("direct", "tree"), KINDS))
@pytest.mark.parametrize("value", [1e20, 1e45])
def test_counts_stay_right_under_a_prior_of_huge_etas(name, value):
    "Where V eta has not all digits of n_k, samplers that take n_k from the sum would lose counts."
    sampler = KINDS[name](TEXTS, eta=0.5, eta_prior=(value, 1), init=3)
    rng = np.random.default_rng(0)
    state = sampler.init(rng)
    for _ in range(5):
        state, _ = sampler.sweep(rng, state)
        sampler.check(state)
    assert state.eta == MOST_ETA / TEXTS.n_words
    state.eta[...] = 1e18
    with pytest.raises(ValueError, match="eta must be"):
        sampler.check(state)
