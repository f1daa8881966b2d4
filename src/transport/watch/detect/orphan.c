/* Ranks whose rank above in a deep tree is lost.
 *
 *      0 ─ 1 ─ 17        rank 1 has ended, is silent, or cannot be reached
 *      ╰╌╌╌╌╌╌ 17        rank 17 opens its closed channel to the next above, and goes on over it
 *
 * Rank 17 has something to tell, and waits for what rank 0 decides. So its channel to rank 0, or to
 * the next rank above that lives, counts as broken from then on, and the watch makes a connection
 * as for any that broke. The rank above takes it as one that comes back. From then on it is an edge
 * of the tree. Both ends tell what the other must know, as after any break (resume.c).
 *
 * The rank above the lost one calls its orphans, too. One that is stopped has ranks below that have
 * not missed it yet, and they shall hear what is decided about it before this process ends.
 *
 * The same is done where a failure waits and the rank above says nothing for 100 ms: it may be
 * stopped, and rank 0 may long have decided (failure.c).
 *
 * No failure follows where that connection cannot be made: the end of rank 1 is one, and a rank
 * that leaves ends none. The next rank above is tried. Without one this rank decides by itself.
 *
 * Tested by tests/unit/transport/watch/detect/tree_test.c. */
#include "transport/watch/detect/inside.h"

/* Has the watch make the first connection of a channel. */
static void await_first(const struct gyre_failure_detector *detector,
                        struct gyre_detector_channel *channel)
{
    if (!channel->closed || channel->gone || channel->broken)
        return;
    channel->broken = true;
    channel->broken_at = detector->clock;
}

/* The channel to the next rank above `rank` that is not lost; -1: there is none. */
static int next_above(const struct gyre_failure_detector *detector, uint32_t rank)
{
    while (rank != 0) {
        rank = gyre_detector_parent(detector, rank);
        const int at = gyre_detector_channel(detector, rank);
        if (at >= 0 && !detector->channel[at].gone)
            return at;
    }
    return -1;
}

bool gyre_detector_climb(struct gyre_failure_detector *detector,
                         const struct gyre_detector_channel *lost)
{
    if (detector->depth == 0 || detector->all_left || detector->up < 0 ||
        lost != &detector->channel[detector->up])
        return true;
    detector->up = next_above(detector, lost->peer);
    if (detector->up < 0)
        return false;
    detector->channel[detector->up].tree_edge = true;
    await_first(detector, &detector->channel[detector->up]);
    return true;
}

void gyre_detector_climb_past(struct gyre_failure_detector *detector)
{
    if (detector->depth > 0 && detector->up >= 0 &&
        next_above(detector, detector->channel[detector->up].peer) >= 0)
        (void)gyre_detector_climb(detector, &detector->channel[detector->up]);
}

void gyre_detector_call_orphans(struct gyre_failure_detector *detector, uint32_t lost)
{
    for (uint32_t i = 0; detector->depth > 0 && !detector->all_left && i < detector->channels;
         i++) {
        struct gyre_detector_channel *channel = &detector->channel[i];
        if (channel->kin == GYRE_KIN_BELOW && gyre_detector_parent(detector, channel->peer) == lost)
            await_first(detector, channel);
    }
}

void gyre_detector_called(struct gyre_failure_detector *detector, uint64_t now, uint32_t index)
{
    struct gyre_detector_channel *channel = &detector->channel[index];

    gyre_detector_advance(detector, now);
    if (channel->kin == GYRE_KIN_ABOVE && !detector->all_left)
        await_first(detector, channel);
}
