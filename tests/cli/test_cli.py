"""The command line: what it prints, what it writes, and that nothing is lost when it is stopped."""

import _thread
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import hdp_nb
from hdp_nb.cli import main as cli
from hdp_nb.cli import results
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.evaluation.scores import Unigram, document_completion
from hdp_nb.mcmc.priors import Gamma
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.topics.franchise import FranchiseSampler
from hdp_nb.topics.seeds import SeedWords

pytestmark = pytest.mark.usefixtures("blank")
FIT = "fit small.npz --out run --n-iter 12 --n-chains 1 --init 100 --moves 0".split()
FIT += "--thin 3 --eta 0.1 --test-size 0.2".split()


def small_corpus():
    bars, _ = make_bars(60, 30, grid=4, random_state=0)
    side = np.where(np.arange(60) < 25, "early", "late")
    return Corpus(
        bars.x, bars.offsets, [f"w{v}<b>" for v in range(16)], {"age": side, "page": np.arange(60)}
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with small.npz in it."""
    monkeypatch.chdir(tmp_path)
    small_corpus().save("small.npz")
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    """Call the command line: (exit code, standard output, standard error)."""

    def run(*arguments):
        capsys.readouterr()
        code = cli.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


def contents(folder="."):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(Path(folder).rglob("*"))
        if path.is_file()
    }


def numbers(text):
    """Perplexity and that of the baseline, as printed."""
    return [
        float(n.replace(",", ""))
        for n in re.findall(r"(?:perplexity|baseline) ([0-9,.]+[0-9])", text.lower())
    ]


def test_fit_is_the_estimator_and_writes_what_it_prints(run, pictures):
    code, out, err = run(*FIT, "--quiet", "--seed", 3)
    assert (code, err) == (0, "")
    assert set(contents("run")) == {
        "model.npz",
        "summary.json",
        "topics.json",
        "documents.json",
        "documents.csv",
        "explore.json",
        "topics.csv",
        "trace.csv",
        "topics.png",
        "trace.png",
        "shares.png",
        "shares.csv",
        "report.html",
    }
    assert sorted(os.listdir()) == ["run", "small.npz"]

    train, test = small_corpus().split_docs(0.2, 3)
    plain = dict(n_chains=1, init=100, moves=0)
    model = HDP(n_iter=12, thin=3, eta=0.1, random_state=3, **plain).fit(train)
    saved = HDP.load("run/model.npz")
    for name in ("components_", "topic_shares_", "doc_topic_"):
        np.testing.assert_array_equal(getattr(saved, name), getattr(model, name))

    summary, topics = (
        json.loads(Path("run", name).read_text()) for name in ("summary.json", "topics.json")
    )
    shown = model
    assert (
        summary["topics"] == len(topics) == shown.n_topics_
        and summary["documents"] == 48
        and not summary["interrupted"]
    )
    own, base = (
        np.exp(-document_completion(m, test, random_state=3)) for m in (model, Unigram().fit(train))
    )
    assert summary["held_out"]["perplexity"] == pytest.approx(own, rel=1e-12)
    assert summary["held_out"]["unigram_perplexity"] == pytest.approx(base, rel=1e-12)
    assert numbers(out) == pytest.approx([own, base], abs=0.051) and own < base
    assert f"\n{shown.n_topics_} topics after 12 sweeps over 48 documents" in out
    assert [topic["existence"] for topic in topics] == shown.existence_.tolist()
    for words, topic in zip(shown.top_words(10), topics):
        assert topic["words"] == words
        assert (f"{topic['share']:.1%}  {' '.join(words)}\n" in out) == (topic["share"] >= 0.001)
        assert topic["probabilities"] == pytest.approx(
            [shown.components_[topic["topic"]][int(w[1:-3])] for w in words]
        )

    rows = list(csv.DictReader(open("run/trace.csv")))
    assert [int(row["sweep"]) for row in rows] == list(range(12)) and {
        row["chain"] for row in rows
    } == {"0"}
    for name, values in model.trace_.items():
        np.testing.assert_array_equal([float(row[name]) for row in rows], values)


def test_progress_goes_to_standard_error_and_changes_nothing(run):
    quiet = run(*FIT, "--quiet")
    before = contents("run")
    code, out, err = run(*FIT, "--overwrite")
    assert code == 0 and out == quiet[1] and "(12 of 12 sweeps)" in err
    assert contents("run") == before


def test_defaults_are_those_of_the_estimator():
    args = cli._parser().parse_args(["fit", "x", "--out", "y"])
    args.sampler = "auto"  # where none is named, the command names the one that this takes
    assert cli._estimator(args).get_params() == HDP().get_params()


def test_options_reach_the_estimator(run):
    assert (
        run(
            *FIT,
            "--quiet",
            "--alpha-prior",
            "fixed",
            "--alpha",
            0.3,
            "--gamma-prior",
            "2,3",
            "--init",
            4,
            "--n-chains",
            2,
            "--burn-in",
            5,
            "--seed",
            9,
            "--test-size",
            7,
        )[0]
        == 0
    )
    assert json.loads(Path("run/summary.json").read_text())["documents"] == 53
    model = HDP.load("run/model.npz")
    assert (model.alpha, model.gamma, model.init, model.burn_in, model.random_state) == (
        0.3,
        Gamma(2, 3),
        4,
        5,
        9,
    )
    assert model.alpha_ == 0.3 and model.traces_["alpha"].shape == (2, 12)
    assert {row["chain"] for row in csv.DictReader(open("run/trace.csv"))} == {"0", "1"}


def test_chains_give_the_same_files_on_any_number_of_threads(run, pictures):
    assert run(*FIT, "--quiet", "--n-chains", 3, "--n-jobs", 1)[0] == 0
    before = contents("run")
    assert run(*FIT, "--quiet", "--n-chains", 3, "--n-jobs", 3, "--overwrite")[0] == 0
    assert contents("run") == before


def test_nothing_held_out(run):
    for size in ("0", "0.001"):  # none, and so few that there is nothing to predict
        code, out, _ = run(*FIT, "--quiet", "--overwrite", "--test-size", size)
        why = (
            "as requested by --test-size 0"
            if size == "0"
            else "0.001 of 60 documents leaves no word to predict"
        )
        assert (
            code == 0
            and f"Held out: nothing, {why}\n" in out.replace(";", ",")
            and why in Page(Path("run/report.html").read_text()).text
        )
        summary = json.loads(Path("run/summary.json").read_text())
        assert summary["held_out"] is None and summary["documents"] == 60


def test_groups(run):
    assert run(*FIT, "--quiet")[0] == 0
    assert json.loads(Path("run/summary.json").read_text())["group"] == "age"
    assert run(*FIT, "--quiet", "--group", "page", "--overwrite")[0] == 0
    assert json.loads(Path("run/summary.json").read_text())["group"] == "page"
    small = small_corpus()
    Corpus(small.x, small.offsets, groups={"all": ["a"] * 60, "each": np.arange(60)}).save(
        "small.npz"
    )  # nothing to compare
    assert run(*FIT, "--quiet", "--overwrite")[0] == 0
    assert (
        not Path("run/shares.png").exists()
        and json.loads(Path("run/summary.json").read_text())["group"] is None
    )


TREE = [*FIT, "--levels", "age,page", "--quiet"]


def test_levels_make_a_tree(run):
    code, out, err = run(
        *TREE, "--gamma", 3, "--gamma-prior", "fixed", "--alpha-prior", "2,1", "--group", "age"
    )
    assert (code, err) == (0, "") and "Tree: corpus > age > page > document;" in out
    model, (train, test) = TreeHDP.load("run/model.npz"), small_corpus().split_docs(0.2, 0)
    priors = [Gamma(2, 1)] * 3
    assert (model.levels, model.concentrations) == (["age", "page"], [3, *priors])
    same = TreeHDP(
        model.levels,
        concentrations=model.concentrations,
        eta=0.1,
        n_iter=12,
        n_chains=1,
        init=100,
        moves=0,
        thin=3,
        random_state=0,
    ).fit(train)
    np.testing.assert_array_equal(same.components_, model.components_)
    own = document_completion(model, test, random_state=0)  # each document under its group
    summary = json.loads(Path("run/summary.json").read_text())
    assert (
        summary["held_out"]["log_probability"] == own and summary["settings"]["sampler"] == "direct"
    )
    assert own != document_completion(
        model, Corpus(test.x, test.offsets, test.vocab), random_state=0
    )
    test.save("test.npz")
    assert f"token: {own:.4f}\n" in run("score", "run", "test.npz")[1]
    assert run("topics", "run")[0] == 0

    shown = model.consensus()
    head, *rows = csv.reader(open("run/nodes.csv"))
    assert head == ["age", "page", "concentration", *map(str, range(shown.n_topics_))] and len(
        rows
    ) == len(model.nodes_)
    for row, path, concentration, weights in zip(
        rows, model.nodes_, model.concentrations_, shown.node_weights[:, : shown.n_topics_]
    ):
        assert [label for label in row[:2] if label] == [str(label) for label in path]
        np.testing.assert_array_equal(np.array(row[2:], float), [concentration, *weights])
    made = Path("run/report.html").read_text()
    page = Page(made)
    assert (
        page.open == []
        and "The tree" in page.text
        and run("report", "run")[0] == 0
        and Path("run/report.html").read_text() == made
    )
    weights = shown.node_weights[:, : shown.n_topics_]
    early, root = weights[model.node("early")], weights[0]
    assert (
        f"early{model.concentrations_[1]:.3g}"
        + " ".join(shown.top_words(3)[np.argmax(early - root)])
        in page.text
    )


def test_levels_that_there_are_not(run):
    before = contents()
    for more, message in [
        (["age,year"], "levels must name group columns of the corpus ('age', 'page'), got 'year'"),
        ([""], "levels must name group columns of the corpus ('age', 'page'), got ''"),
        (["age", "--sampler", "crf"], "--levels takes --sampler direct only, got crf"),
        (["age", "--split-merge", 2], "--levels takes --split-merge 0 only, got 2"),
    ]:
        assert run(*FIT, "--quiet", "--levels", *more) == (2, "", f"hdp_nb: error: {message}\n")
    small = small_corpus()
    Corpus(small.x, small.offsets).save("flat.npz")
    code, out, err = run("fit", "flat.npz", "--out", "run", "--quiet", "--levels", "age")
    assert (code, out, err.count("\n")) == (2, "", 1) and "it has none" in err
    assert (
        contents() == before | {"flat.npz": Path("flat.npz").read_bytes()}
        and not Path("run.part").exists()
    )


def test_an_existing_folder(run):
    assert run(*FIT, "--quiet")[0] == 0
    before = contents()
    assert run(*FIT, "--quiet") == (
        2,
        "",
        (
            "hdp_nb: error: --out: run exists; --overwrite replaces it once the new results are"
            " complete\n"
        ),
    )
    assert contents() == before
    assert run(*FIT, "--quiet", "--overwrite", "--seed", 1)[0] == 0
    assert contents()["run/model.npz"] != before["run/model.npz"] and sorted(os.listdir()) == [
        "run",
        "small.npz",
    ]
    # only results are ever replaced; an empty folder is as good as none
    os.mkdir("photos")
    Path("photos/us.jpg").write_text("")
    assert run(*FIT[:2], "--out", "photos", "--overwrite")[0] == 2 and contents("photos")
    assert run(*FIT[:2], "--out", ".", "--overwrite")[0] == 2 and contents("photos")
    os.mkdir("empty")
    assert (
        run(*FIT[:2], "--out", "empty/", "--n-iter", 2, "--quiet")[0] == 0
        and Path("empty/model.npz").is_file()
    )
    assert run(*FIT[:2], "--out", "new/deep/run", "--n-iter", 2, "--quiet")[0] == 0 and os.listdir(
        "new/deep"
    ) == ["run"]


def test_overwrite_removes_nothing_that_is_not_its_own(run, monkeypatch):
    "A summary.json makes no folder ours, nor are all files ours that stand beside it."

    def refused(says, *more):
        before = contents()
        code, out, err = run(*FIT, "--quiet", "--overwrite", *more)
        assert (code, out, err.count("\n")) == (2, "", 1) and says in err and contents() == before

    os.mkdir("run")
    Path("run/thesis.txt").write_text("years of work")
    for summary in (
        "{}",
        "[]",
        "{",
        "[" * 100_000,
        '{"program": "other 1.0"}',
        '{"program": null}',
        "",
    ):
        Path("run/summary.json").write_text(summary)
        refused(f"run{os.sep}summary.json: not a complete file of hdp_nb")
    for path in Path("run").iterdir():
        path.unlink()
    assert run(*FIT, "--quiet")[0] == 0
    for name in (
        "thesis.txt",
        "chain-of-thought.txt",
        "model.npz.bak",
        "chain-letters.npz",
        "notes.tmp",
    ):
        Path("run", name).write_text("years of work")
        refused(f"--overwrite replaces only what hdp_nb fit wrote, and run also holds {name}\n")
        Path("run", name).unlink()
    os.mkdir("run/photos")
    Path("run/zebra.txt").touch()
    refused("run also holds photos and 1 other")
    Path("run/zebra.txt").unlink()
    os.rmdir("run/photos")

    write = cli._write  # it comes while the run is under way

    def late(*arguments):
        Path("run/thesis.txt").write_text("years of work")
        return write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(cli, "_write", late)
        before = contents("run")
        assert "run also holds thesis.txt" in run(*FIT, "--quiet", "--overwrite", "--seed", 2)[2]
        assert contents("run") == before | {"thesis.txt": b"years of work"}
    Path("run/thesis.txt").rename("thesis.txt")
    with monkeypatch.context() as patch:  # nothing is lost of the new run either
        patch.setattr(FranchiseSampler, "sweep", None)
        assert run(*FIT, "--quiet", "--overwrite", "--seed", 2)[0] == 0
    assert (
        sorted(os.listdir()) == ["run", "small.npz", "thesis.txt"]
        and set(contents("run")) <= results.RESULTS
    )


@pytest.mark.skipif(os.name == "nt", reason="needs links, which take a privilege on Windows")
def test_a_link_stays_a_link(run):
    os.makedirs("disk/full")
    Path("link").symlink_to("disk/full")
    Path("dangling").symlink_to("disk/new")
    for link, target in (("link", "disk/full"), ("dangling", "disk/new")):
        for seed in (0, 1):
            assert (
                run(*FIT, "--out", link, "--quiet", "--seed", seed, *["--overwrite"] * seed)[0] == 0
            )
            assert (
                Path(link).is_symlink()
                and set(contents(target)) <= results.RESULTS
                and sorted(os.listdir()) == ["dangling", "disk", "link", "small.npz"]
            )
            assert json.loads(Path(target, "summary.json").read_text())["settings"]["seed"] == seed
    assert "exists; --overwrite" in run(*FIT, "--out", "link", "--quiet")[2] and sorted(
        os.listdir("disk")
    ) == ["full", "new"]


def test_no_results_of_an_interrupted_run_stay(run):
    "A tree's nodes, say, when the next run is no tree."
    os.mkdir("run.part")
    Path("run.part/nodes.csv").write_text("of another run")
    Path("run.part/model.npz.0123abcd.tmp").write_text("half of it")
    Path("run.part/chain-0123456789ab-0.npz.lock").write_text("of a process that was killed")
    Path("run.part/chain-0123456789ab.json").write_text("{")  # killed before its first checkpoint
    assert run(*FIT, "--quiet")[0] == 0
    assert "nodes.csv" not in contents("run") and set(contents("run")) <= results.RESULTS


def test_dollars_are_no_formulas(run, pictures):
    "In words, labels and names of groups: the report shows them as they are."
    small = small_corpus()
    Corpus(
        small.x,
        small.offsets,
        [f"$x_{v}^$" if v % 2 else f"${v}\\$" for v in range(16)],
        {"$ide^$": [f"$\\{side}^$" for side in small.groups["age"].tolist()]},
    ).save("small.npz")
    for more in ([], ["--levels", "$ide^$"]):
        assert run(*FIT, "--quiet", "--overwrite", *more)[0::2] == (0, "")
        page = Page(Path("run/report.html").read_text())
        assert (
            "$x_1^$" in page.text
            and '"level":"$ide^$"' in page.text
            and page.open == []
            and all(link.startswith(("data:", "#")) for link in page.links)
        )


def test_letters_that_the_pictures_lack_are_said_in_a_line(run, pictures, recwarn):
    rows = [f"{'甲乙 丙丁 戊己' if j % 2 else 'sea ship storm'},类{j % 2}" for j in range(30)]
    Path("a.csv").write_text("\n".join(["text,kind", *rows]), encoding="utf-8")
    more = "--column text --out run --n-iter 4 --moves 0 --overwrite".split()
    assert run("fit", "a.csv", *more, "--quiet")[::2] == (0, "")
    err = run("fit", "a.csv", *more)[2]
    assert err.count("letters that their font lacks (丁丙乙己戊甲类)") == 1
    assert "Glyph" not in err and not [w for w in recwarn if "Glyph" in str(w.message)]
    Path("b.csv").write_text("\n".join(["text,kind", *rows[::2]]).replace("类", "k"))
    assert "font" not in run("fit", "b.csv", *more)[2]


def test_quiet_commands_warn_of_nothing(run, monkeypatch, recwarn):
    run(*FIT, "--quiet")
    load = cli._read_model

    def read_model(path):
        warnings.warn("odd", stacklevel=2)
        return load(path)

    monkeypatch.setattr(cli, "_read_model", read_model)
    assert run("score", "run", "small.npz", "--quiet")[2] == "" and not recwarn.list
    run("score", "run", "small.npz")
    assert [str(warning.message) for warning in recwarn] == ["odd"]


def test_a_run_that_fails_late_leaves_the_old_results_and_continues(run, monkeypatch):
    assert run(*FIT, "--quiet")[0] == 0
    before = contents("run")

    def full(*_):
        raise OSError(28, "No space left on device", "run.part/topics.png")

    with monkeypatch.context() as patch:
        patch.setattr(cli, "write_pictures", full)
        assert run(*FIT, "--quiet", "--overwrite", "--seed", 5) == (
            2,
            "",
            "hdp_nb: error: run.part/topics.png: No space left on device\n",
        )
    assert contents("run") == before and list(Path("run.part").glob("chain-*.npz"))
    with monkeypatch.context() as patch:  # not a sweep is done again
        patch.setattr(FranchiseSampler, "sweep", None)
        assert run(*FIT, "--quiet", "--overwrite", "--seed", 5)[0] == 0
    assert (
        contents("run") != before
        and not Path("run.part").exists()
        and not list(Path("run").glob("chain-*"))
    )


def test_ctrl_c_before_the_first_sweep(run, monkeypatch):
    first = FranchiseSampler.init

    def init(*arguments):
        _thread.interrupt_main()
        time.sleep(0.5)  # the main thread waits for this one, and looks up now and then
        return first(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(FranchiseSampler, "init", init)
        code, out, err = run(*FIT, "--quiet")
    assert (
        (code, out, err.count("\n")) == (130, "", 1)
        and "interrupted" in err
        and not Path("run").exists()
    )
    assert run(*FIT, "--quiet")[0] == 0 and not Path("run.part").exists()


@pytest.fixture
def break_off(run, monkeypatch):
    """Begin a run that dies in its last moment, with nothing but its checkpoints left."""

    def break_off(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(cli, "_write", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):  # a program's own error keeps its traceback
                run(*arguments)

    return break_off


def test_another_run_does_not_touch_a_checkpoint(run, break_off):
    "One line says what differs and what to do; with --fresh both stand until one is finished."
    break_off(*FIT, "--quiet")
    small, before = small_corpus(), contents()
    changes = {
        ("--eta", "0.2"): "--eta 0.1 (now 0.2)",
        ("--seed", 7): "--seed 0 (now 7)",
        ("--thin", 2): "--thin 3 (now 2)",
        ("--alpha-prior", "fixed"): "--alpha-prior 1.0,1.0 (now fixed)",
        (
            "--n-chains",
            2,
            "--init",
            "sequential",
        ): "--init 100 (now sequential), --n-chains 1 (now 2)",
        ("--levels", "age,page"): "--sampler crf (now direct), --levels none (now age,page)",
        ("--min-count", 2): None,
    }  # an option that is none for this corpus
    for more, says in changes.items():
        code, out, err = run(*FIT, "--quiet", *more)
        assert (code, out, err.count("\n"), contents()) == (2, "", 1, before)
        assert (
            says is None
            or err
            == f"hdp_nb: error: run.part holds an unfinished run with {says}: --resume continues"
            " it, --fresh discards it, another --out leaves it as it is\n"
        )
    for other in (
        small[1:],
        Corpus(small.x, small.offsets, small.vocab, small.groups | {"age": ["early"] * 60}),
    ):
        other.save("small.npz")  # other data under the same name, other groups
        code, out, err = run(*FIT, "--quiet")
        assert (code, err.count("\n")) == (2, 1) and "with other documents in CORPUS: " in err
        assert contents() == before | {"small.npz": Path("small.npz").read_bytes()}
    small.save("small.npz")
    assert "eta must be" in run(*FIT, "--quiet", "--fresh", "--eta", 0)[2]
    assert contents() == before  # a mistake costs nothing
    assert "with --eta 0.1 (now 0.2)" in run(*FIT, "--overwrite", "--eta", "0.2", "--quiet")[2]
    assert contents() == before  # --overwrite is about results
    break_off(*FIT, "--fresh", "--eta", "0.2", "--quiet")
    assert (
        len(list(Path("run.part").glob("chain-*-0.npz"))) == 2
        and contents().items() > before.items()
    )
    assert "--eta 0.2 (now 0.1)" in run(*FIT, "--quiet")[2]
    code, out, err = run(*FIT, "--fresh")
    assert (
        code == 0
        and "Discarding an unfinished run with --eta 0.2 (now 0.1)\n" in err
        and sorted(os.listdir()) == ["run", "small.npz"]
    )
    assert set(contents("run")) <= results.RESULTS


def test_resume_takes_the_settings_of_the_unfinished_run(run, break_off):
    begin = [*FIT, "--quiet", "--eta", "0.2", "--seed", 3]
    assert run(*begin, "--out", "whole")[0] == 0
    resume = ["fit", "small.npz", "--out", "run", "--quiet", "--resume", "--n-iter"]
    assert "--resume takes a folder with one unfinished run, run.part has no" in run(*resume, 12)[2]
    break_off(*begin)
    [settings] = Path("run.part").glob("chain-*.json")
    good, before = settings.read_text(), contents()
    for bad, says in {
        '{"eta"': "not a complete file",
        '{"rm": "-rf"}': "not a complete file",
        "[" * 100_000: "not a complete file",
        good.replace("0.2", '"0.2"', 1): "",
    }.items():
        settings.write_text(bad)
        code, out, err = run(*resume, 12)
        assert (code, out, err.count("\n")) == (2, "", 1) and says in err
    settings.write_text(good)
    assert "--n-iter takes at least the 12 sweeps" in run(*resume, 8, "--burn-in", 6)[2]
    assert contents() == before
    assert "not allowed with" in run(*resume, 12, "--fresh")[2]
    assert run(*resume, 12)[0] == 0 and contents("run") == contents("whole")


def test_overwrite_says_what_goes(run):
    assert run(*FIT)[0] == 0
    says = "The results in run, small.npz: 60 documents"
    assert says in run(*FIT, "--overwrite")[2] and says not in run(*FIT, "--out", "new")[2]


def test_two_runs_in_one_folder(run, monkeypatch):
    "The second is told of the first, whatever its settings."
    write, told = cli._write, []

    def meanwhile(*arguments):
        with monkeypatch.context() as patch:
            patch.setattr(cli, "_write", write)
            told.extend(run(*FIT, "--quiet", *more)[2] for more in ([], ["--fresh", "--eta", 1]))
        return write(*arguments)

    monkeypatch.setattr(cli, "_write", meanwhile)
    assert run(*FIT, "--quiet")[0] == 0
    in_use = f"hdp_nb: error: run.part: in use by process {os.getpid()} on "
    assert len(told) == 2 and all(err.startswith(in_use) for err in told)
    assert sorted(os.listdir()) == ["run", "small.npz"]


@pytest.mark.parametrize("more", [[], ["--burn-in", 6], ["--n-chains", 2, "--levels", "age"]])
def test_a_run_can_be_taken_further(run, break_off, monkeypatch, more):
    "With a burn-in of half the sweeps, too: the files are those of a run that was planned as long."
    fit = [*FIT, "--quiet", *more]
    assert run(*fit, "--n-iter", 24, "--out", "whole")[0] == 0
    sweeps, sweep = [], FranchiseSampler.sweep
    monkeypatch.setattr(FranchiseSampler, "sweep", lambda *state: sweeps.append(1) or sweep(*state))
    break_off(*fit)
    assert (
        run(*fit, "--n-iter", 24)[::2] == (0, "")
        and contents("run") == contents("whole")
        and not Path("run.part").exists()
    )
    assert len(sweeps) == (0 if "--levels" in more else 24)


def test_a_run_cannot_be_cut_short_or_thinned_otherwise(run, break_off):
    break_off(*FIT, "--quiet")
    before = contents()
    for more, says in [
        (["--n-iter", 8], "--n-iter takes at least the 12 sweeps"),
        (["--n-iter", 14], "give --burn-in 6"),
        (["--burn-in", 5], "--burn-in 6, now --burn-in 5"),
    ]:
        code, out, err = run(*FIT, "--quiet", *more)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert says in err and "--fresh starts again, another --out leaves it as it is" in err
        assert contents() == before
    assert run(*FIT, "--quiet", "--n-iter", 14, "--burn-in", 6)[0] == 0
    break_off(*FIT, "--quiet", "--overwrite")
    assert run(*FIT, "--quiet", "--n-iter", 8, "--overwrite", "--fresh")[0] == 0
    assert (
        json.loads(Path("run/summary.json").read_text())["sweeps"] == [8]
        and set(contents("run")) <= results.RESULTS
    )


@pytest.mark.parametrize("counts, sampler", [(1, "crf"), (400, "blocked")])
def test_the_sampler_is_chosen_by_the_counts_and_named_in_the_settings(run, counts, sampler):
    X = np.random.default_rng(0).integers(1, 3, size=(12, 5)) * counts
    scipy.sparse.save_npz("counts.npz", scipy.sparse.csr_matrix(X))
    short = ("--n-iter", 3, "--moves", 0, "--init", 3, "--test-size", 0, "--quiet")
    assert run("fit", "counts.npz", "--out", "counted", *short)[0] == 0
    assert json.loads(Path("counted/summary.json").read_text())["settings"]["sampler"] == sampler
    code, _, err = run("fit", "counts.npz", "--out", "none", "--sampler", "", *short)
    assert code == 2 and err.startswith("hdp_nb: error: sampler must be one of 'auto', 'crf'")


def test_checkpoints_of_versions_that_wrote_no_settings(run, break_off):
    "The number of sweeps is in their names: found by the same command, tried by any other."
    assert run(*FIT, "--quiet", "--out", "whole", "--n-iter", 24)[0] == 0

    def early(n_iter):
        break_off(*FIT, "--quiet")
        [settings], [checkpoint] = (
            Path("run.part").glob("chain-*.json"),
            Path("run.part").glob("chain-*.npz"),
        )
        settings.unlink()
        args = cli._parser().parse_args([*FIT, "--n-iter", str(n_iter)])
        args.sampler = "crf"
        key = results.digest_run([hdp_nb.__version__, cli._settings(args)], small_corpus())
        checkpoint.rename(f"run.part/chain-{key}-0.npz")

    for n_iter in (24, 12):  # as begun, and taken further
        early(n_iter)
        before = contents()
        for more, says in [
            (["--eta", 0.2], "--eta 0.1, now --eta 0.2"),
            (["--seed", 1], "now x = "),
            (["--seed", 1, "--test-size", 0], "now x = "),
        ]:
            code, out, err = run(*FIT, "--quiet", *more)
            assert (code, err.count("\n")) == (2, 1) and says in err and contents() == before
        assert run(*FIT, "--quiet", "--n-iter", 24)[::2] == (0, "") and contents("run") == contents(
            "whole"
        )
        for path in Path("run").iterdir():
            path.unlink()
    early(12)
    assert (
        run(*FIT, "--quiet", "--eta", 0.2, "--overwrite", "--fresh")[0] == 0
        and json.loads(Path("run/summary.json").read_text())["settings"]["eta"] == 0.2
    )


def test_topics(run):
    run(*FIT, "--quiet")
    model = HDP.load("run/model.npz").consensus()
    code, out, err = run("topics", "run", "--n-words", 3)
    assert (code, err) == (0, "")
    assert (
        out.splitlines()[0]
        == f"   0 {model.topic_shares_[0]:6.1%}  {' '.join(model.top_words(3)[0])}"
    )
    rows = list(csv.DictReader(run("topics", "run", "--n-words", 3, "--csv")[1].splitlines()))
    assert [row["words"].split() for row in rows] == model.top_words(3)
    assert [float(row["share"]) for row in rows] == model.topic_shares_.tolist()
    names = list(rows[0])  # in the file, which knows the documents, also how many mention each
    with open("run/topics.csv", encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    printed = list(csv.DictReader(run("topics", "run", "--csv")[1].splitlines()))
    assert printed == [{name: row[name] for name in names} for row in written]
    assert {*written[0]} - {*names} == {"documents", "documents_low", "documents_high"}


def test_seed_words_name_topics(run):
    "In what is printed, in the table and in the report; the same as in Python; a run is resumed."
    vocab = small_corpus().vocab
    words = {"first": vocab[:2], "no topic": vocab[:11:5]}
    Path("seeds.json").write_text(json.dumps(words))
    seeded = ["--seed-words", "seeds.json", "--seed-strength", 2]
    code, out, err = run(*FIT, "--quiet", *seeded)
    assert (code, err) == (0, "")
    saved = HDP.load("run/model.npz")
    train, _ = small_corpus().split_docs(0.2, 0)
    options = dict(n_iter=12, thin=3, eta=0.1, random_state=0, n_chains=1, init=100, moves=0)
    model = HDP(seed_words=SeedWords(words, 2), sampler="direct", **options).fit(train)
    np.testing.assert_array_equal(saved.components_, model.components_)
    rows = {row["label"]: row for row in csv.DictReader(open("run/topics.csv"))}
    page = Path("run/report.html").read_text()
    for name, k in model.seeded_.items():
        assert f"{k:4d} {model.topic_shares_[k]:6.1%}  {name}: " in out
        assert rows[name]["topic"] == str(k) and f"<b>{name}</b>" in page
    assert len(model.seeded_) == 2 and run("topics", "run")[1].count(": ") == 2
    code, out, err = run("score", "run", "small.npz", "--test-size", 0.5)
    assert code == 0 and len(numbers(out)) == 2
    settings = json.loads(Path("run/summary.json").read_text())["settings"]
    assert settings["seed_words"] == words and settings["sampler"] == "direct"
    assert run(*FIT, "--quiet", *seeded, "--levels", "age", "--overwrite")[0] == 0
    assert TreeHDP.load("run/model.npz").seeded_.keys() == words.keys()


@pytest.mark.parametrize(
    "text, option, message",
    [
        ('{"a": ["w1"', [], "argument --seed-words: seeds.json: takes a JSON file like"),
        ('["w1"]', [], "argument --seed-words: seeds.json: takes a JSON file like"),
        ('{"a": "w1"}', [], "argument --seed-words: seeds.json: takes a JSON file like"),
        ('{"a": ["w1"], "a": ["w2"]}', [], "argument --seed-words: seeds.json: 'a' must be there"),
        (None, [], "argument --seed-words: seeds.json: No such file"),
        ("{}", [], "--seed-words must be a dict"),
        ('{"a": []}', [], "--seed-words['a'] must be a list of words of CORPUS"),
        ('{"a": ["whale"]}', [], "--seed-words['a'] must be words of CORPUS, which 'whale' is not"),
        ('{"a": [WORD, WORD]}', [], "--seed-words['a'] must be distinct"),
        ('{"a": [WORD]}', ["--seed-strength", 0], "--seed-strength must be"),
        ('{"a": [WORD]}', ["--sampler", "hybrid"], "sampler must be 'auto', 'blocked', 'crf'"),
    ],
)
def test_bad_seed_words(run, text, option, message):
    if text is not None:
        Path("seeds.json").write_text(text.replace("WORD", json.dumps(small_corpus().vocab[0])))
    before = contents()
    code, out, err = run(*FIT, "--quiet", "--seed-words", "seeds.json", *option)
    assert code == 2 and message in err and err.count("\n") == 1 and out == ""
    assert contents() == before


def test_tiny_topics_share_a_line(capsys):
    topics = [
        {"topic": k, "share": share, "words": [f"w{k}"]}
        for k, share in enumerate([0.998, 0.0011, 0.0006, 0.0003])
    ]
    results.print_topics(topics)
    assert capsys.readouterr().out.splitlines() == [
        "   0  99.8%  w0",
        "   1   0.1%  w1",
        "  and 2 with less than 0.1% of the tokens each, 0.1% together",
    ]
    results.print_topics(topics[:3])
    assert capsys.readouterr().out.splitlines()[2:] == ["  and 1 with 0.06% of the tokens"]


def test_one_of_a_kind(run):
    Path("one.txt").write_text("sea sea sea sea\n")
    code, out, _ = run(
        "fit",
        "one.txt",
        "--out",
        "one",
        "--n-iter",
        1,
        "--n-chains",
        1,
        "--moves",
        0,
        "--init",
        1,
        "--alpha",
        0.001,
        "--alpha-prior",
        "fixed",
        "--quiet",
    )
    page = Page(Path("one/report.html").read_text()).text
    assert (
        code == 0
        and "Corpus one.txt: 1 document, 4 tokens, 1 word\n1 topic after 1 sweep over 1 document; "
        in out
    )
    assert (
        "1topic" in page
        and "1sweep" in page
        and "4tokens in 1 document fitted" in page
        and "tiny" not in page.replace("tiny ones too", "")
    )


def test_score_is_document_completion(run):
    run(*FIT, "--quiet")
    model, corpus = HDP.load("run/model.npz"), small_corpus()
    code, out, err = run("score", "run", "small.npz", "--test-size", 0.5, "--seed", 4)
    assert (code, err) == (0, "")
    expected = document_completion(model, corpus, 0.5, random_state=4)
    assert f"token: {expected:.4f}\n" in out and numbers(out)[0] == pytest.approx(
        np.exp(-expected), abs=0.051
    )


def test_score_matches_words_by_name(run):
    run(*FIT, "--quiet")
    small = small_corpus()
    out = run("score", "run", "small.npz")[1]
    # the same documents over a vocabulary in another order, with words that occur nowhere
    vocab = [f"x{i}" for i in range(5)] + small.vocab[::-1]
    Corpus(20 - small.x, small.offsets, vocab).save("other.npz")
    code, other, err = run("score", "run", "other.npz")
    assert (code, err) == (0, "") and other.splitlines()[1:] == out.splitlines()[1:]
    # unknown words are left out: the documents without them score the same
    unknown = small.x == 3
    Corpus(
        small.x, small.offsets, ["zebra" if v == 3 else w for v, w in enumerate(small.vocab)]
    ).save("zebra.npz")
    Corpus(small.x[~unknown], np.append(0, np.cumsum(~unknown))[small.offsets], small.vocab).save(
        "fewer.npz"
    )
    code, zebra, err = run("score", "run", "zebra.npz")
    assert (
        code == 0
        and err
        == f"Left out, as the model doesn't know their words: {unknown.sum():,} of 1,800 tokens\n"
    )
    assert zebra.splitlines()[1:] == run("score", "run", "fewer.npz")[1].splitlines()[1:]
    assert run("score", "run", "zebra.npz", "--quiet")[2] == ""
    # without names, by number
    Corpus(small.x, small.offsets).save("ids.npz")
    code, ids, err = run("score", "run", "ids.npz")
    assert code == 0 and "by their ids" in err and ids.splitlines()[1:] == out.splitlines()[1:]


class Page(HTMLParser):
    """Tags that are open, references, and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.text = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_report_is_one_page_that_fetches_nothing(run):
    run(*FIT, "--quiet")
    made = Path("run/report.html").read_text()
    Path("run/report.html").unlink()
    assert run("report", "run") == (0, f"run{os.sep}report.html\n", "")
    page = Page(made)
    assert Path("run/report.html").read_text() == made and page.open == []
    links = [link for link in page.links if not link.startswith("#")]
    assert len(links) == 1 and links[0].startswith("data:image/png;base64,")
    assert "url(" not in made and "@import" not in made
    shown = HDP.load("run/model.npz")
    assert (
        " ".join(shown.top_words(10)[0]) in page.text and "<b>" in page.text
    )  # escaped, so it is text


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_report_in_a_browser(run, browser, scheme, pictures):
    """Both widths and both schemes: nothing goes wrong, nothing is fetched, nothing is too wide,
    what is folded opens.
    """
    run(*FIT, "--quiet", "--group", "age", "--n-chains", 2)
    verdict = json.loads(Path("run/summary.json").read_text())["verdict"]
    assert not verdict["converged"] and sum(verdict["weights"]) == pytest.approx(1)
    says = " and ".join(f"{weight:.0%}" for weight in verdict["weights"])
    assert f"the chains count {says}, by how" in Path("run/report.html").read_text()
    tab, faults = browser.new_page(color_scheme=scheme), []
    tab.on("console", lambda said: faults.append(said.text))
    tab.on("pageerror", lambda error: faults.append(str(error)))
    tab.on(
        "request",
        lambda request: request.url.startswith(("file:", "data:")) or faults.append(request.url),
    )
    tab.goto(Path("run/report.html").absolute().as_uri())
    for width in (360, 390, 1360):
        tab.set_viewport_size({"width": width, "height": 800})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.evaluate(
        "[...document.images].length == 1 && [...document.images].every(i => i.naturalWidth > 0)"
    )
    shade = tab.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b)"
        " => a + +b, 0)"
    )
    assert shade > 700 if scheme == "light" else shade < 150
    name, dots = tab.locator("#name"), tab.locator("circle.dot")
    n = dots.count()
    dots.last.click()  # the smallest is on top; by hand, then by the keyboard
    assert n > 2 and name.inner_text().startswith(f"{n - 1}:")
    for key, k in (("Home", 0), ("ArrowRight", 1), ("End", n - 1), ("ArrowLeft", n - 2)):
        tab.keyboard.press(key)
        assert name.inner_text().startswith(f"{k}:")
        assert tab.locator("circle.dot[aria-pressed=true]").count() == 1
    tab.locator("#weight").press("Home")  # by lift
    lifts = [float(t.split("×")[1]) for t in tab.locator("#words .faint").all_text_contents()]
    assert len(lifts) > 5 and lifts == sorted(lifts, reverse=True)
    tab.locator("#weight").press("End")  # by probability
    shares = [float(t.split("%")[0]) for t in tab.locator("#words .faint").all_text_contents()]
    assert shares == sorted(shares, reverse=True)
    assert "early" in tab.locator("#groups").get_attribute("aria-label")
    rows = tab.locator("#topics tr[data-topic]")
    order = lambda: [row.get_attribute("data-topic") for row in rows.all()]
    tab.locator("#topics th button").nth(1).click()
    falling = order()
    tab.locator("#topics th button").nth(1).click()
    assert order() == falling[::-1]
    for button in tab.locator("#topics th button").all():
        button.click()  # numbers fall, words from the end of the alphabet
        column = button.evaluate("b => b.parentNode.cellIndex")
        cells = [row.locator("td, th").nth(column).inner_text() for row in rows.all()]
        numbers = [float(found[0]) for cell in cells if (found := re.findall(r"^[\d.]+", cell))]
        assert button.evaluate("b => b.parentNode.ariaSort") == "descending" and len(set(cells)) > 1
        if numbers:
            assert len(numbers) == rows.count() and numbers == sorted(numbers, reverse=True)
        else:
            first = [re.match(r"\w+", cell)[0].lower() for cell in cells]
            assert first == sorted(first, reverse=True)
    word = rows.first.locator("td").last.inner_text().split()[0]
    tab.locator("#search").fill(word)
    assert 0 < tab.locator("#topics tr[data-topic]:visible").count() <= n
    tab.locator("#search").fill("no such word")
    assert tab.locator("#topics tr[data-topic]:visible").count() == 0
    tab.locator("#search").fill("")
    tab.locator("#topics tr[data-topic='0'] button").click()
    assert name.inner_text().startswith("0:") and tab.locator("mark.own").count() > 0
    second = tab.locator("details").nth(1)
    assert (
        not second.locator("p").first.is_visible()
        and tab.locator("details").first.locator("p").first.is_visible()
    )
    second.locator("summary").click()
    assert (
        second.locator("p").first.is_visible()
        and "document " in second.inner_text()
        and faults == []
    )
    tab.close()


