/* The one small main of every kernel: reads the command line, runs the kernel, prints CSV, or the
 * table of all variants (table.c) where the kernel has one and no variant is named.
 * Compiled once a kernel with -DKERNEL=<its name>, as bin/<its name>.
 *
 * Exit status: 0 done, 1 wrong data arrived, 2 the command line cannot be carried out.
 * An error from MPI itself ends all ranks by MPI_Abort, with status 3. */
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define NAME TEXT(KERNEL)

static const struct ringside_kernel *const kernel = &GLUE(ringside_, KERNEL);

enum { DONE = 0, WRONG_DATA = 1, BAD_INPUT = 2, MPI_FAILED = 3 };

struct options {
    const char *variant, *source;
    long long count, reps, warmup, ranks;
    int64_t settings[RINGSIDE_MAX_SETTINGS];
    int help;
};

static void must(int code, const char *what) {
    if (code == MPI_SUCCESS)
        return;
    int rank = -1, length = 0;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Error_string(code, text, &length);
    fprintf(stderr, NAME ": rank %d: %s failed: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, MPI_FAILED);
    exit(MPI_FAILED);
}

static void print_variants(FILE *out) {
    fprintf(out, "variants:");
    for (int i = 0; ringside_variant(kernel, i) != NULL; i++)
        fprintf(out, " %s", ringside_variant(kernel, i));
    fprintf(out, "\n");
}

static void print_help(void) {
    printf("mpiexec -n RANKS " NAME " --variant NAME [--%s N] [--reps N] [--warmup N]\n"
           "                [--source mpiexec|slurm|simulated]\n\n"
           "  --variant   how the exchange is done (see below)\n"
           "  --%-9s message length, in %s (%" PRId64 "; at most %" PRId64 ")\n"
           "  --reps      timed and verified repetitions (10)\n"
           "  --warmup    repetitions before these, verified but not printed (1)\n"
           "  --source    what the column `source` says (mpiexec)\n"
           "  --ranks     how many were begun: refused where they do not know of each other\n",
           kernel->unit, kernel->unit, kernel->unit, kernel->default_count, kernel->maximum_count);
    for (const struct ringside_setting *s = kernel->settings; s->name != NULL; s++)
        printf("  --%-9s %s (%" PRId64 ")\n", s->name, s->meaning, s->default_value);
    if (kernel->halos > 0)
        printf("\nWithout --variant: a table of all variants, three runs each, with as many\n"
               "repetitions as make a variant take about a second, or --reps.\n");
    printf("\nPrints one line of CSV per repetition; seconds is the time of the slowest rank,\n"
           "mean_seconds the mean over the ranks that took part.\n\n");
    print_variants(stdout);
}

/* A whole number from low to high, or an explanation in why. */
static int read_count(const char *option, const char *text, long long low, long long high,
                      long long *value, char *why, size_t room) {
    char *end;
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        snprintf(why, room, "%s takes a whole number, not \"%s\"", option, text);
        return 0;
    }
    if (errno == ERANGE || *value < low || *value > high) {
        snprintf(why, room, "%s %s is out of range: choose from %lld to %lld", option, text, low,
                 high);
        return 0;
    }
    return 1;
}

/* One option with its value; 0 and an explanation in why if there is no such thing. */
static int read_option(const char *option, const char *value, struct options *options, char *why,
                       size_t room) {
    const char *name = strncmp(option, "--", 2) == 0 ? option + 2 : "";
    long long setting;
    if (strcmp(name, "variant") == 0) {
        options->variant = value;
        return 1;
    }
    if (strcmp(name, "source") == 0) {
        options->source = value;
        return 1;
    }
    if (strcmp(name, kernel->unit) == 0)
        return read_count(option, value, 0, kernel->maximum_count, &options->count, why, room);
    if (strcmp(name, "reps") == 0)
        return read_count(option, value, 1, RINGSIDE_MAX_REPETITIONS / 2, &options->reps, why,
                          room);
    if (strcmp(name, "warmup") == 0)
        return read_count(option, value, 0, RINGSIDE_MAX_REPETITIONS / 2, &options->warmup, why,
                          room);
    if (strcmp(name, "ranks") == 0)
        return read_count(option, value, 1, INT_MAX, &options->ranks, why, room);
    for (int i = 0; kernel->settings[i].name != NULL; i++) {
        const struct ringside_setting *s = &kernel->settings[i];
        if (strcmp(name, s->name) != 0)
            continue;
        if (!read_count(option, value, s->minimum, s->maximum, &setting, why, room))
            return 0;
        options->settings[i] = setting;
        return 1;
    }
    snprintf(why, room, "unknown option \"%s\"", option);
    return 0;
}

