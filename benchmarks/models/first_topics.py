"""From `pip install` in a clean environment to topics of 1,500 short texts, in CPU seconds.

    python -m benchmarks.models.first_topics [NAME]

    (none)     all of these, some minutes
    hdp_nb     one of them again; the rest of the file stays
    less       what hdp_nb takes that is asked for less, and gives
    moves      what moves of topics are worth in short documents
    start      imports, and a first fit to next to nothing

hdp_nb, scikit-learn, gensim and tomotopy each get an environment of their own, with nothing in it
but what pip installs, and an empty home, so that no cache is warm. Measured are the installation,
the first process and the second: both begin with Python, read the texts, count words, fit with the
defaults (tomotopy: as many sweeps as hdp_nb makes; LDA: 20 topics) and print ten words of every
topic. CPU seconds are those of the process and its children. The texts are the first sentences of
docstrings (see raw_texts.py).

Asked for less, hdp_nb runs in this environment, with kernels that are there. It is given four
fifths of the texts; the score is that of the others, the mean of ten splits of their words, and not
in the seconds.

Moves of topics are judged on 1,500 documents drawn from bars, eight words each, on 1,500 drawn from
an HDP, six words each, and on these texts, with two seeds: seconds of the fit, topics with 1% of
the tokens in each chain, score of others by document completion, the mean of five splits.

Imports, and imports and a fit to a hundred documents of 6,000 words in all, are
measured in this environment, too, the least of three processes each; scikit-learn's LDA beside
them, and, of ours, a chain of ten sweeps, which is loading kernels and little else.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.common import HERE, machine, save, saved, table
from benchmarks.models.raw_texts import sentences, some

READ = "import json; texts = json.load(open('texts.json'))\n"
COUNT = """
from sklearn.feature_extraction.text import CountVectorizer
count = CountVectorizer(stop_words="english", min_df=3)
X = count.fit_transform(texts); words = count.get_feature_names_out()
"""
QUIET = """
import logging, warnings
logging.disable(); warnings.simplefilter("ignore")
"""
SCRIPTS = {
    "hdp_nb": QUIET
    + """
from hdp_nb import HDP
for row in HDP(random_state=0).fit(texts).top_words(): print(*row)
""",
    "scikit-learn": COUNT
    + """
from sklearn.decomposition import LatentDirichletAllocation
lda = LatentDirichletAllocation(20, random_state=0).fit(X)
for row in lda.components_: print(*words[row.argsort()[:-11:-1]])
""",
    "gensim": """
from gensim.corpora import Dictionary
from gensim.models import HdpModel
from gensim.parsing.preprocessing import STOPWORDS
from gensim.utils import simple_preprocess
docs = [[w for w in simple_preprocess(text) if w not in STOPWORDS] for text in texts]
known = Dictionary(docs); known.filter_extremes(no_below=3)
model = HdpModel([known.doc2bow(doc) for doc in docs], known, random_state=0)
for _, row in model.show_topics(20, 10, formatted=False): print(*[w for w, _ in row])
""",
    "tomotopy": COUNT
    + """
import tomotopy
model, cut = tomotopy.HDPModel(seed=0), count.build_analyzer()
for text in texts:
    if doc := [w for w in cut(text) if w in count.vocabulary_]: model.add_doc(doc)
model.train(300, workers=1)
for k in range(model.k):
    if model.is_live_topic(k): print(*[w for w, _ in model.get_topic_words(k, 10)])
