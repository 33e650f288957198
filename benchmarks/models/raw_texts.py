"""Raw texts with no option set, and with some: what comes out on corpora of any machine.

    python -m benchmarks.models.raw_texts [PART]

    texts      six kinds of texts, in Python and by the command line
    predict    eta held or learned, on these, bundled and drawn sets; on these, words chosen
               otherwise
    start      where eta goes in a thousand sweeps from either start
    --quick    a minute instead of an hour; results are not kept

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
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import logsumexp
from sklearn.feature_extraction.text import CountVectorizer

import hdp_nb
from hdp_nb.cli import main as cli
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.counting import TOKEN

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


def held_out(model, documents, scored, splits=3):
    """Log probability of a fifth of the words in `scored`, given the rest of their documents.

    Divided by the probability of all the words in `scored`, which all models know: so those that
    know different other words have the same to predict. Returns sums and numbers of words by
    document, each of several splits, which are the same for all models, added up.
    """
    place = {word: i for i, word in enumerate(scored)}
    found, n = np.zeros(len(documents)), np.zeros(len(documents))
    every = Corpus.from_docs([scored] * len(documents), model.vocabulary_)
    known = set(model.vocabulary_)
    for split in range(splits):
        rng, asked, rest = np.random.default_rng(split), [], []
        for words in documents:
            here = rng.permutation([i for i, word in enumerate(words) if word in place])
            out = {*here[: round(len(here) / 5)]}
            asked.append([place[words[i]] for i in sorted(out)])
            rest.append([w for i, w in enumerate(words) if i not in out and w in known])
        observed = Corpus.from_docs(rest, model.vocabulary_)
        log_p = model.log_predictive(observed, every, split).reshape(len(documents), -1)
        log_p -= logsumexp(log_p, axis=1, keepdims=True)
        found += [row[words].sum() for row, words in zip(log_p, asked)]
        n += [len(words) for words in asked]
    return found, n


class FromHalf(hdp_nb.HDP):
    "An HDP whose eta, learned, begins at 0.5 however many words there are."

    def _first_eta(self, n_words):
        return 0.5


# What is asked of the model, and of the counting of the words.
ETA = {
    "learned": {},
    "from .5": {},
    "eta .05": {"eta": 0.05},
    "eta .01": {"eta": 0.01},
    "eta .003": {"eta": 0.003},
}
WORDS = {
    "min_df 1": {"min_df": 1},
    "min_df 5": {"min_df": 5},
    "all words": {"stop_words": None, "max_df": 1.0},
}
# All of this of some kinds of texts; of other sets what the default and where it begins are worth.
ALL_WAYS = ("changelogs", "descriptions", "sentences")
FEW = ("learned", "from .5", "eta .01")


def learn_and_predict(quick):
    """What there is to learn from, by way, and to predict: 300 documents and 100 others of a set.

    The first hundred words of each, so that a fit takes seconds. Yields the set's name, a function
    that makes the corpus to learn from, the ways, the words of the other documents, and those words
    that are scored.
    """
    drawn = {
        "alice-words": hdp_nb.load_corpus("alice-words"),
        "bars": hdp_nb.make_bars(400, 50, grid=5, random_state=0)[0],
        "drawn": hdp_nb.corpora.synthetic.make_hdp(400, 60, random_state=0)[0],
        "jargon": hdp_nb.load_corpus("jargon"),
        "sotu": hdp_nb.load_corpus("sotu"),
        "kjv": hdp_nb.load_corpus("kjv"),
    }
    cut = CountVectorizer(token_pattern=TOKEN).build_analyzer()
    n = 80 if quick else 400
    for name in (*ALL_WAYS, *sorted(KINDS.keys() - {*ALL_WAYS}), *sorted(drawn)):
        order = np.random.default_rng(0).permutation
        if name in drawn:
            corpus = drawn[name]
            names = corpus.vocab or [str(v) for v in range(corpus.n_words)]
            chosen = [[names[v] for v in corpus[j][:100]] for j in order(corpus.n_docs)[:n]]
            train = Corpus.from_docs(chosen[n // 4 :])
            yield name, lambda train=train: train, FEW, chosen[: n // 4], train.vocab
        elif len(texts := some(KINDS[name](), 400)) >= 40:
            texts = [" ".join(texts[j].split()[:100]) for j in order(len(texts))[:n]]
            test = [cut(text) for text in texts[: n // 4]]
            make = lambda texts=texts, **options: hdp_nb.corpora.counting.count_texts(
                texts[n // 4 :], **options
            )
            known = [set(make(**options).vocab) for options in [{}, *WORDS.values()]]
            ways = ETA | WORDS if name in ALL_WAYS else FEW
            yield name, make, ways, test, sorted(set.intersection(*known))


def study_prediction(quick, rows):
    """What is asked, or nothing, of the model and of counting: how well other documents are told.

    Goes on with the set at which it was stopped. `ahead` is by how much a word is predicted better
    than with no option set, `error` the standard error of that, by documents; `halves` are the
    scores of two halves of the documents, to choose by one and to judge by the other. Where all
    ways are tried, all numbers are means over three seeds.
    """
    for name, make, ways, documents, scored in learn_and_predict(quick):
        if name in rows:
            continue
        done, plain = {}, None
        for way in ways:
            train = make(**WORDS.get(way, {}))
            options = ETA.get(way, {}) | ({"n_iter": 10} if quick else {})
            of_seeds, founds = [], []
            for seed in range(3 if name in ALL_WAYS else 1):
                begin = time.process_time()
                kind = FromHalf if way == "from .5" else hdp_nb.HDP
                model = kind(random_state=seed, n_jobs=1, **options).fit(train)
                row = {"seconds": time.process_time() - begin, "eta": model.eta_}
                row |= {"topics": model.n_topics_, "shown": model.topic_shares_.sum()}
                row["above 2%"] = (model.topic_shares_ > 0.02).sum()
                coherent = hdp_nb.coherence_npmi(model, train).topics
                row["npmi"] = np.average(coherent, weights=model.topic_shares_)
                of_seeds.append(row)
                found, n = held_out(model, documents, scored)
                founds.append(found)
            found = np.mean(founds, axis=0)
            row = {key: float(np.mean([one[key] for one in of_seeds])) for key in row}
            row |= {"seeds": len(founds), "words": train.n_words, "scored": len(scored)}
            row |= {"tokens": int(n.sum()), "held out": found.sum() / max(n.sum(), 1)}
            row["halves"] = [found[h::2].sum() / max(n[h::2].sum(), 1) for h in (0, 1)]
            plain = found if plain is None else plain
            row["ahead"] = (found - plain).sum() / max(n.sum(), 1)
            row["error"] = np.linalg.norm(found - plain - row["ahead"] * n) / max(n.sum(), 1)
            done[way] = row
            print(name, way, row, flush=True)
        rows[name] = done
        yield rows


def study_start(quick):
    "Both chains of long fits to the first set, eta learned from where it begins and from 0.5."
    train, n_iter = next(learn_and_predict(quick))[1](), 20 if quick else 1000
    rows = {"tokens": train.n_tokens, "sweeps": [n for n in (100, 300, 1000) if n <= n_iter]}
    for way in ("learned", "from .5"):
        kind = FromHalf if way == "from .5" else hdp_nb.HDP
        model = kind(n_iter=n_iter, random_state=0, n_jobs=1).fit(train)
        at = np.array(rows["sweeps"], int) - 1
        rows[way] = {name: model.traces_[name][:, at].tolist() for name in ("eta", "log_mixture")}
        rows[way] |= {"n_topics": model.traces_["n_topics"][:, at].astype(int).tolist()}
        print(way, rows[way], flush=True)
    return rows


if __name__ == "__main__":
    from benchmarks.common import machine, save, saved

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", nargs="?", choices=["texts", "predict", "start"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    keep = partial(save, "raw_texts") if not given.quick else lambda found: None
    logging.getLogger("hdp_nb").setLevel("ERROR")
    found = saved("raw_texts") | {"machine": machine()}
    if given.study in (None, "texts"):
        found["texts"] = study_texts(given.quick)
        keep(found)
    if given.study in (None, "predict"):
        for rows in study_prediction(given.quick, {} if given.quick else found.get("predict", {})):
            found["predict"] = rows
            keep(found)
    if given.study in (None, "start"):
        found["start"] = study_start(given.quick)
        keep(found)
