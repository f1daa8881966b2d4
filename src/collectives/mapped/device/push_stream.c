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
 * In a graph values are constants, so words of a captured operation are its own, 1 where told, and
 * the stream of their reader sets them back:
 *
 *      … ─▶ arrived = 1, to all ─▶ waits for arrived ≥ 1, of all ─▶ own arrived = rest ─▶ kernel
 *        ─▶ pushed = 1, to all  ─▶ waits for pushed ≥ 1, of all  ─▶ own pushed = rest  ─▶ …
 *
 * By way of a window a launch copies INPUT there first. The copy of OUTPUT is behind all, and goes
 * by a table, too: where a launch passes for a failure nothing is copied any more.
 *
 * `rest` is 0, and 1 when the job has failed: then launches pass, however many come. A copy that
 * has read 0 before may write after the host has filled the words. So the stream says how far it
 * is, and the host waits for such a copy first.
 *
 * Tested by tests/program/cuda/alone/push.c, graphs.c and streams.c. */
#include "collectives/mapped/device/push_stream.h"

#include "base/clock.h"
#include "collectives/mapped/device/alone.h"
#include "collectives/mapped/device/moves.h"
#include "collectives/mapped/device/window.h"
#include "collectives/mapped/device/words.h"
#include "collectives/mapped/slices.h"
#include "collectives/mapped/turn.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Tells an operation of a graph from the same outside. */
#define CAPTURED_MARK UINT64_C(0x67726170685f6f70)

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
    const struct gyre_stream_word arrive[] = {
        {way->arrived, way->before + GYRE_ALONE_ARRIVED, true},
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
    if (turn->pushed == op->plan->slices ||
        gyre_stream_wait_steps(&op->stream_wait) < GYRE_ALONE_FOLDED)
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
    list[count++] = (struct gyre_stream_word){way->arrived, way->before + GYRE_ALONE_ARRIVED, true};
    count +=
        gyre_words_to_await(mesh, GYRE_WORD_ARRIVED, op->turn, GYRE_WORDS_OF_ALL, list + count);
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
    list[count++] = (struct gyre_stream_word){way->arrived, way->before + GYRE_ALONE_FOLDED, true};
    count += gyre_words_to_await(mesh, GYRE_WORD_PUSHED, op->turn, GYRE_WORDS_OF_ALL, list + count);
    int status = gyre_fold_queue_words_on(fold_queue, stream, list, count, trouble);
    if (!status)
        status = gyre_window_post_out(op->window, stream, trouble);
    return status ? status : gyre_fold_queue_words_on(fold_queue, stream, &pass, 1, trouble);
}

static int post_alone(struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t turn,
                      void *stream, struct gyre_trouble *trouble)
{
    int status = gyre_window_post_in(op->window, stream, &op->stream_wait, trouble);
    op->turn = turn;
    if (!status)
        status = post_arrival(mesh, op, stream, trouble);
    if (status) {
        op->turn = 0;
        return status;
    }
    gyre_alone_begin(mesh, op);
    status = gyre_moves_post_on(mesh, op, stream, trouble);
    if (!status)
        status = post_departure(mesh, op, stream, trouble);
    if (status)
        gyre_alone_record_half(mesh, trouble);
    return status;
}

int gyre_push_post_on(struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t turn,
                      void *stream, struct gyre_trouble *trouble)
{
    struct gyre_late_tables *tables = &mesh->mirrors->tables;
    int status = gyre_stream_wait_take(&op->stream_wait, GYRE_ALONE_FOLDED, trouble);
    if (status)
        return status;
    op->table = gyre_late_take(tables, mesh->mirrors->fold_queue, op->plan->push.whole->moves,
                               &op->stream_wait);
    if (op->table)
        return gyre_alone_may(mesh, turn) ? post_alone(mesh, op, turn, stream, trouble)
                                          : post_push(mesh, op, stream, trouble);
    gyre_stream_wait_give(&op->stream_wait);
    return post_bare(mesh, op, stream, trouble);
}

/* -- in a graph -------------------------------------------------------------------------------- */

