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
static bool moved[RANKS];

static struct record *add(int rank, int row) {
    struct record *r = &rows[rank][world[rank].rows++];
    *r = (struct record){.row = row};
    return r;
}

/* All ranks compute, and know communicator 0. */
static void start(int ranks) {
    n = ranks;
    memset(world, 0, sizeof world);
    memset(moved, 0, sizeof moved);
    for (int r = 0; r < n; r++) {
        world[r] = (struct report){.rank = r, .state = COMPUTING, .epoch = 7, .row = rows[r]};
        add(r, ENTERED);
        for (int m = 0; m < n; m++)
            add(r, MEMBER)->peer = m;
    }
}

static void message(int row, int rank, int peer, int tag, long long count) {
    struct record *r = add(rank, row);
    r->peer = peer;
    r->tag = tag;
    r->size = count;
}

static void open_(int rank, int kind, int peer, int tag) {
    struct record *r = add(rank, POSTED);
    r->kind = kind;
    r->peer = peer;
    r->tag = tag;
}

static void need(int rank, int kind, int peer, int tag) {
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

static void enters(int rank, const char *call, int index) {
    rows[rank][0].index = index;
    snprintf(rows[rank][0].call, sizeof rows[rank][0].call, "%s", call);
}

static void collective(int rank, const char *call, int index) {
    enters(rank, call, index);
    need(rank, COLLECTIVE, ANY_PEER, 0);
    rows[rank][world[rank].rows - 1].index = index;
}

/* `stuck`: one letter a rank, x for stuck. */
static void expect(const char *what, int kind, const char *stuck) {
    long long before[RANKS];
    bool is_stuck[RANKS];
    struct verdict verdict = {.is_stuck = is_stuck};
    int lefts = 0;
    for (int r = 0; r < n; r++)
        before[r] = moved[r] ? world[r].epoch - 1 : world[r].epoch;
    struct unreceived *left = scope_left(n, world, &lefts);
    scope_judge(n, world, before, left, lefts, &verdict);
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

    start(2); /* what was sent on one communicator does not help on another */
    sends(0, 1, 0), receives(1, 0, 0);
    for (int i = 0; i < world[1].rows; i++)
        if (rows[1][i].row == POSTED || rows[1][i].row == NEEDS)
            rows[1][i].comm = 4;
    expect("another communicator", DEADLOCK, "xx");

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
    world[0].mode = ANY;
    expect("waitany: one of two can come", RUNNING, "...");

    start(2);
    receives(0, 1, 0), need(0, UNKNOWN, 0, 0), receives(1, 0, 0);
    expect("waitall with one nobody knows, and one stuck", DEADLOCK, "xx");
    world[0].mode = ANY;
    expect("waitany with one nobody knows", RUNNING, "..");

    start(2);
    receives(0, 1, 0), receives(1, 0, 0);
    world[0].state = POLLING, world[0].mode = ANY;
    expect("a loop of tests", DEADLOCK, "xx");

    start(2);
    receives(0, 1, 0), receives(1, 0, 0), world[1].blind = true;
    expect("one rank saw what cannot be modelled", RUNNING, "..");
}

static void collectives(void) {
    start(3);
    collective(0, "MPI_Barrier", 1), collective(1, "MPI_Barrier", 1);
    expect("one computes and may come", RUNNING, "...");
    receives(2, 0, 0);
    expect("one waits for another instead", DEADLOCK, "xxx");

    start(3);
    for (int r = 0; r < 3; r++)
        collective(r, "MPI_Bcast 0", 4);
    expect("all have come", RUNNING, "...");
    enters(2, "MPI_Bcast 1", 4);
    expect("another root", DEADLOCK, "xxx");
    enters(2, "MPI_Barrier", 4);
    expect("another collective", DEADLOCK, "xxx");

    start(2); /* rank 1 has left the first already and is in the next */
    collective(0, "MPI_Bcast 0", 1), collective(1, "MPI_Barrier", 2);
    expect("one is ahead", RUNNING, "..");

    start(2); /* rank 1 went by a nonblocking one, and waits for what 0 sends after it */
    collective(0, "MPI_Ibarrier", 1), enters(1, "MPI_Ibarrier", 1), receives(1, 0, 0);
    expect("a nonblocking one that all have begun", RUNNING, "..");

    start(2);
    collective(0, "MPI_Barrier", 1), world[1].state = IDLE;
    expect("the other has no cell", STARVED, "x.");

    start(2);
    collective(0, "MPI_Barrier", 1), collective(1, "MPI_Finalize", 1);
    expect("the other has finished", DEADLOCK, "xx");
}

int main(void) {
    point_to_point();
    all_and_any();
    collectives();
    return wrong;
}
