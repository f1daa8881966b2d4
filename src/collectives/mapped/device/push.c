/* PUSH on devices: every rank's INPUT and OUTPUT is memory that every device of the node maps.
 *
 *      rank 0:  line, arrived ─▶ of all ─▶ kernel: its part, of INPUTs into OUTPUTs ─▶ pushed
 *      rank 1:  line, arrived ─▶ of all ─▶ kernel: its part, …                      ─▶ pushed
 *
 * The host decides and the device moves. Lines and words are the host's, as lines in push.c, and a
 * kernel is launched when everything that the kernel reads is there. So no kernel ever waits for a
 * peer, and ranks may share a device without harm. There are no slices: one launch for a whole part
 * costs less than the wait between two.
 *
 * The line says where the buffers are. That they may be read and written is told apart, by words
 * (words.h), because a peer whose stream runs the turn (push_stream.c) writes its line before its
 * data are there.
 *
 * Tested by tests/program/cuda/collectives.c and streams.c. */
#include "collectives/mapped/device/push.h"

#include "collectives/mapped/device/alone.h"
#include "collectives/mapped/device/moves.h"
#include "collectives/mapped/device/push_stream.h"
#include "collectives/mapped/device/window.h"
#include "collectives/mapped/device/words.h"

static bool is_mapped(const struct gyre_mesh *mesh, const void *memory, uint64_t bytes)
{
    uint64_t offset;
    return gyre_domain_locate(mesh->domain, GYRE_MEMORY_CUDA, memory, bytes, &offset) != 0;
}

bool gyre_push_suits_device(const struct gyre_mesh *mesh, struct gyre_plan *plan,
                            const struct gyre_request *request)
{
    const struct gyre_shape *shape = &plan->shape;
    const void *input = request->input.address, *output = request->output.address;
    if (!mesh->mirrors->fold_queue || plan->form != GYRE_FORM_PUSH || shape->fold)
        return false;
    uint64_t in_bytes = gyre_shape_input_bytes(shape, mesh->n, mesh->rank);
    uint64_t out_bytes = gyre_shape_output_bytes(shape, mesh->n, mesh->rank);
    if (!(in_bytes + out_bytes) || (in_bytes && request->input.kind == GYRE_MEMORY_HOST) ||
        (out_bytes && request->output.kind == GYRE_MEMORY_HOST))
        return false;
    if (plan->push.stage_in_place && gyre_shape_in_place(shape, mesh->rank, input, output))
        return false;
    return (!plan->push.read_by_peers || is_mapped(mesh, input, in_bytes)) &&
           (!plan->push.written_by_peers || is_mapped(mesh, output, out_bytes)) &&
           gyre_plan_bind_whole(plan, mesh->n, mesh->rank);
}

const char *gyre_push_bars_graph(struct gyre_mesh *mesh, struct gyre_plan *plan,
                                 const struct gyre_request *request)
{
    if (!mesh)
        return "its ranks do not share memory";
    const bool mapped = gyre_push_suits_device(mesh, plan, request);
    if (!mapped && !gyre_window_suits(mesh, plan, request))
        return "INPUT and OUTPUT must be memory of gyre_alloc_device() that all ranks' devices map";
    if (!mesh->words_locked)
        return "make the same call on a stream before the capture, and synchronise";
    if (mesh->captured_count == GYRE_CAPTURED_MAX)
        return "the communicator has 64 captured operations, the most";
    return mapped || gyre_window_serves_graph(mesh, plan)
               ? NULL
               : "there is no window for memory that is not of gyre_alloc_device(): synchronise "
                 "all streams before the capture";
}

bool gyre_push_is_over(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    bool pushed =
        op->alone ? op->steps == GYRE_ALONE_FOLDED : mesh->current.pushed == op->plan->slices;
    return pushed && gyre_words_come(mesh, GYRE_WORD_PUSHED, op->turn);
}

bool gyre_push_on_device(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    struct gyre_turn *turn = &mesh->current;
    const struct gyre_plan *plan = op->plan;
    uint32_t before = turn->move;
    if (!gyre_words_come(mesh, GYRE_WORD_ARRIVED, op->turn))
        return false;
    if (op->table)
        return gyre_push_beside_stream(mesh, op);
    while (turn->move < plan->push.whole->moves && gyre_fold_queue_room(fold_queue))
        turn->ticket = gyre_moves_launch(mesh, plan, &plan->push.whole->move[turn->move++]);
    if (turn->move == plan->push.whole->moves && turn->pushed < plan->slices &&
        gyre_fold_queue_done(fold_queue, turn->ticket)) {
        turn->drained = turn->pushed = plan->slices;
        gyre_words_tell(mesh, GYRE_WORD_PUSHED, op->turn);
        return true;
    }
    return turn->move != before;
}
