"""The examples in docstrings: each prints what it says, and whatever users call has one."""

import doctest
import inspect
import pkgutil
import re
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from tiers import slow_unless

import hdp_nb
from hdp_nb.models.consensus import Consensus
from hdp_nb.models.exchange import Topics
from hdp_nb.sequences.finite import FiniteHMM

API = Path(__file__).parent.parent / "nbs" / "api.md"
ESTIMATORS = [
    *(hdp_nb.HDP, hdp_nb.LDA, hdp_nb.TreeHDP, hdp_nb.VariationalHDP, hdp_nb.OnlineHDP),
    *(hdp_nb.DPMixture, hdp_nb.HDPMixture, hdp_nb.HNHDP, hdp_nb.NestedDP, hdp_nb.HDPHMM, FiniteHMM),
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# Packages that an example needs and the package does not, any of them.
NEEDS = {"SampledModel.to_arviz": ("arviz", "arviz_base")}


def with_examples():
    "Names of the modules in whose text there are any; what has none is not imported."
    for found in pkgutil.walk_packages(hdp_nb.__path__, "hdp_nb."):
        if found.name.endswith("__main__") or found.ispkg:
            continue
        if ">>> " in Path(find_spec(found.name).origin).read_text(encoding="utf-8"):
            yield found.name


def unwrapped(thing):
    "The function of a property, cached or not, of a class method or of a compiled function."
    thing = getattr(thing, "fget", None) or getattr(thing, "func", thing)
    return inspect.unwrap(getattr(thing, "__func__", thing))


def documented(module):
    "Functions, classes and their methods that a module defines: (name, thing)."
    own = lambda thing: getattr(thing, "__module__", None) == module.__name__
    for name, thing in [*vars(module).items()]:  # which a fit may add to
        if not (own(thing) and isinstance(inspect.unwrap(thing), (type, FunctionType))):
            continue
        yield name, thing
        for part, method in [*vars(thing).items()] if inspect.isclass(thing) else ():
            if own(unwrapped(method)) and not inspect.isclass(method):
                yield f"{name}.{part}", method


def doc_of(thing):
    "The docstring at run time, of a compiled function that of what was compiled."
    return thing.__doc__ or getattr(unwrapped(thing), "__doc__", None) or ""


def is_missing(name):
    needs = NEEDS.get(name, ())
    return bool(needs) and not any(map(find_spec, needs))


# Whose examples take ten seconds and more.
LONG = ("hdp_nb.models.states", "hdp_nb.models.grouped_mixtures", "hdp_nb.sequences.durations")


@pytest.mark.parametrize("name", slow_unless(lambda name: name not in LONG, with_examples()))
def test_examples_print_what_they_say(name, tmp_path, monkeypatch):
    "Each on its own: it imports what it needs, and writes into a folder of its own."
    module, report, n = import_module(name), [], 0
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    printed = np.printoptions(precision=8, suppress=False, linewidth=75, threshold=1000)
    with printed, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for thing_name, thing in documented(module):
            if is_missing(thing_name):
                continue
            text = inspect.cleandoc(doc_of(thing))
            test = doctest.DocTestParser().get_doctest(text, {}, thing_name, name, 0)
            n += len(test.examples)
            (tmp_path / thing_name).mkdir()
            monkeypatch.chdir(tmp_path / thing_name)
            runner.run(test, out=report.append)
    assert n and not report, "".join(report)


def listed():
    "What api.md lists by what one wants to do with it, before all modules: (name, thing)."
    text = API.read_text(encoding="utf-8").split("\n## All modules")[0]
    for name in re.findall(r"(?m)^   ([\w.]+)$", text):
        *module, last = name.split(".")
        yield name, getattr(import_module(".".join(["hdp_nb", *module])), last)


def methods(kind):
    "Public ones, and properties that are no results; those of other packages say nothing new."
    for name in dir(kind):
        home = next((vars(of) for of in kind.__mro__ if name in vars(of)), {})
        thing = home.get(name)
        function = callable(unwrapped(thing)) and not name.startswith("_")
        result = isinstance(thing, property) and name.endswith("_")
        module = getattr(unwrapped(thing), "__module__", None) or ""
        if function and not result and module.startswith("hdp_nb"):
            yield f"{kind.__name__}.{name}", thing


@pytest.mark.parametrize("kind", [*ESTIMATORS, Consensus, Topics], ids=lambda kind: kind.__name__)
def test_estimators_and_their_methods_have_examples(kind):
    things = [(kind.__name__, kind), *methods(kind)]
    # As help() shows it, from a base class where a method of a subclass has none of its own.
    missing = [name for name, thing in things if ">>> " not in (inspect.getdoc(thing) or "")]
    assert not missing, ", ".join(missing)
    if kind in ESTIMATORS:
        assert f"{kind.__name__}.fit" in dict(things)
        assert inspect.cleandoc(kind.__doc__).rpartition("\n\n")[2].startswith("Examples\n---")


@pytest.mark.skipif(not API.exists(), reason="needs the pages of the repository in nbs")
def test_what_the_api_lists_has_an_example():
    names = dict(listed())
    assert len(names) > 80
    missing = [name for name, thing in names.items() if ">>> " not in doc_of(thing)]
    assert not missing, ", ".join(missing)


def test_a_wrong_example_is_found():
    "And one of a compiled function is not overlooked."
    from numba import njit

    @njit
    def double(x):
        """Double.

        >>> 1 + 1
        3
        """
        return 2 * x

    report = []
    test = doctest.DocTestParser().get_doctest(doc_of(double), {}, "double", None, 0)
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert "Expected:\n    3" in "".join(report)
