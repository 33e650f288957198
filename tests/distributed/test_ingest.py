"""Texts to shards: token by token what `count_texts` makes in memory, from any source, however it
is cut, interrupted and taken up again; words beyond what memory holds; appending; what is refused.
"""

import gzip
import json
import logging

import numpy as np
import pytest

from hdp_nb.cli import main as cli
from hdp_nb.corpora.counting import count_texts
from hdp_nb.distributed import ingest, pieces
from hdp_nb.distributed.ingest import append_shards, build_shards, merge_counts
from hdp_nb.distributed.parquet import Place, arrow
from hdp_nb.distributed.pieces import Piece, read_piece
from hdp_nb.distributed.shards import ShardedCorpus

pytest.importorskip("pyarrow")

WORDS = [f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrs"]


def draw_texts(n, seed=0):
    "Texts of words with Zipf frequencies, some of them empty, with what has to be quoted."
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(n):
        words = [WORDS[v % len(WORDS)] for v in rng.zipf(1.4, rng.integers(0, 25)) - 1]
        texts.append(" ".join(words) + ("" if rng.random() < 0.5 else ', "Ünd" \\ so'))
    return texts


TEXTS = draw_texts(90)
OPTIONS = {"stop_words": None, "min_df": 2, "max_df": 0.9}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    "Many pieces, many shards."
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1500)
    monkeypatch.setattr(ingest, "SHARD_TOKENS", 90)


@pytest.fixture(scope="module")
def whole():
    return count_texts(TEXTS, **OPTIONS)


def same(corpus, whole):
    found = [shard for shard in corpus]
    return (
        corpus.vocab == whole.vocab
        and np.array_equal(np.concatenate([shard.x for shard in found]), whole.x)
        and np.array_equal(corpus.doc_lengths, whole.doc_lengths)
        and np.array_equal(corpus.word_counts, whole.word_counts())
        and corpus.word_docs.tolist() == (whole.to_matrix() > 0).sum(axis=0).tolist()
    )


def lines(path):
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path, {}


def windows_lines(path):
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(TEXTS).encode())
    return path, {}


def jsonl(path):
    rows = [json.dumps({"id": f"t{j}", "said": text}) for j, text in enumerate(TEXTS)]
    path = path.with_suffix(".jsonl")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path, {"column": "said", "id_column": "id"}


