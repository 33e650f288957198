"""The quick starts: each is run beside the tests of its model, whose compiled kernels it needs."""
import contextlib
import io

from notebooks import ROOT, read


def check_quick_start(title, folder, monkeypatch):
    """Run the section `title` of the notebook in `folder`; it must print what is stored."""
    cells = read(ROOT / "nbs" / "25_quickstart.ipynb").cells
    first = next(i for i, cell in enumerate(cells) if cell.cell_type == "markdown" and f"## {title}\n" in f"{cell.source}\n")
    monkeypatch.chdir(folder)
    names, ran = {}, 0
    for cell in cells[first + 1:]:
        if cell.cell_type != "code":
            break
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(cell.source, f"quick start of {title}", "exec"), names)
        assert out.getvalue() == "".join(output.text for output in cell.outputs), cell.source
        ran += 1
    assert ran == 2
