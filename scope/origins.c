/* Where in the program a call was made: a line of Python, or an address in C. See scope.h.
 *
 * mpi4py lets go of Python's lock in its calls, so nobody may be asked who needs it, and no call may
 * wait for it. The frame of a thread that is inside a call does not change, and is read where it lies.
 * Where that is was found when MPI began, and held against what Python itself said then; where the two
 * differ, as in a Python that is made otherwise, no line of Python is known.
 *
 * A code object may be gone by the time that somebody asks, and another lie in its place: what there
 * is to say of an origin is kept, and what its line follows from is compared at each call. */
#define _GNU_SOURCE
#include "scope.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 1024, DEPTH = 32, MOST = 1 << 16, TEXT = SCOPE_ORIGIN };
enum { NOWHERE = 0, PASSED_BY = -1 }; /* the latter: a library's, called from elsewhere */

typedef char *object; /* PyObject *: Python's header is not needed for this */

/* ---- what there is to say of each ---- */

static char **texts; /* by their numbers, from 1 on */
static int n_texts, *numbers, room;

static uint64_t hash_of(const char *text) {
    uint64_t hash = 0;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static int *slot(int *table, int size, const char *text) {
    for (uint64_t i = hash_of(text);; i++) {
        int *at = &table[i & (uint64_t)(size - 1)];
        if (*at == NOWHERE || strcmp(texts[*at], text) == 0)
            return at;
    }
}

static bool grow(void) {
    const int size = room ? 2 * room : 64;
    int *table = calloc((size_t)size, sizeof *table);
    char **more = table ? realloc(texts, (size_t)size * sizeof *more) : NULL;
    if (!more) {
        free(table);
        return false;
    }
    texts = more;
    for (int i = 1; i <= n_texts; i++)
        *slot(table, size, texts[i]) = i;
    free(numbers);
    numbers = table;
    room = size;
    return true;
}

static int number_of(const char *text) {
    if (2 * (n_texts + 2) > room && (n_texts >= MOST || !grow()))
        return NOWHERE;
    int *at = slot(numbers, room, text);
    if (*at == NOWHERE) {
        char *copy = strdup(text);
        if (!copy)
            return NOWHERE;
        texts[++n_texts] = copy;
        *at = n_texts;
        scope_outside_origin(n_texts, copy);
    }
    return *at;
}

/* The file of the cell that runs, or of the last one. */
static char *cell;

void scope_say_origin(int origin, char text[SCOPE_ORIGIN]) {
    const char *const said = origin > 0 && origin <= n_texts ? texts[origin] : "";
    snprintf(text, SCOPE_ORIGIN, "%s", said);
    char *const file = strrchr(text, '\t');
    if (file && cell && strcmp(file + 1, cell) == 0)
        file[1] = '\0';
}

/* ---- Python's frames ---- */

static struct {
    bool known, through; /* through: a thread leads to its frame by way of another structure */
    object type;         /* of code */
    object (*thread)(void);
    int (*line)(object code, int offset);
    int first, first_line; /* in code: where its instructions begin, and which line that is */
    int frame, inner;    /* in a thread, and in the structure between */
    int code, previous, at; /* in a frame */
} python;

enum { IN_FRAME_OBJECT = 24, THROUGH = 56 }; /* where CPython has the frame, from 3.11 on; until 3.12 */
enum { FILENAME = 112, NAME = 128, LINES = 136 }; /* in its code objects, likewise */
enum { TYPE = 8, SIZE = 16, BYTES = 32 };

static object word(const char *at, int offset) {
    object found;
    memcpy(&found, at + offset, sizeof found);
    return found;
}

static int number(const char *at, int offset) {
    int found;
    memcpy(&found, at + offset, sizeof found);
    return found;
}

/* From 3.14 on some are marked in bits that no address has. */
static object unmarked(object marked) { return (object)((uintptr_t)marked & ~(uintptr_t)7); }

static int find(const char *in, int bytes, object wanted) {
    for (int at = 0; at < bytes; at += (int)sizeof wanted)
        if (unmarked(word(in, at)) == wanted)
            return at;
    return -1;
}

#define LOAD(function, name)                                       \
    do {                                                           \
        void *const found = dlsym(RTLD_DEFAULT, name);             \
        if (!found)                                                \
            return false;                                          \
        memcpy(&(function), &found, sizeof found);                 \
    } while (0)

/* With Python's lock. */
static bool find_frames(void) {
    object (*frame_now)(void), (*frame_back)(object), (*frame_code)(object);
    object (*attribute)(object, const char *);
    int (*frame_at)(object);
    long (*as_long)(object);
    LOAD(frame_now, "PyEval_GetFrame");
    LOAD(frame_back, "PyFrame_GetBack");
    LOAD(frame_code, "PyFrame_GetCode");
    LOAD(frame_at, "PyFrame_GetLasti");
    LOAD(attribute, "PyObject_GetAttrString");
    LOAD(as_long, "PyLong_AsLong");
    LOAD(python.thread, "PyGILState_GetThisThreadState");
    LOAD(python.line, "PyCode_Addr2Line");
    LOAD(python.type, "PyCode_Type");
    const unsigned long *const version = dlsym(RTLD_DEFAULT, "Py_Version");
    const object now = frame_now(), back = now ? frame_back(now) : NULL, thread = python.thread();
    if (!version || !back || !thread)
        return false;
    /* The few objects that are asked for are not given back: this is done once. */
    const object code = frame_code(now), size = attribute(python.type, "__basicsize__");
    python.first = size ? (int)as_long(size) : 0;
    const object frame = word(now, IN_FRAME_OBJECT), before = word(back, IN_FRAME_OBJECT);
    python.through = *version < 0x030d0000;
    const object from = python.through ? word(thread, THROUGH) : thread;
    python.frame = THROUGH;
    python.inner = find(from, python.through ? 16 : 128, frame);
    if (python.inner < 0 || word(code, TYPE) != python.type ||
        word(code, FILENAME) != attribute(code, "co_filename") ||
        word(code, NAME) != attribute(code, "co_qualname") ||
        word(code, LINES) != attribute(code, "co_linetable"))
        return false;
    python.first_line = *version < 0x030c0000 ? 72 : 68;
    if (number(code, python.first_line) != as_long(attribute(code, "co_firstlineno")))
        return false;
    python.code = find(frame, 64, code);
    python.previous = find(frame, 64, before);
    python.at = -1;
    for (int i = 0; i < 64; i += 8)
        if (word(frame, i) == code + python.first + frame_at(now))
            python.at = i;
    return python.code >= 0 && python.previous >= 0 && python.at >= 0;
}

void scope_learn_python(void) {
    int (*ensure)(void) = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
    void (*release)(int) = dlsym(RTLD_DEFAULT, "PyGILState_Release");
    if (!scope_is_python() || !ensure || !release)
        return;
    const int held = ensure();
    python.known = find_frames();
    release(held);
}

/* ---- the sites of calls, each with its origin ---- */

/* In C `at` is the address to return to, and there is no code. */
struct site {
    const char *code, *at;
    object file, name;
    char *lines;
    size_t size;
    int first_line, origin;
};

static struct site sites[SITES];

static struct site *site_of(const char *code, const char *at) {
    const uint64_t key = (uint64_t)(uintptr_t)at * 0x9E3779B97F4A7C15u ^
                         (uint64_t)(uintptr_t)code * 0xC2B2AE3D27D4EB4Fu;
    return &sites[(key ^ key >> 32) % SITES];
}

static size_t size_of(object bytes) { return (size_t)(uintptr_t)word(bytes, SIZE); }

/* Does the code there still tell this site's line? */
static bool holds(const struct site *s, const char *code, const char *at) {
    const object lines = word(code, LINES);
    return s->code == code && s->at == at && s->file == word(code, FILENAME) &&
           s->name == word(code, NAME) && s->first_line == number(code, python.first_line) &&
           s->size == size_of(lines) &&
           memcmp(s->lines, lines + BYTES, s->size) == 0;
}

/* As UTF-8, letter by letter: whoever makes all of it keeps that, for which Python's lock is needed. */
static void spell(char *text, size_t size, object words) {
    long (*length)(object) = NULL;
    unsigned (*letter)(object, long) = NULL;
    void *found = dlsym(RTLD_DEFAULT, "PyUnicode_GetLength");
    memcpy(&length, &found, sizeof found);
    found = dlsym(RTLD_DEFAULT, "PyUnicode_ReadChar");
    memcpy(&letter, &found, sizeof found);
    const long n = length && letter ? length(words) : 0;
    size_t to = 0;
    for (long i = 0; i < n && to + 5 < size; i++) {
        const unsigned one = letter(words, i);
        const int more = one < 0x80 ? 0 : one < 0x800 ? 1 : one < 0x10000 ? 2 : 3;
        static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
        text[to++] = (char)(first[more] | one >> 6 * more);
        for (int k = more - 1; k >= 0; k--)
            text[to++] = (char)(0x80 | (one >> 6 * k & 0x3f));
    }
    text[to] = '\0';
}

/* Of Python itself, of installed packages, of this one, and what was made of a string; not what
 * somebody types in. */
static bool is_library(const char *file) {
    static const char *const parts[] = {"-packages/", "src/mpi4py/", "/src/ringside/",
                                        "/lib/python3."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(file, parts[i]))
            return true;
    return *file == '\0' ||
           (*file == '<' && strcmp(file, "<stdin>") != 0 && strncmp(file, "<ipython-input", 14) != 0);
}

/* "12\tshift\t/home/me/ring.py" */
static int line_of_python(const char *code, const char *at) {
    char path[8 * TEXT], name[TEXT / 4], text[TEXT];
    spell(path, sizeof path, word(code, FILENAME));
    if (is_library(path))
        return PASSED_BY;
    spell(name, sizeof name, word(code, NAME));
    const int line = python.line((object)(uintptr_t)code, (int)(at - code) - python.first);
    const char *const last = strrchr(path, '/');
    const char *file = strlen(path) > TEXT / 2 && last ? last + 1 : path;
    snprintf(text, sizeof text, "%d\t%s\t%.*s", line, name, TEXT / 2, file);
    return number_of(text);
}

static void fill(struct site *s, const char *code, const char *at) {
    const object lines = word(code, LINES);
    free(s->lines);
    *s = (struct site){.code = code,
                       .at = at,
                       .file = word(code, FILENAME),
                       .name = word(code, NAME),
                       .lines = malloc(size_of(lines) + 1),
                       .size = size_of(lines),
                       .first_line = number(code, python.first_line),
                       .origin = line_of_python(code, at)};
    if (s->lines)
        memcpy(s->lines, lines + BYTES, s->size);
    else
        s->code = NULL; /* asked anew next time */
}

/* The innermost line that is no library's. */
static int in_python(void) {
    const object thread = python.known ? python.thread() : NULL;
    const object from = thread && python.through ? word(thread, python.frame) : thread;
    const char *frame = from ? word(from, python.inner) : NULL;
    for (int i = 0; i < DEPTH && frame; i++, frame = word(frame, python.previous)) {
        const object code = unmarked(word(frame, python.code));
        if (!code || word(code, TYPE) != python.type)
            continue; /* a frame between Python and C */
        const char *at = word(frame, python.at);
        struct site *s = site_of(code, at);
        if (!holds(s, code, at))
            fill(s, code, at);
        if (s->origin != PASSED_BY)
            return s->origin;
    }
    return NOWHERE;
}

bool scope_address(const void *at, char text[SCOPE_ORIGIN]) {
    Dl_info own, there;
    if (!dladdr(&scope, &own) || !dladdr(at, &there) || there.dli_fbase == own.dli_fbase ||
        !there.dli_fname)
        return false;
    const ElfW(Ehdr) *header = there.dli_fbase;
    /* A program of fixed addresses is named by them. */
    const char *base = header->e_type == ET_EXEC ? NULL : (const char *)there.dli_fbase;
    const int n = snprintf(text, TEXT, "%#tx\t%s", (const char *)at - 1 - base, there.dli_fname);
    return n < TEXT;
}

static int in_c(const void *at) {
    char text[TEXT];
    if (!scope_address(at, text))
        return NOWHERE;
    if (strstr(text, "-packages/mpi4py/") || strstr(text, "/libffi"))
        return PASSED_BY; /* Python has called these */
    return number_of(text);
}

int scope_origin(const void *caller) {
    struct site *s = site_of(NULL, caller);
    if (s->code || s->at != caller) {
        free(s->lines);
        *s = (struct site){.at = caller, .origin = in_c(caller)};
    }
    return s->origin == PASSED_BY ? in_python() : s->origin;
}

/* ---- for Python (ringside.watch.scope) ---- */

/* The cell that runs from now on is compiled under that name. */
void scope_cell(const char *file) {
    scope_lock();
    free(cell);
    cell = strdup(file);
    scope_unlock();
}

/* The text of an origin; it stays. NULL: there is none of that number. */
const char *scope_origin_of(int origin) {
    scope_lock();
    const char *text = origin > 0 && origin <= n_texts ? texts[origin] : NULL;
    scope_unlock();
    return text;
}
