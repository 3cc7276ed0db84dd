/* One line a block: what, how the scope stood, microseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUESTS = 100000, REDUCTIONS = 2000, BLOCKS = 60 };

static int rank;

/* Half of them to the other rank and half from it; how long the last call took of all that. */
static double many(double *last) {
    static MPI_Request requests[REQUESTS];
    static double in[REQUESTS / 2], out[REQUESTS / 2];
    const double start = PMPI_Wtime();
    for (int i = 0; i < REQUESTS / 2; i++)
        MPI_Irecv(&in[i], 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < REQUESTS / 2; i++)
        MPI_Isend(&out[i], 1, MPI_DOUBLE, 1 - rank, 0, MPI_COMM_WORLD,
                  &requests[REQUESTS / 2 + i]);
    const double middle = PMPI_Wtime();
    MPI_Waitall(REQUESTS, requests, MPI_STATUSES_IGNORE);
    const double end = PMPI_Wtime();
    *last = end - middle;
    return end - start;
}

static double reduce(void) {
    double in = 1, out;
    const double start = PMPI_Wtime();
    for (int i = 0; i < REDUCTIONS; i++)
        MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return (PMPI_Wtime() - start) / REDUCTIONS;
}

int main(int argc, char **argv) {
    int level;
    const bool requests = strcmp(argv[1], "requests") == 0;
    const double limit = atof(argv[2]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    void (*turn)(bool) = (void (*)(bool))dlsym(RTLD_DEFAULT, "scope_switch");
    const double end = PMPI_Wtime() + limit;
    for (int block = 0, late = 0; block < BLOCKS && (block < 6 || !late); block++) {
        const bool on = turn && block % 2;
        /* PMPI: the scope must not see the calls between which it is switched. */
        PMPI_Barrier(MPI_COMM_WORLD);
        if (turn)
            turn(on);
        PMPI_Barrier(MPI_COMM_WORLD);
        double last = 0;
        double seconds = requests ? many(&last) : reduce();
        late = PMPI_Wtime() > end;
        PMPI_Bcast(&late, 1, MPI_INT, 0, MPI_COMM_WORLD);
        const char *how = !turn ? "absent" : on ? "on" : "off";
        if (rank == 0 && block >= 2) { /* the first two warm up */
            printf("%s %s %.3f\n", requests ? "requests" : "reduce", how, 1e6 * seconds);
            if (requests)
                printf("waitall %s %.3f\n", how, 1e6 * last);
        }
    }
    if (turn)
        turn(true);
    MPI_Finalize();
    return 0;
}
