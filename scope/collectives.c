/* Collectives, and their persistent forms. See scope.h.
 *
 * A blocking collective is served as its nonblocking form on the communicator's shadow. What each
 * rank entered, place by place, is compared in the rounds: name, root, operation, and the length
 * where all have to agree on it. While the scope insists, the ranks meet at a gate first. */
#include "scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- places ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = ((hash ^ value) + 1) * 0x9E3779B97F4A7C15u; /* 1 and 1 are no 0: it would weigh nothing */
    return hash ^ hash >> 29;
}

uint64_t scope_mix_place(uint64_t hash, const struct record *p) {
    hash = mix(hash, (uint64_t)p->name << 32 | (uint32_t)p->tag);
    hash = mix(hash, (uint64_t)(uint32_t)p->waiter);
    return mix(mix(hash, (uint64_t)p->size), p->detail);
}

void scope_hash_last(struct comm *c) {
    if (c->places == 0 || c->place[c->places - 1].index <= c->hashed)
        return;
    c->history = scope_mix_place(c->history, &c->place[c->places - 1]);
    c->hashed = c->place[c->places - 1].index;
}

struct record *scope_enter(struct comm *c, int name, int root) {
    static struct record nowhere;
    scope_hash_last(c);
    c->entered++;
    c->cell = scope.cell;
    if (c->places == c->room) {
        const int room = c->room ? 2 * c->room : 16;
        struct record *bigger = realloc(c->place, (size_t)room * sizeof *bigger);
        if (!bigger) {
            scope.blind = true;
            return &nowhere;
        }
        c->place = bigger;
        c->room = room;
    }
    struct record *p = &c->place[c->places++];
    *p = (struct record){.row = PLACE,
                         .comm = c->number,
                         .index = c->entered,
                         .name = name,
                         .tag = root,
                         .waiter = NO_OPERATION,
                         .type = -1,
                         .count = -1,
                         .size = -1,
                         .given = -1,
                         .taken = -1,
                         .origin = scope.origin};
    return p;
}

/* The library refused it, so that it has not entered after all; Open MPI may have come to data that
 * do not fit before it says so. */
static int refused(struct comm *c, int err) {
    int class = MPI_SUCCESS;
    if (err)
        PMPI_Error_class(err, &class);
    if (err && class != MPI_ERR_TRUNCATE && c->places > 0 &&
        c->place[c->places - 1].index == c->entered) {
        c->entered--;
        c->places--;
    }
    return err;
}

/* ---- what all ranks have to agree on ---- */

static const struct {
    MPI_Op op;
    const char *name;
} OPERATIONS[] = {
    {MPI_MAX, "MPI_MAX"},   {MPI_MIN, "MPI_MIN"},       {MPI_SUM, "MPI_SUM"},
    {MPI_PROD, "MPI_PROD"}, {MPI_LAND, "MPI_LAND"},     {MPI_BAND, "MPI_BAND"},
    {MPI_LOR, "MPI_LOR"},   {MPI_BOR, "MPI_BOR"},       {MPI_LXOR, "MPI_LXOR"},
    {MPI_BXOR, "MPI_BXOR"}, {MPI_MAXLOC, "MPI_MAXLOC"}, {MPI_MINLOC, "MPI_MINLOC"},
};
enum { OWN_OPERATION = sizeof OPERATIONS / sizeof *OPERATIONS };

int scope_operation(MPI_Op op) {
    for (int i = 0; i < OWN_OPERATION; i++)
        if (OPERATIONS[i].op == op)
            return i;
    return OWN_OPERATION;
}

const char *scope_operation_name(int operation) {
    return operation >= 0 && operation < OWN_OPERATION ? OPERATIONS[operation].name
                                                       : "an operation of its own";
}

