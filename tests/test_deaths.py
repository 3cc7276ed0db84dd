"""How a rank of a job died, from what its log says: by logs as they were written."""

import pytest

from ringside import mpi
from ringside.cluster.cluster import _job_over
from ringside.cluster.deaths import death

# Open MPI over four nodes: the others lose their connection to the one that ended, and end.
LOST = """\
[n1:00000] *** An error occurred in Socket closed
[n1:00000] *** reported by process [3179806721,0]
[n1:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,
[n1:00000] ***    and MPI will try to terminate your MPI job as well)

Ringside: rank 2 ended with exit code 14

Ringside: rank 7 ended with exit code 14
"""
TERMINATED = """\
--------------------------------------------------------------------------
prterun noticed that process rank 3 with PID 6398 on node n2 exited on
signal 15 (Terminated).
--------------------------------------------------------------------------
"""
ABORTED = """\
--------------------------------------------------------------------------
prterun has exited due to process rank 5 with PID 3159 on node n3 calling
"abort". This may have caused other processes in the application to be
terminated by signals sent by prterun (as reported here).
--------------------------------------------------------------------------
"""
NON_ZERO = """\
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-n1-1@1,2]
   Exit code:    14
"""
DAEMONS = "srun: error: n2: task 0: Exited with exit code 1\n"


@pytest.fixture
def run(tmp_path):
    """A cluster's folder, of a job whose ranks its own mpiexec begins."""
    (tmp_path / "job.sh").write_text("#!/bin/bash\nmpiexec -n 8 python -P -m ringside.engine\n")
    return tmp_path


def how(run, text: str) -> tuple:
    """Rank, signal and exit code."""
    found = death(run, text, [], None)
    return found["rank"], found["signal"], found["exit_code"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOST + TERMINATED, (3, 15, None)),
        (LOST + "Ringside: rank 3 ended by signal 15\n" + ABORTED, (3, 15, None)),
        ("Ringside: rank 6 ended by signal 9\n" + LOST + ABORTED, (6, 9, None)),
        (LOST + "Ringside: rank 6 ended with exit code 3\n" + NON_ZERO, (6, None, 3)),
    ],
)
def test_a_rank_that_ended_because_of_another_is_not_taken_for_it(run, text, expected, monkeypatch):
    monkeypatch.setattr(mpi, "kind", lambda: "openmpi")
    assert how(run, text) == expected


@pytest.mark.parametrize("more", [ABORTED, NON_ZERO, DAEMONS])
def test_no_rank_is_named_where_none_says_that_it_was_the_first(run, more, monkeypatch):
    monkeypatch.setattr(mpi, "kind", lambda: "openmpi")
    assert how(run, LOST + more) == (None, None, None)


def test_that_exit_code_means_nothing_else_under_mpich(run, monkeypatch):
    monkeypatch.setattr(mpi, "kind", lambda: "mpich")
    assert how(run, "Ringside: rank 2 ended with exit code 14\n") == (2, None, 14)
    assert how(run, "Ringside: rank 3 ended by signal 9\n") == (3, 9, None)


@pytest.mark.parametrize("signal", [9, 15])
def test_what_slurm_ends_ranks_by_is_no_death_of_its_own(run, signal):
    text = f"Ringside: rank 3 ended by signal {signal}\n"
    cancelled = death(run, text, [], None, "job 7 was cancelled (scancel)")
    assert (cancelled["rank"], cancelled["signal"]) == (None, None)
    failed = death(run, text, [], None, "job 7 failed")
    assert (failed["rank"], failed["signal"]) == (3, signal)


def test_tasks_of_srun_are_ranks_where_it_began_them(run):
    (run / "job.sh").write_text("#!/bin/bash\nsrun --mpi=pmi2 python -P -m ringside.engine\n")
    assert how(run, "srun: error: n3: task 5: Exited with exit code 3\n") == (5, None, 3)


def test_a_job_that_ended_without_a_word_need_not_have_lost_a_node(run):
    record = death(run, "", [], None, "job 7 has ended") | {"job": "job 7 has ended"}
    said = str(_job_over(record, "ringside.start(4)"))
    assert "a node may have been lost" in said and "or the job was ended from outside" in said


def test_where_a_node_may_have_been_lost_the_jobs_nodes_are_named(run):
    record = death(run, "", [], None, "job 7 failed") | {"job": "job 7 failed", "nodes": "n[1-4]"}
    said = str(_job_over(record, "ringside.start(4)"))
    assert "a node may have been lost, one of n[1-4] (sinfo -n 'n[1-4]' shows it" in said


def test_the_call_is_known_where_mpiexec_did_not_pass_it_on(run):
    call = "MPI_Allreduce, MPI_SUM, 4 B of floating point"
    (run / "rank-5.fault").write_text(f"Ringside: rank 5 was ended within {call}\n")
    told = death(run, "\nRingside: rank 5 ended with exit code 1\n", [5, 2], 1)
    assert (told["rank"], told["exit_code"], told["where"]) == (5, 1, call)


def test_a_rank_that_called_abort_says_so_itself(run):
    """mpiexec may end before it has passed on the message, and with code 0."""
    (run / "rank-2.fault").write_text("Ringside: rank 2 called MPI_Abort, 0\n")
    found = death(run, "", [3], 0)
    assert (found["rank"], found["abort"], found["exit_code"]) == (2, 0, None)
