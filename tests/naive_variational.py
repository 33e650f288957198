"The variational bound by its definition, on dense arrays."

import numpy as np
from scipy.special import digamma, gammaln


def log_dirichlet(a, log_p):
    return gammaln(a.sum(-1)) - gammaln(a).sum(-1) + ((a - 1) * log_p).sum(-1)


def expected_log(a):
    return digamma(a) - digamma(a.sum(-1, keepdims=True))


def full_bound(X, resp, theta, lam, beta, alpha, eta):
    "Every term of the paper's (2) but beta's, from its definition; theta has K + 1 entries."
    K, log_phi, log_pi = lam.shape[1], expected_log(lam.T), expected_log(theta)
    return (
        np.einsum("jv,jvk,kv", X, resp, log_phi)
        + np.einsum("jv,jvk,jk", X, resp, log_pi[:, :K])
        - np.einsum("jv,jvk->", X, resp * np.log(resp))
        + log_dirichlet(alpha * beta[None], log_pi).sum()
        - log_dirichlet(theta, log_pi).sum()
        + log_dirichlet(np.full((K, len(lam)), eta), log_phi).sum()
        - log_dirichlet(lam.T, log_phi).sum()
    )
