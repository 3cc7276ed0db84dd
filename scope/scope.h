/* The scope: an observer between a program and its MPI library.
 *
 * libscope.so defines MPI_X for the calls named below and forwards each to PMPI_X (MPI standard,
 * chapter "Tool Support"). Loaded with global visibility before the program's MPI calls are bound
 * (from Python before mpi4py.MPI, elsewhere by LD_PRELOAD), it sees every one of them.
 *
 *   state.c        the state of this rank, its tables, its events, what Python calls
 *   messages.c     point-to-point calls, and waiting for them
 *   collectives.c  collectives and communicators
 *   types.c        derived datatypes that are not freed
 *   judge.c        from the states of all ranks to a verdict (no MPI in it)
 *   outside.c      what is different without a notebook
 *   rounds.c       the thread that talks to the other ranks: rounds, verdicts, drain
 *
 * Who runs what. The program's thread makes the calls. A blocking call is served as its
 * nonblocking form and polled, so that it can be left. The scope's own thread, one a rank, talks
 * to the others' threads on a private communicator, whatever the program's thread is doing. One
 * lock covers all of it; a call holds it, a call that waits lets go of it between two polls.
 *
 * The world's ranks name everything here: `peer` is a rank of MPI_COMM_WORLD. */
#ifndef SCOPE_H
#define SCOPE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if MPI_VERSION >= 4
#define LARGE_COUNTS 1 /* the library has MPI_Send_c and its like */
#else
#define LARGE_COUNTS 0
#endif

/* The library shows the MPI calls and what Python asks for; all that is declared here it keeps to
 * itself, and so finds it without asking the linker's tables. */
#pragma GCC visibility push(hidden)

enum state { IDLE, COMPUTING, BLOCKED, POLLING };
enum mode { ALL, ANY };
enum need { SEND, RECV, PROBE, COLLECTIVE, UNKNOWN };
enum kind { RUNNING, STARVED, DEADLOCK, STOPPED };
enum stop { NO_STOP, STOP_USER, STOP_STARVED };

enum { ANY_PEER = -1, NO_PEER = -2, ANY_LABEL = -1 };
enum { NAME_ROOM = 32 }; /* MPI_Dist_graph_create_adjacent takes 31 */

/* One row of what a rank tells the others. */
enum row { NEEDS, POSTED, SENT, RECEIVED, ENTERED, MEMBER };

struct record {
    int row;        /* enum row */
    int kind;       /* enum need */
    int comm;       /* number of the communicator, the same on all its ranks */
    int peer;       /* world rank, or ANY_PEER */
    int tag;        /* or ANY_LABEL */
    int index;      /* COLLECTIVE, ENTERED: how manieth collective on that communicator */
    long long size; /* bytes; SENT and RECEIVED: how many messages */
    char call[NAME_ROOM];  /* ENTERED: the last collective entered, with its root */
};

/* What a rank says of itself: a header, then `rows` records. */
struct report {
    int rank, state, mode, stop, rows;
    bool ending; /* in MPI_Finalize */
    bool blind;  /* it saw something it cannot model: nobody is to be judged */
    long long epoch;  /* grows whenever anything here may have changed */
    double since;     /* seconds the rank has been in this call */
    char call[NAME_ROOM];
    struct record *row;
};

struct verdict {
    int kind;
    int stuck;      /* how many ranks */
    bool *is_stuck; /* one a rank */
};

/* A message the judge found sent and not yet received. */
struct unreceived {
    int source, dest, comm, tag;
    long long count;
};

/* Messages sent and not received: a fresh array for the caller to free, NULL without memory. */
struct unreceived *scope_left(int n, const struct report *reports, int *lefts);

/* Judges the reports of all n ranks. `before` holds the epochs of the round before: only ranks
 * that did not move between two rounds are ever called stuck. Fills `verdict`, whose is_stuck has
 * room for n. */
void scope_judge(int n, const struct report *reports, const long long *before,
                 const struct unreceived *left, int lefts, struct verdict *verdict);

/* A communicator the program made. Its collectives travel on `shadow`, a duplicate, which can be
 * given up with whatever is stuck in it. */
struct comm {
    MPI_Comm handle, shadow;
    int number, size, rank, entered;
    int *world; /* world rank of each member */
    char last[NAME_ROOM], before[NAME_ROOM]; /* the last collective entered, and the one before */
};

