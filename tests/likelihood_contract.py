"""What every likelihood must obey: functions that raise AssertionError for one that does not."""

import contributing
import numpy as np

from hdp_nb.families import likelihoods
from hdp_nb.likelihood import Likelihood

contributing.run(contributing.blocks("a likelihood")[:1])  # registers the worked example's
CASES = [(name, i) for name, fam in likelihoods.items() for i in range(len(fam.examples))]


def case(name, i=0):
    "A likelihood, one of its priors, and checked data: those of its examples."
    fam = likelihoods[name]
    hyper, X = fam.examples[i]
    prior = fam.make_prior(**hyper)
    return fam, prior, fam.check_data(X, prior)


def filled(fam, prior, data, idx=None, k=0, capacity=2):
    out = fam.init_stats(prior, capacity)
    for i in range(len(data)) if idx is None else idx:
        fam.add(out, k, data, i)
    return out


def same(fam, a, b):
    for name in fam.kept:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


# --- identities -----------------------------------------------------------------------------------


def check_parts(fam, prior, data):
    "What the parts return is of the kind that the contract says."
    assert isinstance(fam, Likelihood) and isinstance(prior, fam.prior_type)
    slots = filled(fam, prior, data, capacity=3)
    assert isinstance(slots, fam.stats_type) and all(len(a) == 3 for a in slots)
    assert set(fam.kept) <= set(fam.stats_type._fields)
    assert data.ndim in (1, 2) and data.flags.c_contiguous and (data.ndim == 2 or fam.scalar)
    means = fam.expected(prior, slots, 2)
    assert means and all(len(a) == 2 for a in means.values())
    if fam.scalar:
        assert (
            fam.check_data(data.reshape(-1, 1), prior) == fam.check_data(data.reshape(-1), prior)
        ).all()
    assert isinstance(fam.default_prior(data), fam.prior_type)
    # the other statistics follow from those that are kept
    again = fam.init_stats(prior, 3)
    for name in fam.kept:
        getattr(again, name)[:] = getattr(slots, name)
    for i in range(len(data)):
        assert fam.log_predictive(prior, again, 0, data, i) == fam.log_predictive(
            prior, slots, 0, data, i
        )


