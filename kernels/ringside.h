/* The kernels: one C function per exchange, called alike from Python on live engines, from the
 * small main under mpiexec, and on a simulated machine.
 *
 * A kernel is collective over the communicator it is given. It never calls MPI_Init or
 * MPI_Finalize, never prints, never exits and keeps no static state. What carries
 * one out returns
 *
 *   MPI_SUCCESS    every repetition was carried out, and every element arrived as it was sent;
 *   above zero     the MPI error code that an MPI call returned. The call that failed ends the
 *                  kernel on this rank, which enters no further collective; the other ranks may
 *                  still be in theirs. Nothing of this is seen unless the communicator's error
 *                  handler is MPI_ERRORS_RETURN (mpi4py sets it; a C program must);
 *   below zero     one of the codes below. All but RINGSIDE_WRONG_DATA are agreed among the
 *                  ranks before the exchange begins: every rank returns the same one, and no
 *                  message has been sent.
 */
#ifndef RINGSIDE_H
#define RINGSIDE_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct exchange;
struct variant;
struct content;

/* Leaves the function with a code that is not MPI_SUCCESS. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const int code_ = (call);                                                                  \
        if (code_ != MPI_SUCCESS)                                                                  \
            return code_;                                                                          \
    } while (0)

/* MPI's own codes are never negative; small negative numbers are used inside some libraries. */
enum {
    RINGSIDE_WRONG_DATA = -1001,      /* verification failed on this rank: see *wrong */
    RINGSIDE_UNKNOWN_VARIANT = -1002, /* no variant of this name */
    RINGSIDE_BAD_COUNT = -1003,       /* message length below 0 or above the kernel's maximum */
    RINGSIDE_BAD_REPETITIONS = -1004, /* repetitions below 1 or above RINGSIDE_MAX_REPETITIONS */
    RINGSIDE_ARGUMENTS_DIFFER = -1005, /* the ranks do not all ask for the same thing */
    RINGSIDE_NO_MEMORY = -1006,       /* the buffers of a node's ranks do not fit its memory */
    RINGSIDE_BAD_RANKS = -1007,       /* the kernel cannot be carried out by so many ranks */
    RINGSIDE_BAD_SETTING = -1008,     /* a setting is out of its range */
    RINGSIDE_UNSUITABLE = -1009       /* ringside_why says why not here */
};

#define RINGSIDE_MAX_REPETITIONS 1000000
enum { RINGSIDE_MAX_SETTINGS = 6 };

/* A named number that changes how a kernel works. */
struct ringside_setting {
    const char *name; /* NULL ends a list */
    int64_t default_value, minimum, maximum;
    const char *meaning;
};

/* What there is to know of a kernel. */
struct ringside_kernel {
    const char *name, *unit; /* unit: "doubles" or "bytes" */
    int64_t unit_bytes;
    int64_t default_count, maximum_count; /* of units in a message */
    int messages;                         /* how many messages a rank holds in memory */
    int minimum_ranks;                    /* below that it cannot be carried out */
    int halos; /* messages a rank receives from its neighbours in a grid of three dimensions; above
                  0 a program that is told no variant prints a table of all */
    const struct ringside_setting *settings;

    /* How it works: see scaffold.h. Those that a kernel does not need are NULL. */
    const struct variant *variants;
    const struct content *content;
    size_t own_bytes;
    int (*prepare)(struct exchange *e);
    int (*open)(struct exchange *e);
    int (*close)(struct exchange *e, int code);
};

/* The kernels one after the other, counted from 0; NULL past the last. */
const struct ringside_kernel *ringside_kernel(int index);

/* The names of a kernel's variants, counted from 0; NULL past the last. */
const char *ringside_variant(const struct ringside_kernel *kernel, int index);

/* The place of a variant among them, or -1. */
int ringside_find(const struct ringside_kernel *kernel, const char *variant);

/* Carries out and verifies a kernel's exchange. Collective over comm.
 *   variant      one of the kernel's variants, by name
 *   count        message length in the kernel's unit, from 0 to its maximum
 *   settings     as many numbers as the kernel has settings, in their order; NULL: all by default
 *   repetitions  how many times the exchange is carried out, timed and verified
 *   seconds      out: `repetitions` times in seconds, of this rank, barrier and verification not
 *                included; 0 on a rank that had no part. A caller that could not get this memory
 *                passes NULL, and all ranks return RINGSIDE_NO_MEMORY
 *   wrong        out: how many received elements of all repetitions were wrong on this rank */
