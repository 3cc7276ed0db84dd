/* From the reports of all ranks to a verdict. No MPI call here, and nothing but the arguments.
 *
 * A rank that is not in MPI may yet do anything, and so may one that tests in a loop. A rank that
 * waits can go on when what one of its threads waits for is on its way, or can still come from a
 * rank that can go on: all its needs (Wait, Waitall, blocking calls, collectives) or any (Waitany,
 * MPI_ANY_SOURCE). Starting from the ranks that are not waiting this is followed until nothing
 * changes; who is left can never go on, by the progress MPI guarantees. A message counts as on its
 * way as long as it was sent, is not received, and someone waits for its like; which of several
 * messages a receive will take is thus left to MPI, and a transfer that is merely slow is never
 * stuck. Two ranks that entered unlike collectives at the same place are a verdict of their own,
 * whether anybody waits or not. */
#include "scope.h"

#include <stdlib.h>
#include <string.h>

struct world {
    int n;
    const struct report *reports;
    const struct unreceived *left;
    int lefts;
    bool *free;
    struct index *index; /* of each rank */
};

/* Open requests, and what matched probes took, in the order of what they are of: of tens of thousands
 * of requests each is looked for among all. */
struct index {
    const struct record **row;
    int n;
};

static bool fits(int wanted, int given) { return wanted == ANY_LABEL || wanted == given; }

static int compare(const void *a, const void *b) {
    const struct unreceived *x = a, *y = b;
    const int keys[][2] = {{x->dest, y->dest}, {x->comm, y->comm}, {x->source, y->source}};
    for (int i = 0; i < 3; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* The senders' counts less the receivers'; what a matched probe took is no longer there to be
 * received by others. */
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
                all[many++] = (struct unreceived){r, c->peer, c->comm, c->tag, c->count, c->index,
                                                  c->origin};
            if ((c->row == RECEIVED || c->row == HELD) && c->peer < n)
                all[many++] = (struct unreceived){c->peer, r, c->comm, c->tag, -c->count, 0, 0};
        }
    }
    qsort(all, (size_t)many, sizeof *all, compare);
    int kept = 0;
    for (int i = 0; i < many;) {
        struct unreceived sum = all[i];
        for (i++; i < many && compare(&sum, &all[i]) == 0; i++) {
            sum.count += all[i].count;
            sum.cell = all[i].cell > sum.cell ? all[i].cell : sum.cell;
            sum.origin = all[i].origin ? all[i].origin : sum.origin;
        }
        if (sum.count > 0)
            all[kept++] = sum;
    }
    *lefts = kept;
    return all;
}

