"""Moves between numbers of states: what notebooks 47 and 48 do not test themselves."""

import numpy as np
import pytest
from test_hmm import GROUPED, GroupedPosterior, distance, grouped, make
from tiers import slow_unless

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import exact_posterior, joint_distribution_test, posterior_error
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.sequences.emissions import symbols
from hdp_nb.sequences.hdp_hmm import sequence_prior
from hdp_nb.sequences.moves import StateMoves
from hdp_nb.sequences.pairs import MovePlan, move_states
from hdp_nb.sequences.samplers import make_log_emissions
from hdp_nb.topics.direct import DirectSampler

FIXED = dict(alpha_prior=None, gamma_prior=None)
SCANS = np.array([0, 1, 4])
FAIR, UNFAIR = MovePlan(15, 0.5, SCANS, 1.0, 1.0), MovePlan(15, 0.7, SCANS, 1.0, 1.0)


def alternate(sampler, plan, n, seed=0):
    "States of n rounds of moves, a sweep and moves."
    rng, out = np.random.default_rng(seed), []
    state = sampler.init(rng)
    for _ in range(n):
        state, _ = move_states(rng, sampler, state, plan)
        state = sampler.update(rng, state)
        state, _ = move_states(rng, sampler, state, plan)
        out.append(state.z.copy())
    return out


# ---------------------------------------------------------------- exactness


@pytest.mark.parametrize("method", ["direct", "beam"])
def test_moves_keep_the_posterior(method):
    sequences = [[0, 0, None, 1], [1, 0, 1]]
    sampler = make(sequences, 2, 0.3, 1.2, 0.8, 0.9, method, init=1, **FIXED)

    def log_joint(z):
        stats = sampler.state(np.array(z)).stats
        fit = make_log_emissions(symbols)(sampler.prior, stats, max(z) + 1)
        return np.log(sequence_prior(z, [4, 3], 1.2, 0.8, 0.9)) + fit

    exact = exact_posterior(7, log_joint)
    assert posterior_error(alternate(sampler, FAIR, 2500), exact) < 0.035
    assert posterior_error(alternate(sampler, UNFAIR, 1000), exact) > 0.08


@pytest.mark.parametrize("case", slow_unless(lambda case: case is GROUPED[0], GROUPED))
def test_moves_of_groups_keep_the_posterior(case):
    def off(plan, n):
        zs = alternate(grouped(*case, **FIXED), plan, n)
        p_K = np.bincount([len(set(z)) for z in zs], minlength=len(zs[0]) + 1) / n
        return distance((p_K, np.mean([np.equal.outer(z, z) for z in zs], axis=0)), exact)

    exact = GroupedPosterior(*case)
    assert off(FAIR, 4000) < 0.03 and off(UNFAIR, 1000) > 0.08


@pytest.mark.parametrize("n_groups", [0, 2])
def test_joint_distribution_on_the_weak_limit(n_groups):
    "States and weights from the prior, moves, new symbols; the control prefers splits."
    L, V, alpha, gamma, kappa, conc = 4, 3, 1.5, 1.2, 0.7, 2.0
    sequences = [[0] * 5, [0] * 4]
    options = dict(method="weak_limit", max_states=L, init=2, **FIXED)
    if n_groups:
        s = grouped(sequences, [0, 1], V, 0.5, alpha, gamma, conc, kappa, **options)
    else:
        s = make(sequences, V, 0.5, alpha, gamma, kappa, **options)

    def prior_draw(rng):
        top = rng.dirichlet(np.full(L, gamma / L) + 1e-9)
        weights, z, rows = [top], [], {}
        if n_groups:
            weights += [rng.dirichlet(conc * top + 1e-9) for _ in range(2)]
        for i, n in enumerate((5, 4)):
            a, g = L, i if n_groups else 0
            for _ in range(n):
                if (g, a) not in rows:
                    own = kappa * (np.arange(L) == a)
                    rows[g, a] = rng.dirichlet(alpha * weights[-n_groups + g] + own + 1e-9)
                a = rng.choice(L, p=rows[g, a])
                z.append(a)
        state = s.state(np.array(z))
        beta = np.maximum(weights, 1e-290)
        state.beta[..., :L] = beta if n_groups else beta[0]
        state.beta_u[...] = 0.0
        return state

    def data_draw(rng, state):
        phi = rng.dirichlet(np.full(V, 0.5), L)
        x = np.array([rng.choice(V, p=phi[k]) for k in state.z])
        s.sequences.data[:] = x
        if n_groups:
            s.recount(state)
        else:
            state.stats.n_vk[:], state.stats.n_k[:] = 0, 0
            np.add.at(state.stats.n_vk, (x, state.z), 1)
        return x

    def statistics(state, x):
        top = state.beta.reshape(-1, state.n_k.size)[0, :L]
        return {
            "used": float((state.n_k > 0).sum()),
            "largest": float(state.n_k.max()),
            "weight": float((top**2).sum()),
            "own": float((state.z[1:] == state.z[:-1]).sum()),
            "used weight": float(top[state.n_k[:L] > 0].sum()),
            "fit": float((x[1:] == x[:-1]).sum()),
        }

    fair, unfair = (
        joint_distribution_test(
            np.random.default_rng(1),
            prior_draw,
            data_draw,
            lambda rng, state, x, plan=plan: move_states(rng, s, state, plan)[0],
            statistics,
            n_draws=1500,
            n_rounds=2,
        )
        for plan in (FAIR._replace(n_moves=6), UNFAIR._replace(n_moves=6))
    )
    assert max(map(abs, fair.values())) < 4 and abs(unfair["used"]) > 6, (fair, unfair)


