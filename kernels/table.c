/* The table of all variants: see table.h.
 *
 * The bandwidth is that of the halos a rank receives, in MiB/s: halos * bytes / seconds / 2^20,
 * where seconds is the mean over the repetitions of the slowest rank's time for one exchange. */
#include "table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS = 3, DIMENSIONS = 3, MOST_REPETITIONS = 1000, MOST_REMARKS = 32 };
static const double SECONDS_A_RUN = 0.3;

struct table {
    const struct ringside_kernel *kernel;
    const int64_t *settings;
    int64_t count;
    int rank, size;
    const char *remarks[MOST_REMARKS]; /* below the table, numbered from 1 */
    int n_remarks;
};

/* What kernel->run returned on the ranks, brought together: an MPI error stays with its rank. */
static int agree_on(int *code) {
    return MPI_Allreduce(MPI_IN_PLACE, code, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
}

/* One run; *code is the same on all ranks, *seconds the mean on rank 0 of an exchange, and *wall
 * what a repetition took with all its verification. */
static int run_once(const struct table *t, const char *variant, int repetitions, int *code,
                    double *seconds, double *wall) {
    double *times = calloc((size_t)repetitions, sizeof *times);
    int64_t wrong = 0;
    const double start = MPI_Wtime();
    *code = ringside_run(t->kernel, MPI_COMM_WORLD, variant, t->count, t->settings, repetitions,
                         times, &wrong);
    *wall = (MPI_Wtime() - start) / repetitions;
    *seconds = 0;
    int failed = *code > MPI_SUCCESS ? *code : agree_on(code);
    if (failed == MPI_SUCCESS && *code == MPI_SUCCESS)
        failed = MPI_Reduce(t->rank == 0 ? MPI_IN_PLACE : times, times, repetitions, MPI_DOUBLE,
                            MPI_MAX, 0, MPI_COMM_WORLD);
    for (int i = 0; i < repetitions && failed == MPI_SUCCESS && *code == MPI_SUCCESS; i++)
        *seconds += times[i] / repetitions;
    free(times);
    return failed;
}

/* As many repetitions as make a run last SECONDS_A_RUN, from one that is tried. */
static int choose_repetitions(const struct table *t, const char *variant, int *code, int *chosen) {
    double seconds, wall;
    TRY(run_once(t, variant, 1, code, &seconds, &wall));
    TRY(MPI_Allreduce(MPI_IN_PLACE, &wall, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD));
    const double wished = SECONDS_A_RUN / wall;
    *chosen = wished > MOST_REPETITIONS ? MOST_REPETITIONS : wished < 1 ? 1 : (int)wished;
    return MPI_SUCCESS;
}

static const char *reason(int code, const char *remark) {
    switch (code) {
    case RINGSIDE_UNSUITABLE:
        return remark == NULL ? "not possible here" : remark;
    case RINGSIDE_WRONG_DATA:
        return "WRONG DATA arrived";
    case RINGSIDE_NO_MEMORY:
        return "not enough memory on a node for its ranks: choose a shorter message";
    default:
        return "refused (--help explains the options)";
    }
}

static int number_of_remark(struct table *t, const char *remark) {
    for (int i = 0; i < t->n_remarks; i++)
        if (t->remarks[i] == remark)
            return i + 1;
    if (t->n_remarks < MOST_REMARKS)
        t->remarks[t->n_remarks++] = remark;
    return t->n_remarks;
}

static int print_variant(struct table *t, const char *variant, int repetitions, int *failed) {
    double bandwidth[RUNS] = {0}, seconds = 0, wall = 0;
    int code = MPI_SUCCESS;
    const double mebibytes =
        (double)t->kernel->halos * (double)(t->count * t->kernel->unit_bytes) / 1048576.0;
    const char *remark = ringside_why(t->kernel, MPI_COMM_WORLD, variant);
    if (repetitions == 0)
        TRY(choose_repetitions(t, variant, &code, &repetitions));
    for (int i = 0; i < RUNS && code == MPI_SUCCESS; i++) {
        TRY(run_once(t, variant, repetitions, &code, &seconds, &wall));
        bandwidth[i] = seconds > 0 ? mebibytes / seconds : 0;
    }
    if (code == RINGSIDE_WRONG_DATA)
        *failed = 1;
    else if (code != MPI_SUCCESS && code != RINGSIDE_UNSUITABLE && *failed == 0)
        *failed = 2;
    if (t->rank != 0)
        return MPI_SUCCESS;
    if (code != MPI_SUCCESS) {
        printf("%-24s%s\n", variant, reason(code, remark));
    } else {
        printf("%-24s", variant);
        for (int i = 0; i < RUNS; i++)
            printf("%10.1f", bandwidth[i]);
        printf("%8d%12.2f", repetitions, 1e6 * seconds);
        if (remark != NULL)
            printf("  (%d)", number_of_remark(t, remark));
        printf("\n");
    }
    fflush(stdout);
    return MPI_SUCCESS;
}

int print_table(const struct ringside_kernel *kernel, int64_t count, const int64_t *settings,
                int repetitions, int *failed) {
    struct table t = {.kernel = kernel, .settings = settings, .count = count};
    int dims[DIMENSIONS] = {0};
    TRY(MPI_Comm_rank(MPI_COMM_WORLD, &t.rank));
    TRY(MPI_Comm_size(MPI_COMM_WORLD, &t.size));
    TRY(MPI_Dims_create(t.size, DIMENSIONS, dims));
    if (t.rank == 0)
        printf("%s: %d rank%s as %d x %d x %d; %d faces of %" PRId64 " %s out and in\n"
               "MiB/s received by each rank, every element verified; the last run counts\n\n"
               "%-24s%10s%10s%10s%8s%12s\n",
               kernel->name, t.size, t.size == 1 ? "" : "s", dims[0], dims[1], dims[2],
               kernel->halos, count, kernel->unit, "method", "run 1", "run 2", "run 3", "reps",
               "us in run 3");
    for (int i = 0; ringside_variant(kernel, i) != NULL; i++)
        TRY(print_variant(&t, ringside_variant(kernel, i), repetitions, failed));
    for (int i = 0; i < t.n_remarks; i++)
        printf("%s(%d) %s\n", i == 0 ? "\n" : "", i + 1, t.remarks[i]);
    return MPI_SUCCESS;
}
