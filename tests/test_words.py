"""What `ringside run` says: of errors, of unlike calls, of messages left over, of several threads,
and of exceptions that nobody has seen yet."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from ranks import needs_lines

from ringside import mpi
from ringside.watch import waitfor

pytestmark = [pytest.mark.usefixtures("shared_memory_removed"), needs_lines]

# Its first argument says what it does; a comment at a line's end is what the tests look for there.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;
static double out[40], in[40];
static const MPI_Comm world = MPI_COMM_WORLD;

static void send(int n, int tag) {
    if (rank == 1)
        MPI_Send(out, n, MPI_DOUBLE, 0, tag, world); // left over
}

static void cut(void) {
    send(10, 5);
    if (rank == 0)
        MPI_Recv(in, 5, MPI_DOUBLE, 1, 5, world, MPI_STATUS_IGNORE); // cut
}

static void cut_later(void) {
    MPI_Request request;
    send(10, 5);
    if (rank == 0) {
        MPI_Irecv(in, 5, MPI_DOUBLE, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &request);
        MPI_Waitall(1, &request, MPI_STATUSES_IGNORE); // cut later
    }
}

static void returned(void) {
    char text[MPI_MAX_ERROR_STRING], plain[MPI_MAX_ERROR_STRING];
    int length, class;
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(world, &handler);
    const int fatal = handler == MPI_ERRORS_ARE_FATAL;
    MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    send(10, 5);
    if (rank == 0) {
        const int err = MPI_Recv(in, 5, MPI_DOUBLE, 1, 5, world, MPI_STATUS_IGNORE);
        MPI_Error_class(err, &class);
        MPI_Error_string(err, text, &length);
        PMPI_Error_string(err, plain, &length);
        printf("%d %d %d\n", fatal, class == MPI_ERR_TRUNCATE, strcmp(text, plain));
    }
    MPI_Comm_set_errhandler(world, handler);
}

static void reduce(int n, MPI_Datatype type) { MPI_Allreduce(out, in, n, type, MPI_SUM, world); }

static void alike(void) { /* as the standard has it, or as programs do without harm */
    MPI_Datatype pair;
    int whole[8] = {0};
    MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
    MPI_Type_commit(&pair);
    MPI_Bcast(in, rank ? 2 : 1, rank ? MPI_DOUBLE : pair, 0, world);
    MPI_Bcast(in, rank ? 16 : 2, rank ? MPI_BYTE : MPI_DOUBLE, 0, world);
    MPI_Bcast(whole, 1, rank ? MPI_INT : MPI_UNSIGNED, 0, world);
    MPI_Bcast(in, 0, rank ? MPI_INT : MPI_DOUBLE, 0, world);
    MPI_Allreduce(MPI_IN_PLACE, whole, 1, rank ? MPI_INT : MPI_INT32_T, MPI_SUM, world);
    MPI_Allreduce(out, in, 0, rank ? MPI_INT : MPI_DOUBLE, MPI_SUM, world);
    MPI_Gather(out, 1, MPI_DOUBLE, in, 8, MPI_BYTE, 0, world);
    MPI_Type_free(&pair);
}

void _ZN4Halo4swapEi(int from); /* as a C++ compiler calls Halo::swap(int) */
void _ZN4Halo4swapEi(int from) {
    MPI_Recv(in, 1, MPI_DOUBLE, from, 0, world, MPI_STATUS_IGNORE); // halo
}

int main(int argc, char **argv) {
    const char *what = argv[1];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    const int odd = rank == size - 2;
    if (strcmp(what, "cut") == 0)
        cut();
    if (strcmp(what, "cut later") == 0)
        cut_later();
    if (strcmp(what, "no rank") == 0 && rank == 1)
        MPI_Send(out, 1, MPI_DOUBLE, 9, 0, world); // no rank
    if (strcmp(what, "no count") == 0 && rank == 1)
        MPI_Send(out, -1, MPI_DOUBLE, 0, 4, world); // no count
    if (strcmp(what, "not watched") == 0 && rank == 1)
        MPI_Comm_size(MPI_COMM_NULL, &size); // not watched
    if (strcmp(what, "begun") == 0 && rank == 1)
        MPI_Init(NULL, NULL); // begun
    if (strcmp(what, "returned") == 0)
        returned();
    if (strcmp(what, "left over") == 0)
        send(1, 42);
    if (strcmp(what, "alike") == 0)
        alike();
    if (strcmp(what, "floats") == 0)
        reduce(odd ? 2 : 1, odd ? MPI_FLOAT : MPI_DOUBLE);
    if (strcmp(what, "kinds") == 0)
        MPI_Bcast(out, odd ? 2 : 1, odd ? MPI_INT : MPI_DOUBLE, 0, world);
    if (strcmp(what, "call") == 0)
        odd ? (void)MPI_Bcast(out, 1, MPI_DOUBLE, 0, world) : reduce(1, MPI_DOUBLE);
    if (strcmp(what, "halo") == 0)
        _ZN4Halo4swapEi(1 - rank);
    MPI_Barrier(world);
    MPI_Finalize();
    return 0;
}
"""

