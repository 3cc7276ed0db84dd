"""The compiled kernels: right on every ring, wrong data caught, bad input refused, nothing stuck.

They run here as they run on a cluster, under mpiexec. What deadlocks by design is only shown not
to end; that the scope ends it is for the scope's own tests.
"""

import csv
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from ringside import kernels, launch, mpi

SOURCES = kernels.ROOT / "kernels"
PROGRAM = kernels.directory() / "bin" / "ring"
VARIANTS = ["blocking", "parity", "overlap", "separated_waits", "sendrecv", "ssend"]
ENDING = [name for name in VARIANTS if name != "ssend"]
# Short enough for any library to buffer, so that `blocking` ends too; long enough that none does.
SHORT, LONG = 100, 100_000
COLUMNS = ["source", "kernel", "variant", "ranks", "nodes", "bytes", "repetition", "seconds"]


@pytest.fixture(autouse=True, scope="module")
def _shared_memory():
    """Ranks that are ended, or whose MPI_Finalize fails, leave files: removes what nobody maps."""
    before = set(Path("/dev/shm").glob("*"))
    yield
    new = {str(file) for file in set(Path("/dev/shm").glob("*")) - before}
    launch.remove(new - launch.shared_memory(psutil.pids()))


def mpirun(n: int, *command, timeout: float = 60, **variables: str):
    """Run a command on n ranks; after a time-out they are ended and TimeoutExpired is raised."""
    package = str(Path(kernels.__file__).parents[1])
    environment = mpi.environment() | {"PYTHONPATH": package} | variables
    process = subprocess.Popen(
        [str(mpi.mpiexec()), "-n", str(n), *map(str, command)],
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


def mpiruns(runs: list[tuple]) -> list[subprocess.CompletedProcess]:
    """Several at a time: an mpiexec that starts spends a second waiting, not computing."""
    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(lambda run: mpirun(*run), runs))


def mpicc() -> str:
    own = Path(sys.prefix) / "bin" / "mpicc"
    return str(own) if mpi.name() != "system" else "mpicc"


def make(directory: Path, target: str, **variables: str) -> Path:
    """Build one target of a kernels' directory for this environment's MPI; its path."""
    settings = {"MPI": mpi.name(), "MPICC": mpicc()} | variables
    target = f"build/{mpi.name()}/{target}"
    command = ["make", "-C", directory, target, *(f"{k}={v}" for k, v in settings.items())]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return directory / target


@pytest.fixture
def build_copy(tmp_path) -> Callable[..., Path]:
    """Builds a target from a copy of the sources, edited, in a path with a space."""

    def build(target: str, *edits: tuple[str, str], **variables: str) -> Path:
        copy = tmp_path / "a copy" / "kernels"
        copy.mkdir(parents=True)
        for source in SOURCES.glob("*"):
            if source.is_file() and not source.name.startswith("scope"):
                shutil.copy(source, copy)
        for old, new in edits:
            [source] = [path for path in copy.glob("*.c") if path.read_text().count(old) == 1]
            source.write_text(source.read_text().replace(old, new))
        return make(copy, target, **variables)

    return build


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


# ---- right on every ring ----


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_every_variant_on_every_ring(n):
    # A rank that sends to itself need not be buffered at any length: see the deadlocks below.
    lengths = dict.fromkeys(ENDING, LONG) | {"blocking": SHORT}
    if n == 1:
        del lengths["blocking"]
    done = mpiruns(
        [
            (n, PROGRAM, "--variant", variant, "--doubles", doubles, "--reps", 3)
            for variant, doubles in lengths.items()
        ]
    )
    for (variant, doubles), run in zip(lengths.items(), done, strict=True):
        assert run.returncode == 0, run.stderr
        assert run.stderr == ""
        rows = list(csv.DictReader(run.stdout.splitlines()))
        assert [list(row) for row in rows] == [COLUMNS] * 3
        for i, row in enumerate(rows, start=1):
            assert 0 <= float(row.pop("seconds")) < 60
            told = ["mpiexec", "ring", variant, str(n), "1", str(8 * doubles), str(i)]
            assert list(row.values()) == told