def test_files_of_other_formats(run):
    Path("letters.txt").write_text(
        "the sea and the ship\nthe land, the tree; a tree\n\nSea and sand and shells\n" * 5
    )
    code, out, _ = run(
        "fit",
        "letters.txt",
        "--out",
        "letters",
        "--n-iter",
        4,
        "--stop-words",
        "english",
        "--min-count",
        10,
        "--quiet",
    )
    assert code == 0 and HDP.load("letters/model.npz").vocabulary_ == ["sea", "tree"]
    Path("stop.txt").write_text("the\na and")
    assert (
        run(
            "fit",
            "letters.txt",
            "--out",
            "more",
            "--n-iter",
            4,
            "--stop-words",
            "stop.txt",
            "--quiet",
        )[0]
        == 0
    )
    assert HDP.load("more/model.npz").vocabulary_ == [
        "land",
        "sand",
        "sea",
        "shells",
        "ship",
        "tree",
    ]
    assert (
        run(
            "score",
            "letters",
            "letters.txt",
            "--stop-words",
            "english",
            "--test-size",
            0.5,
            "--quiet",
        )[0]
        == 0
    )
    small = small_corpus()
    small.write_ldac("counts.ldac")
    small.write_uci("docword.counts.txt.gz")
    os.rename("counts.vocab", "words")
    assert (
        run("fit", "counts.ldac", "--vocab", "words", "--out", "a", "--n-iter", 3, "--quiet")[0]
        == 0
    )
    assert (
        run(
            "fit",
            "docword.counts.txt.gz",
            "--format",
            "uci",
            "--out",
            "b",
            "--n-iter",
            3,
            "--quiet",
        )[0]
        == 0
    )
    a, b = HDP.load("a/model.npz"), HDP.load("b/model.npz")
    assert a.vocabulary_ == b.vocabulary_ == small.vocab and (a.components_ == b.components_).all()


