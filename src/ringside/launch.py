"""Starting the MPI engines: which mpiexec, in which environment, and what it said when one died."""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from ringside import mpi

_ABORT = re.compile(
    r"MPI_ABORT was invoked on rank (\d+).*?Errorcode: (\d+)"
    r"|Abort\((\d+)\) on node \d+ \(rank (\d+) in comm 0\)",
    re.DOTALL,
)
_MPICH_STATUS = re.compile(r"Exit codes: \[[^\]]*\] ([\d,]+)")
_OPENMPI_SIGNAL = re.compile(
    r"process rank (\d+) with PID (\d+) on node \S+\s+exited\s+on\s+signal\s+(\d+)"
)
_OPENMPI_EXIT = re.compile(r"Process name: \[[^,\]]*,(\d+)\]\s+Exit code:\s+(\d+)")
_OPENMPI_LEFT = re.compile(
    r"due to process rank (\d+) with PID \d+ on node \S+ exiting\s+improperly"
)
_FRAME = re.compile(r'File "([^"]*)", line (\d+) in (\S+)')


def environment(run: Path, profile: Path, connection: dict) -> dict[str, str]:
    """The environment of mpiexec and the engines."""
    env = mpi.environment()
    # The engines must capture what C prints, also when a test starts them.
    env.pop("PYTEST_CURRENT_TEST", None)
    bin_directory = str(Path(sys.prefix) / "bin")
    env |= {
        "PATH": os.pathsep.join([bin_directory, env.get("PATH", os.defpath)]),
        "RINGSIDE_RUN": str(run),
        "RINGSIDE_PROFILE": str(profile),
        "IPP_CONNECTION_INFO": json.dumps(connection),
        "PYTHONUNBUFFERED": "1",
        # One machine: loopback and shared memory only, and crashes are reported by Python.
        "HYDRA_IFACE": "lo",
        "UCX_NET_DEVICES": "lo",
        "UCX_HANDLE_ERRORS": "none",
        "UCX_LOG_LEVEL": "error",
        "OMPI_MCA_btl": "self,sm",
    }
    if len(os.sched_getaffinity(0)) < 64:
        # Ranks outnumber cores on a laptop: bound ones would share a core while others idle.
        env.setdefault("PRTE_MCA_hwloc_default_binding_policy", "none")
    return env


def start(n: int, run: Path, env: dict[str, str], cwd: str) -> subprocess.Popen:
    """Start n engines; their output and mpiexec's goes to engines.log in `run`."""
    for old in [*run.glob("rank-*.pid"), *run.glob("rank-*.fault")]:
        old.unlink(missing_ok=True)
    # MPICH names no rank when one dies, but tells how each one ended.
    options = ["-disable-auto-cleanup", "-print-all-exitcodes"] if mpi.name() == "mpich" else []
    with open(run / "engines.log", "wb") as log:
        return subprocess.Popen(
            [
                env["RINGSIDE_MPIEXEC"],
                *options,
                "-n",
                str(n),
                sys.executable,
                "-m",
                "ringside.engine",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )


def ends_with_us() -> Callable[[], None]:
    """For a child, before it becomes mpiexec: be told to end when this process dies, however."""
    parent, prctl = os.getpid(), ctypes.CDLL(None).prctl
    set_death_signal = 1  # PR_SET_PDEATHSIG in <sys/prctl.h>

    def tie():
        prctl(set_death_signal, signal.SIGTERM)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)

    return tie


def pids(run: Path) -> dict[int, int]:
    """Process id of every rank that has got as far as starting."""
    found = {}
    for path in run.glob("rank-*.pid"):
        text = path.read_text()
        if text:
            found[int(path.stem.split("-")[1])] = int(text)
    return found


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


def terminate(processes: list[int]) -> None:
    """Ask the processes to end."""
    for pid in processes:
        _signal(pid, signal.SIGTERM)


def kill(processes: list[int]) -> None:
    """End the processes now."""
    for pid in processes:
        _signal(pid, signal.SIGKILL)


def kill_group(pid: int) -> None:
    """End a process and its group now."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def shared_memory(processes: list[int]) -> set[str]:
    """Shared-memory files the processes have mapped, as paths below /dev/shm."""
    files = set()
    for pid in processes:
        try:
            maps = Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            continue
        for line in maps.splitlines():
            path = line[line.find("/dev/shm/") :] if "/dev/shm/" in line else ""
            if path and not path.endswith("(deleted)"):
                files.add(path)
    return files


def remove(files: Iterable[str]) -> None:
    """Remove shared-memory files that a dead rank left."""
    for file in files:
        with contextlib.suppress(OSError):
            os.unlink(file)


def log_tail(run: Path, name: str = "engines.log", lines: int = 15) -> str:
    """The end of a log, each line once, as every rank says the same."""
    try:
        text = (run / name).read_text(errors="replace")
    except OSError:
        return ""
    seen = list(dict.fromkeys(line.rstrip() for line in text.splitlines() if line.strip()))
    return "\n".join(seen[-lines:])


def death(run: Path, dead: list[int], returncode: int | None) -> dict:
    """Who died and how: rank, signal, exit_code, abort (MPI_Abort's code), where; None: unknown.

    `dead` are the ranks seen gone, in that order, `returncode` mpiexec's own if it
    ended by itself; the rest it has written to the log.
    """
    try:
        text = (run / "engines.log").read_text(errors="replace")
    except OSError:
        text = ""
    found = {"rank": dead[0] if dead else None, "signal": None, "exit_code": None, "abort": None}
    if match := _ABORT.search(text):
        found["rank"] = int(match[1] or match[4])
        found["abort"] = int(match[2] or match[3])
    elif match := _OPENMPI_SIGNAL.search(text):
        found["rank"], found["signal"] = int(match[1]), int(match[3])
    elif match := _OPENMPI_EXIT.search(text):
        found["rank"], found["exit_code"] = int(match[1]), int(match[2])
    elif match := _OPENMPI_LEFT.search(text):
        found["rank"], found["exit_code"] = int(match[1]), 0
    elif match := _MPICH_STATUS.search(text):
        statuses = [int(status) for status in match[1].split(",")]
        # The ranks that mpiexec ended show SIGKILL.
        odd = [rank for rank, status in enumerate(statuses) if status != signal.SIGKILL]
        if odd and found["rank"] not in odd:
            found["rank"] = odd[0]
        if found["rank"] is not None and found["rank"] < len(statuses):
            status = statuses[found["rank"]]
            if os.WIFSIGNALED(status):
                found["signal"] = os.WTERMSIG(status)
            else:
                found["exit_code"] = os.WEXITSTATUS(status)
    elif mpi.name() == "mpich" and returncode:
        # Only MPI_Abort makes this mpiexec end everything; its message is lost with the rank.
        found["rank"], found["abort"] = None, returncode
    found["where"] = "" if found["rank"] is None else crash_site(run, found["rank"])
    return found


def crash_site(run: Path, rank: int) -> str:
    """The Python function a crashed rank was in, from its fault log; empty if it left none."""
    try:
        text = (run / f"rank-{rank}.fault").read_text(errors="replace")
    except OSError:
        return ""
    for file, line, function in _FRAME.findall(text):
        if file.startswith((sys.prefix, sys.base_prefix)):
            continue
        return f"line {line} of the cell" if function == "<module>" else function
    return ""
