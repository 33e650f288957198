"""How kernels are compiled: each once, and to machine code only where Python calls it.

Numba gives every function machine code and a way in from Python, and optimises all that a function
calls anew in each of its callers. Most kernels are called by kernels only. So what a kernel
compiles to is kept as a part, and where Python calls a kernel, its part and all those that it calls
are linked, optimised and turned into machine code together. The results are the same, bit by bit.
"""

import os
from collections import Counter
from contextlib import contextmanager
from copy import copy
from itertools import count
from secrets import randbits

import llvmlite.binding as llvm
from numba.core import cgutils, ir
from numba.core.bytecode import FunctionIdentity
from numba.core.caching import NullCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.datamodel import default_manager
from numba.core.environment import Environment, lookup_environment
from numba.core.lowering import Lower
from numba.core.sigutils import normalize_signature
from numba.core.typed_passes import BaseNativeLowering, NativeLowering
from numba.core.types import Dispatcher
from numba.core.types.containers import BaseNamedTuple, NamedTuple, NamedUniTuple
from numba.core.types.misc import Omitted, unliteral
from numba.extending import overload
from numba.np import arrayobj


def _number_functions():
    """Let numba number functions from anywhere.

    The numbers are in the names of symbols. What several processes have compiled is linked
    together, and functions of the same name and types, of which numba has many, and kernels that a
    function makes on one line, must not be taken for each other.
    """
    FunctionIdentity._unique_ids = count(randbits(48) << 14)


_number_functions()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_number_functions)


class _Codegen:
    "Numba's generator of code, which sets no variable of a module that has no machine code."

    def __init__(self, codegen):
        self._codegen = codegen

    def __getattr__(self, name):
        return getattr(self._codegen, name)

    def set_env(self, name, env):
        if self._codegen._engine.is_symbol_defined(name):
            self._codegen.set_env(name, env)


class Part(JITCodeLibrary):
    """Code that is optimised, and becomes machine code, when a pointer into it is asked for.

    Numba asks for one where there is a way in from Python. Whoever links a part takes it as it is.
    """

    _linkable = None

    @property
    def codegen(self):
        return _Codegen(self._codegen)

    def _ensure_finalized(self):
        pass

    def add_linking_library(self, library):
        library._ensure_finalized()
        if hasattr(self, "_reload_init"):  # from numba 0.61
            self._reload_init.update(library._reload_init)
        self._linking_libraries.append(library)

    def _module(self):
        "This part alone; that several modules define its functions is no error."
        if self._linkable is None:
            self._linkable = self._final_module.clone()
            for one in self._linkable.functions:
                if not one.is_declaration and one.linkage == llvm.Linkage.external:
                    one.linkage = "linkonce_odr"
        return self._linkable

    def _called(self):
        """The modules of all that this part calls, directly or not, each once.

        Callers come first: the linker passes over a function that nothing has asked for yet.
        """
        found, seen = [], set()

        def visit(library):
            if library in seen:
                return
            seen.add(library)
            if not isinstance(library, Part):
                found.append(library._get_module_for_linking())
                return
            for one in library._linking_libraries:
                visit(one)
            found.append(library._module())

        for one in self._linking_libraries:
            visit(one)
        return found[::-1]

    def _get_module_for_linking(self):
        if self._shared_module is None:
            self._shared_module = self._module().clone()
            for one in self._called():
                self._shared_module.link_in(one, preserve=True)
        return self._shared_module

    def finalize(self):
        self._raise_if_finalized()
        self._codegen._check_llvm_bugs()
        for one in self._called():
            self._final_module.link_in(one, preserve=True)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def get_pointer_to_function(self, name):
        if not self._finalized:
            try:
                if self._final_module.get_function(name).is_declaration:
                    return 0
            except NameError:
                return 0
            self.finalize()
        return super().get_pointer_to_function(name)

    def _whole(self):
        return self._final_module if self._finalized else self._get_module_for_linking()

    @property
    def has_dynamic_globals(self):
        names = [one.name for one in self._whole().global_variables]
        return any(name.startswith("numba.dynamic.globals") for name in names)

    def environments(self):
        "What numba keeps for the functions in this code."
        names = [one.name for one in self._whole().global_variables]
        found = [lookup_environment(one) for one in names if one.startswith("_ZN08NumbaEnv")]
        return [one for one in found if one is not None]

    def serialize_using_object_code(self):
        if not self._finalized:
            return self.name, "part", self._get_module_for_linking().as_bitcode()
        module = self._final_module
        known = [*module.functions, *module.global_variables]
        names = [one.name for one in known if not one.is_declaration]
        return self.name, "entry", (self._get_compiled_object(), names)

    @classmethod
    def _unserialize(cls, codegen, state):
        name, kind, data = state
        self = codegen.create_library(name)
        if kind == "part":
            self._linkable = self._shared_module = self._final_module = llvm.parse_bitcode(data)
        else:
            code, names = data
            self.enable_object_caching()
            self._set_compiled_object(code)
            self._finalize_final_module()
            codegen._engine._defined_symbols.update(names)
        return self


