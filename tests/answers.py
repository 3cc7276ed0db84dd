"""Answers to the lessons' checks as students write them, each with how the check's verdict begins.

An answer that gets stuck ends in the error that the reader sees: its name stands for it.
"""

from typing import NamedTuple


class Check(NamedTuple):
    """A check of a lesson: the cells that it needs, by their ids, the call, and the answers."""

    lesson: str
    cells: tuple[str, ...]
    call: str
    answers: dict[str, str]


def bodies(head: str, answers: dict[str, str]) -> dict[str, str]:
    """Functions with this head, from their bodies."""
    indented = {body: "\n".join("    " + line for line in body.splitlines()) for body in answers}
    return {f"{head}\n{indented[body]}": said for body, said in answers.items()}


STUCK = "Deadlock"
FAILED = "RankErrors"

# --- 00 ----------------------------------------------------------------------------------------

CARD = bodies(
    "def given(card):",
    {
        "if rank == 0:\n    comm.send(card, dest=3)\nreturn card": "not yet: rank 3 returns",
        "if rank == 3:\n    return comm.recv(source=0)\nreturn card": STUCK,
        "if rank == 0:\n    comm.send(card, dest=3)\n"
        "if rank == 3:\n    comm.recv(source=0)\nreturn card": "not yet: rank 3 returns",
        "if rank == 0:\n    comm.send(card, dest=3)\n"
        "if rank == 3:\n    return comm.recv(source=1)\nreturn card": STUCK,
        "if rank == 0:\n    comm.send(card, dest=3)\n"
        "if rank == 3:\n    card = comm.recv(source=0)\n    comm.recv(source=0)\n"
        "return card": STUCK,
        "if rank == 0:\n    comm.send(card, dest=3)\n    comm.send(card, dest=3)\n"
        "if rank == 3:\n    return comm.recv(source=0)\nreturn card": "not yet: 2 messages",
        "if rank == 0:\n    comm.send(card['squares'], dest=3)\n"
        "if rank == 3:\n    return comm.recv(source=0)\nreturn card": "not yet: rank 3 returns",
        "if rank == 3:\n    return {'from': 0, 'squares': [1, 4, 9]}\n"
        "return card": "not yet: 0 messages",
        "if rank == 0:\n    comm.send(card, dest=3)\n"
        "if rank == 3:\n    return comm.recv(source=0)": "not yet: rank 0 returns None",
        "comm.send(card, dest=3)\nif rank == 3:\n    return comm.recv()\nreturn card": "not yet: ",
        "return comm.bcast(card, root=0)": "not yet: rank 1 returns",
        "if rank == 0:\n    comm.isend(card, dest=3).wait()\n"
        "return comm.recv() if rank == 3 else card": "right",
    },
)
TOKEN = bodies(
    "def passed_down():\n    token = np.zeros(1)",
    {
        "return 6.0 - rank * (rank - 1) / 2": "not yet: 0 messages",
        "return float(token[0])": "not yet: ranks 0 to 3 return [0.0",
        "comm.Recv(token, source=rank + 1)\ntoken += rank\n"
        "comm.Send(token, dest=rank - 1)\nreturn float(token[0])": STUCK,
        "if rank < size - 1:\n    comm.Recv(token, source=rank + 1)\ntoken += rank\n"
        "comm.Send(token, dest=rank - 1)\nreturn float(token[0])": (
            "not yet: rank 0 sends to no rank|RankErrors"
        ),
        "if rank < size - 1:\n    comm.Recv(token, source=rank + 1)\n"
        "if rank > 0:\n    comm.Send(token, dest=rank - 1)\ntoken += rank\n"
        "return float(token[0])": "not yet: ranks 0 to 3 return [0.0",
        "if rank > 0:\n    comm.Recv(token, source=rank - 1)\ntoken += rank\n"
        "if rank < size - 1:\n    comm.Send(token, dest=rank + 1)\n"
        "return float(token[0])": "not yet: ranks 0 to 3 return [0.0, 1.0, 3.0, 6.0]",
        "comm.Recv(token, source=(rank + 1) % size)\ntoken += rank\n"
        "comm.Send(token, dest=(rank - 1) % size)\nreturn float(token[0])": STUCK,
        "if rank < size - 1:\n    comm.Recv(token, source=rank + 1)\ntoken += rank\n"
        "comm.Send(token, dest=(rank - 1) % size)\n"
        "return float(token[0])": "not yet: rank 0 sends to rank 3",
        "token += rank\nif rank > 0:\n    comm.Send(token, dest=rank - 1)\n"
        "if rank < size - 1:\n    comm.Recv(token, source=rank + 1)\n"
        "return float(token[0])": "not yet: ranks 0 to 3 return [1.0",
        "if rank < size - 1:\n    comm.Recv(token, source=rank + 1)\ntoken += rank\n"
        "return float(token[0])": STUCK,
        "return comm.allreduce(float(rank))": "not yet: ranks 0 to 3 return [6.0, 6.0, 6.0",
        "if rank < 3:\n    token[0] = comm.recv(source=rank + 1)\ntoken += rank\n"
        "if rank:\n    comm.send(token[0], dest=rank - 1)\nreturn float(token[0])": "right",
    },
)

