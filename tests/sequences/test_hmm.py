"""The HDP-HMM: samplers against exact posteriors, counts, predictions by brute force, bad input."""

import os
import subprocess
import sys
from itertools import product
from math import lgamma

import numpy as np
import pytest
from naive_hmm import Gibbs, GroupedPosterior, Posterior, sampled
from numba import njit
from quickstart import check_quick_start

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.mcmc.exact import joint_distribution_test, posterior_error
from hdp_nb.mcmc.priors import FIXED_PRIOR, Gamma
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.sequences import groups as hmm_groups
from hdp_nb.sequences import hdp_hmm as hmm
from hdp_nb.sequences.blocked import (
    make_draw_parameters,
    make_ffbs,
    new_blocked_workspace,
    transpose_and_sort,
)
from hdp_nb.sequences.emissions import hmm_emission, symbols
from hdp_nb.sequences.finite import FiniteHMM
from hdp_nb.sequences.groups import GroupedHMMSampler
from hdp_nb.sequences.hdp_hmm import (
    HMMPrior,
    exact_states,
    make_direct_sweep,
    new_direct_workspace,
    no_parent,
    resample_rows,
)
from hdp_nb.sequences.predict import (
    decode,
    forward_backward,
    forward_table,
    log_plug_in,
    mean_emissions,
    mean_transitions,
    predictive_rows,
    sample_sequence,
)
from hdp_nb.sequences.samplers import HMMSampler, check_sequences, expand_capacity

# (sequences, symbols, eta, alpha, gamma, kappa)
CASES = [
    ([[0, 0, 0, 0, 1, 1]], 2, 0.3, 1.0, 1.0, 0.0),
    ([[0, 1, 0], [0, 0, 0]], 2, 0.5, 1.5, 0.7, 0.0),
    ([[0, 1, None, 0, 1, 2, 0]], 3, 0.2, 0.7, 1.5, 0.0),
    ([[0, 0, None, 1, 1]], 2, 0.3, 1.0, 1.0, 1.5),
    ([[0], [], [0, 1, 0, 2]], 3, 0.1, 0.5, 2.0, 0.5),
]
TOLERANCE = 0.015
FIXED = dict(alpha_prior=None, gamma_prior=None)


def make(sequences, V, eta, alpha=1.0, gamma=1.0, kappa=0.0, method="direct", **options):
    x = [-1 if v is None else v for s in sequences for v in s]
    return HMMSampler(
        symbols,
        *check_sequences(x, [len(s) for s in sequences], "categorical", None, V, eta),
        method,
        alpha,
        gamma,
        kappa,
        **{"init": 2, **options},
    )


_direct = make_direct_sweep(symbols)


@njit
def _collect(rng, state, work, parent, prior, hyper, sequences, n, p_K, same, means):
    marks = sequences.marks
    for _ in range(n):
        if _direct(rng, state, work, parent, prior, hyper, sequences, 0) < marks.size:
            raise RuntimeError("more states than steps")
        p_K[state.K[()]] += 1 / n
        means[0] += state.alpha[()] / n
        means[1] += state.gamma[()] / n
        means[2] += state.kappa[()] / n
        means[3] += state.stats.eta[()] / n
        for a in range(marks.size):
            for b in range(marks.size):
                same[a, b] += (state.z[a] == state.z[b]) / n


def collect(s, n, seed=0):
    "P(K), co-clustering, and means of alpha, gamma, kappa, eta over n sweeps."
    rng, N = np.random.default_rng(seed), len(s.sequences.marks)
    state, out = s.init(rng), (np.zeros(N + 1), np.zeros((N, N)), np.zeros(4))
    if type(s) is HMMSampler and s.method == "direct" and s.emission is symbols:
        state, work = expand_capacity(symbols, s.prior, state, 16), new_direct_workspace(16)
        _collect(rng, state, work, no_parent(), s.prior, s.hyper, s.sequences, n, *out)
        return out
    for _ in range(n):
        state = s.update(rng, state)
        out[0][(state.n_k > 0).sum()] += 1 / n
        out[1][:] += np.equal.outer(state.z, state.z) / n
        out[2][:] += (
            np.array([state.alpha, state.gamma, state.kappa, getattr(state.stats, "eta", 0)]) / n
        )
    return out


def distance(found, exact):
    "Total variation of P(K), and the largest error of the co-clustering."
    return max(abs(found[0] - exact.n_states).sum() / 2, abs(found[1] - exact.same).max())


@pytest.mark.parametrize("case", CASES)
def test_direct_is_exact(case):
    assert distance(collect(make(*case, **FIXED), 150_000), Posterior(*case)) < TOLERANCE


