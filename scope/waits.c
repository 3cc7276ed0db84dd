/* Waiting for requests, and testing them. See scope.h. */
#include "scope.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A library fills in all of a status, all but its error, or nothing: so does the scope. */
enum { UNTOUCHED = INT_MIN + 37 };

MPI_Status scope_no_status(void) {
    MPI_Status own;
    memset(&own, 0, sizeof own);
    own.MPI_SOURCE = own.MPI_ERROR = UNTOUCHED;
    return own;
}

static MPI_Status *nth(MPI_Status statuses[], int i) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
}

void scope_copy_status(MPI_Status *to, const MPI_Status *from) {
    if (to == MPI_STATUS_IGNORE)
        return;
    const int error = from->MPI_ERROR == UNTOUCHED ? to->MPI_ERROR : from->MPI_ERROR;
    if (from->MPI_SOURCE != UNTOUCHED)
        *to = *from;
    to->MPI_ERROR = error;
}

long long scope_received(const MPI_Status *status) {
    MPI_Count n = MPI_UNDEFINED;
#if LARGE_COUNTS
    PMPI_Get_count_c(status, MPI_BYTE, &n);
#else
    PMPI_Get_elements_x(status, MPI_BYTE, &n);
#endif
    return n == MPI_UNDEFINED ? 0 : (long long)n;
}

/* MPICH's status still tells of a message that was too long for its receive: errata 1. */
int scope_truncated(const struct comm *c, const MPI_Status *status, long long room) {
    int cancelled = 0;
    if (scope_received(status) <= room)
        return MPI_SUCCESS;
    PMPI_Test_cancelled(status, &cancelled);
    if (cancelled)
        return MPI_SUCCESS;
    scope_note_cut(c, status, scope_received(status), room);
    PMPI_Add_error_string(scope.no_room, scope_mishap()->cut);
    return scope_note(c->handle, scope_code(scope.no_room)); /* as PMPI_Test would have */
}

/* The library has told so: its text has the two sizes, if at all, in either order (errata 2). */
static void cut_off(const struct op *op, const MPI_Status *status, int err) {
    char text[MPI_MAX_ERROR_STRING];
    int class, length;
    long long one = 0, other = 0;
    PMPI_Error_class(err, &class);
    if (class != MPI_ERR_TRUNCATE || PMPI_Error_string(err, text, &length) != MPI_SUCCESS)
        return;
    const char *sizes = strstr(text, " truncated; ");
    if (sizes)
        sscanf(sizes, " truncated; %lld bytes received but buffer size is %lld", &one, &other);
    const long long size = scope_received(status) > op->bytes ? scope_received(status)
                           : one > other                      ? one
                                                              : other;
    scope_note_cut(op->comm, status, size, op->bytes);
}

/* A request that a break took out: told once to whoever waits for it, then it is gone. */
int scope_bury(MPI_Request *request, struct op *op) {
    if (op->counted) { /* complete, only that nobody should take it for so */
        MPI_Status status;
        int done = 0;
        PMPI_Test(request, &done, &status);
    }
    if (op->persistent) {
        op->active = op->dead = op->counted = op->cancelled = op->peeked = false;
        return scope.code;
    }
    scope_op_remove(op);
    *request = MPI_REQUEST_NULL;
    return scope.code;
}

/* When it completes, its message is counted and, unless it is persistent, forgotten; serial 0 in
 * `was`: not one we know. */
