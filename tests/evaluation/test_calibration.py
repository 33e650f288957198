"Calibration: simulated corpora have the shape asked for, and short chains are found out."

import numpy as np
import pytest
from scipy.sparse import csr_array

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_signatures
from hdp_nb.evaluation.calibration import _simulate, calibrate, plot_calibration
from hdp_nb.evaluation.effects import make_effects
from hdp_nb.models.consensus import Components
from hdp_nb.models.topic_models import HDP, LDA
from hdp_nb.models.variational_models import OnlineHDP

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")


def held(found):
    rows = found.shares
    return ((rows[:, 1] <= rows[:, 0]) & (rows[:, 0] <= rows[:, 2])).mean()


def test_intervals_hold_the_truth_unless_chains_are_too_short():
    corpus, _ = make_signatures(n_docs=80, doc_len=80, random_state=2)
    options = dict(n_topics=3, init=None, n_jobs=1, random_state=0)
    long = calibrate(LDA(n_iter=200, thin=6, **options).fit(corpus), corpus, 8)
    short = calibrate(LDA(n_iter=4, thin=1, **options).fit(corpus), corpus, 8)
    assert long.found.mean() > 0.9 and held(long) > 0.7 and held(short) < 0.5
    assert long.shares.shape == (24, 5) and long.n_topics.shape == (8, 3)
    assert (long.n_topics[:, 0] == 3).all() and long.coverage()["n_topics"][0] == 1
    table = long.table()
    assert list(table["what"]) == ["n_topics", "shares", "words"]
    assert "8 corpora simulated and fitted" in repr(long)
    assert len(plot_calibration(long).axes) == 3


def test_fits_together_with_the_data_hold_what_the_prior_pulls_away():
    corpus, _ = make_signatures(n_docs=60, doc_len=40, random_state=2)
    options = dict(n_topics=3, eta=0.5, init=None, n_jobs=1, random_state=0)
    model = LDA(n_iter=200, thin=6, **options).fit(corpus)
    alone, together = (calibrate(model, corpus, 8, with_data=which) for which in (False, True))
    words = [found.coverage()["words"][0] for found in (alone, together)]
    assert words[0] < words[1] - 0.02 and words[1] > 0.85
    assert (together.shares[:, 2] - together.shares[:, 1] < 0.5).all()
    short = LDA(n_iter=4, thin=1, **options).fit(corpus)
    assert calibrate(short, corpus, 8, with_data=True).coverage()["words"][0] < 0.75


def test_the_truth_of_fits_together_with_the_data_counts_both():
    corpus = Corpus.from_docs([[0, 0, 1] * 5, [], [2] * 5], n_words=3)
    counts = csr_array(np.array([[10, 0], [5, 0], [0, 5]]))
    weight = np.array([[50.0, 50.0, 0.0]])
    sample = Components(counts, np.full((1, 3), 0.5), np.zeros(2, int), None, weight)
    new, truth, alone, other = (
        part
        for with_data in (True, False)
        for part in _simulate(
            corpus, sample, 1.0, np.zeros(3, int), np.random.default_rng(0), with_data=with_data
        )
    )
    assert new.doc_lengths.tolist() == [15, 0, 5] * 2
    assert np.array_equal(new.x, np.concatenate([corpus.x, alone.x]))
    assert truth.n_k.tolist() == (other.n_k + [15, 5]).tolist() and other.n_k.sum() == 20


def test_an_hdp_and_documents_that_are_empty():
    corpus = Corpus.from_docs([[0, 1, 1, 2] * 5, [], [3, 4, 4] * 6, [0, 3] * 9], n_words=5)
    model = HDP(sampler="direct", n_iter=20, n_jobs=1, random_state=0).fit(corpus)
    found = calibrate(model, corpus, 2)
    assert len(found.n_ranks) == 2 and ((found.n_ranks > 0) & (found.n_ranks < 1)).all()


def test_bad_arguments_are_named():
    corpus, _ = make_signatures(n_docs=20, doc_len=20, random_state=2)
    model = LDA(2, n_iter=10, n_jobs=1, random_state=0).fit(corpus)
    with pytest.raises(ValueError, match="n must be"):
        calibrate(model, corpus, 0)
    with pytest.raises(ValueError, match="level must be above 0"):
        calibrate(model, corpus, 1, level=1.5)
    with pytest.raises(ValueError, match="to calibrate, got OnlineHDP"):
        calibrate(OnlineHDP(n_topics=3, n_passes=1, random_state=0).fit(corpus), corpus)


def test_effects_are_judged_where_a_formula_asks_for_them():
    pytest.importorskip("formulaic")
    corpus, covariates, _ = make_effects(40, 40, n_topics=2, random_state=5)
    model = LDA(2, init=None, n_iter=60, thin=3, n_jobs=1, random_state=0).fit(corpus)
    found = calibrate(model, corpus, 3, covariates=covariates, formula="~ party + year")
    assert found.effects.shape == (12, 3) and list(found.coverage())[-1] == "effects"
    assert found.corpus_of_effect.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    truth, low, high = found.effects.T
    assert (low < high).all() and abs(truth).max() < 0.5
    assert abs(truth.reshape(3, 2, 2).sum(axis=1)).max() < 1e-6  # of two topics: one is the other's
    with pytest.raises(ValueError, match="with_data must be False where a formula is given"):
        calibrate(model, corpus, 1, covariates=covariates, formula="~ year", with_data=True)
    with pytest.raises(ValueError, match="both or neither, got no covariates"):
        calibrate(model, corpus, 1, formula="~ year")
    with pytest.raises(ValueError, match="both or neither, got no formula"):
        calibrate(model, corpus, 1, covariates=covariates)
    pairs = {"pair": np.repeat(np.arange(20), 2).astype(str)}
    with pytest.raises(ValueError, match="hang on single documents.*left all 20 of '~ pair'"):
        calibrate(model, corpus, 1, covariates=pairs, formula="~ pair")
    one = LDA(2, init=None, n_iter=20, n_chains=1, random_state=0).fit(corpus)
    with pytest.raises(ValueError, match="two chains or more for effects"):
        calibrate(one, corpus, 1, covariates=covariates, formula="~ year")
