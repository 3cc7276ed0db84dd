/* Halo swapping: every rank of a periodic grid in three dimensions swaps a face with each of its
 * six neighbours. The methods differ in one function each, and in what they set up before the time
 * counts; grid, buffers, timing and verification are halo_run.c's.
 *
 * A message carries its direction as tag: where the same rank is the neighbour on both sides, the
 * tag alone tells the two messages apart. */
#include "halo.h"

#include <stddef.h>
#include <string.h>

/* What a library lacks is left out, and its methods say so:
 *   NO_NEIGHBOURHOOD   neighbourhood collectives
 *   NO_MPI_4           what came with MPI 4; Open MPI 5 has it and still names itself 3.1
 *   NO_SHARED_WINDOW   MPI_Win_allocate_shared
 * A method that is left out has `left_out` for its exchange function, which is never called. */
#if !defined(NO_MPI_4) && MPI_VERSION < 4 &&                                                    \
    !(defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define NO_MPI_4
#endif

#if defined(NO_NEIGHBOURHOOD) || defined(NO_MPI_4) || defined(NO_SHARED_WINDOW)
static int left_out(struct halo *h) {
    (void)h;
    return RINGSIDE_UNSUITABLE;
}
#endif

static double *face(double *faces, const struct halo *h, int s) {
    return faces + (size_t)s * (size_t)h->count;
}

static MPI_Aint bytes_of_all_faces(const struct halo *h) {
    return (MPI_Aint)FACES * (h->count > 0 ? h->count : 1) * (MPI_Aint)sizeof(double);
}

static MPI_Request *receive_request(struct halo *h, int s) { return &h->requests[s]; }
static MPI_Request *send_request(struct halo *h, int s) { return &h->requests[FACES + s]; }

static int send(struct halo *h, int s) {
    return MPI_Send(face(h->outgoing, h, s), h->count, MPI_DOUBLE, h->neighbour[s], s, h->comm);
}

static int isend(struct halo *h, int s) {
    return MPI_Isend(face(h->outgoing, h, s), h->count, MPI_DOUBLE, h->neighbour[s], s, h->comm,
                     send_request(h, s));
}

/* Halo s was sent towards s ^ 1. */
static int receive(struct halo *h, int s) {
    return MPI_Recv(face(h->incoming, h, s), h->count, MPI_DOUBLE, h->neighbour[s], s ^ 1, h->comm,
                    MPI_STATUS_IGNORE);
}

static int ireceive(struct halo *h, int s) {
    return MPI_Irecv(face(h->incoming, h, s), h->count, MPI_DOUBLE, h->neighbour[s], s ^ 1,
                     h->comm, receive_request(h, s));
}

static int wait_all(struct halo *h) {
    return MPI_Waitall(2 * FACES, h->requests, MPI_STATUSES_IGNORE);
}

/* ---- one direction after the other: all send towards s and receive from the other side ---- */

static int sendrecv_towards(struct halo *h, int s) {
    return MPI_Sendrecv(face(h->outgoing, h, s), h->count, MPI_DOUBLE, h->neighbour[s], s,
                        face(h->incoming, h, s ^ 1), h->count, MPI_DOUBLE, h->neighbour[s ^ 1], s,
                        h->comm, MPI_STATUS_IGNORE);
}

static int sendrecv(struct halo *h) {
    for (int s = 0; s < FACES; s++)
        TRY(sendrecv_towards(h, s));
    return MPI_SUCCESS;
}

static int isend_recv_wait(struct halo *h) {
    for (int s = 0; s < FACES; s++) {
        TRY(isend(h, s));
        TRY(receive(h, s ^ 1));
        TRY(MPI_Wait(send_request(h, s), MPI_STATUS_IGNORE));
    }
    return MPI_SUCCESS;
}

static int irecv_send_wait(struct halo *h) {
    for (int s = 0; s < FACES; s++) {
        TRY(ireceive(h, s ^ 1));
        TRY(send(h, s));
        TRY(MPI_Wait(receive_request(h, s ^ 1), MPI_STATUS_IGNORE));
    }
    return MPI_SUCCESS;
}

static int irecv_isend_wait(struct halo *h) {
    for (int s = 0; s < FACES; s++) {
        TRY(ireceive(h, s ^ 1));
        TRY(isend(h, s));
        TRY(MPI_Wait(receive_request(h, s ^ 1), MPI_STATUS_IGNORE));
        TRY(MPI_Wait(send_request(h, s), MPI_STATUS_IGNORE));
    }
    return MPI_SUCCESS;
}

/* ---- red and black, as on a chessboard ---- */

static const char *refuse_odd(const struct halo *h) {
    for (int d = 0; d < DIMENSIONS; d++)
        if (h->dims[d] > 1 && h->dims[d] % 2 == 1)
            return "a dimension of this grid has an odd number of ranks, so that two neighbours "
                   "around it have the same colour";
    return NULL;
}

/* While one colour sends towards s, the other receives from there, and nobody waits in a circle. */
static int pass(struct halo *h, int sending) {
    for (int s = 0; s < FACES; s++) {
        const int alone = h->dims[s / 2] == 1; /* nobody of the other colour */
        if (alone && sending)
            TRY(sendrecv_towards(h, s));
        else if (!alone)
            TRY(sending ? send(h, s) : receive(h, s ^ 1));
    }
    return MPI_SUCCESS;
}

static int redblack(struct halo *h) {
    const int red = (h->coords[0] + h->coords[1] + h->coords[2]) % 2 == 0;
    TRY(pass(h, red));
    return pass(h, !red);
}

/* ---- all at once ---- */

static int irecv_isend_waitall(struct halo *h) {
    for (int s = 0; s < FACES; s++)
        TRY(ireceive(h, s));
    for (int s = 0; s < FACES; s++)
        TRY(isend(h, s));
    return wait_all(h);
}

static int open_persistent(struct halo *h) {
    for (int s = 0; s < FACES; s++) {
        TRY(MPI_Recv_init(face(h->incoming, h, s), h->count, MPI_DOUBLE, h->neighbour[s], s ^ 1,
                          h->comm, receive_request(h, s)));
        TRY(MPI_Send_init(face(h->outgoing, h, s), h->count, MPI_DOUBLE, h->neighbour[s], s,
                          h->comm, send_request(h, s)));
    }
    return MPI_SUCCESS;
}

static int persistent(struct halo *h) {
    TRY(MPI_Startall(2 * FACES, h->requests));
    return wait_all(h);
}

/* ---- neighbourhood collectives ---- */

#ifdef NO_NEIGHBOURHOOD
static const char *refuse_neighbourhood(const struct halo *h) {
    (void)h;
    return "this MPI library has no neighbourhood collectives";
}

#define neighbor_alltoall left_out
#define ineighbor_alltoall left_out
#else
#define refuse_neighbourhood NULL

static int neighbor_alltoall(struct halo *h) {
    return MPI_Neighbor_alltoall(h->outgoing, h->count, MPI_DOUBLE, h->incoming, h->count,
                                 MPI_DOUBLE, h->comm);
}

static int ineighbor_alltoall(struct halo *h) {
    TRY(MPI_Ineighbor_alltoall(h->outgoing, h->count, MPI_DOUBLE, h->incoming, h->count,
                               MPI_DOUBLE, h->comm, &h->collective));
    return MPI_Wait(&h->collective, MPI_STATUS_IGNORE);
}
#endif

#ifdef NO_MPI_4
static const char *refuse_before_mpi_4(const struct halo *h) {
    (void)h;
    return "this MPI library is older than MPI 4, with which it came";
}
#else
#define refuse_before_mpi_4 NULL
#endif

#if defined(NO_NEIGHBOURHOOD) || defined(NO_MPI_4)
#ifdef NO_NEIGHBOURHOOD
#define refuse_neighbourhood_init refuse_neighbourhood
#else
#define refuse_neighbourhood_init refuse_before_mpi_4
#endif
#define open_neighbor_alltoall NULL
#define neighbor_alltoall_init left_out
#else
#define refuse_neighbourhood_init NULL

static int open_neighbor_alltoall(struct halo *h) {
    return MPI_Neighbor_alltoall_init(h->outgoing, h->count, MPI_DOUBLE, h->incoming, h->count,
                                      MPI_DOUBLE, h->comm, MPI_INFO_NULL, &h->collective);
}

static int neighbor_alltoall_init(struct halo *h) {
    TRY(MPI_Start(&h->collective));
    return MPI_Wait(&h->collective, MPI_STATUS_IGNORE);
}
#endif

/* ---- partitioned ---- */

#ifdef NO_MPI_4
#define open_partitioned NULL
#define partitioned left_out
#else
/* Parts of one length: as many as asked for, or the next fewer that come out even. */
static int open_partitioned(struct halo *h) {
    while (h->count % h->partitions != 0)
        h->partitions--;
    const MPI_Count part = h->count / h->partitions;
    for (int s = 0; s < FACES; s++) {
        TRY(MPI_Precv_init(face(h->incoming, h, s), h->partitions, part, MPI_DOUBLE,
                           h->neighbour[s], s ^ 1, h->comm, MPI_INFO_NULL, receive_request(h, s)));
        TRY(MPI_Psend_init(face(h->outgoing, h, s), h->partitions, part, MPI_DOUBLE,
                           h->neighbour[s], s, h->comm, MPI_INFO_NULL, send_request(h, s)));
    }
    return MPI_SUCCESS;
}

/* Open MPI 5 never returns from MPI_Startall with such requests, and 5.0.11 stumbles over
 * one that is freed without ever having been started: hence TRIED_FIRST, below. */
static int partitioned(struct halo *h) {
    for (int i = 0; i < 2 * FACES; i++)
        TRY(MPI_Start(&h->requests[i]));
    for (int s = 0; s < FACES; s++)
        for (int part = 0; part < h->partitions; part++)
            TRY(MPI_Pready(part, *send_request(h, s)));
    return wait_all(h);
}
#endif

/* ---- windows ---- */

static int open_put(struct halo *h) {
    TRY(MPI_Win_allocate(bytes_of_all_faces(h), sizeof(double), MPI_INFO_NULL, h->comm,
                         &h->incoming, &h->window));
    return MPI_Win_set_errhandler(h->window, MPI_ERRORS_RETURN);
}

static int put_fence(struct halo *h) {
    TRY(MPI_Win_fence(MPI_MODE_NOPRECEDE, h->window));
    for (int s = 0; s < FACES; s++)
        TRY(MPI_Put(face(h->outgoing, h, s), h->count, MPI_DOUBLE, h->neighbour[s],
                    (MPI_Aint)(s ^ 1) * h->count, h->count, MPI_DOUBLE, h->window));
    return MPI_Win_fence(MPI_MODE_NOSUCCEED, h->window);
}

#ifdef NO_SHARED_WINDOW
static const char *refuse_shared_window(const struct halo *h) {
    (void)h;
    return "this MPI library has no windows of shared memory";
}

#define open_shared_window NULL
#define shared_window left_out
#else
#define refuse_shared_window NULL

static int all_on_one_node(MPI_Comm comm, int *all) {
    MPI_Comm node = MPI_COMM_NULL;
    int together = 0, size = 0;
    TRY(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    const int code = MPI_Comm_size(node, &together);
    TRY(MPI_Comm_free(&node));
    TRY(code);
    TRY(MPI_Comm_size(comm, &size));
    *all = together == size;
    return MPI_SUCCESS;
}

static int open_shared_window(struct halo *h) {
    int here = 0;
    TRY(all_on_one_node(h->comm, &here));
    if (!here) {
        h->remark = "the ranks are on several nodes, and memory is shared within a node only";
        return RINGSIDE_UNSUITABLE;
    }
    TRY(MPI_Win_allocate_shared(bytes_of_all_faces(h), sizeof(double), MPI_INFO_NULL, h->comm,
                                &h->outgoing, &h->window));
    TRY(MPI_Win_set_errhandler(h->window, MPI_ERRORS_RETURN));
    for (int s = 0; s < FACES; s++) {
        MPI_Aint size = 0;
        int unit = 0;
        double *first = NULL;
        TRY(MPI_Win_shared_query(h->window, h->neighbour[s], &size, &unit, &first));
        h->theirs[s] = face(first, h, s ^ 1);
    }
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, h->window);
}

/* Empty messages to and from the six neighbours: theirs are the only faces this rank reads, and
 * they are the only ones who read its own. */
static int meet_neighbours(struct halo *h) {
    TRY(MPI_Win_sync(h->window));
    for (int s = 0; s < FACES; s++)
        TRY(MPI_Irecv(NULL, 0, MPI_DOUBLE, h->neighbour[s], s ^ 1, h->comm,
                      receive_request(h, s)));
    for (int s = 0; s < FACES; s++)
        TRY(MPI_Isend(NULL, 0, MPI_DOUBLE, h->neighbour[s], s, h->comm, send_request(h, s)));
    TRY(wait_all(h));
    return MPI_Win_sync(h->window);
}

static int shared_window(struct halo *h) {
    TRY(meet_neighbours(h)); /* their faces are written */
    for (int s = 0; s < FACES; s++)
        memcpy(face(h->incoming, h, s), h->theirs[s], (size_t)h->count * sizeof(double));
    return meet_neighbours(h); /* and these are read, so that the next may be written */
}
#endif

/* ---- the table ---- */

const struct halo_method halo_methods[] = {
    {.name = "sendrecv", .exchange = sendrecv},
    {.name = "redblack", .exchange = redblack, .refuse = refuse_odd},
    {.name = "isend_recv_wait", .exchange = isend_recv_wait},
    {.name = "irecv_send_wait", .exchange = irecv_send_wait},
    {.name = "irecv_isend_wait", .exchange = irecv_isend_wait},
    {.name = "irecv_isend_waitall", .exchange = irecv_isend_waitall},
    {.name = "persistent", .exchange = persistent, .open = open_persistent},
    {.name = "neighbor_alltoall",
     .exchange = neighbor_alltoall,
     .refuse = refuse_neighbourhood,
     .flags = TRIED_FIRST},
    {.name = "ineighbor_alltoall",
     .exchange = ineighbor_alltoall,
     .refuse = refuse_neighbourhood,
     .flags = TRIED_FIRST},
    {.name = "neighbor_alltoall_init",
     .exchange = neighbor_alltoall_init,
     .open = open_neighbor_alltoall,
     .refuse = refuse_neighbourhood_init,
     .flags = TRIED_FIRST},
    {.name = "put_fence", .exchange = put_fence, .open = open_put, .flags = WINDOW_INCOMING},
    {.name = "partitioned",
     .exchange = partitioned,
     .open = open_partitioned,
     .refuse = refuse_before_mpi_4,
     .flags = TRIED_FIRST | NO_STATUS},
    {.name = "shared_window",
     .exchange = shared_window,
     .open = open_shared_window,
     .refuse = refuse_shared_window,
     .flags = WINDOW_OUTGOING},
    {.name = NULL},
};
