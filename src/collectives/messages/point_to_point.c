/* Messages from rank to rank.
 *
 *   gyre_send ─▶ message ─▶ pair[peer].way[SEND] ─▶ link, WAY_POSTS at a time ─▶ completion
 *   gyre_recv ─▶ message ─▶ pair[peer].way[RECV] ─▶ …
 *                   ├─▶ staged: in pieces, or by way of other memory (staged_message.h) ─▶ link
 *                   └─▶ open: from any rank, or behind such a receive (open.c) ─▶ way[RECV]
 *
 * The link matches: the n-th send of a tag to a peer meets the peer's n-th receive of that tag from
 * here. A way posts only part of what the link takes, so that operations never wait for messages
 * whose other end has not been called. Receives whose message is known to wait are posted beyond
 * that. Messages to the own rank meet here, without a link.
 *
 * A short message that a link brings without a post leaves at its call, and is looked for before
 * its receive is posted.
 *
 * Tested by tests/program/collectives/point_to_point.c. */
#include "collectives/messages/inside.h"

#include "base/machine/cpu.h"
#include "collectives/engine/engine.h"
#include "collectives/messages/token.h"
#include "collectives/staging/fold_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAY_POSTS 96u
#define WAY_LOOKS 1024u /* receives that are looked for beyond WAY_POSTS */

/* -- posting ----------------------------------------------------------------------------------- */

static int post_message(const struct gyre_point_to_point *p2p, const struct gyre_message *message)
{
    uint64_t token = gyre_token_of_message(p2p->route.comm, message->index, 0);
    uint32_t peer = gyre_route_world(&p2p->route, message->peer);
    struct gyre_links *links = p2p->route.links;
    struct gyre_match match = message->match;
    match.on_device = message->kind != GYRE_MEMORY_HOST;
    return message->send
               ? gyre_link_send(links, peer, &match, message->data, message->bytes, token)
               : gyre_link_recv(links, peer, &match, message->data, message->bytes, token);
}

/* Tells a mismatch at once. Two ends that disagree about a message are the cause, not an echo. But
 * where the peer has left, the watch may know why. */
static void tell_at_once(struct gyre_point_to_point *p2p, int status)
{
    if (status && status != GYRE_PEER_LOST && p2p->route.engine->fault.status == GYRE_MISMATCH)
        p2p->route.engine->fault.echo = false;
}

static void fail_link(struct gyre_point_to_point *p2p, const struct gyre_message *message,
                      int status)
{
    gyre_engine_link_failed(p2p->route.engine, gyre_route_world(&p2p->route, message->peer),
                            status);
    tell_at_once(p2p, status);
}

static void stage_message(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    message->next = p2p->staged;
    p2p->staged = message;
}

/* Brings the next receive to the front whose message waits, where the others fill the way. */
static void advance_announced(const struct gyre_point_to_point *p2p, struct gyre_message_way *way)
{
    struct gyre_message *message = way->first;
    struct gyre_match match;
    bool waits = false;
    for (uint32_t i = 0; message && !waits && i < WAY_LOOKS; i++) {
        match = message->match;
        waits = gyre_link_announced(p2p->route.links, gyre_route_world(&p2p->route, message->peer),
                                    &match) > 0;
        message = waits ? message : message->next;
    }
    if (!message || !waits)
        return;
    message->bound = true;
    gyre_way_unlink(way, message);
    message->next = way->first;
    way->last = way->first ? way->last : message;
    way->first = message;
}

/* Posts as many messages as the link and this way take. */
static bool post_way(struct gyre_point_to_point *p2p, struct gyre_message_way *way)
{
    bool moved = false;
    if (way->first && way->posted >= WAY_POSTS && !way->first->send)
        advance_announced(p2p, way);
    while (way->first &&
           (way->first->staged_message || way->first->bound || way->posted < WAY_POSTS)) {
        int status = way->first->staged_message ? 0 : post_message(p2p, way->first);
        if (status < 0)
            fail_link(p2p, way->first, status);
        if (status)
            break;
        moved = true;
        struct gyre_message *message = gyre_way_pop(way);
        if (message->staged_message)
            stage_message(p2p, message);
        else
            way->posted++;
    }
    return moved;
}