def test_beam_is_exact():
    assert (
        distance(collect(make(*CASES[3], method="beam", **FIXED), 40_000), Posterior(*CASES[3]))
        < TOLERANCE
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_beam_is_exact_everywhere(case):
    assert (
        distance(collect(make(*case, method="beam", **FIXED), 150_000), Posterior(*case))
        < TOLERANCE
    )


@pytest.mark.parametrize("case", CASES[:4])
def test_enumeration_agrees_with_the_plain_one(case):
    "`exact_states`, through which the notebooks check, against what the tests have for themselves."
    exact = Posterior(*case)
    ours = exact_states([[-1 if v is None else v for v in s] for s in case[0]], *case[1:])
    np.testing.assert_allclose(ours.p_K, exact.n_states, atol=1e-12)
    np.testing.assert_allclose(ours.together, exact.same, atol=1e-12)
    assert ours.log_evidence < 0
    draws = collect_states(make(*case, **FIXED), 10_000)
    assert posterior_error(draws, ours) < 0.06


def collect_states(s, n):
    rng = np.random.default_rng(0)
    state = s.init(rng)
    for _ in range(n):
        state = s.update(rng, state)
        yield state.z.copy()


def test_weak_limit_comes_closer(case=CASES[1]):
    off = [
        distance(
            collect(make(*case, method="weak_limit", max_states=L, **FIXED), 6_000),
            Posterior(*case),
        )
        for L in (3, 10, 40)
    ]
    assert off[0] > off[1] + 0.02 > off[2] + 0.04 and off[2] < 0.04


def test_without_the_self_transition_corrections():
    "The control: the plain sampler passes, and fails without the corrections of a self-transition."
    case = CASES[1]
    off = []
    for mistake in (None, "self"):
        gibbs = Gibbs(*case[:5], np.random.default_rng(3), mistake=mistake)
        off.append(distance(sampled((gibbs.sweep() for _ in range(10_000)), 6), Posterior(*case)))
    assert off[0] < TOLERANCE and off[1] > 2 * TOLERANCE


@pytest.mark.parametrize(
    "method, n", [("direct", 300_000), pytest.param("beam", 20_000, marks=pytest.mark.slow)]
)
def test_exact_with_everything_learned(method, n):
    priors = dict(alpha_prior=(2, 1), gamma_prior=(1, 1), kappa_prior=(1, 1), eta_prior=(2, 2))
    sequences = [[0, 0, 1], [0]]
    exact = Posterior(sequences, 2, 0.5)
    means = exact.hyper(0.5, 1, 1, 1, **priors, n_grid=28)
    found = collect(make(sequences, 2, 0.5, kappa=1.0, method=method, **priors), n)
    assert distance(found, exact) < TOLERANCE
    np.testing.assert_allclose(found[2], means, rtol=0.03)
    wrong = Posterior(sequences, 2, 0.5).hyper(
        0.5, 1, 1, 1, **{**priors, "alpha_prior": (2, 0.5)}, n_grid=28
    )  # a rate taken for a scale, say
    assert abs(found[2][0] / wrong[0] - 1) > 0.1


@pytest.mark.parametrize("method", ["direct", "beam", "weak_limit"])
def test_eta_is_drawn_where_it_is_free(method):
    for prior, free in ((None, False), ((1, 1), True)):
        sampler = make([[0, 0, 1, 2, 1]], 3, 0.5, method=method, **FIXED, eta_prior=prior)
        rng = np.random.default_rng(0)
        state = sampler.update(rng, sampler.init(rng))
        assert (float(state.stats.eta) != 0.5) == free


def test_rows_without_transitions_say_nothing():
    "Of the concentration and of the weight of staying: nothing is drawn for them."
    drawn, prior = [], HMMPrior(Gamma(1, 1), FIXED_PRIOR, Gamma(1, 1))
    for n_a in ([[3, 5, 2]], [[3, 0, 5, 0, 0, 2]]):
        alpha, kappa = np.array(0.01), np.array(0.02)
        resample_rows(np.random.default_rng(0), np.array(n_a), alpha, kappa, prior, 4, 1)
        drawn.append((float(alpha), float(kappa)))
    assert drawn[0] == drawn[1] and 0.01 not in drawn[0]


def test_exact_without_stickiness_learned():
    sequences, priors = [[0, 0, 1], [0]], dict(alpha_prior=(2, 1), gamma_prior=(1, 1))
    exact = Posterior(sequences, 2, 0.5)
    means = exact.hyper(0.5, 1, 1, 0, **priors)
    found = collect(make(sequences, 2, 0.5, **priors), 300_000)
    assert distance(found, exact) < TOLERANCE
    np.testing.assert_allclose(found[2][:2], means[:2], rtol=0.03)


def test_kappa_fixed_while_alpha_is_learned():
    sequences = [[0, 0, 1, 1]]
    exact = Posterior(sequences, 2, 0.5)
    alpha = exact.hyper(0.5, 1, 1, 2.0, alpha_prior=(2, 1))[0]
    found = collect(
        make(sequences, 2, 0.5, kappa=2.0, alpha_prior=(2, 1), gamma_prior=None), 200_000
    )
    assert (
        distance(found, exact) < TOLERANCE
        and abs(found[2][0] / alpha - 1) < 0.03
        and found[2][2] == pytest.approx(2)
    )


# ---------------------------------------------------------------- bookkeeping


def some_sequences(rng, lengths=(1, 60, 0, 150), V=5):
    return [
        [None if rng.random() < 0.1 else int(rng.integers(V)) for _ in range(n)] for n in lengths
    ]


def check_counts(s, state):
    capacity, z, (data, marks, _) = state.n_k.size, state.z, s.sequences
    n_ab = np.zeros_like(state.n_ab)
    np.add.at(n_ab, (np.where(marks & 1, capacity, np.roll(z, 1)), z), 1)
    assert (
        (n_ab == state.n_ab).all()
        and (n_ab[:-1].T == state.n_ba).all()
        and (n_ab.sum(1) == state.n_a).all()
    )
    assert (np.bincount(z, minlength=capacity) == state.n_k).all()
    seen, n_vk = marks & 4 == 0, np.zeros_like(state.stats.n_vk)
    np.add.at(n_vk, (data[seen], z[seen]), 1)
    assert (n_vk == state.stats.n_vk).all() and (n_vk.sum(0) == state.stats.n_k).all()
    np.testing.assert_allclose(state.stats.inv, 1 / (state.stats.n_k + 5 * state.stats.eta))
    K = int(state.K)
    assert not state.n_k[K:].any() and not state.beta[K:].any() and (state.beta[:K] >= 0).all()
    assert state.beta.sum() + state.beta_u == pytest.approx(1)
    assert (state.m_k[:K][state.n_k[:K] > 0] >= 1).all()
    if s.method != "weak_limit":
        assert (state.n_k[:K] > 0).all()


@pytest.mark.parametrize("method", ["direct", "beam", "weak_limit"])
@pytest.mark.parametrize(
    "gamma, kappa", [(1.0, 0.0), (40.0, 2.0)]
)  # 40: states come and go, the arrays must grow
def test_counts_after_every_sweep(method, gamma, kappa):
    rng = np.random.default_rng(1)
    s = make(
        some_sequences(rng),
        5,
        0.1,
        6.0,
        gamma,
        kappa,
        method,
        gamma_prior=None,
        eta_prior=(1, 1),
        init=4,
        max_states=30,
    )
    state = s.init(rng)
    before = state.n_k.size
    for _ in range(12):
        state, info = s.sweep(rng, state)
        check_counts(s, state)
        assert info["n_states"] == (state.n_k > 0).sum() and np.isfinite(list(info.values())).all()
    assert method == "weak_limit" or gamma == 1.0 or state.n_k.size > before


@pytest.mark.parametrize("method", ["direct", "beam", "weak_limit"])
def test_same_seed_and_resumed(method, tmp_path):
    s = make(
        some_sequences(np.random.default_rng(1)),
        5,
        0.1,
        method=method,
        eta_prior=(1, 1),
        kappa_prior=(1, 1),
    )
    run = lambda n, **options: run_chain(s, np.random.default_rng(7), n, burn_in=2, **options)
    whole, again = run(10), run(10)
    run(4, checkpoint=tmp_path / "c.npz")
    resumed = run(10, checkpoint=tmp_path / "c.npz")
    for other in (again, resumed):
        assert (whole.state.z == other.state.z).all() and all(
            (whole.trace[name] == other.trace[name]).all() for name in whole.trace
        )
        for p, q in zip(whole.samples, other.samples, strict=True):
            one, two = ({**kept._asdict(), **kept.stats} for kept in (p, q))
            assert one.pop("stats").keys() == two.pop("stats").keys()
            assert all(np.array_equal(one[name], two[name]) for name in one.keys() | two.keys())


@pytest.mark.parametrize("method", ["direct", "beam", "weak_limit"])
def test_chains_begin_with_a_number_of_states(method):
    s = make(some_sequences(np.random.default_rng(1)), 5, 0.1, method=method, max_states=12)
    for k in (1, 7):
        state = s.start(k).init(np.random.default_rng(0))
        assert np.count_nonzero(state.n_k) == k and s.begin == 2
    for k in (0, 2.5, *([13] if method == "weak_limit" else [])):
        with pytest.raises(ValueError, match="^k must be"):
            s.start(k)


def short_runs():
    out = []
    for method in ("direct", "beam", "weak_limit"):
        s = make(
            some_sequences(np.random.default_rng(1), (20, 5)),
            5,
            0.1,
            2.0,
            3.0,
            method=method,
            eta_prior=(1, 1),
            kappa_prior=(1, 1),
            max_states=6,
        )
        state = run_chain(s, np.random.default_rng(0), 3).state
        out += [*state.z.tolist(), *np.round([state.alpha, state.gamma, state.kappa], 8).tolist()]
    return out


def test_same_chain_compiled_or_not():
    script = "from test_hmm import *; print(*short_runs())"
    plain = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=os.path.dirname(os.path.abspath(__file__)),
        env={
            **os.environ,
            "NUMBA_DISABLE_JIT": "1",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
    )
    assert plain.returncode == 0, plain.stderr
    np.testing.assert_allclose([float(v) for v in plain.stdout.split()], short_runs(), rtol=1e-6)


def test_log_joint():
    s = make([[0, 1, 1, 0], [1, 0]], 2, 0.5, kappa=0.7)
    chain = run_chain(s, np.random.default_rng(0), 5)
    state, z, x = chain.state, chain.state.z, s.sequences.data
    total = 0.0
    for a in {*z.tolist(), None}:
        moves = [z[t] for t in range(6) if (None if t in (0, 4) else z[t - 1]) == a]
        conc = {
            k: float(state.alpha * state.beta[k] + state.kappa * (k == a))
            for k in range(int(state.K))
        }
        top = float(state.alpha + state.kappa * (a is not None))
        total += (
            lgamma(top)
            - lgamma(top + len(moves))
            + sum(lgamma(c + moves.count(k)) - lgamma(c) for k, c in conc.items())
        )
    words = sum(
        lgamma(1.0)
        - lgamma(1.0 + (z == k).sum())
        + sum(lgamma(0.5 + ((z == k) & (x == v)).sum()) - lgamma(0.5) for v in (0, 1))
        for k in set(z)
    )
    assert chain.trace["log_likelihood"][-1] == pytest.approx(words) and chain.trace["log_joint"][
        -1
    ] == pytest.approx(total + words)


def test_messages_in_blocks_are_the_same():
    "Where the messages don't fit they are made twice: the same draws."
    rng = np.random.default_rng(2)
    s = make(some_sequences(rng, (300, 7, 65)), 5, 0.1, method="weak_limit", max_states=8)
    state = s.init(rng)
    z = []
    for memory in (2**25, 1):
        work = new_blocked_workspace(symbols, s.prior, 8, 300, 0, memory)
        draw = np.random.default_rng(5)
        make_draw_parameters(symbols)(draw, state, work, s.prior)
        transpose_and_sort(work)
        z.append(state.z.copy())
        make_ffbs(symbols)(draw, state._replace(z=z[-1]), work, s.prior, s.sequences)
    assert len(work.ends) == 5 and (z[0] == z[1]).all() and (z[0] != state.z).any()


def test_tiny_concentrations():
    "Rows whose weights underflow are no harm."
    rng = np.random.default_rng(0)
    for method in ("direct", "beam", "weak_limit"):
        s = make(
            [rng.integers(0, 4, 80).tolist()],
            4,
            0.01,
            1e-8,
            1e-8,
            method=method,
            max_states=20,
            init=3,
            **FIXED,
        )
        trace = run_chain(s, rng, 10).trace
        assert np.isfinite(trace["log_joint"]).all() and trace["n_states"].min() >= 1


# ---------------------------------------------------------------- groups of sequences

# (sequences, group of each, symbols, eta, alpha, gamma, gamma_group, kappa)
GROUPED = [
    ([[0, 0, 1], [1, 1]], [0, 1], 2, 0.3, 1.0, 1.0, 0.5, 0.0),
    ([[0, 1], [0], [1, None, 0]], [0, 1, 1], 2, 0.4, 1.5, 0.8, 2.0, 0.8),
]


def grouped(
    sequences,
    group,
    V,
    eta,
    alpha=1.0,
    gamma=1.0,
    gamma_group=1.0,
    kappa=0.0,
    method="direct",
    gamma_group_prior=None,
    **options,
):
    s = make(sequences, V, eta, alpha, gamma, kappa, method, **options)
    return GroupedHMMSampler(
        symbols,
        s.prior,
        s.sequences,
        np.searchsorted(group, np.arange(max(group) + 2)),
        method,
        alpha,
        gamma,
        kappa,
        gamma_group=gamma_group,
        gamma_group_prior=gamma_group_prior,
        **{"init": 2, **options},
    )


def test_groups_are_exact():
    case = GROUPED[0]
    exact = GroupedPosterior(*case)
    assert distance(collect(grouped(*case, **FIXED), 10_000), exact) < 0.03
    assert (
        distance(collect(make(case[0], *case[2:6], **FIXED), 40_000), exact) > 0.1
    )  # the same sequences without groups


@pytest.mark.slow
@pytest.mark.parametrize("case", GROUPED)
@pytest.mark.parametrize("method", ["direct", "beam"])
def test_groups_are_exact_everywhere(case, method):
    assert (
        distance(
            collect(
                grouped(*case, method=method, **FIXED), 40_000 if method == "direct" else 80_000
            ),
            GroupedPosterior(*case),
        )
        < TOLERANCE
    )


@pytest.mark.slow
def test_weak_limit_of_groups_comes_closer(case=GROUPED[0]):
    off = [
        distance(
            collect(grouped(*case, method="weak_limit", max_states=L, **FIXED), 20_000),
            GroupedPosterior(*case),
        )
        for L in (3, 10, 40)
    ]
    assert off[0] > off[1] + 0.01 > off[2] + 0.02 and off[2] < 0.04


@pytest.mark.slow
def test_a_birth_favours_its_own_group(monkeypatch, case=GROUPED[0]):
    "The control: a new state must be given to the group that chose it; otherwise the chain is off."
    right = hmm.instantiate_state

    @njit
    def wrong(rng, state, parent, k, chosen):
        return right(rng, state, parent, k, False)

    monkeypatch.setattr(hmm, "instantiate_state", wrong)
    kernel = hmm.make_direct.__wrapped__(symbols)
    monkeypatch.setattr(hmm_groups, "make_direct", lambda emission: kernel)
    assert (
        distance(collect(grouped(*case, **FIXED), 20_000), GroupedPosterior(*case)) > 2 * TOLERANCE
    )


def check_group_counts(s, state):
    capacity, z, data, K = state.n_k.size, state.z, s.sequences.data, int(state.K)
    assert (np.bincount(z, minlength=capacity) == state.n_k).all() and not state.beta[:, K:].any()
    np.testing.assert_allclose(state.beta.sum(1) + state.beta_u, 1)
    n_vk, seen = np.zeros_like(state.stats.n_vk), s.sequences.marks & 4 == 0
    np.add.at(n_vk, (data[seen], z[seen]), 1)
    assert (n_vk == state.stats.n_vk).all()
    for g, part in enumerate(s.parts):
        own, n_ab = z[s.bounds[g] : s.bounds[g + 1]], np.zeros_like(state.n_ab[g])
        np.add.at(n_ab, (np.where(part.marks & 1, capacity, np.roll(own, 1)), own), 1)
        assert (
            (n_ab == state.n_ab[g]).all()
            and (n_ab[:-1].T == state.n_ba[g]).all()
            and (n_ab.sum(1) == state.n_a[g]).all()
        )
        assert (state.m_k[g + 1] >= (n_ab[-1] > 0)).all()
    assert (state.m_k[0, :K][state.n_k[:K] > 0] >= 1).all()
    if s.method != "weak_limit":
        assert (state.n_k[:K] > 0).all()


@pytest.mark.parametrize("method", ["direct", "beam", "weak_limit"])
def test_counts_of_groups_after_every_sweep(method, tmp_path):
    rng = np.random.default_rng(1)
    s = grouped(
        some_sequences(rng, (1, 40, 0, 60, 30)),
        [0, 0, 1, 2, 2],
        5,
        0.1,
        6.0,
        60.0,
        20.0,
        0.5,
        method,
        gamma_prior=None,
        eta_prior=(1, 1),
        init=4,
        max_states=30,
        gamma_group_prior=(1, 1),
    )
    state = s.init(rng)
    before = state.n_k.size
    for _ in range(8):
        state, info = s.sweep(rng, state)
        check_group_counts(s, state)
        assert np.isfinite(list(info.values())).all() and info["gamma_group"] > 0
    assert method == "weak_limit" or state.n_k.size > before
    run = lambda n, **options: run_chain(s, np.random.default_rng(7), n, **options)
    whole, _ = run(6), run(3, checkpoint=tmp_path / "c.npz")
    resumed = run(6, checkpoint=tmp_path / "c.npz")
    assert (whole.state.z == resumed.state.z).all() and (
        whole.trace["log_joint"] == resumed.trace["log_joint"]
    ).all()


@pytest.mark.parametrize("method", ["direct", pytest.param("beam", marks=pytest.mark.slow)])
def test_joint_distribution_of_groups(method):
    "States, weights and all four concentrations are free; a wrong prior of one must be noticed."
    V, lengths, group = 3, [4, 3, 5], [0, 1, 1]
    priors = dict(
        alpha_prior=(3, 2), gamma_prior=(3, 2), kappa_prior=(2, 2), gamma_group_prior=(3, 2)
    )
    s = grouped([[0] * n for n in lengths], group, V, 0.5, kappa=1.0, method=method, **priors)
    off = grouped(
        [[0] * n for n in lengths],
        group,
        V,
        0.5,
        kappa=1.0,
        method=method,
        **{**priors, "gamma_group_prior": (3, 4)},
    )

    def prior_draw(rng, L=60):
        alpha, gamma, kappa, conc = (rng.gamma(a) / b for a, b in priors.values())
        sticks = rng.beta(1, gamma, L)
        top = sticks * np.cumprod(np.append(1, 1 - sticks[:-1]))
        weights = [np.append(top, 1 - top.sum())]
        z = []
        for g in (0, 1):
            shapes = conc * weights[0]
            weights.append(np.exp(hmm_log_dirichlet(rng, shapes)))
            rows = {}
            for n in np.array(lengths)[np.array(group) == g]:
                a = None
                for _ in range(n):
                    if a not in rows:
                        rows[a] = np.exp(
                            hmm_log_dirichlet(
                                rng,
                                alpha * weights[-1]
                                + (0 if a is None else kappa * (np.arange(L + 1) == a)),
                            )
                        )
                    a = rng.choice(L + 1, p=rows[a])
                    z.append(a)
        used = np.unique(z)
        state = s.state(np.array(z), alpha, gamma, kappa)
        state.gamma_group[()], K = conc, len(used)
        state.beta[:, :K] = np.array(weights)[:, used]
        state.beta_u[:] = 1 - state.beta.sum(1)
        return state

    def data_draw(rng, state):
        x = s.sequences.data
        for k in range(int(state.K)):
            x[state.z == k] = (
                rng.random((np.sum(state.z == k), 1)) > rng.dirichlet(np.full(V, 0.5)).cumsum()[:-1]
            ).sum(1)
        s.recount(state)
        off.sequences.data[:] = x
        return x

    def statistics(state, x):
        return {
            "K": float(state.K),
            "alpha": float(state.alpha),
            "gamma": float(state.gamma),
            "kappa": float(state.kappa),
            "gamma_group": float(state.gamma_group),
            "log gamma_group": np.log(state.gamma_group),
            "same": float(state.z[0] == state.z[5]),
            "rest": state.beta_u[1],
            "top": state.beta_u[0],
            "fit": float(x[0] == x[5]),
        }

    z = [
        joint_distribution_test(
            np.random.default_rng(3),
            prior_draw,
            data_draw,
            lambda rng, state, x, s=s: s.update(rng, state),
            statistics,
            n_draws=500,
            n_rounds=3,
        )
        for s in (s, off)
    ]
    assert max(map(abs, z[0].values())) < 4 and abs(z[1]["log gamma_group"]) > 6, z


def hmm_log_dirichlet(rng, shapes):
    "Logs of a Dirichlet vector, of shapes however small."
    logs = np.log(rng.standard_gamma(shapes + 1)) + np.log(
        1 - rng.random(len(shapes))
    ) / np.maximum(shapes, 1e-290)
    logs -= logs.max()
    return logs - np.log(np.exp(logs).sum())


def test_estimator_with_groups(tmp_path):
    "Sequences in any order; what is shared and what is each group's."
    lengths, groups = [30, 20, 25, 0, 40], ["up", "down", "up", "up", "down"]
    X = np.concatenate(
        [np.cumsum(np.full(n, 1 if g == "up" else 2)) % 3 for n, g in zip(lengths, groups)]
    )
    seen = []
    model = HDPHMM(n_chains=1, n_iter=60, thin=10, init=X, random_state=0, prior=0.1).fit(
        X, lengths, groups=groups, callback=lambda sweep, state: seen.append(state.z)
    )
    K = model.n_states_
    assert (
        K == 3
        and model.groups_.tolist() == ["down", "up"]
        and model.transmat_.shape == (2, 3, 3)
        and model.startprob_.shape == (2, 3)
    )
    np.testing.assert_allclose(model.transmat_.sum(2), 1)
    np.testing.assert_allclose([model.weights_.sum(), *model.group_weights_.sum(1)], 1)
    assert (
        model.weights_.shape == (4,)
        and model.group_weights_.shape == (2, 4)
        and model.gamma_group_ in model.trace_["gamma_group"]
    )
    assert all(
        len({(x, z) for x, z in zip(X, states)}) == 3 for states in (model.labels_, seen[-1])
    )  # symbols name the states, in the order of X
    name = {z: x for x, z in zip(X, model.labels_)}
    for g, step in (("up", 1), ("down", 2)):
        p = model.transmat_[model.groups_.tolist().index(g)]
        assert all(
            name[row.argmax()] == (name[a] + step) % 3 and row.max() > 0.8
            for a, row in enumerate(p)
        )
        x, z = model.sample(50, 0, g)
        assert np.mean((np.diff(x) - step) % 3 == 0) > 0.6
    new, as_up = [0, 1, 2, 0, 0, 2, 1], ["up", "down"]
    scores = model.score_samples(new, [4, 3], as_up)
    assert scores.sum() > model.score(new, [4, 3], as_up[::-1]) + 5
    plug_in = model.score_samples(new, [4, 3], as_up, method="plug-in")
    alone = model.score_samples([0, 2, 1], groups=["down"], method="plug-in")
    assert plug_in[1] == pytest.approx(alone[0]) and abs(scores - plug_in).max() < 1.5
    for method in ("viterbi", "posterior"):
        assert [name[z] for z in model.predict(new, [4, 3], method, as_up)] == new
    model.save(tmp_path / "m.npz")
    assert HDPHMM.load(tmp_path / "m.npz").score(new, [4, 3], as_up) == scores.sum()
    corpus = Corpus.from_docs([[0, 1, 2], [2, 1, 0]], n_words=3, groups={"way": as_up})
    by_column = HDPHMM(n_chains=1, n_iter=4, random_state=0).fit(corpus, groups="way")
    assert by_column.score(corpus, groups="way") == HDPHMM(
        n_chains=1, n_iter=4, random_state=0
    ).fit([0, 1, 2, 2, 1, 0], [3, 3], groups=as_up).score(corpus, groups=as_up)
    assert model.fit(X, lengths).groups_ is None and model.transmat_.ndim == 2


def test_the_verdict_on_chains_over_a_sequence():
    "Chains from both ends that do not meet are found out; two from one place are not."
    rng, states = np.random.default_rng(0), np.repeat(np.arange(60) % 4, 10)
    x = 5 * states + rng.integers(5, size=len(states))
    with pytest.warns(ConvergenceWarning, match="behind in predicting stretches left out"):
        apart = HDPHMM(sampler="direct", kappa=0, moves=0, n_iter=60, random_state=0).fit(x)
    assert apart.converged_ is False and len(apart.traces_["share_1"]) == 2
    one, many = apart.convergence_["states_above_1%"].means
    assert one < 3.5 < many
    together = HDPHMM(moves=0, init=4, n_iter=200, random_state=0).fit(x)
    assert together.converged_ is not None
    alone = HDPHMM(moves=0, n_chains=1, n_iter=20, random_state=0).fit(x)
    assert alone.converged_ is None


def test_bad_groups():
    X, lengths = [0, 1, 0, 1], [2, 2]
    for groups in (["a"], [["a", "b"]], [0.5, 1.5], ["a", None], 3, [1, np.nan]):
        with pytest.raises(
            ValueError,
            match="^groups must be one whole number or string for each of the 2 sequences",
        ):
            HDPHMM(n_chains=1, n_iter=2).fit(X, lengths, groups=groups)
    with pytest.raises(
        ValueError, match="^groups must be one label per sequence or a group column of the corpus"
    ):
        HDPHMM(n_chains=1, n_iter=2).fit(X, lengths, groups="period")
    for params, name in (
        (dict(gamma=[1.0, 0]), "gamma_group must be"),
        (dict(gamma=(1, 1)), "gamma must be"),
        (dict(gamma=[1.0, 1.0, 1.0]), "gamma must be one value, or a list of two"),
    ):
        with pytest.raises(ValueError, match=f"^{name}"):
            HDPHMM(n_chains=1, n_iter=2, **params).fit(X, lengths, groups=[0, 1])
    model = HDPHMM(n_chains=1, n_iter=2).fit(X, lengths, groups=[7, 8])
    for groups, message in (
        (None, "given for every sequence"),
        (["7", "8"], "of the kind of those of the fit .7, 8., got '7'"),
        ([7], "each of the 2"),
    ):
        for call in (model.score, model.score_samples, model.predict, model.predict_proba):
            with pytest.raises(ValueError, match=f"^groups must .*{message}"):
                call(X, lengths, groups=groups)
    with pytest.raises(ValueError, match="^group must be one of 7, 8, got None"):
        model.sample(3)
    with pytest.raises(ValueError, match="^groups must be None"):
        HDPHMM(n_chains=1, n_iter=2).fit(X).score(X, groups=[0])


# ---------------------------------------------------------------- structure


def test_up_and_down():
    x = np.array([ord(c) - ord("A") for c in "ABCDEFEDCB" * 30])
    found = []
    for seed in range(5):
        trace = run_chain(
            make([x.tolist()], 6, 0.5, init=20), np.random.default_rng(seed), 2000
        ).trace["n_states"]
        found.append(np.bincount(trace[1000:].astype(int)).argmax())
    assert found.count(10) >= 4


def sticky_chain(rng, T=5000, K=8, V=24, stay=0.97):
    z, phi = np.zeros(T, int), rng.dirichlet(np.full(V, 0.15), K)
    for t in range(1, T):
        z[t] = z[t - 1] if rng.random() < stay else rng.integers(K)
    return z, (rng.random((T, 1)) > phi.cumsum(1)[z]).sum(1).clip(max=V - 1)


def accuracy(z, truth):
    "Share of the steps that agree when found states are matched one to one to true ones."
    from scipy.optimize import linear_sum_assignment

    n = np.zeros((z.max() + 1, truth.max() + 1))
    np.add.at(n, (z, truth), 1)
    return n[linear_sum_assignment(-n)].sum() / len(z)


@pytest.mark.slow
@pytest.mark.parametrize("method, n_iter", [("weak_limit", 400), ("direct", 3000)])
def test_sticky_states_are_decoded(method, n_iter):
    found = []
    for seed in range(5):
        truth, x = sticky_chain(np.random.default_rng(seed))
        s = HMMSampler(
            symbols,
            *check_sequences(x, None, "categorical", None, 24, 0.2),
            method,
            kappa_prior=(10, 0.2),
            init=30,
            max_states=30,
        )
        sample = run_chain(s, np.random.default_rng(seed), n_iter, burn_in=n_iter - 1).samples[-1]
        found.append(
            accuracy(decode(symbols, s.prior, sample, s.sequences, "posterior").argmax(1), truth)
        )
    assert np.sum(np.array(found) >= 0.9) >= 4, found


# ---------------------------------------------------------------- prediction


def small_model():
    s = make([[0, 1, 2, 0, 1, 2, 2], [0, 1]], 4, 0.4, 1.0, 1.5, 0.7, init=3, gamma_prior=None)
    return s, run_chain(s, np.random.default_rng(2), 30, burn_in=20, thin=3).samples


def all_paths(x, p0, p, phi):
    fit = lambda z: np.prod([phi[k, v] for k, v in zip(z, x) if v >= 0])
    return {
        z: p0[z[0]] * np.prod([p[a, b] for a, b in zip(z, z[1:])]) * fit(z)
        for z in product(range(len(p0)), repeat=len(x))
    }


def test_plug_in_by_all_paths():
    s, samples = small_model()
    new = [[1, 3, 0, -1], [3], [], [0, 1]]  # 3 never occurs in training
    _, sequences = check_sequences(sum(new, []), [4, 1, 0, 2], "categorical", s.prior)
    exact = []
    for x in new:
        p = []
        for sample in samples:
            p0, rows = predictive_rows(sample)
            assert np.allclose(rows.sum(1), 1) and np.isclose(p0.sum(), 1)
            phi = np.vstack([mean_emissions(symbols, s.prior, sample)["phi"], np.full(4, 0.25)])
            p.append(sum(all_paths(x, p0, rows, phi).values()) if x else 1.0)
        exact.append(np.log(np.mean(p)))
    np.testing.assert_allclose(
        log_plug_in(symbols, s.prior, samples, sequences), exact, rtol=1e-10, atol=1e-12
    )


def test_a_table_of_likelihoods_by_all_paths():
    "Of sequences that are possible, that are not from some step on, and of none at all."
    rng = np.random.default_rng(3)
    p0, p, phi = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4), 4), rng.random((4, 4))
    phi[:, 3] = 0.0  # a symbol that no state has
    sequences = [[0, 1, 2, 0], [0, 3, 1], [], [3], [2, 1], [1]]
    out, x = np.empty(6), np.concatenate(sequences).astype(int)
    forward_table(p0, p, phi.T[x], np.cumsum([0, *map(len, sequences)]), out)
    exact = [sum(all_paths(one, p0, p, phi).values()) if one else 1.0 for one in sequences]
    impossible = np.array(exact) == 0
    assert impossible.tolist() == [False, True, False, True, False, False]
    assert (out[impossible] == -np.inf).all()
    np.testing.assert_allclose(np.exp(out), exact, rtol=1e-12)


