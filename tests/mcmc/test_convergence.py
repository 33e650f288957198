"""The verdict on a fit: when it fires and when it does not, what it says, and how a run ends."""

import warnings
from threading import Event
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

from hdp_nb import load_model
from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.synthetic import make_signatures
from hdp_nb.mcmc.chain import run_chains
from hdp_nb.mcmc.convergence import ConvergenceWarning, judge
from hdp_nb.models.base import SampledModel
from hdp_nb.models.topic_models import HDP


@pytest.fixture(scope="module")
def signatures():
    return make_signatures(n_docs=150, doc_len=100, n_words=40, random_state=0)[0]


@pytest.fixture(scope="module")
def apart(signatures):
    "A fit whose chains have not come together, and what it warned of."
    model = HDP(sampler="direct", moves=0, n_iter=60, n_chains=2, random_state=0)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(signatures)
    return model, [str(w.message) for w in caught if w.category is ConvergenceWarning]


def test_chains_that_disagree(apart):
    "One warning names the chain that is behind, and what to do; the table has the rest."
    model, [message] = apart
    assert model.converged_ is False and not model.interrupted_
    odd = [name for name, row in model.convergence_.items() if row.ok is False]
    assert model.convergence_["n_topics"].ok is None  # told, not judged
    worst = model.convergence_.worst
    one, two = model.convergence_[worst].means
    said = model.convergence_.finding()
    assert worst in odd and f"{worst} ({one:.4g} against {two:.4g})" in said
    assert said.startswith("the 2 chains do not agree on ")
    assert message == str(model.verdict_) and "What is shown is of one chain" in message
    assert message.startswith(f"Chain 0 is {model.behind_[0]:.2g} nats a word behind")
    assert "n_iter='auto', or above 60" in message and "n_chains" in message
    table = str(model.convergence_).splitlines()
    assert [line.split()[0] for line in table[1:] if line.endswith("NO")] == odd
    again = judge(model.draws())  # nothing but the traces after burn-in
    assert str(again) == str(model.convergence_) and model.draws()["n_topics"].shape == (2, 30)


def test_chains_begin_with_one_topic_and_with_a_hundred(apart):
    model, _ = apart
    first = model.traces_["n_topics"][:, 0]
    assert first[0] < 20 < 60 < first[1]


