"""Raw texts with no option set, and the prior of eta: what comes out on corpora of any machine.

    python benchmarks/raw_texts.py texts    six kinds of texts, in Python and by the command line
    python benchmarks/raw_texts.py eta      eta held or learned, on these, bundled and drawn sets
    python benchmarks/raw_texts.py --quick  a minute instead of an hour; results are not kept

The six kinds are texts that every machine with this package has, on Debian more of them than
elsewhere: docstrings of Python packages, their first sentences, descriptions of packages, licences,
changelogs, and manual pages. Kinds that the machine lacks are left out, and said to be.
"""

import argparse
import ast
import contextlib
import gzip
import io
import json
import logging
import re
import sysconfig
import tempfile
import time
from pathlib import Path

import numpy as np

import hdp_nb
from hdp_nb import cli

RESULTS = Path(__file__).parent / "results" / "raw_texts.json"
SITE = Path(sysconfig.get_paths()["purelib"])

# Words without a meaning of their own, by a list that the package does not use, and what is left of
# contractions that were cut.
FUNCTION_WORDS = set(
    """the a an of to in for on with at by from up about into over after under between through
    during
    before and or but nor so yet if because as until while although though unless since whether
    that this these those i you he she it we they me him her us them my your his its our their
    mine yours who whom whose which what when where why how is am are was were be been being
    have has had having do does did doing will would shall should can could may might must not
    no only just very too also than then there here all any both each few more most other some
    such own same again further once s t d m ll ve re don didn doesn isn wasn couldn wouldn
    shouldn won aren hasn haven weren""".split()
)


def docstrings():
    "Of every function and class of the packages that this one needs."
    for package in ("scipy", "sklearn", "numpy", "matplotlib"):
        for path in sorted((SITE / package).rglob("*.py")):
            if "tests" in path.parts:
                continue
            with contextlib.suppress(SyntaxError, UnicodeDecodeError):
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                        if text := ast.get_docstring(node):
                            yield text


def sentences():
    "First sentences of docstrings: short texts."
    yield from sorted({text.split("\n\n")[0] for text in docstrings()})


def descriptions():
    "Sections of the descriptions of installed packages."
    for path in sorted(SITE.glob("*.dist-info/METADATA")):
        text = path.read_text(encoding="utf-8").split("\n\n", 1)[-1]
        yield from (part for part in re.split(r"\n(?=#+ )", text) if len(part) > 150)


def licences():
    "Of the packages of the system, or of those of Python."
    paths = sorted(Path("/usr/share/doc").glob("*/copyright"))
    for path in paths or sorted(SITE.glob("*.dist-info/licenses/*")):
        with contextlib.suppress(UnicodeDecodeError, OSError):
            yield path.read_text(encoding="utf-8")[:4000]


def changelogs():
    "Entries of the changelogs of the system's packages."
    for path in sorted(Path("/usr/share/doc").glob("*/changelog.Debian.gz")):
        with contextlib.suppress(UnicodeDecodeError, OSError):
            text = gzip.decompress(path.read_bytes()).decode("utf-8")
            yield from re.split(r"\n(?=\S+ \(.*\) )", text)[:6]


def manuals():
    "Manual pages, without their marks."
    for path in sorted(Path("/usr/share/man").glob("man[158]/*.gz")):
        with contextlib.suppress(UnicodeDecodeError, OSError):
            text = gzip.decompress(path.read_bytes()).decode("utf-8")
            text = re.sub(r"(?m)^[.'].*$|\\f[A-Z]|\\&", "", text).replace("\\-", "-")
            yield text.replace("\\(aq", "'").replace("\\'", "'")[:4000]


KINDS = {
    f.__name__: f for f in (docstrings, sentences, descriptions, licences, changelogs, manuals)
}


