"""The heat equation on blocks against the whole grid on one rank, cell by cell, to the last bit."""

import csv
import re

import pytest
from ranks import faulty, interposer, mpirun, python

from ringside import kernels

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

RUN = kernels.directory() / "bin" / "heat"
VARIANTS = ["waitall", "overlap"]

# One serial step on the whole grid, written by itself; the blocks are cut out of a random grid.
PROGRAM = """
import numpy as np
from mpi4py import MPI
from ringside import kernels

comm = MPI.COMM_WORLD
rng = np.random.default_rng(7)
dims = MPI.Compute_dims(comm.size, 2)
at = divmod(comm.rank, dims[1])


def serial(whole, steps, rate):
    for _ in range(steps):
        inner = whole[1:-1, 1:-1]
        around = (whole[:-2, 1:-1] + whole[2:, 1:-1]) + (whole[1:-1, :-2] + whole[1:-1, 2:])
        new = whole.copy()
        new[1:-1, 1:-1] = inner + rate * (around - 4.0 * inner)
        whole = new
    return whole


def mine(n, place, parts):
    cut = np.array_split(np.arange(1, n + 1), parts)[place]
    return slice(cut[0] - 1, cut[-1] + 2)


for shape in SHAPES:
    for steps in (0, 1, 2, 7):
        whole = rng.random((shape[0] + 2, shape[1] + 2))
        here = mine(shape[0], at[0], dims[0]), mine(shape[1], at[1], dims[1])
        expected = serial(whole, steps, 0.2)[here]
        for variant in ("waitall", "overlap"):
            block = whole[here].copy()
            seconds = kernels.heat(comm, variant, block, steps, 0.2)
            right = (block[1:-1, 1:-1] == expected[1:-1, 1:-1]).all() and seconds >= 0
            if not right:
                tell(shape, steps, variant, "wrong")
tell("compared")
"""


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 8])
def test_blocks_are_the_whole_to_the_last_bit(n, tmp_path):
    """A rim from the wrong side, a row too few, a step lost in the last swap would show here."""
    program = PROGRAM.replace("SHAPES", "[(8, 8), (17, 11), (40, 9)]")
    assert python(n, tmp_path, program) == ["compared\n"] * n


def test_bad_blocks_are_refused_on_all_ranks(tmp_path):
    program = """
import numpy as np
from mpi4py import MPI
from ringside import kernels

comm = MPI.COMM_WORLD
good = np.zeros((6, 6))
for block, steps, rate, variant in [
    (np.zeros((6 + comm.rank % 2, 6)), 1, 0.2, "waitall"),
    (good, 1 + comm.rank, 0.2, "waitall"),
    (good, 1, 0.3, "waitall"),
    (good[:, ::2], 1, 0.2, "waitall"),
    (good.astype("f4"), 1, 0.2, "waitall"),
    (good, -1, 0.2, "waitall"),
    (good, 1, 0.2, "overlaps"),
]:
    try:
        kernels.heat(comm, variant, block, steps, rate)
        tell("accepted")
    except ValueError as error:
        tell(error)
tell(kernels.heat(comm, "overlap", good, 3) >= 0)
"""
    for told in python(4, tmp_path, program):
        lines = told.splitlines()
        assert "blocks do not fit" in lines[0]
        assert "different things" in lines[1]
        assert "at most 0.25" in lines[2]
        assert all("C-contiguous array of float64" in line for line in lines[3:5])
        assert "steps must lie between 0" in lines[5]
        assert "Did you mean 'overlap'?" in lines[6]
        assert lines[7] == "True"


# ---- as a kernel with blocks of its own ----


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_every_block_is_verified(n, tmp_path):
    program = f"""
from ringside import kernels
from ringside.watch import scope
scope.load()
from mpi4py import MPI
comm = MPI.COMM_WORLD
for variant in {VARIANTS}:
    for doubles in (0, 1, 7, 12, 1000):  # a prime number of cells lies in one row
        for steps in (1, 2, 60):  # to the grid's edge, and beyond several blocks
            assert (kernels.run("heat", comm, variant, doubles, 3, steps=steps) > 0).all()
comm.Barrier()
tell(scope.state()["types"], comm.iprobe())
"""
    assert python(n, tmp_path, program) == ["0 False\n"] * n


def test_the_program_prints_the_bytes_of_a_block():
    done = mpirun(3, RUN, "--variant", "overlap", "--doubles", 600, "--steps", 5, "--reps", 2)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert [(row["kernel"], row["variant"], row["bytes"]) for row in rows] == [
        ("heat", "overlap", "4800")
    ] * 2
    assert kernels.variants("heat") == VARIANTS
    assert list(kernels.settings("heat")) == ["steps"]


@pytest.mark.parametrize(
    "fault",
    ["nothing after the first repetition", "last element not sent", "last exchange missing"],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_wrong_rims_are_caught(variant, fault, faults):
    # 10 x 10 cells on each of 4 ranks; a step makes 8 calls, and the last of 3 steps is left out.
    options = ["--variant", variant, "--doubles", 100, "--steps", 3, "--reps", 2, "--warmup", 0]
    done = faulty(faults, fault, 4, RUN, *options, calls=16)
    assert done.returncode != 0, (done.returncode, done.stdout, done.stderr)
    found = re.findall(r"rank (\d): variant \w+: (\d+) of 200 elements were wrong", done.stderr)
    assert [int(rank) for rank, _ in found] == [0, 1, 2, 3]
    assert all(0 < int(count) < 200 for _, count in found), found


# ---- errors, and what is left behind ----

# In front of MPI: breaks the call it is told to.
FRONT = """
#include <mpi.h>
int broken = 0, freed = 0;
int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return broken == 1 ? MPI_ERR_OTHER : PMPI_Isend(buffer, count, type, dest, tag, comm, request);
}
int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[])
{
    const int code = PMPI_Waitall(n, requests, statuses);
    return broken == 2 ? MPI_ERR_OTHER : code;
}
int MPI_Type_free(MPI_Datatype *type)
{
    freed++;
    return PMPI_Type_free(type);
}
"""


def test_a_broken_call_leaves_nothing_stuck(tmp_path):
    front = interposer(tmp_path, FRONT)
    program = f"""
import ctypes, time
front = ctypes.CDLL({str(front)!r}, ctypes.RTLD_GLOBAL)
import numpy as np
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
number = lambda name: ctypes.c_int.in_dll(front, name)
for broken in (1, 2):
    for variant in {VARIANTS}:
        block = np.arange(90_000.0).reshape(300, 300)
        comm.Barrier()
        number("broken").value, number("freed").value = broken, 0
        try:
            kernels.heat(comm, variant, block, 3)
        except MPI.Exception as error:
            tell(error.Get_error_class() == MPI.ERR_OTHER)
        tell((block.ravel() == np.arange(90_000)).all(), number("freed").value)
        number("broken").value = 0
        comm.Barrier()
        tell(len(kernels.run("heat", comm, variant, 90_000, 2)), comm.iprobe())
"""
    assert python(4, tmp_path, program) == ["True\nTrue 1\n2 False\n" * 4] * 4


@pytest.mark.long
def test_sanitizers_find_nothing(build_copy):
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    program = build_copy("bin/heat", EXTRA_CFLAGS=flags)
    for doubles in (0, 1, 7 * 9):
        for variant in VARIANTS:
            options = ["--variant", variant, "--doubles", doubles, "--reps", 2]
            done = mpirun(3, program, *options, ASAN_OPTIONS="detect_leaks=0")
            assert done.returncode == 0, done.stderr
            assert "runtime error" not in done.stderr
