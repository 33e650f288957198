"""corpus: what goes in comes out again, splits lose nothing, bad input is refused by name."""

import csv
import gzip
import itertools
import os
import tracemalloc
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import _safe_indexing

from hdp_nb.corpora.corpus import Corpus, as_corpus
from hdp_nb.corpora.counting import TOKEN
from hdp_nb.corpora.readers import iter_texts, load_corpus, read_ldac, read_text, read_uci
from hdp_nb.corpora.synthetic import make_bars, make_five_topics, make_hdp
from hdp_nb.utils.checks import as_rng
from hdp_nb.utils.files import atomic_write

quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
id_docs = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=6)
any_word = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
line_word = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=4
)
letters = st.text("abcdefghijklmnopqrstuvwxyzäß", min_size=1, max_size=4)


@st.composite
def corpora(draw, words=any_word, vocab=True):
    docs = draw(id_docs)
    vocab = (
        draw(st.lists(words, min_size=10, max_size=12, unique=True))
        if vocab and draw(st.booleans())
        else None
    )
    labels = st.one_of(
        *(
            st.lists(kind, min_size=len(docs), max_size=len(docs))
            for kind in (any_word, st.integers(-9, 2**40))
        )
    )
    groups = draw(st.dictionaries(any_word, labels, max_size=3))
    return Corpus.from_docs(
        docs, vocab, groups, n_words=None if vocab else draw(st.sampled_from([None, 10, 15]))
    )


def rows(corpus):
    return [doc.tolist() for doc in corpus]


def counts(corpus):
    return corpus.to_matrix().toarray().tolist()


# ---- what a corpus is


def test_layout():
    c = Corpus.from_docs(
        [["b", "a"], [], ["a", "c", "a"]], groups={"year": [1, 1, 2], "who": ["x", "y", "x"]}
    )
    assert (
        c.x.tolist() == [1, 0, 0, 2, 0]
        and c.offsets.tolist() == [0, 2, 2, 5]
        and c.vocab == ["a", "b", "c"]
    )
    assert (c.x.dtype, c.offsets.dtype, c.doc_lengths.dtype) == (np.int32, np.int64, np.int64)
    assert (c.n_docs, c.n_tokens, c.n_words, c.shape, len(c)) == (3, 5, 3, (3, 3), 3)
    assert list(c.groups) == ["year", "who"] and c.groups["year"].dtype.kind == "i"
    assert c.word_counts().tolist() == [3, 1, 1]
    assert repr(c) == "Corpus(3 documents, 5 tokens, 3 words; groups: year > who)"
    assert c.to_matrix().toarray().tolist() == [[1, 1, 0], [0, 0, 0], [2, 0, 1]] and isinstance(
        c.to_matrix(), sp.csr_array
    )
    c.to_matrix().sum_duplicates()
    assert c.x.tolist() == [1, 0, 0, 2, 0]  # the matrix shares no memory with the tokens


@pytest.mark.parametrize(
    "change",
    [
        dict(vocab=["a", "b", "d"]),
        dict(groups={"g": [1, 2]}),
        dict(n_words=4, vocab=None),
        dict(x=[0, 1, 1]),
    ],
)
def test_equality_sees_every_part(change):
    parts = dict(x=[0, 1, 2], offsets=[0, 1, 3], vocab=["a", "b", "c"], groups={"g": [1, 1]})
    assert (
        Corpus(**parts) == Corpus(**parts)
        and Corpus(**parts) != Corpus(**parts | change)
        and Corpus(**parts) != 3
    )


@quick
@given(corpora(), st.data())
def test_indexing_is_that_of_a_list(c, data):
    docs, n = rows(c), len(c)
    some = data.draw(st.lists(st.integers(-n, n - 1), max_size=5))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    part = slice(
        *data.draw(st.tuples(*[st.none() | st.integers(-7, 7)] * 2)),
        data.draw(st.sampled_from([None, 2, -1])),
    )
    for key, take in [
        (some, some),
        (np.array(some, int), some),
        (mask, np.flatnonzero(mask)),
        (mask.tolist(), np.flatnonzero(mask)),
        (part, range(n)[part]),
        ((some, ...), some),
    ]:
        sub = c[key]
        assert (
            rows(sub) == [docs[j] for j in take]
            and sub.vocab == c.vocab
            and sub.n_words == c.n_words
        )
        assert {g: v.tolist() for g, v in sub.groups.items()} == {
            g: [v[j] for j in take] for g, v in c.groups.items()
        }
        assert sub == Corpus(
            sub.x, sub.offsets, sub.vocab, sub.groups, n_words=sub.n_words
        )  # it is a right corpus of its own
    assert c[n - 1].tolist() == c[-1].tolist() == docs[-1]


def test_a_part_of_counts_is_counts():
    "Whether or not the tokens were written out: what sampler takes it must not depend on that."
    c = Corpus.from_matrix([[400, 2, 0], [0, 800, 900], [1, 0, 0]])
    first = c[:2]
    assert first.is_counts and first.has_large_counts and first.doc_lengths.tolist() == [402, 1700]
    assert c.x.shape == (2103,) and c.n_tokens == 2103  # written out from here on
    again = c[:2]
    assert again.is_counts and again == first and again.n_tokens == 2102 and again.n_docs == 2
    assert again.word_counts().tolist() == [400, 802, 900]
    assert not Corpus(c.x, c.offsets).is_counts


@pytest.mark.parametrize("key", [7, -8, [7], "a", 1.5, [[0]], [True] * 8])
def test_bad_index(key):
    with pytest.raises(IndexError):
        make_hdp(7, 2)[0][key]


def test_sklearn_splitters_take_a_corpus():
    c = Corpus.from_docs([[i] for i in range(6)])
    train, test = train_test_split(c, test_size=2, random_state=0)
    assert isinstance(train, Corpus) and sorted(rows(train) + rows(test)) == rows(c)
    assert [rows(_safe_indexing(c, test)) for _, test in KFold(3).split(c)] == [
        [[0], [1]],
        [[2], [3]],
        [[4], [5]],
    ]


# ---- from Python objects


