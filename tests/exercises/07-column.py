"""Solutions of 07-column: right ones in several styles, and wrong ones as students write them."""

RIGHT = {
    "a vector, on both sides": """
#include <mpi.h>

int send_column(double *matrix, int rows, int columns, int j, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Datatype column;
    MPI_Type_vector(rows, 1, columns, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    if (size > 1 && rank == 0)
        MPI_Send(matrix + j, 1, column, size - 1, 0, comm);
    else if (size > 1 && rank == size - 1)
        MPI_Recv(matrix + j, 1, column, 0, 0, comm, MPI_STATUS_IGNORE);
    MPI_Type_free(&column);
    return MPI_SUCCESS;
}
""",
    "a subarray of the whole matrix, nonblocking, freed before the end": """
#include <mpi.h>

int send_column(double *matrix, int rows, int columns, int j, MPI_Comm comm) {
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size == 1) return MPI_SUCCESS;
    const int whole[] = {rows, columns}, part[] = {rows, 1}, first[] = {0, j};
    MPI_Datatype column;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Type_create_subarray(2, whole, part, first, MPI_ORDER_C, MPI_DOUBLE, &column);
    MPI_Type_commit(&column);
    if (rank == 0) MPI_Isend(matrix, 1, column, size - 1, j, comm, &request);
    if (rank == size - 1) MPI_Irecv(matrix, 1, column, 0, j, comm, &request);
    MPI_Type_free(&column);
    return MPI_Wait(&request, MPI_STATUS_IGNORE);
}
""",
    "one element resized to a row, and as many as there are rows": """
#include <mpi.h>

int send_column(double *matrix, int rows, int columns, int j, MPI_Comm comm) {
    int rank, size, error = MPI_SUCCESS;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    const int last = size - 1;
    if (last == 0 || (rank != 0 && rank != last)) return MPI_SUCCESS;
    MPI_Datatype element;
    MPI_Type_create_resized(MPI_DOUBLE, 0, columns * sizeof(double), &element);
    MPI_Type_commit(&element);
    if (rank == 0)
        error = MPI_Ssend(&matrix[j], rows, element, last, 7, comm);
    else
        error = MPI_Recv(&matrix[j], rows, element, 0, 7, comm, MPI_STATUS_IGNORE);
    MPI_Type_free(&element);
    return error;
}
""",
}


def _sent_as(
    type_: str = "MPI_Type_vector(rows, 1, columns, MPI_DOUBLE, &column);",
    send: str = "MPI_Send(matrix + j, 1, column, size - 1, 0, comm);",
    receive: str = "MPI_Recv(matrix + j, 1, column, 0, 0, comm, MPI_STATUS_IGNORE);",
    commit: str = "MPI_Type_commit(&column);",
    free: str = "MPI_Type_free(&column);",
    alone: str = "if (size == 1) return MPI_SUCCESS;",
) -> str:
    """What all wrong ones have in common."""
    return f"""
#include <mpi.h>

int send_column(double *matrix, int rows, int columns, int j, MPI_Comm comm) {{
    int rank, size;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    {alone}
    MPI_Datatype column;
    {type_}
    {commit}
    if (rank == 0) {{
        {send}
    }}
    if (rank == size - 1) {{
        {receive}
    }}
    {free}
    return MPI_SUCCESS;
}}
"""


WRONG = {
    "a copy of the column by hand": (
        "describes its data by a datatype",
        "ranks 0 and 1 made no datatype",
        """
#include <mpi.h>

int send_column(double *matrix, int rows, int columns, int j, MPI_Comm comm) {
    int rank, size;
    double column[rows];
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    if (size == 1) return MPI_SUCCESS;
    if (rank == 0) {
        for (int i = 0; i < rows; i++) column[i] = matrix[i * columns + j];
        MPI_Send(column, rows, MPI_DOUBLE, size - 1, 0, comm);
    } else if (rank == size - 1) {
        MPI_Recv(column, rows, MPI_DOUBLE, 0, 0, comm, MPI_STATUS_IGNORE);
        for (int i = 0; i < rows; i++) matrix[i * columns + j] = column[i];
    }
    return MPI_SUCCESS;
}
""",
    ),
    "always the first column": (
        "gives the right values on every rank",
        "matrix is wrong in",
        _sent_as(
            send="MPI_Send(matrix, 1, column, size - 1, 0, comm);",
            receive="MPI_Recv(matrix, 1, column, 0, 0, comm, MPI_STATUS_IGNORE);",
        ),
    ),
    "a message for each element": (
        "sends what is asked for",
        "rank 0 sends its column to the last rank, in one message",
        _sent_as(
            send="for (int i = 0; i < rows; i++)\n            "
            "MPI_Send(matrix + i * columns + j, 1, MPI_DOUBLE, size - 1, 0, comm);",
            receive="for (int i = 0; i < rows; i++)\n            "
            "MPI_Recv(matrix + i * columns + j, 1, MPI_DOUBLE, 0, 0, comm, MPI_STATUS_IGNORE);",
        ),
    ),
    "a type that is not freed": (
        "frees the datatypes it makes",
        "1 datatype was made and not freed",
        _sent_as(free=""),
    ),
    "received as plain doubles, which lie in a row": (
        "gives the right values on every rank",
        "rank 1: matrix is wrong in",
        _sent_as(
            type_="MPI_Type_vector(rows, 1, columns, MPI_DOUBLE, &column);\n"
            "    double theirs[rows];",
            receive="MPI_Recv(theirs, rows, MPI_DOUBLE, 0, 0, comm, MPI_STATUS_IGNORE);\n"
            "        for (int i = 0; i < rows; i++) matrix[i] = theirs[i];",
        ),
    ),
    "a stride that is one too short": (
        "gives the right values on every rank",
        "and should be",
        _sent_as(type_="MPI_Type_vector(rows, 1, columns - 1, MPI_DOUBLE, &column);"),
    ),
    "one row too few": (
        "gives the right values on every rank",
        "matrix is wrong in 1 of",
        _sent_as(type_="MPI_Type_vector(rows - 1, 1, columns, MPI_DOUBLE, &column);"),
    ),
    "a type that is not committed": (
        "runs without an error",
        "atatype",
        _sent_as(
            commit="",
            send="int error = MPI_Send(matrix + j, 1, column, size - 1, 0, comm);\n"
            "        if (error != MPI_SUCCESS) return error;",
        ),
    ),
    "to rank 1, right on 2 ranks only": (
        "ends",
        "send_column on 3 ranks",
        _sent_as(send="MPI_Send(matrix + j, 1, column, 1, 0, comm);"),
    ),
    "to itself, where there is 1 rank": (
        "ends",
        "send_column on 1 rank",
        _sent_as(alone="", send="MPI_Ssend(matrix + j, 1, column, size - 1, 0, comm);"),
    ),
    "a send that is never waited for": (
        "completes what it starts",
        "rank 0: 1 operation was begun and never waited for",
        _sent_as(
            send="MPI_Request request;\n        "
            "MPI_Isend(matrix + j, 1, column, size - 1, 0, comm, &request);",
        ),
    ),
}
