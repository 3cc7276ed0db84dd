/* Where ranks meet before a call that cannot be left. See scope.h.
 *
 * Small words travel between the program's threads on the scope's private communicator. At a gate
 * every member tells the first of them which collective it has come to and a hash of all it has
 * entered on that communicator; if they are alike, and in balance, the first lets all through. If
 * they are not, the gate stays shut, and the judge names the place. Words are counted, so that a
 * break can take exactly those out that are under way. */
#include "scope.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_TAG = 2 }; /* below it the threads of the scope talk */

struct word {
    int64_t number, index;
    uint64_t hash, balance;
};

/* A word on its way out, until the library has done with it. */
struct outgoing {
    struct outgoing *next;
    MPI_Request request;
    struct word word;
};

static struct outgoing *outgoing;
static int *sent, *received; /* words to and from each rank */

static bool tables(void) {
    if (!sent)
        sent = calloc((size_t)scope.size, sizeof *sent);
    if (!received)
        received = calloc((size_t)scope.size, sizeof *received);
    return sent && received;
}

/* Of the scope's threads as well: what nobody has received when MPI ends, UCX speaks of. */
void scope_word_sent(int to) {
    if (tables())
        sent[to]++;
}

void scope_word_received(int from) {
    if (tables())
        received[from]++;
}

static int tag_of(int number) {
    return FIRST_TAG + (int)((unsigned)number % (unsigned)(scope.greatest_tag - FIRST_TAG));
}

static void sweep(void) {
    for (struct outgoing **at = &outgoing; *at;) {
        struct outgoing *one = *at;
        int done = 0;
        PMPI_Test(&one->request, &done, MPI_STATUS_IGNORE);
        if (done) {
            *at = one->next;
            free(one);
        } else {
            at = &one->next;
        }
    }
}

static void tell(int to, int tag, const struct word *word) {
    struct outgoing *one = tables() ? malloc(sizeof *one) : NULL;
    sweep();
    if (!one) {
        scope.blind = true;
        return;
    }
    one->word = *word;
    one->next = outgoing;
    outgoing = one;
    sent[to]++;
    PMPI_Isend(&one->word, (int)sizeof one->word, MPI_BYTE, to, tag, scope.private, &one->request);
}

static bool hear(int from, int tag, struct word *word) {
    int there = 0;
    MPI_Status status;
    PMPI_Iprobe(from, tag, scope.private, &there, &status);
    if (!there || !tables())
        return false;
    PMPI_Recv(word, (int)sizeof *word, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, scope.private,
              MPI_STATUS_IGNORE);
    received[status.MPI_SOURCE]++;
    return true;
}

/* ---- gates ---- */

static struct word here(const struct comm *c) {
    const struct record *last = c->places > 0 ? &c->place[c->places - 1] : NULL;
    uint64_t hash = c->history;
    if (last && last->index > c->hashed)
        hash = scope_mix_place(hash, last);
    const uint64_t balance = last && last->index == c->entered ? last->balance : 0;
    return (struct word){c->number, c->entered, hash, balance};
}

static int members(const struct comm *c) { return c->size + c->remote; }

static int first_of(const struct comm *c) {
    int first = c->world[0];
    for (int i = 1; i < members(c); i++)
        first = c->world[i] < first ? c->world[i] : first;
    return first;
}

static bool alike(const struct word *a, const struct word *b) {
    return a->number == b->number && a->index == b->index && a->hash == b->hash;
}

/* The first member's part: true once all have come, alike and in balance. */
static bool all_here(const struct comm *c, const struct word *own, bool *come, int *missing,
                     bool *shut, uint64_t *balance) {
    for (int i = 0; i < members(c); i++) {
        struct word word;
        if (come[i] || !hear(c->world[i], tag_of(c->number), &word))
            continue;
        come[i] = true;
        --*missing;
        *shut = *shut || !alike(&word, own);
        *balance += word.balance;
    }
    return *missing == 0 && !*shut && *balance == 0;
}

int scope_gate(struct call *call, struct comm *c) {
    const struct word own = here(c);
    const int first = first_of(c), tag = tag_of(c->number);
    const struct record need = {
        .kind = COLLECTIVE, .comm = c->number, .peer = ANY_PEER, .index = c->entered};
    bool few[64] = {false}, shut = false, through = false;
    uint64_t balance = own.balance;
    bool *come = members(c) <= 64 ? few : calloc((size_t)members(c), sizeof *come);
    int missing = members(c) - 1, err = come ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    for (int i = 0; come && i < members(c); i++)
        come[i] = c->world[i] == scope.rank;
    if (!err && first != scope.rank)
        tell(first, tag, &own);
    call->probe = &need;
    call->n_probes = 1;
    c->released = 0;
    while (!err && !through) {
        struct word word;
        through = first == scope.rank ? all_here(c, &own, come, &missing, &shut, &balance)
                                      : hear(first, tag, &word);
        if (!through)
            err = scope_pause(call);
    }
    if (err == scope.code && c->released == own.index) { /* the others count on this rank */
        call->left = false;
        call->generation = scope.generation;
        err = MPI_SUCCESS;
    }
    for (int i = 0; through && first == scope.rank && i < members(c); i++)
        if (c->world[i] != scope.rank)
            tell(c->world[i], tag, &own);
    call->n_probes = 0;
    if (come != few)
        free(come);
    if (!err)
        scope_finish_idups(c);
    return err;
}

