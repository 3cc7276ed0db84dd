"""Where a call was made: the line of a cell, of its C, of a kernel, of a program in Python."""

import json
import subprocess
import sys
from pathlib import Path

import notebook
import pandas as pd
import pytest
from cells import run
from IPython.utils.capture import capture_output
from matplotlib import pyplot
from ranks import needs_lines

import ringside
from ringside import draw
from ringside.cluster import magic

LIMIT = 60
SETUP = """
import threading
import numpy as np
from mpi4py import MPI
from ringside import kernels
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
def ring(n):
    outgoing, incoming = np.ones(n), np.zeros(n)
    comm.Send(outgoing, (rank + 1) % size)
    comm.Recv(incoming, (rank - 1) % size)
"""
UNLIKE = "if rank == 2:\n  comm.Barrier()\nelse:\n  comm.Bcast(np.ones(1))"
STUCK_IN_C = """#include <mpi.h>

static int receive(double *x, int from, MPI_Comm comm)
{
    return MPI_Recv(x, 1, MPI_DOUBLE, from, 9, comm, MPI_STATUS_IGNORE);
}
int stuck(double *x, MPI_Comm comm)
{
    int rank;
    MPI_Comm_rank(comm, &rank);
    return receive(x, rank, comm);
}
"""


@pytest.fixture
def view(cluster):
    cluster.view.execute(SETUP)
    return cluster.view


def stuck_in(cluster, code: str) -> str:
    """What is said of rank 0 in the verdict on a cell."""
    with pytest.raises(ringside.errors.Left) as caught:
        run(cluster, code, LIMIT)
    return next((line for line in str(caught.value).splitlines() if "rank 0: " in line), "")


# ---- verdicts ----


@pytest.mark.parametrize(
    "code, place",
    [
        ("x = 1\ncomm.recv(source=rank)", "line 2 of the cell"),
        ("#\n#\ncomm.recv(\n  source=rank,\n)", "line 3 of the cell"),
        ("def f():\n    comm.Recv(np.zeros(1),\n  rank)\nf()", "line 2 of the cell, in f"),
        ("class A:\n  def f(self):\n    comm.Probe(rank)\nA().f()", "line 3 of the cell, in A.f"),
        ("def f():\n  [comm.Probe(rank) for _ in '1']\nf()", "line 2 of the cell, in f"),
        ("f = lambda: comm.Probe(rank)\n\nf()", "line 1 of the cell"),
        ("def f():\n  yield comm.Probe(rank)\n\nnext(f())", "line 2 of the cell, in f"),
        ("sorted([1, 2], key=lambda _: comm.Probe(rank))", "line 1 of the cell"),
        ("#\nexec('comm.Probe(rank)')", "line 2 of the cell"),
        ("ring(5_000_000)", "line 9 of the cell that defines ring"),
        ("try:\n  comm.Probe(rank)\nfinally:\n  x = 1\n", "line 2 of the cell"),
        ("r = comm.Irecv(np.zeros(1), rank)\nr.Wait()", "line 2 of the cell"),
        ("comm.Probe(rank)\ncomm.Probe(rank)\n" * 20, "line 1 of the cell"),
        ("t = threading.Thread(target=lambda:\n  comm.Probe(rank))\nt.start()\ncomm.Probe(rank)",
         "line 4 of the cell; in another thread MPI_Probe from rank 0 (any tag), "
         "line 2 of the cell"),
        ("if rank:\n  comm.barrier()\nelse:\n  comm.gather(1)", "line 4 of the cell"),
        ("fresh = comm.Dup()\nif rank == 0:\n  fresh.allreduce(1)\nelse:\n  fresh.Barrier()",
         "line 3 of the cell"),  # with Python's lock
        ("comm.Probe(MPI.ANY_SOURCE) if rank else comm.Recv(bytearray(1), 1, 3)",
         "line 1 of the cell"),
    ],
)  # fmt: skip
def test_a_verdict_names_the_line_of_the_cell(cluster, view, code, place):
    assert stuck_in(cluster, code).endswith(f", {place}")


def test_a_cell_that_is_run_again_with_other_lines_has_its_own(cluster, view):
    """Its code may lie where that of the cell before did, and look alike but for the lines."""
    for line in range(1, 12):
        said = stuck_in(cluster, "#\n" * (line - 1) + "def f():\n  comm.Probe(rank)\nf()")
        assert said.endswith(f", line {line + 1} of the cell, in f")