@quick
@given(st.lists(st.lists(any_word, max_size=5), min_size=1, max_size=5))
def test_words_in_words_out(docs):
    c = Corpus.from_docs(iter(docs))
    if c.vocab is None:
        assert not any(docs) and c.n_words == 0
    else:
        assert [[c.vocab[w] for w in doc] for doc in c] == docs and c.vocab == sorted(
            {w for doc in docs for w in doc}
        )
        assert rows(Corpus.from_docs(docs, vocab=c.vocab[::-1])) == [
            [c.n_words - 1 - w for w in doc] for doc in rows(c)
        ]


@pytest.mark.parametrize(
    "kind",
    [
        list,
        tuple,
        iter,
        np.array,
        lambda d: np.array(d, np.uint8),
        lambda d: [np.int64(w) for w in d],
    ],
)
def test_documents_of_ids_of_any_kind(kind):
    assert rows(Corpus.from_docs(kind(d) for d in [[3, 0], [1, 1]])) == [[3, 0], [1, 1]]


@quick
@given(corpora())
def test_matrix_round_trip_up_to_order(c):
    assume(c.n_words)  # a matrix without a column is refused
    X = c.to_matrix()
    back = Corpus.from_matrix(X, c.vocab, c.groups)
    assert rows(back) == [sorted(doc) for doc in rows(c)] and (back.to_matrix() != X).nnz == 0
    assert (back.vocab, back.n_words, list(back.groups)) == (c.vocab, c.n_words, list(c.groups))


@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        np.ndarray.tolist,
        np.float32,
        np.uint8,
        sp.csr_matrix,
        sp.csr_array,
        sp.csc_array,
        sp.coo_array,
        sp.lil_array,
        lambda X: sp.csr_array(X.astype(float)),
    ],
)
def test_counts_of_any_kind(kind):
    X = np.array([[0, 2, 1], [0, 0, 0], [3, 0, 0]])
    assert rows(Corpus.from_matrix(kind(X))) == [[1, 1, 2], [], [0, 0, 0]]
    assert Corpus.from_matrix(kind(X), ["a", "b", "c"]).shape == (3, 3)


def test_unsorted_duplicate_and_explicit_zero_entries():
    X = sp.csr_array(
        (np.array([1, 0, 2, 1]), np.array([2, 1, 0, 2]), np.array([0, 3, 4])), shape=(2, 4)
    )
    before = X.indices.copy()
    assert (
        rows(Corpus.from_matrix(X)) == [[0, 0, 2], [2]] and (X.indices == before).all()
    )  # and X was not touched
    X = sp.coo_array((np.array([1, 2]), (np.array([0, 0]), np.array([1, 1]))), shape=(1, 2))
    assert rows(Corpus.from_matrix(X)) == [[1, 1, 1]]


def test_count_vectorizer():
    texts = ["the cat", "", "the dog and the cat"]
    v = CountVectorizer()
    c = Corpus.from_matrix(v.fit_transform(texts), vocab=v.get_feature_names_out())
    assert [[c.vocab[w] for w in doc] for doc in c] == [sorted(t.split()) for t in texts]


def test_data_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 0], "b": [0, 2]})
    c = as_corpus(frame)
    assert c.vocab == ["a", "b"] and rows(c) == [[0], [1, 1]]
    assert Corpus.from_docs(
        [[0], [1]], vocab=frame.columns, groups={"g": pd.Series(["x", "y"])}
    ).groups["g"].tolist() == ["x", "y"]
    with pytest.raises(ValueError, match="X must have the words of vocab"):
        as_corpus(frame[["b", "a"]], vocab=["a", "b"])


def test_gensim_without_gensim():
    bow = [[(0, 2), (3, 1)], [], [(1, 1.0)]]
    assert rows(Corpus.from_gensim(iter(bow))) == [[0, 0, 3], [], [1]]
    c = Corpus.from_gensim(bow, {3: "d", 1: "b", 2: "c", 0: "a", 4: "never"}, {"g": [0, 0, 1]})
    assert c.vocab == ["a", "b", "c", "d", "never"] and c.groups["g"].tolist() == [0, 0, 1]


def test_gensim():
    corpora = pytest.importorskip("gensim.corpora")
    docs = [["the", "cat"], [], ["the", "dog", "the"]]
    d = corpora.Dictionary(docs)
    c = Corpus.from_gensim((d.doc2bow(doc) for doc in docs), d)
    assert [sorted(c.vocab[w] for w in doc) for doc in c] == [sorted(doc) for doc in docs]
    bow, id2word = c.to_gensim()
    assert (
        bow == [d.doc2bow(doc) for doc in docs]
        and corpora.Dictionary.from_corpus(bow, id2word).token2id == d.token2id
    )
    assert Corpus.from_gensim([[(0, 1)]]).to_gensim() == ([[(0, 1)]], None)


def test_a_random_state_of_the_old_kind_is_a_seed():
    draws = [as_rng(np.random.RandomState(seed)).spawn(2)[1].random() for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2]


# ---- bad input: a ValueError that names the argument

