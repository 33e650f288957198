"Posterior predictive checks: what they see, what they do not, and what is refused by name."

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation.predictive import (
    PredictiveChecks,
    _permuted,
    check_steps,
    check_words,
    mutual_information,
    plot_checks,
    repeat_probability,
    word_information,
)
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.variational_models import OnlineHDP

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")


def corpus_of(bursty, rng):
    phi = rng.dirichlet(np.full(30, 0.2), 2)
    counts = np.zeros((80, 30), int)
    for row in counts:
        for k, n in enumerate(rng.multinomial(80, rng.dirichlet(np.ones(2)))):
            p = rng.standard_gamma(5 * phi[k] + 1e-9) + 1e-300 if bursty else phi[k]
            row += rng.multinomial(n, p / p.sum())
    return counts


def verdicts(found, statistic):
    table = found.table()
    rows = np.array(table["statistic"]) == statistic
    return list(np.array(table["verdict"])[rows])


def fitted(counts):
    return LDA(2, n_iter=60, thin=6, n_jobs=1, random_state=0).fit(counts)


def test_burstiness_is_seen_where_it_is_and_only_there():
    rng = np.random.default_rng(0)
    for bursty in (False, True):
        counts = corpus_of(bursty, rng)
        half = np.arange(80) % 2
        found = check_words(fitted(counts), counts, {"half": half}, n_samples=6)
        assert set(verdicts(found, "burstiness")) == ({"misfit"} if bursty else {"fits"})
        assert set(verdicts(found, "half")) == {"fits"}
        assert ("burstiness: 2 of 2" in found.verdict()) == bursty
    assert len(plot_checks(found).axes) == 3


def test_groups_with_words_of_their_own_are_seen():
    rng = np.random.default_rng(1)
    counts = corpus_of(False, rng)
    half = np.arange(80) % 2
    often, order = np.argsort(-counts.sum(axis=0)), np.arange(30)
    order[often[[0, 20]]] = often[[20, 0]]  # more would be topics of their own
    counts[half == 1] = counts[half == 1][:, order]
    corpus = Corpus.from_matrix(counts, groups={"half": half})
    found = check_words(fitted(corpus), corpus, "half", n_samples=6)
    assert "misfit" in verdicts(found, "half")


def test_numbers_on_tables_that_are_known():
    independent = np.outer([2, 4], [1, 3])
    assert np.isclose(mutual_information(independent), 0)
    assert np.allclose(word_information(independent), 0)
    assert np.isclose(mutual_information(np.eye(4, dtype=int)), np.log(4))
    assert repeat_probability(csr_array([[2, 0], [1, 1]])) == 0.5
    assert np.isnan(repeat_probability(csr_array([[1, 0]])))


def test_steps_with_memory_are_seen():
    rng = np.random.default_rng(2)
    z = np.repeat(np.arange(60) % 2, rng.geometric(0.15, 60))
    e, x = 0.0, []
    for k in z:
        e = 0.7 * e + 0.7 * rng.normal()
        x.append(6.0 * k + e)
    x = np.array(x)
    options = {"sampler": "direct", "kappa": 0, "init": z, "n_iter": 30, "thin": 3}
    model = HDPHMM(emission="normal", **options, n_jobs=1, random_state=0)
    model.fit(x)
    found = check_steps(model, x, n_samples=5)
    assert set(verdicts(found, "succession")) == {"misfit"}
    assert set(verdicts(found, "run lengths")) == {"fits"}
    shuffled = x.copy()  # the control
    for k in (0, 1):
        shuffled[z == k] = rng.permutation(x[z == k])
    found = check_steps(clone(model).fit(shuffled), shuffled, n_samples=5)
    assert set(verdicts(found, "succession")) == {"fits"}
    for other in (x[1:], shuffled, x[::-1], x + 1e-9):
        with pytest.raises(ValueError, match="X must be the .* steps of the fit"):
            check_steps(model, other)


def test_steps_of_the_fit_are_known_again(tmp_path):
    "Symbols, in other lists, from a file; not with other lengths."
    x = np.random.default_rng(4).integers(0, 3, 60)
    model = HDPHMM(n_iter=10, n_chains=1, random_state=0).fit(x, [20, 40])
    model.save(tmp_path / "model.npz")
    for known in (model, HDPHMM.load(tmp_path / "model.npz")):
        for X, lengths in ((x, [20, 40]), ([x[:20], x[20:]], None), (x[:, None], (20, 40))):
            assert check_steps(known, X, lengths, n_samples=2).statistics[0][0] == "run lengths"
        for lengths in (None, [40, 20], [20, 20, 20]):
            with pytest.raises(ValueError, match="in sequences of the same lengths; got others"):
                check_steps(known, x, lengths)


def test_nothing_to_check_is_said():
    none = np.zeros((1, 0, 3))
    found = PredictiveChecks([("documents", "nats")], [], [], none, none[..., None], {})
    assert "nothing to check" in found.verdict()


def test_bad_arguments_are_named():
    counts = corpus_of(False, np.random.default_rng(3))
    model = fitted(counts)
    with pytest.raises(ValueError, match="X must be the documents of the fit, 80 with 6400"):
        check_words(model, counts[:-1])
    with pytest.raises(ValueError, match="documents of the fit, with .* tokens of word 0; got"):
        check_words(model, counts[:, ::-1])
    seeded = HDP(seed_words={"a": [0]}, n_iter=4, n_chains=2, random_state=0).fit(counts)
    assert check_words(seeded, counts, n_samples=2).statistics[0][0] == "documents"
    with pytest.raises(ValueError, match="groups must be among those of X"):
        check_words(model, counts, "party")
    with pytest.raises(ValueError, match=r"groups\['group'\] must have one label for each of 80"):
        check_words(model, counts, [1, 2])
    with pytest.raises(ValueError, match="n_samples"):
        check_words(model, counts, n_samples=0)
    with pytest.raises(ValueError, match="HDP, LDA or TreeHDP for topic checks, got OnlineHDP"):
        check_words(OnlineHDP(n_topics=3, n_passes=1, random_state=0).fit(counts), counts)
    with pytest.raises(ValueError, match="model must be a fitted HDPHMM, got LDA"):
        check_steps(model, counts)


def test_documents_of_a_fit_with_a_power():
    "They are those that the fit was given, and are checked with the counts that it took."
    corpus = make_bars(30, 20, grid=4, random_state=0)[0]
    model = HDP(sampler="direct", power=0.5, eta=0.1, n_iter=40, random_state=0).fit(corpus)
    found = check_words(model, corpus, n_replicates=20)
    assert np.isfinite(found.observed).any()
    with pytest.raises(ValueError, match="must be the documents of the fit"):
        check_words(model, corpus[::-1], n_replicates=20)


@pytest.mark.parametrize("table", [[[1, 2]], [[2, 1]], [[3], [1]], [[4]]])
def test_a_table_with_one_row_or_column_is_the_only_one(table):
    table = csr_array(np.array(table))
    for _ in range(5):
        new = _permuted(table, np.random.default_rng(0))
        assert np.array_equal(new.toarray(), table.toarray())
