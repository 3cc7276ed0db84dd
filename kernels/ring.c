/* The ring: every rank sends to its right neighbour and receives from its left one.
 * The variants differ in one function each; buffers, timing and verification are shared. */
#include "ringside.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 0, CHUNKS = 1000, TEST_EVERY = 5, OVERLAP_STEPS = 5000, SEPARATED_STEPS = 1000 };

static const double POISON = -1.0;
static const double PATIENCE = 0.1; /* seconds given to a started request after an error */

struct ring {
    MPI_Comm comm;
    int rank, size, left, right;
    int count; /* doubles in a message */
    double *outgoing, *incoming;
    MPI_Request send, receive; /* what has been started and not yet completed */
    double work;               /* result of the work, kept so that the compiler does not drop it */
};

static int send_right(const struct ring *ring)
{
    return MPI_Send(ring->outgoing, ring->count, MPI_DOUBLE, ring->right, TAG, ring->comm);
}

static int receive_left(const struct ring *ring)
{
    return MPI_Recv(ring->incoming, ring->count, MPI_DOUBLE, ring->left, TAG, ring->comm,
                    MPI_STATUS_IGNORE);
}

/* ---- the variants ---- */

static int blocking(struct ring *ring)
{
    TRY(send_right(ring));
    return receive_left(ring);
}

static int ssend(struct ring *ring)
{
    TRY(MPI_Ssend(ring->outgoing, ring->count, MPI_DOUBLE, ring->right, TAG, ring->comm));
    return receive_left(ring);
}

static int sendrecv(struct ring *ring)
{
    return MPI_Sendrecv(ring->outgoing, ring->count, MPI_DOUBLE, ring->right, TAG, ring->incoming,
                        ring->count, MPI_DOUBLE, ring->left, TAG, ring->comm, MPI_STATUS_IGNORE);
}

/* In a ring of odd length the last rank and rank 0 are neighbours and both even; they send at the
 * same time, but rank 1 receives first, so the chain comes loose from there. */
static int parity(struct ring *ring)
{
    if (ring->size == 1)
        return sendrecv(ring); /* alone there is nobody of the other parity */
    if (ring->rank % 2 == 0) {
        TRY(send_right(ring));
        return receive_left(ring);
    }
    TRY(receive_left(ring));
    return send_right(ring);
}

/* Both at once. Neither call waits for the neighbour, so their order, and the rank's parity,
 * change nothing; the receive stands first so that no message arrives before it. */
static int start_both(struct ring *ring)
{
    TRY(MPI_Irecv(ring->incoming, ring->count, MPI_DOUBLE, ring->left, TAG, ring->comm,
                  &ring->receive));
    return MPI_Isend(ring->outgoing, ring->count, MPI_DOUBLE, ring->right, TAG, ring->comm,
                     &ring->send);
}

/* Stands for the program's own computation. */
static double compute(int steps, double scale)
{
    double sum = 0.0;
    for (int i = 0; i < steps; i++)
        sum += sin(i * scale);
    return sum;
}

/* Work until the message is there, or for CHUNKS chunks; Test after every `every`-th. The Test is
 * no courtesy: many libraries move a long message only inside their own calls. */
static int work_meanwhile(struct ring *ring, int steps, double scale, int every)
{
    int arrived = 0;
    for (int chunk = 1; chunk <= CHUNKS && !arrived; chunk++) {
        ring->work += compute(steps, scale);
        if (chunk % every == 0)
            TRY(MPI_Test(&ring->receive, &arrived, MPI_STATUS_IGNORE));
    }
    if (!arrived)
        TRY(MPI_Wait(&ring->receive, MPI_STATUS_IGNORE));
    return MPI_SUCCESS;
}

static int overlap(struct ring *ring)
{
    TRY(start_both(ring));
    TRY(work_meanwhile(ring, OVERLAP_STEPS, 0.01, TEST_EVERY));
    return MPI_Wait(&ring->send, MPI_STATUS_IGNORE);
}

static int separated_waits(struct ring *ring)
{
    TRY(start_both(ring));
    TRY(work_meanwhile(ring, SEPARATED_STEPS, 0.1, 1));
    for (int i = 0; i < ring->count; i++)
        ring->work += ring->incoming[i] * 0.0001;
    return MPI_Wait(&ring->send, MPI_STATUS_IGNORE);
}

