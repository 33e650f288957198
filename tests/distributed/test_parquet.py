"""Shards as Parquet: what is written comes back, on a disk and in a store; other programs read it;
samplers draw the same from it; damage is named.
"""

import json
import pickle
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed import parquet
from hdp_nb.distributed.fit import fit
from hdp_nb.distributed.parquet import (
    Part,
    Place,
    read_part,
    runs_of,
    vocabulary_digest,
    write_part,
)
from hdp_nb.distributed.shards import ShardedCorpus, map_lengths, write_shards
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.variational_models import OnlineHDP
from hdp_nb.utils import files

pa = pytest.importorskip("pyarrow")

BARS = make_bars(n_docs=60, doc_len=30, grid=4, random_state=0)[0]
CORPUS = Corpus.from_docs([[], *BARS, [], [3, 3, 1, 3]], n_words=20)  # four words never occur


@pytest.fixture
def shards(tmp_path):
    return write_shards(
        tmp_path / "corpus", iter(CORPUS), n_words=20, shard_tokens=400, format="parquet"
    )


@given(st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=6))
def test_runs(docs):
    corpus = Corpus.from_docs(docs) if any(docs) else Corpus([], [0] * (len(docs) + 1))
    words, counts, ends = runs_of(corpus.x, corpus.offsets)
    assert (counts > 0).all() and ends[-1] == len(words) == len(counts)
    for doc, a, b in zip(docs, ends, ends[1:]):
        assert np.repeat(words[a:b], counts[a:b]).tolist() == doc
        assert (words[a:b][1:] != words[a:b][:-1]).all()  # no run could be longer


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_round_trip(tmp_path, where):
    folder = tmp_path / "c" if where == "disk" else f"memory://{tmp_path.name}/c"
    corpus = write_shards(folder, iter(CORPUS), n_words=20, shard_tokens=400, format="parquet")
    assert corpus.n_shards == 5 and corpus.n_docs == 63 and corpus.n_tokens == CORPUS.n_tokens
    assert np.array_equal(np.concatenate([part.x for part in corpus]), CORPUS.x)
    assert np.array_equal(corpus.doc_lengths, CORPUS.doc_lengths)
    assert np.array_equal(corpus.word_counts, CORPUS.word_counts())
    in_docs = [sum(v in doc for doc in CORPUS) for v in range(20)]
    assert corpus.word_docs.tolist() == in_docs
    assert sum((corpus.names_of(i) for i in range(5)), []) == list(map(str, range(63)))
    again = pickle.loads(pickle.dumps(ShardedCorpus(folder)))
    assert again.digest == corpus.digest and again.shard(3) == corpus.shard(3)
    words = write_shards(
        f"{folder}-words",
        (doc.split() for doc in ["b a", "a", "c c a"]),
        vocab=["a", "b", "c"],
        shard_tokens=3,
        format="parquet",
    )
    assert words.vocab == ["a", "b", "c"] and [*words.shard(1)[0]] == [2, 2, 0]
    with pytest.raises(ValueError, match="folder must not hold"):
        write_shards(folder, [[1]], format="parquet")


@pytest.mark.parametrize("where", ["disk", "memory"])
def test_arrays_in_a_place(tmp_path, where):
    place = Place(tmp_path / "a" if where == "disk" else f"memory://{tmp_path.name}/a")
    arrays = {"one": np.arange(5), "none": np.empty((0, 3))}
    for _ in range(2):  # over what is there
        place.write_arrays("x.npz", arrays)
    found = place.read_arrays("x.npz")
    assert found.keys() == arrays.keys() and place.names("") == ["x.npz"]
    assert all(np.array_equal(found[name], arrays[name]) for name in arrays)
    place.write("cut.npz", place.read("x.npz")[:-30])
    with pytest.raises(ValueError, match=r"a.cut\.npz: takes a whole \.npz file"):
        place.read_arrays("cut.npz")
    with pytest.raises(FileNotFoundError, match="none.npz"):
        place.read_arrays("none.npz")


def test_other_programs_read_it(tmp_path, shards):
    "All shards as one table, by names that the notebook gives; counts add up to ours."
    pandas = pytest.importorskip("pandas")
    table = pandas.read_parquet(tmp_path / "corpus" / "documents")
    assert list(table.columns) == ["doc", "length", "words", "counts"] and len(table) == 63
    assert np.array_equal(table["length"], CORPUS.doc_lengths)
    pairs = table[["words", "counts"]].explode(["words", "counts"]).dropna().astype(int)
    counts = pairs.groupby("words")["counts"].sum()
    assert np.array_equal(counts, CORPUS.word_counts()[CORPUS.word_counts() > 0])


