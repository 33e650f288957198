"""What default fits show: planted topics and real corpora, and whether another seed finds it again.

    python -m benchmarks.models.shown [--seeds 3] [--also NAME=FILE ...] [--lda]

Fits `HDP(random_state=seed)` to each corpus and keeps the models in benchmarks/.fits, so that what
is there is not fitted again. Of every fit are noted: topics and words shown, the effective number
of topics (the exponential of the entropy of their shares), that of its best chain, what its groups
and that chain say about documents (mutual information, nats a token), the verdict; of planted
corpora how many topics are found (cosine above 0.9) and, where each document has one, the adjusted
Rand index. Of every topic: how alike chains have it, its tokens, in how many samples it is, and
whether the fits of other seeds have a topic with a centred cosine of 0.7, from which `found_again_`
is estimated; and the same with the samples of its best chain alone. With --lda LDA is fitted
instead, with 5, 20 and 50 topics, two seeds each: topics and words shown, the least share, the
share of words whose topic both chains have, and of words in topics the other seed has, too. The
tables are results/shown.json.
"""

import argparse
import copy
import itertools
import time
import warnings

from benchmarks.common import HERE, cosines, machine, save, saved, table

FITS = HERE / ".fits"
REAL = ("alice-words", "jargon", "sotu", "kjv")


def subjects(n_docs, lengths, n_topics, n_words, common, seed=1):
    "Short documents of one subject each; some of their words are those that all subjects use."
    import numpy as np

    from hdp_nb import Corpus

    rng = np.random.default_rng(seed)
    base = 1 / np.arange(1, n_words + 1) ** 0.9
    base /= base.sum()
    phi = np.array([rng.dirichlet(0.05 * base * n_words + 1e-3) for _ in range(n_topics)])
    subject, docs = rng.integers(n_topics, size=n_docs), []
    for k, n in zip(subject, rng.integers(*lengths, n_docs)):
        words = rng.choice(n_words, n, p=phi[k])
        docs.append(np.where(rng.random(n) < common, rng.choice(n_words, n, p=base), words))
    return Corpus.from_docs(docs, n_words=n_words), phi, subject


def mixed(n_docs, length, n_topics, n_words, eta, alpha, alike=0.0, seed=3):
    "Documents that mix topics over words whose frequencies fall as Zipf says."
    import numpy as np

    from hdp_nb import Corpus

    rng = np.random.default_rng(seed)
    base = 1 / np.arange(1, n_words + 1) ** 0.8
    base *= n_words / base.sum()
    phi = np.array([rng.dirichlet(eta * base + 1e-3) for _ in range(n_topics)])
    phi = (1 - alike) * phi + alike * phi.mean(axis=0)
    theta = rng.dirichlet(np.full(n_topics, alpha), n_docs)
    docs = [rng.choice(n_words, length, p=p @ phi) for p in theta]
    return Corpus.from_docs(docs, n_words=n_words), phi, None


def bars():
    from hdp_nb import make_bars

    corpus, truth = make_bars(100, 50, grid=5, random_state=0)
    return corpus, truth.phi, None


PLANTED = {
    "tweets": lambda: subjects(5000, (3, 11), 10, 1200, 0.25),
    "titles": lambda: subjects(3000, (5, 10), 30, 2500, 0.15),
    "answers": lambda: subjects(1500, (8, 20), 12, 1500, 0.3, seed=2),
    "3 words": lambda: subjects(5000, (3, 4), 8, 800, 0.1, seed=4),
    "6 words": lambda: subjects(3000, (6, 7), 8, 800, 0.2, seed=4),
    "10 words": lambda: subjects(2000, (10, 11), 8, 800, 0.2, seed=4),
    "20 words": lambda: subjects(1000, (20, 21), 8, 800, 0.2, seed=4),
    "bars": bars,
    "Zipf": lambda: mixed(600, 150, 20, 3000, 0.05, 0.2),
    "three apart": lambda: mixed(400, 300, 3, 500, 0.05, 0.5),
    "three alike": lambda: mixed(400, 300, 3, 500, 0.05, 0.5, alike=0.5),
}


def fitted(name, corpus, **params):
    "An HDP, from its file if there is one; CPU seconds, None if there is."
    from hdp_nb import HDP, load_model

    FITS.mkdir(exist_ok=True)
    path = FITS / f"{name.replace(', ', '_').replace(' ', '_')}.npz"
    if path.exists():
        model = load_model(path)
        model._show()  # as this version shows it
        return model, None
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(n_jobs=1, **params).fit(corpus)
    seconds = round(time.process_time() - began, 1)
    model.save(path)
    return model, seconds


def one_chain(model):
    "The model with the samples of its best chain alone."
    import numpy as np

    chain = model.sample_chain_[model.best_]
    mine = np.flatnonzero(model.sample_chain_ == chain)
    model = copy.copy(model)
    model.samples_, model.sample_chain_ = [model.samples_[i] for i in mine], 0 * mine
    model.sample_weights_, model.best_ = np.full(len(mine), 1 / len(mine)), len(mine) - 1
    model._show()
    return model


def effective(shares):
    "Of the topics alone, whatever is in none of them."
    import numpy as np

    p = shares / shares.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def information(model, corpus):
    "Mutual information of document and topic of a token, in nats."
    import numpy as np

    joint = model.doc_topic_ * corpus.doc_lengths[:, None] / corpus.n_tokens
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
    some = joint > 1e-300
    return float((joint[some] * np.log(joint[some] / apart[some])).sum())


