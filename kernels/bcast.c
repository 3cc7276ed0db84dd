/* The broadcast: the root's vector reaches every rank. Ranks are counted from the root, which has
 * place 0; rank root + 1 has place 1, and so on around. */
#include "scaffold.h"

#include <limits.h>

enum { ROOT, PIECE };
static const struct ringside_setting SETTINGS[] = {
    {"root", 0, 0, INT_MAX, "the rank whose vector is sent to all"},
    {"piece", 8192, 1, INT_MAX, "doubles in a piece of the chain"},
    {NULL, 0, 0, 0, NULL},
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int place(const struct exchange *e) {
    return (int)((e->rank - e->settings[ROOT] + e->size) % e->size);
}

static int rank_at(const struct exchange *e, int place) {
    return (int)((e->settings[ROOT] + place) % e->size);
}

static int send_part(struct exchange *e, int start, int end, int to) {
    return MPI_Send((double *)e->incoming + start, end - start, e->type, rank_at(e, to), 0,
                    e->comm);
}

static int receive_part(struct exchange *e, int start, int end, int from) {
    return MPI_Recv((double *)e->incoming + start, end - start, e->type, rank_at(e, from), 0,
                    e->comm, MPI_STATUS_IGNORE);
}

/* ---- the whole vector in each message ---- */

static int linear(struct exchange *e) {
    if (place(e) > 0)
        return receive_part(e, 0, e->count, 0);
    for (int to = 1; to < e->size; to++)
        TRY(send_part(e, 0, e->count, to));
    return MPI_SUCCESS;
}

/* The places below `have` hold the vector. In each round each of them sends it `have` places on. */
static int binomial(struct exchange *e) {
    const int me = place(e);
    for (int64_t have = 1; have < e->size; have *= 2) {
        if (me < have && me + have < e->size)
            TRY(send_part(e, 0, e->count, me + (int)have));
        else if (me >= have && me < 2 * have)
            TRY(receive_part(e, 0, e->count, me - (int)have));
    }
    return MPI_SUCCESS;
}

/* ---- the vector in parts ---- */

/* A rank passes one piece on while the next one comes in. */
static int chain(struct exchange *e) {
    double *const vector = e->incoming;
    const int me = place(e);
    const int next = me + 1 < e->size ? rank_at(e, me + 1) : MPI_PROC_NULL;
    const int previous = me > 0 ? rank_at(e, me - 1) : MPI_PROC_NULL;
    for (int64_t out = 0, in = 0, end = 0; out < e->count; out = in, in = end) {
        end = least(in + e->settings[PIECE], e->count);
        TRY(MPI_Sendrecv(vector + out, (int)(in - out), e->type, in > out ? next : MPI_PROC_NULL, 0,
                         vector + in, (int)(end - in), e->type, end > in ? previous : MPI_PROC_NULL,
                         0, e->comm, MPI_STATUS_IGNORE));
    }
    return MPI_SUCCESS;
}

/* The tree of the scatter: a rank receives the blocks of all places in its branch, which are its
 * own and those just behind it, and sends on the farther half of them, then half of the rest. */
static int scatter(struct exchange *e) {
    const int me = place(e);
    int64_t branch = 1;
    while (branch < e->size && me % (2 * branch) == 0)
        branch *= 2;
    if (me > 0)
        TRY(receive_part(e, block_start(e, me),
                         block_start(e, (int)least(me + branch, e->size)), me - (int)branch));
    for (branch /= 2; branch > 0; branch /= 2) {
        const int64_t to = me + branch;
        if (to < e->size)
            TRY(send_part(e, block_start(e, (int)to),
                          block_start(e, (int)least(to + branch, e->size)), (int)to));
    }
    return MPI_SUCCESS;
}

static int scatter_allgather(struct exchange *e) {
    TRY(scatter(e));
    return blocks_allgather(e, e->incoming, place(e));
}

static int library(struct exchange *e) {
    return MPI_Bcast(e->incoming, e->count, e->type, (int)e->settings[ROOT], e->comm);
}

static const struct variant VARIANTS[] = {
    {.name = "linear", .exchange = linear},
    {.name = "chain", .exchange = chain},
    {.name = "binomial", .exchange = binomial},
    {.name = "scatter_allgather", .exchange = scatter_allgather},
    {.name = "library", .exchange = library},
    {.name = NULL},
};

/* ---- content: element i is root * 1000 + i % 1000, as in the ring ---- */

static const double POISON = -1.0;

static int prepare(struct exchange *e) {
    return e->settings[ROOT] < e->size ? MPI_SUCCESS : RINGSIDE_BAD_SETTING;
}

static double content(const struct exchange *e, int i) {
    return (double)e->settings[ROOT] * 1000 + i % 1000;
}

static void allocate(struct exchange *e) {
    e->incoming = exchange_allocate(e, e->count * e->kernel->unit_bytes);
}

static void fill(struct exchange *e) {
    double *const vector = e->incoming;
    for (int i = 0; i < e->count; i++)
        vector[i] = content(e, i);
}

static void poison(struct exchange *e) {
    double *const vector = e->incoming;
    for (int i = 0; i < e->count && place(e) > 0; i++)
        vector[i] = POISON;
}

static int64_t verify(struct exchange *e) {
    const double *const vector = e->incoming;
    int64_t wrong = 0;
    for (int i = 0; i < e->count; i++)
        wrong += vector[i] != content(e, i);
    return wrong;
}

static const struct content VECTOR = {
    .allocate = allocate,
    .fill = fill,
    .poison = poison,
    .verify = verify,
};

const struct ringside_kernel ringside_bcast = {
    .name = "bcast",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .default_count = 1000,
    .maximum_count = INT_MAX,
    .messages = 1,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &VECTOR,
    .prepare = prepare,
};