def test_predictive_rows():
    s, (sample, *_) = small_model()
    p0, p = predictive_rows(sample)
    K, a, ka = len(sample.n_k), float(sample.alpha), float(sample.kappa)
    for j in range(K):
        n = np.append(sample.n_ab[j], 0)
        np.testing.assert_allclose(
            p[j], (a * sample.beta + ka * (np.arange(K + 1) == j) + n) / (a + ka + n.sum())
        )
    np.testing.assert_allclose(
        p0, (a * sample.beta + np.append(sample.n_ab[K], 0)) / (a + sample.n_ab[K].sum())
    )
    assert p[K, K] > sample.beta[-1]


def test_plug_in_of_all_symbols_sums_to_one():
    s, samples = small_model()
    every = np.array(list(product(range(4), repeat=3)))
    _, sequences = check_sequences(every.ravel(), [3] * 64, "categorical", s.prior)
    assert np.exp(log_plug_in(symbols, s.prior, samples, sequences)).sum() == pytest.approx(1)


def test_decode_by_all_paths():
    s, (sample, *_) = small_model()
    x = [1, 3, -1, 0, 2]
    _, sequences = check_sequences([*x, 1], [5, 1], "categorical", s.prior)
    p0, p = mean_transitions(sample)
    paths = all_paths(x, p0, p, mean_emissions(symbols, s.prior, sample)["phi"])
    proba = np.array(
        [[sum(w for z, w in paths.items() if z[t] == k) for k in range(len(p0))] for t in range(5)]
    ) / sum(paths.values())
    np.testing.assert_allclose(
        decode(symbols, s.prior, sample, sequences, "posterior")[:5], proba, rtol=1e-9
    )
    assert tuple(decode(symbols, s.prior, sample, sequences, "viterbi")[:5]) == max(
        paths, key=paths.get
    )