/* A request that is open, or a persistent one. */
struct op {
    MPI_Request request;
    struct comm *comm;
    long long bytes, serial;
    long long window; /* the loop of tests that asked for it last */
    int kind, peer, tag, index;
    bool persistent, active;
    bool counted;   /* it is complete, and its message is in the counts */
    bool cancelled; /* somebody asked for that: whether it was, its status tells */
    bool dead;      /* a collective that was given up */
    bool own;       /* the program never sees it, so no other thread can have completed it */
    bool peeked;    /* `status` is what scope_peek saw */
    MPI_Status status;
};

struct event {
    double start, end, blocked;
    long long bytes, request, seq;
    int call, peer, tag, comm;
    int left; /* by a break, so its message was never delivered */
};

struct scope {
    atomic_flag lock;
    atomic_bool on, insist;
    bool insist_next; /* what the next cell begins with */
    atomic_bool threads; /* a second thread of the program has called MPI: nothing is judged */
    atomic_int stop;
    bool away; /* inside a call, and not holding the lock */
    bool ready, inside, busy, raise, ending, over, crowded;
    pthread_t program, thread;
    clockid_t program_clock;
    MPI_Comm private;
    int greatest_tag;
    int rank, size;
    int code;    /* the MPI error code of a call that was left */
    int refused; /* and of one with a rank or a tag that cannot be */

    struct comm **comms;
    int n_comms, made; /* made: communicators this rank was first to number */

    struct op **ops;
    int n_ops, room_ops;
    long long serial;

    struct count *counts;
    int n_counts, room_counts;
    bool overflow;

    struct call *waiting; /* the call in which the program's thread waits, if it does */
    bool in_flight;       /* the last round saw what it waits for on its way */
    long long epoch;

    /* a loop of unsuccessful tests, and the probe in it, if there is one */
    long long window, tests, tests_seen;
    double window_start, window_last, window_gap; /* its last test, its longest time without one */
    double cpu_seen, cpu_per_test;
    int window_call, window_requests;
    bool window_mixed;   /* the loop does not repeat one call on the same requests */
    bool window_unknown; /* among them is one that the scope knows nothing of */
    struct record probe;

    MPI_Message message; /* what the last matched probe took, from whom */
    struct comm *message_comm;
    int message_peer;

    struct event *events;
    long long n_events;

    int generation, round;
    struct verdict verdict;  /* of the last round */
    long long verdict_epoch; /* this rank's epoch in it */
    char *told; /* the last break as text for Python */
};

extern struct scope scope;

/* Every observed call. `requests` or `probe` say what it waits for. */
struct call {
    double start, pause; /* pause: when it first had to wait, 0 if it never did */
    int name, mode, generation;
    bool left;
    bool complete; /* what it waited for was, though it was to be left */
    long polls;
    const MPI_Request *requests;
    int n_requests;
    const struct record *probe;
};

enum begin { FORWARD, GO, LEAVE };

