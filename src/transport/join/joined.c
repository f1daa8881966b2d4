/* Tables of ranks and channels. Tested by tests/program/job/join.c. */
#include "transport/join/joined.h"

#include <stdlib.h>
#include <unistd.h>

struct gyre_joined *gyre_joined_create(uint32_t rank, uint32_t n)
{
    struct gyre_joined *joined =
        calloc(1, sizeof *joined + n * (sizeof *joined->member + sizeof *joined->peer));
    if (!joined)
        return NULL;
    joined->rank = rank;
    joined->n = n;
    joined->listener = joined->node_file = -1;
    joined->member = (struct gyre_member *)(joined + 1);
    joined->peer = (struct gyre_peer *)(joined->member + n);
    for (uint32_t i = 0; i < n; i++) {
        struct gyre_peer *peer = &joined->peer[i];
        peer->unix_fd = peer->pidfd = peer->control = -1;
        for (int stripe = 0; stripe < GYRE_TCP_CONNECTIONS_MAX; stripe++)
            peer->tcp[stripe] = -1;
    }
    return joined;
}

static void close_if(int fd)
{
    if (fd >= 0)
        close(fd);
}

void gyre_joined_destroy(struct gyre_joined *joined)
{
    if (!joined)
        return;
    for (uint32_t i = 0; i < joined->n; i++) {
        struct gyre_peer *peer = &joined->peer[i];
        close_if(peer->unix_fd);
        close_if(peer->pidfd);
        close_if(peer->control);
        for (int stripe = 0; stripe < GYRE_TCP_CONNECTIONS_MAX; stripe++)
            close_if(peer->tcp[stripe]);
    }
    close_if(joined->listener);
    close_if(joined->node_file);
    gyre_wipe(joined->peer, joined->n * sizeof *joined->peer);
    gyre_wipe(joined->session_key, sizeof joined->session_key);
    gyre_wipe(joined->members_key, sizeof joined->members_key);
    free(joined);
}
