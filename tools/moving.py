"""The package's kernels in the browser: `python tools/run.py moving` makes kernels.js.

numba hands its LLVM IR over before it is optimised for this machine; with the WebAssembly target
that llvmlite has, it becomes one module, which needs no linker: an object file of a single module
has its provisional addresses right.  Arguments are baked in: arrays lie at fixed places of the
memory, whose first contents travel with the module.  Random numbers come from numpy's PCG64, so
that a browser draws what Python draws; tests/test_site.py holds them against each other.
"""

import base64
import json
import os
import pickle
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
from numba import njit, typeof
from numba.core import codegen

from hdp_nb.corpora import corpus
from hdp_nb.corpora.synthetic import make_bars
from hdp_nb.mixtures import dp, split_merge
from hdp_nb.mixtures import normal as families
from hdp_nb.processes.dp import crp
from hdp_nb.sequences import hdp_hmm as hmm
from hdp_nb.sequences import samplers as hmm_sampler
from hdp_nb.sequences.emissions import symbols
from hdp_nb.topics import franchise
from hdp_nb.topics.counts import new_topic_workspace
from hdp_nb.utils import special

HERE = Path(__file__).resolve().parent
MADE = HERE / "site" / "static" / "kernels.js"
SEEDS = 8  # where one may begin
BASE = 1 << 18  # arrays lie from here on; below are the module's constants, and the stack

# What moves: for each scene, functions with their arguments, and the arrays to be shown.

_nothing = njit(lambda alpha: None)
_seat = njit(type(crp)(crp.__code__, {**crp.__globals__, "check_positive": _nothing}))  # it raises


@njit
def _break(rng, alpha, pieces):
    special.sample_sticks(rng, alpha[0], pieces)


@njit
def _fill(rng, alpha, table):
    table[:] = _seat(rng, len(table), alpha[0])


@njit
def _weigh_customer(state, workspace, x, offsets, chosen, out):
    """How probable each table of its restaurant is for a customer, everyone else seated.

    `out`: the tables in their order, then a new table with each dish.
    """
    t, z, n_jt, k_jt, m_k, i = state.t, state.z, state.n_jt, state.k_jt, state.m_k, chosen[0]
    j = np.searchsorted(offsets, i, side="right") - 1
    v, k, first = x[i], z[i], offsets[j]
    last = n_jt[first + t[i]] == 1
    n_jt[first + t[i]] -= 1
    state.n_vk[v, k] -= 1
    state.n_k[k] -= 1
    m_k[k] -= last
    franchise.fill_workspace(state, workspace)
    n_jk, mass, p, T = workspace.n_jk, workspace.mass, workspace.p, state.n_tables[j]
    n_jk[:] = 0.0
    for other in range(first, offsets[j + 1]):
        n_jk[z[other]] += other != i
    w = (workspace.m[0] + state.gamma[()]) / state.alpha[()]
    a = 1.0 / w
    franchise._refresh(workspace, w, k_jt, first, first + T)
    for o in range(len(p)):
        p[o] = workspace.coef[o] * (state.n_vk[v, o] + state.eta[()])  # (K1)
    out[:] = 0.0
    total = p.sum()
    for b in range(T):
        o = k_jt[first + b]
        if n_jt[first + b] > 0:
            out[b] = p[o] / total * n_jt[first + b] / (n_jk[o] + a * mass[o])
    for o in range(len(p)):
        if mass[o] > 0.0:
            out[T + o] = p[o] / total * a * mass[o] / (n_jk[o] + a * mass[o])
    n_jt[first + t[i]] += 1
    state.n_vk[v, k] += 1
    state.n_k[k] += 1
    m_k[k] += last


WORDS = "sea sand sun ball goal team".split()
DIARY = ["sea sand sun sea sun sand sea sun", "ball goal team goal ball team goal ball"]
DIARY += ["sun ball sea goal sand team sun sea", "team ball sun goal sea team ball sand"]
PATTERN = "ABCDEFEDCB"


