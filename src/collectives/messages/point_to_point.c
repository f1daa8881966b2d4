/* Messages from rank to rank.
 *
 *   gyre_send ─▶ message ─▶ pair[peer].way[SEND] ─▶ link, WAY_POSTS at a time ─▶ completion
 *   gyre_recv ─▶ message ─▶ pair[peer].way[RECV] ─▶ …
 *                   └─▶ hauled: piece by piece, or by way of other memory (staged_message.h) ─▶ link
 *
 * The link matches: the n-th send to a peer meets the peer's n-th receive from here. A way posts
 * only part of what the link takes, so that operations never wait for messages whose other end has
 * not been called. What goes to the own rank meets here, without a link.
 *
 * A short message that a link brings without a post leaves at its call, and is looked for before
 * its receive is posted.
 *
 * The pool grows by chunks when more messages are pending than ever before; nothing is allocated
 * otherwise. */
#include "collectives/messages/point_to_point.h"

#include "base/clock.h"
#include "base/cpu.h"
#include "collectives/comm/comm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WAY_POSTS  96u
#define CHUNK      64u
#define CHUNKS_MAX 16384u
#define INDEX_BITS 24u /* of a token */

enum { RECV, SEND, WAYS };

struct way {
    struct gyre_message *first, *last; /* not posted yet */
    uint32_t posted;
    uint64_t started; /* messages ever */
};

struct pair {
    struct way way[WAYS];
    struct pair *next; /* of those with something not posted */
    bool listed;
};

struct gyre_point_to_point {
    struct pair *pair; /* n */
    struct pair *waiting;
    struct gyre_message *staged; /* that have left their ways and are staged */
    struct gyre_activity *activity;
    uint64_t started, pending; /* messages: ever, and not ended */
    uint32_t chunks;
    struct gyre_message *free;
    struct gyre_message *chunk[CHUNKS_MAX];
};

/* -- the pool ---------------------------------------------------------------------------------- */

static int p2p_create(struct gyre_comm *comm)
{
    struct gyre_point_to_point *p2p = calloc(1, sizeof(*p2p));
    if (p2p) {
        p2p->pair = calloc(comm->n, sizeof(*p2p->pair));
        p2p->activity = calloc(1, sizeof(*p2p->activity));
    }
    if (!p2p || !p2p->pair || !p2p->activity) {
        if (p2p) {
            free(p2p->pair);
            free(p2p->activity);
        }
        free(p2p);
        return -ENOMEM;
    }
    atomic_store(&p2p->activity->comm, GYRE_WATCH_POINT_TO_POINT);
    gyre_watch_attend(gyre_domain_watch(comm->domain), p2p->activity);
    comm->progress->activities++;
    comm->p2p = p2p;
    return 0;
}

void gyre_p2p_destroy(struct gyre_comm *comm)
{
    struct gyre_point_to_point *p2p = comm->p2p;
    if (!p2p)
        return;
    for (uint32_t c = 0; c < p2p->chunks; c++) {
        for (uint32_t i = 0; i < CHUNK; i++) {
            free(p2p->chunk[c][i].copy);
            gyre_staged_drop(comm, &p2p->chunk[c][i]);
        }
        free(p2p->chunk[c]);
    }
    gyre_staged_deinit(comm);
    free(p2p->activity);
    free(p2p->pair);
    free(p2p);
    comm->p2p = NULL;
}

