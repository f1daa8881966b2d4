/* PUSH: larger operations, on the callers' own memory.
 *
 * The line says where INPUT and OUTPUT are. When the lines of all have come, each rank folds its
 * parts straight out of all INPUTs into the OUTPUTs where they end, then says `pushed`; when all
 * have, the outputs are complete:
 *
 *      rank 0:  line ─▶ lines of all ─▶ part 0 of INPUTs ─▶ of OUTPUTs ─▶ pushed ─▶ by all?
 *      rank 1:  line ─▶ lines of all ─▶ part 1 of INPUTs ─▶ of OUTPUTs ─▶ pushed ─▶ by all?
 *
 * A rank whose memory peers cannot map copies what they read of its INPUT slice by slice into its
 * stage, and empties what they wrote from its inbox behind them; four slices are under way, and
 * `staged`, `pushed`, `drained` say how far everybody is. Where all that may run in place, the
 * stage is the inbox: a sum is written over the input that it was read from, in a line that the
 * writer has just fetched, and no third buffer goes from core to core.
 *
 * Where the CPU cannot touch the buffers they have a host mirror
 * (collectives/staging/host_mirror.h): a slice waits until it has come there, and goes back as soon
 * as it is complete, while others are copied and folded. */
#include "collectives/mapped/inside.h"
#include "collectives/staging/host_mirror.h"

#include "base/clock.h"

static const struct gyre_slice_progress *peer_progress(const struct gyre_mesh *mesh, uint32_t rank)
{
    return &mesh->board[rank]->progress[mesh->turn % GYRE_BOARD_SLOTS];
}

/* -- who is where ------------------------------------------------------------------------------ */

/* Where peers find this rank's buffers, if they can map them and have any business there. */
static void place_buffers(struct gyre_mesh *mesh, struct gyre_operation *op,
                          struct gyre_announcement *places)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    enum gyre_memory_kind kind = op->direct ? GYRE_MEMORY_CUDA : GYRE_MEMORY_HOST;
    turn->staging = plan->stage_in_place &&
                    gyre_shape_in_place(&plan->shape, mesh->rank, op->input, op->output);
    if (plan->read_by_peers && !turn->staging)
        places->input_region = gyre_domain_locate(mesh->domain, kind, op->input, plan->input_bytes,
                                                  &places->input_offset);
    if (plan->written_by_peers || plan->spread_full)
        places->output_region = gyre_domain_locate(mesh->domain, kind, op->output,
                                                   plan->output_bytes, &places->output_offset);
    places->device = op->direct;
    turn->devices = (uint64_t)op->direct << mesh->rank;
    turn->output_region = places->output_region;
    turn->input[mesh->rank] = op->input;
    turn->output[mesh->rank] = op->output;
    turn->staged = (places->input_region && !op->direct) || !plan->read_by_peers ? plan->slices : 0;
    turn->open = places->output_region && !op->direct;
    turn->spread = false;
    turn->drained =
        (places->output_region && !op->direct) || !plan->written_by_peers ? plan->slices : 0;
}

/* Some rank's buffers are not a device's: this rank's go through the host as well. Its line says
 * already that nothing of them is staged. */
static int leave_device(struct gyre_engine *engine, struct gyre_operation *op)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_turn *turn = &mesh->current;
    struct gyre_announcement nowhere = {0};
    struct gyre_trouble trouble = {0};
    struct gyre_host_mirror *mirror;
    int status = gyre_mirror_make(engine, op->plan, op->input, op->output, &mirror, &trouble);
    if (status) {
        gyre_engine_fault(engine, status, gyre_engine_world(engine, engine->rank), false, &trouble);
        return status;
    }
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        if (turn->devices >> rank & 1)
            turn->input[rank] = NULL, turn->output[rank] = NULL;
    op->direct = false;
    gyre_mirror_use(op, mirror);
    place_buffers(mesh, op, &nowhere);
    return 0;
}

void gyre_push_announce(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    struct gyre_line *line = gyre_own_line(mesh, mesh->turn);
    struct gyre_slice_progress *progress = &mesh->mine->progress[mesh->turn % GYRE_BOARD_SLOTS];
    struct gyre_announcement places = {0};
    place_buffers(mesh, op, &places);
    line->fingerprint = op->fingerprint;
    line->places = places;
    atomic_store_explicit(&progress->staged, turn->staged, memory_order_relaxed);
    atomic_store_explicit(&progress->drained, turn->drained, memory_order_relaxed);
    atomic_store_explicit(&progress->pushed, 0, memory_order_relaxed);
    atomic_store_explicit(&line->stamp, mesh->turn, memory_order_release);
    turn->announced = true;
}

