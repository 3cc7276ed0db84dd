"""A watched program behaves as an unwatched one: plain, and under `ringside run`."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from ranks import TESTS, compiled, mpirun

from ringside.run import LEFT_OVER, MISMATCH

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

HANDLED = [(1, "one"), (1, "handler"), (2, "two")]


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("own"), TESTS / "own.c", "-Wno-deprecated-declarations")


def watched(n, *command, options=(), **variables):
    """Under `ringside run`, as a user gives it."""
    ringside = [sys.executable, "-m", "ringside", "run", "-n", str(n), *options]
    return subprocess.run(
        [*ringside, *map(str, command)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=os.environ | variables,
    )


@pytest.fixture(scope="module")
def runs(own):
    """What the program says of itself, plain and watched, several at a time."""
    levels = [(1, "level", str(level)) for level in range(4)]
    with ThreadPoolExecutor(3) as pool:
        plain = list(pool.map(lambda run: mpirun(run[0], own, *run[1:], timeout=120), HANDLED))
        seen = list(pool.map(lambda run: watched(run[0], own, *run[1:]), HANDLED + levels))
    return plain, seen


@pytest.mark.parametrize("run", range(len(HANDLED)), ids=[what for _, what in HANDLED])
def test_statuses_errors_handlers_and_attributes_are_the_programs_own(runs, run):
    plain, seen = runs[0][run], runs[1][run]
    assert (plain.returncode, seen.returncode) == (0, 0), plain.stderr + seen.stderr
    assert sorted(seen.stdout.splitlines()) == sorted(plain.stdout.splitlines())
    assert "Ringside" not in seen.stderr


def test_the_thread_level_is_the_one_that_was_asked_for(runs):
    levels = [line for seen in runs[1][len(HANDLED) :] for line in seen.stdout.splitlines()]
    assert levels == [f"level {level}: {level} {level} 1" for level in range(4)]


def test_wrong_counts_on_two_ranks_are_a_mismatch(own):
    done = watched(2, own, "counts")
    assert done.returncode == MISMATCH
    assert "MPI_Gatherv, root 0, hands in 8 B and takes out 0 B" in done.stderr


def test_a_message_left_over_fails_as_in_the_library_and_always_when_strict(own):
    told = "Ringside: sent and not received: 1 message from rank 1 to rank 0 (tag 42)"
    plain, seen, strict = (
        mpirun(2, own, "left"),
        watched(2, own, "left"),
        watched(2, own, "left", options=["--strict"]),
    )
    assert seen.returncode == plain.returncode
    assert strict.returncode == (plain.returncode or LEFT_OVER)
    assert told in seen.stderr and told in strict.stderr


LOOKED_UP = """
from mpi4py import MPI
import ctypes
comm = MPI.COMM_WORLD
library = next(line[line.find("/"):-1] for line in open("/proc/self/maps") if "/libmpi" in line)
kind = ctypes.c_int if MPI._sizeof(comm) == 4 else ctypes.c_void_p
handle = lambda of: kind.from_address(MPI._addressof(of))
receive = ctypes.CDLL(library).MPI_Recv
status = ctypes.c_void_p(1)
receive(bytes(4), 1, handle(MPI.INT), 1 - comm.rank, 3, handle(comm), status)
"""


def test_a_call_that_is_looked_up_in_the_library_is_seen(tmp_path):
    """As ctypes and Julia do it: MPI_Recv of the library itself."""
    program = tmp_path / "looked_up.py"
    program.write_text(LOOKED_UP)
    done = watched(2, program)
    assert done.returncode == 120, done.stdout + done.stderr
    assert "rank 0: MPI_Recv from rank 1 (tag 3), looked_up.py:" in done.stderr


def test_a_program_with_the_address_sanitizer_starts(tmp_path):
    """Its library insists on being the first. Leaks are the MPI library's."""
    source = tmp_path / "checked.c"
    source.write_text("""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    volatile char *four = malloc(4);
    if (argc > 1)
        four[atoi(argv[1])] = 1;
    puts("through");
    free((void *)four);
    MPI_Finalize();
    return 0;
}
""")
    program = compiled(tmp_path, source, "-fsanitize=address")
    good, bad = (watched(2, program, *more, ASAN_OPTIONS="detect_leaks=0") for more in ([], ["4"]))
    assert (good.returncode, good.stdout.count("through")) == (0, 2), good.stderr
    assert bad.returncode and "heap-buffer-overflow" in bad.stderr