int scope_test(MPI_Request *request, int *done, MPI_Status *status, struct op *was) {
    *was = (struct op){.peer = NO_PEER, .tag = ANY_LABEL, .kind = UNKNOWN};
    struct op *op = scope_op_find(*request);
    if (op && op->dead) {
        *done = 1;
        return scope_bury(request, op);
    }
    if (op && op->generalized && scope_peek(op, done, status) == MPI_SUCCESS && !*done)
        return MPI_SUCCESS;
    if (op && scope.network && scope_held(op)) {
        *done = 0;
        return MPI_SUCCESS;
    }
    const int field = status->MPI_ERROR;
    int err = scope_heard(PMPI_Test(request, done, status));
    if (!*done && err == MPI_SUCCESS)
        return err;
    *done = 1;
    if (!err && op && op->active && op->kind == RECV)
        err = scope_truncated(op->comm, status, op->bytes);
    /* After a handler of the program's, or of ours, MPICH says that all is well: errata 12. */
    const int failed = err ? err : scope_mishap()->fatal_code;
    if (failed && op && op->active && op->kind == RECV && failed != scope.no_room)
        cut_off(op, status, failed);
    if (op && op->peeked) {
        status->MPI_ERROR = field;
        scope_copy_status(status, &op->status);
    }
    if (op && op->peeked && op->failed && !err) /* the library told it when it was asked */
        err = scope_note(op->comm->handle, op->failed);
    if (op && op->active) {
        scope_op_complete(op, status);
        scope_give_back(op);
        *was = *op;
        was->given = was->twin = NULL;
        if (op->kind == RECV && scope_peer(op->comm, status->MPI_SOURCE) >= 0) {
            was->peer = scope_peer(op->comm, status->MPI_SOURCE);
            was->tag = status->MPI_TAG;
            was->bytes = scope_received(status);
        }
    }
    if (op && op->persistent) {
        scope_op_landed(op);
        op->flight = NULL;
        op->active = op->counted = op->cancelled = op->peeked = false;
    } else if (op) {
        scope_op_remove(op);
    }
    return err;
}

void scope_event_of(const struct call *call, const struct op *was) {
    scope_event(call, was->comm ? was->comm : WORLD, was->peer, was->tag, was->bytes, was->serial);
}

/* The scope's own request: when the call is left, it is complete or was cancelled (drain.c), or it
 * is a collective that was given up. */
int scope_wait(struct call *call, MPI_Request *request, MPI_Status *status) {
    struct op was;
    int done = 0, err;
    call->requests = request;
    call->n_requests = 1;
    for (;;) {
        err = scope_test(request, &done, status, &was);
        if (done || err)
            break;
        err = scope_pause(call);
        if (err) {
            call->complete = scope_test(request, &done, status, &was) == MPI_SUCCESS && done;
            break;
        }
    }
    call->n_requests = 0;
    return err;
}

/* ---- waits ---- */

/* Is there anything to wait for: is it neither null nor persistent and idle? */
static bool is_open(MPI_Request request) {
    if (request == MPI_REQUEST_NULL)
        return false;
    const struct op *op = scope_op_find(request);
    return !op || op->active;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    OBSERVE_GIVEN(request && HAS_STATUS(status), Wait, MPI_COMM_WORLD, PMPI_Wait(request, status))
    if (*request == MPI_REQUEST_NULL) { /* an empty status is the library's own */
        scope_event(&call, c, NO_PEER, ANY_LABEL, 0, 0);
        return scope_end(&call, c, PMPI_Wait(request, status));
    }
    struct op was;
    MPI_Status own = scope_no_status();
    int done = 0, err;
    call.requests = request;
    call.n_requests = 1;
    for (;;) {
        err = scope_test(request, &done, &own, &was);
        if (done || err)
            break;
        err = scope_pause(&call);
        if (err)
            break;
    }
    scope_event_of(&call, &was);
    if (done)
        scope_copy_status(status, &own);
    return scope_end(&call, was.comm ? was.comm : c, err);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    OBSERVE_GIVEN(request && flag && HAS_STATUS(status), Test, MPI_COMM_WORLD,
                  PMPI_Test(request, flag, status))
    if (*request == MPI_REQUEST_NULL) {
        scope_event(&call, c, NO_PEER, ANY_LABEL, 0, 0);
        return scope_end(&call, c, PMPI_Test(request, flag, status));
    }
    struct op was;
    MPI_Status own = scope_no_status();
    const bool open = is_open(*request);
    *flag = 0;
    const int err = scope_test(request, flag, &own, &was);
    call.requests = request;
    call.n_requests = 1;
    if (open)
        scope_tested(&call, *flag);
    if (*flag) {
        scope_event_of(&call, &was);
        scope_copy_status(status, &own);
    }
    return scope_end(&call, was.comm ? was.comm : c, err);
}