""",
}
# What may be asked of HDP, from the default on: less and less.
LESS = {
    "default": "",
    "one chain": "n_chains=1",
    "direct, one chain": "sampler='direct', n_chains=1, moves=0",
    "the same, 60 sweeps": "sampler='direct', n_chains=1, moves=0, n_iter=60",
}
LESS_SCRIPT = """
import time
import numpy as np
from hdp_nb import HDP, document_completion
test = texts[::5]; del texts[::5]
model = HDP(random_state=0, {options}).fit(texts)
model.top_words()
seconds = time.process_time()
test = model.vectorizer_.transform(test)
scores = [document_completion(model, test, random_state=split) for split in range(10)]
print(json.dumps({{"seconds": seconds, "held out": np.mean(scores), "topics": model.n_topics_}}))
"""
# A process that does next to nothing.
DRAWN = """
import numpy as np
X = np.random.default_rng(0).poisson(0.3, (100, 200))
"""
STARTS = {
    "hdp_nb, import": "from hdp_nb import HDP",
    "hdp_nb, ten sweeps": QUIET
    + DRAWN
    + "from hdp_nb import HDP; HDP(n_iter=10, n_chains=1).fit(X)",
    "hdp_nb, fit": QUIET + DRAWN + "from hdp_nb import HDP; HDP().fit(X)",
    "scikit-learn, import": "from sklearn.decomposition import LatentDirichletAllocation",
    "scikit-learn, fit": DRAWN
    + "from sklearn.decomposition import LatentDirichletAllocation as L; L(20).fit(X)",
}
# This package in a process, its modules compiled to bytecode once, as those of an installed one.
HERE_IS = {"PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": ""}
NEEDS = {
    "hdp_nb": [str(HERE.parent)],
    "scikit-learn": ["scikit-learn"],
    "gensim": ["gensim"],
    "tomotopy": ["tomotopy", "scikit-learn"],
}


def cpu(*command, **options):
    "CPU seconds of a command and of what it starts and waits for, and what it says."
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{command[:4]} failed")
    return used.ru_utime + used.ru_stime, said


def measure(name, texts):
    "CPU seconds of the installation and of two processes, in an environment made for it."
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith(("HDP_NB", "XDG", "PYTHON"))}
        env |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        Path(folder, "texts.json").write_text(json.dumps(texts))
        python = os.path.join(folder, "env", "bin", "python")
        options = {"cwd": folder, "env": env}
        cpu(sys.executable, "-m", "venv", "env", **options)
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        found = {"install": cpu(*pip, *NEEDS[name], **options)[0]}
        env |= {"HOME": folder}
        for process in ("first", "second"):
            found[process], said = cpu(python, "-c", READ + SCRIPTS[name], **options)
        found["topics"] = len(said.splitlines())
        return found


def measure_less(texts):
    "CPU seconds of a process that asks for less and less, what it finds, and its held-out score."
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "texts.json").write_text(json.dumps(texts))
        options = {"cwd": folder, "env": {**os.environ, **HERE_IS}}
        found = {}
        for way, asked in LESS.items():
            script = READ + QUIET + LESS_SCRIPT.format(options=asked)
            for _ in range(2):  # the first compiles
                said = cpu(sys.executable, "-c", script, **options)[1]
            found[way] = json.loads(said)
        return found


def short_documents(texts):
    "Name, documents to learn from, and others, of three sets whose documents are short."
    from hdp_nb import make_bars
    from hdp_nb.corpora.counting import count_texts, recount_texts
    from hdp_nb.corpora.synthetic import make_hdp

    bars = make_bars(n_docs=1700, doc_len=8, grid=5, concentration=1.0, random_state=0)[0]
    yield "bars", bars[:1500], bars[1500:]
    drawn = make_hdp(1700, 6, random_state=1)[0]
    yield "drawn", drawn[:1500], drawn[1500:]
    train = count_texts([text for i, text in enumerate(texts) if i % 5])
    yield "sentences", train, recount_texts(texts[::5], train.vectorizer)


def measure_moves(texts):
    "With moves and without, by set and seed: seconds, large topics, and held-out score."
    import logging
    import time
    import warnings

    import numpy as np

    from hdp_nb import HDP, document_completion
    from hdp_nb.corpora import corpus

    logging.disable()
    warnings.simplefilter("ignore")
    corpus.MANY_DOCUMENTS = np.inf  # moves are not spared
    found = {}
    for name, train, test in short_documents(texts):
        rows = {"documents": train.n_docs, "tokens": train.n_tokens, "words": train.n_words}
        for way, options in (("with", {}), ("without", {"moves": 0})):
            rows[way] = []
            for seed in range(2):
                begin = time.process_time()
                fit = HDP(random_state=seed, n_jobs=1, **options).fit(train)
                row = {"seconds": time.process_time() - begin, "agree": fit.converged_}
                large = fit.traces_["topics_above_1%"][:, fit.burn_in_ :]
                row["large"] = large.mean(axis=1).tolist()
                scores = [document_completion(fit, test, random_state=s) for s in range(5)]
                row["held out"] = float(np.mean(scores))
                rows[way].append(row)
                print(name, way, row, flush=True)
        found[name] = rows
    return found


def measure_start():
    "CPU seconds of processes that import, and fit next to nothing."
    env = {**os.environ, **HERE_IS, "OPENBLAS_NUM_THREADS": "1"}
    found = {}
    for name, script in STARTS.items():  # the first of each compiles
        times = [cpu(sys.executable, "-c", script, env=env)[0] for _ in range(4)]
        found[name] = min(times[1:])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", choices=[[], *SCRIPTS, "less", "moves", "start"])
    only = parser.parse_args().only or [*SCRIPTS, "less", "moves", "start"]
    found = {"machine": machine(), "seconds": {}} | saved("first_topics")
    texts = some(sentences(), 1500)
    found |= {"texts": len(texts), "words": sum(len(text.split()) for text in texts)}
    for name in only:
        if name == "less":
            found["less"] = {"machine": machine(), "ways": measure_less(texts)}
        elif name == "moves":
            found["moves"] = {"machine": machine(), "sets": measure_moves(texts)}
        elif name == "start":
            found["start"] = {"machine": machine(), "seconds": measure_start()}
        else:
            found["machine"] = machine()
            found["seconds"][name] = measure(name, texts)
        save("first_topics", found)
    columns = ["install", "first", "second", "topics"]
    rows = found["seconds"].items()
    table(
        ["", *columns],
        [[name, *(f"{row[c]:.1f}" for c in columns[:3]), row["topics"]] for name, row in rows],
    )
