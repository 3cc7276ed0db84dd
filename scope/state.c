/* The scope on this rank: its lock, how a call begins, waits and ends, the program's threads, and
 * the events. See scope.h. */
#define _GNU_SOURCE
#include "scope.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 1 << 16 };

struct scope scope = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .on = true, .busy = true, .quiet_limit = 20, .held = NOT_HELD};

#define SCOPE_NAME(name) [CALL_##name] = "MPI_" #name,
const char *const scope_names[N_CALLS] = {SCOPE_CALLS(SCOPE_NAME)};

static _Thread_local struct thread *own;
static pthread_key_t ends; /* its destructor takes a thread that ends off the list */

double scope_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the lock ---- */

bool scope_trylock(void) { return pthread_mutex_trylock(&scope.lock) == 0; }

/* Whoever polls lets go for a moment when somebody has to wait: a mutex is not fair. */
void scope_lock(void) {
    if (scope_trylock())
        return;
    atomic_fetch_add(&scope.wanted, 1);
    pthread_mutex_lock(&scope.lock);
    atomic_fetch_sub(&scope.wanted, 1);
}

void scope_unlock(void) { pthread_mutex_unlock(&scope.lock); }

/* ---- the program's threads ---- */

static void thread_ends(void *thread) {
    scope_lock();
    for (struct thread **at = &scope.threads; *at; at = &(*at)->next) {
        if (*at == thread) {
            *at = (*at)->next;
            break;
        }
    }
    scope.epoch++;
    scope_unlock();
    free(thread);
}

bool scope_inside(void) {
    return (own && own->depth > 0) || pthread_equal(pthread_self(), scope.thread);
}

int scope_thread_number(void) { return own ? own->number : -1; }

int scope_inside_call(void) { return own && own->depth > 0 ? own->name : -1; }

/* Under the lock. NULL: no memory. */
static struct thread *thread_begins(void) {
    static int threads;
    struct thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return NULL;
    thread->attributed = MPI_COMM_NULL;
    pthread_getcpuclockid(pthread_self(), &thread->clock);
    thread->id = gettid();
    thread->number = threads++;
    thread->next = scope.threads;
    scope.threads = thread;
    scope.epoch++;
    pthread_setspecific(ends, thread);
    own = thread;
    return thread;
}

/* ---- a call ---- */

static bool is_test(int name) {
    return (name >= CALL_Test && name <= CALL_Request_get_status) || name == CALL_Iprobe ||
           name == CALL_Improbe || name == CALL_Win_test;
}

/* Calls that start a message and do not see to any. */
static bool only_starts(int name) {
    return (name >= CALL_Isend && name <= CALL_Isendrecv_replace) ||
           (name >= CALL_Send_init && name <= CALL_Startall);
}

/* Calls that a program makes on its way out of an error; and those that start nothing. */
static bool cleans_up(int name) {
    return name == CALL_Request_free || name == CALL_Cancel || name == CALL_Comm_free ||
           name == CALL_Comm_disconnect || name == CALL_Win_free || name == CALL_File_close ||
           name == CALL_Finalize;
}

/* A call within another, of a callback: the messages of it are in no count. */
static void within(int name) {
    if (name > CALL_Startall)
        return;
    scope.uncounted = true;
    if (scope_trylock()) {
        scope_unjudged("messages within a callback");
        scope_unlock();
    }
}

/* A cell that goes on calling whatever it is told, in a loop that catches every error, is interrupted
 * as by its reader. */
static void insist_on_leaving(void) {
    enum { MANY_REFUSED = 1000 };
    if (scope.cell > 0 && atomic_fetch_add(&scope.refused, 1) % MANY_REFUSED == MANY_REFUSED - 1)
        raise(SIGINT);
}