def test_an_empty_message_goes_around():
    done = mpirun(3, PROGRAM, "--variant", "parity", "--doubles", 0, "--reps", 1)
    assert done.returncode == 0, done.stderr
    assert ",parity,3,1,0,1," in done.stdout


@pytest.mark.parametrize(
    ("variant", "n", "doubles"),
    [("ssend", 1, 1), ("ssend", 2, 1), ("blocking", 1, LONG), ("blocking", 2, LONG)],
)
def test_what_must_deadlock_does_not_end(variant, n, doubles, tmp_path):
    program = shutil.copy(PROGRAM, tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        mpirun(n, program, "--variant", variant, "--doubles", doubles, timeout=2.5)
    left = [exe for exe in Path("/proc").glob("[0-9]*/exe") if os.path.realpath(exe) == program]
    assert left == []


# ---- wrong data is caught ----

MUTANTS = {
    "nothing received": [
        (
            "    TRY(send_right(ring));\n    return receive_left(ring);\n}\n\nstatic int ssend",
            "    return send_right(ring);\n}\n\nstatic int ssend",
        )
    ],
    "nothing exchanged after the first repetition": [
        (
            "TRY(variant->exchange(ring));",
            "if (ring->work < 1) TRY(variant->exchange(ring));\n    ring->work = 1;",
        )
    ],
    "last element not sent": [
        ("MPI_Send(ring->outgoing, ring->count,", "MPI_Send(ring->outgoing, ring->count - 1,")
    ],
    "own number sent to nobody": [
        ("ring.outgoing[i] = element(ring.rank, i);", "ring.outgoing[i] = element(0, i);")
    ],
}


@pytest.mark.parametrize(
    ("mutant", "wrong"),
    [
        ("nothing received", {0: 300, 1: 300, 2: 300}),
        ("nothing exchanged after the first repetition", {0: 200, 1: 200, 2: 200}),
        ("last element not sent", {0: 3, 1: 3, 2: 3}),
        ("own number sent to nobody", {0: 300, 2: 300}),
    ],
)
def test_wrong_data_is_caught(mutant, wrong, build_copy):
    program = build_copy("bin/ring", *MUTANTS[mutant])
    options = ["--variant", "blocking", "--doubles", 100, "--reps", 2, "--warmup", 1]
    done = mpirun(3, program, *options)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    found = re.findall(
        r"rank (\d): variant blocking: (\d+) of 300 elements were wrong", done.stderr
    )
    assert {int(rank): int(count) for rank, count in found} == wrong


def test_python_names_the_rank_that_got_wrong_data(build_copy, tmp_path):
    library = build_copy("libkernels.so", *MUTANTS["own number sent to nobody"])
    program = f"""
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
kernels.directory = lambda: Path({str(library.parent)!r})
try:
    tell(len(kernels.ring(comm, "parity", 10, 2)))
except RuntimeError as error:
    tell(error)
"""
    told = python(3, tmp_path, program)
    assert "rank 0 received 20 wrong elements of 20" in told[0]
    assert told[1] == "2\n"  # its left neighbour is rank 0, whose message is right
    assert "rank 2 received 20 wrong elements of 20" in told[2]


# ---- bad input ----


BAD_ARGUMENTS = [
    (["--variant", "party"], 'no variant "party"'),
    (["--variant"], "--variant needs a value"),
    ([], "--variant is missing"),
    (["--variant", "parity", "--doubles", "-1"], "--doubles -1 is out of range"),
    (["--variant", "parity", "--doubles", "2147483648"], "choose from 0 to 2147483647"),
    (["--variant", "parity", "--doubles", "9" * 30], "is out of range"),
    (["--variant", "parity", "--doubles", "many"], 'a whole number, not "many"'),
    (["--variant", "parity", "--reps", "0"], "--reps 0 is out of range"),
    (["--variant", "parity", "--colour", "red"], 'unknown option "--colour"'),
    (["--variant", "parity", "--source", "dream"], 'not "dream"'),
]


def test_bad_arguments_end_with_status_2():
    done = mpiruns([(2, PROGRAM, *options) for options, _ in BAD_ARGUMENTS])
    for run, (_, message) in zip(done, BAD_ARGUMENTS, strict=True):
        assert run.returncode == 2
        assert run.stdout == ""
        assert run.stderr.count(message) == 1, run.stderr
        assert "variants: " + " ".join(VARIANTS) in run.stderr


# A machine with 1 GB left, so that the real one need not be filled.
ONE_GIGABYTE = ("int64_t least = INT64_MAX;", "int64_t least = 1000000000;")


def test_more_than_the_memory_is_refused(build_copy):
    program = build_copy("bin/ring", ONE_GIGABYTE)
    options = ["--variant", "parity", "--reps", 1, "--warmup", 0, "--doubles"]
    assert mpirun(1, program, *options, 40_000_000).returncode == 0
    done = mpirun(2, program, *options, 40_000_000)  # each rank alone would fit
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("40000000 doubles need 0.6 GB on each rank") == 1


def test_python_refuses_more_than_the_memory(build_copy, tmp_path):
    library = build_copy("libkernels.so", ONE_GIGABYTE)
    program = f"""
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
kernels.directory = lambda: Path({str(library.parent)!r})
try:
    kernels.ring(comm, "parity", 40_000_000)
except ValueError as error:
    tell(error)
tell(len(kernels.ring(comm, "parity", 1000)))
"""
    for told in python(2, tmp_path, program):
        assert "40,000,000 doubles need 0.6 GB on every rank" in told
        assert "1.0 GB left for all its ranks. Choose fewer doubles or fewer ranks.\n1\n" in told


def test_available_memory_is_what_the_system_says():
    function = ctypes.CDLL(str(kernels.directory() / "libkernels.so")).ringside_available_bytes
    function.restype = ctypes.c_int64
    assert 50e6 < function() <= psutil.virtual_memory().total


def test_help_tells_the_variants():
    done = mpirun(2, PROGRAM, "--help")
    assert done.returncode == 0
    assert done.stdout.count("variants: " + " ".join(VARIANTS)) == 1


def test_python_refuses_bad_input_and_goes_on(tmp_path):
    program = """
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
for call in [
    ("party", 10), ("parity", -1), ("parity", 10**15), ("parity", 2.5), ("parity", "10"),
    ("parity", 10, 0), ("parity", 10 + comm.rank),
]:
    try:
        kernels.ring(comm, *call)
        tell("accepted", call)
    except ValueError as error:
        tell(error)
for group in (comm, comm.Split(comm.rank % 2), MPI.COMM_SELF):
    seconds = kernels.ring(group, "overlap", 1e4, 2)
    tell(seconds.shape, seconds.dtype, (seconds > 0).all())
try:
    kernels.ring(MPI.COMM_NULL, "parity", 1)
except ValueError as error:
    tell(error)
"""
    for rank, told in enumerate(python(3, tmp_path, program)):
        lines = told.splitlines()
        assert "no variant 'party'. Did you mean 'parity'? It has: blocking" in lines[0]
        assert lines[1:3] == [
            f"doubles must lie between 0 and 2,147,483,647, and {text} does not."
            for text in ("-1", "1,000,000,000,000,000")
        ]
        assert lines[3] == "doubles must be a whole number, not 2.5."
        assert lines[4] == "doubles must be a whole number, not '10'."
        assert lines[5] == "reps must lie between 1 and 1,000,000, and 0 does not."
        assert "the ranks asked for different things" in lines[6]
        assert f"rank {rank}: doubles={10 + rank}" in lines[6]
        assert lines[7:10] == ["(2,) float64 True"] * 3
        assert "comm must be a communicator" in lines[10]


def test_variants_are_those_of_the_table():
    assert kernels.variants("ring") == VARIANTS
    with pytest.raises(ValueError, match="no kernel 'rung'"):
        kernels.variants("rung")


def test_codes_are_those_of_the_header():
    header = (SOURCES / "ringside.h").read_text()
    codes = dict(re.findall(r"RINGSIDE_(\w+) = (-\d+)", header))
    assert len(codes) == 6
    assert {name: getattr(kernels, name) for name in codes} == {k: int(v) for k, v in codes.items()}
    assert f"RINGSIDE_MAX_DOUBLES ((int64_t){kernels.MAX_DOUBLES})" in header
    assert f"RINGSIDE_MAX_REPETITIONS {kernels.MAX_REPETITIONS}\n" in header


def test_missing_kernels_say_how_to_build_them(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "directory", lambda: tmp_path)
    kernels._library.cache_clear()
    with pytest.raises(FileNotFoundError, match="make kernels"):
        kernels.variants("ring")
    (tmp_path / "libkernels.so").write_text("not a library")
    with pytest.raises(OSError, match=r"did not load .*make kernels"):
        kernels.variants("ring")


def test_a_compiler_error_is_shown(build_copy):
    with pytest.raises(AssertionError, match=r"ring\.c:.*error: .*sent_right"):
        build_copy("libkernels.so", ("static int send_right(", "static int sent_right("))


def test_a_missing_compiler_is_named(tmp_path):
    command = ["make", "-C", SOURCES, f"MPI={mpi.name()}", f"MPICC={tmp_path}/mpicc"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert built.returncode != 0
    assert f'no MPI compiler at "{tmp_path}/mpicc"' in built.stderr


# ---- errors in the middle, and who answers to MPI_Send ----

# Stands in front of MPI as the scope does: counts sends, and breaks the calls it is told to.
INTERPOSER = """
#include <mpi.h>
int sends = 0, break_isend = 0, break_wait = 0;
int MPI_Send(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
    sends++;
    return PMPI_Send(buffer, count, type, dest, tag, comm);
}
int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return break_isend ? MPI_ERR_OTHER
                       : PMPI_Isend(buffer, count, type, dest, tag, comm, request);
}
int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    const int code = PMPI_Wait(request, status);
    return break_wait ? MPI_ERR_OTHER : code;
}
"""


def test_a_library_loaded_first_sees_and_breaks_the_kernels_calls(tmp_path):
    source = tmp_path / "front.c"
    source.write_text(INTERPOSER)
    shutil.copy(SOURCES / "Makefile", tmp_path)
    source.rename(tmp_path / "scope_front.c")  # the Makefile builds it as it builds the scope
    front = make(tmp_path, "libscope.so")
    program = f"""
import ctypes, time
front = ctypes.CDLL({str(front)!r}, ctypes.RTLD_GLOBAL)
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
number = lambda name: ctypes.c_int.in_dll(front, name)
kernels.ring(comm, "parity", 1000, 5)
tell(number("sends").value)
for broken, variant in [("break_isend", "overlap"), ("break_wait", "separated_waits")]:
    comm.Barrier()
    number(broken).value = 1
    start = time.monotonic()
    try:
        kernels.ring(comm, variant, 1_000_000, 2)
    except MPI.Exception as error:
        tell(error.Get_error_class() == MPI.ERR_OTHER, time.monotonic() - start < 5)
    number(broken).value = 0
    comm.Barrier()
    tell(len(kernels.ring(comm, variant, 1_000_000, 2)))
maps = Path("/proc/self/maps").read_text().split()
tell(len({{word for word in maps if "/libmpi.so" in word}}))
"""
    assert python(2, tmp_path, program) == ["5\nTrue True\n2\nTrue True\n2\n1\n"] * 2


def test_a_foreign_mpi_in_the_library_path_is_not_taken(tmp_path):
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    soname = re.search(r"libmpi\.so\.\d+", needed)[0]
    empty = tmp_path / "empty.c"
    empty.write_text("int empty;\n")
    foreign = tmp_path / soname
    subprocess.run(["cc", "-shared", f"-Wl,-soname,{soname}", empty, "-o", foreign], check=True)
    done = mpirun(2, PROGRAM, "--variant", "parity", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_sanitizers_find_nothing(build_copy):
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    program = build_copy("bin/ring", EXTRA_CFLAGS=flags)
    # Leaks are left out: the MPI libraries keep memory until the end of the process.
    settings = {"ASAN_OPTIONS": "detect_leaks=0"}
    for variant in ("separated_waits", "parity"):
        done = mpirun(2, program, "--variant", variant, "--doubles", LONG, **settings)
        assert done.returncode == 0, done.stderr
        assert "runtime error" not in done.stderr
        assert len(done.stdout.splitlines()) == 11
