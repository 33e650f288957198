"""Grades of fits whose truth is known, and what is said where there is little to say."""

import warnings

import numpy as np
import pytest

from hdp_nb import HDP, LDA, Corpus, load_model, make_bars
from hdp_nb.corpora.synthetic import make_signatures
from hdp_nb.mcmc.convergence import ConvergenceWarning
from hdp_nb.models.verdict import Shown, give_verdict

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")


@pytest.fixture(scope="module")
def apart():
    "Three topics that are well apart."
    return make_signatures(n_docs=60, doc_len=80, random_state=0)[0]


def test_a_good_fit_is_told_without_a_warning(apart, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = HDP(n_iter=300, random_state=0).fit(apart)
    verdict = model.verdict_
    assert verdict.grade == "agree" and model.converged_ is True and verdict.advice == ""
    assert verdict.found.startswith("The 3 chains agree, on 3 topics that hold ")
    model.save(tmp_path / "model.npz")
    assert load_model(tmp_path / "model.npz").verdict_ == verdict


def test_the_warning_is_the_verdict(apart):
    with pytest.warns(ConvergenceWarning) as caught:
        model = HDP(sampler="direct", moves=0, n_iter=8, random_state=0).fit(apart)
    assert [str(w.message) for w in caught] == [str(model.verdict_)]
    assert model.verdict_.grade != "agree" and model.converged_ is False


@pytest.mark.parametrize("init", [1, 20])
def test_chains_that_began_alike_confirm_little(apart, init):
    model = HDP(init=init, n_iter=300, random_state=0).fit(apart)
    assert model.verdict_.grade == "partly" and model.verdict_.found.endswith(
        "but all began alike."
    )
    assert model.converged_ is True  # of chains from the start that was asked for


def test_one_chain(apart):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = HDP(n_iter=20, n_chains=1, random_state=0).fit(apart)
    assert model.verdict_.grade == "single" and model.converged_ is None
    assert "n_chains=3" in model.verdict_.advice


def test_a_run_that_ended_in_its_burn_in(apart):
    model = HDP(n_iter=4000, burn_in=3999, random_state=0).fit(apart, max_time=0.01)
    assert model.verdict_.grade == "short" and "in its burn-in" in model.verdict_.found


@pytest.mark.parametrize("estimator", [HDP, LDA])
@pytest.mark.parametrize(
    "corpus",
    [
        Corpus.from_docs([[0, 1], [1, 0, 2], [2]], n_words=3),
        Corpus.from_docs([[0, 0, 0], [0]], n_words=1),
        Corpus.from_docs([[0, 1, 2, 3] * 5] * 40, n_words=4),
        Corpus.from_docs([[], [0], []], n_words=1),
        Corpus.from_docs(np.random.default_rng(0).integers(20, size=(30, 40)).tolist(), n_words=20),
    ],
    ids=["tiny", "one word", "copies", "one token", "one topic"],
)
def test_corpora_that_say_little(estimator, corpus):
    "Nothing raises, and every verdict has a sentence."
    params = {} if estimator is HDP else {"n_topics": 2}
    for n_iter in (1, 2, 30):
        model = estimator(**params, n_iter=n_iter, random_state=0).fit(corpus)
        verdict = model.verdict_
        assert verdict.found.endswith(".") and verdict.grade in (
            "agree",
            "partly",
            "behind",
            "short",
            "small",
        )
        assert (verdict.grade == "agree") == (model.converged_ is True)


def test_too_few_words_to_tell_chains_apart():
    "Two words a document, 60 documents: 60 words are hidden, and all chains take part."
    rng = np.random.default_rng(1)
    docs = [rng.choice(5, 2) + 5 * (j % 2) for j in range(60)]
    model = HDP(sampler="direct", moves=0, n_iter=6, random_state=3).fit(
        Corpus.from_docs(docs, n_words=10)
    )
    assert model.verdict_.grade == "small" and "too few words" in model.verdict_.found
    assert {*model.sample_chain_} == {0, 1, 2} and np.isnan(model.behind_).sum() == 2


def test_bars_of_too_few_sweeps_are_not_said_to_agree():
    corpus, _ = make_bars(100, 50, grid=5, random_state=0)
    wrong = HDP(sampler="direct", moves=0, n_iter=20, random_state=0).fit(corpus)
    assert wrong.verdict_.grade != "agree"


def test_what_all_chains_have():
    "A component that one of three chains never has exists in two thirds of the samples."
    from hdp_nb.mcmc.convergence import judge

    table = judge({"share_1": np.full((3, 20), 0.4)})
    shown = Shown(np.array([1.0, 1.0, 2 / 3]), np.array([0.5, 0.45, 0.05]))
    verdict = give_verdict(table, 40, 20, shown=shown)
    assert verdict.found == "The 3 chains agree, on 2 topics that hold 95% of the words."
    shown = shown._replace(share=np.array([0.3, 0.3, 0.4]))
    assert give_verdict(table, 40, 20, shown=shown).grade == "partly"
