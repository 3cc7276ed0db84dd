/* What a program sees of its MPI, for the same run with and without the scope: statuses, errors and
 * handlers, attributes, missing arguments. Every line says one thing; see test_own.py. */
#define _GNU_SOURCE
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define W MPI_COMM_WORLD
enum { MARK = 0x41414141, MANY = 4 };

static int rank, size, told, deleted;
static int out[MANY], in[MANY];
static MPI_Request request[MANY];
static MPI_Status status[MANY];

static int class_of(int err) {
    int class = err;
    if (err == MARK)
        return -1;
    if (err)
        MPI_Error_class(err, &class);
    return class;
}

static void count(MPI_Comm *comm, int *err, ...) {
    (void)comm;
    told = 100 * told + class_of(*err);
}

/* ---- statuses ---- */

/* g: a message that fits, t: one that is cut off, j and k: the same, persistent; i: persistent and
 * idle, n: none, s: a send to nobody, b: a barrier, p: pending */
static void start(const char *kinds) {
    for (int i = 0; kinds[i]; i++) {
        status[i] = (MPI_Status){.MPI_SOURCE = -77, .MPI_TAG = -77, .MPI_ERROR = MARK};
        request[i] = MPI_REQUEST_NULL;
        if (kinds[i] == 'i' || kinds[i] == 'j' || kinds[i] == 'k')
            MPI_Recv_init(in + i, 1, MPI_INT, 0, i, W, &request[i]);
        if (kinds[i] == 'j' || kinds[i] == 'k')
            MPI_Start(&request[i]);
        if (kinds[i] == 'g' || kinds[i] == 't')
            MPI_Irecv(in + i, 1, MPI_INT, 0, i, W, &request[i]);
        if (kinds[i] == 'p')
            MPI_Irecv(in + i, 1, MPI_INT, 0, 50 + i, W, &request[i]);
        if (kinds[i] == 's')
            MPI_Isend(out, 1, MPI_INT, MPI_PROC_NULL, i, W, &request[i]);
        if (kinds[i] == 'b')
            MPI_Ibarrier(MPI_COMM_SELF, &request[i]);
        if (strchr("gtjk", kinds[i]))
            MPI_Send(out, kinds[i] == 't' || kinds[i] == 'k' ? 2 : 1, MPI_INT, 0, i, W);
    }
    usleep(1000);
    told = 0;
}

