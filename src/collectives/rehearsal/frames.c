/* Messages between two ranks, by the rules of transport/stream without its bytes:
 *
 *     short   leaves at once while the peer's store has credit, else asks and comes as a long one
 *     long    waits for the grant that its receive sends, and comes in pieces of 256 KiB
 *     write   grants and credit first, then short messages, then a piece of each long one by turns
 *
 * What is written at once arrives at once. Half a MiB and a frame are the most.
 *
 * Tested by tests/unit/collectives/rehearsal/rehearsal_test.c and tests/sim/plan.c. */
#include "collectives/rehearsal/inside.h"

#include <errno.h>
#include <stdlib.h>

/* These numbers are those of transport/stream/frame.h and inside.h, which stand in a room above
 * this one. tests/sim/plan.c would find a difference. */
#define HEAD_BYTES   36u
#define LENGTH_BYTES 8u /* the payload of a GRANT or an ASK */
#define PIECE_BYTES  (256u * 1024)
#define STORE_TIMES  4u  /* the peer's store, in the longest short messages */
#define CHARGE_BYTES 64u /* of each message in the store */
#define FRAMES_MOST  64u
#define CHUNK_BYTES  (512u * 1024)
#define ASKS_MOST    16u
#define BESIDE       4u /* part of the store that is owed: told beside other frames */
#define ALONE        2u /* and in any case */
#define FIRST_PAIRS  64u

/* -- pairs ------------------------------------------------------------------------------------- */

