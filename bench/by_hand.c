/* One line a size: bytes, microseconds of a round trip by hand, and by the kernel. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ringside.h"

enum { BLOCKS = 12, MOST = 1000 };

static double by_hand(char *out, char *in, int bytes, int rank, int trips) {
    double start = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i <= trips; i++) {
        if (i == 1)
            start = MPI_Wtime();
        if (rank == 0)
            MPI_Send(out, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(in, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (rank == 1)
            MPI_Send(out, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) / trips;
}

int main(int argc, char **argv) {
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int a = 1; a < argc; a++) {
        const int bytes = atoi(argv[a]);
        const int trips = 5 + 64000000 / (bytes + 64000) / BLOCKS; /* about as long for each size */
        const int64_t settings[] = {1, trips};
        char *out = ringside_allocate(bytes), *in = ringside_allocate(bytes);
        memset(out, 1, (size_t)bytes);
        memset(in, 2, (size_t)bytes);
        double hand = 1e9, kernel = 1e9;
        for (int block = 0; block < BLOCKS; block++) {
            double seconds;
            int64_t wrong;
            const double time = by_hand(out, in, bytes, rank, trips);
            if (time < hand)
                hand = time;
            if (ringside_run(&ringside_pingpong, MPI_COMM_WORLD, "blocking", bytes, settings, 1,
                             &seconds, &wrong))
                MPI_Abort(MPI_COMM_WORLD, 1);
            if (seconds < kernel)
                kernel = seconds;
        }
        if (rank == 0)
            printf("%d %.5f %.5f\n", bytes, 1e6 * hand, 1e6 * kernel);
        free(out);
        free(in);
    }
    MPI_Finalize();
    return 0;
}
