"""Checks of arguments, and the index of ragged rows."""

import subprocess
import sys

import numpy as np
import pytest

from hdp_nb.utils.checks import (
    as_rng,
    check_count,
    check_count_matrix,
    check_int,
    check_number,
    check_positive,
    check_rows,
    int_array,
    ragged_index,
)

BAD_NUMBERS = [0, -1.0, float("nan"), float("inf"), True, "1", None, 1j, [1.0]]


@pytest.mark.parametrize("value", BAD_NUMBERS)
def test_a_number_above_0(value):
    with pytest.raises(ValueError, match=r"^alpha must be a finite number above 0, got "):
        check_number("alpha", value)
    with pytest.raises(ValueError, match="^alpha must be"):
        check_positive(gamma=1.0, alpha=value)


def test_bounds_of_a_number():
    assert check_number("kappa", 1, 0.5, 1.0) == 1.0
    assert check_number("kappa", 0.5, 0.5, 1.0, above=False) == 0.5
    for value in (0.5, 1.1):
        with pytest.raises(ValueError, match="above 0.5 and at most 1, got"):
            check_number("kappa", value, 0.5, 1.0)


@pytest.mark.parametrize("value", [0, 1.0, 2.5, True, "3", None, np.array([2, 3])])
def test_a_whole_number(value):
    with pytest.raises(ValueError, match="^n_iter must be a whole number of at least 1, got "):
        check_int("n_iter", value, 1)
    with pytest.raises(ValueError, match="^n_iter must be"):
        check_count(thin=1, n_iter=value)


def test_numbers_of_numpy_pass():
    assert check_int("n_iter", np.int64(3), 1) == 3 and check_number("alpha", np.float32(2)) == 2


def test_the_name_of_an_array_is_in_its_message():
    for values in ([1.0], [[1]], [-1], [2**31], [[1], [1, 2]], ["a"]):
        with pytest.raises(ValueError, match="^offsets must "):
            int_array(values, "offsets", np.int32)


def test_one_seed_one_stream():
    assert as_rng(1).random() == as_rng(np.int64(1)).random() != as_rng(2).random()
    old = np.random.RandomState
    assert as_rng(old(0)).random() == as_rng(old(0)).random() != as_rng(old(1)).random()


def test_rows_of_different_lengths():
    check_rows([[1, 2], [3, 4]], "a table")
    for X in ([[1, 2], [3]], [[1], 2], np.array([[1], [2, 3]], object)):
        with pytest.raises(ValueError, match="^X must be a table, got rows .*; do that$"):
            check_rows(X, "a table", "; do that")


def test_a_bad_count_is_named_by_its_place():
    with pytest.raises(ValueError, match="got -2 at row 1, column 2"):
        check_count_matrix([[1, 0, 0], [0, 3, -2]])
    with pytest.raises(ValueError, match="got 0.5 at row 0, column 1"):
        check_count_matrix([[1, 0.5], [1, 1]])


@pytest.mark.parametrize(
    "rows", [[], [0], [2, 0, 2], [1, 1], [-1, 0], [3, 2, 1, 0], slice(None), slice(1, 3)]
)
def test_ragged_rows(rows):
    "Against rows that are cut out and joined one by one; the second row is empty."
    values, offsets = np.arange(10, 20), np.array([0, 4, 4, 9, 10])
    rows = np.arange(4)[rows]
    pieces = [values[offsets[:-1][j] : offsets[1:][j]] for j in rows]
    index, new = ragged_index(offsets, rows)
    assert index.dtype == new.dtype == np.int64
    assert values[index].tolist() == [v for piece in pieces for v in piece]
    assert new.tolist() == [sum(map(len, pieces[:i])) for i in range(len(pieces) + 1)]


def test_the_checks_load_nothing_heavy():
    program = (
        "import sys, hdp_nb.utils.checks; print({'scipy', 'sklearn', 'numba'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr
