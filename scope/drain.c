/* Taking out what is stuck. See scope.h.
 *
 * On a verdict, or when a rank asks to stop, each rank's own thread takes its lock, so that no
 * thread of the program is in MPI any more; only when all have done so (a barrier) are open
 * receives cancelled and the messages still on their way received, exactly as many as the counts
 * say: a rank that got its message before all had stopped would wander off and leave the others
 * hanging. Sends become complete thereby, before the program can free their buffers. A collective
 * cannot be cancelled; where the ranks that have not come can stand in for themselves with memory
 * of the scope's own it is brought to its end, else it is left on its shadow, and a fresh one takes
 * its place. Then the locks are let go, and every call that waited returns scope.code. */
#define _GNU_SOURCE
#include "scope.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double drain_limit = 20;
static const double away_limit = 0.2;
static const double finish_limit = 10; /* of a drain, for collectives that all ranks have entered */

/* ---- messages ---- */

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
    int found = 0;
    if (PMPI_Improbe(source, tag, c->handle, &found, &message, &status) || !found)
        return false;
    const long long bytes = scope_received(&status);
    char *scrap = malloc((size_t)bytes + 1);
    if (!scrap)
        return false;
#if LARGE_COUNTS
    PMPI_Imrecv_c(scrap, bytes, MPI_BYTE, &message, &request);
#else
    PMPI_Imrecv(scrap, (int)bytes, MPI_BYTE, &message, &request);
#endif
    if (scope_complete(&request, true, limit)) /* else the library may still write to it */
        free(scrap);
    return true;
}

/* The rank in point-to-point calls on c. */
static int local_rank(const struct comm *c, int world) {
    const int from = c->remote ? c->size : 0, n = c->remote ? c->remote : c->size;
    for (int i = 0; i < n; i++)
        if (c->world[from + i] == world)
            return i;
    return MPI_PROC_NULL;
}

static void cancel(struct op *op) {
    op->cancelled = true;
    PMPI_Cancel(op->generalized ? &op->part[0] : &op->request);
}

static int by_age(const void *a, const void *b) {
    const struct op *one = *(struct op *const *)a, *other = *(struct op *const *)b;
    return (one->serial > other->serial) - (one->serial < other->serial);
}

/* The oldest first: a library looks for each from the beginning of its list, and there it is. */
static void cancel_receives(void) {
    struct op **open = malloc((size_t)(scope.n_ops + 1) * sizeof *open);
    int n = 0;
    for (struct op *op = scope_first(); op; op = scope_next(op)) {
        if (!op->active || op->counted || op->kind != RECV || op->dead)
            continue;
        if (open)
            open[n++] = op;
        else
            cancel(op);
    }
    if (n > 0)
        qsort(open, (size_t)n, sizeof *open, by_age);
    for (int i = 0; i < n; i++)
        cancel(open[i]);
    free(open);
}

static bool has_message(const struct op *op, const MPI_Status *status) {
    int cancelled = 0;
    PMPI_Test_cancelled(status, &cancelled);
    return !cancelled && scope_peer(op->comm, status->MPI_SOURCE) >= 0;
}

/* One look at an open send or receive. False: it is not complete. */
static bool close_op(struct op *op, struct unreceived *left, int lefts) {
    MPI_Status status;
    int done = 0;
    scope_look(op, &done, &status);
    if (!done)
        return false;
    scope_op_complete(op, &status);
    if (op->kind != RECV)
        return true;
    op->dead = !has_message(op, &status);
    if (!op->dead) {
        struct unreceived *m = left_here(left, lefts, op->comm,
                                         scope_peer(op->comm, status.MPI_SOURCE), status.MPI_TAG);
        if (m)
            m->count--;
    }
    return true;
}

