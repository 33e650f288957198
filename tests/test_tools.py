"""The tools around the notebooks, where no other test meets them."""

import base64
import json
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
import worked_examples
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebooks import ROOT, clean, directives, is_run, notebooks, page, readme


def test_directives():
    cell = new_code_cell(
        '#| slow\n#|export\n#| fig-alt: "Bars, found"\n\nimport math\n#| not: one\n'
    )
    assert directives(cell) == (
        {"slow": "", "export": "", "fig-alt": "Bars, found"},
        "import math\n#| not: one",
    )
    assert not is_run(cell) and is_run(cell, slow=True)
    long = new_code_cell("#| long\n1")
    assert is_run(long) and not is_run(long, long=False)
    assert not is_run(new_code_cell("#| eval: false\n1"), slow=True)


def test_readme_has_the_text_the_code_and_the_pictures(tmp_path):
    png = base64.b64encode(b"a picture").decode()
    cells = [
        new_markdown_cell(
            "# Title\n\n[a](04_topics/01_franchise.ipynb#x) [b](../LICENSE)"
            " [c](https://a.b) [d](#e)"
        ),
        new_code_cell("#| hide\n1 + 1", outputs=[new_output("stream", text="2")]),
        new_code_cell("import math"),
        new_code_cell(
            "print('there')", outputs=[new_output("stream", text="there\n" + 30 * "far ")]
        ),
        new_code_cell(
            '#| echo: false\n#| fig-alt: "Bars"\nplot()',
            outputs=[new_output("display_data", {"image/png": png, "text/plain": "<Figure>"})],
        ),
    ]
    (tmp_path / "nbs").mkdir()
    nbformat.write(new_notebook(cells=cells), tmp_path / "nbs" / "index.ipynb")
    files = readme(tmp_path)
    assert files.pop("nbs/images/index-1.png") == b"a picture"
    home = "https://github.com/hdp-nb/hdp_nb"
    assert (
        files.pop("README.md").decode().split("\n\n", 1)[1]
        == f"# Title\n\n[a]({home}/blob/main/nbs/04_topics/01_franchise.ipynb#x)"
        f" [b]({home}/blob/main/LICENSE) [c](https://a.b) [d](#e)\n\n"
        "```python\nimport math\n\nprint('there')\n```\n\n"
        f"```\nthere\n{' '.join(22 * ['far'])}\n{' '.join(8 * ['far'])}\n```\n\n"
        f"![Bars]({home}/raw/main/nbs/images/index-1.png)\n"
    )
    assert not files


def test_notebooks_come_in_reading_order():
    names = [page(path) for path in notebooks()]
    assert names[0] == "index" and names[1:] == sorted(names[1:])
    for name in ("16_utils/01", "utils/checks", "checks"):
        assert [page(path) for path in notebooks([name])] == ["16_utils/01_checks"]
    assert {path.parent.name for path in notebooks(["topics/"])} == {"04_topics"}
    with pytest.raises(SystemExit, match="no notebook is called 'nope'; there are index, 01_co"):
        notebooks(["nope"])


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["--help"], 0, "tools/run.py demo"),
        ([], 2, "tools/run.py demo"),
        (["tset"], 1, "unknown task 'tset'"),
    ],
)
def test_run_says_what_it_can_do(arguments, code, says, tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "run.py", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == code and says in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["10_models/16_new_likelihood", "05_mcmc/05_new_sampler"])
def test_worked_examples_need_no_private_name(name):
    "They are run with all other notebooks; of a likelihood, what compiles for minutes with --slow."
    code = "\n".join(worked_examples.cells(name))
    assert "assert" in code and not re.search(r"import.*\b_[a-z]", code)


def test_clean_formats_and_names_what_it_cannot_mend(tmp_path, capfd):
    for name in ("settings.ini", "pyproject.toml", "hdp_nb/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "nbs" / "01_part").mkdir(parents=True)
    path, script = tmp_path / "nbs" / "01_part" / "01_one.ipynb", tmp_path / "script.py"
    cell = new_code_cell("import sys\nimport os\nprint( os.sep,sys.path )", execution_count=7)
    nbformat.write(new_notebook(cells=[cell]), path)
    script.write_text("x = [1,2]\n")
    assert clean(tmp_path) and script.read_text() == "x = [1, 2]\n"
    [cell] = nbformat.read(path, as_version=4).cells
    assert cell.source == "import os\nimport sys\n\nprint(os.sep, sys.path)"
    assert cell.execution_count is None
    before = path.read_bytes()
    assert clean(tmp_path) and path.read_bytes() == before
    script.write_text("print(nowhere)\n")
    capfd.readouterr()
    assert not clean(tmp_path) and "nowhere" in capfd.readouterr().out


def test_every_mutant_that_survives_is_explained():
    for module, found in json.loads((ROOT / "tests" / "mutants.json").read_text("utf-8")).items():
        assert (ROOT / "hdp_nb" / f"{module.replace('.', '/')}.py").exists() and found[
            "mutants"
        ] > 0
        assert all(why.startswith("equivalent: ") for why in found["survived"].values()), module


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of memory, as POSIX has it")
def test_mutants_run_with_and_without_the_compiler_within_limits(tmp_path, monkeypatch):
    import mutants

    monkeypatch.delenv("NUMBA_DISABLE_JIT", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take most of the time
    (tmp_path / "test_it.py").write_text(
        "import os, subprocess, sys\n"
        "def test_plain(): assert os.environ.get('NUMBA_DISABLE_JIT') == '1'\n"
        "def test_large(): bytearray(1 << 34)\n"
        "def test_waits(): subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    )
    assert mutants.passes(tmp_path, ["-k", "plain"], plain=True)[0]
    found = [
        mutants.passes(tmp_path, ["-k", name], limit)
        for name, limit in [("plain", None), ("large", None), ("waits", 3)]
    ]
    assert not any(fine for fine, _ in found) and "MemoryError" in found[1][1]
    # What a run without the compiler would settle.
    assert [bool(mutants.CERTAIN.search(said)) for _, said in found] == [True, False, True]
