"""Whether n more ranks fit on this machine, and who has the memory if they do not."""

import os
import shutil
from pathlib import Path

import psutil

from ringside import processes
from ringside.cluster import files, jobs
from ringside.errors import ClusterError

ENGINE_MEMORY = 130e6  # bytes an engine takes, measured with numpy and the kernels loaded
CONTROLLER_MEMORY = 90e6
SHARED_MEMORY = 4e6  # bytes below /dev/shm a rank takes at its start
RANKS_A_CORE = 16  # with more than that the engines need minutes to start


def available_memory() -> float:
    """Bytes that can still be taken: of the machine, and of the control group if there is one."""
    free = [float(psutil.virtual_memory().available)]
    groups = (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    )
    for limit, usage in groups:
        try:
            free.append(float(Path(limit).read_text()) - float(Path(usage).read_text()))
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
    return max(0.0, min(free))


def others(run: Path) -> list[Path]:
    """The clusters of this user that live on this machine, but for the one in `run`."""
    return [one for one in files.directories() if one != run and files.owned(one)]


def check_cores(n: int) -> None:
    """Raise ClusterError where n ranks are too many for this machine, whatever memory it has."""
    cores = len(os.sched_getaffinity(0))
    if n > RANKS_A_CORE * cores:
        raise ClusterError(
            f"{n} ranks on {cores} {'core' if cores == 1 else 'cores'} would take minutes to start "
            f"and longer to do anything. Ask for at most {RANKS_A_CORE * cores}"
        )


def check(n: int, run: Path, held: int = 0) -> None:
    """Raise ClusterError unless n ranks fit, `held` of which run already in `run`."""
    check_cores(n)
    free = available_memory() + (held * ENGINE_MEMORY + CONTROLLER_MEMORY if held else 0)
    need = n * ENGINE_MEMORY + CONTROLLER_MEMORY
    if need > free:
        fits = max(0, int((free - CONTROLLER_MEMORY) // ENGINE_MEMORY))
        hint = f"at most {fits} fit. Ask for fewer, or close" if fits else "too few for one. Close"
        raise ClusterError(
            f"{n} ranks need about {need / 1e6:,.0f} MB of memory and {free / 1e6:,.0f} MB are "
            f"free: {hint} other programs{_holders(run, n)}"
        )
    shared = Path("/dev/shm")
    if shared.is_dir() and (room := shutil.disk_usage(shared).free) < n * SHARED_MEMORY:
        raise ClusterError(
            f"/dev/shm has {room / 1e6:,.1f} MB left and {n} ranks need about "
            f"{n * SHARED_MEMORY / 1e6:,.0f} MB of shared memory there. Remove files that no "
            "program uses (ls -l /dev/shm), or give the container more (docker run "
            f"--shm-size=1g){_holders(run, n)}"
        )


def _holders(run: Path, n: int) -> str:
    """Which other notebooks have ranks, and how to have their memory; empty if none has."""
    found = others(run)
    if not found:
        return ""
    have = ", ".join(f"{files.owner(one)} has {len(files.living(one))} ranks" for one in found)
    return (
        f". {have}: cluster.stop() there ends them, and so does shutting down its kernel. "
        f"ringside.start({n}, take_over=True) here ends them all, with their variables, and takes "
        "their memory"
    )


def take_over(run: Path) -> None:
    """End all other clusters of this user on this machine, and leave word there who did."""
    for other in others(run):
        files.taken_by(other).write_text(files.own_name(), errors="replace")
        if controller := files.process(other, "controller"):
            processes.terminate([controller])
        files.end_ranks(other)
        jobs.cancel(other)