/* Where a message to this rank lies, while that is there. */
static const struct comm *queue_of(const struct unreceived *m) {
    for (int k = 0; k < scope.n_comms && m->dest == scope.rank; k++)
        if (scope.comms[k]->number == m->comm && scope.comms[k]->handle != MPI_COMM_NULL)
            return scope.comms[k];
    return NULL;
}

/* Receives what is on its way to this rank and completes what is open on it. Returns the number
 * of messages taken, or -1 when not all came within the limit. Where some are in no count, those
 * that do not come for a while are taken not to be. */
static int drain(struct unreceived *left, int lefts, bool uncounted) {
    static const double while_uncounted = 1;
    const double start = scope_now();
    int taken = 0;
    scope_drop_messages();
    cancel_receives();
    for (bool open = true, awaited = true; open || awaited;) {
        open = awaited = false;
        for (struct op *op = scope_first(); op; op = scope_next(op))
            if (op->active && !op->counted && op->kind != COLLECTIVE && !op->dead)
                open = !close_op(op, left, lefts) || open;
        for (int i = 0; i < lefts; i++) {
            struct unreceived *m = &left[i];
            const struct comm *c = queue_of(m);
            while (c && m->count > 0 && take(c, local_rank(c, m->source), m->tag, drain_limit)) {
                m->count--;
                taken++;
            }
            awaited = awaited || (c && m->count > 0);
        }
        if (!open && uncounted && scope_now() - start > while_uncounted)
            break;
        if ((open || awaited) && scope_now() - start > drain_limit)
            return -1;
        if (open || awaited)
            scope_nap(0.0002);
    }
    /* Messages that were sent while the scope stepped aside are in no count. */
    for (int k = 0; k < scope.n_comms; k++)
        while (scope.comms[k]->handle != MPI_COMM_NULL &&
               take(scope.comms[k], MPI_ANY_SOURCE, MPI_ANY_TAG, drain_limit))
            taken++;
    return taken;
}

/* ---- collectives ---- */

/* Has this rank begun the collective itself, and not only come to its gate? */
static bool has_begun(const struct report *report, int comm, int index) {
    const struct record *place = scope_place(report, comm, index);
    const struct record *entered = scope_entered(report, comm);
    if (place)
        return place->kind == 1;
    return entered && entered->index >= index; /* compared, so that all had entered it */
}

/* The collective as somebody began it; NULL: nobody has, or it cannot be ended for those who have
 * not: they are unlike, or what is needed for it is not known. */
static const struct record *begun_as(const struct report *reports, const struct comm *c, int index,
                                     bool *hopeless) {
    const struct record *found = NULL;
    bool all = true;
    *hopeless = false;
    for (int m = 0; m < c->size + c->remote; m++) {
        const struct report *report = &reports[c->world[m]];
        const struct record *p = scope_place(report, c->number, index);
        *hopeless = *hopeless || (p && found && !scope_alike(p, found));
        if (p && p->kind == 1 && (!found || found->count < 0))
            found = p;
        all = all && has_begun(report, c->number, index);
    }
    *hopeless = *hopeless || (found && !all && !scope_can_join(c, found));
    return found;
}

/* The first collective on c, of those not yet compared, that cannot be brought to its end, nor can
 * any after it; the same on all ranks. */
static int first_hopeless(const struct report *reports, const struct comm *c,
                          const struct mismatch *mismatch) {
    int first = INT_MAX, last = 0;
    for (int m = 0; m < c->size + c->remote; m++) {
        const struct report *report = &reports[c->world[m]];
        const struct record *e = scope_entered(report, c->number);
        last = e && e->index > last ? e->index : last;
        for (int i = 0; i < report->rows; i++) {
            const struct record *p = &report->row[i];
            if (p->row == PLACE && p->comm == c->number && p->index < first)
                first = p->index;
        }
    }
    for (int index = first; index <= last; index++) {
        bool hopeless;
        if (mismatch->found && mismatch->comm == c->number && mismatch->index == index)
            return index;
        begun_as(reports, c, index, &hopeless);
        if (hopeless)
            return index;
    }
    return INT_MAX;
}

