/* The network lens: messages take the time that they would on a network between the ranks. See
 * scope.h.
 *
 * Who sends notes when, in a table that the ranks of this machine share. Who receives, or its
 * scope's thread while it computes, finds that the library has the message, looks the note up and
 * works out when the message would have been there; until then the program is told that it is not.
 * What the library does stays as it is: data, order, wildcards, and what the judge counts. Nothing
 * is faster than on the machine.
 *
 * A message can begin to travel when it is sent, if the library took it at once (eager), and else
 * when its receive is posted, too (rendezvous). It takes the way out of its node and the way into
 * the receiver's for bytes/bandwidth, one message at a time on each, and is there `latency` later.
 * A send that waits for its receiver is complete then, too. Within a node nothing is delayed. */
#define _GNU_SOURCE
#include "scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FLIGHTS = 4096, SPANS = 256 };

/* A message under way. */
struct flight {
    bool used, decided, eager, received, scheduled;
    bool awaited; /* its sender will ask for the arrival */
    int source, dest, comm, tag, generation;
    long long bytes, number;
    double sent, arrival;
};

/* One way out of a node, or into it: when it has been taken, or will be. */
struct way {
    unsigned n;
    struct span {
        double begin, end;
    } span[SPANS];
};

struct table {
    atomic_int made; /* 0: not yet, 1: somebody is about to, 2: it is */
    pthread_mutex_t lock;
    long long number;
    int top; /* no flight beyond it is used */
    struct flight flight[FLIGHTS];
    struct way way[]; /* `nodes` out, then `nodes` in */
};

static struct {
    struct table *table;
    size_t size;
    double latency, bandwidth; /* seconds; bytes a second */
    int nodes;
    bool progress;
} network;

