"""Forecasts: their law for the next step, all emissions, groups, and bad input."""

import numpy as np
import pytest
from tiers import slow_unless

from hdp_nb import HDPHMM, Corpus
from hdp_nb.models.forecast import Forecast, make_filter
from hdp_nb.sequences.predict import decode, predictive_rows, round_up_capacity, sample_stats
from hdp_nb.sequences.samplers import pad_array

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
Z = np.tile(np.repeat([0, 1, 2], 15), 5)


def fit(emission, X, **given):
    return HDPHMM(emission=emission, n_iter=60, n_chains=1, random_state=0).fit(X, **given)


EMISSIONS = {
    "normal": RNG.normal(6.0 * Z[:, None], 1, (len(Z), 2)),
    "student": 6.0 * Z[:, None] + RNG.standard_t(4, (len(Z), 1)),
    "poisson": RNG.poisson(1 + 8.0 * Z[:, None], (len(Z), 2)),
    "negative_binomial": RNG.negative_binomial(3, 3 / (4 + 20 * Z[:, None]), (len(Z), 1)),
    "multinomial": np.array([RNG.multinomial(9, np.roll([0.8, 0.1, 0.1], k)) for k in Z]),
    "categorical": Z,
    "autoregression": np.cumsum(RNG.normal(Z - 1.0, 0.3))[:, None],
}


@pytest.mark.parametrize("emission", slow_unless(lambda name: name != "multinomial", EMISSIONS))
def test_all_emissions(emission):
    """Shapes, ordered intervals, probabilities; the same call gives the same numbers."""
    X = EMISSIONS[emission]
    model = fit(emission, X)
    ahead = model.forecast(X, 5, n_draws=200)
    assert isinstance(ahead, Forecast)
    D = 3 if emission in ("multinomial", "categorical") else X.shape[1]
    assert ahead.mean.shape == ahead.low.shape == ahead.high.shape == (5, D)
    assert ahead.states.shape == (5, model.n_states_ + 1)
    assert np.allclose(ahead.states.sum(axis=1), 1) and np.isfinite(ahead.mean).all()
    if emission == "categorical":
        assert np.allclose(ahead.mean.sum(axis=1), 1) and np.isnan(ahead.low).all()
    else:
        assert (ahead.low <= ahead.high).all()
    again = model.forecast(X, 5, n_draws=200)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(ahead, again))
    other = model.forecast(X, 5, n_draws=200, random_state=1)
    assert not np.array_equal(ahead.states, other.states) or emission == "categorical"


def test_columns_of_several_kinds():
    X = {"calls": RNG.poisson(1 + 9 * Z), "speed": RNG.normal(5.0 * Z)}
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X)
    model = fit({"calls": "poisson", "speed": "normal"}, frame)
    ahead = model.forecast(frame, 2, n_draws=300)
    assert ahead.mean.shape == (2, 2)
    assert abs(ahead.mean[0, 0] - 19) < 4 and abs(ahead.mean[0, 1] - 10) < 2


def test_the_law_of_the_next_step():
    """States have probabilities a_T P, means those of the states; not without the last steps."""
    X = EMISSIONS["normal"][:, :1]
    model = fit("normal", X)
    emission, prior = model._fitted_emission()
    total, means = 0.0, 0.0
    n, x = len(model.samples_), X[:40]  # ends ten steps into the third state
    found = model._followed()[1]
    for sample, to in zip(model.samples_, found):
        p0, p = predictive_rows(sample)
        S, K1 = round_up_capacity(len(p0)), len(p0)
        steps, out = model._parts(x, None, None)[3][0][2], np.zeros((1, S))
        stats = sample_stats(emission, prior, sample)
        given = pad_array(p0, S), pad_array(p, (S, S)), steps
        make_filter(emission)(prior, stats, K1, *given, out)
        after = out[0, :K1] @ p
        shown = np.append(np.where(to < 0, model.n_states_, to), model.n_states_)
        total = total + np.bincount(shown, after, minlength=model.n_states_ + 1) / n
        known = after[:-1] / after[:-1].sum()
        means += known @ emission.expected(prior, stats, K1)["mean"][:-1, 0] / n
    ahead = model.forecast(x, 1, n_draws=20_000)
    assert np.abs(ahead.states[0] - total).max() < 4 * 0.5 / np.sqrt(20_000)
    assert abs(ahead.mean[0, 0] - means) < 0.15
    assert np.abs(model.forecast(x[:20], 1, n_draws=20_000).states[0] - total).max() > 0.3


def test_filter_is_the_end_of_forward_and_backward():
    """With only the states in use it agrees with the posterior of the last step of `decode`."""
    X = EMISSIONS["poisson"]
    model = fit("poisson", X)
    emission, prior = model._fitted_emission()
    sample, part = model.samples_[model.best_], model._parts(X[:33], None, None)[3][0][2]
    p0, p = predictive_rows(sample)
    S, K1, out = round_up_capacity(len(p0)), len(p0), np.zeros((1, round_up_capacity(len(p0))))
    given = prior, sample_stats(emission, prior, sample), K1, pad_array(p0, S), pad_array(p, (S, S))
    make_filter(emission)(*given, part, out)
    exact = decode(emission, prior, sample, part, "posterior")[-1]
    assert np.allclose(out[0, : K1 - 1], exact, atol=0.02)


