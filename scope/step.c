/* The stepper: a rank stops before each MPI call until its reader lets it go on. See scope.h.
 *
 * A rank that is stopped is in no call: the judge sees that it computes, and can still help. */
#include "scope.h"

#include <time.h>

static struct timespec soon(void) {
    const long look = 50000000; /* ns between two looks at whether it is to leave */
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += look;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

/* Under the lock. A break, or a stop that was asked for, frees who is stopped: its call is left. */
static bool stays(void) {
    return atomic_load(&scope.stepping) && scope.steps == 0 && scope.busy && !scope.raise &&
           atomic_load(&scope.stop) == NO_STOP;
}

void scope_hold(int name) {
    if (!atomic_load(&scope.ready) || scope_inside())
        return;
    scope_lock();
    scope.held = name;
    while (stays()) {
        const struct timespec until = soon();
        pthread_cond_timedwait(&scope.go_on, &scope.lock, &until);
    }
    scope.held = NOT_HELD;
    if (scope.steps > 0)
        scope.steps--;
    scope_unlock();
}

/* For Python (ringside.watch.scope): a rank that is stopped makes so many calls and is stopped again.
 * 0: ranks are stopped from now on; below 0: no more. */
void scope_step(int calls) {
    scope_lock();
    if (calls <= 0)
        atomic_store(&scope.stepping, calls == 0);
    scope.steps = calls > 0 && scope.held != NOT_HELD ? calls : 0;
    pthread_cond_broadcast(&scope.go_on);
    scope_unlock();
}
