/* Operations on memory that all ranks share.
 *
 * EXCHANGE (up to 4 KiB). Everybody puts its input into its entry line, or into the payload beside
 * it, stamps the line with the turn, and folds what it reads in the others' lines. One trip of a
 * cache line between two cores.
 *
 * PUSH (larger). The line says where INPUT and OUTPUT are. When the lines of all have come, each
 * rank folds its blocks straight out of all INPUTs into all OUTPUTs, then says `pushed`; when all
 * have, the outputs are complete:
 *
 *      rank 0:  line ─▶ wait for lines ─▶ fold block 0 of 0,1 into OUTPUT of 0,1 ─▶ pushed ─▶ wait
 * for pushed of all rank 1:  line ─▶ wait for lines ─▶ fold block 1 of 0,1 into OUTPUT of 0,1 ─▶
 * pushed ─▶ wait for pushed of all
 *
 * A rank whose memory peers cannot map copies its INPUT slice by slice into its stage and empties
 * its outbox behind the peers; four slices are under way, and `staged`, `pushed`, `drained` say how
 * far everybody is. */
#include "collectives/mesh.h"

#include "base/cpu.h"

#include <string.h>

#define LOOKS_WITHOUT_PAUSE 32u

static struct gyre_line *own_line(struct gyre_mesh *mesh, uint64_t turn)
{
    return &mesh->mine->line[turn % GYRE_BOARD_SLOTS];
}

static const struct gyre_line *peer_line(const struct gyre_mesh *mesh, uint32_t rank, uint64_t turn)
{
    return &mesh->board[rank]->line[turn % GYRE_BOARD_SLOTS];
}

static const struct gyre_progress *peer_progress(const struct gyre_mesh *mesh, uint32_t rank)
{
    return &mesh->board[rank]->progress[mesh->turn % GYRE_BOARD_SLOTS];
}

/* May the line of `turn` be written: is everybody done with the turn that used it before? */
static bool slot_is_free(struct gyre_mesh *mesh, uint64_t turn)
{
    if (turn <= mesh->safe + GYRE_BOARD_SLOTS)
        return true;
    uint64_t least = UINT64_MAX;
    for (uint32_t rank = 0; rank < mesh->n; rank++) {
        uint64_t finished =
            atomic_load_explicit(&mesh->board[rank]->finished, memory_order_acquire);
        least = finished < least && rank != mesh->rank ? finished : least;
    }
    mesh->safe = least;
    return turn <= mesh->safe + GYRE_BOARD_SLOTS;
}

/* Whoever waits for a free line is woken often enough, not every time. */
static void end_turn(struct gyre_mesh *mesh)
{
    atomic_store_explicit(&mesh->mine->finished, mesh->turn, memory_order_release);
    if (mesh->turn % (GYRE_BOARD_SLOTS / 2) == 0)
        gyre_domain_ring(mesh->domain);
}

static void mismatch(struct gyre_engine *engine, uint32_t rank, uint64_t sequence)
{
    struct gyre_trouble trouble = {0};
    uint32_t peer = gyre_engine_world(engine, rank);
    gyre_trouble_set(&trouble, GYRE_MISMATCH,
                     "rank %u and rank %u called different operations as number %llu: compare "
                     "operation, count, type, "
                     "reduction and root on both",
                     gyre_engine_world(engine, engine->rank), peer, (unsigned long long)sequence);
    gyre_engine_fault(engine, GYRE_MISMATCH, peer, true, &trouble);
}

/* -- exchange ---------------------------------------------------------------------------------- */

static const uint8_t *payload_of(const struct gyre_board *board, const struct gyre_plan *plan,
                                 uint64_t turn)
{
    uint32_t slot = turn % GYRE_BOARD_SLOTS;
    return plan->line_bytes <= GYRE_LINE_PAYLOAD ? board->line[slot].payload : board->payload[slot];
}

/* A rank whose input nobody reads stamps its line too: whoever is in another operation finds out
 * there. */