PYTHON = {
    "cut in Python": "comm.Send(np.zeros(10), 0, 5) if rank else comm.Recv(np.zeros(5), 1, 5)",
    "threads": """
import threading
other = comm.Dup()
thread = threading.Thread(target=lambda: other.recv(source=MPI.ANY_SOURCE))
thread.start()
comm.Recv(np.zeros(1), 1 - rank, 3)
""",
    "lock": """
import threading, time
sub = comm.Split(0, rank)
if rank == 1:
    thread = threading.Thread(target=lambda: sub.allreduce(rank))
    thread.start()
    while thread.is_alive():
        time.sleep(0.1)
    comm.Send(np.zeros(1), 0)
else:
    comm.Recv(np.zeros(1), 1)
""",
    "exception": """
try:
    if rank == 1:
        raise KeyError("no such cell")
finally:
    comm.Recv(np.zeros(1), 1 - rank)
""",
}

SUITE = """
from mpi4py import MPI
def test_one():
    if MPI.COMM_WORLD.rank == 1:
        raise ValueError("the first to fail")
    MPI.COMM_WORLD.Barrier()
def test_two():
    MPI.COMM_WORLD.allreduce(1)
"""

IN_C = {
    "cut": 2, "cut later": 2, "no rank": 2, "no count": 2, "not watched": 2, "begun": 2,
    "returned": 2, "left over": 2, "alike": 3, "floats": 4, "kinds": 4, "call": 4, "halo": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict[str, subprocess.CompletedProcess]:
    """What each of the programs ended with, several at a time."""
    folder = tmp_path_factory.mktemp("words")
    (folder / "words.c").write_text(PROGRAM)
    (folder / "test_suite.py").write_text(SUITE)
    build = [mpi.mpicc(), "-g", folder / "words.c", "-o", folder / "words"]
    subprocess.run(build, check=True, timeout=120)
    runs = {what: (n, folder / "words", what) for what, n in IN_C.items()}
    for what, text in PYTHON.items():
        path = folder / f"{what}.py"
        begin = "from mpi4py import MPI\nimport numpy as np\ncomm = MPI.COMM_WORLD\n"
        path.write_text(f"{begin}rank = comm.rank\n{text.lstrip()}")
        runs[what] = 2, sys.executable, path
    pytest_there = "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / "test_suite.py"
    runs["suite"] = 2, sys.executable, *pytest_there

    def run(words) -> subprocess.CompletedProcess:
        n, *program = map(str, words)
        command = [sys.executable, "-m", "ringside", "run", "-n", n, "--quiet", "3", *program]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=False, cwd=folder,
            stdin=subprocess.DEVNULL, env=os.environ,
        )  # fmt: skip

    with ThreadPoolExecutor(3) as pool:
        return dict(zip(runs, pool.map(run, runs.values()), strict=True))


def line_of(comment: str) -> str:
    number = next(
        n for n, text in enumerate(PROGRAM.splitlines(), 1) if text.endswith(f"// {comment}")
    )
    return f"words.c:{number}"


def told(done: subprocess.CompletedProcess) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("Ringside:")]


CUT = (
    "Message truncated: the message from rank 1, tag 5, is longer than its receive: 80 B into 40 B."
)
ERRORS = {
    "cut": ("MPI_Recv", "cut", 0, CUT),
    "cut later": ("MPI_Waitall", "cut_later", 0, CUT),
    "no rank": ("MPI_Send to rank 9", "main", 1, "no such rank"),
    "no count": ("MPI_Send to rank 0, tag 4", "main", 1, "count"),
    "not watched": ("MPI_Comm_size", "main", 1, "communicator"),
    "begun": ("MPI_Init", "main", 1, "error"),
}


