"""The package as its users get it: metadata that agrees, a wheel that stands on its own, a light
import.
"""

import json
import os
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
from hdp_nb.topics import document_alpha

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
    assert recipe["build"]["entry_points"] == ["hdp_nb = hdp_nb.cli:main"]


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
        f"import sys, hdp_nb, hdp_nb.estimators; print({set(heavy)} & set(sys.modules))",
    )
    assert found.strip() == "set()"


def test_kernels_are_kept_where_told(tmp_path):
    "Compiled once; anew when any module of the package has changed; not at all unless asked to."
    code = (
        "import numpy as np; from hdp_nb.special import antoniak;"
        " antoniak(np.random.default_rng(0), 5, 1.0); print(antoniak.stats.cache_path is not None,"
        " sum(antoniak.stats.cache_hits.values()))"
    )
    shutil.copytree(
        ROOT / "hdp_nb", tmp_path / "hdp_nb", ignore=shutil.ignore_patterns("data", "__pycache__")
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "HDP_NB_CACHE": str(tmp_path / "kernels")}
    assert [run(sys.executable, "-c", code, env=env, cwd=tmp_path).split() for _ in range(2)] == [
        ["True", "0"],
        ["True", "1"],
    ]
    with (tmp_path / "hdp_nb" / "tree.py").open("a") as other:
        other.write("# changed\n")
    assert (
        run(sys.executable, "-c", code, env=env, cwd=tmp_path).split() == ["True", "0"]
        and len(list((tmp_path / "kernels").iterdir())) == 2
    )
    for off in ("", "0"):
        assert run(
            sys.executable, "-c", code, env={**env, "HDP_NB_CACHE": off}, cwd=tmp_path
        ).split() == ["False", "0"]


KERNEL = (
    "import numpy as np; from hdp_nb.special import antoniak;"
    " print(int(antoniak(np.random.default_rng(0), 5, 1.0) >= 1), antoniak.stats.cache_path,"
    " sum(antoniak.stats.cache_hits.values()))"
)


@pytest.fixture
def kernel(tmp_path):
    "Call a kernel in a process whose user has an empty home: (where it is kept, from there)."
    named = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "LOCALAPPDATA": str(tmp_path)}

    def kernel(**more):
        env = {k: v for k, v in os.environ.items() if k not in ("HDP_NB_CACHE", "XDG_CACHE_HOME")}
        said = run(sys.executable, "-W", "error", "-c", KERNEL, env={**env, **named, **more})
        fine, where, hits = said.split()
        assert fine == "1"
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
    kept = [path for path in Path(where).iterdir() if "antoniak" in path.name]
    assert [path.suffix for path in kept] == [".nbc"]
    for path in kept:
        whole = path.read_bytes()
        broken = DAMAGED[how](whole)
        path.write_bytes(broken)
        assert kernel() == (where, 0)
        assert path.read_bytes() != broken and kernel() == (where, 1)


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


def test_kernels_that_functions_make_are_kept(tmp_path):
    """Each for what it closes over and what its names mean; never one that calls what is not in the
    package.
    """
    tree = tmp_path / "hdp_nb"
    shutil.copytree(ROOT / "hdp_nb", tree, ignore=shutil.ignore_patterns("data", "__pycache__"))
    (tree / "made.py").write_text(MADE)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "HDP_NB_CACHE": str(tmp_path / "kernels")}

    def made(*kernels):
        "Of each kernel: its value at 5.0, and whether it was compiled before."
        code = "from numba import njit; from hdp_nb import made; from hdp_nb.made import *\n"
        code += "foreign = njit(lambda x: 100 * x)\n"
        for kernel in kernels:
            code += f"f = {kernel}; print(f(5.0), sum(f.stats.cache_hits.values()))\n"
        said = run(sys.executable, "-W", "error", "-c", code, env=env, cwd=tmp_path).split()
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
        literals = ["Literal" in str(signature) for signature in kernel.signatures]
        assert any(literals) == (kernel is plain)


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
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


def test_tests_remove_no_folder_but_old_kernels_of_their_own(tmp_path):
    "Nothing from a cache that the user has named, from their own only what is marked as kernels."
    user, own = tmp_path / "user", tmp_path / "repository" / ".numba_cache"
    (tmp_path / "repository" / "tests").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path / "repository" / "tests")
    (tmp_path / "repository" / "tests" / "test_nothing.py").write_text("def test_nothing(): pass\n")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for cache in (user, own):
        run(sys.executable, "-c", "import hdp_nb.special", env={**env, "HDP_NB_CACHE": str(cache)})
    [kernels] = os.listdir(user)
    assert re.fullmatch("kernels-[0-9a-f]{16}", kernels) and os.listdir(own) == [kernels]
    foreign = [
        "precious_old",
        ".ssh",
        "0123456789abcdef",
        "kernels-0123456789abcdef",
        "kernels-letters",
    ]
    for cache in (user, own):
        for name in foreign:
            (cache / name).mkdir()
            (cache / name / "only_copy").write_text("")
        (cache / "kernels-letters" / "hdp_nb-kernels.txt").write_text("")
        (cache / "kernels-fedcba9876543210").symlink_to(cache / kernels)
        shutil.copytree(cache / kernels, cache / "kernels-aaaaaaaaaaaaaaaa")  # of today
        for name in (*foreign, kernels):
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
        assert {path.parts[2] for path in gone} == {kernels} and {
            path.parts[0] for path in gone
        } == {"repository"}


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
        "import hdp_nb; from hdp_nb.readers import load_corpus; "
        "print(hdp_nb.__file__, hdp_nb.__version__, *[load_corpus(name).n_docs > 0 for name in "
        "('sotu', 'kjv', 'alice', 'jargon')], sep='\\n')"
    )
    env = {**os.environ, "PYTHONPATH": str(installed / "site")}
    file, version, *loaded = run(sys.executable, "-c", code, cwd=installed, env=env).split()
    assert Path(file).is_relative_to(installed / "site") and version == hdp_nb.__version__
    assert loaded == ["True"] * 4
    assert (installed / "site" / "hdp_nb" / "py.typed").is_file()


def test_wheel_brings_the_command_and_nothing_else(installed):
    [folder] = (installed / "site").glob("hdp_nb-*.dist-info")
    assert "hdp_nb = hdp_nb.cli:main" in (folder / "entry_points.txt").read_text()
    assert {path.name for path in (installed / "site").iterdir()} == {"hdp_nb", folder.name, "bin"}


def test_public_names_are_at_the_top():
    assert hdp_nb.HDP is hdp_nb.estimators.HDP and hdp_nb.load_corpus is hdp_nb.readers.load_corpus
    assert all(callable(getattr(hdp_nb, name)) for name in hdp_nb.__all__) and {
        *hdp_nb.__all__
    } <= {*dir(hdp_nb)}
    assert not hasattr(hdp_nb, "no_such_name")
    modules = {path.stem for path in Path(hdp_nb.__file__).parent.glob("[!_]*.py")} - {"cli"}
    assert modules == {*hdp_nb._MODULES}


def test_every_model_has_a_quick_start():
    cells = json.loads((ROOT / "nbs" / "77_quickstart.ipynb").read_text(encoding="utf-8"))["cells"]
    titles = re.findall(
        r"^## (\w+)$",
        "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"),
        re.MULTILINE,
    )
    assert sorted(titles) == sorted(
        {name for name in hdp_nb.estimators.__all__ if name[0].isupper()} - {"TopicModel"}
    )
    assert all(len(cell["source"]) <= 10 for cell in cells if cell["cell_type"] == "code")
