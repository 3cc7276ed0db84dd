/* From the states of all ranks to a verdict. No MPI call here, and nothing but the arguments.
 *
 * A rank that is not in MPI may yet do anything. A rank that waits can go on when what it waits
 * for is on its way, or can still come from a rank that can go on: of all its needs (Wait,
 * Waitall, blocking calls, collectives) or of any (Waitany, MPI_ANY_SOURCE, a loop of tests).
 * Starting from the ranks that are not waiting this is followed until nothing changes; who is
 * left can never go on, by the progress MPI guarantees. A message counts as on its way as long as
 * it was sent, is not received, and someone waits for its like; which of several messages a
 * receive will take is thus left to MPI, and a transfer that is merely slow is never stuck. */
#include "scope.h"

#include <stdlib.h>
#include <string.h>

struct world {
    int n;
    const struct report *reports;
    const struct unreceived *left;
    int lefts;
    bool *free;
};

static bool fits(int wanted, int given) { return wanted == ANY_LABEL || wanted == given; }

static int compare(const void *a, const void *b) {
    const struct unreceived *x = a, *y = b;
    const int keys[][2] = {{x->comm, y->comm}, {x->source, y->source}, {x->dest, y->dest}};
    for (int i = 0; i < 3; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* The senders' counts less the receivers'. */
struct unreceived *scope_left(int n, const struct report *reports, int *lefts) {
    size_t rows = 1;
    for (int r = 0; r < n; r++)
        rows += (size_t)reports[r].rows;
    struct unreceived *all = calloc(rows, sizeof *all);
    int many = 0;
    *lefts = 0;
    if (!all)
        return NULL;
    for (int r = 0; r < n; r++) {
        for (int i = 0; i < reports[r].rows; i++) {
            const struct record *c = &reports[r].row[i];
            if (c->row == SENT && c->peer < n)
                all[many++] = (struct unreceived){r, c->peer, c->comm, c->tag, c->size};
            if (c->row == RECEIVED && c->peer < n)
                all[many++] = (struct unreceived){c->peer, r, c->comm, c->tag, -c->size};
        }
    }
    qsort(all, (size_t)many, sizeof *all, compare);
    int kept = 0;
    for (int i = 0; i < many;) {
        struct unreceived sum = all[i];
        for (i++; i < many && compare(&sum, &all[i]) == 0; i++)
            sum.count += all[i].count;
        if (sum.count > 0)
            all[kept++] = sum;
    }
    *lefts = kept;
    return all;
}

static const struct record *entered(const struct report *report, int comm) {
    for (int i = 0; i < report->rows; i++)
        if (report->row[i].row == ENTERED && report->row[i].comm == comm)
            return &report->row[i];
    return NULL;
}

static bool receive_can_end(const struct world *w, int rank, const struct record *need) {
    for (int i = 0; i < w->lefts; i++) {
        const struct unreceived *m = &w->left[i];
        if (m->dest == rank && m->comm == need->comm && fits(need->tag, m->tag) &&
            (need->peer == ANY_PEER || need->peer == m->source))
            return true;
    }
    if (need->peer != ANY_PEER)
        return need->peer >= 0 && need->peer < w->n && w->free[need->peer];
    for (int i = 0; i < w->reports[rank].rows; i++) {
        const struct record *member = &w->reports[rank].row[i];
        if (member->row == MEMBER && member->comm == need->comm && member->peer != rank &&
            w->free[member->peer])
            return true;
    }
    return false;
}

static bool send_can_end(const struct world *w, int rank, const struct record *need) {
    const struct report *me = &w->reports[rank], *dest = &w->reports[need->peer];
    long long open = 0, left = 0;
    for (int i = 0; i < dest->rows; i++) {
        const struct record *r = &dest->row[i];
        if (r->row == POSTED && r->kind == RECV && r->comm == need->comm &&
            fits(r->tag, need->tag) && (r->peer == ANY_PEER || r->peer == rank))
            return true;
    }
    for (int i = 0; i < me->rows; i++) {
        const struct record *r = &me->row[i];
        if (r->row == POSTED && r->kind == SEND && r->comm == need->comm &&
            r->peer == need->peer && r->tag == need->tag)
            open++;
    }
    for (int i = 0; i < w->lefts; i++) {
        const struct unreceived *m = &w->left[i];
        if (m->source == rank && m->dest == need->peer && m->comm == need->comm &&
            m->tag == need->tag)
            left += m->count;
    }
    return left < open || w->free[need->peer]; /* received already, or it may yet be */
}

/* Everyone has to come; and all that have come have to mean the same. */
static bool collective_can_end(const struct world *w, int rank, const struct record *need) {
    const struct record *mine = entered(&w->reports[rank], need->comm);
    bool alike = true;
    for (int i = 0; i < w->reports[rank].rows; i++) {
        const struct record *member = &w->reports[rank].row[i];
        if (member->row != MEMBER || member->comm != need->comm)
            continue;
        const struct record *theirs = entered(&w->reports[member->peer], need->comm);
        if (!theirs || theirs->index < need->index) {
            if (!w->free[member->peer])
                return false;
        } else if (mine && mine->index == need->index && theirs->index == need->index &&
                   strcmp(mine->call, theirs->call) != 0) {
            alike = false;
        }
    }
    return alike;
}

static bool can_end(const struct world *w, int rank, const struct record *need) {
    switch (need->kind) {
    case RECV:
    case PROBE:
        return receive_can_end(w, rank, need);
    case SEND:
        return send_can_end(w, rank, need);
    case COLLECTIVE:
        return collective_can_end(w, rank, need);
    default:
        return true;
    }
}

static bool can_go_on(const struct world *w, int rank) {
    const struct report *me = &w->reports[rank];
    int needs = 0, met = 0;
    for (int i = 0; i < me->rows; i++) {
        if (me->row[i].row != NEEDS)
            continue;
        needs++;
        met += can_end(w, rank, &me->row[i]);
    }
    return needs == 0 || (me->mode == ANY ? met > 0 : met == needs);
}

/* Who can go on, if idle ranks will (a next cell) or will not (the notebook waits for this one). */
static void follow(struct world *w, bool idle_helps) {
    for (int r = 0; r < w->n; r++) {
        const int state = w->reports[r].state;
        w->free[r] = state == COMPUTING || (state == IDLE && idle_helps);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < w->n; r++) {
            const int state = w->reports[r].state;
            if (!w->free[r] && (state == BLOCKED || state == POLLING) && can_go_on(w, r))
                w->free[r] = changed = true;
        }
    }
}

void scope_judge(int n, const struct report *reports, const long long *before,
                 const struct unreceived *left, int lefts, struct verdict *verdict) {
    struct world w = {n, reports, left, lefts, calloc((size_t)n, sizeof(bool))};
    bool blind = !w.free || !left; /* no memory: say nothing rather than something wrong */
    verdict->kind = RUNNING;
    verdict->stuck = 0;
    memset(verdict->is_stuck, 0, (size_t)n * sizeof *verdict->is_stuck);
    for (int r = 0; r < n; r++)
        blind = blind || reports[r].blind;
    if (blind) {
        free(w.free);
        return;
    }
    for (int kind = DEADLOCK; kind >= STARVED && verdict->kind == RUNNING; kind--) {
        bool still = true;
        int stuck = 0;
        follow(&w, kind == DEADLOCK);
        for (int r = 0; r < n; r++) {
            const int state = reports[r].state;
            verdict->is_stuck[r] = !w.free[r] && (state == BLOCKED || state == POLLING);
            if (verdict->is_stuck[r]) {
                stuck++;
                still = still && reports[r].epoch == before[r];
            }
        }
        if (stuck > 0 && still) {
            verdict->kind = kind;
            verdict->stuck = stuck;
        }
    }
    if (verdict->kind == RUNNING)
        memset(verdict->is_stuck, 0, (size_t)n * sizeof *verdict->is_stuck);
    free(w.free);
}
