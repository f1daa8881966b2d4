/* Channels, and which of them are edges of the tree: see the picture in failure_detector.c.
 *
 * In a flat job a rank has a channel to every rank of its node and to rank 0. Rank 0 has one to
 * every rank. In a large node a rank has one to the lowest only, which sees every other end. The
 * tree's edges are the channels rank ─ lowest rank of its node ─ rank 0.
 *
 * In a job of many nodes the tree is deep, or rank 0 would hold a connection of each rank. Nodes
 * are a tree in the order of their numbers:
 *
 *      fan-out 2          node 0                 a rank of node 5: its channels are to its node and
 *                        ╱      ╲                to the ranks above it and below it
 *                    node 1    node 2
 *                    ╱   ╲     ╱   ╲             above: lowest of node 5, of node 2, rank 0
 *                   3     4   5     6            open: to the rank above, and to those just below
 *
 * Channels to all others above and below are closed: no connection is made over them until a rank
 * between the two is lost (orphan.c). What rank 0 tells all goes down the tree, and what it is told
 * goes up, from channel to channel.
 *
 * Tested by tests/unit/transport/watch/detect/failure_detector_test.c and, deep,
 * tests/unit/transport/watch/detect/tree_test.c. */
#include "transport/watch/detect/inside.h"

#include <errno.h>
#include <stdlib.h>

static bool same_node(const struct gyre_failure_detector *detector, uint32_t peer)
{
    return detector->is.member[peer].node == detector->is.member[detector->is.rank].node;
}

static uint32_t leader_of(const struct gyre_failure_detector *detector, uint32_t rank)
{
    return detector->lowest[detector->is.member[rank].node];
}

static bool is_deep(const struct gyre_failure_detector *detector)
{
    return detector->depth > 0;
}

uint32_t gyre_detector_parent(const struct gyre_failure_detector *detector, uint32_t rank)
{
    const uint32_t node = detector->is.member[rank].node;

    if (leader_of(detector, rank) != rank)
        return leader_of(detector, rank);
    return is_deep(detector) && node > 0
               ? detector->lowest[gyre_joined_node_above(node, detector->is.fan_out)]
               : 0;
}

/* -- drawing ----------------------------------------------------------------------------------- */

/* Notes the lowest rank of each node, and how deep the tree of nodes is. */
static void survey_nodes(struct gyre_failure_detector *detector)
{
    uint32_t nodes = 0;

    for (uint32_t rank = 0; rank < detector->is.n; rank++)
        if (detector->is.member[rank].node == nodes)
            detector->lowest[nodes++] = rank;
    for (uint32_t node = nodes - 1; detector->is.fan_out > 0 && node > 0;
         node = gyre_joined_node_above(node, detector->is.fan_out))
        detector->depth++;
    detector->leader = leader_of(detector, detector->is.rank);
}

static bool stands_above(const struct gyre_failure_detector *detector, uint32_t above,
                         uint32_t below)
{
    while (below > above)
        below = gyre_detector_parent(detector, below);
    return below == above;
}

static enum gyre_detector_kin kin_of(const struct gyre_failure_detector *detector, uint32_t peer)
{
    if (!is_deep(detector))
        return GYRE_KIN_NONE;
    if (stands_above(detector, peer, detector->is.rank))
        return GYRE_KIN_ABOVE;
    return stands_above(detector, detector->is.rank, peer) ? GYRE_KIN_BELOW : GYRE_KIN_NONE;
}

/* Whether this rank has a channel to that one of its node. */
static bool has_met(const struct gyre_failure_detector *detector, uint32_t peer)
{
    return !detector->is.large || peer == detector->leader || detector->is.rank == detector->leader;
}

static bool reaches(const struct gyre_failure_detector *detector, uint32_t peer)
{
    uint32_t rank = detector->is.rank;
    if (peer == rank)
        return false;
    if (same_node(detector, peer) && has_met(detector, peer))
        return true;
    return is_deep(detector) ? kin_of(detector, peer) != GYRE_KIN_NONE : rank == 0 || peer == 0;
}

static bool is_edge(const struct gyre_failure_detector *detector, uint32_t peer)
{
    const uint32_t rank = detector->is.rank;
    return gyre_detector_parent(detector, peer) == rank ||
           gyre_detector_parent(detector, rank) == peer;
}

static void draw_channels(struct gyre_failure_detector *detector)
{
    for (uint32_t peer = 0; peer < detector->is.n; peer++) {
        if (!reaches(detector, peer))
            continue;
        const bool edge = is_edge(detector, peer);
        detector->channel[detector->channels++] = (struct gyre_detector_channel){
            .peer = peer,
            .kin = kin_of(detector, peer),
            .tree_edge = edge,
            .closed = is_deep(detector) && !edge && !same_node(detector, peer),
            .heard_at = detector->clock,
        };
    }
    detector->up =
        gyre_detector_channel(detector, gyre_detector_parent(detector, detector->is.rank));
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
    detector->lowest = calloc(detector->is.n, sizeof *detector->lowest);
    if (detector->lowest == NULL)
        return -ENOMEM;
    survey_nodes(detector);
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

/* -- finding ----------------------------------------------------------------------------------- */

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

struct gyre_detector_channel *gyre_detector_root_channel(struct gyre_failure_detector *detector)
{
    if (detector->is.rank == 0)
        return NULL;
    if (!is_deep(detector))
        return detector->channel[0].gone ? NULL : &detector->channel[0];
    return detector->up >= 0 ? &detector->channel[detector->up] : NULL;
}

bool gyre_detector_is_above(const struct gyre_failure_detector *detector,
                            const struct gyre_detector_channel *channel)
{
    return is_deep(detector) ? channel->kin == GYRE_KIN_ABOVE : channel->peer == 0;
}

struct gyre_detector_channel *gyre_detector_way(struct gyre_failure_detector *detector,
                                                uint32_t rank)
{
    while (rank != detector->is.rank && rank < detector->is.n) {
        const int at = gyre_detector_channel(detector, rank);
        struct gyre_detector_channel *channel = at >= 0 ? &detector->channel[at] : NULL;
        if (channel != NULL && !channel->closed && !channel->gone)
            return channel;
        if (channel == NULL || channel->kin != GYRE_KIN_BELOW)
            return NULL;
        rank = gyre_detector_parent(detector, rank);
    }
    return NULL;
}

uint32_t gyre_detector_sender(const struct gyre_failure_detector *detector,
                              const struct gyre_detector_channel *source, uint32_t rank)
{
    const bool below = source->kin == GYRE_KIN_BELOW && rank < detector->is.n;
    return below && stands_above(detector, source->peer, rank) ? rank : source->peer;
}
