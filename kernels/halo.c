/* Halo swapping: every rank of a periodic grid in three dimensions swaps a face with each of its
 * six neighbours.
 *
 * A face is numbered by its direction: 2 d towards lower coordinates of dimension d, 2 d + 1
 * towards higher ones, as MPI numbers a grid's neighbours; s ^ 1 is the direction opposite to s.
 * What a rank sends in direction s is its neighbour's halo s ^ 1, also where one rank is the
 * neighbour on both sides, or a rank its own. A message carries its direction as tag, which tells
 * the two messages of such a pair apart. */
#include "scaffold.h"

#include <limits.h>
#include <string.h>

enum { DIMENSIONS = 3, FACES = 2 * DIMENSIONS };
enum { COLLECTIVE = 2 * FACES, REQUESTS }; /* receives, sends, and one of a collective */

struct halo {
    int dims[DIMENSIONS], coords[DIMENSIONS], neighbour[FACES];
    int place[FACES]; /* in which block of incoming halo s arrives: s, as a rule */
    MPI_Win window;
    const double *theirs[FACES]; /* shared_window: the neighbours' faces, in their own memory */
    int partitions;              /* partitioned: of a face */
};

/* What came with MPI 4 is left out where the library has not got it, and the table below says so.
 * Open MPI 5 has it (errata 31); a simulated machine has a model of some of it. */
#if MPI_VERSION < 4 && !(defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
#define MPI_4_LACKING "this MPI library is older than MPI 4, with which it came"
static int left_out(int code, ...) { return code; }
#define LEFT_OUT(...) left_out(MPI_ERR_UNSUPPORTED_OPERATION, __VA_ARGS__)
#define MPI_Psend_init LEFT_OUT
#define MPI_Precv_init LEFT_OUT
#define MPI_Pready LEFT_OUT
#ifndef MPI_Neighbor_alltoall_init
#define MPI_Neighbor_alltoall_init LEFT_OUT
#define NEIGHBOURHOOD_INIT_LACKING MPI_4_LACKING
#endif
#else
#define MPI_4_LACKING NULL
#endif
#ifndef NEIGHBOURHOOD_INIT_LACKING
#define NEIGHBOURHOOD_INIT_LACKING NULL
#endif
#ifndef SHARED_WINDOW_LACKING
#define SHARED_WINDOW_LACKING NULL
#endif

/* ---- one message ---- */

static double *face(const struct exchange *e, void *faces, int s) {
    return (double *)faces + (size_t)s * (size_t)e->count;
}

static double *outgoing(const struct exchange *e, int s) { return face(e, e->outgoing, s); }
static double *incoming(const struct exchange *e, int s) { return face(e, e->incoming, s); }

static int neighbour(const struct exchange *e, int s) {
    return ((const struct halo *)e->own)->neighbour[s];
}

static MPI_Request *receive_request(struct exchange *e, int s) { return &e->requests[s]; }
static MPI_Request *send_request(struct exchange *e, int s) { return &e->requests[FACES + s]; }

static int send(struct exchange *e, int s) {
    return MPI_Send(outgoing(e, s), e->count, MPI_DOUBLE, neighbour(e, s), s, e->comm);
}

static int isend(struct exchange *e, int s) {
    return MPI_Isend(outgoing(e, s), e->count, MPI_DOUBLE, neighbour(e, s), s, e->comm,
                     send_request(e, s));
}

/* Halo s was sent towards s ^ 1. */
static int receive(struct exchange *e, int s) {
    return MPI_Recv(incoming(e, s), e->count, MPI_DOUBLE, neighbour(e, s), s ^ 1, e->comm,
                    MPI_STATUS_IGNORE);
}

static int ireceive(struct exchange *e, int s) {
    return MPI_Irecv(incoming(e, s), e->count, MPI_DOUBLE, neighbour(e, s), s ^ 1, e->comm,
                     receive_request(e, s));
}

static int wait(MPI_Request *request) { return MPI_Wait(request, MPI_STATUS_IGNORE); }