good = dict(docs=[[0, 1], [1]], X=[[1, 2], [0, 1]])
huge = sp.csr_array(([2**31], [0], [0, 1]), shape=(1, 1))
BAD = {
    "docs": (
        [
            lambda d=d, **k: Corpus.from_docs(d, **k)
            for d in (
                "abc",
                7,
                [],
                ["abc", "d"],
                [["a"], [0]],
                [[0], ["a"]],
                [["a", 0]],
                [[0.5]],
                [[0, -1]],
                [[2**31]],
                [[2**70]],
                [None],
                [[None]],
                [[[0]]],
                np.array([[0.5]]),
                np.eye(2),
                [["a"], 3],
            )
        ]
        + [lambda: Corpus.from_docs([["a", "x"]], vocab=["a"])]
    ),
    "X": (
        [
            lambda X=X: Corpus.from_matrix(X)
            for X in (
                [[-1]],
                [[0.5]],
                [[np.nan]],
                [[np.inf]],
                [[1e300]],
                [[1j]],
                [1, 2],
                3,
                [],
                [[]],
                np.zeros((0, 3)),
                np.zeros((2, 0)),
                [["a"]],
                [[None]],
                [[1, 2], [3]],
                np.zeros((1, 1, 1)),
                huge,
                sp.csr_array([[1.0, -1.0]]),
                sp.csr_array([[np.nan]]),
                "abc",
            )
        ]
        + [
            lambda X=X, k=k: as_corpus(X, **k)
            for X, k in (
                ([[0, 0]], {}),
                ([[1, 1]], dict(n_words=3)),
                ([[1, 1]], dict(vocab=["a", "b", "c"])),
                (Corpus.from_docs([[]], n_words=2), {}),
                (Corpus.from_docs([["a"]]), dict(vocab=["b"])),
                (Corpus.from_docs([["a"]]), dict(n_words=2)),
                ("sotu", {}),
                (None, {}),
            )
        ]
        + [
            lambda X=X: as_corpus(X)
            for X in (
                ["a b", "c"],
                [["a"], ["b", "c"]],
                [[0, 1], None],
                [[1], 2],
                [np.arange(3), np.arange(2)],
            )
        ]
    ),
    "bow": [
        lambda b=b: Corpus.from_gensim(b)
        for b in (
            [],
            "ab",
            3,
            [[(0, 0.5)]],
            [[(0, -1)]],
            [[(-1, 1)]],
            [[(0,)]],
            [[(0, 1, 2)]],
            [["ab"]],
            [[("a", 1)]],
            [[(0.5, 1)]],
            [3],
            [[(0, np.nan)]],
            [[(0, 2**31)]],
            [[(2**31, 1)]],
            [[(0, 2**80)]],
        )
    ],
    "id2word": [
        lambda: Corpus.from_gensim([[(0, 1)]], {1: "b"}),
        lambda: Corpus.from_gensim([[(0, 1)]], 3),
    ],
    "vocab": (
        [
            lambda v=v: Corpus.from_docs(good["docs"], vocab=v)
            for v in (["a"], ["a", "a"], ["a", 1], ["a", None], "ab", {"a": 0, "b": 1}, 3, [])
        ]
        + [
            lambda v=v: Corpus.from_matrix(good["X"], vocab=v)
            for v in (["a"], ["a", "b", "c"], ["a", "a"])
        ]
        + [lambda v=v: Corpus.from_gensim([[(2, 1)]], v) for v in (["a", "b"],)]
        + [
            lambda: Corpus.from_docs(good["docs"]).write_text("never"),
            lambda: Corpus.from_docs([["a b"]]).write_text("never"),
            lambda: Corpus.from_docs([["a\nb"]]).write_ldac("never"),
            lambda: Corpus.from_docs([["a\rb"]]).write_uci("never"),
        ]
    ),
    "groups": [
        lambda g=g: Corpus.from_docs(good["docs"], groups=g)
        for g in (
            {"g": ["a"]},
            {"g": ["a"] * 3},
            {"g": [1.5, 2]},
            {"g": ["a", 1]},
            {"g": ["a", None]},
            {"g": "ab"},
            {"g": 2},
            {1: ["a", "b"]},
            ["a", "b"],
            {"g": [["a"], ["b"]]},
            {"g": [np.nan, "a"]},
        )
    ],
    "n_words": [lambda n=n: Corpus.from_docs([[3]], n_words=n) for n in (3, 4.5, "a", -1)],
    "x": [
        lambda: Corpus([[0], [1, 2]], [0, 3]),
        lambda: Corpus([0.5], [0, 1]),
        lambda: Corpus([-1], [0, 1]),
        lambda: Corpus([[0]], [0, 1]),
        lambda: Corpus([2**31], [0, 1]),
    ],
    "offsets": [
        lambda o=o: Corpus([0, 1], o)
        for o in ([], [0], [0, 1], [1, 2], [0, 2, 1, 2], [0, 3], [0.0, 2.0], [[0, 2]])
    ],
    "test_size": (
        [
            lambda s=s: Corpus.from_docs([[0]] * 4).split_docs(s)
            for s in (0, 1.0, -1, 1.5, 4, 0.0, "a", None, np.nan, True)
        ]
        + [
            lambda s=s: Corpus.from_docs([[0]] * 4).split_tokens(s)
            for s in (0, 1, 0.0, 1.0, 2, -0.1, "a", None, np.nan)
        ]
    ),
    "random_state": (
        [lambda s=s: as_rng(s) for s in ("a", -1, 1.5)]
        + [lambda: make_bars(2, 2, 2, random_state="a")]
    ),
    "min_count": [lambda c=c: read_text(__file__, min_count=c) for c in (0, 1.5, "a", None)],
    "min_df": [
        lambda c=c: read_text(__file__, min_df=c) for c in (0, 1.5, -0.5, "a", None, True, np.nan)
    ],
    "n_docs": [lambda: make_bars(0), lambda: make_five_topics(2.5), lambda: make_hdp(-1)],
    "doc_len": [
        lambda: make_bars(doc_len=0),
        lambda: make_hdp(2, [1]),
        lambda: make_hdp(2, [1, -1]),
        lambda: make_hdp(1, 2.5),
        lambda: make_hdp(1, "a"),
    ],
    "grid": [lambda: make_bars(grid=0)],
    "n_test": [lambda: make_bars(n_test=-1)],
    "concentration": [
        lambda c=c: make_bars(concentration=c) for c in (0, -1.0, np.nan, np.inf, "a", None)
    ],
    "gamma": [lambda: make_hdp(gamma=0)],
    "alpha": [lambda: make_hdp(alpha=np.nan)],
    "eta": [lambda: make_hdp(eta=-1)],
    "stop_words": [lambda w=w: read_text(__file__, stop_words=w) for w in ("klingon", b"the", 3)],
    "token": [lambda t=t: read_text(__file__, token=t) for t in ("(", None)],
    "column": [
        lambda: load_corpus(Path(__file__).parent, column="text"),
        lambda: load_corpus("sotu", column="text"),
    ],
    "format": [
        lambda: load_corpus(__file__, format="xml"),
        lambda: load_corpus("sotu", min_count=2),
    ],
    "mindf": [
        lambda: load_corpus(__file__, format="text", mindf=2),
        lambda: load_corpus("sotu", mindf=2),
    ],
    "name_or_path": [
        lambda: load_corpus("no-such-corpus"),
        lambda: load_corpus(Path(__file__).parent / "no"),
    ],
}


