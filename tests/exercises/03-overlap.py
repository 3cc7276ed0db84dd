"""Solutions of 03-overlap: right ones in several styles, and wrong ones as students write them."""

OVERLAP = "computes while the messages are under way"
VALUES = "gives the right values on every rank"

RIGHT = {
    "start both, work, wait for both": """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    requests = [comm.Irecv(received, source=left), comm.Isend(mine, dest=right)]
    work()
    MPI.Request.Waitall(requests)
    return received
""",
    "Issend first, a wait each, one rank apart": """
def shift_while_working(comm, mine, work):
    if comm.size == 1:
        work()
        return mine.copy()
    theirs = np.zeros(mine.size)
    sending = comm.Issend([mine, MPI.DOUBLE], (comm.rank + 1) % comm.size, tag=2)
    receiving = comm.Irecv([theirs, MPI.DOUBLE], MPI.ANY_SOURCE, tag=2)
    work()
    receiving.Wait()
    sending.Wait()
    return theirs
""",
    "tests in a loop after the work": """
def shift_while_working(comm, mine, work):
    n, p = len(mine), comm.size
    both = np.empty(2 * n)
    both[:n] = mine
    requests = [comm.Irecv(both[n:], source=(comm.rank + p - 1) % p)]
    requests.append(comm.Isend(both[:n], dest=(comm.rank + 1) % p))
    work()
    while not MPI.Request.Testall(requests):
        pass
    return both[n:]
""",
}

WRONG = {
    "waits before the work": (
        OVERLAP,
        "was called before work()",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    requests = [comm.Irecv(received, source=left), comm.Isend(mine, dest=right)]
    MPI.Request.Waitall(requests)
    work()
    return received
""",
    ),
    "works before it starts": (
        OVERLAP,
        "began after work()",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    work()
    requests = [comm.Irecv(received, source=left), comm.Isend(mine, dest=right)]
    MPI.Request.Waitall(requests)
    return received
""",
    ),
    "the work between the two starts": (
        OVERLAP,
        "MPI_Isend began after work()",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    receiving = comm.Irecv(received, source=left)
    work()
    sending = comm.Isend(mine, dest=right)
    receiving.Wait()
    sending.Wait()
    return received
""",
    ),
    "by Sendrecv, and then works": (
        OVERLAP,
        "there is no nonblocking receive",
        """
def shift_while_working(comm, mine, work):
    received = np.empty_like(mine)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(mine, right, recvbuf=received, source=left)
    work()
    return received
""",
    ),
    "a send that blocks": (
        OVERLAP,
        "there is no nonblocking send",
        """
def shift_while_working(comm, mine, work):
    received = np.empty_like(mine)
    receiving = comm.Irecv(received, source=(comm.rank - 1) % comm.size)
    comm.Send(mine, dest=(comm.rank + 1) % comm.size)
    work()
    receiving.Wait()
    return received
""",
    ),
    "does not work": (
        OVERLAP,
        "work() was called 0 times, and should be once",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    requests = [comm.Irecv(received, source=left), comm.Isend(mine, dest=right)]
    MPI.Request.Waitall(requests)
    return received
""",
    ),
    "one rank alone does not work": (
        OVERLAP,
        "on 1 rank",
        """
def shift_while_working(comm, mine, work):
    if comm.size == 1:
        return mine
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    requests = [comm.Irecv(received, source=left), comm.Isend(mine, dest=right)]
    work()
    MPI.Request.Waitall(requests)
    return received
""",
    ),
    "does not wait for its send": (
        "completes what it starts",
        "begun and never waited for",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    receiving = comm.Irecv(received, source=left)
    sending = comm.Isend(mine, dest=right)
    work()
    receiving.Wait()
    return received
""",
    ),
    "takes a copy before the message is there": (
        VALUES,
        "elements; the first is",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.full_like(mine, -1.0)
    requests = [comm.Irecv(received, source=left), comm.Isend(mine, dest=right)]
    result = received.copy()
    work()
    MPI.Request.Waitall(requests)
    return result
""",
    ),
    "receives into what it sends": (
        "leaves an array alone while it is being sent",
        "written to between the start of its send and the end of it",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    requests = [comm.Isend(mine, dest=right), comm.Irecv(mine, source=left)]
    work()
    MPI.Request.Waitall(requests)
    return mine
""",
    ),
    "clears its array while it is being sent": (
        "leaves an array alone while it is being sent",
        "written to between the start of its send and the end of it",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    received = np.empty_like(mine)
    requests = [comm.Irecv(received, source=left), comm.Isend(mine, dest=right)]
    work()
    mine[:] = 0.0
    MPI.Request.Waitall(requests)
    return received
""",
    ),
    "sends objects": (
        "sends what is asked for",
        "its own array, once",
        """
def shift_while_working(comm, mine, work):
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    receiving = comm.irecv(2**20, source=left)
    sending = comm.isend(mine, dest=right)
    work()
    received = receiving.wait()
    sending.wait()
    return received
""",
    ),
}