static int wait_all(struct exchange *e) {
    return MPI_Waitall(2 * FACES, e->requests, MPI_STATUSES_IGNORE);
}

/* ---- one direction after the other: all send towards s and receive from the other side ---- */

static int sendrecv_towards(struct exchange *e, int s) {
    return MPI_Sendrecv(outgoing(e, s), e->count, MPI_DOUBLE, neighbour(e, s), s,
                        incoming(e, s ^ 1), e->count, MPI_DOUBLE, neighbour(e, s ^ 1), s, e->comm,
                        MPI_STATUS_IGNORE);
}

static int sendrecv(struct exchange *e) {
    for (int s = 0; s < FACES; s++)
        TRY(sendrecv_towards(e, s));
    return MPI_SUCCESS;
}

static int isend_recv_wait(struct exchange *e) {
    for (int s = 0; s < FACES; s++) {
        TRY(isend(e, s));
        TRY(receive(e, s ^ 1));
        TRY(wait(send_request(e, s)));
    }
    return MPI_SUCCESS;
}

static int irecv_send_wait(struct exchange *e) {
    for (int s = 0; s < FACES; s++) {
        TRY(ireceive(e, s ^ 1));
        TRY(send(e, s));
        TRY(wait(receive_request(e, s ^ 1)));
    }
    return MPI_SUCCESS;
}

static int irecv_isend_wait(struct exchange *e) {
    for (int s = 0; s < FACES; s++) {
        TRY(ireceive(e, s ^ 1));
        TRY(isend(e, s));
        TRY(wait(receive_request(e, s ^ 1)));
        TRY(wait(send_request(e, s)));
    }
    return MPI_SUCCESS;
}

/* ---- red and black, as on a chessboard: one colour sends while the other receives ---- */

/* Along a dimension of one rank there is nobody of the other colour. */
static int alone(const struct exchange *e, int s) {
    return ((const struct halo *)e->own)->dims[s / 2] == 1;
}

static int send_all(struct exchange *e) {
    for (int s = 0; s < FACES; s++)
        TRY(alone(e, s) ? sendrecv_towards(e, s) : send(e, s));
    return MPI_SUCCESS;
}

static int receive_all(struct exchange *e) {
    for (int s = 0; s < FACES; s++)
        TRY(alone(e, s) ? MPI_SUCCESS : receive(e, s ^ 1));
    return MPI_SUCCESS;
}

static int redblack(struct exchange *e) {
    const struct halo *h = e->own;
    const int red = (h->coords[0] + h->coords[1] + h->coords[2]) % 2 == 0;
    TRY(red ? send_all(e) : receive_all(e));
    return red ? receive_all(e) : send_all(e);
}

/* ---- all at once ---- */

static int irecv_isend_waitall(struct exchange *e) {
    for (int s = 0; s < FACES; s++)
        TRY(ireceive(e, s));
    for (int s = 0; s < FACES; s++)
        TRY(isend(e, s));
    return wait_all(e);
}

static int open_persistent(struct exchange *e) {
    for (int s = 0; s < FACES; s++) {
        TRY(MPI_Recv_init(incoming(e, s), e->count, MPI_DOUBLE, neighbour(e, s), s ^ 1, e->comm,
                          receive_request(e, s)));
        TRY(MPI_Send_init(outgoing(e, s), e->count, MPI_DOUBLE, neighbour(e, s), s, e->comm,
                          send_request(e, s)));
    }
    return MPI_SUCCESS;
}

static int persistent(struct exchange *e) {
    TRY(MPI_Startall(2 * FACES, e->requests));
    return wait_all(e);
}

/* ---- neighbourhood collectives ---- */

static int find_places(struct exchange *e); /* which block of incoming is which halo: below */

static int neighbor_alltoall(struct exchange *e) {
    return MPI_Neighbor_alltoall(e->outgoing, e->count, MPI_DOUBLE, e->incoming, e->count,
                                 MPI_DOUBLE, e->comm);
}

