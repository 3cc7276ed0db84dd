/* The matrix: rank 0 holds it, scatters one block to every rank of a grid, and gathers the blocks
 * again. The variants differ in how a block, which is no contiguous piece of the matrix, becomes a
 * message. What all of them share, and what makes one MPI_Scatterv possible, is how it lies in
 * memory: all blocks but the last in each direction have the same shape, and rank 0 keeps room for
 * the last ones to have it too. */
#include "scaffold.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct matrix {
    int rows, columns, grid_rows, grid_columns;
    int height, width; /* of a block; the last ones may have less */
    int line;          /* doubles from one row of the matrix to the next: all blocks at full width */
    double *whole, *gathered; /* rank 0: grid_rows * height lines each */
    double *packed;           /* rank 0, where the variant packs */
    double *block;            /* as much as the largest block */
    int stride;               /* doubles from one row of it to the next */
    int *counts, *displs, *own, *zeros; /* one a rank */
    MPI_Datatype *types, *doubles;      /* one a rank; types are freed unless they are MPI_DOUBLE */
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
static int open_resized(struct exchange *e) {
    struct matrix *m = e->own;
    MPI_Datatype rows;
    m->stride = m->width;
    TRY(MPI_Type_vector(m->height, m->width, m->line, MPI_DOUBLE, &rows));
    const int code = MPI_Type_create_resized(rows, 0, sizeof(double), &m->types[0]);
    TRY(MPI_Type_free(&rows));
    TRY(code);
    for (int r = 0; r < e->size; r++) {
        m->counts[r] = m->height * m->width > 0; /* an empty type is not nothing to all libraries */
        m->displs[r] = r / m->grid_columns * m->height * m->line + r % m->grid_columns * m->width;
    }
    return MPI_Type_commit(&m->types[0]);
}

static int resized(struct exchange *e) {
    struct matrix *m = e->own;
    const int full = m->height * m->width;
    TRY(MPI_Scatterv(m->whole, m->counts, m->displs, m->types[0], m->block, full, MPI_DOUBLE, 0,
                     e->comm));
    return MPI_Gatherv(m->block, full, MPI_DOUBLE, m->gathered, m->counts, m->displs, m->types[0],
                       0, e->comm);
}

/* ---- a type for each block: its place in the matrix is part of it ---- */

static int subarray(const struct matrix *m, struct area a, MPI_Datatype *type) {
    const int sizes[] = {m->grid_rows * m->height, m->line};
    const int part[] = {a.rows, a.columns}, start[] = {a.row, a.column};
    TRY(MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, type));
    return MPI_Type_commit(type);
}

static int open_subarrays(struct exchange *e) {
    struct matrix *m = e->own;
    m->own[0] = elements(area_of(m, e->rank));
    for (int r = 0; r < e->size; r++) {
        const struct area a = area_of(m, r);
        m->doubles[r] = m->types[r] = MPI_DOUBLE; /* what takes no part still needs a type */
        m->counts[r] = e->rank == 0 && elements(a) > 0;
        if (m->counts[r] > 0)
            TRY(subarray(m, a, &m->types[r]));
    }
    return MPI_SUCCESS;
}

static int alltoallw(struct exchange *e) {
    struct matrix *m = e->own;
    TRY(MPI_Alltoallw(m->whole, m->counts, m->zeros, m->types, m->block, m->own, m->zeros,
                      m->doubles, e->comm));
    return MPI_Alltoallw(m->block, m->own, m->zeros, m->doubles, m->gathered, m->counts, m->zeros,
                         m->types, e->comm);
}

static int subarrays(struct exchange *e) {
    struct matrix *m = e->own;
    int n = 0;
    if (m->own[0] > 0)
        TRY(MPI_Irecv(m->block, m->own[0], MPI_DOUBLE, 0, 0, e->comm, &e->requests[n++]));
    for (int r = 0; r < e->size; r++)
        if (m->counts[r] > 0)
            TRY(MPI_Isend(m->whole, 1, m->types[r], r, 0, e->comm, &e->requests[n++]));
    TRY(MPI_Waitall(n, e->requests, MPI_STATUSES_IGNORE));

    n = 0;
    for (int r = 0; r < e->size; r++)
        if (m->counts[r] > 0)
            TRY(MPI_Irecv(m->gathered, 1, m->types[r], r, 0, e->comm, &e->requests[n++]));
    if (m->own[0] > 0)
        TRY(MPI_Isend(m->block, m->own[0], MPI_DOUBLE, 0, 0, e->comm, &e->requests[n++]));
    return MPI_Waitall(n, e->requests, MPI_STATUSES_IGNORE);
}