/* Reads the next rank's line and finds its buffers here. GYRE_AGAIN: not there yet. */
static int resolve(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    uint32_t rank = turn->resolved, peer = gyre_mesh_world(mesh, rank);
    int state = rank == mesh->rank ? 0 : gyre_line_state(mesh, rank, op->fingerprint);
    if (state || rank == mesh->rank)
        return state;
    struct gyre_announcement places = gyre_peer_line(mesh, rank, mesh->turn)->places;
    const struct gyre_shape *shape = &op->plan->shape;
    enum gyre_memory_kind kind = places.device ? GYRE_MEMORY_CUDA : GYRE_MEMORY_HOST;
    turn->input[rank] = NULL;
    turn->output[rank] = NULL;
    turn->devices |= (uint64_t)places.device << rank;
    if (places.device && !op->direct)
        return 0;
    if (places.input_region) {
        turn->input[rank] =
            gyre_domain_view(mesh->domain, peer, places.input_region, kind, places.input_offset,
                             gyre_shape_input_bytes(shape, mesh->n, rank));
        if (!turn->input[rank])
            return GYRE_AGAIN;
    }
    if (places.output_region) {
        turn->output[rank] =
            gyre_domain_view(mesh->domain, peer, places.output_region, kind, places.output_offset,
                             gyre_shape_output_bytes(shape, mesh->n, rank));
        if (!turn->output[rank])
            return GYRE_AGAIN;
    }
    turn->open += places.output_region && !places.device;
    return 0;
}

/* -- one slice --------------------------------------------------------------------------------- */

static const struct gyre_rank_moves *rank_moves_of(const struct gyre_turn *turn, uint64_t slice)
{
    const struct gyre_plan *plan = turn->op->plan;
    bool full = slice + 1 < plan->slices;
    if (turn->spread)
        return full ? plan->spread_full : plan->spread_last;
    return full ? plan->full : plan->last;
}

static uint64_t slice_base(const struct gyre_plan *plan, uint64_t slice)
{
    return slice * plan->slice_count * plan->element;
}

/* Bytes from one block of the slice to the next in a stage or an inbox. */
static uint64_t slice_pitch(const struct gyre_plan *plan, uint64_t slice)
{
    return gyre_plan_slice_count(plan, slice) * plan->element;
}

/* Where `rank` shows a slice of an INPUT that peers cannot map. */
static const uint8_t *stage_of(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                               uint32_t rank, uint64_t slice)
{
    uint64_t slot = slice % GYRE_STAGE_SLOTS;
    return plan->stage_in_inbox ? mesh->inbox[rank]->stage[slot] : mesh->board[rank]->stage[slot];
}

static bool input_is_ready(const struct gyre_mesh *mesh, uint32_t rank, uint64_t slice)
{
    if (rank == mesh->rank || mesh->current.input[rank])
        return true;
    return atomic_load_explicit(&peer_progress(mesh, rank)->staged, memory_order_acquire) > slice;
}

static bool output_is_ready(const struct gyre_mesh *mesh, uint32_t rank, uint64_t slice)
{
    if (rank == mesh->rank || mesh->current.output[rank])
        return true;
    return atomic_load_explicit(&peer_progress(mesh, rank)->drained, memory_order_acquire) +
               GYRE_STAGE_SLOTS >
           slice;
}

/* This rank's own INPUT of the slice. */
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

const uint8_t *gyre_push_source(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                                struct gyre_block_ref ref, uint64_t slice)
{
    bool scatters = gyre_verb_scatters(plan->shape.verb);
    const uint8_t *input = mesh->current.input[ref.rank];
    if (input)
        return input + slice_base(plan, slice) +
               (scatters ? gyre_plan_block_at(plan, ref.block) : 0) + ref.offset;
    return stage_of(mesh, plan, ref.rank, slice) + ref.block * slice_pitch(plan, slice) +
           ref.offset;
}

uint8_t *gyre_push_destination(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                               struct gyre_block_ref ref, uint64_t slice)
{
    uint8_t *output = mesh->current.output[ref.rank];
    if (output)
        return output + slice_base(plan, slice) + gyre_plan_block_at(plan, ref.block) + ref.offset;
    return mesh->inbox[ref.rank]->stage[slice % GYRE_STAGE_SLOTS] +
           ref.block * slice_pitch(plan, slice) + ref.offset;
}

