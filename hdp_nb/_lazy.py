"""Modules that are imported when they are first asked for, so that `import hdp_nb` is quick."""

from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules


def submodule(package, name):
    "A module of a package, imported now; AttributeError if there is none, as Python raises it."
    if name.startswith("_") or find_spec(f"{package}.{name}") is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return import_module(f"{package}.{name}")


def submodules(path):
    "The names of a package's modules, by its `__path__`, without private ones."
    return sorted(found.name for found in iter_modules(path) if not found.name.startswith("_"))
