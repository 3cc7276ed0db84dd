/* Collectives and communicators. See scope.h.
 *
 * A blocking collective is served as its nonblocking form on the communicator's shadow. Where
 * there is no such form (making and freeing communicators), and for all of them while the scope
 * insists, the ranks first meet in a barrier on the shadow, which can be left. */
#include "scope.h"

#include <stdio.h>
#include <string.h>

enum { NO_ROOT = -1 };

/* This rank enters the next collective of the communicator. */
static void enter(struct comm *c, int name, int root) {
    c->entered++;
    memcpy(c->before, c->last, sizeof c->before);
    if (root == NO_ROOT)
        snprintf(c->last, sizeof c->last, "%s", scope_names[name]);
    else
        snprintf(c->last, sizeof c->last, "%s %d", scope_names[name], root);
}

/* The library refused it, so that it has not entered after all. */
static int refused(struct comm *c, int err) {
    if (err) {
        c->entered--;
        memcpy(c->last, c->before, sizeof c->last);
    }
    return err;
}

static int wait_collective(struct call *call, struct comm *c, MPI_Request *request) {
    MPI_Status status;
    scope_op_add(COLLECTIVE, *request, c, ANY_PEER, 0, 0);
    return scope_wait(call, request, &status);
}

static int meet(struct call *call, struct comm *c) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int err = PMPI_Ibarrier(c->shadow, &request);
    return err ? err : wait_collective(call, c, &request);
}

/* Once all have met some may be on their way already: then nobody leaves. */
static int meet_to_stay(struct call *call, struct comm *c) {
    const int err = meet(call, c);
    if (err != scope.code || !call->complete)
        return err;
    call->left = false;
    return MPI_SUCCESS;
}

/* Making a communicator waits for the other ranks inside the library, so without the lock: the
 * scope's thread goes on talking to the others. */
static void step_out(void) {
    scope.waiting = NULL;
    scope.away = true;
    scope_unlock();
}

static void step_in(void) {
    scope_lock();
    scope.away = false;
}

static int enter_blocking(struct call *call, struct comm *c, int name, int root) {
    enter(c, name, root);
    return atomic_load(&scope.insist) ? meet(call, c) : MPI_SUCCESS;
}

static int end_blocking(struct call *call, struct comm *c, int err, MPI_Request *request,
                        int root, long long bytes) {
    if (!err)
        err = wait_collective(call, c, request);
    scope_event(call, c, root == NO_ROOT ? ANY_PEER : c->world[root], ANY_LABEL, bytes, 0);
    return scope_end(call, c, err);
}

static int end_nonblocking(struct call *call, struct comm *c, int err, MPI_Request request,
                           int root, long long bytes) {
    const struct op *op = err ? NULL : scope_op_add(COLLECTIVE, request, c, ANY_PEER, 0, bytes);
    scope_event(call, c, root == NO_ROOT ? ANY_PEER : c->world[root], ANY_LABEL, bytes,
                op ? op->serial : 0);
    return scope_end(call, c, err);
}

/* A collective of another thread meets those of the other ranks, where they are served: it goes
 * the same way, only that it cannot be left. */
static bool elsewhere(const struct comm *c) {
    return c && atomic_load(&scope.on) && !pthread_equal(pthread_self(), scope.program);
}

static MPI_Comm way(const struct comm *c, MPI_Comm comm) { return elsewhere(c) ? c->shadow : comm; }

static int plain_wait(int err, MPI_Request *request) {
    return err ? err : PMPI_Wait(request, MPI_STATUS_IGNORE);
}

static int size_of(MPI_Datatype type) {
    int size = 0;
    if (type != MPI_DATATYPE_NULL)
        PMPI_Type_size(type, &size);
    return size;
}

/* Where MPI_IN_PLACE stands, count and type mean nothing. */
static long long bytes_in(const void *buf, long long count, MPI_Datatype type) {
    return buf == MPI_IN_PLACE ? 0 : count * size_of(type);
}

static bool valid_root(const struct comm *c, int root) { return root >= 0 && root < c->size; }

/* Each collective by its parameters but the communicator, its arguments, its root, and the bytes
 * this rank hands in (0 where every peer has a count of its own). C: count type, D: displacements. */
