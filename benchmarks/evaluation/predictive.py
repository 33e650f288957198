"""Do the topics of a text have the same words in all passages, parties and periods?

    python -m benchmarks.evaluation.predictive

Every tenth passage of the State of the Union addresses, words that occur five times or more, as in
consensus.py; the default model by direct assignment, four chains of 600 sweeps. Its topics that
exist are checked by `hdp_nb.evaluation.predictive.check_words` against passages, parties and
periods. Writes results/predictive.json.
"""

import argparse
import time
import warnings

from benchmarks.common import machine, save
from benchmarks.models.consensus import text


def main():
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    from hdp_nb import HDP
    from hdp_nb.evaluation.predictive import check_words

    corpus = text()
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HDP(
            sampler="direct", eta=0.5, n_iter=600, n_chains=4, n_jobs=1, random_state=0
        ).fit(corpus)
    fitted = time.process_time()
    groups = {"party": GROUPS["party"], "period": GROUPS["period"]}
    found = check_words(model, corpus, groups, n_samples=20)
    done = time.process_time()
    table = found.table()
    found_words = {str(k): dict(list(words.items())) for k, words in found.words.items()}
    save(
        "predictive",
        {
            "verdict": found.verdict(),
            "table": table.to_dict("records"),
            "words": found_words,
            "shares": model.consensus().topic_shares_.tolist(),
            "converged": model.converged_,
            "seconds": [fitted - began, done - fitted],
            "machine": machine(),
        },
    )
    print(found.verdict())
    print(table.to_string())


if __name__ == "__main__":
    from hdp_nb.corpora.readers import load_corpus

    GROUPS = load_corpus("sotu")[::10].groups
    main()
