/* Calls every MPI function the scope stands before, and checks what each of them gave.
 *
 *   mpiexec -n N every_call DIRECTORY [MPI_Init|MPI_Init_thread [SECTION|MPI_Abort]]
 *
 * Rank r leaves DIRECTORY/rank-r: a line "called MPI_X" for each function, "note ..." for what a
 * library may do as it likes and the scope must not change, "wrong ..." for what is not as the
 * standard has it. tests/test_every_call.py compares the lines with the scope and without it.
 *
 * A function that is missing: call it with CALL in the section it belongs to, or write a section
 * and add it to the table at the end. What has a form with large counts stands in
 * every_call_counts.h, which is read once for each form. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#if MPI_VERSION >= 4
#define LARGE_COUNTS 1
#else
#define LARGE_COUNTS 0
#endif
/* Open MPI has these before it has all of MPI 4. */
#if LARGE_COUNTS || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)
#define FOUR 1
#else
#define FOUR 0
#endif
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
#define FOUR_ONE 1
#else
#define FOUR_ONE 0
#endif

enum { ROOM = 64, ELEMENTS = 2, TAG = 7, LIMIT = 30, UNTOUCHED = 4711 };

static MPI_Comm world = MPI_COMM_WORLD;
static int rank, size, left, right;
static const char *directory, *last = "", *section = "";
static FILE *told;
static int out[ROOM], in[ROOM]; /* what goes to others, and what comes */
static int turn;

/* ---- telling ---- */

static void called(const char *name) {
    static const char *names[2048];
    last = name;
    int n = 0;
    for (; names[n]; n++)
        if (strcmp(names[n], name) == 0)
            return;
    names[n] = name;
    fprintf(told, "called %s\n", name);
}

static void check(int err) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (err == MPI_SUCCESS)
        return;
    PMPI_Error_string(err, text, &length);
    text[strcspn(text, "\n")] = '\0';
    fprintf(told, "wrong %s: %s: %s\n", section, last, text);
}

#define CALL(name, ...) CALL_NAMED(name, __VA_ARGS__)
#define CALL_NAMED(name, ...) (called("MPI_" #name), check(MPI_##name(__VA_ARGS__)))

static void expect(const char *what, long long got, long long wanted) {
    if (got != wanted)
        fprintf(told, "wrong %s: %s: %s is %lld, not %lld\n", section, last, what, got, wanted);
}

#define EXPECT(got, wanted) expect(#got, (long long)(got), (long long)(wanted))

static void note(const char *what, long long value) {
    fprintf(told, "note %s: %s: %s %lld\n", section, last, what, value);
}

/* ---- what is sent, and what must come ---- */

/* Element i of what rank r sends in this turn. */
static int value(int r, int i) { return 10000 * (r + 1) + 100 * (turn % 97) + i; }

static void fresh(void) {
    turn++;
    for (int i = 0; i < ROOM; i++) {
        out[i] = value(rank, i);
        in[i] = -1;
    }
}

/* The sum of element i over the ranks before n. */
static int sum(int n, int i) {
    int total = 0;
    for (int r = 0; r < n; r++)
        total += value(r, i);
    return total;
}

/* At `at` of what came stand elements `first` and on of rank r, and nothing behind them. */
static void from(int r, int at, int first) {
    for (int i = 0; i < ELEMENTS; i++)
        EXPECT(in[at + i], value(r, first + i));
    EXPECT(in[ROOM - 1], -1);
}

/* Of a status that comes back alone the error is nobody's to touch. */
static MPI_Status blank(void) {
    MPI_Status status;
    memset(&status, 0, sizeof status);
    status.MPI_ERROR = UNTOUCHED;
    return status;
}

static void came(const MPI_Status *status, int source, int tag) {
    int n = -1;
    EXPECT(status->MPI_SOURCE, source);
    EXPECT(status->MPI_TAG, tag);
    PMPI_Get_count(status, MPI_INT, &n);
    EXPECT(n, ELEMENTS);
}

/* A library may say there that all is well, though the standard gives it no leave. */
static void came_alone(const MPI_Status *status, int source, int tag) {
    came(status, source, tag);
    if (status->MPI_ERROR != MPI_SUCCESS)
        EXPECT(status->MPI_ERROR, UNTOUCHED);
}

/* Whether a loop of tests may go on; not for ever. */
static bool again(double begun) {
    if (PMPI_Wtime() - begun < LIMIT)
        return true;
    fprintf(told, "wrong %s: %s: nothing came in %d s\n", section, last, LIMIT);
    return false;
}

