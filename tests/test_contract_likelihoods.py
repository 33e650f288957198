"""Every registered likelihood through its contract, DPMixture, and every sampler of HDPHMM.

The one of 10_models/16_new_likelihood is among them. A new likelihood is tested here the moment
it is registered, on its `examples`.
"""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from likelihood_contract import CASES, case, log_marginal_of, settings
from naive import partitions
from naive_hmm import Posterior
from tiers import slow_unless

from hdp_nb.mixtures.dp import DPMixtureSampler
from hdp_nb.mixtures.likelihood import Likelihood, categorical, likelihoods, poisson, register
from hdp_nb.mixtures.normal import find_likelihood
from hdp_nb.mixtures.testing import DRAWS, IDENTITIES, check_likelihood
from hdp_nb.models.loading import load_model
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.sequences.emissions import emitted_likelihood, hmm_emission, make_emission, symbols
from hdp_nb.sequences.samplers import HMMSampler, check_sequences

SAMPLERS = ("direct", "beam", "weak_limit")


@pytest.mark.parametrize("check", IDENTITIES)
@pytest.mark.parametrize("name, i", CASES)
def test_identities(check, name, i):
    IDENTITIES[check](*case(name, i))


@pytest.mark.parametrize("check", DRAWS)
@pytest.mark.parametrize(
    "name, i",
    [
        pytest.param(name, i, marks=[pytest.mark.slow] * (i > 0))  # others of the same kernels
        for name, i in CASES
        if likelihoods[name].draw is not None
    ],
)
def test_draws(check, name, i):
    DRAWS[check](*case(name, i))


def test_every_likelihood_has_examples():
    assert {name for name, _ in CASES} == {*likelihoods} and {"geometric", "poisson"} <= {
        *likelihoods
    }


# --- controls: the checks of draws must reject what is wrong --------------------------------------


def from_the_prior(fam):
    def draw(rng, prior, slots, k, params):
        fam.draw(rng, prior, fam.init_stats(prior, k + 1), k, params)

    return {"draw": draw}


def too_wide(fam):
    "Samples of the right mean, further apart than the density says."

    def sample(rng, parameters, z):
        if "phi" in parameters:
            flat = np.sqrt(parameters["phi"])
            return fam.sample(rng, {"phi": flat / flat.sum(1, keepdims=True)}, z)
        wide = {
            name: 2 * a if name in ("variance", "covariance") else a
            for name, a in parameters.items()
        }
        if "rate" in parameters:
            wide["rate"] = rng.gamma(2.0, a / 2.0) if (a := parameters["rate"]).size else a
        if "chance" in parameters:
            wide["chance"] = parameters["chance"] ** 2
        return fam.sample(rng, wide, z)

    return {"sample": sample}


def twice_the_predictive(fam):
    "A predictive that counts what is in the slot twice."

    def log_predictive(prior, slots, k, data, i):
        return 2 * fam.log_predictive(prior, slots, k, data, i)

    return {"log_predictive": log_predictive}


def twice_the_marginal(fam):
    def log_marginal(prior, slots, k):
        return 2 * fam.log_marginal(prior, slots, k)

    return {"log_marginal": log_marginal}


def constant_in_the_density(fam):
    def log_density(prior, params, k, data, i):
        return fam.log_density(prior, params, k, data, i) + 0.3

    return {"log_density": log_density}


def constant_in_the_predictive(fam):
    def log_predictive(prior, slots, k, data, i):
        return fam.log_predictive(prior, slots, k, data, i) + 0.3

    return {"log_predictive": log_predictive}


def other_means(fam):
    return {
        "expected": lambda prior, slots, n: {
            name: 1.1 * a + 0.1 for name, a in fam.expected(prior, slots, n).items()
        }
    }


SCALAR = [
    "categorical",
    "poisson",
    "normal_known_variance",
    "normal_inverse_gamma",
    "normal_inverse_wishart",
    "geometric",
]


@pytest.mark.parametrize(
    "slip, check",
    [
        (from_the_prior, "posterior"),
        (too_wide, "sample"),
        (twice_the_predictive, "predictive"),
        (twice_the_marginal, "marginal"),
        (constant_in_the_density, "density"),
        (constant_in_the_predictive, "share"),
        (other_means, "expected"),
    ],
)
@pytest.mark.parametrize("name", SCALAR)
def test_wrong_ones_are_rejected(name, slip, check):
    fam, prior, data = case(name)
    with pytest.raises(AssertionError, match="off by|expected says that the mean of `"):
        DRAWS[check](replace(fam, **slip(fam)), prior, data)


