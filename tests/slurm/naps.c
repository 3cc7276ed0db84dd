/* On the nodes of one machine a process that gives up its core, or asks in vain whether something has
 * come, sleeps for a moment instead.
 *
 * MPI libraries do one or the other again and again while they wait: each node here has a session of
 * its own, and threads of several that call sched_yield() can keep each other from a core for seconds
 * (seen on Linux 6.18); those that ask epoll_wait(), as UCX (1.13) does, never give a core up at all.
 * Preloaded by nodes.py. */
#include <sched.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <time.h>

static int nap(void) {
    const struct timespec moment = {.tv_nsec = 20000};
    return nanosleep(&moment, NULL);
}

int sched_yield(void) { return nap(); }

int epoll_wait(int events, struct epoll_event *found, int room, int milliseconds) {
    const int count = epoll_pwait(events, found, room, milliseconds, NULL);
    if (count == 0 && milliseconds == 0)
        (void)nap();
    return count;
}