/* Predefined types, and what kind of number each is. */
static const struct {
    MPI_Datatype type;
    char kind;
} TYPES[] = {
    {MPI_BYTE, 'b'},          {MPI_CHAR, 'c'},           {MPI_SIGNED_CHAR, 'i'},
    {MPI_UNSIGNED_CHAR, 'u'}, {MPI_SHORT, 'i'},          {MPI_UNSIGNED_SHORT, 'u'},
    {MPI_INT, 'i'},           {MPI_UNSIGNED, 'u'},       {MPI_LONG, 'i'},
    {MPI_UNSIGNED_LONG, 'u'}, {MPI_LONG_LONG, 'i'},      {MPI_UNSIGNED_LONG_LONG, 'u'},
    {MPI_FLOAT, 'f'},         {MPI_DOUBLE, 'f'},         {MPI_LONG_DOUBLE, 'f'},
    {MPI_C_BOOL, 'l'},        {MPI_INT8_T, 'i'},         {MPI_INT16_T, 'i'},
    {MPI_INT32_T, 'i'},       {MPI_INT64_T, 'i'},        {MPI_UINT8_T, 'u'},
    {MPI_UINT16_T, 'u'},      {MPI_UINT32_T, 'u'},       {MPI_UINT64_T, 'u'},
    {MPI_DOUBLE_INT, 'p'},    {MPI_C_FLOAT_COMPLEX, 'z'}, {MPI_C_DOUBLE_COMPLEX, 'z'},
    {MPI_INTEGER, 'i'},       {MPI_REAL, 'f'},           {MPI_DOUBLE_PRECISION, 'f'},
    {MPI_COMPLEX, 'z'},       {MPI_DOUBLE_COMPLEX, 'z'}, {MPI_LOGICAL, 'l'},
};

/* A library without Fortran may have nothing in place of its types. */
int scope_type(MPI_Datatype type) {
    for (int i = 0; i < (int)(sizeof TYPES / sizeof *TYPES) && type != MPI_DATATYPE_NULL; i++)
        if (TYPES[i].type == type)
            return i;
    return -1;
}

static long long size_of(MPI_Datatype type) { return scope_bytes(1, type); }

/* What has to agree besides the length; 0: it is not known, or need not. A reduction adds like to
 * like. Other collectives carry bytes, and whole numbers for numbers with a point are no use; but
 * programs do carry unsigned ones as signed, pairs of floats as complex, and what not as bytes. */
static int likeness(int type, MPI_Datatype of, bool reduces) {
    const char kind = type < 0 ? 0 : TYPES[type].kind;
    if (reduces)
        return kind ? (int)size_of(of) << CHAR_BIT | kind : 0;
    return kind == 'i' || kind == 'u' ? 'i' : kind == 'f' || kind == 'z' ? 'f' : 0;
}

char scope_number(MPI_Datatype type) {
    static MPI_Datatype last;
    static char number;
    if (type != last) {
        last = type;
        number = (char)likeness(scope_type(type), type, false);
    }
    return number;
}

/* In words; "" for none. */
const char *scope_likeness(int likeness, char text[SCOPE_LIKENESS]) {
    const int size = likeness >> CHAR_BIT;
    const char *kind = "";
    switch (likeness & UCHAR_MAX) {
    case 'i':
        kind = size ? "signed integers" : "integers";
        break;
    case 'u':
        kind = "unsigned integers";
        break;
    case 'f':
        kind = "floating point";
        break;
    case 'z':
        kind = "complex";
        break;
    }
    snprintf(text, SCOPE_LIKENESS, *kind && size ? "%s, %d B each" : "%s", kind, size);
    return text;
}

/* What a rank hands in for the others, or takes out of theirs. Each pair of ranks has a weight of
 * its own: the ranks' weighed sums of both are equal only where every one takes out what every
 * other hands in for it. */
struct flow {
    long long bytes; /* -1: nothing has to agree */
    uint64_t weighed;
};

#define ANY_FLOW ((struct flow){.bytes = -1})
#define NO_FLOW ((struct flow){0})

static void add_flow(struct flow *flow, int source, int dest, long long bytes) {
    flow->bytes += bytes;
    flow->weighed += mix(mix(1, (uint64_t)source), (uint64_t)dest) * (uint64_t)bytes;
}

static struct flow flow(int source, int dest, long long bytes) {
    struct flow one = NO_FLOW;
    add_flow(&one, source, dest, bytes);
    return one;
}

static struct flow to_all(const struct comm *c, long long bytes) {
    struct flow sum = NO_FLOW;
    for (int i = 0; i < c->size && !c->remote; i++)
        add_flow(&sum, c->rank, i, bytes);
    return sum;
}

static struct flow from_all(const struct comm *c, long long bytes) {
    struct flow sum = NO_FLOW;
    for (int i = 0; i < c->size && !c->remote; i++)
        add_flow(&sum, i, c->rank, bytes);
    return sum;
}

/* Between two groups: everyone in the one expects the same rank of the other, and that one only
 * gives MPI_ROOT. */
