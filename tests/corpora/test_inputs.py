"""What people have on their disk, and what the command line makes of it: a table of inputs."""

import bz2
import gzip
import json
import lzma
import re
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from hdp_nb.cli.arguments import load_argument, source_argument
from hdp_nb.cli.main import _one_line, _parser

RNG = np.random.default_rng(0)
SEA, FOOD = "sea ship sail wave wind boat rope mast".split(), "bread wine cheese soup salt".split()
TEXTS = [" ".join(RNG.choice(SEA if j % 2 else FOOD, 8)) for j in range(40)]
COUNTS = RNG.poisson(2, (30, 12))
ITEMS = [f"k{v}" for v in range(12)]


def lines(rows, head=None, sep=","):
    rows = [sep.join(map(str, row)) for row in rows]
    return "\n".join([*([sep.join(head)] if head else []), *rows])


WIDE = lines(COUNTS, ITEMS)
LONG = [(f"d{i}", ITEMS[v], COUNTS[i, v]) for i, v in zip(*COUNTS.nonzero())]
SURVEY = [(f"2021-0{j % 9 + 1}-01", "NS"[j % 2], text) for j, text in enumerate(TEXTS)]
SURVEY_CSV = lines(SURVEY, ["date", "region", "answer"])
RECORDS = [dict(zip(("date", "region", "answer"), row)) for row in SURVEY]
TRIPLES = [dict(zip(("document", "item", "count"), (d, i, int(n)))) for d, i, n in LONG]
of_words = "\n".join(", ".join(f"{a} salt" for a in RNG.choice(SEA, 4)) for _ in range(30))
QUOTED = "\n".join(["id,text", *(f'{j},"{t}, ""so""\non"' for j, t in enumerate(TEXTS))])
ROWS = [(f"a{i}", t, RNG.normal(), RNG.normal()) for i in range(3) for t in range(20)]
A_COLUMN = "the texts of column '{}'"
COUNTED = (30, int(COUNTS.sum()), 12)
READ = (40, 320, None)

# name: (content, (documents, tokens, words) with None for any, or what the refusal says; the note)
INPUTS = {
    "lines.txt": ("\n".join(TEXTS), READ, ""),
    "crlf.txt": ("\r\n".join(TEXTS), READ, ""),
    "bom.txt": ("\ufeff" + "\n".join(TEXTS), READ, ""),
    "utf16.txt": ("\n".join(TEXTS).encode("utf-16"), READ, ""),
    "latin.txt": (
        "\n".join(f"{t} café" for t in TEXTS).encode("latin-1"),
        "line 1 is no UTF-8",
        "",
    ),
    "lines.txt.gz": (gzip.compress("\n".join(TEXTS).encode()), READ, ""),
    "lines.txt.bz2": (bz2.compress("\n".join(TEXTS).encode()), READ, ""),
    "lines.txt.xz": (lzma.compress("\n".join(TEXTS).encode()), READ, ""),
    "cut.txt.xz": (lzma.compress("\n".join(TEXTS).encode())[:-40], "ends early|corrupt", ""),
    "cut.csv.bz2": (bz2.compress(WIDE.encode())[:60], "ends early|column", ""),
    "survey.csv": (SURVEY_CSV, READ, A_COLUMN.format("answer")),
    "survey.csv.gz": (gzip.compress(SURVEY_CSV.encode()), READ, A_COLUMN.format("answer")),
    "survey.tsv": (
        lines(SURVEY, ["date", "region", "answer"], "\t"),
        READ,
        A_COLUMN.format("answer"),
    ),
    "semicolon.csv": (lines(SURVEY, ["date", "region", "answer"], ";"), READ, "column 'answer'"),
    "quoted.csv": (QUOTED, (40, None, None), A_COLUMN.format("text")),
    "texts.jsonl": ("\n".join(map(json.dumps, RECORDS)), READ, A_COLUMN.format("answer")),
    "texts.json": (json.dumps(RECORDS), READ, A_COLUMN.format("answer")),
    "strings.jsonl": ("\n".join(map(json.dumps, TEXTS)), READ, ""),
    "tokens.jsonl": ("\n".join(json.dumps(t.split()) for t in TEXTS), READ, "lists of words"),
    "tags.txt": ("\n".join(f"<p>{t} &amp;</p>" for t in TEXTS), READ, "tags"),
    "wide.csv": (WIDE, COUNTED, "a table of counts"),
    "wide.tsv": (lines(COUNTS, ITEMS, "\t"), COUNTED, "a table of counts"),
    "named.csv": (
        lines([(f"s{i}", *row) for i, row in enumerate(COUNTS)], ["sample", *ITEMS]),
        COUNTED,
        "a table of counts",
    ),
    "wide.csv.xz": (lzma.compress(WIDE.encode()), COUNTED, "a table of counts"),
    "long.csv": (lines(LONG, ["document", "item", "count"]), COUNTED, "document, item and count"),
    "long.jsonl": ("\n".join(map(json.dumps, TRIPLES)), COUNTED, "counts"),
    "long.json": (json.dumps(TRIPLES), COUNTED, "counts"),
    "counts.jsonl": (
        "\n".join(json.dumps(dict(zip(ITEMS, map(int, row)))) for row in COUNTS),
        COUNTED,
        "counts",
    ),
    "baskets.csv": (of_words, (30, None, None), "lines of items"),
    "pairs.csv": (lines([row[:2] for row in LONG], ["basket", "item"]), "--format long .* or ", ""),
    "counts.ldac": (
        lines(
            [
                (np.count_nonzero(row), *(f"{v}:{row[v]}" for v in np.flatnonzero(row)))
                for row in COUNTS
            ],
            sep=" ",
        ),
        COUNTED,
        "",
    ),
    "binary.csv": (
        lines((COUNTS > 1).astype(int), ITEMS),
        "--format wide .* hdp_nb clusters FILE",
        "",
    ),
    "no_names.csv": (lines(COUNTS), "first line must name the columns", ""),
    "fractions.csv": (
        lines(RNG.random((30, 3)).round(3), "abc"),
        "Fractions.* hdp_nb clusters",
        "",
    ),
    "minus.csv": (lines(RNG.integers(-3, 3, (30, 3)), "abc"), "Negative.* hdp_nb clusters", ""),
    "animals.csv": (lines(ROWS, ["animal", "time", "speed", "x"]), "hdp_nb states", ""),
    "two_texts.csv": (
        lines([(TEXTS[j - 1], t) for j, t in enumerate(TEXTS)], ["question", "answer"]),
        "several hold texts: 'question', 'answer'",
        "",
    ),
    "labels.csv": (lines([row[:2] for row in SURVEY], ["date", "region"]), "'date', 'region'", ""),
    "header.csv": ("id,text\n", "header only", ""),
    "empty.csv": ("", "file is empty", ""),
    "open_quote.csv": (
        'id,text\n1,"the sea\n2,a ship\n',
        "is a quote that begins there closed",
        "",
    ),
    "mixed.csv": (SURVEY_CSV.encode() + b"\n2021,N,caf\xe9 caf\xc3\xa9", "line 42 is no UTF-8", ""),
    "book.xlsx": (b"PK\x03\x04" + bytes(60), "save the sheet as CSV", ""),
    "paper.pdf": (b"%PDF-1.7 ...", "extract its text first", ""),
    "two.npz": (None, "neither a corpus nor a sparse matrix but a, b", ""),
    "matrix.npy": (None, COUNTED, "an array of NumPy"),
    "matrix.npz": (None, COUNTED, ""),
    "matrix.mtx": (None, COUNTED, "MatrixMarket"),
    "survey.parquet": (None, READ, A_COLUMN.format("answer")),
    "wide.parquet": (None, COUNTED, "counts"),
    "long.parquet": (None, COUNTED, "counts"),
}


