"Components that all samples agree on: matched, counted, summed up, and refused by name."

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.mixtures.likelihood import likelihoods, register
from hdp_nb.models.consensus import Components, beta_interval, find_consensus, nearest_proportions
from hdp_nb.models.loading import HDPHMM, DPMixture
from hdp_nb.models.matching import match_components
from hdp_nb.models.topic_models import HDP
from hdp_nb.topics.counts import MOST_KEPT, count_documents, documents_by_topic

PHI = np.kron(np.eye(4), np.full(6, 1 / 6))  # four topics of six words each
SIZES = np.array([600, 300, 240, 180])


def draw(rng, n_samples=40, without=0):
    "Samples of four topics in any order; in the first `without` of them the last is in the first."
    samples = []
    for s in range(n_samples):
        n = np.array([rng.multinomial(size, row) for size, row in zip(SIZES, PHI)])
        if s < without:
            n[0], n[3] = n[0] + n[3], 0
        order = rng.permutation(4)
        samples.append(Components(csr_array(n[order].T), np.full((1, 24), 0.1), np.zeros(4, int)))
    return samples


def cosines(words):
    unit = lambda a: a / np.linalg.norm(a, axis=1, keepdims=True)
    return unit(PHI) @ unit(words).T


def test_one_new_topic_beside_known_ones():
    "By itself it would not depart from a corpus of nothing else, and no chain would agree on it."
    rng, samples, own = np.random.default_rng(0), [], np.kron(np.eye(4), [0.5, 0.5])
    for _ in range(12):
        n = np.array([rng.multinomial(size, row) for size, row in zip(SIZES, PHI)])
        documents = np.array([rng.multinomial(*drawn) for drawn in zip(SIZES, own)])
        tables = csr_array(n.T), np.full((1, 24), 0.1), np.zeros(4, int), csr_array(documents.T)
        samples.append(Components(*tables))
    chain = np.repeat([0, 1, 2], 4)
    for n_known in range(4):
        found = find_consensus(samples, chain, n_known=n_known, n_first=n_known)
        assert (found.existence == np.ones(4)).all() and found.rest == 0
        assert np.allclose(found.shares, SIZES / SIZES.sum())


@pytest.mark.parametrize("without", [0, 4, 16, 24])
def test_planted_topics_are_found(without):
    samples = draw(np.random.default_rng(without), without=without)
    found = find_consensus(samples, np.zeros(40, int))
    number = cosines(found.words).argmax(axis=1)
    assert sorted(number) == [0, 1, 2, 3] and len(found.existence) == 4
    assert found.existence[number].tolist() == [1, 1, 1, 1 - without / 40]
    assert found.n_components == 3 + (without < 20)
    assert cosines(found.words).max(axis=1).min() > 0.97
    assert np.isclose(found.shares[number[3]], (1 - without / 40) * 180 / 1320)
    if without:
        assert found.fate(number[3]) == {number[0]: pytest.approx(1, abs=0.02)}
    naive = np.mean([sample.counts.toarray().T for sample in samples], axis=0)
    assert cosines(naive).max(axis=1)[1:].max() < 0.9  # the control: without matching


def test_numbers_do_not_depend_on_the_numbers_of_the_samples():
    rng = np.random.default_rng(1)
    samples = draw(rng, without=10)
    orders = [rng.permutation(4) for _ in samples]
    mixed = [
        sample._replace(counts=csr_array(sample.counts.toarray()[:, order]))
        for sample, order in zip(samples, orders)
    ]
    a, b = (find_consensus(some, np.zeros(40, int)) for some in (samples, mixed))
    assert np.allclose(a.words, b.words) and np.allclose(a.share_draws, b.share_draws)
    assert all(np.array_equal(x[order], y) for x, y, order in zip(a.labels, b.labels, orders))


def test_what_has_no_tokens_is_nothing():
    labels = match_components([np.array([[3, 0], [1, 0]]), np.array([[0, 4], [0, 1]])])
    assert [label.tolist() for label in labels] == [[0, -1], [-1, 0]]


def test_bad_arguments_are_named():
    samples = draw(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="samples must be at least 2 for a consensus, got 1"):
        find_consensus(samples[:1], [0])
    for bad in (0, 1, -0.5, [0.5], None):
        with pytest.raises((ValueError, TypeError), match="least_cosine|NoneType"):
            find_consensus(samples, [0, 0, 0], least_cosine=bad)
    found = find_consensus(samples, [0, 0, 0])
    with pytest.raises(ValueError, match="level must be above 0 and below 1, got 1"):
        found.share_interval(1)
    with pytest.raises(ValueError, match="k must be"):
        found.word_interval(4)
    for call in (found.proportions, found.document_interval):
        with pytest.raises(ValueError, match="takes a consensus with documents; it has none"):
            call()
    low, high = beta_interval([0.0, 1.0, 0.5], [0.0, 0.0, 0.1])
    assert low[0] == high[0] == 0 and low[1] == high[1] == 1 and low[2] < 0.5 < high[2]


