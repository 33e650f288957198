"""The estimators' public surface: what constructors and `fit` take, and where it is described."""

import inspect
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

import hdp_nb
from hdp_nb import Gamma, LogNormal, Moves, SeedWords
from hdp_nb.models.base import SampledModel
from hdp_nb.models.parameters import SHARED
from hdp_nb.sequences.finite import FiniteHMM

FIRST = {"LDA": "n_topics", "TreeHDP": "levels", "FiniteHMM": "n_states"}
FIRST |= dict.fromkeys(["DPMixture", "HDPMixture"], "likelihood")
MODELS = [
    *(hdp_nb.HDP, hdp_nb.LDA, hdp_nb.TreeHDP, hdp_nb.VariationalHDP, hdp_nb.OnlineHDP),
    *(hdp_nb.DPMixture, hdp_nb.HDPMixture, hdp_nb.HNHDP, hdp_nb.NestedDP, hdp_nb.HDPHMM, FiniteHMM),
]
SAMPLED = [kind for kind in MODELS if issubclass(kind, SampledModel)]
RUN = "n_iter burn_in thin n_chains n_jobs random_state verbose".split()
every = pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
sampled = pytest.mark.parametrize("kind", SAMPLED, ids=lambda kind: kind.__name__)


def takes(function):
    return {name: of for name, of in inspect.signature(function).parameters.items()}


def entries(text):
    "The names that a docstring describes as numpydoc has it, those of one line apart."
    heads = re.findall(r"(?m)^(\w[\w, ]*) : ", inspect.cleandoc(text))
    return [name for head in heads for name in head.split(", ")]


@every
def test_constructors_take_keywords(kind):
    "But for the one parameter that defines the call; 17 at most, and no prior beside its value."
    own = takes(kind)
    free = [name for name, of in own.items() if of.kind is not of.KEYWORD_ONLY]
    assert free == [name for of, name in FIRST.items() if of == kind.__name__]
    assert len(own) <= 17
    assert not [name for name in own if re.search(r"_priors?$|^learn_|^max_time", name)]
    assert [*kind().get_params(deep=False)] == sorted(own)
    assert clone(kind()).get_params() == kind().get_params()


@sampled
def test_fits_that_run_chains_have_the_same_keywords(kind):
    fit = takes(kind.fit)
    by_name = {name for name, of in fit.items() if of.kind is of.KEYWORD_ONLY}
    others = {"TreeHDP": {"topics"}}.get(kind.__name__, set())
    assert by_name - {"groups"} - others == {"callback", "checkpoint", "max_time"}
    second = "lengths" if kind is hdp_nb.HDPHMM else "y"
    assert [name for name in fit if name not in by_name] == ["self", "X", second]


@every
def test_each_parameter_is_described_once(kind):
    found = entries(kind.__doc__)
    assert sorted(found) == sorted({*found}) and {*takes(kind)} <= {*found}
    assert "{" not in re.sub(r"\{[^}]*[\"'.:][^}]*\}", "", kind.__doc__)


@sampled
def test_what_is_shared_is_in_the_table(kind):
    for name in RUN:
        assert SHARED[name] in kind.__doc__
    for name in ("checkpoint", "max_time"):
        assert SHARED[name] in inspect.cleandoc(kind.fit.__doc__)
    assert {*takes(kind.fit)} - {"self", "lengths"} <= {*entries(kind.fit.__doc__), "lengths"}
    for name in ("traces_", "converged_", "convergence_", "sample_chain_", "burn_in_", "thin_"):
        assert SHARED[name] in kind.__doc__


@pytest.mark.parametrize("kind", [hdp_nb.HDP, hdp_nb.VariationalHDP, hdp_nb.OnlineHDP])
def test_concentrations_of_topic_models_are_in_the_table(kind):
    assert all(SHARED[name] in kind.__doc__ for name in ("alpha", "gamma"))