def bag_shard(place, docs, vocabulary):
    "A shard as another program might write it: 64-bit offsets apart, bags in any order."
    table = {
        "doc": pa.array([f"d{j}" for j in range(len(docs))]),
        "length": pa.array([sum(doc.values()) for doc in docs], pa.int32()),
        "words": pa.array([list(doc) for doc in docs], pa.list_(pa.int32())),
        "counts": pa.array([list(doc.values()) for doc in docs], pa.list_(pa.int32())),
    }
    meta = {"format": parquet.FORMAT, "version": parquet.VERSION, "vocabulary": vocabulary}
    place.write("documents/p.parquet", parquet.write_table(table, meta))


def test_bags_of_other_programs(tmp_path):
    place = Place(tmp_path)
    bag_shard(place, [{3: 2, 1: 1}, {}, {0: 4}], "ids")
    x = np.array([3, 3, 1, 0, 0, 0, 0], np.int32)
    part = Part("p.parquet", 3, 7, zlib.crc32(x))
    corpus = read_part(place, part, "ids", 4)
    assert np.array_equal(corpus.x, x) and corpus.offsets.tolist() == [0, 3, 3, 7]
    bag_shard(place, [{3: 2, 1: 0}], "ids")
    with pytest.raises(ValueError, match="p.parquet.*counts"):
        read_part(place, Part("p.parquet", 1, 2, 0), "ids", 4)
    bag_shard(place, [{3: 2}], "ids")
    with pytest.raises(ValueError, match="p.parquet.*words"):
        read_part(place, Part("p.parquet", 1, 2, 0), "ids", 3)


MODEL = dict(sampler="parallel", n_iter=4, burn_in=1, init=9, n_chains=1, moves=0, random_state=3)


@pytest.mark.parametrize(
    "model",
    [
        HDP(**MODEL),
        pytest.param(OnlineHDP(n_topics=4, batch_size=20, random_state=0), marks=pytest.mark.slow),
    ],
    ids=["sampler", "online"],
)
def test_same_chain_as_from_npz(tmp_path, shards, model):
    """To the last bit, whatever the format, and the cut. The control: another order of the same
    documents.
    """
    plain = write_shards(tmp_path / "npz", iter(CORPUS), n_words=20, shard_tokens=400)
    one = fit(model, plain, tmp_path / "one")
    fits = {"same": fit(clone(model), shards, tmp_path / "two")}
    other = write_shards(
        tmp_path / "other", iter(CORPUS[::-1]), n_words=20, shard_tokens=400, format="parquet"
    )
    fits["control"] = fit(clone(model), other, tmp_path / "three")
    same = {
        name: all(np.array_equal(one.trace_[key], two.trace_[key]) for key in one.trace_)
        and np.array_equal(one.components_, two.components_)
        for name, two in fits.items()
    }
    assert same == {"same": True, "control": False}


def test_damage_is_named(tmp_path, shards):
    "A shard that is missing, cut, altered, exchanged, of another vocabulary, version, or none."
    folder = tmp_path / "corpus"
    path = folder / "documents" / "part-000003-000.parquet"
    whole, other = path.read_bytes(), (path.parent / "part-000002-000.parquet").read_bytes()
    place = Place(folder)
    write_part(place, "q.parquet", CORPUS[:4], list("abcd"), vocabulary_digest(["a"]))
    foreign = (path.parent / "q.parquet").read_bytes()
    later = parquet.write_table({"length": pa.array([1], pa.int32())}, {"format": "tea"})
    for content, says in [
        (whole[:-50], "not a whole Parquet"),
        (other, "takes the shard that was written"),
        (foreign, "over another"),
        (later, "takes a column words|'tea'"),
        (b"", "not a whole Parquet"),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=says) as error:
            ShardedCorpus(folder).shard(3)
        assert str(path) in str(error.value) and "\n" not in str(error.value)
    path.unlink()
    with pytest.raises(ValueError, match="shard 3 of 5 is missing.*part-000003"):
        ShardedCorpus(folder)
    with pytest.raises(ValueError, match="part-000003.*missing"):
        shards.shard(3)  # which it was when the corpus was opened
    path.write_bytes(whole)
    assert ShardedCorpus(folder).shard(3) == shards.shard(3)


def test_no_altered_byte_goes_unseen(tmp_path, shards):
    "Wherever one is altered: what is read is what was written, or it is refused."
    path = tmp_path / "corpus" / "documents" / "part-000003-000.parquet"
    whole, right, refused = path.read_bytes(), shards.shard(3), 0
    for at in range(5, len(whole), 41):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            assert shards.shard(3) == right
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error)
            refused += 1
    assert refused > 20


