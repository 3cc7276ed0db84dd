"""MPI programs with a known truth: a table in the manner of MPI-BugBench and MPI-CorrBench.

Each case is one cell, or a few, for four ranks, written from the MPI standard and not from what the
scope can do. The truth of a cell:

"right"      a correct program: it ends by itself, and `check` is true on every rank
"deadlock"   ranks wait for each other: ended, with the set of `stuck` ranks where it is certain
"starved"    only ranks whose cell has ended could help: ended likewise
"mismatch"   unlike collectives: named when the cell ends at the latest, whether or not it hangs
"suspected"  a loop of tests that nobody will end: ended after the quiet time, which is set short
"ended"      stuck for good by what only a person can see: ended too, by any verdict
"error"      an error on one rank: it is told first, and leaves nothing behind
"caught"     a deadlock in a `try`: the program goes on, and the verdict is shown all the same

`START` runs once before all of them; what it defines every cell may use.
"""

from dataclasses import dataclass

START = """
import os, sys, tempfile, threading, time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
BIG = 200_000  # doubles: above every eager limit
kept = 1000 + rank
UNIT = np.ones(1)  # by name: a nonblocking reduction does not keep its arrays (errata 36)

def burn(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        sum(range(1000))
"""


@dataclass(frozen=True)
class Cell:
    """One cell and what must come of it."""

    code: str
    truth: str = "right"
    stuck: tuple[int, ...] | None = None  # None: not the same with every library
    core: tuple[int, ...] | None = None  # of these, who is stuck before the rest have come too
    cause: str | None = None  # of the verdict, where no other would be true
    words: tuple[str, ...] = ()  # what is shown must hold each of them
    check: str = "True"  # after a cell that is right, or goes on after a verdict
    options: str = ""  # of %%px


@dataclass(frozen=True)
class Case:
    """Cells that run after each other on the same ranks, and why their truth is the truth."""

    category: str
    name: str
    why: str
    cells: tuple[Cell, ...]
    once: bool = False  # in one mode only, as it takes seconds
    quiet: bool = False  # with a short quiet time

    @property
    def truth(self) -> str:
        """The truth of the first cell that is not right."""
        return next((cell.truth for cell in self.cells if cell.truth != "right"), "right")


TABLE: list[Case] = []
QUIET = 1.0  # seconds, where a case has it short
ALL = (0, 1, 2, 3)


class Category:
    """Adds cases to the table under one heading."""

    def __init__(self, name: str):
        self.name = name

    def case(self, name: str, why: str, *cells: Cell, once=False, quiet=False):
        """A case of several cells."""
        quiet = quiet or any(cell.truth in ("suspected", "ended") for cell in cells)
        TABLE.append(Case(self.name, name, why, cells, once, quiet))

    def right(self, name, code, check="True", why="", words=(), **settings):
        """A correct program."""
        self.case(name, why, Cell(code, check=check, words=words), **settings)

    def deadlock(self, name, code, stuck=None, cause=None, why="", core=None, **settings):
        """Ranks that wait for each other."""
        self.case(name, why, Cell(code, "deadlock", stuck, core, cause), **settings)

    def starved(self, name, code, stuck=None, cause=None, why="", **settings):
        """Ranks that wait for ranks whose cell has ended."""
        self.case(name, why, Cell(code, "starved", stuck, cause=cause), **settings)

    def unlike(self, name, code, *words, why="", **settings):
        """Collectives that do not fit; `words`: what must be named."""
        why = why or "6.1: all ranks of a communicator call the same collectives in one order"
        self.case(name, why, Cell(code, "mismatch", words=words), **settings)

    def suspected(self, name, code, stuck=None, why="", **settings):
        """A loop of tests without end."""
        self.case(name, why, Cell(code, "suspected", stuck), **settings)

    def error(self, name, code, words, then="", check="True", why="", **settings):
        """An error on one rank, and a cell that would meet what it left behind."""
        why = why or "what one rank raises must not be hidden by those who waited for it"
        cells = [Cell(code, "error", words=words)]
        if then:
            cells.append(Cell(then, check=check))
        self.case(name, why, *cells, **settings)


# ------------------------------------------------------------------------------------------ order

order = Category("order")

order.deadlock(
    "ring of large sends",
    """
data, into = np.full(BIG, float(rank)), np.zeros(BIG)
comm.Send(data, dest=right)
comm.Recv(into, source=left)
""",
    ALL,
    "circle",
    why="3.5: a standard send may wait for its receive, and a large one does",
)
order.deadlock(
    "ring of empty synchronous sends",
    "comm.Ssend(np.zeros(0), dest=right)\ncomm.Recv(np.zeros(0), source=left)",
    ALL,
    "circle",
    why="3.4: a synchronous send ends when its receive has begun, however small it is",
)
order.deadlock(
    "both receive first",
    """
if rank < 2:
    comm.Recv(np.zeros(1), source=1 - rank)
    comm.Send(np.ones(1), dest=1 - rank)
""",
    (0, 1),
    "circle",
    why="neither send is reached",
)
order.deadlock(
    "ring that receives first",
    "comm.Recv(np.zeros(1), source=left)\ncomm.Send(np.ones(1), dest=right)",
    ALL,
    "circle",
    why="nobody sends the first message",
)
order.deadlock(
    "two in a circle and two behind them",
    "got = comm.recv(source={0: 1, 1: 0, 2: 0, 3: 2}[rank])",
    ALL,
    "circle",
    core=(0, 1),
    why="who waits for a stuck rank is stuck",
)
order.deadlock(
    "Sendrecv with the same neighbour twice",
    "comm.Sendrecv(np.ones(1), dest=right, recvbuf=np.zeros(1), source=right)",
    ALL,
    why="each message goes to the right and is waited for from there",
)
order.deadlock(
    "receive from itself before the send",
    "if rank == 2: comm.Recv(np.zeros(1), source=2)",
    (2,),
    "circle",
    why="only rank 2 itself could send it",
)
order.deadlock(
    "Ssend to itself",
    "if rank == 1: comm.Ssend(np.zeros(1), dest=1)",
    (1,),
    "circle",
    why="only rank 1 itself could receive it",
)
order.deadlock(
    "messages taken in another order than sent",
    """
if rank == 0:
    comm.Ssend(np.zeros(1), dest=1, tag=1)
    comm.Ssend(np.zeros(1), dest=1, tag=2)
if rank == 1:
    comm.Recv(np.zeros(1), source=0, tag=2)
    comm.Recv(np.zeros(1), source=0, tag=1)
""",
    (0, 1),
    why="the first Ssend waits for the second receive",
)
order.starved(
    "chain that ends at an idle rank",
    "if rank < 3: comm.Recv(np.zeros(1), source=rank + 1)",
    (0, 1, 2),
    why="rank 3 has ended its cell",
)
order.starved(
    "one result too many is waited for",
    """
if rank == 0:
    for i in range(size): comm.Recv(np.zeros(1), source=MPI.ANY_SOURCE)
else:
    comm.Send(np.ones(1), dest=0)
""",
    (0,),
    why="three workers, four receives",
)
order.starved(
    "workers that are never told to stop",
    """
if rank == 0:
    for task in range(6): comm.send(task, dest=1 + task % 3, tag=1)
else:
    while comm.recv(source=0) is not None: pass
""",
    (1, 2, 3),
    why="the master's last message is missing",
)
order.starved(
    "sender that computes and then forgets",
    """
if rank == 1: time.sleep(0.8)
if rank == 0: comm.Recv(np.zeros(1), source=1)
""",
    (0,),
    why="as long as rank 1 computes it may send; then its cell has ended",
)
order.deadlock(
    "large send before a barrier, receive after it",
    """
data = np.full(BIG, 1.0)
if rank == 0: comm.Send(data, dest=1)
comm.Barrier()
if rank == 1: comm.Recv(data, source=0)
""",
    ALL,
    core=(0, 1),
    why="3.5 and 6.14: rank 1 comes to its receive only after the barrier",
)
order.deadlock(
    "barrier on one side, receive on the other",
    """
if rank == 0:
    comm.Barrier()
    comm.Send(np.ones(1), dest=1)
elif rank == 1:
    comm.Recv(np.zeros(1), source=0)
    comm.Barrier()
else:
    comm.Barrier()
""",
    ALL,
    core=(0, 1),
    why="6.14, example 2: a collective and a message that wait for each other",
)
order.deadlock(
    "stuck in the thousandth step only",
    """
data = np.zeros(1)
for step in range(1000):
    comm.Sendrecv_replace(data, dest=right, source=left)
comm.Ssend(data, dest=right)
""",
    ALL,
    "circle",
    why="what went well before changes nothing",
)

order.right(
    "ring by Sendrecv",
    """
data, into = np.full(BIG, float(rank)), np.zeros(BIG)
comm.Sendrecv(data, dest=right, recvbuf=into, source=left)
""",
    "(into == left).all()",
    "3.11: the two halves go on side by side",
)
order.right(
    "ring by parity",
    """
into = np.zeros(1)
if rank % 2 == 0:
    comm.Ssend(np.full(1, float(rank)), dest=right)
    comm.Recv(into, source=left)
else:
    comm.Recv(into, source=left)
    comm.Ssend(np.full(1, float(rank)), dest=right)
""",
    "into[0] == left",
    "every send meets a receive",
)
order.right(
    "ring in which one receives first",
    """
into = np.zeros(BIG)
if rank == 0: comm.Recv(into, source=left)
comm.Ssend(np.full(BIG, float(rank)), dest=right)
if rank != 0: comm.Recv(into, source=left)
""",
    "into[-1] == left",
    "a chain is no circle",
)
order.right(
    "ring of small sends",
    """
into = np.zeros(1)
comm.Send(np.full(1, float(rank)), dest=right)
comm.Recv(into, source=left)
""",
    "into[0] == left",
    "3.4: not to be relied on, but both libraries buffer 8 bytes",
)
order.right(
    "two messages keep their order",
    """
got = []
if rank == 0:
    for i in range(50): comm.Send(np.full(1, float(i)), dest=1, tag=4)
if rank == 1:
    one = np.zeros(1)
    for i in range(50): comm.Recv(one, source=0, tag=MPI.ANY_TAG); got.append(one[0])
""",
    "got == ([float(i) for i in range(50)] if rank == 1 else [])",
    "3.5: messages of one sender on one communicator do not overtake",
)
order.right(
    "overtaking by tag",
    """
got = np.zeros(2)
if rank == 0:
    comm.Send(np.full(1, 1.0), dest=1, tag=1)
    comm.Ssend(np.full(1, 2.0), dest=1, tag=2)
if rank == 1:
    comm.Recv(got[1:], source=0, tag=2)
    comm.Recv(got[:1], source=0, tag=1)
""",
    "rank != 1 or got.tolist() == [1, 2]",
    "3.5: a receive takes the first that matches",
)
order.right(
    "a large message overtakes by a nonblocking receive",
    """
first, second = np.zeros(BIG), np.zeros(BIG)
if rank == 0:
    comm.Send(first + 1, dest=1, tag=1)
    comm.Send(first + 2, dest=1, tag=2)
if rank == 1:
    q = comm.Irecv(first, source=0, tag=1)
    comm.Recv(second, source=0, tag=2)
    q.Wait()
""",
    "rank != 1 or (first[0], second[-1]) == (1, 2)",
    "3.7.4: the open receive lets the first send end",
)
order.right(
    "late sender before a barrier",
    """
into = np.zeros(1)
if rank == 3:
    time.sleep(1.2)
    comm.Send(np.full(1, 7.0), dest=0)
if rank == 0: comm.Recv(into, source=3)
comm.Barrier()
""",
    "rank or into[0] == 7",
    "a rank that sleeps may yet send",
)
order.right(
    "late receiver of a large message",
    """
data = np.full(BIG, float(rank))
if rank == 0: comm.Send(data, dest=1)
if rank == 1:
    burn(1.0)
    comm.Recv(data, source=0)
""",
    "data[0] == (0 if rank < 2 else rank)",
    "a rank that computes may yet receive",
)
order.right(
    "pipeline with work at every stage",
    """
value = np.zeros(1)
for step in range(3):
    if rank: comm.Recv(value, source=left)
    burn(0.05)
    value += 1
    if rank < size - 1: comm.Send(value, dest=right)
    else: value[0] = 0
""",
    "True",
    "the last waits for three others' work each time",
)
order.right(
    "large messages around and around",
    """
data = np.full(2_000_000, float(rank))
for step in range(3):
    comm.Sendrecv_replace(data, dest=right, source=left)
last = data[0]
del data
""",
    "last == (rank - 3) % size",
    "slow is not stuck",
)
order.right(
    "messages to itself",
    """
into, more = np.zeros(BIG), np.zeros(1)
q = comm.Isend(np.full(BIG, float(rank)), dest=rank, tag=1)
comm.Recv(into, source=rank, tag=1)
q.Wait()
comm.Sendrecv(np.full(1, 2.0 * rank), dest=rank, recvbuf=more, source=rank)
""",
    "into[-1] == rank and more[0] == 2 * rank",
    "3.2.4: source may be destination",
)
order.right(
    "empty messages",
    """
status = MPI.Status()
q = comm.Issend(np.zeros(0), dest=right, tag=rank)
comm.Recv(np.zeros(0), source=left, status=status)
q.Wait()
""",
    "status.Get_tag() == left and status.Get_count(MPI.DOUBLE) == 0",
    "a message without data is a message",
)
order.right(
    "chain with MPI_PROC_NULL at its ends",
    """
down = rank - 1 if rank else MPI.PROC_NULL
up = rank + 1 if rank < size - 1 else MPI.PROC_NULL
into, status = np.full(1, -1.0), MPI.Status()
comm.Ssend(np.zeros(BIG), dest=MPI.PROC_NULL)
comm.Recv(np.zeros(1), source=MPI.PROC_NULL)
comm.Probe(source=MPI.PROC_NULL, status=status)
comm.Sendrecv(np.full(1, float(rank)), dest=up, recvbuf=into, source=down)
q = comm.Irecv(np.zeros(1), source=MPI.PROC_NULL)
q.Wait()
""",
    "into[0] == rank - 1 and status.Get_source() == MPI.PROC_NULL",
    "3.11: nobody is always ready",
)
order.right(
    "master and workers with wildcards",
    """
results = []
if rank == 0:
    tasks, status = list(range(12)), MPI.Status()
    for worker in (1, 2, 3): comm.send(tasks.pop(), dest=worker)
    while len(results) < 12:
        results.append(comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status))
        comm.send(tasks.pop() if tasks else None, dest=status.Get_source())
else:
    while (task := comm.recv(source=0)) is not None:
        burn(0.01)
        comm.send(task ** 2, dest=0)
""",
    "rank or sorted(results) == [i ** 2 for i in range(12)]",
    "any worker may be the next",
)
order.right(
    "only one order of wildcards ends, and it is forced",
    """
got = []
if rank == 0:
    got.append(comm.recv(source=MPI.ANY_SOURCE))
    comm.send(None, dest=2)
    got.append(comm.recv(source=2))
if rank == 1: comm.send("one", dest=0)
if rank == 2:
    comm.recv(source=0)
    comm.send("two", dest=0)
""",
    "rank or got == ['one', 'two']",
    "rank 2 sends only after rank 1's message has been taken",
)

# --------------------------------------------------------------------------------------- matching

matching = Category("matching")

