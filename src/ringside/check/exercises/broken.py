"""Five programs for four ranks, each with one thing wrong, to be known by their timelines."""

import contextlib

from ringside.errors import Deadlock

_BEGIN = """
import time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
left, right = (rank - 1) % size, (rank + 1) % size
mine, theirs = np.full(500_000, float(rank)), np.zeros(500_000)
comm.Barrier()
"""
_PROGRAMS = {
    "A": """
if rank == 0:
    comm.Send(mine, dest=right)
    comm.Recv(theirs, source=left)
else:
    comm.Recv(theirs, source=left)
    time.sleep(0.1)
    comm.Send(mine, dest=right)
""",
    "B": """
requests = [comm.Irecv(theirs, source=left), comm.Isend(mine, dest=right)]
MPI.Request.Waitall(requests)
time.sleep(0.1)
comm.Barrier()
""",
    "C": """
time.sleep(0.1)
comm.Send(mine, dest=right)
comm.Recv(theirs, source=left)
""",
    "D": """
time.sleep(0.5 if rank == 2 else 0.1)
requests = [comm.Irecv(theirs, source=left), comm.Isend(mine, dest=right)]
MPI.Request.Waitall(requests)
""",
    "E": """
if rank == 0:
    for source in range(1, size):
        comm.Recv(theirs, source=source)
        time.sleep(0.1)
    for dest in range(1, size):
        comm.Send(theirs, dest=dest)
else:
    comm.Send(mine, dest=0)
    comm.Recv(theirs, source=0)
""",
}
NAMES = tuple(_PROGRAMS)
DIAGNOSES = ("bottleneck", "chain", "deadlock", "imbalance", "no overlap")
RIGHT = {"A": "chain", "B": "no overlap", "C": "deadlock", "D": "imbalance", "E": "bottleneck"}


def timeline_of(cluster, name: str):
    """The calls of program `name` ("A" to "E") on the cluster's four ranks, as
    `Cluster.events`. A deadlock ends by itself, and is in the table like the others."""
    if name not in _PROGRAMS or cluster.n != 4:
        raise ValueError(f"the programs are {', '.join(NAMES)}, and run on four ranks")
    cluster.view.execute(_BEGIN)
    cluster.clear()
    with contextlib.suppress(Deadlock):
        cluster.view.execute(_PROGRAMS[name])
    return cluster.events()