static const struct variant {
    const char *name;
    int (*exchange)(struct ring *ring);
} VARIANTS[] = {
    {"blocking", blocking},
    {"parity", parity},
    {"overlap", overlap},
    {"separated_waits", separated_waits},
    {"sendrecv", sendrecv},
    {"ssend", ssend},
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

/* ---- the scaffold ---- */

const char *ringside_ring_variant(int index)
{
    return index >= 0 && index < VARIANT_COUNT ? VARIANTS[index].name : NULL;
}

/* The variant's place in the table, or -1. */
static int find_variant(const char *name)
{
    for (int i = 0; name != NULL && i < VARIANT_COUNT; i++)
        if (strcmp(VARIANTS[i].name, name) == 0)
            return i;
    return -1;
}

static double element(int rank, int i)
{
    return rank * 1000.0 + i % 1000;
}

static int64_t count_wrong(const struct ring *ring)
{
    int64_t wrong = 0;
    for (int i = 0; i < ring->count; i++)
        wrong += ring->incoming[i] != element(ring->left, i);
    return wrong;
}

/* One repetition: poison, wait for each other, exchange, verify. */
static int repeat(struct ring *ring, const struct variant *variant, double *seconds,
                  int64_t *wrong)
{
    for (int i = 0; i < ring->count; i++)
        ring->incoming[i] = POISON;
    TRY(MPI_Barrier(ring->comm));
    const double start = MPI_Wtime();
    TRY(variant->exchange(ring));
    *seconds = MPI_Wtime() - start;
    *wrong += count_wrong(ring);
    return MPI_SUCCESS;
}

/* Frees a request once it is complete; true if there is none left. It asks without MPI_Test,
 * which the scope refuses after it has broken a call, so that no loop of Tests goes on. */
static int finished(MPI_Request *request)
{
    int complete = 0;
    if (*request == MPI_REQUEST_NULL)
        return 1;
    return MPI_Request_get_status(*request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           complete && MPI_Request_free(request) == MPI_SUCCESS;
}

/* After an error: takes back the receive, and gives both requests a moment to end. Returns whether
 * they have; as long as they have not, MPI may still read or write the buffers. */
static int withdraw(struct ring *ring)
{
    const double end = MPI_Wtime() + PATIENCE;
    int received = finished(&ring->receive), sent = finished(&ring->send);
    if (!received)
        MPI_Cancel(&ring->receive); /* whether it could be is seen below */
    while (!(received && sent) && MPI_Wtime() < end) {
        received = finished(&ring->receive);
        sent = finished(&ring->send);
    }
    return received && sent;
}

int ringside_ring(MPI_Comm comm, const char *variant, int64_t doubles, int repetitions,
                  double *seconds, int64_t *wrong)
{
    struct ring ring = {.comm = comm, .send = MPI_REQUEST_NULL, .receive = MPI_REQUEST_NULL};
    TRY(MPI_Comm_rank(comm, &ring.rank));
    TRY(MPI_Comm_size(comm, &ring.size));
    ring.left = (ring.rank - 1 + ring.size) % ring.size;
    ring.right = (ring.rank + 1) % ring.size;
    *wrong = 0;

    const int chosen = find_variant(variant);
    const int64_t arguments[RINGSIDE_ARGUMENTS] = {chosen, doubles, repetitions};
    int64_t bytes = 0; /* of one message */
    int code = MPI_SUCCESS;
    if (chosen < 0) {
        code = RINGSIDE_UNKNOWN_VARIANT;
    } else if (doubles < 0 || doubles > RINGSIDE_MAX_DOUBLES) {
        code = RINGSIDE_BAD_COUNT;
    } else if (repetitions < 1 || repetitions > RINGSIDE_MAX_REPETITIONS) {
        code = RINGSIDE_BAD_REPETITIONS;
    } else {
        ring.count = (int)doubles;
        bytes = doubles * (int64_t)sizeof(double);
        ring.outgoing = ringside_allocate(bytes);
        ring.incoming = ringside_allocate(bytes);
        if (seconds == NULL || ring.outgoing == NULL || ring.incoming == NULL)
            code = RINGSIDE_NO_MEMORY;
    }
    code = ringside_agree(comm, code, 2 * bytes, arguments);

    if (code == MPI_SUCCESS)
        for (int i = 0; i < ring.count; i++)
            ring.outgoing[i] = element(ring.rank, i);
    for (int i = 0; i < repetitions && code == MPI_SUCCESS; i++)
        code = repeat(&ring, &VARIANTS[chosen], &seconds[i], wrong);

    /* Memory that MPI may still write to is better lost than given back. */
    if (withdraw(&ring)) {
        free(ring.outgoing);
        free(ring.incoming);
    }
    if (code == MPI_SUCCESS && *wrong > 0)
        code = RINGSIDE_WRONG_DATA;
    return code;
}
