"""Solutions of 03-complete: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "the wait after the receive": """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
    MPI_Recv(theirs, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
""",
    "both nonblocking, tested until both are complete": """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    MPI_Request both[2];
    int rank, size, done = 0;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Irecv(theirs, n, MPI_DOUBLE, (rank + size - 1) % size, 5, comm, &both[0]);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 5, comm, &both[1]);
    while (!done)
        MPI_Testall(2, both, &done, MPI_STATUSES_IGNORE);
    return MPI_SUCCESS;
}
""",
    "a receive for later, a blocking send, any source; alone a copy": """
#include <mpi.h>
#include <string.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size, code;
    MPI_Request receiving;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size == 1) {
        memcpy(theirs, mine, n * sizeof *mine);
        return MPI_SUCCESS;
    }
    code = MPI_Irecv(theirs, n, MPI_DOUBLE, MPI_ANY_SOURCE, 0, comm, &receiving);
    if (code == MPI_SUCCESS)
        code = MPI_Send(mine, n, MPI_DOUBLE, rank == size - 1 ? 0 : rank + 1, 0, comm);
    if (code == MPI_SUCCESS)
        code = MPI_Wait(&receiving, MPI_STATUS_IGNORE);
    return code;
}
""",
}

WRONG = {
    "the report's: no wait": (
        "completes what it starts",
        "1 operation was begun and never waited for: MPI_Isend, line 10",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
    MPI_Recv(theirs, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_SUCCESS;
}
""",
    ),
    "one test in place of the wait, its answer not looked at": (
        "completes what it starts",
        "1 operation was begun and never waited for",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size, done;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
    MPI_Recv(theirs, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}
""",
    ),
    "one request for both, so that only the receive is waited for": (
        "completes what it starts",
        "1 operation was begun and never waited for",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
    MPI_Irecv(theirs, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, &request);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
""",
    ),
    "freed instead of waited for": (
        "completes what it starts",
        "1 operation was begun and never waited for",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
    MPI_Recv(theirs, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_Request_free(&request);
}
""",
    ),
    "the wait before the receive": (
        "ends without the library's buffers",
        "MPI_Wait",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return MPI_Recv(theirs, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
}
""",
    ),
    "not closed to a ring: the last rank sends to rank `size`": (
        "runs without an error",
        "MPI_Isend to rank",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size, code;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    code = MPI_Isend(mine, n, MPI_DOUBLE, rank + 1, 0, comm, &request);
    if (code != MPI_SUCCESS)
        return code;
    MPI_Recv(theirs, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
""",
    ),
    "from the right to the left, which two ranks cannot tell": (
        "gives the right values on every rank",
        "theirs is wrong in",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, &request);
    MPI_Recv(theirs, n, MPI_DOUBLE, (rank + 1) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
""",
    ),
    "floats for doubles": (
        "gives the right values on every rank",
        "theirs is wrong in",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Isend(mine, n, MPI_FLOAT, (rank + 1) % size, 0, comm, &request);
    MPI_Recv(theirs, n, MPI_FLOAT, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
""",
    ),
    "a message for each number": (
        "sends what is asked for",
        "and should send 1 message of",
        """
#include <mpi.h>

int shift(const double *mine, double *theirs, int n, MPI_Comm comm) {
    int rank, size;
    MPI_Request request;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    for (int i = 0; i < n; i++) {
        MPI_Isend(mine + i, 1, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
        MPI_Recv(theirs + i, 1, MPI_DOUBLE, (rank - 1 + size) % size, 0, comm, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    return MPI_SUCCESS;
}
""",
    ),
}
