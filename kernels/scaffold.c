/* The scaffold: see scaffold.h. */
#include "scaffold.h"

#include <stdlib.h>
#include <string.h>

/* ---- the variant and the arguments ---- */

const char *ringside_variant(const struct ringside_kernel *kernel, int index) {
    for (int i = 0; i < index; i++)
        if (kernel->variants[i].name == NULL)
            return NULL;
    return index < 0 ? NULL : kernel->variants[index].name;
}

int ringside_find(const struct ringside_kernel *kernel, const char *variant) {
    for (int i = 0; variant != NULL && kernel->variants[i].name != NULL; i++)
        if (strcmp(kernel->variants[i].name, variant) == 0)
            return i;
    return -1;
}

/* Copies the settings given, or all by default where that is NULL. */
static int read_settings(struct exchange *e, const int64_t *given) {
    int code = MPI_SUCCESS;
    for (int i = 0; e->kernel->settings[i].name != NULL; i++) {
        const struct ringside_setting *s = &e->kernel->settings[i];
        e->settings[i] = given == NULL ? s->default_value : given[i];
        if (e->settings[i] < s->minimum || e->settings[i] > s->maximum)
            code = RINGSIDE_BAD_SETTING;
    }
    return code;
}

/* Whether this rank could carry it out; fills *e. Nothing is sent. */
static int check(struct exchange *e, int64_t count, int repetitions, const int64_t *settings) {
    const struct ringside_kernel *kernel = e->kernel;
    if (e->variant == NULL)
        return RINGSIDE_UNKNOWN_VARIANT;
    if (count < 0 || count > kernel->maximum_count)
        return RINGSIDE_BAD_COUNT;
    if (repetitions < 1 || repetitions > RINGSIDE_MAX_REPETITIONS)
        return RINGSIDE_BAD_REPETITIONS;
    if (e->size < kernel->minimum_ranks)
        return RINGSIDE_BAD_RANKS;
    TRY(read_settings(e, settings));
    e->count = (int)count;
    e->type = kernel->unit_bytes == 1 ? MPI_BYTE : MPI_DOUBLE;
    if (kernel->own_bytes > 0 && (e->own = calloc(1, kernel->own_bytes)) == NULL)
        return RINGSIDE_NO_MEMORY;
    TRY(kernel->prepare(e));
    if ((e->remark = e->variant->lacking) != NULL)
        return RINGSIDE_UNSUITABLE;
    if (!e->idle)
        kernel->content->allocate(e);
    return e->no_memory ? RINGSIDE_NO_MEMORY : MPI_SUCCESS;
}

/* ---- agreement: all ranks go on, or all leave with the same error ---- */

enum { ARGUMENTS = 3 + RINGSIDE_MAX_SETTINGS };

/* Whether `bytes` leaves a tenth of what is available. */
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

/* Called by every rank, also by one that has found an error of its own. Returns the same code
 * everywhere, or an MPI error code. */
static int agree(MPI_Comm comm, int own, int size, int64_t bytes,
                 const int64_t arguments[ARGUMENTS]) {
    /* One reduction tells the worst error, whether memory is ample even if all ranks share this
     * node, and the least and (complemented) the greatest of each argument. */
    const int64_t available = ringside_available_bytes();
    const int ample = fits(bytes, available / size);
    int64_t least[2 + 2 * ARGUMENTS] = {own, ample};
    for (int i = 0; i < ARGUMENTS; i++) {
        least[2 + 2 * i] = arguments[i];
        least[3 + 2 * i] = ~arguments[i]; /* falls as the argument grows, and cannot overflow */
    }
    TRY(MPI_Allreduce(MPI_IN_PLACE, least, 2 + 2 * ARGUMENTS, MPI_INT64_T, MPI_MIN, comm));

    if (least[0] != MPI_SUCCESS)
        return (int)least[0];
    for (int i = 0; i < ARGUMENTS; i++)
        if (least[2 + 2 * i] != ~least[3 + 2 * i])
            return RINGSIDE_ARGUMENTS_DIFFER;
    return least[1] ? MPI_SUCCESS : agree_on_memory(comm, bytes, available);
}

