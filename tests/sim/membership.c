/* Thousands of jobs whose members agree, in virtual time, each drawn from its seed with its faults;
 * see membership/inside.h.
 *
 * Its words are those of seeds.h. Seeds 0 to 7 are no drawings but jobs written by hand. A seed
 * that fails is printed with what is wrong and with the smallest scenario that still fails;
 * --replay runs one seed with a log of its events. */
#include "sim/membership/inside.h"
#include "rig/haste.h"
#include "sim/seeds.h"

_Static_assert((int)FAULT_KINDS <= SEEDS_FAULTS, "a tally has room for each kind of fault");

enum { SHRUNK, GROWN, AGREED }; /* what a tally counts */

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

static void count(struct seeds_tally *mine, const struct world *world)
{
    mine->jobs++;
    mine->count[SHRUNK] += world->views > 0;
    mine->count[GROWN] += world->grown > 0;
    mine->count[AGREED] += world->views;
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        mine->played[kind] += world->played[kind];
}

static bool play(uint64_t seed, bool plain, struct seeds_tally *mine)
{
    static struct world world;
    struct scenario scenario;
    draw_scenario(&scenario, seed);
    const bool wrong = play_scenario(&scenario, NULL, &world);
    count(mine, &world);
    if (wrong)
        tell(&scenario, &world, plain);
    return !wrong;
}

static const char *name_of(int kind)
{
    return fault_name((enum fault_kind)kind);
}

int main(int argc, char **argv)
{
    const struct seeds_game game = {
        .words = {.seeds = in_haste() ? 100 : 2000, .jobs = 2},
        .count_name = {"of them agreed anew", "took newcomers in", "views"},
        .faults = FAULT_KINDS,
        .fault_name = name_of,
        .play = play,
        .replay = replay,
    };
    return seeds_main(&game, argc, argv);
}
