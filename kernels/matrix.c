/* The matrix: rank 0 holds it, scatters one block to every rank of a grid, and gathers the blocks
 * again. The variants differ in how a block, which is no contiguous piece of the matrix, becomes a
 * message. What all of them share, and what makes one MPI_Scatterv possible, is how it lies in
 * memory: all blocks but the last in each direction have the same shape, and rank 0 keeps room for
 * the last ones to have it too. */
#include "ringside.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* In the order of SETTINGS. */
enum { COLUMNS, GRID_ROWS };

static const struct ringside_setting SETTINGS[] = {
    {"columns", 0, 0, INT_MAX, "columns of the matrix; 0: as square as its doubles allow"},
    {"grid", 0, 0, 1000000, "rows of the grid of ranks; 0: those of MPI_Dims_create"},
    {NULL, 0, 0, 0, NULL},
};

static const double POISON = -1.0; /* no element of a matrix holds it */

struct matrix {
    MPI_Comm comm;
    int rank, size;
    int rows, columns, grid_rows, grid_columns;
    int height, width; /* of a block; the last ones may have less */
    int line;          /* doubles from one row of the matrix to the next: all blocks at full width */
    double *whole, *gathered; /* rank 0: grid_rows * height lines each */
    double *packed;           /* rank 0, where the variant packs */
    double *block;            /* as much as the largest block */
    int stride;               /* doubles from one row of it to the next */
    int *counts, *displs, *own, *zeros; /* one a rank */
    MPI_Datatype *types, *doubles;      /* one a rank; types are freed unless they are MPI_DOUBLE */
    MPI_Request *requests;              /* one a rank and one more */
};

/* The part of the matrix that belongs to a rank; it may be empty. */
struct area {
    int row, column, rows, columns;
};

static int least(int a, int b) { return a < b ? a : b; }

static struct area area_of(const struct matrix *m, int rank) {
    struct area a = {.row = least(rank / m->grid_columns * m->height, m->rows),
                     .column = least(rank % m->grid_columns * m->width, m->columns)};
    a.rows = least(m->height, m->rows - a.row);
    a.columns = least(m->width, m->columns - a.column);
    if (a.rows == 0 || a.columns == 0)
        a.rows = a.columns = 0;
    return a;
}

static int elements(struct area a) { return a.rows * a.columns; }

static double *row_of(const struct matrix *m, double *matrix, struct area a, int row) {
    return matrix + (size_t)(a.row + row) * (size_t)m->line + a.column;
}

static double *block_row(const struct matrix *m, int row) {
    return m->block + (size_t)row * (size_t)m->stride;
}

static void copy(double *to, const double *from, int doubles) {
    memcpy(to, from, (size_t)doubles * sizeof *to);
}

/* ---- resized: one type for all blocks, and displacements in doubles ---- */

/* A vector ends with its last row, so its extent is no whole number of anything; cut down to one
 * double, block r begins at displacement row * line + column. Every block has its full shape: what
 * there is beyond the matrix travels as well. */
static int prepare_resized(struct matrix *m) {
    MPI_Datatype rows;
    m->stride = m->width;
    TRY(MPI_Type_vector(m->height, m->width, m->line, MPI_DOUBLE, &rows));
    const int code = MPI_Type_create_resized(rows, 0, sizeof(double), &m->types[0]);
    TRY(MPI_Type_free(&rows));
    TRY(code);
    for (int r = 0; r < m->size; r++) {
        m->counts[r] = m->height * m->width > 0; /* an empty type is not nothing to all libraries */
        m->displs[r] = r / m->grid_columns * m->height * m->line + r % m->grid_columns * m->width;
    }
    return MPI_Type_commit(&m->types[0]);
}

static int scatter_resized(struct matrix *m) {
    return MPI_Scatterv(m->whole, m->counts, m->displs, m->types[0], m->block,
                        m->height * m->width, MPI_DOUBLE, 0, m->comm);
}

static int gather_resized(struct matrix *m) {
    return MPI_Gatherv(m->block, m->height * m->width, MPI_DOUBLE, m->gathered, m->counts,
                       m->displs, m->types[0], 0, m->comm);
}

/* ---- a type for each block: its place in the matrix is part of it ---- */

static int subarray(const struct matrix *m, struct area a, MPI_Datatype *type) {
    const int sizes[] = {m->grid_rows * m->height, m->line};
    const int part[] = {a.rows, a.columns}, start[] = {a.row, a.column};
    TRY(MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, type));
    return MPI_Type_commit(type);
}