def test_typical_documents(run):
    assert run(*FIT, "--quiet", "--group", "age")[0] == 0
    model, (train, _), found = (
        HDP.load("run/model.npz").consensus(),
        small_corpus().split_docs(0.2, 0),
        json.loads(Path("run/documents.json").read_text()),
    )
    shown = [k for k, share in enumerate(model.topic_shares_) if share >= 0.001]
    assert [d["topic"] for d in found] == [k for k in shown for _ in range(3)]
    rows = {
        page: j for j, page in enumerate(train.groups["page"].tolist())
    }  # a page's number is that of its document
    for k in shown:
        three = [d for d in found if d["topic"] == k]
        assert [d["share"] for d in three] == pytest.approx(sorted(model.doc_topic_[:, k])[:-4:-1])
        for d in three:
            j = rows[d["document"]]
            assert d["share"] == model.doc_topic_[j, k] and d["text"] is None
            assert d["labels"] == {"age": train.groups["age"][j], "page": str(d["document"])}
            weight = {
                train.vocab[v]: n * model.components_[k, v]
                for v, n in enumerate(np.bincount(train[j], minlength=16))
                if n
            }
            assert [weight[word] for word in d["words"]] == pytest.approx(
                sorted(weight.values(), reverse=True)[:12]
            )
    page = Page(Path("run/report.html").read_text())
    assert (
        f"document {found[0]['document']}, age {found[0]['labels']['age']}" in page.text
        and page.open == []
    )


