"""Dwell times with laws of their own: what notebook 12 of sequences does not test itself."""

import itertools

import numpy as np
import pytest
from scipy.stats import nbinom

from hdp_nb.sequences.durations import (
    BegunStates,
    Dwell,
    SemiMarkovSampler,
    TracedVisits,
    mean_dwell,
    resample_laws,
    sd_dwell,
)
from hdp_nb.sequences.emissions import hmm_emission, symbols
from hdp_nb.sequences.samplers import check_sequences
from hdp_nb.sequences.stages import find_states, log_path, log_sequences, log_steps


def sampler_of(data, n_symbols=2, **options):
    prior, sequences = check_sequences(
        data, None, "categorical", None, n_symbols=n_symbols, eta=0.5
    )
    given = {"max_states": 4, "init": 3, "r_max": 4} | options
    return SemiMarkovSampler(hmm_emission("categorical"), prior, sequences, **given)


# ---------------------------------------------------------------- exactness


def test_the_law_and_its_moments():
    for r, q in ((1, 0.9), (5, 0.7), (12, 0.2)):
        law = nbinom(r, 1 - q)
        assert np.isclose(mean_dwell(r, q), 1 + law.mean()) and np.isclose(
            sd_dwell(r, q), law.std()
        )


@pytest.mark.parametrize("found", [0, 6])
def test_laws_given_visits(found):
    "r and q of one state, against a grid; half of the sequences begin within the state, or none."
    rng, r_max, n = np.random.default_rng(0), 4, 6
    z = (
        np.concatenate([[1, 0, 0, 0, 1], [0, 0, 1, 1, 1]] * 3)
        if found
        else np.tile([1, 0, 0, 1], 6)
    )
    offsets = np.arange(0, len(z) + 1, 5 if found else 4)
    cut = np.zeros(len(offsets) - 1, np.int64)
    before = cut + (z[offsets[:-1]] == 0) * 3
    dwell = Dwell(np.ones(2, np.int64), np.full(2, 0.5), before, cut)
    sizes = np.array([3, 5] * 3) if found else np.full(6, 2)
    m = int((z[offsets[:-1]] == 0).sum())
    assert m == (3 if found else 0) and len(sizes) == n
    drawn = np.empty((6000, 2))
    for i in range(len(drawn)):
        resample_laws(rng, z, offsets, dwell, 2, r_max)
        drawn[i] = dwell.shape[0], dwell.stay[0]
    q = (np.arange(2000) + 0.5) / 2000
    weight, wrong = (np.empty((r_max, len(q))) for _ in range(2))
    for r in range(1, r_max + 1):
        wrong[r - 1] = nbinom(r, 1 - q).pmf(sizes[:, None] - 1).prod(axis=0) / r**2
        weight[r - 1] = wrong[r - 1] / mean_dwell(r, q) ** m
    for w, right in ((weight, True), (wrong, m == 0)):
        p = w.sum(axis=1) / w.sum()
        mean_q = (w.sum(axis=0) @ q) / w.sum()
        off = np.abs(np.bincount(drawn[:, 0].astype(int), minlength=5)[1:] / len(drawn) - p).max()
        assert (max(off, abs(drawn[:, 1].mean() - mean_q)) < 0.03) == right


def test_scores_and_paths_of_tiny_sequences():
    "Sums over all paths, their maximum and each path's own probability."
    rng = np.random.default_rng(3)
    data = [np.array([0, 0, 1, -1, 1, 1, 0, 0]), np.array([1, 0])]
    s = sampler_of(data)
    state = s.init(rng)
    while len(np.unique(state.z)) < 3:
        state = s.update(rng, state)
    sample = s.snapshot(state)
    sample.dwell[:] = [[2, 0.6], [4, 0.5], [1, 0.8], [3, 0.3]][: len(sample.n_k)]
    new = check_sequences([np.array([0, -1, 1, 1, 0])], None, "categorical", s.prior)[1]
    K, given = len(sample.n_k), (symbols, s.prior, sample, new)
    paths = np.array(list(itertools.product(range(K), repeat=5)))
    each = np.exp([log_path(*given, z) for z in paths])
    proba = np.array([[each[paths[:, t] == k].sum() for k in range(K)] for t in range(5)])
    assert np.allclose(find_states(*given, "posterior"), proba / each.sum())
    assert np.array_equal(find_states(*given, "viterbi"), paths[each.argmax()])
    steps = log_steps(symbols, s.prior, [sample, sample], new)
    total = log_sequences(symbols, s.prior, [sample], new)
    assert np.allclose(steps.sum(), total) and steps[1] == 0.0
    assert 1e-3 < abs(total - np.log(each.sum())) < 0.3  # by the states that are not in use


# ---------------------------------------------------------------- counts and resumption


@pytest.mark.parametrize("markov", [True, False])
def test_counts_equal_a_recount(markov):
    rng = np.random.default_rng(0)
    s = sampler_of([rng.integers(2, size=30), np.array([-1]), np.array([-1, 0, -1])], markov=markov)
    chain = TracedVisits(BegunStates(s, tune=8)) if markov else TracedVisits(s)
    state = chain.init(rng)
    for _ in range(15):
        state, info = chain.sweep(rng, state)
        chain.check(state)
        chain.check(kept := chain.snapshot(state))
        assert kept.dwell.shape == (len(kept.n_k), 2) and np.isfinite(list(info.values())).all()
        assert not np.diagonal(kept.n_ab).any()
    inner = state.base if markov else state
    inner.base.n_ab[0, 0] += 1
    with pytest.raises(ValueError, match="n_ab"):
        s.check(inner)


def test_merges_find_copies_of_states():
    rng, x = np.random.default_rng(0), np.tile([0] * 9 + [1] * 9, 6)
    s = sampler_of([x], max_states=8)
    state, merged = s.state(np.where(np.arange(len(x)) // 3 % 2, x, x + 2)), 0
    for _ in range(40):
        state, done = s.merge(rng, state)
        s.check(state)
        merged += done
    assert merged == 2 and np.array_equal(state.z == state.z[0], x == 0)
