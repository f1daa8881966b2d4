/* Connections of links that are made at their first use: what a rank's watch and its mender do.
 *
 *      links ─ broken() ─▶ wish ─▶ dial ═ virtual time ═▶ the peer
 *                            ▲                             ├─ lower:   part(), renew() ─▶ RENEWED
 *                            │                             ├─ higher:  part(); wishes itself
 *                            └────── pause ◀── WELCOME ────┴─ has left: GONE
 *
 * Stands for transport/watch/renew.c and transport/domain/mend.c: as there the higher rank's
 * connection counts, attempts are numbered, a rank that computes answers, and what cannot be made
 * for twice the dead time fails the job. Links, and the pipes' keys, are the real ones. */
#include "sim/hunt/inside.h"

#include <stdio.h>
#include <string.h>

#define PAUSE      (HUNT_DEAD / 40)
#define TOLD_PAUSE GYRE_SECOND

enum { RENEWED, WELCOME, GONE, HUNG_UP }; /* in `length` of an answer */

void hunt_links_plan(struct gyre_domain *rank)
{
    const uint32_t node = rank->rank / hunt.is->per_node;
    rank->on_demand = (struct gyre_on_demand){
        .rank = rank->rank, .n = hunt.is->n, .sockets = 1, .peer = rank->far};
    for (uint32_t peer = 0; peer < hunt.is->n; peer++)
        rank->far[peer] = (struct gyre_on_demand_peer){.far = hunt.is->on_demand &&
                                                              peer / hunt.is->per_node != node,
                                                       .security = hunt.is->security};
}

static bool *made(uint32_t a, uint32_t b)
{
    return a < b ? &hunt.made[a][b] : &hunt.made[b][a];
}

/* -- on the way -------------------------------------------------------------------------------- */

static bool is_process(const struct gyre_domain *rank)
{
    return rank->life == HUNT_LIVES;
}

/* Schedules what reaches `to` from another rank: not while nothing passes. */
static void pass(uint32_t from, uint32_t to, struct hunt_event event)
{
    const uint64_t at = gyre_now_ns() + hunt.is->latency_ns + hunt.slower_ns[from][to];
    const uint64_t open = hunt.clogged_until[from][to];
    event.at = at > open ? at : open;
    event.rank = to;
    event.channel = from;
    hunt_schedule(event);
}

/* Has the rank try after a pause. */
static void try_later(struct gyre_domain *rank, uint32_t peer, uint64_t pause)
{
    struct hunt_wish *wish = &rank->wish[peer];
    wish->vain_ns += pause;
    hunt_schedule((struct hunt_event){.at = gyre_now_ns() + pause,
                                      .kind = HUNT_LINK_DIAL,
                                      .rank = rank->rank,
                                      .channel = peer,
                                      .wire = ++wish->number});
}

static void tell_unreached(struct gyre_domain *rank, uint32_t peer)
{
    char text[128];
    snprintf(text, sizeof text,
             "rank %u cannot be reached by rank %u for twice the dead time: it makes no connection",
             peer, rank->rank);
    rank->wish[peer].vain_ns = 0;
    gyre_watch_report(&rank->watch, GYRE_PEER_LOST, peer, true, text);
}

static bool is_clogged(uint32_t a, uint32_t b)
{
    const uint64_t now = gyre_now_ns();
    return hunt.clogged_until[a][b] > now || hunt.clogged_until[b][a] > now;
}

/* An ended process refuses. The watch tells of its death, where rank 0 has not left. */
static void be_refused(struct gyre_domain *rank, uint32_t peer)
{
    if (atomic_load(&rank->health.rootless) && gyre_link_gone(rank->links, peer, 0, false))
        rank->wish[peer].is = false;
    else
        try_later(rank, peer, PAUSE);
}

static void dial_link(struct gyre_domain *rank, uint32_t peer)
{
    struct hunt_wish *wish = &rank->wish[peer];
    if (wish->vain_ns > 2 * HUNT_DEAD)
        tell_unreached(rank, peer);
    if (is_clogged(rank->rank, peer)) {
        try_later(rank, peer, PAUSE);
        return;
    }
    if (!is_process(&hunt.rank[peer])) {
        be_refused(rank, peer);
        return;
    }
    rank->asked_of = peer;
    rank->asked_number = wish->number;
    pass(rank->rank, peer, (struct hunt_event){.kind = HUNT_LINK_ASK, .wire = wish->number});
}

/* The connection was reset before it was one. */
static bool breaks_on_the_way(uint32_t a, uint32_t b)
{
    uint32_t *left = &hunt.dials_to_reset[hunt.dials_to_reset[a] ? a : b];
    if (!*left)
        return false;
    --*left;
    return true;
}

/* -- the peer ---------------------------------------------------------------------------------- */

void hunt_links_ask(struct gyre_domain *rank)
{
    struct gyre_break lost;
    if (rank->links && atomic_load(&rank->health.rootless))
        gyre_links_look_by_links(rank->links);
    while (rank->links && gyre_links_broken(rank->links, &lost)) {
        rank->wish[lost.peer].is = true;
        rank->wish[lost.peer].vain_ns = 0;
        try_later(rank, lost.peer, 0);
    }
}