static void push_bytes(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                       const void *const *from, uint32_t sources, uint64_t bytes)
{
    struct gyre_store_choice way = {.nontemporal = plan->stream};
    if (plan->store_policy && bytes >= GYRE_STORE_POLICY_LEAST &&
        !gyre_mapped_overwrites(to, destinations, from, sources))
        way = gyre_store_policy_next(plan->store_policy);
    uint64_t start = way.timed ? gyre_now_ns() : 0;
    gyre_mapped_fold(plan, to, destinations, from, sources, bytes, way.nontemporal);
    if (way.timed)
        gyre_store_policy_took(plan->store_policy, way.nontemporal, bytes, gyre_now_ns() - start);
}

/* At most `most` bytes of the move under way, from `done` on; then the next one is. Returns how
 * many. */
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
        from[s] = gyre_push_source(mesh, plan, move->source[s], turn->pushed) + turn->done;
    for (uint32_t d = 0; d < move->destinations; d++)
        to[d] = gyre_push_destination(mesh, plan, move->destination[d], turn->pushed) + turn->done;
    if (bytes)
        push_bytes(plan, to, move->destinations, from, move->sources, bytes);
    turn->done += bytes;
    if (turn->done == whole) {
        turn->done = 0;
        turn->move++;
    }
    return bytes;
}

/* Up to 256 KiB of the next slice, when everybody concerned is ready for it. */
static bool push_some(struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    struct gyre_turn *turn = &mesh->current;
    if (turn->pushed == plan->slices)
        return false;
    const struct gyre_rank_moves *rank_moves = rank_moves_of(turn, turn->pushed);
    if (turn->move == 0 && turn->done == 0 && !slice_is_ready(mesh, rank_moves, turn->pushed))
        return false;
    uint64_t left = GYRE_PIECE_BYTES / plan->element * plan->element;
    while (turn->move < rank_moves->moves && left)
        left -= push_piece(mesh, plan, &rank_moves->move[turn->move], left);
    if (turn->move == rank_moves->moves) {
        turn->move = 0;
        turn->pushed++;
        atomic_store_explicit(&mesh->mine->progress[mesh->turn % GYRE_BOARD_SLOTS].pushed,
                              turn->pushed, memory_order_release);
    }
    return true;
}

static uint64_t pushed_by_all(struct gyre_mesh *mesh, uint64_t enough)
{
    struct gyre_turn *turn = &mesh->current;
    if (turn->seen_pushed >= enough)
        return turn->seen_pushed;
    uint64_t least = turn->pushed;
    for (uint32_t rank = 0; rank < mesh->n && least > turn->seen_pushed; rank++) {
        if (rank == mesh->rank)
            continue;
        uint64_t pushed =
            rank < turn->resolved || gyre_line_state(mesh, rank, turn->op->fingerprint) == 0
                ? atomic_load_explicit(&peer_progress(mesh, rank)->pushed, memory_order_acquire)
                : 0;
        least = pushed < least ? pushed : least;
    }
    turn->seen_pushed = least;
    return least;
}

/* May the slot of the next slice be written: has it been read by all, and, where sums come back in
 * it, been emptied? */
static bool slot_is_free(struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    uint64_t next = mesh->current.staged;
    if (next < GYRE_STAGE_SLOTS)
        return true;
    uint64_t before = next - GYRE_STAGE_SLOTS; /* the slice that had it */
    return pushed_by_all(mesh, before + 1) > before &&
           (!plan->stage_in_inbox || mesh->current.drained > before);
}

/* Copies what peers read of the next slice of INPUT into the stage. */
static bool stage_some(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    if (turn->staged == plan->slices || (plan->spread_full && turn->resolved < mesh->n) ||
        !slot_is_free(mesh, plan) || !slice_is_here(mesh, turn->staged))
        return false;
    uint64_t slice = turn->staged, pitch = slice_pitch(plan, slice);
    const struct gyre_rank_moves *rank_moves = rank_moves_of(turn, slice);
    uint8_t *stage = (plan->stage_in_inbox ? mesh->inbox[mesh->rank]->stage
                                           : mesh->mine->stage)[slice % GYRE_STAGE_SLOTS];
    for (uint32_t p = 0; p < rank_moves->reads; p++) {
        const struct gyre_block_part *part = &rank_moves->read[p];
        uint32_t limit = plan->blocks.count ? mesh->rank : part->block;
        uint64_t at = slice_base(plan, slice) + part->offset;
        at += plan->blocks.count ? 0 : gyre_plan_block_at(plan, part->block);
        void *to = stage + part->block * pitch + part->offset;
        gyre_mapped_copy(plan, &to, 1, op->input + at,
                         gyre_part_bytes(plan, slice, limit, part->offset, part->length), false);
    }
    turn->staged++;
    atomic_store_explicit(&mesh->mine->progress[mesh->turn % GYRE_BOARD_SLOTS].staged, turn->staged,
                          memory_order_release);
    return true;
}

