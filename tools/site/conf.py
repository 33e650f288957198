"""The documentation, by Sphinx: `python tools/run.py site` makes it in _site, from what is in nbs.

Notebooks are shown with their stored outputs.  What is done to them on the way is here: cells that
only import are folded, and so are long ones that go into the package; figures get their captions;
equations are linked where they are cited.
"""

import os
import re
import shutil
import sys
from base64 import b64decode
from pathlib import Path

import nbformat
import yaml

os.environ["NUMBA_DISABLE_JIT"] = "1"  # docstrings are those of functions, not of their dispatchers
HERE = Path(__file__).resolve().parent
ROOT, NBS = HERE.parent.parent, HERE.parent.parent / "nbs"
sys.path[:0] = [str(HERE.parent), str(ROOT)]
from notebooks import directives, notebooks, read  # noqa: E402

import hdp_nb  # noqa: E402

project, author, version = "hdp_nb", "The hdp_nb authors", hdp_nb.__version__
copyright = f"{author}, Apache 2.0"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
extensions += ["sphinx_copybutton", "sphinx_design"]
exclude_patterns = ["profile_default", ".ipynb_checkpoints", "_quarto.yml"]
templates_path = [str(HERE / "templates")]
nb_execution_mode, nb_merge_streams = "off", True
myst_enable_extensions = ["dollarmath"]
myst_dmath_allow_space, myst_dmath_allow_digits, myst_dmath_double_inline = False, False, True
myst_heading_anchors = 4
default_role, smartquotes = "literal", False  # straight quotes in what is typed
autodoc_member_order, autodoc_typehints = "bysource", "none"
toc_object_entries_show_parents = "hide"
autosummary_generate = ["api.md"]
numpydoc_show_class_members = False

