"""`ringside run`: programs that have never heard of Ringside, run as a user runs them."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from ranks import needs_lines, shared_memory_left

import ringside
from ringside import mpi, processes
from ringside.__main__ import main
from ringside.watch import trace

pytestmark = pytest.mark.usefixtures("shared_memory_removed")

# One program for all: its first argument says what it is to do.
PROGRAM = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void ring(int doubles) {
    double *out = calloc((size_t)doubles, 8), *in = calloc((size_t)doubles, 8);
    MPI_Send(out, doubles, MPI_DOUBLE, (rank + 1) % size, 7, MPI_COMM_WORLD);
    MPI_Recv(in, doubles, MPI_DOUBLE, (rank + size - 1) % size, 7, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    free(out);
    free(in);
}

static void bytes(void) { /* all that there are, and no newline at the end */
    for (int i = 0; rank == 0 && i < 100000; i++) {
        putc(i * 7 % 256, stdout);
        putc(i * 3 % 256, stderr);
    }
}

static void receive_from_each_other(void) {
    int value;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Recv(&value, 1, MPI_INT, size - 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)) {
        fprintf(stderr, "the program's own words\n");
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static void test_for_ever(void) {
    int value, done = 0;
    MPI_Request request;
    MPI_Irecv(&value, 1, MPI_INT, size - 1 - rank, 0, MPI_COMM_WORLD, &request);
    while (!done)
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

static int errors;

static void count_errors(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    errors++;
}

static void hand_over_no_type(void) {
    MPI_Errhandler handler;
    int value = 0;
    MPI_Comm_create_errhandler(count_errors, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Recv(&value, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    printf("%d error\n", errors);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ring(2);
    if (strcmp(what, "no type") == 0)
        hand_over_no_type();
    if (strcmp(what, "large") == 0)
        ring(500000);
    if (strcmp(what, "bytes") == 0)
        bytes();
    if (strcmp(what, "handler") == 0)
        receive_from_each_other();
    if (strcmp(what, "test") == 0)
        test_for_ever();
    if (strcmp(what, "kill") == 0 && rank == 2)
        raise(SIGKILL);
    if (strcmp(what, "exit") == 0 && rank == 2)
        exit(3);
    if (strcmp(what, "abort") == 0 && rank == 2)
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (strcmp(what, "spin") == 0) {
        if (rank == 0)
            puts("ready");
        fflush(stdout);
        for (volatile int i = 0;; i++)
            ;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return strcmp(what, "seven") == 0 ? 7 : 0;
}
"""

# A Fortran library that calls PMPI_X, as Open MPI's does, and a program that calls nothing else.
FORTRAN_LIBRARY = r"""
#include <mpi.h>
void mpi_init_(int *err) { *err = PMPI_Init(0, 0); }
void mpi_finalize_(int *err) { *err = PMPI_Finalize(); }
void mpi_barrier_(int *err) { *err = PMPI_Barrier(MPI_COMM_WORLD); }
void mpi_recv_(int *value, int *source, int *err) {
    *err = PMPI_Recv(value, 1, MPI_INT, *source, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
"""
FORTRAN_PROGRAM = r"""
void mpi_init_(int *), mpi_finalize_(int *), mpi_barrier_(int *), mpi_recv_(int *, int *, int *);
int main(void) {
    int err, value, source = 0;
    mpi_init_(&err);
    mpi_barrier_(&err);
    mpi_recv_(&value, &source, &err);
    mpi_finalize_(&err);
    return 0;
}
"""


def compile_c(text: str, path: Path, *options: str) -> Path:
    """With the environment's plain mpicc, as for any program."""
    source = path.with_suffix(".c")
    source.write_text(text)
    subprocess.run([mpi.mpicc(), "-g", source, "-o", path, *options], check=True, timeout=60)
    return path


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("programs") / "a folder"
    folder.mkdir()
    return compile_c(PROGRAM, folder / "program")


@pytest.fixture
def run(tmp_path):
    """Runs `ringside run`; output is bytes. Checks that its folder for the ranks is gone."""
    folder = tmp_path / "temporary"
    folder.mkdir()

    def run(n: int, *words, **more) -> subprocess.CompletedProcess:
        done = subprocess.run(
            command(n, *words),
            capture_output=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"TMPDIR": str(folder)},
            **{"stdin": subprocess.DEVNULL} | more,
        )
        assert not list(folder.glob("ringside-*"))
        return done

    return run


def command(n: int, *words) -> list[str]:
    return [sys.executable, "-m", "ringside", "run", "-n", str(n), *map(str, words)]


def lines(output: bytes) -> list[str]:
    return output.decode().splitlines()


# ---- verdicts ----

# Threads begun in every way; the rank waits for what they send, or for itself once they have ended.
THREADS = r"""
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <threads.h>

static void send(void) {
    int value = 5;
    thrd_sleep(&(struct timespec){.tv_sec = 2}, NULL);
    MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
}

static void *sends(void *unused) { send(); return unused; }
static int c11_sends(void *unused) { send(); return unused != NULL; }
static void *leaves(void *unused) { pthread_exit(unused); }
static void *sleeps(void *unused) {
    thrd_sleep(&(struct timespec){.tv_sec = 60}, NULL);
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    thrd_t c11;
    int level, value = 0;
    if (strcmp(argv[1], "before") == 0)
        pthread_create(&thread, NULL, sends, NULL);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (strcmp(argv[1], "c11") == 0)
        thrd_create(&c11, c11_sends, NULL);
    if (strcmp(argv[1], "exit") == 0) {
        pthread_create(&thread, NULL, leaves, NULL);
        pthread_join(thread, NULL);
    }
    if (strcmp(argv[1], "cancel") == 0) {
        pthread_create(&thread, NULL, sleeps, NULL);
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return value;
}
"""


