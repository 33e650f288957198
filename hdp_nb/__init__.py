"""Hierarchical Dirichlet processes, derived and compiled."""

__version__ = "0.1.0"

import os
from importlib import import_module

# What users call, and its module, which is loaded when first asked for: `import hdp_nb` costs
# nothing.
_HOME = {
    "Corpus": "corpus",
    "count_texts": "counting",
    "load_corpus": "readers",
    "make_bars": "synthetic",
    "make_five_topics": "synthetic",
    "make_hdp": "synthetic",
    "HDP": "estimators",
    "LDA": "estimators",
    "TreeHDP": "estimators",
    "VariationalHDP": "estimators",
    "OnlineHDP": "estimators",
    "DPMixture": "estimators",
    "HNHDP": "estimators",
    "NestedDP": "estimators",
    "HDPHMM": "estimators",
    "load_model": "estimators",
    "document_completion": "evaluate",
    "left_to_right": "evaluate",
    "coherence_npmi": "evaluate",
    "ConvergenceWarning": "convergence",
    "Unigram": "evaluate",
    "Topics": "exchange",
    "read_topics": "exchange",
    "write_topics": "exchange",
    "to_pyldavis": "exchange",
}
_MODULES = (
    "arguments",
    "births",
    "chain",
    "checks",
    "convergence",
    "corpus",
    "counting",
    "diagnostics",
    "direct",
    "distributed",
    "documents",
    "dp",
    "e_step",
    "emissions",
    "estimators",
    "evaluate",
    "exact",
    "exchange",
    "families",
    "files",
    "finite_hmm",
    "franchise",
    "hdp_split_merge",
    "hierarchy",
    "hmm",
    "hmm_blocked",
    "hmm_groups",
    "hmm_predict",
    "hmm_sampler",
    "hmm_scores",
    "lda",
    "likelihood",
    "mixtures",
    "model",
    "moves",
    "nested",
    "nested_models",
    "nested_moves",
    "nested_sampler",
    "nested_words",
    "online",
    "online_moves",
    "pairs",
    "parallel",
    "plates",
    "plots",
    "priors",
    "readers",
    "report",
    "results",
    "saved_models",
    "sequence_models",
    "shards",
    "special",
    "split_merge",
    "state_moves",
    "state_pairs",
    "streams",
    "style",
    "synthetic",
    "topic_models",
    "topic_moves",
    "topics",
    "traces",
    "tree",
    "tree_models",
    "variational",
    "variational_models",
    "vector_kernels",
    "widgets",
)

__all__ = [*_HOME]


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOME, *_MODULES])


def _keep_kernels(folder):
    """Keep compiled kernels in a folder: compiled once on a machine, not once in every process.

    numba notices a change of a function's own file, but not of the functions that it calls in other
    files. So they are kept in a folder named after the content of the whole package. Kernels made
    inside of functions are compiled again in every process. The folder's name and the marker file
    in it show what it is, should anybody want to clear old ones away.
    """
    import sys
    from hashlib import sha256
    from importlib.machinery import PathFinder, SourceFileLoader
    from pathlib import Path

    content = sha256(
        b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    ).hexdigest()
    folder = os.path.join(os.path.abspath(os.path.expanduser(folder)), f"kernels-{content[:16]}")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(marker := os.path.join(folder, "hdp_nb-kernels.txt")):
        with open(marker, "w", encoding="utf-8") as file:
            file.write("Kernels compiled by hdp_nb. This folder can be removed at any time.\n")

    class Loader(SourceFileLoader):
        def exec_module(self, module):
            super().exec_module(module)
            kernels = [
                f
                for f in vars(module).values()
                if hasattr(f, "enable_caching") and f.py_func.__module__ == module.__name__
            ]
            if kernels:
                from numba import config

                before, config.CACHE_DIR = config.CACHE_DIR, folder
                for kernel in kernels:
                    if not kernel.py_func.__closure__:
                        kernel.enable_caching()
                config.CACHE_DIR = before

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if not name.startswith(__name__ + "."):
                return None
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = Loader(spec.loader.name, spec.loader.path)
            return spec

    sys.meta_path.insert(0, Finder)


if os.environ.get("HDP_NB_CACHE"):
    _keep_kernels(os.environ["HDP_NB_CACHE"])