/* A collective this rank takes part in for the others' sake. */
struct joined {
    MPI_Request request;
    void *scrap;
};

/* Those that others have begun on c and this rank has not, in order. Returns how many. */
static int join_all(const struct report *reports, struct comm *c, const struct mismatch *mismatch,
                    struct joined *joined, int room) {
    const int hopeless = first_hopeless(reports, c, mismatch);
    int last = 0, n = 0;
    for (int m = 0; m < c->size; m++) {
        const struct record *e = scope_entered(&reports[c->world[m]], c->number);
        last = e && e->index > last ? e->index : last;
    }
    const struct record *mine = scope_entered(&reports[scope.rank], c->number);
    const int first = mine && c->places > 0 ? c->place[0].index : mine ? mine->index + 1 : last + 1;
    for (int index = first; index <= last && index < hopeless && n < room; index++) {
        bool unused;
        const struct record *p = has_begun(&reports[scope.rank], c->number, index)
                                     ? NULL
                                     : begun_as(reports, c, index, &unused);
        if (p && scope_join(c, p, &joined[n].request, &joined[n].scrap) == MPI_SUCCESS)
            n++;
        else if (p)
            free(joined[n].scrap);
    }
    return n;
}

static bool all_began(const struct report *reports, const struct comm *c, int index) {
    for (int m = 0; m < c->size + c->remote; m++)
        if (!has_begun(&reports[c->world[m]], c->number, index))
            return false;
    return true;
}

/* One look at all collectives of the program; false: some that can end have not. */
static bool look(const struct report *reports, const struct mismatch *mismatch) {
    bool all = true;
    for (struct op *op = scope_first(); op; op = scope_next(op)) {
        MPI_Status status;
        int done = 0;
        if (!op->active || op->counted || op->kind != COLLECTIVE || op->dead)
            continue;
        const bool certain = all_began(reports, op->comm, op->index);
        if (op->index >= first_hopeless(reports, op->comm, mismatch) ||
            (op->persistent && !certain))
            continue;
        const int err = scope_peek(op, &done, &status);
        if (done && !err) {
            scope_op_complete(op, &status);
            op->dead = !certain; /* some have only stood in */
        }
        all = all && (done || err);
    }
    return all;
}

/* The communicators in the order of their numbers, as on all ranks; NULL: that was the last. */
static struct comm *next_after(int last) {
    struct comm *next = NULL;
    for (int k = 0; k < scope.n_comms; k++) {
        struct comm *c = scope.comms[k];
        if (c->number > last && c->shadow != MPI_COMM_NULL && (!next || c->number < next->number))
            next = c;
    }
    return next;
}

/* Did all ranks of the communicator run the cell in which only some of them called a collective on
 * it, and is nothing of it open, which a later cell may be meant to complete? */
bool scope_strayed(const struct report *reports, int comm) {
    int least = INT_MAX, most = -1, cell = 0, having = 0, members = 0;
    for (int r = 0; r < scope.size; r++) {
        const struct record *e = scope_entered(&reports[r], comm);
        int mine = 0;
        for (int i = 0; i < reports[r].rows; i++)
            mine += reports[r].row[i].row == MEMBER && reports[r].row[i].comm == comm;
        if (!e)
            continue;
        if (e->kind == GONE || e->count > 0 || reports[r].state != IDLE)
            return false;
        having++;
        members = mine;
        least = e->index < least ? e->index : least;
        most = e->index > most ? e->index : most;
        cell = e->cell > cell ? e->cell : cell;
    }
    for (int r = 0; r < scope.size; r++)
        if (scope_entered(&reports[r], comm) && reports[r].cell != cell)
            return false;
    return least < most && having == members && cell > 0;
}

/* Brings the collectives to their end that can be, or of those alone that have strayed. False: some
 * have not ended. */