def several(path):
    path.mkdir()
    for i, (a, b) in enumerate(((0, 40), (40, 41), (41, 90))):
        rows = [json.dumps({"id": f"t{j}", "said": TEXTS[j]}) for j in range(a, b)]
        (path / f"{i}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    return path / "*.jsonl", {"column": "said", "id_column": "id"}


def parquet(path):
    columns = {"id": [f"t{j}" for j in range(90)], "said": TEXTS, "other": range(90)}
    pa, writer = arrow()
    path = path.with_suffix(".parquet")
    writer.write_table(pa.table(columns), path, row_group_size=7)
    return path, {"column": "said", "id_column": "id"}


def folder(path):
    for j, text in enumerate(TEXTS):
        name = path / f"part-{j // 50}" / f"text-{j:03d}.txt"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(text, encoding="utf-8")
    name = path / "part-0" / "text-007.txt"
    (path / "part-0" / "text-007.txt.gz").write_bytes(gzip.compress(name.read_bytes()))
    name.unlink()
    return path, {}


def compressed(path):
    path = path.with_suffix(".jsonl.gz")
    rows = [json.dumps({"id": f"t{j}", "said": text}) for j, text in enumerate(TEXTS)]
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    return path, {"column": "said", "id_column": "id"}


def table(path):
    import csv

    path = path.with_suffix(".csv")
    with open(path, "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "said"])
        out.writerows((f"t{j}", text) for j, text in enumerate(TEXTS))
    return path, {"column": "said", "id_column": "id"}


def store(path):
    place = Place(f"memory://{path.parent.name}/texts")
    rows = [json.dumps({"id": f"t{j}", "said": text}) for j, text in enumerate(TEXTS)]
    place.write("a.jsonl", "\n".join(rows).encode())
    return f"{place.path}/*.jsonl", {"column": "said", "id_column": "id"}


def files_in_a_store(path):
    place = Place(f"memory://{path.parent.name}/files")
    for j, text in enumerate(TEXTS):
        place.write(f"part-{j // 50}/text-{j:03d}.txt", text.encode())
    return place.path, {}


def stream(path):
    return iter(TEXTS), {}


def bag(path):
    return pytest.importorskip("dask.bag").from_sequence(TEXTS, npartitions=5), {}


def frame(path):
    pandas = pytest.importorskip("pandas")
    rows = pandas.DataFrame({"id": [f"t{j}" for j in range(90)], "said": TEXTS})
    rows.loc[rows["said"] == "", "said"] = None
    dask = pytest.importorskip("dask.dataframe")
    return dask.from_pandas(rows, npartitions=4), {"column": "said", "id_column": "id"}


SOURCES = [lines, windows_lines, jsonl, several, parquet, folder, compressed, table, store]
SOURCES += [files_in_a_store, stream, bag, frame]


@pytest.mark.parametrize("source", SOURCES)
def test_every_source(tmp_path, whole, source):
    docs, options = source(tmp_path / "texts")
    corpus = build_shards(tmp_path / "corpus", docs, **options, **OPTIONS)
    assert corpus.n_shards > 3 and same(corpus, whole)
    assert not Place(tmp_path / "corpus").names("staging")
    names = sum((corpus.names_of(i) for i in range(corpus.n_shards)), [])
    if "id_column" in options:
        assert names == [f"t{j}" for j in range(90)]
    elif source in (folder, files_in_a_store):
        assert names[89] == "part-1/text-089.txt" and len(set(names)) == 90
    else:
        assert names == [str(j) for j in range(90)]
    assert corpus.vectorizer.build_analyzer()("Bal, dem!") == ["bal", "dem"]


def test_the_cut_makes_no_difference(tmp_path, whole, monkeypatch):
    "Only to which shard a document is in; the control leaves out one line."
    path, _ = lines(tmp_path / "texts")
    for size in (200, 333, 10**6):
        monkeypatch.setattr(pieces, "PIECE_BYTES", size)
        assert same(build_shards(tmp_path / f"c-{size}", path, **OPTIONS), whole)
    path.write_text("\n".join(TEXTS[1:]), encoding="utf-8")
    assert not same(build_shards(tmp_path / "control", path, **OPTIONS), whole)


def test_defaults_are_those_of_count_texts(tmp_path, caplog):
    texts = ["The whale and the sea are here", "A whale is not a fish of the sea"] * 15
    with caplog.at_level(logging.WARNING, "hdp_nb"):
        corpus, whole = (
            build_shards(tmp_path / "c", texts, max_df=1.0),
            count_texts(texts, max_df=1.0),
        )
    assert same(corpus, whole)
    one, other = (record.getMessage() for record in caplog.records)
    assert one == other and "stop words (English)" in one


# ---------------------------------------------------------------- interrupted, taken up


@pytest.mark.parametrize("source", [jsonl, stream, table])
@pytest.mark.parametrize("fails", ["count_piece", "index_piece", "write_index"])
def test_interrupted_and_resumed(tmp_path, whole, monkeypatch, source, fails):
    "What was done is not done again; the files are those of a build without a break."
    docs, options = source(tmp_path / "texts")
    docs = TEXTS if source is stream else docs
    place, plain, done = Place(tmp_path / "corpus"), getattr(ingest, fails), []

    def breaks(*args):
        if fails == "write_index" or args[1] == 2:
            raise KeyboardInterrupt
        return plain(*args)

    def counted(*args):
        done.append(args[1] if fails != "write_index" else 0)
        return plain(*args)

    monkeypatch.setattr(ingest, fails, breaks)
    with pytest.raises(KeyboardInterrupt):
        build_shards(place, docs, **options, **OPTIONS)
    with pytest.raises(ValueError, match="folder must hold a sharded corpus"):
        ShardedCorpus(place)
    monkeypatch.setattr(ingest, fails, counted)
    if fails != "count_piece":  # while words are counted, which to keep may be chosen anew
        with pytest.raises(ValueError, match="unfinished build .*fresh=True"):
            build_shards(place, docs, **options, **OPTIONS | {"min_df": 3})
        assert not done
    assert same(build_shards(place, docs, **options, **OPTIONS), whole)
    assert done[0] == (0 if fails == "write_index" else 2)
    build_shards(tmp_path / "unbroken", docs, **options, **OPTIONS)
    for name in Place(tmp_path / "unbroken").names("documents"):
        name = f"documents/{name}"
        assert place.read(name) == Place(tmp_path / "unbroken").read(name)


def test_whole_files_that_were_rewritten_meanwhile(tmp_path, monkeypatch):
    "With texts of the same lengths, so that only the time tells; one of many is enough."
    path, plain = tmp_path / "texts", ingest.index_piece
    path.mkdir()
    for j in range(30):
        (path / f"{j:02}.txt").write_text("apple banana cherry")
    monkeypatch.setattr(pieces, "PIECE_BYTES", 100)
    monkeypatch.setattr(ingest, "index_piece", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_shards(tmp_path / "c", str(path), **OPTIONS | {"max_df": 1.0})
    monkeypatch.setattr(ingest, "index_piece", plain)
    (path / "17.txt").write_text("grape banana cherry")
    with pytest.raises(ValueError, match="unfinished build of other texts.*fresh=True"):
        build_shards(tmp_path / "c", str(path), **OPTIONS | {"max_df": 1.0})
    options = OPTIONS | {"max_df": 1.0, "min_df": 1, "fresh": True}
    assert "grape" in build_shards(tmp_path / "c", str(path), **options).vocab


def test_fresh_discards_another_build(tmp_path, monkeypatch):
    plain = ingest.index_piece
    monkeypatch.setattr(ingest, "index_piece", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_shards(tmp_path / "c", draw_texts(30, 1), **OPTIONS)
    monkeypatch.setattr(ingest, "index_piece", plain)
    corpus = build_shards(tmp_path / "c", TEXTS, fresh=True, **OPTIONS)
    assert same(corpus, count_texts(TEXTS, **OPTIONS))


def test_words_may_be_chosen_anew(tmp_path, whole, monkeypatch):
    "What was counted serves another choice of words, until shards of the first are there."
    with pytest.raises(ValueError, match="no word"):
        build_shards(tmp_path / "c", TEXTS, **OPTIONS | {"min_df": 91})
    counted = []
    monkeypatch.setattr(ingest, "count_piece", lambda job, i: counted.append(i))
    assert same(build_shards(tmp_path / "c", TEXTS, **OPTIONS), whole)
    assert not counted


def test_killed_after_the_index(tmp_path, whole, monkeypatch):
    "The same call finds it finished; another is refused and leaves it as it is."
    monkeypatch.setattr(Place, "clear", lambda *args: 1 / 0)
    path, options = jsonl(tmp_path / "texts")
    with pytest.raises(ZeroDivisionError):
        build_shards(tmp_path / "c", path, **options, **OPTIONS)
    monkeypatch.undo()
    monkeypatch.setattr(pieces, "PIECE_BYTES", 1500)
    monkeypatch.setattr(ingest, "SHARD_TOKENS", 90)
    assert same(build_shards(tmp_path / "c", path, **options, **OPTIONS), whole)
    assert not Place(tmp_path / "c").names("staging")
    with pytest.raises(ValueError, match="append_shards"):
        build_shards(tmp_path / "c", path, **options, **OPTIONS)
    assert same(ShardedCorpus(tmp_path / "c"), whole)


# ---------------------------------------------------------------- appending


@pytest.mark.parametrize("fails", [None, "index_piece", "write_index", "clear"])
def test_appended(tmp_path, whole, monkeypatch, fails):
    "As if the words had been chosen by the first texts and all texts counted; also when killed."
    more, place = draw_texts(50, 1), Place(tmp_path / "c")
    more[0] += " unheard of"
    before = build_shards(place, TEXTS, **OPTIONS)
    if fails:
        where = Place if fails == "clear" else ingest
        with monkeypatch.context() as patch:
            patch.setattr(where, fails, lambda *args: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                append_shards(place, more)
        if fails != "clear":
            assert same(ShardedCorpus(place), whole)  # as before, until all is there
    corpus = append_shards(place, more)
    ids = {word: v for v, word in enumerate(whole.vocab)}
    cut = whole.vectorizer.build_analyzer()
    docs = [[ids[w] for w in cut(text) if w in ids] for text in TEXTS + more]
    assert [list(doc) for shard in corpus for doc in shard] == docs
    assert corpus.vocab == whole.vocab and corpus.digest != before.digest
    counts = np.bincount(np.concatenate(docs).astype(int), minlength=len(ids))
    assert np.array_equal(corpus.word_counts, counts)
    assert corpus.word_docs.sum() == sum(len(set(doc)) for doc in docs)
    names = sum((corpus.names_of(i) for i in range(corpus.n_shards)), [])
    assert names == [str(j) for j in range(140)]
    again = append_shards(place, more)  # on purpose
    assert again.n_docs == 190


def test_it_is_said_what_was_not_appended(tmp_path, caplog):
    place = tmp_path / "c"
    build_shards(place, TEXTS, **OPTIONS)
    known, caplog.records[:] = ShardedCorpus(place).vocab[0], []
    append_shards(place, [f"{known} {known}", ""])
    assert not caplog.records
    append_shards(place, [known] * 50 + ["unheard of", f"{known} Wort", "", "Unsinn"])
    assert [record.getMessage() for record in caplog.records] == [
        "54 texts; left out: 4 tokens of words that the corpus does not have; empty documents, of"
        " no other words: 2"
    ]
    caplog.records[:] = []
    append_shards(place, [f"{known} Wort"])
    said = "1 text; left out: 1 token of words that the corpus does not have"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_append_to_what_was_not_texts(tmp_path):
    from hdp_nb.distributed.shards import write_shards

    write_shards(tmp_path / "ids", [[0, 1]], format="parquet")
    with pytest.raises(ValueError, match="made of texts"):
        append_shards(tmp_path / "ids", ["a text"])


# ---------------------------------------------------------------- encodings


ACCENTED = [text.replace("a", "à").replace("e", "é") for text in TEXTS]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "cp500", "iso2022_jp_2"])
@pytest.mark.parametrize("kind", ["lines", "jsonl", "folder", "compressed"])
def test_encodings(tmp_path, kind, encoding):
    "Those whose lines can be told by bytes in pieces, others from the beginning; files in folders."
    path, options = tmp_path / "texts", {}
    if kind == "folder":
        path.mkdir()
        for j, text in enumerate(ACCENTED):
            (path / f"{j:03}.txt").write_bytes(text.encode(encoding))
    elif kind == "jsonl":
        path, options = tmp_path / "texts.jsonl", {"column": "a"}
        rows = [json.dumps({"a": text}, ensure_ascii=False) for text in ACCENTED]
        path.write_bytes("\n".join(rows).encode(encoding))
    else:
        data = "\n".join(ACCENTED).encode(encoding)
        path.write_bytes(gzip.compress(data) if kind == "compressed" else data)
    corpus = build_shards(tmp_path / "c", path, encoding=encoding, **options, **OPTIONS)
    assert same(corpus, count_texts(ACCENTED, **OPTIONS)) and corpus.n_shards > 1
    again = append_shards(tmp_path / "c", path, encoding=encoding, **options)
    assert again.word_counts.tolist() == (2 * corpus.word_counts).tolist()


def test_encodings_at_the_shell(tmp_path, capsys):
    path, out = tmp_path / "a.txt", str(tmp_path / "c")
    path.write_bytes("\n".join(ACCENTED).encode("cp1252"))
    typed = ["shards", "build", str(path), "--out", out, "--quiet"]
    assert cli.main(typed) == 2
    assert "--encoding names another, such as 'cp1252'" in capsys.readouterr().err
    assert cli.main([*typed, "--encoding", "utf-9"]) == 2
    assert "--encoding must be one that Python knows, got 'utf-9'" in capsys.readouterr().err
    for more in [], ["--append"]:
        assert cli.main([*typed, "--encoding", "cp1252", *more]) == 0
        assert f"{len(TEXTS) * (2 if more else 1)} documents" in capsys.readouterr().out


def test_an_unfinished_build_in_another_encoding(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes("\n".join(ACCENTED).encode("cp1252"))
    with monkeypatch.context() as patch:
        patch.setattr(ingest, "index_piece", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build_shards(tmp_path / "c", path, encoding="cp1250", **OPTIONS)
    with pytest.raises(ValueError, match="unfinished build of other texts, or with other options"):
        build_shards(tmp_path / "c", path, encoding="cp1252", **OPTIONS)


# ---------------------------------------------------------------- more words than memory


def test_words_beyond_memory(tmp_path, whole, monkeypatch):
    "min_df above the floor gives what is counted without a limit; below, it is refused or raised."
    path, options = jsonl(tmp_path / "texts")
    monkeypatch.setattr(ingest, "MOST_WORDS", 70)
    strict = OPTIONS | {"min_df": 12}
    exact = count_texts(TEXTS, **strict)
    assert same(build_shards(tmp_path / "c", path, **options, **strict), exact)
    with pytest.raises(ValueError, match=r"min_df must be above \d+.*70.*got 2"):
        build_shards(tmp_path / "d", path, **options, **OPTIONS)
    raised = build_shards(tmp_path / "e", path, **options, **OPTIONS | {"min_df": "auto"})
    least = raised.word_docs.min()
    assert least > 2 and same(raised, count_texts(TEXTS, **OPTIONS | {"min_df": int(least)}))


@pytest.mark.parametrize("most", [1, 7, 40])
def test_bounds_of_merged_counts(most):
    "(S2), for tables in any order; the control is the floor that forgets what was missed before."
    rng, broken = np.random.default_rng(most), 0
    for _ in range(20):
        tables, true = [], {}
        for _ in range(12):
            words, n = np.unique(rng.zipf(1.5, 30) % 60, return_counts=True)
            tables.append((words.tolist(), n.tolist(), n.tolist()))
            for w, d in zip(words.tolist(), n.tolist()):
                true[w] = true.get(w, 0) + d
        found, floor = merge_counts(tables, most)
        assert len(found) <= most and floor > 0
        assert all(d <= true[w] <= d + e for w, (_, d, e) in found.items())
        out = [true[w] for w in true.keys() - found.keys()]
        assert all(d <= floor for d in out)
        broken += any(d > floor / 2 for d in out)
    assert broken > 0  # half of the floor would not do


# ---------------------------------------------------------------- workers


@pytest.mark.slow
def test_workers(tmp_path, whole):
    "By two processes: the same bytes."
    dask = pytest.importorskip("distributed")
    path, options = jsonl(tmp_path / "texts")
    here = build_shards(tmp_path / "here", path, **options, **OPTIONS)
    with dask.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as cluster:
        there = build_shards(
            tmp_path / "there", path, client=cluster.scheduler_address, **options, **OPTIONS
        )
    assert same(there, whole) and there.digest == here.digest and there.parts == here.parts


# ---------------------------------------------------------------- what is refused


def write(path, data):
    path.write_bytes(data)
    return str(path)


def rows(folder, data):
    return write(folder / "a.jsonl", data)


@pytest.mark.parametrize(
    "make, options, says",
    [
        (lambda p: p / "none.jsonl", {"column": "a"}, "none.jsonl"),
        (lambda p: str(p / "*.jsonl"), {}, "no file is named like"),
        (lambda p: p, {}, "must hold .txt files"),
        (lambda p: rows(p, b'{"a": "x"}\n{"a": 3}'), {"column": "a"}, "byte 11.*text"),
        (lambda p: rows(p, b'{"a": "x"}\n{"b": "x"}'), {"column": "a"}, "byte 11.*'a'"),
        (lambda p: rows(p, b'{"a": "x"}\n{"a": '), {"column": "a"}, "is no JSON"),
        (lambda p: rows(p, b'{"a": "x"}'), {}, "column must be one of 'a'"),
        (lambda p: rows(p, b'"x"\n"y"'), {"column": "a"}, "object with 'a'"),
        (lambda p: write(p / "a.txt", b"caf\xe9 one\n"), {}, "a.txt.*0xe9.*UTF-8"),
        (lambda p: rows(p, b"\x00\x01"), {}, "zero byte"),
        (lambda p: write(p / "a.parquet", b"PAR1 and nothing"), {"column": "a"}, "a.parquet"),
        (lambda p: write(p / "a.pdf", b"%PDF"), {}, "PDF"),
        (lambda p: ["x", 3], {}, "strings.*3 at 1"),
        (lambda p: [], {}, "at least one text"),
        (lambda p: ["", "  "], {}, "no word"),
        (lambda p: ["bal dem"] * 3, {"max_df": 1, "min_df": 1}, "no word is left"),
        (lambda p: 17, {}, "docs must be texts"),
        (lambda p: ["x"], {"format": "doc"}, "format"),
        (lambda p: ["x"], {"encoding": "cp1252"}, "encoding must be None where docs are texts"),
        (lambda p: write(p / "a.txt", b"x"), {"encoding": "hex"}, "encoding must be one.*'hex'"),
        (lambda p: write(p / "a.txt", b"x"), {"encoding": 5}, "encoding must be one.*got 5"),
        (lambda p: ["x"], {"id_column": "id"}, "id_column"),
        (lambda p: ["x"], {"colour": "id"}, "colour"),
        (lambda p: ["x"], {"client": 17}, "client.*17"),
    ],
)
def test_bad_input(tmp_path, make, options, says):
    (tmp_path / "in").mkdir()
    with pytest.raises((ValueError, OSError), match=says) as error:
        build_shards(tmp_path / "c", make(tmp_path / "in"), **options)
    assert "\n" not in str(error.value) and not (tmp_path / "c" / "index.json").exists()


def test_a_parquet_column_that_is_not_there(tmp_path):
    path, _ = parquet(tmp_path / "texts")
    with pytest.raises(ValueError, match="texts.parquet.*column 'words', got 'id', 'said'"):
        build_shards(tmp_path / "c", path, column="words")


def test_a_full_disk_loses_nothing(tmp_path, whole, monkeypatch):
    path, options = jsonl(tmp_path / "texts")
    plain, left = Place.write, [4]

    def full(self, name, data):
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device", self.at(name))
        plain(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(Place, "write", full)
        with pytest.raises(OSError, match="No space left.*staging/words"):
            build_shards(tmp_path / "c", path, **options, **OPTIONS)
    assert len(Place(tmp_path / "c").names("staging")) == 3
    assert same(build_shards(tmp_path / "c", path, **options, **OPTIONS), whole)


def test_pieces_of_unreadable_kinds():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        list(read_piece(Piece("text", "/nowhere/at/all", 0, 9), None))


@pytest.mark.slow
def test_a_store_like_s3(tmp_path, whole, monkeypatch, like_s3):
    "From a bucket into a bucket, appended to; a bucket that is not there, and no access."
    rows = [json.dumps({"id": f"t{j}", "said": text}) for j, text in enumerate(TEXTS)]
    Place("s3://texts/in").write("a.jsonl", "\n".join(rows).encode())
    source = {"column": "said", "id_column": "id"}
    corpus = build_shards("s3://texts/c", "s3://texts/in/*.jsonl", **source, **OPTIONS)
    assert corpus.n_shards > 3 and same(corpus, whole)
    assert append_shards("s3://texts/c", draw_texts(20, 1)).n_docs == 110
    assert ShardedCorpus("s3://texts/c").n_docs == 110
    with pytest.raises(OSError, match="s3://nowhere/c/") as error:
        build_shards("s3://nowhere/c", TEXTS, **OPTIONS)
    assert "\n" not in str(error.value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    like_s3.clear_instance_cache()
    with pytest.raises(OSError, match="s3://texts/c/index.json.*redentials"):
        ShardedCorpus("s3://texts/c")


@pytest.mark.parametrize("other", ["a.txt", "c.jsonl.gz", "below/d.jsonl", "e.csv"])
def test_nothing_in_a_folder_is_left_out_in_silence(tmp_path, other):
    source = tmp_path / "texts"
    line = "".join(json.dumps({"text": text}) + "\n" for text in ("ship sea storm", "bread wine"))
    (source / "below").mkdir(parents=True)
    (source / "b.jsonl").write_text(line * 10)
    build_shards(tmp_path / "one", source, column="text")
    (source / other).write_text(line)
    with pytest.raises(ValueError, match=r"files of one kind.*b\.jsonl and .*; a pattern like"):
        build_shards(tmp_path / "two", source, column="text")
    assert build_shards(tmp_path / "two", f"{source}/b*.jsonl", column="text").n_docs == 20


def test_what_says_nothing_about_a_source_is_refused(tmp_path):
    pandas, texts = pytest.importorskip("pandas"), ["ship sea storm", "bread wine cheese"] * 10
    folder = tmp_path / "texts [x]"
    folder.mkdir()
    for j, text in enumerate(texts):
        (folder / f"{j}.txt").write_text(text)
    assert build_shards(tmp_path / "one", folder).n_docs == 20  # brackets, but no pattern
    with pytest.raises(ValueError, match="column must be None for a folder"):
        build_shards(tmp_path / "two", folder, column="text")
    with pytest.raises(ValueError, match="column, format and encoding must be None"):
        build_shards(tmp_path / "two", texts, column="text")
    with pytest.raises(ValueError, match="take one column"):
        build_shards(tmp_path / "two", pandas.DataFrame({"text": texts}))
    with pytest.raises(ValueError, match="take one column"):
        append_shards(tmp_path / "one", pandas.DataFrame({"text": texts}))
