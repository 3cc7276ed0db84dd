"""The line that is named is the program's own, not one of the MPI library or its bindings."""

import subprocess
import sys

import pytest
from ranks import needs_lines

from ringside import mpi

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

# Each rank waits for the next, by way of libraries that lie beside the program: of MPICH's and
# Intel's Fortran, of Open MPI's (where one leads to the next), and of the program's own.
LIBRARY = r"""
#include <mpi.h>
int NAME(int source) {
    int value;
    return CALL(&value, 1, MPI_INT, source, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
"""
OUTER = "int mpi_recv_(int); int mpi_recv_f08_(int source) { return mpi_recv_(source); }\n"
PROGRAM = r"""
#include <mpi.h>
int pmpi_recv_(int), mpi_recv_f08_(int), mpi_exchange(int);
static int mpi_step(int rank, int size) {
    const int from = (rank + 1) % size;
    int err = 0;
    if (rank == 0)
        err = pmpi_recv_(from);
    if (rank == 1)
        err = mpi_recv_f08_(from);
    if (rank == 2)
        err = mpi_exchange(from);
    return err;
}
int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int err = mpi_step(rank, size);
    MPI_Finalize();
    return err;
}
"""


@needs_lines
def test_the_line_of_a_call_is_not_that_of_a_binding_of_mpi(tmp_path):
    """A course in Fortran would be shown lines of a file that it does not have."""

    def compiled(name: str, text: str, *options: str) -> None:
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        words = [mpi.mpicc(), "-g", "-O0", source, *options]
        subprocess.run(words, check=True, timeout=60, cwd=tmp_path)

    def library(name: str, text: str, *options: str) -> None:
        compiled(name, text, "-shared", "-fPIC", "-o", f"lib{name}.so", *options)

    beside = ["-L.", f"-Wl,-rpath,{tmp_path}"]
    library("mpifort", LIBRARY, "-DNAME=pmpi_recv_", "-DCALL=MPI_Recv")
    library("mpi_mpifh", LIBRARY, "-DNAME=mpi_recv_", "-DCALL=PMPI_Recv")
    library("mpi_usempif08", OUTER, *beside, "-lmpi_mpifh")
    library("mpi_solver", LIBRARY, "-DNAME=mpi_exchange", "-DCALL=MPI_Recv")
    links = ["-lmpifort", "-lmpi_usempif08", "-lmpi_mpifh", "-lmpi_solver"]
    compiled("program", PROGRAM, "-o", "program", *beside, *links)
    done = subprocess.run(
        [sys.executable, "-m", "ringside", "run", "-n", "3", tmp_path / "program"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 120, done.stderr
    told = [line.split(", ", 1)[1] for line in done.stderr.splitlines() if "MPI_Recv" in line]
    assert told == [
        "program.c:8, in mpi_step",
        "program.c:10, in mpi_step",
        "mpi_solver.c:5, in mpi_exchange",
    ]
