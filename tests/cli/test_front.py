"""What people bring to the command line: nothing fails at the end, and groups stand in order."""

import csv
import datetime
import json
from pathlib import Path

import numpy as np
import pytest

import hdp_nb
from hdp_nb.cli import main as cli
from hdp_nb.cli import results
from hdp_nb.corpora import order
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.models.topic_models import HDP
from hdp_nb.plotting.groups import shares_by_group
from hdp_nb.plotting.plots import plot_shares, plot_topics_over_time

DATA = Path(__file__).parents[1] / "data"
pytestmark = pytest.mark.usefixtures("blank")
QUICK = "--out run --n-iter 6 --n-chains 1 --moves 0 --test-size 0".split()


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


def explored(level):
    return json.loads(Path("run/explore.json").read_text())["groups"][level]


# ---------------------------------------------------------------- nothing fails at the end


def test_a_date_without_words_has_no_share(run):
    code, _, err = run("fit", DATA / "a1_tiny.csv", "--column", "answer", *QUICK, "--quiet")
    assert (code, err) == (0, "")
    rows = [row for row in table("run/shares.csv") if row["group"] == "d99"]
    assert rows and all(row["share"] == "" for row in rows)
    found = explored("date")
    assert all(row[found["names"].index("d99")] is None for row in found["shares"])


BREAK = {
    "model.npz": (HDP, "save"),
    "topics.json": (results, "write_json"),
    "topics.csv": (results, "_write_topics"),
    "trace.csv": (results, "write_traces"),
    "nodes.csv": (results, "_write_nodes"),
    "documents.json": (cli, "typical_documents"),
    "documents.csv": (hdp_nb.cli.label, "document_columns"),
    "the shares by group": (hdp_nb.cli.explore, "shares_by_group"),
    "shares.csv": (cli, "write_shares"),
    "topics.png": (hdp_nb.plotting.plots, "plot_topics"),
    "trace.png": (hdp_nb.plotting.plots, "plot_trace"),
    "shares.png": (hdp_nb.plotting.plots, "plot_shares"),
    "explore.json": (hdp_nb.cli.explore, "explore_topics"),
    "the score": (cli, "score_model"),
    "the table of convergence": (cli, "convergence_table"),
    "summary.json": (cli, "write_json"),
    "report.html": (cli, "write_report"),
}


def test_every_output_is_broken_once():
    assert BREAK.keys() >= results.RESULTS