@pytest.mark.parametrize(
    ("what", "status"), [("before", 5), ("c11", 5), ("exit", 120), ("cancel", 120)]
)
def test_threads_count_from_their_beginning_to_their_end(run, tmp_path, what, status):
    compile_c(THREADS, tmp_path / "threads", "-pthread")
    done = run(1, "./threads", what)
    assert done.returncode == status, done.stderr  # that of what is only suspected is 122


@pytest.fixture(scope="module")
def broken(program, tmp_path_factory):
    """A ring of large sends, with all that is to be kept of it."""
    folder = tmp_path_factory.mktemp("kept")
    kept = [f"--{name}={folder / file}" for name, file in KEPT.items()]
    done = subprocess.run(
        command(4, *kept, program, "large"), capture_output=True, timeout=120, check=False
    )
    return done, folder


KEPT = {"timeline": "ring.svg", "player": "ring.html", "events": "ring.csv", "trace": "ring.json"}


# A thread that the C library begins for a timer, and that sends what both ranks wait for.
TIMER = r"""
#include <mpi.h>
#include <signal.h>
#include <time.h>
static void send(union sigval value) {
    MPI_Send(&value.sival_int, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
}
int main(int argc, char **argv) {
    int rank, level, value = 0;
    timer_t timer;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1) {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD,
                                 .sigev_notify_function = send,
                                 .sigev_value = {.sival_int = 5}};
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        timer_settime(timer, 0, &(struct itimerspec){.it_value = {.tv_sec = 3}}, NULL);
    }
    MPI_Recv(&value, 1, MPI_INT, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return value;
}
"""


def test_what_the_thread_of_a_timer_sends_is_no_deadlock(run, tmp_path):
    assert run(2, compile_c(TIMER, tmp_path / "timer", "-lrt")).returncode == 5


@needs_lines
def test_a_ring_of_large_sends_is_named_and_nothing_else_is_said(broken):
    done, _ = broken
    assert done.returncode == 120
    assert done.stdout == b""
    place = f"program.c:{1 + line_of('MPI_Send(out')}, in ring"
    assert lines(done.stderr) == [
        "Ringside: Deadlock: 0 -> 1 -> 2 -> 3 -> 0, each waits for the next.",
        *(f"  rank {r}: MPI_Send to rank {(r + 1) % 4} (tag 7, 4 MB), {place}" for r in range(4)),
        "Ringside: the program was ended; the exit status is 120.",
    ]


def line_of(words: str) -> int:
    return PROGRAM[: PROGRAM.index(words)].count("\n")


def test_the_table_of_a_broken_run(broken):
    table = pd.read_csv(broken[1] / "ring.csv")
    assert set(table["rank"]) == {0, 1, 2, 3}
    left = table[table["left"]]
    assert list(left["call"]) == ["MPI_Send"] * 4
    assert set(left["bytes"]) == {4_000_000}
    assert (left["blocked"] > 0.05).all()
    assert list(table[~table["left"]]["bytes"]) == [16] * 8
    assert table["start"].min() == 0


def test_the_timeline_of_a_broken_run(broken):
    text = (broken[1] / "ring.svg").read_text()
    assert text.lstrip().startswith("<?xml") and "</svg>" in text
    assert 'id="stubs"' in text  # messages that were never received


def test_sends_that_relied_on_a_buffer_are_named_when_asked_for(run, program):
    done = run(3, "--chance", program)
    assert done.returncode == 0
    said = done.stderr.decode()
    assert "This run relied on buffers" in said
    assert "ranks 0, 1 and 2 would wait for one another" in said
    assert b"relied" not in run(3, program).stderr


def test_the_player_of_a_broken_run(broken):
    page = broken[1] / "ring.html"
    assert page.stat().st_size < 100_000
    assert "4 of 8 messages were not received" in page.read_text()


def test_the_trace_of_a_broken_run(broken):
    said = json.loads((broken[1] / "ring.json").read_text())["traceEvents"]
    names = {one["pid"]: one["args"]["name"] for one in said if one["ph"] == "M"}
    assert names == {rank: f"rank {rank}" for rank in range(4)}
    calls = [one for one in said if one["ph"] == "X"]
    assert len(calls) == 12
    assert all(one["dur"] > 0 and one["ts"] >= 0 for one in calls)
    [left] = [one for one in calls if one["pid"] == 3 and "left" in one["args"]]
    assert left["args"].items() >= {"peer": 0, "tag": 7, "bytes": 4_000_000}.items()
    begins = {one["id"]: one for one in said if one["ph"] == "s"}
    ends = {one["id"]: one for one in said if one["ph"] == "f"}
    assert len(begins) == len(ends) == 4  # of the small messages; the large ones never came
    for number, begin in begins.items():
        end = ends[number]
        assert end["pid"] == (begin["pid"] + 1) % 4
        assert end["ts"] >= begin["ts"]
        assert within(begin, calls) == "MPI_Send" and within(end, calls) == "MPI_Recv"


def within(flow: dict, calls: list[dict]) -> str:
    """The call on whose bar an arrow begins or ends."""
    [call] = [
        one["name"]
        for one in calls
        if one["pid"] == flow["pid"] and one["ts"] <= flow["ts"] < one["ts"] + one["dur"]
    ]
    return call


def test_no_arrow_where_it_is_not_certain():
    event = {"blocked": 0.0, "bytes": 8, "request": 0, "comm": 0, "left": False}
    rows = [
        event | {"rank": 0, "call": "MPI_Send", "peer": 1, "tag": 0, "start": 0.0, "end": 0.1},
        event | {"rank": 2, "call": "MPI_Send", "peer": 1, "tag": 5, "start": 0.0, "end": 0.1},
        event | {"rank": 1, "call": "MPI_Mrecv", "peer": -1, "tag": -1, "start": 0.2, "end": 0.3},
        event | {"rank": 1, "call": "MPI_Recv", "peer": 2, "tag": 5, "start": 0.3, "end": 0.4},
    ]
    table = pd.DataFrame(rows).assign(seq=range(4))
    assert trace._flows(list(table.itertuples(index=False))) == []
    certain = table[table["call"] != "MPI_Mrecv"]
    assert len(trace._flows(list(certain.itertuples(index=False)))) == 2


