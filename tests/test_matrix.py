"""The matrix: every variant on every grid, wrong data caught, bad input refused, types freed."""

import re

import pytest
from ranks import faulty, interposer, mpirun, python

from ringside import kernels

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

PROGRAM = kernels.directory() / "bin" / "matrix"
VARIANTS = ["resized", "alltoallw", "subarrays", "messages", "packed"]

EVERY = f"""
import numpy as np
from ringside import kernels
from ringside.watch import scope
scope.load()
from mpi4py import MPI
comm = MPI.COMM_WORLD
random = np.random.default_rng(7)  # the same on all ranks
divisors = [n for n in range(1, comm.size + 1) if comm.size % n == 0]
shapes = [(1, 1), (3, 2), (7, 9), (8, 8), (1, 50), (50, 1), (comm.size + 1, 2 * comm.size)]
shapes += [tuple(map(int, random.integers(1, 70, 2))) for _ in range(20)] + [(300, 211)]
for variant in {VARIANTS}:
    for rows, columns in shapes:
        grid = int(random.choice(divisors + [0]))
        seconds = kernels.matrix(comm, variant, rows * columns, 2, columns=columns, grid=grid)
        assert (seconds > 0).all(), (variant, rows, columns, grid)
    for doubles in (0, 12, 13, 1000):
        kernels.matrix(comm, variant, doubles)
    kernels.matrix(comm, variant, 0, columns=5)
comm.Barrier()
tell(scope.state()["types"], comm.iprobe())
"""


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_every_variant_on_every_grid(n, tmp_path):
    assert python(n, tmp_path, EVERY) == ["0 False\n"] * n


def test_the_program_prints_the_bytes_of_the_matrix():
    options = ["--variant", "resized", "--doubles", 600, "--columns", 20, "--reps", 2]
    done = mpirun(3, PROGRAM, *options)
    assert done.returncode == 0, done.stderr
    # Intel MPI 2021.10 writes lines of its own to standard output.
    rows = [line for line in done.stdout.splitlines() if line.startswith("mpiexec,")]
    assert [row.split(",")[:6] for row in rows] == [
        ["mpiexec", "matrix", "resized", "3", "1", "4800"]
    ] * 2


# On 4 ranks, 6 x 6 doubles in blocks of 3 x 3: who must find wrong elements.
FAULTS = {
    "half the extent": ("resized", {0, 1, 2, 3}),
    "displacements of a narrower matrix": ("resized", {0, 2, 3}),
    "blocks not gathered": ("alltoallw", {0}),
    "rows in the wrong order": ("messages", {0, 1, 2, 3}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_data_is_caught(fault, faults):
    variant, expected = FAULTS[fault]
    options = ["--variant", variant, "--doubles", 36, "--reps", 2, "--warmup", 1]
    done = faulty(faults, fault, 4, PROGRAM, *options)
    assert done.returncode != 0, (done.returncode, done.stdout, done.stderr)
    found = re.findall(r"rank (\d): variant \w+: (\d+) of 108 elements were wrong", done.stderr)
    wrong = {int(rank): int(count) for rank, count in found}
    assert set(wrong) == expected, wrong
    assert all(count % 3 == 0 for count in wrong.values()), "each repetition alike"


def test_bad_input_is_refused(tmp_path):
    program = """
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
for doubles, settings in [
    (10, {"columns": 3}),
    (12, {"grid": 2}),
    (-1, {}),
    (2**30 + 1, {}),
    (12, {"rows": 3}),
    (2**30, {"columns": 2**30, "grid": 3}),
    (12 + comm.rank, {}),
]:
    try:
        kernels.matrix(comm, "resized", doubles, **settings)
        tell("accepted", doubles)
    except ValueError as error:
        tell(error)
"""
    for told in python(3, tmp_path, program):
        lines = told.splitlines()
        assert "does not suit 3 ranks. There are: columns: columns of the matrix" in lines[0]
        assert "does not suit 3 ranks" in lines[1]
        assert lines[2] == "doubles must lie between 0 and 1,073,741,824, and -1 does not."
        assert "and 1,073,741,825 does not." in lines[3]
        assert "no setting 'rows'. There are: columns, grid." in lines[4]
        assert "does not suit 3 ranks" in lines[5]
        assert "the ranks asked for different things" in lines[6]


def test_no_variant_relies_on_buffering(cluster):
    cluster.view.execute("from mpi4py import MPI; from ringside import kernels")
    cluster.insist(True)
    try:
        for variant in VARIANTS:
            for doubles in (12, 70_000):
                cluster.view.execute(f"kernels.matrix(MPI.COMM_WORLD, {variant!r}, {doubles})")
    finally:
        cluster.insist(False)


# In front of MPI: breaks the calls it is told to, once they have done their work.
FRONT = """
#include <mpi.h>
int broken = 0, freed = 0;
int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[]) {
    const int code = PMPI_Waitall(n, requests, statuses);
    return broken ? MPI_ERR_OTHER : code;
}
int MPI_Gatherv(const void *from, int n, MPI_Datatype type, void *to, const int counts[],
                const int displs[], MPI_Datatype into, int root, MPI_Comm comm) {
    const int code = PMPI_Gatherv(from, n, type, to, counts, displs, into, root, comm);
    return broken ? MPI_ERR_OTHER : code;
}
int MPI_Type_free(MPI_Datatype *type) {
    freed++;
    return PMPI_Type_free(type);
}
"""


def test_an_error_in_the_middle_leaves_nothing(tmp_path):
    front = interposer(tmp_path, FRONT)
    program = f"""
import ctypes
front = ctypes.CDLL({str(front)!r}, ctypes.RTLD_GLOBAL)
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
number = lambda name: ctypes.c_int.in_dll(front, name)
for variant in ("resized", "subarrays"):
    number("broken").value = 1
    try:
        kernels.matrix(comm, variant, 4800, 2)
    except MPI.Exception as error:
        tell(error.Get_error_class() == MPI.ERR_OTHER, number("freed").value)
    number("broken").value = number("freed").value = 0
    comm.Barrier()
    tell(len(kernels.matrix(comm, variant, 4800, 2)), comm.iprobe())
    number("freed").value = 0
"""
    told = python(3, tmp_path, program)
    assert told[0] == "True 2\n2 False\nTrue 3\n2 False\n"
    assert told[1] == told[2] == "True 2\n2 False\nTrue 0\n2 False\n"


@pytest.mark.long
def test_sanitizers_find_nothing(build_copy):
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all"
    program = build_copy("bin/matrix", EXTRA_CFLAGS=flags)
    for variant in VARIANTS:
        options = ["--variant", variant, "--doubles", 7 * 9, "--columns", 9, "--reps", 2]
        done = mpirun(3, program, *options, ASAN_OPTIONS="detect_leaks=0")
        assert done.returncode == 0, done.stderr
        assert "runtime error" not in done.stderr


def test_names_are_those_of_the_table():
    assert kernels.variants("matrix") == VARIANTS
    assert list(kernels.settings("matrix")) == ["columns", "grid"]