enum begin scope_begin(struct call *call, int name, MPI_Comm handle, struct comm **c) {
    if (!atomic_load_explicit(&scope.on, memory_order_relaxed) ||
        !atomic_load_explicit(&scope.ready, memory_order_acquire))
        return FORWARD;
    if (own && own->depth > 0) {
        within(name);
        return FORWARD;
    }
    scope_lock();
    if (!own && !thread_begins()) {
        scope.blind = true;
        scope_unlock();
        return FORWARD;
    }
    *c = scope_comm(handle);
    if (!*c) {
        own->tests = 0;
        scope.epoch++;
        scope_unlock();
        return FORWARD;
    }
    if ((*c)->gone) { /* by a copy of its handle */
        scope_unlock();
        scope_raise(MPI_COMM_WORLD, MPI_ERR_COMM);
        return NO_COMM;
    }
    if (scope.raise && !cleans_up(name)) {
        scope.broken = scope.delivered = true;
        scope_unlock();
        scope_outside_left((*c)->handle);
        scope_raise((*c)->handle, scope.code);
        insist_on_leaving();
        return LEAVE;
    }
    if (name != CALL_Comm_dup)
        own->attributed = MPI_COMM_NULL;
    own->depth++;
    own->name = name;
    scope.origin = 0; /* until the call says where it was made */
    own->mishap.code = own->mishap.fatal_code = MPI_SUCCESS;
    own->mishap.cut[0] = '\0';
    own->mishap.raised = false; /* a handler of the program's may have left by a jump */
    scope.in_flight = true; /* until a round says otherwise */
    if (!is_test(name)) {
        scope.epoch++;
        own->tests = 0;
        scope.did = true;
    }
    if (scope.network && !only_starts(name))
        scope_network_call();
    *call = (struct call){
        .name = name, .generation = scope.generation, .start = scope_now(), .thread = own};
    return GO;
}

/* Said once a cell. */
void scope_unjudged(const char *name) {
    for (int i = 0; i < scope.n_unjudged; i++)
        if (strcmp(scope.unjudged[i], name) == 0)
            return;
    if (scope.n_unjudged < (int)(sizeof scope.unjudged / sizeof *scope.unjudged))
        scope.unjudged[scope.n_unjudged++] = name;
    scope.epoch++;
    fprintf(stderr, "Ringside: rank %d: not judged: %s. A deadlock that involves it is at most "
                    "suspected, after %g s of quiet.\n", scope.rank, name, scope.quiet_limit);
}

void scope_event(const struct call *call, const struct comm *comm, int peer, int tag,
                 long long bytes, long long request) {
    const double end = scope_now();
    scope.events[scope.n_events % EVENTS] = (struct event){
        .start = call->start,
        .end = end,
        .blocked = call->pause > 0 ? end - call->pause : 0,
        .bytes = bytes,
        .request = request,
        .seq = scope.n_events,
        .call = call->name,
        .peer = peer,
        .tag = tag,
        .comm = comm->number,
        .left = call->left,
        .origin = call->origin,
    };
    scope.n_events++;
}

double scope_after(void) {
    const double end = scope.n_events > 0 ? scope.events[(scope.n_events - 1) % EVENTS].end : 0;
    return scope_now() - (end > scope.began ? end : scope.began);
}

static void (*_Atomic listener)(int err);

/* For Python (ringside.watch.scope): who hears, in the thread that calls, of each call that fails by
 * itself; NULL: nobody. */
void scope_listen(void (*who)(int err)) { atomic_store(&listener, who); }

/* ---- what goes wrong ---- */

void scope_note_cut(const struct comm *c, const MPI_Status *status, long long size,
                    long long room) {
    const int peer = scope_peer(c, status->MPI_SOURCE);
    char *const cut = own->mishap.cut;
    const int n = snprintf(cut, sizeof own->mishap.cut,
                           "Message truncated: the message from rank %d, tag %d, is longer than its "
                           "receive", peer, status->MPI_TAG);
    if (size > room)
        snprintf(cut + n, sizeof own->mishap.cut - (size_t)n, ": %lld B into %lld B", size, room);
    else
        snprintf(cut + n, sizeof own->mishap.cut - (size_t)n, ", which has room for %lld B", room);
}

