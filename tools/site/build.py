"""Build the documentation as plain pages, one per notebook, that need no server and no network.

    python tools/run.py site [folder]      the default folder is _site

The published site is made by nbdev and Quarto from the same notebooks; this one can be made, read
and tested anywhere.  KaTeX, which sets the mathematics in the browser, comes along in katex/.
"""

import ast
import importlib
import inspect
import json
import re
import shutil
import sys
import textwrap
from html import escape, unescape
from pathlib import Path
from string import Template

from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from notebooks import ROOT, directives, notebooks, read  # noqa: E402

SOURCE = "https://github.com/hdp-nb/hdp_nb/blob/main/"
# What the gallery says where it is read as a file.
NO_PICTURES = (
    "*The pictures are on the page that `python tools/run.py site` makes of this; here it says what"
    " they show.*\n\n"
)
FLOORS = {
    "0": "Ground",
    "1": "Topics by sampling",
    "2": "Moves between numbers of topics",
    "3": "Trees and clusters",
    "4": "Sequences",
    "5": "Variational inference",
    "6": "Estimators",
    "7": "Use",
    "8": "Scale",
    "9": "Experiments",
    "g": "Experiments",  # the gallery
}


def colour(code, language, _attributes=None):
    try:
        return highlight(code, get_lexer_by_name(language or "text"), HtmlFormatter(nowrap=True))
    except ClassNotFound:
        return escape(code)


def page_link(target):
    """Notebooks become pages; other files of the repository are a click away on GitHub."""
    if re.match(r"\w+:|#", target):
        return target
    page, _, anchor = target.partition("#")
    if page.endswith("site/gallery.md"):
        return "gallery.html"
    if page.endswith(".ipynb"):
        return page.removesuffix("ipynb") + "html" + (f"#{anchor}" if anchor else "")
    return (
        SOURCE
        + str((ROOT / "nbs" / page).resolve().relative_to(ROOT))
        + (f"#{anchor}" if anchor else "")
    )


def link_pages(state):
    for token in state.tokens:
        for child in token.children or []:
            if child.type == "link_open":
                child.attrs["href"] = page_link(child.attrs["href"])


markdown = (
    MarkdownIt("commonmark", {"highlight": colour})
    .enable(["table", "strikethrough"])
    .use(
        dollarmath_plugin,
        allow_labels=False,
        allow_digits=False,
        allow_space=False,
        double_inline=True,
    )
    .use(anchors_plugin, max_level=4, permalink=True, permalinkSymbol="#")
)
markdown.core.ruler.push("link_pages", link_pages)


def only_imports(code):
    """Whether a cell does nothing but import; such cells are folded away."""
    try:
        statements = ast.parse(re.sub(r"^[%!].*", "", code, flags=re.MULTILINE)).body
    except SyntaxError:
        return False
    return all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in statements)


def plain(html):
    return unescape(re.sub(r"<[^>]*>", "", html))


