"""How an error that ends a cell reads."""

import linecache
import pickle
import re
import traceback as tracebacks
import types
from pathlib import Path

import ipyparallel
from ipykernel import kernelbase
from IPython.core.error import StdinNotImplementedError

from ringside import cfunctions
from ringside.errors import PREFIX

LIBRARIES = ("src/mpi4py/", str(Path(ipyparallel.__file__).parent), cfunctions.__file__)
LIBRARIES += (kernelbase.__file__,)


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


_CAPITALS = (
    "Methods with a capital letter (Send, Recv, Bcast) carry arrays, those without (send, recv, "
    "bcast) any Python object."
)
# Errors of mpi4py, and MPICH's (5.0): the type, what it says, in which method; and what helps.
_ADVICE = [
    (
        Exception,
        r".*process_vm_readv failed",
        r"",
        "The array of this message was gone before it was fetched. An Isend needs it until its "
        "request is waited for: keep both, and call Wait.",
    ),
    (
        TypeError,
        r"message: expecting buffer",
        r"I?Bcast",
        "Bcast needs an array on every rank: the root's is sent, and the others' are filled. "
        f"np.empty makes one. {_CAPITALS}",
    ),
    (
        TypeError,
        r"message: expecting buffer",
        r"I?(Gather|Reduce)v?$",
        "The first array is what this rank hands in, the second is where the root puts it all. "
        "Only ranks that are not the root may give None for the second.",
    ),
    (
        TypeError,
        r"message: expecting buffer",
        r"I?Scatterv?$",
        "The first array is what the root hands out, the second is where this rank puts its part. "
        "Only ranks that are not the root may give None for the first.",
    ),
    (TypeError, r"message: expecting buffer", r"[A-Z]", _CAPITALS),
    (
        (TypeError, ValueError),
        r"a bytes-like object is required|message: expecting 2 to 4 items",
        r"[A-Z]",
        "A list is no array. Write comm.Send(np.array([1, 2, 3]), dest=1), or, without a capital "
        f"letter, comm.send([1, 2, 3], dest=1). {_CAPITALS}",
    ),
    (
        BufferError,
        r".*not contiguous",
        r"",
        "The elements of this array do not lie side by side, as in a column of a matrix. Send "
        "np.ascontiguousarray(field[:, -1]). Receive into an array of its own, and then copy: "
        "field[:, -1] = column. Or describe where they lie by a derived datatype, as lesson 07 "
        "does.",
    ),
    (
        BufferError,
        r"scalar buffer is readonly",
        r"",
        "One element is a number, and no array that could be written to: give field[-1:], an array "
        "of one element, in place of field[-1].",
    ),
    (
        BufferError,
        r".*(not writable|readonly|read-only)",
        r"",
        "What is received is written into the array, and this one cannot be written to: "
        "np.empty(n) makes one.",
    ),
    (
        ValueError,
        r"message: cannot infer count",
        r"",
        "Each rank gets, or hands in, equally many elements: the root's array has as many for each "
        "rank. Where they differ, Scatterv and Gatherv take counts.",
    ),
    (
        ValueError,
        r"mismatch in send",
        r"",
        "Both arrays of this call hold equally many elements, of the same dtype: "
        "np.empty_like(x) makes one like x.",
    ),
    (
        Exception,
        r".*no such rank",
        r"",
        "rank + 1 of the last rank is no rank, nor is rank - 1 of rank 0. Go around, by "
        "(rank + 1) % size or (rank - 1) % size, or leave the call out there: if rank > 0.",
    ),
    (
        TypeError,
        r"I?[Rr]ecv\(\) takes at least 1 ",
        r"",
        "Recv fills an array that it is handed: comm.Recv(array, source=0). recv, without a "
        "capital letter, returns what came.",
    ),
    (
        pickle.UnpicklingError,
        r"",
        r"recv$",
        "recv takes what send has packed. This message came from Send, with a capital letter: "
        "Recv takes that, into an array.",
    ),
    (  # without a buffer it makes room for whatever comes
        Exception,
        r".*truncated",
        r"recv$",
        "The first argument of recv is a buffer. Name the rank: recv(source=0).",
    ),
    (
        Exception,
        r".*truncated",
        r"(wait|test)",
        "irecv has room for 32 kB. Use recv, which makes room for any message, or hand irecv more: "
        "comm.irecv(bytearray(1_000_000), source=0).",
    ),
    (
        TypeError,
        r".*mpi4py\.MPI\.P?[Rr]equest",
        r"",
        "A method that begins with i or I returns a request. What irecv receives is what "
        "request.wait() returns; what Irecv receives is in its array after request.Wait().",
    ),
    (
        TypeError,
        r".*not (iterable|callable)",
        r"i?(all)?reduce|(ex)?scan",
        "op is one of MPI's operations, MPI.SUM, MPI.MAX or MPI.MIN, or a function of two values.",
    ),
    (
        Exception,
        r".*truncated",
        r"Recv$",
        "If it was sent by send, without a capital letter: that packs an object, which is longer "
        "than its numbers and is received by recv.",
    ),
    (
        StdinNotImplementedError,
        r"",
        r"",
        "A rank has no keyboard: set the value in the cell, or ask in a cell without %%px and send "
        'it to the ranks, cluster.view["n"] = int(input()).',
    ),
]


# Where there is None in place of a value: what the cell calls, and what helps.
_NONE = {
    r"\.(gather|reduce)\(": (
        "gather and reduce return what they have made to the root alone, and None to all others: "
        "allgather and allreduce return it to all."
    ),
    r"\.bcast\(": "bcast returns what it has received: data = comm.bcast(data, root=0).",
    r"\.scatter\(": "scatter returns each rank's part of what the root has handed in.",
    r"\.(Recv|Bcast|Scatter|Gather|Reduce|Allreduce|Allgather)\(": (
        "Methods with a capital letter return None: what comes is in the array they are handed."
    ),
}


def _of_none(error: BaseException, codes: list) -> str:
    if not isinstance(error, TypeError | AttributeError) or "NoneType" not in str(error):
        return ""
    source = "".join(line for code in codes for line in linecache.getlines(code.co_filename))
    return next((words for calls, words in _NONE.items() if re.search(calls, source)), "")


def with_advice(error: BaseException) -> BaseException:
    """The error; one that beginners meet with a note of what helps."""
    codes = [frame.f_code for frame, _ in tracebacks.walk_tb(error.__traceback__)]
    called = [code.co_name for code in codes if code.co_filename.startswith("src/mpi4py/")]
    method = next(iter(called), "").rpartition(".")[2]
    for kind, says, where, advice in _ADVICE:
        if isinstance(error, kind) and re.match(says, str(error), re.S) and re.match(where, method):
            error.add_note(advice)
            return error
    own = [code for code in codes if not code.co_filename.startswith(LIBRARIES)]
    if advice := _of_none(error, own[-1:]):
        error.add_note(advice)
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
