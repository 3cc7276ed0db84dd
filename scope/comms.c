/* Communicators: those there are, their making and their freeing. See scope.h. */
#define _GNU_SOURCE
#include "scope.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- those there are ---- */

struct comm *scope_comm(MPI_Comm handle) {
    if (handle == MPI_COMM_NULL)
        return NULL;
    if (scope.n_comms > 0 && scope.comms[0]->handle == handle)
        return scope.comms[0];
    for (int i = scope.n_comms - 1; i > 0; i--)
        if (scope.comms[i]->handle == handle)
            return scope.comms[i];
    return NULL;
}

int scope_peer(const struct comm *c, int rank) {
    if (rank == MPI_ANY_SOURCE)
        return ANY_PEER;
    if (rank < 0 || rank >= (c->remote ? c->remote : c->size))
        return NO_PEER;
    return c->world[rank + (c->remote ? c->size : 0)];
}

static void release(struct comm *c) {
    free(c->world);
    free(c->place);
    free(c);
}

/* Under the lock. */
static bool keep(struct comm *c) {
    struct comm **bigger =
        realloc(scope.comms, (size_t)(scope.n_comms + 1) * sizeof(struct comm *));
    if (!bigger)
        return false;
    scope.comms = bigger;
    scope.comms[scope.n_comms++] = c;
    scope.epoch++;
    return true;
}

/* World ranks of a group, for the caller to free. False: no memory, or one is of another world. */
bool scope_world_ranks(MPI_Group group, int **world, int *n) {
    MPI_Group all;
    PMPI_Group_size(group, n);
    *world = calloc((size_t)*n + 1, sizeof **world);
    int *local = calloc((size_t)*n + 1, sizeof *local);
    bool good = *world && local;
    for (int i = 0; i < *n && good; i++)
        local[i] = i;
    if (good) {
        PMPI_Comm_group(scope.private, &all);
        good = PMPI_Group_translate_ranks(group, *n, local, all, *world) == MPI_SUCCESS;
        PMPI_Group_free(&all);
    }
    for (int i = 0; i < *n && good; i++)
        good = (*world)[i] != MPI_UNDEFINED;
    free(local);
    if (!good) {
        free(*world);
        *world = NULL;
    }
    return good;
}

static _Thread_local bool for_shadow; /* this thread makes one */

/* The same ranks with the same topology; nothing of the program's travels with it, neither
 * attributes, whose callbacks it would see, nor its error handler. */
static int make_shadow(MPI_Comm handle, bool inter, int rank, MPI_Comm *shadow) {
    MPI_Comm plain;
    int kind = MPI_UNDEFINED;
    for_shadow = true;
    int err = inter ? PMPI_Comm_dup(handle, &plain) : PMPI_Comm_split(handle, 0, rank, &plain);
    for_shadow = false;
    if (err)
        return err;
    PMPI_Comm_set_errhandler(plain, MPI_ERRORS_RETURN);
    *shadow = plain;
    if (inter)
        return MPI_SUCCESS;
    PMPI_Topo_test(handle, &kind);
    if (kind == MPI_CART) {
        int n = 0;
        PMPI_Cartdim_get(handle, &n);
        int *dims = calloc(3 * (size_t)n + 1, sizeof *dims);
        if (!dims)
            return MPI_ERR_NO_MEM;
        PMPI_Cart_get(handle, n, dims, dims + n, dims + 2 * n);
        err = PMPI_Cart_create(plain, n, dims, dims + n, 0, shadow);
        free(dims);
    } else if (kind == MPI_GRAPH) {
        int nodes = 0, edges = 0;
        PMPI_Graphdims_get(handle, &nodes, &edges);
        int *index = calloc((size_t)nodes + (size_t)edges + 1, sizeof *index);
        if (!index)
            return MPI_ERR_NO_MEM;
        PMPI_Graph_get(handle, nodes, edges, index, index + nodes);
        err = PMPI_Graph_create(plain, nodes, index, index + nodes, 0, shadow);
        free(index);
    } else if (kind == MPI_DIST_GRAPH) {
        int in = 0, out = 0, weighted = 0;
        PMPI_Dist_graph_neighbors_count(handle, &in, &out, &weighted);
        int *from = calloc(2 * ((size_t)in + (size_t)out) + 1, sizeof *from);
        if (!from)
            return MPI_ERR_NO_MEM;
        int *to = from + 2 * in;
        PMPI_Dist_graph_neighbors(handle, in, from, from + in, out, to, to + out);
        err = PMPI_Dist_graph_create_adjacent(plain, in, from, from + in, out, to, to + out,
                                              MPI_INFO_NULL, 0, shadow);
        free(from);
    } else {
        return MPI_SUCCESS;
    }
    PMPI_Comm_free(&plain);
    if (!err)
        PMPI_Comm_set_errhandler(*shadow, MPI_ERRORS_RETURN);
    return err;
}

int scope_shadow(const struct comm *c, MPI_Comm *shadow) {
    return make_shadow(c->handle, c->remote > 0, c->rank, shadow);
}

static int new_number(void) { return 1 + scope.rank + scope.size * scope.made++; }