# --- 01 ----------------------------------------------------------------------------------------

SQUARES = bodies(
    "def collected():\n"
    "    squares, one, status = np.zeros(size), np.zeros(1), MPI.Status()\n"
    "    if rank > 0:\n"
    "        comm.Send(np.full(1, float(rank**2)), dest=0)\n"
    "        return squares",
    {
        "return squares": "mixed up: [0.0, 0.0",
        "for r in range(1, size):\n    comm.Recv(squares[r : r + 1], source=r)\n"
        "return squares": "not yet: rank 0 does not take",
        "for r in range(1, size):\n    comm.Recv(squares[r : r + 1])\n"
        "return squares": "mixed up: [0.0, 4.0, 9.0, 1.0]",
        "for _ in range(size):\n    comm.Recv(one, status=status)\n"
        "    squares[status.Get_source()] = one[0]\nreturn squares": STUCK,
        "for _ in range(2):\n    comm.Recv(one, status=status)\n"
        "    squares[status.Get_source()] = one[0]\nreturn squares": "mixed up: [0.0, 0.0",
        "for _ in range(3):\n    comm.Recv(one, status=status)\n"
        "    squares[status.Get_tag()] = one[0]\nreturn squares": "mixed up: [1.0",
        "for _ in range(3):\n    comm.Recv(one, status=status)\n"
        "    squares[status.Get_source() - 1] = one[0]\nreturn squares": "mixed up: [1.0",
        "for _ in range(3):\n    comm.Recv(one)\n"
        "    squares[status.Get_source()] = one[0]\nreturn squares": "mixed up: [0.0, 0.0",
        "for r in range(1, size):\n    comm.Recv(one, status=status)\n"
        "    squares[status.Get_source()] = r**2\nreturn squares": "mixed up: [0.0, 9.0",
        "for _ in range(3):\n    comm.Recv(one, status=status)\n"
        "    squares[status.source] = one[0]\nreturn squares": "right",
    },
)
SQUARES |= {
    "def collected():\n    return np.arange(4.0) ** 2": "not yet: ranks 1 to 3 have not sent",
    "def collected():\n    return np.array(comm.gather(float(rank**2)))": "not yet: ranks 1 to 3",
}
MENDED = bodies(
    "def mended(doubles):\n"
    "    mine = rank * 1000.0 + np.arange(doubles) % 1000\n"
    "    received = np.full(doubles, -1.0)\n"
    "    right, left = (rank + 1) % size, (rank - 1) % size",
    {
        "return left * 1000.0 + np.arange(doubles) % 1000": "not yet: no message was sent",
        "comm.Recv(received, left)\ncomm.Send(mine, right)\nreturn received": STUCK,
        "comm.Send(mine, right)\ncomm.Recv(received, left)\nreturn received": STUCK,
        "comm.Sendrecv(mine, left, recvbuf=received, source=right)\n"
        "return received": "not yet: rank 0 has not returned",
        "comm.Sendrecv(mine, right, recvbuf=received, source=left)\n"
        "return mine": "not yet: rank 0 has not returned",
        "comm.Sendrecv(mine, right, recvbuf=received, source=right)\nreturn received": STUCK,
        "comm.Sendrecv(mine[:9], right, recvbuf=received, source=left)\n"
        "return received": "not yet: rank 0 has not returned",
        "comm.Sendrecv(mine, right, 1, recvbuf=received, source=left, recvtag=2)\n"
        "return received": STUCK,
        "if rank == 0:\n    comm.Recv(received, left)\n    comm.Send(mine, right)\n"
        "else:\n    comm.Recv(received, left)\n    comm.Send(mine, right)\nreturn received": STUCK,
        "comm.Sendrecv(mine, right, recvbuf=received, source=left)": "not yet: rank 0 has not",
        "if rank == 0:\n    comm.Recv(received, left)\n    comm.Send(mine, right)\n"
        "else:\n    comm.Send(mine, right)\n    comm.Recv(received, left)\n"
        "return received": "right",
    },
)

