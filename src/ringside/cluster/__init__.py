"""The ranks: where they run, how they are reached, and what is said when they end.

`cluster` is what a notebook holds; `keeper` keeps the ranks alive through ipyparallel, `launcher`
is where they run, `deaths` how they end, `room` whether they fit, `files` what they have on this
machine; `controller` is ipyparallel's own process, and `client` reaches the ranks through it.
"""

from importlib import import_module

_ERRORS = ["ClusterError", "Deadlock", "Mismatch", "RankDied", "Stopped", "Suspected"]

__all__ = ["Cluster", "start", *_ERRORS]


def __getattr__(name: str):
    # The ranks need `files` of this package, and nothing of ipyparallel's cluster.
    if name in ("Cluster", "start"):
        return getattr(import_module("ringside.cluster.cluster"), name)
    if name in _ERRORS:
        return getattr(import_module("ringside.errors"), name)
    raise AttributeError(f"module 'ringside.cluster' has no attribute {name!r}")
