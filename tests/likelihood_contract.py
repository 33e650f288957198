"""Cases of every registered likelihood, that of the worked example among them."""

import worked_examples

from hdp_nb.mixtures import product  # noqa: F401, registers the package's own
from hdp_nb.mixtures.normal import likelihoods
from hdp_nb.mixtures.testing import filled

worked_examples.define("10_models/16_new_likelihood", until="geometric = register(")
CASES = [(name, i) for name, fam in likelihoods.items() for i in range(len(fam.examples))]


def case(name, i=0):
    "A likelihood, one of its priors, and checked data: those of its examples."
    fam = likelihoods[name]
    hyper, X = fam.examples[i]
    prior = fam.make_prior(**hyper)
    return fam, prior, fam.check_data(X, prior)


def settings(fam, hyper, argument):
    "Parameters of an estimator for this likelihood with these hyperparameters."
    if "n_words" in hyper:
        symbols = {"n_symbols": hyper["n_words"]} if fam.scalar else {}
        return {argument: fam.name, "prior": {"eta": hyper.get("eta", 0.5), **symbols}}
    return {
        argument: fam.name,
        "prior": {name: value for name, value in hyper.items() if name != "n_dims"} or None,
    }


def log_marginal_of(fam, prior, data):
    "The log marginal of some rows of data, as a function of their numbers."
    return lambda rows: (
        fam.log_marginal(prior, filled(fam, prior, data, rows, capacity=1), 0) if len(rows) else 0.0
    )
