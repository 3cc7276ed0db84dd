"""Solutions of 02-mended: right ones in several styles, and wrong ones as students write them."""

BUFFERED = "ends without the library's buffers"
VALUES = "gives the right values on every rank"
WITHOUT = "does without what this exercise rules out"

RIGHT = {
    "even ranks send first": """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    received = np.empty_like(mine)
    if rank % 2 == 0:
        comm.Send(mine, dest=(rank + 1) % size)
        comm.Recv(received, source=(rank - 1) % size)
    else:
        comm.Recv(received, source=(rank - 1) % size)
        comm.Send(mine, dest=(rank + 1) % size)
    return received
""",
    "rank 0 alone receives first": """
def shift(comm, mine):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    theirs = mine.copy()

    def send():
        comm.Ssend([mine, MPI.DOUBLE], dest=right, tag=9)

    def receive():
        comm.Recv([theirs, MPI.DOUBLE], source=left, tag=9)

    if comm.size > 1:
        for step in (receive, send) if comm.rank == 0 else (send, receive):
            step()
    return theirs
""",
    "edge by edge, round the ring": """
def shift(comm, mine):
    received = mine
    for sender in range(comm.size):
        receiver = (sender + 1) % comm.size
        if sender == receiver:
            continue
        if comm.rank == sender:
            comm.Send(mine, dest=receiver)
        if comm.rank == receiver:
            received = np.zeros(len(mine))
            comm.Recv(received, source=MPI.ANY_SOURCE)
    return received
""",
}

WRONG = {
    "everyone sends first": (
        BUFFERED,
        "each waits for the next",
        """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    received = np.empty_like(mine)
    comm.Send(mine, dest=(rank + 1) % size)
    comm.Recv(received, source=(rank - 1) % size)
    return received
""",
    ),
    "everyone receives first": (
        "ends",
        "MPI_Recv from rank 1",
        """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    received = np.empty_like(mine)
    comm.Recv(received, source=(rank - 1) % size)
    comm.Send(mine, dest=(rank + 1) % size)
    return received
""",
    ),
    "on one rank it sends to itself": (
        "ends",
        "rank 0 waits for itself",
        """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    received = np.empty_like(mine)
    if rank % 2:
        comm.Recv(received, source=(rank - 1) % size)
        comm.Ssend(mine, dest=(rank + 1) % size)
    else:
        comm.Ssend(mine, dest=(rank + 1) % size)
        comm.Recv(received, source=(rank - 1) % size)
    return received
""",
    ),
    "rank 0 has nobody before it": (
        "leaves no message over",
        "rank 0: a receive was from MPI_PROC_NULL",
        """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    received, before = np.empty_like(mine), rank - 1 if rank else MPI.PROC_NULL
    if rank % 2 == 0:
        comm.Send(mine, dest=(rank + 1) % size)
        comm.Recv(received, source=before)
    else:
        comm.Recv(received, source=before)
        comm.Send(mine, dest=(rank + 1) % size)
    return received
""",
    ),
    "takes its rank from another cell": (
        "runs without an error",
        "name 'rank' is not defined line 3 of your cell: if rank % 2 == 0: (The check runs this",
        """
def shift(comm, mine):
    if rank % 2 == 0:
        comm.Send(mine, dest=(rank + 1) % size)
    return mine
""",
    ),
    "two ranks change places: right on 2 only": (
        "runs without an error",
        "no such rank",
        """
def shift(comm, mine):
    if comm.size == 1:
        return mine
    received, other = np.empty_like(mine), comm.rank ^ 1
    if comm.rank < other:
        comm.Send(mine, dest=other)
        comm.Recv(received, source=other)
    else:
        comm.Recv(received, source=other)
        comm.Send(mine, dest=other)
    return received
""",
    ),
    "receives into what it has yet to send": (
        VALUES,
        "elements; the first is [0]",
        """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    if size > 1:
        if rank % 2 == 0:
            comm.Send(mine, dest=(rank + 1) % size)
            comm.Recv(mine, source=(rank - 1) % size)
        else:
            comm.Recv(mine, source=(rank - 1) % size)
            comm.Send(mine, dest=(rank + 1) % size)
    return mine
""",
    ),
    "the wrong way round": (
        VALUES,
        "on 3 ranks",
        """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    received = np.empty_like(mine)
    if rank % 2 == 0:
        comm.Send(mine, dest=(rank - 1) % size)
        comm.Recv(received, source=(rank + 1) % size)
    else:
        comm.Recv(received, source=(rank + 1) % size)
        comm.Send(mine, dest=(rank - 1) % size)
    return received
""",
    ),
    "by Sendrecv": (
        WITHOUT,
        "Sendrecv",
        """
def shift(comm, mine):
    received = np.empty_like(mine)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(mine, right, recvbuf=received, source=left)
    return received
""",
    ),
    "by a prepared receive that is started first": (
        WITHOUT,
        "Start",
        """
def shift(comm, mine):
    if comm.size == 1:
        return mine
    received = np.empty_like(mine)
    request = comm.Recv_init(received, source=(comm.rank - 1) % comm.size)
    request.Start()
    comm.Send(mine, dest=(comm.rank + 1) % comm.size)
    request.Wait()
    request.Free()
    return received
""",
    ),
    "sends the object instead of the numbers": (
        "sends what is asked for",
        "its own array, once, to its right neighbour",
        """
def shift(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    if rank % 2 == 0:
        comm.send(mine, dest=(rank + 1) % size)
        return comm.recv(source=(rank - 1) % size)
    received = comm.recv(source=(rank - 1) % size)
    comm.send(mine, dest=(rank + 1) % size)
    return received
""",
    ),
}
