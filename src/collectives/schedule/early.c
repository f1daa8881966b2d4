/* Receives that are posted a round early.
 *
 *     round 3   SEND slot 1 ─▶    ◀─ RECV slot 0
 *     round 4   REDUCE slot 0 += INPUT           slot 1 is spared: round 5 receives from here on
 *     round 5   SEND slot 0 ─▶    ◀─ RECV slot 1
 *
 * The sender of a long message waits until it hears that the receive is posted. An early receive
 * takes that time out of the rounds. Tested by tests/unit/collectives/schedule/early_test.c. */
#include "collectives/schedule/early.h"

bool gyre_slice_looks_ahead(const struct gyre_slice *slice, uint64_t slices)
{
    return slices == 1 && gyre_slice_all_bytes(slice) > GYRE_EARLY_BYTES;
}

/* Whether two places share bytes. In place INPUT and OUTPUT are one memory. */
static bool places_overlap(const struct gyre_slice *slice, struct gyre_place a, uint64_t a_length,
                           struct gyre_place b, uint64_t b_length)
{
    int64_t shift = slice->in_place ? gyre_slice_shift(slice) : 0;
    int64_t from_a = (int64_t)a.offset + (a.buffer == GYRE_INPUT ? shift : 0);
    int64_t from_b = (int64_t)b.offset + (b.buffer == GYRE_INPUT ? shift : 0);
    bool one_memory = slice->in_place && a.buffer != GYRE_SCRATCH && b.buffer != GYRE_SCRATCH;
    return (a.buffer == b.buffer || one_memory) && from_a < from_b + (int64_t)b_length &&
           from_b < from_a + (int64_t)a_length;
}

/* Whether the step of a round reads or writes any of these bytes. */
static bool touches(const struct gyre_slice *slice, const struct gyre_round *round,
                    const struct gyre_step *step, struct gyre_place at, uint64_t length)
{
    if (places_overlap(slice, step->at, step->length, at, length))
        return true;
    for (uint32_t s = 0; s < step->sources; s++)
        if (places_overlap(slice, round->source[step->first + s], step->length, at, length))
            return true;
    return false;
}

bool gyre_round_admits(const struct gyre_slice *slice, const struct gyre_round *round,
                       const struct gyre_step *step)
{
    if (step->kind != GYRE_RECV || step->length <= GYRE_EARLY_BYTES)
        return false;
    for (uint32_t i = 0; i < round->steps; i++)
        if (touches(slice, round, &round->step[i], step->at, step->length))
            return false;
    return true;
}