static int compare_rows(const void *a, const void *b) {
    const struct record *x = *(const struct record *const *)a;
    const struct record *y = *(const struct record *const *)b;
    const int keys[][2] = {{x->row, y->row}, {x->kind, y->kind}, {x->comm, y->comm},
                           {x->peer, y->peer}};
    for (int i = 0; i < 4; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return (x->tag > y->tag) - (x->tag < y->tag);
}

/* No rows: no memory. */
static struct index index_of(const struct report *report) {
    struct index x = {calloc((size_t)report->rows + 1, sizeof *x.row), 0};
    for (int i = 0; i < report->rows && x.row; i++)
        if (report->row[i].row == POSTED || report->row[i].row == HELD)
            x.row[x.n++] = &report->row[i];
    if (x.n > 1)
        qsort(x.row, (size_t)x.n, sizeof *x.row, compare_rows);
    return x;
}

static struct index *index_all(int n, const struct report *reports) {
    struct index *all = calloc((size_t)n + 1, sizeof *all);
    for (int r = 0; r < n && all; r++)
        all[r] = index_of(&reports[r]);
    return all;
}

static void forget_index(int n, struct index *all) {
    for (int r = 0; r < n && all; r++)
        free(all[r].row);
    free(all);
}

/* How many rows are of that, and in *sum how many requests or messages. */
static int look_up(const struct index *x, int row, int kind, int comm, int peer, int tag,
                   long long *sum) {
    const struct record key = {.row = row, .kind = kind, .comm = comm, .peer = peer, .tag = tag};
    const struct record *const wanted = &key;
    int first = 0, last = x->n, found = 0;
    while (first < last) {
        const int middle = first + (last - first) / 2;
        if (compare_rows(&x->row[middle], &wanted) < 0)
            first = middle + 1;
        else
            last = middle;
    }
    for (; first < x->n && compare_rows(&x->row[first], &wanted) == 0; first++, found++)
        *sum += x->row[first]->count;
    return found;
}

static bool is_posted(const struct index *dest, int comm, int source, int tag) {
    long long sum = 0;
    return look_up(dest, POSTED, RECV, comm, source, tag, &sum) ||
           look_up(dest, POSTED, RECV, comm, source, ANY_LABEL, &sum) ||
           look_up(dest, POSTED, RECV, comm, ANY_PEER, tag, &sum) ||
           look_up(dest, POSTED, RECV, comm, ANY_PEER, ANY_LABEL, &sum);
}

/* The communicator, not yet freed? */
static bool has(const struct report *report, int comm) {
    const struct record *entered = scope_entered(report, comm);
    return entered && entered->kind != GONE;
}

int scope_unclaimed(int n, const struct report *reports, struct unreceived *left, int lefts) {
    int kept = 0;
    struct index *index = lefts > 0 ? index_all(n, reports) : NULL;
    for (int i = 0; i < lefts && index; i++)
        if (left[i].dest < n && has(&reports[left[i].dest], left[i].comm) &&
            !is_posted(&index[left[i].dest], left[i].comm, left[i].source, left[i].tag))
            left[kept++] = left[i];
    forget_index(n, index);
    return kept;
}

const struct record *scope_entered(const struct report *report, int comm) {
    for (int i = 0; i < report->rows; i++)
        if (report->row[i].row == ENTERED && report->row[i].comm == comm)
            return &report->row[i];
    return NULL;
}

const struct record *scope_place(const struct report *report, int comm, int index) {
    for (int i = 0; i < report->rows; i++) {
        const struct record *r = &report->row[i];
        if (r->row == PLACE && r->comm == comm && r->index == index)
            return r;
    }
    return NULL;
}

/* ---- unlike collectives ---- */

bool scope_alike(const struct record *a, const struct record *b) {
    return a->name == b->name && a->tag == b->tag && a->waiter == b->waiter &&
           (a->size == b->size || a->size < 0 || b->size < 0) && a->detail == b->detail &&
           (a->likeness == b->likeness || a->likeness == 0 || b->likeness == 0);
}

static int compare_places(const void *a, const void *b) {
    const struct record *x = *(const struct record *const *)a;
    const struct record *y = *(const struct record *const *)b;
    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int members(const struct report *report, int comm) {
    int n = 0;
    for (int i = 0; i < report->rows; i++)
        n += report->row[i].row == MEMBER && report->row[i].comm == comm;
    return n;
}

/* All have come, each with counts or a root of its own: do they take out what they hand in? */
static bool out_of_balance(const struct report *one, const struct record *const *place, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += place[i]->balance;
    return sum != 0 && (int)n == members(one, place[0]->comm);
}

/* The first place, by communicator, at which the ranks are not alike. */
static struct mismatch find_mismatch(int n, const struct report *reports) {
    struct mismatch found = {0};
    const struct report *one = reports; /* of those that have come to the place in hand */
    size_t many = 0;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < reports[r].rows; i++)
            many += reports[r].row[i].row == PLACE;
    const struct record **place = many > 1 ? calloc(many, sizeof *place) : NULL;
    size_t at = 0;
    for (int r = 0; r < n && place; r++)
        for (int i = 0; i < reports[r].rows; i++)
            if (reports[r].row[i].row == PLACE)
                place[at++] = &reports[r].row[i];
    if (place)
        qsort(place, many, sizeof *place, compare_places);
    for (size_t first = 0, last; place && first < many && !found.found; first = last) {
        bool unlike = false;
        for (last = first + 1; last < many && compare_places(&place[first], &place[last]) == 0;
             last++)
            unlike = unlike || !scope_alike(place[last - 1], place[last]);
        for (int r = 0; r < n; r++)
            if (members(&reports[r], place[first]->comm) > 0)
                one = &reports[r];
        if (unlike || out_of_balance(one, place + first, last - first))
            found = (struct mismatch){.found = true, .comm = place[first]->comm, .index = place[first]->index};
    }
    free(place);
    return found;
}

static bool hangs_in(const struct report *report, const struct mismatch *mismatch) {
    for (int i = 0; i < report->rows; i++) {
        const struct record *r = &report->row[i];
        if (r->row == NEEDS && r->kind == COLLECTIVE && r->comm == mismatch->comm &&
            r->index == mismatch->index)
            return true;
    }
    return false;
}

/* ---- can a need be met? ---- */

/* `target`, where given, learns of those who would have to help and cannot. */
static bool helped(const struct world *w, int peer, bool *target) {
    if (peer < 0 || peer >= w->n)
        return true;
    if (!w->free[peer] && target)
        target[peer] = true;
    return w->free[peer];
}

static const struct unreceived *find_left(const struct world *w, int source, int dest, int comm,
                                          int tag) {
    const struct unreceived key = {.source = source, .dest = dest, .comm = comm, .tag = tag};
    return w->lefts > 0 ? bsearch(&key, w->left, (size_t)w->lefts, sizeof key, compare) : NULL;
}

static bool receive_can_end(const struct world *w, int rank, const struct record *need,
                            bool *target) {
    if (need->peer != ANY_PEER && need->tag != ANY_LABEL) /* there may be tens of thousands */
        return find_left(w, need->peer, rank, need->comm, need->tag) ||
               helped(w, need->peer, target);
    int first = 0, last = w->lefts; /* those for this rank lie together */
    while (first < last) {
        const int middle = first + (last - first) / 2;
        if (w->left[middle].dest < rank)
            first = middle + 1;
        else
            last = middle;
    }
    for (int i = first; i < w->lefts && w->left[i].dest == rank; i++) {
        const struct unreceived *m = &w->left[i];
        if (m->comm == need->comm && fits(need->tag, m->tag) &&
            (need->peer == ANY_PEER || need->peer == m->source))
            return true;
    }
    if (need->peer != ANY_PEER)
        return helped(w, need->peer, target);
    bool any = false;
    for (int i = 0; i < w->reports[rank].rows; i++) {
        const struct record *member = &w->reports[rank].row[i];
        if (member->row == MEMBER && member->comm == need->comm && member->peer != rank)
            any = helped(w, member->peer, target) || any;
    }
    return any;
}

static bool send_can_end(const struct world *w, int rank, const struct record *need,
                         bool *target) {
    long long open = 0, left = 0;
    if (is_posted(&w->index[need->peer], need->comm, rank, need->tag))
        return true;
    look_up(&w->index[rank], POSTED, SEND, need->comm, need->peer, need->tag, &open);
    const struct unreceived *m = find_left(w, rank, need->peer, need->comm, need->tag);
    left += m ? m->count : 0;
    look_up(&w->index[need->peer], HELD, 0, need->comm, rank, need->tag, &left);
    if (left < open || (need->kind == BUFFER && left == 0)) /* received already */
        return true;
    return helped(w, need->peer, target);
}

/* Everyone has to come. */
static bool collective_can_end(const struct world *w, int rank, const struct record *need,
                               bool *target) {
    bool all = true;
    for (int i = 0; i < w->reports[rank].rows; i++) {
        const struct record *member = &w->reports[rank].row[i];
        if (member->row != MEMBER || member->comm != need->comm)
            continue;
        const struct record *theirs = scope_entered(&w->reports[member->peer], need->comm);
        if (!theirs || theirs->index < need->index)
            all = helped(w, member->peer, target) && all;
    }
    return all;
}

/* Locks are given in the order in which they were asked for: who wants one to share waits for who
 * wants it alone, if it has waited long enough for that to be the reason. */
static bool comes_first(const struct world *w, const struct record *other, int rank,
                        const struct record *need) {
    static const double long_enough = 5;
    return other->row == NEEDS && other->kind == WINDOW && other->tag == EXCLUSIVE &&
           other->comm == need->comm && other->peer == need->peer && need->tag == SHARED &&
           w->reports[rank].since > long_enough;
}

/* Who holds the lock has to let it go, unless it can be shared. */
static bool window_can_end(const struct world *w, int rank, const struct record *need,
                           bool *target) {
    if (need->tag == ANY_LABEL)
        return helped(w, need->peer, target);
    bool all = true;
    for (int r = 0; r < w->n; r++) {
        for (int i = 0; i < w->reports[r].rows && r != rank; i++) {
            const struct record *holds = &w->reports[r].row[i];
            if ((holds->row == HOLDS && holds->comm == need->comm && holds->peer == need->peer &&
                 (holds->kind == EXCLUSIVE || need->tag == EXCLUSIVE)) ||
                comes_first(w, holds, rank, need))
                all = helped(w, r, target) && all;
        }
    }
    return all;
}

static bool can_end(const struct world *w, int rank, const struct record *need, bool *target) {
    switch (need->kind) {
    case RECV:
    case PROBE:
        return receive_can_end(w, rank, need, target);
    case SEND:
    case BUFFER:
        return need->peer < 0 || need->peer >= w->n || send_can_end(w, rank, need, target);
    case COLLECTIVE:
        return collective_can_end(w, rank, need, target);
    case WINDOW:
        return window_can_end(w, rank, need, target);
    default:
        return true;
    }
}

/* Can one of its threads? */
static bool can_go_on(const struct world *w, int rank) {
    const struct report *me = &w->reports[rank];
    for (int t = 0; t < me->rows; t++) {
        const struct record *waiter = &me->row[t];
        int needs = 0, met = 0;
        if (waiter->row != WAITER)
            continue;
        for (int i = 0; i < me->rows; i++) {
            const struct record *need = &me->row[i];
            if (need->row != NEEDS || need->waiter != waiter->waiter)
                continue;
            needs++;
            const bool ends = can_end(w, rank, need, NULL);
            met += ends;
            if (ends == (waiter->kind == ANY)) /* one decides */
                break;
        }
        if (needs == 0 || (waiter->kind == ANY ? met > 0 : met == needs))
            return true;
    }
    return false;
}

/* Who can go on, if idle ranks will (a next cell) or will not (the notebook waits for this one),
 * and if loops of tests will end by themselves or not. */
static void follow(struct world *w, bool idle_helps, bool polling_helps) {
    for (int r = 0; r < w->n; r++) {
        const int state = w->reports[r].state;
        w->free[r] = state == COMPUTING || (state == IDLE && idle_helps) ||
                     (state == POLLING && polling_helps);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < w->n; r++) {
            const int state = w->reports[r].state;
            if (!w->free[r] && state != COMPUTING && can_go_on(w, r))
                w->free[r] = changed = true;
        }
    }
}

