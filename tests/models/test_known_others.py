"""Known topics beyond HDP: other classes, seed words, later fits, what is like none of them."""

import numpy as np
import pytest

from hdp_nb import HDP, LDA, Known, OnlineHDP, SeedWords, TreeHDP, VariationalHDP, load_model
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.models.known_view import novelty, shares_over_fits

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
RUN = dict(n_iter=60, n_jobs=1, random_state=0)
WORDS = [f"w{v}" for v in range(12)]
RNG = np.random.default_rng(3)
PHI = RNG.dirichlet(np.full(12, 0.3), 4)
X = RNG.multinomial(100, RNG.dirichlet(np.full(4, 0.4), 300) @ PHI)
NAMED = {"first": PHI[0].tolist(), "second": PHI[1].tolist()}
CLASSES = {
    "LDA": lambda **more: LDA(4, **RUN, **more),
    "TreeHDP": lambda **more: TreeHDP([], **RUN, **more),
    "VariationalHDP": lambda **more: VariationalHDP(n_topics=8, random_state=0, **more),
    "OnlineHDP": lambda **more: OnlineHDP(n_topics=3, n_passes=5, random_state=0, **more),
}


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("name", CLASSES)
def test_known_topics_come_first_by_name(name, tmp_path):
    docs = X if name == "OnlineHDP" else X[:60]
    model = CLASSES[name](known=NAMED).fit(docs)
    assert model.known_[:2].tolist() == [0, 1] and (model.known_[2:] == -1).all()
    assert model.known_names_ == ["first", "second"] == model.topic_labels_[:2]
    cosine = unit(PHI) @ unit(model.components_).T
    assert cosine[0, 0] > 0.95 and cosine[1, 1] > 0.95 and cosine[2:].max(axis=1).min() > 0.95
    tokens = model.topic_shares_
    assert (np.diff(tokens[2:]) <= 1e-12).all() and 0.6 < tokens.sum() < 1 + 1e-6
    assert np.allclose(model.transform(docs[:5]).sum(axis=1), 1)
    model.save(tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    assert np.array_equal(again.components_, model.components_)
    assert again.known_.tolist() == model.known_.tolist()


@pytest.mark.parametrize("name", ["LDA", "VariationalHDP"])
def test_nothing_known_is_as_before(name):
    one, other = (CLASSES[name](**more).fit(X[:30]) for more in ({}, {"known": None}))
    assert np.array_equal(one.components_, other.components_) and (one.known_ == -1).all()
    if name == "LDA":
        assert one.told_.shape == (12, 0)


@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize(
    "known, says",
    [
        ({"a": [0.5] * 12}, r"known\['a'\] must sum to 1, got 6"),
        ({"a": [0.0] * 12}, r"known\['a'\] must have a share above 0, got zeros only"),
        ({"a": {"nurse": 1.0}}, "known must be over words of X, got others only"),
        (Known(NAMED, strength=0), "strength of known must be above 0, got 0"),
        (Known(NAMED, doubt=1), "doubt of known must be a number from 0 to 1, exclusive, got 1"),
        (np.full((40, 12), 1 / 12), "known must not have more topics than"),
        (LDA(3), "known must be a dict from names.*fitted topic model"),
    ],
)
def test_bad_input(name, known, says):
    with pytest.raises(ValueError, match=says) as error:
        CLASSES[name](known=known).fit(Corpus.from_matrix(X[:1] > 9, vocab=WORDS))
    assert "\n" not in str(error.value)


def test_a_name_twice_and_a_model_of_another_class():
    pandas = pytest.importorskip("pandas")
    twice = pandas.DataFrame(PHI[:2], index=["a", "a"], columns=WORDS)
    with pytest.raises(ValueError, match="known must have distinct names, got 'a' twice"):
        LDA(3, known=twice, **RUN).fit(Corpus.from_matrix(X, vocab=WORDS))
    with pytest.raises(ValueError, match='e_step must be "variational" with known topics'):
        OnlineHDP(known=NAMED, e_step="gibbs").fit(X)
    with pytest.raises(ValueError, match="known must be None where topics are given"):
        TreeHDP([], known=NAMED, **RUN).fit(X, topics=HDP(**RUN))


def test_a_stream_remembers_what_it_was_told():
    absent = np.full(12, 1e-3)
    absent[int(PHI.sum(axis=0).argmin())] = 1 - 11e-3
    model = OnlineHDP(n_topics=3, known={**NAMED, "absent": absent.tolist()}, random_state=0)
    for begin in range(0, 300, 100):
        model = model.partial_fit(X[begin : begin + 100])
    assert model.known_[:3].tolist() == [0, 1, 2] and model.topic_labels_[2] == "absent"
    assert unit(model.components_[2:3]) @ unit(absent[None]).T > 0.95
    assert model.topic_shares_[2] < 0.05


def test_a_topic_told_too_surely_is_doubted():
    "Told wrongly with a strength that the data cannot outweigh: corrected if it may be doubted."
    wrong = 0.75 * PHI[0] + 0.25 * PHI[3]
    fits = [
        LDA(4, known=Known([wrong], strength=20_000, doubt=doubt), **{**RUN, "n_iter": 300}).fit(X)
        for doubt in (0.0, 0.5)
    ]
    cosine = [(unit(PHI[:1]) @ unit(fit.components_[:1]).T).item() for fit in fits]
    assert cosine[1] > 0.97 and cosine[1] > cosine[0] + 0.01


def test_seed_words_are_known_topics():
    top = [np.argsort(-row)[:3].tolist() for row in PHI[:2]]
    lists = {"first": top[0], "second": top[1]}
    weights = {name: dict.fromkeys(words, 2.5) for name, words in lists.items()}
    model = HDP(seed_words=weights, **RUN).fit(X[:60])
    assert model.sampler_ == "blocked" and model.seeds_.max() == 2.5
    assert model.seeded_ == {"first": 0, "second": 1} and model.known_names_ == [*lists]
    assert all(sample.n_vk.sum() == X[:60].sum() for sample in model.samples_)
    cosine = unit(PHI) @ unit(model.components_).T
    assert cosine[0, 0] > 0.95 and cosine[1, 1] > 0.95
    both = HDP(known={"known": PHI[2].tolist()}, seed_words=lists, **RUN).fit(X[:60])
    assert both.known_names_ == ["known", "first", "second"]
    assert both.seeded_ == {"first": 1, "second": 2}
    with pytest.raises(ValueError, match="seed_words must have other names than known"):
        HDP(known=NAMED, seed_words=lists, **RUN).fit(X[:60])
    with pytest.raises(ValueError, match="seed_words must have whole numbers"):
        HDP(seed_words=weights, sampler="crf", **RUN).fit(X[:60])
    with pytest.raises(ValueError, match=r"seed_words\['a'\]\[0\] must be a finite number above 0"):
        HDP(seed_words={"a": {0: -1}}, **RUN).fit(X[:60])
    with pytest.raises(ValueError, match="strength of seed_words must be at most 100,000"):
        HDP(seed_words=SeedWords(lists, strength=1e6), **RUN).fit(X[:60])


def test_next_year():
    first = HDP(known=NAMED, **RUN).fit(X[:60])
    later = first.continue_with(X[60:120])
    n = first.n_topics_
    assert later.topic_labels_[:n] == first.topic_labels_ == later.known_names_
    table = shares_over_fits((first, 30 * [2000] + 30 * [2001]), (later, 60 * [2002]))
    columns = {name: np.array(table[name]) for name in table}
    assert list(columns["topic"])[:n] == first.topic_labels_
    assert np.allclose(columns["2002"][:n], later.topic_shares_[:n], atol=1e-6)
    assert (columns["since"][:n] == 0).all() and columns["2000"].sum() > 0.7
    with pytest.raises(ValueError, match="groups must have labels of their own, got '2000' twice"):
        shares_over_fits((first, 60 * [2000]), (later, 60 * [2000]))


def test_novelty():
    model = LDA(4, known=PHI, **RUN).fit(X[:60])
    rng = np.random.default_rng(0)
    new = rng.multinomial(100, np.roll(PHI[0], 5), 20)
    table = novelty(model, np.vstack([X[250:], new]), calibrate=X[60:250])
    alarm = np.array(table["alarm"])
    assert alarm[:50].mean() < 0.1 and alarm[50:].mean() > 0.9
    with pytest.raises(ValueError, match="calibrate must have at least 99 documents for a rate"):
        model.novelty(new, calibrate=X[:20])