def test_texts_that_nobody_has_counted(run):
    small = small_corpus()
    texts = [
        " ".join(f"word{'abcdefghijklmnop'[v]}" for v in doc) + " & <i>the</i> end" for doc in small
    ]
    with open("letters.csv", "w", encoding="utf-8-sig", newline="") as file:
        csv.writer(file, delimiter=";").writerows(
            [["age", "letter"], *zip(small.groups["age"], texts)]
        )
    os.mkdir("texts")
    for j, text in enumerate(texts):
        Path(f"texts/{j:02}.txt").write_text(text)
    options = [*FIT[2:], "--stop-words", "english", "--min-df", "0.05", "--quiet"]
    options += ["--max-df", "0.95"]
    assert run("fit", "letters.csv", "--column", "letter", *options)[0] == 0
    assert run("fit", "texts", *options[:1], "filed", *options[2:])[0] == 0
    a, b = HDP.load("run/model.npz"), HDP.load("filed/model.npz")
    assert np.array_equal(a.components_, b.components_)
    # All texts end in "end", which says nothing, therefore.
    assert a.vocabulary_ == [f"word{c}" for c in "abcdefghijklmnop"]
    found = json.loads(Path("run/documents.json").read_text())
    assert all(
        d["text"] == texts[d["document"]]
        and d["labels"] == {"age": small.groups["age"][d["document"]]}
        for d in found
    )
    assert (
        found[0]["text"] in Page(Path("run/report.html").read_text()).text
        and json.loads(Path("run/summary.json").read_text())["group"] == "age"
    )
    assert run("score", "run", "letters.csv", "--column", "letter", "--quiet")[0] == 0
    for more, message in [
        (
            ["letters.csv", "--column", "lettre"],
            "csv: --column must be the one that holds the documents, one of 'age', 'letter'",
        ),
        (["small.npz", "--column", "x"], "--column is no option"),
        (["letters.csv", "--column", "letter", "--min-df", "many"], "takes a number"),
    ]:
        code, out, err = run("fit", *more, "--out", "new", "--quiet")
        assert (
            (code, out, err.count("\n")) == (2, "", 1)
            and message in err
            and not Path("new").exists()
        )


