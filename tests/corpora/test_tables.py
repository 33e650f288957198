"""Files of counts: what they are is told from what is in them, and all hold the same."""

import gzip
import importlib.util
import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import hdp_nb
from hdp_nb import Corpus, load_corpus
from hdp_nb.cli import main as cli
from hdp_nb.corpora.readers import guess_format
from hdp_nb.corpora.tables import TABLE_FORMATS, read_counts

DATA = Path(__file__).parents[1] / "data"
pytestmark = pytest.mark.usefixtures("blank")
QUICK = "--n-iter 4 --n-chains 1 --moves 0 --test-size 0".split()


def truth():
    "The 40 samples of the files, over 24 kinds, in the order of samples.csv."
    lines = (DATA / "samples.csv").read_text().splitlines()
    words = lines[0].split(",")[1:]
    return np.array([line.split(",")[1:] for line in lines[1:]], int), words


def by_words(corpus, words):
    at = [corpus.vocab.index(word) for word in words]
    return corpus.to_matrix().toarray()[:, at]


# ---------------------------------------------------------------- the same counts from every file


def write_all(folder):
    "The same counts in every format that there is, as (file, options) by name."
    counts, words = truth()
    files = {
        "wide": (DATA / "samples.csv", {}),
        "tsv, turned": (DATA / "table.tsv", {"transpose": True}),
        "long": (DATA / "long.csv", {}),
        "mtx": (DATA / "matrix.mtx", {"vocab": words}),
        "npy": (folder / "x.npy", {"vocab": words}),
        "npz": (folder / "x.npz", {"vocab": words}),
        "npz, dense": (folder / "dense.npz", {"vocab": words}),
        "jsonl": (folder / "x.jsonl", {}),
    }
    np.save(folder / "x.npy", counts)
    sp.save_npz(folder / "x.npz", sp.csr_matrix(counts))
    np.savez(folder / "dense.npz", counts)
    rows = ("{" + ", ".join(f'"{w}": {n}' for w, n in zip(words, row)) + "}" for row in counts)
    (folder / "x.jsonl").write_text("\n".join(rows))
    for name in ("wide", "long", "tsv, turned", "mtx"):
        path, options = files[name]
        packed = folder / f"{path.name}.gz"
        packed.write_bytes(gzip.compress(path.read_bytes()))
        files[f"{name}, gzip"] = packed, options
    return files


def test_all_files_hold_the_same(tmp_path):
    counts, words = truth()
    for name, (path, options) in write_all(tmp_path).items():
        found = load_corpus(path, **options)
        assert (by_words(found, words) == counts).all(), name


@pytest.mark.parametrize("name", ["samples.csv", "long.csv", "matrix.mtx"])
def test_the_shell_reads_them_from_files_and_standard_input(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["fit", str(DATA / name), "--out", "run", *QUICK]) == 0
    out, err = capsys.readouterr()
    assert "40 documents, 80,000 tokens, 24 words" in out and "read as " in err
    assert "--format" in err and "format=" not in err
    assert "read as " in Path("run/report.html").read_text()
    whole = (DATA / name).read_bytes()
    for out_name, content in (("plain", whole), ("packed", gzip.compress(whole))):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        assert cli.main(["fit", "-", "--out", out_name, *QUICK, "--quiet"]) == 0
        assert "80,000 tokens, 24 words" in capsys.readouterr().out


