/* Who talks to whom: see the picture in failure_detector.c. A rank has a channel to every rank of its node and
 * to rank 0; rank 0 has one to everybody. The tree's edges are the channels rank ─ lowest rank of
 * its node ─ rank 0. */
#include "transport/watch/detect/inside.h"

#include <errno.h>
#include <stdlib.h>

static bool same_node(const struct gyre_vigil *vigil, uint32_t peer)
{
    return vigil->is.member[peer].node == vigil->is.member[vigil->is.rank].node;
}

static uint32_t leader_of(const struct gyre_vigil *vigil, uint32_t rank)
{
    uint32_t first = 0;

    while (vigil->is.member[first].node != vigil->is.member[rank].node)
        first++;
    return first;
}

uint32_t gyre_vigil_parent(const struct gyre_vigil *vigil)
{
    return vigil->leader == vigil->is.rank ? 0 : vigil->leader;
}

static bool reaches(const struct gyre_vigil *vigil, uint32_t peer)
{
    uint32_t rank = vigil->is.rank;
    return peer != rank && (rank == 0 || peer == 0 || same_node(vigil, peer));
}

static bool below(const struct gyre_vigil *vigil, uint32_t peer)
{
    bool leads = vigil->leader == vigil->is.rank;

    if (same_node(vigil, peer))
        return leads;
    return vigil->is.rank == 0 && leader_of(vigil, peer) == peer;
}

static void draw_channels(struct gyre_vigil *vigil)
{
    for (uint32_t peer = 0; peer < vigil->is.n; peer++) {
        if (!reaches(vigil, peer))
            continue;
        vigil->channel[vigil->channels++] = (struct gyre_vigil_channel){
            .peer = peer,
            .kin = below(vigil, peer) || (vigil->is.rank != 0 && peer == gyre_vigil_parent(vigil)),
            .heard_at = vigil->clock,
        };
    }
}

static uint32_t count_channels(const struct gyre_vigil *vigil)
{
    uint32_t count = 0;

    for (uint32_t peer = 0; peer < vigil->is.n; peer++)
        count += reaches(vigil, peer);
    return count;
}

int gyre_vigil_furnish(struct gyre_vigil *vigil)
{
    uint32_t count = count_channels(vigil);

    vigil->leader = leader_of(vigil, vigil->is.rank);
    vigil->channel = calloc(count + 1, sizeof *vigil->channel);
    vigil->post = calloc(vigil->is.rank == 0 ? 1 : count + 1, sizeof *vigil->post);
    if (vigil->channel == NULL || vigil->post == NULL)
        return -ENOMEM;
    draw_channels(vigil);
    if (vigil->is.rank != 0)
        return 0;
    struct gyre_roll_limits limits = {.patience_ns = vigil->is.patience_ns,
                                      .dead_ns = vigil->is.dead_ns,
                                      .timeout_ns = vigil->is.timeout_ns};
    return gyre_roll_create(vigil->is.n, &limits, &vigil->roll);
}

uint32_t gyre_vigil_channels(const struct gyre_vigil *vigil)
{
    return vigil->channels;
}

uint32_t gyre_vigil_peer(const struct gyre_vigil *vigil, uint32_t channel)
{
    return vigil->channel[channel].peer;
}

int gyre_vigil_channel(const struct gyre_vigil *vigil, uint32_t peer)
{
    uint32_t low = 0, high = vigil->channels;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (vigil->channel[middle].peer < peer)
            low = middle + 1;
        else
            high = middle;
    }
    return low < vigil->channels && vigil->channel[low].peer == peer ? (int)low : -1;
}