/* Its first rank gives the number: MPI_COMM_WORLD is 0, no two others are alike. */
static int agree_on_number(struct comm *c) {
    if (c->rank == 0)
        c->number = c->handle == MPI_COMM_WORLD ? 0 : new_number();
    if (!c->remote)
        return PMPI_Bcast(&c->number, 1, MPI_INT, 0, c->shadow);
    MPI_Comm merged; /* the two groups do not say the same: errata 7 */
    int err = PMPI_Intercomm_merge(c->shadow, c->world[0] > c->world[c->size], &merged);
    if (err)
        return err;
    if (c->rank != 0)
        c->number = 0;
    err = PMPI_Allreduce(MPI_IN_PLACE, &c->number, 1, MPI_INT, MPI_MAX, merged);
    PMPI_Comm_free(&merged);
    return err;
}

/* What can be said of a communicator without asking anyone; NULL: no memory, or it has ranks of
 * another world, which is said, and its calls are left alone. */
static struct comm *describe(MPI_Comm handle) {
    int inter = 0, n = 0, size = 0, *own = NULL, *others = NULL, remote = 0;
    MPI_Group group;
    struct comm *c = calloc(1, sizeof *c);
    PMPI_Comm_test_inter(handle, &inter);
    PMPI_Comm_group(handle, &group);
    bool good = scope_world_ranks(group, &own, &n);
    PMPI_Group_free(&group);
    PMPI_Comm_size(handle, &size);
    n = size < n ? size : n; /* a grid's group may be its parent's: errata 8 */
    if (inter) {
        PMPI_Comm_remote_group(handle, &group);
        good = scope_world_ranks(group, &others, &remote) && good;
        PMPI_Group_free(&group);
    }
    int *world = calloc((size_t)n + (size_t)remote + 1, sizeof *world);
    if (good && world && c) {
        memcpy(world, own, (size_t)n * sizeof *own);
        if (remote)
            memcpy(world + n, others, (size_t)remote * sizeof *others);
        *c = (struct comm){.handle = handle,
                           .world = world,
                           .size = n,
                           .remote = remote,
                           .hidden = MPI_KEYVAL_INVALID};
        PMPI_Comm_rank(handle, &c->rank);
    } else {
        free(world);
        free(c);
        c = NULL;
    }
    free(own);
    free(others);
    return c;
}

static int unknown(void) {
    scope_lock();
    scope_unjudged("a communicator with ranks of another MPI_COMM_WORLD");
    scope_unlock();
    return MPI_SUCCESS;
}

/* Collective over `handle`, which nobody uses yet. */
int scope_comm_add(MPI_Comm handle) {
    struct comm *c = describe(handle);
    if (!c)
        return unknown();
    int err = make_shadow(handle, c->remote > 0, c->rank, &c->shadow);
    if (!err)
        err = agree_on_number(c);
    if (!err) {
        scope_lock();
        err = keep(c) ? MPI_SUCCESS : MPI_ERR_NO_MEM;
        scope_unlock();
    }
    if (err)
        release(c);
    return err;
}

void scope_comm_remove(struct comm *comm) {
    for (int i = 0; i < scope.n_comms; i++) {
        if (scope.comms[i] == comm) {
            scope.comms[i] = scope.comms[--scope.n_comms];
            break;
        }
    }
    scope_ops_of_comm(comm);
    scope_forget_held(comm);
    release(comm);
}

/* Numbers of windows and files are given as those of communicators are. */
int scope_new_number(const struct comm *c, int *number) {
    *number = c->rank == 0 ? new_number() : 0;
    return PMPI_Bcast(number, 1, MPI_INT, 0, c->shadow);
}

int scope_hash(int a, int b) {
    const uint64_t key = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * 0x9E3779B97F4A7C15u;
    return -2 - (int)(key >> 34); /* 30 bits */
}

struct comm *scope_meeting(int number, const int *world, int n) {
    for (int i = 0; i < scope.n_comms; i++)
        if (scope.comms[i]->number == number)
            return scope.comms[i];
    struct comm *c = calloc(1, sizeof *c);
    int *copy = calloc((size_t)n + 1, sizeof *copy);
    if (c && copy) {
        memcpy(copy, world, (size_t)n * sizeof *copy);
        *c = (struct comm){.handle = MPI_COMM_NULL,
                           .shadow = MPI_COMM_NULL,
                           .number = number,
                           .size = n,
                           .world = copy,
                           .hidden = MPI_KEYVAL_INVALID};
        if (keep(c))
            return c;
    }
    scope.blind = true;
    free(copy);
    free(c);
    return NULL;
}

void scope_forget_comm(struct comm *c) {
    c->entered = c->hashed = c->places = 0;
    c->history = 0;
}

/* After a drain, and when the scope is switched on again: nothing has been entered. */
void scope_forget_comms(void) {
    for (int i = 0; i < scope.n_comms; i++)
        scope_forget_comm(scope.comms[i]);
    for (int i = scope.n_comms - 1; i >= 0; i--)
        if (scope.comms[i]->handle == MPI_COMM_NULL && scope.comms[i]->number > 0 &&
            !scope.comms[i]->lasting)
            scope_comm_remove(scope.comms[i]);
}

/* ---- making them ---- */

static int make_known(int err, MPI_Comm made) {
    if (err || made == MPI_COMM_NULL)
        return err;
    return scope_comm_add(made);
}

static void note_hidden(const struct call *call, struct comm *c) {
    if (call->name == CALL_Comm_dup && call->thread->attributed == c->handle)
        c->hidden = call->thread->keyval;
    call->thread->attributed = MPI_COMM_NULL;
}