@pytest.mark.parametrize("name", SCALAR)
def test_a_total_other_than_one_is_rejected(name):
    fam, prior, data = case(name)
    wrong = replace(fam, **constant_in_the_predictive(fam))
    with pytest.raises(
        AssertionError, match=r"^exp\(log_predictive\) given all .* 1.3498.*, not 1$"
    ):
        IDENTITIES["total"](wrong, prior, data)


@pytest.mark.parametrize("name", ["poisson", "normal_known_variance", "normal_inverse_wishart"])
def test_a_factor_in_several_columns_is_rejected(name):
    fam, prior, data = case(name, 1)
    wrong = replace(fam, **constant_in_the_predictive(fam))
    IDENTITIES["total"](wrong, prior, data)
    with pytest.raises(AssertionError, match="of the samples fall into a set .* off by"):
        DRAWS["share"](wrong, prior, data)


def uniform_angles(taken):
    fam = likelihoods["normal_known_variance"]
    return replace(
        fam,
        check_data=lambda X, prior: taken(fam.check_data(X, prior)),
        log_predictive=lambda prior, slots, k, data, i: -math.log(2 * math.pi),
    )


def once(x):
    "Angles from -pi to pi, or an error."
    if (abs(x) > math.pi).any():
        raise ValueError("X must be angles")
    return x


def turned(x):
    return (x + math.pi) % (2 * math.pi) - math.pi


@pytest.mark.parametrize("taken", [once, turned])
def test_a_total_over_what_check_data_takes(taken):
    fam, x = uniform_angles(taken), [0.3, -1.2, 2.0, 3.1]
    prior = fam.make_prior()
    data = fam.check_data(x, prior)
    IDENTITIES["total"](fam, prior, data)
    with pytest.raises(AssertionError, match="adds up to 1.3"):
        IDENTITIES["total"](replace(fam, **constant_in_the_predictive(fam)), prior, data)


def test_no_verdict_on_a_total_where_there_is_none_to_be_had():
    "Angles on every turn; a zero that has a probability of its own; a prior far from the data."
    angles = uniform_angles(lambda x: x)
    normal = likelihoods["normal_known_variance"]

    def hurdle(prior, slots, k, data, i):
        if data[i, 0] == 0:
            return math.log(0.3)
        return math.log(0.7) + normal.log_predictive(prior, slots, k, data, i)

    mixed = replace(normal, log_predictive=hurdle)
    for fam, x in ((angles, [0.3, 7.0]), (mixed, [0.0, 1.2]), (mixed, [1.2, -0.4])):
        prior = fam.make_prior()
        IDENTITIES["total"](fam, prior, fam.check_data(x, prior))
    prior = normal.make_prior(mean=1e9, mean_var=1e-3)
    IDENTITIES["total"](normal, prior, normal.check_data([0.3, 1.2], prior))


def test_counts_that_are_kept_as_floats_have_a_total():
    fam, prior, data = case("geometric")
    floats = replace(fam, check_data=lambda X, prior: np.asarray(X, float).reshape(-1))
    IDENTITIES["total"](floats, prior, data.astype(float))
    wrong = replace(floats, **constant_in_the_predictive(fam))
    with pytest.raises(AssertionError, match="adds up to"):
        IDENTITIES["total"](wrong, prior, data.astype(float))


def test_shares_of_large_counts_are_those_of_a_box():
    fam = likelihoods["poisson"]
    prior = fam.make_prior(shape=3.0, rate=3e-5)
    data = fam.check_data([100_000, 130_000, 90_000, 110_000], prior)
    DRAWS["share"](fam, prior, data)
    with pytest.raises(AssertionError, match="of the samples fall into a set"):
        DRAWS["share"](replace(fam, **constant_in_the_predictive(fam)), prior, data)


