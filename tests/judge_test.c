/* The judge against cases made by hand. There is no MPI in it: run as a plain program, it names
 * each case that it gets wrong and returns how many there are. */
#include "scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, ROWS = 64 };

static struct record rows[RANKS][ROWS];
static struct report world[RANKS];
static int n, wrong;
static int on; /* the communicator, or the window, of what is said next */
static bool moved[RANKS];

static struct record *add(int rank, int row) {
    struct record *r = &rows[rank][world[rank].rows++];
    *r = (struct record){.row = row, .comm = on};
    return r;
}

/* The first ranks know this communicator, of which what follows speaks. */
static void communicator(int number, int ranks) {
    on = number;
    for (int r = 0; r < ranks; r++) {
        add(r, ENTERED);
        for (int m = 0; m < ranks; m++)
            add(r, MEMBER)->peer = m;
    }
}

/* All ranks compute, and know communicator 0. */
static void start(int ranks) {
    n = ranks;
    memset(world, 0, sizeof world);
    memset(moved, 0, sizeof moved);
    for (int r = 0; r < n; r++)
        world[r] = (struct report){.rank = r, .state = COMPUTING, .epoch = 7, .row = rows[r]};
    communicator(0, n);
}

static void message(int row, int rank, int peer, int tag, long long count) {
    struct record *r = add(rank, row);
    r->peer = peer;
    r->tag = tag;
    r->count = (int)count;
}

static void open_(int rank, int kind, int peer, int tag) {
    struct record *r = add(rank, POSTED);
    r->kind = kind;
    r->peer = peer;
    r->tag = tag;
    r->count = 1;
}

/* A thread of the rank waits, for all or for any of what is said next. */
static void waiter(int rank, int number, int mode) {
    struct record *r = add(rank, WAITER);
    r->waiter = number;
    r->kind = mode;
}

static void mode(int rank, int mode) {
    for (int i = 0; i < world[rank].rows; i++)
        if (rows[rank][i].row == WAITER)
            rows[rank][i].kind = mode;
}

static void need(int rank, int kind, int peer, int tag) {
    if (world[rank].state != BLOCKED)
        waiter(rank, 0, ALL);
    struct record *r = add(rank, NEEDS);
    r->kind = kind;
    r->peer = peer;
    r->tag = tag;
    world[rank].state = BLOCKED;
}

static void sends(int rank, int peer, int tag) {
    message(SENT, rank, peer, tag, 1);
    open_(rank, SEND, peer, tag);
    need(rank, SEND, peer, tag);
}

static void receives(int rank, int peer, int tag) {
    open_(rank, RECV, peer, tag);
    need(rank, RECV, peer, tag);
}

static void enters(int rank, int name, int root, int index) {
    for (int i = 0; i < world[rank].rows; i++) {
        if (rows[rank][i].row == ENTERED && rows[rank][i].comm == on)
            rows[rank][i].index = index;
        if (rows[rank][i].row == PLACE && rows[rank][i].comm == on)
            rows[rank][i].row = 0; /* another in its stead */
    }
    struct record *r = add(rank, PLACE);
    r->name = name;
    r->tag = root;
    r->index = index;
    r->size = r->given = r->taken = -1;
}

static void collective(int rank, int name, int root, int index) {
    enters(rank, name, root, index);
    need(rank, COLLECTIVE, ANY_PEER, 0);
    rows[rank][world[rank].rows - 1].index = index;
}

/* It has locked the part of `peer` of a window. */
static void holds(int rank, int kind, int peer) {
    struct record *r = add(rank, HOLDS);
    r->kind = kind;
    r->peer = peer;
}

static bool quiet;

/* `stuck`: one letter a rank, x for stuck. */
static void expect(const char *what, int kind, const char *stuck) {
    long long before[RANKS];
    bool is_stuck[RANKS];
    struct verdict verdict = {.is_stuck = is_stuck};
    int lefts = 0;
    for (int r = 0; r < n; r++)
        before[r] = moved[r] ? world[r].epoch - 1 : world[r].epoch;
    struct unreceived *left = scope_left(n, world, &lefts);
    scope_judge(n, world, before, left, lefts, quiet, &verdict);
    free(left);
    bool good = verdict.kind == kind;
    for (int r = 0; r < n; r++)
        good = good && is_stuck[r] == (stuck[r] == 'x');
    if (good)
        return;
    wrong++;
    printf("%s: verdict %d where %d was due, stuck ", what, verdict.kind, kind);
    for (int r = 0; r < n; r++)
        putchar(is_stuck[r] ? 'x' : '.');
    printf(" where %s was due\n", stuck);
}

