/* The scope without a notebook: a rank under `ringside run`. See scope.h.
 *
 * Whoever started the ranks named a directory in RINGSIDE_RUN_DIRECTORY. Each rank keeps its events
 * there, in a file it has mapped, so that they outlive the rank however it ends; beside them lies a
 * note of who it is. After a break there is the report (one for all ranks) and, for each call that
 * was left, the return addresses from which `ringside run` learns the line of the source.
 *
 * A break is the end of such a program. Where the error handler of a left call would only abort,
 * in Python, and in MPI_Abort and MPI_Finalize, the rank waits for its end, so that the verdict is
 * not buried under what the library and every rank have to say of it. Another handler that returns
 * is obeyed.
 *
 * A Fortran program calls a library of its own, which calls C: Open MPI's as PMPI_X throughout,
 * MPICH's as MPI_X but, of the module mpi_f08, in part as PMPI_X. Those calls are led here. */
#define _GNU_SOURCE
#include "scope.h"

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

enum { FRAMES = 48, PATH_ROOM = 4096 };

static const double end_limit = 10; /* seconds a rank waits for its end after a break */

static char directory[PATH_ROOM - 256]; /* empty: nobody asked */
static atomic_bool broken;

bool scope_outside_wanted(void) { return directory[0] != '\0'; }

/* Before main: the environment may change later, and Fortran's calls may come at once. */
__attribute__((constructor)) static void look_around(void);

void scope_quiet(double seconds); /* state.c */
void scope_thread(int by);

/* ---- files ---- */

static void name_of(char path[PATH_ROOM], const char *what, const char *end) {
    snprintf(path, PATH_ROOM, "%s/%s-%d-%ld%s", directory, what, scope.rank, (long)getpid(), end);
}

/* Whole or not at all. */
static void put(const char *path, const char *text, size_t length) {
    char fresh[PATH_ROOM + 32];
    snprintf(fresh, sizeof fresh, "%s.%ld", path, (long)getpid());
    const int file = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    size_t done = 0;
    while (done < length) {
        const ssize_t n = write(file, text + done, length - done);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    if (close(file) == 0 && done == length)
        rename(fresh, path);
    else
        unlink(fresh);
}

static void mark(const char *what) {
    char path[PATH_ROOM];
    name_of(path, what, "");
    put(path, "", 0);
}

/* Room for the events in a file of this rank; NULL: not outside, or no such directory here, or the
 * file is another's: ranks that do not know of each other may have all but the node in common. */
void *scope_outside_room(size_t bytes) {
    char path[PATH_ROOM];
    if (!scope_outside_wanted())
        return NULL;
    name_of(path, "events", ".bin");
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    void *room = MAP_FAILED;
    if (posix_fallocate(file, 0, (off_t)bytes) == 0) /* a full disk is told now, not by SIGBUS */
        room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (room != MAP_FAILED)
        return room;
    unlink(path);
    return NULL;
}

/* What the program starts from now on is no rank. */
static void forget_preload(void) {
    const char *given = getenv("RINGSIDE_PRELOAD_BEFORE");
    if (given && *given)
        setenv("LD_PRELOAD", given, 1);
    else
        unsetenv("LD_PRELOAD");
}

/* Which shared memory the library has by now: where it ends the program itself, it leaves that. */
static void tell_shared_memory(const char *host) {
    char path[PATH_ROOM], line[PATH_ROOM], text[8192], end[80];
    size_t n = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        const char *file = strstr(line, "/dev/shm/");
        if (file && n + strlen(file) < sizeof text) {
            memcpy(text + n, file, strlen(file));
            n += strlen(file);
        }
    }
    if (maps)
        fclose(maps);
    snprintf(end, sizeof end, "-%.64s.txt", host);
    name_of(path, "shared", end);
    put(path, text, n);
}

