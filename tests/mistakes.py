"""The table of mistakes: cells that beginners write, what each must say, and the cell put right.

They are written from what people ask in public (mpi4py's issues, forums, courses), and not from
what Ringside can say. A mistake in a plain cell, without %%px, has its tests in `test_cluster.py`,
and so has one that ends a rank.

A mistake is its truth (see `cases.py`), the cell, what the reader must see (which ranks, which
line, what helps; `at(3)` is line 3, of which %%px is the first), and a cell that is right, with its
check.
"""

from cases import Category, Cell

from ringside import mpi

MPICH = mpi.kind() == "mpich"  # where rank -1 is MPI_PROC_NULL
mistakes = Category("mistakes")
CAPITALS = "capital letter"
AROUND = r"\(rank \+ 1\) % size"
STAYS = r"clear_messages\(\)"
SAME_CALLS = "same collective calls in the same order"
SOME = r"ranks? [\d, and]+"  # a verdict may come before the last of them has
LIVES_ON = "all their variables, run the next cell"


def at(line: int) -> str:
    """The words that name a line of the cell."""
    return rf"(line {line}\b|-> {line} )"


def mistake(name, truth, code, words, right="comm.Barrier()", check="True", why="", **settings):
    """A cell that somebody wrote, and the cell that puts it right."""
    cell = Cell(code.strip("\n"), truth, words=words)
    mistakes.case(name, why or name, cell, Cell(right.strip("\n"), check=check), **settings)


# ---------------------------------------------------------------- names, types and values

mistake(
    "a name that only rank 0 has",
    "error",
    "if rank == 0: answer_of_0 = 42\nprint(answer_of_0 + 1)",
    ("NameError", "ranks 1, 2 and 3", at(3)),
    "answer_of_0 = comm.bcast(42 if rank == 0 else None)",
    "answer_of_0 == 42",
)
mistake(
    "the result of bcast is not kept",
    "error",
    "shared = {'n': 5} if rank == 0 else None\ncomm.bcast(shared, root=0)\nn = shared['n']",
    ("TypeError", "ranks 1, 2 and 3", r"data = comm\.bcast", at(4)),
    "shared = comm.bcast({'n': 5} if rank == 0 else None, root=0)",
    "shared['n'] == 5",
)
mistake(
    "gather's list is used on every rank",
    "error",
    "parts = comm.gather(rank, root=0)\ntotal = sum(parts)",
    ("TypeError", "ranks 1, 2 and 3", "allgather and allreduce", at(3)),
    "parts = comm.allgather(rank)",
    "sum(parts) == 6",
)
mistake(
    "the sum of reduce is used on every rank",
    "error",
    "total = comm.reduce(rank, op=MPI.SUM, root=0)\nmean = total / size",
    ("TypeError", "ranks 1, 2 and 3", "allgather and allreduce", at(3)),
    "mean = comm.allreduce(rank, op=MPI.SUM) / size",
    "mean == 1.5",
)
mistake(
    "the value of Recv is used",
    "error",
    """
if rank == 0: comm.Send(np.ones(3), dest=1)
if rank == 1:
    got = comm.Recv(np.zeros(3), source=0)
    print(got[0])
""",
    ("TypeError", "rank 1", "is in the array", at(5)),
    "into = np.zeros(3)\nif rank == 0: comm.Send(np.ones(3), 1)\nif rank == 1: comm.Recv(into, 0)",
    "rank != 1 or into[0] == 1",
)
mistake(
    "a sum by Python's own operator",
    "error",
    "total = comm.allreduce(rank, op=sum)",
    ("TypeError", "rank 0", r"MPI\.SUM", at(2)),
    "total = comm.allreduce(rank, op=MPI.SUM)",
    "total == 6",
)
mistake(
    "size without its brackets",
    "error",
    "chunk = 100 // comm.Get_size",
    ("TypeError", "ranks 0, 1, 2 and 3", at(2)),
    "chunk = 100 // comm.Get_size()",
    "chunk == 25",
)
mistake(
    "the rank asked of the module",
    "error",
    "me = MPI.Get_rank()",
    ("AttributeError", "ranks 0, 1, 2 and 3", at(2)),
    "me = MPI.COMM_WORLD.Get_rank()",
    "me == rank",
)
mistake(
    "a method that another library has",
    "error",
    "comm.broadcast(5, root=0)",
    ("AttributeError", "broadcast", at(2)),
    "x = comm.bcast(5, root=0)",
    "x == 5",
)
mistake(
    "a root that does not exist",
    "error",
    "x = comm.bcast(5, root=4)",
    ("ranks 0, 1, 2 and 3", "root", at(2)),
    "x = comm.bcast(5, root=3)",
    "x == 5",
)
mistake(
    "an indentation that is missing",
    "error",
    "if rank == 0:\ncomm.send(1, dest=1)",
    ("IndentationError", "ranks 0, 1, 2 and 3", at(3)),
    "if rank == 0: comm.send(1, dest=1)\nif rank == 1: x = comm.recv(source=0)",
    "rank != 1 or x == 1",
)
mistake(
    "an assignment in place of a comparison",
    "error",
    "if rank = 0:\n    print('root')",
    ("SyntaxError", "ranks 0, 1, 2 and 3", at(2)),
    "if rank == 0: print('root')",
)
mistake(
    "an index beyond this rank's part",
    "error",
    "mine = np.arange(3) + 3 * rank\nprint(mine[3 * rank])",
    ("IndexError", "rank 1 raised", "rank 3 raised", at(3)),
    "x = mine[0]",
    "x == 3 * rank",
)
mistake(
    "more things to scatter than ranks",
    "error",
    "part = comm.scatter(list(range(8)) if rank == 0 else None, root=0)",
    ("ValueError", "rank 0", at(2)),
    "part = comm.scatter([[0, 1], [2, 3], [4, 5], [6, 7]] if rank == 0 else None, root=0)",
    "part == [2 * rank, 2 * rank + 1]",
)
mistake(
    "nothing to scatter on the root",
    "error",
    "things = None\nif rank == 1: things = [1, 2, 3, 4]\npart = comm.scatter(things, root=0) + 1",
    ("TypeError", "ranks 0, 1, 2 and 3", "what the root has handed in", at(4)),
    "part = comm.scatter(things, root=1)",
    "part == rank + 1",
)
mistake(
    "something that cannot be pickled",
    "error",
    "comm.send(open('/dev/null'), dest=right)\ncomm.recv(source=left)",
    ("TypeError", "ranks 0, 1, 2 and 3", "pickle", at(2)),
    "comm.send('/dev/null', dest=right)\nname = comm.recv(source=left)",
    "name == '/dev/null'",
)
mistake(
    "a function without a name is sent",
    "error",
    "comm.send(lambda x: x + 1, dest=right)",
    ("pickle", "rank 0 raised", "rank 3 raised", at(2)),
)
mistake(
    "numbers for a keyboard",
    "error",
    "n = int(input('how many? '))",
    ("ranks 0, 1, 2 and 3", "no keyboard", "set the value in the cell", at(2)),
    "n = 5",
    "n == 5",
)
mistake(
    "exit on the ranks that have nothing to do",
    "error",
    """
if rank > 1:
    exit()
if rank == 0: comm.send(1, dest=1)
if rank == 1: comm.recv(source=0)
""",
    ("would end this rank", "let the cell end"),
    "if rank == 0: comm.send(1, dest=1)\nif rank == 1: x = comm.recv(source=0)",
    "rank != 1 or x == 1",
)
mistake(
    "MPI is ended as in a script",
    "error",
    "total = comm.allreduce(1)\nMPI.Finalize()",
    ("ranks 0, 1, 2 and 3", r"MPI\.Finalize\(\)", "leave it out"),
    "total = comm.allreduce(1)",
    "total == 4",
)