class _ByAddress:
    """How functions hand on a named tuple of this package: as the address of one.

    Numba hands on every number, shape and address that is in a tuple. For a state of thirty arrays
    these are hundreds, which caller and callee take apart and put together again at each call.
    """

    def get_argument_type(self):
        return self.get_value_type().as_pointer()

    def as_argument(self, builder, value):
        if value.type == self.get_argument_type():
            return value
        return cgutils.alloca_once_value(builder, value)

    def from_argument(self, builder, value):
        return builder.load(value)


def _hand_on_addresses():
    "Tell numba so, for the named tuples of this package only."
    package = __name__.partition(".")[0]
    for kind in (NamedTuple, NamedUniTuple):
        usual = default_manager._handlers[kind]
        ours = type(usual.__name__, (_ByAddress, usual), {})

        def choose(manager, given, usual=usual, ours=ours):
            home = given.instance_class.__module__.partition(".")[0]
            return (ours if home == package else usual)(manager, given)

        default_manager.register(kind, choose)


_hand_on_addresses()


class _Borrowing(Lower):
    """Numba's translation to LLVM, which neither counts nor copies what the caller holds on to.

    Arguments, their copies and the arrays in tuples that are arguments live as long as the call.
    Numba counts a reference to each array of a tuple wherever a name is bound to the tuple, and
    LLVM then has to find out that this was for nothing. Of a tuple that is an argument, what the
    function uses is read once, when it begins.
    """

    _counts, _calls = True, False

    def pre_lower(self):
        super().pre_lower()
        assigned = [one for block in self.blocks.values() for one in block.find_insts(ir.Assign)]
        borrowed = {one.target.name for one in assigned}
        while not borrowed <= (
            kept := borrowed
            - {one.target.name for one in assigned if not self._is_borrowed(one.value, borrowed)}
        ):
            borrowed = kept
        self._borrowed = borrowed
        self._find_addresses(assigned)

    def _is_borrowed(self, value, borrowed):
        "Whether a value is the caller's, if the values of the names in `borrowed` are."
        if isinstance(value, ir.Arg):
            return not isinstance(self.typeof("arg." + value.name), Omitted)
        if isinstance(value, ir.Var):
            return value.name in borrowed
        return (
            isinstance(value, ir.Expr)
            and value.op == "getattr"
            and value.value.name in borrowed
            and isinstance(self.typeof(value.value.name), BaseNamedTuple)
            and value.attr in self.typeof(value.value.name).fields
        )

    def _find_addresses(self, assigned):
        "Where tuples are that came as addresses, by the names that stand for one of these only."
        self._start, self._address, self._fields = self.builder.basic_block, {}, {}
        times = Counter(one.target.name for one in assigned)
        left = [
            one
            for one in assigned
            if times[one.target.name] == 1
            and one.target.name in self._borrowed
            and isinstance(self.typeof(one.target.name), BaseNamedTuple)
        ]
        while left:
            found = [one for one in left if self._find_address(one.target.name, one.value)]
            if not found:
                break
            left = [one for one in left if one not in found]

    def _find_address(self, name, value):
        if isinstance(value, ir.Arg):
            given, address = self.typeof("arg." + value.name), None
            if isinstance(self.context.data_model_manager[given], _ByAddress):
                (address,) = self.fnargs[value.index].operands  # of the load
        elif isinstance(value, ir.Var):
            given, address = self.typeof(value.name), self._address.get(value.name)
        else:
            above = self.typeof(value.value.name)
            at, address = above.fields.index(value.attr), self._address.get(value.value.name)
            given = above[at]
            if address is not None:
                address = cgutils.gep_inbounds(self.builder, address, 0, at)
        if address is None or given != self.typeof(name):
            return False
        self._address[name] = address
        return True

    def _read_field(self, name, at):
        "A field of a tuple that came as an address."
        key = self._address[name], at
        if key not in self._fields:
            with self.builder.goto_block(self._start):
                field = cgutils.gep_inbounds(self.builder, key[0], 0, at)
                self._fields[key] = self.builder.load(field)
        return self._fields[key]

    @contextmanager
    def _uncounted(self):
        self._counts = False
        try:
            yield
        finally:
            self._counts = True

    def lower_inst(self, inst):
        if not (isinstance(inst, ir.Assign) and inst.target.name in self._address):
            super().lower_inst(inst)

    def lower_assign(self, ty, inst):
        if inst.target.name not in self._borrowed:
            return super().lower_assign(ty, inst)
        if isinstance(inst.value, ir.Expr):
            name = inst.value.value.name
            given = self.typeof(name)
            at = given.fields.index(inst.value.attr)
            if name in self._address:
                found = self._read_field(name, at)
            else:
                found = self.builder.extract_value(self.loadvar(name), at)
            return self.context.cast(self.builder, found, given[at], ty)
        with self._uncounted():
            return super().lower_assign(ty, inst)

    def loadvar(self, name):
        if name in self._address:
            return self.builder.load(self._address[name])
        return super().loadvar(name)

    def _lower_call_normal(self, fnty, expr, signature):
        self._calls = isinstance(fnty, Dispatcher)
        try:
            return super()._lower_call_normal(fnty, expr, signature)
        finally:
            self._calls = False

    def _cast_var(self, var, ty):
        if self._calls and isinstance(var, ir.Var) and var.name in self._address:
            by_address = isinstance(self.context.data_model_manager[ty], _ByAddress)
            if by_address and self.typeof(var.name) == ty:
                return self._address[var.name]
        return super()._cast_var(var, ty)

    def storevar(self, value, name, *args, **kwargs):
        if name not in self._borrowed:
            return super().storevar(value, name, *args, **kwargs)
        with self._uncounted():
            return super().storevar(value, name, *args, **kwargs)

    def delvar(self, name):
        if name not in self._borrowed:
            super().delvar(name)

    def incref(self, typ, val):
        if self._counts:
            super().incref(typ, val)

    def decref(self, typ, val):
        if self._counts:
            super().decref(typ, val)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):
    _name = "hdp_nb_lowering"

    @property
    def lowering_class(self):
        return _Borrowing