/* Who this rank is, and the names of the calls in its events. */
static void introduce(void) {
    char path[PATH_ROOM], host[256] = "", text[64 * N_CALLS + 512];
    int rank = 0, size = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host - 1);
    int n = snprintf(text, sizeof text,
                     "{\"rank\":%d,\"size\":%d,\"pid\":%ld,\"host\":\"%s\",\"watched\":%s,"
                     "\"event\":%zu,\"calls\":[",
                     rank, size, (long)getpid(), host, scope.ready ? "true" : "false",
                     sizeof(struct event));
    for (int i = 0; i < N_CALLS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%s\"%s\"", i ? "," : "", scope_names[i]);
    n += snprintf(text + n, sizeof text - (size_t)n, "]}");
    scope.rank = rank; /* also where there is no scope */
    tell_shared_memory(host);
    name_of(path, "rank", ".json");
    put(path, text, (size_t)n);
}

/* ---- where a call was made ---- */

typedef void *object; /* PyObject *: Python's header is not needed for this */

bool scope_is_python(void) {
    static int (*running)(void);
    static atomic_bool looked;
    if (!atomic_load(&looked)) {
        running = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
        atomic_store(&looked, true);
    }
    return running && running();
}

/* Which exception the stuck call comes behind: `ringside run` has put there what finds that out. */
static void tell_held_back(int (*execute)(const char *)) {
    char path[PATH_ROOM], end[32], code[3 * PATH_ROOM];
    snprintf(end, sizeof end, "-%d.txt", scope_thread_number());
    name_of(path, "held", end);
    snprintf(code, sizeof code,
             "try: exec(compile(open(r\"%s/held.py\").read(), 'held.py', 'exec'), {'path': r\"%s\"})\n"
             "except BaseException: pass\n", directory, path);
    execute(code);
}

/* In Python: the lines being executed, innermost first; flushes what was printed. False: it is
 * not Python. */
static bool python_lines(FILE *to) {
    int (*ensure)(void) = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = dlsym(RTLD_DEFAULT, "PyGILState_Release");
    object (*frame_now)(void) = dlsym(RTLD_DEFAULT, "PyEval_GetFrame");
    object (*frame_back)(object) = dlsym(RTLD_DEFAULT, "PyFrame_GetBack");
    object (*frame_code)(object) = dlsym(RTLD_DEFAULT, "PyFrame_GetCode");
    int (*frame_line)(object) = dlsym(RTLD_DEFAULT, "PyFrame_GetLineNumber");
    object (*attribute)(object, const char *) = dlsym(RTLD_DEFAULT, "PyObject_GetAttrString");
    const char *(*utf8)(object) = dlsym(RTLD_DEFAULT, "PyUnicode_AsUTF8");
    int (*execute)(const char *) = dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
    if (!scope_is_python() || !ensure || !release || !frame_now || !frame_back || !frame_code ||
        !frame_line || !attribute || !utf8 || !execute)
        return false;
    const int held = ensure();
    /* The few objects that are asked for are not given back: the program ends here. */
    object frame = frame_now();
    for (int i = 0; frame && i < FRAMES; i++, frame = frame_back(frame)) {
        object code = frame_code(frame);
        object file = code ? attribute(code, "co_filename") : NULL;
        object name = code ? attribute(code, "co_name") : NULL;
        if (file && name && utf8(file) && utf8(name))
            fprintf(to, "%d\t%s\t%s\n", frame_line(frame), utf8(file), utf8(name));
    }
    execute("import sys; sys.stdout.flush(); sys.stderr.flush()");
    tell_held_back(execute);
    release(held);
    return true;
}

/* Elsewhere: return addresses. */
static void addresses(FILE *to) {
    void *at[FRAMES];
    char text[SCOPE_ORIGIN];
    const int frames = backtrace(at, FRAMES);
    for (int i = 0; i < frames; i++)
        if (scope_address(at[i], text))
            fprintf(to, "%s\n", text);
}

/* Of this thread. Returns whether the program is one in Python. */
static bool tell_place(void) {
    char path[PATH_ROOM], end[32], *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (!to)
        return false;
    const bool python = python_lines(to);
    addresses(to); /* behind Python's: it may have called C that calls MPI */
    if (fclose(to) == 0) {
        snprintf(end, sizeof end, "-%d.txt", scope_thread_number());
        name_of(path, "left", end);
        put(path, text, length);
    }
    free(text);
    return python;
}

