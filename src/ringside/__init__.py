"""Ringside: real MPI in notebooks, one step at a time, with a view of what the ranks do."""

from importlib import import_module

__all__ = ["Deadlock", "RankDied", "Stopped", "start"]

# Engines import this package too and must start quickly: nothing heavy is imported here.
_HOME = {"start": "cluster", "Deadlock": "errors", "RankDied": "errors", "Stopped": "errors"}


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'ringside' has no attribute {name!r}")
    return getattr(import_module(f"ringside.{_HOME[name]}"), name)
