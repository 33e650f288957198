"""The documentation, by Sphinx: `python tools/run.py site` makes it in _site, from what is in nbs.

Notebooks are shown with their stored outputs.  What is done to them on the way is here: cells that
only import are folded, and so are long ones that go into the package; equations are linked where
they are cited; a line under the title says what a page builds on.
"""

import ast
import base64
import inspect
import os
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import yaml
from docutils import nodes
from sphinx import addnodes

os.environ["NUMBA_DISABLE_JIT"] = "1"  # docstrings are those of functions, not of their dispatchers
HERE = Path(__file__).resolve().parent
ROOT, NBS = HERE.parent.parent, HERE.parent.parent / "nbs"
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT)]
from notebooks import directives, notebooks, read  # noqa: E402
from symbols import say_symbols, symbols_in  # noqa: E402

import hdp_nb  # noqa: E402

project, author, version = "hdp_nb", "The hdp_nb authors", hdp_nb.__version__
copyright = f"{author}, Apache 2.0"
SOURCE = "https://github.com/hdp-nb/hdp_nb/blob/main/"
COLAB = "https://colab.research.google.com/github/hdp-nb/hdp_nb/blob/main/"
INSTALL = "%pip install git+https://github.com/hdp-nb/hdp_nb"
CAPTIONS = yaml.safe_load((HERE / "captions.yml").read_text(encoding="utf-8"))
LONG = 25  # lines; a longer cell of the package is folded
MADE = NBS / "made"  # what is written for the build: pages of the API, pictures of the gallery