# --- 02 ----------------------------------------------------------------------------------------

SENDRECV = bodies(
    "def sendrecv(ring):\n    right, left = begin(ring)",
    {
        "return 1000.0 * left + 1": "not yet: rank 0 has 5001.0 second and -1.0 last",
        "received[:] = 1000.0 * left + np.arange(2_000_000) % 1000\n"
        "return float(received[1])": "not yet: the calls are []",
        "ring.Sendrecv(mine, left, recvbuf=received, source=right)\n"
        "return float(received[1])": "not yet: rank 0 has 1001.0",
        "ring.Sendrecv(mine[:2], right, recvbuf=received, source=left)\n"
        "return float(received[1])": "not yet: rank 0 has 5001.0 second and -1.0 last",
        "ring.Sendrecv(mine, right, recvbuf=mine, source=left)\n"
        "return float(received[1])": "not yet: rank 0 has -1.0",
        "ring.Sendrecv(received, right, recvbuf=received.copy(), source=left)\n"
        "return float(received[1])": "not yet: rank 0 has -1.0",
        "ring.Sendrecv(mine, right, recvbuf=received, source=right)\n"
        "return float(received[1])": STUCK,
        "ring.Sendrecv(mine, right, recvbuf=received, source=left)\n"
        "return float(received[0])": "not yet: rank 0 has 5000.0",
        "if ring.rank % 2:\n    ring.Recv(received, left)\n    ring.Send(mine, right)\n"
        "else:\n    ring.Send(mine, right)\n    ring.Recv(received, left)\n"
        "return float(received[1])": "not yet: the calls are",
        "ring.Sendrecv(mine, right, recvbuf=received, source=left)": "not yet: rank 0 has None",
        "ring.Sendrecv(mine, right, 3, received, left)\nreturn float(received[1])": "right",
    },
)
LINE = bodies(
    "def line():\n    begin(comm)",
    {
        "return 1000.0 * (rank - 1) + 1": "not yet: not by Send and Recv alone",
        "if rank < 5:\n    comm.Send(mine, rank + 1)\nif rank > 0:\n"
        "    comm.Recv(received, rank - 1)\nreturn float(received[1])": (
            "not yet: the right numbers, but too slow"
        ),
        "if rank > 0:\n    comm.Recv(received, rank - 1)\nif rank < 5:\n"
        "    comm.Send(mine, rank + 1)\nreturn float(received[1])": (
            "not yet: the right numbers, but too slow"
        ),
        "comm.Sendrecv(mine, rank + 1 if rank < 5 else MPI.PROC_NULL, recvbuf=received,\n"
        "    source=rank - 1 if rank else MPI.PROC_NULL)\n"
        "return float(received[1])": "not yet: not by Send and Recv alone",
        "requests = [comm.Isend(mine, rank + 1)] if rank < 5 else []\n"
        "if rank > 0:\n    comm.Recv(received, rank - 1)\nMPI.Request.Waitall(requests)\n"
        "return float(received[1])": "not yet: not by Send and Recv alone",
        "comm.Send(mine, (rank + 1) % size)\ncomm.Recv(received, (rank - 1) % size)\n"
        "return float(received[1])": STUCK,
        "if rank % 2 == 0 and rank < 5:\n    comm.Send(mine, rank + 1)\n"
        "if rank % 2:\n    comm.Recv(received, rank - 1)\n"
        "return float(received[1])": "not yet: ranks 1 to 5 have [1.0, -1.0",
        "if rank > 0:\n    comm.Recv(received, rank - 1)\nif rank < 5:\n"
        "    comm.Send(received, rank + 1)\nreturn float(received[1])": "not yet: ranks 1 to 5",
        "if rank > 0:\n    comm.Recv(received, rank - 1)\nreturn float(received[1])": STUCK,
        "if rank % 2 == 0:\n    comm.Send(mine, rank + 1)\n"
        "    comm.Recv(received, rank - 1)\nelse:\n    comm.Recv(received, rank - 1)\n"
        "    comm.Send(mine, rank + 1)\nreturn float(received[1])": STUCK,
        "for turn in (1, 0):\n    if rank % 2 == turn and rank < 5:\n"
        "        comm.Send(mine, rank + 1)\n    if rank % 2 != turn and rank > 0:\n"
        "        comm.Recv(received, rank - 1)\nreturn float(received[1])": "right",
    },
)

