/* The scaffold of the halo exchange: the grid, the buffers and their content, timing and
 * verification (halo_run.c). The methods are halo.c's.
 *
 * A face is numbered by its direction: 2 d towards lower coordinates of dimension d, 2 d + 1
 * towards higher ones, as MPI numbers a grid's neighbours; s ^ 1 is the direction opposite to s.
 * What a rank sends in direction s is its neighbour's halo s ^ 1, also where one rank is the
 * neighbour on both sides, or a rank its own. */
#ifndef HALO_H
#define HALO_H

#include "ringside.h"

enum { DIMENSIONS = 3, FACES = 2 * DIMENSIONS };

struct halo {
    MPI_Comm comm; /* the grid, the ranks in the order of the communicator it was made from */
    int rank, dims[DIMENSIONS], coords[DIMENSIONS];
    int neighbour[FACES];
    int count;                   /* doubles in a face */
    double *outgoing, *incoming; /* face s begins at s * count */
    int place[FACES];            /* in which block of incoming halo s arrives: s, as a rule */
    MPI_Request requests[2 * FACES]; /* what was made and not yet freed: receives, then sends */
    MPI_Request collective;
    MPI_Win window;
    const double *theirs[FACES]; /* shared_window: the neighbours' faces, in their own memory */
    int partitions;              /* partitioned: of a face */
    const char *remark;          /* see `why` in ringside.h */
};

/* What the scaffold must know of a method. */
enum {
    TRIED_FIRST = 1,     /* carried out once at set-up, to see where the library puts the blocks */
    NO_STATUS = 2,       /* after an error, its requests are neither to be asked nor cancelled */
    WINDOW_INCOMING = 4, /* `open` provides this memory, as that of a window */
    WINDOW_OUTGOING = 8
};

struct halo_method {
    const char *name;
    int (*exchange)(struct halo *h);
    int (*open)(struct halo *h);                /* collective set-up, or NULL; see below */
    const char *(*refuse)(const struct halo *h); /* NULL, or why not on h->dims; not collective */
    int flags;
};

/* `open` returns an MPI error code, or RINGSIDE_UNSUITABLE with h->remark set; then all ranks
 * return that. What it made, halo_run.c frees. */

/* The methods, in order; one without an exchange function ends them. */
extern const struct halo_method halo_methods[];

#endif