/* Empties the next slice of the inbox, once all have written it. */
static bool drain_some(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    if (turn->drained == plan->slices || turn->drained >= turn->pushed ||
        pushed_by_all(mesh, turn->drained + 1) <= turn->drained)
        return false;
    uint64_t slice = turn->drained, pitch = slice_pitch(plan, slice);
    const struct gyre_rank_moves *rank_moves = rank_moves_of(turn, slice);
    const uint8_t *inbox = mesh->inbox[mesh->rank]->stage[slice % GYRE_STAGE_SLOTS];
    for (uint32_t p = 0; p < rank_moves->writes; p++) {
        const struct gyre_block_part *part = &rank_moves->written[p];
        uint64_t at = gyre_plan_block_at(plan, part->block) + part->offset;
        void *to = op->output + slice_base(plan, slice) + at;
        gyre_mapped_copy(plan, &to, 1, inbox + part->block * pitch + part->offset,
                         gyre_part_bytes(plan, slice, part->block, part->offset, part->length),
                         false);
    }
    turn->drained++;
    atomic_store_explicit(&mesh->mine->progress[mesh->turn % GYRE_BOARD_SLOTS].drained,
                          turn->drained, memory_order_release);
    return true;
}

/* Slices of OUTPUT that nobody writes any more are on their way back. */
static bool give_some(const struct gyre_turn *turn, struct gyre_host_mirror *mirror)
{
    uint64_t complete = turn->pushed < turn->drained ? turn->pushed : turn->drained;
    return mirror && gyre_mirror_give_before(mirror, complete);
}

/* -- the whole --------------------------------------------------------------------------------- */

bool gyre_push_over(struct gyre_engine *engine, struct gyre_operation *op)
{
    const struct gyre_turn *turn = &engine->mesh->current;
    uint64_t all = op->plan->slices;
    if (turn->pushed < all || turn->drained < all || pushed_by_all(engine->mesh, all) < all)
        return false;
    gyre_turn_finish(engine, op);
    return true;
}

/* Reads the lines that have come; true if any had. When all are read, everybody knows who copies.
 */
static bool resolve_some(struct gyre_engine *engine, struct gyre_operation *op)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_turn *turn = &mesh->current;
    uint32_t before = turn->resolved;
    for (; turn->resolved < mesh->n; turn->resolved++) {
        int state = resolve(mesh, op);
        if (state == GYRE_MISMATCH)
            gyre_turn_mismatch(engine, turn->resolved, op->sequence);
        if (state)
            return turn->resolved > before;
    }
    if (turn->resolved > before && op->plan->spread_full && turn->open == mesh->n) {
        turn->spread = true;
        turn->staged = op->plan->slices;
    }
    return turn->resolved > before;
}

/* Nothing is done before all lines are read: they say who runs it. */
static bool run_direct(struct gyre_engine *engine, struct gyre_operation *op)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_turn *turn = &mesh->current;
    bool moved = resolve_some(engine, op);
    if (turn->resolved < mesh->n)
        return moved;
    if (turn->devices != UINT64_MAX >> (64 - mesh->n))
        return leave_device(engine, op) == 0;
    return gyre_push_on_device(engine, op) || moved;
}

bool gyre_push_run(struct gyre_engine *engine, struct gyre_operation *op)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_turn *turn = &mesh->current;
    if (op->direct)
        return run_direct(engine, op);
    bool moved = stage_some(mesh, op);
    moved |= resolve_some(engine, op);
    if (turn->resolved < mesh->n)
        return moved;
    moved |= push_some(mesh, op->plan);
    moved |= drain_some(mesh, op);
    moved |= give_some(turn, op->mirror);
    return gyre_push_over(engine, op) || moved;
}