# --- 03 ----------------------------------------------------------------------------------------

STARTED = "requests = [comm.Irecv(theirs, source=left), comm.Isend(few, dest=right)]\n"
MEAN = bodies(
    "def mean_of_left():\n    theirs.fill(-1.0)",
    {
        STARTED + "requests[0].Wait()\n"
        "return float(theirs.mean()), requests": "not yet: rank 0 has not waited for its send",
        STARTED + "requests[1].Wait()\nresult = float(theirs.mean())\nrequests[0].Wait()\n"
        "return result, requests": "not yet: rank 0 has -1.0",
        STARTED + "result = float(theirs.mean())\nMPI.Request.Waitall(requests)\n"
        "return result, requests": "not yet: rank 0 has -1.0",
        STARTED + "return float(theirs.mean()), requests": "not yet: rank 0 has -1.0",
        "return left * 1000.0 + 49.5, []": "not yet: rank 0 returns 0 requests",
        "return left * 1000.0 + 49.5, [MPI.REQUEST_NULL] * 2": "not yet: no message was sent",
        STARTED + "MPI.Request.Waitall(requests)\n"
        "return float(few.mean()), requests": "not yet: rank 0 has 49.5",
        STARTED + "MPI.Request.Waitall(requests)\n"
        "return float(theirs[:50].mean()), requests": "not yet: rank 0 has 1024.5",
        STARTED + "MPI.Request.Waitall(requests)\n"
        "return float(theirs.mean()), requests[:1]": "not yet: rank 0 returns 1 requests",
        STARTED + "requests[0].Test()\n"
        "return float(theirs.mean()), requests": "not yet: rank 0 has -1.0",
        "comm.Recv(theirs, source=left)\ncomm.Send(few, dest=right)\n"
        "return float(theirs.mean()), []": STUCK,
        STARTED + "requests[0].Wait()\nresult = float(theirs.mean())\nrequests[1].Wait()\n"
        "return result, requests": "right",
    },
)

# --- 04 ----------------------------------------------------------------------------------------

ZERO = "if rank == 0:\n    comm.Send(ball, dest=1)\n    comm.Recv(ball, source=1)\n"
TRIP = bodies(
    "def round_trip(ball):",
    {
        "ball[:] = 0": "not yet: 0 sent and 0 received",
        ZERO + "else:\n    comm.Recv(ball, source=0)": "not yet",
        ZERO + "else:\n    comm.Send(ball, dest=0)": "not yet: rank 0 has [1.",
        ZERO + "else:\n    comm.Send(ball, dest=0)\n"
        "    comm.Recv(ball, source=0)": "not yet: rank 0 has [1.",
        ZERO + "else:\n    comm.Recv(ball, source=0)\n"
        "    comm.Send(ball + 1, dest=0)": "not yet: rank 0 has",
        ZERO + "else:\n    new = np.empty(4)\n    comm.Recv(new, source=0)\n"
        "    comm.Send(new, dest=0)": "not yet: rank 1 has [1.",
        ZERO + "else:\n    comm.Recv(ball, source=1)\n    comm.Send(ball, dest=0)": "not yet",
        ZERO + "else:\n    comm.Recv(ball, source=0)\n    comm.Send(ball, dest=1)": "not yet",
        ZERO
        + "else:\n    comm.Recv(ball, source=0, tag=1)\n    comm.Send(ball, dest=0)": "not yet",
        "comm.Bcast(ball, root=0)": "not yet: 0 sent and 0 received",
        ZERO
        + "else:\n    ball[:] = 0\n    comm.Send(ball, dest=0)": "not yet: 6 sent and 3 received",
        ZERO + "elif rank == 1:\n    comm.Recv(ball, 0)\n    comm.Send(ball, 0)": "right",
    },
)
STREAM = """def stream(balls):
    one = np.zeros(1)
    for ball in range({sent}):
        if rank == 0:
            comm.Send(one, dest=1, tag=ball)
        elif rank == 1:
            comm.Recv(one, source=0, tag=ball)
    if rank == 0:
        {answered}
    elif rank == 1:
        comm.Send(one, dest=0)"""
