/* The places of all buffers: each rank announces its buffers in its line and finds its peers' in
 * theirs.
 *
 *     line of rank r   { input region, offset, output region, offset, device }
 *     here             input[r], output[r]: addresses, or NULL for its stage and its inbox
 *
 * Tested by tests/sim/mesh.c, with devices by tests/program/cuda/collectives.c. */
#include "collectives/mapped/places.h"

#include "collectives/mapped/turn.h"

/* Whether peers must not read this rank's INPUT in its own place. */
static bool is_staging(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    return op->plan->push.stage_in_place &&
           gyre_shape_in_place(&op->plan->shape, mesh->rank, op->input, op->output);
}

/* Slices of INPUT that peers may read, or need not, and slices of the inbox that are empty, at the
 * beginning. */
static uint64_t staged_at_first(const struct gyre_operation *op,
                                const struct gyre_announcement *places)
{
    return (places->input_region && !op->direct) || !op->plan->push.read_by_peers ? op->plan->slices
                                                                                  : 0;
}

static uint64_t drained_at_first(const struct gyre_operation *op,
                                 const struct gyre_announcement *places)
{
    return (places->output_region && !op->direct) || !op->plan->push.written_by_peers
               ? op->plan->slices
               : 0;
}

void gyre_places_find(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                      struct gyre_announcement *places)
{
    const struct gyre_plan *plan = op->plan;
    enum gyre_memory_kind kind = op->direct ? GYRE_MEMORY_CUDA : GYRE_MEMORY_HOST;
    *places = (struct gyre_announcement){.device = op->direct};
    if (plan->push.read_by_peers && !is_staging(mesh, op))
        places->input_region = gyre_domain_locate(mesh->domain, kind, op->input, plan->input_bytes,
                                                  &places->input_offset);
    if (plan->push.written_by_peers || plan->push.spread_full)
        places->output_region = gyre_domain_locate(mesh->domain, kind, op->output,
                                                   plan->output_bytes, &places->output_offset);
}

void gyre_places_announce(struct gyre_mesh *mesh, struct gyre_operation *op,
                          const struct gyre_announcement *places)
{
    struct gyre_line *line = gyre_own_line(mesh, op->turn);
    struct gyre_slice_progress *progress = &mesh->mine->progress[op->turn % GYRE_BOARD_SLOTS];
    op->output_region = places->output_region;
    line->fingerprint = op->fingerprint;
    line->places = *places;
    atomic_store_explicit(&progress->staged, staged_at_first(op, places), memory_order_relaxed);
    atomic_store_explicit(&progress->drained, drained_at_first(op, places), memory_order_relaxed);
    atomic_store_explicit(&progress->pushed, 0, memory_order_relaxed);
    atomic_store_explicit(&line->stamp, op->turn, memory_order_release);
}

void gyre_places_take(struct gyre_mesh *mesh, struct gyre_operation *op,
                      const struct gyre_announcement *places)
{
    struct gyre_turn *turn = &mesh->current;
    turn->staging = is_staging(mesh, op);
    turn->devices = (uint64_t)op->direct << mesh->rank;
    turn->input[mesh->rank] = op->input;
    turn->output[mesh->rank] = op->output;
    turn->staged = staged_at_first(op, places);
    turn->drained = drained_at_first(op, places);
    turn->open = places->output_region && !op->direct;
    turn->spread = false;
}

/* Reads the next rank's line and finds its buffers here. GYRE_AGAIN: the line has not come yet. */
static int read_line_of_next(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    uint32_t rank = turn->resolved, peer = gyre_mesh_world(mesh, rank);
    int state = rank == mesh->rank ? 0 : gyre_line_state(mesh, rank, op->fingerprint);
    if (state || rank == mesh->rank)
        return state;
    struct gyre_announcement places = gyre_peer_line(mesh, rank, mesh->at)->places;
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

bool gyre_places_resolve(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    uint32_t before = turn->resolved;
    for (; turn->resolved < mesh->n; turn->resolved++) {
        int state = read_line_of_next(mesh, op);
        if (state == GYRE_MISMATCH)
            gyre_turn_mismatch(mesh, turn->resolved, op->sequence);
        if (state)
            return turn->resolved > before;
    }
    if (turn->resolved > before && op->plan->push.spread_full && turn->open == mesh->n) {
        turn->spread = true;
        turn->staged = op->plan->slices;
    }
    return turn->resolved > before;
}

int gyre_places_leave_device(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_announcement nowhere = {0};
    struct gyre_trouble trouble = {0};
    int status = gyre_mirror_leave_device(mesh->mirrors, op, &trouble);
    if (status) {
        gyre_fault_record(mesh->fault, status, gyre_mesh_world(mesh, mesh->rank), false, &trouble);
        return status;
    }
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        if (turn->devices >> rank & 1)
            turn->input[rank] = NULL, turn->output[rank] = NULL;
    op->output_region = 0; /* peers write the inbox */
    gyre_places_take(mesh, op, &nowhere);
    return 0;
}