/* The error of one of many, in its status and in that of the call. `always`: else the fields are set
 * only where the call as a whole says so, and then also those before are. */
static void status_error(int *err, MPI_Status statuses[], int i, int failed, bool always) {
    const bool first = failed && *err == MPI_SUCCESS;
    if (failed && *err != scope.code)
        *err = failed == scope.code ? failed : MPI_ERR_IN_STATUS;
    if (statuses == MPI_STATUSES_IGNORE)
        return;
    for (int k = 0; k < i && first; k++)
        statuses[k].MPI_ERROR = MPI_SUCCESS;
    if (*err || always)
        statuses[i].MPI_ERROR = failed;
}

#ifdef MPICH_VERSION
static const bool sets_fields = false; /* but in MPI_Waitall */
static const bool tells_early = true;  /* MPI_Testall of an error, though not all are complete */
static const bool waits_on = true;     /* MPI_Waitall after an error, and leaves the rest as it is */
#else
static const bool sets_fields = true;
static const bool tells_early = false;
static const bool waits_on = false; /* it takes what is complete */
#endif

static int look_at(MPI_Request request, int *done, MPI_Status *status);
static bool test_open(MPI_Request *request, int *done, MPI_Status *status, struct op *was,
                      int *err);

/* How far an MPI_Waitall has come. */
struct all {
    struct call *call;
    MPI_Request *requests;
    MPI_Status *statuses;
    int count, err, told;
    bool ends;  /* one has failed, and no other is waited for */
    bool asked; /* all of them, so that whichever is not open has its status */
};

static bool test_one(struct all *all, int i) {
    struct op was;
    MPI_Status own = scope_no_status();
    int done = 0, failed = MPI_SUCCESS;
    if (!all->asked)
        failed = scope_test(&all->requests[i], &done, &own, &was);
    else if (!test_open(&all->requests[i], &done, &own, &was, &failed))
        return true;
    if (!done)
        return false;
    scope_copy_status(nth(all->statuses, i), &own);
    status_error(&all->err, all->statuses, i, failed, true);
    all->ends = all->ends || (all->err && !waits_on);
    if (was.serial) {
        scope_event_of(all->call, &was);
        all->told++;
    }
    return true;
}

static bool is_dead(MPI_Request request) {
    const struct op *op = scope_op_find(request);
    return op && op->dead;
}

/* Where one that fails ends the call, it may be any: those from the i-th on are tested, too, about as
 * often as the one before them. */
static void ask_others(struct all *all, int i) {
    if (waits_on || all->call->polls % (all->count - i + 1) != 0)
        return;
    for (; i < all->count; i++)
        if (!is_dead(all->requests[i])) /* whoever waits for it is told so in its turn */
            test_one(all, i);
    all->asked = true;
}

/* All have to be complete, so they are waited for one after the other. */
int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && HAS_STATUSES(count, statuses), Waitall,
                  MPI_COMM_WORLD, PMPI_Waitall(count, requests, statuses))
    struct all all = {.call = &call, .requests = requests, .statuses = statuses, .count = count};
    int left = MPI_SUCCESS;
    call.requests = requests;
    call.n_requests = count;
    call.early = !waits_on;
    for (int i = 0; i < count; i++) {
        MPI_Status *const status = nth(statuses, i), own;
        const bool keeps = all.err && waits_on && requests[i] != MPI_REQUEST_NULL;
        int done = 0;
        for (;;) {
            if (left && is_dead(requests[i]))
                break; /* whoever waits for it again is told so */
            if (keeps)
                look_at(requests[i], &done, &own);
            else
                done = test_one(&all, i);
            if (done || left || all.ends)
                break;
            ask_others(&all, i + 1);
            if (!all.ends)
                left = scope_pause(&call);
        }
        if (!left && (keeps || (all.ends && !done)) && status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = MPI_ERR_PENDING;
        call.requests = requests + i + 1;
        call.n_requests = count - i - 1;
    }
    if (!all.told)
        scope_event(&call, c, NO_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, left ? left : all.err);
}

