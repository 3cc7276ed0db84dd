/* Derived datatypes that the program has made and not freed. See scope.h.
 *
 * Counted always, stepped aside or not, from any thread: a type made now may be freed then. What
 * MPI_Type_get_contents hands out is the program's to free as well, unless it is predefined. */
#include "scope.h"

static atomic_llong open_types, types_made;

long long scope_open_types(void) {
    return atomic_load_explicit(&open_types, memory_order_relaxed);
}

long long scope_types_made(void) {
    return atomic_load_explicit(&types_made, memory_order_relaxed);
}

static int made(int err) {
    if (err == MPI_SUCCESS) {
        atomic_fetch_add_explicit(&open_types, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&types_made, 1, memory_order_relaxed);
    }
    return err;
}

int MPI_Type_free(MPI_Datatype *type) {
    const int err = PMPI_Type_free(type);
    if (err == MPI_SUCCESS)
        atomic_fetch_sub_explicit(&open_types, 1, memory_order_relaxed);
    return err;
}

int MPI_Type_dup(MPI_Datatype old, MPI_Datatype *type) { return made(PMPI_Type_dup(old, type)); }

/* Predefined types, also those with parameters (Fortran's), are not freed. */
static void handed_out(const MPI_Datatype types[], long long n) {
    for (long long i = 0; i < n; i++) {
        int combiner;
#if LARGE_COUNTS
        MPI_Count integers, addresses, counts, inner;
        const int err = PMPI_Type_get_envelope_c(types[i], &integers, &addresses, &counts, &inner,
                                                 &combiner);
#else
        int integers, addresses, inner;
        const int err =
            PMPI_Type_get_envelope(types[i], &integers, &addresses, &inner, &combiner);
#endif
        if (err != MPI_SUCCESS)
            continue;
        if (combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
            combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER)
            made(MPI_SUCCESS);
    }
}

int MPI_Type_get_contents(MPI_Datatype type, int max_integers, int max_addresses, int max_types,
                          int integers[], MPI_Aint addresses[], MPI_Datatype types[]) {
    int n_integers, n_addresses, n_types = 0, combiner;
    const int err = PMPI_Type_get_contents(type, max_integers, max_addresses, max_types, integers,
                                           addresses, types);
    if (err == MPI_SUCCESS)
        PMPI_Type_get_envelope(type, &n_integers, &n_addresses, &n_types, &combiner);
    handed_out(types, n_types);
    return err;
}

int MPI_Type_create_darray(int size, int rank, int ndims, const int gsizes[], const int distribs[],
                           const int dargs[], const int psizes[], int order, MPI_Datatype old,
                           MPI_Datatype *type) {
    return made(PMPI_Type_create_darray(size, rank, ndims, gsizes, distribs, dargs, psizes, order,
                                        old, type));
}

/* COUNT: of elements and, in large numbers, of bytes as well; BYTES: of bytes. */
#define CONSTRUCTORS(SUFFIX, COUNT, BYTES)                                                       \
    int MPI_Type_contiguous##SUFFIX(COUNT count, MPI_Datatype old, MPI_Datatype *type) {         \
        return made(PMPI_Type_contiguous##SUFFIX(count, old, type));                             \
    }                                                                                            \
    int MPI_Type_vector##SUFFIX(COUNT count, COUNT length, COUNT stride, MPI_Datatype old,       \
                                MPI_Datatype *type) {                                            \
        return made(PMPI_Type_vector##SUFFIX(count, length, stride, old, type));                 \
    }                                                                                            \
    int MPI_Type_create_hvector##SUFFIX(COUNT count, COUNT length, BYTES stride,                 \
                                        MPI_Datatype old, MPI_Datatype *type) {                  \
        return made(PMPI_Type_create_hvector##SUFFIX(count, length, stride, old, type));         \
    }                                                                                            \
    int MPI_Type_indexed##SUFFIX(COUNT count, const COUNT lengths[], const COUNT places[],       \
                                 MPI_Datatype old, MPI_Datatype *type) {                         \
        return made(PMPI_Type_indexed##SUFFIX(count, lengths, places, old, type));               \
    }                                                                                            \
    int MPI_Type_create_hindexed##SUFFIX(COUNT count, const COUNT lengths[],                     \
                                         const BYTES places[], MPI_Datatype old,                 \
                                         MPI_Datatype *type) {                                   \
        return made(PMPI_Type_create_hindexed##SUFFIX(count, lengths, places, old, type));       \
    }                                                                                            \
    int MPI_Type_create_indexed_block##SUFFIX(COUNT count, COUNT length, const COUNT places[],   \
                                              MPI_Datatype old, MPI_Datatype *type) {            \
        return made(PMPI_Type_create_indexed_block##SUFFIX(count, length, places, old, type));   \
    }                                                                                            \
    int MPI_Type_create_hindexed_block##SUFFIX(COUNT count, COUNT length, const BYTES places[],  \
                                               MPI_Datatype old, MPI_Datatype *type) {           \
        return made(PMPI_Type_create_hindexed_block##SUFFIX(count, length, places, old, type));  \
    }                                                                                            \
    int MPI_Type_create_struct##SUFFIX(COUNT count, const COUNT lengths[], const BYTES places[], \
                                       const MPI_Datatype olds[], MPI_Datatype *type) {          \
        return made(PMPI_Type_create_struct##SUFFIX(count, lengths, places, olds, type));        \
    }                                                                                            \
    int MPI_Type_create_subarray##SUFFIX(int ndims, const COUNT sizes[], const COUNT parts[],    \
                                         const COUNT starts[], int order, MPI_Datatype old,      \
                                         MPI_Datatype *type) {                                   \
        return made(PMPI_Type_create_subarray##SUFFIX(ndims, sizes, parts, starts, order, old,   \
                                                      type));                                    \
    }                                                                                            \
    int MPI_Type_create_resized##SUFFIX(MPI_Datatype old, BYTES lb, BYTES extent,                \
                                        MPI_Datatype *type) {                                    \
        return made(PMPI_Type_create_resized##SUFFIX(old, lb, extent, type));                    \
    }

CONSTRUCTORS(, int, MPI_Aint)
#if LARGE_COUNTS
CONSTRUCTORS(_c, MPI_Count, MPI_Count)

int MPI_Type_create_darray_c(int size, int rank, int ndims, const MPI_Count gsizes[],
                             const int distribs[], const int dargs[], const int psizes[],
                             int order, MPI_Datatype old, MPI_Datatype *type) {
    return made(PMPI_Type_create_darray_c(size, rank, ndims, gsizes, distribs, dargs, psizes,
                                          order, old, type));
}

int MPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers, MPI_Count max_addresses,
                            MPI_Count max_counts, MPI_Count max_types, int integers[],
                            MPI_Aint addresses[], MPI_Count counts[], MPI_Datatype types[]) {
    MPI_Count n_integers, n_addresses, n_counts, n_types = 0;
    int combiner;
    const int err = PMPI_Type_get_contents_c(type, max_integers, max_addresses, max_counts,
                                             max_types, integers, addresses, counts, types);
    if (err == MPI_SUCCESS)
        PMPI_Type_get_envelope_c(type, &n_integers, &n_addresses, &n_counts, &n_types, &combiner);
    handed_out(types, n_types);
    return err;
}
#endif