matching.starved(
    "tags differ",
    """
if rank == 0: comm.Send(np.zeros(1), dest=1, tag=5)
if rank == 1: comm.Recv(np.zeros(1), source=0, tag=6)
""",
    (1,),
    "tag",
    why="3.2.4: the tag is part of the envelope",
)
matching.deadlock(
    "tags differ and the sender waits",
    """
if rank == 0: comm.Ssend(np.zeros(1), dest=1, tag=5)
if rank == 1: comm.Recv(np.zeros(1), source=0, tag=6)
""",
    (0, 1),
    "tag",
    why="both wait for the other's next step",
)
matching.starved(
    "source differs",
    """
if rank == 0: comm.Send(np.zeros(1), dest=1, tag=5)
if rank == 1: comm.Recv(np.zeros(1), source=2, tag=5)
""",
    (1,),
    "source",
    why="3.2.4: the source is part of the envelope",
)
matching.starved(
    "communicator differs",
    """
other = comm.Dup()
if rank == 0: comm.Send(np.zeros(1), dest=1)
if rank == 1: other.Recv(np.zeros(1), source=0)
""",
    (1,),
    "communicator",
    why="3.2.3: communicators are worlds of their own",
)
matching.starved(
    "wildcards on another communicator",
    """
half = comm.Split(rank // 2, rank)
if rank == 0: comm.Send(np.zeros(1), dest=1, tag=2)
if rank == 1: half.Recv(np.zeros(1), source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG)
""",
    (1,),
    "communicator",
    why="there is no wildcard for the communicator",
)
matching.deadlock(
    "wildcard source, and all others in a barrier",
    """
if rank == 0: comm.Recv(np.zeros(1), source=MPI.ANY_SOURCE, tag=3)
comm.Barrier()
""",
    ALL,
    why="nobody is left who could send",
)
matching.starved(
    "probe for the wrong tag",
    """
if rank == 0: comm.Send(np.zeros(1), dest=1, tag=1)
if rank == 1: comm.Probe(source=0, tag=2)
""",
    (1,),
    "tag",
    why="3.8: a probe matches as a receive does",
)
matching.deadlock(
    "Mprobe, barrier, then Mrecv of a large message",
    """
data = np.full(BIG, 1.0)
if rank == 0: comm.Send(data, dest=1)
if rank == 1: message = comm.Mprobe(source=0)
comm.Barrier()
if rank == 1: message.Recv(data)
""",
    ALL,
    core=(0, 1),
    why="3.8.2: a probed message has not been received",
)
matching.deadlock(
    "probed, never received",
    """
if rank == 0: comm.Ssend(np.zeros(1), dest=1)
if rank == 1: comm.Probe(source=0)
comm.Barrier()
""",
    ALL,
    core=(0, 1),
    why="3.8.1: a probe takes nothing",
)
matching.starved(
    "a wildcard takes what a later receive needs",
    """
if rank == 1: comm.Send(np.zeros(1), dest=0)
if rank == 0:
    comm.Recv(np.zeros(1), source=MPI.ANY_SOURCE)
    comm.Recv(np.zeros(1), source=1)
""",
    (0,),
    why="rank 1 sent one message",
)
matching.starved(
    "any tag takes the first message",
    """
if rank == 1:
    comm.Send(np.zeros(1), dest=0, tag=1)
    comm.Send(np.zeros(1), dest=0, tag=2)
if rank == 0:
    comm.Recv(np.zeros(1), source=1, tag=MPI.ANY_TAG)
    comm.Recv(np.zeros(1), source=1, tag=1)
""",
    (0,),
    "tag",
    why="3.5: the wildcard must take tag 1, which came first",
)
matching.deadlock(
    "Sendrecv with unlike tags",
    """
comm.Sendrecv(np.ones(1), dest=right, sendtag=1, recvbuf=np.zeros(1), source=left, recvtag=2)
""",
    ALL,
    "tag",
    why="all wait for tag 2 and have tag 1",
)
matching.starved(
    "rank of another group",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
if rank == 0: inter.Send(np.zeros(1), dest=0)
if rank == 2: inter.Recv(np.zeros(1), source=1)
""",
    (2,),
    "source",
    why="7.6: ranks of an intercommunicator count in the other group",
)
matching.starved(
    "sent to the rank of the half, not of the whole",
    """
half = comm.Split(rank // 2, rank)
if rank == 2: half.Send(np.zeros(1), dest=0)
if rank == 3: half.Recv(np.zeros(1), source=0)
""",
    (3,),
    why="rank 2 is number 0 of its half and sends to itself",
)
matching.deadlock(
    "one receives twice, the other sends twice, to and fro by one",
    """
other = 1 - rank
if rank < 2:
    comm.send(1, dest=other, tag=rank)
    comm.recv(source=other, tag=other)
    comm.recv(source=other, tag=other)
    comm.send(1, dest=other, tag=rank)
""",
    (0, 1),
    "circle",
    why="the second message of each comes after its second receive",
)

matching.right(
    "any tag, in order",
    """
got, status = [], MPI.Status()
if rank == 0:
    for tag in (9, 3, 7): comm.send(tag, dest=1, tag=tag)
if rank == 1:
    for i in range(3):
        value = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)
        got.append((value, status.Get_tag()))
""",
    "rank != 1 or got == [(9, 9), (3, 3), (7, 7)]",
    "3.5",
)
matching.right(
    "same tag on two communicators, crossed",
    """
other = comm.Dup()
mine = []
if rank == 0:
    comm.send("world", dest=1)
    other.send("other", dest=1)
if rank == 1: mine = [other.recv(source=0), comm.recv(source=0)]
other.Free()
""",
    "rank != 1 or mine == ['other', 'world']",
    "order holds on one communicator only",
)
matching.right(
    "a buffer larger than its message",
    """
status, into = MPI.Status(), np.full(10, -1.0)
comm.Sendrecv(np.full(rank + 1, float(rank)), dest=right,
              recvbuf=into, source=left, status=status)
""",
    "status.Get_count(MPI.DOUBLE) == left + 1 and (into >= 0).sum() == left + 1",
    "3.2.4: the buffer may be larger than the message",
)
matching.right(
    "sent as a row, received as a column",
    """
matrix = np.zeros((4, 4))
column = MPI.DOUBLE.Create_vector(4, 1, 4).Commit()
if rank == 0: comm.Send(np.arange(4.0), dest=1)
if rank == 1: comm.Recv([matrix, 1, column], source=0)
column.Free()
""",
    "rank != 1 or matrix[:, 0].tolist() == [0, 1, 2, 3]",
    "3.3.1: only the signatures must fit",
)
matching.right(
    "probe, then a receive of the right size",
    """
status, got = MPI.Status(), 0.0
if rank: comm.Send(np.full(rank * 1000, 1.0), dest=0, tag=rank)
else:
    for i in range(3):
        comm.Probe(status=status)
        part = np.zeros(status.Get_count(MPI.DOUBLE))
        comm.Recv(part, source=status.Get_source(), tag=status.Get_tag())
        got += part.sum()
""",
    "rank or got == 6000",
    "3.8.1: with one thread the receive takes the message that was probed",
)
matching.right(
    "Mprobe, barrier, then Mrecv of a message nobody waits on",
    """
data = np.full(BIG, float(rank))
if rank == 0: q = comm.Isend(data, dest=1)
if rank == 1: message = comm.Mprobe(source=0)
comm.Barrier()
if rank == 1: message.Recv(data)
if rank == 0: q.Wait()
""",
    "data[-1] == (0 if rank < 2 else rank)",
    "3.8.2: the nonblocking send leaves rank 0 free to enter the barrier",
)
matching.right(
    "500 messages received in reverse",
    """
got = []
if rank == 0:
    for tag in range(500): comm.Send(np.full(1, float(tag)), dest=1, tag=tag)
if rank == 1:
    one = np.zeros(1)
    for tag in reversed(range(500)): comm.Recv(one, source=0, tag=tag); got.append(one[0])
""",
    "rank != 1 or got == [float(tag) for tag in reversed(range(500))]",
    "small messages wait where they are not expected",
)
matching.right(
    "the largest tag there is",
    """
top = comm.Get_attr(MPI.TAG_UB)
got = comm.sendrecv(rank, dest=right, sendtag=top, source=left, recvtag=top)
""",
    "got == left",
    "9.1.2: tags go from 0 to MPI_TAG_UB",
)
matching.right(
    "halves use the same tags",
    """
half = comm.Split(rank // 2, rank)
got = half.sendrecv(rank, dest=1 - half.rank, source=1 - half.rank)
wide = comm.sendrecv(rank, dest=right, source=left)
half.Free()
""",
    "got == (rank ^ 1) and wide == left",
    "communicators keep them apart",
)
matching.right(
    "intercommunicator to and fro",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
got = inter.sendrecv(rank, dest=half.rank, source=half.rank)
into = np.zeros(BIG)
if rank < 2: inter.Ssend(np.full(BIG, float(rank)), dest=half.rank)
else: inter.Recv(into, source=MPI.ANY_SOURCE)
inter.Free(); half.Free()
""",
    "got == (rank + 2) % 4 and (rank < 2 or into[0] == rank - 2)",
    "7.6: ranks count in the other group",
)
matching.right(
    "wildcard receives its own message too",
    """
got = []
q = comm.isend(rank, dest=0, tag=8)
if rank == 0: got = [comm.recv(tag=8) for i in range(size)]
q.wait()
""",
    "rank or sorted(got) == [0, 1, 2, 3]",
    "any source includes the receiver",
)
matching.right(
    "Sendrecv_replace from anybody",
    """
value = np.full(1, float(rank))
comm.Sendrecv_replace(value, dest=right, source=MPI.ANY_SOURCE)
""",
    "value[0] == left",
    "one message comes to each",
)
matching.right(
    "Iprobe until all have come",
    """
seen, status = [], MPI.Status()
if rank:
    time.sleep(0.1 * rank)
    comm.send(rank, dest=0)
else:
    while len(seen) < 3:
        if comm.Iprobe(status=status): seen.append(comm.recv(source=status.Get_source()))
""",
    "rank or sorted(seen) == [1, 2, 3]",
    "3.8.1: a probe that is repeated sees the message at last",
)
matching.right(
    "Isendrecv around",
    """
into = np.zeros(BIG)
q = comm.Isendrecv(np.full(BIG, float(rank)), dest=right, recvbuf=into, source=left)
q.Wait()
""",
    "into[0] == left",
    "3.11: the nonblocking form of MPI_Sendrecv",
)

# --------------------------------------------------------------------------------------- requests

requests = Category("requests")

requests.deadlock(
    "Waitall, and half of it never comes",
    """
qs = [comm.Irecv(np.zeros(1), source=left, tag=1), comm.Irecv(np.zeros(1), source=right, tag=2)]
qs.append(comm.Isend(np.ones(1), dest=right, tag=1))
MPI.Request.Waitall(qs)
comm.Send(np.ones(1), dest=left, tag=2)
""",
    ALL,
    "circle",
    why="3.7.5: Waitall waits for every request",
)
requests.starved(
    "Waitany of two that never come",
    """
if rank == 0:
    qs = [comm.Irecv(np.zeros(1), source=source) for source in (1, 2)]
    MPI.Request.Waitany(qs)
""",
    (0,),
    why="nobody sends",
)
requests.starved(
    "Waitsome of two that never come",
    """
if rank == 0:
    qs = [comm.Irecv(np.zeros(1), source=source) for source in (1, 2)]
    MPI.Request.Waitsome(qs)
""",
    (0,),
    why="nobody sends",
)
requests.starved(
    "Waitany once too often",
    """
if rank == 0:
    qs = [comm.Irecv(np.zeros(1), source=source) for source in (1, 2, 3)]
    for i in range(3): MPI.Request.Waitany(qs)
elif rank < 3:
    comm.Send(np.ones(1), dest=0)
""",
    (0,),
    why="two of three senders send",
)
requests.deadlock(
    "Wait for a rank in a barrier",
    """
if rank == 0: comm.Irecv(np.zeros(1), source=1).Wait()
comm.Barrier()
""",
    ALL,
    core=(0, 1),
    why="rank 1 waits for rank 0 in the barrier",
)
requests.deadlock(
    "persistent receives that nobody serves",
    """
q = comm.Recv_init(np.zeros(1), source=left)
q.Start()
q.Wait()
""",
    ALL,
    "circle",
    why="3.9: a started request is as a nonblocking one",
)
requests.deadlock(
    "Startall of synchronous sends alone",
    """
qs = [comm.Ssend_init(np.zeros(1), dest=other) for other in (left, right)]
MPI.Prequest.Startall(qs)
MPI.Request.Waitall(qs)
""",
    ALL,
    why="nobody receives; two neighbours are stuck whether or not a third has come",
    core=(),
)
requests.starved(
    "Issend that nobody takes",
    "if rank == 2: comm.Issend(np.zeros(1), dest=3).Wait()",
    (2,),
    why="3.7.3: the wait ends when the receive has begun",
)
requests.starved(
    "large Isend that nobody takes",
    "if rank == 2: comm.Isend(np.zeros(BIG), dest=3).Wait()",
    (2,),
    why="a large send waits for its receive",
)
requests.starved(
    "Ibarrier that one rank never starts",
    "if rank != 2: comm.Ibarrier().Wait()",
    (0, 1, 3),
    why="6.12.1: the wait is where the barrier stops",
)
requests.starved(
    "Iallreduce that one rank never starts",
    """
total = np.zeros(1)
if rank != 1: MPI.Request.Waitall([comm.Iallreduce(UNIT, total)])
""",
    (0, 2, 3),
    why="6.12: its result needs every rank",
)
requests.starved(
    "persistent barrier that one rank never starts",
    """
q = comm.Barrier_init()
if rank != 3:
    q.Start()
    q.Wait()
""",
    (0, 1, 2),
    why="6.13: starting it is what the others wait for",
)
requests.starved(
    "persistent Allreduce, one round too many on three ranks",
    """
total = np.zeros(1)
q = comm.Allreduce_init(np.ones(1), total)
for step in range(2 if rank else 3):
    q.Start()
    q.Wait()
""",
    (0,),
    why="6.13: the third start of rank 0 has no partners",
)
requests.starved(
    "persistent neighbourhood collective, one rank missing",
    """
cart = comm.Create_cart([size], periods=[True])
into = np.zeros(2)
q = cart.Neighbor_allgather_init(np.ones(1), into)
if rank != 0:
    q.Start()
    q.Wait()
""",
    None,
    why="8.7: the neighbours of rank 0 wait for it; rank 2 need not",
)
requests.case(
    "Detach_buffer with a message nobody takes",
    "3.6: detaching waits until the buffered messages are gone",
    Cell(
        """
if rank == 0:
    room = np.zeros(8 * BIG + 2 * MPI.BSEND_OVERHEAD, "b")
    MPI.Attach_buffer(room)
    comm.Bsend(np.zeros(BIG), dest=1, tag=4)
    MPI.Detach_buffer()
""",
        "starved",
        (0,),
    ),
    Cell(
        """
got = np.zeros(BIG)
if rank == 0:
    try: MPI.Detach_buffer()
    except MPI.Exception: pass
    room = np.zeros(8 * BIG + 2 * MPI.BSEND_OVERHEAD, "b")
    MPI.Attach_buffer(room)
    comm.Bsend(np.full(BIG, 5.0), dest=1, tag=4)
if rank == 1: comm.Recv(got, source=0, tag=4)
if rank == 0: MPI.Detach_buffer()
""",
        check="rank != 1 or got[0] == 5",
    ),
)
requests.deadlock(
    "Waitall with a receive from itself",
    """
if rank == 1:
    qs = [comm.Irecv(np.zeros(1), source=1, tag=3), comm.Ibarrier()]
else:
    qs = [comm.Ibarrier()]
MPI.Request.Waitall(qs)
if rank == 0: comm.Recv(np.zeros(1), source=1)
""",
    (0, 1),
    core=(1,),
    why="all have started the barrier; the message to itself was never sent",
)
requests.deadlock(
    "a request that another rank's Waitany passes over",
    """
if rank == 0:
    qs = [comm.Irecv(np.zeros(1), source=1), comm.Irecv(np.zeros(1), source=2)]
    MPI.Request.Waitany(qs)
    comm.Ssend(np.zeros(1), dest=1, tag=9)
    MPI.Request.Waitall(qs)
if rank == 1:
    comm.Recv(np.zeros(1), source=0, tag=8)
if rank == 2: comm.Send(np.ones(1), dest=0)
""",
    (0, 1),
    "tag",
    why="Waitany ends by rank 2's message; then the tags differ",
)
requests.starved(
    "the 2,000th request of one Waitall",
    """
if rank == 0:
    qs = [comm.Irecv(np.zeros(1), source=1, tag=i) for i in range(2000)]
    MPI.Request.Waitall(qs)
if rank == 1:
    for i in range(1999): comm.Send(np.ones(1), dest=0, tag=i)
""",
    (0,),
    why="one message is missing",
)
requests.deadlock(
    "40,000 tags, then a ring of receives",
    """
one = np.zeros(1)
for tag in range(20_000):
    if rank < 2: comm.Sendrecv(one, 1 - rank, tag + 20_000 * rank, one, 1 - rank,
                               tag + 20_000 * (1 - rank))
comm.Recv(one, source=left)
""",
    ALL,
    "circle",
    why="no count of tags changes what a receive needs",
    once=True,
)

requests.right(
    "Irecv, Isend, Waitall in a ring",
    """
into = np.zeros((2, BIG))
data = np.full(BIG, float(rank))
qs = [comm.Irecv(into[0], source=left), comm.Irecv(into[1], source=right)]
qs += [comm.Isend(data, dest=right), comm.Isend(data, dest=left)]
MPI.Request.Waitall(qs)
""",
    "into[:, -1].tolist() == [left, right]",
    "3.7",
)
requests.right(
    "Waitany takes each as it comes",
    """
came = []
if rank == 0:
    parts = np.zeros(3)
    qs = [comm.Irecv(parts[i:i + 1], source=i + 1) for i in range(3)]
    for i in range(3): came.append(MPI.Request.Waitany(qs))
    came.append(MPI.Request.Waitany(qs) == MPI.UNDEFINED)
else:
    time.sleep(0.15 * (4 - rank))
    comm.Send(np.full(1, float(rank)), dest=0)
""",
    "rank or (sorted(came[:3]) == [0, 1, 2] and came[3] and parts.tolist() == [1, 2, 3])",
    "3.7.5: with no active request left it returns at once",
)
requests.right(
    "Waitsome until nothing is left",
    """
came = []
if rank == 0:
    parts = np.zeros(3)
    qs = [comm.Irecv(parts[i:i + 1], source=i + 1) for i in range(3)]
    while some := MPI.Request.Waitsome(qs): came += some
else:
    time.sleep(0.15 * rank)
    comm.Send(np.full(1, float(rank)), dest=0)
""",
    "rank or (sorted(came) == [0, 1, 2] and parts.tolist() == [1, 2, 3])",
    "3.7.5",
)
requests.right(
    "persistent ring, five rounds",
    """
out, into, sums = np.zeros(1), np.zeros(1), 0.0
qs = [comm.Recv_init(into, source=left), comm.Send_init(out, dest=right)]
for step in range(5):
    out[0] = rank + 10 * step
    MPI.Prequest.Startall(qs)
    MPI.Request.Waitall(qs)
    sums += into[0]
for q in qs: q.Free()
""",
    "sums == 5 * left + 100",
    "3.9",
)
requests.right(
    "inactive and null requests",
    """
q = comm.Recv_init(np.zeros(1), source=left)
q.Wait()
MPI.Request.Waitall([MPI.REQUEST_NULL, q, MPI.Request()])
tested = q.Test() and MPI.Request.Testall([q, MPI.REQUEST_NULL])
q.Free()
""",
    "tested",
    "3.7.3: waiting for what was never started returns at once",
)
requests.right(
    "a receive that is cancelled",
    """
status = MPI.Status()
q = comm.Irecv(np.zeros(1), source=MPI.ANY_SOURCE, tag=77)
q.Cancel()
q.Wait(status)
""",
    "status.Is_cancelled()",
    "3.8.4: the wait for a cancelled receive ends",
)
requests.right(
    "a send whose request is freed",
    """
data, into = np.full(BIG, float(rank)), np.zeros(BIG)
comm.Isend(data, dest=right).Free()
comm.Recv(into, source=left)
comm.Barrier()
""",
    "into[0] == left",
    "3.7.3: it is carried out all the same",
)
requests.right(
    "2,000 requests in one Waitall",
    """
into = np.zeros(1000)
qs = [comm.Irecv(into[i:i + 1], source=left, tag=i) for i in range(1000)]
qs += [comm.Isend(np.full(1, float(i)), dest=right, tag=i) for i in reversed(range(1000))]
MPI.Request.Waitall(qs)
""",
    "into.tolist() == list(range(1000))",
    "their number is not limited",
)
requests.right(
    "20,000 tags",
    """
one, total = np.zeros(1), 0.0
for tag in range(20_000):
    one[0] = tag
    if rank == 0: comm.Send(one, dest=1, tag=tag)
    if rank == 1: comm.Recv(one, source=0, tag=tag); total += one[0]
""",
    "rank != 1 or total == sum(range(20_000))",
    "any tag up to MPI_TAG_UB",
    once=True,
)
requests.right(
    "buffered ring",
    """
room = np.zeros(8 * BIG + MPI.BSEND_OVERHEAD, "b")
MPI.Attach_buffer(room)
into = np.zeros(BIG)
comm.Bsend(np.full(BIG, float(rank)), dest=right)
comm.Recv(into, source=left)
MPI.Detach_buffer()
""",
    "into[-1] == left",
    "3.4: a buffered send waits for nobody",
)
requests.right(
    "Detach_buffer waits for a late receiver",
    """
into = np.zeros(BIG)
if rank == 0:
    room = np.zeros(8 * BIG + MPI.BSEND_OVERHEAD, "b")
    MPI.Attach_buffer(room)
    comm.Bsend(np.full(BIG, 3.0), dest=1)
    MPI.Detach_buffer()
if rank == 1:
    burn(0.8)
    comm.Recv(into, source=0)
""",
    "rank != 1 or into[0] == 3",
    "3.6",
)
requests.right(
    "collectives started in one order, awaited in another",
    """
total, every = np.zeros(1), np.zeros(size)
first = comm.Iallreduce(UNIT, total)
second = comm.Iallgather(np.full(1, float(rank)), every)
third = comm.Ibarrier()
if rank % 2: third.Wait(); second.Wait(); first.Wait()
else: first.Wait(); third.Wait(); second.Wait()
""",
    "total[0] == 4 and every.tolist() == [0, 1, 2, 3]",
    "6.12: the order of the starts is what counts",
)
requests.right(
    "messages and a collective in one Waitall",
    """
into, root = np.zeros(1), np.full(1, float(rank))
qs = [comm.Ibcast(root, root=2), comm.Irecv(into, source=left)]
qs.append(comm.Isend(np.full(1, float(rank)), dest=right))
MPI.Request.Waitall(qs)
""",
    "into[0] == left and root[0] == 2",
    "6.12: requests of every kind may be mixed",
)
requests.right(
    "a blocking collective while a nonblocking one is open",
    """
total = np.zeros(1)
q = comm.Ibarrier()
comm.Allreduce(np.ones(1), total)
q.Wait()
""",
    "total[0] == 4",
    "6.12: allowed on one communicator, in the same order everywhere",
)
requests.right(
    "a persistent Allreduce, three rounds",
    """
mine, total, sums = np.zeros(1), np.zeros(1), []
q = comm.Allreduce_init(mine, total)
for step in range(3):
    mine[0] = rank * step
    q.Start()
    q.Wait()
    sums.append(total[0])
q.Free()
""",
    "sums == [0, 6, 12]",
    "6.13",
)
requests.right(
    "persistent collectives started in unlike orders",
    """
total, value = np.zeros(1), np.full(1, float(rank))
a, b = comm.Allreduce_init(np.ones(1), total), comm.Bcast_init(value, root=3)
for q in ((a, b) if rank % 2 else (b, a)): q.Start()
MPI.Request.Waitall([a, b])
a.Free(); b.Free()
""",
    "total[0] == 4 and value[0] == 3",
    "6.13: only the order of the initialisations counts",
)
requests.right(
    "partitioned send and receive",
    """
into, out = np.zeros(4), np.full(4, float(rank))
sent = comm.Psend_init(out, 4, dest=right, tag=6)
received = comm.Precv_init(into, 4, source=left, tag=6)
MPI.Prequest.Startall([sent, received])
for i in (2, 0, 3, 1): sent.Pready(i)
MPI.Request.Waitall([sent, received])
sent.Free(); received.Free()
""",
    "into.tolist() == [left] * 4",
    "4.2: the message is complete when all parts are ready",
)
requests.deadlock(
    "a message from itself and a barrier with a rank that computes",
    """
if rank == 1: MPI.Request.Waitall([comm.Irecv(np.zeros(1), source=1), comm.Ibarrier()])
else:
    if rank == 2:
        end = time.time() + 1.5
        while time.time() < end: pass
    comm.Ibarrier().Wait()
""",
    (1,),
    "circle",
    why="the barrier would end; the message from itself is what never comes",
)
requests.right(
    "lowercase requests with late partners",
    """
q = comm.irecv(source=left)
time.sleep(0.2 * rank)
s = comm.isend({"from": rank}, dest=right)
got = q.wait()
s.wait()
""",
    "got == {'from': left}",
    "3.7",
)

# ---------------------------------------------------------------------------------------- polling

polling = Category("polling")

polling.suspected(
    "while not q.Test()",
    """
q = comm.Irecv(np.zeros(1), source=left)
while not q.Test(): pass
""",
    ALL,
    why="nobody sends",
)
polling.suspected(
    "while not all(q.Test() for q in qs)",
    """
qs = [comm.Irecv(np.zeros(1), source=left, tag=1), comm.Irecv(np.zeros(1), source=right, tag=2)]
qs.append(comm.Isend(np.ones(1), dest=right, tag=1))
while not all(q.Test() for q in qs): pass
""",
    ALL,
    why="3.7.3: the test of a finished request succeeds; the message of tag 2 never comes",
)
polling.suspected(
    "tests with a sleep between them",
    """
q = comm.Irecv(np.zeros(1), source=left)
while not q.Test(): time.sleep(0.02)
""",
    ALL,
    why="sleeping is not computing",
)
polling.suspected(
    "tests with no more than a sleep of 0 between them",
    """
q = comm.Irecv(np.zeros(1), source=left)
while not q.Test(): time.sleep(0)
""",
    ALL,
    why="its cost is that of going to sleep and waking up",
)
polling.suspected(
    "a loop of Get_status",
    """
if rank < 2:
    q = comm.Irecv(np.zeros(1), source=1 - rank)
    while not q.Get_status(): pass
""",
    (0, 1),
    why="3.7.6: it only looks",
)
polling.suspected(
    "a loop of Iprobe",
    "while not comm.Iprobe(source=right, tag=3): pass",
    ALL,
    why="nobody sends",
)
polling.suspected(
    "a loop of Improbe with a sleep",
    "if rank == 3:\n    while comm.Improbe(source=0) is None: time.sleep(0.01)",
    (3,),
    why="rank 0 has ended its cell",
)
polling.suspected(
    "a loop of Testall",
    """
qs = [comm.Irecv(np.zeros(1), source=other) for other in (left, right)]
while not MPI.Request.Testall(qs): pass
""",
    ALL,
    why="nobody sends",
)
polling.suspected(
    "a loop of Testany, and one rank that waits for it",
    """
if rank == 0:
    qs = [comm.Irecv(np.zeros(1), source=1, tag=tag) for tag in (1, 2)]
    while not MPI.Request.Testany(qs)[1]: pass
    comm.Send(np.ones(1), dest=1)
if rank == 1: comm.Recv(np.zeros(1), source=0)
""",
    (0, 1),
    why="who polls may yet do anything, so this is no proof",
)
polling.suspected(
    "a loop of Testsome, and three ranks in a barrier",
    """
if rank == 2:
    qs = [comm.Irecv(np.zeros(1), source=other) for other in (0, 1, 3)]
    while not MPI.Request.Testsome(qs): time.sleep(0.001)
comm.Barrier()
""",
    ALL,
    why="nobody sends before the barrier",
)
polling.suspected(
    "a test of an Ibarrier that one rank never enters",
    """
if rank != 1:
    q = comm.Ibarrier()
    while not q.Test(): pass
""",
    (0, 2, 3),
    why="rank 1 has ended its cell",
)
polling.suspected(
    "lowercase tests",
    """
if rank == 0:
    q = comm.irecv(source=1)
    while not q.test()[0]: pass
elif rank == 1:
    got = comm.recv(source=0)
""",
    (0, 1),
    why="both want to receive",
)
polling.right(
    "1,500,000 rounds of a little work and a test",
    """
into, total = np.zeros(1), 0
if rank == 0:
    q = comm.Irecv(into, source=1)
    for i in range(1_500_000):
        total += i & 3
        q.Test()
    comm.Send(np.ones(1), dest=1)
    q.Wait()
if rank == 1:
    comm.Recv(into, source=0)
    comm.Send(np.full(1, 2.0), dest=0)
""",
    "rank > 1 or into[0] == 2 - rank",
    "the count is bounded, and then it sends",
    once=True,
)
polling.right(
    "tests and a little numpy, by count",
    """
into, work = np.zeros(1), np.zeros(100)
if rank == 0:
    q = comm.Irecv(into, source=1)
    for i in range(100_000):
        work += 1
        work *= 0.5
        q.Test()
    comm.Send(np.ones(1), dest=1)
    q.Wait()
if rank == 1:
    comm.Recv(into, source=0)
    comm.Send(np.full(1, 2.0), dest=0)
""",
    "rank > 1 or into[0] == 2 - rank",
    "the count is bounded",
)
polling.right(
    "tests that end by the clock",
    """
into = np.zeros(1)
if rank == 0:
    q, until = comm.Irecv(into, source=1), time.monotonic() + 1.5
    while time.monotonic() < until: q.Test()
    comm.Send(np.ones(1), dest=1)
    q.Wait()
if rank == 1:
    comm.Recv(into, source=0)
    comm.Send(np.full(1, 2.0), dest=0)
""",
    "rank > 1 or into[0] == 2 - rank",
    "time passes without MPI",
)
polling.right(
    "Iprobe until it has been quiet for a while",
    """
got, last = [], time.monotonic()
if rank == 0:
    while time.monotonic() - last < 1.2:
        if comm.Iprobe(): got.append(comm.recv()); last = time.monotonic()
    for other in (1, 2, 3): comm.send(len(got), dest=other)
else:
    comm.send(rank, dest=0)
    got = comm.recv(source=0)
""",
    "got == 3 if rank else sorted(got) == [1, 2, 3]",
    "the loop ends by the clock",
)
polling.right(
    "a flag in a file",
    """
into, flag = np.zeros(1), "a-flag"
if rank == 1:
    time.sleep(1.3)
    open(flag, "w").close()
    comm.Recv(into, source=0)
if rank == 0:
    q = comm.Irecv(into, source=1)
    while not os.path.exists(flag): q.Test()
    comm.Send(np.ones(1), dest=1)
    q.Cancel(); q.Wait()
    os.remove(flag)
comm.Barrier()
""",
    "rank != 1 or into[0] == 1",
    "what ends the loop is outside MPI",
)
polling.right(
    "a flag in shared memory",
    """
win = MPI.Win.Allocate_shared(8 if rank == 0 else 0, 8, comm=comm)
flag = np.frombuffer(win.Shared_query(0)[0], "i8")
q = None
if rank == 0: flag[0] = 0
comm.Barrier()
if rank == 2:
    time.sleep(1.2)
    flag[0] = 1
if rank != 2:
    q = comm.Irecv(np.zeros(1), source=2, tag=88)
    while not flag[0]: q.Test()
    q.Cancel(); q.Wait()
comm.Barrier()
seen = int(flag[0])
del flag
win.Free()
""",
    "seen == 1",
    "a store by another process ends the loop",
)
polling.right(
    "all requests tested, helper late",
    """
into = np.zeros(2)
if rank == 0:
    qs = [comm.Irecv(into[i:i + 1], source=i + 1) for i in range(2)]
    while not all(q.Test() for q in qs): pass
elif rank < 3:
    time.sleep(1.3 * (rank - 1))
    comm.Send(np.full(1, float(rank)), dest=0)
""",
    "rank or into.tolist() == [1, 2]",
    "rank 2 sleeps, and then sends",
)
polling.right(
    "Get_status with a late sender",
    """
into = np.zeros(1)
if rank == 3:
    q = comm.Irecv(into, source=0)
    while not q.Get_status(): time.sleep(0.001)
    q.Wait()
if rank == 0:
    burn(1.2)
    comm.Send(np.full(1, 4.0), dest=3)
""",
    "rank != 3 or into[0] == 4",
    "rank 0 computes, and then sends",
)
polling.right(
    "two ranks that poll for each other in turn",
    """
value = np.zeros(1)
if rank < 2:
    for step in range(4):
        if step % 2 == rank:
            time.sleep(0.3)
            comm.Send(np.full(1, step + 1.0), dest=1 - rank)
        else:
            q = comm.Irecv(value, source=1 - rank)
            while not q.Test(): pass
""",
    "rank > 1 or value[0] == 4 - rank",
    "each is freed by the other's next step",
)
polling.right(
    "consensus by Issend, Iprobe and Ibarrier",
    """
got, barrier, done, one = [], None, False, np.zeros(1)
sent = comm.Issend(np.full(1, float(rank)), dest=(2 * rank + 1) % size, tag=3)
while not done:
    if comm.Iprobe(tag=3): comm.Recv(one, tag=3); got.append(one[0])
    if barrier is not None: done = barrier.Test()
    elif sent.Test(): barrier = comm.Ibarrier()
""",
    "sorted(got) == {1: [0, 2], 3: [1, 3]}.get(rank, [])",
    "the known algorithm for sparse exchanges whose receivers know nothing",
)
polling.right(
    "an Ibarrier overlapped with work",
    """
if rank == 1: burn(0.7)
q, rounds = comm.Ibarrier(), 0
while not q.Test():
    burn(0.002)
    rounds += 1
""",
    "True",
    "rank 1 comes when its work is done",
)
polling.right(
    "work between the tests, for longer than the quiet time",
    """
into = np.zeros(1)
if rank == 0:
    q = comm.Irecv(into, source=1)
    for i in range(150):
        burn(0.02)
        q.Test()
    comm.Send(np.ones(1), dest=1)
    q.Wait()
if rank == 1:
    comm.Recv(into, source=0)
    comm.Send(np.full(1, 2.0), dest=0)
""",
    "rank > 1 or into[0] == 2 - rank",
    "a rank that computes between its tests is not quiet",
    once=True,
    quiet=True,
)
polling.right(
    "a rank that computes while the others poll, for longer than the quiet time",
    """
into = np.zeros(1)
if rank == 1:
    burn(2.5)
    for other in (0, 2, 3): comm.Send(np.full(1, 5.0), dest=other)
else:
    q = comm.Irecv(into, source=1)
    while not q.Test(): pass
""",
    "rank == 1 or into[0] == 5",
    "rank 1 may yet send",
    once=True,
    quiet=True,
)
polling.right(
    "a window as counter, a late rank, and a loop that reads it",
    """
win = MPI.Win.Allocate(8, 8, comm=comm)
np.frombuffer(win.tomemory(), "i8")[0] = 0
comm.Barrier()
count, one = np.zeros(1, "i8"), np.ones(1, "i8")
if rank == 2: time.sleep(1.2)
win.Lock_all()
win.Fetch_and_op(one, count, 0, op=MPI.SUM); win.Flush(0)
while count[0] < size:
    win.Fetch_and_op(one, count, 0, op=MPI.NO_OP); win.Flush(0)
win.Unlock_all()
win.Free()
""",
    "count[0] == 4",
    "12.3.4: the last to come ends the loop for all",
)

# ------------------------------------------------------------------------------------ collectives

collectives = Category("collectives")

collectives.starved(
    "barrier without one rank",
    "if rank != 2: comm.Barrier()",
    (0, 1, 3),
    "collective",
    why="6.3: nobody leaves before all have entered",
)
collectives.starved(
    "barrier of one rank alone",
    "if rank == 0: comm.Barrier()",
    (0,),
    "collective",
    why="6.3",
)
collectives.starved(
    "Allreduce on odd ranks only",
    "if rank % 2: comm.Allreduce(np.ones(1), np.zeros(1))",
    (1, 3),
    "collective",
    why="6.9.6: the result needs every rank",
)
collectives.starved(
    "Allgather without one rank",
    "if rank != 0: comm.Allgather(np.ones(1), np.zeros(size))",
    (1, 2, 3),
    "collective",
    why="6.7",
)
collectives.starved(
    "Alltoall without one rank",
    "if rank != 3: comm.Alltoall(np.ones(size), np.zeros(size))",
    (0, 1, 2),
    "collective",
    why="6.8",
)
collectives.starved(
    "Reduce_scatter_block without one rank",
    "if rank != 1: comm.Reduce_scatter_block(np.ones(size), np.zeros(1))",
    (0, 2, 3),
    "collective",
    why="6.10",
)
collectives.starved(
    "Bcast without its root",
    "if rank != 1: comm.Bcast(np.zeros(BIG), root=1)",
    (0, 2, 3),
    "collective",
    why="6.4: the data come from the root",
)
collectives.starved(
    "Scatter without its root",
    "if rank != 0: comm.Scatter(None, np.zeros(1), root=0)",
    (1, 2, 3),
    "collective",
    why="6.6: the data come from the root",
)
collectives.starved(
    "Gather that one rank skips",
    "if rank != 3: comm.Gather(np.ones(BIG), np.zeros((size, BIG)) if rank == 0 else None)",
    None,
    why="6.5: the root waits for every rank; the others need not",
)
collectives.starved(
    "Scan without the first rank",
    "if rank != 0: comm.Scan(np.ones(1), np.zeros(1))",
    (1, 2, 3),
    "collective",
    why="6.11: every later result needs the first rank's data",
)
collectives.starved(
    "a loop with one round too few on one rank",
    """
total = np.zeros(1)
for step in range(5 if rank == 2 else 6): comm.Allreduce(np.ones(1), total)
""",
    (0, 1, 3),
    "collective",
    why="the sixth Allreduce lacks rank 2",
)
collectives.deadlock(
    "two communicators in unlike order",
    """
other = comm.Dup()
first, second = (comm, other) if rank == 0 else (other, comm)
first.Barrier()
second.Barrier()
""",
    ALL,
    core=(0,),
    why="6.14: an order that is right on each communicator, and a circle over both",
)
collectives.deadlock(
    "half against whole",
    """
half = comm.Split(rank % 2, rank)
if rank == 0: half.Barrier()
else: comm.Barrier()
""",
    ALL,
    core=(0, 2),
    why="rank 0 waits for rank 2 on the half, the others for rank 0 on the whole",
)
collectives.deadlock(
    "halves that wait for each other by a message",
    """
half = comm.Split(rank // 2, rank)
if rank == 0: comm.Recv(np.zeros(1), source=2)
half.Barrier()
if rank == 2: comm.Recv(np.zeros(1), source=0)
if rank == 0: comm.Send(np.ones(1), dest=2)
""",
    (0, 1, 2),
    core=(0, 2),
    why="rank 2 leaves its barrier with rank 3 and waits for rank 0, which waits for it",
)
collectives.starved(
    "neighbourhood collective without one rank",
    """
cart = comm.Create_cart([size], periods=[True])
if rank != 1: cart.Neighbor_alltoall(np.ones(2), np.zeros(2))
""",
    None,
    why="8.6: the neighbours of rank 1 wait for it; rank 3 need not",
)
collectives.starved(
    "intercommunicator barrier that one group skips",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
if rank < 2: inter.Barrier()
""",
    (0, 1),
    why="6.3: each group waits for the other",
)
collectives.starved(
    "opening a file without one rank",
    """
mode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
if rank != 3: file = MPI.File.Open(comm, "never-opened", mode)
""",
    (0, 1, 2),
    why="14.2.1: MPI_File_open is collective",
)
collectives.starved(
    "collective write without one rank",
    """
mode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
file = MPI.File.Open(comm, "half-written", mode)
if rank != 1: file.Write_at_all(8 * rank, np.ones(1))
""",
    None,
    why="14.4.1: every rank of the file takes part",
)
collectives.starved(
    "closing a file without one rank",
    """
mode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
file = MPI.File.Open(comm, "left-open", mode)
if rank != 0: file.Close()
""",
    None,
    why="14.2.2: MPI_File_close is collective",
)

collectives.unlike(
    "Bcast on one rank, then a barrier on all",
    "data = np.zeros(1)\nif rank == 0: comm.Bcast(data, root=0)\ncomm.Barrier()",
    "Bcast",
    "Barrier",
)
collectives.unlike(
    "Bcast against Barrier",
    "if rank == 2: comm.Barrier()\nelse: comm.Bcast(np.zeros(1), root=0)",
    "Bcast",
    "Barrier",
)
collectives.unlike(
    "roots differ in Bcast",
    "comm.Bcast(np.zeros(1), root=1 if rank == 3 else 0)",
    "root 1",
    "root 0",
    why="6.4: root has the same value everywhere",
)
collectives.unlike(
    "every rank its own root",
    "data = np.full(1, float(rank))\ncomm.Bcast(data, root=rank)",
    "Bcast",
    why="6.4: root has the same value everywhere; each would end by itself",
)
collectives.unlike(
    "roots differ in Reduce",
    "comm.Reduce(np.ones(1), np.zeros(1), root=rank % 2)",
    "Reduce",
    "root 1",
    why="6.9.1: root has the same value everywhere",
)
collectives.unlike(
    "roots differ in Gather",
    "comm.Gather(np.ones(1), np.zeros(size), root=2 if rank == 2 else 0)",
    "Gather",
    "root 2",
    why="6.5: root has the same value everywhere",
)
collectives.unlike(
    "operations differ in Reduce",
    "comm.Reduce(np.ones(1), np.zeros(1), op=MPI.MAX if rank == 1 else MPI.SUM)",
    "Reduce",
    "MAX",
    "SUM",
    why="6.9.1: op has the same value everywhere",
)
collectives.unlike(
    "operations differ in Allreduce",
    "comm.Allreduce(np.ones(1), np.zeros(1), op=MPI.PROD if rank == 3 else MPI.SUM)",
    "Allreduce",
    "PROD",
    "SUM",
    why="6.9.6: op has the same value everywhere",
)
collectives.unlike(
    "counts differ in Bcast",
    "comm.Bcast(np.zeros(4 if rank == 0 else 8), root=0)",
    "Bcast",
    "32 B",
    "64 B",
    why="6.4: what the root sends is exactly what is received",
)
collectives.unlike(
    "counts differ in Allreduce",
    "n = 3 if rank == 2 else 2\ncomm.Allreduce(np.ones(n), np.zeros(n))",
    "Allreduce",
    "24 B",
    "16 B",
    why="6.9.6: count has the same value everywhere",
)
collectives.unlike(
    "types differ in Allreduce",
    "kind = 'i8' if rank == 0 else 'f8'\ncomm.Allreduce(np.ones(1, kind), np.zeros(1, kind))",
    "Allreduce",
    why="6.9.6: the same datatype everywhere; np.arange on one rank and np.ones on another",
)
collectives.unlike(
    "counts differ in Gather",
    "comm.Gather(np.ones(2 if rank == 3 else 1), np.zeros(size) if rank == 0 else None)",
    "Gather",
    why="6.5: each sends what the root expects of it",
)
collectives.unlike(
    "counts differ in Scatter",
    """
mine = np.zeros(2 if rank == 1 else 1)
comm.Scatter(np.ones(size) if rank == 0 else None, mine, root=0)
""",
    "Scatter",
    why="6.6: each expects what the root sends it",
)
collectives.unlike(
    "counts differ in Allgather",
    "n = 2 if rank == 0 else 1\ncomm.Allgather(np.ones(n), np.zeros(n * size))",
    "Allgather",
    why="6.7",
)
collectives.unlike(
    "counts differ in Alltoall",
    "n = 2 if rank == 0 else 1\ncomm.Alltoall(np.ones(n * size), np.zeros(n * size))",
    "Alltoall",
    why="6.8: pairwise equal",
)
collectives.unlike(
    "a part shorter than the root of Gatherv expects",
    """
every = [np.zeros(8), [2, 2, 2, 2]] if rank == 0 else None
comm.Gatherv(np.ones(1 if rank == 2 else 2), every, root=0)
""",
    "Gatherv",
    why="6.5: the root knows each count, and so does the sender",
)
collectives.unlike(
    "a part shorter than Alltoallv expects",
    """
counts = [1] * size
sent = list(counts)
if rank == 1: sent[3] = 0
comm.Alltoallv([np.ones(size), sent], [np.zeros(size), counts])
""",
    "Alltoallv",
    why="6.8: pairwise equal",
)
for one, other in (
    ("comm.Allreduce(a, b)", "comm.Reduce(a, b)"),
    ("comm.Gather(a, every)", "comm.Scatter(every, b)"),
    ("comm.Gather(a, every)", "comm.Allgather(a, every)"),
    ("comm.Barrier()", "comm.Allgather(a, every)"),
    ("comm.Exscan(a, b)", "comm.Allreduce(a, b)"),
    ("comm.Scan(a, b)", "comm.Exscan(a, b)"),
    ("comm.Alltoall(every, every.copy())", "comm.Gather(a, every)"),
    ("comm.Reduce_scatter_block(every, b)", "comm.Allreduce(a, b)"),
    ("comm.Scan(a, b)", "q = comm.Ibarrier(); q.Wait()"),
    ("comm.Barrier()", "q = comm.Ibarrier(); q.Wait()"),
    ("comm.Bcast(a)", "q = comm.Ibcast(a); q.Wait()"),
    ("q = comm.Iscatter(every, b); q.Wait()", "q = comm.Ibarrier(); q.Wait()"),
    ("q = comm.Iallreduce(a, b); q.Wait()", "q = comm.Ireduce(a, b); q.Wait()"),
    (
        "q = comm.Ialltoall(every, every.copy()); q.Wait()",
        "q = comm.Iallgather(a, every); q.Wait()",
    ),
    ("q = comm.Ibcast(a, root=0); q.Wait()", "q = comm.Ibcast(a, root=1); q.Wait()"),
    ("q = comm.Barrier_init(); q.Start(); q.Wait()", "q = comm.Ibarrier(); q.Wait()"),
):
    first, second = (code[code.index("comm.") + 5 : code.index("(")] for code in (one, other))
    collectives.unlike(
        f"{first} against {second}" + (", roots 0 and 1" if first == second else ""),
        f"a, b, every = np.ones(1), np.zeros(1), np.zeros(size)\n"
        f"if rank == 1:\n    {one}\nelse:\n    {other}",
        first,
        second,
        why="6.12: a nonblocking collective does not match a blocking one"
        if ("Ib" in first) != ("Ib" in second)
        else "",
    )
collectives.unlike(
    "nonblocking collectives swapped on one rank",
    """
total = np.zeros(1)
if rank == 0:
    qs = [comm.Ibarrier(), comm.Iallreduce(UNIT, total)]
else:
    qs = [comm.Iallreduce(UNIT, total), comm.Ibarrier()]
MPI.Request.Waitall(qs)
""",
    "Ibarrier",
    "Iallreduce",
    why="6.12: nonblocking collectives match in the order of their starts",
)
collectives.unlike(
    "unlike nonblocking collectives that nobody awaits",
    """
held, total = np.zeros(1), np.zeros(1)
never = comm.Ibarrier() if rank == 0 else comm.Iallreduce(held, total)
""",
    "Ibarrier",
    "Iallreduce",
    why="6.12: it is wrong already; nothing hangs before somebody waits",
)
collectives.unlike(
    "persistent collectives made in unlike order",
    """
value = np.zeros(1)
if rank == 3: qs = [comm.Barrier_init(), comm.Bcast_init(value)]
else: qs = [comm.Bcast_init(value), comm.Barrier_init()]
MPI.Prequest.Startall(qs)
MPI.Request.Waitall(qs)
""",
    "Barrier_init",
    "Bcast_init",
    why="6.13: the initialisations are called in the same order",
)
collectives.unlike(
    "two rounds here, three rounds there, then a barrier",
    "for step in range(3 if rank == 0 else 2): comm.Bcast(np.zeros(1), root=0)\ncomm.Barrier()",
    "Bcast",
    "Barrier",
)
collectives.unlike(
    "Gather skipped on the root, then Allreduce",
    """
every = np.zeros(size)
if rank != 0: comm.Gather(np.ones(1), None, root=0)
comm.Allreduce(np.ones(1), np.zeros(1))
""",
    "Gather",
    "Allreduce",
)
collectives.unlike(
    "lowercase gather skipped on the root, then a barrier",
    "if rank != 0: comm.gather(rank)\ncomm.barrier()",
    "Gather",
    "Barrier",
)
collectives.unlike(
    "lowercase bcast against barrier",
    "if rank == 0: comm.bcast([1, 2])\nelse: comm.barrier()",
    "Bcast",
    "Barrier",
)
collectives.unlike(
    "unlike collectives on one half only",
    """
half = comm.Split(rank % 2, rank)
if rank == 1: half.Barrier()
elif rank == 3: half.Allreduce(np.ones(1), np.zeros(1))
else: half.Barrier()
""",
    "Barrier",
    "Allreduce",
)
collectives.unlike(
    "unlike neighbourhood collectives",
    """
cart = comm.Create_cart([size], periods=[True])
if rank == 2: cart.Neighbor_allgather(np.ones(1), np.zeros(2))
else: cart.Neighbor_alltoall(np.ones(2), np.zeros(2))
""",
    "Neighbor_allgather",
    "Neighbor_alltoall",
    why="8.6: called by all processes of the communicator alike",
)
collectives.unlike(
    "unlike collectives on an intercommunicator",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
if rank < 2: inter.Barrier()
else: inter.Allreduce(np.ones(1), np.zeros(1))
""",
    "Barrier",
    "Allreduce",
)
collectives.unlike(
    "a root in each of two groups",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
inter.bcast("value", root=0)
""",
    "ranks 0 and 1: MPI_Bcast, root in the group of rank 2",
    "ranks 2 and 3: MPI_Bcast, root in the group of rank 0",
    why="6.2.3: the root's own group passes MPI_ROOT and MPI_PROC_NULL",
)
collectives.unlike(
    "no root in a collective between two groups",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
inter.Bcast(np.ones(1), root=MPI.PROC_NULL if rank < 2 else 0)
""",
    "ranks 0 and 1: MPI_Bcast, root in the group of rank 0: MPI_PROC_NULL",
    "ranks 2 and 3: MPI_Bcast, root in the group of rank 0: rank 0",
    why="6.2.3: the root passes MPI_ROOT",
)
collectives.unlike(
    "another root than the other group's in a collective between two groups",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
inter.Reduce(np.ones(1), np.zeros(1), root=(MPI.PROC_NULL, MPI.ROOT, 0, 0)[rank])
""",
    "rank 1: MPI_Reduce, root in the group of rank 0: rank 1, MPI_SUM",
    "ranks 2 and 3: MPI_Reduce, root in the group of rank 0: rank 0, MPI_SUM",
    why="6.2.3: the other group names the root's rank in its group",
)
collectives.unlike(
    "file and window in unlike order",
    """
mode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
if rank == 0: win = MPI.Win.Allocate(8, 8, comm=comm)
else: file = MPI.File.Open(comm, "never-opened", mode)
""",
    "Win_allocate",
    "File_open",
)

collectives.right(
    "equal signatures by unlike types",
    """
data = np.zeros(8, "i4")
pair = MPI.INT.Create_contiguous(2).Commit()
if rank == 0: data[:] = range(8)
comm.Bcast([data, 8, MPI.INT] if rank % 2 == 0 else [data, 4, pair], root=0)
gaps, spread = np.zeros(16, "i4"), MPI.INT.Create_vector(8, 1, 2).Commit()
comm.Bcast([data, 8, MPI.INT] if rank == 0 else [gaps, 1, spread], root=0)
pair.Free(); spread.Free()
""",
    "data.tolist() == list(range(8)) and (rank == 0 or gaps[::2].tolist() == list(range(8)))",
    "6.4: the signatures must be equal, not the types",
)
collectives.right(
    "root runs ahead by fifty Bcasts",
    """
total, value = 0.0, np.zeros(1)
if rank: time.sleep(0.5)
for step in range(50):
    if rank == 0: value[0] = step
    comm.Bcast(value, root=0)
    total += value[0]
""",
    "total == sum(range(50))",
    "6.14: a Bcast need not synchronise, and need not not",
)
collectives.right(
    "leaves run ahead by Reduce, then a message",
    """
got, total = None, np.zeros(1)
if rank == 0: time.sleep(0.5)
for step in range(20): comm.Reduce(np.full(1, float(step)), total, root=0)
if rank == 1: comm.send("done", dest=2)
if rank == 2: got = comm.recv(source=1)
""",
    "(rank or total[0] == 4 * 19) and (rank != 2 or got == 'done')",
    "6.14",
)
collectives.right(
    "no elements, and elements of no bytes",
    """
empty = MPI.INT.Create_contiguous(0).Commit()
if rank == 0: comm.Bcast([UNIT, 0, MPI.DOUBLE])
else: comm.Bcast([UNIT, 3, empty])
empty.Free()
""",
    "True",
    "6.4: the type signatures are equal, both empty",
)
collectives.right(
    "in place",
    """
total, every = np.full(1, float(rank)), np.zeros(size)
comm.Allreduce(MPI.IN_PLACE, total)
every[rank] = rank
comm.Allgather(MPI.IN_PLACE, every)
mine = np.full(2, 1.0)
comm.Reduce(MPI.IN_PLACE if rank == 1 else mine, mine, root=1)
back = np.arange(size) + 10.0 * rank
comm.Alltoall(MPI.IN_PLACE, back)
part = np.full(1, -1.0)
comm.Scatter(np.arange(4.0) if rank == 0 else None, MPI.IN_PLACE if rank == 0 else part)
""",
    "total[0] == 6 and every.tolist() == [0, 1, 2, 3] and mine[0] == (4 if rank == 1 else 1)"
    " and back.tolist() == [10 * i + rank for i in range(size)] and part[0] == (rank or -1)",
    "6.2.1: MPI_IN_PLACE for one buffer, at the root only where there is a root",
)
collectives.right(
    "parts of unlike size, some empty",
    """
counts = [0, 3, 0, 2]
mine = np.full(counts[rank], float(rank))
every, back = np.zeros(5), np.zeros(counts[rank])
comm.Allgatherv(mine, [every, counts])
comm.Scatterv([every, counts] if rank == 2 else None, back, root=2)
out = [np.full(6, float(rank)), [0, 1, 2, 3]]
into = np.zeros(4 * rank)
comm.Alltoallv(out, [into, [rank] * size])
""",
    "every.tolist() == [1, 1, 1, 3, 3] and back.tolist() == mine.tolist()"
    " and into.tolist() == sorted([0.0, 1, 2, 3] * rank)",
    "6.5 to 6.8: counts may differ between the ranks, and may be 0",
)
collectives.right(
    "Alltoallw with unlike types",
    """
out, into = np.full(8, rank, "i4"), np.zeros(8, "i4")
pair = MPI.INT.Create_contiguous(2).Commit()
even = [pair, MPI.INT, pair, MPI.INT]
counts = [1, 2, 1, 2]
places = [0, 8, 16, 24]
comm.Alltoallw([out, counts, places, even],
               [into, [2, 1, 2, 1], places, [MPI.INT, pair, MPI.INT, pair]])
pair.Free()
""",
    "into.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]",
    "6.8: signatures are equal pair by pair",
)
collectives.right(
    "nothing at all",
    """
comm.Bcast(np.zeros(0), root=3)
comm.Allreduce(np.zeros(0), np.zeros(0))
comm.Allgatherv(np.zeros(0), [np.zeros(0), [0] * size])
comm.Alltoall(np.zeros(0), np.zeros(0))
""",
    "True",
    "a count of 0 is a count",
)
collectives.right(
    "an operation of one's own, with another handle on every rank",
    """
def larger(a, b, _):
    x, y = np.frombuffer(a), np.frombuffer(b)
    y[:] = np.maximum(x, y)
spare = [MPI.Op.Create(larger, commute=True) for i in range(rank)]
op, maximum = MPI.Op.Create(larger, commute=True), np.zeros(1)
comm.Allreduce(np.full(1, float(rank)), maximum, op=op)
for one in [*spare, op]: one.Free()
""",
    "maximum[0] == 3",
    "6.9.5: handles are local",
)
collectives.right(
    "types and communicators with another handle on every rank",
    """
spare = [MPI.INT.Create_contiguous(i + 1).Commit() for i in range(rank)]
spare_comms = [MPI.COMM_SELF.Dup() for i in range(3 - rank)]
pair, other = MPI.DOUBLE.Create_contiguous(2).Commit(), comm.Dup()
value = np.full(4, float(rank))
other.Bcast([value, 2, pair], root=2)
for one in [*spare, *spare_comms, pair, other]: one.Free()
""",
    "value[3] == 2",
    "2.5.1: handles are local",
)
collectives.right(
    "statements between the same collectives",
    """
value = np.full(1, float(rank))
if rank == 0:
    burn(0.1); comm.Bcast(value, root=0); comm.send(1, dest=3); comm.Barrier()
elif rank == 3:
    got = comm.irecv(source=0); comm.Bcast(value, root=0); comm.Barrier(); got.wait()
else:
    comm.Bcast(value, root=0); time.sleep(0.2); comm.Barrier()
""",
    "value[0] == 0",
    "unlike text, like collectives",
)
collectives.right(
    "even and odd ranks do other things on their halves",
    """
half = comm.Split(rank % 2, rank)
total = np.full(1, 1.0)
if rank % 2:
    for step in range(5): half.Allreduce(MPI.IN_PLACE, total)
else:
    half.Barrier()
    half.Bcast(total, root=1)
comm.Barrier()
half.Free()
""",
    "total[0] == (32 if rank % 2 else 1)",
    "order counts on each communicator by itself",
)
collectives.right(
    "two communicators in unlike order, nonblocking",
    """
other = comm.Dup()
first, second = (comm, other) if rank % 2 else (other, comm)
qs = [first.Ibarrier(), second.Ibarrier()]
MPI.Request.Waitall(qs)
other.Free()
""",
    "True",
    "6.12: what waits is not what starts",
)
collectives.right(
    "neighbours on a grid with edges",
    """
cart = comm.Create_cart([2, 2], periods=[False, True])
into = np.full(4, -1.0)
cart.Neighbor_allgather(np.full(1, float(rank)), into)
down, up = cart.Shift(0, 1)
edges = [i for i, neighbour in enumerate((down, up)) if neighbour == MPI.PROC_NULL]
cart.Free()
""",
    "len(edges) == 1 and into[edges[0]] == -1 and into[2] == into[3] == rank ^ 1",
    "8.6: nothing comes from MPI_PROC_NULL",
)
collectives.right(
    "neighbours in a directed graph",
    """
graph = comm.Create_dist_graph_adjacent([0] if rank else [1, 2, 3], [0] if rank else [1, 2, 3])
into = np.zeros(1 if rank else 3)
graph.Neighbor_alltoall(np.full(1 if rank else 3, float(rank)), into)
graph.Free()
""",
    "into.tolist() == ([0] if rank else [1, 2, 3])",
    "8.6: the numbers of neighbours may differ",
)
collectives.right(
    "Bcast from one group to the other",
    """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
value, total = np.full(1, float(rank)), np.zeros(1)
root = {0: MPI.ROOT, 1: MPI.PROC_NULL}.get(rank, 0)
inter.Bcast(value, root=root)
inter.Allreduce(np.full(1, float(rank)), total)
inter.Barrier()
inter.Free(); half.Free()
""",
    "value[0] == (rank if rank < 2 else 0) and total[0] == (5 if rank < 2 else 1)",
    "6.2.3: ROOT, PROC_NULL and a rank are one and the same root",
)
collectives.right(
    "a file written and read by all",
    """
mode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
file, back = MPI.File.Open(comm, "all-of-it", mode), np.zeros(size)
file.Set_view(0, MPI.DOUBLE)
file.Write_at_all(rank, np.full(1, float(rank)))
file.Sync()
comm.Barrier()
file.Read_at_all(0, back)
file.Close()
""",
    "back.tolist() == [0, 1, 2, 3]",
    "14",
)
collectives.right(
    "lowercase objects of unlike size",
    """
got = comm.allgather("x" * rank)
table = comm.alltoall([[rank] * i for i in range(size)])
part = comm.scatter([list(range(i)) for i in range(size)] if rank == 3 else None, root=3)
maximum = comm.allreduce((rank, "r"), op=MPI.MAX)
""",
    "got == ['', 'x', 'xx', 'xxx'] and table == [[i] * rank for i in range(size)]"
    " and part == list(range(rank)) and maximum == (3, 'r')",
    "the sizes are exchanged first",
)
collectives.right(
    "one rank late in every round",
    """
total = np.zeros(1)
for step in range(4):
    if step == rank: burn(0.15)
    comm.Allreduce(np.ones(1), total)
""",
    "total[0] == 4",
    "late is not missing",
)
collectives.right(
    "large Allreduce",
    """
total = np.zeros(1_000_000)
comm.Allreduce(np.full(1_000_000, 1.0), total)
value = total[-1]
del total
""",
    "value == 4",
    "slow is not stuck",
)

# ---------------------------------------------------------------------------------- communicators

communicators = Category("communicators")
PAIR = """
half = comm.Split(rank // 2, rank)
inter = half.Create_intercomm(0, comm, 2 if rank < 2 else 0, 7)
"""

communicators.unlike(
    "Barrier against Dup",
    "if rank == 0: comm.Barrier()\nelse: other = comm.Dup()",
    "Barrier",
    "Comm_dup",
    why="7.4.2: MPI_Comm_dup is collective",
)
communicators.unlike(
    "Dup against Split",
    "other = comm.Dup() if rank == 1 else comm.Split(0, rank)",
    "Comm_dup",
    "Comm_split",
    why="7.4.2: both are collective",
)
communicators.unlike(
    "Dup against Idup",
    """
own = comm.Dup()
if rank == 2: other = own.Dup()
else:
    other, q = own.Idup()
    q.Wait()
""",
    "Comm_dup",
    "Comm_idup",
    why="6.12: a nonblocking collective does not match a blocking one",
)
communicators.unlike(
    "grids of unlike dims",
    "cart = comm.Create_cart([4, 1] if rank == 3 else [2, 2])",
    "Cart_create",
    why="8.5.1: all processes pass identical values",
)
communicators.unlike(
    "grids of unlike periods",
    "cart = comm.Create_cart([4], periods=[rank == 0])",
    "Cart_create",
    why="8.5.1: all processes pass identical values",
)
communicators.deadlock(
    "Create with unlike groups",
    """
group = comm.group.Incl([0, 1] if rank == 0 else [0, 1, 2])
other = comm.Create(group)
""",
    cause="collective",
    why="7.4.2: the groups are the same, or have no member in common",
)
communicators.unlike(
    "Allreduce against Split",
    "if rank == 3: comm.Allreduce(np.ones(1), np.zeros(1))\nelse: other = comm.Split(0, rank)",
    "Allreduce",
    "Comm_split",
)
communicators.unlike(
    "Idup against Ibarrier",
    """
own = comm.Dup()
if rank == 0:
    other, q = own.Idup()
else:
    q = own.Ibarrier()
q.Wait()
""",
    "Comm_idup",
    "Ibarrier",
)
communicators.starved(
    "Dup without one rank",
    "if rank != 2: other = comm.Dup()",
    (0, 1, 3),
    why="7.4.2: collective",
)
communicators.starved(
    "Split without one rank",
    "if rank != 0: other = comm.Split(rank % 2, rank)",
    (1, 2, 3),
    why="7.4.2: collective over the old communicator, whatever the colours",
)
communicators.starved(
    "Create called by the members only",
    "if rank < 2: other = comm.Create(comm.group.Incl([0, 1]))",
    (0, 1),
    why="7.4.2: MPI_Comm_create is called by all, MPI_Comm_create_group by the members",
)
communicators.starved(
    "Create_group with a member missing",
    "group = comm.group.Incl([0, 1, 2])\nif rank < 2: other = comm.Create_group(group, tag=3)",
    (0, 1),
    why="7.4.2: collective over the group",
)
communicators.deadlock(
    "Create_group, and a member in a barrier",
    """
group = comm.group.Incl([1, 2, 3])
if rank == 3: comm.Barrier()
elif rank: other = comm.Create_group(group, tag=3)
else: comm.Barrier()
""",
    ALL,
    core=(3,),
    why="ranks 1 and 2 wait for rank 3, and it for them",
)
communicators.starved(
    "a grid that one rank does not join",
    "if rank != 1: cart = comm.Create_cart([3])",
    (0, 2, 3),
    why="8.5.1: collective, though rank 3 has no place in it",
)
communicators.starved(
    "intercommunicator that one group does not make",
    """
half = comm.Split(rank // 2, rank)
if rank < 2: inter = half.Create_intercomm(0, comm, 2, 7)
""",
    (0, 1),
    why="7.6.2: both groups take part",
)
communicators.starved(
    "Merge without one rank",
    PAIR + "if rank != 3: both = inter.Merge(high=rank > 1)",
    (0, 1, 2),
    why="7.6.2: collective over both groups",
)
communicators.starved(
    "Idup without one rank",
    """
own = comm.Dup()
if rank != 1:
    other, q = own.Idup()
    q.Wait()
""",
    (0, 2, 3),
    why="7.4.2: the wait is where it stops",
)
communicators.starved(
    "Create_from_group with a member missing",
    'if rank: other = MPI.Intracomm.Create_from_group(comm.group, "a case")',
    (1, 2, 3),
    why="7.4.2: collective over the group",
)
communicators.deadlock(
    "two communicators duplicated in unlike order",
    """
a, b = comm.Dup(), comm.Dup()
for one in ((a, b) if rank == 2 else (b, a)): other = one.Dup()
""",
    ALL,
    core=(2,),
    why="7.4.2: a circle over two communicators",
)
communicators.deadlock(
    "ring of receives on a merged communicator",
    PAIR
    + """
both = inter.Merge(high=rank > 1)
both.Recv(np.zeros(1), source=(both.rank - 1) % both.size)
""",
    ALL,
    "circle",
    why="a communicator like any other",
)
communicators.deadlock(
    "leaders that both receive over an intercommunicator",
    PAIR + "if half.rank == 0: inter.Recv(np.zeros(1), source=0)",
    (0, 2),
    "circle",
    why="7.6: rank 0 of the other group is meant",
)
communicators.deadlock(
    "one half in a circle",
    """
half = comm.Split(rank % 2, rank)
if rank % 2 == 0: half.Recv(np.zeros(1), source=1 - half.rank)
else: got = half.sendrecv(rank, dest=1 - half.rank, source=1 - half.rank)
""",
    (0, 2),
    "circle",
    why="ranks count in the half",
)
communicators.deadlock(
    "ring of receives on a duplicate made without waiting",
    """
other, q = comm.Idup()
q.Wait()
other.Recv(np.zeros(1), source=left)
""",
    ALL,
    "circle",
    why="a communicator like any other",
)

communicators.right(
    "colours, keys, and a rank without colour",
    """
part = comm.Split(MPI.UNDEFINED if rank == 1 else rank % 2, -rank)
outside = part == MPI.COMM_NULL
members = [] if outside else part.allgather(rank)
if not outside: part.Free()
""",
    "members == {0: [2, 0], 1: [], 2: [2, 0], 3: [3]}[rank]",
    "7.4.2: MPI_UNDEFINED takes part and gets MPI_COMM_NULL",
)
communicators.right(
    "Create_group by its members only",
    """
total = None
if rank != 1:
    part = comm.Create_group(comm.group.Incl([3, 0, 2]), tag=5)
    total = part.allgather(rank)
    part.Free()
""",
    "total == (None if rank == 1 else [3, 0, 2])",
    "7.4.2",
)
communicators.right(
    "Create with groups that have no member in common",
    """
group = comm.group.Incl([0, 3] if rank in (0, 3) else [2, 1])
part = comm.Create(group)
members = part.allgather(rank)
part.Free()
""",
    "members == ([0, 3] if rank in (0, 3) else [2, 1])",
    "7.4.2: allowed since MPI 2.2",
)
communicators.right(
    "a grid smaller than its communicator",
    """
cart = comm.Create_cart([3], periods=[True])
inside = cart != MPI.COMM_NULL
got = cart.sendrecv(rank, dest=(rank + 1) % 3, source=(rank - 1) % 3) if inside else None
line = cart.Sub([True]) if inside else None
if inside: line.Barrier(); line.Free(); cart.Free()
""",
    "got == (None if rank == 3 else (rank - 1) % 3)",
    "8.5.1: the ranks left over get MPI_COMM_NULL",
)
communicators.right(
    "the parent freed before its duplicate is complete",
    """
own = comm.Dup()
first, p = own.Idup()
second, q = own.Idup()
own.Free()
q.Wait()
p.Wait()
sums = first.allreduce(rank), second.allreduce(1)
first.Free()
second.Free()
""",
    "sums == (6, 4)",
    "7.4.3: freeing marks it for deallocation",
)
communicators.right(
    "a duplicate made while its ranks do other things",
    """
first, p = comm.Idup()
if rank == 0:
    p.Wait()
    comm.send(0, dest=1)
elif rank == 1: comm.recv(source=0)
else: time.sleep(0.5)
whole = comm.Dup()
p.Wait()
sums = first.allreduce(rank), whole.allreduce(rank)
first.Free()
whole.Free()
""",
    "sums == (6, 6)",
    "7.4.2: the duplicate is made without the other ranks' waits",
)
communicators.right(
    "Idup overlapped with a collective and a message",
    """
other, q = comm.Idup()
total = comm.allreduce(rank)
got = comm.sendrecv(rank, dest=right, source=left)
q.Wait()
more = other.allreduce(rank)
other.Free()
""",
    "total == more == 6 and got == left",
    "7.4.2",
)
communicators.right(
    "merged, with the second group first",
    PAIR
    + """
both = inter.Merge(high=rank < 2)
members = both.allgather(rank)
total = np.zeros(1)
both.Allreduce(np.ones(1), total)
both.Free(); inter.Free(); half.Free()
""",
    "members == [2, 3, 0, 1] and total[0] == 4",
    "7.6.2: the group that says high comes last",
)
communicators.right(
    "an intercommunicator split",
    """
half = comm.Split(rank % 2)
inter = half.Create_intercomm(0, comm, 1 - rank % 2, tag=3)
part = inter.Split(half.rank)
part.Barrier()
sizes = part.size, part.remote_size
part.Free(); inter.Free(); half.Free()
""",
    "sizes == (1, 1)",
    "7.4.2: those of one colour in both groups",
)
communicators.right(
    "an attribute that holds a communicator, freed with it",
    """
gone = []
def let_go(of, key, value):
    total = np.ones(1)
    value.Allreduce(MPI.IN_PLACE, total)
    gone.append(total[0])
    value.Free()
key = MPI.Comm.Create_keyval(None, let_go)
own = comm.Dup()
own.Set_attr(key, comm.Dup())
before = len(gone)
own.Free()
MPI.Comm.Free_keyval(key)
""",
    "before == 0 and gone == [4]",
    "7.7.2: the callback comes when the communicator is freed, not later",
)
communicators.right(
    "Create_from_group",
    """
other = MPI.Intracomm.Create_from_group(comm.group, "a right case")
members = other.allgather(rank)
got = other.sendrecv(rank, dest=right, source=left)
other.Free()
""",
    "members == [0, 1, 2, 3] and got == left",
    "7.4.2: without a parent communicator",
)
communicators.right(
    "a hundred duplicates made and freed",
    """
total = 0
for i in range(100):
    other = comm.Dup()
    if i % 25 == 0: total += other.allreduce(1)
    other.Free()
""",
    "total == 16",
    "7.4.3",
)
communicators.right(
    "freed with a receive open on it",
    """
other, into = comm.Dup(), np.zeros(1)
q = other.Irecv(into, source=left)
s = other.Isend(np.full(1, float(rank)), dest=right)
other.Free()
MPI.Request.Waitall([q, s])
""",
    "into[0] == left",
    "7.4.3: what is under way goes on",
)
communicators.right(
    "an attribute is copied once for each Dup",
    """
copies = []
def copy(comm, key, value):
    copies.append(value)
    return value + 1
key = MPI.Comm.Create_keyval(copy_fn=copy)
a = comm.Dup(); a.Set_attr(key, 10)
b = a.Dup(); c = b.Dup()
found = [one.Get_attr(key) for one in (a, b, c)]
for one in (a, b, c): one.Free()
MPI.Comm.Free_keyval(key)
""",
    "copies == [10, 11] and found == [10, 11, 12]",
    "7.7.2: called once for each MPI_Comm_dup",
)
communicators.case(
    "a message received in an attribute's callback",
    "7.7.2 allows it; it is in no count, so that nothing is proved until the next verdict",
    Cell(
        """
got = np.zeros(1)
def receive(of, key, value):
    comm.Recv(got, source=1, tag=5)
if rank == 0:
    key = MPI.Comm.Create_keyval(None, receive)
    own = MPI.COMM_SELF.Dup()
    own.Set_attr(key, 3)
    own.Free()
if rank == 1:
    comm.Send(np.ones(1), dest=0, tag=5)
""",
        check="got[0] == (rank == 0)",
        words=("not judged: messages within a callback",),
    ),
    Cell("comm.Recv(np.zeros(1), source=left)", "ended", ALL),
    quiet=True,
)
communicators.right(
    "ranks that share memory, and a late one",
    """
if rank == 3: time.sleep(0.6)
node = comm.Split_type(MPI.COMM_TYPE_SHARED)
count = node.allreduce(1)
node.Disconnect()
""",
    "count == 4",
    "7.4.2",
)
communicators.deadlock(
    "a disconnect with a receive that nobody answers",
    """
other = comm.Dup()
into = np.zeros(1)
if rank == 0: q = other.Irecv(into, source=1)
other.Disconnect()
""",
    why="11.10.4: it ends when all communication on the communicator has",
)
communicators.right(
    "a disconnect that ends when large messages have come",
    """
other = comm.Dup()
data, into = np.full(BIG, float(rank)), np.zeros(BIG)
requests = [other.Irecv(into, source=left)]
if rank == 2: time.sleep(0.5)
requests.append(other.Isend(data, dest=right))
other.Disconnect()
MPI.Request.Waitall(requests)
""",
    "np.all(into == left)",
    "11.10.4: the requests are complete then, and their owner's as before",
)
communicators.right(
    "halves of halves, each rank in another order of work",
    """
half = comm.Split(rank // 2, rank)
alone = half.Split(half.rank, 0)
if rank % 2: half.Barrier(); alone.Barrier()
else: alone.Barrier(); half.Barrier()
sizes = (half.size, alone.size)
alone.Free(); half.Free()
""",
    "sizes == (2, 1)",
    "a communicator of one rank waits for nobody",
)

# -------------------------------------------------------------------------------------- one-sided

one_sided = Category("one-sided")
WINDOW = """
win = MPI.Win.Allocate(8 * size, 8, comm=comm)
memory = np.frombuffer(win.tomemory(), "d")
memory[:] = -1
comm.Barrier()
"""

one_sided.starved(
    "fence without one rank",
    WINDOW + "if rank != 3: win.Fence()",
    None,
    why="12.5.1: a fence is collective",
)
one_sided.deadlock(
    "one fence too few, then a barrier",
    WINDOW
    + """
win.Fence()
win.Put(np.full(1, float(rank)), right)
if rank != 1: win.Fence()
comm.Barrier()
""",
    ALL,
    core=(1,),
    why="12.5.1: the others wait for rank 1 in the fence, and it for them in the barrier",
)
one_sided.starved(
    "window that one rank does not make",
    "if rank != 0: win = MPI.Win.Allocate(8, 8, comm=comm)",
    (1, 2, 3),
    why="12.2.2: collective",
)
one_sided.starved(
    "window that one rank does not free",
    WINDOW + "del memory\nif rank != 2: win.Free()",
    (0, 1, 3),
    why="12.2.5: freeing is collective and waits for all",
)
one_sided.starved(
    "posted, and nobody starts",
    WINDOW
    + """
if rank == 0:
    win.Post(comm.group.Incl([1]))
    win.Wait()
""",
    (0,),
    why="12.5.2: Wait waits for the origin's Complete",
)
one_sided.starved(
    "started, and nobody posts",
    WINDOW
    + """
if rank == 0:
    win.Start(comm.group.Incl([1]))
    win.Put(np.ones(1), 1)
    win.Complete()
""",
    (0,),
    why="12.5.2: the access waits for the target's Post",
)
one_sided.starved(
    "started, never completed",
    WINDOW
    + """
if rank == 0:
    win.Post(comm.group.Incl([1]))
    win.Wait()
if rank == 1:
    win.Start(comm.group.Incl([0]))
    win.Put(np.ones(1), 0)
""",
    (0,),
    why="12.5.2: Wait waits for the origin's Complete",
)
one_sided.deadlock(
    "both access before they expose",
    WINDOW
    + """
if rank < 2:
    other = comm.group.Incl([1 - rank])
    win.Start(other)
    win.Put(np.ones(1), 1 - rank)
    win.Complete()
    win.Post(other)
    win.Wait()
""",
    (0, 1),
    why="12.5.2: neither comes to its Post",
)
one_sided.starved(
    "lock that its holder keeps",
    WINDOW
    + """
if rank == 0:
    win.Lock(0)
    win.Put(np.ones(1), 0)
    win.Flush(0)
    comm.Send(np.ones(1), dest=1)
if rank == 1:
    comm.Recv(np.zeros(1), source=0)
    win.Lock(0)
    win.Put(np.ones(1), 0)
    win.Unlock(0)
""",
    (1,),
    why="12.5.3: an exclusive lock waits for its holder, whose cell has ended",
)
one_sided.deadlock(
    "lock held across a barrier",
    WINDOW
    + """
if rank == 0:
    win.Lock(2)
    win.Put(np.ones(1), 2)
    win.Flush(2)
    comm.Send(np.ones(1), dest=1)
    comm.Barrier()
    win.Unlock(2)
elif rank == 1:
    comm.Recv(np.zeros(1), source=0)
    win.Lock(2)
    win.Put(np.ones(1), 2)
    win.Unlock(2)
    comm.Barrier()
else:
    comm.Barrier()
""",
    ALL,
    core=(0, 1),
    why="12.5.3: rank 0 unlocks only after the barrier",
)
one_sided.deadlock(
    "two locks taken in unlike order",
    """
wins = [MPI.Win.Allocate(8, 8, comm=comm) for i in range(2)]
if rank < 2:
    first, second = wins[rank], wins[1 - rank]
    for step, win in enumerate((first, second)):
        win.Lock(3)
        win.Put(np.ones(1), 3)
        win.Flush(3)
        if step == 0: comm.sendrecv(None, dest=1 - rank, source=1 - rank)
    for win in wins: win.Unlock(3)
comm.Barrier()
""",
    ALL,
    core=(0, 1),
    why="12.5.3: each holds what the other wants",
)
one_sided.deadlock(
    "lock held while its holder receives from the one that wants it",
    WINDOW
    + """
if rank == 0:
    win.Lock(0)
    win.Put(np.ones(1), 0)
    win.Flush(0)
    comm.Send(np.ones(1), dest=1)
    comm.Recv(np.zeros(1), source=1)
    win.Unlock(0)
if rank == 1:
    comm.Recv(np.zeros(1), source=0)
    win.Lock(0)
    win.Put(np.ones(1), 0)
    win.Unlock(0)
    comm.Send(np.ones(1), dest=0)
""",
    (0, 1),
    why="12.5.3: a circle of a lock and a message",
)
one_sided.deadlock(
    "fence against barrier",
    WINDOW + "if rank == 2: comm.Barrier()\nelse: win.Fence()",
    None,
    why="12.5.1: two collectives on two communicators, each without somebody",
)
one_sided.unlike(
    "fence against free",
    WINDOW + "del memory\nif rank == 1: win.Fence()\nelse: win.Free()",
    "Win_fence",
    "Win_free",
)
one_sided.unlike(
    "Win_create against Win_allocate",
    """
held = np.zeros(1)
if rank == 3: win = MPI.Win.Create(held, 8, comm=comm)
else: win = MPI.Win.Allocate(8, 8, comm=comm)
""",
    "Win_create",
    "Win_allocate",
)
one_sided.unlike(
    "Win_allocate against Bcast",
    "if rank == 0: comm.Bcast(np.zeros(1))\nelse: win = MPI.Win.Allocate(8, 8, comm=comm)",
    "Win_allocate",
    "Bcast",
)

one_sided.right(
    "fence, put, fence",
    WINDOW
    + """
win.Fence()
win.Put(np.full(1, float(rank)), right)
win.Fence()
got = memory[0]
del memory
win.Free()
""",
    "got == left",
    "12.5.1",
)
one_sided.right(
    "fence with a late rank",
    WINDOW
    + """
win.Fence()
if rank == 1: burn(0.8)
win.Accumulate(np.full(1, 1.0 + rank), 0, op=MPI.SUM)
win.Fence()
got = memory[0]
del memory
win.Free()
""",
    "rank or got == 9",
    "12.5.1",
)
one_sided.right(
    "post, start, complete, wait in a ring",
    WINDOW
    + """
win.Post(comm.group.Incl([left]))
win.Start(comm.group.Incl([right]))
win.Put(np.full(1, float(rank)), right)
win.Complete()
win.Wait()
got = memory[0]
del memory
win.Free()
""",
    "got == left",
    "12.5.2: Post waits for nobody",
)
one_sided.right(
    "a post for a later epoch comes before that of this one",
    WINDOW
    + """
if rank == 0:
    win.Post(comm.group.Incl([2]))
    comm.Send(np.zeros(1), 1)
    win.Wait()
if rank == 1:
    comm.Recv(np.zeros(1), 0)
    win.Post(comm.group.Incl([2]))
    win.Wait()
for target in (1, 0) if rank == 2 else ():
    win.Start(comm.group.Incl([target]))
    win.Put(np.full(1, 5.0), target)
    win.Complete()
got = memory[0]
comm.Barrier()
del memory
win.Free()
""",
    "rank > 1 or got == 5",
    "12.5.2: Start waits for the ranks of its group alone. MPICH's own counts posts",
)
one_sided.right(
    "neighbours in turn, a hundred times",
    WINDOW
    + """
sums = 0.0
for i in range(100):
    other = comm.group.Incl([rank ^ 1 if i % 2 else 3 - rank])
    win.Post(other)
    win.Start(other)
    win.Put(np.full(1, float(i)), other.Translate_ranks([0], comm.group)[0])
    win.Complete()
    win.Wait()
    sums += memory[0]
del memory
win.Free()
""",
    "sums == 4950",
    "12.5.2",
)
one_sided.right(
    "a posted window is tested until a late origin is done",
    WINDOW
    + """
if rank == 0:
    win.Post(comm.group.Incl([1]))
    while not win.Test(): pass
if rank == 1:
    time.sleep(0.8)
    win.Start(comm.group.Incl([0]))
    win.Put(np.full(1, 6.0), 0)
    win.Complete()
got = memory[0]
comm.Barrier()
del memory
win.Free()
""",
    "rank or got == 6",
    "12.5.2",
)
one_sided.right(
    "everybody locks, one holds on for long",
    WINDOW
    + """
one = np.zeros(1)
for step in range(2):
    win.Lock(0)
    win.Get(one, 0); win.Flush(0)
    if rank == 2 and step == 0: time.sleep(0.6)
    win.Put(one + 1, 0)
    win.Unlock(0)
comm.Barrier()
got = memory[0]
comm.Barrier()
del memory
win.Free()
""",
    "rank or got == 7",
    "12.5.3: an exclusive lock is passed on",
)
one_sided.right(
    "shared locks and a counter",
    WINDOW
    + """
if rank == 1: win.Lock(1); memory[0] = 0; win.Unlock(1)
comm.Barrier()
mine = np.zeros(1)
win.Lock(1, MPI.LOCK_SHARED)
win.Fetch_and_op(np.ones(1), mine, 1, op=MPI.SUM)
win.Unlock(1)
drawn = sorted(comm.allgather(mine[0]))
del memory
win.Free()
""",
    "drawn == [0, 1, 2, 3]",
    "12.3.4: every rank draws its own number",
)
one_sided.right(
    "a window of a rank that computes without MPI",
    WINDOW
    + """
got = np.zeros(1)
if rank == 0:
    win.Lock(1)
    win.Get(got, 1)
    win.Unlock(1)
if rank == 1: burn(1.0)
comm.Barrier()
del memory
win.Free()
""",
    "rank or got[0] == -1",
    "12.7.2: rank 1 need not call anything for it",
)
one_sided.right(
    "a window of a rank whose cell has ended",
    WINDOW
    + """
got = np.zeros(1)
if rank == 0:
    win.Lock(1)
    win.Get(got, 1)
    win.Unlock(1)
""",
    "rank or got[0] == -1",
    "12.7.2: rank 1 need not call anything for it",
)
one_sided.right(
    "lock_all, requests and flushes",
    WINDOW
    + """
win.Lock_all()
qs = [win.Rput(np.full(1, float(rank)), other, target=rank) for other in range(size)]
MPI.Request.Waitall(qs)
win.Flush_all()
comm.Barrier()
got = np.zeros(size)
win.Rget(got, right).Wait()
win.Unlock_all()
comm.Barrier()
del memory
win.Free()
""",
    "got.tolist() == [0, 1, 2, 3]",
    "12.5.3",
)
one_sided.right(
    "a spin lock by compare and swap",
    """
win = MPI.Win.Allocate(16, 8, comm=comm)
memory = np.frombuffer(win.tomemory(), "i8")
memory[:] = 0
comm.Barrier()
free, taken, seen, value = np.zeros(1, "i8"), np.ones(1, "i8"), np.ones(1, "i8"), np.zeros(1, "i8")
win.Lock_all()
seen[0] = 1
while seen[0]:
    win.Compare_and_swap(taken, free, seen, 0, 0); win.Flush(0)
win.Fetch_and_op(value, value, 0, 1, op=MPI.NO_OP); win.Flush(0)
time.sleep(0.1)
win.Accumulate(value + 1, 0, target=1, op=MPI.REPLACE); win.Flush(0)
win.Fetch_and_op(free, seen, 0, 0, op=MPI.REPLACE); win.Flush(0)
win.Unlock_all()
comm.Barrier()
got = int(memory[1])
comm.Barrier()
del memory
win.Free()
""",
    "rank or got == 4",
    "12.3.4: each waits by looking, until the one before it gives back",
)
one_sided.right(
    "dynamic window",
    """
held = np.full(4, float(rank))
win = MPI.Win.Create_dynamic(comm=comm)
win.Attach(held)
places = comm.allgather(MPI.Get_address(held))
got = np.zeros(4)
win.Fence()
win.Get(got, right, target=places[right])
win.Fence()
win.Detach(held)
win.Free()
""",
    "got.tolist() == [right] * 4",
    "12.2.4",
)
one_sided.right(
    "a window on one half while the other exchanges messages",
    """
half = comm.Split(rank // 2, rank)
if rank < 2:
    win = MPI.Win.Allocate(8, 8, comm=half)
    memory = np.frombuffer(win.tomemory(), "d")
    win.Fence(); win.Put(np.full(1, float(rank)), 1 - rank); win.Fence()
    got = memory[0]
    del memory
    win.Free()
else:
    got = half.sendrecv(rank, dest=1 - half.rank, source=1 - half.rank)
half.Free()
""",
    "got == (rank ^ 1)",
    "12.2: collective over its own communicator only",
)

# ---------------------------------------------------------------------------------------- threads

threads = Category("threads")

threads.deadlock(
    "two threads of one rank, both stuck",
    """
if rank == 0:
    def other(): comm.Recv(np.zeros(1), source=1, tag=1)
    helper = threading.Thread(target=other)
    helper.start()
    comm.Recv(np.zeros(1), source=1, tag=2)
if rank == 1: comm.Recv(np.zeros(1), source=0)
""",
    (0, 1),
    why="neither thread can serve rank 1",
)
threads.deadlock(
    "a thread on every rank, all stuck",
    """
other = comm.Dup()
helper = threading.Thread(target=lambda: other.Recv(np.zeros(1), source=left))
helper.start()
comm.Recv(np.zeros(1), source=right)
""",
    ALL,
    why="eight receives and no send",
)
threads.case(
    "an idle helper beside a stuck main thread",
    "the helper waits for an event that only the main thread sets",
    Cell(
        """
done = threading.Event()
helper = threading.Thread(target=done.wait)
helper.start()
comm.Recv(np.zeros(1), source=left)
""",
        "ended",
        ALL,
    ),
    Cell("done.set()\nhelper.join()"),
)
threads.case(
    "a pool of idle threads, and a ring of receives in the next cell",
    "the threads of a pool live on and do nothing",
    Cell(
        """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
squares = list(pool.map(lambda i: i ** 2, range(4)))
""",
        check="squares == [0, 1, 4, 9]",
    ),
    Cell("comm.Recv(np.zeros(1), source=left)", "ended", ALL),
    Cell("pool.shutdown()"),
)
threads.case(
    "a pool whose thread has called MPI, and a ring of receives in the next cell",
    "the thread waits for work that nobody gives it",
    Cell(
        """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)
got = pool.submit(comm.recv, source=left)
comm.send(rank, dest=right)
""",
        check="got.result() == left",
    ),
    Cell("comm.Recv(np.zeros(1), source=left)", "ended", ALL),
    Cell("if rank == 0: comm.Recv(np.zeros(1), source=left)", "ended", (0,)),
    Cell("pool.shutdown()"),
)
threads.suspected(
    "the main thread waits for one that is stuck",
    """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool: pool.submit(comm.recv, source=left).result()
""",
    ALL,
    "nobody sends, and no thread computes",
    quiet=True,
)
threads.suspected(
    "the main thread joins one that is stuck",
    """
helper = threading.Thread(target=comm.recv, kwargs={"source": left})
helper.start()
helper.join()
""",
    ALL,
    "the error ends the thread, and nobody asks for it",
    quiet=True,
)
threads.case(
    "a thread in one cell, a deadlock in the next",
    "a thread that has ended is forgotten",
    Cell(
        """
got = []
helper = threading.Thread(target=lambda: got.append(comm.recv(source=left)))
helper.start()
comm.send(rank, dest=right)
helper.join()
""",
        check="got == [left]",
    ),
    Cell("comm.Recv(np.zeros(1), source=left)", "deadlock", ALL, cause="circle"),
)
threads.starved(
    "a thread that ends without having sent",
    """
if rank == 1:
    helper = threading.Thread(target=time.sleep, args=(0.7,))
    helper.start()
if rank == 0: comm.Recv(np.zeros(1), source=1)
""",
    (0,),
    why="as long as the thread lives it may send; then nobody is left",
)
threads.deadlock(
    "a thread holds what the main thread wants",
    """
lock = threading.Lock()
if rank == 0:
    lock.acquire()
    comm.Recv(np.zeros(1), source=1)
    lock.release()
if rank == 1: comm.Recv(np.zeros(1), source=0)
""",
    (0, 1),
    "circle",
    why="the lock does not matter here, and no thread was started",
)

threads.right(
    "a helper that sends later",
    """
got = None
if rank == 0:
    def later():
        time.sleep(0.8)
        comm.send("late", dest=1)
    helper = threading.Thread(target=later)
    helper.start()
    got = comm.recv(source=1)
    helper.join()
if rank == 1:
    got = comm.recv(source=0)
    comm.send("thanks", dest=0)
""",
    "got == ['thanks', 'late', None, None][rank]",
    "the rank can go on while one of its threads can",
)
threads.right(
    "a helper that Python's own threading does not know",
    """
got = None
if rank == 0:
    import _thread
    _thread.start_new_thread(lambda: (time.sleep(1.5), comm.send("raw", dest=0)), ())
    got = comm.recv(source=0)
""",
    "got == ('raw' if rank == 0 else None)",
    "it sends, however it was started",
)
threads.right(
    "a helper that outlives its cell",
    """
got = None
if rank == 0:
    timer = threading.Timer(0.9, lambda: comm.send("after the cell", dest=1))
    timer.start()
if rank == 1: got = comm.recv(source=0)
""",
    "got == ('after the cell' if rank == 1 else None)",
    "rank 0's cell has ended, and its thread has not",
)
threads.right(
    "a thread sends to its own rank",
    """
helper = threading.Thread(target=lambda: (time.sleep(0.3), comm.send(rank, dest=rank, tag=5)))
helper.start()
got = comm.recv(source=rank, tag=5)
helper.join()
""",
    "got == rank",
    "11.6.1: a blocking call stops its thread only",
)
threads.right(
    "four threads, four tags, to and fro",
    """
results = {}
def talk(tag):
    for step in range(5):
        results[tag] = comm.sendrecv((rank, tag), right, tag, source=left, recvtag=tag)
helpers = [threading.Thread(target=talk, args=(tag,)) for tag in range(4)]
for one in helpers: one.start()
for one in helpers: one.join()
""",
    "results == {tag: (left, tag) for tag in range(4)}",
    "11.6",
)
threads.right(
    "collectives in two threads on two communicators",
    """
other, sums = comm.Dup(), []
def add():
    total = np.zeros(1)
    for step in range(10): other.Allreduce(np.ones(1), total)
    sums.append(total[0])
helper = threading.Thread(target=add)
helper.start()
total = np.zeros(1)
for step in range(10): comm.Allreduce(np.full(1, 2.0), total)
helper.join()
other.Free()
""",
    "sums == [4] and total[0] == 8",
    "11.6.2: one thread at a time on each communicator",
)
threads.right(
    "main thread computes while a helper receives",
    """
got = []
if rank == 2:
    helper = threading.Thread(target=lambda: got.append(comm.recv(source=3)))
    helper.start()
    burn(0.8)
    comm.send("go", dest=3)
    helper.join()
if rank == 3:
    comm.recv(source=2)
    comm.send("gone", dest=2)
""",
    "got == (['gone'] if rank == 2 else [])",
    "rank 2 is stuck in one thread and computes in the other",
)
threads.right(
    "threads that are waited for while another rank computes",
    """
got = []
if rank == 2:
    helper = threading.Thread(target=lambda: got.append(comm.recv(source=3)))
    helper.start()
    helper.join()
if rank == 3:
    burn(3)
    comm.send("late", dest=2)
""",
    "got == (['late'] if rank == 2 else [])",
    "rank 3 computes for longer than the quiet time",
    quiet=True,
)
threads.right(
    "a thread that is waited for computes beside one that receives",
    """
got = []
if rank == 2:
    one = threading.Thread(target=lambda: got.append(comm.recv(source=3)))
    other = threading.Thread(target=lambda: (burn(3), comm.send("go", dest=3)))
    one.start(); other.start()
    other.join(); one.join()
if rank == 3:
    comm.recv(source=2)
    comm.send("gone", dest=2)
""",
    "got == (['gone'] if rank == 2 else [])",
    "the receiving thread can be helped by the computing one",
    quiet=True,
)
threads.right(
    "communicators made in one thread, polled in another",
    """
halt, count = threading.Event(), 0
poller_comm = comm.Dup()
def poll():
    while not halt.is_set():
        poller_comm.Iprobe()
        time.sleep(0)
helper = threading.Thread(target=poll)
helper.start()
for step in range(20):
    other = comm.Dup(); count += other.allreduce(1); other.Free()
halt.set()
helper.join()
poller_comm.Free()
""",
    "count == 80",
    "11.6: calls of several threads at the same time",
)
threads.right(
    "a generalised request that a thread completes",
    """
q = MPI.Grequest.Start()
def finish():
    time.sleep(0.5)
    q.Complete()
helper = threading.Thread(target=finish)
helper.start()
MPI.Request.Wait(q)
helper.join()
""",
    "True",
    "13.2: the program itself ends the operation",
)
threads.right(
    "a pool that sends, and a rank that gathers",
    """
got = []
if rank:
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda i: comm.send((rank, i), dest=0), range(5)))
else:
    got = [comm.recv() for i in range(15)]
""",
    "rank or sorted(got) == [(r, i) for r in (1, 2, 3) for i in range(5)]",
    "11.6",
)
threads.right(
    "one thread blocked for good is freed by the other at the end",
    """
def serve():
    while comm.recv(source=rank, tag=9) != "stop": pass
helper = threading.Thread(target=serve)
helper.start()
time.sleep(0.7)
comm.send("work", dest=rank, tag=9)
comm.Barrier()
comm.send("stop", dest=rank, tag=9)
helper.join()
""",
    "True",
    "a server thread, stopped by its own rank",
)
threads.right(
    "processes of its own that are terminated",
    """
import multiprocessing
own = multiprocessing.get_context("fork").Process(target=time.sleep, args=(20,))
own.start()
own.terminate()
own.join(10)
""",
    "own.exitcode == -15",
    "SIGTERM ends a child of a rank, as one of any program",
)

# ---------------------------------------------------------------------------- errors in the middle

errors = Category("errors in the middle")
NEXT_BCAST = "fresh = np.full(1, 100.0 + rank)\ncomm.Bcast(fresh, root=0)"
IS_FRESH = "fresh[0] == 100"
DIVISION = ("ZeroDivisionError",)

errors.error(
    "an error before a barrier",
    "if rank == 1: 1 / 0\ncomm.Barrier()",
    DIVISION,
    NEXT_BCAST,
    IS_FRESH,
)
errors.error(
    "an error before a Bcast",
    "data = np.full(1, 55.0)\nif rank == 1: 1 / 0\ncomm.Bcast(data, root=0)",
    DIVISION,
    NEXT_BCAST,
    IS_FRESH,
    why="the old message must not be the next Bcast's",
)
errors.error(
    "an error after two seconds",
    "if rank == 1:\n    time.sleep(2.3)\n    1 / 0\ncomm.Barrier()",
    DIVISION,
    NEXT_BCAST,
    IS_FRESH,
    why="a person sees a bar of progress by then",
    once=True,
)
errors.error(
    "the first lowercase reduction of a communicator",
    "other = comm.Dup()\nx = 1 / rank\ntotal = other.allreduce(x)",
    DIVISION,
    "total = other.allreduce(rank)",
    "total == 6",
    why="the hidden duplicate is made with the interpreter's lock held",
)
errors.error(
    "a lowercase reduction",
    "x = 1 / rank\ntotal = comm.allreduce(x)",
    DIVISION,
    "total = comm.allreduce(rank)",
    "total == 6",
)
errors.error(
    "an error before a receive of small messages",
    """
comm.send(("old", rank), dest=right)
if rank == 2: raise KeyError("mine")
got = comm.recv(source=left)
comm.Barrier()
""",
    ("KeyError", "mine"),
    "comm.send(('new', rank), dest=right)\ngot = comm.recv(source=left)",
    "got == ('new', left)",
    why="the old message must not be received",
)
errors.error(
    "an error that nobody waits for",
    "if rank == 3: raise ValueError('alone')\ntotal = 1",
    ("ValueError", "alone"),
    NEXT_BCAST,
    IS_FRESH,
)
errors.error(
    "a message nobody took, and an error that nobody waits for",
    """
if rank == 0: comm.send("old", dest=1)
if rank == 1: assert False, "too early"
""",
    ("AssertionError", "too early"),
    """
got = None
if rank == 0: comm.send("new", dest=1)
if rank == 1: got = comm.recv(source=0)
""",
    "got == ('new' if rank == 1 else None)",
    why="the cell failed, so its messages are cleared",
)
errors.error(
    "a large message nobody took",
    """
q = comm.Isend(np.full(BIG, 1.0), dest=right)
if rank == 0: 1 / 0
q.Wait()
""",
    DIVISION,
    "into = np.zeros(BIG)\ncomm.Sendrecv(np.full(BIG, 10.0 + rank), right, 0, into, left)",
    "into[-1] == 10 + left",
)
errors.error(
    "errors on two ranks",
    "if rank in (1, 2): [][rank]\ncomm.Allgather(np.ones(1), np.zeros(size))",
    ("IndexError",),
    NEXT_BCAST,
    IS_FRESH,
)
errors.error(
    "the same error everywhere",
    "comm.Barrier()\nundefined_name\ncomm.Barrier()",
    ("NameError", "undefined_name"),
    NEXT_BCAST,
    IS_FRESH,
)
errors.error(
    "an error in the third step of a ring",
    """
value = np.full(1, float(rank))
for step in range(5):
    if rank == 2 and step == 3: raise RuntimeError("third step")
    comm.Sendrecv_replace(value, dest=right, source=left)
""",
    ("RuntimeError", "third step"),
    "value = np.full(1, float(rank))\ncomm.Sendrecv_replace(value, dest=right, source=left)",
    "value[0] == left",
)
errors.error(
    "an error while the others are two collectives further",
    """
value = np.zeros(1)
if rank == 3: 1 / 0
comm.Bcast(value, root=0)
comm.Reduce(value, np.zeros(1), root=3)
comm.Barrier()
""",
    DIVISION,
    NEXT_BCAST,
    IS_FRESH,
)
errors.error(
    "an error on the root, and others that wait for nobody",
    "if rank == 0: 1 / 0\ncomm.Gather(np.full(1, 50.0 + rank), None, root=0)",
    DIVISION,
    "every = np.zeros(size)\ncomm.Gather(np.full(1, 10.0 + rank), every, root=0)",
    "rank or every.tolist() == [10, 11, 12, 13]",
)
errors.error(
    "an error before a Split",
    "if rank == 2: 1 / 0\nhalf = comm.Split(rank % 2, rank)",
    DIVISION,
    "half = comm.Split(rank % 2, rank)\ntotal = half.allreduce(rank)",
    "total == (4 if rank % 2 else 2)",
)
errors.error(
    "an error before a fence",
    WINDOW + "win.Fence()\nif rank == 0: 1 / 0\nwin.Fence()",
    DIVISION,
    WINDOW + "win.Fence(); win.Put(np.full(1, float(rank)), right); win.Fence()\ngot = memory[0]",
    "got == left",
)
errors.error(
    "an error between Isend and Waitall on one rank",
    """
into = np.zeros(1)
qs = [comm.Irecv(into, source=left), comm.Isend(np.full(1, 5.0), dest=right)]
if rank == 1: 1 / 0
MPI.Request.Waitall(qs)
comm.Barrier()
""",
    DIVISION,
    """
into = np.zeros(1)
qs = [comm.Irecv(into, source=left), comm.Isend(np.full(1, 6.0 + rank), dest=right)]
MPI.Request.Waitall(qs)
""",
    "into[0] == 6 + left",
)
errors.error(
    "an error on a communicator of its own",
    "half = comm.Split(rank // 2, rank)\nif rank == 0: 1 / 0\nhalf.Barrier()",
    DIVISION,
    "total = half.allreduce(rank)\nhalf.Free()",
    "total == (1 if rank < 2 else 5)",
)
errors.error(
    "finally: Free",
    """
other = comm.Dup()
try:
    x = 1 / rank
    other.Barrier()
finally:
    other.Free()
""",
    DIVISION,
    NEXT_BCAST,
    IS_FRESH,
    why="what is done in `finally` must not hide what came first",
)
errors.error(
    "finally: Close, of a file",
    """
mode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
file = MPI.File.Open(comm, "with-an-error", mode)
try:
    if rank == 2: 1 / 0
    file.Write_at_all(8 * rank, np.ones(1))
finally:
    file.Close()
""",
    DIVISION,
    NEXT_BCAST,
    IS_FRESH,
    why="one rank closes the file, collectively, while the others write",
)
errors.error(
    "sys.exit on one rank",
    "if rank == 1: sys.exit('enough')\ncomm.Barrier()",
    ("SystemExit", "enough"),
    NEXT_BCAST,
    IS_FRESH,
)
errors.error(
    "a rank that does not exist",
    "if rank == 3: comm.Send(np.ones(1), dest=size)\ncomm.Barrier()",
    ("no such rank",),
    NEXT_BCAST,
    IS_FRESH,
    why="3.2.3: an error of MPI is an error of the program",
)
errors.error(
    "a message longer than its buffer",
    """
if rank == 0: comm.Send(np.ones(10), dest=1)
if rank == 1: comm.Recv(np.zeros(5), source=0)
comm.Barrier()
""",
    ("(?i)truncat",),
    NEXT_BCAST,
    IS_FRESH,
    why="3.2.4: an overflow is an error; with a large message Open MPI itself may crash",
)
errors.error(
    "a communicator that was freed, by a copy of its handle",
    "other = comm.Dup()\ncopy = MPI.Comm.fromhandle(other.handle)\nother.Free()\n"
    "if rank == 2: copy.Barrier()\ncomm.Barrier()",
    ("(?i)communicator|ERR_COMM",),
    NEXT_BCAST,
    IS_FRESH,
    why="7.4.3: whoever has the handle, the communicator is no longer there",
)
errors.error(
    "a communicator that was freed",
    "other = comm.Dup()\nother.Free()\nif rank == 2: other.Barrier()\ncomm.Barrier()",
    ("(?i)communicator|ERR_COMM",),
    NEXT_BCAST,
    IS_FRESH,
    why="7.4.3: the handle is MPI_COMM_NULL",
)
errors.case(
    "a long message on a communicator that its receiver has freed",
    "3.5: it waits for a receive that nobody posts; 7.4.3: freeing waits for nobody",
    Cell("d = comm.Dup()\nif rank == 0: d.Send(np.zeros(BIG), 1, 5)\nd.Free()", "starved", (0,)),
    Cell("d = comm.Dup()\ntotal = d.allreduce(rank)\nd.Free()", check="total == 6"),
)
errors.case(
    "a message left on a communicator that all have freed",
    "it must not turn up on the next communicator",
    Cell(
        "d = comm.Dup()\nif rank == 0: d.send('stale', 1, 5)\nd.Free()\n"
        "if rank == 1: raise ValueError('enough')",
        "error",
        words=("enough",),
    ),
    Cell(
        "d, got = comm.Dup(), 'new'\nif rank == 0: d.send('new', 1, 5)\n"
        "if rank == 1: got = d.recv(source=0, tag=5)\nd.Free()",
        check="got == 'new'",
    ),
)
errors.case(
    "a request on a communicator that was freed",
    "7.4.3: what is under way goes on, and nobody ends it",
    Cell(
        "d, a = comm.Dup(), np.zeros(4)\nq = d.Irecv(a, 1, 5) if rank == 0 else None\nd.Free()\n"
        "if rank == 0: q.Wait()",
        "starved",
        (0,),
    ),
)
errors.case(
    "a receive completed on a communicator that was freed, then a circle",
    "7.4.3: what it received is received",
    Cell(
        """
d = comm.Dup()
if rank == 0:
    q = d.irecv(source=1, tag=1)
    d.Free()
    comm.send(0, 1, 9)
    q.wait()
elif rank == 1:
    comm.recv(source=0, tag=9)
    d.send('x', 0, 1)
    d.Free()
else: d.Free()
"""
    ),
    Cell("if rank < 2: comm.recv(source=1 - rank, tag=1)", "deadlock", (0, 1), cause="circle"),
)
errors.case(
    "freed on one rank while the others are in a barrier on it",
    "what they sent there must not meet the next communicator that gets its number",
    Cell(
        "other = comm.Dup()\nif rank == 1: other.Free()\nelse: other.Barrier()",
        "starved",
        (0, 2, 3),
    ),
    Cell(
        """
spares = []
for i in range(20):
    own = MPI.COMM_SELF.Dup()
    spares.append(own.allreduce(rank))
    own.Free()
whole = comm.Dup()
total = whole.allreduce(rank)
whole.Free()
if rank != 1: other.Free()
after = comm.Dup()
again = after.allreduce(rank)
after.Free()
""",
        check="total == again == 6 and spares == 20 * [rank]",
    ),
)
errors.error(
    "a syntax error",
    "comm.Barrier(\nfor",
    ("SyntaxError",),
    NEXT_BCAST,
    IS_FRESH,
)
errors.case(
    "a deadlock in a try",
    "an `except` that is too wide hides what happened",
    Cell(
        """
went_on = False
try: got = comm.recv(source=left)
except Exception: went_on = True
""",
        "caught",
        ALL,
        cause="circle",
        check="went_on",
    ),
    Cell(NEXT_BCAST, check=IS_FRESH),
)
errors.case(
    "a deadlock in a try, and the cell goes on",
    "the verdict is told, whether or not the rest of a broken cell may still use MPI",
    Cell(
        """
total = 0
try: comm.Recv(np.zeros(1), source=left)
except Exception: pass
total = comm.allreduce(rank)
""",
        "caught",
        ALL,
        cause="circle",
    ),
)
errors.deadlock(
    "a deadlock in a loop that catches everything",
    """
while True:
    try: comm.recv(source=left)
    except: pass
""",
    ALL,
    "circle",
    why="a cell that is broken has to end",
)
errors.starved(
    "a loop on one rank that catches every error",
    """
while rank == 1:
    try: comm.Barrier()
    except Exception: pass
""",
    (1,),
    why="the others' cells have ended",
)
errors.right(
    "an error that the program itself catches",
    """
try: x = 1 / rank
except ZeroDivisionError: x = 0
total = comm.allreduce(1 if x else 0)
""",
    "total == 3",
    why="nobody was lost",
)
errors.right(
    "an MPI error that the program itself catches",
    """
try: comm.Send(np.ones(1), dest=size + rank)
except MPI.Exception as error: refused = error.Get_error_class() == MPI.ERR_RANK
total = comm.allreduce(1)
""",
    "total == 4",
    why="9.3: MPI_ERRORS_RETURN, as mpi4py sets it",
)
errors.right(
    "a loop left early by all, agreed upon",
    """
for step in range(100):
    bad = rank == 2 and step == 3
    if comm.allreduce(bad, op=MPI.LOR): break
""",
    "step == 3",
    why="the way to stop together",
)

# -------------------------------------------------------------------------------- after the break

after = Category("after the break")
RING = Cell("comm.Recv(np.zeros(1), source=left)", "deadlock", ALL, cause="circle")

after.case(
    "a second Wait for a broken receive",
    "it must fail by name: there are no data",
    Cell(
        "into = np.full(1, -7.0)\nq = comm.Irecv(into, source=left)\nq.Wait()",
        "deadlock",
        ALL,
        cause="circle",
    ),
    Cell("q.Wait()", "error", words=("(?i)irecv|was left|broken",)),
)
after.case(
    "a second test of a broken receive",
    "it must fail by name, not succeed and not go on for ever",
    Cell(
        "into = np.full(1, -7.0)\nqs = [comm.Irecv(into, source=left)]\nMPI.Request.Waitall(qs)",
        "deadlock",
        ALL,
        cause="circle",
    ),
    Cell("while not qs[0].Test(): pass", "error", words=("(?i)irecv|was left|broken",)),
)
after.case(
    "an open receive of a rank that had no part in the circle",
    "it was taken out with the rest: it fails by name, or it gets the new message",
    Cell(
        """
into = np.zeros(1)
if rank == 2: q = comm.Irecv(into, source=3, tag=2)
if rank < 2: comm.Recv(np.zeros(1), source=1 - rank)
""",
        "deadlock",
        (0, 1),
        cause="circle",
    ),
    Cell(
        """
told = True
if rank == 3: comm.Send(np.full(1, 8.0), dest=2, tag=2)
if rank == 2:
    try: q.Wait(); told = into[0] == 8
    except Exception: comm.Recv(into, source=3, tag=2); told = into[0] == 8
""",
        check="told",
    ),
)
after.case(
    "a persistent request, stuck once and started again",
    "3.9: it is inactive after the break, and whole",
    Cell(
        """
into, out = np.zeros(1), np.full(1, float(rank))
q, s = comm.Recv_init(into, source=left), comm.Send_init(out, dest=right)
q.Start()
q.Wait()
""",
        "deadlock",
        ALL,
        cause="circle",
    ),
    Cell(
        "MPI.Prequest.Startall([q, s])\nMPI.Request.Waitall([q, s])\nq.Free(); s.Free()",
        check="into[0] == left",
    ),
)
after.case(
    "a persistent collective, stuck once and started again",
    "6.13: it was taken out, and says so; its communicator is whole",
    Cell(
        """
mine, total = np.full(1, float(rank)), np.zeros(1)
q = comm.Allreduce_init(mine, total)
if rank != 2:
    q.Start()
    q.Wait()
""",
        "starved",
        (0, 1, 3),
    ),
    Cell("q.Start()\nq.Wait()", "error", words=("was left",)),
    Cell("q.Free()\ncomm.Allreduce(np.full(1, 1.0 + rank), total)", check="total[0] == 10"),
)
after.case(
    "a matched message that was taken out, whose handle the library has used again since",
    "3.8.2: it fails by name, also where another message has come and gone under its handle",
    Cell(
        "comm.send(-1, dest=right, tag=1)\nold = comm.mprobe(source=left, tag=1)\n"
        "comm.Recv(np.zeros(1), source=left, tag=2)",
        "deadlock",
        ALL,
        cause="circle",
    ),
    Cell("got = comm.sendrecv(rank, right, 3, None, left, 3)", check="got == left"),
    Cell("old.recv()", "error", words=("was left",)),
)
after.case(
    "three breaks in a row",
    "each leaves the ranks as they were",
    RING,
    RING,
    RING,
    Cell(NEXT_BCAST, check=IS_FRESH),
)
after.case(
    "variables of before",
    "only calls are left, nothing is lost",
    Cell(
        "mine = {'rank': rank}\ncomm.Recv(np.zeros(1), source=left)",
        "deadlock",
        ALL,
        cause="circle",
    ),
    Cell("got = comm.allgather(mine['rank'])", check="got == [0, 1, 2, 3]"),
)
after.case(
    "derived communicators of before",
    "they work as they did",
    Cell(
        """
half, cart = comm.Split(rank % 2, rank), comm.Create_cart([2, 2], periods=[True, True])
both = half.Create_intercomm(0, comm, 1 - rank % 2, 5)
half.send("old", dest=1 - half.rank)
cart.Recv(np.zeros(1), source=(rank + 1) % size)
""",
        "deadlock",
        ALL,
        cause="circle",
    ),
    Cell(
        """
a = half.sendrecv(rank, dest=1 - half.rank, source=1 - half.rank)
b = cart.allreduce(rank)
c = both.sendrecv(rank, dest=half.rank, source=half.rank)
both.Free(); cart.Free(); half.Free()
""",
        check="(a, b, c) == ((rank + 2) % 4, 6, rank ^ 1)",
    ),
)
after.case(
    "a window of before",
    "a fence that was left is as if it had not been called",
    Cell(WINDOW + "if rank != 1: win.Fence()", "starved"),
    Cell(
        """
win.Fence()
win.Put(np.full(1, 20.0 + rank), right)
win.Fence()
got = memory[0]
del memory
win.Free()
""",
        check="got == 20 + left",
    ),
)
after.case(
    "a lock of before",
    "who was refused a lock does not hold it, nor does who locked in the cell that broke",
    Cell(
        WINDOW
        + """
if rank == 0:
    win.Lock(0); win.Put(np.full(1, 4.0), 0); win.Flush(0)
    comm.Send(np.ones(1), dest=1)
if rank == 1:
    comm.Recv(np.zeros(1), source=0)
    win.Lock(0)
    win.Put(np.full(1, 5.0), 0)
    win.Unlock(0)
""",
        "starved",
        (1,),
    ),
    Cell(
        """
if rank == 3:
    win.Lock(0); win.Accumulate(np.ones(1), 0); win.Unlock(0)
comm.Barrier()
got = memory[0]
comm.Barrier()
del memory
win.Free()
""",
        check="rank or got == 5",
    ),
)
after.case(
    "a large Allreduce, broken and repeated",
    "what its broken half left must not be added",
    Cell(
        """
total = np.zeros(1_000_000)
if rank != 3: comm.Allreduce(np.full(1_000_000, 50.0), total)
""",
        "starved",
        (0, 1, 2),
    ),
    Cell(
        "comm.Allreduce(np.full(1_000_000, 1.0), total)\nvalue = total.max()\ndel total",
        check="value == 4",
    ),
)
after.case(
    "unlike collectives, then like ones",
    "after a mismatch the ranks are in step again",
    Cell(
        "if rank == 0: comm.Bcast(np.full(1, 9.0), root=0)\ncomm.Barrier()",
        "mismatch",
        words=("Bcast", "Barrier"),
    ),
    Cell(NEXT_BCAST + "\nhalf = comm.Split(rank // 2, rank)\nhalf.Free()", check=IS_FRESH),
)
after.case(
    "unlike ways to make a communicator, then like ones",
    "after a mismatch the ranks are in step again",
    Cell(
        "other = comm.Dup() if rank == 1 else comm.Split(0, rank)",
        "mismatch",
        words=("Comm_dup", "Comm_split"),
    ),
    Cell(
        "other = comm.Dup()\ntotal = other.allreduce(rank)\nother.Free()",
        check="total == 6",
    ),
)
after.case(
    "a missing Dup, then a whole one",
    "after a break the ranks are in step again",
    Cell("if rank != 2: other = comm.Dup()", "starved", (0, 1, 3)),
    Cell(
        "other = comm.Dup()\ntotal = other.allreduce(rank)\nother.Free()",
        check="total == 6",
    ),
)
after.case(
    "sends of before that are awaited later",
    "they were taken out, and their waits end",
    Cell(
        """
data = np.full(BIG, 1.0 + rank)
q = comm.Isend(data, dest=right, tag=3)
comm.Recv(np.zeros(1), source=left, tag=4)
""",
        "deadlock",
        ALL,
    ),
    Cell(
        """
try: q.Wait()
except Exception: pass
into = np.zeros(BIG)
comm.Sendrecv(data * 10, dest=right, sendtag=3, recvbuf=into, source=left, recvtag=3)
""",
        check="into[-1] == 10 * (1 + left) and data[0] == 1 + rank",
    ),
)
after.case(
    "half of a ring's loop, then all of it",
    "the messages of the first try are gone",
    Cell(
        """
values = []
for step in range(3):
    comm.send((rank, step), dest=right)
    if step == 1: comm.recv(source=right)
    values.append(comm.recv(source=left))
""",
        "deadlock",
        ALL,
    ),
    Cell(
        """
values = []
for step in range(3):
    comm.send((rank, step, "again"), dest=right)
    values.append(comm.recv(source=left))
""",
        check="values == [(left, step, 'again') for step in range(3)]",
    ),
)
after.case(
    "a break in a thread, then threads that work",
    "the helper was freed too",
    Cell(
        """
helper = threading.Thread(target=lambda: comm.Recv(np.zeros(1), source=left, tag=1))
helper.start()
comm.Recv(np.zeros(1), source=left, tag=2)
""",
        "deadlock",
        ALL,
    ),
    Cell(
        """
helper.join(5)
got = []
again = threading.Thread(target=lambda: got.append(comm.recv(source=left, tag=1)))
again.start()
comm.send(rank, dest=right, tag=1)
again.join()
""",
        check="got == [left] and not helper.is_alive()",
    ),
)
after.case(
    "a loop of tests, ended, and then a loop that is right",
    "the quiet time begins anew",
    Cell("q = comm.Irecv(np.zeros(1), source=left)\nwhile not q.Test(): pass", "suspected", ALL),
    Cell(
        """
into = np.zeros(1)
q = comm.Irecv(into, source=left)
time.sleep(0.3 * (rank == 1))
s = comm.Isend(np.full(1, float(rank)), dest=right)
while not q.Test(): pass
s.Wait()
""",
        check="into[0] == left",
    ),
)
after.case(
    "a message left for the next cell",
    "a cell may end with it; it is said once, and the message stays",
    Cell(
        "if rank == 0: comm.Send(np.full(1, 3.5), dest=1, tag=4711)",
        words=("(?i)rank 0", "4711"),
    ),
    Cell(
        "got = np.zeros(1)\nif rank == 1: comm.Recv(got, source=0, tag=4711)",
        check="rank != 1 or got[0] == 3.5",
    ),
)
after.case(
    "a barrier begun in one cell and ended in the next",
    "6.12: nothing says when the others start it",
    Cell("if rank == 0: q = comm.Ibarrier()"),
    Cell("if rank: q = comm.Ibarrier()\nq.Wait()"),
)
after.case(
    "a receive posted in one cell, served in the next",
    "3.7: an open request is no error",
    Cell("into = np.zeros(1)\nif rank == 3: q = comm.Irecv(into, source=0, tag=6)"),
    Cell(
        "if rank == 0: comm.Send(np.full(1, 2.5), dest=3, tag=6)\nif rank == 3: q.Wait()",
        check="rank != 3 or into[0] == 2.5",
    ),
)
after.case(
    "one message stepped through two cells",
    "a receive may wait for a cell that is still to come, if the notebook goes on",
    Cell("got = comm.recv(source=0, tag=7)", options="--noblock --targets 1"),
    Cell("time.sleep(1.2); comm.send('hello', dest=1, tag=7)", options="--targets 0"),
    Cell("comm.Barrier()", check="rank != 1 or got == 'hello'"),
)
after.case(
    "a barrier stepped through two cells",
    "ranks may enter it one cell after the other, if the notebook goes on",
    Cell("comm.Barrier(); passed = True", options="--noblock --targets 0,1,2"),
    Cell("time.sleep(1.2); comm.Barrier(); passed = True", options="--targets 3"),
    Cell("comm.Barrier()", check="passed"),
)
after.case(
    "unlike collectives in two cells",
    "6.12: it shows when the second cell starts the other one",
    Cell("total = np.zeros(1)\nif rank == 0: q = comm.Ibarrier()"),
    Cell(
        "if rank: q = comm.Iallreduce(UNIT, total)\nq.Wait()",
        "mismatch",
        words=("Ibarrier", "Iallreduce"),
    ),
)
after.case(
    "broken with twenty communicators alive",
    "each keeps its own order",
    Cell(
        """
many = [comm.Dup() for i in range(20)]
for i, one in enumerate(many):
    if rank or i < 13: one.Barrier()
""",
        "starved",
        (1, 2, 3),
    ),
    Cell(
        "totals = [one.allreduce(rank) for one in many]\nfor one in many: one.Free()",
        check="totals == [6] * 20",
    ),
)
after.case(
    "a break in the middle of nonblocking collectives",
    "those that were whole before it are done, the others fail by name",
    Cell(
        """
one, two = np.zeros(1), np.zeros(1)
qs = [comm.Iallreduce(UNIT, one)]
if rank != 1: qs.append(comm.Iallreduce(UNIT, two))
qs[0].Wait()
if rank != 1: qs[1].Wait()
""",
        "starved",
        (0, 2, 3),
    ),
    Cell("total = np.zeros(1)\ncomm.Allreduce(one, total)", check="total[0] == 16"),
)
after.case(
    "a missing duplicate, then a whole one",
    "the first leaves nothing half made behind",
    Cell("if rank != 1: other, q = comm.Idup(); q.Wait()", "starved", (0, 2, 3)),
    Cell(
        "other, q = comm.Idup()\nq.Wait()\ntotal = other.allreduce(rank)\nother.Free()",
        check="total == 6",
    ),
)
after.case(
    "two receives sent ahead that wait for each other",
    "nobody waits for these cells: the next one says what became of them",
    Cell("got = comm.recv(source=1)", options="--noblock --targets 0"),
    Cell("got = comm.recv(source=0)", options="--noblock --targets 1"),
    Cell("time.sleep(1.5)", options="--targets 2,3"),
    Cell(
        "later = rank",
        words=("sent with --noblock has ended", "0 -> 1 -> 0"),
        check="later == rank",
    ),
)
after.case(
    "a cell that another one's deadlock ends",
    "it was not stuck, and is told so",
    Cell("got = comm.recv(source=1)", options="--noblock --out ahead --targets 0"),
    Cell("comm.recv(source=5 - rank)", "deadlock", (2, 3), cause="circle", options="--targets 2,3"),
    Cell("later = rank", words=("This cell's ranks were not stuck",), check="later == rank"),
)

# ------------------------------------------------------------------- what fits, and what does not

for name, code in {
    "Allgather that takes out twice what is handed in": (
        "comm.Allgather([np.ones(4), 1, MPI.DOUBLE], [np.zeros(16), 2, MPI.DOUBLE])"
    ),
    "Gather whose root hands in less than the others": """
part = [np.ones(2), 2 - (rank == 0), MPI.DOUBLE]
comm.Gather(part, [np.zeros(8), 2, MPI.DOUBLE] if rank == 0 else None, 0)
""",
    "Scatter whose root takes out less than the others": """
part = [np.ones(2), 2 - (rank == 0), MPI.DOUBLE]
comm.Scatter([np.zeros(8), 2, MPI.DOUBLE], part, 0)
""",
    "Alltoall that takes out twice what is handed in": (
        "comm.Alltoall([np.ones(4), 1, MPI.DOUBLE], [np.zeros(8), 2, MPI.DOUBLE])"
    ),
    "Allgatherv with one more than is expected": (
        "comm.Allgatherv([np.ones(2), 1 + (rank == 1)], [np.zeros(8), [1, 1, 1, 1]])"
    ),
    "Gather of two where the root has room for one": (
        "comm.Gather(np.zeros(2), np.zeros(4) if rank == 0 else None, 0)"
    ),
}.items():
    collectives.unlike(name, code, "hands in", why="6.5 to 6.8: as much is received as is sent")
for name, code in {
    "Alltoallv": """
counts, out, into = [1] * size, [1] * size, np.zeros(size)
if rank == 1: out = [0, 1, 2, 1]
comm.Alltoallv([np.ones(size), out], [into, counts])
""",
    "Alltoallw": """
counts, out, places, into = [1] * size, [1] * size, [0, 8, 16, 24], np.zeros(size)
if rank == 1: out = [2, 1, 0, 1]
types = [MPI.DOUBLE] * size
comm.Alltoallw([np.ones(size + 1), out, places, types], [into, counts, places, types])
""",
    "Gatherv": """
comm.Gatherv(np.ones(1), [np.zeros(size), [1, 2, 1, 0]] if rank == 0 else None, 0)
""",
    "Scatterv": """
comm.Scatterv([np.ones(size), [1, 2, 1, 0]] if rank == 0 else None, np.zeros(1), 0)
""",
    "Reduce_scatter": """
counts = [2, 1, 0, 1] if rank == 3 else [1] * size
comm.Reduce_scatter(np.ones(size), np.zeros(counts[rank]), counts)
""",
}.items():
    collectives.unlike(
        f"{name} in which counts differ and their sums do not",
        code,
        f"MPI_{name}",
        "the sums agree, but one rank takes out less, or more",
        why="6.5 to 6.10: from each rank as much is received as that one sends",
    )
collectives.right(
    "collectives in place",
    """
all_of_it, each = np.zeros(4), np.zeros(4)
if rank == 0: comm.Gather(MPI.IN_PLACE, all_of_it, 0)
else: comm.Gather(np.ones(1), None, 0)
each[rank] = rank
comm.Allgather(MPI.IN_PLACE, each)
swapped = np.arange(4.0)
comm.Alltoall(MPI.IN_PLACE, swapped)
parts = np.full(10, float(rank))
comm.Allgatherv(MPI.IN_PLACE, [parts, [1, 2, 3, 4]])
one = np.zeros(1)
comm.Scatter(np.arange(4.0), MPI.IN_PLACE if rank == 0 else one, 0)
again, counts, places = np.arange(4.0), [1] * size, [8 * i for i in range(size)]
comm.Alltoallv(MPI.IN_PLACE, [again, counts])
comm.Alltoallw(MPI.IN_PLACE, [again, counts, places, [MPI.DOUBLE] * size])
sum_of = np.full(10, 1.0)
comm.Reduce_scatter(MPI.IN_PLACE, sum_of, [1, 2, 3, 4])
""",
    "each.tolist() == [0, 1, 2, 3] and swapped.tolist() == [rank] * 4 and parts[9] == 3"
    " and again.tolist() == [0, 1, 2, 3] and sum_of[0] == size",
    "6.5 to 6.8: what stays in place counts as handed in",
)
matching.right(
    "errors of a rank and a tag that cannot be, by their classes",
    """
classes = []
for to, tag in ((size, 0), (0, -5)):
    try: comm.Send(np.zeros(1), to, tag)
    except MPI.Exception as error: classes.append(error.Get_error_class())
""",
    "classes == [MPI.ERR_RANK, MPI.ERR_TAG]",
    "9.4: these are their classes",
)
matching.right(
    "a root that cannot be, in one group and between two",
    """
half = comm.Split(rank % 2)
inter = half.Create_intercomm(0, comm, 1 - rank % 2, tag=3)
one, all_of = np.ones(1), np.zeros(size)
classes = set()
for among in (comm, inter):
    for call in (
        lambda: among.Bcast(one, size),
        lambda: among.Gather(one, all_of, size),
        lambda: among.Ireduce(one, all_of[:1], root=size),
        lambda: among.gather(None, root=size),
    ):
        try: call()
        except MPI.Exception as error: classes.add(error.Get_error_class())
        else: classes.add("taken")
inter.Free(); half.Free()
""",
    "classes == {MPI.ERR_ROOT}",
    "6.2.3: between two groups it is MPI_ROOT, MPI_PROC_NULL or a rank of the other",
)
requests.right(
    "asked for the status of all, any and some",
    """
into = np.zeros(1)
q = comm.Isendrecv(np.full(1, float(rank)), right, 0, into, left, 0)
if hasattr(MPI.Request, "Get_status_all") and MPI.Get_version() >= (4, 1):
    while not MPI.Request.Get_status_all([q]): pass
    while not MPI.Request.Get_status_any([q])[1]: pass
    while not MPI.Request.Get_status_some([q]): pass
q.Wait()
""",
    "into[0] == left",
    "3.7.6: they complete nothing, and find what is complete",
)
requests.right(
    "a receive freed while it is open",
    """
into = np.zeros(1)
comm.Irecv(into, left, 3).Free()
comm.Send(np.full(1, float(rank)), right, 3)
until = time.monotonic() + 10
while into[0] != left and time.monotonic() < until: comm.iprobe()
""",
    "into[0] == left",
    "3.7.3: pending communication completes normally",
)
requests.case(
    "a deadlock after a receive was freed while it was open",
    "its message was received and is not among those to be taken out",
    Cell(
        """
freed = np.zeros(1)
comm.Irecv(freed, left, 3).Free()
comm.Send(np.full(1, float(rank)), right, 3)
comm.Ssend(np.zeros(1), right, 88)
""",
        "deadlock",
        ALL,
    ),
)
requests.right(
    "a communicator freed while a receive on it is open",
    """
own, into = comm.Dup(), np.zeros(1)
q = own.Irecv(into, left)
if rank == 0: time.sleep(0.3)
own.Send(np.full(1, float(rank)), right)
own.Free()
q.Wait()
""",
    "into[0] == left",
    "7.4.3: pending communication completes normally",
)
after.case(
    "threads that wait from one cell to the next",
    "their messages come in the next cell",
    Cell(
        """
heard = []
waiting = threading.Thread(target=lambda: heard.append(comm.recv(source=left, tag=99)))
waiting.start()
""",
        options="--noblock",
    ),
    Cell("time.sleep(2)"),
    Cell("comm.send(rank, right, 99)\nwaiting.join()", check="heard == [left]"),
)
after.case(
    "twelve thousand lines",
    "the first are shown, and how many more there are; what the ranks say besides is not lost",
    Cell(
        "for line in range(12_000): print(line)\nif rank == 1: comm.send(rank, 0, 7)",
        words=(
            r"\b999\b",
            r"(?s)\A(?!.*\b1000\b)",
            "Ringside: 11,000 more lines",
            "sent and not received",
        ),
    ),
    Cell("print(12)\nif rank == 0: comm.recv()", words=(r"\b12\b", r"(?s)\A(?!.*Ringside)")),
)
after.case(
    "MPI.Finalize in a cell",
    "it would end MPI for all cells to come",
    Cell("MPI.Finalize()", "error", words=("leave it out",)),
)
collectives.case(
    "a collective that one rank of a cell has left out",
    "it is taken out with that cell's end, and the next one meets none of it",
    Cell(
        "value = np.full(1, rank)\nif rank != 3: comm.Bcast(value, 0)",
        words=("ranks 0, 1 and 2 called MPI_Bcast, root 0", "rank 3 did not", "taken out"),
    ),
    Cell("burn(0.01)", words=(r"(?s)\A(?!.*MPI_Bcast)",)),
    Cell("value[0] = 5 + rank\ncomm.Bcast(value, 0)", check="value[0] == 5"),
)
collectives.case(
    "a collective that ranks call in one cell after the other",
    "6.1: who need not wait may go on, and a cell of some ranks may be one of several steps",
    Cell("value = np.full(1, rank + 5)"),
    Cell(
        "comm.Bcast(value, 0)",
        options="--targets 0",
        words=("rank 0 called MPI_Bcast, root 0", "ranks 1, 2 and 3 call there"),
    ),
    Cell("burn(0.01)"),
    Cell("comm.Bcast(value, 0)", options="--targets 1:4"),
    Cell("comm.Barrier()", check="value[0] == 5", words=(r"(?s)\A(?!.*MPI_Bcast)",)),
)
collectives.case(
    "a collective of one rank, and then one of all",
    "who was behind gets the data of the call before, is told so, and is in step again",
    Cell("value = np.full(1, 7)\nif rank: value[0] = 0"),
    Cell("comm.Bcast(value, 0)", options="--targets 0", words=("rank 0 called MPI_Bcast",)),
    Cell(
        "value[0] = 8 if rank == 0 else 0\ncomm.Bcast(value, 0)",
        words=("since an earlier cell rank 0", "the data may be old", "run this cell once more"),
    ),
    Cell("value[0] = 9 if rank == 0 else 0\ncomm.Bcast(value, 0)", check="value[0] == 9"),
    Cell("comm.Barrier()", words=(r"(?s)\A(?!.*MPI_Bcast)",)),
)
collectives.case(
    "the last collective of a cell left out by most",
    "what all called before it has been right",
    Cell(
        "value, total = np.full(1, rank + 1), np.zeros(1, int)\n"
        "comm.Allreduce(value, total)\n"
        "if rank == 3: comm.Gather(value, None, root=0)",
        words=("rank 3 called MPI_Gather", "ranks 0, 1 and 2 did not", "taken out"),
        check="total[0] == 10",
    ),
    Cell(
        "all = np.zeros(4, int)\ncomm.Gather(10 * value, all, root=0)",
        check="rank or list(all) == [10, 20, 30, 40]",
    ),
)
collectives.case(
    "a nonblocking collective begun by one rank in a cell of all",
    "a later cell may be meant to complete it: it stays",
    Cell(
        "value = np.full(1, rank + 5)\nif rank == 0: request = comm.Ibcast(value, 0)",
        words=("rank 0 called MPI_Ibcast", "has to be that one"),
    ),
    Cell("if rank: request = comm.Ibcast(value, 0)\nrequest.Wait()", check="value[0] == 5"),
)
for name, kinds, send, receive in [
    (
        "an array of integers into one of doubles",
        "ints to reals",
        "Send(ints, {})",
        "Recv(reals, {})",
    ),
    ("doubles into integers, nonblocking", "reals to ints", "Isend(reals, {})", "Irecv(ints, {})"),
    (
        "doubles into integers by persistent requests",
        "reals to ints",
        "Send_init(reals, {})",
        "Recv_init(ints, {})",
    ),
]:
    sent, taken = ("integers", "floating-point numbers")[:: 1 if kinds[0] == "i" else -1]
    matching.case(
        name,
        "3.3.1: it ends well, and the numbers are wrong: who took them says so",
        Cell(
            "ints, reals = np.arange(3), np.zeros(3)\n"
            f"call = comm.{send.format(1)} if rank == 0 else None\n"
            f"call = comm.{receive.format(0)} if rank == 1 else call\n"
            "if 'init' in str(type(call)) or isinstance(call, MPI.Prequest): call.Start()\n"
            "if call: call.Wait()",
            words=(f"rank 0 sent {sent}", f"rank 1 took them for {taken}", "the same dtype"),
        ),
        Cell("comm.Barrier()", words=(r"(?s)\A(?!.*Ringside)",)),
    )
matching.case(
    "numbers of other kinds that a program may mean",
    "nothing is said of them",
    Cell(
        """
ints, reals, pair = np.arange(4), np.ones(4), np.zeros(2, complex)
if rank == 0:
    comm.Send(ints, 1, 1)
    comm.Send(reals, 1, 1)
    comm.Send(ints, 1, 2)
    comm.Send(reals, 1, 3)
    comm.Send(ints[:0], 1, 4)
    comm.Send(ints.astype(np.int32), 1, 5)
    comm.send(7, 1, 6)
elif rank == 1:
    comm.Recv(ints, 0, 1)
    comm.Recv(reals, 0, 1)
    comm.Recv(bytearray(32), 0, 2)
    comm.Recv(pair, 0, 3)
    comm.Recv(reals, 0, 4)
    comm.Recv(np.zeros(4, np.uint32), 0, 5)
    comm.recv(source=0, tag=6)
""",
        words=(r"(?s)\A(?!.*Ringside)",),
    ),
)
matching.case(
    "a message left over, and then another in its place",
    "3.5: messages do not overtake each other: a cell that receives an old one leaves its own",
    Cell(
        "if rank == 1: comm.Send(np.full(1, 1.0), 0, 7)",
        words=("1 message from rank 1 to rank 0",),
    ),
    Cell("comm.Barrier()", words=(r"(?s)\A(?!.*message)",)),
    Cell(
        "got = np.zeros(1)\n"
        "if rank == 1: comm.Send(np.full(1, 2.0), 0, 7)\n"
        "if rank == 0: comm.Recv(got, 1, 7)\n"
        "assert rank or got[0] == 1",
        words=("1 message from rank 1 to rank 0",),
    ),
    Cell("comm.Barrier()", words=(r"(?s)\A(?!.*message)",)),
    Cell("if rank == 0: comm.Recv(got, 1, 7)", check="rank or got[0] == 2"),
)
collectives.case(
    "a message and a collective left over",
    "each is said once",
    Cell(
        "value, late = np.full(1, rank), np.zeros(1, int)\n"
        "if rank == 0: comm.Send(value, 1, 7)\n"
        "if rank != 3: comm.Bcast(value, 0)",
        words=(r"1 message from rank 0 to rank 1 \(tag 7\)", "rank 3 did not"),
    ),
    Cell("value[0] = 5\ncomm.Bcast(value, 0)", words=(r"(?s)\A(?!.*(tag 7|MPI_Bcast))",)),
    Cell("if rank == 1: comm.Recv(late, 0, 7)", check="rank != 1 or late[0] == 0"),
)
requests.case(
    "requests that are completed in every way there is",
    "nothing is said of them, nor of a send that a variable holds for a later cell",
    Cell(
        """
a, b, big = np.zeros(1), np.zeros(1), np.ones(BIG)
first, second = comm.Irecv(a, left, 31), comm.Irecv(b, left, 32)
comm.Isend(np.full(1, 5.0), right, 31).Wait()
again = comm.Send_init(np.full(1, 6.0), right, 32)
again.Start()
MPI.Request.Waitall([first, second, again])
again.Free()
nothing = comm.Irecv(a, MPI.PROC_NULL, 33)
comm.Isend(big, right, 34).Free()
comm.Recv(np.zeros(BIG), left, 34)
comm.irecv(source=left, tag=35).Cancel()
pending = comm.Irecv(a, left, 36)
assert not pending.Test()
later = comm.Isend(big, right, 37)
""",
        words=(r"(?s)\A(?!.*began)",),
    ),
    Cell(
        """
comm.Send(np.full(1, 7.0), right, 36)
comm.Recv(big.copy(), left, 37)
MPI.Request.Waitall([pending, later])
""",
        check="a[0] == 7 and b[0] == 6",
    ),
)
matching.case(
    "neighbours that are nobody on purpose",
    "by name, by a condition, from Cart_shift and from a function: nothing is said of them",
    Cell(
        """
grid = comm.Create_cart([4], periods=[False])
below, above = grid.Shift(0, 1)
grid.Sendrecv(np.ones(1), above, recvbuf=np.zeros(1), source=below)
before = rank - 1
if before < 0: before = MPI.PROC_NULL
after = rank + 1 if rank < size - 1 else MPI.PROC_NULL
comm.Sendrecv(np.ones(1), after, recvbuf=np.zeros(1), source=before)
if rank == 0: comm.Send(np.ones(1), MPI.PROC_NULL)
def edge(of): return MPI.PROC_NULL if of == 0 else of - 1
comm.Send(np.ones(1), edge(rank), 41)
if rank < 3: comm.Recv(np.zeros(1), rank + 1, 41)
if rank == 0: comm.send(1, 1, 42)
if rank == 1: comm.recv(source=MPI.ANY_SOURCE, tag=42)
grid.Free()
""",
        words=(r"(?s)\A(?!.*Ringside)",),
    ),
)
