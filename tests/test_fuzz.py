"""Damaged and edited files: every reader takes them for what they are, or refuses them in one line.

A hundred of each kind; with --slow, ten thousand.
"""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hdp_nb
from hdp_nb.cli.report import write_report
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.readers import load_corpus
from hdp_nb.distributed.ingest import build_shards
from hdp_nb.distributed.parquet import FORMAT, VERSION, Part, Place, arrow, read_part, write_table
from hdp_nb.distributed.shards import ShardedCorpus, write_shards
from hdp_nb.mcmc.chain import run_chain
from hdp_nb.models.exchange import Topics, read_topics, write_topics
from hdp_nb.topics.direct import HybridSampler
from hdp_nb.topics.franchise import FranchiseSampler
from hdp_nb.topics.tree import TreeSampler
from hdp_nb.utils import files

N = int(os.environ.get("HDP_NB_FUZZ", "100"))
many = settings(
    max_examples=N,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
CORPUS = Corpus.from_docs(
    [["a", "b", "a"], [], ["b", "c"], ["c", "c", "=d"]], groups={"side": ["x", "x", "y", "y"]}
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    "A folder with a good file of every kind."
    folder = tmp_path_factory.mktemp("good")
    CORPUS.save(folder / "corpus.npz")
    CORPUS.write_ldac(folder / "counts.ldac")
    CORPUS.write_ldac(folder / "counts.ldac.gz")
    CORPUS.write_uci(folder / "docword.txt")
    CORPUS.write_text(folder / "lines.txt")
    sp.save_npz(folder / "csc.npz", sp.csc_array(CORPUS.to_matrix()))
    (folder / "table.csv").write_text('text,year\n"one, two",1\nthree four,2\n')
    (folder / "texts.jsonl").write_text('{"text": "one two", "y": 1}\n{"text": "two"}\n')
    pa, parquet = arrow()
    texts = pa.table({"text": ["one two", None, "two"] * 3, "y": [1, 2, 3] * 3})
    parquet.write_table(texts, folder / "texts.parquet", row_group_size=5)
    (folder / "texts.json").write_text('[{"text": "one two", "y": 1}, {"text": "two"}]')
    topics = Topics([[1, 2, 3], [3, 2, 1]], [0.4, 0.6], ["a", "=b", "c"])
    write_topics(topics, folder / "topics.json")
    write_topics(topics, folder / "topics.csv")
    return folder


def one_line(call, *arguments, kinds=(ValueError,), **options):
    "The result, or None and an error of one line; anything else comes through."
    try:
        return call(*arguments, **options)
    except kinds as error:
        assert str(error) and "\n" not in str(error), error
        return None


def damaged(data, content):
    "Bytes with some changed, left out, put in or repeated."
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "repeat", "digits"]))
    at = data.draw(st.integers(0, max(len(content) - 1, 0)))
    more = data.draw(st.binary(min_size=1, max_size=12))
    if kind == "digits":
        more = str(data.draw(st.sampled_from([-1, 0, 10**6, 10**9, 10**12, 10**30]))).encode()
    end = {"flip": at + len(more), "cut": at + data.draw(st.integers(1, 40))}.get(kind, at)
    middle = {"cut": b"", "repeat": content[at : at + 20] * 3}.get(kind, more)
    return content[:at] + middle + content[end:]


READERS = {
    "corpus.npz": {},
    "csc.npz": {},
    "counts.ldac": {"vocab": ["a", "b", "c", "=d"]},
    "counts.ldac.gz": {},
    "docword.txt": {},
    "lines.txt": {},
    "table.csv": {"column": "text"},
    "texts.jsonl": {"column": "text"},
    "texts.json": {"column": "text"},
    "texts.parquet": {"column": "text"},
}