def test_insist_names_a_ring_that_only_buffers_save(run, program):
    assert run(2, program).returncode == 0
    done = run(2, "--insist", program)
    assert done.returncode == 120
    assert b"Deadlock: 0 -> 1 -> 0" in done.stderr


@needs_lines
def test_a_program_that_handles_errors_has_its_say_and_the_verdict_comes_last(run, program):
    done = run(2, program, "handler")
    assert done.returncode == 120
    said = lines(done.stderr)
    assert said[:2] == ["the program's own words"] * 2
    assert said[2] == "Ringside: Deadlock: 0 -> 1 -> 0, each waits for the next."
    assert len(said) == 6


@needs_lines
def test_a_rank_of_python_that_raises_while_others_wait(run, tmp_path):
    source = "import sys\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\nprint('printed')\n"
    source += "if comm.rank == 1:\n    1 / 0\ncomm.Barrier()\n"
    (tmp_path / "raises.py").write_text(source)
    done = run(3, "raises.py")
    assert done.returncode == 121
    assert done.stdout.count(b"printed") == 3  # flushed, though nobody came to the end
    said = lines(done.stderr)
    assert said.count("ZeroDivisionError: division by zero") == 1
    assert sum("Traceback" in line for line in said) == 1
    assert "made calls that do not fit together" in said[-5]
    assert said[-4] == "  rank 1: MPI_Finalize, the end of its program"
    assert said[-3].endswith(", raises.py:7") and "MPI_Barrier" in said[-3]


@needs_lines
def test_a_loop_of_tests_is_suspected_after_the_quiet_that_was_asked_for(run, program):
    done = run(2, "--quiet", "2", program, "test")
    assert done.returncode == 122
    assert sum("MPI_Test" in line and "program.c" in line for line in lines(done.stderr)) == 2


def test_fortran_libraries_that_call_by_the_profiling_names_are_seen(run, tmp_path):
    compile_c(FORTRAN_LIBRARY, tmp_path / "libmpi_mpifh.so", "-shared", "-fPIC")
    link = ["-L", str(tmp_path), "-lmpi_mpifh", f"-Wl,-rpath,{tmp_path}"]
    for late in ("-Wl,-z,lazy", "-Wl,-z,now"):
        compile_c(FORTRAN_PROGRAM, tmp_path / "fortran", *link, late)
        done = run(2, "--events", "fortran.csv", "./fortran")
        assert done.returncode == 120
        assert b"rank 1: MPI_Recv from rank 0" in done.stderr
        calls = pd.read_csv(tmp_path / "fortran.csv")["call"]
        assert set(calls) == {"MPI_Barrier", "MPI_Recv"}


# ---- programs that end by themselves ----

# Where MPI_IN_PLACE stands, count and type mean nothing: here they are those of no buffer.
IN_PLACE = r"""
#include <mpi.h>
int main(int argc, char **argv) {
    int rank, none[2] = {1000, 2000}, two[2] = {2, 2}, own[2] = {2, 3}, places[2] = {0, 3};
    int all[6] = {0}, part[3] = {0};
    const MPI_Comm comm = MPI_COMM_WORLD;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(comm, &rank);
    MPI_Allgather(MPI_IN_PLACE, 1000, MPI_DOUBLE, all, 3, MPI_INT, comm);
    MPI_Allgatherv(MPI_IN_PLACE, 1000, MPI_DOUBLE, all, own, places, MPI_INT, comm);
    MPI_Alltoall(MPI_IN_PLACE, 1000, MPI_DOUBLE, all, 3, MPI_INT, comm);
    MPI_Alltoallv(MPI_IN_PLACE, none, none, MPI_DOUBLE, all, two, places, MPI_INT, comm);
    void *const here = rank == 0 ? MPI_IN_PLACE : part;
    const int count = rank == 0 ? 1000 : 3;
    const MPI_Datatype type = rank == 0 ? MPI_DOUBLE : MPI_INT;
    MPI_Gather(here, count, type, all, 3, MPI_INT, 0, comm);
    MPI_Gatherv(here, count, type, all, own, places, MPI_INT, 0, comm);
    MPI_Scatter(all, 3, MPI_INT, here, count, type, 0, comm);
    MPI_Scatterv(all, own, places, MPI_INT, here, count, type, 0, comm);
    MPI_Finalize();
    return 0;
}
"""


def test_a_buffer_in_place_has_no_bytes_of_its_own(run, tmp_path):
    compile_c(IN_PLACE, tmp_path / "in_place")
    done = run(2, "--events", "calls.csv", "./in_place")
    assert (done.returncode, done.stderr) == (0, b"")
    table = pd.read_csv(tmp_path / "calls.csv")
    handed_in = {
        rank: dict(zip(own["call"], own["bytes"], strict=True))
        for rank, own in table.groupby("rank")
    }
    all_in_place = dict.fromkeys(
        ["MPI_Allgather", "MPI_Allgatherv", "MPI_Alltoall", "MPI_Alltoallv"], 0
    )
    rooted = ["MPI_Gather", "MPI_Gatherv", "MPI_Scatter", "MPI_Scatterv"]
    assert handed_in[0] == all_in_place | dict.fromkeys(rooted, 0)
    assert handed_in[1] == all_in_place | dict.fromkeys(rooted, 12) | {"MPI_Scatterv": 0}


def test_a_correct_program_is_left_alone_byte_for_byte(run, program, tmp_path):
    done = run(3, "--trace", "trace.json", program, "bytes")
    assert done.returncode == 0
    assert done.stdout == bytes(i * 7 % 256 for i in range(100000))
    assert done.stderr == bytes(i * 3 % 256 for i in range(100000))
    said = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(one["ph"] == "s" for one in said) == sum(one["ph"] == "f" for one in said) == 3


