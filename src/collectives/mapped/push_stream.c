/* PUSH in the order of a caller's stream. All of it stands on the stream from the call on, so no
 * call of the driver's is needed once the stream may be held. The addresses, which the lines tell,
 * come by a table that the host fills.
 *
 * Alone, the stream needs the host no more once the table is filled, which is done as soon as all
 * ranks have called, whatever the streams are at:
 *
 *      the host     line ─▶ lines of all ─▶ table ─▶ resolved
 *      the stream   … ─▶ arrived, to all ─▶ waits for arrived, of all, and for resolved
 *                     ─▶ kernel, by the table
 *                     ─▶ pushed, to all ─▶ waits for pushed, of all ─▶ …
 *
 * The words are those of inboxes (words.h). Where a stream cannot have them, the host writes and
 * awaits them in its stead, so each rank chooses for itself:
 *
 *      the stream   … arrived ─▶ wait ─▶ kernel, by the table ─▶ folded ─▶ wait ─▶ …
 *      the host            └▶ line ─▶ lines of all ─▶ table ┘        └▶ pushed ─▶ by all ┘
 *
 * Where some rank's buffers are no device's, the host runs the turn, and the stream, which was to
 * be alone, passes with an empty table when the turn is over.
 *
 * Tested by tests/program/cuda/alone.c and streams.c. */
#include "collectives/mapped/push_stream.h"

#include "base/clock.h"
#include "collectives/mapped/device_moves.h"
#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"
#include "collectives/mapped/window.h"
#include "collectives/mapped/words.h"

#include <sched.h>

#define ARRIVED 1u /* steps of the stream */
#define FOLDED  2u

/* -- with the host ----------------------------------------------------------------------------- */

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
    const struct gyre_stream_word arrive[] = {{way->arrived, way->before + ARRIVED, true},
                                              {way->word, way->before + 1, false}};
    int status = gyre_window_post_in(op->window, stream, way, trouble);
    if (!status)
        status = gyre_fold_queue_words_on(fold_queue, stream, arrive, 2, trouble);
    if (!status)
        gyre_stream_wait_expect(way);
    if (!status)
        status = gyre_moves_post_on(mesh, op, stream, trouble);
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

/* Fills the table, and lets the stream fold. */
static void let_stream_fold(const struct gyre_mesh *mesh, struct gyre_operation *op)
{
    gyre_moves_fill(mesh, op);
    op->folding = true;
    gyre_stream_wait_advance(&op->stream_wait, 1);
}

bool gyre_push_beside_stream(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    bool fills = !op->folding && turn->pushed < op->plan->slices;
    if (fills)
        let_stream_fold(mesh, op);
    if (turn->pushed == op->plan->slices || gyre_stream_wait_steps(&op->stream_wait) < FOLDED)
        return fills;
    op->folding = false;
    turn->drained = turn->pushed = op->plan->slices;
    gyre_words_tell(mesh, GYRE_WORD_PUSHED, op->turn);
    return true;
}

/* -- alone ------------------------------------------------------------------------------------- */

static int post_arrival(const struct gyre_mesh *mesh, const struct gyre_operation *op, void *stream,
                        struct gyre_trouble *trouble)
{
    const struct gyre_stream_wait *way = &op->stream_wait;
    struct gyre_stream_word list[GYRE_WORDS_POSTED_MAX];
    uint32_t count = gyre_words_to_tell(mesh, GYRE_WORD_ARRIVED, op->turn, list);
    list[count++] = (struct gyre_stream_word){way->arrived, way->before + ARRIVED, true};
    count += gyre_words_to_await(mesh, GYRE_WORD_ARRIVED, op->turn, list + count);
    list[count++] = (struct gyre_stream_word){way->word, way->before + 1, false};
    return gyre_fold_queue_words_on(mesh->mirrors->fold_queue, stream, list, count, trouble);
}