/* Goes on over the connection of a rank that has asked. */
static uint32_t grant(struct gyre_domain *rank, uint32_t peer, uint32_t number)
{
    uint64_t received;
    if (gyre_link_part(rank->links, peer, 0, number, &received))
        return HUNG_UP;
    rank->wish[peer].is = false;
    *made(rank->rank, peer) = true;
    gyre_link_renew(rank->links, peer, 0, -1, number, received);
    return RENEWED;
}

/* The higher rank hears that its peer wants a connection. */
static uint32_t hear_wish(struct gyre_domain *rank, uint32_t peer, uint32_t number)
{
    uint64_t received;
    (void)gyre_link_part(rank->links, peer, 0, number + 1, &received);
    hunt_links_ask(rank);
    return WELCOME;
}

/* Whether the higher rank, which asks, has since hung up. */
static bool has_hung_up(uint32_t higher, uint32_t lower, uint32_t number)
{
    const struct hunt_wish *wish = &hunt.rank[higher].wish[lower];
    return higher > lower && !(wish->is && wish->number == number);
}

static void be_asked(struct gyre_domain *rank, const struct hunt_event *event)
{
    const uint32_t peer = event->channel, number = (uint32_t)event->wire;
    uint32_t answer = HUNG_UP;
    if (has_hung_up(peer, rank->rank, number))
        return;
    if (!breaks_on_the_way(rank->rank, peer) && is_process(rank))
        answer = rank->links_ended   ? GONE
                 : peer > rank->rank ? grant(rank, peer, number)
                                     : hear_wish(rank, peer, number);
    hunt_note("is asked for a link", rank->rank, peer, answer);
    pass(rank->rank, peer,
         (struct hunt_event){.kind = HUNT_LINK_ANSWER, .length = answer, .wire = number});
}

/* -- the answer -------------------------------------------------------------------------------- */

/* Goes on over the new connection. Nobody may be there any more who would: then the peer finds that
 * its end is closed. */
static void take_link(struct gyre_domain *rank, uint32_t peer)
{
    rank->wish[peer].is = false;
    if (!rank->links || gyre_link_renew(rank->links, peer, 0, -1, 0, 0))
        gyre_sim_world_reset(hunt.world, rank->rank, peer);
}

static void hear(struct gyre_domain *rank, const struct hunt_event *event)
{
    const uint32_t peer = event->channel;
    if (event->length == RENEWED)
        take_link(rank, peer);
    else if (event->length == GONE && rank->links && gyre_link_gone(rank->links, peer, 0, true))
        rank->wish[peer].is = false;
    else
        try_later(rank, peer, event->length == WELCOME ? TOLD_PAUSE : PAUSE);
}

/* -- all --------------------------------------------------------------------------------------- */

static bool is_wanted(const struct gyre_domain *rank, const struct hunt_event *event)
{
    const struct hunt_wish *wish = &rank->wish[event->channel];
    return is_process(rank) && rank->links && wish->is && wish->number == event->wire;
}

/* When the rank hears what has come: not before it has links, nor while it is stopped. */
static uint64_t hears_at(const struct gyre_domain *rank)
{
    const bool early = !rank->links && !rank->links_ended;
    const uint64_t soon = early ? gyre_now_ns() + hunt.is->latency_ns : 0;
    return rank->watch.silent_until > soon ? rank->watch.silent_until : soon;
}

void hunt_links_handle(const struct hunt_event *event)
{
    struct gyre_domain *rank = &hunt.rank[event->rank];
    if (is_process(rank) && hears_at(rank) > gyre_now_ns()) {
        hunt_postpone(event, hears_at(rank));
        return;
    }
    hunt.here = is_process(rank) ? rank : NULL; /* the memory of its links is its own */
    if (event->kind == HUNT_LINK_ASK)
        be_asked(rank, event);
    else if (event->kind == HUNT_LINK_ANSWER && event->length == RENEWED)
        take_link(rank, event->channel);
    else if (is_wanted(rank, event) && event->kind == HUNT_LINK_ANSWER)
        hear(rank, event);
    else if (is_wanted(rank, event))
        dial_link(rank, event->channel);
    hunt.here = NULL;
}

/* -- faults ------------------------------------------------------------------------------------ */

bool hunt_links_reset(uint32_t a, uint32_t b)
{
    const uint32_t ends[2][2] = {{a, b}, {b, a}};
    if (!hunt.rank[a].far[b].far || *made(a, b))
        return true;
    for (int i = 0; i < 2; i++) {
        struct gyre_domain *rank = &hunt.rank[ends[i][0]];
        if (is_process(rank) && rank->wish[ends[i][1]].is)
            try_later(rank, ends[i][1], 0);
    }
    return false;
}

bool hunt_links_repeat(uint32_t rank)
{
    const struct gyre_domain *from = &hunt.rank[rank];
    if (!from->asked_number)
        return false;
    pass(rank, from->asked_of,
         (struct hunt_event){.kind = HUNT_LINK_ASK, .wire = from->asked_number});
    return true;
}