static void show(const char *call, const char *kinds, int err, int done, const int *indices) {
    printf("%s %s: %d, out %d, handler %d;", call, kinds, class_of(err), done, told);
    for (int i = 0; indices && i < done; i++)
        printf(" index %d", indices[i]);
    for (int i = 0; kinds[i]; i++)
        printf(" [%d %s %d %d]", class_of(status[i].MPI_ERROR),
               request[i] == MPI_REQUEST_NULL ? "null" : "kept", status[i].MPI_SOURCE,
               status[i].MPI_TAG);
    printf("\n");
    for (int i = 0; kinds[i]; i++) {
        if (kinds[i] == 'p' && request[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&request[i]);
        if (request[i] != MPI_REQUEST_NULL)
            MPI_Wait(&request[i], MPI_STATUS_IGNORE);
        if (request[i] != MPI_REQUEST_NULL)
            MPI_Request_free(&request[i]);
    }
}

static void statuses(const char *kinds) {
    const int n = (int)strlen(kinds);
    const int pending = strchr(kinds, 'p') != NULL;
    int flag = -1, ready = -1, which = -1, err, indices[MANY];
    if (n == 1) {
        start(kinds);
        err = MPI_Wait(request, status);
        show("Wait", kinds, err, 0, NULL);
        start(kinds);
        do
            err = MPI_Test(request, &flag, status);
        while (!flag && !err && !told);
        show("Test", kinds, err, flag, NULL);
        start(kinds);
        do
            err = MPI_Request_get_status(request[0], &flag, status);
        while (!flag && !err && !told);
        show("Request_get_status", kinds, err, flag, NULL);
    }
    if (!pending) {
        start(kinds);
        err = MPI_Waitall(n, request, status);
        show("Waitall", kinds, err, 0, NULL);
    }
    start(kinds);
    for (int i = 0; i < 100; i++)
        if ((err = MPI_Testall(n, request, &flag, status)) || flag || told)
            break;
    show("Testall", kinds, err, flag, NULL);
    start(kinds);
    err = MPI_Waitany(n, request, &which, status);
    show("Waitany", kinds, err, which, NULL);
    start(kinds);
    do
        err = MPI_Testany(n, request, &which, &flag, status);
    while (!flag && !err && !told);
    show("Testany", kinds, err, which, NULL);
    if (strchr(kinds, 'k')) /* MPICH forgets the error that it has just told: errata 4 */
        return;
    start(kinds);
    err = MPI_Waitsome(n, request, &ready, indices, status);
    show("Waitsome", kinds, err, ready, indices);
    start(kinds);
    do
        err = MPI_Testsome(n, request, &ready, indices, status);
    while (ready == 0 && !err && !told);
    show("Testsome", kinds, err, ready, indices);
}

static void single_statuses(void) {
    int flag;
    start("n");
    MPI_Sendrecv(out, 1, MPI_INT, 0, 0, in, 1, MPI_INT, 0, 0, W, status);
    show("Sendrecv", "n", 0, 0, NULL);
    start("n");
    MPI_Recv(in, 1, MPI_INT, MPI_PROC_NULL, 0, W, status);
    show("Recv", "n", 0, 0, NULL);
    start("n");
    MPI_Isend(out, 1, MPI_INT, 0, 3, W, request + 1);
    MPI_Probe(0, 3, W, status);
    show("Probe", "n", 0, 0, NULL);
    start("n");
    do
        MPI_Iprobe(0, 3, W, &flag, status);
    while (!flag);
    show("Iprobe", "n", 0, 0, NULL);
    start("n");
    MPI_Recv(in, 1, MPI_INT, 0, 3, W, status);
    show("Recv", "n", 0, 0, NULL);
    MPI_Wait(request + 1, MPI_STATUS_IGNORE);
}

/* ---- errors, and their handlers ---- */

static void refuse(const char *what, int err) {
    printf("%s: %d, handler %d\n", what, class_of(err), told);
    told = 0;
}

static void refused(void) {
    int x = 0;
    MPI_Request one;
    MPI_Comm comm;
    told = 0;
    refuse("rank", MPI_Send(&x, 1, MPI_INT, size + 4, 0, W));
    refuse("tag", MPI_Send(&x, 1, MPI_INT, 0, -5, W));
    refuse("count", MPI_Send(&x, -1, MPI_INT, 0, 0, W));
    refuse("type", MPI_Send(&x, 1, MPI_DATATYPE_NULL, 0, 0, W));
    refuse("Isend", MPI_Isend(&x, -1, MPI_INT, 0, 0, W, &one));
    refuse("Irecv", MPI_Irecv(&x, -1, MPI_INT, 0, 0, W, &one));
    refuse("Recv_init", MPI_Recv_init(&x, -1, MPI_INT, 0, 0, W, &one));
    refuse("Probe", MPI_Probe(size + 3, 0, W, MPI_STATUS_IGNORE));
    refuse("root", MPI_Bcast(&x, 1, MPI_INT, size + 9, W));
    refuse("Bcast", MPI_Bcast(&x, -1, MPI_INT, 0, W));
    refuse("Reduce", MPI_Reduce(&x, &x, 1, MPI_INT, MPI_OP_NULL, 0, W));
    refuse("Comm_split", MPI_Comm_split(W, -7, 0, &comm));
    refuse("Cart_create", MPI_Cart_create(W, -1, &x, &x, 0, &comm));
    refuse("Comm_call_errhandler", MPI_Comm_call_errhandler(W, MPI_ERR_OTHER));
}

static void missing(void) {
    int x = 0, y, flag, n = 0;
    MPI_Request none = MPI_REQUEST_NULL, some;
    MPI_Comm comm = MPI_COMM_NULL;
    (void)comm;
    told = 0;
    refuse("Wait no request", MPI_Wait(NULL, MPI_STATUS_IGNORE));
    refuse("Test no flag", MPI_Test(&none, NULL, MPI_STATUS_IGNORE));
    refuse("Waitall no requests", MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE));
    refuse("Waitany no index", MPI_Waitany(1, &none, NULL, MPI_STATUS_IGNORE));
    refuse("Testall no flag", MPI_Testall(1, &none, NULL, MPI_STATUSES_IGNORE));
    refuse("Testall count", MPI_Testall(-1, &none, &flag, MPI_STATUSES_IGNORE));
    refuse("Waitsome no indices", MPI_Waitsome(1, &none, &n, NULL, MPI_STATUSES_IGNORE));
    refuse("Isend no request", MPI_Isend(&x, 1, MPI_INT, 0, 0, W, NULL));
    refuse("Irecv no request", MPI_Irecv(&x, 1, MPI_INT, 0, 0, W, NULL));
    refuse("Start no request", MPI_Start(NULL));
    refuse("Request_free no request", MPI_Request_free(NULL));
#ifndef OPEN_MPI /* it crashes by itself */
    refuse("Ibarrier no request", MPI_Ibarrier(W, NULL));
    refuse("Ibcast no request", MPI_Ibcast(&x, 1, MPI_INT, 0, W, NULL));
#endif
    refuse("Comm_dup no place", MPI_Comm_dup(W, NULL));
    refuse("Comm_split no place", MPI_Comm_split(W, 0, 0, NULL));
#ifndef OPEN_MPI /* here as well */
    refuse("Comm_free no place", MPI_Comm_free(NULL));
    refuse("Cart_create no dims", MPI_Cart_create(W, 1, NULL, NULL, 0, &comm));
    refuse("Win_create no place", MPI_Win_create(&x, 4, 4, MPI_INFO_NULL, W, NULL));
    refuse("Query_thread no place", MPI_Query_thread(NULL));
#endif
    /* where it means no status in one library and is an error in the other */
    MPI_Isend(&x, 1, MPI_INT, 0, 1, W, &some);
    refuse("Probe no status", MPI_Probe(0, 1, W, NULL));
    refuse("Iprobe no status", MPI_Iprobe(0, 1, W, &flag, NULL));
    refuse("Recv no status", MPI_Recv(&y, 1, MPI_INT, 0, 1, W, NULL));
    MPI_Iprobe(0, 1, W, &flag, MPI_STATUS_IGNORE);
    if (flag)
        MPI_Recv(&y, 1, MPI_INT, 0, 1, W, MPI_STATUS_IGNORE);
    refuse("Waitall no status", MPI_Waitall(1, &some, NULL));
    MPI_Wait(&some, MPI_STATUS_IGNORE);
}

