"""Faults that were found from outside, each for its whole kind: all of these failed once.

Arrays by their masks and types, files that claim what they do not hold, a time that does not bind,
a stream that is stopped at once, names that a terminal would obey, folders that look like a run.
"""

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from tiers import slow_unless

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
    load_model,
    make_bars,
)
from hdp_nb.cli import main as cli
from hdp_nb.utils.checks import as_list, check_counts, check_reals, label_array, plain_table
from hdp_nb.utils.files import load_npz

BARS, _ = make_bars(60, 30, grid=3, random_state=0)
CORPUS = Corpus(BARS.x, BARS.offsets, [f"w{v}" for v in range(9)], {"side": np.arange(60) // 30})
POINTS = np.random.default_rng(0).normal(size=(60, 2)) + np.arange(60)[:, None] % 3 * 4.0
ONE = {"n_iter": 20, "n_chains": 1, "random_state": 0}
TOPIC_MODELS = {
    "HDP": lambda: HDP(n_iter=40, n_chains=2, random_state=0),
    "LDA": lambda: LDA(4, **ONE),
    "TreeHDP": lambda: TreeHDP(["side"], **ONE),
    "NestedDP": lambda: NestedDP(**ONE),
    "HNHDP": lambda: HNHDP(n_clusters=3, n_topics=6, **ONE),
    "VariationalHDP": lambda: VariationalHDP(n_topics=9, random_state=0),
    "OnlineHDP": lambda: OnlineHDP(n_topics=6, n_passes=2, random_state=0),
}


@cache
def fitted(kind):
    return TOPIC_MODELS[kind]().fit(CORPUS)


# Arrays

PARTS = np.full(300, 1), (np.zeros(300, int), np.zeros(300, int))


@pytest.mark.parametrize("dtype", ["?", *np.typecodes["AllInteger"], "f", "d"])
@pytest.mark.parametrize("form", ["coo", "csr", "csc", "bsr"])
def test_parts_of_an_entry_add_up_whatever_their_type(dtype, form):
    "Three hundred in one cell were 44 in 8 bits, and 1 of booleans."
    values, (rows, columns) = PARTS
    values = values.astype(dtype)
    if form == "coo":
        X = sp.coo_array((values, (rows, columns)), shape=(2, 2))
    elif form == "bsr":
        X = sp.bsr_array((values.reshape(-1, 1, 1), columns, [0, 300, 300]), shape=(2, 2))
    else:
        X = getattr(sp, f"{form}_array")((values, rows, [0, 300, 300]), shape=(2, 2))
    assert Corpus.from_matrix(X).to_matrix().toarray().tolist() == [[300, 0], [0, 0]]
    assert LDA(1, n_iter=1, n_chains=1).fit(X).word_shares_.tolist() == [1, 0]
    assert check_counts(X).tolist() == check_reals(X).tolist() == [[300, 0], [0, 0]]
    rows = DPMixture("multinomial", **ONE)._rows(X, reset=True)
    assert rows.toarray().tolist() == [[300, 0], [0, 0]]
    assert X.dtype == dtype and X.nnz == 300  # what was sent is as it was


@pytest.mark.parametrize("dtype", ["i1", "u2", "i8", "f4", "f8"])
def test_a_masked_count_is_missing(dtype):
    "Models of counts have no use for it, and took what was below the mask."
    X = np.ma.masked_array(np.ones((6, 3), dtype), mask=np.arange(18).reshape(6, 3) == 4)
    for take in (
        Corpus.from_matrix,
        HDP(**ONE).fit,
        VariationalHDP().fit,
        OnlineHDP().partial_fit,
        DPMixture("multinomial", **ONE).fit,
        DPMixture("poisson", **ONE).fit,
        NestedDP(**ONE).fit,
        LDA(2, **ONE).fit(X.data).transform,
    ):
        with pytest.raises(ValueError, match="NaN|nan"):
            take(X)
    for whole in (np.ma.masked_array(X.data), np.ma.masked_array(X.data, mask=np.zeros(X.shape))):
        assert Corpus.from_matrix(whole).n_tokens == 18


MASKED = {
    "states": lambda: HDPHMM(emission="normal", **ONE),
    "rows": lambda: DPMixture("student", **ONE),
    "groups": lambda: HDPMixture("student", **ONE),
    "columns": lambda: DPMixture({0: "normal", 1: "normal"}, **ONE),
}


@pytest.mark.parametrize("kind", slow_unless(lambda kind: kind in ("states", "rows"), MASKED))
def test_a_masked_number_is_missing(kind):
    "As NaN is: a step that is not there, a cell that Student components draw, or an error."
    masked = np.ma.masked_array(POINTS.copy(), mask=np.arange(120).reshape(60, 2) % 7 == 0)
    masked.data[masked.mask] = 1e9
    holes = np.where(masked.mask, np.nan, POINTS)
    assert np.array_equal(plain_table(masked), holes, equal_nan=True)
    with pytest.raises(ValueError, match="NaN"):
        DPMixture("normal", **ONE).fit(masked)
    more = {"groups": np.arange(60) // 20} if kind == "groups" else {}
    one, other = (MASKED[kind]().fit(X, **more) for X in (masked, holes))
    assert np.array_equal(one.trace_["log_joint"], other.trace_["log_joint"])
    if kind == "states":
        one, other = (MASKED[kind]().fit([X[:30], X[30:]]) for X in (masked, holes))
        assert np.array_equal(one.trace_["log_joint"], other.trace_["log_joint"])


@pytest.mark.parametrize("kind", slow_unless("normal".__eq__, ["normal", "student"]))
def test_columns_whose_squares_cannot_be_calculated(kind):
    "Infinities and NaN of a covariance came through, or were in the components."
    for make in (DPMixture, HDPMixture, lambda kind, **more: HDPHMM(emission=kind, **more)):
        groups = {"groups": np.arange(60) // 20} if make is HDPMixture else {}
        for unit in (1e-154, 1e-300, [1.0, 1e-300], [1e300, 1e-300], 1e154):
            with pytest.raises(ValueError, match="X must vary by 1e-149|at most 1e150 in size"):
                make(kind, **ONE).fit(POINTS * np.array(unit), **groups)
        model = make(kind, **ONE)
        assert np.isfinite(model.fit(POINTS * 1e-140, **groups).trace_["log_joint"]).all()


def test_a_masked_label_is_missing():
    labels = np.ma.masked_array([0, 1, 2], mask=[0, 1, 0])
    assert as_list(labels) == [0, None, 2]
    with pytest.raises(ValueError, match="got None at 1"):
        label_array(labels, 3, "rows")
    with pytest.raises(ValueError, match="groups"):
        Corpus.from_docs([[0], [1], [0]], groups={"side": labels})
    words = np.ma.masked_array(["a b", "c d", "a"], mask=[0, 1, 0])
    assert plain_table(words).tolist() == ["a b", None, "a"]


# What a terminal would obey


def test_control_characters_are_shown_and_not_obeyed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    odd = "\x1b]0;mine\x07", "\u202ereversed", "bell\a", "\x9b2J"
    docs = [[word] * 9 for word in odd] * 3
    Corpus.from_docs(docs, groups={"si\x1b[31mde": ["x\x1b", "y\x9b"] * 6}).save("c\x1b.npz")
    fit = ["fit", "c\x1b.npz", "--out", "run", "--n-iter", "20", "--levels", "si\x1b[31mde"]
    for arguments in (
        [*fit, "--quiet", "--test-size", "0"],
        ["topics", "run"],
        ["score", "run", "c\x1b.npz"],
        ["report", "run"],
        ["fit", "c\x1b.npz", "--out", "other", "--group", "ag\x1be"],
        ["fit", "no\x1b.npz", "--out", "other"],
        ["fit", "c\x1b.npz", "--out", "other", "--sampler", "\x1b"],
    ):
        cli.main(arguments)
        said = "".join(capsys.readouterr())
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", said), (arguments, said)
        assert said or "--quiet" in arguments
    cli.main(["topics", "run"])
    assert r"\x1b]0;mine\x07" in capsys.readouterr().out


def test_a_folder_with_a_chain_of_letters_is_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    CORPUS.save("c.npz")
    for name in ("chain-letter.txt", "chain-0.npz", "chain-abcdef012345.txt"):
        part = Path(f"{name}.part")
        part.mkdir()
        (part / name).write_text("mine")
        assert cli.main(["fit", "c.npz", "--out", name, "--n-iter", "5"]) == 2
        assert "in the way" in capsys.readouterr().err
        assert [path.name for path in part.iterdir()] == [name]


# Files that claim what they do not hold


def edited(path, change, to):
    "A copy of a file of arrays in which `change(meta, arrays)` has changed something."
    arrays = load_npz(path)
    meta = json.loads(arrays["meta"].item())
    change(meta, arrays)
    np.savez(to, **arrays | {"meta": np.array(json.dumps(meta))})


@pytest.mark.parametrize("n", [10**9, 10**300, 0, -1, 5.5, "6", None])
def test_a_number_of_samples_that_are_not_there(n, tmp_path):
    "Room was made for them, one after the other, before anybody asked where they were."
    fitted("LDA").save(tmp_path / "a.npz")
    claim = lambda meta, arrays: meta["samples"].update(samples_=n)
    edited(tmp_path / "a.npz", claim, tmp_path / "b.npz")
    with pytest.raises(ValueError, match="samples_ must hold"):
        load_model(tmp_path / "b.npz")


@pytest.mark.parametrize("kind", TOPIC_MODELS)
def test_what_a_model_shows_is_what_its_samples_say(kind, tmp_path):
    "Topics, or words, were rolled by one, and the model was taken."
    model, tried = fitted(kind), 0
    model.save(tmp_path / "a.npz")
    load_model(tmp_path / "a.npz")
    for name in ("components_", "topic_shares_", "doc_topic_", "word_shares_"):
        array = getattr(model, name, None)
        if array is None or name == "doc_topic_" and not hasattr(model, "samples_"):
            continue  # of the documents a variational model keeps their proportions only
        for axis in range(array.ndim):
            other, tried = np.roll(array, 1, axis=axis), tried + 1
            change = lambda meta, arrays, name=name, other=other: arrays.update({name: other})
            edited(tmp_path / "a.npz", change, tmp_path / "b.npz")
            assert not np.allclose(array, other)
            with pytest.raises(ValueError, match=name):
                load_model(tmp_path / "b.npz")
    assert tried >= 4


@pytest.mark.parametrize("kind", TOPIC_MODELS)
def test_edited_models_are_as_their_samples_say_too(kind, tmp_path):
    model = fitted(kind)
    for other in (
        model.merge_topics([0, 1]),
        model.drop_topics([1]),
        model.merge_topics([0, 2]).drop_topics([1]),
    ):
        other.save(tmp_path / "a.npz")
        loaded = load_model(tmp_path / "a.npz")
        assert np.array_equal(loaded.components_, other.components_)


RESUMED = {
    **{name: (lambda n, name=name: HDP(sampler=name, **ONE | {"n_iter": n}), CORPUS) for name in (
        "crf", "direct", "hybrid", "parallel", "blocked"
    )},
    "LDA": (lambda n: LDA(4, **ONE | {"n_iter": n}), CORPUS),
    "tree": (lambda n: TreeHDP(["side"], **ONE | {"n_iter": n}), CORPUS),
    "nested": (lambda n: HNHDP(n_clusters=3, n_topics=6, **ONE | {"n_iter": n}), CORPUS),
    "normal": (lambda n: DPMixture("normal", **ONE | {"n_iter": n}), POINTS),
    "states": (lambda n: HDPHMM(emission="normal", **ONE | {"n_iter": n}), POINTS),
}  # fmt: skip


@pytest.fixture(params=RESUMED, scope="module")
def resumed(request, tmp_path_factory):
    "A fit, and a call that goes on to its 40 sweeps from its checkpoint after 20, edited."
    (make, X), folder = RESUMED[request.param], tmp_path_factory.mktemp("resumed")
    file, own = folder / "c.npz", folder / "c-0.npz"
    make(20).fit(X, checkpoint=file)
    whole = own.read_bytes()
    plain = make(40).fit(X, checkpoint=file)

    def go_on(change):
        own.write_bytes(whole)
        edited(own, change, own)
        return make(40).fit(X, checkpoint=file)

    return plain, go_on


def test_checkpoints_in_the_other_order(resumed):
    "Kernels are compiled for rows one after the other: numba's own error came through."
    plain, go_on = resumed

    def columns_first(meta, arrays):
        arrays.update({name: np.asarray(a, order="F") for name, a in arrays.items()})

    again = go_on(columns_first)
    assert np.array_equal(plain.trace_["log_joint"], again.trace_["log_joint"])


def test_traces_that_no_sweep_gives(resumed):
    plain, go_on = resumed
    names = [name for name in plain.trace_ if name[:2] == "n_" or name.endswith("accepted")]
    assert names
    for name, value in [("log_joint", np.nan), *((name, 1e9) for name in names), (names[0], 0.5)]:

        def claim(meta, arrays, name=name, value=value):
            arrays[f"trace/{name}"][3] = value

        with pytest.raises(ValueError, match=f"can't resume .*trace {name} holds"):
            go_on(claim)


@pytest.mark.parametrize("value", [10**12, 2**62, -(2**63)])
def test_numbers_that_are_too_large_are_the_checkpoints(value, resumed):
    "And not X's, which the message spoke of, nor an OverflowError."
    _, go_on = resumed

    def claim(meta, arrays):
        for name, a in arrays.items():
            if name.startswith("state") and name.endswith("/K"):
                a[...] = min(value, np.iinfo(a.dtype).max)
        meta["n_done"] = value

    def count(meta, arrays):
        claim(meta, arrays)
        meta["n_done"] = 20
        if not any(name.endswith("/K") for name in arrays):
            meta["n_samples"] = value

    for change in (claim, count):
        with pytest.raises(ValueError, match="can't resume"):
            go_on(change)


# A time that does not bind, and a stream that is stopped

TIMED = {
    "HDP": (lambda: HDP(n_iter=110, n_chains=2, random_state=0), CORPUS),
    "HDP, one chain": (lambda: HDP(n_iter=110, n_chains=1, random_state=0), CORPUS),
    "LDA": (lambda: LDA(4, n_iter=110, random_state=0), CORPUS),
    "TreeHDP": (lambda: TreeHDP(["side"], n_iter=110, random_state=0), CORPUS),
    "HNHDP": (lambda: HNHDP(n_clusters=3, n_topics=6, n_iter=60, random_state=0), CORPUS),
    "DPMixture": (lambda: DPMixture("normal", n_iter=110, random_state=0), POINTS),
    "HDPHMM": (lambda: HDPHMM(emission="normal", n_iter=110, random_state=0), POINTS),
}


@pytest.mark.parametrize("kind", slow_unless(lambda kind: "T" not in kind and kind != "HDP", TIMED))
def test_a_time_that_does_not_bind_changes_no_bit(kind):
    make, X = TIMED[kind]
    plain, timed = make().fit(X), make().fit(X, max_time=1e5)
    for name, trace in plain.traces_.items():
        assert np.array_equal(trace, timed.traces_[name]), name
    assert len(plain.samples_) == len(timed.samples_) and plain.burn_in_ == timed.burn_in_


def stopped_after(n):
    def callback(step, state):
        if step == n:
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize("step", [0, 1, 3, 10])
@pytest.mark.parametrize("e_step", ["variational", "gibbs"])
@pytest.mark.parametrize("n_passes", ["auto", 3])
def test_a_stream_that_is_stopped_is_what_it_has_learned(step, e_step, n_passes):
    "Before the first look at the documents that judge all was lost."
    corpus, _ = make_bars(900, 20, grid=3, random_state=0)
    model = OnlineHDP(n_topics=5, e_step=e_step, n_passes=n_passes, batch_size=100, random_state=0)
    model.fit(corpus, callback=stopped_after(step))
    assert len(model.trace_["bound"]) >= step
    assert np.isfinite(model.score(corpus[:50]))
    assert model.verdict_.grade
