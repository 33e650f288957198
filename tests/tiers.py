"What is run on every push, and what with --slow only."

import os

import pytest

# Of the sweeps of chains that are compared with exact posteriors; conftest.py sets it for --slow.
EFFORT = float(os.environ.get("HDP_NB_EFFORT", "0.4"))


def sweeps(n, most):
    """How many sweeps of n to make, and how far off they may be if n may be off by `most`.

    Monte Carlo error falls as one over the root of their number.
    """
    return round(EFFORT * n), most / EFFORT**0.5


def slow_unless(quick, cases):
    "The cases for `pytest.mark.parametrize`; those that `quick` is not true of are slow ones."
    return [case if quick(case) else pytest.param(case, marks=pytest.mark.slow) for case in cases]
