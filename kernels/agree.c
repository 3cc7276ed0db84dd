/* What every kernel does before its exchange: all ranks go on, or all leave with the same error. */
#include "ringside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number after `key` at the start of a line of the file, or -1 where there is none. */
static int64_t read_number(const char *path, const char *key)
{
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
                             const char *cache_key)
{
    const int64_t limit = read_number(limit_path, "");
    const int64_t used = read_number(used_path, "");
    const int64_t cache = read_number(cache_path, cache_key);
    if (limit < 0 || used < 0)
        return INT64_MAX;
    const int64_t held = cache > 0 && cache < used ? used - cache : used;
    return held < limit ? limit - held : 0;
}

int64_t ringside_available_bytes(void)
{
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

/* Whether `ranks` times `bytes` leaves a tenth of what is available. */
static int fits(int64_t bytes, int64_t available)
{
    return bytes <= available - available / 10;
}

/* The exact count, for when it is close: what the ranks of each node ask for together. */
static int agree_on_memory(MPI_Comm comm, int64_t bytes, int64_t available)
{
    MPI_Comm node = MPI_COMM_NULL;
    int64_t together = 0;
    TRY(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    TRY(MPI_Allreduce(&bytes, &together, 1, MPI_INT64_T, MPI_SUM, node));
    TRY(MPI_Comm_free(&node));

    int all_fit = fits(together, available);
    TRY(MPI_Allreduce(MPI_IN_PLACE, &all_fit, 1, MPI_INT, MPI_MIN, comm));
    return all_fit ? MPI_SUCCESS : RINGSIDE_NO_MEMORY;
}

int ringside_agree(MPI_Comm comm, int own, int64_t bytes,
                   const int64_t arguments[RINGSIDE_ARGUMENTS])
{
    int size;
    TRY(MPI_Comm_size(comm, &size));

    /* One reduction tells the worst error, whether memory is ample even if all ranks share this
     * node, and the least and (complemented) the greatest of each argument. */
    const int64_t available = ringside_available_bytes();
    const int ample = fits(bytes, available / size);
    int64_t least[2 + 2 * RINGSIDE_ARGUMENTS] = {own, ample};
    for (int i = 0; i < RINGSIDE_ARGUMENTS; i++) {
        least[2 + 2 * i] = arguments[i];
        least[3 + 2 * i] = ~arguments[i]; /* falls as the argument grows, and cannot overflow */
    }
    TRY(MPI_Allreduce(MPI_IN_PLACE, least, 2 + 2 * RINGSIDE_ARGUMENTS, MPI_INT64_T, MPI_MIN, comm));

    if (least[0] != MPI_SUCCESS)
        return (int)least[0];
    for (int i = 0; i < RINGSIDE_ARGUMENTS; i++)
        if (least[2 + 2 * i] != ~least[3 + 2 * i])
            return RINGSIDE_ARGUMENTS_DIFFER;
    return least[1] ? MPI_SUCCESS : agree_on_memory(comm, bytes, available);
}
