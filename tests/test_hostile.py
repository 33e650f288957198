"""Hostile values of every option of every command: a result, or one line and exit code 2.

Options and their kinds are those that the parser has, so a new one is tried from the day it is
there. Some on every push; with --slow all of them.
"""

import argparse
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from alone import FAULTS, outcome
from tiers import slow_unless

from hdp_nb.cli import main as cli
from hdp_nb.corpora.corpus import Corpus

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux, where a process may fork"
)

TABLE = "text,year\n" + 'the cat sat on the mat,1\n"a dog, or two",2\n' * 6
VALUES = [
    "",
    " ",
    "-1",
    "0",
    "1",
    "nan",
    "inf",
    "1e309",
    "1e-320",
    "2.5",
    "9" * 30,
    "-" + "9" * 30,
    "1,",
    ",",
    "1,1,1",
    "0,0",
    "fixed",
    "no/such/place",
    "/",
    "..",
    "table.csv",
    "folder",
    "a\nb",
    "$x^$",
    "<b>",
    "=1+1",
    "\udcff",
    "x" * 5000,
    "٣",  # a digit, and no ASCII
    "²",  # a digit that is no number
    "--out",
    "[1",
    '{"a": 1}',
]
SHORT = ["--n-iter", "3", "--n-chains", "1", "--max-time", "5"]
ROWS = "".join(f"{'ab'[i % 2]},{i},{i % 7 + 0.25},{i % 3}\n" for i in range(40))
QUICK = ["--test-size", "0", "--n-iter", "3", "--n-chains", "1", "--moves", "0", "--max-time", "5"]


def commands(parser=None, before=""):
    "{command: {option: whether it takes a value}} of the parser; of `hdp_nb shards`, too."
    [action] = [
        action
        for action in (parser or cli._parser())._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    found = {}
    for name, inner in action.choices.items():
        if name == "shards":
            found |= commands(inner, "shards ")
            continue
        found[before + name] = {
            flag: option.nargs != 0
            for option in inner._actions
            for flag in option.option_strings
            if flag not in ("-h", "--help")
        }
    return found


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "A folder with a table of texts, a fitted run and a file that nobody may touch."
    folder = tmp_path_factory.mktemp("place")
    (folder / "table.csv").write_text(TABLE)
    (folder / "rows.csv").write_text("who,when,x,y\n" + ROWS)
    (folder / "folder").mkdir()
    (folder / "folder" / "one.txt").write_text("something of mine")
    fit = ["fit", str(folder / "table.csv"), "--column", "text", "--out", str(folder / "run")]
    assert cli.main([*fit, *QUICK, "--quiet"]) == 0
    corpus, run = folder / "corpus", folder / "from_shards"
    build = ["shards", "build", str(folder / "table.csv"), "--column", "text", "--out", str(corpus)]
    assert cli.main([*build, "--quiet"]) == 0
    fit = ["shards", "fit", str(corpus), "--out", str(run), "--n-iter", "2", "--init", "2"]
    assert cli.main([*fit, "--quiet"]) == 0
    return folder


BEGIN = {
    "fit": ["fit", "table.csv", "--column", "text", "--out", "new", *QUICK],
    "states": ["states", "rows.csv", "--out", "new", *SHORT],
    "clusters": ["clusters", "rows.csv", "--out", "new", *SHORT],
    "label": ["label", "run", "table.csv", "--column", "text"],
    "score": ["score", "run", "table.csv", "--column", "text"],
    "topics": ["topics", "run"],
    "report": ["report", "run"],
    "shards build": ["shards", "build", "table.csv", "--column", "text", "--out", "new"],
    "shards fit": ["shards", "fit", "corpus", "--out", "new", "--n-iter", "2", "--init", "2"],
    "shards transform": ["shards", "transform", "from_shards", "corpus", "--out", "new"],
    "shards score": ["shards", "score", "from_shards", "corpus", "--out", "new"],
    "shards topics": ["shards", "topics", "from_shards", "corpus", "--out", "new"],
}
WRITE = {"fit", "states", "clusters", *(name for name in BEGIN if name.startswith("shards"))}


def call(arguments, said):
    "Whether it did its work; False where it refused in one line."
    code = cli.main(arguments)
    sys.stderr.flush()
    text = Path(said).read_text()
    assert "Traceback" not in text
    if code == 2:
        last = text.rstrip("\n").split("\n")[-1]
        assert last.startswith("hdp_nb") and len(last) < 6000, text
        return False
    assert code == 0, text
    return True


QUICK_CASES = {("fit", option) for option in ("--column", "--eta", "--gamma-prior")}
QUICK_CASES |= {("shards build", "--min-df")}
CASES = [
    (command, option)
    for command, options in commands().items()
    for option in options
    if not option.startswith("--chain")  # another name of --n-chains
]


def test_all_commands_are_tried():
    assert commands().keys() == BEGIN.keys()
    assert len(CASES) > 80


@pytest.mark.parametrize("case", slow_unless(lambda case: case in QUICK_CASES, CASES), ids=" ".join)
def test_hostile_values(case, place, tmp_path, monkeypatch):
    command, option = case
    shutil.copytree(place, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    said, before, counts = tmp_path / "said", contents(tmp_path), Counter()
    values = VALUES if commands()[command][option] else [None]
    for value in values:
        arguments = [*BEGIN[command], option if value is None else f"{option}={value}"]
        found = outcome(lambda arguments=arguments: call(arguments, said), said)
        assert found not in FAULTS, (arguments, found, said.read_text()[-2000:])
        counts[found] += 1
        after = contents(tmp_path)
        after.pop(said, None)
        if command == "report":  # makes this one anew
            page = tmp_path / "place" / "run" / "report.html"
            after[page] = before[page]
        new = after.keys() - before.keys()
        assert before.items() <= after.items(), arguments
        assert not new or command in WRITE
        if command == "shards build":  # keeps counts, for another choice of words
            new = {path for path in new if path.parent.name != "staging"}
        assert found == "taken" or not new, (arguments, new)
        for path in after.keys() - before.keys():
            path.unlink()
        for path in sorted(tmp_path.rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()
    print(command, option, dict(counts))


def test_letters_that_are_none(tmp_path, monkeypatch):
    "Half of a pair in JSON is a ?; a name whose bytes are no text is what it was."
    monkeypatch.chdir(tmp_path)
    lines = [r'{"text": "the cat \ud800 sat", "side": "\udfff"}', '{"text": "a dog", "side": "b"}']
    Path("texts.jsonl").write_text("\n".join(lines * 6))
    arguments = ["fit", "texts.jsonl", "--column", "text", "--out", "\udcff", *QUICK, "--quiet"]
    assert outcome(lambda: call(arguments, "said"), "said") == "taken", Path("said").read_text()
    run = Path("\udcff")
    assert json.loads((run / "summary.json").read_text())["group"] == "side"
    found = json.loads((run / "documents.json").read_text())
    assert {document["labels"]["side"] for document in found} == {"?", "b"}
    for vocab, side in ((["a", "\ud800"], "x"), (["a", "b"], "\udfff")):
        with pytest.raises(ValueError, match="must hold whole characters, got '.ud"):
            Corpus.from_docs([[0, 1]], vocab, {"side": [side]})
