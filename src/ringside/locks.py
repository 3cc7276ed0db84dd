"""Locks that end with their holder, however it ends: by kill -9 too."""

import fcntl
import time
from pathlib import Path


class Lock:
    """An exclusive lock on a file, held until `release` or the end of this process."""

    def __init__(self, path: Path):
        self.path = path
        self._file = None

    def acquire(self, wait: float = 0.0) -> bool:
        """Take the lock, for at most `wait` seconds; False when another holder kept it.

        Raises OSError where the file system has no locks, or no room.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + wait
        file = open(self.path, "a")
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    file.close()
                    return False
                time.sleep(0.02)
            except OSError:
                file.close()
                raise
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
        except BlockingIOError:
            return True
    return False
