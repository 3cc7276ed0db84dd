"""The scope, seen from inside an engine: the Python face of `scope/*.c`.

`load()` comes before mpi4py's MPI module. Everything else can be called at any time, from any
thread, also while the main thread is stuck in an MPI call.
"""

import ctypes
import json
import os
from collections.abc import Callable
from contextlib import contextmanager
from enum import IntEnum

import numpy as np

from ringside.kernels import directory

EVENT = np.dtype(
    [
        ("start", "f8"),
        ("end", "f8"),
        ("blocked", "f8"),
        ("bytes", "i8"),
        ("request", "i8"),
        ("seq", "i8"),
        ("call", "i4"),
        ("peer", "i4"),
        ("tag", "i4"),
        ("comm", "i4"),
        ("left", "i4"),
        ("origin", "i4"),
    ],
    align=True,
)

_library = None
_listener = None


class Stop(IntEnum):
    """Why all ranks are asked to leave the calls in which they are stuck."""

    NONE = 0
    USER = 1
    STARVED = 2  # nobody is left who could help
    CLEAR = 3  # all are idle, and the last cell ended in an error
    CLEAR_ALL = 4  # all are idle, and the reader asks for it


def load() -> None:
    """Puts the scope between this process and MPI. Raises FileNotFoundError if it is not built."""
    global _library
    path = directory() / "libscope.so"
    if not path.exists():
        raise FileNotFoundError(
            f"The scope is not built: there is no {path}. Run `make kernels`, then start again."
        )
    library = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    for name in ("scope_state", "scope_told", "scope_settle"):
        getattr(library, name).restype = ctypes.c_void_p
    library.scope_quiet.argtypes = [ctypes.c_double]
    library.scope_settle.argtypes = [ctypes.c_double, ctypes.c_bool]
    library.scope_release.argtypes = [ctypes.c_void_p]
    for name in ("scope_name", "scope_origin_of"):
        getattr(library, name).restype = ctypes.c_char_p
    library.scope_cell.argtypes = [ctypes.c_char_p]
    library.scope_busy.argtypes = [ctypes.c_bool, ctypes.c_int]
    for name in ("scope_insist", "scope_switch"):
        getattr(library, name).argtypes = [ctypes.c_bool]
    library.scope_step.argtypes = [ctypes.c_int]
    library.scope_network.restype = ctypes.c_bool
    library.scope_network.argtypes = [ctypes.c_char_p] + 2 * [ctypes.c_double]
    library.scope_network.argtypes += [ctypes.c_int, ctypes.c_bool]
    library.scope_events.restype = ctypes.c_longlong
    library.scope_events.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
    _library = library


def _scope() -> ctypes.CDLL:
    if _library is None:
        raise RuntimeError("The scope is not loaded in this process: it lives in the engines.")
    return _library


def _text(function, *arguments) -> dict | None:
    pointer = function(*arguments)
    if not pointer:
        return None
    try:
        return json.loads(ctypes.string_at(pointer))
    finally:
        _scope().scope_release(pointer)


def busy(flag: bool, cell: int = 0) -> None:
    """The cell of that number, the same on all its ranks, begins (True), or one has ended (False).
    Either forgets that the last one was broken."""
    _scope().scope_busy(flag, cell)


def cell(file: str) -> None:
    """The cell that runs from now on is compiled under that name: "": none."""
    _scope().scope_cell(os.fsencode(file))


def settle(limit: float, failed: bool) -> dict:
    """At the end of a cell's own code, which `failed` or not: waits for at most `limit` seconds
    while the ranks compare what they did, and says whether a break happened in this cell
    (`broken`, `generation`, its `report`), whether a call of this rank `raised` it, and, where no
    rank's cell failed, which messages are `unreceived` and which collective only some ranks have
    been in (`partly`, or None). `misread`: a message whose numbers this rank took for another
    kind than was sent, or None. `open`: requests of this rank that are not completed. `unranked`:
    calls of the cell whose other side was MPI_PROC_NULL or MPI_ANY_SOURCE."""
    return _text(_scope().scope_settle, limit, failed)


