/* Plays a scenario and judges it.
 *
 *   safety     no wrong number; nothing written after a call has failed; nothing kept; what
 *              survivors tell blames one of the guilty; no fault, no failure. Words are not
 *              compared: ranks that held echoes of one fault may each tell their own
 *   liveness   every rank that lives ends within a bound of virtual time after the last fault */
#include "sim/hunt/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PATIENCE (3 * HUNT_LIMIT)
#define TURNS    4000000 /* events of one run, at most */

/* -- open -------------------------------------------------------------------------------------- */

static uint64_t bound_of(const struct hunt_scenario *is)
{
    uint64_t bound = HUNT_START + PATIENCE;
    for (uint32_t i = 0; i < is->faults; i++)
        bound += is->fault[i].at + is->fault[i].lasts;
    return bound;
}

/* Makes the lines of all pairs, so that no rank needs memory for one. */
static void make_lines(void)
{
    for (uint32_t a = 0; a < hunt.is->n; a++)
        for (uint32_t b = 0; b < a; b++)
            gyre_sim_world_block(hunt.world, a, b, false);
}

static void open_job(const struct hunt_scenario *is, FILE *log, struct hunt_outcome *outcome)
{
    struct gyre_sim_options options = {.seed = is->seed,
                                       .n = is->n + 1, /* the last is the conductor */
                                       .link = {.latency_ns = is->latency_ns,
                                                .jitter_ns = is->jitter_ns,
                                                .bytes_per_second = is->bytes_per_second,
                                                .piece_bytes = is->piece_bytes,
                                                .coalesce_ns = is->coalesce_ns},
                                       .window_bytes = is->window_bytes};
    hunt_memory_reset();
    hunt_events_reset();
    memset(&hunt, 0, sizeof hunt);
    memset(outcome, 0, sizeof *outcome);
    hunt.is = is;
    hunt.log = log;
    hunt.outcome = outcome;
    hunt.bound = bound_of(is);
    gyre_rng_seed(&hunt.rng, is->seed ^ 0x6875);
    setenv("GYRE_SLICE", is->slice, 1);
    setenv("GYRE_ALGO", is->algorithms, 1);
    if (gyre_sim_world_create(&options, &hunt.world))
        abort();
    for (uint32_t r = 0; r < is->n; r++) {
        hunt.member[r].node = r / is->per_node;
        hunt.member[r].large = is->large;
        hunt.member[r].pid = (int32_t)(1000 + r);
        snprintf(hunt.member[r].host, sizeof hunt.member[r].host, "host%u", r / is->per_node);
    }
    make_lines();
    for (uint32_t r = 0; r < is->n; r++)
        hunt_rank_open(r);
    for (uint32_t r = 0; r < is->n; r++)
        if (hunt_watch_open(&hunt.rank[r]))
            abort();
    hunt_faults_schedule();
}

/* -- time -------------------------------------------------------------------------------------- */

static bool some_live(void)
{
    for (uint32_t r = 0; r < hunt.is->n; r++)
        if (hunt.rank[r].life == HUNT_LIVES)
            return true;
    return false;
}

static void conduct(void)
{
    struct hunt_event event;
    while (hunt_take_event(gyre_now_ns(), &event))
        if (event.kind == HUNT_FAULT_BEGINS || event.kind == HUNT_FAULT_ENDS)
            hunt_fault_event(&event);
        else if (event.kind >= HUNT_LINK_DIAL && event.kind <= HUNT_LINK_ANSWER)
            hunt_links_handle(&event);
        else
            hunt_watch_handle(&event);
}

static void run(void)
{
    uint64_t turns = 0;
    while (some_live() && gyre_now_ns() < hunt.bound && !hunt.outcome->wrong) {
        int64_t r = gyre_sim_world_step(hunt.world);
        if (r < 0 || ++turns > TURNS)
            return;
        if (r == hunt.is->n)
            conduct();
        else
            hunt_rank_run(&hunt.rank[r]);
    }
}

/* -- verdict ----------------------------------------------------------------------------------- */

static void judge_life(const struct gyre_domain *rank)
{
    if (rank->life == HUNT_LIVES)
        hunt_wrong("rank %u has not ended %.3f s after the start", rank->rank,
                   (double)(gyre_now_ns() - HUNT_START) / 1e9);
}

