/* Finds who slows a job down that runs: calls that all ranks have made are compared.
 *
 *     rank 0   called ·································· ended     rank 1 came late by this much:
 *     rank 1               called ······················ ended     it computes, or lacks a core
 *     rank 2    called ································· ended
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/pace.h"

#include <stdlib.h>

#define CALLS_LEAST    8
#define CALLS_MOST     512
#define LAST_SHARE     0.25 /* of the calls, to which who is called late came last */
#define KEPT_SHARE     0.6  /* of the time that all wait for the last, that they wait for it */
#define AWAY_SHARE     0.3  /* of that, the time since it left the call before */
#define DELAY_MOST     0.6  /* of the time it wants a core, without one, that none is to have */
#define DELAY_MORE     0.15 /* beyond the share of the others: its core is shared */
#define STARVED        0.3  /* of the calls' time, that a rank lacks a core beyond the others */
#define STARVED_LATELY 0.1  /* and of the time that is looked at */
#define STARVED_TIMES  1.5  /* what the rank in the middle lacks one */
#define LINK_SHARE     0.6  /* of the time in calls, in which somebody waits for the same rank */

/* One rank, as its calls show it: sums over them, of nanoseconds but for the last. */
struct pace_rank {
    double late;     /* after the rank in the middle */
    double kept_all; /* the same, of the calls to which it came last */
    double away;     /* of that, the time since it had left its call before */
    double wanted;   /* the time of calls in which somebody waited for it */
    uint32_t came_last;
};

struct pace {
    struct pace_rank *of; /* by trail */
    double spread;        /* kept_all of all ranks */
    double running;       /* from the last rank's call to the end */
    uint32_t calls;
    uint64_t first, last; /* the times of the calls compared */
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* When a rank left the call before; 0: it had not, or nothing is known of it. */
static uint64_t left_before(const struct gyre_trail *trail, const struct gyre_call_record *call)
{
    const struct gyre_call_record *before = call > trail->record ? call - 1 : NULL;
    return before && before->ended ? gyre_trail_time(trail, before->ended) : 0;
}

/* Whoever is last because it left the call before last is not what slows the others down. */
static void add_last(struct pace_rank *rank, uint64_t last, uint64_t middle, uint64_t left)
{
    const uint64_t from = left > middle ? left : middle;
    rank->came_last++;
    rank->kept_all += (double)(last - middle);
    rank->away += last > from ? (double)(last - from) : 0;
}

/* Adds one call, if every rank has a record of it that has ended. */
static void compare_call(const struct gyre_trails *trails, uint32_t comm, uint64_t sequence,
                         uint64_t *called, struct pace *pace)
{
    uint64_t sorted[GYRE_TRAILS_MAX], left[GYRE_TRAILS_MAX], ended = 0;
    uint32_t waited_for[GYRE_TRAILS_MAX];
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *there = gyre_trail_call(&trails->of[i], comm, sequence);
        if (!there || !there->ended)
            return;
        sorted[i] = called[i] = gyre_trail_time(&trails->of[i], there->called);
        uint64_t end = gyre_trail_time(&trails->of[i], there->ended);
        ended = end > ended ? end : ended;
        left[i] = left_before(&trails->of[i], there);
        waited_for[i] = there->waits_on;
    }
    qsort(sorted, trails->count, sizeof *sorted, by_value);
    uint64_t middle = sorted[(trails->count - 1) / 2], last = sorted[trails->count - 1];
    double running = (double)(int64_t)(ended - last);
    pace->spread += (double)(last - middle);
    for (uint32_t i = 0; i < trails->count; i++) {
        pace->of[i].late += (double)(int64_t)(called[i] - middle);
        if (called[i] == last)
            add_last(&pace->of[i], last, middle, left[i]);
        for (uint32_t j = 0; j < trails->count; j++)
            if (trails->of[j].head.rank == waited_for[i])
                pace->of[j].wanted += running;
    }
    pace->running += running;
    pace->last = pace->calls++ ? pace->last : last;
    pace->first = sorted[0];
}

/* The rank's thread in the last seconds: how long it ran, and waited for a core. */
static struct gyre_record_thread lately(const struct gyre_trail *trail)
{
    const struct gyre_record_thread *now = &trail->head.thread_now;
    const struct gyre_record_thread *before = &trail->head.thread_before;
    return (struct gyre_record_thread){.at = now->at - before->at,
                                       .ran_ns = now->ran_ns - before->ran_ns,
                                       .delayed_ns = now->delayed_ns - before->delayed_ns};
}

static double delayed_ns(const struct gyre_trail *trail)
{
    return (double)lately(trail).delayed_ns;
}

/* The rank's share of time without a core, of that in which it wanted one. */
static double delayed_share(const struct gyre_trail *trail)
{
    double all = (double)lately(trail).ran_ns + delayed_ns(trail);
    return all > 0 ? delayed_ns(trail) / all : 0;
}

