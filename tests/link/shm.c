/* The conformance suite over shared memory. */
#include "link/rings.h"
#include "link/suite.h"

#define RING (24 * 1024) /* less than the credit: frames lie in it in part */

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

static const struct gyre_memory_lookup lookup = {.locate = locate, .view = view};
static const struct gyre_memory_lookup *seen; /* in the run that is under way; NULL: nothing is */

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

int main(void)
{
    int bad = gyre_link_suite("shm", &bench);
    seen = &lookup;
    return gyre_link_suite("shm in place", &bench) || bad;
}
