"""The compiled kernels: right on every ring, wrong data caught, bad input refused, nothing stuck.

They run here as they run on a cluster, under mpiexec. What deadlocks by design is only shown not
to end; that the scope ends it is for the scope's own tests.
"""

import csv
import ctypes
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from ranks import SOURCES, faulty, interposer, mpirun, mpiruns, python

from ringside import kernels, mpi

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

PROGRAM = kernels.directory() / "bin" / "ring"
VARIANTS = ["blocking", "parity", "overlap", "separated_waits", "sendrecv", "ssend", "chain"]
ENDING = [name for name in VARIANTS if name != "ssend"]
# Short enough for any library to buffer, so that `blocking` ends too; long enough that none does.
SHORT, LONG = 100, 100_000
COLUMNS = ["source", "kernel", "variant", "ranks", "nodes", "bytes", "repetition", "seconds"]
COLUMNS += ["mean_seconds"]


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
            assert 0 < float(row.pop("mean_seconds")) <= float(row.pop("seconds")) < 60
            told = ["mpiexec", "ring", variant, str(n), "1", str(8 * doubles), str(i)]
            assert list(row.values()) == told


BYTES = {
    "pingpong": ["blocking", "nonblocking"],
    "ringshift": ["sendrecv", "nonblocking"],
}
# Around the length at which content repeats, and at which a repetition is a single exchange.
LENGTHS = [0, 1, 999, 1000, 1001, 70_000, 800_001]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
@pytest.mark.parametrize("kernel", BYTES)
def test_every_length_in_bytes_arrives(kernel, n, tmp_path):
    if kernel == "pingpong" and n == 1:
        done = mpirun(n, PROGRAM.with_name(kernel), "--variant", "blocking")
        assert (done.returncode, done.stdout) == (2, "")
        assert "needs at least 2 ranks: mpiexec -n 2" in done.stderr
        return
    program = f"""
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
partner = {{"partner": comm.size - 1}} if {kernel!r} == "pingpong" else {{}}
for variant in {BYTES[kernel]}:
    for nbytes in {LENGTHS}:
        seconds = kernels.run({kernel!r}, comm, variant, nbytes, 3, **partner)
        tell((seconds > 0).all(), (seconds == 0).all())
"""
    for rank, told in enumerate(python(n, tmp_path, program)):
        idle = kernel == "pingpong" and rank not in (0, n - 1)
        assert told == f"{not idle} {idle}\n" * 2 * len(LENGTHS)


def test_bytes_are_printed_as_bytes():
    done = mpirun(5, PROGRAM.with_name("pingpong"), "--variant", "blocking", "--bytes", 8)
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["bytes"] for row in rows] == ["8"] * 10
    # Three ranks have no part, and none in the mean: over all five it would be 0.4 of the slowest.
    assert all(float(r["mean_seconds"]) > 0.5 * float(r["seconds"]) for r in rows)


def test_work_changes_the_time_and_not_the_data(tmp_path):
    program = """
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
for variant in ("overlap", "separated_waits"):
    for work in [{}, {"chunks": 0}, {"every": 0}, {"between": 10}, {"whole": 1, "chunks": 3}]:
        tell(len(kernels.ring(comm, variant, 100_000, 3, **work)))
alone = kernels.ring(comm, "overlap", 0, 20, chunks=0)
whole = kernels.ring(comm, "overlap", 0, 20, chunks=50, steps=5000, whole=1)
tell(min(whole) > 10 * min(alone))  # 250,000 sines against none
"""
    assert python(2, tmp_path, program) == ["3\n" * 10 + "True\n"] * 2


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

    def left():
        return [exe for exe in Path("/proc").glob("[0-9]*/exe") if os.path.realpath(exe) == program]

    deadline = time.monotonic() + 30  # who was killed may not have got a core since
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left() == []


# ---- what is timed ----