/* How far a launch is, as its stream says. OUT: it has not begun, or it is over. */
enum launch { OUT, AWAITS_ARRIVED, FOLDS, AWAITS_PUSHED, LEAVES };

struct gyre_captured {
    struct gyre_pinned table;
    uint32_t output_region;
    bool resolved, cut; /* cut: a launch was under way when the job failed */
};

static struct gyre_captured_words *captured_words(const struct gyre_mesh *mesh, uint32_t number)
{
    return &mesh->inbox[mesh->rank]->captured[number];
}

/* Has the words that were seen set back, by a copy of what the host says they become. */
static int post_rest(const struct gyre_mesh *mesh, uint32_t number, enum gyre_inbox_word word,
                     void *stream, struct gyre_trouble *trouble)
{
    return gyre_moves_copy_on(mesh, stream, captured_words(mesh, number)->word[word],
                              mesh->inbox[mesh->rank]->rest, mesh->n * sizeof(uint64_t), trouble);
}

/* Tells peers, waits for theirs, and sets those back. */
static int post_meeting(const struct gyre_mesh *mesh, uint32_t number, enum gyre_inbox_word word,
                        void *stream, struct gyre_trouble *trouble)
{
    const bool first = word == GYRE_WORD_ARRIVED;
    struct gyre_captured_words *words = captured_words(mesh, number);
    struct gyre_stream_word list[GYRE_WORDS_POSTED_MAX];
    uint32_t count = gyre_words_to_tell_captured(mesh, word, number, list);
    list[count++] =
        (struct gyre_stream_word){&words->at, first ? AWAITS_ARRIVED : AWAITS_PUSHED, true};
    count += gyre_words_to_await_captured(mesh, word, number, list + count);
    list[count++] = (struct gyre_stream_word){&words->resolved, 1, false};
    list[count++] = (struct gyre_stream_word){&words->at, first ? FOLDS : LEAVES, true};
    int status = gyre_fold_queue_words_on(mesh->mirrors->fold_queue, stream, list, count, trouble);
    return status ? status : post_rest(mesh, number, word, stream, trouble);
}

/* The table of the copy of OUTPUT from a window, behind those of the moves. */
static void *table_of_return(const struct gyre_operation *op)
{
    return gyre_late_fold(op->table, op->plan->push.whole->moves);
}

static int post_captured(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                         void *stream, struct gyre_trouble *trouble)
{
    const uint32_t number = op->captured - 1;
    const struct gyre_stream_word out = {&captured_words(mesh, number)->at, OUT, true};
    int status = gyre_window_capture_in(op->window, stream, trouble);
    if (!status)
        status = post_meeting(mesh, number, GYRE_WORD_ARRIVED, stream, trouble);
    if (!status)
        status = gyre_moves_post_on(mesh, op, stream, trouble);
    if (!status)
        status = post_meeting(mesh, number, GYRE_WORD_PUSHED, stream, trouble);
    if (!status)
        status = gyre_window_capture_out(op->window, table_of_return(op), stream, trouble);
    return status ? status
                  : gyre_fold_queue_words_on(mesh->mirrors->fold_queue, stream, &out, 1, trouble);
}

int gyre_push_capture(struct gyre_mesh *mesh, struct gyre_operation *op, void *stream,
                      struct gyre_trouble *trouble)
{
    if (!mesh->captured)
        mesh->captured = calloc(GYRE_CAPTURED_MAX, sizeof(*mesh->captured));
    struct gyre_captured *captured = mesh->captured ? &mesh->captured[mesh->captured_count] : NULL;
    if (!captured || gyre_pinned_make(mesh->mirrors->fold_queue,
                                      (uint64_t)(op->plan->push.whole->moves + 1) * GYRE_FOLD_TABLE,
                                      &captured->table))
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for an operation of a graph");
    op->table = captured->table.memory;
    gyre_window_keep(op->window);
    op->captured = ++mesh->captured_count;
    op->fingerprint ^= CAPTURED_MARK;
    mesh->ahead++;
    int status = captured->table.locked
                     ? post_captured(mesh, op, stream, trouble)
                     : gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                                        "no locked memory for an operation of a graph: "
                                        "synchronise all streams before the capture");
    if (status)
        gyre_alone_record_half(mesh, trouble);
    return status;
}