/* ---- by hand: one message for each row of each block, no type but MPI_DOUBLE ---- */

static int send_row(struct exchange *e, const double *row, int doubles, int to) {
    return MPI_Send(row, doubles, MPI_DOUBLE, to, 0, e->comm);
}

static int receive_row(struct exchange *e, double *row, int doubles, int from) {
    return MPI_Recv(row, doubles, MPI_DOUBLE, from, 0, e->comm, MPI_STATUS_IGNORE);
}

static int messages_of_root(struct exchange *e) {
    struct matrix *m = e->own;
    const struct area mine = area_of(m, 0);
    for (int r = 1; r < e->size; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++)
            TRY(send_row(e, row_of(m, m->whole, a, i), a.columns, r));
    }
    for (int i = 0; i < mine.rows; i++)
        copy(block_row(m, i), row_of(m, m->whole, mine, i), mine.columns);

    for (int i = 0; i < mine.rows; i++)
        copy(row_of(m, m->gathered, mine, i), block_row(m, i), mine.columns);
    for (int r = 1; r < e->size; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++)
            TRY(receive_row(e, row_of(m, m->gathered, a, i), a.columns, r));
    }
    return MPI_SUCCESS;
}

static int messages(struct exchange *e) {
    const struct matrix *m = e->own;
    const struct area mine = area_of(m, e->rank);
    if (e->rank == 0)
        return messages_of_root(e);
    for (int i = 0; i < mine.rows; i++)
        TRY(receive_row(e, block_row(m, i), mine.columns, 0));
    for (int i = 0; i < mine.rows; i++)
        TRY(send_row(e, block_row(m, i), mine.columns, 0));
    return MPI_SUCCESS;
}

/* ---- packed: the blocks copied one behind the other, then one Scatterv of doubles ---- */

static int open_packed(struct exchange *e) {
    struct matrix *m = e->own;
    int before = 0;
    for (int r = 0; r < e->size; r++) {
        m->counts[r] = elements(area_of(m, r));
        m->displs[r] = before;
        before += m->counts[r];
    }
    return MPI_SUCCESS;
}

static int packed(struct exchange *e) {
    struct matrix *m = e->own;
    const int parts = e->rank == 0 ? e->size : 0, mine = m->counts[e->rank];
    double *next = m->packed;
    for (int r = 0; r < parts; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++, next += a.columns)
            copy(next, row_of(m, m->whole, a, i), a.columns);
    }
    TRY(MPI_Scatterv(m->packed, m->counts, m->displs, MPI_DOUBLE, m->block, mine, MPI_DOUBLE, 0,
                     e->comm));
    TRY(MPI_Gatherv(m->block, mine, MPI_DOUBLE, m->packed, m->counts, m->displs, MPI_DOUBLE, 0,
                    e->comm));
    next = m->packed;
    for (int r = 0; r < parts; r++) {
        const struct area a = area_of(m, r);
        for (int i = 0; i < a.rows; i++, next += a.columns)
            copy(row_of(m, m->gathered, a, i), next, a.columns);
    }
    return MPI_SUCCESS;
}

static const struct variant VARIANTS[] = {
    {.name = "resized", .exchange = resized, .open = open_resized},
    {.name = "alltoallw", .exchange = alltoallw, .open = open_subarrays},
    {.name = "subarrays", .exchange = subarrays, .open = open_subarrays},
    {.name = "messages", .exchange = messages},
    {.name = "packed", .exchange = packed, .open = open_packed},
    {.name = NULL},
};

/* ---- shape ---- */

enum { COLUMNS, GRID_ROWS };
static const struct ringside_setting SETTINGS[] = {
    {"columns", 0, 0, INT_MAX, "columns of the matrix; 0: as square as its doubles allow"},
    {"grid", 0, 0, 1000000, "rows of the grid of ranks; 0: those of MPI_Dims_create"},
    {NULL, 0, 0, 0, NULL},
};

static int divided(int n, int parts) { return n / parts + (n % parts > 0); }

static int64_t lines(const struct matrix *m) { return (int64_t)m->grid_rows * m->height; }

/* RINGSIDE_BAD_SETTING if the matrix or the grid cannot have that shape, or if MPI's displacements,
 * which are ints, cannot reach all of it. */