@pytest.mark.parametrize("name", READERS)
@many
@given(data=st.data())
def test_a_damaged_corpus(good, tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(damaged(data, (good / name).read_bytes()))
    corpus = one_line(load_corpus, path, **READERS[name])
    if corpus is not None:  # what is read is whole
        again = Corpus(
            corpus.x, corpus.offsets, corpus.vocab, corpus.groups, n_words=corpus.n_words
        )
        assert again.n_docs == corpus.n_docs and corpus.n_tokens < 2**26


@pytest.mark.parametrize("name", ["topics.json", "topics.csv"])
@many
@given(data=st.data())
def test_damaged_topics(good, tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(damaged(data, (good / name).read_bytes()))
    topics = one_line(read_topics, path)
    assert topics is None or np.allclose(topics.components_.sum(axis=1), 1)


def change_arrays(data, path, to):
    "Another value in one place of one array of an archive, another shape, or one array less."
    with np.load(path) as file:
        arrays = dict(file)
    name = data.draw(st.sampled_from(sorted(arrays)))
    array, kind = arrays[name], data.draw(st.sampled_from(["value", "value", "cut", "lost"]))
    if kind == "lost":
        del arrays[name]
    elif kind == "cut" or array.dtype.kind not in "iuf" or not array.size:
        axis = data.draw(st.integers(0, max(array.ndim - 1, 0)))
        arrays[name] = (
            np.delete(array, 0, axis) if array.ndim and array.shape[axis] else array[None]
        )
    else:
        bad = [-1, 1, 2, 7, 10**3, 10**6, 10**9] + [np.nan, np.inf, 1e-300, 1e300] * (
            array.dtype.kind == "f"
        )
        value = data.draw(st.sampled_from(bad))
        with np.errstate(all="ignore"):
            array = array.copy()
            array.flat[data.draw(st.integers(0, array.size - 1))] = np.array(value).astype(
                array.dtype
            )
        arrays[name] = array
    np.savez(to, **arrays)
    return name


SAMPLERS = {
    "franchise": lambda: FranchiseSampler(CORPUS, init=3),
    "hybrid": lambda: HybridSampler(CORPUS, init=3),
    "tree": lambda: TreeSampler(CORPUS, ["side"], init=3),
}


@pytest.mark.parametrize("name", SAMPLERS)
@many
@given(data=st.data())
def test_an_edited_checkpoint_is_refused_or_can_go_on(tmp_path_factory, name, data):
    folder, rng = tmp_path_factory.getbasetemp(), np.random.default_rng
    whole, file = folder / f"{name}.npz", folder / f"{name}-edited.npz"
    if not whole.exists():
        run_chain(SAMPLERS[name](), rng(0), 3, burn_in=1, checkpoint=whole)
    change_arrays(data, whole, file)
    sampler = SAMPLERS[name]()
    chain = one_line(run_chain, sampler, rng(0), 5, burn_in=1, checkpoint=file)
    if chain is not None:
        sampler.check(chain.state)
        assert np.isfinite(chain.trace["log_joint"][3:]).all()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    quick = {"n_iter": 3, "n_chains": 1, "moves": 0, "random_state": 0}
    hdp_nb.HDP(init=2, **quick).fit(CORPUS).save(folder / "HDP.npz")
    hdp_nb.VariationalHDP(n_topics=3, max_iter=3, random_state=0).fit(CORPUS).save(
        folder / "VariationalHDP.npz"
    )
    return folder


@pytest.mark.parametrize("name", ["HDP", "VariationalHDP"])
@many
@given(data=st.data())
def test_an_edited_model_is_refused_or_can_be_asked(models, tmp_path, name, data):
    change_arrays(data, models / f"{name}.npz", tmp_path / "edited.npz")
    model = one_line(hdp_nb.load_model, tmp_path / "edited.npz")
    if model is not None:
        assert np.isfinite(model.transform(CORPUS)).all()


@many
@given(data=st.data())
def test_an_edited_index_of_shards(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "shards"
    if not folder.exists():
        write_shards(folder, iter(CORPUS), n_words=4, shard_tokens=4)
        (folder / "index.npz").rename(folder / "good.npz")
    change_arrays(data, folder / "good.npz", folder / "index.npz")
    corpus = one_line(ShardedCorpus, folder)
    if corpus is not None:
        for i in range(corpus.n_shards):
            one_line(corpus.shard, i)


@pytest.fixture(scope="module")
def parquet_shards(tmp_path_factory):
    "The files of a corpus in Parquet."
    folder = tmp_path_factory.mktemp("shards") / "good"
    build_shards(folder, ["one two", "two three two", "", "one one"], min_df=1, stop_words=None)
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.*")}


def change_json(data, value):
    "Another value at one place of what JSON holds, or one thing less."
    if isinstance(value, (dict, list)) and value and data.draw(st.integers(0, 5)):
        keys = [*value] if isinstance(value, dict) else range(len(value))
        key = data.draw(st.sampled_from(keys))
        if not data.draw(st.integers(0, 5)):
            return {k: v for k, v in value.items() if k != key} if isinstance(value, dict) else []
        value = value.copy()
        value[key] = change_json(data, value[key])
        return value
    return data.draw(st.sampled_from([None, -1, 0, 1, 2, 10**6, 10**18, 1.5, "a", "../x", [], {}]))


def change_rows(data, content):
    "Other numbers in a Parquet file, under new check sums."
    pa, parquet = arrow()
    table = parquet.read_table(io.BytesIO(content))
    name, values = data.draw(st.sampled_from(table.column_names)), [-1, 0, 1, 2, 10**6, 2**31 - 1]
    rows = table.column(name).to_pylist()
    i = data.draw(st.integers(0, len(rows) - 1))
    if isinstance(rows[i], str):
        rows[i] = data.draw(st.sampled_from(["", "two", "x" * 100]))
    else:
        value = data.draw(st.sampled_from(values))
        rows[i] = [*rows[i][1:], value] if isinstance(rows[i], list) else value
    column = pa.array(rows, table.schema.field(name).type)
    out = io.BytesIO()
    at = table.column_names.index(name)
    parquet.write_table(table.set_column(at, table.schema.field(name), column), out)
    return out.getvalue()


@many
@given(data=st.data())
def test_damaged_shards_of_parquet(parquet_shards, tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "parquet"
    for name, content in parquet_shards.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    name = data.draw(st.sampled_from(sorted(parquet_shards)))
    content, kind = parquet_shards[name], data.draw(st.sampled_from(["bytes", "values"]))
    if kind == "bytes":
        content = damaged(data, content)
    elif name.suffix == ".json":
        content = json.dumps(change_json(data, json.loads(content))).encode()
    else:
        content = change_rows(data, content)
        if name.parts[0] == "documents":  # the index agrees with it, as far as it can
            index = json.loads(parquet_shards[Path("index.json")])
            index["shards"][0]["sum"] = data.draw(st.integers(0, 2**32 - 1))
            index["shards"][0]["n_tokens"] = data.draw(st.sampled_from([6, 7, 8, 10**6, 2**31]))
            (folder / "index.json").write_text(json.dumps(index))
    (folder / name).write_bytes(content)
    corpus = one_line(ShardedCorpus, folder)
    if corpus is not None:
        for i in range(corpus.n_shards):
            part = one_line(corpus.shard, i)
            names = one_line(corpus.names_of, i)
            assert part is None or names is None or part.n_docs == len(names)
            if part is not None and part.n_tokens:
                assert 0 <= part.x.min() and part.x.max() < corpus.n_words
        one_line(lambda: corpus.doc_lengths)


def write_one_value(path, text, n, groups=1):
    "A column of n times groups the same text, which takes next to nothing."
    pa, parquet = arrow()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), pa.array([text]))
    table = pa.table({"text": column})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(groups):
            writer.write_table(table)
    assert path.stat().st_size < 10**6


def test_one_value_many_times(tmp_path, monkeypatch):
    "What would be terabytes, or hours, is refused, by a single file and by pieces."
    monkeypatch.setattr(files, "FREE_BYTES", 10**7)
    write_one_value(tmp_path / "long.parquet", "word " * 10**5, 10**5)
    write_one_value(tmp_path / "many.parquet", "a", 10**6, 6)
    for name, says in (("long", "its [0-9,]+ bytes become"), ("many", "hold 6,000,000 values")):
        path = tmp_path / f"{name}.parquet"
        with pytest.raises(ValueError, match=says):
            load_corpus(path, column="text")
        with pytest.raises(ValueError, match=says):
            build_shards(tmp_path / name, path, column="text")
    pa, _ = arrow()
    counts = pa.array([[2**31 - 1] * 3], pa.list_(pa.int32()))
    words = pa.array([[0, 1, 2]], pa.list_(pa.int32()))
    columns = {"doc": ["a"], "length": pa.array([3], pa.int32()), "words": words, "counts": counts}
    meta = {"format": FORMAT, "version": VERSION, "vocabulary": "v"}
    place = Place(tmp_path)
    place.write("documents/part.parquet", write_table(columns, meta))
    part = Part("part.parquet", 1, 3 * (2**31 - 1), 0)
    with pytest.raises(ValueError, match=r"part.parquet: .*it claims 6,442,450,941 tokens"):
        read_part(place, part, "v", 3)


SUMMARY = {
    "program": "hdp_nb 0",
    "corpus": "c",
    "documents": 2,
    "tokens": 9,
    "topics": 1,
    "topics_not_tiny": 1,
    "alpha": 1.0,
    "gamma": 1.0,
    "sweeps": [3],
    "interrupted": False,
    "samples": 1,
    "held_out": None,
    "group": None,
    "convergence": None,
    "verdict": None,
    "settings": {"corpus": "c", "test_size": 0, "init": "opposite"},
}
TOPICS = [{"topic": 0, "share": 1.0, "words": ["a"], "probabilities": [1.0]}]
EVIL = "<script>alert(1)</script>"
VALUES = st.sampled_from([EVIL, [EVIL], {EVIL: EVIL}, None, -1, 10**30, [], {}, True, 0.5])


@many
@given(data=st.data())
def test_the_report_of_a_foreign_folder(tmp_path, data):
    "Whatever stands in its files, nothing of it becomes HTML."
    summary, topics = json.loads(json.dumps(SUMMARY)), json.loads(json.dumps(TOPICS))
    documents = [
        {
            "topic": 0,
            "document": 0,
            "share": 1.0,
            "labels": {"a": "b"},
            "text": None,
            "words": ["a"],
        }
    ]
    parts = [summary, summary["settings"], topics[0], documents[0]]
    part = data.draw(st.sampled_from(range(len(parts))))
    key = data.draw(st.sampled_from([*parts[part], EVIL]))
    parts[part][key] = data.draw(VALUES)
    summary["program"] = f"hdp_nb {EVIL}"
    for name, value in (("summary", summary), ("topics", topics), ("documents", documents)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    explored = data.draw(st.booleans())
    (tmp_path / "explore.json").unlink(missing_ok=True)
    if explored:
        found = {"topics": [{"label": EVIL}], "map_shows": data.draw(VALUES), EVIL: EVIL}
        (tmp_path / "explore.json").write_text(json.dumps(found))
    (tmp_path / "report.html").unlink(missing_ok=True)
    one_line(write_report, tmp_path)
    if (tmp_path / "report.html").exists():
        page = (tmp_path / "report.html").read_text()
        assert page.count("<script") == 2 * explored and "default-src 'none'" in page
        assert "<script>alert" not in page
