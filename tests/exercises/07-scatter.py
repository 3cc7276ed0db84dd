"""Solutions of 07-scatter: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "a vector resized, on rank 0 alone": """
def deal_columns(comm, matrix, mine):
    if comm.rank > 0:
        comm.Scatterv(None, mine, root=0)
        return
    rows, columns = matrix.shape
    counts = [columns // comm.size + (r < columns % comm.size) for r in range(comm.size)]
    displacements = [sum(counts[:r]) for r in range(comm.size)]
    long = MPI.DOUBLE.Create_vector(rows, 1, columns)
    column = long.Create_resized(0, matrix.itemsize).Commit()
    comm.Scatterv([matrix, counts, displacements, column], mine, root=0)
    long.Free()
    column.Free()
""",
    "counts gathered, a subarray resized": """
def deal_columns(comm, matrix, mine):
    counts = comm.gather(len(mine))
    sent = None
    if comm.rank == 0:
        first = np.concatenate([[0], np.cumsum(counts)[:-1]])
        shape = list(matrix.shape)
        whole = MPI.DOUBLE.Create_subarray(shape, [shape[0], 1], [0, 0])
        column = whole.Create_resized(0, 8)
        column.Commit()
        whole.Free()
        sent = [matrix, (counts, first), column]
    comm.Scatterv(sent, [mine, mine.size, MPI.DOUBLE])
    if comm.rank == 0:
        column.Free()
    return mine
""",
    "places in bytes, the type made on all ranks": """
def deal_columns(comm, matrix, mine):
    rows = mine.shape[1]
    columns = comm.bcast(matrix.shape[1] if comm.rank == 0 else None, root=0)
    places = [8 * columns * i for i in range(rows)]
    scattered = MPI.DOUBLE.Create_hindexed_block(1, places)
    column = scattered.Create_resized(0, 8).Commit()
    least, more = divmod(columns, comm.size)
    counts = [least + 1] * more + [least] * (comm.size - more)
    displacements = [r * least + min(r, more) for r in range(comm.size)]
    try:
        comm.Scatterv([matrix, counts, displacements, column], mine, root=0)
    finally:
        column.Free()
        scattered.Free()
""",
}


def _dealt(
    counts: str = "[columns // p + (r < columns % p) for r in range(p)]",
    displacements: str = "[sum(counts[:r]) for r in range(p)]",
    type_: str = "long.Create_resized(0, 8).Commit()",
    free: str = "long.Free()\n        column.Free()",
) -> str:
    """What many wrong ones have in common."""
    return f"""
def deal_columns(comm, matrix, mine):
    p, sent = comm.size, None
    if comm.rank == 0:
        rows, columns = matrix.shape
        counts = {counts}
        displacements = {displacements}
        long = MPI.DOUBLE.Create_vector(rows, 1, columns)
        column = {type_}
        sent = [matrix, counts, displacements, column]
    comm.Scatterv(sent, mine, root=0)
    if comm.rank == 0:
        {free}
"""


WRONG = {
    "a transposed copy in place of a type": (
        "describes its data by a datatype",
        "rank 0 made no datatype",
        """
def deal_columns(comm, matrix, mine):
    p, sent = comm.size, None
    if comm.rank == 0:
        rows, columns = matrix.shape
        counts = [rows * (columns // p + (r < columns % p)) for r in range(p)]
        displacements = [sum(counts[:r]) for r in range(p)]
        sent = [np.ascontiguousarray(matrix.T), counts, displacements, MPI.DOUBLE]
    comm.Scatterv(sent, mine, root=0)
""",
    ),
    "a type that is not resized": (
        "gives the right values on every rank",
        "mine is wrong in",
        _dealt(type_="long.Commit()", free="long.Free()"),
    ),
    "resized to 1 byte": (
        "gives the right values on every rank",
        "mine is wrong in",
        _dealt(type_="long.Create_resized(0, 1).Commit()"),
    ),
    "the same count for all": (
        "gives the right values on every rank",
        "mine is wrong in",
        _dealt(counts="[columns // p] * p"),
    ),
    "displacements as if all had the same count": (
        "gives the right values on every rank",
        "mine is wrong in",
        _dealt(displacements="[r * (columns // p) for r in range(p)]"),
    ),
    "frees the resized type and forgets the one it was made of": (
        "frees the datatypes it makes",
        "rank 0: 1 datatype was made and not freed",
        _dealt(free="column.Free()"),
    ),
    "a type that is not committed": (
        "runs without an error",
        "nvalid datatype",
        _dealt(type_="long.Create_resized(0, 8)"),
    ),
    "asks for the shape of what only rank 0 has": (
        "runs without an error",
        "'NoneType' object has no attribute 'shape'",
        """
def deal_columns(comm, matrix, mine):
    rows, columns = matrix.shape
    p = comm.size
    counts = [columns // p + (r < columns % p) for r in range(p)]
    long = MPI.DOUBLE.Create_vector(rows, 1, columns)
    column = long.Create_resized(0, 8).Commit()
    comm.Scatterv([matrix, counts, None, column], mine, root=0)
    long.Free()
    column.Free()
""",
    ),
    "only rank 0 calls": (
        "ends",
        "MPI_Scatterv",
        """
def deal_columns(comm, matrix, mine):
    if comm.rank > 0:
        return
    p = comm.size
    rows, columns = matrix.shape
    counts = [columns // p + (r < columns % p) for r in range(p)]
    long = MPI.DOUBLE.Create_vector(rows, 1, columns)
    column = long.Create_resized(0, 8).Commit()
    comm.Scatterv([matrix, counts, [sum(counts[:r]) for r in range(p)], column], mine, root=0)
    long.Free()
    column.Free()
""",
    ),
    "messages in place of the collective call": (
        "uses MPI_Scatterv",
        "rank 0 called MPI_Scatterv 0 times",
        """
def deal_columns(comm, matrix, mine):
    if comm.rank > 0:
        comm.Recv(mine, source=0)
        return
    rows, columns = matrix.shape
    p, flat = comm.size, matrix.reshape(-1)
    counts = [columns // p + (r < columns % p) for r in range(p)]
    long = MPI.DOUBLE.Create_vector(rows, 1, columns)
    column = long.Create_resized(0, 8).Commit()
    mine[:] = matrix[:, : counts[0]].T
    for r in range(1, p):
        comm.Send([flat[sum(counts[:r]) :], counts[r], column], dest=r)
    long.Free()
    column.Free()
""",
    ),
}
