"""Texts as people have them: emptied answers, scripts, letters, markup, new words."""

import importlib.util
import logging
import pickle
from pathlib import Path

import numpy as np
import pytest

from hdp_nb import HDP, load_corpus, load_model
from hdp_nb.cli import main as cli
from hdp_nb.corpora.counting import count_texts, pack_vectorizer, recount_texts, unpack_vectorizer
from hdp_nb.evaluation.scores import document_completion
from hdp_nb.plotting.groups import shares_by_group

DATA = Path(__file__).parents[1] / "data"


def said(caplog):
    lines = [record.getMessage() for record in caplog.records if record.name == "hdp_nb"]
    caplog.clear()
    assert all("\n" not in line for line in lines)
    return lines


def same_when_saved(corpus, texts):
    "Counting again with the vectoriser, packed and unpacked or pickled, gives the same."
    vectorizer = corpus.vectorizer
    for v in (
        vectorizer,
        unpack_vectorizer(pack_vectorizer(vectorizer), corpus.vocab),
        pickle.loads(pickle.dumps(vectorizer)),
    ):
        assert recount_texts(texts, v) == corpus


# ---------------------------------------------------------------- what happened to the documents


def test_answers_that_lose_all_words_are_counted_and_named(caplog):
    corpus = load_corpus(DATA / "answers.csv", column="answer")
    [line] = said(caplog)
    assert (corpus.doc_lengths == 0).sum() == 617 and corpus.n_docs == 1000
    assert "617 of 1,000 documents have no word left (100 'yes'" in line
    assert "617 had stop words only, which stop_words=None keeps" in line
    kept = load_corpus(DATA / "answers.csv", column="answer", stop_words=None)
    assert (kept.doc_lengths == 0).sum() == 0


def test_answers_at_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    quick = "--out run --n-iter 6 --n-chains 1 --moves 0 --test-size 0".split()
    assert cli.main(["fit", str(DATA / "answers.csv"), "--column", "answer", *quick]) == 0
    err = capsys.readouterr().err
    assert "617 of 1,000 documents have no word left" in err and "--stop-words none keeps" in err
    assert "617 of 1,000 documents have no word left" in Path("run/report.html").read_text()
    assert all(found["words"] for found in cli.read_json(Path("run"), "documents.json"))


def test_emptied_documents_have_no_share():
    texts = ["price cheap cost"] * 6 + ["not", "no", ""] * 20 + ["staff kind help"] * 6
    groups = ["spoke"] * 6 + ["silent"] * 60 + ["spoke"] * 6
    model = HDP(n_iter=20, n_chains=2, random_state=0).fit(count_texts(texts, stop_words="english"))
    found = shares_by_group(model, groups)
    assert found.names == ["spoke", "silent"]
    assert np.isfinite(found.shares[0]).all() and np.isnan(found.shares[1]).all()
    known = shares_by_group(model, groups[:6] + ["spoke"] * 60 + groups[66:])
    assert np.allclose(known.shares[0], found.shares[0])


def test_empty_and_copied_texts_are_counted(caplog):
    long = "one two three four five six seven eight nine ten eleven"
    count_texts(["", "  ", long, long, long, "ship sea"], stop_words=None, min_df=1, max_df=1.0)
    [line] = said(caplog)
    assert "2 of 6 documents have no word left" in line and "2 copies of others" in line
    assert "stop_words=None" not in line


def test_unknown_words_are_told(caplog):
    model = HDP(n_iter=10, n_chains=1, random_state=0).fit(["ship sea storm", "bread wine"] * 10)
    said(caplog)
    model.transform(["the ship at sea", "bread and wine"])
    assert said(caplog) == []
    rows = model.transform(["ship sea opera violin", "opera", "bread wine"])
    [line] = said(caplog)
    assert "43% of the words are unknown" in line and "1 of 3 texts has no word" in line
    assert np.allclose(rows.sum(axis=1), 1)
    half = ["ship sea storm ship opera violin harp flute"] * 3
    model.score(half)
    assert "50% of the words" in said(caplog)[0]
    document_completion(model, half)
    assert "50% of the words" in said(caplog)[0]


# ---------------------------------------------------------------- scripts and letters


@pytest.mark.parametrize(
    "text, name, tool",
    [
        ("银行下跌上涨基金基金股票股票股票市场银行。", "Chinese", "jieba"),
        ("日本の銀行は金利を上げることにした。", "Japanese", "SudachiPy"),
        ("ธนาคารกลางขึ้นดอกเบี้ยเพื่อลดเงินเฟ้อในประเทศ", "Thai", "pythainlp"),
        ("ធនាគារកណ្ដាលបានដំឡើងអត្រាការប្រាក់", "Khmer", "PyICU"),
    ],
)
def test_scripts_without_spaces_are_recognised(text, name, tool):
    for fit in (count_texts, HDP(n_iter=2).fit):
        with pytest.raises(ValueError, match=f"{name} without: .*{tool}") as error:
            fit([text] * 20)
        assert len(str(error.value)) <= 300 and text[:3] not in str(error.value)
    assert count_texts([text] * 3, token=r"\S+").n_words == 1  # somebody knows what a word is


