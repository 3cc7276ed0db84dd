/* One-sided communication. See scope.h.
 *
 * A window has a meeting place of its own, where its fences and its MPI_Win_free are compared; its
 * making is entered on the communicator. MPI_Win_post and MPI_Win_complete send words to the ranks
 * they concern, MPI_Win_start and MPI_Win_wait await them, and only then make the call, so that it
 * finds its partners there.
 *
 * A lock is asked for inside the library, which has no form of it that could be left: both MPICH
 * (5.0) and Open MPI (5.0) wait in MPI_Win_lock itself, for who holds it and for nobody else. The
 * judge knows who does. A break has those who hold it let it go: then the call returns by itself,
 * and lets go of what it got.
 *
 * After a break every window can be used again: fences were met at gates or not begun, what was
 * posted or started in the broken cell has been completed and waited for on all sides, what was
 * locked in it is unlocked, and so is what somebody waited for. What an epoch had put there by then
 * has arrived; nothing after it. */
#include "scope.h"

#include <stdlib.h>
#include <string.h>

enum { POSTS, COMPLETES };          /* kinds of words */
enum { ASKED, GOT, GIVEN_UP, OUT }; /* states of a lock */
enum { ALL_TARGETS = -1 };

struct lock {
    struct lock *next;
    int target, type, cell; /* target: its rank in the window */
    bool checked;           /* it keeps others out */
    atomic_int state;
};

struct window {
    struct window *next;
    MPI_Win handle;
    struct comm *place;
    struct lock *locks;
    atomic_int inside; /* threads that end an epoch, inside the library */
    bool exposed, accesses;
    int exposed_in, accesses_in; /* the cells in which that began */
    int *origins, n_origins;     /* world ranks it is exposed to */
    int *awaited, n_awaited;     /* those whose MPI_Win_complete has not been heard of */
    int *targets, n_targets;     /* world ranks it accesses */
    int *posts, *starts;         /* how many to, and for, each world rank */
};

/* ---- those there are ---- */

static struct window *find(MPI_Win handle) {
    for (struct window *w = scope.open_windows; w; w = w->next)
        if (w->handle == handle)
            return w;
    return NULL;
}

static void forget_lock(struct window *w, struct lock *lock) {
    for (struct lock **at = &w->locks; *at; at = &(*at)->next) {
        if (*at == lock) {
            *at = lock->next;
            free(lock);
            return;
        }
    }
}

static void end_exposure(struct window *w) {
    free(w->origins);
    free(w->awaited);
    w->origins = w->awaited = NULL;
    w->n_origins = w->n_awaited = 0;
    w->exposed = false;
}

static void end_access(struct window *w) {
    free(w->targets);
    w->targets = NULL;
    w->n_targets = 0;
    w->accesses = false;
}

static void forget_window(struct window *w) {
    for (struct window **at = &scope.open_windows; *at; at = &(*at)->next) {
        if (*at == w) {
            *at = w->next;
            break;
        }
    }
    while (w->locks)
        forget_lock(w, w->locks);
    end_exposure(w);
    end_access(w);
    w->place->lasting = false; /* it goes when what was entered there has been compared */
    free(w->posts);
    free(w->starts);
    free(w);
}

static int add_window(MPI_Win handle, const struct comm *c, int number) {
    struct window *w = calloc(1, sizeof *w);
    int *posts = calloc((size_t)scope.size, sizeof *posts);
    int *starts = calloc((size_t)scope.size, sizeof *starts);
    struct comm *place = w && posts && starts ? scope_meeting(number, c->world, c->size) : NULL;
    if (!place) {
        free(w);
        free(posts);
        free(starts);
        return MPI_ERR_NO_MEM;
    }
    place->lasting = true;
    *w = (struct window){.handle = handle, .place = place, .posts = posts, .starts = starts};
    w->next = scope.open_windows;
    scope.open_windows = w;
    return MPI_SUCCESS;
}

static int world_rank(const struct window *w, int rank) {
    return rank >= 0 && rank < w->place->size ? w->place->world[rank] : NO_PEER;
}

static int key(const struct window *w, int kind) { return scope_hash(w->place->number, kind); }

/* ---- what a rank says of its windows ---- */

static struct record *row(struct report *report, int kind_of_row, const struct window *w, int peer,
                          int *room) {
    struct record *r = scope_row(report, kind_of_row, room);
    if (r) {
        r->comm = w->place->number;
        r->peer = peer;
    }
    return r;
}

