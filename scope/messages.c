/* Sends, receives, probes and persistent requests. See scope.h.
 *
 * A blocking call is its nonblocking form, one test, and, where that was not enough, a wait that
 * can be left. A send is counted when it starts, a receive when it is complete. */
#include "scope.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

enum how { STANDARD, SYNCHRONOUS, BUFFERED, READY };

long long scope_bytes(count_t count, MPI_Datatype type) {
    MPI_Count size = 0;
    long long bytes;
    if (type != MPI_DATATYPE_NULL) /* the library says so itself, to the program's own handler */
        PMPI_Type_size_x(type, &size);
    return __builtin_mul_overflow((long long)count, (long long)size, &bytes) ? LLONG_MAX : bytes;
}

/* Notes, in a notebook, that the other side of a call is no rank: a rank that was computed may come to
 * be MPI_PROC_NULL, or MPI_ANY_SOURCE, by chance. */
static void note_unranked(const struct call *call, bool receives) {
    const int room = sizeof scope.unranked / sizeof *scope.unranked;
    for (int i = 0; i < scope.n_unranked; i++)
        if (scope.unranked[i].origin == call->origin && scope.unranked[i].receives == receives)
            return;
    if (scope.cell > 0 && call->origin && scope.n_unranked < room)
        scope.unranked[scope.n_unranked++] = (struct unranked){
            .name = call->name, .peer = call->peer, .origin = call->origin, .receives = receives};
}

/* Says what is wrong with a rank or a tag, in the program's terms: the library would speak of the
 * call that serves this one. */
int scope_check(struct call *call, const struct comm *c, int peer, int tag, bool receives) {
    char text[MPI_MAX_ERROR_STRING];
    int code = scope.no_rank;
    const char *name = scope_names[call->name], *way = receives ? "from" : "to";
    const int ranks = c->remote ? c->remote : c->size;
    const bool any_peer = receives && peer == MPI_ANY_SOURCE;
    const bool any_tag = receives && tag == MPI_ANY_TAG;
    call->peer = peer;
    call->tag = tag;
    call->receives = receives;
    call->checks++;
    if (peer != MPI_PROC_NULL && !any_peer && (peer < 0 || peer >= ranks)) {
        snprintf(text, sizeof text,
                 "%s %s rank %d: no such rank, this communicator's ranks are 0 to %d", name, way,
                 peer, ranks - 1);
    } else if (!any_tag && (tag < 0 || tag > scope.greatest_tag)) {
        code = scope.no_tag;
        snprintf(text, sizeof text, "%s %s rank %d with tag %d: tags are 0 to %d", name, way, peer,
                 tag, scope.greatest_tag);
    } else {
        if (peer == MPI_PROC_NULL || any_peer)
            note_unranked(call, receives);
        return MPI_SUCCESS;
    }
    PMPI_Add_error_string(code, text);
    return code;
}

static int label(int tag) { return tag == MPI_ANY_TAG ? ANY_LABEL : tag; }

/* ---- sends ---- */

static enum how lens(enum how how) {
    return how == STANDARD && atomic_load(&scope.insist) ? SYNCHRONOUS : how;
}

static int begin(const void *buf, count_t count, MPI_Datatype type, int dest, int tag,
                 MPI_Comm comm, enum how how, MPI_Request *request) {
    switch (lens(how)) {
    case SYNCHRONOUS:
        return P(Issend)(buf, count, type, dest, tag, comm, request);
    case BUFFERED:
        return P(Ibsend)(buf, count, type, dest, tag, comm, request);
    case READY:
        return P(Irsend)(buf, count, type, dest, tag, comm, request);
    default:
        return P(Isend)(buf, count, type, dest, tag, comm, request);
    }
}

/* In a notebook: who runs a program is told nothing of it. */
static char number_of(MPI_Datatype type) { return scope.cell > 0 ? scope_number(type) : 0; }

/* Notes what kind of number a receive takes, if it is one that is followed. */
static struct op *taking(struct op *op, MPI_Datatype type) {
    if (op)
        op->number = number_of(type);
    return op;
}

/* Begins a send and counts it. done: it is complete at once; such a send may share its handle with
 * others, so there is nothing to follow. flight: its message, if the sender waits for it. */
static int start_send(const struct comm *c, const void *buf, count_t count, MPI_Datatype type,
                      int dest, int tag, enum how how, MPI_Request *request, int *done,
                      struct flight **flight) {
    const int peer = scope_peer(c, dest);
    struct flight *leaves = scope_depart(c, peer, tag, scope_bytes(count, type));
    const int err = scope_heard(begin(buf, count, type, dest, tag, c->handle, how, request));
    *done = peer == NO_PEER;
    *flight = NULL;
    if (err) {
        scope_stays(leaves);
    } else if (!*done) {
        MPI_Status status;
        scope_count(SENT, c->number, peer, tag, 1, count > 0 ? number_of(type) : 0, scope.origin);
        PMPI_Request_get_status(*request, done, &status);
        scope_departed(leaves, *done);
        *flight = *done ? NULL : leaves;
    }
    return err;
}