/* Every rank reads the same command line, so every rank comes to the same result. */
static int read_options(int argc, char **argv, struct options *options, char *why, size_t room) {
    for (int i = 0; kernel->settings[i].name != NULL; i++)
        options->settings[i] = kernel->settings[i].default_value;
    for (int i = 1; i < argc; i += 2) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            options->help = 1;
            return 1;
        }
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!read_option(argv[i], value, options, why, room)) {
            if (i + 1 == argc && strncmp(why, "unknown", 7) != 0)
                snprintf(why, room, "%s needs a value", argv[i]);
            return 0;
        }
        if (i + 1 == argc) {
            snprintf(why, room, "%s needs a value", argv[i]);
            return 0;
        }
    }
    if (options->variant == NULL && kernel->halos == 0) {
        snprintf(why, room, "--variant is missing");
        return 0;
    }
    if (options->variant != NULL && ringside_find(kernel, options->variant) < 0) {
        snprintf(why, room, "no variant \"%s\"", options->variant);
        return 0;
    }
    if (strcmp(options->source, "mpiexec") != 0 && strcmp(options->source, "slurm") != 0 &&
        strcmp(options->source, "simulated") != 0) {
        snprintf(why, room, "--source is mpiexec, slurm or simulated, not \"%s\"",
                 options->source);
        return 0;
    }
    return 1;
}

static int count_nodes(void) {
    MPI_Comm node = MPI_COMM_NULL;
    int rank = 0, nodes = 0;
    must(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
         "counting nodes");
    must(MPI_Comm_rank(node, &rank), "counting nodes");
    const int first = rank == 0;
    must(MPI_Comm_free(&node), "counting nodes");
    must(MPI_Allreduce(&first, &nodes, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), "counting nodes");
    return nodes;
}

/* Rank 0 says how much was wrong on each rank, as mpiexec may lose or mix what the others say in
 * their last moments. The same result on all ranks: whether anything was. */