/* The type of which `type` is two: by the calls whose forms differ in more than a count. */
static MPI_Datatype held_by(MPI_Datatype type) {
    MPI_Datatype held = MPI_DATATYPE_NULL;
    MPI_Aint places[1];
    int n[3] = {-1, -1, -1}, combiner = -1, numbers[1] = {-1};
    CALL(Type_get_envelope, type, &n[0], &n[1], &n[2], &combiner);
    EXPECT(combiner, MPI_COMBINER_CONTIGUOUS);
    EXPECT(n[0], 1);
    CALL(Type_get_contents, type, n[0], n[1], n[2], numbers, places, &held);
    EXPECT(numbers[0], 2);
    return held;
}

#if LARGE_COUNTS
static MPI_Datatype held_by_c(MPI_Datatype type) {
    MPI_Datatype held = MPI_DATATYPE_NULL;
    MPI_Aint places[1];
    MPI_Count n[4] = {-1, -1, -1, -1}, large[1] = {-1};
    int combiner = -1, numbers[1] = {-1};
    CALL(Type_get_envelope_c, type, &n[0], &n[1], &n[2], &n[3], &combiner);
    EXPECT(combiner, MPI_COMBINER_CONTIGUOUS);
    EXPECT(n[0] + n[2], 1);
    CALL(Type_get_contents_c, type, n[0], n[1], n[2], n[3], numbers, places, large, &held);
    EXPECT(n[2] ? large[0] : numbers[0], 2);
    return held;
}
#endif

/* ---- calls with a form for large counts ---- */

#define FORM(name) name
#define COUNT int
#define DISPLACEMENT int
#define BYTES MPI_Aint
#define UNIT int
#include "every_call_counts.h"
#if LARGE_COUNTS
#undef FORM
#undef COUNT
#undef DISPLACEMENT
#undef BYTES
#undef UNIT
#define FORM(name) name##_c
#define COUNT MPI_Count
#define DISPLACEMENT MPI_Aint
#define BYTES MPI_Count
#define UNIT MPI_Aint
#include "every_call_counts.h"
#endif

/* ---- requests ---- */

static MPI_Request requests[4];

/* A message to the right and one from the left. */
static void start_two(void) {
    fresh();
    CALL(Irecv, in, ELEMENTS, MPI_INT, left, TAG, world, &requests[0]);
    CALL(Isend, out, ELEMENTS, MPI_INT, right, TAG, world, &requests[1]);
}

static void both_came(void) {
    from(left, 0, 0);
    EXPECT(requests[0] == MPI_REQUEST_NULL, true);
    EXPECT(requests[1] == MPI_REQUEST_NULL, true);
}

static void waits(void) {
    MPI_Status status = blank(), statuses[2];
    int which, done, indices[2];
    start_two();
    CALL(Wait, &requests[0], &status);
    came_alone(&status, left, TAG);
    CALL(Wait, &requests[1], MPI_STATUS_IGNORE);
    both_came();

    start_two();
    CALL(Waitall, 2, requests, statuses);
    came(&statuses[0], left, TAG);
    both_came();

    start_two();
    for (int i = 0; i < 2; i++) {
        status = blank();
        CALL(Waitany, 2, requests, &which, &status);
        if (which == 0)
            came_alone(&status, left, TAG);
    }
    both_came();
    CALL(Waitany, 2, requests, &which, MPI_STATUS_IGNORE);
    EXPECT(which, MPI_UNDEFINED);

    start_two();
    for (int sum_done = 0; sum_done < 2; sum_done += done) {
        CALL(Waitsome, 2, requests, &done, indices, statuses);
        for (int i = 0; i < done; i++)
            if (indices[i] == 0)
                came(&statuses[i], left, TAG);
    }
    both_came();
    CALL(Waitsome, 2, requests, &done, indices, MPI_STATUSES_IGNORE);
    EXPECT(done, MPI_UNDEFINED);

    CALL(Wait, &requests[0], &status); /* of a null request: empty */
    EXPECT(status.MPI_SOURCE, MPI_ANY_SOURCE);
    EXPECT(status.MPI_TAG, MPI_ANY_TAG);
}

