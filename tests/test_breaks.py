"""After hundreds of breaks of a kind the engines hold no more than they did: `make soak`.

Memory, file descriptors and threads are those of the engines' processes, seen from outside.
"""

import gc
import os
import time

import psutil
import pytest
from cells import run

from ringside import mpi
from ringside.errors import Left

WARM = 20  # breaks after which everything that is made once has been made
BREAKS = 200
LIMIT = 30.0  # seconds a cell may take
ROOM = 2e6  # bytes a rank may have grown by
# What the libraries keep of collectives that do not fit (docs/limits.md): MPICH what was sent,
# Open MPI the communicator that is given up, some 10 kB a break.
KEPT = (
    {"unlike roots": 5e6}
    if mpi.kind() == "mpich"
    else {"unlike roots": 1e6, "unlike collectives": 1e6}
)

SETTING = """
import gc
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
small, total = np.zeros(1), np.zeros(1)
large, sums = np.ones(5_000_000), np.zeros(5_000_000)
win = None
"""

CELLS = {
    "ring of sends": "comm.Send(large, dest=right); comm.Recv(sums, source=left)",
    "ring of synchronous sends": "comm.Ssend(small, dest=right)",
    "ring of receives": "comm.Recv(small, source=left)",
    "sends never received": "comm.Send(small, dest=right); comm.Recv(small, source=left, tag=9)",
    "receive from one that finished": "if rank == 0: comm.recv(source=1)",
    "probe": "comm.Probe(source=left)",
    "matched probe": "comm.send(1, dest=right); comm.Mprobe(source=left); comm.Mprobe(source=left)",
    "sendrecv": "comm.Sendrecv(small, right, 1, total, left, 2)",
    "waitall": (
        "MPI.Request.Waitall([comm.Irecv(small, source=left, tag=0), "
        "comm.Irecv(total, source=right, tag=1), comm.Isend(large, dest=right, tag=2)])"
    ),
    "waitany": "MPI.Request.Waitany([comm.Irecv(small, left), comm.Irecv(total, right, 1)])",
    "persistent receive": "q = comm.Recv_init(small, source=left); q.Start(); q.Wait()",
    "barrier, one missing": "if rank != 2: comm.Barrier()",
    "broadcast, root missing": "if rank != 0: comm.Bcast(large, root=0)",
    "small allreduce, one missing": "if rank != 2: comm.Allreduce(small, total)",
    "large allreduce, one missing": "if rank != 2: comm.Allreduce(large, sums)",
    "large nonblocking allreduce": "if rank != 2: comm.Iallreduce(large, sums).Wait()",
    "unlike collectives": "comm.Bcast(small, root=0) if rank else comm.Barrier()",
    "unlike roots": "comm.Bcast(small, root=rank)",
    "duplicate, one missing": "if rank != 2: comm.Dup()",
    "split, one missing": "if rank != 2: comm.Split(rank % 2)",
    "window's fence": (
        "if win: win.Free()\nwin = MPI.Win.Create(small, comm=comm)\n"
        "if rank != 2: win.Fence()\nelse: comm.Barrier()"
    ),
    "python error": "if rank == 2: 1 / 0\ncomm.Barrier()",
}


def held(pids: list[int]) -> list[tuple[int, int, int]]:
    """Resident bytes, descriptors and threads of each process."""
    processes = [psutil.Process(pid) for pid in pids]
    return [(p.memory_info().rss, p.num_fds(), p.num_threads()) for p in processes]


def breaks(cluster, cell: str, times: int) -> None:
    for _ in range(times):
        with pytest.raises(Left):
            run(cluster, cell, LIMIT)
    run(cluster, "q = None; _ = gc.collect()", LIMIT)
    gc.collect()


def after(cluster, kind: str, count: int, pids: list[int]) -> list[tuple[int, int, int]]:
    """What the processes hold after so many breaks more."""
    breaks(cluster, CELLS[kind], count)
    time.sleep(0.5)  # threads that end
    return held(pids)


@pytest.mark.soak
@pytest.mark.parametrize("kind", CELLS)
def test_breaks_leave_nothing(cluster, kind):
    """What grows steadily counts, so the half in which a rank grew less: libraries take some memory
    in blocks, once, of 2 MB for a thousand requests, say."""
    run(cluster, SETTING, LIMIT)
    numbers = cluster.view.apply_sync(os.getpid)
    counts = [WARM, BREAKS // 2, BREAKS // 2]
    begun, middle, ended = [after(cluster, kind, count, numbers) for count in counts]
    assert [one[1:] for one in ended] == [one[1:] for one in begun], "descriptors or threads"
    halves = zip(begun, middle, ended, strict=True)
    grown = [2 * min(b[0] - a[0], c[0] - b[0]) for a, b, c in halves]
    assert max(grown) <= ROOM + KEPT.get(kind, 0), f"by {[round(n / 1e6, 1) for n in grown]} MB"

    run(cluster, "n = comm.allreduce(1)", LIMIT)
    assert cluster.view["n"] == [cluster.n] * cluster.n
    assert cluster.view.apply_sync(os.getpid) == numbers
