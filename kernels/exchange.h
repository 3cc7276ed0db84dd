/* The scaffold of the kernels in which a rank sends one message and receives one: buffers, their
 * content, timing and verification. A kernel adds its table of variants, an exchange function
 * each. */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "ringside.h"

struct exchange {
    MPI_Comm comm;
    int rank, size, to, from; /* from: whose content must arrive */
    int count;                /* elements of `type` in a message */
    MPI_Datatype type;        /* MPI_DOUBLE or MPI_BYTE */
    void *outgoing, *incoming;
    MPI_Request send, receive; /* what has been started and not yet completed */
    const int64_t *settings;
    int trips;   /* exchanges in one timed repetition, which begins with one more, not timed */
    int idle;    /* this rank has no part in the exchange */
    double work; /* result of the work, kept so that the compiler does not drop it */
};

struct variant {
    const char *name;
    int (*exchange)(struct exchange *e);
};

/* The name of the index-th of n variants, NULL past the last. */
const char *exchange_variant(const struct variant *variants, int n, int index);

/* Collective over comm; the arguments and the result are those of ringside_kernel's run. `prepare`
 * fills to, from, trips and idle in e, whose other fields are known, or returns a RINGSIDE_ code.
 * With trips above 0 the first byte of a message says whether it is its repetition's last. */
int exchange_run(const struct ringside_kernel *kernel, const struct variant *variants,
                 int (*prepare)(struct exchange *e), MPI_Comm comm, const char *variant,
                 int64_t count, const int64_t *settings, int repetitions, double *seconds,
                 int64_t *wrong);

/* For `prepare`: the neighbours on a ring, to the right and from the left. */
void exchange_around(struct exchange *e);

/* Both at once: Irecv from `from`, Isend to `to`. */
int exchange_start(struct exchange *e);

/* MPI_Sendrecv. */
int exchange_sendrecv(struct exchange *e);

/* For `prepare`: how many exchanges fill 64 KiB, from 1 to 100, unless `wished` says how many.
 * Below that a repetition would hardly last longer than the clock takes to read. */
int exchange_trips(int64_t wished, int64_t bytes);

#endif
