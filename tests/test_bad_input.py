"""Bad input: a ValueError that names the argument, what it got and what it takes.

On the command line it is one line and exit code 2.

Every case goes through the estimators and, as a file, through `hdp_nb`; nothing may be written,
changed or removed by either.
"""

import itertools
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from hdp_nb.cli import main as cli
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.evaluation.predictive import check_words
from hdp_nb.mcmc.priors import Gamma, LogNormal, fixed_prior
from hdp_nb.models.mixture_models import DPMixture
from hdp_nb.models.nested_models import NestedDP
from hdp_nb.models.sequence_models import HDPHMM
from hdp_nb.models.topic_models import HDP
from hdp_nb.models.tree_models import TreeHDP
from hdp_nb.models.variational_models import OnlineHDP, VariationalHDP
from hdp_nb.moves.schedule import Moves
from hdp_nb.plotting.plots import plot_shares, plot_topics_over_time, shares_by_group
from hdp_nb.sequences.emissions import hmm_emission
from hdp_nb.sequences.samplers import HMMSampler, check_sequences

X = np.array([[2, 0, 1], [0, 3, 1], [1, 1, 0], [4, 0, 1], [0, 2, 2]])


def with_count(value):
    bad = X.astype(float)
    bad[1, 2] = value
    return bad


def hdp(**params):
    quick = {"n_iter": 4, "burn_in": 2, "n_chains": 1, "moves": 0, "random_state": 0}
    quick["eta"] = 0.5
    return HDP(**{**quick, **params})


def mixture(**params):
    return DPMixture("multinomial", **{"n_iter": 4, "burn_in": 2, "random_state": 0, **params})


