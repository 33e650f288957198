"""Raw texts, from every door: what is counted, what is said of it, what is refused."""

import gzip
import importlib.util
import io
import json
import logging
import pickle
import sys
import unicodedata
import warnings
from collections import Counter
from functools import partial

import numpy as np
import pytest
from notebooks import ROOT, read
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from hdp_nb import load_corpus, load_model
from hdp_nb.cli import main as cli
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.counting import (
    LANGUAGES,
    TOKEN,
    count_texts,
    find_languages,
    is_texts,
    pack_vectorizer,
    recount_texts,
    unpack_vectorizer,
)
from hdp_nb.corpora.documents import Texts, guess_text_format
from hdp_nb.distributed.ingest import append_shards, build_shards
from hdp_nb.distributed.parquet import Place, read_index, write_index
from hdp_nb.distributed.shards import ShardedCorpus
from hdp_nb.distributed.transform import score_documents
from hdp_nb.evaluation.evidence import log_evidence
from hdp_nb.evaluation.predictive import check_words
from hdp_nb.evaluation.scores import Unigram, coherence_npmi, document_completion, left_to_right
from hdp_nb.models.exchange import to_pyldavis
from hdp_nb.models.loading import HDP, HNHDP, LDA, NestedDP, OnlineHDP, TreeHDP, VariationalHDP
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.sequence_models import HDPHMM

ABOUT = [
    "The captain's ship sailed the sea; its sails weren't torn, they're new, and a storm came.",
    "I don't think we've enough bread and butter: the baker's oven isn't hot, so it can't bake.",
    "It's the judge who's heard the court, and he'd not hear the law that they've made.",
]
WORDS = [
    ["captain", "ship", "sailed", "sea", "sails", "torn", "new", "storm", "came"],
    ["think", "bread", "butter", "baker", "oven", "hot", "bake"],
    ["judge", "heard", "court", "hear", "law"],
]


def some_texts(n=60):
    "Short texts about one of three things each, in no order."
    rng = np.random.default_rng(0)
    texts = []
    for j in range(n):
        mine = WORDS[j % 3]
        texts.append(ABOUT[j % 3] + " " + " ".join(rng.choice(mine, 6)) + f" No {j}.")
    return texts


chains = dict(n_iter=20, thin=2, n_chains=1, init=100, moves=0, random_state=0)
MODELS = [
    HDP(**chains),
    LDA(4, n_iter=20, thin=2, n_chains=1, random_state=0),
    TreeHDP(n_iter=8, thin=2, n_chains=1, init=100, moves=0, random_state=0),
    VariationalHDP(n_topics=5, max_iter=5, random_state=0),
    OnlineHDP(n_topics=3, random_state=0),
    NestedDP(n_clusters=5, n_iter=4, thin=2, n_chains=1, random_state=0),
    HNHDP(n_clusters=4, n_topics=3, n_iter=4, thin=2, n_chains=1, random_state=0),
]
several = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


