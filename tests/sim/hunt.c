/* The hunt: thousands of jobs in virtual time, each with calls and faults drawn from its seed; see
 * hunt/hunt.h.
 *
 * Its words are those of seeds.h. Without words it plays some hundred seeds, for the suite; among
 * them 640 and 703, in which the price of an algorithm lacked memory. A seed that fails is printed
 * with what is wrong and with the smallest scenario that still fails; --replay runs one seed twice,
 * with a log of its events. */
#include "sim/hunt/hunt.h"
#include "rig/haste.h"
#include "sim/seeds.h"

#include <signal.h>
#include <unistd.h>

_Static_assert((int)HUNT_FAULT_KINDS <= SEEDS_FAULTS, "a tally has room for each kind of fault");

enum { FAULTY, FAILED }; /* what a tally counts */

/* Seeds in which a defect was found, beyond those that the suite plays anyway. */
static const uint64_t found[] = {
    983,   /* an all_to_all_v ended unnoticed, and its rank, which computed, seemed to wait in it */
    28729, /* who receives from any rank was not told of a broken link */
    264737,  /* a message that came with its sender's goodbye was lost with the connection */
    147563,  /* of several peers, any was named for the one that had left */
    2027379, /* who lacked memory for a link made at its first use blamed the peer */
    1044430, /* what a rank had said long ago passed for what it does now */
    1108729, 1165722, /* nobody called ranks below one that an echo had named */
    1641897,          /* that a rank was leaving came to rank 0 ahead of why: it had failed */
    1988757,          /* who received from any rank was told nothing after rank 0 had left */
    1934501,          /* who had stood still blamed the others, which had ended without it */
};

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

static void count(struct seeds_tally *mine, const struct hunt_outcome *outcome)
{
    uint32_t faults = 0;
    for (int kind = 0; kind < HUNT_FAULT_KINDS; kind++) {
        mine->played[kind] += outcome->played[kind];
        faults += outcome->played[kind];
    }
    mine->jobs++;
    mine->count[FAULTY] += faults > 0;
    mine->count[FAILED] += outcome->failed > 0;
}

/* Every hundredth seed is played twice. */
static bool play(uint64_t seed, bool plain, struct seeds_tally *mine)
{
    struct hunt_scenario scenario;
    struct hunt_outcome outcome, again;
    signal(SIGSEGV, fall);
    signal(SIGABRT, fall);
    playing = seed;
    hunt_draw(&scenario, seed);
    hunt_play(&scenario, NULL, &outcome);
    if (!outcome.wrong && mine->jobs % 100 == 0) {
        hunt_play(&scenario, NULL, &again);
        outcome.wrong = again.hash != outcome.hash;
        snprintf(outcome.text, sizeof outcome.text, "two runs of one seed differ");
    }
    count(mine, &outcome);
    if (outcome.wrong)
        tell(&scenario, &outcome, plain);
    return !outcome.wrong;
}

static const char *name_of(int kind)
{
    return hunt_fault_name((enum hunt_fault_kind)kind);
}

int main(int argc, char **argv)
{
    const struct seeds_game game = {
        .words = {.seeds = in_haste() ? 60 : 800, .first = 1, .jobs = 2},
        .count_name = {"with faults", "were told of a failure"},
        .faults = HUNT_FAULT_KINDS,
        .fault_name = name_of,
        .play = play,
        .replay = replay,
    };
    int wrong = seeds_main(&game, argc, argv);
    for (size_t i = 0; argc == 1 && i < sizeof found / sizeof *found; i++)
        wrong |= seeds_run(&game, &(struct seeds_words){.seeds = 1, .first = found[i], .jobs = 1});
    return wrong;
}
