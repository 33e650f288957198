"""Special functions and draws, against exact counts, SciPy and the distributions they claim."""

import math
import os
import subprocess
import sys
from itertools import permutations, product

import numpy as np
import pytest
from scipy import special, stats

from hdp_nb.utils.special import (
    antoniak,
    antoniak_moments,
    close_curve,
    digamma,
    draw_curve,
    draw_index,
    draw_log_categorical,
    invert_cholesky,
    locate_share,
    log_antoniak,
    log_average,
    log_beta,
    log_curve,
    log_line,
    log_power,
    log_rising,
    log_stirling,
    log_sum_exp,
    power_cdf,
    power_quantile,
    sample_categorical,
    sample_dirichlet,
    sample_log_categorical,
    sample_log_dirichlet,
    sample_sticks,
    trigamma,
    weigh_nodes,
)

TEH_TABLE_1 = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0], [0, 2, 3, 1, 0], [0, 6, 11, 6, 1]]
FINE, WRONG = (
    1e-3,
    1e-6,
)  # a right sampler's p-value is above FINE (seeds are fixed), a control's below WRONG


def chi2_pvalue(draws, p):
    "p-value of whole-number draws against probabilities p, rare outcomes pooled."
    counts = np.bincount(draws, minlength=len(p))
    assert len(counts) == len(p) and counts[p == 0].sum() == 0
    expected = p * len(draws)
    rare = expected < 5
    pooled = [np.append(a[~rare], a[rare].sum()) for a in (counts, expected)]
    keep = pooled[1] > 0
    if keep.sum() == 1:
        return 1.0  # only one thing can happen, and it did
    return stats.chisquare(pooled[0][keep], pooled[1][keep]).pvalue


# --- log_rising, log_stirling ------------------------------------------------------------------


@pytest.mark.parametrize(
    "a, n", list(product([1e-300, 1e-9, 0.5, 3.0, 1e6], [0, 1, 2, 31, 32, 33, 1000])) + [(1e40, 32)]
)
def test_log_rising(a, n):
    exact = math.fsum(math.log(a + i) for i in range(n))
    # beyond 32 factors it is a difference of log-gammas, which loses digits where a is large
    assert log_rising(a, n) == pytest.approx(
        exact, rel=1e-13 if n <= 32 else 1e-13 + 1e-15 * a, abs=1e-13
    )


def test_log_rising_feeds_stirling():
    "Eq 38: the rising factorial is the generating function of the Stirling numbers."
    log_s = log_stirling(60)
    for a, n in product([0.01, 1.0, 12.5], [1, 5, 60]):
        assert log_rising(a, n) == pytest.approx(
            special.logsumexp(log_s[n] + np.arange(61) * math.log(a)), rel=1e-13
        )


def test_stirling_is_the_papers_table_1():
    np.testing.assert_allclose(np.exp(log_stirling(4)), TEH_TABLE_1, rtol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 7])
def test_stirling_counts_permutations_by_cycles(n):
    counted = np.zeros(n + 1)
    for p in permutations(range(n)):
        left, cycles = set(range(n)), 0
        while left:
            i, cycles = left.pop(), cycles + 1
            while p[i] in left:
                i = p[i]
                left.remove(i)
        counted[cycles] += 1
    table = log_stirling(n)
    assert table.shape == (n + 1, n + 1)
    np.testing.assert_allclose(np.exp(table[n]), counted, rtol=1e-13)


def test_stirling_against_exact_integers():
    row = [1]
    for n in range(300):
        row = [(row[m - 1] if m else 0) + (n * row[m] if m <= n else 0) for m in range(n + 2)]
    table = log_stirling(301)[300]
    assert table[0] == -np.inf and table[301] == -np.inf and table[300] == 0
    np.testing.assert_allclose(table[1:300], [math.log(s) for s in row[1:300]], rtol=1e-13)


# --- digamma, trigamma -------------------------------------------------------------------------


