"""Where a cluster keeps its files, and locks that end with their holder, however it ends.

A cluster lives as long as one client process holds its lease: a locked file of its own in
`leases/`. The operating system releases the lock when the process ends, by kill -9 too.
"""

import fcntl
import os
import shutil
import socket
import time
from pathlib import Path


class Lock:
    """An exclusive lock on a file, held until `release` or the end of this process."""

    def __init__(self, path: Path):
        self.path = path
        self._file = None

    def acquire(self, wait: float = 0.0) -> bool:
        """Take the lock, for at most `wait` seconds; False when another holder kept it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + wait
        file = open(self.path, "a")
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= deadline:
                    file.close()
                    return False
                time.sleep(0.02)
            else:
                self._file = file
                return True

    def release(self) -> None:
        """Give the lock back; the file stays."""
        if self._file is not None:
            self._file.close()
            self._file = None


def held(path: Path) -> bool:
    """Whether some process holds the lock on this file."""
    try:
        file = open(path)
    except OSError:
        return False
    with file:
        try:
            # Shared, so that two askers at the same moment do not take each other for a holder.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def profile() -> Path:
    """The IPython profile of Ringside, below the IPython directory (IPYTHONDIR moves it)."""
    from IPython.paths import get_ipython_dir  # not needed by the engines, and slow

    return Path(get_ipython_dir()) / "profile_ringside"


def directory() -> Path:
    """The files of this machine's cluster: one directory a host, as homes are often shared."""
    return profile() / f"cluster-{socket.gethostname()}"


def profile_of(run: Path) -> Path:
    """The profile a cluster's directory lies in."""
    return run.parent


def start_lock(run: Path) -> Lock:
    """Guards starting, attaching and leaving against each other."""
    return Lock(run.parent / f"{run.name}.lock")


def controller_lock(run: Path) -> Path:
    """Locked by the controller for as long as it lives."""
    return run / "controller.lock"


def take(run: Path) -> Lock:
    """This process's lease on the cluster in `run`."""
    name = f"{os.getpid()}-{time.monotonic_ns()}"
    lease = Lock(run / "leases" / name)
    lease.acquire()
    return lease


def leases(run: Path) -> list[Path]:
    """The leases still held; those of dead processes are removed."""
    alive = []
    for path in sorted((run / "leases").glob("*")):
        if held(path):
            alive.append(path)
        else:
            path.unlink(missing_ok=True)
    return alive


def clear(run: Path) -> None:
    """Remove the files of a cluster that no longer lives."""
    shutil.rmtree(run, ignore_errors=True)