ONE_BY_ONE = """def stream(balls):
    one = np.zeros(1)
    for ball in range(balls):
        if rank == 0:
            {sends}
            comm.Recv(one, source=1)
        elif rank == 1:
            comm.Recv(one, source=0)
            comm.Send(one, dest=0)"""
BALLS = {
    STREAM.format(sent=1, answered="comm.Recv(one, source=1)"): "not yet: rank 0 sent 1 balls,",
    STREAM.format(sent=19, answered="comm.Recv(one, source=1)"): "not yet: rank 0 sent 19 balls,",
    STREAM.format(sent="balls + 1", answered="comm.Recv(one, source=1)"): (
        "not yet: rank 0 sent 21 balls,"
    ),
    STREAM.format(sent="balls", answered="comm.Irecv(one, source=1)"): (
        "not yet: rank 0 sent 20 balls, and waited for 0."
    ),
    STREAM.format(sent="balls", answered="pass"): "not yet: rank 0 sent 20 balls, and waited",
    STREAM.format(sent="balls", answered="comm.Recv(one, source=1, tag=1)"): STUCK,
    STREAM.format(sent="balls", answered="comm.Recv(one, source=0)"): STUCK,
    ONE_BY_ONE.format(sends="comm.Send(one, dest=1)"): "not yet: too many waits",
    ONE_BY_ONE.format(sends="comm.Ssend(one, dest=1)"): "not yet: too many waits",
    ONE_BY_ONE.format(sends="comm.Isend(one, dest=1).Wait()"): "not yet: too many waits",
    "def stream(balls):\n    pass": "not yet: rank 0 sent 0 balls",
}

# --- 05 ----------------------------------------------------------------------------------------

