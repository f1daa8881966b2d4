/* Messages between the own rank and itself: they meet here, without a link.
 *
 * A blocking send that nobody receives yet goes on from a copy. A receive that no send has met can
 * be withdrawn, because no other rank could bring its message.
 *
 * Tested by tests/program/collectives/point_to_point.c. */
#include "collectives/messages/inside.h"

#include "base/types.h"
#include "collectives/staging/fold_queue.h"

#include <errno.h>
#include <stdlib.h>

/* Says why two ends on the own rank do not meet. */
static int tell_own_mismatch(const struct gyre_message *from, const struct gyre_message *to)
{
    gyre_thread_trouble()->status = 0; /* of an earlier call */
    return gyre_trouble_set(gyre_thread_trouble(), GYRE_MISMATCH,
                            "rank %u sends itself %llu elements of %s with tag %u, and receives "
                            "%llu of %s",
                            to->peer, (unsigned long long)from->count, gyre_type_name(from->type),
                            from->tag, (unsigned long long)to->count, gyre_type_name(to->type));
}

void gyre_own_meet(struct gyre_point_to_point *p2p, const struct gyre_message *message)
{
    struct gyre_message_pair *own = &p2p->pair[p2p->route.rank];
    struct gyre_message *from = gyre_way_find(&own->way[GYRE_WAY_SEND], message->match.sequence),
                        *to = gyre_way_find(&own->way[GYRE_WAY_RECV], message->match.sequence);
    if (!from || !to)
        return;
    bool equal = from->match.fingerprint == to->match.fingerprint;
    const void *data = from->copy ? from->copy : from->data;
    int status = equal ? 0 : tell_own_mismatch(from, to);
    gyre_way_unlink(&own->way[GYRE_WAY_SEND], from);
    gyre_way_unlink(&own->way[GYRE_WAY_RECV], to);
    if (equal && to->bytes && to->data != data)
        gyre_fold_queue_copy_now(p2p->route.fold_queue, to->data, data, to->bytes,
                                 to->kind != GYRE_MEMORY_HOST ||
                                     (!from->copy && from->kind != GYRE_MEMORY_HOST));
    if (from->copy)
        gyre_p2p_release(p2p, from);
    else
        gyre_p2p_end(p2p, from, status);
    gyre_p2p_end(p2p, to, status);
}

int gyre_p2p_detach_own(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    message->copy = malloc(message->bytes + 1);
    if (!message->copy)
        return gyre_trouble_set(gyre_thread_trouble(), -ENOMEM,
                                "gyre_send: no memory to keep %llu bytes for this rank itself; "
                                "start its gyre_recv_start() first",
                                (unsigned long long)message->bytes);
    gyre_fold_queue_copy_now(p2p->route.fold_queue, message->copy, message->data, message->bytes,
                             message->kind != GYRE_MEMORY_HOST);
    p2p->pending--;
    gyre_p2p_note_finished(p2p);
    return 0;
}

/* Takes back a receive that has its name; those of its tag behind it move up by one. */
static void withdraw_named(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    struct gyre_message_way *way = &p2p->pair[p2p->route.rank].way[GYRE_WAY_RECV];
    for (struct gyre_message *at = message->next; at; at = at->next)
        if (at->tag == message->tag)
            at->match.sequence--;
    gyre_way_unlink(way, message);
    way->started--;
    --*gyre_names_count(p2p, p2p->route.rank, message->tag, GYRE_WAY_RECV);
}

void gyre_p2p_withdraw_own(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    if (message->open)
        gyre_open_remove(p2p, message);
    else
        withdraw_named(p2p, message);
    p2p->pending--;
    gyre_p2p_note_finished(p2p);
    gyre_p2p_release(p2p, message);
}
