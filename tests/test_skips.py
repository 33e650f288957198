"""Every test that is left out says what would run it: an option, a module, or a kind of machine."""

import ast
import subprocess
import sys
from pathlib import Path

from conftest import says_what_would_run_it

TESTS = Path(__file__).parent


def reasons():
    "File, line and reason of every skip; None for one that is no plain text."
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            given = [word.value for word in node.keywords if word.arg == "reason"]
            if name == "pytest.skip":
                given += node.args[:1]
            elif name not in ("pytest.mark.skip", "pytest.mark.skipif") and not (
                name == "pytest.importorskip" and given
            ):
                continue
            for value in given or [None]:
                text = value.left if isinstance(value, ast.BinOp) else value
                yield path.name, node.lineno, getattr(text, "value", None)


def test_reasons():
    found = list(reasons())
    assert len(found) > 20
    odd = [at for *at, reason in found if not isinstance(reason, str)]
    assert not odd
    assert not [found for found in found if not says_what_would_run_it(found[2])]


ODD = ["forks", "unconditional skip", "its documents differ", "too slow"]
CASES = f"""
import pytest

@pytest.mark.parametrize("reason", {ODD})
def test_without(reason):
    pytest.skip(reason)

def test_with():
    pytest.skip("needs a printer")

def test_module():
    pytest.importorskip("no_such_module")

@pytest.mark.slow
def test_slow():
    pass
"""


def test_a_skip_for_no_such_reason_fails(tmp_path):
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow")
    (tmp_path / "test_cases.py").write_text(CASES)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "4 failed, 3 skipped" in done.stdout, done.stdout
    for reason in ODD:
        assert f"says what the test needs to run, got {reason!r}" in done.stdout
