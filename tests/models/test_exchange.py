"""Topics out and in: what is read is what was written, and what others need is all there."""

import gzip
import json

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.models.exchange import Topics, read_topics, to_pyldavis, write_topics
from hdp_nb.models.topic_models import HDP

rng = np.random.default_rng(0)
PHI, SHARES = rng.dirichlet(np.ones(6), 3), np.array([0.5, 0.3, 0.2])
WORDS = ["sea", 'a "b", c', "naïve\nword", "x;y", "0", " "]


@pytest.mark.parametrize("name", ["t.csv", "t.json"])
@pytest.mark.parametrize("words", [WORDS, None])
def test_what_is_read_is_what_was_written(tmp_path, name, words):
    model = HDP()  # with results, as fit leaves them
    model.components_, model.topic_shares_, model.vocabulary_ = PHI, SHARES, words
    write_topics(model, tmp_path / name)
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    for path in (tmp_path / name, tmp_path / f"{name}.gz"):
        topics = read_topics(path)
        assert np.array_equal(topics.components_, PHI) and np.array_equal(
            topics.topic_shares_, SHARES
        )
        assert topics.vocabulary_ == words and topics.n_topics_ == 3
    write_topics(topics, tmp_path / "again.json")
    assert read_topics(tmp_path / "again.json").top_words(2) == topics.top_words(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["again.json", name, f"{name}.gz"]
    )


def test_tables_of_others(tmp_path):
    "Counts instead of probabilities, no row of shares, a mark at the beginning."
    (tmp_path / "t.csv").write_text(
        "\ufeffword,first,second\nsea,3,0\nship,1,2\n", encoding="utf-8"
    )
    topics = read_topics(tmp_path / "t.csv")
    assert topics.components_.tolist() == [
        [0.75, 0.25],
        [0, 1],
    ] and topics.topic_shares_.tolist() == [0.5, 0.5]
    assert topics.top_words(1) == [["sea"], ["ship"]] and "2 topics, 2 words" in repr(topics)


def test_tables_open_elsewhere(tmp_path):
    pd = pytest.importorskip("pandas")
    topics = Topics(PHI, SHARES, WORDS)
    write_topics(topics, tmp_path / "t.csv")
    frame = pd.read_csv(tmp_path / "t.csv", index_col="word", keep_default_na=False)
    assert (
        frame.index.tolist() == ["", *WORDS]
        and np.allclose(frame.values[1:].T, PHI, rtol=1e-12)
        and np.allclose(frame.values[0], SHARES)
    )
    write_topics(topics, tmp_path / "t.json")
    assert (
        json.loads((tmp_path / "t.json").read_text())["topics"][1]["probabilities"]
        == PHI[1].tolist()
    )


@pytest.mark.parametrize(
    "name, text",
    [
        ("t.csv", ""),
        ("t.csv", "word,0\n"),
        ("t.csv", "words,0\nsea,1\n"),
        ("t.csv", "word,0\nsea\n"),
        ("t.csv", "word,0\nsea,-1\n"),
        ("t.csv", "word,0\nsea,x\n"),
        ("t.csv", "word,0\nsea,1\nsea,2\n"),
        ("t.csv", "word,0\nsea,nan\n"),
        ("t.csv", 'word,0\n"sea,1\n'),
        ("t.csv", "word,0\nsea,0\n"),
        ("t.json", ""),
        ("t.json", "[]"),
        ("t.json", '{"format": "hdp_nb topics"}'),
        ("t.json", '{"format": "other", "version": 1}'),
        ("t.json", '{"format": "hdp_nb topics", "version": 2, "words": null, "topics": []}'),
        ("t.json", '{"format": "hdp_nb topics", "version": 1, "words": null, "topics": []}'),
    ],
)
def test_bad_files(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=name) as error:
        read_topics(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((PHI[0],), "components"),
        ((-PHI,), "components"),
        (("abc",), "components"),
        (([[1, np.inf]],), "components"),
        (([[0, 0]],), "components"),
        ((PHI, [1, 2]), "shares"),
        ((PHI, [-1, 2, 3]), "shares"),
        ((PHI, None, WORDS[:2]), "vocabulary"),
        ((PHI, None, "abcdef"), "vocab"),
    ],
)
def test_bad_topics(arguments, message):
    with pytest.raises(ValueError, match=message):
        Topics(*arguments)


