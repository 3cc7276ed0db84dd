/* What a rank says of itself: to the others as rows, to Python as JSON, as there is nothing simpler
 * that both sides read. See scope.h. */
#define _GNU_SOURCE
#include "scope.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MANY_PLACES = 4096 }; /* at most so many of a communicator at a time */

struct record *scope_row(struct report *report, int kind_of_row, int *room) {
    if (report->rows == *room) {
        *room = *room ? 2 * *room : 32;
        struct record *bigger = realloc(report->row, (size_t)*room * sizeof *bigger);
        if (!bigger) {
            scope.blind = true;
            return NULL;
        }
        report->row = bigger;
    }
    struct record *r = &report->row[report->rows++];
    memset(r, 0, sizeof *r);
    r->row = kind_of_row;
    return r;
}

static void op_row(struct report *report, int kind_of_row, const struct op *op, int waiter,
                   int *room) {
    struct record *last = report->rows > 0 ? &report->row[report->rows - 1] : NULL;
    const int under = op->under ? op->under->number : op->peer;
    if (last && last->row == kind_of_row && last->kind == op->kind &&
        last->comm == op->comm->number && last->peer == under && last->tag == op->tag &&
        last->waiter == waiter && last->index == op->index && op->kind != COLLECTIVE) {
        last->count++; /* as the one before */
        return;
    }
    struct record *r = scope_row(report, kind_of_row, room);
    if (!r)
        return;
    r->kind = op->kind;
    r->comm = op->comm->number;
    r->peer = under;
    r->tag = op->tag;
    r->index = op->index;
    r->waiter = waiter;
    r->origin = op->origin;
    r->count = 1;
    r->size = op->bytes;
}

static void unknown(struct report *report, int waiter, int *room) {
    struct record *r = scope_row(report, NEEDS, room);
    if (r) {
        r->kind = UNKNOWN;
        r->waiter = waiter;
    }
}

static bool waits_for(const struct call *call, MPI_Request request) {
    for (int i = 0; i < call->n_requests; i++)
        if (call->requests[i] == request)
            return true;
    return false;
}

/* Receives that are complete and not waited for, whose message may be the one that is missed. */
static int unwaited(const struct call *call, const struct record *need) {
    int n = 0;
    if (need->kind != RECV && need->kind != PROBE)
        return 0;
    for (const struct op *op = scope_first(); op; op = scope_next(op))
        n += op->kind == RECV && op->active && op->counted && !op->cancelled && !op->dead &&
             op->comm->number == need->comm &&
             (need->peer == ANY_PEER || need->peer == op->peer) &&
             (need->tag == ANY_LABEL || need->tag == op->tag) && !waits_for(call, op->request);
    return n;
}

/* Needs of a call that waits; whether it waits at all is for the judge to say. */
static void needs(struct report *report, const struct call *call, int waiter, int *room) {
    const int before = report->rows;
    for (int i = 0; i < call->n_probes; i++) {
        struct record *r = scope_row(report, NEEDS, room);
        if (!r)
            return;
        *r = call->probe[i];
        r->row = NEEDS;
        r->waiter = waiter;
        /* a word that is there already */
        if (r->kind == WINDOW && r->tag == ANY_LABEL && scope_token_there(r->peer, r->index))
            r->kind = UNKNOWN;
    }
    for (int i = 0; i < call->n_requests; i++) {
        if (call->requests[i] == MPI_REQUEST_NULL)
            continue;
        const struct op *op = scope_op_find(call->requests[i]);
        if (op && op->active && op->counted && !op->dead && call->early) {
            report->rows = before; /* it may have failed: the call is about to look */
            return;
        }
        if (op && (!op->active || (op->counted && call->mode == ALL && !op->dead)))
            continue;
        if (!op || op->counted || op->dead) { /* complete, or one the scope knows nothing of */
            unknown(report, waiter, room);
            continue;
        }
        op_row(report, NEEDS, op, waiter, room);
        if (op->twin)
            op_row(report, NEEDS, op->twin, waiter, room);
    }
    if (call->n_requests + call->n_probes <= 2) /* not of thousands: each looks at all */
        for (int i = before; i < report->rows; i++)
            report->row[i].taken = unwaited(call, &report->row[i]);
}