/* Runs staged messages; those whose pieces have all arrived end. */
static bool run_staged(struct gyre_point_to_point *p2p)
{
    bool moved = false;
    for (struct gyre_message **at = &p2p->staged; *at;) {
        struct gyre_message *message = *at;
        int status =
            gyre_staged_run(&p2p->route, message, &gyre_way_of(p2p, message)->posted, WAY_POSTS);
        if (status < 0) {
            fail_link(p2p, message, status);
            break;
        }
        moved |= status > 0;
        if (!gyre_staged_over(message)) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        gyre_p2p_end(p2p, message, 0);
        moved = true;
    }
    return moved;
}

/* -- queues ------------------------------------------------------------------------------------ */

static bool leaves_now(const struct gyre_point_to_point *p2p, const struct gyre_message *message)
{
    return message->send && !message->staged_message && !p2p->route.engine->fault.status &&
           gyre_link_send_now(p2p->route.links, gyre_route_world(&p2p->route, message->peer),
                              &message->match, message->data, message->bytes);
}

/* Gives a named message to its way; the message counts as pending. */
static void enqueue(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    struct gyre_message_pair *pair = &p2p->pair[message->peer];
    struct gyre_message_way *way = gyre_way_of(p2p, message);
    if (way->first)
        way->last->next = message;
    else
        way->first = message;
    way->last = message;
    if (p2p->route.engine && p2p->route.engine->failed) {
        gyre_p2p_fail(p2p, p2p->route.engine->failed);
        return;
    }
    if (message->peer == p2p->route.rank) {
        gyre_own_meet(p2p, message);
        return;
    }
    if (way->first == message && leaves_now(p2p, message)) {
        gyre_p2p_end(p2p, gyre_way_pop(way), 0);
        return;
    }
    if (!pair->listed) {
        pair->listed = true;
        pair->next = p2p->waiting;
        p2p->waiting = pair;
    }
}

/* Queues a receive that was open. False: it cannot be staged, which ends the job. */
static bool enqueue_open(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    struct gyre_trouble trouble = {0};
    int status = 0;
    if (!gyre_names_count(p2p, message->peer, message->tag, GYRE_WAY_RECV))
        status = gyre_trouble_set(&trouble, -ENOMEM, "no memory for another tag of messages");
    else if (message->any)
        status = gyre_staged_make(&p2p->route, &p2p->staged_pool, message, &trouble);
    if (status && !p2p->route.engine)
        gyre_p2p_end(p2p, message, status);
    else if (status)
        gyre_engine_fault(p2p->route.engine, status, gyre_route_world(&p2p->route, p2p->route.rank),
                          false, &trouble);
    if (status)
        return false;
    gyre_names_give(p2p, message);
    enqueue(p2p, message);
    return true;
}

/* Names and queues the open receives that can have a name now. */
static bool name_open(struct gyre_point_to_point *p2p)
{
    struct gyre_message *message;
    bool moved = false;
    while (p2p->open.first && (message = gyre_open_take(p2p)) && enqueue_open(p2p, message))
        moved = true;
    return moved;
}

bool gyre_p2p_run(struct gyre_point_to_point *p2p)
{
    if (!p2p || p2p->route.engine->fault.status)
        return false;
    bool moved = name_open(p2p);
    for (struct gyre_message_pair **at = &p2p->waiting; *at;) {
        struct gyre_message_pair *pair = *at;
        moved |= post_way(p2p, &pair->way[GYRE_WAY_RECV]);
        moved |= post_way(p2p, &pair->way[GYRE_WAY_SEND]);
        if (pair->way[GYRE_WAY_RECV].first || pair->way[GYRE_WAY_SEND].first) {
            at = &pair->next;
            continue;
        }
        *at = pair->next;
        pair->listed = false;
    }
    return run_staged(p2p) || moved;
}

bool gyre_p2p_idle(const struct gyre_point_to_point *p2p)
{
    return !p2p || p2p->pending == 0;
}

void gyre_p2p_complete(struct gyre_point_to_point *p2p, const struct gyre_completion *done)
{
    struct gyre_message *message = gyre_p2p_message(p2p, gyre_token_index(done->token));
    gyre_way_of(p2p, message)->posted--;
    if (done->status)
        fail_link(p2p, message, done->status);
    else if (message->staged_message)
        gyre_staged_complete(message, gyre_token_slot(done->token));
    else
        gyre_p2p_end(p2p, message, 0);
}

