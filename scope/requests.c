/* The requests that are open, found by their handles. See scope.h. */
#include "scope.h"

#include <stdlib.h>
#include <string.h>

/* MPICH's handles are numbers in a row, whose places stay together: of 100,000 requests most of the
 * time would go into waiting for memory. Open MPI's are addresses. */
static size_t place_of(MPI_Request request, int room) {
    enum { TOGETHER = sizeof request == sizeof(int) ? 6 : 0 };
    uint64_t key = 0;
    memcpy(&key, &request, sizeof request < sizeof key ? sizeof request : sizeof key);
    const uint64_t within = key & ((1u << TOGETHER) - 1);
    const uint64_t group = (key >> TOGETHER) * 0x9E3779B97F4A7C15u;
    return (size_t)(group >> 32 << TOGETHER | within) & (size_t)(room - 1);
}

static bool grow(void) {
    const int room = scope.room_ops ? 2 * scope.room_ops : 64;
    struct op **bigger = calloc((size_t)room, sizeof *bigger);
    if (!bigger)
        return scope.room_ops > 0; /* slower, and right */
    for (int i = 0; i < scope.room_ops; i++) {
        for (struct op *op = scope.ops[i], *next; op; op = next) {
            next = op->next;
            struct op **head = &bigger[place_of(op->request, room)];
            op->next = *head;
            *head = op;
        }
    }
    free(scope.ops);
    scope.ops = bigger;
    scope.room_ops = room;
    return true;
}

/* For the network lens. */
void scope_op_posted(struct op *op) {
    op->generation = scope.generation;
    op->scheduled = false;
    op->completed = op->arrival = 0;
    if (op->kind != SEND) /* a send has its flight before it begins */
        op->flight = NULL;
    op->posted = scope.network ? scope_now() : 0;
}

/* NULL: no memory, and from here on nothing is judged. */
struct op *scope_op_add(int kind, MPI_Request request, struct comm *comm, int peer, int tag,
                        long long bytes) {
    struct op *op = scope.n_ops < scope.room_ops || grow() ? malloc(sizeof *op) : NULL;
    if (!op) {
        scope.blind = true;
        return NULL;
    }
    *op = (struct op){.request = request,
                      .comm = comm,
                      .kind = kind,
                      .peer = peer,
                      .tag = tag,
                      .bytes = bytes,
                      .serial = ++scope.serial,
                      .index = comm->entered,
                      .cell = scope.cell,
                      .origin = scope.origin,
                      .active = true};
    scope_op_posted(op);
    struct op **head = &scope.ops[place_of(request, scope.room_ops)];
    op->next = *head;
    *head = op;
    scope.n_ops++;
    return op;
}

struct op *scope_op_find(MPI_Request request) {
    if (request == MPI_REQUEST_NULL || scope.n_ops == 0)
        return NULL;
    struct op *op = scope.ops[place_of(request, scope.room_ops)];
    while (op && op->request != request)
        op = op->next;
    return op;
}

void scope_op_remove(struct op *op) {
    for (struct op **at = &scope.ops[place_of(op->request, scope.room_ops)]; *at;
         at = &(*at)->next) {
        if (*at == op) {
            *at = op->next;
            scope.n_ops--;
            scope_op_landed(op);
            scope_forget_lent(op);
            if (op->twin)
                scope_op_landed(op->twin);
            free(op->twin);
            if (!op->makes || op->peeked) /* else the library may still write to it */
                free(op->given);
            else
                scope.making--;
            free(op);
            return;
        }
    }
}

struct op *scope_first(void) {
    for (int i = 0; i < scope.room_ops; i++)
        if (scope.ops[i])
            return scope.ops[i];
    return NULL;
}

struct op *scope_next(const struct op *op) {
    if (op->next)
        return op->next;
    for (int i = (int)place_of(op->request, scope.room_ops) + 1; i < scope.room_ops; i++)
        if (scope.ops[i])
            return scope.ops[i];
    return NULL;
}

/* Gives the library back what the program freed while it was open. */
static void give_back(struct op *op) {
    MPI_Request request = op->request;
    scope.never_completed++;
    scope_op_remove(op);
    PMPI_Request_free(&request);
}

void scope_ops_of_comm(const struct comm *comm) {
    for (struct op *op = scope_first(), *next; op; op = next) {
        next = scope_next(op);
        if (op->comm != comm && op->under != comm)
            continue;
        if (op->freed)
            give_back(op);
        else
            scope_op_remove(op);
    }
}

/* The library says that this request is complete: a receive has its message. */
void scope_op_complete(struct op *op, const MPI_Status *status) {
    if (op->counted)
        return;
    op->counted = true;
    if (op->kind != RECV)
        return;
    int cancelled = 0;
    if (op->cancelled)
        PMPI_Test_cancelled(status, &cancelled);
    const int source = scope_peer(op->comm, status->MPI_SOURCE);
    if (!cancelled && source >= 0)
        scope_count(RECEIVED, op->comm->number, source, status->MPI_TAG, 1, op->number,
                    op->origin);
}

/* What was begun as one request is complete when all its parts are. */
static int peek_parts(struct op *op, int *done, MPI_Status *status) {
    *done = 1;
    for (int i = 0; i < 3; i++) {
        MPI_Status one;
        int complete = 1;
        if (op->part[i] == MPI_REQUEST_NULL)
            continue;
        one = scope_no_status();
        const int err = scope_heard(PMPI_Test(&op->part[i], &complete, &one));
        if (complete && i == 0)
            op->status = one;
        if (err)
            return err;
        *done = *done && complete;
    }
    *status = op->status;
    return MPI_SUCCESS;
}

/* The first status is kept, as MPICH forgets that of a persistent request: errata 3. */
int scope_peek(struct op *op, int *done, MPI_Status *status) {
    if (op->peeked) {
        *done = 1;
        *status = op->status;
        return op->failed;
    }
    *status = scope_no_status();
    const int err = op->makes         ? scope_peek_idup(op, done)
                    : op->generalized ? peek_parts(op, done, status)
                                      : scope_heard(
                                            PMPI_Request_get_status(op->request, done, status));
    if (*done && !(err && op->makes)) {
        op->peeked = true;
        op->status = *status;
        op->failed = err;
        if (op->generalized)
            PMPI_Grequest_complete(op->request);
    }
    return err;
}

/* The same for the scope itself: of a message that was cut off the program hears when it asks. */
int scope_look(struct op *op, int *done, MPI_Status *status) {
    const MPI_Comm comm = op->kind == RECV ? op->comm->handle : MPI_COMM_NULL;
    if (comm == MPI_COMM_NULL)
        return scope_peek(op, done, status);
    const MPI_Errhandler before = scope_mute(comm);
    const int err = scope_peek(op, done, status);
    scope_unmute(comm, before);
    return err;
}

/* Asks the library which open requests are complete, without taking them from their owner. */
void scope_refresh(void) {
    for (struct op *op = scope_first(), *next; op; op = next) {
        next = scope_next(op);
        int done = 0;
        MPI_Status status;
        if (op->active && !op->counted && !op->dead)
            scope_look(op, &done, &status); /* also one with an error has what it waited for */
        if (done) {
            scope_op_complete(op, &status);
            scope.epoch++;
        }
        if (op->freed && (op->counted || op->dead))
            give_back(op);
    }
}
