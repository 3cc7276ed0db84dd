"""The compiled kernels of `kernels/`, found and called from Python with mpi4py's communicator.

A kernel runs the very object code that `kernels/bin/<kernel>` runs under mpiexec.
"""

import ctypes
import difflib
import operator
from functools import cache
from pathlib import Path

import numpy as np

from ringside import ROOT, mpi

# As in kernels/ringside.h, which says more about each.
WRONG_DATA = -1001
UNKNOWN_VARIANT = -1002
BAD_COUNT = -1003
BAD_REPETITIONS = -1004
ARGUMENTS_DIFFER = -1005
NO_MEMORY = -1006
BAD_RANKS = -1007
BAD_SETTING = -1008
UNSUITABLE = -1009
MAX_REPETITIONS = 1_000_000


class _Setting(ctypes.Structure):
    """struct ringside_setting."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("default", ctypes.c_int64),
        ("minimum", ctypes.c_int64),
        ("maximum", ctypes.c_int64),
        ("meaning", ctypes.c_char_p),
    ]


class _Kernel(ctypes.Structure):
    """The beginning of struct ringside_kernel: what there is to know of it."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("unit", ctypes.c_char_p),
        ("unit_bytes", ctypes.c_int64),
        ("default_count", ctypes.c_int64),
        ("maximum_count", ctypes.c_int64),
        ("messages", ctypes.c_int),
        ("minimum_ranks", ctypes.c_int),
        ("halos", ctypes.c_int),
        ("settings", ctypes.POINTER(_Setting)),
    ]


def directory() -> Path:
    """Where the kernels of this environment's MPI library are built, whether or not they are."""
    return ROOT / "kernels" / "build" / mpi.name()


def names() -> list[str]:
    """The kernels, in the order of the C table."""
    return list(_kernels())


def variants(kernel: str) -> list[str]:
    """The names of a kernel's variants, in the order of the C table."""
    return list(_about(kernel)["variants"])


def settings(kernel: str) -> dict[str, str]:
    """The kernel's settings by name, each with its meaning and its default."""
    return {
        name: f"{setting.meaning.decode()} ({setting.default})"
        for name, setting in _about(kernel)["settings"].items()
    }


def unit(kernel: str) -> str:
    """What the kernel counts a message's length in: "doubles" or "bytes"."""
    return _about(kernel)["unit"]


def unit_bytes(kernel: str) -> int:
    """Bytes of one unit of the kernel's message length: 8 for doubles, 1 for bytes."""
    return _about(kernel)["unit_bytes"]


def default_count(kernel: str) -> int:
    """The length of a message, in the kernel's unit, where none is given."""
    return _about(kernel)["default_count"]


