"""How an error that ends a cell reads."""

import re
import types
from pathlib import Path

import ipyparallel

from ringside import cfunctions
from ringside.errors import PREFIX

LIBRARIES = ("src/mpi4py/", str(Path(ipyparallel.__file__).parent), cfunctions.__file__)
TRUNCATED = re.compile(
    r"Message from rank (\d+) and tag (\d+) truncated; "
    r"(\d+) bytes received but buffer size is (\d+)"
)


class LastingRank(RuntimeError):
    """A cell asked its rank to end."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def plain(error: BaseException) -> str:
    """What an error says; of one that MPICH raised, without the names of its inner functions."""
    text = str(error)
    head, *stack = text.splitlines() or [""]
    if type(error).__module__ != "mpi4py.MPI" or not head.endswith(", error stack:") or not stack:
        return text
    reason = re.sub(r"^\w+\(\d+\)\.*: ", "", stack[-1])
    if found := TRUNCATED.search(reason):
        source, tag, *sizes = map(int, found.groups())
        # MPICH (5.0.2) gives the two sizes in either order.
        reason = (
            f"the message from rank {source} with tag {tag} has {max(sizes)} bytes, and there is "
            f"room for {min(sizes)}"
        )
    return f"{head.removesuffix(', error stack:')}: {reason}"


def without_library(traceback):
    """The traceback without mpi4py's compiled functions, whose source is not there to be shown,
    and without what ipyparallel does to call a function on a rank; None: nothing is left."""
    if traceback is None:
        return None
    rest = without_library(traceback.tb_next)
    source = traceback.tb_frame.f_code.co_filename
    if source == "<string>" or source.startswith(LIBRARIES):
        return rest
    return types.TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


def cause(error: BaseException) -> BaseException | None:
    """The error during whose handling the scope's came; None: it came by itself."""
    came_of = error
    while came_of is not None and str(came_of).startswith(PREFIX):
        came_of = came_of.__context__
    return None if came_of is error else came_of
