"""Solutions of 08-ring-allreduce: right ones in several styles, and wrong ones as students write
them."""

RIGHT = {
    "np.array_split, Sendrecv": """
def ring_allreduce(comm, mine, total):
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    total[:] = mine
    blocks = np.array_split(total, size)
    for step in range(size - 1):
        out, into = blocks[(rank - step) % size], blocks[(rank - step - 1) % size]
        came = np.empty_like(into)
        comm.Sendrecv(out, right, recvbuf=came, source=left)
        into += came
    for step in range(size - 1):
        out, into = blocks[(rank + 1 - step) % size], blocks[(rank - step) % size]
        comm.Sendrecv(out, right, recvbuf=into, source=left)
""",
    "nonblocking, the blocks cut by hand, begun one block further": """
def ring_allreduce(comm, mine, total):
    rank, size = comm.rank, comm.size
    length = -(-mine.size // size)
    cut = [min(i * length, mine.size) for i in range(size + 1)]
    total[:] = mine
    came = np.empty(length)
    for step in range(2 * (size - 1)):
        o, i = (rank + 1 - step) % size, (rank - step) % size
        there = came if step < size - 1 else total[cut[i] : cut[i + 1]]
        requests = [comm.Irecv(there, source=rank - 1 if rank else size - 1, tag=step)]
        requests.append(comm.Isend(total[cut[o] : cut[o + 1]], dest=(rank + 1) % size, tag=step))
        MPI.Request.Waitall(requests)
        if step < size - 1:
            total[cut[i] : cut[i + 1]] += came[: cut[i + 1] - cut[i]]
""",
    "blocking, by order": """
def shift(comm, out, into):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    if comm.rank == 0:
        comm.Send(out, dest=right)
    comm.Recv(into, source=left)
    if comm.rank > 0:
        comm.Send(out, dest=right)


def ring_allreduce(comm, mine, total):
    total[:] = mine
    if comm.size == 1:
        return
    blocks = np.array_split(total, comm.size)
    came = np.empty(blocks[0].size)
    at = comm.rank
    for _ in range(comm.size - 1):
        before = (at - 1) % comm.size
        shift(comm, blocks[at], came)
        blocks[before] += came[: blocks[before].size]
        at = before
    for _ in range(comm.size - 1):
        before = (at - 1) % comm.size
        shift(comm, blocks[at], blocks[before])
        at = before
""",
}

LOOPS = """
def ring_allreduce(comm, mine, total):
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    total[:] = mine
    blocks = np.array_split(total, size)
    for step in range(size - 1):
        out, into = blocks[(rank - step) % size], blocks[(rank - step - 1) % size]
        came = np.empty_like(into)
        comm.Sendrecv(out, right, recvbuf=came, source=left)
        into += came
"""

WRONG = {
    "every rank sends first": (
        "ends without the library's buffers",
        "rank 0: MPI_Send to rank 1",
        """
def ring_allreduce(comm, mine, total):
    rank, size = comm.rank, comm.size
    if size == 1:
        total[:] = mine
        return
    total[:] = mine
    blocks = np.array_split(total, size)
    for step in range(2 * (size - 1)):
        out, into = blocks[(rank - step) % size], blocks[(rank - step - 1) % size]
        came = np.empty_like(into)
        comm.Send(out, dest=(rank + 1) % size)
        comm.Recv(came, source=(rank - 1) % size)
        if step < size - 1:
            into += came
        else:
            into[:] = came
""",
    ),
    "without the second half": (
        "gives the right values on every rank",
        "total is wrong in",
        LOOPS,
    ),
    "adds in the second half, too": (
        "gives the right values on every rank",
        "total is wrong in",
        LOOPS.replace("range(size - 1)", "range(2 * (size - 1))"),
    ),
    "the second half begins with the block of the first": (
        "gives the right values on every rank",
        "total is wrong in",
        LOOPS
        + """
    for step in range(size - 1):
        out, into = blocks[(rank - step) % size], blocks[(rank - step - 1) % size]
        comm.Sendrecv(out, right, recvbuf=into, source=left)
""",
    ),
    "what is left over when p does not divide n": (
        "gives the right values on every rank",
        "total is wrong in",
        """
def ring_allreduce(comm, mine, total):
    rank, size = comm.rank, comm.size
    right, left, n = (rank + 1) % size, (rank - 1) % size, mine.size // comm.size
    total[:] = mine
    came = np.empty(n)
    for step in range(2 * (size - 1)):
        o, i = (rank - step) % size, (rank - step - 1) % size
        comm.Sendrecv(total[o * n : o * n + n], right, recvbuf=came, source=left)
        if step < size - 1:
            total[i * n : i * n + n] += came
        else:
            total[i * n : i * n + n] = came
""",
    ),
    "whole vectors go round": (
        "sends what is asked for",
        "and should send 4: 2 (p - 1) blocks",
        """
def ring_allreduce(comm, mine, total):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    passing = mine.copy()
    total[:] = mine
    for _ in range(comm.size - 1):
        comm.Sendrecv_replace(passing, right, source=left)
        total += passing
""",
    ),
    "as many messages, each of them the whole vector": (
        "sends blocks",
        "and a block has",
        """
def ring_allreduce(comm, mine, total):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    passing = mine.copy()
    total[:] = mine
    for step in range(2 * (comm.size - 1)):
        comm.Sendrecv_replace(passing, right, source=left)
        if step < comm.size - 1:
            total += passing
""",
    ),
    "adds into the vector that it was given": (
        "gives the right values on every rank",
        "mine is wrong in",
        """
def ring_allreduce(comm, mine, total):
    rank, size = comm.rank, comm.size
    right, left = (rank + 1) % size, (rank - 1) % size
    blocks = np.array_split(mine, size)
    for step in range(2 * (size - 1)):
        out, into = blocks[(rank - step) % size], blocks[(rank - step - 1) % size]
        came = np.empty_like(into)
        comm.Sendrecv(out, right, recvbuf=came, source=left)
        if step < size - 1:
            into += came
        else:
            into[:] = came
    total[:] = mine
""",
    ),
    "a collective": (
        "does without what this exercise rules out",
        "Allreduce",
        """
def ring_allreduce(comm, mine, total):
    comm.Allreduce(mine, total)
""",
    ),
}