/* ---- threads ---- */

/* A thread of the program that has not called MPI yet may do so later, if the program asks MPI for
 * as much: as long as one lives its rank is not proved to be stuck. Before MPI begins nobody knows
 * what will be asked for; while it begins, the threads are the library's. */
static atomic_bool any_thread_may_call;

struct begun {
    void *(*work)(void *);
    int (*c11_work)(void *);
    void *given;
};

/* However it ends: it returns, calls pthread_exit or is cancelled. */
static void has_ended(void *unused) {
    (void)unused;
    scope_thread(-1);
}

static void *do_work(void *of) {
    const struct begun b = *(struct begun *)of;
    void *result;
    free(of);
    pthread_cleanup_push(has_ended, NULL);
    result = b.work(b.given);
    pthread_cleanup_pop(1);
    return result;
}

static int do_c11_work(void *of) {
    const struct begun b = *(struct begun *)of;
    int result;
    free(of);
    pthread_cleanup_push(has_ended, NULL);
    result = b.c11_work(b.given);
    pthread_cleanup_pop(1);
    return result;
}

/* Those of numerical libraries only compute what they are given. */
static bool is_of_the_program(const void *work) {
    Dl_info where;
    return dladdr(work, &where) == 0 || !where.dli_fname ||
           (!strstr(where.dli_fname, "blas") && !strstr(where.dli_fname, "mkl"));
}

/* NULL: this thread does not count. */
static struct begun *begin_thread(const void *work) {
    const bool counts =
        atomic_load(&any_thread_may_call) && !scope_inside() && is_of_the_program(work);
    struct begun *b = counts ? calloc(1, sizeof *b) : NULL;
    if (b)
        scope_thread(1);
    return b;
}

static void not_begun(struct begun *b) {
    scope_thread(-1);
    free(b);
}

/* Found first only where the scope is preloaded. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attributes,
                                                          void *(*work)(void *), void *given) {
    static int (*library)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *at;
    if (!library) {
        at = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&library, &at, sizeof at);
    }
    memcpy(&at, &work, sizeof at);
    struct begun *b = begin_thread(at);
    if (!b)
        return library(thread, attributes, work, given);
    b->work = work;
    b->given = given;
    const int err = library(thread, attributes, do_work, b);
    if (err)
        not_begun(b);
    return err;
}

/* That of C11, which does not come by the one above. */
__attribute__((visibility("default"))) int thrd_create(thrd_t *thread, thrd_start_t work,
                                                       void *given) {
    static int (*library)(thrd_t *, thrd_start_t, void *);
    void *at;
    if (!library) {
        at = dlsym(RTLD_NEXT, "thrd_create");
        memcpy(&library, &at, sizeof at);
    }
    memcpy(&at, &work, sizeof at);
    struct begun *b = begin_thread(at);
    if (!b)
        return library(thread, work, given);
    b->c11_work = work;
    b->given = given;
    const int err = library(thread, do_c11_work, b);
    if (err != thrd_success)
        not_begun(b);
    return err;
}

/* A timer whose thread, which the C library begins, may call MPI for as long as the program runs. */
__attribute__((visibility("default"))) int timer_create(clockid_t clock, struct sigevent *event,
                                                        timer_t *timer) {
    static int (*library)(clockid_t, struct sigevent *, timer_t *);
    if (!library) {
        void *at = dlsym(RTLD_NEXT, "timer_create");
        memcpy(&library, &at, sizeof at);
    }
    const int err = library(clock, event, timer);
    if (!err && event && event->sigev_notify == SIGEV_THREAD &&
        atomic_load(&any_thread_may_call) && !scope_inside())
        scope_thread(1);
    return err;
}

/* ---- the end, by a verdict or by an error ---- */

/* What the program has printed is to be seen, though it will not come to its own end. */
static void flush(void) {
    void (*fortran)(int *) = dlsym(RTLD_DEFAULT, "_gfortran_flush_i4");
    fflush(NULL);
    if (fortran)
        fortran(NULL);
}

