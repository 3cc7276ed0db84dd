/* The scope: an observer between a program and its MPI library.
 *
 * libscope.so defines MPI_X for the calls named below and forwards each to PMPI_X (MPI standard,
 * chapter "Tool Support"). Loaded with global visibility before the program's MPI calls are bound
 * (from Python before mpi4py.MPI, elsewhere by LD_PRELOAD), it sees every one of them.
 *
 *   state.c        how a call begins, waits and ends; the program's threads; the events
 *   requests.c     the requests that are open
 *   counts.c       how many messages went where
 *   messages.c     sends, receives, probes, persistent requests
 *   lent.c         whether buffers are left alone while they are being sent, for exercises
 *   waits.c        Wait, Test and their like
 *   collectives.c  collectives, and their persistent forms
 *   comms.c        communicators: those there are, their making and freeing
 *   gate.c         where ranks meet before a call that cannot be left
 *   windows.c      one-sided communication
 *   files.c        collective file calls
 *   network.c      the lens: messages take the time of a network
 *   unjudged.c     calls that block, or move messages, and are not followed
 *   handlers.c     error handlers that the program has written
 *   types.c        derived datatypes that are not freed
 *   judge.c        from the reports of all ranks to a verdict (no MPI in it)
 *   rounds.c       the thread that talks to the other ranks
 *   drain.c        taking out what is stuck
 *   report.c       what a rank says of itself, to the others and to Python
 *   origins.c      where in the program a call was made
 *   outside.c      what is different without a notebook, under `ringside run`
 *
 * Who runs what. The program's threads make the calls. A blocking call is served as its
 * nonblocking form and polled, so that it can be left. The scope's own thread, one a rank, talks
 * to the others' threads on a private communicator, whatever the program is doing. One lock covers
 * all of it; a call holds it, a call that waits lets go of it between two polls.
 *
 * The world's ranks name everything here: `peer` is a rank of MPI_COMM_WORLD. */
#ifndef SCOPE_H
#define SCOPE_H

#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef I_MPI_NUMVERSION
#define I_MPI_NUMVERSION 0
#endif
/* Intel's calls itself 3.1 up to 2021.15, and has most of MPI 4 from 2021.13 on. */
#if MPI_VERSION >= 4 || I_MPI_NUMVERSION >= 20211300300
#define LARGE_COUNTS 1 /* the library has MPI_Send_c and its like */
#else
#define LARGE_COUNTS 0
#endif
#if LARGE_COUNTS || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define HAS_MPI_4 1 /* persistent collectives, Comm_create_from_group */
#else
#define HAS_MPI_4 0
#endif
#if HAS_MPI_4 && (!I_MPI_NUMVERSION || I_MPI_NUMVERSION >= 20211500300)
#define HAS_ISENDRECV 1
#else
#define HAS_ISENDRECV 0
#endif

#if LARGE_COUNTS
typedef MPI_Count count_t;
#define P(name) PMPI_##name##_c
#else
typedef int count_t;
#define P(name) PMPI_##name
#endif

/* The library shows the MPI calls and what Python asks for; all that is declared here it keeps to
 * itself, and so finds it without asking the linker's tables. */
#pragma GCC visibility push(hidden)

enum state { IDLE, COMPUTING, BLOCKED, POLLING };
enum mode { ALL, ANY };
enum need { SEND, RECV, PROBE, COLLECTIVE, WINDOW, BUFFER, UNKNOWN };
enum kind { RUNNING, STARVED, DEADLOCK, MISMATCH, SUSPECTED, STOPPED, CLEARED };
enum stop { NO_STOP, STOP_USER, STOP_STARVED, STOP_CLEAR, STOP_CLEAR_ALL };

enum { GONE = 1 };
enum { ANY_PEER = -1, NO_PEER = -2, ANY_LABEL = -1 };

/* One row of what a rank tells the others. */
enum row {
    WAITER = 1, /* a thread that waits: `waiter` its number, `kind` its mode, `name` its call */
    NEEDS,      /* what the thread `waiter` waits for */
    POSTED,     /* an open request; `count` of them alike */
    SENT,       /* `count` messages to `peer` under `tag` */
    RECEIVED,
    HELD,       /* messages that a matched probe took, and whose receive has not begun */
    ENTERED,    /* `index`: how many collectives it has entered on `comm`; GONE: and freed it */
    PLACE,      /* the collective it entered there as number `index`, where not yet compared */
    MEMBER,     /* `peer` belongs to `comm` */
    HOLDS,      /* it has locked `peer` of window `comm`, in the way `kind` */
    EXPOSES,    /* its own part of window `comm` to `peer`: it has posted that `index` times */
    ACCESSES,   /* that of `peer`. In these three `count` is 1 if it began in this cell */
    WORDS       /* what there is to say of the origin `origin`, or how it goes on: struct words */
};