static void agree_on_root(const struct comm *c, struct record *p, int root) {
    const uint64_t expected = (uint64_t)c->remote;
    p->peer = root == MPI_ROOT ? scope.rank : root >= 0 ? c->world[c->size + root] : ANY_PEER;
    if (p->peer != ANY_PEER)
        p->balance = mix(1, (uint64_t)p->peer) * (root == MPI_ROOT ? expected : -(uint64_t)1);
}

/* count < 0: not all know it. Between two groups only the call and its root are compared. */
static void agree(const struct comm *c, struct record *p, int root, long long count,
                  MPI_Datatype type, int operation, struct flow given, struct flow taken) {
    p->waiter = operation;
    if (c->remote && root != NO_ROOT)
        agree_on_root(c, p, root);
    if (c->remote)
        return;
    p->given = given.bytes;
    p->taken = taken.bytes;
    p->balance = given.weighed - taken.weighed;
    if (count < 0)
        return;
    p->size = count * size_of(type);
    p->type = scope_type(type);
    p->likeness = p->size > 0 ? likeness(p->type, type, operation != NO_OPERATION) : 0;
    p->count = count <= INT32_MAX ? (int)count : -1;
}

/* With a count for each rank, of `type` or of a type for each. */
#define COUNTS(S, C)                                                                             \
    static long long total##S(const struct comm *c, const C counts[]) {                          \
        long long sum = 0;                                                                       \
        for (int i = 0; i < c->size && counts && !c->remote; i++)                                \
            sum += counts[i];                                                                    \
        return sum;                                                                              \
    }                                                                                            \
    static struct flow to_each##S(const struct comm *c, const C counts[], MPI_Datatype type,     \
                                  const MPI_Datatype types[]) {                                  \
        const long long size = types ? 0 : size_of(type);                                        \
        struct flow sum = NO_FLOW;                                                               \
        for (int i = 0; i < c->size && counts && !c->remote; i++)                                \
            if (counts[i])                                                                       \
                add_flow(&sum, c->rank, i, counts[i] * (types ? size_of(types[i]) : size));      \
        return sum;                                                                              \
    }                                                                                            \
    static struct flow from_each##S(const struct comm *c, const C counts[], MPI_Datatype type,   \
                                    const MPI_Datatype types[]) {                                \
        const long long size = types ? 0 : size_of(type);                                        \
        struct flow sum = NO_FLOW;                                                               \
        for (int i = 0; i < c->size && counts && !c->remote; i++)                                \
            if (counts[i])                                                                       \
                add_flow(&sum, i, c->rank, counts[i] * (types ? size_of(types[i]) : size));      \
        return sum;                                                                              \
    }

COUNTS(, int)
#if LARGE_COUNTS
COUNTS(_c, MPI_Count)
#endif

/* ---- serving them ---- */

static int wait_collective(struct call *call, struct comm *c, MPI_Request *request) {
    MPI_Status status;
    scope_op_add(COLLECTIVE, *request, c, ANY_PEER, 0, 0);
    return scope_wait(call, request, &status);
}

static int end_blocking(struct call *call, struct comm *c, int err, MPI_Request *request,
                        int root, long long bytes) {
    call->silent = true; /* the shadow returns its errors */
    if (!err)
        err = wait_collective(call, c, request);
    if (err && err != scope.code)
        err = scope_second_opinion(call, err);
    scope_event(call, c, root == NO_ROOT ? ANY_PEER : c->world[root], ANY_LABEL, bytes, 0);
    return scope_end(call, c, err);
}

static int end_nonblocking(struct call *call, struct comm *c, int err,
                           const MPI_Request *request, int root, long long bytes) {
    call->silent = true;
    const struct op *op = err ? NULL : scope_op_add(COLLECTIVE, *request, c, ANY_PEER, 0, bytes);
    scope_event(call, c, root == NO_ROOT ? ANY_PEER : c->world[root], ANY_LABEL, bytes,
                op ? op->serial : 0);
    return scope_end(call, c, err);
}

/* It is under way on the shadow. */
static int begun(struct comm *c, int err) {
    if (!err && c->places > 0 && c->place[c->places - 1].index == c->entered)
        c->place[c->places - 1].kind = 1;
    return refused(c, err);
}

/* Where MPI_IN_PLACE stands, count and type mean nothing. */
static long long bytes_in(const void *buf, long long count, MPI_Datatype type) {
    return buf == MPI_IN_PLACE ? 0 : count * size_of(type);
}