static bool finish_collectives(const struct report *reports, const struct mismatch *mismatch,
                               bool strayed) {
    enum { ROOM = 256 };
    struct joined *joined = calloc(ROOM, sizeof *joined);
    const double start = scope_now();
    int n = 0;
    for (int last = -1; joined;) {
        struct comm *next = next_after(last);
        if (!next)
            break;
        last = next->number;
        if (strayed && !scope_strayed(reports, next->number))
            continue;
        next->lost = first_hopeless(reports, next, mismatch) != INT_MAX;
        n += join_all(reports, next, mismatch, joined + n, ROOM - n);
    }
    long polls = 0; /* a long message moves a piece at each, and a nap is long on a busy machine */
    bool open = true;
    while (open && scope_now() - start < finish_limit) {
        open = !strayed && !look(reports, mismatch);
        for (int i = 0; i < n; i++) {
            int done = 1;
            if (joined[i].request != MPI_REQUEST_NULL)
                PMPI_Test(&joined[i].request, &done, MPI_STATUS_IGNORE);
            open = open || !done;
        }
        if (open && ++polls % 16 == 0)
            scope_nap(0.0002);
    }
    for (int i = 0; i < n; i++)
        if (joined[i].request == MPI_REQUEST_NULL) /* else the library may still use it */
            free(joined[i].scrap);
    free(joined);
    return !open;
}

/* Some may have yet to make this communicator, or have freed it: then it is left as it is. */
static bool all_have(const struct report *reports, const struct comm *c) {
    for (int m = 0; m < c->size + c->remote; m++) {
        const struct record *e = scope_entered(&reports[c->world[m]], c->number);
        if (!e || e->kind == GONE)
            return false;
    }
    return true;
}

/* Is there a collective on this communicator that not all its ranks have finished? */
static bool is_stuck(const struct report *reports, const struct comm *c) {
    for (int m = 0; m < c->size + c->remote; m++) {
        const struct report *report = &reports[c->world[m]];
        for (int i = 0; i < report->rows; i++) {
            const struct record *r = &report->row[i];
            if (r->row == POSTED && r->kind == COLLECTIVE &&
                (r->comm == c->number || r->peer == c->number))
                return true;
        }
    }
    return false;
}

/* What some ranks have freed, with others stuck in it, can neither be renewed nor freed. */
static void keep_for_good(const struct report *reports) {
    for (int k = 0; k < scope.n_comms; k++) {
        struct comm *c = scope.comms[k];
        if (c->shadow != MPI_COMM_NULL && !all_have(reports, c) && is_stuck(reports, c))
            c->spent = true;
    }
}

static void give_up(const struct comm *c) {
    for (struct op *op = scope_first(); op; op = scope_next(op)) {
        if (op->kind != COLLECTIVE || (op->comm != c && op->under != c))
            continue;
        op->given_up = op->persistent;
        op->dead = op->dead || (op->active && !op->counted);
    }
}

/* In the order of their numbers, so that all ranks meet on each. Returns how many, or -1: the
 * library has no more communicators to give. */
static int renew_shadows(const struct report *reports, const struct mismatch *mismatch) {
    int renewed = 0;
    for (int last = -1;;) {
        struct comm *next = next_after(last);
        if (!next)
            return renewed;
        last = next->number;
        const bool unlike = mismatch->found && mismatch->comm == next->number;
        if (!all_have(reports, next) || (!unlike && !next->lost && !is_stuck(reports, next)))
            continue;
        give_up(next);
        if (scope_shadow(next, &next->shadow) != MPI_SUCCESS)
            return -1;
        renewed++;
    }
}

/* How many communicators' ranks had entered different numbers of collectives. */
static int out_of_step(const struct report *reports) {
    int n = 0;
    for (int k = 0; k < scope.n_comms; k++) {
        const struct comm *c = scope.comms[k];
        bool differ = false;
        if (c->handle == MPI_COMM_NULL || c->gone)
            continue;
        for (int m = 0; m < c->size + c->remote; m++) {
            const struct record *e = scope_entered(&reports[c->world[m]], c->number);
            differ = differ || (e && e->index != c->entered);
        }
        n += differ;
    }
    return n;
}

