"""The kernels for a simulated machine: built once, run under limits, and their last words read."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ringside import ROOT, kernels, locks, processes
from ringside.errors import CampaignError
from ringside.simulator import machine
from ringside.simulator.platforms import Platform

BUILT = ROOT / "kernels" / "build" / "simulated"
OWN = ROOT / ".simulator"  # where `make simulator` puts SimGrid
INSTALL = "apt-get install libsimgrid-dev (as root), or make simulator (in Ringside's folder)."
BUILD_LIMIT = 600.0  # seconds
_LOOK = 0.2  # seconds between two looks at a program that runs
_FOLDER, _TO_LOCK = "ringside-simulated-", 60.0  # seconds in which a new folder gets its lock

# As in kernels/simulated/simulated.c.
_MESSAGE = np.dtype(
    [("kind", "i4"), ("peer", "i4"), ("tag", "i4"), ("request", "i4"), ("bytes", "i8")],
    align=True,
)
_EVENT = np.dtype(
    [
        ("start", "f8"),
        ("end", "f8"),
        ("message", _MESSAGE),
        ("rank", "i4"),
        ("line", "i4"),
        ("call", "S28"),
        ("file", "S20"),
    ],
    align=True,
)
_STATE = np.dtype(
    [
        ("since", "f8"),
        ("inside", "i4"),
        ("line", "i4"),
        ("count", "i4"),
        ("call", "S28"),
        ("file", "S20"),
        ("needs", _MESSAGE, (64,)),
    ],
    align=True,
)
_KINDS = {1: "send", 2: "recv"}


class Failed(Exception):
    """A kernel could not be simulated; the text says why and what to do."""


class Stuck(Failed):
    """No rank could go on. `states`: what each was in, as the scope's states; `seconds`: when, on
    the machine's clock; `events`: what had been done, where they were asked for."""

    def __init__(self, text: str, states: list[dict], seconds: float, events=None):
        super().__init__(text)
        self.states, self.seconds, self.events = states, seconds, events


@dataclass(frozen=True)
class Outcome:
    """What a program printed, its calls (None: not asked for), and what it cost us: seconds of
    ours, and the most bytes of memory."""

    printed: str
    events: np.ndarray | None
    seconds: float
    memory: int


def find(program: str) -> str:
    """SimGrid's smpicc or smpirun: that of `make simulator`, or the one on the PATH."""
    own = OWN / "bin" / program
    found = str(own) if own.exists() else shutil.which(program)
    if found is None:
        raise CampaignError(
            f"there is no {program}, and a simulated machine needs SimGrid: {INSTALL}"
        )
    return found


@cache
def version() -> str:
    """How SimGrid names itself: "SimGrid 3.32"."""
    find("smpicc")
    said = subprocess.run(
        [find("smpirun"), "-version"],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    ).stdout
    number = re.search(r"\d+(\.\d+)+", said)
    return f"SimGrid {number[0]}" if number else "SimGrid"


def build() -> None:
    """Build what has changed since the last time; CampaignError says what the compiler said."""
    compiler = find("smpicc")
    if shutil.which("make") is None:
        raise CampaignError("there is no make, which builds the kernels: apt-get install make.")
    lock = locks.Lock(BUILT / "lock")
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-C", ROOT / "kernels", "MPI=simulated", f"MPICC={compiler}", "programs"]
    # Another version of SimGrid is another flag, with which all is built anew.
    command.append(f"EXTRA_CFLAGS=-DBUILT_FOR={version().rpartition(' ')[2]}")
    try:
        if not lock.acquire(BUILD_LIMIT):
            raise CampaignError(f"another process has been building {BUILT} for too long.")
    except OSError as error:
        if all((BUILT / "bin" / name).exists() for name in kernels.names()):
            return  # by whoever may write there
        raise CampaignError(
            f"the kernels are not built for a simulated machine, and {BUILT} cannot be written "
            f"({error.strerror}). Whoever keeps this checkout has to simulate something once."
        ) from None
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_LIMIT,
            env=own,  # nothing of a make that this runs under
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CampaignError(f"the kernels were not built within {BUILD_LIMIT:g} s.") from None
    finally:
        lock.release()
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "rror" in line][:3]
        raise CampaignError(
            "the kernels cannot be built for a simulated machine:\n"
            + "\n".join(errors or done.stderr.splitlines()[-3:])
        )