/* Which call failed, and with whom; an error that scope_check has found says so itself. */
static void note_mishap(const struct call *call, const struct comm *c, int err) {
    struct mishap *const m = &call->thread->mishap;
    m->code = err;
    if (err == scope.no_rank || err == scope.no_tag) {
        char text[MPI_MAX_ERROR_STRING];
        int length = 0;
        PMPI_Error_string(err, text, &length);
        char *const colon = strchr(text, ':');
        if (colon) {
            *colon = '\0';
            snprintf(m->cut, sizeof m->cut, "%.200s", colon + 2);
        }
        snprintf(m->call, sizeof m->call, "%.200s", text);
        return;
    }
    char *words = call->checks ? NULL : scope_call_words(call->name);
    int n = snprintf(m->call, sizeof m->call, "%s", words ? words : scope_names[call->name]);
    free(words);
    const int peer = call->checks == 1 ? scope_peer(c, call->peer) : NO_PEER;
    if (peer == NO_PEER || *m->cut || n >= (int)sizeof m->call)
        return;
    n += snprintf(m->call + n, sizeof m->call - (size_t)n, " %s %s",
                  call->receives ? "from" : "to", peer == ANY_PEER ? "any rank" : "");
    if (peer != ANY_PEER)
        n += snprintf(m->call + n, sizeof m->call - (size_t)n, "rank %d", peer);
    if (call->tag != MPI_ANY_TAG)
        snprintf(m->call + n, sizeof m->call - (size_t)n, ", tag %d", call->tag);
}

struct mishap *scope_mishap(void) { return own ? &own->mishap : NULL; }

bool scope_defers(MPI_Comm comm, int code) {
    if (!own || own->depth == 0)
        return false;
    own->mishap.fatal = comm;
    own->mishap.fatal_code = code;
    return true;
}

/* In mpi4py an error has no more than this to say, and it is asked for where it is shown: of a call
 * that was left, which of its threads' that was; of another, which it was. */
int MPI_Error_string(int code, char *string, int *length) {
    char text[MPI_MAX_ERROR_STRING + 512], who[32] = "";
    const int err = PMPI_Error_string(code, string, length);
    if (err || !own || code == MPI_SUCCESS || !scope_is_python())
        return err;
    const struct mishap *const m = &own->mishap;
    if (scope_outside_wanted())
        snprintf(who, sizeof who, "rank %d: ", scope.rank);
    if (code == scope.code && *own->left)
        snprintf(text, sizeof text, "%s", own->left);
    else if (code == m->code)
        snprintf(text, sizeof text, "%s%s: %s", who, m->call, *m->cut ? m->cut : string);
    else
        return err;
    text[MPI_MAX_ERROR_STRING - 1] = '\0';
    *length = (int)strlen(text);
    memcpy(string, text, (size_t)*length + 1);
    return err;
}

/* Open MPI's errors are their classes, and programs compare them so: a code of our own, whose words
 * are for a notebook, is nobody's there. */
int scope_code(int code) {
    int class = code;
#ifdef OPEN_MPI
    if (scope_outside_compiled())
        PMPI_Error_class(code, &class);
#endif
    return class;
}

/* Tells the program's handler of an error that the scope has found. Where errors are fatal a library
 * takes their code for its exit status. */
static int raise_error(MPI_Comm comm, int err) {
    char text[MPI_MAX_ERROR_STRING];
    int length, class = err;
    MPI_Errhandler handler;
    PMPI_Comm_get_errhandler(comm, &handler);
    const bool fatal = handler == MPI_ERRORS_ARE_FATAL, told = scope_outside_is_fatal(handler);
    if (fatal && PMPI_Error_string(err, text, &length) == MPI_SUCCESS)
        fprintf(stderr, "%s\n", text);
    if (fatal || told)
        PMPI_Error_class(err, &class);
    PMPI_Errhandler_free(&handler);
    return scope_raise(comm, scope_code(class));
}

