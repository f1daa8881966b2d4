/* Lanes: rounds of a schedule over message links.
 *
 *   lane 0   [slice 0: round 0 │ 1 │ 2 ][slice 2: …        a lane takes the next slice when it has
 *   lane 1      [slice 1: round 0 │ 1 │ 2 ][slice 3: …     finished one; no lane waits for another
 *
 * Short sends of a round leave at once where a link lets them, without a post. Then the receives
 * are posted, except those whose message has come already; then the other sends. Local steps run in
 * pieces of at most 256 KiB. When every post of the round has completed, the next one begins. A
 * completion finds its lane by the token.
 *
 * A single slice receives long messages of the next round early, where this round spares their
 * places (collectives/schedule/early.h). Tested by tests/sim/engine.c. */
#include "collectives/engine/steps.h"

#include "collectives/schedule/early.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Steps from this one on share a name in tokens: their ends are not traced. */
#define STEPS_NAMED UINT64_C(0xffe)

/* Flags of a step, beside the schedule's: the step is over, without a post; has been posted. */
#define OVER   (UINT32_C(1) << 31)
#define POSTED (UINT32_C(1) << 30)

static struct gyre_round *round_of(struct gyre_lane *lane, uint64_t index)
{
    return &lane->round[index % 2].steps;
}

/* A token has, from its top: communicator, step, round modulo 2, lane, the lane's generation. */
static uint64_t token_of(const struct gyre_engine *engine, struct gyre_lane *lane, uint64_t index,
                         const struct gyre_step *step)
{
    uint64_t number = (uint64_t)(step - round_of(lane, index)->step);
    uint64_t name = (number < STEPS_NAMED ? number : STEPS_NAMED) * 2 + index % 2;
    return (uint64_t)engine->comm << 48 |
           (name * GYRE_LANE_POOL + (uint64_t)(lane - engine->lane)) << 32 | lane->generation;
}

static uint8_t *address(const struct gyre_lane *lane, struct gyre_place place)
{
    if (place.buffer == GYRE_SCRATCH)
        return lane->scratch + place.offset;
    uint8_t *buffer =
        place.buffer == GYRE_OUTPUT ? lane->op->output : (uint8_t *)(uintptr_t)lane->op->input;
    return buffer + lane->base + place.offset;
}

/* -- storage ----------------------------------------------------------------------------------- */

/* Allocates scratch. Where links write into scratch by themselves, the domain allocates it. */
static uint8_t *scratch_take(const struct gyre_engine *engine, uint64_t bytes)
{
    uint64_t whole = (bytes + 4096) & ~UINT64_C(4095);
    uint8_t *scratch =
        engine->scratch_domain && bytes ? gyre_domain_keep(engine->scratch_domain, whole) : NULL;
    return scratch ? scratch : aligned_alloc(4096, whole);
}

static void scratch_give(const struct gyre_engine *engine, uint8_t *scratch)
{
    if (engine->scratch_domain && gyre_domain_forked(engine->scratch_domain))
        return; /* in a fork's child: the parent's */
    if (!engine->scratch_domain || !scratch || gyre_domain_unshare(engine->scratch_domain, scratch))
        free(scratch);
}

static void lane_free(const struct gyre_engine *engine, struct gyre_lane *lane)
{
    scratch_give(engine, lane->scratch);
    free(lane->pointer);
    for (uint32_t i = 0; i < 2; i++) {
        gyre_round_deinit(&lane->round[i].steps);
        free(lane->round[i].event);
    }
    *lane = (struct gyre_lane){.generation = lane->generation};
}

static bool lane_fits(const struct gyre_lane *lane, const struct gyre_extent *extent)
{
    const struct gyre_round *round = &lane->round[0].steps;
    return round->step && lane->scratch_bytes >= extent->scratch_bytes &&
           round->step_max >= extent->step_max && round->source_max >= extent->source_max;
}

static bool rounds_init(struct gyre_lane *lane, const struct gyre_extent *extent)
{
    bool all = true;
    for (uint32_t i = 0; i < 2; i++) {
        lane->round[i].event = calloc(extent->step_max + 1, sizeof(uint64_t));
        all &= !gyre_round_init(&lane->round[i].steps, extent) && lane->round[i].event;
    }
    return all;
}