void scope_unhide(void) {
    for (;;) {
        MPI_Comm comm = MPI_COMM_NULL;
        int keyval = MPI_KEYVAL_INVALID;
        scope_lock();
        for (int i = 0; i < scope.n_comms && comm == MPI_COMM_NULL; i++) {
            struct comm *c = scope.comms[i];
            if (c->hidden != MPI_KEYVAL_INVALID && c->handle != MPI_COMM_NULL) {
                comm = c->handle;
                keyval = c->hidden;
                c->hidden = MPI_KEYVAL_INVALID;
            }
        }
        scope.unhide = comm != MPI_COMM_NULL;
        scope_unlock();
        if (comm == MPI_COMM_NULL)
            return;
        PMPI_Comm_delete_attr(comm, keyval);
    }
}

#define CREATE(name, GIVEN, DETAIL, PARAMETERS, made, ...)                                       \
    int MPI_##name(STRIP PARAMETERS) {                                                           \
        OBSERVE_GIVEN(made && (GIVEN), name, comm, PMPI_##name(__VA_ARGS__))                     \
        scope_enter(c, CALL_##name, NO_ROOT)->detail = DETAIL;                                   \
        note_hidden(&call, c);                                                                   \
        int err = scope_gate(&call, c);                                                          \
        if (!err) {                                                                              \
            scope_step_out(&call);                                                               \
            err = scope_heard(PMPI_##name(__VA_ARGS__));                                         \
            err = make_known(err, err ? MPI_COMM_NULL : *made);                                  \
            scope_step_in(&call);                                                                \
        }                                                                                        \
        scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);                                        \
        return scope_end(&call, c, err);                                                         \
    }

/* Up to six dimensions, each with its length and whether it is periodic. */
static uint64_t grid(int ndims, const int dims[], const int periods[]) {
    uint64_t detail = (uint64_t)(ndims & 7);
    for (int i = 0; i < ndims && i < 6; i++)
        detail |= (uint64_t)((dims[i] & 511) | (periods[i] ? 512 : 0)) << (3 + 10 * i);
    return detail;
}

CREATE(Comm_dup, true, 0, (MPI_Comm comm, MPI_Comm *made), made, comm, made)
CREATE(Comm_dup_with_info, true, 0, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), made, comm, info,
       made)
CREATE(Comm_split, true, 0, (MPI_Comm comm, int color, int key, MPI_Comm *made), made, comm, color, key,
       made)
CREATE(Comm_split_type, true, 0, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), made,
       comm, type, key, info, made)
CREATE(Cart_create, HAS_MANY(ndims, dims) && HAS_MANY(ndims, periods), grid(ndims, dims, periods),
       (MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder,
        MPI_Comm *made),
       made, comm, ndims, dims, periods, reorder, made)
CREATE(Cart_sub, true, 0, (MPI_Comm comm, const int remain[], MPI_Comm *made), made, comm, remain, made)
CREATE(Graph_create, true, (uint64_t)nnodes,
       (MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder,
        MPI_Comm *made),
       made, comm, nnodes, index, edges, reorder, made)
CREATE(Dist_graph_create, true, 0,
       (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[],
        const int weights[], MPI_Info info, int reorder, MPI_Comm *made),
       made, comm, n, sources, degrees, destinations, weights, info, reorder, made)
CREATE(Dist_graph_create_adjacent, true, 0,
       (MPI_Comm comm, int indegree, const int sources[], const int sourceweights[],
        int outdegree, const int destinations[], const int destweights[], MPI_Info info,
        int reorder, MPI_Comm *made),
       made, comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info,
       reorder, made)
CREATE(Intercomm_merge, true, 0, (MPI_Comm comm, int high, MPI_Comm *made), made, comm, high, made)

/* A shadow that is made as a duplicate would take the program's attributes with it: their copy
 * callbacks are the scope's, which ask the program's own for its own communicators only. One that the
 * program frees stays as long as an attribute does: the library would know no more of it, and the
 * scope has to delete the attribute of a communicator that it keeps (see retire). */
struct keyval {
    MPI_Comm_copy_attr_function *copy;
    MPI_Comm_delete_attr_function *delete;
    void *state;
    struct keyval *next;
    atomic_int id, holders;
    atomic_bool freed;
};

static _Atomic(struct keyval *) keyvals; /* all that there ever were */

static void let_go_of(struct keyval *k) {
    int id = k->id;
    if (atomic_load(&k->freed) && atomic_load(&k->holders) == 0 && id != MPI_KEYVAL_INVALID &&
        atomic_compare_exchange_strong(&k->id, &id, MPI_KEYVAL_INVALID))
        PMPI_Comm_free_keyval(&id);
}

static int copy_attribute(MPI_Comm comm, int keyval, void *of, void *in, void *out, int *flag) {
    struct keyval *k = of;
    *flag = 0;
    if (for_shadow || k->copy == MPI_COMM_NULL_COPY_FN)
        return MPI_SUCCESS;
    const int err = k->copy(comm, keyval, k->state, in, out, flag);
    if (!err && *flag)
        atomic_fetch_add(&k->holders, 1);
    return err;
}

static int delete_attribute(MPI_Comm comm, int keyval, void *value, void *of) {
    struct keyval *k = of;
    const int err = k->delete == MPI_COMM_NULL_DELETE_FN
                        ? MPI_SUCCESS
                        : k->delete(comm, keyval, value, k->state);
    if (!err)
        atomic_fetch_sub(&k->holders, 1);
    return err;
}