/* For whom a rank waits, by what it said last: one letter a rank, x for those. */
static void expect_targets(const char *what, int rank, const char *due) {
    bool target[RANKS], good = true;
    scope_targets(n, world, rank, &rows[rank][world[rank].rows - 1], target);
    for (int r = 0; r < n; r++)
        good = good && target[r] == (due[r] == 'x');
    if (good)
        return;
    wrong++;
    printf("%s: rank %d waits for ", what, rank);
    for (int r = 0; r < n; r++)
        putchar(target[r] ? 'x' : '.');
    printf(" where %s was due\n", due);
}

static void point_to_point(void) {
    start(2);
    expect("all compute", RUNNING, "..");

    start(1);
    receives(0, 0, 0);
    expect("a rank waits for itself", DEADLOCK, "x");

    start(2);
    sends(0, 1, 0), sends(1, 0, 0);
    expect("two sends", DEADLOCK, "xx");
    moved[1] = true;
    expect("two sends, one only just begun", RUNNING, "..");

    start(2);
    sends(0, 1, 0), receives(1, 0, 0);
    expect("a slow transfer", RUNNING, "..");

    start(2);
    sends(0, 1, 0), receives(1, 0, 1);
    expect("another tag", DEADLOCK, "xx");

    start(2);
    sends(0, 1, 5), receives(1, ANY_PEER, ANY_LABEL);
    expect("wildcards", RUNNING, "..");

    start(3);
    sends(0, 1, 0), receives(1, 2, 0), receives(2, 1, 0);
    expect("a wrong source", DEADLOCK, "xxx");

    start(3);
    receives(0, ANY_PEER, 0), receives(1, 0, 0);
    expect("someone computes, and may send to any", RUNNING, "...");
    world[2].state = IDLE;
    expect("someone idles who could help", STARVED, "xx.");

    start(2);
    receives(0, 1, 0), world[1].state = IDLE;
    expect("stepping: the other has no cell yet", STARVED, "x.");

    start(2); /* an eager message is on its way to a rank that waits for it */
    receives(0, 1, 0), message(SENT, 1, 0, 0, 1), receives(1, 0, 0);
    expect("a message under way", RUNNING, "..");
    message(RECEIVED, 0, 1, 0, 1);
    expect("the same, received before", DEADLOCK, "xx");

    start(2); /* the receiver has it; the sender's library has yet to notice */
    sends(0, 1, 0), message(RECEIVED, 1, 0, 0, 1), receives(1, 0, 9);
    expect("a send that was received", RUNNING, "..");

    start(2); /* the first of two like messages was buffered and is received, the second is not */
    message(SENT, 0, 1, 0, 1), sends(0, 1, 0), message(RECEIVED, 1, 0, 0, 1), receives(1, 0, 9);
    expect("the second of two sends", DEADLOCK, "xx");

    start(2);
    need(0, PROBE, 1, 0), sends(1, 0, 0);
    expect("a probe sees a message", RUNNING, "..");
    start(2);
    need(0, PROBE, 1, 1), sends(1, 0, 0);
    expect("a probe for another tag", DEADLOCK, "xx");
}

static void all_and_any(void) {
    start(3); /* rank 2 computes and may send to 0; rank 1 waits for 0 */
    receives(0, 1, 0), receives(0, 2, 0), receives(1, 0, 0);
    expect("waitall: one of two can come", DEADLOCK, "xx.");
    mode(0, ANY);
    expect("waitany: one of two can come", RUNNING, "...");

    start(3);
    receives(0, 2, 0), receives(0, 1, 0), receives(1, 0, 0);
    expect("waitall: the first of two can come", DEADLOCK, "xx.");

    start(2);
    receives(0, 1, 0), need(0, UNKNOWN, 0, 0), receives(1, 0, 0);
    expect("waitall with one nobody knows, and one stuck", DEADLOCK, "xx");
    mode(0, ANY);
    expect("waitany with one nobody knows", RUNNING, "..");

    start(2);
    receives(0, 1, 0), receives(1, 0, 0), world[1].blind = true;
    expect("one rank saw what cannot be modelled", RUNNING, "..");
    quiet = true;
    expect("the same, for long", SUSPECTED, "xx");
    quiet = false;
}

static void loops_of_tests(void) {
    start(2);
    receives(0, 1, 0), receives(1, 0, 0);
    world[0].state = POLLING;
    expect("a loop of tests proves nothing", RUNNING, "..");
    quiet = true;
    expect("it is suspected after a while", SUSPECTED, "xx");
    moved[1] = true;
    expect("not if somebody moves", RUNNING, "..");
    moved[1] = false;

    start(3);
    receives(0, 1, 0), receives(1, 0, 0), world[0].state = POLLING;
    expect("nor if somebody computes", RUNNING, "...");
    world[2].state = IDLE;
    expect("an idle rank could not help", SUSPECTED, "xx.");

    start(2);
    receives(0, 1, 0), world[0].state = POLLING, world[1].state = IDLE;
    expect("only an idle rank could help", STARVED, "x.");
    quiet = false;
}

