/* Channels between nodes whose connection broke while the peer may live.
 *
 *      open ── broken() ──▶ broken ── resumed() ──▶ open, everything owed once more
 *                             │
 *                             ├── eof(): the peer's process has ended ──▶ gone
 *                             └── nothing within the dead time ──▶ the failure
 *
 * A firewall that forgets a connection, or a segment that somebody forges, resets a connection
 * whose two ends are well. So the break of a channel is no death. The watch makes a new connection,
 * and only a peer that refuses it has ended.
 *
 * The old connection may have swallowed messages, and nobody knows which. No message has to be
 * counted, because each says what is, not what has changed: a failure, a goodbye and a state are
 * told again, and who knows them already learns nothing new. Only a warning, a line for a log, may
 * be lost on a rank.
 *
 * Tested by tests/unit/transport/watch/detect/resume_test.c. */
#include "transport/watch/detect/inside.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>
#include <inttypes.h>

#define UNRESUMED (10 * GYRE_SECOND) /* the limit where there is no dead time */

/* Whether this rank, which has told the peer that all have left, still waits for it to close: a
 * peer that is reset may not have heard it. */
static bool awaits_end(const struct gyre_failure_detector *detector,
                       const struct gyre_detector_channel *channel, int status)
{
    return (detector->is.rank == 0 || channel->kin == GYRE_KIN_BELOW) && status != -EPIPE;
}

bool gyre_detector_broken(struct gyre_failure_detector *detector, uint64_t now, uint32_t index,
                          int status)
{
    struct gyre_detector_channel *channel = &detector->channel[index];

    gyre_detector_advance(detector, now);
    if (channel->near || channel->gone ||
        (detector->all_left && !awaits_end(detector, channel, status)))
        return false;
    if (!channel->broken)
        channel->broken_at = detector->clock;
    channel->broken = true;
    channel->broken_by = status;
    return true;
}

/* Has the next messages tell the rank above once more: all states, goodbyes of ranks below, and
 * answers. */
static void refresh_states(struct gyre_failure_detector *detector,
                           struct gyre_detector_channel *above)
{
    for (uint32_t i = 0; i <= detector->channels; i++) {
        struct gyre_detector_post *post = &detector->post[i];
        const struct gyre_detector_channel *from = i > 0 ? &detector->channel[i - 1] : NULL;
        post->fresh = post->known;
        post->tell |= post->told;
        post->bye = from != NULL && from->kin == GYRE_KIN_BELOW && from->left;
        above->owed |= post->tell ? GYRE_OWED_TELL : 0;
        above->owed |= post->bye ? GYRE_OWED_RELAY : 0;
    }
}

/* Asks once more who was asked over this channel and has not answered. */
static void ask_again(struct gyre_failure_detector *detector,
                      const struct gyre_detector_channel *channel)
{
    for (uint32_t i = 0; i < detector->channels; i++)
        if (detector->channel[i].ask == GYRE_ASK_SENT &&
            gyre_detector_way(detector, detector->channel[i].peer) == channel)
            gyre_detector_ask(detector, detector->channel[i].peer);
}

static void owe_again(struct gyre_failure_detector *detector, struct gyre_detector_channel *channel)
{
    bool root = detector->is.rank == 0;

    if (detector->stage >= GYRE_DETECTOR_PROPOSED ||
        (detector->stage == GYRE_DETECTOR_HELD && channel == gyre_detector_root_channel(detector)))
        channel->owed |= GYRE_OWED_FAILURE;
    ask_again(detector, channel);
    if (detector->leaving)
        channel->owed |= GYRE_OWED_BYE;
    if ((root || channel->kin == GYRE_KIN_BELOW) && detector->all_left)
        channel->owed |= GYRE_OWED_ALL_BYE;
    if (channel->tree_edge)
        channel->owed |= GYRE_OWED_BEAT;
    if (detector->up >= 0 && channel == &detector->channel[detector->up])
        refresh_states(detector, channel);
}

void gyre_detector_resumed(struct gyre_failure_detector *detector, uint64_t now, uint32_t index)
{
    struct gyre_detector_channel *channel = &detector->channel[index];

    gyre_detector_advance(detector, now);
    channel->broken = channel->gone = channel->closed = false;
    channel->tree_edge |= channel->kin != GYRE_KIN_NONE; /* an orphan's, from now on */
    if (channel->kin == GYRE_KIN_ABOVE)
        detector->up = (int)index;
    channel->heard_at = detector->next_beat = detector->clock;
    owe_again(detector, channel);
}

bool gyre_detector_awaits(const struct gyre_failure_detector *detector, uint32_t channel)
{
    return detector->channel[channel].broken;
}

/* Whether the time of a broken channel is over. Where the peer's beats were to come over it, its
 * silence began with the last one. */
bool gyre_detector_overdue(const struct gyre_failure_detector *detector,
                           const struct gyre_detector_channel *channel)
{
    uint64_t dead = detector->is.dead_ns;
    bool beats = channel->tree_edge && channel->heard && dead > 0;
    uint64_t since = beats ? channel->heard_at : channel->broken_at;

    return channel->broken && !channel->left &&
           detector->clock - since > (dead > 0 ? dead : UNRESUMED);
}

bool gyre_detector_find_unresumed(struct gyre_failure_detector *detector,
                                  struct gyre_detector_record *record)
{
    for (uint32_t i = 0; i < detector->channels; i++) {
        struct gyre_detector_channel *channel = &detector->channel[i];
        if (channel->closed || !gyre_detector_overdue(detector, channel))
            continue;
        gyre_detector_call_orphans(detector, channel->peer);
        uint64_t limit = detector->is.dead_ns > 0 ? detector->is.dead_ns : UNRESUMED;
        gyre_detector_compose(
            detector, record, GYRE_PEER_LOST, channel->peer,
            "cannot be reached: its control channel broke (%s) and could not be made anew within "
            "the dead time (%" PRIu64 " ms, see GYRE_DEAD_TIME): it is stopped, or its host or the "
            "network to it is down",
            gyre_status_name(channel->broken_by), limit / GYRE_MS);
        return true;
    }
    return false;
}
