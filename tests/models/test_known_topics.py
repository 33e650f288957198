"""HDP with known topics: by name and first, whatever the table; predictions; files; bad input."""

import numpy as np
import pytest
from sklearn.base import clone

from hdp_nb import HDP, Known, Moves, load_model
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.evaluation.scores import document_completion
from hdp_nb.models.known_view import compare_known, match_catalogue
from hdp_nb.topics.known import scales_of

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
RUN = dict(n_iter=80, n_jobs=1, random_state=0)
WORDS = [f"w{v}" for v in range(12)]


def planted(n=60, length=200):
    rng = np.random.default_rng(3)
    phi = rng.dirichlet(np.full(12, 0.3), 4)
    return rng.multinomial(length, rng.dirichlet(np.full(4, 0.4), n) @ phi), phi


X, PHI = planted()
NAMED = {"first": PHI[0].tolist(), "second": PHI[1].tolist()}


@pytest.fixture(scope="module")
def model():
    return HDP(known=NAMED, **RUN).fit(X)


def test_known_topics_come_first_by_name(model):
    assert model.sampler_ == "blocked" and model.known_names_ == ["first", "second"]
    assert model.known_[:2].tolist() == [0, 1] and (model.known_[2:] == -1).all()
    assert model.topic_labels_[:2] == ["first", "second"]
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)
    alike = unit(PHI) @ unit(model.components_).T
    assert alike[0, 0] > 0.98 and alike[1, 1] > 0.98
    assert (np.diff(model.topic_shares_[2:]) <= 0).all()
    assert all(sample.n_vk.sum() == X.sum() for sample in model.samples_)  # nothing told is counted
    assert np.allclose(model.doc_topic_.sum(axis=1), 1)


