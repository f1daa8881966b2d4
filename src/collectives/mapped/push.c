/* PUSH: larger operations, on the callers' own memory.
 *
 * The line says where INPUT and OUTPUT are. When the lines of all ranks have come, each rank folds
 * its parts straight out of all INPUTs into all OUTPUTs, then says `pushed`. When all ranks have
 * said so, the outputs are complete:
 *
 *      rank 0:  line ─▶ lines of all ─▶ part 0 of INPUTs ─▶ of OUTPUTs ─▶ pushed ─▶ by all?
 *      rank 1:  line ─▶ lines of all ─▶ part 1 of INPUTs ─▶ of OUTPUTs ─▶ pushed ─▶ by all?
 *
 * A rank whose memory peers cannot map copies the parts of its INPUT that peers read, slice by
 * slice, into its stage, and copies the blocks that peers wrote out of its inbox. Four slices are
 * under way; `staged`, `pushed` and `drained` say how far every rank is. Where the plan may run in
 * place, the stage is the inbox: a sum takes the place of an input, in a line that the writer has
 * just fetched, and no third buffer goes from core to core.
 *
 * Buffers that the CPU cannot touch have a host mirror (collectives/staging/host_mirror.h). A slice
 * waits until its INPUT has come there. Its OUTPUT goes back as soon as the slice is complete,
 * while other slices are copied and folded.
 *
 * Tested by tests/sim/mesh.c. */
#include "collectives/mapped/push.h"

#include "base/clock.h"
#include "collectives/mapped/places.h"
#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"

/* -- the trace --------------------------------------------------------------------------------- */

/* Writes what a rank has done for a slice since `begin` into the trace, where there is one. */
static void trace_work(const struct gyre_operation *op, enum gyre_event_kind kind, uint64_t slice,
                       uint64_t bytes, uint64_t begin)
{
    const struct gyre_trace_event event = {.kind = (uint8_t)kind,
                                           .lane = GYRE_EVENT_MAPPED,
                                           .slice = (uint16_t)slice,
                                           .begin = begin,
                                           .end = gyre_record_step_time(&op->record),
                                           .size = bytes,
                                           .peer = GYRE_RECORD_NOBODY};
    if (op->record.trace)
        gyre_record_step(&op->record, &event);
}

/* -- one slice --------------------------------------------------------------------------------- */

static const struct gyre_rank_moves *rank_moves_of(const struct gyre_turn *turn, uint64_t slice)
{
    const struct gyre_plan *plan = turn->op->plan;
    bool full = slice + 1 < plan->slices;
    if (turn->spread)
        return full ? plan->push.spread_full : plan->push.spread_last;
    return full ? plan->push.full : plan->push.last;
}

static bool input_is_ready(const struct gyre_mesh *mesh, uint32_t rank, uint64_t slice)
{
    if (rank == mesh->rank || mesh->current.input[rank])
        return true;
    return atomic_load_explicit(&gyre_slices_progress(mesh, rank)->staged, memory_order_acquire) >
           slice;
}

static bool output_is_ready(const struct gyre_mesh *mesh, uint32_t rank, uint64_t slice)
{
    if (rank == mesh->rank || mesh->current.output[rank])
        return true;
    return atomic_load_explicit(&gyre_slices_progress(mesh, rank)->drained, memory_order_acquire) +
               GYRE_STAGE_SLOTS >
           slice;
}

/* Whether this rank's own INPUT of the slice is in memory that the CPU can read. */
static bool slice_is_here(const struct gyre_mesh *mesh, uint64_t slice)
{
    const struct gyre_host_mirror *mirror = mesh->current.op->mirror;
    return !mirror || gyre_mirror_ready(mirror, slice);
}

static bool slice_is_ready(const struct gyre_mesh *mesh, const struct gyre_rank_moves *rank_moves,
                           uint64_t slice)
{
    if (!slice_is_here(mesh, slice))
        return false;
    if (mesh->current.staging && mesh->current.staged <= slice)
        return false;
    for (uint32_t m = 0; m < rank_moves->moves; m++) {
        const struct gyre_move *move = &rank_moves->move[m];
        for (uint32_t s = 0; s < move->sources; s++)
            if (!input_is_ready(mesh, move->source[s].rank, slice))
                return false;
        for (uint32_t d = 0; d < move->destinations; d++)
            if (!output_is_ready(mesh, move->destination[d].rank, slice))
                return false;
    }
    return true;
}

