"""What the letters of a formula mean: tables of symbols in glossary.md and in notebooks."""

import re
import unicodedata

SYMBOL = re.compile(r"(?<![A-Za-z\\])(\\?[A-Za-z]+)((?:_(?:\{[^{}]*\}|\\?\w))?)")
WORDS = re.compile(r"\\(?:tag|text\w*|mathrm|operatorname)\s*\{[^{}]*\}")


SIGNS = {"ldots": "…", "dots": "…", "cdot": "·", "mid": "|", "ell": "l", "sim": "~", "infty": "∞"}


def bare(tex):
    return re.sub(r"[ {}]", "", tex)


def plain(tex):
    """Greek letters as such, without dollars and braces."""

    def letter(at):
        if at[1] in SIGNS:
            return SIGNS[at[1]]
        size = "SMALL" if at[1].islower() else "CAPITAL"
        try:
            return unicodedata.lookup(f"GREEK {size} LETTER {at[1]}")
        except KeyError:
            return at[1]

    return re.sub(r"[$`{}]", "", re.sub(r"\\([A-Za-z]+)", letter, tex))


def symbols_in(text):
    """From every symbol in the tables to what the last column says of it."""
    found = {}
    for row in re.findall(r"^\|(.*)\|$", text, re.M):
        *names, meaning = row.split("|")
        meaning = re.sub(r", \[[^]]*\]\([^)]*\) $", "", meaning)  # where to read on
        meaning = plain(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning)).strip()
        for column in names if meaning else ():
            formulas = re.findall(r"\$([^$]+)\$", column)
            symbols = [bare(one) for formula in formulas for one in re.split(r",(?:\\ )?", formula)]
            parts = meaning.split("; ")  # one for each symbol, or all for all
            if len(parts) != len(symbols):
                parts = [meaning] * len(symbols)
            found = dict(zip(symbols, parts)) | found
    return found


def say_symbols(tex, table):
    """The meaning of each symbol in a formula that the table has, with its subscript or without."""
    said = {}
    for letter, subscript in SYMBOL.findall(WORDS.sub("", tex)):
        known = next((s for s in (bare(letter + subscript), letter) if s in table), None)
        if known:
            said[plain(known)] = table[known]
    return "; ".join(f"{symbol}: {meaning}" for symbol, meaning in list(said.items())[:8])
