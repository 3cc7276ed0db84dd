"""What a kernel's cluster has on this machine: its directory, its ranks, and how both go.

A cluster belongs to one process, its owner, which holds a lock in the directory for as long as it
lives; the operating system releases it when the process ends, by kill -9 too.
"""

import itertools
import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from ringside import locks, processes

GRACE = 1.0  # seconds between asking the ranks to end and ending them


@cache  # IPython makes a new temporary one at each call where it cannot write to its own
def profile() -> Path:
    """The IPython profile of Ringside, below the IPython directory (IPYTHONDIR moves it)."""
    from IPython.paths import get_ipython_dir  # not needed by the engines, and slow

    return Path(get_ipython_dir()) / "profile_ringside"


def directory() -> Path:
    """The files of this process's cluster. Homes are shared: the host is part of the name."""
    return profile() / f"cluster-{socket.gethostname()}-{os.getpid()}"


def directories() -> list[Path]:
    """Those of all clusters of this user on this machine, also of dead ones."""
    name = re.compile(rf"cluster-{re.escape(socket.gethostname())}-\d+")
    return sorted(
        one
        for one in profile().glob("cluster-*/")
        if name.fullmatch(one.name) and one.stat().st_uid == os.getuid()
    )


def cluster_id(run: Path) -> str:
    """By which ipyparallel knows the cluster; its files bear it."""
    return run.name.removeprefix("cluster-")


def owner_lock(run: Path) -> Path:
    """Locked by the owner; the ranks and their controller end when it is not."""
    return run / "owner.lock"


def owned(run: Path) -> bool:
    """Whether the process lives to which the cluster belongs."""
    return locks.held(owner_lock(run))


def own(run: Path) -> locks.Lock:
    """Make the directory this process's own, for as long as it holds the lock."""
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = locks.Lock(owner_lock(run))
    if not lock.acquire():
        raise OSError(f"{run} belongs to another process")
    try:
        (run / "owner").write_text(own_name(), errors="replace")
    except OSError:
        clear(run)
        lock.release()
        raise
    return lock


def own_name() -> str:
    """This notebook's file, as Jupyter's server tells its kernels, or the process."""
    if notebook := os.environ.get("JPY_SESSION_NAME"):
        return Path(notebook).name
    return f"process {os.getpid()}"


def start_lock(profile: Path) -> locks.Lock:
    """Guards making a directory, and having its lock, against its clearing by another.

    The profile, with the keys in it, is the user's own whatever the umask.
    """
    profile.mkdir(mode=0o700, parents=True, exist_ok=True)
    return locks.Lock(profile / "ringside.lock")


def owner(run: Path) -> str:
    """Whose cluster it is, in words: a notebook's name where there is one."""
    return read(run, "owner") or "another process"


def taken_by(run: Path) -> Path:
    """Where a notebook leaves its name that has ended this cluster to have its memory."""
    return run / "taken"


def read(run: Path, name: str) -> str:
    """The text of one of its files; empty if there is none."""
    try:
        return (run / name).read_text(errors="replace")
    except OSError:
        return ""


def note_process(run: Path, name: str) -> None:
    """Leave this process's id there, and its beginning, as ids are used again."""
    (run / f"{name}.pid").write_text(f"{os.getpid()} {processes.begun(os.getpid())}")


def process(run: Path, name: str) -> int | None:
    """The id of the process of that name, unless it has ended and another has its id."""
    pid, _, begun = read(run, f"{name}.pid").partition(" ")
    return int(pid) if pid and processes.begun(int(pid)) == begun else None


def pids(run: Path) -> dict[int, int | None]:
    """Process id of every rank that has got as far as starting; None: it has ended."""
    names = sorted(path.stem for path in run.glob("rank-*.pid") if read(run, path.name))
    return {int(name.split("-")[1]): process(run, name) for name in names}


def note_silent(run: Path, uuids: set[str]) -> None:
    """Leave which engines have been silent for some seconds, as the controller hears them."""
    new = run / "silent.new"
    new.write_text("\n".join(sorted(uuids)))
    new.replace(run / "silent")