static void polled(struct report *report, const struct thread *t, int mode, int waiter,
                   int *room) {
    if (t->probe.row) {
        struct record *r = scope_row(report, NEEDS, room);
        if (r) {
            *r = t->probe;
            r->waiter = waiter;
        }
    }
    if (t->unknown)
        unknown(report, waiter, room);
    for (const struct op *op = scope_first(); op; op = scope_next(op)) {
        if (op->window != t->window || !op->active)
            continue;
        if (!op->counted)
            op_row(report, NEEDS, op, waiter, room);
        else if (mode == ANY)
            unknown(report, waiter, room);
    }
}

/* What the program's threads do. The main thread waits for a next cell when it is idle; helpers are
 * threads that have not called MPI yet, and may. One that sleeps until another thread wakes it is no
 * proof, as that may be a library's; between two cells, where no thread is left to wake it, it is.
 * Nor is one that rests while Python's lock is with a thread that waits: it may be outside Python. */
static void waiters(struct report *report, bool idle, int *room) {
    const double now = scope_now();
    const int helpers = atomic_load(&scope.helpers);
    int n = 0, waiting = 0, polling = 0, asleep = 0;
    bool locked = false; /* out of Python, by one that waits */
    for (const struct thread *t = scope.threads; t; t = t->next)
        locked = locked || (t->waiting && t->holds_python);
    for (struct thread *t = scope.threads; t; t = t->next, n++) {
        const struct call *call = t->waiting;
        const bool polls = !call && scope_polls(t);
        if (!call && !polls) {
            const bool next = idle && t->id == getpid(); /* cell, which may come */
            asleep += (helpers > 0 && !next && scope_sleeps(t)) || (locked && scope_rests(t));
            continue;
        }
        waiting++;
        polling += polls;
        const int name = polls ? t->call : call->name;
        /* one MPI_Testall, again and again, waits for all; of several tests any may do */
        const bool all = t->call == CALL_Testall || t->call == CALL_Request_get_status_all;
        const int mode = !polls ? call->mode : all && !t->mixed ? ALL : ANY;
        struct record *r = scope_row(report, WAITER, room);
        if (r) {
            r->waiter = t->number;
            r->kind = mode;
            r->name = name;
            r->origin = polls ? t->origin : call->origin;
        }
        const double since = now - (polls ? t->start : call->start);
        report->name = name;
        report->since = report->since > since ? report->since : since;
        if (polls)
            polled(report, t, mode, t->number, room);
        else
            needs(report, call, t->number, room);
    }
    const int threads = idle ? n - 1 : n; /* the main thread is always one of them */
    const int silent = helpers - (n > 1 ? n - 1 : 0);
    const bool works = waiting + asleep < threads || (!idle && waiting == 0) ||
                       (silent + asleep > 0 && !scope_helpers_rest());
    report->travels = !works && waiting > 0 && scope_travels();
    if (works || report->travels)
        report->state = COMPUTING;
    else if (polling || silent > 0 || (asleep > 0 && !idle))
        report->state = POLLING;
    else /* threads that wait between two cells may be waiting for the next one */
        report->state = waiting && !idle ? BLOCKED : IDLE;
}

