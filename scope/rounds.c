/* The scope's own thread: it talks to the threads of the other ranks. See scope.h.
 *
 * A round. A rank that has waited for a while wakes the others, and all exchange their reports.
 * Everyone judges the same reports by the same rule, so everyone comes to the same verdict and
 * nobody has to announce it. A verdict needs two rounds between which the stuck did not move. */
#define _GNU_SOURCE
#include "scope.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WAKE = 1, MANY_COUNTS = 4096, MANY_PLACES = 2048, MANY_FREED = 64 };

static const double patience = 0.1;    /* seconds in a call before the others are asked */
static const double second_look = 0.05;
static const double longest_pause = 1; /* between rounds while nothing changes */
static const double tick = 0.005;
static const double words_limit = 1; /* to take out what the ranks told each other last */
static const double glance = 0.0005; /* at the messages of a network */

void scope_nap(double seconds) {
    const struct timespec t = {.tv_nsec = (long)(seconds * 1e9)};
    nanosleep(&t, NULL);
}

static struct timespec in(clockid_t clock, double seconds) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += (time_t)seconds;
    t.tv_nsec += (long)((seconds - (double)(time_t)seconds) * 1e9);
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Waits for the bell, or for a tick, with the lock. */
static void wait_for_bell(double seconds) {
    const struct timespec until = in(CLOCK_MONOTONIC, seconds);
    pthread_cond_timedwait(&scope.bell, &scope.lock, &until);
}

/* Of a program that has begun to exit the libraries take down what the thread would use. One that
 * calls MPI all the same, from a handler of its own, needs the thread. */
static void keep_out(void) {
    while (atomic_load(&scope.leaving) && !scope.ending && !scope_any_waits(scope_now()) &&
           !scope_any_polls())
        wait_for_bell(tick);
}

/* Polls the thread's own request. In a round the lock is let go between two polls, in a drain it
 * is not. False: it took longer than `limit` (0: there is none). */
bool scope_complete(MPI_Request *request, bool keep_lock, double limit) {
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
        scope_nap(atomic_load(&scope.on) || scope.ending ? 0.0003 : 0.02);
        if (!keep_lock) {
            scope_lock();
            keep_out();
        }
    }
}

void scope_free_reports(struct report *reports) {
    for (int r = 0; reports && r < scope.size; r++)
        free(reports[r].row);
    free(reports);
}

/* What the requests of an exchange read and write: left alone, never freed, if it is given up. */
struct exchange {
    struct report mine, *reports;
    int *bytes, *starts;
    struct record *all;
};

static bool exchange(struct exchange *x, bool keep_lock, double limit) {
    const int n = scope.size;
    MPI_Request request;
    x->reports = calloc((size_t)n, sizeof *x->reports);
    x->bytes = calloc((size_t)n, sizeof *x->bytes);
    x->starts = calloc((size_t)n, sizeof *x->starts);
    if (!x->reports || !x->bytes || !x->starts)
        return false;
    PMPI_Iallgather(&x->mine, (int)sizeof x->mine, MPI_BYTE, x->reports, (int)sizeof x->mine,
                    MPI_BYTE, scope.private, &request);
    if (!scope_complete(&request, keep_lock, limit))
        return false;
    int total = 0;
    for (int r = 0; r < n; r++) {
        x->reports[r].row = NULL;
        x->bytes[r] = x->reports[r].rows * (int)sizeof *x->all;
        x->starts[r] = total * (int)sizeof *x->all;
        total += x->reports[r].rows;
    }
    x->all = calloc((size_t)total + 1, sizeof *x->all);
    if (!x->all)
        return false;
    PMPI_Iallgatherv(x->mine.row, x->bytes[scope.rank], MPI_BYTE, x->all, x->bytes, x->starts,
                     MPI_BYTE, scope.private, &request);
    if (!scope_complete(&request, keep_lock, limit))
        return false;
    for (int r = 0; r < n; r++) {
        const size_t size = (size_t)x->bytes[r];
        x->reports[r].row = malloc(size + 1);
        if (!x->reports[r].row)
            return false;
        memcpy(x->reports[r].row, (const char *)x->all + x->starts[r], size);
    }
    return true;
}

/* Every rank's report, to be freed with scope_free_reports; NULL: it took too long, or no memory:
 * then nothing more is judged on this rank. */