def test_autoregression_continues_from_the_last_steps():
    """A straight line goes on, from wherever it is; with other last steps elsewhere."""
    x = np.cumsum(0.5 + 0.01 * RNG.normal(size=300))[:, None]
    model = fit("autoregression", x)
    for end in (300, 200):
        ahead = model.forecast(x[:end], 4, n_draws=400)
        assert np.allclose(ahead.mean[:, 0], x[end - 1, 0] + 0.5 * np.arange(1, 5), atol=0.25)
        assert (np.diff((ahead.high - ahead.low)[:, 0]) > 0).all()
    gap = x.copy()
    gap[-1] = np.nan
    with pytest.raises(ValueError, match="without missing ones at the end"):
        model.forecast(gap, 3)


def test_second_order_takes_the_last_two_steps_in_order():
    """A slow wave, x_t = 2 cos(w) x_{t-1} - x_{t-2}, goes on as a wave."""
    wave = np.sin(0.3 * np.arange(400))[:, None] + 0.001 * RNG.normal(size=(400, 1))
    model = HDPHMM(emission="autoregression", prior={"order": 2}, n_iter=60, random_state=0)
    model.set_params(n_chains=1).fit(wave)
    ahead = model.forecast(wave[:333], 6, n_draws=400)
    assert np.allclose(ahead.mean[:, 0], np.sin(0.3 * np.arange(333, 339)), atol=0.05)


def test_lists_lengths_and_groups():
    """A forecast for each sequence in its order; a group follows its own transitions."""
    rng = np.random.default_rng(5)

    def record(stay):
        z = np.zeros(200, int)
        for t in range(1, 200):
            z[t] = z[t - 1] if rng.random() < stay else 1 - z[t - 1]
        return rng.normal(9.0 * z)[:, None]

    parts = [record(0.98), record(0.5), record(0.98), record(0.5)]
    groups = ["slow", "fast", "slow", "fast"]
    model = HDPHMM(emission="normal", n_iter=400, n_chains=1, random_state=0)
    model.fit(parts, groups=groups)
    ends = [np.array([[0.1], [0.2]]), np.array([[0.1], [0.2]]), np.array([[9.0], [8.8]])]
    of = model.forecast(ends, 1, groups=["slow", "fast", "slow"])
    assert len(of) == 3
    low = int(model.means_[:, 0].argmin())
    assert of[0].states[0, low] > 0.93 and of[2].states[0, low] < 0.07
    assert 0.3 < of[1].states[0, low] < 0.7
    together = model.forecast(
        np.concatenate(ends), 1, lengths=[2, 2, 2], groups=["slow", "fast", "slow"]
    )
    assert all(np.array_equal(a.states, b.states) for a, b in zip(of, together))
    assert 0.3 < model.forecast(ends[0], 1, groups=["new"]).states[0, low] < 0.98


def test_documents_of_a_corpus_are_sequences():
    docs = Corpus.from_docs([[0, 0, 1, 1] * 8, [2, 2, 3, 3] * 8])
    model = fit("categorical", docs)
    ahead = model.forecast(docs, 2, n_draws=200)
    assert len(ahead) == 2 and ahead[0].mean.shape == (2, 4)


def test_a_gap_at_the_end_makes_the_forecast_wider():
    X = EMISSIONS["normal"][:, :1].copy()
    model = fit("normal", X)
    seen = model.forecast(X[:25], 1)
    X[16:25] = np.nan
    unseen = model.forecast(X[:25], 1)
    assert unseen.states[0].max() < seen.states[0].max()
    assert np.isfinite(unseen.mean).all()


def test_merged_and_dropped_states():
    X = EMISSIONS["normal"]
    model = fit("normal", X)
    fewer = model.merge([0, 1])
    a, b = model.forecast(X, 3), fewer.forecast(X, 3)
    assert b.states.shape[1] == a.states.shape[1] - 1
    assert np.allclose(b.mean, a.mean) and np.allclose(b.states.sum(axis=1), 1)


@pytest.mark.parametrize(
    "given, message",
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, got 0"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"steps": 3, "level": 1.0}, "level must be"),
        ({"steps": 3, "n_draws": 0}, "n_draws must be"),
        ({"steps": 3, "groups": ["a"]}, "groups must be None"),
    ],
)
def test_bad_input(given, message):
    model = fit("normal", EMISSIONS["normal"])
    with pytest.raises(ValueError, match=message):
        model.forecast(EMISSIONS["normal"], **given)
    with pytest.raises(ValueError, match="columns"):
        model.forecast(EMISSIONS["normal"][:, 0], 3)