static void publish_payload(struct gyre_mesh *mesh, const struct gyre_plan *plan, const void *input,
                            uint64_t fingerprint)
{
    struct gyre_line *line = own_line(mesh, mesh->turn);
    if (plan->published_bytes)
        memcpy((uint8_t *)(uintptr_t)payload_of(mesh->mine, plan, mesh->turn), input,
               plan->published_bytes);
    line->fingerprint = fingerprint;
    atomic_store_explicit(&line->stamp, mesh->turn, memory_order_release);
}

/* 0: here and the same operation. GYRE_AGAIN: not here. */
static int line_state(const struct gyre_mesh *mesh, uint32_t rank, uint64_t fingerprint)
{
    const struct gyre_line *line = peer_line(mesh, rank, mesh->turn);
    if (atomic_load_explicit(&line->stamp, memory_order_acquire) != mesh->turn)
        return GYRE_AGAIN;
    return line->fingerprint == fingerprint ? 0 : GYRE_MISMATCH;
}

/* memcpy() is the best for a few bytes; for many it may fall to a tenth where source and
 * destination stand at different distances from a line, as blocks of odd length do, and it reads
 * the source anew for every destination. */
static void copy_bytes(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                       const void *from, uint64_t bytes, bool stream)
{
    struct gyre_fold_task task = {.destination = to,
                                  .destinations = destinations,
                                  .source = &from,
                                  .sources = 1,
                                  .count = bytes,
                                  .stream = stream};
    if (bytes > GYRE_EXCHANGE_MAX)
        plan->copy(&task, NULL);
    for (uint32_t d = 0; bytes <= GYRE_EXCHANGE_MAX && d < destinations; d++)
        memcpy(to[d], from, bytes);
}

/* A fold of one source is a copy, bit by bit, and none onto itself. */
static void copy_out(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                     const void *from, uint64_t bytes, bool stream)
{
    void *apart[GYRE_PEERS_MAPPED_MAX];
    uint32_t count = 0;
    for (uint32_t d = 0; d < destinations; d++)
        if (to[d] != from)
            apart[count++] = to[d];
    if (count)
        copy_bytes(plan, apart, count, from, bytes, stream);
}

/* In place the lines that are written have just been read: storing around the cache would only
 * throw them out of it. */
static bool in_place(void *const *to, const void *const *from, uint32_t sources)
{
    for (uint32_t s = 0; s < sources; s++)
        if (to[0] == from[s])
            return true;
    return false;
}

static void run_fold(const struct gyre_plan *plan, void *const *to, uint32_t destinations,
                     const void *const *from, uint32_t sources, uint64_t bytes, bool stream)
{
    struct gyre_fold_task task = {.destination = to,
                                  .destinations = destinations,
                                  .source = from,
                                  .sources = sources,
                                  .count = bytes / plan->element,
                                  .divisor = plan->divisor,
                                  .stream = stream && !in_place(to, from, sources)};
    if (sources > 1 || plan->divisor)
        plan->fold(&task, NULL);
    else
        copy_out(plan, to, destinations, from[0], bytes, stream);
}

/* Bytes of a part of `length`, where unequal blocks may end before it does. */
static uint64_t part_bytes(const struct gyre_plan *plan, uint64_t slice, uint32_t block,
                           uint64_t offset, uint64_t length)
{
    if (!plan->blocks.count)
        return length;
    uint64_t begin = slice * plan->slice_count * plan->element + offset;
    uint64_t end = plan->blocks.count[block] * plan->element;
    uint64_t left = end > begin ? end - begin : 0;
    return left < length ? left : length;
}

