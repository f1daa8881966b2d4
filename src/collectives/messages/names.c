/* Names of messages from rank to rank: the communicator, the direction, the tag, and the number
 * among the messages of that tag. Both ends count alike, so no number is ever told.
 *
 * Tested by tests/program/collectives/tags.c. */
#include "collectives/messages/inside.h"

uint32_t *gyre_names_count(struct gyre_point_to_point *p2p, uint32_t peer, uint32_t tag, int way)
{
    if (!tag)
        return &p2p->pair[peer].way[way].named;
    struct gyre_tag_count *count = gyre_tag_count(&p2p->tags, peer, tag);
    return count ? &count->named[way] : NULL;
}

/* The mark of a message's direction: the higher rank's messages to the lower one have names of
 * their own. */
static uint16_t direction(const struct gyre_point_to_point *p2p, uint32_t peer, bool send)
{
    uint32_t here = gyre_route_world(&p2p->route, p2p->route.rank),
             there = gyre_route_world(&p2p->route, peer);
    return send == (here > there) ? GYRE_MATCH_DOWN : 0;
}

struct gyre_match gyre_names_next(const struct gyre_point_to_point *p2p, uint32_t peer,
                                  uint32_t tag, bool send)
{
    uint32_t named = tag ? gyre_tag_named(&p2p->tags, peer, tag, send)
                         : p2p->pair[peer].way[send ? GYRE_WAY_SEND : GYRE_WAY_RECV].named;
    return (struct gyre_match){
        .comm = (uint16_t)(p2p->route.comm | GYRE_MATCH_PAIR | direction(p2p, peer, send)),
        .sequence = gyre_match_sequence(tag, named + 1)};
}

void gyre_names_give(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    int way = message->send ? GYRE_WAY_SEND : GYRE_WAY_RECV;
    message->match = gyre_names_next(p2p, message->peer, message->tag, message->send);
    message->match.fingerprint = gyre_match_terms(message->type, message->count);
    ++*gyre_names_count(p2p, message->peer, message->tag, way);
    gyre_way_of(p2p, message)->started++;
}
