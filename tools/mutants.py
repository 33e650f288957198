"""Change a compiled kernel in one place, and see whether the tests notice; many times over.

    python tools/run.py mutants MODULE [MODULE ...] [--n 20] [--seed 0] [--keep]
                                [--tests "FILE ... -k NAME"] [--plain "FILE ... -k NAME"]

MODULE is one of hdp_nb/, "topics.lda" for example. The places are drawn at random within functions
that numba compiles, and each is changed by cosmic-ray (a number by one, + into -, < into <=, `and`
into `or`, a loop that is not entered, ...) in a copy of the repository, where the quick tests then
run that mention the module (not the notebooks, whose stored output any change of a random stream
would spoil), or those of --tests. A mutant that no test notices is printed: it is equivalent, or a
test is missing. The first run compiles everything; a mutant costs what its tests do, and the
compiling of what builds upon its module. Ctrl-C ends it with what is known. No mutant takes more
than 6 GB; Windows has no such limit, and this does not run there.

Most of that is compiling. Tests that --plain names run before the others and without the compiler,
where small exact ones take seconds. A mutant that fails an assertion there, or does not end, is
noticed; where Python itself stops (an index out of bounds, a division by zero), which compiled code
might not do, the others decide, as they do for what passes. Kernels are kept where HDP_NB_CACHE
says, for the next call, and otherwise nowhere.

With --keep the counts go into tests/mutants.json with the tests that were run, and of each survivor
the changed line. Whoever finds that it is equivalent writes there why; a text that is there stays
while the change is found.
"""

import argparse
import ast
import contextlib
import difflib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests" / "mutants.json"
PAIRS = "Add_Sub Sub_Add Mul_Div Div_Mul Add_Mul Mul_Add FloorDiv_Div Mod_FloorDiv Pow_Mul".split()
COMPARED = "Eq_NotEq NotEq_Eq Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_Gt Gt_Lt LtE_GtE GtE_LtE".split()
# Others make what numba does not compile, which any test would notice.
USED = [f"core/ReplaceBinaryOperator_{pair}" for pair in PAIRS]
USED += [f"core/ReplaceComparisonOperator_{pair}" for pair in COMPARED]
USED += ["core/NumberReplacer", "core/AddNot", "core/ZeroIterationForLoop"]
USED += ["core/ReplaceAndWithOr", "core/ReplaceOrWithAnd", "core/ReplaceUnaryOperator_Delete_USub"]
USED += ["core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue"]
USED += ["core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak"]
MEMORY = 6 << 30  # bytes; a loop that appends for ever would else take all there are
# How a run without the compiler ends that the compiled kernels would not end otherwise.
CERTAIN = re.compile(" - (assert|AssertionError|Failed)|takes too long")
NOT_OF_KERNELS = "site notebooks form package tools prose widgets cli tasks data style".split()


def kernel_lines(source):
    "Numbers of the lines within the bodies of functions that are compiled, without docstrings."
    lines = set()
    for function in ast.walk(ast.parse(source)):
        marks = getattr(function, "decorator_list", [])
        if any(re.search("njit|uncounted", ast.unparse(mark)) for mark in marks):
            body = function.body[bool(ast.get_docstring(function)) :]
            lines |= {n for part in body for n in range(part.lineno, part.end_lineno + 1)}
    return lines


def places(source):
    "What can be changed in kernels: {(line, column): [(operator, which occurrence), ...]}."
    from cosmic_ray.ast import ast_nodes, get_ast  # the tests of this file go without cosmic-ray
    from cosmic_ray.plugins import get_operator

    wanted, tree, found = kernel_lines(source), get_ast(source), {}
    for name in USED:
        operator, occurrence = get_operator(name)(), 0
        for node in ast_nodes(tree):
            for start, _ in operator.mutation_positions(node):
                if start[0] in wanted:
                    found.setdefault(start, []).append((name, occurrence))
                occurrence += 1
    return found


def tests_of(module):
    "Files with quick tests that mention a module."
    names = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [path for path in names if path.stem.removeprefix("test_") not in NOT_OF_KERNELS]
    return [
        path.relative_to(ROOT).as_posix()
        for path in names
        if re.search(rf"hdp_nb\.{module}\b", path.read_text(encoding="utf-8"))
    ]


