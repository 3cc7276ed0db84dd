"""Processes of this machine: told to end with ours, ended, and the shared memory they leave."""

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path


def ends_with_us(number: int = signal.SIGTERM) -> Callable[[], None]:
    """For a child, before it becomes mpiexec: be sent a signal when this process dies, however."""
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl
    set_death_signal = 1  # PR_SET_PDEATHSIG in <sys/prctl.h>

    def tie():
        prctl(set_death_signal, number)
        if os.getppid() != parent:
            os.kill(os.getpid(), number)

    return tie


def begun(pid: int) -> str:
    """When the process began, in the system's ticks: with its id, who it is; empty: it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def alive(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
        return _signal(pid, 0)
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def _signal(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def everyone() -> list[int]:
    """The ids of all processes."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()]


def terminate(processes: Iterable[int]) -> None:
    """Ask the processes to end."""
    for pid in processes:
        _signal(pid, signal.SIGTERM)


def halt(processes: Iterable[int]) -> None:
    """Let the processes do nothing more."""
    for pid in processes:
        _signal(pid, signal.SIGSTOP)


def resume(processes: Iterable[int]) -> None:
    """Let halted processes go on."""
    for pid in processes:
        _signal(pid, signal.SIGCONT)


def kill(processes: Iterable[int]) -> None:
    """End the processes now."""
    for pid in processes:
        _signal(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """End a process and its group now."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def shared_memory(processes: Iterable[int]) -> set[str]:
    """Shared-memory files the processes have open or mapped, as paths below /dev/shm."""
    files = set()
    for pid in processes:
        process = Path(f"/proc/{pid}")
        with contextlib.suppress(OSError):  # it has ended
            lines = (process / "maps").read_text().splitlines()
            files.update(line[line.find("/dev/shm/") :] for line in lines if "/dev/shm/" in line)
            files.update(os.readlink(file) for file in (process / "fd").iterdir())
    return of_shared_memory(files)


def of_shared_memory(files: Iterable[str]) -> set[str]:
    """Those below /dev/shm that had not been removed when Linux named them."""
    return {
        file for file in files if file.startswith("/dev/shm/") and not file.endswith("(deleted)")
    }


def remove(files: Iterable[str]) -> None:
    """Remove shared-memory files that a dead rank left."""
    for file in files:
        with contextlib.suppress(OSError):
            os.unlink(file)
