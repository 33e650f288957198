"""The documentation, by Sphinx: `python tools/run.py site` makes it in _site, from what is in nbs.

Notebooks are shown with their stored outputs.  What is done to them on the way is here: cells that
only import are folded, and so are long ones that go into the package; figures get their captions;
equations are linked where they are cited.  The pages besides the notebooks, in nbs/:

tasks/       a screen for each thing to do; the tests run their code
api.md       which names have a page of the API of their own, and under which heading; at its end,
             made by `tools/run.py export`, all modules; templates/ says what such pages have
book.md      the notebooks, chapter by chapter, made by `tools/run.py export`
moving.md    figures that move, each also under the heading of the notebook that it names;
             `tools/run.py moving` compiles them into static/kernels.js
glossary.md  symbols; what a notebook's own tables say in a column `meaning` goes before it there
gallery.md   the experiments; [what is seen](notebook.ipynb#heading "cell"), a link alone on its
             line, becomes the picture that the cell with this id has drawn

captions.yml says what to see in a figure, by notebook and cell, as a cell's own `#| fig-alt` does;
without either the site is not built.
"""

import gc
import os
import posixpath
import re
import shutil
import sys
from base64 import b64decode
from pathlib import Path

import nbformat
import yaml

os.environ["NUMBA_DISABLE_JIT"] = "1"  # docstrings are those of functions, not of their dispatchers
gc.disable()  # a sixth of the time, and what there is of garbage ends with the process
HERE = Path(__file__).resolve().parent
ROOT, NBS = HERE.parent.parent, HERE.parent.parent / "nbs"
sys.path[:0] = [str(HERE.parent), str(ROOT)]
import book  # noqa: E402
from notebooks import directives, modules, notebooks, page, read  # noqa: E402

import hdp_nb  # noqa: E402

