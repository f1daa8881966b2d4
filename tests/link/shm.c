/* The conformance suite over shared memory. */
#include "link/rings.h"
#include "link/suite.h"

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

int main(void)
{
    int bad = gyre_link_suite("shm", &bench);
    struct gyre_views *views; /* kept to the end: the memory is not theirs to unmap */
    if (gyre_lookup_init(&lookup, 1) || gyre_views_create(&views))
        return 1;
    rings_see(&lookup, views, GYRE_MEMORY_HOST);
    seen = &lookup;
    return gyre_link_suite("shm in place", &bench) || bad;
}
