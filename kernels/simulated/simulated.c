/* What stands between a simulated kernel and SimGrid's SMPI: see simulated.h.
 *
 * All ranks are one process here, and only one of them runs at a time, so that plain variables of
 * the file are shared by all. Two files tell the outside of it, and both hold what was true when
 * the process ended, however it did:
 *   RINGSIDE_STATES  one struct state a rank, mapped: the call it is in, and what it waits for
 *   RINGSIDE_EVENTS  one struct event a message of every call that has ended, in that order; not
 *                    given: none is kept */
#include <mpi.h>

#include <simgrid/barrier.h>
#include <simgrid/host.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OPEN = 64, LONGEST = 28, FILE_NAME = 20, TOGETHER = 12 };
enum kind { NOTHING, SEND, RECEIVE };
enum { NOBODY = -2 }; /* the peer MPI_PROC_NULL, as in the events of the scope */

/* A message that a call is about. */
struct message {
    int32_t kind, peer, tag, request; /* peer: by its rank in MPI_COMM_WORLD */
    int64_t bytes;
};

struct event {
    double start, end;
    struct message message;
    int32_t rank, line;
    char call[LONGEST], file[FILE_NAME];
};

struct state {
    double since;
    int32_t inside, line, count;
    char call[LONGEST], file[FILE_NAME];
    struct message needs[OPEN]; /* the first `count` */
};

/* A request that is open, and what it is for. `others`: those that go with it, where one request
 * stands for a whole modelled collective. */
struct request {
    MPI_Request handle;
    struct message message;
    MPI_Request *others;
    int persistent;
};

/* What a rank gives to a collective, and where it takes the result; NULL: it takes none. */
struct deposit {
    const void *in;
    void *out;
};

struct rank {
    struct request open[OPEN];
    int n_open, numbered;
};

static struct state *states;
static struct rank *ranks;
static struct deposit *deposits;
static sg_bar_t meeting;
static FILE *events;
static int n_ranks;
static struct {
    const char *file;
    int line;
} at;

void simulated_at(const char *file, int line) {
    const char *slash = strrchr(file, '/');
    at.file = slash == NULL ? file : slash + 1;
    at.line = line;
}

static void end_events(void) {
    if (events != NULL)
        fclose(events);
}

static void *must(void *pointer, const char *what) {
    if (pointer == NULL || pointer == MAP_FAILED) {
        perror(what);
        abort();
    }
    return pointer;
}

static void begin(int size) {
    const char *path = getenv("RINGSIDE_STATES");
    const size_t bytes = (size_t)size * sizeof *states;
    n_ranks = size;
    ranks = must(calloc((size_t)size, sizeof *ranks), "the ranks");
    deposits = must(calloc((size_t)size, sizeof *deposits), "the ranks");
    meeting = sg_barrier_init((unsigned)size);
    if (path != NULL) {
        const int file = open(path, O_RDWR | O_CREAT, 0600);
        if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
            must(NULL, path);
        states = must(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), path);
        close(file);
    } else {
        states = must(calloc(1, bytes), "the states");
    }
    if ((path = getenv("RINGSIDE_EVENTS")) != NULL) {
        events = must(fopen(path, "wb"), path);
        atexit(end_events);
    }
}

static int me(void) {
    int rank = 0, size = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (states == NULL) {
        PMPI_Comm_size(MPI_COMM_WORLD, &size);
        begin(size);
    }
    return rank;
}

/* ---- what a rank is in ---- */

static struct rank *mine(void) {
    const int rank = me();
    return &ranks[rank];
}

/* Zeros follow the name, so that a reader finds no rest of a longer one. */
static void name(char *to, size_t room, const char *from) {
    memset(to, 0, room);
    memcpy(to, from, strnlen(from, room - 1));
}

static void enter(const char *call, const struct message *needs, int count) {
    const int rank = me();
    struct state *s = &states[rank];
    name(s->call, sizeof s->call, call);
    name(s->file, sizeof s->file, at.file);
    s->line = at.line;
    s->since = PMPI_Wtime();
    s->count = count < OPEN ? count : OPEN;
    if (count > 0)
        memcpy(s->needs, needs, (size_t)s->count * sizeof *needs);
    s->inside = 1;
}

