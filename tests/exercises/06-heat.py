"""Solutions of 06-heat: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "Sendrecv with copies of the columns": """
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    grid.Sendrecv(u[1, 1:-1], above, recvbuf=u[-1, 1:-1], source=below)
    grid.Sendrecv(u[-2, 1:-1], below, recvbuf=u[0, 1:-1], source=above)
    for mine, to, halo, source in ((1, left, -1, right), (-2, right, 0, left)):
        column = u[1:-1, halo].copy()
        grid.Sendrecv(u[1:-1, mine].copy(), to, recvbuf=column, source=source)
        u[1:-1, halo] = column
    return (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
""",
    "all at once, columns by a datatype": """
def step(grid, u):
    n, m = u.shape
    flat = u.reshape(-1)
    row = MPI.DOUBLE.Create_contiguous(m - 2).Commit()
    column = MPI.DOUBLE.Create_vector(n - 2, 1, m).Commit()
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    places = [  # the neighbour, what it is sent, where its own comes to
        (above, row, m + 1, 1),
        (below, row, (n - 2) * m + 1, (n - 1) * m + 1),
        (left, column, m + 1, m),
        (right, column, m + m - 2, m + m - 1),
    ]
    requests = []
    for other, face, mine, halo in places:
        requests.append(grid.Irecv([flat[halo:], 1, face], other))
        requests.append(grid.Isend([flat[mine:], 1, face], other))
    row.Free()
    column.Free()
    MPI.Request.Waitall(requests)
    return 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + (u[1:-1, :-2] + u[1:-1, 2:]))
""",
    "by hand from the coordinates, blocking, in two colours, cell by cell": """
def swapped(grid, other, mine):
    mine = np.ascontiguousarray(mine)
    theirs = np.empty_like(mine)
    if sum(grid.Get_coords(grid.Get_rank())) % 2:
        grid.Recv(theirs, source=other)
        grid.Ssend(mine, dest=other)
    else:
        grid.Ssend(mine, dest=other)
        grid.Recv(theirs, source=other)
    return theirs


def step(grid, u):
    (rows, columns), _, (i, j) = grid.Get_topo()
    old = u.copy()
    even = (i + j) % 2 == 0
    for down in (True, False):
        di = 1 if down == even else -1
        if 0 <= i + di < rows:
            other = grid.Get_cart_rank([i + di, j])
            old[-1 if di > 0 else 0, 1:-1] = swapped(grid, other, u[-2 if di > 0 else 1, 1:-1])
    for to_the_right in (True, False):
        dj = 1 if to_the_right == even else -1
        if 0 <= j + dj < columns:
            other = grid.Get_cart_rank([i, j + dj])
            old[1:-1, -1 if dj > 0 else 0] = swapped(grid, other, u[1:-1, -2 if dj > 0 else 1])
    new = np.zeros((u.shape[0] - 2, u.shape[1] - 2))
    for a in range(1, u.shape[0] - 1):
        for b in range(1, u.shape[1] - 1):
            new[a - 1, b - 1] = (old[a - 1, b] + old[a + 1, b] + old[a, b - 1] + old[a, b + 1]) / 4
    return new
""",
}

_MEAN = "(u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4"

WRONG = {
    "a column without a copy": (
        "runs without an error",
        "line 5 of your cell",
        f"""
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    grid.Sendrecv(u[1, 1:-1], above, recvbuf=u[-1, 1:-1], source=below)
    grid.Sendrecv(u[1:-1, 1], left, recvbuf=u[1:-1, -1], source=right)
    grid.Sendrecv(u[-2, 1:-1], below, recvbuf=u[0, 1:-1], source=above)
    grid.Sendrecv(u[1:-1, -2], right, recvbuf=u[1:-1, 0], source=left)
    return {_MEAN}
""",
    ),
    "receives into a copy of the halo": (
        "gives the right values on every rank",
        "elements; the first is",
        f"""
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    grid.Sendrecv(u[1, 1:-1], above, recvbuf=u[-1, 1:-1], source=below)
    grid.Sendrecv(u[-2, 1:-1], below, recvbuf=u[0, 1:-1], source=above)
    grid.Sendrecv(u[1:-1, 1].copy(), left, recvbuf=u[1:-1, -1].copy(), source=right)
    grid.Sendrecv(u[1:-1, -2].copy(), right, recvbuf=u[1:-1, 0].copy(), source=left)
    return {_MEAN}
""",
    ),
    "zeros for the border where there is no neighbour": (
        "gives the right values on every rank",
        "elements; the first is",
        f"""
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    n, m = u.shape
    halos = [np.zeros(m - 2), np.zeros(m - 2), np.zeros(n - 2), np.zeros(n - 2)]
    faces = [u[1, 1:-1], u[-2, 1:-1], u[1:-1, 1].copy(), u[1:-1, -2].copy()]
    requests = []
    for halo, face, other in zip(halos, faces, (above, below, left, right)):
        requests += [grid.Irecv(halo, other), grid.Isend(face, other)]
    MPI.Request.Waitall(requests)
    u[0, 1:-1], u[-1, 1:-1], u[1:-1, 0], u[1:-1, -1] = halos
    return {_MEAN}
