"""Known clusters: the sampler against its posterior, moves, latent variables, and what it keeps."""

import math

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from hdp_nb.mcmc.chain import run_chain
from hdp_nb.mcmc.exact import joint_distribution_test, partitions
from hdp_nb.mixtures.augmented import AugmentedSampler
from hdp_nb.mixtures.known import FIXED, KnownMixtureSampler, tell_components
from hdp_nb.mixtures.likelihood import multinomial, poisson
from hdp_nb.mixtures.product import as_likelihood
from hdp_nb.mixtures.split_merge import MixtureMoves

RARE = {"rare": {"rate": 1.0}, "absent": {"rate": 40.0}}


def sampler(x, strength=(3, np.inf), b=0.7, alpha=1.2, alpha_prior=None):
    prior = poisson.make_prior(shape=2.0, rate=1.0)
    told = tell_components(poisson, prior, RARE, np.array(strength, float), b)
    return KnownMixtureSampler(poisson, x, prior, alpha, alpha_prior, told=told)


def log_joint(z, x, F, b, alpha):
    "log p(z, x) with two known components, from the definitions, but for a constant."
    n_k, total = np.bincount(z, minlength=F), 0.0
    total += sum(math.lgamma(b + n) - math.lgamma(b) for n in n_k[:F])
    total += sum(math.log(alpha) + math.lgamma(n) for n in n_k[F:])
    for k in np.unique(z):
        told, s = ((1.0, 3), (40.0, FIXED), (0.0, 0))[min(k, 2)], x[z == k]
        shape, rate = 2.0 + told[0] * told[1], 1.0 + told[1]
        total += gammaln(shape + s.sum()) - gammaln(shape)
        total += -shape * np.log1p(len(s) / rate) - s.sum() * math.log(rate + len(s))
    return total


def in_order(z):
    first = {0: 0, 1: 1}
    return tuple(first.setdefault(k, len(first)) for k in z)


@pytest.mark.parametrize("b", [0.7, 3.7])
def test_posterior_with_moves(b):
    "Four counts, every labelling; a sampler with another weight is not there."
    x, seen, n = np.array([0, 1, 7, 38]), {}, 6000
    named = {in_order(z) for z in partitions(4)}
    for z in partitions(4):
        K = max(z) + 1
        for names in np.ndindex(*[3] * K):
            taken = [f for f in names if f < 2]
            if len({*taken}) == len(taken):
                new = iter(range(2, 9))
                number = [f if f < 2 else next(new) for f in names]
                named.add(in_order([number[k] for k in z]))
    log_p = {z: log_joint(np.array(z), x, 2, 0.7, 1.2) for z in named}
    total = logsumexp([*log_p.values()])
    moves, rng = MixtureMoves(sampler(x, b=b), 2, tune=0), np.random.default_rng(0)
    state = moves.init(rng)
    for _ in range(n):
        state, _ = moves.sweep(rng, state)
        z = in_order(state.z.tolist())
        seen[z] = seen.get(z, 0) + 1 / n
    apart = sum(abs(seen.get(z, 0) - math.exp(p - total)) for z, p in log_p.items()) / 2
    assert {*seen} <= named
    assert apart < 0.06 if b == 0.7 else apart > 0.15


def test_contract():
    "Counts equal a recount, known ones stay, the seed gives the same, snapshots restore it."
    x = np.random.default_rng(1).poisson([1] * 20 + [12] * 20)
    moves = MixtureMoves(sampler(x, alpha_prior=(1, 1)).start(9), 2, tune=4)
    chains = [run_chain(moves, np.random.default_rng(1), 12) for _ in range(2)]
    for chain in chains:
        moves.check(chain.state)
        state = chain.state.base
        assert int(state.K[0]) >= 2 and (state.n_k[2 : int(state.K[0])] > 0).all()
        assert state.n_k.sum() == len(x) + 2
    assert np.array_equal(chains[0].state.z, chains[1].state.z)
    one = chains[0].trace["log_joint"]
    assert np.array_equal(one, chains[1].trace["log_joint"])
    kept = moves.snapshot(chains[0].state)
    again = moves.base.state(**kept)
    assert moves.base.info(again)["log_joint"] == pytest.approx(one[-1])
    wrong = chains[0].state.base
    wrong.stats.total[0, 0] += 1
    with pytest.raises(ValueError, match="total"):
        moves.check(chains[0].state)


