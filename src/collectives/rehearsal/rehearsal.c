/* A rehearsal from its start to its end, and how many slices of it: all of few, or so many that the
 * others follow at the pace of the last ones.
 *
 *     ▐ 1 ▐ 2 ▐ … ▐ k ▐ … ▐ 2k ▐ …      pace = (time of 2k - time of k) / k
 *
 * Tested by tests/unit/collectives/rehearsal/rehearsal_test.c and tests/sim/plan.c. */
#include "collectives/rehearsal/inside.h"

#include <errno.h>
#include <stdlib.h>

#define SLICES_PER_LANE 4u /* that are rehearsed before the pace is taken */

/* -- one rehearsal ----------------------------------------------------------------------------- */

static int make_nodes(struct gyre_drill *drill)
{
    const struct gyre_layout *layout = drill->asked->whole.layout;
    const struct gyre_link_kinds *kinds = drill->asked->link_kinds;
    uint32_t nodes = layout != NULL ? layout->nodes : 1;
    drill->node = calloc(nodes, sizeof(*drill->node));
    if (drill->node == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < nodes; i++)
        drill->node[i].kib_ps = kinds->slow_kib_ps != 0 && i == kinds->slow_node
                                    ? kinds->slow_kib_ps
                                    : kinds->tuning->link[GYRE_LINK_NETWORK].kib_ps;
    return 0;
}

static int drill_open(struct gyre_drill *drill)
{
    drill->messages.size = sizeof(struct gyre_drill_message);
    drill->items.size = sizeof(struct gyre_drill_item);
    drill->chunks.size = sizeof(struct gyre_drill_chunk);
    drill->pair_pool.size = sizeof(struct gyre_drill_pair);
    drill->spill_percent = gyre_cost_spill(&drill->asked->whole, drill->asked->link_kinds);
    drill->unasked[0] = drill->asked->unasked != 0 ? drill->asked->unasked : GYRE_COST_UNASKED;
    drill->unasked[1] = drill->asked->link_kinds->near >= GYRE_LINK_SHM ? GYRE_COST_UNASKED_NEAR
                                                                        : drill->unasked[0];
    int status = make_nodes(drill);
    return status != 0 ? status : gyre_drill_lanes_init(drill);
}

static void drill_close(struct gyre_drill *drill)
{
    gyre_drill_drop(&drill->messages);
    gyre_drill_drop(&drill->items);
    gyre_drill_drop(&drill->chunks);
    gyre_drill_drop(&drill->pair_pool);
    gyre_round_deinit(&drill->round);
    gyre_round_deinit(&drill->next);
    free(drill->pair);
    free(drill->heap);
    free(drill->rank);
    free(drill->lane);
    free(drill->node);
}

static void occur(struct gyre_drill *drill, const struct gyre_drill_event *event)
{
    switch (event->kind) {
    case GYRE_DRILL_START:
        gyre_drill_run(drill, event->rank);
        break;
    case GYRE_DRILL_ARRIVE:
        gyre_drill_arrive(drill, event->end);
        gyre_drill_run(drill, event->end->peer->rank);
        break;
    case GYRE_DRILL_FOLDED:
        gyre_drill_folded(drill, event->rank, event->lane);
        break;
    }
}

static bool is_unfinished(const struct gyre_drill *drill)
{
    return drill->status == 0 && drill->ranks_left > 0 && drill->heap_size > 0 &&
           drill->work <= drill->asked->work_most;
}

static void run_events(struct gyre_drill *drill)
{
    for (uint32_t r = 0; r < drill->asked->whole.n; r++)
        gyre_drill_schedule(drill, &(struct gyre_drill_event){.kind = GYRE_DRILL_START, .rank = r});
    while (is_unfinished(drill)) {
        struct gyre_drill_event event = gyre_drill_next_event(drill);
        drill->now = event.time;
        occur(drill, &event);
    }
}

/* Plays the first slices, and adds to *work. */
static int rehearse_slices(const struct gyre_rehearsal *asked, uint64_t count, uint64_t slices,
                           uint64_t *ps, uint64_t *work)
{
    struct gyre_drill drill = {
        .asked = asked, .count = count, .slices = (uint32_t)slices, .work = *work};
    drill.status = drill_open(&drill);
    if (drill.status == 0)
        run_events(&drill);
    *work = drill.work;
    *ps = drill.ended;
    if (drill.work > asked->work_most)
        *ps = GYRE_COST_NEVER;
    else if (drill.status == 0 && drill.ranks_left > 0)
        drill.status = GYRE_INVALID;
    drill_close(&drill);
    return drill.status;
}

/* -- the operation ----------------------------------------------------------------------------- */

/* Plays k and 2k slices, and lets the others follow. */
static int rehearse_pace(const struct gyre_rehearsal *asked, uint64_t k, uint64_t *ps,
                         uint64_t *work)
{
    uint64_t early, late = GYRE_COST_NEVER, count = k * asked->slice_count;
    int status = rehearse_slices(asked, count, k, &early, work);
    if (status == 0 && early != GYRE_COST_NEVER)
        status = rehearse_slices(asked, 2 * count, 2 * k, &late, work);
    *ps = late;
    if (status == 0 && late != GYRE_COST_NEVER)
        *ps += gyre_drill_scaled(late - early, asked->whole.count - 2 * count, count);
    return status;
}

/* How many slices may be rehearsed, by the rounds of all ranks: a message and a round each. */
static uint64_t slices_most(const struct gyre_rehearsal *asked)
{
    const struct gyre_link_kinds *kinds = asked->link_kinds;
    struct gyre_slice slice = asked->whole;
    if (kinds->near == GYRE_LINK_MAPPED || kinds->far == GYRE_LINK_MAPPED ||
        asked->lanes > GYRE_DRILL_LANES_MAX)
        return 0;
    slice.count = asked->slice_count;
    slice.rank = 0;
    uint64_t rounds = asked->algorithm->extent(&slice).rounds;
    return rounds == 0 ? 1 : asked->work_most / slice.n / rounds / 2;
}

int gyre_rehearse(const struct gyre_rehearsal *asked, uint64_t *ps, uint64_t *work)
{
    const uint64_t most = slices_most(asked);
    uint64_t slices = asked->slice_count != 0 ? asked->whole.count / asked->slice_count : 1;
    uint64_t k = (uint64_t)SLICES_PER_LANE * asked->lanes;
    slices = slices != 0 ? slices : 1;
    *ps = GYRE_COST_NEVER;
    *work = 0;
    while (k > asked->lanes && 3 * k > most)
        k /= 2;
    if (slices <= 3 * k && slices <= most)
        return rehearse_slices(asked, asked->whole.count, slices, ps, work);
    return slices > 3 * k && 3 * k <= most ? rehearse_pace(asked, k, ps, work) : 0;
}
