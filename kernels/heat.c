/* The heat equation on a grid in two dimensions, one block a rank, by explicit steps: each cell
 * moves towards the mean of its four neighbours. What lies around the whole grid is kept as it is
 * given. */
#include "scaffold.h"

#include <limits.h>
#include <string.h>

/* A block of rows x columns cells lies in an array of (rows + 2) x (columns + 2) doubles, whose
 * rim holds the neighbours' cells, or the fixed ones at the edge of the grid. */
struct block {
    int rows, columns;
    int64_t row, column; /* of the array's first element in the whole grid, whose edge is row 0 */
    double *now, *next;
};

enum { OPERATIONS_A_CELL = 7 };

enum { ABOVE, BELOW, LEFT, RIGHT, SIDES };

struct heat {
    double rate;
    struct block block, alone; /* alone: for verification */
    int dims[2], neighbour[SIDES];
    MPI_Datatype column; /* of a block: its cells lie one row apart */
};

static ptrdiff_t width(const struct block *b) { return b->columns + 2; }

static double *cell(const struct block *b, int row, int column) {
    return b->now + row * width(b) + column;
}

/* The cells of the block from (row, column) on. The same expression for all, in whatever order,
 * so that the result is the serial one to the last bit. */
static void advance(const struct block *b, double rate, int row, int last_row, int column,
                    int last_column) {
    const ptrdiff_t w = width(b);
    (void)simulated_work((last_row - row + 1.0) * (last_column - column + 1) * OPERATIONS_A_CELL);
    for (int i = row; i <= last_row; i++) {
        const double *now = b->now + i * w;
        double *next = b->next + i * w;
        for (int j = column; j <= last_column; j++)
            next[j] = now[j] + rate * (((now[j - w] + now[j + w]) + (now[j - 1] + now[j + 1])) -
                                       4.0 * now[j]);
    }
}

static int turn(struct block *b) {
    double *const old = b->now;
    b->now = b->next;
    b->next = old;
    return MPI_SUCCESS;
}

/* ---- the variants: one step each ---- */

/* A message carries the side towards which it goes as tag. */
static int start_side(struct exchange *e, int side, double *rim, double *own, MPI_Datatype type,
                      int count) {
    const struct heat *h = e->own;
    TRY(MPI_Irecv(rim, count, type, h->neighbour[side], side ^ 1, e->comm, &e->requests[side]));
    return MPI_Isend(own, count, type, h->neighbour[side], side, e->comm,
                     &e->requests[SIDES + side]);
}

static int start(struct exchange *e) {
    const struct heat *h = e->own;
    const struct block *b = &h->block;
    const int rows = b->rows, columns = b->columns;
    TRY(start_side(e, ABOVE, cell(b, 0, 1), cell(b, 1, 1), MPI_DOUBLE, columns));
    TRY(start_side(e, BELOW, cell(b, rows + 1, 1), cell(b, rows, 1), MPI_DOUBLE, columns));
    TRY(start_side(e, LEFT, cell(b, 1, 0), cell(b, 1, 1), h->column, 1));
    return start_side(e, RIGHT, cell(b, 1, columns + 1), cell(b, 1, columns), h->column, 1);
}

static int wait(struct exchange *e) {
    return MPI_Waitall(2 * SIDES, e->requests, MPI_STATUSES_IGNORE);
}

static int waitall(struct exchange *e) {
    struct heat *h = e->own;
    TRY(start(e));
    TRY(wait(e));
    advance(&h->block, h->rate, 1, h->block.rows, 1, h->block.columns);
    return turn(&h->block);
}

/* The inner cells need no rim: they are computed while it is on its way. */
static int overlap(struct exchange *e) {
    struct heat *h = e->own;
    struct block *b = &h->block;
    const int rows = b->rows, columns = b->columns;
    TRY(start(e));
    advance(b, h->rate, 2, rows - 1, 2, columns - 1);
    TRY(wait(e));
    advance(b, h->rate, 1, 1, 1, columns);
    if (rows > 1)
        advance(b, h->rate, rows, rows, 1, columns);
    advance(b, h->rate, 2, rows - 1, 1, 1);
    if (columns > 1)
        advance(b, h->rate, 2, rows - 1, columns, columns);
    return turn(b);
}

