"""How documents go through a fit: which modules see them, and how often the next is another."""

import sys

import numpy as np
import pytest

from hdp_nb.corpora.corpus import Corpus, as_corpus
from hdp_nb.models.topic_models import HDP
from hdp_nb.topics.franchise import FranchiseSampler

X = np.random.default_rng(0).poisson(0.4, (40, 60))


def changes(n_iter):
    """Fit, and count from one call that is given the documents to the next how often the module
    changes. The corpus made of them counts as well, and so does what holds either."""
    run = {"n_iter": n_iter, "burn_in": 1, "n_chains": 2, "n_jobs": 1, "random_state": 0}
    modules, known = [], {id(X)}

    def is_given(value, deeper=True):
        if id(value) in known or isinstance(value, Corpus):
            return True
        ours = type(value).__module__.startswith("hdp_nb") and hasattr(value, "__dict__")
        return deeper and ours and any(is_given(part, False) for part in vars(value).values())

    def look(frame, event, _):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("hdp_nb"):
            code, held = frame.f_code, frame.f_locals
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            if any(is_given(held[name]) for name in names if name in held):
                modules.append(module)

    model = HDP(eta=0.5, **run)
    sys.setprofile(look)
    try:
        model.fit(X)
    finally:
        sys.setprofile(None)
    assert {"hdp_nb.corpora.corpus", "hdp_nb.topics.franchise"} < set(modules)
    return sum(one != other for one, other in zip(modules, modules[1:]))


@pytest.mark.filterwarnings("ignore::hdp_nb.mcmc.convergence.ConvergenceWarning")
def test_documents_go_straight_through_a_fit(monkeypatch):
    "A sweep is a step from the chain to its moves, to the sampler, and back."
    HDP(eta=0.5, n_iter=3, burn_in=1, n_chains=2, n_jobs=1, random_state=0).fit(X)  # compiled
    three, four = changes(3), changes(4)
    assert three < 85 and four - three == 2 * 3
    sweep = FranchiseSampler.sweep
    monkeypatch.setattr(
        FranchiseSampler,
        "sweep",
        lambda self, *args: (as_corpus(self.corpus), sweep(self, *args))[1],
    )
    assert changes(3) > three  # the counter would notice one who looks at them again
