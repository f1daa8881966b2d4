/* Messages from rank to rank.
 *
 *   gyre_send ─▶ message ─▶ pair[peer].way[SEND] ─▶ link, WAY_POSTS at a time ─▶ completion
 *   gyre_recv ─▶ message ─▶ pair[peer].way[RECV] ─▶ …
 *                   └─▶ staged: in pieces, or by way of other memory (staged_message.h) ─▶ link
 *
 * The link matches: the n-th send to a peer meets the peer's n-th receive from here. A way posts
 * only part of what the link takes, so that operations never wait for messages whose other end has
 * not been called. Messages to the own rank meet here, without a link.
 *
 * A short message that a link brings without a post leaves at its call, and is looked for before
 * its receive is posted.
 *
 * The pool grows by chunks when more messages are pending than ever before; nothing else is
 * allocated.
 *
 * Tested by tests/program/collectives/point_to_point.c. */
#include "collectives/messages/point_to_point.h"

#include "base/machine/cpu.h"
#include "collectives/engine/engine.h"
#include "collectives/messages/staged_message.h"
#include "collectives/messages/token.h"
#include "collectives/staging/fold_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAY_POSTS  96u
#define CHUNK      64u
#define CHUNKS_MAX 16384u

enum { RECV, SEND, WAYS };

struct message_way {
    struct gyre_message *first, *last; /* not posted yet */
    uint32_t posted;
    uint64_t started; /* messages ever */
};

struct pair {
    struct message_way way[WAYS];
    struct pair *next; /* of the pairs with messages that are not posted */
    bool listed;
};

struct gyre_point_to_point {
    struct gyre_message_route route;
    struct gyre_staged_pool staged_pool;
    struct pair *pair; /* n */
    struct pair *waiting;
    struct gyre_message *staged; /* staged messages, which have left their ways */
    struct gyre_activity *activity;
    uint64_t started;                 /* messages ever, without blocks of operations */
    uint64_t pending, pending_blocks; /* not ended: all, and of them blocks */
    uint32_t chunks;
    struct gyre_message *free;
    struct gyre_message *chunk[CHUNKS_MAX];
};

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
    gyre_watch_attend(gyre_domain_watch(route->domain), p2p->activity);
    *out = p2p;
    return 0;
}

void gyre_p2p_destroy(struct gyre_point_to_point *p2p)
{
    if (!p2p)
        return;
    for (uint32_t c = 0; c < p2p->chunks; c++) {
        for (uint32_t i = 0; i < CHUNK; i++) {
            free(p2p->chunk[c][i].copy);
            gyre_staged_drop(&p2p->route, &p2p->staged_pool, &p2p->chunk[c][i]);
        }
        free(p2p->chunk[c]);
    }
    gyre_staged_deinit(&p2p->route, &p2p->staged_pool);
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
    struct gyre_message *chunk = p2p->chunks < CHUNKS_MAX ? calloc(CHUNK, sizeof(*chunk)) : NULL;
    if (!chunk)
        return -ENOMEM;
    for (uint32_t i = CHUNK; i-- > 0;) {
        chunk[i].index = p2p->chunks * CHUNK + i;
        chunk[i].next = p2p->free;
        p2p->free = &chunk[i];
    }
    p2p->chunk[p2p->chunks++] = chunk;
    return 0;
}

static struct gyre_message *take_free_message(struct gyre_point_to_point *p2p)
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
    free(message->copy);
    message->copy = NULL;
    gyre_staged_drop(&p2p->route, &p2p->staged_pool, message);
    message->next = p2p->free;
    p2p->free = message;
}

/* -- the watch's books ------------------------------------------------------------------------- */

static void note_finished(const struct gyre_point_to_point *p2p)
{
    uint64_t messages = p2p->pending - p2p->pending_blocks;
    gyre_activity_finish(p2p->activity, p2p->started - messages);
}

void gyre_p2p_focus(struct gyre_point_to_point *p2p)
{
    gyre_activity_focus(gyre_domain_activity(p2p->route.domain), p2p->activity);
}

