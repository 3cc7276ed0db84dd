/* The heat equation on a grid in two dimensions, one block a rank, by explicit steps: each cell
 * moves towards the mean of its four neighbours. What lies around the whole grid is kept as it is
 * given.
 *
 * A block of rows x columns cells lies in an array of (rows + 2) x (columns + 2) doubles, whose
 * rim holds the neighbours' cells, or the fixed ones at the edge of the grid. */
#include "ringside.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 4, REQUESTS = 2 * SIDES };

struct heat {
    MPI_Comm grid;
    int rows, columns;
    double rate;
    double *now, *next;
    MPI_Datatype column; /* of a block: its cells lie one row apart */
    int above, below, left, right;
    MPI_Request requests[REQUESTS];
};

static ptrdiff_t width(const struct heat *h) { return h->columns + 2; }

static double *cell(const struct heat *h, int row, int column) {
    return h->now + row * width(h) + column;
}

/* The cells of the block from (row, column) on. The same expression for all, in whatever order,
 * so that the result is the serial one to the last bit. */
static void advance(const struct heat *h, int row, int last_row, int column, int last_column) {
    const ptrdiff_t w = width(h);
    for (int i = row; i <= last_row; i++) {
        const double *now = h->now + i * w;
        double *next = h->next + i * w;
        for (int j = column; j <= last_column; j++)
            next[j] = now[j] + h->rate * (((now[j - w] + now[j + w]) + (now[j - 1] + now[j + 1])) -
                                          4.0 * now[j]);
    }
}

/* A message carries the side towards which it goes as tag. */
static int start_side(struct heat *h, int side, int neighbour, double *rim, double *own,
                      MPI_Datatype type, int count) {
    TRY(MPI_Irecv(rim, count, type, neighbour, side ^ 1, h->grid, &h->requests[side]));
    return MPI_Isend(own, count, type, neighbour, side, h->grid, &h->requests[SIDES + side]);
}

static int start(struct heat *h) {
    const int rows = h->rows, columns = h->columns;
    TRY(start_side(h, 0, h->above, cell(h, 0, 1), cell(h, 1, 1), MPI_DOUBLE, columns));
    TRY(start_side(h, 1, h->below, cell(h, rows + 1, 1), cell(h, rows, 1), MPI_DOUBLE, columns));
    TRY(start_side(h, 2, h->left, cell(h, 1, 0), cell(h, 1, 1), h->column, 1));
    return start_side(h, 3, h->right, cell(h, 1, columns + 1), cell(h, 1, columns), h->column, 1);
}

static int wait(struct heat *h) {
    return MPI_Waitall(REQUESTS, h->requests, MPI_STATUSES_IGNORE);
}

/* ---- the variants: one step each ---- */

static int waitall(struct heat *h) {
    TRY(start(h));
    TRY(wait(h));
    advance(h, 1, h->rows, 1, h->columns);
    return MPI_SUCCESS;
}

/* The inner cells need no rim: they are computed while it is on its way. */
static int overlap(struct heat *h) {
    const int rows = h->rows, columns = h->columns;
    TRY(start(h));
    advance(h, 2, rows - 1, 2, columns - 1);
    TRY(wait(h));
    advance(h, 1, 1, 1, columns);
    if (rows > 1)
        advance(h, rows, rows, 1, columns);
    advance(h, 2, rows - 1, 1, 1);
    if (columns > 1)
        advance(h, 2, rows - 1, columns, columns);
    return MPI_SUCCESS;
}

static const struct {
    const char *name;
    int (*step)(struct heat *h);
} VARIANTS[] = {{"waitall", waitall}, {"overlap", overlap}};
enum { VARIANT_COUNT = sizeof VARIANTS / sizeof VARIANTS[0] };

const char *ringside_heat_variant(int index) {
    return index >= 0 && index < VARIANT_COUNT ? VARIANTS[index].name : NULL;
}

/* ---- the grid ---- */