def test_the_exit_status_is_the_programs_own(run, program):
    assert run(2, program, "seven").returncode == 7


def test_a_rank_that_was_killed_is_named_and_its_calls_are_kept(run, program, tmp_path):
    done = run(4, "--events", "calls.csv", program, "kill")
    assert done.returncode == 128 + signal.SIGKILL
    *_, killed, lacking = lines(done.stderr)
    assert killed == "Ringside: rank 2 was killed by signal 9 (Killed)."
    assert "a call that had not ended when its rank did is not in the files" in lacking
    table = pd.read_csv(tmp_path / "calls.csv")
    assert list(table[table["rank"] == 2]["call"]) == ["MPI_Send", "MPI_Recv"]


def test_a_rank_that_leaves_without_finalize_is_named(run, program):
    done = run(4, program, "exit")
    assert done.returncode == 3
    assert "rank 2 ended without MPI_Finalize, with exit status 3" in lines(done.stderr)[-1]


def test_the_ranks_are_ended_where_mpiexec_does_not_see_that_one_has_gone(
    program, tmp_path, monkeypatch, capfd
):
    """As MPICH's does now and then: the others would wait for ever."""
    blind = tmp_path / "mpiexec"
    blind.write_text(f'#!/bin/sh\n{shlex.quote(str(mpi.mpiexec()))} "$@"\nexec sleep 6000\n')
    blind.chmod(0o755)
    monkeypatch.setattr(mpi, "mpiexec", lambda: blind)
    assert main(["run", "-n", "4", str(program), "exit"]) == 3  # else after 6000 s
    assert "rank 2 ended without MPI_Finalize, with exit status 3" in capfd.readouterr().err


def test_a_rank_that_ends_within_finalize_is_told_as_that(run, tmp_path):
    """By a callback of its own, as the library calls it there."""
    text = r"""
#include <mpi.h>
#include <stdlib.h>
static int leave(MPI_Comm comm, int key, void *value, void *more) {
    (void)comm, (void)key, (void)value, (void)more;
    _Exit(4);
}
int main(int argc, char **argv) {
    int rank, key;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, leave, &key, NULL);
    if (rank == 1)
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Finalize();
    return 0;
}
"""
    done = run(2, compile_c(text, tmp_path / "leaves"))
    assert done.returncode == 4
    assert "rank 1 ended within MPI_Finalize, with exit status 4" in lines(done.stderr)[-1]


# Messages that nobody receives: short ones, and one sent out of memory that is soon no more.
LEFT_OVER = r"""
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    const int large = 8000000;
    int rank;
    MPI_Comm twin;
    MPI_Request request;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &twin);
    char *memory =
        mmap(NULL, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, large);
    if (rank == 0) {
        for (int i = 0; i < 100; i++)
            MPI_Send(memory, 4, MPI_BYTE, 1, 5, MPI_COMM_WORLD);
        MPI_Isend(memory, large, MPI_BYTE, 1, 6, twin, &request);
        MPI_Request_free(&request);
    }
    munmap(memory, large);
    MPI_Finalize();
    puts("the end");
    fflush(stdout);
    sleep((unsigned)rank); /* for mpiexec, which ends all when one has a status other than 0 */
    return rank;
}
"""


@needs_lines
def test_messages_that_nobody_received_are_told_and_do_no_harm(run, tmp_path):
    """MPICH fails in MPI_Finalize over one that it has seen, or hangs there. 5.0 fails of one in
    MPI_COMM_WORLD, and does so here."""
    program = compile_c(LEFT_OVER, tmp_path / "left-over")
    done = run(2, program)
    if b"unmatched message" in done.stderr:
        assert done.returncode == 15 and mpi.kind() == "mpich"
    else:
        assert done.returncode == 1  # rank 1's
        assert lines(done.stdout) == ["the end"] * 2
    [told] = [line for line in lines(done.stderr) if "sent and not received" in line]
    assert told == (
        "Ringside: sent and not received: 100 messages from rank 0 to rank 1 (tag 5), sent at "
        "left-over.c:21, in main, 1 message from rank 0 to rank 1 (tag 6, communicator 3), sent at "
        "left-over.c:22, in main, when the program ended."
    )


@pytest.mark.timing("mpiexec has half a second to end a rank that has crashed")
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGKILL])
def test_a_rank_that_crashes_as_mpiexec_ends_it_is_no_news(tmp_path, number):
    """MPICH's abort returns, and who returned from it crashes: the status is that of the abort."""
    helper = Path(ringside.__file__).with_name("rank.py")
    crash = "import os; print(os.getpid(), flush=True); os.kill(os.getpid(), 11)"
    command = [sys.executable, "-I", "-S", helper, tmp_path, "", sys.executable, "-c", crash]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as launcher:
        pid = int(launcher.stdout.readline())
        deadline = time.monotonic() + 10
        while processes.alive(pid) and time.monotonic() < deadline:
            time.sleep(0.005)
        if number:
            launcher.send_signal(number)
        launcher.wait(10)
    ended = [path.read_text().split()[1] for path in tmp_path.glob("ended-*")]
    assert ended == ([] if number else [str(int(signal.SIGSEGV))])


# The root of a broadcast is through before the others are asked for it, and here they never are.
HALF = r"""
#include <mpi.h>
int main(int argc, char **argv) {
    MPI_Comm whole, half;
    int rank, one = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_dup(MPI_COMM_WORLD, &whole);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, 0, &half);
    MPI_Bcast(&one, 1, MPI_INT, 0, whole);
    if (rank % 2)
        MPI_Barrier(half);
    if (argc > 1 && rank == 0)
        MPI_Bcast(&one, 1, MPI_INT, 0, whole);
    MPI_Comm_free(&half);
    MPI_Comm_free(&whole);
    MPI_Finalize();
    return 0;
}
"""