# ---------------------------------------------------------------- capital and small letters

mistake(
    "a list for Send",
    "error",
    "comm.Send([1, 2, 3], dest=right)",
    (
        "ranks 0, 1, 2 and 3",
        at(2),
        r"np\.array\(\[1, 2, 3\]\)",
        r"comm\.send\(\[1, 2, 3\]",
        CAPITALS,
    ),
    "comm.send([1, 2, 3], dest=right)\ngot = comm.recv(source=left)",
    "got == [1, 2, 3]",
)
mistake(
    "a list for Recv",
    "error",
    "into = [0, 0, 0]\ncomm.Recv(into, source=left)",
    (r"np\.array", CAPITALS, at(3)),
    "comm.send([rank], dest=right)\ninto = comm.recv(source=left)",
    "into == [left]",
)
mistake(
    "a number for Send",
    "error",
    "comm.Send(rank, dest=right)",
    ("ranks 0, 1, 2 and 3", at(2), CAPITALS),
    "comm.send(rank, dest=right)\ngot = comm.recv(source=left)",
    "got == left",
)
mistake(
    "a text for Bcast",
    "error",
    "word = 'hello' if rank == 0 else ''\ncomm.Bcast(word, root=0)",
    ("Bcast needs an array", CAPITALS, at(3)),
    "word = comm.bcast('hello' if rank == 0 else None)",
    "word == 'hello'",
)
mistake(
    "a dictionary for Send",
    "error",
    "comm.Send({'rank': rank}, dest=right)",
    ("ranks 0, 1, 2 and 3", CAPITALS, at(2)),
    "comm.send({'rank': rank}, dest=right)\ngot = comm.recv(source=left)",
    "got == {'rank': left}",
)
mistake(
    "send is taken by Recv",
    "error",
    """
into = np.zeros(1)
if rank == 0: comm.send(1.5, dest=1)
if rank == 1: comm.Recv(into, source=0)
""",
    ("rank 1", "sent by send, without a capital letter", "received by recv", at(4)),
    "if rank == 0: comm.send(1.5, dest=1)\nif rank == 1: into = comm.recv(source=0)",
    "rank != 1 or into == 1.5",
)
mistake(
    "Send is taken by recv",
    "error",
    "if rank == 0: comm.Send(np.arange(3.0), dest=1)\nif rank == 1: into = comm.recv(source=0)",
    ("rank 1", "came from Send", "Recv takes that", at(3)),
    """
into = np.zeros(3)
if rank == 0: comm.Send(np.arange(3.0), dest=1)
if rank == 1: comm.Recv(into, source=0)
""",
    "rank != 1 or into[2] == 2",
)
mistake(
    "Recv without an array",
    "error",
    "if rank == 0: comm.Send(np.ones(1), dest=1)\nif rank == 1: into = comm.Recv(source=0)",
    ("rank 1", "array that it is handed", at(3)),
    "into = np.zeros(1)\nif rank == 0: comm.Send(np.ones(1), 1)\nif rank == 1: comm.Recv(into, 0)",
    "rank != 1 or into[0] == 1",
)
mistake(
    "recv of a rank by its place",
    "error",
    "if rank == 0: comm.send('a', dest=1)\nif rank == 1: word = comm.recv(0)",
    ("rank 1", at(3)),
    "if rank == 0: comm.send('a', dest=1)\nif rank == 1: word = comm.recv(source=0)",
    "rank != 1 or word == 'a'",
)
mistake(
    "Bcast of what is an array on the root alone",
    "error",
    "data = np.ones(3) if rank == 0 else None\ncomm.Bcast(data, root=0)",
    ("ranks 1, 2 and 3", "needs an array on every rank", "np.empty", at(3)),
    "data = np.ones(3) if rank == 0 else np.empty(3)\ncomm.Bcast(data, root=0)",
    "data.sum() == 3",
)
mistake(
    "Gather with one array",
    "error",
    "mine = np.ones(2)\ncomm.Gather(mine, root=0)",
    ("rank", at(3)),
    "mine, all_of = np.ones(2), np.zeros(8)\ncomm.Gather(mine, all_of, root=0)",
    "rank or all_of.sum() == 8",
)
mistake(
    "the result of Allreduce is taken as a value",
    "error",
    "total = comm.Allreduce(np.ones(1), op=MPI.SUM)",
    ("TypeError", "ranks 0, 1, 2 and 3", at(2)),
    "total = comm.allreduce(1.0, op=MPI.SUM)",
    "total == 4",
)
mistake(
    "Reduce of plain numbers",
    "error",
    "total = 0\ncomm.Reduce(rank, total, op=MPI.SUM, root=0)",
    ("TypeError", "ranks 0, 1, 2 and 3", at(3)),
    "total = comm.reduce(rank, op=MPI.SUM, root=0)",
    "rank or total == 6",
)

