/* The links of one rank: the pipe of each peer, and all wires polled as one.
 *
 *     peer ──hash──▶ { wire, pipe } ──▶ driver->send, recv …
 *
 * The files of the room, from the entry down:
 *
 *     link.c     links.h    what the layers above call
 *     words.c    words.h    the words by which a user names a driver
 *     table.c    table.h    which drivers there are, best first
 *     shm.c                 a driver: rings in memory that two processes of a node share
 *     tcp/  verbs/  sim/    drivers: sockets, RDMA, a simulated world
 *     on_demand.c  .h       connections that are made at their first use
 *     end.c      end.h      what every driver keeps of a pipe beside its wire
 *                driver.h   what a driver is
 *
 * The table of peers is sized once. In a large node, in the simulator, and between the nodes of a
 * job of many ranks, it fills as operations meet their peers: a link is made at its first use, by
 * either end, and the other end hears of it.
 *
 * Tested by tests/unit/transport/link/link_test.c, tests/unit/transport/link/sim/world_test.c and
 * tests/program/collectives/comm.c. */
#include "transport/link/links.h"

#include "base/rng.h"
#include "transport/link/end.h"
#include "transport/link/on_demand.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct link {
    uint32_t peer; /* UINT32_MAX: empty */
    int wire;
    struct gyre_pipe *pipe;
};

struct wire {
    const struct gyre_driver *driver;
    struct gyre_wire *wire;
};

struct gyre_links {
    struct wire wire[GYRE_LINK_WIRES];
    int wires;
    int lazy; /* wire that attaches on first use, -1: none */
    const struct gyre_on_demand
        *demand; /* peers that another wire attaches on first use; or NULL */
    int demand_wire;
    bool ended;         /* no link is made any more */
    bool look_by_links; /* see gyre_links_look_by_links() */
    uint32_t mask, used, most;
    struct link *link;
    uint32_t *attached; /* most: peers, in the order in which they were attached */
};

int gyre_links_create(uint32_t peers_max, struct gyre_links **out)
{
    struct gyre_links *links = calloc(1, sizeof(*links));
    uint32_t size = 8;
    while (size < 2 * peers_max)
        size *= 2;
    if (links) {
        links->link = calloc(size, sizeof(*links->link));
        links->attached = calloc((size_t)peers_max + 1, sizeof(*links->attached));
    }
    if (!links || !links->link || !links->attached) {
        gyre_links_destroy(links);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < size; i++)
        links->link[i].peer = UINT32_MAX;
    links->mask = size - 1;
    links->most = peers_max;
    links->lazy = -1;
    *out = links;
    return 0;
}

void gyre_links_destroy(struct gyre_links *links)
{
    if (!links)
        return;
    if (links->link)
        gyre_links_detach_all(links);
    for (int i = 0; i < links->wires; i++)
        links->wire[i].driver->close(links->wire[i].wire);
    free(links->link);
    free(links->attached);
    free(links);
}

int gyre_links_add_wire(struct gyre_links *links, const struct gyre_driver *driver,
                        struct gyre_wire *wire)
{
    if (links->wires == GYRE_LINK_WIRES)
        return -ENOSPC;
    links->wire[links->wires] = (struct wire){driver, wire};
    return links->wires++;
}

void gyre_links_attach_lazily(struct gyre_links *links, int index)
{
    links->lazy = index;
}

void gyre_links_connect_on_demand(struct gyre_links *links, int index,
                                  const struct gyre_on_demand *demand)
{
    links->demand = demand;
    links->demand_wire = index;
}

void gyre_links_look_by_links(struct gyre_links *links)
{
    links->look_by_links = true;
}

/* The wire that attaches that peer at its first use; -1: none. */
static int wire_of_first_use(const struct gyre_links *links, uint32_t peer)
{
    return gyre_on_demand_serves(links->demand, peer) ? links->demand_wire : links->lazy;
}

/* The peer's entry: its link, or the empty entry for it. */
static struct link *link_place(struct gyre_links *links, uint32_t peer)
{
    uint32_t i = (uint32_t)gyre_mix64(peer) & links->mask;
    while (links->link[i].peer != peer && links->link[i].peer != UINT32_MAX)
        i = (i + 1) & links->mask;
    return &links->link[i];
}

int gyre_links_attach(struct gyre_links *links, int index, const struct gyre_channel *channel,
                      struct gyre_trouble *trouble)
{
    struct link *link = link_place(links, channel->peer);
    if (link->peer != UINT32_MAX)
        return gyre_trouble_set(trouble, -EEXIST, "rank %u is linked already", channel->peer);
    if (links->used == links->most)
        return gyre_trouble_set(trouble, -ENOSPC, "%u links are in use, rank %u has no room",
                                links->used, channel->peer);
    struct wire *wire = &links->wire[index];
    struct gyre_pipe *pipe;
    int status = wire->driver->attach(wire->wire, channel, &pipe, trouble);
    if (status)
        return status;
    *link = (struct link){channel->peer, index, pipe};
    links->attached[links->used++] = channel->peer;
    return 0;
}

