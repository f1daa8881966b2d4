/* Built where liburing is missing: there is no io_uring poller, and tcp.c says so when it is asked
 * for. */
#include "transport/link/tcp/inside.h"

const struct gyre_tcp_poller *const gyre_tcp_uring = NULL;
