"""Halo swapping: every method right on every grid, against numpy; what cannot be done says why."""

import csv
import re

import pytest
from ranks import faulty, interposer, mpirun, mpiruns, python

from ringside import kernels, mpi

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

PROGRAM = kernels.directory() / "bin" / "halo"
METHODS = [
    "sendrecv",
    "redblack",
    "isend_recv_wait",
    "irecv_send_wait",
    "irecv_isend_wait",
    "irecv_isend_waitall",
    "persistent",
    "neighbor_alltoall",
    "ineighbor_alltoall",
    "neighbor_alltoall_init",
    "put_fence",
    "partitioned",
    "shared_window",
]
ODD = "two neighbours around it have the same colour"

# ---- right on every grid ----

# What a halo must hold follows from the grid alone: who the neighbour is, and which of its faces
# points here. No line of the C code has a part in it.
ORACLE = """
import numpy as np
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD

def faces(rank, swap, shape):
    return np.random.default_rng([rank, swap]).random((6, *shape))

def halos(dims, rank, swap, shape):
    expected = np.empty((6, *shape))
    at = np.unravel_index(rank, dims)
    for dimension in range(3):
        for side, step in enumerate((-1, 1)):
            there = list(at)
            there[dimension] = (there[dimension] + step) % dims[dimension]
            neighbour = int(np.ravel_multi_index(there, dims))
            expected[2 * dimension + side] = faces(neighbour, swap, shape)[2 * dimension + 1 - side]
    return expected

def right(grid, dims, method):
    for swap, shape in enumerate([(1,), (7, 5), (0,), (20_000,)]):
        incoming = np.full((6, *shape), -1.0)
        kernels.halo_exchange(grid, method, faces(grid.rank, swap, shape), incoming)
        if not np.array_equal(incoming, halos(dims, grid.rank, swap, shape)):
            return False
    return True
"""

# The grid that MPI chooses, and others made by hand.
GRIDS = {
    1: [],
    2: [(1, 2, 1)],
    3: [(1, 1, 3)],
    4: [(4, 1, 1), (1, 2, 2)],
    6: [(1, 2, 3), (6, 1, 1)],
    8: [(1, 4, 2)],
    12: [(2, 2, 3), (1, 12, 1)],
}


def possible(method: str, dims: tuple) -> bool:
    return method != "redblack" or all(size == 1 or size % 2 == 0 for size in dims)


@pytest.mark.parametrize("n", [pytest.param(n, marks=[pytest.mark.long] * (n > 8)) for n in GRIDS])
def test_every_method_fills_the_halos_of_every_grid(n, tmp_path):
    program = f"""{ORACLE}
for dims in [None, *{GRIDS[n]}]:
    grid = comm if dims is None else comm.Create_cart(dims, periods=[True] * 3)
    dims = tuple(dims or MPI.Compute_dims(comm.size, 3))
    for method in {METHODS}:
        try:
            told = right(grid, dims, method) and len(kernels.halo(grid, method, 50, 2, trips=2))
        except ValueError as error:
            told = error
        tell(*dims, method, told)
"""
    for told in python(n, tmp_path, program):
        lines = [line.split(" ", 4) for line in told.splitlines()]
        assert len(lines) == len(METHODS) * (1 + len(GRIDS[n]))
        for *numbers, method, words in lines:
            if possible(method, tuple(map(int, numbers))):
                assert words == "2", (numbers, method)
            else:
                assert ODD in words and "'redblack', cannot be done here: " in words


def test_grids_of_another_kind_are_refused_and_halves_can_swap(tmp_path):
    program = f"""{ORACLE}
for dims, periods in [((2, 2), [True] * 2), ((2, 2, 1), [True, False, True])]:
    try:
        kernels.halo(comm.Create_cart(dims, periods), "sendrecv", 1)
    except ValueError as error:
        tell(error)
half = comm.Split(comm.rank % 2)
tell(all(right(half, (2, 1, 1), method) for method in {METHODS}))
"""
    words = "the communicator's own grid is not periodic in three dimensions"
    for told in python(4, tmp_path, program):
        assert told.count(words) == 2
        assert told.splitlines()[2] == "True"


