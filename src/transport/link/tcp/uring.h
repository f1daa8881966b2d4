/* Whether TCP can be served by io_uring, for who wants to know it before a job. */
#ifndef GYRE_TRANSPORT_LINK_TCP_URING_H
#define GYRE_TRANSPORT_LINK_TCP_URING_H

#include "base/status.h"

/* Makes a ring and takes it down. 0; GYRE_UNSUPPORTED and the story: it was not built in; or what
 * the kernel refuses it with, and the likely cause. */
int gyre_tcp_uring_try(struct gyre_trouble *trouble);

#endif