static void leave(void) {
    const int rank = me();
    struct state *s = &states[rank];
    s->inside = 0;
    struct event e = {.start = s->since, .end = PMPI_Wtime(), .rank = rank, .line = s->line};
    memcpy(e.call, s->call, sizeof e.call);
    memcpy(e.file, s->file, sizeof e.file);
    for (int i = 0; events != NULL && (i == 0 || i < s->count); i++) {
        e.message = s->count > 0 ? s->needs[i] : (struct message){NOTHING, -1, -1, 0, 0};
        fwrite(&e, sizeof e, 1, events);
    }
}

/* ---- messages ---- */

static int in_world(MPI_Comm comm, int peer) {
    MPI_Group group, world;
    int found = peer;
    if (comm == MPI_COMM_WORLD || peer < 0)
        return peer;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(group, 1, &peer, world, &found);
    PMPI_Group_free(&group);
    PMPI_Group_free(&world);
    return found;
}

static struct message about(enum kind kind, int count, MPI_Datatype type, int peer, int tag,
                            MPI_Comm comm) {
    int size = 0;
    if (peer == MPI_PROC_NULL)
        return (struct message){NOTHING, NOBODY, tag, 0, 0};
    PMPI_Type_size(type, &size);
    return (struct message){kind, in_world(comm, peer), tag, 0, (int64_t)count * size};
}

int simulated_Send(const void *buffer, int count, MPI_Datatype type, int dest, int tag,
                   MPI_Comm comm) {
    const struct message m = about(SEND, count, type, dest, tag, comm);
    enter("MPI_Send", &m, 1);
    const int code = PMPI_Send(buffer, count, type, dest, tag, comm);
    leave();
    return code;
}

int simulated_Ssend(const void *buffer, int count, MPI_Datatype type, int dest, int tag,
                    MPI_Comm comm) {
    const struct message m = about(SEND, count, type, dest, tag, comm);
    enter("MPI_Ssend", &m, 1);
    const int code = PMPI_Ssend(buffer, count, type, dest, tag, comm);
    leave();
    return code;
}

int simulated_Recv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                   MPI_Status *status) {
    const struct message m = about(RECEIVE, count, type, source, tag, comm);
    enter("MPI_Recv", &m, 1);
    const int code = PMPI_Recv(buffer, count, type, source, tag, comm, status);
    leave();
    return code;
}

int simulated_Sendrecv(const void *out, int n_out, MPI_Datatype type_out, int dest, int tag_out,
                       void *in, int n_in, MPI_Datatype type_in, int source, int tag_in,
                       MPI_Comm comm, MPI_Status *status) {
    struct message both[] = {about(SEND, n_out, type_out, dest, tag_out, comm),
                             about(RECEIVE, n_in, type_in, source, tag_in, comm)};
    const int number = ++mine()->numbered;
    both[0].request = number;
    both[1].request = -number;
    enter("MPI_Sendrecv", both, 2);
    const int code = PMPI_Sendrecv(out, n_out, type_out, dest, tag_out, in, n_in, type_in, source,
                                   tag_in, comm, status);
    leave();
    return code;
}

/* ---- requests ---- */

static struct request *find(MPI_Request handle) {
    struct rank *r = mine();
    for (int i = 0; i < r->n_open && handle != MPI_REQUEST_NULL; i++)
        if (r->open[i].handle == handle)
            return &r->open[i];
    return NULL;
}

static void forget(struct request *request) {
    struct rank *r = mine();
    free(request->others);
    *request = r->open[--r->n_open];
}

/* A rank with more open requests than there is room for is simulated all the same: those beyond are
 * not in its state. */
static void remember(MPI_Request handle, const struct message *message, int persistent) {
    struct rank *r = mine();
    if (r->n_open < OPEN)
        r->open[r->n_open++] = (struct request){handle, *message, NULL, persistent};
}

/* What a call waits for that completes these requests. */
static int needed(int count, const MPI_Request *requests, struct message *needs) {
    int found = 0;
    for (int i = 0; i < count; i++) {
        const struct request *request = find(requests[i]);
        if (request != NULL && found < OPEN)
            needs[found++] = request->message;
    }
    return found;
}

