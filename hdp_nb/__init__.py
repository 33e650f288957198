"""Hierarchical Dirichlet processes, derived and compiled."""
__version__ = "0.1.0"

from importlib import import_module

# What users call, and its module: loaded when first asked for, so that `import hdp_nb` costs nothing.
_HOME = {"Corpus": "corpus", "load_corpus": "corpus", "make_bars": "corpus", "make_five_topics": "corpus", "make_hdp": "corpus",
         "HDP": "estimators", "LDA": "estimators", "TreeHDP": "estimators", "VariationalHDP": "estimators", "OnlineHDP": "estimators",
         "DPMixture": "estimators", "HNHDP": "estimators", "NestedDP": "estimators", "HDPHMM": "estimators", "load_model": "estimators",
         "document_completion": "evaluate", "left_to_right": "evaluate", "coherence_npmi": "evaluate", "Unigram": "evaluate",
         "Topics": "exchange", "read_topics": "exchange", "write_topics": "exchange", "to_pyldavis": "exchange"}
_MODULES = ("chain", "corpus", "diagnostics", "direct", "distributed", "dp", "estimators", "evaluate", "exchange", "franchise", "hmm", "lanes", "likelihood", "nested", "online", "parallel", "plots", "special", "split_merge", "tree", "variational", "widgets")

__all__ = [*_HOME]


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOME, *_MODULES])
