/* The scaffold of the halo exchange: see halo.h. Grid and set-up; content, timing and verification;
 * and what Python and main call. */
#include "halo.h"

#include <stdlib.h>
#include <string.h>

enum { TRIPS, PARTITIONS };

static const struct ringside_setting SETTINGS[] = {
    {"trips", 0, 0, 1000000,
     "exchanges in one repetition; 0: as many as bring 4 MiB in, up to 20"},
    {"partitions", 4, 1, 1000, "partitioned: parts of a face, fewer if they would be uneven"},
    {NULL, 0, 0, 0, NULL},
};

static const double POISON = -1.0; /* no face holds it */

static int64_t doubles_of_all_faces(int64_t count) { return FACES * (count > 0 ? count : 1); }

static double *block(double *faces, const struct halo *h, int s) {
    return faces + (size_t)s * (size_t)h->count;
}

/* ---- set-up ---- */

/* The grid of a communicator that has one, else one that MPI chooses. Not collective. */
static int choose_grid(struct halo *h, MPI_Comm comm) {
    int topology, dimensions = 0, size, periods[DIMENSIONS] = {1, 1, 1};
    TRY(MPI_Topo_test(comm, &topology));
    TRY(MPI_Comm_size(comm, &size));
    if (topology != MPI_CART)
        return MPI_Dims_create(size, DIMENSIONS, h->dims);
    TRY(MPI_Cartdim_get(comm, &dimensions));
    if (dimensions == DIMENSIONS)
        TRY(MPI_Cart_get(comm, DIMENSIONS, h->dims, periods, h->coords));
    if (dimensions == DIMENSIONS && periods[0] && periods[1] && periods[2])
        return MPI_SUCCESS;
    h->remark = "the communicator's own grid is not periodic in three dimensions";
    return RINGSIDE_UNSUITABLE;
}

static int make_grid(struct halo *h, MPI_Comm comm) {
    const int periods[DIMENSIONS] = {1, 1, 1};
    TRY(MPI_Cart_create(comm, DIMENSIONS, h->dims, periods, 0, &h->comm));
    TRY(MPI_Comm_set_errhandler(h->comm, MPI_ERRORS_RETURN));
    TRY(MPI_Comm_rank(h->comm, &h->rank));
    TRY(MPI_Cart_coords(h->comm, h->rank, DIMENSIONS, h->coords));
    for (int d = 0; d < DIMENSIONS; d++)
        TRY(MPI_Cart_shift(h->comm, d, 1, &h->neighbour[2 * d], &h->neighbour[2 * d + 1]));
    return MPI_SUCCESS;
}

/* What a rank sends in a direction, exact in a double for 600,000 ranks: the rank, the direction
 * and the position in the face. */
static double content(int rank, int direction, int64_t i) {
    return ((double)rank * FACES + direction) * 2147483648.0 + (double)i;
}

/* Where the library puts the blocks, seen from an exchange. MPI 4.1, section 8.6: block s arrives
 * as block s ^ 1 of the neighbour, also where one rank is the neighbour on both sides. Libraries
 * have been wrong there; the halos are then read from where they are. */
static int find_places(struct halo *h, const struct halo_method *method) {
    int swapped = 0, found = 0;
    for (int s = 0; s < FACES; s++) {
        block(h->outgoing, h, s)[0] = content(h->rank, s, 0);
        block(h->incoming, h, s)[0] = POISON;
    }
    TRY(method->exchange(h));
    for (int s = 0; s < FACES; s++)
        for (int b = 0; b < FACES; b++)
            if (block(h->incoming, h, b)[0] == content(h->neighbour[s], s ^ 1, 0)) {
                h->place[s] = b;
                swapped += b != s;
                found += 1;
            }
    if (swapped > 0)
        h->remark = "this library puts the two blocks of a dimension with 1 or 2 ranks the wrong "
                    "way round (MPI 4.1, section 8.6); each halo is read from where it is";
    if (found == FACES)
        return MPI_SUCCESS;
    h->remark = "this library does not deliver the blocks that MPI 4.1, section 8.6, asks for";
    return RINGSIDE_UNSUITABLE;
}

