/* Links to peers of other nodes: chooses the message driver for each.
 *
 *     open what this rank could use ──▶ tell all peers at once ──▶ peer by peer: the best that both
 *                                       and hear them              have, or the next after it
 *
 * Opening a wire finds out whether this rank has what its driver needs. The offer says so to every
 * peer, with the reason where this rank has not. Only then pairs meet, in the order of ranks, so
 * that many pairs meet at a time. A driver may still find that the two do not reach each other;
 * both ends learn this alike and take the next driver. The last in the table, tcp, needs no offer:
 * joining has made its connections.
 *
 * In a job of more ranks than GYRE_LINKS_AT_ONCE where no rank has a better driver, tcp makes links
 * at their first use (on_demand.c). Where a rank has one, and there are GYRE_DEVICE_LINKS times as
 * many ranks, partners (transport/join/joined.h) meet as above, and other peers at their first use.
 *
 * Where a better driver was available but does not serve every peer, one line says so. A machine
 * without the driver needs no line.
 *
 * Tested by tests/program/collectives/nodes.c and tests/program/collectives/first_use.c. */
#include "transport/domain/inside.h"

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/link/table.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WAYS_MOST    4
#define OFFER_BYTES  128
#define OFFER_MAGIC  0x79470000u
#define LOOK_EACH_MS 20
#define PEERS_USUAL  64  /* with which a rank has links, where they are made at their first use */
#define CAUSE_MS     400 /* until the watch knows why a peer left: its own grace, and some more */

struct way {
    const struct gyre_driver *driver;
    struct gyre_wire *wire;  /* NULL: not opened, or given to the links */
    int index;               /* among the links; -1: not yet */
    struct gyre_trouble why; /* why this rank does not have it */
};

struct choice {
    struct gyre_domain *domain;
    struct way way[WAYS_MOST];
    int ways;
    uint32_t remote; /* peers of other nodes */
    uint32_t others; /* of them, those that the first way does not serve */
    char reason[320];
    struct gyre_trouble *trouble;
};

/* -- what this rank has ------------------------------------------------------------------------ */

/* Lists all message drivers, or the one that the user chose. */
static void list_ways(struct choice *choice)
{
    const char *wanted = choice->domain->settings.transport;
    for (const struct gyre_driver *const *it = gyre_drivers; *it; it++) {
        bool fits = !strcmp(wanted, "auto") || !strcmp(wanted, (*it)->name);
        if (!(*it)->mapped && fits && choice->ways < WAYS_MOST)
            choice->way[choice->ways++] = (struct way){.driver = *it, .index = -1};
    }
}

static int open_way(struct choice *choice, struct way *way, struct gyre_trouble *trouble)
{
    return gyre_domain_open_wire(choice->domain, way->driver, choice->remote, &way->wire, trouble);
}

/* Whether the way needs an offer. The last of the table needs none: joining has prepared it for
 * every peer. */
static bool needs_offer(const struct way *way)
{
    const struct gyre_driver *last = NULL;
    for (const struct gyre_driver *const *it = gyre_drivers; *it; it++)
        last = (*it)->mapped ? last : *it;
    return way->driver != last;
}

/* Tries whether a driver has what it needs on this rank. */
static bool is_present(const struct gyre_domain *domain, const struct gyre_driver *driver)
{
    const struct gyre_wire_options options = {.rank = (uint32_t)domain->job.rank,
                                              .n = (uint32_t)domain->job.world,
                                              .local_rank = domain->job.local_rank,
                                              .local_size = domain->job.local_world,
                                              .peers = 1,
                                              .variant = domain->settings.poller};
    struct gyre_trouble ignored = {0};
    struct gyre_wire *wire;
    int status = driver->open(&options, &wire, &ignored);
    if (!status)
        driver->close(wire);
    return !status || status == GYRE_INVALID; /* the latter is told where links are made */
}

enum gyre_join_channels gyre_domain_channels(struct gyre_domain *domain)
{
    struct choice choice = {.domain = domain};
    bool any = false, all = true;
    if (domain->job.world <= domain->settings.links_at_once)
        return GYRE_CHANNELS_NONE; /* every two ranks of so few connect in any case */
    list_ways(&choice);
    for (int i = 0; i < choice.ways; i++) {
        const bool offers = needs_offer(&choice.way[i]);
        all &= offers;
        any = any || (offers && is_present(domain, choice.way[i].driver));
    }
    return !any ? GYRE_CHANNELS_NONE : all ? GYRE_CHANNELS_ALL : GYRE_CHANNELS_PARTNERS;
}