@needs_lines
def test_a_collective_that_only_some_ranks_were_in_is_told(run, tmp_path):
    program = compile_c(HALF, tmp_path / "half")
    whole, half = run(3, program), run(3, program, "half")
    assert (whole.returncode, half.returncode) == (0, 0)
    assert not [line for line in lines(whole.stderr) if line.startswith("Ringside")]
    [told] = [line for line in lines(half.stderr) if line.startswith("Ringside")]
    assert re.fullmatch(
        r"Ringside: rank 0 called MPI_Bcast, root 0, 4 B on communicator \d+ \(half.c:14, in main"
        r"\), and ranks 1 and 2 did not, up to the program's end.",
        told,
    )


# What it calls at its end; and how often its MPI was called meanwhile, by whomever.
EXITS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static atomic_int calls;
static int rank, value;
static const char *what;

int PMPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
    int (*library)(MPI_Request *, int *, MPI_Status *);
    void *at = dlsym(RTLD_NEXT, "PMPI_Test");
    memcpy(&library, &at, sizeof at);
    atomic_fetch_add(&calls, 1);
    return library(request, done, status);
}

int PMPI_Iprobe(int source, int tag, MPI_Comm comm, int *found, MPI_Status *status) {
    int (*library)(int, int, MPI_Comm, int *, MPI_Status *);
    void *at = dlsym(RTLD_NEXT, "PMPI_Iprobe");
    memcpy(&library, &at, sizeof at);
    atomic_fetch_add(&calls, 1);
    return library(source, tag, comm, found, status);
}

static const struct timespec half = {.tv_nsec = 500000000};

static void on_alarm(int number) {
    (void)number;
    exit(3);
}

