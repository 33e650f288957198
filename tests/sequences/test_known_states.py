"""Known states: what a chain keeps, starts, names, moves, and the posterior by the beam."""

import math

import numpy as np
import pytest

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.sequences.emissions import emitted_likelihood, hmm_emission
from hdp_nb.sequences.known import KnownHMMSampler, log_none, tell_states
from hdp_nb.sequences.moves import StateMoves
from hdp_nb.sequences.samplers import HMMSampler, check_sequences

PHI = {"rest": {"phi": [0.9, 0.1, 0, 0]}, "absent": {"phi": [0, 0, 0, 1]}}


def make(x, method, strength=(20, np.inf), b=1.0, **more):
    prior, steps = check_sequences(x, [len(x) // 2, len(x) - len(x) // 2], "categorical", None, 4)
    told = tell_states(emitted_likelihood("categorical"), prior, PHI, np.array(strength, float), b)
    options = dict(kappa_prior=(1, 0.1), max_states=12, init=7) | more
    return KnownHMMSampler(hmm_emission("categorical"), prior, steps, method, told=told, **options)


def planted(rng, n=120):
    z = np.repeat(rng.integers(2, size=n // 10), 10)
    return np.where(z == 0, (rng.random(n) < 0.1).astype(int), 2)


@pytest.mark.parametrize("method", ["direct", "weak_limit", "beam"])
def test_contract(method):
    "Counts equal a recount, known states stay in front, the seed gives the same chain."
    x = planted(np.random.default_rng(0))
    x[5] = -1  # missing
    moves = StateMoves(make(x, method), 2, tune=4)
    chains = [run_chain(moves, np.random.default_rng(1), 12, thin=2) for _ in range(2)]
    for chain in chains:
        moves.check(chain.state)
        state = chain.state.base
        assert (state.n_k[:2] >= 1).all() and state.n_k.sum() == len(x) + 2
        for sample in chain.samples:
            sample.check()
            assert sample.n_k.sum() == len(x) and sample.told.tolist() == [20, 10**8]
            assert sample.stats["n_vk"][3, 1] == 10**8
    assert np.array_equal(chains[0].state.z, chains[1].state.z)
    assert np.array_equal(chains[0].trace["log_joint"], chains[1].trace["log_joint"])


def test_planted_states_have_their_names():
    "From many new states as from few, the steps of the known state go there, the others to one."
    x = planted(np.random.default_rng(0))
    for start in (1, 9):
        moves = StateMoves(make(x, "weak_limit").start(start), 3, tune=10)
        state = run_chain(moves, np.random.default_rng(2), 60).state
        assert (state.z[x < 2] == 0).mean() > 0.95
        assert (state.z[x == 2] >= 2).all()


def test_starts():
    x = planted(np.random.default_rng(0))
    few = make(x, "direct").start(1).init(np.random.default_rng(0))
    assert (few.z[x == 0] == 0).all() and (few.z[x == 2] == 2).all() and few.K == 3
    many = make(x, "direct").start(9).init(np.random.default_rng(0))
    assert many.z.min() == 2 and many.n_k[:2].tolist() == [1, 1]
    with pytest.raises(ValueError, match="max_states must be above the 2 states"):
        make(x, "weak_limit", max_states=2)
    with pytest.raises(ValueError, match="eta of prior must be a number"):
        make(x, "direct", eta_prior=(1, 1))


def test_rows_of_a_state_that_is_not_known_are_as_before():
    "A known state without weight, and like no step, leaves the chain of the others as it is."
    x = np.array([0, 1, 0, 2, 1, 0, 0, 2])
    prior, steps = check_sequences(x, None, "categorical", None, 4)
    plain = HMMSampler(hmm_emission("categorical"), prior, steps, init=1, gamma_prior=None)
    known = {"absent": {"phi": [0, 0, 0, 1]}}
    told = tell_states(emitted_likelihood("categorical"), prior, known, np.array([np.inf]), 1e-9)
    given = dict(told=told, init=1, gamma_prior=None)
    other = KnownHMMSampler(hmm_emission("categorical"), prior, steps, **given)
    mean = []
    for sampler in (plain, other):
        trace = run_chain(sampler, np.random.default_rng(0), 3000).trace
        mean.append([trace["n_states"].mean(), trace["alpha"].mean()])
    assert np.allclose(*mean, rtol=0.1)


def test_what_is_in_no_state():
    x = planted(np.random.default_rng(0))
    sampler = make(x, "weak_limit", init=1)
    state = run_chain(sampler, np.random.default_rng(0), 30).state
    prior, new = check_sequences([0, 0, 3, 3, 0], None, "categorical", sampler.prior)
    proba = np.exp(log_none(sampler.emission, prior, sampler.snapshot(state), new))
    assert np.allclose(proba.sum(axis=1), 1)
    assert proba[2, 1] > proba[2, [0, *range(2, proba.shape[1])]].max()  # the one told for it


@pytest.mark.slow
@pytest.mark.parametrize("method", ["beam", "weak_limit", "direct"])
def test_concentrations_hear_nothing_of_what_is_told(method):
    "gamma and alpha have the same posterior whatever the strength, where the steps have names."
    x, found = planted(np.random.default_rng(0), 60), []
    for strength in ((1000, 10), (10, 1000)):
        trace = run_chain(make(x, method, strength), np.random.default_rng(1), 2500).trace
        found.append([np.log(trace[name][500:]).mean() for name in ("gamma", "alpha")])
    assert np.allclose(*found, atol=0.25), found
    counted = run_chain(make(x, method, b=1000.0), np.random.default_rng(1), 1500).trace
    assert not math.isclose(np.log(counted["gamma"][500:]).mean(), found[0][0], abs_tol=0.25)