def test_without_docstrings():
    code = "from hdp_nb import HDP; assert HDP.__doc__ is None; print(HDP(eta=0.5).eta)"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0.5\n"), done.stderr


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: hdp_nb.HDP("crf"), "HDP takes keyword arguments only, got 'crf'"),
        (lambda: hdp_nb.LDA(5, 1.0), "but for n_topics, got 5, 1.0"),
        (lambda: hdp_nb.HDP(alpha_prior=(1, 1)), r"no alpha_prior, which is now alpha: .*Gamma\("),
        (lambda: hdp_nb.LDA(eta_prior=None), "no eta_prior, which is now eta:"),
        (lambda: hdp_nb.TreeHDP(concentration_priors=None), "now concentrations:"),
        (lambda: hdp_nb.HDPHMM(kappa_prior=(1, 1)), "which is now kappa:"),
        (lambda: hdp_nb.HDPHMM(gamma_group=1.0), "which is now gamma:"),
        (lambda: hdp_nb.HDPHMM(eta=1.0), 'which is now prior: {"eta": ...}'),
        (lambda: hdp_nb.DPMixture(n_symbols=3), 'which is now prior: {"n_symbols": ...}'),
        (lambda: hdp_nb.DPMixture(split_merge=3), "which is now moves:"),
        (lambda: hdp_nb.HDP(split_merge_until=3), r"which is now moves: Moves\(until=...\)"),
        (lambda: hdp_nb.HDP(seed_strength=3), "which is now seed_words: SeedWords"),
        (lambda: hdp_nb.HNHDP(max_time=3), "which is now max_time of fit"),
        (lambda: hdp_nb.VariationalHDP(learn_eta=True), "which is now eta:"),
        (lambda: hdp_nb.OnlineHDP(learn_concentrations=False), "which is now alpha, gamma:"),
        (lambda: hdp_nb.OnlineHDP(max_time=1), "unexpected keyword argument 'max_time'"),
        (lambda: hdp_nb.HDP(topics=3), "unexpected keyword argument 'topics'"),
    ],
)
def test_what_is_not_taken_is_named(make, message):
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    "model",
    [
        hdp_nb.HDP(alpha=Gamma(2, 1), gamma=0.5, eta=LogNormal(-1, 0.5), moves=0),
        hdp_nb.HDP(sampler="direct", moves=Moves(1, split_merge=2, scans=1, until=3)),
        hdp_nb.HDP(seed_words=SeedWords({"sea": [0, 1]}, 3)),
        hdp_nb.TreeHDP([], concentrations=[Gamma(2, 1), 0.5]),
        hdp_nb.DPMixture("multinomial", alpha=LogNormal(0, 1), moves=Moves(3, scans=1)),
        hdp_nb.HDPMixture("multinomial", gamma=LogNormal(0, 1), moves=Moves(3, scans=1)),
    ],
    ids=["priors", "moves", "seed words", "list", "mixture", "mixture of groups"],
)
@pytest.mark.filterwarnings("ignore::hdp_nb.ConvergenceWarning")
def test_objects_are_copied_and_kept(model, tmp_path):
    model = clone(model).set_params(n_iter=4, random_state=0)
    X = np.random.default_rng(0).poisson(1.0, (8, 6))
    fitted = clone(model).fit(X)
    fitted.save(tmp_path / "model.npz")
    again = hdp_nb.load_model(tmp_path / "model.npz")
    for other in (clone(model), fitted, again):
        assert repr(other.get_params()) == repr(model.get_params())
    assert again.score(X) == fitted.score(X)
    assert np.array_equal(again.fit(X).trace_["log_joint"], fitted.trace_["log_joint"])


@sampled
@pytest.mark.parametrize("seconds", [0, -1, "long"])
def test_no_time_at_all(kind, seconds):
    "The check of `max_time` comes before the first sweep."
    flat = hdp_nb.HDPHMM, hdp_nb.DPMixture, hdp_nb.HDPMixture
    X = np.arange(8) % 3 if kind in flat else np.eye(4, dtype=int)
    with pytest.raises(ValueError, match="max_time must be"):
        kind(n_iter=2).fit(X, max_time=seconds)