def write(path, content):
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.write_bytes(content.encode())
    elif path.name == "two.npz":
        np.savez(path, a=COUNTS, b=COUNTS)
    elif path.suffix == ".npy":
        np.save(path, COUNTS)
    elif path.suffix == ".npz":
        sp.save_npz(path, sp.csr_array(COUNTS))
    elif path.suffix == ".mtx":
        scipy.io.mmwrite(path, sp.csr_matrix(COUNTS))
    else:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        wide = dict(zip(ITEMS, COUNTS.T))
        records = {"survey": RECORDS, "long": TRIPLES}.get(path.stem)
        parquet.write_table(pa.Table.from_pylist(records) if records else pa.table(wide), path)


@pytest.mark.parametrize("name", INPUTS)
def test_what_a_file_is_and_what_is_said_of_it(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    content, expected, note = INPUTS[name]
    write(tmp_path / name, content)
    args = _parser().parse_args(["fit", name, "--out", "run"])
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected) as error, source_argument(args):
            load_argument(args)
        line = _one_line(error.value)
        assert len(line) <= 300 and "\n" not in line
        quoted = set(re.findall(r"\w+", line)) & {*SEA, *FOOD}
        assert not quoted, f"the message quotes the user's text: {line}"
        return
    with source_argument(args):
        corpus, said = load_argument(args)
    shape = corpus.n_docs, corpus.n_tokens, corpus.n_words
    assert all(n is None or n == m for n, m in zip(expected, shape)), shape
    assert note in said and "\n" not in said


def test_the_same_words_whatever_the_compression(tmp_path):
    from hdp_nb import load_corpus

    names = ["lines.txt", "lines.txt.gz", "lines.txt.bz2", "lines.txt.xz"]
    for name in names:
        write(tmp_path / name, INPUTS[name][0])
    first, *others = (load_corpus(tmp_path / name) for name in names)
    for corpus in others:
        assert corpus.vocab == first.vocab and np.array_equal(corpus.x, first.x)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_that_unfolds_into_more_than_is_honest_is_refused(tmp_path, monkeypatch, pack):
    from hdp_nb import load_corpus
    from hdp_nb.utils import files

    (tmp_path / "many.txt").write_bytes(pack(b"sea " * 3_000_000))
    monkeypatch.setattr(files, "FREE_BYTES", 2**20)
    with pytest.raises(ValueError, match="above 200 times as many"):
        load_corpus(tmp_path / "many.txt")


def test_arguments_of_one_text_column_are_those_of_its_name(tmp_path):
    (tmp_path / "survey.csv").write_text(SURVEY_CSV)
    told = SimpleNamespace(**vars(_parser().parse_args(["fit", "x", "--out", "y"])))
    for column in (None, "answer"):
        told.source, told.column = str(tmp_path / "survey.csv"), column
        corpus, _ = load_argument(told)
        assert list(corpus.groups) == ["date", "region"] and corpus.n_tokens == 320
