"""Runs that came to their end, judged again without buffers: on real ranks."""

import pytest

from ringside.watch.chance import chance

SET_UP = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size
mine, other = np.full(2, rank), np.empty(2, int)
"""
LUCKY = {
    "send first in a ring": (
        "comm.Send(mine, right)\ncomm.Recv(other, left)",
        "ranks 0, 1, 2 and 3",
        1,
    ),
    "lowercase": ("comm.send(rank, right)\ncomm.recv(source=left)", "ranks 0, 1, 2 and 3", 1),
    "two ranks": (
        "if rank < 2:\n    comm.Send(mine, 1 - rank)\n    comm.Recv(other, 1 - rank)",
        "ranks 0 and 1",
        2,
    ),
    "tags in another order": (
        "if rank == 0:\n    comm.Send(mine, 1, 1)\n    comm.Send(mine, 1, 2)\n"
        "if rank == 1:\n    comm.Recv(other, 0, 2)\n    comm.Recv(other, 0, 1)",
        "ranks 0 and 1",
        2,
    ),
    "a barrier between": (
        "if rank == 0: comm.Send(mine, 1)\ncomm.Barrier()\nif rank == 1: comm.Recv(other, 0)",
        "ranks 0, 1, 2 and 3",
        1,
    ),
    "in the second round": (
        "comm.Sendrecv(mine, right, recvbuf=other, source=left)\n"
        "comm.Send(mine, right)\ncomm.Recv(other, left)",
        "ranks 0, 1, 2 and 3",
        2,
    ),
}
RIGHT = {
    "parity": "if rank % 2:\n    comm.Recv(other, left); comm.Send(mine, right)\n"
    "else:\n    comm.Send(mine, right); comm.Recv(other, left)",
    "one receives first": "if rank == 0:\n    comm.Recv(other, left); comm.Send(mine, right)\n"
    "else:\n    comm.Send(mine, right); comm.Recv(other, left)",
    "Sendrecv": "comm.Sendrecv(mine, right, recvbuf=other, source=left)",
    "Isend, Recv, Wait": "r = comm.Isend(mine, right)\ncomm.Recv(other, left)\nr.Wait()",
    "Irecv, Send, Wait": "r = comm.Irecv(other, left)\ncomm.Send(mine, right)\nr.Wait()",
    "Waitall": "rs = [comm.Irecv(other, left), comm.Isend(mine, right)]\nMPI.Request.Waitall(rs)",
    "tested": "rs = [comm.Irecv(other, left), comm.Isend(mine, right)]\n"
    "while not MPI.Request.Testall(rs): pass",
    "persistent": "rs = [comm.Recv_init(other, left), comm.Send_init(mine, right)]\n"
    "for _ in range(2):\n    MPI.Prequest.Startall(rs)\n    MPI.Prequest.Waitall(rs)\n"
    "for r in rs: r.Free()",
    "lowercase, in order": "if rank == 0: comm.send(1, 1)\nif rank == 1: comm.recv(source=0)",
    "collectives": "comm.Allreduce(mine, other)\ncomm.bcast(3)\ncomm.Barrier()",
    "a probe": "if rank == 0: comm.Send(mine, 1)\n"
    "if rank == 1:\n    comm.Probe(0)\n    comm.Recv(other, 0)",
    "a buffered send": "MPI.Attach_buffer(bytearray(1 << 16))\ncomm.Bsend(mine, right)\n"
    "comm.Recv(other, left)\nMPI.Detach_buffer()",
    "to oneself": "r = comm.Irecv(other, rank)\ncomm.Send(mine, rank)\nr.Wait()",
    "to nobody": "comm.Send(mine, MPI.PROC_NULL)\ncomm.Recv(other, MPI.PROC_NULL)",
    "a master": "if rank:\n    comm.Send(mine, 0); comm.Recv(other, 0)\n"
    "else:\n    for _ in range(3):\n        s = MPI.Status()\n        comm.Recv(other, status=s)\n"
    "        comm.Send(mine, s.source)",
}


def said(cluster, code: str) -> str:
    cluster.view.execute(SET_UP, block=True)
    cluster.clear()
    cluster.view.execute(code, block=True)
    return chance(cluster.events())


@pytest.mark.parametrize("name", LUCKY)
def test_a_run_that_needed_a_buffer_is_named_with_its_lines(cluster, name):
    code, ranks, line = LUCKY[name]
    text = said(cluster, code)
    assert text.startswith("This run relied on buffers"), text
    assert f"{ranks} would wait for one another" in text
    assert f", line {line}" in text


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_a_run_that_needed_none(cluster, name):
    assert said(cluster, RIGHT[name]).startswith("No blocking send relied on a buffer.")


def test_of_small_nonblocking_sends_nothing_is_claimed(cluster):
    """This one needs a buffer, and the record has no wait for it."""
    text = said(cluster, "comm.Isend(mine, right).Wait()\ncomm.Recv(other, left)")
    assert "not known where 4 nonblocking sends were waited for" in text


def test_of_a_run_that_ended_in_a_verdict_nothing_is_said(cluster):
    cluster.view.execute(SET_UP, block=True)
    cluster.clear()
    result = cluster.view.execute("if rank == 0: comm.Recv(other, 1)", block=False)
    with pytest.raises(Exception, match="Deadlock"):
        result.get()
    assert "did not come to its end" in chance(cluster.events())
