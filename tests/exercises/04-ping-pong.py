"""Solutions of 04-ping-pong: right ones in several styles, and wrong ones as students write
them."""

RIGHT = {
    "blocking, a half for each rank": """
def ping_pong(comm, ball, trips):
    if comm.size == 1:
        return ball
    for _ in range(trips):
        if comm.rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
            ball += 1
        elif comm.rank == 1:
            comm.Recv(ball, source=0)
            ball += 1
            comm.Send(ball, dest=0)
    return ball
""",
    "nonblocking, two arrays, a tag a trip": """
def ping_pong(comm, ball, trips):
    rank, size = comm.Get_rank(), comm.Get_size()
    if size < 2 or rank > 1:
        return ball
    other = 1 - rank
    mine, theirs = ball.copy(), np.empty_like(ball)
    for trip in range(trips):
        receiving = comm.Irecv(theirs, source=other, tag=trip)
        if rank == 0:
            comm.Isend(mine, dest=other, tag=trip).Wait()
        receiving.Wait()
        mine = theirs + 1
        if rank == 1:
            sending = comm.Isend(mine, dest=other, tag=trip)
            sending.Wait()
    return mine
""",
    "one exchange for the inner throws: first a throw, then catch and throw": """
def ping_pong(comm, ball, trips):
    if comm.rank > 1 or comm.size == 1:
        return ball
    held = np.array(ball)

    def catch():
        comm.Recv([held, MPI.DOUBLE], source=MPI.ANY_SOURCE)
        held[:] = [number + 1 for number in held]

    thrown = 0
    if comm.rank == 0:
        comm.Ssend([held, MPI.DOUBLE], 1)
        thrown = 1
    while thrown < trips:
        catch()
        comm.Ssend([held, MPI.DOUBLE], 1 - comm.rank)
        thrown += 1
    if comm.rank == 0:
        catch()
    return held.tolist()
""",
}

WRONG = {
    "everyone but rank 0 plays rank 1: right on 2 ranks only": (
        "ends",
        "rank 2: MPI_Recv from rank 0",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1:
        return ball
    for _ in range(trips):
        if comm.rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
            ball += 1
        else:
            comm.Recv(ball, source=0)
            ball += 1
            comm.Send(ball, dest=0)
    return ball
""",
    ),
    "both receive first": (
        "ends",
        "rank 0: MPI_Recv from rank 1",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1 or comm.rank > 1:
        return ball
    for _ in range(trips):
        comm.Recv(ball, source=1 - comm.rank)
        ball += 1
        comm.Send(ball, dest=1 - comm.rank)
    return ball
""",
    ),
    "rank 0 does not add": (
        "gives the right values on every rank",
        "rank 0: what it returned is wrong in",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1:
        return ball
    for _ in range(trips):
        if comm.rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
        elif comm.rank == 1:
            comm.Recv(ball, source=0)
            ball += 1
            comm.Send(ball, dest=0)
    return ball
""",
    ),
    "adds before each throw, not after each catch": (
        "gives the right values on every rank",
        "rank 1: what it returned is wrong in",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1:
        return ball
    for _ in range(trips):
        if comm.rank == 0:
            ball += 1
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
        elif comm.rank == 1:
            comm.Recv(ball, source=0)
            ball += 1
            comm.Send(ball, dest=0)
    return ball
""",
    ),
    "throws a new ball each time: what came back is put aside": (
        "gives the right values on every rank",
        "rank 0: what it returned is wrong in",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1:
        return ball
    got = np.empty_like(ball)
    for _ in range(trips):
        if comm.rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(got, source=1)
            got += 1
        elif comm.rank == 1:
            comm.Recv(got, source=0)
            got += 1
            comm.Send(got, dest=0)
    return got if comm.rank < 2 else ball
""",
    ),
    "the send is not waited for": (
        "completes what it starts",
        "never waited for",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1:
        return ball
    for _ in range(trips):
        if comm.rank == 0:
            comm.Isend(ball, dest=1)
            comm.Recv(ball, source=1)
            ball += 1
        elif comm.rank == 1:
            comm.Recv(ball, source=0)
            ball += 1
            comm.Isend(ball, dest=0)
    return ball
""",
    ),
    "adds to the ball while it is on its way": (
        "leaves an array alone while it is being sent",
        "written to between the start",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1 or comm.rank > 1:
        return ball
    sending = MPI.REQUEST_NULL
    for trip in range(trips):
        if comm.rank == 0:
            sending = comm.Isend(ball, dest=1)
        comm.Recv(ball, source=1 - comm.rank)
        ball += 1
        sending.Wait()
        if comm.rank == 1:
            comm.Send(ball, dest=0)
    return ball
""",
    ),
    "the last ball is never caught": (
        "completes what it starts",
        "rank 1: 1 operation was begun and never waited for",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1 or comm.rank > 1:
        return ball
    thrown = comm.rank == 0
    sending = []
    for _ in range(trips):
        if comm.rank == 0:
            sending.append(comm.Isend(ball.copy(), dest=1))
            if len(sending) < trips:
                comm.Recv(ball, source=1)
                ball += 1
        else:
            comm.Recv(ball, source=0)
            ball += 1
            sending.append(comm.Isend(ball.copy(), dest=0))
    if comm.rank == 0:
        MPI.Request.Waitall(sending)
    else:
        MPI.Request.Waitall(sending[:-1])
        sending[-1].Free()
    return ball + 1 if comm.rank == 0 else ball
""",
    ),
    "forgets that there may be one rank": (
        "runs without an error",
        "of your cell: comm.Send(ball, dest=1)",
        """
def ping_pong(comm, ball, trips):
    for _ in range(trips):
        if comm.rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
            ball += 1
        elif comm.rank == 1:
            comm.Recv(ball, source=0)
            ball += 1
            comm.Send(ball, dest=0)
    return ball
""",
    ),
    "the notebook's rank in place of the communicator's": (
        "runs without an error",
        "name 'rank' is not defined",
        """
def ping_pong(comm, ball, trips):
    for _ in range(trips):
        if rank == 0:
            comm.Send(ball, dest=1)
            comm.Recv(ball, source=1)
            ball += 1
        elif rank == 1:
            comm.Recv(ball, source=0)
            ball += 1
            comm.Send(ball, dest=0)
    return ball
""",
    ),
    "pickled": (
        "sends what is asked for",
        "the ball, once a trip",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1:
        return ball
    for _ in range(trips):
        if comm.rank == 0:
            comm.send(ball, dest=1)
            ball = comm.recv(source=1) + 1
        elif comm.rank == 1:
            ball = comm.recv(source=0) + 1
            comm.send(ball, dest=0)
    return ball
""",
    ),
    "calculates what the ball will be, and throws nothing": (
        "sends what is asked for",
        "sent no message to others",
        """
def ping_pong(comm, ball, trips):
    if comm.size == 1 or comm.rank > 1:
        return ball
    return ball + 2 * trips - comm.rank
""",
    ),
}