def scenes():
    rng = np.random.default_rng(0)
    alpha, pieces, table = np.array([2.0]), np.zeros(40), np.zeros(60, np.int64)
    made = {
        "stick": ({"step": (_break, (rng, alpha, pieces))}, {"alpha": alpha, "pieces": pieces}),
        "urn": ({"step": (_fill, (rng, alpha.copy(), table))}, {"table": table}),
    }
    made["urn"][1]["alpha"] = made["urn"][0]["step"][1][1]
    diary = corpus.Corpus.from_docs([[WORDS.index(w) for w in text.split()] for text in DIARY])
    made["franchise"] = franchise_scene(diary, None, 16)
    bars, _ = make_bars(n_docs=60, doc_len=30, grid=5, concentration=1.0, random_state=0)
    made["bars"] = franchise_scene(bars, 20, 48)
    points = np.concatenate([rng.normal(at, 1.0, (20, 2)) for at in ((-3, 0), (3, 0), (0, 4))])
    fam, prior = families.normal_known_variance, families.make_known_variance_prior(2, 0.0, 25.0)
    state = dp.DPMixtureSampler(fam, points, prior, alpha=0.5).state(np.zeros(60, int))
    tally, work = np.zeros(4, np.int64), np.full((3, 60), -1)
    options = split_merge.MoveOptions(1, 0, False)
    room = split_merge.MoveRoom(work, np.zeros(60, np.int64), np.empty((1, 2), np.int64))
    propose = (rng, state, points, prior, options, 0, tally, room)
    made["split"] = (
        {"step": (split_merge.make_propose(fam, split_merge.DP), propose)},
        {"points": points, "z": state.z, "K": state.K, "tally": tally, "work": work},
    )
    x = [ord(letter) - 65 for letter in PATTERN * 12]
    prior, steps = hmm_sampler.check_sequences(x, [len(x)], "categorical", None, 6, 0.5)
    sampler = hmm_sampler.HMMSampler(symbols, prior, steps, init=20)
    state = sampler.init(rng)
    work = hmm.new_direct_workspace(state.n_k.size)
    sweep = (rng, state, work, hmm.no_parent(), prior, sampler.hyper, steps, 0)
    made["hmm"] = (
        {"step": (hmm.make_direct_sweep(symbols), sweep)},
        {"x": steps.data, "z": state.z, "K": state.K, "alpha": state.alpha, "gamma": state.gamma},
    )
    return made


def franchise_scene(corpus, init, capacity):
    sampler = franchise.FranchiseSampler(corpus, init=init or "sequential")
    rng = np.random.default_rng(1)
    state = franchise.resize_capacity(sampler.init(rng), capacity)
    longest = int(corpus.doc_lengths.max())
    work = new_topic_workspace(corpus.n_words, longest, capacity)
    lengths, offsets, shown = corpus.doc_lengths, corpus.offsets, state._asdict()
    entries = {
        "step": (
            franchise._sweep_franchise,
            (rng, state, work, corpus.x, offsets, lengths, sampler.prior, True),
        )
    }
    if init is None:
        shown["chosen"], shown["out"] = np.zeros(1, np.int64), np.zeros(longest + capacity)
        weigh = (state, work, corpus.x, offsets, shown["chosen"], shown["out"])
        entries["weigh"] = (_weigh_customer, weigh)
    return entries, {**shown, "x": corpus.x, "offsets": offsets}


def draw(name, seed, steps):
    "What Python draws: the arrays of a scene after some steps."
    entries, shown = scenes()[name]
    kernel, args = entries["step"]
    for rng in (arg for arg in args if isinstance(arg, np.random.Generator)):
        rng.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    if kernel is _fill:  # the function itself, which is not compiled in Python
        shown["table"][:] = crp(args[0], len(shown["table"]), shown["alpha"][0])
        return shown
    for _ in range(steps):
        kernel.py_func(*args) if kernel is _break else kernel(*args)
    return shown


# PCG64 as numpy has it: 128 bits of state, output by XSL-RR.


@njit
def next_uint64(s):
    m, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    ah, al, hi, lo = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645), s[0], s[1]
    a0, a1, b0, b1 = al & m, al >> half, lo & m, lo >> half
    p, q, r = a0 * b0, a0 * b1, a1 * b0
    middle = (p >> half) + (q & m) + (r & m)
    low = (p & m) | (middle << half)
    high = a1 * b1 + (q >> half) + (r >> half) + (middle >> half) + ah * lo + al * hi
    s[1] = low + s[3]
    s[0] = high + s[2] + np.uint64(s[1] < low)
    word, turn = s[0] ^ s[1], s[0] >> np.uint64(58)
    return (word >> turn) | (word << ((np.uint64(64) - turn) & np.uint64(63)))