@pytest.mark.parametrize("name", BREAK)
def test_an_output_that_cannot_be_made_is_named_and_the_rest_is_there(run, monkeypatch, name):
    rng = np.random.default_rng(0)
    docs = [[f"w{w}" for w in rng.integers(0, 8, 20)] for _ in range(20)]
    groups = {"side": ["a", "b"] * 10, "page": [str(j // 4) for j in range(20)]}
    Corpus.from_docs(docs, groups=groups).save("small.npz")
    more = ["--test-size", "0.2"] + ["--levels", "side"] * (name == "nodes.csv")
    where, what = BREAK[name]
    works = getattr(where, what)

    def fails(*arguments, **options):
        path = arguments[0] if arguments and isinstance(arguments[0], Path) else None
        if path is not None and path.suffix in (".json", ".csv") and path.name != name:
            return works(*arguments, **options)  # another file of the same function
        raise RuntimeError("no such luck")

    with monkeypatch.context() as patch:
        patch.setattr(where, what, fails)
        code, out, err = run("fit", "small.npz", *QUICK, *more, "--quiet")
    said = [line for line in err.splitlines() if line.startswith(f"hdp_nb: {name} could not")]
    assert code == 3 and len(said) == 1 and "no such luck" in said[0], (code, out, err)
    if name in results.ESSENTIAL:
        assert not Path("run").exists() and list(Path("run.part").glob("chain-*.npz"))
        assert run("fit", "small.npz", *QUICK, *more, "--quiet")[0] == 0
        return
    with_it = {"topics.json": {"report.html"}, "the shares by group": {"shares.png", "shares.csv"}}
    lacking = {name, "nodes.csv"} | with_it.get(name, set())
    assert {path.name for path in Path("run").iterdir()} == results.RESULTS - lacking
    summary = json.loads(Path("run/summary.json").read_text())
    if name != "report.html":
        assert "no such luck" in summary["missing"][name]
    if "report.html" not in lacking:
        assert name in Path("run/report.html").read_text()


def test_every_document_has_a_row_with_its_topics(run):
    "Also those that were held out; those without words have no topic. New ones likewise."
    lines = [f"{'sea ship wave' if j % 2 else 'hill tree path'} {j % 3}" for j in range(30)]
    lines[4] = "..."
    text = "answer,side\n" + "\n".join(f"{line},{'ab'[j % 2]}" for j, line in enumerate(lines))
    Path("answers.csv").write_text(text)
    args = "--column answer --stop-words none --out run --n-iter 30 --n-chains 2 --quiet"
    assert run("fit", "answers.csv", *args.split())[0] == 0
    rows = table("run/documents.csv")
    assert [int(row["document"]) for row in rows] == [*range(30)]
    assert [row["side"] for row in rows] == ["a", "b"] * 15
    assert (rows[4]["words"], rows[4]["topic"], rows[4]["all_else"]) == ("0", "", "")
    names = [name for name in rows[0] if name.startswith("topic_")] + ["all_else"]
    for row in rows[:4]:
        shares = [float(row[name]) for name in names]
        assert abs(sum(shares) - 1) < 1e-4
        assert float(row["share"]) == float(row[f"topic_{row['topic']}"]) == max(shares[:-1])
    code, out, _ = run("label", "run", "answers.csv", "--quiet")
    again = list(csv.DictReader(out.splitlines()))
    assert code == 0 and again[0].keys() == rows[0].keys() and again[4]["topic"] == ""
    same = [row["topic"] == old["topic"] for row, old in zip(again, rows)]
    assert sum(same) >= 27


def test_a_column_that_names_rows_is_no_level(run):
    args = ["fit", DATA / "years_unsorted.csv", "--column", "text", *QUICK, "--quiet"]
    assert run(*args)[0] == 0
    summary = json.loads(Path("run/summary.json").read_text())
    assert summary["corpus"].endswith("groups: date > year") and summary["group"] == "date"
    code, _, err = run(*args, "--overwrite", "--group", "id")
    assert code == 2 and "value of its own" in err and err.count("\n") == 1


# ---------------------------------------------------------------- dates and numbers in their order


def dated(path, order, write):
    """Documents of 24 months in a given order; of every month's words a rising share is 'sun'."""
    rows = []
    for month in range(24):
        day = datetime.date(2019 + month // 12, month % 12 + 1, 15)
        for j in range(6):
            words = ["sun", "sand"] * (month + 1) + ["rain", "mud"] * (24 - month)
            rows.append((write(day), " ".join(words[j % 2 :])))
    lines = [f"{date},{text}" for date, text in [rows[i] for i in order]]
    Path(path).write_text("\n".join(["date,text", *lines]))


@pytest.mark.parametrize(
    "write",
    [
        lambda day: day.isoformat(),
        lambda day: f"{day.isoformat()}T12:30:00+02:00",
        lambda day: f"{day.month}/{day.day}/{day.year}",
        lambda day: day.strftime("%d.%m.%Y"),
        lambda day: day.strftime('"%B %d, %Y"'),
    ],
)
def test_rising_shares_are_drawn_rising_whatever_the_order(run, write):
    order = np.random.default_rng(1).permutation(144)
    dated("dated.csv", order, write)
    kind = ["--min-df", "1", "--max-df", "1.0", "--eta", "0.1", "--init", "2"]
    args = ["fit", "dated.csv", "--column", "text", *QUICK, *kind, "--quiet"]
    code, _, err = run(*args, "--group", "date", "--n-iter", "40", "--by", "month")
    assert (code, err) == (0, "")
    names = [f"{2019 + m // 12}-{m % 12 + 1:02}" for m in range(24)]
    found, rows = explored("date"), table("run/shares.csv")
    assert found["names"] == names and found["ordered"] and found["at"] == sorted(found["at"])
    model = hdp_nb.load_model("run/model.npz")
    corpus = hdp_nb.load_corpus("dated.csv", column="text", min_df=1, max_df=1.0)
    same = shares_by_group(model, corpus.groups["date"], by="month")
    assert same.names == names
    sun = int(model.components_[:, model.vocabulary_.index("sun")].argmax())
    rising = same.shares[:, sun]
    assert np.corrcoef(np.arange(24), rising)[0, 1] > 0.9 and rising[0] < 0.2 and rising[-1] > 0.8
    for k in range(model.n_topics_):
        written = [float(row["share"]) for row in rows if row["topic"] == str(k)]
        assert np.allclose(written, same.shares[:, k])
        assert np.allclose(found["shares"][k], same.shares[:, k], atol=1e-3)
        assert np.allclose(found["low"][k], same.low[:, k], atol=1e-3)
    days = np.array(corpus.groups["date"])
    panels = plot_shares(model, days, by="month").axes
    title = model.topic_labels_[sun]
    bars = next(ax for ax in panels if ax.get_title("left").replace("\n", " ") == title)
    assert np.allclose([bar.get_height() for bar in bars.patches], same.shares[:, sun])
    line = plot_topics_over_time(model, days, by="month", topics=[sun]).axes[0].lines[0]
    assert np.allclose(line.get_ydata(), same.shares[:, sun])


def test_years_stand_in_their_order(run):
    args = ["fit", DATA / "years_unsorted.csv", "--column", "text", *QUICK, "--quiet"]
    assert run(*args, "--group", "year")[0] == 0
    names = list(dict.fromkeys(row["group"] for row in table("run/shares.csv")))
    assert names == explored("year")["names"] == ["2019", "2020", "2021"]
    assert run(*args, "--group", "date", "--by", "quarter", "--overwrite")[0] == 0
    assert explored("date")["names"] == [
        f"{y}-Q{q}" for y in (2019, 2020, 2021) for q in range(1, 5)
    ]


@pytest.mark.parametrize(
    "dates, options, said",
    [
        (["06/08/2021", "07/08/2021"], [], "--dates day-first or --dates month-first"),
        (["13/08/2021", "08/13/2021"], [], "got both"),
        (["2021-02-30", "2021-02-01"], [], "days of the calendar"),
        (["2021-02-03"] * 19 + ["soon"], [], "without one, the first at 19"),
        (["north", "south"], ["--by", "month"], "must be dates"),
    ],
)
def test_dates_that_cannot_be_read_are_refused_before_a_sweep(run, dates, options, said):
    texts = ["ship sail sea", "bread wine cheese"] * 20
    lines = [f"{dates[j % len(dates)]},{text}" for j, text in enumerate(texts)]
    Path("a.csv").write_text("\n".join(["date,text", *lines]))
    code, out, err = run("fit", "a.csv", "--column", "text", *QUICK, "--group", "date", *options)
    line = err.splitlines()[-1]
    assert code == 2 and said in line and len(line) <= 300 and "ship" not in line
    assert out == "" and not Path("run").exists() and not Path("run.part").exists()


def test_which_comes_first_can_be_said(run):
    texts = ["ship sail sea", "bread wine cheese"] * 20
    lines = [f"0{j % 3 + 1}/08/2021,{text}" for j, text in enumerate(texts)]
    Path("a.csv").write_text("\n".join(["date,text", *lines]))
    args = ["fit", "a.csv", "--column", "text", *QUICK, "--group", "date", "--quiet"]
    assert run(*args, "--dates", "month-first", "--by", "month")[0] == 0
    assert explored("date")["names"] == ["2021-01", "2021-02", "2021-03"]
    assert run(*args, "--dates", "day-first", "--by", "month", "--overwrite")[0] == 0
    assert [row["group"] for row in table("run/shares.csv")][0] == "2021-08"


def test_by_takes_all_spans_of_dates():
    assert cli._SPANS == order.SPANS
