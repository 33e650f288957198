"""A model over shards: rows are those of the model in memory to the last bit, whoever writes them;
scores do not depend on the cut; outputs are continued, and never of two models; the command line.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hdp_nb
from hdp_nb.cli import main as cli
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.distributed import transform as over_shards
from hdp_nb.distributed.engine import _on_worker
from hdp_nb.distributed.fit import fit
from hdp_nb.distributed.ingest import build_shards
from hdp_nb.distributed.parquet import Place
from hdp_nb.distributed.shards import ShardedCorpus, write_shards
from hdp_nb.distributed.transform import (
    score_documents,
    score_shards,
    split_documents,
    topics_of_shards,
    transform_shards,
)
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.variational_models import OnlineHDP

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet

BARS = make_bars(n_docs=90, doc_len=20, grid=4, random_state=0)[0]
CORPUS = Corpus.from_docs([[], *BARS, [], [3], [2, 2]], n_words=16)
KIND = {"n_words": 16, "shard_tokens": 400, "format": "parquet"}
MODEL = dict(
    sampler="parallel", n_iter=9, burn_in=2, thin=3, init=9, n_chains=1, moves=0, random_state=3
)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    "A corpus, the folder of a fit to it, the model."
    folder = tmp_path_factory.mktemp("fit")
    corpus = write_shards(folder / "corpus", iter(CORPUS), **KIND)
    return corpus, folder / "run", fit(HDP(**MODEL), corpus, folder / "run")


@pytest.fixture(scope="module")
def online():
    return OnlineHDP(n_topics=5, batch_size=40, n_passes=2, random_state=0).fit(CORPUS)


def rows(place):
    return parquet.read_table(Place(place).path).to_pydict()


def test_transform(tmp_path, fitted, online):
    corpus, _, model = fitted
    for one in (model, online):
        out = transform_shards(one, corpus, tmp_path / type(one).__name__)
        found = rows(out)
        assert np.array_equal(np.array(found["theta"]), one.transform(CORPUS))
        assert found["doc"] == [str(j) for j in range(94)]
        assert found["length"] == CORPUS.doc_lengths.tolist()
    few = rows(transform_shards(model, corpus, tmp_path / "top", top=2))
    theta = model.transform(CORPUS)
    assert np.array_equal(np.array(few["shares"]), -np.sort(-theta, axis=1)[:, :2])
    picked = np.take_along_axis(theta, np.array(few["topics"]), axis=1)
    assert np.array_equal(picked, np.array(few["shares"]))


def test_splits(fitted):
    "Every token is on one side, the numbers are those of `split_tokens`; the seed matters."
    observed, heldout = split_documents(CORPUS, 0.3, seed=2)
    assert np.array_equal(heldout.doc_lengths, CORPUS.split_tokens(0.3, 0)[1].doc_lengths)
    for j in range(CORPUS.n_docs):
        both = np.concatenate([observed[j], heldout[j]])
        assert np.array_equal(np.sort(both), np.sort(CORPUS[j]))
    assert not np.array_equal(split_documents(CORPUS, 0.3, seed=3)[1].x, heldout.x)
    whole = split_documents(CORPUS[30:], 0.3, seed=2, first=30)[1]
    assert np.array_equal(whole.x, heldout.x[heldout.offsets[30] :])
    moved = split_documents(CORPUS[30:], 0.3, seed=2)[1]  # the control
    assert not np.array_equal(moved.x, whole.x)


def test_score_is_that_of_the_model(fitted, online):
    "Document by document, each sample with a generator that begins anew."
    _, _, model = fitted
    log_p, n = score_documents(online, CORPUS, seed=4)
    observed, heldout = split_documents(CORPUS, seed=4)
    whole = online.log_predictive(observed, heldout)
    assert np.array_equal(n, heldout.doc_lengths) and np.isclose(log_p.sum(), whole.sum())
    log_p, _ = score_documents(model, CORPUS, seed=4)
    for j in (1, 40, 92):
        p = [
            np.exp(
                model.one_sample(s).log_predictive(
                    observed[j : j + 1], heldout[j : j + 1], np.random.default_rng(0)
                )
            )
            for s in range(len(model.samples_))
        ]
        assert np.isclose(log_p[j], np.log(np.mean(p, axis=0)).sum(), rtol=1e-12)
    assert log_p[0] == 0.0 and n[0] == 0


@pytest.mark.parametrize("shard_tokens", [150, 10**6])
def test_score_does_not_depend_on_the_cut(tmp_path, fitted, shard_tokens):
    corpus, _, model = fitted
    score = score_shards(model, corpus, tmp_path / "a")
    log_p, n = score_documents(model, CORPUS)
    assert score == (np.round(log_p * 2**22) / 2**22).sum() / n.sum()
    found = rows(tmp_path / "a")
    assert np.array_equal(found["log_p"], log_p) and found["held_out"] == n.tolist()
    other = write_shards(tmp_path / "o", iter(CORPUS), **KIND | {"shard_tokens": shard_tokens})
    assert other.n_shards != corpus.n_shards
    assert score_shards(model, other, tmp_path / "b") == score
    assert score_shards(model, other, tmp_path / "c", seed=1) != score


def test_topics_of_tokens(tmp_path, fitted):
    corpus, run, model = fitted
    found = rows(topics_of_shards(model, corpus, run, tmp_path / "tokens"))
    assert [sum(counts) for counts in found["counts"]] == CORPUS.doc_lengths.tolist()
    last = model.samples_[-1].n_vk.sum(axis=0)
    to = model.matches_[-len(last) :]
    n = np.zeros(model.n_topics_ + 1, int)
    for topics, counts in zip(found["topics"], found["counts"]):
        assert topics == sorted(set(topics))
        for k, c in zip(topics, counts):
            n[k] += c
    assert n[:-1].tolist() == [last[to == k].sum() for k in range(model.n_topics_)]
    stream = OnlineHDP(n_topics=4, batch_size=40, random_state=0)
    stream = fit(stream, corpus, tmp_path / "stream")
    with pytest.raises(ValueError, match="no topics of tokens"):
        topics_of_shards(stream, corpus, tmp_path / "stream", tmp_path / "none")


def test_workers_and_what_is_left_of_an_interruption(tmp_path, fitted, monkeypatch):
    "By a client, into a store; shards that are there are not done again."
    dask = pytest.importorskip("distributed")
    corpus, _, model = fitted
    plain = over_shards.write_rows

    def breaks(job, i):
        if i == 3:
            raise OSError(28, "No space left on device")
        return plain(job, i)

    monkeypatch.setattr(over_shards, "write_rows", breaks)
    out = f"memory://{tmp_path.name}/theta"
    with pytest.raises(OSError, match="No space left"):
        transform_shards(model, corpus, out)

    monkeypatch.setattr(over_shards, "write_rows", plain)
    before = {name: Place(out).stat(name) for name in Place(out).names("") if name[0] == "p"}
    assert len(before) == 3
    with dask.Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None, silence_logs=50
    ) as client:
        transform_shards(model, corpus, out, client=client)
    assert len(Place(out).names("")) == corpus.n_shards + 1
    assert all(Place(out).stat(name) == stat for name, stat in before.items())
    transform_shards(model, corpus, tmp_path / "here")
    for name in Place(out).names(""):
        assert Place(out).read(name) == Place(tmp_path / "here").read(name)


def same_files(one, other):
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names
    )


@pytest.mark.parametrize("call", [transform_shards, score_shards])
@pytest.mark.parametrize("other", ["names", "borders", "numbers"])
def test_rows_of_the_same_tokens_in_other_documents(tmp_path, monkeypatch, call, other):
    "They are made again; those that fit stay as they are."
    monkeypatch.setattr(hdp_nb.distributed.ingest, "SHARD_TOKENS", 40)
    texts = [" ".join("abcdefgh"[v % 8] * 2 for v in doc) for doc in BARS[:12]]
    plain = [{"id": f"d{j}", "said": text} for j, text in enumerate(texts)]
    changed = {
        "names": [row | {"id": f"t{row['id']}"} for row in plain],
        "borders": [
            {"id": "d0", "said": ""},
            {"id": "d1", "said": f"{texts[0]} {texts[1]}"},
            *plain[2:],
        ],
        "numbers": [{"id": "", "said": ""}, *plain],  # all have the same names and lengths
    }

    def build(name, rows):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        options = {"column": "said", "id_column": "id", "min_df": 1, "max_df": 1.0}
        return build_shards(tmp_path / name, path, stop_words=None, **options)

    before, after = build("before", plain), build("after", changed[other])
    assert before.n_shards == after.n_shards == 6
    assert [part.sum for part in before.parts] == [part.sum for part in after.parts]
    model, out = HDP(**MODEL | {"n_iter": 3}).fit(texts), tmp_path / "out"
    times = lambda: [path.stat().st_mtime_ns for path in sorted(out.glob("*.parquet"))]
    call(model, before, out)
    first = times()
    call(model, before, out)
    assert times() == first
    call(model, after, out)
    again = [a != b for a, b in zip(first, times())]
    call(model, after, tmp_path / "alone")
    assert same_files(out, tmp_path / "alone")
    few = other == "borders" or other == "numbers" and call is transform_shards
    assert again == ([True] + [False] * 5 if few else [True] * 6)


def test_rows_of_documents_that_are_not_in_the_corpus(tmp_path, fitted):
    corpus, _, model = fitted
    transform_shards(model, corpus, tmp_path / "out")
    other = write_shards(tmp_path / "other", [[1, 2], [3]], n_words=16, format="parquet")
    with pytest.raises(ValueError, match="documents that are not in the corpus, part.*fresh=True"):
        transform_shards(model, other, tmp_path / "out")
    assert len(rows(tmp_path / "out")["doc"]) == CORPUS.n_docs
    transform_shards(model, other, tmp_path / "out", fresh=True)
    assert len(rows(tmp_path / "out")["doc"]) == 2


def test_what_ended_before_any_row_is_not_in_the_way(tmp_path, fitted, monkeypatch):
    corpus, run, model = fitted
    other = write_shards(tmp_path / "other", [[1, 2], [3]], n_words=16, format="parquet")
    with pytest.raises(ValueError, match=f"corpus must be that of the fit in {run}.*got .*other"):
        topics_of_shards(model, other, run, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(over_shards, "write_rows", lambda job, i: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        transform_shards(model, corpus, tmp_path / "out")
    monkeypatch.undo()
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / f"{over_shards.OUTPUT}.abcd.tmp").write_text("{")
    for place in ("out", "killed"):
        topics_of_shards(model, corpus, run, tmp_path / place)


def test_words_that_the_model_does_not_know_are_counted(tmp_path, caplog):
    model = HDP(**MODEL).fit(["sea whale sea", "whale ship"] * 5)
    docs = ["sea whale whale sea moon", "moon moon star"]
    options = {"min_df": 1, "max_df": 1.0, "stop_words": None}
    corpus = build_shards(tmp_path / "corpus", docs, **options)
    for call in (transform_shards, score_shards):
        caplog.clear()
        with caplog.at_level("WARNING", "hdp_nb"):
            call(model, corpus, tmp_path / call.__name__)
        (record,) = caplog.records
        assert record.getMessage() == (
            "Left out: 4 tokens of words that the model does not know, 50 % of all"
        )


def test_another_model_is_refused(tmp_path, fitted, online):
    corpus, _, model = fitted
    transform_shards(model, corpus, tmp_path / "out")
    for one, options in [(online, {}), (model, {"top": 1})]:
        with pytest.raises(ValueError, match="another model, or with other options.*fresh=True"):
            transform_shards(one, corpus, tmp_path / "out", **options)
    (tmp_path / "out" / "_notes.txt").write_text("not ours")
    transform_shards(online, corpus, tmp_path / "out", fresh=True)
    assert (tmp_path / "out" / "_notes.txt").read_text() == "not ours"
    assert np.array_equal(np.array(rows(tmp_path / "out")["theta"]), online.transform(CORPUS))


@pytest.mark.parametrize("options, says", [({"top": 0}, "top"), ({"client": 17}, "client.*17")])
def test_bad_options(tmp_path, fitted, options, says):
    with pytest.raises(ValueError, match=says):
        transform_shards(fitted[2], fitted[0], tmp_path / "out", **options)


def test_words_that_cannot_be_matched(tmp_path, fitted):
    more = write_shards(tmp_path / "more", [[20]], format="parquet")
    with pytest.raises(ValueError, match="ids below 16.*got 21"):
        transform_shards(fitted[2], more, tmp_path / "out")
    with pytest.raises(ValueError, match="test_size"):
        score_shards(fitted[2], fitted[0], tmp_path / "out", test_size=2.0)
    short = write_shards(tmp_path / "short", [[1]], n_words=16, format="parquet")
    with pytest.raises(ValueError, match="test_size must hold out a token"):
        score_shards(fitted[2], short, tmp_path / "out")
    assert not [*(tmp_path / "out").iterdir()]  # nothing is in the way of another


class OldWorker:
    "What a client of a cluster with an old worker answers."

    def nthreads(self):
        return {"tcp://old:1": 1}

    def run(self, call, on_error):
        return {"tcp://new:1": hdp_nb.__version__, "tcp://old:1": "0.0.9"}


def test_workers_with_another_version(tmp_path, fitted):
    corpus, _, model = fitted
    says = rf"worker tcp://old:1 must have hdp_nb {hdp_nb.__version__}, .*got 0\.0\.9"
    for call in (
        lambda: transform_shards(model, corpus, tmp_path / "out", client=OldWorker()),
        lambda: fit(HDP(**MODEL), corpus, tmp_path / "run", client=OldWorker()),
        lambda: build_shards(tmp_path / "built", ["a text"], client=OldWorker()),
    ):
        with pytest.raises(ValueError, match=says):
            call()
    with pytest.raises(ValueError, match="takes workers with hdp_nb 9.9"):
        _on_worker("9.9", max, str, "job", 1)


# ---------------------------------------------------------------- the command line


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    "Call `hdp_nb shards` in an empty folder: exit code, standard output, standard error."
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        code = cli.main(["shards", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def write_letters(path, n=60):
    rng = np.random.default_rng(0)
    kinds = "whale sea ship fish deep".split(), "horse land grass field farm".split()
    rows = [
        {"id": f"l{j}", "said": " ".join(rng.choice(kinds[j % 2], 12)), "n": j} for j in range(n)
    ]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return [row["said"] for row in rows]


def test_from_texts_to_topics_by_shell(tmp_path, run, monkeypatch):
    "What the commands write is what the functions do."
    texts = write_letters(tmp_path / "letters.jsonl")
    monkeypatch.setattr(hdp_nb.distributed.pieces, "PIECE_BYTES", 2000)
    build = ["build", "letters.jsonl", "--column", "said", "--id-column", "id", "--out", "corpus"]
    code, out, err = run(*build, "--max-df", "0.9", "--stop-words", "none")
    assert code == 0 and out.startswith("Corpus corpus: 60 documents, 720 tokens, 10 words")
    assert "counting words" in err and "writing shards" in err
    corpus = ShardedCorpus("corpus")
    assert corpus.n_shards > 2 and corpus.names_of(0)[:2] == ["l0", "l1"]

    fitting = ["fit", "corpus", "--out", "run", "--n-iter", 12, "--init", 8, "--quiet"]
    code, out, err = run(*fitting)
    assert (code, err) == (0, "") and "Results: run/model.npz" in out
    model = hdp_nb.load_model("run/model.npz")
    direct = fit(
        HDP(sampler="parallel", n_chains=1, n_iter=12, init=8, random_state=0), corpus, "direct"
    )
    assert np.array_equal(model.components_, direct.components_)
    assert np.array_equal(
        model.transform(texts),
        model.transform(
            hdp_nb.Corpus.from_docs([list(doc) for shard in corpus for doc in shard], n_words=10)
        ),
    )

    code, out, _ = run("topics", "run", "corpus", "--out", "tokens", "--n-words", 3)
    assert code == 0 and ("whale" in out or "sea" in out)
    assert sum(map(sum, rows("tokens")["counts"])) == 720
    code, out, _ = run("transform", "run", "corpus", "--out", "shares")
    assert code == 0 and rows("shares")["doc"] == [f"l{j}" for j in range(60)]
    assert np.array_equal(np.array(rows("shares")["theta"]), model.transform(texts))
    code, out, _ = run("score", "run", "corpus", "--out", "scores", "--quiet")
    assert code == 0 and float(out.split()[-1]) == round(score_shards(model, corpus, "again"), 4)
    write_letters(tmp_path / "more.jsonl", 10)
    more = ["build", "more.jsonl", "--column", "said", "--id-column", "id", "--out", "corpus"]
    code, out, _ = run(*more, "--append", "--quiet")
    assert code == 0 and "70 documents" in out
    code, out, _ = run("transform", "run", "corpus", "--out", "shares")
    assert code == 0 and len(rows("shares")["doc"]) == 70


def test_mistakes_at_the_shell(tmp_path, run):
    "One line, exit code 2, and nothing of a corpus."
    write_letters(tmp_path / "letters.jsonl")
    for arguments, says in [
        (["build", "none.jsonl", "--column", "said", "--out", "c"], "none.jsonl"),
        (["build", "letters.jsonl", "--out", "c"], "column must be one of 'id', 'said', 'n'"),
        (["build", "letters.jsonl", "--column", "x", "--out", "c"], "'x'"),
        (["build", "letters.jsonl", "--column", "said", "--out", "nonsense://c"], "nonsense"),
        (["build", "letters.jsonl", "--column", "said", "--append", "--out", "c"], "folder must"),
        (["build", "letters.jsonl", "--min-df", "x", "--out", "c"], "--min-df"),
        (["fit", "none", "--out", "run"], "folder must hold a sharded corpus"),
        (["topics", "none"], "none"),
        (["transform", "none", "none", "--out", "o"], "RUN takes the folder|none"),
        (["topics", "none", "--out", "o"], "none|CORPUS"),
        (["fit", "c", "--out", "run", "--workers", "0"], "--workers"),
        (["walk"], "walk"),
    ]:
        code, out, err = run(*arguments, "--quiet")
        assert code == 2 and out == "" and err.count("\n") == 1, (arguments, err)
        assert re.search(says, err), (arguments, err)
    assert not (tmp_path / "c" / "index.json").exists()
    build = ["build", "letters.jsonl", "--column", "said", "--max-df", "0.9", "--out", "c"]
    assert run(*build)[0] == 0  # mistakes have left nothing that is in the way
    for options, says in [
        (["--model", "online", "--n-iter", 7], "--n-iter takes --model hdp"),
        (["--n-passes", 3], "--n-passes takes --model online"),
        (["--model", "online", "--moves", 2], "--moves takes --model hdp"),
    ]:
        code, _, err = run("fit", "c", "--out", "run", *options)
        assert code == 2 and says in err and not (tmp_path / "run").exists()
    code, _, err = run("build", "letters.jsonl", "--append", "--out", "none")
    assert code == 2 and "got 'none'" in err.replace(f"{tmp_path}/", "")
    code, _, err = run(*build, "--quiet")
    assert code == 2 and "--append adds texts to it" in err


def test_places_of_others(tmp_path, run):
    "Files that this program did not write are neither replaced nor joined by its own."
    texts = write_letters(tmp_path / "letters.jsonl")
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    assert run("build", "texts.txt", "--out", "corpus")[0] == 0
    assert run("fit", "corpus", "--out", "run", "--n-iter", 2, "--init", 2)[0] == 0
    for i, (command, name) in enumerate(
        [
            (("build", "texts.txt"), "letter.txt"),
            (("build", "texts.txt"), "index.json"),
            (("build", "texts.txt", "--fresh"), "documents/part-000000-000.parquet"),
            (("fit", "corpus", "--n-iter", 2), "model.npz"),
            (("fit", "corpus", "--model", "online"), "notes"),
            (("score", "run", "corpus"), "rows.parquet"),
            (("score", "run", "corpus", "--fresh"), "_output.json"),
            (("transform", "run", "corpus", "--fresh"), "_output.json"),
        ]
    ):
        mine = tmp_path / f"mine {i}" / name
        mine.parent.mkdir(parents=True)
        mine.write_text('{"mine": 1}')
        code, _, err = run(*command, "--out", f"mine {i}")
        assert code == 2 and f"mine {i}" in err and "Traceback" not in err
        assert mine.read_text() == '{"mine": 1}'
        assert [path for path in mine.parent.rglob("*") if path.is_file()] == [mine]


def test_a_damaged_record_of_a_build(tmp_path, run):
    (tmp_path / "texts.txt").write_text("\n".join(write_letters(tmp_path / "letters.jsonl")))
    (tmp_path / "corpus" / "staging").mkdir(parents=True)
    (tmp_path / "corpus" / "staging" / "build.json").write_text('{"number": "a"}')
    build = ["build", "texts.txt", "--out", "corpus"]
    code, _, err = run(*build)
    assert code == 2 and "build.json: takes the record of an unfinished build" in err
    assert run(*build, "--fresh")[0] == 0


def test_workers_are_counted(run):
    code, _, err = run("build", "texts.txt", "--out", "corpus", "--workers", 2**31 - 1)
    assert code == 2 and "workers must be" in err and "1000" in err


def test_a_damaged_shard_at_the_shell(tmp_path, run, fitted):
    "Named, and the shards before it are written."
    corpus, _, model = fitted
    shutil.copytree(corpus.folder, "corpus")
    path = sorted(Path("corpus", "documents").iterdir())[3]
    path.write_bytes(path.read_bytes()[:-9])
    model.save("model.npz")
    code, out, err = run("transform", "model.npz", "corpus", "--out", "o", "--quiet")
    assert (code, out) == (2, "") and f"{path.name}: not a whole Parquet" in err
    assert err.count("\n") == 1 and len(Place("o").names("")) == 4
    path.unlink()
    code, _, err = run("transform", "model.npz", "corpus", "--out", "o", "--quiet")
    assert code == 2 and f"shard 3 of {corpus.n_shards} is missing" in err


def test_the_shell_starts_without_numba():
    what = "{'numpy', 'numba', 'sklearn', 'pyarrow', 'distributed', 'fsspec'} & {*sys.modules}"
    script = f"import sys; from hdp_nb.cli.main import main; main(['shards', '-h']); print({what})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("set()\n"), done.stdout + done.stderr