def test_digamma_trigamma_against_scipy():
    x = np.concatenate(
        [
            10.0 ** np.linspace(-150, 15, 2001),
            np.linspace(1e-3, 40, 5001),
            1.4616321449683622 + np.linspace(-1e-3, 1e-3, 21),
        ]
    )
    exact = special.digamma(x)
    assert np.all(np.abs([digamma(v) for v in x] - exact) <= 4e-15 * np.maximum(1, np.abs(exact)))
    np.testing.assert_allclose([trigamma(v) for v in x], special.polygamma(1, x), rtol=4e-15)


@pytest.mark.parametrize("f", [digamma, trigamma])
@pytest.mark.parametrize("x", [0.0, -0.5, -3.0, math.nan, -math.inf])
def test_digamma_outside_its_domain_is_nan(f, x):
    assert math.isnan(f(x))


# --- number of occupied tables -----------------------------------------------------------------


def crp_table_counts(n, conc):
    "p(number of tables) by walking through every seating."
    p = np.zeros(n + 1)

    def seat(sizes, prob):
        if sum(sizes) == n:
            p[len(sizes)] += prob
            return
        norm = conc + sum(sizes)
        seat(sizes + [1], prob * conc / norm)
        for t, c in enumerate(sizes):
            seat(sizes[:t] + [c + 1] + sizes[t + 1 :], prob * c / norm)

    seat([], 1.0)
    return p


@pytest.mark.parametrize("n", [0, 1, 2, 6])
@pytest.mark.parametrize("conc", [1e-8, 0.4, 1.0, 25.0])
def test_antoniak_pmf_by_enumeration(n, conc):
    np.testing.assert_allclose(np.exp(log_antoniak(n, conc)), crp_table_counts(n, conc), rtol=1e-12)


@pytest.mark.parametrize("n, conc", [(40, 0.3), (500, 7.0)])
def test_antoniak_pmf_by_convolution_and_by_the_table(n, conc):
    p = np.ones(1)
    for l in range(n):
        p = np.convolve(p, [l / (conc + l), conc / (conc + l)])
    ours = log_antoniak(n, conc)
    np.testing.assert_allclose(np.exp(ours), p, rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(
        ours,
        log_stirling(n)[n] + np.arange(n + 1) * math.log(conc) - log_rising(conc, n),
        rtol=1e-12,
    )
    m = np.arange(n + 1)
    np.testing.assert_allclose(
        antoniak_moments(n, conc), (p @ m, p @ m**2 - (p @ m) ** 2), rtol=1e-9
    )


@pytest.mark.parametrize("n, conc", [(2, 0.5), (9, 1.0), (60, 3.0), (60, 0.05)])
def test_antoniak_draws(n, conc):
    rng = np.random.default_rng(n)
    p, size = np.exp(log_antoniak(n, conc)), 10_000
    assert chi2_pvalue([antoniak(rng, n, conc) for _ in range(size)], p) > FINE
    # control: counting the customer among those already seated
    wrong = (rng.random((size, n)) < conc / (conc + np.arange(1, n + 1))).sum(1)
    p[0], p[1:] = (
        1e-3,
        p[1:] * (1 - 1e-3),
    )  # so that the control's impossible outcome is merely unlikely
    assert chi2_pvalue(wrong, p) < WRONG


def test_antoniak_edges():
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert antoniak(rng, 0, 1.0) == 0 and antoniak(rng, 1, 1e-320) == 1
    assert rng.bit_generator.state == before  # nothing to decide, no random number spent
    assert antoniak(rng, 1000, 0.0) == 1 and antoniak(rng, 1000, 1e-320) == 1
    assert antoniak(rng, 1000, 1e30) == 1000


def test_issue_prior_100_customers():
    assert antoniak_moments(100, 1.0)[0] == pytest.approx(5.18737751763962, rel=1e-13)


# --- one of K ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "w", [[1.0], [3, 1], [0, 0.2, 0, 5, 1.3, 0], [1e-300, 2e-300], [1e300, 2e300, 1e299]]
)
def test_categorical_draws(w):
    rng, w, size = np.random.default_rng(len(w)), np.array(w, float), 10_000
    p = w / w.sum()
    assert chi2_pvalue([sample_categorical(rng, w) for _ in range(size)], p) > FINE
    with np.errstate(divide="ignore"):
        logw = np.log(p)
    for shift in (0.0, -5000.0, 5000.0):
        moved = logw + shift
        kept = moved.copy()
        draws = [sample_log_categorical(rng, moved) for _ in range(size)]
        assert chi2_pvalue(draws, p) > FINE
        np.testing.assert_array_equal(moved, kept)
        assert log_sum_exp(moved) == pytest.approx(shift, abs=1e-11)