def some(texts, n):
    "n of the texts, evenly spread, those that say something."
    texts = [text for text in texts if len(text.split()) >= 5]
    return texts[:: max(1, len(texts) // n)][:n]


def bad_topics(words, shares):
    "Topics above 2% whose first five words hold one that says nothing."
    found = []
    for row, share in zip(words, shares):
        odd = [w for w in row[:5] if w in FUNCTION_WORDS or len(w) < 2 or "'" in w]
        if share > 0.02 and odd:
            found.append(row[:5])
    return found


def fitted(train, test, **options):
    "A fit with no option but those given: what came out, for the table."
    begin = time.process_time()
    model = hdp_nb.HDP(random_state=0, **options).fit(train)
    return model, {
        "eta": model.eta_,
        "topics": model.n_topics_,
        "above 2%": int((model.topic_shares_ > 0.02).sum()),
        "held out": hdp_nb.document_completion(model, test, random_state=0),
        "converged": model.converged_,
        "seconds": time.process_time() - begin,
    }


def study_texts(quick):
    "Every kind through Python, and through the command line from a file of JSON lines."
    rows = {}
    for name, kind in KINDS.items():
        texts = some(kind(), 60 if quick else 400)
        if len(texts) < 40:
            print(f"{name}: this machine has too few")
            continue
        options = {"n_iter": 10} if quick else {}
        train, test = texts[: -len(texts) // 10], texts[-len(texts) // 10 :]
        model = hdp_nb.HDP(random_state=0, **options).fit(train)
        row = {"texts": len(texts), "words": model.n_features_in_, "topics": model.n_topics_}
        row["above 2%"] = int((model.topic_shares_ > 0.02).sum())
        row["bad"] = bad_topics(model.top_words(10), model.topic_shares_)
        row["largest"] = model.top_words(6)[0]
        row["held out"] = model.score(test)
        with tempfile.TemporaryDirectory() as folder:
            path, out = Path(folder, "texts.jsonl"), Path(folder, "run")
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
            typed = ["fit", str(path), "--column", "text", "--out", str(out), "--quiet"]
            typed += ["--n-iter", "10" if quick else "60"]
            with contextlib.redirect_stdout(io.StringIO()):
                assert cli.main(typed) == 0
            topics = json.loads((out / "topics.json").read_text())
        row["bad by command line"] = bad_topics(
            [topic["words"] for topic in topics], [topic["share"] for topic in topics]
        )
        rows[name] = row
        print(name, row, flush=True)
    return rows


def study_eta(quick, rows):
    """eta held or learned, on 300 documents to learn from and 100 to predict.

    Goes on where it was stopped: what is in `rows` is not done again.
    """
    sets = {name: hdp_nb.load_corpus(name) for name in ("sotu", "kjv", "jargon", "alice-words")}
    sets["bars"] = hdp_nb.make_bars(400, 50, grid=5, random_state=0)[0]
    for name, kind in KINDS.items():
        texts = some(kind(), 400)
        if len(texts) >= 40:
            sets[name] = hdp_nb.count_texts(texts)
    sets["drawn"] = hdp_nb.make_hdp(400, 60, random_state=0)[0]
    ways = {f"eta .{str(eta)[2:]}": {"eta": eta} for eta in (0.5, 0.1, 0.05, 0.02, 0.01)}
    ways["learned"] = {"eta_prior": (1, 1)}
    for name, corpus in sets.items():
        n = min(corpus.n_docs, 80 if quick else 400)
        part = corpus[np.random.default_rng(0).permutation(corpus.n_docs)[:n]]
        train, test = part.split_docs(0.25, 0)
        options = {"n_iter": 10 if quick else 150}
        for way, more in ways.items():
            if way not in rows.setdefault(name, {}):
                rows[name][way] = fitted(train, test, **options, **more)[1]
                print(name, way, rows[name][way], flush=True)
                yield rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", nargs="?", choices=["texts", "eta"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    logging.getLogger("hdp_nb").setLevel("ERROR")
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if given.study in (None, "texts"):
        found["texts"] = study_texts(given.quick)
        if not given.quick:
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    if given.study in (None, "eta"):
        for rows in study_eta(given.quick, {} if given.quick else found.get("eta", {})):
            found["eta"] = rows
            if not given.quick:
                RESULTS.write_text(json.dumps(found, indent=1) + "\n")