/* Ends all messages. All links are detached: nothing is posted any more. */
void gyre_p2p_fail(struct gyre_point_to_point *p2p, int status)
{
    for (uint32_t i = 0; p2p && i < p2p->chunks * GYRE_MESSAGE_CHUNK; i++) {
        struct gyre_message *message = gyre_p2p_message(p2p, i);
        if (message->status == GYRE_AGAIN && !message->copy)
            message->status = status;
    }
    if (!p2p)
        return;
    p2p->waiting = NULL;
    p2p->staged = NULL;
    p2p->open = (struct gyre_open_receives){0};
    p2p->pending = p2p->pending_blocks = 0;
    memset(p2p->pair, 0, p2p->route.n * sizeof(*p2p->pair));
}

/* -- without a post ---------------------------------------------------------------------------- */

static int recv_now(const struct gyre_point_to_point *p2p, const struct gyre_message *message)
{
    return message->staged_message
               ? -ENOENT
               : gyre_link_recv_now(p2p->route.links, gyre_route_world(&p2p->route, message->peer),
                                    &message->match, message->data, message->bytes);
}

static int take_now(struct gyre_point_to_point *p2p, struct gyre_message_pair *pair)
{
    struct gyre_message_way *way = &pair->way[GYRE_WAY_RECV];
    int status = pair->way[GYRE_WAY_SEND].first ? -ENOENT : 0;
    while (!status && way->first) {
        status = recv_now(p2p, way->first);
        if (!status)
            gyre_p2p_end(p2p, gyre_way_pop(way), 0);
    }
    return status;
}

static int look_for_arrivals(struct gyre_point_to_point *p2p)
{
    int status = 0;
    for (struct gyre_message_pair **at = &p2p->waiting; *at;) {
        struct gyre_message_pair *pair = *at;
        int left = take_now(p2p, pair);
        if (!left) {
            *at = pair->next;
            pair->listed = false;
            continue;
        }
        status = status && left == GYRE_AGAIN ? status : left;
        at = &pair->next;
    }
    return status;
}

int gyre_p2p_look(struct gyre_point_to_point *p2p, uint32_t looks)
{
    if (!p2p || !p2p->waiting)
        return 0;
    if (p2p->route.engine->fault.status)
        return -ENOENT;
    int status = look_for_arrivals(p2p);
    for (uint32_t i = 1; status == GYRE_AGAIN && i < looks; i++) {
        gyre_pause_between_looks(i);
        status = look_for_arrivals(p2p);
    }
    return status;
}

/* -- starting ---------------------------------------------------------------------------------- */

static struct gyre_message *refuse_message(struct gyre_point_to_point *p2p,
                                           struct gyre_message *message)
{
    gyre_trouble_set(gyre_thread_trouble(), -ENOMEM, "no memory for another message");
    if (message)
        gyre_p2p_release(p2p, message);
    return NULL;
}

static struct gyre_message *new_message(struct gyre_point_to_point *p2p,
                                        const struct gyre_message_terms *terms)
{
    struct gyre_message *message = gyre_p2p_take_free(p2p);
    gyre_thread_trouble()->status = 0; /* of an earlier call */
    if (!message)
        return refuse_message(p2p, NULL);
    message->peer = terms->peer;
    message->send = terms->send;
    message->data = terms->data;
    message->count = terms->count;
    message->kind = terms->kind;
    message->type = terms->type;
    message->bytes = terms->count * gyre_type_size(terms->type);
    message->tag = terms->tag;
    message->any = terms->any;
    message->received = terms->received;
    return message;
}

/* Makes a message whose peer is known. */
static struct gyre_message *new_plain_message(struct gyre_point_to_point *p2p,
                                              const struct gyre_message_terms *terms)
{
    struct gyre_message *message = new_message(p2p, terms);
    if (!message)
        return NULL;
    if (!gyre_names_count(p2p, terms->peer, terms->tag,
                          terms->send ? GYRE_WAY_SEND : GYRE_WAY_RECV))
        return refuse_message(p2p, message);
    if (gyre_staged_make(&p2p->route, &p2p->staged_pool, message, gyre_thread_trouble()) == 0)
        return message;
    gyre_p2p_release(p2p, message);
    return NULL;
}