def test_an_index_is_drawn_among_the_first():
    "Never one whose weight is 0, be u a hair too large; entries further on are not read."
    rng, p = np.random.default_rng(3), np.array([0.0, 0.2, 0.0, 5.0, 1.3, 0.0, 99.0])
    draws = [draw_index(rng, p, 6, 6.5) for _ in range(10_000)]
    assert chi2_pvalue(draws, p[:6] / 6.5) > FINE
    wrong = np.array([0.0, 0.4, 0.0, 4.8, 1.3, 0.0])  # the control
    assert chi2_pvalue(draws, wrong / 6.5) < WRONG
    assert {draw_index(rng, p, 6, 1e9) for _ in range(50)} == {4}


def test_log_average():
    for shift in (0.0, -5000.0, 5000.0):
        terms = np.log([1.0, 2.0, 6.0]) + shift
        assert math.isclose(log_average(terms), shift + math.log(3), rel_tol=1e-12)


def test_categorical_control():
    "The test above rejects draws whose weights are off by a twentieth."
    rng, p = np.random.default_rng(0), np.array([0.5, 0.3, 0.2])
    wrong = np.array([0.525, 0.3, 0.175])
    assert chi2_pvalue([sample_categorical(rng, wrong) for _ in range(10_000)], p) < WRONG


def test_categorical_at_the_ends_of_the_uniform():
    "Rounding of the sum does not lead past the end, and a weight of zero is never drawn."

    class Fixed:
        def __init__(self, u):
            self.u = u

        def random(self):
            return self.u

    linear, drawn = (getattr(f, "py_func", f) for f in (sample_categorical, draw_log_categorical))
    logs = lambda rng, logw: drawn(rng, logw)[0]
    for w in ([0.1] * 10, [1 / 3] * 1000, [1.0, 0.0], [0.0, 0.0, 0.3, 0.6, 0.0]):
        w = np.array(w)
        with np.errstate(divide="ignore"):
            logw = np.log(w)
        for u, k in ((0.0, np.flatnonzero(w)[0]), (1 - 2.0**-53, np.flatnonzero(w)[-1])):
            assert linear(Fixed(u), w) == logs(Fixed(u), logw) == k


@pytest.mark.parametrize("w", [[], [0.0, 0.0], [1.0, np.nan], [np.inf, 1.0]])
def test_categorical_refuses(w):
    rng, w = np.random.default_rng(0), np.array(w, float)
    with pytest.raises(ValueError, match="w must have a positive finite sum"):
        sample_categorical(rng, w)
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="logw must have"):
        sample_log_categorical(rng, np.log(w))


def test_log_sum_exp_edges():
    assert log_sum_exp(np.array([])) == -np.inf and log_sum_exp(np.full(3, -np.inf)) == -np.inf
    assert log_sum_exp(np.array([-np.inf, 2.0])) == 2.0


# --- Dirichlet ---------------------------------------------------------------------------------


def dirichlets(rng, a, size, draw=sample_dirichlet):
    out = np.empty((size, len(a)))
    for row in out:
        draw(rng, a, row)
    return out


