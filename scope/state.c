/* The scope's state on this rank: lock, tables, events, and what Python reads. See scope.h. */
#define _GNU_SOURCE
#include "scope.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { EVENTS = 1 << 16, COUNTS = 1 << 16 };

/* How many messages went to, or came from, a peer under a tag. */
struct count {
    int row, comm, peer, tag; /* row 0: free */
    long long n;
};

struct scope scope = {.lock = ATOMIC_FLAG_INIT, .on = true, .busy = true};

#define SCOPE_NAME(name) [CALL_##name] = "MPI_" #name,
const char *const scope_names[N_CALLS] = {SCOPE_CALLS(SCOPE_NAME)};

double scope_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the lock ---- */

bool scope_trylock(void) {
    return !atomic_flag_test_and_set_explicit(&scope.lock, memory_order_acquire);
}

void scope_lock(void) {
    const struct timespec nap = {.tv_nsec = 20000};
    for (int tries = 0; !scope_trylock(); tries++) {
        if (tries < 100)
            sched_yield();
        else
            nanosleep(&nap, NULL); /* a drain may hold it for long */
    }
}

void scope_unlock(void) { atomic_flag_clear_explicit(&scope.lock, memory_order_release); }

/* ---- a call ---- */

static bool is_test(int name) {
    return (name >= CALL_Test && name <= CALL_Testsome) || name == CALL_Iprobe ||
           name == CALL_Improbe;
}

static bool cleans_up(int name) {
    return name == CALL_Request_free || name == CALL_Cancel || name == CALL_Comm_free ||
           name == CALL_Comm_disconnect || name == CALL_Finalize;
}

enum begin scope_begin(struct call *call, int name, const struct comm *comm) {
    if (!atomic_load_explicit(&scope.on, memory_order_relaxed) || !scope.ready)
        return FORWARD;
    if (!pthread_equal(pthread_self(), scope.program)) {
        atomic_store(&scope.threads, true);
        return FORWARD;
    }
    if (scope.inside)
        return FORWARD;
    if (!comm) {
        scope_unseen(false);
        return FORWARD;
    }
    scope_lock();
    if (scope.raise && !cleans_up(name)) {
        scope_unlock();
        scope_outside_left(comm->handle);
        PMPI_Comm_call_errhandler(comm->handle, scope.code);
        return LEAVE;
    }
    scope.inside = true;
    scope.in_flight = true; /* until a round says otherwise */
    if (!is_test(name)) {
        scope.epoch++;
        scope.tests = 0;
    }
    *call = (struct call){.name = name, .generation = scope.generation, .start = scope_now()};
    return GO;
}

void scope_unseen(bool blind) {
    if (!atomic_load(&scope.on) || !scope.ready || scope.inside)
        return;
    scope_lock();
    scope.epoch++;
    scope.tests = 0;
    scope.overflow = scope.overflow || blind;
    scope_unlock();
}

void scope_event(const struct call *call, const struct comm *comm, int peer, int tag,
                 long long bytes, long long request) {
    const double end = scope_now();
    scope.events[scope.n_events % EVENTS] = (struct event){
        .start = call->start,
        .end = end,
        .blocked = call->pause > 0 ? end - call->pause : 0,
        .bytes = bytes,
        .request = request,
        .seq = scope.n_events,
        .call = call->name,
        .peer = peer,
        .tag = tag,
        .comm = comm->number,
        .left = call->left,
    };
    scope.n_events++;
}

int scope_end(const struct call *call, const struct comm *comm, int err) {
    scope.waiting = NULL;
    if (!is_test(call->name))
        scope.epoch++;
    scope.inside = false;
    scope_unlock();
    if (err != MPI_SUCCESS && err == scope.code)
        scope_outside_left(comm->handle);
    if (err != MPI_SUCCESS && (err == scope.code || err == scope.refused))
        PMPI_Comm_call_errhandler(comm->handle, err);
    return err;
}

