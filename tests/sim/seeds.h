/* A program that plays seeds: its words, the processes that share the seeds, and what was played.
 *
 *     PROGRAM [--seeds N] [--seed FIRST] [--replay SEED] [--jobs N] [--plain]
 *
 * Prints the seeds first. From 800 seeds on every kind of fault has to be among what was played. */
#ifndef GYRE_TESTS_SIM_SEEDS_H
#define GYRE_TESTS_SIM_SEEDS_H

#include <stdbool.h>
#include <stdint.h>

#define SEEDS_COUNTS 4
#define SEEDS_FAULTS 32

struct seeds_tally {
    uint64_t jobs, count[SEEDS_COUNTS], played[SEEDS_FAULTS];
};

struct seeds_words {
    uint64_t seeds, first, jobs;
    bool plain; /* print no smaller scenario of a seed that fails */
};

struct seeds_game {
    struct seeds_words words;             /* where the command line says nothing */
    const char *count_name[SEEDS_COUNTS]; /* NULL behind the last */
    int faults;                           /* kinds of faults, at most SEEDS_FAULTS */
    const char *(*fault_name)(int kind);
    bool (*play)(uint64_t seed, bool plain, struct seeds_tally *mine); /* false: wrong, and said */
    int (*replay)(uint64_t seed);                                      /* an exit code */
};

/* Plays seeds. 0: nothing is wrong. */
int seeds_run(const struct seeds_game *game, const struct seeds_words *words);

/* What main() is. 0: nothing is wrong, 1: a seed failed, 2: a word is unknown. */
int seeds_main(const struct seeds_game *game, int argc, char **argv);

#endif
