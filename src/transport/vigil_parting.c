/* Who has left too early.
 *
 * A goodbye carries how far its sender got. What it has not started by then it will never start:
 *
 *      rank 1:  operation 1, 2, goodbye(2)     rank 0:  operation 1, 2, 3 … waits for rank 1
 *
 * On shared memory nothing breaks when a rank leaves, so nobody but the watch can tell. It looks
 * when a goodbye comes, at every beat, and once more when this rank says its own goodbye: then both
 * have finished everything, and must have finished the same. That also finds a root that got away
 * with a call in which nobody followed it. */
#include "transport/vigil_inside.h"

#include "transport/signature.h"

#include <inttypes.h>
#include <stdio.h>

/* The first operation that this rank has started and the other never will; 0: none. */
static uint64_t never_joined(const struct gyre_watch_state *mine,
                             const struct gyre_watch_state *last)
{
    uint64_t sequence, finished;

    if (mine->comm == GYRE_WATCH_PAIRS || mine->finished >= mine->sequence ||
        !gyre_roll_progress(last, mine->comm, &sequence, &finished) || sequence >= mine->sequence)
        return 0;
    return (sequence > mine->finished ? sequence : mine->finished) + 1;
}

static void tell_left(struct gyre_vigil *vigil, const struct gyre_vigil_channel *channel,
                      uint64_t number, const char *how)
{
    struct gyre_vigil_record record;
    uint64_t sequence = 0, finished = 0;
    uint32_t comm = vigil->mine.comm;
    char of[40] = "", call[128] = "";

    gyre_roll_progress(&channel->last, comm, &sequence, &finished);
    if (comm != 0)
        snprintf(of, sizeof of, " of communicator %" PRIu32, comm & GYRE_WATCH_COMM_MASK);
    if (number == vigil->mine.sequence)
        gyre_signature_text(call, sizeof call, vigil->mine.signature, vigil->mine.count);
    gyre_vigil_compose(vigil, &record, GYRE_MISMATCH, channel->peer,
                       "has left by gyre_finalize() after operation %" PRIu64
                       "%s, but rank %u %s operation %" PRIu64
                       "%s%s%s: every rank must call the same operations in the same order",
                       sequence, of, vigil->is.rank, how, number, call[0] ? " (" : "", call,
                       call[0] ? ")" : "");
    gyre_vigil_found(vigil, &record);
}

/* Both have finished. What a state does not tell of was over long ago. */
static void compare_ends(struct gyre_vigil *vigil, const struct gyre_vigil_channel *channel)
{
    const struct gyre_watch_state *mine = &vigil->mine, *last = &channel->last;
    struct gyre_roll_finding finding;
    struct gyre_vigil_record record = {.status = GYRE_MISMATCH, .rank = GYRE_NOBODY};

    if (mine->comm != last->comm || mine->comm == GYRE_WATCH_PAIRS)
        return;
    if (last->sequence < mine->sequence) {
        tell_left(vigil, channel, mine->sequence, "has called");
    } else if (last->sequence == mine->sequence && last->fingerprint != mine->fingerprint) {
        gyre_roll_tell(mine, last, &finding);
        snprintf(record.text, sizeof record.text, "%s", finding.text);
        gyre_vigil_found(vigil, &record);
    }
}

void gyre_vigil_compare(struct gyre_vigil *vigil, const struct gyre_vigil_channel *channel)
{
    uint64_t number;

    if (!channel->left || vigil->stage >= GYRE_VIGIL_PROPOSED || vigil->all_left)
        return;
    number = never_joined(&vigil->mine, &channel->last);
    if (number > 0)
        tell_left(vigil, channel, number, "waits in");
    else if (vigil->leaving)
        compare_ends(vigil, channel);
}