void gyre_p2p_withdraw(struct gyre_comm *comm)
{
    if (comm->p2p)
        gyre_watch_ignore(gyre_domain_watch(comm->domain), comm->p2p->activity);
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

static struct gyre_message *take_free_message(struct gyre_comm *comm)
{
    if ((!comm->p2p && p2p_create(comm)) || (!comm->p2p->free && grow_messages(comm->p2p)))
        return NULL;
    struct gyre_message *message = comm->p2p->free;
    comm->p2p->free = message->next;
    *message = (struct gyre_message){.index = message->index, .status = GYRE_AGAIN};
    return message;
}

void gyre_p2p_release(struct gyre_comm *comm, struct gyre_message *message)
{
    free(message->copy);
    message->copy = NULL;
    gyre_staged_drop(comm, message);
    message->next = comm->p2p->free;
    comm->p2p->free = message;
}

/* -- the watch's books ------------------------------------------------------------------------- */

static void note_finished(const struct gyre_comm *comm)
{
    const struct gyre_point_to_point *p2p = comm->p2p;
    gyre_activity_finish(comm->p2p->activity, p2p->started - p2p->pending);
}

void gyre_p2p_focus(struct gyre_comm *comm)
{
    gyre_activity_focus(gyre_domain_activity(comm->domain), comm->p2p->activity);
}

static void note_started(struct gyre_comm *comm, const struct gyre_message_terms *terms)
{
    uint64_t signature =
        gyre_signature_pack(terms->send ? GYRE_SIGNATURE_SEND : GYRE_SIGNATURE_RECV, terms->type,
                            GYRE_SUM, gyre_comm_world(comm, terms->peer));
    gyre_activity_enter(comm->p2p->activity, GYRE_WATCH_POINT_TO_POINT, comm->p2p->started,
                        signature, signature, terms->count);
    note_finished(comm);
    gyre_p2p_focus(comm);
}

void gyre_p2p_refuse(struct gyre_comm *comm, const char *why)
{
    if (!comm->p2p && p2p_create(comm))
        return;
    gyre_watch_refuse(gyre_domain_watch(comm->domain), comm->p2p->activity, comm->p2p->started + 1,
                      why);
}

/* -- ends -------------------------------------------------------------------------------------- */

static void end_message(struct gyre_comm *comm, struct gyre_message *message, int status)
{
    struct gyre_operation *op = message->op;
    comm->p2p->pending--;
    message->status = status;
    if (!op) {
        note_finished(comm);
        return;
    }
    gyre_p2p_release(comm, message);
    if (--op->blocks == 0 && op->status == GYRE_AGAIN)
        gyre_engine_finish(comm->engine, op, status);
}

static struct gyre_message *pop(struct way *way)
{
    struct gyre_message *message = way->first;
    way->first = message->next;
    return message;
}

/* What a rank sends to itself meets what it receives from itself, in order. */
static void meet_own(struct gyre_comm *comm, struct pair *own)
{
    while (own->way[SEND].first && own->way[RECV].first) {
        struct gyre_message *from = pop(&own->way[SEND]), *to = pop(&own->way[RECV]);
        bool equal = from->match.fingerprint == to->match.fingerprint;
        const void *data = from->copy ? from->copy : from->data;
        if (equal && to->bytes && to->data != data)
            gyre_fold_queue_copy_now(&comm->progress->fold_queue, to->data, data, to->bytes);
        if (from->copy)
            gyre_p2p_release(comm, from);
        else
            end_message(comm, from, equal ? 0 : GYRE_MISMATCH);
        end_message(comm, to, equal ? 0 : GYRE_MISMATCH);
    }
}

int gyre_p2p_detach_own(struct gyre_comm *comm, struct gyre_message *message)
{
    message->copy = malloc(message->bytes + 1);
    if (!message->copy)
        return gyre_trouble_set(gyre_thread_trouble(), -ENOMEM,
                                "gyre_send: no memory to keep %llu bytes for this rank itself; "
                                "start its gyre_recv_start() first",
                                (unsigned long long)message->bytes);
    gyre_fold_queue_copy_now(&comm->progress->fold_queue, message->copy, message->data,
                             message->bytes);
    comm->p2p->pending--;
    note_finished(comm);
    return 0;
}

/* It is the last of its way, and nothing was sent that could meet those before it. */
void gyre_p2p_withdraw_own(struct gyre_comm *comm, struct gyre_message *message)
{
    struct way *way = &comm->p2p->pair[comm->rank].way[RECV];
    struct gyre_message *before = way->first == message ? NULL : way->first;
    while (before && before->next != message)
        before = before->next;
    if (before)
        before->next = NULL;
    else
        way->first = NULL;
    way->last = before;
    way->started--;
    comm->p2p->pending--;
    note_finished(comm);
    gyre_p2p_release(comm, message);
}

/* -- posting ----------------------------------------------------------------------------------- */

static struct gyre_message *message_of(const struct gyre_point_to_point *p2p, uint32_t index)
{
    return &p2p->chunk[index / CHUNK][index % CHUNK];
}

uint64_t gyre_message_token(const struct gyre_comm *comm, const struct gyre_message *message,
                            uint32_t slot)
{
    return (uint64_t)comm->id << 48 | (uint64_t)GYRE_TOKEN_MESSAGE << 32 |
           (uint64_t)slot << INDEX_BITS | message->index;
}

static int post_message(const struct gyre_comm *comm, const struct gyre_message *message)
{
    uint64_t token = gyre_message_token(comm, message, 0);
    uint32_t peer = gyre_comm_world(comm, message->peer);
    struct gyre_links *links = comm->progress->links;
    return message->send
               ? gyre_link_send(links, peer, &message->match, message->data, message->bytes, token)
               : gyre_link_recv(links, peer, &message->match, message->data, message->bytes, token);
}

/* Two ends that disagree about a message have said all there is to say: it is no echo. Of a peer
 * that has left the watch may know why. */
static void tell_at_once(struct gyre_comm *comm, int status)
{
    if (status && status != GYRE_PEER_LOST && comm->engine->fault.status == GYRE_MISMATCH)
        comm->engine->fault.echo = false;
}

static void fail_link(struct gyre_comm *comm, const struct gyre_message *message, int status)
{
    gyre_engine_link_failed(comm->engine, gyre_comm_world(comm, message->peer), status);
    tell_at_once(comm, status);
}

static void stage_message(struct gyre_point_to_point *p2p, struct gyre_message *message)
{
    message->next = p2p->staged;
    p2p->staged = message;
}

/* As many as the link and this way take. */
static bool post_way(struct gyre_comm *comm, struct way *way)
{
    bool moved = false;
    while (way->first && (way->first->staged_message || way->posted < WAY_POSTS)) {
        int status = way->first->staged_message ? 0 : post_message(comm, way->first);
        if (status < 0)
            fail_link(comm, way->first, status);
        if (status)
            break;
        moved = true;
        struct gyre_message *message = pop(way);
        if (message->staged_message)
            stage_message(comm->p2p, message);
        else
            way->posted++;
    }
    return moved;
}

static struct way *way_of(const struct gyre_comm *comm, const struct gyre_message *message)
{
    return &comm->p2p->pair[message->peer].way[message->send ? SEND : RECV];
}

/* Those whose pieces have all arrived end. */
static bool run_staged(struct gyre_comm *comm)
{
    bool moved = false;
    for (struct gyre_message **at = &comm->p2p->staged; *at;) {
        struct gyre_message *message = *at;
        int status = gyre_staged_run(comm, message, &way_of(comm, message)->posted, WAY_POSTS);
        if (status < 0) {
            fail_link(comm, message, status);
            break;
        }
        moved |= status > 0;
        if (!gyre_staged_over(message)) {
            at = &message->next;
            continue;
        }
        *at = message->next;
        end_message(comm, message, 0);
        moved = true;
    }
    return moved;
}

bool gyre_p2p_run(struct gyre_comm *comm)
{
    struct gyre_point_to_point *p2p = comm->p2p;
    if (!p2p || comm->engine->fault.status)
        return false;
    bool moved = false;
    for (struct pair **at = &p2p->waiting; *at;) {
        struct pair *pair = *at;
        moved |= post_way(comm, &pair->way[RECV]);
        moved |= post_way(comm, &pair->way[SEND]);
        if (pair->way[RECV].first || pair->way[SEND].first) {
            at = &pair->next;
            continue;
        }
        *at = pair->next;
        pair->listed = false;
    }
    return run_staged(comm) || moved;
}

bool gyre_p2p_idle(const struct gyre_comm *comm)
{
    return !comm->p2p || comm->p2p->pending == 0;
}

void gyre_p2p_complete(struct gyre_comm *comm, const struct gyre_completion *done)
{
    uint32_t low = (uint32_t)done->token;
    struct gyre_message *message = message_of(comm->p2p, low & ((1u << INDEX_BITS) - 1));
    way_of(comm, message)->posted--;
    if (done->status)
        fail_link(comm, message, done->status);
    else if (message->staged_message)
        gyre_staged_complete(message, low >> INDEX_BITS);
    else
        end_message(comm, message, 0);
}

/* All links are detached: nothing is posted any more. */
void gyre_p2p_fail(struct gyre_comm *comm, int status)
{
    struct gyre_point_to_point *p2p = comm->p2p;
    for (uint32_t i = 0; p2p && i < p2p->chunks * CHUNK; i++) {
        struct gyre_message *message = message_of(p2p, i);
        if (message->status == GYRE_AGAIN && !message->copy)
            message->status = status;
    }
    if (!p2p)
        return;
    p2p->waiting = NULL;
    p2p->staged = NULL;
    p2p->pending = 0;
    memset(p2p->pair, 0, comm->n * sizeof(*p2p->pair));
}

/* -- without a post ---------------------------------------------------------------------------- */

static int recv_now(const struct gyre_comm *comm, const struct gyre_message *message)
{
    return message->staged_message
               ? -ENOENT
               : gyre_link_recv_now(comm->progress->links, gyre_comm_world(comm, message->peer),
                                    &message->match, message->data, message->bytes);
}

static int take_now(struct gyre_comm *comm, struct pair *pair)
{
    struct way *way = &pair->way[RECV];
    int status = pair->way[SEND].first ? -ENOENT : 0;
    while (!status && way->first) {
        status = recv_now(comm, way->first);
        if (!status)
            end_message(comm, pop(way), 0);
    }
    return status;
}

static int look_for_arrivals(struct gyre_comm *comm)
{
    int status = 0;
    for (struct pair **at = &comm->p2p->waiting; *at;) {
        struct pair *pair = *at;
        int left = take_now(comm, pair);
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

int gyre_p2p_look(struct gyre_comm *comm, uint32_t looks)
{
    if (!comm->p2p || !comm->p2p->waiting)
        return 0;
    if (comm->engine->fault.status)
        return -ENOENT;
    int status = look_for_arrivals(comm);
    for (uint32_t i = 1; status == GYRE_AGAIN && i < looks; i++) {
        gyre_pause_between_looks(i);
        status = look_for_arrivals(comm);
    }
    return status;
}

/* -- starting ---------------------------------------------------------------------------------- */

static bool leaves_now(const struct gyre_comm *comm, const struct gyre_message *message)
{
    return message->send && !message->staged_message && !comm->engine->fault.status &&
           gyre_link_send_now(comm->progress->links, gyre_comm_world(comm, message->peer),
                              &message->match, message->data, message->bytes);
}

static void enqueue(struct gyre_comm *comm, struct gyre_message *message)
{
    struct gyre_point_to_point *p2p = comm->p2p;
    struct pair *pair = &p2p->pair[message->peer];
    struct way *way = &pair->way[message->send ? SEND : RECV];
    if (way->first)
        way->last->next = message;
    else
        way->first = message;
    way->last = message;
    p2p->pending++;
    if (comm->engine && comm->engine->failed) {
        gyre_p2p_fail(comm, comm->engine->failed);
        return;
    }
    if (message->peer == comm->rank) {
        meet_own(comm, pair);
        return;
    }
    if (way->first == message && leaves_now(comm, message)) {
        end_message(comm, pop(way), 0);
        return;
    }
    if (!pair->listed) {
        pair->listed = true;
        pair->next = p2p->waiting;
        p2p->waiting = pair;
    }
    gyre_progress_drive(comm);
}

/* The higher rank's messages to the lower one have names of their own. */
static uint16_t direction(const struct gyre_comm *comm, const struct gyre_message_terms *terms)
{
    uint32_t here = gyre_comm_world(comm, comm->rank), there = gyre_comm_world(comm, terms->peer);
    return terms->send == (here > there) ? GYRE_MATCH_DOWN : 0;
}

static struct gyre_match message_match(const struct gyre_comm *comm,
                                       const struct gyre_message_terms *terms)
{
    return (struct gyre_match){.comm =
                                   (uint16_t)(comm->id | GYRE_MATCH_PAIR | direction(comm, terms)),
                               .fingerprint = gyre_match_terms(terms->type, terms->count)};
}

static struct gyre_message *new_message(struct gyre_comm *comm,
                                        const struct gyre_message_terms *terms)
{
    struct gyre_trouble *trouble = gyre_thread_trouble();
    struct gyre_message *message = take_free_message(comm);
    trouble->status = 0; /* of an earlier call */
    if (!message) {
        gyre_trouble_set(trouble, -ENOMEM, "no memory for another message");
        return NULL;
    }
    message->peer = terms->peer;
    message->send = terms->send;
    message->data = terms->data;
    message->bytes = terms->count * gyre_type_size(terms->type);
    message->match = message_match(comm, terms);
    if (gyre_staged_make(comm, message, trouble) == 0)
        return message;
    gyre_p2p_release(comm, message);
    return NULL;
}

struct gyre_message *gyre_p2p_start(struct gyre_comm *comm, const struct gyre_message_terms *terms)
{
    struct gyre_message *message = new_message(comm, terms);
    if (!message)
        return NULL;
    comm->p2p->started++;
    message->match.sequence = ++comm->p2p->pair[terms->peer].way[terms->send ? SEND : RECV].started;
    enqueue(comm, message);
    note_started(comm, terms);
    return message;
}

bool gyre_p2p_run_now(struct gyre_comm *comm, const struct gyre_message_terms *terms)
{
    struct gyre_point_to_point *p2p = comm->p2p;
    if (!p2p || terms->peer == comm->rank || comm->engine->fault.status ||
        gyre_fold_queue_owns(&comm->progress->fold_queue, terms->data))
        return false;
    struct way *way = &p2p->pair[terms->peer].way[terms->send ? SEND : RECV];
    struct gyre_match match = message_match(comm, terms);
    uint32_t peer = gyre_comm_world(comm, terms->peer);
    uint64_t bytes = terms->count * gyre_type_size(terms->type);
    match.sequence = way->started + 1;
    if (way->first ||
        !(terms->send
              ? gyre_link_send_now(comm->progress->links, peer, &match, terms->data, bytes)
              : gyre_link_recv_now(comm->progress->links, peer, &match, terms->data, bytes) == 0))
        return false;
    way->started++;
    p2p->started++;
    note_started(comm, terms);
    return true;
}

int gyre_p2p_add_block(struct gyre_comm *comm, struct gyre_operation *op,
                       const struct gyre_message_terms *terms)
{
    struct gyre_message *message = new_message(comm, terms);
    if (!message)
        return gyre_thread_trouble()->status;
    message->match.comm |= GYRE_MATCH_BLOCK;
    message->match.sequence = op->sequence;
    message->op = op;
    op->blocks++;
    enqueue(comm, message);
    return 0;
}

int64_t gyre_p2p_balance(const struct gyre_comm *comm)
{
    int64_t balance = 0;
    for (uint32_t rank = 0; comm->p2p && rank < comm->n; rank++)
        balance += (int64_t)comm->p2p->pair[rank].way[SEND].started -
                   (int64_t)comm->p2p->pair[rank].way[RECV].started;
    return balance;
}