int scope_end(const struct call *call, const struct comm *comm, int err) {
    call->thread->waiting = NULL;
    if (!is_test(call->name))
        scope.epoch++;
    const MPI_Comm handle = comm->handle;
    struct mishap *const mishap = &call->thread->mishap;
    if (err == scope.code && err != MPI_SUCCESS)
        scope.delivered = true;
    else if (err != MPI_SUCCESS || mishap->fatal_code != MPI_SUCCESS)
        note_mishap(call, comm, err != MPI_SUCCESS ? err : mishap->fatal_code);
    call->thread->depth--;
    scope_unlock();
    if (mishap->fatal_code != MPI_SUCCESS)
        scope_outside_fails(mishap);
    if (err != MPI_SUCCESS && err == scope.code)
        scope_outside_left(handle);
    void (*const who)(int) = atomic_load(&listener);
    if (who && err != MPI_SUCCESS && err != scope.code)
        who(err);
    if (err == MPI_SUCCESS)
        return scope_tell_handler(err);
    mishap->raised = true;
    const int result = err == scope.no_rank || err == scope.no_tag  ? raise_error(handle, err)
                       : call->silent || err == scope.code ? scope_raise(handle, err)
                                                           : scope_tell_handler(err);
    mishap->raised = false;
    return err == scope.code ? err : result;
}

/* Between two polls under the network lens: until a message is due, or, where none is known to be
 * on its way, for less than any network takes; the core is for who computes. */
static void bide(double due, long polls) {
    enum { QUICK = 100 };
    static const double late = 1.2e-4, longest = 1e-3, shortest = 2e-5;
    const double left = due > 0 ? due - scope_now() - late : -1;
    if (left > 0)
        scope_nap(left < longest ? left : longest);
    else if (atomic_load_explicit(&scope.wanted, memory_order_relaxed) > 0 ||
             (left < -2 * late && polls > QUICK))
        scope_nap(shortest);
    else
        sched_yield();
}

static int function_in_python(const char *name) {
    int (*function)(void) = NULL;
    void *const at = dlsym(RTLD_DEFAULT, name);
    memcpy(&function, &at, sizeof at);
    return function ? function() : 0;
}

/* mpi4py lets go of Python's lock in its calls, but not where it makes, in one of them, a duplicate
 * for itself. */
static bool holds_python(void) {
    return scope_is_python() && function_in_python("PyGILState_Check");
}

/* Polls fast at first, as MPI itself would. Where there are more ranks than cores it lets others have
 * the core now and then, not at each poll, which makes a small reduction three times as slow. It
 * yields for some hundred microseconds only, then it sleeps: threads that yield all the time can
 * keep each other from a core for seconds (errata 39). Once a round has found that nothing is on
 * its way it rests. */
int scope_pause(struct call *call) {
    enum { QUICK = 2000, POLLS_PER_YIELD = 8, YIELDS = 64 };
    static const double shortest = 2e-5, longest = 1e-4;
    if (call->polls++ == 0) {
        call->pause = scope_now();
        call->thread->holds_python = holds_python();
    }
    call->thread->waiting = call;
    const bool rest = !scope.in_flight && call->polls > QUICK;
    const bool network = scope.network;
    const double due = network ? scope_due(call) : 0;
    scope_unlock();
    if (network)
        bide(due, call->polls);
    else if (rest || atomic_load_explicit(&scope.wanted, memory_order_relaxed) > 0)
        scope_nap(rest ? longest : shortest);
    else if (call->polls % POLLS_PER_YIELD == 0 && (scope.crowded || call->polls > QUICK)) {
        if (call->polls <= YIELDS * POLLS_PER_YIELD)
            sched_yield();
        else
            scope_nap(shortest);
    }
    scope_lock();
    scope_advance_idups();
    if (call->generation == scope.generation)
        return MPI_SUCCESS;
    call->thread->waiting = NULL;
    call->left = true;
    return scope.code;
}

