/* How many messages went to, or came from, a peer under a tag. See scope.h.
 *
 * After each round the ranks take the messages that were both sent and received out of the counts
 * of sender and receiver: only what is under way takes room, however many tags there are. */
#include "scope.h"

#include <stdlib.h>
#include <string.h>

struct count {
    int row, comm, peer, tag; /* row 0: free */
    long long n;
    int wholes, reals; /* of these, of integers, and of floating point; the others: not known */
    int cell; /* SENT: in which the last one was */
    int origin; /* where the last one was called */
};

static struct count *slot(struct count *table, int room, int row, int comm, int peer, int tag) {
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

/* A table of that room with all counts but those of 0. */
static bool rebuild(int room) {
    struct count *table = calloc((size_t)room, sizeof *table);
    if (!table)
        return false;
    scope.n_counts = 0;
    for (int i = 0; i < scope.room_counts; i++) {
        const struct count *old = &scope.counts[i];
        if (old->row == 0 || old->n == 0)
            continue;
        *slot(table, room, old->row, old->comm, old->peer, old->tag) = *old;
        scope.n_counts++;
    }
    free(scope.counts);
    scope.counts = table;
    scope.room_counts = room;
    return true;
}

void scope_count(int row, int comm, int peer, int tag, int by, char number, int origin) {
    if (2 * (scope.n_counts + 1) > scope.room_counts &&
        !rebuild(scope.room_counts ? 2 * scope.room_counts : 256)) {
        scope.blind = true;
        return;
    }
    struct count *c = slot(scope.counts, scope.room_counts, row, comm, peer, tag);
    if (c->row == 0) {
        *c = (struct count){.row = row, .comm = comm, .peer = peer, .tag = tag};
        scope.n_counts++;
    }
    c->n += by;
    c->wholes += number == 'i';
    c->reals += number == 'f';
    if (row == SENT)
        c->cell = scope.cell;
    if (row == SENT || number)
        c->origin = origin;
}

/* Of n messages, all received: were some sent as the one kind of number and taken for the other? */
static bool misread(long long n, int sent, int taken_for_others) {
    return sent + taken_for_others > n;
}

/* Both sides read the same reports, and so take out the same. */
void scope_settle_counts(const struct report *reports) {
    const struct report *me = &reports[scope.rank];
    int many = 1, room = 16, empty = 0;
    for (int r = 0; r < scope.size; r++)
        for (int i = 0; i < reports[r].rows; i++)
            many += reports[r].row[i].peer == scope.rank;
    while (room < 2 * many)
        room *= 2;
    struct count *theirs = calloc((size_t)room, sizeof *theirs); /* by what it is on this side */
    for (int r = 0; r < scope.size && theirs; r++) {
        for (int i = 0; i < reports[r].rows; i++) {
            const struct record *c = &reports[r].row[i];
            if ((c->row != SENT && c->row != RECEIVED) || c->peer != scope.rank)
                continue;
            const int here = c->row == SENT ? RECEIVED : SENT;
            *slot(theirs, room, here, c->comm, r, c->tag) =
                (struct count){.row = here, .comm = c->comm, .peer = r, .tag = c->tag, .n = c->count,
                               .wholes = (int)c->given, .reals = (int)c->taken, .origin = c->origin};
        }
    }
    for (int i = 0; i < me->rows && theirs; i++) {
        const struct record *c = &me->row[i];
        if (c->row != SENT && c->row != RECEIVED)
            continue;
        const struct count *other = slot(theirs, room, c->row, c->comm, c->peer, c->tag);
        struct count *own = slot(scope.counts, scope.room_counts, c->row, c->comm, c->peer, c->tag);
        const bool all = own->row && other->row && c->count == other->n;
        const bool wholes = all && misread(other->n, other->wholes, (int)c->taken);
        if (c->row == RECEIVED && (wholes || (all && misread(other->n, other->reals, (int)c->given))))
            scope_tell_misread(reports, c, other->origin, wholes);
        if (own->row && other->row) {
            own->n -= c->count < other->n ? c->count : other->n;
            own->wholes -= all ? (int)c->given : own->wholes; /* whose they were is not known */
            own->reals -= all ? (int)c->taken : own->reals;
        }
        empty += own->row && own->n == 0;
    }
    free(theirs);
    if (empty > 0)
        rebuild(scope.room_counts > 4096 && 8 * (scope.n_counts - empty) < scope.room_counts
                    ? scope.room_counts / 4
                    : scope.room_counts);
}

/* After a drain, and when the scope is switched on again: no message is under way. */
void scope_forget_counts(void) {
    if (scope.counts)
        memset(scope.counts, 0, (size_t)scope.room_counts * sizeof *scope.counts);
    scope.n_counts = 0;
}

void scope_count_rows(struct report *report, int *room) {
    for (int i = 0; i < scope.room_counts; i++) {
        const struct count *c = &scope.counts[i];
        if (c->row == 0 || c->n == 0)
            continue;
        struct record *r = scope_row(report, c->row, room);
        if (!r)
            return;
        r->comm = c->comm;
        r->peer = c->peer;
        r->tag = c->tag;
        r->count = (int)c->n;
        r->index = c->cell;
        r->origin = c->origin;
        r->given = c->wholes;
        r->taken = c->reals;
    }
}