/* The network that a rank has used is gone before. */
static void judge_memory(const struct gyre_domain *rank)
{
    uint64_t held = hunt_memory_held(rank->rank);
    if (rank->life == HUNT_ENDED && held)
        hunt_wrong("rank %u has ended, and %llu bytes of its memory are kept", rank->rank,
                   (unsigned long long)held);
}

/* Whether one of the ranks of which the story speaks is to blame. */
static bool names_guilty(const char *story, int status)
{
    while ((story = strstr(story, "rank ")))
        if (hunt_guilty((uint32_t)strtoul(story += strlen("rank "), NULL, 10), status))
            return true;
    return false;
}

/* A story names a rank that a fault has hit, or whose line a fault has hit. A mismatch is of two
 * ranks, of which the story speaks. */
static bool is_true_story(const struct gyre_domain *rank)
{
    const struct gyre_health *health = &rank->health;
    const uint32_t named = health->failed_rank;
    const int status = atomic_load(&health->status);
    if (named == HUNT_NOBODY || status == GYRE_MISMATCH)
        return names_guilty(health->failure.text, status);
    return hunt_guilty(named, status) ||
           (status == GYRE_PEER_LOST && rank->blames_ended && hunt_excuses_end(named));
}

static void judge_story(const struct gyre_domain *rank)
{
    const struct gyre_health *health = &rank->health;
    if (!atomic_load(&health->status) || rank->life != HUNT_ENDED)
        return;
    hunt.outcome->failed++;
    if (!is_true_story(rank))
        hunt_wrong("rank %u blames the innocent: \"%s\"", rank->rank, health->failure.text);
}

/* Whether rank 0 decided for all. It had not left before the failure and could be reached, and
 * nobody told altered bytes, for which no rank waits to be judged, beside another failure. Through
 * a rank that a second fault has stopped, rank 0 is not heard, and may have ended before it is
 * asked. */
static bool root_decided(void)
{
    const bool one = hunt_guilty_faults() < 2;
    bool altered = false;
    if (!atomic_load(&hunt.rank[0].health.status))
        return false;
    for (uint32_t i = 0; i < hunt.is->faults; i++) {
        const struct hunt_fault *fault = &hunt.is->fault[i];
        if (!fault->a || !fault->b || fault->kind == HUNT_SPLIT)
            return false;
        if (hunt_cuts_the_tree(fault))
            return false;
        altered |= fault->kind == HUNT_CORRUPT;
    }
    return !altered || one;
}

/* Whether a rank told of its own lack of memory, for which it waits for no judgement. */
static bool fails_of_itself(const struct gyre_domain *rank)
{
    return rank->health.failed_rank == rank->rank && atomic_load(&rank->health.status) == -ENOMEM;
}

/* The survivors tell one story in the same words. */
static void judge_words(void)
{
    const struct gyre_domain *first = NULL;
    if (!root_decided())
        return;
    for (uint32_t r = 0; r < hunt.is->n; r++) {
        const struct gyre_domain *rank = &hunt.rank[r];
        if (!atomic_load(&rank->health.status) || rank->life != HUNT_ENDED || fails_of_itself(rank))
            continue;
        if (!first)
            first = rank;
        else if (strcmp(first->health.failure.text, rank->health.failure.text) != 0)
            hunt_wrong("rank %u tells \"%s\", rank %u \"%s\"", first->rank,
                       first->health.failure.text, r, rank->health.failure.text);
    }
}

static void judge(void)
{
    judge_words();
    for (uint32_t r = 0; r < hunt.is->n && !hunt.outcome->wrong; r++) {
        judge_story(&hunt.rank[r]);
        judge_life(&hunt.rank[r]);
        hunt_program_check(&hunt.rank[r]);
    }
}

/* -- all of it -------------------------------------------------------------------------------- */

static void close_job(void)
{
    for (uint32_t r = 0; r < hunt.is->n; r++)
        hunt_watch_close(&hunt.rank[r]);
    gyre_sim_world_destroy(hunt.world);
    hunt.world = NULL;
    for (uint32_t r = 0; r < hunt.is->n; r++)
        judge_memory(&hunt.rank[r]);
}

void hunt_play(const struct hunt_scenario *scenario, FILE *log, struct hunt_outcome *outcome)
{
    open_job(scenario, log, outcome);
    run();
    hunt_faults_count();
    judge();
    outcome->virtual_ns = gyre_now_ns() - HUNT_START;
    outcome->events = gyre_sim_world_events(hunt.world);
    outcome->hash = gyre_mix64(hunt.hash ^ gyre_sim_world_trace(hunt.world));
    close_job();
}
