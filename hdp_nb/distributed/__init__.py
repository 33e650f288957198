"""Corpora in shards, and workers that sweep over them."""

from hdp_nb._lazy import submodule, submodules


def __getattr__(name):
    return submodule(__name__, name)


def __dir__():
    return [*globals(), *submodules(__path__)]