# Stands in front of MPI as the scope does: rank 1 comes late to a barrier, or goes on late from it.
LATE = """
#define _POSIX_C_SOURCE 199309L
#include <mpi.h>
#include <time.h>
double before = 0, after = 0; /* seconds, below one */
int barriers = 0;
static void nap(double seconds)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const struct timespec time = {.tv_nsec = (long)(seconds * 1e9)};
    if (rank == 1)
        nanosleep(&time, NULL);
}
int MPI_Barrier(MPI_Comm comm)
{
    barriers++;
    nap(before);
    const int code = PMPI_Barrier(comm);
    nap(after);
    return code;
}
"""
# The least of three times, each of the slowest rank, against a quarter of a second of sleep.
TIMED = """
import ctypes
import numpy as np
front = ctypes.CDLL({front!r}, ctypes.RTLD_GLOBAL)
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
late = ctypes.c_double.in_dll(front, {when!r})
barriers = ctypes.c_int.in_dll(front, "barriers")

def run(name):
    one = {{key: 1 for key in ("trips", "steps") if key in kernels.settings(name)}}
    return kernels.run(name, comm, kernels.variants(name)[-1], 12, 3, **one)

for name in kernels.names():
    barriers.value, late.value = 0, 0.25
    seconds = np.max(comm.allgather(run(name)), axis=0)
    late.value = 0
    assert barriers.value >= 3, name
    tell(name, min(seconds) > 0.125)
"""


def timed(tmp_path: Path, when: str) -> dict[str, bool]:
    """For each kernel, whether its times hold the lateness of rank 1."""
    front = interposer(tmp_path, LATE)
    told = python(2, tmp_path, TIMED.format(front=str(front), when=when))
    assert told[0] == told[1]
    return {name: held == "True" for name, held in map(str.split, told[0].splitlines())}


def test_no_time_holds_the_wait_for_a_rank_that_comes_late(tmp_path):
    assert timed(tmp_path, "before") == dict.fromkeys(kernels.names(), False)


def test_a_first_exchange_that_brings_into_step_is_not_timed(tmp_path):
    """Where there is none, the exchange that waits for the late rank is the one that is timed. In
    a short broadcast from rank 0 nobody waits for rank 1."""
    held = {name: "trips" not in kernels.settings(name) for name in kernels.names()}
    held["bcast"] = False
    assert timed(tmp_path, "after") == held


# ---- wrong data is caught ----


@pytest.mark.parametrize(
    ("fault", "wrong"),
    [
        ("nothing received", {0: 300, 1: 300, 2: 300}),
        ("nothing after the first repetition", {0: 200, 1: 200, 2: 200}),
        ("last element not sent", {0: 3, 1: 3, 2: 3}),
        ("content of another rank", {0: 300, 2: 300}),
    ],
)
def test_wrong_data_is_caught(fault, wrong, faults):
    options = ["--variant", "blocking", "--doubles", 100, "--reps", 2, "--warmup", 1]
    done = faulty(faults, fault, 3, PROGRAM, *options)
    assert done.returncode != 0, done.stderr
    assert done.stdout == ""
    found = re.findall(
        r"rank (\d): variant blocking: (\d+) of 300 elements were wrong", done.stderr
    )
    assert {int(rank): int(count) for rank, count in found} == wrong


@pytest.mark.parametrize(
    "fault", ["always the first message", "content of another rank", "last exchange missing"]
)
@pytest.mark.parametrize("kernel", BYTES)
def test_wrong_bytes_are_caught(fault, kernel, faults):
    program = PROGRAM.with_name(kernel)
    for nbytes in (1, 2000):
        if nbytes == 1 and fault == "content of another rank":
            continue  # a single byte only says whether it is the last
        # One exchange that is not timed, two that are: the last of the three is left out.
        options = ["--variant", BYTES[kernel][0], "--bytes", nbytes, "--reps", 2, "--trips", 2]
        calls = 4 if kernel == "pingpong" else 2
        done = faulty(faults, fault, 2, program, *options, calls=calls)
        assert done.returncode != 0, (nbytes, done.stdout, done.stderr)
        assert "elements were wrong" in done.stderr