/* ---- all of it ---- */

/* What a program says that has no notebook: under MPI_ERRORS_ARE_FATAL this is what it shows. Of the
 * call `name` of that thread, or, ANY_LABEL, of whichever is in the report. */
static void explain(const struct report *mine, const struct verdict *verdict, int kind, int thread,
                    int name, char *text, size_t room) {
    static const char *const why[] = {
        [STARVED] = "nobody is left who could help",
        [DEADLOCK] = "deadlock",
        [MISMATCH] = "unlike collectives met",
        [SUSPECTED] = "a deadlock is suspected",
        [STOPPED] = "stopped",
        [CLEARED] = "cleared after an error",
    };
    char whom[64] = "", ranks[64] = "";
    const struct record *need = NULL;
    for (int i = 0; i < mine->rows && !need; i++)
        if (mine->row[i].row == NEEDS && (thread == ANY_LABEL || thread == mine->row[i].waiter))
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
    if (mine->state == IDLE) /* whoever comes to hear of it waits for what was begun before */
        snprintf(text, room,
                 "Ringside: what an earlier cell had begun was taken out (%s%s): begin it anew",
                 why[kind], ranks);
    else
        snprintf(text, room, "Ringside: %s%s was left (%s%s)",
                 name ? scope_names[name] : "the call", whom, why[kind], ranks);
}

/* Each thread of the call that it was in; who was in none, or is no thread of the program's, of one. */
static void explain_all(const struct report *mine, const struct verdict *verdict, int kind) {
    char text[MPI_MAX_ERROR_STRING];
    explain(mine, verdict, kind, ANY_LABEL, mine->name, text, sizeof text);
    PMPI_Add_error_string(scope.code, text);
    for (struct thread *t = scope.threads; t; t = t->next) {
        t->left[0] = '\0';
        for (int i = 0; i < mine->rows; i++)
            if (mine->row[i].row == WAITER && mine->row[i].waiter == t->number)
                explain(mine, verdict, kind, t->number, mine->row[i].name, t->left,
                        sizeof t->left);
    }
}

static bool barrier(void) {
    MPI_Request request;
    PMPI_Ibarrier(scope.private, &request);
    return scope_complete(&request, true, drain_limit);
}

/* MPICH does not end in MPI_Finalize where it has seen many messages that nobody has received, and the
 * scope's looks make it see all of them. One that is sent out of memory that is gone by now is an error
 * of its receive: nobody's any more. Of a program of its own that fails of one (errata 13),
 * one stays. */
static bool fails_of(MPI_Comm comm) {
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION >= 50000000
    return scope_outside_wanted() && (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF);
#else
    (void)comm;
    return false;
#endif
}

void scope_take_last(struct unreceived *left, int lefts) {
    static const double limit = 5;
    const double start = scope_now();
#ifdef OPEN_MPI
    return;
#endif
    for (int i = 0; i < lefts; i++) {
        const struct comm *c = queue_of(&left[i]);
        if (!c)
            continue;
        const MPI_Errhandler before = scope_mute(c->handle);
        left[i].count -= fails_of(c->handle);
        while (left[i].count > 0 && scope_now() - start < limit) {
            if (take(c, local_rank(c, left[i].source), left[i].tag, limit))
                left[i].count--;
            else
                scope_nap(0.0002);
        }
        scope_unmute(c->handle, before);
    }
    barrier();
}

/* The least of all ranks' numbers, or -1: it took too long. */
static int least(int number) {
    static int mine, all; /* the library may write to them after the limit */
    MPI_Request request;
    mine = number;
    PMPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MIN, scope.private, &request);
    return scope_complete(&request, true, drain_limit) ? all : -1;
}

