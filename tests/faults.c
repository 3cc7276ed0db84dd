/* Stands between a kernel and MPI as the scope does, and makes the exchange go wrong in one way,
 * which FAULT names. So the kernels are tested as they are built, and no line of them is touched.
 *
 * A repetition begins with the kernel's MPI_Barrier. `calls` counts within it what this rank calls
 * of the functions below. */
#define _DEFAULT_SOURCE /* usleep */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int repetition, calls;

static int fault(const char *name) {
    const char *given = getenv("FAULT");
    return given != NULL && strcmp(given, name) == 0;
}

/* Whether a call is left out. CALLS: how many of a repetition are not. */
static int left_out(void) {
    if (fault("slow first exchange") && repetition > 0 && calls == 0)
        usleep(300000);
    calls++;
    return (fault("nothing after the first repetition") && repetition > 1) ||
           (fault("last exchange missing") && repetition > 0 && calls > atoi(getenv("CALLS")));
}

int MPI_Barrier(MPI_Comm comm) {
    repetition++;
    calls = 0;
    if (fault("slow barrier"))
        usleep(300000);
    return PMPI_Barrier(comm);
}

/* ---- messages ---- */

/* What is sent instead. */
static void *altered(const void *buffer, int count, MPI_Datatype type) {
    int size;
    PMPI_Type_size(type, &size);
    char *copy = malloc((size_t)count * (size_t)size + 1);
    memcpy(copy, buffer, (size_t)count * (size_t)size);
    if (fault("always the first message") && count > 0)
        copy[0] = 0;
    for (int i = 0; i < count && fault("content of another rank"); i++) {
        if (type == MPI_DOUBLE)
            ((double *)copy)[i] = fmod(((double *)copy)[i], 1000); /* that of rank 0 */
        else if (i > 0)
            copy[i]++;
    }
    return copy;
}

static int shortened(int count) { return fault("last element not sent") ? count - 1 : count; }

int MPI_Send(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (left_out())
        return MPI_SUCCESS;
    if (fault("rows in the wrong order") && rank == 0) /* blocks of 3 rows in a matrix of 6 x 6 */
        buffer = (const double *)buffer + (2 - 2 * ((calls - 1) % 3)) * 6;
    void *copy = altered(buffer, count, type);
    const int code = PMPI_Send(copy, shortened(count), type, dest, tag, comm);
    free(copy);
    return code;
}

int MPI_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status) {
    if (left_out() || fault("nothing received"))
        return MPI_SUCCESS;
    return PMPI_Recv(buffer, count, type, source, tag, comm, status);
}

int MPI_Sendrecv(const void *out, int n_out, MPI_Datatype type_out, int dest, int tag_out, void *in,
                 int n_in, MPI_Datatype type_in, int source, int tag_in, MPI_Comm comm,
                 MPI_Status *status) {
    if (left_out())
        return MPI_SUCCESS;
    void *copy = altered(out, n_out, type_out);
    const int code = PMPI_Sendrecv(copy, n_out, type_out, dest, tag_out, in, n_in, type_in, source,
                                   tag_in, comm, status);
    free(copy);
    return code;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request *request) {
    if (left_out())
        return MPI_SUCCESS;
    return PMPI_Isend(buffer, shortened(count), type, dest, tag, comm, request);
}

/* A kernel numbers its faces in pairs, and a receive has the tag of the opposite one. */
int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request) {
    if (left_out())
        return MPI_SUCCESS;
    if (fault("faces swapped"))
        buffer = (double *)buffer + (tag % 2 == 1 ? count : -count);
    return PMPI_Irecv(buffer, count, type, source, tag, comm, request);
}

int MPI_Send_init(const void *buffer, int count, MPI_Datatype type, int dest, int tag,
                  MPI_Comm comm, MPI_Request *request) {
    if (fault("directions exchanged"))
        tag ^= 1;
    return PMPI_Send_init(buffer, count, type, dest, tag, comm, request);
}

/* ---- windows ---- */