class Page:
    """One notebook on its way to HTML: its body, its headings, what the search may find, and its
    pictures by heading.
    """

    documented = {}  # where on the site an object of the package is: {its id: (page, anchor)}

    def __init__(self, name, cells):
        self.name, self.body, self.headings, self.index, self.pictures = name, [], [], [], {}
        self.url, self.title, self.module = f"{name}.html", name, None
        for cell in cells:
            if cell.cell_type == "markdown":
                self.add_markdown(cell.source)
            elif cell.cell_type == "code":
                self.add_code(cell)
        if self.module:
            self.add_api(importlib.import_module(f"hdp_nb.{self.module}"))

    def add_heading(self, level, heading, anchor, words=""):
        self.headings.append((level, heading, anchor))
        self.index.append([heading, anchor, words])

    def add_markdown(self, source, kind="prose"):
        env = {}
        tokens = markdown.parse(source, env)
        for token, inline in zip(tokens, tokens[1:] + tokens[-1:]):
            if token.type == "heading_open":
                heading = markdown.renderer.renderInline(inline.children, markdown.options, env)
                heading = heading.partition('<a class="header-anchor"')[0].strip()
                if token.tag == "h1":
                    self.title = heading
                self.add_heading(int(token.tag[1]), heading, token.attrs["id"])
            for child in token.children or []:
                if child.type in ("text", "code_inline") and self.index:
                    self.index[-1][2] += " " + child.content
        self.body.append(
            f'<div class="{kind}">{markdown.renderer.render(tokens, markdown.options, env)}</div>'
        )

    def add_code(self, cell):
        found, code = directives(cell)
        self.module = found.get("default_exp") or self.module
        if "hide" in found:
            return
        if code and found.get("echo") != "false":
            kind = "code exported" if "export" in found else "code"
            block = f'<pre class="{kind}">{colour(code, "python")}</pre>'
            if only_imports(code):
                block = f"<details><summary>Imports</summary>{block}</details>"
            self.body.append(block)
        before = None
        for output in cell.outputs:
            data = output.get("data", {"text/plain": output.get("text", "")})
            before, goes_on = output.output_type, before == output.output_type == "stream"
            if "image/png" in data:
                picture = "data:image/png;base64," + "".join(data["image/png"].split())
                _, heading, anchor = self.headings[-1] if self.headings else (1, self.title, "")
                self.pictures.setdefault(anchor, []).append(picture)
                alt = found.get("fig-alt") or "Figure: " + plain(heading)
                self.body.append(
                    f'<div class="picture"><img class="out" alt="{escape(alt)}"'
                    f' src="{picture}"></div>'
                )
            elif "text/html" in data or "image/svg+xml" in data:
                self.body.append(
                    f'<div class="out">{data.get("text/html") or data["image/svg+xml"]}</div>'
                )
            else:
                start = self.body.pop().removesuffix("</pre>") if goes_on else '<pre class="out">'
                self.body.append(f"{start}{escape(data['text/plain'])}</pre>")

    def add_api(self, module):
        public = [(name, getattr(module, name)) for name in module.__all__]
        things = [
            (name, thing) for name, thing in public if callable(thing) and inspect.getdoc(thing)
        ]
        if not things:
            return
        self.body.append(
            f'<div class="api"><h2 id="api">API of <code>{module.__name__}</code></h2>'
        )
        self.add_heading(2, f"API of {module.__name__}", "api")
        elsewhere = [self.link(thing) for _, thing in things if id(thing) in self.documented]
        for name, thing in things:
            if id(thing) in self.documented:
                continue
            self.add_object(name, thing, 3)
            inherited = []
            for member, value in members(thing) if inspect.isclass(thing) else ():
                if id(value) in self.documented:
                    inherited.append(self.link(value))
                else:
                    self.add_object(f"{name}.{member}", value, 4)
            if inherited:
                self.body.append(f"<p>Inherited: {', '.join(inherited)}.</p>")
        if elsewhere:
            self.body.append(f"<p>Also here: {', '.join(elsewhere)}.</p>")
        self.body.append("</div>")

    def link(self, thing):
        url, name = self.documented[id(thing)]
        return f'<a href="{url if url != self.url else ""}#api.{name}">{name}</a>'

    def add_object(self, name, thing, level):
        self.documented[id(thing)] = self.url, name
        thing = getattr(thing, "py_func", thing)
        doc = inspect.getdoc(thing)
        self.add_heading(level, name, f"api.{name}", doc.splitlines()[0])
        self.body.append(
            f'<h{level} id="api.{name}">{name}</h{level}><pre class="code'
            f' signature">{colour(signature(name, thing), "python")}</pre>{docstring(doc)}'
        )


def members(kind):
    """Public methods and properties of a class that have a docstring, inherited ones included."""
    found = {}
    for base in kind.__mro__:
        if base.__module__.startswith("hdp_nb."):
            for name, value in vars(base).items():
                if (
                    not name.startswith("_")
                    and name not in found
                    and inspect.getdoc(value)
                    and (
                        isinstance(value, property)
                        or callable(value := getattr(value, "__func__", value))
                    )
                ):
                    found[name] = value
    return found.items()


def signature(name, thing):
    name = "class " * inspect.isclass(thing) + name
    try:
        of = re.sub(r"^\((self|cls)(, )?", "(", str(inspect.signature(thing)))
    except (ValueError, TypeError):
        return name
    return textwrap.fill(name + of, 90, subsequent_indent="    ", break_long_words=False)