html_theme, html_title, html_favicon = "pydata_sphinx_theme", "hdp_nb", "static/icon.svg"
html_static_path = ["static", "katex"]
html_css_files = ["katex.min.css", "site.css", "moving.css"]
html_js_files = [("site.js", {"defer": ""}), ("moving.js", {"defer": ""})]
# Formulas stand on the pages as they stand in the notebooks; KaTeX sets them there (site.js).
mathjax_path, mathjax_inline, mathjax_display = "katex.min.js", ["", ""], ["", ""]
mathjax_options, myst_update_mathjax = {"defer": ""}, False
html_search_scorer = str(HERE / "scorer.js")
html_copy_source = html_show_sourcelink = html_show_sphinx = False
html_sidebars = {"index": [], "gallery": [], "moving": [], "glossary": []}
html_theme_options = {
    "github_url": "https://github.com/hdp-nb/hdp_nb",
    "header_links_before_dropdown": 6,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "article_header_end": ["reading"],
    "article_footer_items": ["reading"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Which notebook makes which module, which notebooks one imports from, and the modules of what has
# a page of its own.
CELLS = {path.stem: read(path).cells for path in notebooks()}
TEXT = {stem: "\n".join(cell.source for cell in cells) for stem, cells in CELLS.items()}
MODULES = {s: exp[1] for s, text in TEXT.items() if (exp := re.search("default_exp (.*)", text))}
LEFT_OUT = {"checks", "files", "style", "plates"}  # everybody's, and nobody's prerequisite


def prerequisites(stem):
    exported = [cell.source for cell in CELLS[stem] if "export" in directives(cell)[0]]
    code = "\n".join(exported) or TEXT[stem]
    names = set(re.findall(r"from hdp_nb\.(\w+) import", code)) - LEFT_OUT
    return [other for other in CELLS if MODULES.get(other) in names]


BUILDS_ON = {stem: prerequisites(stem) for stem in CELLS}
html_context = {
    "default_mode": "auto",
    "titles": {stem: text.partition("\n")[0][2:] for stem, text in TEXT.items()},
    "modules": MODULES,
    "builds_on": BUILDS_ON,
    "leads_to": {stem: [s for s, on in BUILDS_ON.items() if stem in on] for stem in CELLS},
}
PAGES = re.findall(r"^   ([\w.]+)$", (NBS / "api.md").read_text(encoding="utf-8"), re.M)
autosummary_context = {
    "home": {module: stem for stem, module in MODULES.items()},
    "module_of": {f"hdp_nb.{p}": hdp_nb._HOME.get(p, p.partition(".")[0]) for p in PAGES},
}

# Figures that move stand in moving.md, and under the headings that they name.
MOVING = re.findall(
    r'(<figure class="moving" .*?data-at="(\w+): (.*?)">.*?</figure>)',
    (NBS / "moving.md").read_text(encoding="utf-8"),
    re.DOTALL,
)
# In the gallery, a link alone on its line becomes the picture of the cell that its title names.
PICTURE = r'(?m)^\[(.*)\]\((.*) "(\w+)"\)$'
shutil.rmtree(NBS / "made", ignore_errors=True)
(NBS / "made").mkdir()
SHOWN = [cell for _, _, cell in re.findall(PICTURE, (NBS / "gallery.md").read_text("utf-8"))]
for cell in sum(CELLS.values(), []):
    for output in cell.outputs if cell.id in SHOWN else ():
        data, picture = output.get("data", {}), NBS / "made" / cell.id
        if "image/png" in data:
            picture.with_suffix(".png").write_bytes(b64decode(data["image/png"]))
        elif "image/svg+xml" in data:
            picture.with_suffix(".svg").write_text(data["image/svg+xml"], encoding="utf-8")

CONTENTS = "```{toctree}\n:hidden:\n\ntasks/index\napi\nbook\ngallery\nmoving\nglossary\n```"
METADATA = {"language_info": {"name": "python", "pygments_lexer": "python3"}}
CAPTIONS = yaml.safe_load((HERE / "captions.yml").read_text(encoding="utf-8"))


def on_source(app, docname, source):
    """A page on its way in."""
    if docname == "gallery":
        source[0] = re.sub(PICTURE, r"[![\1](made/\3.*)](\2)", source[0])
    if docname not in CELLS:
        return
    cells, figures = [], 0
    chapter = f"# {docname[:2]} " if docname[0].isdigit() else "# "
    own = dict.fromkeys(re.findall(TAG, TEXT[docname]), False)
    for cell in CELLS[docname]:
        found, code = directives(cell)
        shown, tags = {}, []
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"\A# ", chapter, cite(cell.source, own))
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


def fold(code, exported):
    """What a folded cell is called, None for one that is shown."""
    plumbing = r"from |import |[]) ]|_all_|if (?:TYPE_CHECKING|sys\.)|else:|$"
    if all(re.match(plumbing, line) for line in code.splitlines()):
        return "Imports"
    names, length = re.findall(r"^(?:def|class) (\w+)", code, re.M), len(code.splitlines())
    if exported and names and (length > 25 or all(name.startswith("_") for name in names)):
        return f"{', '.join(names)}: {length} lines"
    return None


# Equations.  One whose tag is used in one notebook only is linked from the others, too.
TAG = r"\\tag\{([^}]*)\}"
PLACES = {}
for stem, text in TEXT.items():
    for tag in re.findall(TAG, text):
        PLACES.setdefault(tag, set()).add(stem)
CITED = r"^#.*?$|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\[[^]]*\]\([^)]*\)|\(([\w'’]{1,4})\)"


def cite(text, own):
    """Markdown with a place to link to around each equation, and a link wherever one is cited.

    `own` has the page's tags, and whether their place is made.
    """

    def link(found):
        tag, defined = (found[1] or "").replace("’", "'"), re.search(TAG, found[0])
        if defined and not own[defined[1]]:
            own[defined[1]] = True
            return f'\n\n<div id="eq-{defined[1]}">\n\n{found[0]}\n\n</div>\n\n'
        if tag in own:
            return f'<a href="#eq-{tag}">{found[0]}</a>'
        if re.match(r"[A-Z]\d", tag) and len(PLACES.get(tag, ())) == 1:
            return f'<a href="{min(PLACES[tag])}.html#eq-{tag}">{found[0]}</a>'
        return found[0]

    return re.sub(CITED, link, text, flags=re.M | re.S)


def plain_docstring(app, what, name, thing, options, lines):
    """Docstrings are for terminals: only backticks are markup there, no underscores or stars."""
    escaped = lambda at: at[0] if at[0][0] == "`" else f"\\{at[0]}"
    lines[:] = [re.sub(r"`[^`]*`|_(?!\w)|[*|]", escaped, line) for line in lines]


def skip(app, what, name, thing, skipped, options):
    """What classes inherit from other packages, and fields of tuples, say nothing new."""
    of = getattr(getattr(thing, "fget", thing), "__module__", None)
    return None if of and of.startswith("hdp_nb") else True


def setup(app):
    app.connect("source-read", on_source)
    app.connect("autodoc-process-docstring", plain_docstring, priority=100)
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