# ---------------------------------------------------------------- arrays

mistake(
    "a column is sent",
    "error",
    "field = np.zeros((4, 5))\ncomm.Send(field[:, -1], dest=right)",
    ("ranks 0, 1, 2 and 3", "side by side", r"np\.ascontiguousarray\(field\[:, -1\]\)", at(3)),
    """
edge = np.zeros(4)
comm.Sendrecv(np.ascontiguousarray(field[:, -1] + rank), right, recvbuf=edge, source=left)
""",
    "edge[0] == left",
)
mistake(
    "a column is received into",
    "error",
    "field = np.zeros((4, 5))\nif rank == 0: comm.Recv(field[:, 0], source=1)",
    ("rank 0", "array of its own", "copy", at(3)),
    """
column = np.zeros(4)
if rank == 1: comm.Send(np.ones(4), dest=0)
if rank == 0:
    comm.Recv(column, source=1)
    field[:, 0] = column
""",
    "rank or field[3, 0] == 1",
)
mistake(
    "every second element is sent",
    "error",
    "comm.Send(np.arange(8.0)[::2], dest=right)",
    ("side by side", "ascontiguousarray", at(2)),
    "got = np.zeros(4)\ncomm.Sendrecv(np.arange(8.0)[::2].copy(), right, recvbuf=got, source=left)",
    "got[1] == 2",
)
mistake(
    "a transposed matrix is sent",
    "error",
    "comm.Bcast(np.arange(6.0).reshape(2, 3)[:, ::2], root=0)",
    ("ranks 0, 1, 2 and 3", "side by side", at(2)),
)
mistake(
    "one element is received into",
    "error",
    "halo = np.zeros(6)\ncomm.Sendrecv(halo[1:2], dest=left, recvbuf=halo[-1], source=right)",
    ("ranks 0, 1, 2 and 3", r"field\[-1:\]", at(3)),
    "halo[1] = rank\ncomm.Sendrecv(halo[1:2], dest=left, recvbuf=halo[-1:], source=right)",
    "halo[-1] == right",
)
mistake(
    "an array that may not be written to",
    "error",
    "fixed = np.broadcast_to(np.zeros(3), (3,))\nif rank == 0: comm.Recv(fixed, source=1)",
    ("rank 0", "cannot be written to", r"np\.empty", at(3)),
)
mistake(
    "words in an array",
    "error",
    "comm.Send(np.array(['a', 'b'], dtype=object), dest=right)",
    ("ranks 0, 1, 2 and 3", at(2)),
    "comm.send(['a', 'b'], dest=right)\ngot = comm.recv(source=left)",
    "got == ['a', 'b']",
)
mistake(
    "too little room for a message",
    "error",
    "a = np.zeros(3)\nif rank == 0: comm.Send(np.ones(6), 1)\nif rank == 1: comm.Recv(a, source=0)",
    ("rank 1", "48 B into 24 B", at(4)),
    "a = np.zeros(6)\nif rank == 0: comm.Send(np.ones(6), 1)\nif rank == 1: comm.Recv(a, source=0)",
    "rank != 1 or a.sum() == 6",
)
mistake(
    "integers for an array of doubles",
    "right",
    """
a = np.zeros(3)
if rank == 0: comm.Send(np.arange(3), dest=1)
if rank == 1: comm.Recv(a, source=0)
""",
    ("rank 0 sent integers", at(3), "rank 1 took them for floating", at(4), "the same dtype"),
    "if rank == 0: comm.Send(np.arange(3.0), 1)\nif rank == 1: comm.Recv(a, source=0)",
    "rank != 1 or a[2] == 2",
)
mistake(
    "doubles for an array that np.array has made of whole numbers",
    "right",
    """
a = np.array([0, 0])
if rank == 2: comm.Send(np.array([0.5, 1.5]), dest=3)
if rank == 3: comm.Recv(a, source=2)
""",
    ("rank 2 sent floating", at(3), "rank 3 took them for integers", at(4), "the same dtype"),
    "a = np.zeros(2)\nif rank == 2: comm.Send(np.ones(2), 3)\nif rank == 3: comm.Recv(a, source=2)",
    "rank != 3 or a[1] == 1",
)
mistake(
    "Reduce of numbers of two kinds",
    "error",
    "comm.Reduce(np.ones(3), np.zeros(3, int), op=MPI.SUM, root=0)",
    ("rank 0", "the same dtype", "empty_like", at(2)),
    "total = np.zeros(3)\ncomm.Reduce(np.ones(3), total, op=MPI.SUM, root=0)",
    "rank or total[0] == 4",
)
mistake(
    "Reduce into one number",
    "error",
    "comm.Reduce(np.ones(3), np.zeros(1), op=MPI.SUM, root=0)",
    ("rank 0", "equally many", at(2)),
    "total = np.zeros(3)\ncomm.Reduce(np.ones(3), total, op=MPI.SUM, root=0)",
    "rank or total[2] == 4",
)
mistake(
    "Bcast of arrays of unlike length",
    "mismatch",
    "data = np.ones(4) if rank == 0 else np.empty(3)\ncomm.Bcast(data, root=0)",
    ("rank 0: MPI_Bcast, root 0, 32 B", SOME + ": MPI_Bcast, root 0, 24 B", at(3)),
    "data = np.ones(4) if rank == 0 else np.empty(4)\ncomm.Bcast(data, root=0)",
    "data.sum() == 4",
)
# ---------------------------------------------------------------- Scatter, Gather and their kin