def silent(run: Path) -> set[str]:
    """Those engines."""
    return set(read(run, "silent").split())


def living(run: Path) -> list[int]:
    """The process ids of the ranks that live."""
    return [pid for pid in pids(run).values() if pid is not None]


def note_shared_memory(run: Path) -> set[str]:
    """The shared-memory files the ranks have had so far, kept for whoever ends them."""
    known = set(read(run, "shared-memory").splitlines())
    files = known | processes.shared_memory(living(run))
    if files != known and run.is_dir():
        new = run / f"shared-memory.{os.getpid()}"
        new.write_text("".join(f"{file}\n" for file in sorted(files)))
        new.replace(run / "shared-memory")
    return files


def _ranks(run: Path) -> set[int]:
    """Process ids of the ranks and of what they have forked, also before they have said theirs."""
    ours, found = f"RINGSIDE_RUN={run}".encode(), set(living(run))
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if ours in (process / "environ").read_bytes().split(b"\0"):
                program, *words = (process / "cmdline").read_bytes().split(b"\0")
                if b"python" in os.path.basename(program) and b"ringside.engine" in words:
                    found.add(int(process.name))
        except OSError:  # another user's, or gone
            continue
    return found


@contextmanager
def passing(run: Path, name: str) -> Iterator[Path]:
    """An empty file in the cluster's directory, removed at the end of the block."""
    path = run / name
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def end_ranks(run: Path, grace: float = GRACE) -> None:
    """End the ranks: ask, wait for `grace` seconds, insist; remove the memory they shared."""
    ranks = _ranks(run)
    processes.halt(ranks)  # so that they make no more of it
    shared = note_shared_memory(run) | processes.shared_memory(ranks)
    if grace:
        processes.terminate(ranks)
        processes.resume(ranks)
        deadline = time.monotonic() + grace
        # Nothing is read meanwhile: that keeps stuck ranks, which yield all the time, from letting
        # anybody else run (seen on Linux 6.18: for seconds, once for a minute).
        while any(map(processes.alive, ranks)) and time.monotonic() < deadline:
            time.sleep(0.02)
    rest = {pid for pid in ranks | _ranks(run) if processes.alive(pid)}
    processes.halt(rest)
    shared |= processes.shared_memory(rest)
    processes.kill(rest)
    processes.remove(shared)


def temporary(run: Path) -> Path:
    """A directory for what mpiexec has while it runs, which it leaves when it is killed."""
    link = run / "temporary"
    if not link.is_dir():
        link.unlink(missing_ok=True)
        link.symlink_to(tempfile.mkdtemp(prefix="ringside-"))
    return link.resolve()


def forget_controller(run: Path) -> None:
    """Remove how to reach the cluster's controller, which has ended."""
    name = cluster_id(run)
    for whose, end in itertools.product(("client", "engine"), ("json", "new")):
        (run.parent / "security" / f"ipcontroller-{name}-{whose}.{end}").unlink(missing_ok=True)


def clear(run: Path) -> None:
    """Remove the files of a cluster that no longer lives."""
    name = cluster_id(run)
    forget_controller(run)
    for room, files in {
        "security": [f"cluster-{name}.json"],
        "log": [f"ipcontroller-{name}.log"],
        "pid": [f"ipcontroller-{name}.pid"],
    }.items():
        for file in files:
            (run.parent / room / file).unlink(missing_ok=True)
    shutil.rmtree((run / "temporary").resolve(), ignore_errors=True)
    shutil.rmtree(run, ignore_errors=True)


def log_tail(run: Path, name: str, lines: int = 15) -> str:
    """The end of a log, each line once, as every rank says the same but for its addresses."""
    written = [line.rstrip() for line in read(run, name).splitlines() if line.strip()]
    last = {re.sub("0x[0-9a-f]+", "", line): line for line in written}
    return "\n".join(list(last.values())[-lines:])
