/* The scope's own thread: it talks to the threads of the other ranks. See scope.h.
 *
 * A round. A rank that has waited for a while wakes the others, and all exchange their reports.
 * Everyone judges the same reports by the same rule, so everyone comes to the same verdict and
 * nobody has to announce it. A verdict needs two rounds between which the stuck did not move.
 *
 * The drain. On a deadlock, or when a rank asks to stop, each thread takes its rank's lock, so
 * that no program thread is in MPI any more; only when all have done so (a barrier) are open
 * receives cancelled and the messages still on their way received, exactly as many as the counts
 * say: a rank that got its message before all had stopped would wander off and leave the others
 * hanging. Sends become complete thereby, before the program can free their buffers. A collective
 * cannot be cancelled; it is left on its shadow communicator, and a fresh one takes its place.
 * Then the locks are let go, and every call that waited returns scope.code. */
#define _GNU_SOURCE
#include "scope.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAKE = 1 };

static const double patience = 0.1;    /* seconds in a call before the others are asked */
static const double second_look = 0.05;
static const double longest_pause = 1; /* between rounds while nothing changes */
static const double drain_limit = 20;
static const double away_limit = 0.2;
static const double finish_limit = 2; /* of a drain, for collectives all ranks have come to */

static void nap(double seconds) {
    const struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

/* Polls the thread's own request. In a round the lock is let go between two polls, in a drain it
 * is not. False: it took longer than `limit` (0: there is none). */
static bool finish(MPI_Request *request, bool keep_lock, double limit) {
    const double start = scope_now();
    for (;;) {
        int done = 0;
        PMPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (done)
            return true;
        if (limit > 0 && scope_now() - start > limit)
            return false;
        if (!keep_lock)
            scope_unlock();
        nap(atomic_load(&scope.on) || scope.ending ? 0.0005 : 0.02);
        if (!keep_lock)
            scope_lock();
    }
}

static void free_reports(struct report *reports) {
    for (int r = 0; reports && r < scope.size; r++)
        free(reports[r].row);
    free(reports);
}

/* Every rank's report, to be freed with free_reports; NULL: it took too long, or no memory. */
static struct report *exchange(bool keep_lock, double limit) {
    const int n = scope.size;
    struct report mine, *reports = calloc((size_t)n, sizeof *reports);
    int *rows = calloc((size_t)n, sizeof *rows), *bytes = calloc((size_t)n, sizeof *bytes);
    int *starts = calloc((size_t)n, sizeof *starts);
    struct record *all = NULL;
    MPI_Request request;
    bool good = reports && rows && bytes && starts;
    scope_refresh();
    scope_report(&mine);
    if (!good)
        goto out;
    PMPI_Iallgather(&mine, (int)sizeof mine, MPI_BYTE, reports, (int)sizeof mine, MPI_BYTE,
                    scope.private, &request);
    good = finish(&request, keep_lock, limit);
    int total = 0;
    for (int r = 0; r < n; r++) {
        rows[r] = good ? reports[r].rows : 0;
        reports[r].row = NULL;
        bytes[r] = rows[r] * (int)sizeof *all;
        starts[r] = total * (int)sizeof *all;
        total += rows[r];
    }
    all = calloc((size_t)total + 1, sizeof *all);
    good = good && all;
    if (!good)
        goto out;
    PMPI_Iallgatherv(mine.row, bytes[scope.rank], MPI_BYTE, all, bytes, starts, MPI_BYTE,
                     scope.private, &request);
    good = finish(&request, keep_lock, limit);
    for (int r = 0; r < n && good; r++) {
        const size_t size = (size_t)bytes[r];
        reports[r].row = malloc(size + 1);
        good = reports[r].row != NULL;
        if (good)
            memcpy(reports[r].row, (const char *)all + starts[r], size);
    }
out:
    free(mine.row);
    free(rows);
    free(bytes);
    free(starts);
    free(all);
    if (good)
        return reports;
    free_reports(reports);
    return NULL;
}

/* ---- the drain ---- */

static struct unreceived *left_here(struct unreceived *left, int lefts, const struct comm *comm,
                                    int source, int tag) {
    for (int i = 0; i < lefts; i++)
        if (left[i].dest == scope.rank && left[i].source == source && left[i].tag == tag &&
            left[i].comm == comm->number && left[i].count > 0)
            return &left[i];
    return NULL;
}

/* Takes one message out of its queue, if it is there. */
static bool take(const struct comm *c, int source, int tag, double limit) {
    MPI_Message message;
    MPI_Status status;
    MPI_Request request;
    MPI_Count bytes = 0;
    int found = 0;
    if (PMPI_Improbe(source, tag, c->handle, &found, &message, &status) || !found)
        return false;
    PMPI_Get_elements_x(&status, MPI_BYTE, &bytes);
    char *scrap = malloc((size_t)bytes + 1);
    if (!scrap)
        return false;
#if LARGE_COUNTS
    PMPI_Imrecv_c(scrap, bytes, MPI_BYTE, &message, &request);
#else
    PMPI_Imrecv(scrap, (int)bytes, MPI_BYTE, &message, &request);
#endif
    if (finish(&request, true, limit)) /* else the library may still write to it */
        free(scrap);
    return true;
}

static int local_rank(const struct comm *c, int world) {
    for (int i = 0; i < c->size; i++)
        if (c->world[i] == world)
            return i;
    return MPI_PROC_NULL;
}

/* Receives what is on its way to this rank and completes what is open on it. Returns the number
 * of messages taken, or -1 when not all came within the limit. */
static int drain(struct unreceived *left, int lefts) {
    const double start = scope_now();
    int taken = 0;
    for (int i = 0; i < scope.n_ops; i++) {
        struct op *op = scope.ops[i];
        if (op->active && !op->counted && op->kind == RECV && scope_owned(op)) {
            op->cancelled = true;
            PMPI_Cancel(&op->request);
        }
    }
    for (bool open = true; open;) {
        open = false;
        for (int i = 0; i < scope.n_ops; i++) {
            struct op *op = scope.ops[i];
            MPI_Status status;
            int done = 0, cancelled = 0;
            if (!op->active || op->counted || op->kind == COLLECTIVE || op->dead || !scope_owned(op))
                continue;
            scope_peek(op, &done, &status);
            if (!done) {
                open = true;
                continue;
            }
            scope_op_complete(op, &status);
            if (op->kind != RECV)
                continue;
            PMPI_Test_cancelled(&status, &cancelled);
            if (!cancelled && status.MPI_SOURCE >= 0) {
                struct unreceived *m = left_here(left, lefts, op->comm,
                                                 op->comm->world[status.MPI_SOURCE],
                                                 status.MPI_TAG);
                if (m)
                    m->count--;
            }
        }
        for (int i = 0; i < lefts; i++) {
            struct unreceived *m = &left[i];
            const struct comm *c = NULL;
            for (int k = 0; k < scope.n_comms && m->dest == scope.rank; k++)
                if (scope.comms[k]->number == m->comm)
                    c = scope.comms[k];
            while (c && m->count > 0 && take(c, local_rank(c, m->source), m->tag, drain_limit)) {
                m->count--;
                taken++;
            }
            open = open || (c && m->count > 0);
        }
        if (open && scope_now() - start > drain_limit)
            return -1;
        if (open)
            nap(0.0002);
    }
    /* Messages that were sent while the scope stepped aside are in no count. */
    for (int k = 0; k < scope.n_comms; k++)
        while (take(scope.comms[k], MPI_ANY_SOURCE, MPI_ANY_TAG, drain_limit))
            taken++;
    return taken;
}

/* Have all ranks come to this collective, and to the same? Then it ends by itself. */
static bool all_came(const struct report *reports, const struct op *op) {
    const char *call = NULL;
    for (int m = 0; m < op->comm->size; m++) {
        const struct report *report = &reports[op->comm->world[m]];
        bool came = false;
        for (int i = 0; i < report->rows; i++) {
            const struct record *r = &report->row[i];
            if (r->row != ENTERED || r->comm != op->comm->number || r->index < op->index)
                continue;
            came = true;
            if (r->index == op->index && call && strcmp(call, r->call) != 0)
                return false;
            if (r->index == op->index)
                call = r->call;
        }
        if (!came)
            return false;
    }
    return true;
}

/* Lets the collectives end that can: the library is still moving their data, and a communicator
 * may be in the making behind a barrier that some ranks have left already. */
static void finish_collectives(const struct report *reports) {
    const double start = scope_now();
    for (bool open = true; open && scope_now() - start < finish_limit;) {
        open = false;
        for (int i = 0; i < scope.n_ops; i++) {
            struct op *op = scope.ops[i];
            MPI_Status status;
            int done = 0;
            if (!op->active || op->counted || op->kind != COLLECTIVE || op->dead ||
                !scope_owned(op) || !all_came(reports, op))
                continue;
            scope_peek(op, &done, &status);
            if (done)
                scope_op_complete(op, &status);
            open = open || !done;
        }
        if (open)
            nap(0.0002);
    }
}

/* Is there a collective on this communicator that not all its ranks have finished? Not on one that
 * some have yet to make, or have freed. */
static bool is_stuck(const struct report *reports, const struct comm *c) {
    int first = -1;
    bool stuck = false;
    for (int m = 0; m < c->size; m++) {
        const struct report *report = &reports[c->world[m]];
        bool known = false;
        for (int i = 0; i < report->rows; i++) {
            const struct record *r = &report->row[i];
            if (r->comm != c->number)
                continue;
            stuck = stuck || (r->row == POSTED && r->kind == COLLECTIVE);
            if (r->row != ENTERED)
                continue;
            known = true;
            stuck = stuck || (first >= 0 && first != r->index);
            first = r->index;
        }
        if (!known)
            return false;
    }
    return stuck;
}

/* In the order of their numbers, so that all ranks meet on each. False: the library has no more
 * communicators to give. */
static bool renew_shadows(const struct report *reports) {
    for (int last = -1;;) {
        struct comm *next = NULL;
        for (int k = 0; k < scope.n_comms; k++) {
            struct comm *c = scope.comms[k];
            if (c->number > last && (!next || c->number < next->number))
                next = c;
        }
        if (!next)
            return true;
        last = next->number;
        if (!is_stuck(reports, next))
            continue;
        for (int i = 0; i < scope.n_ops; i++)
            if (scope.ops[i]->comm == next && scope.ops[i]->kind == COLLECTIVE &&
                !scope.ops[i]->counted)
                scope.ops[i]->dead = true;
        if (PMPI_Comm_dup(next->handle, &next->shadow) != MPI_SUCCESS)
            return false;
    }
}

static bool barrier(void) {
    MPI_Request request;
    PMPI_Ibarrier(scope.private, &request);
    return finish(&request, true, drain_limit);
}

/* What a program says that has no notebook: under MPI_ERRORS_ARE_FATAL this is all its user sees. */
static void explain(const struct report *mine, const struct verdict *verdict, int kind) {
    static const char *const why[] = {
        [STARVED] = "nobody is left who could help",
        [DEADLOCK] = "deadlock",
        [STOPPED] = "stopped",
    };
    char whom[64] = "", ranks[64] = "", text[MPI_MAX_ERROR_STRING];
    const struct record *need = NULL;
    for (int i = 0; i < mine->rows && !need; i++)
        if (mine->row[i].row == NEEDS)
            need = &mine->row[i];
    if (need && need->peer >= 0 && (need->kind == SEND || need->kind == RECV)) {
        const char *way = need->kind == SEND ? "to" : "from";
        if (need->tag == ANY_LABEL)
            snprintf(whom, sizeof whom, " %s rank %d", way, need->peer);
        else
            snprintf(whom, sizeof whom, " %s rank %d, tag %d,", way, need->peer, need->tag);
    }
    size_t n = 0;
    for (int r = 0, told = 0; r < scope.size && kind == DEADLOCK; r++) {
        if (!verdict->is_stuck[r])
            continue;
        if (n > sizeof ranks - 24) {
            snprintf(ranks + n, sizeof ranks - n, ", ...");
            break;
        }
        n += (size_t)snprintf(ranks + n, sizeof ranks - n, "%s%d", told++ ? ", " : " of ranks ", r);
    }
    snprintf(text, sizeof text, "Ringside: %s%s was left (%s%s)",
             *mine->call ? mine->call : "the call", whom, why[kind], ranks);
    PMPI_Add_error_string(scope.code, text);
}

static void stop_the_world(const struct report *reports, const struct unreceived *left, int lefts,
                           const struct verdict *verdict, int kind) {
    double seconds = -1;
    for (int r = 0; r < scope.size; r++)
        if (verdict->is_stuck[r] && (seconds < 0 || reports[r].since < seconds))
            seconds = reports[r].since;
    int taken = -1, ours = 0;
    struct report *now = NULL;
    struct unreceived *rest = NULL;
    scope_lock();
    /* Who is about to have a new communicator gets it first, unless another rank is held already. */
    for (const double start = scope_now(); scope.away && scope_now() - start < away_limit;) {
        scope_unlock();
        nap(0.001);
        scope_lock();
    }
    if (barrier() && (now = exchange(true, drain_limit))) {
        int rests = 0;
        rest = scope_left(scope.size, now, &rests);
        taken = rest ? drain(rest, rests) : -1;
        finish_collectives(now);
        MPI_Request request;
        PMPI_Iallreduce(&taken, &ours, 1, MPI_INT, MPI_MIN, scope.private, &request);
        if (!finish(&request, true, drain_limit) || ours < 0)
            taken = -1;
        PMPI_Iallreduce(&taken, &ours, 1, MPI_INT, MPI_SUM, scope.private, &request);
        if (!finish(&request, true, drain_limit))
            taken = -1;
    }
    if (taken >= 0) {
        free_reports(now);
        now = exchange(true, drain_limit);
        if (now && renew_shadows(now))
            scope_forget();
        else
            taken = -1;
    }
    scope.generation++;
    scope.raise = scope.busy;
    atomic_store(&scope.stop, NO_STOP);
    explain(&reports[scope.rank], verdict, kind);
    scope_tell(reports, verdict, kind, left, lefts, seconds, ours, taken < 0);
    scope_outside_told(scope.told);
    scope_unlock();
    free_reports(now);
    free(rest);
}

/* ---- rounds ---- */

static long long *epochs; /* of all ranks, in the round before */

/* All ranks are asked to hold one: the wake names its number, so that none is held twice. */
static void wake(void) {
    static int number;
    number = scope.round + 1;
    for (int r = 0; r < scope.size; r++) {
        MPI_Request request;
        if (r == scope.rank)
            continue;
        PMPI_Isend(&number, 1, MPI_INT, r, WAKE, scope.private, &request);
        finish(&request, false, 0);
    }
}

static bool woken(void) {
    int found = 0, number = 0;
    bool woken = false;
    for (;;) {
        PMPI_Iprobe(MPI_ANY_SOURCE, WAKE, scope.private, &found, MPI_STATUS_IGNORE);
        if (!found)
            return woken;
        PMPI_Recv(&number, 1, MPI_INT, MPI_ANY_SOURCE, WAKE, scope.private, MPI_STATUS_IGNORE);
        woken = woken || number > scope.round;
    }
}

/* False: all ranks are in MPI_Finalize, and this was the last round. */
static bool hold_round(void) {
    scope_lock();
    scope.round++;
    struct report *reports = exchange(false, 0);
    if (!reports) {
        scope_unlock();
        return true;
    }
    int lefts = 0, ending = 0, stop = NO_STOP;
    struct unreceived *left = scope_left(scope.size, reports, &lefts);
    scope_judge(scope.size, reports, epochs, left, lefts, &scope.verdict);
    for (int r = 0; r < scope.size; r++) {
        epochs[r] = reports[r].epoch;
        ending += reports[r].ending;
        if (reports[r].stop == STOP_USER || (reports[r].stop && stop == NO_STOP))
            stop = reports[r].stop;
    }
    const struct report *mine = &reports[scope.rank];
    scope.verdict_epoch = mine->epoch;
    scope.in_flight = mine->state == BLOCKED && !scope.verdict.is_stuck[scope.rank] &&
                      scope.verdict.kind == RUNNING;
    const int kind = scope.verdict.kind;
    /* Someone may have come to help since the notebook asked. */
    if (stop == STOP_STARVED && kind == RUNNING) {
        int asked = STOP_STARVED;
        atomic_compare_exchange_strong(&scope.stop, &asked, NO_STOP);
        stop = NO_STOP;
    }
    scope_unlock();
    if (kind == DEADLOCK)
        stop_the_world(reports, left, lefts, &scope.verdict, DEADLOCK);
    else if (stop)
        stop_the_world(reports, left, lefts, &scope.verdict, stop == STOP_USER ? STOPPED : STARVED);
    free_reports(reports);
    free(left);
    return ending < scope.size;
}

/* How much processor time the program spends between two tests, five times a second. */
static void watch_tests(double now) {
    static double last;
    struct timespec t;
    if (now - last < 0.2)
        return;
    last = now;
    if (scope.tests == 0 || clock_gettime(scope.program_clock, &t))
        return;
    const double cpu = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (scope.tests_seen > 0 && scope.tests > scope.tests_seen)
        scope.cpu_per_test = (cpu - scope.cpu_seen) / (double)(scope.tests - scope.tests_seen);
    scope.tests_seen = scope.tests;
    scope.cpu_seen = cpu;
}

static void *watch(void *unused) {
    (void)unused;
    scope_lock(); /* until all ranks are known to have their thread */
    const bool ready = scope.ready;
    scope_unlock();
    if (!ready)
        return NULL;
    double next = 0, pause = second_look;
    long long epoch = -1;
    for (;;) {
        const bool on = atomic_load(&scope.on) || scope.ending;
        nap(on ? 0.01 : 0.05);
        if (!on || !scope_trylock())
            continue;
        const double now = scope_now();
        watch_tests(now);
        if (epoch != scope.epoch) { /* something happened: look soon again */
            epoch = scope.epoch;
            next = 0;
            pause = second_look;
        }
        const bool waits = scope.waiting && now - scope.waiting->start > patience;
        const bool asks = atomic_load(&scope.stop) ||
                          ((waits || scope.ending || scope_polls()) && now >= next);
        const bool asked = woken();
        if (asks && !asked)
            wake();
        scope_unlock();
        if (!asks && !asked)
            continue;
        if (!hold_round()) {
            scope_lock();
            scope.over = true;
            scope_unlock();
            return NULL;
        }
        if (asks) {
            next = scope_now() + pause;
            pause = pause < longest_pause ? 2 * pause : longest_pause;
        }
    }
}

/* ---- begin and end ---- */

/* A forked process has no thread of the scope's, perhaps a lock nobody will open, and no business
 * with MPI. */
static void in_child(void) {
    scope.ready = false;
    scope_unlock();
}

/* In MPI_Init, on all ranks. Where a rank lacks memory or threads, all do without a scope. */
void scope_start(void) {
    sigset_t all, before;
    int local = 0, class = 0, cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Comm node;
    PMPI_Comm_dup(MPI_COMM_WORLD, &scope.private);
    PMPI_Comm_rank(scope.private, &scope.rank);
    PMPI_Comm_size(scope.private, &scope.size);
    PMPI_Comm_split_type(scope.private, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    PMPI_Comm_size(node, &local);
    PMPI_Comm_free(&node);
    scope.crowded = local > cores;
    scope.program = pthread_self();
    pthread_getcpuclockid(scope.program, &scope.program_clock);
    PMPI_Add_error_class(&class);
    PMPI_Add_error_code(class, &scope.code);
    PMPI_Add_error_string(scope.code, "Ringside: the call was left");
    PMPI_Add_error_code(class, &scope.refused);
    int *greatest = NULL, found = 0;
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &greatest, &found);
    scope.greatest_tag = found ? *greatest : 32767;
    epochs = calloc((size_t)scope.size, sizeof *epochs);
    scope.verdict.is_stuck = calloc((size_t)scope.size, sizeof(bool));
    int good = scope_tables() && epochs && scope.verdict.is_stuck;
    good = good && scope_comm_add(MPI_COMM_WORLD) == MPI_SUCCESS;
    good = good && scope_comm_add(MPI_COMM_SELF) == MPI_SUCCESS;
    sigfillset(&all); /* signals are for the program's thread */
    pthread_sigmask(SIG_BLOCK, &all, &before);
    scope_lock();
    good = good && pthread_create(&scope.thread, NULL, watch, NULL) == 0;
    const bool mine = good;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    PMPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, scope.private);
    scope.ready = good;
    scope_unlock();
    if (mine && !good)
        pthread_join(scope.thread, NULL);
    if (good)
        pthread_atfork(NULL, NULL, in_child);
}

/* In MPI_Finalize, on all ranks. */
void scope_finish(void) {
    if (!scope.ready)
        return;
    scope_lock();
    scope.ending = true;
    scope.epoch++;
    scope_unlock();
    pthread_join(scope.thread, NULL);
    scope.ready = false;
    while (scope.n_comms > 0) {
        PMPI_Comm_free(&scope.comms[0]->shadow);
        scope_comm_remove(scope.comms[0]);
    }
    PMPI_Comm_free(&scope.private);
    free(scope.verdict.is_stuck);
    scope.verdict.is_stuck = NULL;
    free(epochs);
    free(scope.counts);
    free(scope.comms);
    free(scope.ops);
    /* The events and the last verdict stay: they may still be read. */
}