static struct gyre_message *start_open(struct gyre_point_to_point *p2p,
                                       const struct gyre_message_terms *terms)
{
    struct gyre_message *message =
        terms->any ? new_message(p2p, terms) : new_plain_message(p2p, terms);
    if (message)
        gyre_open_add(p2p, message);
    return message;
}

static struct gyre_message *start_named(struct gyre_point_to_point *p2p,
                                        const struct gyre_message_terms *terms)
{
    struct gyre_message *message = new_plain_message(p2p, terms);
    if (message)
        gyre_names_give(p2p, message);
    return message;
}

/* Whether a receive has to wait for its name: it takes what comes, or stands behind one that
 * does. */
static bool waits_for_name(const struct gyre_point_to_point *p2p,
                           const struct gyre_message_terms *terms)
{
    return terms->any || (!terms->send && p2p->open.first &&
                          gyre_open_covers(p2p, NULL, terms->peer, terms->tag));
}

struct gyre_message *gyre_p2p_start(struct gyre_point_to_point *p2p,
                                    const struct gyre_message_terms *terms)
{
    bool open = waits_for_name(p2p, terms);
    struct gyre_message *message = open ? start_open(p2p, terms) : start_named(p2p, terms);
    if (!message)
        return NULL;
    p2p->started++;
    p2p->pending++;
    if (!open)
        enqueue(p2p, message);
    else if (p2p->route.engine && p2p->route.engine->failed)
        gyre_p2p_fail(p2p, p2p->route.engine->failed);
    name_open(p2p);
    message->record = gyre_p2p_note_started(p2p, terms);
    if (message->status != GYRE_AGAIN) /* it was over at once */
        gyre_record_ended(message->record, message->status);
    return message;
}

bool gyre_p2p_run_now(struct gyre_point_to_point *p2p, const struct gyre_message_terms *terms)
{
    if (!p2p || terms->peer == p2p->route.rank || waits_for_name(p2p, terms) ||
        p2p->route.engine->fault.status || terms->kind != GYRE_MEMORY_HOST)
        return false;
    struct gyre_message_way *way =
        &p2p->pair[terms->peer].way[terms->send ? GYRE_WAY_SEND : GYRE_WAY_RECV];
    struct gyre_match match = gyre_names_next(p2p, terms->peer, terms->tag, terms->send);
    uint32_t peer = gyre_route_world(&p2p->route, terms->peer);
    uint64_t bytes = terms->count * gyre_type_size(terms->type);
    uint32_t *named =
        gyre_names_count(p2p, terms->peer, terms->tag, terms->send ? GYRE_WAY_SEND : GYRE_WAY_RECV);
    match.fingerprint = gyre_match_terms(terms->type, terms->count);
    if (!named || way->first ||
        !(terms->send
              ? gyre_link_send_now(p2p->route.links, peer, &match, terms->data, bytes)
              : gyre_link_recv_now(p2p->route.links, peer, &match, terms->data, bytes) == 0))
        return false;
    ++*named;
    way->started++;
    p2p->started++;
    gyre_record_ended(gyre_p2p_note_started(p2p, terms), 0);
    return true;
}

int gyre_p2p_add_block(struct gyre_point_to_point *p2p, struct gyre_operation *op,
                       const struct gyre_message_terms *terms)
{
    struct gyre_message *message = new_plain_message(p2p, terms);
    if (!message)
        return gyre_thread_trouble()->status;
    message->match = gyre_names_next(p2p, terms->peer, 0, terms->send);
    message->match.comm |= GYRE_MATCH_BLOCK;
    message->match.sequence = op->sequence;
    message->match.fingerprint = gyre_match_terms(terms->type, terms->count);
    message->op = op;
    op->blocks++;
    p2p->pending++;
    p2p->pending_blocks++;
    enqueue(p2p, message);
    return 0;
}

int64_t gyre_p2p_balance(const struct gyre_point_to_point *p2p)
{
    int64_t balance = 0;
    for (uint32_t rank = 0; p2p && rank < p2p->route.n; rank++)
        balance += (int64_t)p2p->pair[rank].way[GYRE_WAY_SEND].started -
                   (int64_t)p2p->pair[rank].way[GYRE_WAY_RECV].started;
    return balance;
}