@pytest.mark.parametrize(
    "name, call",
    [pytest.param(n, c, id=f"{n}-{i}") for n, calls in BAD.items() for i, c in enumerate(calls)],
)
def test_bad_input_is_refused_by_name(name, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError if name == "name_or_path" else ValueError) as e:
        call()
    assert name in str(e.value), f"{name} is not named in: {e.value}"
    assert not list(tmp_path.iterdir())


# ---- splits


@quick
@given(corpora(), st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_split_tokens_partitions_every_document(c, share, seed):
    a, b = c.split_tokens(share, seed)
    for doc, seen, held in zip(rows(c), rows(a), rows(b), strict=True):
        assert sorted(seen + held) == sorted(doc) and len(held) == min(
            np.rint(share * len(doc)), max(len(doc) - 1, 0)
        )
        it = iter(doc)
        assert all(w in it for w in seen)  # in the order of the document
    assert (
        a.vocab == b.vocab == c.vocab
        and list(a.groups) == list(b.groups) == list(c.groups)
        and a.n_words == b.n_words == c.n_words
    )
    assert (a, b) == c.split_tokens(share, seed)


def test_split_tokens_is_fair():
    def held_share(split):
        return np.mean([np.isin(np.arange(5), split(seed)) for seed in range(2000)], axis=0)

    c = Corpus.from_docs([range(5), [5, 6, 7]])
    fair = held_share(lambda seed: c.split_tokens(0.4, seed)[1][0])
    sd = np.sqrt(0.4 * 0.6 / 2000)
    assert np.abs(fair - 0.4).max() < 4.5 * sd
    unfair = held_share(
        lambda seed: np.arange(2) if seed % 4 == 0 else c.split_tokens(0.4, seed)[1][0]
    )
    assert (
        np.abs(unfair - 0.4).max() > 4.5 * sd
    )  # and a split with a liking for the first tokens would be seen


@quick
@given(st.integers(2, 20), st.data(), st.integers(0, 2**32))
def test_split_docs_partitions(n, data, seed):
    size = data.draw(st.integers(1, n - 1) | st.floats(0.01, 0.99))
    c = Corpus.from_docs([[j] for j in range(n)], groups={"g": list(range(n))})
    train, test = c.split_docs(size, seed)
    for part in train, test:
        assert part.x.tolist() == sorted(part.x) == part.groups["g"].tolist()
    assert sorted([*train.x, *test.x]) == list(range(n)) and len(test) == (
        size if isinstance(size, int) else round(n * size)
    )
    assert c.split_docs(size, seed)[1] == test


# ---- files


@quick
@given(corpora())
def test_npz_gives_everything_back(tmp_path, c):
    c.save(tmp_path / "c.npz")
    assert load_corpus(tmp_path / "c.npz") == c
    first = (tmp_path / "c.npz").read_bytes()
    c.save(tmp_path / "c.npz")
    assert (tmp_path / "c.npz").read_bytes() == first  # the same bytes each time
    with np.load(tmp_path / "c.npz", allow_pickle=False) as z:  # plain arrays for everyone
        assert z["x"].tolist() == c.x.tolist() and z["lengths"].tolist() == c.doc_lengths.tolist()


@quick
@given(
    corpora(words=line_word),
    st.sampled_from(
        ["c.ldac", "c.dat", "c.ldac.gz", "docword.c.txt", "docword.c.txt.gz", "counts"]
    ),
)
def test_counts_round_trip(tmp_path, c, name):
    uci = name in ("docword.c.txt", "docword.c.txt.gz", "counts")
    if not uci and c.n_words > (c.x.max(initial=-1) + 1 if c.vocab is None else c.n_words):
        c = Corpus(
            c.x, c.offsets, groups=c.groups
        )  # LDA-C can't say that a nameless word never occurs
    for old in tmp_path.iterdir():
        old.unlink()
    (c.write_uci if uci else c.write_ldac)(tmp_path / name)
    back = load_corpus(tmp_path / name)
    assert rows(back) == [sorted(doc) for doc in rows(c)] and (back.vocab, back.n_words) == (
        c.vocab,
        c.n_words,
    )


@quick
@given(
    st.lists(st.lists(letters, max_size=5), min_size=1, max_size=5).filter(any),
    st.sampled_from(["c.txt", "c.txt.gz"]),
)
def test_text_round_trip(tmp_path, docs, name):
    c = Corpus.from_docs(docs)
    c.write_text(tmp_path / name)
    assert load_corpus(tmp_path / name, token=r"\S+", **ALL_WORDS) == c


@quick
@given(
    corpora(
        words=st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
            min_size=1,
            max_size=4,
        ).filter(lambda w: not any(map(str.isspace, w)))
    )
)
def test_any_words_without_blanks_as_text(tmp_path, c):
    if c.vocab and c.n_tokens:
        c.write_text(tmp_path / "c.txt")
        options = dict(format="text", token=r"\S+", lowercase=False, **ALL_WORDS)
        back = read_text(tmp_path / "c.txt", **options)
        assert [[back.vocab[w] for w in doc] for doc in back] == [
            [c.vocab[w] for w in doc] for doc in c
        ]


