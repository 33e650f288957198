"""The bundled corpora: they are what is described, and are found wherever the package is."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hdp_nb
from hdp_nb.corpora.readers import BUNDLED, _bundled_path, load_corpus

README = _bundled_path("sotu").with_name("README.md")
TABLE = {
    name: (*(int(n.replace(",", "")) for n in numbers), sha)
    for name, *numbers, sha in re.findall(
        r"^\| `([\w-]+)\.npz` \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| `([0-9a-f]{64})` \|$",
        README.read_text(encoding="utf-8"),
        re.M,
    )
}


def test_the_table_lists_every_file():
    assert set(TABLE) == set(BUNDLED) == {p.stem for p in README.parent.glob("*.npz")}


@pytest.mark.parametrize("name", BUNDLED)
def test_checksum_and_size(name):
    *sizes, sha = TABLE[name]
    assert hashlib.sha256(_bundled_path(name).read_bytes()).hexdigest() == sha
    c = load_corpus(name)
    assert [c.n_docs, c.n_tokens, c.n_words] == sizes
    assert (c.word_counts() > 0).all() and c.vocab == sorted(c.vocab) and (c.doc_lengths > 0).all()
    with np.load(
        _bundled_path(name), allow_pickle=False
    ) as z:  # readable without this package, and small on disk
        assert z["x"].dtype in (np.uint8, np.uint16) and len(z["lengths"]) == c.n_docs


@pytest.mark.parametrize(
    "name, levels, shortest, longest, median, rarest",
    [
        ("sotu", ["period", "president", "party", "year", "speech", "passage"], 43, 275, 126, 10),
        ("kjv", ["testament", "division", "book", "chapter"], 13, 869, 198, 5),
        ("jargon", ["entry"], 4, 592, 30, 3),
        ("alice", ["chapter"], 1, 896, 68, 1),
    ],
)
def test_content(name, levels, shortest, longest, median, rarest):
    c = load_corpus(name)
    assert list(c.groups) == levels
    assert (c.doc_lengths.min(), c.doc_lengths.max(), int(np.median(c.doc_lengths))) == (
        shortest,
        longest,
        median,
    )
    assert c.word_counts().min() >= rarest


def test_labels_of_sotu_and_kjv():
    def sizes(name, level):
        return dict(zip(*np.unique(load_corpus(name).groups[level], return_counts=True)))

    assert sizes("sotu", "period") == {
        "1790-1814": 183,
        "1815-1839": 621,
        "1840-1864": 865,
        "1865-1889": 679,
        "1890-1914": 1246,
        "1915-1939": 420,
        "1940-1964": 532,
        "1965-1989": 444,
        "1990-2014": 495,
        "2015-2021": 135,
    }
    assert len(sizes("sotu", "president")) == 43 and len(sizes("sotu", "speech")) == 233
    assert sizes("kjv", "division") == {
        "History": 249,
        "Wisdom": 243,
        "Law": 187,
        "MajorProphets": 183,
        "Gospels": 89,
        "Pauline": 87,
        "MinorProphets": 67,
        "GeneralEpistles": 34,
        "Acts": 28,
        "Apocalypse": 22,
    }
    assert len(sizes("kjv", "book")) == 66 and len(sizes("kjv", "testament")) == 2


def test_alice_reads_as_text_both_ways():
    letters, words = load_corpus("alice"), load_corpus("alice-words")
    sentences = ["".join(letters.vocab[c] for c in s) for s in letters]
    assert sentences == [" ".join(words.vocab[w] for w in s) for s in words]
    assert sentences[0].startswith(
        "alice was beginning to get very tired of sitting by her sister on the bank"
    )
    assert sentences[-1].endswith("remembering her own child life and the happy summer days")
    assert (
        set(letters.groups["chapter"]) == set(range(1, 13))
        and (np.diff(letters.groups["chapter"]) >= 0).all()
    )


@pytest.mark.parametrize("layout", ["installed", "clone"])
def test_found_from_anywhere(tmp_path, layout):
    "The wheel puts the files at hdp_nb/data; in a clone, data/ stands beside hdp_nb/."
    package, data = Path(hdp_nb.__file__).parent, _bundled_path("sotu").parent
    (tmp_path / "hdp_nb").mkdir()
    for path in package.glob("*.py"):
        shutil.copy(path, tmp_path / "hdp_nb")
    there = tmp_path / ("hdp_nb/data" if layout == "installed" else "data")
    shutil.copytree(
        data, there, ignore=lambda folder, names: [n for n in names if not n.startswith("alice")]
    )
    code = (
        "from hdp_nb.corpora.readers import load_corpus, _bundled_path;"
        " print(_bundled_path('alice')); assert load_corpus('alice').n_words == 27"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path.parent,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert out.returncode == 0 and Path(out.stdout.strip()) == there / "alice.npz", (
        out.stdout + out.stderr
    )
