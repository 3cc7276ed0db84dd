/* Part of every_call.c, read once for each form of the calls that take a count:
 *
 *   FORM(name)    MPI_`name` in this form
 *   COUNT         of elements
 *   DISPLACEMENT  in elements, where every rank has its own
 *   BYTES         a place or a size in bytes
 *   UNIT          of a window's displacements */

/* ---- point to point ---- */

/* One blocking send; the receive is open by then, as a ready send asks. */
#define SENT_BY(name)                                                             \
    fresh();                                                                      \
    CALL(FORM(Irecv), in, ELEMENTS, MPI_INT, left, TAG, world, &request);         \
    CALL(Barrier, world);                                                         \
    CALL(FORM(name), out, ELEMENTS, MPI_INT, right, TAG, world);                  \
    status = blank();                                                             \
    CALL(Wait, &request, &status);                                                \
    came_alone(&status, left, TAG);                                               \
    from(left, 0, 0);

static void FORM(sends)(void) {
    MPI_Request request;
    MPI_Status status;
    static char room[4096 + ROOM * MPI_BSEND_OVERHEAD];
    void *given = NULL;
    COUNT bytes = 0;
    SENT_BY(Send)
    SENT_BY(Ssend)
    SENT_BY(Rsend)
    CALL(FORM(Buffer_attach), room, sizeof room);
    SENT_BY(Bsend)
    CALL(FORM(Buffer_detach), &given, &bytes);
    EXPECT(given == room, true);
    EXPECT(bytes, sizeof room);
    CALL(FORM(Send), out, ELEMENTS, MPI_INT, MPI_PROC_NULL, TAG, world);
#if FOUR_ONE
    MPI_Comm made;
    CALL(Comm_dup, world, &made);
    CALL(FORM(Comm_attach_buffer), made, room, sizeof room);
    fresh();
    CALL(FORM(Bsend), out, ELEMENTS, MPI_INT, right, TAG, made);
    CALL(FORM(Recv), in, ELEMENTS, MPI_INT, left, TAG, made, MPI_STATUS_IGNORE);
    from(left, 0, 0);
    CALL(Comm_flush_buffer, made);
    CALL(Comm_iflush_buffer, made, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    CALL(FORM(Comm_detach_buffer), made, &given, &bytes);
    EXPECT(bytes, sizeof room);
    CALL(Comm_free, &made);
    CALL(FORM(Buffer_attach), room, sizeof room);
    SENT_BY(Bsend)
    CALL(Buffer_flush);
    CALL(Buffer_iflush, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    CALL(FORM(Buffer_detach), &given, &bytes);
#endif
}

#define STARTED_BY(name)                                                          \
    fresh();                                                                      \
    CALL(FORM(Irecv), in, ELEMENTS, MPI_INT, left, TAG, world, &both[0]);         \
    CALL(Barrier, world);                                                         \
    CALL(FORM(name), out, ELEMENTS, MPI_INT, right, TAG, world, &both[1]);        \
    CALL(Waitall, 2, both, statuses);                                             \
    came(&statuses[0], left, TAG);                                                \
    from(left, 0, 0);

static void FORM(nonblocking_sends)(void) {
    MPI_Request both[2];
    MPI_Status statuses[2];
    static char room[4096 + ROOM * MPI_BSEND_OVERHEAD];
    void *given;
    COUNT bytes;
    STARTED_BY(Isend)
    STARTED_BY(Issend)
    STARTED_BY(Irsend)
    CALL(FORM(Buffer_attach), room, sizeof room);
    STARTED_BY(Ibsend)
    CALL(FORM(Buffer_detach), &given, &bytes);
    CALL(FORM(Isend), out, 1, MPI_INT, MPI_PROC_NULL, TAG, world, &both[0]);
    CALL(FORM(Irecv), in, 1, MPI_INT, MPI_PROC_NULL, TAG, world, &both[1]);
    CALL(Waitall, 2, both, statuses);
    EXPECT(statuses[1].MPI_SOURCE, MPI_PROC_NULL);
}

/* Twice, so that what was once complete is started again. */
#define RESTARTED_BY(name)                                                        \
    CALL(FORM(Recv_init), in, ELEMENTS, MPI_INT, left, TAG, world, &both[0]);     \
    CALL(FORM(name), out, ELEMENTS, MPI_INT, right, TAG, world, &both[1]);        \
    for (int round = 0; round < 2; round++) {                                     \
        fresh();                                                                  \
        CALL(Start, &both[0]);                                                    \
        CALL(Barrier, world);                                                     \
        CALL(Startall, 1, &both[1]);                                              \
        CALL(Waitall, 2, both, statuses);                                         \
        came(&statuses[0], left, TAG);                                            \
        from(left, 0, 0);                                                         \
    }                                                                             \
    CALL(Wait, &both[0], &statuses[0]); /* inactive: complete, and empty */       \
    EXPECT(statuses[0].MPI_TAG, MPI_ANY_TAG);                                     \
    CALL(Request_free, &both[0]);                                                 \
    CALL(Request_free, &both[1]);

static void FORM(persistent_sends)(void) {
    MPI_Request both[2];
    MPI_Status statuses[2];
    static char room[4096 + ROOM * MPI_BSEND_OVERHEAD];
    void *given;
    COUNT bytes;
    RESTARTED_BY(Send_init)
    RESTARTED_BY(Ssend_init)
    RESTARTED_BY(Rsend_init)
    CALL(FORM(Buffer_attach), room, sizeof room);
    RESTARTED_BY(Bsend_init)
    CALL(FORM(Buffer_detach), &given, &bytes);
}

/* A message is under way from the left. */
static MPI_Request FORM(under_way)(void) {
    MPI_Request request;
    fresh();
    CALL(FORM(Isend), out, ELEMENTS, MPI_INT, right, TAG, world, &request);
    return request;
}

static void FORM(receives)(void) {
    MPI_Request sent, got;
    MPI_Message message;
    MPI_Status status = blank();
    int flag = 0;
    COUNT n = -1;
    const double begun = MPI_Wtime();

    sent = FORM(under_way)();
    CALL(FORM(Recv), in, ROOM - 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, world, &status);
    came_alone(&status, left, TAG);
    from(left, 0, 0);
    CALL(FORM(Get_count), &status, MPI_INT, &n);
    EXPECT(n, ELEMENTS);
    CALL(FORM(Get_elements), &status, MPI_INT, &n);
    EXPECT(n, ELEMENTS);
    CALL(Wait, &sent, MPI_STATUS_IGNORE);

    sent = FORM(under_way)();
    status = blank();
    CALL(Probe, left, MPI_ANY_TAG, world, &status);
    came_alone(&status, left, TAG);
    CALL(FORM(Recv), in, ELEMENTS, MPI_INT, left, TAG, world, MPI_STATUS_IGNORE);
    from(left, 0, 0);
    CALL(Wait, &sent, MPI_STATUS_IGNORE);

    sent = FORM(under_way)();
    status = blank();
    do
        CALL(Iprobe, left, TAG, world, &flag, &status);
    while (!flag && again(begun));
    came_alone(&status, left, TAG);
    CALL(FORM(Recv), in, ELEMENTS, MPI_INT, left, TAG, world, MPI_STATUS_IGNORE);
    from(left, 0, 0);
    CALL(Wait, &sent, MPI_STATUS_IGNORE);

    sent = FORM(under_way)();
    status = blank();
    CALL(Mprobe, MPI_ANY_SOURCE, TAG, world, &message, &status);
    came_alone(&status, left, TAG);
    CALL(FORM(Mrecv), in, ELEMENTS, MPI_INT, &message, &status);
    EXPECT(message == MPI_MESSAGE_NULL, true);
    came_alone(&status, left, TAG);
    from(left, 0, 0);
    CALL(Wait, &sent, MPI_STATUS_IGNORE);

    sent = FORM(under_way)();
    status = blank();
    flag = 0;
    do
        CALL(Improbe, left, TAG, world, &flag, &message, &status);
    while (!flag && again(begun));
    came_alone(&status, left, TAG);
    CALL(FORM(Imrecv), in, ELEMENTS, MPI_INT, &message, &got);
    status = blank();
    CALL(Wait, &got, &status);
    came_alone(&status, left, TAG);
    from(left, 0, 0);
    CALL(Wait, &sent, MPI_STATUS_IGNORE);

    CALL(FORM(Recv), in, ELEMENTS, MPI_INT, MPI_PROC_NULL, TAG, world, &status);
    EXPECT(status.MPI_SOURCE, MPI_PROC_NULL);
    CALL(Mprobe, MPI_PROC_NULL, TAG, world, &message, &status);
    EXPECT(message == MPI_MESSAGE_NO_PROC, true);
    CALL(FORM(Mrecv), in, ELEMENTS, MPI_INT, &message, &status);
}

static void FORM(both_at_once)(void) {
    MPI_Status status = blank();
    fresh();
    CALL(FORM(Sendrecv), out, ELEMENTS, MPI_INT, right, TAG, in, ELEMENTS, MPI_INT, left, TAG,
         world, &status);
    came_alone(&status, left, TAG);
    from(left, 0, 0);
    fresh();
    memcpy(in, out, sizeof in);
    in[ROOM - 1] = -1;
    status = blank();
    CALL(FORM(Sendrecv_replace), in, ELEMENTS, MPI_INT, right, TAG, left, TAG, world, &status);
    came_alone(&status, left, TAG);
    from(left, 0, 0);
#if FOUR
    MPI_Request request;
    fresh();
    CALL(FORM(Isendrecv), out, ELEMENTS, MPI_INT, right, TAG, in, ELEMENTS, MPI_INT, left, TAG,
         world, &request);
    status = blank();
    CALL(Wait, &request, &status);
    note("the source of an Isendrecv is known", status.MPI_SOURCE == left);
    from(left, 0, 0);
    fresh();
    memcpy(in, out, sizeof in);
    in[ROOM - 1] = -1;
    CALL(FORM(Isendrecv_replace), in, ELEMENTS, MPI_INT, right, TAG, left, TAG, world, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    from(left, 0, 0);
#endif
}

/* ---- collectives ---- */

#if FOUR
#define PERSISTENT(name, check, comm, ...)                                        \
    CALL(FORM(name##_init), __VA_ARGS__, comm, MPI_INFO_NULL, &request);          \
    for (int round = 0; round < 2; round++) {                                     \
        fresh();                                                                  \
        CALL(Start, &request);                                                    \
        CALL(Wait, &request, MPI_STATUS_IGNORE);                                  \
        check;                                                                    \
    }                                                                             \
    CALL(Request_free, &request);
#else
#define PERSISTENT(name, check, comm, ...)
#endif

/* A collective blocking, nonblocking and persistent; `check` looks at what came each time. */
#define COLLECTIVE_ON(name, nonblocking, check, comm, ...)                        \
    fresh();                                                                      \
    CALL(FORM(name), __VA_ARGS__, comm);                                          \
    check;                                                                        \
    fresh();                                                                      \
    CALL(FORM(nonblocking), __VA_ARGS__, comm, &request);                         \
    CALL(Wait, &request, MPI_STATUS_IGNORE);                                      \
    check;                                                                        \
    PERSISTENT(name, check, comm, __VA_ARGS__)

#define COLLECTIVE(name, nonblocking, check, ...)                                 \
    COLLECTIVE_ON(name, nonblocking, check, world, __VA_ARGS__)

#define SUM_OF(n, first)                                                          \
    for (int i = 0; i < ELEMENTS; i++)                                            \
        EXPECT(in[i], sum(n, (first) + i))

/* From every rank r, at its place, its elements `first` and on. */
#define FROM_ALL(first)                                                           \
    for (int r = 0; r < size; r++)                                                \
        from(r, ELEMENTS *r, first)

#define NOTHING_CAME EXPECT(in[0], -1)

static void FORM(collectives)(void) {
    MPI_Request request;
    const int root = size - 1, mine = ELEMENTS * rank;
    COUNT counts[3];
    DISPLACEMENT places[3], bytes[3];
    MPI_Datatype types[3];
    for (int r = 0; r < 3; r++) {
        counts[r] = ELEMENTS;
        places[r] = ELEMENTS * r;
        bytes[r] = (DISPLACEMENT)(sizeof(int) * ELEMENTS) * r;
        types[r] = MPI_INT;
    }
    COLLECTIVE(Bcast, Ibcast, EXPECT(out[1], value(root, 1)), out, ELEMENTS, MPI_INT, root)
    COLLECTIVE(Reduce, Ireduce, if (rank == root) SUM_OF(size, 0); else NOTHING_CAME, out, in,
               ELEMENTS, MPI_INT, MPI_SUM, root)
    COLLECTIVE(Allreduce, Iallreduce, SUM_OF(size, 0), out, in, ELEMENTS, MPI_INT, MPI_SUM)
    COLLECTIVE(Scan, Iscan, SUM_OF(rank + 1, 0), out, in, ELEMENTS, MPI_INT, MPI_SUM)
    COLLECTIVE(Exscan, Iexscan, if (rank) SUM_OF(rank, 0), out, in, ELEMENTS, MPI_INT, MPI_SUM)
    COLLECTIVE(Reduce_scatter, Ireduce_scatter, SUM_OF(size, mine), out, in, counts, MPI_INT,
               MPI_SUM)
    COLLECTIVE(Reduce_scatter_block, Ireduce_scatter_block, SUM_OF(size, mine), out, in, ELEMENTS,
               MPI_INT, MPI_SUM)
    COLLECTIVE(Gather, Igather, if (rank == root) FROM_ALL(0); else NOTHING_CAME, out, ELEMENTS,
               MPI_INT, in, ELEMENTS, MPI_INT, root)
    COLLECTIVE(Gatherv, Igatherv, if (rank == root) FROM_ALL(0); else NOTHING_CAME, out, ELEMENTS,
               MPI_INT, in, counts, places, MPI_INT, root)
    COLLECTIVE(Scatter, Iscatter, from(root, 0, mine), out, ELEMENTS, MPI_INT, in, ELEMENTS,
               MPI_INT, root)
    COLLECTIVE(Scatterv, Iscatterv, from(root, 0, mine), out, counts, places, MPI_INT, in,
               ELEMENTS, MPI_INT, root)
    COLLECTIVE(Allgather, Iallgather, FROM_ALL(0), out, ELEMENTS, MPI_INT, in, ELEMENTS, MPI_INT)
    COLLECTIVE(Allgatherv, Iallgatherv, FROM_ALL(0), out, ELEMENTS, MPI_INT, in, counts, places,
               MPI_INT)
    COLLECTIVE(Alltoall, Ialltoall, FROM_ALL(mine), out, ELEMENTS, MPI_INT, in, ELEMENTS, MPI_INT)
    COLLECTIVE(Alltoallv, Ialltoallv, FROM_ALL(mine), out, counts, places, MPI_INT, in, counts,
               places, MPI_INT)
    COLLECTIVE(Alltoallw, Ialltoallw, FROM_ALL(mine), out, counts, bytes, types, in, counts, bytes,
               types)
    fresh();
    CALL(FORM(Reduce_local), out, in, ELEMENTS, MPI_INT, MPI_MAX);
    EXPECT(in[1], out[1]);
}

/* What a rank hands in lies where its result goes. */
#define LAID_OUT                                                                  \
    fresh();                                                                      \
    memcpy(in, out, sizeof in);                                                   \
    memcpy(in + mine, out, ELEMENTS * sizeof *in);                                \
    in[ROOM - 1] = -1

static void FORM(in_place)(void) {
    const int root = 0, mine = ELEMENTS * rank;
    void *here = MPI_IN_PLACE;
    MPI_Request request;
    LAID_OUT;
    memcpy(in, out, ELEMENTS * sizeof *in);
    CALL(FORM(Allreduce), here, in, ELEMENTS, MPI_INT, MPI_SUM, world);
    SUM_OF(size, 0);
    LAID_OUT;
    CALL(FORM(Allgather), here, 0, MPI_DATATYPE_NULL, in, ELEMENTS, MPI_INT, world);
    FROM_ALL(0);
    LAID_OUT;
    CALL(FORM(Iallgather), here, 0, MPI_DATATYPE_NULL, in, ELEMENTS, MPI_INT, world, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    FROM_ALL(0);
    fresh();
    memcpy(in, out, sizeof in);
    in[ROOM - 1] = -1;
    CALL(FORM(Alltoall), here, 0, MPI_DATATYPE_NULL, in, ELEMENTS, MPI_INT, world);
    FROM_ALL(mine);
    LAID_OUT;
    if (rank == root)
        CALL(FORM(Gather), here, 0, MPI_DATATYPE_NULL, in, ELEMENTS, MPI_INT, root, world);
    else
        CALL(FORM(Gather), out, ELEMENTS, MPI_INT, NULL, 0, MPI_DATATYPE_NULL, root, world);
    if (rank == root)
        FROM_ALL(0);
    LAID_OUT;
    if (rank == root)
        CALL(FORM(Reduce), here, in, ELEMENTS, MPI_INT, MPI_SUM, root, world);
    else
        CALL(FORM(Reduce), out, NULL, ELEMENTS, MPI_INT, MPI_SUM, root, world);
    if (rank == root)
        SUM_OF(size, 0);
    fresh();
    if (rank == root)
        CALL(FORM(Scatter), out, ELEMENTS, MPI_INT, here, 0, MPI_DATATYPE_NULL, root, world);
    else
        CALL(FORM(Scatter), NULL, 0, MPI_DATATYPE_NULL, in, ELEMENTS, MPI_INT, root, world);
    if (rank != root)
        from(root, 0, mine);
}

/* On a ring that leads one way, so that each rank hears from its left one only. */
static void FORM(neighbourhoods)(void) {
    MPI_Request request;
    MPI_Comm ring;
    const COUNT counts[1] = {ELEMENTS};
    const DISPLACEMENT places[1] = {0};
    const MPI_Aint bytes[1] = {0};
    const MPI_Datatype types[1] = {MPI_INT};
    const int weight = 1;
    CALL(Dist_graph_create_adjacent, world, 1, &left, &weight, 1, &right, &weight, MPI_INFO_NULL,
         0, &ring);
    COLLECTIVE_ON(Neighbor_allgather, Ineighbor_allgather, from(left, 0, 0), ring, out, ELEMENTS,
                  MPI_INT, in, ELEMENTS, MPI_INT)
    COLLECTIVE_ON(Neighbor_allgatherv, Ineighbor_allgatherv, from(left, 0, 0), ring, out, ELEMENTS,
                  MPI_INT, in, counts, places, MPI_INT)
    COLLECTIVE_ON(Neighbor_alltoall, Ineighbor_alltoall, from(left, 0, 0), ring, out, ELEMENTS,
                  MPI_INT, in, ELEMENTS, MPI_INT)
    COLLECTIVE_ON(Neighbor_alltoallv, Ineighbor_alltoallv, from(left, 0, 0), ring, out, counts,
                  places, MPI_INT, in, counts, places, MPI_INT)
    COLLECTIVE_ON(Neighbor_alltoallw, Ineighbor_alltoallw, from(left, 0, 0), ring, out, counts,
                  bytes, types, in, counts, bytes, types)
    CALL(Comm_free, &ring);
}

/* ---- derived types ---- */

/* Every second of four ints, however it was put together: sent as such, received in a row. */
static void FORM(through)(MPI_Datatype type, int elements, int stride) {
    MPI_Request request;
    CALL(Type_commit, &type);
    fresh();
    CALL(FORM(Irecv), in, elements, MPI_INT, left, TAG, world, &request);
    CALL(FORM(Send), out, 1, type, right, TAG, world);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    for (int i = 0; i < elements; i++)
        EXPECT(in[i], value(left, stride * i));
    EXPECT(in[elements], -1);
    CALL(Type_free, &type);
    EXPECT(type == MPI_DATATYPE_NULL, true);
}

static void FORM(types)(void) {
    MPI_Datatype type, inner, opened;
    const COUNT lengths[2] = {1, 1}, places[2] = {0, 2}, sizes[1] = {4}, parts[1] = {2},
                starts[1] = {0};
    const BYTES bytes[2] = {0, 2 * sizeof(int)};
    const MPI_Datatype olds[2] = {MPI_INT, MPI_INT};
    const int how[1] = {MPI_DISTRIBUTE_BLOCK}, all[1] = {MPI_DISTRIBUTE_DFLT_DARG}, one[1] = {1};
    CALL(FORM(Type_contiguous), 2, MPI_INT, &type);
    FORM(through)(type, 2, 1);
    CALL(FORM(Type_vector), 2, 1, 2, MPI_INT, &type);
    FORM(through)(type, 2, 2);
    CALL(FORM(Type_create_hvector), 2, 1, 2 * sizeof(int), MPI_INT, &type);
    FORM(through)(type, 2, 2);
    CALL(FORM(Type_indexed), 2, lengths, places, MPI_INT, &type);
    FORM(through)(type, 2, 2);
    CALL(FORM(Type_create_hindexed), 2, lengths, bytes, MPI_INT, &type);
    FORM(through)(type, 2, 2);
    CALL(FORM(Type_create_indexed_block), 2, 1, places, MPI_INT, &type);
    FORM(through)(type, 2, 2);
    CALL(FORM(Type_create_hindexed_block), 2, 1, bytes, MPI_INT, &type);
    FORM(through)(type, 2, 2);
    CALL(FORM(Type_create_struct), 2, lengths, bytes, olds, &type);
    FORM(through)(type, 2, 2);
    CALL(FORM(Type_create_subarray), 1, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &type);
    FORM(through)(type, 2, 1);
    CALL(FORM(Type_create_darray), 1, 0, 1, sizes, how, all, one, MPI_ORDER_C, MPI_INT, &type);
    FORM(through)(type, 4, 1);
    CALL(FORM(Type_create_resized), MPI_INT, 0, 2 * sizeof(int), &inner);
    CALL(Type_dup, inner, &type);
    CALL(Type_free, &inner);
    CALL(FORM(Type_contiguous), 2, type, &inner);

    COUNT bytes_in_all = -1;
    opened = FORM(held_by)(inner);
    BYTES low = -1, extent = -1;
    CALL(FORM(Type_get_extent), opened, &low, &extent);
    EXPECT(extent, 2 * sizeof(int));
    CALL(FORM(Type_get_true_extent), opened, &low, &extent);
    EXPECT(extent, sizeof(int));
    CALL(FORM(Type_size), inner, &bytes_in_all);
    EXPECT(bytes_in_all, 2 * sizeof(int));
    CALL(Type_free, &opened);
    CALL(Type_free, &type);
    FORM(through)(inner, 2, 2);
}

static void FORM(sum_of)(void *with, void *result, COUNT *n, MPI_Datatype *type) {
    (void)type;
    for (COUNT i = 0; i < *n; i++)
        ((int *)result)[i] += ((int *)with)[i];
}

static void FORM(packed)(void) {
    char box[256];
    BYTES at = 0, filled, external = -1;
    COUNT room = -1;
    MPI_Op op;
    fresh();
    CALL(FORM(Pack_size), ELEMENTS, MPI_INT, world, &room);
    EXPECT(room >= ELEMENTS * (COUNT)sizeof(int) && room < (COUNT)sizeof box, true);
    COUNT place = 0;
    CALL(FORM(Pack), out, ELEMENTS, MPI_INT, box, sizeof box, &place, world);
    filled = place;
    place = 0;
    CALL(FORM(Unpack), box, (COUNT)filled, &place, in, ELEMENTS, MPI_INT, world);
    from(rank, 0, 0);
    fresh();
    CALL(FORM(Pack_external_size), "external32", ELEMENTS, MPI_INT, &external);
    EXPECT(external, 4 * ELEMENTS);
    CALL(FORM(Pack_external), "external32", out, ELEMENTS, MPI_INT, box, sizeof box, &at);
    filled = at;
    at = 0;
    CALL(FORM(Unpack_external), "external32", box, filled, &at, in, ELEMENTS, MPI_INT);
    from(rank, 0, 0);

    fresh();
    CALL(FORM(Op_create), FORM(sum_of), 1, &op);
    CALL(FORM(Allreduce), out, in, ELEMENTS, MPI_INT, op, world);
    SUM_OF(size, 0);
    CALL(Op_free, &op);
}

/* ---- one-sided ---- */

/* A window over `in`; `out` goes to the right, so that the left one's comes. */
static void FORM(windows)(void) {
    MPI_Win win;
    void *base = NULL;
    MPI_Aint bytes = 0;
    fresh();
    CALL(FORM(Win_create), in, sizeof in, sizeof(int), MPI_INFO_NULL, world, &win);
    CALL(Win_set_errhandler, win, MPI_ERRORS_RETURN);
    CALL(Win_fence, MPI_MODE_NOPRECEDE, win);
    CALL(FORM(Put), out, ELEMENTS, MPI_INT, right, 0, ELEMENTS, MPI_INT, win);
    CALL(Win_fence, MPI_MODE_NOSUCCEED, win);
    from(left, 0, 0);
    CALL(Win_free, &win);
    EXPECT(win == MPI_WIN_NULL, true);

    fresh();
    CALL(FORM(Win_allocate), sizeof in, sizeof(int), MPI_INFO_NULL, world, &base, &win);
    CALL(Win_fence, 0, win);
    CALL(FORM(Put), out, ELEMENTS, MPI_INT, right, 0, ELEMENTS, MPI_INT, win);
    CALL(Win_fence, 0, win);
    EXPECT(((int *)base)[1], value(left, 1));
    CALL(Win_free, &win);

    CALL(FORM(Win_allocate_shared), sizeof in, sizeof(int), MPI_INFO_NULL, world, &base, &win);
    CALL(Win_lock_all, 0, win);
    ((int *)base)[0] = value(rank, 0);
    CALL(Win_sync, win);
    CALL(Barrier, world);
    CALL(Win_sync, win);
    void *his = NULL;
    UNIT unit = 0;
    CALL(FORM(Win_shared_query), win, left, &bytes, &unit, &his);
    EXPECT(unit, sizeof(int));
    EXPECT(bytes, sizeof in);
    EXPECT(((int *)his)[0], value(left, 0));
    CALL(Win_unlock_all, win);
    CALL(Win_free, &win);

    MPI_Aint mine, his_place;
    fresh();
    CALL(Win_create_dynamic, MPI_INFO_NULL, world, &win);
    CALL(Win_attach, win, in, sizeof in);
    CALL(Get_address, in, &mine);
    CALL(Sendrecv, &mine, 1, MPI_AINT, left, TAG, &his_place, 1, MPI_AINT, right, TAG, world,
         MPI_STATUS_IGNORE);
    CALL(Win_fence, 0, win);
    CALL(FORM(Put), out, ELEMENTS, MPI_INT, right, his_place, ELEMENTS, MPI_INT, win);
    CALL(Win_fence, 0, win);
    from(left, 0, 0);
    CALL(Win_detach, win, in);
    CALL(Win_free, &win);
}

static void FORM(one_sided)(void) {
    MPI_Win win;
    MPI_Group all, to, of;
    MPI_Request request;
    int flag = 0, got[ELEMENTS] = {0};
    fresh();
    CALL(FORM(Win_create), in, sizeof in, sizeof(int), MPI_INFO_NULL, world, &win);
    CALL(Win_set_name, win, "ringside");
    CALL(Win_get_group, win, &all);
    CALL(Group_incl, all, 1, &right, &to);
    CALL(Group_incl, all, 1, &left, &of);

    for (int way = 0; way < 2; way++) { /* post, start, complete, and either wait or test */
        fresh();
        CALL(Win_post, of, 0, win);
        CALL(Win_start, to, 0, win);
        CALL(FORM(Put), out, ELEMENTS, MPI_INT, right, 0, ELEMENTS, MPI_INT, win);
        CALL(Win_complete, win);
        const double begun = MPI_Wtime();
        if (way == 0)
            CALL(Win_wait, win);
        else
            do
                CALL(Win_test, win, &flag);
            while (!flag && again(begun));
        from(left, 0, 0);
        CALL(Barrier, world);
    }

    fresh();
    CALL(Barrier, world);
    CALL(Win_lock, MPI_LOCK_EXCLUSIVE, right, 0, win);
    CALL(FORM(Put), out, ELEMENTS, MPI_INT, right, 0, ELEMENTS, MPI_INT, win);
    CALL(Win_flush, right, win);
    CALL(FORM(Get), got, ELEMENTS, MPI_INT, right, 0, ELEMENTS, MPI_INT, win);
    CALL(Win_flush_local, right, win);
    CALL(Win_unlock, right, win);
    EXPECT(got[1], out[1]);
    CALL(Barrier, world);
    CALL(Win_lock, MPI_LOCK_SHARED, rank, 0, win);
    from(left, 0, 0);
    CALL(Win_unlock, rank, win);
    CALL(Barrier, world);

    /* everybody adds to rank 0 */
    fresh();
    in[0] = in[1] = in[2] = 0;
    CALL(Barrier, world);
    CALL(Win_lock_all, 0, win);
    const int one = 1, zero = 0;
    int before = -1;
    CALL(FORM(Accumulate), &one, 1, MPI_INT, 0, 0, 1, MPI_INT, MPI_SUM, win);
    CALL(Win_flush_all, win);
    CALL(FORM(Get_accumulate), &one, 1, MPI_INT, &before, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM,
         win);
    CALL(Win_flush_local_all, win);
    EXPECT(before >= 0 && before < 2 * size, true);
    CALL(Fetch_and_op, &one, &before, MPI_INT, 0, 1, MPI_SUM, win);
    CALL(Compare_and_swap, &one, &zero, &before, MPI_INT, 0, 2, win);
    CALL(Win_flush, 0, win);
    CALL(Win_unlock_all, win);
    CALL(Barrier, world);
    CALL(Win_lock, MPI_LOCK_SHARED, rank, 0, win);
    if (rank == 0) {
        EXPECT(in[0], size);
        EXPECT(in[1], 2 * size);
        EXPECT(in[2], 1);
    }
    CALL(Win_unlock, rank, win);
    CALL(Barrier, world);

    /* with requests */
    fresh();
    in[ROOM - 2] = 0;
    CALL(Barrier, world);
    CALL(Win_lock_all, MPI_MODE_NOCHECK, win);
    CALL(FORM(Rput), out, ELEMENTS, MPI_INT, right, 0, ELEMENTS, MPI_INT, win, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    CALL(Win_flush, right, win);
    CALL(FORM(Rget), got, ELEMENTS, MPI_INT, right, 0, ELEMENTS, MPI_INT, win, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    EXPECT(got[1], out[1]);
    CALL(FORM(Raccumulate), &one, 1, MPI_INT, right, ROOM - 2, 1, MPI_INT, MPI_SUM, win, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    CALL(Win_flush, right, win);
    CALL(FORM(Rget_accumulate), &one, 1, MPI_INT, &before, 1, MPI_INT, right, ROOM - 2, 1, MPI_INT,
         MPI_SUM, win, &request);
    CALL(Wait, &request, MPI_STATUS_IGNORE);
    EXPECT(before, 1);
    CALL(Win_unlock_all, win);
    CALL(Barrier, world);
    CALL(Win_lock, MPI_LOCK_SHARED, rank, 0, win);
    from(left, 0, 0);
    EXPECT(in[ROOM - 2], 2);
    CALL(Win_unlock, rank, win);
    CALL(Group_free, &of);
    CALL(Group_free, &to);
    CALL(Group_free, &all);
    CALL(Win_free, &win);
}

/* ---- files ---- */

/* One file of all ranks; rank r has the bytes from r * ELEMENTS ints on, in turn after turn. */
#define READ_BACK                                                                 \
    CALL(File_sync, file);                                                        \
    CALL(Barrier, world);                                                         \
    CALL(File_sync, file)

#define WRITTEN_AND_READ(writes, reads)                                           \
    fresh();                                                                      \
    writes;                                                                       \
    READ_BACK;                                                                    \
    reads;                                                                        \
    from(rank, 0, 0);                                                             \
    CALL(Barrier, world);

#define AT_START CALL(File_seek, file, 0, MPI_SEEK_SET)
#define SHARED_AT_START                                                           \
    CALL(Barrier, world);                                                         \
    CALL(File_seek_shared, file, 0, MPI_SEEK_SET)
#define OUT out, ELEMENTS, MPI_INT
#define IN in, ELEMENTS, MPI_INT
#define DONE CALL(Wait, &request, MPI_STATUS_IGNORE)

static void FORM(files)(void) {
    MPI_File file;
    MPI_Request request;
    MPI_Status status;
    MPI_Offset bytes = -1;
    MPI_Info info;
    int atomic = -1;
    char path[4096];
    snprintf(path, sizeof path, "%s/file", directory);
    CALL(File_open, world, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    CALL(File_set_errhandler, file, MPI_ERRORS_RETURN);
    CALL(File_set_size, file, 0);
    CALL(File_preallocate, file, (MPI_Offset)sizeof(int) * ELEMENTS * size);
    CALL(File_get_size, file, &bytes);
    EXPECT(bytes, sizeof(int) * ELEMENTS * size);

    MPI_Offset place = (MPI_Offset)sizeof(int) * ELEMENTS * rank;
    WRITTEN_AND_READ(CALL(FORM(File_write_at), file, place, OUT, &status),
                     CALL(FORM(File_read_at), file, place, IN, &status))
    WRITTEN_AND_READ(CALL(FORM(File_write_at_all), file, place, OUT, &status),
                     CALL(FORM(File_read_at_all), file, place, IN, &status))
    WRITTEN_AND_READ(CALL(FORM(File_iwrite_at), file, place, OUT, &request); DONE,
                     CALL(FORM(File_iread_at), file, place, IN, &request); DONE)
    WRITTEN_AND_READ(CALL(FORM(File_iwrite_at_all), file, place, OUT, &request); DONE,
                     CALL(FORM(File_iread_at_all), file, place, IN, &request); DONE)
    WRITTEN_AND_READ(CALL(FORM(File_write_at_all_begin), file, place, OUT);
                     CALL(File_write_at_all_end, file, out, &status),
                     CALL(FORM(File_read_at_all_begin), file, place, IN);
                     CALL(File_read_at_all_end, file, in, &status))

    CALL(File_set_view, file, place, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    WRITTEN_AND_READ(AT_START; CALL(FORM(File_write), file, OUT, &status),
                     AT_START; CALL(FORM(File_read), file, IN, &status))
    WRITTEN_AND_READ(AT_START; CALL(FORM(File_write_all), file, OUT, &status),
                     AT_START; CALL(FORM(File_read_all), file, IN, &status))
    WRITTEN_AND_READ(AT_START; CALL(FORM(File_iwrite), file, OUT, &request); DONE,
                     AT_START; CALL(FORM(File_iread), file, IN, &request); DONE)
    WRITTEN_AND_READ(AT_START; CALL(FORM(File_iwrite_all), file, OUT, &request); DONE,
                     AT_START; CALL(FORM(File_iread_all), file, IN, &request); DONE)
    WRITTEN_AND_READ(AT_START; CALL(FORM(File_write_all_begin), file, OUT);
                     CALL(File_write_all_end, file, out, &status),
                     AT_START; CALL(FORM(File_read_all_begin), file, IN);
                     CALL(File_read_all_end, file, in, &status))

    CALL(File_set_view, file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    WRITTEN_AND_READ(SHARED_AT_START; CALL(FORM(File_write_ordered), file, OUT, &status),
                     SHARED_AT_START; CALL(FORM(File_read_ordered), file, IN, &status))
    WRITTEN_AND_READ(SHARED_AT_START; CALL(FORM(File_write_ordered_begin), file, OUT);
                     CALL(File_write_ordered_end, file, out, &status),
                     SHARED_AT_START; CALL(FORM(File_read_ordered_begin), file, IN);
                     CALL(File_read_ordered_end, file, in, &status))
    /* in whatever order the ranks come, they are whole */
    fresh();
    SHARED_AT_START;
    CALL(FORM(File_write_shared), file, OUT, &status);
    CALL(FORM(File_iwrite_shared), file, OUT, &request);
    DONE;
    READ_BACK;
    SHARED_AT_START;
    CALL(FORM(File_read_shared), file, IN, &status);
    EXPECT(in[1] - in[0], 1);
    CALL(FORM(File_iread_shared), file, IN, &request);
    DONE;
    EXPECT(in[1] - in[0], 1);

    CALL(File_set_atomicity, file, 1);
    CALL(File_get_atomicity, file, &atomic);
    EXPECT(atomic, true);
    CALL(File_get_info, file, &info);
    CALL(File_set_info, file, info);
    CALL(Info_free, &info);
    CALL(File_close, &file);
    EXPECT(file == MPI_FILE_NULL, true);
    CALL(Barrier, world);
    if (rank == 0)
        CALL(File_delete, path, MPI_INFO_NULL);
    CALL(Barrier, world);
}

#undef SENT_BY
#undef STARTED_BY
#undef RESTARTED_BY
#undef PERSISTENT
#undef COLLECTIVE_ON
#undef COLLECTIVE
#undef SUM_OF
#undef FROM_ALL
#undef NOTHING_CAME
#undef LAID_OUT
#undef READ_BACK
#undef WRITTEN_AND_READ
#undef AT_START
#undef SHARED_AT_START
#undef OUT
#undef IN
#undef DONE
