/* PUSH on devices: every rank's INPUT and OUTPUT is memory that every device of the node maps.
 *
 *      rank 0:  line ─▶ lines of all ─▶ kernel: its part, out of all INPUTs into OUTPUTs ─▶ pushed
 *      rank 1:  line ─▶ lines of all ─▶ kernel: its part, …                              ─▶ pushed
 *
 * The host decides and the device moves. Lines and progress are the host's, as in push.c, and a
 * kernel is launched when everything that the kernel reads is there. So no kernel ever waits for a
 * peer, and ranks may share a device without harm. There are no slices: one launch for a whole part
 * costs less than the wait between two.
 *
 * In the order of a stream the kernels stand on that stream from the call on, between two waits.
 * The addresses, which the lines tell, come by a table that the host fills before it lets the
 * stream go on. So no call of the driver's is needed once the stream may be held:
 *
 *      the stream   … arrived ─▶ wait ─▶ kernel, by the table ─▶ folded ─▶ wait ─▶ …
 *      the host            └▶ line ─▶ lines of all ─▶ table ┘        └▶ pushed ─▶ by all ┘
 *
 * Tested by tests/program/cuda/collectives.c and streams.c. */
#include "collectives/mapped/push_device.h"

#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"
#include "collectives/mapped/window.h"

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

/* The fold of a move; of one source it is a copy, for which any operation serves that leaves one
 * source as it is. */
static gyre_fold fold_of_move(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                              bool folds)
{
    const struct gyre_reduce_table *table =
        gyre_reduce_table(mesh->mirrors->fold_queue->device->kind);
    return folds ? table->fold[plan->shape.type][plan->shape.op] : table->fold[GYRE_U8][GYRE_OR];
}

static bool move_folds(const struct gyre_plan *plan, const struct gyre_move *move)
{
    return move->sources > 1 || plan->divisor;
}

static uint64_t bytes_of_move(const struct gyre_plan *plan, const struct gyre_move *move)
{
    struct gyre_block_ref end = move->destination[0];
    return gyre_part_bytes(plan, 0, end.block, end.offset, move->length);
}

/* A move as a task. The addresses are the caller's arrays, as many as the move has at most. */
static struct gyre_fold_task task_of_move(const struct gyre_plan *plan,
                                          const struct gyre_move *move, void **to,
                                          const void **from)
{
    uint64_t bytes = bytes_of_move(plan, move);
    return (struct gyre_fold_task){.destination = to,
                                   .destinations = move->destinations,
                                   .source = from,
                                   .sources = move->sources,
                                   .count = move_folds(plan, move) ? gyre_plan_elements(plan, bytes)
                                                                   : bytes,
                                   .divisor = plan->divisor,
                                   .stream = plan->stream};
}

/* Finds the addresses of a move. A copy is not made onto itself. */
static void find_move_places(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                             const struct gyre_move *move, struct gyre_fold_task *task, void **to,
                             const void **from)
{
    task->destinations = 0;
    for (uint32_t s = 0; s < move->sources; s++)
        from[s] = gyre_slices_source(mesh, plan, move->source[s], 0);
    for (uint32_t d = 0; d < move->destinations; d++) {
        to[task->destinations] = gyre_slices_destination(mesh, plan, move->destination[d], 0);
        task->destinations += move_folds(plan, move) || to[task->destinations] != from[0];
    }
}

/* Posts a move. One source and one destination are a copy; for several destinations a kernel reads
 * the source once. */
static uint64_t launch_move(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                            const struct gyre_move *move)
{
    const void *from[GYRE_PEERS_MAPPED_MAX];
    void *to[GYRE_PEERS_MAPPED_MAX];
    bool folds = move_folds(plan, move);
    struct gyre_fold_task task = task_of_move(plan, move, to, from);
    find_move_places(mesh, plan, move, &task, to, from);
    if (!task.count || !task.destinations)
        return mesh->current.ticket;
    if (!folds && task.destinations == 1)
        return gyre_fold_queue_copy(mesh->mirrors->fold_queue, to[0], from[0], task.count);
    return gyre_fold_queue_fold(mesh->mirrors->fold_queue, fold_of_move(mesh, plan, folds), &task);
}

/* -- on the caller's stream -------------------------------------------------------------------- */

/* Puts the folds of all moves on the stream, by the operation's table, which has nothing to do
 * yet. */
