"""How an error that ends a cell reads."""

import pickle
import re
import traceback as tracebacks
import types
from pathlib import Path

import ipyparallel

from ringside import cfunctions
from ringside.errors import PREFIX

_NO_ARRAY = ("message: expecting buffer", "a bytes-like object is required")
LIBRARIES = ("src/mpi4py/", str(Path(ipyparallel.__file__).parent), cfunctions.__file__)


class LastingRank(RuntimeError):
    """A cell asked its rank to end."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


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


def with_advice(error: BaseException) -> BaseException:
    """The error; of mpi4py's for want of an array, with what takes any object, or that Recv fills
    one; of a recv whose buffer was meant as a rank, with how to name it; of send and Recv, or Send
    and recv, with what goes together; of MPICH's (5.0) for an array that its sender has let go of
    meanwhile, with what keeps it."""
    if "process_vm_readv failed" in str(error):
        error.add_note(
            "The array of this message was gone before it was fetched. An Isend needs it until its "
            "request is waited for: keep both, and call Wait."
        )
    codes = [frame.f_code for frame, _ in tracebacks.walk_tb(error.__traceback__)]
    called = [code.co_name for code in codes if code.co_filename.startswith("src/mpi4py/")]
    method = next(iter(called), "")
    if isinstance(error, TypeError) and str(error).startswith(_NO_ARRAY):
        if re.search(r"[Cc]omm\.[A-Z]\w*$", method):
            error.add_note(
                "Methods with a capital letter (Send, Recv, Bcast) carry arrays, those without "
                "(send, recv, bcast) any Python object."
            )
    elif isinstance(error, TypeError) and re.match(r"I?[Rr]ecv\(\) takes at least 1 ", str(error)):
        error.add_note(
            "Recv fills an array that it is handed: comm.Recv(array, source=0). recv, without a "
            "capital letter, returns what came."
        )
    elif isinstance(error, pickle.UnpicklingError) and method.endswith("Comm.recv"):
        error.add_note(
            "recv takes what send has packed. This message came from Send, with a capital letter: "
            "Recv takes that, into an array."
        )
    elif "truncated" in str(error) and method.endswith("Comm.recv"):
        # Without a buffer it makes room for whatever comes.
        error.add_note("The first argument of recv is a buffer. Name the rank: recv(source=0).")
    elif "truncated" in str(error) and method.endswith("Comm.Recv"):
        error.add_note(
            "If it was sent by send, without a capital letter: that packs an object, which is "
            "longer than its numbers and is received by recv."
        )
    return error


def in_their_lines(get_records):
    """IPython's (9.18) VerboseTB.get_records; of a cell, whose file there is none of, it tells the
    line where the frame has got to since, in a `finally` say, for the one that raised."""

    def records(etb, context, tb_offset):
        lines, tb = {}, etb
        while tb is not None:
            lines[id(tb.tb_frame)] = tb.tb_lineno
            tb = tb.tb_next
        found = get_records(etb, context, tb_offset)
        for record in found:
            record.lineno = lines.get(id(record.frame), record.lineno)
        return found

    return records


def cause(error: BaseException) -> BaseException | None:
    """The error during whose handling the scope's came; None: it came by itself."""
    came_of = error
    while came_of is not None and str(came_of).startswith(PREFIX):
        came_of = came_of.__context__
    return None if came_of is error else came_of
