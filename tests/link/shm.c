/* The conformance suite over shared memory: rings of their own, memory in place, and the memory of
 * a large node, where links are made at their first use. */
#include "link/rings.h"
#include "link/suite.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define RING (24 * 1024) /* less than the credit: frames lie in it in part */

static struct gyre_memory_lookup lookup;
static struct gyre_memory_lookup *seen; /* in the run that is under way; NULL: nothing is */

static int connect_net(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                       struct gyre_trouble *trouble)
{
    return rings_connect(&gyre_driver_shm, seen, RING, wish, net, trouble);
}

static const struct gyre_link_bench bench = {.driver = &gyre_driver_shm,
                                             .splits = true,
                                             .deaf = true,
                                             .connect = connect_net,
                                             .disconnect = rings_disconnect};

/* -- a large node ------------------------------------------------------------------------------ */

enum { PLACES = 1 + GYRE_LINK_LEAVES };

/* Opens the wire of a rank, at the place of the same number in the node's memory. */
static int open_large(struct gyre_link_net *net, uint32_t rank, int fd,
                      struct gyre_trouble *trouble)
{
    struct gyre_node_memory *memory = &((struct gyre_node_memory *)net->own)[rank];
    struct gyre_wire_options options = {
        .rank = rank, .n = PLACES, .epoch = 3, .peers = PLACES - 1, .node = memory};
    int status = gyre_node_memory_map(memory, fd, PLACES, rank, PLACES, trouble);
    for (uint32_t place = 0; !status && place < PLACES; place++)
        gyre_node_memory_seat(memory, place, place);
    return status ? status : gyre_driver_shm.open(&options, &net->wire[rank], trouble);
}

/* Whether exactly that peer has called, and is told once. */
static bool hears(struct gyre_wire *wire, uint32_t peer)
{
    uint32_t first, second;
    return gyre_driver_shm.called(wire, &first) && first == peer &&
           !gyre_driver_shm.called(wire, &second);
}

/* The hub begins each link, and the leaf hears of it. Nobody is called back. */
static int join_leaf(struct gyre_link_net *net, uint32_t leaf, struct gyre_trouble *trouble)
{
    struct gyre_channel outer = {.peer = leaf + 1}, inner = {.peer = 0};
    uint32_t nobody;
    int status = gyre_driver_shm.attach(net->wire[0], &outer, &net->outward[leaf], trouble);
    if (status)
        return status;
    if (!hears(net->wire[leaf + 1], 0))
        return gyre_trouble_set(trouble, -EPROTO, "leaf %u has not heard the hub's call", leaf);
    status = gyre_driver_shm.attach(net->wire[leaf + 1], &inner, &net->inward[leaf], trouble);
    if (!status && gyre_driver_shm.called(net->wire[0], &nobody))
        status = gyre_trouble_set(trouble, -EPROTO, "the hub was called back");
    return status;
}

static int connect_large(const struct gyre_link_wish *wish, struct gyre_link_net *net,
                         struct gyre_trouble *trouble)
{
    int fd = memfd_create("node", MFD_CLOEXEC), status = 0;
    net->own = calloc(PLACES, sizeof(struct gyre_node_memory));
    if (fd < 0 || ftruncate(fd, (off_t)gyre_node_memory_bytes(PLACES)) || !net->own)
        status = gyre_trouble_set(trouble, -ENOMEM, "no memory for a node");
    for (uint32_t rank = 0; !status && rank <= (uint32_t)wish->leaves; rank++)
        status = open_large(net, rank, fd, trouble);
    for (uint32_t leaf = 0; !status && leaf < (uint32_t)wish->leaves; leaf++)
        status = join_leaf(net, leaf, trouble);
    close(fd);
    return status;
}

static void disconnect_large(struct gyre_link_net *net)
{
    struct gyre_node_memory *memory = net->own;
    for (int place = 0; memory && place < PLACES; place++)
        gyre_node_memory_unmap(&memory[place]);
    free(memory);
}

/* Its rings are those of the bench above, which sends more than 4 GiB. */
static const struct gyre_link_bench large_bench = {.driver = &gyre_driver_shm,
                                                   .deaf = true,
                                                   .brief = true,
                                                   .connect = connect_large,
                                                   .disconnect = disconnect_large};

/* A rank that is no peer of the node is refused. */
static int refuses_strangers(void)
{
    struct gyre_link_net net = {0};
    struct gyre_trouble trouble = {0};
    struct gyre_pipe *pipe;
    int fd = memfd_create("node", MFD_CLOEXEC);
    net.own = calloc(PLACES, sizeof(struct gyre_node_memory));
    int bad = fd < 0 || ftruncate(fd, (off_t)gyre_node_memory_bytes(PLACES)) || !net.own ||
              open_large(&net, 0, fd, &trouble);
    const uint32_t strangers[] = {0, PLACES, UINT32_MAX};
    for (int i = 0; i < 3 && !bad; i++)
        bad = gyre_driver_shm.attach(net.wire[0], &(struct gyre_channel){.peer = strangers[i]},
                                     &pipe, &trouble) != -ENOTCONN;
    gyre_driver_shm.close(net.wire[0]);
    disconnect_large(&net);
    close(fd);
    if (bad)
        fprintf(stderr, "a stranger was attached: %s\n", trouble.text);
    return bad;
}

int main(void)
{
    int bad = gyre_link_suite("shm", &bench);
    struct gyre_views *views; /* kept to the end: the memory is not theirs to unmap */
    if (gyre_lookup_init(&lookup, 1) || gyre_views_create(&views))
        return 1;
    rings_see(&lookup, views, GYRE_MEMORY_HOST);
    seen = &lookup;
    bad |= gyre_link_suite("shm in place", &bench);
    bad |= gyre_link_suite("shm in a large node", &large_bench);
    return refuses_strangers() || bad;
}
