"""Kernels are compiled in parts: the same results, references counted where they must be, machine
code only where Python calls."""

import subprocess
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError
from numba.core.runtime import _nrt_python, rtsys

from hdp_nb import _compiling
from hdp_nb._compiling import Kernel, Uncached


@pytest.fixture(autouse=True)
def statistics():
    "Numba counts the arrays that kernels make and free."
    _nrt_python.memsys_enable_stats()
    yield
    _nrt_python.memsys_disable_stats()


class Pair(NamedTuple):
    a: np.ndarray
    b: np.ndarray


class Mixed(NamedTuple):
    pair: Pair
    n: np.ndarray
    scale: float


def parted(function):
    "A function compiled in parts, as the package's own are."
    kernel = njit(nogil=True)(function)
    Kernel(kernel, Uncached)
    return kernel


@parted
def total(pair, scale):
    a, found = pair.a, 0.0
    for i in range(a.size):
        found += scale * a[i] * pair.b[i]
    return found


@parted
def inner(mixed):
    return total(mixed.pair, mixed.scale) + mixed.n[0]


@parted
def own_array(x):
    "The name of the argument is bound to an array of its own, on one of two ways."
    if x[0] > 0:
        x = x + 1
    return x.sum()


@parted
def hand_back(mixed):
    return mixed.pair.b


@parted
def hand_back_either(mixed, first):
    found = mixed.pair.a
    if not first:
        found = np.zeros(3)
    return found


@parted
def swap(mixed):
    "Tuples of the arguments' arrays, made anew, in a loop."
    pair = mixed.pair
    for _ in range(3):
        pair = Pair(pair.b, pair.a)
    return pair


@parted
def fresh(n):
    "A tuple whose arrays nothing else holds."
    pair = Pair(np.arange(n) * 1.0, np.ones(n))
    return total(pair, 2.0)


@parted
def walk(n, x):
    "Calls itself."
    return x.sum() if n == 0 else walk(n - 1, x) + 1.0


@parted
def fails(pair, i):
    if i > 1:
        raise ValueError("two are enough")
    return pair.a[i]


@parted
def calls_what_fails(mixed, i):
    return fails(mixed.pair, i) + mixed.scale


def case():
    return Mixed(Pair(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 4.0])), np.arange(2), 2.0)


CALLS = {
    "a tuple in a tuple": lambda mixed, x: inner(mixed),
    "a name bound anew": lambda mixed, x: own_array(x) + own_array(-x),
    "an argument's array": lambda mixed, x: hand_back(mixed),
    "an argument's array, one way": lambda mixed, x: hand_back_either(mixed, True),
    "an array, the other way": lambda mixed, x: hand_back_either(mixed, False),
    "tuples made anew": lambda mixed, x: swap(mixed).a,
    "a tuple of its own": lambda mixed, x: fresh(4),
    "a call of itself": lambda mixed, x: walk(3, x),
}


def counts(mixed, x):
    "References to all arrays of the case."
    return [sys.getrefcount(one) for one in (*mixed.pair, mixed.n, x)]


def leaks(call):
    "Arrays made and not freed, and references gained or lost, by ten calls."
    mixed, x = case(), np.array([3.0, 4.0])
    call(mixed, x)
    before, made = counts(mixed, x), rtsys.get_allocation_stats()
    for _ in range(10):
        call(mixed, x)
    after = rtsys.get_allocation_stats()
    gained = np.subtract(counts(mixed, x), before)
    return after.alloc - made.alloc - after.free + made.free, gained.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_results_are_pythons_and_references_are_kept(name, monkeypatch):
    mixed, x = case(), np.array([3.0, 4.0])
    found = CALLS[name](mixed, x)
    assert leaks(CALLS[name]) == (0, [0, 0, 0, 0])
    for kernel, value in list(globals().items()):
        if hasattr(value, "py_func"):
            monkeypatch.setitem(globals(), kernel, value.py_func)
    assert np.array_equal(found, CALLS[name](mixed, x))


@pytest.mark.parametrize("wrong", ["makes", "hands back"])
def test_references_that_are_not_counted_are_noticed(wrong, monkeypatch):
    "The control: arrays that a kernel makes, and what it returns, taken for its caller's."
    right = _compiling._Borrowing._is_borrowed

    def is_borrowed(self, value, borrowed):
        op = getattr(value, "op", None)
        return op == ("call" if wrong == "makes" else "cast") or right(self, value, borrowed)

    def lower_assign(self, ty, inst):
        return super(_compiling._Borrowing, self).lower_assign(ty, inst)

    monkeypatch.setattr(_compiling._Borrowing, "_is_borrowed", is_borrowed)
    monkeypatch.setattr(_compiling._Borrowing, "lower_assign", lower_assign)
    make = parted(lambda x: np.zeros(x.size).sum() if wrong == "makes" else x)
    kept = []
    made, gained = leaks(lambda mixed, x: kept.append(make(x)))
    assert made or any(gained)


def test_only_what_python_calls_becomes_machine_code():
    leaf = parted(lambda x: x + 1)
    root = parted(lambda x: 2 * leaf(x))
    assert root(1) == 4
    (part,) = leaf.kernel.parts.overloads.values()
    assert not leaf.overloads and not part.library._finalized
    (entry,) = root.overloads.values()
    assert entry.library._finalized
    assert leaf(1) == 2 and leaf.overloads and not part.library._finalized
    assert root(1.5) == 5.0 and len(leaf.overloads) == 1 and len(leaf.kernel.parts.overloads) == 2


def test_functions_of_others_call_kernels():
    "Compiled by numba alone; and kernels call those."
    theirs = njit(lambda pair, scale: total(pair, scale) + 1)
    assert theirs(case().pair, 2.0) == total.py_func(case().pair, 2.0) + 1
    both = parted(lambda pair: theirs(pair, 1.0))
    assert both(case().pair) == total.py_func(case().pair, 1.0) + 1


def test_what_a_called_kernel_raises_reaches_python():
    assert calls_what_fails(case(), 1) == 4.0
    with pytest.raises(ValueError, match="two are enough"):
        calls_what_fails(case(), 2)
    with pytest.raises(TypingError):
        calls_what_fails(case(), "one")
    assert calls_what_fails(case(), 0) == 3.0


NAMES = """
from itertools import count
from numba import njit
from numba.core.bytecode import FunctionIdentity
from hdp_nb._compiling import Kernel, Uncached
{}
kernel = njit(lambda x: x + 1)
Kernel(kernel, Uncached)
kernel(1)
print(*(part.fndesc.mangled_name for part in kernel.kernel.parts.overloads.values()))
"""


def test_two_processes_name_what_they_compile_differently():
    "Their parts are linked together. Counted from one, as numba does, names are the same."

    def names(numbers=""):
        command = [sys.executable, "-c", NAMES.format(numbers)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert names() != names()
    assert names("FunctionIdentity._unique_ids = count(1)") == names(
        "FunctionIdentity._unique_ids = count(1)"
    )
