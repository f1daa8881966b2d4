/* EXCHANGE in the order of a caller's stream. All of it stands on the stream from the call on, and
 * the stream needs no host any more:
 *
 *      the host     line ─▶ lines of those whose INPUT it folds: one operation?
 *      the stream   … ─▶ INPUT into the payload ─▶ arrived, to all ─▶ waits for arrived of those
 *                     ─▶ kernel, from their payloads ─▶ passed ─▶ …
 *
 * Payloads and words are in inboxes (words.h), which are locked, so a device reads a payload
 * whichever way its rank has written it. A rank without a stream has written payload and line
 * together, and no words: there this rank's host, which reads the line, stands in for the peer.
 *
 * Nobody but the stream writes OUTPUT. So a stream that a failure lets go does no harm: what it
 * folds then is worthless. Two ranks in different operations are noticed by their hosts, before or
 * behind the fold.
 *
 * Tested by tests/program/cuda/alone/exchange.c. */
#include "collectives/mapped/device/exchange_stream.h"

#include "collectives/mapped/device/alone.h"
#include "collectives/mapped/device/moves.h"
#include "collectives/mapped/device/words.h"
#include "collectives/mapped/exchange.h"

#define MOVES_MOST 64u /* that stand on a stream, a kernel each */

/* The peers whose INPUT this rank folds, as bits. */
static uint64_t sources_of(const struct gyre_mesh *mesh, const struct gyre_plan *plan)
{
    uint64_t ranks = 0;
    for (uint32_t m = 0; m < plan->exchange.moves->moves; m++)
        for (uint32_t s = 0; s < plan->exchange.moves->move[m].sources; s++)
            ranks |= UINT64_C(1) << plan->exchange.moves->move[m].source[s].rank;
    return ranks & ~(UINT64_C(1) << mesh->rank);
}

/* -- at the call ------------------------------------------------------------------------------- */

static bool is_devices(const struct gyre_request_buffer *buffer)
{
    return !buffer->bytes || gyre_request_on_device(buffer);
}

bool gyre_exchange_suits_stream(struct gyre_mesh *mesh, const struct gyre_plan *plan,
                                const struct gyre_request *request, uint64_t turn)
{
    return plan->form == GYRE_FORM_EXCHANGE && !plan->shape.fold &&
           plan->exchange.moves->moves <= MOVES_MOST && is_devices(&request->input) &&
           is_devices(&request->output) && request->input.bytes + request->output.bytes &&
           gyre_alone_may(mesh, turn);
}

static int post_payload(const struct gyre_mesh *mesh, const struct gyre_operation *op, void *stream,
                        struct gyre_trouble *trouble)
{
    const uint64_t bytes = op->plan->exchange.published_bytes;
    return bytes
               ? gyre_moves_copy_on(mesh, stream, gyre_exchange_payload(mesh, mesh->rank, op->turn),
                                    op->input, bytes, trouble)
               : 0;
}

/* A rank whose INPUT nobody reads tells nobody. */
static int post_exchange_words(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                               void *stream, struct gyre_trouble *trouble)
{
    const struct gyre_stream_wait *way = &op->stream_wait;
    struct gyre_stream_word list[GYRE_WORDS_POSTED_MAX];
    uint32_t count = 0;
    if (op->plan->exchange.published_bytes)
        count = gyre_words_to_tell(mesh, GYRE_WORD_ARRIVED, op->turn, list);
    list[count++] = (struct gyre_stream_word){way->arrived, way->before + GYRE_ALONE_ARRIVED, true};
    count += gyre_words_to_await(mesh, GYRE_WORD_ARRIVED, op->turn, sources_of(mesh, op->plan),
                                 list + count);
    return gyre_fold_queue_words_on(mesh->mirrors->fold_queue, stream, list, count, trouble);
}

static int post_exchange_end(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                             void *stream, struct gyre_trouble *trouble)
{
    const struct gyre_stream_wait *way = &op->stream_wait;
    const struct gyre_stream_word pass[] = {{way->arrived, way->before + GYRE_ALONE_FOLDED, true},
                                            {way->passed, way->value, true}};
    return gyre_fold_queue_words_on(mesh->mirrors->fold_queue, stream, pass, 2, trouble);
}

