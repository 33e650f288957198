"""Dwell times with laws of their own: what notebook 12 of sequences does not test itself."""

import copy
import itertools

import numpy as np
import pytest
from scipy.stats import nbinom
from sklearn.base import clone

from hdp_nb import HDPHMM, load_model
from hdp_nb.mcmc.exact import joint_distribution_test
from hdp_nb.sequences.durations import (
    BegunStates,
    Dwell,
    NegativeBinomial,
    SemiMarkovSampler,
    TracedVisits,
    as_duration,
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


def planted(seed=0, n=400, apart=4.0):
    "Two states whose visits last 10 and 20 steps, regularly."
    rng, z, k = np.random.default_rng(seed), [], 0
    while len(z) < n:
        z += [k] * int(1 + rng.negative_binomial(6, 6 / ([10, 20][k] + 5)))
        k = 1 - k
    z = np.array(z[:n])
    return rng.normal(apart * z, 1.0)[:, None], z


def small(**options):
    given = dict(emission="normal", duration="negative_binomial", n_iter=60, max_states=6)
    return HDPHMM(**(given | {"random_state": 0, "n_jobs": 1} | options))


@pytest.fixture(scope="module")
def fitted():
    x, z = planted()
    return small(n_iter=300, max_states=8).fit(x), x, z


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


@pytest.mark.slow
@pytest.mark.parametrize("right", [True, False])
def test_joint_distribution(right):
    "States, laws and weights from the prior; sweeps; new symbols. The control forgets the cuts."
    L, V, N, alpha, gamma, r_max = 3, 3, (7, 4), 1.5, 1.2, 3
    data = [np.zeros(n, int) for n in N]
    s = sampler_of(
        data, V, max_states=L, r_max=r_max, alpha=alpha, gamma=gamma, alpha_prior=None,
        gamma_prior=None,
    )  # fmt: skip

    def dwell_of(rng, r, q):
        return 1 + int(rng.negative_binomial(r, 1 - q))

    def prior_draw(rng):
        beta = np.maximum(rng.dirichlet(np.full(L, gamma / L)), 1e-290)
        r = rng.choice(r_max, L, p=(w := 1 / np.arange(1, r_max + 1) ** 2) / w.sum()) + 1
        q = np.clip(rng.beta(1, 1, L), 1e-12, 1 - 1e-9)
        rows = []
        for a in [*range(L), None]:
            shape = alpha * beta + 1e-9
            if a is not None:
                shape[a] = 1e-290
            row = rng.dirichlet(shape)
            if a is not None:
                row[a] = 0.0
            rows.append(row / row.sum())
        z, before, after = [], [], []
        for n in N:
            k, path = rng.choice(L, p=rows[L]), []
            law = nbinom(r[k] + 1, 1 - q[k])  # D in proportion to d p(d): one of two parts
            whole = rng.random() * mean_dwell(r[k], q[k])
            size = dwell_of(rng, r[k], q[k]) if whole < 1 else 2 + int(law.rvs(random_state=rng))
            age = int(rng.integers(size)) if right else 0
            before.append(age)
            path += [k] * min(size - age, n)
            over = size - age - n
            while len(path) < n:
                k = rng.choice(L, p=rows[k])
                size = dwell_of(rng, r[k], q[k])
                over = len(path) + size - n
                path += [k] * min(size, n - len(path))
            after.append(max(over, 0))
            z += path
        state = s.state(np.array(z))
        state.beta[:L] = beta
        state.dwell.shape[:L], state.dwell.stay[:L] = r, q
        state.dwell.before[:], state.dwell.after[:] = before, after
        return state

    def data_draw(rng, state):
        phi = rng.dirichlet(np.full(V, 0.5), L)
        x = np.array([rng.choice(V, p=phi[k]) for k in state.z], np.int32)
        s.sequences.data[:] = x
        s.recount(state)
        return x

    def statistics(state, x):
        same = state.z[1:] == state.z[:-1]
        return {
            "used": float((state.n_k > 0).sum()),
            "own": float(same.sum()),
            "own first": float(same[:2].sum()),
            "weight": float((state.beta[:L] ** 2).sum()),
            "shape": float(state.dwell.shape[:L].mean()),
            "stay": float(state.dwell.stay[state.z].mean()),
            "age": float(np.log1p(state.dwell.before).mean()),
            "rest": float(np.log1p(state.dwell.after).mean()),
            "fit": float((x[1:] == x[:-1]).sum()),
        }

    found = joint_distribution_test(
        np.random.default_rng(1),
        prior_draw,
        data_draw,
        lambda rng, state, x: s.update(rng, state),
        statistics,
        n_draws=1500,
        n_rounds=2,
    )
    largest = max(map(abs, found.values()))
    assert largest < 4 if right else largest > 8, found


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


def test_same_seed_same_draws_and_resumed_bits():
    data = [np.random.default_rng(0).integers(2, size=40)]
    chain = BegunStates(sampler_of(data, markov=True), tune=8)

    def go(rng, state, n):
        for _ in range(n):
            state, info = chain.sweep(rng, state)
        return state, info

    first, second = (np.random.default_rng(5) for _ in range(2))
    one, info = go(first, chain.init(first), 14)
    half, _ = go(second, chain.init(second), 7)
    second, half = copy.deepcopy((second, half))  # as a file would keep them
    two, again = go(second, half, 7)
    assert info == again and np.array_equal(one.z, two.z)
    for a, b in zip(one.base.dwell, two.base.dwell):
        assert np.array_equal(a, b)
    other = np.random.default_rng(6)
    assert go(other, chain.init(other), 14)[1] != info


# ---------------------------------------------------------------- the estimator


def test_states_and_laws_are_found(fitted):
    model, x, z = fitted
    assert model.n_states_ == 2 and (model.labels_ == 1 - z).mean() in (
        0,
        pytest.approx(1, abs=0.02),
    )
    found = model.dwell_times()
    order = np.argsort(found.law["law_mean"])
    for k, true in zip(order, (10, 20)):
        assert found.law["law_mean_low"][k] < true < found.law["law_mean_high"][k]
    assert (found.law["shape"] > 1.5).all() and (found.p_value > 0.02).all()
    assert "laws:" in repr(found) and "shape_high" in found.table()
    assert not np.diagonal(model.transmat_).any() and np.allclose(model.transmat_.sum(axis=1), 1)
    share = np.bincount(model.labels_) / len(z)
    assert np.abs(model.get_stationary_distribution() - share).max() < 0.2
    assert model.kappa_ == 0 and "kappa" not in model.traces_


def test_predictions(fitted):
    model, x, _ = fitted
    new, z = planted(1, 120)
    path, proba = model.predict(new), model.predict_proba(new)
    assert (path == proba.argmax(axis=1)).mean() > 0.97 and np.allclose(proba.sum(axis=1), 1)
    assert np.isclose(model.score(new), model.score_steps(new).sum())
    assert model.score(new) == model.score(new, method="plug-in")
    log_prob, decoded = model.decode(new)
    assert np.array_equal(decoded, path) and log_prob >= model.decode(new, algorithm="map")[0]
    drawn, states = model.sample(4000, random_state=0)
    runs = np.diff(np.flatnonzero(np.diff(states)))
    expected = mean_dwell(*model.samples_[model.best_].dwell.T).mean()
    assert drawn.shape == (4000, 1) and abs(runs.mean() - expected) < 0.15 * expected
    parts = model.predict([new[:50], new[50:]])
    assert [len(part) for part in parts] == [50, 70]
    bouts = model.bouts(new)
    assert sum(bouts["length"]) == 120


def test_a_forecast_knows_how_long_a_visit_has_lasted(fitted):
    model, x, z = fitted
    long = int(np.argmax(model.dwell_times().law["law_mean"]))
    mean = float(model.means_[long, 0])
    other = np.full(30, model.means_[1 - long, 0])
    fresh, late = (np.append(other, np.full(n, mean))[:, None] for n in (2, 22))
    ahead = [model.forecast(past, 3).states[-1, long] for past in (fresh, late)]
    assert ahead[0] > ahead[1] + 0.1


def test_edits_and_files(fitted, tmp_path):
    model, x, _ = fitted
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert again.duration == "negative_binomial" and again.score(x) == model.score(x)
    assert repr(again.dwell_times()) == repr(model.dwell_times())
    with pytest.raises(ValueError, match="groups must leave two states or more"):
        model.merge([0, 1])
    rng, planted_three = np.random.default_rng(0), np.tile(np.repeat([0, 1, 2], 10), 5)
    three = small(n_iter=40, n_chains=1).fit(rng.normal(8.0 * planted_three)[:, None])
    one = three.merge([0, 1])
    assert three.n_states_ == 3 and one.n_states_ == 2 and len(one.dwell_times().law["shape"]) == 2
    assert np.allclose(one.transmat_.sum(axis=1), 1) and one.score(x) == three.score(x)
    assert model.drop([1]).labels_.max() == 0
    assert set(model.components()) >= {"dwell"} and model.transitions().mean.shape == (2, 2)
    assert clone(model).duration == "negative_binomial"
    wide = small(duration=NegativeBinomial(3), n_iter=20, n_chains=1).fit(x[:60])
    wide.save(tmp_path / "wide.npz")
    assert load_model(tmp_path / "wide.npz").duration == NegativeBinomial(3)
    assert max(sample.dwell[:, 0].max() for sample in wide.samples_) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("emission", ["student", "poisson", "categorical", "autoregression", "mix"])
def test_emissions(emission):
    rng, z = np.random.default_rng(0), np.repeat([0, 1, 0, 1, 0], 12)
    x = {
        "student": rng.standard_t(4, (60, 2)) + 5 * z[:, None],
        "poisson": rng.poisson(np.array([2, 20])[z]),
        "categorical": z + rng.integers(2, size=60) * (rng.random(60) < 0.1),
        "autoregression": rng.normal(z * 5.0, 0.3)[:, None],
        "mix": {"n": rng.poisson(np.array([2, 20])[z]).astype(float), "v": rng.normal(4.0 * z)},
    }[emission]
    if emission == "mix":
        pd = pytest.importorskip("pandas")
        x, emission = pd.DataFrame(x), {"n": "poisson", "v": "normal"}
    model = small(emission=emission, n_iter=16, n_chains=1).fit(x)
    assert len(model.predict(x)) == 60 and np.isfinite(model.score(x))
    assert model.forecast(x, 2).states.shape == (2, model.n_states_ + 1)


@pytest.mark.parametrize("x", [[[1.0]], [[np.nan], [np.nan], [3.0]], [[1.0]] * 9])
def test_edges(x):
    model = small(n_iter=6, n_chains=1, burn_in=0).fit(np.array(x))
    assert len(model.labels_) == len(x) and np.isfinite(model.score(np.array(x)))
    assert model.dwell_times().law["shape"].min() >= 1
    many = small(n_iter=6).fit([np.array([0.0]), np.array([1.0, np.nan]), np.array([5.0])])
    assert len(many.predict([np.array([0.0]), np.array([np.nan])])) == 2


@pytest.mark.parametrize(
    "options, fit, message",
    [
        ({"duration": "poisson"}, {}, 'duration must be "geometric", "negative_binomial" or'),
        ({"duration": 3}, {}, "duration must be .* got 3"),
        ({"duration": NegativeBinomial(0)}, {}, "r_max of duration must be .* got 0"),
        ({"duration": NegativeBinomial(1000)}, {}, "r_max of duration must be .* got 1000"),
        ({"kappa": 3.0}, {}, "kappa must be left as it is .* got 3.0"),
        ({"sampler": "beam"}, {}, 'sampler must be "auto" or "weak_limit" with duration='),
        ({"max_states": 1}, {}, "max_states must be at least 2"),
        ({}, {"groups": ["a"]}, "groups must be None with duration="),
        ({}, {"X": np.full((4, 1), np.nan)}, "at least one step that is not missing"),
    ],
)
def test_what_is_refused(options, fit, message):
    with pytest.raises(ValueError, match=message):
        small(**options).fit(**({"X": np.arange(6.0)[:, None]} | fit))


def test_methods_that_are_refused(fitted):
    model, x, _ = fitted
    with pytest.raises(ValueError, match="method must be 'auto' or 'plug-in' with duration="):
        model.score(x, method="predictive")
    assert as_duration("geometric") is None
    assert small(kappa=0, n_iter=4, n_chains=1).fit(x[:20]).kappa_ == 0