/* Polls fast at first, as MPI itself would; lets other ranks have the core when there are more
 * ranks than cores; and rests once a round has found that nothing is on its way. */
int scope_pause(struct call *call) {
    static const long quick = 2000;
    if (call->polls++ == 0)
        call->pause = scope_now();
    scope.waiting = call;
    const bool rest = !scope.in_flight && call->polls > quick;
    scope_unlock();
    if (rest) {
        const struct timespec nap = {.tv_nsec = 100000};
        nanosleep(&nap, NULL);
    } else if (scope.crowded || call->polls > quick) {
        sched_yield();
    }
    scope_lock();
    if (call->generation == scope.generation)
        return MPI_SUCCESS;
    scope.waiting = NULL;
    call->left = true;
    return scope.code;
}

/* All probes of a loop as one: where they differ, it stands for any. */
static void widen(struct record *all, const struct record *probe) {
    if (all->row < 0) {
        *all = *probe;
        return;
    }
    if (all->comm != probe->comm)
        all->kind = UNKNOWN;
    if (all->peer != probe->peer)
        all->peer = ANY_PEER;
    if (all->tag != probe->tag)
        all->tag = ANY_LABEL;
}

/* A loop of tests that never succeed waits as much as a blocking call does. */
void scope_tested(const struct call *call, bool success) {
    if (success) {
        scope.epoch++;
        scope.tests = 0;
        return;
    }
    if (scope.tests++ == 0) {
        scope.epoch++;
        scope.window++;
        scope.window_start = scope.window_last = call->start;
        scope.window_gap = 0;
        scope.window_unknown = false;
        scope.tests_seen = 0;
        scope.cpu_per_test = 1;
        scope.probe.row = -1;
        scope.window_requests = call->n_requests;
        scope.window_mixed = false;
    } else if (call->name != scope.window_call || call->n_requests != scope.window_requests) {
        scope.window_mixed = true;
    }
    if (call->start - scope.window_last > scope.window_gap)
        scope.window_gap = call->start - scope.window_last;
    scope.window_last = call->start;
    scope.window_call = call->name;
    for (int i = 0; i < call->n_requests; i++) {
        struct op *op = scope_op_find(call->requests[i]);
        if (!op) {
            scope.window_unknown = scope.window_unknown || call->requests[i] != MPI_REQUEST_NULL;
            continue;
        }
        if (scope.tests > 1 && op->window != scope.window)
            scope.window_mixed = true;
        op->window = scope.window;
    }
    if (call->probe)
        widen(&scope.probe, call->probe);
}

/* ---- counts ---- */

static struct count *count_slot(struct count *table, int room, int row, int comm, int peer,
                                int tag) {
    uint64_t key = (uint64_t)(uint32_t)tag * 0x9E3779B97F4A7C15u;
    key ^= ((uint64_t)(uint32_t)peer << 32 ^ (uint64_t)(uint32_t)comm << 3 ^ (uint64_t)row) *
           0xC2B2AE3D27D4EB4Fu;
    for (uint64_t i = key ^ key >> 29;; i++) {
        struct count *c = &table[i & (uint64_t)(room - 1)];
        if (c->row == 0 ||
            (c->row == row && c->comm == comm && c->peer == peer && c->tag == tag))
            return c;
    }
}

void scope_count(int row, int comm, int peer, int tag, int by) {
    struct count *c = count_slot(scope.counts, scope.room_counts, row, comm, peer, tag);
    if (c->row == 0) {
        if (scope.n_counts == COUNTS / 2) {
            scope.overflow = true; /* from here on nothing is judged */
            return;
        }
        *c = (struct count){.row = row, .comm = comm, .peer = peer, .tag = tag};
        if (++scope.n_counts * 2 > scope.room_counts) {
            const int room = 2 * scope.room_counts;
            struct count *bigger = calloc((size_t)room, sizeof *bigger);
            if (!bigger) {
                scope.overflow = true;
                return;
            }
            for (int i = 0; i < scope.room_counts; i++) {
                const struct count *old = &scope.counts[i];
                if (old->row)
                    *count_slot(bigger, room, old->row, old->comm, old->peer, old->tag) = *old;
            }
            free(scope.counts);
            scope.counts = bigger;
            scope.room_counts = room;
            c = count_slot(bigger, room, row, comm, peer, tag);
        }
    }
    c->n += by;
}