static int post_folds(const struct gyre_mesh *mesh, const struct gyre_operation *op, void *stream,
                      struct gyre_trouble *trouble)
{
    const struct gyre_rank_moves *whole = op->plan->push.whole;
    const void *from[GYRE_PEERS_MAPPED_MAX] = {NULL};
    void *to[GYRE_PEERS_MAPPED_MAX] = {NULL};
    int status = 0;
    for (uint32_t m = 0; m < whole->moves && !status; m++) {
        const struct gyre_move *move = &whole->move[m];
        struct gyre_fold_task task = task_of_move(op->plan, move, to, from), nothing = task;
        gyre_fold fold = fold_of_move(mesh, op->plan, move_folds(op->plan, move));
        nothing.table = task.table = gyre_late_fold(op->table, m);
        nothing.fills = true;
        nothing.count = 0;
        fold(&nothing, NULL);
        status = gyre_fold_queue_fold_on(mesh->mirrors->fold_queue, stream, fold, &task, trouble);
    }
    return status;
}

/* Puts the end on the stream: it arrives for the last time, waits, and passes. */
static int post_end(const struct gyre_mesh *mesh, const struct gyre_operation *op, void *stream,
                    struct gyre_trouble *trouble)
{
    struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    const struct gyre_stream_wait *way = &op->stream_wait;
    const struct gyre_stream_word leave[] = {{way->arrived, way->value, true},
                                             {way->word, way->value, false},
                                             {way->passed, way->value, true}};
    int status = gyre_fold_queue_words_on(fold_queue, stream, leave, op->window ? 2 : 3, trouble);
    if (status || !op->window)
        return status;
    status = gyre_window_post_out(op->window, stream, trouble);
    return status ? status : gyre_fold_queue_words_on(fold_queue, stream, leave + 2, 1, trouble);
}

/* The stream arrives twice: with its data, and with its part folded. */
static int post_push(const struct gyre_mesh *mesh, struct gyre_operation *op, void *stream,
                     struct gyre_trouble *trouble)
{
    struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    const struct gyre_stream_wait *way = &op->stream_wait;
    const struct gyre_stream_word arrive[] = {{way->arrived, way->before + 1, true},
                                              {way->word, way->before + 1, false}};
    int status = gyre_window_post_in(op->window, stream, way, trouble);
    if (!status)
        status = gyre_fold_queue_words_on(fold_queue, stream, arrive, 2, trouble);
    if (!status)
        gyre_stream_wait_expect(way);
    if (!status)
        status = post_folds(mesh, op, stream, trouble);
    return status ? status : post_end(mesh, op, stream, trouble);
}

/* Puts an operation on the stream whose folds have no place there. */
static int post_bare(const struct gyre_mesh *mesh, struct gyre_operation *op, void *stream,
                     struct gyre_trouble *trouble)
{
    int status = gyre_stream_wait_take(&op->stream_wait, 1, trouble);
    if (!status)
        status = gyre_window_post_in(op->window, stream, &op->stream_wait, trouble);
    if (!status)
        status = post_end(mesh, op, stream, trouble);
    if (!status)
        gyre_stream_wait_expect(&op->stream_wait);
    return status;
}

int gyre_push_post_on(const struct gyre_mesh *mesh, struct gyre_operation *op, void *stream,
                      struct gyre_trouble *trouble)
{
    struct gyre_late_tables *tables = &mesh->mirrors->tables;
    int status = gyre_stream_wait_take(&op->stream_wait, 2, trouble);
    if (status)
        return status;
    op->table = gyre_late_take(tables, mesh->mirrors->fold_queue, op->plan->push.whole->moves,
                               &op->stream_wait);
    if (op->table)
        return post_push(mesh, op, stream, trouble);
    gyre_stream_wait_give(&op->stream_wait);
    return post_bare(mesh, op, stream, trouble);
}

/* Fills the table, and lets the stream fold. */
static void let_stream_fold(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    const struct gyre_rank_moves *whole = op->plan->push.whole;
    const void *from[GYRE_PEERS_MAPPED_MAX];
    void *to[GYRE_PEERS_MAPPED_MAX];
    for (uint32_t m = 0; m < whole->moves; m++) {
        const struct gyre_move *move = &whole->move[m];
        struct gyre_fold_task task = task_of_move(op->plan, move, to, from);
        find_move_places(mesh, op->plan, move, &task, to, from);
        task.count = task.destinations ? task.count : 0;
        task.table = gyre_late_fold(op->table, m);
        task.fills = true;
        fold_of_move(mesh, op->plan, move_folds(op->plan, move))(&task, NULL);
    }
    op->folding = true;
    gyre_stream_wait_advance(&op->stream_wait, 1);
}

static bool push_on_stream(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    bool fills = !op->folding;
    if (fills)
        let_stream_fold(mesh, op);
    if (turn->pushed == op->plan->slices || gyre_stream_wait_steps(&op->stream_wait) < 2)
        return fills;
    op->folding = false;
    turn->drained = op->plan->slices;
    gyre_slices_tell_pushed(mesh, op->plan->slices);
    return true;
}

/* -- the whole --------------------------------------------------------------------------------- */

bool gyre_push_on_device(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    if (op->table)
        return push_on_stream(mesh, op);
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
