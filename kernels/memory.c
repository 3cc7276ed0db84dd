/* How much memory there is, and the messages' share of it. */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE /* madvise */
#endif
#include "ringside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The number after `key` at the start of a line of the file, or -1 where there is none. */
static int64_t read_number(const char *path, const char *key) {
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    int64_t number = -1;
    char line[256];
    while (number < 0 && fgets(line, sizeof line, file) != NULL) {
        char *end;
        if (strncmp(line, key, strlen(key)) != 0)
            continue;
        const char *text = line + strlen(key);
        const long long value = strtoll(text, &end, 10);
        if (end != text)
            number = value;
    }
    fclose(file);
    return number;
}

/* What a container's limit leaves, or INT64_MAX where there is none. File cache gives way. */
static int64_t left_by_limit(const char *limit_path, const char *used_path, const char *cache_path,
                             const char *cache_key) {
    const int64_t limit = read_number(limit_path, "");
    const int64_t used = read_number(used_path, "");
    const int64_t cache = read_number(cache_path, cache_key);
    if (limit < 0 || used < 0)
        return INT64_MAX;
    const int64_t held = cache > 0 && cache < used ? used - cache : used;
    return held < limit ? limit - held : 0;
}

int64_t ringside_available_bytes(void) {
    const int64_t kilobytes = read_number("/proc/meminfo", "MemAvailable:");
    const int64_t candidates[] = {
        kilobytes < 0 ? INT64_MAX : kilobytes * 1024,
        left_by_limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                      "/sys/fs/cgroup/memory.stat", "inactive_file "),
        left_by_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                      "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                      "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file "),
    };
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (candidates[i] < least)
            least = candidates[i];
    return least;
}

void *ringside_allocate(int64_t bytes) {
    enum { HUGE_PAGE = 2 << 20 };
    const size_t pages = ((size_t)bytes + HUGE_PAGE - 1) / HUGE_PAGE;
    const size_t room = (pages > 0 ? pages : 1) * HUGE_PAGE;
    void *memory = aligned_alloc(HUGE_PAGE, room);
#ifdef MADV_HUGEPAGE
    if (memory != NULL)
        madvise(memory, room, MADV_HUGEPAGE); /* a wish: without it all works, only slower */
#endif
    return memory;
}