bool scope_tables(void) {
    scope.room_counts = 256;
    scope.counts = calloc((size_t)scope.room_counts, sizeof *scope.counts);
    scope.events = scope_outside_room(EVENTS * sizeof *scope.events);
    if (!scope.events)
        scope.events = calloc(EVENTS, sizeof *scope.events);
    return scope.counts && scope.events;
}

/* After a drain, and when the scope is switched on again: no message is under way. */
void scope_forget(void) {
    memset(scope.counts, 0, (size_t)scope.room_counts * sizeof *scope.counts);
    scope.n_counts = 0;
    scope.overflow = false;
    for (int i = 0; i < scope.n_comms; i++)
        scope.comms[i]->entered = 0;
    scope.tests = 0;
    scope.epoch++;
}

/* ---- requests ---- */

struct op *scope_op_add(int kind, MPI_Request request, struct comm *comm, int peer, int tag,
                        long long bytes) {
    if (scope.n_ops == scope.room_ops) {
        const int room = scope.room_ops ? 2 * scope.room_ops : 64;
        struct op **bigger = realloc(scope.ops, (size_t)room * sizeof(struct op *));
        if (!bigger)
            return NULL;
        scope.ops = bigger;
        scope.room_ops = room;
    }
    struct op *op = malloc(sizeof *op);
    if (!op)
        return NULL;
    *op = (struct op){.request = request,
                      .comm = comm,
                      .kind = kind,
                      .peer = peer,
                      .tag = tag,
                      .bytes = bytes,
                      .serial = ++scope.serial,
                      .index = comm->entered,
                      .active = true};
    scope.ops[scope.n_ops++] = op;
    return op;
}

struct op *scope_op_find(MPI_Request request) {
    if (request == MPI_REQUEST_NULL)
        return NULL;
    for (int i = scope.n_ops - 1; i >= 0; i--)
        if (scope.ops[i]->request == request)
            return scope.ops[i];
    return NULL;
}

void scope_op_remove(struct op *op) {
    for (int i = scope.n_ops - 1; i >= 0; i--) {
        if (scope.ops[i] == op) {
            scope.ops[i] = scope.ops[--scope.n_ops];
            free(op);
            return;
        }
    }
}

/* The library says that this request is complete: a receive has its message. */
void scope_op_complete(struct op *op, const MPI_Status *status) {
    if (op->counted)
        return;
    op->counted = true;
    if (op->kind != RECV)
        return;
    int cancelled = 0;
    if (op->cancelled)
        PMPI_Test_cancelled(status, &cancelled);
    if (!cancelled && status->MPI_SOURCE >= 0 && status->MPI_SOURCE < op->comm->size)
        scope_count(RECEIVED, op->comm->number, op->comm->world[status->MPI_SOURCE],
                    status->MPI_TAG, 1);
}

/* MPICH (5.0.2) forgets the status of a persistent request when it is asked for it, and a later
 * MPI_Test gets an empty one: the first is kept. */
int scope_peek(struct op *op, int *done, MPI_Status *status) {
    if (op->peeked) {
        *done = 1;
        *status = op->status;
        return MPI_SUCCESS;
    }
    const int err = PMPI_Request_get_status(op->request, done, status);
    if (err == MPI_SUCCESS && *done) {
        op->peeked = true;
        op->status = *status;
    }
    return err;
}

/* May the scope ask for it? With several threads, the library may have forgotten it long ago. */
bool scope_owned(const struct op *op) { return op->own || !atomic_load(&scope.threads); }