/* `ringside run` ends the program as soon as it has seen the mark of every stuck thread. It leaves the
 * mark "end" for ranks on other nodes, which it cannot end: they end themselves. */
static void await_end(void) {
    const struct timespec nap = {.tv_nsec = 20000000};
    char path[PATH_ROOM], thread[16];
    flush();
    snprintf(thread, sizeof thread, "-%d", scope_thread_number());
    name_of(path, "waits", thread);
    put(path, "", 0);
    snprintf(path, sizeof path, "%s/end", directory);
    for (const double start = scope_now(); scope_now() - start < end_limit;) {
        if (access(path, F_OK) == 0)
            _exit(EXIT_SUCCESS);
        nanosleep(&nap, NULL);
    }
}

/* Where errors are fatal, as they are by default, the library would speak of the call that serves
 * the program's, and of no line: a handler of ours stands in its place, and nobody sees that. */
static MPI_Errhandler ours = MPI_ERRHANDLER_NULL;

bool scope_outside_is_fatal(MPI_Errhandler handler) {
    return ours != MPI_ERRHANDLER_NULL && handler == ours;
}

/* `ringside run` says what is left here, and ends the program with the status that the library would
 * have given; where it does not, the library does. */
void scope_outside_fails(const struct mishap *mishap) {
    char path[PATH_ROOM], reason[MPI_MAX_ERROR_STRING] = "", *text = NULL;
    size_t length = 0;
    int size, class = MPI_ERR_OTHER, code = mishap->fatal_code;
    FILE *to = open_memstream(&text, &length);
    PMPI_Error_string(code, reason, &size);
    PMPI_Error_class(code, &class);
    if (code == scope.no_rank || code == scope.no_tag || code == scope.no_room)
        code = class; /* it becomes the exit status */
    if (to)
        fprintf(to, "%d\n%d\n%s\n%s", code & 0xff, scope_thread_number(), mishap->call,
                *mishap->cut ? mishap->cut : reason);
    if (to && fclose(to) == 0) {
        tell_place();
        name_of(path, "error", ".txt");
        put(path, text, length);
    }
    free(text);
    await_end();
    PMPI_Comm_set_errhandler(mishap->fatal, MPI_ERRORS_ARE_FATAL);
    PMPI_Comm_call_errhandler(mishap->fatal, code);
}

/* An error in a call that the scope serves is told at that call's end. */
static void ends(MPI_Comm *comm, int *code, ...) {
    if (scope_defers(*comm, *code))
        return;
    struct mishap mishap = {.fatal = *comm, .fatal_code = *code};
    const struct mishap *last = scope_mishap();
#ifdef OPEN_MPI /* it says which; MPICH's text of the error does */
    va_list more;
    va_start(more, code);
    snprintf(mishap.call, sizeof mishap.call, "%s", va_arg(more, const char *));
    va_end(more);
#endif
    if (last && last->raised) {
        mishap = *last;
        mishap.fatal = *comm;
        mishap.fatal_code = last->code;
    }
    scope_outside_fails(&mishap);
}

static void hear_of(MPI_Comm comm) {
    MPI_Errhandler handler;
    PMPI_Comm_get_errhandler(comm, &handler);
    if (handler == MPI_ERRORS_ARE_FATAL)
        PMPI_Comm_set_errhandler(comm, ours);
    PMPI_Errhandler_free(&handler);
}

static void hear_of_errors(void) {
    if (PMPI_Comm_create_errhandler(ends, &ours) != MPI_SUCCESS)
        return;
    hear_of(MPI_COMM_WORLD);
#ifdef OPEN_MPI /* in MPICH, where it has none, the handler of MPI_COMM_WORLD is asked */
    hear_of(MPI_COMM_SELF);
#endif
}