static int lane_fit(const struct gyre_engine *engine, struct gyre_lane *lane)
{
    const struct gyre_extent *extent = &engine->extent;
    if (lane_fits(lane, extent))
        return 0;
    lane_free(engine, lane);
    lane->scratch_bytes = extent->scratch_bytes;
    lane->scratch = scratch_take(engine, extent->scratch_bytes);
    lane->pointer = calloc(extent->source_max + 1, sizeof(*lane->pointer));
    if (rounds_init(lane, extent) && lane->scratch && lane->pointer)
        return 0;
    lane_free(engine, lane);
    return -ENOMEM;
}

int gyre_steps_fit(struct gyre_engine *engine, uint32_t lanes)
{
    for (uint32_t i = 0; i < lanes; i++)
        if (!engine->lane[i].op && lane_fit(engine, &engine->lane[i]))
            return -ENOMEM;
    return 0;
}

void gyre_steps_deinit(struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < GYRE_LANE_POOL; i++)
        lane_free(engine, &engine->lane[i]);
}

void gyre_steps_drop(struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < GYRE_LANE_POOL; i++) {
        engine->lane[i].op = NULL;
        engine->lane[i].generation++;
    }
}

/* -- one lane ---------------------------------------------------------------------------------- */

static void make_round(struct gyre_lane *lane, uint64_t index)
{
    gyre_round_clear(round_of(lane, index));
    lane->op->plan->algorithm->round(&lane->slice, index, round_of(lane, index));
    lane->round[index % 2].outstanding = 0;
}

/* Lets receives that were posted early begin with their round: so far nobody waited for them. */
static void trace_early(struct gyre_lane *lane)
{
    const struct gyre_round *round = round_of(lane, lane->index);
    for (uint32_t i = 0; i < round->steps; i++)
        if (round->step[i].flags & POSTED)
            gyre_trace_begin(lane->op->record.trace, lane->round[lane->index % 2].event[i],
                             gyre_ticks());
}

static void begin_round(struct gyre_lane *lane)
{
    if (!lane->ahead)
        make_round(lane, lane->index);
    else if (lane->op->record.trace)
        trace_early(lane);
    lane->ahead = false;
    lane->pass = 0;
    lane->posted = 0;
    lane->local = 0;
    lane->local_bytes = 0;
}

/* Whether there is another slice whose INPUT the lane can read. */
static bool has_slice(const struct gyre_engine *engine, const struct gyre_operation *op)
{
    return op->next_slice < op->plan->slices && gyre_engine_due(op) &&
           (!op->mirror || gyre_mirror_ready(op->mirror, op->next_slice));
}

/* Takes the operation's next slice; false when there is none. */
static bool begin_slice(const struct gyre_engine *engine, struct gyre_lane *lane)
{
    struct gyre_operation *op = lane->op;
    if (!has_slice(engine, op))
        return false;
    lane->slice_index = op->next_slice++;
    lane->base = lane->slice_index * op->plan->slice_count * op->plan->element;
    lane->slice = gyre_plan_slice(op->plan, engine->n, engine->rank, lane->slice_index);
    lane->slice.in_place =
        gyre_shape_in_place(&op->plan->shape, engine->rank, op->input, op->output);
    lane->rounds = op->plan->algorithm->extent(&lane->slice).rounds;
    lane->looks_ahead = gyre_slice_looks_ahead(&lane->slice, op->plan->slices);
    lane->index = 0;
    lane->ahead = false;
    if (lane->rounds)
        begin_round(lane);
    return true;
}

static struct gyre_match lane_match(const struct gyre_engine *engine, const struct gyre_lane *lane,
                                    uint64_t index)
{
    return (struct gyre_match){.comm = engine->comm,
                               .lane = (uint16_t)lane->slice_index,
                               .order = (uint16_t)index,
                               .early = index != lane->index,
                               .sequence = lane->op->sequence,
                               .fingerprint = lane->op->fingerprint};
}

/* Writes a step of a round into the trace. Returns the event's number. */
static uint64_t trace_step(const struct gyre_engine *engine, const struct gyre_lane *lane,
                           uint64_t index, const struct gyre_trace_event *what)
{
    struct gyre_trace_event event = *what;
    event.lane = (uint8_t)(lane - engine->lane);
    event.slice = (uint16_t)lane->slice_index;
    event.round = (uint16_t)index;
    return gyre_record_step(&lane->op->record, &event);
}

