"""The code of the task pages runs as it stands there, page by page."""

import re
import warnings

import matplotlib.pyplot as plt
import pytest
from notebooks import ROOT

PAGES = sorted(set((ROOT / "nbs" / "tasks").glob("*.md")) - {ROOT / "nbs/tasks/index.md"})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_of_a_task(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert code
    names = {"__name__": "task"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for number, block in enumerate(code, 1):
            exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    plt.close("all")