/* Opens all ways. A driver that this rank lacks gives a reason to tell; a driver that the user
 * chose and that cannot be opened is a failure. */
static int open_ways(struct choice *choice)
{
    for (int i = 0; i < choice->ways; i++) {
        struct way *way = &choice->way[i];
        if (needs_offer(way) && open_way(choice, way, &way->why) == GYRE_INVALID)
            return gyre_trouble_set(choice->trouble, GYRE_INVALID, "%s", way->why.text);
    }
    return 0;
}

/* Gives the wire to the links when the first peer needs it. */
static int use_way(struct choice *choice, struct way *way)
{
    if (way->index >= 0)
        return 0;
    int status = way->wire ? 0 : open_way(choice, way, choice->trouble);
    if (status)
        return status;
    way->index = gyre_links_add_wire(choice->domain->links, way->driver, way->wire);
    if (way->index < 0)
        return way->index;
    way->wire = NULL;
    return 0;
}

static void close_ways(struct choice *choice)
{
    for (int i = 0; i < choice->ways; i++)
        if (choice->way[i].wire)
            choice->way[i].driver->close(choice->way[i].wire);
}

/* -- offers ------------------------------------------------------------------------------------ */

struct offer {
    uint16_t ways;             /* bit i: way i */
    char why[OFFER_BYTES - 6]; /* for all ways but the first */
};

static struct offer my_offer(const struct choice *choice)
{
    struct offer offer = {0};
    for (int i = 0; i < choice->ways; i++)
        if (!choice->way[i].why.status)
            offer.ways |= (uint16_t)(1u << i);
    snprintf(offer.why, sizeof offer.why, "%s", choice->way[0].why.text);
    return offer;
}

static int peer_lost(struct choice *choice, uint32_t peer)
{
    int status = atomic_load(&choice->domain->health.status);
    if (status)
        return gyre_trouble_set(choice->trouble, status, "%s", choice->domain->health.failure.text);
    return gyre_trouble_set(choice->trouble, GYRE_PEER_LOST,
                            "rank %u has gone, or says nothing, as the links were made", peer);
}

/* Waits for the socket; fails with the job, or when nothing comes for the join's patience. */
static int await_readable(struct choice *choice, uint32_t peer, int fd, uint64_t deadline)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (!atomic_load(&choice->domain->health.status) && gyre_now_ns() < deadline)
        if (poll(&wait, 1, LOOK_EACH_MS) > 0)
            return 0;
    return peer_lost(choice, peer);
}

/* Sends an offer. So short a record always fits the socket's empty buffer. */
static int tell_offer(struct choice *choice, uint32_t peer)
{
    const struct offer offer = my_offer(choice);
    uint8_t out[OFFER_BYTES];
    gyre_put32(out, OFFER_MAGIC | offer.ways);
    memcpy(out + 4, offer.why, sizeof offer.why);
    out[OFFER_BYTES - 2] = out[OFFER_BYTES - 1] = 0;
    ssize_t put = send(choice->domain->joined->peer[peer].tcp[0], out, sizeof out,
                       MSG_NOSIGNAL | MSG_DONTWAIT);
    return put == sizeof out ? 0 : peer_lost(choice, peer);
}

static int hear_remote_offer(struct choice *choice, uint32_t peer, struct offer *offer)
{
    const uint64_t patience = (uint64_t)choice->domain->settings.join_timeout_ms;
    const uint64_t deadline = gyre_now_ns() + patience * GYRE_MS;
    int fd = choice->domain->joined->peer[peer].tcp[0], status = 0;
    uint8_t in[OFFER_BYTES];
    for (size_t at = 0; at < sizeof in && !status;) {
        ssize_t got = recv(fd, in + at, sizeof in - at, MSG_DONTWAIT);
        if (got > 0)
            at += (size_t)got;
        else
            status = got < 0 && (errno == EAGAIN || errno == EINTR)
                         ? await_readable(choice, peer, fd, deadline)
                         : peer_lost(choice, peer);
    }
    if (status)
        return status;
    if ((gyre_get32(in) & 0xffff0000u) != OFFER_MAGIC)
        return gyre_trouble_set(choice->trouble, GYRE_CORRUPT,
                                "rank %u offers links in words that nobody knows", peer);
    offer->ways = (uint16_t)gyre_get32(in);
    memcpy(offer->why, in + 4, sizeof offer->why);
    offer->why[sizeof offer->why - 1] = 0;
    return 0;
}