/* Writes a send or a receive, which ended at `end`; 0: it goes on. */
static void trace_wire(const struct gyre_engine *engine, struct gyre_lane *lane, uint64_t index,
                       const struct gyre_step *step, uint64_t begin, uint64_t end)
{
    const struct gyre_trace_event event = {.kind = step->kind == GYRE_SEND ? GYRE_EVENT_SEND
                                                                           : GYRE_EVENT_RECV,
                                           .begin = begin,
                                           .end = end,
                                           .size = step->length,
                                           .peer = gyre_engine_world(engine, step->peer)};
    if (lane->op->record.trace)
        lane->round[index % 2].event[step - round_of(lane, index)->step] =
            trace_step(engine, lane, index, &event);
}

static bool runs_now(const struct gyre_engine *engine, const struct gyre_lane *lane,
                     const struct gyre_step *step)
{
    struct gyre_match match = lane_match(engine, lane, lane->index);
    uint8_t *at = address(lane, step->at);
    uint32_t peer = gyre_engine_world(engine, step->peer);
    return step->kind == GYRE_SEND
               ? gyre_link_send_now(engine->links, peer, &match, at, step->length)
               : !gyre_link_recv_now(engine->links, peer, &match, at, step->length);
}

/* Posts a step of a round. Not 0: the link has no room, or has failed. */
static int post_step(struct gyre_engine *engine, struct gyre_lane *lane, uint64_t index,
                     struct gyre_step *step, uint64_t begin)
{
    struct gyre_match match = lane_match(engine, lane, index);
    uint8_t *at = address(lane, step->at);
    uint64_t token = token_of(engine, lane, index, step);
    uint32_t peer = gyre_engine_world(engine, step->peer);
    int status = step->kind == GYRE_SEND
                     ? gyre_link_send(engine->links, peer, &match, at, step->length, token)
                     : gyre_link_recv(engine->links, peer, &match, at, step->length, token);
    if (status < 0)
        gyre_engine_link_failed(engine, peer, status);
    if (status)
        return status;
    step->flags |= POSTED;
    lane->round[index % 2].outstanding++;
    trace_wire(engine, lane, index, step, begin, 0);
    return 0;
}

enum { NOW, RECEIVES, SENDS, PASSES }; /* over the steps of a round, in this order */

/* Whether a step may go without a post. Receives may before any was posted: if one has to wait, the
 * others will too. */
static bool suits_now(const struct gyre_lane *lane)
{
    return lane->pass == NOW ||
           (lane->pass == RECEIVES && lane->round[lane->index % 2].outstanding == 0);
}

/* Starts a step, without a post where the link lets it. Not 0: the link has no room, or has
 * failed. */
static int try_step(struct gyre_engine *engine, struct gyre_lane *lane, struct gyre_step *step)
{
    if (step->kind != (lane->pass == RECEIVES ? GYRE_RECV : GYRE_SEND) ||
        step->flags & (OVER | POSTED))
        return 0;
    uint64_t begin = gyre_record_step_time(&lane->op->record);
    if (suits_now(lane) && runs_now(engine, lane, step)) {
        step->flags |= OVER;
        trace_wire(engine, lane, lane->index, step, begin,
                   gyre_record_step_time(&lane->op->record));
    }
    if (lane->pass == NOW || step->flags & OVER)
        return 0;
    return post_step(engine, lane, lane->index, step, begin);
}

/* Posts those receives of the next round which may be posted now. A link that has no room gets them
 * in their own round. */
static void look_ahead(struct gyre_engine *engine, struct gyre_lane *lane)
{
    uint64_t next = lane->index + 1;
    if (lane->ahead || next == lane->rounds || !lane->looks_ahead)
        return;
    make_round(lane, next);
    lane->ahead = true;
    for (uint32_t i = 0; i < round_of(lane, next)->steps; i++) {
        struct gyre_step *step = &round_of(lane, next)->step[i];
        if (gyre_round_admits(&lane->slice, round_of(lane, lane->index), step) &&
            post_step(engine, lane, next, step, gyre_record_step_time(&lane->op->record)))
            return;
    }
}

/* Starts the sends and receives of the round, until a link has no room. True if anything moved. */
static bool post_round(struct gyre_engine *engine, struct gyre_lane *lane)
{
    const struct gyre_round *round = round_of(lane, lane->index);
    uint32_t pass = lane->pass, posted = lane->posted;
    for (; lane->pass < PASSES; lane->pass++, lane->posted = 0)
        for (; lane->posted < round->steps; lane->posted++)
            if (try_step(engine, lane, &round->step[lane->posted]))
                return lane->pass != pass || lane->posted != posted;
    look_ahead(engine, lane);
    return pass != PASSES;
}

