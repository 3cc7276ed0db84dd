"""Solutions of 06-same-neighbour: right ones in several styles, and wrong ones as students write
them."""

RIGHT = {
    "all at once, a tag for each direction": """
#include <mpi.h>

int swap_round(double *field, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int left = (rank - 1 + size) % size, right = (rank + 1) % size;
    MPI_Request requests[4];
    MPI_Irecv(&field[0], 1, MPI_DOUBLE, left, 1, comm, &requests[0]);
    MPI_Irecv(&field[n + 1], 1, MPI_DOUBLE, right, 0, comm, &requests[1]);
    MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 0, comm, &requests[2]);
    MPI_Isend(&field[n], 1, MPI_DOUBLE, right, 1, comm, &requests[3]);
    return MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
}
""",
    "two Sendrecv, one direction after the other": """
#include <mpi.h>

enum { LEFTWARD = 10, RIGHTWARD };

int swap_round(double *field, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int left = rank == 0 ? size - 1 : rank - 1;
    const int right = rank == size - 1 ? 0 : rank + 1;
    int error = MPI_Sendrecv(field + 1, 1, MPI_DOUBLE, left, LEFTWARD, field + n + 1, 1, MPI_DOUBLE,
                             right, LEFTWARD, comm, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) return error;
    return MPI_Sendrecv(field + n, 1, MPI_DOUBLE, right, RIGHTWARD, field, 1, MPI_DOUBLE, left,
                        RIGHTWARD, comm, MPI_STATUS_IGNORE);
}
""",
    "blocking, one direction after the other, rank 0 the other way round": """
#include <mpi.h>

static void shift(const double *out, double *in, int to, int from, int receives_first,
                  MPI_Comm comm) {
    if (receives_first) {
        MPI_Recv(in, 1, MPI_DOUBLE, from, 0, comm, MPI_STATUS_IGNORE);
        MPI_Send(out, 1, MPI_DOUBLE, to, 0, comm);
    } else {
        MPI_Send(out, 1, MPI_DOUBLE, to, 0, comm);
        MPI_Recv(in, 1, MPI_DOUBLE, from, 0, comm, MPI_STATUS_IGNORE);
    }
}

int swap_round(double *field, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size == 1) { /* its own neighbour: no message is needed */
        field[0] = field[n];
        field[n + 1] = field[1];
        return MPI_SUCCESS;
    }
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    shift(&field[1], &field[n + 1], left, right, rank == 0, comm);
    shift(&field[n], &field[0], right, left, rank == 0, comm);
    return MPI_SUCCESS;
}
""",
}


def _at_once(receives: str, sends: str, count: int = 4) -> str:
    """What many wrong ones have in common."""
    return f"""
#include <mpi.h>

int swap_round(double *field, int n, MPI_Comm comm) {{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int left = (rank - 1 + size) % size, right = (rank + 1) % size;
    MPI_Request requests[4];
{receives}
{sends}
    return MPI_Waitall({count}, requests, MPI_STATUSES_IGNORE);
}}
"""


