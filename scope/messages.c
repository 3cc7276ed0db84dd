/* Point-to-point calls, and waiting for them. See scope.h.
 *
 * A blocking call is its nonblocking form, one test, and, where that was not enough, a wait that
 * can be left. A send is counted when it starts, a receive when it is complete. */
#include "scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum how { STANDARD, SYNCHRONOUS, BUFFERED, READY };

#if LARGE_COUNTS
typedef MPI_Count count_t;
#define P(name) PMPI_##name##_c
#else
typedef int count_t;
#define P(name) PMPI_##name
#endif

static long long bytes_of(count_t count, MPI_Datatype type) {
    int size = 0;
    PMPI_Type_size(type, &size);
    return (long long)count * size;
}

static int world_rank(const struct comm *comm, int rank) {
    if (rank == MPI_ANY_SOURCE)
        return ANY_PEER;
    return rank >= 0 && rank < comm->size ? comm->world[rank] : NO_PEER;
}

/* Says what is wrong with a rank or a tag, in the program's terms: the library would speak of the
 * call that serves this one. */
static int check(const struct call *call, const struct comm *c, int peer, int tag, bool receives) {
    char text[MPI_MAX_ERROR_STRING];
    const char *name = scope_names[call->name], *way = receives ? "from" : "to";
    const bool any_peer = receives && peer == MPI_ANY_SOURCE;
    const bool any_tag = receives && tag == MPI_ANY_TAG;
    if (peer != MPI_PROC_NULL && !any_peer && (peer < 0 || peer >= c->size))
        snprintf(text, sizeof text,
                 "%s %s rank %d: no such rank, this communicator's ranks are 0 to %d", name, way,
                 peer, c->size - 1);
    else if (!any_tag && (tag < 0 || tag > scope.greatest_tag))
        snprintf(text, sizeof text, "%s %s rank %d with tag %d: tags are 0 to %d", name, way, peer,
                 tag, scope.greatest_tag);
    else
        return MPI_SUCCESS;
    PMPI_Add_error_string(scope.refused, text);
    return scope.refused;
}

static int label(int tag) { return tag == MPI_ANY_TAG ? ANY_LABEL : tag; }

static long long received_bytes(const MPI_Status *status, const struct op *op) {
    int n = MPI_UNDEFINED;
    PMPI_Get_count(status, MPI_BYTE, &n);
    return n == MPI_UNDEFINED && op ? op->bytes : n;
}

/* ---- waiting ---- */

/* One test of one request of the program's. When it completes, its message is counted and, unless
 * it is persistent, forgotten; `was` then tells of it for the event (serial 0: not one we know). */
static int test(MPI_Request *request, int *done, MPI_Status *status, struct op *was) {
    *was = (struct op){.peer = NO_PEER, .tag = ANY_LABEL, .kind = UNKNOWN};
    struct op *op = scope_op_find(*request);
    if (op && op->dead) {
        scope_op_remove(op);
        *request = MPI_REQUEST_NULL;
        *done = 1;
        return scope.code;
    }
    const int err = PMPI_Test(request, done, status);
    if (!*done && err == MPI_SUCCESS)
        return err;
    *done = 1;
    if (op && op->peeked)
        *status = op->status;
    if (op && op->active) {
        scope_op_complete(op, status);
        *was = *op;
        if (op->kind == RECV && status->MPI_SOURCE >= 0 && status->MPI_SOURCE < op->comm->size) {
            was->peer = op->comm->world[status->MPI_SOURCE];
            was->tag = status->MPI_TAG;
            was->bytes = received_bytes(status, op);
        }
    }
    if (op && op->persistent) {
        op->active = op->counted = op->cancelled = op->peeked = false;
    } else if (op) {
        scope_op_remove(op);
    }
    return err;
}

static void event_of(const struct call *call, const struct op *was) {
    scope_event(call, was->comm ? was->comm : WORLD, was->peer, was->tag, was->bytes, was->serial);
}

/* The scope's own request: when the call is left, it is complete or was cancelled (scope_world.c),
 * or it is a collective that was given up. */