mistake(
    "Gather without room for all",
    "mismatch",
    """
mine = np.zeros(2)
all_of = np.zeros(4) if rank == 0 else None
comm.Gather(mine, all_of, root=0)
""",
    (at(4), r"Rank 0 has room for 4 x 8 B", "hands? in 16 B", r"4 x 16 B = 64 B"),
    "all_of = np.zeros(8) if rank == 0 else None\ncomm.Gather(mine + rank, all_of, root=0)",
    "rank or all_of[-1] == 3",
)
mistake(
    "Scatter into too little room",
    "mismatch",
    "all_of = np.arange(8.0) if rank == 0 else None\ncomm.Scatter(all_of, np.zeros(1), root=0)",
    (at(3), r"Rank 0 hands out 4 x 16 B", "room for 8 B", "has to hold 16 B"),
    "mine = np.zeros(2)\ncomm.Scatter(all_of, mine, root=0)",
    "mine[0] == 2 * rank",
)
mistake(
    "an array that does not divide among the ranks",
    "error",
    "all_of = np.arange(10.0) if rank == 0 else None\ncomm.Scatter(all_of, np.zeros(2), root=0)",
    ("rank 0", "equally many", "Scatterv", at(3)),
    """
counts, mine = [3, 3, 2, 2], np.zeros(3 if rank < 2 else 2)
comm.Scatterv([all_of, counts] if rank == 0 else None, mine, root=0)
""",
    "mine[0] == [0, 3, 6, 8][rank]",
)
mistake(
    "None for what the root scatters",
    "error",
    "all_of = None\ncomm.Scatter(all_of, np.zeros(2), root=0)",
    ("rank 0", "what the root hands out", at(3)),
    "mine = np.zeros(2)\ncomm.Scatter(np.ones(8) if rank == 0 else None, mine, root=0)",
    "mine.sum() == 2",
)
mistake(
    "a list for what the root scatters",
    "error",
    "all_of = [1, 2, 3, 4] if rank == 0 else None\ncomm.Scatter(all_of, np.zeros(1, int), root=0)",
    ("rank 0", r"np\.array", at(3)),
    "part = comm.scatter(all_of, root=0)",
    "part == rank + 1",
)
mistake(
    "None for what the root gathers",
    "error",
    "comm.Gather(np.ones(2), None, root=0)",
    ("rank 0", "where the root puts it all", at(2)),
    "all_of = np.zeros(8) if rank == 0 else None\ncomm.Gather(np.ones(2), all_of, root=0)",
    "rank or all_of.sum() == 8",
)
mistake(
    "the array of Gather on another rank than the root",
    "error",
    "all_of = np.zeros(4) if rank == 0 else None\ncomm.Gather(np.ones(1), all_of, root=3)",
    ("rank 3", "where the root puts it all", at(3)),
    "comm.Gather(np.ones(1), all_of, root=0)",
    "rank or all_of.sum() == 4",
)
mistake(
    "Allgather into an array of one part",
    "error",
    "comm.Allgather(np.ones(2), np.zeros(2))",
    ("ranks 0, 1, 2 and 3", "equally many", at(2)),
    "all_of = np.zeros(8)\ncomm.Allgather(np.ones(2), all_of)",
    "all_of.sum() == 8",
)
mistake(
    "Gather of parts of unlike length",
    "mismatch",
    "mine = np.ones(rank + 1)\ncomm.Gather(mine, np.zeros(16) if rank == 0 else None, root=0)",
    (at(3), "MPI_Gather", SAME_CALLS),
    """
all_of = np.zeros(10) if rank == 0 else None
comm.Gatherv(mine, [all_of, [1, 2, 3, 4]] if rank == 0 else None, root=0)
""",
    "rank or all_of.sum() == 10",
)
mistake(
    "Gatherv whose counts are another's",
    "mismatch",
    """
mine = np.ones(rank + 1)
room = [np.zeros(16), [4, 3, 2, 1]] if rank == 0 else None
comm.Gatherv(mine, room, root=0)
""",
    (at(4), "MPI_Gatherv"),
)
mistake(
    "Alltoall for one rank only",
    "error",
    "comm.Alltoall(np.ones(2), np.zeros(4))",
    ("ranks 0, 1, 2 and 3", "equally many", at(2)),
    "got = np.zeros(4)\ncomm.Alltoall(np.full(4, float(rank)), got)",
    "got.tolist() == [0, 1, 2, 3]",
)
mistake(
    "alltoall with too few things",
    "error",
    "got = comm.alltoall([rank])",
    ("ValueError", "ranks 0, 1, 2 and 3", at(2)),
    "got = comm.alltoall([rank] * size)",
    "got == [0, 1, 2, 3]",
)
# ---------------------------------------------------------------- who waits for whom