def test_bad_paths_and_models(tmp_path):
    for call in (
        lambda: write_topics(Topics(PHI), tmp_path / "t.txt"),
        lambda: read_topics(tmp_path / "t.txt"),
    ):
        with pytest.raises(ValueError, match="path must end in .csv or .json"):
            call()
    with pytest.raises(ValueError, match="empty word"):
        write_topics(Topics(PHI, None, ["", *WORDS[1:]]), tmp_path / "t.csv")
    with pytest.raises(ValueError, match="carriage return.*got 'a.*json takes it"):
        write_topics(Topics(PHI, None, ["a\rb", *WORDS[1:]]), tmp_path / "t.csv")
    with pytest.raises(NotFittedError):
        write_topics(HDP(), tmp_path / "t.csv")
    assert repr(Topics([[1, 2]])) == "Topics(1 topic, 2 words)"
    assert not [*tmp_path.iterdir()]


def test_what_pyldavis_asks_for():
    "Its own checks, and no word or document to divide by that is not there."
    bars, truth = make_bars(30, 20, grid=3, random_state=0)
    X = np.pad(
        bars.to_matrix().toarray(), ((0, 1), (0, 2))
    )  # a document without words, words in no document
    topics = Topics(np.pad(truth.phi, ((0, 0), (0, 2))) + 0.01)
    pi = np.append(truth.pi, truth.pi[:1], axis=0)
    for data in (X, Corpus.from_matrix(X)):
        found = to_pyldavis(topics, data, doc_topic=pi)
        K, (D, W) = len(truth.phi), (30, 9)
        assert [
            np.shape(found[name])
            for name in (
                "topic_term_dists",
                "doc_topic_dists",
                "doc_lengths",
                "vocab",
                "term_frequency",
            )
        ] == [(K, W), (D, K), (D,), (W,), (W,)]
        assert np.allclose(found["topic_term_dists"].sum(axis=1), 1) and np.allclose(
            found["doc_topic_dists"].sum(axis=1), 1
        )
        assert np.allclose(
            found["topic_term_dists"][0] / found["topic_term_dists"][0][0],
            topics.components_[0][:9] / topics.components_[0][0],
        )
        assert (
            found["term_frequency"].tolist() == X.sum(axis=0)[:9].tolist()
            and found["doc_lengths"].tolist() == X.sum(axis=1)[:30].tolist()
        )
        assert found["vocab"] == [*"012345678"]
    assert to_pyldavis(topics, X, pi, vocab=[f"w{v}" for v in range(11)])["vocab"][0] == "w0"
    for more in (
        dict(vocab=["a"]),
        dict(doc_topic=pi[1:]),
        dict(doc_topic=pi[:, 1:]),
        dict(doc_topic=None),
    ):
        with pytest.raises(ValueError, match=[*more][0]):
            to_pyldavis(topics, X, **{"doc_topic": pi, **more})


def test_topics_of_gensim():
    corpora = pytest.importorskip("gensim.corpora")
    models = pytest.importorskip("gensim.models")
    corpus = Corpus.from_docs(
        [["sea", "ship", "sea"], ["bread", "wine"], ["wine", "bread", "bread"], ["ship"]] * 5
    )
    bow, id2word = corpus.to_gensim()
    lda = models.LdaModel(
        bow, 2, corpora.Dictionary.from_corpus(bow, id2word), random_state=0, passes=3
    )
    topics = Topics(lda.get_topics(), vocabulary=[id2word[v] for v in range(len(id2word))])
    assert topics.n_topics_ == 2 and topics.top_words(1)[0] == [lda.show_topic(0, 1)[0][0]]
