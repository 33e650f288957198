"""Lists that the order of folders says: the page of the book, the API's modules, Quarto's sidebar.

`tools/run.py export` writes them.  A chapter is a folder of nbs/ with a number; its `index.md` has
a title, one sentence after `>`, and what a reader should know before.
"""

import re

from notebooks import ROOT, directives, modules, notebooks, page, read

NOTE = "<!-- Made by `python tools/run.py export` from {}: edit those. -->\n\n"


def heading(text):
    """The title of a page and the sentence under it."""
    title = re.search(r"(?m)^# (.*)$", text)
    sentence = re.search(r"(?m)^> (.*)$", text)
    return title[1], sentence[1] if sentence else ""


def chapters(root=ROOT):
    """The folders of the book in reading order: (folder, title, sentence, its notebooks)."""
    by_folder = {}
    for path in notebooks(root=root):
        if path.parent.name != "nbs":
            by_folder.setdefault(path.parent, []).append(path)
    return [
        (folder.name, *heading((folder / "index.md").read_text("utf-8")), paths)
        for folder, paths in by_folder.items()
    ]


def made_by(root=ROOT):
    """Which notebook makes which module: {"topics.franchise": path}."""
    found = {}
    for path in notebooks(root=root):
        for cell in read(path).cells:
            name = directives(cell)[0].get("default_exp") if cell.cell_type == "code" else None
            if name:
                found[name] = path
    return found


def table(paths, root=ROOT, within=""):
    """Notebooks as a table, with links from a page in the folder `within`."""
    rows = ["| No. | notebook | what is in it |", "|---|---|---|"]
    for path in paths:
        title, sentence = heading(read(path).cells[0].source)
        link = page(path, root).removeprefix(within)
        rows.append(f"| {path.name[:2]} | [{title}]({link}.ipynb) | {sentence} |")
    return "\n".join(rows)


def contents(names, **options):
    """A hidden table of contents."""
    said = "".join(f":{name}: {value}\n" for name, value in options.items())
    return "```{toctree}\n:hidden:\n" + said + "\n" + "\n".join(names) + "\n```\n"


def book(root=ROOT):
    """The page of the book: every chapter with its notebooks."""
    parts = [NOTE.format("the notebooks and the chapters' index.md") + "# The book\n"]
    parts.append("> Every notebook, chapter by chapter, in the order of reading.\n")
    parts.append(
        "The notebooks are the source of the package: what they export is what you install. Those"
        " about models derive the mathematics from the papers, check it by brute force on cases"
        " small enough to enumerate, and compile the sampler that follows from it. Every sampler is"
        " checked against posteriors computed by enumeration, and every such check must reject a"
        " sampler made wrong on purpose. Where a paper's formula fails the check, the notebook"
        " shows it and says what to use instead.\n"
    )
    whole = chapters(root)
    firsts = ", ".join(
        f"[{title}]({page(paths[0], root)}.ipynb)" for _, title, _, paths in whole[:4]
    )
    parts.append(f"If you have little time, read the first notebook of each of these: {firsts}.\n")
    for folder, title, sentence, paths in whole:
        parts.append(f"## {int(folder[:2])}. [{title}]({folder}/index.md)\n\n{sentence}\n")
        parts.append(table(paths, root) + "\n")
    parts.append(contents([f"{folder}/index" for folder, *_ in whole]))
    return "\n".join(parts)


def api(root=ROOT):
    """The API's page: what is written by hand, and the modules of every part."""
    path = root / "nbs" / "api.md"
    by_hand = path.read_text("utf-8").partition("\n## All modules\n")[0]
    parts = [by_hand, "\n## All modules\n\nThe bricks of the classes above, part by part.\n"]
    of_part = {}
    for name in modules(root):
        of_part.setdefault(name.partition(".")[0], []).append(name)
    places = {name: number for number, name in enumerate(made_by(root))}
    for part, names in sorted(of_part.items(), key=lambda item: min(map(places.get, item[1]))):
        lines = "".join(f"   {name}\n" for name in sorted(names, key=places.get))
        parts.append(
            f"\n### {part}\n\n```{{eval-rst}}\n.. currentmodule:: hdp_nb\n.. autosummary::\n"
            f"   :nosignatures:\n   :toctree: made\n   :caption: {part}\n\n{lines}```\n"
        )
    return "".join(parts)


def quarto(root=ROOT):
    """Quarto's settings: what is written by hand, and all pages in their order."""
    by_hand = (root / "_quarto.yml").read_text("utf-8").partition("    contents:\n")[0]
    tasks = re.findall(
        r"(?m)^(\w+)$", (root / "nbs/tasks/index.md").read_text("utf-8").split("```")[1]
    )
    lines = ["    contents:", "      - index.ipynb", "      - section: tasks/index.md"]
    lines += ["        contents:"] + [f"          - tasks/{name}.md" for name in tasks]
    lines += ["      - api.md", "      - section: book.md", "        contents:"]
    for folder, _, _, paths in chapters(root):
        lines += [f"          - section: {folder}/index.md", "            contents:"]
        lines += [f"              - {page(path, root)}.ipynb" for path in paths]
    lines += [f"      - {name}.md" for name in ("gallery", "moving", "glossary")]
    return by_hand + "\n".join(lines) + "\n"


def made(root=ROOT):
    """Every list, by the file that it goes into."""
    settings = quarto(root).encode()
    return {
        "nbs/book.md": book(root).encode(),
        "nbs/api.md": api(root).encode(),
        "_quarto.yml": settings,
        "nbs/_quarto.yml": settings,
    }
