"""Solutions of 02-both-ways: right ones in several styles, wrong ones as students write them."""

BUFFERED = "ends without the library's buffers"
VALUES = "gives the right values on every rank"
WITHOUT = "does without what this exercise rules out"
HEAD = """#include <mpi.h>
#include <string.h>

int both_ways(const double *mine, double *left, double *right, int n, MPI_Comm comm)
{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
"""
ALONE = """    if (size == 1) {
        memcpy(left, mine, n * sizeof *mine);
        memcpy(right, mine, n * sizeof *mine);
        return MPI_SUCCESS;
    }
"""
TAIL = """    return MPI_SUCCESS;
}
"""

RIGHT = {
    "even ranks send first, one way and then the other": HEAD
    + ALONE
    + """    if (rank % 2 == 0) {
        MPI_Send(mine, n, MPI_DOUBLE, next, 0, comm);
        MPI_Recv(left, n, MPI_DOUBLE, last, 0, comm, MPI_STATUS_IGNORE);
        MPI_Send(mine, n, MPI_DOUBLE, last, 1, comm);
        MPI_Recv(right, n, MPI_DOUBLE, next, 1, comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(left, n, MPI_DOUBLE, last, 0, comm, MPI_STATUS_IGNORE);
        MPI_Send(mine, n, MPI_DOUBLE, next, 0, comm);
        MPI_Recv(right, n, MPI_DOUBLE, next, 1, comm, MPI_STATUS_IGNORE);
        MPI_Send(mine, n, MPI_DOUBLE, last, 1, comm);
    }
"""
    + TAIL,
    "pair by pair round the ring": HEAD
    + """    for (int i = 0; i < n && size == 1; i++)
        left[i] = right[i] = mine[i];
    for (int i = 0; i < size && size > 1; i++) {
        if (rank == i) {
            MPI_Ssend(mine, n, MPI_DOUBLE, next, i, comm);
            MPI_Recv(right, n, MPI_DOUBLE, next, MPI_ANY_TAG, comm, MPI_STATUS_IGNORE);
        }
        if (rank == (i + 1) % size) {
            MPI_Recv(left, n, MPI_DOUBLE, last, i, comm, MPI_STATUS_IGNORE);
            MPI_Ssend(mine, n, MPI_DOUBLE, last, i, comm);
        }
    }
"""
    + TAIL,
    "a function for each way, in which the last rank receives first": """#include <mpi.h>
#include <string.h>

static int along(const double *out, double *in, int n, int to, int from, int first, MPI_Comm comm)
{
    int error = MPI_SUCCESS;
    if (first)
        error = MPI_Recv(in, n * 8, MPI_BYTE, from, 3, comm, MPI_STATUS_IGNORE);
    if (!error)
        error = MPI_Send(out, n * 8, MPI_BYTE, to, 3, comm);
    if (!error && !first)
        error = MPI_Recv(in, n * 8, MPI_BYTE, from, 3, comm, MPI_STATUS_IGNORE);
    return error;
}

int both_ways(const double *mine, double *left, double *right, int n, MPI_Comm comm)
{
    int rank, size, error;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size == 1) {
        memcpy(left, mine, n * sizeof(double));
        memcpy(right, mine, n * sizeof(double));
        return MPI_SUCCESS;
    }
    int up = rank == size - 1 ? 0 : rank + 1, down = rank == 0 ? size - 1 : rank - 1;
    error = along(mine, left, n, up, down, rank == size - 1, comm);
    return error ? error : along(mine, right, n, down, up, rank == size - 1, comm);
}
""",
}

