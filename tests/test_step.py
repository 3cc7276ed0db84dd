"""The stepper: ranks that stop before each call, and a reader who lets them go on."""

import time

import pytest

import ringside
from ringside.errors import ClusterError

pytestmark = pytest.mark.usefixtures("stepping")
SET_UP = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
mine, other = np.full(100_000, rank), np.empty(100_000, int)
"""
RING = "comm.Send(mine, (rank + 1) % size, 7)\ncomm.Recv(other, (rank - 1) % size, 7)"


@pytest.fixture
def stepping(cluster):
    """The ranks stop before each call; afterwards they do not."""
    cluster.view.execute(SET_UP, block=True)
    cluster.stepping()
    yield
    cluster.stepping(False)


def begun(cluster, code):
    """A cell that is under way, once all its ranks have stopped before their first call."""
    result = cluster.view.execute(code, block=False)
    deadline = time.monotonic() + 60
    while not all(state["held"] for state in cluster.states()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return result


def test_the_reader_steps_a_ring_into_its_deadlock(cluster, capsys):
    result = begun(cluster, RING)
    seen = []
    for rank in range(4):
        capsys.readouterr()
        cluster.step(rank)
        seen.append(capsys.readouterr().out.strip())
    assert seen[:3] == [
        "Rank 0 waits in MPI_Send for rank 1, line 1; ranks 1 to 3 are stopped before MPI_Send, "
        "line 1.",
        "Ranks 0 and 1 wait in MPI_Send for ranks 1 and 2, line 1; ranks 2 and 3 are stopped "
        "before MPI_Send, line 1.",
        "Ranks 0 to 2 wait in MPI_Send for ranks 1, 2 and 3, line 1; rank 3 is stopped before "
        "MPI_Send, line 1.",
    ]
    with pytest.raises(ringside.Deadlock, match="0 -> 1 -> 2 -> 3 -> 0"):
        result.get(60)


def test_and_past_it(cluster):
    """Rank 0 receives first: stopped ranks are no deadlock, and each step frees one of them."""
    recv_first = RING.replace("\n", "; ")
    result = begun(
        cluster, f"if rank: {recv_first}\nelse: {'; '.join(recv_first.split('; ')[::-1])}"
    )
    for _ in range(2):
        for rank in (3, 2, 1, 0):
            cluster.step(rank)
    result.get(60)
    assert [int(numbers[0]) for numbers in cluster.view["other"]] == [3, 0, 1, 2]


def test_the_reader_chooses_whose_message_a_wildcard_gets(cluster):
    result = begun(
        cluster,
        "if rank: comm.Send(mine[:1], 0)\n"
        "else:\n"
        "    order = []\n"
        "    for _ in range(size - 1):\n"
        "        comm.Recv(other[:1])\n"
        "        order.append(int(other[0]))",
    )
    cluster.step(0)
    for rank in (2, 3, 1):
        cluster.step(rank)
        cluster.step(0)
    result.get(60)
    assert cluster.client[0]["order"] == [2, 3, 1]


def test_several_calls_at_once_and_all_ranks_at_once(cluster):
    result = begun(cluster, "for _ in range(5): comm.Barrier()")
    cluster.step(calls=4)
    assert [state["held"] for state in cluster.states()] == ["MPI_Barrier"] * 4
    cluster.step()
    result.get(60)


def test_a_stop_frees_who_is_stopped_and_the_next_cell_runs(cluster):
    result = begun(cluster, "comm.Barrier()")
    cluster.step(0)
    cluster.interrupt()
    with pytest.raises(ringside.Stopped):
        result.get(60)
    result = begun(cluster, "comm.Barrier()")
    cluster.stepping(False)
    result.get(60)


def test_a_rank_that_waits_is_given_no_call_ahead(cluster):
    """It would pass its next stop unseen."""
    result = begun(
        cluster, "if rank == 0: comm.recv(source=1)\nif rank == 1: comm.send(1, 0)\ncomm.Barrier()"
    )
    cluster.step(0)
    cluster.step(0)
    cluster.step(1)
    assert cluster.states()[0]["held"]
    cluster.stepping(False)
    result.get(60)


def test_what_cannot_be_stepped_is_refused(cluster):
    with pytest.raises(ClusterError, match="no rank 4"):
        cluster.step(4)
    with pytest.raises(ClusterError, match="at least 1 call"):
        cluster.step(calls=0)
    for wrong in ("0", [0, 1], True, 1.5):
        with pytest.raises(ClusterError, match="no whole number"):
            cluster.step(wrong)
    cluster.stepping(False)
    with pytest.raises(ClusterError, match="stops them first"):
        cluster.step()