def test_check_likelihood_names_what_failed():
    check_likelihood(likelihoods["geometric"], only=["chain_rule", "density"])
    implicit = Likelihood(**parts(likelihoods["geometric"], *EXPLICIT))
    check_likelihood(implicit)
    wrong = replace(poisson, log_block=None)
    for of_whom, where in (
        ({}, r"example 0 of 'poisson', hyper = {}"),
        ({"X": [3, 0, 7, 2, 5, 9]}, r"X by 'poisson', hyper = {}"),
        (
            {"X": [3, 0, 7, 2, 5, 9], "hyper": {"shape": 2.0}},
            r"X by 'poisson', hyper = {'shape': 2.0}",
        ),
    ):
        with pytest.raises(
            AssertionError,
            match=f"^check 'block' on {where}: statistics after log_block: `log_fact`",
        ):
            check_likelihood(wrong, **of_whom)

    def breaks(rng, parameters, z):
        raise IndexError("too far")

    with pytest.raises(IndexError, match="too far") as caught:
        check_likelihood(replace(poisson, sample=breaks))
    assert caught.value.__notes__ == ["in the check 'sample' on example 0 of 'poisson', hyper = {}"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("poisson",), "fam must be a Likelihood, got str"),
        ((replace(poisson, examples=()),), "X must be given where a likelihood has no examples"),
        ((poisson, [1, 2, 3]), "X must have at least 4 observations, got 3"),
        ((poisson, None, {"shape": 1.0}), "X must be given where hyper is, got None"),
        ((poisson, [1, 2, 3, 4], None, ["blocks"]), r"only must name checks .* got \['blocks'\]"),
        ((poisson, [1, 2, 3, 4], None, []), r"only must name checks .* got \[\]"),
        ((poisson, [1, 2, 3, 4], None, "block"), "only must name checks .* got 'block'"),
        ((poisson, [1, 2, 3, -4]), "X must not be negative, got -4"),
        ((poisson, [1, 2, 3, 4], {"shape": -1.0}), "shape must be .* got -1"),
    ],
)
def test_check_likelihood_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_likelihood(*arguments)


# --- the registry, and what is missing ------------------------------------------------------------


def parts(fam, *without):
    return {name: value for name, value in vars(fam).items() if name not in without}


def test_register():
    again = register(replace(likelihoods["geometric"]))  # a cell that is run again
    assert (
        find_likelihood("geometric") is again
        and find_likelihood("normal").name == "normal_inverse_wishart"
    )
    for wrong, message in (
        (replace(again, name="poisson"), "must have a name other than .* got 'poisson'"),
        (replace(again, name="normal"), "must have a name other than .* got 'normal'"),
        ("poisson", "must be a Likelihood, got str"),
    ):
        with pytest.raises(ValueError, match=message):
            register(wrong)
    assert find_likelihood("poisson") is poisson
    for name in ("bernoulli", None, 3, ["poisson"]):
        with pytest.raises(
            ValueError,
            match=(
                "^emission must be one of 'normal', 'categorical', .*"
                " hdp_nb.mixtures.likelihood.register; got"
            ),
        ):
            find_likelihood(name, "emission")


def test_a_part_is_missing():
    with pytest.raises(TypeError, match="log_marginal"):
        Likelihood(**parts(poisson, "log_marginal"))
    with pytest.raises(TypeError, match="positional"):
        Likelihood("poisson")
    with pytest.raises(
        ValueError,
        match=(
            "'poisson' must have all of new_params, draw, log_density, name_params, .* got none for"
            " draw"
        ),
    ):
        Likelihood(**parts(poisson, "draw"))


EXPLICIT = ("new_params", "draw", "log_density", "name_params")


@pytest.fixture
def implicit():
    "A likelihood without explicit parameters, registered for one test."
    fam = register(Likelihood(**parts(likelihoods["geometric"], *EXPLICIT) | {"name": "implicit"}))
    yield fam
    del likelihoods["implicit"]


def test_samplers_that_need_explicit_parameters(implicit):
    for sampler in ("beam", "weak_limit"):
        with pytest.raises(
            ValueError,
            match=(
                "^sampler must be 'direct' where emission is 'implicit', whose likelihood has no"
                f" new_params, .* got '{sampler}'"
            ),
        ):
            HDPHMM(sampler=sampler, emission="implicit", n_iter=2).fit([0, 3, 1])
    assert make_emission(implicit).draw is None


def test_default_parts_are_those_of_the_package():
    "Where a family writes out what has a default, the two agree."
    for name in ("categorical", "multinomial", "poisson"):
        fam = replace(likelihoods[name], move=None, clear=None, log_block=None)
        for check, run in IDENTITIES.items():
            if (name, check) != ("poisson", "block"):  # a sum of log x!, so it needs its own
                run(fam, *case(name)[1:])