static bool valid_root(const struct comm *c, int root) {
    if (c->remote && (root == MPI_ROOT || root == MPI_PROC_NULL))
        return true;
    return root >= 0 && root < (c->remote ? c->remote : c->size);
}

/* What all ranks have to agree on. Between two groups that is in which one the root is, told by its
 * first rank: the root's own group gives MPI_ROOT and MPI_PROC_NULL, the other one its rank. */
static int agreed(const struct comm *c, int root) {
    if (!c->remote || root == NO_ROOT)
        return root;
    return ROOT_GROUP(c->world[root >= 0 ? c->size : 0]);
}

/* Of an intercommunicator no root is told in an event. */
static int shown(const struct comm *c, int root) { return c->remote ? NO_ROOT : root; }

/* Whether Open MPI's nonblocking exchange takes two neighbours for each other: errata 28. */
static bool mixes_up(const struct comm *c, int name) {
#ifdef OPEN_MPI
    int topology = MPI_UNDEFINED, n = 0;
    if (name != CALL_Neighbor_alltoall && name != CALL_Neighbor_alltoallv &&
        name != CALL_Neighbor_alltoallw)
        return false;
    PMPI_Topo_test(c->handle, &topology);
    if (topology != MPI_CART || PMPI_Cartdim_get(c->handle, &n) != MPI_SUCCESS)
        return false;
    int *const dims = calloc(3 * (size_t)n + 1, sizeof *dims), *const periods = dims + n;
    bool found = false;
    if (dims && PMPI_Cart_get(c->handle, n, dims, periods, periods + n) == MPI_SUCCESS)
        for (int i = 0; i < n; i++)
            found |= periods[i] && dims[i] <= 2;
    free(dims);
    return found;
#else
    return (void)c, (void)name, false;
#endif
}

/* Whether the blocking call is made, once all have come: between two groups (errata 9), and of
 * neighbours that the nonblocking one mixes up. */
static bool whole(const struct comm *c, int name) { return c->remote || mixes_up(c, name); }

#define AT_ROOT(a, b) (c->rank == root ? (a) : (b))
/* Bytes of this rank's own part; where it stays in place, it is that of the other buffer. */
#define OWN_PART(buf, count, type, other_count, other_type)                                      \
    (buf == MPI_IN_PLACE ? (long long)(other_count) * size_of(other_type)                        \
                         : (long long)(count) * size_of(type))

/* Elements of no bytes are handed in as no elements: errata 35. */
#define SOME(count, type) (size_of(type) == 0 ? 0 : (count))

/* Each collective: its root, the bytes this rank hands in (0 where every peer has a count of its
 * own), count, type and operation on which all ranks have to agree (-1: they need not), what
 * it hands in and takes out, its parameters but the communicator, its arguments. S: suffix,
 * C: count type, D: displacements. */