def test_python_names_the_rank_that_got_wrong_data(faults, tmp_path):
    program = f"""
import ctypes
front = ctypes.CDLL({str(faults)!r}, ctypes.RTLD_GLOBAL)
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
try:
    tell(len(kernels.ring(comm, "parity", 10, 2)))
except RuntimeError as error:
    tell(error)
"""
    told = python(3, tmp_path, program, FAULT="content of another rank")
    assert "rank 0 received 20 wrong elements of 20" in told[0]
    assert told[1] == "2\n"  # its left neighbour is rank 0, whose message is right
    assert "rank 2 received 20 wrong elements of 20" in told[2]


# ---- what is timed ----

EXCHANGES = {
    "ring": ("sendrecv", []),
    "pingpong": ("blocking", ["--trips", 1]),
    "ringshift": ("sendrecv", ["--trips", 1]),
    "halo": ("sendrecv", ["--trips", 1]),
    "matrix": ("resized", []),
    "heat": ("waitall", ["--steps", 1]),
    "bcast": ("binomial", []),
    "allreduce": ("ring", []),
}


def fastest(done) -> float:
    assert done.returncode == 0, done.stderr
    return min(float(row["seconds"]) for row in csv.DictReader(done.stdout.splitlines()))


@pytest.mark.parametrize("kernel", EXCHANGES)
def test_the_barrier_is_not_timed(kernel, faults):
    variant, options = EXCHANGES[kernel]
    program = PROGRAM.with_name(kernel)
    done = faulty(faults, "slow barrier", 2, program, "--variant", variant, "--reps", 3, *options)
    assert fastest(done) < 0.15  # the barrier takes 0.3 s


@pytest.mark.parametrize("kernel", ["pingpong", "ringshift", "halo"])
def test_the_first_of_several_exchanges_is_not_timed(kernel, faults):
    variant, options = EXCHANGES[kernel]
    command = [PROGRAM.with_name(kernel), "--variant", variant, "--reps", 3, *options]
    assert fastest(faulty(faults, "slow first exchange", 2, *command)) < 0.15  # it takes 0.3 s


@pytest.mark.parametrize("kernel", ["ring", "heat", "bcast"])
def test_an_only_exchange_is_timed(kernel, faults):
    variant, options = EXCHANGES[kernel]
    command = [PROGRAM.with_name(kernel), "--variant", variant, "--reps", 3, *options]
    assert fastest(faulty(faults, "slow first exchange", 2, *command)) >= 0.3


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
    (["--variant", "parity", "--every", "-2"], "choose from -1 to 1000000000"),
    (["--variant", "parity", "--bytes", "8"], 'unknown option "--bytes"'),
]


def test_bad_arguments_end_with_status_2():
    done = mpiruns([(2, PROGRAM, *options) for options, _ in BAD_ARGUMENTS])
    for run, (_, message) in zip(done, BAD_ARGUMENTS, strict=True):
        assert run.returncode == 2
        assert run.stdout == ""
        assert run.stderr.count(message) == 1, run.stderr
        assert "variants: " + " ".join(VARIANTS) in run.stderr


# A machine with 1 GB left, so that the real one need not be filled; a container with as much, as
# the two kinds of control groups tell it, of which file cache gives way.
ONE_GIGABYTE = {
    "machine": {"proc/meminfo": "MemTotal: 9999999 kB\nMemAvailable: 976563 kB\n"},
    "container": {
        "sys/fs/cgroup/memory.max": "1500000000\n",
        "sys/fs/cgroup/memory.current": "600000000\n",
        "sys/fs/cgroup/memory.stat": "anon 500000000\ninactive_file 100000000\n",
    },
    "old container": {
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "1500000000\n",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "600000000\n",
        "sys/fs/cgroup/memory/memory.stat": "total_rss 5\ntotal_inactive_file 100000000\n",
    },
}


def with_one_gigabyte(folder: Path, where: str, files: Path) -> dict[str, str]:
    for name, text in ONE_GIGABYTE[where].items():
        (folder / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "files" / name).write_text(text)
    return {"LD_PRELOAD": str(files), "FILES": f"{folder}/files/"}