def test_a_library_that_swaps_blocks_is_named(tmp_path):
    program = """
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
for method in ("sendrecv", "neighbor_alltoall_init"):
    tell(kernels.why("halo", comm, method))
    tell(len(kernels.halo(comm, method, 10_000, 2)))
"""
    # Open MPI mended errata 28 after 5.0.11; whichever it is, the halos are right.
    words = (
        r"None|.* wrong way round \(MPI 4\.1, section 8\.6\); each halo is read from where it is"
    )
    for told in python(2, tmp_path, program):
        assert re.fullmatch(rf"None\n2\n({words})\n2\n", told)
        if mpi.kind() == "mpich":
            assert told == "None\n2\nNone\n2\n"


# ---- the program ----


def figures(line: str) -> list[float]:
    """The three bandwidths of a line of the table; none where a reason stands instead."""
    found = re.fullmatch(r"\w+ +([\d.]+) +([\d.]+) +([\d.]+) +\d+ +[\d.]+(  \(1\))?", line)
    return [float(figure) for figure in found.groups()[:3]] if found else []


def test_the_table_names_all_methods():
    done = mpirun(8, PROGRAM, "--doubles", 1000, "--reps", 2, "--trips", 2)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "halo: 8 ranks as 2 x 2 x 2; 6 faces of 1000 doubles out and in"
    table = {line.split()[0]: figures(line) for line in lines[4 : 4 + len(METHODS)]}
    assert list(table) == METHODS
    assert all(len(runs) == 3 and min(runs) > 0 for runs in table.values()), done.stdout


def test_the_table_adapts_its_repetitions_and_gives_reasons():
    done = mpirun(3, PROGRAM, "--doubles", 10, "--trips", 2)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()[4 : 4 + len(METHODS)]
    assert [line.split()[0] for line in lines] == METHODS
    assert lines[1].endswith(ODD)
    assert all(figures(line) for i, line in enumerate(lines) if i != 1), done.stdout


def test_a_variant_prints_rows_as_every_kernel_does():
    options = ["--variant", "persistent", "--doubles", 1000]
    done, odd, unknown = mpiruns(
        [
            (2, PROGRAM, *options),
            (3, PROGRAM, "--variant", "redblack"),
            (1, PROGRAM, "--variant", "sandrecv"),
        ]
    )
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["repetition"] for row in rows] == [str(i) for i in range(1, 11)]
    for row in rows:
        assert [row[key] for key in ("kernel", "variant", "bytes")] == [
            "halo",
            "persistent",
            "8000",
        ]
        assert 0 < float(row["mean_seconds"]) <= float(row["seconds"])
    assert (odd.returncode, odd.stdout) == (2, "")
    assert odd.stderr.count("variant redblack is not possible here: ") == 1
    assert ODD in odd.stderr
    assert unknown.returncode == 2
    assert "variants: " + " ".join(METHODS) in unknown.stderr


def test_what_shows_at_set_up_is_told(faults):
    done = faulty(faults, "set-up", 2, PROGRAM, "--doubles", 10, "--reps", 1)
    table = done.stdout.splitlines()[4 : 4 + len(METHODS)]
    lines = dict(line.split(maxsplit=1) for line in table)
    assert "on several nodes, and memory is shared within a node only" in lines["shared_window"]
    assert "does not deliver the blocks that MPI 4.1" in lines["neighbor_alltoall"]
    assert "another rank says that it cannot be done" in lines["put_fence"]
    assert figures("persistent " + lines["persistent"])


# ---- wrong data is caught ----

# Every method that is broken, each in its own way, and what each of 2 ranks then has wrong.
WRONG = {
    "irecv_send_wait": ("faces swapped", 600),
    "isend_recv_wait": ("last element not sent", 6),
    "put_fence": ("face forgotten", 100),
    "shared_window": ("the face beside it", 600),
    "persistent": ("directions exchanged", 600),
}