static void exchange_fold(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                          const uint8_t *input, uint8_t *output)
{
    uint64_t pitch = plan->shape.count * plan->element; /* of blocks in INPUT */
    for (uint32_t m = 0; m < plan->full->moves; m++) {
        const struct gyre_move *move = &plan->full->move[m];
        const struct gyre_tap *end = move->destination;
        const void *from[GYRE_PEERS_MAPPED_MAX];
        void *to = output + gyre_plan_block_at(plan, end->block) + end->offset;
        uint64_t bytes = part_bytes(plan, 0, end->block, end->offset, move->length);
        for (uint32_t s = 0; s < move->sources; s++) {
            const struct gyre_tap *tap = &move->source[s];
            const uint8_t *base = tap->rank == mesh->rank
                                      ? input
                                      : payload_of(mesh->board[tap->rank], plan, mesh->turn);
            from[s] = base + tap->block * pitch + tap->offset;
        }
        if (bytes)
            run_fold(plan, &to, 1, from, move->sources, bytes, false);
    }
}

int gyre_exchange_begin(struct gyre_engine *engine, const struct gyre_plan *plan, const void *input,
                        uint64_t sequence)
{
    struct gyre_mesh *mesh = engine->mesh;
    if (!slot_is_free(mesh, mesh->turn + 1))
        return GYRE_AGAIN;
    mesh->turn++;
    publish_payload(mesh, plan, input, gyre_op_fingerprint(plan, sequence));
    gyre_domain_ring(mesh->domain);
    return 0;
}

/* All lines that this rank folds are there: 0. One is not, after `spins` looks: GYRE_AGAIN. */
static int await_lines(struct gyre_engine *engine, const struct gyre_plan *plan, uint64_t sequence,
                       uint32_t spins)
{
    struct gyre_mesh *mesh = engine->mesh;
    uint64_t fingerprint = gyre_op_fingerprint(plan, sequence);
    for (uint32_t m = 0; m < plan->full->moves; m++)
        for (uint32_t s = 0; s < plan->full->move[m].sources; s++) {
            uint32_t rank = plan->full->move[m].source[s].rank;
            int state = rank == mesh->rank ? 0 : line_state(mesh, rank, fingerprint);
            for (uint32_t i = 0; state == GYRE_AGAIN && i < spins; i++) {
                if (i >= LOOKS_WITHOUT_PAUSE)
                    gyre_pause();
                state = line_state(mesh, rank, fingerprint);
            }
            if (state == GYRE_MISMATCH)
                mismatch(engine, rank, sequence);
            if (state)
                return state;
        }
    return 0;
}

bool gyre_exchange_ready(struct gyre_engine *engine, const struct gyre_plan *plan,
                         uint64_t sequence, bool begun)
{
    if (!begun)
        return slot_is_free(engine->mesh, engine->mesh->turn + 1);
    return await_lines(engine, plan, sequence, 0) != GYRE_AGAIN;
}

int gyre_exchange_finish(struct gyre_engine *engine, const struct gyre_plan *plan,
                         const void *input, void *output, uint64_t sequence, uint32_t spins)
{
    int status = await_lines(engine, plan, sequence, spins);
    if (status)
        return status;
    exchange_fold(engine->mesh, plan, input, output);
    end_turn(engine->mesh);
    return 0;
}

struct gyre_operation *gyre_exchange_adopt(struct gyre_engine *engine, struct gyre_plan *plan,
                                           const void *input, void *output, bool begun)
{
    engine->sequence--; /* it has its number */
    struct gyre_operation *op = gyre_engine_start(engine, plan, input, output);
    if (!op)
        engine->sequence++;
    else if (begun)
        engine->mesh->current = (struct gyre_turn){.op = op};
    return op;
}

/* -- push: who is where ------------------------------------------------------------------------ */

/* Where peers find this rank's buffers, if they can map them and have any business there. */
static void place_buffers(struct gyre_mesh *mesh, struct gyre_operation *op,
                          struct gyre_announcement *places)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    turn->staging = plan->stage_in_place &&
                    gyre_shape_in_place(&plan->shape, mesh->rank, op->input, op->output);
    if (plan->read_by_peers && !turn->staging)
        places->input_region = gyre_domain_locate(
            mesh->domain, op->input, gyre_shape_input_bytes(&plan->shape, mesh->n, mesh->rank),
            &places->input_offset);
    if (plan->written_by_peers || plan->spread_full)
        places->output_region = gyre_domain_locate(
            mesh->domain, op->output, gyre_shape_output_bytes(&plan->shape, mesh->n, mesh->rank),
            &places->output_offset);
    turn->output_region = places->output_region;
    turn->input[mesh->rank] = op->input;
    turn->output[mesh->rank] = op->output;
    turn->staged = places->input_region || !plan->read_by_peers ? plan->slices : 0;
    turn->open = places->output_region != 0;
    turn->spread = false;
    turn->drained = places->output_region || !plan->written_by_peers ? plan->slices : 0;
}