static uint32_t pair_place(uint64_t key, uint32_t capacity)
{
    return (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (capacity - 1);
}

static bool grow_pairs(struct gyre_drill *drill)
{
    uint32_t capacity = drill->pair_capacity != 0 ? 2 * drill->pair_capacity : FIRST_PAIRS;
    struct gyre_drill_pair **table = calloc(capacity, sizeof(*table)), *pair, *next;
    if (table == NULL) {
        drill->status = -ENOMEM;
        return false;
    }
    for (uint32_t i = 0; i < drill->pair_capacity; i++)
        for (pair = drill->pair[i]; pair != NULL; pair = next) {
            struct gyre_drill_pair **place = &table[pair_place(pair->key, capacity)];
            next = pair->next;
            pair->next = *place;
            *place = pair;
        }
    free(drill->pair);
    drill->pair = table;
    drill->pair_capacity = capacity;
    return true;
}

static struct gyre_drill_pair *make_pair(struct gyre_drill *drill, uint32_t low, uint32_t high)
{
    const struct gyre_layout *layout = drill->asked->whole.layout;
    struct gyre_drill_pair *pair = gyre_drill_take(drill, &drill->pair_pool);
    if (pair == NULL)
        return NULL;
    pair->key = (uint64_t)low << 32 | high;
    for (int i = 0; i < 2; i++) {
        pair->end[i].peer = &pair->end[1 - i];
        pair->end[i].rank = i == 0 ? low : high;
        pair->end[i].near = layout == NULL || layout->node[low] == layout->node[high];
    }
    struct gyre_drill_pair **place = &drill->pair[pair_place(pair->key, drill->pair_capacity)];
    pair->next = *place;
    *place = pair;
    drill->pairs++;
    return pair;
}

struct gyre_drill_end *gyre_drill_end_of(struct gyre_drill *drill, uint32_t rank, uint32_t peer)
{
    uint32_t low = rank < peer ? rank : peer, high = rank < peer ? peer : rank;
    uint64_t key = (uint64_t)low << 32 | high;
    if (drill->pairs == drill->pair_capacity && !grow_pairs(drill))
        return NULL;
    struct gyre_drill_pair *pair = drill->pair[pair_place(key, drill->pair_capacity)];
    while (pair != NULL && pair->key != key)
        pair = pair->next;
    if (pair == NULL)
        pair = make_pair(drill, low, high);
    return pair != NULL ? &pair->end[rank > peer] : NULL;
}

/* -- messages and queues ----------------------------------------------------------------------- */

struct gyre_drill_message *gyre_drill_message_of(struct gyre_drill *drill,
                                                 struct gyre_drill_end *from, uint32_t slice,
                                                 uint64_t round, uint64_t length)
{
    struct gyre_drill_message *message = from->message;
    while (message != NULL && (message->slice != slice || message->round != round))
        message = message->next;
    if (message != NULL || (message = gyre_drill_take(drill, &drill->messages)) == NULL)
        return message;
    message->slice = slice;
    message->round = round;
    message->length = length;
    message->next = from->message;
    from->message = message;
    drill->work++;
    return message;
}

static void forget_message(struct gyre_drill *drill, struct gyre_drill_end *from,
                           const struct gyre_drill_message *message)
{
    struct gyre_drill_message **at = &from->message;
    while (*at != message)
        at = &(*at)->next;
    *at = message->next;
    gyre_drill_give(&drill->messages, (void *)(uintptr_t)message);
}

static void push(struct gyre_drill_queue *queue, struct gyre_drill_message *message)
{
    message->in_queue = NULL;
    *(queue->first != NULL ? &queue->last->in_queue : &queue->first) = message;
    queue->last = message;
}

static struct gyre_drill_message *pop(struct gyre_drill_queue *queue)
{
    struct gyre_drill_message *message = queue->first;
    if (message != NULL)
        queue->first = message->in_queue;
    return message;
}

static uint64_t unasked(const struct gyre_drill *drill, const struct gyre_drill_end *end)
{
    return drill->unasked[end->near];
}

static bool is_short(const struct gyre_drill *drill, const struct gyre_drill_end *end,
                     const struct gyre_drill_message *message)
{
    return message->length <= unasked(drill, end);
}

static bool has_credit(const struct gyre_drill *drill, const struct gyre_drill_end *end,
                       const struct gyre_drill_message *message)
{
    return end->spent + message->length + CHARGE_BYTES - end->returned <=
           STORE_TIMES * unasked(drill, end);
}

/* -- posts ------------------------------------------------------------------------------------- */

static void add_item(struct gyre_drill *drill, struct gyre_drill_items *items,
                     const struct gyre_drill_item *what)
{
    struct gyre_drill_item *item = gyre_drill_take(drill, &drill->items);
    if (item == NULL)
        return;
    *item = *what;
    item->next = NULL;
    *(items->first != NULL ? &items->last->next : &items->first) = item;
    items->last = item;
}

/* Invites a message to this end. */
static void invite_message(struct gyre_drill_end *end, struct gyre_drill_message *message)
{
    struct gyre_drill_queue *queue = &end->grants;
    message->granted = true;
    message->in_grants = NULL;
    *(queue->first != NULL ? &queue->last->in_grants : &queue->first) = message;
    queue->last = message;
}

void gyre_drill_turn_to(struct gyre_drill *drill, struct gyre_drill_end *end)
{
    end->used = true;
    gyre_drill_mark(drill, end);
}

void gyre_drill_post_send(struct gyre_drill *drill, struct gyre_drill_end *end,
                          struct gyre_drill_message *message)
{
    gyre_drill_turn_to(drill, end);
    if (is_short(drill, end, message)) {
        message->state = GYRE_DRILL_QUEUED;
        push(&end->eager, message);
    } else if (message->grant_heard) {
        message->state = GYRE_DRILL_GRANTED;
        push(&end->long_ones, message);
    } else {
        message->state = GYRE_DRILL_WAITING;
    }
}

void gyre_drill_post_receive(struct gyre_drill *drill, struct gyre_drill_end *end,
                             struct gyre_drill_message *message)
{
    gyre_drill_turn_to(drill, end);
    message->awaited = true;
    if (message->arrived)
        add_item(drill, &end->arrived,
                 &(struct gyre_drill_item){.kind = GYRE_DRILL_TOLD, .message = message});
    else if (message->asked || !is_short(drill, end, message))
        invite_message(end, message);
}

/* -- reading ----------------------------------------------------------------------------------- */

static void end_receive(struct gyre_drill *drill, struct gyre_drill_end *end,
                        struct gyre_drill_message *message)
{
    struct gyre_drill_lane *lane = &drill->rank[end->rank].lane[message->receiver_lane];
    *(message->round == lane->round ? &lane->outstanding : &lane->early_left) -= 1;
    if (is_short(drill, end, message) && !message->granted)
        end->given += message->length + CHARGE_BYTES;
    forget_message(drill, end->peer, message);
}

static void hear_grant(struct gyre_drill_end *end, struct gyre_drill_message *message)
{
    message->grant_heard = true;
    if (message->state != GYRE_DRILL_WAITING)
        return;
    message->state = GYRE_DRILL_GRANTED;
    push(&end->long_ones, message);
}

/* True: a post has ended. */
static bool read_item(struct gyre_drill *drill, struct gyre_drill_end *end,
                      const struct gyre_drill_item *item)
{
    struct gyre_drill_message *message = item->message;
    switch (item->kind) {
    case GYRE_DRILL_DATA:
        message->arrived = true;
        if (!message->awaited)
            return false;
        end_receive(drill, end, message);
        return true;
    case GYRE_DRILL_TOLD:
        end_receive(drill, end, message);
        return true;
    case GYRE_DRILL_GRANT:
        hear_grant(end, message);
        return false;
    case GYRE_DRILL_ASK:
        message->asked = true;
        if (message->awaited && !message->granted)
            invite_message(end, message);
        return false;
    case GYRE_DRILL_CREDIT:
        end->returned = item->total;
        return false;
    }
    return false;
}

static bool read_arrived(struct gyre_drill *drill, struct gyre_drill_end *end)
{
    bool ended = false;
    while (end->arrived.first != NULL) {
        struct gyre_drill_item *item = end->arrived.first;
        end->arrived.first = item->next;
        ended |= read_item(drill, end, item);
        gyre_drill_give(&drill->items, item);
    }
    return ended;
}

/* -- writing ----------------------------------------------------------------------------------- */

struct writing {
    struct gyre_drill *drill;
    struct gyre_drill_end *end;
    struct gyre_drill_chunk *chunk;
    uint32_t frames;
    bool ended; /* a send */
};

static void add_frame(struct writing *w, uint64_t payload, enum gyre_drill_frame kind,
                      struct gyre_drill_message *message, uint64_t total)
{
    w->frames++;
    w->chunk->bytes += HEAD_BYTES + payload;
    add_item(w->drill, &w->chunk->items,
             &(struct gyre_drill_item){.kind = kind, .message = message, .total = total});
}

static bool has_credit_to_tell(const struct writing *w)
{
    const struct gyre_drill_end *end = w->end;
    const struct gyre_drill_message *eager = end->eager.first;
    bool company = w->frames > 0 || end->long_ones.first != NULL ||
                   (eager != NULL && has_credit(w->drill, end, eager));
    return end->given - end->reported >=
           STORE_TIMES * unasked(w->drill, end) / (company ? BESIDE : ALONE);
}

static bool write_control(struct writing *w)
{
    struct gyre_drill_end *end = w->end;
    struct gyre_drill_message *message = end->grants.first;
    if (message != NULL) {
        end->grants.first = message->in_grants;
        w->chunk->invites = true;
        add_frame(w, LENGTH_BYTES, GYRE_DRILL_GRANT, message, 0);
        return true;
    }
    if (!has_credit_to_tell(w))
        return false;
    end->reported = end->given;
    add_frame(w, 0, GYRE_DRILL_CREDIT, NULL, end->given);
    return true;
}

static void end_send(struct writing *w, struct gyre_drill_message *message)
{
    message->state = GYRE_DRILL_FRAMED;
    w->chunk->sender_weight += message->sender_weight;
    w->chunk->receiver_weight += message->receiver_weight;
    w->drill->rank[w->end->rank].lane[message->sender_lane].outstanding--;
    w->ended = true;
}

static bool write_short(struct writing *w)
{
    struct gyre_drill_message *message = w->end->eager.first;
    if (message == NULL || !has_credit(w->drill, w->end, message))
        return false;
    pop(&w->end->eager);
    w->chunk->carries = true;
    w->end->spent += message->length + CHARGE_BYTES;
    end_send(w, message);
    add_frame(w, message->length, GYRE_DRILL_DATA, message, 0);
    return true;
}

static bool write_piece(struct writing *w)
{
    struct gyre_drill_message *message = pop(&w->end->long_ones);
    if (message == NULL)
        return false;
    uint64_t left = message->length - message->framed;
    uint64_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;
    message->framed += piece;
    w->chunk->carries = true;
    if (piece == left) {
        end_send(w, message);
        add_frame(w, piece, GYRE_DRILL_DATA, message, 0);
    } else {
        w->frames++;
        w->chunk->bytes += HEAD_BYTES + piece;
        push(&w->end->long_ones, message);
    }
    return true;
}

/* Nothing else can be said, and short messages wait for credit: they ask. */
static void write_asks(struct writing *w)
{
    struct gyre_drill_message *message;
    for (uint32_t i = 0; i < ASKS_MOST && (message = pop(&w->end->eager)) != NULL; i++) {
        message->state = GYRE_DRILL_WAITING;
        add_frame(w, LENGTH_BYTES, GYRE_DRILL_ASK, message, 0);
        if (message->grant_heard)
            hear_grant(w->end, message);
    }
}

/* Fills a chunk. False: there is nothing to write. */
static bool fill(struct writing *w)
{
    w->frames = 0;
    w->chunk = gyre_drill_take(w->drill, &w->drill->chunks);
    if (w->chunk == NULL)
        return false;
    while (w->frames < FRAMES_MOST && w->chunk->bytes < CHUNK_BYTES &&
           (write_control(w) || write_short(w) || write_piece(w)))
        continue;
    if (w->frames == 0)
        write_asks(w);
    w->chunk->invites &= w->chunk->sender_weight == 0;
    if (w->frames == 0)
        gyre_drill_give(&w->drill->chunks, w->chunk);
    return w->frames != 0;
}

static bool write_end(struct gyre_drill *drill, struct gyre_drill_end *end)
{
    struct writing w = {.drill = drill, .end = end};
    while (fill(&w))
        gyre_drill_launch(drill, end, w.chunk);
    return w.ended;
}

bool gyre_drill_poll(struct gyre_drill *drill, uint32_t rank)
{
    struct gyre_drill_rank *r = &drill->rank[rank];
    bool ended = false;
    while (r->first_marked != NULL && drill->status == 0) {
        struct gyre_drill_end *end = r->first_marked;
        r->first_marked = end->next_marked;
        end->marked = false;
        ended |= read_arrived(drill, end);
        ended |= write_end(drill, end);
    }
    return ended;
}