static void run_piece(struct gyre_engine *engine, struct gyre_lane *lane,
                      const struct gyre_step *step, uint64_t bytes)
{
    const struct gyre_plan *plan = lane->op->plan;
    const struct gyre_place *source = &round_of(lane, lane->index)->source[step->first];
    void *to = address(lane, step->at) + lane->local_bytes;
    for (uint32_t s = 0; s < step->sources; s++)
        lane->pointer[s] = address(lane, source[s]) + lane->local_bytes;
    if (step->kind == GYRE_COPY) {
        if (to != lane->pointer[0])
            engine->device->copy(engine->queue, to, lane->pointer[0], bytes, 0);
        return;
    }
    struct gyre_fold_task task = {.destination = &to,
                                  .destinations = 1,
                                  .source = lane->pointer,
                                  .sources = step->sources,
                                  .count = gyre_plan_elements(plan, bytes),
                                  .context = plan->shape.context,
                                  .divisor = step->flags & GYRE_STEP_FINAL ? plan->divisor : 0};
    engine->device->reduce(engine->queue, plan->fold, &task, 0);
}

/* Runs a piece, and writes it into the trace. */
static void trace_piece(struct gyre_engine *engine, struct gyre_lane *lane,
                        const struct gyre_step *step, uint64_t bytes)
{
    struct gyre_trace_event event = {.kind = step->kind == GYRE_COPY ? GYRE_EVENT_COPY
                                                                     : GYRE_EVENT_FOLD,
                                     .begin = gyre_ticks(),
                                     .size = bytes,
                                     .peer = GYRE_RECORD_NOBODY};
    run_piece(engine, lane, step, bytes);
    event.end = gyre_ticks();
    trace_step(engine, lane, lane->index, &event);
}

/* Runs one piece of the next local step. True if there was one. */
static bool run_local(struct gyre_engine *engine, struct gyre_lane *lane)
{
    const struct gyre_round *round = round_of(lane, lane->index);
    for (; lane->local < round->steps; lane->local++, lane->local_bytes = 0) {
        const struct gyre_step *step = &round->step[lane->local];
        if (step->kind != GYRE_COPY && step->kind != GYRE_REDUCE)
            continue;
        uint64_t left = step->length - lane->local_bytes;
        uint64_t most = GYRE_PIECE_BYTES / lane->op->plan->element * lane->op->plan->element;
        uint64_t bytes = left < most ? left : most;
        if (bytes)
            (lane->op->record.trace ? trace_piece : run_piece)(engine, lane, step, bytes);
        lane->local_bytes += bytes;
        if (lane->local_bytes < step->length)
            return true;
    }
    return false;
}

static bool round_over(struct gyre_lane *lane)
{
    return lane->pass == PASSES && lane->round[lane->index % 2].outstanding == 0 &&
           lane->local == round_of(lane, lane->index)->steps;
}

static void lane_end(struct gyre_engine *engine, struct gyre_lane *lane)
{
    struct gyre_operation *op = lane->op;
    lane->op = NULL;
    lane->generation++;
    if (--op->lanes == 0 && op->next_slice == op->plan->slices)
        gyre_engine_finish(engine, op, 0);
}

/* Runs a lane as far as it gets. True if anything moved. */
static bool lane_run(struct gyre_engine *engine, struct gyre_lane *lane)
{
    bool moved = false;
    for (;;) {
        if (lane->index == lane->rounds) {
            struct gyre_host_mirror *mirror = lane->op->mirror;
            if (mirror && !gyre_mirror_give(mirror, lane->slice_index))
                return moved;
            if (!begin_slice(engine, lane)) {
                lane_end(engine, lane);
                return true;
            }
            moved = true;
            continue;
        }
        moved |= post_round(engine, lane);
        if (run_local(engine, lane))
            return true;
        if (engine->fault.status || !round_over(lane))
            return moved;
        moved = true;
        if (++lane->index < lane->rounds)
            begin_round(lane);
    }
}

/* -- all lanes --------------------------------------------------------------------------------- */

static struct gyre_lane *idle_lane(struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < GYRE_LANE_POOL; i++)
        if (!engine->lane[i].op)
            return &engine->lane[i];
    return NULL;
}

/* Gives lanes to operations in order of sequence: none gets a lane while an earlier one wants
 * more. */
