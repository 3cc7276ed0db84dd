/* The table of all variants of a kernel with halos, for reading and for comparing. */
#ifndef TABLE_H
#define TABLE_H

#include "ringside.h"

/* Collective over MPI_COMM_WORLD. Rank 0 prints a line for each variant: the bandwidths of three
 * runs, each repetition verified, or the reason why there is none. With 0 repetitions as many as
 * make a variant take about a second. Returns an MPI error code; *failed becomes 1 if a variant
 * received wrong data, 2 if its arguments were refused. */
int print_table(const struct ringside_kernel *kernel, int64_t count, const int64_t *settings,
                int repetitions, int *failed);

#endif
