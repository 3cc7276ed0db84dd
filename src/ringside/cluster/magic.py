"""`%%c`: the C in a cell, compiled and put on every rank."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from IPython import get_ipython

from ringside import cfunctions
from ringside.cfunctions import Prototype

if TYPE_CHECKING:
    from ringside.cluster.cluster import Cluster


_put_on = WeakKeyDictionary()  # by cluster: see `_had`


def register(cluster: Cluster) -> None:
    """Make `%%c` known where a notebook runs; it serves this cluster from now on."""
    if (shell := get_ipython()) is not None:
        shell.register_magic_function(partial(_c, cluster), "cell", "c")


def _c(cluster: Cluster, _, text: str) -> None:
    """Compile the C functions in this cell, and put them on all ranks under their names.

    A rank's Python then calls them: a communicator for an MPI_Comm, a number for an int or a
    double, an array for a pointer. A function of type int returns an MPI error code, and another
    one than MPI_SUCCESS is raised. A cell that is run again replaces its functions.
    """
    functions = cfunctions.prototypes(text)
    library, said = _compiled(cluster, text, functions)
    if said:
        print(said)
    if not functions:
        raise cfunctions.CompileError(
            "the cell defines no function that Python could call: one of type int, double or "
            "void that is not static"
        )
    cluster.view.apply_sync(_put, str(library), functions)
    _had(cluster).update((one.name, cluster.client.uuids()) for one in functions)
    print("On all ranks:", *functions, sep="\n  ")


def _compiled(cluster: Cluster, text: str, functions: list[Prototype]) -> tuple[Path, str]:
    """As `compile_cell` has it. Raises CompileError, which names what the ranks go on with."""
    try:
        return cfunctions.compile_cell(text, cluster._run)
    except cfunctions.CompileError as error:
        ranks = cluster.client.uuids()
        kept = [one.name for one in functions if _had(cluster).get(one.name) == ranks]
        if not kept:
            raise
        which = " and ".join(kept)
        raise cfunctions.CompileError(
            f"{error}\nThe ranks still have the {which} of before."
        ) from None


def _had(cluster: Cluster) -> dict[str, list[str]]:
    """Which engines have got a function of each name: ranks that were replaced have none."""
    return _put_on.setdefault(cluster, {})


def _put(library: str, functions: list[Prototype]) -> None:
    """On a rank: load the library, and give the functions their names."""
    from mpi4py import MPI

    fault = Path(os.environ["RINGSIDE_RUN"]) / f"rank-{MPI.COMM_WORLD.rank}.fault"
    # Stays open: a crash can come at any time.
    file = os.open(fault, os.O_WRONLY | os.O_APPEND)
    get_ipython().push(cfunctions.load(Path(library), functions, file))