static const struct variant VARIANTS[] = {
    {.name = "waitall", .exchange = waitall},
    {.name = "overlap", .exchange = overlap},
    {.name = NULL},
};

/* ---- the grid ---- */

enum { STEPS };
static const struct ringside_setting SETTINGS[] = {
    {"steps", 10, 1, 1000, "steps in one repetition"},
    {NULL, 0, 0, 0, NULL},
};

/* A caller's own block. */
struct given {
    int rows, columns, steps;
    double rate;
};

static int prepare(struct exchange *e) {
    struct heat *h = e->own;
    struct block *b = &h->block;
    const struct given *given = e->given;
    h->column = MPI_DATATYPE_NULL;
    TRY(MPI_Dims_create(e->size, 2, h->dims));
    if (given == NULL) {
        h->rate = 0.25;
        e->trips = (int)e->settings[STEPS];
        b->columns = exchange_columns(e->count);
        b->rows = e->count / b->columns;
        b->row = (int64_t)(e->rank / h->dims[1]) * b->rows;
        b->column = (int64_t)(e->rank % h->dims[1]) * b->columns;
    } else {
        h->rate = given->rate;
        e->trips = given->steps;
        b->columns = given->columns;
        b->rows = given->rows;
    }
    if (e->trips < 0)
        return RINGSIDE_BAD_REPETITIONS;
    return b->rows < 0 || b->columns < 0 || b->rows > INT_MAX - 2 || b->columns > INT_MAX - 2
               ? RINGSIDE_BAD_COUNT
               : MPI_SUCCESS;
}

/* Whether all ranks along a dimension of the grid have blocks of the same length across it, and are
 * to do the same with them. */
static int agree_along(const struct exchange *e, int dimension, int length) {
    enum { VALUES = 3 };
    const struct heat *h = e->own;
    const int remain[] = {dimension == 0, dimension == 1};
    MPI_Comm line = MPI_COMM_NULL;
    double least[] = {length, e->trips, h->rate, -length, -e->trips, -h->rate};
    TRY(MPI_Cart_sub(e->comm, remain, &line));
    TRY(MPI_Allreduce(MPI_IN_PLACE, least, 2 * VALUES, MPI_DOUBLE, MPI_MIN, line));
    TRY(MPI_Comm_free(&line));
    for (int i = 0; i < VALUES; i++)
        if (least[i] != -least[VALUES + i])
            return RINGSIDE_ARGUMENTS_DIFFER;
    return MPI_SUCCESS;
}

static int open_grid(struct exchange *e) {
    struct heat *h = e->own;
    const struct block *b = &h->block;
    TRY(exchange_grid(e, 2, h->dims, 0));
    TRY(MPI_Cart_shift(e->comm, 0, 1, &h->neighbour[ABOVE], &h->neighbour[BELOW]));
    TRY(MPI_Cart_shift(e->comm, 1, 1, &h->neighbour[LEFT], &h->neighbour[RIGHT]));
    TRY(MPI_Type_vector(b->rows, 1, b->columns + 2, MPI_DOUBLE, &h->column));
    TRY(MPI_Type_commit(&h->column));
    const int same_rows = agree_along(e, 1, b->rows);
    if (same_rows > MPI_SUCCESS)
        return same_rows;
    TRY(agree_along(e, 0, b->columns));
    return same_rows;
}

static int close_column(struct exchange *e, int code) {
    struct heat *h = e->own;
    (void)code;
    return h->column == MPI_DATATYPE_NULL ? MPI_SUCCESS : MPI_Type_free(&h->column);
}

/* ---- content: cells that tell their place, and what one rank alone would make of them ---- */

static const double POISON = -1.0; /* no cell begins as this */

static double content(int64_t row, int64_t column) {
    return (double)((row * 31 + column * 17) % 101);
}