static void announce(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    struct gyre_line *line = own_line(mesh, mesh->turn);
    struct gyre_progress *progress = &mesh->mine->progress[mesh->turn % GYRE_BOARD_SLOTS];
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
    int state = rank == mesh->rank ? 0 : line_state(mesh, rank, op->fingerprint);
    if (state || rank == mesh->rank)
        return state;
    struct gyre_announcement places = peer_line(mesh, rank, mesh->turn)->places;
    const struct gyre_shape *shape = &op->plan->shape;
    turn->input[rank] = NULL;
    turn->output[rank] = NULL;
    if (places.input_region) {
        turn->input[rank] =
            gyre_domain_view(mesh->domain, peer, places.input_region, places.input_offset,
                             gyre_shape_input_bytes(shape, mesh->n, rank));
        if (!turn->input[rank])
            return GYRE_AGAIN;
    }
    if (places.output_region) {
        turn->output[rank] =
            gyre_domain_view(mesh->domain, peer, places.output_region, places.output_offset,
                             gyre_shape_output_bytes(shape, mesh->n, rank));
        if (!turn->output[rank])
            return GYRE_AGAIN;
    }
    turn->open += places.output_region != 0;
    return 0;
}

/* -- push: one slice --------------------------------------------------------------------------- */

static const struct gyre_fused *fused_of(const struct gyre_turn *turn, uint64_t slice)
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

