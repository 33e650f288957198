"""Compiled kernels, kept in a folder: compiled once on a machine, not once in every process."""

import os
import stat
import sys

_PACKAGE = __name__.rpartition(".")[0]
_ROOT = os.path.dirname(__file__)


def cache_folder():
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
    for path in [folder, *inside]:
        try:
            found = os.lstat(path)
        except FileNotFoundError:  # another process has put a kernel in its place, or removed it
            continue
        if found.st_uid != os.getuid() or found.st_mode & others or stat.S_ISLNK(found.st_mode):
            return False
    return True


# Of numba's configuration, what its cache keys do not tell.
_SETTINGS = "BOUNDSCHECK DEBUGINFO_DEFAULT OPT CPU_NAME CPU_FEATURES ENABLE_AVX".split()
_SETTINGS += "LOOP_VECTORIZE SLP_VECTORIZE LLVM_REFPRUNE_PASS".split()
_MARKER = "hdp_nb-kernels.txt"


def _relative(name):
    "A module's name within the package; empty for the package itself."
    return name.removeprefix(_PACKAGE).removeprefix(".")


def _is_part(name):
    "Whether a name within the package, empty for itself, is that of a package."
    return os.path.isfile(os.path.join(_ROOT, *name.split("."), "__init__.py"))


def _path_of(name):
    "The file of a module or of a part, by its name within the package, or None."
    path = os.path.join(_ROOT, *name.split("."))
    path = os.path.join(path, "__init__.py") if _is_part(name) else f"{path}.py"
    return path if os.path.isfile(path) else None


class _Texts:
    """The source of each module that was read, and which modules it imports.

    numba notices when a function's own file changes, but not when the functions it calls in other
    files do. What a kernel compiles to depends on its module, on those that this imports, directly
    or not, and on this file and `_compiling`, which say how kernels are compiled.
    """

    def __init__(self):
        self._read = {}  # by name within the package: a digest of the text, and what it imports
        self._contents = {}
        self.mixed = False  # was a module loaded twice, with changes in between?

    def read(self, name, path=None):
        "Record a module's source; just before it runs, since files may be edited."
        from hashlib import sha256

        path = path or _path_of(name)
        with open(path, "rb") as file:
            text = file.read()
        digest = sha256(text).hexdigest()
        self.mixed |= self._read.get(name, (digest,))[0] != digest
        is_part = os.path.basename(path) == "__init__.py"
        self._read[name] = digest, _imports(text.decode("latin-1"), name, is_part)
        self._contents.clear()

    def content(self, name):
        "A digest of a module, by its name in the package, and of all modules that it builds upon."
        from hashlib import sha256

        if name not in self._contents:
            found, wanted = {}, {_relative(__name__), "_compiling", name}
            while wanted:
                if (one := wanted.pop()) not in self._read:
                    self.read(one)
                found[one], imports = self._read[one]
                wanted |= imports - found.keys()
            self._contents[name] = sha256(repr(sorted(found.items())).encode()).hexdigest()
        return self._contents[name]


def _imports(text, name, is_part=False):
    """The modules and parts of this package that a module imports, by their names within it.

    Only lines at the margin are read: no function imports a module of this package. A name that the
    package hands on counts for the module that defines it.
    """
    import re

    wanted = re.findall(rf"(?m)^import {_PACKAGE}\.([\w.]+)", text)
    pattern = rf"(?m)^from (\.+|{_PACKAGE}\b\.?)([\w.]*) import (\([^)]*\)|[^\n(]+)"
    for start, given, names in re.findall(pattern, text):
        above = name.split(".")
        # One dot means the part that the module is in; of a part's own file, the part itself.
        above = above[: len(above) - len(start) + is_part] if start[0] == "." else []
        at = ".".join([*filter(None, above), *filter(None, [given])])
        wanted.append(at)
        if _is_part(at):
            homes = {} if at else vars(sys.modules[_PACKAGE])["_HOME"]
            named = re.findall(r"(?:^|,)\s*(\w+)", re.sub(r"#.*", "", names).strip("() \n"))
            wanted += [homes.get(one, one) if not at else f"{at}.{one}" for one in named]
    return {one for one in wanted if one and _path_of(one)}


_texts = _Texts()


