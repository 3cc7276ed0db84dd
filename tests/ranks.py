"""Running programs on ranks, under mpiexec, with a limit; building kernels."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from ringside import kernels, mpi, processes

# addr2line tells which line of C an address belongs to.
needs_lines = pytest.mark.skipif(
    not shutil.which("addr2line"),
    reason="NOT RUN: lines of C, as addr2line is missing. apt-get install binutils",
)
SOURCES = kernels.ROOT / "kernels"
TESTS = kernels.ROOT / "tests"


def mpirun(n: int, *command, timeout: float = 240, options=(), **variables: str):
    """Run a command on n ranks; after a time-out they are ended and TimeoutExpired is raised."""
    package = str(Path(kernels.__file__).parents[1])
    environment = mpi.environment() | {"PYTHONPATH": package} | variables
    process = subprocess.Popen(
        [str(mpi.mpiexec()), *options, "-n", str(n), *map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.communicate(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=15)
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


@contextmanager
def shared_memory_left() -> Iterator[set[str]]:
    """Afterwards the set has the files of shared memory that processes begun meanwhile by this one,
    or by theirs, had open or mapped, and that are still there with nobody who has. Other tests
    leave files, too."""
    left, pids, over = set(), set(), threading.Event()

    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children(recursive=True)}

    before = children()

    def look():
        while not over.wait(0.02):
            pids.update(children() - before)
            left.update(processes.shared_memory(pids))

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield left
    finally:
        over.set()
        watch.join()
        left -= {path for path in left if not os.path.exists(path)}
        left -= processes.shared_memory(processes.everyone())


def mpiruns(runs: list[tuple]) -> list[subprocess.CompletedProcess]:
    """Several at a time: an mpiexec that starts spends a second waiting, not computing."""
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda run: mpirun(*run), runs))


def faulty(faults: Path, fault: str, n: int, *command, calls: int = 0):
    """Run a command on n ranks with one of the faults of faults.c; `calls` is its CALLS.

    MPICH's mpiexec would end the other ranks, and lose what they said, when one has ended with 1.
    """
    front = [f"LD_PRELOAD={faults}", f"FAULT={fault}", f"CALLS={calls}"]
    options = ["-disable-auto-cleanup"] if mpi.kind() == "mpich" else []
    return mpirun(n, "env", *front, *command, options=options)


def compiled(directory: Path, source: Path, *options: str) -> Path:
    """A program in C built for this environment's MPI as kernels/Makefile builds; its path."""
    program = directory / source.stem
    prefix = Path(sys.prefix)
    command, libraries = [mpi.mpicc()], []
    if mpi.name() != "system":
        command = [os.environ.get("CC", "cc"), "-isystem", prefix / "include"]
        libraries = [f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-Wl,--disable-new-dtags"]
        libraries += ["-lmpi"]
    command += ["-std=c11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [source, "-o", program, *options, *libraries, "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return program


def make(directory: Path, target: str, **variables: str) -> Path:
    """Build one target of a kernels' directory for this environment's MPI; its path."""
    settings = {"MPI": mpi.name(), "MPICC": str(mpi.mpicc())} | variables
    target = f"build/{mpi.name()}/{target}"
    command = ["make", "-C", directory, target, *(f"{k}={v}" for k, v in settings.items())]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return directory / target


def interposer(directory: Path, text: str) -> Path:
    """A library that stands between a program and MPI as the scope does, from its C source."""
    for name in ("kernels", "scope"):
        (directory / name).mkdir()
    shutil.copy(SOURCES / "Makefile", directory / "kernels")
    (directory / "scope" / "front.c").write_text(text)  # built as the scope is
    return make(directory / "kernels", "libscope.so")


def python(n: int, tmp_path: Path, text: str, **variables: str) -> list[str]:
    """Run a Python program on n ranks; what each rank wrote with tell(), by rank.

    Files, because mpiexec mixes the ranks' lines.
    """
    program = tmp_path / "program.py"
    program.write_text(
        f"from pathlib import Path\ndef tell(*words):\n"
        f"    path = Path({str(tmp_path)!r}) / f'rank-{{comm.rank}}'\n"
        f"    path.open('a').write(' '.join(map(str, words)) + '\\n')\n{text}"
    )
    done = mpirun(n, sys.executable, program, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return [(tmp_path / f"rank-{rank}").read_text() for rank in range(n)]
