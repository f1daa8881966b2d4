/* The TCP connections of a living job's ranks, as the kernel counts them. */
#ifndef GYRE_CLI_WHY_SOCKETS_H
#define GYRE_CLI_WHY_SOCKETS_H

#include "cli/why/trail.h"

/* One end of a connection. */
struct gyre_connection_end {
    uint64_t inode;
    uint8_t here[18], there[18]; /* address, IPv4 inside IPv6, and port */
    uint32_t from, to;           /* places of trails; to may be GYRE_TRAIL_NONE */
    uint64_t bytes;              /* acknowledged by the other end */
    uint64_t busy_us;            /* with bytes under way, while the other end had room for more */
};

struct gyre_connections {
    struct gyre_connection_end *of; /* by inode */
    uint32_t count;
};

/* Lists the connections whose near ends are held by ranks here. False: the kernel tells nothing.
 * What was listed is to be freed either way. */
bool gyre_connections_list(const struct gyre_trails *trails, struct gyre_connections *wires);
void gyre_connections_free(struct gyre_connections *wires);

#endif
