"""What must not matter, or must matter in a known way, of what users send: for any data.

Exact where parameters are given: the order of documents, rows and words; the type, the layout and
the sparsity of arrays; the unit and the origin of columns. And nothing that is sent is written to.
"""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from hdp_nb import (
    HDP,
    HDPHMM,
    HNHDP,
    LDA,
    Corpus,
    DPMixture,
    HDPMixture,
    NestedDP,
    OnlineHDP,
    TreeHDP,
    VariationalHDP,
)

few = settings(max_examples=8, deadline=None)
ONE = {"n_iter": 6, "n_chains": 1, "random_state": 0}
GROUPS = np.arange(12) % 3
TOPIC_MODELS = {
    "HDP": lambda: HDP(**ONE),
    "HDP, blocked": lambda: HDP(sampler="blocked", **ONE),
    "LDA": lambda: LDA(3, **ONE),
    "TreeHDP": lambda: TreeHDP([], **ONE),
    "NestedDP": lambda: NestedDP(**ONE),
    "HNHDP": lambda: HNHDP(n_clusters=3, n_topics=4, **ONE),
    "VariationalHDP": lambda: VariationalHDP(n_topics=4, max_iter=5, random_state=0),
    "OnlineHDP": lambda: OnlineHDP(n_topics=3, n_passes=1, random_state=0),
}
OF_ROWS = {
    "normal": lambda: DPMixture("normal", **ONE),
    "student": lambda: DPMixture("student", **ONE),
    "groups": lambda: HDPMixture("normal", **ONE),
    "states": lambda: HDPHMM(emission="normal", **ONE),
    "states, beam": lambda: HDPHMM(emission="normal", sampler="beam", **ONE),
}
counts = st.lists(st.lists(st.integers(0, 9), min_size=5, max_size=5), min_size=2, max_size=12)
# Multiples of 1/8, so that sums and squares of units and origins lose no digit.
rows = st.integers(0, 9999).map(
    lambda seed: np.random.default_rng(seed).integers(-80, 80, (12, 2)) / 8.0
)


@cache
def fitted(kind):
    X = np.random.default_rng(0).integers(0, 4, (20, 5)) * (1 + np.arange(5) % 2)
    return TOPIC_MODELS[kind]().fit(X)


def fit_rows(kind, X):
    more = {"groups": GROUPS} if kind == "groups" else {}
    return OF_ROWS[kind]().fit(X, **more)


def result(model):
    "Arrays that a fit has learned, by name."
    found = {name: a for name, a in vars(model).items() if isinstance(a, np.ndarray)}
    traces = getattr(model, "trace_", {})
    return {**{name: a for name, a in found.items() if name != "data_"}, **traces}


def assert_same(one, other):
    one, other = result(one), result(other)
    assert one.keys() == other.keys()
    for name, a in one.items():
        assert_array_equal(a, other[name], err_msg=name)


def locked(X):
    "The same data, whose arrays nobody may write to."
    names = ("data", "indices", "indptr", "row", "col") if sp.issparse(X) else ()
    for array in [getattr(X, name) for name in names if hasattr(X, name)] or [X]:
        array.flags.writeable = False
    return X


# Documents

FORMS = {
    "int8": lambda X: X.astype(np.int8),
    "uint16": lambda X: X.astype(np.uint16),
    "float32": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "other order": np.asfortranarray,
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "coo": sp.coo_array,
    "lil": sp.lil_array,
    "coo of int8, in parts": lambda X: in_parts(X),
    "csr, unsorted": lambda X: unsorted(X),
    "corpus": Corpus.from_matrix,
}


def in_parts(X):
    i, j = np.nonzero(X)
    i, j = np.repeat(i, X[i, j]), np.repeat(j, X[i, j])
    return sp.coo_array((np.ones(len(i), np.int8), (i, j)), shape=X.shape)


def unsorted(X):
    back = sp.csr_array(X[:, ::-1])
    indices = X.shape[1] - 1 - back.indices
    return sp.csr_array((back.data, indices, back.indptr), shape=X.shape)