struct report *scope_exchange(bool keep_lock, double limit) {
    struct exchange *x = calloc(1, sizeof *x);
    if (!x)
        return NULL;
    scope_refresh();
    scope_report(&x->mine);
    if (!exchange(x, keep_lock, limit)) {
        scope.blind = true;
        return NULL;
    }
    struct report *reports = x->reports;
    free(x->mine.row);
    free(x->bytes);
    free(x->starts);
    free(x->all);
    free(x);
    return reports;
}

/* ---- rounds ---- */

static long long *epochs;  /* of all ranks, in the round before */
static double quiet_since; /* nothing has changed since then */
static double idle_since;  /* all cells have ended, and nothing is left over that was not before */
/* What is left over: a hash of the messages, and the collective that not all have entered. */
static struct left {
    uint64_t messages, place;
} spoken_of;

/* All ranks are asked to hold one: the wake names its number, so that none is held twice. */
static void wake(void) {
    static int number;
    number = scope.round + 1;
    for (int r = 0; r < scope.size; r++) {
        MPI_Request request;
        if (r == scope.rank)
            continue;
        PMPI_Isend(&number, 1, MPI_INT, r, WAKE, scope.private, &request);
        scope_word_sent(r);
        scope_complete(&request, false, 0);
    }
}

/* A look says from whom it is, as a receive from anyone may hang (errata 6). The library
 * takes in one message at a look, and the program's own may come first: with one look in each tick
 * 1,000 of them kept a round waiting for 5 s. More are for a rank between two cells: in a cell they
 * would hold the library up. */
static bool woken(void) {
    const int looks = scope.busy && !scope.settling ? 1 : 32;
    static const double long_enough = 0.0001; /* a look is slow where many messages lie unreceived */
    const double start = scope_now();
    int found = 0, number = 0;
    bool woken = false;
    MPI_Status status;
    for (int i = 0; i < looks && scope_now() - start < long_enough; i++) {
        PMPI_Iprobe(MPI_ANY_SOURCE, WAKE, scope.private, &found, &status);
        if (!found)
            continue;
        PMPI_Recv(&number, 1, MPI_INT, status.MPI_SOURCE, WAKE, scope.private, MPI_STATUS_IGNORE);
        scope_word_received(status.MPI_SOURCE);
        woken = woken || number > scope.round;
    }
    return woken;
}

bool scope_is_quiet(void) { return scope_now() - quiet_since > scope.quiet_limit; }

/* All have to find so: their clocks differ, and everyone has to come to the same verdict. */
static bool all_quiet(const struct report *reports) {
    for (int r = 0; r < scope.size; r++)
        if (!reports[r].quiet)
            return false;
    return true;
}

bool scope_is_idle(void) {
    static const double late = 0.5; /* seconds in which a rank may begin the same cell */
    return scope_now() - idle_since > late;
}

static void note_quiet(const struct report *reports) {
    bool same = true;
    for (int r = 0; r < scope.size; r++) {
        same = same && reports[r].epoch == epochs[r] && reports[r].state != COMPUTING;
        epochs[r] = reports[r].epoch;
    }
    if (!same)
        quiet_since = scope_now();
}

static uint64_t hash_of(const struct unreceived *left, int lefts) {
    uint64_t hash = 0;
    for (int i = 0; i < lefts; i++) {
        const uint64_t keys[] = {(uint64_t)left[i].source, (uint64_t)left[i].dest,
                                 (uint64_t)left[i].comm, (uint64_t)(uint32_t)left[i].tag,
                                 (uint64_t)left[i].count, (uint64_t)left[i].cell};
        for (int k = 0; k < 6; k++)
            hash = (hash ^ keys[k]) * 0x9E3779B97F4A7C15u ^ hash >> 29;
    }
    return hash;
}

/* The first collective that some ranks of a communicator have entered and others have not. */
struct mismatch scope_partly_entered(const struct report *reports) {
    struct mismatch first = {0};
    for (int r = 0; r < scope.size; r++) {
        const struct record *mine = NULL;
        for (int i = 0; i < reports[r].rows; i++) {
            const struct record *e = &reports[r].row[i];
            if (e->row == ENTERED)
                mine = e; /* its members follow */
            if (e->row != MEMBER || e->peer <= r)
                continue;
            const struct record *theirs = scope_entered(&reports[e->peer], e->comm);
            if (!theirs || mine->index == theirs->index)
                continue;
            const int next = 1 + (mine->index < theirs->index ? mine->index : theirs->index);
            if (!first.found || e->comm < first.comm ||
                (e->comm == first.comm && next < first.index))
                first = (struct mismatch){.found = true, .comm = e->comm, .index = next};
        }
    }
    return first;
}