/* The communicator `c` is known. */
#define OBSERVE_ON(name, c, forward)              \
    struct call call;                             \
    switch (scope_begin(&call, CALL_##name, c)) { \
    case FORWARD:                                 \
        return forward;                           \
    case LEAVE:                                   \
        return scope.code;                        \
    case GO:                                      \
        break;                                    \
    }

/* A call stepped aside costs one look at a flag; only then is its communicator looked up: `c`. */
#define OBSERVE(name, lookup, forward)                          \
    if (!atomic_load_explicit(&scope.on, memory_order_relaxed)) \
        return forward;                                         \
    struct comm *c = lookup;                                    \
    OBSERVE_ON(name, c, forward)

/* For calls that take a request and no communicator. */
#define WORLD (scope.ready ? scope.comms[0] : NULL)

/* scope.c */
bool scope_tables(void); /* makes room for them; false: no memory */
double scope_now(void);
void scope_lock(void);
bool scope_trylock(void);
void scope_unlock(void);
/* How a call begins: FORWARD it as it is (stepped aside, inside another call, from another
 * thread, on a communicator nobody knows), LEAVE with scope.code (the cell was broken), or GO. */
enum begin scope_begin(struct call *call, int name, const struct comm *comm);
/* The program does what the scope cannot follow: that ends a loop of tests and, if `blind`, all
 * judging until the next drain. */
void scope_unseen(bool blind);
/* How it ends: lets go of the lock, and reports an error of the scope's own to the program. */
int scope_end(const struct call *call, const struct comm *comm, int err);
void scope_event(const struct call *call, const struct comm *comm, int peer, int tag,
                 long long bytes, long long request);
/* Between two polls of a call that waits: MPI_SUCCESS to poll again, else leave with that code. */
int scope_pause(struct call *call);
void scope_tested(const struct call *call, bool success);
void scope_count(int row, int comm, int peer, int tag, int by);
void scope_forget(void);
void scope_refresh(void);
bool scope_polls(void); /* is the program in a loop of tests and nothing else? */
void scope_report(struct report *report);
void scope_tell(const struct report *reports, const struct verdict *verdict, int kind,
                const struct unreceived *left, int lefts, double seconds, int drained, bool failed);
struct comm *scope_comm(MPI_Comm handle);
int scope_comm_add(MPI_Comm handle); /* not under the lock: it waits for the other ranks */
void scope_comm_remove(struct comm *comm);
struct op *scope_op_add(int kind, MPI_Request request, struct comm *comm, int peer, int tag,
                        long long bytes);
struct op *scope_op_find(MPI_Request request);
void scope_op_remove(struct op *op);
void scope_op_complete(struct op *op, const MPI_Status *status);
bool scope_owned(const struct op *op);
/* Is the request complete? Leaves it to its owner. */
int scope_peek(struct op *op, int *done, MPI_Status *status);

/* scope_calls.c: waits for one request of the scope's own, then forgets it. */
int scope_wait(struct call *call, MPI_Request *request, MPI_Status *status);

/* scope_types.c: derived datatypes the program has made and not freed. */
long long scope_open_types(void);

/* scope_world.c */
void scope_start(void);
void scope_finish(void);

/* outside.c: without a notebook, under `ringside run`; elsewhere none of them does anything. */
void *scope_outside_room(size_t bytes);       /* for the events; NULL: take your own */
void scope_outside_begin(void);               /* MPI has begun, and the scope with it */
void scope_outside_told(const char *report);  /* of a break, before any call is left */
void scope_outside_left(MPI_Comm comm);       /* by the program's thread, before the error */
void scope_outside_end(void);                 /* MPI is about to end */

/* Names, in the order of their numbers. */
#define SCOPE_CALLS(X) \
    X(None) X(Send) X(Ssend) X(Bsend) X(Rsend) X(Recv) X(Sendrecv) X(Sendrecv_replace) X(Isend) \
    X(Issend) X(Ibsend) X(Irsend) X(Irecv) X(Probe) X(Iprobe) X(Mprobe) X(Improbe) X(Mrecv) \
    X(Imrecv) X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test) X(Testall) X(Testany) \
    X(Testsome) X(Send_init) X(Ssend_init) X(Bsend_init) X(Rsend_init) X(Recv_init) X(Start) \
    X(Startall) X(Request_free) X(Cancel) X(Barrier) X(Bcast) X(Reduce) X(Allreduce) X(Gather) \
    X(Gatherv) X(Scatter) X(Scatterv) X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv) \
    X(Alltoallw) X(Scan) X(Exscan) X(Reduce_scatter) X(Reduce_scatter_block) \
    X(Neighbor_allgather) X(Neighbor_allgatherv) X(Neighbor_alltoall) X(Neighbor_alltoallv) \
    X(Neighbor_alltoallw) X(Ibarrier) X(Ibcast) X(Ireduce) X(Iallreduce) X(Igather) X(Igatherv) \
    X(Iscatter) X(Iscatterv) X(Iallgather) X(Iallgatherv) X(Ialltoall) X(Ialltoallv) \
    X(Ialltoallw) X(Iscan) X(Iexscan) X(Ireduce_scatter) X(Ireduce_scatter_block) \
    X(Ineighbor_allgather) X(Ineighbor_allgatherv) X(Ineighbor_alltoall) \
    X(Ineighbor_alltoallv) X(Ineighbor_alltoallw) X(Comm_dup) X(Comm_dup_with_info) \
    X(Comm_split) X(Comm_split_type) X(Comm_create) X(Comm_create_group) X(Comm_free) \
    X(Comm_disconnect) X(Cart_create) X(Cart_sub) X(Graph_create) X(Dist_graph_create) \
    X(Dist_graph_create_adjacent) X(Finalize)

#define SCOPE_ENUM(name) CALL_##name,
enum { SCOPE_CALLS(SCOPE_ENUM) N_CALLS };
extern const char *const scope_names[N_CALLS];

#pragma GCC visibility pop

#endif
