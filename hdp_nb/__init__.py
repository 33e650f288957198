"""Hierarchical Dirichlet processes, derived and compiled."""

__version__ = "0.1.0"

from importlib import import_module

from hdp_nb._lazy import submodule, submodules

# What users call, and its module, which is loaded when first asked for: `import hdp_nb` costs
# nothing.
_HOME = {
    "Corpus": "corpora.corpus",
    "load_corpus": "corpora.readers",
    "make_bars": "corpora.synthetic",
    "make_five_topics": "corpora.synthetic",
    "HDP": "models.topic_models",
    "LDA": "models.topic_models",
    "TreeHDP": "models.tree_models",
    "VariationalHDP": "models.variational_models",
    "OnlineHDP": "models.variational_models",
    "DPMixture": "models.mixture_models",
    "HDPMixture": "models.grouped_mixtures",
    "HNHDP": "models.nested_models",
    "NestedDP": "models.nested_models",
    "HDPHMM": "models.sequence_models",
    "Gamma": "mcmc.priors",
    "LogNormal": "mcmc.priors",
    "Moves": "moves.schedule",
    "SeedWords": "topics.seeds",
    "Known": "topics.known",
    "load_model": "models.loading",
    "document_completion": "evaluation.scores",
    "left_to_right": "evaluation.scores",
    "coherence_npmi": "evaluation.scores",
    "ConvergenceWarning": "mcmc.convergence",
}
__all__ = [*_HOME]


def __getattr__(name):
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return submodule(__name__, name)


def __dir__():
    return sorted([*globals(), *_HOME, *submodules(__path__)])


from hdp_nb import _kernels  # noqa: E402

_kernels.keep_kernels(_kernels.cache_folder())
