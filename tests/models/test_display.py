"""What a fit shows by default of data with a planted truth: at least what its best chain has."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score

from hdp_nb import HDP, LDA

pytestmark = pytest.mark.filterwarnings(
    "ignore::hdp_nb.mcmc.convergence.ConvergenceWarning", "ignore:.*documents"
)


def short_texts(rng, n_docs=1500, n_topics=6, n_words=300):
    "Texts of three to ten words about one subject each; a quarter of the words are of none."
    base = 1 / np.arange(1, n_words + 1) ** 0.9
    base /= base.sum()
    phi = np.array([rng.dirichlet(0.05 * base * n_words + 1e-3) for _ in range(n_topics)])
    z = rng.integers(n_topics, size=n_docs)
    lengths = rng.integers(3, 11, n_docs)
    counts = [rng.multinomial(n, 0.75 * phi[k] + 0.25 * base) for n, k in zip(lengths, z)]
    return np.array(counts), phi, z


def n_found(phi, topics, least=0.9):
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosine = unit(phi) @ unit(topics).T
    k, l = linear_sum_assignment(cosine, maximize=True)
    return int((cosine[k, l] > least).sum())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n_chains", [2, 3])
def test_short_texts(seed, n_chains):
    "Sweeps alone do not split one topic of documents of six words; annealed moves do."
    X, phi, z = short_texts(np.random.default_rng(seed))
    model = HDP(n_iter=150, n_chains=n_chains, random_state=seed).fit(X)
    assert n_found(phi, model.components_) == 6 and 6 <= model.n_topics_ <= 9
    assert model.topic_shares_.sum() > 0.9
    of_best = model.one_sample()
    best = lambda shown: adjusted_rand_score(z, shown.doc_topic_[:, :-1].argmax(axis=1))
    assert best(model) > 0.6 and best(model) > best(of_best) - 0.03
    assert model.behind_[0] < 0.05  # the chain from one topic
    first = HDP(n_iter=150, n_chains=1, init=1, random_state=seed).fit(X)
    assert "moves_proposed" in first.trace_ and not first.trace_["moves_proposed"].any()
    assert best(first) < best(model) - 0.2


@pytest.mark.parametrize("K", [6, 15])
def test_lda_of_short_texts(K):
    X, phi, z = short_texts(np.random.default_rng(0))
    model = LDA(K, n_iter=150, random_state=0).fit(X)
    assert model.n_topics_ == K and n_found(phi, model.components_) >= (5 if K == 6 else 6)
    assert np.isclose(model.topic_shares_.sum(), 1)