/* Asks the library which of the open requests are complete, without taking them from their owner. */
void scope_refresh(void) {
    for (int i = 0; i < scope.n_ops; i++) {
        struct op *op = scope.ops[i];
        if (!op->active || op->counted || op->dead || !scope_owned(op))
            continue;
        int done = 0;
        MPI_Status status;
        if (scope_peek(op, &done, &status) == MPI_SUCCESS && done) {
            scope_op_complete(op, &status);
            scope.epoch++;
        }
    }
}

/* ---- communicators ---- */

struct comm *scope_comm(MPI_Comm handle) {
    for (int i = scope.n_comms - 1; i >= 0; i--)
        if (scope.comms[i]->handle == handle)
            return scope.comms[i];
    return NULL;
}

/* Collective over `handle`, which nobody uses yet. Intercommunicators are left alone. */
int scope_comm_add(MPI_Comm handle) {
    int inter = 0, err = PMPI_Comm_test_inter(handle, &inter);
    if (err || inter)
        return err;
    struct comm *c = calloc(1, sizeof *c);
    if (!c)
        return MPI_ERR_NO_MEM;
    c->handle = handle;
    PMPI_Comm_size(handle, &c->size);
    PMPI_Comm_rank(handle, &c->rank);
    c->world = calloc((size_t)c->size, sizeof *c->world);
    int *local = calloc((size_t)c->size, sizeof *local);
    if (!c->world || !local) {
        free(c->world);
        free(local);
        free(c);
        return MPI_ERR_NO_MEM;
    }
    MPI_Group mine, world;
    PMPI_Comm_group(handle, &mine);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 0; i < c->size; i++)
        local[i] = i;
    PMPI_Group_translate_ranks(mine, c->size, local, world, c->world);
    PMPI_Group_free(&mine);
    PMPI_Group_free(&world);
    free(local);
    err = PMPI_Comm_dup(handle, &c->shadow);
    /* Its first rank gives the number: MPI_COMM_WORLD is 0, no two others are alike. */
    if (c->rank == 0)
        c->number = handle == MPI_COMM_WORLD ? 0 : 1 + scope.rank + scope.size * scope.made++;
    if (!err)
        err = PMPI_Bcast(&c->number, 1, MPI_INT, 0, c->shadow);
    scope_lock();
    struct comm **bigger =
        realloc(scope.comms, (size_t)(scope.n_comms + 1) * sizeof(struct comm *));
    if (bigger)
        scope.comms = bigger;
    else
        err = MPI_ERR_NO_MEM;
    if (!err)
        scope.comms[scope.n_comms++] = c;
    scope_unlock();
    if (err) {
        free(c->world);
        free(c);
    }
    return err;
}

void scope_comm_remove(struct comm *comm) {
    for (int i = 0; i < scope.n_comms; i++) {
        if (scope.comms[i] == comm) {
            scope.comms[i] = scope.comms[--scope.n_comms];
            break;
        }
    }
    for (int i = scope.n_ops - 1; i >= 0; i--)
        if (scope.ops[i]->comm == comm)
            scope_op_remove(scope.ops[i]);
    if (scope.message_comm == comm)
        scope.message_comm = NULL;
    free(comm->world);
    free(comm);
}

/* ---- what this rank says of itself ---- */

static struct record *row(struct report *report, int kind_of_row, int *room) {
    if (report->rows == *room) {
        *room = *room ? 2 * *room : 32;
        struct record *bigger = realloc(report->row, (size_t)*room * sizeof *bigger);
        if (!bigger)
            return NULL;
        report->row = bigger;
    }
    struct record *r = &report->row[report->rows++];
    memset(r, 0, sizeof *r);
    r->row = kind_of_row;
    return r;
}

static void op_row(struct report *report, int kind_of_row, const struct op *op, int *room) {
    struct record *r = row(report, kind_of_row, room);
    if (!r)
        return;
    r->kind = op->kind;
    r->comm = op->comm->number;
    r->peer = op->peer;
    r->tag = op->tag;
    r->index = op->index;
    r->size = op->bytes;
}

