/* Error handlers that the program has written. See scope.h.
 *
 * Such a handler may leave by longjmp, or throw: not out of the scope, which holds its lock, nor out
 * of a library that was asked for MPI_THREAD_MULTIPLE and may hold one of its own. So what the library
 * calls is a stand-in; within an observed call it notes the error, and the handler itself is called
 * when that call is over, as the last thing it does. Handlers beyond HANDLERS of a kind are the
 * library's to call. */
#include "scope.h"

/* What the program's handler is to be told. */
struct told {
    int kind, which; /* of the stand-ins */
    union {
        MPI_Comm comm;
        MPI_Win win;
        MPI_File file;
    } of;
    int err;
};

enum { NOBODY, COMM, WIN, FILE_, HANDLERS = 8 };

static _Thread_local struct told waiting; /* the first of a call */
static _Thread_local int last;            /* the newest, until the scope has heard of it */
static _Thread_local bool held;           /* the scope itself raises an error */
static atomic_bool forgives; /* the library's calls return MPI_SUCCESS when a handler has returned */

static MPI_Comm_errhandler_function *_Atomic comm_handlers[HANDLERS];
static MPI_Win_errhandler_function *_Atomic win_handlers[HANDLERS];
static MPI_File_errhandler_function *_Atomic file_handlers[HANDLERS];

static void tell(struct told told) {
    if (told.kind == COMM)
        atomic_load(&comm_handlers[told.which])(&told.of.comm, &told.err);
    else if (told.kind == WIN)
        atomic_load(&win_handlers[told.which])(&told.of.win, &told.err);
    else
        atomic_load(&file_handlers[told.which])(&told.of.file, &told.err);
}

static void stand_in(struct told told) {
    if (!held && !scope_inside()) {
        tell(told);
        return;
    }
    last = told.err;
    if (waiting.kind == NOBODY)
        waiting = told;
}

int scope_heard(int err) {
    const int mine = last;
    last = MPI_SUCCESS;
    if (mine == MPI_SUCCESS)
        return err;
    atomic_store(&forgives, err == MPI_SUCCESS);
    return mine;
}

void scope_deaf(void) { held = true; }

int scope_tell_handler(int err) {
    struct told told = waiting;
    waiting.kind = NOBODY;
    last = MPI_SUCCESS;
    if (told.kind == NOBODY)
        return err;
    if (err)
        told.err = err;
    const int result = atomic_load(&forgives) ? MPI_SUCCESS : told.err;
    tell(told);
    return result;
}

int scope_note(MPI_Comm comm, int err) {
    PMPI_Comm_call_errhandler(comm, err);
    if (last) /* the library is asked for an error, to see what it returns then */
        scope_heard(PMPI_Comm_size(comm, NULL));
    return err;
}

int scope_raise(MPI_Comm comm, int err) {
    waiting.kind = NOBODY;
    held = true;
    scope_note(comm, err);
    held = false;
    return scope_tell_handler(err);
}

int MPI_Comm_call_errhandler(MPI_Comm comm, int err) {
    if (scope_inside() || scope_comm(comm) == NULL)
        return PMPI_Comm_call_errhandler(comm, err);
    scope_raise(comm, err);
    return MPI_SUCCESS;
}

/* The stand-ins: the number of each is the place of its handler. */
#define PLACES(X, ...)                                                                           \
    X(0, __VA_ARGS__)                                                                            \
    X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__) X(4, __VA_ARGS__) X(5, __VA_ARGS__)    \
        X(6, __VA_ARGS__) X(7, __VA_ARGS__)

#define STAND_IN(n, member, number, type)                                                        \
    static void member##_##n(type *of, int *err, ...) {                                          \
        stand_in((struct told){.kind = number, .which = n, .of.member = *of, .err = *err});      \
    }
#define NAME(n, member, ...) member##_##n,

/* The handler's stand-in: one that it has, or the next that is free. */
#define KIND(name, member, number, type)                                                         \
    PLACES(STAND_IN, member, number, type)                                                       \
    static MPI_##name##_errhandler_function *const member##_stand_ins[] = {PLACES(NAME, member)}; \
    int MPI_##name##_create_errhandler(MPI_##name##_errhandler_function *given,                  \
                                       MPI_Errhandler *handler) {                                \
        for (int i = 0; given && i < HANDLERS; i++) {                                            \
            MPI_##name##_errhandler_function *there = NULL;                                      \
            if (atomic_compare_exchange_strong(&member##_handlers[i], &there, given) ||          \
                there == given)                                                                  \
                return PMPI_##name##_create_errhandler(member##_stand_ins[i], handler);          \
        }                                                                                        \
        return PMPI_##name##_create_errhandler(given, handler);                                  \
    }

KIND(Comm, comm, COMM, MPI_Comm)
KIND(Win, win, WIN, MPI_Win)
KIND(File, file, FILE_, MPI_File)

/* The name that MPI-1 had for it; newer headers may forbid it. */
int(MPI_Errhandler_create)(MPI_Comm_errhandler_function *given, MPI_Errhandler *handler) {
    return MPI_Comm_create_errhandler(given, handler);
}
