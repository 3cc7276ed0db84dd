/* The sum of all ranks' vectors, element by element, on every rank. */
#include "scaffold.h"

#include <limits.h>
#include <string.h>

/* The sum lies in e->incoming; what comes from another rank lies here until it is added. */
struct allreduce {
    double *came;
};

static const struct ringside_setting SETTINGS[] = {{NULL, 0, 0, 0, NULL}};

static double *came(const struct exchange *e) { return ((struct allreduce *)e->own)->came; }

static void start_with_own(struct exchange *e) {
    memcpy(e->incoming, e->outgoing, (size_t)e->count * sizeof(double));
}

static void add(struct exchange *e, int start, int doubles) {
    double *const sum = (double *)e->incoming + start;
    const double *const other = came(e);
    (void)simulated_work(doubles);
    for (int i = 0; i < doubles; i++)
        sum[i] += other[i];
}

/* ---- ring: a block for each rank, added up on its way around, and then passed round ---- */

static int ring(struct exchange *e) {
    double *const sum = e->incoming;
    const int right = (e->rank + 1) % e->size, left = block_before(e, e->rank, 1);
    start_with_own(e);
    for (int step = 0; step < e->size - 1; step++) {
        const int out = block_before(e, e->rank, step), in = block_before(e, out, 1);
        TRY(MPI_Sendrecv(sum + block_start(e, out), block_length(e, out), e->type, right, 0,
                         came(e), block_length(e, in), e->type, left, 0, e->comm,
                         MPI_STATUS_IGNORE));
        add(e, block_start(e, in), block_length(e, in));
    }
    return blocks_allgather(e, sum, right); /* this rank has added up the block of its right one */
}

/* ---- recursive doubling: partners exchange all they have, at distances 1, 2, 4 ... ---- */

static int send_all(struct exchange *e, int to) {
    return MPI_Send(e->incoming, e->count, e->type, to, 0, e->comm);
}

static int receive_all(struct exchange *e, double *where, int from) {
    return MPI_Recv(where, e->count, e->type, from, 0, e->comm, MPI_STATUS_IGNORE);
}

/* Among `players`, a power of two. In their order a player has a number, and each is a rank. */
static int double_up(struct exchange *e, int player, int players, int pairs) {
    for (int distance = 1; distance < players; distance *= 2) {
        const int other = player ^ distance;
        const int partner = other < pairs ? 2 * other : other + pairs;
        TRY(MPI_Sendrecv(e->incoming, e->count, e->type, partner, 0, came(e), e->count, e->type,
                         partner, 0, e->comm, MPI_STATUS_IGNORE));
        add(e, 0, e->count);
    }
    return MPI_SUCCESS;
}

/* Where p is no power of two, the first ranks form pairs: the odd one of a pair gives its vector to
 * the even one, which plays for both and gives it the sum at the end. */
static int doubling(struct exchange *e) {
    int players = 1;
    while (players <= e->size / 2)
        players *= 2;
    const int pairs = e->size - players, paired = e->rank < 2 * pairs;
    start_with_own(e);
    if (paired && e->rank % 2 == 1) {
        TRY(send_all(e, e->rank - 1));
        return receive_all(e, e->incoming, e->rank - 1);
    }
    if (paired) {
        TRY(receive_all(e, came(e), e->rank + 1));
        add(e, 0, e->count);
    }
    TRY(double_up(e, paired ? e->rank / 2 : e->rank - pairs, players, pairs));
    return paired ? send_all(e, e->rank + 1) : MPI_SUCCESS;
}

static int library(struct exchange *e) {
    return MPI_Allreduce(e->outgoing, e->incoming, e->count, e->type, MPI_SUM, e->comm);
}

static const struct variant VARIANTS[] = {
    {.name = "ring", .exchange = ring},
    {.name = "doubling", .exchange = doubling},
    {.name = "library", .exchange = library},
    {.name = NULL},
};

/* ---- content: whole numbers, so that their sum is exact in any order ---- */

static const double POISON = -1.0;

static double share(int rank, int i) { return (rank + 1.0) * (rank + 1.0) * (1 + i % 1000); }

static double sum_of_shares(int size, int i) {
    const double p = size;
    return p * (p + 1) * (2 * p + 1) / 6 * (1 + i % 1000);
}

static int prepare(struct exchange *e) {
    (void)e;
    return MPI_SUCCESS;
}

static void allocate(struct exchange *e) {
    const int64_t bytes = e->count * e->kernel->unit_bytes;
    struct allreduce *const own = e->own;
    e->outgoing = exchange_allocate(e, bytes);
    e->incoming = exchange_allocate(e, bytes);
    own->came = exchange_allocate(e, bytes);
}

static void fill(struct exchange *e) {
    double *const vector = e->outgoing;
    for (int i = 0; i < e->count; i++)
        vector[i] = share(e->rank, i);
}

static void poison(struct exchange *e) {
    double *const sum = e->incoming;
    for (int i = 0; i < e->count; i++)
        sum[i] = came(e)[i] = POISON;
}

static int64_t verify(struct exchange *e) {
    const double *const sum = e->incoming, *const mine = e->outgoing;
    int64_t wrong = 0;
    for (int i = 0; i < e->count; i++)
        wrong += sum[i] != sum_of_shares(e->size, i) || mine[i] != share(e->rank, i);
    return wrong;
}

static const struct content VECTORS = {
    .allocate = allocate,
    .fill = fill,
    .poison = poison,
    .verify = verify,
};

const struct ringside_kernel ringside_allreduce = {
    .name = "allreduce",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .default_count = 1000,
    .maximum_count = INT_MAX,
    .messages = 3,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &VECTORS,
    .own_bytes = sizeof(struct allreduce),
    .prepare = prepare,
};
