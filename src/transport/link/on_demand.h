/* Connections of links that are made at their first use, between nodes of a job of many ranks.
 *
 *     first post ─▶ pipe without a connection ─▶ broken() ─▶ the watch makes it ─▶ renew() ─▶ pipe
 *
 * To its driver such a connection is one that broke before its first byte: it goes on from there
 * when it is made. Both ends compute its keys, so no byte waits for them. */
#ifndef GYRE_TRANSPORT_LINK_ON_DEMAND_H
#define GYRE_TRANSPORT_LINK_ON_DEMAND_H

#include "transport/link/driver.h"

struct gyre_on_demand_peer {
    bool far;       /* a rank of another node, whose connections are made at their first use */
    bool renewable; /* as in struct gyre_channel */
    enum gyre_seal_mode security;
};

struct gyre_on_demand {
    uint32_t rank, n;                 /* this rank; how many there are */
    int sockets;                      /* connections to each peer */
    uint8_t key[GYRE_KEY_BYTES];      /* which all ranks of this session have, and nobody else */
    struct gyre_on_demand_peer *peer; /* n */
};

/* Whether the connections to that peer are made at their first use. NULL: no peer's are. */
bool gyre_on_demand_serves(const struct gyre_on_demand *demand, uint32_t peer);

/* Writes the channel to a peer that is served, its descriptors -1, and the keys to which the
 * channel points. 0 or -EIO: libcrypto fails. */
int gyre_on_demand_channel(const struct gyre_on_demand *demand, uint32_t peer,
                           struct gyre_traffic_keys keys[GYRE_CHANNEL_SOCKETS],
                           struct gyre_channel *channel);

#endif
