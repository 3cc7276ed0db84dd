/* The ring: every rank sends to its right neighbour and receives from its left one. */
#include "scaffold.h"

#include <limits.h>
#include <math.h>

static int send_right(struct exchange *e) {
    return MPI_Send(e->outgoing, e->count, e->type, e->to, 0, e->comm);
}

static int receive_left(struct exchange *e) {
    return MPI_Recv(e->incoming, e->count, e->type, e->from, 0, e->comm, MPI_STATUS_IGNORE);
}

/* ---- one after the other ---- */

static int blocking(struct exchange *e) {
    TRY(send_right(e));
    return receive_left(e);
}

static int ssend(struct exchange *e) {
    TRY(MPI_Ssend(e->outgoing, e->count, e->type, e->to, 0, e->comm));
    return receive_left(e);
}

static int sendrecv(struct exchange *e) {
    return MPI_Sendrecv(e->outgoing, e->count, e->type, e->to, 0, e->incoming, e->count, e->type,
                        e->from, 0, e->comm, MPI_STATUS_IGNORE);
}

/* In a ring of odd length the last rank and rank 0 are neighbours and both even; they send at the
 * same time, but rank 1 receives first, so the chain comes loose from there. */
static int parity(struct exchange *e) {
    if (e->size == 1)
        return sendrecv(e); /* alone there is nobody of the other parity */
    if (e->rank % 2 == 0)
        return blocking(e);
    TRY(receive_left(e));
    return send_right(e);
}

/* The last rank's receive frees the one before it, whose receive frees the one before that. */
static int chain(struct exchange *e) {
    if (e->size == 1)
        return sendrecv(e);
    if (e->rank < e->size - 1)
        return blocking(e);
    TRY(receive_left(e));
    return send_right(e);
}

/* ---- with work meanwhile ---- */

enum { STEPS, CHUNKS, EVERY, BETWEEN, WHOLE };
enum { AS_THE_VARIANT = -1, OPERATIONS_A_SINE = 20 };
static const struct ringside_setting SETTINGS[] = {
    {"steps", AS_THE_VARIANT, -1, 1000000000,
     "sines a chunk; -1: overlap 5000, separated_waits 1000"},
    {"chunks", 1000, 0, 1000000000, "most chunks of work while the message is under way"},
    {"every", AS_THE_VARIANT, -1, 1000000000,
     "Test after every n-th chunk, 0: never; -1: overlap 5, separated_waits 1"},
    {"between", 0, 0, 1000000000, "sines between the start of the receive and that of the send"},
    {"whole", 0, 0, 1, "1: do all chunks, even if the message is there before"},
    {NULL, 0, 0, 0, NULL},
};

/* Stands for the program's own computation. */
static double sines(int64_t steps) {
    double sum = 0.0;
    if (simulated_work((double)steps * OPERATIONS_A_SINE))
        return sum;
    for (int64_t i = 0; i < steps; i++)
        sum += sin((double)i * 0.1);
    return sum;
}

/* The receive stands first, so that no message arrives before it. */
static int start_both(struct exchange *e) {
    TRY(MPI_Irecv(e->incoming, e->count, e->type, e->from, 0, e->comm, &e->requests[RECEIVE]));
    e->work += sines(e->settings[BETWEEN]);
    return MPI_Isend(e->outgoing, e->count, e->type, e->to, 0, e->comm, &e->requests[SEND]);
}

/* The Test is no courtesy: many libraries move a long message only inside their own calls. */
static int work_meanwhile(struct exchange *e) {
    int arrived = 0;
    for (int64_t i = 1; i <= e->settings[CHUNKS] && (!arrived || e->settings[WHOLE]); i++) {
        e->work += sines(e->settings[STEPS]);
        if (!arrived && i % e->settings[EVERY] == 0)
            TRY(MPI_Test(&e->requests[RECEIVE], &arrived, MPI_STATUS_IGNORE));
    }
    return MPI_Wait(&e->requests[RECEIVE], MPI_STATUS_IGNORE);
}

static int overlap(struct exchange *e) {
    TRY(start_both(e));
    TRY(work_meanwhile(e));
    return MPI_Wait(&e->requests[SEND], MPI_STATUS_IGNORE);
}

static int separated_waits(struct exchange *e) {
    const double *incoming = e->incoming;
    TRY(start_both(e));
    TRY(work_meanwhile(e));
    for (int i = 0; i < e->count; i++)
        e->work += incoming[i] * 0.0001;
    return MPI_Wait(&e->requests[SEND], MPI_STATUS_IGNORE);
}

/* ---- the kernel ---- */

static const struct variant VARIANTS[] = {
    {.name = "blocking", .exchange = blocking},
    {.name = "parity", .exchange = parity},
    {.name = "overlap", .exchange = overlap},
    {.name = "separated_waits", .exchange = separated_waits},
    {.name = "sendrecv", .exchange = sendrecv},
    {.name = "ssend", .exchange = ssend},
    {.name = "chain", .exchange = chain},
    {.name = NULL},
};

static int prepare(struct exchange *e) {
    const int separated = e->variant->exchange == separated_waits;
    int64_t *const s = e->settings;
    if (s[STEPS] == AS_THE_VARIANT)
        s[STEPS] = separated ? 1000 : 5000;
    if (s[EVERY] == AS_THE_VARIANT)
        s[EVERY] = separated ? 1 : 5;
    if (s[EVERY] == 0)
        s[EVERY] = s[CHUNKS] + 1; /* never */
    return message_around(e);
}

/* MPI_Send takes its count as an int. 2^31 - 1 doubles are 16 GiB a message. */
const struct ringside_kernel ringside_ring = {
    .name = "ring",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .default_count = 1000,
    .maximum_count = INT_MAX,
    .messages = 2,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &one_message,
    .prepare = prepare,
};
