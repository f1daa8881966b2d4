/* Channels, and which of them are edges of the tree: see the picture in failure_detector.c.
 *
 * In a flat job a rank has a channel to every rank of its node and to rank 0. Rank 0 has one to
 * every rank. The tree's edges are the channels rank ─ lowest rank of its node ─ rank 0.
 *
 * In a job of many nodes, or with a large one, the tree is deep, or rank 0 would hold a connection
 * of each rank. Nodes are a tree in the order of their numbers, and so are the ranks of a large
 * node in the order of their places:
 *
 *      fan-out 2          node 0                 a rank of node 5: its channels are to its node and
 *                        ╱      ╲                to the ranks above it and below it
 *                    node 1    node 2
 *                    ╱   ╲     ╱   ╲             above: lowest of node 5, of node 2, rank 0
 *                   3     4   5     6            open: to the rank above, and to those just below
 *
 * A rank of a large node has no channels to ranks beside it. Channels to all others above and below
 * are closed: no connection is made over them until a rank between the two is lost (orphan.c).
 * What rank 0 tells all goes down the tree, and what it is told goes up, from channel to channel.
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

static uint32_t lowest_of(const struct gyre_failure_detector *detector, uint32_t node)
{
    return detector->order[detector->first[node]];
}

static bool is_deep(const struct gyre_failure_detector *detector)
{
    return detector->depth > 0;
}

/* Whether the rank's node is large, so that its ranks are a tree. */
static bool is_of_large(const struct gyre_failure_detector *detector, uint32_t rank)
{
    return detector->is.fan_out > 0 && detector->is.member[rank].large;
}

uint32_t gyre_detector_parent(const struct gyre_failure_detector *detector, uint32_t rank)
{
    const uint32_t node = detector->is.member[rank].node, place = detector->place[rank];

    if (place > 0)
        return detector
            ->order[detector->first[node] + (is_of_large(detector, rank)
                                                 ? gyre_joined_above(place, detector->is.fan_out)
                                                 : 0)];
    return is_deep(detector) && node > 0
               ? lowest_of(detector, gyre_joined_above(node, detector->is.fan_out))
               : 0;
}

/* -- drawing ----------------------------------------------------------------------------------- */

/* Lists the ranks node after node, each node's by place. Returns the number of nodes. */
static uint32_t list_nodes(struct gyre_failure_detector *detector)
{
    uint32_t nodes = 0;

    for (uint32_t rank = 0; rank < detector->is.n; rank++) {
        const uint32_t node = detector->is.member[rank].node;
        detector->place[rank] = detector->first[node + 1]++;
        nodes = node + 1 > nodes ? node + 1 : nodes;
    }
    for (uint32_t node = 0; node < nodes; node++)
        detector->first[node + 1] += detector->first[node];
    for (uint32_t rank = 0; rank < detector->is.n; rank++)
        detector->order[detector->first[detector->is.member[rank].node] + detector->place[rank]] =
            rank;
    return nodes;
}

/* The floors of a tree of so many. */
static uint32_t floors_of(const struct gyre_failure_detector *detector, uint32_t count)
{
    uint32_t floors = 0;

    for (uint32_t last = count - 1; detector->is.fan_out > 0 && last > 0;
         last = gyre_joined_above(last, detector->is.fan_out))
        floors++;
    return floors;
}

/* Notes who is in which node, and how deep the tree is. */
static void survey_nodes(struct gyre_failure_detector *detector)
{
    const uint32_t nodes = list_nodes(detector);
    uint32_t most = 0;

    for (uint32_t node = 0; node < nodes; node++) {
        const uint32_t ranks = detector->first[node + 1] - detector->first[node];
        if (is_of_large(detector, lowest_of(detector, node)) && floors_of(detector, ranks) > most)
            most = floors_of(detector, ranks);
    }
    detector->depth = floors_of(detector, nodes) + most;
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

/* Whether there is a channel to that rank, open or closed. */
static bool reaches(const struct gyre_failure_detector *detector, uint32_t peer)
{
    uint32_t rank = detector->is.rank;
    if (peer == rank)
        return false;
    if (same_node(detector, peer) && !is_of_large(detector, peer))
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
        const bool met = same_node(detector, peer) && (edge || !is_of_large(detector, peer));
        detector->channel[detector->channels++] = (struct gyre_detector_channel){
            .peer = peer,
            .kin = kin_of(detector, peer),
            .tree_edge = edge,
            .near = met,
            .closed = is_deep(detector) && !edge && !met,
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
    const uint32_t n = detector->is.n;

    detector->order = calloc(3 * (size_t)n + 1, sizeof *detector->order);
    if (detector->order == NULL)
        return -ENOMEM;
    detector->place = detector->order + n;
    detector->first = detector->place + n;
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
    return gyre_audit_create(n, &limits, &detector->audit);
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

struct gyre_detector_channel *gyre_detector_root_channel(
    const struct gyre_failure_detector *detector)
{
    if (detector->is.rank == 0)
        return NULL;
    if (!is_deep(detector))
        return detector->channel[0].gone ? NULL : &detector->channel[0];
    return detector->up >= 0 ? &detector->channel[detector->up] : NULL;
}

bool gyre_detector_without_root(const struct gyre_failure_detector *detector)
{
    return detector->is.rank != 0 && gyre_detector_root_channel(detector) == NULL;
}

bool gyre_detector_rootless(const struct gyre_failure_detector *detector)
{
    return !detector->all_left && (detector->told_rootless || gyre_detector_without_root(detector));
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
