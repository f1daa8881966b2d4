/* The life of a message: taken from the pool, ended, released; and what the watch knows of them.
 *
 * The pool grows by chunks when more messages are pending than ever before; nothing else is
 * allocated.
 *
 * Tested by tests/program/collectives/point_to_point.c. */
#include "collectives/messages/inside.h"

#include "collectives/engine/engine.h"

#include <errno.h>
#include <stdlib.h>

/* -- the pool ---------------------------------------------------------------------------------- */

int gyre_p2p_create(const struct gyre_message_route *route, struct gyre_point_to_point **out)
{
    struct gyre_point_to_point *p2p = calloc(1, sizeof(*p2p));
    if (p2p) {
        p2p->route = *route;
        p2p->pair = calloc(route->n, sizeof(*p2p->pair));
        p2p->activity = calloc(1, sizeof(*p2p->activity));
    }
    if (!p2p || !p2p->pair || !p2p->activity) {
        gyre_p2p_destroy(p2p);
        return -ENOMEM;
    }
    atomic_store(&p2p->activity->comm, GYRE_WATCH_POINT_TO_POINT);
    p2p->activity->recorder = gyre_domain_activity(route->domain)->recorder;
    gyre_watch_attend(gyre_domain_watch(route->domain), p2p->activity);
    *out = p2p;
    return 0;
}

void gyre_p2p_destroy(struct gyre_point_to_point *p2p)
{
    if (!p2p)
        return;
    for (uint32_t c = 0; c < p2p->chunks; c++) {
        for (uint32_t i = 0; i < GYRE_MESSAGE_CHUNK; i++) {
            free(p2p->chunk[c][i].copy);
            gyre_staged_drop(&p2p->route, &p2p->staged_pool, &p2p->chunk[c][i]);
        }
        free(p2p->chunk[c]);
    }
    gyre_staged_deinit(&p2p->route, &p2p->staged_pool);
    gyre_tag_deinit(&p2p->tags);
    free(p2p->activity);
    free(p2p->pair);
    free(p2p);
}

void gyre_p2p_withdraw(struct gyre_point_to_point *p2p)
{
    if (p2p)
        gyre_watch_ignore(gyre_domain_watch(p2p->route.domain), p2p->activity);
}

static int grow_messages(struct gyre_point_to_point *p2p)
{
    struct gyre_message *chunk =
        p2p->chunks < GYRE_MESSAGE_CHUNKS ? calloc(GYRE_MESSAGE_CHUNK, sizeof(*chunk)) : NULL;
    if (!chunk)
        return -ENOMEM;
    for (uint32_t i = GYRE_MESSAGE_CHUNK; i-- > 0;) {
        chunk[i].index = p2p->chunks * GYRE_MESSAGE_CHUNK + i;
        chunk[i].next = p2p->free;
        p2p->free = &chunk[i];
    }
    p2p->chunk[p2p->chunks++] = chunk;
    return 0;
}

struct gyre_message *gyre_p2p_take_free(struct gyre_point_to_point *p2p)
{
    if (!p2p->free && grow_messages(p2p))
        return NULL;
    struct gyre_message *message = p2p->free;
    p2p->free = message->next;
    *message = (struct gyre_message){.index = message->index, .status = GYRE_AGAIN};
    return message;
}

void gyre_p2p_release(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    if (message->received && message->status == 0)
        *message->received = (struct gyre_received){
            .source = (int)message->peer, .tag = (int)message->tag, .count = message->count};
    free(message->copy);
    message->copy = NULL;
    gyre_staged_drop(&p2p->route, &p2p->staged_pool, message);
    message->next = p2p->free;
    p2p->free = message;
}

/* -- the watch's books ------------------------------------------------------------------------- */

void gyre_p2p_note_finished(const struct gyre_point_to_point *p2p)
{
    uint64_t messages = p2p->pending - p2p->pending_blocks;
    gyre_activity_finish(p2p->activity, p2p->started - messages);
}

void gyre_p2p_focus(struct gyre_point_to_point *p2p)
{
    gyre_activity_focus(gyre_domain_activity(p2p->route.domain), p2p->activity);
}

struct gyre_record_place gyre_p2p_note_started(struct gyre_point_to_point *p2p,
                                               const struct gyre_message_terms *terms)
{
    uint32_t peer = terms->peer == GYRE_MESSAGE_ANYONE ? GYRE_SIGNATURE_ANYONE
                                                       : gyre_route_world(&p2p->route, terms->peer);
    uint64_t signature = gyre_signature_message(
        terms->send ? GYRE_SIGNATURE_SEND : GYRE_SIGNATURE_RECV, terms->type, terms->tag, peer);
    gyre_activity_enter(p2p->activity, GYRE_WATCH_POINT_TO_POINT, p2p->started, signature,
                        signature, terms->count);
    gyre_p2p_note_finished(p2p);
    gyre_p2p_focus(p2p);
    const struct gyre_record_call call = {p2p->started, signature, terms->count,
                                          GYRE_RECORD_MESSAGES, GYRE_BY_MESSAGE};
    struct gyre_record_place place = gyre_record_call(p2p->activity->recorder, &call);
    gyre_record_waits(place, peer);
    return place;
}

void gyre_p2p_refuse(struct gyre_point_to_point *p2p, const char *why)
{
    gyre_watch_refuse(gyre_domain_watch(p2p->route.domain), p2p->activity, p2p->started + 1, why);
}

struct gyre_message *gyre_p2p_message(const struct gyre_point_to_point *p2p, uint32_t index)
{
    return &p2p->chunk[index / GYRE_MESSAGE_CHUNK][index % GYRE_MESSAGE_CHUNK];
}

/* -- ends -------------------------------------------------------------------------------------- */

void gyre_p2p_end(struct gyre_point_to_point *p2p, struct gyre_message *message, int status)
{
    struct gyre_operation *op = message->op;
    p2p->pending--;
    gyre_staged_give_window(message);
    message->status = status;
    gyre_record_ended(message->record, status);
    if (!op) {
        gyre_p2p_note_finished(p2p);
        return;
    }
    p2p->pending_blocks--;
    gyre_p2p_release(p2p, message);
    if (--op->blocks == 0 && op->status == GYRE_AGAIN)
        gyre_engine_finish(p2p->route.engine, op, status);
}

/* Takes a message out of its way. */
void gyre_way_unlink(struct gyre_message_way *way, struct gyre_message *message)
{
    struct gyre_message *before = NULL;
    for (struct gyre_message *at = way->first; at != message; at = at->next)
        before = at;
    if (before)
        before->next = message->next;
    else
        way->first = message->next;
    if (way->last == message)
        way->last = before;
}

struct gyre_message *gyre_way_find(const struct gyre_message_way *way, uint64_t sequence)
{
    struct gyre_message *message = way->first;
    while (message && message->match.sequence != sequence)
        message = message->next;
    return message;
}