def test_a_function_that_is_sent_is_known_by_its_own_lines(cluster, view):
    for line in range(1, 6):
        names = {}
        code = "\n" * line + "def sent():\n    from mpi4py import MPI\n    MPI.COMM_SELF.Probe(0)\n"
        exec(compile(code, f"/tmp/ipykernel_1/{line}.py", "exec"), names)
        with pytest.raises(ringside.errors.Left, match=f"line {line + 3} of the cell that defines"):
            view.apply_sync(names["sent"])


@needs_lines
def test_a_verdict_names_the_line_of_c(cluster, view):
    magic._c(cluster, "", STUCK_IN_C)
    said = stuck_in(cluster, "\nstuck(np.zeros(1), comm)")
    assert said.endswith(", line 6 of the %%c cell, in receive")


def line_of_kernel(call: str) -> str:
    """Where it stands first in ring.c."""
    source = (Path(ringside.ROOT) / "kernels" / "ring.c").read_text().splitlines()
    return f"ring.c:{next(n for n, text in enumerate(source, 1) if call in text)}"


@needs_lines
@pytest.mark.parametrize("variant, call", [("blocking", "MPI_Send("), ("ssend", "MPI_Ssend(")])
def test_a_verdict_names_variant_and_line_of_a_kernel(cluster, view, variant, call):
    said = stuck_in(cluster, f"kernels.ring(comm, {variant!r}, 5_000_000)")
    assert said.endswith(f", {line_of_kernel(call)}, in {variant}")


def test_calls_that_do_not_fit_are_told_with_their_lines(cluster, view):
    with pytest.raises(ringside.errors.Mismatch) as caught:
        run(cluster, UNLIKE, LIMIT)
    lines = str(caught.value).splitlines()
    assert "  rank 2: MPI_Barrier, line 2 of the cell" in lines
    assert any(line.endswith("8 B, line 4 of the cell") for line in lines)


def test_the_picture_of_a_verdict_names_the_lines(cluster, view):
    for code, call in (("ring(5_000_000)", "MPI_Send\nline 9\nfor "), (UNLIKE, "B\nline 4")):
        stuck_in(cluster, code)
        axes = draw.wait_for(cluster.verdict)
        said = next(text.get_text() for text in axes.texts if text.get_gid() == "call 0")
        pyplot.close(axes.get_figure())
        assert call in said


# ---- events and notices ----


def lines_of(cluster, rank: int = 0) -> list[tuple[str, str]]:
    """The calls of a rank and where they were made."""
    mine = cluster.events().query("rank == @rank")
    return list(zip(mine["call"].str.removesuffix("_c"), mine["line"], strict=True))


def test_every_event_has_its_line(cluster, view):
    cluster.clear()
    run(cluster, EVENTS, LIMIT)
    assert lines_of(cluster) == [
        ("MPI_Isend", "line 4, in start"),
        ("MPI_Irecv", "line 5, in start"),
        ("MPI_Waitall", "line 7"),
        ("MPI_Send", "line 10"),
        ("MPI_Recv", "line 12"),
        ("MPI_Barrier", "line 14"),
    ]


EVENTS = """# what each event is looked for by
right, left, one, two = (rank + 1) % size, (rank - 1) % size, np.zeros(1), np.zeros(1)
def start():
    sent = comm.Isend(one, right)
    return [sent, comm.Irecv(two, left)]

MPI.Request.Waitall(start())
for peer in (0, 1):
    if rank == peer:
        comm.Send(one, 1 - rank)
    elif rank == 1 - peer:
        comm.Recv(two, peer)
# together
comm.Barrier()
"""


def test_lines_of_code_that_comes_and_goes(cluster, view):
    """Each time the code lies where there was other code, which looks alike."""
    cluster.clear()
    run(cluster, COMES_AND_GOES, LIMIT)
    lines = [line for call, line in lines_of(cluster) if call == "MPI_Isend"]
    assert lines == [f"f.py:{1 + n % 7}, in {'fg'[n % 2]}" for n in range(300)]


COMES_AND_GOES = """
for n in range(300):
    name = "fg"[n % 2]
    text = "\\n" * (n % 7) + f"def {name}(): MPI.COMM_SELF.Isend(bytes(1), 0).Free()"
    exec(compile(text, "f.py", "exec"))
    eval(name)()
"""


@needs_lines
def test_events_of_c_have_their_lines(cluster, view):
    """A call that ends its function is that function's."""
    cluster.clear()
    run(cluster, "kernels.ring(comm, 'blocking', 10)", LIMIT)
    lines = set(lines_of(cluster))
    assert ("MPI_Send", f"{line_of_kernel('MPI_Send(')}, in blocking") in lines
    assert ("MPI_Recv", f"{line_of_kernel('MPI_Recv(')}, in blocking") in lines