/* Notes a request's flight, if the request is one that is followed. */
static struct op *with_flight(struct op *op, struct flight *flight) {
    if (op)
        op->flight = flight;
    return op;
}

static int serve_send(struct call *call, struct comm *c, const void *buf, count_t count,
                      MPI_Datatype type, int dest, int tag, enum how how) {
    const int wrong = scope_check(call, c, dest, tag, false);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status status;
    struct flight *flight;
    int done;
    const int peer = scope_peer(c, dest);
    const long long bytes = scope_bytes(count, type);
    int err = start_send(c, buf, count, type, dest, tag, how, &request, &done, &flight);
    if (err)
        return scope_end(call, c, err);
    if (done) {
        err = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    } else {
        with_flight(scope_op_add(SEND, request, c, peer, tag, bytes), flight);
        err = scope_wait(call, &request, &status);
    }
    scope_event(call, c, peer, tag, bytes, 0);
    return scope_end(call, c, err);
}

static int serve_isend(struct call *call, struct comm *c, const void *buf, count_t count,
                       MPI_Datatype type, int dest, int tag, enum how how, MPI_Request *request) {
    const int wrong = scope_check(call, c, dest, tag, false);
    if (wrong)
        return scope_end(call, c, wrong);
    const int peer = scope_peer(c, dest);
    const long long bytes = scope_bytes(count, type);
    struct flight *flight;
    int done;
    const int err = start_send(c, buf, count, type, dest, tag, how, request, &done, &flight);
    if (err)
        return scope_end(call, c, err);
    const bool followed = !done || (scope.checking && peer != NO_PEER);
    struct op *op =
        followed ? with_flight(scope_op_add(SEND, *request, c, peer, tag, bytes), flight) : NULL;
    if (op && scope.checking)
        scope_lend(op, buf, count, type);
    scope_event(call, c, peer, tag, bytes, op ? op->serial : 0);
    return scope_end(call, c, MPI_SUCCESS);
}

#define SENDS(SUFFIX, COUNT)                                                                     \
    SEND_CALLS(SUFFIX, COUNT, Send, STANDARD)                                                    \
    SEND_CALLS(SUFFIX, COUNT, Ssend, SYNCHRONOUS)                                                \
    SEND_CALLS(SUFFIX, COUNT, Bsend, BUFFERED)                                                   \
    SEND_CALLS(SUFFIX, COUNT, Rsend, READY)                                                      \
    ISEND_CALLS(SUFFIX, COUNT, Isend, STANDARD)                                                  \
    ISEND_CALLS(SUFFIX, COUNT, Issend, SYNCHRONOUS)                                              \
    ISEND_CALLS(SUFFIX, COUNT, Ibsend, BUFFERED)                                                 \
    ISEND_CALLS(SUFFIX, COUNT, Irsend, READY)