int scope_second_opinion(struct call *call, int err) {
    static const double limit = 0.5;
    const int round = scope.round;
    const double start = scope_now();
    scope.doubting = true;
    pthread_cond_signal(&scope.bell);
    while (scope.round < round + 3 && scope_now() - start < limit)
        if (scope_pause(call) != MPI_SUCCESS)
            err = scope.code;
    scope.doubting = false;
    return err;
}

void scope_step_out(struct call *call) {
    call->thread->waiting = NULL;
    call->thread->away = true;
    scope_unlock();
}

void scope_step_in(struct call *call) {
    scope_lock();
    call->thread->away = false;
}

/* The same for calls in which Open MPI bears no other thread in MPI, with the lock: errata 27. */
void scope_step_alone(struct call *call) {
#ifdef OPEN_MPI
    call->thread->waiting = NULL;
#else
    scope_step_out(call);
#endif
}

void scope_step_back(struct call *call) {
#ifdef OPEN_MPI
    (void)call;
#else
    scope_step_in(call);
#endif
}

bool scope_away(void) {
    for (const struct thread *t = scope.threads; t; t = t->next)
        if (t->away)
            return true;
    return false;
}

bool scope_any_waits(double since) {
    for (const struct thread *t = scope.threads; t; t = t->next)
        if (t->waiting && t->waiting->start < since)
            return true;
    return false;
}

/* ---- loops of tests ---- */

/* All probes of a loop as one: where they differ, it stands for any. */
static void widen(struct record *all, const struct record *probe) {
    if (all->row == 0) {
        *all = *probe;
        all->row = NEEDS;
        return;
    }
    if (all->comm != probe->comm)
        all->kind = UNKNOWN;
    if (all->peer != probe->peer)
        all->peer = ANY_PEER;
    if (all->tag != probe->tag)
        all->tag = ANY_LABEL;
}

