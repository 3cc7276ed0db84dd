/* The ring shift: every rank passes bytes to its right neighbour, all at once. */
#include "exchange.h"

#include <stddef.h>

enum { TRIPS };

static const struct ringside_setting SETTINGS[] = {
    {"trips", 0, 0, 1000000, "shifts in one repetition; 0: as many as fill 64 KiB, up to 100"},
    {NULL, 0, 0, 0, NULL},
};

static int nonblocking(struct exchange *e) {
    TRY(exchange_start(e));
    MPI_Request requests[] = {e->receive, e->send};
    const int code = MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    e->receive = requests[0];
    e->send = requests[1];
    return code;
}

static const struct variant VARIANTS[] = {
    {"sendrecv", exchange_sendrecv},
    {"nonblocking", nonblocking},
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

static int prepare(struct exchange *e) {
    exchange_around(e);
    e->trips = exchange_trips(e->settings[TRIPS], e->count);
    return MPI_SUCCESS;
}

static const char *variant(int index) { return exchange_variant(VARIANTS, VARIANT_COUNT, index); }

static int run(MPI_Comm comm, const char *name, int64_t bytes, const int64_t *settings,
               int repetitions, double *seconds, int64_t *wrong) {
    return exchange_run(&ringside_ringshift, VARIANTS, prepare, comm, name, bytes,
                        settings, repetitions, seconds, wrong);
}

const struct ringside_kernel ringside_ringshift = {
    .name = "ringshift",
    .unit = "bytes",
    .unit_bytes = 1,
    .usual = 1000,
    .most = 2147483647,
    .messages = 2,
    .least_ranks = 1,
    .settings = SETTINGS,
    .variant = variant,
    .run = run,
};
