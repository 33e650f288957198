"""Frames, columns and lists of words, of all libraries that are there, as documents."""

import logging

import numpy as np
import pytest

from hdp_nb import HDP, LDA, OnlineHDP, VariationalHDP
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.order import order_groups

TEXTS = ["the ship sailed the sea", "a ship at sea in a storm", "bread and wine and bread"] * 12
TEXTS += ["wine with bread and cheese"] * 12
N = len(TEXTS)


def frame(library, columns):
    made = pytest.importorskip(
        {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}[library]
    )
    return made.table(columns) if library == "arrow" else made.DataFrame(columns)


def column(library, values):
    made = pytest.importorskip(
        {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}[library]
    )
    return made.array(values) if library == "arrow" else made.Series(values)


def model(**settings):
    return HDP(n_iter=10, n_chains=1, moves=0, random_state=0, **settings)


@pytest.fixture(scope="module")
def fitted():
    return model().fit(TEXTS)


LIBRARIES = ["pandas", "polars", "arrow"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_one_column_of_texts_is_taken(library, fitted, caplog):
    alone = frame(library, {"text": TEXTS})
    other = frame(library, {"id": list(range(N)), "who": ["a", "b"] * (N // 2), "text": TEXTS})
    caplog.clear()
    for X, is_said in ((alone, False), (other, True), (column(library, TEXTS), False)):
        caplog.clear()
        found = model().fit(X)
        said = [r.getMessage() for r in caplog.records if "column 'text'" in r.getMessage()]
        assert bool(said) == is_said
        assert found.vocabulary_ == fitted.vocabulary_
        assert np.array_equal(found.doc_topic_, fitted.doc_topic_)
        assert np.array_equal(fitted.transform(X), fitted.transform(TEXTS))
        assert fitted.score(X) == fitted.score(TEXTS)


@pytest.mark.parametrize("library", LIBRARIES)
def test_several_columns_of_texts_are_named_and_none_is_quoted(library):
    X = frame(library, {"title": TEXTS, "body": TEXTS[::-1]})
    with pytest.raises(ValueError, match=r"'title', 'body'\): fit\(X\['title'\]\)") as error:
        model().fit(X)
    assert len(str(error.value)) <= 300 and "ship" not in str(error.value)
    X = frame(library, {"who": ["ann", "bob"] * (N // 2), "where": ["x", "y"] * (N // 2)})
    with pytest.raises(ValueError, match=r"labels and none of texts .*fit\(X\['who'\]\)"):
        model().fit(X)


@pytest.mark.parametrize("library", LIBRARIES)
def test_missing_values_are_empty_documents(library):
    found = model().fit(column(library, [*TEXTS, None]))
    assert np.array_equal(found.doc_topic_, model().fit([*TEXTS, ""]).doc_topic_)


def test_missing_values_of_pandas():
    pandas = pytest.importorskip("pandas")
    want = model().fit([*TEXTS, ""]).doc_topic_
    for missing, dtype in ((np.nan, object), (pandas.NA, "string"), (None, "category")):
        X = pandas.Series([*TEXTS, missing], dtype=dtype)
        assert np.array_equal(model().fit(X).doc_topic_, want)


@pytest.mark.parametrize("library", LIBRARIES)
def test_frames_of_counts(library):
    counts = np.random.default_rng(0).integers(0, 4, (20, 5))
    X = frame(library, {f"w{v}": counts[:, v] for v in range(5)})
    found = model().fit(X)
    assert found.vocabulary_ == [f"w{v}" for v in range(5)]
    want = model().fit(Corpus.from_matrix(counts))
    assert np.array_equal(found.doc_topic_, want.doc_topic_)
    assert np.allclose(found.transform(X), want.transform(counts))


@pytest.mark.parametrize("kind", [model(), LDA(2, n_iter=5), VariationalHDP(), OnlineHDP()])
def test_lists_of_words_are_documents(kind, caplog):
    words = [text.split() for text in TEXTS] + [[]]
    found = kind.set_params(random_state=0).fit(words)
    corpus = Corpus.from_docs(words)
    assert found.vocabulary_ == corpus.vocab and len(found.transform(words)) == len(words)
    assert np.array_equal(found.transform(words), found.transform(corpus))
    assert found.score(words) == found.score(corpus)
    caplog.clear()
    with caplog.at_level(logging.WARNING, "hdp_nb"):
        found.transform([["ship", "opera", "violin"], ["opera"]])
    assert (
        "75% of the words are unknown" in caplog.text and "1 of 2 documents without" in caplog.text
    )


def test_columns_of_lists_of_words():
    words = [text.split() for text in TEXTS]
    want = model().fit(words).doc_topic_
    for library in LIBRARIES:
        assert np.array_equal(model().fit(column(library, words)).doc_topic_, want)
    assert np.array_equal(model().fit(tuple(map(tuple, words))).doc_topic_, want)


@pytest.mark.parametrize("library", LIBRARIES)
def test_groups_that_are_dates(library):
    from hdp_nb.models.tree_models import TreeHDP

    days = np.datetime64("2021-01-01") + np.arange(N) % 3
    dates = days.astype(object).tolist()
    tree = TreeHDP(n_iter=4, random_state=0).fit(TEXTS, groups={"day": column(library, dates)})
    assert sorted({label for path in tree.nodes_ for label in path}) == [str(d) for d in days[:3]]
    same = TreeHDP(n_iter=4, random_state=0).fit(TEXTS, groups={"day": days.astype("M8[ns]")})
    assert same.nodes_ == tree.nodes_


def test_a_date_that_pandas_lacks_is_in_a_group_of_its_own():
    pandas = pytest.importorskip("pandas")
    days = pandas.Series(["2021-01-02", pandas.NA, "2020-12-31"], dtype="string")
    found = order_groups(days, by="month")
    assert found.names == ["2020-12", "2021-01", "(missing)"]
    assert found.group.tolist() == [1, 2, 0]
