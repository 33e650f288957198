"""Everything one does with a clone of hdp_nb, in one place; needs nothing but Python with pip.

    python tools/run.py demo               fit topics to the State of the Union addresses, into
                                           results/sotu
    python tools/run.py test [arguments]   run the tests (arguments go to pytest: --slow for all
                                           of them, -k name)
    python tools/run.py site [folder]      build the documentation, into _site

and for whoever changes a notebook:

    python tools/run.py notebooks [--slow] [names]   run notebooks and store what they print
    python tools/run.py tasks [names]      run the code of the task pages and store what it prints
                                           and draws
    python tools/run.py export             notebooks -> hdp_nb/*.py, and index.ipynb -> README.md
    python tools/run.py clean              format notebooks and scripts, and strip from the
                                           notebooks what does not belong into git
    python tools/run.py moving             compile the kernels that move on the site's pages
    python tools/run.py mutants MODULE     change kernels at random: do the tests notice?
    python tools/run.py hooks              let git export and clean before every commit

Packages go into .venv/ beside this folder, in exactly the versions that are tested; the second
time everything is in place.  A new Python or new pins mean: installed anew.
"""

import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
VENV = ROOT / ".venv"
WINDOWS = os.name == "nt"
PINS = {"demo": ["requirements"], "mutants": ["requirements-dev", "requirements-mutants"]}
BIN = VENV / ("Scripts" if WINDOWS else "bin")
PYTHON = str(BIN / ("python.exe" if WINDOWS else "python"))


def fail(message):
    sys.exit("tools/run.py: " + message)


def succeeds(*command):
    """Run a command out of sight; did it end well?"""
    return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def has(module):
    return importlib.util.find_spec(module) is not None


def make_environment():
    """Make .venv, with pip in it, by whichever of the ways this Python has."""
    if os.path.exists(PYTHON) and succeeds(PYTHON, "-m", "pip", "--version"):
        return
    print("Making .venv with Python {}.{}.{}".format(*sys.version_info), flush=True)
    venv = [sys.executable, "-m", "venv", "--clear", str(VENV)]
    if has("venv") and has("ensurepip") and succeeds(*venv):
        return
    # Debian and Ubuntu leave ensurepip out; then the pip that we have puts another into .venv.
    if (
        has("venv")
        and has("pip")
        and succeeds(*venv, "--without-pip")
        and succeeds(sys.executable, "-m", "pip", "--python", PYTHON, "install", "pip")
    ):
        return
    if has("virtualenv") and succeeds(sys.executable, "-m", "virtualenv", "--clear", str(VENV)):
        return
    if not (has("pip") or has("ensurepip")):
        fail(
            "this Python has no pip; install it (Debian, Ubuntu: apt install python3-pip"
            " python3-venv)."
        )
    fail(
        f"cannot make a virtual environment in {VENV}. If the folder is writable and the network is"
        " there, install venv (Debian, Ubuntu: apt install python3-venv) or virtualenv (pip install"
        " virtualenv)."
    )


def set_up(*names):
    """Install the packages of files with pins, and hdp_nb itself, unless that is done already."""
    if sys.version_info < (3, 11):  # noqa: UP036  (older ones read this file, too)
        fail(
            "needs Python 3.11 or newer, but {} is {}.{}.".format(
                sys.executable, *sys.version_info[:2]
            )
        )
    pins = [TOOLS / f"{name}.txt" for name in names]
    read = pins + [ROOT / name for name in ("pyproject.toml", "setup.py")]
    state = hashlib.sha256(
        b"\0".join([path.read_bytes() for path in read] + [bytes(ROOT)])
    ).hexdigest()
    stamp = VENV / (pins[-1].stem + ".done")
    make_environment()
    if stamp.exists() and stamp.read_text() == state:
        return
    # Compiling what is installed would take half of the time: below, on all cores.
    pip = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile", "-qq"]
    print(
        f"Installing the packages that tools/{pins[-1].name} names; the first time takes a minute"
        " or two",
        flush=True,
    )
    if subprocess.call(pip + [part for path in pins for part in ("-r", str(path))]):
        fail(
            f"pip could not install tools/{pins[-1].name} (see above); it needs a network, and must"
            " know the proxy if there is one (HTTPS_PROXY)."
        )
    if subprocess.call(pip + ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)]):
        fail("pip could not install hdp_nb itself (see above).")
    # Packages hold files that are no Python of this version, which compileall says and skips;
    # nobody runs their tests.
    whole = ["-m", "compileall", "-q", "-j", "0", "-x", r"[\\/]tests?[\\/]"]
    succeeds(PYTHON, *whole, str(VENV), str(ROOT / "hdp_nb"))
    stamp.write_text(state)


def command(task, arguments):
    """What a task stands for, to be run in the repository."""
    if task == "demo":
        return [
            PYTHON,
            "-m",
            "hdp_nb",
            "fit",
            "sotu",
            "--out",
            os.path.join("results", "sotu"),
            "--overwrite",
            "--eta",
            "0.1",
            "--n-iter",
            "200",
        ] + arguments
    if task == "test":
        cores = (
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1
        )
        # More than cores: tests wait for browsers, kernels of notebooks and files, too.
        workers = ["-n", str(min(2 * cores, 4)), "--dist", "loadgroup"]
        return [PYTHON, "-m", "pytest", *workers, *arguments]
    if task == "site":
        out, *options = arguments or ["_site"]
        sphinx = "-m sphinx -q -E -W --keep-going -j 2 -d build/doctrees -c tools/site nbs".split()
        return [PYTHON, *sphinx, out, *options]
    if task == "moving":
        return [PYTHON, str(TOOLS / "moving.py"), *arguments]
    if task == "tasks":
        return [PYTHON, str(TOOLS / "tasks.py"), *arguments]
    if task == "mutants":
        return [PYTHON, str(TOOLS / "mutants.py"), *arguments]
    if task in ("notebooks", "export", "clean", "hooks"):
        return [PYTHON, str(TOOLS / "notebooks.py"), task] + arguments
    fail(f"unknown task {task!r}; try python tools/run.py --help")


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) > 1 else 2
    todo = command(sys.argv[1], sys.argv[2:])
    set_up(*PINS.get(sys.argv[1], ["requirements-dev"]))
    # Ctrl-C is the child's to answer: it may have results to save. (A handler of ours is not
    # inherited.)
    signal.signal(signal.SIGINT, lambda *_: None)
    # Compiled kernels are kept: the second demo begins at once, and the processes of the tests
    # share theirs.
    os.environ.setdefault("HDP_NB_CACHE", str(ROOT / ".numba_cache"))
    status = subprocess.call(todo, cwd=str(ROOT))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
