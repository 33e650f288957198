"""The code of the notebooks that are worked examples, for suites that test what they make."""

import ast
import json
from pathlib import Path

NBS = Path(__file__).parent.parent / "nbs"
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def cells(name):
    "The code cells of a notebook, in order."
    notebook = json.loads((NBS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def define(name, until):
    """Run the cells of a notebook that import and define, as far as the first that has `until`,
    which is run too. Cells that check, print or draw are left out.

    Returns
    -------
    dict : the names that they leave behind
    """
    names = {"__name__": "worked_examples"}
    for cell in cells(name):
        if until in cell or all(isinstance(node, DEFINITIONS) for node in ast.parse(cell).body):
            exec(cell, names)
        if until in cell:
            return names
    raise ValueError(f"until must be in a cell of {name}, got {until!r}")
