"""Scripts of hmmlearn's users, after the patterns of its gallery, with the class exchanged.

Every function below is such a script from the construction of the model on: it uses nothing but
what hmmlearn documents. `TABLE` has all public names of hmmlearn's models, and of those that
`HDPHMM` lacks, why.
"""

import numpy as np
import pytest

from hdp_nb import HDPHMM

pytestmark = pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
RUN = dict(n_iter=240, burn_in=160, n_chains=1, max_states=8, random_state=0)


def path(rng, P, n):
    z = [0]
    for _ in range(n - 1):
        z.append(rng.choice(len(P), p=P[z[-1]]))
    return np.array(z)


def agree(z, found):
    "Share of the steps whose state is the one that most steps of their kind have."
    return sum(np.bincount(found[z == k]).max() for k in np.unique(z)) / len(z)


STAY = np.array([[0.95, 0.05], [0.1, 0.9]])


# --- the scripts ----------------------------------------------------------------------------------


def gaussian_of_returns(model, X):
    "Regimes of a price: fit a table, look at means and variances, and at what comes next."
    model.fit(X)
    hidden_states = model.predict(X)
    lines = []
    for i in range(model.transmat_.shape[0]):
        lines.append((model.means_[i][0], np.diag(model.covars_[i])[0], (hidden_states == i).sum()))
    return hidden_states, lines, model.transmat_[hidden_states[-1]]


def symbols_of_several_sequences(model, X, lengths):
    "Moods behind words: several sentences in one column; Viterbi, and the symbols of a state."
    model.fit(X, lengths)
    log_prob, received = model.decode(X, lengths, algorithm="viterbi")
    loudest = model.emissionprob_.argmax(axis=1)
    return log_prob, received, loudest[received], model.startprob_


def counts_of_earthquakes(model, counts):
    "Poisson rates: a column of counts; states by their rate, and the distribution they come to."
    model.fit(counts[:, None])
    states = model.predict(counts[:, None])
    prop_per_state = model.predict_proba(counts[:, None]).mean(axis=0)
    return model.lambdas_[states].ravel(), prop_per_state, model.get_stationary_distribution()


