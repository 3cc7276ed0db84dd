/* What every kernel does before its exchange: all ranks go on, or all leave with the same error. */
#include "ringside.h"

#include <stddef.h>

/* Whether `ranks` times `bytes` leaves a tenth of what is available. */
static int fits(int64_t bytes, int64_t available) {
    return bytes <= available - available / 10;
}

/* The exact count, for when it is close: what the ranks of each node ask for together. */
static int agree_on_memory(MPI_Comm comm, int64_t bytes, int64_t available) {
    MPI_Comm node = MPI_COMM_NULL;
    int64_t together = 0;
    TRY(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    TRY(MPI_Allreduce(&bytes, &together, 1, MPI_INT64_T, MPI_SUM, node));
    TRY(MPI_Comm_free(&node));

    int all_fit = fits(together, available);
    TRY(MPI_Allreduce(MPI_IN_PLACE, &all_fit, 1, MPI_INT, MPI_MIN, comm));
    return all_fit ? MPI_SUCCESS : RINGSIDE_NO_MEMORY;
}

int ringside_agree(MPI_Comm comm, int own, int64_t bytes,
                   const int64_t arguments[RINGSIDE_ARGUMENTS]) {
    int size;
    TRY(MPI_Comm_size(comm, &size));

    /* One reduction tells the worst error, whether memory is ample even if all ranks share this
     * node, and the least and (complemented) the greatest of each argument. */
    const int64_t available = ringside_available_bytes();
    const int ample = fits(bytes, available / size);
    int64_t least[2 + 2 * RINGSIDE_ARGUMENTS] = {own, ample};
    for (int i = 0; i < RINGSIDE_ARGUMENTS; i++) {
        least[2 + 2 * i] = arguments[i];
        least[3 + 2 * i] = ~arguments[i]; /* falls as the argument grows, and cannot overflow */
    }
    TRY(MPI_Allreduce(MPI_IN_PLACE, least, 2 + 2 * RINGSIDE_ARGUMENTS, MPI_INT64_T, MPI_MIN, comm));

    if (least[0] != MPI_SUCCESS)
        return (int)least[0];
    for (int i = 0; i < RINGSIDE_ARGUMENTS; i++)
        if (least[2 + 2 * i] != ~least[3 + 2 * i])
            return RINGSIDE_ARGUMENTS_DIFFER;
    return least[1] ? MPI_SUCCESS : agree_on_memory(comm, bytes, available);
}

int ringside_read_settings(const struct ringside_setting table[], const int64_t *given,
                           int64_t settings[RINGSIDE_MAX_SETTINGS]) {
    int code = MPI_SUCCESS;
    for (int i = 0; table[i].name != NULL; i++) {
        settings[i] = given == NULL ? table[i].usual : given[i];
        if (settings[i] < table[i].least || settings[i] > table[i].most)
            code = RINGSIDE_BAD_SETTING;
    }
    return code;
}