#define SEND_CALLS(SUFFIX, COUNT, name, how)                                                     \
    int MPI_##name##SUFFIX(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag,   \
                           MPI_Comm comm) {                                                      \
        OBSERVE(name, comm, PMPI_##name##SUFFIX(buf, count, type, dest, tag, comm))  \
        return serve_send(&call, c, buf, count, type, dest, tag, how);                           \
    }

#define ISEND_CALLS(SUFFIX, COUNT, name, how)                                                    \
    int MPI_##name##SUFFIX(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag,   \
                           MPI_Comm comm, MPI_Request *request) {                                \
        OBSERVE_GIVEN(request, name, comm,                                                       \
                PMPI_##name##SUFFIX(buf, count, type, dest, tag, comm, request))                 \
        return serve_isend(&call, c, buf, count, type, dest, tag, how, request);                 \
    }

/* ---- receives ---- */

static int serve_irecv(struct call *call, struct comm *c, void *buf, count_t count,
                       MPI_Datatype type, int source, int tag, MPI_Request *request) {
    const int wrong = scope_check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    const int err = scope_heard(P(Irecv)(buf, count, type, source, tag, c->handle, request));
    if (err)
        return scope_end(call, c, err);
    const int peer = scope_peer(c, source);
    const long long bytes = scope_bytes(count, type);
    const struct op *op =
        peer == NO_PEER
            ? NULL
            : taking(scope_op_add(RECV, *request, c, peer, label(tag), bytes), type);
    scope_event(call, c, peer, label(tag), bytes, op ? op->serial : 0);
    return scope_end(call, c, MPI_SUCCESS);
}

static int serve_recv(struct call *call, struct comm *c, void *buf, count_t count,
                      MPI_Datatype type, int source, int tag, MPI_Status *status) {
    const int wrong = scope_check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status own = scope_no_status();
    int done = 0;
    int err = scope_heard(P(Irecv)(buf, count, type, source, tag, c->handle, &request));
    if (err)
        return scope_end(call, c, err);
    int peer = scope_peer(c, source);
    const long long room = scope_bytes(count, type);
    if (peer != NO_PEER && taking(scope_op_add(RECV, request, c, peer, label(tag), room), type))
        err = scope_wait(call, &request, &own);
    else
        err = PMPI_Test(&request, &done, &own);
    if (own.MPI_SOURCE >= 0 && !err)
        peer = scope_peer(c, own.MPI_SOURCE);
    scope_event(call, c, peer, err ? label(tag) : own.MPI_TAG,
                err ? scope_bytes(count, type) : scope_received(&own), 0);
    if (err != scope.code)
        scope_copy_status(status, &own);
    return scope_end(call, c, err);
}

#define RECEIVES(SUFFIX, COUNT)                                                                  \
    int MPI_Recv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int source, int tag,         \
                         MPI_Comm comm, MPI_Status *status) {                                    \
        OBSERVE_GIVEN(HAS_STATUS(status), Recv, comm,                                            \
                PMPI_Recv##SUFFIX(buf, count, type, source, tag, comm, status))                  \
        return serve_recv(&call, c, buf, count, type, source, tag, status);                      \
    }                                                                                            \
    int MPI_Irecv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int source, int tag,        \
                          MPI_Comm comm, MPI_Request *request) {                                 \
        OBSERVE_GIVEN(request, Irecv, comm,                                                      \
                PMPI_Irecv##SUFFIX(buf, count, type, source, tag, comm, request))                \
        return serve_irecv(&call, c, buf, count, type, source, tag, request);                    \
    }

/* ---- both at once ---- */

static int serve_sendrecv(struct call *call, struct comm *c, const void *sendbuf,
                          count_t sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                          void *recvbuf, count_t recvcount, MPI_Datatype recvtype, int source,
                          int recvtag, MPI_Status *status) {
    const int wrong_dest = scope_check(call, c, dest, sendtag, false);
    const int wrong = wrong_dest ? wrong_dest : scope_check(call, c, source, recvtag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2] = {scope_no_status()};
    bool complete[2] = {false, false};
    int left = MPI_SUCCESS;
    int err = scope_heard(P(Irecv)(recvbuf, recvcount, recvtype, source, recvtag, c->handle, &requests[0]));
    if (err)
        return scope_end(call, c, err);
    const int from = scope_peer(c, source);
    if (from != NO_PEER)
        taking(scope_op_add(RECV, requests[0], c, from, label(recvtag),
                            scope_bytes(recvcount, recvtype)),
               recvtype);
    const int to = scope_peer(c, dest);
    const long long bytes = scope_bytes(sendcount, sendtype);
    struct flight *flight;
    int sent;
    err = start_send(c, sendbuf, sendcount, sendtype, dest, sendtag, STANDARD, &requests[1], &sent,
                     &flight);
    if (err) { /* nothing was sent, so nothing is to be received */
        PMPI_Cancel(&requests[0]);
        struct op *op = scope_op_find(requests[0]);
        if (op) {
            op->cancelled = true;
            scope_wait(call, &requests[0], &statuses[0]);
        }
        return scope_end(call, c, err);
    }
    if (!sent)
        with_flight(scope_op_add(SEND, requests[1], c, to, sendtag, bytes), flight);
    call->requests = requests;
    call->n_requests = 2;
    struct op was[2];
    for (;;) {
        for (int i = 0; i < 2; i++) {
            int done = 0;
            if (complete[i])
                continue;
            const int failed = scope_test(&requests[i], &done, &statuses[i], &was[i]);
            complete[i] = done;
            err = err ? err : failed;
#ifdef MPICH_VERSION /* this call sets it */
            if (i == 0 && call->name == CALL_Sendrecv_replace)
                statuses[0].MPI_ERROR = failed;
#endif
        }
        if ((complete[0] && complete[1]) || left)
            break;
        left = scope_pause(call);
    }
    const long long number = ++scope.serial; /* one call, two messages: one request number */
    scope_event(call, c, to, sendtag, bytes, number);
    scope_event(call, c, was[0].peer == NO_PEER ? from : was[0].peer, was[0].tag, was[0].bytes,
                -number);
    if (!left)
        scope_copy_status(status, &statuses[0]);
    return scope_end(call, c, left ? left : err);
}

int scope_packed(const struct comm *c, const void *buf, count_t count, MPI_Datatype type,
                 void **copy, count_t *used) {
    count_t room = 0;
    int err = P(Pack_size)(count, type, c->handle, &room);
    *copy = err ? NULL : malloc((size_t)room + 1);
    *used = 0;
    if (!err && !*copy)
        err = MPI_ERR_NO_MEM;
    if (!err)
        err = P(Pack)(buf, count, type, *copy, room, used, c->handle);
    if (err)
        free(*copy);
    return err;
}

static int serve_sendrecv_replace(struct call *call, struct comm *c, void *buf, count_t count,
                                  MPI_Datatype type, int dest, int sendtag, int source,
                                  int recvtag, MPI_Status *status) {
    count_t used = 0;
    void *copy = NULL;
    if (count < 0) /* the library says what is wrong */
        return serve_sendrecv(call, c, buf, count, type, dest, sendtag, buf, count, type, source,
                              recvtag, status);
    int err = scope_packed(c, buf, count, type, &copy, &used);
    if (err)
        return scope_end(call, c, err);
    err = serve_sendrecv(call, c, copy, used, MPI_PACKED, dest, sendtag, buf, count, type, source,
                         recvtag, status);
    free(copy);
    return err;
}

#define SENDRECVS(SUFFIX, COUNT)                                                                 \
    int MPI_Sendrecv##SUFFIX(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype,        \
                             int dest, int sendtag, void *recvbuf, COUNT recvcount,              \
                             MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,      \
                             MPI_Status *status) {                                               \
        OBSERVE_GIVEN(HAS_STATUS(status), Sendrecv, comm,                                        \
                PMPI_Sendrecv##SUFFIX(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,      \
                                      recvcount, recvtype, source, recvtag, comm, status))       \
        return serve_sendrecv(&call, c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,    \
                              recvcount, recvtype, source, recvtag, status);                     \
    }                                                                                            \
    int MPI_Sendrecv_replace##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int dest,        \
                                     int sendtag, int source, int recvtag, MPI_Comm comm,        \
                                     MPI_Status *status) {                                       \
        OBSERVE_GIVEN(HAS_STATUS(status), Sendrecv_replace, comm,                                \
                PMPI_Sendrecv_replace##SUFFIX(buf, count, type, dest, sendtag, source, recvtag,  \
                                              comm, status))                                     \
        return serve_sendrecv_replace(&call, c, buf, count, type, dest, sendtag, source,         \
                                      recvtag, status);                                          \
    }

