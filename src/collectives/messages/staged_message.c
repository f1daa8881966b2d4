/* Staging slots between a device and a link.
 *
 *     a slot that sends       LOAD ▶ LOADING ▶ POST ▶ OUT ──┐    loads and unloads only where the
 *                              ▲────────────────────────────┘    memory is a device's
 *     one that receives       POST ▶ OUT ▶ UNLOAD ▶ UNLOADING ──┐
 *                              ▲────────────────────────────────┘
 *
 * Slot c of k has pieces c, c + k, c + 2k …, and its messages carry its number as their lane and
 * its turn as their order. A lane keeps to one connection, so staging slots use several.
 *
 * Inside a node only the sender knows whether its bytes can be read in place, by one copy of the
 * whole message, or have to be staged. So the sender says so first, in a message of its own, the
 * *header*:
 *
 *     the sender's      header, then the message whole, or piece by piece
 *     the receiver's    header, then as the header says
 *
 * A short message inside a node is one piece without a header. From memory of a device that no peer
 * maps a message of more than 64 KiB is copied to a window (mapped/device/window.h), and goes whole
 * from there.
 *
 * Tested by tests/program/cuda/messages.c. */
#include "collectives/messages/staged_message.h"

#include "collectives/engine/engine.h"
#include "collectives/mapped/device/window.h"
#include "collectives/messages/token.h"
#include "collectives/staging/fold_queue.h"
#include "collectives/staging/pinned.h"
#include "transport/link/links.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE_BYTES  (UINT64_C(1) << 20)
#define WINDOW_LEAST (UINT64_C(64) << 10) /* shorter messages cross to the host and back */
#define SLOTS_MOST   4u
#define IDLE_MOST    8u
#define HEADER       SLOTS_MOST /* in place of a staging slot's number */

enum state { LOAD, LOADING, POST, OUT, UNLOAD, UNLOADING, DONE };

/* The header. NONE: there is none, or its exchange is over. */
enum header { NONE, TO_POST, POSTED, CAME };

struct staging_slot {
    enum state state;
    uint16_t turn;
    uint64_t at; /* of the slot's piece in the message */
    uint64_t ticket;
};

struct gyre_staged_message {
    struct gyre_staged_message *next; /* of the idle ones */
    struct gyre_pinned pinned;
    bool on_device; /* the message's memory is a device's: `pinned` has one piece per slot */
    struct gyre_push_window *window; /* has the whole message instead; NULL: none */
    uint64_t piece;                  /* bytes of every piece but the last */
    enum header header;
    uint32_t slots, done;
    struct staging_slot slot[SLOTS_MOST];
};