mistake(
    "both send first, and much",
    "deadlock",
    """
other = rank ^ 1
data, got = np.ones(BIG), np.zeros(BIG)
comm.Send(data, dest=other)
comm.Recv(got, source=other)
""",
    ("MPI_Send to rank", r"1\.6 MB", at(4), LIVES_ON),
    "comm.Sendrecv(data, other, recvbuf=got, source=other)",
    "got[-1] == 1",
)
mistake(
    "both receive first",
    "deadlock",
    "other = rank ^ 1\ngot = comm.recv(source=other)\ncomm.send(rank, dest=other)",
    (r"recv \(MPI_Mprobe\) from rank [0-3]", "each waits for the next", at(3)),
    "got = comm.sendrecv(rank, dest=other, source=other)",
    "got == other",
)
mistake(
    "a ring in which all receive first",
    "deadlock",
    "got = np.zeros(1)\ncomm.Recv(got, source=left)\ncomm.Send(np.ones(1), dest=right)",
    ("each waits for the next", "MPI_Recv from rank 3", at(3)),
    "comm.Sendrecv(np.ones(1), right, recvbuf=got, source=left)",
    "got[0] == 1",
)
mistake(
    "a tag that differs",
    "deadlock",
    """
got = None
if rank == 0:
    comm.send('x', dest=1, tag=11)
    comm.recv(source=1)
if rank == 1: got = comm.recv(source=0, tag=12)
""",
    ("the tags differ", "tag 12", "tag 11", at(6)),
    "if rank == 0: comm.send('x', 1, tag=11)\nif rank == 1: got = comm.recv(source=0, tag=11)",
    "rank != 1 or got == 'x'",
)
mistake(
    "a tag that differs, and nobody waits for the receiver",
    "starved",
    "if rank == 0: comm.Send(np.ones(1), 1, tag=1)\nif rank == 1: comm.Recv(np.zeros(1), 0, tag=2)",
    ("(?i)the tags differ", "tag 2", "has tag 1", at(3)),
)
mistake(
    "a message waited for from the wrong rank",
    "starved",
    "if rank == 0: comm.Send(np.ones(1), dest=2)\nif rank == 2: comm.Recv(np.zeros(1), source=1)",
    ("(?i)the source is wrong", "from rank 1", "from rank 0", at(3)),
    "if rank == 0: comm.send(1, dest=2)\nif rank == 2: x = comm.recv(source=0)",
    "rank != 2 or x == 1",
)
mistake(
    "a message to the wrong rank",
    "starved",
    "if rank == 0: comm.send('for 1', dest=2)\nif rank == 1: x = comm.recv(source=0)",
    ("Rank 1 waits for rank 0", at(3)),
    "if rank == 0: comm.send('for 1', dest=1)\nif rank == 1: x = comm.recv(source=0)",
    "rank != 1 or x == 'for 1'",
)
mistake(
    "everybody receives what one rank got",
    "starved",
    "if rank == 0: comm.send('hello', dest=1)\nelse: word = comm.recv(source=0)",
    ("[Rr]anks? [23]", "recv", at(3)),
    "word = comm.bcast('hello' if rank == 0 else None)",
    "word == 'hello'",
)
mistake(
    "a send that nobody was meant to receive",
    "right",
    "if rank == 0: comm.send('hello', dest=1)",
    ("from rank 0 to rank 1", at(2), "a later cell can receive it", STAYS),
    "if rank == 1: word = comm.recv(source=0)",
    "rank != 1 or word == 'hello'",
)
mistake(
    "a send in every turn, and one receive",
    "right",
    """
if rank == 0:
    for turn in range(3): comm.send(turn, dest=1)
if rank == 1: got = comm.recv(source=0)
""",
    ("2 messages from rank 0 to rank 1", at(3), STAYS),
    "if rank == 1: got = comm.recv(source=0), comm.recv(source=0)",
    "rank != 1 or got == (1, 2)",
)
mistake(
    "one receive too many from anybody",
    "starved",
    """
if rank == 0:
    for worker in range(size): comm.recv(source=MPI.ANY_SOURCE)
else:
    comm.send(rank, dest=0)
""",
    ("Rank 0 waits for any of ranks 1, 2 and 3", at(3)),
    """
if rank == 0: got = [comm.recv() for worker in range(size - 1)]
else: comm.send(rank, dest=0)
""",
    "rank or sorted(got) == [1, 2, 3]",
)
mistake(
    "workers that are never told to stop",
    "starved",
    """
if rank == 0:
    for worker in range(1, size): comm.send('task', dest=worker)
else:
    while comm.recv(source=0) != 'stop': pass
""",
    (r"rank [123]: recv \(MPI_Mprobe\) from rank 0", at(5)),
    """
if rank == 0:
    for worker in range(1, size): comm.send('stop', dest=worker)
else: word = comm.recv(source=0)
""",
    "rank == 0 or word == 'stop'",
)
mistake(
    "a message to oneself",
    "deadlock",
    "if rank == 0:\n    comm.Ssend(np.ones(1), dest=0)\n    comm.Recv(np.zeros(1), source=0)",
    ("[Rr]ank 0 waits for itself", at(3)),
)
mistake(
    "a receive inside the if, a send inside the same if",
    "starved",
    "if rank == 0:\n    comm.send(1, dest=1)\n    comm.recv(source=1)",
    ("Rank 0 waits for rank 1, where no cell runs", at(4)),
    "if rank == 0: comm.send(1, dest=1)\nif rank == 1: x = comm.recv(source=0)",
    "rank != 1 or x == 1",
)
mistake(
    "a message of the partner that has failed",
    "error",
    "if rank == 1: comm.send(1 / 0, dest=0)\nif rank == 0: x = comm.recv(source=1)",
    ("rank 1 raised ZeroDivisionError", at(2), at(3), LIVES_ON),
    "if rank == 1: comm.send(1, dest=0)\nif rank == 0: x = comm.recv(source=1)",
    "rank or x == 1",
)
mistake(
    "a large send to a rank that only computes",
    "starved",
    "if rank == 0: comm.Send(np.ones(BIG), dest=1)",
    ("Rank 0 waits for rank 1", r"1\.6 MB", at(2)),
)
mistake(
    "Ssend before the partner's Ssend",
    "deadlock",
    "other = rank ^ 1\ncomm.Ssend(np.ones(1), dest=other)\ncomm.Recv(np.zeros(1), source=other)",
    ("MPI_Ssend to rank", at(3)),
    """
got = np.zeros(1)
if rank % 2: comm.Recv(got, source=other)
comm.Ssend(np.ones(1), dest=other)
if rank % 2 == 0: comm.Recv(got, source=other)
""",
    "got[0] == 1",
)
mistake(
    "Sendrecv that receives from where it sends",
    "deadlock",
    "got = np.zeros(1)\ncomm.Sendrecv(np.ones(1), dest=right, recvbuf=got, source=right)",
    ("MPI_Sendrecv", at(3)),
    "comm.Sendrecv(np.ones(1), dest=right, recvbuf=got, source=left)",
    "got[0] == 1",
)
mistake(
    "a loop that polls for a message that was never sent",
    "suspected",
    "if rank == 0:\n    while not comm.iprobe(source=1): pass\n    comm.recv(source=1)",
    ("did nothing but test in a loop", at(3), "cluster.quiet"),
)
mistake(
    "a loop that tests a request for ever",
    "suspected",
    """
if rank == 0:
    request = comm.Irecv(np.zeros(1), source=1)
    while not request.Test(): pass
""",
    ("did nothing but test in a loop", at(4)),
)
mistake(
    "a file that no rank writes",
    "suspected",
    """
if rank == 0:
    while not os.path.exists('never-written'): comm.iprobe()
""",
    ("did nothing but test in a loop", at(3)),
)