def docstring(doc):
    """A NumPy docstring as HTML: under an underlined title come entries, `name : kind`, then
    indented lines.
    """
    head, *sections = re.split(r"^(\w[\w ]*)\n-{3,}\n", doc, flags=re.MULTILINE)
    parts = [markdown.render(head)]
    for title, text in zip(sections[::2], sections[1::2]):
        parts.append(f"<h5>{title}</h5>")
        if title in ("Notes", "Examples", "References", "See Also"):
            parts.append(markdown.render(text))
            continue
        parts.append("<dl>")
        for entry in re.split(r"\n(?=\S)", text.strip("\n")):
            first, _, rest = entry.partition("\n")
            name, colon, kind = first.partition(" : ")
            rest = inspect.cleandoc("\n" + rest)
            # Lower case: the sentence that began beside the name goes on.
            what = kind + ("\n" if rest[:1].islower() else "\n\n") + rest
            parts.append(
                f"<dt>{markdown.renderInline(f'`{name}`')}</dt><dd>{markdown.render(what)}</dd>"
            )
        parts.append("</dl>")
    return "".join(parts)


def gallery(pages):
    """The page made of gallery.md: there, an image is the n-th picture under a heading of a
    notebook, `![alt](notebook.ipynb#heading "n")`.
    """
    pictures = {
        (page.name, anchor): found for page in pages for anchor, found in page.pictures.items()
    }

    def picture(image):
        alt, name, anchor, n = image.groups(default="1")
        return (
            f'<a href="{name}.html#{anchor}"><img class="out" alt="{escape(alt)}"'
            f' src="{pictures[name, anchor][int(n) - 1]}"></a>'
        )

    page = Page("gallery", ())
    source = (HERE / "gallery.md").read_text(encoding="utf-8").replace(NO_PICTURES, "")
    source = re.sub(r'!\[(.*?)\]\((\w+)\.ipynb#([\w-]+)(?: "(\d)")?\)', picture, source)
    for part in re.split(r"\n(?=##)", source):
        page.add_markdown(part, "prose card" if part.startswith("###") else "prose")
    return page


def sidebar(pages, current):
    parts, floor = [], None
    for page in pages:
        if (this := FLOORS.get(page.name[0], "")) != floor:
            floor = this
            parts.append(f"<h6>{floor}</h6>" if floor else "")
        mark = ' aria-current="page"' if page is current else ""
        number = f"<b>{page.name[:2]}</b> " if page.name[:2].isdigit() else ""
        parts.append(f'<a href="{page.url}"{mark}>{number}{page.title}</a>')
    return "\n".join(parts)


def turn(page, text):
    return (
        f'<a href="{page.url}" rel="{text.lower()}"><small>{text}</small>{page.title}</a>'
        if page
        else "<i></i>"
    )


def build(out):
    pages = [Page(path.stem, read(path).cells) for path in notebooks()]
    pages.append(gallery(pages))
    template = Template((HERE / "page.html").read_text(encoding="utf-8"))
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(HERE / "katex", out / "katex")
    for page, before, after in zip(pages, [None] + pages, pages[1:] + [None]):
        contents = "\n".join(
            f'<a class="h{level}" href="#{anchor}">{heading}</a>'
            for level, heading, anchor in page.headings
            if level > 1
        )
        (out / page.url).write_text(
            template.substitute(
                title=escape(plain(page.title)),
                pages=sidebar(pages, page),
                contents=contents,
                body="\n".join(page.body),
                before=turn(before, "Previous"),
                after=turn(after, "Next"),
                home=SOURCE.partition("/blob")[0],
            ),
            encoding="utf-8",
        )
    index = [[page.url, page.title, *entry] for page in pages for entry in page.index]
    colours = [
        f"{where} {{ {HtmlFormatter(style=style).get_style_defs('pre')} }}"
        for where, style in {":root": "friendly", ':root[data-theme="dark"]': "github-dark"}.items()
    ]
    (out / "style.css").write_text(
        (HERE / "style.css").read_text(encoding="utf-8") + "\n".join(colours), encoding="utf-8"
    )
    (out / "site.js").write_text(
        f"const INDEX = {json.dumps(index)};\n" + (HERE / "site.js").read_text(encoding="utf-8"),
        encoding="utf-8",
    )
    print(f"{len(pages)} pages in {out}")


if __name__ == "__main__":
    build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "_site").resolve())
