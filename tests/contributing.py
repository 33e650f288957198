"""The worked examples of CONTRIBUTING.md, as the tests run them."""

import re
from pathlib import Path


def blocks(section=None):
    """The blocks of Python in CONTRIBUTING.md, in order; of the section whose heading ends with
    `section`, if given.
    """
    text = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    if section is not None:
        text = next(
            part for part in text.split("\n## ") if part.partition("\n")[0].endswith(section)
        )
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(code):
    "The names that some blocks leave behind; each block goes on from the one before."
    names = {"__name__": "contributing"}
    exec("\n".join(code), names)
    return names