int MPI_Comm_get_errhandler(MPI_Comm comm, MPI_Errhandler *handler) {
    const int err = PMPI_Comm_get_errhandler(comm, handler);
    if (err == MPI_SUCCESS && scope_outside_is_fatal(*handler)) {
        PMPI_Errhandler_free(handler);
        *handler = MPI_ERRORS_ARE_FATAL;
    }
    return err;
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler) {
    const bool fatal = handler == MPI_ERRORS_ARE_FATAL && ours != MPI_ERRHANDLER_NULL;
    return PMPI_Comm_set_errhandler(comm, fatal ? ours : handler);
}

/* ---- the life of a rank ---- */

void scope_outside_before(void) { atomic_store(&any_thread_may_call, false); }

void scope_outside_begin(int threads) {
    if (!scope_outside_wanted())
        return;
    hear_of_errors();
    if (threads >= MPI_THREAD_SERIALIZED)
        atomic_store(&any_thread_may_call, true);
    else
        atomic_store(&scope.helpers, 0);
    const char *quiet = getenv("RINGSIDE_QUIET"), *insist = getenv("RINGSIDE_INSIST");
    if (quiet && atof(quiet) > 0)
        scope_quiet(atof(quiet));
    if (insist && *insist == '1')
        atomic_store(&scope.insist, true);
    scope.checking = getenv("RINGSIDE_CHECK") != NULL;
    forget_preload();
    introduce();
}

/* Every rank sees to it that the report is there before any of them can end the program. */
void scope_outside_told(const char *report) {
    char path[PATH_ROOM];
    if (!scope_outside_wanted() || !report)
        return;
    snprintf(path, sizeof path, "%s/report.json", directory);
    if (access(path, F_OK) != 0)
        put(path, report, strlen(report));
    atomic_store(&broken, true);
}

void scope_outside_left(MPI_Comm comm) {
    if (!scope_outside_wanted() || !atomic_load(&broken))
        return;
    static _Thread_local bool told;
    const bool first = !told;
    told = true;
    if (first && tell_place())
        await_end();
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    if (PMPI_Comm_get_errhandler(comm, &handler) != MPI_SUCCESS)
        return;
    bool fatal = handler == MPI_ERRORS_ARE_FATAL || scope_outside_is_fatal(handler);
#ifdef MPI_ERRORS_ABORT
    fatal = fatal || handler == MPI_ERRORS_ABORT;
#endif
    if (handler != MPI_ERRHANDLER_NULL)
        PMPI_Errhandler_free(&handler);
    if (fatal)
        await_end();
}

void scope_outside_end(void) {
    if (!scope_outside_wanted())
        return;
    if (atomic_load(&broken))
        await_end();
    mark("finalize");
}

void scope_outside_ended(void) {
    if (scope_outside_wanted())
        mark("done");
}

bool scope_outside_compiled(void) { return scope_outside_wanted() && !scope_is_python(); }

void scope_outside_left_over(const char *text) {
    char path[PATH_ROOM];
    if (!scope_outside_wanted())
        return;
    snprintf(path, sizeof path, "%s/left-over.json", directory);
    put(path, text, strlen(text));
}

/* One line each, and at once, as the rank may end in any way. */
void scope_outside_origin(int origin, const char *text) {
    char path[PATH_ROOM];
    if (!scope_outside_wanted())
        return;
    name_of(path, "origins", ".txt");
    FILE *to = fopen(path, "ae");
    if (!to)
        return;
    fprintf(to, "%d\t%s\n", origin, text);
    fclose(to);
}

int MPI_Abort(MPI_Comm comm, int code) {
    if (scope_outside_wanted() && atomic_load(&broken))
        await_end();
    if (scope_outside_wanted())
        mark("abort");
    scope_tell_abort(code);
    return PMPI_Abort(comm, code);
}

/* ---- calls that are looked up in the library itself, as ctypes, Julia and others do ---- */

#ifdef __GLIBC__
typedef void *lookup(void *handle, const char *name);

/* The C library's, by the versions that it has on the machines there are. */
static lookup *library_lookup(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    static lookup *_Atomic known;
    lookup *found = atomic_load(&known);
    for (size_t i = 0; !found && i < sizeof versions / sizeof *versions; i++) {
        void *there = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        memcpy(&found, &there, sizeof found);
    }
    atomic_store(&known, found);
    return found;
}