TIMES = {
    f"seconds, got = shift(1_000_000)\n{answer}": said
    for answer, said in {
        "mean = slowest = None": "not yet: mean is None",
        "mean = slowest = seconds": "not yet: mean is ",
        "mean = comm.reduce(seconds, MPI.SUM)\nslowest = comm.reduce(seconds, MPI.MAX)": (
            "not yet: mean is "
        ),
        "mean = comm.reduce(seconds / size, MPI.SUM)\nslowest = None": "not yet: slowest is None",
        "mean = comm.reduce(seconds / size, MPI.SUM)\nslowest = comm.reduce(seconds, MPI.MIN)": (
            "not yet: slowest is "
        ),
        "mean = comm.reduce(seconds, MPI.MAX)\nslowest = comm.reduce(seconds / size, MPI.SUM)": (
            "not yet: mean is "
        ),
        "mean = comm.reduce(seconds / size, MPI.SUM, root=1)\n"
        "slowest = comm.reduce(seconds, MPI.MAX, root=1)": "not yet: mean is None",
        "mean = comm.reduce(seconds / 4, MPI.SUM)\nslowest = comm.reduce(seconds, MPI.MAX)": (
            "not yet: mean is "
        ),
        "mean = comm.reduce(round(seconds, 3) / size, MPI.SUM)\n"
        "slowest = comm.reduce(seconds, MPI.MAX)": "not yet: mean is ",
        "mean = comm.bcast(seconds)\nslowest = comm.reduce(seconds, MPI.MAX)": "not yet: mean is ",
        "mean = comm.allreduce(seconds) / size\n"
        "slowest = comm.allreduce(seconds, MPI.MAX)": "right",
    }.items()
}
SHIFT = bodies(
    "def shifted_by(k):\n    received = np.zeros(1)\n    mine = np.full(1, float(rank))",
    {
        "return (rank - k) % size": "not yet: no message was sent",
        "return int(received[0])": "not yet: for k = 1 rank 0 has 0, not 7",
        "comm.Sendrecv(mine, (rank + 1) % size, recvbuf=received, source=(rank - 1) % size)\n"
        "return int(received[0])": "not yet: for k = 3 rank 0 has 7, not 5",
        "comm.Sendrecv(mine, (rank - k) % size, recvbuf=received, source=(rank + k) % size)\n"
        "return int(received[0])": "not yet: for k = 1 rank 0 has 1, not 7",
        "comm.Sendrecv(mine, rank + k, recvbuf=received, source=rank - k)\n"
        "return int(received[0])": STUCK,
        "comm.Sendrecv(mine, (rank + k) % size, recvbuf=received, source=(rank + k) % size)\n"
        "return int(received[0])": STUCK,
        "comm.Send(mine, (rank + k) % size)\ncomm.Recv(received, (rank - k) % size)\n"
        "return int(received[0])": STUCK,
        "comm.Sendrecv(mine, (rank + abs(k)) % size, recvbuf=received,\n"
        "    source=(rank - abs(k)) % size)\n"
        "return int(received[0])": "not yet: for k = -2 rank 0 has 6, not 2",
        "for _ in range(k):\n    comm.Sendrecv(mine, (rank + 1) % size, recvbuf=received,\n"
        "        source=(rank - 1) % size)\n    mine[:] = received\n"
        "return int(received[0])": "not yet: for k = -2",
        "comm.Sendrecv(mine, (rank + k) % size, k, received, (rank - k) % size, k)\n"
        "return int(received[0])": FAILED,
        "return (comm.alltoall([rank] * size))[(rank - k) % size]": "right",
    },
)

# --- 06 ----------------------------------------------------------------------------------------

FACES = """def all_at_once():
    incoming = np.full_like(outgoing, -1.0)
    requests = []
    for dimension, (low, high) in enumerate(neighbours):
        down, up = 2 * dimension, 2 * dimension + 1
        requests += [cart.Irecv(incoming[{to[0]}], low, {take[0]})]
        requests += [cart.Irecv(incoming[{to[1]}], high, {take[1]})]
        requests += [cart.Isend(outgoing[down], low, {send[0]})]
        requests += [cart.Isend(outgoing[up], high, {send[1]})]
    {end}
    return incoming"""
WAITALL = "MPI.Request.Waitall(requests)"
RIGHT = {"to": ("down", "up"), "take": ("up", "down"), "send": ("down", "up"), "end": WAITALL}
FIRST = "not yet: rank 0 has "
AT_ONCE = {
    "def all_at_once():\n    return incoming": FIRST + "[-1.0, -1.0, -1.0, -1.0, -1.0, -1.0], not",
    FACES.format(**RIGHT | {"take": ("down", "up")}): FIRST + "[40.0, 41.0",
    FACES.format(**RIGHT | {"to": ("up", "down")}): FIRST + "[40.0, 41.0",
    FACES.format(**RIGHT | {"take": (0, 0), "send": (0, 0)}): FIRST + "[40.0, 41.0",
    FACES.format(**RIGHT | {"send": ("up", "down")}): FIRST + "[40.0, 41.0",
    FACES.format(**RIGHT | {"end": "pass"}): "not yet: ",
    FACES.format(**RIGHT | {"end": "MPI.Request.Waitall(requests[::4])"}): "not yet: ",
    FACES.format(**RIGHT | {"end": "MPI.Request.Waitany(requests)"}): "not yet: ",
    FACES.format(**RIGHT | {"end": "requests[0].Wait()"}): "not yet: ",
    "def all_at_once():\n    came = np.full_like(outgoing, -1.0)\n"
    "    for d, pair in enumerate(neighbours):\n"
    "        came[2 * d], came[2 * d + 1] = 10.0 * pair[0] + 2 * d + 1, 10.0 * pair[1] + 2 * d\n"
    "    return came": "not yet: not six",
    "def all_at_once():\n    came = np.full_like(outgoing, -1.0)\n"
    "    for d, (low, high) in enumerate(neighbours):\n"
    "        cart.Sendrecv(outgoing[2 * d], low, 1, came[2 * d + 1], high, 1)\n"
    "        cart.Sendrecv(outgoing[2 * d + 1], high, 2, came[2 * d], low, 2)\n"
    "    return came": "not yet: not six",
    FACES.format(**RIGHT): "right",
}
SWAP = """def swapped(ring):
    left, right = (ring.rank - 1) % ring.size, (ring.rank + 1) % ring.size
    incoming = np.zeros((2, 1))
    requests = [
        ring.Irecv(incoming[{to[0]}], left, tag={take[0]}),
        ring.Irecv(incoming[{to[1]}], right, tag={take[1]}),
        ring.Isend(np.array([10.0 * ring.rank]), left, tag={send[0]}),
        ring.Isend(np.array([10.0 * ring.rank + 1]), right, tag={send[1]}),
    ]
    {end}
    return incoming[:, 0].tolist()"""