/* The errors of those that are complete, which stay their owner's. */
static int partly_failed(int count, const MPI_Request requests[], MPI_Status statuses[]) {
    for (int i = 0; i < count && statuses != MPI_STATUSES_IGNORE; i++) {
        const struct op *op = scope_op_find(requests[i]);
        const bool done = op ? op->peeked : requests[i] == MPI_REQUEST_NULL;
        if (op && done)
            scope_copy_status(&statuses[i], &op->status);
        statuses[i].MPI_ERROR = !done ? MPI_ERR_PENDING : op ? op->failed : MPI_SUCCESS;
    }
    return MPI_ERR_IN_STATUS;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && flag && HAS_STATUSES(count, statuses), Testall,
                  MPI_COMM_WORLD, PMPI_Testall(count, requests, flag, statuses))
    int err = MPI_SUCCESS;
    bool open = false, wrong = false;
    *flag = 1;
    for (int i = 0; i < count && (*flag || tells_early); i++) {
        MPI_Status own;
        struct op *op = scope_op_find(requests[i]);
        int done = 1, failed = MPI_SUCCESS;
        if (is_open(requests[i]) && !(op && op->dead)) {
            open = true;
            failed = op ? scope_peek(op, &done, &own)
                        : scope_heard(PMPI_Request_get_status(requests[i], &done, &own));
        }
        wrong = wrong || failed;
        *flag = *flag && (done || failed) && !(op && scope.network && scope_held(op));
    }
    if (wrong && !*flag && tells_early)
        return scope_end(&call, c, partly_failed(count, requests, statuses));
    call.requests = requests;
    call.n_requests = count;
    if (open)
        scope_tested(&call, *flag);
    for (int i = 0; i < count && *flag; i++) {
        struct op was;
        MPI_Status *const status = nth(statuses, i), own = scope_no_status();
        int done = 0;
        const int failed = scope_test(&requests[i], &done, &own, &was);
        scope_copy_status(status, &own);
        status_error(&err, statuses, i, failed, sets_fields);
        scope_event_of(&call, &was);
    }
    return scope_end(&call, c, err);
}

/* Tests a request if there is anything to wait for; else false. Whether one is active that the scope
 * does not know (a partitioned one, say) only the library can tell. */
static bool test_open(MPI_Request *request, int *done, MPI_Status *status, struct op *was,
                      int *err) {
    *done = 0;
    if (!is_open(*request))
        return false;
    if (scope_op_find(*request)) {
        *err = scope_test(request, done, status, was);
        return true;
    }
    int which = 0;
    *was = (struct op){.peer = NO_PEER, .tag = ANY_LABEL, .kind = UNKNOWN};
    *err = scope_heard(PMPI_Testany(1, request, &which, done, status));
    *done = *done || *err;
    return !*done || *err || which != MPI_UNDEFINED;
}

/* One pass over the requests: completes the first that is ready. *index: MPI_UNDEFINED if none is
 * open, else untouched unless *done. */