def passes(folder, tests, limit=None, plain=False):
    """Do the tests pass in a copy of the repository? Those that take longer than the limit do not.

    One cache for all: a mutant compiles its own module anew and what imports that, and nothing
    else; a plain run compiles nothing at all. Without files of bytecode, by which Python takes two
    texts of one second and one length for the same.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    made = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "500"}
    made |= {"NUMBA_DISABLE_JIT": "1"} if plain else {}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={"HDP_NB_CACHE": str(folder.parent / "kernels"), **os.environ, **made},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY)),
    )
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return False, "takes too long"
    finally:  # with what the tests have started
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    failed = re.findall(r"^(?:FAILED|ERROR) (.*)", said, re.M)
    return process.returncode == 0, failed[0] if failed else said[-500:]


def known_mutants():
    "The table: by module, how many there were, and why some survived."
    return json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}


def keep(module, counts, survivors):
    "Write what was found of a module into the table: how many, and {change: why nothing fails}."
    table = known_mutants()
    table[module] = {**counts, "survived": survivors}
    text = json.dumps(dict(sorted(table.items())), indent=1, ensure_ascii=False)
    TABLE.write_text(text + "\n", encoding="utf-8")


def reasons(module):
    "What somebody has written of a module's survivors."
    return known_mutants().get(module, {}).get("survived", {})


def changed_lines(old, new):
    "What a mutant changes, on one line."
    lines = difflib.ndiff(old.splitlines(), new.splitlines())
    return " ".join(line[:2] + line[2:].strip() for line in lines if line[0] in "-+")


def mutant(source, name, occurrence):
    "The source with one change."
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    return mutate_code(source, get_operator(name)(), occurrence)


def survives(path, texts, rounds, limits):
    """Do the tests of all rounds pass once a module has changed, and what was said?

    How long a round may take is found out where it is needed first, and added to the limits.
    """
    folder, (source, changed) = path.parent.parent.parent, texts
    for i, (tests, plain) in enumerate(rounds):
        if i == len(limits):
            # A comment, so that all is compiled that a mutant compiles.
            path.write_text(f"{source}\n# {time.time()}\n", encoding="utf-8")
            began = time.monotonic()
            fine, said = passes(folder, tests, None, plain)
            if not fine:
                raise SystemExit(f"tools/mutants.py: without a mutant, too: {said}")
            limits.append(30 + 3 * (time.monotonic() - began))
        path.write_text(changed, encoding="utf-8")
        fine, said = passes(folder, tests, limits[i], plain)
        if not fine and (not plain or CERTAIN.search(said)):
            break
    path.write_text(source, encoding="utf-8")
    return fine, said


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("modules", nargs="+", metavar="MODULE")
    parser.add_argument("--n", type=int, default=20, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", help="files of tests, or what else pytest takes")
    parser.add_argument("--plain", nargs="+", help="those to run before, without the compiler")
    parser.add_argument("--keep", action="store_true", help="add the counts to tests/mutants.json")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and take the tests along
    survived, tried, begun = 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "hdp_nb"
        names = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")
        for name in filter(None, names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        try:
            for module in options.modules:
                path, tests = folder / "hdp_nb" / f"{module.replace('.', '/')}.py", tests_of(module)
                if options.tests:
                    tests = shlex.split(" ".join(options.tests))
                if not path.exists() or not tests:
                    parser.error(f"MODULE must be one of hdp_nb/ that tests mention, got {module}")
                source = path.read_text(encoding="utf-8")
                found, rng = places(source), random.Random(f"{module} {options.seed}")
                rounds = [(shlex.split(" ".join(options.plain)), True)] if options.plain else []
                rounds.append((tests, False))
                run = "; those that it passes: ".join(
                    shlex.join(some) + " without the compiler" * plain for some, plain in rounds
                )
                print(f"{module}: {len(found)} places, tests {run}", flush=True)
                limits = []
                n_before, survivors, known = tried, {}, reasons(module)
                for place in rng.sample(sorted(found), min(options.n, len(found))):
                    name, occurrence = rng.choice(found[place])
                    changed = mutant(source, name, occurrence)
                    fine, said = survives(path, (source, changed), rounds, limits)
                    tried, survived = tried + 1, survived + fine
                    print(f"  line {place[0]}, {name}: {'' if fine else said}", flush=True)
                    if fine:
                        texts = source.splitlines(), changed.splitlines(), path.name, name
                        print(*difflib.unified_diff(*texts, n=2, lineterm=""), sep="\n", flush=True)
                        change = changed_lines(source, changed)
                        survivors[change] = known.get(change, "")
                    if options.keep:  # after each: Ctrl-C loses nothing
                        counts = {"places": len(found), "mutants": tried - n_before}
                        keep(module, {**counts, "tests": run}, survivors)
        except KeyboardInterrupt:
            pass
    print(f"{tried} mutants, {tried - survived} noticed, {survived} not,", end=" ")
    print(f"{(time.monotonic() - begun) / max(tried, 1):.0f} s each")


if __name__ == "__main__":
    main()