def _prepare(folder):
    """Make the folder of this version's kernels in `folder`; None if it cannot be used or trusted.

    It is named after this package's version, numba's, the processor, and the settings by which code
    comes out another: who asks for NUMBA_BOUNDSCHECK=1 must not be given kernels without checks.
    The folder's name and the marker file in it show what it is, should anybody want to clear it
    away.
    """
    from hashlib import sha256

    import numba
    from llvmlite import binding

    try:
        _texts.read(_relative(__name__), __file__)
        made = [sys.modules[_PACKAGE].__version__, numba.__version__, binding.get_host_cpu_name()]
        made += [getattr(numba.config, name, None) for name in _SETTINGS]
        name = f"kernels-{sha256(repr(made).encode()).hexdigest()[:16]}"
        folder = os.path.join(os.path.realpath(folder), name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_trusted(folder) or not os.access(folder, os.W_OK | os.X_OK):
            return None
        if not os.path.exists(marker := os.path.join(folder, _MARKER)):
            with open(marker, "w", encoding="utf-8") as file:
                file.write("Kernels compiled by hdp_nb. This folder can be removed at any time.\n")
            os.chmod(marker, 0o600)
        return folder
    except OSError:
        return None


def _identify(kernel):
    """What a kernel does, as a tuple of texts that is the same in every process.

    A module's kernel is named by where it stands, and by the content of its module and of those
    that this imports. One that a function has made is told from its siblings by what it closes
    over, and by what its names mean now, which somebody may have replaced: all that is another
    module's brings the content of that one.

    Raises
    ------
    ValueError
        If it calls anything that does not stand in this package, numba or NumPy.
    """
    from types import CodeType, ModuleType

    import numpy as np

    known = (_PACKAGE, "numba", "numpy", "math", "builtins", "typing", "collections")

    def place(value):
        module = getattr(value, "__module__", None) or ""
        if module.split(".")[0] not in known:
            raise ValueError(f"{value!r} may be another one in another process")
        content = _texts.content(_relative(module)) if module.split(".")[0] == _PACKAGE else ""
        return module, content, getattr(value, "__qualname__", None) or value.__name__

    def text(code):
        "Instructions, constants and the names of globals of a function and of those inside of it."
        inner = [const for const in code.co_consts if isinstance(const, CodeType)]
        plain = [const for const in code.co_consts if not isinstance(const, CodeType)]
        texts = [text(part) for part in inner]
        names = {*code.co_names}.union(*(names for _, names in texts))
        return (code.co_code, repr(plain), [found for found, _ in texts]), names

    def identity(value):
        if function := getattr(value, "py_func", None):
            return id(function) in above or of(function)
        if isinstance(value, tuple):
            return place(type(value)), tuple(map(identity, value))
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return value.dtype.str, value.shape, value.tobytes()
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
            return type(value).__name__, repr(value)
        if not isinstance(value, ModuleType):
            return place(value)
        own = value.__name__.split(".")[0] == _PACKAGE
        if own and hasattr(value, "__path__"):
            raise ValueError("every module can be reached by way of the package or of a part")
        return value.__name__, _texts.content(_relative(value.__name__)) if own else ""

    def of(function):
        code, cells = function.__code__, function.__closure__ or ()
        found = [*place(function)[:2], code.co_qualname, code.co_firstlineno]
        if "<locals>" not in code.co_qualname:
            return tuple(found)
        above.add(id(function))
        written, names = text(code)
        found.append(written)
        found += zip(code.co_freevars, (identity(cell.cell_contents) for cell in cells))
        for name in sorted(names):
            if name in function.__globals__:
                found.append((name, identity(function.__globals__[name])))
        above.remove(id(function))
        return tuple(found)

    above = set()  # the functions that we are inside of
    return of(kernel)


def _named_tuples(types):
    """The classes of named tuples in some of numba's types, as (module, name, fields).

    What numba calls such a type has the types of its fields, but neither their names nor their
    order; and a kernel's module need not import the class of what it is given.
    """
    from numba.types import Type

    found = []
    for one in types:
        if made := getattr(one, "instance_class", None):
            found.append((made.__module__, made.__qualname__, made._fields))
        for part in vars(one).values():
            parts = part if isinstance(part, (tuple, list)) else [part]
            found += _named_tuples([inner for inner in parts if isinstance(inner, Type)])
    return found


class _Turns:
    """Of several processes that need the same kernel at the same time, one compiles it.

    The others wait until it is there, though not for ever: whoever compiles may have been stopped.
    A turn is a lock on one byte of a file, which ends with the process that has it.
    """

    patience = 120.0  # seconds

    def __init__(self, path):
        self._path, self._file, self._held = path, None, {}

    def take(self, name):
        "Wait for a turn, unless this system or this folder has no such locks."
        from hashlib import sha256
        from time import monotonic, sleep

        try:
            import fcntl

            if self._file is None:
                self._file = open(self._path, "r+b")  # for good: closing it would end every turn
            place = int(sha256(name.encode()).hexdigest()[:15], 16)
            end = monotonic() + self.patience
            while monotonic() < end:
                try:
                    fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                except (BlockingIOError, PermissionError):  # another's turn
                    sleep(0.05)
                else:
                    self._held[name] = place
                    return
        except (ImportError, OSError):
            pass

    def give_back(self, name):
        "End a turn, if it was had."
        if (place := self._held.pop(name, None)) is not None:
            import fcntl

            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)