static void note_started(struct gyre_point_to_point *p2p, const struct gyre_message_terms *terms)
{
    uint64_t signature =
        gyre_signature_pack(terms->send ? GYRE_SIGNATURE_SEND : GYRE_SIGNATURE_RECV, terms->type,
                            GYRE_SUM, gyre_route_world(&p2p->route, terms->peer));
    gyre_activity_enter(p2p->activity, GYRE_WATCH_POINT_TO_POINT, p2p->started, signature,
                        signature, terms->count);
    note_finished(p2p);
    gyre_p2p_focus(p2p);
}

void gyre_p2p_refuse(struct gyre_point_to_point *p2p, const char *why)
{
    gyre_watch_refuse(gyre_domain_watch(p2p->route.domain), p2p->activity, p2p->started + 1, why);
}

/* -- ends -------------------------------------------------------------------------------------- */

static void end_message(struct gyre_point_to_point *p2p, struct gyre_message *message, int status)
{
    struct gyre_operation *op = message->op;
    p2p->pending--;
    message->status = status;
    if (!op) {
        note_finished(p2p);
        return;
    }
    p2p->pending_blocks--;
    gyre_p2p_release(p2p, message);
    if (--op->blocks == 0 && op->status == GYRE_AGAIN)
        gyre_engine_finish(p2p->route.engine, op, status);
}

static struct gyre_message *pop_message(struct message_way *way)
{
    struct gyre_message *message = way->first;
    way->first = message->next;
    return message;
}

/* Lets the own rank's sends meet its receives, in order. */
static void meet_own(struct gyre_point_to_point *p2p, struct pair *own)
{
    while (own->way[SEND].first && own->way[RECV].first) {
        struct gyre_message *from = pop_message(&own->way[SEND]),
                            *to = pop_message(&own->way[RECV]);
        bool equal = from->match.fingerprint == to->match.fingerprint;
        const void *data = from->copy ? from->copy : from->data;
        if (equal && to->bytes && to->data != data)
            gyre_fold_queue_copy_now(p2p->route.fold_queue, to->data, data, to->bytes);
        if (from->copy)
            gyre_p2p_release(p2p, from);
        else
            end_message(p2p, from, equal ? 0 : GYRE_MISMATCH);
        end_message(p2p, to, equal ? 0 : GYRE_MISMATCH);
    }
}

int gyre_p2p_detach_own(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    message->copy = malloc(message->bytes + 1);
    if (!message->copy)
        return gyre_trouble_set(gyre_thread_trouble(), -ENOMEM,
                                "gyre_send: no memory to keep %llu bytes for this rank itself; "
                                "start its gyre_recv_start() first",
                                (unsigned long long)message->bytes);
    gyre_fold_queue_copy_now(p2p->route.fold_queue, message->copy, message->data, message->bytes);
    p2p->pending--;
    note_finished(p2p);
    return 0;
}

/* Takes back a receive, the last of its way: no send could meet the receives before it. */
void gyre_p2p_withdraw_own(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    struct message_way *way = &p2p->pair[p2p->route.rank].way[RECV];
    struct gyre_message *before = way->first == message ? NULL : way->first;
    while (before && before->next != message)
        before = before->next;
    if (before)
        before->next = NULL;
    else
        way->first = NULL;
    way->last = before;
    way->started--;
    p2p->pending--;
    note_finished(p2p);
    gyre_p2p_release(p2p, message);
}

/* -- posting ----------------------------------------------------------------------------------- */

static struct gyre_message *message_of(const struct gyre_point_to_point *p2p, uint32_t index)
{
    return &p2p->chunk[index / CHUNK][index % CHUNK];
}