@pytest.mark.parametrize("kind", TOPIC_MODELS)
def test_the_form_of_counts_changes_no_bit(kind):
    X = np.random.default_rng(1).integers(0, 4, (9, 5))
    plain, asked = TOPIC_MODELS[kind]().fit(X), X[:4]
    answer, score = plain.transform(asked), plain.score(asked)
    for name, form in FORMS.items():
        other = form(X)
        if name != "corpus":
            assert_same(plain, TOPIC_MODELS[kind]().fit(other))
        assert_array_equal(plain.transform(form(asked)), answer, err_msg=name)
        assert plain.score(form(asked)) == score, name


@pytest.mark.parametrize("kind", TOPIC_MODELS)
@few
@given(X=counts, data=st.data())
def test_documents_are_asked_about_in_any_order(kind, X, data):
    X, model = np.array(X), fitted(kind)
    order = data.draw(st.permutations(range(len(X))))
    assert_array_equal(model.transform(X)[order], model.transform(X[order]))
    assert_array_equal(model.transform(X)[:1], model.transform(X[:1]))
    alike = np.concatenate([X, 0 * X[:1], X])
    answer = model.transform(alike)
    assert_array_equal(answer[: len(X)], answer[len(X) + 1 :])
    assert_allclose(answer.sum(axis=1), 1)


@pytest.mark.parametrize("kind", TOPIC_MODELS)
def test_counts_are_never_written_to(kind):
    X = np.random.default_rng(2).integers(0, 4, (12, 5))
    for form in (np.array, np.asfortranarray, sp.csr_array, sp.csc_array, in_parts, unsorted):
        sent = locked(form(X))
        if form is in_parts:
            assert not sent.has_canonical_format
        model = TOPIC_MODELS[kind]().fit(sent)
        model.transform(sent), model.score(sent), model.perplexity(sent)
        if hasattr(model, "partial_fit"):
            model.partial_fit(sent)
        assert_array_equal(sent.toarray() if sp.issparse(sent) else sent, X)


# Rows of numbers


@pytest.mark.parametrize("kind", OF_ROWS)
def test_the_form_of_rows_changes_no_bit(kind):
    X = np.random.default_rng(3).normal(size=(12, 2)).astype(np.float32)
    plain = fit_rows(kind, X.astype(float))
    for form in (
        lambda X: X,
        np.asfortranarray,
        lambda X: np.repeat(X.astype(float), 2, axis=0)[::2],
        lambda X: X.astype(float).tolist(),
        lambda X: np.ma.masked_array(X),
        lambda X: locked(X.astype(float)),
        lambda X: locked(np.asfortranarray(X, float)),
    ):
        assert_same(plain, fit_rows(kind, form(X)))
        assert plain.score(form(X)) == plain.score(X.astype(float))
    if kind != "groups":
        assert_array_equal(plain.predict(locked(X.copy())), plain.predict(X.astype(float)))


@pytest.mark.parametrize("kind", ["normal", "states"])
@few
@given(X=rows, power=st.integers(-30, 30), origin=st.integers(-64, 64))
def test_a_unit_and_an_origin_move_densities_as_they_must(kind, X, power, origin):
    "Components are the same ones; a unit of half the size halves the density in every column."
    unit = np.array([2.0**power, 1.0])
    plain, moved = fit_rows(kind, X), fit_rows(kind, X * unit + origin * unit)
    assert_array_equal(plain.labels_, moved.labels_)
    less = moved.trace_["log_joint"] - plain.trace_["log_joint"]
    assert_allclose(less, -len(X) * power * np.log(2), atol=1e-6)


@few
@given(X=rows, data=st.data())
def test_rows_are_asked_about_in_any_order(X, data):
    model = fit_rows("normal", X)
    order = data.draw(st.permutations(range(len(X))))
    assert_array_equal(model.predict_proba(X)[order], model.predict_proba(X[order]))
    assert_allclose(model.score(X), model.score(X[order]), rtol=1e-12)
