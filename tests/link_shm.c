/* The conformance suite over shared memory: both sides of each ring in this process, as two
 * processes would map them. Where single bytes are wished, the rings hold no more than one. */
#include "link_suite.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COUNTERS  128         /* before a ring's bytes */
#define RING      (24 * 1024) /* less than the credit: frames lie in it in part */
#define ALIGNMENT 64

/* One process sees all of its memory: a region that begins at address 0. */
static uint32_t locate(void *context, const void *memory, uint64_t length, uint64_t *offset)
{
    *offset = (uintptr_t)memory;
    return 1;
}

static void *view(void *context, uint32_t peer, uint32_t region, uint64_t offset, uint64_t length)
{
    return (void *)(uintptr_t)offset;
}

static const struct gyre_sight sight = {.locate = locate, .view = view};
static const struct gyre_sight *seen; /* in the run that is under way; NULL: nothing is */

struct memory { /* of one leaf: [0] the hub writes, [1] the leaf writes */
    struct gyre_region region[2];
};

static int make_ring(struct gyre_region *region, uint64_t length)
{
    uint64_t whole = (COUNTERS + length + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *base = aligned_alloc(ALIGNMENT, whole);
    if (!base) {
        return -ENOMEM;
    }
    memset(base, 0, whole);
    *region = (struct gyre_region){.base = base, .length = COUNTERS + length, .fd = -1};
    return 0;
}

static int join_leaf(const struct gyre_link_wish *wish, struct gyre_link_net *net, uint32_t leaf,
                     struct gyre_trouble *trouble)
{
    struct gyre_region *region = ((struct memory *)net->own)[leaf].region;
    uint64_t length = wish->split ? 1 : RING;
    if (make_ring(&region[0], length) || make_ring(&region[1], length)) {
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for two rings");
    }
    struct gyre_channel hub = {.peer = leaf + 1, .mine = &region[0], .theirs = &region[1]};
    struct gyre_channel outer = {.peer = 0, .mine = &region[1], .theirs = &region[0]};
    int status = gyre_driver_shm.attach(net->wire[0], &hub, &net->outward[leaf], trouble);
    return status
               ? status
               : gyre_driver_shm.attach(net->wire[leaf + 1], &outer, &net->inward[leaf], trouble);
}

static int connect_net(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                       struct gyre_trouble *trouble)
{
    int status = 0;
    uint32_t n = 1 + (uint32_t)wish->leaves;
    net->own = calloc(GYRE_LINK_LEAVES, sizeof(struct memory));
    for (uint32_t rank = 0; !status && rank < n; rank++) {
        struct gyre_wire_options options = {
            .rank = rank, .n = n, .epoch = 3, .peers = n - 1, .sight = seen};
        status = gyre_driver_shm.open(&options, &net->wire[rank], trouble);
    }
    for (uint32_t leaf = 0; !status && leaf + 1 < n; leaf++) {
        status = join_leaf(wish, net, leaf, trouble);
    }
    return status;
}

static void disconnect_net(struct gyre_link_net *net)
{
    struct memory *memory = net->own;
    for (int leaf = 0; leaf < GYRE_LINK_LEAVES; leaf++) {
        free(memory[leaf].region[0].base);
        free(memory[leaf].region[1].base);
    }
    free(memory);
}

static const struct gyre_link_bench bench = {.driver = &gyre_driver_shm,
                                             .splits = true,
                                             .deaf = true,
                                             .connect = connect_net,
                                             .disconnect = disconnect_net};

int main(void)
{
    int bad = gyre_link_suite("shm", &bench);
    seen = &sight;
    return gyre_link_suite("shm in place", &bench) || bad;
}