static int post_departure(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                          void *stream, struct gyre_trouble *trouble)
{
    const struct gyre_stream_wait *way = &op->stream_wait;
    struct gyre_fold_queue *fold_queue = mesh->mirrors->fold_queue;
    const struct gyre_stream_word pass = {way->passed, way->value, true};
    struct gyre_stream_word list[GYRE_WORDS_POSTED_MAX];
    uint32_t count = gyre_words_to_tell(mesh, GYRE_WORD_PUSHED, op->turn, list);
    list[count++] = (struct gyre_stream_word){way->arrived, way->before + FOLDED, true};
    count += gyre_words_to_await(mesh, GYRE_WORD_PUSHED, op->turn, list + count);
    int status = gyre_fold_queue_words_on(fold_queue, stream, list, count, trouble);
    if (!status)
        status = gyre_window_post_out(op->window, stream, trouble);
    return status ? status : gyre_fold_queue_words_on(fold_queue, stream, &pass, 1, trouble);
}

/* A stream that took the first words and not the rest has told peers what will not come: that is
 * the end of the job. */
static void record_half(const struct gyre_mesh *mesh, const struct gyre_trouble *trouble)
{
    gyre_fault_record(mesh->fault, trouble->status, gyre_mesh_world(mesh, mesh->rank), false,
                      trouble);
}

static int post_alone(struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t turn,
                      void *stream, struct gyre_trouble *trouble)
{
    const struct gyre_stream_wait *way = &op->stream_wait;
    int status = gyre_window_post_in(op->window, stream, way, trouble);
    op->turn = turn;
    if (!status)
        status = post_arrival(mesh, op, stream, trouble);
    if (status) {
        op->turn = 0;
        return status;
    }
    gyre_stream_wait_expect(way);
    op->alone = true;
    mesh->alone++;
    mesh->posted[turn % GYRE_BOARD_SLOTS] = *way;
    status = gyre_moves_post_on(mesh, op, stream, trouble);
    if (!status)
        status = post_departure(mesh, op, stream, trouble);
    if (status)
        record_half(mesh, trouble);
    return status;
}

/* Whether a stream may run this turn by itself. The words of its slot must be free from now on. */
static bool goes_alone(struct gyre_mesh *mesh, uint64_t turn)
{
    return mesh->words_locked && gyre_turn_is_free(mesh, turn) && gyre_words_are_free(mesh, turn);
}

int gyre_push_post_on(struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t turn,
                      void *stream, struct gyre_trouble *trouble)
{
    struct gyre_late_tables *tables = &mesh->mirrors->tables;
    int status = gyre_stream_wait_take(&op->stream_wait, FOLDED, trouble);
    if (status)
        return status;
    op->table = gyre_late_take(tables, mesh->mirrors->fold_queue, op->plan->push.whole->moves,
                               &op->stream_wait);
    if (op->table)
        return goes_alone(mesh, turn) ? post_alone(mesh, op, turn, stream, trouble)
                                      : post_push(mesh, op, stream, trouble);
    gyre_stream_wait_give(&op->stream_wait);
    return post_bare(mesh, op, stream, trouble);
}

void gyre_push_resolve(const struct gyre_mesh *mesh, struct gyre_operation *op)
{
    let_stream_fold(mesh, op);
    op->resolved = true;
}

bool gyre_push_look(struct gyre_operation *op)
{
    const uint64_t before = op->steps;
    op->steps = gyre_stream_wait_steps(&op->stream_wait);
    return op->steps != before;
}

/* -- failure ----------------------------------------------------------------------------------- */

/* Whether the stream folds, or nothing keeps it from doing so. Otherwise it is stopped: it will not
 * pass its last wait before the fold, which it looks at after it has said that it has arrived. */
static bool stop_alone(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    const struct gyre_stream_wait *way = &op->stream_wait;
    atomic_store(way->word, way->before);
    bool folds = atomic_load(way->arrived) != way->before &&
                 gyre_words_come(mesh, GYRE_WORD_ARRIVED, op->turn);
    if (folds)
        gyre_stream_wait_advance(way, 1);
    return folds;
}

void gyre_push_stop(const struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t limit)
{
    const struct gyre_stream_wait *way = &op->stream_wait;
    if (!op->folding || !way->word)
        return;
    if (op->alone && !stop_alone(mesh, op)) {
        gyre_moves_empty(mesh, op);
        return;
    }
    while (gyre_stream_wait_steps(way) < FOLDED && !mesh->mirrors->fold_queue->status &&
           gyre_now_ns() < limit)
        sched_yield();
}