/* When every cell has ended well, one of those that have just ended speaks of what is left over: not
 * at once, as a rank that is idle may be about to begin the same cell. All find it late enough in
 * the same round, though their clocks differ: else two would speak. */
static void speak(const struct report *reports, struct unreceived *left, int lefts) {
    static struct left seen;
    int speaker = -1;
    bool idle = true, late = true, uncounted = false, failed = false;
    for (int r = scope.size - 1; r >= 0; r--) {
        idle = idle && reports[r].state == IDLE;
        late = late && reports[r].late;
        uncounted = uncounted || reports[r].uncounted;
        failed = failed || reports[r].failed;
        speaker = reports[r].settling ? r : speaker;
    }
    if (failed)
        scope.unclaimed = false; /* it is cleared instead */
    if (speaker < 0 || failed)
        return;
    const int kept = uncounted ? 0 : scope_unclaimed(scope.size, reports, left, lefts);
    struct mismatch partly = scope_partly_entered(reports);
    scope.partly = partly.found;
    const uint64_t messages = hash_of(left, kept);
    const uint64_t place = (uint64_t)partly.index << 32 | (uint32_t)partly.comm;
    if (kept == 0 && !uncounted)
        spoken_of.messages = 0; /* what is left over later is new, though it be alike */
    if (!partly.found)
        spoken_of.place = 0;
    const bool new_messages = kept > 0 && messages != spoken_of.messages;
    const bool strayed = partly.found && scope_strayed(reports, partly.comm);
    partly.stale = strayed && place != spoken_of.place && spoken_of.place &&
                   partly.comm == (int)(uint32_t)spoken_of.place;
    partly.found = partly.found && (strayed || place != spoken_of.place);
    scope.unclaimed = new_messages || partly.found;
    const bool same = idle && messages == seen.messages && place == seen.place;
    if (!same)
        idle_since = scope_now();
    seen = (struct left){messages, place};
    if (!scope.unclaimed || !same || !late)
        return;
    spoken_of = seen;
    scope.unclaimed = false;
    partly.in_step = strayed && scope_put_in_step();
    if (partly.in_step) {
        spoken_of.place = 0;
        scope.partly = false;
    }
    if (speaker == scope.rank)
        scope_tell_left(reports, left, new_messages ? kept : 0, &partly);
}

static bool all_idle(const struct report *reports) {
    for (int r = 0; r < scope.size; r++)
        if (reports[r].state != IDLE)
            return false;
    return true;
}

/* With all ranks idle: is there anything to clear after a cell that ended in an error, or, of `all`
 * cells, when the reader asks for it? */
static bool out_of_step(const struct report *reports, const struct unreceived *left, int lefts,
                        bool all) {
    bool did = all;
    for (int r = 0; r < scope.size; r++)
        did = did || reports[r].did;
    if (!did)
        return false;
    for (int r = 0; r < scope.size; r++) {
        for (int i = 0; i < reports[r].rows; i++) {
            const struct record *e = &reports[r].row[i];
            if (e->row == POSTED && (all || e->waiter))
                return true; /* begun in this cell */
            if ((e->row == HOLDS || e->row == EXPOSES || e->row == ACCESSES) && (all || e->count))
                return true;
        }
    }
    return (left && lefts > 0) || scope_partly_entered(reports).found;
}