static void push_bytes(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                       const void *const *from, uint32_t sources, uint64_t bytes)
{
    struct gyre_store_choice way = {.nontemporal = plan->stream};
    if (plan->push.store_policy && bytes >= GYRE_STORE_POLICY_LEAST &&
        !gyre_turn_overwrites(to, destinations, from, sources))
        way = gyre_store_policy_next(plan->push.store_policy);
    uint64_t start = way.timed ? gyre_now_ns() : 0;
    gyre_turn_fold(plan, to, destinations, from, sources, bytes, way.nontemporal);
    if (way.timed)
        gyre_store_policy_took(plan->push.store_policy, way.nontemporal, bytes,
                               gyre_now_ns() - start);
}

/* Makes at most `most` bytes of the move under way, from `done` on, and goes on to the next move
 * where that ends. Returns the number of bytes. */
static uint64_t push_piece(struct gyre_mesh *mesh, const struct gyre_plan *plan,
                           const struct gyre_move *move, uint64_t most)
{
    struct gyre_turn *turn = &mesh->current;
    const void *from[GYRE_PEERS_MAPPED_MAX];
    void *to[GYRE_PEERS_MAPPED_MAX];
    struct gyre_block_ref end = move->destination[0];
    uint64_t whole = gyre_part_bytes(plan, turn->pushed, end.block, end.offset, move->length);
    uint64_t bytes = whole - turn->done < most ? whole - turn->done : most;
    for (uint32_t s = 0; s < move->sources; s++)
        from[s] = gyre_slices_source(mesh, plan, move->source[s], turn->pushed) + turn->done;
    for (uint32_t d = 0; d < move->destinations; d++)
        to[d] =
            gyre_slices_destination(mesh, plan, move->destination[d], turn->pushed) + turn->done;
    if (bytes)
        push_bytes(plan, to, move->destinations, from, move->sources, bytes);
    turn->done += bytes;
    if (turn->done == whole) {
        turn->done = 0;
        turn->move++;
    }
    return bytes;
}

/* Whether a rank's moves fold, or only copy. */
static enum gyre_event_kind event_kind_of(const struct gyre_rank_moves *rank_moves)
{
    return rank_moves->moves && rank_moves->move[0].sources > 1 ? GYRE_EVENT_FOLD : GYRE_EVENT_COPY;
}

/* Makes up to 256 KiB of the next slice, when every rank that takes part is ready. */
static bool push_some(struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    struct gyre_turn *turn = &mesh->current;
    if (turn->pushed == plan->slices)
        return false;
    const struct gyre_rank_moves *rank_moves = rank_moves_of(turn, turn->pushed);
    if (turn->move == 0 && turn->done == 0 && !slice_is_ready(mesh, rank_moves, turn->pushed))
        return false;
    if (turn->pushed == 0 && turn->move == 0 && turn->done == 0 && plan->push.store_policy)
        gyre_store_policy_begin(plan->push.store_policy);
    const uint64_t most = GYRE_PIECE_BYTES / plan->element * plan->element;
    const uint64_t begin = gyre_record_step_time(&turn->op->record), slice = turn->pushed;
    uint64_t left = most;
    while (turn->move < rank_moves->moves && left)
        left -= push_piece(mesh, plan, &rank_moves->move[turn->move], left);
    if (left < most)
        trace_work(turn->op, event_kind_of(rank_moves), slice, most - left, begin);
    if (turn->move == rank_moves->moves) {
        turn->move = 0;
        gyre_slices_tell_pushed(mesh, turn->pushed + 1);
    }
    return true;
}

/* Whether the slot of the next slice may be written. All ranks must have read the slot; where sums
 * come back there, this rank must have emptied it. */
