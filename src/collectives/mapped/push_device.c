/* PUSH on devices: every rank's INPUT and OUTPUT is memory that every device of the node maps.
 *
 *      rank 0:  line ─▶ lines of all ─▶ kernel: its part, out of all INPUTs into OUTPUTs ─▶ pushed
 *      rank 1:  line ─▶ lines of all ─▶ kernel: its part, …                              ─▶ pushed
 *
 * The host decides and the device moves. Lines and progress are the host's, as in push.c, and a
 * kernel is launched when everything that the kernel reads is there. So no kernel ever waits for a
 * peer, and ranks may share a device without harm. There are no slices: one launch for a whole part
 * costs less than the wait between two. Tested by tests/program/cuda/collectives.c. */
#include "collectives/mapped/push_device.h"

#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"

static bool is_mapped(const struct gyre_mesh *mesh, const void *memory, uint64_t bytes)
{
    uint64_t offset;
    return gyre_domain_locate(mesh->domain, GYRE_MEMORY_CUDA, memory, bytes, &offset) != 0;
}

bool gyre_push_suits_device(const struct gyre_mesh *mesh, struct gyre_plan *plan, const void *input,
                            const void *output)
{
    const struct gyre_shape *shape = &plan->shape;
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    if (!fold_queue || plan->form != GYRE_FORM_PUSH || shape->fold)
        return false;
    uint64_t in_bytes = gyre_shape_input_bytes(shape, mesh->n, mesh->rank);
    uint64_t out_bytes = gyre_shape_output_bytes(shape, mesh->n, mesh->rank);
    if (!(in_bytes + out_bytes) || (in_bytes && !gyre_fold_queue_owns(fold_queue, input)) ||
        (out_bytes && !gyre_fold_queue_owns(fold_queue, output)))
        return false;
    if (plan->push.stage_in_place && gyre_shape_in_place(shape, mesh->rank, input, output))
        return false;
    return (!plan->push.read_by_peers || is_mapped(mesh, input, in_bytes)) &&
           (!plan->push.written_by_peers || is_mapped(mesh, output, out_bytes)) &&
           gyre_plan_bind_whole(plan, mesh->n, mesh->rank);
}

/* Posts a move. One source and one destination are a copy; for several destinations a kernel reads
 * the source once. */
static uint64_t launch(const struct gyre_mesh *mesh, const struct gyre_plan *plan, void *const *to,
                       uint32_t destinations, const void *const *from, uint32_t sources,
                       uint64_t bytes)
{
    const struct gyre_reduce_table *table =
        gyre_reduce_table(mesh->mirrors->fold_queue->device->kind);
    bool folds = sources > 1 || plan->divisor;
    struct gyre_fold_task task = {.destination = to,
                                  .destinations = destinations,
                                  .source = from,
                                  .sources = sources,
                                  .count = folds ? gyre_plan_elements(plan, bytes) : bytes,
                                  .divisor = plan->divisor,
                                  .stream = plan->stream};
    if (!folds && destinations == 1)
        return gyre_fold_queue_copy(mesh->mirrors->fold_queue, to[0], from[0], bytes);
    return gyre_fold_queue_fold(mesh->mirrors->fold_queue,
                                folds ? table->fold[plan->shape.type][plan->shape.op]
                                      : table->fold[GYRE_U8][GYRE_MAX],
                                &task);
}

static uint64_t launch_move(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                            const struct gyre_move *move)
{
    const void *from[GYRE_PEERS_MAPPED_MAX];
    void *to[GYRE_PEERS_MAPPED_MAX];
    struct gyre_block_ref end = move->destination[0];
    uint64_t bytes = gyre_part_bytes(plan, 0, end.block, end.offset, move->length);
    bool alone = move->sources == 1 && !plan->divisor;
    uint32_t destinations = 0;
    for (uint32_t s = 0; s < move->sources; s++)
        from[s] = gyre_slices_source(mesh, plan, move->source[s], 0);
    for (uint32_t d = 0; d < move->destinations; d++) {
        to[destinations] = gyre_slices_destination(mesh, plan, move->destination[d], 0);
        destinations += !alone || to[destinations] != from[0];
    }
    return bytes && destinations ? launch(mesh, plan, to, destinations, from, move->sources, bytes)
                                 : mesh->current.ticket;
}

bool gyre_push_on_device(struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    uint32_t before = turn->move;
    while (turn->move < plan->push.whole->moves && gyre_fold_queue_room(fold_queue))
        turn->ticket = launch_move(mesh, plan, &plan->push.whole->move[turn->move++]);
    if (turn->move == plan->push.whole->moves && turn->pushed < plan->slices &&
        gyre_fold_queue_done(fold_queue, turn->ticket)) {
        turn->drained = plan->slices;
        gyre_slices_tell_pushed(mesh, plan->slices);
        return true;
    }
    return turn->move != before;
}