#define COLLECTIVES(X, S, C, D)                                                                  \
    X(S, Bcast, Ibcast, root, (long long)count * size_of(type), (long long)count, type,          \
      NO_OPERATION,                                                                              \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (void *buf, C count, MPI_Datatype type, int root),                                         \
      buf, SOME(count, type), type, root)                                                        \
    X(S, Reduce, Ireduce, root, (long long)count * size_of(type), (long long)count, type,        \
      scope_operation(op),                                                                       \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op, int            \
       root),                                                                                    \
      sendbuf, recvbuf, count, type, op, root)                                                   \
    X(S, Allreduce, Iallreduce, NO_ROOT, (long long)count * size_of(type), (long                 \
      long)count, type, scope_operation(op),                                                     \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op),               \
      sendbuf, recvbuf, count, type, op)                                                         \
    X(S, Scan, Iscan, NO_ROOT, (long long)count * size_of(type), (long long)count, type,         \
      scope_operation(op),                                                                       \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op),               \
      sendbuf, recvbuf, count, type, op)                                                         \
    X(S, Exscan, Iexscan, NO_ROOT, (long long)count * size_of(type), (long long)count,           \
      type, scope_operation(op),                                                                 \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op),               \
      sendbuf, recvbuf, count, type, op)                                                         \
    X(S, Reduce_scatter_block, Ireduce_scatter_block, NO_ROOT, (long long)count *                \
      size_of(type), (long long)count, type, scope_operation(op),                                \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, void *recvbuf, C count, MPI_Datatype type, MPI_Op op),               \
      sendbuf, recvbuf, count, type, op)                                                         \
    X(S, Reduce_scatter, Ireduce_scatter, NO_ROOT, 0, total##S(c, counts), type,                 \
      scope_operation(op),                                                                       \
      to_each##S(c, counts, type, NULL),                                                         \
      from_all(c, counts ? (long long)counts[c->rank] * size_of(type) : 0),                      \
      (const void *sendbuf, void *recvbuf, const C counts[], MPI_Datatype type, MPI_Op           \
       op),                                                                                      \
      sendbuf, recvbuf, counts, type, op)                                                        \
    X(S, Gather, Igather, root, bytes_in(sendbuf, sendcount, sendtype), AT_ROOT((long            \
      long)recvcount, (long long)sendcount), AT_ROOT(recvtype, sendtype), NO_OPERATION,          \
      flow(c->rank, root, OWN_PART(sendbuf, sendcount, sendtype, recvcount, recvtype)),          \
      AT_ROOT(from_all(c, (long long)recvcount * size_of(recvtype)), NO_FLOW),                   \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C                 \
       recvcount, MPI_Datatype recvtype, int root),                                              \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root)                          \
    X(S, Gatherv, Igatherv, root, bytes_in(sendbuf, sendcount, sendtype), -1, MPI_BYTE,          \
      NO_OPERATION,                                                                              \
      flow(c->rank, root,                                                                        \
           OWN_PART(sendbuf, sendcount, sendtype, recvcounts[c->rank], recvtype)),               \
      AT_ROOT(from_each##S(c, recvcounts, recvtype, NULL), NO_FLOW),                             \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, const C           \
       recvcounts[], const D displs[], MPI_Datatype recvtype, int root),                         \
      sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root)                 \
    X(S, Scatter, Iscatter, root, bytes_in(recvbuf, recvcount, recvtype), AT_ROOT((long          \
      long)sendcount, (long long)recvcount), AT_ROOT(sendtype, recvtype), NO_OPERATION,          \
      AT_ROOT(to_all(c, (long long)sendcount * size_of(sendtype)), NO_FLOW),                     \
      flow(root, c->rank, OWN_PART(recvbuf, recvcount, recvtype, sendcount, sendtype)),          \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C                 \
       recvcount, MPI_Datatype recvtype, int root),                                              \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root)                          \
    X(S, Scatterv, Iscatterv, root, 0, -1, MPI_BYTE, NO_OPERATION,                               \
      AT_ROOT(to_each##S(c, sendcounts, sendtype, NULL), NO_FLOW),                               \
      flow(root, c->rank,                                                                        \
           OWN_PART(recvbuf, recvcount, recvtype, sendcounts[c->rank], sendtype)),               \
      (const void *sendbuf, const C sendcounts[], const D displs[], MPI_Datatype sendtype,       \
       void *recvbuf, C recvcount, MPI_Datatype recvtype, int root),                             \
      sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root)                 \
    X(S, Allgather, Iallgather, NO_ROOT, bytes_in(sendbuf, sendcount, sendtype), (long           \
      long)recvcount, recvtype, NO_OPERATION,                                                    \
      to_all(c, OWN_PART(sendbuf, sendcount, sendtype, recvcount, recvtype)),                    \
      from_all(c, (long long)recvcount * size_of(recvtype)),                                     \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C                 \
       recvcount, MPI_Datatype recvtype),                                                        \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)                                \
    X(S, Alltoall, Ialltoall, NO_ROOT, bytes_in(sendbuf, sendcount, sendtype), (long             \
      long)recvcount, recvtype, NO_OPERATION,                                                    \
      to_all(c, OWN_PART(sendbuf, sendcount, sendtype, recvcount, recvtype)),                    \
      from_all(c, (long long)recvcount * size_of(recvtype)),                                     \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C                 \
       recvcount, MPI_Datatype recvtype),                                                        \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)                                \
    X(S, Neighbor_allgather, Ineighbor_allgather, NO_ROOT, bytes_in(sendbuf, sendcount,          \
      sendtype), -1, recvtype, NO_OPERATION,                                                     \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C                 \
       recvcount, MPI_Datatype recvtype),                                                        \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)                                \
    X(S, Neighbor_alltoall, Ineighbor_alltoall, NO_ROOT, bytes_in(sendbuf, sendcount,            \
      sendtype), -1, recvtype, NO_OPERATION,                                                     \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, C                 \
       recvcount, MPI_Datatype recvtype),                                                        \
      sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype)                                \
    X(S, Allgatherv, Iallgatherv, NO_ROOT, bytes_in(sendbuf, sendcount, sendtype),               \
      total##S(c, recvcounts), recvtype, NO_OPERATION,                                           \
      to_all(c, OWN_PART(sendbuf, sendcount, sendtype, recvcounts[c->rank], recvtype)),          \
      from_each##S(c, recvcounts, recvtype, NULL),                                               \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, const C           \
       recvcounts[], const D displs[], MPI_Datatype recvtype),                                   \
      sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype)                       \
    X(S, Neighbor_allgatherv, Ineighbor_allgatherv, NO_ROOT, bytes_in(sendbuf, sendcount,        \
      sendtype), -1, recvtype, NO_OPERATION,                                                     \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, C sendcount, MPI_Datatype sendtype, void *recvbuf, const C           \
       recvcounts[], const D displs[], MPI_Datatype recvtype),                                   \
      sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype)                       \
    X(S, Alltoallv, Ialltoallv, NO_ROOT, 0, -1, MPI_BYTE, NO_OPERATION,                          \
      sendbuf == MPI_IN_PLACE ? to_each##S(c, recvcounts, recvtype, NULL) :                      \
      to_each##S(c, sendcounts, sendtype, NULL),                                                 \
      from_each##S(c, recvcounts, recvtype, NULL),                                               \
      (const void *sendbuf, const C sendcounts[], const D sdispls[], MPI_Datatype                \
       sendtype, void *recvbuf, const C recvcounts[], const D rdispls[], MPI_Datatype            \
       recvtype),                                                                                \
      sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype)            \
    X(S, Neighbor_alltoallv, Ineighbor_alltoallv, NO_ROOT, 0, -1, MPI_BYTE, NO_OPERATION,        \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, const C sendcounts[], const D sdispls[], MPI_Datatype                \
       sendtype, void *recvbuf, const C recvcounts[], const D rdispls[], MPI_Datatype            \
       recvtype),                                                                                \
      sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype)            \
    X(S, Alltoallw, Ialltoallw, NO_ROOT, 0, -1, MPI_BYTE, NO_OPERATION,                          \
      sendbuf == MPI_IN_PLACE ? to_each##S(c, recvcounts, MPI_BYTE, recvtypes) :                 \
      to_each##S(c, sendcounts, MPI_BYTE, sendtypes),                                            \
      from_each##S(c, recvcounts, MPI_BYTE, recvtypes),                                          \
      (const void *sendbuf, const C sendcounts[], const D sdispls[], const MPI_Datatype          \
       sendtypes[], void *recvbuf, const C recvcounts[], const D rdispls[], const                \
       MPI_Datatype recvtypes[]),                                                                \
      sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes)          \
    X(S, Neighbor_alltoallw, Ineighbor_alltoallw, NO_ROOT, 0, -1, MPI_BYTE, NO_OPERATION,        \
      ANY_FLOW, ANY_FLOW,                                                                        \
      (const void *sendbuf, const C sendcounts[], const MPI_Aint sdispls[], const                \
       MPI_Datatype sendtypes[], void *recvbuf, const C recvcounts[], const MPI_Aint             \
       rdispls[], const MPI_Datatype recvtypes[]),                                               \
      sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes)