/* False: all ranks are in MPI_Finalize, and this was the last round. */
static bool hold_round(void) {
    scope_lock();
    keep_out();
    scope.round++;
    struct report *reports = scope_exchange(false, 0);
    if (!reports) {
        scope_unlock();
        return true;
    }
    int lefts = 0, ending = 0, stop = NO_STOP;
    struct unreceived *left = scope_left(scope.size, reports, &lefts);
    scope_judge(scope.size, reports, epochs, left, lefts, all_quiet(reports), &scope.verdict);
    note_quiet(reports);
    for (int r = 0; r < scope.size; r++) {
        ending += reports[r].ending;
        if (reports[r].stop == STOP_USER || (reports[r].stop && stop == NO_STOP))
            stop = reports[r].stop;
    }
    const struct report *mine = &reports[scope.rank];
    scope.verdict_epoch = mine->epoch;
    scope.in_flight = mine->state == BLOCKED && !scope.verdict.is_stuck[scope.rank] &&
                      scope.verdict.kind == RUNNING;
    const bool all = stop == STOP_CLEAR_ALL, clears = all || stop == STOP_CLEAR;
    const bool early = clears && !all_idle(reports); /* some end their cells just now */
    int kind = scope.verdict.kind;
    if (kind == STARVED || kind == RUNNING) {
        if (stop == STOP_USER)
            kind = STOPPED;
        else if (stop == STOP_STARVED && kind == STARVED)
            kind = scope.verdict.suspicion ? SUSPECTED : STARVED;
        else if (clears && !early && out_of_step(reports, left, lefts, all))
            kind = CLEARED;
        else
            kind = RUNNING;
    }
    /* In vain: someone has come to help since, or nothing was to be cleared. What this rank was
     * asked since it made its report is for the next round. */
    int asked = stop;
    if (kind == RUNNING && mine->stop == stop && !early)
        atomic_compare_exchange_strong(&scope.stop, &asked, NO_STOP);
    if (clears && !early)
        scope.failed = false;
    if (kind == RUNNING) {
        scope_settle_counts(reports);
        scope_compared(reports);
        speak(reports, left, lefts);
    }
    if (ending == scope.size && kind == RUNNING && left) {
        lefts = scope_unclaimed(scope.size, reports, left, lefts);
        const struct mismatch partly = scope_partly_entered(reports);
        if (scope.rank == 0 && (lefts > 0 || partly.found))
            scope_tell_last(reports, left, lefts, &partly);
        if (lefts > 0)
            scope_take_last(left, lefts);
    }
    const bool settled = mine->settling;
    scope_unlock();
    if (kind != RUNNING) {
        scope_break(reports, left, lefts, &scope.verdict, kind);
        quiet_since = scope_now();
        spoken_of = (struct left){0};
        scope.partly = false;
    }
    if (settled) {
        scope_lock();
        scope.settlings++;
        pthread_cond_broadcast(&scope.settled);
        scope_unlock();
    }
    scope_lock();
    scope_free_reports(scope.last);
    scope.last = reports;
    scope_unlock();
    free(left);
    return ending < scope.size;
}

/* Of a communicator, or of what is freed and kept for this alone. */
static bool many_places(void) {
    int freed = 0;
    for (int i = 0; i < scope.n_comms; i++) {
        const struct comm *c = scope.comms[i];
        freed += c->handle == MPI_COMM_NULL && (c->number > 0 || c->freed) && !c->lasting;
        if (c->places > MANY_PLACES || freed > MANY_FREED)
            return true;
    }
    return false;
}

static void *watch(void *unused) {
    (void)unused;
    scope_lock(); /* until all ranks are known to have their thread */
    if (!atomic_load(&scope.ready)) {
        scope_unlock();
        return NULL;
    }
    double next = 0, next_sweep = 0, pause = second_look;
    long long epoch = -1;
    for (;;) {
        const bool on = atomic_load(&scope.on) || scope.ending;
        wait_for_bell(!on ? 0.05 : scope.network ? glance : tick);
        if (!on)
            continue;
        keep_out();
        const double now = scope_now();
        scope_network_advance(!scope.busy || scope_any_waits(now) || scope_away());
        scope_watch_helpers(now);
        scope_advance_idups();
        if (epoch != scope.epoch) { /* something happened: look soon again */
            epoch = scope.epoch;
            next = 0;
            pause = second_look;
        }
        const bool waits = scope_any_waits(now - patience) || scope.ending || scope_any_polls();
        const bool full = (scope.n_counts > MANY_COUNTS || many_places()) && now >= next_sweep;
        const bool asks = atomic_load(&scope.stop) || scope.settling || scope.doubting || full ||
                          (waits && now >= next);
        const bool asked = woken();
        if (!asks && !asked)
            continue;
        if (!asked)
            wake();
        scope_unlock();
        const bool over = !hold_round();
        scope_lock();
        if (over) {
            scope.over = true;
            scope_unlock();
            return NULL;
        }
        if (asks) {
            next = scope_now() + pause;
            pause = pause < longest_pause ? 2 * pause : longest_pause;
        }
        next_sweep = full ? scope_now() + 0.1 : next_sweep;
        epoch = scope.epoch == epoch ? epoch : -1;
    }
}

/* ---- begin and end ---- */

/* A forked process has no thread of the scope's, perhaps a lock nobody will open, and no business
 * with MPI. */
