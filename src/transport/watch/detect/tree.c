/* Channels, and which of them are edges of the tree: see the picture in failure_detector.c.
 *
 * A rank has a channel to every rank of its node and to rank 0. Rank 0 has one to every rank. In a
 * large node a rank has one to the lowest only, which sees every other end. The tree's edges are
 * the channels rank ─ lowest rank of its node ─ rank 0.
 *
 * Tested by tests/unit/transport/watch/detect/failure_detector_test.c. */
#include "transport/watch/detect/inside.h"

#include <errno.h>
#include <stdlib.h>

static bool same_node(const struct gyre_failure_detector *detector, uint32_t peer)
{
    return detector->is.member[peer].node == detector->is.member[detector->is.rank].node;
}

static uint32_t leader_of(const struct gyre_failure_detector *detector, uint32_t rank)
{
    uint32_t first = 0;

    while (detector->is.member[first].node != detector->is.member[rank].node)
        first++;
    return first;
}

uint32_t gyre_detector_parent(const struct gyre_failure_detector *detector)
{
    return detector->leader == detector->is.rank ? 0 : detector->leader;
}

/* Whether this rank has a channel to that one of its node. */
static bool has_met(const struct gyre_failure_detector *detector, uint32_t peer)
{
    return !detector->is.large || peer == detector->leader || detector->is.rank == detector->leader;
}

static bool reaches(const struct gyre_failure_detector *detector, uint32_t peer)
{
    uint32_t rank = detector->is.rank;
    return peer != rank &&
           (rank == 0 || peer == 0 || (same_node(detector, peer) && has_met(detector, peer)));
}

static bool below(const struct gyre_failure_detector *detector, uint32_t peer)
{
    bool leads = detector->leader == detector->is.rank;

    if (same_node(detector, peer))
        return leads;
    return detector->is.rank == 0 && leader_of(detector, peer) == peer;
}

static void draw_channels(struct gyre_failure_detector *detector)
{
    for (uint32_t peer = 0; peer < detector->is.n; peer++) {
        if (!reaches(detector, peer))
            continue;
        detector->channel[detector->channels++] = (struct gyre_detector_channel){
            .peer = peer,
            .tree_edge = below(detector, peer) ||
                         (detector->is.rank != 0 && peer == gyre_detector_parent(detector)),
            .heard_at = detector->clock,
        };
    }
}

static uint32_t count_channels(const struct gyre_failure_detector *detector)
{
    uint32_t count = 0;

    for (uint32_t peer = 0; peer < detector->is.n; peer++)
        count += reaches(detector, peer);
    return count;
}

int gyre_detector_make_channels(struct gyre_failure_detector *detector)
{
    detector->leader = leader_of(detector, detector->is.rank);
    uint32_t count = count_channels(detector);

    detector->channel = calloc(count + 1, sizeof *detector->channel);
    detector->post = calloc(detector->is.rank == 0 ? 1 : count + 1, sizeof *detector->post);
    if (detector->channel == NULL || detector->post == NULL)
        return -ENOMEM;
    draw_channels(detector);
    if (detector->is.rank != 0)
        return 0;
    struct gyre_audit_limits limits = {.patience_ns = detector->is.patience_ns,
                                       .dead_ns = detector->is.dead_ns,
                                       .timeout_ns = detector->is.timeout_ns};
    return gyre_audit_create(detector->is.n, &limits, &detector->audit);
}

uint32_t gyre_detector_channels(const struct gyre_failure_detector *detector)
{
    return detector->channels;
}

uint32_t gyre_detector_peer(const struct gyre_failure_detector *detector, uint32_t channel)
{
    return detector->channel[channel].peer;
}

int gyre_detector_channel(const struct gyre_failure_detector *detector, uint32_t peer)
{
    uint32_t low = 0, high = detector->channels;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (detector->channel[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < detector->channels && detector->channel[low].peer == peer ? (int)low : -1;
}
