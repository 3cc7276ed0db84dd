/* Compiled into the library of every cell of C: where a crash in it happened is written down, as
 * `C: offset library` for each frame, before whoever else listens (Python's faulthandler) and the
 * end. Where a call of MPI failed, Python asks for the same. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 64, SIGNALS = 6 };

static const int watched[SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM};
static struct sigaction before[SIGNALS];
static int to = 2;

/* From the frame `exact` on, a frame is known by the address to return to, which lies behind the
 * call. */
__attribute__((noinline)) static void write_frames(int file, int exact) {
    void *at[FRAMES];
    Dl_info where;
    char line[4200];
    const int frames = backtrace(at, FRAMES);
    for (int i = 0; i < frames; i++) {
        if (!dladdr(at[i], &where) || !where.dli_fname)
            continue;
        const char *address = (const char *)at[i] - (i >= exact);
        const int n = snprintf(line, sizeof line, "C: %#tx %s\n",
                               address - (const char *)where.dli_fbase, where.dli_fname);
        if (n > 0 && write(file, line, (size_t)n) < 0)
            break;
    }
}

/* The stack of whoever calls this. */
void ringside_tell_here(int file) { write_frames(file, 0); }

static void tell(int number) {
    /* That function, this one, the kernel's way into it, where it crashed; then who called that. */
    write_frames(to, 4);
    for (int i = 0; i < SIGNALS; i++)
        if (watched[i] == number)
            sigaction(number, &before[i], NULL);
    raise(number);
}

/* Called once for each cell; handlers of an earlier one are called after this one's. With `late`,
 * SIGALRM is told as well: the time of a trial has run out. */
void ringside_tell_crashes(int file, int late) {
    struct sigaction ours = {.sa_handler = tell, .sa_flags = SA_NODEFER | SA_ONSTACK};
    to = file;
    for (int i = 0; i < SIGNALS - !late; i++) {
        struct sigaction old;
        if (sigaction(watched[i], NULL, &old) == 0 && old.sa_handler != tell) {
            before[i] = old;
            sigaction(watched[i], &ours, NULL);
        }
    }
}