WRONG = {
    "the same tag in both directions": (
        "gives the right values on every rank",
        "swap_round on 2 ranks",
        _at_once(
            """    MPI_Irecv(&field[0], 1, MPI_DOUBLE, left, 0, comm, &requests[0]);
    MPI_Irecv(&field[n + 1], 1, MPI_DOUBLE, right, 0, comm, &requests[1]);""",
            """    MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 0, comm, &requests[2]);
    MPI_Isend(&field[n], 1, MPI_DOUBLE, right, 0, comm, &requests[3]);""",
        ),
    ),
    "from any rank": (
        "gives the right values on every rank",
        "and should be",
        _at_once(
            """    MPI_Irecv(&field[n + 1], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 0, comm, &requests[0]);
    MPI_Irecv(&field[0], 1, MPI_DOUBLE, MPI_ANY_SOURCE, 0, comm, &requests[1]);""",
            """    MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 0, comm, &requests[2]);
    MPI_Isend(&field[n], 1, MPI_DOUBLE, right, 0, comm, &requests[3]);""",
        ),
    ),
    "tags that do not meet": (
        "ends",
        "MPI_Waitall",
        _at_once(
            """    MPI_Irecv(&field[0], 1, MPI_DOUBLE, left, 0, comm, &requests[0]);
    MPI_Irecv(&field[n + 1], 1, MPI_DOUBLE, right, 1, comm, &requests[1]);""",
            """    MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 0, comm, &requests[2]);
    MPI_Isend(&field[n], 1, MPI_DOUBLE, right, 1, comm, &requests[3]);""",
        ),
    ),
    "waits for the receives only": (
        "completes what it starts",
        "2 operations were begun and never waited for",
        _at_once(
            """    MPI_Irecv(&field[0], 1, MPI_DOUBLE, left, 1, comm, &requests[0]);
    MPI_Irecv(&field[n + 1], 1, MPI_DOUBLE, right, 0, comm, &requests[1]);""",
            """    MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 0, comm, &requests[2]);
    MPI_Isend(&field[n], 1, MPI_DOUBLE, right, 1, comm, &requests[3]);""",
            2,
        ),
    ),
    "off by one: its cells from 0 to n - 1": (
        "gives the right values on every rank",
        "the first is [0]",
        _at_once(
            """    MPI_Irecv(&field[0], 1, MPI_DOUBLE, left, 1, comm, &requests[0]);
    MPI_Irecv(&field[n], 1, MPI_DOUBLE, right, 0, comm, &requests[1]);""",
            """    MPI_Isend(&field[1], 1, MPI_DOUBLE, left, 0, comm, &requests[2]);
    MPI_Isend(&field[n - 1], 1, MPI_DOUBLE, right, 1, comm, &requests[3]);""",
        ),
    ),
    "two elements, which overwrite a cell": (
        "gives the right values on every rank",
        "field is wrong in",
        _at_once(
            """    MPI_Irecv(&field[0], 2, MPI_DOUBLE, left, 1, comm, &requests[0]);
    MPI_Irecv(&field[n], 2, MPI_DOUBLE, right, 0, comm, &requests[1]);""",
            """    MPI_Isend(&field[1], 2, MPI_DOUBLE, left, 0, comm, &requests[2]);
    MPI_Isend(&field[n - 1], 2, MPI_DOUBLE, right, 1, comm, &requests[3]);""",
        ),
    ),
    "sends first": (
        "ends without the library's buffers",
        "each waits for the next",
        """
#include <mpi.h>

int swap_round(double *field, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int left = (rank - 1 + size) % size, right = (rank + 1) % size;
    MPI_Send(&field[1], 1, MPI_DOUBLE, left, 0, comm);
    MPI_Send(&field[n], 1, MPI_DOUBLE, right, 1, comm);
    MPI_Recv(&field[n + 1], 1, MPI_DOUBLE, right, 0, comm, MPI_STATUS_IGNORE);
    MPI_Recv(&field[0], 1, MPI_DOUBLE, left, 1, comm, MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}
""",
    ),
    "even and odd ranks, and 1 rank forgotten": (
        "ends",
        "swap_round on 1 rank",
        """
#include <mpi.h>

int swap_round(double *field, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int left = (rank - 1 + size) % size, right = (rank + 1) % size;
    if (rank % 2 == 1) {
        MPI_Send(&field[1], 1, MPI_DOUBLE, left, 0, comm);
        MPI_Recv(&field[n + 1], 1, MPI_DOUBLE, right, 0, comm, MPI_STATUS_IGNORE);
        MPI_Send(&field[n], 1, MPI_DOUBLE, right, 1, comm);
        MPI_Recv(&field[0], 1, MPI_DOUBLE, left, 1, comm, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&field[n + 1], 1, MPI_DOUBLE, right, 0, comm, MPI_STATUS_IGNORE);
        MPI_Send(&field[1], 1, MPI_DOUBLE, left, 0, comm);
        MPI_Recv(&field[0], 1, MPI_DOUBLE, left, 1, comm, MPI_STATUS_IGNORE);
        MPI_Send(&field[n], 1, MPI_DOUBLE, right, 1, comm);
    }
    return MPI_SUCCESS;
}
""",
    ),
    "one message for both directions between two ranks": (
        "sends what is asked for",
        "1 message of 16 B",
        """
#include <mpi.h>

int swap_round(double *field, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int left = (rank - 1 + size) % size, right = (rank + 1) % size;
    if (size == 2) {
        double mine[2] = {field[1], field[n]}, theirs[2];
        MPI_Sendrecv(mine, 2, MPI_DOUBLE, left, 0, theirs, 2, MPI_DOUBLE, left, 0, comm,
                     MPI_STATUS_IGNORE);
        field[n + 1] = theirs[0];
        field[0] = theirs[1];
        return MPI_SUCCESS;
    }
    MPI_Sendrecv(&field[1], 1, MPI_DOUBLE, left, 0, &field[n + 1], 1, MPI_DOUBLE, right, 0, comm,
                 MPI_STATUS_IGNORE);
    return MPI_Sendrecv(&field[n], 1, MPI_DOUBLE, right, 0, &field[0], 1, MPI_DOUBLE, left, 0, comm,
                        MPI_STATUS_IGNORE);
}
""",
    ),
    "no neighbour at the ends": (
        "gives the right values on every rank",
        "rank 0: field is wrong",
        """
#include <mpi.h>

int swap_round(double *field, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int left = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    int right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&field[1], 1, MPI_DOUBLE, left, 0, &field[n + 1], 1, MPI_DOUBLE, right, 0, comm,
                 MPI_STATUS_IGNORE);
    return MPI_Sendrecv(&field[n], 1, MPI_DOUBLE, right, 1, &field[0], 1, MPI_DOUBLE, left, 1, comm,
                        MPI_STATUS_IGNORE);
}
""",
    ),
}