static bool waits(const struct world *w, int rank) {
    const int state = w->reports[rank].state;
    return state == BLOCKED || state == POLLING;
}

/* Who is stuck in this view; false: nobody, or one of them has just moved. */
static bool stuck(const struct world *w, const long long *before, struct verdict *verdict) {
    bool still = true;
    verdict->stuck = 0;
    for (int r = 0; r < w->n; r++) {
        verdict->is_stuck[r] = !w->free[r] && waits(w, r);
        verdict->stuck += verdict->is_stuck[r];
        still = still && (!verdict->is_stuck[r] || w->reports[r].epoch == before[r]);
    }
    return verdict->stuck > 0 && still;
}

/* Nobody computes, nothing has changed for long: no proof, as a loop of tests may end by itself,
 * and there may be what was not judged. `at_least`: how many are starved as it is. */
static int suspect(struct world *w, const long long *before, int at_least,
                   struct verdict *verdict) {
    bool idle = false;
    for (int r = 0; r < w->n; r++) {
        if (w->reports[r].state == COMPUTING || w->reports[r].epoch != before[r])
            return RUNNING;
        idle = idle || w->reports[r].state == IDLE;
    }
    verdict->suspicion = true;
    for (int kind = SUSPECTED; kind != RUNNING; kind = kind == SUSPECTED ? STARVED : RUNNING) {
        follow(w, kind == SUSPECTED, false);
        if (stuck(w, before, verdict) && verdict->stuck > at_least)
            return kind;
    }
    verdict->stuck = 0;
    for (int r = 0; r < w->n; r++) {
        verdict->is_stuck[r] = waits(w, r);
        verdict->stuck += verdict->is_stuck[r];
    }
    return verdict->stuck <= at_least ? RUNNING : idle ? STARVED : SUSPECTED;
}

