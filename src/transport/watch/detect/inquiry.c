/* A mismatch that a link found. The link knows two ranks whose calls differ, but not what either
 * called: their watches know. So rank 0 asks both, and who found it waits for rank 0's word:
 *
 *      rank 3: HELD ── FAILURE, held ──▶ rank 0: HELD ── ASK ──▶ ranks 3 and 5
 *                                          ▲                        │
 *                                          └────────── TELL ────────┘ what each does by now
 *                                        compares them: the story has both calls, DECIDED
 *
 * A watch that is kept from running answers late, which is no reason to tell less: while a rank that
 * was asked lives and has not answered, all wait for it, up to a part of the dead time
 * (failure.c). Where the two have nothing to tell (their calls are too long ago, or it was a
 * message), the roll call has the time that it always had to find more. */
#include "transport/watch/detect/inside.h"

#include <string.h>

static void ask(struct gyre_vigil *vigil, struct gyre_vigil_side *side, uint32_t rank)
{
    int channel = rank < vigil->is.n ? gyre_vigil_channel(vigil, rank) : -1;

    *side = (struct gyre_vigil_side){.rank = rank, .told = rank >= vigil->is.n};
    if (channel >= 0 && !vigil->channel[channel].gone)
        vigil->channel[channel].owed |= GYRE_OWED_ASK;
}

void gyre_vigil_doubt(struct gyre_vigil *vigil, uint32_t holder, uint32_t other)
{
    ask(vigil, &vigil->side[0], holder);
    ask(vigil, &vigil->side[1], other);
    vigil->next_beat = vigil->clock; /* rank 0's own state, too, shall be of now */
}

void gyre_vigil_hear_tell(struct gyre_vigil *vigil, const struct gyre_vigil_channel *source,
                          const struct gyre_watch_message *message)
{
    struct gyre_watch_state state;

    if (vigil->roll == NULL)
        return;
    memset(&state, 0, sizeof state);
    gyre_watch_state_decode(message->payload, &state);
    state.rank = source->peer; /* whatever it says */
    gyre_roll_hear(vigil->roll, vigil->clock, &state);
    for (int i = 0; i < 2; i++)
        vigil->side[i].told |= vigil->side[i].rank == source->peer;
    vigil->next_beat = vigil->clock;
}

/* It has answered, or never will. Rank 0's own state is in the roll. */
static bool has_told(const struct gyre_vigil *vigil, const struct gyre_vigil_side *side)
{
    int channel = side->told ? -1 : gyre_vigil_channel(vigil, side->rank);

    return channel < 0 || vigil->channel[channel].left || vigil->channel[channel].gone;
}

void gyre_vigil_settle_doubt(struct gyre_vigil *vigil)
{
    struct gyre_roll_finding finding;
    struct gyre_vigil_record record = {.status = GYRE_MISMATCH, .rank = GYRE_NOBODY};

    if (vigil->roll == NULL || vigil->stage != GYRE_VIGIL_HELD ||
        vigil->record.status != GYRE_MISMATCH)
        return;
    if (!has_told(vigil, &vigil->side[0]) || !has_told(vigil, &vigil->side[1]))
        return;
    gyre_vigil_all_told(vigil);
    if (!gyre_roll_compare(vigil->roll, vigil->side[0].rank, vigil->side[1].rank, &finding))
        return;
    memcpy(record.text, finding.text, sizeof record.text);
    gyre_vigil_found(vigil, &record);
}