/* Bytes from one block of the slice to the next in a stage or an outbox. */
static uint64_t slice_pitch(const struct gyre_plan *plan, uint64_t slice)
{
    return gyre_plan_slice_count(plan, slice) * plan->element;
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

static bool slice_is_ready(const struct gyre_mesh *mesh, const struct gyre_fused *fused,
                           uint64_t slice)
{
    if (mesh->current.staging && mesh->current.staged <= slice)
        return false;
    for (uint32_t m = 0; m < fused->moves; m++) {
        const struct gyre_move *move = &fused->move[m];
        for (uint32_t s = 0; s < move->sources; s++)
            if (!input_is_ready(mesh, move->source[s].rank, slice))
                return false;
        for (uint32_t d = 0; d < move->destinations; d++)
            if (!output_is_ready(mesh, move->destination[d].rank, slice))
                return false;
    }
    return true;
}

static const uint8_t *source_at(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                                struct gyre_tap tap, uint64_t slice)
{
    bool scatters = gyre_verb_scatters(plan->shape.verb);
    const uint8_t *input = mesh->current.input[tap.rank];
    if (input)
        return input + slice_base(plan, slice) +
               (scatters ? gyre_plan_block_at(plan, tap.block) : 0) + tap.offset;
    return mesh->board[tap.rank]->stage[slice % GYRE_STAGE_SLOTS] +
           tap.block * slice_pitch(plan, slice) + tap.offset;
}

static uint8_t *destination_at(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                               struct gyre_tap tap, uint64_t slice)
{
    uint8_t *output = mesh->current.output[tap.rank];
    if (output)
        return output + slice_base(plan, slice) + gyre_plan_block_at(plan, tap.block) + tap.offset;
    return mesh->outbox[tap.rank]->stage[slice % GYRE_STAGE_SLOTS] +
           tap.block * slice_pitch(plan, slice) + tap.offset;
}

/* At most `most` bytes of the move under way, from `done` on; then the next one is. Returns how
 * many. */
static uint64_t push_piece(struct gyre_mesh *mesh, const struct gyre_plan *plan,
                           const struct gyre_move *move, uint64_t most)
{
    struct gyre_turn *turn = &mesh->current;
    const void *from[GYRE_PEERS_MAPPED_MAX];
    void *to[GYRE_PEERS_MAPPED_MAX];
    struct gyre_tap end = move->destination[0];
    uint64_t whole = part_bytes(plan, turn->pushed, end.block, end.offset, move->length);
    uint64_t bytes = whole - turn->done < most ? whole - turn->done : most;
    for (uint32_t s = 0; s < move->sources; s++)
        from[s] = source_at(mesh, plan, move->source[s], turn->pushed) + turn->done;
    for (uint32_t d = 0; d < move->destinations; d++)
        to[d] = destination_at(mesh, plan, move->destination[d], turn->pushed) + turn->done;
    if (bytes)
        run_fold(plan, to, move->destinations, from, move->sources, bytes, plan->stream);
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
    const struct gyre_fused *fused = fused_of(turn, turn->pushed);
    if (turn->move == 0 && turn->done == 0 && !slice_is_ready(mesh, fused, turn->pushed))
        return false;
    uint64_t left = GYRE_PIECE_BYTES / plan->element * plan->element;
    while (turn->move < fused->moves && left)
        left -= push_piece(mesh, plan, &fused->move[turn->move], left);
    if (turn->move == fused->moves) {
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
            rank < turn->resolved || line_state(mesh, rank, turn->op->fingerprint) == 0
                ? atomic_load_explicit(&peer_progress(mesh, rank)->pushed, memory_order_acquire)
                : 0;
        least = pushed < least ? pushed : least;
    }
    turn->seen_pushed = least;
    return least;
}

/* Copies what peers read of the next slice of INPUT into the stage, once its slot has been read by
 * all. */
static bool stage_some(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    if (turn->staged == plan->slices || (plan->spread_full && turn->resolved < mesh->n))
        return false;
    if (turn->staged >= GYRE_STAGE_SLOTS &&
        pushed_by_all(mesh, turn->staged - GYRE_STAGE_SLOTS + 1) + GYRE_STAGE_SLOTS <= turn->staged)
        return false;
    uint64_t slice = turn->staged, pitch = slice_pitch(plan, slice);
    const struct gyre_fused *fused = fused_of(turn, slice);
    uint8_t *stage = mesh->mine->stage[slice % GYRE_STAGE_SLOTS];
    for (uint32_t p = 0; p < fused->reads; p++) {
        const struct gyre_part *part = &fused->read[p];
        uint32_t limit = plan->blocks.count ? mesh->rank : part->block;
        uint64_t at = slice_base(plan, slice) + part->offset;
        at += plan->blocks.count ? 0 : gyre_plan_block_at(plan, part->block);
        void *to = stage + part->block * pitch + part->offset;
        copy_bytes(plan, &to, 1, op->input + at,
                   part_bytes(plan, slice, limit, part->offset, part->length), false);
    }
    turn->staged++;
    atomic_store_explicit(&mesh->mine->progress[mesh->turn % GYRE_BOARD_SLOTS].staged, turn->staged,
                          memory_order_release);
    return true;
}

/* Empties the next slice of the outbox, once all have written it. */
static bool drain_some(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    if (turn->drained == plan->slices || turn->drained >= turn->pushed ||
        pushed_by_all(mesh, turn->drained + 1) <= turn->drained)
        return false;
    uint64_t slice = turn->drained, pitch = slice_pitch(plan, slice);
    const struct gyre_fused *fused = fused_of(turn, slice);
    const uint8_t *outbox = mesh->outbox[mesh->rank]->stage[slice % GYRE_STAGE_SLOTS];
    for (uint32_t p = 0; p < fused->writes; p++) {
        const struct gyre_part *part = &fused->written[p];
        uint64_t at = gyre_plan_block_at(plan, part->block) + part->offset;
        void *to = op->output + slice_base(plan, slice) + at;
        copy_bytes(plan, &to, 1, outbox + part->block * pitch + part->offset,
                   part_bytes(plan, slice, part->block, part->offset, part->length), false);
    }
    turn->drained++;
    atomic_store_explicit(&mesh->mine->progress[mesh->turn % GYRE_BOARD_SLOTS].drained,
                          turn->drained, memory_order_release);
    return true;
}

/* -- turns ------------------------------------------------------------------------------------- */

static struct gyre_operation *next_mapped(const struct gyre_engine *engine)
{
    for (uint32_t i = 0; i < engine->orders; i++)
        if (engine->order[i]->plan->form != GYRE_FORM_STEPS)
            return engine->order[i];
    return NULL;
}

static void finish_turn(struct gyre_engine *engine, struct gyre_operation *op)
{
    end_turn(engine->mesh);
    engine->mesh->current.op = NULL;
    gyre_engine_finish(engine, op, 0);
}

static bool begin_turn(struct gyre_engine *engine)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_operation *op = next_mapped(engine);
    if (!op || !slot_is_free(mesh, mesh->turn + 1))
        return false;
    mesh->turn++;
    struct gyre_turn *turn = &mesh->current;
    turn->op = op;
    turn->resolved = turn->move = 0;
    turn->pushed = turn->seen_pushed = turn->done = 0;
    turn->announced = false;
    if (op->plan->form == GYRE_FORM_PUSH)
        announce(mesh, op);
    else
        publish_payload(mesh, op->plan, op->input, op->fingerprint);
    return true;
}