enum { SHARED, EXCLUSIVE }; /* locks: HOLDS in `kind`, NEEDS in `tag` */

struct record {
    int row, kind;
    int comm;     /* number of the communicator, the same on all its ranks */
    int peer;     /* world rank, or ANY_PEER; PLACE: the root between two groups, as said there */
    int tag;      /* or ANY_LABEL; PLACE: root */
    int index;    /* COLLECTIVE, ENTERED, PLACE: how manieth on that communicator; SENT: cell */
    int waiter;   /* NEEDS, WAITER; PLACE: operation */
    int name;     /* WAITER, PLACE: which call */
    int type;     /* PLACE: which predefined datatype, -1 for another */
    int likeness; /* PLACE: what kind of number, 0 where not known */
    int count;    /* of rows alike, of messages; PLACE: elements, -1 where not all know it;
                     ENTERED: nonblocking ones that are open */
    int cell;     /* ENTERED: in which the last of them was entered */
    int origin;   /* WAITER, POSTED, PLACE: where the call was made; SENT: the last of them */
    long long size; /* bytes; PLACE: bytes that all have to agree on, -1 where they need not */
    long long given, taken; /* SENT, RECEIVED: of the messages, of integers and of floating point.
                               PLACE: bytes handed in and taken out; -1: they need not agree.
                               NEEDS, taken: receives that are complete and were not waited for */
    uint64_t balance; /* PLACE: of these, weighed by pairs of ranks, or of the root between two
                         groups; the ranks' sum has to be 0 */
    uint64_t detail; /* PLACE: other arguments that all have to agree on */
};

/* A record as well: a piece of text. */
struct words {
    int row, origin;
    char text[sizeof(struct record) - 2 * sizeof(int)];
};

/* What a rank says of itself: a header, then `rows` records. */
struct report {
    int rank, state, stop, rows, name, cell;
    bool ending;   /* in MPI_Finalize */
    bool settling; /* its cell has ended, and it asks what there is to say */
    bool blind;    /* it saw something it cannot model: nothing is proved */
    bool uncounted; /* it knows of messages that are in no count */
    bool did;      /* it has communicated in this cell */
    bool failed;   /* its cell has ended in an error */
    bool travels;  /* it waits only for messages that are on the network, which count as work */
    bool quiet;    /* to it nothing has changed for as long as a loop of tests may go on */
    bool late;     /* to it all cells have ended long enough ago to speak of what is left over */
    long long epoch; /* grows whenever anything here may have changed */
    double since;    /* seconds the rank has been in this call */
    struct record *row;
};

/* The place of a collective at which ranks called unlike ones, or which not all have entered. */
struct mismatch {
    bool found;
    int comm, index;
    bool in_step; /* it was taken out at the end of a cell that all had run past it */
    bool stale;   /* and before that cell, too, some had entered more than others */
};

struct verdict {
    int kind;
    int stuck;      /* how many ranks */
    bool *is_stuck; /* one a rank */
    bool suspicion; /* no proof: a loop of tests is taken for waiting */
    struct mismatch mismatch;
};

/* Messages the judge found sent and not yet received. */
struct unreceived {
    int source, dest, comm, tag;
    long long count;
    int cell; /* in which the last of them was sent */
    int origin; /* and where, as its sender numbers it */
};

/* Messages sent and not received: a fresh array for the caller to free, NULL without memory. */
struct unreceived *scope_left(int n, const struct report *reports, int *lefts);

/* Of these, the ones nobody has posted a receive for. Changes `left` in place. */
int scope_unclaimed(int n, const struct report *reports, struct unreceived *left, int lefts);

/* Judges the reports of all n ranks. `before` holds the epochs of the round before: only ranks
 * that did not move between two rounds are ever called stuck. `quiet`: nothing has changed for so
 * long that loops of tests are suspected. Fills `verdict`, whose is_stuck has room for n. */
void scope_judge(int n, const struct report *reports, const long long *before,
                 const struct unreceived *left, int lefts, bool quiet, struct verdict *verdict);

/* The ranks before whom `need` of `rank` cannot be met, as the judge sees it: one bool a rank. */
void scope_targets(int n, const struct report *reports, int rank, const struct record *need,
                   bool *target);

/* The collective a rank entered as number `index`, or NULL. */
const struct record *scope_place(const struct report *report, int comm, int index);
const struct record *scope_entered(const struct report *report, int comm);
struct mismatch scope_partly_entered(const struct report *reports); /* rounds.c */
bool scope_alike(const struct record *a, const struct record *b);

/* A place where ranks meet in order: a communicator the program made, whose collectives travel on
 * `shadow`, another of the same ranks that can be given up with whatever is stuck in it; or
 * something else that ranks enter together (a group, a window, a persistent collective), which has
 * no shadow. */
