"""Run, export and clean the notebooks.  `tools/run.py` calls this; tests and site use its parts."""

import argparse
import asyncio
import base64
import os
import posixpath
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import nbformat
import zmq
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parent.parent


def notebooks(names=(), root=ROOT):
    """The notebooks in reading order, index first; or those of the given names.

    A name is the beginning of a notebook's path within nbs/ (`04_topics`, `04_topics/01`), with or
    without the numbers (`topics/franchise`, `franchise`).
    """
    nbs = root / "nbs"
    found = [nbs / "index.ipynb"] if (nbs / "index.ipynb").exists() else []
    found += sorted(nbs.glob("[0-9][0-9]_*/[0-9][0-9]_*.ipynb"))

    def fits(path, name):
        whole = page(path, root)
        plain = re.sub(r"\b\d\d_", "", whole)
        return any(one.startswith(name) for one in (whole, plain, plain.rpartition("/")[2]))

    if unknown := [name for name in names if not any(fits(path, name) for path in found)]:
        sys.exit(
            f"no notebook is called {unknown[0]!r}; there are"
            f" {', '.join(page(path, root) for path in found)}"
        )
    return [path for path in found if not names or any(fits(path, name) for name in names)]


def page(path, root=ROOT):
    """A notebook's or a page's name: its path within nbs/, without the ending."""
    return path.relative_to(root / "nbs").with_suffix("").as_posix()


def modules(root=ROOT):
    """The files of the package that are made from notebooks, by module: `topics.franchise`."""
    package = root / "hdp_nb"
    return {
        ".".join(path.relative_to(package).with_suffix("").parts): path
        for path in sorted(package.glob("*/[!_]*.py"))
    }


def read(path):
    return nbformat.read(path, as_version=4)


def directives(cell):
    """nbdev's `#| name: value` lines at the head of a code cell, as a dict, and the code under
    them.
    """
    lines, found = cell.source.splitlines(), {}
    while lines and (match := re.match(r"#\|\s*([\w-]+)\s*:?\s*(.*)", lines[0])):
        found[match[1]] = match[2].strip().strip('"')
        lines.pop(0)
    return found, "\n".join(lines).strip("\n")


def is_run(cell, slow=False, long=True):
    """Slow cells are run on request only, long ones unless in haste, and cells with `#| eval:
    false` never.
    """
    found, _ = directives(cell)
    wanted = (slow or "slow" not in found) and (long or "long" not in found)
    return cell.cell_type == "code" and found.get("eval") != "false" and wanted


class Runner(NotebookClient):
    """Runs a notebook in a kernel of its own; the stored outputs of cells it leaves out stay."""

    slow, long, forks = False, True, None

    def create_kernel_manager(self):
        manager = super().create_kernel_manager()
        if self.forks is not None:
            start = [sys.executable, str(ROOT / "tools" / "kernels.py"), "start", self.forks]
            manager.kernel_spec.argv = [*start, "-f", "{connection_file}"]
        return manager

    async def async_execute_cell(self, cell, cell_index, **kwargs):
        if not is_run(cell, self.slow, self.long):
            return cell
        watching = asyncio.create_task(self.look_again())
        try:
            return await super().async_execute_cell(cell, cell_index, **kwargs)
        finally:
            watching.cancel()

    async def look_again(self):
        """Ask the sockets every other second what has come.

        On a busy machine asyncio sometimes misses the one signal that ZeroMQ gives of a message,
        and would find the kernel's reply only once the cell's time is up, ten minutes later.
        """
        while True:
            await asyncio.sleep(2)
            for channel in (self.kc.shell_channel, self.kc.iopub_channel):
                channel.socket.get(zmq.EVENTS)  # schedules what waits, too


def execute(nb, folder, slow=False, long=True, forks=None, formats=("png",)):
    """Run `nb` (changed in place) in its folder, as a reader would; an error raises.

    `forks` is the socket of a server of kernels, if they are not to be started anew; `formats` are
    those of the figures.
    """
    runner = Runner(
        nb,
        timeout=3600 if slow else 600,
        kernel_name="python3",
        extra_arguments=["--log-level=ERROR", f"--InlineBackend.figure_formats={set(formats)}"],
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    )
    runner.slow, runner.long, runner.forks = slow, long, forks
    # Without the tests' MPLBACKEND, which would keep pictures from showing; the same figure is to
    # be the same text whenever and wherever it is drawn.
    env = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    env |= {"MATPLOTLIBRC": str(ROOT / "tools" / "matplotlibrc"), "SOURCE_DATE_EPOCH": "0"}
    runner.execute(env=env)
    nb.metadata.pop("widgets", None)  # what sliders were left at, under names drawn at random


def nbdev(command, *arguments, root=ROOT):
    """Call one of nbdev's commands (in a process of its own: it keeps its settings for good)."""
    env = {name: value for name, value in os.environ.items() if name != "IN_TEST"}
    subprocess.run(
        [Path(sys.executable).with_name(command), *arguments], cwd=root, env=env, check=True
    )


def ruff(*arguments, root=ROOT):
    """Call ruff on notebooks and scripts; whether it has nothing left to say."""
    return subprocess.call([sys.executable, "-m", "ruff", *arguments, "."], cwd=root) == 0


def clean(root=ROOT):
    """Format notebooks and scripts, strip from notebooks what does not belong in git.

    Whether no mistake is left that ruff cannot mend.
    """
    good = ruff("check", "--fix", "--quiet", root=root)
    good = ruff("format", "--quiet", root=root) and good
    nbdev("nbdev-clean", root=root)
    return good


