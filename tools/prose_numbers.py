"""Which numbers the prose of the experiments' notebooks states, and what holds them.

    python tools/prose_numbers.py [--bare] [names]      (the experiments, or those that are named)

One line for each number in digits in a markdown cell: the cell, the number, and

    asserted by [n]   cell n has an assert statement in which the number stands, as a number or
                      within a string; 1,234 is 1234, and 3% is held by 3 or by 0.03
    cited             its sentence (or row of a table) says "the paper", "paper:" or an author
    bare              neither

Not counted are names of things: headings, code, targets of links, display formulas, indices and
exponents, ``figure 6``, ``sections 4 and 5``, ``(54)``, years, words with digits.
Slow cells that print what nothing asserts are named, too.
That an assert mentions a number does not prove that it is about the same thing: the list says where
to look.  Numbers in words are not looked for.
"""

import ast
import re
import sys
from pathlib import Path

from notebooks import is_run, notebooks, read

THINGS = re.compile(
    "|".join(
        [
            r"(?s:```.*?```|\$\$.*?\$\$)|`[^`]*`",  # code, display formulas
            r"\]\([^)]*\)",  # targets of links
            r"^\s*#.*$",  # headings
            r"[_^](?:\{[^{}]*\}|\w)",  # indices and exponents
            r"\b(?i:figures?|tables?|sections?|equations?|notebooks?|algorithms?)"
            r" \d+(?:\.\d+)?[a-z]?(?:(?:,| and| to) \d+(?:\.\d+)?[a-z]?)*",
            r"\((?:19|20)\d\d\)|\b19[5-9]\d\b",  # years
            r"\([A-Z]?\d+[a-z]?'*\)",  # numbers of equations
            r"\b[A-Za-z]+-?\d\w*",  # words with digits
        ]
    ),
    re.MULTILINE,
)
NUMBER = re.compile(r"(?<![\w.])(?:\d[\d,]*\d|\d)?(?:\.\d+)?(?<=\d)(?![\w])")
CITED = re.compile(
    r"\b(?:[Tt]he(?:ir)? papers?\b(?! of)|[Pp]aper:|Teh|Wang|Blei|Bryant|Sudderth|Nakagawa|Wallach)"
)


def sentences(source):
    "Pieces of a markdown cell that are about one thing: sentences, and rows of tables."
    source = THINGS.sub(lambda thing: " " * len(thing[0]), source)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|]|\d+\.) ?)", source):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z(*$])", block)


def in_prose(source):
    "(number as it is written, whether it is cited) of a markdown cell."
    for sentence in sentences(source):
        for found in NUMBER.finditer(sentence):
            if found[0]:
                percent = re.match(r"\\?%", sentence[found.end() :])
                yield found[0] + "%" * bool(percent), bool(CITED.search(sentence))


def in_asserts(source):
    "Numbers in the assert statements of a code cell."
    held = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assert):
            continue
        for inner in ast.walk(node.test):
            if isinstance(inner, ast.Constant) and type(inner.value) in (int, float):
                held.add(float(inner.value))
            elif isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                held |= {float(n.replace(",", "")) for n in NUMBER.findall(inner.value) if n}
    return held


def holds(number, held):
    "Whether a number as it is written is among those of asserts."
    value = float(number.rstrip("%").replace(",", ""))
    near = lambda a, b: abs(a - b) < 1e-9 * max(1, abs(b))
    return any(
        near(value, h) or (number.endswith("%") and near(value / 100, h)) for h in map(abs, held)
    )


def numbers(nb):
    """(cell, number, what holds it) of a notebook, in order; what holds it is the cell with the
    assert that is nearest, "cited" or "bare".
    """
    asserts = {
        i: held
        for i, cell in enumerate(nb.cells)
        if cell.cell_type == "code" and is_run(cell) and (held := in_asserts(cell.source))
    }
    for i, cell in enumerate(nb.cells):
        if cell.cell_type != "markdown":
            continue
        for number, cited in in_prose(cell.source):
            where = [j for j, held in asserts.items() if holds(number, held)]
            nearest = min(where, key=lambda j: abs(j - i), default=None)
            yield (i, number, f"asserted by [{nearest}]" if where else "cited" if cited else "bare")


def unheld(nb):
    """Slow cells that print something and neither hold an assert nor make, under a name of their
    own, what a cell with an assert takes up before that name is given to something else.
    """
    code, found = [(i, c) for i, c in enumerate(nb.cells) if c.cell_type == "code"], []
    names = {i: _names(cell.source) for i, cell in code}
    for i, cell in code:
        made, _, asserts = names[i]
        prints = any(out.output_type == "stream" for out in cell.outputs)
        if is_run(cell) or not is_run(cell, slow=True) or asserts or not prints:
            continue
        for j in (j for j in names if j > i):
            stored, taken, asserts = names[j]
            if asserts and made & taken:
                break
            made = made - stored
        else:
            found.append(i)
    return found


def _names(source):
    "What a cell gives names to, which names it takes up before that, whether it has an assert."
    stored, taken, tree = set(), set(), ast.parse(source)
    for statement in tree.body:
        own = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        taken |= {node.id for node in own if isinstance(node.ctx, ast.Load)} - stored
        stored |= {node.id for node in own if isinstance(node.ctx, ast.Store)}
        stored |= {getattr(statement, "name", None)} - {None}
    return stored, taken, any(isinstance(node, ast.Assert) for node in ast.walk(tree))


def main():
    names = [name for name in sys.argv[1:] if name != "--bare"]
    for path in notebooks(names or ["experiments"]):
        rows = list(numbers(read(path)))
        for i, number, by in rows:
            if by == "bare" or "--bare" not in sys.argv:
                print(f"{path.stem} [{i}] {number}: {by}")
        for i in unheld(read(path)):
            print(f"{path.stem} [{i}]: a slow cell prints what nothing asserts")
        print(
            f"{Path(path).stem}: {len(rows)} numbers,"
            f" {sum(by.startswith('asserted') for *_, by in rows)} asserted,"
            f" {sum(by == 'cited' for *_, by in rows)} cited,"
            f" {sum(by == 'bare' for *_, by in rows)} bare"
        )


if __name__ == "__main__":
    main()