struct comm {
    MPI_Comm handle, shadow;
    int number, size, rank, entered;
    int cell;      /* in which it was entered last */
    int remote;    /* of an intercommunicator: how many ranks; `world` has them after the own */
    int *world;    /* world rank of each member */
    struct record *place; /* those entered and not yet compared with the others', in order */
    int places, room;
    uint64_t history; /* a hash of all entered up to number `hashed`, for gates */
    int hashed;
    bool lost; /* a break leaves the shadow with what cannot be ended */
    long long gone; /* the program has freed it, as the how manieth; 0: it has not (comms.c) */
    bool spent;     /* it is kept for good: others are stuck in it */
    int hidden;       /* a keyval: its attribute holds a duplicate that a library made for itself */
    int released;     /* the number at whose gate a break found this rank let through */
    bool freed;       /* the meeting place of a persistent collective that is no longer there */
    bool lasting;     /* the meeting place of a window or a file that is still there */
};

/* A request that is open, or a persistent one. */
struct op {
    MPI_Request request;
    struct op *next; /* of the same hash */
    struct comm *comm;
    struct comm *under; /* of a persistent collective: the communicator it was made on */
    struct op *twin; /* the send of a sendrecv: it is complete when this is */
    long long bytes, serial;
    long long window; /* the loop of tests that asked for it last */
    /* Under the network lens: its message, when the receive was posted, when the library first had
     * it complete, and when it is there, once that is known (scheduled). */
    struct flight *flight;
    double posted, completed, arrival;
    int generation;
    bool scheduled;
    int kind, peer, tag, index, name, cell, origin;
    char number; /* RECV, and persistent SEND: what kind of number it carries */
    bool persistent, active;
    bool counted;   /* it is complete, and its message is in the counts */
    bool cancelled; /* somebody asked for that: whether it was, its status tells */
    bool dead;      /* a break took it out: who waits for it is told so */
    bool freed;     /* by the program while it was open: the scope gives it back */
    bool peeked;    /* `status`, and `failed` if it is an error, is what scope_peek saw */
    bool given_up;    /* a persistent collective whose shadow a break left behind */
    bool generalized; /* its request is the scope's, complete when the parts are */
    bool makes;       /* a communicator */
    MPI_Request part[3];
    void *given; /* memory that goes with it */
    struct lent *lent; /* of a nonblocking send, where exercises are checked */
    MPI_Status status;
    int failed;
};

struct event {
    double start, end, blocked;
    long long bytes, request, seq;
    int call, peer, tag, comm;
    int left; /* by a break, so its message was never delivered */
    int origin;
};

/* What a loop of tests costs its thread, in seconds: of its own computing, of waiting for a core,
 * and by the clock. It sleeps when it gives up its core by itself. */
struct effort {
    double at, computed, queued;
    long long tests, sleeps;
};

/* An error of the library's, or of what a call was given, in the program's terms. */
struct mishap {
    int code;       /* what the call returns */
    bool raised;    /* the scope hands it to the program's handler */
    char call[256]; /* "MPI_Send to rank 1, tag 5" */
    char cut[256];  /* what is wrong, where the library would not know, or not say it well */
    MPI_Comm fatal; /* whose handler is to end the program: what for it was told */
    int fatal_code;
};

/* A thread of the program that has called MPI. */
struct thread {
    struct thread *next;
    int depth;            /* inside a call */
    bool away;            /* inside a call, and not holding the lock */
    struct call *waiting; /* the call in which it waits, if it does */
    clockid_t clock;
    pid_t id;
    int number; /* the main thread's is 0 */
    char left[256];       /* what it is told of the call that the last break took it out of */
    struct mishap mishap; /* what went wrong in its last call */
    bool holds_python;    /* while it waits, it has Python's lock */
    bool rests;           /* for the last half second it has hardly been on a core */
    double looked, used;

    /* a loop of unsuccessful tests, and the probe in it, if there is one */
    long long window, tests;
    double start, last, gap; /* its last test, its longest time without one */
    struct effort first, spent; /* at its first sample, and since */
    MPI_Comm attributed; /* the last call was MPI_Comm_set_attr on it, with this keyval */
    int keyval;
    int call, requests, origin;
    int name;     /* the call in which it is, while depth > 0 */
    bool mixed;   /* the loop does not repeat one call on the same requests */
    bool unknown; /* among them is one that the scope knows nothing of */
    struct record probe;
};

/* A call whose other side is no rank. */
struct unranked {
    int name, peer, origin;
    bool receives;
};