/* Seconds a thread has been ready and had no core; 0 where the system does not tell. */
static double queued(const char *path) {
    char text[96];
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = '\0';
    char *end = text;
    strtoull(end, &end, 10); /* on a core */
    return 1e-9 * (double)strtoull(end, NULL, 10);
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    return clock_gettime(clock, &t) ? 0 : (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* How much a thread computes in its loop of tests, five times a second. All of its time on a core:
 * what of it is the system's, getrusage only guesses from where the clock's ticks found it. */
static void sample(struct thread *t, double now) {
    struct rusage used;
    const struct effort *const first = &t->first;
    if (now - first->at - t->spent.at < 0.2 || getrusage(RUSAGE_THREAD, &used))
        return;
    const struct effort sofar = {
        .at = now,
        .computed = seconds_of(CLOCK_THREAD_CPUTIME_ID),
        .queued = queued("/proc/thread-self/schedstat"),
        .tests = t->tests,
        .sleeps = used.ru_nvcsw};
    if (first->at == 0) {
        t->first = sofar;
        return;
    }
    t->spent = (struct effort){.at = now - first->at,
                               .computed = sofar.computed - first->computed,
                               .queued = sofar.queued - first->queued,
                               .tests = sofar.tests - first->tests,
                               .sleeps = sofar.sleeps - first->sleeps};
}

/* Whether it has not computed between its tests: little a test, which is somewhat more where it
 * sleeps each time, or little of the time for which it could have had a core. */
static bool little(const struct effort *spent) {
    static const double at_once = 8e-6, woken = 8e-5, slept = 5e-4, share = 0.15;
    const double each = spent->computed / (double)spent->tests;
    if (2 * spent->sleeps < spent->tests)
        return each < at_once;
    return each < woken || (each < slept && spent->computed < share * (spent->at - spent->queued));
}

/* A loop of tests that never succeed may be waiting. */
void scope_tested(const struct call *call, bool success) {
    struct thread *t = call->thread;
    if (success) {
        scope.epoch++;
        t->tests = 0;
        return;
    }
    if (t->tests++ == 0) {
        scope.epoch++;
        t->window = ++scope.windows;
        t->start = t->last = call->start;
        t->gap = 0;
        t->unknown = false;
        t->first = t->spent = (struct effort){0};
        t->probe.row = 0;
        t->requests = call->n_requests;
        t->mixed = false;
    } else if (call->name != t->call || call->n_requests != t->requests) {
        t->mixed = true;
    }
    if (call->start - t->last > t->gap)
        t->gap = call->start - t->last;
    t->last = call->start;
    sample(t, call->start);
    t->call = call->name;
    t->origin = call->origin;
    for (int i = 0; i < call->n_requests; i++) {
        struct op *op = scope_op_find(call->requests[i]);
        if (!op) {
            t->unknown = t->unknown || call->requests[i] != MPI_REQUEST_NULL;
            continue;
        }
        if (t->tests > 1 && op->window != t->window)
            t->mixed = true;
        op->window = t->window;
    }
    for (int i = 0; i < call->n_probes; i++)
        widen(&t->probe, &call->probe[i]);
}

/* A thread seems to wait when it has done nothing but test for a second. */
bool scope_polls(const struct thread *t) {
    return scope.busy && !t->waiting && t->tests > 5 && t->spent.tests > 0 && little(&t->spent) &&
           t->last - t->start > 1 && scope_now() - t->last < 0.1 + 2 * t->gap;
}

bool scope_any_polls(void) {
    for (const struct thread *t = scope.threads; t; t = t->next)
        if (scope_polls(t))
            return true;
    return false;
}

bool scope_rests(struct thread *t) {
    const double now = scope_now(), passed = now - t->looked;
    if (passed > 0.5) {
        const double used = seconds_of(t->clock);
        t->rests = t->looked > 0 && used - t->used < 0.15 * passed;
        t->looked = now;
        t->used = used;
    }
    return t->rests;
}

static bool is_known(pid_t id) {
    bool known = id == gettid(); /* the scope's own */
    for (const struct thread *t = scope.threads; t && !known; t = t->next)
        known = t->id == id;
    return known;
}

/* The same of all threads that have not called MPI. */
static double others_queued(void) {
    DIR *all = opendir("/proc/self/task");
    double sum = 0;
    for (const struct dirent *one; all && (one = readdir(all));) {
        char path[96];
        const pid_t id = (pid_t)strtol(one->d_name, NULL, 10);
        if (id <= 0 || is_known(id))
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)id);
        sum += queued(path);
    }
    if (all)
        closedir(all);
    return sum;
}

/* Threads that never called MPI, as a pool that has nothing to do: for what share of the time do
 * threads beside those that are known compute, or would if they had a core? */
static double helpers_share = 1;

bool scope_helpers_rest(void) { return helpers_share < 0.15; }

void scope_watch_helpers(double now) {
    static double last, spent;
    if (atomic_load(&scope.helpers) == 0) {
        helpers_share = 1;
        last = 0;
        return;
    }
    if (now - last < 0.5)
        return;
    double others = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (const struct thread *t = scope.threads; t; t = t->next)
        others -= seconds_of(t->clock);
    others += others_queued();
    /* Far less than before: a thread has ended. A little: the clocks are read one after the other. */
    const double more = others - spent;
    helpers_share = last > 0 && more > -0.001 ? more / (now - last) : 1;
    last = now;
    spent = others;
}

/* Does a thread that is not in MPI wait without limit for another one of its process, as in
 * pthread_join, or in Python's join() and result()? */
bool scope_sleeps(const struct thread *t) {
    char path[64], text[192];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)t->id);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = '\0';
    long call = -1;
    unsigned long limit = 1;
    return sscanf(text, "%ld %*x %*x %*x %lx", &call, &limit) == 2 && call == SYS_futex && limit == 0;
}

/* ---- attributes ---- */

/* mpi4py keeps a duplicate of a communicator, and a count of tags, in an attribute of it, for its
 * reductions of objects. Where ranks are left out of step, so are these, for good: the attribute is
 * known by what follows it, and is deleted after a break. */
