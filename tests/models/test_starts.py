"""With how many topics chains begin: by a trial, the same for every seed."""

import numpy as np
import pytest

from hdp_nb import HDP, LDA
from hdp_nb.corpora.synthetic import make_signatures
from hdp_nb.mcmc.convergence import MANY

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")


@pytest.fixture(scope="module")
def three():
    return make_signatures(n_docs=100, doc_len=100, random_state=0)[0]


def begun(model):
    "Numbers of topics after the first sweep."
    return model.traces_["n_topics"][:, 0]


def test_few_topics_are_begun_with_few(three):
    few = HDP(n_iter=100, random_state=0).fit(three)
    many = HDP(n_iter=99, random_state=0).fit(three)  # too short for a trial
    assert few.n_topics_ == 3 and begun(few)[1:].max() < 20 < begun(many)[1:].min()


def test_the_trial_does_not_depend_on_the_seed(three):
    fits = [HDP(n_iter=100, n_chains=1, random_state=seed).fit(three) for seed in (0, 1)]
    assert all(begun(model)[0] < 20 for model in fits)
    assert not np.array_equal(*(model.trace_["log_joint"] for model in fits))


def test_the_trial_leaves_no_trace(three):
    "The chains are those of the number that it finds, and nothing else of it is in them."
    model = HDP(n_iter=100, n_chains=1, random_state=3).fit(three)
    plain = HDP(n_iter=100, n_chains=1, init=10, random_state=3).fit(three)
    assert np.array_equal(model.trace_["log_joint"], plain.trace_["log_joint"])


@pytest.mark.parametrize("more", [{"max_time": 1e-3}, {}])
def test_no_trial_where_there_is_no_time_for_it(three, more):
    n_iter = 100 if more else 20
    model = HDP(n_iter=n_iter, n_chains=1, moves=0, random_state=0).fit(three, **more)
    assert begun(model)[0] > MANY / 3


def test_lda_begins_with_its_topics(three):
    model = LDA(7, n_iter=100, random_state=0).fit(three)
    assert model.n_topics_ == 7


def test_ctrl_c_in_the_trial_ends_the_fit(three, monkeypatch):
    from hdp_nb.models import topic_models

    run = topic_models.run_chains

    def stopped(*args, **more):
        chains = run(*args, **more)
        chains[0].n_done -= 1
        return chains

    monkeypatch.setattr(topic_models, "run_chains", stopped)
    with pytest.raises(KeyboardInterrupt):
        HDP(n_iter=100, random_state=0).fit(three)
