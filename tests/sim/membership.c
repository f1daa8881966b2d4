/* Thousands of jobs whose members agree, in virtual time, each drawn from its seed with its faults;
 * see membership/inside.h.
 *
 *     sim_membership [--seeds N] [--seed FIRST] [--replay SEED] [--jobs N] [--plain]
 *
 * Seeds 0 to 7 are no drawings but jobs written by hand. A seed that fails is printed with what is
 * wrong and with the smallest scenario that still fails; --replay runs one seed with a log of its
 * events, and --plain prints no smaller scenario. The last lines count what was played: from 800
 * seeds on every kind of fault has to be among it. Exit: 0: nothing is wrong. */
#include "sim/membership/inside.h"
#include "rig/haste.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct words {
    uint64_t seeds, first, jobs;
    bool plain;
};

/* What the shares have played, in memory of all. */
static struct tally {
    uint64_t jobs, views, shrunk, grown, played[FAULT_KINDS];
} * tally;

static void tell(struct scenario *scenario, struct world *world, bool plain)
{
    char wrong[256];
    printf("seed %llu: %s\n", (unsigned long long)scenario->seed, world->wrong);
    if (!plain) {
        memcpy(wrong, world->wrong, sizeof wrong);
        shorten_scenario(scenario, wrong);
        printf("the smallest scenario that fails: %s\n", wrong);
    }
    print_scenario(scenario, stdout);
    printf("again, with its events: ./do simulate --members --replay %llu\n",
           (unsigned long long)scenario->seed);
    fflush(stdout);
}

static int replay(uint64_t seed)
{
    static struct world world;
    struct scenario scenario;
    printf("seed %llu\n", (unsigned long long)seed);
    draw_scenario(&scenario, seed);
    print_scenario(&scenario, stdout);
    bool wrong = play_scenario(&scenario, stdout, &world);
    if (wrong)
        tell(&scenario, &world, false);
    return wrong;
}

static void count(struct tally *mine, const struct world *world)
{
    mine->jobs++;
    mine->views += world->views;
    mine->shrunk += world->views > 0;
    mine->grown += world->grown > 0;
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        mine->played[kind] += world->played[kind];
}

/* Every `jobs`-th seed. */
static int run_share(const struct words *words, uint64_t share)
{
    static struct world world;
    struct scenario scenario;
    for (uint64_t i = share; i < words->seeds; i += words->jobs) {
        draw_scenario(&scenario, words->first + i);
        bool wrong = play_scenario(&scenario, NULL, &world);
        count(&tally[share], &world);
        if (wrong) {
            tell(&scenario, &world, words->plain);
            return 1;
        }
    }
    return 0;
}

static struct tally add_up(uint64_t shares)
{
    struct tally all = {0};
    for (const struct tally *one = tally; one < tally + shares; one++) {
        all.jobs += one->jobs;
        all.views += one->views;
        all.shrunk += one->shrunk;
        all.grown += one->grown;
        for (int kind = 0; kind < FAULT_KINDS; kind++)
            all.played[kind] += one->played[kind];
    }
    return all;
}

/* False: of many seeds none played a fault of some kind. */
static bool print_tally(const struct words *words)
{
    const struct tally all = add_up(words->jobs);
    bool complete = true;
    printf("%llu jobs, %llu of them agreed anew, %llu took newcomers in, %llu views; played:",
           (unsigned long long)all.jobs, (unsigned long long)all.shrunk,
           (unsigned long long)all.grown, (unsigned long long)all.views);
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        printf("%s %llu %s", kind ? "," : "", (unsigned long long)all.played[kind],
               fault_name((enum fault_kind)kind));
        complete &= all.played[kind] > 0;
    }
    printf("\n");
    if (!complete && words->seeds >= 800)
        printf("WRONG: a kind of fault was never played\n");
    return complete || words->seeds < 800;
}

static int run_seeds(const struct words *words)
{
    uint64_t begun = gyre_now_ns();
    int status, wrong = 0;
    printf("seeds %llu to %llu\n", (unsigned long long)words->first,
           (unsigned long long)(words->first + words->seeds - 1));
    fflush(stdout);
    tally = mmap(NULL, words->jobs * sizeof *tally, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (tally == MAP_FAILED)
        return 1;
    for (uint64_t share = 0; share < words->jobs; share++)
        if (fork() == 0)
            _exit(run_share(words, share));
    while (wait(&status) > 0)
        wrong += !WIFEXITED(status) || WEXITSTATUS(status);
    wrong += !print_tally(words) && !wrong;
    munmap(tally, words->jobs * sizeof *tally);
    printf("%llu seeds in %.1f s: %s\n", (unsigned long long)words->seeds,
           (double)(gyre_now_ns() - begun) / 1e9, wrong ? "WRONG" : "nothing wrong");
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

int main(int argc, char **argv)
{
    struct words words = {.seeds = in_haste() ? 100 : 2000, .jobs = 2};
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
            return replay(number_after(argc, argv, &i));
        } else {
            fprintf(stderr,
                    "%s: unknown word \"%s\"; there are: --seeds N, --seed FIRST, "
                    "--replay SEED, --jobs N, --plain\n",
                    argv[0], argv[i]);
            return 2;
        }
    }
    return run_seeds(&words);
}