int simulated_Isend(const void *buffer, int count, MPI_Datatype type, int dest, int tag,
                    MPI_Comm comm, MPI_Request *request) {
    struct message m = about(SEND, count, type, dest, tag, comm);
    m.request = ++mine()->numbered;
    enter("MPI_Isend", &m, 1);
    const int code = PMPI_Isend(buffer, count, type, dest, tag, comm, request);
    remember(*request, &m, 0);
    leave();
    return code;
}

int simulated_Irecv(void *buffer, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                    MPI_Request *request) {
    struct message m = about(RECEIVE, count, type, source, tag, comm);
    m.request = ++mine()->numbered;
    enter("MPI_Irecv", &m, 1);
    const int code = PMPI_Irecv(buffer, count, type, source, tag, comm, request);
    remember(*request, &m, 0);
    leave();
    return code;
}

int simulated_Send_init(const void *buffer, int count, MPI_Datatype type, int dest, int tag,
                        MPI_Comm comm, MPI_Request *request) {
    struct message m = about(SEND, count, type, dest, tag, comm);
    m.request = ++mine()->numbered;
    enter("MPI_Send_init", &m, 1);
    const int code = PMPI_Send_init(buffer, count, type, dest, tag, comm, request);
    remember(*request, &m, 1);
    leave();
    return code;
}

int simulated_Recv_init(void *buffer, int count, MPI_Datatype type, int source, int tag,
                        MPI_Comm comm, MPI_Request *request) {
    struct message m = about(RECEIVE, count, type, source, tag, comm);
    m.request = ++mine()->numbered;
    enter("MPI_Recv_init", &m, 1);
    const int code = PMPI_Recv_init(buffer, count, type, source, tag, comm, request);
    remember(*request, &m, 1);
    leave();
    return code;
}

int simulated_Startall(int count, MPI_Request *requests) {
    struct message needs[OPEN];
    enter("MPI_Startall", needs, needed(count, requests, needs));
    const int code = PMPI_Startall(count, requests);
    leave();
    return code;
}

int simulated_Start(MPI_Request *request) {
    struct message m;
    struct request *const r = find(*request);
    enter("MPI_Start", &m, needed(1, request, &m));
    const int code = r != NULL && r->others != NULL ? PMPI_Startall(TOGETHER, r->others)
                                                    : PMPI_Start(request);
    leave();
    return code;
}

int simulated_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    struct message needs[OPEN];
    MPI_Request before[OPEN];
    const int told = count < OPEN ? count : OPEN;
    memcpy(before, requests, (size_t)told * sizeof *before);
    enter("MPI_Waitall", needs, needed(told, requests, needs));
    const int code = PMPI_Waitall(count, requests, statuses);
    for (int i = 0; i < told; i++) {
        struct request *const r = find(before[i]);
        if (r != NULL && !r->persistent)
            forget(r);
    }
    leave();
    return code;
}

int simulated_Wait(MPI_Request *request, MPI_Status *status) {
    struct message m;
    struct request *const r = find(*request);
    const MPI_Request handle = *request;
    enter("MPI_Wait", &m, needed(1, request, &m));
    int code = MPI_SUCCESS;
    if (r != NULL && r->others != NULL) { /* which the handle is one of */
        code = PMPI_Waitall(TOGETHER, r->others, MPI_STATUSES_IGNORE);
        *request = r->persistent ? handle : MPI_REQUEST_NULL;
    } else {
        code = PMPI_Wait(request, status);
    }
    struct request *const now = find(handle);
    if (now != NULL && !now->persistent)
        forget(now);
    leave();
    return code;
}

int simulated_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    struct message m;
    const MPI_Request handle = *request;
    enter("MPI_Test", &m, needed(1, request, &m));
    const int code = PMPI_Test(request, flag, status);
    struct request *const r = find(handle);
    if (!*flag)
        states[me()].count = 0; /* it has ended, and completed nothing */
    else if (r != NULL && !r->persistent)
        forget(r);
    leave();
    return code;
}

