/* The inquiry about a mismatch that a link found.
 *
 * The link knows two ranks whose calls differ, but not their calls: their watches know. Rank 0 asks
 * both, and the rank that found the mismatch waits for rank 0's decision:
 *
 *      rank 3: HELD ── FAILURE, held ──▶ rank 0: HELD ── ASK ──▶ ranks 3 and 5
 *                                          ▲                        │
 *                                          └────────── TELL ────────┘ what each does by now
 *                                        compares the two: the text has both calls, DECIDED
 *
 * A watch that is kept from running answers late. While a rank that was asked lives and has not
 * answered, all ranks wait for the answer, up to a part of the dead time (failure.c). Where the two
 * states do not tell how the calls differ (the calls are too long ago, or were messages), the call
 * audit still has its usual time to find more.
 *
 * outbox.c asks; this file hears the answers and compares them. The call audit has ranks asked in
 * the same way before it tells what a rank has not done (audit.c). */
#include "transport/watch/detect/inside.h"

#include <string.h>

/* Passes the answer of a rank below on, upwards. */
static void pass_answer(struct gyre_failure_detector *detector, struct gyre_detector_post *post,
                        const struct gyre_watch_state *state)
{
    struct gyre_detector_channel *root = gyre_detector_root_channel(detector);

    post->state = *state;
    post->fresh = post->known = post->tell = true;
    if (root != NULL)
        root->owed |= GYRE_OWED_TELL;
}

void gyre_detector_hear_tell(struct gyre_failure_detector *detector,
                             const struct gyre_detector_channel *source,
                             const struct gyre_watch_message *message)
{
    struct gyre_watch_state state;

    memset(&state, 0, sizeof state);
    gyre_watch_state_decode(message->payload, &state);
    state.rank = gyre_detector_sender(detector, source, state.rank);
    const int from = gyre_detector_channel(detector, state.rank);
    if (from >= 0)
        detector->channel[from].ask = GYRE_ASK_NONE;
    if (detector->audit == NULL) {
        if (from >= 0 && source->kin == GYRE_KIN_BELOW)
            pass_answer(detector, &detector->post[1 + from], &state);
        return;
    }
    gyre_audit_answer(detector->audit, detector->clock, &state);
    for (int i = 0; i < 2; i++)
        detector->side[i].told |= detector->side[i].rank == state.rank;
    detector->next_beat = detector->clock;
}

/* Whether the rank has answered, or never will. Rank 0's own state is in the audit. */
static bool has_told(const struct gyre_failure_detector *detector,
                     const struct gyre_detector_side *side)
{
    int channel = side->told ? -1 : gyre_detector_channel(detector, side->rank);

    return channel < 0 || detector->channel[channel].left || detector->channel[channel].gone;
}

void gyre_detector_settle_inquiry(struct gyre_failure_detector *detector)
{
    struct gyre_audit_finding finding;
    struct gyre_detector_record record = {.status = GYRE_MISMATCH, .rank = GYRE_NOBODY};

    if (detector->audit == NULL || detector->stage != GYRE_DETECTOR_HELD ||
        detector->record.status != GYRE_MISMATCH)
        return;
    if (!has_told(detector, &detector->side[0]) || !has_told(detector, &detector->side[1]))
        return;
    gyre_detector_all_told(detector);
    if (!gyre_audit_compare(detector->audit, detector->side[0].rank, detector->side[1].rank,
                            &finding))
        return;
    memcpy(record.text, finding.text, sizeof record.text);
    gyre_detector_found(detector, &record);
}
