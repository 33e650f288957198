"""The quick starts: each is run beside the tests of its model, whose compiled kernels it needs."""

import contextlib
import io
import pickle

import numpy as np
from notebooks import ROOT, read
from sklearn.base import BaseEstimator, clone

from hdp_nb import load_model


def check_quick_start(title, folder, monkeypatch):
    """Run the section `title` of the notebook in `folder`: it must print what is stored.

    What it fits must survive pickle, a file and clone.
    """
    cells = read(ROOT / "nbs" / "10_models/01_quickstart.ipynb").cells
    first = next(
        i
        for i, cell in enumerate(cells)
        if cell.cell_type == "markdown" and f"## {title}\n" in f"{cell.source}\n"
    )
    monkeypatch.chdir(folder)
    names, ran = {}, 0
    for cell in cells[first + 1 :]:
        if cell.cell_type != "code":
            break
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(cell.source, f"quick start of {title}", "exec"), names)
        assert out.getvalue() == "".join(output.text for output in cell.outputs), cell.source
        ran += 1
    [model] = [
        part
        for value in names.values()
        if isinstance(value, BaseEstimator)
        for part in [value[-1] if hasattr(value, "steps") else value]
        if type(part).__name__ == title
    ]
    assert ran == 2
    model.save("model.npz")
    for again in (pickle.loads(pickle.dumps(model)), load_model("model.npz")):
        assert type(again) is type(model)
        np.testing.assert_equal(vars(plain(again)), vars(plain(model)))
    new = clone(model)
    assert new.get_params() == model.get_params() and not [
        name for name in vars(new) if name.endswith("_")
    ]


def plain(model):
    """The model with lists for the tuples among its parameters and its samples: a file knows
    lists only.
    """
    new = clone(model)
    vars(new).update(
        {
            name: (
                [*map(tuple, value)]
                if isinstance(value, list) and value and hasattr(value[0], "_asdict")
                else list(value)
                if isinstance(value, tuple)
                else value
            )
            for name, value in vars(model).items()
        }
    )
    return new