int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy, MPI_Comm_delete_attr_function *delete,
                           int *keyval, void *state) {
    struct keyval *k = calloc(1, sizeof *k);
    if (!k)
        return PMPI_Comm_create_keyval(copy, delete, keyval, state);
    *k = (struct keyval){.copy = copy, .delete = delete, .state = state};
    const int err = PMPI_Comm_create_keyval(copy_attribute, delete_attribute, keyval, k);
    atomic_store(&k->id, err ? MPI_KEYVAL_INVALID : *keyval);
    k->next = atomic_load(&keyvals);
    while (!atomic_compare_exchange_weak(&keyvals, &k->next, k))
        ; /* k->next is the newest by now */
    return err;
}

static struct keyval *keyval_of(int id) {
    struct keyval *k = id == MPI_KEYVAL_INVALID ? NULL : atomic_load(&keyvals);
    while (k && k->id != id)
        k = k->next;
    return k;
}

int MPI_Comm_free_keyval(int *keyval) {
    struct keyval *k = keyval ? keyval_of(*keyval) : NULL;
    if (!k || atomic_load(&k->freed)) /* the library says what is wrong */
        return PMPI_Comm_free_keyval(k ? &(int){MPI_KEYVAL_INVALID} : keyval);
    atomic_store(&k->freed, true);
    *keyval = MPI_KEYVAL_INVALID;
    let_go_of(k);
    return MPI_SUCCESS;
}

int MPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value) {
    struct keyval *k = keyval_of(keyval);
    scope_attributed(comm, keyval);
    const int err = PMPI_Comm_set_attr(comm, keyval, value); /* deletes what was there */
    if (!err && k)
        atomic_fetch_add(&k->holders, 1);
    return err;
}

/* The names that MPI-1 had for these. */
int MPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *delete, int *keyval,
                      void *state) {
    return MPI_Comm_create_keyval(copy, delete, keyval, state);
}

int MPI_Keyval_free(int *keyval) { return MPI_Comm_free_keyval(keyval); }

int MPI_Attr_put(MPI_Comm comm, int keyval, void *value) {
    return MPI_Comm_set_attr(comm, keyval, value);
}

MPI_Errhandler scope_mute(MPI_Comm comm) {
    MPI_Errhandler before;
    PMPI_Comm_get_errhandler(comm, &before);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    return before;
}

void scope_unmute(MPI_Comm comm, MPI_Errhandler before) {
    PMPI_Comm_set_errhandler(comm, before);
    PMPI_Errhandler_free(&before);
}

/* As freeing it would. */
static int delete_attributes(MPI_Comm comm) {
    int err = MPI_SUCCESS;
    const MPI_Errhandler before = scope_mute(comm);
    for (struct keyval *k = atomic_load(&keyvals); k && !err; k = k->next) {
        void *value;
        int found = 0;
        if (k->id != MPI_KEYVAL_INVALID && k->holders > 0 &&
            PMPI_Comm_get_attr(comm, k->id, &value, &found) == MPI_SUCCESS && found)
            err = PMPI_Comm_delete_attr(comm, k->id);
        let_go_of(k);
    }
    scope_unmute(comm, before);
    return err;
}

/* A nonblocking duplicate. The library's own, once begun, cannot be left: so the ranks meet first,
 * on the shadow, and agree on its number there. Who then finds that all have come makes it, and its
 * shadow after it; both on the program's communicator, where all ranks make those of one after the
 * other. It is known when its request is complete. */
struct idup {
    enum { MEETING, MAKING, SHADOWING, MADE, GIVEN_UP } stage;
    MPI_Comm *made, shadow;
    MPI_Info info;
    uint64_t sum[3]; /* of what the ranks bring to the meeting */
};
enum { NUMBER, CAME, STOOD_IN };

/* Each rank brings one of its own, and another to each meeting: where unlike collectives meet, old
 * memory may be taken for what has come. */
static uint64_t sign_of(int rank, int index) {
    const uint64_t meeting = ((uint64_t)scope.generation << 32) + (uint32_t)index;
    const uint64_t key = (meeting ^ (uint64_t)rank << 48) * 0x9E3779B97F4A7C15u;
    return (key ^ key >> 29) * 0xBF58476D1CE4E5B9u;
}

static int meet(uint64_t sum[3], const struct comm *c, MPI_Request *request) {
    return PMPI_Iallreduce(MPI_IN_PLACE, sum, 3, MPI_UINT64_T, MPI_SUM, c->shadow, request);
}

static int begin_idup(MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *request) {
#if HAS_MPI_4
    if (info != MPI_INFO_NULL)
        return PMPI_Comm_idup_with_info(comm, info, made, request);
#endif
    (void)info;
    return PMPI_Comm_idup(comm, made, request);
}

static void know_idup(const struct idup *d) {
    struct comm *c = describe(*d->made);
    PMPI_Comm_set_errhandler(d->shadow, MPI_ERRORS_RETURN);
    if (c && (c->shadow = d->shadow, c->number = (int)d->sum[NUMBER], keep(c)))
        return;
    scope.blind = true;
    free(c);
}

/* Is one under way on c that began before `than`? NULL: any at all. */
static bool makes_before(const struct comm *c, const struct op *than) {
    for (const struct op *op = scope_first(); op; op = scope_next(op))
        if (op->makes && op->comm == c && op->active && !op->peeked && !op->dead &&
            (!than || op->index < than->index))
            return true;
    return false;
}