static int prepare_subarrays(struct matrix *m) {
    const int mine = elements(area_of(m, m->rank));
    m->stride = area_of(m, m->rank).columns;
    m->own[0] = mine;
    for (int r = 0; r < m->size; r++) {
        const struct area a = area_of(m, r);
        m->doubles[r] = m->types[r] = MPI_DOUBLE; /* what takes no part still needs a type */
        m->counts[r] = m->rank == 0 && elements(a) > 0;
        if (m->counts[r] > 0)
            TRY(subarray(m, a, &m->types[r]));
    }
    return MPI_SUCCESS;
}

static int scatter_alltoallw(struct matrix *m) {
    return MPI_Alltoallw(m->whole, m->counts, m->zeros, m->types, m->block, m->own, m->zeros,
                         m->doubles, m->comm);
}

static int gather_alltoallw(struct matrix *m) {
    return MPI_Alltoallw(m->block, m->own, m->zeros, m->doubles, m->gathered, m->counts, m->zeros,
                         m->types, m->comm);
}

static int scatter_subarrays(struct matrix *m) {
    int n = 0;
    if (m->own[0] > 0)
        TRY(MPI_Irecv(m->block, m->own[0], MPI_DOUBLE, 0, 0, m->comm, &m->requests[n++]));
    for (int r = 0; r < m->size; r++)
        if (m->counts[r] > 0)
            TRY(MPI_Isend(m->whole, 1, m->types[r], r, 0, m->comm, &m->requests[n++]));
    return MPI_Waitall(n, m->requests, MPI_STATUSES_IGNORE);
}

static int gather_subarrays(struct matrix *m) {
    int n = 0;
    for (int r = 0; r < m->size; r++)
        if (m->counts[r] > 0)
            TRY(MPI_Irecv(m->gathered, 1, m->types[r], r, 0, m->comm, &m->requests[n++]));
    if (m->own[0] > 0)
        TRY(MPI_Isend(m->block, m->own[0], MPI_DOUBLE, 0, 0, m->comm, &m->requests[n++]));
    return MPI_Waitall(n, m->requests, MPI_STATUSES_IGNORE);
}

/* ---- by hand: one message for each row of each block, no type but MPI_DOUBLE ---- */

static int prepare_messages(struct matrix *m) {
    m->stride = area_of(m, m->rank).columns;
    return MPI_SUCCESS;
}

static int scatter_messages(struct matrix *m) {
    const struct area mine = area_of(m, m->rank);
    for (int r = 1; r < m->size && m->rank == 0; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++)
            TRY(MPI_Send(row_of(m, m->whole, a, i), a.columns, MPI_DOUBLE, r, 0, m->comm));
    }
    for (int i = 0; i < mine.rows; i++)
        if (m->rank == 0)
            copy(block_row(m, i), row_of(m, m->whole, mine, i), mine.columns);
        else
            TRY(MPI_Recv(block_row(m, i), mine.columns, MPI_DOUBLE, 0, 0, m->comm,
                         MPI_STATUS_IGNORE));
    return MPI_SUCCESS;
}

static int gather_messages(struct matrix *m) {
    const struct area mine = area_of(m, m->rank);
    for (int i = 0; i < mine.rows; i++)
        if (m->rank == 0)
            copy(row_of(m, m->gathered, mine, i), block_row(m, i), mine.columns);
        else
            TRY(MPI_Send(block_row(m, i), mine.columns, MPI_DOUBLE, 0, 0, m->comm));
    for (int r = 1; r < m->size && m->rank == 0; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++)
            TRY(MPI_Recv(row_of(m, m->gathered, a, i), a.columns, MPI_DOUBLE, r, 0, m->comm,
                         MPI_STATUS_IGNORE));
    }
    return MPI_SUCCESS;
}

/* ---- packed: the blocks copied one behind the other, then one Scatterv of doubles ---- */

static int prepare_packed(struct matrix *m) {
    int before = 0;
    m->stride = area_of(m, m->rank).columns;
    for (int r = 0; r < m->size; r++) {
        m->counts[r] = elements(area_of(m, r));
        m->displs[r] = before;
        before += m->counts[r];
    }
    return MPI_SUCCESS;
}

static int scatter_packed(struct matrix *m) {
    double *next = m->packed;
    for (int r = 0; r < m->size && m->rank == 0; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++, next += a.columns)
            copy(next, row_of(m, m->whole, a, i), a.columns);
    }
    return MPI_Scatterv(m->packed, m->counts, m->displs, MPI_DOUBLE, m->block,
                        m->counts[m->rank], MPI_DOUBLE, 0, m->comm);
}

