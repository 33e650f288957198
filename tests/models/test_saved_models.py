"""Models that earlier versions saved: this version reads them, and they answer as they did."""

import json
from pathlib import Path

import numpy as np
import pytest
from models.make import answer, attributes
from tiers import slow_unless

import hdp_nb
from hdp_nb.sequences.emissions import hmm_emission

HERE = Path(__file__).parent / "stored"
SAVED = {
    path.parent / f"{name}.npz": want
    for path in sorted(HERE.rglob("expected.json"))
    for name, want in json.loads(path.read_text()).items()
}
HMMS = [path for path, want in SAVED.items() if want["class"] == "HDPHMM"]
# Kernels of two more kinds of emissions, for questions that the others answer, too.
AGAIN = {"hdphmm_poisson", "hdphmm_normal_inverse_gamma"}
every = pytest.mark.parametrize(
    "path",
    slow_unless(lambda path: path.stem not in AGAIN, SAVED),
    ids=lambda path: str(path.relative_to(HERE).with_suffix("")),
)


def same(found, want):
    "Whether two results are the same; numbers up to what another processor's rounding may do."
    if isinstance(want, dict):
        return (
            isinstance(found, dict)
            and found.keys() >= want.keys()
            and all(same(found[key], want[key]) for key in want)
        )
    if isinstance(want, str) or want is None:
        return found == want
    try:
        a, b = np.array(found), np.array(want)
    except ValueError:  # parts of different shapes
        return len(found) == len(want) and all(map(same, found, want))
    if b.dtype.kind != "f":
        return a.shape == b.shape and bool((a == b).all())
    return (
        a.shape == b.shape
        and a.dtype.kind == "f"
        and np.allclose(a, b, rtol=1e-6, atol=1e-12, equal_nan=True)
    )


class AsEarlier:
    """A topic model as versions up to format 4 showed it: one sample, no column for all else.

    Its samples do not hold the topics of documents, so there is no doc_topic_ of them any more.
    """

    def __init__(self, model):
        self.model, self.one = model, model.one_sample() if hasattr(model, "one_sample") else model
        K = self.one.n_topics_
        cluster = getattr(self.one, "topic_cluster_", np.zeros(K))
        self.order = np.lexsort((np.arange(K), cluster))  # nested models: cluster by cluster
        self.components_ = self.one.components_[self.order]
        self.n_topics_, self.doc_topic_ = K, getattr(model, "doc_topic_", None)
        for name in ("alpha_", "gamma_"):
            if hasattr(model, name):
                setattr(self, name, getattr(self.one, name))
        if hasattr(model, "node_weights_"):
            self.node_weights_ = self.one.node_weights_[:, :-1]
        if self.doc_topic_ is not None:
            self.doc_topic_ = self.doc_topic_[:, :-1]

    def __getattr__(self, name):
        return getattr(self.model, name)

    def transform(self, X):
        pi = self.one.transform(X)[:, self.order]
        return pi / pi.sum(axis=1, keepdims=True)

    def cluster_proba(self, X):
        return self.one.cluster_proba(X)

    def top_words(self, n):
        words = self.one.top_words(n)
        return [words[k] for k in self.order]


def differences(model, want):
    "Names of the attributes, and the questions, that do not give what they gave."
    model = AsEarlier(model) if hasattr(model, "topic_shares_") else model
    found = attributes(model)
    odd = [
        name
        for name, value in want["attributes"].items()
        if (name not in found or not same(found[name], value))
        and not (name == "doc_topic_" and hasattr(model, "samples_"))
    ]
    return odd + [
        entry["question"][0]
        for entry in want["answers"]
        if not same(answer(model, *entry["question"]), entry["answer"])
    ]


@every
def test_is_read_and_answers_as_before(path):
    want, model = SAVED[path], hdp_nb.load_model(path)
    assert type(model).__name__ == want["class"] and differences(model, want) == []


@pytest.mark.parametrize("path", HMMS, ids=lambda path: path.stem)
def test_the_statistics_of_states_get_names(path):
    "Files of format 3 numbered them."
    model = hdp_nb.load_model(path)
    assert set(model.samples_[0].stats) == set(hmm_emission(model.emission).kept)


@every
def test_its_own_class_reads_it_and_saves_it_again(path, tmp_path):
    want = SAVED[path]
    model = getattr(hdp_nb, want["class"]).load(path)
    model.save(tmp_path / "again.npz")
    assert differences(hdp_nb.load_model(tmp_path / "again.npz"), want) == []


@every
def test_parameters_set_later_change_nothing(path, tmp_path):
    "What was fitted answers by the parameters of its fit; refitting would take the new ones."
    want, model, params = SAVED[path], hdp_nb.load_model(path), {}
    for name, value in model.get_params().items():
        params[name] = "later" if isinstance(value, str) or value is None else 9
    params |= {"n_jobs": 1} if "n_jobs" in params else {}  # of what is asked, too
    if want["class"] == "OnlineHDP":  # which may go on learning, by new parameters
        want = want | {"answers": [e for e in want["answers"] if e["question"][0] != "partial_fit"]}
    assert differences(model.set_params(**params), want) == []
    model.save(tmp_path / "later.npz")
    again = hdp_nb.load_model(tmp_path / "later.npz")
    assert again.get_params() == params and differences(again, want) == []


def test_a_parameter_that_is_changed_in_place_changes_nothing():
    points, prior = np.random.default_rng(0).normal(size=(20, 2)), {"kappa": 0.5}
    model = hdp_nb.DPMixture("normal", prior=prior, n_iter=4, n_chains=1, random_state=0)
    score = model.fit(points).score(points)
    prior["kappa"] = 50.0
    assert model.score(points) == score and model.fit(points).score(points) != score


def test_every_model_and_every_file_is_there():
    public = {
        name
        for name in hdp_nb.__all__
        if hasattr(getattr(hdp_nb, name), "save") and hasattr(getattr(hdp_nb, name), "fit")
    }
    assert {want["class"] for path, want in SAVED.items() if path.parent == HERE} == public
    assert set(SAVED) == {*HERE.rglob("*.npz")}
    assert all(path.stat().st_size < 60_000 for path in SAVED)


@every
def test_a_changed_number_is_seen(path):
    "A control: no answer is such that another would do."
    for (method, *_), value in (entry.values() for entry in SAVED[path]["answers"]):
        value = value[0] if method == "sample" else value
        a = np.array(value)
        changed = (
            a + 1 if a.dtype.kind == "i" else a * (1 + 1e-5) if a.dtype.kind == "f" else a[::-1]
        )
        assert same(value, value) and not same(changed.tolist(), value)


def test_a_sample_that_got_lost_is_seen():
    "A control: scores depend on everything that was kept."
    [path] = (path for path in SAVED if path == HERE / "hdp.npz")
    model = hdp_nb.load_model(path)
    model.samples_ = model.samples_[model.best_ :]
    model.best_ = 0
    assert "score" in differences(model, SAVED[path])
