/* Lanes of all ranks, by the rules of collectives/engine/steps.c: a lane takes the operation's next
 * slice when it has finished one, posts the receives of a round, then its sends and those receives
 * of the next round which may be posted early, folds, and begins the next round when all of its own
 * have ended. No lane waits for another. Folds take the rank's core.
 *
 * Tested by tests/unit/collectives/rehearsal/rehearsal_test.c and tests/sim/plan.c. */
#include "collectives/rehearsal/inside.h"

#include "collectives/schedule/early.h"

#include <errno.h>
#include <stdlib.h>

static struct gyre_slice nth_slice(const struct gyre_drill *drill, uint32_t rank, uint32_t index)
{
    const struct gyre_rehearsal *asked = drill->asked;
    struct gyre_slice slice = asked->whole;
    slice.rank = rank;
    slice.in_place = false;
    slice.first = index * asked->slice_count;
    slice.count = index + 1 < drill->slices ? asked->slice_count : drill->count - slice.first;
    return slice;
}

/* Makes room for the rounds of the longest slice of any rank that is looked at. */
int gyre_drill_lanes_init(struct gyre_drill *drill)
{
    const uint32_t n = drill->asked->whole.n;
    struct gyre_extent room = {0};
    for (uint32_t r = 0; r < n; r++)
        for (uint32_t last = 0; last < 2; last++) {
            struct gyre_slice slice = nth_slice(drill, r, last * (drill->slices - 1));
            struct gyre_extent extent = drill->asked->algorithm->extent(&slice);
            room.step_max = (uint32_t)gyre_drill_later(room.step_max, extent.step_max);
            room.source_max = (uint32_t)gyre_drill_later(room.source_max, extent.source_max);
        }
    drill->rank = calloc(n, sizeof(*drill->rank));
    drill->lane = calloc((size_t)n * drill->asked->lanes, sizeof(*drill->lane));
    if (drill->rank == NULL || drill->lane == NULL)
        return -ENOMEM;
    for (uint32_t r = 0; r < n; r++)
        drill->rank[r].lane = &drill->lane[(size_t)r * drill->asked->lanes];
    drill->ranks_left = n;
    int status = gyre_round_init(&drill->round, &room);
    return status ? status : gyre_round_init(&drill->next, &room);
}

/* -- a round ----------------------------------------------------------------------------------- */

/* The price of a message, or of two where the round has a crowd. */
static uint8_t weight(const struct gyre_drill *drill, uint32_t number)
{
    return number < drill->asked->link_kinds->tuning->crowd ? 1 : 2;
}

/* Posts a step of a round: of the lane's, or of the next one. */
static void post(struct gyre_drill *drill, uint32_t rank, uint8_t lane, uint64_t round,
                 const struct gyre_step *step, uint32_t number)
{
    struct gyre_drill_lane *l = &drill->rank[rank].lane[lane];
    struct gyre_drill_end *end = gyre_drill_end_of(drill, rank, step->peer);
    struct gyre_drill_message *message =
        end == NULL ? NULL
                    : gyre_drill_message_of(drill, step->kind == GYRE_SEND ? end : end->peer,
                                            l->slice_index, round, step->length);
    if (message == NULL)
        return;
    *(round == l->round ? &l->outstanding : &l->early_left) += 1;
    if (step->kind == GYRE_SEND) {
        message->sender_lane = lane;
        message->sender_weight = weight(drill, number);
        gyre_drill_post_send(drill, end, message);
    } else {
        message->receiver_lane = lane;
        gyre_drill_post_receive(drill, end, message);
    }
}

/* A rank turns to its sends first, so a pair that is new is looked at in their order. */
static void turn_to_sends(struct gyre_drill *drill, uint32_t rank)
{
    for (uint32_t i = 0; i < drill->round.steps; i++) {
        const struct gyre_step *step = &drill->round.step[i];
        struct gyre_drill_end *end =
            step->kind == GYRE_SEND ? gyre_drill_end_of(drill, rank, step->peer) : NULL;
        if (end != NULL && !end->used)
            gyre_drill_turn_to(drill, end);
    }
}

static void rehearse_round(struct gyre_drill *drill, const struct gyre_drill_lane *lane,
                           uint64_t index, struct gyre_round *round)
{
    gyre_round_clear(round);
    drill->asked->algorithm->round(&lane->slice, index, round);
    drill->work += 1;
    if (round->overflow)
        drill->status = GYRE_INVALID;
}

/* Posts the receives of the round that were not posted in the round before. */
static void post_due_receives(struct gyre_drill *drill, uint32_t rank, uint8_t lane)
{
    struct gyre_drill_lane *l = &drill->rank[rank].lane[lane];
    uint32_t number = 0;
    bool any_early = l->early > 0;
    l->outstanding = l->early_left;
    l->early = l->early_left = 0;
    if (any_early)
        rehearse_round(drill, l, l->round - 1, &drill->next);
    for (uint32_t i = 0; i < drill->round.steps && drill->status == 0; i++) {
        const struct gyre_step *step = &drill->round.step[i];
        if (step->kind == GYRE_RECV &&
            !(any_early && gyre_round_admits(&l->slice, &drill->next, step)))
            post(drill, rank, lane, l->round, step, number++);
    }
}

