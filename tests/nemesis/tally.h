/* What a nemesis draws and what it counts. Everything follows from one seed, which is printed
 * first. */
#ifndef GYRE_TESTS_NEMESIS_TALLY_H
#define GYRE_TESTS_NEMESIS_TALLY_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TALLY_MOST = 1 << 20 };

struct tally {
    const char *what;
    int count;
    double ms[TALLY_MOST];
};

static inline void tally_add(struct tally *tally, double ms)
{
    if (tally->count < TALLY_MOST)
        tally->ms[tally->count++] = ms;
}

static inline int tally_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void tally_print(struct tally *tally)
{
    if (!tally->count)
        return;
    qsort(tally->ms, (size_t)tally->count, sizeof *tally->ms, tally_compare);
    printf("%s: %d, p50 %.0f ms, p99 %.0f ms, max %.0f ms\n", tally->what, tally->count,
           tally->ms[tally->count / 2], tally->ms[(int64_t)tally->count * 99 / 100],
           tally->ms[tally->count - 1]);
}

/* The number behind a word such as --seed; `otherwise` where the word is absent. */
static inline uint64_t tally_option(int argc, char **argv, const char *word, uint64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return strtoull(argv[i + 1], NULL, 0);
    return otherwise;
}

static inline uint64_t tally_seed(int argc, char **argv)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t seed =
        tally_option(argc, argv, "--seed", (uint64_t)now.tv_nsec ^ (uint64_t)now.tv_sec);
    printf("seed %llu (--seed %llu repeats the drawing)\n", (unsigned long long)seed,
           (unsigned long long)seed);
    fflush(stdout);
    return seed;
}

static inline void tally_pause(uint64_t ns)
{
    struct timespec time = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    nanosleep(&time, NULL);
}

#endif