def test_auto_ends_where_chains_agree(signatures):
    "With moves, on the same data and from the same starts; long before 3,000 sweeps, unwarned."
    model = HDP(sampler="direct", n_iter="auto", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model.fit(signatures)
    assert model.converged_ is True
    assert all(row.ok for name, row in model.convergence_.items() if name != "n_topics")
    n_chains, done = model.traces_["n_topics"].shape
    assert n_chains == 3 and 100 <= done < 1500 and model.burn_in_ == done // 2
    assert not np.isnan(model.traces_["n_topics"]).any()
    assert model.verdict_.grade == "agree" and model.convergence_.worst == ""
    assert np.ptp(model.convergence_["topics_above_1%"].means) < 0.5


quick = dict(moves=0, n_iter=12, init=20, random_state=0)


def test_one_chain_has_no_verdict(signatures):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = HDP(sampler="direct", n_chains=1, **quick).fit(signatures)
    assert model.converged_ is None and "the verdict needs two or more" in str(model.convergence_)
    assert all(row.ok is None for row in model.convergence_.values())


@pytest.mark.parametrize(
    "params, message",
    [
        (dict(moves=-1), "moves must be .*, got -1"),
        (dict(moves="x"), "moves must be \"auto\" or a whole number of at least 0, got 'x'"),
        (dict(n_iter="auto", n_chains=1), "n_chains must be at least 2 with n_iter='auto'"),
        (dict(n_iter="long"), "n_iter must be a whole number or 'auto', got 'long'"),
        (dict(init="opposed"), "init must be \"opposite\", .*, got 'opposed'"),
    ],
)
def test_bad_parameters(signatures, params, message):
    with pytest.raises(ValueError, match=message):
        HDP(sampler="direct", **{**quick, **params}).fit(signatures)


@pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
@pytest.mark.parametrize(
    "corpus",
    [
        Corpus.from_docs([[0, 0, 0], [0]], n_words=1),
        Corpus.from_docs([[], [0, 1, 1, 2], [], [2, 0, 2], []], n_words=3),
    ],
    ids=["one word", "empty documents"],
)
@pytest.mark.parametrize("moves", [0, "auto"])
def test_small_corpora(corpus, moves):
    model = HDP(sampler="direct", moves=moves, n_iter=60, random_state=0).fit(corpus)
    assert model.converged_ in (True, False) and model.traces_["n_topics"].shape == (3, 60)
    assert np.isfinite(model.components_).all() and np.isfinite(model.doc_topic_).all()
    if corpus.n_words == 1:
        assert np.allclose(model.components_, 1, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_keeps_the_traces_of_both_chains(signatures, n_jobs):
    other_begun = Event()

    def stop(sweep, state):
        if sweep == 7:
            assert other_begun.wait(60)
            raise KeyboardInterrupt

    model = HDP(sampler="direct", n_chains=2, n_jobs=n_jobs, **quick)
    model.fit(signatures, callback=[lambda sweep, state: other_begun.set(), stop])
    done = (~np.isnan(model.traces_["n_topics"])).sum(axis=1)
    assert model.interrupted_ and done[1] == 8 and 1 <= done[0] <= 12
    assert {*model.sample_chain_} == {0, 1} and [*model.convergence_]
    assert clone(model).fit(signatures).interrupted_ is False


def test_the_verdict_is_saved(apart, tmp_path):
    model, _ = apart
    model.save(tmp_path / "model.npz")
    again = load_model(tmp_path / "model.npz")
    assert again.converged_ is False and again.interrupted_ is False
    assert str(again.convergence_) == str(model.convergence_)
    np.testing.assert_equal(again.convergence_.to_json(), model.convergence_.to_json())
    assert again.verdict_ == model.verdict_


@pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
def test_the_longest_time(signatures):
    "At least one sweep of each chain; that the time ended the run is no interruption."
    model = HDP(sampler="direct", n_chains=2, **{**quick, "n_iter": 5000})
    model.fit(signatures, max_time=1e-6)
    assert model.traces_["n_topics"].shape[1] < 200 and not model.interrupted_


class Count(NamedTuple):
    n: np.ndarray


class Annealed:
    "Sweeps that take a second of a clock that nothing else moves; annealed are the first `tune`."

    def __init__(self, clock, tune):
        self.clock, self.tune, self.asked = clock, tune, []

    def init(self, rng):
        return Count(np.array(0))

    def sweep(self, rng, state):
        self.clock[0] += 1.0
        state.n[()] += 1
        return state, {"log_joint": 0.0, "annealed": float(state.n <= self.tune)}

    def anneal_for(self, n):
        self.asked.append(n)
        self.tune = n


class Deaf(Annealed):
    "The control: the annealing does not listen."

    def anneal_for(self, n):
        pass


class AnnealedModel(SampledModel):
    n_iter, burn_in, n_chains, n_jobs, random_state, verbose = 200, None, 1, 1, 0, False

    def __init__(self, thin):
        self.thin = thin


@pytest.mark.parametrize("thin", [1, 10])
@pytest.mark.parametrize("seconds", [5, 12, 30, 60, 150, 199, 1000])
def test_no_state_is_kept_whose_moves_were_annealed(seconds, thin, monkeypatch):
    "However early the time ends the run; and a time that suffices changes nothing."
    kept = {}
    for kind in (Annealed, Deaf):
        clock = [0.0]
        monkeypatch.setattr("time.monotonic", lambda clock=clock: clock[0])
        sampler, model = kind(clock, 100), AnnealedModel(thin)
        (chain,), _ = model._run(sampler, None, None, seconds)
        assert chain.n_done == min(seconds, 200) and not model.interrupted_
        annealed = chain.trace["annealed"]
        first = chain.burn_in
        kept_at = [int(sample.n) - 1 for sample in chain.samples]
        assert first == model.burn_in_ and thin % model.thin_ == 0
        assert kept_at == [*range(first, chain.n_done, model.thin_)]
        assert seconds < 30 or len(kept_at) >= min(10, 100 // thin)
        assert thin == 1 or model.thin_ == {12: 1, 30: 1, 60: 2, 150: 5}.get(seconds, model.thin_)
        assert seconds < 200 or model.thin_ == thin
        kept[kind] = annealed[first:].sum()
        if kind is Annealed:
            assert annealed[:2].all() and (seconds < 12 or annealed.sum() <= seconds / 2)
            assert seconds < 200 or {*sampler.asked} == {100}
    assert kept[Annealed] == 0
    assert not 12 <= seconds < 100 or kept[Deaf] > 0


# ---------------------------------------------------------------- samplers and models of one's own


class Drift:
    "Draws around one of two places, depending on the generator."

    def __init__(self, apart, names=("place",)):
        self.apart, self.names = apart, names

    def init(self, rng):
        return Count(np.array(self.apart * rng.choice([-1.0, 1.0])))

    def sweep(self, rng, state):
        x = float(state.n + rng.normal())
        return state, dict.fromkeys(self.names, x)

    def snapshot(self, state):
        return state

    def params(self):
        return {}


class DriftModel(SampledModel):
    n_iter, burn_in, n_chains, n_jobs, verbose, thin = 300, 100, 4, 1, False, 50
    _counts = Count

    def __init__(self, apart=0.0, names=("place",), random_state=1):
        self.apart, self.names, self.random_state = apart, names, random_state

    def fit(self):
        sampler = Drift(self.apart, self.names)
        chains, best = self._run(sampler, None, None)
        self._kept(sampler, chains, best)
        self._conclude()
        return self


@pytest.mark.parametrize("apart", [0.0, 5.0])
def test_whatever_a_sampler_of_ones_own_traces_is_judged(apart):
    chains = run_chains(Drift(apart), np.random.default_rng(1), 4, 300, burn_in=100)
    found = judge(chains)
    assert list(found) == ["place"] and found.converged == (apart == 0)
    assert found == judge({"place": [chain.trace["place"][100:] for chain in chains]})
    named = judge({"n_clusters": np.zeros((2, 50)), "place": np.arange(100.0).reshape(2, 50)})
    assert list(named) == ["n_clusters"]  # what is known says enough
    with pytest.raises(ValueError, match="^traces must be of chains that have gone beyond"):
        judge(run_chains(Drift(apart), np.random.default_rng(1), 2, 5, burn_in=5))


def test_a_model_of_ones_own_warns(tmp_path):
    with pytest.warns(ConvergenceWarning, match="the 4 chains do not agree on place"):
        assert DriftModel(5.0).fit().converged_ is False
    model = DriftModel().fit()
    assert model.converged_ and model.best_ == 4  # nothing says which is the best
    names = ("place", "log_mixture")
    best = DriftModel(5.0, names)
    with pytest.warns(ConvergenceWarning):
        best.fit()
    traces = best.traces_["log_mixture"][:, 150:].mean(axis=1)
    assert best.sample_chain_[best.best_] == traces.argmax()


def test_samples_that_no_loaded_model_could_hold_are_not_saved(tmp_path):
    model = DriftModel().fit()
    model.save(tmp_path / "model.npz")
    again = DriftModel.load(tmp_path / "model.npz")
    assert [float(s.n) for s in again.samples_] == [float(s.n) for s in model.samples_]
    for samples, kind in (
        ([s._asdict() for s in model.samples_], "dict"),
        ([s.n for s in model.samples_], "ndarray"),
        ([(s.n,) for s in model.samples_], "tuple"),
    ):
        model.samples_ = samples
        with pytest.raises(TypeError, match=f"^samples_ must hold Count, .*, got {kind}"):
            model.save(tmp_path / "model.npz")
