"Which cases of a list are run on every push, and which with --slow only."

import pytest


def slow_unless(quick, cases):
    "The cases for `pytest.mark.parametrize`; those that `quick` is not true of are slow ones."
    return [case if quick(case) else pytest.param(case, marks=pytest.mark.slow) for case in cases]
