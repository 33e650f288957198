"""Hierarchical Dirichlet processes, derived and compiled."""

__version__ = "0.1.0"

import os
import stat
import sys
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
    "autoregression",
    "births",
    "blocked",
    "calibration",
    "chain",
    "checks",
    "coarse",
    "consensus",
    "convergence",
    "corpus",
    "counting",
    "diagnostics",
    "direct",
    "distributed",
    "documents",
    "dp",
    "e_step",
    "effects",
    "emissions",
    "estimators",
    "evaluate",
    "evidence",
    "exact",
    "exchange",
    "explore",
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
    "listing",
    "mixture_moves",
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
    "page",
    "pairs",
    "parallel",
    "plates",
    "plots",
    "predictive",
    "priors",
    "readers",
    "recounts",
    "report",
    "results",
    "sampled_topics",
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
    "topic_view",
    "topics",
    "traces",
    "tree",
    "tree_models",
    "trends",
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


def _cache_folder():
    """The folder for compiled kernels, or None.

    `HDP_NB_CACHE` names it; set to 0, or to nothing, it turns the cache off. By default it is where
    the platform keeps what can be made again.
    """
    if (named := os.environ.get("HDP_NB_CACHE")) is not None:
        return None if named in ("", "0") else os.path.abspath(os.path.expanduser(named))
    home = os.path.expanduser("~")
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(home, "AppData", "Local")
    elif sys.platform == "darwin":
        base = os.path.join(home, "Library", "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.join(home, ".cache")
    return os.path.join(base, "hdp_nb") if os.path.isabs(base) else None


def _is_trusted(folder):
    """Whether nobody but this user can have put anything into a folder.

    What numba keeps is loaded as code. So every file must belong to the user and be writable by
    nobody else, unless the folder is closed to all others, and no folder above may let others put
    another one in its place.
    """
    if not hasattr(os, "getuid"):  # Windows protects a user's folders by itself
        return True
    above = folder
    while above != (above := os.path.dirname(above)):
        mode = os.stat(above).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return False
    others = stat.S_IWGRP | stat.S_IWOTH if os.stat(folder).st_mode & 0o077 else 0
    inside = [os.path.join(at, name) for at, *names in os.walk(folder) for name in sum(names, [])]
    return all(
        (found := os.lstat(path)).st_uid == os.getuid()
        and not found.st_mode & others
        and not stat.S_ISLNK(found.st_mode)
        for path in [folder, *inside]
    )


def _prepare(folder):
    """Make the folder of this version's kernels in `folder`; None if it cannot be used or trusted.

    numba notices a change of a function's own file, but not of the functions that it calls in other
    files. So kernels are kept in a folder named after the content of the whole package, numba's
    version and the processor. The folder's name and the marker file in it show what it is, should
    anybody want to clear old ones away.
    """
    from hashlib import sha256
    from pathlib import Path

    import numba
    from llvmlite import binding

    try:
        content = sha256(f"{numba.__version__} {binding.get_host_cpu_name()}".encode())
        for path in sorted(Path(__file__).parent.glob("*.py")):
            content.update(path.read_bytes())
        folder = os.path.join(os.path.realpath(folder), f"kernels-{content.hexdigest()[:16]}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_trusted(folder) or not os.access(folder, os.W_OK | os.X_OK):
            return None
        if not os.path.exists(marker := os.path.join(folder, "hdp_nb-kernels.txt")):
            with open(marker, "w", encoding="utf-8") as file:
                file.write("Kernels compiled by hdp_nb. This folder can be removed at any time.\n")
            os.chmod(marker, 0o600)
        return folder
    except OSError:
        return None


def _cached(folder):
    "A class of numba's function caches that live in `folder` and pass over what is damaged."
    import pickle
    from hashlib import sha256

    from numba.core.caching import FunctionCache, IndexDataCacheFile

    class CheckedFile(IndexDataCacheFile):
        "Begins with a checksum: numba would load, and run, whatever else is there."

        def _read(self, path):
            with open(path, "rb") as file:
                data = file.read()
            if sha256(data[32:]).digest() != data[:32]:
                raise OSError(f"{path} is damaged")
            return pickle.loads(data[32:])

        def _write(self, path, value):
            data = self._dump(value)
            with self._open_for_write(path) as file:
                file.write(sha256(data).digest() + data)
            os.chmod(path, 0o600)

        def _load_index(self):
            try:
                stamp, overloads = self._read(self._index_path)
            except OSError:
                return {}
            return overloads if stamp == self._source_stamp else {}

        def _save_index(self, overloads):
            self._write(self._index_path, (self._source_stamp, overloads))

        def _load_data(self, name):
            return self._read(self._data_path(name))

        def _save_data(self, name, data):
            self._write(self._data_path(name), data)

    class KernelCache(FunctionCache):
        def __init__(self, py_func):
            super().__init__(py_func)
            if not os.path.realpath(self._cache_path).startswith(folder + os.sep):
                raise OSError(f"{self._cache_path} is not in {folder}")
            file = self._cache_file
            self._cache_file = CheckedFile(self._cache_path, "", file._source_stamp)
            vars(self._cache_file).update(vars(file))

        def load_overload(self, sig, target_context):
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # whatever is wrong with it, it can be compiled
                return None

        def save_overload(self, sig, data):
            try:
                super().save_overload(sig, data)
            except Exception:  # a full disk, or a folder that is gone: compiled it is
                pass

    return KernelCache


def _keep_kernels(folder):
    """Keep compiled kernels in a folder: compiled once on a machine, not once in every process.

    Kernels made inside of functions are compiled again in every process. A cache that cannot be
    written, or not be trusted, costs a compilation and is no error.
    """
    from importlib.machinery import PathFinder, SourceFileLoader

    cache = []  # the class of the caches, or None, once a module with kernels is loaded

    class Loader(SourceFileLoader):
        def exec_module(self, module):
            super().exec_module(module)
            kernels = [
                f
                for f in vars(module).values()
                if hasattr(f, "enable_caching") and f.py_func.__module__ == module.__name__
            ]
            if kernels and not cache:
                where = _prepare(folder)
                cache.extend([where, where and _cached(where)])
            if kernels and cache[0]:
                from numba import config

                before, config.CACHE_DIR = config.CACHE_DIR, cache[0]
                for kernel in kernels:
                    if not kernel.py_func.__closure__:
                        try:
                            kernel._cache = cache[1](kernel.py_func)
                        except Exception:  # a disk that is full, or a numba that has changed
                            pass
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


if (_folder := _cache_folder()) is not None:
    _keep_kernels(_folder)
