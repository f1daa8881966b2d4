/* A build without liburing: there is no io_uring poller, and tcp.c says so when a user asks for
 * it. */
#include "transport/link/tcp/inside.h"
#include "transport/link/tcp/uring.h"

const struct gyre_tcp_poller *const gyre_tcp_uring = NULL;

int gyre_tcp_uring_try(struct gyre_trouble *trouble)
{
    return gyre_trouble_set(trouble, GYRE_UNSUPPORTED,
                            "io_uring is not built in (liburing was missing at build time)");
}