int ringside_run(const struct ringside_kernel *kernel, MPI_Comm comm, const char *variant,
                 int64_t count, const int64_t *settings, int repetitions, double *seconds,
                 int64_t *wrong);

/* In plain words, why ringside_run would return RINGSIDE_UNSUITABLE on comm, or, if it would not,
 * what the reader of its times should know; NULL: nothing. The text is constant. Collective over
 * comm: it sets the variant up, and may exchange single elements. */
const char *ringside_why(const struct ringside_kernel *kernel, MPI_Comm comm,
                         const char *variant);

/* The ring. Rank r sends doubles to r + 1 and receives as many from r - 1, around the corner at
 * the ends; a ring of one sends to itself. Element i holds rank * 1000 + i % 1000.
 *
 *   blocking         Send, then Recv. Deadlocks once the library no longer buffers the message,
 *                    which for a message to oneself may be at every length
 *   parity           even ranks send first, odd ranks receive first
 *   overlap          Isend and Irecv, work in chunks with a Test after every fifth, then Wait
 *   separated_waits  the same, a Test after every chunk; Wait for the receive, use the data, and
 *                    only then Wait for the send
 *   sendrecv         MPI_Sendrecv
 *   ssend            as blocking, with Ssend: deadlocks at every length
 *   chain            every rank sends first, but the last one, which receives first: no deadlock,
 *                    and one message after the other */
extern const struct ringside_kernel ringside_ring;

/* Ping-pong. Rank 0 sends bytes to its partner, which then sends as many back; the time is that of
 * one round trip. Ranks other than these two only wait for each repetition to begin.
 *
 *   blocking     Send and Recv
 *   nonblocking  Isend and Irecv, each with its Wait */
extern const struct ringside_kernel ringside_pingpong;

/* Ring shift: the ring in bytes, for measurement. Each rank's own time is what counts.
 *
 *   sendrecv     MPI_Sendrecv
 *   nonblocking  Irecv, Isend and Waitall */
extern const struct ringside_kernel ringside_ringshift;

/* Halo swapping, in doubles a face. The ranks form a periodic grid in three dimensions: the
 * communicator's own if it has one, else that of MPI_Dims_create. Every rank has six outgoing
 * faces, one a direction, and six incoming: towards lower and towards higher coordinates of the
 * first dimension, then of the second and the third. In a dimension of two ranks both neighbours
 * are the same rank, in one of a single rank they are the rank itself. A time is that of one
 * exchange of all six, the mean over `trips`; setting up is not in it.
 *
 * One direction after the other, each rank sending one way and receiving from the other side:
 *   sendrecv            MPI_Sendrecv
 *   isend_recv_wait     Isend, Recv, Wait
 *   irecv_send_wait     Irecv, Send, Wait
 *   irecv_isend_wait    Irecv, Isend, and a Wait for each
 * Two passes:
 *   redblack            Send and Recv: red ranks send while black ones receive, then the reverse;
 *                       needs an even number of ranks in each dimension, or a single one
 * All six at once:
 *   irecv_isend_waitall     six Irecv, six Isend, Waitall
 *   persistent              the same twelve requests, made once: Startall, Waitall
 *   neighbor_alltoall       MPI_Neighbor_alltoall
 *   ineighbor_alltoall      MPI_Ineighbor_alltoall, Wait
 *   neighbor_alltoall_init  MPI_Neighbor_alltoall_init once: Start, Wait (MPI 4)
 *   put_fence               MPI_Put into the neighbours' windows, between two fences
 *   partitioned             MPI_Psend_init, MPI_Precv_init once: Start, Pready for each of
 *                           `partitions` parts of a face, Waitall (MPI 4)
 *   shared_window           each rank copies from its neighbours' memory, and tells them before and
 *                           after by empty messages; needs all ranks on one node
 * What cannot be done on this grid, on these nodes or with this library is RINGSIDE_UNSUITABLE.
 *
 * After an error of MPI a window is kept: to free it would be to wait for the others. */
extern const struct ringside_kernel ringside_halo;

