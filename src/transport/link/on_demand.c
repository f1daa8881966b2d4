/* Channels of links that are made at their first use, and their keys.
 *
 *     key of lower ─▶ higher   HKDF(session's key, lower │ higher │ index, "gyre frames up")
 *     key of higher ─▶ lower   the same, "gyre frames down"
 *
 * A session links two ranks once, so no key serves two streams. A connection that is made anew goes
 * on with its stream, and with the stream's keys.
 *
 * Tested by tests/unit/transport/link/on_demand_test.c. */
#include "transport/link/on_demand.h"

#include "base/bytes.h"

#include <string.h>

bool gyre_on_demand_serves(const struct gyre_on_demand *demand, uint32_t peer)
{
    return demand && peer < demand->n && demand->peer[peer].far;
}

static int derive_stream_key(const struct gyre_on_demand *demand, uint32_t peer, int index,
                             const char *way, uint8_t key[GYRE_TRAFFIC_KEY_BYTES])
{
    const bool lower = demand->rank < peer;
    uint8_t who[12];
    gyre_put32(who, lower ? demand->rank : peer);
    gyre_put32(who + 4, lower ? peer : demand->rank);
    gyre_put32(who + 8, (uint32_t)index);
    return gyre_hkdf_sha256((struct gyre_piece){demand->key, sizeof demand->key},
                            (struct gyre_piece){who, sizeof who},
                            (struct gyre_piece){way, strlen(way)}, key, GYRE_TRAFFIC_KEY_BYTES);
}

int gyre_on_demand_channel(const struct gyre_on_demand *demand, uint32_t peer,
                           struct gyre_traffic_keys keys[GYRE_CHANNEL_SOCKETS],
                           struct gyre_channel *channel)
{
    const struct gyre_on_demand_peer *is = &demand->peer[peer];
    const bool lower = demand->rank < peer;
    *channel = (struct gyre_channel){.peer = peer,
                                     .fds = demand->sockets,
                                     .renewable = is->renewable,
                                     .security = is->security,
                                     .keys = keys};
    int status = 0;
    for (int i = 0; i < demand->sockets && !status; i++) {
        channel->fd[i] = -1;
        status =
            derive_stream_key(demand, peer, i, "gyre frames up", lower ? keys[i].out : keys[i].in);
        if (!status)
            status = derive_stream_key(demand, peer, i, "gyre frames down",
                                       lower ? keys[i].in : keys[i].out);
    }
    return status;
}