/* As a rank may die at any time, also with the lock. */
static void lock(void) {
    if (pthread_mutex_lock(&network.table->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&network.table->lock);
}

static void unlock(void) { pthread_mutex_unlock(&network.table->lock); }

static int node_of(int rank) { return (int)((long long)rank * network.nodes / scope.size); }

/* ---- the ways ---- */

/* The first time from `begin` on at which the way is free for that long. */
static double free_from(const struct way *way, double begin, double seconds) {
    for (bool again = true; again;) {
        again = false;
        for (unsigned i = 0; i < way->n; i++) {
            const struct span *s = &way->span[i];
            if (s->begin < begin + seconds && begin < s->end) {
                begin = s->end;
                again = true;
            }
        }
    }
    return begin;
}

/* Spans that touch are one; where there is no room, the one that ended first is forgotten. */
static void take(struct way *way, double begin, double seconds) {
    const double end = begin + seconds, touch = 1e-9;
    struct span *oldest = &way->span[0];
    for (unsigned i = 0; i < way->n; i++) {
        struct span *s = &way->span[i];
        if (begin - s->end < touch && s->end - begin < touch) {
            s->end = end;
            return;
        }
        if (s->end < oldest->end)
            oldest = s;
    }
    *(way->n < SPANS ? &way->span[way->n++] : oldest) = (struct span){begin, end};
}

/* When the message is there, if it can begin to travel at `ready`. */
static void schedule(struct flight *f, double ready) {
    struct way *out = &network.table->way[node_of(f->source)];
    struct way *in = &network.table->way[network.nodes + node_of(f->dest)];
    const double seconds = (double)f->bytes / network.bandwidth;
    double begin = ready, before;
    do { /* the head of the message is at the way in `latency` after it has left */
        before = begin;
        begin = free_from(out, begin, seconds);
        begin = free_from(in, begin + network.latency, seconds) - network.latency;
    } while (begin > before + 1e-9);
    if (seconds > 0) {
        take(out, begin, seconds);
        take(in, begin + network.latency, seconds);
    }
    f->arrival = begin + network.latency + seconds;
    f->scheduled = true;
}

/* ---- the flights ---- */

static void release(struct flight *f) {
    struct table *table = network.table;
    f->used = false;
    while (table->top > 0 && !table->flight[table->top - 1].used)
        table->top--;
}

/* ---- who sends ---- */

/* A send is about to begin. NULL: its message is not delayed. */
struct flight *scope_depart(const struct comm *c, int dest, int tag, long long bytes) {
    struct flight *f = NULL;
    if (!scope.network || dest < 0 || node_of(dest) == node_of(scope.rank))
        return NULL;
    lock();
    for (int i = 0; i < FLIGHTS && !f; i++) {
        struct flight *one = &network.table->flight[i];
        if (one->used && one->generation == scope.generation)
            continue;
        f = one;
        network.table->top = network.table->top > i ? network.table->top : i + 1;
    }
    if (f)
        *f = (struct flight){.used = true,
                             .source = scope.rank,
                             .dest = dest,
                             .comm = c->number,
                             .tag = tag,
                             .generation = scope.generation,
                             .bytes = bytes,
                             .number = ++network.table->number,
                             .sent = scope_now()};
    unlock();
    return f;
}

/* It has begun. at_once: the library has taken the message already. */
void scope_departed(struct flight *f, bool at_once) {
    if (!f)
        return;
    lock();
    f->eager = at_once;
    f->awaited = !at_once;
    f->decided = true;
    unlock();
}

/* The send failed: there is no message. */
void scope_stays(struct flight *f) {
    if (!f)
        return;
    lock();
    release(f);
    unlock();
}

/* A send that the library has complete: does it still wait for its message to arrive? What no
 * receive was seen for in that time went into a buffer, though not at once. */
static bool send_is_held(struct op *op) {
    static const double unseen = 0.5;
    const double now = scope_now();
    if (!op->flight)
        return false;
    if (!op->scheduled) {
        lock();
        op->scheduled = op->flight->scheduled;
        op->arrival = op->flight->arrival;
        const bool received = op->flight->received;
        unlock();
        op->completed = op->completed > 0 ? op->completed : now;
        if (!op->scheduled) /* a receive that has it, and no arrival: of a rank outside MPI */
            return received || now - op->completed < unseen;
    }
    return now < op->arrival;
}

/* ---- who receives ---- */

/* How many receives got a message of that kind before one posted then, and have not looked for it
 * yet: the library gives messages to receives in the order of both. */
static int earlier(const struct comm *c, int source, int tag, double posted) {
    int n = 0;
    for (struct op *op = scope_first(); op; op = scope_next(op)) {
        MPI_Status status;
        int done = 0, from = op->peer, label = op->tag;
        if (op->kind != RECV || op->comm != c || !op->active || op->dead || op->flight ||
            op->scheduled || op->generation != scope.generation || op->posted >= posted)
            continue;
        if (from == ANY_PEER || label == ANY_LABEL) {
            if (scope_look(op, &done, &status) != MPI_SUCCESS || !done)
                continue;
            from = scope_peer(c, status.MPI_SOURCE);
            label = status.MPI_TAG;
        }
        n += from == source && label == tag;
    }
    return n;
}

/* The next message of that kind to this rank, after the one of that number. */
static struct flight *next_flight(const struct comm *c, int source, int tag, long long number) {
    struct flight *next = NULL;
    for (int i = 0; i < network.table->top; i++) {
        struct flight *f = &network.table->flight[i];
        if (f->used && f->generation == scope.generation && !f->received &&
            f->dest == scope.rank && f->source == source && f->comm == c->number &&
            f->tag == tag && f->number > number && (!next || f->number < next->number))
            next = f;
    }
    return next;
}

/* The message that a receive posted then has got, or a probe sees now; NULL: it is not delayed. */
static struct flight *find(const struct comm *c, int source, int tag, double posted) {
    struct flight *f = next_flight(c, source, tag, 0);
    struct flight *second = f ? next_flight(c, source, tag, f->number) : NULL;
    for (int n = second ? earlier(c, source, tag, posted) : 0; n > 0 && second; n--) {
        f = second;
        second = next_flight(c, source, tag, f->number);
    }
    return f;
}

/* A receive has got this message, or will. False: the sender is about to say how it was sent, or
 * the library would not have moved it yet. */
static bool receive(struct flight *f, double posted, bool inside, double *arrival) {
    f->received = true;
    if (!f->scheduled && !f->decided)
        return false;
    if (!f->scheduled) {
        double ready = f->eager || f->sent > posted ? f->sent : posted;
        if (!f->eager && !network.progress) {
            if (!inside)
                return false;
            const double now = scope_now();
            ready = ready > now ? ready : now;
        }
        schedule(f, ready);
    }
    *arrival = f->arrival;
    if (!f->awaited)
        release(f);
    return true;
}

/* inside: the program is in an MPI call. */
static void look_up(struct op *op, const MPI_Status *status, bool inside) {
    int cancelled = 0;
    if (op->cancelled)
        PMPI_Test_cancelled(status, &cancelled);
    lock();
    if (!op->flight && !cancelled)
        op->flight = find(op->comm, scope_peer(op->comm, status->MPI_SOURCE), status->MPI_TAG,
                          op->posted);
    op->scheduled = !op->flight || receive(op->flight, op->posted, inside, &op->arrival);
    unlock();
}

/* A request is forgotten: nobody will ask when its message arrives. */
void scope_op_landed(struct op *op) {
    struct flight *f = op->flight;
    if (!f || !scope.network || op->generation != scope.generation)
        return;
    lock();
    if (op->kind == SEND) {
        f->awaited = false;
        if (f->received && f->scheduled)
            release(f);
    } else if (!op->scheduled) { /* its sender may wait for that */
        receive(f, op->posted, true, &op->arrival);
    }
    unlock();
}

/* Is the program to be told that this request is not complete? The library may have it complete.
 * Under the lock, in a call of the program's. */
bool scope_held(struct op *op) {
    MPI_Status status;
    int done = 0;
    if (!scope.network || op->generation != scope.generation || !op->active || op->dead)
        return false;
    if (op->kind != SEND && op->kind != RECV && !(op->kind == UNKNOWN && op->flight))
        return false;
    if (scope_look(op, &done, &status) != MPI_SUCCESS)
        return false; /* nothing is delayed that has failed */
    if (!done)
        return true;
    scope_op_complete(op, &status);
    if (op->kind == SEND)
        return send_is_held(op);
    if (!op->scheduled)
        look_up(op, &status, true);
    return !op->scheduled || scope_now() < op->arrival || (op->twin && send_is_held(op->twin));
}

/* Looks after the messages; inside: the program waits or tests. */
void scope_network_advance(bool inside) {
    for (struct op *op = scope.network ? scope_first() : NULL; op; op = scope_next(op)) {
        MPI_Status status;
        int done = 0;
        const bool probed = op->kind == UNKNOWN && op->flight;
        if (!op->active || op->dead || op->scheduled || op->generation != scope.generation ||
            (op->kind != SEND && op->kind != RECV && !probed) || (op->kind == SEND && op->counted))
            continue;
        if (scope_look(op, &done, &status) != MPI_SUCCESS || !done)
            continue;
        if (!op->counted)
            scope.epoch++;
        scope_op_complete(op, &status);
        if (op->kind != SEND)
            look_up(op, &status, inside);
    }
}

/* The program waits or tests, which only matters to a library that moves messages in there alone. */
void scope_network_call(void) {
    if (scope.network && !network.progress)
        scope_network_advance(true);
}

/* Is a message on its way that the program has asked for, and that the library has already? */
bool scope_travels(void) {
    const double now = scope.network ? scope_now() : 0;
    for (struct op *op = scope.network ? scope_first() : NULL; op; op = scope_next(op)) {
        if (!op->active || !op->counted || op->dead || op->generation != scope.generation)
            continue;
        if (op->kind == SEND ? send_is_held(op)
                             : (op->flight && !op->scheduled) || now < op->arrival)
            return true;
    }
    return false;
}

/* Does the program not see this message yet, which the library would show to a probe? */
bool scope_unseen(const struct comm *c, int source, int tag) {
    if (!scope.network)
        return false;
    lock();
    struct flight *f = find(c, source, tag, scope_now());
    bool unseen = f && !f->decided;
    if (f && f->decided && f->eager && !f->scheduled)
        schedule(f, f->sent);
    if (f && f->decided) /* of a long message, what announces it is there first */
        unseen = scope_now() < (f->eager ? f->arrival : f->sent + network.latency);
    unlock();
    return unseen;
}

/* The flight of a message that a matched probe takes. */
struct flight *scope_taken(const struct comm *c, int source, int tag) {
    if (!scope.network)
        return NULL;
    lock();
    struct flight *f = find(c, source, tag, scope_now());
    if (f)
        f->received = true;
    unlock();
    return f;
}

/* Until when this call has to wait in any case, as far as is known; else 0. */
double scope_due(const struct call *call) {
    enum { GLANCE = 16 }; /* requests, as this is asked at each poll */
    double due = 0;
    if (!scope.network || call->mode != ALL)
        return 0;
    for (int i = 0; i < call->n_requests && i < GLANCE; i++) {
        const struct op *op = scope_op_find(call->requests[i]);
        if (op && op->active && op->scheduled && op->arrival > due)
            due = op->arrival;
    }
    return due;
}

/* The scope has stepped aside meanwhile: what was under way then may have been received. */
void scope_clear_network(void) {
    if (!scope.network)
        return;
    lock();
    for (int i = 0; i < network.table->top; i++)
        if (network.table->flight[i].dest == scope.rank)
            network.table->flight[i].used = false;
    unlock();
    scope_forget_flights();
}

/* ---- for Python (ringside.watch.scope) ---- */

static void close_table(void) {
    for (struct op *op = scope_first(); op; op = scope_next(op)) {
        op->flight = NULL;
        op->scheduled = true;
        op->arrival = 0;
        if (op->twin)
            op->twin->flight = NULL;
    }
    scope_forget_flights();
    if (network.table)
        munmap(network.table, network.size);
    network.table = NULL;
    scope.network = false;
}

static struct table *open_table(const char *path, size_t size) {
    pthread_mutexattr_t shared;
    const int file = open(path, O_RDWR | O_CLOEXEC);
    void *at = file < 0 || ftruncate(file, (off_t)size)
                   ? MAP_FAILED
                   : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    if (at == MAP_FAILED)
        return NULL;
    struct table *table = at;
    int nobody = 0;
    if (atomic_compare_exchange_strong(&table->made, &nobody, 1)) {
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&table->lock, &shared);
        pthread_mutexattr_destroy(&shared);
        atomic_store(&table->made, 2);
    }
    while (atomic_load(&table->made) != 2)
        scope_nap(0.0002);
    return table;
}

/* What is played, as JSON. Under the lock. */
void scope_say_network(char *text, size_t room) {
    if (!scope.network)
        snprintf(text, room, "null");
    else
        snprintf(text, room,
                 "{\"latency\":%.17g,\"bandwidth\":%.17g,\"nodes\":%d,\"progress\":%s}",
                 network.latency, network.bandwidth, network.nodes,
                 network.progress ? "true" : "false");
}

/* `path`: an empty file, the same for all ranks, which may be removed when all have it; NULL: the
 * lens is taken off. On all ranks alike, with no message under way. Returns whether it is on. */
bool scope_network(const char *path, double latency, double bandwidth, int nodes, bool progress) {
    scope_lock();
    close_table();
    network.size = sizeof *network.table + 2 * (size_t)nodes * sizeof *network.table->way;
    network.latency = latency;
    network.bandwidth = bandwidth;
    network.nodes = nodes;
    network.progress = progress;
    network.table = path ? open_table(path, network.size) : NULL;
    const bool on = scope.network = network.table != NULL;
    scope_unlock();
    return on;
}