@pytest.mark.parametrize("a", [[0.01, 0.3, 1.0, 2.5], [5.0, 50.0], [0.5, 0.5, 0.5], [1.0, 1.0]])
def test_dirichlet_marginals_are_beta(a):
    "Entries to the power of their shape, which keeps apart what is too small to store."
    a = np.array(a)
    logs = dirichlets(np.random.default_rng(11), a, 5000, sample_log_dirichlet)
    power = np.minimum(a, 1)
    for k, (s, rest) in enumerate(zip(a, a.sum() - a)):
        cdf = lambda q: stats.beta.cdf(q ** (1 / power[k]), s, rest)
        assert stats.kstest(np.exp(power[k] * logs[:, k]), cdf).pvalue > FINE
    # control: one more or fewer than the shapes say
    wrong = dirichlets(np.random.default_rng(11), a * 1.2 + 0.1, 5000, sample_log_dirichlet)
    p = [
        stats.kstest(
            np.exp(power[k] * wrong[:, k]),
            lambda q: stats.beta.cdf(q ** (1 / power[k]), a[k], a.sum() - a[k]),
        ).pvalue
        for k in range(len(a))
    ]
    assert min(p) < WRONG


def test_dirichlet_covariance():
    a = np.array([0.2, 0.7, 1.6])
    x = dirichlets(np.random.default_rng(12), a, 40_000)
    p, total = a / a.sum(), a.sum()
    np.testing.assert_allclose(x.mean(0), p, atol=0.008)
    np.testing.assert_allclose(np.cov(x.T), (np.diag(p) - np.outer(p, p)) / (total + 1), atol=0.003)


@pytest.mark.parametrize("shape", [0.01, 1e-4, 1e-12, 1e-290])
def test_dirichlet_of_tiny_shapes(shape):
    x = dirichlets(np.random.default_rng(13), np.full(5, shape), 3000)
    assert np.isfinite(x).all()
    np.testing.assert_allclose(x.sum(1), 1, rtol=1e-12)
    assert chi2_pvalue(x.argmax(1), np.full(5, 0.2)) > FINE


def test_dirichlet_zero_shapes_and_in_place():
    a = np.array([0.0, 2.0, 0.0, 1e-3])
    x = dirichlets(np.random.default_rng(14), a, 200)
    assert (x[:, [0, 2]] == 0).all() and np.allclose(x.sum(1), 1)
    one, two = a.copy(), np.empty(4)
    sample_log_dirichlet(np.random.default_rng(15), one, one)
    sample_log_dirichlet(np.random.default_rng(15), a, two)
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("a", [[], [0.0, 0.0], [1.0, -1.0], [1.0, np.nan], [np.inf, 1.0]])
def test_dirichlet_refuses(a):
    with pytest.raises(ValueError, match="a must have"):
        sample_dirichlet(np.random.default_rng(0), np.array(a, float), np.empty(len(a)))


# --- sticks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("conc", [0.05, 1.0, 8.0])
def test_sticks(conc):
    rng, out = np.random.default_rng(16), np.empty((4000, 5))
    rest = np.array([sample_sticks(rng, conc, row) for row in out])
    np.testing.assert_allclose(out.sum(1) + rest, 1, rtol=1e-12)
    left = np.cumsum(np.column_stack([rest, out[:, ::-1]]), axis=1)[
        :, ::-1
    ]  # before each break, summed from the small end
    for k in range(3):
        fraction = left[:, k + 1] / left[:, k]
        assert stats.kstest(fraction, stats.beta(conc, 1).cdf).pvalue > FINE
        assert stats.kstest(fraction, stats.beta(conc * 1.15, 1).cdf).pvalue < WRONG


# --- compiled or not ---------------------------------------------------------------------------


def all_numbers():
    rng, out = np.random.default_rng(17), np.empty(6)
    for _ in range(50):
        yield antoniak(rng, 80, 1.7)
        yield sample_categorical(rng, np.array([0.1, 0, 3, 0.4]))
        yield sample_log_categorical(rng, np.array([-900.0, -901, -np.inf]))
        yield sample_sticks(rng, 0.8, out)
        yield from out
        sample_dirichlet(rng, np.array([0.01, 0.2, 1, 30, 0, 0.5]), out)
        yield from out
        x = 10 * rng.random()
        yield from (digamma(x), trigamma(x), log_rising(x, 9), log_sum_exp(out))
    yield from log_stirling(30).ravel()


