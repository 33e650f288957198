"""What the letters of a formula mean: tables of symbols in glossary.md and in notebooks."""

import re
import unicodedata

SYMBOL = re.compile(r"(?<![A-Za-z\\])(\\?[A-Za-z]+)((?:_(?:\{[^{}]*\}|\\?\w))?)")
WORDS = re.compile(r"\\(?:tag|text\w*|mathrm|operatorname)\s*\{[^{}]*\}")


def bare(tex):
    return re.sub(r"[ {}]", "", tex)


def plain(tex):
    """Greek letters as such, without dollars and braces."""

    def letter(at):
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
        meaning = plain(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", meaning)).strip()
        for formula in re.findall(r"\$([^$]+)\$", "|".join(names)):
            for symbol in re.split(r",(?:\\ )?", formula):
                if meaning:
                    found.setdefault(bare(symbol), meaning)
    return found


def say_symbols(tex, table):
    """The meaning of each symbol in a formula that the table has, with its subscript or without."""
    said = {}
    for letter, subscript in SYMBOL.findall(WORDS.sub("", tex)):
        known = next((s for s in (bare(letter + subscript), letter) if s in table), None)
        if known:
            said[plain(known)] = table[known]
    return "; ".join(f"{symbol}: {meaning}" for symbol, meaning in list(said.items())[:8])
