"""The package as its users get it: metadata that agrees, a wheel that stands on its own, a light
import.
"""

import ast
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from configparser import ConfigParser
from pathlib import Path

import jinja2
import numpy as np
import pytest
import yaml
from numba import njit
from packaging.requirements import Requirement
from tiers import slow_unless

import hdp_nb
from hdp_nb import _kernels
from hdp_nb.processes.weights import document_alpha

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def settings():
    config = ConfigParser(delimiters=["="])
    config.read(ROOT / "settings.ini", encoding="utf-8")
    return config["DEFAULT"]


@pytest.fixture(scope="module")
def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def pinned(name):
    "The versions that a file of tools/ pins."
    found = {}
    for line in (ROOT / "tools" / name).read_text(encoding="utf-8").splitlines():
        if line and line[0] not in "#-":
            assert re.fullmatch(r"[\w.-]+==[\w.]+", line), line
            package, version = line.lower().replace("_", "-").split("==")
            assert package not in found, f"{package} is pinned twice"
            found[package] = version
    return found


def requirements(project, *extras):
    "What the package requires, with what some extras add."
    wanted = project["dependencies"] + [
        line for extra in extras for line in project["optional-dependencies"][extra]
    ]
    return {Requirement(line).name.lower(): Requirement(line).specifier for line in wanted}


def run(*command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def package(tmp_path):
    """Write modules of a package that is called hdp_nb and begins like it, with a cache of its own;
    returned is what runs code in a new process, or starts it.
    """
    (tmp_path / "hdp_nb").mkdir()
    for name in ("__init__.py", "_compiling.py", "_kernels.py", "_lazy.py"):
        shutil.copy(ROOT / "hdp_nb" / name, tmp_path / "hdp_nb")
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "HDP_NB_CACHE": str(tmp_path / "kernels")}
    head = "from pathlib import Path; import hdp_nb; "
    head += "hits = lambda kernel: sum(kernel.stats.cache_hits.values()); "

    def python(code, start=False, **more):
        command = [sys.executable, "-W", "error", "-B", "-c", head + code]
        given = {name: value for name, value in {**env, **more}.items() if value is not None}
        options = {"env": given, "cwd": tmp_path}
        if start:
            pipe = subprocess.PIPE
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, **options)
        return run(*command, **options).strip()

    def package(**texts):
        for name, text in texts.items():
            path = tmp_path.joinpath("hdp_nb", *name.split(".")).with_suffix(".py")
            path.parent.mkdir(exist_ok=True)
            (path.parent / "__init__.py").touch()
            path.write_text(text)
        return python

    return package


def test_settings_and_pyproject_agree(settings, pyproject):
    project, nbdev = pyproject["project"], pyproject["tool"]["nbdev"]
    assert dict(settings) == {
        "lib_name": project["name"],
        "description": project["description"],
        "min_python": project["requires-python"].removeprefix(">="),
        "license": project["license"],
        "author": project["authors"][0]["name"],
        "user": project["urls"]["Repository"].split("/")[-2],
        "repo": project["urls"]["Repository"].split("/")[-1],
        "git_url": project["urls"]["Repository"],
        "doc_url": project["urls"]["Docs"],
        **{name: nbdev[name] for name in ("lib_path", "nbs_path", "doc_path")},
    }
    # Nothing is said twice: setup.py and settings.ini add nothing, the version is the package's.
    assert project["dynamic"] == ["version"] and "version" not in settings
    script = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert [line for line in script.splitlines() if line][1:] == [
        "from setuptools import setup",
        "setup()",
    ]


def test_pins_are_exact_and_within_the_ranges(pyproject):
    user, developer = pinned("requirements.in"), pinned("requirements-dev.in")
    assert not user.keys() & developer.keys()
    for name, version in pinned("requirements-mutants.in").items():
        assert version == (user | developer).get(name, version), name
    pins = user | developer
    for name, specifier in requirements(pyproject["project"], "dev").items():
        assert pins[name] in specifier, name