/* Goes on with it as far as that is possible now. */
int scope_peek_idup(struct op *op, int *done) {
    struct idup *d = op->given;
    for (;;) {
        int err = PMPI_Test(&op->part[0], done, MPI_STATUS_IGNORE);
        if (err || !*done)
            return err;
        uint64_t signs = d->sum[CAME] + d->sum[STOOD_IN];
        for (int r = 0; r < op->comm->size; r++)
            signs -= sign_of(r, op->index);
        const bool all = signs == 0;
        if (d->stage == MEETING && all && d->sum[STOOD_IN] > 0)
            d->stage = GIVEN_UP;
        switch (d->stage) {
        case MEETING:
            *done = 0;
            if (!all || makes_before(op->comm, op))
                return MPI_SUCCESS;
            err = begin_idup(op->comm->handle, d->info, d->made, &op->part[0]);
            break;
        case MAKING:
            for_shadow = true;
            err = begin_idup(op->comm->handle, MPI_INFO_NULL, &d->shadow, &op->part[0]);
            for_shadow = false;
            break;
        case SHADOWING:
            know_idup(d);
            break;
        case MADE:
        case GIVEN_UP:
            if (d->info != MPI_INFO_NULL)
                PMPI_Info_free(&d->info);
            scope.making--;
            return MPI_SUCCESS;
        }
        if (err)
            return err;
        d->stage++;
    }
}

void scope_advance_idups(void) {
    int done;
    MPI_Status status;
    for (struct op *op = scope_first(); op && scope.making > 0; op = scope_next(op))
        if (op->makes && op->active && !op->peeked && !op->dead)
            scope_peek(op, &done, &status);
}

/* All ranks have begun those that this one has: so they end. */
void scope_finish_idups(const struct comm *c) {
    while (scope.making > 0 && makes_before(c, NULL)) {
        scope_advance_idups();
        scope_unlock();
        scope_nap(0.0001);
        scope_lock();
    }
}

static int serve_idup(struct call *call, struct comm *c, MPI_Info info, MPI_Comm *made,
                      MPI_Request *request) {
    struct idup *d = malloc(sizeof *d);
    int err = d ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    if (!err) {
        *d = (struct idup){.stage = MEETING, .made = made, .info = MPI_INFO_NULL};
        if (info != MPI_INFO_NULL)
            err = PMPI_Info_dup(info, &d->info);
        d->sum[NUMBER] = c->rank == 0 ? (uint64_t)new_number() : 0;
    }
    if (!err)
        err = scope_generalized(request);
    struct op *op = err ? NULL : scope_op_add(COLLECTIVE, *request, c, ANY_PEER, 0, 0);
    if (!op) {
        free(d);
        return scope_end(call, c, err ? err : MPI_ERR_NO_MEM);
    }
    scope_enter(c, call->name, NO_ROOT)->kind = 1;
    op->index = c->entered;
    d->sum[CAME] = sign_of(c->rank, op->index);
    op->generalized = op->makes = true;
    op->given = d;
    scope.making++;
    err = meet(d->sum, c, &op->part[0]);
    op->dead = err != MPI_SUCCESS;
    scope_event(call, c, ANY_PEER, ANY_LABEL, 0, op->serial);
    return scope_end(call, c, err);
}

/* For a rank that has not begun it: the others learn that nobody makes it. */
int scope_join_idup(struct comm *c, int index, MPI_Request *request, void **scrap) {
    uint64_t *sum = calloc(3, sizeof *sum);
    if (!sum)
        return MPI_ERR_NO_MEM;
    sum[STOOD_IN] = sign_of(c->rank, index);
    *scrap = sum;
    return meet(sum, c, request);
}

int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *made, MPI_Request *request) {
    OBSERVE_GIVEN(made && request, Comm_idup, comm, PMPI_Comm_idup(comm, made, request))
    if (c->remote) { /* its number would have to cross to the other group */
        scope_unjudged("MPI_Comm_idup of an intercommunicator");
        return scope_end(&call, c, PMPI_Comm_idup(comm, made, request));
    }
    return serve_idup(&call, c, MPI_INFO_NULL, made, request);
}

#if HAS_MPI_4
int MPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *request) {
    OBSERVE_GIVEN(made && request, Comm_idup_with_info, comm,
                  PMPI_Comm_idup_with_info(comm, info, made, request))
    if (c->remote) {
        scope_unjudged("MPI_Comm_idup_with_info of an intercommunicator");
        return scope_end(&call, c, PMPI_Comm_idup_with_info(comm, info, made, request));
    }
    return serve_idup(&call, c, info, made, request);
}
#endif

/* The ranks of a group meet, and nobody else: NULL, or where. */
static struct comm *group_meeting(MPI_Group group, int number) {
    int n = 0, *world = NULL;
    struct comm *place = NULL;
    if (scope_world_ranks(group, &world, &n)) {
        for (int i = 0; i < n; i++)
            number = scope_hash(number, world[i]);
        place = scope_meeting(number, world, n);
    }
    free(world);
    return place;
}

/* A group that is not the communicator's the library refuses, on whoever gives it. */
static bool fits(MPI_Group group, const struct comm *c) {
    int n = 0, *world = NULL;
    bool all = group != MPI_GROUP_NULL && scope_world_ranks(group, &world, &n);
    for (int i = 0; i < n && all; i++) {
        bool found = false;
        for (int m = 0; m < c->size && !found; m++)
            found = c->world[m] == world[i];
        all = found;
    }
    free(world);
    return all;
}

