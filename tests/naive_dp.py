"""The exact posterior of a DP mixture of up to about 8 observations, by listing every partition.

Plain Python and SciPy, sharing no formula with the package: component marginals are written as the
textbook joint densities (a multivariate normal, a multivariate t, ...), not as running statistics.
"""

import math
from typing import NamedTuple

import numpy as np
from naive import partitions
from scipy import integrate, stats
from scipy.special import gammaln, multigammaln

# log p(x_1, ..., x_m) of the members x of one component, its parameter integrated out


def categorical(x, eta, V):
    log_p = 0.0
    for i, word in enumerate(x):
        log_p += math.log((list(x[:i]).count(word) + eta) / (i + V * eta))
    return log_p


def multinomial(x, eta):
    """Rows of counts: the words of all rows in any one order."""
    return categorical(
        [v for row in x for v, count in enumerate(row) for _ in range(count)], eta, x.shape[1]
    )


def normal_known_variance(x, mean, variance, noise):
    """x_i = theta + noise, theta ~ N(mean, variance), each column on its own."""
    m = len(x)
    cov = noise * np.eye(m) + variance
    return sum(stats.multivariate_normal.logpdf(col, np.full(m, mean), cov) for col in x.T)


def normal_inverse_gamma(x, mean, kappa, a, b):
    """Each column on its own: jointly a multivariate t."""
    m = len(x)
    shape = b / a * (np.eye(m) + 1 / kappa)
    return sum(stats.multivariate_t.logpdf(col, np.full(m, mean), shape, df=2 * a) for col in x.T)


def normal_inverse_wishart(x, mean, kappa, df, scale):
    m, d = x.shape
    centre = x.mean(0)
    scatter = (x - centre).T @ (x - centre)
    gap = np.outer(centre - mean, centre - mean)
    after = scale + scatter + kappa * m / (kappa + m) * gap
    return (
        -m * d / 2 * math.log(math.pi)
        + multigammaln((df + m) / 2, d)
        - multigammaln(df / 2, d)
        + df / 2 * np.linalg.slogdet(scale)[1]
        - (df + m) / 2 * np.linalg.slogdet(after)[1]
        + d / 2 * math.log(kappa / (kappa + m))
    )


class Posterior(NamedTuple):
    n_components: np.ndarray  # P(K = 0..n)
    together: np.ndarray  # (n, n): P(z_i = z_j)
    alpha: float  # posterior mean
    log_evidence: float  # log p(x)


def alpha_weights(n, alpha, alpha_prior):
    "Log of E[alpha^K Gamma(alpha)/Gamma(alpha+n)] for K = 1..n, and E[alpha | K], by quadrature."
    if alpha_prior is None:
        log_w = np.arange(1, n + 1) * math.log(alpha) + gammaln(alpha) - gammaln(alpha + n)
        return log_w, np.full(n, alpha)
    prior = stats.gamma(alpha_prior[0], scale=1 / alpha_prior[1])

    def integral(power):  # alpha = e^u: smooth at 0
        return integrate.quad(
            lambda u: math.exp(
                u * (power + 1)
                + prior.logpdf(math.exp(u))
                + gammaln(math.exp(u))
                - gammaln(math.exp(u) + n)
            ),
            -40,
            6,
            limit=500,
            epsabs=0,
            epsrel=1e-9,
        )[0]

    moments = np.array([integral(K) for K in range(1, n + 2)])
    return np.log(moments[:-1]), moments[1:] / moments[:-1]


def posterior(x, log_marginal, alpha=1.0, alpha_prior=None):
    """Exact posterior; `log_marginal` takes the rows of x that share a component."""
    n = len(x)
    log_w, mean_alpha = alpha_weights(n, alpha, alpha_prior)
    blocks = {}  # members -> log of Gamma(size) p(x of the members)

    def block(members):
        if members not in blocks:
            blocks[members] = gammaln(len(members)) + log_marginal(x[list(members)])
        return blocks[members]

    every = list(partitions(n))
    log_p = np.array(
        [
            log_w[max(z)]
            + sum(block(tuple(i for i in range(n) if z[i] == k)) for k in range(max(z) + 1))
            for z in every
        ]
    )
    log_evidence = np.logaddexp.reduce(log_p)
    p = np.exp(log_p - log_evidence)
    z = np.array(every)
    K = z.max(1) + 1
    together = np.einsum("s,sij->ij", p, z[:, :, None] == z[:, None, :])
    return Posterior(
        np.bincount(K, p, n + 1), together, float(p @ mean_alpha[K - 1]), float(log_evidence)
    )
