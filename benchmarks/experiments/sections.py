"""Articles, words and different words of every section of NIPS: table 2 of Teh et al. (2006).

    python -m benchmarks.experiments.sections FOLDER

FOLDER has the counts, `nips_sections.npz`, and the section of every article, `labels.txt`. Writes
results/sections.json, for `nbs/13_experiments/03_multiple_corpora.ipynb`.
"""

import argparse
from pathlib import Path

from benchmarks.common import machine, save, table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    import numpy as np

    from hdp_nb.corpora.readers import load_corpus

    corpus = load_corpus(folder / "nips_sections.npz")
    labels, found = np.array((folder / "labels.txt").read_text().split()), {}
    for section in np.unique(labels):
        part = corpus[labels == section]
        different = int((part.word_counts() > 0).sum())
        found[str(section)] = {
            "articles": part.n_docs,
            "words": part.n_tokens,
            "different": different,
        }
    save("sections", {"sections": found, "machine": machine()})
    table(
        ["section", "articles", "words", "different"], [[s, *r.values()] for s, r in found.items()]
    )


if __name__ == "__main__":
    main()