def test_the_same_whatever_n_jobs_and_after_resume(model, tmp_path):
    again = HDP(known=NAMED, **RUN | {"n_jobs": 2}).fit(X, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(again.components_, model.components_)
    resumed = HDP(known=NAMED, **RUN).fit(X, checkpoint=tmp_path / "run.npz")
    assert np.array_equal(resumed.components_, model.components_)
    with pytest.raises(ValueError, match="told"):
        HDP(known={"first": PHI[2].tolist()}, **RUN).fit(X, checkpoint=tmp_path / "run.npz")


def test_tables_of_every_kind(model):
    pandas = pytest.importorskip("pandas")
    corpus = Corpus.from_matrix(X, vocab=WORDS)
    by_word = {name: dict(zip(WORDS[::-1], row[::-1])) for name, row in NAMED.items()}
    frame = pandas.DataFrame(PHI[:2], index=[*NAMED], columns=WORDS)
    for table in (by_word, frame, frame.T, NAMED):
        found = HDP(known=table, **RUN).fit(corpus)
        assert np.allclose(found.told_, model.told_) and found.known_names_ == ["first", "second"]
        assert np.array_equal(found.components_, model.components_)
    plain = HDP(known=PHI[:2], **RUN).fit(X)
    assert plain.known_names_ == ["known 0", "known 1"]


def test_a_fitted_model(model):
    later = HDP(known=model, **RUN).fit(X[:30])
    one = model.one_sample()
    assert len(later.known_names_) == (one.topic_shares_ >= 0.001).sum()
    assert later.known_names_ == model.topic_labels_  # as they are shown
    assert later.known_names_[:2] == ["first", "second"]
    assert (later.told_.sum(axis=0) <= 1000 + 1e-6).all()


def test_predictions_know_what_was_told(model, tmp_path):
    phi, weight = next(model.posterior_topics())
    scale = scales_of(model.samples_[0], model.told_, model.told_doubt_)  # (KN10)
    told = model.told_[:, 0] * scale[0]
    n = model.samples_[0].n_vk.toarray()[:, 0] + told + model.samples_[0].eta
    assert np.allclose(phi[:, 0], n / n.sum()) and 0.05 < scale[0] <= 1
    assert np.isfinite(document_completion(model, X, random_state=0))
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert np.array_equal(again.components_, model.components_)
    assert again.known_.tolist() == model.known_.tolist() and again.score(X) == model.score(X)
    assert again.known.table["first"] == pytest.approx(NAMED["first"])
    later = clone(HDP(known=Known(model), **RUN)).fit(X)  # a parameter that is no plain table
    later.save(tmp_path / "later.npz")
    assert load_model(tmp_path / "later.npz").known_names_ == later.known_names_


def test_what_a_fit_says_of_them():
    told = np.eye(13)[[0, 1, 12]]  # nothing has the last word
    told[:2, :12] = PHI[:2]
    wider = np.column_stack([X, np.zeros(len(X), int)])
    found = HDP(known=Known(told, strength=[500, np.inf, 500]), **RUN).fit(wider)
    table = found.known_topics()
    columns = {name: list(table[name]) for name in ("known", "used", "cosine", "cosine_low")}
    assert columns["known"][:3] == [True, True, True]
    assert columns["used"][0] == 1 and columns["used"][2] == 0 and found.topic_shares_[2] < 1e-3
    assert columns["cosine_low"][1] > 1 - 1e-6  # fixed
    assert np.allclose(found.components_[1, :12], PHI[1], atol=1e-5)
    with pytest.raises(ValueError, match="known topics, got none"):
        compare_known(HDP(**RUN).fit(X))


def test_only_known_ones():
    "All topics are told: there may be none that is new."
    found = HDP(known=PHI, eta=0.3, gamma=0.01, init=1, **RUN).fit(X)
    assert found.known_[:4].tolist() == [0, 1, 2, 3]
    assert abs(found.topic_shares_.sum() - 1) < 0.02


def test_nothing_known_is_as_before():
    one, other = (HDP(known=known, **RUN).fit(X) for known in (None, None))
    assert one.sampler_ == "crf" and np.array_equal(one.components_, other.components_)
    assert one.known_.tolist() == [-1] * one.n_topics_ and one.known_names_ == []


@pytest.mark.parametrize(
    "known, says",
    [
        ({"a": [0.5] * 12}, r"known\['a'\] must sum to 1, got 6"),
        ({"a": [0.0] * 12}, r"known\['a'\] must have a share above 0, got zeros only"),
        ({"a": [1.5, -0.5] + [0] * 10}, r"known\['a'\] must be finite and at least 0"),
        ({"a": [0.5, 0.5]}, "known must be over the 12 words of X"),
        ({"a": {"nurse": 1.0}}, "known must be over words of X, got others only"),
        ({"a": [1.0] + 11 * [0], "b": [1.0]}, "known must have lists of one length"),
        ({1: [1.0] + 11 * [0]}, "known must have strings for names"),
        ({}, "known must have at least one topic, got none"),
        ("w0", "known must be a dict from names"),
        (HDP(), "known must be a dict from names.*fitted topic model"),
        (Known(NAMED, strength=0), "strength of known must be above 0, got 0"),
        (Known(NAMED, strength=[1, 2, 3]), "strength of known must be a number, or one for each"),
        (Known(NAMED, weight=0), "weight of known must be above 0 and finite, got 0"),
        (Known(NAMED, weight="much"), "weight of known must be a number above 0, got 'much'"),
    ],
)
def test_bad_input(known, says):
    corpus = Corpus.from_matrix(X, vocab=WORDS)
    with pytest.raises(ValueError, match=says) as error:
        HDP(known=known, **RUN).fit(corpus)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options, says",
    [
        (dict(sampler="crf"), "sampler must be 'auto' or 'blocked' with known topics, got 'crf'"),
        (dict(init="sequential"), "init.*blocked"),
        (dict(moves=Moves(split_merge=2)), "split_merge.*blocked"),
    ],
)
def test_what_does_not_go_with_them(options, says):
    with pytest.raises(ValueError, match=says):
        HDP(known=NAMED, **RUN | options).fit(X)


def test_more_known_ones_than_tokens():
    with pytest.raises(ValueError, match="known must not have more topics than X has tokens, 1"):
        HDP(known=PHI, **RUN).fit([[1] + 11 * [0]])


def test_words_that_x_does_not_have_are_told(caplog):
    corpus = Corpus.from_matrix(X, vocab=WORDS)
    row = dict(zip(WORDS, 0.9 * PHI[0])) | {"nurse": 0.1}
    found = HDP(known={"first": row}, **RUN).fit(corpus)
    assert "1 word that X does not have left out" in caplog.text
    assert np.allclose(found.told_[:, 0] / found.told_.sum(), PHI[0])


def test_a_catalogue_beside_a_fit(model):
    catalogue = {name: row for name, row in zip("abcd", PHI.tolist())}
    absent = np.eye(12)[int(PHI.sum(axis=0).argmin())].tolist()
    table = match_catalogue(model, catalogue | {"absent": absent})
    name, cosine = list(table["name"]), np.array(table["cosine"])
    assert name[:2] == ["a", "b"] and name[-1] == "absent" and list(table["topic"])[-1] == -1
    assert {"a", "b", "c", "d"} <= {*name} and np.isnan(cosine[-1])
    assert (cosine[:2] > 0.98).all()
    assert (np.array(table["cosine_low"])[:2] <= cosine[:2]).all()
    with pytest.raises(ValueError, match="known must be over the 12 words"):
        match_catalogue(model, [[0.5, 0.5]])
