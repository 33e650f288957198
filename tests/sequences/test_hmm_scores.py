"""The predictive of sequences: sums over all paths and partitions, without bias, at any length."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest
from naive_hmm import Posterior, urn_paths

from hdp_nb.mixtures.normal import find_likelihood
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.sequences.emissions import hmm_emission, symbols
from hdp_nb.sequences.groups import in_group
from hdp_nb.sequences.hdp_hmm import Sequences
from hdp_nb.sequences.predict import log_plug_in
from hdp_nb.sequences.samplers import StateCounts, check_sequences
from hdp_nb.sequences.scores import _count_copies, look_ahead, sampled_rows, urn_rows, walk_urns

N_AB, BETA, N_VK = [[2, 1], [1, 0], [1, 1]], [0.3, 0.2, 0.5], [[3, 0], [1, 1], [0, 1], [0, 0]]


def a_sample(stats, alpha=2.0, gamma=1.0, kappa=0.7):
    number = (np.array(v) for v in (alpha, gamma, kappa))
    return StateCounts(np.array(N_AB), np.array(BETA), np.array([4, 2]), *number, stats)


def of_symbols(eta=0.2, **params):
    n_vk = np.array(N_VK)
    return a_sample({"n_vk": n_vk, "n_k": n_vk.sum(0), "eta": np.array(eta)}, **params)


def predict_symbol(sample):
    eta, n_vk = float(sample.stats["eta"]), sample.stats["n_vk"]
    V, K = n_vk.shape

    def predictive(k, earlier, v):
        n = n_vk[:, k] if k < K else np.zeros(V)
        return (n[v] + earlier.count(v) + eta) / (n.sum() + len(earlier) + V * eta)

    return predictive


def all_paths(new, sample, predictive, gamma_new=None):
    alpha, gamma, kappa = float(sample.alpha), float(sample.gamma), float(sample.kappa)
    *n_ab, start = sample.n_ab.tolist()
    *base, rest = sample.beta.tolist()
    base = [alpha * b for b in base]
    return urn_paths(new, n_ab, start, base, rest, alpha, gamma, kappa, predictive, gamma_new)


def repeat(sequences, n):
    "The same sequence n times."
    data, marks, (_, T) = sequences
    again = [np.concatenate([a] * n) for a in (data, marks)]
    return Sequences(*again, T * np.arange(n + 1))


def z_score(p, exact):
    return (p.mean() - exact) / (p.std() / len(p) ** 0.5)


def test_urns_know_no_state_twice():
    "The oracle over paths: the probabilities of all sequences sum to 1, and it knows one step."
    sample = of_symbols()
    predictive = predict_symbol(sample)
    for gamma_new in (None, 0.5):
        every = [all_paths(x, sample, predictive, gamma_new) for x in product(range(4), repeat=3)]
        assert sum(every) == pytest.approx(1) and all_paths(
            [None, None, 1], sample, predictive, gamma_new
        ) == pytest.approx(sum(every[1::4]))
    first = (np.append(N_AB[2], 0) + 2.0 * np.array(BETA)) / 4
    fit = [(3 + 0.2) / 4.8, 0.2 / 2.8, 0.25]
    assert all_paths([0], sample, predictive) == pytest.approx(first @ fit)


@pytest.mark.parametrize("gamma_new", [np.inf, 0.5], ids=["no groups", "in a group"])
@pytest.mark.parametrize("new", [[1, None, 3, 3], [3, 3, 0, 3], [0, 0, 0, 0]])
def test_estimates_are_unbiased(new, gamma_new):
    "With and without copies, looking ahead, and stretches; controls are plug-in and wrong sticks."
    sample = of_symbols()
    x = [-1 if v is None else v for v in new]
    prior, one = check_sequences(x, None, "categorical", None, 4, 0.2)
    many, c = repeat(one, 20_000), None if np.isinf(gamma_new) else gamma_new
    exact = all_paths(new, sample, predict_symbol(sample), c)
    for R, floor, memory in ((1, 1e-6, 2**21), (4, 1e-6, 2**21), (4, 1.0, 2**21), (3, 1e-6, 8)):
        rows = urn_rows(sample, gamma_new, floor)
        args = symbols, prior, sample, rows, many, R, memory
        p = np.exp(walk_urns(np.random.default_rng(R), *args))
        assert abs(z_score(p, exact)) < 4 and p.std() / len(p) ** 0.5 < 0.006 * exact
    assert np.exp(log_plug_in(symbols, prior, [sample], one)[0]) < 0.8 * exact
    sticks = urn_rows(sample, np.inf if c else 0.05)
    p = np.exp(walk_urns(np.random.default_rng(0), *args[:3], sticks, many, 4))
    assert abs(z_score(p, exact)) > 8 or new == [0, 0, 0, 0]


@pytest.mark.parametrize("emission", ["normal", pytest.param("poisson", marks=pytest.mark.slow)])
def test_other_emissions(emission):
    fam, rng = find_likelihood(emission, "emission"), np.random.default_rng(0)
    X = np.array([1.0, 2, 1, 0, 7, 9])[:, None] + (emission == "normal") * rng.normal(size=(6, 2))
    new = X[[0, 4, 4]] + 3.0
    prior, sequences = check_sequences(X, None, emission, None)
    stats = fam.init_stats(prior, 2)
    for t, k in enumerate((0, 0, 0, 0, 1, 1)):
        fam.add(stats, k, sequences.data, t)
    kind = hmm_emission(emission)
    sample = a_sample(kind.keep(stats, np.array([0, 1])))
    _, one = check_sequences(new, None, emission, prior)

    def predictive(k, earlier, t):
        slots = kind.grow(prior, stats, 3)
        for s in earlier:
            fam.add(slots, min(k, 2), one.data, s)
        return np.exp(fam.log_predictive(prior, slots, min(k, 2), one.data, t))

    exact = all_paths([0, 1, 2], sample, predictive)
    args = kind, prior, sample, urn_rows(sample), repeat(one, 5000)
    p = np.exp(walk_urns(np.random.default_rng(1), *args, 3))
    assert abs(z_score(p, exact)) < 4 and p.std() / len(p) ** 0.5 < 0.02 * exact
    assert abs(z_score(p, np.exp(log_plug_in(kind, prior, [sample], one)[0]))) > 8


def test_looking_ahead_is_the_plug_in_backwards():
    rng = np.random.default_rng(0)
    p, f = rng.dirichlet(np.ones(4), 4), rng.random((5, 4))
    marks, ahead = np.array([1, 0, 2, 1, 0], np.uint8), np.empty((5, 4))
    look_ahead(np.ascontiguousarray(p.T), f, marks, 1e-9, ahead)
    b = p @ f[2]
    np.testing.assert_allclose(ahead[1], b / b.max())
    b = p @ (f[1] * b)
    np.testing.assert_allclose(ahead[0], b / b.max())
    assert (ahead[[2, 4]] == 1).all()
    look_ahead(np.ascontiguousarray(p.T), f, marks, 1.0, ahead)
    assert (ahead == 1).all()


def test_many_new_states():
    "Arrays grow on the way; two estimates with different proposals agree."
    n_vk = np.zeros((40, 2), int)
    n_vk[0] = 4, 2
    sample = of_symbols(alpha=5.0, gamma=8.0)._replace(
        stats={"n_vk": n_vk, "n_k": n_vk.sum(0), "eta": np.array(0.01)}
    )
    prior, one = check_sequences(np.arange(1, 25), None, "categorical", None, 40, 0.01)
    scores = {}
    for R, n, floor in ((200, 8, 1e-6), (2000, 8, 1.0)):
        args = symbols, prior, sample, urn_rows(sample, floor=floor), repeat(one, n), R
        scores[floor] = walk_urns(np.random.default_rng(R), *args)
    ahead, blind = scores.values()
    assert abs(ahead.mean() - blind.mean()) < 4 * np.hypot(ahead.std(), blind.std()) / 8**0.5
    assert max(ahead.std(), blind.std()) < 1


class Weighed(NamedTuple):
    z: np.ndarray
    weight: np.ndarray
    copies: np.ndarray


@pytest.mark.parametrize("weight, made", [([1, 1, 1, 1], False), ([3.5, 0.5, 0, 0], True)])
def test_copies_are_made_when_few_particles_weigh_much(weight, made):
    p = Weighed(np.zeros(4, np.int64), np.array(weight, float), np.zeros(4, np.int64))
    assert _count_copies(np.random.default_rng(0), p) == made
    if made:
        assert p.copies.sum() == 4 and p.copies[0] >= 3 and (p.weight == 1).all()
    else:
        assert p.weight.tolist() == weight


def test_sampled_rows():
    rng, sample = np.random.default_rng(0), of_symbols()
    draws = [sampled_rows(rng, sample, 8) for _ in range(4000)]
    p0, p = np.mean([d[0] for d in draws], 0), np.mean([d[1] for d in draws], 0)
    np.testing.assert_allclose(p.sum(1), 1)
    expected = (np.append(N_AB[0], 0) + 2 * np.array(BETA) + [0.7, 0, 0]) / 5.7
    np.testing.assert_allclose(np.append(p[0, :2], p[0, 2:].sum()), expected, atol=0.02)
    expected = (np.append(N_AB[2], 0) + 2 * np.array(BETA)) / 4
    np.testing.assert_allclose(np.append(p0[:2], p0[2:].sum()), expected, atol=0.02)


# ---------------------------------------------------------------- the estimator

FIXED = dict(alpha=1.0, gamma=1.0, init=2, n_chains=1, random_state=0)


def test_score_is_the_enumerated_predictive():
    "Two sequences, one with a missing step, a sticky model; the control is the plug-in."
    train, new = [[0, None, 1], [0]], np.array(list(product(range(2), repeat=2)))
    ours = HDPHMM(
        prior={"eta": 0.2, "n_symbols": 2}, kappa=1.5, n_iter=6000, thin=1, burn_in=200, **FIXED
    ).fit([0, -1, 1, 0], [3, 1])
    evidence = lambda x: Posterior(x, 2, 0.2, 1.0, 1.0, 1.5).evidence
    exact = np.array([evidence([*train, x.tolist()]) for x in new]) / evidence(train)
    assert exact.sum() == pytest.approx(1)
    error = {
        method: abs(np.exp(ours.score_samples(new.ravel(), [2] * 4, method=method)) / exact - 1)
        for method in ("predictive", "plug-in")
    }
    assert error["predictive"].max() < 0.05 < 0.2 < error["plug-in"].max()


@pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
def test_score_of_groups():
    "Each sample's own concentration of the groups; two chains; a symbol that is new."
    X, lengths, groups = [0, 1, 0, 0, 2, 2], [2, 2, 2], ["a", "a", "b"]
    seen = []
    model = HDPHMM(
        prior={"n_symbols": 4},
        n_iter=9,
        burn_in=3,
        thin=4,
        n_chains=2,
        init=2,
        random_state=1,
        kappa=0.5,
    ).fit(
        X,
        lengths,
        groups=groups,
        callback=lambda sweep, state: seen.append((sweep, float(state.gamma_group))),
    )
    by_sweep = [[g for at, g in seen if at == sweep] for sweep in range(9)]  # one per chain
    assert len(model.samples_) == 6  # sweeps 3 and 7 and the last, of either chain
    conc = [by_sweep[sweep][chain] for chain in (0, 1) for sweep in (3, 7, 8)]
    new, exact = [3, 0, 3, 3, 0, 3], []
    for g in (0, 1):
        p = [
            all_paths(new[:3], one, predict_symbol(one), c * float(sample.beta[0, -1]))
            for sample, c in zip(model.samples_, conc)
            for one in [in_group(sample, g)]
        ]
        exact.append(np.mean(p))
    found = np.exp(model.score_samples(new, [3, 3], groups=["a", "b"], n_particles=5000))
    np.testing.assert_allclose(found, exact, rtol=0.03)
    swapped = np.exp(model.score_samples(new, [3, 3], groups=["b", "a"], n_particles=5000))
    np.testing.assert_allclose(swapped, exact[::-1], rtol=0.03)
    assert model.score(new, [3, 3], ["a", "b"]) == model.score(new, [3, 3], ["a", "b"])


def test_the_same_call_gives_the_same_number(tmp_path):
    x = np.random.default_rng(0).integers(-1, 3, 40)
    model = HDPHMM(n_chains=1, n_iter=20, init=3, random_state=0).fit(x, [25, 15])
    scores = model.score_samples(x, [25, 15])
    assert (model.score_samples(x, [25, 15]) == scores).all()
    assert model.score(x, [25, 15]) == scores.sum()
    model.save(tmp_path / "m.npz")
    assert (HDPHMM.load(tmp_path / "m.npz").score_samples(x, [25, 15]) == scores).all()
    other = [model.score(x, [25, 15], random_state=seed, n_particles=200) for seed in range(4)]
    assert (
        0
        < np.std(other)
        < np.std([model.score(x, [25, 15], random_state=seed, n_particles=1) for seed in range(4)])
    )
    rng = np.random.default_rng(0)
    assert model.score(x, random_state=rng) == model.score(x, random_state=0)
    assert model.score(x, random_state=rng) != model.score(x, random_state=0)
    # one step is known exactly, and so is nothing
    for one in ([0], [2]):
        assert model.score(one) == pytest.approx(model.score(one, method="plug-in"), rel=1e-12)
    np.testing.assert_allclose(model.score_samples([-1, -1, 0], [2, 1])[0], 0, atol=1e-9)
    assert model.score_samples([0, 1], [0, 2, 0])[[0, 2]].tolist() == [0, 0]


def test_missing_steps_are_summed_out():
    x = np.random.default_rng(0).integers(0, 2, 20)
    model = HDPHMM(n_chains=1, n_iter=12, init=2, random_state=0).fit(x)
    every = [[0, v, w, 1] for v in (0, 1) for w in (0, 1)]
    options = dict(n_particles=3000)
    summed = np.exp(model.score_samples(np.ravel(every), [4] * 4, **options)).sum()
    assert np.exp(model.score([0, -1, -1, 1], **options)) == pytest.approx(summed, rel=0.01)


def test_a_long_sequence():
    "A run that the plug-in thinks impossible, longer than a stretch, at a finite cost in nats."
    x = np.arange(40) % 2
    model = HDPHMM(kappa=0, n_chains=1, n_iter=12, init=2, random_state=0).fit(x)
    new = np.concatenate([np.tile([0, 1], 25_000), np.zeros(50_000, int)])
    score, plug_in = (
        model.score(new, method=method, n_particles=2) for method in ("predictive", "plug-in")
    )
    assert np.isfinite(score) and plug_in < -20_000 < -2000 < score < 0


def test_bad_arguments():
    model = HDPHMM(n_chains=1, n_iter=3, init=2).fit([0, 1, 0])
    for call in (model.score, model.score_samples):
        for method in ("mean", None, 1):
            takes = "'auto', 'predictive' or 'plug-in'"
            with pytest.raises(ValueError, match=f"^method must be {takes}, got {method!r}"):
                call([0, 1], method=method)
        for n in (0, -1, 1.5, "x"):
            with pytest.raises(ValueError, match="^n_particles must"):
                call([0, 1], n_particles=n)
        with pytest.raises(ValueError, match="^random_state must"):
            call([0, 1], random_state="x")
        with pytest.raises(ValueError, match="^X must"):
            call([])