def test_known_files(tmp_path):
    (tmp_path / "ap.dat").write_text("2 0:3 4:1\n0\n1 2:1\r\n")
    c = load_corpus(str(tmp_path / "ap.dat"))
    assert rows(c) == [[0, 0, 0, 4], [], [2]] and c.vocab is None and c.n_words == 5
    (tmp_path / "vocab.txt").write_text("a\nb\nc\nd\ne\nf")
    assert load_corpus(tmp_path / "ap.dat", vocab=tmp_path / "vocab.txt").vocab == list("abcdef")
    assert load_corpus(tmp_path / "ap.dat", vocab=list("vwxyz")).vocab == list("vwxyz")
    (tmp_path / "docword.kos.txt").write_text(
        "3\n4\n4\n3 1 1\n1 4 2\n3 2 1\n1 1 1\n"
    )  # in no order at all
    (tmp_path / "vocab.kos.txt").write_text("a\nb\nc\nd\n")
    c = load_corpus(tmp_path / "docword.kos.txt")
    assert [sorted(doc) for doc in rows(c)] == [[0, 3, 3], [], [0, 1]] and c.vocab == list("abcd")
    (tmp_path / "kos.gz").write_bytes(gzip.compress((tmp_path / "docword.kos.txt").read_bytes()))
    assert (load_corpus(tmp_path / "kos.gz").to_matrix() != c.to_matrix()).nnz == 0
    (tmp_path / "t.txt").write_text("The CAT's cat, 9 lives.\n\nÄpfel the\n", encoding="utf-8")
    c = load_corpus(tmp_path / "t.txt", stop_words={"the"})
    assert [[c.vocab[w] for w in doc] for doc in c] == [["cat", "cat", "lives"], [], ["äpfel"]]
    assert load_corpus(tmp_path / "t.txt", min_count=2, stop_words=None).vocab == ["cat", "the"]


def test_sparse_matrices_in_npz(tmp_path):
    numbers = lambda size: np.arange(1, size + 1)
    X = sp.csr_array(sp.random(6, 5, density=0.4, random_state=0, data_rvs=numbers))
    for kind in sp.csr_array, sp.csc_array, sp.coo_array:
        sp.save_npz(tmp_path / "m.npz", kind(X))
        assert (load_corpus(tmp_path / "m.npz").to_matrix() != X.tocsr()).nnz == 0
    X = X.tocsr()
    np.savez(
        tmp_path / "p.npz",
        indptr=X.indptr,
        indices=X.indices.astype(np.uint16),
        counts=X.data.astype(np.uint8),
    )
    (tmp_path / "v.txt").write_text("a\nb\nc\nd\ne\n")
    assert (load_corpus(tmp_path / "p.npz", vocab=tmp_path / "v.txt").to_matrix() != X).nnz == 0


ALL_WORDS = dict(stop_words=None, min_df=1, max_df=1.0)


def refused(call, path):
    "Whether `call` raises a ValueError of one line that names the file."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            call()
    except ValueError as e:
        assert str(path) in str(e) and "\n" not in str(e), str(e)
        return True
    return False


BAD_FILES = {
    "a.ldac": [
        "",
        "x",
        "2 0:1\n",
        "1 0:1 2:1\n",
        "1 0\n",
        "1 0:1:2 3\n",
        "1 -1:1\n",
        "1 0:-1\n",
        "1 0:1.5\n",
        "\n",
        "1 99999999999999999999:1\n",
        "1 0:99999999999999999999\n",
        "1 0:3000000000\n",
        "1 2147483647:1\n",
        "1 ٣:1\n",
        "1 0:1\n\0\n",
    ],
    "docword.a.txt": [
        "",
        "1\n",
        "1\n1\n",
        "1\n1\n1\n",
        "1\n1\n1\n1 1\n",
        "1\n1\n1\n1 1 1 1\n",
        "1\n1\n1\n2 1 1\n",
        "1\n1\n1\n1 2 1\n",
        "1\n1\n1\n0 1 1\n",
        "1\n1\n1\n1 1 -1\n",
        "1\n1\n1\n1 1 1.5\n",
        "1\n1\n1\n1 1 x\n",
        "1\n1\n1\n1 1 1\n1 1 1\n",
        "a\n1\n1\n",
        "0\n1\n0\n",
        "1\n3000000000\n0\n",
        "1\n1\n1\n1 1 3000000000\n",
        "1\n1\n1\n1 1 99999999999999999999\n",
        "-1\n1\n0\n",
        "1\n1\n2\n1 1 1\n1 1\n",
    ],
    "a.txt": ["", "\n", "12 34\n", "2 0:1\n", "7\n3\n"],
    "a.csv": ["", "id,text\n1,sea\n"],
    "a.npz": ["", "PK", "hello"],
}