# ---------------------------------------------------------------- collectives

mistake(
    "Bcast inside an if",
    "right",
    "value = np.full(1, 7.0 + rank)\nif rank == 0:\n    comm.Bcast(value, root=0)",
    ("rank 0 called MPI_Bcast", at(4), "ranks 1, 2 and 3 did not", "let all ranks call it"),
    "comm.Bcast(value, root=0)",
    "value[0] == 7",
)
mistake(
    "bcast inside an if, received by recv",
    "starved",
    "if rank == 0: comm.bcast('hello', root=0)\nelse: word = comm.recv(source=0)",
    ("recv", "ranks 1, 2 and 3|Rank 1", at(3)),
    "word = comm.bcast('hello' if rank == 0 else None, root=0)",
    "word == 'hello'",
)
mistake(
    "a barrier that one rank leaves out",
    "starved",
    "if rank != 2:\n    comm.Barrier()",
    ("(?i)" + SOME + " waits? in MPI_Barrier for rank 2", at(3)),
)
mistake(
    "a barrier inside a loop of unlike length",
    "starved",
    "for turn in range(rank + 1):\n    comm.Barrier()",
    ("wait in MPI_Barrier|waits in MPI_Barrier", "rank 0", at(3)),
    "for turn in range(3): comm.Barrier()",
)
mistake(
    "allreduce inside an if",
    "starved",
    "if rank > 0: total = comm.allreduce(rank)",
    ("allreduce", "for rank 0", at(2)),
    "total = comm.allreduce(rank)",
    "total == 6",
)
mistake(
    "Allreduce on the root, Reduce on the others",
    "mismatch",
    """
mine, total = np.ones(1), np.zeros(1)
if rank == 0: comm.Allreduce(mine, total)
else: comm.Reduce(mine, None, root=0)
""",
    ("rank 0: MPI_Allreduce", at(3), "MPI_Reduce", at(4), SAME_CALLS),
    "comm.Reduce(mine, total, root=0)",
    "rank or total[0] == 4",
)
mistake(
    "Gather on the root, Send on the others",
    "starved",
    """
if rank == 0: comm.Gather(np.ones(1), np.zeros(4), root=0)
else: comm.Send(np.ones(1), dest=0)
""",
    ("Rank 0 waits in MPI_Gather for ranks? [123]", at(2)),
)
mistake(
    "roots that differ",
    "mismatch",
    "comm.Bcast(np.ones(1), root=rank)",
    ("(MPI_Bcast, root [0-3].*){2}", at(2), "same root"),
    "value = np.full(1, float(rank))\ncomm.Bcast(value, root=2)",
    "value[0] == 2",
)
mistake(
    "the last rank is the root to itself alone",
    "mismatch",
    "root = size - 1 if rank == size - 1 else 0\nvalue = np.ones(1)\ncomm.Bcast(value, root=root)",
    ("rank 3: MPI_Bcast, root 3", SOME + ": MPI_Bcast, root 0", at(4)),
)
mistake(
    "operations that differ",
    "mismatch",
    "op = MPI.MAX if rank == 0 else MPI.SUM\ncomm.Allreduce(np.ones(1), np.zeros(1), op=op)",
    ("rank 0: MPI_Allreduce, MPI_MAX", "MPI_SUM", at(3), "operation"),
    "total = np.zeros(1)\ncomm.Allreduce(np.ones(1), total, op=MPI.SUM)",
    "total[0] == 4",
)
mistake(
    "two collectives in another order",
    "mismatch",
    """
value = np.ones(1)
if rank == 0:
    comm.Barrier()
    comm.Bcast(value, root=0)
else:
    comm.Bcast(value, root=0)
    comm.Barrier()
""",
    ("rank 0: MPI_Barrier", at(4), SOME + ": MPI_Bcast", at(7), SAME_CALLS),
    "comm.Bcast(value, root=0)\ncomm.Barrier()",
    "value[0] == 1",
)
mistake(
    "a print with a collective in it, on rank 0",
    "right",
    "value = np.full(1, float(rank))\nif rank == 0: print(comm.bcast(5, root=0))",
    ("rank 0 called MPI_Bcast", "ranks 1, 2 and 3 did not", at(3)),
    "five = comm.bcast(5, root=0)\nif rank == 0: print(five)",
    "five == 5",
)
mistake(
    "a message that crosses a barrier the wrong way",
    "deadlock",
    """
if rank == 0: got = comm.recv(source=1)
comm.Barrier()
if rank == 1: comm.send('late', dest=0)
""",
    ("recv", at(2), "MPI_Barrier", at(3)),
    "if rank == 1: comm.send('now', dest=0)\nif rank == 0: got = comm.recv(source=1)",
    "rank or got == 'now'",
)
mistake(
    "a barrier in an else",
    "deadlock",
    """
if rank == 0:
    comm.Recv(np.zeros(1), source=1)
else:
    comm.Barrier()
    if rank == 1: comm.Send(np.ones(1), dest=0)
""",
    ("rank 0: MPI_Recv from rank 1", at(3), "MPI_Barrier", at(5)),
)
mistake(
    "an error on one rank before a collective",
    "error",
    "x = 1 / (rank - 2)\nvalue = np.ones(1)\ncomm.Bcast(value, root=0)",
    ("rank 2 raised ZeroDivisionError", at(2), LIVES_ON),
    "comm.Bcast(np.ones(1), root=0)",
)
mistake(
    "a return before the collective",
    "starved",
    """
def mean(numbers):
    if len(numbers) == 0: return 0
    return comm.allreduce(sum(numbers)) / comm.allreduce(len(numbers))
average = mean([] if rank == 3 else [1, 2])
""",
    ("allreduce", "for rank 3", at(4)),
    "average = comm.allreduce(3 if rank < 3 else 0) / comm.allreduce(2 if rank < 3 else 0)",
    "average == 1.5",
)