def test_sample_sequence():
    rng, p0, p = np.random.default_rng(0), np.array([0, 1.0]), np.array([[0.9, 0.1], [0.4, 0.6]])
    x, z = sample_sequence(rng, p0, p, symbols, {"phi": np.array([[1.0, 0], [0, 1]])}, 20_000)
    assert (x == z).all() and z[0] == 1
    moves = np.zeros((2, 2))
    np.add.at(moves, (z[:-1], z[1:]), 1)
    np.testing.assert_allclose(moves / moves.sum(1, keepdims=True), p, atol=0.02)
    mean = np.array([[0.0, 5], [90, 9]])
    for emission, parameters, columns in (
        ("poisson", {"rate": np.array([[5.0], [90]])}, 1),
        ("normal_inverse_gamma", {"mean": mean, "variance": np.ones((2, 2))}, 2),
        ("normal", {"mean": mean, "covariance": np.array([np.eye(2)] * 2)}, 2),
    ):
        x, z = sample_sequence(rng, p0, p, hmm_emission(emission), parameters, 200)
        assert x.shape == (200, columns) and ((x[:, 0] > 45) == z).all()


# ---------------------------------------------------------------- the classical models


def test_forward_backward_by_all_paths():
    rng, K, N = np.random.default_rng(4), 4, 5
    p0, p, f = rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K), rng.random((N, K))
    paths = {
        z: p0[z[0]] * np.prod([p[i, j] for i, j in zip(z, z[1:])]) * np.prod(f[range(N), z])
        for z in product(range(K), repeat=N)
    }
    total, a, b, g = (
        sum(paths.values()),
        np.empty((2 * N, K)),
        np.empty((2 * N, K)),
        np.vstack([f, f]),
    )
    log_p = forward_backward(
        p0, p, np.ascontiguousarray(p.T), g, np.array([0, N, N, 2 * N]), a, b
    )  # the same sequence twice, an empty one between
    assert log_p == pytest.approx(2 * np.log(total))
    exact = [
        [sum(w for z, w in paths.items() if z[t] == k) / total for k in range(K)] for t in range(N)
    ]
    np.testing.assert_allclose((a * b)[:N], exact)
    np.testing.assert_allclose((a * b)[N:], exact)
    moves = [
        [
            sum(w * sum((z[t], z[t + 1]) == (i, j) for t in range(N - 1)) for z, w in paths.items())
            / total
            for j in range(K)
        ]
        for i in range(K)
    ]
    np.testing.assert_allclose(p * (a[: N - 1].T @ g[1:N]), moves)
    np.testing.assert_allclose(p0 * g[0], exact[0])