#define COLLECTIVES(X, S, C, D)                                                                  \
    X(S, Bcast, Ibcast, root, (long long)count *size_of(type),                                   \
      (void *buf, C count, MPI_Datatype type, int root), buf, count, type, root)                 \
    X(S, Reduce, Ireduce, root, (long long)count *size_of(type),                                 \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op, int root),     \
      sendbuf, recvbuf, count, type, op, root)                                                   \
    X(S, Allreduce, Iallreduce, NO_ROOT, (long long)count *size_of(type),                        \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op), sendbuf,      \
      recvbuf, count, type, op)                                                                  \
    X(S, Scan, Iscan, NO_ROOT, (long long)count *size_of(type),                                  \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op), sendbuf,      \
      recvbuf, count, type, op)                                                                  \
    X(S, Exscan, Iexscan, NO_ROOT, (long long)count *size_of(type),                              \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op), sendbuf,      \
      recvbuf, count, type, op)                                                                  \
    X(S, Reduce_scatter, Ireduce_scatter, NO_ROOT, 0,                                            \
      (const void *sendbuf, void *recvbuf, const C counts[], MPI_Datatype type, MPI_Op op),      \
      sendbuf, recvbuf, counts, type, op)                                                        \
    X(S, Reduce_scatter_block, Ireduce_scatter_block, NO_ROOT, (long long)count *size_of(type),  \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op), sendbuf,      \
      recvbuf, count, type, op)                                                                  \
    X(S, Gather, Igather, root, bytes_in(sendbuf, sendcount, sendtype),                           \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C recvcount,      \
       MPI_Datatype recvtype, int root),                                                         \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root)                          \
    X(S, Gatherv, Igatherv, root, bytes_in(sendbuf, sendcount, sendtype),                         \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf,                   \
       const C recvcounts[], const D displs[], MPI_Datatype recvtype, int root),                 \
      sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root)                 \
    X(S, Scatter, Iscatter, root, bytes_in(recvbuf, recvcount, recvtype),                        \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C recvcount,      \
       MPI_Datatype recvtype, int root),                                                         \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root)                          \
    X(S, Scatterv, Iscatterv, root, 0,                                                           \
      (const void *sendbuf, const C sendcounts[], const D displs[], MPI_Datatype sendtype,       \
       void *recvbuf, C recvcount, MPI_Datatype recvtype, int root),                             \
      sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root)                 \
    PAIRS(X, S, C, Allgather, Iallgather)                                                        \
    PAIRS(X, S, C, Alltoall, Ialltoall)                                                          \
    PAIRS(X, S, C, Neighbor_allgather, Ineighbor_allgather)                                      \
    PAIRS(X, S, C, Neighbor_alltoall, Ineighbor_alltoall)                                        \
    GATHERS_V(X, S, C, D, Allgatherv, Iallgatherv)                                               \
    GATHERS_V(X, S, C, D, Neighbor_allgatherv, Ineighbor_allgatherv)                             \
    ALLTOALLS_V(X, S, C, D, Alltoallv, Ialltoallv)                                               \
    ALLTOALLS_V(X, S, C, D, Neighbor_alltoallv, Ineighbor_alltoallv)                             \
    ALLTOALLS_W(X, S, C, D, Alltoallw, Ialltoallw)                                               \
    ALLTOALLS_W(X, S, C, MPI_Aint, Neighbor_alltoallw, Ineighbor_alltoallw)

#define PAIRS(X, S, C, name, iname)                                                              \
    X(S, name, iname, NO_ROOT, bytes_in(sendbuf, sendcount, sendtype),                            \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C recvcount,      \
       MPI_Datatype recvtype),                                                                   \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)
#define GATHERS_V(X, S, C, D, name, iname)                                                       \
    X(S, name, iname, NO_ROOT, bytes_in(sendbuf, sendcount, sendtype),                            \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf,                   \
       const C recvcounts[], const D displs[], MPI_Datatype recvtype),                           \
      sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype)
#define ALLTOALLS_V(X, S, C, D, name, iname)                                                     \
    X(S, name, iname, NO_ROOT, 0,                                                                \
      (const void *sendbuf, const C sendcounts[], const D sdispls[], MPI_Datatype sendtype,      \
       void *recvbuf, const C recvcounts[], const D rdispls[], MPI_Datatype recvtype),           \
      sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype)