static int test_any(struct call *call, int count, MPI_Request requests[], int *index, int *done,
                    MPI_Status *status) {
    bool any = false;
    *done = 0;
    for (int i = 0; i < count; i++) {
        struct op was;
        MPI_Status own = scope_no_status();
        int err = MPI_SUCCESS, complete = 0;
        if (!test_open(&requests[i], &complete, &own, &was, &err))
            continue;
        any = true;
        if (complete) {
            *done = 1;
            *index = i;
            scope_event_of(call, &was);
            scope_copy_status(status, &own);
            return err;
        }
    }
    if (!any) {
        MPI_Request none = MPI_REQUEST_NULL;
        *index = MPI_UNDEFINED;
        return PMPI_Test(&none, done, status); /* for its empty status */
    }
    return MPI_SUCCESS;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && index && HAS_STATUS(status), Waitany,
                  MPI_COMM_WORLD, PMPI_Waitany(count, requests, index, status))
    int done = 0, err;
    call.requests = requests;
    call.n_requests = count;
    call.mode = ANY;
    for (;;) {
        err = test_any(&call, count, requests, index, &done, status);
        if (done || err)
            break;
        err = scope_pause(&call);
        if (err) {
            *index = MPI_UNDEFINED;
            scope_event(&call, c, NO_PEER, ANY_LABEL, 0, 0);
            break;
        }
    }
    return scope_end(&call, c, err);
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && index && flag && HAS_STATUS(status), Testany,
                  MPI_COMM_WORLD, PMPI_Testany(count, requests, index, flag, status))
    *index = MPI_UNDEFINED;
    const int err = test_any(&call, count, requests, index, flag, status);
    call.requests = requests;
    call.n_requests = count;
    if (*index != MPI_UNDEFINED || !*flag)
        scope_tested(&call, *flag);
    return scope_end(&call, c, err);
}

/* One pass: completes all that are ready. */
static int test_some(struct call *call, int count, MPI_Request requests[], int *ready,
                     int indices[], MPI_Status statuses[]) {
    bool any = false;
    int err = MPI_SUCCESS;
    *ready = 0;
    for (int i = 0; i < count; i++) {
        struct op was;
        MPI_Status *const status = nth(statuses, *ready), own = scope_no_status();
        int done = 0, failed = MPI_SUCCESS;
        if (!test_open(&requests[i], &done, &own, &was, &failed))
            continue;
        any = true;
        if (!done)
            continue;
        indices[*ready] = i;
        scope_copy_status(status, &own);
        status_error(&err, statuses, *ready, failed, sets_fields);
        scope_event_of(call, &was);
        ++*ready;
    }
    if (!any)
        *ready = MPI_UNDEFINED;
    return err;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *ready, int indices[],
                 MPI_Status statuses[]) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && ready && HAS_MANY(count, indices) &&
                      HAS_STATUSES(count, statuses),
                  Waitsome, MPI_COMM_WORLD,
                  PMPI_Waitsome(count, requests, ready, indices, statuses))
    int err;
    call.requests = requests;
    call.n_requests = count;
    call.mode = ANY;
    for (;;) {
        err = test_some(&call, count, requests, ready, indices, statuses);
        if (*ready != 0 || err)
            break;
        err = scope_pause(&call);
        if (err) {
            scope_event(&call, c, NO_PEER, ANY_LABEL, 0, 0);
            break;
        }
    }
    return scope_end(&call, c, err);
}

int MPI_Testsome(int count, MPI_Request requests[], int *ready, int indices[],
                 MPI_Status statuses[]) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && ready && HAS_MANY(count, indices) &&
                      HAS_STATUSES(count, statuses),
                  Testsome, MPI_COMM_WORLD,
                  PMPI_Testsome(count, requests, ready, indices, statuses))
    const int err = test_some(&call, count, requests, ready, indices, statuses);
    call.requests = requests;
    call.n_requests = count;
    if (*ready != MPI_UNDEFINED)
        scope_tested(&call, *ready != 0);
    return scope_end(&call, c, err);
}

/* ---- tests that take nothing: the request stays its owner's ---- */

static int look_at(MPI_Request request, int *done, MPI_Status *status) {
    struct op *op = scope_op_find(request);
    if (op && op->dead) {
        *done = 1;
        return scope.code;
    }
    const int err = op && op->active ? scope_peek(op, done, status)
                                     : scope_heard(PMPI_Request_get_status(request, done, status));
    *done = *done && !(op && scope.network && scope_held(op));
    return err;
}