def _cached(folder):
    "A class of numba's function caches that live in `folder` and pass over what is damaged."
    import pickle
    from hashlib import sha256
    from tempfile import mkstemp

    from numba.core.caching import CompileResultCacheImpl, _Cache
    from numba.core.serialize import dumps

    def ready(target_context):
        "Prepare for a kernel that is there: what only compiling needs, numba prepares for itself."
        try:
            from numba.core.runtime import rtsys

            rtsys.initialize(target_context)
        except Exception:  # a numba that has changed
            target_context.refresh()

    class Parts(CompileResultCacheImpl):
        "How a compiled function is taken apart and put together; where it is kept is our business."

        def __init__(self):
            pass

    turns = _Turns(os.path.join(folder, _MARKER))

    class KernelCache(_Cache):
        """One file for each signature, named by all that it depends on.

        It begins with a checksum: numba would load, and run, whatever else is there. There is no
        index that two processes could write at once.
        """

        cache_path = folder

        def __init__(self, py_func, kind):
            self._py_func, self._kind, self._digest = py_func, kind, None
            self._enabled, self._turns = True, {}

        def enable(self):
            self._enabled = True

        def disable(self):
            self._enabled = False

        def flush(self):
            pass  # what has changed has another name

        def _path(self, sig, codegen):
            if _texts.mixed:
                raise ValueError("nobody knows which of two texts a kernel calls")
            if self._digest is None:
                function = self._py_func
                identity = repr((_identify(function), sys.version, sys.flags.optimize))
                self._digest = sha256(identity.encode()).hexdigest()[:16]
                self._name = ".".join([_relative(function.__module__), function.__name__])
            key = repr((self._kind, self._digest, sig, codegen.magic_tuple()))
            if " at 0x" in key:  # a function as an argument
                raise ValueError(f"{key} means nothing in another process")
            key += repr(_named_tuples(sig))
            name = f"{self._name}-{self._kind}-{sha256(key.encode()).hexdigest()[:24]}.nbc"
            return os.path.join(folder, name)

        def _load(self, path, sig, target_context):
            try:
                with open(path, "rb") as file:
                    data = file.read()
                if self._enabled and sha256(data[32:]).digest() == data[:32]:
                    kept, payload = pickle.loads(data[32:])
                    return Parts().rebuild(target_context, payload) if kept == sig else None
            except Exception:  # whatever is wrong with it, it can be compiled
                pass
            return None

        def load_overload(self, sig, target_context):
            ready(target_context)
            try:
                path = self._path(sig, target_context.codegen())
            except Exception:  # it cannot be kept
                return None
            found = self._load(path, sig, target_context)
            if found is None and self._enabled:
                turns.take(path)
                self._turns[sig] = path
                found = self._load(path, sig, target_context)
            return found

        def compiled(self):
            "However it has ended, whoever waits for it may go on."
            while self._turns:
                turns.give_back(self._turns.popitem()[1])

        def save_overload(self, sig, data):
            lifted = any(not part.can_cache for part in data.lifted)
            if not self._enabled or lifted or data.library.has_dynamic_globals:
                return
            try:
                path = self._path(sig, data.codegen)
                whole = dumps((sig, Parts().reduce(data)))
                number, new = mkstemp(dir=folder, prefix=f"{self._name}-", suffix=".tmp")  # is 0600
                try:
                    with open(number, "wb") as file:
                        file.write(sha256(whole).digest() + whole)
                    os.replace(new, path)
                except BaseException:
                    os.unlink(new)
                    raise
            except Exception:  # a full disk, or a folder that is gone: compiled it is
                pass

    return KernelCache


def keep_kernels(folder):
    """Keep compiled kernels in a folder: compiled once on a machine, not once in every process.

    Those that functions of this package make, too, which close over other kernels. A cache that
    cannot be written, or not be trusted, costs a compilation and is no error. Without a folder,
    None, nothing is kept.
    """
    from functools import wraps
    from importlib.machinery import PathFinder, SourceFileLoader

    cache = []  # the class of the caches, or None, once a module with kernels is loaded

    def keep(kernel):
        try:
            from ._compiling import Kernel, Uncached

            Kernel(kernel, cache[0] or Uncached)
        except Exception:  # a numba that has changed
            pass
        return kernel

    def keeping(njit):
        "The decorator, for the functions of a module that make kernels when they are called."

        @wraps(njit)
        def decorate(*args, **options):
            made = njit(*args, **options)
            return keep(made) if args else lambda function: keep(made(function))

        return decorate

    class Loader(SourceFileLoader):
        def exec_module(self, module):
            _texts.read(_relative(self.name), self.path)
            super().exec_module(module)
            if "njit" not in vars(module):
                return
            if not cache:
                where = folder and _prepare(folder)
                cache.append(where and _cached(where))
            for f in [*vars(module).values()]:
                if hasattr(f, "enable_caching") and f.py_func.__module__ == module.__name__:
                    keep(f)
            module.njit = keeping(module.njit)

    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if not name.startswith(_PACKAGE + "."):
                return None
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = Loader(spec.loader.name, spec.loader.path)
            return spec

    sys.meta_path.insert(0, Finder)