@pytest.mark.parametrize("name, text", [(n, t) for n, texts in BAD_FILES.items() for t in texts])
def test_bad_files(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert refused(lambda: load_corpus(tmp_path / name), tmp_path / name)
    if name != "a.npz":
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        assert refused(lambda: load_corpus(tmp_path / f"{name}.gz"), tmp_path / f"{name}.gz")


@pytest.mark.parametrize(
    "text, why",
    [
        ("", "the file is empty"),
        ("a,b\n1,sea\n", "'a', 'b'"),
        ("a,text\n1\n", "line 2"),
        ("a,text\n1,sea,ship\n", "line 2"),
        ('a,text\n1,"sea\n', "unexpected end"),
        ("a,text\n", "at least one document|no word"),
        ("a,text\n1,\n", "no word"),
    ],
)
def test_bad_tables(tmp_path, text, why):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(ValueError, match=why):
        load_corpus(tmp_path / "a.csv", column="text")
    assert refused(lambda: load_corpus(tmp_path / "a.csv", column="text"), tmp_path / "a.csv")


@pytest.mark.parametrize(
    "name, options, says",
    [
        (
            "a.csv",
            {},
            (
                "a.csv: column must be the one that holds the documents, one of 'age', 'letter';"
                " got None"
            ),
        ),
        (
            "a.csv",
            dict(column="text"),
            (
                "a.csv: column must be the one that holds the documents, one of 'age', 'letter';"
                " got 'text'"
            ),
        ),
        (
            "a.csv",
            dict(column="letter", vocab=["sea"]),
            (
                "vocab is no option of format 'csv', which takes column, encoding, stop_words,"
                " min_df, max_df, min_count, token, lowercase, phrases, markup; got vocab=['sea']"
            ),
        ),
        (
            "a.txt",
            dict(mindf=2),
            (
                "mindf is no option of format 'text', which takes column, encoding, stop_words,"
                " min_df, max_df, min_count, token, lowercase, phrases, markup; got mindf=2"
            ),
        ),
        (
            "a.txt",
            dict(min_count=9),
            (
                "a.txt: no word is left of 2: 2 texts, 0 words; no stop words, as no language was"
                " recognised; left out: 2 in fewer than 1 documents or less than 9 times;"
                " stop_words, min_df, max_df, min_count and token say which are"
            ),
        ),
        (".", dict(column="text"), "column must be None for a folder, .; got 'text'"),
        ("deep", {}, "deep: a folder must hold .txt files, with one document each; found none"),
    ],
)
def test_a_wrong_option_is_not_called_a_broken_file(tmp_path, monkeypatch, name, options, says):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("age,letter\n3,sea\n")
    Path("a.txt").write_text("sea\nship\n")
    Path("deep").mkdir()
    with pytest.raises(ValueError) as e:
        load_corpus(name, **options)
    assert str(e.value) == says


def test_the_first_column_of_a_table_may_have_no_name(tmp_path):
    (tmp_path / "a.csv").write_text(",letter\n0,sea and ship\n")  # as pandas writes its index
    for options in ({}, {"column": "letter"}):  # which is the only one of texts
        assert load_corpus(tmp_path / "a.csv", **options).groups[""].tolist() == ["0"]


def test_english_stop_words_are_those_of_scikit_learn(tmp_path):
    (tmp_path / "a.txt").write_text("the sea and the ship")
    assert load_corpus(tmp_path / "a.txt", stop_words="english").vocab == ["sea", "ship"]
    assert load_corpus(tmp_path / "a.txt", stop_words=None).vocab == ["and", "sea", "ship", "the"]


def test_bad_folders(tmp_path):
    assert refused(lambda: load_corpus(tmp_path), tmp_path)
    (tmp_path / "a.txt").write_text("sea")
    (tmp_path / "b.txt").write_bytes(b"\xff")
    assert refused(lambda: load_corpus(tmp_path), tmp_path / "b.txt")


def test_a_column_is_counted_as_scikit_learn_counts_it(tmp_path):
    texts = ["The sea, the ship", 'Sea "and" land\n\nand sand', "", "x" * 200_000, "land 12 land"]
    with (
        open(tmp_path / "a.tsv.gz", "wb") as file,
        gzip.open(file, "wt", encoding="utf-8", newline="") as out,
    ):
        table = csv.writer(out, delimiter="\t")
        table.writerows(
            [["year", "text", "note"], *([str(j), text, text] for j, text in enumerate(texts))]
        )
    for options in (
        dict(stop_words=None),
        dict(stop_words=None, min_df=2),
        dict(stop_words=None, min_df=0.4),
        dict(stop_words=None, min_df=1.0),
        dict(stop_words=None, max_df=1),
        dict(stop_words=["the", "and"]),
        dict(stop_words="english"),
    ):
        cut = CountVectorizer(token_pattern=TOKEN, **options)
        try:
            X = cut.fit_transform(texts)
        except ValueError:
            assert refused(
                lambda: load_corpus(tmp_path / "a.tsv.gz", column="text", **options),
                tmp_path / "a.tsv.gz",
            )
            continue
        c = load_corpus(tmp_path / "a.tsv.gz", column="text", **options)
        assert c.vocab == cut.get_feature_names_out().tolist() and (c.to_matrix() != X).nnz == 0
        assert (c.vectorizer.transform(texts) != X).nnz == 0
        assert [*c.groups] == ["year"] and c.groups["year"].tolist() == [
            *"01234"
        ]  # a note as long as a text is no label
    assert [*iter_texts(tmp_path / "a.tsv.gz", "text")] == texts


def test_a_folder_of_texts(tmp_path):
    for name, text in {
        "b.txt": "sea\nship",
        "c.md": "no",
        "deep/a.txt": "land",
        "deep/er/z.txt": "sand",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    c = load_corpus(tmp_path)
    assert rows(c) == [[2, 3], [0], [1]] and c.vocab == ["land", "sand", "sea", "ship"]
    assert {level: labels.tolist() for level, labels in c.groups.items()} == {
        "folder": ["", "deep", "deep/er"],
        "file": ["b.txt", "a.txt", "z.txt"],
    }


def test_vocabulary_that_does_not_match(tmp_path):
    c = Corpus.from_docs([[0, 2]])
    c.write_ldac(tmp_path / "a.ldac")
    c.write_uci(tmp_path / "docword.a.txt")
    sp.save_npz(tmp_path / "m.npz", sp.csr_array(c.to_matrix()))
    for name, vocab in itertools.product(
        ["a.ldac", "docword.a.txt", "m.npz"], [["a"], ["a", "b", "b"]]
    ):
        with pytest.raises(ValueError, match="vocab"):
            load_corpus(tmp_path / name, vocab=vocab)
    (tmp_path / "vocab.a.txt").write_bytes(b"a\nb\n\xff\n")
    assert refused(lambda: load_corpus(tmp_path / "docword.a.txt"), tmp_path / "vocab.a.txt")


def test_foreign_npz(tmp_path):
    path = tmp_path / "f.npz"
    good = dict(
        meta=np.frombuffer(
            b'{"format": "hdp_nb corpus", "version": 1, "n_words": 3, "vocab": null, "groups": []}',
            np.uint8,
        ),
        x=np.array([0, 2], np.uint8),
        lengths=np.array([2], np.uint8),
    )
    np.savez(path, **good)
    assert rows(load_corpus(path)) == [[0, 2]]
    swap = lambda a, b: np.frombuffer(good["meta"].tobytes().replace(a, b), np.uint8)
    for change in [
        dict(meta=swap(b"corpus", b"chain")),
        dict(meta=swap(b'n": 1', b'n": 2')),
        dict(meta=swap(b'ds": 3', b'ds": 2')),
        dict(meta=swap(b"{", b"")),
        dict(meta=swap(b"null", b'["a"]')),
        dict(meta=swap(b"[]", b'[{"name": "g", "labels": ["a"]}]')),
        dict(meta=np.arange(3.0)),
        dict(x=np.array([0, -1])),
        dict(x=np.array([0.5, 1])),
        dict(lengths=np.array([3])),
        dict(lengths=np.array([-1, 3])),
        dict(x=np.array(["a", None], object)),
    ]:
        np.savez(path, **good | change)
        assert refused(lambda: load_corpus(path), path), change
    for arrays in [
        {},
        {"a": np.ones(2)},
        {k: v for k, v in good.items() if k != "x"},
        dict(indptr=[0, 5], indices=[0], counts=[1]),
        dict(indptr=[0, 1], indices=[0], counts=[-1]),
        dict(indptr=[0, 2, 1], indices=[0, 0], counts=[1, 1]),
    ]:
        np.savez(path, **arrays)
        assert refused(lambda: load_corpus(path), path), arrays


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    "One small corpus in every format."
    folder = tmp_path_factory.mktemp("whole")
    c = Corpus.from_docs([["bb", "ab", "bb"], [], ["cc"] * 12], groups={"g": ["x", "x", "y"]})
    (
        c.save(folder / "c.npz"),
        c.write_ldac(folder / "c.ldac"),
        c.write_uci(folder / "docword.c.txt"),
        c.write_text(folder / "c.txt"),
    )
    (
        c.write_ldac(folder / "d.ldac.gz"),
        c.write_uci(folder / "docword.d.txt.gz"),
        c.write_text(folder / "d.txt.gz"),
    )
    return folder, c


@pytest.mark.parametrize(
    "name", ["c.npz", "docword.c.txt", "d.ldac.gz", "docword.d.txt.gz", "d.txt.gz"]
)
def test_truncated_anywhere(whole, tmp_path, name):
    "A file cut off at any byte is refused (plain UCI: but for the bytes of its last number)."
    content = (whole[0] / name).read_bytes()
    load_corpus(whole[0] / name)
    for end in range(len(content) - (3 if name == "docword.c.txt" else 0)):
        (tmp_path / name).write_bytes(content[:end])
        assert refused(lambda: load_corpus(tmp_path / name), tmp_path / name), end


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data(), st.sampled_from(["c.npz", "d.ldac.gz", "docword.d.txt.gz", "d.txt.gz"]))
def test_one_wrong_byte(whole, tmp_path, data, name):
    "Checksums inside the file: a flipped byte is refused, or changes nothing."
    content = bytearray((whole[0] / name).read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    (tmp_path / name).write_bytes(content)
    assert refused(lambda: load_corpus(tmp_path / name), tmp_path / name) or rows(
        load_corpus(tmp_path / name)
    ) == rows(load_corpus(whole[0] / name))


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.binary(max_size=60) | st.text("0123456789:. \nab-", max_size=40).map(str.encode),
    st.sampled_from(["a.npz", "a.ldac", "docword.a.txt", "a.txt", "a"]),
)
@example(b"3\n2\n1\n1000000000000 1 1\n", "a")
def test_garbage_is_refused_or_read(tmp_path, content, name):
    path = tmp_path / name
    path.write_bytes(content)
    refused(
        lambda: as_corpus(load_corpus(path), min_tokens=0), path
    )  # any other exception fails the test


def test_writing_is_all_or_nothing(tmp_path):
    path = tmp_path / "kept"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt):
        with atomic_write(path) as f:
            f.write(b"half")
            raise KeyboardInterrupt
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["kept"]
    with atomic_write(path) as f:
        f.write(b"new")
    assert path.read_text() == "new" and [p.name for p in tmp_path.iterdir()] == ["kept"]
    with pytest.raises(FileNotFoundError):
        Corpus.from_docs([[0]]).save(tmp_path / "no" / "folder.npz")
    for odd in (tmp_path, Path(os.devnull)):
        with pytest.raises(OSError, match="Not a regular file"):
            with atomic_write(odd):
                raise AssertionError
    assert [p.name for p in tmp_path.iterdir()] == ["kept"]


