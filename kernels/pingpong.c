/* Ping-pong: rank 0 and its partner throw one message to and fro. */
#include "exchange.h"

#include <stddef.h>

enum { PARTNER, TRIPS };

static const struct ringside_setting SETTINGS[] = {
    {"partner", 1, 1, 2147483647, "the rank that rank 0 plays with"},
    {"trips", 0, 0, 1000000, "round trips in one repetition; 0: as many as fill 64 KiB, up to 100"},
    {NULL, 0, 0, 0, NULL},
};

static int blocking(struct exchange *e) {
    if (e->rank == 0)
        TRY(MPI_Send(e->outgoing, e->count, e->type, e->to, 0, e->comm));
    TRY(MPI_Recv(e->incoming, e->count, e->type, e->from, 0, e->comm, MPI_STATUS_IGNORE));
    if (e->rank != 0)
        TRY(MPI_Send(e->outgoing, e->count, e->type, e->to, 0, e->comm));
    return MPI_SUCCESS;
}

static int send(struct exchange *e) {
    TRY(MPI_Isend(e->outgoing, e->count, e->type, e->to, 0, e->comm, &e->send));
    return MPI_Wait(&e->send, MPI_STATUS_IGNORE);
}

static int nonblocking(struct exchange *e) {
    if (e->rank == 0)
        TRY(send(e));
    TRY(MPI_Irecv(e->incoming, e->count, e->type, e->from, 0, e->comm, &e->receive));
    TRY(MPI_Wait(&e->receive, MPI_STATUS_IGNORE));
    return e->rank == 0 ? MPI_SUCCESS : send(e);
}

static const struct variant VARIANTS[] = {{"blocking", blocking}, {"nonblocking", nonblocking}};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

static int prepare(struct exchange *e) {
    if (e->settings[PARTNER] >= e->size)
        return RINGSIDE_BAD_SETTING;
    const int partner = (int)e->settings[PARTNER];
    e->idle = e->rank != 0 && e->rank != partner;
    e->to = e->from = e->rank == 0 ? partner : 0;
    e->trips = exchange_trips(e->settings[TRIPS], e->count);
    return MPI_SUCCESS;
}

static const char *variant(int index) { return exchange_variant(VARIANTS, VARIANT_COUNT, index); }

static int run(MPI_Comm comm, const char *name, int64_t bytes, const int64_t *settings,
               int repetitions, double *seconds, int64_t *wrong) {
    return exchange_run(&ringside_pingpong, VARIANTS, prepare, comm, name, bytes,
                        settings, repetitions, seconds, wrong);
}

const struct ringside_kernel ringside_pingpong = {
    .name = "pingpong",
    .unit = "bytes",
    .unit_bytes = 1,
    .usual = 1000,
    .most = 2147483647,
    .messages = 2,
    .least_ranks = 2,
    .settings = SETTINGS,
    .variant = variant,
    .run = run,
};