def readme(root=ROOT):
    """index.ipynb as Markdown, and its pictures: {path: bytes}.

    (nbdev-readme would need Quarto.)  Links are whole addresses: package indexes show it, too.
    Cells with nothing between them are one block, and long lines of outputs are wrapped.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    repository = project["urls"]["Repository"]
    blob = f"]({repository}/blob/main/"
    parts, files = (
        ["<!-- Made from nbs/index.ipynb by `python tools/run.py export`: edit that. -->"],
        {},
    )
    for cell in read(root / "nbs" / "index.ipynb").cells:
        if cell.cell_type == "markdown":
            parts.append(
                re.sub(
                    r"\]\((?!\w+:|#)([^)\s]+)",
                    lambda link: blob + posixpath.normpath("nbs/" + link[1]),
                    cell.source,
                )
            )
        if cell.cell_type != "code" or "hide" in (found := directives(cell))[0] or not found[1]:
            continue
        if found[0].get("echo") != "false":
            if parts[-1].startswith("```python\n"):  # imports, which stand in cells of their own
                parts[-1] = f"{parts[-1][:-4]}\n\n{found[1]}\n```"
            else:
                parts.append(f"```python\n{found[1]}\n```")
        for output in cell.outputs:
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                name = f"nbs/images/index-{len(files) + 1}.png"
                files[name] = base64.b64decode(data["image/png"])
                parts.append(f"![{found[0].get('fig-alt', '')}]({repository}/raw/main/{name})")
            else:
                lines = data["text/plain"].rstrip().splitlines()
                parts.append(
                    "\n".join(["```", *(textwrap.fill(line, 88) for line in lines), "```"])
                )
    return {"README.md": ("\n\n".join(parts) + "\n").encode(), **files}


def wrap_names(module):
    """The text of a module, with the list of its public names in lines of at most 100 columns."""
    fill = textwrap.TextWrapper(100, subsequent_indent=" " * 11, break_long_words=False).fill
    return re.sub(
        r"^__all__ = \[.*?\]",
        lambda names: fill(" ".join(names[0].split())),
        module,
        count=1,
        flags=re.MULTILINE | re.DOTALL,
    )


def export(root=ROOT):
    """Write what is made from the notebooks: the modules, the README, lists of all pages."""
    nbdev("nbdev-export", root=root)
    for path in modules(root).values():
        path.write_bytes(wrap_names(path.read_text(encoding="utf-8")).encode())
    import book

    for name, content in {**readme(root), **book.made(root)}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(content)


def store_line_drawings(nb):
    """Of figures drawn in both formats keep one: vectors, unless they take much more room, as they
    do where a figure is an image or has thousands of points.
    """
    for cell in nb.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if {"image/png", "image/svg+xml"} <= data.keys():
                data["image/svg+xml"] = data["image/svg+xml"].replace("\n", " ")
                small = len(data["image/svg+xml"]) < 1.25 * len(data["image/png"])
                del data["image/png" if small else "image/svg+xml"]


def run(paths, slow=False):
    """Run notebooks and store what their cells give."""
    for path in paths:
        print(page(path), flush=True)
        nb = read(path)
        # The README's picture is shown by package indexes, which take no vectors.
        execute(nb, path.parent, slow, formats=("png",) if path.stem == "index" else ("png", "svg"))
        store_line_drawings(nb)
        nbformat.write(nb, path)
        nbdev("nbdev-clean", "--fname", str(path))


def hooks():
    """Let git check notebooks before a commit, and merge them cell by cell."""
    for name, value in {
        "core.hooksPath": "tools/hooks",
        "merge.jupyternotebook.name": "merge notebooks by cell",
        "merge.jupyternotebook.driver": ".venv/bin/nbdev-merge %O %A %B %P",
    }.items():
        subprocess.run(["git", "config", name, value], cwd=ROOT, check=True)


MADE = ("nbs/**/*.ipynb", "nbs/images/*", "hdp_nb/**/*.py", "README.md")
SCRIPTS = ("tests/**/*.py", "tools/**/*.py", "benchmarks/**/*.py", "setup.py")


def before_commit():
    """For the hook: clean and export; stop the commit if that changed a file or found a mistake."""

    def state():
        return {
            path: path.read_bytes() for pattern in (*MADE, *SCRIPTS) for path in ROOT.glob(pattern)
        }

    before = state()
    good = clean()
    export()
    after = state()
    changed = [
        str(path.relative_to(ROOT)) for path in sorted(after) if after[path] != before.get(path)
    ]
    if changed:
        sys.exit(
            f"Formatted, cleaned or exported: {', '.join(changed)}. Look, `git add` them, and"
            " commit again."
        )
    if not good:
        sys.exit("Mend what ruff says, and commit again.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["notebooks", "export", "clean", "hooks", "before-commit"])
    parser.add_argument(
        "names",
        nargs="*",
        help="notebooks, by the beginning of their names (topics/franchise); all if none is given",
    )
    parser.add_argument("--slow", action="store_true", help="run cells marked slow, too")
    args = parser.parse_intermixed_args()
    if args.task == "notebooks":
        run(notebooks(args.names), args.slow)
    elif args.task == "clean":
        sys.exit(not clean())
    else:
        {"export": export, "hooks": hooks, "before-commit": before_commit}[args.task]()


if __name__ == "__main__":
    main()