struct scope {
    pthread_mutex_t lock;
    pthread_cond_t bell;  /* the scope's thread has something to do */
    pthread_cond_t settled;
    atomic_int wanted;    /* somebody waits for the lock */
    atomic_bool on, ready, insist, stepping;
    pthread_cond_t go_on; /* who is stopped before a call may have been let go */
    int steps;            /* calls that may be made until the next one is stopped before */
    int held;             /* the call before which this rank is stopped, NOT_HELD */
    bool insist_next; /* what the next cell begins with */
    atomic_int stop;
    atomic_bool leaving; /* in exit(), and MPI_Finalize was not called */
    bool busy, raise, ending, over, crowded;
    bool broken, delivered; /* in this cell: a break, and a call that raised it */
    atomic_int refused;     /* calls in this cell after the break, all of which have failed */
    bool did;               /* communicated in this cell */
    bool failed;            /* the cell has ended in an error, and nothing was cleared since */
    bool network;           /* messages are delayed */
    bool checking;          /* an exercise: what nobody is told of otherwise is counted */
    long long never_completed; /* operations whose requests were freed while they were open */
    long long changed;      /* buffers that were changed while they were being sent */
    bool unhide;            /* what libraries keep in attributes may be out of step */
    bool partly;    /* ranks had not all been in a collective, when that was last looked for */
    bool unclaimed; /* something is left over that nobody has spoken of yet */
    bool settling, doubting; /* wants a round: at a cell's end, after a library's error */
    int settlings;           /* rounds held while it was settling */
    int cell;
    double began; /* the cell that runs, or the last one */
    struct thread *threads;
    atomic_int helpers; /* threads of the program that have not called MPI yet */
    pthread_t thread;
    MPI_Comm private;
    int greatest_tag;
    int rank, size;
    int code;    /* the MPI error code of a call that was left */
    int no_rank, no_tag; /* and of one that was given what cannot be */
    int no_room;         /* of a receive that got more than it has room for */

    struct window *open_windows;
    struct file *open_files;
    struct comm **comms;
    int n_comms;
    long long gone; /* communicators freed so far */
    atomic_int made; /* communicators, windows and files this rank was first to number */

    struct op **ops; /* a hash table */
    int n_ops, room_ops;
    int making; /* MPI_Comm_idup that are under way */
    long long serial;

    int origin; /* of the call that has the lock */
    struct count *counts;
    int n_counts, room_counts;
    const char *unjudged[8]; /* calls that cannot be judged, until the next drain */
    int n_unjudged;
    bool blind; /* without memory for what would have to be known */
    bool uncounted; /* messages have been sent or received within a callback */

    bool in_flight; /* the last round saw what it waits for on its way */
    long long epoch, windows;
    double quiet_limit; /* seconds after which a loop of tests is suspected */

    struct event *events;
    long long n_events;

    int generation, round;
    struct report *last;     /* the reports of the last round */
    struct verdict verdict;  /* what came of them */
    long long verdict_epoch; /* this rank's epoch in it */
    char *told;  /* the last break as text for Python */
    char *first; /* the first of this cell */
    char *leftover; /* what is left over that this rank is to speak of */
    char *misread;  /* a message of this rank's whose numbers are others than were sent */
    struct unranked unranked[8]; /* of this cell, each line once */
    int n_unranked;
};

extern struct scope scope;

/* Every observed call. `requests` or `probe` say what it waits for. */
struct call {
    double start, pause; /* pause: when it first had to wait, 0 if it never did */
    int name, mode, generation, origin;
    int peer, tag;   /* as the call was given them, by scope_check */
    int checks;      /* how many it was given */
    bool receives;
    bool left;
    bool complete; /* what it waited for was, though it was to be left */
    bool early;    /* it ends with the first of its requests that fails */
    bool silent;   /* an error of the library's was not handed to the program's handler yet */
    long polls;
    struct thread *thread;
    const MPI_Request *requests;
    int n_requests;
    const struct record *probe; /* what it waits for besides: n_probes of them */
    int n_probes;
};

enum begin { FORWARD, GO, LEAVE, NO_COMM };

