"A kernel with other things behind its names: to break it on purpose, or to force a rule."

import types

from numba import njit


def rebind(kernel, **names):
    "The same kernel, compiled with other functions or numbers behind some of its names."
    code = kernel.py_func
    return njit(types.FunctionType(code.__code__, {**code.__globals__, **names}))
