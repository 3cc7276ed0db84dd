/* The ring: every rank sends to its right neighbour and receives from its left one. The variants
 * differ in one function each; buffers, timing and verification are exchange.c's. */
#include "exchange.h"

#include <math.h>
#include <stddef.h>

/* In the order of SETTINGS. */
enum { STEPS, CHUNKS, EVERY, BETWEEN, WHOLE };
enum { AS_THE_VARIANT = -1 };

static const struct ringside_setting SETTINGS[] = {
    {"steps", AS_THE_VARIANT, -1, 1000000000, "sines a chunk; -1: overlap 5000, separated_waits 1000"},
    {"chunks", 1000, 0, 1000000000, "most chunks of work while the message is under way"},
    {"every", AS_THE_VARIANT, -1, 1000000000,
     "Test after every n-th chunk, 0: never; -1: overlap 5, separated_waits 1"},
    {"between", 0, 0, 1000000000, "sines between the start of the receive and that of the send"},
    {"whole", 0, 0, 1, "1: do all chunks, even if the message is there before"},
    {NULL, 0, 0, 0, NULL},
};

static int send_right(const struct exchange *e) {
    return MPI_Send(e->outgoing, e->count, e->type, e->to, 0, e->comm);
}

static int receive_left(const struct exchange *e) {
    return MPI_Recv(e->incoming, e->count, e->type, e->from, 0, e->comm, MPI_STATUS_IGNORE);
}

/* ---- the variants ---- */

static int blocking(struct exchange *e) {
    TRY(send_right(e));
    return receive_left(e);
}

static int ssend(struct exchange *e) {
    TRY(MPI_Ssend(e->outgoing, e->count, e->type, e->to, 0, e->comm));
    return receive_left(e);
}

/* In a ring of odd length the last rank and rank 0 are neighbours and both even; they send at the
 * same time, but rank 1 receives first, so the chain comes loose from there. */
static int parity(struct exchange *e) {
    if (e->size == 1)
        return exchange_sendrecv(e); /* alone there is nobody of the other parity */
    if (e->rank % 2 == 0) {
        TRY(send_right(e));
        return receive_left(e);
    }
    TRY(receive_left(e));
    return send_right(e);
}

/* The last rank's receive frees the one before it, whose receive frees the one before that. */
static int chain(struct exchange *e) {
    if (e->size == 1)
        return exchange_sendrecv(e);
    if (e->rank < e->size - 1)
        return blocking(e);
    TRY(receive_left(e));
    return send_right(e);
}

/* Stands for the program's own computation. */
static double compute(int64_t steps, double scale) {
    double sum = 0.0;
    for (int64_t i = 0; i < steps; i++)
        sum += sin((double)i * scale);
    return sum;
}

/* Irecv and Isend, with work between them where the settings ask for it. */
static int start_both(struct exchange *e) {
    if (e->settings[BETWEEN] == 0)
        return exchange_start(e);
    TRY(MPI_Irecv(e->incoming, e->count, e->type, e->from, 0, e->comm, &e->receive));
    e->work += compute(e->settings[BETWEEN], 0.01);
    return MPI_Isend(e->outgoing, e->count, e->type, e->to, 0, e->comm, &e->send);
}

static int64_t setting(const struct exchange *e, int index, int64_t of_variant) {
    return e->settings[index] == AS_THE_VARIANT ? of_variant : e->settings[index];
}

/* Work until the message is there, or for all chunks. The Test is no courtesy: many libraries move
 * a long message only inside their own calls. */
static int work_meanwhile(struct exchange *e, int64_t steps, double scale, int64_t every) {
    int arrived = 0;
    for (int64_t chunk = 1; chunk <= e->settings[CHUNKS]; chunk++) {
        e->work += compute(steps, scale);
        if (!arrived && every > 0 && chunk % every == 0)
            TRY(MPI_Test(&e->receive, &arrived, MPI_STATUS_IGNORE));
        if (arrived && !e->settings[WHOLE])
            break;
    }
    return MPI_Wait(&e->receive, MPI_STATUS_IGNORE);
}

static int overlap(struct exchange *e) {
    TRY(start_both(e));
    TRY(work_meanwhile(e, setting(e, STEPS, 5000), 0.01, setting(e, EVERY, 5)));
    return MPI_Wait(&e->send, MPI_STATUS_IGNORE);
}

static int separated_waits(struct exchange *e) {
    const double *incoming = e->incoming;
    TRY(start_both(e));
    TRY(work_meanwhile(e, setting(e, STEPS, 1000), 0.1, setting(e, EVERY, 1)));
    for (int i = 0; i < e->count; i++)
        e->work += incoming[i] * 0.0001;
    return MPI_Wait(&e->send, MPI_STATUS_IGNORE);
}

static const struct variant VARIANTS[] = {
    {"blocking", blocking},
    {"parity", parity},
    {"overlap", overlap},
    {"separated_waits", separated_waits},
    {"sendrecv", exchange_sendrecv},
    {"ssend", ssend},
    {"chain", chain},
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

/* ---- the kernel ---- */

static int prepare(struct exchange *e) {
    exchange_around(e);
    return MPI_SUCCESS;
}

static const char *variant(int index) { return exchange_variant(VARIANTS, VARIANT_COUNT, index); }

static int run(MPI_Comm comm, const char *name, int64_t doubles, const int64_t *settings,
               int repetitions, double *seconds, int64_t *wrong) {
    return exchange_run(&ringside_ring, VARIANTS, prepare, comm, name, doubles,
                        settings, repetitions, seconds, wrong);
}

/* MPI_Send takes its count as an int. 2^31 - 1 doubles are 16 GiB a message. */
const struct ringside_kernel ringside_ring = {
    .name = "ring",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .usual = 1000,
    .most = 2147483647,
    .messages = 2,
    .least_ranks = 1,
    .settings = SETTINGS,
    .variant = variant,
    .run = run,
};