@pytest.mark.parametrize("method", ["ml", "map", "vb"])
def test_objectives_rise(method):
    rng = np.random.default_rng(0)
    x, lengths = rng.integers(-1, 4, 120), [50, 0, 1, 69]
    model = FiniteHMM(
        3, method=method, alpha=0.5, eta=0.3, n_symbols=4, n_restarts=2, n_iter=80, random_state=0
    ).fit(x, lengths)
    assert (np.diff(model.objective_) > -1e-9).all() and model.objective_[-1] > model.objective_[1]
    for rows in (model.startprob_, model.transmat_, model.emissionprob_):
        assert np.allclose(rows.sum(-1), 1)
    every = np.array(list(product(range(4), repeat=2)))
    assert np.exp(model.score_samples(every.ravel(), [2] * 16)).sum() == pytest.approx(1)
    again = FiniteHMM(
        3, method=method, alpha=0.5, eta=0.3, n_symbols=4, n_restarts=2, n_iter=80, random_state=0
    ).fit(x, lengths)
    assert again.score(x, lengths) == model.score(x, lengths)


def test_one_state_is_a_unigram():
    x = np.array([0, 0, 1, 2, 0, 1])
    assert FiniteHMM(1).fit(x).score(x) == pytest.approx(
        np.log([0.5, 0.5, 1 / 3, 1 / 6, 0.5, 1 / 3]).sum()
    )
    assert FiniteHMM(1, method="map", eta=0.5).fit(x).emissionprob_[0] == pytest.approx(
        [3.5 / 7.5, 2.5 / 7.5, 1.5 / 7.5]
    )
    never = FiniteHMM(1, n_symbols=4).fit(x)
    assert never.score([3]) == -np.inf and never.set_params(floor=0.1).score([3]) == pytest.approx(
        np.log(0.025)
    )