/* ---- words ---- */

void scope_token(int to, int key) {
    const struct word word = {.number = key};
    tell(to, tag_of(key), &word);
}

bool scope_token_there(int from, int key) {
    int there = 0;
    PMPI_Iprobe(from, tag_of(key), scope.private, &there, MPI_STATUS_IGNORE);
    return there;
}

int scope_await(struct call *call, int n, const int *from, int key) {
    struct record *needs = calloc((size_t)n + 1, sizeof *needs);
    if (!needs)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < n; i++)
        needs[i] = (struct record){.kind = WINDOW, .peer = from[i], .tag = ANY_LABEL, .index = key};
    call->probe = needs;
    call->n_probes = n;
    int err = MPI_SUCCESS;
    while (call->n_probes > 0 && !err) {
        struct word word;
        for (int i = 0; i < call->n_probes;) {
            if (hear(needs[i].peer, tag_of(key), &word))
                needs[i] = needs[--call->n_probes];
            else
                i++;
        }
        if (call->n_probes > 0)
            err = scope_pause(call);
    }
    call->n_probes = 0;
    free(needs);
    return err;
}

/* A word that lets this rank through a gate is heeded: the first member has gone on already. */
static void heed(int from, const struct word *word) {
    for (int i = 0; i < scope.n_comms; i++) {
        struct comm *c = scope.comms[i];
        if (c->number == word->number && c->entered == word->index && first_of(c) == from &&
            from != scope.rank)
            c->released = c->entered;
    }
}

bool scope_drain_tokens(double limit) {
    const double start = scope_now();
    int *theirs = calloc((size_t)scope.size, sizeof *theirs);
    MPI_Request request;
    bool good = theirs && tables();
    if (good) {
        PMPI_Ialltoall(sent, 1, MPI_INT, theirs, 1, MPI_INT, scope.private, &request);
        good = scope_complete(&request, true, limit);
    }
    for (int r = 0; r < scope.size && good; r++) {
        while (received[r] < theirs[r] && good) {
            MPI_Status status;
            struct word word;
            int there = 0;
            sweep();
            PMPI_Iprobe(r, MPI_ANY_TAG, scope.private, &there, &status);
            if (there && status.MPI_TAG >= FIRST_TAG) {
                hear(r, status.MPI_TAG, &word);
                heed(r, &word);
            } else if (there) { /* a wake of a round that has passed */
                int number;
                PMPI_Recv(&number, 1, MPI_INT, r, status.MPI_TAG, scope.private, MPI_STATUS_IGNORE);
                scope_word_received(r);
            } else {
                scope_nap(0.0002);
                good = scope_now() - start < limit;
            }
        }
    }
    free(theirs);
    return good;
}

void scope_finish_tokens(void) {
    while (outgoing) {
        struct outgoing *one = outgoing;
        outgoing = one->next;
        PMPI_Request_free(&one->request);
        free(one);
    }
    free(sent);
    free(received);
    sent = received = NULL;
}

/* ---- calls that block in the library, and whose like nobody else has to make ---- */

struct aside {
    int (*work)(void *given);
    void *given;
    atomic_int users; /* the thread, and the call that waits for it */
    atomic_bool done;
    int err;
};

static void forget_aside(struct aside *a) {
    if (atomic_fetch_sub(&a->users, 1) > 1)
        return;
    free(a->given);
    free(a);
}

static void *do_aside(void *of) {
    struct aside *a = of;
    scope_deaf(); /* the call that waits tells the program's handler */
    a->err = scope_heard(a->work(a->given));
    atomic_store(&a->done, true);
    forget_aside(a);
    return NULL;
}