def test_a_message_left_over_names_the_line_that_sent_it(cluster, view):
    code = "if rank == 0:\n  for n in range(3):\n    comm.isend(n, dest=1, tag=4)"
    with capture_output() as shown:
        cluster.view.execute(code).display_outputs()
    told = " ".join((shown.stdout + shown.stderr).split())
    assert "3 messages from rank 0 to rank 1 (tag 4), sent in line 3 of the cell." in told
    run(cluster, "if rank == 1:\n  for n in range(3): comm.recv(source=0)", LIMIT)


def test_numbers_taken_for_others_are_told_with_the_lines_of_both_arrays(cluster, view):
    with capture_output() as shown:
        cluster.view.execute(MISREAD).display_outputs()
    told = " ".join((shown.stdout + shown.stderr).split())
    assert "rank 0 sent floating-point numbers in line 2 of the cell" in told
    assert "rank 1 took them for integers in line 4 of the cell (tag 0)" in told


MISREAD = """if rank == 0:
    comm.Send(np.ones(3), dest=1)
if rank == 1:
    pending = comm.Irecv(np.zeros(3, int), source=0)
    pending.Wait()
"""


def test_what_was_begun_in_an_earlier_cell_is_told_with_its_line(cluster, view):
    run(cluster, "#\nif rank == 1: pending = comm.Irecv(np.zeros(1), 2)", LIMIT)
    with pytest.raises(ringside.Deadlock) as caught:
        run(cluster, "if rank == 0: comm.recv(source=0)", LIMIT)
    begun = "What rank 1 had begun in line 2 of an earlier cell and not completed was taken out"
    assert begun in str(caught.value)


LOOKED_ON = """
import notebook
shown = notebook.Notebook(2)
shown.px("from mpi4py import MPI\\ncomm = MPI.COMM_WORLD\\nother = 1 - comm.rank", 60)
shown.px("def swap():\\n    return comm.recv(source=other)", 60)
for cell in ("\\nswap()", "#\\ncomm.isend(1, dest=other)", "comm.rank or comm.Bcast(bytearray(1))"):
    cell = shown.px(cell, 60)
    print(" ".join(str(cell.error or cell.text).split()))
shown.cluster.stop()
"""


@pytest.mark.parametrize("looks", [notebook.as_a_person, notebook.as_nbval])
def test_lines_are_counted_as_in_the_notebook(looks, tmp_path):
    """There a cell's first line is its `%%px`."""
    done = subprocess.run(
        [sys.executable, "-c", LOOKED_ON],
        env=looks() | {"IPYTHONDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    verdict, left, partly = done.stdout.splitlines()[-3:]
    swap = "rank 0: recv (MPI_Mprobe) from rank 1 (any tag), line 3 of the cell that defines swap"
    assert swap in verdict
    assert "1 message from rank 0 to rank 1 (tag 0), sent in line 3 of the cell" in left
    assert "rank 0 called MPI_Bcast, root 0, 1 B (line 2 of the cell), and rank 1 did not" in partly


# ---- `ringside run` ----


PROGRAM = """from mpi4py import MPI
comm = MPI.COMM_WORLD

def give():
    for _ in range(2):
        comm.Isend(bytes(1), 1).Free()

if comm.rank == 0:
    give()
"""


def test_a_program_in_python_has_its_lines(tmp_path):
    (tmp_path / "give é.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "ringside", "run", "-n", "2", "--events", "calls.csv"]
    done = subprocess.run(
        [*command, "--trace", "calls.json", "give é.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    place = "give é.py:6, in give"
    assert f"to rank 1 (tag 0), sent at {place}, when the program ended." in done.stderr
    assert set(pd.read_csv(tmp_path / "calls.csv")["line"]) == {place}
    said = json.loads((tmp_path / "calls.json").read_text())["traceEvents"]
    assert {call["args"]["line"] for call in said if call["name"] == "MPI_Isend"} == {place}


def test_the_end_of_a_program_is_in_no_line(tmp_path):
    text = PROGRAM.replace("    give()\n", "    give()\nelse:\n    comm.Ibcast(bytearray(1))\n")
    (tmp_path / "give.py").write_text(text)
    command = [sys.executable, "-m", "ringside", "run", "-n", "2", "give.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    said = done.stderr.splitlines()
    assert "  rank 0: MPI_Finalize" in said, done.stderr
    assert "  rank 1: MPI_Ibcast, root 0, 1 B, give.py:11" in said, done.stderr
