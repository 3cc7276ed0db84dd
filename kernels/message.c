/* One message out and one in, for the kernels in which a rank has no more: see scaffold.h. */
#include "scaffold.h"

#include <string.h>

enum { PERIOD = 1000, VALUES = 251, LAST = 1 }; /* VALUES: of a byte that content may have */

static const double POISON = -1.0; /* no message of doubles holds it, */
enum { POISON_BYTE = 255 };        /* and no message of bytes this */

/* A message's content repeats itself every PERIOD elements. */
struct pattern {
    size_t unit; /* bytes an element */
    union {
        double doubles[PERIOD];
        unsigned char bytes[PERIOD];
    } block;
};

static void describe(struct pattern *pattern, const struct exchange *e, int rank) {
    pattern->unit = (size_t)e->kernel->unit_bytes;
    for (int i = 0; i < PERIOD; i++)
        if (pattern->unit == 1)
            pattern->block.bytes[i] = (unsigned char)((rank * 37 + i) % VALUES);
        else
            pattern->block.doubles[i] = rank * 1000.0 + i;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void allocate(struct exchange *e) {
    const int64_t bytes = e->count * e->kernel->unit_bytes;
    e->outgoing = exchange_allocate(e, bytes);
    e->incoming = exchange_allocate(e, bytes);
    exchange_requests(e, 2, 1);
}

static void fill(struct exchange *e) {
    const size_t count = (size_t)e->count;
    struct pattern own;
    describe(&own, e, e->rank);
    for (size_t i = 0; i < count; i += PERIOD)
        memcpy((char *)e->outgoing + i * own.unit, &own.block,
               least(PERIOD, count - i) * own.unit);
}

static void poison(struct exchange *e) {
    double *incoming = e->incoming;
    if (e->type == MPI_BYTE)
        memset(incoming, POISON_BYTE, (size_t)e->count);
    else
        for (int i = 0; i < e->count; i++)
            incoming[i] = POISON;
}

/* The last message of a repetition differs from those before it, so that an old one in its place is
 * noticed. Only the last: each time the line it is written to has to come back from the core that
 * has just read it. */
static void stamp(struct exchange *e, int trip) {
    if (e->count > 0)
        *(unsigned char *)e->outgoing = trip == e->trips ? LAST : 0;
}

/* How many of the first `count` elements differ; the common case, none, is quick. */
static int64_t differing(const char *message, size_t count, const struct pattern *pattern) {
    const char *block = (const char *)&pattern->block;
    const size_t unit = pattern->unit;
    int64_t wrong = 0;
    if (memcmp(message, block, count * unit) == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        wrong += memcmp(message + i * unit, block + i * unit, unit) != 0;
    return wrong;
}

static int64_t verify(struct exchange *e) {
    const size_t count = (size_t)e->count;
    unsigned char *mark = e->incoming;
    int64_t wrong = 0;
    struct pattern expected;
    describe(&expected, e, e->from);
    if (e->untimed > 0 && count > 0) {
        wrong += *mark != LAST;
        *mark = expected.block.bytes[0]; /* it has been judged */
    }
    for (size_t i = 0; i < count; i += PERIOD)
        wrong += differing((const char *)e->incoming + i * expected.unit,
                           least(PERIOD, count - i), &expected);
    return wrong;
}

const struct content one_message = {
    .allocate = allocate,
    .fill = fill,
    .poison = poison,
    .stamp = stamp,
    .verify = verify,
};

int message_around(struct exchange *e) {
    e->to = (e->rank + 1) % e->size;
    e->from = (e->rank - 1 + e->size) % e->size;
    return MPI_SUCCESS;
}

void message_trips(struct exchange *e, int64_t wished) {
    exchange_trips(e, wished, e->count * e->kernel->unit_bytes, 65536, 100);
}