def ring(comm, variant: str, doubles: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Pass `doubles` doubles around the ring of `comm`. Everything else is said at `run`."""
    return run("ring", comm, variant, doubles, reps, **settings)


def pingpong(comm, variant: str, nbytes: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Throw `nbytes` bytes from rank 0 to rank `partner` (1) and back; seconds of a round trip,
    zero on all other ranks. Everything else is said at `run`."""
    return run("pingpong", comm, variant, nbytes, reps, **settings)


def ringshift(comm, variant: str, nbytes: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Pass `nbytes` bytes to the right, all ranks at once. Everything else is said at `run`."""
    return run("ringshift", comm, variant, nbytes, reps, **settings)


def matrix(comm, variant: str, doubles: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Scatter a matrix of `doubles` doubles from rank 0 in blocks, and gather it again; seconds of
    both together. `columns` (0: as square as can be) must divide `doubles`, and `grid`, the rows of
    the grid of ranks (0: as MPI chooses), their number. Everything else is said at `run`."""
    return run("matrix", comm, variant, doubles, reps, **settings)


def bcast(comm, variant: str, doubles: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Send the vector of `doubles` doubles that rank `root` (0) has to every rank; seconds until
    this rank has done its part. `piece` (8192): doubles in a piece of the chain. Everything else is
    said at `run`."""
    return run("bcast", comm, variant, doubles, reps, **settings)


def allreduce(comm, variant: str, doubles: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Sum up the ranks' vectors of `doubles` doubles on every rank. Everything else is said at
    `run`."""
    return run("allreduce", comm, variant, doubles, reps, **settings)


def halo(comm, variant: str, doubles: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Swap faces of `doubles` doubles with all six neighbours in a periodic grid; seconds of one
    exchange. ValueError, with the reason, where `why` says that it cannot be done. Everything else
    is said at `run`."""
    return run("halo", comm, variant, doubles, reps, **settings)


def why(kernel: str, comm, variant: str) -> str | None:
    """Why a variant cannot be carried out on `comm`, or else what to know of it there, if anything.

    Collective, as it sets the variant up.
    """
    about = _about(kernel)
    _check_comm(comm)
    check_name(f"{kernel} has no variant", variant, about["variants"])
    return _why(about, comm, variant)


def halo_exchange(comm, method: str, outgoing: np.ndarray, incoming: np.ndarray) -> None:
    """Swap your own halos once by a method of the kernel `halo`.

    Both arrays hold six faces of doubles, shape (6, ...): towards lower and towards higher
    coordinates of the first dimension, then of the second and the third. `outgoing[0]` becomes
    `incoming[1]` of the neighbour towards lower coordinates, and so on. The grid is that of `comm`
    (of `comm.Create_cart`, periodic in three dimensions), or one that MPI chooses.

    Collective: every rank calls it with the same method and faces of the same length. Raises as
    `run` does; after an error `incoming` is as it was.
    """
    from mpi4py import MPI

    _check_comm(comm)
    check_name("halo has no variant", method, _about("halo")["variants"])
    for name, array in (("outgoing", outgoing), ("incoming", incoming)):
        _check_faces(name, array)
    if outgoing.shape != incoming.shape:
        raise ValueError(
            f"outgoing and incoming must have one shape, not {outgoing.shape} and {incoming.shape}."
        )
    if not incoming.flags.writeable:
        raise ValueError("incoming must be an array that can be written to.")
    pointer = ctypes.POINTER(ctypes.c_double)
    doubles = outgoing.size // 6
    code = _library().ringside_halo_exchange(
        _handle(comm),
        method.encode(),
        ctypes.c_int64(doubles),
        outgoing.ctypes.data_as(pointer),
        incoming.ctypes.data_as(pointer),
    )
    if code != MPI.SUCCESS:
        raise _error(code, "halo", method, comm, doubles, 1, 0)


def heat(comm, variant: str, block: np.ndarray, steps: int = 1, rate: float = 0.25) -> float:
    """Advance the heat equation by `steps` explicit steps, in place; this rank's seconds.

    Collective. The ranks form a grid, not periodic, as `MPI.Compute_dims(comm.size, 2)` says, in
    row order. `block`: float64, C-contiguous, shape (rows + 2, columns + 2): this rank's cells with
    a rim, which is filled from the neighbours and is the fixed boundary where there is none. Ranks
    beside each other hold as many rows, those below each other as many columns. `rate` is at most
    0.25 (time step times conductivity, by the square of the spacing). `variant`: "waitall" or
    "overlap".

    Raises ValueError for input that cannot work, before any message is sent, and MPI.Exception;
    after an error `block` is as it was.
    """
    from mpi4py import MPI

    _check_comm(comm)
    check_name("heat has no variant", variant, _about("heat")["variants"])
    steps = whole("steps", steps, 0, 2**31 - 1)
    good = isinstance(block, np.ndarray) and block.dtype == float and block.ndim == 2
    if not good or not block.flags.c_contiguous or min(block.shape) < 3:
        raise ValueError(
            "block must be a C-contiguous array of float64 with at least one cell and its rim, "
            "shape (rows + 2, columns + 2): np.zeros((rows + 2, columns + 2))."
        )
    if not 0 < rate <= 0.25:
        raise ValueError(f"rate must lie above 0 and be at most 0.25 to be stable, not {rate}.")
    seconds = ctypes.c_double()
    code = _library().ringside_heat_steps(
        _handle(comm),
        variant.encode(),
        block.shape[0] - 2,
        block.shape[1] - 2,
        block.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        steps,
        ctypes.c_double(rate),
        ctypes.byref(seconds),
    )
    if code > 0:
        raise MPI.Exception(code)
    if code == ARGUMENTS_DIFFER:
        raise ValueError(
            "heat: the ranks asked for different things, or their blocks do not fit. Call it on "
            "every rank with the same variant, steps and rate; on the grid of "
            f"{MPI.Compute_dims(comm.size, 2)} ranks, ranks beside each other need as many rows, "
            f"and ranks below each other as many columns (rank {comm.rank}: "
            f"{block.shape[0] - 2} x {block.shape[1] - 2})."
        )
    if code != MPI.SUCCESS:
        raise ValueError(f"heat: a rank has no memory for its block, or bad input (code {code}).")
    return seconds.value


def run(kernel: str, comm, variant: str, count: int, reps: int = 1, **settings: int) -> np.ndarray:
    """Carry out a kernel's exchange `reps` times, each timed and verified.

    `count` is the length of a message in the kernel's unit. Collective: every rank of `comm` (an
    mpi4py communicator) calls it with the same arguments. Returns this rank's seconds per
    repetition, shape (reps,); the slowest rank is what counts.

    Raises ValueError for input that cannot work, before any message is sent; MPI.Exception when an
    MPI call fails, also when the scope breaks a deadlock; RuntimeError when wrong data arrived.
    """
    from mpi4py import MPI

    _check_comm(comm)
    count, reps, chosen = check(kernel, variant, count, reps, comm.size, settings)
    about = _about(kernel)
    seconds = np.zeros(reps)
    wrong = ctypes.c_int64()
    code = _library().ringside_run(
        about["pointer"],
        _handle(comm),
        variant.encode(),
        ctypes.c_int64(count),
        (ctypes.c_int64 * max(1, len(chosen)))(*chosen),
        reps,
        seconds.ctypes.data_as(ctypes.POINTER(ctypes.c_double)),
        ctypes.byref(wrong),
    )
    if code != MPI.SUCCESS:
        raise _error(code, kernel, variant, comm, count, reps, wrong.value)
    return seconds


def _check_comm(comm) -> None:
    from mpi4py import MPI

    if not isinstance(comm, MPI.Comm) or comm == MPI.COMM_NULL:
        raise ValueError(f"comm must be a communicator such as MPI.COMM_WORLD, not {comm!r}.")


def _handle(comm):
    """The communicator as C takes it: an int in mpich, a pointer in Open MPI."""
    from mpi4py import MPI

    is_int = MPI._sizeof(MPI.Comm) == ctypes.sizeof(ctypes.c_int)
    return (ctypes.c_int if is_int else ctypes.c_void_p).from_address(MPI._addressof(comm))


def _why(about: dict, comm, variant: str) -> str | None:
    text = _library().ringside_why(about["pointer"], _handle(comm), variant.encode())
    return text and text.decode()


def _check_faces(name: str, array) -> None:
    good = isinstance(array, np.ndarray) and array.dtype == np.float64
    if not (good and array.shape[:1] == (6,) and array.flags.c_contiguous):
        what = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else array
        raise ValueError(
            f"{name} must be a contiguous numpy array of float64, shape (6, ...), a face for each "
            f"direction; it is {what!r}."
        )


def check(
    kernel: str, variant: str, count: int = 0, reps: int = 1, ranks: int | None = None, settings=()
) -> tuple[int, int, list[int]]:
    """`count`, `reps` and all settings (in the order of the C table) as the kernel takes them.

    Raises ValueError for what cannot be carried out, by `ranks` ranks where they are given.
    """
    about = _about(kernel)
    check_name(f"{kernel} has no variant", variant, about["variants"])
    count = whole(about["unit"], count, 0, about["maximum_count"])
    reps = whole("reps", reps, 1, MAX_REPETITIONS)
    chosen = _settings(kernel, about["settings"], dict(settings))
    if ranks is not None and ranks < about["minimum_ranks"]:
        raise ValueError(f"{kernel} needs at least {about['minimum_ranks']} ranks.")
    return count, reps, chosen


def _about(kernel: str) -> dict:
    check_name("There is no kernel", kernel, _kernels())
    return _kernels()[kernel]


def check_name(what: str, name: str, known) -> None:
    """Raise ValueError, with what was probably meant, unless the name is one of those known."""
    if name in known:
        return
    close = difflib.get_close_matches(str(name), known, n=1)
    meant = f" Did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{what} {name!r}.{meant} There are: {', '.join(known) or 'none'}.")


def _settings(kernel: str, known: dict[str, _Setting], given: dict[str, int]) -> list[int]:
    """All settings in the order of the C table, as given or by default."""
    for name in given:
        check_name(f"{kernel} has no setting", name, known)
    return [
        whole(name, given.get(name, setting.default), setting.minimum, setting.maximum)
        for name, setting in known.items()
    ]


def whole(name: str, value, low: int, high: int) -> int:
    """The value as an int between low and high; 5e6 is welcome, 2.5 is not."""
    try:
        if isinstance(value, bool):
            raise TypeError
        exact = isinstance(value, float) and value.is_integer()
        number = int(value) if exact else operator.index(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a whole number, not {value!r}.") from None
    if not low <= number <= high:
        raise ValueError(f"{name} must lie between {low} and {high:,}, and {number:,} does not.")
    return number


def _error(
    code: int, kernel: str, variant: str, comm, count: int, reps: int, wrong: int
) -> Exception:
    """The exception for a kernel's return code."""
    from mpi4py import MPI

    about = _about(kernel)
    what, unit = f"{kernel}, variant {variant!r}", about["unit"]
    if code > 0:
        return MPI.Exception(code)
    if code == WRONG_DATA:
        expected = count * reps * (about["halos"] or 1)
        return RuntimeError(
            f"{what}: rank {comm.rank} received {wrong:,} wrong elements of {expected:,} "
            f"({reps} repetitions). The message did not arrive as it was sent."
        )
    if code == NO_MEMORY:
        need = 1e-9 * count * about["unit_bytes"] * about["messages"]
        available = 1e-9 * _library().ringside_available_bytes()
        return ValueError(
            f"{count:,} {unit} need {need:.1f} GB on every rank ({about['messages']} messages), "
            f"and this node has {available:.1f} GB left for all its ranks. Choose fewer {unit} or "
            "fewer ranks."
        )
    if code == UNSUITABLE:
        reason = _why(about, comm, variant) or "the MPI library refuses it"
        return ValueError(f"{what}, cannot be done here: {reason}.")
    if code == BAD_SETTING:
        return ValueError(
            f"{what}: a setting does not suit {comm.size} ranks. There are: "
            + "; ".join(f"{name}: {meaning}" for name, meaning in settings(kernel).items())
        )
    same = (
        f"Call it on every rank with the same variant, {unit}, reps and settings "
        f"(rank {comm.rank}: {unit}={count}, reps={reps})."
    )
    if code == ARGUMENTS_DIFFER:
        return ValueError(f"{what}: the ranks asked for different things. {same}")
    if code in (UNKNOWN_VARIANT, BAD_COUNT, BAD_REPETITIONS, BAD_RANKS):
        return ValueError(
            f"{what}: another rank asked for something that cannot work (code {code}). {same}"
        )
    return RuntimeError(f"{what} returned {code}, which is not known: run `make kernels`.")


@cache
def _kernels() -> dict[str, dict]:
    """What the library says of each of its kernels."""
    library, found = _library(), {}
    while pointer := library.ringside_kernel(len(found)):
        about, settings, variants = pointer.contents, {}, []
        while about.settings[len(settings)].name:
            setting = about.settings[len(settings)]
            settings[setting.name.decode()] = setting
        while name := library.ringside_variant(pointer, len(variants)):
            variants.append(name.decode())
        found[about.name.decode()] = {
            "pointer": pointer,
            "unit": about.unit.decode(),
            "unit_bytes": about.unit_bytes,
            "default_count": about.default_count,
            "maximum_count": about.maximum_count,
            "messages": about.messages,
            "minimum_ranks": about.minimum_ranks,
            "halos": about.halos,
            "variants": variants,
            "settings": settings,
        }
    return found


@cache
def _library() -> ctypes.CDLL:
    """libkernels.so. In an engine the scope is already loaded and sees the kernels' MPI calls."""
    path = directory() / "libkernels.so"
    if not path.exists():
        raise FileNotFoundError(
            f"The kernels for the MPI library '{mpi.name()}' are not built ({path} is missing). "
            "Run `make kernels` in the project's folder"
            + ("." if mpi.name() == "mpich" else f" with MPI={mpi.name()}.")
        )
    try:
        library = ctypes.CDLL(str(path))  # a CDLL call lets go of the GIL
    except OSError as error:
        raise OSError(
            f"The kernels did not load ({error}). They were probably built for another "
            "environment: run `make clean` and `make kernels` in the project's folder."
        ) from None
    library.ringside_kernel.argtypes = [ctypes.c_int]
    library.ringside_kernel.restype = ctypes.POINTER(_Kernel)
    library.ringside_variant.argtypes = [ctypes.POINTER(_Kernel), ctypes.c_int]
    library.ringside_variant.restype = ctypes.c_char_p
    library.ringside_why.restype = ctypes.c_char_p
    library.ringside_available_bytes.argtypes = []
    library.ringside_available_bytes.restype = ctypes.c_int64
    return library