@pytest.mark.parametrize("where", ONE_GIGABYTE)
def test_more_than_the_memory_is_refused(where, files, tmp_path):
    left = [f"{key}={value}" for key, value in with_one_gigabyte(tmp_path, where, files).items()]
    command = ["env", *left, PROGRAM, "--variant", "parity", "--reps", 1, "--warmup", 0]
    if where == "machine":
        assert mpirun(1, *command, "--doubles", 40_000_000).returncode == 0
    done = mpirun(2, *command, "--doubles", 40_000_000)  # each rank alone would fit
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("40000000 doubles need 0.6 GB on each rank") == 1
    assert done.stderr.count("this node has 1.0 GB left") == 1


def test_python_refuses_more_than_the_memory(files, tmp_path):
    program = """
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
try:
    kernels.ring(comm, "parity", 40_000_000)
except ValueError as error:
    tell(error)
tell(len(kernels.ring(comm, "parity", 1000)))
"""
    for told in python(2, tmp_path, program, **with_one_gigabyte(tmp_path, "machine", files)):
        assert "40,000,000 doubles need 0.6 GB on every rank" in told
        assert "1.0 GB left for all its ranks. Choose fewer doubles or fewer ranks.\n1\n" in told


def test_available_memory_is_what_the_system_says():
    function = ctypes.CDLL(str(kernels.directory() / "libkernels.so")).ringside_available_bytes
    function.restype = ctypes.c_int64
    assert 50e6 < function() <= psutil.virtual_memory().total