def test_convergence_is_told_where_there_is_enough(run, monkeypatch):
    from hdp_nb.evaluation import diagnostics

    monkeypatch.setattr(
        diagnostics,
        "summary",
        lambda model, n_shares: {
            "n_topics": diagnostics.Diagnosis(1234.5, 2.0, 1.25, 50.4, 9.0),
            "eta": diagnostics.Diagnosis(0.1, 0.0, np.nan, np.nan, np.nan),
            "alpha": diagnostics.Diagnosis(0.125, 0.5, np.nan, 7.0, 9.0),
        },
    )
    assert run(*FIT, "--quiet")[0] == 0  # six draws
    assert (
        json.loads(Path("run/summary.json").read_text())["convergence"] is None
        and "100 sweeps after burn-in" in Path("run/report.html").read_text()
    )
    assert run(*FIT, "--quiet", "--n-iter", 101, "--burn-in", 1, "--overwrite")[0] == 0
    assert json.loads(Path("run/summary.json").read_text())["convergence"] == {
        "n_topics": {"mean": 1234.5, "sd": 2.0, "rhat": 1.25, "ess": 50.4},
        "alpha": {"mean": 0.125, "sd": 0.5, "rhat": None, "ess": 7.0},
    }
    assert "n topics1,2342501.25alpha0.1250.57-" in Page(
        Path("run/report.html").read_text()
    ).text.replace("\n", "")