TAGS = {"to": (0, 1), "take": (1, 0), "send": (0, 1), "end": WAITALL}
ON_FOUR = "not yet: of 4 ranks, rank 0 has "
SWAPPED = {
    SWAP.format(**TAGS | {"take": (0, 0), "send": (0, 0)}): "not yet: of 2 ranks, rank 0 has [10.0",
    SWAP.format(**TAGS | {"take": (-1, -1)}): "not yet: of 2 ranks, rank 0 has [10.0",
    SWAP.format(**TAGS | {"take": (0, 1)}): STUCK,
    SWAP.format(**TAGS | {"take": (1, 1)}): STUCK,
    SWAP.format(**TAGS | {"to": (1, 0)}): ON_FOUR + "[10.0, 31.0]",
    SWAP.format(**TAGS | {"to": (0, 0)}): ON_FOUR,
    SWAP.format(**TAGS | {"take": (0, 1), "send": (1, 0), "to": (1, 0)}): ON_FOUR + "[10.0, 31.0]",
    SWAP.format(**TAGS | {"end": "pass"}): ON_FOUR + "[0.0, 0.0]",
    "def swapped(ring):\n    p = ring.size\n"
    "    return [10.0 * ((ring.rank - 1) % p) + 1, 10.0 * ((ring.rank + 1) % p)]": (
        "not yet: no message was sent"
    ),
    "def swapped(ring):\n    return [0.0, 0.0]": ON_FOUR + "[0.0, 0.0]",
    "def swapped(ring):\n    a = np.zeros((2, 1))\n"
    "    left, right = (ring.rank - 1) % ring.size, (ring.rank + 1) % ring.size\n"
    "    ring.Sendrecv(np.array([10.0 * ring.rank]), left, recvbuf=a[0], source=left)\n"
    "    ring.Sendrecv(np.array([10.0 * ring.rank + 1]), right, recvbuf=a[1], source=right)\n"
    "    return a[:, 0].tolist()": STUCK,
    SWAP.format(**TAGS): "right",
}

# --- 07 ----------------------------------------------------------------------------------------