def test_bound_of_one_state_is_the_evidence():
    "With one state variational Bayes is exact."
    x, e = np.array([0, 0, 1, 2, 0, 1]), 0.7
    model = FiniteHMM(1, method="vb", alpha=1.0, eta=e, n_symbols=3).fit(x)
    exact = lgamma(3 * e) - lgamma(6 + 3 * e) + sum(lgamma(c + e) - lgamma(e) for c in (3, 2, 1))
    assert model.objective_[-1] == pytest.approx(exact)


# ---------------------------------------------------------------- data


def test_sequences_in_other_clothes():
    prior, sequences = check_sequences([0, 1, 2, 1], [3, 1], "categorical", None)
    assert (
        prior.n_symbols == 3
        and sequences.marks.tolist() == [1, 0, 2, 3]
        and sequences.offsets.tolist() == [0, 3, 4]
    )
    for X in ([[0], [1], [2], [1]], np.array([0.0, 1, 2, 1]), np.array([0, 1, 2, 1], np.uint8)):
        assert check_sequences(X, np.array([3, 1]), "categorical", None)[1].data.tolist() == [
            0,
            1,
            2,
            1,
        ]
    prior, sequences = check_sequences(
        Corpus.from_docs([[0, 1], [], [2]], n_words=5), None, "categorical", None
    )
    assert prior.n_symbols == 5 and np.diff(sequences.offsets).tolist() == [2, 0, 1]
    assert (
        check_sequences([0, np.nan, -1, 1], None, "categorical", None)[1].marks & 4
    ).tolist() == [0, 4, 4, 0]
    _, sequences = check_sequences([[0.5, 1], [np.nan, 2], [1, 1]], None, "normal", None)
    assert (sequences.marks & 4).tolist() == [0, 4, 0] and np.isfinite(sequences.data).all()


def test_symbols_are_matched_by_their_words(tmp_path):
    "Numbers of words in another corpus are not those of the fit."
    fit = Corpus.from_docs([list("aabbccddaabbccdd")] * 5)
    new, wider = Corpus.from_docs([list("ccddccdd")]), Corpus.from_docs([list("badc"), list("ef")])
    model = HDPHMM(n_chains=1, n_iter=10, random_state=0).fit(fit)
    assert model.vocabulary_ == fit.vocab == list("abcd")
    model.save(tmp_path / "model.npz")
    finite = FiniteHMM(2, n_iter=3, random_state=0).fit(fit)
    for known in (model, HDPHMM.load(tmp_path / "model.npz"), finite):
        assert known.vocabulary_ == list("abcd") and known.score(fit) == known.score(
            fit.x, fit.doc_lengths
        )
        calls = [known.score, known.score_samples]
        calls += [] if known is finite else [known.predict, known.predict_proba]
        for other in (new, wider, Corpus.from_docs([list("badc")], vocab=list("badc"))):
            for call in calls:
                with pytest.raises(ValueError, match=r"X\.over\(vocab\)"):
                    call(other)
        assert known.score(new.over(known.vocabulary_)) == known.score([2, 2, 3, 3] * 2)
    assert HDPHMM(n_chains=1, n_iter=2).fit([0, 1]).vocabulary_ is None


