/* Open receives: those that wait for a name.
 *
 *     recv_any, tag 3 ──▶ [ any, 3 ] [ rank 2, 3 ] [ any, 8 ]      in the order of their calls
 *                            ▲            │
 *     rank 1 sends, tag 3 ───┘            └─ must not have a message that the first could take
 *
 * A receive of any rank, or of any length, has a name once a message for it is known: it has come,
 * or its sender has asked for a grant. A receive from a known rank has one at once, unless an open
 * one before it may take the same message. Open ones are looked at in their order. So receives get
 * messages in the order in which both were called, and no sender tells more than it would anyway.
 *
 * Tested by tests/program/collectives/tags.c. */
#include "collectives/messages/inside.h"

#include "base/types.h"
#include "collectives/engine/engine.h"

#include <errno.h>

/* -- the list ---------------------------------------------------------------------------------- */

bool gyre_open_covers(const struct gyre_point_to_point *p2p, const struct gyre_message *until,
                      uint32_t peer, uint32_t tag)
{
    const struct gyre_message *at = p2p->open.first;
    while (at && at != until &&
           (at->tag != tag ||
            (at->peer != peer && at->peer != GYRE_MESSAGE_ANYONE && peer != GYRE_MESSAGE_ANYONE)))
        at = at->next;
    return at && at != until;
}

void gyre_open_add(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    message->open = true;
    message->next = NULL;
    if (p2p->open.first)
        p2p->open.last->next = message;
    else
        p2p->open.first = message;
    p2p->open.last = message;
}

void gyre_open_remove(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    struct gyre_message *before = NULL;
    for (struct gyre_message *at = p2p->open.first; at != message; at = at->next)
        before = at;
    if (before)
        before->next = message->next;
    else
        p2p->open.first = message->next;
    if (p2p->open.last == message)
        p2p->open.last = before;
    message->next = NULL;
    message->open = false;
}

/* -- whose message comes ----------------------------------------------------------------------- */

/* Looks for a message of that peer for an open receive: 1, 0, or the status with which none will
 * come. */
static int ask_of(const struct gyre_point_to_point *p2p, const struct gyre_message *message,
                  uint32_t peer, uint64_t *terms)
{
    struct gyre_match match = gyre_names_next(p2p, peer, message->tag, false);
    const struct gyre_message *own;
    int status;
    if (peer == p2p->route.rank) {
        own = gyre_way_find(&p2p->pair[peer].way[GYRE_WAY_SEND], match.sequence);
        match.fingerprint = own ? own->match.fingerprint : 0;
        status = own != NULL;
    } else {
        status = gyre_link_announced(p2p->route.links, gyre_route_world(&p2p->route, peer), &match);
    }
    *terms = match.fingerprint;
    return status;
}

static void fail_receive(const struct gyre_point_to_point *p2p, uint32_t peer, int status)
{
    gyre_engine_link_failed(p2p->route.engine, gyre_route_world(&p2p->route, peer), status);
}

/* Whether the peer has said goodbye, or ended before it had a link. One that is lost otherwise may
 * have sent a message. */
static bool peer_has_left(const struct gyre_point_to_point *p2p, uint32_t peer)
{
    return gyre_link_has_left(p2p->route.links, gyre_route_world(&p2p->route, peer));
}

/* Whether the peer has ended, and nobody knows whether it has left. */
static bool peer_has_ended(const struct gyre_point_to_point *p2p, uint32_t peer)
{
    return gyre_link_state(p2p->route.links, gyre_route_world(&p2p->route, peer), NULL) ==
           GYRE_PEER_LOST;
}

/* Finds a rank whose message can be taken, each rank before the others in turn. False: there is
 * none, and where all ranks have left, or a link has failed, that is the engine's fault. */
static bool find_sender(struct gyre_point_to_point *p2p, const struct gyre_message *message,
                        uint32_t *peer, uint64_t *terms)
{
    bool anyone = message->peer == GYRE_MESSAGE_ANYONE;
    uint32_t n = p2p->route.n, most = anyone ? n : 1, gone = 0, left = 0;
    for (uint32_t i = 0; i < most; i++) {
        *peer = anyone ? (p2p->open.turn + i) % n : message->peer;
        int status = ask_of(p2p, message, *peer, terms);
        if (status > 0) {
            p2p->open.turn = *peer + 1;
            return true;
        }
        bool parted = status == GYRE_PEER_LOST && peer_has_left(p2p, *peer);
        if (parted && (!gone++ || peer_has_ended(p2p, *peer)))
            left = *peer;
        if (status < 0 && !parted)
            fail_receive(p2p, *peer, status);
    }
    if (gone && gone == (anyone ? n - 1 : 1))
        fail_receive(p2p, left, GYRE_PEER_LOST);
    return false;
}

static bool fits(const struct gyre_message *message, uint64_t terms)
{
    return gyre_match_terms_type(terms) == (uint32_t)message->type &&
           gyre_match_terms_count(terms) <= message->count;
}

static void tell_misfit(const struct gyre_point_to_point *p2p, const struct gyre_message *message,
                        uint32_t peer, uint64_t terms)
{
    struct gyre_trouble trouble = {0};
    uint32_t there = gyre_route_world(&p2p->route, peer);
    gyre_trouble_set(&trouble, GYRE_MISMATCH,
                     "rank %u sends %llu elements of %s with tag %u, but rank %u takes at most "
                     "%llu of %s there",
                     there, (unsigned long long)gyre_match_terms_count(terms),
                     gyre_type_name(gyre_match_terms_type(terms)), message->tag,
                     gyre_route_world(&p2p->route, p2p->route.rank),
                     (unsigned long long)message->count, gyre_type_name(message->type));
    gyre_engine_fault(p2p->route.engine, GYRE_MISMATCH, there, false, &trouble);
}

/* Gives an open receive the message of that peer. False: the message does not fit. A misfit of the
 * own rank's is told where both ends meet. */
static bool take_terms(const struct gyre_point_to_point *p2p, struct gyre_message *message,
                       uint32_t peer, uint64_t terms)
{
    bool own = peer == p2p->route.rank;
    if (!fits(message, terms) && !own) {
        tell_misfit(p2p, message, peer, terms);
        return false;
    }
    message->peer = peer;
    if (fits(message, terms))
        message->count = gyre_match_terms_count(terms);
    message->bytes = message->count * gyre_type_size(message->type);
    message->bound = !own;
    return true;
}

static bool can_be_named(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    uint32_t peer;
    uint64_t terms;
    if (!message->any)
        return !gyre_open_covers(p2p, message, message->peer, message->tag);
    return find_sender(p2p, message, &peer, &terms) && take_terms(p2p, message, peer, terms);
}

struct gyre_message *gyre_open_take(struct gyre_point_to_point *p2p)
{
    struct gyre_message *message = p2p->open.first;
    while (message && !can_be_named(p2p, message))
        message = message->next;
    if (message)
        gyre_open_remove(p2p, message);
    return message;
}
