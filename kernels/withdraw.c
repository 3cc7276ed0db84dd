/* What a kernel does with its open requests after an error. */
#include "ringside.h"

static const double PATIENCE = 0.1; /* seconds */

/* Frees a request once it is complete; true if there is none left. It asks without MPI_Test,
 * which the scope refuses after it has broken a call, so that no loop of Tests goes on. */
static int finished(MPI_Request *request) {
    int complete = 0;
    if (*request == MPI_REQUEST_NULL)
        return 1;
    return MPI_Request_get_status(*request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           complete && MPI_Request_free(request) == MPI_SUCCESS;
}

static int all_finished(MPI_Request requests[], int n) {
    int all = 1;
    for (int i = 0; i < n; i++)
        all = finished(&requests[i]) && all;
    return all;
}

int ringside_withdraw(MPI_Request requests[], int n, int cancelled) {
    const double end = MPI_Wtime() + PATIENCE;
    int all = all_finished(requests, n);
    for (int i = 0; i < cancelled; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&requests[i]); /* whether it could be is seen below */
    while (!all && MPI_Wtime() < end)
        all = all_finished(requests, n);
    return all;
}