int simulated_Request_free(MPI_Request *request) {
    struct request *const r = find(*request);
    int code = MPI_SUCCESS;
    if (r != NULL && r->others != NULL) {
        for (int i = 0; i < TOGETHER && code == MPI_SUCCESS; i++)
            code = PMPI_Request_free(&r->others[i]);
        *request = MPI_REQUEST_NULL;
    } else {
        code = PMPI_Request_free(request);
    }
    if (r != NULL)
        forget(r);
    return code;
}

/* ---- collectives: who waits for whom in them is not told ---- */

#define COLLECTIVE(name, call)                                                                     \
    do {                                                                                           \
        enter(name, NULL, 0);                                                                      \
        const int code_ = call;                                                                    \
        leave();                                                                                   \
        return code_;                                                                              \
    } while (0)

int simulated_Scatterv(const void *out, const int *counts, const int *places, MPI_Datatype type_out,
                       void *in, int count, MPI_Datatype type_in, int root, MPI_Comm comm) {
    COLLECTIVE("MPI_Scatterv",
               PMPI_Scatterv(out, counts, places, type_out, in, count, type_in, root, comm));
}

int simulated_Gatherv(const void *out, int count, MPI_Datatype type_out, void *in,
                      const int *counts, const int *places, MPI_Datatype type_in, int root,
                      MPI_Comm comm) {
    COLLECTIVE("MPI_Gatherv",
               PMPI_Gatherv(out, count, type_out, in, counts, places, type_in, root, comm));
}

int simulated_Alltoallw(const void *out, const int *n_out, const int *at_out,
                        const MPI_Datatype *types_out, void *in, const int *n_in, const int *at_in,
                        const MPI_Datatype *types_in, MPI_Comm comm) {
    COLLECTIVE("MPI_Alltoallw", PMPI_Alltoallw(out, n_out, at_out, types_out, in, n_in, at_in,
                                               types_in, comm));
}

int simulated_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
    COLLECTIVE("MPI_Bcast", PMPI_Bcast(buffer, count, type, root, comm));
}

/* ---- what kernels agree by, outside all that is timed ----
 *
 * By messages each of these would cost us as much as the exchange itself, and more: with 1,024 ranks
 * the start of a repetition alone takes 10,240. So the ranks meet, in no simulated time, and read
 * what the others have laid down. A communicator of fewer ranks goes by messages. */

static int of_all(MPI_Comm comm) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    return size == n_ranks;
}

static void meet(void) { sg_barrier_wait(meeting); }

int simulated_Barrier(MPI_Comm comm) {
    enter("MPI_Barrier", NULL, 0);
    int code = MPI_SUCCESS;
    if (of_all(comm))
        meet();
    else
        code = PMPI_Barrier(comm);
    leave();
    return code;
}

/* The ranks leave a set-up at different times, and what they then exchange would take us ten times as
 * long: each message that begins or ends alone has all bandwidths shared out anew. */
int simulated_Cart_create(MPI_Comm comm, int dimensions, const int *dims, const int *periods,
                          int reorder, MPI_Comm *grid) {
    const int code = PMPI_Cart_create(comm, dimensions, dims, periods, reorder, grid);
    if (of_all(comm))
        meet();
    return code;
}

int simulated_Win_allocate(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void *memory,
                           MPI_Win *window) {
    const int code = PMPI_Win_allocate(bytes, unit, info, comm, memory, window);
    if (of_all(comm))
        meet();
    return code;
}

/* SMPI's fence is a barrier by messages, which share the links with what was put, and let some ranks
 * go a moment before the others: to us that is ten times as long. So what was put comes first, and
 * all ranks leave together. */
int simulated_Win_fence(int mode, MPI_Win window) {
    MPI_Group group = MPI_GROUP_NULL;
    int size = 0;
    enter("MPI_Win_fence", NULL, 0);
    int code = PMPI_Win_flush_local_all(window);
    if (code == MPI_SUCCESS)
        code = PMPI_Win_fence(mode, window);
    PMPI_Win_get_group(window, &group);
    PMPI_Group_size(group, &size);
    PMPI_Group_free(&group);
    if (size == n_ranks)
        meet();
    leave();
    return code;
}

