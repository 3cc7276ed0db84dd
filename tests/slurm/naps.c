/* On the nodes of one machine a process that gives up its core sleeps for a moment instead.
 *
 * MPI libraries call sched_yield() again and again while they wait, where ranks share cores. Threads
 * that do so in several sessions, of which each node here has one, can keep each other from a core
 * for seconds (seen on Linux 6.18). Preloaded by nodes.py. */
#include <sched.h>
#include <time.h>

int sched_yield(void) {
    const struct timespec nap = {.tv_nsec = 20000};
    return nanosleep(&nap, NULL);
}