def test_a_list_of_arrays_is_one_of_sequences():
    "Also where all are equally long; a list of equally long lists stays a table."
    y = np.random.default_rng(0).normal(size=(3, 20, 2))
    quick = lambda: HDPHMM(emission="normal", n_chains=1, n_iter=4, random_state=0)
    for parts in (y[:, :, 0], y, [y[0], y[1][:7]]):
        model = quick().fit([*parts])
        X, lengths = np.concatenate([*parts]), [len(part) for part in parts]
        joined = quick().fit(X, lengths)
        assert (model.labels_ == joined.labels_).all()
        for ask in ("score_samples", "predict", "predict_proba"):
            got, whole = getattr(model, ask)((*parts,)), getattr(joined, ask)(X, lengths)
            assert (
                np.concatenate(got) if isinstance(got, list) else got
            ).tolist() == whole.tolist()
            assert isinstance(got, list) == (ask != "score_samples")
        with pytest.raises(ValueError, match="lengths must be None where X is a list of sequences"):
            model.score([*parts], lengths)
        with pytest.raises(ValueError, match="X has 3 features|columns of the fit"):
            model.predict([np.zeros((4, 3))])
    grouped = quick().fit([*y], groups=["a", "b", "a"])
    assert [len(z) for z in grouped.predict([*y], groups=["a", "b", "a"])] == [20, 20, 20]
    assert (quick().fit(y[0].tolist()).labels_ == quick().fit(y[0]).labels_).all()
    uneven = check_sequences([[0, 1, 2], [2]], None, "categorical", None)[1]
    assert uneven.offsets.tolist() == [0, 3, 4] and uneven.data.tolist() == [0, 1, 2, 2]


BAD = [
    (dict(X=[np.zeros((3, 2)), np.zeros(3)], emission="normal"), "sequences with one shape"),
    (dict(X=[np.zeros((3, 2, 2))], emission="normal"), "sequences with one shape"),
    (dict(X=[[0, 1, 2], [[0], 1]]), "X must be a list of sequences"),
    (dict(X=[[0, 1, 2], [], [1, 0]]), "one step or more, got none in sequence 1"),
    (dict(X=[[0, 1], 1]), "rows beside single values; sequences are a list of arrays"),
    (dict(X=Corpus.from_docs([["a"]]), lengths=[1]), "lengths must be None where X is a Corpus"),
    (dict(X=Corpus.from_docs([["a"]]), emission="normal"), "emission is 'normal', got a Corpus"),
    (dict(X=[0, 1, 2], lengths=[2]), "lengths must .* sum to the 3 rows"),
    (dict(X=[0, 1], lengths=[3, -1]), "lengths must"),
    (dict(X=[0, 1], lengths=[1.5, 0.5]), "lengths must"),
    (dict(X=[0, 1], lengths=2), "lengths must"),
    (dict(X=[0, 1], lengths=[]), "lengths must"),
    (dict(X=[0, 1], lengths="two"), "lengths must"),
    (dict(X=[0, 1.5]), "X must hold symbols .* got 1.5"),
    (dict(X=[0, -2]), "X must hold symbols .* got -2"),
    (dict(X=[0, np.inf]), "X must hold symbols"),
    (dict(X=[0, 3], n_symbols=3), "X must hold symbols below n_symbols = 3, got 3"),
    (dict(X=[-1, np.nan]), "n_symbols must be given"),
    (dict(X=[0, 1], n_symbols=0), "n_symbols"),
    (dict(X=[]), "X must have one row per step"),
    (dict(X=[[0, 1]]), "X must have one symbol per step"),
    (dict(X=["a", "b"]), "X must be an array of numbers"),
    (dict(X=None), "X must"),
    (
        dict(X=[[np.nan], [np.nan]], emission="normal"),
        "X must have at least one step that is not missing",
    ),
    (dict(X=[1.0, np.inf], emission="normal"), "X must be finite"),
    (dict(X=[1.0, 1e155], emission="normal"), "at most 1e150 in size, got 1e.155"),
    (dict(X=[1, 2.5], emission="poisson"), "X must be whole numbers"),
    (dict(X=[1, -1], emission="poisson"), "X must not be negative"),
]


@pytest.mark.parametrize("arguments, message", BAD)
def test_bad_sequences(arguments, message):
    with pytest.raises(ValueError, match=message):
        check_sequences(**{"lengths": None, "emission": "categorical", "prior": None, **arguments})


