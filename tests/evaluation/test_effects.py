"Effects of covariates: the arithmetic, what is refused by name, and the tables."

import numpy as np
import pandas as pd
import pytest

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.evaluation.effects import effects, make_effects, plot_effects
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.models.variational_models import OnlineHDP

pytest.importorskip("formulaic")


@pytest.fixture(scope="module")
def case():
    corpus, covariates, truth = make_effects(80, 60, random_state=5)
    corpus = Corpus(
        corpus.x,
        np.append(corpus.offsets, corpus.offsets[-1]),  # an empty document
        n_words=corpus.n_words,
    )
    covariates = {name: np.append(column, column[0]) for name, column in covariates.items()}
    model = HDP(sampler="direct", n_iter=60, thin=5, n_jobs=1, random_state=0)
    return model.fit(corpus), covariates, truth


@pytest.fixture(scope="module")
def found(case):
    model, covariates, _ = case
    return effects(model, covariates, "~ party + year")


def test_effects_are_those_of_regressions_of_draws(case, found):
    model, covariates, _ = case
    n = model.consensus().n_components
    assert found.draws.shape == (len(model.samples_), 3, n + 1)
    assert np.allclose(found.draws.sum(axis=2), [[1, 0, 0]])  # proportions sum to 1
    mean, sd, freedom, unsure = found.linear(np.eye(3))
    assert np.allclose(mean, found.estimates) and (sd > 0).all() and (freedom <= 77).all()
    assert ((unsure >= 0) & (unsure <= 1)).all()
    again = effects(model, covariates, "~ party + year", random_state=1)
    assert not np.array_equal(again.draws, found.draws)
    assert abs(again.estimates - found.estimates).max() < 2 * sd.max()


def test_tables_agree(found):
    table = found.table()
    assert isinstance(table, pd.DataFrame) and len(table) == 3 * len(found.topics)
    assert (table.low < table.estimate).all() and (table.estimate < table.high).all()
    wide = found.table(0.99)
    assert (wide.high - wide.low > table.high - table.low).all()
    at = found.at({"party": ["a", "b"]})
    assert np.allclose(at.estimate.to_numpy().reshape(-1, 2).sum(axis=0), 1)
    step = found.contrast({"party": "b"}, {"party": "a"})
    assert np.allclose(step.estimate, found.estimates[1])
    assert "party[T.b]" in repr(found)
    assert len(plot_effects(found, "year", topics=[0, -1]).axes) == 2
    assert len(plot_effects(found, "party").axes) >= 1