def test_growth_keeps_what_is_told():
    x = np.arange(0, 400, 4)
    many = sampler(x, alpha=50.0).start(60)
    rng = np.random.default_rng(0)
    state = many.grow(many.state(2 + np.arange(3).repeat(34)[:100], capacity=4))
    assert np.array_equal(state.stats.n[-2:], [3, FIXED])
    for _ in range(3):
        state, _ = many.sweep(rng, state)
        many.check(state)
    assert np.array_equal(state.stats.n[len(state.n_k) :], [3, FIXED])


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [None, "weight", "told"])
def test_geweke(wrong):
    "The concentration is free; controls believe in another weight, or in other rates."

    def draw_prior(rng):
        alpha, z, n_k = rng.gamma(3.0, 0.5), [], [0, 0]
        for _ in range(7):
            p = np.array([0.7 + n_k[0], 0.7 + n_k[1], *n_k[2:], alpha])
            k = int(rng.choice(len(p), p=p / p.sum()))
            n_k += [0] * (k == len(n_k))
            n_k[k] += 1
            z.append(k)
        return np.array(z), alpha

    def draw_data(rng, theta):
        rates = np.append([rng.gamma(5) / 4, rng.gamma(82) / 3], rng.gamma(2.0, size=9))
        return rng.poisson(rates[theta[0]])

    def make(x, alpha):
        prior = poisson.make_prior(shape=2.0, rate=1.0)
        rate = 30.0 if wrong == "told" else 1.0
        known = {"rare": {"rate": rate}, "many": {"rate": 40.0}}
        b = 4.0 if wrong == "weight" else 0.7
        told = tell_components(poisson, prior, known, np.array([3, 2]), b)
        return KnownMixtureSampler(poisson, x, prior, alpha, (3.0, 2.0), told=told)

    def sweep(rng, theta, x):
        own = make(x, theta[1])
        moves = MixtureMoves(own, 2, tune=0)
        state = moves.init(rng)._replace(base=own.state(theta[0]))
        for _ in range(2):
            state, _ = moves.sweep(rng, state)
        return np.array(in_order(state.z.tolist())), float(state.alpha[0])

    def statistics(theta, x):
        z, alpha = theta
        n_k = np.bincount(z, minlength=2)
        return {
            "alpha": alpha,
            "new": float((n_k[2:] > 0).sum()),
            "first": float(n_k[0]),
            "second": float(n_k[1]),
            "sum of the first": float(x[z == 0].sum()),
            "same": float((n_k**2).sum()),
        }

    found = joint_distribution_test(
        np.random.default_rng(3), draw_prior, draw_data, sweep, statistics, n_draws=600, n_rounds=3
    )
    worst = max(map(abs, found.values()))
    assert worst < 4 if wrong is None else worst > 4, found


TABLES = {
    "student": (
        {"mean": [0.0, 1.0], "cov": [1.0, 2.0]},
        lambda r, n: r.normal([0, 1], np.sqrt([1, 2]), (n, 2)),
    ),
    "negative_binomial": ({"rate": [4.0]}, lambda r, n: r.poisson(4, (n, 1))),
    "gamma": ({"shape": 2.0, "rate": 1.0}, lambda r, n: r.gamma(2, 1, (n, 1))),
    "lognormal": ({"log_mean": 0.0, "log_variance": 1.0}, lambda r, n: r.lognormal(0, 1, (n, 1))),
    "von_mises": (
        {"direction": 0.5, "concentration": 3.0},
        lambda r, n: r.vonmises(0.5, 3, (n, 1)),
    ),
    "normal_inverse_gamma": ({"mean": 0.0, "var": 1.0}, lambda r, n: r.normal(0, 1, (n, 1))),
    "normal_known_variance": ({"mean": 0.0}, lambda r, n: r.normal(0, 1, (n, 1))),
    "multinomial": ({"phi": [0.5, 0.3, 0.2]}, lambda r, n: r.multinomial(9, [0.5, 0.3, 0.2], n)),
}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_told_is_what_many_rows_say(name):
    "The posterior mean after being told is that after as many rows of the told distribution."
    fam, (table, draw) = as_likelihood(name), TABLES[name]
    X = draw(np.random.default_rng(0), 4000)
    prior = fam.default_prior(X)
    told = tell_components(fam, prior, {"a": table}, np.array([4000]))
    data, seen = fam.check_data(X, prior), fam.init_stats(prior, 1)
    for i in range(len(data)):
        fam.add(seen, 0, data, i)
    a, b = (fam.expected(prior, stats, 1) for stats in (told.stats, seen))
    for key in a:
        if key not in ("df", "size"):
            # Rows without weights count once; the scale of 10 degrees of freedom is smaller.
            times = 10 / 8 if key == "scale" else 1
            assert np.allclose(times * a[key], b[key], atol=0.15), (key, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["student", "negative_binomial"])
def test_latent_variables(name):
    "Rows of a known cluster with latent variables go there; counts stay right."
    fam, (table, draw) = as_likelihood(name), TABLES[name]
    rng = np.random.default_rng(0)
    X = np.concatenate([draw(rng, 60), draw(rng, 20) + 30])
    prior = fam.default_prior(X)
    told = tell_components(fam, prior, {"a": table}, np.array([100]))
    base = KnownMixtureSampler(fam, X, prior, told=told)
    moves = AugmentedSampler(MixtureMoves(base, 2, tune=10))
    chain = run_chain(moves, rng, 80)
    moves.check(chain.state)
    assert (chain.state.z[:60] == 0).mean() > 0.9 and (chain.state.z[60:] > 0).all()


def test_packed_rows():
    "Counts of words are packed; the chain is that of the plain likelihood, to the last label."
    rng = np.random.default_rng(0)
    X = rng.multinomial(12, [0.6, 0.3, 0.1], 30)
    prior = multinomial.make_prior(n_words=3)
    told = tell_components(multinomial, prior, {"a": {"phi": [0.6, 0.3, 0.1]}}, np.array([50]))
    one = KnownMixtureSampler(multinomial, X, prior, told=told)
    state, _ = one.sweep(np.random.default_rng(1), one.init(np.random.default_rng(0)))
    one.check(state)
    assert (state.z == 0).mean() > 0.8