def test_baskets_keep_items_of_several_words(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = DATA / "baskets_one_a_line.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    found, want = load_corpus(path), Corpus.from_docs(lines)
    assert found.vocab == want.vocab and (found.to_matrix() != want.to_matrix()).nnz == 0
    assert cli.main(["fit", str(path), "--out", "run", *QUICK]) == 0
    assert "whole milk" in capsys.readouterr().out + Path("run/topics.json").read_text()


def test_transpose_turns_a_table_at_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    typed = ["fit", str(DATA / "table.tsv"), "--out", "run", *QUICK]
    assert cli.main([*typed, "--transpose"]) == 0
    assert "40 documents, 80,000 tokens, 24 words" in capsys.readouterr().out
    assert cli.main([*typed, "--overwrite"]) == 0
    out, err = capsys.readouterr()
    assert "24 documents, 80,000 tokens, 40 words" in out and "--transpose if documents are" in err


def test_genes_by_cells_with_names_beside(tmp_path):
    counts, words = truth()
    scipy.io.mmwrite(tmp_path / "matrix.mtx", sp.coo_matrix(counts.T))
    (tmp_path / "features.tsv").write_text("".join(f"ID{i}\t{w}\tx\n" for i, w in enumerate(words)))
    (tmp_path / "barcodes.tsv").write_text("".join(f"cell{j}\n" for j in range(40)))
    found = load_corpus(tmp_path / "matrix.mtx")
    assert found.vocab == words and (found.to_matrix().toarray() == counts).all()


def test_parquet_and_jsonl_of_counts(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow

    counts, words = truth()
    columns = {"sample": [f"S{i}" for i in range(40)]}
    columns |= {w: counts[:, v] for v, w in enumerate(words)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "x.parquet")
    assert (by_words(load_corpus(tmp_path / "x.parquet"), words) == counts).all()
    (tmp_path / "w.jsonl").write_text('["sea", "sea", "tea"]\n["tea"]\n')
    assert load_corpus(tmp_path / "w.jsonl").to_matrix().toarray().tolist() == [[2, 1], [0, 1]]


@pytest.mark.skipif(
    importlib.util.find_spec("anndata") is None, reason="needs anndata: pip install anndata"
)
def test_h5ad(tmp_path):
    import anndata
    import pandas

    anndata.settings.allow_write_nullable_strings = True
    counts, words = truth()
    obs = pandas.DataFrame({"batch": ["a", "b"] * 20}, index=[f"c{i}" for i in range(40)])
    data = anndata.AnnData(sp.csr_matrix(counts.astype("f4")), obs, pandas.DataFrame(index=words))
    data.write_h5ad(tmp_path / "x.h5ad")
    found = load_corpus(tmp_path / "x.h5ad")
    assert found.vocab == words and found.groups["batch"].tolist() == ["a", "b"] * 20
    assert (found.to_matrix().toarray() == counts).all()


def test_h5ad_without_its_library(tmp_path, monkeypatch):
    (tmp_path / "x.h5ad").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(ValueError, match="pip install anndata"):
        load_corpus(tmp_path / "x.h5ad")


# ---------------------------------------------------------------- told from the content


LINES = {
    "excel.csv": ("name;sea;tea\na;1;2\nb;0;3\n", "wide"),
    "bom.csv": ("\ufeffname,sea,tea,rum\na,1,2,0\nb,0,3,1\n", "wide"),
    "floats.csv": ("sea,tea,rum\n1.0,2.0,0.0\n0.0,3.0,5.0\n", "wide"),
    "index.csv": (",sea,tea\n0,5,2\n1,0,3\n", "wide"),
    "numbers.txt": ("name\tsea\ttea\na\t1\t2\nb\t0\t3\n", "wide"),
    "long.tsv": ("doc\titem\tn\na\tsea\t2\na\ttea\t1\nb\tsea\t4\n", "long"),
    "survey.csv": ("id,age,region,answer\n1,30,north,the rent is high\n2,40,south,no\n", "csv"),
    "labels.csv": ("who,text\nann,the sea\nbob,tea\n", "csv"),
    "notes.txt": ("sea, tea and rum\nthe sea, a storm\n" * 20, "text"),
    "counts.dat": ("2 0:1 3:2\n1 2:1\n", "ldac"),
}


@pytest.mark.parametrize("name", LINES)
def test_what_a_file_is(tmp_path, name):
    text, kind = LINES[name]
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert guess_format(tmp_path / name) == kind
    if kind in ("wide", "long"):
        found = load_corpus(tmp_path / name)
        assert found.n_docs == 2 and {"sea", "tea"} <= set(found.vocab) <= {"sea", "tea", "rum"}
        assert load_corpus(tmp_path / name, format=kind) == found


def test_a_column_that_is_named_makes_it_texts(tmp_path):
    (tmp_path / "a.csv").write_text("sea,tea\n1,2\n3,4\n")
    assert guess_format(tmp_path / "a.csv", None, "sea") == "csv"


MTX = "%%MatrixMarket matrix coordinate integer general"
REFUSED = {
    "binary.csv": ("s,a,b\nx,0,1\ny,1,1\n", "--format wide .* or .*--likelihood categorical"),
    "triples.csv": ("a,b,c\n1,2,30\n1,3,7\n2,2,9\n", "--format wide .* or .*--format long"),
    "half.csv": ("s,a,b,c\nx,1,2.5,0\ny,0,1,3\n", "whole counts"),
    "minus.csv": ("s,a,b,c\nx,1,-2,0\ny,0,1,3\n", "negative|0, 1, 2"),
    "hole.csv": ("s,a,b\nx,1,2\ny,1,\nz,3,3\n", "column 3 of line 3 should hold a number"),
    "cut.npy": ("\x93NUMPY\x01", "npy"),
    "cut.mtx": (f"{MTX}\n2 2 3\n1 1 1\n", "mtx"),
    "claim.mtx": (f"{MTX}\n999999999 2 1\n1 1 1\n", "rows"),
    "header.csv": ("a,b,c\n", "got a header only"),
    "empty.csv": ("", "column must be|empty"),
    "two.csv": ("title,body\nthe sea is wide,a ship at sea\nthe tea is,a cup of tea\n", "column"),
    "quote.csv": ('name,sea,tea\na,1,2\n"b,3,4\n', "column must be|quote"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_at_the_shell(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    text, says = REFUSED[name]
    encoding = "latin-1" if name.endswith("npy") else "utf-8"
    (tmp_path / name).write_text(text, encoding=encoding)
    assert cli.main(["fit", name, "--out", "run", *QUICK]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(says, line) and len(line) <= 320 and "wide,a ship" not in line
    assert {path.name for path in tmp_path.iterdir()} == {name}


def test_a_column_that_is_nearly_there(tmp_path):
    (tmp_path / "a.csv").write_text("id,answer\n1,the sea\n2,tea\n")
    with pytest.raises(ValueError, match="did you mean 'answer'"):
        load_corpus(tmp_path / "a.csv", column="answr")


@pytest.mark.parametrize("n", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
def test_many_columns(tmp_path, n):
    head, row = ",".join(f"g{v}" for v in range(n)), ",".join(["3", "0"] * (n // 2))
    (tmp_path / "wide.csv").write_text(f"{head}\n{row}\n{row}\n")
    assert load_corpus(tmp_path / "wide.csv").shape == (2, n)


def test_options_of_tables(tmp_path):
    with pytest.raises(ValueError, match="stop_words is no option of format 'wide'"):
        load_corpus(DATA / "samples.csv", stop_words="english")
    with pytest.raises(ValueError, match="transpose must be False for format 'long'"):
        read_counts(DATA / "long.csv", "long", transpose=True)
    with pytest.raises(ValueError, match="transpose is no option of format 'csv'"):
        load_corpus(DATA / "answers.csv", column="answer", transpose=True)
    assert set(TABLE_FORMATS) <= set(hdp_nb.cli.arguments._FORMATS)
