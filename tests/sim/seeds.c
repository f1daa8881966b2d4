#include "sim/seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* So many seeds play every kind of fault. */
#define MANY 800

/* Every `jobs`-th seed. */
static int run_share(const struct seeds_game *game, const struct seeds_words *words, uint64_t share,
                     struct seeds_tally *mine)
{
    for (uint64_t i = share; i < words->seeds; i += words->jobs)
        if (!game->play(words->first + i, words->plain, mine))
            return 1;
    return 0;
}

static struct seeds_tally add_up(const struct seeds_tally *tally, uint64_t shares)
{
    struct seeds_tally all = {0};
    for (const struct seeds_tally *one = tally; one < tally + shares; one++) {
        all.jobs += one->jobs;
        for (int i = 0; i < SEEDS_COUNTS; i++)
            all.count[i] += one->count[i];
        for (int i = 0; i < SEEDS_FAULTS; i++)
            all.played[i] += one->played[i];
    }
    return all;
}

/* False: of many seeds none played a fault of some kind. */
static bool print_tally(const struct seeds_game *game, const struct seeds_tally *all)
{
    bool complete = true;
    printf("%llu jobs", (unsigned long long)all->jobs);
    for (int i = 0; i < SEEDS_COUNTS && game->count_name[i]; i++)
        printf(", %llu %s", (unsigned long long)all->count[i], game->count_name[i]);
    for (int kind = 0; kind < game->faults; kind++) {
        printf("%s %llu %s", kind ? "," : "; played:", (unsigned long long)all->played[kind],
               game->fault_name(kind));
        complete &= all->played[kind] > 0;
    }
    printf("\n");
    if (!complete && all->jobs >= MANY)
        printf("WRONG: a kind of fault was never played\n");
    return complete || all->jobs < MANY;
}

/* The machine's clock: a game has one of its own behind gyre_now_ns(). */
static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int seeds_run(const struct seeds_game *game, const struct seeds_words *words)
{
    const double begun = seconds_now();
    int status, wrong = 0;
    printf("seeds %llu to %llu\n", (unsigned long long)words->first,
           (unsigned long long)(words->first + words->seeds - 1));
    fflush(stdout);
    struct seeds_tally *tally = mmap(NULL, words->jobs * sizeof *tally, PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED)
        return 1;
    for (uint64_t share = 0; share < words->jobs; share++)
        if (fork() == 0)
            _exit(run_share(game, words, share, &tally[share]));
    while (wait(&status) > 0)
        wrong += !WIFEXITED(status) || WEXITSTATUS(status);
    const struct seeds_tally all = add_up(tally, words->jobs);
    munmap(tally, words->jobs * sizeof *tally);
    wrong += !print_tally(game, &all) && !wrong;
    printf("%llu seeds in %.1f s: %s\n", (unsigned long long)words->seeds, seconds_now() - begun,
           wrong ? "WRONG" : "nothing wrong");
    return wrong != 0;
}

static uint64_t number_after(int argc, char **argv, int *at)
{
    char *end;
    if (*at + 1 >= argc) {
        fprintf(stderr, "%s: %s needs a number\n", argv[0], argv[*at]);
        exit(2);
    }
    uint64_t number = strtoull(argv[++*at], &end, 10);
    if (*end) {
        fprintf(stderr, "%s: \"%s\" is no number\n", argv[0], argv[*at]);
        exit(2);
    }
    return number;
}

int seeds_main(const struct seeds_game *game, int argc, char **argv)
{
    struct seeds_words words = game->words;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seeds")) {
            words.seeds = number_after(argc, argv, &i);
        } else if (!strcmp(argv[i], "--seed")) {
            words.first = number_after(argc, argv, &i);
        } else if (!strcmp(argv[i], "--jobs")) {
            words.jobs = number_after(argc, argv, &i);
        } else if (!strcmp(argv[i], "--plain")) {
            words.plain = true;
        } else if (!strcmp(argv[i], "--replay")) {
            return game->replay(number_after(argc, argv, &i));
        } else {
            fprintf(stderr,
                    "%s: unknown word \"%s\"; there are: --seeds N, --seed FIRST, "
                    "--replay SEED, --jobs N, --plain\n",
                    argv[0], argv[i]);
            return 2;
        }
    }
    return seeds_run(game, &words);
}