def test_groups_widen_intervals_where_documents_repeat(case):
    model, covariates, _ = case
    many = effects(model, covariates, "~ year", groups=np.arange(81) // 3)
    assert many.freedom == 26
    with pytest.raises(ValueError, match="groups must have one label for each of 81 rows"):
        effects(model, covariates, "~ year", groups=[1, 2])
    with pytest.raises(ValueError, match="groups must be more than the 2 columns"):
        effects(model, covariates, "~ year", groups=np.zeros(81))


@pytest.mark.parametrize(
    "formula, match",
    [
        ("~ nope", "formula must be in the names of the covariates .party, year., got '~ nope'"),
        ("party ~ year", "nothing before ~"),
        ("~ year +", "formula must be in the names"),
        ("~ year + I(2 * year)", "got rank 2 of 3 columns"),
        ("~ C(year)", "leave rows to judge|got rank"),
        (7, "formula must be a text"),
    ],
)
def test_bad_formulas_are_named(case, formula, match):
    model, covariates, _ = case
    with pytest.raises(ValueError, match=match):
        effects(model, covariates, formula)


def test_bad_covariates_are_named(case, found):
    model, covariates, _ = case
    with pytest.raises(ValueError, match="one row for each of the 81 documents of the fit, got 80"):
        effects(model, pd.DataFrame(covariates)[1:], "~ year")
    holes = {**covariates, "year": np.where(np.arange(81) == 4, np.nan, covariates["year"])}
    with pytest.raises(ValueError, match="no missing values in 'year', got 1 .rows 4."):
        effects(model, holes, "~ year")
    assert effects(model, holes, "~ party").terms == ["Intercept", "party[T.b]"]
    days = {**covariates, "day": pd.date_range("2020-01-01", periods=81), "t": 1e15 + np.arange(81)}
    assert effects(model, days, "~ year").terms == ["Intercept", "year"]
    with pytest.raises(ValueError, match="must be numbers or labels, got dates in 'day': .* years"):
        effects(model, days, "~ day")
    with pytest.raises(ValueError, match="rank 1 of 2 columns: Intercept, t .numbers that are far"):
        effects(model, days, "~ t")
    with pytest.raises(ValueError, match="columns of one length"):
        effects(model, {"a": [1, 2], "b": [1]}, "~ a")
    with pytest.raises(ValueError, match="covariates must be a data frame"):
        effects(model, [1, 2], "~ a")
    with pytest.raises(ValueError, match="names of covariates"):
        found.at({"yaer": [1]})
    with pytest.raises(ValueError, match="values of 'party' that documents have"):
        found.at({"party": ["c"]})
    with pytest.raises(ValueError, match="level"):
        found.table(1)
    with pytest.raises(ValueError, match="name must be that of a covariate"):
        plot_effects(found, "nope")
    with pytest.raises(ValueError, match="size must be"):
        make_effects(size=0.5)


def test_models_without_several_chains_are_refused(case):
    corpus, covariates, _ = make_effects(20, 20, random_state=0)
    one = HDP(sampler="direct", n_iter=20, n_chains=1, random_state=0).fit(corpus)
    with pytest.raises(ValueError, match="two chains or more for effects.*got 1"):
        effects(one, covariates, "~ year")
    online = OnlineHDP(n_topics=5, n_passes=1, random_state=0).fit(corpus)
    with pytest.raises(ValueError, match="must keep posterior samples for effects, got OnlineHDP"):
        effects(online, covariates, "~ year")


@pytest.fixture(scope="module")
def tree():
    corpus, covariates, _ = make_effects(60, 40, random_state=6)
    corpus = Corpus(
        np.concatenate([np.roll(words, 7 * j) for j, words in enumerate(corpus)]),
        np.arange(0, corpus.n_tokens + 1, 20),
        groups={
            "party": np.repeat(covariates["party"], 2),
            "speech": np.where(np.arange(120) == 5, "", np.repeat(np.arange(60), 2).astype(str)),
        },
        n_words=corpus.n_words,
    )
    return TreeHDP(n_iter=40, thin=4, n_jobs=1, random_state=0).fit(corpus), covariates


def test_effects_on_the_nodes_of_a_tree(tree):
    model, covariates = tree
    speeches = [path for path in model.nodes_ if len(path) == 2]
    rows = pd.DataFrame(speeches, columns=["party", "speech"])
    rows["year"] = covariates["year"][rows.speech.astype(int)]
    found = effects(model, rows, "~ year", nodes="speech")
    assert len(found.data) == 60 and found.draws.shape[1] == 2
    assert np.allclose(found.draws.sum(axis=2), [[1, 0]])
    of_documents = effects(model, {"year": np.repeat(covariates["year"], 2)}, "~ year")
    both = found.linear(np.eye(2))[0][1], of_documents.linear(np.eye(2))[0][1]
    assert abs(both[0] - both[1]).max() < 0.1 and not np.allclose(*both)
    with pytest.raises(ValueError, match="each of the 60 nodes of level 'speech' .*, got 59"):
        effects(model, rows[1:], "~ year", nodes="speech")
    with pytest.raises(ValueError, match=r"order of `model.nodes_`, got '.*' in column 'party'"):
        effects(model, rows[::-1], "~ year", nodes="speech")
    with pytest.raises(ValueError, match="nodes must be a level .* party, speech .*, got 'year'"):
        effects(model, rows, "~ year", nodes="year")


def test_models_without_a_tree_have_no_nodes(case):
    model, covariates, _ = case
    with pytest.raises(
        ValueError, match=r"nodes must be a level .* here none \(HDP\), got 'party'"
    ):
        effects(model, covariates, "~ year", nodes="party")


def test_effects_and_checks_are_of_the_topics_that_are_shown():
    rng = np.random.default_rng(0)
    words = [row.split() for row in ("ship sea storm", "bread wine cheese", "judge court law")]
    texts = [" ".join(rng.choice(words[j % 3], 12)) for j in range(90)]
    model = HDP(n_iter=60, random_state=0).fit(texts)
    assert model.n_topics_ == 3 and model.consensus_as_shown().labels is not None
    x = pd.DataFrame({"x": rng.normal(size=90)})
    merged = model.merge_topics([0, 1]).label_topics({0: "two of three"})
    for edited in (merged, model.drop_topics([0])):
        found = effects(edited, x, "~ x").table()
        labels = found.drop_duplicates("topic").set_index("topic")["label"].to_dict()
        assert labels == {**dict(enumerate(edited.topic_labels_)), -1: "all else"}
        shown = edited.consensus_as_shown()
        assert np.allclose(shown.shares[: shown.n_components], edited.topic_shares_)
    means = lambda it: effects(it, x, "~ 1").table().set_index("topic")["estimate"]
    parts = [means(it) for it in (model, merged)]
    assert abs(parts[1][0] - parts[0][0] - parts[0][1]) < 0.001  # of draws