uint32_t gyre_links_attached(const struct gyre_links *links, uint32_t index)
{
    return index < links->used ? links->attached[index] : UINT32_MAX;
}

static int attach_at_first_use(struct gyre_links *links, uint32_t peer,
                               struct gyre_trouble *trouble)
{
    struct gyre_traffic_keys keys[GYRE_CHANNEL_SOCKETS];
    struct gyre_channel channel = {.peer = peer};
    const int wire = wire_of_first_use(links, peer);
    if (wire < 0 || links->ended)
        return gyre_trouble_set(trouble, -ENOTCONN, "there is no link to rank %u", peer);
    int status = gyre_on_demand_serves(links->demand, peer)
                     ? gyre_on_demand_channel(links->demand, peer, keys, &channel)
                     : 0;
    status = status
                 ? gyre_trouble_set(trouble, status, "libcrypto cannot derive the keys of a link")
                 : gyre_links_attach(links, wire, &channel, trouble);
    gyre_wipe(keys, sizeof keys);
    return status;
}

/* The link to a peer, made now if it is made at its first use. */
static int reach_link(struct gyre_links *links, uint32_t peer, struct link **out,
                      struct gyre_trouble *trouble)
{
    *out = link_place(links, peer);
    if ((*out)->pipe)
        return 0;
    if ((*out)->peer == peer)
        return gyre_trouble_set(trouble, -ENOTCONN, "the link to rank %u has ended", peer);
    return attach_at_first_use(links, peer, trouble);
}

static int find_link(struct gyre_links *links, uint32_t peer, struct link **out)
{
    return reach_link(links, peer, out, NULL);
}

static const struct gyre_driver *driver_of(const struct gyre_links *links, const struct link *link)
{
    return links->wire[link->wire].driver;
}

int gyre_link_send(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                   const void *data, uint64_t length, uint64_t token)
{
    struct link *link;
    int status = find_link(links, peer, &link);
    return status ? status : driver_of(links, link)->send(link->pipe, match, data, length, token);
}

int gyre_link_recv(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                   void *data, uint64_t length, uint64_t token)
{
    struct link *link;
    int status = find_link(links, peer, &link);
    return status ? status : driver_of(links, link)->recv(link->pipe, match, data, length, token);
}

bool gyre_link_send_now(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                        const void *data, uint64_t length)
{
    struct link *link;
    return !find_link(links, peer, &link) && driver_of(links, link)->send_now &&
           driver_of(links, link)->send_now(link->pipe, match, data, length);
}

int gyre_link_recv_now(struct gyre_links *links, uint32_t peer, const struct gyre_match *match,
                       void *data, uint64_t length)
{
    struct link *link;
    if (find_link(links, peer, &link) || !driver_of(links, link)->recv_now)
        return -ENOENT;
    return driver_of(links, link)->recv_now(link->pipe, match, data, length);
}

bool gyre_link_carries(struct gyre_links *links, uint32_t peer, const void *memory, uint64_t length,
                       bool send)
{
    const struct link *link = link_place(links, peer);
    if (!link->pipe || !driver_of(links, link)->carries)
        return false;
    return driver_of(links, link)->carries(link->pipe, memory, length, send);
}

/* A peer that has sent anything over a link made at its first use has called, and poll() has
 * attached it. So looking makes no link, but where nothing else would tell of the peer's end. */
int gyre_link_announced(struct gyre_links *links, uint32_t peer, struct gyre_match *match)
{
    struct link *link = link_place(links, peer);
    const bool unmade = !link->pipe && link->peer != peer && wire_of_first_use(links, peer) >= 0;
    if (unmade && links->look_by_links && gyre_on_demand_serves(links->demand, peer))
        return find_link(links, peer, &link);
    if (!link->pipe)
        return unmade ? 0 : -ENOTCONN;
    return gyre_end_announced(link->pipe, match);
}

bool gyre_link_has_left(struct gyre_links *links, uint32_t peer)
{
    const struct link *link = link_place(links, peer);
    return link->pipe && gyre_end_has_left(link->pipe);
}

int gyre_link_state(struct gyre_links *links, uint32_t peer, struct gyre_trouble *trouble)
{
    struct link *link;
    int status = reach_link(links, peer, &link, trouble);
    if (status)
        return status;
    return driver_of(links, link)->state(link->pipe, trouble);
}

void gyre_link_describe(struct gyre_links *links, uint32_t peer, char *text, size_t size)
{
    const struct link *link = links ? link_place(links, peer) : NULL;
    int index = !link                ? -1
                : link->pipe         ? link->wire
                : link->peer == peer ? -1
                                     : wire_of_first_use(links, peer);
    if (index < 0)
        snprintf(text, size, "none");
    else
        links->wire[index].driver->describe(links->wire[index].wire, text, size);
}