# In the place of the machine's control group stands a folder.
CONTAINER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*const real)(const char *, const char *) =
        (FILE * (*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
    char other[4096];
    if (strncmp(path, "/sys/fs/cgroup", 14) == 0) {
        snprintf(other, sizeof other, "%s%s", "FOLDER", path);
        path = other;
    }
    return real(path, mode);
}
"""
V2 = {"memory.max": "90000000\n", "memory.current": "30000000\n"}
CACHE = {"memory.stat": "anon 5\nactive_file 7\ninactive_file 10000000\n"}
V1 = {"memory.limit_in_bytes": "90000000\n", "memory.usage_in_bytes": "30000000\n"}
CACHE_V1 = {"memory.stat": "inactive_file 1\ntotal_inactive_file 10000000\n"}


@pytest.mark.parametrize(
    ("files", "left"),
    [
        (V2, 60_000_000),
        (V2 | CACHE, 70_000_000),
        (V2 | {"memory.max": "20000000\n"}, 0),
        ({f"memory/{name}": text for name, text in V1.items()}, 60_000_000),
        ({f"memory/{name}": text for name, text in (V1 | CACHE_V1).items()}, 70_000_000),
        (V2 | {"memory.max": "max\n"}, None),
        ({}, None),
    ],
)
def test_a_containers_limit_counts(files, left, tmp_path):
    """None: there is no limit but the machine's own."""
    front = interposer(tmp_path, CONTAINER.replace("FOLDER", str(tmp_path)))
    for name, text in files.items():
        path = tmp_path / "sys" / "fs" / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    library = kernels.directory() / "libkernels.so"
    code = f"from ctypes import *; f = CDLL({str(library)!r}).ringside_available_bytes; "
    code += "f.restype = c_int64; print(f())"
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"LD_PRELOAD": str(front)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    if left is None:
        assert int(told) > 90_000_000
    else:
        assert int(told) == left


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
for name, call, settings in [
    ("ring", ("parity", 10), {"evry": 2}), ("ring", ("parity", 10), {"every": -2}),
    ("ring", ("overlap", 10), {"chunks": comm.rank}), ("pingpong", ("blocking", 8), {"partner": 3}),
    ("pingpong", ("blocking", -8), {}),
]:
    try:
        kernels.run(name, comm, *call, **settings)
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
        assert "no variant 'party'. Did you mean 'parity'? There are: blocking" in lines[0]
        assert lines[1:3] == [
            f"doubles must lie between 0 and 2,147,483,647, and {text} does not."
            for text in ("-1", "1,000,000,000,000,000")
        ]
        assert lines[3] == "doubles must be a whole number, not 2.5."
        assert lines[4] == "doubles must be a whole number, not '10'."
        assert lines[5] == "reps must lie between 1 and 1,000,000, and 0 does not."
        assert "the ranks asked for different things" in lines[6]
        assert f"rank {rank}: doubles={10 + rank}" in lines[6]
        assert "no setting 'evry'. Did you mean 'every'?" in lines[7]
        assert lines[8] == "every must lie between -1 and 1,000,000,000, and -2 does not."
        assert "the ranks asked for different things" in lines[9]
        assert "does not suit 3 ranks. There are: partner: the rank that rank 0 plays" in lines[10]
        assert lines[11] == "bytes must lie between 0 and 2,147,483,647, and -8 does not."
        assert lines[12:15] == ["(2,) float64 True"] * 3
        assert "comm must be a communicator" in lines[15]


def test_variants_are_those_of_the_table():
    assert kernels.variants("ring") == VARIANTS
    assert {name: kernels.variants(name) for name in BYTES} == BYTES
    assert "(1)" in kernels.settings("pingpong")["partner"]
    assert [kernels.unit_bytes(name) for name in ("ring", *BYTES)] == [8, 1, 1]
    with pytest.raises(ValueError, match=r"no kernel 'rung'\. Did you mean 'ring'"):
        kernels.variants("rung")


def test_codes_are_those_of_the_header():
    header = (SOURCES / "ringside.h").read_text()
    codes = dict(re.findall(r"RINGSIDE_(\w+) = (-\d+)", header))
    assert len(codes) == 9
    assert {name: getattr(kernels, name) for name in codes} == {k: int(v) for k, v in codes.items()}
    assert f"RINGSIDE_MAX_REPETITIONS {kernels.MAX_REPETITIONS}\n" in header


def test_missing_kernels_say_how_to_build_them(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "directory", lambda: tmp_path)
    kernels._library.cache_clear()
    kernels._kernels.cache_clear()
    with pytest.raises(FileNotFoundError, match="make kernels"):
        kernels.variants("ring")
    (tmp_path / "libkernels.so").write_text("not a library")
    with pytest.raises(OSError, match=r"did not load .*make kernels"):
        kernels.variants("ring")


def test_a_compiler_error_is_shown(build_copy):
    with pytest.raises(AssertionError, match=r"error: .*no such file\.h"):
        build_copy("libkernels.so", EXTRA_CFLAGS="-include 'no such file.h'")


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
    front = interposer(tmp_path, INTERPOSER)
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
    try:
        kernels.ring(comm, variant, 1_000_000, 2)
    except MPI.Exception as error:
        tell(error.Get_error_class() == MPI.ERR_OTHER)
    number(broken).value = 0
    comm.Barrier()
    tell(len(kernels.ring(comm, variant, 1_000_000, 2)))
maps = Path("/proc/self/maps").read_text().split()
tell(len({{word for word in maps if "/libmpi.so" in word}}))
"""
    assert python(2, tmp_path, program) == ["5\nTrue\n2\nTrue\n2\n1\n"] * 2


@pytest.mark.skipif(
    mpi.name() == "system",
    reason="of the wheels alone: the system's MPI may itself come from the library path",
)
def test_a_foreign_mpi_in_the_library_path_is_not_taken(tmp_path):
    needed = subprocess.run(["ldd", PROGRAM], capture_output=True, text=True, check=True).stdout
    soname = re.search(r"libmpi\.so\.\d+", needed)[0]
    empty = tmp_path / "empty.c"
    empty.write_text("int empty;\n")
    foreign = tmp_path / soname
    subprocess.run(["cc", "-shared", f"-Wl,-soname,{soname}", empty, "-o", foreign], check=True)
    done = mpirun(2, PROGRAM, "--variant", "parity", LD_LIBRARY_PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr


@pytest.mark.long
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