class _Compiler(CompilerBase):
    "Numba's compiler, with our translation to LLVM."

    def define_pipelines(self):
        made = PassManager("hdp_nb")
        usual = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        made.passes = [(_Lowering if one is NativeLowering else one, why) for one, why in usual]
        made.finalize()
        return [made]


def _refuse_shapes(source, target):
    "Stands for numba's function of the same arguments."


@overload(_refuse_shapes)
def _compiled_refuse_shapes(source, target):
    def refuse(source, target):
        raise ValueError("the array that is assigned has another shape")

    return refuse


@contextmanager
def _in_parts(context):
    """Within, what is compiled is kept as parts, without the ways in for C that nobody takes.

    Where an array is assigned to a part of another, numba compiles a message that spells out both
    shapes, with all that it needs of strings; here the message does not.
    """
    codegen = context.codegen()
    before = codegen._library_class, vars(context).get("create_cfunc_wrapper")
    spelled = getattr(arrayobj, "raise_with_shape_context", None)
    codegen._library_class, context.create_cfunc_wrapper = Part, lambda *args, **kwargs: None
    arrayobj.raise_with_shape_context = _refuse_shapes
    try:
        yield
    finally:
        codegen._library_class, wrapper = before
        arrayobj.raise_with_shape_context = spelled
        if wrapper is None:
            del context.create_cfunc_wrapper