def test_documents_are_counted_and_the_corpus_is_left_alone(monkeypatch):
    corpus, _ = make_bars(n_docs=20, doc_len=9, grid=3, random_state=0)
    z, offsets = np.random.default_rng(0).integers(0, 5, corpus.n_tokens), corpus.offsets.copy()
    before = z.copy()

    class Kept:
        doc_data, doc_indices, doc_indptr = count_documents(z, corpus)

    n = documents_by_topic(Kept, 6).toarray()
    for j in range(corpus.n_docs):
        assert n[j].tolist() == np.bincount(z[offsets[j] : offsets[j + 1]], minlength=6).tolist()
    assert np.array_equal(z, before) and np.array_equal(corpus.offsets, offsets)
    assert MOST_KEPT > corpus.n_tokens
    monkeypatch.setattr("hdp_nb.topics.counts.MOST_KEPT", 10)
    Kept.doc_data, Kept.doc_indices, Kept.doc_indptr = count_documents(z, corpus)
    assert documents_by_topic(Kept, 6) is None


def test_without_documents_a_model_has_a_consensus_of_words_alone(monkeypatch):
    monkeypatch.setattr("hdp_nb.topics.counts.MOST_KEPT", 10)
    corpus, _ = make_bars(n_docs=30, doc_len=20, grid=3, random_state=0)
    model = HDP(sampler="direct", init=6, moves=0, n_iter=12, thin=1, n_jobs=1, random_state=0).fit(
        corpus
    )
    found = model.consensus()
    assert found.documents is None and found.words is not None
    assert list(model.topics()["documents"])[-1] == []


def test_clusters_of_a_mixture():
    x = np.repeat([[0.0], [9.0], [20.0]], 30, axis=0) + np.random.default_rng(0).normal(
        size=(90, 1)
    )
    model = DPMixture("normal", n_iter=60, thin=2, n_jobs=1, random_state=0).fit(x)
    found = model.consensus()
    sure = found.existence > 0.9
    assert sure.sum() == 3 and found.n_components == 3
    means = np.sort(found.parameters["mean"][sure].ravel())
    assert np.allclose(means, [0, 9, 20], atol=1)
    assert found.documents.shape == (90, len(sure) + 1)
    assert (
        len({tuple(found.documents[i : i + 30, :3].mean(axis=0).round()) for i in (0, 30, 60)}) == 3
    )
    assert found.words is None
    with pytest.raises(ValueError, match="these are not over words"):
        found.top_words()


def test_intervals_of_the_means_of_clusters():
    """Three clusters far apart, whose rows are known for sure: their means are not.

    The spread of the posterior means over samples, as the control, has next to nothing of that.
    """
    inside, alone, n = 0, 0, 0
    for seed in range(12):
        rng, real = np.random.default_rng(seed), np.array([0.0, 12.0, 24.0])
        x = (real + rng.normal(size=(30, 3))).reshape(-1, 1)
        model = DPMixture("normal", n_iter=40, n_chains=2, n_jobs=1, random_state=seed).fit(x)
        found = model.consensus()
        low, high = (a[:, 0] for a in found.parameter_interval("mean"))
        draws = [sample.parameters["mean"][:, 0] for sample in model._components()[0]]
        spread = np.std([np.sort(a)[:3] for a in draws if len(a) == 3], axis=0)
        for l in range(found.n_components):
            off = np.abs(found.parameters["mean"][l] - real)
            k, n = off.argmin(), n + 1
            inside += low[l] <= real[k] <= high[l]
            alone += off[k] < 1.645 * spread[k]
        sd = found.parameters_sd["mean"][: found.n_components, 0]
        assert ((0.5 < sd * np.sqrt(30)) & (sd * np.sqrt(30) < 2)).all()
    assert n == 36 and 0.8 < inside / n <= 1 and alone / n < 0.3