static void tests(void) {
    MPI_Status status = blank(), statuses[2];
    int which, done = 0, indices[2];
    double begun = MPI_Wtime();
    start_two();
    do
        CALL(Test, &requests[0], &done, &status);
    while (!done && again(begun));
    came_alone(&status, left, TAG);
    done = 0;
    do
        CALL(Test, &requests[1], &done, MPI_STATUS_IGNORE);
    while (!done && again(begun));
    both_came();

    start_two();
    done = 0;
    do
        CALL(Testall, 2, requests, &done, statuses);
    while (!done && again(begun));
    came(&statuses[0], left, TAG);
    both_came();

    start_two();
    for (int n = 0; n < 2 && again(begun); n += done) {
        status = blank();
        CALL(Testany, 2, requests, &which, &done, &status);
        if (done && which == 0)
            came_alone(&status, left, TAG);
    }
    both_came();

    start_two();
    for (int n = 0; n < 2 && again(begun); n += done) {
        CALL(Testsome, 2, requests, &done, indices, statuses);
        for (int i = 0; i < done; i++)
            if (indices[i] == 0)
                came(&statuses[i], left, TAG);
    }
    both_came();
}

static void get_statuses(void) {
    MPI_Status status = blank();
    int done = 0;
    const double begun = MPI_Wtime();
    start_two();
    do
        CALL(Request_get_status, requests[0], &done, &status);
    while (!done && again(begun));
    came_alone(&status, left, TAG);
    CALL(Waitall, 2, requests, MPI_STATUSES_IGNORE);
    both_came();
#if FOUR_ONE
    MPI_Status statuses[2];
    int which, indices[2];
    start_two();
    do
        CALL(Request_get_status_all, 2, requests, &done, statuses);
    while (!done && again(begun));
    came(&statuses[0], left, TAG);
    CALL(Request_get_status_any, 2, requests, &which, &done, &status);
    EXPECT(done, true);
    CALL(Request_get_status_some, 2, requests, &done, indices, statuses);
    EXPECT(done, 2);
    CALL(Waitall, 2, requests, MPI_STATUSES_IGNORE);
    both_came();
#endif
}

static void given_up(void) {
    MPI_Status status;
    int cancelled = 0;
    fresh();
    CALL(Irecv, in, ELEMENTS, MPI_INT, left, TAG + 1, world, &requests[0]);
    CALL(Cancel, &requests[0]);
    CALL(Wait, &requests[0], &status);
    CALL(Test_cancelled, &status, &cancelled);
    EXPECT(cancelled, true);
    CALL(Status_set_cancelled, &status, 0);

    CALL(Irecv, in, ELEMENTS, MPI_INT, left, TAG, world, &requests[0]);
    CALL(Isend, out, ELEMENTS, MPI_INT, right, TAG, world, &requests[1]);
    CALL(Request_free, &requests[1]);
    EXPECT(requests[1] == MPI_REQUEST_NULL, true);
    CALL(Wait, &requests[0], &status);
    came(&status, left, TAG);
    from(left, 0, 0);

    /* a receive that is freed while it is open still receives */
    fresh();
    CALL(Irecv, in, ELEMENTS, MPI_INT, left, TAG, world, &requests[0]);
    CALL(Request_free, &requests[0]);
    CALL(Send, out, ELEMENTS, MPI_INT, right, TAG, world);
    const double begun = MPI_Wtime();
    while (((volatile int *)in)[ELEMENTS - 1] == -1 && again(begun)) {
        int flag;
        CALL(Iprobe, MPI_ANY_SOURCE, TAG + 2, world, &flag, MPI_STATUS_IGNORE);
    }
    from(left, 0, 0);
}

static int query(void *state, MPI_Status *status) {
    PMPI_Status_set_elements(status, MPI_INT, ELEMENTS);
    PMPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = *(int *)state;
    status->MPI_TAG = TAG;
    return MPI_SUCCESS;
}

static int release(void *state) {
    *(int *)state = -2;
    return MPI_SUCCESS;
}

static int ignore(void *state, int complete) {
    (void)state;
    (void)complete;
    return MPI_SUCCESS;
}

static void own_requests(void) {
    MPI_Status status = blank();
    int state = rank, done;
    CALL(Grequest_start, query, release, ignore, &state, &requests[0]);
    CALL(Test, &requests[0], &done, &status);
    EXPECT(done, false);
    CALL(Grequest_complete, requests[0]);
    CALL(Wait, &requests[0], &status);
    came_alone(&status, rank, TAG);
    EXPECT(state, -2);
}

