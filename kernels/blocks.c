/* A vector cut into a block for each rank: see scaffold.h. */
#include "scaffold.h"

int block_start(const struct exchange *e, int block) {
    const int64_t length = e->count / e->size + (e->count % e->size > 0);
    return block * length < e->count ? (int)(block * length) : e->count;
}

int block_length(const struct exchange *e, int block) {
    return block_start(e, block + 1) - block_start(e, block);
}

int block_before(const struct exchange *e, int block, int steps) {
    return (block - steps + e->size) % e->size;
}

int blocks_allgather(struct exchange *e, double *vector, int own) {
    const int right = (e->rank + 1) % e->size, left = block_before(e, e->rank, 1);
    for (int step = 0; step < e->size - 1; step++) {
        const int out = block_before(e, own, step), in = block_before(e, out, 1);
        TRY(MPI_Sendrecv(vector + block_start(e, out), block_length(e, out), MPI_DOUBLE, right, 0,
                         vector + block_start(e, in), block_length(e, in), MPI_DOUBLE, left, 0,
                         e->comm, MPI_STATUS_IGNORE));
    }
    return MPI_SUCCESS;
}
