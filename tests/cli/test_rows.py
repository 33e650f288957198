"""`hdp_nb states`, `hdp_nb clusters` and `hdp_nb label`: what people bring, and what comes out."""

import argparse
import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from tiers import slow_unless

import hdp_nb
from hdp_nb.cli import components, rows
from hdp_nb.cli import main as cli
from hdp_nb.cli.results import COMPONENT_RESULTS
from hdp_nb.corpora.rows import RowTable, read_rows

pytestmark = pytest.mark.usefixtures("blank")
QUICK = "--n-iter 60 --n-chains 2 --quiet".split()


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Call the command line in an empty folder: (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        code = cli.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


def table(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_animals(path="animals.csv", seed=0, n=120):
    "Two animals that rest and run, twenty seconds each; rows shuffled, steps lacking, a pause."
    rng = np.random.default_rng(seed)
    lines, truth = [], []
    for animal in ("fox", "owl"):
        for t in range(n):
            state = (t // 20) % 2
            if rng.random() < 0.05:
                continue
            x = rng.normal([0, 6][state], 1)
            y = rng.normal([3, 0][state], 1)
            when = t + (500 if animal == "owl" and t >= 60 else 0)
            cell = "" if rng.random() < 0.05 else f"{y:.2f}"
            lines.append(f"{animal},{when},{x:.3f},{cell}")
            truth.append(state)
    order = rng.permutation(len(lines))
    Path(path).write_text("animal,second,speed,turn\n" + "\n".join(lines[i] for i in order))
    return np.array(truth)[order]


def write_patients(path="patients.csv", seed=0):
    rng = np.random.default_rng(seed)
    lines, truth = [], []
    for clinic, n, p in (("Ulm", 60, 0.7), ("Bonn", 60, 0.2)):
        for i in range(n):
            k = int(i < p * n)
            dose = f"{rng.normal([5, 15][k], 1):.2f}" if rng.random() > 0.05 else ""
            site = ["arm", "leg"][int(rng.random() < [0.1, 0.9][k])]
            lines.append(f"{clinic},{dose},{site}")
            truth.append(k)
    Path(path).write_text("clinic,dose,site\n" + "\n".join(lines))
    return np.array(truth)


# ------------------------------------------------------------------------- states


def test_states_of_recordings(run):
    truth = write_animals()
    fit = ["states", "animals.csv", "--id", "animal", "--time", "second"]
    more = ["--emission", "normal", "--out", "run", *QUICK, "--n-iter", "300"]
    code, out, err = run(*fit, *more)
    assert (code, err) == (0, "")
    there = {path.name for path in Path("run").iterdir()}
    assert there <= COMPONENT_RESULTS and {"states.csv", "steps.csv", "report.html"} <= there
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines[-4:]] == ["Found", "How sure", "Next", "Results"]
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["recordings"] == 2 and summary["components"] == 2
    assert "1 pause of more than 10 steps cut" in summary["left_out"]
    steps = table("run/steps.csv")
    found = np.array([int(step["state"]) for step in steps])
    assert max((found == truth).mean(), (found != truth).mean()) > 0.97
    assert [step["row"] for step in steps] == [str(i + 1) for i in range(len(truth))]
    assert all(0 <= float(step["probability"]) <= 1 for step in steps)
    for row in table("run/dwell_times.csv"):
        assert 12 < float(row["mean"]) < 25
    moves = table("run/transitions.csv")
    assert len(moves) == 4
    assert np.isclose(sum(float(row["probability"]) for row in moves[:2]), 1)
    total = sum(int(row["steps"]) for row in table("run/bouts.csv"))
    assert total >= len(truth)  # with the steps in short gaps
    # The labels of the same file are the same, whatever the order of its rows.
    assert run("label", "run", "animals.csv")[1].splitlines() == (
        Path("run/steps.csv").read_text().splitlines()
    )
    head, *body = Path("animals.csv").read_text().splitlines()
    Path("again.csv").write_text("\n".join([head, *body[::-1]]))
    again = [
        int(row["state"]) for row in csv.DictReader(run("label", "run", "again.csv")[1].split("\n"))
    ]
    assert again[::-1] == found.tolist()


def test_states_of_groups_of_recordings(run):
    write_animals()
    text = Path("animals.csv").read_text().splitlines()
    kinds = {"fox": "mammal", "owl": "bird", "animal": "class"}
    more = [f"{line},{kinds[line.split(',')[0]]}" for line in text]
    Path("classes.csv").write_text("\n".join(more))
    fit = ["states", "classes.csv", "--id", "animal", "--time", "second", "--group", "class"]
    assert run(*fit, "--emission", "normal", "--out", "run", *QUICK)[0] == 0
    assert {row["group"] for row in table("run/transitions.csv")} == {"bird", "mammal"}
    bad = "animal,second,speed,turn,class\nfox,0,1,2,mammal\nfox,1,1,2.5,bird\n"
    Path("bad.csv").write_text(bad)
    code, _, err = run("label", "run", "bad.csv")
    assert code == 2 and "one value in a recording" in err


# ------------------------------------------------------------------------- clusters


@pytest.mark.parametrize("group", [False, True])
def test_clusters_of_rows(run, group):
    truth = write_patients()
    more = ["--group", "clinic"] if group else ["--columns", "dose,site"]
    code, out, err = run("clusters", "patients.csv", "--out", "run", *QUICK, *more)
    assert (code, err) == (0, "")
    rows_of = table("run/rows.csv")
    found = np.array([int(row["cluster"]) for row in rows_of])
    assert max((found == truth).mean(), (found != truth).mean()) > 0.95
    head = table("run/clusters.csv")[0]
    assert {"share", "share_low", "site=arm", "site=leg"} <= head.keys()
    assert any(name.startswith("mean_dose") for name in head)
    assert Path("run/groups.csv").exists() == group
    if group:
        shares = table("run/groups.csv")
        high = [float(r["share"]) for r in shares if r["group"] == "Ulm" and r["cluster"] != "-1"]
        assert abs(max(high) - 0.7) < 0.1
        assert [r["group"] for r in shares[::3]] == ["Ulm", "Bonn"]  # as they first occur
    again = run("label", "run", "patients.csv")[1]
    assert again == Path("run/rows.csv").read_text()
    if group:  # rows of nobody knows which group
        Path("new.csv").write_text("dose,site\n5,arm\n,leg\n")
        assert len(run("label", "run", "new.csv")[1].splitlines()) == 3


def test_the_same_command_gives_the_same_files(run, pictures):
    write_patients()
    fit = ["clusters", "patients.csv", "--columns", "dose,site", *QUICK]
    for out, jobs in (("a", "1"), ("b", "2")):
        assert run(*fit, "--out", out, "--n-jobs", jobs)[0] == 0
    for path in Path("a").iterdir():
        if path.suffix in (".csv", ".npz", ".png"):
            assert path.read_bytes() == (Path("b") / path.name).read_bytes(), path.name


def test_a_run_that_was_interrupted_goes_on(run, monkeypatch):
    write_patients()
    fit = ["clusters", "patients.csv", "--columns", "dose", "--likelihood", "student", *QUICK]
    assert run(*fit, "--out", "whole")[0] == 0
    plain = hdp_nb.DPMixture.fit

    def broken(self, *arguments, **options):
        def stop(sweep, state):
            if sweep == 40:
                raise KeyboardInterrupt

        return plain(self, *arguments, callback=stop, **options)

    with monkeypatch.context() as patch:
        patch.setattr(hdp_nb.DPMixture, "fit", broken)
        code, out, _ = run(*fit, "--out", "run")
    assert code == 130 and not Path("run").exists()
    assert run("clusters", "patients.csv", "--out", "run", "--resume", *QUICK)[0] == 0
    assert Path("run/rows.csv").read_text() == Path("whole/rows.csv").read_text()


# ------------------------------------------------------------------------- bad input


ANIMALS = "--id animal --time second"


@pytest.mark.parametrize(
    "command, said",
    [
        ("states animals.csv --id animl", "did you mean animal?"),
        ("states animals.csv --id animal --time sec", "did you mean second?"),
        ("states animals.csv --time second", "are there several recordings, with an id?"),
        ("states animals.csv --emission speed=poison", "poisson"),
        ("states animals.csv --emission spede=poisson", "did you mean speed?"),
        ("clusters animals.csv --columns speed,trun", "did you mean turn?"),
        ("clusters animals.csv --group clinic", "takes a column of animals.csv"),
        ("clusters animals.csv --likelihood student! ", "takes NAME or COLUMN"),
        ("clusters animals.csv --columns speed --by month --group animal", "must be dates"),
        ("clusters nothing.csv", "nothing.csv"),
        ("clusters empty.csv", "header and rows"),
        ("clusters header.csv", "header and rows"),
        ("clusters names.csv", "must have a column to model"),
        ("states bad_time.csv --time when", "must be numbers, or dates"),
        ("states animals.csv --columns speed --max-states 0", "max-states"),
        ("clusters animals.csv --alpha 1 --alpha-prior 1,1", "takes one of them"),
        ("clusters animals.csv --resume", "no unfinished run"),
    ],
)
def test_a_mistake_is_a_line_and_leaves_nothing(run, command, said):
    write_animals()
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("a,b\n")
    Path("names.csv").write_text("name\n" + "\n".join(f"somebody {i}" for i in range(40)))
    Path("bad_time.csv").write_text("when,x\nnoon,1.5\n3,2.5\n")
    before = {*Path().iterdir()}
    code, out, err = run(*command.split(), "--out", "run", *QUICK)
    assert code == 2 and out == "" and said in err, err
    assert len(err.splitlines()) == 1 and len(err) <= 330
    assert {*Path().iterdir()} == before


def test_labels_of_a_table_that_does_not_fit(run):
    write_patients()
    assert run("clusters", "patients.csv", "--columns", "dose", "--out", "run", *QUICK)[0] == 0
    Path("new.csv").write_text("doze\n5\n")
    code, out, err = run("label", "run", "new.csv")
    assert (code, out) == (2, "") and "did you mean doze?" in err
    assert run("label", "nowhere", "new.csv")[0] == 2
    Path("new.csv").write_text("dose\n5\n")
    assert run("label", "run", "new.csv", "--out", "labels.csv", "--quiet")[0] == 0
    assert len(table("labels.csv")) == 1
    assert "exists" in run("label", "run", "new.csv", "--out", "labels.csv")[2]


# ------------------------------------------------------------------------- columns


def chosen(columns, **given):
    n = len(next(iter(columns.values())))
    made = {
        name: np.array(values, object if isinstance(values[0], str) else float)
        for name, values in columns.items()
    }
    assert n
    args = argparse.Namespace(columns=None, family=None, corpus="t.csv", group=None, **given)
    return rows.choose_rows(args, RowTable(made), "--likelihood")


def test_which_columns_are_modelled_and_how():
    rng = np.random.default_rng(0)
    n = 200
    columns = {
        "name": [f"p{i}" for i in range(n)],
        "number": [*range(n)],
        "constant": [3] * n,
        "height": rng.normal(170, 10, n),
        "income": rng.integers(500, 9000, n),
        "calls": rng.poisson(3, n),
        "yes": rng.integers(0, 2, n),
        "site": [["arm", "leg"][i % 2] for i in range(n)],
    }
    found = chosen(columns)
    assert found.families == {
        "height": "student",
        "income": "student",
        "calls": "poisson",
        "yes": "categorical",
        "site": "categorical",
    }
    assert "left out: name, number, constant" in found.note
    assert chosen({"calls": rng.poisson(3, n)}).families == {"calls": "negative_binomial"}


def test_families_make_a_mapping_where_they_differ():
    columns = {"x": [0.5, 1.5, 2.5], "y": [1.5, np.nan, 2.5], "site": ["a", "b", "a"]}
    found = chosen(columns)
    assert rows.family_of(found, gaps=False) == {
        **{"x": "normal_inverse_gamma", "y": "normal_inverse_gamma"},
        "site": "categorical",
    }
    two = found._replace(families={"x": "normal", "y": "normal"})
    assert rows.family_of(two, gaps=True) == "normal"
    assert rows.family_of(two, gaps=False) == {("x", "y"): "normal"}


def test_names_of_parameters_are_those_of_columns():
    model = argparse.Namespace(categories_={"site": np.array(["arm", "leg"])})
    names = ["x,y.mean_1_low", "x,y.df", "site.phi_1", "calls.rate_high", "share_low"]
    found = components.plain_columns({name: [1] for name in names}, model)
    assert [*found] == ["mean_y_low", "df", "site=leg", "rate_calls_high", "share_low"]


# ------------------------------------------------------------------------- help, texts


@pytest.mark.parametrize("command", slow_unless("states".__eq__, ["states", "clusters"]))
def test_three_examples_of_help_run(run, command):
    code, out, _ = run(command, "--help")
    examples = re.findall(r"^  (hdp_nb .*)$", out, re.MULTILINE)
    assert code == 0 and len(examples) == 3
    write_animals()
    write_patients()
    for name in ("animals", "patients"):
        text = Path(f"{name}.csv").read_text()
        Path(f"{name}.csv").write_text(
            text.replace("second", "seconds").replace("clinic", "hospital")
        )
    for example in examples:
        quick = [] if " label " in example else QUICK
        assert run(*example.split()[1:], *quick)[0] == 0, example


def test_the_page_can_leave_rows_out(run):
    write_animals()
    fit = ["states", "animals.csv", *ANIMALS.split(), "--emission", "normal", *QUICK]
    code, out, _ = run(*fit, "--out", "run", "--no-texts")
    assert code == 0 and "report.html shows no values of single rows" in out
    page = Path("run/report.html").read_text()
    said = re.sub(r"src='data:[^']*'", "", page)
    assert "not shown here" in said and "owl" not in said
    assert run("report", "run")[0] == 0 and Path("run/report.html").read_text() == page
    code, out, _ = run(*fit, "--out", "run", "--overwrite")
    assert "values of single rows, too" in out and "owl" in Path("run/report.html").read_text()


OUTPUTS = {
    "states.csv": "components",
    "dwell_times.csv": "dwell_times",
    "transitions.csv": "transitions",
    "bouts.csv": "bouts",
    "steps.csv": "predict_proba",
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_cannot_be_made_is_named_and_the_rest_is_there(run, monkeypatch, name):
    write_animals()

    def fails(self, *arguments, **options):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(hdp_nb.HDPHMM, OUTPUTS[name], fails)
    fit = ["states", "animals.csv", *ANIMALS.split(), "--emission", "normal", *QUICK]
    if name == "states.csv":
        monkeypatch.setattr(components, "_print_components", lambda model: None)
    code, out, err = run(*fit, "--out", "run")
    assert code == 3 and f"{name} could not be made" in err
    there = {path.name for path in Path("run").iterdir()}
    assert name not in there and {"model.npz", "summary.json", "trace.csv"} <= there


def test_a_table_from_standard_input(run, monkeypatch):
    write_patients()
    import io
    import sys

    data = Path("patients.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", argparse.Namespace(buffer=io.BytesIO(data)))
    assert run("clusters", "-", "--columns", "dose", "--out", "run", *QUICK)[0] == 0
    assert len(table("run/rows.csv")) == read_rows("patients.csv").n_rows