static int ineighbor_alltoall(struct exchange *e) {
    TRY(MPI_Ineighbor_alltoall(e->outgoing, e->count, MPI_DOUBLE, e->incoming, e->count,
                               MPI_DOUBLE, e->comm, &e->requests[COLLECTIVE]));
    return wait(&e->requests[COLLECTIVE]);
}

static int open_neighbor_alltoall(struct exchange *e) {
    TRY(MPI_Neighbor_alltoall_init(e->outgoing, e->count, MPI_DOUBLE, e->incoming, e->count,
                                   MPI_DOUBLE, e->comm, MPI_INFO_NULL, &e->requests[COLLECTIVE]));
    return find_places(e);
}

static int neighbor_alltoall_init(struct exchange *e) {
    TRY(MPI_Start(&e->requests[COLLECTIVE]));
    return wait(&e->requests[COLLECTIVE]);
}

/* ---- on one node, or several ---- */

static int all_on_one_node(MPI_Comm comm, int size, int *all) {
    MPI_Comm node = MPI_COMM_NULL;
    int together = 0;
    TRY(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    const int code = MPI_Comm_size(node, &together);
    TRY(MPI_Comm_free(&node));
    *all = together == size;
    return code;
}

/* ---- partitioned ---- */

/* Open MPI loses some of them over TCP where the scope's thread is in MPI: errata 23. */
static int bears_partitions(const struct exchange *e, int *borne) {
    *borne = 1;
#ifdef OPEN_MPI
    int threads = MPI_THREAD_SINGLE;
    TRY(MPI_Query_thread(&threads));
    if (threads == MPI_THREAD_MULTIPLE)
        return all_on_one_node(e->comm, e->size, borne);
#else
    (void)e;
#endif
    return MPI_SUCCESS;
}

/* Parts of one length: as many as asked for, or the next fewer that come out even. One exchange is
 * tried at once, as Open MPI stumbles over a request that was never started: errata 24. */
static int open_partitioned(struct exchange *e) {
    struct halo *h = e->own;
    int borne = 1;
    TRY(bears_partitions(e, &borne));
    if (!borne) {
        e->remark = "between nodes Open MPI loses parts where several threads may call MPI";
        return RINGSIDE_UNSUITABLE;
    }
    while (e->count % h->partitions != 0)
        h->partitions--;
    for (int s = 0; s < FACES; s++) {
        TRY(MPI_Precv_init(incoming(e, s), h->partitions, e->count / h->partitions, MPI_DOUBLE,
                           neighbour(e, s), s ^ 1, e->comm, MPI_INFO_NULL, receive_request(e, s)));
        TRY(MPI_Psend_init(outgoing(e, s), h->partitions, e->count / h->partitions, MPI_DOUBLE,
                           neighbour(e, s), s, e->comm, MPI_INFO_NULL, send_request(e, s)));
    }
    return find_places(e);
}

/* One by one, as Open MPI never returns from MPI_Startall with such requests: errata 25. */
static int partitioned(struct exchange *e) {
    const struct halo *h = e->own;
    for (int i = 0; i < 2 * FACES; i++)
        TRY(MPI_Start(&e->requests[i]));
    for (int s = 0; s < FACES; s++)
        for (int part = 0; part < h->partitions; part++)
            TRY(MPI_Pready(part, *send_request(e, s)));
    return wait_all(e);
}

/* ---- windows ---- */

static MPI_Aint bytes_of_all_faces(const struct exchange *e) {
    return (MPI_Aint)FACES * (e->count > 0 ? e->count : 1) * (MPI_Aint)sizeof(double);
}

static int open_put(struct exchange *e) {
    struct halo *h = e->own;
    TRY(MPI_Win_allocate(bytes_of_all_faces(e), sizeof(double), MPI_INFO_NULL, e->comm,
                         &e->incoming, &h->window));
    return MPI_Win_set_errhandler(h->window, MPI_ERRORS_RETURN);
}

static int put_fence(struct exchange *e) {
    const struct halo *h = e->own;
    TRY(MPI_Win_fence(MPI_MODE_NOPRECEDE, h->window));
    for (int s = 0; s < FACES; s++)
        TRY(MPI_Put(outgoing(e, s), e->count, MPI_DOUBLE, h->neighbour[s],
                    (MPI_Aint)(s ^ 1) * e->count, e->count, MPI_DOUBLE, h->window));
    return MPI_Win_fence(MPI_MODE_NOSUCCEED, h->window);
}

static int open_shared_window(struct exchange *e) {
    struct halo *h = e->own;
    int here = 0;
    TRY(all_on_one_node(e->comm, e->size, &here));
    if (!here) {
        e->remark = "the ranks are on several nodes, and memory is shared within a node only";
        return RINGSIDE_UNSUITABLE;
    }
    TRY(MPI_Win_allocate_shared(bytes_of_all_faces(e), sizeof(double), MPI_INFO_NULL, e->comm,
                                &e->outgoing, &h->window));
    TRY(MPI_Win_set_errhandler(h->window, MPI_ERRORS_RETURN));
    for (int s = 0; s < FACES; s++) {
        MPI_Aint size = 0;
        int unit = 0;
        double *first = NULL;
        TRY(MPI_Win_shared_query(h->window, h->neighbour[s], &size, &unit, &first));
        h->theirs[s] = face(e, first, s ^ 1);
    }
    return MPI_Win_lock_all(MPI_MODE_NOCHECK, h->window);
}

/* Empty messages to and from the six neighbours: theirs are the only faces this rank reads, and
 * they are the only ones who read its own. */
static int meet_neighbours(struct exchange *e) {
    const struct halo *h = e->own;
    TRY(MPI_Win_sync(h->window));
    for (int s = 0; s < FACES; s++)
        TRY(MPI_Irecv(NULL, 0, MPI_DOUBLE, h->neighbour[s], s ^ 1, e->comm,
                      receive_request(e, s)));
    for (int s = 0; s < FACES; s++)
        TRY(MPI_Isend(NULL, 0, MPI_DOUBLE, h->neighbour[s], s, e->comm, send_request(e, s)));
    TRY(wait_all(e));
    return MPI_Win_sync(h->window);
}

static int shared_window(struct exchange *e) {
    const struct halo *h = e->own;
    TRY(meet_neighbours(e)); /* their faces are written */
    for (int s = 0; s < FACES; s++)
        memcpy(incoming(e, s), h->theirs[s], (size_t)e->count * sizeof(double));
    return meet_neighbours(e); /* and these are read, so that the next may be written */
}

static const struct variant VARIANTS[] = {
    {.name = "sendrecv", .exchange = sendrecv},
    {.name = "redblack", .exchange = redblack},
    {.name = "isend_recv_wait", .exchange = isend_recv_wait},
    {.name = "irecv_send_wait", .exchange = irecv_send_wait},
    {.name = "irecv_isend_wait", .exchange = irecv_isend_wait},
    {.name = "irecv_isend_waitall", .exchange = irecv_isend_waitall},
    {.name = "persistent", .exchange = persistent, .open = open_persistent},
    {.name = "neighbor_alltoall", .exchange = neighbor_alltoall, .open = find_places},
    {.name = "ineighbor_alltoall", .exchange = ineighbor_alltoall, .open = find_places},
    {.name = "neighbor_alltoall_init",
     .exchange = neighbor_alltoall_init,
     .open = open_neighbor_alltoall,
     .lacking = NEIGHBOURHOOD_INIT_LACKING},
    {.name = "put_fence", .exchange = put_fence, .open = open_put},
    {.name = "partitioned",
     .exchange = partitioned,
     .open = open_partitioned,
     .lacking = MPI_4_LACKING,
     .opaque = 1},
    {.name = "shared_window",
     .exchange = shared_window,
     .open = open_shared_window,
     .lacking = SHARED_WINDOW_LACKING},
    {.name = NULL},
};

/* ---- content ---- */

static const double POISON = -1.0; /* no face holds it */

static void allocate(struct exchange *e) {
    const int64_t bytes = bytes_of_all_faces(e);
    if (e->variant->exchange != shared_window)
        e->outgoing = exchange_allocate(e, bytes);
    if (e->variant->exchange != put_fence)
        e->incoming = exchange_allocate(e, bytes);
    e->bytes = 2 * bytes; /* those in a window are counted as well */
    exchange_requests(e, REQUESTS, FACES);
}

/* What a rank sends in a direction, exact in a double for 600,000 ranks: the rank, the direction
 * and the position in the face. */
static double content(int rank, int direction, int64_t i) {
    return ((double)rank * FACES + direction) * 2147483648.0 + (double)i;
}

static void fill(struct exchange *e) {
    for (int s = 0; s < FACES; s++)
        for (int i = 0; i < e->count; i++)
            outgoing(e, s)[i] = content(e->rank, s, i);
}

static void poison(struct exchange *e) {
    for (int s = 0; s < FACES; s++)
        for (int i = 0; i < e->count; i++)
            incoming(e, s)[i] = POISON;
}

/* The first and the last element say whether it is the repetition's last exchange, or the first and
 * those that repeat it, so that an old face is noticed: below zero, where else only poison is. */
static double mark(int rank, int direction, int64_t i, int trip) {
    return -(content(rank, direction, i) + 2 + trip);
}

static void stamp(struct exchange *e, int trip) {
    const int last = e->count - 1;
    for (int s = 0; s < FACES && e->count > 0; s++) {
        outgoing(e, s)[0] = mark(e->rank, s, 0, trip);
        outgoing(e, s)[last] = mark(e->rank, s, last, trip);
    }
}

static int64_t verify(struct exchange *e) {
    const struct halo *h = e->own;
    int64_t wrong = 0;
    const int last = e->count - 1;
    for (int s = 0; s < FACES; s++) {
        const double *halo = incoming(e, h->place[s]);
        for (int i = 0; i <= last; i++)
            wrong += halo[i] != (i == 0 || i == last ? mark(h->neighbour[s], s ^ 1, i, e->trips)
                                                     : content(h->neighbour[s], s ^ 1, i));
    }
    return wrong;
}

/* Where the library puts the blocks, seen from an exchange. MPI 4.1, section 8.6: block s arrives
 * as block s ^ 1 of the neighbour, also where one rank is the neighbour on both sides. Libraries
 * have been wrong there (errata 28); the halos are then read from where they are. */
static int find_places(struct exchange *e) {
    struct halo *h = e->own;
    int swapped = 0, found = 0;
    if (e->count == 0)
        return MPI_SUCCESS;
    for (int s = 0; s < FACES; s++) {
        outgoing(e, s)[0] = content(e->rank, s, 0);
        incoming(e, s)[0] = POISON;
    }
    TRY(e->variant->exchange(e));
    for (int s = 0; s < FACES; s++)
        for (int b = 0; b < FACES; b++)
            if (incoming(e, b)[0] == content(h->neighbour[s], s ^ 1, 0)) {
                h->place[s] = b;
                swapped += b != s;
                found += 1;
            }
    if (swapped > 0)
        e->remark = "this library puts the two blocks of a dimension with 1 or 2 ranks the wrong "
                    "way round (MPI 4.1, section 8.6); each halo is read from where it is";
    if (found == FACES)
        return MPI_SUCCESS;
    e->remark = "this library does not deliver the blocks that MPI 4.1, section 8.6, asks for";
    return RINGSIDE_UNSUITABLE;
}

static const struct content FACES_OUT_AND_IN = {
    .allocate = allocate,
    .fill = fill,
    .poison = poison,
    .stamp = stamp,
    .verify = verify,
};

/* ---- the grid, and the kernel ---- */

enum { TRIPS, PARTITIONS };
static const struct ringside_setting SETTINGS[] = {
    {"trips", 0, 0, 1000000,
     "exchanges in one repetition; 0: as many as bring 4 MiB in, up to 20"},
    {"partitions", 4, 1, 1000, "partitioned: parts of a face, fewer if they would be uneven"},
    {NULL, 0, 0, 0, NULL},
};

/* The grid of a communicator that has one, else one that MPI chooses. */
static int choose_grid(struct exchange *e) {
    struct halo *h = e->own;
    int topology, dimensions = 0, periods[DIMENSIONS] = {1, 1, 1};
    TRY(MPI_Topo_test(e->comm, &topology));
    if (topology != MPI_CART)
        return MPI_Dims_create(e->size, DIMENSIONS, h->dims);
    TRY(MPI_Cartdim_get(e->comm, &dimensions));
    if (dimensions == DIMENSIONS)
        TRY(MPI_Cart_get(e->comm, DIMENSIONS, h->dims, periods, h->coords));
    if (dimensions == DIMENSIONS && periods[0] && periods[1] && periods[2])
        return MPI_SUCCESS;
    e->remark = "the communicator's own grid is not periodic in three dimensions";
    return RINGSIDE_UNSUITABLE;
}

static int prepare(struct exchange *e) {
    struct halo *h = e->own;
    h->window = MPI_WIN_NULL;
    h->partitions = (int)e->settings[PARTITIONS];
    for (int s = 0; s < FACES; s++)
        h->place[s] = s;
    exchange_trips(e, e->settings[TRIPS], bytes_of_all_faces(e), 4 << 20, 20);
    TRY(choose_grid(e));
    for (int d = 0; d < DIMENSIONS && e->variant->exchange == redblack; d++)
        if (h->dims[d] > 1 && h->dims[d] % 2 == 1) {
            e->remark = "a dimension of this grid has an odd number of ranks, so that two "
                        "neighbours around it have the same colour";
            return RINGSIDE_UNSUITABLE;
        }
    return MPI_SUCCESS;
}

static int open_grid(struct exchange *e) {
    struct halo *h = e->own;
    TRY(exchange_grid(e, DIMENSIONS, h->dims, 1));
    TRY(MPI_Cart_coords(e->comm, e->rank, DIMENSIONS, h->coords));
    for (int d = 0; d < DIMENSIONS; d++)
        TRY(MPI_Cart_shift(e->comm, d, 1, &h->neighbour[2 * d], &h->neighbour[2 * d + 1]));
    return MPI_SUCCESS;
}

/* To free a window is collective, and waits inside the library where no scope can end it. So the
 * ranks meet first, and one that failed, which nobody may wait for, keeps its window. */
static int free_window(struct exchange *e, int code) {
    struct halo *h = e->own;
    if (h->window == MPI_WIN_NULL || code > MPI_SUCCESS)
        return MPI_SUCCESS;
    TRY(MPI_Barrier(e->comm));
    if (e->variant->exchange == shared_window)
        TRY(MPI_Win_unlock_all(h->window));
    return MPI_Win_free(&h->window);
}

static int close_window(struct exchange *e, int code) {
    const struct halo *h = e->own;
    const int own = free_window(e, code);
    e->in_use = e->in_use || h->window != MPI_WIN_NULL;
    return own;
}

int ringside_halo_exchange(MPI_Comm comm, const char *method, int64_t doubles,
                           const double *outgoing, double *incoming) {
    struct exchange e = {.no_memory = 0};
    int code = exchange_begin(&e, &ringside_halo, comm, method, doubles, 1, NULL);
    const size_t bytes = (size_t)e.count * sizeof(double);
    const struct halo *h = e.own;

    /* By way of memory of its own: after an error the caller's is free to go, and MPI may still
     * be at work on this. */
    if (code == MPI_SUCCESS && bytes > 0)
        memcpy(e.outgoing, outgoing, FACES * bytes);
    if (code == MPI_SUCCESS)
        code = e.variant->exchange(&e);
    for (int s = 0; s < FACES && code == MPI_SUCCESS && bytes > 0; s++)
        memcpy(face(&e, incoming, s), face(&e, e.incoming, h->place[s]), bytes);
    return exchange_end(&e, code);
}

const struct ringside_kernel ringside_halo = {
    .name = "halo",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .default_count = 10000,
    .maximum_count = INT_MAX,
    .messages = 2 * FACES,
    .halos = FACES,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &FACES_OUT_AND_IN,
    .own_bytes = sizeof(struct halo),
    .prepare = prepare,
    .open = open_grid,
    .close = close_window,
};
