"""The form of the whole: lint, formatting, types, and the rules that a tool can count."""

import ast
import collections
import importlib
import re
import subprocess
import sys

import pytest
from notebooks import ROOT, directives, notebooks, read

MODULES = {
    p.stem: ast.parse(p.read_text(encoding="utf-8"))
    for p in sorted((ROOT / "hdp_nb").glob("*.py"))
    if p.stem not in ("_modidx", "__init__", "__main__")
}


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def defined(tree):
    "Names that the lines of a script define."
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.asname or node.name


def own_imports(tree):
    "Imports of the package's own modules, as (node, module)."
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").startswith("hdp_nb."):
                yield node, (node.module or "").removeprefix("hdp_nb.")


@pytest.mark.parametrize("arguments", [["check"], ["format", "--check"]], ids=["lint", "format"])
def test_ruff_finds_nothing(arguments):
    "Over notebooks and scripts; `python tools/run.py clean` puts most of it right."
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "."], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_agree():
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "hdp_nb" / "py.typed").exists()


def test_no_module_holds_too_much():
    lines = {
        name: (ROOT / "hdp_nb" / f"{name}.py").read_text(encoding="utf-8").count("\n")
        for name in MODULES
    }
    assert not {name: n for name, n in lines.items() if n > 700}


def test_modules_import_only_from_lower_numbers():
    order = [
        directives(cell)[0]["default_exp"]
        for path in notebooks()
        if path.stem != "index"
        for cell in read(path).cells
        if cell.cell_type == "code" and "default_exp" in directives(cell)[0]
    ]
    assert sorted(order) == sorted(MODULES)
    for name, tree in MODULES.items():
        for _, module in own_imports(tree):
            assert not module or order.index(module) < order.index(name), f"{name} imports {module}"


def test_only_public_names_cross_from_one_module_to_another():
    for name, tree in MODULES.items():
        private = [
            a.name
            for node, _ in own_imports(tree)
            for a in node.names
            if a.name.startswith("_") and not a.name.startswith("__")
        ]
        assert not private, f"{name} imports {private}"


def test_no_function_imports_a_module_of_the_package():
    for name, tree in MODULES.items():
        inside = [f.name for f in functions(tree) for _ in own_imports(f)]
        assert not inside, f"{name}: {inside}"


def test_what_scripts_import_is_there():
    "Benchmarks are not run here, and import in functions what only one of their parts needs."
    scripts = {path.stem: path for path in (ROOT / "benchmarks").glob("*.py")}
    gone, n_names = [], 0
    for path in [*scripts.values(), *(ROOT / "tools").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] == "hdp_nb":
                module = importlib.import_module(node.module)
                there = {*dir(module), *MODULES} if node.module == "hdp_nb" else {*dir(module)}
            elif path.parent.name == "benchmarks" and node.module in scripts:
                text = scripts[node.module].read_text(encoding="utf-8")
                there = {*defined(ast.parse(text))}
            else:
                continue
            names = {alias.name for alias in node.names}
            n_names += len(names)
            gone += [f"{path.name}: {name}" for name in names - there]
    assert not gone and n_names > 150


def test_base_classes_have_children():
    "A private base class with one child is half a class."
    classes = [
        node
        for tree in MODULES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    children = collections.Counter(
        ast.unparse(base).split(".")[-1] for node in classes for base in node.bases
    )
    own = {node.name for node in classes}
    assert not [
        base for base, n in children.items() if n == 1 and base.startswith("_") and base in own
    ]


def test_a_name_is_defined_once():
    where = collections.defaultdict(set)
    for name, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                where[node.name].add(name)
    assert not {key: sorted(value) for key, value in where.items() if len(value) > 1}


# Functions that users call with options by name have as many as there are options.
MANY_PARAMETERS = {"run_chain", "run_chains"}


def test_functions_take_few_parameters():
    long = [
        (name, f.name, n)
        for name, tree in MODULES.items()
        for f in functions(tree)
        if (n := len(f.args.args) + len(f.args.kwonlyargs)) > 8 and f.name != "__init__"
    ]
    assert not [row for row in long if row[1] not in MANY_PARAMETERS]


def public(tree):
    return [
        node
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_"
    ]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_stand_alone(name):
    vague = re.compile(r"\s*(The same|As |What |Like |Likewise|See |\(\w+\d*'*\))")
    for node in public(MODULES[name]):
        text = ast.get_docstring(node)
        assert text and not vague.match(text), f"{name}.{node.name}: {text!r:.80}"


@pytest.mark.parametrize("name", MODULES)
def test_public_functions_are_annotated(name):
    bare = [
        node.name
        for node in public(MODULES[name])
        if isinstance(node, ast.FunctionDef)
        and not (node.returns or any(a.annotation for a in node.args.args + node.args.kwonlyargs))
    ]
    assert not bare


@pytest.mark.parametrize("name", MODULES)
def test_lines_end_before_column_100(name):
    lines = (ROOT / "hdp_nb" / f"{name}.py").read_text(encoding="utf-8").splitlines()
    assert not [i for i, line in enumerate(lines, 1) if len(line) > 100]


@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in notebooks()])
def test_code_cells_are_no_wider(path):
    wide = [
        (number, line)
        for number, cell in enumerate(read(path).cells)
        if cell.cell_type == "code"
        for line in cell.source.splitlines()
        if len(line) > 100
    ]
    assert not wide