/* Whether all ranks along one dimension of the grid have blocks of the same length across it. */
static int same_along(MPI_Comm grid, int dimension, int length, int *same) {
    const int remain[] = {dimension == 0, dimension == 1};
    MPI_Comm line = MPI_COMM_NULL;
    int bounds[] = {length, -length};
    TRY(MPI_Cart_sub(grid, remain, &line));
    TRY(MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_INT, MPI_MIN, line));
    TRY(MPI_Comm_free(&line));
    *same = bounds[0] == -bounds[1];
    return MPI_Allreduce(MPI_IN_PLACE, same, 1, MPI_INT, MPI_MIN, grid);
}

static int make_grid(struct heat *h, MPI_Comm comm, int size) {
    int dims[] = {0, 0}, same_rows = 0, same_columns = 0;
    const int periods[] = {0, 0};
    TRY(MPI_Dims_create(size, 2, dims));
    TRY(MPI_Cart_create(comm, 2, dims, periods, 0, &h->grid));
    TRY(MPI_Comm_set_errhandler(h->grid, MPI_ERRORS_RETURN));
    TRY(MPI_Cart_shift(h->grid, 0, 1, &h->above, &h->below));
    TRY(MPI_Cart_shift(h->grid, 1, 1, &h->left, &h->right));
    TRY(same_along(h->grid, 1, h->rows, &same_rows));
    TRY(same_along(h->grid, 0, h->columns, &same_columns));
    if (!same_rows || !same_columns)
        return RINGSIDE_ARGUMENTS_DIFFER;
    TRY(MPI_Type_vector(h->rows, 1, h->columns + 2, MPI_DOUBLE, &h->column));
    return MPI_Type_commit(&h->column);
}

static int run(struct heat *h, MPI_Comm comm, int size, int variant, int steps, double *seconds) {
    TRY(make_grid(h, comm, size));
    TRY(MPI_Barrier(h->grid));
    const double begun = MPI_Wtime();
    for (int i = 0; i < steps; i++) {
        TRY(VARIANTS[variant].step(h));
        double *const old = h->now;
        h->now = h->next;
        h->next = old;
    }
    *seconds = MPI_Wtime() - begun;
    return MPI_SUCCESS;
}

int ringside_heat(MPI_Comm comm, const char *variant, int rows, int columns, double *block,
                  int steps, double rate, double *seconds) {
    struct heat h = {.grid = MPI_COMM_NULL,
                     .rows = rows,
                     .columns = columns,
                     .rate = rate,
                     .now = block,
                     .column = MPI_DATATYPE_NULL};
    int size;
    TRY(MPI_Comm_size(comm, &size));
    for (int i = 0; i < REQUESTS; i++)
        h.requests[i] = MPI_REQUEST_NULL;

    const int chosen = ringside_find(ringside_heat_variant, variant);
    const int64_t arguments[RINGSIDE_ARGUMENTS] = {chosen, steps, (int64_t)(rate * 1e15)};
    const int64_t bytes = ((int64_t)rows + 2) * ((int64_t)columns + 2) * (int64_t)sizeof(double);
    int code = MPI_SUCCESS;
    if (chosen < 0) {
        code = RINGSIDE_UNKNOWN_VARIANT;
    } else if (rows < 1 || columns < 1 || rows > INT32_MAX - 2 || columns > INT32_MAX - 2) {
        code = RINGSIDE_BAD_COUNT;
    } else if (steps < 0) {
        code = RINGSIDE_BAD_REPETITIONS;
    } else if ((h.next = ringside_allocate(bytes)) == NULL) {
        code = RINGSIDE_NO_MEMORY;
    }
    double *const spare = h.next;
    code = ringside_agree(comm, code, bytes, arguments);
    if (code == MPI_SUCCESS) {
        memcpy(spare, block, (size_t)bytes);
        code = run(&h, comm, size, chosen, steps, seconds);
        if (h.now != block)
            memcpy(block, h.now, (size_t)bytes);
    }
    const int over = ringside_withdraw(h.requests, REQUESTS, SIDES);
    if (h.column != MPI_DATATYPE_NULL)
        MPI_Type_free(&h.column);
    if (h.grid != MPI_COMM_NULL)
        MPI_Comm_free(&h.grid);
    if (over)
        free(spare); /* else MPI may still write to it, and it is better lost */
    return code;
}
