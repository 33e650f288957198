"""The form of the whole: lint, formatting, types, and the rules that a tool can count."""

import ast
import collections
import importlib
import re
import subprocess
import sys

import book
import pytest
import yaml
from notebooks import ROOT, directives, modules, notebooks, page, read

FILES = modules()
MODULES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in FILES.items()}

# A part imports from those before it, and the parts of one row know nothing of each other.
ROWS = """
utils
mcmc
corpora
processes
mixtures
topics
moves
variational nested sequences
models
evaluation plotting distributed
cli
"""
ROW_OF = {part: row for row, parts in enumerate(ROWS.split("\n")) for part in parts.split()}


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


def own_imports(tree, name="part.module"):
    "Imports of the package's own modules, as (node, what is imported from, within the package)."
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            given = node.module or ""
            if node.level:
                above = name.split(".")[: -node.level]
                yield node, ".".join([*above, *filter(None, [given])])
            elif given.split(".")[0] == "hdp_nb":
                yield node, given.removeprefix("hdp_nb").removeprefix(".")


def used_later(tree):
    "Parts that functions reach as `hdp_nb.part.module`, when they are called."
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "hdp_nb" and node.attr in ROW_OF:
                yield node.attr


def forbidden(name, tree):
    "The parts that a module uses and may not."
    part = name.partition(".")[0]
    used = {*used_later(tree)}
    for node, module in own_imports(tree, name):
        used |= {module.partition(".")[0]} if module else {alias.name for alias in node.names}
    return sorted(
        other for other in used & ROW_OF.keys() if other != part and ROW_OF[other] >= ROW_OF[part]
    )


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


def test_a_module_is_one_idea():
    "Of at most a thousand lines."
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in FILES.items()}
    assert not {name: n for name, n in lines.items() if n > 1000}


# What is longer and no class: two loops that are compiled as a whole, and a table of descriptions.
LONG_CELLS = {"_seat_tokens", "make_direct", "_make_state_moves", "_explain"}


def without_docstrings(code):
    "How many lines of a cell are not docstrings."
    n = len(code.splitlines())
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            n -= node.body[0].end_lineno - node.body[0].lineno + 1
    return n


def test_an_exported_cell_is_short_or_one_class():
    "Of at most eighty lines, docstrings not counted; then it can be read without scrolling."
    long = set()
    for path in notebooks():
        for cell in read(path).cells:
            found, code = directives(cell) if cell.cell_type == "code" else ({}, "")
            if "export" not in found or without_docstrings(code) <= 80:
                continue
            made = [node for node in ast.parse(code).body if hasattr(node, "body")]
            if len(made) != 1 or not isinstance(made[0], ast.ClassDef):
                long |= {node.name for node in made} or {f"{page(path)} {cell.id}"}
    assert long == LONG_CELLS


def test_each_module_is_made_by_the_notebook_of_its_name():
    "Part and folder, module and file name: `nbs/04_topics/01_franchise` makes `topics.franchise`."
    made = book.made_by()
    assert sorted(made) == sorted(MODULES)
    plain = {name: re.sub(r"\b\d\d_", "", page(path)) for name, path in made.items()}
    assert not {name: of for name, of in plain.items() if name != of.replace("/", ".")}


def test_notebooks_of_a_folder_are_numbered_without_gaps():
    numbers = collections.defaultdict(list)
    for path in notebooks():
        if path.stem != "index":
            numbers[path.parent.name].append(int(path.name[:2]))
    assert not {name: n for name, n in numbers.items() if n != [*range(1, len(n) + 1)]}
    everything = {*(ROOT / "nbs").rglob("[!_.]*.ipynb")}
    assert {path for path in everything if ".ipynb_checkpoints" not in path.parts} == {*notebooks()}


def test_parts_import_only_from_parts_before_them():
    assert {name.partition(".")[0] for name in MODULES} == ROW_OF.keys()
    wrong = {name: parts for name, tree in MODULES.items() if (parts := forbidden(name, tree))}
    assert not wrong


@pytest.mark.parametrize(
    "name, line",
    [
        ("utils.files", "from ..mcmc.chain import Chain"),
        ("topics.lda", "from hdp_nb.models.base import TopicModel"),
        ("nested.moves", "from ..variational import bound"),
        ("plotting.plots", "from .. import distributed"),
        ("corpora.readers", "def f():\n    return hdp_nb.topics.lda.LDASampler"),
    ],
)
def test_the_order_of_parts_is_enforced(name, line):
    "An import that is not allowed, added on purpose, is found."
    assert forbidden(name, MODULES[name]) == []
    added = ast.parse(FILES[name].read_text(encoding="utf-8") + f"\n{line}\n")
    assert len(forbidden(name, added)) == 1


def test_modules_of_a_part_do_not_import_in_circles():
    imports = {
        name: {module for _, module in own_imports(tree, name) if module in MODULES}
        for name, tree in MODULES.items()
    }
    while free := {name for name, needs in imports.items() if not needs & imports.keys()}:
        imports = {name: needs for name, needs in imports.items() if name not in free}
    assert not imports


def test_only_public_names_cross_from_one_module_to_another():
    for name, tree in MODULES.items():
        private = [
            a.name
            for node, _ in own_imports(tree, name)
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
    folder = ROOT / "benchmarks"
    scripts = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in [*folder.glob("*.py"), *folder.glob("*/*.py")]
    }
    gone, n_names = [], 0
    for path in [*scripts.values(), *(ROOT / "tools").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.split(".")[0] == "hdp_nb":
                module = importlib.import_module(node.module)
                there = {*dir(module)}
            elif node.module in scripts:
                text = scripts[node.module].read_text(encoding="utf-8")
                there = {*defined(ast.parse(text))}
            elif node.module.split(".")[0] == "benchmarks":  # a folder
                there = {path.stem for path in (ROOT / node.module.replace(".", "/")).glob("*.py")}
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
    "In its module; public ones in the whole package. (`_` is what numba's overloads are called.)"
    where = collections.defaultdict(list)
    for name, tree in MODULES.items():
        for node in tree.body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name != "_":
                part = f"{name}." if node.name.startswith("_") else ""
                where[part + node.name].append(name)
    assert not {key: names for key, names in where.items() if len(names) > 1}


# Functions that users call with options by name have as many as there are options.
MANY_PARAMETERS = {"run_chain", "run_chains", "_make_tailed_prior"}


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
    lines = FILES[name].read_text(encoding="utf-8").splitlines()
    assert not [i for i, line in enumerate(lines, 1) if len(line) > 100]


def test_every_figure_has_a_caption_and_every_caption_a_figure():
    captions = yaml.safe_load((ROOT / "tools/site/captions.yml").read_text(encoding="utf-8"))
    figures = {
        (page(path), cell.id)
        for path in notebooks()
        for cell in read(path).cells
        if any("image/" in str([*output.get("data", ())]) for output in cell.get("outputs", ()))
        and "fig-alt" not in directives(cell)[0]
    }
    written = {(where, cell) for where, cells in captions.items() for cell in cells}
    assert not figures ^ written


@pytest.mark.parametrize("path", [pytest.param(p, id=page(p)) for p in notebooks()])
def test_code_cells_are_no_wider(path):
    wide = [
        (number, line)
        for number, cell in enumerate(read(path).cells)
        if cell.cell_type == "code"
        for line in cell.source.splitlines()
        if len(line) > 100
    ]
    assert not wide