def carry_out(
    kernel: str,
    options: list[str],
    *,
    platform: Platform,
    ranks: int,
    nodes: int,
    limit: float,
    memory: float,
    events: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Outcome:
    """Simulate kernels/build/simulated/bin/<kernel> with these options.

    It may take `limit` seconds of ours and `memory` bytes; what it takes is told meanwhile. Raises
    CampaignError for what cannot be begun, Stuck for a deadlock, and Failed for all else that ends
    it early. However it ends, no process and no file is left.
    """
    machine.check(platform, ranks, nodes)
    build()
    try:
        with _place() as place:
            (place / "platform.xml").write_text(machine.xml(platform, ranks, nodes))
            (place / "hosts").write_text(machine.hosts(ranks, nodes))
            shutil.copy2(BUILT / "bin" / kernel, place)  # smpirun bears no space in its path
            command = _command(platform, kernel, options, ranks)
            done = _run(place, command, limit, memory, events, tell)
            return _judge(place, done, kernel, limit, memory, events)
    except OSError as error:
        raise Failed(f"files or processes could not be made: {error}.") from None


@contextlib.contextmanager
def _place() -> Iterator[Path]:
    """A folder for one run, with a lock that says so; folders whose run was killed are removed."""
    for old in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*"):
        with contextlib.suppress(OSError):
            new = time.time() - old.stat().st_mtime < _TO_LOCK
            if not new and not locks.held(old / "lock"):
                shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        lock = locks.Lock(Path(folder) / "lock")
        lock.acquire()
        try:
            yield Path(folder)
        finally:
            lock.release()


def _command(platform: Platform, kernel: str, options: list[str], ranks: int) -> list[str]:
    told = [f"--cfg={key}:{value}" for key, value in machine.settings(platform).items()]
    told += ["--log=root.thresh:warning"]
    where = ["-platform", "platform.xml", "-hostfile", "hosts", "-np", str(ranks)]
    return [find("smpirun"), "-quiet", "-no-privatize", *where, *told, f"./{kernel}", *options]


@dataclass(frozen=True)
class _Done:
    """How a program ended. `ended`: by us, "time" or "memory"."""

    status: int
    out: str
    err: str
    ended: str
    seconds: float
    memory: int


def _run(place: Path, command: list[str], limit: float, memory: float, events: bool, tell) -> _Done:
    # Relative to `place`: smpirun bears no space in these either.
    environment = os.environ | {"RINGSIDE_STATES": "states", "TMPDIR": "."}
    if events:
        environment["RINGSIDE_EVENTS"] = "events"
    begun, ended, most = time.monotonic(), "", 0
    with open(place / "out", "wb") as out, open(place / "err", "wb") as err:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=place,
            env=environment,
            start_new_session=True,
            preexec_fn=_begin(),
        )
        try:
            while process.poll() is None and not ended:
                passed, now = time.monotonic() - begun, _resident(process.pid)
                most = max(most, now)
                ended = "time" if passed > limit else "memory" if now > memory else ""
                tell(f"{passed:.0f} s of at most {limit:.0f} s, {now / 1e9:.1f} GB")
                try:
                    process.wait(min(_LOOK, 0.01 + passed / 10))
                except subprocess.TimeoutExpired:
                    continue
        finally:
            processes.kill_group(process.pid)
            process.wait()
    said = [(place / name).read_text(errors="replace") for name in ("out", "err")]
    return _Done(process.returncode, *said, ended, time.monotonic() - begun, most)


def _begin() -> Callable[[], None]:
    """In the child: it ends with us. No huge pages: the buffers of a thousand ranks would each
    take a multiple of 2 MB."""
    tie, prctl = processes.ends_with_us(signal.SIGTERM), ctypes.CDLL(None).prctl
    disable_huge_pages = 41  # PR_SET_THP_DISABLE in <sys/prctl.h>

    def begin():
        tie()
        prctl(disable_huge_pages, 1, 0, 0, 0)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return begin


def _resident(group: int) -> int:
    """Bytes of memory of a process and its children."""
    import psutil

    total = 0
    try:
        first = psutil.Process(group)
        for process in [first, *first.children(recursive=True)]:
            total += process.memory_info().rss
    except psutil.Error:
        pass
    return total