/* Needs of the call the program waits in; whether it waits at all is for the judge to say. */
static void needs(struct report *report, const struct call *call, int *room) {
    if (call->probe) {
        struct record *r = row(report, NEEDS, room);
        if (r) {
            *r = *call->probe;
            r->row = NEEDS;
        }
    }
    for (int i = 0; i < call->n_requests; i++) {
        if (call->requests[i] == MPI_REQUEST_NULL)
            continue;
        const struct op *op = scope_op_find(call->requests[i]);
        if (op && (!op->active || (op->counted && call->mode == ALL)))
            continue;
        if (op && !op->counted) {
            op_row(report, NEEDS, op, room);
        } else { /* complete already, or one the scope knows nothing of */
            struct record *r = row(report, NEEDS, room);
            if (r)
                r->kind = UNKNOWN;
        }
    }
}

static void polled(struct report *report, int *room) {
    if (scope.probe.row >= 0) {
        struct record *r = row(report, NEEDS, room);
        if (r) {
            *r = scope.probe;
            r->row = NEEDS;
        }
    }
    if (scope.window_unknown) {
        struct record *r = row(report, NEEDS, room);
        if (r)
            r->kind = UNKNOWN;
    }
    for (int i = 0; i < scope.n_ops; i++) {
        const struct op *op = scope.ops[i];
        if (op->window != scope.window || !op->active)
            continue;
        if (!op->counted) {
            op_row(report, NEEDS, op, room);
        } else if (report->mode == ANY) {
            struct record *r = row(report, NEEDS, room);
            if (r)
                r->kind = UNKNOWN;
        }
    }
}

/* Tests count as waiting when there is nothing else for a second and no computation between them:
 * 20 us of processor time a test, no more. Nor do they when they have stopped: the program may
 * compute, read a file or sleep after them, and go on. */
bool scope_polls(void) {
    return scope.busy && !scope.waiting && scope.tests > 20 && scope.cpu_per_test < 20e-6 &&
           scope.window_last - scope.window_start > 1 &&
           scope_now() - scope.window_last < 0.1 + 2 * scope.window_gap;
}

/* Fills `report`; its rows are the caller's to free. Under the lock. */
void scope_report(struct report *report) {
    int room = 0;
    const double now = scope_now();
    *report = (struct report){.rank = scope.rank,
                              .stop = atomic_load(&scope.stop),
                              .ending = scope.ending,
                              .blind = scope.overflow || atomic_load(&scope.threads)};
    if (scope.waiting) {
        report->state = BLOCKED;
        report->mode = scope.waiting->mode;
        report->since = now - scope.waiting->start;
        snprintf(report->call, sizeof report->call, "%s", scope_names[scope.waiting->name]);
        needs(report, scope.waiting, &room);
    } else if (!scope.busy) {
        report->state = IDLE;
    } else if (scope_polls()) {
        report->state = POLLING;
        /* one MPI_Testall, again and again, waits for all; of several tests any may do */
        report->mode = scope.window_call == CALL_Testall && !scope.window_mixed ? ALL : ANY;
        report->since = now - scope.window_start;
        snprintf(report->call, sizeof report->call, "%s", scope_names[scope.window_call]);
        polled(report, &room);
    } else {
        report->state = COMPUTING;
    }
    report->epoch = scope.epoch * 4 + report->state;
    for (int i = 0; i < scope.n_ops; i++)
        if (scope.ops[i]->active && !scope.ops[i]->counted && !scope.ops[i]->dead)
            op_row(report, POSTED, scope.ops[i], &room);
    for (int i = 0; i < scope.room_counts; i++) {
        const struct count *c = &scope.counts[i];
        if (c->row == 0)
            continue;
        struct record *r = row(report, c->row, &room);
        if (!r)
            break;
        r->comm = c->comm;
        r->peer = c->peer;
        r->tag = c->tag;
        r->size = c->n;
    }
    for (int i = 0; i < scope.n_comms; i++) {
        const struct comm *c = scope.comms[i];
        struct record *r = row(report, ENTERED, &room);
        if (!r)
            break;
        r->comm = c->number;
        r->index = c->entered;
        memcpy(r->call, c->last, sizeof r->call);
        for (int m = 0; m < c->size; m++) {
            r = row(report, MEMBER, &room);
            if (!r)
                break;
            r->comm = c->number;
            r->peer = c->world[m];
        }
    }
}

