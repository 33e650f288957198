"""What the code of the task pages prints and draws, kept below each block.

    python tools/run.py tasks [names]

runs the blocks of nbs/tasks/*.md in order, page by page, each page in a process and a folder of
its own, with the tables of data/ in it.  What a block prints is written into the ```text block
below it; lines of a ```sh block are commands, of which standard output is shown.  A block that
draws has lines of the form ![what to see](../images/NAME.png) below that, one for each figure;
they are saved there.
"""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

TOOLS = Path(__file__).resolve().parent
ROOT = TOOLS.parent
TASKS = ROOT / "nbs" / "tasks"
BLOCK = re.compile(
    r"^```(?P<kind>python|sh)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<text>.*?)^```\n)?"
    r"(?P<pictures>(?:\n!\[[^\]]*\]\([^)]*\)\n)*)",
    re.M | re.S,
)


class Block(NamedTuple):
    """Code of a page, what is stored of what it prints, where its figures are, and its language."""

    code: str
    text: str
    pictures: list[str]
    kind: str = "python"


def pages():
    """The task pages, in the order of their names."""
    return sorted(set(TASKS.glob("*.md")) - {TASKS / "index.md"})


def blocks(page):
    """The blocks of a page."""
    found = []
    for match in BLOCK.finditer(page):
        pictures = re.findall(r"\]\(([^)]*)\)", match["pictures"])
        found.append(Block(match["code"], match["text"] or "", pictures, match["kind"]))
    return found


def bring_tables(folder):
    """Copy the tables of data/, which pages read, into a folder."""
    for path in (ROOT / "data").glob("*.csv"):
        shutil.copy(path, folder)


def type_commands(code):
    """Run commands as a shell does, `hdp_nb` among them; return what they print."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{code}\n{done.stderr}")
    return done.stdout


def execute(code, where, names, kind="python"):
    """Run a block; return what it prints and the figures that it leaves to pyplot."""
    import matplotlib.pyplot as plt

    if kind == "sh":
        return type_commands(code), []

    plt.close("all")
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(code, where, "exec"), names)
    return said.getvalue(), [plt.figure(number) for number in plt.get_fignums()]


def fill(path):
    """Run a page in the current folder; return it with all that its blocks print, save figures."""
    page, names = path.read_text(encoding="utf-8"), {"__name__": "task"}
    numbers = iter(range(1, 1000))

    def filled(match):
        number = next(numbers)
        where = f"{path.name}, block {number}"
        text, figures = execute(match["code"], where, names, match["kind"])
        pictures = re.findall(r"\]\(([^)]*)\)", match["pictures"])
        if len(figures) != len(pictures):
            sys.exit(
                f"{where}: draws {len(figures)} figures, and {len(pictures)} pictures stand below"
                f" it; a figure needs a line ![what to see](../images/{path.stem}-{number}.png)"
            )
        for figure, name in zip(figures, pictures):
            figure.savefig(path.parent / name, dpi=figure.dpi)
        out = f"```{match['kind']}\n{match['code']}```\n"
        if text:
            out += f"\n```text\n{text.rstrip()}\n```\n"
        return out + match["pictures"]

    return BLOCK.sub(filled, page)


def shape(text):
    """The lines of a text without digits and blanks, each once.

    Another processor rounds differently, and a chain then goes other ways.
    """
    lines = text.splitlines()
    return {re.sub(r"[\s\d.+-]+|(?<=\d)e(?=[+-]?\d)", "", line) for line in lines} - {""}


def main(names):
    if names[:1] == ["--here"]:
        (path,) = (path for path in pages() if path.stem == names[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are no part of the page
            page = fill(path)
        path.write_text(page, encoding="utf-8")
        return
    for path in pages():
        if not names or path.stem in names:
            print(path.stem, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                bring_tables(folder)
                settings = {"MPLBACKEND": "Agg", "MATPLOTLIBRC": str(TOOLS / "matplotlibrc")}
                command = [sys.executable, str(Path(__file__).resolve()), "--here", path.stem]
                subprocess.run(command, cwd=folder, env=os.environ | settings, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
