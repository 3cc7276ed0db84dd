/* Threads of one rank in MPI at the same time, and one that asks the scope how things stand.
 *
 *   mpiexec -n N threads SECONDS
 *
 * The first makes and frees communicators while another sends on one of its own; a third reads
 * states and events as the notebook's control thread does. The exit status is 0 if all they got is right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MESSAGES = 8 };

static MPI_Comm making, sending;
static int rank, size;
static double seconds;
static atomic_int wrong, over;

static void expect(bool good, const char *what) {
    if (!good && atomic_fetch_add(&wrong, 1) == 0)
        fprintf(stderr, "rank %d: %s\n", rank, what);
}

/* All ranks go on, or none: told on the thread's own communicator. */
static bool again(MPI_Comm comm, double end) {
    int more = MPI_Wtime() < end;
    MPI_Bcast(&more, 1, MPI_INT, 0, comm);
    return more;
}

static void *make(void *unused) {
    const double end = MPI_Wtime() + seconds;
    do {
        MPI_Comm made, half;
        int total = 0;
        MPI_Comm_dup(making, &made);
        MPI_Allreduce(&rank, &total, 1, MPI_INT, MPI_SUM, made);
        expect(total == size * (size - 1) / 2, "a sum on a duplicate is wrong");
        MPI_Comm_split(made, rank % 2, rank, &half);
        MPI_Barrier(half);
        MPI_Comm_free(&half);
        MPI_Comm_free(&made);
    } while (again(making, end));
    return unused;
}

static void *send(void *unused) {
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    const double end = MPI_Wtime() + seconds;
    do {
        MPI_Request requests[2 * MESSAGES];
        MPI_Status status;
        int in[MESSAGES], got = -1, flag;
        for (int i = 0; i < MESSAGES; i++) {
            MPI_Irecv(&in[i], 1, MPI_INT, left, i, sending, &requests[2 * i]);
            MPI_Isend(&rank, 1, MPI_INT, right, i, sending, &requests[2 * i + 1]);
        }
        MPI_Waitall(2 * MESSAGES, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MESSAGES; i++)
            expect(in[i] == left, "a message is not what was sent");
        MPI_Sendrecv(&rank, 1, MPI_INT, right, 99, &got, 1, MPI_INT, left, 99, sending, &status);
        expect(got == left && status.MPI_SOURCE == left, "a message went astray");
        MPI_Iprobe(MPI_ANY_SOURCE, 1000, sending, &flag, MPI_STATUS_IGNORE);
        expect(!flag, "a message came that nobody sent");
    } while (again(sending, end));
    return unused;
}

/* Only where there is a scope. */
static void *look(void *unused) {
    char *(*state)(void) = (char *(*)(void))dlsym(RTLD_DEFAULT, "scope_state");
    char *(*told)(void) = (char *(*)(void))dlsym(RTLD_DEFAULT, "scope_told");
    void (*release)(char *) = (void (*)(char *))dlsym(RTLD_DEFAULT, "scope_release");
    long long (*events)(void *, long long) =
        (long long (*)(void *, long long))dlsym(RTLD_DEFAULT, "scope_events");
    while (state && !atomic_load(&over)) {
        release(state());
        release(told());
        events(NULL, 0);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t threads[2];
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level != MPI_THREAD_MULTIPLE || argc < 2)
        MPI_Abort(MPI_COMM_WORLD, 2);
    seconds = atof(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &making);
    MPI_Comm_dup(MPI_COMM_WORLD, &sending);
    void *(*const work[2])(void *) = {send, look};
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, work[i], NULL))
            MPI_Abort(MPI_COMM_WORLD, 2);
    make(NULL);
    pthread_join(threads[0], NULL);
    atomic_store(&over, 1);
    pthread_join(threads[1], NULL);
    MPI_Comm_free(&sending);
    MPI_Comm_free(&making);
    MPI_Finalize();
    return atomic_load(&wrong) ? 1 : 0;
}
