"""Hostile values of every option of every command: a result, or one line and exit code 2.

Options and their kinds are those that the parser has, so a new one is tried from the day it is
there. Some on every push; with --slow all of them. (`hdp_nb shards` has commands of its own, whose
bad options are in test_over_shards.)
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

from hdp_nb import cli
from hdp_nb.corpus import Corpus

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

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
    "--out",
    "[1",
    '{"a": 1}',
]
QUICK = ["--test-size", "0", "--n-iter", "3", "--n-chains", "1", "--moves", "0", "--max-time", "5"]


def commands():
    "{command: {option: whether it takes a value}} of the parser."
    [action] = [
        action
        for action in cli._parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return {
        name: {
            flag: option.nargs != 0
            for option in parser._actions
            for flag in option.option_strings
            if flag not in ("-h", "--help")
        }
        for name, parser in action.choices.items()
    }


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "A folder with a table of texts, a fitted run and a file that nobody may touch."
    folder = tmp_path_factory.mktemp("place")
    (folder / "table.csv").write_text(TABLE)
    (folder / "folder").mkdir()
    (folder / "folder" / "one.txt").write_text("something of mine")
    fit = ["fit", str(folder / "table.csv"), "--column", "text", "--out", str(folder / "run")]
    assert cli.main([*fit, *QUICK, "--quiet"]) == 0
    return folder


BEGIN = {
    "fit": ["fit", "table.csv", "--column", "text", "--out", "new", *QUICK],
    "score": ["score", "run", "table.csv", "--column", "text"],
    "topics": ["topics", "run"],
    "report": ["report", "run"],
}


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


CASES = [
    (command, option)
    for command, options in commands().items()
    if command in BEGIN
    for option in options
    if not option.startswith("--chain")  # another name of --n-chains
]


def test_all_commands_are_tried():
    assert commands().keys() == BEGIN.keys() | {"shards"}
    assert len(CASES) > 40


@pytest.mark.parametrize(
    "case",
    slow_unless(lambda case: case[1] in ("--column", "--eta", "--gamma-prior"), CASES),
    ids=" ".join,
)
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
        assert not new or command == "fit"
        assert found == "taken" or not new, (arguments, new)
        for path in new:
            path.unlink()
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