static int gather_packed(struct matrix *m) {
    const double *next = m->packed;
    TRY(MPI_Gatherv(m->block, m->counts[m->rank], MPI_DOUBLE, m->packed, m->counts, m->displs,
                    MPI_DOUBLE, 0, m->comm));
    for (int r = 0; r < m->size && m->rank == 0; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++, next += a.columns)
            copy(row_of(m, m->gathered, a, i), next, a.columns);
    }
    return MPI_SUCCESS;
}

static const struct variant {
    const char *name;
    int (*prepare)(struct matrix *m);
    int (*scatter)(struct matrix *m);
    int (*gather)(struct matrix *m);
    int packs;
} VARIANTS[] = {
    {"resized", prepare_resized, scatter_resized, gather_resized, 0},
    {"alltoallw", prepare_subarrays, scatter_alltoallw, gather_alltoallw, 0},
    {"subarrays", prepare_subarrays, scatter_subarrays, gather_subarrays, 0},
    {"messages", prepare_messages, scatter_messages, gather_messages, 0},
    {"packed", prepare_packed, scatter_packed, gather_packed, 1},
};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

static const char *variant(int index) {
    return index >= 0 && index < VARIANT_COUNT ? VARIANTS[index].name : NULL;
}

/* ---- shape and memory ---- */

/* The greatest divisor of n that is not above its square root; 0 for 0. */
static int64_t side(int64_t n) {
    int64_t found = n > 0;
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            found = d;
    return found;
}

static int divided(int n, int parts) { return n / parts + (n % parts > 0); }

static int64_t lines(const struct matrix *m) { return (int64_t)m->grid_rows * m->height; }

/* RINGSIDE_BAD_SETTING if the matrix or the grid cannot have that shape, or if MPI's displacements,
 * which are ints, cannot reach all of it. */
static int shape(struct matrix *m, int64_t count, const int64_t *settings) {
    int64_t columns = settings[COLUMNS];
    int grid[] = {(int)settings[GRID_ROWS], 0};
    if (columns == 0)
        columns = count > 0 ? count / side(count) : 1;
    if (count % columns != 0 || (grid[0] > 0 && m->size % grid[0] != 0))
        return RINGSIDE_BAD_SETTING;
    TRY(MPI_Dims_create(m->size, 2, grid));
    m->rows = (int)(count / columns);
    m->columns = (int)columns;
    m->grid_rows = grid[0];
    m->grid_columns = grid[1];
    m->height = divided(m->rows, m->grid_rows);
    m->width = divided(m->columns, m->grid_columns);
    if ((int64_t)m->grid_columns * m->width > INT_MAX)
        return RINGSIDE_BAD_SETTING;
    m->line = m->grid_columns * m->width;
    return lines(m) * m->line > INT_MAX ? RINGSIDE_BAD_SETTING : MPI_SUCCESS;
}

static int64_t block_bytes(const struct matrix *m) {
    return (int64_t)m->height * m->width * (int64_t)sizeof(double);
}

static int64_t whole_bytes(const struct matrix *m) {
    return lines(m) * m->line * (int64_t)sizeof(double);
}

static int64_t packed_bytes(const struct matrix *m) {
    return (int64_t)m->rows * m->columns * (int64_t)sizeof(double);
}

/* What rank 0 needs of it beside its block. */
static int allocate_whole(struct matrix *m, int packs) {
    m->whole = ringside_allocate(whole_bytes(m));
    m->gathered = ringside_allocate(whole_bytes(m));
    m->packed = packs ? ringside_allocate(packed_bytes(m)) : NULL;
    return m->whole != NULL && m->gathered != NULL && (m->packed != NULL || !packs);
}

/* All of it untouched but the tables. */
static int allocate(struct matrix *m, int packs) {
    const size_t n = (size_t)m->size;
    m->block = ringside_allocate(block_bytes(m));
    m->counts = calloc(4 * n, sizeof *m->counts);
    m->types = malloc(2 * n * sizeof *m->types);
    m->requests = malloc((n + 1) * sizeof *m->requests);
    if (m->block == NULL || m->counts == NULL || m->types == NULL || m->requests == NULL)
        return RINGSIDE_NO_MEMORY;
    m->displs = m->counts + n;
    m->own = m->displs + n;
    m->zeros = m->own + n;
    m->doubles = m->types + n;
    for (size_t r = 0; r < 2 * n; r++)
        m->types[r] = MPI_DATATYPE_NULL;
    for (size_t r = 0; r <= n; r++)
        m->requests[r] = MPI_REQUEST_NULL;
    return m->rank != 0 || allocate_whole(m, packs) ? MPI_SUCCESS : RINGSIDE_NO_MEMORY;
}