/* Puts all of the operation behind its payload on the stream. Payloads are used again: without the
 * words that tell when the stream is past its own, nobody could know. So there is no way back. */
static int post_behind_payload(struct gyre_mesh *mesh, struct gyre_operation *op, void *stream,
                               struct gyre_trouble *trouble)
{
    int status = post_exchange_words(mesh, op, stream, trouble);
    if (!status) {
        gyre_alone_begin(mesh, op);
        status = gyre_moves_exchange_on(mesh, op, stream, trouble);
    }
    if (!status)
        status = post_exchange_end(mesh, op, stream, trouble);
    if (status)
        gyre_alone_record_half(mesh, trouble);
    return status;
}

/* The host runs the operation. */
static void leave_stream(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_trouble trouble = {0};
    op->turn = 0;
    if (gyre_mirror_leave_device(mesh->mirrors, op, &trouble))
        gyre_alone_record_half(mesh, &trouble);
}

int gyre_exchange_post_on(struct gyre_mesh *mesh, struct gyre_operation *op, uint64_t turn,
                          void *stream, struct gyre_trouble *trouble)
{
    int status = gyre_stream_wait_take(&op->stream_wait, GYRE_ALONE_FOLDED, trouble);
    op->turn = turn;
    if (!status)
        status = post_payload(mesh, op, stream, trouble);
    if (!status)
        return post_behind_payload(mesh, op, stream, trouble);
    leave_stream(mesh, op);
    return status;
}

/* -- the books --------------------------------------------------------------------------------- */

void gyre_exchange_announce(struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    struct gyre_line *line = gyre_own_line(mesh, op->turn);
    line->fingerprint = op->fingerprint;
    atomic_store_explicit(&line->stamp, op->turn | GYRE_STAMP_OF_STREAM, memory_order_release);
}

/* Looks at a peer's line, and stands in for a peer whose host has written the payload. GYRE_AGAIN:
 * the line has not come; GYRE_MISMATCH. */
static int look_at_line(const struct gyre_mesh *mesh, const struct gyre_operation *op,
                        uint32_t rank)
{
    const struct gyre_line *line = gyre_peer_line(mesh, rank, op->turn);
    const uint64_t stamp = atomic_load_explicit(&line->stamp, memory_order_acquire);
    if ((stamp & ~GYRE_STAMP_OF_STREAM) != op->turn)
        return GYRE_AGAIN;
    if (line->fingerprint != op->fingerprint)
        return GYRE_MISMATCH;
    if (stamp == op->turn)
        gyre_words_stand_in(mesh, GYRE_WORD_ARRIVED, rank, op->turn);
    return 0;
}

bool gyre_exchange_resolve(struct gyre_mesh *mesh, struct gyre_operation *op)
{
    struct gyre_turn *turn = &mesh->current;
    const uint64_t sources = sources_of(mesh, op->plan);
    const uint32_t before = turn->resolved;
    for (; turn->resolved < mesh->n; turn->resolved++) {
        int state = sources >> turn->resolved & 1 ? look_at_line(mesh, op, turn->resolved) : 0;
        if (state == GYRE_MISMATCH)
            gyre_turn_mismatch(mesh, turn->resolved, op->sequence);
        if (state)
            return turn->resolved > before;
    }
    op->resolved = true;
    turn->op = NULL;
    return true;
}

uint32_t gyre_exchange_waits_on(const struct gyre_mesh *mesh, const struct gyre_operation *op)
{
    const uint64_t sources = sources_of(mesh, op->plan);
    for (uint32_t rank = 0; rank < mesh->n; rank++)
        if (sources >> rank & 1 && !gyre_words_came(mesh, GYRE_WORD_ARRIVED, rank, op->turn))
            return gyre_mesh_world(mesh, rank);
    return GYRE_RECORD_NOBODY;
}