def wrong_elements(faults, fault: str, method: str, *options, calls: int = 0) -> list[int]:
    command = [PROGRAM, "--variant", method, "--doubles", 100, "--warmup", 0, *options]
    done = faulty(faults, fault, 2, *command, calls=calls)
    assert done.returncode != 0, done.stderr
    assert done.stdout == ""
    found = re.findall(r"rank \d: variant \w+: (\d+) of (\d+) elements were wrong", done.stderr)
    assert len(found) == 2, done.stderr
    return [int(count) for count, _ in found]


@pytest.mark.parametrize("method", WRONG)
def test_wrong_faces_are_caught(method, faults):
    fault, wrong = WRONG[method]
    assert wrong_elements(faults, fault, method, "--reps", 1) == [wrong] * 2


# How many calls an exchange makes of those that can be left out.
@pytest.mark.parametrize(("method", "calls"), [("irecv_isend_waitall", 12), ("put_fence", 6)])
def test_stale_halos_are_caught(method, calls, faults):
    fault = "nothing after the first repetition"
    assert wrong_elements(faults, fault, method, "--reps", 3) == [1200] * 2
    options = ["--reps", 3, "--trips", 2]  # of 3 exchanges, one not timed, the last is left out
    wrong = wrong_elements(faults, "last exchange missing", method, *options, calls=2 * calls)
    assert wrong == [3 * 12] * 2


@pytest.mark.long
def test_sanitizers_find_nothing(build_copy):
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    program = build_copy("bin/halo", EXTRA_CFLAGS=flags)
    # Leaks are left out: the MPI libraries keep memory until the end of the process.
    settings = {"ASAN_OPTIONS": "detect_leaks=0"}
    for doubles in (0, 300):
        done = mpirun(2, program, "--doubles", doubles, "--reps", 1, **settings)
        assert done.returncode == 0, done.stderr
        assert "runtime error" not in done.stderr
        assert len(done.stdout.splitlines()) >= 4 + len(METHODS)


# ---- errors, and what is left behind ----


def test_nothing_is_left_behind(tmp_path):
    program = f"""
import numpy as np, psutil
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
outgoing, incoming = np.ones((6, 20_000)), np.empty((6, 20_000))
def swap(times):
    for method in {METHODS}:
        for _ in range(times):
            kernels.halo_exchange(comm, method, outgoing, incoming)
    return psutil.Process().memory_info().rss
before = swap(5)
tell(swap(40) - before < 40e6)  # 2 MB a swap
small = np.ones((6, 1))
for _ in range(2500):  # more than there are communicators
    kernels.halo_exchange(MPI.COMM_SELF, "persistent", small, incoming[:, :1].copy())
tell("done")
"""
    assert python(2, tmp_path, program) == ["True\ndone\n"] * 2


def test_python_refuses_bad_input_and_goes_on(tmp_path):
    program = """
import numpy as np
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
six = np.zeros((6, 4))
for call in [
    (comm, "sendrcv", six, six), (comm, "sendrecv", six[:5], six), (comm, "sendrecv", six, 1),
    (comm, "sendrecv", six, np.zeros((6, 4), int)), (comm, "sendrecv", six, np.zeros((4, 6)).T),
    (comm, "sendrecv", six, np.zeros((6, 5))), (MPI.COMM_NULL, "sendrecv", six, six),
    (comm, "sendrecv" if comm.rank else "persistent", six, six.copy()),
    (comm, "sendrecv", np.zeros((6, comm.rank)), np.zeros((6, comm.rank))),
]:
    try:
        kernels.halo_exchange(*call)
        tell("accepted", call)
    except ValueError as error:
        tell(error)
try:
    kernels.halo(comm, "redblack", 10, partitions=0)
except ValueError as error:
    tell(error)
incoming = np.full((6, 2), -1.0)
kernels.halo_exchange(comm, "sendrecv", np.arange(12.0).reshape(6, 2), incoming)
tell(*incoming.ravel().astype(int))
"""
    contiguous = "must be a contiguous numpy array of float64, shape (6, ...)"
    for told in python(2, tmp_path, program):
        lines = told.splitlines()
        assert "halo has no variant 'sendrcv'. Did you mean 'sendrecv'?" in lines[0]
        assert f"outgoing {contiguous}" in lines[1] and "(5, 4)" in lines[1]
        assert f"incoming {contiguous}" in lines[2] and lines[2].endswith("it is 1.")
        assert f"incoming {contiguous}" in lines[3] and "int64" in lines[3]
        assert f"incoming {contiguous}" in lines[4]
        assert lines[5] == "outgoing and incoming must have one shape, not (6, 4) and (6, 5)."
        assert "comm must be a communicator" in lines[6]
        assert "the ranks asked for different things" in lines[7]
        assert "the ranks asked for different things" in lines[8]
        assert lines[9] == "partitions must lie between 1 and 1,000, and 0 does not."
        assert lines[10] == "2 3 0 1 6 7 4 5 10 11 8 9"