/* Returns `code`, or the first error of its own. */
static int give_back(struct matrix *m, int code) {
    for (int r = 0; m->types != NULL && r < m->size; r++) {
        if (m->types[r] == MPI_DATATYPE_NULL || m->types[r] == MPI_DOUBLE)
            continue;
        const int freed = MPI_Type_free(&m->types[r]);
        code = code == MPI_SUCCESS ? freed : code;
    }
    const int open = m->requests == NULL ? 0 : m->size + 1;
    if (ringside_withdraw(m->requests, open, open)) {
        free(m->whole);
        free(m->gathered);
        free(m->packed);
        free(m->block);
    }
    free(m->counts);
    free(m->types);
    free(m->requests);
    return code;
}

/* ---- content, timing, verification ---- */

static void poison(double *to, int64_t doubles) {
    for (int64_t i = 0; i < doubles; i++)
        to[i] = POISON;
}

/* An element tells its place: row * columns + column. */
static double content(const struct matrix *m, int row, int column) {
    return (double)row * m->columns + column;
}

static void fill(struct matrix *m) {
    poison(m->whole, lines(m) * m->line);
    for (int i = 0; i < m->rows; i++)
        for (int j = 0; j < m->columns; j++)
            m->whole[(size_t)i * (size_t)m->line + (size_t)j] = content(m, i, j);
}

static int64_t count_wrong(const struct matrix *m, const double *from, int stride, struct area a) {
    int64_t wrong = 0;
    for (int i = 0; i < a.rows; i++, from += stride)
        for (int j = 0; j < a.columns; j++)
            wrong += from[j] != content(m, a.row + i, a.column + j);
    return wrong;
}

/* Poison, scatter and gather, verify. */
static int repeat(struct matrix *m, const struct variant *v, double *seconds, int64_t *wrong) {
    const struct area all = {0, 0, m->rows, m->columns};
    poison(m->block, (int64_t)m->height * m->width);
    if (m->rank == 0)
        poison(m->gathered, lines(m) * m->line);
    TRY(MPI_Barrier(m->comm));
    const double start = MPI_Wtime();
    TRY(v->scatter(m));
    TRY(v->gather(m));
    *seconds = MPI_Wtime() - start;
    *wrong += count_wrong(m, m->block, m->stride, area_of(m, m->rank));
    if (m->rank == 0)
        *wrong += count_wrong(m, m->gathered, m->line, all);
    return MPI_SUCCESS;
}

/* ---- the kernel ---- */

static int run(MPI_Comm comm, const char *name, int64_t count, const int64_t *settings,
               int repetitions, double *seconds, int64_t *wrong) {
    struct matrix m = {.comm = comm};
    TRY(MPI_Comm_rank(comm, &m.rank));
    TRY(MPI_Comm_size(comm, &m.size));
    *wrong = 0;

    const int chosen = ringside_find(variant, name);
    const struct variant *v = &VARIANTS[chosen < 0 ? 0 : chosen];
    int64_t arguments[RINGSIDE_ARGUMENTS] = {chosen, count, repetitions}, bytes = 0;
    int code = ringside_read_settings(SETTINGS, settings, &arguments[3]);
    if (chosen < 0)
        code = RINGSIDE_UNKNOWN_VARIANT;
    else if (count < 0 || count > ringside_matrix.most)
        code = RINGSIDE_BAD_COUNT;
    else if (repetitions < 1 || repetitions > RINGSIDE_MAX_REPETITIONS)
        code = RINGSIDE_BAD_REPETITIONS;
    else if (code == MPI_SUCCESS)
        code = shape(&m, count, &arguments[3]);
    if (code == MPI_SUCCESS) {
        bytes = block_bytes(&m);
        if (m.rank == 0)
            bytes += 2 * whole_bytes(&m) + (v->packs ? packed_bytes(&m) : 0);
        code = seconds == NULL ? RINGSIDE_NO_MEMORY : allocate(&m, v->packs);
    }
    code = ringside_agree(comm, code, bytes, arguments);

    if (code == MPI_SUCCESS)
        code = v->prepare(&m);
    if (code == MPI_SUCCESS && m.rank == 0)
        fill(&m);
    for (int i = 0; i < repetitions && code == MPI_SUCCESS; i++)
        code = repeat(&m, v, &seconds[i], wrong);
    if (code == MPI_SUCCESS && *wrong > 0)
        code = RINGSIDE_WRONG_DATA;
    return give_back(&m, code);
}

/* 2^30 doubles are 8 GiB, of which rank 0 has two or three. */
const struct ringside_kernel ringside_matrix = {
    .name = "matrix",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .usual = 1000,
    .most = 1 << 30,
    .messages = 3,
    .least_ranks = 1,
    .settings = SETTINGS,
    .variant = variant,
    .run = run,
};