int MPI_Put(const void *buffer, int count, MPI_Datatype type, int target, MPI_Aint displacement,
            int target_count, MPI_Datatype target_type, MPI_Win window) {
    if (left_out() || (fault("face forgotten") && displacement == target_count))
        return MPI_SUCCESS;
    return PMPI_Put(buffer, count, type, target, displacement, target_count, target_type, window);
}

/* Faces of 100 doubles. */
int MPI_Win_shared_query(MPI_Win window, int rank, MPI_Aint *size, int *unit, void *base) {
    const int code = PMPI_Win_shared_query(window, rank, size, unit, base);
    if (fault("the face beside it"))
        *(double **)base += calls++ % 2 == 0 ? -100 : 100;
    return code;
}

/* ---- collectives and datatypes ---- */

int MPI_Type_create_resized(MPI_Datatype old, MPI_Aint lower, MPI_Aint extent, MPI_Datatype *new) {
    if (fault("half the extent"))
        extent /= 2;
    return PMPI_Type_create_resized(old, lower, extent, new);
}

/* As in a matrix that is narrower by one column: 4 ranks, blocks of 3 x 3. */
static const int *narrower(const int displs[4], int changed[4]) {
    for (int r = 0; r < 4 && displs != NULL; r++)
        changed[r] = displs[r] - (r < 2 ? 0 : 3);
    return fault("displacements of a narrower matrix") ? changed : displs;
}

int MPI_Scatterv(const void *out, const int counts[], const int displs[], MPI_Datatype type_out,
                 void *in, int n, MPI_Datatype type_in, int root, MPI_Comm comm) {
    int changed[4];
    return PMPI_Scatterv(out, counts, narrower(displs, changed), type_out, in, n, type_in, root,
                         comm);
}

int MPI_Gatherv(const void *out, int n, MPI_Datatype type_out, void *in, const int counts[],
                const int displs[], MPI_Datatype type_in, int root, MPI_Comm comm) {
    int changed[4];
    return PMPI_Gatherv(out, n, type_out, in, counts, narrower(displs, changed), type_in, root,
                        comm);
}

/* Root 1 instead of root 0. */
int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    return PMPI_Bcast(buffer, count, type, fault("another root") ? 1 : root, comm);
}

int MPI_Alltoallw(const void *out, const int n_out[], const int at_out[],
                  const MPI_Datatype types_out[], void *in, const int n_in[], const int at_in[],
                  const MPI_Datatype types_in[], MPI_Comm comm) {
    calls++;
    if (fault("blocks not gathered") && calls == 2)
        return MPI_SUCCESS;
    return PMPI_Alltoallw(out, n_out, at_out, types_out, in, n_in, at_in, types_in, comm);
}

/* ---- what shows when a method is set up ---- */

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part) {
    if (fault("set-up"))
        return PMPI_Comm_dup(MPI_COMM_SELF, part); /* each rank on a node of its own */
    return PMPI_Comm_split_type(comm, type, key, info, part);
}

int MPI_Neighbor_alltoall(const void *out, int n_out, MPI_Datatype type_out, void *in, int n_in,
                          MPI_Datatype type_in, MPI_Comm comm) {
    const int code = PMPI_Neighbor_alltoall(out, n_out, type_out, in, n_in, type_in, comm);
    if (fault("set-up")) /* two of the six blocks lost */
        memset((double *)in + 4 * n_in, 0, 2 * (size_t)n_in * sizeof(double));
    return code;
}

/* Rank 1 is refused it; the others, who cannot have it without rank 1, are told that they have. */
int MPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *base,
                     MPI_Win *window) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    if (!fault("set-up"))
        return PMPI_Win_allocate(size, unit, info, comm, base, window);
    *(void **)base = malloc((size_t)size);
    return rank == 1 ? MPI_ERR_UNSUPPORTED_OPERATION : MPI_SUCCESS;
}

int MPI_Win_set_errhandler(MPI_Win window, MPI_Errhandler handler) {
    return fault("set-up") ? MPI_SUCCESS : PMPI_Win_set_errhandler(window, handler);
}

int MPI_Finalize(void) {
    while (fault("no end"))
        pause();
    return PMPI_Finalize();
}