extensions = ["myst_nb", "sphinx.ext.autodoc", "numpydoc", "sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["profile_default", ".ipynb_checkpoints", "_quarto.yml"]
nb_execution_mode, nb_merge_streams = "off", True
myst_enable_extensions = ["dollarmath", "colon_fence", "smartquotes"]
myst_dmath_allow_space, myst_dmath_allow_digits, myst_dmath_double_inline = False, False, True
myst_heading_anchors = 4
default_role, smartquotes = "literal", False  # straight quotes in what is typed
autodoc_member_order, autodoc_typehints = "bysource", "none"
numpydoc_show_class_members = False
copybutton_exclude = ".linenos, .gp"

html_theme, html_title = "pydata_sphinx_theme", "hdp_nb"
html_static_path = ["static", "katex"]
html_css_files, html_js_files = (
    ["katex.min.css", "site.css"],
    ["katex.min.js", ("site.js", {"defer": ""})],
)
html_math_renderer, html_search_scorer = "katex", str(HERE / "scorer.js")
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_sidebars = {"index": [], "gallery": [], "moving": [], "glossary": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "github_url": "https://github.com/hdp-nb/hdp_nb",
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


# The order of the pages stands in _quarto.yml, for both builders.

SIDEBAR = yaml.safe_load((ROOT / "_quarto.yml").read_text(encoding="utf-8"))["website"]["sidebar"]


def page_of(entry):
    """The page that an entry of the sidebar is or begins with; None for a mere title."""
    name, suffix = os.path.splitext(entry if isinstance(entry, str) else entry["section"])
    return "/" + name if suffix in (".ipynb", ".md") else None


def numbered(page):
    number = re.match(r"/(\d\d)_", page)
    return f"{number[1]} {HOUSE[page[1:]][0]} <{page}>" if number else page


def toctrees(docname):
    """The pages under a page: those without a title, and then title by title."""
    under = {
        page_of(entry): entry["contents"] for entry in SIDEBAR["contents"][1:] if "section" in entry
    }
    entries = SIDEBAR["contents"][1:] if docname == "index" else under.get("/" + docname, [])
    trees = [("", filter(page_of, entries))]
    trees += [(entry["section"], entry["contents"]) for entry in entries if not page_of(entry)]
    return "".join(
        toctree(title, [numbered(page_of(page)) for page in pages]) for title, pages in trees
    )


def toctree(title, pages):
    head = "```{toctree}\n:hidden:\n" + f":caption: {title}\n" * bool(title)
    return "\n\n" + "\n".join([head, *pages, "```"]) if (pages := list(pages)) else ""


# Notebooks and pages on their way in.


def on_source(app, docname, source):
    path = Path(app.env.doc2path(docname))
    outside = lambda link: link_out(path.parent, link)
    if path.suffix == ".ipynb":
        source[0] = nbformat.writes(for_readers(docname, read(path), outside))
    elif path.suffix == ".md":
        text = re.sub(r"\]\((?!\w+:|#)([^)\s]+)", outside, source[0])
        if docname == "gallery":
            text = re.sub(PICTURE, show_picture, text, flags=re.MULTILINE)
        if docname == "api":
            text = api(text)
        source[0] = text + toctrees(docname)


def link_out(folder, link):
    """A link out of nbs leads to GitHub."""
    target = (folder / link[1].partition("#")[0]).resolve()
    if target.is_relative_to(NBS):
        return link[0]
    return link[0].replace(link[1], SOURCE + os.path.relpath(folder / link[1], ROOT))


def for_readers(docname, nb, outside):
    cells, number, heading = [], 0, docname
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\]\((?!\w+:|#)([^)\s]+)", outside, cell.source)
            heading = ([heading] + re.findall(r"^#+ (.*)", cell.source, re.M))[-1]
        elif cell.cell_type == "code":
            found, code = directives(cell)
            if "hide" in found or not code:
                continue
            cell.metadata, cell.source = {"mystnb": {}, "tags": []}, code
            if found.get("echo") == "false":
                cell.metadata["tags"] = ["remove-input"]
            elif docname != "index" and (folded := fold(code, "export" in found)):
                before = cells[-1] if cells else {}
                if folded == "Imports" == before.get("metadata", {}).get("folded"):
                    before.source += "\n\n" + code
                    continue
                cell.metadata = {
                    "folded": folded,
                    "tags": ["hide-input"],
                    "mystnb": {"code_prompt_show": folded, "code_prompt_hide": folded},
                }
            if any("image/png" in output.get("data", {}) for output in cell.outputs):
                number += 1
                seen = CAPTIONS.get(docname, {}).get(cell.id) or found.get("fig-alt") or heading
                cell.metadata["mystnb"]["image"] = {"alt": re.sub(r"[`$\\]", "", seen)}
                cell.metadata["mystnb"]["figure"] = {"caption": f"**Figure {number}.** {seen}"}
        cells.append(cell)
    for scene, at, under in MOVING:
        if at == docname:
            heads = [cell.source.partition("\n")[0].lstrip("# ") for cell in cells]
            cells.insert(heads.index(under) + 1, nbformat.v4.new_markdown_cell(scene))
    if docname == "index":
        cells.append(nbformat.v4.new_markdown_cell(toctrees(docname)))
    else:
        first, last = around(docname, cells)
        cells.insert(1, nbformat.v4.new_markdown_cell(first))
        cells.append(nbformat.v4.new_markdown_cell(last))
    nb.cells = cells
    return nb


# Figures that move stand in moving.md, and under the headings that they name.

MOVING = re.findall(
    r'(<figure class="moving" .*?data-at="(\w+): (.*?)">.*?</figure>)',
    (NBS / "moving.md").read_text(encoding="utf-8"),
    re.DOTALL,
)


def on_page(app, docname, template, context, doctree):
    if docname == "moving" or docname in [at for _, at, _ in MOVING]:
        app.add_js_file("kernels.js", defer="")
        app.add_js_file("moving.js", defer="")


def fold(code, exported):
    """What a folded cell is called, None for one that is shown."""
    try:
        body = ast.parse(re.sub(r"^[%!].*", "", code, flags=re.MULTILINE)).body
    except SyntaxError:
        return None
    body = [node for node in body if ast.unparse(node).partition(" = ")[0] != "_all_"]
    if all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body):
        return "Imports"
    names = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    private = all(name.startswith("_") for name in names)
    if exported and names and (private or len(code.splitlines()) > LONG):
        return f"{', '.join(names)}: {len(code.splitlines())} lines"
    return None


def house():
    """Of every notebook: its title, its module, and the notebooks that its code imports from."""
    made, uses = {}, {}
    for stem, cells in CELLS.items():
        code = [directives(cell) for cell in cells if cell.cell_type == "code"]
        exported = "\n".join(text for found, text in code if "export" in found)
        exported = exported or "\n".join(text for _, text in code)
        module = next((found["default_exp"] for found, _ in code if "default_exp" in found), None)
        used = set(re.findall(r"hdp_nb\.(\w+) import", exported))
        for names in re.findall(r"from hdp_nb import ([\w, ]+|\([^)]*\))", exported):
            home = [getattr(hdp_nb, name, None) for name in re.findall(r"\w+", names)]
            used |= {getattr(thing, "__module__", "").rpartition(".")[2] for thing in home}
        title = re.sub(r"^# ", "", cells[0].source.splitlines()[0])
        made[stem], uses[stem] = (title, module), used - PLUMBING
    by_module = {module: stem for stem, (_, module) in made.items() if module}
    return {
        stem: (*made[stem], [s for s in made if s in {by_module.get(m) for m in uses[stem]}])
        for stem in made
    }


CELLS = {path.stem: read(path).cells for path in notebooks()}
OWN_SYMBOLS = {
    stem: symbols_in(cell.source)
    for stem, cells in CELLS.items()
    for cell in cells
    if cell.cell_type == "markdown" and re.search(r"\| meaning \|$", cell.source, re.M)
}
# Our own equations, which have a letter, and the notebook in which each stands, if it is one only.
TAGS = {
    (tag, stem)
    for stem, cells in CELLS.items()
    for cell in cells
    for tag in re.findall(r"\\tag\{([A-Z]\d+)\}", cell.source)
}
EQUATIONS = {t: stem for t, stem in TAGS if sum(t == other for other, _ in TAGS) == 1}
PLUMBING = {"checks", "files", "style", "plates"}  # everybody's, and nobody's prerequisite
HOUSE = house()
MODULES = [f"hdp_nb.{module}" for _, module, _ in HOUSE.values() if module]


def around(docname, cells):
    """The lines under the title and at the end: how long it takes, what it builds on, where it
    leads, and how to run it.
    """
    prose = sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
    code = sum(
        len(cell.source.splitlines())
        for cell in cells
        if cell.cell_type == "code" and "hide-input" not in cell.metadata.tags
    )
    _, module, on = HOUSE[docname]
    leads = [stem for stem, (_, _, uses) in HOUSE.items() if docname in uses]
    link = lambda stem: f"[{HOUSE[stem][0]}]({stem}.ipynb)"
    ways = []
    for what, stems in (("Builds on", on), ("Leads to", leads)):
        if stems:
            more = f" and {len(stems) - 6} more" * (len(stems) > 6)
            ways.append(f"**{what}** " + ", ".join(map(link, stems[:6])) + more)
    parts = [f"About {round(prose / 200 + code / 30) or 1} minutes", *ways]
    if module:
        parts.append(f"[API](made/hdp_nb.{module}.rst)")
    parts += ["[Symbols](glossary.md)", f"[Notebook]({SOURCE}nbs/{docname}.ipynb)"]
    run = f"[Run it in Colab]({COLAB}nbs/{docname}.ipynb) after a cell with `{INSTALL}`"
    line = lambda *texts: ":::{div} reading\n" + "\n\n".join(texts) + "\n:::"
    return line(" · ".join(parts), run), line(" · ".join(ways)) if ways else ""


# The gallery: a link alone on its line becomes the n-th picture under that heading, linked.

PICTURE = r'^\[(.*)\]\((\w+)\.ipynb#([\w-]+)(?: "(\d)")?\)$'


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def show_picture(link):
    alt, name, anchor, n = link.groups(default="1")
    at, found = None, []
    for cell in CELLS[name]:
        if cell.cell_type == "markdown":
            at = ([at] + [slug(h) for h in re.findall(r"^#+ (.*)", cell.source, re.M)])[-1]
        elif at == anchor:
            found += [o.data["image/png"] for o in cell.outputs if "image/png" in o.get("data", {})]
    picture = f"{name}-{anchor}-{n}.png"
    (MADE / picture).write_bytes(base64.b64decode(found[int(n) - 1]))
    return f"[![{alt}](made/{picture})]({name}.ipynb#{anchor})"


# The API: a page for every name that api.md lists, of a class, a function, or a whole module.


def thing_of(name):
    module, _, attribute = name.rpartition(".")
    return import_module(name) if name in MODULES else getattr(import_module(module), attribute)


LISTED = r"^- `([\w.]+)`$"


def api(text):
    """api.md with what each name is for, a link to its page, and a toctree of every section."""

    def entry(name):
        summary = inspect.getdoc(thing_of(name[1])).splitlines()[0]
        return f"- [`{name[1].removeprefix('hdp_nb.')}`](made/{name[1]}.rst): {summary}"

    sections = (text + "".join(f"- `{name}`\n" for name in MODULES)).split("\n## ")
    return "\n## ".join(
        re.sub(LISTED, entry, part, flags=re.M)
        + toctree(
            part.splitlines()[0], [f"/made/{name}" for name in re.findall(LISTED, part, re.M)]
        )
        for part in sections
    )


def make_api(app):
    MADE.mkdir(exist_ok=True)
    for old in MADE.iterdir():
        old.unlink()
    listed = re.findall(LISTED, (NBS / "api.md").read_text(encoding="utf-8"), re.M)
    things = {name: thing_of(name) for name in listed + MODULES}
    own = {id(t): name for name, t in things.items() if not inspect.ismodule(t)}
    for name, thing in things.items():
        module = thing.__name__ if inspect.ismodule(thing) else thing.__module__
        home = next(stem for stem, found in HOUSE.items() if f"hdp_nb.{found[1]}" == module)
        lines = [
            f"{name.removeprefix('hdp_nb.')}\n{'=' * len(name)}\n",
            f"Derived and tested in :doc:`/{home}`.\n",
        ]
        if inspect.ismodule(thing):
            lines += [inspect.getdoc(thing) + "\n", f".. currentmodule:: {name}\n"]
            for public in thing.__all__:
                part = getattr(thing, public)
                if id(part) in own:
                    lines.append(f":doc:`{own[id(part)]}`\n")
                elif callable(part) and inspect.getdoc(part):
                    lines.append(document(part, public, ""))
        else:
            lines += [f".. currentmodule:: {name.rpartition('.')[0]}\n"]
            lines += [document(thing, name.rpartition(".")[2], "\n   :inherited-members: object")]
        (MADE / f"{name}.rst").write_text("\n".join(lines), encoding="utf-8")


def document(thing, name, inherited):
    if inspect.isclass(thing):
        return f".. autoclass:: {name}\n   :members:{inherited}\n"
    return f".. autofunction:: {name}\n"


def skip(app, what, name, thing, skipped, options):
    of = getattr(thing, "__module__", None) or getattr(
        getattr(thing, "fget", None), "__module__", ""
    )
    return True if not (of or "").startswith("hdp_nb") else None


def plain_text(app, what, name, thing, options, lines):
    """Docstrings are for terminals: only backticks are markup there, no underscores or stars."""
    text = re.sub(
        r"`+[^`]*`+|^ *\*+\w|\w_(?!\w)|[*|]",
        lambda at: (
            at[0]
            if at[0][0] in "` " or at.end() - at.start() > 2
            else at[0][:-1] + "\\" + at[0][-1]
        ),
        "\n".join(lines),
        flags=re.MULTILINE,
    )
    lines[:] = text.split("\n")


# Equations.


# Of glossary.md on every page: a letter alone may be something else there, but for three.
SYMBOLS = symbols_in((NBS / "glossary.md").read_text(encoding="utf-8"))
SYMBOLS = {s: meaning for s, meaning in SYMBOLS.items() if len(s) > 1 or s in "KJV"}


def set_math(kind):
    def visit(self, node):
        said = say_symbols(
            node.astext(), {**SYMBOLS, **OWN_SYMBOLS.get(self.builder.current_docname, {})}
        )
        more = {"title": said} if said else {}
        tag = self.starttag(node, kind, "", CLASS="tex notranslate", **more)
        self.body.append(tag + self.encode(node.astext()) + f"</{kind}>")
        raise nodes.SkipNode

    return visit, None


def name_headers(app, doctree):
    """A table without a header has none; an empty corner is named for those who hear it."""
    for head in list(doctree.findall(nodes.thead)):
        if not head.astext().strip():
            head.parent.remove(head)
    for cell in doctree.findall(lambda node: isinstance(node.parent, nodes.row)):
        if isinstance(cell.parent.parent, nodes.thead) and not cell.astext().strip():
            cell += nodes.inline("", "of what", classes=["visually-hidden"])


def linked(node):
    "Whether it is part of a link."
    while node := node.parent:
        if isinstance(node, (nodes.reference, addnodes.pending_xref)):
            return True
    return False


def link_equations(app, doctree):
    tags = {}
    for block in doctree.findall(nodes.math_block):
        for tag in re.findall(r"\\tag\{([^}]*)\}", block.astext()):
            if tags.setdefault(tag, block) is block:
                block["ids"].append("eq-" + re.sub(r"\W", "p", tag))
    for text in list(doctree.findall(nodes.Text)):
        if isinstance(text.parent, (nodes.literal, nodes.title)) or linked(text):
            continue
        parts = re.split(r"(\([\w'’]{1,4}\))", text)
        links = []
        for part in parts:
            tag = part[1:-1].replace("’", "'")
            if tag in tags:
                links.append(nodes.reference("", part, refid=tags[tag]["ids"][-1]))
            elif tag in EQUATIONS:
                page = app.builder.get_relative_uri(app.env.docname, EQUATIONS[tag])
                links.append(nodes.reference("", part, refuri=f"{page}#eq-{tag}"))
            else:
                links.append(nodes.Text(part))
        if len(links) > 1:
            text.parent.replace(text, links)


def tidy(app, error):
    """MyST-NB leaves the notebooks that it has read, and their pictures, beside the site."""
    shutil.rmtree(Path(app.outdir).parent / "jupyter_execute", ignore_errors=True)


def setup(app):
    app.add_html_math_renderer("katex", set_math("span"), set_math("div"))
    app.connect("builder-inited", make_api)
    app.connect("build-finished", tidy, priority=900)
    app.connect("source-read", on_source)
    app.connect("autodoc-process-docstring", plain_text, priority=100)
    app.connect("autodoc-skip-member", skip)
    app.connect("doctree-read", name_headers)
    app.connect("doctree-read", link_equations)
    app.connect("html-page-context", on_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