/* The first rank puts all together, into the output of each that `takes` it. */
static int put_together(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                        int takes) {
    const int rank = me();
    int size = 0, code = MPI_SUCCESS;
    PMPI_Type_size(type, &size);
    const size_t bytes = (size_t)count * (size_t)size;
    deposits[rank] = (struct deposit){in == MPI_IN_PLACE ? out : in, takes ? out : NULL};
    meet();
    if (rank == 0) {
        void *const sum = must(malloc(bytes + 1), "a reduction");
        memcpy(sum, deposits[0].in, bytes);
        for (int r = 1; r < n_ranks && code == MPI_SUCCESS; r++)
            code = PMPI_Reduce_local(deposits[r].in, sum, count, type, op);
        for (int r = 0; r < n_ranks; r++)
            if (deposits[r].out != NULL)
                memcpy(deposits[r].out, sum, bytes);
        free(sum);
    }
    meet();
    return code;
}

/* A sum of doubles is a kernel's exchange, and takes its time: kernels agree by other means. */
int simulated_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm) {
    COLLECTIVE("MPI_Allreduce", of_all(comm) && !(type == MPI_DOUBLE && op == MPI_SUM)
                                    ? put_together(in, out, count, type, op, 1)
                                    : PMPI_Allreduce(in, out, count, type, op, comm));
}

int simulated_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
                     MPI_Comm comm) {
    COLLECTIVE("MPI_Reduce", of_all(comm)
                                 ? put_together(in, out, count, type, op, me() == root)
                                 : PMPI_Reduce(in, out, count, type, op, root, comm));
}

static int lay_out(const void *in, int n_in, MPI_Datatype type_in, void *out) {
    int size = 0;
    PMPI_Type_size(type_in, &size);
    const size_t bytes = (size_t)n_in * (size_t)size;
    deposits[me()] = (struct deposit){in, out};
    meet();
    for (int r = 0; r < n_ranks; r++)
        memcpy((char *)out + (size_t)r * bytes, deposits[r].in, bytes);
    meet();
    return MPI_SUCCESS;
}

int simulated_Allgather(const void *in, int n_in, MPI_Datatype type_in, void *out, int n_out,
                        MPI_Datatype type_out, MPI_Comm comm) {
    COLLECTIVE("MPI_Allgather", of_all(comm) && in != MPI_IN_PLACE
                                    ? lay_out(in, n_in, type_in, out)
                                    : PMPI_Allgather(in, n_in, type_in, out, n_out, type_out, comm));
}

/* ---- what SMPI has not got ---- */

/* A neighbourhood collective on a Cartesian grid of three dimensions: the linear algorithm, a
 * receive and a send for each of the neighbours, all begun at once. */

enum { FIRST_TAG = 30000 };