@pytest.mark.parametrize(
    "options, name",
    [
        (dict(alpha=0), "alpha"),
        (dict(gamma=np.nan), "gamma"),
        (dict(kappa=-1), "kappa"),
        (dict(kappa=np.inf), "kappa"),
        (dict(method="gibbs"), "sampler"),
        (dict(alpha_prior=(0, 1)), "alpha_prior"),
        (dict(kappa_prior=3), "kappa_prior"),
        (dict(eta_prior=(1, -1)), "eta_prior"),
        (dict(init=0), "init"),
        (dict(init=np.zeros(3, int)), "init"),
        (dict(init=np.array([0, 1, 2, -1, 0])), "init"),
        (dict(init=np.zeros(5)), "init"),
        (dict(max_states=0), "max_states"),
        (dict(method="weak_limit", max_states=2, init=np.array([0, 1, 2, 0, 0])), "init"),
    ],
)
def test_bad_options(options, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        make([[0, 1, 0, 1, 1]], 2, 0.5, **options).init(np.random.default_rng(0))


@pytest.mark.parametrize(
    "options, name",
    [
        (dict(method="em"), "method"),
        (dict(n_states=0), "n_states"),
        (dict(alpha=0), "alpha"),
        (dict(eta=-1), "eta"),
        (dict(n_restarts=0), "n_restarts"),
    ],
)
def test_bad_classical(options, name):
    with pytest.raises(ValueError, match=name):
        FiniteHMM(**options).fit([0, 1, 1])


@pytest.mark.parametrize("name", ["bernoulli", None, 3])
def test_bad_emission(name):
    with pytest.raises(ValueError, match="^emission must be one of"):
        hmm_emission(name)


def test_all_missing_is_the_prior():
    s = make([[None] * 4], 2, 0.5, **FIXED)
    assert distance(collect(s, 100_000), Posterior([[None] * 4], 2, 0.5)) < TOLERANCE


# ---------------------------------------------------------------- the estimator


def fitted(emission="categorical", X=None, lengths=(12, 1, 7), **params):
    X = np.random.default_rng(0).integers(0, 3, 20) if X is None else X
    return (
        HDPHMM(
            **{
                "emission": emission,
                "n_iter": 12,
                "n_chains": 1,
                "burn_in": 4,
                "thin": 2,
                "init": 3,
                "random_state": 0,
                **params,
            }
        ).fit(X, lengths),
        X,
    )


def test_estimator(tmp_path):
    seen = []
    X = np.array([0, 1, -1, 2, 1, 0, 0, 1, 2, 2, 1, 0, -1, 2, 1, 0, 1, 1, 0, 2])
    model = HDPHMM(
        n_iter=12,
        burn_in=4,
        thin=2,
        init=3,
        random_state=0,
        prior=Gamma(1, 1),
        kappa=Gamma(1, 1),
        n_chains=2,
    ).fit(
        X,
        [12, 1, 7],
        callback=lambda sweep, state: seen.append(
            (sweep, state.z.shape, float(state.alpha), float(state.gamma))
        ),
    )
    K = model.n_states_
    assert len(seen) == 24 and seen[0][1] == (20,)
    assert (
        model.transmat_.shape == (K, K)
        and np.allclose(model.transmat_.sum(1), 1)
        and np.isclose(model.startprob_.sum(), 1)
    )
    assert model.emissions_["phi"].shape == (K, 3) and np.allclose(
        model.emissions_["phi"].sum(1), 1
    )
    assert (
        (np.diff(np.bincount(model.labels_, minlength=K)) <= 0).all()
        and len(model.samples_) == 2 * 5
        and model.samples_[model.best_].n_k.size == K
    )
    assert (
        set(model.trace_)
        == {"n_states", "log_joint", "log_likelihood", "alpha", "gamma", "kappa", "eta"}
        | {"moves_proposed", "moves_accepted", "log_mixture", "states_above_1%"}
        | {"share_1", "share_2", "share_3"}
        and len(model.trace_["alpha"]) == 12
    )
    assert model.traces_["n_states"].shape == (2, 12)
    scores = model.score_samples(X, [12, 1, 7])
    assert scores.shape == (3,) and model.score(X, [12, 1, 7]) == pytest.approx(scores.sum())
    proba = model.predict_proba(X, [12, 1, 7])
    assert (
        proba.shape == (20, K)
        and np.allclose(proba.sum(1), 1)
        and (model.predict(X, [12, 1, 7], "posterior") == proba.argmax(1)).all()
    )
    assert set(model.predict(X, [12, 1, 7])) <= set(range(K))
    model.save(tmp_path / "m.npz")
    other = HDPHMM.load(tmp_path / "m.npz")
    assert (other.score_samples(X) == model.score_samples(X)).all() and (
        other.predict(X) == model.predict(X)
    ).all()
    assert [a.tolist() for a in other.sample(9, 1)] == [a.tolist() for a in model.sample(9, 1)]
    assert model.fit(X, [12, 1, 7]).score(X) == other.score(X)  # the same seed again, n_jobs or not
    assert model.set_params(n_jobs=2).fit(X, [12, 1, 7]).score(X) == other.score(X)


def test_estimator_numbers_its_states_alike():
    "Labels, transitions, emissions and decoding speak of the same states."
    truth, x = sticky_chain(np.random.default_rng(1), T=600, K=3, V=9, stay=0.9)
    model, _ = fitted(X=x, lengths=None, n_iter=100, burn_in=90, init=6, prior=0.2)
    z = np.argsort(model.order_)[model.samples_[model.best_].z]  # those of the sample
    phi = np.array([np.bincount(x[z == k], minlength=9) for k in range(model.n_states_)])
    np.testing.assert_allclose(
        model.emissions_["phi"], (phi + 0.2) / (phi.sum(1, keepdims=True) + 1.8)
    )
    moves = np.zeros((model.n_states_, model.n_states_))
    np.add.at(moves, (z[:-1], z[1:]), 1)
    big = moves.sum(1) > 60
    np.testing.assert_allclose(
        model.transmat_[big], (moves / moves.sum(1, keepdims=True))[big], atol=0.1
    )
    assert (model.predict(x, method="posterior") == model.labels_).all()
    assert (z == model.labels_).mean() > 0.75


@pytest.mark.parametrize("sampler", ["beam", "weak_limit"])
def test_estimator_with_other_samplers(sampler):
    model, X = fitted(sampler=sampler, max_states=6)
    assert np.isfinite(model.score(X)) and model.trace_["n_states"].max() <= (
        6 if sampler == "weak_limit" else 20
    )


def test_a_weak_limit_that_is_full_has_not_converged():
    "All chains agree on as many states as there may be, whatever the data say."
    rng = np.random.default_rng(0)
    X = 8.0 * np.repeat(rng.integers(0, 5, 60), 10) + rng.normal(size=600)
    full, free = (
        HDPHMM(
            emission="normal", sampler="weak_limit", max_states=most, n_iter=60, random_state=0
        ).fit(X)
        for most in (2, 30)
    )
    assert full.verdict_.grade == "partly" and full.converged_ is not True
    assert full.verdict_.found.startswith("All components that max_states=2 allows are in use")
    assert full.verdict_.advice == "Raise max_states."
    assert "max_states" not in str(free.verdict_)


@pytest.mark.slow
def test_estimator_of_counts():
    X = np.where(np.arange(60) % 20 < 10, 3.0, 40.0) + np.arange(60) % 3
    X[5] = np.nan
    X = np.append(X, [np.nan] * 3)  # a sequence of which nothing was seen
    model, _ = fitted("poisson", X, [60, 3], n_iter=200, burn_in=150)
    assert model.score_samples(X, [60, 3])[1] == pytest.approx(0, abs=1e-9)
    assert (
        model.n_states_ <= 4
        and sorted(model.emissions_["rate"][:2, 0].round(-1)) == [0, 40]
        and model.prior_["shape"].shape == (1,)
    )
    z = model.predict(X)
    assert (
        z[0] != z[10]
        and z[0] == z[5]
        and model.sample(5, 0)[0].shape == (5, 1)
        and np.isfinite(model.score(X))
    )


@pytest.mark.slow
@pytest.mark.parametrize("emission", ["normal", "normal_inverse_gamma", "normal_known_variance"])
def test_estimator_of_points(emission, tmp_path):
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [6, 0], [0, 6]], 20, axis=0)[np.tile(np.arange(60), 3)] + rng.normal(
        0, 0.5, (180, 2)
    )
    X[7, 1] = np.nan
    for sampler in ("direct", "weak_limit"):
        model, _ = fitted(
            emission, X, [60] * 3, sampler=sampler, n_iter=100, burn_in=90, max_states=8, init=6
        )
        together = np.zeros(
            (model.n_states_, 3)
        )  # two states may share a cloud for long, but no state two clouds
        np.add.at(together, (model.predict(X, [60] * 3), np.tile(np.repeat([0, 1, 2], 20), 3)), 1)
        assert together.max(axis=1).sum() >= 178 and model.n_states_ <= 6
        assert model.emissions_["mean"].shape == (model.n_states_, 2) and model.sample(4, 0)[
            0
        ].shape == (4, 2)
        model.save(tmp_path / "m.npz")
        assert HDPHMM.load(tmp_path / "m.npz").score(X) == model.score(X)


@pytest.mark.parametrize(
    "params, name",
    [
        (dict(sampler="gibbs"), "sampler"),
        (dict(emission="bernoulli"), "emission"),
        (dict(alpha=0), "alpha"),
        (dict(prior=0), "eta of prior"),
        (dict(prior="x"), "eta of prior"),
        (dict(prior={"eta": (1, 1)}), r"eta of prior must be .*; write Gamma\(1, 1\)"),
        (dict(emission="normal", prior=Gamma(1, 1)), "prior must be None or a dict"),
        (dict(gamma=(1,)), "gamma"),
        (dict(kappa=-1), "kappa"),
        (dict(prior={"n_symbols": 2}), "X must hold symbols below n_symbols"),
        (dict(init=0), "init"),
        (dict(prior={"shape": 1}), "prior"),
        (dict(emission="poisson", prior={"mean": 1}), "prior"),
        (dict(n_iter=0), "n_iter"),
        (dict(burn_in=99), "burn_in"),
        (dict(max_states=0), "max_states"),
        (
            dict(sampler="weak_limit", max_states=3, init=np.arange(20) % 10),
            "^init must have states below max_states = 3, got 9",
        ),
    ],
)
def test_estimator_bad_parameters(params, name):
    with pytest.raises(ValueError, match=name):
        fitted(**params)


def test_estimator_bad_input():
    model, X = fitted()
    for bad, lengths, message in (
        ([0, 3], None, "below n_symbols = 3"),
        ([0, 1], [3], "lengths must"),
        ([], None, "X must"),
        ([0.5], None, "X must"),
    ):
        for call in (model.score, model.predict, model.predict_proba, model.score_samples):
            with pytest.raises(ValueError, match=message):
                call(bad, lengths)
    with pytest.raises(ValueError, match="method"):
        model.predict(X, method="max")
    with pytest.raises(ValueError, match="n_samples"):
        model.sample(0)
    with pytest.raises(ValueError, match="not fitted"):
        HDPHMM().score(X)
    assert model.score_samples([0, 0], [1, 1])[0] == model.score_samples([0])[0] and model.score(
        [-1, -1]
    ) == pytest.approx(0)


def test_quick_start(tmp_path, monkeypatch):
    check_quick_start("HDPHMM", tmp_path, monkeypatch)