/* -- peer by peer ------------------------------------------------------------------------------ */

static void note_refusal(struct choice *choice, int way, uint32_t peer, const char *reason)
{
    if (way)
        return;
    if (!choice->others++)
        snprintf(choice->reason, sizeof choice->reason, "rank %u: %s", peer, reason);
}

static bool both_have(struct choice *choice, int i, uint32_t peer, const struct offer *theirs)
{
    const struct gyre_trouble *why = &choice->way[i].why;
    if (!why->status && theirs->ways & 1u << i)
        return true;
    if (why->status)
        note_refusal(choice, i, choice->domain->joined->rank, why->text);
    else
        note_refusal(choice, i, peer, theirs->why);
    return false;
}

static int attach_by(struct choice *choice, struct way *way, uint32_t peer,
                     struct gyre_trouble *trouble)
{
    struct gyre_peer *ends = &choice->domain->joined->peer[peer];
    struct gyre_channel channel = {.peer = peer,
                                   .fds = ends->tcps,
                                   .renewable = gyre_domain_renews(choice->domain, peer),
                                   .security = gyre_domain_seals(choice->domain, ends->one_machine),
                                   .keys = ends->tcp_keys};
    int status = use_way(choice, way);
    if (status)
        return status;
    memcpy(channel.fd, ends->tcp, sizeof(int) * (size_t)ends->tcps);
    status = gyre_links_attach(choice->domain->links, way->index, &channel, trouble);
    for (int i = 0; !status && i < ends->tcps; i++)
        ends->tcp[i] = -1; /* the driver's now */
    if (!status)
        gyre_wipe(ends->tcp_keys, sizeof ends->tcp_keys);
    if (!status && !needs_offer(way))
        gyre_log(GYRE_LOG_DEBUG, "frames to rank %u by %s are %s", peer, way->driver->name,
                 gyre_seal_word(channel.security));
    return status;
}

/* Tells that a peer left. Ranks that differ leave as soon as they are told, and this one is told
 * too. */
static int peer_left(struct choice *choice, uint32_t peer, const struct gyre_trouble *why)
{
    const uint64_t deadline = gyre_now_ns() + CAUSE_MS * GYRE_MS;
    while (!atomic_load(&choice->domain->health.status) && gyre_now_ns() < deadline)
        poll(NULL, 0, LOOK_EACH_MS);
    return atomic_load(&choice->domain->health.status)
               ? peer_lost(choice, peer)
               : gyre_trouble_set(choice->trouble, GYRE_PEER_LOST, "%s", why->text);
}

/* Attaches a peer. Both ends walk down the same list and hear the same answers. */
static int attach_peer(struct choice *choice, uint32_t peer, const struct offer *theirs)
{
    for (int i = 0; i < choice->ways; i++) {
        struct gyre_trouble why = {0};
        if (!both_have(choice, i, peer, theirs))
            continue;
        int status = attach_by(choice, &choice->way[i], peer, &why);
        if (status == GYRE_PEER_LOST)
            return peer_left(choice, peer, &why);
        if (status != GYRE_UNSUPPORTED)
            return status ? gyre_trouble_set(choice->trouble, status, "%s", why.text) : 0;
        note_refusal(choice, i, peer, why.text);
    }
    return gyre_trouble_set(choice->trouble, GYRE_UNSUPPORTED, "transport \"%s\" cannot serve: %s",
                            choice->domain->settings.transport, choice->reason);
}

/* Logs the choice. A driver that this rank lacks altogether needs no line: the cluster may not have
 * such devices. */
