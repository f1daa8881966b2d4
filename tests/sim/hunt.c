/* The hunt: thousands of jobs in virtual time, each with calls and faults drawn from its seed; see
 * hunt/hunt.h.
 *
 *     sim_hunt [--seeds N] [--seed FIRST] [--replay SEED] [--jobs N] [--plain]
 *
 * Without words some hundred seeds, for the suite; among them 640 and 703, in which the price of an
 * algorithm lacked memory. A seed that fails is printed with what is wrong and with the smallest
 * scenario that still fails; --replay runs one seed twice, with a log of its events, and
 * --plain prints no smaller scenario. The last lines count what was played: from 800 seeds on every
 * kind of fault has to be among it. Exit: 0: nothing is wrong. */
#include "sim/hunt/hunt.h"
#include "rig/haste.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Seeds in which a defect was found, beyond those that the suite plays anyway. */
static const uint64_t found[] = {
    983,   /* an all_to_all_v ended unnoticed, and its rank, which computed, seemed to wait in it */
    28729, /* who receives from any rank was not told of a broken link */
    264737, /* a message that came with its sender's goodbye was lost with the connection */
    147563, /* of several peers, any was named for the one that had left */
};

struct words {
    uint64_t seeds, first, jobs;
    bool plain;
};

/* What the shares have played, in memory of all. */
static struct tally {
    uint64_t jobs, failed, faulty, played[HUNT_FAULT_KINDS];
} * tally;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void tell(struct hunt_scenario *scenario, struct hunt_outcome *outcome, bool plain)
{
    printf("seed %llu: %s\n", (unsigned long long)scenario->seed, outcome->text);
    if (!plain) {
        hunt_shrink(scenario, outcome);
        printf("the smallest scenario that fails: %s\n", outcome->text);
    }
    hunt_print(scenario, stdout);
    printf("again, with its events: ./do simulate --replay %llu\n",
           (unsigned long long)scenario->seed);
    fflush(stdout);
}

/* Twice, with a log the first time: the same events. */
static int replay(uint64_t seed)
{
    struct hunt_scenario scenario;
    struct hunt_outcome one, two;
    printf("seed %llu\n", (unsigned long long)seed);
    hunt_draw(&scenario, seed);
    hunt_print(&scenario, stdout);
    hunt_play(&scenario, stdout, &one);
    hunt_play(&scenario, NULL, &two);
    printf("%llu events, %.3f ms of virtual time, hash %016llx, again %016llx\n",
           (unsigned long long)one.events, (double)one.virtual_ns / 1e6,
           (unsigned long long)one.hash, (unsigned long long)two.hash);
    if (one.hash != two.hash)
        printf("WRONG: two runs of one seed differ\n");
    if (one.wrong)
        tell(&scenario, &one, false);
    return one.wrong || one.hash != two.hash;
}

static volatile uint64_t playing; /* the seed */

static void fall(int signal_number)
{
    char text[64];
    int length = snprintf(text, sizeof text, "seed %llu: ended by signal %d\n",
                          (unsigned long long)playing, signal_number);
    if (write(STDOUT_FILENO, text, (size_t)length) < 0)
        _exit(4);
    _exit(3);
}

static void count(struct tally *mine, const struct hunt_outcome *outcome)
{
    uint32_t faults = 0;
    for (int kind = 0; kind < HUNT_FAULT_KINDS; kind++) {
        mine->played[kind] += outcome->played[kind];
        faults += outcome->played[kind];
    }
    mine->jobs++;
    mine->faulty += faults > 0;
    mine->failed += outcome->failed > 0;
}

/* Every `jobs`-th seed. Each hundredth runs twice. */
static int run_share(const struct words *words, uint64_t share)
{
    struct hunt_scenario scenario;
    struct hunt_outcome outcome, again;
    signal(SIGSEGV, fall);
    signal(SIGABRT, fall);
    for (uint64_t i = share; i < words->seeds; i += words->jobs) {
        playing = words->first + i;
        hunt_draw(&scenario, playing);
        hunt_play(&scenario, NULL, &outcome);
        count(&tally[share], &outcome);
        if (!outcome.wrong && i / words->jobs % 100 == 0) {
            hunt_play(&scenario, NULL, &again);
            outcome.wrong = again.hash != outcome.hash;
            snprintf(outcome.text, sizeof outcome.text, "two runs of one seed differ");
        }
        if (outcome.wrong) {
            tell(&scenario, &outcome, words->plain);
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
        all.failed += one->failed;
        all.faulty += one->faulty;
        for (int kind = 0; kind < HUNT_FAULT_KINDS; kind++)
            all.played[kind] += one->played[kind];
    }
    return all;
}

/* False: of many seeds none played a fault of some kind. */
static bool print_tally(const struct words *words)
{
    const struct tally all = add_up(words->jobs);
    bool complete = true;
    printf("%llu jobs, %llu with faults, %llu were told of a failure; played:",
           (unsigned long long)all.jobs, (unsigned long long)all.faulty,
           (unsigned long long)all.failed);
    for (int kind = 0; kind < HUNT_FAULT_KINDS; kind++) {
        printf("%s %llu %s", kind ? "," : "", (unsigned long long)all.played[kind],
               hunt_fault_name((enum hunt_fault_kind)kind));
        complete &= all.played[kind] > 0;
    }
    printf("\n");
    if (!complete && words->seeds >= 800)
        printf("WRONG: a kind of fault was never played\n");
    return complete || words->seeds < 800;
}

static int run_seeds(const struct words *words)
{
    double begun = seconds();
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
    printf("%llu seeds in %.1f s: %s\n", (unsigned long long)words->seeds, seconds() - begun,
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

int main(int argc, char **argv)
{
    struct words words = {.seeds = in_haste() ? 60 : 800, .first = 1, .jobs = 2};
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
    int wrong = run_seeds(&words);
    for (size_t i = 0; argc == 1 && i < sizeof found / sizeof *found; i++)
        wrong |= run_seeds(&(struct words){.seeds = 1, .first = found[i], .jobs = 1});
    return wrong;
}
