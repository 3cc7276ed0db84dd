"""Ringside: real MPI in notebooks, one step at a time, with a view of what the ranks do."""

from importlib import import_module
from pathlib import Path

__all__ = ["Deadlock", "Mismatch", "RankDied", "Stopped", "Suspected", "predict", "start"]

# The checkout: its kernels are built with the MPI library that is there, so no wheel brings them.
ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "kernels").is_dir():
    raise ImportError(
        f"Ringside works from its checkout, and {Path(__file__).parent} lies in none: there is no "
        f"{ROOT / 'kernels'}. Run `make lab` in a checkout, or install it from there by "
        "`pip install --editable .`"
    )

# Engines import this package too and must start quickly: nothing heavy is imported here.
_HOME = dict.fromkeys(__all__, "errors") | {"predict": "prediction", "start": "cluster"}
# Modules that lessons call by these names.
_ROOM = {"campaign": "measure", "fit": "measure", "datatype": "watch", "waitfor": "watch"}


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f"ringside.{_HOME[name]}"), name)
    if name in _ROOM:
        return import_module(f"ringside.{_ROOM[name]}.{name}")
    if name == "simulate":
        return import_module("ringside.simulate")
    raise AttributeError(f"module 'ringside' has no attribute {name!r}")