WRONG = {
    "everyone sends first": (
        BUFFERED,
        "MPI_Send to rank 1",
        HEAD
        + ALONE
        + """    MPI_Send(mine, n, MPI_DOUBLE, next, 0, comm);
    MPI_Send(mine, n, MPI_DOUBLE, last, 1, comm);
    MPI_Recv(left, n, MPI_DOUBLE, last, 0, comm, MPI_STATUS_IGNORE);
    MPI_Recv(right, n, MPI_DOUBLE, next, 1, comm, MPI_STATUS_IGNORE);
"""
        + TAIL,
    ),
    "a phase for even ranks' right, a phase for their left: even numbers only": (
        "ends",
        "on 3 ranks",
        HEAD
        + ALONE
        + """    int first = rank % 2 == 0 ? next : last, second = rank % 2 == 0 ? last : next;
    double *one = rank % 2 == 0 ? right : left, *two = rank % 2 == 0 ? left : right;
    if (rank % 2 == 0) {
        MPI_Ssend(mine, n, MPI_DOUBLE, first, 0, comm);
        MPI_Recv(one, n, MPI_DOUBLE, first, 0, comm, MPI_STATUS_IGNORE);
        MPI_Ssend(mine, n, MPI_DOUBLE, second, 0, comm);
        MPI_Recv(two, n, MPI_DOUBLE, second, 0, comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(one, n, MPI_DOUBLE, first, 0, comm, MPI_STATUS_IGNORE);
        MPI_Ssend(mine, n, MPI_DOUBLE, first, 0, comm);
        MPI_Recv(two, n, MPI_DOUBLE, second, 0, comm, MPI_STATUS_IGNORE);
        MPI_Ssend(mine, n, MPI_DOUBLE, second, 0, comm);
    }
"""
        + TAIL,
    ),
    "on one rank it sends to itself": (
        "ends",
        "on 1 rank",
        RIGHT["even ranks send first, one way and then the other"]
        .replace(ALONE, "")
        .replace("MPI_Send", "MPI_Ssend"),
    ),
    "on one rank it does nothing": (
        VALUES,
        "on 1 rank",
        RIGHT["even ranks send first, one way and then the other"].replace(
            ALONE, "    if (size == 1)\n        return MPI_SUCCESS;\n"
        ),
    ),
    "left and right mixed up: right on 2 only": (
        VALUES,
        "on 3 ranks",
        RIGHT["even ranks send first, one way and then the other"]
        .replace("Recv(left", "Recv(LEFT")
        .replace("Recv(right", "Recv(left")
        .replace("Recv(LEFT", "Recv(right"),
    ),
    "one element too few": (
        VALUES,
        "and should be",
        RIGHT["even ranks send first, one way and then the other"].replace(
            ", n, MPI_DOUBLE", ", n - 1, MPI_DOUBLE"
        ),
    ),
    "the numbers as floats": (
        VALUES,
        "and should be",
        RIGHT["even ranks send first, one way and then the other"].replace(
            "MPI_DOUBLE", "MPI_FLOAT"
        ),
    ),
    "tags that do not meet": (
        "ends",
        "tag 1",
        RIGHT["even ranks send first, one way and then the other"].replace(
            "Send(mine, n, MPI_DOUBLE, last, 1", "Ssend(mine, n, MPI_DOUBLE, last, 2"
        ),
    ),
    "by Sendrecv": (
        WITHOUT,
        "Sendrecv",
        HEAD
        + """    MPI_Sendrecv(mine, n, MPI_DOUBLE, next, 0, left, n, MPI_DOUBLE, last, 0, comm,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(mine, n, MPI_DOUBLE, last, 1, right, n, MPI_DOUBLE, next, 1, comm,
                 MPI_STATUS_IGNORE);
"""
        + TAIL,
    ),
    "nonblocking sends that nobody waits for": (
        "completes what it starts",
        "begun and never waited for",
        HEAD
        + ALONE
        + """    MPI_Request request;
    MPI_Isend(mine, n, MPI_DOUBLE, next, 0, comm, &request);
    MPI_Isend(mine, n, MPI_DOUBLE, last, 1, comm, &request);
    MPI_Recv(left, n, MPI_DOUBLE, last, 0, comm, MPI_STATUS_IGNORE);
    MPI_Recv(right, n, MPI_DOUBLE, next, 1, comm, MPI_STATUS_IGNORE);
"""
        + TAIL,
    ),
    "one element after the other": (
        "sends what is asked for",
        "its own array, to both neighbours",
        HEAD
        + """    for (int i = 0; i < n; i++) {
        if (size == 1) {
            left[i] = right[i] = mine[i];
            continue;
        }
        if (rank % 2) {
            MPI_Recv(left + i, 1, MPI_DOUBLE, last, 0, comm, MPI_STATUS_IGNORE);
            MPI_Recv(right + i, 1, MPI_DOUBLE, next, 0, comm, MPI_STATUS_IGNORE);
        }
        MPI_Send(mine + i, 1, MPI_DOUBLE, next, 0, comm);
        MPI_Send(mine + i, 1, MPI_DOUBLE, last, 0, comm);
        if (rank % 2 == 0) {
            MPI_Recv(left + i, 1, MPI_DOUBLE, last, 0, comm, MPI_STATUS_IGNORE);
            MPI_Recv(right + i, 1, MPI_DOUBLE, next, 0, comm, MPI_STATUS_IGNORE);
        }
    }
"""
        + TAIL,
    ),
}