@njit
def next_double(s):
    return (next_uint64(s) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def words_of(rng):
    state, low = rng.bit_generator.state["state"], (1 << 64) - 1
    return [state["state"] >> 64, state["state"] & low, state["inc"] >> 64, state["inc"] & low]


# From kernels to one module.


class Memory:
    "Arrays at fixed places, and what is in them at first."

    def __init__(self):
        self.places, self.kept, self.bytes = {}, [], bytearray()

    def place(self, array):
        if id(array) not in self.places:
            assert array.flags.c_contiguous
            self.places[id(array)] = BASE + len(self.bytes)
            self.kept.append(array)
            self.bytes += array.tobytes().ljust(-(-max(array.nbytes, 1) // 16) * 16, b"\0")
        return self.places[id(array)]

    def arguments(self, value, kinds):
        "An argument as numba passes it, in IR; `kinds` are the types that it expects, in order."
        if isinstance(value, np.random.Generator):
            calls = {3: "next_uint64", 5: "next_double"}
            out = [f"ptrtoint (ptr @{calls[i]} to i64)" if i in calls else 0 for i in range(9)]
        elif isinstance(value, tuple):
            return [text for part in value for text in self.arguments(part, kinds)]
        elif isinstance(value, np.ndarray):
            at = f"inttoptr (i32 {self.place(value)} to ptr)"
            out = [0, 0, value.size, value.itemsize, at, *value.shape, *value.strides]
        elif isinstance(value, float):
            out = [f"0x{struct.pack('>d', value).hex()}"]
        else:
            out = [int(value)]
        return [
            f"{kind} {text or 'null' if kind == 'ptr' else text}" for text, kind in zip(out, kinds)
        ]


def take_over_codegen():
    "numba is to hand over IR as it comes from a function, and not to compile it for this machine."
    codegen.CPUCodeLibrary._optimize_functions = lambda self, module: None
    codegen.CPUCodeLibrary._optimize_final_module = lambda self: None
    codegen.JITCodeLibrary._finalize_specific = lambda self: None
    codegen.JITCodeLibrary.get_pointer_to_function = lambda self, name: (
        self._ensure_finalized() or 1
    )
    codegen.JITCPUCodegen.set_env = lambda self, name, env: None


def module_of(function, signature):
    "The name of a compiled function, the types of its arguments, and a module that has it."
    function.compile(signature)
    made = function.overloads[signature]
    name, text = made.fndesc.llvm_func_name, str(made.library._final_module)
    text = re.sub(r"^target .*$", "", text, flags=re.M)
    for counting in ("incref", "decref"):  # nothing is freed: memory is used anew in every call
        text = re.sub(
            rf"^define [^\n]*@NRT_{counting}\(.*?^}}$",
            f"define void @NRT_{counting}(ptr %p) alwaysinline {{ ret void }}",
            text,
            flags=re.M | re.S,
        )
    module = llvm.parse_assembly(text)
    hide(module, name)
    return name, [str(a.type) for a in module.get_function(name).arguments], module


def hide(module, *names):
    for thing in [*module.functions, *module.global_variables]:
        if not thing.is_declaration and thing.name not in names:
            thing.linkage = "internal"


# A piece of memory as numba's runtime gives it, and the one use of a reshape: to one dimension.
RUNTIME = """
@exports = constant [COUNT x ptr] [ptr inttoptr (i32 1 to ptr), NAMES]
@free = internal global i32 0
define ptr @NRT_Allocate(i64 %size) {
  %here = load i32, ptr @free
  %bytes = trunc i64 %size to i32
  %more = add i32 %bytes, 127
  %whole = and i32 %more, -64
  %next = add i32 %here, %whole
  store i32 %next, ptr @free
  %start = inttoptr i32 %here to ptr
  ret ptr %start
}
define void @NRT_Free(ptr) { ret void }
define ptr @NRT_MemInfo_alloc(i64 %size) {
  %info = call ptr @NRT_Allocate(i64 64)
  %data = call ptr @NRT_Allocate(i64 %size)
  %field = getelementptr {i64, ptr, ptr, ptr, i64, ptr}, ptr %info, i32 0, i32 3
  store ptr %data, ptr %field
  ret ptr %info
}
define ptr @NRT_MemInfo_alloc_aligned(i64 %size, i32) {
  %info = call ptr @NRT_MemInfo_alloc(i64 %size)
  ret ptr %info
}
define ptr @NRT_MemInfo_alloc_safe_aligned(i64 %size, i32) {
  %info = call ptr @NRT_MemInfo_alloc(i64 %size)
  ret ptr %info
}
define i32 @numba_attempt_nocopy_reshape(i64, ptr, ptr, i64, ptr, ptr %strides, i64 %size, i32) {
  store i64 %size, ptr %strides
  ret i32 1
}
"""


def compile_scenes(made):
    "The module, and what a page has to know of it."
    take_over_codegen()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    memory, about, modules, calls = Memory(), {}, {}, []
    random, result, error = (np.zeros(n, t) for n, t in ((4, np.uint64), (8, np.int64), (8, int)))

    def call(name, function, values, returns=None):
        "A function without arguments, or one that numpy's generator has, around a kernel."
        symbol, kinds, module = module_of(function, tuple(typeof(value) for value in values))
        at, left = f"ptr inttoptr (i32 {memory.place(result)} to ptr)", iter(kinds[2:])
        given = [at, f"ptr inttoptr (i32 {memory.place(error)} to ptr)"]
        given += [text for value in values for text in memory.arguments(value, left)]
        assert len(given) == len(kinds)
        run = f'  %status = call i32 @"{symbol}"({", ".join(given)})\n'
        if symbol not in modules:
            calls.append(f'declare i32 @"{symbol}"({", ".join(kinds)})\n')
        modules[symbol] = module
        if returns:
            run += f"  %value = load {returns}, {at}\n  ret {returns} %value\n"
            calls.append(f"define {returns} @{name}(i64) noinline {{\n{run}}}\n")
        else:
            run = "  store i32 HEAP, ptr @free\n" + run + "  ret i32 %status\n"
            calls.append(f"define i32 @{name}() {{\n{run}}}\n")

    memory.place(random)
    for function, kind in ((next_uint64, "i64"), (next_double, "double")):
        call(function.__name__, function, (random,), kind)
    names = []
    for scene, (entries, shown) in made.items():
        start = BASE + len(memory.bytes)
        for entry, (function, values) in entries.items():
            names.append(f"{scene}_{entry}")
            call(names[-1], function, values)
        arrays = {k: [memory.place(a), a.dtype.name, a.size] for k, a in shown.items()}
        about[scene] = {"from": start, "to": BASE + len(memory.bytes), "arrays": arrays}
        about[scene]["entries"] = {entry: names.index(f"{scene}_{entry}") + 1 for entry in entries}
    heap = -(-(BASE + len(memory.bytes)) // 64) * 64
    runtime = RUNTIME.replace("COUNT", str(len(names) + 1))
    runtime = runtime.replace("NAMES", ", ".join(f"ptr @{name}" for name in names))
    whole = llvm.parse_assembly(runtime + "".join(calls).replace("HEAP", str(heap)))
    for module in modules.values():
        whole.link_in(module)
    hide(whole, "exports")
    target = llvm.Target.from_triple("wasm32-unknown-unknown").create_target_machine(
        features="+bulk-memory,+bulk-memory-opt,+sign-ext,+nontrapping-fptoint", reloc="static"
    )
    whole.triple, whole.data_layout = target.triple, str(target.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(target, tuning)
    builder.getModulePassManager().run(whole, builder)
    whole.verify()
    seeds = [[str(w) for w in words_of(np.random.default_rng(seed))] for seed in range(SEEDS)]
    about = {"base": BASE, "result": memory.place(result), "seeds": seeds, "scenes": about}
    return without_names(target.emit_object(whole)), bytes(memory.bytes), about


def without_names(module):
    "A module without its custom sections: names, and what a linker would need."
    out, at = module[:8], 8
    while at < len(module):
        size, shift, end = 0, 0, at + 1
        while shift == 0 or module[end - 1] & 128:
            size |= (module[end] & 127) << shift
            end, shift = end + 1, shift + 7
        if module[at]:
            out += module[at : end + size]
        at = end + size
    return out


def main():
    if len(sys.argv) > 1:  # in a process of its own, since compiling is not for this machine there
        module, memory, about = compile_scenes(pickle.loads(Path(sys.argv[1]).read_bytes()))
        text = {
            key: base64.b64encode(data).decode()
            for key, data in (("module", module), ("memory", memory))
        }
        MADE.write_text(f"const KERNELS = {json.dumps({**about, **text})};\n", encoding="utf-8")
        print(f"{len(module)} bytes of module, {len(memory)} of memory")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenes"
        path.write_bytes(pickle.dumps(scenes()))
        environment = {**os.environ, "HDP_NB_CACHE": "0"}
        subprocess.run([sys.executable, __file__, str(path)], check=True, env=environment)


if __name__ == "__main__":
    main()
