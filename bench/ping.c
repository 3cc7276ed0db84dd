/* One line a block: how the scope stood, bytes, microseconds of a round trip. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char buffer[1000000];

static void *sleeper(void *unused) {
    pause();
    return unused;
}

static void trips(int rank, int bytes, int n) {
    const MPI_Comm world = MPI_COMM_WORLD;
    const int peer = bytes ? 1 - rank : MPI_PROC_NULL; /* no bytes: the bare calls, to nobody */
    for (int i = 0; i < n; i++) {
        if (rank == 0)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, world);
        MPI_Recv(buffer, bytes, MPI_BYTE, peer, 0, world, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(buffer, bytes, MPI_BYTE, peer, 0, world);
    }
}

int main(int argc, char **argv) {
    static const struct {
        int bytes, trips, blocks;
    } plan[] = {{0, 2000, 200}, {8, 1000, 600}, {sizeof buffer, 10, 160}};
    int rank, level;
    /* Like an engine: it has other threads, and mpi4py asks for all there is. */
    pthread_t other;
    if (pthread_create(&other, NULL, sleeper, NULL))
        return 1;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void (*turn)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "scope_switch");
    long long (*events)(void *, long long) =
        (long long (*)(void *, long long))dlsym(RTLD_DEFAULT, "scope_events");
    for (int p = 0; p < 3; p++) {
        const double end = MPI_Wtime() + 1; /* on a busy machine fewer blocks must do */
        int late = 0;
        for (int block = 0; block < plan[p].blocks && (block < 4 || !late); block++) {
            const bool on = turn && block % 2;
            /* PMPI: the scope must not see the calls between which it is switched. */
            PMPI_Barrier(MPI_COMM_WORLD);
            if (turn)
                turn(on);
            PMPI_Barrier(MPI_COMM_WORLD);
            trips(rank, plan[p].bytes, plan[p].trips / 10);
            const double start = MPI_Wtime();
            trips(rank, plan[p].bytes, plan[p].trips);
            const double seconds = MPI_Wtime() - start;
            late = MPI_Wtime() > end;
            PMPI_Bcast(&late, 1, MPI_INT, 0, MPI_COMM_WORLD);
            if (rank == 0 && (turn || block % 2)) /* as many blocks absent as off */
                printf("%s %d %.5f\n", !turn ? "absent" : on ? "on" : "off", plan[p].bytes,
                       1e6 * seconds / plan[p].trips);
        }
    }
    if (turn)
        turn(true);
    if (events && events(NULL, 0) == 0) {
        fprintf(stderr, "the scope is loaded and has seen nothing\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