# ---------------------------------------------------------------- from any start


@pytest.mark.parametrize("begin", [pytest.param(1, marks=pytest.mark.slow), 20])
def test_two_regimes_are_two_states(begin):
    rng, large = np.random.default_rng(0), []
    x = np.append(rng.normal(-2, 1, 200), rng.normal(2, 1, 200))
    count = lambda sweep, state: large.append(int((np.bincount(state.z) > 4).sum()))
    model = HDPHMM(emission="normal", n_iter=500, init=begin, n_chains=1, random_state=0)
    model.fit(x, callback=count)
    assert np.mean(np.array(large[250:]) == 2) > 0.6 and model.trace_["n_states"][250:].mean() < 4.5
    assert model.trace_["moves_accepted"].sum() > 10


# ---------------------------------------------------------------- edges


@pytest.mark.parametrize("method", ["direct", "beam", "weak_limit"])
@pytest.mark.parametrize("sequences", [[[1]], [[None, None, None], [None]], [[0], [], [1, 0]]])
def test_few_or_no_observations(method, sequences):
    sampler = StateMoves(make(sequences, 2, 0.5, method=method, max_states=2), 5, tune=0)
    trace = run_chain(sampler, np.random.default_rng(0), 30).trace
    assert np.isfinite(trace["log_joint"]).all() and (trace["moves_proposed"] == 5).all()


def test_one_state_on_the_weak_limit_can_not_be_split():
    base = make([[0, 1, 0, 1]], 2, 0.5, method="weak_limit", max_states=1)
    trace = run_chain(StateMoves(base, 5, tune=0), np.random.default_rng(0), 10).trace
    assert trace["moves_accepted"].sum() == 0 and (trace["n_states"] == 1).all()


def test_no_moves_and_a_number_of_them():
    x = np.arange(60) % 3
    fit = lambda **options: HDPHMM(n_iter=20, n_chains=1, random_state=0, **options).fit(x)
    assert "moves_proposed" not in fit(moves=0).trace_
    assert (fit(moves=3, burn_in=5).trace_["moves_proposed"][5:] == 3).all()


@pytest.mark.parametrize("moves", [-1, 1.5, "all"])
def test_bad_moves(moves):
    with pytest.raises(ValueError, match="moves must be"):
        HDPHMM(moves=moves, n_iter=2).fit([0, 1, 0])


def test_bad_arguments():
    base = make([[0, 1]], 2, 0.5)
    with pytest.raises(ValueError, match="base must be a sampler of the HDP-HMM, got Direct"):
        StateMoves(DirectSampler(Corpus.from_docs([[0]], n_words=1)))
    for options in ({"share": 0}, {"n_moves": 0}, {"tune": -1}):
        with pytest.raises(ValueError, match=next(iter(options))):
            StateMoves(base, **options)
