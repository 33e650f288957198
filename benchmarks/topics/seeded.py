"""Seed words of five subjects: whether named topics are used, and answers go where they belong.

    python -m benchmarks.topics.seeded [--seeds 3]

500 answers of 4 to 14 words to a survey with five subjects, a third of them about two (the larger
one has two thirds). A subject has thirty words of its own, by Zipf's law; four words in ten are of
sixty that all share. Told are three words of each subject, the first, third and sixth most
frequent: as a list (weight 1), by weights (10, 5, 3), or not at all; `HDP()` by its defaults. Of
each fit: seeded topics that are shown, and the least share of one; answers whose largest topic,
those that are seeded where any is, is that of their subject (told nothing: the subject that most
answers of the topic have, which counts in its favour); topics; whether the fit says that it has
converged; CPU seconds after a first fit that compiles. One core. Results go to results/seeded.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save

NAMES = ["food", "staff", "room", "price", "place"]
N, OWN, SHARED = 500, 30, 60
TOLD = 0, 2, 5


def answers(seed):
    "Texts, and the number of the subject that each is mostly about."
    import numpy as np

    rng = np.random.default_rng([seed, 62])
    zipf = lambda n: (1 / np.arange(1, n + 1)) / (1 / np.arange(1, n + 1)).sum()
    subject, texts = rng.choice(5, N, p=[0.3, 0.25, 0.2, 0.15, 0.1]), []
    for k in subject:
        other = (k + rng.integers(1, 5)) % 5 if rng.random() < 1 / 3 else k
        words = []
        for _ in range(rng.integers(4, 15)):
            of = k if rng.random() < 2 / 3 else other
            shared = rng.random() < 0.4
            v = rng.choice(SHARED, p=zipf(SHARED)) if shared else rng.choice(OWN, p=zipf(OWN))
            words.append(f"shared{v}" if shared else f"{NAMES[of]}{v}")
        texts.append(" ".join(words))
    return texts, subject


def measure(texts, subject, seed, told):
    import numpy as np

    from hdp_nb import HDP

    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(seed_words=told, n_jobs=1, random_state=seed).fit(texts)
    seconds, docs = time.process_time() - start, model.doc_topic_[:, : model.n_topics_]
    out = {"topics": int(model.n_topics_), "converged": bool(model.converged_)}
    if told is None:
        top = docs.argmax(axis=1)
        right = sum(np.bincount(subject[top == k]).max() for k in np.unique(top))
    else:
        row = {NAMES.index(name): k for name, k in model.seeded_.items()}
        found = np.array([*row])[docs[:, [*row.values()]].argmax(axis=1)]
        shares = [model.topic_shares_[row[k]] if k in row else 0.0 for k in range(5)]
        right = int((found == subject).sum())
        out |= {"named": len(row), "least_share": float(min(shares))}
    return out | {"right": float(right / N), "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    told = {
        "a list": {name: [f"{name}{v}" for v in TOLD] for name in NAMES},
        "weights": {name: {f"{name}{v}": w for v, w in zip(TOLD, (10, 5, 3))} for name in NAMES},
        "nothing": None,
    }
    texts, subject = answers(99)
    for words in told.values():  # compiles
        measure(texts, subject, 0, words)
    rows = {}
    for seed in range(options.seeds):
        texts, subject = answers(seed)
        rows[str(seed)] = {
            name: measure(texts, subject, seed, words) for name, words in told.items()
        }
        save("seeded", {**rows, "machine": machine()})
        for name, row in rows[str(seed)].items():
            print(seed, name, row, flush=True)


if __name__ == "__main__":
    main()