static int sum(int number) {
    static int mine, all;
    MPI_Request request;
    mine = number;
    PMPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_SUM, scope.private, &request);
    return scope_complete(&request, true, drain_limit) ? all : 0;
}

bool scope_put_in_step(void) {
    static const struct mismatch none = {0};
    struct report *now = barrier() ? scope_exchange(true, drain_limit) : NULL;
    int n = 0;
    if (!now)
        return false;
    const bool ended = least(finish_collectives(now, &none, true)) > 0;
    for (struct comm *c = next_after(-1); c; c = next_after(c->number)) {
        if (!scope_strayed(now, c->number))
            continue;
        if (c->lost || !ended) {
            give_up(c);
            if (scope_shadow(c, &c->shadow) != MPI_SUCCESS)
                continue;
        }
        scope_forget_comm(c);
        n++;
    }
    scope.epoch++;
    scope_free_reports(now);
    return sum(n) > 0;
}

/* The shortest time that a stuck rank has been in its call. */
static double youngest(const struct report *reports, const struct verdict *verdict) {
    double seconds = -1;
    for (int r = 0; r < scope.size; r++)
        if (verdict->is_stuck[r] && (seconds < 0 || reports[r].since < seconds))
            seconds = reports[r].since;
    return seconds;
}

void scope_break(const struct report *reports, const struct unreceived *left, int lefts,
                 const struct verdict *verdict, int kind) {
    int taken = -1, ours = 0, renewed = 0;
    struct report *now = NULL;
    struct unreceived *rest = NULL;
    scope_lock();
    /* Who is about to have a new communicator gets it first, unless another rank is held. */
    for (const double start = scope_now(); scope_away() && scope_now() - start < away_limit;) {
        scope_unlock();
        scope_nap(0.001);
        scope_lock();
    }
    if (barrier() && (now = scope_exchange(true, drain_limit))) {
        int rests = 0;
        bool uncounted = false;
        for (int r = 0; r < scope.size; r++)
            uncounted = uncounted || now[r].uncounted;
        rest = scope_left(scope.size, now, &rests);
        renewed = out_of_step(now);
        taken = rest ? drain(rest, rests, uncounted) : -1;
        finish_collectives(now, &verdict->mismatch, false);
        taken = scope_mend_windows(now, finish_limit) ? taken : -1;
        taken = scope_drain_tokens(drain_limit) ? taken : -1;
        ours = sum(taken > 0 ? taken : 0);
        taken = least(taken);
    }
    if (taken >= 0) {
        scope_free_reports(now);
        now = scope_exchange(true, drain_limit);
        if (now)
            keep_for_good(now);
        const int fresh = now ? renew_shadows(now, &verdict->mismatch) : -1;
        if (fresh >= 0) {
            renewed = fresh > renewed ? fresh : renewed;
            scope_forget_counts();
            scope_forget_comms();
            scope.blind = scope.uncounted = false;
            for (struct thread *t = scope.threads; t; t = t->next)
                t->tests = 0;
            scope.epoch++;
        } else {
            taken = -1;
        }
    }
    scope.generation++;
    scope.unhide = true;
    scope.raise = scope.busy;
    /* Who has not communicated in this cell loses nothing, unless it does so later: then it raises. */
    scope.broken = scope.busy && (kind == MISMATCH || (scope.did && !scope.settling));
    atomic_store(&scope.stop, NO_STOP);
    explain_all(&reports[scope.rank], verdict, kind);
    scope_tell(reports, verdict, kind, left, lefts, youngest(reports, verdict), ours, renewed,
               taken < 0);
    scope_outside_told(scope.told);
    if (scope.busy && !scope.first && scope.told)
        scope.first = strdup(scope.told);
    pthread_cond_broadcast(&scope.settled);
    scope_unlock();
    scope_free_reports(now);
    free(rest);
}
