/* The table of all kernels: a new one adds its line here. */
#include "ringside.h"

static const struct ringside_kernel *const KERNELS[] = {
    &ringside_ring,
    &ringside_pingpong,
    &ringside_ringshift,
    &ringside_halo,
    &ringside_matrix,
    &ringside_heat,
    &ringside_bcast,
    &ringside_allreduce,
};
enum { KERNEL_COUNT = sizeof KERNELS / sizeof KERNELS[0] };

const struct ringside_kernel *ringside_kernel(int index) {
    return index >= 0 && index < KERNEL_COUNT ? KERNELS[index] : NULL;
}