/* A call stepped aside costs one look at a flag; only then is its communicator looked up: `c`. */
#define OBSERVE(name, handle, forward)                             \
    if (!atomic_load_explicit(&scope.on, memory_order_relaxed))    \
        return forward;                                            \
    if (atomic_load_explicit(&scope.stepping, memory_order_relaxed)) \
        scope_hold(CALL_##name);                                   \
    struct comm *c = NULL;                                         \
    struct call call;                                              \
    switch (scope_begin(&call, CALL_##name, handle, &c)) {         \
    case FORWARD:                                                  \
        return forward;                                            \
    case LEAVE:                                                    \
        return scope.code;                                         \
    case NO_COMM:                                                  \
        return MPI_ERR_COMM;                                       \
    case GO:                                                       \
        call.origin = scope.origin = scope_origin(__builtin_return_address(0)); \
        break;                                                     \
    }

/* The same for a call whose arguments the scope looks at: of one that is missing the library says so
 * by itself. */
#define OBSERVE_GIVEN(given, name, handle, forward)                \
    OBSERVE(name, handle, forward)                                 \
    if (!(given))                                                  \
        return scope_end(&call, c, forward);

/* NULL is a status only where it means that none is wanted. */
#define HAS_STATUS(status) ((status) != NULL || MPI_STATUS_IGNORE == NULL)
#define HAS_STATUSES(n, statuses) ((n) == 0 || (statuses) != NULL || MPI_STATUSES_IGNORE == NULL)
#define HAS_MANY(n, of) ((n) == 0 || ((n) > 0 && (of) != NULL))

#define STRIP(...) __VA_ARGS__

/* For calls that take a request and no communicator. */
#define WORLD (scope.comms[0])

/* step.c */
enum { NOT_HELD = -1 };
void scope_hold(int name); /* waits until its reader lets the rank make this call */

/* state.c */
bool scope_tables(void); /* makes room for them; false: no memory */
double scope_now(void);
double scope_after(void); /* seconds since this rank's last call in the cell, or the cell's begin */
void scope_lock(void);
bool scope_trylock(void);
bool scope_inside(void); /* is this thread in an MPI call, or is it the scope's own? */
int scope_inside_call(void); /* in which MPI call this thread is; -1: in none */
void scope_unlock(void);
/* How a call begins: FORWARD it as it is (stepped aside, inside another call, on a communicator
 * nobody knows), LEAVE with scope.code (the cell was broken), refuse one that the program has freed,
 * or GO with the lock held and `c`. */
enum begin scope_begin(struct call *call, int name, MPI_Comm handle, struct comm **c);
/* How it ends: lets go of the lock, and reports an error of the scope's own to the program. */
int scope_end(const struct call *call, const struct comm *comm, int err);
/* Notes that a receive had no room for its message; `size`: of the message, 0 where not known. */
void scope_note_cut(const struct comm *c, const MPI_Status *status, long long size, long long room);
/* Is this an error of a call that the scope serves, whose end will tell it? */
bool scope_defers(MPI_Comm comm, int code);
struct mishap *scope_mishap(void); /* this thread's last; NULL: it never called */
int scope_thread_number(void);
bool scope_is_python(void); /* outside.c */
int scope_code(int code); /* an error of the scope's own, as the program is to get it */
/* The program does what the scope cannot follow: says so, and proves nothing until a drain. */
void scope_unjudged(const char *name);
void scope_event(const struct call *call, const struct comm *comm, int peer, int tag,
                 long long bytes, long long request);
/* Between two polls of a call that waits: MPI_SUCCESS to poll again, else leave with that code. */
int scope_pause(struct call *call);
/* An error of the library's in a collective may come of one unlike it elsewhere: waits for rounds
 * that would say so. Returns scope.code if one did, else the error. */
int scope_second_opinion(struct call *call, int err);
void scope_tested(const struct call *call, bool success);
bool scope_polls(const struct thread *thread); /* in a loop of tests and nothing else? */
bool scope_any_polls(void);
bool scope_sleeps(const struct thread *thread); /* for another thread, and in no call */
bool scope_rests(struct thread *thread); /* it does not compute */
bool scope_any_waits(double since);
void scope_watch_helpers(double now);
bool scope_helpers_rest(void); /* threads that never called MPI do not compute */
void scope_attributed(MPI_Comm comm, int keyval); /* it is being given that attribute */
/* Out of the lock for a call that waits for the other ranks inside the library, and back. */
void scope_step_out(struct call *call);
void scope_step_in(struct call *call);
void scope_step_alone(struct call *call);
void scope_step_back(struct call *call);
bool scope_away(void);

/* outside.c: without a notebook, under `ringside run`; elsewhere none of them does anything. */
void *scope_outside_room(size_t bytes);      /* for the events; NULL: take your own */
void scope_outside_before(void);            /* MPI is about to begin */
void scope_outside_begin(int threads);       /* MPI has begun, with this level of threads asked */
void scope_outside_told(const char *report); /* of a break, before any call is left */
void scope_outside_left(MPI_Comm comm);      /* by the program's thread, before the error */
bool scope_outside_wanted(void);             /* under `ringside run` */
bool scope_outside_is_fatal(MPI_Errhandler handler); /* does it end the program, and say why? */
void scope_outside_fails(const struct mishap *mishap); /* it is to end of this */
void scope_outside_left_over(const char *text); /* by one rank, at their end: JSON */
void scope_outside_origin(int origin, const char *text); /* there is one that was not known */
void scope_outside_end(void);                /* MPI is about to end */
void scope_outside_ended(void);              /* MPI has ended */
bool scope_outside_compiled(void);           /* a program under `ringside run`, and not in Python */

/* requests.c */
struct op *scope_op_add(int kind, MPI_Request request, struct comm *comm, int peer, int tag,
                        long long bytes);
void scope_op_posted(struct op *op); /* it begins, or, persistent, begins again */
struct op *scope_op_find(MPI_Request request);
void scope_op_remove(struct op *op);
void scope_op_complete(struct op *op, const MPI_Status *status);
void scope_ops_of_comm(const struct comm *comm);
void scope_refresh(void);
/* Is the request complete? Leaves it to its owner. */
int scope_peek(struct op *op, int *done, MPI_Status *status);
int scope_look(struct op *op, int *done, MPI_Status *status);
/* Every op, in no order: for (struct op *op = scope_first(); op; op = scope_next(op)) */
struct op *scope_first(void);
struct op *scope_next(const struct op *op);

/* counts.c */
void scope_count(int row, int comm, int peer, int tag, int by, char number, int origin);
void scope_settle_counts(const struct report *reports);
void scope_forget_counts(void);
void scope_count_rows(struct report *report, int *room);

/* messages.c */
long long scope_bytes(count_t count, MPI_Datatype type);
int scope_check(struct call *call, const struct comm *c, int peer, int tag, bool receives);
int scope_generalized(MPI_Request *request); /* a request of the scope's own, for the program */
/* The data of a buffer, for the caller to free. */
int scope_packed(const struct comm *c, const void *buf, count_t count, MPI_Datatype type,
                 void **copy, count_t *used);
void scope_drop_messages(void); /* what matched probes took is given up */
void scope_forget_held(const struct comm *comm);
void scope_forget_flights(void); /* of what matched probes took */

/* lent.c */
void scope_lend(struct op *op, const void *buf, count_t count, MPI_Datatype type);
void scope_give_back(struct op *op);
void scope_forget_lent(struct op *op);

/* waits.c: one test of one request of the program's; `was` tells of it for the event. */
int scope_test(MPI_Request *request, int *done, MPI_Status *status, struct op *was);
/* waits for one request of the scope's own, then forgets it. */
int scope_wait(struct call *call, MPI_Request *request, MPI_Status *status);
int scope_bury(MPI_Request *request, struct op *op);
void scope_event_of(const struct call *call, const struct op *was);
MPI_Status scope_no_status(void); /* for a library to fill in */
void scope_copy_status(MPI_Status *to, const MPI_Status *from);
long long scope_received(const MPI_Status *status);
int scope_truncated(const struct comm *c, const MPI_Status *status, long long room);

/* collectives.c */
enum { NO_ROOT = INT_MIN, NO_OPERATION = -1 };
#define ROOT_GROUP(first) (-1 - (first)) /* there and back */
/* This rank enters the next collective of the communicator. */
struct record *scope_enter(struct comm *c, int name, int root);
bool scope_can_join(const struct comm *c, const struct record *place);
int scope_join(struct comm *c, const struct record *place, MPI_Request *request, void **scrap);
uint64_t scope_mix_place(uint64_t hash, const struct record *place);
void scope_hash_last(struct comm *c);
int scope_operation(MPI_Op op);
int scope_type(MPI_Datatype type);
enum { SCOPE_LIKENESS = 64 };
char scope_number(MPI_Datatype type); /* 'i': integers, 'f': with a point, 0: not known */
const char *scope_likeness(int likeness, char text[SCOPE_LIKENESS]);
const char *scope_operation_name(int operation);

/* comms.c */
struct comm *scope_comm(MPI_Comm handle);
/* World rank of a rank given to a point-to-point call on it; ANY_PEER, or NO_PEER. */
int scope_peer(const struct comm *comm, int rank);
int scope_comm_add(MPI_Comm handle); /* not under the lock: it waits for the other ranks */
void scope_comm_remove(struct comm *comm);
/* Its errors are returned, and to the scope alone; gives who hears of them else. */
MPI_Errhandler scope_mute(MPI_Comm comm);
void scope_unmute(MPI_Comm comm, MPI_Errhandler before);
int scope_peek_idup(struct op *op, int *done);
void scope_advance_idups(void);
void scope_finish_idups(const struct comm *c); /* once all ranks are past a gate on it */
int scope_join_idup(struct comm *c, int index, MPI_Request *request, void **scrap);
void scope_compared(const struct report *reports);
int scope_shadow(const struct comm *c, MPI_Comm *shadow);
void scope_finish_comms(void);
/* A meeting place without a communicator: found by its number, or made. Under the lock. */
struct comm *scope_meeting(int number, const int *world, int n);
int scope_new_number(const struct comm *c, int *number); /* collective over it */
int scope_hash(int a, int b); /* a number for such a place, below all of communicators */
bool scope_world_ranks(MPI_Group group, int **world, int *n);
void scope_forget_comm(struct comm *c);
void scope_forget_comms(void);
void scope_unhide(void); /* not under the lock: the library calls back */

/* gate.c: waits until all members of `c` have come to the collective it has entered last, with all
 * of them alike so far. Leaves with scope.code; once through, nobody is left behind. */
int scope_gate(struct call *call, struct comm *c);
/* One word to another rank under a key; and waiting for one from each of n ranks. */
void scope_token(int to, int key);
int scope_await(struct call *call, int n, const int *from, int key);
bool scope_token_there(int from, int key);
void scope_word_sent(int to);
void scope_word_received(int from);
/* With all ranks held: takes out the words on their way. False: it took too long. */
bool scope_drain_tokens(double limit);
void scope_finish_tokens(void);
/* Runs `work` on a copy of `given` in a thread of its own, while this call waits for `needs`, and
 * can be left. `given` then is what the work has made of it. */
int scope_aside(struct call *call, int (*work)(void *given), void *given, size_t size,
                const struct record *needs, int n);

/* handlers.c: an error of the library's, also one that its call has not returned. */
int scope_heard(int err);
int scope_note(MPI_Comm comm, int err); /* within a call, for its end; returns the error */
/* Tells the program's handler of an error, or, at a call's end, of what the library has told it; gives
 * what the call returns. Outside of the lock: it may never come back. */
int scope_raise(MPI_Comm comm, int err);
int scope_tell_handler(int err);
void scope_deaf(void); /* this thread calls none of them */

/* types.c: derived datatypes the program has made and not freed. */
long long scope_open_types(void);
long long scope_types_made(void);

/* windows.c */
void scope_window_rows(struct report *report, int *room);
void scope_forget_windows(void); /* their epochs */
void scope_finish_windows(void);
/* With all ranks held: ends the epochs that are open. False: it took too long. */
bool scope_mend_windows(const struct report *reports, double limit);

/* network.c; what it does is said there */
struct flight *scope_depart(const struct comm *c, int dest, int tag, long long bytes);
void scope_departed(struct flight *flight, bool at_once);
void scope_stays(struct flight *flight);
struct flight *scope_taken(const struct comm *c, int source, int tag);
bool scope_held(struct op *op); /* asked only while scope.network */
void scope_op_landed(struct op *op);
bool scope_unseen(const struct comm *c, int source, int tag);
void scope_clear_network(void);
void scope_network_advance(bool inside);
void scope_network_call(void);
bool scope_travels(void);
double scope_due(const struct call *call);
void scope_say_network(char *text, size_t room);

/* files.c */
void scope_finish_files(void);

/* report.c */
struct record *scope_row(struct report *report, int kind_of_row, int *room);
void scope_report(struct report *report); /* its rows are the caller's to free. Under the lock */
void scope_tell(const struct report *reports, const struct verdict *verdict, int kind,
                const struct unreceived *left, int lefts, double seconds, int drained,
                int renewed, bool failed);
void scope_tell_inside(int name); /* this rank exits from within that call: says so */
void scope_tell_abort(int code); /* this rank ends all: notes it for the notebook */
char *scope_call_words(int name); /* the collective it has entered last, if it was that call */
void scope_tell_misread(const struct report *reports, const struct record *received, int sent_at,
                        bool wholes);
void scope_tell_left(const struct report *reports, const struct unreceived *left, int lefts,
                     const struct mismatch *partly);
/* At the program's end. */
void scope_tell_last(const struct report *reports, const struct unreceived *left, int lefts,
                     const struct mismatch *partly);
char *scope_settled_text(void);

/* origins.c. The number of the place where the call is made that returns to `caller`, 0 where not
 * known; and its text: "12\tshift\tring.py", line and function and file of Python, without a file in
 * the cell that runs, or "0x1234\tring", address and binary. Under the lock. */
enum { SCOPE_ORIGIN = 1024 };
int scope_origin(const void *caller);
void scope_say_origin(int origin, char text[SCOPE_ORIGIN]);
/* The text of an address in C, of the call behind which it lies. False: the scope's own, or nobody's. */
bool scope_address(const void *at, char text[SCOPE_ORIGIN]);
void scope_learn_python(void); /* MPI begins: how Python's frames are made */

/* drain.c */
bool scope_strayed(const struct report *reports, int comm);
bool scope_put_in_step(void); /* a collective that only some called in a cell is taken out */
void scope_break(const struct report *reports, const struct unreceived *left, int lefts,
                 const struct verdict *verdict, int kind);
void scope_take_last(struct unreceived *left, int lefts); /* in MPI_Finalize, on all ranks */

/* rounds.c */
void scope_start(void);
void scope_finish(void);
void scope_nap(double seconds);
bool scope_is_quiet(void);
bool scope_is_idle(void);
bool scope_complete(MPI_Request *request, bool keep_lock, double limit);
struct report *scope_exchange(bool keep_lock, double limit);
void scope_free_reports(struct report *reports);

/* Names, in the order of their numbers. */
#define SCOPE_CALLS(X) \
    X(None) X(Send) X(Ssend) X(Bsend) X(Rsend) X(Recv) X(Sendrecv) X(Sendrecv_replace) X(Isend) \
    X(Issend) X(Ibsend) X(Irsend) X(Irecv) X(Isendrecv) X(Isendrecv_replace) X(Probe) X(Iprobe) \
    X(Mprobe) X(Improbe) X(Mrecv) \
    X(Imrecv) X(Wait) X(Waitall) X(Waitany) X(Waitsome) X(Test) X(Testall) X(Testany) \
    X(Testsome) X(Request_get_status_all) X(Request_get_status_any) X(Request_get_status_some) \
    X(Request_get_status) X(Send_init) X(Ssend_init) X(Bsend_init) X(Rsend_init) \
    X(Recv_init) X(Start) \
    X(Startall) X(Request_free) X(Cancel) X(Buffer_detach) X(Comm_detach_buffer) \
    X(Buffer_flush) X(Comm_flush_buffer) \
    X(Barrier) X(Bcast) X(Reduce) X(Allreduce) X(Gather) \
    X(Gatherv) X(Scatter) X(Scatterv) X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv) \
    X(Alltoallw) X(Scan) X(Exscan) X(Reduce_scatter) X(Reduce_scatter_block) \
    X(Neighbor_allgather) X(Neighbor_allgatherv) X(Neighbor_alltoall) X(Neighbor_alltoallv) \
    X(Neighbor_alltoallw) X(Ibarrier) X(Ibcast) X(Ireduce) X(Iallreduce) X(Igather) X(Igatherv) \
    X(Iscatter) X(Iscatterv) X(Iallgather) X(Iallgatherv) X(Ialltoall) X(Ialltoallv) \
    X(Ialltoallw) X(Iscan) X(Iexscan) X(Ireduce_scatter) X(Ireduce_scatter_block) \
    X(Ineighbor_allgather) X(Ineighbor_allgatherv) X(Ineighbor_alltoall) \
    X(Ineighbor_alltoallv) X(Ineighbor_alltoallw) \
    X(Barrier_init) X(Bcast_init) X(Reduce_init) X(Allreduce_init) X(Gather_init) \
    X(Gatherv_init) X(Scatter_init) X(Scatterv_init) X(Allgather_init) X(Allgatherv_init) \
    X(Alltoall_init) X(Alltoallv_init) X(Alltoallw_init) X(Scan_init) X(Exscan_init) \
    X(Reduce_scatter_init) X(Reduce_scatter_block_init) X(Neighbor_allgather_init) \
    X(Neighbor_allgatherv_init) X(Neighbor_alltoall_init) X(Neighbor_alltoallv_init) \
    X(Neighbor_alltoallw_init) \
    X(Comm_dup) X(Comm_dup_with_info) X(Comm_idup) X(Comm_idup_with_info) \
    X(Comm_split) X(Comm_split_type) X(Comm_create) X(Comm_create_group) \
    X(Comm_create_from_group) X(Comm_free) \
    X(Comm_disconnect) X(Cart_create) X(Cart_sub) X(Graph_create) X(Dist_graph_create) \
    X(Dist_graph_create_adjacent) X(Intercomm_create) X(Intercomm_merge) \
    X(Win_create) X(Win_allocate) X(Win_allocate_shared) X(Win_create_dynamic) X(Win_free) \
    X(Win_fence) X(Win_start) X(Win_complete) X(Win_post) X(Win_wait) X(Win_test) X(Win_lock) \
    X(Win_lock_all) X(Win_unlock) X(Win_unlock_all) X(Win_flush) X(Win_flush_all) \
    X(Win_flush_local) X(Win_flush_local_all) \
    X(File_open) X(File_close) X(File_set_view) X(File_set_size) X(File_preallocate) \
    X(File_set_info) X(File_set_atomicity) X(File_sync) X(File_read_all) X(File_write_all) \
    X(File_read_at_all) X(File_write_at_all) X(File_read_ordered) X(File_write_ordered) \
    X(File_seek_shared) X(File_read_all_begin) X(File_read_all_end) X(File_write_all_begin) \
    X(File_write_all_end) X(File_read_at_all_begin) X(File_read_at_all_end) \
    X(File_write_at_all_begin) X(File_write_at_all_end) X(File_read_ordered_begin) \
    X(File_read_ordered_end) X(File_write_ordered_begin) X(File_write_ordered_end) \
    X(File_iread_all) X(File_iwrite_all) X(File_iread_at_all) X(File_iwrite_at_all) \
    X(Comm_spawn) X(Comm_spawn_multiple) X(Comm_accept) X(Comm_connect) X(Comm_join) \
    X(Psend_init) X(Precv_init) X(Intercomm_create_from_groups) X(Session_flush_buffer) \
    X(Session_detach_buffer) X(Session_finalize) X(Buffer_iflush) X(Comm_iflush_buffer) \
    X(Session_iflush_buffer) X(Finalize)

#define SCOPE_ENUM(name) CALL_##name,
enum { SCOPE_CALLS(SCOPE_ENUM) N_CALLS };
extern const char *const scope_names[N_CALLS];

#pragma GCC visibility pop

#endif