int MPI_Request_get_status(MPI_Request request, int *flag, MPI_Status *status) {
    OBSERVE_GIVEN(flag && HAS_STATUS(status), Request_get_status, MPI_COMM_WORLD,
                  PMPI_Request_get_status(request, flag, status))
    MPI_Status own = scope_no_status();
    const int err = look_at(request, flag, &own);
    if (*flag)
        scope_copy_status(status, &own);
    call.requests = &request;
    call.n_requests = 1;
    if (!*flag)
        scope_tested(&call, false);
    return scope_end(&call, c, err);
}

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
/* As the header has it, with the const of the standard or without: errata 20. */
typedef __typeof__(_Generic(MPI_Request_get_status_all,
    int (*)(int, MPI_Request *, int *, MPI_Status *): (MPI_Request *)NULL,
    default: (const MPI_Request *)NULL)) looked_at;

/* As is_open, also of a request that the scope does not know: the library does. */
static bool is_known_open(MPI_Request request) {
    int which = 0, done = 0;
    if (!is_open(request) || scope_op_find(request))
        return is_open(request);
    PMPI_Request_get_status_any(1, &request, &which, &done, MPI_STATUS_IGNORE);
    return !done || which != MPI_UNDEFINED;
}

int MPI_Request_get_status_all(int count, looked_at requests, int *flag, MPI_Status statuses[]) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && flag && HAS_STATUSES(count, statuses),
                  Request_get_status_all, MPI_COMM_WORLD,
                  PMPI_Request_get_status_all(count, requests, flag, statuses))
    int err = MPI_SUCCESS;
    *flag = 1;
    for (int i = 0; i < count && *flag && !err; i++) {
        MPI_Status *const status = nth(statuses, i), own = scope_no_status();
        err = look_at(requests[i], flag, &own);
        if (*flag && !err)
            scope_copy_status(status, &own);
    }
    call.requests = requests;
    call.n_requests = count;
    if (!*flag)
        scope_tested(&call, false);
    return scope_end(&call, c, err);
}

int MPI_Request_get_status_any(int count, looked_at requests, int *index, int *flag,
                               MPI_Status *status) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && index && flag && HAS_STATUS(status),
                  Request_get_status_any, MPI_COMM_WORLD,
                  PMPI_Request_get_status_any(count, requests, index, flag, status))
    bool any = false;
    int err = MPI_SUCCESS;
    *flag = 0;
    *index = MPI_UNDEFINED;
    for (int i = 0; i < count && !*flag && !err; i++) {
        MPI_Status own = scope_no_status();
        if (!is_known_open(requests[i]))
            continue;
        any = true;
        err = look_at(requests[i], flag, &own);
        if (*flag && !err) {
            *index = i;
            scope_copy_status(status, &own);
        }
    }
    if (!any) /* for its empty status */
        err = PMPI_Request_get_status(MPI_REQUEST_NULL, flag, status);
    call.requests = requests;
    call.n_requests = count;
    if (!*flag)
        scope_tested(&call, false);
    return scope_end(&call, c, err);
}

int MPI_Request_get_status_some(int count, looked_at requests, int *ready, int indices[],
                                MPI_Status statuses[]) {
    OBSERVE_GIVEN(HAS_MANY(count, requests) && ready && HAS_MANY(count, indices) &&
                      HAS_STATUSES(count, statuses),
                  Request_get_status_some, MPI_COMM_WORLD,
                  PMPI_Request_get_status_some(count, requests, ready, indices, statuses))
    bool any = false;
    int err = MPI_SUCCESS;
    *ready = 0;
    for (int i = 0; i < count && !err; i++) {
        MPI_Status *const status = nth(statuses, *ready), own = scope_no_status();
        int done = 0;
        if (!is_known_open(requests[i]))
            continue;
        any = true;
        err = look_at(requests[i], &done, &own);
        if (!done || err)
            continue;
        indices[*ready] = i;
        scope_copy_status(status, &own);
        ++*ready;
    }
    call.requests = requests;
    call.n_requests = count;
    if (any && *ready == 0)
        scope_tested(&call, false);
    if (!any)
        *ready = MPI_UNDEFINED;
    return scope_end(&call, c, err);
}
#endif