static int post_message(const struct gyre_point_to_point *p2p, const struct gyre_message *message)
{
    uint64_t token = gyre_token_of_message(p2p->route.comm, message->index, 0);
    uint32_t peer = gyre_route_world(&p2p->route, message->peer);
    struct gyre_links *links = p2p->route.links;
    return message->send
               ? gyre_link_send(links, peer, &message->match, message->data, message->bytes, token)
               : gyre_link_recv(links, peer, &message->match, message->data, message->bytes, token);
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

/* Posts as many messages as the link and this way take. */
static bool post_way(struct gyre_point_to_point *p2p, struct message_way *way)
{
    bool moved = false;
    while (way->first && (way->first->staged_message || way->posted < WAY_POSTS)) {
        int status = way->first->staged_message ? 0 : post_message(p2p, way->first);
        if (status < 0)
            fail_link(p2p, way->first, status);
        if (status)
            break;
        moved = true;
        struct gyre_message *message = pop_message(way);
        if (message->staged_message)
            stage_message(p2p, message);
        else
            way->posted++;
    }
    return moved;
}

static struct message_way *way_of(const struct gyre_point_to_point *p2p,
                                  const struct gyre_message *message)
{
    return &p2p->pair[message->peer].way[message->send ? SEND : RECV];
}

/* Runs staged messages; those whose pieces have all arrived end. */
static bool run_staged(struct gyre_point_to_point *p2p)
{
    bool moved = false;
    for (struct gyre_message **at = &p2p->staged; *at;) {
        struct gyre_message *message = *at;
        int status =
            gyre_staged_run(&p2p->route, message, &way_of(p2p, message)->posted, WAY_POSTS);
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
        end_message(p2p, message, 0);
        moved = true;
    }
    return moved;
}

bool gyre_p2p_run(struct gyre_point_to_point *p2p)
{
    if (!p2p || p2p->route.engine->fault.status)
        return false;
    bool moved = false;
    for (struct pair **at = &p2p->waiting; *at;) {
        struct pair *pair = *at;
        moved |= post_way(p2p, &pair->way[RECV]);
        moved |= post_way(p2p, &pair->way[SEND]);
        if (pair->way[RECV].first || pair->way[SEND].first) {
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
    struct gyre_message *message = message_of(p2p, gyre_token_index(done->token));
    way_of(p2p, message)->posted--;
    if (done->status)
        fail_link(p2p, message, done->status);
    else if (message->staged_message)
        gyre_staged_complete(message, gyre_token_slot(done->token));
    else
        end_message(p2p, message, 0);
}

/* Ends all messages. All links are detached: nothing is posted any more. */
void gyre_p2p_fail(struct gyre_point_to_point *p2p, int status)
{
    for (uint32_t i = 0; p2p && i < p2p->chunks * CHUNK; i++) {
        struct gyre_message *message = message_of(p2p, i);
        if (message->status == GYRE_AGAIN && !message->copy)
            message->status = status;
    }
    if (!p2p)
        return;
    p2p->waiting = NULL;
    p2p->staged = NULL;
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

static int take_now(struct gyre_point_to_point *p2p, struct pair *pair)
{
    struct message_way *way = &pair->way[RECV];
    int status = pair->way[SEND].first ? -ENOENT : 0;
    while (!status && way->first) {
        status = recv_now(p2p, way->first);
        if (!status)
            end_message(p2p, pop_message(way), 0);
    }
    return status;
}

static int look_for_arrivals(struct gyre_point_to_point *p2p)
{
    int status = 0;
    for (struct pair **at = &p2p->waiting; *at;) {
        struct pair *pair = *at;
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

static bool leaves_now(const struct gyre_point_to_point *p2p, const struct gyre_message *message)
{
    return message->send && !message->staged_message && !p2p->route.engine->fault.status &&
           gyre_link_send_now(p2p->route.links, gyre_route_world(&p2p->route, message->peer),
                              &message->match, message->data, message->bytes);
}

static void enqueue(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    struct pair *pair = &p2p->pair[message->peer];
    struct message_way *way = &pair->way[message->send ? SEND : RECV];
    if (way->first)
        way->last->next = message;
    else
        way->first = message;
    way->last = message;
    p2p->pending++;
    if (p2p->route.engine && p2p->route.engine->failed) {
        gyre_p2p_fail(p2p, p2p->route.engine->failed);
        return;
    }
    if (message->peer == p2p->route.rank) {
        meet_own(p2p, pair);
        return;
    }
    if (way->first == message && leaves_now(p2p, message)) {
        end_message(p2p, pop_message(way), 0);
        return;
    }
    if (!pair->listed) {
        pair->listed = true;
        pair->next = p2p->waiting;
        p2p->waiting = pair;
    }
}

/* The mark of a message's direction: the higher rank's messages to the lower one have names of
 * their own. */
static uint16_t direction(const struct gyre_point_to_point *p2p,
                          const struct gyre_message_terms *terms)
{
    uint32_t here = gyre_route_world(&p2p->route, p2p->route.rank),
             there = gyre_route_world(&p2p->route, terms->peer);
    return terms->send == (here > there) ? GYRE_MATCH_DOWN : 0;
}

static struct gyre_match message_match(const struct gyre_point_to_point *p2p,
                                       const struct gyre_message_terms *terms)
{
    return (struct gyre_match){
        .comm = (uint16_t)(p2p->route.comm | GYRE_MATCH_PAIR | direction(p2p, terms)),
        .fingerprint = gyre_match_terms(terms->type, terms->count)};
}

static struct gyre_message *new_message(struct gyre_point_to_point *p2p,
                                        const struct gyre_message_terms *terms)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    struct gyre_message *message = take_free_message(p2p);
    trouble->status = 0; /* of an earlier call */
    if (!message) {
        gyre_trouble_set(trouble, -ENOMEM, "no memory for another message");
        return NULL;
    }
    message->peer = terms->peer;
    message->send = terms->send;
    message->data = terms->data;
    message->bytes = terms->count * gyre_type_size(terms->type);
    message->match = message_match(p2p, terms);
    if (gyre_staged_make(&p2p->route, &p2p->staged_pool, message, trouble) == 0)
        return message;
    gyre_p2p_release(p2p, message);
    return NULL;
}

struct gyre_message *gyre_p2p_start(struct gyre_point_to_point *p2p,
                                    const struct gyre_message_terms *terms)
{
    struct gyre_message *message = new_message(p2p, terms);
    if (!message)
        return NULL;
    p2p->started++;
    message->match.sequence = ++p2p->pair[terms->peer].way[terms->send ? SEND : RECV].started;
    enqueue(p2p, message);
    note_started(p2p, terms);
    return message;
}

bool gyre_p2p_run_now(struct gyre_point_to_point *p2p, const struct gyre_message_terms *terms)
{
    if (!p2p || terms->peer == p2p->route.rank || p2p->route.engine->fault.status ||
        gyre_fold_queue_owns(p2p->route.fold_queue, terms->data))
        return false;
    struct message_way *way = &p2p->pair[terms->peer].way[terms->send ? SEND : RECV];
    struct gyre_match match = message_match(p2p, terms);
    uint32_t peer = gyre_route_world(&p2p->route, terms->peer);
    uint64_t bytes = terms->count * gyre_type_size(terms->type);
    match.sequence = way->started + 1;
    if (way->first ||
        !(terms->send
              ? gyre_link_send_now(p2p->route.links, peer, &match, terms->data, bytes)
              : gyre_link_recv_now(p2p->route.links, peer, &match, terms->data, bytes) == 0))
        return false;
    way->started++;
    p2p->started++;
    note_started(p2p, terms);
    return true;
}

int gyre_p2p_add_block(struct gyre_point_to_point *p2p, struct gyre_operation *op,
                       const struct gyre_message_terms *terms)
{
    struct gyre_message *message = new_message(p2p, terms);
    if (!message)
        return gyre_thread_trouble()->status;
    message->match.comm |= GYRE_MATCH_BLOCK;
    message->match.sequence = op->sequence;
    message->op = op;
    op->blocks++;
    p2p->pending_blocks++;
    enqueue(p2p, message);
    return 0;
}

int64_t gyre_p2p_balance(const struct gyre_point_to_point *p2p)
{
    int64_t balance = 0;
    for (uint32_t rank = 0; p2p && rank < p2p->route.n; rank++)
        balance +=
            (int64_t)p2p->pair[rank].way[SEND].started - (int64_t)p2p->pair[rank].way[RECV].started;
    return balance;
}