def planted(model, phi, subject):
    "Planted topics that are found, and how documents are sorted."
    from sklearn.metrics import adjusted_rand_score

    noted = {"true": len(phi), "found": 0}
    if model.n_topics_:
        cosine = cosines(phi, model.components_)
        noted["found"] = len({row.argmax().item() for row in cosine if row.max() > 0.9})
    if subject is not None:
        noted["ari"] = float(adjusted_rand_score(subject, model.doc_topic_.argmax(axis=1)))
    return noted


def note(model, alone, corpus, truth):
    "What is noted of a fit, also of its best chain, but for what other fits find of it."
    import numpy as np

    found = {
        "topics": model.n_topics_,
        "shown": float(model.topic_shares_.sum()),
        "effective": effective(model.topic_shares_),
        "effective of one": effective(alone.topic_shares_),
        "information": information(model, corpus),
        "information of one": information(alone, corpus),
        "grade": model.verdict_.grade,
        "says": model.verdict_.found,
        "chains": sorted({int(c) for c in model.sample_chain_}),
        "behind": model.behind_.round(4).tolist(),
    }
    if truth[0] is not None:
        found |= planted(model, *truth)
    for key, m in (("all", model), ("alone", alone)):
        found[key] = {
            "likeness": np.round(m.chain_likeness(), 4).tolist(),
            "tokens": (m.topic_shares_ * corpus.n_tokens).round(1).tolist(),
            "existence": m.existence_.round(4).tolist(),
        }
    return found


def again(one, other):
    "Which topics of a fit another has, too: their largest centred cosine."
    from hdp_nb.models.unions import centred_cosine

    if not (one.n_topics_ and other.n_topics_):
        return [0.0] * one.n_topics_
    n_v = one.word_shares_
    return centred_cosine(one.components_, other.components_, n_v).max(axis=1).round(4).tolist()


def lda(corpus, K):
    "What `LDA(K)` shows of a corpus, by two seeds."
    import numpy as np

    from hdp_nb import LDA

    began, models = time.process_time(), []
    for seed in (1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models.append(LDA(K, random_state=seed, n_jobs=1).fit(corpus))
    one = models[0]
    return {
        "topics": [model.n_topics_ for model in models],
        "shown": float(one.topic_shares_.sum()),
        "least": float(one.topic_shares_.min()),
        "both chains": float(one.topic_shares_[one.chain_likeness() > 0.7].sum()),
        "found again": float(one.topic_shares_[np.array(again(*models)) > 0.7].sum()),
        "grades": [model.verdict_.grade for model in models],
        "likeness": np.round(one.chain_likeness(), 4).tolist(),
        "tokens": (one.topic_shares_ * corpus.n_tokens).round(1).tolist(),
        "again": again(*models),
        "seconds": round(time.process_time() - began, 1),
    }


def corpora(also):
    "Name, and what makes the corpus, its topics and the subject of each document."
    from hdp_nb.corpora.readers import load_corpus

    files = dict(pair.split("=", 1) for pair in also)
    yield from PLANTED.items()
    for name, path in ({name: name for name in REAL} | files).items():
        yield name, lambda path=path: (load_corpus(path), None, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--also", nargs="*", default=[], metavar="NAME=FILE")
    parser.add_argument("--lda", action="store_true", help="fit LDA with 5, 20 and 50 topics")
    parser.add_argument("--only", nargs="*", help="names of corpora")
    options = parser.parse_args()
    found = saved("shown") or {"fits": {}}
    rows = []
    for name, make in corpora(options.also):
        if options.only and name not in options.only:
            continue
        corpus, *truth = make()
        if options.lda:
            for K in (5, 20, 50):
                key = f"{name}, {K} topics"
                known = found.setdefault("lda", {})
                known[key] = known.get(key) or lda(corpus, K)
                save("shown", found)
                print(key, known[key], flush=True)
            continue
        models = []
        for seed in range(1, options.seeds + 1):
            key = f"{name}, seed {seed}"
            model, seconds = fitted(f"{name} {seed}", corpus, random_state=seed)
            models.append((model, one_chain(model)))
            noted = note(*models[-1], corpus, truth)
            old = found["fits"].get(key, {}).get("seconds")
            noted["seconds"] = seconds or old
            found["fits"][key] = noted
            print(key, noted["topics"], noted["grade"], flush=True)
        for a, b in itertools.permutations(range(len(models)), 2):
            noted = found["fits"][f"{name}, seed {a + 1}"]
            for key, model in zip(("all", "alone"), models[a]):
                noted[key].setdefault("again", {})[b + 1] = again(model, models[b][0])
        found["machine"] = machine()
        save("shown", found)
    for key, noted in found["fits"].items():
        rows.append([key, *summary(noted)])
    columns = ["fit", "topics", "words shown", "again", "effective", "of one", "information"]
    table([*columns, "planted found", "ARI", "grade", "CPU s"], rows)


def summary(noted):
    "A row of the table."
    import numpy as np

    tokens = np.array(noted["all"]["tokens"])
    others = [np.array(c) > 0.7 for c in noted["all"].get("again", {}).values()]
    total = tokens.sum() / max(noted["shown"], 1e-9)
    common = np.mean([tokens[there].sum() / total for there in others]) if others else np.nan
    return [
        noted["topics"],
        f"{noted['shown']:.1%}",
        f"{common:.1%}",
        f"{noted['effective']:.1f}",
        f"{noted['effective of one']:.1f}",
        f"{noted['information'] / noted['information of one']:.0%}",
        f"{noted['found']} of {noted['true']}" if "true" in noted else "",
        f"{noted['ari']:.2f}" if "ari" in noted else "",
        noted["grade"],
        noted["seconds"],
    ]


if __name__ == "__main__":
    main()
