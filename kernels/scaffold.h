/* The scaffold of all kernels, for those who write one. It finds the variant, checks the arguments,
 * lets the ranks agree on them, sets up, repeats (poison, exchange and time, verify) and cleans up,
 * also after an error. A kernel adds its exchange functions and one descriptor, which is a struct
 * ringside_kernel. */
#ifndef SCAFFOLD_H
#define SCAFFOLD_H

#include "ringside.h"

enum { MAX_BUFFERS = 6 };

/* Computation of so many operations, for the clock of a simulated machine (simulated/simulated.h).
 * True there: what is computed for the sake of time alone is then left out. */
#ifndef simulated_work
#define simulated_work(operations) 0
#endif

/* A kernel at work on this rank. */
struct exchange {
    const struct ringside_kernel *kernel;
    const struct variant *variant;
    MPI_Comm comm; /* the caller's, or the grid that exchange_grid made of it */
    int rank, size;
    int count;         /* elements of `type` in a message */
    MPI_Datatype type; /* MPI_DOUBLE or MPI_BYTE */
    int64_t settings[RINGSIDE_MAX_SETTINGS];
    void *own;         /* the kernel's own struct of `own_bytes`, zero at first */
    const void *given; /* what the caller works on, where the kernel lets it; else NULL */

    /* For the kernel to fill: */
    int to, from;                /* one_message: whose content must arrive */
    void *outgoing, *incoming;   /* of exchange_allocate, as a rule */
    MPI_Request *requests;       /* of exchange_requests */
    int untimed;                 /* exchanges before the clock of a repetition starts: 0 or 1, */
    int trips;                   /* and those after that: 1 if nothing else is said */
    int idle;                    /* this rank has no part in the exchange */
    double work;                 /* result of the work, so that the compiler does not drop it */
    const char *remark;          /* see ringside_why */
    int64_t bytes;               /* of all buffers: exchange_allocate's, and what MPI allocates */
    int in_use;                  /* MPI may still use the buffers: better lost than given back */

    /* The scaffold's: */
    MPI_Comm callers;
    int n_requests, receives, n_buffers, no_memory;
    void *buffers[MAX_BUFFERS];
};

/* One way of doing the exchange. */
struct variant {
    const char *name; /* NULL ends a table */
    int (*exchange)(struct exchange *e);
    int (*open)(struct exchange *e); /* its own set-up, after the kernel's, or NULL */
    const char *lacking;             /* NULL, or what this MPI library has not got for it */
    int opaque; /* after an error its requests are neither to be asked nor cancelled */
};

/* What is exchanged. */
struct content {
    void (*allocate)(struct exchange *e);        /* buffers, requests; nothing is touched yet */
    void (*fill)(struct exchange *e);            /* before the first repetition: what is sent */
    void (*poison)(struct exchange *e);          /* before each: where it will arrive */
    void (*stamp)(struct exchange *e, int trip); /* NULL, or marks what is sent in exchange 0,
                                                    which is not timed, and in the last one */
    int64_t (*verify)(struct exchange *e);       /* after each: how many elements are wrong */
};

/* The functions of a descriptor, in the order in which they are called:
 *   prepare  this rank's part in the exchange; RINGSIDE_BAD_SETTING and the like where there can be
 *            none. Not collective
 *   open     what all ranks set up together. Like a variant's, it may return RINGSIDE_UNSUITABLE
 *            with a remark on some of them; then all leave
 *   close    frees what these two made; always called once `own` is there. Above zero the code is
 *            an MPI error, and the other ranks may not be waited for */

/* Collective over comm: everything up to the first exchange, as ringside_run does it, and
 * everything after the last. exchange_end follows whatever exchange_begin returned, and returns
 * `code`, or an error of its own. *e is zero but for `given` and `no_memory`. */
int exchange_begin(struct exchange *e, const struct ringside_kernel *kernel, MPI_Comm comm,
                   const char *variant, int64_t count, int repetitions, const int64_t *settings);
int exchange_end(struct exchange *e, int code);

/* One repetition between the two: barrier, exchanges; the seconds of all timed ones together. */
int exchange_timed(struct exchange *e, double *seconds);

/* For `allocate`: memory that is freed at the end, up to MAX_BUFFERS times. A kernel need not check
 * it: it is there once exchange_begin has succeeded. */
void *exchange_allocate(struct exchange *e, int64_t bytes);

/* For `allocate`: n requests, null ones yet. After an error the first `receives` are cancelled. */
void exchange_requests(struct exchange *e, int n, int receives);

/* For `open`: puts the ranks into a grid, in their order. */
int exchange_grid(struct exchange *e, int dimensions, const int dims[], int periodic);

/* For `prepare`: one exchange that is not timed, then as many as move `full` bytes if each moves
 * `bytes`, from 1 to `most`; or `wished`, if that is above 0. */
void exchange_trips(struct exchange *e, int64_t wished, int64_t bytes, int64_t full, int most);

/* For `prepare`: the columns of `count` elements in as square a shape as can be, above 0. */
int exchange_columns(int count);

/* ---- kernels that cut a vector of doubles into a block for each rank (blocks.c) ---- */

/* All blocks are as long, but for the last ones, which may be shorter or empty. Where a block
 * begins, from 0 to e->size, which is the vector's end; how long it is. */
int block_start(const struct exchange *e, int block);
int block_length(const struct exchange *e, int block);

/* The block so many steps before this one, around. */
int block_before(const struct exchange *e, int block, int steps);

/* Passes blocks to the right, until every rank has all. Each rank has the block `own`, and its left
 * neighbour has the one before that. */
int blocks_allgather(struct exchange *e, double *vector, int own);

/* ---- kernels in which a rank sends one message and receives one (message.c) ---- */

/* Where the requests are. */
enum { RECEIVE, SEND };

/* After an untimed exchange the first byte of a message says whether it is the last one. */
extern const struct content one_message;

/* For `prepare`: the neighbours on a ring, to the right and from the left. */
int message_around(struct exchange *e);

/* For `prepare`: exchange_trips, for 64 KiB and at most 100. Below that a repetition would hardly
 * last longer than the clock takes to read. */
void message_trips(struct exchange *e, int64_t wished);

#endif