#define SERVE(S, name, iname, ROOT, BYTES, COUNT, TYPE, OPERATION, GIVEN, TAKEN,                 \
                   PARAMETERS, ...)                                                              \
    int MPI_##name##S(STRIP PARAMETERS, MPI_Comm comm) {                                         \
        MPI_Request request = MPI_REQUEST_NULL;                                                  \
        OBSERVE(name, comm, PMPI_##name##S(__VA_ARGS__, comm))                                   \
        if (ROOT != NO_ROOT && !valid_root(c, ROOT)) /* the library says what is wrong */        \
            return scope_end(&call, c, PMPI_##name##S(__VA_ARGS__, comm));                       \
        agree(c, scope_enter(c, CALL_##name, agreed(c, ROOT)), ROOT, COUNT, TYPE,                \
              OPERATION, GIVEN, TAKEN);                                                          \
        const bool inside = whole(c, CALL_##name);                                               \
        const bool gate = inside || atomic_load(&scope.insist);                                  \
        int err = gate ? scope_gate(&call, c) : MPI_SUCCESS;                                     \
        if (!err && inside) {                                                                    \
            scope_step_out(&call);                                                               \
            err = PMPI_##name##S(__VA_ARGS__, comm);                                             \
            scope_step_in(&call);                                                                \
            scope_event(&call, c, ANY_PEER, ANY_LABEL, BYTES, 0);                                \
            return scope_end(&call, c, err);                                                     \
        }                                                                                        \
        if (!err)                                                                                \
            err = begun(c, PMPI_##iname##S(__VA_ARGS__, c->shadow, &request));                   \
        return end_blocking(&call, c, err, &request, shown(c, ROOT), BYTES);                     \
    }                                                                                            \
    int MPI_##iname##S(STRIP PARAMETERS, MPI_Comm comm, MPI_Request *request) {                  \
        OBSERVE_GIVEN(request, iname, comm, PMPI_##iname##S(__VA_ARGS__, comm, request))         \
        if (ROOT != NO_ROOT && !valid_root(c, ROOT))                                             \
            return scope_end(&call, c, PMPI_##iname##S(__VA_ARGS__, comm, request));             \
        agree(c, scope_enter(c, CALL_##iname, agreed(c, ROOT)), ROOT, COUNT, TYPE,               \
              OPERATION, GIVEN, TAKEN);                                                          \
        const int err = begun(c, PMPI_##iname##S(__VA_ARGS__, c->shadow, request));              \
        return end_nonblocking(&call, c, err, request, shown(c, ROOT), BYTES);                  \
    }

COLLECTIVES(SERVE, , int, int)
#if LARGE_COUNTS
COLLECTIVES(SERVE, _c, MPI_Count, MPI_Aint)
#endif

int MPI_Barrier(MPI_Comm comm) {
    MPI_Request request = MPI_REQUEST_NULL;
    OBSERVE(Barrier, comm, PMPI_Barrier(comm))
    scope_enter(c, CALL_Barrier, NO_ROOT);
    if (c->remote) { /* to meet is all there is to it */
        const int err = scope_gate(&call, c);
        scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
        return scope_end(&call, c, err);
    }
    const int err = begun(c, PMPI_Ibarrier(c->shadow, &request));
    return end_blocking(&call, c, err, &request, NO_ROOT, 0);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request) {
    OBSERVE_GIVEN(request, Ibarrier, comm, PMPI_Ibarrier(comm, request))
    scope_enter(c, CALL_Ibarrier, NO_ROOT);
    const int err = begun(c, PMPI_Ibarrier(c->shadow, request));
    return end_nonblocking(&call, c, err, request, NO_ROOT, 0);
}

/* ---- persistent collectives ---- */

#if HAS_MPI_4

/* Its starts are ordered among themselves only, so that it is a place to meet of its own. */
static int initialized(struct call *call, struct comm *c, int err, int name,
                       const MPI_Request *request, long long bytes) {
    call->silent = true;
    struct op *op = NULL;
    if (!err) {
        const int number = scope_hash(c->number, scope_hash(scope.generation, c->entered));
        struct comm *place = scope_meeting(number, c->world, c->size + c->remote);
        op = place ? scope_op_add(COLLECTIVE, *request, place, ANY_PEER, 0, bytes) : NULL;
    }
    if (op) {
        op->persistent = true;
        op->active = false;
        op->name = name;
        op->under = c;
    }
    scope_event(call, c, ANY_PEER, ANY_LABEL, bytes, op ? op->serial : 0);
    return scope_end(call, c, err);
}

#define INITIALIZE(S, name, iname, ROOT, BYTES, COUNT, TYPE, OPERATION, GIVEN, TAKEN,            \
                   PARAMETERS, ...)                                                              \
    int MPI_##name##_init##S(STRIP PARAMETERS, MPI_Comm comm, MPI_Info info,                     \
                             MPI_Request *request) {                                             \
        OBSERVE_GIVEN(request, name##_init, comm,                                                \
                      PMPI_##name##_init##S(__VA_ARGS__, comm, info, request))                   \
        if (ROOT != NO_ROOT && !valid_root(c, ROOT))                                             \
            return scope_end(&call, c,                                                           \
                             PMPI_##name##_init##S(__VA_ARGS__, comm, info, request));           \
        agree(c, scope_enter(c, CALL_##name##_init, agreed(c, ROOT)), ROOT, COUNT, TYPE,         \
              OPERATION, GIVEN, TAKEN);                                                          \
        const int err =                                                                          \
            begun(c, PMPI_##name##_init##S(__VA_ARGS__, c->shadow, info, request));              \
        return initialized(&call, c, err, CALL_##name##_init, request, BYTES);                   \
    }

COLLECTIVES(INITIALIZE, , int, int)
#if LARGE_COUNTS
COLLECTIVES(INITIALIZE, _c, MPI_Count, MPI_Aint)
#endif

int MPI_Barrier_init(MPI_Comm comm, MPI_Info info, MPI_Request *request) {
    OBSERVE_GIVEN(request, Barrier_init, comm, PMPI_Barrier_init(comm, info, request))
    scope_enter(c, CALL_Barrier_init, NO_ROOT);
    const int err = begun(c, PMPI_Barrier_init(c->shadow, info, request));
    return initialized(&call, c, err, CALL_Barrier_init, request, 0);
}

#endif

/* ---- ending what is stuck ---- */

/* Is all known that scope_join needs? */
bool scope_can_join(const struct comm *c, const struct record *p) {
    switch (p->name) {
    case CALL_Barrier:
    case CALL_Ibarrier:
    case CALL_Comm_idup:
    case CALL_Comm_idup_with_info:
        return !c->remote;
    case CALL_Bcast:
    case CALL_Ibcast:
    case CALL_Reduce:
    case CALL_Ireduce:
    case CALL_Allreduce:
    case CALL_Iallreduce:
    case CALL_Scan:
    case CALL_Iscan:
    case CALL_Exscan:
    case CALL_Iexscan:
    case CALL_Reduce_scatter_block:
    case CALL_Ireduce_scatter_block:
    case CALL_Gather:
    case CALL_Igather:
    case CALL_Scatter:
    case CALL_Iscatter:
    case CALL_Allgather:
    case CALL_Iallgather:
    case CALL_Alltoall:
    case CALL_Ialltoall:
        return !c->remote && p->count >= 0 && p->type >= 0 && p->waiter != OWN_OPERATION;
    default:
        return false;
    }
}

/* This rank takes part, with memory of its own (`scrap`, for the caller to free), in a collective
 * that others have entered and it has not: so it ends on all. An error: it cannot be done. */
int scope_join(struct comm *c, const struct record *p, MPI_Request *request, void **scrap) {
    *scrap = NULL;
    if (!scope_can_join(c, p))
        return MPI_ERR_OTHER;
    if (p->name == CALL_Barrier || p->name == CALL_Ibarrier)
        return PMPI_Ibarrier(c->shadow, request);
    if (p->name == CALL_Comm_idup || p->name == CALL_Comm_idup_with_info)
        return scope_join_idup(c, p->index, request, scrap);
    const int count = p->count, root = p->tag;
    const MPI_Datatype type = TYPES[p->type].type;
    const MPI_Op op = p->waiter >= 0 ? OPERATIONS[p->waiter].op : MPI_OP_NULL;
    const size_t block = (size_t)p->size + 8, all = block * (size_t)c->size;
    char *memory = calloc(2, all);
    if (!memory)
        return MPI_ERR_NO_MEM;
    *scrap = memory;
    char *const other = memory + all;
    const MPI_Comm on = c->shadow;
    switch (p->name) {
    case CALL_Bcast:
    case CALL_Ibcast:
        return PMPI_Ibcast(memory, count, type, root, on, request);
    case CALL_Reduce:
    case CALL_Ireduce:
        return PMPI_Ireduce(memory, other, count, type, op, root, on, request);
    case CALL_Allreduce:
    case CALL_Iallreduce:
        return PMPI_Iallreduce(memory, other, count, type, op, on, request);
    case CALL_Scan:
    case CALL_Iscan:
        return PMPI_Iscan(memory, other, count, type, op, on, request);
    case CALL_Exscan:
    case CALL_Iexscan:
        return PMPI_Iexscan(memory, other, count, type, op, on, request);
    case CALL_Reduce_scatter_block:
    case CALL_Ireduce_scatter_block:
        return PMPI_Ireduce_scatter_block(memory, other, count, type, op, on, request);
    case CALL_Gather:
    case CALL_Igather:
        return PMPI_Igather(memory, count, type, other, count, type, root, on, request);
    case CALL_Scatter:
    case CALL_Iscatter:
        return PMPI_Iscatter(memory, count, type, other, count, type, root, on, request);
    case CALL_Allgather:
    case CALL_Iallgather:
        return PMPI_Iallgather(memory, count, type, other, count, type, on, request);
    case CALL_Alltoall:
    case CALL_Ialltoall:
        return PMPI_Ialltoall(memory, count, type, other, count, type, on, request);
    default:
        return MPI_ERR_OTHER;
    }
}