static void in_child(void) {
    atomic_store(&scope.ready, false);
    scope.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* When the program exits: returns once the thread is out of MPI. What waits or tests by then may
 * never go on, as when a signal's handler exits; who does go on says so at the next poll. */
static void leave(void) {
    const struct timespec until = in(CLOCK_REALTIME, 1);
    if (!atomic_load(&scope.ready))
        return;
    int inside = scope_inside_call();
    /* The library may notice in the scope's thread that a call of the program's ends the rank. */
    for (const struct thread *t = scope.threads; t && pthread_equal(pthread_self(), scope.thread);
         t = t->next)
        inside = t->depth > 0 ? t->name : inside;
    if (inside >= 0)
        scope_tell_inside(inside);
    atomic_store(&scope.leaving, true);
    if (pthread_mutex_timedlock(&scope.lock, &until) != 0)
        return;
    for (struct thread *t = scope.threads; t; t = t->next) {
        t->waiting = NULL;
        t->tests = 0;
    }
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
    PMPI_Add_error_class(&class);
    PMPI_Add_error_code(class, &scope.code);
    PMPI_Add_error_string(scope.code, "Ringside: the call was left");
    PMPI_Add_error_code(MPI_ERR_RANK, &scope.no_rank);
    PMPI_Add_error_code(MPI_ERR_TAG, &scope.no_tag);
    PMPI_Add_error_code(MPI_ERR_TRUNCATE, &scope.no_room);
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
    atomic_store(&scope.ready, good);
    scope_unlock();
    if (mine && !good)
        pthread_join(scope.thread, NULL);
    if (good) {
        pthread_atfork(NULL, NULL, in_child);
        atexit(leave);
    }
}

/* In MPI_Finalize, on all ranks. */
void scope_finish(void) {
    if (!atomic_load(&scope.ready))
        return;
    scope_lock();
    scope.ending = true;
    scope.epoch++;
    pthread_cond_signal(&scope.bell);
    scope_unlock();
    pthread_join(scope.thread, NULL);
    scope_lock();
    scope_drain_tokens(words_limit);
    atomic_store(&scope.ready, false);
    scope_finish_windows();
    scope_finish_files();
    scope_finish_comms();
    scope_finish_tokens();
    scope_free_reports(scope.last);
    scope.last = NULL;
    PMPI_Comm_free(&scope.private);
    free(scope.verdict.is_stuck);
    scope.verdict.is_stuck = NULL;
    free(epochs);
    free(scope.counts);
    free(scope.comms);
    free(scope.ops);
    scope.counts = NULL;
    scope.comms = NULL;
    scope.ops = NULL;
    scope.n_counts = scope.room_counts = scope.room_ops = 0;
    scope_unlock();
    /* The events and the last verdict stay: they may still be read. */
}

/* ---- for Python (ringside.watch.scope) ---- */

/* Is there something to compare, or a message of this rank's that was not received while others may
 * yet receive it in this cell? */
static bool unsettled(bool first) {
    bool others = false;
    for (int r = 0; r < scope.size && scope.last; r++)
        others = others || (scope.last[r].state != IDLE && !scope.last[r].settling);
    if (first && scope.partly)
        return true;
    for (int i = 0; i < scope.n_comms; i++)
        if (first && scope.comms[i]->places > 0)
            return true;
    return (scope.n_counts > 0 && (first || others)) || scope.unclaimed;
}

/* At the end of a cell: what there is to say of it, as JSON to be given back with scope_release.
 * Waits at most `limit` seconds for a round, if there is anything to compare. `failed`: the cell
 * has ended in an error, and what it left over will be cleared. */
char *scope_settle(double limit, bool failed) {
    scope_lock();
    scope.failed = failed;
    const bool on = atomic_load(&scope.ready) && atomic_load(&scope.on);
    const struct timespec until = in(CLOCK_MONOTONIC, limit);
    bool in_time = true;
    for (bool first = true; on && in_time && !scope.broken && unsettled(first); first = false) {
        const int before = scope.settlings;
        scope.settling = true;
        scope.epoch++;
        pthread_cond_signal(&scope.bell);
        while (in_time && scope.settlings == before && !scope.broken)
            in_time = pthread_cond_timedwait(&scope.settled, &scope.lock, &until) == 0;
        scope.settling = false;
    }
    char *text = scope_settled_text();
    scope_unlock();
    return text;
}