/* Those of a group have to mean the same group: they meet by themselves before all do. */
int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *made) {
    OBSERVE_GIVEN(made && fits(group, c), Comm_create, comm, PMPI_Comm_create(comm, group, made))
    int rank = MPI_UNDEFINED, err = MPI_SUCCESS;
    PMPI_Group_rank(group, &rank);
    struct comm *place = rank == MPI_UNDEFINED || c->remote
                             ? NULL
                             : group_meeting(group, scope_hash(c->number, -1));
    scope_enter(c, CALL_Comm_create, NO_ROOT);
    if (place) {
        scope_enter(place, CALL_Comm_create, NO_ROOT);
        err = scope_gate(&call, place);
    }
    if (!err)
        err = scope_gate(&call, c);
    if (!err) {
        scope_step_out(&call);
        err = scope_heard(PMPI_Comm_create(comm, group, made));
        err = make_known(err, err ? MPI_COMM_NULL : *made);
        scope_step_in(&call);
    }
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* Collective over the group alone: the others are not there to meet. */
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made) {
    OBSERVE_GIVEN(made && fits(group, c), Comm_create_group, comm,
                  PMPI_Comm_create_group(comm, group, tag, made))
    struct comm *place = group_meeting(group, scope_hash(c->number, tag));
    int err = MPI_SUCCESS;
    if (place) {
        scope_enter(place, CALL_Comm_create_group, NO_ROOT);
        err = scope_gate(&call, place);
    }
    if (!err) {
        scope_step_out(&call);
        err = scope_heard(PMPI_Comm_create_group(comm, group, tag, made));
        err = make_known(err, err ? MPI_COMM_NULL : *made);
        scope_step_in(&call);
    }
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

#if HAS_MPI_4
int MPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info,
                               MPI_Errhandler handler, MPI_Comm *made) {
    OBSERVE_GIVEN(tag && made, Comm_create_from_group, MPI_COMM_WORLD,
                  PMPI_Comm_create_from_group(group, tag, info, handler, made))
    int number = 1;
    for (const char *letter = tag; *letter; letter++)
        number = scope_hash(number, *letter);
    struct comm *place = group_meeting(group, number);
    int err = MPI_SUCCESS;
    if (place) {
        scope_enter(place, CALL_Comm_create_from_group, NO_ROOT);
        err = scope_gate(&call, place);
    }
    if (!err) {
        /* with the lock: errata 27 */
        err = scope_heard(PMPI_Comm_create_from_group(group, tag, info, handler, made));
        scope_step_out(&call);
        err = make_known(err, err ? MPI_COMM_NULL : *made);
        scope_step_in(&call);
    }
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}
#endif