# ---------------------------------------------------------------- nonblocking calls

mistake(
    "an Irecv whose request is not kept",
    "right",
    """
got = np.zeros(1)
if rank == 1: comm.Irecv(got, source=0)
if rank == 0: comm.Send(np.ones(1), dest=1)
""",
    ("rank 1 began a receive from rank 0", at(3), "did not keep its request", r"request\.Wait"),
    """
if rank == 1: request = comm.Irecv(got, source=0); request.Wait()
if rank == 0: comm.Send(np.full(1, 2.0), dest=1)
""",
    "rank != 1 or got[0] == 2",
)
mistake(
    "a large Isend whose request is not kept",
    "right",
    """
big = np.ones(BIG)
if rank == 0: comm.Isend(big, dest=1)
if rank == 1: comm.Recv(big, source=0)
""",
    ("rank 0 began a send to rank 1", at(3), "did not keep its request", r"comm\.Isend"),
    "if rank == 0: comm.Isend(big, dest=1).Wait()\nif rank == 1: comm.Recv(big, source=0)",
    "big[-1] == 1",
)
mistake(
    "an array that is read before it has come",
    "right",
    """
got = np.zeros(1)
if rank == 1:
    request = comm.Irecv(got, source=0)
    print(got[0])
comm.Barrier()
if rank == 0: comm.Send(np.ones(1), dest=1)
""",
    (
        "rank 1 began a receive from rank 0",
        at(4),
        "has not waited for it",
        r"only after request\.Wait",
    ),
    "if rank == 1: request.Wait()",
    "rank != 1 or got[0] == 1",
)
mistake(
    "irecv is taken for its value",
    "error",
    """
if rank == 0: comm.send(5, dest=1)
if rank == 1:
    n = comm.irecv(source=0)
    print(n + 1)
""",
    ("rank 1", "TypeError", r"request\.wait\(\)", at(5)),
    "if rank == 0: comm.send(5, dest=1)\nif rank == 1: n = comm.irecv(source=0).wait()",
    "rank != 1 or n == 5",
)
mistake(
    "wait without its brackets",
    "right",
    """
got = np.zeros(1)
if rank == 0: comm.Send(np.ones(1), dest=1)
if rank == 1:
    request = comm.Irecv(got, source=0)
    request.Wait
""",
    ("rank 1 began a receive from rank 0", at(5), r"request\.Wait\(\)"),
    "if rank == 1: request.Wait()",
    "rank != 1 or got[0] == 1",
)
mistake(
    "one of two requests is waited for",
    "right",
    """
a, b = np.zeros(1), np.zeros(1)
if rank == 0:
    comm.Send(np.ones(1), 1, tag=1)
    comm.Send(np.ones(1), 1, tag=2)
if rank == 1:
    request = comm.Irecv(a, 0, tag=1)
    request = comm.Irecv(b, 0, tag=2)
    request.Wait()
""",
    ("rank 1 began a receive from rank 0", at(7), "did not keep its request"),
    """
if rank == 0: comm.Send(np.ones(1), 1, 1); comm.Send(np.ones(1), 1, 2)
if rank == 1: MPI.Request.Waitall([comm.Irecv(a, 0, 1), comm.Irecv(b, 0, 2)])
""",
    "rank != 1 or a[0] + b[0] == 2",
)
mistake(
    "a collective that is begun and not waited for",
    "right",
    "mine, total = np.ones(1), np.zeros(1)\nrequest = comm.Iallreduce(mine, total)",
    ("rank 0 began a nonblocking collective", "rank 3 began", at(3), r"request\.Wait\(\)"),
    "request.Wait()",
    "total[0] == 4",
)
mistake(
    "an irecv of a long message",
    "error",
    """
if rank == 0: comm.send(list(range(20_000)), dest=1)
if rank == 1: got = comm.irecv(source=0).wait()
""",
    ("rank 1", "irecv has room", "Use recv", at(3)),
    """
if rank == 0: comm.send(list(range(20_000)), dest=1)
if rank == 1: got = comm.recv(source=0)
""",
    "rank != 1 or len(got) == 20_000",
)
mistake(
    "Waitall of a receive that nobody serves",
    "starved",
    """
if rank == 0:
    requests = [comm.Irecv(np.zeros(1), source=r) for r in range(1, size)]
    MPI.Request.Waitall(requests)
elif rank < 3:
    comm.Send(np.ones(1), dest=0)
""",
    ("MPI_Waitall for the receive from", "from rank 3", at(4)),
)
mistake(
    "a wait for the send before the receive",
    "deadlock",
    """
request = comm.Issend(np.ones(1), dest=right)
request.Wait()
comm.Recv(np.zeros(1), source=left)
""",
    ("MPI_Wait for the send to rank", at(3)),
    """
got = np.zeros(1)
request = comm.Issend(np.ones(1), dest=right)
comm.Recv(got, source=left)
request.Wait()
""",
    "got[0] == 1",
)
mistake(
    "Waitall without a list",
    "error",
    """
request = comm.Irecv(np.zeros(1), source=left)
comm.Send(np.ones(1), dest=right)
MPI.Request.Waitall(request)
""",
    ("TypeError", "ranks 0, 1, 2 and 3", at(4)),
)
mistake(
    "Wait asked of the communicator",
    "error",
    "request = comm.Irecv(np.zeros(1), source=left)\ncomm.Wait(request)",
    ("AttributeError", "ranks 0, 1, 2 and 3", at(3)),
)
mistake(
    "a later receive takes what an Irecv was to have",
    "starved",
    """
a = np.zeros(1)
if rank == 0: comm.Send(np.ones(1), dest=1, tag=77)
if rank == 1:
    request = comm.Irecv(a, source=0, tag=77)
    comm.Recv(a, source=0, tag=77)
""",
    ("Rank 1 has 1 message from rank 0", "has not been waited for", at(6)),
    "if rank == 0: comm.Send(np.ones(1), 1, 77)\nif rank == 1: comm.Recv(a, 0, 77)",
    "rank != 1 or a[0] == 1",
)