/* Attaches peers that have attached this rank. Where one cannot be, its first use tells. */
static void answer_callers(struct gyre_links *links)
{
    const struct wire *wire = links->lazy >= 0 ? &links->wire[links->lazy] : NULL;
    struct link *ignored;
    uint32_t peer;
    while (wire && wire->driver->called && wire->driver->called(wire->wire, &peer))
        (void)find_link(links, peer, &ignored);
}

int gyre_links_poll(struct gyre_links *links, uint64_t now, struct gyre_completion *out, int max)
{
    int count = 0;
    answer_callers(links);
    for (int i = 0; i < links->wires && count < max; i++)
        count += links->wire[i].driver->poll(links->wire[i].wire, now, out + count, max - count);
    return count;
}

/* Returns the first fault of the links whose peers have left, or of the other links. */
static int first_fault(struct gyre_links *links, bool left, uint32_t *peer,
                       struct gyre_trouble *trouble)
{
    for (uint32_t i = 0; i <= links->mask; i++) {
        struct link *link = &links->link[i];
        const bool asked = link->pipe && gyre_end_has_left(link->pipe) == left;
        int status = asked ? driver_of(links, link)->state(link->pipe, trouble) : 0;
        if (status) {
            *peer = link->peer;
            gyre_trouble_set(trouble, status, "the link to rank %u failed: %s", link->peer,
                             gyre_status_name(status));
            return status;
        }
    }
    return 0;
}

int gyre_links_fault(struct gyre_links *links, uint32_t *peer, struct gyre_trouble *trouble)
{
    int status = first_fault(links, false, peer, trouble);
    return status ? status : first_fault(links, true, peer, trouble);
}

uint64_t gyre_links_moved(const struct gyre_links *links)
{
    uint64_t moved = 0;
    for (int i = 0; links && i < links->wires; i++)
        if (links->wire[i].driver->moved)
            moved += links->wire[i].driver->moved(links->wire[i].wire);
    return moved;
}

int gyre_links_arm(struct gyre_links *links, int fd[GYRE_LINK_WIRES])
{
    int count = 0;
    for (int i = 0; i < links->wires; i++) {
        struct gyre_alarm alarm = {-1};
        if (links->wire[i].driver->arm(links->wire[i].wire, &alarm))
            return -1;
        if (alarm.fd >= 0)
            fd[count++] = alarm.fd;
    }
    return count;
}

/* -- connections made anew --------------------------------------------------------------------- */

bool gyre_links_broken(struct gyre_links *links, struct gyre_break *lost)
{
    for (int i = 0; i < links->wires; i++) {
        const struct wire *wire = &links->wire[i];
        if (wire->driver->broken && wire->driver->broken(wire->wire, lost))
            return true;
    }
    return false;
}

static int find_renewable(struct gyre_links *links, uint32_t peer, struct link **out)
{
    *out = link_place(links, peer);
    if (!(*out)->pipe)
        return -ENOTCONN;
    return driver_of(links, *out)->renew ? 0 : GYRE_UNSUPPORTED;
}

/* A peer's call may be the first use of its link. */
int gyre_link_part(struct gyre_links *links, uint32_t peer, int index, uint32_t newer,
                   uint64_t *received)
{
    struct link *link;
    int status = gyre_on_demand_serves(links->demand, peer) ? find_link(links, peer, &link) : 0;
    if (!status)
        status = find_renewable(links, peer, &link);
    return status ? status : driver_of(links, link)->part(link->pipe, index, newer, received);
}

int gyre_link_renew(struct gyre_links *links, uint32_t peer, int index, int fd, uint32_t number,
                    uint64_t received)
{
    struct link *link;
    int status = find_renewable(links, peer, &link);
    return status ? status : driver_of(links, link)->renew(link->pipe, index, fd, number, received);
}

bool gyre_link_gone(struct gyre_links *links, uint32_t peer, int index, bool told)
{
    struct link *link;
    return !find_renewable(links, peer, &link) &&
           driver_of(links, link)->gone(link->pipe, index, told);
}

bool gyre_links_mend(struct gyre_links *links)
{
    bool left = false;
    for (int i = 0; i < links->wires; i++)
        if (links->wire[i].driver->mend)
            left |= links->wire[i].driver->mend(links->wire[i].wire);
    return left;
}

int gyre_links_bye(struct gyre_links *links)
{
    int result = 0;
    for (uint32_t i = 0; i <= links->mask; i++) {
        struct link *link = &links->link[i];
        if (link->pipe && driver_of(links, link)->bye(link->pipe) == GYRE_AGAIN)
            result = GYRE_AGAIN;
    }
    return result;
}

void gyre_links_detach_all(struct gyre_links *links)
{
    links->ended = true;
    for (uint32_t i = 0; i <= links->mask; i++) {
        struct link *link = &links->link[i];
        if (link->pipe)
            driver_of(links, link)->detach(link->pipe);
        link->pipe = NULL;
    }
}