/* One exchange of the caller's own faces by a method of ringside_halo, setting up included.
 * Collective over comm. outgoing and incoming hold six faces of `doubles` doubles each, in the
 * order above: incoming's first is what the neighbour towards lower coordinates of the first
 * dimension sent towards higher ones. Returns what ringside_run returns, RINGSIDE_WRONG_DATA
 * excepted. */
int ringside_halo_exchange(MPI_Comm comm, const char *method, int64_t doubles,
                           const double *outgoing, double *incoming);

/* The matrix. Rank 0 scatters `count` doubles, a matrix of `columns` columns, in blocks to a grid
 * of ranks (row after row; `grid` rows of them), and gathers the blocks into another matrix: one
 * repetition. Blocks have ceil(rows / grid rows) x ceil(columns / grid columns) elements; the last
 * ones in each direction have what is left, which may be nothing. Datatypes are made once, before
 * the first repetition. Every rank verifies its block, rank 0 the gathered matrix as well.
 *
 *   resized    one Scatterv and one Gatherv with a vector resized to the extent of one double. One
 *              type means one shape, so rank 0 keeps its matrix with room for full blocks at the
 *              end of the rows and below them, and that room travels along
 *   alltoallw  one Alltoallw each way, a subarray for each block: only the matrix travels
 *   subarrays  the same types, one message a block: Isend, Irecv, Waitall
 *   messages   one message for each row of each block, Send and Recv of doubles
 *   packed     the blocks copied one behind the other, and a Scatterv or Gatherv of doubles */
extern const struct ringside_kernel ringside_matrix;

/* The heat equation, by explicit steps on a grid in two dimensions. The ranks of comm form a grid
 * as MPI_Dims_create makes it, not periodic, in row order. Each holds a block of `count` cells, as
 * square as can be, with a rim of the neighbours' cells, or of the fixed ones around the whole
 * grid. A time is that of one step, the mean over `steps`; the cells are verified against what one
 * rank alone would compute, to the last bit.
 *
 *   waitall  exchanges the rims, then computes
 *   overlap  computes the inner cells meanwhile */
extern const struct ringside_kernel ringside_heat;

/* `steps` steps of the caller's own block. Collective over comm; ranks beside each other hold as
 * many rows, those above and below each other as many columns.
 *   block    in and out: (rows + 2) x (columns + 2) doubles, row after row. The rim is filled from
 *            the neighbours; where there is none it is the boundary, and stays as it is. After an
 *            error the block is as it was
 *   rate     time step times conductivity by the square of the spacing, at most 0.25 to be stable
 *   seconds  out: of all steps on this rank
 * Returns what ringside_run returns, RINGSIDE_WRONG_DATA excepted. */
int ringside_heat_steps(MPI_Comm comm, const char *variant, int rows, int columns, double *block,
                        int steps, double rate, double *seconds);

/* The broadcast. Rank `root` has a vector of `count` doubles, and every rank gets it. Element i
 * holds root * 1000 + i % 1000; every rank verifies its vector, the root too. A rank's time ends
 * when it has done its part, so the slowest rank's time is that of the whole.
 *
 *   linear             the root sends the vector to one rank after the other
 *   chain              from rank to rank, in pieces of `piece` doubles: a rank passes one piece on
 *                      while the next one comes in
 *   binomial           a tree: in every round each rank that has the vector sends it to another one
 *   scatter_allgather  a block for each rank, dealt out by a tree, then passed round the ring
 *   library            MPI_Bcast */
extern const struct ringside_kernel ringside_bcast;

/* The sum of vectors. Every rank has a vector of `count` doubles, and gets their sum, element by
 * element. Element i of rank r holds (r + 1)^2 (1 + i % 1000), so that every sum is exact.
 *
 *   ring      a block for each rank: added up on the way round the ring, then passed round again
 *   doubling  recursive doubling: partners at distance 1, 2, 4 ... exchange and add all they have.
 *             Where the number of ranks is no power of two, some ranks have one that plays for them
 *   library   MPI_Allreduce */
extern const struct ringside_kernel ringside_allreduce;

/* Bytes that processes on this node may still take without swapping, with the limit of the
 * container taken into account; INT64_MAX where the system does not tell. Not collective. */
int64_t ringside_available_bytes(void);

/* Untouched memory for a message, on huge pages where the system has them: copying through small
 * ones takes up to twice as long. Messages of all lengths have them, or the times would jump where
 * they begin. To be freed with free(); NULL where there is none. */
void *ringside_allocate(int64_t bytes);

#endif
