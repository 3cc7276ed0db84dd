"""Solutions of 05-ring-sum: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "a send for later, a receive, a wait": """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    double leaves = mine, comes;
    *sum = mine;
    for (int step = 1; step < size; step++) {
        MPI_Request request;
        MPI_Isend(&leaves, 1, MPI_DOUBLE, right, 0, comm, &request);
        MPI_Recv(&comes, 1, MPI_DOUBLE, left, 0, comm, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        *sum += comes;
        leaves = comes;
    }
    return MPI_SUCCESS;
}
""",
    "MPI_Sendrecv_replace, errors handed on": """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size, code = MPI_SUCCESS;
    double passing = mine, total = mine;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    int right = rank + 1 < size ? rank + 1 : 0, left = rank > 0 ? rank - 1 : size - 1;
    for (int i = 0; i < size - 1 && code == MPI_SUCCESS; i++) {
        code = MPI_Sendrecv_replace(&passing, 1, MPI_DOUBLE, right, i, left, i, comm,
                                    MPI_STATUS_IGNORE);
        total += passing;
    }
    *sum = total;
    return code;
}
""",
    "blocking, by order; a helper; summed from an array at the end": """
#include <mpi.h>
#include <stdlib.h>

static void pass_on(const double *leaves, double *comes, int rank, int size, MPI_Comm comm) {
    int right = (rank + 1) % size, left = (rank - 1 + size) % size;
    if (rank != 0) MPI_Send(leaves, 1, MPI_DOUBLE, right, 9, comm);
    MPI_Recv(comes, 1, MPI_DOUBLE, left, 9, comm, MPI_STATUS_IGNORE);
    if (rank == 0) MPI_Send(leaves, 1, MPI_DOUBLE, right, 9, comm);
}

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double *all = malloc(size * sizeof *all);
    all[0] = mine;
    for (int i = 1; i < size; i++)
        pass_on(&all[i - 1], &all[i], rank, size, comm);
    *sum = 0.0;
    for (int i = 0; i < size; i++)
        *sum += all[i];
    free(all);
    return MPI_SUCCESS;
}
""",
}

WRONG = {
    "every rank sends first": (
        "ends without the library's buffers",
        "rank 0: MPI_Send to rank 1",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double token = mine;
    *sum = mine;
    for (int step = 1; step < size; step++) {
        MPI_Send(&token, 1, MPI_DOUBLE, (rank + 1) % size, 0, comm);
        MPI_Recv(&token, 1, MPI_DOUBLE, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        *sum += token;
    }
    return MPI_SUCCESS;
}
""",
    ),
    "passes the sum on, not the number that came": (
        "gives the right values on every rank",
        "rank 0: sum is ",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double comes;
    *sum = mine;
    for (int step = 1; step < size; step++) {
        MPI_Sendrecv(sum, 1, MPI_DOUBLE, (rank + 1) % size, 0, &comes, 1, MPI_DOUBLE,
                     (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        *sum += comes;
    }
    return MPI_SUCCESS;
}
""",
    ),
    "always its own number, so the left neighbour's is added again and again": (
        "gives the right values on every rank",
        "rank 0: sum is ",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double comes;
    *sum = mine;
    for (int step = 1; step < size; step++) {
        MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % size, 0, &comes, 1, MPI_DOUBLE,
                     (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        *sum += comes;
    }
    return MPI_SUCCESS;
}
""",
    ),
    "one step too many": (
        "gives the right values on every rank",
        "rank 0: sum is ",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double token = mine;
    *sum = mine;
    for (int step = 0; step < size; step++) {
        MPI_Sendrecv_replace(&token, 1, MPI_DOUBLE, (rank + 1) % size, 0,
                             (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        *sum += token;
    }
    return MPI_SUCCESS;
}
""",
    ),
    "once more round than needed, until its own number is back": (
        "sends what is asked for",
        "sent 2 messages of 8 B, 8 B to others, and should send 1 message of 8 B",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double token = mine;
    *sum = 0.0;
    for (int step = 0; step < size; step++) {
        MPI_Sendrecv_replace(&token, 1, MPI_DOUBLE, (rank + 1) % size, 0,
                             (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        *sum += token;
    }
    return MPI_SUCCESS;
}
""",
    ),
    "a collective": (
        "does without what this exercise rules out",
        "ranks 0 and 1: Allreduce",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    return MPI_Allreduce(&mine, sum, 1, MPI_DOUBLE, MPI_SUM, comm);
}
""",
    ),
    "all numbers to rank 0, the sum back from it": (
        "sends what is asked for",
        "one number to its right neighbour, p - 1 times",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    double other;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    *sum = mine;
    if (rank > 0) {
        MPI_Send(&mine, 1, MPI_DOUBLE, 0, 0, comm);
        return MPI_Recv(sum, 1, MPI_DOUBLE, 0, 0, comm, MPI_STATUS_IGNORE);
    }
    for (int from = 1; from < size; from++) {
        MPI_Recv(&other, 1, MPI_DOUBLE, from, 0, comm, MPI_STATUS_IGNORE);
        *sum += other;
    }
    for (int to = 1; to < size; to++)
        MPI_Send(sum, 1, MPI_DOUBLE, to, 0, comm);
    return MPI_SUCCESS;
}
""",
    ),
    "receives into what is being sent": (
        "leaves an array alone while it is being sent",
        "1 array was written to",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double token = mine;
    *sum = mine;
    for (int step = 1; step < size; step++) {
        MPI_Request request;
        MPI_Isend(&token, 1, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
        MPI_Recv(&token, 1, MPI_DOUBLE, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        *sum += token;
    }
    return MPI_SUCCESS;
}
""",
    ),
    "waits for the last send only": (
        "completes what it starts",
        "1 operation was begun and never waited for",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double numbers[64] = {mine};
    *sum = mine;
    for (int i = 1; i < size; i++) {
        MPI_Isend(&numbers[i - 1], 1, MPI_DOUBLE, (rank + 1) % size, 0, comm, &request);
        MPI_Recv(&numbers[i], 1, MPI_DOUBLE, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        *sum += numbers[i];
    }
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
""",
    ),
    "alone it forgets to set the sum": (
        "gives the right values on every rank",
        "sum is ",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size == 1)
        return MPI_SUCCESS;
    double token = mine;
    *sum = mine;
    for (int step = 1; step < size; step++) {
        MPI_Sendrecv_replace(&token, 1, MPI_DOUBLE, (rank + 1) % size, 0,
                             (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        *sum += token;
    }
    return MPI_SUCCESS;
}
""",
    ),
    "an int for what comes": (
        "gives the right values on every rank",
        "rank 0: sum is ",
        """
#include <mpi.h>

int ring_sum(double mine, double *sum, MPI_Comm comm) {
    int rank, size, total = mine;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    double token = mine;
    for (int step = 1; step < size; step++) {
        MPI_Sendrecv_replace(&token, 1, MPI_DOUBLE, (rank + 1) % size, 0,
                             (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE);
        total += token;
    }
    *sum = total;
    return MPI_SUCCESS;
}
""",
    ),
}