@pytest.mark.parametrize(
    "names", [["requirements"], ["requirements", "requirements-dev"], ["requirements-mutants"]]
)
def test_what_is_installed_has_hashes(names):
    "pip then refuses a file that is not the one that was tested, wherever it comes from."
    text = (ROOT / "tools" / f"{names[-1]}.txt").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text.split("\n", 1)[1].strip())
    found = {}
    for entry in entries:
        package, *hashes = re.split(r" \\\n    ", entry)
        name, version = re.fullmatch(r"([\w.-]+)==([\w.]+)(?: ; .*)?", package).groups()
        assert hashes and all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", one) for one in hashes)
        found[name.lower().replace("_", "-")] = version
    assert found == {k: v for name in names for k, v in pinned(f"{name}.in").items()}


def test_oldest_are_the_lower_bounds(pyproject):
    project, oldest = pyproject["project"], pinned("requirements-oldest.txt")
    extras = project["optional-dependencies"].keys() - {"dev"}
    bounds = requirements(project, *extras)
    assert {name: f">={version}" for name, version in oldest.items()} == {
        name: str(specifier) for name, specifier in bounds.items()
    }


def test_conda_recipe_asks_for_what_pip_asks_for(pyproject):
    "Rendered as conda-build does it, by its two functions that read files."
    project = pyproject["project"]
    template = jinja2.Template((ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8"))
    recipe = yaml.safe_load(
        template.render(
            load_file_data=lambda name: tomllib.loads((ROOT / name).read_text(encoding="utf-8")),
            load_file_regex=lambda name, pattern: re.search(
                pattern, (ROOT / name).read_text(encoding="utf-8")
            ),
            PYTHON="python",
        )
    )
    assert recipe["package"] == {"name": "hdp_nb", "version": hdp_nb.__version__}
    asked = {Requirement(line).name: Requirement(line) for line in recipe["requirements"]["run"]}
    assert str(asked.pop("python").specifier) == project["requires-python"]
    asked["matplotlib"] = asked.pop("matplotlib-base")
    assert {name: asked[name].specifier for name in asked} == requirements(project)
    assert recipe["build"]["entry_points"] == ["hdp_nb = hdp_nb.cli.main:main"]


def test_citation_and_readme_say_what_the_metadata_say(pyproject):
    project = pyproject["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == project["license"]
    assert citation["repository-code"] == project["urls"]["Repository"]
    assert citation["authors"][0]["name"] == project["authors"][0]["name"]
    # On an index nothing stands beside the README: it leads to whole addresses only.
    links = re.findall(r"\]\(([^)\s]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    home = project["urls"]["Repository"]
    assert len(links) > 30 and not [link for link in links if not link.startswith("https://")]
    for link in links:
        if link.startswith(home):
            kind, branch, path = link.removeprefix(home + "/").partition("#")[0].split("/", 2)
            assert kind in ("blob", "raw") and branch == "main" and (ROOT / path).exists(), link


@pytest.mark.parametrize("path", [*(ROOT / ".github" / "workflows").glob("*.yml")], ids=str)
def test_workflows_run_pinned_actions_with_few_rights(path):
    "Actions by commit, with the release that it is; no credentials left behind; jobs that end."
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: (.*)", text)
    assert used and all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", one) for one in used)
    flow = yaml.safe_load(text)
    assert flow["permissions"] == {"contents": "read"}
    for job in flow["jobs"].values():
        assert "timeout-minutes" in job
        for step in job["steps"]:
            if "checkout@" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


def test_importing_needs_no_tool_and_no_pictures():
    heavy = "matplotlib nbdev fastcore execnb IPython ipywidgets pytest hypothesis".split()
    found = run(
        sys.executable,
        "-c",
        f"import sys, hdp_nb, hdp_nb.models.loading; print({set(heavy)} & set(sys.modules))",
    )
    assert found.strip() == "set()"


def test_kernels_are_kept_where_told(tmp_path, package):
    "Compiled once; not kept at all unless asked to."
    python = package(a="from numba import njit\n\n\n@njit\ndef f(x):\n    return x + 1\n")
    code = "from hdp_nb.a import f; print(f(1), f.stats.cache_path is not None, hits(f))"
    assert [python(code) for _ in range(2)] == ["2 True 0", "2 True 1"]
    for off in ("", "0"):
        assert python(code, HDP_NB_CACHE=off) == "2 False 0"
    kept = (tmp_path / "kernels").glob("kernels-*/a.f-*.nbc")
    assert sorted(path.name.split("-")[1] for path in kept) == ["entry", "part"]


GROUND = "from numba import njit\n\nSHIFT = 1\n\n\n@njit\ndef f(x):\n    return x + SHIFT\n"
MIDDLE = "from .ground import f\n"
UPPER = """
from numba import njit

import hdp_nb.middle


f = hdp_nb.middle.f


@njit
def g(x):
    return 10 * f(x)
"""
MAKER = """
from numba import njit


def make(f):
    @njit
    def kernel(x):
        return f(x) - 1

    return kernel
"""
CALLS = (
    "from hdp_nb.upper import g; from hdp_nb.ground import f; from hdp_nb.maker import make;"
    "h, k = make(g), make(f); print(g(1), hits(g), h(1), hits(h), k(1), hits(k))"
)


@pytest.mark.slow
def test_kernels_are_compiled_anew_when_what_they_build_upon_has_changed(package):
    """Their module, or one that it imports, by way of another one as well; of what a function has
    made also the modules of all that it closes over. Not when other modules change.
    """
    package(ground=GROUND, middle=MIDDLE, upper=UPPER, maker=MAKER, other="TWO = 2\n")
    python = package()
    assert python(CALLS) == "20 0 19 0 1 0"
    package(other="TWO = 3\n")
    assert python(CALLS) == "20 1 19 1 1 1"
    package(upper=UPPER.replace("10 *", "20 *"))
    assert python(CALLS) == "40 0 39 0 1 1"
    package(ground=GROUND.replace("= 1", "= 4"))
    assert python(CALLS) == "100 0 99 0 4 0"
    package(middle=MIDDLE + "# by the way\n")
    assert python(CALLS) == "100 0 99 0 4 1"
    package(maker=MAKER.replace("- 1", "- 2"))
    assert python(CALLS) == "100 1 98 0 3 0"


@pytest.mark.slow
def test_kernels_are_kept_under_the_text_that_they_were_compiled_from(package):
    "Not under what somebody has written into the file since; and not where it was loaded again."
    first, second = GROUND, GROUND.replace("= 1", "= 4")
    python = package(ground=first)
    call = "from hdp_nb import ground; print(ground.f(1), hits(ground.f))"
    write = "from hdp_nb import ground; Path(ground.__file__).write_text({!r}); "
    assert python(write.format(second) + call) == "2 0" and python(call) == "5 0"
    assert package(ground=first)(call) == "2 1"  # that was the first text's
    again = "import importlib, os; os.utime(ground.__file__, (0, 0)); importlib.reload(ground); "
    third = GROUND.replace("= 1", "= 7")
    assert python(write.format(third) + again + call) == "8 0" and python(call) == "8 0"
    assert python(again.replace("import", "from hdp_nb import ground; import", 1) + call) == "8 1"


SHARED = """
import numpy as np
from numba import njit


@njit
def leaf(n):
    return np.arange(n), np.ones(n)


@njit
def root(n):
    return leaf(n)[0].sum()


@njit
def other(n):
    return leaf(n)[1].sum()
"""


@pytest.mark.parametrize(
    "first", [pytest.param("other(4)", marks=pytest.mark.slow), "leaf(2)[1].sum()"]
)
def test_what_is_loaded_as_a_part_is_loaded_for_python(package, first):
    "In either order: arrays that it returns have types, which the part does not know of."
    python = package(a=SHARED)
    code = "from hdp_nb.a import root, leaf, other; "
    assert python(code + "print(root(4))") == "6"
    assert python(code + "print(leaf(3)[0].sum(), hits(leaf))") == "3 0"
    both = f"print({first}, leaf(2)[0].sum(), other(4), root(4), hits(leaf), hits(root))"
    assert python(code + both).split()[1:] == ["1", "4.0", "6", "1", "1"]


PAIR = "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    a: float\n    b: float\n"
TAKES = """
from numba import njit


@njit
def difference(pair):
    return pair.a - pair.b


@njit
def inner(pairs):
    return pairs[1].a - pairs[1].b
"""


@pytest.mark.slow
def test_named_tuples_with_other_fields_have_other_kernels(package):
    """numba has one name for two classes of the same name and the same types in another order, and
    the kernel's module does not import the class.
    """
    python = package(pair=PAIR, takes=TAKES)
    code = (
        "from hdp_nb.pair import Pair; from hdp_nb.takes import difference, inner;"
        "p = Pair(a=3.0, b=1.0); print(difference(p), hits(difference), inner((0, p)), hits(inner))"
    )
    assert [python(code) for _ in range(2)] == ["2.0 0 2.0 0", "2.0 1 2.0 1"]
    package(pair=PAIR.replace("a: float\n    b: float", "b: float\n    a: float"))
    assert python(code) == "2.0 0 2.0 0"
    package(pair=PAIR)
    # Without their names the second order is given the kernel of the first: what this guards.
    blind = "hdp_nb._kernels._named_tuples = lambda types: []; "
    assert python(blind + code) == "2.0 0 2.0 0"
    package(pair=PAIR.replace("a: float\n    b: float", "b: float\n    a: float"))
    assert python(blind + code) == "-2.0 1 -2.0 1"


NESTED = {
    "ground.f": GROUND,
    "middle.again": "from ..ground.f import f\n",
    "upper.g": """
from numba import njit

from hdp_nb.middle import (
    again as names,  # as long imports are written
)

f = names.f


@njit
def g(x):
    return 10 * f(x)
""",
    "upper.f": "TWO = 2\n",
    "other.f": "TWO = 2\n",
}


def test_a_kernel_is_compiled_anew_after_an_edit_two_modules_away(package):
    "In parts, whose modules may share a last name; an edit that does not matter compiles nothing."
    package(**NESTED)
    python = package()
    call = "from hdp_nb.upper.g import g; print(g(1), hits(g))"
    assert [python(call) for _ in range(2)] == ["20 0", "20 1"]
    package(**{"other.f": "TWO = 3\n", "upper.f": "TWO = 3\n"})
    assert python(call) == "20 1"
    package(**{"ground.f": GROUND.replace("= 1", "= 4")})
    assert python(call) == "50 0"


def imports_by_parser(path, name):
    "The modules and parts of the package that a module imports, by Python's own parser."
    found, known = set(), {".".join(p.relative_to(ROOT / "hdp_nb").parts) for p in FILES}
    known = {one.removesuffix(".py").removesuffix(".__init__") for one in known}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            above = name.split(".")
            above = above[: len(above) - node.level + (path.name == "__init__.py")]
            given = (node.module or "").split(".") if node.module else []
            if not node.level and given[0] != "hdp_nb":
                continue
            at = ".".join([*above, *given] if node.level else given[1:])
            named = [
                hdp_nb._HOME.get(n.name, n.name) if not at else f"{at}.{n.name}" for n in node.names
            ]
            found |= {at, *named} & known
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("hdp_nb.")]
            found |= {one.removeprefix("hdp_nb.") for one in names}
    return found - {""}


FILES = sorted((ROOT / "hdp_nb").rglob("*.py"))


def test_every_import_is_seen_without_running_a_module():
    """As Python's parser sees it. And where every module can be reached, by `import hdp_nb`, there
    are no kernels.
    """
    n_imports = 0
    for path in FILES:
        name = ".".join(path.relative_to(ROOT / "hdp_nb").with_suffix("").parts)
        name = name.removesuffix("__init__").removesuffix(".")
        text = path.read_text(encoding="utf-8")
        found = _kernels._imports(text, name, path.name == "__init__.py")
        if not path.name.startswith("_"):  # those hold no kernels
            assert found == imports_by_parser(path, name), name
            n_imports += len(found)
        assert not re.search("(?m)^import hdp_nb$", text) or "njit" not in text, name
    assert n_imports > 500


@pytest.fixture
def kernel(tmp_path, package):
    "Call a kernel in a process whose user has an empty home: (where it is kept, from there)."
    python = package(a="from numba import njit\n\n\n@njit\ndef f(x):\n    return x + 1\n")
    named = {"HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path), "XDG_CACHE_HOME": None}
    code = "from hdp_nb.a import f; print(f(1), f.stats.cache_path, hits(f))"

    def kernel(**more):
        fine, where, hits = python(code, **{**named, "HDP_NB_CACHE": None, **more}).split()
        assert fine == "2"
        return where, int(hits)

    return kernel


def test_kernels_are_kept_in_the_users_cache_by_default(tmp_path, kernel):
    where, hits = kernel()
    assert hits == 0 and Path(where).is_relative_to(tmp_path) and kernel() == (where, 1)
    if sys.platform == "linux":
        assert Path(where).is_relative_to(tmp_path / ".cache" / "hdp_nb")
        other, hits = kernel(XDG_CACHE_HOME=str(tmp_path / "mine"))
        assert hits == 0 and Path(other).is_relative_to(tmp_path / "mine" / "hdp_nb")
        assert kernel(XDG_CACHE_HOME="not/absolute") == (where, 1)
    assert kernel(HDP_NB_CACHE="0") == ("None", 0)


@pytest.mark.slow
def test_settings_of_numba_have_kernels_of_their_own(kernel):
    where, _ = kernel()
    checked, hits = kernel(NUMBA_BOUNDSCHECK="1")
    assert hits == 0 and checked != where and kernel(NUMBA_BOUNDSCHECK="1") == (checked, 1)
    assert kernel() == (where, 1)


DAMAGED = {
    "a byte": lambda whole: whole[:60] + b"!" + whole[61:],
    "cut": lambda whole: whole[:-9],
    "nothing": lambda whole: b"",
    "its beginning": lambda whole: whole[:50],
    "zeros": lambda whole: b"\0" * 99,
}


@pytest.mark.parametrize("how", slow_unless(lambda how: how == "a byte", DAMAGED))
def test_a_damaged_cache_costs_a_compilation(tmp_path, kernel, how):
    where, _ = kernel()
    kept = [path for path in Path(where).iterdir() if "a.f-" in path.name]
    assert [path.suffix for path in kept] == [".nbc"] * 2
    broken = {path: DAMAGED[how](path.read_bytes()) for path in kept}
    for path, damaged in broken.items():
        path.write_bytes(damaged)
    assert kernel() == (where, 0)
    assert all(path.read_bytes() != damaged for path, damaged in broken.items())
    assert kernel() == (where, 1)
    (entry,) = [path for path in kept if "-entry-" in path.name]
    entry.write_bytes(broken[entry])  # beside a part that is whole
    assert kernel() == (where, 0)
    assert entry.read_bytes() != broken[entry] and kernel() == (where, 1)


MADE = """
from numba import njit

SHIFT = 1.0


@njit
def once(x):
    return x


@njit
def twice(x):
    return 2 * x


def make(f, scale=1.0):
    @njit
    def kernel(x):
        return f(x) * scale + SHIFT

    return kernel


def outer(f):
    inner = make(f)

    @njit
    def kernel(x):
        return inner(x) + sum([inner(y) for y in (x, x)])

    return kernel
"""


@pytest.mark.slow
def test_kernels_that_functions_make_are_kept(package):
    """Each for what it closes over and what its names mean; never one that calls what is not in the
    package.
    """
    python = package(made=MADE)

    def made(*kernels):
        "Of each kernel: its value at 5.0, and whether it was compiled before."
        code = "from numba import njit; from hdp_nb import made; from hdp_nb.made import *\n"
        code += "foreign = njit(lambda x: 100 * x)\n"
        for kernel in kernels:
            code += f"f = {kernel}; print(f(5.0), sum(f.stats.cache_hits.values()))\n"
        said = python(code).split()
        return [(float(value), int(hits)) for value, hits in zip(said[::2], said[1::2])]

    assert made("make(twice)") == [(11, 0)]
    assert made("make(once)", "make(twice)") == [(6, 0), (11, 1)]
    assert made("make(once, 3.0)", "outer(once)") == [(16, 0), (18, 0)]
    three = ["make(twice)", "make(once, 3.0)", "make(once)", "outer(once)"]
    assert made(*three) == [(11, 1), (16, 1), (6, 1), (18, 1)]
    assert made(*reversed(three)) == [(18, 1), (6, 1), (16, 1), (11, 1)]
    assert made("made.__dict__.update(SHIFT=2.0) or make(once)", "outer(once)") == [(7, 0), (21, 0)]
    assert made("make(foreign)", "outer(foreign)") == [(501, 0), (1503, 0)]
    assert made("make(foreign)", "make(once)") == [(501, 0), (6, 1)]


def test_a_number_that_stands_in_the_code_compiles_nothing_anew():
    "One kernel for all literals, where numba by itself makes one for each (the control)."
    plain = njit(document_alpha.py_func)
    for kernel in (document_alpha, plain):
        call = njit(lambda alpha: kernel(alpha, 0) + 10 * kernel(alpha, 1))
        assert call(np.array([2.0, 3.0])) == 32
        callee = kernel if kernel is plain else kernel.kernel.parts
        assert callee.signatures
        literals = ["Literal" in str(signature) for signature in callee.signatures]
        assert any(literals) == (kernel is plain)


HAS_TURN = """
import sys
from hdp_nb._kernels import _Turns

turns = _Turns(sys.argv[1])
turns.take("f")
print("taken", flush=True)
sys.stdin.readline()
turns.give_back("f")
print("given back", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs locks of POSIX")
def test_processes_take_turns(tmp_path):
    "For each kernel; who waits too long goes on without, and a turn ends with its process."
    (tmp_path / "file").touch()
    command = [sys.executable, "-c", HAS_TURN, tmp_path / "file"]
    env, pipe = {**os.environ, "PYTHONPATH": str(ROOT)}, subprocess.PIPE
    mine = _kernels._Turns(tmp_path / "file")

    def gets(name, patience):
        mine.patience = patience
        mine.take(name)
        got = name in mine._held
        mine.give_back(name)
        return got

    for killed in (False, True):
        with subprocess.Popen(command, env=env, stdin=pipe, stdout=pipe, text=True) as other:
            assert other.stdout.readline() == "taken\n"
            assert not gets("f", 0.1) and gets("g", 60)
            if killed:
                other.kill()
            else:
                print(file=other.stdin, flush=True)
                assert other.stdout.readline() == "given back\n"
            assert gets("f", 60)
            other.kill()
    nowhere = _kernels._Turns(tmp_path / "none" / "file")
    nowhere.take("f")
    assert nowhere._held == {}


BOTH = (
    "from hdp_nb import a; print('ready', flush=True); input(); print(a.g(1), hits(a.g), hits(a.f))"
)


@pytest.mark.skipif(os.name != "posix", reason="needs locks of POSIX")
def test_two_processes_compile_a_kernel_once(package):
    "Whoever comes second takes it from the cache; one that could not be compiled blocks nobody."
    text = "from numba import njit\n\n\n@njit\ndef f(x):\n    return x + 1\n\n\n"
    text += (
        "@njit\ndef g(x):\n    return f(x) + f(f(x) * 1)\n\n\n@njit\ndef bad(x):\n    return x.y\n"
    )
    python = package(a=text)
    two = [python(BOTH, start=True) for _ in range(2)]
    for process in two:
        assert process.stdout.readline() == "ready\n"
    for process in two:
        print(file=process.stdin, flush=True)
    said = sorted(process.communicate()[0] for process in two)
    assert said == ["5 0 0\n", "5 1 0\n"]
    fails = "from hdp_nb import a; from numba.core.errors import TypingError\n"
    fails += "try:\n    a.bad(1)\nexcept TypingError:\n    print(a.bad._cache._turns, 'no way')"
    assert python(fails) == "{} no way"


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs permissions of POSIX")
def test_a_cache_that_others_can_write_is_not_loaded(tmp_path, kernel):
    "Nor one with links in it; nor is there an error where a cache cannot be."
    where, _ = kernel()
    folder = Path(where)
    assert folder.stat().st_mode & 0o777 == 0o700
    for path in (folder, tmp_path):
        mode = path.stat().st_mode
        path.chmod(0o777)
        assert kernel() == ("None", 0)
        path.chmod(mode)
    kept = next(Path(where).glob("*.nbc"))
    folder.chmod(0o755)
    kept.chmod(0o666)
    assert kernel() == ("None", 0)
    kept.chmod(0o600)
    assert kernel() == (where, 1)
    (folder / "link").symlink_to(tmp_path)
    assert kernel() == ("None", 0)
    (folder / "link").unlink()
    (tmp_path / "file").write_text("")
    assert kernel(HDP_NB_CACHE=str(tmp_path / "file")) == ("None", 0)
    assert kernel(HDP_NB_CACHE="/proc/none") == ("None", 0)
    if os.getuid() == 0:  # a file from another's hands
        os.chown(kept, 12345, -1)
        assert kernel() == ("None", 0)


def test_tests_remove_nothing_but_old_kernels_of_their_own(tmp_path):
    """Nothing from a cache that the user has named; from their own what nobody has read for two
    days, in folders that are marked as kernels; and such a folder when nothing is left in it.
    """
    user, own = tmp_path / "user", tmp_path / "repository" / ".numba_cache"
    (tmp_path / "repository" / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "repository" / "tests")
    (tmp_path / "repository" / "tests" / "test_nothing.py").write_text("def test_nothing(): pass\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for cache in (user, own):
        run(
            sys.executable,
            "-c",
            "import hdp_nb.utils.special",
            env={**env, "HDP_NB_CACHE": str(cache)},
        )
    [kernels] = os.listdir(user)
    assert re.fullmatch("kernels-[0-9a-f]{16}", kernels) and os.listdir(own) == [kernels]
    marker, empty, fresh = (
        "hdp_nb-kernels.txt",
        "kernels-aaaaaaaaaaaaaaaa",
        "kernels-bbbbbbbbbbbbbbbb",
    )
    foreign = ["precious_old", ".ssh", "0123456789abcdef", "kernels-0123456789abcdef"]
    for cache in (user, own):
        shutil.copytree(cache / kernels, cache / empty)
        shutil.copytree(cache / kernels, cache / fresh)
        for name in (*foreign, kernels, "kernels-letters"):
            (cache / name).mkdir(exist_ok=True)
            (cache / name / "only_copy").write_text("")
            for time, stem in zip([(0, 0), (2**31, 0), (0, 2**31)], ["old", "read", "written"]):
                path = cache / name / f"{stem}.nbc"
                path.write_text("")
                os.utime(path, time)
        shutil.copy(cache / kernels / marker, cache / "kernels-letters")
        (cache / kernels / "rest.tmp").write_text("")
        (cache / kernels / "link.nbc").symlink_to(cache / kernels / "only_copy")
        (cache / "kernels-fedcba9876543210").symlink_to(cache / kernels)
        for path in [path for name in os.listdir(cache) for path in (cache / name).glob("*.t*")]:
            os.utime(path, (0, 0))
        for name in {*os.listdir(cache)} - {fresh}:
            os.utime(cache / name, (0, 0))
    before = {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
    for named in (user, own):
        run(
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:cacheprovider",
            cwd=tmp_path / "repository",
            env={**env, "HDP_NB_CACHE": str(named), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        gone = before - {path.relative_to(tmp_path) for path in tmp_path.rglob("*")}
        assert {path.relative_to("repository", ".numba_cache").as_posix() for path in gone} == {
            f"{kernels}/old.nbc",
            f"{kernels}/rest.tmp",
            empty,
            f"{empty}/{marker}",
        }


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """hdp_nb from its wheel, which is built from its source archive, in a folder far from the
    repository.
    """
    where = tmp_path_factory.mktemp("wheel")
    if (ROOT / ".git").exists():
        git = "git ls-files -z --cached --others --exclude-standard".split()
        listed = run(*git, cwd=ROOT).split("\0")
    else:  # unpacked from a source archive
        listed = (ROOT / "hdp_nb.egg-info" / "SOURCES.txt").read_text().splitlines()
    for name in filter(None, listed):
        if (ROOT / name).is_file() and not name.startswith("hdp_nb.egg-info"):
            (where / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, where / "source" / name)
    run(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(where / "dist"),
        str(where / "source"),
    )
    [wheel] = (where / "dist").glob("*.whl")
    run(
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "--target",
        str(where / "site"),
        str(wheel),
    )
    return where


def test_source_archive_has_the_repository(installed):
    "So that its tests run from it, and the notebooks are there that the modules are made from."
    [archive] = (installed / "dist").glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    source = installed / "source"
    files = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    assert {name for name in files if ".egg-info" not in name and name[:6] != "build/"} <= inside


def test_wheel_works_outside_the_repository(installed):
    code = (
        "import hdp_nb; from hdp_nb.corpora.readers import load_corpus; "
        "print(hdp_nb.__file__, hdp_nb.__version__, *[load_corpus(name).n_docs > 0 for name in "
        "('sotu', 'kjv', 'alice', 'jargon')], sep='\\n')"
    )
    env = {**os.environ, "PYTHONPATH": str(installed / "site")}
    file, version, *loaded = run(sys.executable, "-c", code, cwd=installed, env=env).split()
    assert Path(file).is_relative_to(installed / "site") and version == hdp_nb.__version__
    assert loaded == ["True"] * 4
    for name in ("py.typed", "cli/report.html"):
        assert (installed / "site" / "hdp_nb" / name).is_file()


FITS = """
import inspect
import sys
import warnings

import numpy as np

import hdp_nb

warnings.simplefilter("ignore")  # so few sweeps agree on nothing
docs = np.random.default_rng(0).poisson(0.5, (12, 8)) + np.eye(12, 8, dtype=int)
groups = {"half": ["a"] * 6 + ["b"] * 6}
data = {"TreeHDP": hdp_nb.Corpus.from_matrix(docs, groups=groups), "HDPHMM": docs[:, 0]}
first = {"TreeHDP": (["half"],), "LDA": (2,), "DPMixture": ("multinomial",)}
first["HDPMixture"] = first["DPMixture"]
for name in sys.argv[1:]:
    kind = getattr(hdp_nb, name)
    short = {"n_iter": 4, "n_chains": 1} if "n_chains" in inspect.signature(kind).parameters else {}
    model = kind(*first.get(name, ()), random_state=0, **short).fit(data.get(name, docs))
    model.save(name + ".npz")
    print(type(hdp_nb.load_model(name + ".npz")).__name__)
"""


@pytest.mark.slow
def test_a_wheel_fits_every_model(installed, tmp_path):
    "In an empty folder, with nothing of the repository at hand."
    names = [name for name in hdp_nb.__all__ if hasattr(getattr(hdp_nb, name), "fit")]
    env = {**os.environ, "PYTHONPATH": str(installed / "site")}
    assert run(sys.executable, "-c", FITS, *names, cwd=tmp_path, env=env).split() == names
    assert len(names) == 10


def test_wheel_brings_the_command_and_nothing_else(installed):
    [folder] = (installed / "site").glob("hdp_nb-*.dist-info")
    assert "hdp_nb = hdp_nb.cli.main:main" in (folder / "entry_points.txt").read_text()
    assert {path.name for path in (installed / "site").iterdir()} == {"hdp_nb", folder.name, "bin"}


def test_public_names_are_at_the_top():
    assert (
        hdp_nb.HDP is hdp_nb.models.loading.HDP
        and hdp_nb.load_corpus is hdp_nb.corpora.readers.load_corpus
    )
    assert all(callable(getattr(hdp_nb, name)) for name in hdp_nb.__all__) and {
        *hdp_nb.__all__
    } <= {*dir(hdp_nb)}
    assert not hasattr(hdp_nb, "no_such_name")


def test_parts_and_their_modules_are_reached_from_the_top():
    "Without an import of each, and listed by `dir`; what is not there is an AttributeError."
    for part in pkgutil.iter_modules(hdp_nb.__path__):
        if part.ispkg:
            package = getattr(hdp_nb, part.name)
            assert package.__doc__ and part.name in dir(hdp_nb)
            for module in pkgutil.iter_modules(package.__path__):
                assert getattr(package, module.name).__name__ == f"{package.__name__}.{module.name}"
                assert module.name in dir(package)
            assert not hasattr(package, "no_such_name")


def test_every_model_has_a_quick_start():
    cells = json.loads(
        (ROOT / "nbs" / "10_models/01_quickstart.ipynb").read_text(encoding="utf-8")
    )["cells"]
    titles = re.findall(
        r"^## (\w+)$",
        "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"),
        re.MULTILINE,
    )
    assert sorted(titles) == sorted(
        {name for name in hdp_nb.models.loading.__all__ if name[0].isupper()} - {"TopicModel"}
    )
    assert all(len(cell["source"]) <= 10 for cell in cells if cell["cell_type"] == "code")