static int64_t bytes_of(const struct block *b) {
    return ((int64_t)b->rows + 2) * ((int64_t)b->columns + 2) * (int64_t)sizeof(double);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* The block with `steps` more cells on each side, as far as the grid goes: its rim is the fixed edge
 * of the grid, or too far away to matter. */
static struct block widened(const struct heat *h, int steps) {
    const struct block *b = &h->block;
    struct block wide = {.row = b->row - least(b->row, steps),
                         .column = b->column - least(b->column, steps)};
    const int64_t below = (int64_t)h->dims[0] * b->rows - b->row - b->rows;
    const int64_t right = (int64_t)h->dims[1] * b->columns - b->column - b->columns;
    wide.rows = (int)(b->row - wide.row + b->rows + least(below, steps));
    wide.columns = (int)(b->column - wide.column + b->columns + least(right, steps));
    return wide;
}

static void allocate_block(struct exchange *e, struct block *b) {
    b->now = exchange_allocate(e, bytes_of(b));
    b->next = exchange_allocate(e, bytes_of(b));
}

static void allocate(struct exchange *e) {
    struct heat *h = e->own;
    struct block *b = &h->block;
    allocate_block(e, b);
    exchange_requests(e, 2 * SIDES, SIDES);
    if (e->given != NULL)
        return;
    h->alone = widened(h, e->trips);
    allocate_block(e, &h->alone);
}

static void begin(const struct block *b) {
    for (int i = 0; i < b->rows + 2; i++)
        for (int j = 0; j < b->columns + 2; j++)
            *cell(b, i, j) = content(b->row + i, b->column + j);
    memcpy(b->next, b->now, (size_t)bytes_of(b));
}

static void fill(struct exchange *e) {
    struct heat *h = e->own;
    begin(&h->alone);
    for (int i = 0; i < e->trips; i++) {
        advance(&h->alone, h->rate, 1, h->alone.rows, 1, h->alone.columns);
        turn(&h->alone);
    }
}

static void poison_line(double *first, ptrdiff_t stride, int cells, int neighbour) {
    for (int i = 0; i < cells && neighbour != MPI_PROC_NULL; i++)
        first[i * stride] = POISON;
}

/* From the beginning, with a rim of which only the fixed edge of the grid is known. */
static void poison(struct exchange *e) {
    const struct heat *h = e->own;
    const struct block *b = &h->block;
    begin(b);
    poison_line(cell(b, 0, 1), 1, b->columns, h->neighbour[ABOVE]);
    poison_line(cell(b, b->rows + 1, 1), 1, b->columns, h->neighbour[BELOW]);
    poison_line(cell(b, 1, 0), width(b), b->rows, h->neighbour[LEFT]);
    poison_line(cell(b, 1, b->columns + 1), width(b), b->rows, h->neighbour[RIGHT]);
}

static int64_t verify(struct exchange *e) {
    const struct heat *h = e->own;
    const struct block *b = &h->block, *alone = &h->alone;
    const int down = (int)(b->row - alone->row), right = (int)(b->column - alone->column);
    int64_t wrong = 0;
    for (int i = 1; i <= b->rows; i++)
        for (int j = 1; j <= b->columns; j++)
            wrong += *cell(b, i, j) !=
                     *cell(alone, down + i, right + j);
    return wrong;
}

static const struct content CELLS = {
    .allocate = allocate,
    .fill = fill,
    .poison = poison,
    .verify = verify,
};

/* ---- the kernel ---- */

int ringside_heat_steps(MPI_Comm comm, const char *variant, int rows, int columns, double *block,
                        int steps, double rate, double *seconds) {
    const struct given given = {rows, columns, steps, rate};
    struct exchange e = {.given = &given};
    int code = exchange_begin(&e, &ringside_heat, comm, variant, 0, 1, NULL);
    const struct heat *h = e.own;
    if (code == MPI_SUCCESS) {
        const size_t bytes = (size_t)bytes_of(&h->block);
        memcpy(h->block.now, block, bytes);
        memcpy(h->block.next, block, bytes);
        code = exchange_timed(&e, seconds);
        if (code == MPI_SUCCESS)
            memcpy(block, h->block.now, bytes);
    }
    return exchange_end(&e, code);
}

/* 2^27 cells are 1 GiB, of which a rank has two, and two more to verify them. */
const struct ringside_kernel ringside_heat = {
    .name = "heat",
    .unit = "doubles",
    .unit_bytes = sizeof(double),
    .default_count = 10000,
    .maximum_count = 1 << 27,
    .messages = 4,
    .settings = SETTINGS,
    .variants = VARIANTS,
    .content = &CELLS,
    .own_bytes = sizeof(struct heat),
    .prepare = prepare,
    .open = open_grid,
    .close = close_column,
};