static int tell_wrong(int64_t wrong, int rank, const struct options *options) {
    const long long of = options->count * (kernel->halos > 0 ? kernel->halos : 1) *
                         (options->reps + options->warmup);
    int size = 0, any = 0;
    must(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    int64_t *each = malloc((size_t)size * sizeof *each);
    must(each == NULL ? MPI_ERR_NO_MEM : MPI_SUCCESS, "verifying");
    must(MPI_Allgather(&wrong, 1, MPI_INT64_T, each, 1, MPI_INT64_T, MPI_COMM_WORLD), "verifying");
    for (int r = 0; r < size; r++) {
        any = any || each[r] > 0;
        if (each[r] > 0 && rank == 0)
            fprintf(stderr, NAME ": rank %d: variant %s: %" PRId64 " of %lld elements were wrong\n",
                    r, options->variant, each[r], of);
    }
    free(each);
    return any;
}

/* Turns the kernel's code into an exit status, the same on all ranks, and says why. */
static int explain(int code, int64_t wrong, int rank, const struct options *options) {
    must(code > MPI_SUCCESS ? code : MPI_SUCCESS, "the exchange");
    const char *why = code == RINGSIDE_UNSUITABLE
                          ? ringside_why(kernel, MPI_COMM_WORLD, options->variant)
                          : NULL;
    if (why != NULL && rank == 0)
        fprintf(stderr, NAME ": variant %s is not possible here: %s\n", options->variant, why);
    const double gigabytes = 1e-9 * (double)(options->count * kernel->unit_bytes);
    if (code == RINGSIDE_NO_MEMORY && rank == 0)
        fprintf(stderr,
                NAME ": not enough memory: %lld %s need %.1f GB on each rank, and this node "
                     "has %.1f GB left for all its ranks. Choose fewer %s or fewer ranks.\n",
                options->count, kernel->unit, gigabytes * kernel->messages,
                1e-9 * (double)ringside_available_bytes(), kernel->unit);
    else if (code == RINGSIDE_BAD_RANKS && rank == 0)
        fprintf(stderr, NAME ": needs at least %d ranks: mpiexec -n %d\n",
                kernel->minimum_ranks, kernel->minimum_ranks);
    else if (code == RINGSIDE_BAD_SETTING && rank == 0)
        fprintf(stderr, NAME ": a setting does not suit this number of ranks (--help explains)\n");
    else if (code < 0 && code != RINGSIDE_WRONG_DATA && why == NULL && rank == 0)
        fprintf(stderr, NAME ": the ranks were not given the same command line (code %d)\n", code);
    if (code < 0 && code != RINGSIDE_WRONG_DATA)
        return BAD_INPUT;

    return tell_wrong(wrong, rank, options) ? WRONG_DATA : DONE;
}

/* Rank 0 prints the times of all: `seconds` are this rank's, `spare` has as much room. */
static void print_times(int rank, double *seconds, double *spare, const struct options *options) {
    const int total = (int)(options->warmup + options->reps);
    const int took_part = seconds[0] > 0;
    const int nodes = count_nodes();
    int size = 0, parts = 0;
    must(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    must(MPI_Reduce(&took_part, &parts, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD),
         "collecting the times");
    must(MPI_Reduce(seconds, spare, total, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD),
         "collecting the times");
    must(MPI_Reduce(rank == 0 ? MPI_IN_PLACE : seconds, seconds, total, MPI_DOUBLE, MPI_MAX, 0,
                    MPI_COMM_WORLD),
         "collecting the times");
    if (rank == 0)
        printf("source,kernel,variant,ranks,nodes,bytes,repetition,seconds,mean_seconds\n");
    for (int i = (int)options->warmup; rank == 0 && i < total; i++)
        printf("%s," NAME ",%s,%d,%d,%lld,%lld,%.9f,%.9f\n", options->source, options->variant,
               size, nodes, options->count * (long long)kernel->unit_bytes, i + 1 - options->warmup,
               seconds[i], spare[i] / (parts > 0 ? parts : 1));
}

static int run(int rank, const struct options *options) {
    const int total = (int)(options->warmup + options->reps);
    double *seconds = malloc(2 * (size_t)total * sizeof *seconds);
    int64_t wrong = 0;
    const int code = ringside_run(kernel, MPI_COMM_WORLD, options->variant, options->count,
                                  options->settings, total, seconds, &wrong);
    const int status = explain(code, wrong, rank, options);
    if (status == DONE)
        print_times(rank, seconds, seconds + total, options);
    free(seconds);
    return status;
}

int main(int argc, char **argv) {
    struct options options = {.source = "mpiexec", .count = kernel->default_count, .warmup = 1};
    char why[512] = "";
    int rank = 0, size = 0, status = DONE;
    must(MPI_Init(&argc, &argv), "MPI_Init");
    must(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");

    if (!read_options(argc, argv, &options, why, sizeof why)) {
        status = BAD_INPUT;
        if (rank == 0) {
            fprintf(stderr, NAME ": %s (--help explains)\n", why);
            print_variants(stderr);
        }
    } else if (options.help) {
        if (rank == 0)
            print_help();
    } else if (options.ranks > 0 && options.ranks != size) {
        status = BAD_INPUT;
        if (rank == 0)
            fprintf(stderr,
                    NAME ": %lld ranks were begun, and this one was told that it is one of %d: the "
                         "command that begins them (mpiexec, srun --mpi=...) and the MPI library do "
                         "not belong together\n",
                    options.ranks, size);
    } else if (options.variant == NULL) {
        must(print_table(kernel, options.count, options.settings, (int)options.reps, &status),
             "the exchange");
    } else {
        options.reps = options.reps > 0 ? options.reps : 10;
        status = run(rank, &options);
    }
    fflush(stdout);
    if (MPI_Finalize() != MPI_SUCCESS && status == DONE) {
        fprintf(stderr, NAME ": MPI_Finalize failed, probably over messages never received\n");
        status = MPI_FAILED;
    }
    return status;
}