/* A library may have a call and yet refuse it. */
static int translate(struct halo *h, int code) {
    int class = MPI_SUCCESS;
    if (code <= MPI_SUCCESS)
        return code;
    TRY(MPI_Error_class(code, &class));
    if (class != MPI_ERR_UNSUPPORTED_OPERATION)
        return code;
    h->remark = "this MPI library has the calls, and refuses them as not supported";
    return RINGSIDE_UNSUITABLE;
}

/* The method's own set-up; all ranks leave with the same code, unless an MPI call failed. */
static int open_method(struct halo *h, const struct halo_method *method) {
    int code = method->open == NULL ? MPI_SUCCESS : translate(h, method->open(h));
    if (code == MPI_SUCCESS && method->flags & TRIED_FIRST && h->count > 0)
        code = translate(h, find_places(h, method));
    if (code > MPI_SUCCESS)
        return code;
    int worst = code;
    TRY(MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MIN, h->comm));
    if (worst != MPI_SUCCESS && code == MPI_SUCCESS)
        h->remark = "another rank says that it cannot be done";
    return worst;
}

/* Collective over comm. `own` is this rank's RINGSIDE_ code so far; without one, count, partitions
 * and method are good. To be followed by close_halo, whatever is returned. */
static int open_halo(struct halo *h, MPI_Comm comm, const struct halo_method *method, int own,
                     const int64_t arguments[RINGSIDE_ARGUMENTS]) {
    const int64_t bytes = doubles_of_all_faces(h->count) * (int64_t)sizeof(double);
    if (own == MPI_SUCCESS)
        own = choose_grid(h, comm);
    if (own > MPI_SUCCESS)
        return own;
    if (own == MPI_SUCCESS && method->refuse != NULL) {
        h->remark = method->refuse(h);
        own = h->remark == NULL ? MPI_SUCCESS : RINGSIDE_UNSUITABLE;
    }
    if (own == MPI_SUCCESS) {
        if (!(method->flags & WINDOW_OUTGOING))
            h->outgoing = ringside_allocate(bytes);
        if (!(method->flags & WINDOW_INCOMING))
            h->incoming = ringside_allocate(bytes);
        if ((h->outgoing == NULL && !(method->flags & WINDOW_OUTGOING)) ||
            (h->incoming == NULL && !(method->flags & WINDOW_INCOMING)))
            own = RINGSIDE_NO_MEMORY;
    }
    const int code = ringside_agree(comm, own, 2 * bytes, arguments);
    if (code != MPI_SUCCESS)
        return code;
    TRY(make_grid(h, comm));
    return open_method(h, method);
}

/* ---- the end, also after an error ---- */

/* To free a window is collective, and waits inside the library where no scope can end it. So the
 * ranks meet first, and one that failed, which nobody may wait for, keeps its window. */
static int free_window(struct halo *h, int flags) {
    TRY(MPI_Barrier(h->comm));
    if (flags & WINDOW_OUTGOING)
        TRY(MPI_Win_unlock_all(h->window));
    TRY(MPI_Win_free(&h->window));
    if (flags & WINDOW_OUTGOING)
        h->outgoing = NULL;
    else
        h->incoming = NULL;
    return MPI_SUCCESS;
}

/* Returns `code`, or the first error of its own. The communicator is freed by every rank, and
 * without waiting for the others in the libraries known. */