int scope_wait(struct call *call, MPI_Request *request, MPI_Status *status) {
    struct op was;
    int done = 0, err;
    struct op *op = scope_op_find(*request);
    if (op)
        op->own = true;
    call->requests = request;
    call->n_requests = 1;
    for (;;) {
        err = test(request, &done, status, &was);
        if (done || err)
            break;
        err = scope_pause(call);
        if (err) {
            call->complete = test(request, &done, status, &was) == MPI_SUCCESS && done;
            break;
        }
    }
    call->n_requests = 0;
    return err;
}

/* ---- sends ---- */

static int start_send(const void *buf, count_t count, MPI_Datatype type, int dest, int tag,
                      MPI_Comm comm, enum how how, MPI_Request *request) {
    switch (how) {
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

static enum how lens(enum how how) {
    return how == STANDARD && atomic_load(&scope.insist) ? SYNCHRONOUS : how;
}

static int serve_send(struct call *call, struct comm *c, const void *buf, count_t count,
                      MPI_Datatype type, int dest, int tag, enum how how) {
    const int wrong = check(call, c, dest, tag, false);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    int err = start_send(buf, count, type, dest, tag, c->handle, lens(how), &request);
    if (err)
        return scope_end(call, c, err);
    const int peer = world_rank(c, dest);
    const long long bytes = bytes_of(count, type);
    err = PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (peer != NO_PEER)
        scope_count(SENT, c->number, peer, tag, 1);
    if (!done && !err) {
        MPI_Status status;
        scope_op_add(SEND, request, c, peer, tag, bytes);
        err = scope_wait(call, &request, &status);
    }
    scope_event(call, c, peer, tag, bytes, 0);
    return scope_end(call, c, err);
}

static int serve_isend(struct call *call, struct comm *c, const void *buf, count_t count,
                       MPI_Datatype type, int dest, int tag, enum how how, MPI_Request *request) {
    const int wrong = check(call, c, dest, tag, false);
    if (wrong)
        return scope_end(call, c, wrong);
    const int err = start_send(buf, count, type, dest, tag, c->handle, lens(how), request);
    if (err)
        return scope_end(call, c, err);
    const int peer = world_rank(c, dest);
    const long long bytes = bytes_of(count, type);
    long long serial = 0;
    if (peer != NO_PEER) {
        int done = 0;
        MPI_Status status;
        scope_count(SENT, c->number, peer, tag, 1);
        /* A send that is complete at once may share its handle with others: nothing to follow. */
        PMPI_Request_get_status(*request, &done, &status);
        const struct op *op = done ? NULL : scope_op_add(SEND, *request, c, peer, tag, bytes);
        serial = op ? op->serial : 0;
    }
    scope_event(call, c, peer, tag, bytes, serial);
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
        OBSERVE(name, scope_comm(comm), PMPI_##name##SUFFIX(buf, count, type, dest, tag, comm))  \
        return serve_send(&call, c, buf, count, type, dest, tag, how);                           \
    }

#define ISEND_CALLS(SUFFIX, COUNT, name, how)                                                    \
    int MPI_##name##SUFFIX(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag,   \
                           MPI_Comm comm, MPI_Request *request) {                                \
        OBSERVE(name, scope_comm(comm),                                                          \
                PMPI_##name##SUFFIX(buf, count, type, dest, tag, comm, request))                 \
        return serve_isend(&call, c, buf, count, type, dest, tag, how, request);                 \
    }

/* ---- receives ---- */

static int serve_irecv(struct call *call, struct comm *c, void *buf, count_t count,
                       MPI_Datatype type, int source, int tag, MPI_Request *request) {
    const int wrong = check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    const int err = P(Irecv)(buf, count, type, source, tag, c->handle, request);
    if (err)
        return scope_end(call, c, err);
    const int peer = world_rank(c, source);
    const long long bytes = bytes_of(count, type);
    const struct op *op =
        peer == NO_PEER ? NULL : scope_op_add(RECV, *request, c, peer, label(tag), bytes);
    scope_event(call, c, peer, label(tag), bytes, op ? op->serial : 0);
    return scope_end(call, c, MPI_SUCCESS);
}

static int serve_recv(struct call *call, struct comm *c, void *buf, count_t count,
                      MPI_Datatype type, int source, int tag, MPI_Status *status) {
    const int wrong = check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Status own;
    int done = 0;
    int err = P(Irecv)(buf, count, type, source, tag, c->handle, &request);
    if (err)
        return scope_end(call, c, err);
    int peer = world_rank(c, source);
    if (peer != NO_PEER && scope_op_add(RECV, request, c, peer, label(tag), bytes_of(count, type)))
        err = scope_wait(call, &request, &own);
    else
        err = PMPI_Test(&request, &done, &own);
    if (own.MPI_SOURCE >= 0 && own.MPI_SOURCE < c->size && !err)
        peer = c->world[own.MPI_SOURCE];
    scope_event(call, c, peer, err ? label(tag) : own.MPI_TAG,
                err ? bytes_of(count, type) : received_bytes(&own, NULL), 0);
    if (status != MPI_STATUS_IGNORE)
        *status = own;
    return scope_end(call, c, err);
}

#define RECEIVES(SUFFIX, COUNT)                                                                  \
    int MPI_Recv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int source, int tag,         \
                         MPI_Comm comm, MPI_Status *status) {                                    \
        OBSERVE(Recv, scope_comm(comm),                                                          \
                PMPI_Recv##SUFFIX(buf, count, type, source, tag, comm, status))                  \
        return serve_recv(&call, c, buf, count, type, source, tag, status);                      \
    }                                                                                            \
    int MPI_Irecv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int source, int tag,        \
                          MPI_Comm comm, MPI_Request *request) {                                 \
        OBSERVE(Irecv, scope_comm(comm),                                                         \
                PMPI_Irecv##SUFFIX(buf, count, type, source, tag, comm, request))                \
        return serve_irecv(&call, c, buf, count, type, source, tag, request);                    \
    }

/* ---- both at once ---- */

static int serve_sendrecv(struct call *call, struct comm *c, const void *sendbuf,
                          count_t sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                          void *recvbuf, count_t recvcount, MPI_Datatype recvtype, int source,
                          int recvtag, MPI_Status *status) {
    const int wrong_dest = check(call, c, dest, sendtag, false);
    const int wrong = wrong_dest ? wrong_dest : check(call, c, source, recvtag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    bool complete[2] = {false, false};
    int left = MPI_SUCCESS;
    int err = P(Irecv)(recvbuf, recvcount, recvtype, source, recvtag, c->handle, &requests[0]);
    if (err)
        return scope_end(call, c, err);
    const int from = world_rank(c, source);
    if (from != NO_PEER)
        scope_op_add(RECV, requests[0], c, from, label(recvtag), bytes_of(recvcount, recvtype));
    err = start_send(sendbuf, sendcount, sendtype, dest, sendtag, c->handle, lens(STANDARD),
                     &requests[1]);
    if (err) { /* nothing was sent, so nothing is to be received */
        PMPI_Cancel(&requests[0]);
        struct op *op = scope_op_find(requests[0]);
        if (op) {
            op->cancelled = true;
            scope_wait(call, &requests[0], &statuses[0]);
        }
        return scope_end(call, c, err);
    }
    const int to = world_rank(c, dest);
    if (to != NO_PEER) {
        int done = 0;
        scope_count(SENT, c->number, to, sendtag, 1);
        PMPI_Request_get_status(requests[1], &done, &statuses[1]);
        if (!done)
            scope_op_add(SEND, requests[1], c, to, sendtag, bytes_of(sendcount, sendtype));
    }
    for (int i = 0; i < 2; i++) {
        struct op *op = scope_op_find(requests[i]);
        if (op)
            op->own = true;
    }
    call->requests = requests;
    call->n_requests = 2;
    struct op was[2];
    for (;;) {
        for (int i = 0; i < 2; i++) {
            int done = 0;
            if (complete[i])
                continue;
            const int failed = test(&requests[i], &done, &statuses[i], &was[i]);
            complete[i] = done;
            err = err ? err : failed;
        }
        if ((complete[0] && complete[1]) || left)
            break;
        left = scope_pause(call);
    }
    const long long number = ++scope.serial; /* one call, two messages: one request number */
    scope_event(call, c, to, sendtag, bytes_of(sendcount, sendtype), number);
    scope_event(call, c, was[0].peer == NO_PEER ? from : was[0].peer, was[0].tag, was[0].bytes,
                -number);
    if (status != MPI_STATUS_IGNORE)
        *status = statuses[0];
    return scope_end(call, c, left ? left : err);
}

static int serve_sendrecv_replace(struct call *call, struct comm *c, void *buf, count_t count,
                                  MPI_Datatype type, int dest, int sendtag, int source,
                                  int recvtag, MPI_Status *status) {
#if LARGE_COUNTS
    MPI_Count room = 0, used = 0;
#else
    int room = 0, used = 0;
#endif
    int err = P(Pack_size)(count, type, c->handle, &room);
    void *copy = err ? NULL : malloc((size_t)room + 1);
    if (!err && !copy)
        err = MPI_ERR_NO_MEM;
    if (!err)
        err = P(Pack)(buf, count, type, copy, room, &used, c->handle);
    if (err) {
        free(copy);
        return scope_end(call, c, err);
    }
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
        OBSERVE(Sendrecv, scope_comm(comm),                                                      \
                PMPI_Sendrecv##SUFFIX(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,      \
                                      recvcount, recvtype, source, recvtag, comm, status))       \
        return serve_sendrecv(&call, c, sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,    \
                              recvcount, recvtype, source, recvtag, status);                     \
    }                                                                                            \
    int MPI_Sendrecv_replace##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int dest,        \
                                     int sendtag, int source, int recvtag, MPI_Comm comm,        \
                                     MPI_Status *status) {                                       \
        OBSERVE(Sendrecv_replace, scope_comm(comm),                                              \
                PMPI_Sendrecv_replace##SUFFIX(buf, count, type, dest, sendtag, source, recvtag,  \
                                              comm, status))                                     \
        return serve_sendrecv_replace(&call, c, buf, count, type, dest, sendtag, source,         \
                                      recvtag, status);                                          \
    }

/* ---- persistent requests ---- */

static int serve_init(struct call *call, struct comm *c, int err, int kind,
                      const MPI_Request *request, count_t count, MPI_Datatype type, int peer,
                      int tag) {
    if (err)
        return scope_end(call, c, err);
    const int to = world_rank(c, peer);
    struct op *op = to == NO_PEER
                        ? NULL
                        : scope_op_add(kind, *request, c, to, label(tag), bytes_of(count, type));
    if (op) {
        op->persistent = true;
        op->active = false;
    }
    scope_event(call, c, to, label(tag), bytes_of(count, type), op ? op->serial : 0);
    return scope_end(call, c, MPI_SUCCESS);
}

#define INITS(SUFFIX, COUNT)                                                                     \
    SEND_INIT(SUFFIX, COUNT, Send_init, atomic_load(&scope.insist))                              \
    SEND_INIT(SUFFIX, COUNT, Ssend_init, false)                                                  \
    SEND_INIT(SUFFIX, COUNT, Bsend_init, false)                                                  \
    SEND_INIT(SUFFIX, COUNT, Rsend_init, false)                                                  \
    int MPI_Recv_init##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int source, int tag,    \
                              MPI_Comm comm, MPI_Request *request) {                             \
        OBSERVE(Recv_init, scope_comm(comm),                                                     \
                PMPI_Recv_init##SUFFIX(buf, count, type, source, tag, comm, request))            \
        const int err = PMPI_Recv_init##SUFFIX(buf, count, type, source, tag, comm, request);    \
        return serve_init(&call, c, err, RECV, request, count, type, source, tag);               \
    }

#define SEND_INIT(SUFFIX, COUNT, name, synchronous)                                              \
    int MPI_##name##SUFFIX(const void *buf, COUNT count, MPI_Datatype type, int dest, int tag,   \
                           MPI_Comm comm, MPI_Request *request) {                                \
        OBSERVE(name, scope_comm(comm),                                                          \
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

static void started(struct op *op) {
    if (!op)
        return;
    op->active = true;
    op->counted = op->cancelled = op->peeked = false;
    if (op->kind == SEND)
        scope_count(SENT, op->comm->number, op->peer, op->tag, 1);
}

int MPI_Start(MPI_Request *request) {
    OBSERVE(Start, WORLD, PMPI_Start(request))
    struct op *op = scope_op_find(*request);
    const int err = PMPI_Start(request);
    if (!err)
        started(op);
    scope_event(&call, op ? op->comm : WORLD, op ? op->peer : NO_PEER, op ? op->tag : ANY_LABEL,
                op ? op->bytes : 0, op ? op->serial : 0);
    return scope_end(&call, op ? op->comm : WORLD, err);
}

int MPI_Startall(int count, MPI_Request requests[]) {
    OBSERVE(Startall, WORLD, PMPI_Startall(count, requests))
    const int err = PMPI_Startall(count, requests);
    for (int i = 0; i < count && !err; i++) {
        struct op *op = scope_op_find(requests[i]);
        started(op);
        if (op)
            scope_event(&call, op->comm, op->peer, op->tag, op->bytes, op->serial);
    }
    return scope_end(&call, WORLD, err);
}

int MPI_Request_free(MPI_Request *request) {
    OBSERVE(Request_free, WORLD, PMPI_Request_free(request))
    struct op *op = scope_op_find(*request);
    /* A receive that is freed while open will never be seen to complete; one that was cancelled
     * or has its message is not open. */
    MPI_Status status;
    int done = 0;
    if (op && op->active && !op->counted && !op->dead && scope_peek(op, &done, &status) == 0 && done)
        scope_op_complete(op, &status);
    if (op && op->active && !op->counted && op->kind == RECV)
        scope.overflow = true;
    if (op)
        scope_op_remove(op);
    return scope_end(&call, WORLD, PMPI_Request_free(request));
}

int MPI_Cancel(MPI_Request *request) {
    OBSERVE(Cancel, WORLD, PMPI_Cancel(request))
    struct op *op = scope_op_find(*request);
    if (op)
        op->cancelled = true;
    return scope_end(&call, WORLD, PMPI_Cancel(request));
}

/* ---- probes ---- */

static struct record probe_of(const struct comm *c, int source, int tag) {
    return (struct record){.kind = PROBE,
                           .comm = c->number,
                           .peer = world_rank(c, source),
                           .tag = label(tag)};
}

/* A matched probe took this message; its receive, which names no peer, comes next as a rule. */
static void matched(struct comm *c, MPI_Message message, int peer, int tag) {
    scope_count(RECEIVED, c->number, peer, tag, 1);
    scope.message = message;
    scope.message_comm = c;
    scope.message_peer = peer;
}

/* message NULL: a probe that leaves the message in its queue */
static int serve_probe(struct call *call, struct comm *c, int source, int tag,
                       MPI_Message *message, MPI_Status *status) {
    const int wrong = check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    const struct record probe = probe_of(c, source, tag);
    MPI_Status own;
    int found = 0, err;
    call->probe = &probe;
    for (;;) {
        err = message ? PMPI_Improbe(source, tag, c->handle, &found, message, &own)
                      : PMPI_Iprobe(source, tag, c->handle, &found, &own);
        if (found || err)
            break;
        err = scope_pause(call);
        if (err)
            break;
    }
    int peer = probe.peer;
    if (!err && own.MPI_SOURCE >= 0) {
        peer = c->world[own.MPI_SOURCE];
        if (message)
            matched(c, *message, peer, own.MPI_TAG);
    }
    scope_event(call, c, peer, err ? probe.tag : own.MPI_TAG, err ? 0 : received_bytes(&own, NULL),
                0);
    if (status != MPI_STATUS_IGNORE)
        *status = own;
    return scope_end(call, c, err);
}

static int serve_iprobe(struct call *call, struct comm *c, int source, int tag, int *found,
                        MPI_Message *message, MPI_Status *status) {
    const int wrong = check(call, c, source, tag, true);
    if (wrong)
        return scope_end(call, c, wrong);
    MPI_Status own;
    const int err = message ? PMPI_Improbe(source, tag, c->handle, found, message, &own)
                            : PMPI_Iprobe(source, tag, c->handle, found, &own);
    if (err)
        return scope_end(call, c, err);
    const struct record probe = probe_of(c, source, tag);
    call->probe = &probe;
    scope_tested(call, *found);
    if (*found) {
        const int peer = own.MPI_SOURCE >= 0 ? c->world[own.MPI_SOURCE] : NO_PEER;
        if (message && peer != NO_PEER)
            matched(c, *message, peer, own.MPI_TAG);
        scope_event(call, c, peer, own.MPI_TAG, received_bytes(&own, NULL), 0);
        if (status != MPI_STATUS_IGNORE)
            *status = own;
    }
    return scope_end(call, c, err);
}

int MPI_Probe(int source, int tag, MPI_Comm comm, MPI_Status *status) {
    OBSERVE(Probe, scope_comm(comm), PMPI_Probe(source, tag, comm, status))
    return serve_probe(&call, c, source, tag, NULL, status);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    OBSERVE(Mprobe, scope_comm(comm), PMPI_Mprobe(source, tag, comm, message, status))
    return serve_probe(&call, c, source, tag, message, status);
}

int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    OBSERVE(Iprobe, scope_comm(comm), PMPI_Iprobe(source, tag, comm, flag, status))
    return serve_iprobe(&call, c, source, tag, flag, NULL, status);
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
    OBSERVE(Improbe, scope_comm(comm), PMPI_Improbe(source, tag, comm, flag, message, status))
    return serve_iprobe(&call, c, source, tag, flag, message, status);
}

/* ---- waits ---- */

static void copy_status(MPI_Status *to, const MPI_Status *from) {
    if (to != MPI_STATUS_IGNORE)
        *to = *from;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    OBSERVE(Wait, WORLD, PMPI_Wait(request, status))
    struct op was;
    MPI_Status own;
    int done = 0, err;
    call.requests = request;
    call.n_requests = 1;
    for (;;) {
        err = test(request, &done, &own, &was);
        if (done || err)
            break;
        err = scope_pause(&call);
        if (err)
            break;
    }
    event_of(&call, &was);
    if (done)
        copy_status(status, &own);
    return scope_end(&call, was.comm ? was.comm : WORLD, err);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    OBSERVE(Test, WORLD, PMPI_Test(request, flag, status))
    struct op was;
    MPI_Status own;
    *flag = 0;
    const int err = test(request, flag, &own, &was);
    call.requests = request;
    call.n_requests = 1;
    scope_tested(&call, *flag);
    if (*flag) {
        event_of(&call, &was);
        copy_status(status, &own);
    }
    return scope_end(&call, was.comm ? was.comm : WORLD, err);
}

/* Is request i one that a call on many has to look at: neither null nor persistent and idle? */
static bool is_open(MPI_Request request) {
    if (request == MPI_REQUEST_NULL)
        return false;
    const struct op *op = scope_op_find(request);
    return !op || op->active;
}

static int status_error(int *err, MPI_Status statuses[], int i, int failed) {
    if (statuses != MPI_STATUSES_IGNORE)
        statuses[i].MPI_ERROR = failed;
    if (failed && *err != scope.code)
        *err = failed == scope.code ? failed : MPI_ERR_IN_STATUS;
    return *err;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    OBSERVE(Waitall, WORLD, PMPI_Waitall(count, requests, statuses))
    if (count < 0) /* the library says what is wrong */
        return scope_end(&call, WORLD, PMPI_Waitall(count, requests, statuses));
    bool few[64] = {false};
    bool *complete = count <= 64 ? few : calloc((size_t)count, sizeof *complete);
    if (!complete)
        return scope_end(&call, WORLD, MPI_ERR_NO_MEM);
    call.requests = requests;
    call.n_requests = count;
    int err = MPI_SUCCESS, left = MPI_SUCCESS, open = count, told = 0;
    for (;;) {
        for (int i = 0; i < count; i++) {
            struct op was;
            MPI_Status own;
            int done = 0;
            if (complete[i])
                continue;
            const int failed = test(&requests[i], &done, &own, &was);
            if (!done)
                continue;
            complete[i] = true;
            open--;
            if (statuses != MPI_STATUSES_IGNORE)
                statuses[i] = own;
            status_error(&err, statuses, i, failed);
            if (was.serial) {
                event_of(&call, &was);
                told++;
            }
        }
        if (open == 0 || left || err == scope.code)
            break;
        left = scope_pause(&call);
    }
    if (!told)
        scope_event(&call, WORLD, NO_PEER, ANY_LABEL, 0, 0);
    if (complete != few)
        free(complete);
    return scope_end(&call, WORLD, left ? left : err);
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    OBSERVE(Testall, WORLD, PMPI_Testall(count, requests, flag, statuses))
    int err = MPI_SUCCESS;
    *flag = 1;
    for (int i = 0; i < count && *flag; i++) {
        MPI_Status own;
        struct op *op = scope_op_find(requests[i]);
        if (is_open(requests[i]) && !(op && op->dead))
            err = op ? scope_peek(op, flag, &own)
                     : PMPI_Request_get_status(requests[i], flag, &own);
        if (err)
            return scope_end(&call, WORLD, err);
    }
    call.requests = requests;
    call.n_requests = count;
    scope_tested(&call, *flag);
    for (int i = 0; i < count && *flag; i++) {
        struct op was;
        MPI_Status own;
        int done = 0;
        const int failed = test(&requests[i], &done, &own, &was);
        if (statuses != MPI_STATUSES_IGNORE)
            statuses[i] = own;
        status_error(&err, statuses, i, failed);
        event_of(&call, &was);
    }
    return scope_end(&call, WORLD, err);
}

/* One pass over the requests: completes the first that is ready. *index: MPI_UNDEFINED if none is
 * open, else untouched unless *done. */
static int test_any(struct call *call, int count, MPI_Request requests[], int *index, int *done,
                    MPI_Status *status) {
    bool any = false;
    *done = 0;
    for (int i = 0; i < count; i++) {
        struct op was;
        MPI_Status own;
        if (!is_open(requests[i]))
            continue;
        any = true;
        const int err = test(&requests[i], done, &own, &was);
        if (*done) {
            *index = i;
            event_of(call, &was);
            copy_status(status, &own);
            return err;
        }
    }
    if (!any) {
        MPI_Request none = MPI_REQUEST_NULL;
        *index = MPI_UNDEFINED;
        return PMPI_Test(&none, done, status); /* for its empty status */
    }
    return MPI_SUCCESS;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    OBSERVE(Waitany, WORLD, PMPI_Waitany(count, requests, index, status))
    int done = 0, err;
    call.requests = requests;
    call.n_requests = count;
    call.mode = ANY;
    for (;;) {
        err = test_any(&call, count, requests, index, &done, status);
        if (done || err)
            break;
        err = scope_pause(&call);
        if (err) {
            *index = MPI_UNDEFINED;
            scope_event(&call, WORLD, NO_PEER, ANY_LABEL, 0, 0);
            break;
        }
    }
    return scope_end(&call, WORLD, err);
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    OBSERVE(Testany, WORLD, PMPI_Testany(count, requests, index, flag, status))
    *index = MPI_UNDEFINED;
    const int err = test_any(&call, count, requests, index, flag, status);
    call.requests = requests;
    call.n_requests = count;
    scope_tested(&call, *flag);
    return scope_end(&call, WORLD, err);
}

/* One pass: completes all that are ready. */
static int test_some(struct call *call, int count, MPI_Request requests[], int *ready,
                     int indices[], MPI_Status statuses[]) {
    bool any = false;
    int err = MPI_SUCCESS;
    *ready = 0;
    for (int i = 0; i < count; i++) {
        struct op was;
        MPI_Status own;
        int done = 0;
        if (!is_open(requests[i]))
            continue;
        any = true;
        const int failed = test(&requests[i], &done, &own, &was);
        if (!done)
            continue;
        indices[*ready] = i;
        if (statuses != MPI_STATUSES_IGNORE)
            statuses[*ready] = own;
        status_error(&err, statuses, *ready, failed);
        event_of(call, &was);
        ++*ready;
    }
    if (!any)
        *ready = MPI_UNDEFINED;
    return err;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *ready, int indices[],
                 MPI_Status statuses[]) {
    OBSERVE(Waitsome, WORLD, PMPI_Waitsome(count, requests, ready, indices, statuses))
    int err;
    call.requests = requests;
    call.n_requests = count;
    call.mode = ANY;
    for (;;) {
        err = test_some(&call, count, requests, ready, indices, statuses);
        if (*ready != 0 || err)
            break;
        err = scope_pause(&call);
        if (err) {
            scope_event(&call, WORLD, NO_PEER, ANY_LABEL, 0, 0);
            break;
        }
    }
    return scope_end(&call, WORLD, err);
}

int MPI_Testsome(int count, MPI_Request requests[], int *ready, int indices[],
                 MPI_Status statuses[]) {
    OBSERVE(Testsome, WORLD, PMPI_Testsome(count, requests, ready, indices, statuses))
    const int err = test_some(&call, count, requests, ready, indices, statuses);
    call.requests = requests;
    call.n_requests = count;
    scope_tested(&call, *ready != 0);
    return scope_end(&call, WORLD, err);
}

/* ---- messages taken by a matched probe: on their way, so nobody is ever stuck in these ---- */

/* A receive of such a message: for the drain to wait for, as it fills the program's buffer. */
static struct op *under_way(MPI_Request request, struct comm *c) {
    int done = 0;
    MPI_Status status;
    PMPI_Request_get_status(request, &done, &status);
    return done ? NULL : scope_op_add(UNKNOWN, request, c, NO_PEER, ANY_LABEL, 0);
}

#define MRECVS(SUFFIX, COUNT)                                                                    \
    int MPI_Mrecv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message,       \
                          MPI_Status *status) {                                                  \
        OBSERVE(Mrecv, WORLD, PMPI_Mrecv##SUFFIX(buf, count, type, message, status))             \
        const bool known = scope.message_comm && *message == scope.message;                      \
        c = known ? scope.message_comm : WORLD;                                                  \
        MPI_Request request = MPI_REQUEST_NULL;                                                  \
        MPI_Status own;                                                                          \
        int err = PMPI_Imrecv##SUFFIX(buf, count, type, message, &request);                      \
        if (!err) {                                                                              \
            under_way(request, c);                                                               \
            err = scope_wait(&call, &request, &own);                                             \
        }                                                                                        \
        if (!err) {                                                                              \
            scope_event(&call, c, known ? scope.message_peer : NO_PEER, own.MPI_TAG,             \
                        received_bytes(&own, NULL), 0);                                          \
            copy_status(status, &own);                                                           \
        }                                                                                        \
        return scope_end(&call, c, err);                                                         \
    }                                                                                            \
    int MPI_Imrecv##SUFFIX(void *buf, COUNT count, MPI_Datatype type, MPI_Message *message,      \
                           MPI_Request *request) {                                               \
        OBSERVE(Imrecv, WORLD, PMPI_Imrecv##SUFFIX(buf, count, type, message, request))          \
        const int err = PMPI_Imrecv##SUFFIX(buf, count, type, message, request);                 \
        const struct op *op = err ? NULL : under_way(*request, WORLD);                           \
        scope_event(&call, WORLD, NO_PEER, ANY_LABEL, 0, op ? op->serial : 0);                   \
        return scope_end(&call, WORLD, err);                                                     \
    }

MRECVS(, int)
#if LARGE_COUNTS
MRECVS(_c, MPI_Count)
#endif

/* ---- calls that are not followed ---- */

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
    scope_unseen(false);
    return PMPI_Request_get_status(request, flag, status);
}

/* Their messages are in no count. */
#define UNSEEN(SUFFIX, COUNT)                                                                    \
    int MPI_Isendrecv##SUFFIX(const void *sendbuf, COUNT sendcount, MPI_Datatype sendtype,       \
                              int dest, int sendtag, void *recvbuf, COUNT recvcount,             \
                              MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,     \
                              MPI_Request *request) {                                            \
        scope_unseen(true);                                                                      \
        return PMPI_Isendrecv##SUFFIX(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf,      \
                                      recvcount, recvtype, source, recvtag, comm, request);      \
    }                                                                                            \
    int MPI_Isendrecv_replace##SUFFIX(void *buf, COUNT count, MPI_Datatype type, int dest,       \
                                      int sendtag, int source, int recvtag, MPI_Comm comm,       \
                                      MPI_Request *request) {                                    \
        scope_unseen(true);                                                                      \
        return PMPI_Isendrecv_replace##SUFFIX(buf, count, type, dest, sendtag, source, recvtag,  \
                                              comm, request);                                    \
    }

#if LARGE_COUNTS || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
UNSEEN(, int)
#endif
#if LARGE_COUNTS
UNSEEN(_c, MPI_Count)
#endif