static void report_choice(const struct choice *choice)
{
    const struct way *first = &choice->way[0];
    if (choice->others)
        gyre_log(first->why.status == GYRE_UNSUPPORTED ? GYRE_LOG_INFO : GYRE_LOG_WARN,
                 "%s instead of %s to %u of %u ranks on other nodes: %s",
                 choice->way[choice->ways - 1].driver->name, first->driver->name, choice->others,
                 choice->remote, choice->reason);
}

/* -- all of them ------------------------------------------------------------------------------- */

static bool is_far(const struct choice *choice, uint32_t peer)
{
    return choice->domain->joined->peer[peer].tcps > 0;
}

/* Of another node, and joining has made its connections. */
static bool is_remote(const struct choice *choice, uint32_t peer)
{
    const struct gyre_joined *joined = choice->domain->joined;
    return is_far(choice, peer) && gyre_joined_connects(joined, joined->rank, peer);
}

static int tell_all(struct choice *choice)
{
    int status = 0;
    for (uint32_t peer = 0; !status && peer < choice->domain->joined->n; peer++)
        if (is_remote(choice, peer))
            status = tell_offer(choice, peer);
    return status;
}

static int hear_all(struct choice *choice, struct offer *offer)
{
    int status = 0;
    for (uint32_t peer = 0; !status && peer < choice->domain->joined->n; peer++)
        if (is_remote(choice, peer))
            status = hear_remote_offer(choice, peer, &offer[peer]);
    return status;
}

static int attach_all(struct choice *choice, struct offer *offer)
{
    int status = 0;
    for (uint32_t peer = 0; !status && peer < choice->domain->joined->n; peer++)
        if (is_remote(choice, peer))
            status = attach_peer(choice, peer, &offer[peer]);
    return status;
}

static int agree_on_driver(struct choice *choice)
{
    const uint32_t n = choice->domain->joined->n;
    struct offer *offer = malloc(n * sizeof *offer);
    if (!offer)
        return gyre_trouble_set(choice->trouble, -ENOMEM, "no memory for offers of %u ranks", n);
    for (uint32_t peer = 0; peer < n; peer++)
        offer[peer] = (struct offer){.ways = UINT16_MAX};
    int status = needs_offer(&choice->way[0]) ? tell_all(choice) : 0;
    if (!status && needs_offer(&choice->way[0]))
        status = hear_all(choice, offer);
    if (!status)
        status = attach_all(choice, offer);
    free(offer);
    return status;
}

/* Has the last driver, tcp, make links to all other peers at their first use. */
static int attach_on_demand(struct choice *choice, uint32_t far)
{
    struct gyre_domain *domain = choice->domain;
    struct way *way = &choice->way[choice->ways - 1];
    const uint32_t partners = choice->remote;
    choice->remote = far < PEERS_USUAL ? far : PEERS_USUAL;
    int status = needs_offer(way) ? GYRE_UNSUPPORTED : use_way(choice, way);
    if (!status)
        status = gyre_domain_plan_links(domain);
    if (status)
        return gyre_trouble_set(choice->trouble, status,
                                "links over transport \"%s\" cannot be prepared: %s",
                                domain->settings.transport, gyre_status_name(status));
    gyre_links_connect_on_demand(domain->links, way->index, &domain->on_demand);
    if (partners)
        gyre_log(GYRE_LOG_INFO,
                 "links to %u of %u ranks on other nodes are made, to the others by %s at their "
                 "first use (GYRE_LINKS_AT_ONCE=%d)",
                 partners, far, way->driver->name, (int)domain->settings.links_at_once);
    return 0;
}

static int attach_joined(struct choice *choice)
{
    int status = open_ways(choice);
    if (!status)
        status = agree_on_driver(choice);
    if (!status)
        report_choice(choice);
    return status;
}

int gyre_domain_attach_remote(struct gyre_domain *domain, struct gyre_trouble *trouble)
{
    struct choice choice = {.domain = domain, .trouble = trouble};
    uint32_t far = 0;
    for (uint32_t peer = 0; peer < domain->joined->n; peer++) {
        far += is_far(&choice, peer);
        choice.remote += is_remote(&choice, peer);
    }
    if (!far)
        return 0;
    domain->sockets = true;
    list_ways(&choice);
    int status = choice.remote ? attach_joined(&choice) : 0;
    if (!status && domain->joined->on_demand)
        status = attach_on_demand(&choice, far);
    close_ways(&choice);
    return status;
}
