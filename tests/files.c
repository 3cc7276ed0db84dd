/* Stands before fopen: the files below the folder FILES take the place of the system's. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

FILE *fopen(const char *path, const char *mode) {
    FILE *(*const really)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
    char instead[4096];
    snprintf(instead, sizeof instead, "%s%s", getenv("FILES"), path);
    FILE *const file = really(instead, mode);
    return file != NULL ? file : really(path, mode);
}
