/* The scaffold: see exchange.h. */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

enum { PERIOD = 1000, VALUES = 251, LAST = 1 }; /* VALUES: of a byte that content may have */

static const double POISON = -1.0; /* no message of doubles holds it, */
enum { POISON_BYTE = 255 };        /* and no message of bytes this */

/* A message's content repeats itself every PERIOD elements. */
struct content {
    int unit; /* bytes an element */
    union {
        double doubles[PERIOD];
        unsigned char bytes[PERIOD];
    } block;
};

static void describe(struct content *content, int unit, int rank) {
    content->unit = unit;
    for (int i = 0; i < PERIOD; i++)
        if (unit == 1)
            content->block.bytes[i] = (unsigned char)((rank * 37 + i) % VALUES);
        else
            content->block.doubles[i] = rank * 1000.0 + i;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void fill(void *message, int count, const struct content *content) {
    char *to = message;
    for (int64_t i = 0; i < count; i += PERIOD)
        memcpy(to + (size_t)i * (size_t)content->unit, &content->block,
               (size_t)(least(PERIOD, count - i) * content->unit));
}

static void poison(const struct exchange *e, int unit) {
    if (unit == 1) {
        memset(e->incoming, POISON_BYTE, (size_t)e->count);
        return;
    }
    double *incoming = e->incoming;
    for (int i = 0; i < e->count; i++)
        incoming[i] = POISON;
}

/* How many of the first `count` elements differ; the common case, none, is quick. */
static int64_t differing(const char *message, int64_t count, const struct content *content) {
    const char *block = (const char *)&content->block;
    const size_t unit = (size_t)content->unit;
    int64_t wrong = 0;
    if (memcmp(message, block, (size_t)count * unit) == 0)
        return 0;
    for (size_t i = 0; i < (size_t)count; i++)
        wrong += memcmp(message + i * unit, block + i * unit, unit) != 0;
    return wrong;
}

static int64_t count_wrong(const struct exchange *e, const struct content *expected) {
    int64_t wrong = 0;
    const char *message = e->incoming;
    for (int64_t i = 0; i < e->count; i += PERIOD)
        wrong += differing(message + (size_t)i * (size_t)expected->unit,
                           least(PERIOD, e->count - i), expected);
    return wrong;
}

/* One repetition of a kernel whose exchange is timed by itself. */
static int once(struct exchange *e, int (*exchange)(struct exchange *), double *seconds) {
    TRY(MPI_Barrier(e->comm));
    const double start = MPI_Wtime();
    TRY(exchange(e));
    *seconds = MPI_Wtime() - start;
    return MPI_SUCCESS;
}

/* Of one that is timed over several: the last message differs from those before it, so that an old
 * one in its place would be noticed. Only the last: each time the line it is written to has to come
 * back from the core that has just read it. The first exchange brings the ranks into step. */
static int several(struct exchange *e, int (*exchange)(struct exchange *), double *seconds) {
    unsigned char *mark = e->outgoing;
    double start = 0;
    TRY(MPI_Barrier(e->comm));
    if (e->idle)
        return MPI_SUCCESS;
    for (int trip = 0; trip <= e->trips; trip++) {
        if (trip == 1)
            start = MPI_Wtime();
        if (e->count > 0 && trip == 0)
            *mark = 0;
        if (e->count > 0 && trip == e->trips)
            *mark = LAST;
        TRY(exchange(e));
    }
    *seconds = (MPI_Wtime() - start) / e->trips;
    return MPI_SUCCESS;
}

/* Poison, exchange, verify. */
static int repeat(struct exchange *e, int (*exchange)(struct exchange *),
                  const struct content *expected, double *seconds, int64_t *wrong) {
    *seconds = 0;
    if (!e->idle)
        poison(e, expected->unit);
    TRY(e->trips > 0 ? several(e, exchange, seconds) : once(e, exchange, seconds));
    if (e->idle)
        return MPI_SUCCESS;
    if (e->trips > 0 && e->count > 0) {
        unsigned char *mark = e->incoming;
        *wrong += *mark != LAST;
        *mark = expected->block.bytes[0]; /* it has been judged */
    }
    *wrong += count_wrong(e, expected);
    return MPI_SUCCESS;
}

int exchange_run(const struct ringside_kernel *kernel, const struct variant *variants,
                 int (*prepare)(struct exchange *e), MPI_Comm comm, const char *variant,
                 int64_t count, const int64_t *settings, int repetitions, double *seconds,
                 int64_t *wrong) {
    struct exchange e = {.comm = comm, .send = MPI_REQUEST_NULL, .receive = MPI_REQUEST_NULL};
    TRY(MPI_Comm_rank(comm, &e.rank));
    TRY(MPI_Comm_size(comm, &e.size));
    *wrong = 0;

    const int chosen = ringside_find(kernel->variant, variant);
    const int unit = (int)kernel->unit_bytes;
    const int64_t bytes = count * kernel->unit_bytes; /* of one message */
    int64_t arguments[RINGSIDE_ARGUMENTS] = {chosen, count, repetitions};
    int64_t *const chosen_settings = &arguments[3];
    int code = ringside_read_settings(kernel->settings, settings, chosen_settings);
    if (chosen < 0) {
        code = RINGSIDE_UNKNOWN_VARIANT;
    } else if (count < 0 || count > kernel->most) {
        code = RINGSIDE_BAD_COUNT;
    } else if (repetitions < 1 || repetitions > RINGSIDE_MAX_REPETITIONS) {
        code = RINGSIDE_BAD_REPETITIONS;
    } else if (e.size < kernel->least_ranks) {
        code = RINGSIDE_BAD_RANKS;
    } else if (code == MPI_SUCCESS) {
        e.count = (int)count;
        e.type = unit == 1 ? MPI_BYTE : MPI_DOUBLE;
        e.settings = chosen_settings;
        code = prepare(&e);
    }
    if (code == MPI_SUCCESS && !e.idle) {
        e.outgoing = ringside_allocate(bytes);
        e.incoming = ringside_allocate(bytes);
        if (e.outgoing == NULL || e.incoming == NULL)
            code = RINGSIDE_NO_MEMORY;
    }
    if (code == MPI_SUCCESS && seconds == NULL)
        code = RINGSIDE_NO_MEMORY;
    code = ringside_agree(comm, code, e.idle ? 0 : 2 * bytes, arguments);

    struct content content;
    if (code == MPI_SUCCESS && !e.idle) {
        describe(&content, unit, e.rank);
        fill(e.outgoing, e.count, &content);
    }
    describe(&content, unit, e.from);
    for (int i = 0; i < repetitions && code == MPI_SUCCESS; i++)
        code = repeat(&e, variants[chosen].exchange, &content, &seconds[i], wrong);

    MPI_Request open[] = {e.receive, e.send};
    if (ringside_withdraw(open, 2, 1)) {
        free(e.outgoing);
        free(e.incoming);
    }
    if (code == MPI_SUCCESS && *wrong > 0)
        code = RINGSIDE_WRONG_DATA;
    return code;
}

const char *exchange_variant(const struct variant *variants, int n, int index) {
    return index >= 0 && index < n ? variants[index].name : NULL;
}

void exchange_around(struct exchange *e) {
    e->to = (e->rank + 1) % e->size;
    e->from = (e->rank - 1 + e->size) % e->size;
}

/* Neither call waits for the neighbour, so their order changes nothing; the receive stands first
 * so that no message arrives before it. */
int exchange_start(struct exchange *e) {
    TRY(MPI_Irecv(e->incoming, e->count, e->type, e->from, 0, e->comm, &e->receive));
    return MPI_Isend(e->outgoing, e->count, e->type, e->to, 0, e->comm, &e->send);
}

int exchange_sendrecv(struct exchange *e) {
    return MPI_Sendrecv(e->outgoing, e->count, e->type, e->to, 0, e->incoming, e->count, e->type,
                        e->from, 0, e->comm, MPI_STATUS_IGNORE);
}

int exchange_trips(int64_t wished, int64_t bytes) {
    enum { FULL = 65536, MOST = 100 };
    if (wished > 0)
        return (int)wished;
    if (bytes * MOST <= FULL)
        return MOST;
    return bytes >= FULL ? 1 : (int)(FULL / bytes);
}