/* ---- persistent requests ---- */

static int serve_init(struct call *call, struct comm *c, int err, int kind,
                      const MPI_Request *request, count_t count, MPI_Datatype type, int peer,
                      int tag) {
    err = scope_heard(err);
    if (err)
        return scope_end(call, c, err);
    const int to = scope_peer(c, peer);
    /* Of one to nobody only whether it is active is of interest. */
    struct op *op = scope_op_add(to == NO_PEER ? UNKNOWN : kind, *request, c, to, label(tag),
                                 scope_bytes(count, type));
    if (taking(op, type)) {
        op->persistent = true;
        op->active = false;
    }
    scope_event(call, c, to, label(tag), scope_bytes(count, type), op ? op->serial : 0);
    return scope_end(call, c, MPI_SUCCESS);
}

#define INITS(SUFFIX, COUNT)                                                                     \
    SEND_INIT(SUFFIX, COUNT, Send_init, atomic_load(&scope.insist))                              \
    SEND_INIT(SUFFIX, COUNT, Ssend_init, false)                                                  \
    SEND_INIT(SUFFIX, COUNT, Bsend_init, false)                                                  \
    SEND_INIT(SUFFIX, COUNT, Rsend_init, false)                                                  \
    int MPI_Recv_init##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int source, int tag,    \
                              MPI_Comm comm, MPI_Request *request) {                             \
        OBSERVE_GIVEN(request, Recv_init, comm,                                                  \
                PMPI_Recv_init##SUFFIX(buf, count, type, source, tag, comm, request))            \
        const int err = PMPI_Recv_init##SUFFIX(buf, count, type, source, tag, comm, request);    \
        return serve_init(&call, c, err, RECV, request, count, type, source, tag);               \
    }

#define SEND_INIT(SUFFIX, COUNT, name, synchronous)                                              \
    int MPI_##name##SUFFIX(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag,   \
                           MPI_Comm comm, MPI_Request *request) {                                \
        OBSERVE_GIVEN(request, name, comm,                                                       \
                PMPI_##name##SUFFIX(buf, count, type, dest, tag, comm, request))                 \
        const int err =                                                                          \
            synchronous ? PMPI_Ssend_init##SUFFIX(buf, count, type, dest, tag, comm, request)    \
                        : PMPI_##name##SUFFIX(buf, count, type, dest, tag, comm, request);       \
        return serve_init(&call, c, err, SEND, request, count, type, dest, tag);                 \
    }

SENDS(, int)
RECEIVES(, int)
SENDRECVS(, int)
INITS(, int)
#if LARGE_COUNTS
SENDS(_c, MPI_Count)
RECEIVES(_c, MPI_Count)
SENDRECVS(_c, MPI_Count)
INITS(_c, MPI_Count)
#endif

static int started(struct op *op) {
    if (!op)
        return MPI_SUCCESS;
    op->active = true;
    op->counted = op->cancelled = op->peeked = op->dead = false;
    op->cell = scope.cell;
    scope_op_posted(op);
    if (op->kind == SEND)
        scope_count(SENT, op->comm->number, op->peer, op->tag, 1, op->number, scope.origin);
    if (op->kind == SEND && op->flight) {
        MPI_Status status;
        int done = 0;
        scope_peek(op, &done, &status);
        scope_departed(op->flight, done);
        if (done)
            op->flight = NULL;
    }
    if (op->kind == COLLECTIVE && op->persistent)
        op->index = scope_enter(op->comm, op->name, NO_ROOT) ? op->comm->entered : 0;
    return MPI_SUCCESS;
}

/* A collective that a break gave up cannot be started again: its shadow is another now. */
static int start(MPI_Request *request, struct op *op) {
    if (op && op->kind == COLLECTIVE && op->given_up)
        return scope.code;
    if (op && op->dead) /* nobody waited for it again: now it is whole */
        scope_bury(request, op);
    if (op && op->active && op->counted && op->generation != scope.generation) {
        MPI_Status status; /* complete when a break ended the wait for it */
        int done = 0;
        PMPI_Test(request, &done, &status);
    }
    if (op && op->kind == SEND)
        op->flight = scope_depart(op->comm, op->peer, op->tag, op->bytes);
    const int err = scope_heard(PMPI_Start(request));
    if (err && op && op->kind == SEND)
        scope_stays(op->flight);
    return err;
}

int MPI_Start(MPI_Request *request) {
    OBSERVE_GIVEN(request, Start, MPI_COMM_WORLD, PMPI_Start(request))
    struct op *op = scope_op_find(*request);
    const int err = start(request, op);
    if (!err)
        started(op);
    scope_event(&call, op ? op->comm : c, op ? op->peer : NO_PEER, op ? op->tag : ANY_LABEL,
                op ? op->bytes : 0, op ? op->serial : 0);
    return scope_end(&call, op ? op->comm : c, err);
}

int MPI_Startall(int count, MPI_Request requests[]) {
    OBSERVE_GIVEN(HAS_MANY(count, requests), Startall, MPI_COMM_WORLD, PMPI_Startall(count, requests))
    int err = MPI_SUCCESS;
    for (int i = 0; i < count && !err; i++) {
        struct op *op = scope_op_find(requests[i]);
        err = start(&requests[i], op);
        if (!err)
            started(op);
        if (op)
            scope_event(&call, op->comm, op->peer, op->tag, op->bytes, op->serial);
    }
    return scope_end(&call, c, err);
}

/* A receive that is freed while open still takes its message: the scope keeps the request, and frees
 * it when it has seen that. */
int MPI_Request_free(MPI_Request *request) {
    OBSERVE_GIVEN(request, Request_free, MPI_COMM_WORLD, PMPI_Request_free(request))
    struct op *op = scope_op_find(*request);
    MPI_Status status;
    int done = 0;
    if (op && op->kind == COLLECTIVE && op->persistent)
        op->comm->freed = true; /* it goes when what was entered there has been compared */
    if (op && op->kind == COLLECTIVE && (op->given_up || op->dead) && !op->counted) {
        scope_op_remove(op); /* its communicator was given up, and the request with it */
        *request = MPI_REQUEST_NULL;
        return scope_end(&call, c, MPI_SUCCESS);
    }
    const bool open = op && op->active && !op->counted && !op->dead;
    if (open && scope_look(op, &done, &status) == MPI_SUCCESS && done)
        scope_op_complete(op, &status);
    if (open && !done && op->kind == RECV) {
        op->freed = true;
        *request = MPI_REQUEST_NULL;
        return scope_end(&call, c, MPI_SUCCESS);
    }
    if (op && op->active && !op->dead)
        scope.never_completed++;
    if (op)
        scope_op_remove(op);
    return scope_end(&call, c, PMPI_Request_free(request));
}

int MPI_Cancel(MPI_Request *request) {
    OBSERVE_GIVEN(request, Cancel, MPI_COMM_WORLD, PMPI_Cancel(request))
    struct op *op = scope_op_find(*request);
    if (op)
        op->cancelled = true;
#ifdef MPICH_VERSION
    /* It cancels no send, as it may, and sometimes crashes when asked to: errata 5. */
    const bool in_vain = op && (op->dead || op->kind == SEND);
#else
    const bool in_vain = op && op->dead;
#endif
    return scope_end(&call, c, in_vain ? MPI_SUCCESS : PMPI_Cancel(request));
}

/* ---- probes ---- */

static struct record probe_of(const struct comm *c, int source, int tag) {
    return (struct record){.kind = PROBE,
                           .comm = c->number,
                           .peer = scope_peer(c, source),
                           .tag = label(tag)};
}

/* A message that a matched probe took, until its receive begins. */
struct held {
    struct held *next;
    MPI_Message message;
    struct comm *comm;
    int peer, tag;
    bool dead; /* a break took it */
    struct flight *flight;
};

static struct held *helds;

static struct held **held(MPI_Message message) {
    struct held **at = &helds;
    while (*at && (*at)->message != message)
        at = &(*at)->next;
    return at;
}

static void let_go(struct held **at) {
    struct held *gone = *at;
    *at = gone->next;
    free(gone);
}

/* Comes before a dead one of the same handle, which the library uses again. */
static void matched(struct comm *c, MPI_Message message, int peer, const MPI_Status *status) {
    const int tag = status->MPI_TAG;
    struct held *one = malloc(sizeof *one);
    if (!one) {
        scope.blind = true;
        return;
    }
    *one = (struct held){helds, message, c, peer, tag, false, scope_taken(c, peer, tag)};
    helds = one;
    scope_count(HELD, c->number, peer, tag, 1, 0, scope.origin);
}

/* Receives what matched probes took, as its senders may wait for that; into no room, and that it is
 * truncated is no error of the program's. */
void scope_drop_messages(void) {
    for (struct held *one = helds; one; one = one->next) {
        if (one->dead)
            continue;
        MPI_Message message = one->message;
        MPI_Request request;
        const MPI_Errhandler before = scope_mute(one->comm->handle);
        if (PMPI_Imrecv(NULL, 0, MPI_BYTE, &message, &request) == MPI_SUCCESS) {
            one->dead = true;
            scope_complete(&request, true, 1);
        }
        scope_unmute(one->comm->handle, before);
    }
}

void scope_forget_held(const struct comm *comm) {
    for (struct held **at = &helds; *at;) {
        if ((*at)->comm == comm)
            let_go(at);
        else
            at = &(*at)->next;
    }
}

/* A message that the network lens does not show yet is not found. */
static int probe_once(const struct comm *c, int source, int tag, int *found, MPI_Message *message,
                      MPI_Status *status) {
    if (scope.network) {
        const int err = scope_heard(PMPI_Iprobe(source, tag, c->handle, found, status));
        if (!err && *found && status->MPI_SOURCE >= 0) {
            source = status->MPI_SOURCE; /* a matched probe is to take the same one */
            tag = status->MPI_TAG;
            *found = !scope_unseen(c, scope_peer(c, source), tag);
        }
        if (err || !*found || !message)
            return err;
    }
    return scope_heard(message ? PMPI_Improbe(source, tag, c->handle, found, message, status)
                               : PMPI_Iprobe(source, tag, c->handle, found, status));
}

void scope_forget_flights(void) {
    for (struct held *one = helds; one; one = one->next)
        one->flight = NULL;
}

/* message NULL: a probe that leaves the message in its queue */
static int serve_probe(struct call *call, struct comm *c, int source, int tag,
                       MPI_Message *message, MPI_Status *status) {
    const int wrong = scope_check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    const struct record probe = probe_of(c, source, tag);
    MPI_Status own = scope_no_status();
    int found = 0, err;
    call->probe = &probe;
    call->n_probes = 1;
    for (;;) {
        err = probe_once(c, source, tag, &found, message, &own);
        if (found || err)
            break;
        err = scope_pause(call);
        if (err)
            break;
    }
    int peer = probe.peer;
    if (!err && own.MPI_SOURCE >= 0) {
        peer = scope_peer(c, own.MPI_SOURCE);
        if (message)
            matched(c, *message, peer, &own);
    }
    scope_event(call, c, peer, err ? probe.tag : own.MPI_TAG, err ? 0 : scope_received(&own), 0);
    if (!err)
        scope_copy_status(status, &own);
    return scope_end(call, c, err);
}

static int serve_iprobe(struct call *call, struct comm *c, int source, int tag, int *found,
                        MPI_Message *message, MPI_Status *status) {
    const int wrong = scope_check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Status own = scope_no_status();
    const int err = probe_once(c, source, tag, found, message, &own);
    if (err)
        return scope_end(call, c, err);
    const struct record probe = probe_of(c, source, tag);
    call->probe = &probe;
    call->n_probes = 1;
    scope_tested(call, *found);
    if (*found) {
        const int peer = own.MPI_SOURCE >= 0 ? scope_peer(c, own.MPI_SOURCE) : NO_PEER;
        if (message && peer != NO_PEER)
            matched(c, *message, peer, &own);
        scope_event(call, c, peer, own.MPI_TAG, scope_received(&own), 0);
        scope_copy_status(status, &own);
    }
    return scope_end(call, c, err);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    OBSERVE_GIVEN(HAS_STATUS(status), Probe, comm, PMPI_Probe(source, tag, comm, status))
    return serve_probe(&call, c, source, tag, NULL, status);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    OBSERVE_GIVEN(message && HAS_STATUS(status), Mprobe, comm,
                  PMPI_Mprobe(source, tag, comm, message, status))
    return serve_probe(&call, c, source, tag, message, status);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    OBSERVE_GIVEN(flag && HAS_STATUS(status), Iprobe, comm,
                  PMPI_Iprobe(source, tag, comm, flag, status))
    return serve_iprobe(&call, c, source, tag, flag, NULL, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
    OBSERVE_GIVEN(flag && message && HAS_STATUS(status), Improbe, comm,
                  PMPI_Improbe(source, tag, comm, flag, message, status))
    return serve_iprobe(&call, c, source, tag, flag, message, status);
}

/* ---- messages taken by a matched probe: on their way, so nobody is ever stuck in these ---- */

/* The receive of a held message begins: `was` tells of it; comm NULL: not one we know. */
static void begin_receive(MPI_Message message, struct held *was) {
    struct held **at = held(message);
    *was = (struct held){.peer = NO_PEER, .tag = ANY_LABEL};
    if (!*at)
        return;
    *was = **at;
    let_go(at);
    if (was->dead)
        return;
    scope_count(HELD, was->comm->number, was->peer, was->tag, -1, 0, scope.origin);
    scope_count(RECEIVED, was->comm->number, was->peer, was->tag, 1, 0, scope.origin);
}

/* A receive of such a message: for the drain to wait for, as it fills the program's buffer. */
static struct op *under_way(MPI_Request request, struct comm *c, struct flight *flight) {
    int done = 0;
    MPI_Status status;
    PMPI_Request_get_status(request, &done, &status);
    if (done && !flight)
        return NULL;
    return with_flight(scope_op_add(UNKNOWN, request, c, NO_PEER, ANY_LABEL, 0), flight);
}

#define MRECVS(SUFFIX, COUNT)                                                                    \
    int MPI_Mrecv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message,       \
                          MPI_Status *status) {                                                  \
        OBSERVE_GIVEN(message && HAS_STATUS(status), Mrecv, MPI_COMM_WORLD,                      \
                      PMPI_Mrecv##SUFFIX(buf, count, type, message, status))                     \
        struct held was;                                                                         \
        MPI_Request request = MPI_REQUEST_NULL;                                                  \
        MPI_Status own = scope_no_status();                                                   \
        begin_receive(*message, &was);                                                           \
        int err = was.dead ? scope.code                                                          \
                           : scope_heard(                                                        \
                                 PMPI_Imrecv##SUFFIX(buf, count, type, message, &request));      \
        if (was.dead)                                                                            \
            *message = MPI_MESSAGE_NULL;                                                         \
        c = was.comm ? was.comm : c;                                                             \
        if (!err) {                                                                              \
            under_way(request, c, was.flight);                                                   \
            err = scope_wait(&call, &request, &own);                                             \
            err = err ? err : scope_truncated(c, &own, scope_bytes(count, type));                \
        }                                                                                        \
        if (!err)                                                                                \
            scope_event(&call, c, was.peer, own.MPI_TAG, scope_received(&own), 0);               \
        if (err != scope.code)                                                                   \
            scope_copy_status(status, &own);                                                     \
        return scope_end(&call, c, err);                                                         \
    }                                                                                            \
    int MPI_Imrecv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message,      \
                           MPI_Request *request) {                                               \
        OBSERVE_GIVEN(message && request, Imrecv, MPI_COMM_WORLD,                                \
                      PMPI_Imrecv##SUFFIX(buf, count, type, message, request))                   \
        struct held was;                                                                         \
        begin_receive(*message, &was);                                                           \
        const int err = was.dead ? scope.code                                                    \
                                 : scope_heard(                                                  \
                                       PMPI_Imrecv##SUFFIX(buf, count, type, message, request)); \
        if (was.dead)                                                                            \
            *message = MPI_MESSAGE_NULL;                                                         \
        c = was.comm ? was.comm : c;                                                             \
        const struct op *op = err ? NULL : under_way(*request, c, was.flight);                   \
        scope_event(&call, c, was.peer, was.tag, 0, op ? op->serial : 0);                        \
        return scope_end(&call, c, err);                                                         \
    }

MRECVS(, int)
#if LARGE_COUNTS
MRECVS(_c, MPI_Count)
#endif

/* ---- a sendrecv begun as one request ---- */

static int no_status(void *unused, MPI_Status *status) {
    (void)unused;
    PMPI_Status_set_elements(status, MPI_BYTE, 0);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = MPI_PROC_NULL;
    status->MPI_TAG = MPI_ANY_TAG;
    return MPI_SUCCESS;
}

static int nothing(void *unused) {
    (void)unused;
    return MPI_SUCCESS;
}

static int no_cancel(void *unused, int complete) {
    (void)unused;
    (void)complete;
    return MPI_SUCCESS;
}

int scope_generalized(MPI_Request *request) {
    return PMPI_Grequest_start(no_status, nothing, no_cancel, NULL, request);
}

#if HAS_ISENDRECV

/* A request of the scope's stands for both parts: the library's own could not be taken apart when
 * it is stuck. `copy` is freed with it. */
static int serve_isendrecv(struct call *call, struct comm *c, const void *sendbuf,
                           count_t sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                           void *recvbuf, count_t recvcount, MPI_Datatype recvtype, int source,
                           int recvtag, void *copy, MPI_Request *request) {
    const int wrong_dest = scope_check(call, c, dest, sendtag, false);
    int err = wrong_dest ? wrong_dest : scope_check(call, c, source, recvtag, true);
    MPI_Request part[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    if (!err)
        err = scope_heard(P(Irecv)(recvbuf, recvcount, recvtype, source, recvtag, c->handle, &part[0]));
    const int from = scope_peer(c, source), to = scope_peer(c, dest);
    const long long bytes = scope_bytes(sendcount, sendtype);
    struct flight *flight = NULL;
    int done = 0;
    if (!err)
        err = start_send(c, sendbuf, sendcount, sendtype, dest, sendtag, STANDARD, &part[1], &done,
                         &flight);
    if (!err)
        err = scope_generalized(request);
    struct op *op = err ? NULL
                        : scope_op_add(RECV, *request, c, from, label(recvtag),
                                       scope_bytes(recvcount, recvtype));
    if (!op) {
        free(copy);
        return scope_end(call, c, err ? err : MPI_ERR_NO_MEM);
    }
    op->generalized = true;
    memcpy(op->part, part, sizeof part);
    op->given = copy;
    op->twin = to == NO_PEER ? NULL : malloc(sizeof *op->twin);
    if (op->twin)
        *op->twin = (struct op){.kind = SEND, .comm = c, .peer = to, .tag = sendtag,
                                .bytes = bytes, .active = true,
                                .generation = scope.generation,
                                .flight = flight};
    scope_event(call, c, to, sendtag, bytes, op->serial);
    return scope_end(call, c, MPI_SUCCESS);
}

static int serve_isendrecv_replace(struct call *call, struct comm *c, void *buf, count_t count,
                                   MPI_Datatype type, int dest, int sendtag, int source,
                                   int recvtag, MPI_Request *request) {
    count_t used = 0;
    void *copy = NULL;
    const int err = scope_packed(c, buf, count, type, &copy, &used);
    if (err)
        return scope_end(call, c, err);
    return serve_isendrecv(call, c, copy, used, MPI_PACKED, dest, sendtag, buf, count, type,
                           source, recvtag, copy, request);
}

#define ISENDRECVS(SUFFIX, COUNT)                                                                \
    int MPI_Isendrecv##SUFFIX(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype,       \
                              int dest, int sendtag, void *recvbuf, COUNT recvcount,             \
                              MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,     \
                              MPI_Request *request) {                                            \
        OBSERVE_GIVEN(request, Isendrecv, comm,                                                                 \
                PMPI_Isendrecv##SUFFIX(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,     \
                                       recvcount, recvtype, source, recvtag, comm, request))     \
        return serve_isendrecv(&call, c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,   \
                               recvcount, recvtype, source, recvtag, NULL, request);             \
    }                                                                                            \
    int MPI_Isendrecv_replace##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int dest,       \
                                      int sendtag, int source, int recvtag, MPI_Comm comm,       \
                                      MPI_Request *request) {                                    \
        OBSERVE_GIVEN(request, Isendrecv_replace, comm,                                                         \
                PMPI_Isendrecv_replace##SUFFIX(buf, count, type, dest, sendtag, source, recvtag, \
                                               comm, request))                                   \
        return serve_isendrecv_replace(&call, c, buf, count, type, dest, sendtag, source,        \
                                       recvtag, request);                                        \
    }

ISENDRECVS(, int)
#if LARGE_COUNTS
ISENDRECVS(_c, MPI_Count)
#endif

#endif