static void threads(void) {
    start(2); /* one thread of rank 0 waits for 1, another for itself; 1 for 0 */
    receives(0, 1, 0), waiter(0, 1, ALL), need(0, RECV, 0, 5);
    rows[0][world[0].rows - 1].waiter = 1;
    receives(1, 0, 0);
    expect("all threads are stuck", DEADLOCK, "xx");
    message(SENT, 0, 0, 5, 1);
    expect("one of them has its message", RUNNING, "..");

    start(2); /* a matched probe of rank 1 holds the message */
    sends(0, 1, 0), message(HELD, 1, 0, 0, 1), receives(1, 0, 7);
    expect("a message held, its receive never begun", DEADLOCK, "xx");
    world[1].state = COMPUTING;
    expect("a message held by one who computes", RUNNING, "..");
}

static void collectives(void) {
    start(3);
    collective(0, CALL_Barrier, NO_ROOT, 1), collective(1, CALL_Barrier, NO_ROOT, 1);
    expect("one computes and may come", RUNNING, "...");
    receives(2, 0, 0);
    expect("one waits for another instead", DEADLOCK, "xxx");

    start(3);
    for (int r = 0; r < 3; r++)
        collective(r, CALL_Bcast, 0, 4);
    expect("all have come", RUNNING, "...");
    enters(2, CALL_Bcast, 1, 4);
    expect("another root", MISMATCH, "xxx");
    enters(2, CALL_Barrier, NO_ROOT, 4);
    expect("another collective", MISMATCH, "xxx");

    start(2); /* rank 1 has left the first already and is in the next */
    collective(0, CALL_Bcast, 0, 1), collective(1, CALL_Barrier, NO_ROOT, 2);
    expect("one is ahead", RUNNING, "..");

    start(2); /* rank 1 went by a nonblocking one, and waits for what 0 sends after it */
    collective(0, CALL_Ibarrier, NO_ROOT, 1), enters(1, CALL_Ibarrier, NO_ROOT, 1), receives(1, 0, 0);
    expect("a nonblocking one that all have begun", RUNNING, "..");

    start(2);
    enters(0, CALL_Ibcast, 0, 1), enters(1, CALL_Ibarrier, NO_ROOT, 1);
    expect("unlike ones, and nobody waits", MISMATCH, "..");

    start(2);
    collective(0, CALL_Barrier, NO_ROOT, 1), world[1].state = IDLE;
    expect("the other has no cell", STARVED, "x.");

    start(2);
    collective(0, CALL_Barrier, NO_ROOT, 1), collective(1, CALL_Finalize, NO_ROOT, 1);
    expect("the other has finished", MISMATCH, "xx");
}

static void waited_for(void) {
    start(4);
    for (int r = 0; r < 3; r++)
        collective(r, CALL_Barrier, NO_ROOT, 2);
    enters(3, CALL_Barrier, NO_ROOT, 1), receives(3, 2, 0);
    for (int r = 0; r < 3; r++)
        expect_targets("one of four has not come", r, "...x");
    expect_targets("a receive from one", 3, "..x.");

    start(3);
    receives(0, ANY_PEER, 0);
    expect_targets("a receive from any", 0, ".xx");
    communicator(4, 2), receives(1, ANY_PEER, 0);
    expect_targets("a receive from any of two", 1, "x..");

    start(3);
    holds(1, SHARED, 2), on = 9, holds(0, SHARED, 2), need(2, WINDOW, 2, EXCLUSIVE);
    expect_targets("the lock of a window, and not of another", 2, "x..");
}