void scope_judge(int n, const struct report *reports, const long long *before,
                 const struct unreceived *left, int lefts, bool quiet, struct verdict *verdict) {
    struct world w = {n, reports, left, lefts, calloc((size_t)n, sizeof(bool)),
                      index_all(n, reports)};
    bool blind = !w.free || !left || !w.index; /* no memory: say nothing rather than something wrong */
    *verdict = (struct verdict){.kind = RUNNING, .is_stuck = verdict->is_stuck};
    verdict->mismatch = find_mismatch(n, reports);
    for (int r = 0; r < n; r++)
        blind = blind || reports[r].blind;
    if (verdict->mismatch.found) {
        verdict->kind = MISMATCH;
        for (int r = 0; r < n; r++) {
            verdict->is_stuck[r] = hangs_in(&reports[r], &verdict->mismatch);
            verdict->stuck += verdict->is_stuck[r];
        }
    } else if (w.free && left && w.index) {
        for (int kind = DEADLOCK; kind >= STARVED && !blind && verdict->kind == RUNNING; kind--) {
            follow(&w, kind == DEADLOCK, true);
            if (stuck(&w, before, verdict))
                verdict->kind = kind;
        }
        if (verdict->kind != DEADLOCK && quiet) {
            const int starved = verdict->kind == STARVED ? verdict->stuck : 0;
            const int kind = suspect(&w, before, starved, verdict);
            verdict->suspicion = kind != RUNNING;
            if (kind != RUNNING)
                verdict->kind = kind;
            else if (starved) /* as it was */
                follow(&w, false, true), stuck(&w, before, verdict);
        }
    }
    if (verdict->kind == RUNNING) {
        verdict->stuck = 0;
        memset(verdict->is_stuck, 0, (size_t)n * sizeof *verdict->is_stuck);
    }
    free(w.free);
    forget_index(n, w.index);
}

/* Where nobody is known to be free but who computes: the same view for all kinds of verdict. */
void scope_targets(int n, const struct report *reports, int rank, const struct record *need,
                   bool *target) {
    int lefts = 0;
    struct unreceived *left = scope_left(n, reports, &lefts);
    struct world w = {n, reports, left, lefts, calloc((size_t)n, sizeof(bool)),
                      index_all(n, reports)};
    memset(target, 0, (size_t)n * sizeof *target);
    if (w.free && left && w.index)
        can_end(&w, rank, need, target);
    free(w.free);
    forget_index(n, w.index);
    free(left);
}