@pytest.mark.skipif(os.name == "nt", reason="needs links, which take a privilege on Windows")
def test_writing_leaves_links_and_the_files_of_others_alone(tmp_path):
    (tmp_path / "far").mkdir()
    for name in ("link", "dangling"):
        (tmp_path / name).symlink_to(Path("far") / name)
    (tmp_path / "far" / "link").write_text("old")
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link.tmp").symlink_to("precious")  # where the temporary file once was
    with (
        atomic_write(tmp_path / "link") as one,
        atomic_write(tmp_path / "link") as two,
        atomic_write(tmp_path / "dangling") as three,
    ):
        one.write(b"one")  # two writers at the same time; this one is closed last
        two.write(b"two")
        three.write(b"three")
        assert len(list((tmp_path / "far").iterdir())) == 4 and len(list(tmp_path.iterdir())) == 5
    assert (
        (tmp_path / "link").is_symlink()
        and (tmp_path / "dangling").is_symlink()
        and (tmp_path / "link.tmp").is_symlink()
    )
    assert {p.name: p.read_text() for p in (tmp_path / "far").iterdir()} == {
        "link": "one",
        "dangling": "three",
    }
    assert (tmp_path / "precious").read_text() == "precious"


def peak(call):
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_large_input_is_never_held_twice(tmp_path):
    "Peak memory while reading stays below twice that of the tokens, which are 4 bytes each."
    n_docs, per_doc, times = 100, 1000, 5
    (tmp_path / "docword.big.txt").write_text(
        f"{n_docs}\n{per_doc}\n{n_docs * per_doc}\n"
        + "".join(f"{j} {w} {times}\n" for j in range(1, n_docs + 1) for w in range(1, per_doc + 1))
    )
    line = f"{per_doc} " + " ".join(f"{w}:{times}" for w in range(per_doc)) + "\n"
    (tmp_path / "big.ldac").write_text(line * n_docs)
    (tmp_path / "big.txt").write_text(
        (" ".join(["abc", "de"] * (per_doc * times // 4)) + "\n") * n_docs
    )
    for read, path, share in [
        (read_uci, "docword.big.txt", 1),
        (read_ldac, "big.ldac", 1),
        (partial(read_text, **ALL_WORDS), "big.txt", 0.5),
    ]:
        c, most = peak(lambda: read(tmp_path / path))
        assert c.n_tokens == n_docs * per_doc * times * share
        assert most < 2 * c.x.nbytes, (path, most, c.x.nbytes)
    words = [str(w) for w in range(per_doc)]
    c, most = peak(lambda: Corpus.from_docs(words * times for _ in range(n_docs)))
    assert c.n_tokens == n_docs * per_doc * times and most < 2 * c.x.nbytes


# ---- made-up sets


def test_bars():
    c, truth = make_bars(n_docs=300, doc_len=40, grid=4, n_test=20, random_state=1)
    assert (
        c.shape == (300, 16)
        and truth.test.shape == (20, 16)
        and (c.doc_lengths == 40).all()
        and (truth.test.doc_lengths == 40).all()
    )
    bars = {tuple(np.flatnonzero(p)) for p in truth.phi}
    assert bars == {tuple(range(4 * i, 4 * i + 4)) for i in range(4)} | {
        tuple(range(i, 16, 4)) for i in range(4)
    }
    assert (
        (truth.phi[truth.z, c.x] == 0.25).all()
        and truth.pi.shape == (300, 8)
        and np.allclose(truth.pi.sum(1), 1)
    )
    shares = np.stack(
        [np.bincount(truth.z[a:b], minlength=8) / 40 for a, b in zip(c.offsets, c.offsets[1:])]
    )
    error = (shares - truth.pi)[truth.pi > 0.02] / np.sqrt(
        (truth.pi * (1 - truth.pi) / 40)[truth.pi > 0.02]
    )
    assert abs(error.mean()) < 0.1 and 0.85 < error.std() < 1.15  # z is drawn from pi
    assert make_bars(5, 5, 3)[1].test is None


def test_five_topics():
    c, truth = make_five_topics(random_state=1)
    assert c.shape == (100, 12) and (c.doc_lengths == 50).all()
    first, second, *rest = truth.phi
    assert (first[2:9] == first.max()).all() and (second[2:9] == second.max()).all()
    assert (
        first[0] > 5 * first[1]
        and second[1] > 5 * second[0]
        and not first[9:].any()
        and not second[9:].any()
    )
    assert not np.array(rest)[:, :9].any() and np.allclose(truth.phi.sum(1), 1)
    assert ((truth.pi > 0).sum(1) <= 2).all() and (truth.phi[truth.z, c.x] > 0).all()
    assert np.allclose(truth.pi.mean(0), 0.2, atol=0.1)


def test_hdp_draw_fits_together():
    c, truth = make_hdp(
        30, [0, *range(29)], n_words=7, gamma=2.0, alpha=1.5, eta=0.3, random_state=5
    )
    assert (
        c.doc_lengths.tolist() == [0, *range(29)]
        and truth.phi.shape == (truth.n_topics, 7)
        and np.allclose(truth.phi.sum(1), 1)
    )
    assert (
        len(truth.k) == 30
        and sum(map(len, truth.k)) == truth.n_tables
        and set(truth.z) == set(range(truth.n_topics))
    )
    for j, (a, b) in enumerate(zip(c.offsets, c.offsets[1:])):
        assert (
            set(truth.t[a:b]) == set(range(len(truth.k[j])))
            and (truth.k[j][truth.t[a:b]] == truth.z[a:b]).all()
        )
    assert (
        make_hdp(random_state=3, gamma=1e-9)[1].n_topics == 1
        and make_hdp(3, 5, random_state=3, alpha=1e9, gamma=1e9)[1].n_topics == 15
    )


def test_hdp_draw_has_the_right_law():
    "P(K = 1) of two documents of two tokens, by hand; and the wrong gamma is noticed."

    def exact(alpha, gamma):
        new = alpha / (1 + alpha)  # the second customer of a restaurant takes a table of their own
        one_dish = {m: np.prod([l / (l + gamma) for l in range(1, m)]) for m in (2, 3, 4)}
        return (
            (1 - new) ** 2 * one_dish[2] + 2 * new * (1 - new) * one_dish[3] + new**2 * one_dish[4]
        )

    n = 4000
    rng = as_rng(0)
    seen = np.mean(
        [
            make_hdp(2, 2, 2, gamma=0.7, alpha=1.6, random_state=rng)[1].n_topics == 1
            for _ in range(n)
        ]
    )

    def off(gamma):
        return abs(seen - exact(1.6, gamma)) / np.sqrt(
            exact(1.6, gamma) * (1 - exact(1.6, gamma)) / n
        )

    assert off(0.7) < 4 and off(1.0) > 4


@pytest.mark.parametrize(
    "make",
    [
        lambda s: make_bars(10, 10, 3, random_state=s),
        lambda s: make_five_topics(random_state=s),
        lambda s: make_hdp(10, 10, random_state=s),
    ],
)
def test_seeds(make):
    assert make(7)[0] == make(7)[0] == make(np.random.default_rng(7))[0] != make(8)[0]
    rng = np.random.default_rng(7)
    assert as_rng(rng) is rng and make(rng)[0] != make(rng)[0]  # a generator goes on


# ---- as_corpus


def test_as_corpus():
    c = Corpus.from_docs([["a", "b"]])
    assert as_corpus(c) is c and as_corpus(c, vocab=["a", "b"], n_words=2) is c
    assert as_corpus([[1, 1]], vocab=["a", "b"]) == c
    assert as_corpus(Corpus.from_docs([[0, 1]]), vocab=["a", "b"]) == c
    assert as_corpus([[0, 0]], min_tokens=0).n_tokens == 0


def test_over_another_vocabulary():
    "Words are matched by name; those that are not there go, and their documents stay."
    corpus = Corpus.from_docs([["a", "b", "a"], ["c"], []], groups={"kind": ["x", "y", "z"]})
    new = corpus.over(["b", "d", "a"])
    assert (
        [new[j].tolist() for j in range(3)] == [[2, 0, 2], [], []]
        and new.vocab == ["b", "d", "a"]
        and list(new.groups["kind"]) == ["x", "y", "z"]
    )
    with pytest.raises(ValueError, match="vocabulary"):
        Corpus.from_docs([[0, 1]]).over(["a", "b"])
    with pytest.raises(ValueError, match="vocab"):
        corpus.over(["a", "a"])