static void lock_rows(struct report *report, const struct window *w, const struct lock *lock,
                      int *room) {
    if (atomic_load(&lock->state) != GOT || !lock->checked)
        return;
    for (int i = 0; i < w->place->size; i++) {
        if (lock->target != i && lock->target != ALL_TARGETS)
            continue;
        struct record *r = row(report, HOLDS, w, w->place->world[i], room);
        if (r) {
            r->kind = lock->type;
            r->count = lock->cell == scope.cell;
        }
    }
}

void scope_window_rows(struct report *report, int *room) {
    for (const struct window *w = scope.open_windows; w; w = w->next) {
        for (const struct lock *lock = w->locks; lock; lock = lock->next)
            lock_rows(report, w, lock, room);
        for (int i = 0; i < w->n_origins; i++) {
            struct record *r = row(report, EXPOSES, w, w->origins[i], room);
            if (!r)
                return;
            r->index = w->posts[w->origins[i]];
            r->count = w->exposed_in == scope.cell;
        }
        for (int i = 0; i < w->n_targets; i++) {
            struct record *r = row(report, ACCESSES, w, w->targets[i], room);
            if (!r)
                return;
            r->count = w->accesses_in == scope.cell;
        }
    }
}

/* ---- calls ---- */

/* A call of the library's that waits for no partner any more; the break waits for its end. */
#define INSIDE(w, ...)                                                                           \
    do {                                                                                         \
        atomic_fetch_add(&(w)->inside, 1);                                                       \
        scope_step_out(&call);                                                                   \
        err = scope_heard(__VA_ARGS__);                                                          \
        atomic_fetch_sub(&(w)->inside, 1);                                                       \
        scope_step_in(&call);                                                                    \
        err = since(&call, err);                                                                 \
    } while (0)

/* A call that was overtaken by a break: what it did has been undone or taken on. */
static int since(struct call *call, int err) {
    if (call->generation == scope.generation)
        return err;
    call->left = true;
    return scope.code;
}

/* Calls on a window the scope does not know are left alone, without the lock. */
#define OBSERVE_WINDOW(name, handle, forward)                                                    \
    OBSERVE(name, MPI_COMM_WORLD, forward)                                                       \
    struct window *const w = find(handle);                                                       \
    int err = MPI_SUCCESS;                                                                       \
    if (!w) {                                                                                    \
        if (handle != MPI_WIN_NULL)                                                              \
            scope_unjudged("a window made while the scope stepped aside");                       \
        scope_step_out(&call);                                                                   \
        err = forward;                                                                           \
        scope_step_in(&call);                                                                    \
        return scope_end(&call, c, err);                                                         \
    }


/* ---- making and freeing them, fences ---- */