static int shape(struct exchange *e) {
    struct matrix *m = e->own;
    int grid[] = {(int)e->settings[GRID_ROWS], 0};
    m->columns = (int)e->settings[COLUMNS];
    if (m->columns == 0)
        m->columns = exchange_columns(e->count);
    if (e->count % m->columns != 0 || (grid[0] > 0 && e->size % grid[0] != 0))
        return RINGSIDE_BAD_SETTING;
    TRY(MPI_Dims_create(e->size, 2, grid));
    m->rows = e->count / m->columns;
    m->grid_rows = grid[0];
    m->grid_columns = grid[1];
    m->height = divided(m->rows, m->grid_rows);
    m->width = divided(m->columns, m->grid_columns);
    if ((int64_t)m->grid_columns * m->width > INT_MAX)
        return RINGSIDE_BAD_SETTING;
    m->line = m->grid_columns * m->width;
    return lines(m) * m->line > INT_MAX ? RINGSIDE_BAD_SETTING : MPI_SUCCESS;
}

static int prepare(struct exchange *e) {
    struct matrix *m = e->own;
    const size_t n = (size_t)e->size;
    TRY(shape(e));
    m->stride = area_of(m, e->rank).columns;
    m->counts = calloc(4 * n, sizeof *m->counts);
    m->types = malloc(2 * n * sizeof *m->types);
    if (m->counts == NULL || m->types == NULL)
        return RINGSIDE_NO_MEMORY;
    m->displs = m->counts + n;
    m->own = m->displs + n;
    m->zeros = m->own + n;
    m->doubles = m->types + n;
    for (size_t r = 0; r < 2 * n; r++)
        m->types[r] = MPI_DATATYPE_NULL;
    return MPI_SUCCESS;
}

static int close_types(struct exchange *e, int code) {
    struct matrix *m = e->own;
    (void)code;
    int own = MPI_SUCCESS;
    for (int r = 0; m->types != NULL && r < e->size; r++)
        if (m->types[r] != MPI_DATATYPE_NULL && m->types[r] != MPI_DOUBLE) {
            const int freed = MPI_Type_free(&m->types[r]);
            own = own == MPI_SUCCESS ? freed : own;
        }
    free(m->counts);
    free(m->types);
    return own;
}

/* ---- content ---- */

static const double POISON = -1.0; /* no element of a matrix holds it */

static void allocate(struct exchange *e) {
    struct matrix *m = e->own;
    const int64_t unit = sizeof(double), whole = lines(m) * m->line * unit;
    m->block = exchange_allocate(e, (int64_t)m->height * m->width * unit);
    exchange_requests(e, e->size + 1, e->size + 1);
    if (e->rank != 0)
        return;
    m->whole = exchange_allocate(e, whole);
    m->gathered = exchange_allocate(e, whole);
    if (e->variant->exchange == packed)
        m->packed = exchange_allocate(e, e->count * unit);
}

/* An element tells its place: row * columns + column. */
static double content(const struct matrix *m, int row, int column) {
    return (double)row * m->columns + column;
}

static void poison_doubles(double *to, int64_t doubles) {
    for (int64_t i = 0; i < doubles; i++)
        to[i] = POISON;
}

static void fill(struct exchange *e) {
    const struct matrix *m = e->own;
    if (e->rank != 0)
        return;
    poison_doubles(m->whole, lines(m) * m->line);
    for (int i = 0; i < m->rows; i++)
        for (int j = 0; j < m->columns; j++)
            m->whole[(size_t)i * (size_t)m->line + (size_t)j] = content(m, i, j);
}

static void poison(struct exchange *e) {
    const struct matrix *m = e->own;
    poison_doubles(m->block, (int64_t)m->height * m->width);
    if (e->rank == 0)
        poison_doubles(m->gathered, lines(m) * m->line);
}

static int64_t count_wrong(const struct matrix *m, const double *from, int stride, struct area a) {
    int64_t wrong = 0;
    for (int i = 0; i < a.rows; i++, from += stride)
        for (int j = 0; j < a.columns; j++)
            wrong += from[j] != content(m, a.row + i, a.column + j);
    return wrong;
}

static int64_t verify(struct exchange *e) {
    const struct matrix *m = e->own;
    const struct area all = {0, 0, m->rows, m->columns};
    const int64_t wrong = count_wrong(m, m->block, m->stride, area_of(m, e->rank));
    return e->rank == 0 ? wrong + count_wrong(m, m->gathered, m->line, all) : wrong;
}

static const struct content BLOCKS = {
    .allocate = allocate,
    .fill = fill,
    .poison = poison,
    .verify = verify,
};

/* 2^30 doubles are 8 GiB, of which rank 0 has two or three. */
const struct ringside_kernel ringside_matrix = {
    .name = "matrix",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .default_count = 1000,
    .maximum_count = 1 << 30,
    .messages = 3,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &BLOCKS,
    .own_bytes = sizeof(struct matrix),
    .prepare = prepare,
    .close = close_types,
};
