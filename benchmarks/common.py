"What the benchmarks share: an environment with the peers, corpora, memory, the machine, results."

import os

for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ[name + "_NUM_THREADS"] = "1"

import ctypes
import json
import platform
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"


def this_script():
    "The arguments of Python that run this script again: `-m` and the name of its module."
    return ["-m", sys.modules["__main__"].__spec__.name]


def in_environment(args):
    """Where this is not yet the Python of benchmarks/.env (made and filled if need be), run the
    same command by that one, and exit.
    """
    if args.here:
        return
    python = HERE / ".env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = (HERE / "requirements.txt").read_text()
    stamp = HERE / ".env" / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        print("Installing the peers into benchmarks/.env", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", HERE / ".env"], check=True)
        subprocess.run(
            [
                python,
                "-m",
                "pip",
                "install",
                "-q",
                "-r",
                HERE / "requirements.txt",
                "-e",
                HERE.parent,
            ],
            check=True,
        )
        stamp.write_text(wanted)
    sys.exit(subprocess.call([python, *this_script(), *sys.argv[1:], "--here"], cwd=HERE.parent))


def here(parser):
    parser.add_argument(
        "--here",
        action="store_true",
        help="use this Python, which has everything, instead of that of benchmarks/.env",
    )


def load(name):
    "A corpus, and the true topics if it is synthetic."
    from hdp_nb.corpora.readers import load_corpus
    from hdp_nb.corpora.synthetic import make_bars

    if name == "bars":
        corpus, truth = make_bars(n_docs=2000, doc_len=250, concentration=2.0, random_state=0)
        return corpus, truth.phi
    return load_corpus(name), None


def nips_sections():
    "Papers of NIPS with their sections, from the folder that HDP_NB_DATA names."
    import numpy as np

    from hdp_nb.corpora.readers import load_corpus

    folder = Path(os.environ["HDP_NB_DATA"]) / "nips_sections"
    papers = load_corpus(folder / "nips_sections.npz")
    sections = np.array((folder / "labels.txt").read_text().split())
    return type(papers)(papers.x, papers.offsets, papers.vocab, {"section": sections})


def cut(name):
    "At most 2,000 documents to learn from, and at most 300 others."
    import numpy as np

    corpus = load(name)[0]
    n = min(2000, int(0.9 * corpus.n_docs))
    chosen = np.random.default_rng(0).permutation(corpus.n_docs)[: n + 300]
    return corpus[np.sort(chosen[:n])], corpus[np.sort(chosen[n:])]


def short(name):
    "The name of a corpus, of a file its stem."
    return Path(name).stem


def tomotopy_step(model, corpus, sweeps=1):
    """Gives a model of tomotopy the documents; returns what sweeps so often, and says how many
    tokens that were.
    """
    for j in range(corpus.n_docs):
        model.add_doc([str(v) for v in corpus[j]])

    def step():
        model.train(sweeps, workers=1)
        return corpus.n_tokens * sweeps

    return step


def bars_found(phi_vk, true):
    "How many of the true topics have one with a cosine above 0.9."
    import numpy as np

    cosine = (
        true
        @ phi_vk
        / np.outer(np.linalg.norm(true, axis=1), np.linalg.norm(phi_vk, axis=0) + 1e-300)
    )
    return len({row.argmax() for row in cosine if row.max() > 0.9})


def memory():
    "Megabytes that this process holds (as near as the system tells)."
    try:
        return (
            int(Path("/proc/self/statm").read_text().split()[1])
            * os.sysconf("SC_PAGE_SIZE")
            / 2**20
        )
    except OSError:
        return peak_memory()


def peak_memory():
    "Megabytes that it held at most, since it began or `forget_peak`."
    try:
        return next(
            int(line.split()[1]) / 1024
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("VmHWM")
        )
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
            2**20 if sys.platform == "darwin" else 1024
        )


def forget_peak():
    """Give back what is free, and begin anew with the peak.

    Only Linux can; elsewhere the peak is that of the whole process.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError, TypeError):
        pass


def machine():
    "Processor, cores, versions."
    info = Path("/proc/cpuinfo")
    found = {}
    if info.exists():
        for line in info.read_text().splitlines():
            key, _, value = line.partition(":")
            found.setdefault(key.strip(), value.strip())
    processor = found.get("model name") or platform.processor() or platform.machine()
    if "cpu family" in found:
        processor += f" (family {found['cpu family']}, model {found['model']})"
    versions = {"Python": platform.python_version()}
    for package in ("numpy", "numba", "tomotopy", "gensim", "scikit-learn", "hmmlearn"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            pass
    return {
        "processor": processor,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "versions": versions,
    }


def save(name, found):
    "Write results/NAME.json, whole or not at all."
    RESULTS.mkdir(exist_ok=True)
    new = RESULTS / f"{name}.json.tmp"
    new.write_text(json.dumps(found, indent=1) + "\n")
    new.replace(RESULTS / f"{name}.json")


def saved(name):
    "What is in results/NAME.json, {} if there is no such file."
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def cosines(a, b):
    "Of every row of a with every row of b."
    import numpy as np

    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (a, b)]
    return unit[0] @ unit[1].T


def table(columns, rows):
    "Print a table in Markdown."
    for row in [columns, ["---"] * len(columns), *rows]:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)
