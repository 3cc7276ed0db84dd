"""The compiled kernels of `kernels/`, found and called from Python with mpi4py's communicator.

A kernel runs the very object code that `kernels/bin/ring` runs under mpiexec.
"""

import ctypes
import difflib
import operator
from functools import cache
from pathlib import Path

import numpy as np

from ringside import mpi

# As in kernels/ringside.h, which says more about each.
WRONG_DATA = -1001
UNKNOWN_VARIANT = -1002
BAD_COUNT = -1003
BAD_REPETITIONS = -1004
ARGUMENTS_DIFFER = -1005
NO_MEMORY = -1006
MAX_DOUBLES = 2**31 - 1
MAX_REPETITIONS = 1_000_000

ROOT = Path(__file__).resolve().parents[2]


def directory() -> Path:
    """Where the kernels of this environment's MPI library are built, whether or not they are."""
    return ROOT / "kernels" / "build" / mpi.name()


def variants(kernel: str) -> list[str]:
    """The names of a kernel's variants, in the order of the C table."""
    if kernel != "ring":
        raise ValueError(f"There is no kernel {kernel!r}. There is: ring.")
    names = []
    while name := _library().ringside_ring_variant(len(names)):
        names.append(name.decode())
    return names


def ring(comm, variant: str, doubles: int, reps: int = 1) -> np.ndarray:
    """Exchange `doubles` doubles around the ring of `comm`, `reps` times, each timed and verified.

    Collective: every rank of `comm` (an mpi4py communicator) calls it with the same arguments.
    Returns this rank's seconds per repetition, shape (reps,); the slowest rank is what counts.

    Raises ValueError for input that cannot work, before any message is sent; MPI.Exception when an
    MPI call fails, also when the scope breaks a deadlock; RuntimeError when wrong data arrived.
    """
    from mpi4py import MPI

    if not isinstance(comm, MPI.Comm) or comm == MPI.COMM_NULL:
        raise ValueError(f"comm must be a communicator such as MPI.COMM_WORLD, not {comm!r}.")
    _check_variant("ring", variant)
    doubles = _whole("doubles", doubles, 0, MAX_DOUBLES)
    reps = _whole("reps", reps, 1, MAX_REPETITIONS)

    # MPI_Comm is an int in mpich and a pointer in Open MPI.
    is_int = MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_int)
    handle = ctypes.c_int if is_int else ctypes.c_void_p
    function = _library().ringside_ring
    function.argtypes = [handle, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int]
    function.argtypes += [ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int64)]
    seconds = np.zeros(reps)
    wrong = ctypes.c_int64()
    code = function(
        handle.from_address(MPI._addressof(comm)),
        variant.encode(),
        doubles,
        reps,
        seconds.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        ctypes.byref(wrong),
    )
    if code != MPI.SUCCESS:
        raise _error(code, f"ring, variant {variant!r}", comm, doubles, reps, wrong.value)
    return seconds


def _check_variant(kernel: str, variant: str) -> None:
    known = variants(kernel)
    if variant in known:
        return
    close = difflib.get_close_matches(str(variant), known, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{kernel} has no variant {variant!r}.{meant} It has: {', '.join(known)}.")


def _whole(name: str, value, low: int, high: int) -> int:
    """The value as an int between low and high; 5e6 is welcome, 2.5 is not."""
    try:
        whole = isinstance(value, float) and value.is_integer()
        number = int(value) if whole else operator.index(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a whole number, not {value!r}.") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must lie between {low} and {high:,}, and {number:,} does not.")
    return number


def _error(code: int, what: str, comm, doubles: int, reps: int, wrong: int) -> Exception:
    """The exception for a kernel's return code."""
    from mpi4py import MPI

    if code > 0:
        return MPI.Exception(code)
    if code == WRONG_DATA:
        return RuntimeError(
            f"{what}: rank {comm.rank} received {wrong:,} wrong elements of {doubles * reps:,} "
            f"({reps} repetitions). The message did not arrive as it was sent."
        )
    if code == NO_MEMORY:
        available = _library().ringside_available_bytes()
        return ValueError(
            f"{doubles:,} doubles need {16e-9 * doubles:.1f} GB on every rank (a message to send "
            f"and one to receive), and this node has {1e-9 * available:.1f} GB left for all its "
            "ranks. Choose fewer doubles or fewer ranks."
        )
    if code == ARGUMENTS_DIFFER:
        return ValueError(
            f"{what}: the ranks asked for different things. Call it on every rank with the same "
            f"variant, doubles and reps (rank {comm.rank}: {doubles=}, {reps=})."
        )
    if code in (UNKNOWN_VARIANT, BAD_COUNT, BAD_REPETITIONS):
        return ValueError(
            f"{what}: another rank asked for something that cannot work (code {code}). Call it on "
            f"every rank with the same variant, doubles and reps (rank {comm.rank}: {doubles=}, "
            f"{reps=})."
        )
    return RuntimeError(f"{what} returned {code}, which is not known: run `make kernels`.")


@cache
def _library() -> ctypes.CDLL:
    """libkernels.so. In an engine the scope is already loaded and sees the kernels' MPI calls."""
    path = directory() / "libkernels.so"
    if not path.exists():
        raise FileNotFoundError(
            f"The kernels for the MPI library '{mpi.name()}' are not built ({path} is missing). "
            "Run `make kernels` in the project's folder"
            + (" with MPI=openmpi." if mpi.name() == "openmpi" else ".")
        )
    try:
        library = ctypes.CDLL(str(path))  # a CDLL call lets go of the GIL
    except OSError as error:
        raise OSError(
            f"The kernels did not load ({error}). They were probably built for another "
            "environment: run `make clean` and `make kernels` in the project's folder."
        ) from None
    library.ringside_ring.restype = ctypes.c_int
    library.ringside_ring_variant.argtypes = [ctypes.c_int]
    library.ringside_ring_variant.restype = ctypes.c_char_p
    library.ringside_available_bytes.argtypes = []
    library.ringside_available_bytes.restype = ctypes.c_int64
    return library
