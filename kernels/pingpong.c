/* Ping-pong: rank 0 and its partner throw one message to and fro. */
#include "scaffold.h"

#include <limits.h>

static int send(struct exchange *e) {
    return MPI_Send(e->outgoing, e->count, e->type, e->to, 0, e->comm);
}

static int blocking(struct exchange *e) {
    if (e->rank == 0)
        TRY(send(e));
    TRY(MPI_Recv(e->incoming, e->count, e->type, e->from, 0, e->comm, MPI_STATUS_IGNORE));
    return e->rank == 0 ? MPI_SUCCESS : send(e);
}

static int isend_wait(struct exchange *e) {
    TRY(MPI_Isend(e->outgoing, e->count, e->type, e->to, 0, e->comm, &e->requests[SEND]));
    return MPI_Wait(&e->requests[SEND], MPI_STATUS_IGNORE);
}

static int nonblocking(struct exchange *e) {
    if (e->rank == 0)
        TRY(isend_wait(e));
    TRY(MPI_Irecv(e->incoming, e->count, e->type, e->from, 0, e->comm, &e->requests[RECEIVE]));
    TRY(MPI_Wait(&e->requests[RECEIVE], MPI_STATUS_IGNORE));
    return e->rank == 0 ? MPI_SUCCESS : isend_wait(e);
}

static const struct variant VARIANTS[] = {
    {.name = "blocking", .exchange = blocking},
    {.name = "nonblocking", .exchange = nonblocking},
    {.name = NULL},
};

enum { PARTNER, TRIPS };
static const struct ringside_setting SETTINGS[] = {
    {"partner", 1, 1, INT_MAX, "the rank that rank 0 plays with"},
    {"trips", 0, 0, 1000000, "round trips in one repetition; 0: as many as fill 64 KiB, up to 100"},
    {NULL, 0, 0, 0, NULL},
};

static int prepare(struct exchange *e) {
    const int64_t partner = e->settings[PARTNER];
    if (partner >= e->size)
        return RINGSIDE_BAD_SETTING;
    message_trips(e, e->settings[TRIPS]);
    e->idle = e->rank != 0 && e->rank != partner;
    e->to = e->from = e->rank == 0 ? (int)partner : 0;
    return MPI_SUCCESS;
}

const struct ringside_kernel ringside_pingpong = {
    .name = "pingpong",
    .unit = "bytes",
    .unit_bytes = 1,
    .default_count = 1000,
    .maximum_count = INT_MAX,
    .messages = 2,
    .minimum_ranks = 2,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &one_message,
    .prepare = prepare,
};
