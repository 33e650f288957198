"""Every notebook runs, prints what it says it prints, and is what the package and the README are
made from.
"""

import ast
import copy
import os
import re
import shutil
import subprocess
import sys

import pytest
from nbclient.exceptions import CellExecutionError
from nbdev.clean import clean_nb
from notebooks import ROOT, directives, execute, export, is_run, nbdev, notebooks, page, read

NOTEBOOKS = [pytest.param(path, id=page(path)) for path in notebooks()]


def shown(cell):
    """What a reader sees under a cell: text as it is, of a picture only that there is one."""
    seen = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if seen and seen[-1][0] == output.name:
                seen[-1][1] += output.text
            else:
                seen.append([output.name, output.text])
        else:
            data = output.get("data", {"error": output.get("ename")})
            seen.append(
                [
                    "shown",
                    {
                        kind if text else kind.partition("/")[0]: value if text else "..."
                        for kind, value in data.items()
                        for text in [kind.startswith("text/")]
                    },
                ]
            )
    return seen


def defined(source):
    "Names that a cell of definitions binds, or None if it holds anything else."
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.append(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
        else:
            return None
    return names


def take_from_package(nb):
    """Let exported cells take what they define from the package, which has it compiled.

    It is the same text: see test_what_is_made_from_the_notebooks_is_in_step. Compiling all of it a
    second time is a quarter of the time of the whole suite; `--slow` spends it.
    """
    module = None
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        found, source = directives(cell)
        module = found.get("default_exp", module)
        if "export" in found and (names := defined(source)):
            cell.source = f"from hdp_nb.{module} import {', '.join(names)}"


@pytest.fixture(scope="session")
def forks(request, tmp_path_factory):
    """The socket of a server of kernels that have imported what most notebooks import; None with
    --slow, or where forks are none, or are dangerous once libraries are loaded.
    """
    if request.config.getoption("--slow") or sys.platform != "linux":
        yield None
        return
    path = str(tmp_path_factory.mktemp("forks") / "socket")
    env = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    command = [sys.executable, ROOT / "tools" / "kernels.py", "serve", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as server:
        assert server.stdout.readline() == b"ready\n"
        yield path
        server.terminate()


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_runs_and_gives_what_is_stored(path, request, forks):
    stored, all_of_it = read(path), request.config.getoption("--slow")
    fresh = copy.deepcopy(stored)
    if not all_of_it:
        take_from_package(fresh)
    try:
        execute(fresh, path.parent, long=all_of_it, forks=forks)
    except CellExecutionError as error:
        pytest.fail(re.sub(r"\x1b\[\d*m", "", str(error)), pytrace=False)
    clean_nb(fresh)
    for number, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        if is_run(old, long=all_of_it):
            assert shown(new) == shown(old), (
                f"cell {number} gives something new; python tools/run.py notebooks {page(path)}"
                f" stores it:\n{old.source}"
            )


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_stores_neither_errors_nor_warnings(path):
    for number, cell in enumerate(read(path).cells):
        for output in cell.get("outputs", []):
            assert output.output_type != "error" and output.get("name") != "stderr", (
                f"cell {number}: {output}"
            )


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_imports_stand_in_cells_of_their_own(path):
    """Making the published site, nbdev runs each cell that imports, without those before it."""
    for number, cell in enumerate(read(path).cells):
        if is_run(cell, slow=True) and "export" not in directives(cell)[0]:
            tree = ast.parse(re.sub(r"^[%!].*", "", cell.source, flags=re.MULTILINE))
            imports = (ast.Import, ast.ImportFrom)
            only, none = (
                all(isinstance(node, imports) for node in tree.body),
                not any(isinstance(node, imports) for node in ast.walk(tree)),
            )
            assert only or none, f"cell {number}:\n{cell.source}"


@pytest.fixture(scope="module")
def made_anew(tmp_path_factory):
    """A copy of the repository with the notebooks cleaned, and all that is made from them made
    anew.
    """
    copied = tmp_path_factory.mktemp("repository")
    by_hand = ["settings.ini", "pyproject.toml", "_quarto.yml", "nbs/api.md", "nbs/tasks/index.md"]
    by_hand += [path.relative_to(ROOT) for path in (ROOT / "hdp_nb").rglob("_*.py")]
    by_hand += [path.relative_to(ROOT) for path in (ROOT / "nbs").glob("[0-9]*/index.md")]
    for name in [*by_hand, *(path.relative_to(ROOT) for path in notebooks())]:
        (copied / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copied / name)
    nbdev("nbdev-clean", root=copied)
    export(root=copied)
    return copied


@pytest.mark.parametrize("path", NOTEBOOKS)
def test_is_clean(path, made_anew):
    clean = (made_anew / path.relative_to(ROOT)).read_bytes() == path.read_bytes()
    assert clean, "python tools/run.py clean"


@pytest.mark.parametrize(
    "pattern",
    ["hdp_nb/**/*.py", "README.md", "nbs/images/index-*.png", "nbs/*.md", "**/_quarto.yml"],
)
def test_what_is_made_from_the_notebooks_is_in_step(pattern, made_anew):
    here, anew = (
        {path.relative_to(root): path.read_bytes() for path in root.glob(pattern)}
        for root in (ROOT, made_anew)
    )
    if pattern == "nbs/*.md":  # others are written by hand
        here = {path: text for path, text in here.items() if path in anew}
    assert here
    differing = sorted(
        str(path) for path in here.keys() | anew.keys() if here.get(path) != anew.get(path)
    )
    assert not differing, "python tools/run.py export"


@pytest.mark.slow
def test_nbdev_prepares_every_notebook_for_quarto(made_anew):
    """The half of making the published site that works without Quarto."""
    code = """if True:
        import functools, tomllib
        tomllib.loads = functools.cache(tomllib.loads)  # nbdev reads its settings once a cell
        from nbdev.serve import proc_nbs
        proc_nbs(n_workers=0)
    """
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=made_anew, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    proc = made_anew / "_proc"
    assert {
        path.relative_to(proc).with_suffix("").as_posix() for path in proc.rglob("*.ipynb")
    } == {page(path) for path in notebooks()}