/* ---- begin ---- */

/* A library may have a call and yet refuse it. */
static int translate(struct exchange *e, int code) {
    int class = MPI_SUCCESS;
    if (code <= MPI_SUCCESS)
        return code;
    TRY(MPI_Error_class(code, &class));
    if (class != MPI_ERR_UNSUPPORTED_OPERATION)
        return code;
    e->remark = "this MPI library has the calls, and refuses them as not supported";
    return RINGSIDE_UNSUITABLE;
}

/* The kernel's set-up and the variant's. All leave with one code, unless an MPI call failed. */
static int set_up(struct exchange *e) {
    if (e->kernel->open == NULL && e->variant->open == NULL)
        return MPI_SUCCESS;
    int code = e->kernel->open == NULL ? MPI_SUCCESS : e->kernel->open(e);
    if (code == MPI_SUCCESS && e->variant->open != NULL)
        code = e->variant->open(e);
    code = translate(e, code);
    if (code > MPI_SUCCESS)
        return code;
    int worst = code;
    TRY(MPI_Allreduce(&code, &worst, 1, MPI_INT, MPI_MIN, e->comm));
    if (worst == RINGSIDE_UNSUITABLE && code == MPI_SUCCESS)
        e->remark = "another rank says that it cannot be done";
    return worst;
}

int exchange_begin(struct exchange *e, const struct ringside_kernel *kernel, MPI_Comm comm,
                   const char *variant, int64_t count, int repetitions, const int64_t *settings) {
    const int chosen = ringside_find(kernel, variant);
    e->kernel = kernel;
    e->variant = chosen < 0 ? NULL : &kernel->variants[chosen];
    e->comm = e->callers = comm;
    e->trips = 1;
    TRY(MPI_Comm_rank(comm, &e->rank));
    TRY(MPI_Comm_size(comm, &e->size));

    const int own = check(e, count, repetitions, settings);
    if (own > MPI_SUCCESS)
        return own;
    int64_t arguments[ARGUMENTS] = {chosen, count, repetitions};
    memcpy(&arguments[3], e->settings, sizeof e->settings);
    TRY(agree(comm, own, e->size, e->bytes, arguments));
    return set_up(e);
}

int exchange_grid(struct exchange *e, int dimensions, const int dims[], int periodic) {
    int periods[3] = {periodic, periodic, periodic};
    MPI_Comm grid = MPI_COMM_NULL;
    TRY(MPI_Cart_create(e->comm, dimensions, dims, periods, 0, &grid));
    e->comm = grid;
    return MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
}

void *exchange_allocate(struct exchange *e, int64_t bytes) {
    void *buffer = ringside_allocate(bytes);
    e->bytes += bytes;
    e->buffers[e->n_buffers++] = buffer;
    e->no_memory = e->no_memory || buffer == NULL;
    return buffer;
}

void exchange_requests(struct exchange *e, int n, int receives) {
    e->requests = malloc((size_t)n * sizeof *e->requests);
    if (e->requests == NULL) {
        e->no_memory = 1;
        return;
    }
    for (int i = 0; i < n; i++)
        e->requests[i] = MPI_REQUEST_NULL;
    e->n_requests = n;
    e->receives = receives;
}

int exchange_columns(int count) {
    int rows = 1;
    for (int d = 2; (int64_t)d * d <= count; d++)
        if (count % d == 0)
            rows = d;
    return count > 0 ? count / rows : 1;
}

void exchange_trips(struct exchange *e, int64_t wished, int64_t bytes, int64_t full, int most) {
    const int64_t trips = bytes * most <= full ? most : full / bytes;
    e->untimed = 1;
    e->trips = (int)(wished > 0 ? wished : trips > 0 ? trips : 1);
}

/* ---- repetitions ---- */