/* Arguments that the library refuses are refused before anybody is waited for. */
#define MAKE(name, S, FITS, PARAMETERS, ...)                                                     \
    int MPI_##name##S PARAMETERS {                                                               \
        OBSERVE_GIVEN(win, name, comm, PMPI_##name##S(__VA_ARGS__))                              \
        const bool fits = (FITS) && !c->remote;                                                  \
        int err = MPI_SUCCESS, number = 0;                                                       \
        if (fits) {                                                                              \
            scope_enter(c, CALL_##name, NO_ROOT);                                                \
            err = scope_gate(&call, c);                                                          \
        }                                                                                        \
        if (!err) {                                                                              \
            scope_step_out(&call);                                                               \
            err = fits ? scope_new_number(c, &number) : MPI_SUCCESS;                             \
            err = err ? err : scope_heard(PMPI_##name##S(__VA_ARGS__));                          \
            scope_step_in(&call);                                                                \
            if (!err && fits)                                                                    \
                err = add_window(*win, c, number);                                               \
        }                                                                                        \
        scope_event(&call, c, ANY_PEER, ANY_LABEL, 0, 0);                                        \
        return scope_end(&call, c, err);                                                         \
    }

#define WITH_MEMORY(S, UNIT)                                                                     \
    MAKE(Win_create, S, size >= 0 && unit > 0,                                                   \
         (void *base, MPI_Aint size, UNIT unit, MPI_Info info, MPI_Comm comm, MPI_Win *win),     \
         base, size, unit, info, comm, win)                                                      \
    MAKE(Win_allocate, S, size >= 0 && unit > 0,                                                 \
         (MPI_Aint size, UNIT unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),     \
         size, unit, info, comm, base, win)                                                      \
    MAKE(Win_allocate_shared, S, size >= 0 && unit > 0,                                          \
         (MPI_Aint size, UNIT unit, MPI_Info info, MPI_Comm comm, void *base, MPI_Win *win),     \
         size, unit, info, comm, base, win)

WITH_MEMORY(, int)
#if LARGE_COUNTS
WITH_MEMORY(_c, MPI_Aint)
#endif
MAKE(Win_create_dynamic, , true, (MPI_Info info, MPI_Comm comm, MPI_Win *win), info, comm, win)

int MPI_Win_fence(int assertion, MPI_Win win) {
    OBSERVE_WINDOW(Win_fence, win, PMPI_Win_fence(assertion, win))
    scope_enter(w->place, CALL_Win_fence, NO_ROOT);
    err = scope_gate(&call, w->place);
    if (!err) {
        scope_step_out(&call);
        err = PMPI_Win_fence(assertion, win);
        scope_step_in(&call);
    }
    scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* While the scope steps aside. */
static int free_unseen(MPI_Win *win) {
    scope_lock();
    struct window *w = win ? find(*win) : NULL;
    if (w)
        forget_window(w);
    scope_unlock();
    return PMPI_Win_free(win);
}

/* MPICH refuses to free a window in an epoch, on that rank alone: before anybody is waited for. */
static bool can_be_freed(const struct window *w) {
#ifdef MPICH_VERSION
    return !w->locks && !w->exposed && !w->accesses;
#else
    (void)w;
    return true;
#endif
}

int MPI_Win_free(MPI_Win *win) {
    OBSERVE_WINDOW(Win_free, *(win ? win : &(MPI_Win){MPI_WIN_NULL}), free_unseen(win))
    struct comm *place = w->place;
    if (can_be_freed(w)) {
        scope_enter(place, CALL_Win_free, NO_ROOT);
        err = scope_gate(&call, place);
    }
    if (!err) {
        scope_step_out(&call);
        err = scope_heard(PMPI_Win_free(win));
        scope_step_in(&call);
        if (!err)
            forget_window(w);
    }
    scope_event(&call, place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* ---- post, start, complete, wait ---- */

/* The scope's own tokens say who has posted. MPICH is told not to look: errata 10. */
#ifdef MPICH_VERSION
enum { UNCHECKED = MPI_MODE_NOCHECK };
#else
enum { UNCHECKED = 0 };
#endif

int MPI_Win_post(MPI_Group group, int assertion, MPI_Win win) {
    OBSERVE_WINDOW(Win_post, win, PMPI_Win_post(group, assertion, win))
    int n = 0, *world = NULL, *awaited = NULL;
    err = scope_heard(PMPI_Win_post(group, assertion | UNCHECKED, win)); /* waits for nobody */
    if (!err && scope_world_ranks(group, &world, &n))
        awaited = malloc((size_t)(n + 1) * sizeof *awaited);
    if (awaited) {
        memcpy(awaited, world, (size_t)n * sizeof *awaited);
        w->origins = world;
        w->awaited = awaited;
        w->n_origins = w->n_awaited = n;
        w->exposed = true;
        w->exposed_in = scope.cell;
        for (int i = 0; i < n; i++) {
            w->posts[world[i]]++;
            scope_token(world[i], key(w, POSTS));
        }
    } else if (!err) {
        scope.blind = true;
        free(world);
    }
    scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

int MPI_Win_start(MPI_Group group, int assertion, MPI_Win win) {
    OBSERVE_WINDOW(Win_start, win, PMPI_Win_start(group, assertion, win))
    int n = 0, *world = NULL;
    if (!w->accesses && scope_world_ranks(group, &world, &n))
        err = scope_await(&call, n, world, key(w, POSTS));
    if (!err)
        err = scope_heard(PMPI_Win_start(group, assertion | UNCHECKED, win)); /* all have posted */
    if (!err && world) {
        w->targets = world;
        w->n_targets = n;
        w->accesses = true;
        w->accesses_in = scope.cell;
        for (int i = 0; i < n; i++)
            w->starts[world[i]]++;
    } else {
        free(world);
    }
    scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

int MPI_Win_complete(MPI_Win win) {
    OBSERVE_WINDOW(Win_complete, win, PMPI_Win_complete(win))
    const int n = w->n_targets;
    int *targets = w->targets;
    w->targets = NULL; /* this thread ends it, not a break */
    end_access(w);
    INSIDE(w, PMPI_Win_complete(win));
    for (int i = 0; i < n && !err; i++)
        scope_token(targets[i], key(w, COMPLETES));
    free(targets);
    scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

int MPI_Win_wait(MPI_Win win) {
    OBSERVE_WINDOW(Win_wait, win, PMPI_Win_wait(win))
    err = scope_await(&call, w->n_awaited, w->awaited, key(w, COMPLETES));
    if (!err) {
        end_exposure(w);
        INSIDE(w, PMPI_Win_wait(win));
    }
    scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* It can only succeed when all have completed; until then it asks for one that has not. */
int MPI_Win_test(MPI_Win win, int *flag) {
    OBSERVE_WINDOW(Win_test, win, PMPI_Win_test(win, flag))
    if (!flag)
        return scope_end(&call, c, PMPI_Win_test(win, flag));
    const int word = key(w, COMPLETES);
    while (!err && w->n_awaited > 0 && scope_token_there(w->awaited[w->n_awaited - 1], word))
        err = scope_await(&call, 1, &w->awaited[--w->n_awaited], word);
    *flag = 0;
    if (!err && w->n_awaited == 0) {
        err = PMPI_Win_test(win, flag);
        if (!err && *flag)
            end_exposure(w);
    }
    const struct record need = {.kind = w->n_awaited > 0 ? WINDOW : UNKNOWN,
                                .peer = w->n_awaited > 0 ? w->awaited[w->n_awaited - 1] : 0,
                                .tag = ANY_LABEL,
                                .index = word};
    call.probe = &need;
    call.n_probes = 1;
    scope_tested(&call, *flag);
    if (*flag)
        scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* ---- locks ---- */

static struct lock *add_lock(struct window *w, int target, int type, bool checked) {
    struct lock *lock = malloc(sizeof *lock);
    if (!lock)
        return NULL;
    lock->target = target;
    lock->type = type;
    lock->checked = checked;
    lock->cell = scope.cell;
    atomic_init(&lock->state, ASKED);
    lock->next = w->locks;
    w->locks = lock;
    return lock;
}

static int unlock(MPI_Win win, int target) {
    return target == ALL_TARGETS ? PMPI_Win_unlock_all(win) : PMPI_Win_unlock(target, win);
}

/* Asks the library, while the call counts as waiting. A break that comes meanwhile makes whoever
 * holds the lock let it go; what this thread gets then it lets go at once, even before the break is
 * over. What it got just before, the break lets go. */
static int ask(struct call *call, struct lock *lock, int assertion, MPI_Win win, bool *got) {
    const int target = lock->target;
    const int type = lock->type == EXCLUSIVE ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED;
    int asked = ASKED;
    call->pause = call->start;
    call->thread->waiting = call;
    scope_unlock();
    const int err = target == ALL_TARGETS ? PMPI_Win_lock_all(assertion, win)
                                          : PMPI_Win_lock(type, target, assertion, win);
    *got = !err && atomic_compare_exchange_strong(&lock->state, &asked, GOT);
    if (!*got) {
        if (!err)
            unlock(win, target);
        atomic_store(&lock->state, OUT);
    }
    scope_lock();
    call->thread->waiting = NULL;
    call->n_probes = 0;
    return since(call, err);
}

static int take_lock(struct call *call, struct window *w, int target, int type, int assertion) {
    const bool all = target == ALL_TARGETS, checked = !(assertion & MPI_MODE_NOCHECK);
    const int n = !checked ? 0 : all ? w->place->size : 1;
    struct record *needs = calloc((size_t)n + 1, sizeof *needs);
    struct lock *lock = needs ? add_lock(w, target, type, checked) : NULL;
    int err = MPI_ERR_NO_MEM;
    for (int i = 0; lock && i < n; i++)
        needs[i] = (struct record){.kind = WINDOW,
                                   .comm = w->place->number,
                                   .peer = w->place->world[all ? i : target],
                                   .tag = type};
    if (lock) {
        bool got;
        call->probe = needs;
        call->n_probes = n;
        err = ask(call, lock, assertion, w->handle, &got);
        if (!got)
            forget_lock(w, lock);
    }
    free(needs);
    return err;
}

int MPI_Win_lock(int type, int rank, int assertion, MPI_Win win) {
    OBSERVE_WINDOW(Win_lock, win, PMPI_Win_lock(type, rank, assertion, win))
    const int target = world_rank(w, rank);
    if (target >= 0)
        err = take_lock(&call, w, rank, type == MPI_LOCK_EXCLUSIVE ? EXCLUSIVE : SHARED, assertion);
    else
        INSIDE(w, PMPI_Win_lock(type, rank, assertion, win)); /* which says what is wrong */
    scope_event(&call, w->place, target, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

int MPI_Win_lock_all(int assertion, MPI_Win win) {
    OBSERVE_WINDOW(Win_lock_all, win, PMPI_Win_lock_all(assertion, win))
    err = take_lock(&call, w, ALL_TARGETS, SHARED, assertion);
    scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

static void let_go(struct window *w, int target) {
    for (struct lock *lock = w->locks; lock; lock = lock->next) {
        if (lock->target == target && atomic_load(&lock->state) == GOT) {
            forget_lock(w, lock);
            return;
        }
    }
}

int MPI_Win_unlock(int rank, MPI_Win win) {
    OBSERVE_WINDOW(Win_unlock, win, PMPI_Win_unlock(rank, win))
    let_go(w, rank);
    INSIDE(w, PMPI_Win_unlock(rank, win));
    scope_event(&call, w->place, world_rank(w, rank), ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

int MPI_Win_unlock_all(MPI_Win win) {
    OBSERVE_WINDOW(Win_unlock_all, win, PMPI_Win_unlock_all(win))
    let_go(w, ALL_TARGETS);
    INSIDE(w, PMPI_Win_unlock_all(win));
    scope_event(&call, w->place, ANY_PEER, ANY_LABEL, 0, 0);
    return scope_end(&call, c, err);
}

/* They wait for the target's library, not for its program. */
#define FLUSH(name, PEER, PARAMETERS, ...)                                                       \
    int MPI_##name PARAMETERS {                                                                  \
        OBSERVE_WINDOW(name, win, PMPI_##name(__VA_ARGS__))                                      \
        INSIDE(w, PMPI_##name(__VA_ARGS__));                                                     \
        scope_event(&call, w->place, PEER, ANY_LABEL, 0, 0);                                     \
        return scope_end(&call, c, err);                                                         \
    }

FLUSH(Win_flush, world_rank(w, rank), (int rank, MPI_Win win), rank, win)
FLUSH(Win_flush_local, world_rank(w, rank), (int rank, MPI_Win win), rank, win)
FLUSH(Win_flush_all, ANY_PEER, (MPI_Win win), win)
FLUSH(Win_flush_local_all, ANY_PEER, (MPI_Win win), win)

/* ---- after a verdict ---- */

/* What a break has to call: in a thread of its own, so that it has a limit. */
enum todo { COMPLETE, START, UNLOCK, WAIT };

struct job {
    MPI_Win win;
    int what, target;
    MPI_Group group;
};

struct jobs {
    struct job *job;
    int n;
    atomic_int users;
    atomic_bool done;
};

static void forget_jobs(struct jobs *jobs) {
    if (atomic_fetch_sub(&jobs->users, 1) > 1)
        return;
    free(jobs->job);
    free(jobs);
}

static void *do_jobs(void *of) {
    struct jobs *jobs = of;
    for (int i = 0; i < jobs->n; i++) {
        struct job *job = &jobs->job[i];
        if (job->what == START) {
            PMPI_Win_start(job->group, UNCHECKED, job->win);
            PMPI_Group_free(&job->group);
        }
        if (job->what == START || job->what == COMPLETE)
            PMPI_Win_complete(job->win);
        else if (job->what == UNLOCK)
            unlock(job->win, job->target);
        else
            PMPI_Win_wait(job->win);
    }
    atomic_store(&jobs->done, true);
    forget_jobs(jobs);
    return NULL;
}

static void add_job(struct jobs *jobs, struct job job) {
    struct job *bigger = realloc(jobs->job, (size_t)(jobs->n + 1) * sizeof *bigger);
    if (!bigger)
        return;
    jobs->job = bigger;
    jobs->job[jobs->n++] = job;
}

/* Ends what this rank has begun to access, and what others have exposed to it and it has not. */
static void end_accesses(struct jobs *jobs, struct window *w, const struct report *reports) {
    int n = 0, *targets = calloc((size_t)w->place->size + 1, sizeof *targets);
    if (w->accesses)
        add_job(jobs, (struct job){.win = w->handle, .what = COMPLETE});
    end_access(w);
    for (int m = 0; m < w->place->size && targets; m++) {
        const int r = w->place->world[m];
        for (int i = 0; i < reports[r].rows; i++) {
            const struct record *e = &reports[r].row[i];
            if (e->row != EXPOSES || e->comm != w->place->number || e->peer != scope.rank ||
                e->index <= w->starts[r])
                continue;
            w->starts[r] = e->index;
            targets[n++] = m;
        }
    }
    if (n > 0) {
        struct job job = {.win = w->handle, .what = START};
        MPI_Group all;
        PMPI_Win_get_group(w->handle, &all);
        PMPI_Group_incl(all, n, targets, &job.group);
        PMPI_Group_free(&all);
        add_job(jobs, job);
    }
    free(targets);
}

/* Does somebody wait for what this lock holds? */
static bool wanted(const struct window *w, const struct lock *lock, const struct report *reports) {
    for (int r = 0; r < scope.size; r++) {
        for (int i = 0; i < reports[r].rows; i++) {
            const struct record *need = &reports[r].row[i];
            if (need->row == NEEDS && need->kind == WINDOW && need->tag != ANY_LABEL &&
                need->comm == w->place->number &&
                (lock->target == ALL_TARGETS || w->place->world[lock->target] == need->peer))
                return true;
        }
    }
    return false;
}

static void end_locks(struct jobs *jobs, struct window *w, const struct report *reports) {
    for (struct lock *lock = w->locks, *next; lock; lock = next) {
        int state = ASKED;
        next = lock->next;
        if (atomic_compare_exchange_strong(&lock->state, &state, GIVEN_UP) || state != GOT)
            continue;
        if (lock->cell != scope.cell && !wanted(w, lock, reports))
            continue;
        add_job(jobs, (struct job){.win = w->handle, .what = UNLOCK, .target = lock->target});
        forget_lock(w, lock);
    }
}

/* Is a thread of the program still inside the library? */
static bool any_inside(void) {
    for (const struct window *w = scope.open_windows; w; w = w->next) {
        if (atomic_load(&w->inside) > 0)
            return true;
        for (const struct lock *lock = w->locks; lock; lock = lock->next)
            if (atomic_load(&lock->state) == GIVEN_UP)
                return true;
    }
    return false;
}

static bool out_in_time(double until) {
    while (any_inside() && scope_now() < until) {
        int flag;
        PMPI_Iprobe(MPI_ANY_SOURCE, 0, scope.private, &flag, MPI_STATUS_IGNORE); /* progress */
        scope_nap(0.0002);
    }
    return !any_inside();
}

static bool done_in_time(struct jobs *jobs, double until) {
    pthread_t thread;
    atomic_init(&jobs->users, 2);
    if (pthread_create(&thread, NULL, do_jobs, jobs) != 0) {
        atomic_store(&jobs->users, 1);
        return false;
    }
    pthread_detach(thread);
    while (!atomic_load(&jobs->done) && scope_now() < until)
        scope_nap(0.0002);
    return atomic_load(&jobs->done);
}

bool scope_mend_windows(const struct report *reports, double limit) {
    const double until = scope_now() + limit;
    struct jobs *jobs = calloc(1, sizeof *jobs);
    bool good = jobs && out_in_time(until);
    if (!jobs)
        return false;
    atomic_init(&jobs->users, 1);
    for (struct window *w = scope.open_windows; w && good; w = w->next) {
        end_accesses(jobs, w, reports);
        end_locks(jobs, w, reports);
    }
    for (struct window *w = scope.open_windows; w && good; w = w->next) {
        if (w->exposed)
            add_job(jobs, (struct job){.win = w->handle, .what = WAIT});
        end_exposure(w);
    }
    good = good && (jobs->n == 0 || done_in_time(jobs, until));
    good = good && out_in_time(until);
    forget_jobs(jobs);
    return good;
}

/* When the scope is switched on again: nothing is open. */
void scope_forget_windows(void) {
    for (struct window *w = scope.open_windows; w; w = w->next) {
        while (w->locks)
            forget_lock(w, w->locks);
        end_access(w);
        end_exposure(w);
    }
}

void scope_finish_windows(void) {
    while (scope.open_windows)
        forget_window(scope.open_windows);
}