def test_symbols_are_a_faster_categorical():
    "The emission of symbols and the one made of the likelihood answer alike at every step."
    rng, x = np.random.default_rng(0), np.random.default_rng(1).integers(0, 4, 40)
    pair = []
    for kind, hyper in (
        (symbols, {"n_symbols": 4, "eta": 0.3}),
        (make_emission(categorical), {"n_words": 4, "eta": 0.3}),
    ):
        prior, data, _ = kind.read(x.astype(float), np.zeros(40, bool), None, **hyper)
        pair.append((kind, prior, data, kind.init(prior, 4)))
    z = rng.integers(0, 3, 40)
    for t in range(40):
        weights = []
        for kind, prior, data, stats in pair:
            kind.add(stats, z[t], data, t)
            if t % 3 == 0:
                kind.remove(stats, z[t // 2], data, t // 2)
                kind.add(stats, z[t // 2], data, t // 2)
            f = np.empty(4)
            scale = kind.weigh(prior, stats, data, t, 4, f)
            weights.append(
                [*np.log(f) + scale, *(kind.log_marginal(prior, stats, k) for k in range(4))]
            )
        np.testing.assert_allclose(*weights, rtol=1e-10)
    means = []
    for kind, prior, _, stats in pair:
        kind.move(stats, 2, 3)
        used = np.array([0, 1, 3])
        kept = kind.keep(stats, used)
        assert tuple(kept) == kind.kept
        means.append(kind.expected(prior, kind.restore(prior, kept, 4), 3)["phi"])
        assert (kind.sample(np.random.default_rng(5), {"phi": means[0]}, z % 3) < 4).all()
    np.testing.assert_allclose(*means, rtol=1e-12)


# --- DPMixture and HDPHMM: in plain Python, since to compile them for every likelihood takes longer
# ---


def some_rows(fam, i, n, missing=()):
    "Rows of an example in random order, as a user has them."
    hyper, X = fam.examples[i]
    X = np.asarray(X, float)[np.random.default_rng(i).integers(0, len(X), n)]
    X[list(missing)] = np.nan
    return hyper, X


def mixture(name, tmp_path):
    "fit, predict, score, save, load; and partitions of four rows against a list of all."
    fam = find_likelihood(name)
    for i in range(len(fam.examples)):
        hyper, X = some_rows(fam, i, 12)
        model = DPMixture(
            **settings(fam, hyper, "likelihood"), n_iter=8, burn_in=2, thin=2, random_state=0
        ).fit(X)
        assert model.predict(X).shape == (12,) and np.isfinite(model.score_samples(X)).all()
        assert all(len(a) == model.n_components_ for a in model.components_.values())
        if fam.scalar:
            assert (model.score_samples(X.reshape(-1, 1)) == model.score_samples(X)).all()
        model.save(tmp_path / "m.npz")
        again = load_model(tmp_path / "m.npz")
        assert again.score(X) == model.score(X) and (again.predict(X) == model.predict(X)).all()
    fam, prior, data = case(name)
    data, log_p = data[1:5], []
    log_marginal = log_marginal_of(fam, prior, data)
    every = list(partitions(4))
    for z in every:
        blocks = [[i for i in range(4) if z[i] == k] for k in set(z)]
        log_p.append(
            sum(math.lgamma(len(b)) + log_marginal(b) for b in blocks) + len(blocks) * math.log(0.8)
        )
    exact = np.exp(np.array(log_p) - max(log_p))
    sampler, rng, count = (
        DPMixtureSampler(fam, data, prior, 0.8, None),
        np.random.default_rng(0),
        dict.fromkeys(every, 0),
    )
    state = sampler.init(rng)
    for _ in range(3000):
        state, _ = sampler.sweep(rng, state)
        first = {}
        count[tuple(first.setdefault(k, len(first)) for k in state.z.tolist())] += 1
    found = np.array([count[z] for z in every]) / 3000
    assert abs(found - exact / exact.sum()).sum() / 2 < 0.05, (found, exact / exact.sum())


def hidden_markov(name, sampler, tmp_path):
    "fit, predict, score, sample, save, load, missing steps, groups; statistics from the states."
    fam, emission = emitted_likelihood(name), hmm_emission(name)
    for i in range(len(fam.examples)):
        if emission is symbols and np.ndim(fam.examples[i][0].get("eta", 0.5)):
            continue  # symbols in an HMM have one eta
        hyper, X = some_rows(fam, i, 16, missing=(3, 14, 15))
        lengths, groups = [9, 0, 5, 2], ["b", "a", "a", "b"]
        options = dict(
            sampler=sampler,
            **settings(fam, hyper, "emission"),
            n_iter=5,
            n_chains=1,
            burn_in=2,
            thin=2,
            init=2,
            max_states=4,
            kappa=0.5,
            random_state=0,
        )
        for kwargs in ({}, {"groups": groups}):
            model = HDPHMM(**options).fit(X, lengths, **kwargs)
            scores, z = (
                model.score_samples(X, lengths, **kwargs),
                model.predict(X, lengths, **kwargs),
            )
            assert (
                scores.shape == (4,)
                and np.isfinite(scores).all()
                and abs(scores[[1, 3]]).max() < 1e-9
                and model.score(X, lengths, **kwargs) == scores.sum()
            )
            assert z.shape == (16,) and set(z) <= set(range(model.n_states_))
            p = model.predict_proba(X, lengths, **kwargs)
            assert p.shape == (16, model.n_states_) and np.allclose(p.sum(1), 1)
            assert all(len(a) == model.n_states_ for a in model.emissions_.values())
            assert all(set(sample.stats) == set(emission.kept) for sample in model.samples_)
            model.save(tmp_path / "m.npz")
            again = load_model(tmp_path / "m.npz")
            assert (again.score_samples(X, lengths, **kwargs) == scores).all() and (
                again.predict(X, lengths, **kwargs) == z
            ).all()
            if all(np.isfinite(a).all() for a in model.emissions_.values()):
                new, states = again.sample(7, 1, *(["a"] if kwargs else []))
                assert new.shape == (7, *X.shape[1:]) and states.shape == (7,)
                assert np.isfinite(again.score(new, **({"groups": ["a"]} if kwargs else {})))
        prior, sequences = check_sequences(
            X,
            lengths,
            name,
            None,
            **{
                key: value
                for key, value in settings(fam, hyper, "emission").items()
                if key in ("eta", "n_symbols")
            },
            **(settings(fam, hyper, "emission").get("prior") or {}),
        )
        s = HMMSampler(emission, prior, sequences, sampler, kappa=1.0, init=2, max_states=4)
        rng = np.random.default_rng(0)
        state = s.init(rng)
        for _ in range(4):
            state, info = s.sweep(rng, state)
            fresh = emission.init(prior, state.n_k.size)
            for t in np.flatnonzero(sequences.marks & 4 == 0):
                emission.add(fresh, state.z[t], sequences.data, t)
            for k in range(state.n_k.size):
                assert (
                    abs(
                        emission.log_marginal(prior, state.stats, k)
                        - emission.log_marginal(prior, fresh, k)
                    )
                    < 1e-6
                )
            assert np.isfinite([*info.values()]).all()


def distance_to_exact(name, method, n, alpha=1.2):
    "Between a chain of n sweeps over four steps, one of them missing, and its exact posterior."
    fam, prior, data = case(name)
    X = np.asarray(fam.examples[0][1], float)[1:5].copy()
    X[2] = np.nan
    hyper = settings(fam, fam.examples[0][0], "emission")
    own, sequences = check_sequences(
        X,
        None,
        name,
        None,
        **{key: value for key, value in hyper.items() if key in ("eta", "n_symbols")},
        **(hyper.get("prior") or {}),
    )
    prior = prior if hmm_emission(name) is symbols else own
    exact = Posterior(
        [[None if t == 2 else t for t in range(4)]],
        1,
        1.0,
        1.2,
        0.8,
        0.4,
        emission=log_marginal_of(fam, prior, data[1:5]),
    )
    s = HMMSampler(
        hmm_emission(name),
        own,
        sequences,
        method,
        alpha,
        0.8,
        0.4,
        init=2,
        alpha_prior=None,
        gamma_prior=None,
    )
    rng = np.random.default_rng(0)
    state, n_states, same = s.init(rng), np.zeros(5), np.zeros((4, 4))
    for _ in range(n):
        state = s.update(rng, state)
        n_states[(state.n_k > 0).sum()] += 1 / n
        same += np.equal.outer(state.z, state.z) / n
    return max(abs(n_states - exact.n_states).sum() / 2, abs(same - exact.same).max())


# Symbols, and steps that depend on the one before.
KINDS = {"categorical", "autoregression"}


DYNAMICS = ["autoregression", "student_autoregression"]


@pytest.mark.parametrize("name", slow_unless(KINDS.__contains__, [*likelihoods, *DYNAMICS]))
def test_mixtures_and_hidden_markov_models(name, tmp_path):
    script = f"""if True:
        from pathlib import Path
        from test_contract_likelihoods import *
        for sampler in SAMPLERS:
            hidden_markov({name!r}, sampler, Path({str(tmp_path)!r}))
        if {name!r} in likelihoods:  # rows by themselves
            mixture({name!r}, Path({str(tmp_path)!r}))
            off = distance_to_exact({name!r}, "direct", 2500)
            assert off < 0.05, off
    """
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
        env={
            **os.environ,
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("method, n", [("direct", 60_000), ("beam", 240_000)])
@pytest.mark.parametrize("name", [*likelihoods])
def test_every_emission_is_exact(name, method, n):
    assert distance_to_exact(name, method, n) < 0.015


@pytest.mark.slow
def test_another_model_is_not(name="poisson"):
    assert distance_to_exact(name, "direct", 60_000, alpha=6.0) > 0.03