def edited(name, value):
    def edit(folder):
        path = folder / "index.json"
        meta = json.loads(path.read_text())
        meta[name] = value(meta[name]) if callable(value) else value
        path.write_text(json.dumps(meta))

    return edit


@pytest.mark.parametrize(
    "edit, says",
    [
        (edited("version", 3), "version 2.*got .* of version 3"),
        (edited("format", "tea"), "tea"),
        (edited("n_words", 19), "20|19"),
        (edited("n_words", -1), "n_words"),
        (edited("vocabulary", "elsewhere"), "words that the index was written with"),
        (edited("words", "../../secret"), "names of files"),
        (edited("words", "none.parquet"), "vocabulary is missing"),
        (edited("shards", lambda rows: rows[1:]), "tokens"),
        (edited("shards", lambda rows: [{"name": "x"}]), "index"),
        (edited("shards", lambda rows: [rows[0] | {"name": "../x"}, *rows[1:]]), "names of files"),
        (lambda folder: (folder / "index.json").write_text("{"), "not a whole index"),
        (lambda folder: (folder / "index.json").write_text("[]"), "JSON object"),
        (lambda folder: (folder / "index.json").unlink(), "write_shards"),
    ],
)
def test_damaged_indices(tmp_path, shards, edit, says):
    edit(tmp_path / "corpus")
    with pytest.raises(ValueError, match=says) as error:
        ShardedCorpus(tmp_path / "corpus")
    assert "\n" not in str(error.value)


def test_places(tmp_path, monkeypatch):
    "What a store refuses is an OSError that names the file; what is not installed is named, too."
    for url, says in [("nonsense://a/b", "nonsense"), ("memory://", "index")]:
        with pytest.raises(ValueError, match=says):
            ShardedCorpus(url)
    place = Place("memory://refused/c")

    def refuse(*args, **more):
        raise RuntimeError("Access Denied\nwith a second line")

    for what in ("cat_file", "pipe_file", "ls"):
        monkeypatch.setattr(type(place._fs), what, refuse)
    for call in (
        lambda: place.read("x"),
        lambda: place.write("x", b""),
        lambda: place.names("documents"),
    ):
        with pytest.raises(OSError, match=r"memory://refused/c/\w+: Access Denied$"):
            call()
    with pytest.raises(ValueError, match="'parquet' for a URL"):
        write_shards("memory://a/npz", [[1]])
    with pytest.raises(ValueError, match="'npz' or 'parquet'"):
        write_shards(tmp_path / "n", [[1]], format="csv")


@pytest.mark.parametrize("what", ["bytes", "arrays", "lengths"])
def test_a_full_disk(tmp_path, monkeypatch, what):
    "It is named with the file, what was there stays, and no half of a file is left."
    corpus = write_shards(tmp_path / "corpus", iter(CORPUS), n_words=16, shard_tokens=300)
    place = Place(tmp_path / "run")
    place.write("a", b"old")
    name = f"lengths-{corpus.digest}.npy" if what == "lengths" else "a"

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        {
            "bytes": lambda: place.write("a", b"new"),
            "arrays": lambda: place.write_arrays("a", {"b": np.arange(3)}),
            "lengths": lambda: map_lengths(corpus, tmp_path / "run"),
        }[what]()
    assert error.value.filename == str(tmp_path / "run" / name)
    assert place.names("") == ["a"] and place.read("a") == b"old"
    monkeypatch.undo()
    assert np.array_equal(map_lengths(corpus, tmp_path / "run"), corpus.doc_lengths)


def test_folders_of_a_url_are_made(tmp_path):
    place = Place((tmp_path / "none" / "yet").as_uri())
    place.write("a/b", b"one")
    assert place.read("a/b") == b"one" and place.names("a") == ["b"]


def test_what_a_kill_leaves_is_ours(tmp_path):
    place = Place(tmp_path)
    for left in ("chain.npz.lock", "chain.npz.12ab34cd.tmp", "lengths-12.npy.12ab34cd.tmp"):
        (tmp_path / left).touch()
        place.check_free("chain.npz", "lengths-*.npy")
        with pytest.raises(ValueError, match=f"must be empty .*got '{left}'"):
            place.check_free("index.json")
        (tmp_path / left).unlink()
    (tmp_path / "chain.npz.old").touch()
    with pytest.raises(ValueError, match="got 'chain.npz.old'"):
        place.check_free("chain.npz")


def test_without_pyarrow(tmp_path, shards, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (
        lambda: ShardedCorpus(tmp_path / "corpus"),
        lambda: write_shards(tmp_path / "new", [[1]], format="parquet"),
    ):
        with pytest.raises(ValueError, match=r'pip install "hdp_nb\[parquet\]"'):
            call()
