"""The processes of a benchmark: started with its mark, in its own place, and ended with it."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from ringside import mpi, processes

MARK = "RINGSIDE_BENCH"  # in the environment of every process started here
LIMIT = 150.0  # seconds a process gets


def marked() -> list[psutil.Process]:
    """The other processes of this run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == os.environ[MARK]:
                found.append(process)
        except psutil.Error:  # gone, or somebody else's
            continue
    return found


def environment(directory: Path) -> dict[str, str]:
    """For every process started here: its mark, its own IPython directory, this environment."""
    own = str(Path(sys.prefix) / "bin")
    return mpi.environment() | {
        "PATH": os.pathsep.join([own, os.environ.get("PATH", os.defpath)]),
        "IPYTHONDIR": str(directory / "ipython"),
        "IPP_NONINTERACTIVE": "1",
        "OMP_NUM_THREADS": "1",
        MARK: os.environ[MARK],
    }


def run(command: list, env: dict[str, str]) -> str:
    """The command's output; SystemExit with the end of its messages when it fails."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            list(map(str, command)),
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, which ends the others
        )
        try:
            output, _ = process.communicate(timeout=LIMIT)
            how = f"ended with status {process.returncode}"
        except subprocess.TimeoutExpired:
            how = f"took more than {LIMIT:.0f} s"
        if process.returncode != 0:
            errors.seek(0)
            tail = "\n".join(errors.read().splitlines()[-20:])
            raise SystemExit(f"bench: {shlex.join(map(str, command))} {how}:\n{tail}")
    return output


def end_all() -> None:
    """End every process started here, and remove its shared memory."""
    for _ in range(3):  # one of them may be starting another
        if not (ours := marked()):
            return
        files = processes.shared_memory([process.pid for process in ours])
        for process in ours:
            process.kill()
        psutil.wait_procs(ours, timeout=5)
        processes.remove(files)


def compiled(directory: Path, name: str, *options) -> Path:
    """A C program of this folder, compiled as kernels/Makefile compiles."""
    source, program = Path(__file__).parent / name, directory / Path(name).stem
    prefix = Path(sys.prefix)
    command = [mpi.mpicc()]
    libraries = ["-ldl"]
    if (prefix / "include" / "mpi.h").exists():
        command = [os.environ.get("CC", "cc"), "-isystem", prefix / "include"]
        libraries = [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-Wl,--disable-new-dtags"]
        libraries += ["-lmpi", "-ldl"]
    command += ["-std=c11", "-O2", source, "-o", program, *options, *libraries]
    run(command, environment(directory))
    return program


@contextmanager
def place() -> Iterator[Path]:
    """A directory for a run; at the end, also by a signal, no process of it is left."""

    def interrupted(*_):
        raise KeyboardInterrupt

    os.environ[MARK] = f"{os.getpid()}-{time.time_ns()}"
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    with tempfile.TemporaryDirectory(prefix="ringside-bench-") as directory:
        try:
            yield Path(directory)
        except KeyboardInterrupt:
            sys.exit("bench: interrupted")
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # no second Ctrl-C stops the clearing up
            end_all()
