"""Every array of every checkpoint and saved model, edited in seven ways: refused in one line, or
legal and gone on with.

A process of its own tries each edit, so that one that would crash or never end is seen. Some edits
of a checkpoint and a model of one kind on every push; with --slow all of all kinds.
"""

import re
import sys
import warnings
from collections import Counter
from functools import partial

import numpy as np
import pytest
from alone import FAULTS, outcome
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from test_kills import CORPUS, POINTS, SYMBOLS
from tiers import slow_unless

import hdp_nb
from hdp_nb import (
    HDP,
    HDPHMM,
    HNHDP,
    LDA,
    DPMixture,
    HDPMixture,
    NestedDP,
    OnlineHDP,
    TreeHDP,
    VariationalHDP,
)
from hdp_nb.cli.results import list_topics_of, own_label

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux, where a process may fork"
)

SEQUENCE = np.cumsum(np.random.default_rng(2).normal(size=(60, 2)), axis=0)
SMALL = CORPUS[:20]
TEXTS = {
    **{name: HDP(sampler=name) for name in ("crf", "direct", "hybrid", "parallel", "blocked")},
    "LDA": LDA(4),
    "tree": TreeHDP(["age"]),
    "seeded tree": TreeHDP(["age"], seed_words={"corner": ["w0", "w5"]}),
    "nested": NestedDP(n_clusters=3, n_topics=4),
    "hybrid nested": HNHDP(n_clusters=3),
}
ROWS = {
    "mixture": (DPMixture("normal"), POINTS[:40]),
    "mixture of groups": (HDPMixture("normal"), [POINTS[:15], POINTS[15:40]]),
    "mixture of counts": (DPMixture("multinomial"), SMALL.to_matrix().toarray()),
    **{
        f"states, {name}": (HDPHMM(sampler=name, max_states=6), SYMBOLS[:60])
        for name in ("direct", "beam", "weak_limit")
    },
    "states, normal": (HDPHMM(emission="normal", max_states=6), SEQUENCE),
    "states, autoregression": (HDPHMM(emission="autoregression", max_states=6), SEQUENCE),
}
SAMPLED = {name: (model, SMALL) for name, model in TEXTS.items()} | ROWS
FITTED = SAMPLED | {
    "online": (OnlineHDP(n_topics=4, batch_size=10, n_passes=2), SMALL),
    "variational": (VariationalHDP(n_topics=4, max_iter=3), SMALL),
}


def first(value):
    "The first entry is another, as far as its type goes: 255 for a million."

    def edit(array):
        array, kind = array.copy(), array.dtype
        if kind.kind in "iu":
            array.flat[0] = np.clip(value, np.iinfo(kind).min, np.iinfo(kind).max)
        else:
            array.flat[0] = value
        return array

    return edit


EDITS = {
    "reversed": lambda array: array[::-1],
    "a million": first(10**6),
    "negative": first(-3),
    "NaN": first(np.nan),
    "huge": lambda array: first(1e300 if array.dtype.kind == "f" else 2**62)(array),
    "short": lambda array: array[:-1],
    "zero": np.zeros_like,
}


def edits_of(arrays):
    "Pairs (array, edit) that change something of numbers; first the control, which does not."
    yield None, None
    for name, array in arrays.items():
        if array.dtype.kind not in "iufb" or not array.size:
            continue
        for edit, change in EDITS.items():
            if array.ndim == 0 and edit in ("reversed", "short"):
                continue
            if array.dtype.kind != "f" and edit == "NaN":
                continue
            if not np.array_equal(change(array), array, equal_nan=array.dtype.kind == "f"):
                yield name, edit


@pytest.fixture
def step(request):
    "Every eleventh edit on every push, so that each of the seven is there for some arrays."
    return 1 if request.config.getoption("--slow") else 11


def try_all(good, attempt, step):
    """Edits of the file `good`, whose copy `bad-0.npz` is then what `attempt()` reads.

    Fails unless each is refused in one line that names the file or the number, or gone on with.
    """
    with np.load(good) as file:
        arrays = dict(file)
    bad, said = good.with_name("bad-0.npz"), good.with_name("said")
    counts, faults = Counter(), []

    def is_taken(name):
        try:
            attempt(bad)
        except ValueError as error:  # on loading, or of a number that a sweep finds too large
            line, number = str(error), name.rpartition("/")[2]
            assert "\n" not in line
            assert bad.name in line or re.search(rf"\b{re.escape(number)}\b", line)
            return False
        return True

    for name, edit in [*edits_of(arrays)][::step]:
        np.savez(bad, **arrays | ({} if name is None else {name: EDITS[edit](arrays[name])}))
        found = outcome(partial(is_taken, name or ""), said)
        assert name is not None or found == "taken", said.read_text()
        counts[found] += 1
        if found in FAULTS:
            faults.append((name, edit, found, said.read_text()[-600:]))
    print(dict(counts))
    assert not faults and counts["refused"]


def fitted(model, data, n_iter, **options):
    "A chain of a few sweeps, each kept; moves only where they do not take long."
    settings = {"random_state": 0}
    if "n_iter" in model.get_params():
        settings |= {"n_iter": n_iter, "burn_in": 1, "thin": 1, "n_chains": 1}
        settings |= {"moves": 0} if "moves" in model.get_params() else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(model).set_params(**settings).fit(data, **options)


@pytest.mark.parametrize("kind", slow_unless(lambda kind: kind == "crf", SAMPLED))
def test_every_edit_of_a_checkpoint(kind, tmp_path, step):
    model, data = SAMPLED[kind]
    fitted(model, data, 3, checkpoint=tmp_path / "good.npz")

    def go_on(bad):
        again = fitted(model, data, 6, checkpoint=bad.with_name("bad.npz"))
        assert all(np.isfinite(values[-2:]).all() for values in again.trace_.values())

    try_all(tmp_path / "good-0.npz", go_on, step)


@pytest.mark.parametrize("kind", slow_unless(lambda kind: kind == "crf", FITTED))
def test_every_edit_of_a_model(kind, tmp_path, step):
    model, data = FITTED[kind]
    fitted(model, data, 4).save(tmp_path / "good.npz")

    def ask(bad):
        again = hdp_nb.load_model(bad)
        if hasattr(again, "transform"):
            assert np.allclose(np.sum(again.transform(data), axis=1), 1)
        assert np.isfinite(again.score(data))
        if hasattr(again, "consensus"):
            again.consensus()

    try_all(tmp_path / "good.npz", ask, step)


def test_labels_do_not_depend_on_how_many_words_are_shown():
    texts = ["ship sea storm", "bread wine cheese"] * 10
    model = HDP(n_iter=20, n_chains=1, moves=0, random_state=0).fit(texts)
    once = (word for word in model.vocabulary_)
    for table in (model.topics(2, once), model.topics(by="lift"), model.topics(1)):
        assert list(table["label"])[:-1] == model.topic_labels_
    with pytest.raises(ValueError, match="labels must differ"):
        model.label_topics({0: model.topic_labels_[1]})
    model.label_topics({0: "mine"})
    for n in (1, 2, 10):
        rows = list_topics_of(model, n)
        assert [own_label(row) for row in rows] == ["mine"] + [""] * (len(rows) - 1)


def test_edits_before_a_fit():
    for edit in (
        lambda model: model.merge_topics([0, 1]),
        lambda model: model.drop_topics([0]),
        lambda model: model.label_topics({0: "mine"}),
    ):
        with pytest.raises(NotFittedError):
            edit(HDP())