static bool grant_lanes(struct gyre_engine *engine)
{
    bool granted = false;
    for (uint32_t i = 0; i < engine->orders; i++) {
        struct gyre_operation *op = engine->order[i];
        if (op->plan->form != GYRE_FORM_STEPS)
            continue;
        while (op->lanes < op->plan->steps.lanes && op->next_slice < op->plan->slices) {
            struct gyre_lane *lane = idle_lane(engine);
            if (!lane || !has_slice(engine, op) || lane_fit(engine, lane))
                return granted;
            lane->op = op;
            lane->index = lane->rounds = 0;
            begin_slice(engine, lane);
            gyre_record_begun(op->record);
            op->lanes++;
            granted = true;
        }
    }
    return granted;
}

/* The peer of which the lane's round still wants something, by its number among the links: of a
 * receive, else of a send. */
static uint32_t lane_waits_on(const struct gyre_engine *engine, struct gyre_lane *lane)
{
    const struct gyre_round *round = round_of(lane, lane->index);
    uint32_t waits_on = GYRE_RECORD_NOBODY;
    for (uint32_t s = 0; s < round->steps; s++) {
        const struct gyre_step *step = &round->step[s];
        if (step->flags & OVER || (step->kind != GYRE_RECV && step->kind != GYRE_SEND))
            continue;
        if (step->kind == GYRE_RECV || waits_on == GYRE_RECORD_NOBODY)
            waits_on = gyre_engine_world(engine, step->peer);
        if (step->kind == GYRE_RECV)
            break;
    }
    return waits_on;
}

void gyre_steps_note_waits(struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < GYRE_LANE_POOL; i++) {
        struct gyre_lane *lane = &engine->lane[i];
        if (lane->op && lane->round[lane->index % 2].outstanding)
            gyre_record_waits(lane->op->record, lane_waits_on(engine, lane));
    }
}

/* A peer of the round that has said goodbye; UINT32_MAX: none has. */
static uint32_t departed_peer(struct gyre_engine *engine, const struct gyre_round *round)
{
    for (uint32_t s = 0; s < round->steps; s++) {
        const struct gyre_step *step = &round->step[s];
        uint32_t peer = gyre_engine_world(engine, step->peer);
        if ((step->kind == GYRE_SEND || step->kind == GYRE_RECV) &&
            gyre_link_has_left(engine->links, peer))
            return peer;
    }
    return UINT32_MAX;
}

/* A completion does not say which peer has left, so the links are asked. */
static void tell_lane_failure(struct gyre_engine *engine, const struct gyre_lane *lane,
                              const struct gyre_round *round, int status)
{
    struct gyre_trouble trouble = {0};
    uint32_t peer = UINT32_MAX;
    if (status == GYRE_PEER_LOST && !gyre_links_fault(engine->links, &peer, &trouble))
        peer = departed_peer(engine, round);
    if (trouble.status || peer == UINT32_MAX) {
        gyre_engine_post_failed(engine, status);
        return;
    }
    gyre_trouble_set(&trouble, GYRE_MISMATCH,
                     "rank %u has left by gyre_finalize(), but operation %llu of communicator %u "
                     "needs it: every rank must call the same operations in the same order",
                     peer, (unsigned long long)lane->op->sequence, engine->comm);
    gyre_engine_fault(engine, GYRE_MISMATCH, peer, true, &trouble);
}

/* Ends the step of a completion in the trace. */
static void trace_completion(const struct gyre_lane *lane, uint64_t token)
{
    uint64_t name = (token >> 32 & UINT16_MAX) / GYRE_LANE_POOL;
    if (name / 2 < STEPS_NAMED)
        gyre_trace_end(lane->op->record.trace, lane->round[name % 2].event[name / 2], gyre_ticks());
}

void gyre_engine_complete(struct gyre_engine *engine, const struct gyre_completion *done)
{
    struct gyre_lane *lane = &engine->lane[done->token >> 32 & (GYRE_LANE_POOL - 1)];
    if (!lane->op || lane->generation != (uint32_t)done->token)
        return;
    uint64_t odd = (done->token >> 32) / GYRE_LANE_POOL % 2;
    lane->round[odd].outstanding--;
    if (lane->op->record.trace && !done->status)
        trace_completion(lane, done->token);
    if (done->status)
        tell_lane_failure(engine, lane, &lane->round[odd].steps, done->status);
}

bool gyre_steps_run(struct gyre_engine *engine)
{
    if (!engine->links || engine->fault.status)
        return false;
    bool moved = grant_lanes(engine);
    for (uint32_t i = 0; i < GYRE_LANE_POOL; i++)
        if (engine->lane[i].op)
            moved |= lane_run(engine, &engine->lane[i]);
    return moved;
}