def test_same_numbers_compiled_or_not():
    "Bit for bit."
    script = "from test_special import *; print(*[float(v).hex() for v in all_numbers()])"
    plain = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=os.path.dirname(os.path.abspath(__file__)),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert plain.stdout.split() == [float(v).hex() for v in all_numbers()]


@pytest.mark.parametrize(
    "slope, count",
    [
        ((1.9, -1.9, 0.3), (40_000, 39_000, 3)),  # powers too small for a number, not their product
        ((-2.0, 2.0), (60, 50)),
        ((1e290, 1.0), (3, 2)),  # a word that nothing explains but the topic that is weighed
        ((-2.0, -1.99, -2.0), (4, 4, 64)),
    ],
)
def test_weights_of_nodes_that_no_product_holds(slope, count):
    x, slope, count = np.linspace(-0.5, 0.5, 17), np.array(slope), np.array(count, float)
    f = np.where(np.arange(17) == 16, 1.0, 1e-200)  # where the likelihood is smallest, or largest
    begin = np.log(f)
    weigh_nodes(f, x, slope, count, len(count))
    log_f = begin + (count[:, None] * np.log(np.maximum(1 + slope[:, None] * x, 1e-12))).sum(axis=0)
    assert np.isfinite(f).all()
    assert np.allclose(f / f.max(), np.exp(log_f - log_f.max()), rtol=1e-6)


@pytest.mark.parametrize("a, c", [(0.5, 0.3), (1.4, 0.7), (0.2, 0.9)])
def test_density_of_a_power_is_the_slope_of_its_distribution(a, c):
    for u in (1e-6, 1e-4, 0.3, 0.7, 1 - 1e-4, 1 - 1e-6):
        h = 1e-3 * min(u, 1 - u)
        rise = power_cdf(u + h, 1 - u - h, a, c) - power_cdf(u - h, 1 - u + h, a, c)
        assert math.isclose(rise / (2 * h), math.exp(log_power(u, 1 - u, a, c)), rel_tol=1e-4)


@pytest.mark.parametrize("a, c", [(0.5, 0.3), (1.0, 0.7), (0.015, 0.9)])
def test_quantiles_of_a_power_undo_its_distribution(a, c):
    for y in (1e-3, 0.01, 0.2, 0.5, 0.8, 0.99, 1 - 1e-3):
        u, u1 = power_quantile(y, a, c)
        assert math.isclose(power_cdf(u, u1, a, c), y, rel_tol=1e-9)
        assert math.isclose(u + u1, 1, rel_tol=1e-12)
    assert power_quantile(0.0, a, c)[0] == power_quantile(1.0, a, c)[1] == 1e-290
    assert math.isclose(power_cdf(1.0, 1e-300, a, c), 1, rel_tol=1e-9)


def test_a_share_that_is_known_to_be_small_is_drawn_from_those():
    "At either end; a share above the edge has one place, and draws none."
    a, c, edge, rng = 0.5, 0.3, 1e-3, np.random.default_rng(4)
    before = rng.bit_generator.state
    assert locate_share(rng, 0.3, 0.7, a, c, edge) == (power_cdf(0.3, 0.7, a, c), 0.3, 0.7)
    assert rng.bit_generator.state == before
    for u, u1 in ((edge, 1 - edge), (1 - edge, edge)):
        y = np.array([locate_share(rng, u, u1, a, c, edge) for _ in range(2000)])
        top = power_cdf(u, u1, a, c)
        share = y[:, 0] / top if u < u1 else (1 - y[:, 0]) / (1 - top)
        assert stats.kstest(share, "uniform").pvalue > FINE
        assert stats.kstest(share**0.8, "uniform").pvalue < WRONG  # the control
        assert np.allclose([power_quantile(one, a, c) for one in y[:, 0]], y[:, 1:], rtol=1e-9)
        assert (y[:, 1 if u < u1 else 2] <= edge * (1 + 1e-9)).all()


NODES = np.array([0.0, 0.1, 0.3, 0.35, 0.8, 1.0])
HEIGHTS = np.array([0.5, 4.0, 0.0, 2.0, 2.0, 1.0])


