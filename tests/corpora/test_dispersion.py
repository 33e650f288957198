"""Counts that vary more than a multinomial's: how much, and what a token is worth then."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from hdp_nb import HDP, Corpus, load_model
from hdp_nb.corpora.corpus import coarsen
from hdp_nb.corpora.dispersion import document_powers, estimate_dispersion


def reads(rng, depth, phi, n=60, V=150, K=5):
    theta, programme = rng.dirichlet(np.full(K, 0.7), n), rng.dirichlet(np.full(V, 0.15), K)
    m = np.multiply(depth, (theta @ programme).T).T
    return rng.poisson(m * rng.gamma(1 / phi, phi, m.shape) if phi else m)


@pytest.mark.parametrize("phi", [0.1, 0.5])
@pytest.mark.parametrize("depth", [1e4, 1e6])
def test_the_dispersion_is_found_at_any_depth(depth, phi):
    found = estimate_dispersion(Corpus.from_matrix(reads(np.random.default_rng(1), depth, phi)))
    assert abs(found.phi / phi - 1) < 0.15 and found.rank in (5, 6)
    assert (np.diff(found.by_rank[:5]) < 0).all()  # each programme explains something


@pytest.mark.parametrize("K", [1, 3, 8])
def test_a_multinomial_counts_in_full(K):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        assert (document_powers(Corpus.from_matrix(reads(rng, 1e5, 0, K=K))) == 1).all()


def test_small_counts_are_left_as_they_are():
    "Bursts of words in texts are for topics to explain."
    rng = np.random.default_rng(0)
    counts = rng.poisson(3 * rng.gamma(1, 1, (40, 50)))
    assert (document_powers(Corpus.from_matrix(counts)) == 1).all()


def test_outsized_samples():
    depth = np.repeat([500, 50_000], [194, 6])
    corpus = Corpus.from_matrix(reads(np.random.default_rng(1), depth, 0.3, n=200, V=100, K=4))
    p = document_powers(corpus)
    kept = coarsen(corpus, p).doc_lengths
    assert np.allclose(kept, p * corpus.doc_lengths, atol=1)
    assert kept[194:].mean() < 4 * kept[:194].mean()


@pytest.mark.parametrize(
    "form", [lambda X: X, csr_array, lambda X: X.astype(float), Corpus.from_matrix]
)
def test_the_form_of_the_counts_does_not_matter(form):
    X = reads(np.random.default_rng(2), 6000, 0.3)
    model = HDP(n_iter=10, n_chains=1, random_state=0).fit(form(X))
    expected = document_powers(Corpus.from_matrix(X))
    assert np.allclose(model.power_, expected) and expected.max() < 0.5
    assert model.samples_[0].n_vk.sum() == pytest.approx((expected * X.sum(axis=1)).sum(), abs=30)


def test_five_programmes(tmp_path):
    "By default; with all tokens the same counts make many more topics."
    X = reads(np.random.default_rng(3), 6000, 0.3)
    model = HDP(n_iter=60, n_chains=2, random_state=0).fit(X)
    assert model.n_topics_ == 5
    model.save(tmp_path / "model.npz")
    assert np.array_equal(load_model(tmp_path / "model.npz").power_, model.power_)
    whole = HDP(power=1.0, n_iter=6, n_chains=1, random_state=0).fit(X)
    assert whole.n_topics_ > 8 and (whole.power_ == 1).all()


@pytest.mark.parametrize(
    "power, message",
    [
        ("automatic", "power must be \"auto\" or a number above 0, at most 1, got 'automatic'"),
        (1.5, "power must be"),
        (0, "power must be"),
        (np.full(3, 0.5), "power must be a number or 60 numbers"),
    ],
)
def test_bad_powers(power, message):
    with pytest.raises(ValueError, match=message):
        HDP(power=power).fit(reads(np.random.default_rng(0), 100, 0))


def test_degenerate_counts():
    for X in ([[500, 0], [0, 500]], [[1000]], [[0, 0], [900, 100]], np.full((30, 30), 100)):
        assert (document_powers(Corpus.from_matrix(np.array(X))) == 1).all()
