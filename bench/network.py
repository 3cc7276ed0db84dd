"""The network lens, held against what was asked of it: `make bench`, `make bench MPI=openmpi`.

Two ranks on a machine that is otherwise at rest. Bars are printed, not asserted.
"""

import os
import statistics

from ipyparallel import Reference
from processes import environment, place
from table import row, show

LATENCIES = (2e-4, 1e-3)  # seconds
BANDWIDTH, SLOW = 1e9, 2e8  # bytes a second
MESSAGE = 40_000_000  # bytes, for the overlap
TURNS = 7

CODE = """
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, peer = comm.rank, 1 - comm.rank

def one_way(nbytes, trips):
    buffer, times = np.zeros(nbytes, "b"), []
    for _ in range(trips):
        comm.Barrier()
        begun = MPI.Wtime()
        if rank == 0:
            comm.Send(buffer, 1)
            comm.Recv(buffer, 1)
        else:
            comm.Recv(buffer, 0)
            comm.Send(buffer, 0)
        times.append((MPI.Wtime() - begun) / 2)
    return times

def compute(seconds, tests, request):
    begun, done = MPI.Wtime(), 0
    while MPI.Wtime() - begun < seconds:
        if tests and MPI.Wtime() - begun >= done * seconds / tests:
            request.Test()
            done += 1

def overlap(nbytes, seconds, tests):
    mine, into = np.ones(nbytes, "b"), np.zeros(nbytes, "b")
    comm.Barrier()
    begun = MPI.Wtime()
    requests = [comm.Irecv(into, peer), comm.Isend(mine, peer)]
    compute(seconds, tests, requests[0])
    MPI.Request.Waitall(requests)
    return MPI.Wtime() - begun

def parity(nbytes, seconds):
    mine, into = np.ones(nbytes, "b"), np.zeros(nbytes, "b")
    comm.Barrier()
    begun = MPI.Wtime()
    for sends in (rank == 0, rank == 1):
        comm.Send(mine, peer) if sends else comm.Recv(into, peer)
    compute(seconds, 0, None)
    return MPI.Wtime() - begun
"""


def slowest(cluster, call: str) -> list[float]:
    """Seconds of the slower rank, in each of some turns."""
    names = Reference("globals()")
    return [max(cluster.view.apply_sync(eval, call, names)) for _ in range(TURNS)]


def speed_rows(cluster) -> list[tuple]:
    """How far a one-way trip is from what was asked."""
    table = []
    for latency in LATENCIES:
        cluster.network(latency, BANDWIDTH)
        for nbytes in (8, 1_000_000, 10_000_000):
            asked = latency + nbytes / BANDWIDTH
            names = Reference("globals()")
            times, _ = cluster.view.apply_sync(eval, f"one_way({nbytes}, 21)", names)
            us = [1e6 * seconds for seconds in times]
            what = f"network of {1e6 * latency:.0f} us, 1 GB/s: {nbytes:,} B, us : asked"
            table.append(row(what, us, [1e6 * asked], [t / asked for t in times], 1.10, 0))
    return table


def overlap_rows(cluster) -> list[tuple]:
    """What share of a long message is not hidden behind work that takes as long and a half."""
    table = []
    cases = [
        ("overlap", "overlap({n}, {s}, 0)", True, 0.20),
        ("parity", "parity({n}, {s})", True, None),
        ("overlap, no progress", "overlap({n}, {s}, 0)", False, None),
        ("overlap, no progress, tests", "overlap({n}, {s}, 20)", False, 0.20),
    ]
    for name, call, progress, bar in cases:
        cluster.network(1e-3, SLOW, progress=progress)
        alone = slowest(cluster, call.format(n=MESSAGE, s=0))
        work = 1.5 * statistics.median(alone)
        both = slowest(cluster, call.format(n=MESSAGE, s=work))
        shown = [(b - work) / a for a, b in zip(alone, both, strict=True)]
        table.append(row(f"40 MB at 200 MB/s, {name}: not hidden", both, alone, shown, bar))
    return table


def main() -> None:
    """Measure, print the table, leave nothing behind."""
    import ringside

    with place() as directory:
        os.environ |= environment(directory)
        cluster = ringside.start(2)
        try:
            cluster.view.execute(CODE).get()
            table = speed_rows(cluster) + overlap_rows(cluster)
        finally:
            cluster.stop()
    show(table)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
