/* A mismatch that a link found. The link knows two ranks whose calls differ, but not what either
 * called: their watches know. So rank 0 asks both, and who found it waits for rank 0's word:
 *
 *      rank 3: HELD ── FAILURE, held ──▶ rank 0: HELD ── ASK ──▶ ranks 3 and 5
 *                                          ▲                        │
 *                                          └────────── TELL ────────┘ what each does by now
 *                                        compares them: the story has both calls, DECIDED
 *
 * A watch that is kept from running answers late, which is no reason to tell less: while a rank
 * that was asked lives and has not answered, all wait for it, up to a part of the dead time
 * (failure.c). Where the two have nothing to tell (their calls are too long ago, or it was a
 * message), the call audit has the time that it always had to find more. */
#include "transport/watch/detect/inside.h"

#include <string.h>

void gyre_detector_hear_tell(struct gyre_failure_detector *detector,
                             const struct gyre_detector_channel *source,
                             const struct gyre_watch_message *message)
{
    struct gyre_watch_state state;

    if (detector->audit == NULL)
        return;
    memset(&state, 0, sizeof state);
    gyre_watch_state_decode(message->payload, &state);
    state.rank = source->peer; /* whatever it says */
    gyre_audit_hear(detector->audit, detector->clock, &state);
    for (int i = 0; i < 2; i++)
        detector->side[i].told |= detector->side[i].rank == source->peer;
    detector->next_beat = detector->clock;
}

/* It has answered, or never will. Rank 0's own state is in the audit. */
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