typedef int starter(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

static int start_receive(void *buffer, int count, MPI_Datatype type, int peer, int tag,
                         MPI_Comm comm, MPI_Request *request) {
    return PMPI_Irecv(buffer, count, type, peer, tag, comm, request);
}
static int start_send(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                      MPI_Request *request) {
    return PMPI_Isend(buffer, count, type, peer, tag, comm, request);
}
static int make_receive(void *buffer, int count, MPI_Datatype type, int peer, int tag,
                        MPI_Comm comm, MPI_Request *request) {
    return PMPI_Recv_init(buffer, count, type, peer, tag, comm, request);
}
static int make_send(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                     MPI_Request *request) {
    return PMPI_Send_init(buffer, count, type, peer, tag, comm, request);
}

/* Block s arrives as the neighbour's block s ^ 1 (MPI 4.1, section 8.6), hence the tags. */
static int neighbours(starter *receive, starter *send, const void *out, int n_out,
                      MPI_Datatype type_out, void *in, int n_in, MPI_Datatype type_in,
                      MPI_Comm comm, MPI_Request *requests) {
    int dimensions = 0, code = PMPI_Cartdim_get(comm, &dimensions);
    MPI_Aint low, step_out = 0, step_in = 0;
    if (code != MPI_SUCCESS || 4 * dimensions != TOGETHER)
        return MPI_ERR_UNSUPPORTED_OPERATION;
    PMPI_Type_get_extent(type_out, &low, &step_out);
    PMPI_Type_get_extent(type_in, &low, &step_in);
    for (int s = 0; s < TOGETHER && code == MPI_SUCCESS; s++) {
        const int side = s % (2 * dimensions);
        int lower, higher;
        code = PMPI_Cart_shift(comm, side / 2, 1, &lower, &higher);
        const int peer = side % 2 == 0 ? lower : higher;
        char *const to = (char *)in + (MPI_Aint)side * n_in * step_in;
        char *const from = (char *)(uintptr_t)out + (MPI_Aint)side * n_out * step_out;
        if (code == MPI_SUCCESS)
            code = s < 2 * dimensions ? receive(to, n_in, type_in, peer, FIRST_TAG + (side ^ 1),
                                                comm, &requests[s])
                                      : send(from, n_out, type_out, peer, FIRST_TAG + side, comm,
                                             &requests[s]);
    }
    return code;
}

int simulated_Neighbor_alltoall(const void *out, int n_out, MPI_Datatype type_out, void *in,
                                int n_in, MPI_Datatype type_in, MPI_Comm comm) {
    MPI_Request requests[TOGETHER];
    enter("MPI_Neighbor_alltoall", NULL, 0);
    int code = neighbours(start_receive, start_send, out, n_out, type_out, in, n_in, type_in, comm,
                          requests);
    if (code == MPI_SUCCESS)
        code = PMPI_Waitall(TOGETHER, requests, MPI_STATUSES_IGNORE);
    leave();
    return code;
}

/* One request for all: that of the last send. */
static int together(starter *receive, starter *send, const void *out, int n_out,
                    MPI_Datatype type_out, void *in, int n_in, MPI_Datatype type_in, MPI_Comm comm,
                    MPI_Request *request) {
    const struct message all = {NOTHING, -1, -1, ++mine()->numbered, 0};
    MPI_Request *const others = must(malloc(TOGETHER * sizeof *others), "requests");
    const int code =
        neighbours(receive, send, out, n_out, type_out, in, n_in, type_in, comm, others);
    if (code != MPI_SUCCESS) {
        free(others);
        return code;
    }
    *request = others[TOGETHER - 1];
    remember(*request, &all, receive == make_receive);
    find(*request)->others = others;
    return code;
}

int simulated_Ineighbor_alltoall(const void *out, int n_out, MPI_Datatype type_out, void *in,
                                 int n_in, MPI_Datatype type_in, MPI_Comm comm,
                                 MPI_Request *request) {
    COLLECTIVE("MPI_Ineighbor_alltoall", together(start_receive, start_send, out, n_out, type_out,
                                                  in, n_in, type_in, comm, request));
}

int simulated_Neighbor_alltoall_init(const void *out, int n_out, MPI_Datatype type_out, void *in,
                                     int n_in, MPI_Datatype type_in, MPI_Comm comm, MPI_Info info,
                                     MPI_Request *request) {
    (void)info;
    COLLECTIVE("MPI_Neighbor_alltoall_init", together(make_receive, make_send, out, n_out, type_out,
                                                      in, n_in, type_in, comm, request));
}

int simulated_Topo_test(MPI_Comm comm, int *topology) {
    int dimensions = 0;
    const int none = comm == MPI_COMM_WORLD || /* which SMPI complains about if it is asked */
                     PMPI_Cartdim_get(comm, &dimensions) != MPI_SUCCESS;
    *topology = none ? MPI_UNDEFINED : MPI_CART;
    return MPI_SUCCESS;
}

/* A rank is a host of its own, called rank-node. SMPI would take that for a node. */
int simulated_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part) {
    (void)info;
    const char *dash = strrchr(sg_host_self_get_name(), '-');
    return PMPI_Comm_split(comm, type == MPI_COMM_TYPE_SHARED ? atoi(dash + 1) : MPI_UNDEFINED,
                           key, part);
}

/* ---- work ---- */

int(simulated_work)(double flops) {
    if (flops > 0)
        smpi_execute_flops(flops);
    return 1;
}