void scope_attributed(MPI_Comm comm, int keyval) {
    if (own && own->depth == 0) {
        own->attributed = comm;
        own->keyval = keyval;
    }
}

/* ---- begin ---- */

bool scope_tables(void) {
    scope.events = scope_outside_room(EVENTS * sizeof *scope.events);
    if (!scope.events)
        scope.events = calloc(EVENTS, sizeof *scope.events);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    const bool good = scope.events && pthread_key_create(&ends, thread_ends) == 0 &&
                      pthread_cond_init(&scope.bell, &monotonic) == 0 &&
                      pthread_cond_init(&scope.settled, &monotonic) == 0 &&
                      pthread_cond_init(&scope.go_on, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
    if (good)
        thread_begins(); /* the main thread: it computes until it calls */
    return good && own;
}

/* ---- for Python (ringside.watch.scope) ---- */

/* A cell begins, or has ended; `cell`: its number, the same on all ranks that run it. */
void scope_busy(bool busy, int cell) {
    if (busy && scope.unhide)
        scope_unhide();
    scope_lock();
    scope.busy = busy;
    if (busy) {
        int stop = atomic_load(&scope.stop);
        if (stop == STOP_CLEAR || stop == STOP_CLEAR_ALL) /* what was left is this cell's now */
            atomic_compare_exchange_strong(&scope.stop, &stop, NO_STOP);
        atomic_store(&scope.insist, scope.insist_next);
        scope.cell = cell;
        scope.began = scope_now();
        scope.did = scope.failed = scope.broken = scope.delivered = false;
        free(scope.first);
        scope.first = NULL;
        scope.n_unjudged = scope.n_unranked = 0;
        atomic_store(&scope.refused, 0);
    }
    scope.raise = false;
    for (struct thread *t = scope.threads; t; t = t->next)
        t->tests = 0;
    scope.epoch++;
    scope_unlock();
}

/* A thread of the program begins (1) or ends (-1) that may call MPI. */
void scope_thread(int by) {
    atomic_fetch_add(&scope.helpers, by);
    scope_lock();
    scope.epoch++;
    scope_unlock();
}

/* How long a loop of tests may go on before it is suspected. */
void scope_quiet(double seconds) {
    scope_lock();
    scope.quiet_limit = seconds;
    scope_unlock();
}

/* From the next cell on: within one, ranks would change at different calls, and a collective that
 * some meet for and others do not never ends. */
void scope_insist(bool insist) {
    scope_lock();
    scope.insist_next = insist;
    if (!scope.busy)
        atomic_store(&scope.insist, insist);
    scope_unlock();
}

void scope_stop(int reason) {
    atomic_store(&scope.stop, reason);
    pthread_cond_signal(&scope.bell);
}

/* On all ranks alike, with no message under way and no request open. */
void scope_switch(bool on) {
    scope_lock();
    if (on && !atomic_load(&scope.on) && atomic_load(&scope.ready)) {
        while (scope.n_ops > 0)
            scope_op_remove(scope_first());
        scope_forget_counts();
        scope_forget_comms();
        scope_forget_windows();
        scope_clear_network();
        atomic_store(&scope.stop, NO_STOP); /* asked for while nobody listened */
        scope.epoch++;
    }
    atomic_store(&scope.on, on);
    scope_unlock();
}

/* Copies up to `room` of the newest events, oldest first; returns how many there are. */
long long scope_events(struct event *events, long long room) {
    scope_lock();
    const long long kept = scope.n_events < EVENTS ? scope.n_events : EVENTS;
    const long long n = kept < room ? kept : room;
    for (long long i = 0; i < n && scope.events; i++)
        events[i] = scope.events[(scope.n_events - n + i) % EVENTS];
    scope_unlock();
    return kept;
}

void scope_clear(void) {
    scope_lock();
    scope.n_events = 0;
    scope_unlock();
}

const char *scope_name(int call) { return call >= 0 && call < N_CALLS ? scope_names[call] : ""; }
