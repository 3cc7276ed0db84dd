/* The table of all kernels: a new one adds its line here. */
#include "ringside.h"

#include <stddef.h>
#include <string.h>

static const struct ringside_kernel *const KERNELS[] = {
    &ringside_ring,
    &ringside_pingpong,
    &ringside_ringshift,
    &ringside_halo,
    &ringside_matrix,
};
enum { KERNEL_COUNT = sizeof KERNELS / sizeof KERNELS[0] };

const struct ringside_kernel *ringside_kernel(int index) {
    return index >= 0 && index < KERNEL_COUNT ? KERNELS[index] : NULL;
}

int ringside_find(const char *(*variant)(int index), const char *name) {
    for (int i = 0; name != NULL && variant(i) != NULL; i++)
        if (strcmp(variant(i), name) == 0)
            return i;
    return -1;
}
