"Calibration: simulated corpora have the shape asked for, and short chains are found out."

import pytest

from hdp_nb.calibration import calibrate, plot_calibration
from hdp_nb.corpus import Corpus
from hdp_nb.synthetic import make_signatures
from hdp_nb.topic_models import HDP, LDA
from hdp_nb.variational_models import OnlineHDP

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.convergence.ConvergenceWarning")


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


def test_an_hdp_and_documents_that_are_empty():
    corpus = Corpus.from_docs([[0, 1, 1, 2] * 5, [], [3, 4, 4] * 6, [0, 3] * 9], n_words=5)
    model = HDP("direct", n_iter=20, n_jobs=1, random_state=0).fit(corpus)
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
        calibrate(OnlineHDP(3, n_passes=1, random_state=0).fit(corpus), corpus)