/* What is said of one communicator counts for that one alone. */
static void communicators(void) {
    start(2);
    sends(0, 1, 0), on = 4, receives(1, 0, 0);
    expect("a message on another", DEADLOCK, "xx");

    start(2);
    receives(0, 1, 0), message(SENT, 1, 0, 0, 1), receives(1, 0, 0);
    on = 4, message(RECEIVED, 0, 1, 0, 1);
    expect("one received on another, and one under way", RUNNING, "..");

    start(2);
    message(SENT, 0, 1, 0, 1), open_(0, SEND, 1, 0), message(RECEIVED, 1, 0, 0, 1);
    on = 4, sends(0, 1, 0), on = 0, receives(1, 0, 9);
    expect("one received, and one sent on another", DEADLOCK, "xx");

    start(2);
    on = 4, message(SENT, 0, 1, 0, 1), open_(0, SEND, 1, 0);
    on = 0, sends(0, 1, 0), message(RECEIVED, 1, 0, 0, 1), receives(1, 0, 9);
    expect("one on another left, and the own received", RUNNING, "..");

    start(2);
    sends(0, 1, 0), message(RECEIVED, 1, 0, 0, 1), receives(1, 0, 9);
    on = 4, message(SENT, 0, 1, 0, 1), message(HELD, 1, 0, 0, 1);
    expect("one on another held, and the own received", RUNNING, "..");

    start(3);
    communicator(4, 2), receives(0, ANY_PEER, 0), receives(1, 0, 0);
    expect("a rank that does not belong to it computes", DEADLOCK, "xx.");

    start(3);
    communicator(4, 2);
    for (int r = 0; r < 2; r++)
        collective(r, CALL_Barrier, NO_ROOT, 1);
    world[2].state = IDLE;
    expect("a rank that does not belong to it does not come", RUNNING, "...");

    start(2);
    for (int r = 0; r < 2; r++)
        enters(r, CALL_Barrier, NO_ROOT, 5);
    communicator(4, 2), collective(0, CALL_Barrier, NO_ROOT, 2), enters(1, CALL_Barrier, NO_ROOT, 1);
    receives(1, 0, 0);
    expect("further on on another", DEADLOCK, "xx");

    start(2);
    communicator(4, 2), enters(0, CALL_Ibcast, 0, 1), on = 0, enters(1, CALL_Ibarrier, NO_ROOT, 1);
    expect("unlike collectives on two", RUNNING, "..");

    start(3);
    enters(0, CALL_Ibcast, 0, 1), collective(1, CALL_Barrier, NO_ROOT, 1);
    communicator(4, 3), collective(2, CALL_Barrier, NO_ROOT, 1);
    expect("unlike ones, and a rank in another", MISMATCH, ".x.");

    start(1);
    enters(0, CALL_Barrier, NO_ROOT, 1), communicator(4, 1), enters(0, CALL_Bcast, 0, 1);
    if (scope_place(&world[0], 4, 1)->name != CALL_Bcast) {
        wrong++;
        printf("the place of one communicator is taken for that of another\n");
    }

    start(3); /* rank 0 hands in more than rank 1, the root, takes out */
    communicator(4, 2);
    for (int r = 0; r < 2; r++) {
        enters(r, CALL_Gatherv, 1, 1);
        struct record *place = &rows[r][world[r].rows - 1];
        place->given = 8;
        place->taken = r == 1 ? 12 : 0;
        place->balance = (uint64_t)(place->given - place->taken);
    }
    expect("out of balance on the smaller of two", MISMATCH, "...");
}

/* Rank 0 has locked a part of rank 2's and waits for rank 1, which asks for one. */
static void expect_lock(const char *what, int held, int asked, int peer, int window, int kind) {
    start(3);
    receives(0, 1, 0), on = 9, holds(0, held, peer), on = window, need(1, WINDOW, 2, asked);
    expect(what, kind, kind == RUNNING ? "..." : "xx.");
}

static void windows(void) {
    expect_lock("both want it alone", EXCLUSIVE, EXCLUSIVE, 2, 9, DEADLOCK);
    expect_lock("who holds it wants it alone", EXCLUSIVE, SHARED, 2, 9, DEADLOCK);
    expect_lock("who asks wants it alone", SHARED, EXCLUSIVE, 2, 9, DEADLOCK);
    expect_lock("both share it", SHARED, SHARED, 2, 9, RUNNING);
    expect_lock("the part of another rank", EXCLUSIVE, EXCLUSIVE, 1, 9, RUNNING);
    expect_lock("another window", EXCLUSIVE, EXCLUSIVE, 2, 8, RUNNING);

    start(4); /* who asks for a share stands behind who asked for it alone, in time */
    receives(0, 2, 0), on = 8, holds(0, SHARED, 3), on = 9, holds(0, SHARED, 3);
    need(1, WINDOW, 3, EXCLUSIVE), need(2, WINDOW, 3, SHARED);
    expect("one that may yet get its share", RUNNING, "....");
    world[2].since = 6;
    expect("one behind another that waits", DEADLOCK, "xxx.");
    rows[1][world[1].rows - 1].comm = 8;
    expect("one beside another that waits for another window", RUNNING, "....");

    for (int kind = SHARED; kind <= EXCLUSIVE; kind++) { /* not behind who asks as it does */
        start(4);
        receives(0, 2, 0), on = 9, holds(0, EXCLUSIVE, 2);
        need(1, WINDOW, 3, kind), need(1, WINDOW, 2, kind), need(2, WINDOW, 3, kind);
        world[2].since = 6;
        expect(kind == SHARED ? "two that share" : "two that want it alone", RUNNING, "....");
    }
}

int main(void) {
    point_to_point();
    waited_for();
    communicators();
    windows();
    all_and_any();
    loops_of_tests();
    threads();
    collectives();
    return wrong;
}