/* ---- text for Python: JSON, as there is nothing simpler that both sides read ---- */

struct text {
    char *at;
    size_t n, room;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...) {
    va_list arguments;
    for (int tries = 0; tries < 2; tries++) {
        va_start(arguments, format);
        const int n = vsnprintf(text->at + text->n, text->room - text->n, format, arguments);
        va_end(arguments);
        if (n < 0)
            return;
        if (text->n + (size_t)n < text->room) {
            text->n += (size_t)n;
            return;
        }
        char *bigger = realloc(text->at, 2 * text->room + (size_t)n);
        if (!bigger)
            return;
        text->at = bigger;
        text->room = 2 * text->room + (size_t)n;
    }
}

static void say_members(struct text *text, const struct report *report, int comm) {
    const char *comma = "";
    say(text, "[");
    for (int i = 0; i < report->rows; i++) {
        if (report->row[i].row == MEMBER && report->row[i].comm == comm) {
            say(text, "%s%d", comma, report->row[i].peer);
            comma = ",";
        }
    }
    say(text, "]");
}

static void say_rows(struct text *text, const struct report *report, int kind_of_row) {
    static const char *const kinds[] = {"send", "recv", "probe", "collective", "unknown"};
    const char *comma = "";
    say(text, "[");
    for (int i = 0; i < report->rows; i++) {
        const struct record *r = &report->row[i];
        if (r->row != kind_of_row)
            continue;
        say(text, "%s{\"kind\":\"%s\",\"comm\":%d,\"peer\":%d,\"tag\":%d,\"bytes\":%lld,"
                  "\"index\":%d,\"members\":",
            comma, kinds[r->kind], r->comm, r->peer, r->tag, r->size, r->index);
        say_members(text, report, r->comm);
        say(text, "}");
        comma = ",";
    }
    say(text, "]");
}

static const char *const kinds[] = {"running", "starved", "deadlock", "stopped"};

static void say_stuck(struct text *text, const struct verdict *verdict) {
    const char *comma = "";
    say(text, "[");
    for (int r = 0; verdict->is_stuck && r < scope.size; r++) {
        if (verdict->is_stuck[r]) {
            say(text, "%s%d", comma, r);
            comma = ",";
        }
    }
    say(text, "]");
}

static void say_report(struct text *text, const struct report *report) {
    static const char *const states[] = {"idle", "computing", "blocked", "polling"};
    const char *comma = "";
    say(text, "{\"rank\":%d,\"state\":\"%s\",\"call\":\"%s\",\"since\":%.6f,\"mode\":\"%s\","
              "\"needs\":",
        report->rank, states[report->state], report->call, report->since,
        report->mode == ANY ? "any" : "all");
    say_rows(text, report, NEEDS);
    say(text, ",\"posted\":");
    say_rows(text, report, POSTED);
    say(text, ",\"entered\":{");
    for (int i = 0; i < report->rows; i++) {
        const struct record *r = &report->row[i];
        if (r->row != ENTERED || r->index == 0)
            continue;
        say(text, "%s\"%d\":[%d,\"%s\"]", comma, r->comm, r->index, r->call);
        comma = ",";
    }
    say(text, "}");
}