def quiet(seconds: float) -> None:
    """How long a loop of tests may go on before it is suspected."""
    _scope().scope_quiet(seconds)


def thread(by: int) -> None:
    """A thread of the program's own begins (1) or ends (-1): it may call MPI."""
    _scope().scope_thread(by)


@contextmanager
def listening(who: Callable[[int], None]):
    """Meanwhile `who` hears the error code of each call that fails by itself, in its thread, and
    nobody else; then again who did before."""
    global _listener
    before, _listener = _listener, ctypes.CFUNCTYPE(None, ctypes.c_int)(who)
    _scope().scope_listen(_listener)
    try:
        yield
    finally:
        _scope().scope_listen(before)
        _listener = before


def switch(on: bool) -> None:
    """Observes (True), or steps aside for measurements (False). On all ranks alike, with no
    message under way and no request open."""
    _scope().scope_switch(on)


def insist(on: bool) -> None:
    """The Ssend lens: every standard send waits for its receiver, every collective for all. A
    cell that runs goes on as it began."""
    _scope().scope_insist(on)


def step(calls: int) -> None:
    """The stepper: this rank, if it is stopped before a call, makes so many and is stopped again.
    0: it is stopped before its calls from now on; below 0: it is not any more."""
    _scope().scope_step(calls)


def network(path: str | None, latency=0.0, bandwidth=1.0, nodes=1, progress=True) -> bool:
    """The network lens (`ringside.watch.network.Network`): messages are delayed as there. `path`:
    an empty file, the same for all ranks, which may be removed when all have answered; None takes
    the lens off. On all ranks alike, between two cells. Returns whether it is on."""
    where = None if path is None else path.encode()
    return _scope().scope_network(where, latency, bandwidth, nodes, progress)


def stop(reason: int = Stop.USER) -> None:
    """Asks all ranks to leave the calls in which they are stuck. Returns at once."""
    _scope().scope_stop(int(reason))


def state() -> dict:
    """What this rank is doing now: state, call, seconds in it, and what it waits for; `after`:
    seconds since its last call in this cell; `calls`: how many were recorded; `held`: the call
    before which it is stopped, "" where it is not; `insist`: whether the Ssend lens is on; `types`:
    how many derived datatypes it has made and not freed, `types_made`: how many at all; `open`: how
    many requests have begun and are not completed; `changed`: how many arrays were written to
    while they were being sent (where RINGSIDE_CHECK is set); `network`: the network that is played,
    or None; `stop`: the reason it was asked for and has not followed yet, or 0."""
    return _text(_scope().scope_state)


def report() -> dict | None:
    """The last break: its kind, the stuck ranks and the states of all. The same on all ranks."""
    return _text(_scope().scope_told)


def events() -> np.ndarray:
    """The calls seen so far, oldest first: a structured array, `call` by its MPI name, times in
    seconds of this node's monotonic clock; `left` where a break ended the call; `origin`: where it
    was made, 0 where not known. Only the newest 65,536 are kept."""
    library = _scope()
    raw = np.zeros(library.scope_events(None, 0), EVENT)
    raw = raw[: library.scope_events(raw.ctypes.data, len(raw))]
    names = [library.scope_name(i).decode() for i in range(raw["call"].max(initial=0) + 1)]
    kinds = {"call": "U28", "left": "?"}
    table = np.empty(len(raw), [(name, kinds.get(name, EVENT[name])) for name in EVENT.names])
    for name in EVENT.names:
        table[name] = np.array(names)[raw["call"]] if name == "call" else raw[name]
    return table


def origins() -> list[str]:
    """What there is to say of each `origin` of an event (`ringside.watch.origins`), from 1 on."""
    found = []
    while (text := _scope().scope_origin_of(len(found) + 1)) is not None:
        found.append(text.decode("latin-1"))
    return found


def clear() -> None:
    """Forgets the events."""
    _scope().scope_clear()