static int close_halo(struct halo *h, const struct halo_method *method, int code) {
    const int flags = method == NULL ? 0 : method->flags;
    int own = MPI_SUCCESS;
    const int hidden = flags & NO_STATUS && code > MPI_SUCCESS;
    const int quiet = !hidden && ringside_withdraw(h->requests, 2 * FACES, FACES) &&
                      ringside_withdraw(&h->collective, 1, 0);
    if (h->window != MPI_WIN_NULL && code <= MPI_SUCCESS)
        own = free_window(h, flags);
    if (h->comm != MPI_COMM_NULL) {
        const int freed = MPI_Comm_free(&h->comm);
        own = own == MPI_SUCCESS ? freed : own;
    }
    /* Memory that MPI may still write to is better lost than given back. */
    if (quiet && h->window == MPI_WIN_NULL) {
        free(h->outgoing);
        free(h->incoming);
    }
    return code > MPI_SUCCESS || own == MPI_SUCCESS ? code : own;
}

static struct halo nothing_yet(void) {
    struct halo h = {.comm = MPI_COMM_NULL, .collective = MPI_REQUEST_NULL, .window = MPI_WIN_NULL};
    for (int i = 0; i < 2 * FACES; i++)
        h.requests[i] = MPI_REQUEST_NULL;
    for (int s = 0; s < FACES; s++)
        h.place[s] = s;
    return h;
}

/* ---- content, timing, verification ---- */

static void fill_faces(struct halo *h) {
    for (int s = 0; s < FACES; s++)
        for (int i = 0; i < h->count; i++)
            block(h->outgoing, h, s)[i] = content(h->rank, s, i);
}

static void poison_faces(struct halo *h) {
    for (size_t i = 0; i < FACES * (size_t)h->count; i++)
        h->incoming[i] = POISON;
}

/* The first and the last element say whether it is the repetition's last exchange, or the first and
 * those that repeat it, so that an old face is noticed: below zero, which else only the poison is. */
static double stamp(int rank, int direction, int64_t i, int trip) {
    return -(content(rank, direction, i) + 2 + trip);
}

static void stamp_faces(struct halo *h, int trip) {
    const int last = h->count - 1;
    for (int s = 0; s < FACES && h->count > 0; s++) {
        block(h->outgoing, h, s)[0] = stamp(h->rank, s, 0, trip);
        block(h->outgoing, h, s)[last] = stamp(h->rank, s, last, trip);
    }
}

static int64_t count_wrong_elements(struct halo *h, int trip) {
    int64_t wrong = 0;
    const int last = h->count - 1;
    for (int s = 0; s < FACES; s++) {
        const double *halo = block(h->incoming, h, h->place[s]);
        for (int i = 0; i <= last; i++)
            wrong += halo[i] != (i == 0 || i == last ? stamp(h->neighbour[s], s ^ 1, i, trip)
                                                     : content(h->neighbour[s], s ^ 1, i));
    }
    return wrong;
}

/* Poison, exchange, verify. The first exchange brings the ranks into step and is not timed. */
static int swap_and_verify(struct halo *h, int (*exchange)(struct halo *), int trips,
                           double *seconds, int64_t *wrong) {
    double start = 0;
    poison_faces(h);
    TRY(MPI_Barrier(h->comm));
    for (int trip = 0; trip <= trips; trip++) {
        if (trip == 1)
            start = MPI_Wtime();
        if (trip == 0 || trip == trips)
            stamp_faces(h, trip);
        TRY(exchange(h));
    }
    *seconds = (MPI_Wtime() - start) / trips;
    *wrong += count_wrong_elements(h, trips);
    return MPI_SUCCESS;
}

static int choose_trips(int64_t wished, int count) {
    enum { FULL = 4 << 20, MOST = 20 };
    const int64_t trips = FULL / (doubles_of_all_faces(count) * (int64_t)sizeof(double));
    if (wished > 0)
        return (int)wished;
    return trips > MOST ? MOST : trips < 1 ? 1 : (int)trips;
}

/* ---- the kernel ---- */

static const char *variant(int index) {
    for (int i = 0; i < index; i++)
        if (halo_methods[i].name == NULL)
            return NULL;
    return index < 0 ? NULL : halo_methods[index].name;
}