#if FOUR
static void partitions(void) {
    int all[2] = {0, 1};
    MPI_Status status;
    int arrived = 0;
    fresh();
    CALL(Precv_init, in, 2, 1, MPI_INT, left, TAG, world, MPI_INFO_NULL, &requests[0]);
    CALL(Psend_init, out, 2, 1, MPI_INT, right, TAG, world, MPI_INFO_NULL, &requests[1]);
    for (int way = 0; way < 3; way++) {
        fresh();
        CALL(Startall, 2, requests);
        if (way == 0)
            for (int i = 0; i < 2; i++)
                CALL(Pready, i, requests[1]);
        else if (way == 1)
            CALL(Pready_range, 0, 1, requests[1]);
        else
            CALL(Pready_list, 2, all, requests[1]);
        const double begun = MPI_Wtime();
        do
            CALL(Parrived, requests[0], 1, &arrived);
        while (!arrived && again(begun));
        CALL(Wait, &requests[0], &status);
        CALL(Wait, &requests[1], MPI_STATUS_IGNORE);
        from(left, 0, 0);
    }
    CALL(Request_free, &requests[0]);
    CALL(Request_free, &requests[1]);
}
#endif

/* ---- collectives without counts ---- */

static void barriers(void) {
    int done = 0;
    CALL(Barrier, world);
    CALL(Ibarrier, world, &requests[0]);
    const double begun = MPI_Wtime();
    do
        CALL(Test, &requests[0], &done, MPI_STATUS_IGNORE);
    while (!done && again(begun));
#if FOUR
    CALL(Barrier_init, world, MPI_INFO_NULL, &requests[0]);
    for (int i = 0; i < 2; i++) {
        CALL(Start, &requests[0]);
        CALL(Wait, &requests[0], MPI_STATUS_IGNORE);
    }
    CALL(Request_free, &requests[0]);
#endif
}

/* ---- communicators ---- */

/* A message around and a sum: the communicator is one of n ranks, this one is `me` of them. */
static void works(MPI_Comm comm, int n, int me) {
    int got = -1, total = 0, seen_size, seen_rank;
    CALL(Comm_size, comm, &seen_size);
    CALL(Comm_rank, comm, &seen_rank);
    EXPECT(seen_size, n);
    EXPECT(seen_rank, me);
    CALL(Sendrecv, &me, 1, MPI_INT, (me + 1) % n, TAG, &got, 1, MPI_INT, (me + n - 1) % n, TAG,
         comm, MPI_STATUS_IGNORE);
    EXPECT(got, (me + n - 1) % n);
    CALL(Allreduce, &me, &total, 1, MPI_INT, MPI_SUM, comm);
    EXPECT(total, n * (n - 1) / 2);
    CALL(Barrier, comm);
}

static void leave(MPI_Comm *comm) {
    CALL(Comm_free, comm);
    EXPECT(*comm == MPI_COMM_NULL, true);
}

static int copies, deletions;

static int copy(MPI_Comm comm, int key, void *extra, void *held, void *made, int *flag) {
    (void)comm;
    (void)key;
    (void)extra;
    *(void **)made = held;
    *flag = 1;
    copies++;
    return MPI_SUCCESS;
}

static int delete(MPI_Comm comm, int key, void *held, void *extra) {
    (void)comm;
    (void)key;
    (void)extra;
    (void)held;
    deletions++;
    return MPI_SUCCESS;
}

static void duplicates(void) {
    MPI_Comm made, second;
    MPI_Info info;
    int key, flag;
    void *held = NULL;
    CALL(Info_create, &info);
    CALL(Comm_create_keyval, copy, delete, &key, NULL);
    CALL(Comm_dup, world, &made);
    CALL(Comm_set_attr, made, key, &turn);
    works(made, size, rank);

    /* what hangs on a communicator is copied once and deleted once */
    CALL(Comm_dup, made, &second);
    EXPECT(copies, 1);
    CALL(Comm_get_attr, second, key, &held, &flag);
    EXPECT(flag && held == &turn, true);
    leave(&second);
    EXPECT(deletions, 1);
    CALL(Comm_dup_with_info, made, info, &second);
    EXPECT(copies, 2);
    works(second, size, rank);
    CALL(Comm_disconnect, &second);
    EXPECT(second == MPI_COMM_NULL, true);
    EXPECT(deletions, 2);
    CALL(Comm_idup, made, &second, &requests[0]);
    CALL(Wait, &requests[0], MPI_STATUS_IGNORE);
    note("copies made", copies);
    works(second, size, rank);
    leave(&second);
#if FOUR
    CALL(Comm_idup_with_info, made, info, &second, &requests[0]);
    CALL(Wait, &requests[0], MPI_STATUS_IGNORE);
    note("copies made", copies);
    works(second, size, rank);
    leave(&second);
#endif
    deletions = 0;
    CALL(Comm_delete_attr, made, key);
    EXPECT(deletions, 1);
    leave(&made);
    CALL(Comm_free_keyval, &key);
    CALL(Info_free, &info);

    /* by the names of MPI-1 */
    deletions = 0;
    CALL(Comm_dup, world, &made);
    CALL(Keyval_create, copy, delete, &key, NULL);
    CALL(Attr_put, made, key, &turn);
    CALL(Keyval_free, &key);
    EXPECT(deletions, 0);
    leave(&made);
    EXPECT(deletions, 1);
}