static int by_delay(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Whether a rank that comes late lacks a core: far more often than it has one, or more often than
 * the rank in the middle. */
static bool lacks_core(const struct gyre_trails *trails, uint32_t rank)
{
    double share[GYRE_TRAILS_MAX];
    uint32_t others = 0;
    for (uint32_t i = 0; i < trails->count; i++)
        if (i != rank)
            share[others++] = delayed_share(&trails->of[i]);
    qsort(share, others, sizeof *share, by_delay);
    const double own = delayed_share(&trails->of[rank]);
    return own > DELAY_MOST || own > share[(others - 1) / 2] + DELAY_MORE;
}

/* Whether it is this rank for which the others wait before their calls begin. */
static bool keeps_others(const struct pace_rank *rank, const struct pace *pace)
{
    return rank->came_last > LAST_SHARE * pace->calls &&
           rank->kept_all > KEPT_SHARE * pace->spread && rank->away > AWAY_SHARE * rank->kept_all;
}

/* The rank that has lacked a core far longer than the rank in the middle, and for much of the time
 * of the calls compared; GYRE_TRAIL_NONE: there is none. Over sockets it is late inside of calls,
 * too. */
static uint32_t find_starved(const struct gyre_trails *trails, const struct pace *pace)
{
    double delayed[GYRE_TRAILS_MAX];
    uint32_t most = 0, others = 0;
    for (uint32_t i = 1; i < trails->count; i++)
        if (delayed_ns(&trails->of[i]) > delayed_ns(&trails->of[most]))
            most = i;
    for (uint32_t i = 0; i < trails->count; i++)
        if (i != most)
            delayed[others++] = delayed_ns(&trails->of[i]);
    qsort(delayed, others, sizeof *delayed, by_delay);
    const double own = delayed_ns(&trails->of[most]);
    const double usual = delayed[(others - 1) / 2];
    const bool starved = own > STARVED_TIMES * usual &&
                         own - usual > STARVED * (double)(pace->last - pace->first) &&
                         own - usual > STARVED_LATELY * (double)lately(&trails->of[most]).at;
    return starved ? most : GYRE_TRAIL_NONE;
}

static void judge_pace(const struct gyre_trails *trails, const struct pace *pace,
                       struct gyre_finding *finding)
{
    uint32_t latest = 0, wanted = 0;
    for (uint32_t i = 1; i < trails->count; i++) {
        latest = pace->of[i].late > pace->of[latest].late ? i : latest;
        wanted = pace->of[i].wanted > pace->of[wanted].wanted ? i : wanted;
    }
    const uint32_t starved = find_starved(trails, pace);
    double period = (double)(pace->last - pace->first) / (pace->calls - 1);
    finding->calls = pace->calls;
    finding->period_ns = period;
    finding->late_ns = pace->of[latest].late / pace->calls;
    finding->running_ns = pace->running / pace->calls;
    finding->delayed = delayed_share(&trails->of[latest]);
    finding->rank = trails->of[latest].head.rank;
    if (finding->late_ns > GYRE_PACE_SHARE * period && keeps_others(&pace->of[latest], pace)) {
        finding->kind = lacks_core(trails, latest) ? GYRE_WHY_CORE : GYRE_WHY_LATE;
    } else if (starved != GYRE_TRAIL_NONE &&
               finding->late_ns + finding->running_ns > GYRE_PACE_SHARE * period) {
        finding->kind = GYRE_WHY_CORE;
        finding->rank = trails->of[starved].head.rank;
        finding->delayed = delayed_share(&trails->of[starved]);
        finding->late_ns = pace->of[starved].late / pace->calls;
    } else if (finding->running_ns > GYRE_PACE_SHARE * period &&
               pace->of[wanted].wanted > LINK_SHARE * pace->running) {
        finding->kind = GYRE_WHY_LINK;
        finding->rank = trails->of[wanted].head.rank;
    }
}

bool gyre_diagnose_pace(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const struct gyre_trail *first = &trails->of[0];
    struct pace pace = {.of = calloc(trails->count, sizeof *pace.of)};
    uint64_t *called = calloc(trails->count, sizeof *called);
    uint32_t looked = 0;
    for (uint32_t i = first->records; pace.of && called && looked < CALLS_MOST && i-- > 0;) {
        const struct gyre_call_record *call = &first->record[i];
        if (call->comm == GYRE_RECORD_MESSAGES)
            continue;
        looked++;
        compare_call(trails, call->comm, call->sequence, called, &pace);
    }
    bool enough = pace.calls >= CALLS_LEAST && trails->count > 1;
    if (enough)
        judge_pace(trails, &pace, finding);
    free(pace.of);
    free(called);
    return enough;
}
