"""Solutions of 08-tree-sum: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "distances 1, 2, 4 ...": """
def tree_sum(comm, mine):
    total, other, distance = np.array([mine]), np.zeros(1), 1
    while distance < comm.size:
        if comm.rank % (2 * distance) == distance:
            comm.Send(total, dest=comm.rank - distance)
            return None
        if comm.rank + distance < comm.size:
            comm.Recv(other, source=comm.rank + distance)
            total += other
        distance *= 2
    return total[0]
""",
    "the upper half sends to the lower half": """
def tree_sum(comm, mine):
    left = comm.size
    while left > 1:
        half = (left + 1) // 2
        if comm.rank >= half:
            comm.send(mine, dest=comm.rank - half, tag=left)
            return mine
        if comm.rank + half < left:
            mine = mine + comm.recv(source=comm.rank + half, tag=left)
        left = half
    return mine
""",
    "a recursive function, nonblocking": """
def part(comm, first, last, mine):
    if last - first == 1:
        return mine
    middle = (first + last + 1) // 2
    if comm.rank < middle:
        mine = part(comm, first, middle, mine)
        if comm.rank == first:
            there = np.zeros(1)
            comm.Irecv(there, source=middle).Wait()
            mine += there[0]
    else:
        mine = part(comm, middle, last, mine)
        if comm.rank == middle:
            comm.Isend(np.array([mine]), dest=first).Wait()
    return mine


def tree_sum(comm, mine):
    return part(comm, 0, comm.size, mine)
""",
}

WRONG = {
    "all send to rank 0": (
        "takes as few rounds as a tree",
        "it takes 3 rounds on 4 ranks, and 2 are enough",
        """
def tree_sum(comm, mine):
    if comm.rank > 0:
        comm.Send(np.array([mine]), dest=0)
        return None
    other = np.zeros(1)
    for source in range(1, comm.size):
        comm.Recv(other, source=source)
        mine += other[0]
    return mine
""",
    ),
    "from the last rank down to rank 0": (
        "takes as few rounds as a tree",
        "it takes 3 rounds on 4 ranks, and 2 are enough",
        """
def tree_sum(comm, mine):
    if comm.rank < comm.size - 1:
        mine += comm.recv(source=comm.rank + 1)
    if comm.rank > 0:
        comm.send(mine, dest=comm.rank - 1)
    return mine
""",
    ),
    "for powers of two only": (
        "runs without an error",
        "MPI_Recv from rank 3: no such rank",
        """
def tree_sum(comm, mine):
    total, other, distance = np.array([mine]), np.zeros(1), 1
    while distance < comm.size:
        if comm.rank % (2 * distance) == distance:
            comm.Send(total, dest=comm.rank - distance)
            return None
        comm.Recv(other, source=comm.rank + distance)
        total += other
        distance *= 2
    return total[0]
""",
    ),
    "goes on after it has sent": (
        "ends",
        "rank",
        """
def tree_sum(comm, mine):
    total, other, distance = np.array([mine]), np.zeros(1), 1
    while distance < comm.size:
        if comm.rank % (2 * distance) == distance:
            comm.Send(total, dest=comm.rank - distance)
        elif comm.rank + distance < comm.size:
            comm.Recv(other, source=comm.rank + distance)
            total += other
        distance *= 2
    return total[0]
""",
    ),
    "sends its own number, not its sum": (
        "gives the right values on every rank",
        "rank 0: it returned",
        """
def tree_sum(comm, mine):
    total, distance = mine, 1
    while distance < comm.size:
        if comm.rank % (2 * distance) == distance:
            comm.send(mine, dest=comm.rank - distance)
            return None
        if comm.rank + distance < comm.size:
            total += comm.recv(source=comm.rank + distance)
        distance *= 2
    return total
""",
    ),
    "partners exchange": (
        "sends what is asked for",
        "rank 0 sent 2 messages of 8 B, 8 B to others, and should send 0",
        """
def tree_sum(comm, mine):
    total, other, distance = np.array([mine]), np.zeros(1), 1
    while distance < comm.size:
        partner = comm.rank ^ distance
        if partner < comm.size:
            comm.Sendrecv(total, partner, recvbuf=other, source=partner)
            total += other
        distance *= 2
    return total[0]
""",
    ),
    "a collective": (
        "does without what this exercise rules out",
        "Reduce",
        """
def tree_sum(comm, mine):
    total = np.zeros(1)
    comm.Reduce(np.array([mine]), total, root=0)
    return total[0]
""",
    ),
}
