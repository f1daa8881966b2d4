/* Finds who slows a job down that runs: calls that all ranks have made are compared.
 *
 *     rank 0   called ·································· ended     rank 1 came late by this much:
 *     rank 1               called ······················ ended     it computes, or lacks a core
 *     rank 2    called ································· ended
 *
 * Tested by tests/program/cli/why.c. */
#include "cli/why/pace.h"

#include <stdlib.h>

#define CALLS_LEAST 8
#define CALLS_MOST  512
#define LATE_SHARE  0.2  /* of a call's time, from which a rank counts as late */
#define DELAY_SHARE 0.15 /* of its running time without a core, from which the core is shared */
#define LINK_SHARE  0.6  /* of the calls in which somebody waits for the same rank */

struct pace {
    double *late; /* by trail, summed */
    uint32_t *waited_for;
    uint32_t calls;
    uint64_t first, last; /* the times of the calls compared */
    double running;       /* summed: from the last rank's call to the end */
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Adds one call, if every rank has a record of it that has ended. */
static void compare_call(const struct gyre_trails *trails, uint32_t comm, uint64_t sequence,
                         uint64_t *called, struct pace *pace)
{
    uint64_t sorted[GYRE_TRAILS_MAX], ended = 0;
    uint32_t waited_for[GYRE_TRAILS_MAX];
    for (uint32_t i = 0; i < trails->count; i++) {
        const struct gyre_call_record *there = gyre_trail_call(&trails->of[i], comm, sequence);
        if (!there || !there->ended)
            return;
        sorted[i] = called[i] = gyre_trail_time(&trails->of[i], there->called);
        uint64_t end = gyre_trail_time(&trails->of[i], there->ended);
        ended = end > ended ? end : ended;
        waited_for[i] = there->waits_on;
    }
    qsort(sorted, trails->count, sizeof *sorted, by_value);
    uint64_t middle = sorted[(trails->count - 1) / 2], last = sorted[trails->count - 1];
    for (uint32_t i = 0; i < trails->count; i++) {
        pace->late[i] += (double)(int64_t)(called[i] - middle);
        for (uint32_t j = 0; j < trails->count; j++)
            pace->waited_for[j] += trails->of[j].head.rank == waited_for[i];
    }
    pace->running += (double)(int64_t)(ended - last);
    pace->last = pace->calls++ ? pace->last : last;
    pace->first = sorted[0];
}

static double delayed_share(const struct gyre_trail *trail)
{
    double all = (double)trail->head.ran_ns + (double)trail->head.delayed_ns;
    return all > 0 ? (double)trail->head.delayed_ns / all : 0;
}

static void judge_pace(const struct gyre_trails *trails, const struct pace *pace,
                       struct gyre_finding *finding)
{
    uint32_t latest = 0, wanted = 0;
    for (uint32_t i = 1; i < trails->count; i++) {
        latest = pace->late[i] > pace->late[latest] ? i : latest;
        wanted = pace->waited_for[i] > pace->waited_for[wanted] ? i : wanted;
    }
    double period = (double)(pace->last - pace->first) / (pace->calls - 1);
    double late = pace->late[latest] / pace->calls;
    finding->calls = pace->calls;
    finding->period_ns = period;
    finding->late_ns = late;
    finding->delayed = delayed_share(&trails->of[latest]);
    finding->rank = trails->of[latest].head.rank;
    if (late > LATE_SHARE * period) {
        finding->kind = finding->delayed > DELAY_SHARE ? GYRE_WHY_CORE : GYRE_WHY_LATE;
    } else if (pace->running / pace->calls > LATE_SHARE * period &&
               pace->waited_for[wanted] > LINK_SHARE * pace->calls) {
        finding->kind = GYRE_WHY_LINK;
        finding->rank = trails->of[wanted].head.rank;
        finding->late_ns = pace->running / pace->calls;
    }
}

bool gyre_diagnose_pace(const struct gyre_trails *trails, struct gyre_finding *finding)
{
    const struct gyre_trail *first = &trails->of[0];
    struct pace pace = {.late = calloc(trails->count, sizeof *pace.late),
                        .waited_for = calloc(trails->count, sizeof *pace.waited_for)};
    uint64_t *called = calloc(trails->count, sizeof *called);
    uint32_t looked = 0;
    for (uint32_t i = first->records;
         pace.late && pace.waited_for && called && looked < CALLS_MOST && i-- > 0;) {
        const struct gyre_call_record *call = &first->record[i];
        if (call->comm == GYRE_RECORD_MESSAGES)
            continue;
        looked++;
        compare_call(trails, call->comm, call->sequence, called, &pace);
    }
    bool enough = pace.calls >= CALLS_LEAST && trails->count > 1;
    if (enough)
        judge_pace(trails, &pace, finding);
    free(pace.late);
    free(pace.waited_for);
    free(called);
    return enough;
}