def test_a_curve_is_closed():
    f = HEIGHTS.copy()
    area = close_curve(NODES, f)
    assert np.array_equal(f, np.maximum(HEIGHTS / 4, 1e-9))
    assert math.isclose(area, (np.diff(NODES) * (f[1:] + f[:-1]) / 2).sum(), rel_tol=1e-12)


def test_draws_from_a_curve_and_its_density():
    f, rng = HEIGHTS.copy(), np.random.default_rng(5)
    area = close_curve(NODES, f)
    at = np.linspace(0, 1, 2001)
    density = np.interp(at, NODES, f) / area
    assert np.allclose([log_curve(NODES, f, area, one) for one in at], np.log(density))

    def distribution(x):
        "Whole trapezoids to the left of x, and a part of one."
        g = np.clip(np.searchsorted(NODES, x, side="right") - 1, 0, len(NODES) - 2)
        whole = np.append(0, np.cumsum(np.diff(NODES) * (f[1:] + f[:-1]) / 2))
        return (whole[g] + (x - NODES[g]) * (f[g] + np.interp(x, NODES, f)) / 2) / area

    draws = np.array([draw_curve(rng, NODES, f, area) for _ in range(20_000)])
    assert stats.kstest(draws, distribution).pvalue > FINE
    assert stats.kstest(draws, lambda x: distribution(x) ** 1.1).pvalue < WRONG  # the control
    # A straight line has the square root as its quantiles, and no draw is past the end.
    line, ends = np.array([1e-9, 1.0]), np.array([0.0, 1.0])
    u = np.random.default_rng(6).random(100)
    rng = np.random.default_rng(6)
    roots = [draw_curve(rng, ends, line, 0.5) for _ in u]
    assert np.allclose(roots, np.sqrt(u), atol=1e-6) and max(roots) <= 1


@pytest.mark.parametrize(
    "slope, count",
    [
        ((0.5, -0.8), (1, 2)),
        ((0.5, 0.0, -0.8, 1.5), (4, 3, 0, 4)),
        ((0.5, -0.8, 1.9), (5, 13, 64)),
        ((0.9, -0.7) * 12, (3, 4) * 12),  # products are taken apart, not to become too small
    ],
)
def test_weights_of_nodes_and_of_a_line_are_products_of_powers(slope, count):
    x, slope, count = np.linspace(-0.5, 0.5, 9), np.array(slope), np.array(count, float)
    begin = np.linspace(1, 2, 9)
    for n in (len(slope), 1):
        exact = (count[:n, None] * np.log1p(slope[:n, None] * x)).sum(axis=0)
        f = begin.copy()
        weigh_nodes(f, x, slope, count, n)
        assert np.allclose(np.diff(np.log(f)), np.diff(exact + np.log(begin)), rtol=0, atol=1e-9)
        found = [log_line(one, slope, count, n) for one in x]
        assert np.allclose(found, exact, rtol=0, atol=1e-9)
    for m in (2.0, 7.0):  # a factor that would be 0 or less
        assert math.isclose(log_line(2.0, np.array([-0.5]), np.array([m]), 1), m * math.log(1e-12))


def test_log_beta():
    assert math.isclose(log_beta(0.3, 7.0), special.betaln(0.3, 7.0), rel_tol=1e-12)


@pytest.mark.parametrize("D", [1, 2, 4])
def test_the_inverse_of_a_cholesky_factor(D):
    "Above the diagonal all stays as it was."
    X = np.random.default_rng(D).standard_normal((D, D + 2))
    a, scatter = np.full((D, D), 99.0), X @ X.T
    a[np.tril_indices(D)] = scatter[np.tril_indices(D)]
    invert_cholesky(a)
    assert np.allclose(np.tril(a), np.linalg.inv(np.linalg.cholesky(scatter)))
    assert (a[np.triu_indices(D, 1)] == 99).all()
    for wrong in (np.zeros((1, 1)), np.ones((2, 2)), np.array([[1.0, 0.0], [2.0, 1.0]])):
        with pytest.raises(ValueError, match="scale is too small"):
            invert_cholesky(wrong)