# ---------------------------------------------------------------- ranks that are computed

mistake(
    "the right neighbour of the last rank",
    "error",
    "comm.send(rank, dest=rank + 1)",
    ("rank 3", "to rank 4: no such rank", "0 to 3", AROUND, at(2), "3 messages"),
    "comm.send(rank, dest=(rank + 1) % size)\ngot = comm.recv(source=left)",
    "got == left",
)
mistake(
    "a receive from beyond the last rank",
    "error",
    "comm.send(rank, dest=left)\ngot = comm.recv(source=rank + 1)",
    ("rank 3", "from rank 4: no such rank", AROUND, at(3)),
    "comm.send(rank, dest=left)\ngot = comm.recv(source=right)",
    "got == right",
)
mistake(
    "the left neighbour of rank 0",
    "right" if MPICH else "error",
    """
got = np.zeros(1)
comm.Send(np.ones(1), dest=rank - 1)
if rank < size - 1: comm.Recv(got, source=rank + 1)
""",
    ("rank 0", "rank -1", at(3), r"\(rank - 1\) % size"),
    "comm.Sendrecv(np.ones(1), (rank - 1) % size, recvbuf=got, source=right)",
    "got[0] == 1",
)
mistake(
    "a neighbour by a name that was computed",
    "right" if MPICH else "error",
    "below, above = rank - 1, rank + 1\nif rank == 0: comm.Send(np.ones(1), dest=below)",
    ("rank 0", "rank -1", at(3), r"\(rank - 1\) % size"),
)
mistake(
    "a receive from the left of rank 0",
    "right" if MPICH else "starved",
    "got = np.full(1, 5.0)\nif rank == 0: comm.Recv(got, source=rank - 1)",
    ("rank 0's Recv", "receives from rank -1", at(3), "MPI.(PROC_NULL|ANY_SOURCE)"),
)
mistake(
    "ranks that begin at 1",
    "error",
    "if rank == 1: comm.send('to all', dest=size)",
    ("rank 1", "no such rank", "0 to 3", at(2)),
)
mistake(
    "a rank that is no rank but half of a number",
    "right",
    "if rank == 0: comm.send(1, dest=(size + 1) / 2)\nif rank == 3: comm.iprobe()",
    ("from rank 0 to rank 2", at(2), STAYS),
    "if rank == 2: x = comm.recv(source=0)",
    "rank != 2 or x == 1",
)
mistake(
    "a tag that is a word",
    "error",
    "comm.send(1, dest=right, tag='data')",
    ("TypeError", "ranks 0, 1, 2 and 3", at(2)),
)
mistake(
    "a tag below zero",
    "error",
    "comm.send(1, dest=right, tag=-5)",
    ("tag -5", "tags are 0 to", at(2)),
)
mistake(
    "rank and tag in each other's place",
    "error",
    "comm.send('x', 7, right)",
    ("to rank 7", "no such rank", at(2)),
    "comm.send('x', right, 7)\ngot = comm.recv(source=left, tag=7)",
    "got == 'x'",
)

# ---------------------------------------------------------------- communicators and the rest

mistake(
    "a rank of the world in a smaller communicator",
    "error",
    "half = comm.Split(rank // 2, rank)\nif rank == 2: half.send(1, dest=3)",
    ("rank 2", "no such rank", "0 to 1", at(3)),
    "if rank == 2: half.send(1, dest=1)\nif rank == 3: x = half.recv(source=0)",
    "rank != 3 or x == 1",
)
mistake(
    "a Split that one rank leaves out",
    "starved",
    "if rank != 3: group = comm.Split(0, rank)",
    ("MPI_Comm_split", "for rank 3", at(2)),
    "group = comm.Split(0 if rank < 3 else MPI.UNDEFINED, rank)",
    "rank == 3 or group.size == 3",
)
mistake(
    "a communicator that this rank does not belong to",
    "error",
    "few = comm.Split(0 if rank < 2 else MPI.UNDEFINED, rank)\nfew.Barrier()",
    ("ranks 2 and 3", at(3)),
    "if few != MPI.COMM_NULL: few.Barrier()",
)
mistake(
    "a message on another communicator than it is waited for on",
    "starved",
    """
other = comm.Dup()
if rank == 0: other.Send(np.ones(1), dest=1)
if rank == 1: comm.Recv(np.zeros(1), source=0)
""",
    ("(?i)the communicators differ", at(4)),
)
mistake(
    "a grid of more ranks than there are",
    "error",
    "grid = comm.Create_cart([3, 2])",
    ("ranks 0, 1, 2 and 3", at(2)),
    "grid = comm.Create_cart([2, 2])",
    "grid.size == 4",
)
mistake(
    "a window that is used without a fence",
    "error",
    """
memory = np.zeros(1)
win = MPI.Win.Create(memory, comm=comm)
if rank == 0: win.Lock(7)
""",
    ("rank 0", at(4)),
    "win.Fence()\nif rank == 0: win.Put(np.ones(1), 1)\nwin.Fence()\nwin.Free()",
    "rank != 1 or memory[0] == 1",
)
mistake(
    "a fence that one rank leaves out",
    "starved",
    """
win = MPI.Win.Create(np.zeros(1), comm=comm)
win.Fence()
if rank != 1: win.Fence()
""",
    ("MPI_Win_fence", "rank 1", at(4)),
)
mistake(
    "a file that is not there",
    "error",
    "file = MPI.File.Open(comm, 'no-such-file', MPI.MODE_RDONLY)",
    ("ranks 0, 1, 2 and 3", at(2)),
)
mistake(
    "a file opened by one rank",
    "starved",
    "if rank == 0: file = MPI.File.Open(comm, 'a-file', MPI.MODE_CREATE | MPI.MODE_WRONLY)",
    ("MPI_File_open", "Rank 0 waits", at(2)),
)