static uint64_t least_bytes(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -- storage ----------------------------------------------------------------------------------- */

static void free_staged(const struct gyre_message_route *route,
                        struct gyre_staged_message *staged_message)
{
    gyre_pinned_drop(route->fold_queue, &staged_message->pinned, true);
    free(staged_message);
}

/* Takes an idle struct with so much memory, else any idle one, else makes one. */
static struct gyre_staged_message *take_staged(struct gyre_staged_pool *pool, uint64_t bytes)
{
    struct gyre_staged_message **at = &pool->first;
    while (*at && (*at)->pinned.bytes < bytes)
        at = &(*at)->next;
    if (!*at)
        at = &pool->first;
    struct gyre_staged_message *staged_message = *at;
    if (!staged_message)
        return calloc(1, sizeof(*staged_message));
    *at = staged_message->next;
    pool->count--;
    return staged_message;
}

/* Makes the pinned memory of all staging slots, for a device's memory. */
static int make_slot_memory(const struct gyre_message_route *route,
                            struct gyre_staged_message *staged_message, uint64_t bytes,
                            struct gyre_trouble *trouble)
{
    struct gyre_fold_queue *fold_queue = route->fold_queue;
    int status = gyre_fold_queue_open(fold_queue, trouble);
    if (status)
        return status;
    if (staged_message->pinned.bytes >= bytes) {
        gyre_pinned_lock(fold_queue, &staged_message->pinned);
        return 0;
    }
    gyre_pinned_drop(fold_queue, &staged_message->pinned, true);
    status = gyre_pinned_make(fold_queue, bytes, &staged_message->pinned);
    return status ? gyre_trouble_set(trouble, status, "no memory for pieces of a message") : 0;
}

void gyre_staged_drop(const struct gyre_message_route *route, struct gyre_staged_pool *pool,
                      struct gyre_message *message)
{
    struct gyre_staged_message *staged_message = message->staged_message;
    message->staged_message = NULL;
    if (!staged_message)
        return;
    staged_message->window = NULL; /* one is left after a failure, whose windows may be gone */
    if (pool->count == IDLE_MOST || staged_message->pinned.bytes > SLOTS_MOST * PIECE_BYTES) {
        free_staged(route, staged_message);
        return;
    }
    staged_message->next = pool->first;
    pool->first = staged_message;
    pool->count++;
}

void gyre_staged_give_window(const struct gyre_message *message)
{
    struct gyre_staged_message *staged_message = message->staged_message;
    if (!staged_message)
        return;
    gyre_window_release(staged_message->window);
    staged_message->window = NULL;
}

void gyre_staged_deinit(const struct gyre_message_route *route, struct gyre_staged_pool *pool)
{
    while (pool->first) {
        struct gyre_staged_message *staged_message = pool->first;
        pool->first = staged_message->next;
        free_staged(route, staged_message);
    }
    pool->count = 0;
}

/* -- what a message needs ---------------------------------------------------------------------- */

/* Whether the message is long and one of its ends, as far as both know, has a device. */
static bool is_long(const struct gyre_message_route *route, const struct gyre_message *message)
{
    uint32_t here = gyre_route_world(route, route->rank),
             there = gyre_route_world(route, message->peer);
    return message->bytes > PIECE_BYTES && (gyre_domain_has_cuda(route->domain, here) ||
                                            gyre_domain_has_cuda(route->domain, there));
}

static bool is_peer_near(const struct gyre_message_route *route, const struct gyre_message *message)
{
    return gyre_domain_mapped(route->domain, gyre_route_world(route, message->peer));
}

static bool is_on_device(const struct gyre_message *message)
{
    return message->bytes && message->kind != GYRE_MEMORY_HOST;
}

/* Whether the link takes the bytes of a message on a device from there, or puts them there. */
static bool is_carried(const struct gyre_message_route *route, const struct gyre_message *message)
{
    return gyre_link_carries(route->links, gyre_route_world(route, message->peer), message->data,
                             message->bytes, message->send);
}

/* Whether, inside a node, the receiver or its device reads the bytes in place. */
static bool is_seen(const struct gyre_message_route *route, const struct gyre_message *message)
{
    uint64_t offset;
    return is_on_device(message) ? is_carried(route, message)
                                 : gyre_domain_locate(route->domain, GYRE_MEMORY_HOST,
                                                      message->data, message->bytes, &offset) != 0;
}

static void begin_piece(const struct gyre_staged_message *staged_message,
                        const struct gyre_message *message, struct staging_slot *slot)
{
    slot->state = staged_message->on_device && message->send ? LOAD : POST;
}

static int lay_out_pieces(const struct gyre_message_route *route,
                          struct gyre_staged_message *staged_message,
                          const struct gyre_message *message, uint64_t piece, bool on_device,
                          struct gyre_trouble *trouble)
{
    uint64_t pieces = (message->bytes + piece - 1) / piece;
    staged_message->on_device = on_device;
    staged_message->piece = piece;
    staged_message->slots = pieces < SLOTS_MOST ? (uint32_t)pieces : SLOTS_MOST;
    staged_message->done = 0;
    for (uint32_t i = 0; i < staged_message->slots; i++) {
        staged_message->slot[i] = (struct staging_slot){.at = i * piece};
        begin_piece(staged_message, message, &staged_message->slot[i]);
    }
    if (staged_message->window)
        return gyre_fold_queue_open(route->fold_queue, trouble);
    return on_device ? make_slot_memory(route, staged_message,
                                        least_bytes(message->bytes, staged_message->slots * piece),
                                        trouble)
                     : 0;
}

/* A window for a message on a device, inside a node, that the link does not take from its own
 * memory; NULL: none. */
static struct gyre_push_window *take_window(const struct gyre_message_route *route,
                                            const struct gyre_message *message)
{
    struct gyre_push_window *window = message->send && message->bytes > WINDOW_LEAST
                                          ? gyre_window_lend(route->engine->mesh, message->bytes)
                                          : NULL;
    if (!window || gyre_link_carries(route->links, gyre_route_world(route, message->peer),
                                     gyre_window_memory(window), message->bytes, true))
        return window;
    gyre_window_release(window);
    return NULL;
}

/* Lays out a long message inside a node: the receiver learns the rest from the header. */
static int lay_out_near(const struct gyre_message_route *route,
                        struct gyre_staged_message *staged_message,
                        const struct gyre_message *message, struct gyre_trouble *trouble)
{
    staged_message->header = TO_POST;
    staged_message->slots = staged_message->done = 0;
    if (!message->send)
        return 0;
    bool seen = is_seen(route, message), on_device = !seen && is_on_device(message);
    if (on_device)
        staged_message->window = take_window(route, message);
    return lay_out_pieces(route, staged_message, message,
                          seen || staged_message->window ? message->bytes : PIECE_BYTES, on_device,
                          trouble);
}

int gyre_staged_make(const struct gyre_message_route *route, struct gyre_staged_pool *pool,
                     struct gyre_message *message, struct gyre_trouble *trouble)
{
    if (message->peer == route->rank)
        return 0;
    bool cut = is_long(route, message), near = is_peer_near(route, message);
    bool on_device = is_on_device(message) && ((near && cut) || !is_carried(route, message));
    if (!cut && !on_device)
        return 0;
    struct gyre_staged_message *staged_message =
        take_staged(pool, on_device ? least_bytes(message->bytes, SLOTS_MOST * PIECE_BYTES) : 0);
    if (!staged_message)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the pieces of a message");
    staged_message->header = NONE;
    if (near && on_device && !cut)
        staged_message->window = take_window(route, message);
    int status = near && cut
                     ? lay_out_near(route, staged_message, message, trouble)
                     : lay_out_pieces(route, staged_message, message,
                                      cut ? PIECE_BYTES : message->bytes, on_device, trouble);
    message->staged_message = staged_message;
    if (status) {
        gyre_staged_give_window(message);
        gyre_staged_drop(route, pool, message);
    }
    return status;
}

/* -- on the way -------------------------------------------------------------------------------- */

struct copying {
    const struct gyre_message_route *route;
    const struct gyre_message *message;
    struct gyre_staged_message *staged_message;
    uint32_t *posted, most;
    int status; /* of the link, if it has failed */
};

static uint64_t length_of(const struct copying *copying, const struct staging_slot *slot)
{
    uint64_t left = copying->message->bytes - slot->at;
    return left < copying->staged_message->piece ? left : copying->staged_message->piece;
}

static uint8_t *caller_bytes(const struct copying *copying, const struct staging_slot *slot)
{
    return (uint8_t *)copying->message->data + slot->at;
}

/* The memory that the link gets. */
static uint8_t *link_bytes(const struct copying *copying, const struct staging_slot *slot)
{
    struct gyre_staged_message *staged_message = copying->staged_message;
    if (staged_message->window)
        return gyre_window_memory(staged_message->window);
    return staged_message->on_device
               ? staged_message->pinned.memory +
                     (uint64_t)(slot - staged_message->slot) * staged_message->piece
               : caller_bytes(copying, slot);
}

static bool copy_slot(const struct copying *copying, struct staging_slot *slot)
{
    struct gyre_fold_queue *fold_queue = copying->route->fold_queue;
    uint8_t *caller = caller_bytes(copying, slot), *link = link_bytes(copying, slot);
    uint64_t bytes = length_of(copying, slot);
    if (!gyre_fold_queue_room(fold_queue))
        return false;
    slot->ticket = slot->state == LOAD ? gyre_fold_queue_copy(fold_queue, link, caller, bytes)
                                       : gyre_fold_queue_copy(fold_queue, caller, link, bytes);
    slot->state++;
    return true;
}

struct link_post { /* what the link gets */
    void *data;
    uint64_t bytes;
    bool on_device;
};

/* Posts bytes. The staging slot's number is its message's lane. */
static bool post_bytes(struct copying *copying, uint32_t number, uint16_t order,
                       const struct link_post *span)
{
    const struct gyre_message *message = copying->message;
    struct gyre_links *links = copying->route->links;
    uint32_t peer = gyre_route_world(copying->route, message->peer);
    uint64_t token = gyre_token_of_message(copying->route->comm, message->index, number);
    struct gyre_match match = message->match;
    if (*copying->posted >= copying->most)
        return false;
    match.lane = (uint16_t)number;
    match.order = order;
    match.on_device = span->on_device;
    int status = message->send
                     ? gyre_link_send(links, peer, &match, span->data, span->bytes, token)
                     : gyre_link_recv(links, peer, &match, span->data, span->bytes, token);
    copying->status = status < 0 ? status : 0;
    if (status)
        return false;
    ++*copying->posted;
    return true;
}

static bool post_slot(struct copying *copying, struct staging_slot *slot)
{
    const struct link_post span = {
        link_bytes(copying, slot), length_of(copying, slot),
        is_on_device(copying->message) &&
            (!copying->staged_message->on_device || copying->staged_message->window)};
    if (!post_bytes(copying, (uint32_t)(slot - copying->staged_message->slot), slot->turn, &span))
        return false;
    slot->state = OUT;
    return true;
}

/* Acts on a header: the receiver's staging slots begin once it has come. A failure here is this
 * rank's, not its link's. */
static bool heed_header(struct copying *copying)
{
    const struct gyre_message_route *route = copying->route;
    struct gyre_staged_message *staged_message = copying->staged_message;
    struct gyre_trouble trouble = {0};
    const struct gyre_message *message = copying->message;
    bool whole = staged_message->piece == message->bytes;
    bool on_device = is_on_device(message) && !(whole && is_carried(route, message));
    staged_message->header = NONE;
    if (!whole && staged_message->piece != PIECE_BYTES)
        copying->status = gyre_trouble_set(
            &trouble, GYRE_CORRUPT, "a message of %llu bytes was announced in pieces of %llu",
            (unsigned long long)message->bytes, (unsigned long long)staged_message->piece);
    else
        copying->status = lay_out_pieces(route, staged_message, message, staged_message->piece,
                                         on_device, &trouble);
    if (copying->status)
        gyre_engine_fault(route->engine, copying->status, gyre_route_world(route, route->rank),
                          false, &trouble);
    return !copying->status;
}

static bool run_header(struct copying *copying)
{
    struct gyre_staged_message *staged_message = copying->staged_message;
    const struct link_post span = {&staged_message->piece, sizeof staged_message->piece, false};
    if (staged_message->header == CAME)
        return heed_header(copying);
    if (staged_message->header != TO_POST || !post_bytes(copying, HEADER, 0, &span))
        return false;
    staged_message->header = POSTED;
    return true;
}

/* Ends a piece: its bytes are in their place. */
static void end_piece(struct gyre_staged_message *staged_message,
                      const struct gyre_message *message, struct staging_slot *slot)
{
    slot->turn++;
    slot->at += staged_message->slots * staged_message->piece;
    if (slot->at < message->bytes) {
        begin_piece(staged_message, message, slot);
        return;
    }
    slot->state = DONE;
    staged_message->done++;
}

static void end_copy(const struct copying *copying, struct staging_slot *slot)
{
    if (slot->state == LOADING)
        slot->state = POST;
    else
        end_piece(copying->staged_message, copying->message, slot);
}

/* Moves a slot on. False: it has to wait, or there is nothing to do. */
static bool step(struct copying *copying, struct staging_slot *slot)
{
    switch (slot->state) {
    case LOAD:
    case UNLOAD:
        return copy_slot(copying, slot);
    case LOADING:
    case UNLOADING:
        if (!gyre_fold_queue_done(copying->route->fold_queue, slot->ticket))
            return false;
        end_copy(copying, slot);
        return true;
    case POST:
        return post_slot(copying, slot);
    case OUT:
    case DONE:
        break;
    }
    return false;
}

int gyre_staged_run(const struct gyre_message_route *route, const struct gyre_message *message,
                    uint32_t *posted, uint32_t most)
{
    struct copying copying = {route, message, message->staged_message, posted, most, 0};
    int moved = run_header(&copying);
    for (uint32_t i = 0; i < copying.staged_message->slots && !copying.status; i++)
        while (step(&copying, &copying.staged_message->slot[i]))
            moved = 1;
    return copying.status ? copying.status : moved;
}

void gyre_staged_complete(const struct gyre_message *message, uint32_t slot)
{
    struct gyre_staged_message *staged_message = message->staged_message;
    if (slot == HEADER)
        staged_message->header = message->send ? NONE : CAME;
    else if (staged_message->on_device && !message->send)
        staged_message->slot[slot].state = UNLOAD;
    else
        end_piece(staged_message, message, &staged_message->slot[slot]);
}

bool gyre_staged_over(const struct gyre_message *message)
{
    const struct gyre_staged_message *staged_message = message->staged_message;
    return staged_message->header == NONE && staged_message->done == staged_message->slots;
}