def test_intervals_of_the_emissions_of_states():
    z, rng = np.repeat(np.arange(8) % 2, 40), np.random.default_rng(0)
    for emission, y in [
        ("normal", rng.normal(np.where(z, 9.0, 0.0))[:, None]),
        ("categorical", 2 * z + (rng.random(len(z)) < 0.3)),
    ]:
        model = HDPHMM(emission=emission, n_iter=60, init=2, moves=0, n_jobs=1, random_state=0)
        found = model.fit(y).consensus()
        name = "mean" if emission == "normal" else "phi"
        low, high = found.parameter_interval(name)
        truth = {"mean": [[0], [9]], "phi": [[0.7, 0.3, 0, 0], [0, 0, 0.7, 0.3]]}[name]
        order = found.parameters[name][:2].argsort(axis=0)[:, -1]
        width = (high - low)[order]
        assert (np.abs(found.parameters[name][order] - truth) < 2 * width).all()
        sd = 1 / np.sqrt(160) if name == "mean" else np.sqrt(0.21 / 160)
        assert 0.5 < width.max() / (3.29 * sd) < 2
    with pytest.raises(
        ValueError, match=r"name must be one of those with draws \(phi\), got 'mean'"
    ):
        found.parameter_interval("mean")


def test_a_likelihood_without_explicit_parameters_has_no_intervals_of_them():
    plain = replace(
        likelihoods["poisson"],
        name="events",
        **dict.fromkeys(("new_params", "draw", "log_density", "name_params")),
    )
    x = np.repeat([[0], [30]], 20, axis=0)
    try:
        found = DPMixture(register(plain).name, n_iter=20, random_state=0).fit(x).consensus()
    finally:
        del likelihoods["events"]
    assert found.parameters["rate"].shape[1] == 1
    assert found.parameter_draws is None and found.parameters_sd is None
    with pytest.raises(ValueError, match=r"one of those with draws \(none\)"):
        found.parameter_interval("rate")


def test_states_of_sequences_in_groups():
    z = np.repeat(np.arange(12) % 2, 20)
    y = z * 2 + np.random.default_rng(0).integers(0, 2, len(z))
    model = HDPHMM(n_iter=60, thin=2, init=2, moves=0, n_jobs=1, random_state=0)
    model.fit(y, lengths=[60] * 4, groups=["b", "a", "b", "a"])
    found = model.consensus()
    assert np.array_equal(found.labels[model.best_][model.samples_[model.best_].z] >= -1, z >= 0)
    rows = found.parameters["phi"][:2]
    assert found.n_components >= 2 and sorted(rows.round().argmax(axis=1) // 2) == [0, 1]
    guess = found.documents[:, :2].argmax(axis=1)
    agree = (guess == z).mean()
    assert max(agree, 1 - agree) > 0.9  # in the order of the data, not of the groups
    model.samples_ = [kept._replace(z=kept.z[:0]) for kept in model.samples_]
    with pytest.raises(ValueError, match="fit must be run again"):
        model.consensus()


def test_what_fit_has_matched_is_what_would_be_matched_again():
    "Also with another cosine, after another fit, and from copies, whose labels nobody knows."
    corpus, _ = make_bars(n_docs=40, doc_len=30, grid=3, random_state=0)
    model = HDP(n_iter=30, n_chains=1, random_state=0).fit(corpus)
    for again in (model.merge_topics([0, 1]), model.fit(corpus[:30])):
        samples, others = again.sampled_components()
        for cosine in (0.75, 0.95):
            new = find_consensus(samples, again.sample_chain_, least_cosine=cosine, **others)
            for _ in range(2):
                found = again.consensus(cosine)
                assert all(map(np.array_equal, found.labels, new.labels))
                assert np.array_equal(found.words, new.words)
                found.labels[0][:] = -1  # whoever gets a consensus may write into it
    with pytest.raises(ValueError, match="at least 2"):
        model.one_sample().consensus()


def test_nearest_proportions_of_rows_that_are_in_one_cluster():
    "Where each draw is one component and no other, the nearest is the most probable one."
    mean = np.array([[0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.0, 1.0, 0.0]])
    near = nearest_proportions(mean, np.sqrt(mean * (1 - mean)))
    assert np.allclose(near, [[1, 0, 0], [0, 0, 1], [0, 1, 0]])


def test_nearest_proportions_are_nearer_to_exposures_that_are_sparse():
    "Means are nearer in squares, these in total variation."
    rng, a = np.random.default_rng(0), np.full(6, 0.2)
    truth = rng.dirichlet(a, 400)
    n = np.array([rng.multinomial(40, row) for row in truth]) + a
    mean = n / n.sum(axis=1, keepdims=True)
    near = nearest_proportions(mean, np.sqrt(mean * (1 - mean) / (n.sum(axis=1)[:, None] + 1)))
    assert np.allclose(near.sum(axis=1), 1)
    assert np.abs(near - truth).sum() < np.abs(mean - truth).sum() - 1
    assert ((near - truth) ** 2).sum() > ((mean - truth) ** 2).sum()


def test_nearest_proportions_need_documents():
    found = find_consensus([Components(np.eye(2)), Components(np.eye(2))], chain=[0, 1])
    with pytest.raises(ValueError, match="nearest_proportions takes a consensus with documents"):
        found.nearest_proportions()