int scope_aside(struct call *call, int (*work)(void *given), void *given, size_t size,
                const struct record *needs, int n) {
    struct aside *a = calloc(1, sizeof *a);
    void *copy = malloc(size);
    pthread_t thread;
    int err = MPI_SUCCESS;
    if (a && copy) {
        memcpy(copy, given, size);
        a->work = work;
        a->given = copy;
        atomic_init(&a->users, 2);
    }
    if (!a || !copy || pthread_create(&thread, NULL, do_aside, a) != 0) {
        free(copy);
        free(a);
        return MPI_ERR_NO_MEM;
    }
    pthread_detach(thread);
    call->probe = needs;
    call->n_probes = n;
    while (!atomic_load(&a->done) && !err) {
        int flag;
        PMPI_Iprobe(MPI_ANY_SOURCE, 0, scope.private, &flag, MPI_STATUS_IGNORE); /* progress */
        if (!atomic_load(&a->done))
            err = scope_pause(call);
    }
    call->n_probes = 0;
    if (atomic_load(&a->done)) {
        if (err == scope.code)
            call->left = false;
        err = a->err;
        memcpy(given, a->given, size);
    }
    forget_aside(a);
    return err;
}

/* ---- buffered sends ---- */

struct detach {
    int (*library)(struct detach *d);
    MPI_Comm comm;
    void *buffer;
    MPI_Count size;
};

static int detach(void *given) {
    struct detach *d = given;
    return d->library(d);
}

/* Waits until all buffered messages have left the buffer. Which those are the library does not
 * say: as long as one of this rank's messages can be received, it may be the one. */
static int serve_detach(struct call *call, struct comm *c, struct detach d, void *buffer,
                        MPI_Count *size) {
    struct report mine = {0};
    int room = 0, n = 0;
    scope_refresh();
    scope_count_rows(&mine, &room);
    for (int i = 0; i < mine.rows; i++)
        if (mine.row[i].row == SENT)
            mine.row[n++] = (struct record){.kind = BUFFER,
                                            .comm = mine.row[i].comm,
                                            .peer = mine.row[i].peer,
                                            .tag = mine.row[i].tag};
    call->mode = ANY;
    call->silent = true;
    const int err = scope_aside(call, detach, &d, sizeof d, mine.row, n);
    if (!err && buffer) {
        memcpy(buffer, &d.buffer, sizeof d.buffer);
        *size = d.size;
    }
    free(mine.row);
    return scope_end(call, c, err);
}

static int detach_plain(struct detach *d) {
    int size = 0;
    const int err = PMPI_Buffer_detach(&d->buffer, &size);
    d->size = size;
    return err;
}

int MPI_Buffer_detach(void *buffer, int *size) {
    OBSERVE_GIVEN(buffer && size, Buffer_detach, MPI_COMM_WORLD,
                  PMPI_Buffer_detach(buffer, size))
    MPI_Count large = 0;
    const struct detach d = {.library = detach_plain};
    const int err = serve_detach(&call, c, d, buffer, &large);
    *size = err ? *size : (int)large;
    return err;
}

#if LARGE_COUNTS
static int detach_large(struct detach *d) { return PMPI_Buffer_detach_c(&d->buffer, &d->size); }

int MPI_Buffer_detach_c(void *buffer, MPI_Count *size) {
    OBSERVE_GIVEN(buffer && size, Buffer_detach, MPI_COMM_WORLD,
                  PMPI_Buffer_detach_c(buffer, size))
    return serve_detach(&call, c, (struct detach){.library = detach_large}, buffer, size);
}
#endif

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
static int detach_comm(struct detach *d) {
    return PMPI_Comm_detach_buffer_c(d->comm, &d->buffer, &d->size);
}

static int flush(struct detach *d) {
    (void)d;
    return PMPI_Buffer_flush();
}

static int flush_comm(struct detach *d) { return PMPI_Comm_flush_buffer(d->comm); }

int MPI_Comm_detach_buffer(MPI_Comm comm, void *buffer, int *size) {
    OBSERVE_GIVEN(buffer && size, Comm_detach_buffer, comm,
                  PMPI_Comm_detach_buffer(comm, buffer, size))
    MPI_Count large = 0;
    const int err = serve_detach(
        &call, c, (struct detach){.library = detach_comm, .comm = comm}, buffer, &large);
    *size = err ? *size : (int)large;
    return err;
}

int MPI_Comm_detach_buffer_c(MPI_Comm comm, void *buffer, MPI_Count *size) {
    OBSERVE_GIVEN(buffer && size, Comm_detach_buffer, comm,
                  PMPI_Comm_detach_buffer_c(comm, buffer, size))
    return serve_detach(&call, c, (struct detach){.library = detach_comm, .comm = comm}, buffer,
                        size);
}

int MPI_Buffer_flush(void) {
    OBSERVE(Buffer_flush, MPI_COMM_WORLD, PMPI_Buffer_flush())
    return serve_detach(&call, c, (struct detach){.library = flush}, NULL, NULL);
}

int MPI_Comm_flush_buffer(MPI_Comm comm) {
    OBSERVE(Comm_flush_buffer, comm, PMPI_Comm_flush_buffer(comm))
    return serve_detach(&call, c, (struct detach){.library = flush_comm, .comm = comm}, NULL,
                        NULL);
}
#endif
