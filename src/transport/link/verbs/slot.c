/* Short messages that are seen in memory, before the device tells of them.
 *
 *     slot  │ … │ frame │ length 2 │ epoch 2 │ arrived 4 │ sum 4 │ sequence 4 │       256 bytes
 *
 * A record goes to a slot, and not to the inbox, if it is one short message and travels in the
 * request itself. Record i goes to slot i modulo the window. The record stands at the slot's end,
 * so that the sequence, i + 1, is written last. The request has an immediate like all records; the
 * receiver looks at the next record's slot first, and the completion of a record that was seen so
 * only renews its receive. Nothing depends on being seen: where a network brings the parts of a
 * write in another order the sum is wrong, which is "not yet", and the completion tells.
 *
 * Nothing overtakes: the receiver looks only at the slot of the record that is due, and takes it
 * only when as many long messages have arrived as were written before it. A slot is written again
 * when its record is consumed, and a record is acknowledged when its completion has come. In the
 * outbox the record has its bytes like others, for a fallback.
 * Tested by tests/unit/transport/link/verbs/offer_test.c. */
#include "transport/link/verbs/peer.h"

#include "base/bytes.h"
#include "base/crc.h"

#include <infiniband/verbs.h>
#include <string.h>

#define TRAILER 16u
#define SUMMED  8u /* of the trailer, and the sequence */

static uint32_t sum_of(const uint8_t *frame, uint32_t length)
{
    const uint8_t *trailer = frame + length;
    return gyre_crc32c(gyre_crc32c(0, frame, length + SUMMED), trailer + TRAILER - 4, 4);
}

/* -- out --------------------------------------------------------------------------------------- */

bool gyre_verbs_slot_fits(const struct gyre_verbs_pipe *pipe, uint32_t length)
{
    return length + TRAILER <= pipe->queue->inline_most && length + TRAILER <= GYRE_VERBS_SLOT;
}

void gyre_verbs_slot_put(struct gyre_verbs_pipe *pipe, uint32_t number, uint8_t *frame,
                         uint32_t length)
{
    uint8_t *trailer = frame + length;
    gyre_put16(trailer, (uint16_t)length);
    gyre_put16(trailer + 2, pipe->wire->epoch);
    gyre_put32(trailer + 4, pipe->announced);
    gyre_put32(trailer + 12, number + 1);
    gyre_put32(trailer + 8, sum_of(frame, length));
    const struct gyre_verbs_end *theirs = &pipe->queue->theirs;
    uint64_t end = theirs->slots + (number % theirs->window + 1) * GYRE_VERBS_SLOT;
    gyre_verbs_queue_put(pipe->queue,
                         &(struct gyre_verbs_request){.from = frame,
                                                      .key = pipe->wire->outboxes->lkey,
                                                      .length = length + TRAILER,
                                                      .to = end - length - TRAILER,
                                                      .to_key = theirs->key,
                                                      .tells = true,
                                                      .kind = GYRE_VERBS_RECORD_CAME,
                                                      .word = length | GYRE_VERBS_IN_SLOT});
}

/* -- in ---------------------------------------------------------------------------------------- */

static bool has_sequence(const uint8_t *slot, uint32_t sequence)
{
    uint8_t raw[4];
    uint32_t word =
        __atomic_load_n((const uint32_t *)(slot + GYRE_VERBS_SLOT - 4), __ATOMIC_ACQUIRE);
    memcpy(raw, &word, sizeof raw);
    return gyre_get32(raw) == sequence;
}

uint32_t gyre_verbs_slot_read(const struct gyre_verbs_pipe *pipe, uint32_t number,
                              uint8_t frame[GYRE_VERBS_SLOT])
{
    const uint8_t *slot = pipe->slots + number % pipe->queue->mine.window * GYRE_VERBS_SLOT;
    uint8_t trailer[TRAILER];
    if (!has_sequence(slot, number + 1))
        return 0;
    memcpy(trailer, slot + GYRE_VERBS_SLOT - TRAILER, TRAILER);
    uint32_t length = gyre_get16(trailer);
    if (!length || length > GYRE_VERBS_SLOT - TRAILER ||
        gyre_get16(trailer + 2) != pipe->wire->epoch || gyre_get32(trailer + 4) != pipe->arrived ||
        gyre_get32(trailer + 12) != number + 1)
        return 0;
    memcpy(frame, slot + GYRE_VERBS_SLOT - TRAILER - length, length);
    memcpy(frame + length, trailer, TRAILER);
    return gyre_get32(trailer + 8) == sum_of(frame, length) ? length : 0;
}