static bool run_exchange(struct gyre_engine *engine, struct gyre_operation *op)
{
    if (gyre_exchange_finish(engine, op->plan, op->input, op->output, op->sequence, 0))
        return false;
    engine->mesh->current.op = NULL;
    gyre_engine_finish(engine, op, 0);
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
            mismatch(engine, turn->resolved, op->sequence);
        if (state)
            return turn->resolved > before;
    }
    if (turn->resolved > before && op->plan->spread_full && turn->open == mesh->n) {
        turn->spread = true;
        turn->staged = op->plan->slices;
    }
    return turn->resolved > before;
}

static bool run_push(struct gyre_engine *engine, struct gyre_operation *op)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_turn *turn = &mesh->current;
    bool moved = stage_some(mesh, op);
    moved |= resolve_some(engine, op);
    if (turn->resolved < mesh->n)
        return moved;
    moved |= push_some(mesh, op->plan);
    moved |= drain_some(mesh, op);
    if (turn->pushed == op->plan->slices && turn->drained == op->plan->slices &&
        pushed_by_all(mesh, op->plan->slices) >= op->plan->slices) {
        finish_turn(engine, op);
        return true;
    }
    return moved;
}

bool gyre_mapped_poll(struct gyre_engine *engine)
{
    struct gyre_mesh *mesh = engine->mesh;
    if (engine->fault.status)
        return false;
    bool moved = !mesh->current.op && begin_turn(engine);
    struct gyre_operation *op = mesh->current.op;
    if (op)
        moved |= op->plan->form == GYRE_FORM_PUSH ? run_push(engine, op) : run_exchange(engine, op);
    if (moved)
        gyre_domain_ring(mesh->domain);
    return moved;
}

/* A peer that is not known to be dead may be stopped in the middle of a write. It keeps the old
 * memory; we go on in new memory of the same content at the same address. */
void gyre_mapped_drop(struct gyre_engine *engine)
{
    struct gyre_mesh *mesh = engine->mesh;
    struct gyre_turn *turn = &mesh->current;
    if (!turn->op || turn->op->plan->form != GYRE_FORM_PUSH || !turn->output_region)
        return;
    bool all_dead = true;
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        all_dead &=
            rank == mesh->rank || gyre_domain_peer_ended(mesh->domain, gyre_mesh_world(mesh, rank));
    if (!all_dead)
        gyre_domain_detach(mesh->domain, turn->output_region);
}