@several
@pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
def test_every_topic_model_takes_texts(model, tmp_path):
    "What it learns is what it learns of their counts; then it takes texts, and so when loaded."
    texts = some_texts()
    model = clone(model).fit(texts)
    corpus = count_texts(texts)
    assert model.vocabulary_ == corpus.vocab == sorted(set(sum(WORDS, [])))
    same = clone(model).fit(corpus)
    np.testing.assert_array_equal(same.components_, model.components_)
    assert all(isinstance(w, str) for row in model.top_words(3) for w in row)
    new = ["A storm at sea, the ship isn't new.", "", "Unheard-of things!", "The judge's law"]
    cut = CountVectorizer(token_pattern=TOKEN).build_analyzer()
    known = Corpus.from_docs([[w for w in cut(t) if w in corpus.vocab] for t in new], corpus.vocab)
    completed = partial(document_completion, model, random_state=0)
    for take in (model.transform, model.score, completed):
        np.testing.assert_array_equal(take(new), take(known))
    assert completed(new) == model.score(new)
    assert model.transform(corpus.vectorizer.transform(new)).shape == (4, model.n_topics_ + 1)
    model.save(tmp_path / "model.npz")
    for again in (load_model(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.transform(new), model.transform(new))
    with pytest.raises(ValueError, match="got None at 1"):
        model.transform(["sea", None])
    with pytest.raises(ValueError, match="features"):
        model.transform(np.ones((2, 3), int))
    counts = corpus.to_matrix()
    model.fit(counts)
    assert not hasattr(model, "vectorizer_") and model.vocabulary_ is None
    for take in (model.transform, completed):
        with pytest.raises(ValueError, match="^X must .* only a model that was fitted to texts"):
            take(new)


@several
@pytest.mark.parametrize(
    "X, says",
    [
        ("a text", "X must be counts .* got text"),
        (["sea", 3.5], "X must hold strings like its other documents, got 3.5 at 1"),
        (["sea", float("nan")], "got nan at 1; an empty document is"),
        ([3, "sea"], "got 3 at 0"),
        (["", " "], "texts must hold words|no word was found in 2 texts"),
        (["1 2", "3.5"], "no word was found in 2 texts: a word has two letters"),
        (["the", "and of"], "no word is left of 3"),
        ([b"sea"], "X must|bytes|array"),
        ([["sea", "ship"], "land"], "X must|must hold|sequence of words"),
        ([], "X must hold at least one document, got an empty list"),
        (np.array([["sea", "land"]]), r"or one column of this table of text \(1, 2\)"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(model, X, says):
    with pytest.raises(ValueError, match=says):
        clone(model).fit(X)


@pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
@pytest.mark.parametrize(
    "take",
    [
        Unigram().fit,
        lambda X: Unigram().fit(np.eye(2, dtype=int)).log_predictive(None, X),
        Corpus.from_matrix,
        DPMixture().fit,
        DPMixture("multinomial").fit,
        HDPHMM().fit,
    ],
)
@pytest.mark.parametrize("X", [["a text", "another"], [["a", "text"], ["another"]], "sotu"])
def test_what_takes_numbers_names_what_counts_texts(take, X):
    with pytest.raises(ValueError, match="^X must be .*, got text; topic models take .*"):
        take(X)


def test_a_mixture_takes_the_corpus_that_it_asks_for():
    corpus = count_texts(["ship sea storm", "bread wine cheese"] * 5)
    model = DPMixture("multinomial", n_iter=4, n_chains=1, random_state=0).fit(corpus)
    again = DPMixture("multinomial", n_iter=4, n_chains=1, random_state=0).fit(corpus.to_matrix())
    assert model.n_features_in_ == 6 and model.score(corpus) == again.score(corpus.to_matrix())


def test_whatever_judges_a_model_takes_texts():
    texts = some_texts()
    model = clone(MODELS[0]).fit(texts)
    new = texts[:9] + ["A storm at sea, the ship isn't new."]
    known = Corpus.from_matrix(model.vectorizer_.transform(new), model.vocabulary_)
    for judge in (
        partial(left_to_right, model, by_document=True, random_state=0),
        lambda X: coherence_npmi(model, X).topics,
        lambda X: to_pyldavis(model, X)["doc_topic_dists"],
    ):
        np.testing.assert_array_equal(judge(new), judge(known))
    in_order = recount_texts(new, model.vectorizer_)
    np.testing.assert_array_equal(*(score_documents(model, X) for X in (new, in_order)))
    judged = dict(n_steps=2, n_sweeps=8, burn_in=4)
    lda = LDA(2, eta=0.5)
    one, two = (log_evidence(lda, X, **judged) for X in (texts, count_texts(texts)))
    assert one.log_p == two.log_p
    checked = [check_words(model, X, random_state=0) for X in (texts, count_texts(texts))]
    np.testing.assert_array_equal(*(found.replicated for found in checked))
    words = model.top_words(5)
    for refused in (
        partial(document_completion, Unigram().fit(known)),
        partial(left_to_right, clone(model).fit(known)),
        partial(coherence_npmi, words),
    ):
        with pytest.raises(ValueError, match="^X must be counts .* fitted to texts"):
            refused(new)
    with pytest.raises(NotFittedError):
        document_completion(clone(model), new)
    with pytest.raises(ValueError, match="got None at 1"):
        left_to_right(model, ["sea", None])


def test_texts_in_the_containers_that_there_are():
    pandas, texts = pytest.importorskip("pandas"), some_texts()
    frame = pandas.DataFrame({"text": texts})
    want = count_texts(texts)
    for X in (tuple(texts), np.array(texts), np.array(texts, object), frame["text"], frame.text[:]):
        assert is_texts(X) and count_texts(X) == want
    assert count_texts(iter(texts)) == want
    for X in (np.ones(3), [1, 2], [[1, 2]], [["a"]], np.ones((2, 2)), frame, "text", None, []):
        assert not is_texts(X)
    missing = pandas.Series(["sea", pandas.NA])
    assert HDP(n_iter=2, n_chains=1).fit(missing).doc_topic_.shape[0] == 2  # an empty document


def test_scikit_learn_splits_and_chains_texts():
    texts = some_texts()
    scores = cross_val_score(HDP(**chains), texts, cv=2)
    assert np.isfinite(scores).all()
    pipe = make_pipeline(CountVectorizer(), HDP(**chains)).fit(texts)
    assert pipe.transform(texts).shape[0] == 60


def test_it_is_said_what_was_left_out(caplog):
    texts = some_texts()
    count_texts(texts)
    [record] = caplog.records
    assert record.name == "hdp_nb" and "\n" not in record.message
    for part in ("60 texts, 21 words", "stop words (English)", "stop_words, min_df, max_df"):
        assert part in record.message
    caplog.clear()
    count_texts(texts, stop_words=None, min_df=1, max_df=1.0)  # nothing was left to choose
    assert not caplog.records


def test_options_do_what_they_say():
    texts = some_texts() + ["sea"] * 3
    every = CountVectorizer(token_pattern=TOKEN).fit(texts).get_feature_names_out().tolist()
    assert count_texts(texts, stop_words=None, min_df=1, max_df=1.0).vocab == every
    assert {"don't", "isn't", "we've"} < set(every) and not {"don", "isn", "ve", "s"} & set(every)
    df = Counter(w for text in texts for w in set(CountVectorizer().build_analyzer()(text)))
    assert "sea" in count_texts(texts, max_df=df["sea"]).vocab
    assert "sea" not in count_texts(texts, max_df=df["sea"] - 1).vocab
    assert "sea" not in count_texts(texts, stop_words=["sea"]).vocab
    assert "sea" not in count_texts(texts, min_df=df["sea"] + 1, max_df=1.0, stop_words=None).vocab
    assert "Sea" in count_texts(["Sea, sea"], lowercase=False).vocab
    for name in LANGUAGES:
        assert count_texts(["sea"], stop_words=name).vocab == ["sea"]


def test_words_without_running_text_have_no_language():
    "Tags, names, lemmas: nothing is left out of them for its language."
    assert not find_languages(
        Counter("python numpy list of tags for data".split() * 1 + ["x"] * 90)
    )
    corpus = count_texts(["numpy scipy", "is sparse matrix numba kernel cache scipy python pandas"])
    assert "is" in corpus.vocab


def check_refused(path, says, capsys):
    "Neither door takes a file: one line that names it, exit code 2, and nothing is written."
    with pytest.raises(ValueError, match=says) as error:
        load_corpus(path, column="said")
    assert str(path) in str(error.value) and "\n" not in str(error.value)
    before = sorted(path.parent.iterdir())
    code = cli.main(["fit", str(path), "--column", "said", "--out", str(path.parent / "run")])
    out, err = capsys.readouterr()
    assert code == 2 and not out and err.count("\n") == 1 and path.name in err
    assert sorted(path.parent.iterdir()) == before


def test_parquet(tmp_path):
    "Whatever else is in it: a row's text, and short values of other columns as groups."
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    said, path = ["the sea", None, "the land"] * 20, tmp_path / "a.parquet"
    columns = {"said": said, "year": [1790, 1791, None] * 20, "ids": [[1]] * 60}
    parquet.write_table(pyarrow.table(columns), path)
    (tmp_path / "packed").write_bytes(gzip.compress(path.read_bytes()))
    path.rename(tmp_path / "letters")
    for name in ("letters", "packed"):
        texts = Texts(tmp_path / name, "said")
        assert texts.format == "parquet" and [*texts] == [text or "" for text in said]
        assert texts.groups() == {"year": ["1790", "1791", ""] * 20}
    assert load_corpus(tmp_path / "packed", column="said").vocab == ["land", "sea"]


def test_parquet_that_is_not_what_it_should_be(tmp_path, capsys):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, columns, says in [
        ("other", {"text": ["sea"]}, "column must be .* one of 'text'; got 'said'"),
        ("numbers", {"said": [1, 2]}, "row 0 must have a text as 'said', got 1"),
        ("lists", {"said": [["sea"]]}, "row 0 must have a text as 'said', got .'sea'."),
        ("none", {"said": pyarrow.array([], pyarrow.string())}, "at least one document, got none"),
    ]:
        path = tmp_path / f"{name}.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        check_refused(path, says, capsys)
    parquet.write_table(pyarrow.table({"said": ["the sea", "the land"] * 50}), path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    path.write_bytes(whole[:-20])
    check_refused(path, "not a whole parquet file", capsys)
    path.write_bytes(b"")
    check_refused(path, "not a whole parquet file", capsys)
    (tmp_path / "a.gz").write_bytes(gzip.compress(whole)[:-9])
    check_refused(tmp_path / "a.gz", "file: it ends early, in the middle", capsys)
    n_refused = 0
    for _ in range(100):
        damaged = np.frombuffer(whole, np.uint8).copy()
        damaged[rng.integers(4, len(whole), 5)] ^= rng.integers(1, 256, 5).astype(np.uint8)
        path.write_bytes(damaged.tobytes())
        try:
            assert all(isinstance(text, str) for text in Texts(path, "said"))
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            n_refused += 1
    assert n_refused > 50


def test_parquet_takes_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1....")
    with pytest.raises(ValueError, match="a.parquet.*pip install pyarrow"):
        load_corpus(tmp_path / "a.parquet", column="said")


def test_json_of_strings(tmp_path):
    for name, text in {
        "a.json": '["sea", null, "land"]',
        "a.jsonl": '"sea"\nnull\n\n"land"',
    }.items():
        (tmp_path / name).write_text(text)
        assert [*Texts(tmp_path / name)] == ["sea", "", "land"]
        with pytest.raises(ValueError, match="column must be None"):
            Texts(tmp_path / name, "said")


@pytest.mark.parametrize(
    "name, text, format",
    [
        ("a", '{"said": "sea"}\n{"said": "land"}\n', "jsonl"),
        ("a", '[{"said": "sea"}]', "json"),
        ("a", '[\n {"said": "sea"}]', "json"),
        ("a.json", '{"said": "sea"}\n{"said": "land"}\n', "jsonl"),
        ("a.json", '[{"said": "sea"}]', "json"),
        ("a", "[Enter a ghost.]\nHamlet: {sighs}", "text"),
        ("a", "{sighs}\n", "text"),
        ("a.TSV", "a\tb\n", "csv"),
        ("a", "", "text"),
    ],
)
def test_formats_are_told_by_name_or_content(tmp_path, name, text, format):
    (tmp_path / name).write_text(text)
    assert guess_text_format(tmp_path / name) == format
    (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    assert guess_text_format(tmp_path / f"{name}.gz") == format


BAD = {
    "short.csv": (b"id,said\n1,sea\n2\n", "line 3 should have as many fields"),
    "quote.csv": (b'id,said\n1,sea\n2,"land\n3,sand\n', "line 3: .*closed"),
    "missing.csv": (b"id,text\n1,sea\n", "column must be .* one of 'id', 'text'"),
    "wide.csv": (",".join(map(str, range(10**5))).encode() + b"\n", "'9' and 99,990 others"),
    "numbers.csv": (
        b"id,said\n1,2.5\n2,3.5\n",
        "no word was found in 2 texts: a word has two letters",
    ),
    "latin.csv": ("id,said\n1,sea\n2,café\n".encode("latin-1"), "byte 0xe9 of line 3 is no UTF-8"),
    "cut.csv.gz": (gzip.compress(b"id,said\n" + b"1,sea\n" * 99)[:-9], "early, after line 100, in"),
    "prose.jsonl": (b'{"said": "sea"}\nland\n', "line 2 is no JSON"),
    "half.jsonl": (b'{"said": "sea"}\n{"said": "la', "line 2 is no JSON"),
    "other.jsonl": (b'{"said": "sea"}\n{"text": "land"}\n', "line 2 has no 'said', only 'text'"),
    "number.jsonl": (b'{"said": "sea"}\n{"said": 3}\n', "line 2 must have a text as 'said', got 3"),
    "object.json": (b'{"said": ["sea"]}', "should be a JSON array"),
    "cut.json": (b'[{"said": "sea"},\n{"sa', "line 2 is no JSON"),
    "deep.json": (b"[" * 100_000, "deep.json"),
    "book.xlsx": (b"PK\x03\x04\x14", "zip archive, as workbooks of Excel.*CSV"),
    "book.csv": (b"PK\x03\x04\x14", "zip archive, as workbooks of Excel.*CSV"),
    "old.xls": (b"\xd0\xcf\x11\xe0\xa1", "Microsoft Office"),
    "paper.pdf": (b"%PDF-1.7\n", "a PDF: extract its text"),
    "noise.csv": (b"id,said\n1,\0sea\n", "zero byte"),
    "empty.csv": (b"", "the file is empty"),
    "empty.jsonl": (b"", "at least one document"),
    "void.csv": (b"id,said\n1,\n2, \n", "no word was found in 2 texts"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_named_in_one_line_and_nothing_is_written(tmp_path, capsys, name):
    content, says = BAD[name]
    (tmp_path / name).write_bytes(content)
    check_refused(tmp_path / name, says, capsys)


def test_an_encoding_can_be_named(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("sea café\n".encode("cp1252"))
    assert load_corpus(path, encoding="cp1252").vocab == ["café", "sea"]
    with pytest.raises(ValueError, match="encoding must be one that Python knows, got 'utf-9'"):
        load_corpus(path, encoding="utf-9")
    path.write_text("sea café\n", encoding="utf-16")
    assert load_corpus(path).vocab == ["café", "sea"]


def spelled(form, n=40):
    "Texts with accents within letters, or apart, and some that are the same in both."
    texts = ["Café résumé für", "naïve Ångström Café", "한국어 한글 für", "bread butter"] * (n // 4)
    return [unicodedata.normalize(form, text) for text in texts]


def test_accents_apart_and_within_letters_are_one_spelling(tmp_path, capsys):
    "From every door, of a fit and of what a model is shown later."
    composed, apart, options = spelled("NFC"), spelled("NFD"), {"stop_words": None, "max_df": 1.0}
    mixed = apart[:21] + composed[21:]
    words = sorted({word for text in composed for word in text.lower().split()})
    no_stop = [word for word in words if word != "für"]
    whole = count_texts(composed, **options)
    assert composed != apart and whole.vocab == words
    for texts in apart, mixed:
        assert count_texts(texts, **options).vocab == words
        assert count_texts(texts, **options).x.tolist() == whole.x.tolist()
        assert count_texts(texts, lowercase=False, **options).n_words == whole.n_words
    assert "für" not in count_texts(apart, stop_words=[apart[0].split()[2]], max_df=1.0).vocab
    assert count_texts(apart, stop_words="german", max_df=1.0).vocab == no_stop
    assert "café_résumé" in count_texts(mixed, phrases=True, min_df=1, **options).vocab

    path = tmp_path / "texts.txt"
    path.write_text("\n".join(mixed), encoding="utf-8")
    assert load_corpus(path, **options).x.tolist() == whole.x.tolist()
    model = HDP(n_iter=20, n_chains=1, moves=0, random_state=0).fit(mixed)
    model.save(tmp_path / "m.npz")
    for fitted in model, load_model(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model)):
        assert fitted.vocabulary_ == no_stop
        shares = [fitted.transform(texts) for texts in (composed, apart, mixed)]
        assert (shares[0] == shares[1]).all() and (shares[0] == shares[2]).all()
        assert fitted.score(composed) == fitted.score(apart)

    typed = [str(path), "--stop-words", "none", "--max-df", "1.0", "--out"]
    quick = "--n-iter 10 --n-chains 1 --moves 0".split()
    assert cli.main(["fit", *typed, str(tmp_path / "run"), *quick]) == 0
    assert load_model(tmp_path / "run" / "model.npz").vocabulary_ == words
    pytest.importorskip("pyarrow")
    assert cli.main(["shards", "build", *typed, str(tmp_path / "c")]) == 0
    shards = ShardedCorpus(tmp_path / "c")
    assert shards.vocab == words and [*shards][0].x.tolist() == whole.x.tolist()
    capsys.readouterr()


def test_models_whose_words_have_accents_apart_know_them_still(tmp_path):
    "They were fitted before texts were composed; shards, too, to which more texts are appended."
    texts = spelled("NFD")
    model = HDP(n_iter=10, n_chains=1, moves=0).fit(texts)
    model.vocabulary_ = [unicodedata.normalize("NFD", word) for word in model.vocabulary_]
    model.save(tmp_path / "m.npz")
    old = load_model(tmp_path / "m.npz")
    found = recount_texts(texts, old.vectorizer_)
    assert found.vocab == model.vocabulary_ and found.word_counts().all()
    assert found.word_counts().tolist() == count_texts(texts, max_df=1.0).word_counts().tolist()

    pytest.importorskip("pyarrow")
    corpus = build_shards(tmp_path / "c", texts, max_df=1.0)
    index = read_index(Place(tmp_path / "c"))
    write_index(Place(tmp_path / "c"), index._replace(vocab=model.vocabulary_))
    append_shards(tmp_path / "c", texts)
    assert ShardedCorpus(tmp_path / "c").word_counts.tolist() == (2 * corpus.word_counts).tolist()


class Stdin:
    def __init__(self, content):
        self.buffer = io.BytesIO(content)


def test_the_command_line_takes_texts_by_every_door(tmp_path, monkeypatch, capsys):
    "The same texts in all forms give the same topics; the model's words count the texts to score."
    texts, folder = some_texts(), tmp_path / "texts"
    folder.mkdir()
    for j, text in enumerate(texts):
        (folder / f"{j:02}.txt").write_text(text)
    rows = [{"said": text, "kind": str(j % 3)} for j, text in enumerate(texts)]
    jsonl = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (tmp_path / "a.jsonl").write_bytes(jsonl)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(json.dumps(rows).encode()))
    (tmp_path / "a.txt").write_text("\n".join(texts))
    options = "--n-iter 10 --n-chains 1 --init 100 --moves 0 --thin 3".split()
    made = []
    for corpus, column, stdin in [
        (folder, False, b""),
        (tmp_path / "a.txt", False, b""),
        (tmp_path / "a.jsonl", True, b""),
        (tmp_path / "a.json.gz", True, b""),
        ("-", True, jsonl),
        ("-", True, gzip.compress(jsonl)),
    ]:
        monkeypatch.setattr(sys, "stdin", Stdin(stdin))
        out = tmp_path / f"run{len(made)}"
        typed = ["fit", str(corpus), "--out", str(out), *["--column", "said"] * column, *options]
        assert cli.main(typed) == 0
        err = capsys.readouterr().err
        assert "60 texts, 21 words" in err and "--stop-words, --min-df, --max-df change it" in err
        made.append((out / "topics.json").read_text())
        assert json.loads((out / "documents.json").read_text())[0]["text"] in texts
        assert json.loads((out / "summary.json").read_text())["group"] == (
            "kind" if column else None
        )
    assert len(set(made)) == 1
    (tmp_path / "new.txt").write_text("The ship, the sea and bread\n" * 5)
    assert cli.main(["score", str(tmp_path / "run0"), str(tmp_path / "new.txt")]) == 0
    assert "of the words are unknown to the model and left out" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", Stdin(jsonl[:-9]))  # a stream that ends early
    assert cli.main(["fit", "-", "--column", "said", "--out", str(tmp_path / "new")]) == 2
    said = capsys.readouterr().err
    assert "error: standard input: not a whole jsonl file: line 60" in said


def test_no_log_is_lost_to_the_command_line(caplog):
    "Its line is its own only while it reads."
    log = logging.getLogger("hdp_nb")
    assert log.propagate and not log.handlers
    count_texts(some_texts())
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "kind", ["descriptions", pytest.param("sentences", marks=pytest.mark.slow)]
)
def test_six_kinds_of_texts_without_an_option(kind):
    "A short version of benchmarks/models/raw_texts.py: what every installation has."
    path = ROOT / "benchmarks" / "models" / "raw_texts.py"
    spec = importlib.util.spec_from_file_location("raw_texts", path)
    raw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(raw)
    texts, few = raw.some(raw.KINDS[kind](), 120), chains | {"init": 10}  # few, so large, topics
    model = HDP(**few).fit(texts)
    assert not raw.bad_topics(model.top_words(10), model.topic_shares_)
    bare = CountVectorizer(token_pattern=r"(?u)\b\w+\b")
    naive = HDP(**few).fit(bare.fit_transform(texts))
    words = naive.top_words(10, bare.get_feature_names_out())
    assert raw.bad_topics(words, naive.topic_shares_)  # the check sees what it should


def test_the_quick_start_prints_what_is_stored(capsys):
    cells = read(ROOT / "nbs" / "10_models/01_quickstart.ipynb").cells
    first = next(i for i, cell in enumerate(cells) if cell.source.startswith("## Raw texts\n"))
    names = {}
    for cell in cells[first + 1 : first + 3]:
        exec(cell.source, names)
    stored = [out for cell in cells[first + 1 : first + 3] for out in cell.outputs]
    assert capsys.readouterr().out == "".join(o.text for o in stored if o.name == "stdout")
    assert {row[0] for row in names["model"].top_words(1)} <= {
        "sea",
        "storm",
        "wine",
        "bread",
        "judge",
    }


@pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
def test_groups_are_given_to_fit():
    "As a dict, a data frame or mere labels, with texts as with counts; the same as in a Corpus."
    pandas, texts = pytest.importorskip("pandas"), some_texts()
    kinds, halves = [str(j % 3) for j in range(60)], [j // 30 for j in range(60)]
    tree = clone(MODELS[2]).set_params(levels=["half", "kind"])
    both = {"half": halves, "kind": kinds}
    want = clone(tree).fit(count_texts(texts, groups=both))
    assert len(want.nodes_) == 1 + 2 + 6
    for X in (texts, count_texts(texts), count_texts(texts, groups={"half": halves})):
        for groups in (both, pandas.DataFrame(both)):
            found = clone(tree).fit(X, groups=groups)
            assert found.nodes_ == want.nodes_
            np.testing.assert_array_equal(found.components_, want.components_)
    one = clone(MODELS[2]).fit(texts, groups=np.array(kinds))
    assert one.levels_ == ["group"] and len(one.nodes_) == 4
    assert one.transform(count_texts(texts, groups={"group": kinds})).shape[0] == 60
    known = clone(MODELS[6]).set_params(categories="group").fit(texts, groups=kinds)
    assert sorted(known.categories_) == ["0", "1", "2"]
    for model in (tree, MODELS[6]):
        with pytest.raises(ValueError, match="one label per document: 60 documents, got 2"):
            clone(model).fit(texts, groups=["a", "b"])
    with pytest.raises(ValueError, match=r"as tuples, got .*fit\(X, groups=...\)"):
        clone(tree).set_params(groups=np.array(kinds)).fit(texts, groups=both)


@pytest.mark.parametrize(
    "n_docs, length, moves, spared",
    [
        (1000, 9, "auto", True),
        (1000, 9, 2, False),
        (1000, 10, "auto", False),
        (999, 9, "auto", False),
    ],
)
def test_moves_are_spared_in_many_short_documents(n_docs, length, moves, spared):
    empty = [[]] * 200  # say nothing
    corpus = Corpus.from_docs([[0, 1, 2] * 3 + [0] * (length - 9)] * n_docs + empty, n_words=3)
    hdp = HDP(moves=moves, n_iter=60)  # too few sweeps for a trial of starts
    sampler = hdp._sampler(corpus)
    assert corpus.has_short_documents == (n_docs == 1000 and length == 9)
    assert (sampler.n_moves == 0 and sampler.tune == 0) == spared
    first, *others = hdp._starts(sampler, corpus, None)
    assert first.tune > 0 and first.n_moves == sampler.n_moves  # the one topic is split
    assert all(other.tune == sampler.tune for other in others)


# ---------------------------------------------------------------- phrases


def towns(n=80):
    "Texts in which one pair of words, and one of three, stand together."
    rng, fill = np.random.default_rng(1), [f"word{chr(97 + v)}" for v in range(20)]
    name = ["New York", "New York City", "new", "city", "york"]
    return [" ".join([*rng.choice(fill, 12), name[j % 5], *rng.choice(fill, 12)]) for j in range(n)]


def test_phrases_go_where_the_model_goes(tmp_path):
    corpus = count_texts(towns(), phrases=True, max_df=1.0)
    assert {"new_york", "new_york_city", "new", "city", "york"} <= {*corpus.vocab}
    model = HDP(n_iter=20, n_chains=1, random_state=0).fit(corpus)
    model.save(tmp_path / "model.npz")
    loaded, new = HDP.load(tmp_path / "model.npz"), ["In New York, new york city: york"]
    for known in (model, loaded, pickle.loads(pickle.dumps(model))):
        found = recount_texts(new, known.vectorizer_)
        assert [found.vocab[v] for v in found[0]] == ["new_york", "new_york_city", "york"]
    assert np.array_equal(model.transform(new), loaded.transform(new))
    plain = count_texts(towns(), max_df=1.0)
    assert "new_york" not in plain.vocab and plain.vectorizer.tokenizer is None
    strict = count_texts(towns(), phrases=1.0, max_df=1.0)
    assert "new_york" not in strict.vocab  # new and york stand alone, too


def test_phrases_are_words_that_are_kept():
    "No stop words in them; none in fewer documents than a word must be in."
    texts = [f"{text}. The end of the day" for text in towns()]
    found = count_texts(texts, phrases=0.0, stop_words=["the", "of"], max_df=1.0).vocab
    assert "new_york" in found and not any("the" in word.split("_") for word in found)
    rare = count_texts(towns(), phrases=True, max_df=1.0, min_df=33)
    assert not any("_" in word for word in rare.vocab)


@pytest.mark.parametrize("phrases", ["yes", -0.1, 1.5, None, np.nan])
def test_phrases_that_are_none(phrases):
    with pytest.raises(ValueError, match="phrases must be"):
        count_texts(towns(), phrases=phrases)


def test_phrases_at_the_shell_and_in_shards(tmp_path, capsys):
    path = tmp_path / "towns.txt"
    path.write_text("\n".join(towns()))
    options = ["--phrases", "--max-df", "1.0", "--n-iter", "10", "--quiet"]
    assert cli.main(["fit", str(path), *options, "--out", str(tmp_path / "run")]) == 0
    assert "new_york" in HDP.load(tmp_path / "run" / "model.npz").vocabulary_
    with pytest.raises(ValueError, match="phrases must be False for shards"):
        build_shards(tmp_path / "shards", towns(), phrases=True)


def test_damaged_phrases_are_named():
    packed = pack_vectorizer(count_texts(towns(), phrases=True, max_df=1.0).vectorizer)
    assert unpack_vectorizer(json.loads(json.dumps(packed)), ["york"]).tokenizer.rounds
    for rounds in (5, [["new"]], [[["a", "b", "c"]]], "new"):
        with pytest.raises(ValueError, match="vectorizer: "):
            unpack_vectorizer(packed | {"phrases": rounds}, ["york"])


def test_columns_of_a_frame_are_the_words_of_the_fit():
    "A model that was fitted to texts knows words: others, or in another order, are refused."
    pandas = pytest.importorskip("pandas")
    texts = ["ship sea storm", "bread wine cheese"] * 10
    for model in (HDP(n_iter=20, n_chains=1, moves=0, random_state=0), OnlineHDP(random_state=0)):
        model.fit(texts)
        counts = pandas.DataFrame(4 * np.eye(6, dtype=int), columns=model.vocabulary_)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shares = model.transform(counts)
        assert np.array_equal(shares, model.transform(counts.to_numpy()))
        for other in (counts[counts.columns[::-1]], counts.rename(columns=str.upper)):
            with pytest.raises(ValueError, match="same order"):
                model.transform(other)
            with pytest.raises(ValueError, match="same order"):
                model.score(other)


def test_a_frame_is_no_list_of_texts():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["ship sea storm", "bread wine cheese"] * 10})
    for texts in (frame, {"one": "ship sea storm", "two": "bread wine"}):
        with pytest.raises(ValueError, match="take one column"):
            count_texts(texts)
    want = count_texts(frame["text"].tolist())
    assert np.array_equal(count_texts(frame["text"]).x, want.x)
    arrow = pytest.importorskip("pyarrow").array(frame["text"].tolist())
    assert np.array_equal(count_texts(arrow).x, want.x)
    model = HDP(n_iter=4, n_chains=1, moves=0, random_state=0)
    shares = [model.fit(it).transform(it) for it in (arrow, frame["text"])]
    assert np.array_equal(*shares)
    assert model.fit(text for text in frame["text"]).n_features_in_ == want.n_words


def test_hidden_files_are_no_texts(tmp_path):
    for name in ("a.txt", "b.txt", "._a.txt", ".hidden.txt"):
        (tmp_path / name).write_bytes(b"ship sea storm\xff" * name.startswith(".") or b"bread wine")
    assert load_corpus(tmp_path, min_df=1, max_df=1.0).n_docs == 2