def test_a_file_in_a_script_without_spaces(tmp_path, capsys):
    typed = ["fit", str(DATA / "chinese_as_written.txt"), "--out", str(tmp_path / "run")]
    assert cli.main(typed) == 2
    err = capsys.readouterr().err
    assert "jieba" in err and "银" not in err and not list(tmp_path.iterdir())


def test_one_ideograph_is_a_word():
    texts = (DATA / "one_character_words.txt").read_text(encoding="utf-8").splitlines()
    corpus = count_texts(texts)
    assert corpus.n_tokens == 1800 and corpus.n_words == 24
    same_when_saved(corpus, texts)
    assert count_texts(["a 雪 b 1", "雪山 ship"] * 3, stop_words=None).vocab == [
        "ship",
        "雪",
        "雪山",
    ]


@pytest.mark.skipif(
    importlib.util.find_spec("jieba") is None, reason="needs jieba: pip install jieba"
)
def test_jieba_cuts_chinese():
    texts = (DATA / "chinese_as_written.txt").read_text(encoding="utf-8").splitlines()
    corpus = count_texts(texts, token="jieba")
    assert {"银行", "股票", "医院"} <= set(corpus.vocab) and "。" not in corpus.vocab
    same_when_saved(corpus, texts)


def test_a_tokeniser_that_is_not_there(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jieba", None)
    with pytest.raises(ImportError, match=r"pip install 'hdp_nb\[chinese\]'"):
        count_texts(["银行"], token="jieba")


def test_joiners_without_width_are_inside_of_words():
    texts = ["می‌خواهم کتاب‌ها را", "می‌روم خانه‌ها را"] * 20
    vocab = count_texts(texts, max_df=1.0).vocab
    assert {"می\u200cخواهم", "کتاب\u200cها", "خانه\u200cها"} <= set(vocab)


def test_turkish_letters():
    texts = ["İSTANBUL büyük ISPARTA", "istanbul küçük ısparta"] * 20
    corpus = count_texts(texts, max_df=1.0)
    assert corpus.vocab == ["büyük", "istanbul", "küçük", "ısparta"]
    same_when_saved(corpus, texts)
    english = count_texts(["ISLE İstanbul", "isle of man"] * 200, max_df=1.0, stop_words=None).vocab
    assert "isle" in english and "istanbul" in english


def test_soft_hyphens_do_not_cut_words():
    assert count_texts(["co\u00adoperate ship", "cooperate"] * 3).vocab == ["cooperate", "ship"]


# ---------------------------------------------------------------- markup


HTML = ["<p class='x'>Tea &amp; milk&nbsp;cup</p>", "<div>sea boat https://t.co/abc1</div>"] * 10


def test_markup_is_removed_where_there_is_any(caplog, tmp_path):
    corpus = count_texts(HTML)
    assert corpus.vocab == ["boat", "cup", "milk", "sea", "tea"]
    assert "tags, entities and links removed (markup=False keeps them)" in said(caplog)[0]
    same_when_saved(corpus, HTML)
    kept = count_texts(HTML, markup=False)
    assert {"div", "amp", "nbsp", "abc1"} <= set(kept.vocab)
    assert count_texts(["tea < milk", "a > b tea"] * 5, markup=True).vocab == ["milk", "tea"]
    model = HDP(n_iter=10, n_chains=1, random_state=0).fit(corpus)
    model.save(tmp_path / "model.npz")
    new = ["<b>milk</b> &lt;div&gt;", "<p>boat</p>"]
    assert np.array_equal(load_model(tmp_path / "model.npz").transform(new), model.transform(new))


def test_options_of_writing_are_checked():
    for wrong in ({"markup": "yes"}, {"lowercase": "greek"}):
        with pytest.raises(ValueError, match=f"{[*wrong][0]} must be True, False or"):
            count_texts(["ship"], **wrong)


def test_plain_texts_are_read_as_ever(caplog):
    texts = ["The ship sailed the sea, a < b", "bread and wine"] * 20
    with caplog.at_level(logging.WARNING, "hdp_nb"):
        corpus = count_texts(texts)
    assert pack_vectorizer(corpus.vectorizer).keys() == {"token", "lowercase"}
    assert "removed" not in said(caplog)[0] and "no word left" not in "".join(said(caplog))