static jmp_buf back;

static void jump(MPI_Comm *comm, int *err, ...) {
    (void)comm;
    (void)err;
    longjmp(back, 1);
}

static void jumps(void) {
    MPI_Errhandler handler;
    int x = 0;
    MPI_Comm_create_errhandler(jump, &handler);
    MPI_Comm_set_errhandler(W, handler);
    MPI_Errhandler_free(&handler);
    for (volatile int way = 0; way < 5; way++) {
        MPI_Request one;
        if (setjmp(back)) {
            printf("way %d: jumped\n", way);
            continue;
        }
        if (way == 0)
            MPI_Send(&x, 1, MPI_INT, size + 4, 0, W);
        if (way == 1)
            MPI_Irecv(&x, -1, MPI_INT, 0, 0, W, &one);
        if (way == 2)
            MPI_Bcast(&x, 1, MPI_INT, size + 9, W);
        if (way == 3)
            MPI_Bcast(&x, -1, MPI_INT, 0, W);
        if (way == 4)
            MPI_Comm_call_errhandler(W, MPI_ERR_OTHER);
        printf("way %d: went on\n", way);
    }
    MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
    MPI_Barrier(W);
}

/* ---- attributes ---- */

static int copy_it(MPI_Comm comm, int key, void *state, void *value, void *copy, int *flag) {
    (void)comm, (void)key, (void)state;
    *(void **)copy = value;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_it(MPI_Comm comm, int key, void *value, void *state) {
    (void)comm, (void)key, (void)value, (void)state;
    deleted++;
    return MPI_SUCCESS;
}

/* The names of MPI-1 and those of today; the keyval freed before its attributes or after. */
static void attributes(int old, int early) {
    int key;
    MPI_Comm one, two;
    deleted = 0;
    MPI_Comm_dup(W, &one);
    if (old)
        MPI_Keyval_create(copy_it, delete_it, &key, NULL);
    else
        MPI_Comm_create_keyval(copy_it, delete_it, &key, NULL);
    (old ? MPI_Attr_put : MPI_Comm_set_attr)(one, key, &key);
    (old ? MPI_Attr_put : MPI_Comm_set_attr)(one, key, &one);
    const int replaced = deleted;
    MPI_Comm_dup(one, &two);
    if (early)
        (old ? MPI_Keyval_free : MPI_Comm_free_keyval)(&key);
    const int before = deleted;
    MPI_Comm_free(&one);
    const int first = deleted;
    MPI_Comm_free(&two);
    printf("attributes old %d early %d: %d %d %d %d, keyval %s\n", old, early, replaced, before,
           first, deleted, key == MPI_KEYVAL_INVALID ? "gone" : "there");
    if (!early)
        (old ? MPI_Keyval_free : MPI_Comm_free_keyval)(&key);
}

/* ---- two ranks ---- */

/* Of three receives one is cut off. MPICH waits for the others, Open MPI leaves what is not there. */
static void one_fails(const int order[3]) {
#ifdef OPEN_MPI
    const int late = 1;
#else
    const int late = 0;
#endif
    for (int i = 0; i < 3; i++)
        status[i].MPI_ERROR = MARK;
    if (rank == 0) {
        for (int i = 0; i < 3; i++)
            MPI_Irecv(in + i, 1, MPI_INT, 1, order[i], W, &request[i]);
        MPI_Barrier(W); /* they are sent: what is to be there comes before it */
        const int err = MPI_Waitall(3, request, status);
        printf("Waitall %d%d%d: %d", order[0], order[1], order[2], class_of(err));
        for (int i = 0; i < 3; i++)
            printf(" [%d %s]", class_of(status[i].MPI_ERROR),
                   request[i] == MPI_REQUEST_NULL ? "null" : "kept");
        if (late)
            MPI_Send(out, 1, MPI_INT, 1, 77, W);
        for (int i = 0; i < 3; i++)
            printf(" again %d", class_of(MPI_Wait(&request[i], MPI_STATUS_IGNORE)));
        printf("\n");
    } else {
        MPI_Send(out, 1, MPI_INT, 0, 0, W);
        MPI_Send(out, 2, MPI_INT, 0, 1, W);
        if (!late)
            MPI_Send(out, 1, MPI_INT, 0, 2, W);
        MPI_Barrier(W);
        if (!late)
            return;
        MPI_Recv(in, 1, MPI_INT, 0, 77, W, MPI_STATUS_IGNORE);
        MPI_Send(out, 1, MPI_INT, 0, 2, W);
    }
}

#ifdef OPEN_MPI
/* It ends with the first that fails, be it the last of very many and while it waits. */
static void last_fails(void) {
    enum { N = 20000 };
    static MPI_Request many[N + 1];
    for (int i = 0; i <= N && rank == 0; i++)
        MPI_Irecv(in, 1, MPI_INT, 1, i < N ? 2 : 1, W, &many[i]);
    MPI_Barrier(W);
    if (rank == 0) {
        const int err = MPI_Waitall(N + 1, many, MPI_STATUSES_IGNORE);
        printf("Waitall of many: %d [%s] [%s]\n", class_of(err),
               many[0] == MPI_REQUEST_NULL ? "null" : "kept",
               many[N] == MPI_REQUEST_NULL ? "null" : "kept");
        MPI_Send(out, 1, MPI_INT, 1, 77, W);
        printf("again %d\n", class_of(MPI_Waitall(N, many, MPI_STATUSES_IGNORE)));
    } else {
        usleep(300000); /* that the other waits it does not say */
        MPI_Send(out, 2, MPI_INT, 0, 1, W);
        MPI_Recv(in, 1, MPI_INT, 0, 77, W, MPI_STATUS_IGNORE);
        for (int i = 0; i < N; i++)
            MPI_Send(out, 1, MPI_INT, 0, 2, W);
    }
}
#endif

static void show_received(const char *call, int err) {
    int bytes = -1;
    if (!err)
        MPI_Get_count(status, MPI_BYTE, &bytes);
    printf("%s of %d bytes", call, bytes);
    show("", "n", err, 0, NULL);
}

/* Where a message came from is in the status, be it cut off or not. */
static void received(int sent) {
    MPI_Message message;
    for (int tag = 0; tag < 4; tag++) {
        start("n");
        if (rank == 1 && tag % 2 == 0)
            MPI_Send(out, sent, MPI_INT, 0, tag, W);
        else if (rank == 1)
            MPI_Sendrecv(out, sent, MPI_INT, 0, tag, in, 1, MPI_INT, 0, tag, W, MPI_STATUS_IGNORE);
        else if (tag == 0)
            show_received("Recv", MPI_Recv(in, 1, MPI_INT, 1, tag, W, status));
        else if (tag == 1)
            show_received("Sendrecv", MPI_Sendrecv(out, 1, MPI_INT, 1, tag, in, 1, MPI_INT, 1, tag,
                                                   W, status));
        else if (tag == 2 && MPI_Mprobe(1, tag, W, &message, MPI_STATUS_IGNORE) == MPI_SUCCESS)
            show_received("Mrecv", MPI_Mrecv(in, 1, MPI_INT, &message, status));
        else if (tag == 3)
            show_received("Sendrecv_replace",
                          MPI_Sendrecv_replace(in, 1, MPI_INT, 1, tag, 1, tag, W, status));
    }
}

/* A group of which not all are in the communicator: an error where the caller is in it. */
static void foreign_group(void) {
    MPI_Comm half, made = MPI_COMM_NULL;
    MPI_Group world, group;
    const int two[2] = {0, size - 1};
    MPI_Comm_split(W, rank % 2, 0, &half);
    MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN);
    MPI_Comm_group(W, &world);
    MPI_Group_incl(world, 2, two, &group);
    const int err = MPI_Comm_create(half, group, &made);
    printf("rank %d: Comm_create of a foreign group: %d\n", rank, class_of(err));
    if (!err && made != MPI_COMM_NULL)
        MPI_Comm_free(&made);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    MPI_Comm_free(&half);
}