void scope_tell(const struct report *reports, const struct verdict *verdict, int kind,
                const struct unreceived *left, int lefts, double seconds, int drained,
                bool failed) {
    struct text text = {.at = malloc(4096), .room = 4096};
    if (!text.at)
        return;
    say(&text, "{\"kind\":\"%s\",\"round\":%d,\"generation\":%d,\"seconds\":%.6f,"
               "\"drained\":%d,\"failed\":%s,\"ranks\":",
        kinds[kind], scope.round, scope.generation, seconds, drained, failed ? "true" : "false");
    say_stuck(&text, verdict);
    say(&text, ",\"states\":[");
    for (int r = 0; r < scope.size; r++) {
        say(&text, r ? "," : "");
        say_report(&text, &reports[r]);
        say(&text, "}");
    }
    say(&text, "],\"unreceived\":[");
    for (int i = 0; i < lefts; i++)
        say(&text, "%s{\"source\":%d,\"dest\":%d,\"tag\":%d,\"comm\":%d,\"count\":%lld}",
            i ? "," : "", left[i].source, left[i].dest, left[i].tag, left[i].comm, left[i].count);
    say(&text, "]}");
    free(scope.told);
    scope.told = text.at;
}

/* ---- for Python (ringside.scope) ---- */

/* This rank's state as JSON, for the caller to give back with scope_release. */
char *scope_state(void) {
    struct text text = {.at = malloc(1024), .room = 1024};
    if (!text.at)
        return NULL;
    struct report report = {.rank = scope.rank};
    scope_lock();
    if (scope.ready)
        scope_report(&report);
    const bool fresh = scope.ready && report.epoch == scope.verdict_epoch;
    const struct verdict none = {.kind = RUNNING}, *verdict = fresh ? &scope.verdict : &none;
    say_report(&text, &report);
    say(&text, ",\"on\":%s,\"types\":%lld,\"verdict\":{\"kind\":\"%s\",\"round\":%d,\"ranks\":",
        atomic_load(&scope.on) ? "true" : "false", scope_open_types(), kinds[verdict->kind], scope.round);
    say_stuck(&text, verdict);
    say(&text, "}}");
    scope_unlock();
    free(report.row);
    return text.at;
}

/* The last break as JSON, or NULL if there was none. */
char *scope_told(void) {
    scope_lock();
    char *copy = scope.told ? strdup(scope.told) : NULL;
    scope_unlock();
    return copy;
}

void scope_release(char *text) { free(text); }

void scope_busy(bool busy) {
    scope_lock();
    scope.busy = busy;
    if (busy)
        atomic_store(&scope.insist, scope.insist_next);
    scope.raise = false;
    scope.tests = 0;
    scope.epoch++;
    scope_unlock();
}

/* From the next cell on: within one, ranks would change at different calls, and a collective that
 * some meet for and others do not never ends. */
void scope_insist(bool insist) {
    scope_lock();
    scope.insist_next = insist;
    if (!scope.busy)
        atomic_store(&scope.insist, insist);
    scope_unlock();
}

void scope_stop(int reason) { atomic_store(&scope.stop, reason); }

/* On all ranks alike, with no message under way and no request open. */
void scope_switch(bool on) {
    scope_lock();
    if (on && !atomic_load(&scope.on) && scope.ready) {
        while (scope.n_ops > 0)
            scope_op_remove(scope.ops[0]);
        scope_forget();
        atomic_store(&scope.stop, NO_STOP); /* asked for while nobody listened */
    }
    atomic_store(&scope.on, on);
    scope_unlock();
}

/* Copies up to `room` of the newest events, oldest first; returns how many there are. */
long long scope_events(struct event *events, long long room) {
    scope_lock();
    const long long kept = scope.n_events < EVENTS ? scope.n_events : EVENTS;
    const long long n = kept < room ? kept : room;
    for (long long i = 0; i < n; i++)
        events[i] = scope.events[(scope.n_events - n + i) % EVENTS];
    scope_unlock();
    return kept;
}

void scope_clear(void) {
    scope_lock();
    scope.n_events = 0;
    scope_unlock();
}

const char *scope_name(int call) { return call >= 0 && call < N_CALLS ? scope_names[call] : ""; }