def test_help_and_version(run):
    assert run("--version") == (0, f"hdp_nb {hdp_nb.__version__}\n", "")
    code, out, err = run("--help")
    assert code == 0 and err == "" and "examples:" in out and "Exit codes" in out
    for command in ("fit", "topics", "score", "report"):
        assert command in out and run(command, "--help")[0] == 0
    assert run()[0] == 2


# From here on in processes of their own, as users have it.  The samplers run uncompiled: the same
# draws, no seconds spent in the compiler, and a sweep slow enough to be stopped in.

ENV = {
    **os.environ,
    "NUMBA_DISABLE_JIT": "1",
    "PYTHONPATH": str(Path(hdp_nb.__file__).parent.parent),
}


def start(*arguments, cwd=None, before=None):
    """The command line in a process of its own, after this line of Python, if any."""
    main = ["-m", "hdp_nb"]
    if before:
        main = ["-c", f"import sys, hdp_nb.cli.main; {before}; sys.exit(hdp_nb.cli.main.main())"]
    return subprocess.Popen(
        [sys.executable, *main, *arguments],
        env=ENV,
        text=True,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process):
    out, err = process.communicate(timeout=1200)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, hdp_nb.cli.main; heavy = {'numpy', 'scipy', 'numba', 'sklearn', 'matplotlib',"
        " 'tqdm'}; print(heavy & set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=ENV
        ).stdout
        == "set()\n"
    )


