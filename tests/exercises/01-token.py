"""Solutions of 01-token: right ones in several styles, and wrong ones as students write them."""

BUFFERED = "ends without the library's buffers"
VALUES = "gives the right values on every rank"

RIGHT = {
    "rank 0 begins, numbers in arrays": """
def once_round(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    token = np.array([mine])
    if rank > 0:
        comm.Recv(token, source=rank - 1)
        token += mine
    comm.Send(token, dest=(rank + 1) % size)
    if rank == 0:
        comm.Recv(token, source=size - 1)
    return int(token[0])
""",
    "send and recv of objects, one branch a kind of rank": """
def once_round(comm, mine):
    if comm.size == 1:
        return mine
    if comm.rank == 0:
        comm.send(mine, dest=1, tag=5)
        return comm.recv(source=comm.size - 1, tag=5)
    token = comm.recv(source=comm.rank - 1, tag=5) + mine
    if comm.rank == comm.size - 1:
        comm.send(token, dest=0, tag=5)
    else:
        comm.send(token, dest=comm.rank + 1, tag=5)
    return token
""",
    "rank 0 starts its receive before it sends, and so needs no case of one rank": """
def once_round(comm, mine):
    left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
    incoming, token = np.zeros(1, dtype=np.int64), np.array([mine], dtype=np.int64)
    receiving = comm.Irecv(incoming, source=left)
    if comm.rank != 0:
        receiving.Wait()
        token += incoming
    sending = comm.Isend(token, dest=right)
    receiving.Wait()
    sending.Wait()
    return incoming[0] if comm.rank == 0 else token[0]
""",
}

WRONG = {
    "everyone receives first": (
        "ends",
        "rank 0: MPI_Recv from rank 1",
        """
def once_round(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    token = np.array([mine])
    comm.Recv(token, source=(rank - 1) % size)
    if rank > 0:
        token += mine
    comm.Send(token, dest=(rank + 1) % size)
    return int(token[0])
""",
    ),
    "on one rank it sends to itself": (
        "ends",
        "on 1 rank",
        """
def once_round(comm, mine):
    rank, size = comm.rank, comm.size
    token = np.array([mine])
    if rank == 0:
        comm.Ssend(token, dest=(rank + 1) % size)
        comm.Recv(token, source=size - 1)
    else:
        comm.Recv(token, source=rank - 1)
        token += mine
        comm.Ssend(token, dest=(rank + 1) % size)
    return int(token[0])
""",
    ),
    "everyone sends before they know the sum": (
        VALUES,
        "rank 0: it returned",
        """
def once_round(comm, mine):
    token = np.array([mine])
    incoming = np.zeros_like(token)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(token, right, recvbuf=incoming, source=left)
    return int(incoming[0]) if comm.rank == 0 else int(incoming[0]) + mine
""",
    ),
    "rank 0 adds its number again": (
        VALUES,
        "rank 0: it returned",
        """
def once_round(comm, mine):
    if comm.size == 1:
        return mine
    if comm.rank == 0:
        comm.send(mine, dest=1)
        return comm.recv(source=comm.size - 1) + mine
    token = comm.recv(source=comm.rank - 1) + mine
    comm.send(token, dest=(comm.rank + 1) % comm.size)
    return token
""",
    ),
    "the last rank has no right neighbour": (
        "runs without an error",
        "comm.send(token, dest=comm.rank + 1)",
        """
def once_round(comm, mine):
    if comm.size == 1:
        return mine
    token = mine
    if comm.rank > 0:
        token += comm.recv(source=comm.rank - 1)
    comm.send(token, dest=comm.rank + 1)
    if comm.rank == 0:
        token = comm.recv(source=comm.size - 1)
    return token
""",
    ),
    "written for four ranks": (
        "runs without an error",
        "no such rank",
        """
def once_round(comm, mine):
    token = mine
    if comm.rank > 0:
        token += comm.recv(source=comm.rank - 1)
    comm.send(token, dest=(comm.rank + 1) % 4)
    if comm.rank == 0:
        token = comm.recv(source=3)
    return token
""",
    ),
    "a send that nobody waits for": (
        "completes what it starts",
        "begun and never waited for",
        """
def once_round(comm, mine):
    if comm.size == 1:
        return mine
    token = mine if comm.rank == 0 else comm.recv(source=comm.rank - 1) + mine
    comm.isend(token, dest=(comm.rank + 1) % comm.size)
    return comm.recv(source=comm.size - 1) if comm.rank == 0 else token
""",
    ),
    "the token comes into an array of another kind of number": (
        VALUES,
        "rank 1: it returned",
        """
def once_round(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    token = np.array([mine])
    if rank > 0:
        incoming = np.zeros(1)
        comm.Recv(incoming, source=rank - 1)
        token = np.array([mine + int(incoming[0])])
    comm.Send(token, dest=(rank + 1) % size)
    if rank == 0:
        comm.Recv(token, source=size - 1)
    return int(token[0])
""",
    ),
    "nobody takes the token from the last rank": (
        "leaves no message over",
        "from rank 1 to rank 0",
        """
def once_round(comm, mine):
    rank, size = comm.rank, comm.size
    if size == 1:
        return mine
    token = np.array([mine])
    if rank > 0:
        comm.Recv(token, source=rank - 1)
        token += mine
    comm.Send(token, dest=(rank + 1) % size)
    return int(token[0])
""",
    ),
    "by collectives, without a token": (
        "sends what is asked for",
        "sent no message to others, and should send 1",
        """
def once_round(comm, mine):
    one, up_to_here, of_all = np.array([mine]), np.zeros(1, int), np.zeros(1, int)
    comm.Scan(one, up_to_here)
    comm.Allreduce(one, of_all)
    return int(of_all[0]) if comm.rank == 0 else int(up_to_here[0])
""",
    ),
}