int exchange_timed(struct exchange *e, double *seconds) {
    int (*const exchange)(struct exchange *) = e->variant->exchange;
    void (*const stamp)(struct exchange *, int) = e->untimed > 0 ? e->kernel->content->stamp : NULL;
    *seconds = 0;
    TRY(MPI_Barrier(e->comm));
    if (e->idle)
        return MPI_SUCCESS;
    double start = MPI_Wtime();
    for (int trip = 1 - e->untimed; trip <= e->trips; trip++) {
        if (trip == 1)
            start = MPI_Wtime();
        if (stamp != NULL && (trip == 0 || trip == e->trips))
            stamp(e, trip);
        TRY(exchange(e));
    }
    *seconds = MPI_Wtime() - start;
    return MPI_SUCCESS;
}

/* Poison, exchange, verify. */
static int repeat(struct exchange *e, double *seconds, int64_t *wrong) {
    if (!e->idle)
        e->kernel->content->poison(e);
    TRY(exchange_timed(e, seconds));
    *seconds /= e->trips;
    if (!e->idle)
        *wrong += e->kernel->content->verify(e);
    return MPI_SUCCESS;
}

/* ---- end ---- */

/* Frees a request once it is complete; true if there is none left. It asks without MPI_Test,
 * which the scope refuses after it has broken a call, so that no loop of Tests goes on. */
static int finished(MPI_Request *request) {
    int complete = 0;
    if (*request == MPI_REQUEST_NULL)
        return 1;
    return MPI_Request_get_status(*request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
           complete && MPI_Request_free(request) == MPI_SUCCESS;
}

static int all_finished(struct exchange *e) {
    int all = 1;
    for (int i = 0; i < e->n_requests; i++)
        all = finished(&e->requests[i]) && all;
    return all;
}

/* Frees the requests that an error may have left open: takes back the receives and gives all a
 * moment to end. Returns whether all are gone. */
static int withdraw(struct exchange *e) {
    static const double PATIENCE = 0.1; /* seconds */
    const double end = MPI_Wtime() + PATIENCE;
    int all = all_finished(e);
    for (int i = 0; i < e->receives; i++)
        if (e->requests[i] != MPI_REQUEST_NULL)
            MPI_Cancel(&e->requests[i]); /* whether it could be is seen below */
    while (!all && MPI_Wtime() < end)
        all = all_finished(e);
    return all;
}

int exchange_end(struct exchange *e, int code) {
    const int failed = code > MPI_SUCCESS;
    const int opaque = e->variant != NULL && e->variant->opaque;
    e->in_use = (failed && opaque) || !withdraw(e);
    int own = MPI_SUCCESS;
    if (e->own != NULL && e->kernel->close != NULL)
        own = e->kernel->close(e, code);
    if (e->comm != e->callers) { /* not waiting for the others, in the libraries known */
        const int freed = MPI_Comm_free(&e->comm);
        own = own == MPI_SUCCESS ? freed : own;
    }
    for (int i = 0; i < e->n_buffers && !e->in_use; i++)
        free(e->buffers[i]);
    free(e->requests);
    free(e->own);
    return failed || own == MPI_SUCCESS ? code : own;
}

/* ---- what Python and main call ---- */

int ringside_run(const struct ringside_kernel *kernel, MPI_Comm comm, const char *variant,
                 int64_t count, const int64_t *settings, int repetitions, double *seconds,
                 int64_t *wrong) {
    struct exchange e = {.no_memory = seconds == NULL};
    *wrong = 0;
    int code = exchange_begin(&e, kernel, comm, variant, count, repetitions, settings);
    if (code == MPI_SUCCESS && !e.idle)
        kernel->content->fill(&e);
    for (int i = 0; i < repetitions && code == MPI_SUCCESS; i++)
        code = repeat(&e, &seconds[i], wrong);
    if (code == MPI_SUCCESS && *wrong > 0)
        code = RINGSIDE_WRONG_DATA;
    return exchange_end(&e, code);
}

const char *ringside_why(const struct ringside_kernel *kernel, MPI_Comm comm,
                         const char *variant) {
    struct exchange e = {.no_memory = 0};
    exchange_end(&e, exchange_begin(&e, kernel, comm, variant, 1, 1, NULL));
    return e.remark;
}