/* What the program would have been linked to: the scope's, where `found` is the MPI library's. */
static void *preloaded(const void *found, const char *name) {
    int (*const of_library)(int *, char ***) = PMPI_Init;
    Dl_info there, library;
    const void *known;
    memcpy(&known, &of_library, sizeof known);
    if (!found || !dladdr(found, &there) || !dladdr(known, &library) ||
        there.dli_fbase != library.dli_fbase)
        return NULL;
    return library_lookup()(RTLD_DEFAULT, name);
}

/* Its last act is a jump: to the C library the caller is who called this one. */
__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name) {
    lookup *const library = library_lookup();
    if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && scope_outside_wanted() &&
        strncmp(name, "MPI_", 4) == 0) {
        void *ours = preloaded(library(handle, name), name);
        if (ours)
            return ours;
    }
    return library(handle, name);
}
#endif

/* ---- Fortran ---- */

/* One entry of a library's table of functions from elsewhere: PMPI_X becomes MPI_X. */
static void redirect(const ElfW(Rela) *entry, ElfW(Addr) base, const char *name) {
    void *ours = strncmp(name, "PMPI_", 5) == 0 ? dlsym(RTLD_DEFAULT, name + 1) : NULL;
    if (!ours)
        return;
    char *slot = (char *)(base + entry->r_offset);
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *start = (void *)((uintptr_t)slot & ~(page - 1));
    /* Left writable: what else lies on the page may have been so. */
    if (mprotect(start, page, PROT_READ | PROT_WRITE) == 0)
        memcpy(slot, &ours, sizeof ours);
}

static bool is_jump(const ElfW(Rela) *entry) {
#if defined(__x86_64__)
    const unsigned long type = ELF64_R_TYPE(entry->r_info);
    return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
#elif defined(__aarch64__)
    const unsigned long type = ELF64_R_TYPE(entry->r_info);
    return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
#else
    (void)entry;
    return false;
#endif
}

/* The dynamic section's addresses are absolute here, as glibc leaves them; musl's are not. */
static const void *at(ElfW(Addr) address, ElfW(Addr) base) {
    return (const void *)(address < base ? address + base : address);
}

static int lead_here(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size;
    (void)unused;
    static const char *const fortran[] = {"/libmpi_mpifh", "/libmpi_usempi", "/libmpifort",
                                          "/libmpichfort"};
    bool found = false;
    for (size_t i = 0; i < sizeof fortran / sizeof *fortran; i++)
        found = found || strstr(object->dlpi_name, fortran[i]);
    if (!found)
        return 0;
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    const ElfW(Rela) *tables[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *there = at(dynamic->d_un.d_ptr, object->dlpi_addr);
        switch (dynamic->d_tag) {
        case DT_JMPREL:
            tables[0] = there;
            break;
        case DT_PLTRELSZ:
            bytes[0] = dynamic->d_un.d_val;
            break;
        case DT_RELA:
            tables[1] = there;
            break;
        case DT_RELASZ:
            bytes[1] = dynamic->d_un.d_val;
            break;
        case DT_SYMTAB:
            symbols = there;
            break;
        case DT_STRTAB:
            names = there;
            break;
        }
    }
    for (int t = 0; t < 2 && symbols && names; t++)
        for (size_t i = 0; tables[t] && i < bytes[t] / sizeof *tables[t]; i++)
            if (is_jump(&tables[t][i]))
                redirect(&tables[t][i], object->dlpi_addr,
                         names + symbols[ELF64_R_SYM(tables[t][i].r_info)].st_name);
    return 0;
}

static void look_around(void) {
    const char *given = getenv("RINGSIDE_RUN_DIRECTORY");
    if (!given || !*given || strlen(given) >= sizeof directory)
        return;
    memcpy(directory, given, strlen(given) + 1);
    atomic_store(&any_thread_may_call, true);
    dl_iterate_phdr(lead_here, NULL);
}
