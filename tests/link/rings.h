/* Nets over rings in shared memory, for the drivers that have them: a hub and its leaves, both
 * sides of each ring in this process, as two processes would map them. Where single bytes are
 * wished, the rings hold no more than one. */
#ifndef GYRE_TESTS_LINK_RINGS_H
#define GYRE_TESTS_LINK_RINGS_H

#include "link/suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RING_COUNTERS  128 /* before a ring's bytes */
#define RING_ALIGNMENT 64

/* Lets both ends see all of this process's memory as one region of that kind, from address 1 on. */
static inline void rings_see(struct gyre_memory_lookup *lookup, struct gyre_views *views,
                             enum gyre_memory_kind kind)
{
    const struct gyre_region all = {
        .base = (void *)(uintptr_t)1, .length = INT64_MAX, .kind = kind, .fd = -1};
    uint32_t id = gyre_lookup_add(lookup, &all);
    gyre_lookup_mark_mapped(lookup, id, false);
    for (uint32_t peer = 0; peer <= GYRE_LINK_LEAVES; peer++)
        gyre_views_put(views, peer, id, &all);
    lookup->views = views;
}

struct rings { /* of one leaf: [0] the hub writes, [1] the leaf writes */
    struct gyre_region region[2];
};

static inline int rings_make(struct gyre_region *region, uint64_t length)
{
    uint64_t whole = (RING_COUNTERS + length + RING_ALIGNMENT - 1) / RING_ALIGNMENT;
    void *base = aligned_alloc(RING_ALIGNMENT, whole * RING_ALIGNMENT);
    if (!base)
        return -ENOMEM;
    memset(base, 0, whole * RING_ALIGNMENT);
    *region = (struct gyre_region){.base = base, .length = RING_COUNTERS + length, .fd = -1};
    return 0;
}

static inline int rings_join(const struct gyre_driver *driver, struct gyre_link_net *net,
                             uint32_t leaf, uint64_t length, struct gyre_trouble *trouble)
{
    struct gyre_region *region = ((struct rings *)net->own)[leaf].region;
    if (rings_make(&region[0], length) || rings_make(&region[1], length))
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for two rings");
    struct gyre_channel progress = {.peer = leaf + 1, .mine = &region[0], .theirs = &region[1]};
    struct gyre_channel outer = {.peer = 0, .mine = &region[1], .theirs = &region[0]};
    int status = driver->attach(net->wire[0], &progress, &net->outward[leaf], trouble);
    return status ? status
                  : driver->attach(net->wire[leaf + 1], &outer, &net->inward[leaf], trouble);
}

/* All ends see the same; rings of that many bytes. */
static inline int rings_connect(const struct gyre_driver *driver, struct gyre_memory_lookup *lookup,
                                uint64_t length, const struct gyre_link_wish *wish,
                                struct gyre_link_net *net, struct gyre_trouble *trouble)
{
    int status = 0;
    uint32_t n = 1 + (uint32_t)wish->leaves;
    net->own = calloc(GYRE_LINK_LEAVES, sizeof(struct rings));
    if (!net->own)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for a net");
    for (uint32_t rank = 0; !status && rank < n; rank++) {
        struct gyre_wire_options options = {
            .rank = rank, .n = n, .epoch = 3, .peers = n - 1, .lookup = lookup};
        status = driver->open(&options, &net->wire[rank], trouble);
    }
    for (uint32_t leaf = 0; !status && leaf + 1 < n; leaf++)
        status = rings_join(driver, net, leaf, wish->split ? 1 : length, trouble);
    return status;
}

static inline void rings_disconnect(struct gyre_link_net *net)
{
    struct rings *rings = net->own;
    for (int leaf = 0; rings && leaf < GYRE_LINK_LEAVES; leaf++) {
        free(rings[leaf].region[0].base);
        free(rings[leaf].region[1].base);
    }
    free(rings);
}

#endif