def train_and_validate(model, X, lengths):
    "Choose by held-out score: fit on some sequences, score the others, draw new ones."
    half = sum(lengths[: len(lengths) // 2])
    model.fit(X[:half], lengths[: len(lengths) // 2])
    score = model.score(X[half:], lengths[len(lengths) // 2 :])
    gen_X, gen_states = model.sample(100, random_state=1)
    return score, gen_X, gen_states, model.predict(gen_X)


def several_recordings_joined(model, parts):
    "Recordings of unequal length, joined by hand; a score for each, and posteriors."
    X = np.concatenate(parts)
    lengths = [len(part) for part in parts]
    model.fit(X, lengths)
    scores = [model.score(part) for part in parts]
    posteriors = model.predict_proba(X, lengths)
    return scores, posteriors, model.decode(X, lengths, algorithm="map")[1]


# --- what they find -------------------------------------------------------------------------------


def two_levels(n=300, seed=0):
    rng = np.random.default_rng(seed)
    z = path(rng, STAY, n)
    return np.array([[0.0, 0.0], [4.0, -4.0]])[z] + rng.normal(0, 0.7, (n, 2)), z


def test_gaussian_of_returns():
    X, z = two_levels()
    states, lines, after = gaussian_of_returns(HDPHMM(emission="normal", **RUN), X)
    assert agree(z, states) > 0.97 and sum(n for _, _, n in lines) == len(X)
    mean, variance, _ = max(lines, key=lambda line: line[2])
    assert abs(mean - X[z == np.bincount(z).argmax(), 0].mean()) < 0.3
    assert 0.3 < variance < 0.8 and np.isclose(after.sum(), 1)


def test_symbols_of_several_sequences():
    rng, phi = np.random.default_rng(1), np.array([[0.8, 0.1, 0.1], [0.05, 0.15, 0.8]])
    z = np.concatenate([path(rng, STAY, n) for n in (120, 80, 100)])
    X = np.array([rng.choice(3, p=phi[k]) for k in z])[:, None]
    model = HDPHMM(**RUN)
    log_prob, states, said, begins = symbols_of_several_sequences(model, X, [120, 80, 100])
    assert np.isfinite(log_prob) and agree(z, states) > 0.8 and np.isclose(begins.sum(), 1)
    assert np.mean(said == np.array([0, 2])[z]) > 0.8
    assert np.allclose(model.emissionprob_.sum(axis=1), 1)


def test_counts_of_earthquakes():
    rng = np.random.default_rng(2)
    z = path(rng, STAY, 300)
    counts = rng.poisson(np.array([4.0, 20.0])[z])
    rate, shares, at_last = counts_of_earthquakes(HDPHMM(emission="poisson", **RUN), counts)
    assert abs(rate[z == 0].mean() - 4) < 1 and abs(rate[z == 1].mean() - 20) < 2
    assert np.isclose(shares.sum(), 1) and np.isclose(at_last.sum(), 1)


def test_train_and_validate():
    X, _ = two_levels(400)
    lengths = [100, 100, 100, 100]
    model = HDPHMM(emission="normal", **RUN)
    score, drawn, states, found = train_and_validate(model, X, lengths)
    assert drawn.shape == (100, 2) and agree(states, found) > 0.95
    assert model.score(X[200:], lengths[2:]) == score > model.score(3 * X[200:], lengths[2:])


def test_several_recordings_joined():
    X, z = two_levels(260, 3)
    parts = np.split(X, [90, 150])
    model = HDPHMM(emission="normal", **RUN)
    scores, posteriors, states = several_recordings_joined(model, parts)
    assert len(scores) == 3 and np.isfinite(scores).all() and agree(z, states) > 0.97
    assert posteriors.shape == (260, model.n_states_) and np.allclose(posteriors.sum(axis=1), 1)


# --- every name -----------------------------------------------------------------------------------

THERE = ""
TABLE = {
    **dict.fromkeys(("fit", "predict", "predict_proba", "decode", "score", "sample"), THERE),
    **dict.fromkeys(("startprob_", "transmat_", "get_stationary_distribution"), THERE),
    **dict.fromkeys(("means_", "covars_", "emissionprob_", "lambdas_"), THERE),
    **dict.fromkeys(("n_iter", "random_state", "verbose", "get_params", "set_params"), THERE),
    "score_samples": "one number per sequence; hmmlearn's pair is `score` and `predict_proba`",
    "n_components": "inferred: `n_states_`; `max_states` bounds it",
    "n_features": "scikit-learn's name, `n_features_in_`",
    "covariance_type": "full; columns that are independent are a mapping of single columns",
    "algorithm": "an argument of `decode`, and `method` of `predict`",
    "monitor_": "of EM; chains have `converged_`, `verdict_` and `traces_`",
    "tol": "of EM; chains are not stopped by a tolerance",
    "params": "of EM: which parameters it updates; here all are integrated out",
    "init_params": "of EM; `init` says where chains begin",
    "implementation": "of EM; everything here is scaled",
    "min_covar": "the prior keeps covariances positive definite",
    "startprob_prior": "`alpha` and `gamma`: rows share one vector of weights",
    "transmat_prior": "`alpha`, `gamma` and `kappa`",
    "means_prior": "`prior={'mean': ...}`",
    "means_weight": "`prior={'kappa': ...}`",
    "covars_prior": "`prior={'scale': ...}`",
    "covars_weight": "`prior={'dof': ...}`",
    "emissionprob_prior": "`prior={'eta': ...}`",
    "lambdas_prior": "`prior={'shape': ...}`",
    "lambdas_weight": "`prior={'rate': ...}`",
    "n_trials": "of counts of a fixed sum; `emission='multinomial'` takes their sums as given",
    "aic": "to choose a number of states, which is inferred",
    "bic": "to choose a number of states, which is inferred",
}
OTHERS = {"score_samples"}  # another function of that name


def test_every_name_is_there_or_has_a_reason():
    X, _ = two_levels(60)
    fit = lambda emission, X: HDPHMM(emission=emission, **RUN | {"n_iter": 4, "burn_in": 2}).fit(X)
    of = {
        "emissionprob_": fit("categorical", abs(X[:, 0]).astype(int)),
        "lambdas_": fit("poisson", abs(X).astype(int)),
    }
    usual = fit("normal", X)
    for name, reason in TABLE.items():
        there = hasattr(of.get(name, usual), name)
        assert there == (reason == THERE or name in OTHERS), name


@pytest.mark.parametrize("name", ["n_components", "covariance_type", "tol"])
def test_arguments_that_are_not_taken_are_named(name):
    with pytest.raises(TypeError, match=name):
        HDPHMM(**{name: 3})


def test_the_pair_of_score_samples():
    "What takes its place: log probability and posteriors."
    X, _ = two_levels(80)
    model = HDPHMM(emission="normal", **RUN).fit(X)
    assert model.score_samples(X).shape == (1,) and model.predict_proba(X).shape[0] == 80
