/* Collective file calls. See scope.h.
 *
 * A file has a meeting place of its own: its ranks meet there before each collective call on it,
 * and only then make the call. Opening it is entered on the communicator. */
#include "scope.h"

#include <stdlib.h>

struct file {
    struct file *next;
    MPI_File handle;
    struct comm *place;
};

static struct file *find(MPI_File handle) {
    for (struct file *f = scope.open_files; f; f = f->next)
        if (f->handle == handle)
            return f;
    return NULL;
}

static int add_file(MPI_File handle, const struct comm *c, int number) {
    struct file *f = calloc(1, sizeof *f);
    struct comm *place = f ? scope_meeting(number, c->world, c->size) : NULL;
    if (!place) {
        free(f);
        return MPI_ERR_NO_MEM;
    }
    place->lasting = true;
    *f = (struct file){scope.open_files, handle, place};
    scope.open_files = f;
    return MPI_SUCCESS;
}

static void forget_file(struct file *f) {
    for (struct file **at = &scope.open_files; *at; at = &(*at)->next) {
        if (*at == f) {
            *at = f->next;
            break;
        }
    }
    f->place->lasting = false; /* it goes when what was entered there has been compared */
    free(f);
}

void scope_finish_files(void) {
    while (scope.open_files)
        forget_file(scope.open_files);
}

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file) {
    OBSERVE_GIVEN(name && file, File_open, comm, PMPI_File_open(comm, name, mode, info, file))
    const bool fits = !c->remote;
    int err = MPI_SUCCESS, number = 0;
    if (fits) {
        scope_enter(c, CALL_File_open, NO_ROOT)->detail = (uint64_t)mode;
        err = scope_gate(&call, c);
    }
    if (!err) {
        scope_step_alone(&call);
        err = fits ? scope_new_number(c, &number) : MPI_SUCCESS;
        err = err ? err : scope_heard(PMPI_File_open(comm, name, mode, info, file));
        scope_step_back(&call);
        if (!err && fits)
            err = add_file(*file, c, number);
    }
    scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* While the scope steps aside. */
static int close_unseen(MPI_File *file) {
    scope_lock();
    struct file *f = file ? find(*file) : NULL;
    if (f)
        forget_file(f);
    scope_unlock();
    return PMPI_File_close(file);
}

/* The ranks of the file meet. Files that the scope does not know are left alone. */
static int meet(struct call *call, MPI_File file, const struct file *f, uint64_t detail) {
    if (!f && file == MPI_FILE_NULL)
        return MPI_SUCCESS; /* the library says what is wrong */
    if (!f) {
        scope_unjudged("a file opened while the scope stepped aside");
        return MPI_SUCCESS;
    }
    scope_enter(f->place, call->name, NO_ROOT)->detail = detail;
    return scope_gate(call, f->place);
}

static int end(struct call *call, struct comm *c, const struct file *f, int err) {
    scope_event(call, f ? f->place : c, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(call, c, err);
}

int MPI_File_close(MPI_File *file) {
    OBSERVE(File_close, MPI_COMM_WORLD, close_unseen(file))
    if (!file)
        return scope_end(&call, c, PMPI_File_close(file));
    struct file *f = find(*file);
    struct comm *place = f ? f->place : c;
    int err = meet(&call, *file, f, 0);
    if (!err) {
        scope_step_alone(&call);
        err = scope_heard(PMPI_File_close(file));
        scope_step_back(&call);
        if (!err && f)
            forget_file(f);
    }
    scope_event(&call, place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* DETAIL: what all ranks have to agree on. */
#define TOGETHER(name, S, DETAIL, PARAMETERS, ...)                                               \
    int MPI_##name##S(MPI_File file, STRIP PARAMETERS) {                                         \
        OBSERVE(name, MPI_COMM_WORLD, PMPI_##name##S(file, __VA_ARGS__))                         \
        const struct file *f = find(file);                                                       \
        int err = meet(&call, file, f, DETAIL);                                                        \
        if (!err) {                                                                              \
            scope_step_alone(&call);                                                             \
            err = PMPI_##name##S(file, __VA_ARGS__);                                             \
            scope_step_back(&call);                                                              \
        }                                                                                        \
        return end(&call, c, f, err);                                                            \
    }

TOGETHER(File_set_view, , 0,
         (MPI_Offset start, MPI_Datatype unit, MPI_Datatype type, const char *data, MPI_Info info),
         start, unit, type, data, info)
TOGETHER(File_set_size, , (uint64_t)size, (MPI_Offset size), size)
TOGETHER(File_preallocate, , (uint64_t)size, (MPI_Offset size), size)
TOGETHER(File_set_info, , 0, (MPI_Info info), info)
TOGETHER(File_set_atomicity, , (uint64_t)(flag != 0), (int flag), flag)
TOGETHER(File_seek_shared, , (uint64_t)offset, (MPI_Offset offset, int whence), offset, whence)

int MPI_File_sync(MPI_File file) {
    OBSERVE(File_sync, MPI_COMM_WORLD, PMPI_File_sync(file))
    const struct file *f = find(file);
    int err = meet(&call, file, f, 0);
    if (!err) {
        scope_step_alone(&call);
        err = PMPI_File_sync(file);
        scope_step_back(&call);
    }
    return end(&call, c, f, err);
}

#define TRANSFERS(S, C)                                                                          \
    TOGETHER(File_read_all, S, 0, (void *buf, C count, MPI_Datatype type, MPI_Status *status),   \
             buf, count, type, status)                                                           \
    TOGETHER(File_write_all, S, 0,                                                               \
             (const void *buf, C count, MPI_Datatype type, MPI_Status *status), buf, count,      \
             type, status)                                                                       \
    TOGETHER(File_read_at_all, S, 0,                                                             \
             (MPI_Offset offset, void *buf, C count, MPI_Datatype type, MPI_Status *status),     \
             offset, buf, count, type, status)                                                   \
    TOGETHER(File_write_at_all, S, 0,                                                            \
             (MPI_Offset offset, const void *buf, C count, MPI_Datatype type,                    \
              MPI_Status *status),                                                               \
             offset, buf, count, type, status)                                                   \
    TOGETHER(File_read_ordered, S, 0,                                                            \
             (void *buf, C count, MPI_Datatype type, MPI_Status *status), buf, count, type,      \
             status)                                                                             \
    TOGETHER(File_write_ordered, S, 0,                                                           \
             (const void *buf, C count, MPI_Datatype type, MPI_Status *status), buf, count,      \
             type, status)                                                                       \
    TOGETHER(File_read_all_begin, S, 0, (void *buf, C count, MPI_Datatype type), buf, count,     \
             type)                                                                               \
    TOGETHER(File_write_all_begin, S, 0, (const void *buf, C count, MPI_Datatype type), buf,     \
             count, type)                                                                        \
    TOGETHER(File_read_at_all_begin, S, 0,                                                       \
             (MPI_Offset offset, void *buf, C count, MPI_Datatype type), offset, buf, count,     \
             type)                                                                               \
    TOGETHER(File_write_at_all_begin, S, 0,                                                      \
             (MPI_Offset offset, const void *buf, C count, MPI_Datatype type), offset, buf,      \
             count, type)                                                                        \
    TOGETHER(File_read_ordered_begin, S, 0, (void *buf, C count, MPI_Datatype type), buf, count, \
             type)                                                                               \
    TOGETHER(File_write_ordered_begin, S, 0, (const void *buf, C count, MPI_Datatype type), buf, \
             count, type)

TRANSFERS(, int)
#if LARGE_COUNTS
TRANSFERS(_c, MPI_Count)
#endif

#define ENDS(name, POINTER)                                                                      \
    TOGETHER(name, , 0, (POINTER buf, MPI_Status *status), buf, status)

ENDS(File_read_all_end, void *)
ENDS(File_write_all_end, const void *)
ENDS(File_read_at_all_end, void *)
ENDS(File_write_at_all_end, const void *)
ENDS(File_read_ordered_end, void *)
ENDS(File_write_ordered_end, const void *)