def contents():
    return {
        str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()
    } | {str(path): None for path in Path().rglob("*") if path.is_dir()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def refused(folder, capsys):
    """Call the command line and check how it refuses; returns the line."""

    def refused(*arguments):
        before = contents()
        capsys.readouterr()
        code = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert (
            (code, out) == (2, "")
            and err.startswith("hdp_nb")
            and err.endswith("\n")
            and err.count("\n") == 1
        ), (code, out, err)
        assert "Traceback" not in err and contents() == before
        return err

    return refused


def save(name, X):
    sp.save_npz(name, sp.csr_array(X))
    return name


def test_strings_that_arrays_would_cut_short():
    "NumPy drops zero characters at the end of strings: two words, or labels, would become one."
    pandas = pytest.importorskip("pandas")
    says = "must hold whole characters, got 'a.x00' .arrays lose a zero character at the end"
    with pytest.raises(ValueError, match="vocab " + says):
        Corpus.from_docs([["a\0", "a"]])
    with pytest.raises(ValueError, match=r"groups\['g'\] " + says):
        Corpus.from_docs([["a"], ["a"]], groups={"g": ["a\0", "a"]})
    with pytest.raises(ValueError, match="vocab " + says):
        hdp().fit(pandas.DataFrame(X, columns=["a\0", "b", "c"]))
    assert Corpus.from_docs([["a\0b", "\0a"]]).vocab == ["\0a", "a\0b"]


# Counts

BAD_COUNTS = {
    "negative": (with_count(-1), "[Nn]egative|at least 0|>= 0"),
    "fraction": (with_count(0.5), "whole"),
    "nan": (with_count(np.nan), "NaN|finite"),
    "infinite": (with_count(np.inf), "infinity|inf"),
    "no documents": (X[:0], "0 sample"),
    "no words": (X[:, :0], "0 feature"),
}


@pytest.mark.parametrize("make", [hdp, mixture])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("case", BAD_COUNTS)
def test_counts(case, form, make):
    bad, message = BAD_COUNTS[case]
    with pytest.raises(ValueError, match=message):
        make().fit(form(bad))
    fitted = make().fit(form(X))
    before = {
        name: np.array(value)
        for name, value in vars(fitted).items()
        if isinstance(value, np.ndarray)
    }
    for method in (
        (fitted.transform, fitted.score) if make is hdp else (fitted.predict, fitted.score)
    ):
        with pytest.raises(ValueError, match=message if case != "no words" else "0 feature"):
            method(form(bad))
    with pytest.raises(ValueError, match=message):  # what was learned before stays
        fitted.fit(form(bad))
    assert all(
        np.array_equal(getattr(fitted, name), value, equal_nan=value.dtype.kind == "f")
        for name, value in before.items()
        if name != "data_"
    )


@pytest.mark.parametrize("case", BAD_COUNTS)
def test_counts_in_a_file(case, refused):
    bad, message = BAD_COUNTS[case]
    err = refused("fit", save("bad.npz", bad), "--out", "run")
    assert "bad.npz" in err


@pytest.mark.parametrize(
    "name, text, says",
    [
        ("a.ldac", "2 0:1 1:-3\n", "line 1"),
        ("a.ldac", "1 0:1\n1 0:1.5\n", "line 2"),
        ("a.ldac", "1 0:nan\n", "line 1"),
        ("a.ldac", "3 0:1 1:2\n", "promises 3"),
        ("a.ldac", "1 -1:1\n", "line 1"),
        ("a.ldac", "", "a.ldac"),
        ("a.ldac", "0\n0\n", "token"),
        ("docword.a.txt", "2\n3\n2\n1 1 2\n2 3 -1\n", "at least 0"),
        ("docword.a.txt", "2\n3\n1\n1 1 0.5\n", "docword.a.txt"),
        ("docword.a.txt", "2\n3\n4\n1 1 2\n", "promises 4"),
        ("docword.a.txt", "2\n3\n1\n1 4 1\n", "words 1 to 3"),
        ("docword.a.txt", "2\n3\n", "three lines"),
        ("docword.a.txt", "0\n3\n0\n", "D"),
        ("a.txt", "", "at least one document"),
        ("a.txt", "1 2 3\n", "no word"),
    ],
)
def test_text_files(name, text, says, refused):
    Path(name).write_text(text)
    err = refused("fit", name, "--out", "run")
    assert says in err and (name in err or says == "token")


@pytest.mark.parametrize(
    "name, data",
    [
        ("a.npz", b""),
        ("a.npz", b"PK\x03\x04 and so on"),
        ("a.txt", b"\xff\xfe\x00"),
        ("a.txt.gz", b"\x1f\x8b\x08\x00broken"),
        ("a.ldac", b"\x80\n"),
    ],
)
def test_files_of_no_kind(name, data, refused):
    Path(name).write_bytes(data)
    assert name in refused("fit", name, "--out", "run")


@pytest.mark.parametrize("length", [10, 300, -30, -1])
def test_a_file_that_is_cut_off(length, refused):
    Corpus.from_matrix(X).save("whole.npz")
    Path("cut.npz").write_bytes(Path("whole.npz").read_bytes()[:length])
    assert "cut.npz" in refused("fit", "cut.npz", "--out", "run")


def test_a_foreign_npz(refused):
    np.savez("other.npz", weights=np.ones(3))
    assert "weights" in refused("fit", "other.npz", "--out", "run")
    np.savez("pickled.npz", meta=np.array([{}], dtype=object))
    assert "pickled.npz" in refused("fit", "pickled.npz", "--out", "run")


def test_an_unknown_name(refused):
    err = refused("fit", "satu", "--out", "run")
    assert "CORPUS must be one of sotu, kjv" in err and "'satu'" in err
    assert "folder" in refused("fit", "folder/file.npz", "--out", "run")
    os.mkdir("here")
    assert (
        "here: " in (err := refused("fit", "here", "--out", "run"))
        and "a folder must hold .txt files" in err
    )


def test_no_tokens(refused):
    with pytest.raises(ValueError, match="at least 1 token"):
        hdp().fit(0 * X)
    Corpus.from_matrix(0 * X).save("zero.npz")
    assert "at least 1 token" in refused("fit", "zero.npz", "--out", "run")


# Vocabulary and groups


def test_a_vocabulary_that_does_not_match(refused):
    with pytest.raises(ValueError, match="vocab must name every column of X: 3 columns, got 2"):
        Corpus.from_matrix(X, ["a", "b"])
    for make in (hdp, mixture):
        fitted = make().fit(X)
        for wrong in (X[:, :2], np.hstack([X, X])):
            with pytest.raises(ValueError, match=f"{wrong.shape[1]} features.*3 features"):
                (fitted.transform if make is hdp else fitted.predict)(wrong)
    Corpus.from_matrix(X).write_ldac("a.ldac")
    Path("two").write_text("a\nb\n")
    Path("twice").write_text("a\nb\na\n")
    assert "2 words" in refused("fit", "a.ldac", "--vocab", "two", "--out", "run")
    assert "'a' more than once" in refused("fit", "a.ldac", "--vocab", "twice", "--out", "run")
    assert "nowhere: No such file" in refused("fit", "a.ldac", "--vocab", "nowhere", "--out", "run")
    assert cli.main(["fit", "a.ldac", "--out", "ids", "--n-iter", "3", "--quiet"]) == 0
    Path("three").write_text("a\nb\nc\n")
    assert (
        cli.main(
            ["fit", "a.ldac", "--vocab", "three", "--out", "words", "--n-iter", "3", "--quiet"]
        )
        == 0
    )
    Corpus.from_docs([["x", "y", "y"]]).save("other.npz")
    Corpus([0, 4], [0, 2]).save("more.npz")
    assert "got none of its 3" in refused("score", "words", "other.npz")
    assert "ids below 3" in refused("score", "words", "more.npz")
    assert "ids below 3" in refused("score", "ids", "more.npz")


def test_group_labels(refused):
    with pytest.raises(
        ValueError, match=r"groups\['age'\] must hold one label per document: 5 documents, got 4"
    ):
        Corpus.from_matrix(X, groups={"age": list("aabb")})
    Corpus.from_matrix(X, groups={"age": list("aabbb")}).save("whole.npz")
    with np.load("whole.npz") as arrays:
        np.savez("few.npz", **{**arrays, "group_0": arrays["group_0"][:-1]})
    assert "5 documents, got 4 labels" in refused("fit", "few.npz", "--out", "run")
    assert "(age), got 'year'" in refused("fit", "whole.npz", "--out", "run", "--group", "year")
    Corpus.from_matrix(X).save("none.npz")
    assert "it has none" in refused("fit", "none.npz", "--out", "run", "--group", "age")


# Parameters

PARAMETERS = [
    ("eta", 0),
    ("eta", -1.0),
    ("eta", np.nan),
    ("eta", np.inf),
    ("alpha", 0),
    ("alpha", -1.0),
    ("gamma", 0),
    ("gamma", np.inf),
    ("n_iter", 0),
    ("n_iter", -3),
    ("n_iter", 2**31),
    ("burn_in", -1),
    ("burn_in", 5),
    ("thin", 0),
    ("n_chains", 0),
    ("n_chains", 10**30),
    ("sampler", "magic"),
    ("init", 0),
    ("init", "luck"),
    ("moves", -1),
    ("moves", 10**30),
    ("moves", "often"),
    ("random_state", -1),
]


CONCENTRATIONS = [(1, 1), (1, 0), [1, 1], "flat", None, fixed_prior(), True]
MOVES = [{"n": -1}, {"split_merge": "often"}, {"scans": -1}, {"until": 0.5}]


@pytest.mark.parametrize(
    "name, value",
    [
        *PARAMETERS,
        ("sampler", ["crf"]),
        ("init", [0, 1, 2]),
        *itertools.product(("alpha", "gamma"), CONCENTRATIONS),
        *[("moves", Moves(**parts)) for parts in MOVES],
    ],
)
def test_parameters(name, value):
    for make in (hdp, mixture):
        if name in make().get_params():
            with pytest.raises(ValueError, match=name):
                make(**{name: value}).fit(X)


@pytest.mark.parametrize("seconds", [0, -1, "long"])
def test_the_longest_time(seconds):
    for make in (hdp, mixture):
        with pytest.raises(ValueError, match="max_time"):
            make().fit(X, max_time=seconds)


@pytest.mark.parametrize("wrong", [(1, 0), (-1, 1), (np.nan, 1), ("flat", 1)])
def test_priors(wrong):
    for make, name in ((Gamma, "Gamma"), (LogNormal, "LogNormal")):
        if make is Gamma or not 0 < wrong[1]:
            with pytest.raises(ValueError, match=f"{name} must have a finite .*got"):
                make(*wrong)


@pytest.mark.parametrize(
    "name, value",
    [
        *PARAMETERS,
        ("alpha_prior", (1, 0)),
        ("alpha_prior", (-1, 1)),
        ("alpha_prior", (1,)),
        ("gamma_prior", (np.nan, 1)),
        ("gamma_prior", "flat"),
        ("split_merge", -1),
        ("split_merge", 10**30),
        ("max_time", 0),
        ("max_time", -1),
        ("burn_in", 4),
        ("eta", "much"),
        ("n_iter", 2.5),
        ("top_words", 0),
        ("test_size", 1.0),
        ("test_size", -0.1),
        ("min_count", 0),
        ("format", "pdf"),
        ("colour", "red"),
    ],
)
def test_parameters_on_the_command_line(name, value, refused):
    save("x.npz", X)
    option = "--" + ("seed" if name == "random_state" else name).replace("_", "-")
    text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    err = refused("fit", "x.npz", "--out", "run/deep", "--n-iter", 4, f"{option}={text}")
    assert name in err or option in err


def test_commands(refused):
    for arguments in (
        [],
        ["walk"],
        ["fit"],
        ["fit", "sotu"],
        ["fit", "--out", "run"],
        ["topics"],
        ["score", "run"],
        ["report"],
    ):
        refused(*arguments)
    assert refused("--colour") and refused("fit", "sotu", "kjv", "--out", "run")


# Where to write


def test_a_place_that_cannot_be_written(refused):
    save("x.npz", X)
    assert "Not a directory" in refused("fit", "x.npz", "--out", "x.npz/run")
    assert "exists" in refused("fit", "x.npz", "--out", "x.npz")
    assert "no summary.json" in refused("fit", "x.npz", "--out", "x.npz", "--overwrite")
    for out in (".", "..", "/"):
        refused("fit", "x.npz", "--out", out, "--overwrite")
    os.mkdir("run.part")
    Path("run.part/mine.txt").write_text("")
    assert "in the way" in refused("fit", "x.npz", "--out", "run")
    Path("file.part").write_text("")
    assert "in the way" in refused("fit", "x.npz", "--out", "file")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user who is not root")
def test_a_folder_without_permission(refused):
    save("x.npz", X)
    os.mkdir("locked", 0o500)
    assert "Permission denied" in refused("fit", "x.npz", "--out", "locked/run")


# Saved models and checkpoints


@pytest.mark.parametrize("make", [hdp, mixture])
def test_a_saved_model_that_is_no_more(make, folder):
    model = make().fit(X)
    model.save("model.npz")
    whole = Path("model.npz").read_bytes()
    for data in (b"", whole[:100], whole[:-20], b"text"):
        Path("cut.npz").write_bytes(data)
        with pytest.raises(
            ValueError, match=r"cut.npz: takes .*\(it is not an .npz archive, or its end is missing"
        ):
            type(model).load("cut.npz")
    np.savez("foreign.npz", weights=np.ones(3))
    with pytest.raises(ValueError, match="foreign.npz"):
        type(model).load("foreign.npz")
    with pytest.raises(ValueError, match="takes a saved"):
        (HDP if make is mixture else DPMixture).load("model.npz")


@pytest.mark.parametrize("make", [hdp, mixture])
def test_a_checkpoint_that_is_no_more(make, folder):
    make(n_iter=2, burn_in=1).fit(X, checkpoint="c.npz")
    whole = Path("c-0.npz").read_bytes()
    np.savez("foreign.npz", weights=np.ones(3))
    for data in (b"", whole[:100], whole[:-20], Path("foreign.npz").read_bytes()):
        Path("c-0.npz").write_bytes(data)
        with pytest.raises(ValueError, match="checkpoint.*c-0.npz"):
            make(n_iter=4, burn_in=1).fit(X, checkpoint="c.npz")
        assert Path("c-0.npz").read_bytes() == data  # not overwritten
    Path("c-0.npz").write_bytes(whole)
    eta = dict(eta=0.7) if make is hdp else dict(prior=0.7)
    for other, name in ((eta, "eta"), (dict(burn_in=2), "burn_in")):
        with pytest.raises(ValueError, match=f"{name} = "):
            make(**{"n_iter": 4, "burn_in": 1, **other}).fit(X, checkpoint="c.npz")
    with pytest.raises(ValueError, match="made with"):
        make(n_iter=4, burn_in=1).fit(X[:4], checkpoint="c.npz")
    with pytest.raises(ValueError, match="checkpoint"):
        make().fit(X, checkpoint="nowhere/c.npz")
    assert Path("c-0.npz").read_bytes() == whole and not Path("nowhere").exists()


@pytest.mark.parametrize("make", [HDP, OnlineHDP, VariationalHDP])
@pytest.mark.parametrize(
    "params",
    [{"eta": 1e15}, {"eta": 1e-300}, {"alpha": 1e-300}, {"alpha": 1e300}, {"gamma": 1e300}],
)
def test_numbers_beyond_arithmetic(make, params):
    "They would not end, or lose counts, or divide by zero."
    [name] = params
    with pytest.raises(ValueError, match=f"{name} must be "):
        make(random_state=0, **params).fit(X)


def test_as_many_new_topics_as_nobody_can_offer():
    with pytest.raises(ValueError, match="gamma must be at most 1e.06 for sampler='parallel'"):
        hdp(sampler="parallel", init=2, gamma=1e8).fit(X)
    prior, steps = check_sequences(np.arange(4), [4], "categorical", None)
    sampler = HMMSampler(hmm_emission("categorical"), prior, steps, "beam", gamma=1e9)
    with pytest.raises(ValueError, match="gamma and alpha must not ask for more than 4096 states"):
        sampler._larger(SimpleNamespace(n_k=np.zeros(5000), gamma=np.array(1e9), alpha=np.array(1)))


def edited(path, to, change):
    "A copy of an .npz file with other arrays: `change(arrays)` changes them."
    with np.load(path) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(to, **arrays)
    return Path(to).read_bytes()


def set_to(name, value):
    def change(arrays):
        arrays[name] = np.array(value, arrays[name].dtype) if np.isscalar(value) else value(arrays)

    return change


def first_entry(name, value):
    def change(arrays):
        arrays[name].flat[0] = value

    return change


def in_meta(**values):
    def change(arrays):
        meta = json.loads(arrays["meta"].item())
        arrays["meta"] = np.array(json.dumps(meta | values))

    return change


# What compiled sweeps would follow out of bounds, or believe.
BAD_CHECKPOINTS = [
    ("n_vk", set_to("state/z", lambda arrays: arrays["state/z"][::-1])),
    ("z", set_to("state/z", lambda arrays: arrays["state/z"][:-1])),
    ("z", first_entry("state/z", -7)),
    ("z", first_entry("state/z", 10**6)),
    ("n_vk", set_to("state/n_vk", lambda arrays: arrays["state/n_vk"][:, :2])),
    ("n_vk", first_entry("state/n_vk", -5)),
    ("n_k", first_entry("state/n_k", 10**6)),
    ("K", set_to("state/K", 10**9)),
    ("n_tables", first_entry("state/n_tables", 10**6)),
    ("alpha", set_to("state/alpha", -1.0)),
    ("alpha", set_to("state/alpha", np.nan)),
    ("gamma", set_to("state/gamma", np.inf)),
    ("indices", first_entry("samples/0/indices", 10**9)),
    ("data", first_entry("samples/0/data", -1)),
    ("10+ samples of 3 sweeps", in_meta(n_samples=10**12)),
    ("n_done", in_meta(n_done=-3)),
    ("trace", set_to("trace/alpha", lambda arrays: arrays["trace/alpha"][:1])),
    ("", set_to("meta", lambda arrays: np.array("[" * 100_000))),
]
OF_TABLES = [
    ("t", first_entry("state/t", 10**6)),
    ("k_jt", first_entry("state/k_jt", 10**6)),
    ("n_jt", first_entry("state/n_jt", 0)),
]


@pytest.mark.parametrize("sampler", ["crf", "direct", "hybrid"])
def test_an_edited_checkpoint(sampler, folder):
    make = lambda n_iter: hdp(sampler=sampler, n_iter=n_iter, burn_in=1, thin=1)
    whole = make(3).fit(X, checkpoint="c.npz")
    good = Path("c-0.npz").read_bytes()
    Path("good.npz").write_bytes(good)
    for name, change in BAD_CHECKPOINTS + OF_TABLES * (sampler != "direct"):
        bad = edited("good.npz", "c-0.npz", change)
        with pytest.raises(ValueError, match="can't resume from .*c-0.npz: .*" + name) as refusal:
            make(4).fit(X, checkpoint="c.npz")
        assert "\n" not in str(refusal.value) and Path("c-0.npz").read_bytes() == bad
    edited("good.npz", "c-0.npz", lambda arrays: None)  # the control: nothing edited
    assert make(3).fit(X, checkpoint="c.npz").samples_[-1].beta.tolist() == (
        whole.samples_[-1].beta.tolist()
    )


# Sweeps rely on the shapes of these, too: short of one, they would write behind the end.
SHORT = [
    (HDP(sampler="crf", init=4, moves=0), "state/m_k"),
    (HDPHMM(max_states=4, moves=0), "state/stats/n_vk"),
    (TreeHDP([], init=4, moves=0), "samples/0/beta"),
]


@pytest.mark.parametrize("model, name", SHORT, ids=["crf", "states", "tree"])
def test_a_checkpoint_short_of_an_entry(model, name, folder):
    data = [0, 1, 2, 1, 0, 2, 2, 1] if isinstance(model, HDPHMM) else X
    make = lambda n: clone(model).set_params(
        n_iter=n, n_chains=1, burn_in=1, thin=1, random_state=0
    )
    make(3).fit(data, checkpoint="c.npz")
    Path("good.npz").write_bytes(Path("c-0.npz").read_bytes())
    edited("good.npz", "c-0.npz", set_to(name, lambda arrays: arrays[name][:-1]))
    with pytest.raises(ValueError, match="c-0.npz: .*" + name.rpartition("/")[2]):
        make(4).fit(data, checkpoint="c.npz")
    edited("good.npz", "c-0.npz", lambda arrays: None)  # the control: nothing edited
    make(4).fit(data, checkpoint="c.npz")


CACHED = [
    (lambda n: DPMixture("normal", n_iter=n), "inv_scale", np.random.default_rng(0).normal(size=9)),
    (
        lambda n: HDPHMM(emission="normal", n_iter=n, max_states=4, moves=0),
        "log_norm",
        np.random.default_rng(0).normal(size=12),
    ),
]


@pytest.mark.parametrize("make, name, numbers", CACHED, ids=["mixture", "states"])
def test_constants_in_a_checkpoint_are_not_believed(make, name, numbers, folder):
    "A checkpoint may say that they belong to their component: the same draws follow either way."
    rows = numbers[:, None]
    begin = lambda n: make(n).set_params(n_chains=1, burn_in=1, thin=1, random_state=0)
    whole = begin(6).fit(rows).trace_
    begin(3).fit(rows, checkpoint="c.npz")
    Path("good.npz").write_bytes(Path("c-0.npz").read_bytes())

    def change(arrays):
        (stats,) = (key.removesuffix("stale") for key in arrays if key.endswith("stats/stale"))
        arrays[stats + name][:] = 7.0
        arrays[stats + "stale"][:] = False

    for edit in (lambda arrays: None, change):
        edited("good.npz", "c-0.npz", edit)
        again = begin(6).fit(rows, checkpoint="c.npz").trace_
        assert all(np.array_equal(whole[key], again[key]) for key in whole)


BAD_MODELS = [
    ("indices", first_entry("samples_/0/indices", 10**9)),
    ("indices", first_entry("samples_/1/indices", 10**6)),
    ("indptr", set_to("samples_/0/indptr", lambda a: np.array([0, 10**8, 2, 3]))),
    ("data", first_entry("samples_/0/data", -3)),
    ("counts of (words|documents)", first_entry("samples_/1/data", 9)),
    ("indices|sum of beta", set_to("samples_/0/beta", lambda a: a["samples_/0/beta"][1:])),
    ("alpha", set_to("samples_/0/alpha", np.nan)),
    ("eta", set_to("samples_/1/eta", -1.0)),
    ("components_", set_to("components_", lambda a: a["components_"][:, :-1])),
    ("components_", first_entry("components_", -0.5)),
    ("matches_", first_entry("matches_", 10**6)),
    ("doc_topic_", first_entry("doc_topic_", np.nan)),
    ("doc_topic_", set_to("doc_topic_", lambda a: a["doc_topic_"][1:])),
    ("traces_.'gamma'", set_to("traces_/gamma", lambda a: a["traces_/gamma"][:, 1:])),
    ("convergence_", set_to("convergence_/share_1", lambda a: np.ones(9))),
    ("sample_chain_", first_entry("sample_chain_", -1)),
    ("word_shares_", first_entry("word_shares_", 0.9)),
    ("", set_to("meta", lambda arrays: np.array("[" * 100_000))),
]


def test_an_edited_model(refused):
    model = hdp(init=2).fit(Corpus.from_matrix(X, ["a", "b", "c"]))
    model.save("model.npz")
    for name, change in BAD_MODELS:
        edited("model.npz", "bad.npz", change)
        with pytest.raises(ValueError, match="^bad.npz: .*" + name) as refusal:
            HDP.load("bad.npz")
        assert "\n" not in str(refusal.value)
    edited("model.npz", "again.npz", lambda arrays: None)
    assert HDP.load("again.npz").score(X) == model.score(X)
    save("x.npz", X)
    assert cli.main("fit x.npz --out run --n-iter 4 --n-chains 1 --quiet".split()) == 0
    Path("run/model.npz").write_bytes(Path("bad.npz").read_bytes())
    assert f"run{os.sep}model.npz" in refused("score", "run", "x.npz")


def test_an_edited_model_of_clusters(folder):
    model = mixture().fit(X)
    model.save("model.npz")
    for name, change in [
        ("z", first_entry("samples_/z", 10**9)),
        ("z", first_entry("samples_/z", -1)),
        ("alpha", first_entry("samples_/alpha", np.nan)),
        ("labels_", first_entry("labels_", 10**6)),
    ]:
        edited("model.npz", "bad.npz", change)
        with pytest.raises(ValueError, match="^bad.npz: .*" + name):
            DPMixture.load("bad.npz")


# What a model shows is made of its samples, and must be what they give.
SHOWN = [
    (NestedDP(n_clusters=3, n_topics=4), "cluster_order_", first_entry("cluster_order_", 10**6)),
    (NestedDP(n_clusters=3, n_topics=4), "labels_", first_entry("labels_", -1)),
    (NestedDP(n_clusters=3, n_topics=4), "topic_cluster_", first_entry("topic_cluster_", 10**6)),
    (TreeHDP([]), "beta", set_to("samples_/0/beta", lambda a: a["samples_/0/beta"][:0])),
    (TreeHDP([]), "doc_nodes_", first_entry("doc_nodes_", 9)),
    (TreeHDP([]), "node_weights_", first_entry("node_weights_", 9.0)),
    (TreeHDP([]), "concentrations_", first_entry("concentrations_", -1.0)),
    (HDPHMM(max_states=4, moves=0), "transmat_", first_entry("transmat_", 0.9)),
    (HDPHMM(max_states=4, moves=0), "phi", first_entry("emissions_/phi", 0.9)),
    (HDPHMM(max_states=4, moves=0), "labels_", set_to("labels_", lambda a: a["labels_"][1:])),
    (HDPHMM(max_states=4, moves=0), "allocate|stats", set_to("prior_/n_symbols", 2**31 - 1)),
    (HDPHMM(max_states=4, moves=0), "prior_ eta", first_entry("prior_/eta", np.nan)),
]


@pytest.mark.parametrize("model, name, change", SHOWN)
def test_what_a_model_shows_is_what_its_samples_give(model, name, change, folder):
    data = [0, 1, 2, 1, 0, 2, 2, 1] if isinstance(model, HDPHMM) else X
    model.set_params(n_iter=4, n_chains=1, random_state=0).fit(data).save("model.npz")
    edited("model.npz", "bad.npz", change)
    with pytest.raises(ValueError, match="^bad.npz: .*(" + name + ")") as refusal:
        type(model).load("bad.npz")
    assert "\n" not in str(refusal.value)
    again = type(model).load("model.npz")  # the control: nothing edited
    assert str(again.convergence_) == str(model.convergence_)


BAD_SPARSE = [
    (sp.csc_array, "indices", 10**9),
    (sp.csc_array, "indices", -(10**8)),
    (sp.csc_array, "indices", 10**6),
    (sp.csr_array, "indptr", 10**8),
    (sp.csr_array, "indices", 10**6),
    (sp.coo_array, "row", 10**9),
    (sp.coo_array, "col", -1),
]


@pytest.mark.parametrize("kind, piece, value", BAD_SPARSE)
def test_a_sparse_matrix_whose_pieces_do_not_fit(kind, piece, value, refused):
    "SciPy loads it as it is, and would read and write out of bounds."
    sp.save_npz("x.npz", kind(X))
    with np.load("x.npz") as file:
        arrays = dict(file)
    place = 1 if len(arrays[piece]) > 1 else 0
    arrays[piece][place] = value
    np.savez("x.npz", **arrays)
    assert "x.npz: not a whole corpus .npz file" in refused("fit", "x.npz", "--out", "run")


def test_a_checkpoint_on_the_command_line(refused, monkeypatch):
    save("x.npz", X)
    fit = ["fit", "x.npz", "--out", "run", "--n-iter", "4", "--n-chains", "1", "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr(cli, "_write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            cli.main(fit)
    (checkpoint,) = Path("run.part").glob("*.npz")
    checkpoint.write_bytes(checkpoint.read_bytes()[:200])
    err = refused(*fit)
    assert "checkpoint" in err and "--fresh starts again, another --out leaves it as it is" in err
    np.savez(checkpoint, weights=np.ones(3))
    assert "no checkpoint" in refused(*fit[:-1])  # one line without --quiet, too
    assert cli.main([*fit, "--fresh"]) == 0 and os.listdir("run") and not Path("run.part").exists()


def test_the_folder_of_a_run_that_is_no_more(refused):
    save("x.npz", X)
    assert cli.main(["fit", "x.npz", "--out", "run", "--n-iter", "4", "--quiet"]) == 0
    for command in (
        ["topics", "nowhere"],
        ["topics", "x.npz"],
        ["score", ".", "x.npz"],
        ["report", "."],
    ):
        assert "holds no summary.json" in refused(*command) or command[1] == "x.npz"
    model, summary = Path("run/model.npz").read_bytes(), Path("run/summary.json").read_text()
    Path("run/model.npz").write_bytes(model[:500])
    for command in (["topics", "run"], ["score", "run", "x.npz"]):
        assert "model.npz" in refused(*command)
    Path("run/model.npz").write_bytes(model)
    for text in ("", "{", summary[:100]):
        Path("run/summary.json").write_text(text)
        for command in (["topics", "run"], ["score", "run", "x.npz"], ["report", "run"]):
            assert "summary.json" in refused(*command)
    Path("run/summary.json").write_text(json.dumps({"other": 1}))
    assert "summary.json" in refused("report", "run")


# And what is no mistake


@pytest.mark.parametrize("make", [hdp, mixture])
def test_empty_documents_and_words_that_never_occur_are_legal(make, folder):
    empty = X.copy()
    empty[[0, 3]] = 0
    empty[:, 1] = 0
    model = make().fit(empty)
    assert (model.doc_topic_ if make is hdp else model.labels_).shape[0] == 5
    if make is hdp:
        assert model.components_.shape[1] == 3 and np.isfinite(model.components_).all()
        Corpus.from_matrix(empty).save("empty.npz")
        assert (
            cli.main(
                [
                    "fit",
                    "empty.npz",
                    "--out",
                    "run",
                    "--n-iter",
                    "4",
                    "--test-size",
                    "0.4",
                    "--quiet",
                ]
            )
            == 0
        )
        assert cli.main(["score", "run", "empty.npz", "--test-size", "0.5"]) == 0


@pytest.mark.parametrize("labels", [["a", None], [1, None], ["a", 1], [None, "a"]])
def test_labels_that_are_missing(labels):
    corpus = Corpus.from_matrix(np.ones((20, 3), int))
    odd = labels.index(None) if None in labels else 1
    with pytest.raises(ValueError, match=f"none missing.* got {labels[odd]!r} at {odd}"):
        TreeHDP(n_iter=2).fit(corpus, groups=labels * 10)
    if None in labels and "a" in labels:
        model = HDP(n_iter=10, n_chains=1, moves=0, random_state=0).fit(corpus)
        for show in (plot_shares, plot_topics_over_time, shares_by_group):
            with pytest.raises(ValueError, match=f"for all documents, got None at {odd}"):
                show(model, labels * 10)
        with pytest.raises(ValueError, match=f"categories must hold .* got None at {odd}"):
            NestedDP(n_iter=2, categories=labels * 10).fit(corpus)
        with pytest.raises(ValueError, match=rf"groups\['group'\] must hold .* None at {odd}"):
            check_words(model, corpus, groups=labels * 10)
