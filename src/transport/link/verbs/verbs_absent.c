/* Stands in for the verbs driver where libibverbs was missing at build time: the driver has its
 * name, and open() says what to install. */
#include "transport/link/driver.h"

static int absent_open(const struct gyre_wire_options *options, struct gyre_wire **wire,
                       struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "this Gyre was built without RDMA: libibverbs was missing (Debian: "
                            "libibverbs-dev)");
}

static void absent_close(struct gyre_wire *wire)
{
}

const struct gyre_driver gyre_driver_verbs = {
    .name = "verbs",
    .open = absent_open,
    .close = absent_close,
};
