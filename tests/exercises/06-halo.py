"""Solutions of 06-halo: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "two Sendrecv with PROC_NULL": """
def swap(comm, field):
    rank, size = comm.rank, comm.size
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    comm.Sendrecv(field[1:2], left, recvbuf=field[-1:], source=right)
    comm.Sendrecv(field[-2:-1], right, recvbuf=field[:1], source=left)
""",
    "nonblocking, with the neighbours there are": """
def swap(comm, field):
    requests = []
    if comm.rank > 0:
        requests.append(comm.Irecv(field[0:1], source=comm.rank - 1))
        requests.append(comm.Isend(field[1:2], dest=comm.rank - 1))
    if comm.rank < comm.size - 1:
        requests.append(comm.Irecv(field[-1:], source=comm.rank + 1))
        requests.append(comm.Isend(field[-2:-1].copy(), dest=comm.rank + 1))
    MPI.Request.Waitall(requests)
""",
    "blocking, even ranks send first": """
def with_neighbour(comm, other, out, sends_first):
    there = np.empty(1)
    if sends_first:
        comm.Send(np.array([out]), dest=other, tag=3)
        comm.Recv(there, source=other, tag=3)
    else:
        comm.Recv(there, source=other, tag=3)
        comm.Send(np.array([out]), dest=other, tag=3)
    return there[0]


def swap(comm, field):
    even = comm.rank % 2 == 0
    for other in (comm.rank + 1, comm.rank - 1) if even else (comm.rank - 1, comm.rank + 1):
        if other > comm.rank and other < comm.size:
            field[-1] = with_neighbour(comm, other, field[-2], even)
        elif 0 <= other < comm.rank:
            field[0] = with_neighbour(comm, other, field[1], even)
    return field
""",
}

WRONG = {
    "sends to both sides before it receives": (
        "ends without the library's buffers",
        "0 -> 1 -> 0, each waits for the next",
        """
def swap(comm, field):
    rank, size = comm.rank, comm.size
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    comm.Send(field[1:2], dest=left)
    comm.Send(field[-2:-1], dest=right)
    comm.Recv(field[:1], source=left)
    comm.Recv(field[-1:], source=right)
""",
    ),
    "a ring in place of a line": (
        "gives the right values on every rank",
        "the first is [0]:",
        """
def swap(comm, field):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    comm.Sendrecv(field[1:2], left, recvbuf=field[-1:], source=right)
    comm.Sendrecv(field[-2:-1], right, recvbuf=field[:1], source=left)
""",
    ),
    "an element in place of a piece of the array": (
        "runs without an error",
        "line 10 of your cell: comm.Recv(field[-1], source=right)",
        """
def swap(comm, field):
    rank, size = comm.rank, comm.size
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    requests = [comm.Isend(np.array([field[1]]), left), comm.Isend(np.array([field[-2]]), right)]
    if rank > 0:
        comm.Recv(field[0], source=left)
    if rank < size - 1:
        comm.Recv(field[-1], source=right)
    MPI.Request.Waitall(requests)
""",
    ),
    "its halo in place of its own outermost cells": (
        "gives the right values on every rank",
        "and should be",
        """
def swap(comm, field):
    rank, size = comm.rank, comm.size
    left = rank - 1 if rank > 0 else MPI.PROC_NULL
    right = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    comm.Sendrecv(field[0:1].copy(), left, recvbuf=field[-1:], source=right)
    comm.Sendrecv(field[-1:].copy(), right, recvbuf=field[:1], source=left)
""",
    ),
    "sends that are never waited for": (
        "completes what it starts",
        "1 operation was begun and never waited for",
        """
def swap(comm, field):
    rank, size = comm.rank, comm.size
    if rank > 0:
        comm.Isend(field[1:2], dest=rank - 1)
    if rank < size - 1:
        comm.Isend(field[-2:-1], dest=rank + 1)
    if rank > 0:
        comm.Recv(field[:1], source=rank - 1)
    if rank < size - 1:
        comm.Recv(field[-1:], source=rank + 1)
""",
    ),
    "copies what has not come yet": (
        "gives the right values on every rank",
        "should be",
        """
def swap(comm, field):
    halo, requests = np.zeros(2), []
    if comm.rank > 0:
        requests += [comm.Irecv(halo[:1], comm.rank - 1), comm.Isend(field[1:2], comm.rank - 1)]
    if comm.rank < comm.size - 1:
        requests += [comm.Irecv(halo[1:], comm.rank + 1), comm.Isend(field[-2:-1], comm.rank + 1)]
    if comm.rank > 0:
        field[0] = halo[0]
    if comm.rank < comm.size - 1:
        field[-1] = halo[1]
    MPI.Request.Waitall(requests)
""",
    ),
    "in pairs, right on 2 ranks only": (
        "runs without an error",
        "MPI_Sendrecv to rank 3: no such rank",
        """
def swap(comm, field):
    other = comm.rank ^ 1
    if other == comm.rank + 1:
        comm.Sendrecv(field[-2:-1], other, recvbuf=field[-1:], source=other)
    else:
        comm.Sendrecv(field[1:2], other, recvbuf=field[:1], source=other)
""",
    ),
    "all cells in place of one": (
        "sends what is asked for",
        "its outermost cell to each neighbour that it has",
        """
def swap(comm, field):
    if comm.rank > 0:
        theirs = comm.sendrecv(field, comm.rank - 1, source=comm.rank - 1)
        field[0] = theirs[-2]
    if comm.rank < comm.size - 1:
        theirs = comm.sendrecv(field, comm.rank + 1, source=comm.rank + 1)
        field[-1] = theirs[1]
""",
    ),
    "waits for a neighbour that it does not have": (
        "ends",
        "line 10 of your cell",
        """
def swap(comm, field):
    requests = []
    if comm.rank > 0:
        requests.append(comm.Isend(field[1:2], dest=comm.rank - 1))
    if comm.rank < comm.size - 1:
        requests.append(comm.Isend(field[-2:-1], dest=comm.rank + 1))
    if comm.rank < comm.size - 1:
        comm.Recv(field[-1:], source=comm.rank + 1)
    comm.Recv(field[:1], source=(comm.rank - 1) % comm.size)
    MPI.Request.Waitall(requests)
""",
    ),
}