static void wrong_counts(void) {
    int counts[2] = {1, 1}, places[2] = {0, 2};
    MPI_Gatherv(out, 1 + rank, MPI_INT, in, counts, places, MPI_INT, 0, W);
}

int main(int argc, char **argv) {
    static const char *const sets[] = {"g",  "t",  "n",  "i",  "j",  "k",  "s",  "b",  "gt", "tg",
                                       "gn", "ni", "tn", "gs", "gp", "tp", "pt", "jk", "ii", "gtn"};
    static const int orders[][3] = {{0, 1, 2}, {1, 2, 0}, {1, 0, 2}, {2, 1, 0}, {0, 2, 1}};
    const char *what = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int asked = argc > 2 ? atoi(argv[2]) : 0;
    int level = asked, queried, main_thread;
    if (argc > 2)
        MPI_Init_thread(&argc, &argv, asked, &level);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(W, &rank);
    MPI_Comm_size(W, &size);
    MPI_Query_thread(&queried);
    MPI_Is_thread_main(&main_thread);
    printf("level %d: %d %d %d\n", asked, level, queried, main_thread);
    MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
    if (strcmp(what, "handler") == 0) {
        MPI_Errhandler handler;
        MPI_Comm_create_errhandler(count, &handler);
        MPI_Comm_set_errhandler(W, handler);
        MPI_Errhandler_free(&handler);
    }
    if (strcmp(what, "one") == 0 || strcmp(what, "handler") == 0) {
        for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
            statuses(sets[i]);
        single_statuses();
        refused();
        missing();
        for (int i = 0; i < 4; i++)
            attributes(i & 1, i & 2);
        jumps();
    }
    if (strcmp(what, "two") == 0) {
        for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
            one_fails(orders[i]);
#ifdef OPEN_MPI
        last_fails();
#endif
        for (int sent = 0; sent < 3; sent++)
            received(sent);
        foreign_group();
        jumps();
    }
    MPI_Comm_set_errhandler(W, MPI_ERRORS_ARE_FATAL);
    if (strcmp(what, "counts") == 0) {
        MPI_Comm_set_errhandler(W, MPI_ERRORS_RETURN);
        wrong_counts();
    }
    if (strcmp(what, "left") == 0 && rank == 1)
        MPI_Send(out, 1, MPI_INT, 0, 42, W);
    MPI_Barrier(W);
    MPI_Finalize();
    return 0;
}