static int by_likeness(const void *a, const void *b) {
    const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;
    const int keys[][2] = {{x->kind, y->kind}, {x->comm->number, y->comm->number},
                           {x->peer, y->peer}, {x->tag, y->tag}, {x->index, y->index}};
    for (int i = 0; i < 5; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

/* Open requests, those alike in one row. */
static void posted(struct report *report, int *room) {
    const struct op **open = calloc((size_t)scope.n_ops + 1, sizeof *open);
    int n = 0;
    if (!open) {
        scope.blind = true;
        return;
    }
    for (const struct op *op = scope_first(); op; op = scope_next(op))
        if (op->active && !op->counted && !op->dead)
            open[n++] = op;
    qsort(open, (size_t)n, sizeof *open, by_likeness);
    for (int i = 0; i < n; i++) {
        const bool fresh = open[i]->cell == scope.cell && open[i]->kind != SEND;
        op_row(report, POSTED, open[i], fresh, room);
        if (open[i]->twin)
            op_row(report, POSTED, open[i]->twin, false, room);
    }
    free(open);
}

/* Nonblocking collectives that nobody has waited for. */
static int open_on(const struct comm *c) {
    int n = 0;
    for (const struct op *op = scope_first(); op; op = scope_next(op))
        n += op->kind == COLLECTIVE && op->active && !op->dead && (op->comm == c || op->under == c);
    return n;
}

static void comm_rows(struct report *report, int *room) {
    for (int i = 0; i < scope.n_comms; i++) {
        const struct comm *c = scope.comms[i];
        struct record *r = scope_row(report, ENTERED, room);
        if (!r)
            return;
        r->comm = c->number;
        r->index = c->entered;
        r->cell = c->cell;
        r->count = c->places > 0 ? open_on(c) : 0;
        r->kind = c->gone ? GONE : 0;
        for (int m = 0; m < c->size + c->remote; m++) {
            r = scope_row(report, MEMBER, room);
            if (!r)
                return;
            r->comm = c->number;
            r->peer = c->world[m];
        }
        for (int p = 0; p < c->places && p < MANY_PLACES; p++) {
            r = scope_row(report, PLACE, room);
            if (!r)
                return;
            *r = c->place[p];
        }
    }
}

static void words(struct report *report, int origin, int *room) {
    char text[SCOPE_ORIGIN];
    scope_say_origin(origin, text);
    const size_t length = strlen(text);
    for (size_t from = 0; from < length; from += sizeof((struct words *)0)->text) {
        struct words piece = {.row = WORDS, .origin = origin};
        struct record *r = scope_row(report, WORDS, room);
        if (!r)
            return;
        const size_t left = length - from;
        memcpy(piece.text, text + from, left < sizeof piece.text ? left : sizeof piece.text);
        memcpy(r, &piece, sizeof piece);
    }
}

/* What there is to say of the origins that the rows name. */
static void all_words(struct report *report, int *room) {
    enum { MANY_ORIGINS = 64 };
    int known[MANY_ORIGINS], n = 0;
    for (int i = report->rows - 1; i >= 0; i--) {
        const int origin = report->row[i].row == WORDS ? 0 : report->row[i].origin;
        bool new = origin != 0 && n < MANY_ORIGINS;
        for (int k = 0; k < n && new; k++)
            new = known[k] != origin;
        if (new) {
            known[n++] = origin;
            words(report, origin, room);
        }
    }
}

void scope_report(struct report *report) {
    int room = 0;
    *report = (struct report){.rank = scope.rank,
                              .stop = atomic_load(&scope.stop),
                              .cell = scope.cell,
                              .ending = scope.ending,
                              .settling = scope.settling,
                              .did = scope.did,
                              .failed = scope.failed,
                              .quiet = scope_is_quiet(),
                              .late = scope_is_idle()};
    waiters(report, !scope.busy || scope.settling, &room);
    posted(report, &room);
    scope_count_rows(report, &room);
    comm_rows(report, &room);
    scope_window_rows(report, &room);
    all_words(report, &room);
    report->epoch = scope.epoch * 4 + report->state;
    report->uncounted = scope.uncounted;
    report->blind = scope.blind || scope.uncounted || scope.n_unjudged > 0;
}

/* ---- JSON ---- */

struct text {
    char *at;
    size_t n, room;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...) {
    va_list arguments;
    for (int tries = 0; tries < 2; tries++) {
        va_start(arguments, format);
        const int n = vsnprintf(text->at + text->n, text->room - text->n, format, arguments);
        va_end(arguments);
        if (n < 0)
            return;
        if (text->n + (size_t)n < text->room) {
            text->n += (size_t)n;
            return;
        }
        char *bigger = realloc(text->at, 2 * text->room + (size_t)n);
        if (!bigger)
            return;
        text->at = bigger;
        text->room = 2 * text->room + (size_t)n;
    }
}

/* Letters beyond ASCII byte by byte, as a path need not be text. */
static void say_quoted(struct text *text, const char *words) {
    say(text, "\"");
    for (; *words; words++) {
        const unsigned char letter = (unsigned char)*words;
        if (letter < ' ' || letter > '~' || letter == '"' || letter == '\\')
            say(text, "\\u%04x", letter);
        else
            say(text, "%c", letter);
    }
    say(text, "\"");
}

static void say_origin(struct text *text, const struct report *report, int origin) {
    char all[SCOPE_ORIGIN + sizeof(struct words)] = "";
    size_t n = 0;
    for (int i = 0; i < report->rows && origin != 0; i++) {
        struct words piece;
        memcpy(&piece, &report->row[i], sizeof piece);
        if (piece.row != WORDS || piece.origin != origin || n >= SCOPE_ORIGIN)
            continue;
        memcpy(all + n, piece.text, sizeof piece.text);
        n += strnlen(piece.text, sizeof piece.text);
    }
    all[n] = '\0';
    say_quoted(text, all);
}

/* "MPI_Bcast, root 0, 8 B"; `kinds`: and what kind of number, where that is what does not fit. */
static void say_place(struct text *text, const struct record *p, bool kinds) {
    char kind[SCOPE_LIKENESS];
    say(text, "%s", scope_names[p->name]);
    if (p->tag >= 0) {
        say(text, ", root %d", p->tag);
    } else if (p->tag != NO_ROOT) {
        say(text, ", root in the group of rank %d: ", ROOT_GROUP(p->tag));
        say(text, p->peer == ANY_PEER ? "MPI_PROC_NULL" : "rank %d", p->peer);
    }
    if (p->waiter != NO_OPERATION)
        say(text, ", %s", scope_operation_name(p->waiter));
    if (p->size >= 0)
        say(text, ", %lld B", p->size);
    if (*scope_likeness(p->likeness, kind) && (kinds || p->waiter != NO_OPERATION))
        say(text, " of %s", kind);
    if (p->given >= 0)
        say(text, ", hands in %lld B and takes out %lld B", p->given, p->taken);
    if (p->name == CALL_Cart_create) {
        for (int i = 0; i < (int)(p->detail & 7); i++) {
            const unsigned dim = (unsigned)(p->detail >> (3 + 10 * i)) & 1023;
            say(text, "%s%u%s", i ? " x " : ", ", dim & 511, dim & 512 ? " (periodic)" : "");
        }
    } else if (p->detail) {
        say(text, ", %s%llu", p->name == CALL_File_open ? "amode " : "",
            (unsigned long long)p->detail);
    }
}

char *scope_call_words(int name) {
    struct text text = {.at = malloc(256), .room = 256};
    const struct record *place = NULL;
    if (!text.at)
        return NULL;
    for (int i = 0; i < scope.n_comms; i++) {
        const struct comm *c = scope.comms[i];
        if (c->places > 0 && c->place[c->places - 1].name == name)
            place = &c->place[c->places - 1];
    }
    if (place)
        say_place(&text, place, false);
    else
        say(&text, "%s", scope_names[name]);
    return text.at;
}

/* mpiexec may end before it has passed on what a rank writes: a notebook finds it in the rank's log. */
static void note_end(const char *said) {
    char path[4096];
    const char *run = getenv("RINGSIDE_RUN");
    const int length = snprintf(path, sizeof path, "%s/rank-%d.fault", run ? run : "", scope.rank);
    FILE *log = run && length < (int)sizeof path ? fopen(path, "a") : NULL;
    if (log) {
        fputs(said, log);
        fclose(log);
    }
}

void scope_tell_inside(int name) {
    char *words = scope_call_words(name), said[1024];
    if (words) {
        snprintf(said, sizeof said, "Ringside: rank %d was ended within %s\n", scope.rank, words);
        fputs(said, stderr);
        note_end(said);
    }
    free(words);
}

void scope_tell_abort(int code) {
    char said[64];
    snprintf(said, sizeof said, "Ringside: rank %d called MPI_Abort, %d\n", scope.rank, code);
    note_end(said);
}

static void say_members(struct text *text, const struct report *report, int comm) {
    const char *comma = "";
    say(text, "[");
    for (int i = 0; i < report->rows; i++) {
        if (report->row[i].row == MEMBER && report->row[i].comm == comm) {
            say(text, "%s%d", comma, report->row[i].peer);
            comma = ",";
        }
    }
    say(text, "]");
}

/* `all`: the reports of all ranks, or NULL: then it is whoever is named. */
static void say_targets(struct text *text, const struct report *all, int rank,
                        const struct record *need) {
    bool *target = calloc((size_t)scope.size + 1, sizeof *target);
    const char *comma = "";
    say(text, "[");
    if (target && all)
        scope_targets(scope.size, all, rank, need, target);
    else if (target && need->peer >= 0 && need->peer < scope.size)
        target[need->peer] = true;
    for (int r = 0; target && r < scope.size; r++) {
        if (target[r]) {
            say(text, "%s%d", comma, r);
            comma = ",";
        }
    }
    say(text, "]");
    free(target);
}

/* Returns how many it has not told: no sentence has room for more than so many before one rank. */
static int say_rows(struct text *text, const struct report *report, const struct report *all,
                    int kind_of_row) {
    static const char *const kinds[] = {"send",   "recv",   "probe",  "collective",
                                        "window", "buffer", "unknown"};
    enum { MANY = 64 };
    const char *comma = "";
    int *told = calloc((size_t)scope.size + 1, sizeof *told); /* the last: of no single rank */
    int untold = 0;
    say(text, "[");
    for (int i = 0; i < report->rows; i++) {
        const struct record *r = &report->row[i];
        if (r->row != kind_of_row)
            continue;
        const int peer = r->peer >= 0 && r->peer < scope.size ? r->peer : scope.size;
        if (!told || told[peer] == MANY) {
            untold += r->count > 1 ? r->count : 1;
            continue;
        }
        told[peer]++;
        say(text, "%s{\"kind\":\"%s\",\"comm\":%d,\"peer\":%d,\"tag\":%d,\"bytes\":%lld,"
                  "\"index\":%d,\"count\":%d,\"members\":",
            comma, kinds[r->kind], r->comm, r->peer, r->tag, r->size, r->index, r->count);
        say_members(text, report, r->comm);
        if (kind_of_row == NEEDS) {
            say(text, ",\"targets\":");
            say_targets(text, all, report->rank, r);
            say(text, ",\"unwaited\":%lld,\"thread\":%d", r->taken, r->waiter);
        }
        if (r->origin) {
            say(text, ",\"origin\":");
            say_origin(text, report, r->origin);
        }
        say(text, "}");
        comma = ",";
    }
    say(text, "]");
    free(told);
    return untold;
}

static const char *const kinds[] = {"running",   "starved", "deadlock", "mismatch",
                                    "suspected", "stopped", "cleared"};

static void say_stuck(struct text *text, const struct verdict *verdict) {
    const char *comma = "";
    say(text, "[");
    for (int r = 0; verdict->is_stuck && r < scope.size; r++) {
        if (verdict->is_stuck[r]) {
            say(text, "%s%d", comma, r);
            comma = ",";
        }
    }
    say(text, "]");
}

/* The last collective entered on each communicator, where it is still known. */
static void say_entered(struct text *text, const struct report *report) {
    const char *comma = "";
    say(text, "{");
    for (int i = 0; i < report->rows; i++) {
        const struct record *r = &report->row[i];
        if (r->row != ENTERED || r->index == 0)
            continue;
        const struct record *place = scope_place(report, r->comm, r->index);
        say(text, "%s\"%d\":[%d,\"", comma, r->comm, r->index);
        if (place)
            say_place(text, place, false);
        say(text, "\"]");
        comma = ",";
    }
    say(text, "}");
}

static void say_report(struct text *text, const struct report *report, const struct report *all) {
    static const char *const states[] = {"idle", "computing", "blocked", "polling"};
    int mode = ALL;
    for (int i = 0; i < report->rows; i++)
        if (report->row[i].row == WAITER)
            mode = report->row[i].kind;
    say(text, "{\"rank\":%d,\"state\":\"%s\",\"call\":\"%s\",\"since\":%.6f,\"mode\":\"%s\","
              "\"cell\":%d,\"failed\":%s,\"needs\":",
        report->rank, report->travels ? "under way" : states[report->state],
        report->name ? scope_names[report->name] : "", report->since, mode == ANY ? "any" : "all",
        report->cell, report->failed ? "true" : "false");
    const int untold = say_rows(text, report, all, NEEDS);
    const char *comma = "";
    say(text, ",\"untold\":%d,\"threads\":[", untold);
    for (int i = report->rows - 1; i >= 0; i--) { /* the main thread first */
        const struct record *r = &report->row[i];
        if (r->row != WAITER)
            continue;
        say(text, "%s{\"thread\":%d,\"call\":\"%s\",\"mode\":\"%s\",\"origin\":", comma, r->waiter,
            scope_names[r->name], r->kind == ANY ? "any" : "all");
        say_origin(text, report, r->origin);
        say(text, "}");
        comma = ",";
    }
    say(text, "],\"posted\":");
    say_rows(text, report, all, POSTED);
    say(text, ",\"entered\":");
    say_entered(text, report);
}

/* What each rank that has been there called at that place. */
static void say_entered_at(struct text *text, const struct report *reports,
                           const struct mismatch *at) {
    const char *comma = "";
    const struct record *known = NULL;
    bool kinds = false;
    for (int r = 0; r < scope.size; r++) {
        const struct record *place = scope_place(&reports[r], at->comm, at->index);
        if (!place || !place->likeness)
            continue;
        kinds = kinds || (known && place->name == known->name && place->likeness != known->likeness);
        known = place;
    }
    say(text, "{");
    for (int r = 0; r < scope.size; r++) {
        const struct record *place = scope_place(&reports[r], at->comm, at->index);
        if (!place)
            continue;
        say(text, "%s\"%d\":\"", comma, r);
        say_place(text, place, kinds);
        say(text, "\"");
        comma = ",";
    }
    say(text, "},\"origins\":{");
    comma = "";
    for (int r = 0; r < scope.size; r++) {
        const struct record *place = scope_place(&reports[r], at->comm, at->index);
        if (!place || !place->origin)
            continue;
        say(text, "%s\"%d\":", comma, r);
        say_origin(text, &reports[r], place->origin);
        comma = ",";
    }
    say(text, "}");
}

/* All called the same, and hand in together what they take out together: what does not fit is what
 * single ones have for one another. */
static bool differs_in_pairs(const struct report *reports, const struct mismatch *mismatch) {
    const struct record *one = NULL;
    long long given = 0, taken = 0;
    for (int r = 0; r < scope.size; r++) {
        const struct record *place = scope_place(&reports[r], mismatch->comm, mismatch->index);
        if (!place)
            continue;
        if (place->given < 0 || place->taken < 0 || (one && !scope_alike(one, place)))
            return false;
        one = place;
        given += place->given;
        taken += place->taken;
    }
    return given > 0 && given == taken;
}

static void say_mismatch(struct text *text, const struct report *reports,
                         const struct mismatch *mismatch) {
    if (!mismatch->found) {
        say(text, "null");
        return;
    }
    say(text, "{\"comm\":%d,\"index\":%d,\"entered\":", mismatch->comm, mismatch->index);
    say_entered_at(text, reports, mismatch);
    say(text, ",\"in_pairs\":%s}", differs_in_pairs(reports, mismatch) ? "true" : "false");
}

/* Who has entered that collective, and what it is to them; who has not. */
static void say_partly(struct text *text, const struct report *reports,
                       const struct mismatch *partly) {
    if (!partly->found) {
        say(text, "null");
        return;
    }
    say(text, "{\"comm\":%d,\"index\":%d,\"in_step\":%s,\"stale\":%s,\"missing\":[", partly->comm,
        partly->index, partly->in_step ? "true" : "false", partly->stale ? "true" : "false");
    const char *comma = "";
    for (int r = 0; r < scope.size; r++) {
        const struct record *entered = scope_entered(&reports[r], partly->comm);
        if (!entered || entered->index >= partly->index)
            continue;
        say(text, "%s%d", comma, r);
        comma = ",";
    }
    say(text, "],\"entered\":");
    say_entered_at(text, reports, partly);
    say(text, "}");
}

enum { MANY_UNRECEIVED = 64 };

static void say_unreceived(struct text *text, const struct report *reports,
                           const struct unreceived *left, int lefts) {
    say(text, "[");
    for (int i = 0; i < lefts && i < MANY_UNRECEIVED; i++) {
        say(text, "%s{\"source\":%d,\"dest\":%d,\"tag\":%d,\"comm\":%d,\"count\":%lld,\"origin\":",
            i ? "," : "", left[i].source, left[i].dest, left[i].tag, left[i].comm, left[i].count);
        say_origin(text, &reports[left[i].source], left[i].origin);
        say(text, "}");
    }
    say(text, "]");
}

void scope_tell(const struct report *reports, const struct verdict *verdict, int kind,
                const struct unreceived *left, int lefts, double seconds, int drained,
                int renewed, bool failed) {
    struct text text = {.at = malloc(4096), .room = 4096};
    if (!text.at)
        return;
    say(&text, "{\"kind\":\"%s\",\"round\":%d,\"generation\":%d,\"seconds\":%.6f,\"quiet\":%g,"
               "\"insist\":%s,\"drained\":%d,\"renewed\":%d,\"failed\":%s,\"ranks\":",
        kinds[kind], scope.round, scope.generation, seconds, scope.quiet_limit,
        atomic_load(&scope.insist) ? "true" : "false", drained, renewed,
        failed ? "true" : "false");
    say_stuck(&text, verdict);
    say(&text, ",\"mismatch\":");
    say_mismatch(&text, reports, &verdict->mismatch);
    say(&text, ",\"partly\":");
    const struct mismatch partly = scope_partly_entered(reports);
    say_partly(&text, reports, &partly);
    say(&text, ",\"states\":[");
    for (int r = 0; r < scope.size; r++) {
        say(&text, r ? "," : "");
        say_report(&text, &reports[r], reports);
        say(&text, "}");
    }
    say(&text, "],\"unreceived\":");
    say_unreceived(&text, reports, left, lefts);
    say(&text, "}");
    free(scope.told);
    scope.told = text.at;
}

/* Messages that were not received, and a collective that not all were in. */
static void say_left(struct text *text, const struct report *reports,
                     const struct unreceived *left, int lefts, const struct mismatch *partly) {
    long long untold = 0;
    for (int i = MANY_UNRECEIVED; i < lefts; i++)
        untold += left[i].count;
    say(text, "\"unreceived\":");
    say_unreceived(text, reports, left, lefts);
    say(text, ",\"untold\":%lld,\"partly\":", untold);
    say_partly(text, reports, partly);
}

void scope_tell_last(const struct report *reports, const struct unreceived *left, int lefts,
                     const struct mismatch *partly) {
    struct text text = {.at = malloc(256), .room = 256};
    if (!text.at)
        return;
    say(&text, "{");
    say_left(&text, reports, left, lefts, partly);
    say(&text, "}");
    scope_outside_left_over(text.at);
    free(text.at);
}

void scope_tell_left(const struct report *reports, const struct unreceived *left, int lefts,
                     const struct mismatch *partly) {
    struct text text = {.at = malloc(256), .room = 256};
    if (!text.at)
        return;
    say_left(&text, reports, left, lefts, partly);
    free(scope.leftover);
    scope.leftover = text.at;
}

/* At this cell's end: of the first that was found. */
void scope_tell_misread(const struct report *reports, const struct record *received, int sent_at,
                        bool wholes) {
    struct text text = {.at = malloc(256), .room = 256};
    if (!text.at || scope.misread) {
        free(text.at);
        return;
    }
    say(&text, "{\"source\":%d,\"dest\":%d,\"tag\":%d,\"integers\":%s,\"sent\":", received->peer,
        scope.rank, received->tag, wholes ? "true" : "false");
    say_origin(&text, &reports[received->peer], sent_at);
    say(&text, ",\"received\":");
    say_origin(&text, &reports[scope.rank], received->origin);
    say(&text, "}");
    scope.misread = text.at;
}

static void say_own_origin(struct text *text, int origin) {
    char words[SCOPE_ORIGIN] = "";
    if (origin)
        scope_say_origin(origin, words);
    say_quoted(text, words);
}

/* This rank's requests that have begun and were not completed: of many some. A small send is complete
 * when it begins, and is in no list. Nor is what a thread may be waiting for. */
static void say_open(struct text *text) {
    enum { MANY_OPEN = 64 };
    static const char *const kinds[] = {[SEND] = "send", [RECV] = "recv", [COLLECTIVE] = "collective"};
    int n = 0;
    say(text, "[");
    for (const struct thread *t = scope.threads; t; t = t->next)
        n = t->waiting ? MANY_OPEN : n;
    for (const struct op *op = scope_first(); op && n < MANY_OPEN; op = scope_next(op)) {
        if (!op->active || op->dead || op->freed || op->cancelled ||
            (op->kind != SEND && op->kind != RECV && op->kind != COLLECTIVE))
            continue;
        unsigned long long handle = 0;
        memcpy(&handle, &op->request, sizeof op->request);
        say(text, "%s{\"handle\":%llu,\"serial\":%lld,\"kind\":\"%s\",\"peer\":%d,\"tested\":%s,"
                  "\"origin\":",
            n++ ? "," : "", handle, op->serial, kinds[op->kind], op->peer,
            op->window ? "true" : "false");
        say_own_origin(text, op->origin);
        say(text, "}");
    }
    say(text, "]");
}

/* In which calls of this cell the rank of the other side was MPI_PROC_NULL or MPI_ANY_SOURCE. */
static void say_unranked(struct text *text) {
    say(text, "[");
    for (int i = 0; i < scope.n_unranked; i++) {
        const struct unranked *u = &scope.unranked[i];
        say(text, "%s{\"call\":\"%s\",\"peer\":%d,\"nobody\":%s,\"receives\":%s,\"origin\":",
            i ? "," : "", scope_names[u->name], u->peer,
            u->peer == MPI_PROC_NULL ? "true" : "false", u->receives ? "true" : "false");
        say_own_origin(text, u->origin);
        say(text, "}");
    }
    say(text, "]");
}

char *scope_settled_text(void) {
    static const char nothing[] = "\"unreceived\":[],\"untold\":0,\"partly\":null";
    struct text text = {.at = malloc(1024), .room = 1024};
    if (!text.at)
        return NULL;
    say(&text, "{\"generation\":%d,\"broken\":%s,\"raised\":%s,\"report\":%s,\"misread\":%s,%s,"
               "\"open\":",
        scope.generation, scope.broken ? "true" : "false", scope.delivered ? "true" : "false",
        scope.first ? scope.first : "null", scope.misread ? scope.misread : "null",
        scope.leftover ? scope.leftover : nothing);
    say_open(&text);
    say(&text, ",\"unranked\":");
    say_unranked(&text);
    say(&text, "}");
    free(scope.leftover);
    free(scope.misread);
    scope.leftover = scope.misread = NULL;
    return text.at;
}

/* ---- for Python (ringside.watch.scope) ---- */

/* Operations that have begun and that nobody has completed, whether or not they can be any more. */
static long long open_requests(void) {
    long long open = scope.never_completed;
    for (const struct op *op = scope_first(); op; op = scope_next(op))
        open += op->active;
    return open;
}

/* This rank's state as JSON, for the caller to give back with scope_release. */
char *scope_state(void) {
    struct text text = {.at = malloc(1024), .room = 1024};
    if (!text.at)
        return NULL;
    struct report report = {.rank = scope.rank};
    scope_lock();
    const bool ready = atomic_load(&scope.ready);
    if (ready)
        scope_report(&report);
    const bool fresh = ready && report.epoch == scope.verdict_epoch;
    const struct verdict none = {.kind = RUNNING}, *verdict = fresh ? &scope.verdict : &none;
    char network[160];
    scope_say_network(network, sizeof network);
    say_report(&text, &report, scope.last);
    say(&text, ",\"stop\":%d,\"unjudged\":[", atomic_load(&scope.stop));
    for (int i = 0; i < scope.n_unjudged; i++)
        say(&text, "%s\"%s\"", i ? "," : "", scope.unjudged[i]);
    const char *const held = scope.held == NOT_HELD ? "" : scope_names[scope.held];
    say(&text, "],\"network\":%s,\"on\":%s,\"insist\":%s,\"after\":%.6f,\"calls\":%lld,\"held\":\"%s\",",
        network, atomic_load(&scope.on) && ready ? "true" : "false",
        atomic_load(&scope.insist) ? "true" : "false", scope_after(), scope.n_events, held);
    say(&text, "\"types\":%lld,\"types_made\":%lld,\"open\":%lld,\"changed\":%lld,"
              "\"verdict\":{\"kind\":\"%s\",\"round\":%d,\"ranks\":",
        scope_open_types(), scope_types_made(), open_requests(), scope.changed,
        kinds[verdict->kind], scope.round);
    say_stuck(&text, verdict);
    say(&text, "}}");
    scope_unlock();
    free(report.row);
    return text.at;
}

/* The last break as JSON, or NULL if there was none. */
char *scope_told(void) {
    scope_lock();
    char *copy = scope.told ? strdup(scope.told) : NULL;
    scope_unlock();
    return copy;
}

void scope_release(char *text) { free(text); }