static int run(MPI_Comm comm, const char *name, int64_t doubles, const int64_t *settings,
               int repetitions, double *seconds, int64_t *wrong) {
    const int chosen = ringside_find(variant, name);
    const struct halo_method *method = chosen < 0 ? NULL : &halo_methods[chosen];
    int64_t arguments[RINGSIDE_ARGUMENTS] = {chosen, doubles, repetitions};
    int64_t *const chosen_settings = &arguments[3];
    struct halo h = nothing_yet();
    *wrong = 0;

    int code = ringside_read_settings(SETTINGS, settings, chosen_settings);
    if (method == NULL)
        code = RINGSIDE_UNKNOWN_VARIANT;
    else if (doubles < 0 || doubles > ringside_halo.most)
        code = RINGSIDE_BAD_COUNT;
    else if (repetitions < 1 || repetitions > RINGSIDE_MAX_REPETITIONS)
        code = RINGSIDE_BAD_REPETITIONS;
    else if (seconds == NULL)
        code = RINGSIDE_NO_MEMORY;
    if (code == MPI_SUCCESS) {
        h.count = (int)doubles;
        h.partitions = (int)chosen_settings[PARTITIONS];
    }
    code = open_halo(&h, comm, method, code, arguments);
    if (code == MPI_SUCCESS)
        fill_faces(&h);
    const int exchanges = choose_trips(chosen_settings[TRIPS], h.count);
    for (int i = 0; i < repetitions && code == MPI_SUCCESS; i++)
        code = swap_and_verify(&h, method->exchange, exchanges, &seconds[i], wrong);
    if (code == MPI_SUCCESS && *wrong > 0)
        code = RINGSIDE_WRONG_DATA;
    return close_halo(&h, method, code);
}

static const char *why(MPI_Comm comm, const char *name) {
    const int chosen = ringside_find(variant, name);
    const struct halo_method *method = chosen < 0 ? NULL : &halo_methods[chosen];
    const int64_t arguments[RINGSIDE_ARGUMENTS] = {chosen};
    struct halo h = nothing_yet();
    h.count = h.partitions = 1;
    const int code = open_halo(&h, comm, method,
                               method == NULL ? RINGSIDE_UNKNOWN_VARIANT : MPI_SUCCESS, arguments);
    close_halo(&h, method, code);
    return h.remark;
}

int ringside_halo_exchange(MPI_Comm comm, const char *name, int64_t doubles,
                           const double *outgoing, double *incoming) {
    const int chosen = ringside_find(variant, name);
    const struct halo_method *method = chosen < 0 ? NULL : &halo_methods[chosen];
    const int64_t arguments[RINGSIDE_ARGUMENTS] = {chosen, doubles};
    struct halo h = nothing_yet();
    int code = method == NULL ? RINGSIDE_UNKNOWN_VARIANT : MPI_SUCCESS;
    if (doubles < 0 || doubles > ringside_halo.most)
        code = RINGSIDE_BAD_COUNT;
    else
        h.count = (int)doubles;
    h.partitions = (int)SETTINGS[PARTITIONS].usual;

    /* By way of memory of its own: after an error the caller's is free to go, and MPI may still
     * be at work on this. */
    code = open_halo(&h, comm, method, code, arguments);
    const size_t bytes = (size_t)h.count * sizeof(double);
    if (code == MPI_SUCCESS && bytes > 0)
        memcpy(h.outgoing, outgoing, FACES * bytes);
    if (code == MPI_SUCCESS)
        code = method->exchange(&h);
    for (int s = 0; s < FACES && code == MPI_SUCCESS && bytes > 0; s++)
        memcpy(block(incoming, &h, s), block(h.incoming, &h, h.place[s]), bytes);
    return close_halo(&h, method, code);
}

const struct ringside_kernel ringside_halo = {
    .name = "halo",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .usual = 10000,
    .most = 2147483647,
    .messages = 2 * FACES,
    .least_ranks = 1,
    .halos = FACES,
    .settings = SETTINGS,
    .variant = variant,
    .why = why,
    .run = run,
};