static void at_exit(void) {
    const int before = atomic_load(&calls);
    if (rank != 1)
        return;
    nanosleep(&half, NULL);
    if (strcmp(what, "idle") == 0 || strcmp(what, "alarm") == 0)
        fprintf(stderr, "%s, then %d\n", before > 10 ? "many" : "few", calls - before);
    for (int done = 0; strcmp(what, "probe") == 0 && !done;)
        MPI_Iprobe(0, 0, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
    if (strcmp(what, "receive") == 0)
        MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (strcmp(what, "finalize") == 0)
        MPI_Finalize();
}

int main(int argc, char **argv) {
    what = argv[1];
    atexit(at_exit);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 1 && strcmp(what, "finalize") == 0)
        MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    if (rank == 1 && strcmp(what, "idle") == 0)
        nanosleep(&half, NULL);
    if (rank == 1 && strcmp(what, "alarm") == 0) {
        const struct itimerval soon = {.it_value = {.tv_usec = 500000}};
        signal(SIGALRM, on_alarm);
        setitimer(ITIMER_REAL, &soon, NULL);
        MPI_Recv(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 1)
        exit(strcmp(what, "idle") == 0 ? 3 : 0);
    for (int i = 0; argc > 2 && i < 4; i++)
        nanosleep(&half, NULL);
    MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def exits(tmp_path_factory) -> Path:
    return compile_c(EXITS, tmp_path_factory.mktemp("programs") / "exits", "-ldl")


@pytest.mark.parametrize("how", ["idle", "alarm"])
def test_the_scope_calls_no_mpi_while_a_program_exits(run, exits, how):
    """While the libraries are taken down; the other rank waits, and asks for one round after the
    other. On alarm the program leaves from within a receive."""
    rank_0_computes = [] if how == "idle" else ["late"]
    done = run(2, exits, how, *rank_0_computes)
    assert done.returncode == 3
    assert "many, then 0" in lines(done.stderr)
    told = "Ringside: rank 1 was ended within MPI_Recv" in lines(done.stderr)
    assert told == (how == "alarm")


def test_what_a_program_calls_while_it_exits_is_judged(run, exits):
    done = run(2, exits, "finalize")
    # MPICH's mpiexec may then end the other rank, plain as well: errata 18.
    assert done.returncode in ((0, 9) if mpi.kind() == "mpich" else (0,))
    assert b"Ringside" not in done.stderr
    done = run(2, exits, "receive")
    assert done.returncode == 120
    assert lines(done.stderr)[0] == "Ringside: Deadlock: 0 -> 1 -> 0, each waits for the next."
    done = run(2, "--quiet", "2", exits, "probe")
    assert done.returncode == 122
    assert lines(done.stderr)[0].startswith("Ringside: Suspected: for 2 s ranks 0 and 1")


def test_an_abort_is_the_programs_own_affair(run, program):
    done = run(4, program, "abort")
    assert done.returncode == 5
    assert b"Ringside" not in done.stderr
    # MPICH's mpiexec may end before it has passed on what the library said: errata 18.
    assert not done.stderr or b"abort" in done.stderr.lower()


def test_a_program_without_mpi(run, tmp_path):
    line = [sys.executable, "-c", "print(input())"]  # the end of input not every mpiexec passes on
    done = run(1, *line, stdin=None, input=b"through\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"through\n", b"")
    done = run(2, "--events", "none.csv", "true")
    assert done.returncode == 0
    assert lines(done.stderr)[0].startswith("Ringside: no MPI call was seen")
    assert len(pd.read_csv(tmp_path / "none.csv")) == 0


def test_what_a_rank_starts_is_not_watched(run, tmp_path):
    source = "from mpi4py import MPI\nimport os, subprocess\n"
    source += "subprocess.run(['sh', '-c', 'echo \"<$LD_PRELOAD>\"'], check=True)\n"
    (tmp_path / "starts.py").write_text(source)
    assert run(1, sys.executable, "starts.py").stdout == b"<>\n"


def test_another_mpiexec_with_options_of_its_own(run, program, tmp_path):
    other = tmp_path / "other mpiexec"
    own = shlex.quote(str(mpi.mpiexec()))
    other.write_text(f'#!/bin/sh\n[ "$1" = --mark ] && touch seen && shift\nexec {own} "$@"\n')
    other.chmod(0o755)
    assert run(2, "--mpiexec", other, program).returncode == 0
    assert not (tmp_path / "seen").exists()
    done = run(2, "--mpiexec", f"{shlex.quote(str(other))} --mark", program, "large")
    assert done.returncode == 120
    assert (tmp_path / "seen").exists()


# ---- signals ----


@pytest.mark.parametrize(
    ("whom", "mpiexec"),
    [
        pytest.param("all", [], id="all"),
        pytest.param("one", [], id="one"),
        pytest.param("all", ["--mpiexec", "{calm}"], id="all, and mpiexec says nothing of it"),
    ],
)
def test_ctrl_c_ends_everything_and_leaves_nothing(program, tmp_path, whom, mpiexec):
    """At a terminal the signal goes to the whole group; `kill` sends it to one process. The ranks'
    memory is removed also where mpiexec ends as if nothing had been."""
    calm = tmp_path / "mpiexec"
    calm.write_text(f'#!/bin/sh\ntrap : INT\n{shlex.quote(str(mpi.mpiexec()))} "$@"\nexit 0\n')
    calm.chmod(0o755)
    process = subprocess.Popen(
        command(2, *(word.format(calm=calm) for word in mpiexec), program, "spin"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    try:
        assert process.stdout.readline() == b"ready\n"
        ranks = psutil.Process(process.pid).children(recursive=True)
        time.sleep(1)  # its look at the ranks' shared memory, twice a second
        files = processes.shared_memory([rank.pid for rank in ranks])
        assert files
        (os.killpg if whom == "all" else os.kill)(process.pid, signal.SIGINT)
        process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    _, alive = psutil.wait_procs(ranks, timeout=5)
    assert not [rank for rank in alive if rank.status() != psutil.STATUS_ZOMBIE]
    assert not [file for file in files if Path(file).exists()]
    assert not list(tmp_path.glob("ringside-*"))


def test_a_handler_of_the_programs_own_hears_of_an_error_once(run, program):
    """The scope asks for the length of a type, and may not ask for that of none."""
    done = run(2, program, "no type")
    assert done.stdout.split(b"\n") == [b"1 error", b"1 error", b""], done.stderr


def test_no_shared_memory_is_left_where_the_library_ends_the_program(run, program):
    with shared_memory_left() as left:
        done = run(4, program, "abort")
        assert done.returncode == 5, done.stderr
    assert not left


def test_nothing_outlives_a_run_that_is_killed(program, tmp_path):
    process = subprocess.Popen(
        command(2, program, "spin"),
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdout.readline() == b"ready\n"
    others = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate(timeout=20)
    _, alive = psutil.wait_procs(others, timeout=20)
    assert not [one for one in alive if one.status() != psutil.STATUS_ZOMBIE]


# ---- what cannot be run ----


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "2", "no-such-program"], "there is no program no-such-program"),
        (["-n", "2", __file__ + "/nothing"], "there is no program"),
        (["-n", "0", "true"], "at least 1 rank"),
        (["-n", "2", "--quiet", "0", "true"], "--quiet takes a number of seconds"),
        (["-n", "2", "--events", "/no/such/folder/a.csv", "true"], "there is no folder"),
        (["-n", "2", "--timeline", "a.txt", "true"], "an .svg, a .pdf or a .png"),
        (["-n", "2", "--player", "a.txt", "true"], "an .html file"),
        (["-n", "2", "--mpiexec", "no-mpiexec", "true"], "there is no mpiexec at 'no-mpiexec'"),
        (["-n", "2", "--scope", "no-scope", "true"], "there is no scope at no-scope"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_starts(words, said, capsys):
    assert main(["run", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["true"], ["-n", "2"], ["-n", "two", "true"]])
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["run", *words])
    assert ended.value.code == 2
    assert "usage: ringside run -n RANKS" in capsys.readouterr().err


def test_a_file_that_is_no_program(tmp_path, capsys):
    for name, words in (("a.c", "a.c is a source: compile it first"), ("a", "is not executable")):
        (tmp_path / name).write_text("int main;")
        assert main(["run", "-n", "2", str(tmp_path / name)]) == 2
        assert words in capsys.readouterr().err


def test_a_program_of_another_mpi_than_mpiexecs_is_refused(program, tmp_path, capsys):
    foreign = {"mpich": "mpiexec (Open MPI) 5.0.0", "openmpi": "HYDRA build details:"}
    other = tmp_path / "mpiexec"
    other.write_text(f"#!/bin/sh\necho '{foreign[mpi.kind()]}'\n")
    other.chmod(0o755)
    assert main(["run", "-n", "2", "--mpiexec", str(other), str(program)]) == 2
    said = capsys.readouterr().err
    assert "the program is built with" in said and "--mpiexec PATH" in said


# ---- at the edges of the standard ----

# What the standard has at its edges; the first argument says which.
EDGES = r"""
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void receive_into_more_than_2_gb(void) { /* of which four numbers come */
    MPI_Datatype type;
    MPI_Request request;
    MPI_Status status;
    double sent[4] = {1, 2, 3, 4}, *room = malloc((size_t)1 << 31);
    MPI_Type_contiguous(1 << 28, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    for (int turn = 0; turn < 2; turn++) {
        int count = -1;
        if (rank == 0)
            MPI_Send(sent, 4, MPI_DOUBLE, 1, 5, MPI_COMM_WORLD);
        else if (rank == 1 && turn == 0)
            MPI_Recv(room, 1, type, 0, 5, MPI_COMM_WORLD, &status);
        else if (rank == 1) {
            MPI_Irecv(room, 1, type, 0, 5, MPI_COMM_WORLD, &request);
            MPI_Wait(&request, &status);
        }
        if (rank == 1) {
            MPI_Get_count(&status, MPI_DOUBLE, &count);
            printf("%d from %d, the last is %g\n", count, status.MPI_SOURCE, room[3]);
        }
    }
    MPI_Type_free(&type);
    free(room);
}

/* Each names the faces it sends; what comes is the neighbour's opposite face. */
static void swap_faces(const int dims[3]) {
    const int periods[3] = {1, 1, 1}, counts[6] = {1, 1, 1, 1, 1, 1}, at[6] = {0, 1, 2, 3, 4, 5};
    const MPI_Aint places[6] = {0, 4, 8, 12, 16, 20};
    const MPI_Datatype types[6] = {MPI_INT, MPI_INT, MPI_INT, MPI_INT, MPI_INT, MPI_INT};
    int out[6], in[3][6], wrong = 0;
    MPI_Comm grid;
    MPI_Cart_create(MPI_COMM_WORLD, 3, dims, periods, 0, &grid);
    for (int face = 0; face < 6; face++)
        out[face] = 10 * rank + face;
    MPI_Neighbor_alltoall(out, 1, MPI_INT, in[0], 1, MPI_INT, grid);
    MPI_Neighbor_alltoallv(out, counts, at, MPI_INT, in[1], counts, at, MPI_INT, grid);
    MPI_Neighbor_alltoallw(out, counts, places, types, in[2], counts, places, types, grid);
    for (int face = 0; face < 6; face++) {
        int low, high;
        MPI_Cart_shift(grid, face / 2, 1, &low, &high);
        for (int way = 0; way < 3; way++)
            wrong += in[way][face] != 10 * (face % 2 ? high : low) + (face ^ 1);
    }
    printf("%d wrong\n", wrong);
    MPI_Comm_free(&grid);
}

static void *receives(void *unused) {
    int value;
    MPI_Recv(&value, 1, MPI_INT, 1 - rank, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    return unused;
}

static void *meets(void *unused) {
    MPI_Barrier(MPI_COMM_WORLD);
    return unused;
}

static void wait_for_a_thread_that(void *(*does)(void *)) {
    pthread_t thread;
    pthread_create(&thread, NULL, does, NULL);
    pthread_join(thread, NULL);
}

static void hold_a_message(void) {
    MPI_Message message;
    int value = 0;
    if (rank == 0) {
        MPI_Ssend(&value, 1, MPI_INT, 1, 1, MPI_COMM_WORLD);
    } else {
        MPI_Mprobe(0, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
        MPI_Recv(&value, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

/* The status of no request is the library's, and a negative count is its error. */
static void ask_for_nothing(void) {
    MPI_Request none = MPI_REQUEST_NULL;
    MPI_Status mine = {.MPI_ERROR = 4713}, library = mine;
    int done = 0, value = 0, class = 0;
    MPI_Wait(&none, &mine);
    PMPI_Wait(&none, &library);
    if (mine.MPI_ERROR != library.MPI_ERROR)
        printf("MPI_Wait: %d\n", mine.MPI_ERROR);
    mine.MPI_ERROR = 4713;
    MPI_Test(&none, &done, &mine);
    if (!done || mine.MPI_ERROR != library.MPI_ERROR)
        printf("MPI_Test: %d\n", mine.MPI_ERROR);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    const int err = MPI_Sendrecv_replace(&value, -1, MPI_INT, 0, 0, 0, 0, MPI_COMM_SELF, &mine);
    MPI_Error_class(err, &class);
    if (class != MPI_ERR_COUNT)
        printf("MPI_Sendrecv_replace: %d\n", class);
}

static void wait_for_many(int receives) { /* from each of the others */
    MPI_Request *request = malloc((size_t)(receives * size) * sizeof *request);
    int n = 0;
    for (int i = 0; i < receives; i++)
        for (int from = 0; from < size; from++)
            if (from != rank)
                MPI_Irecv(NULL, 0, MPI_INT, from, i % 1000, MPI_COMM_WORLD, &request[n++]);
    MPI_Waitall(n, request, MPI_STATUSES_IGNORE);
    free(request);
}

/* How often a request is given as complete when one asks until none is active; 9: for ever. */
static int times_complete(MPI_Request *request, int way) {
    for (int times = 0; times < 9; times++) {
        int index = 0, n = 0, flag = 0;
        if (way == 0)
            MPI_Waitany(1, request, &index, MPI_STATUS_IGNORE);
        while (way == 1 && !flag)
            MPI_Testany(1, request, &index, &flag, MPI_STATUS_IGNORE);
        if (way == 2)
            MPI_Waitsome(1, request, &n, &index, MPI_STATUSES_IGNORE);
        while (way == 3 && n == 0)
            MPI_Testsome(1, request, &n, &index, MPI_STATUSES_IGNORE);
        if (index == MPI_UNDEFINED || n == MPI_UNDEFINED)
            return times;
    }
    return 9;
}

static void complete_each_request_once(void) {
    double x = 0;
    MPI_Request request[4] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL,
                              MPI_REQUEST_NULL};
    MPI_Recv_init(&x, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request[0]);
    MPI_Send_init(&x, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request[1]);
    MPI_Ssend_init(&x, 1, MPI_DOUBLE, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &request[2]);
    int n = 3;
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
    if (rank == 0)
        MPI_Psend_init(&x, 1, 1, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request[n++]);
    else
        MPI_Precv_init(&x, 1, 1, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request[n++]);
#endif
    for (int i = 0; i < n; i++) {
        for (int way = 0; way < 4; way++) {
            MPI_Start(&request[i]);
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
            if (i == 3 && rank == 0)
                MPI_Pready(0, request[i]);
#endif
            const int times = times_complete(&request[i], way);
            if (times != 1)
                printf("request %d, way %d: complete %d times\n", i, way, times);
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
            int index = 0, flag = 0;
            MPI_Request_get_status_any(1, &request[i], &index, &flag, MPI_STATUS_IGNORE);
            if (index != MPI_UNDEFINED || !flag)
                printf("request %d, way %d: index %d\n", i, way, index);
            MPI_Request_get_status_some(1, &request[i], &flag, &index, MPI_STATUSES_IGNORE);
            if (flag != MPI_UNDEFINED)
                printf("request %d, way %d: %d are complete\n", i, way, flag);
#endif
        }
        MPI_Request_free(&request[i]);
    }
}

static void leave_a_message_cut_off(void) {
    MPI_Request request;
    int numbers[100] = {0}, one;
    if (rank == 0) {
        MPI_Send(numbers, 100, MPI_INT, 1, 1, MPI_COMM_WORLD);
        MPI_Recv(&one, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Irecv(&one, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &request);
        MPI_Recv(numbers, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

int main(int argc, char **argv) {
    int level, value = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(argv[1], "2 GB") == 0)
        receive_into_more_than_2_gb();
    if (strcmp(argv[1], "faces") == 0)
        swap_faces((int[3]){size < 2 ? 1 : 2, size / 2 > 1 ? size / 2 : 1, 1});
    if (strcmp(argv[1], "join") == 0)
        wait_for_a_thread_that(receives);
    if (strcmp(argv[1], "join, one") == 0 && rank == 1)
        wait_for_a_thread_that(meets);
    if (strcmp(argv[1], "held") == 0)
        hold_a_message();
    if (strcmp(argv[1], "cut off") == 0)
        leave_a_message_cut_off();
    if (strcmp(argv[1], "nothing") == 0)
        ask_for_nothing();
    if (strcmp(argv[1], "once") == 0)
        complete_each_request_once();
    if (strcmp(argv[1], "many") == 0)
        wait_for_many(20000);
    if (strcmp(argv[1], "roots") == 0)
        MPI_Bcast(&value, 1, MPI_INT, rank == 2, MPI_COMM_WORLD);
    if (strcmp(argv[1], "no rank") == 0)
        MPI_Send(&value, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
"""


@pytest.fixture(scope="module")
def edges(tmp_path_factory) -> Path:
    return compile_c(EDGES, tmp_path_factory.mktemp("edges") / "edges", "-pthread")


def test_a_receive_may_have_room_for_more_than_2_gb(run, edges):
    done = run(2, edges, "2 GB")
    assert lines(done.stdout) == ["4 from 0, the last is 4"] * 2, done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("ranks", [1, 2, 4, 6])
def test_neighbours_on_both_sides_may_be_one_rank(run, edges, ranks):
    """Open MPI's nonblocking exchange takes one side for the other there: errata 28."""
    done = run(ranks, edges, "faces")
    assert lines(done.stdout) == ["0 wrong"] * ranks, done.stderr


@needs_lines
def test_a_thread_that_waits_for_a_stuck_one_does_not_hide_it(run, edges):
    done = run(2, "--quiet", 3, edges, "join")
    assert done.returncode == 122
    assert "rank 0: MPI_Recv from rank 1 (tag 5), edges.c:" in done.stderr.decode()


@needs_lines
def test_the_call_of_a_thread_that_does_not_fit_is_named(run, edges):
    """Its rank computes, as another thread of it does."""
    done = run(2, edges, "join, one")
    assert done.returncode == 121
    said = [line.partition(", ")[0] for line in lines(done.stderr)]  # and where, if that is known
    assert {"  rank 0: MPI_Finalize", "  rank 1: MPI_Barrier"} <= set(said)


@needs_lines
def test_a_message_that_a_matched_probe_holds_does_not_end_the_program(run, edges):
    """Its errors are fatal, and to the scope the message is one that is cut off."""
    done = run(2, edges, "held")
    assert done.returncode == 120, done.stderr
    assert "rank 1: MPI_Recv from rank 0 (tag 2), edges.c:" in done.stderr.decode()


def test_a_message_cut_off_that_nobody_has_asked_for_does_not_end_the_program(run, edges):
    """The library may raise its error when the scope asks whether it is there."""
    done = run(2, edges, "cut off")
    assert done.returncode == 120, done.stderr
    assert b"Deadlock: 0 -> 1 -> 0, each waits for the next." in done.stderr


@needs_lines
def test_calls_that_do_not_fit_are_named_with_what_differs(run, edges):
    done = run(3, edges, "roots")
    said = lines(done.stderr)
    assert done.returncode == 121
    for calls in ("ranks 0 and 1: MPI_Bcast, root 0, 4 B", "rank 2: MPI_Bcast, root 1, 4 B"):
        assert any(line.startswith(f"  {calls}") for line in said)


def test_all_receives_that_are_open_are_counted(run, edges):
    """Those of every rank, though not all are named."""
    done = run(3, edges, "many")
    assert done.returncode == 120
    assert "rank 0: MPI_Waitall for" in done.stderr.decode()
    assert done.stderr.decode().count(" and 39996 more") == 3


def test_a_persistent_request_is_complete_once(run, edges):
    """To or from nobody, or one the scope does not follow: then it is inactive."""
    done = run(2, edges, "once")
    assert (done.stdout, done.returncode) == (b"", 0), done.stderr


def test_no_request_and_less_than_nothing_are_for_the_library(run, edges):
    done = run(1, edges, "nothing")
    assert (done.stdout, done.returncode) == (b"", 0), done.stderr


@needs_lines
def test_an_error_that_the_scope_finds_ends_a_program_as_the_librarys_own_would(run, edges):
    done = run(2, edges, "no rank")
    assert done.returncode == 6  # MPI_ERR_RANK of both libraries
    assert "MPI_Send to rank 2, edges.c:213, in main: no such rank" in done.stderr.decode()