static void post_sends(struct gyre_drill *drill, uint32_t rank, uint8_t lane)
{
    uint64_t round = drill->rank[rank].lane[lane].round;
    uint32_t number = 0;
    for (uint32_t i = 0; i < drill->round.steps && drill->status == 0; i++)
        if (drill->round.step[i].kind == GYRE_SEND)
            post(drill, rank, lane, round, &drill->round.step[i], number++);
}

static void rehearse_ahead(struct gyre_drill *drill, uint32_t rank, uint8_t lane)
{
    struct gyre_drill_lane *l = &drill->rank[rank].lane[lane];
    if (l->round + 1 == l->rounds || !gyre_slice_looks_ahead(&l->slice, drill->slices))
        return;
    rehearse_round(drill, l, l->round + 1, &drill->next);
    for (uint32_t i = 0; i < drill->next.steps && drill->status == 0; i++)
        if (gyre_round_admits(&l->slice, &drill->round, &drill->next.step[i])) {
            post(drill, rank, lane, l->round + 1, &drill->next.step[i], 0);
            l->early++;
        }
}

static void count_local_steps(struct gyre_drill *drill, struct gyre_drill_lane *lane)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < drill->round.steps; i++) {
        const struct gyre_step *step = &drill->round.step[i];
        if (step->kind == GYRE_REDUCE || step->kind == GYRE_COPY)
            bytes += step->length * (step->sources + 1);
    }
    lane->fold_ps = gyre_drill_scaled(
        bytes, drill->asked->link_kinds->tuning->fold_kib_ps * drill->spill_percent,
        UINT64_C(1024) * 100);
}

/* Begins what the round folds. */
static void start_folds(struct gyre_drill *drill, uint32_t rank, uint8_t lane)
{
    struct gyre_drill_lane *l = &drill->rank[rank].lane[lane];
    if (l->fold_ps == 0)
        return;
    l->folds = true;
    gyre_drill_schedule(
        drill, &(struct gyre_drill_event){.time = gyre_drill_occupy(drill, rank, l->fold_ps),
                                          .kind = GYRE_DRILL_FOLDED,
                                          .rank = rank,
                                          .lane = lane});
}

static void start_round(struct gyre_drill *drill, uint32_t rank, uint8_t lane)
{
    struct gyre_drill_lane *l = &drill->rank[rank].lane[lane];
    rehearse_round(drill, l, l->round, &drill->round);
    count_local_steps(drill, l);
    turn_to_sends(drill, rank);
    post_due_receives(drill, rank, lane);
    post_sends(drill, rank, lane);
    rehearse_ahead(drill, rank, lane);
    start_folds(drill, rank, lane);
    l->begun = true;
}

/* -- lanes ------------------------------------------------------------------------------------- */

static bool take_slice(struct gyre_drill *drill, uint32_t rank, struct gyre_drill_lane *lane)
{
    struct gyre_drill_rank *r = &drill->rank[rank];
    if (r->next_slice == drill->slices)
        return false;
    lane->slice_index = r->next_slice++;
    lane->slice = nth_slice(drill, rank, lane->slice_index);
    lane->rounds = drill->asked->algorithm->extent(&lane->slice).rounds;
    lane->round = 0;
    lane->begun = false;
    return true;
}

static void end_lane(struct gyre_drill *drill, uint32_t rank, struct gyre_drill_lane *lane)
{
    struct gyre_drill_rank *r = &drill->rank[rank];
    lane->runs = false;
    if (--r->lanes > 0)
        return;
    drill->ranks_left--;
    drill->ended = drill->now;
}

/* Runs a lane as far as it gets. True if anything moved. */
static bool run_lane(struct gyre_drill *drill, uint32_t rank, uint8_t lane)
{
    struct gyre_drill_lane *l = &drill->rank[rank].lane[lane];
    for (bool moved = false;; moved = true) {
        if (drill->status != 0 || drill->work > drill->asked->work_most)
            return false;
        if (l->round == l->rounds) {
            if (take_slice(drill, rank, l))
                continue;
            end_lane(drill, rank, l);
            return true;
        }
        if (!l->begun) {
            start_round(drill, rank, lane);
            moved = true;
        }
        if (l->outstanding > 0 || l->folds)
            return moved;
        l->round++;
        l->begun = false;
    }
}

static void start_lanes(struct gyre_drill *drill, uint32_t rank)
{
    struct gyre_drill_rank *r = &drill->rank[rank];
    r->started = true;
    for (uint32_t i = 0; i < drill->asked->lanes && take_slice(drill, rank, &r->lane[i]); i++) {
        r->lane[i].runs = true;
        r->lanes++;
    }
}

static bool run_lanes(struct gyre_drill *drill, uint32_t rank)
{
    struct gyre_drill_rank *r = &drill->rank[rank];
    bool moved = false;
    for (uint8_t i = 0; i < drill->asked->lanes; i++)
        if (r->lane[i].runs)
            moved |= run_lane(drill, rank, i);
    return moved;
}

void gyre_drill_run(struct gyre_drill *drill, uint32_t rank)
{
    bool moved = true;
    if (!drill->rank[rank].started)
        start_lanes(drill, rank);
    while (moved && drill->status == 0) {
        moved = run_lanes(drill, rank);
        moved |= gyre_drill_poll(drill, rank);
    }
}

void gyre_drill_folded(struct gyre_drill *drill, uint32_t rank, uint8_t lane)
{
    drill->rank[rank].lane[lane].folds = false;
    gyre_drill_run(drill, rank);
}