project, author, version = "hdp_nb", "The hdp_nb authors", hdp_nb.__version__
copyright = f"{author}, Apache 2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
extensions += ["sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["profile_default", ".ipynb_checkpoints", "_quarto.yml"]
templates_path = [str(HERE / "templates")]
nb_execution_mode, nb_merge_streams = "off", True
myst_enable_extensions, myst_dmath_double_inline = ["dollarmath"], True
myst_heading_anchors = 4
default_role, smartquotes = "literal", False  # straight quotes in what is typed
autodoc_member_order, autodoc_typehints = "bysource", "none"
toc_object_entries_show_parents, add_function_parentheses = "hide", False
autosummary_generate = ["api.md"]
copybutton_prompt_text, copybutton_prompt_is_regexp = r">>> |\.\.\. ", True  # not copied
numpydoc_show_class_members = False

html_theme, html_title, html_favicon = "pydata_sphinx_theme", "hdp_nb", "static/icon.svg"
html_static_path = ["static", "katex"]
html_css_files = ["katex.min.css", "site.css", "moving.css"]
html_js_files = [("site.js", {"defer": ""}), ("moving.js", {"defer": ""})]
# Formulas stand on the pages as they stand in the notebooks; KaTeX sets them there (site.js).
mathjax_path, mathjax_inline, mathjax_display = "katex.min.js", ["", ""], ["", ""]
mathjax_options, myst_update_mathjax = {"defer": ""}, False
html_search_scorer = str(HERE / "scorer.js")
html_copy_source = html_show_sourcelink = False
html_sidebars = {"index": [], "gallery": [], "moving": [], "glossary": []}
html_theme_options = {
    "github_url": "https://github.com/hdp-nb/hdp_nb",
    "show_toc_level": 2,
    "article_header_end": ["reading"],
    "article_footer_items": ["reading"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Which notebook makes which module, and on which notebooks one builds: those whose modules are
# imported by its own module, or by its cells if it makes none.
CELLS = {page(path): read(path).cells for path in notebooks()}
TEXT = {stem: "\n".join(cell.source for cell in cells) for stem, cells in CELLS.items()}
MODULES = {page(path): module for module, path in book.made_by().items()}
FILES = modules()
CODE = TEXT | {s: FILES[m].read_text("utf-8") for s, m in MODULES.items()}


def used(code, part):
    """The modules that a module's or a notebook's code imports, by their names in the package."""
    near = [f"{part}.{name}" for name in re.findall(r"from \.(\w+) import", code)]
    return {*near, *re.findall(r"from (?:hdp_nb|\.)\.(\w+\.\w+) import", code)}


USED = {s: used(code, MODULES.get(s, "").partition(".")[0]) for s, code in CODE.items()}
# Used everywhere, and no prerequisite of anything.
LEFT_OUT = {None, "utils.checks", "utils.files", "utils.style", "plotting.plates"}
BUILDS_ON = {s: [t for t in CELLS if MODULES.get(t) in USED[s] - LEFT_OUT] for s in CELLS}
html_context = {
    "default_mode": "auto",
    "titles": {stem: text.partition("\n")[0][2:] for stem, text in TEXT.items()},
    "modules": MODULES,
    "builds_on": BUILDS_ON,
    "leads_to": {stem: [s for s, on in BUILDS_ON.items() if stem in on] for stem in CELLS},
}
PAGES = re.findall(r"^   ([\w.]+)$", (NBS / "api.md").read_text("utf-8"), re.M)
autosummary_context = {
    "home": {module: stem for stem, module in MODULES.items()},
    "module_of": {f"hdp_nb.{p}": hdp_nb._HOME.get(p, ".".join(p.split(".")[:2])) for p in PAGES},
}
shutil.rmtree(NBS / "made", ignore_errors=True)  # autosummary's pages, pictures of the gallery

CHAPTERS = {f"{folder}/index": paths for folder, _, _, paths in book.chapters()}

# Figures that move stand in moving.md, and under the headings that they name.
SCENE = r'(<figure class="moving" .*?data-at="([\w/]+): (.*?)">.*?</figure>)'
MOVING = re.findall(SCENE, (NBS / "moving.md").read_text("utf-8"), re.S)
CONTENTS = "```{toctree}\n:hidden:\n\ntasks/index\napi\nbook\ngallery\nmoving\nglossary\n```"
METADATA = {"language_info": {"name": "python", "pygments_lexer": "python3"}}
CAPTIONS = yaml.safe_load((HERE / "captions.yml").read_text("utf-8"))


def on_source(app, docname, source):
    """A page on its way in."""
    if docname == "gallery":
        source[0] = re.sub(r'(?m)^\[(.*)\]\((.*) "(\w+)"\)$', picture, source[0])
    if docname in CHAPTERS:
        paths = CHAPTERS[docname]
        names = [path.stem for path in paths]
        table = book.table(paths, within=f"{paths[0].parent.name}/")
        source[0] += f"\n{table}\n\n{book.contents(names)}"
    if docname not in CELLS:
        return
    cells, figures, places = [], 0, set()
    numbers = re.findall(r"\b(\d\d)_", docname)  # of the chapter, and of the notebook in it
    chapter = f"# {'.'.join(str(int(number)) for number in numbers)} " if numbers else "# "
    for cell in CELLS[docname]:
        found, code = directives(cell)
        shown, tags = {}, []
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\A# ", chapter, cite(cell.source, docname, places))
            for scene, at, heading in MOVING:
                if at == docname:
                    cell.source = re.sub(f"(?m)^#+ {heading}$", rf"\g<0>\n\n{scene}\n", cell.source)
        elif "hide" in found or code in ("", "use_style()"):
            continue
        elif fold(code, False) == "Imports" == cells[-1].metadata["mystnb"].get("code_prompt_show"):
            cells[-1].source += f"\n\n{code}"
            continue
        else:
            cell.source = code
            if found.get("echo") == "false":
                tags = ["remove-input"]
            elif docname != "index" and (folded := fold(code, "export" in found)):
                tags = ["hide-input"]
                shown["code_prompt_show"] = shown["code_prompt_hide"] = folded
            if any("image/" in str(output.get("data", {}).keys()) for output in cell.outputs):
                figures += 1
                seen = found.get("fig-alt") or CAPTIONS[docname][cell.id]
                shown["image"] = {"alt": re.sub(r"[`$\\]", "", seen)}
                shown["figure"] = {"caption": f"**Figure {figures}.** {seen}"}
        cell.metadata = {"mystnb": shown, "tags": tags}
        cells.append(cell)
    if docname == "index":
        cells.append(nbformat.v4.new_markdown_cell(CONTENTS))
    source[0] = nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata=METADATA))


def picture(found):
    """A link that is alone on its line, as the picture of the cell that its title names."""
    cell = next(cell for cells in CELLS.values() for cell in cells if cell.id == found[3])
    drawn = next(
        output.data for output in cell.outputs if "image/" in str([*output.get("data", ())])
    )
    vector, path = drawn.get("image/svg+xml"), NBS / f"made/{cell.id}.png"
    path = path.with_suffix(".svg") if vector else path
    path.write_bytes(vector.encode() if vector else b64decode(drawn["image/png"]))
    return f"[![{found[1]}](made/{path.name})]({found[2]})"


def fold(code, exported):
    """What a folded cell is called, None for one that is shown."""
    plumbing = r"from |import |[]) ]|_all_|if (?:TYPE_CHECKING|sys\.)|else:|$"
    if all(re.match(plumbing, line) for line in code.splitlines()):
        return "Imports"
    names, length = re.findall(r"^(?:def|class) (\w+)", code, re.M), len(code.splitlines())
    if exported and names and (length > 25 or all(name.startswith("_") for name in names)):
        return f"{', '.join(names)}: {length} lines"
    return None


# Equations: which notebook has which tags.
TAG = r"\\tag\{([^}]*)\}"
TAGS = {stem: set(re.findall(TAG, text)) for stem, text in TEXT.items()}
CITED = r"^#.*?$|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\[[^]]*\]\([^)]*\)|\(([\w'’]{1,4})\)"


def away(here, there):
    """The address of a page, from another one."""
    return posixpath.relpath(there, posixpath.dirname(here) or ".") + ".html"


def cite(text, stem, made):
    """Markdown with a place to link to around each equation, and a link wherever one is cited.

    One whose tag is used in one notebook only is linked from others, too.  `made` are the places
    that the page has so far.
    """

    def link(found):
        tag, defined = (found[1] or "").replace("’", "'"), re.search(TAG, found[0])
        if defined and defined[1] not in made:
            made.add(defined[1])
            return f'\n\n<div id="eq-{defined[1]}">\n\n{found[0]}\n\n</div>\n\n'
        named = re.match(r"[A-Z]\d", tag)
        homes = (
            [""] if tag in TAGS[stem] else [away(stem, s) for s in TAGS if named and tag in TAGS[s]]
        )
        return f'<a href="{homes[0]}#eq-{tag}">{found[0]}</a>' if len(homes) == 1 else found[0]

    return re.sub(CITED, link, text, flags=re.M | re.S)


def plain_docstring(app, what, name, thing, options, lines):
    """Docstrings are for terminals: only backticks are markup there, no underscores or stars.

    Examples, from a prompt to the next empty line, are code.
    """
    escaped, code = lambda at: at[0] if at[0][0] == "`" else f"\\{at[0]}", False
    for i, line in enumerate(lines):
        code = bool(line.strip()) and (code or line.lstrip().startswith(">>> "))
        lines[i] = line if code else re.sub(r"`[^`]*`|_(?!\w)|[*|]", escaped, line)


def skip(app, what, name, thing, skipped, options):
    """What classes inherit from other packages, and fields of tuples, say nothing new."""
    of = getattr(getattr(thing, "fget", thing), "__module__", None)
    return None if of and of.startswith("hdp_nb") else True


def setup(app):
    app.connect("source-read", on_source)
    app.connect("autodoc-process-docstring", plain_docstring, priority=100)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