static void resolve_captured(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    struct gyre_captured *captured = &mesh->captured[op->captured - 1];
    gyre_moves_fill(mesh, op);
    gyre_window_fill(op->window, table_of_return(op));
    captured->output_region = op->window ? 0 : op->output_region;
    captured->resolved = true;
    atomic_store(&captured_words(mesh, op->captured - 1)->resolved, 1);
}

/* Waits until no launch folds, nor sets words back, nor can begin to: `resolved` keeps those away
 * that have not passed. False: the time is over. */
static bool await_launch(const struct gyre_mesh *mesh, uint32_t number, uint64_t limit)
{
    struct gyre_captured_words *words = captured_words(mesh, number);
    while (gyre_now_ns() < limit && !mesh->mirrors->fold_queue->status) {
        const uint64_t at = atomic_load(&words->at);
        bool come = gyre_words_come_captured(mesh, GYRE_WORD_ARRIVED, number);
        bool steady = at == atomic_load(&words->at);
        if (steady && (at == OUT || at == AWAITS_PUSHED || (at == AWAITS_ARRIVED && !come)))
            return true;
        if (steady && at == AWAITS_ARRIVED)
            atomic_store(&words->resolved, 1); /* nothing keeps it from folding */
        sched_yield();
    }
    return false;
}

/* Lets launches pass from now on, which do nothing any more. */
static void stop_captured(struct gyre_mesh *mesh, uint32_t number, uint64_t limit)
{
    struct gyre_captured *captured = &mesh->captured[number];
    struct gyre_captured_words *words = captured_words(mesh, number);
    atomic_store(&words->resolved, 0);
    captured->cut = captured->resolved && atomic_load(&words->at) != OUT;
    if (captured->resolved && await_launch(mesh, number, limit))
        memset(captured->table.memory, 0, captured->table.bytes);
    atomic_store(&words->resolved, 1);
    gyre_words_fill_captured(mesh, number);
}

void gyre_captured_stop(struct gyre_mesh *mesh, uint64_t limit)
{
    if (!mesh->captured_count || mesh->captured_stopped)
        return;
    mesh->captured_stopped = true;
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        atomic_store(&mesh->inbox[mesh->rank]->rest[rank], 1);
    for (uint32_t i = 0; i < mesh->captured_count; i++)
        stop_captured(mesh, i, limit);
}

void gyre_captured_end(struct gyre_mesh *mesh, uint64_t limit)
{
    for (uint32_t i = 0; i < mesh->captured_count && !mesh->captured_stopped; i++)
        while (atomic_load(&captured_words(mesh, i)->at) != OUT && gyre_now_ns() < limit)
            sched_yield();
    gyre_captured_stop(mesh, limit);
}

/* Whether a peer may live, and so write. */
static bool some_peer_lives(const struct gyre_mesh *mesh)
{
    bool lives = false;
    for (uint32_t rank = 0; rank < mesh->n && !lives; rank++)
        lives = rank != mesh->rank &&
                !gyre_domain_peer_ended(mesh->domain, gyre_mesh_world(mesh, rank));
    return lives;
}

void gyre_captured_detach(struct gyre_mesh *mesh)
{
    for (uint32_t i = 0; i < mesh->captured_count && some_peer_lives(mesh); i++)
        if (mesh->captured[i].cut && mesh->captured[i].output_region)
            gyre_domain_detach(mesh->domain, mesh->captured[i].output_region);
}

/* -- either ------------------------------------------------------------------------------------ */

void gyre_push_resolve(const struct gyre_mesh *mesh, struct gyre_operation *op)
{
    if (op->captured)
        resolve_captured(mesh, op);
    else
        let_stream_fold(mesh, op);
    op->resolved = true;
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
    while (gyre_stream_wait_steps(way) < GYRE_ALONE_FOLDED && !mesh->mirrors->fold_queue->status &&
           gyre_now_ns() < limit)
        sched_yield();
}