@pytest.mark.parametrize("what", ERRORS)
def test_an_error_names_the_programs_own_call_and_its_line_once(said, what):
    call, function, rank, reason = ERRORS[what]
    [line] = told(said[what])
    beginning = f"Ringside: rank {rank}: {call}, {line_of(what)}, in {function}: "
    assert line.startswith(beginning) and reason in line, said[what].stderr
    assert "internal" not in said[what].stderr
    assert 0 < said[what].returncode < 100, "the library's own status"


def test_an_error_that_is_returned_is_the_programs_own_affair(said):
    assert (said["returned"].stdout, said["returned"].returncode) == ("1 1 0\n", 0)
    assert said["returned"].stderr == ""


def test_an_error_in_mpi4py_names_rank_call_and_message(said):
    assert f"rank 0: MPI_Recv: {CUT[:-1]}" in said["cut in Python"].stderr
    assert "internal" not in said["cut in Python"].stderr


def test_a_message_left_over_names_the_line_that_sent_it(said):
    assert f"(tag 42), sent at {line_of('left over')}, in send," in said["left over"].stderr
    assert said["left over"].returncode == (15 if mpi.kind() == "mpich" else 0)  # as plain


def test_a_cpp_name_is_told_as_it_is_written(said):
    assert f"{line_of('halo')}, in Halo::swap(int)" in said["halo"].stderr


def test_types_that_add_up_to_as_many_bytes_do_not_fit(said):
    for what, mine, others in (
        ("floats", "8 B of floating point, 4 B each", "8 B of floating point, 8 B each"),
        ("kinds", "8 B of integers", "8 B of floating point"),
    ):
        call = "MPI_Allreduce, MPI_SUM" if what == "floats" else "MPI_Bcast, root 0"
        first, second = re.findall(
            r"^  (ranks? .*: MPI_\w+, .* B of .*)$", said[what].stderr, re.MULTILINE
        )
        assert first.startswith(f"rank 2: {call}, {mine}, words.c:")
        assert second.startswith(f"ranks 0, 1 and 3: {call}, {others}, words.c:")
        assert said[what].returncode == 121


def test_types_that_are_alike_in_other_words_fit(said):
    assert (said["alike"].returncode, said["alike"].stderr) == (0, "")


def test_the_odd_one_out_comes_first(said):
    first, *_ = re.findall(r"^  (rank.*: MPI_.*)$", said["call"].stderr, re.MULTILINE)
    assert first.startswith("rank 2: MPI_Bcast, root 0, 8 B, words.c:")
    flows = {
        r: f"MPI_Gatherv, root 1, hands in {8 + 8 * (r == 3)} B and takes out 0 B" for r in range(4)
    }
    flows[1] = "MPI_Gatherv, root 1, hands in 8 B and takes out 32 B"
    assert waitfor.odd_first(flows) == [3, 0, 2, 1], "what a root takes out is no oddity"
    roots = {0: "MPI_Bcast, root 0, 8 B", 1: "MPI_Bcast, root 0, 8 B", 2: "MPI_Bcast, root 2, 8 B"}
    assert waitfor.odd_first(roots) == [2, 0, 1]


def test_each_stuck_thread_has_its_own_call(said):
    for rank in 0, 1:
        mine = (
            f"rank {rank}: MPI_Recv from rank {1 - rank} (tag 3), threads.py:9; in another thread "
        )
        assert re.search(
            re.escape(mine)
            + r"MPI_Mprobe from any rank \(any tag, communicator \d+\), threads.py:7",
            said["threads"].stderr,
        ), said["threads"].stderr


def test_a_thread_that_waits_with_pythons_lock_gets_a_verdict(said):
    assert said["lock"].returncode == 122, said["lock"].stderr
    assert re.search(r"rank 1: MPI_Comm_dup .*lock.py:8", said["lock"].stderr)


def test_an_exception_behind_which_a_call_came_is_shown_before_the_verdict(said):
    before, _, verdict = said["exception"].stderr.partition("Ringside: Deadlock")
    assert "Ringside: rank 1 went on after an exception:" in before
    assert "exception.py:7" in before.replace('", line ', ":") and "KeyError: 'no such" in before
    assert "rank 1: MPI_Recv from rank 0" in verdict
    assert "rank 0 went on" not in said["exception"].stderr


def test_a_test_that_failed_is_shown_before_the_verdict_of_the_next(said):
    before, _, verdict = said["suite"].stderr.partition("Ringside: Mismatch")
    assert "ValueError: the first to fail" in before and "in test_two" in verdict