COLUMN = bodies(
    "def one_column():",
    {
        "return MPI.DOUBLE.Create_vector(8, 1, 8)": "not yet: row 0 is [0.0, -1.0",
        "return MPI.DOUBLE.Create_contiguous(8)": "not yet: row 0 is [0.0, 1.0",
        "return MPI.DOUBLE.Create_vector(8, 1, 8).Create_resized(0, 1)": "not yet: row ",
        "return MPI.DOUBLE.Create_vector(8, 1, 8).Create_resized(0, 16)": "not yet: row ",
        "return MPI.DOUBLE.Create_vector(8, 1, 8).Create_resized(0, 64)": "not yet: row ",
        "return MPI.DOUBLE.Create_vector(8, 1, 8).Create_resized(0, 56)": "not yet: row ",
        "return MPI.DOUBLE.Create_vector(8, 1, 7).Create_resized(0, 8)": "not yet: row ",
        "return MPI.DOUBLE.Create_vector(1, 8, 8).Create_resized(0, 8)": "not yet: row ",
        "return MPI.DOUBLE.Create_vector(4, 1, 8).Create_resized(0, 8)": FAILED,
        "return MPI.FLOAT.Create_vector(8, 1, 8).Create_resized(0, 8)": FAILED,
        "return MPI.DOUBLE.Create_hvector(8, 1, 64)": "not yet: row 0",
        "return MPI.DOUBLE.Create_hvector(8, 1, 64).Create_resized(0, 8)": "right",
    },
)
STRUCT = "MPI.Datatype.Create_struct([1, 3], [0, {}], [MPI.INT, MPI.DOUBLE])"
ALL = "not yet: the records [0, 1, 2] did not"
RECORD = bodies(
    "def make_type():",
    {
        "return " + STRUCT.format(4): "not yet: the records [1, 2] did not",
        "return " + STRUCT.format(8): ALL,
        "return " + STRUCT.format(4) + ".Create_resized(0, 32)": "not yet: the records [1, 2]",
        "return " + STRUCT.format(4) + ".Create_resized(0, 24)": "not yet: the records ",
        "return " + STRUCT.format(8) + ".Create_resized(0, 28)": "not yet: the records ",
        "return MPI.INT.Create_contiguous(1)": ALL,
        "return MPI.DOUBLE.Create_contiguous(3)": "not yet: the records ",
        "return MPI.BYTE.Create_contiguous(24)": "not yet: the records ",
        "return MPI.INT.Create_vector(1, 4, 7)": "not yet: the records [1, 2]",
        "return " + STRUCT.format(0) + ".Create_resized(0, 28)": ALL,
        "return " + STRUCT.format(4) + ".Create_resized(0, tight.itemsize)": "right",
    },
)

# --- 08 ----------------------------------------------------------------------------------------

NO_TREE = "not yet: the numbers are right, and the sends {} are no tree"
BY_HAND = """\
if group.rank != root: group.Recv(vector, source=root)
for to in set(range(8)) - {root} if group.rank == root else (): group.Send(vector, dest=to)"""
ROOT = bodies(
    "def broadcast_from(root, group, vector):",
    {
        "binomial(group, vector)": "not yet: from root 3 the ranks have",
        "group.Bcast(vector, root=root)": NO_TREE,
        BY_HAND: NO_TREE.format("{0: 7}"),
    },
)

CHECKS = [
    Check("00-the-cluster", ("cell-02", "cell-05", "cell-40", "cell-41"), "check()", CARD),
    Check("00-the-cluster", ("cell-50", "cell-51"), "check_token()", TOKEN),
    Check(
        "01-ring-the-deadlock",
        ("cell-01", "cell-02", "cell-36", "cell-37"),
        "check_squares()",
        SQUARES,
    ),
    Check("01-ring-the-deadlock", ("cell-51",), "check()", MENDED),
    Check(
        "02-ring-the-parity-fix",
        ("cell-01", "cell-02", "cell-05", "cell-47", "cell-49"),
        "check()",
        SENDRECV,
    ),
    Check("02-ring-the-parity-fix", ("cell-58",), "check_line()", LINE),
    Check("03-ring-overlap", ("cell-01", "cell-03", "cell-64", "cell-65"), "check()", MEAN),
    Check("04-ping-pong", ("cell-01", "cell-04", "cell-05"), "check()", TRIP),
    Check("04-ping-pong", ("cell-59",), "check_stream()", BALLS),
    Check(
        "05-ring-shift-and-scaling", ("cell-01", "cell-03", "cell-07", "cell-08"), "check()", TIMES
    ),
    Check("05-ring-shift-and-scaling", ("cell-70",), "check_shift()", SHIFT),
    Check(
        "06-halo-swapping",
        ("cell-01", "cell-03", "cell-07", "cell-09", "564d6e42"),
        "check_all_at_once()",
        AT_ONCE,
    ),
    Check("06-halo-swapping", ("cell-69",), "check()", SWAPPED),
    Check(
        "07-derived-datatypes",
        ("cell-01", "cell-02", "cell-04", "ecc56135"),
        "check_transpose()",
        COLUMN,
    ),
    Check("07-derived-datatypes", ("cell-78", "cell-80"), "check()", RECORD),
    Check("08-trees", ("cell-01", "cell-02", "cell-06", "cell-15", "check-root"), "check()", ROOT),
]