def _enter(part, options):
    "A compiled part, by its result, with a way in from Python and in machine code."
    # A part that was loaded says nothing of this, and has needed less of numba.
    context = part.target_context.subtarget(enable_nrt=options.get("_nrt", True))
    context.refresh()
    entry = copy(part.fndesc)
    # The way in needs objects of its own, such as the types of arrays that are returned: the part
    # does not know of them, whichever of the two another process loads first.
    entry.env_name += "_entry"
    environment = Environment.from_fndesc(entry)
    library = context.codegen().create_library(f"{entry.mangled_name}.entry")
    library.enable_object_caching()
    library.add_linking_library(part.library)
    with context.push_code_library(library):
        context.create_cpython_wrapper(
            library, entry, environment, part.call_helper, release_gil=options.get("nogil", False)
        )
    pointer = context.get_executable(library, entry, environment)
    environments = library.environments()
    for one in environments:
        library.codegen.set_env(one.env_name, one)
    return part._replace(
        library=library,
        entry_point=pointer,
        fndesc=entry,
        environment=environment,
        referenced_envs=environments,
    )


def _without_literals(fold):
    """Types of a call's arguments, where a number that stands in the code is one like any other.

    For each literal in a call numba would compile all that is called once more.
    """

    def fold_types(args, kws):
        signature, found = fold(args, kws)
        return signature, tuple(map(unliteral, found))

    return fold_types


class Uncached(NullCache):
    "A cache that keeps nothing."

    def __init__(self, py_func, kind):
        pass

    def compiled(self):
        pass


class Kernel:
    """A function that is compiled as a part for other kernels, and as an entry for Python.

    Parameters
    ----------
    dispatcher : numba.core.dispatcher.Dispatcher
        As `njit` has made it; from now on it compiles as this says.
    cache : callable
        Given the Python function and "part" or "entry": a cache like numba's for what is compiled.
        Its method `compiled` is called when a compilation has ended, well or not.
    """

    def __init__(self, dispatcher, cache):
        self._entries, self._make_cache, self._parts = dispatcher, cache, None
        entries, compiler = cache(dispatcher.py_func, "entry"), dispatcher._compiler
        compiler.fold_argument_types = _without_literals(compiler.fold_argument_types)
        dispatcher._cache = entries
        dispatcher.kernel = self
        dispatcher.compile = self.compile
        dispatcher.get_call_template = self.get_call_template
        dispatcher.get_overload = lambda sig: self.parts.get_overload(sig)

    @property
    def parts(self):
        "Numba's dispatcher of the parts."
        if self._parts is None:
            entries = self._entries
            compiler = entries._compiler
            made = type(entries)(
                entries.py_func,
                locals=entries.locals,
                targetoptions={**entries.targetoptions, "no_cpython_wrapper": True},
                pipeline_class=_Compiler,
            )
            made._compiler.fold_argument_types = compiler.fold_argument_types
            made._cache = self._make_cache(entries.py_func, "part")
            self._parts = made
        return self._parts

    def get_call_template(self, args, kws):
        "What numba asks for where another function calls this one."
        with global_compiler_lock, _in_parts(self._entries.targetctx):
            return self._of_parts(self.parts.get_call_template, args, kws)

    def compile(self, sig):
        "Compile for Python, unless that is done; returned is numba's entry."
        entries, (args, _) = self._entries, normalize_signature(sig)
        # Threads wait for each other here, then processes for the cache.
        with global_compiler_lock, _in_parts(entries.targetctx):
            if (found := entries.overloads.get(args)) is not None:
                return found.entry_point
            try:
                found = entries._cache.load_overload(args, entries.targetctx)
                (entries._cache_hits if found else entries._cache_misses)[args] += 1
                if found is None:
                    found = self._compile(args)
                entries.add_overload(found)
                return found.entry_point
            finally:
                entries._cache.compiled()

    def _of_parts(self, method, *args):
        "A method of numba's that may compile a part; a function that calls itself is found out."
        try:
            with self._entries._compiling_counter:
                return method(*args)
        finally:
            self.parts._cache.compiled()

    def _compile(self, args):
        self._of_parts(self.parts.compile, args)
        found = _enter(self.parts.overloads[args], self._entries.targetoptions)
        self._entries._cache.save_overload(args, found)
        return found
