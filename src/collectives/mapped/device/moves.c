/* Moves and their folds. Tested by tests/program/cuda/collectives.c and streams.c. */
#include "collectives/mapped/device/moves.h"

#include "collectives/mapped/exchange.h"
#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"

static gyre_fold fold_of_move(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
                              bool folds)
{
    const struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    return folds
               ? gyre_reduce_table(fold_queue->device->kind)->fold[plan->shape.type][plan->shape.op]
               : gyre_fold_queue_copier(fold_queue);
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

/* One source and one destination are a copy; for several destinations a kernel reads the source
 * once. */
uint64_t gyre_moves_launch(const struct gyre_mesh *mesh, const struct gyre_plan *plan,
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

/* -- by a table -------------------------------------------------------------------------------- */

/* A move as a task that is read from the operation's table. */
static struct gyre_fold_task task_of_table(const struct gyre_operation *op, uint32_t m, void **to,
                                           const void **from)
{
    struct gyre_fold_task task = task_of_move(op->plan, &op->plan->push.whole->move[m], to, from);
    task.table = gyre_late_fold(op->table, m);
    return task;
}

static gyre_fold fold_of_table(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                               uint32_t m)
{
    return fold_of_move(mesh, op->plan, move_folds(op->plan, &op->plan->push.whole->move[m]));
}

void gyre_moves_empty(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    const void *from[GYRE_PEERS_MAPPED_MAX] = {NULL};
    void *to[GYRE_PEERS_MAPPED_MAX] = {NULL};
    for (uint32_t m = 0; m < op->plan->push.whole->moves; m++) {
        struct gyre_fold_task nothing = task_of_table(op, m, to, from);
        nothing.fills = true;
        nothing.count = 0;
        fold_of_table(mesh, op, m)(&nothing, NULL);
    }
}

void gyre_moves_fill(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    const void *from[GYRE_PEERS_MAPPED_MAX];
    void *to[GYRE_PEERS_MAPPED_MAX];
    for (uint32_t m = 0; m < op->plan->push.whole->moves; m++) {
        struct gyre_fold_task task = task_of_table(op, m, to, from);
        find_move_places(mesh, op->plan, &op->plan->push.whole->move[m], &task, to, from);
        task.count = task.destinations ? task.count : 0;
        task.fills = true;
        fold_of_table(mesh, op, m)(&task, NULL);
    }
}

int gyre_moves_post_on(const struct gyre_mesh *mesh, const struct gyre_operation *op, void *stream,
                       struct gyre_trouble *trouble)
{
    const void *from[GYRE_PEERS_MAPPED_MAX] = {NULL};
    void *to[GYRE_PEERS_MAPPED_MAX] = {NULL};
    int status = 0;
    gyre_moves_empty(mesh, op);
    for (uint32_t m = 0; m < op->plan->push.whole->moves && !status; m++) {
        const struct gyre_fold_task task = task_of_table(op, m, to, from);
        status = gyre_fold_queue_fold_on(mesh->mirrors->fold_queue, stream,
                                         fold_of_table(mesh, op, m), &task, trouble);
    }
    return status;
}

/* -- on a stream, of known addresses ----------------------------------------------------------- */

int gyre_moves_copy_on(const struct gyre_mesh *mesh, void *stream, void *to, const void *from,
                       uint64_t bytes, struct gyre_trouble *trouble)
{
    const struct gyre_fold_task task = {
        .destination = &to, .destinations = 1, .source = &from, .sources = 1, .count = bytes};
    struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    return gyre_fold_queue_fold_on(fold_queue, stream, gyre_fold_queue_copier(fold_queue), &task,
                                   trouble);
}

/* Finds the addresses of a move of an EXCHANGE, whose OUTPUT is this rank's own. */
static void *find_exchange_places(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                                  const struct gyre_move *move, const void **from)
{
    const struct gyre_block_ref *end = move->destination;
    for (uint32_t s = 0; s < move->sources; s++) {
        const struct gyre_block_ref *ref = &move->source[s];
        const uint8_t *base =
            ref->rank == mesh->rank ? op->input : gyre_exchange_payload(mesh, ref->rank, op->turn);
        from[s] = base + gyre_exchange_at(op->plan, ref);
    }
    return op->output + gyre_plan_block_at(op->plan, end->block) + end->offset;
}

int gyre_moves_exchange_on(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                           void *stream, struct gyre_trouble *trouble)
{
    const struct gyre_rank_moves *moves = op->plan->exchange.moves;
    int status = 0;
    for (uint32_t m = 0; m < moves->moves && !status; m++) {
        const struct gyre_move *move = &moves->move[m];
        const void *from[GYRE_PEERS_MAPPED_MAX];
        void *to = find_exchange_places(mesh, op, move, from);
        const bool folds = move_folds(op->plan, move);
        const struct gyre_fold_task task = task_of_move(op->plan, move, &to, from);
        if (task.count && (folds || to != from[0]))
            status = gyre_fold_queue_fold_on(mesh->mirrors->fold_queue, stream,
                                             fold_of_move(mesh, op->plan, folds), &task, trouble);
    }
    return status;
}