# Stands in front of MPI as the scope does, and breaks the call it is told to.
INTERPOSER = """
#include <mpi.h>
int broken = 0;
#define AFTER(number, call) \\
    { const int code = call; return broken == number ? MPI_ERR_OTHER : code; }
#define BEFORE(number, call) { return broken == number ? MPI_ERR_OTHER : call; }
int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
BEFORE(1, PMPI_Isend(buffer, count, type, dest, tag, comm, request))
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
AFTER(2, PMPI_Waitall(count, requests, statuses))
int MPI_Wait(MPI_Request *request, MPI_Status *status)
AFTER(3, PMPI_Wait(request, status))
int MPI_Startall(int count, MPI_Request requests[])
BEFORE(4, PMPI_Startall(count, requests))
int MPI_Put(const void *buffer, int count, MPI_Datatype type, int target, MPI_Aint displacement,
            int target_count, MPI_Datatype target_type, MPI_Win window)
BEFORE(5, PMPI_Put(buffer, count, type, target, displacement, target_count, target_type, window))
int MPI_Start(MPI_Request *request)
BEFORE(6, PMPI_Start(request))
int MPI_Neighbor_alltoall(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
AFTER(7, PMPI_Neighbor_alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status)
AFTER(8, PMPI_Recv(buffer, count, type, source, tag, comm, status))
"""


def test_a_broken_call_leaves_nothing_stuck(tmp_path):
    front = interposer(tmp_path, INTERPOSER)
    cases = [
        (1, "irecv_isend_waitall"),
        (2, "irecv_isend_waitall"),
        (2, "persistent"),
        (4, "persistent"),
        (3, "ineighbor_alltoall"),
        (6, "neighbor_alltoall_init"),
        (7, "neighbor_alltoall"),
        (8, "isend_recv_wait"),
        (5, "put_fence"),
        (2, "shared_window"),
        (2, "partitioned"),
        (6, "partitioned"),
    ]
    program = f"""
import ctypes, time
front = ctypes.CDLL({str(front)!r}, ctypes.RTLD_GLOBAL)
import numpy as np
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
broken = ctypes.c_int.in_dll(front, "broken")
for number, method in {cases}:
    comm.Barrier()
    broken.value = number
    try:
        kernels.halo(comm, method, 100_000, 2)
    except MPI.Exception as error:
        tell(method, error.Get_error_class() == MPI.ERR_OTHER)
    incoming = np.full((6, 9), -1.0)
    try:
        kernels.halo_exchange(comm, method, np.ones((6, 9)), incoming)
    except MPI.Exception as error:
        tell((incoming == -1).all())
    broken.value = 0
    comm.Barrier()
    tell(len(kernels.halo(comm, method, 10_000, 2)))
"""
    expected = "".join(f"{method} True\nTrue\n2\n" for _, method in cases)
    assert python(2, tmp_path, program) == [expected] * 2