static void splits(void) {
    MPI_Comm made;
    MPI_Group all, some;
    const int first[1] = {0};
    CALL(Comm_split, world, rank % 2, -rank, &made);
    const int n = (size + 1 - rank % 2) / 2;
    works(made, n, n - 1 - rank / 2);
    leave(&made);
    CALL(Comm_split, world, rank == 0 ? MPI_UNDEFINED : 0, rank, &made);
    if (rank == 0)
        EXPECT(made == MPI_COMM_NULL, true);
    else {
        works(made, size - 1, rank - 1);
        leave(&made);
    }
    CALL(Comm_split_type, world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
    works(made, size, rank);
    leave(&made);
    CALL(Comm_group, world, &all);
    CALL(Group_excl, all, size > 1, first, &some);
    CALL(Comm_create, world, some, &made);
    if (size == 1 || rank > 0) {
        works(made, size - (size > 1), rank - (size > 1));
        leave(&made);
    } else {
        EXPECT(made == MPI_COMM_NULL, true);
    }
    if (size == 1 || rank > 0) {
        CALL(Comm_create_group, world, some, TAG, &made);
        works(made, size - (size > 1), rank - (size > 1));
        leave(&made);
#if FOUR
        CALL(Comm_create_from_group, some, "ringside:every-call", MPI_INFO_NULL,
             MPI_ERRORS_RETURN, &made);
        works(made, size - (size > 1), rank - (size > 1));
        leave(&made);
#endif
    }
    CALL(Group_free, &some);
    CALL(Group_free, &all);
}

static void topologies(void) {
    MPI_Comm made, part;
    int dims[2] = {size, 1}, periods[2] = {1, 1}, remain[2] = {1, 0}, coords[2];
    int before, after, index[3], edges[6], n, shown[2];
    CALL(Cart_create, world, 2, dims, periods, 0, &made);
    works(made, size, rank);
    CALL(Cart_coords, made, rank, 2, coords);
    EXPECT(coords[0], rank);
    CALL(Cart_shift, made, 0, 1, &before, &after);
    EXPECT(before, left);
    EXPECT(after, right);
    CALL(Cart_sub, made, remain, &part);
    works(part, size, rank);
    leave(&part);
    leave(&made);
    for (int i = 0; i < size; i++) {
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    CALL(Graph_create, world, size, index, edges, 0, &made);
    works(made, size, rank);
    CALL(Graph_neighbors_count, made, rank, &n);
    EXPECT(n, 2);
    CALL(Graph_neighbors, made, rank, 2, shown);
    EXPECT(shown[1], right);
    leave(&made);
    const int one = 1, weight = 3;
    CALL(Dist_graph_create, world, 1, &rank, &one, &right, &weight, MPI_INFO_NULL, 0, &made);
    works(made, size, rank);
    int source = -1, dest = -1, w;
    CALL(Dist_graph_neighbors, made, 1, &source, &w, 1, &dest, &w);
    EXPECT(source, left);
    EXPECT(dest, right);
    leave(&made);
    CALL(Dist_graph_create_adjacent, world, 1, &left, &weight, 1, &right, &weight, MPI_INFO_NULL,
         0, &made);
    works(made, size, rank);
    leave(&made);
}

/* Rank 0 on one side, the others on the other. */
static void between_groups(void) {
    MPI_Comm mine, between, merged, second;
    int n = -1, flag = 0, got = -1, total = -1;
    if (size == 1)
        return;
    const bool low = rank == 0;
    CALL(Comm_split, world, low, rank, &mine);
    CALL(Intercomm_create, mine, 0, world, low ? 1 : 0, TAG, &between);
    CALL(Comm_test_inter, between, &flag);
    EXPECT(flag, true);
    CALL(Comm_remote_size, between, &n);
    EXPECT(n, low ? size - 1 : 1);
    if (low) { /* point to point across */
        for (int i = 0; i < size - 1; i++)
            CALL(Send, &i, 1, MPI_INT, i, TAG, between);
    } else {
        CALL(Recv, &got, 1, MPI_INT, 0, TAG, between, MPI_STATUS_IGNORE);
        EXPECT(got, rank - 1);
    }
    CALL(Barrier, between);
    CALL(Allreduce, &rank, &total, 1, MPI_INT, MPI_SUM, between);
    EXPECT(total, low ? size * (size - 1) / 2 : 0);
    got = low ? 42 : -1;
    CALL(Bcast, &got, 1, MPI_INT, low ? MPI_ROOT : 0, between);
    EXPECT(got, 42);
    for (int root = 0; root < size - 1; root++) { /* the others in turn, each from itself alone */
        got = low ? -1 : 42 + root;
        if (low)
            CALL(Bcast, &got, 1, MPI_INT, root, between);
        else if (rank - 1 == root)
            CALL(Bcast, &got, 1, MPI_INT, MPI_ROOT, between);
        else
            CALL(Bcast, NULL, 0, MPI_INT, MPI_PROC_NULL, between);
        if (low)
            EXPECT(got, 42 + root);
    }
    CALL(Ibarrier, between, &requests[0]);
    CALL(Wait, &requests[0], MPI_STATUS_IGNORE);
    CALL(Comm_dup, between, &second);
    CALL(Barrier, second);
    leave(&second);
    CALL(Comm_split, between, 0, rank, &second);
    CALL(Barrier, second);
    leave(&second);
    CALL(Intercomm_merge, between, !low, &merged);
    works(merged, size, rank);
    leave(&merged);
    leave(&between);
#if FOUR
    MPI_Group ours, all, theirs;
    CALL(Comm_group, mine, &ours);
    CALL(Comm_group, world, &all);
    CALL(Group_difference, all, ours, &theirs);
    CALL(Intercomm_create_from_groups, ours, 0, theirs, 0, "ringside:between", MPI_INFO_NULL,
         MPI_ERRORS_RETURN, &between);
    CALL(Comm_remote_size, between, &n);
    EXPECT(n, low ? size - 1 : 1);
    CALL(Barrier, between);
    leave(&between);
    CALL(Group_free, &theirs);
    CALL(Group_free, &all);
    CALL(Group_free, &ours);
#endif
    leave(&mine);
}

static int handled;

static void handle(MPI_Comm *comm, int *err, ...) {
    (void)comm;
    (void)err;
    handled++;
}

static void handle_window(MPI_Win *win, int *err, ...) {
    (void)win;
    (void)err;
}

static void handle_file(MPI_File *file, int *err, ...) {
    (void)file;
    (void)err;
}

static void handlers(void) {
    MPI_Errhandler handler, found;
    CALL(Win_create_errhandler, handle_window, &handler);
    CALL(Errhandler_free, &handler);
    CALL(File_create_errhandler, handle_file, &handler);
    CALL(Errhandler_free, &handler);
    MPI_Comm made;
    MPI_Info info;
    char name[MPI_MAX_OBJECT_NAME], text[MPI_MAX_ERROR_STRING];
    int length, class;
    CALL(Error_string, MPI_ERR_RANK, text, &length);
    EXPECT(length > 0 && text[length] == '\0', true);
    CALL(Comm_dup, world, &made);
    CALL(Comm_create_errhandler, handle, &handler);
    CALL(Comm_set_errhandler, made, handler);
    CALL(Comm_get_errhandler, made, &found);
    EXPECT(found == handler, true);
    CALL(Errhandler_free, &found);
    handled = 0;
    CALL(Comm_call_errhandler, made, MPI_ERR_OTHER);
    EXPECT(handled, 1);
    called("MPI_Send"); /* with a rank that cannot be */
    PMPI_Error_class(MPI_Send(out, 1, MPI_INT, size + 7, TAG, made), &class);
    EXPECT(handled, 2);
    called("MPI_Bcast");
    PMPI_Error_class(MPI_Bcast(out, 1, MPI_INT, size + 7, made), &class);
    note("a wrong root is an error of class", class);
    EXPECT(handled, 3);
    CALL(Errhandler_free, &handler);
    CALL(Comm_set_name, made, "ringside");
    CALL(Comm_get_name, made, name, &length);
    EXPECT(strcmp(name, "ringside"), 0);
    CALL(Info_create, &info);
    CALL(Info_set, info, "mpi_assert_allow_overtaking", "false");
    CALL(Comm_set_info, made, info);
    CALL(Info_free, &info);
    CALL(Comm_get_info, made, &info);
    CALL(Info_free, &info);
    leave(&made);
}

/* ---- sessions ---- */

#if FOUR
static void sessions(void) {
    MPI_Session session;
    MPI_Info info;
    MPI_Group group;
    MPI_Errhandler handler;
    MPI_Comm made;
    int n = 0, length = MPI_MAX_PSET_NAME_LEN;
    char name[MPI_MAX_PSET_NAME_LEN];
    CALL(Session_init, MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    CALL(Session_get_errhandler, session, &handler);
    CALL(Session_set_errhandler, session, handler);
    CALL(Errhandler_free, &handler);
    CALL(Session_get_num_psets, session, MPI_INFO_NULL, &n);
    EXPECT(n >= 2, true);
    CALL(Session_get_nth_pset, session, MPI_INFO_NULL, 0, &length, name);
    CALL(Session_get_pset_info, session, "mpi://WORLD", &info);
    CALL(Info_free, &info);
    CALL(Session_get_info, session, &info);
    CALL(Info_free, &info);
    CALL(Group_from_session_pset, session, "mpi://WORLD", &group);
    CALL(Comm_create_from_group, group, "ringside:session", MPI_INFO_NULL, MPI_ERRORS_RETURN,
         &made);
    works(made, size, rank);
    leave(&made);
    CALL(Group_free, &group);
#if FOUR_ONE
    static char room[4096 + ROOM * MPI_BSEND_OVERHEAD];
    void *given = NULL;
    int bytes = 0;
    MPI_Count many = 0;
    CALL(Session_attach_buffer, session, room, sizeof room);
    CALL(Session_flush_buffer, session);
    CALL(Session_iflush_buffer, session, &requests[0]);
    CALL(Wait, &requests[0], MPI_STATUS_IGNORE);
    CALL(Session_detach_buffer, session, &given, &bytes);
    EXPECT(bytes, sizeof room);
    CALL(Session_attach_buffer_c, session, room, sizeof room);
    CALL(Session_detach_buffer_c, session, &given, &many);
    EXPECT(many, sizeof room);
#endif
    CALL(Session_finalize, &session);
}
#endif

/* ---- processes that come later ---- */

static void child(void) {
    MPI_Comm parent;
    int n = 0;
    MPI_Init(NULL, NULL);
    MPI_Comm_get_parent(&parent);
    MPI_Bcast(&n, 1, MPI_INT, 0, parent);
    if (n == 42)
        MPI_Send(&n, 1, MPI_INT, 0, TAG, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
}

static void greet(MPI_Comm *children, int n) {
    int got = 42, remote = 0;
    CALL(Comm_remote_size, *children, &remote);
    EXPECT(remote, n);
    CALL(Bcast, &got, 1, MPI_INT, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, *children);
    for (int i = 0; i < n && rank == 0; i++) {
        got = 0;
        CALL(Recv, &got, 1, MPI_INT, i, TAG, *children, MPI_STATUS_IGNORE);
        EXPECT(got, 42);
    }
    CALL(Comm_disconnect, children);
}

static char *program;

static void spawned(void) {
    MPI_Comm children, parent;
    char *arguments[] = {"child", NULL}, **both[2] = {arguments, arguments};
    char *programs[2] = {program, program};
    int codes[2];
    const int one_each[2] = {1, 1};
    const MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    CALL(Comm_get_parent, &parent);
    EXPECT(parent == MPI_COMM_NULL, true);
    CALL(Comm_spawn, program, arguments, 1, MPI_INFO_NULL, 0, world, &children, codes);
    greet(&children, 1);
    CALL(Comm_spawn_multiple, 2, programs, both, one_each, infos, 0, world, &children, codes);
    greet(&children, 2);
}

static void meet(MPI_Comm *comm) {
    int got = -1;
    CALL(Sendrecv, &rank, 1, MPI_INT, 0, TAG, &got, 1, MPI_INT, 0, TAG, *comm, MPI_STATUS_IGNORE);
    EXPECT(got, 1 - rank);
    CALL(Comm_disconnect, comm);
}

/* A library that has no port to give says so again; what the scope makes of it must be the same. */
static void no_ports(void) {
    MPI_Comm other = MPI_COMM_NULL;
    char port[MPI_MAX_PORT_NAME] = "nowhere";
    called("MPI_Comm_connect");
    note("a port that is none can be met at",
         MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other) == MPI_SUCCESS);
    called("MPI_Comm_accept");
    note("a port that is none can be accepted at",
         MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other) == MPI_SUCCESS);
}

/* Ranks 0 and 1 meet by a port, where the library has any to give. */
static void ports(void) {
    MPI_Comm other;
    char port[MPI_MAX_PORT_NAME] = "";
    if (size == 1)
        return;
    called("MPI_Open_port");
    if (rank == 0 && MPI_Open_port(MPI_INFO_NULL, port) != MPI_SUCCESS)
        port[0] = '\0';
    CALL(Bcast, port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, world);
    note("ports are to be had", port[0] != '\0');
    if (port[0] == '\0') {
        no_ports();
        return;
    }
    if (rank == 0)
        CALL(Comm_accept, port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    if (rank == 1)
        CALL(Comm_connect, port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
    if (rank < 2)
        meet(&other);
    if (rank == 0)
        CALL(Close_port, port);
    CALL(Barrier, world);
}

/* Between ranks 0 and 1; -1 if it fails. */
static int socket_between(void) {
    const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    const struct sockaddr *at = (const struct sockaddr *)&address;
    int found = socket(AF_UNIX, SOCK_STREAM, 0);
    bool good = found >= 0 && chdir(directory) == 0; /* the whole path may be too long */
    if (rank == 0)
        good = good && bind(found, at, sizeof address) == 0 && listen(found, 1) == 0;
    PMPI_Barrier(world);
    if (rank == 0 && good) {
        const int own = found;
        found = accept(own, NULL, NULL);
        close(own);
    } else if (rank == 1) {
        good = good && connect(found, at, sizeof address) == 0;
    }
    return good ? found : -1;
}

/* Where the library has ports. */
static void joined(void) {
    MPI_Comm other = MPI_COMM_NULL;
    if (size == 1)
        return;
    const int between = socket_between();
    called("MPI_Comm_join");
    if (rank < 2) {
        const bool good = MPI_Comm_join(between, &other) == MPI_SUCCESS && other != MPI_COMM_NULL;
        note("they joined", good);
        if (good)
            meet(&other);
    }
    close(between);
}

/* ---- everything ---- */

/* Each is run after all ranks have come through the one before. */
static const struct {
    const char *name;
    void (*run)(void);
} sections[] = {
#define SECTION(name) {#name, name},
#define BY_COUNT(name) COUNTED(name)
#if LARGE_COUNTS
#define COUNTED(name) {#name, name}, {#name "_c", name##_c},
#else
#define COUNTED(name) {#name, name},
#endif
    BY_COUNT(sends) BY_COUNT(nonblocking_sends) BY_COUNT(persistent_sends) BY_COUNT(receives)
    BY_COUNT(both_at_once) SECTION(waits) SECTION(tests) SECTION(get_statuses)
    SECTION(given_up) SECTION(own_requests)
    SECTION(barriers) BY_COUNT(collectives) BY_COUNT(in_place) BY_COUNT(neighbourhoods)
    BY_COUNT(types) BY_COUNT(packed)
    SECTION(duplicates) SECTION(splits) SECTION(topologies) SECTION(between_groups)
    SECTION(handlers)
    BY_COUNT(windows) BY_COUNT(one_sided) BY_COUNT(files)
#if FOUR
    SECTION(partitions) SECTION(sessions)
#endif
    SECTION(spawned) SECTION(ports) SECTION(joined)
};

int main(int argc, char **argv) {
    int level = -1, flag = 0;
    if (argc < 2)
        return 2;
    if (strcmp(argv[1], "child") == 0) {
        child();
        return 0;
    }
    program = argv[0];
    directory = argv[1];
    const bool plain = argc > 2 && strcmp(argv[2], "MPI_Init") == 0;
    if ((plain ? MPI_Init(&argc, &argv)
               : MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level)) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    char path[4096];
    snprintf(path, sizeof path, "%s/rank-%d", directory, rank);
    told = fopen(path, "w");
    if (!told)
        MPI_Abort(world, 1);
    setvbuf(told, NULL, _IOLBF, 0); /* a program that crashes has told where */
    called(plain ? "MPI_Init" : "MPI_Init_thread");
    CALL(Query_thread, &level);
    EXPECT(plain || level == MPI_THREAD_MULTIPLE, true);
    CALL(Comm_set_errhandler, world, MPI_ERRORS_RETURN);
    CALL(Initialized, &flag);
    EXPECT(flag, true);
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (argc > 3 && strcmp(argv[3], sections[i].name) != 0)
            continue;
        section = sections[i].name;
        fprintf(told, "section %s\n", section);
        sections[i].run();
        PMPI_Barrier(world);
    }
    if (argc > 3 && strcmp(argv[3], "MPI_Abort") == 0) {
        called("MPI_Abort");
        MPI_Abort(world, 7);
    }
    called("MPI_Finalize");
    check(MPI_Finalize());
    fprintf(told, "end\n");
    return fclose(told) ? 1 : 0;
}
