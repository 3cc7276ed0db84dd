/* Is a buffer left alone while it is being sent? Looked at for exercises alone, which ask for it
 * by RINGSIDE_CHECK: it reads every message that is sent without blocking twice. See scope.h. */
#include "scope.h"

#include <stdlib.h>
#include <string.h>

struct lent {
    const void *buf;
    count_t count;
    MPI_Datatype type; /* a duplicate: the program may free its own meanwhile */
    uint64_t hash;
};

static bool hash_of(const struct comm *c, const struct lent *lent, uint64_t *hash) {
    void *data;
    count_t bytes;
    if (scope_packed(c, lent->buf, lent->count, lent->type, &data, &bytes) != MPI_SUCCESS)
        return false;
    *hash = 0;
    for (count_t i = 0; i < bytes; i++)
        *hash = (*hash ^ ((const unsigned char *)data)[i]) * 0x100000001B3u;
    free(data);
    return true;
}

void scope_forget_lent(struct op *op) {
    if (!op->lent)
        return;
    PMPI_Type_free(&op->lent->type);
    free(op->lent);
    op->lent = NULL;
}

/* Sends that are complete at once may share a handle: which of them is waited for nobody knows. */
static bool is_shared(const struct op *op) {
    bool shared = false;
    for (struct op *other = op->next; other; other = other->next) {
        if (other->request == op->request) {
            scope_forget_lent(other);
            shared = true;
        }
    }
    return shared;
}

/* This send has begun. */
void scope_lend(struct op *op, const void *buf, count_t count, MPI_Datatype type) {
    struct lent lent = {.buf = buf, .count = count, .type = MPI_DATATYPE_NULL};
    if (is_shared(op) || PMPI_Type_dup(type, &lent.type) != MPI_SUCCESS)
        return;
    op->lent = hash_of(op->comm, &lent, &lent.hash) ? malloc(sizeof lent) : NULL;
    if (op->lent)
        *op->lent = lent;
    else
        PMPI_Type_free(&lent.type);
}

/* It is complete. */
void scope_give_back(struct op *op) {
    uint64_t hash;
    if (op->lent && hash_of(op->comm, op->lent, &hash) && hash != op->lent->hash)
        scope.changed++;
    scope_forget_lent(op);
}