/* Two groups meet: each by itself, then their leaders, then each by itself again. */
int MPI_Intercomm_create(MPI_Comm comm, int leader, MPI_Comm peers, int remote, int tag,
                         MPI_Comm *made) {
    OBSERVE_GIVEN(made, Intercomm_create, comm,
                  PMPI_Intercomm_create(comm, leader, peers, remote, tag, made))
    scope_enter(c, CALL_Intercomm_create, NO_ROOT);
    int err = scope_gate(&call, c);
    if (!err && c->rank == leader) {
        const struct comm *among = scope_comm(peers);
        const int other = among ? scope_peer(among, remote) : NO_PEER;
        if (other >= 0) {
            const int pair[2] = {scope.rank < other ? scope.rank : other,
                                 scope.rank < other ? other : scope.rank};
            struct comm *place =
                scope_meeting(scope_hash(scope_hash(among->number, tag),
                                         scope_hash(pair[0], pair[1])), pair, 2);
            if (place) {
                scope_enter(place, CALL_Intercomm_create, NO_ROOT);
                err = scope_gate(&call, place);
            }
        }
    }
    if (!err) {
        scope_enter(c, CALL_Intercomm_create, NO_ROOT);
        err = scope_gate(&call, c);
    }
    if (!err) {
        scope_step_out(&call);
        err = scope_heard(PMPI_Intercomm_create(comm, leader, peers, remote, tag, made));
        err = make_known(err, err ? MPI_COMM_NULL : *made);
        scope_step_in(&call);
    }
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* ---- freeing them ---- */

/* Others may yet be in a call on a communicator that this rank frees, and what they have sent there
 * would meet the next one that gets its place (errata 34). So it is gone for the program, with its
 * attributes, and stays for the library until LINGERING more have gone and nothing is open on it;
 * for good, when a break finds others stuck there. */
enum { LINGERING = 16 };

static bool has_open(const struct comm *c) {
    for (const struct op *op = scope_first(); op; op = scope_next(op))
        if ((op->comm == c || op->under == c) && (op->persistent || (op->active && !op->counted)))
            return true;
    return false;
}

/* The one that has gone first, of those that may go, if there are too many; else NULL. */
static struct comm *next_to_go(void) {
    struct comm *first = NULL;
    int n = 0;
    for (int i = 0; i < scope.n_comms; i++) {
        struct comm *c = scope.comms[i];
        if (!c->gone || c->spent || c->handle == MPI_COMM_NULL)
            continue;
        n++;
        if ((!first || c->gone < first->gone) && !has_open(c))
            first = c;
    }
    return n > LINGERING ? first : NULL;
}

/* Lets go of the lock meanwhile. What was entered on it stays until it has been compared. */
static int free_both(struct comm *c, MPI_Comm *handle, int (*freeing)(MPI_Comm *)) {
    MPI_Comm shadow = c->shadow;
    c->handle = c->shadow = MPI_COMM_NULL;
    c->gone = c->gone ? c->gone : ++scope.gone;
    scope_forget_held(c);
    scope_ops_of_comm(c);
    if (c->places == 0)
        scope_comm_remove(c);
    scope_unlock();
    PMPI_Comm_free(&shadow);
    const int err = freeing(handle);
    scope_lock();
    return err;
}

/* The library may call back here: attributes hold communicators. */
static int retire(struct comm *c, MPI_Comm *comm) {
    scope_unlock();
    const int err = delete_attributes(*comm);
    scope_lock();
    if (err)
        return err;
    c->gone = ++scope.gone;
    c->hidden = MPI_KEYVAL_INVALID;
    *comm = MPI_COMM_NULL;
    struct comm *old = next_to_go();
    MPI_Comm handle = old ? old->handle : MPI_COMM_NULL;
    return old ? free_both(old, &handle, PMPI_Comm_free) : MPI_SUCCESS;
}

/* In MPI_Finalize, on all ranks. */
void scope_finish_comms(void) {
    while (scope.n_comms > 0) {
        struct comm *c = scope.comms[0];
        if (c->shadow != MPI_COMM_NULL && !c->spent)
            PMPI_Comm_free(&c->shadow);
        if (c->gone && c->handle != MPI_COMM_NULL && !c->spent)
            PMPI_Comm_free(&c->handle);
        scope_comm_remove(c);
    }
}

/* While the scope steps aside, or in another call's course: it is to be forgotten as well. */
static int free_unseen(MPI_Comm *comm, int (*freeing)(MPI_Comm *)) {
    scope_lock();
    struct comm *c = comm ? scope_comm(*comm) : NULL;
    const bool known = c && c != WORLD && *comm != MPI_COMM_SELF;
    int err = MPI_SUCCESS;
    if (known && c->gone) /* by a copy of its handle */
        err = MPI_ERR_COMM;
    else if (known && freeing == PMPI_Comm_free && atomic_load(&scope.on))
        err = retire(c, comm);
    else if (known)
        err = free_both(c, comm, freeing);
    scope_unlock();
    return known ? err : freeing(comm);
}

/* Duplicates of it that are being made need it yet. */
static int await_idups(struct call *call, const struct comm *c) {
    const struct record need = {
        .kind = COLLECTIVE, .comm = c->number, .peer = ANY_PEER, .index = c->entered};
    int err = MPI_SUCCESS;
    call->probe = &need;
    call->n_probes = 1;
    while (!err && scope.making > 0 && makes_before(c, NULL))
        err = scope_pause(call);
    call->n_probes = 0;
    return err;
}

/* Freeing waits for nobody else. */
int MPI_Comm_free(MPI_Comm *comm) {
    OBSERVE(Comm_free, comm ? *comm : MPI_COMM_WORLD, free_unseen(comm, PMPI_Comm_free))
    if (!comm || c->handle == MPI_COMM_WORLD || c->handle == MPI_COMM_SELF) /* the library says why not */
        return scope_end(&call, c, PMPI_Comm_free(comm));
    const int err = await_idups(&call, c);
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    if (err)
        return scope_end(&call, c, err);
    return scope_end(&call, WORLD, retire(c, comm));
}

static bool is_under_way(struct op *op) {
    int done = 0;
    MPI_Status status;
    return op && op->active && !op->dead && scope_look(op, &done, &status) == MPI_SUCCESS && !done;
}

/* MPI_Comm_disconnect ends when all communication has (MPI 5.0, 11.10.4): it is waited for where
 * that can be left, and MPICH waits for more: errata 11. */
static int until_complete(struct call *call, const struct comm *c) {
    MPI_Request *open = calloc((size_t)scope.n_ops + 1, sizeof *open);
    int n = 0, err = open ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    for (const struct op *op = scope_first(); open && op; op = scope_next(op))
        if (op->comm == c && op->active && !op->dead)
            open[n++] = op->request;
    call->mode = ALL;
    call->requests = open;
    call->n_requests = n;
    while (!err && n > 0) {
        if (is_under_way(scope_op_find(open[n - 1])))
            err = scope_pause(call);
        else
            call->n_requests = --n;
    }
    call->requests = NULL;
    call->n_requests = 0;
    free(open);
    return err;
}

int MPI_Comm_disconnect(MPI_Comm *comm) {
    OBSERVE(Comm_disconnect, comm ? *comm : MPI_COMM_WORLD, free_unseen(comm, PMPI_Comm_disconnect))
    if (!comm || c->handle == MPI_COMM_WORLD || c->handle == MPI_COMM_SELF)
        return scope_end(&call, c, PMPI_Comm_disconnect(comm));
    int err = until_complete(&call, c);
    if (!err) {
        scope_enter(c, CALL_Comm_disconnect, NO_ROOT);
        err = scope_gate(&call, c);
    }
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    if (err)
        return scope_end(&call, c, err);
    return scope_end(&call, WORLD, retire(c, comm));
}

/* Who is still in its last gate would take the others for those who have not come. */
static bool awaited(const struct report *reports, const struct comm *c) {
    for (int m = 0; m < c->size + c->remote; m++) {
        const struct report *report = &reports[c->world[m]];
        for (int i = 0; i < report->rows; i++) {
            const struct record *need = &report->row[i];
            if (need->row == NEEDS && need->kind == COLLECTIVE && need->comm == c->number)
                return true;
        }
    }
    return false;
}

/* After a round: what all ranks have entered alike need not be compared again. */
void scope_compared(const struct report *reports) {
    for (int i = scope.n_comms - 1; i >= 0; i--) {
        struct comm *c = scope.comms[i];
        int least = c->entered;
        bool gone = false;
        for (int m = 0; m < c->size + c->remote; m++) {
            const struct record *r = scope_entered(&reports[c->world[m]], c->number);
            gone = gone || !r;
            least = r && r->index < least ? r->index : least;
        }
        int alike = 0;
        while (!gone && alike < c->places && c->place[alike].index <= least)
            alike++;
        if (alike > 0 && alike == c->places)
            scope_hash_last(c);
        c->places -= alike;
        memmove(c->place, c->place + alike, (size_t)c->places * sizeof *c->place);
        if (c->handle == MPI_COMM_NULL && (c->number > 0 || c->freed) && !c->lasting &&
            (gone || c->places == 0) && !awaited(reports, c))
            scope_comm_remove(c); /* it was kept for this alone */
    }
}

/* ---- begin and end ---- */

/* The scope's own thread talks to the other ranks while the program's computes: so the library is
 * asked for more than the program asked for, and the program hears of what it would have got. */
static const char *const levels[] = {[MPI_THREAD_SINGLE] = "MPI_THREAD_SINGLE",
                                     [MPI_THREAD_FUNNELED] = "MPI_THREAD_FUNNELED",
                                     [MPI_THREAD_SERIALIZED] = "MPI_THREAD_SERIALIZED",
                                     [MPI_THREAD_MULTIPLE] = "MPI_THREAD_MULTIPLE"};
enum { UNTOLD = -1 };
static int level = UNTOLD; /* the program's; UNTOLD: the library's own is the program's */

/* Open MPI's variable stands above what a program asks for, MPICH's is for MPI_Init alone. */
static int wished(int required, bool plain) {
#ifdef OPEN_MPI
    const char *given = getenv("OMPI_MPI_THREAD_LEVEL");
    (void)plain;
    unsetenv("OMPI_MPI_THREAD_LEVEL");
#else
    const char *given = plain ? getenv("MPIR_CVAR_DEFAULT_THREAD_LEVEL") : NULL;
#endif
    for (int i = 0; given && i <= MPI_THREAD_MULTIPLE; i++)
        if (strcasecmp(given, levels[i]) == 0 || (*given == '0' + i && !given[1]))
            return i;
    return required;
}

static int begin(int *argc, char ***argv, int required, int *provided) {
    const bool known = required >= MPI_THREAD_SINGLE && required <= MPI_THREAD_MULTIPLE;
    scope_outside_before();
    int got = required;
    const int err = PMPI_Init_thread(argc, argv, known ? MPI_THREAD_MULTIPLE : required, &got);
    if (err)
        return err;
    level = known && required < got ? required : UNTOLD;
    *provided = level == UNTOLD ? got : level;
    if (got == MPI_THREAD_MULTIPLE) {
        scope_learn_python();
        scope_start();
    }
#ifdef OPEN_MPI
    if (level != UNTOLD)
        PMPI_Info_set(MPI_INFO_ENV, "thread_level", levels[level]);
#endif
    scope_outside_begin(*provided);
    return MPI_SUCCESS;
}

/* Of a second time the library says in which of the two calls it was. */
static bool has_begun(void) {
    int begun = 0;
    PMPI_Initialized(&begun);
    return begun;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    if (!provided || has_begun()) /* the library says what is wrong */
        return PMPI_Init_thread(argc, argv, required, provided);
    return begin(argc, argv, wished(required, false), provided);
}

int MPI_Init(int *argc, char ***argv) {
    int provided;
    if (has_begun())
        return PMPI_Init(argc, argv);
    return begin(argc, argv, wished(MPI_THREAD_SINGLE, true), &provided);
}

int MPI_Query_thread(int *provided) {
    const int err = PMPI_Query_thread(provided);
    if (!err && provided && level != UNTOLD)
        *provided = level;
    return err;
}

#if HAS_MPI_4 && defined MPICH_VERSION
/* MPICH tells the process's level here; Open MPI the session's own. */
int MPI_Session_get_info(MPI_Session session, MPI_Info *info) {
    const int err = PMPI_Session_get_info(session, info);
    if (!err && level != UNTOLD)
        PMPI_Info_set(*info, "thread_level", levels[level]);
    return err;
}
#endif

/* Waits, without a message of its own, until the last round has found all ranks here. Nobody is
 * broken out of it: who was broken out of another call comes here yet. */
int MPI_Finalize(void) {
    struct call call;
    struct comm *c = NULL;
    scope_outside_end();
    if (scope_begin(&call, CALL_Finalize, MPI_COMM_WORLD, &c) == GO) {
        struct record need = {.kind = COLLECTIVE, .comm = c->number, .peer = ANY_PEER};
        call.probe = &need;
        call.n_probes = 1;
        scope.ending = true;
        while (!scope.over) {
            scope_enter(c, CALL_Finalize, NO_ROOT);
            need.index = c->entered;
            call.generation = scope.generation;
            do {
                int found;
                PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, c->shadow, &found, MPI_STATUS_IGNORE);
            } while (!scope.over && scope_pause(&call) == MPI_SUCCESS);
        }
        scope_end(&call, c, MPI_SUCCESS);
    }
    scope_finish();
    const int err = PMPI_Finalize();
    scope_outside_ended();
    return err;
}