""",
    ),
    "computes in place, from cells that are new already": (
        "gives the right values on every rank",
        "elements; the first is [0, 1]",
        """
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    halos = [u[0, 1:-1].copy(), u[-1, 1:-1].copy(), u[1:-1, 0].copy(), u[1:-1, -1].copy()]
    faces = [u[1, 1:-1].copy(), u[-2, 1:-1].copy(), u[1:-1, 1].copy(), u[1:-1, -2].copy()]
    requests = []
    for halo, face, other in zip(halos, faces, (above, below, left, right)):
        requests += [grid.Irecv(halo, other), grid.Isend(face, other)]
    MPI.Request.Waitall(requests)
    u[0, 1:-1], u[-1, 1:-1], u[1:-1, 0], u[1:-1, -1] = halos
    for i in range(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            u[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) / 4
    return u[1:-1, 1:-1]
""",
    ),
    "returns the halo too": (
        "gives the right values on every rank",
        "and should be an array of",
        f"""
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    grid.Sendrecv(u[1, 1:-1], above, recvbuf=u[-1, 1:-1], source=below)
    grid.Sendrecv(u[-2, 1:-1], below, recvbuf=u[0, 1:-1], source=above)
    for mine, to, halo, source in ((1, left, -1, right), (-2, right, 0, left)):
        column = u[1:-1, halo].copy()
        grid.Sendrecv(u[1:-1, mine].copy(), to, recvbuf=column, source=source)
        u[1:-1, halo] = column
    u[1:-1, 1:-1] = {_MEAN}
    return u
""",
    ),
    "corners too": (
        "sends what is asked for",
        "its four faces, where there is a neighbour",
        f"""
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    grid.Sendrecv(u[1], above, recvbuf=u[-1], source=below)
    grid.Sendrecv(u[-2], below, recvbuf=u[0], source=above)
    for mine, to, halo, source in ((1, left, -1, right), (-2, right, 0, left)):
        column = u[:, halo].copy()
        grid.Sendrecv(u[:, mine].copy(), to, recvbuf=column, source=source)
        u[:, halo] = column
    return {_MEAN}
""",
    ),
    "everybody sends first": (
        "ends without the library's buffers",
        "each waits for the next",
        f"""
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    first, last = u[1:-1, 0].copy(), u[1:-1, -1].copy()
    grid.Send(u[1, 1:-1], above)
    grid.Send(u[-2, 1:-1], below)
    grid.Send(u[1:-1, 1].copy(), left)
    grid.Send(u[1:-1, -2].copy(), right)
    grid.Recv(u[0, 1:-1], above)
    grid.Recv(u[-1, 1:-1], below)
    grid.Recv(first, left)
    grid.Recv(last, right)
    u[1:-1, 0], u[1:-1, -1] = first, last
    return {_MEAN}
""",
    ),
    "a datatype that is not freed": (
        "frees the datatypes it makes",
        "1 datatype was made and not freed",
        f"""
def step(grid, u):
    n, m = u.shape
    column = MPI.DOUBLE.Create_vector(n - 2, 1, m).Commit()
    flat = u.reshape(-1)
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    grid.Sendrecv(u[1, 1:-1], above, recvbuf=u[-1, 1:-1], source=below)
    grid.Sendrecv(u[-2, 1:-1], below, recvbuf=u[0, 1:-1], source=above)
    there = [flat[2 * m - 1 :], 1, column]
    grid.Sendrecv([flat[m + 1 :], 1, column], left, recvbuf=there, source=right)
    there = [flat[m:], 1, column]
    grid.Sendrecv([flat[2 * m - 2 :], 1, column], right, recvbuf=there, source=left)
    return {_MEAN}
""",
    ),
    "the mean before the faces have come": (
        "gives the right values on every rank",
        "elements; the first is",
        f"""
def step(grid, u):
    (above, below), (left, right) = grid.Shift(0, 1), grid.Shift(1, 1)
    halos = [u[0, 1:-1].copy(), u[-1, 1:-1].copy(), u[1:-1, 0].copy(), u[1:-1, -1].copy()]
    faces = [u[1, 1:-1].copy(), u[-2, 1:-1].copy(), u[1:-1, 1].copy(), u[1:-1, -2].copy()]
    requests = []
    for halo, face, other in zip(halos, faces, (above, below, left, right)):
        requests += [grid.Irecv(halo, other), grid.Isend(face, other)]
    new = {_MEAN}
    MPI.Request.Waitall(requests)
    u[0, 1:-1], u[-1, 1:-1], u[1:-1, 0], u[1:-1, -1] = halos
    return new
""",
    ),
    "rows and columns exchanged": (
        "gives the right values on every rank",
        "elements; the first is",
        f"""
def step(grid, u):
    (left, right), (above, below) = grid.Shift(0, 1), grid.Shift(1, 1)
    halos = [u[0, 1:-1].copy(), u[-1, 1:-1].copy(), u[1:-1, 0].copy(), u[1:-1, -1].copy()]
    faces = [u[1, 1:-1].copy(), u[-2, 1:-1].copy(), u[1:-1, 1].copy(), u[1:-1, -2].copy()]
    requests = []
    for halo, face, other in zip(halos, faces, (above, below, left, right)):
        requests += [grid.Irecv(halo, other), grid.Isend(face, other)]
    MPI.Request.Waitall(requests)
    u[0, 1:-1], u[-1, 1:-1], u[1:-1, 0], u[1:-1, -1] = halos
    return {_MEAN}
""",
    ),
    "neighbours by the numbers of the ranks, as if in one line": (
        "gives the right values on every rank",
        "elements; the first is",
        f"""
def step(grid, u):
    above = grid.rank - 1 if grid.rank > 0 else MPI.PROC_NULL
    below = grid.rank + 1 if grid.rank < grid.size - 1 else MPI.PROC_NULL
    grid.Sendrecv(u[1, 1:-1], above, recvbuf=u[-1, 1:-1], source=below)
    grid.Sendrecv(u[-2, 1:-1], below, recvbuf=u[0, 1:-1], source=above)
    return {_MEAN}
""",
    ),
}