def test_the_installed_command():
    script = Path(sys.executable).with_name("hdp_nb")
    if not script.exists():
        pytest.skip("needs the command installed: pip install -e .")
    done = subprocess.run([script, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"hdp_nb {hdp_nb.__version__}\n")
    done = subprocess.run([script, "fit"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="needs pipes of POSIX")
def test_a_reader_that_leaves_early(run):
    run(*FIT, "--quiet")
    process = start("topics", "run", "--csv")
    process.stdout.close()
    process.stdout = None
    assert finish(process) == (1, None, "")


LONG = "fit tiny.npz --out run --n-iter 130 --n-chains 1 --moves 0 --eta 0.1 --quiet".split()


def wait_for(part, sweeps, process):
    """Until the checkpoint in `part` has come at least that far."""
    until = time.monotonic() + 1200  # a machine may be busy
    while time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        for path in Path(part).glob("chain-*.npz"):
            with np.load(path) as arrays:
                if json.loads(arrays["meta"].item())["n_done"] >= sweeps:
                    return
        time.sleep(0.02)
    pytest.fail("the run takes too long")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """What the files of LONG are without a break."""
    folder = tmp_path_factory.mktemp("unbroken")
    small_corpus()[20:32].save(folder / "tiny.npz")
    assert finish(start(*LONG, cwd=folder))[::2] == (0, "")
    return contents(folder / "run")


@pytest.fixture
def tiny(folder, unbroken):
    small_corpus()[20:32].save("tiny.npz")


@pytest.mark.skipif(os.name == "nt", reason="needs signals of POSIX")
def test_killed_then_the_same_command_gives_the_same_files(tiny, unbroken):
    process = start(*LONG)
    wait_for("run.part", 100, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL and not Path("run").exists()
    assert finish(start(*LONG))[::2] == (0, "")
    assert contents("run") == unbroken and not Path("run.part").exists()


@pytest.mark.skipif(os.name == "nt", reason="needs signals of POSIX")
def test_ctrl_c_keeps_what_is_done(tiny, unbroken, run):
    # The signal comes before the sixtieth sweep, the 138th call after the 78 of the trial that says
    # with how many topics to begin: no clock has a say in it.
    patch = (
        "import itertools, os, signal; from hdp_nb.topics.franchise import FranchiseSampler as S;"
        " sweep, calls = S.sweep, itertools.count(1); S.sweep = lambda *state:"
        " (next(calls) == 138 and os.kill(os.getpid(), signal.SIGINT), sweep(*state))[1]"
    )
    code, out, err = finish(start(*LONG, before=patch))
    assert (code, err) == (130, "") and not Path("run").exists()
    summary = json.loads(Path("run.part/summary.json").read_text())
    assert summary["interrupted"] and summary["sweeps"] == [60]
    cut = "The run ended in its burn-in, after 60 of 65 sweeps"
    assert cut in summary["verdict"]["found"] and f"NOT converged. {cut}" in out
    assert (
        "60 sweeps of 130, interrupted" in out and "in run.part; the same command continues" in out
    )
    assert len(list(csv.DictReader(open("run.part/trace.csv")))) == 60
    assert "Unfinished" in Path("run.part/report.html").read_text()
    assert run("topics", "run.part")[0] == 0
    assert finish(start(*LONG))[::2] == (0, "")
    assert contents("run") == unbroken and not Path("run.part").exists()


def test_report_says_that_topics_were_edited(run):
    run(*FIT, "--quiet")
    assert run("report", "run")[2] == ""
    topics, file = json.loads(Path("run/topics.json").read_text()), Path("run/topics.json")
    for n in 1, 2, 5:  # labels were made of as many words as were shown; at first there were none
        for topic in topics:
            topic["words"] = topic["words"][:n] + ["x"] * (n - len(topic["words"]))
            topic["label"] = ", ".join(topic["words"][:3])
        file.write_text(json.dumps(topics))
        assert run("report", "run")[2] == "", n
    file.write_text(json.dumps([{k: v for k, v in t.items() if k != "label"} for t in topics]))
    assert run("report", "run")[2] == ""
    file.write_text(json.dumps([{**topics[0], "label": "other"}, *topics[1:]]))
    assert "as they were fitted" in run("report", "run")[2]
    file.write_text(json.dumps(topics[1:]))
    assert "as they were fitted" in run("report", "run")[2]
    file.write_text(json.dumps(topics))
    HDP.load("run/model.npz").label_topics({0: "mine"}).save("run/model.npz")
    code, out, said = run("report", "run")
    assert code == 0 and out.startswith("run") and "as they were fitted" in said
    assert "mine: " in run("topics", "run")[1]
