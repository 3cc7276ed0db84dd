/* The ring shift: every rank passes bytes to its right neighbour, all at once. */
#include "scaffold.h"

#include <limits.h>

static int sendrecv(struct exchange *e) {
    return MPI_Sendrecv(e->outgoing, e->count, e->type, e->to, 0, e->incoming, e->count, e->type,
                        e->from, 0, e->comm, MPI_STATUS_IGNORE);
}

static int nonblocking(struct exchange *e) {
    TRY(MPI_Irecv(e->incoming, e->count, e->type, e->from, 0, e->comm, &e->requests[RECEIVE]));
    TRY(MPI_Isend(e->outgoing, e->count, e->type, e->to, 0, e->comm, &e->requests[SEND]));
    return MPI_Waitall(2, e->requests, MPI_STATUSES_IGNORE);
}

static const struct variant VARIANTS[] = {
    {.name = "sendrecv", .exchange = sendrecv},
    {.name = "nonblocking", .exchange = nonblocking},
    {.name = NULL},
};

enum { TRIPS };
static const struct ringside_setting SETTINGS[] = {
    {"trips", 0, 0, 1000000, "shifts in one repetition; 0: as many as fill 64 KiB, up to 100"},
    {NULL, 0, 0, 0, NULL},
};

static int prepare(struct exchange *e) {
    message_trips(e, e->settings[TRIPS]);
    return message_around(e);
}

const struct ringside_kernel ringside_ringshift = {
    .name = "ringshift",
    .unit = "bytes",
    .unit_bytes = 1,
    .default_count = 1000,
    .maximum_count = INT_MAX,
    .messages = 2,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &one_message,
    .prepare = prepare,
};