#define ALLTOALLS_W(X, S, C, D, name, iname)                                                     \
    X(S, name, iname, NO_ROOT, 0,                                                                \
      (const void *sendbuf, const C sendcounts[], const D sdispls[],                             \
       const MPI_Datatype sendtypes[], void *recvbuf, const C recvcounts[], const D rdispls[],   \
       const MPI_Datatype recvtypes[]),                                                          \
      sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes)

#define STRIP(...) __VA_ARGS__

#define SERVE(S, name, iname, ROOT, BYTES, PARAMETERS, ...)                                      \
    int MPI_##name##S(STRIP PARAMETERS, MPI_Comm comm) {                                         \
        struct comm *c = scope_comm(comm);                                                       \
        MPI_Request request = MPI_REQUEST_NULL;                                                  \
        OBSERVE_ON(name, c,                                                                      \
                elsewhere(c) ? plain_wait(PMPI_##iname##S(__VA_ARGS__, c->shadow, &request),     \
                                          &request)                                              \
                             : PMPI_##name##S(__VA_ARGS__, comm))                                \
        if (ROOT != NO_ROOT && !valid_root(c, ROOT)) /* the library says what is wrong */        \
            return scope_end(&call, c, PMPI_##name##S(__VA_ARGS__, comm));                       \
        int err = enter_blocking(&call, c, CALL_##name, ROOT);                                   \
        if (!err)                                                                                \
            err = refused(c, PMPI_##iname##S(__VA_ARGS__, c->shadow, &request));                 \
        return end_blocking(&call, c, err, &request, ROOT, BYTES);                               \
    }                                                                                            \
    int MPI_##iname##S(STRIP PARAMETERS, MPI_Comm comm, MPI_Request *request) {                  \
        struct comm *c = scope_comm(comm);                                                       \
        OBSERVE_ON(iname, c, PMPI_##iname##S(__VA_ARGS__, way(c, comm), request))                \
        if (ROOT != NO_ROOT && !valid_root(c, ROOT))                                             \
            return scope_end(&call, c, PMPI_##iname##S(__VA_ARGS__, comm, request));             \
        enter(c, CALL_##iname, ROOT);                                                            \
        const int err = refused(c, PMPI_##iname##S(__VA_ARGS__, c->shadow, request));            \
        return end_nonblocking(&call, c, err, *request, ROOT, BYTES);                            \
    }

COLLECTIVES(SERVE, , int, int)
#if LARGE_COUNTS
COLLECTIVES(SERVE, _c, MPI_Count, MPI_Aint)
#endif

int MPI_Barrier(MPI_Comm comm) {
    struct comm *c = scope_comm(comm);
    MPI_Request request;
    OBSERVE_ON(Barrier, c,
            elsewhere(c) ? plain_wait(PMPI_Ibarrier(c->shadow, &request), &request)
                         : PMPI_Barrier(comm))
    enter(c, CALL_Barrier, NO_ROOT);
    const int err = meet(&call, c);
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
    struct comm *c = scope_comm(comm);
    OBSERVE_ON(Ibarrier, c, PMPI_Ibarrier(way(c, comm), request))
    enter(c, CALL_Ibarrier, NO_ROOT);
    const int err = PMPI_Ibarrier(c->shadow, request);
    return end_nonblocking(&call, c, err, *request, NO_ROOT, 0);
}

/* ---- communicators ---- */

#define CREATE(name, PARAMETERS, made, ...)                                                      \
    int MPI_##name(STRIP PARAMETERS) {                                                           \
        struct comm *c = scope_comm(comm);                                                       \
        OBSERVE_ON(name, c, PMPI_##name(__VA_ARGS__))                                            \
        enter(c, CALL_##name, NO_ROOT);                                                          \
        int err = meet_to_stay(&call, c);                                                        \
        if (!err) {                                                                              \
            step_out();                                                                          \
            err = PMPI_##name(__VA_ARGS__);                                                      \
            if (!err && *made != MPI_COMM_NULL)                                                  \
                err = scope_comm_add(*made);                                                     \
            step_in();                                                                           \
        }                                                                                        \
        scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);                                        \
        return scope_end(&call, c, err);                                                         \
    }

CREATE(Comm_dup, (MPI_Comm comm, MPI_Comm *made), made, comm, made)
CREATE(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), made, comm, info, made)
CREATE(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), made, comm, color, key,
       made)
CREATE(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made), made,
       comm, type, key, info, made)
CREATE(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), made, comm, group, made)
CREATE(Cart_create,
       (MPI_Comm comm, int ndims, const int dims[], const int periods[], int reorder,
        MPI_Comm *made),
       made, comm, ndims, dims, periods, reorder, made)
CREATE(Cart_sub, (MPI_Comm comm, const int remain[], MPI_Comm *made), made, comm, remain, made)
CREATE(Graph_create,
       (MPI_Comm comm, int nnodes, const int index[], const int edges[], int reorder,
        MPI_Comm *made),
       made, comm, nnodes, index, edges, reorder, made)
CREATE(Dist_graph_create,
       (MPI_Comm comm, int n, const int sources[], const int degrees[], const int destinations[],
        const int weights[], MPI_Info info, int reorder, MPI_Comm *made),
       made, comm, n, sources, degrees, destinations, weights, info, reorder, made)
CREATE(Dist_graph_create_adjacent,
       (MPI_Comm comm, int indegree, const int sources[], const int sourceweights[],
        int outdegree, const int destinations[], const int destweights[], MPI_Info info,
        int reorder, MPI_Comm *made),
       made, comm, indegree, sources, sourceweights, outdegree, destinations, destweights, info,
       reorder, made)

/* Collective over the group alone: the others are not there to meet. */
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made) {
    struct comm *c = scope_comm(comm);
    OBSERVE_ON(Comm_create_group, c, PMPI_Comm_create_group(comm, group, tag, made))
    step_out();
    int err = PMPI_Comm_create_group(comm, group, tag, made);
    if (!err && *made != MPI_COMM_NULL)
        err = scope_comm_add(*made);
    step_in();
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

static int free_both(struct comm *c, MPI_Comm *comm) {
    PMPI_Comm_free(&c->shadow);
    const int err = PMPI_Comm_free(comm); /* may call back here: attributes hold communicators */
    scope_comm_remove(c);
    return err;
}

static int serve_free(MPI_Comm *comm, int name) {
    struct comm *c = scope_comm(*comm);
    struct call call;
    if (!c || scope_begin(&call, name, c) != GO) {
        if (!c)
            return name == CALL_Comm_free ? PMPI_Comm_free(comm) : PMPI_Comm_disconnect(comm);
        const bool outside = !scope.inside || scope.away; /* it is to be forgotten all the same */
        if (outside)
            scope_lock();
        const int err = free_both(c, comm);
        if (outside)
            scope_unlock();
        return err;
    }
    enter(c, name, NO_ROOT);
    int err = meet_to_stay(&call, c);
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    if (!err) {
        err = free_both(c, comm);
        c = WORLD;
    }
    return scope_end(&call, c, err);
}

int MPI_Comm_free(MPI_Comm *comm) { return serve_free(comm, CALL_Comm_free); }

int MPI_Comm_disconnect(MPI_Comm *comm) { return serve_free(comm, CALL_Comm_disconnect); }

/* Collectives travel on the shadow, so that their errors are to be handled alike there. */
int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
    const struct comm *c = scope_comm(comm);
    const int err = PMPI_Comm_set_errhandler(comm, handler);
    return err || !c ? err : PMPI_Comm_set_errhandler(c->shadow, handler);
}

/* ---- begin and end ---- */

/* The scope's own thread talks to the other ranks while the program's computes. */
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    (void)required;
    const int err = PMPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, provided);
    if (!err && *provided == MPI_THREAD_MULTIPLE)
        scope_start();
    if (!err)
        scope_outside_begin();
    return err;
}

int MPI_Init(int *argc, char ***argv) {
    int provided;
    return MPI_Init_thread(argc, argv, MPI_THREAD_SINGLE, &provided);
}

/* Waits, without a message of its own, until the last round has found all ranks here. Nobody is
 * broken out of it: who was broken out of another call comes here yet. */
int MPI_Finalize(void) {
    struct call call;
    scope_outside_end();
    if (scope_begin(&call, CALL_Finalize, WORLD) == GO) {
        struct comm *c = WORLD;
        struct record need = {.kind = COLLECTIVE, .comm = c->number, .peer = ANY_PEER};
        call.probe = &need;
        scope.ending = true;
        while (!scope.over) {
            enter(c, CALL_Finalize, NO_ROOT);
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
    return PMPI_Finalize();
}
