"""Numbers in the prose of the experiments' notebooks are held by asserts."""

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebooks import notebooks, page, read
from prose_numbers import numbers, unheld

FINISHED = [path for path in notebooks(["experiments"]) if path.stem[3:] != "signatures"]


def test_numbers_are_found_and_what_holds_them():
    prose = """# Of 12 things

Figure 6 and section 6.1 of the paper report 61 topics. Here there are 1,234 tokens, 3.5% of them
new; the gain is 0.029 $\\pm$ 0.004 in (54), of $\\beta_3$ and `f(77)`, as [others](90_x.ipynb#a-9)
found (2012).

| what | paper: 38 | here 39 |
"""
    checks = """
n, share, gain = 1234, 0.035, 0.0294
assert n == 1234 and round(share, 3) == 0.035
assert f"{gain:.3f}" == "0.029"
error = 0.004
"""
    nb = new_notebook(cells=[new_markdown_cell(prose), new_code_cell(checks)])
    assert list(numbers(nb)) == [
        (0, "61", "cited"),
        (0, "1,234", "asserted by [1]"),
        (0, "3.5%", "asserted by [1]"),
        (0, "0.029", "asserted by [1]"),
        (0, "0.004", "bare"),
        (0, "38", "cited"),
        (0, "39", "cited"),
    ]


def test_asserts_of_cells_that_are_not_run_hold_nothing():
    cells = [new_markdown_cell("It is 7."), new_code_cell("#| slow\nassert 3 + 4 == 7")]
    assert [by for *_, by in numbers(new_notebook(cells=cells))] == ["bare"]


@pytest.mark.parametrize("path", FINISHED, ids=page)
def test_no_number_is_bare(path):
    found = list(numbers(read(path)))
    assert found and not [(cell, number) for cell, number, by in found if by == "bare"]


def test_slow_cells_that_nothing_asserts_on_are_found():
    printed = [new_output("stream", text="7\n")]
    cells = [
        new_code_cell("#| slow\na = 3 + 4\nprint(a)", outputs=printed),
        new_code_cell("#| slow\nb = 3 + 4\nprint(b)\nassert b == 7", outputs=printed),
        new_code_cell("#| slow\nc = 3 + 4\nprint(c)", outputs=printed),
        new_code_cell("#| slow\nassert c == 7"),
        new_code_cell("#| slow\nd = 3 + 4\nprint(d)", outputs=printed),
        new_code_cell("d = 8\nassert d == 8"),  # another d
        new_code_cell("#| slow\ndraw(b)"),
        new_code_cell("e = 3 + 4\nprint(e)", outputs=printed),
    ]
    assert unheld(new_notebook(cells=cells)) == [0, 4]


@pytest.mark.parametrize("path", FINISHED, ids=page)
def test_what_slow_cells_print_is_asserted(path):
    assert unheld(read(path)) == []