static bool slot_is_free(struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    uint64_t next = mesh->current.staged;
    if (next < GYRE_STAGE_SLOTS)
        return true;
    uint64_t before = next - GYRE_STAGE_SLOTS; /* the slice that had it */
    return gyre_slices_pushed_by_all(mesh, before + 1) > before &&
           (!plan->push.stage_in_inbox || mesh->current.drained > before);
}

/* Copies the parts of the next slice of INPUT that peers read into the stage. */
static bool stage_some(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    if (turn->staged == plan->slices || (plan->push.spread_full && turn->resolved < mesh->n) ||
        !slot_is_free(mesh, plan) || !slice_is_here(mesh, turn->staged))
        return false;
    uint64_t slice = turn->staged, pitch = gyre_slices_pitch(plan, slice);
    const struct gyre_rank_moves *rank_moves = rank_moves_of(turn, slice);
    const uint64_t begin = gyre_record_step_time(&op->record);
    uint64_t bytes = 0;
    uint8_t *stage = (plan->push.stage_in_inbox ? mesh->inbox[mesh->rank]->stage
                                                : mesh->mine->stage)[slice % GYRE_STAGE_SLOTS];
    for (uint32_t p = 0; p < rank_moves->reads; p++) {
        const struct gyre_block_part *part = &rank_moves->read[p];
        uint32_t limit = plan->blocks.count ? mesh->rank : part->block;
        uint64_t at = gyre_slices_base(plan, slice) + part->offset;
        at += plan->blocks.count ? 0 : gyre_plan_block_at(plan, part->block);
        void *to = stage + part->block * pitch + part->offset;
        uint64_t length = gyre_part_bytes(plan, slice, limit, part->offset, part->length);
        gyre_turn_copy(plan, &to, 1, op->input + at, length, false);
        bytes += length;
    }
    trace_work(op, GYRE_EVENT_COPY, slice, bytes, begin);
    turn->staged++;
    atomic_store_explicit(&mesh->mine->progress[mesh->at % GYRE_BOARD_SLOTS].staged, turn->staged,
                          memory_order_release);
    return true;
}

/* Empties the next slice of the inbox, once all ranks have written it. */
static bool drain_some(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    if (turn->drained == plan->slices || turn->drained >= turn->pushed ||
        gyre_slices_pushed_by_all(mesh, turn->drained + 1) <= turn->drained)
        return false;
    uint64_t slice = turn->drained, pitch = gyre_slices_pitch(plan, slice);
    const struct gyre_rank_moves *rank_moves = rank_moves_of(turn, slice);
    const uint8_t *inbox = mesh->inbox[mesh->rank]->stage[slice % GYRE_STAGE_SLOTS];
    const uint64_t begin = gyre_record_step_time(&op->record);
    uint64_t bytes = 0;
    for (uint32_t p = 0; p < rank_moves->writes; p++) {
        const struct gyre_block_part *part = &rank_moves->written[p];
        uint64_t at = gyre_plan_block_at(plan, part->block) + part->offset;
        void *to = op->output + gyre_slices_base(plan, slice) + at;
        uint64_t length = gyre_part_bytes(plan, slice, part->block, part->offset, part->length);
        gyre_turn_copy(plan, &to, 1, inbox + part->block * pitch + part->offset, length, false);
        bytes += length;
    }
    trace_work(op, GYRE_EVENT_COPY, slice, bytes, begin);
    turn->drained++;
    atomic_store_explicit(&mesh->mine->progress[mesh->at % GYRE_BOARD_SLOTS].drained, turn->drained,
                          memory_order_release);
    return true;
}

/* Copies slices of OUTPUT that no rank writes any more back to the device. */
static bool give_some(const struct gyre_turn *turn, struct gyre_host_mirror *mirror)
{
    uint64_t complete = turn->pushed < turn->drained ? turn->pushed : turn->drained;
    return mirror && gyre_mirror_give_before(mirror, complete);
}

/* -- the whole --------------------------------------------------------------------------------- */

bool gyre_push_run(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    bool moved = stage_some(mesh, op);
    moved |= gyre_places_resolve(mesh, op);
    if (turn->resolved < mesh->n)
        return moved;
    moved |= push_some(mesh, op->plan);
    moved |= drain_some(mesh, op);
    moved |= give_some(turn, op->mirror);
    return moved;
}
