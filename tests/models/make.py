"""Write the saved models that tests/models/test_saved_models.py reads, and what they answered then.

The files are what users have on disk, and a later version has to read them: they are never written
anew. When the format of saved models changes, keep these and write new ones to a folder of their
own, which the tests then read, too:

    python tests/models/make.py tests/models/stored/format4

The folder stored/ has models of format 3, of hdp_nb 0.1.0.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import hdp_nb

SHORT = dict(n_iter=10, burn_in=5, thin=3, n_chains=1, random_state=0)


def documents(n, rng):
    "Documents of words of one of two kinds."
    return [
        [f"w{v:02d}" for v in rng.integers(0, 10, rng.integers(3, 25)) + 8 * (j % 2)]
        for j in range(n)
    ]


def models():
    "Name, fitted model."
    rng = np.random.default_rng(0)
    docs = documents(12, rng)
    corpus = hdp_nb.Corpus.from_docs(
        docs,
        groups={
            "period": [f"p{j // 6}" for j in range(12)],
            "author": [f"a{j // 3}" for j in range(12)],
        },
    )
    yield (
        "hdp",
        hdp_nb.HDP(
            init=4,
            moves=hdp_nb.Moves(split_merge=2),
            eta=hdp_nb.Gamma(1, 1),
            **SHORT | {"n_chains": 2},
        ).fit(corpus),
    )
    yield ("hdp_counts", hdp_nb.HDP(sampler="direct", init=4, **SHORT).fit(corpus.to_matrix()))
    yield "lda", hdp_nb.LDA(3, weights="learned", **SHORT).fit(corpus)
    yield "tree", hdp_nb.TreeHDP(init=4, per_node=True, **SHORT).fit(corpus)
    yield "variational", hdp_nb.VariationalHDP(n_topics=8, max_iter=10, random_state=0).fit(corpus)
    yield "online", hdp_nb.OnlineHDP(n_topics=2, random_state=0).partial_fit(corpus)
    yield "hnhdp", hdp_nb.HNHDP(n_clusters=6, n_topics=4, **SHORT).fit(corpus)
    yield (
        "hnhdp_categories",
        hdp_nb.HNHDP(
            n_clusters=6, n_topics=4, categories="author", word_selection=False, **SHORT
        ).fit(corpus),
    )
    yield (
        "nesteddp",
        hdp_nb.NestedDP(n_clusters=6, n_topics=4, **SHORT | {"n_chains": 2}).fit(corpus),
    )
    points = np.round(rng.normal(size=(20, 2)) + 6 * rng.integers(0, 2, size=(20, 1)), 2)
    rows = {
        "categorical": rng.integers(0, 4, 20),
        "multinomial": corpus.to_matrix(),
        "normal": points,
        "normal_inverse_gamma": points,
        "normal_known_variance": points,
        "poisson": rng.poisson([2, 9], (20, 2)),
    }
    for likelihood, X in rows.items():
        yield f"dpmixture_{likelihood}", hdp_nb.DPMixture(likelihood, **SHORT).fit(X)
    yield (
        "hdpmixture_normal",
        hdp_nb.HDPMixture("normal", **SHORT).fit(points, groups=5 * ["a", "b", "a", "c"]),
    )
    steps = {
        "categorical": rng.integers(0, 4, 30),
        "normal": np.vstack([points, points[:10]]),
        "poisson": rng.poisson([2, 9], (30, 2)),
        "normal_inverse_gamma": np.hstack([points[:, 0], points[:10, 0]]),
    }
    for emission, X in steps.items():
        yield (
            f"hdphmm_{emission}",
            hdp_nb.HDPHMM(sampler="beam", emission=emission, init=3, **SHORT | {"n_chains": 2}).fit(
                X, [20, 10]
            ),
        )
    yield (
        "hdphmm_groups",
        hdp_nb.HDPHMM(kappa=hdp_nb.Gamma(1, 1), init=3, **SHORT).fit(
            steps["categorical"], [10, 10, 10], groups=["b", "a", "b"]
        ),
    )
    yield (
        "hdphmm_eta",
        hdp_nb.HDPHMM(prior=hdp_nb.Gamma(1, 1), init=4, **SHORT).fit(
            steps["categorical"], [20, 10], groups=["a", "b"]
        ),
    )


def questions(model):
    "What to ask the model: a method's name, its arguments and keyword arguments, as JSON has them."
    rng = np.random.default_rng(1)
    name = type(model).__name__
    if name == "DPMixture":
        X = {
            "categorical": rng.integers(0, 4, 6),
            "multinomial": rng.integers(0, 3, (6, 18)),
            "poisson": rng.poisson([2, 9], (6, 2)),
        }.get(model.likelihood, np.round(6 * rng.random((6, 2)), 2)).tolist()
        return [("score", [X]), ("score_samples", [X]), ("predict", [X])]
    if name == "HDPMixture":
        X, groups = np.round(6 * rng.random((6, 2)), 2).tolist(), list("abcabd")
        methods = "score_samples", "predict", "predict_proba"
        return [("score", [X], {"groups": groups})] + [(one, [X, groups]) for one in methods]
    if name == "HDPHMM":
        X = {
            "categorical": rng.integers(0, 4, 12),
            "normal": np.round(6 * rng.random((12, 2)), 2),
            "poisson": rng.poisson([2, 9], (12, 2)),
            "normal_inverse_gamma": np.round(6 * rng.random(12), 2),
        }[model.emission].tolist()
        group, one = (
            ({"groups": ["a", "b"]}, {"group": "b"}) if model.groups_ is not None else ({}, {})
        )
        return [
            *(
                (method, [X, [8, 4]], group | {"method": "plug-in"})  # the other is drawn
                for method in ("score", "score_samples")
            ),
            *((method, [X, [8, 4]], group) for method in ("predict", "predict_proba")),
            ("predict", [X, [8, 4], "posterior"], group),
            ("sample", [9, 0], one),
        ]
    X = rng.poisson(0.8, (4, 18)).tolist()
    if name in ("HNHDP", "NestedDP"):
        return [
            ("score", [X]),
            ("score_samples", [X]),
            ("predict", [X]),
            ("cluster_proba", [X]),
            ("transform", [X]),
            ("top_words", [4]),
        ]
    if name == "TreeHDP":
        new = {
            "docs": documents(4, rng),
            "vocab": model.vocabulary_,
            "groups": {"period": ["p0", "p1", "p1", ""], "author": ["a0", "a3", "a9", ""]},
        }
        return [("node", ["p1", "a2"]), ("top_words", [4]), ("score", [new]), ("transform", [new])]
    more = [("partial_fit", [X])] if name == "OnlineHDP" else []
    return [("score", [X]), ("perplexity", [X]), ("transform", [X]), ("top_words", [4]), *more]


def plain(value):
    "What a method returned, as JSON has it; of a model that learned more, its topics."
    if hasattr(value, "components_"):
        return value.components_.tolist()
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def answer(model, method, args, kwargs=None):
    "What the model's method returns; an argument that is a dict is made a Corpus."
    args = [hdp_nb.Corpus.from_docs(**arg) if isinstance(arg, dict) else arg for arg in args]
    return plain(getattr(model, method)(*args, **(kwargs or {})))


def attributes(model):
    "Results that every version has to know, as JSON has them."
    names = (
        "components_",
        "doc_topic_",
        "labels_",
        "n_topics_",
        "n_states_",
        "transmat_",
        "alpha_",
        "gamma_",
        "node_weights_",
        "nodes_",
        "vocabulary_",
        "global_words_",
        "categories_",
        "groups_",
        "group_weights_",
        "trace_",
    )
    found = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return {
        name: {key: plain(part) for key, part in value.items()}
        if isinstance(value, dict)
        else plain(value)
        for name, value in found.items()
    }


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    if written := list(folder.glob("*.npz")):
        sys.exit(
            f"{folder} has {len(written)} saved models, which stay as they are; name another folder"
        )
    expected = {}
    for name, model in models():
        model.save(folder / f"{name}.npz")
        before, asked = (
            attributes(model),
            questions(model),
        )  # an answer may change the model: partial_fit
        expected[name] = {
            "class": type(model).__name__,
            "attributes": before,
            "answers": [
                {"question": question, "answer": answer(model, *question)} for question in asked
            ],
        }
    with open(folder / "expected.json", "w") as file:
        json.dump(expected, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    warnings.simplefilter("error")
    main(Path(sys.argv[1]))