def check_chain_rule(fam, prior, data):
    "Predictives multiply to the marginal, in any order, and so does the block."
    n, marginals = len(data), []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(n)
        slots, chain = fam.init_stats(prior, 1), 0.0
        for i in order:
            chain += fam.log_predictive(prior, slots, 0, data, i)
            fam.add(slots, 0, data, i)
            marginals.append(fam.log_marginal(prior, slots, 0))
            np.testing.assert_allclose(chain, marginals[-1], rtol=1e-10, atol=1e-10)
        block = fam.log_block(prior, fam.init_stats(prior, 1), 0, data, order)
        np.testing.assert_allclose(block, chain, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(marginals[n - 1 :: n], marginals[-1], rtol=1e-11)


def check_add_remove(fam, prior, data):
    "After every step of a random walk a slot answers like one filled afresh; emptied, it is empty."
    rng, slots, inside = np.random.default_rng(5), fam.init_stats(prior, 2), []
    for _ in range(80):
        outside = [i for i in range(len(data)) if i not in inside]
        if inside and (not outside or rng.random() < 0.5):
            fam.remove(slots, 0, data, inside.pop(rng.integers(len(inside))))
        else:
            inside.append(int(rng.choice(outside)))
            fam.add(slots, 0, data, inside[-1])
        fresh = filled(fam, prior, data, inside)
        for name in fam.kept:
            np.testing.assert_allclose(
                getattr(slots, name), getattr(fresh, name), rtol=1e-10, atol=1e-11
            )
        for i in range(len(data)):
            np.testing.assert_allclose(
                fam.log_predictive(prior, slots, 0, data, i),
                fam.log_predictive(prior, fresh, 0, data, i),
                rtol=1e-9,
                atol=1e-9,
            )
        np.testing.assert_allclose(
            fam.log_marginal(prior, slots, 0),
            fam.log_marginal(prior, fresh, 0),
            rtol=1e-9,
            atol=1e-9,
        )
    for i in inside:
        fam.remove(slots, 0, data, i)
    same(fam, slots, fam.init_stats(prior, 2))


def check_block(fam, prior, data):
    "The block given what is there is the ratio of marginals, and leaves no trace."
    n = len(data)
    slots, kept = (filled(fam, prior, data, range(n // 2)) for _ in range(2))
    for idx in (np.arange(n // 2, n), np.array([n - 1]), np.arange(0)):
        block = fam.log_block(prior, slots, 0, data, idx)
        same(fam, slots, kept)
        both = filled(fam, prior, data, [*range(n // 2), *idx])
        ratio = fam.log_marginal(prior, both, 0) - fam.log_marginal(prior, kept, 0)
        np.testing.assert_allclose(block, ratio, rtol=1e-9, atol=1e-10)
        one = fam.log_predictive(
            prior, slots, 0, data, n - 1
        )  # the constants are as good as before, too
        np.testing.assert_allclose(one, fam.log_predictive(prior, kept, 0, data, n - 1), rtol=1e-12)


def check_empty(fam, prior, data):
    "Empty slots are alike (marginal 1, prior predictive), also after a clear or a move."
    n = len(data)
    fresh = fam.init_stats(prior, 4)
    alone = [fam.log_marginal(prior, filled(fam, prior, data, [i]), 0) for i in range(n)]
    slots = filled(fam, prior, data, range(n), k=1, capacity=4)
    for k in (1, 3):
        fam.log_predictive(
            prior, slots, k, data, 0
        )  # whatever is kept of either slot is now of no use
    fam.move(slots, 1, 3)
    expected = filled(fam, prior, data, range(n), k=3, capacity=4)
    same(fam, slots, expected)
    np.testing.assert_allclose(
        fam.log_predictive(prior, slots, 3, data, 1),
        fam.log_predictive(prior, expected, 3, data, 1),
        rtol=1e-13,
    )
    fam.move(slots, 3, 3)  # onto itself: nothing happens
    same(fam, slots, expected)
    for k in range(4):
        if k == 3:
            fam.clear(slots, 3)
        assert abs(fam.log_marginal(prior, slots, k)) < 1e-12
        found = [fam.log_predictive(prior, slots, k, data, i) for i in range(n)]
        np.testing.assert_allclose(found, alone, rtol=1e-10, atol=1e-10)
    same(fam, slots, fresh)


IDENTITIES = [check_parts, check_chain_rule, check_add_remove, check_block, check_empty]


# --- draws: for likelihoods with explicit parameters ----------------------------------------------
#
# Where the truth is drawn from two candidates, the probability of the first given what was seen
# must be calibrated:
# the mean of (it was the first) - p, and of that times any function of p, is 0. All of these are
# bounded, so that no
# tail spoils the test, and it knows neither what an observation is nor over what to sum.


def calibrated(truth, log_odds):
    "Assert that `truth`, 1 or 0, has probability sigmoid(log_odds)."
    truth, p = np.array(truth, float), 1 / (1 + np.exp(-np.clip(log_odds, -500, 500)))
    assert (p * (1 - p)).sum() > 5, "nothing to learn from this"
    for h in (np.ones(len(p)), 2 * p - 1, (2 * p - 1) ** 3):
        z = ((truth - p) * h).sum() / ((p * (1 - p) * h * h).sum() + 1) ** 0.5
        assert abs(z) < 4.5, f"off by {z:.1f} standard errors"


def check_sample(fam, prior, data, n_pairs=150, n_each=20):
    "Samples have the density: which of two components an observation is from."
    rng, truth, log_odds = np.random.default_rng(1), [], []
    slots, params = filled(fam, prior, data[:3]), fam.new_params(prior, 2)
    for _ in range(n_pairs):
        for k in range(2):
            fam.draw(
                rng, prior, slots, 0, params[k:]
            )  # two draws of one posterior, not too far apart
        z = rng.integers(2, size=n_each)
        x = fam.check_data(fam.sample(rng, fam.name_params(prior, params), z), prior)
        truth += (z == 0).tolist()
        log_odds += [
            fam.log_density(prior, params, 0, x, i) - fam.log_density(prior, params, 1, x, i)
            for i in range(n_each)
        ]
    calibrated(truth, log_odds)


def check_predictive(fam, prior, data, n_draws=2500):
    "The predictive is the density given a draw of the parameters: which slot is it from?"
    rng, truth, log_odds = np.random.default_rng(2), [], []
    slots = filled(fam, prior, data[:2])
    fam.add(slots, 1, data, 2)
    for _ in range(n_draws):
        k, params = rng.integers(2), fam.new_params(prior, 1)
        one = filled(fam, prior, data, [0, 1] if k == 0 else [2], capacity=1)
        fam.draw(rng, prior, one, 0, params)
        x = fam.check_data(
            fam.sample(rng, fam.name_params(prior, params), np.zeros(1, np.int64)), prior
        )
        truth.append(k == 0)
        log_odds.append(
            fam.log_predictive(prior, slots, 0, x, 0) - fam.log_predictive(prior, slots, 1, x, 0)
        )
    calibrated(truth, log_odds)


def check_marginal(fam, prior, data, n_draws=2500):
    "The marginal is that of observations that share parameters: one component of six, or two?"
    rng, truth, log_odds = np.random.default_rng(3), [], []
    start = filled(
        fam, prior, data[:3], capacity=1
    )  # known to both, so that priors need not be proper to speak of
    base = fam.log_marginal(prior, start, 0)
    for _ in range(n_draws):
        params = fam.new_params(prior, 2)
        together = rng.random() < 0.5
        for k in range(2):
            fam.draw(rng, prior, start, 0, params[k:])
        x = fam.check_data(
            fam.sample(
                rng, fam.name_params(prior, params), np.repeat([0, 0 if together else 1], 3)
            ),
            prior,
        )
        both = np.concatenate([data[:3], x])
        all_of, first, second = (
            fam.log_marginal(prior, filled(fam, prior, both, idx, capacity=1), 0) - base
            for idx in (range(9), range(6), [0, 1, 2, 6, 7, 8])
        )
        truth.append(together)
        log_odds.append(all_of - first - second)
    calibrated(truth, log_odds)


def check_posterior(fam, prior, data, n_draws=2500):
    "Given the data, true parameters and a draw from their posterior fit equally well on average."
    rng, wins = np.random.default_rng(4), []
    start = filled(fam, prior, data[:3], capacity=1)
    for _ in range(n_draws):
        params = fam.new_params(prior, 2)
        fam.draw(rng, prior, start, 0, params)
        x = fam.check_data(
            fam.sample(rng, fam.name_params(prior, params[:1]), np.zeros(4, np.int64)), prior
        )
        slots = filled(fam, prior, np.concatenate([data[:3], x]), capacity=1)
        fam.draw(rng, prior, slots, 0, params[1:])
        fit = np.array(
            [[fam.log_density(prior, params, k, x, i) for i in range(4)] for k in range(2)]
        )
        new = [fam.log_density(prior, params, k, data, len(data) - 1) for k in range(2)]
        wins.append(
            [
                np.sign(fit[0].sum() - fit[1].sum()),
                np.sign(fit[0, 0] - fit[1, 0]),
                np.sign(new[0] - new[1]),
            ]
        )
    z = np.sum(wins, axis=0) / np.abs(wins).sum(axis=0).clip(1) ** 0.5
    assert (abs(z) < 4.5).all(), f"off by {z.round(1)} standard errors"


def check_expected(fam, prior, data, n_draws=3000):
    "Means are the averages of draws, under the same names and of the same shapes."
    rng, slots, params, total, square = (
        np.random.default_rng(6),
        filled(fam, prior, data),
        fam.new_params(prior, 2),
        {},
        {},
    )
    means = fam.expected(prior, slots, 1)
    for _ in range(n_draws):
        fam.draw(rng, prior, slots, 0, params)
        named = fam.name_params(prior, params[:1])
        assert {name: a.shape for name, a in named.items()} == {
            name: a.shape for name, a in means.items()
        }
        for name, a in named.items():
            total[name], square[name] = total.get(name, 0) + a, square.get(name, 0) + a * a
    for name, a in means.items():
        mean, finite = total[name] / n_draws, np.isfinite(a)
        error = np.sqrt(np.maximum(square[name] / n_draws - mean**2, 0) / n_draws)
        assert (abs(mean - a)[finite] < 5 * error[finite] + 1e-9 * (1 + abs(a[finite]))).all(), (
            name,
            mean,
            a,
        )


DRAWS = [check_sample, check_predictive, check_marginal, check_posterior, check_expected]


def settings(fam, hyper, argument):
    "Parameters of an estimator for this likelihood with these hyperparameters."
    if "n_words" in hyper:
        return {
            argument: fam.name,
            "eta": hyper.get("eta", 0.5),
            "n_symbols": hyper["n_words"] if fam.scalar else None,
        }
    return {
        argument: fam.name,
        "prior": {name: value for name, value in hyper.items() if name != "n_dims"} or None,
    }


def log_marginal_of(fam, prior, data):
    "The log marginal of some rows of data, as a function of their numbers."
    return lambda rows: (
        fam.log_marginal(prior, filled(fam, prior, data, rows, capacity=1), 0) if len(rows) else 0.0
    )