def _judge(
    place: Path, done: _Done, kernel: str, limit: float, memory: float, events: bool
) -> Outcome:
    """What came of it, or an error that says why nothing did."""
    recorded = _events(place) if events else None
    if done.ended == "time":
        raise Failed(
            f"did not end within {limit:g} s of ours, and was ended. Give it a longer `limit`, "
            "fewer ranks, shorter messages or fewer repetitions."
        )
    if done.ended == "memory":
        raise Failed(
            f"took more than {memory / 1e9:.3g} GB, and was ended. All ranks have their buffers "
            "here: choose shorter messages or fewer ranks, or give it more `memory`."
        )
    if "Deadlock detected" in done.err:
        states, seconds = _states(place), _clock(done.err)
        raise Stuck("no rank can go on", states, seconds, recorded)
    own = [line for line in done.err.splitlines() if line.startswith(f"{kernel}: ")]
    if done.status:
        raise Failed(own[0] if own else f"ended with status {done.status}. {_last(done)}")
    return Outcome(done.out, recorded, done.seconds, done.memory)


def _clock(err: str) -> float:
    """The simulated seconds of SimGrid's last line."""
    found = re.findall(r"^\[(?:\S+:)?\s*(\d+\.\d+)\]", err, re.MULTILINE)
    return float(found[-1]) if found else 0.0


_SIGNALS = {
    "Segmentation fault": "The program crashed (segmentation fault)",
    "std::bad_alloc": "No memory was left",
    "Cannot allocate memory": "No memory was left",
    "Failed to allocate": "No memory was left",
    "Not yet implemented": "It calls what SimGrid has not got",
}


def _last(done: _Done) -> str:
    """Why it ended, as far as its last words tell."""
    for sign, words in _SIGNALS.items():
        for line in done.err.splitlines():
            if sign in line:
                name = re.search(r"P?MPI_\w+", line)
                return f"{words}: {name[0].removeprefix('P')}" if name else f"{words}."
    if done.status == 128 + signal.SIGKILL:
        return "It was killed from outside: by the system, if no memory was left."
    if done.status == 128 + signal.SIGBUS:
        return f"No room was left for its files in {tempfile.gettempdir()}."
    if found := re.search(r"CRITICAL\] (?:Uncaught exception )?(.+)", done.err):
        return f"SimGrid says: {found[1]}"
    noise = ("Execution failed", "Aborted", "Terminated", "  ->")
    lines = [line for line in done.err.splitlines() if line and not line.startswith(noise)]
    return lines[-1].strip() if lines else ""


def _messages(row) -> list[dict]:
    return [
        {
            "kind": _KINDS[int(one["kind"])],
            "peer": int(one["peer"]),
            "tag": int(one["tag"]),
            "bytes": int(one["bytes"]),
            "comm": 0,
            "targets": [int(one["peer"])] if one["peer"] >= 0 else [],
        }
        for one in row["needs"][: row["count"]]
        if int(one["kind"]) in _KINDS
    ]


def _states(place: Path) -> list[dict]:
    """What each rank was in, as the scope's states; `at`: file and line of the call."""
    path = place / "states"
    found = np.fromfile(path, _STATE) if path.exists() else np.zeros(0, _STATE)
    return [
        {
            "rank": rank,
            "state": "blocked" if row["inside"] else "idle",
            "call": row["call"].decode() if row["inside"] else "",
            "mode": "all",
            "since": float(row["since"]),
            "needs": _messages(row) if row["inside"] else [],
            "posted": 0,
            "at": f"{row['file'].decode()}:{row['line']}" if row["inside"] else "",
        }
        for rank, row in enumerate(found)
    ]


def _events(place: Path) -> np.ndarray:
    """The calls in the order of their starts, with the fields of a cluster's events."""
    path = place / "events"
    raw = np.fromfile(path, _EVENT) if path.exists() else np.zeros(0, _EVENT)
    plain = ("f8", "f8", "f8", "i8", "i8", "i8", "U28", "i4", "i4", "i4", "?", "i4", "U32")
    names = ("start", "end", "blocked", "bytes", "request", "seq", "call", "peer", "tag", "comm")
    names += ("left", "rank", "at")
    found = np.zeros(len(raw), list(zip(names, plain, strict=True)))
    for name in ("start", "end", "rank"):
        found[name] = raw[name]
    for name in ("bytes", "request", "peer", "tag"):
        found[name] = raw["message"][name]
    found["blocked"] = raw["end"] - raw["start"]
    found["call"] = np.char.decode(raw["call"])
    lines = np.char.mod("%d", raw["line"])
    found["at"] = np.char.add(np.char.add(np.char.decode(raw["file"]), ":"), lines)
    found["seq"] = np.arange(len(raw))
    return found[np.lexsort((found["seq"], found["rank"], found["start"]))]
