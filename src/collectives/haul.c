/* Carts between a device and a link.
 *
 *     a cart that sends       LOAD ▶ LOADING ▶ POST ▶ OUT ──┐    loads and unloads only where the
 *                              ▲────────────────────────────┘    memory is a device's
 *     one that receives       POST ▶ OUT ▶ UNLOAD ▶ UNLOADING ──┐
 *                              ▲────────────────────────────────┘
 *
 * Cart c of k has pieces c, c + k, c + 2k …, and its messages carry its number as their lane and its
 * turn as their order. A lane keeps to one connection, so carts use several.
 *
 * Inside a node a message is one piece, of any length, and loaded a MiB at a time: where its memory is not
 * locked the driver may make a copy while it is posted, and whoever posts has others to drive. */
#include "collectives/haul.h"

#include "base/size.h"
#include "collectives/comm.h"
#include "collectives/pairs.h"
#include "collectives/pinned.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE_BYTES (UINT64_C(1) << 20)
#define CARTS_MOST  4u
#define IDLE_MOST   8u
#define PAGE        4096u

enum stage { LOAD, LOADING, POST, OUT, UNLOAD, UNLOADING, DONE };

struct cart {
    enum stage stage;
    uint16_t turn;
    uint64_t at;     /* of its piece in the message */
    uint64_t copied; /* of that */
    uint64_t ticket;
};

struct gyre_haul {
    struct gyre_haul *next; /* idle */
    struct gyre_pinned pinned;
    bool away;      /* the message's memory is a device's: `pinned` has a piece for each cart */
    uint64_t piece; /* bytes, of all but the last */
    uint32_t carts, done;
    struct cart cart[CARTS_MOST];
};

/* -- storage ----------------------------------------------------------------------------------- */

static void free_haul(struct gyre_comm *comm, struct gyre_haul *haul)
{
    gyre_pinned_drop(&comm->hub->carrier, &haul->pinned);
    free(haul);
}

/* Locked where it is bounded: that of a whole message, which may be of any length, is not. */
static int make_memory(struct gyre_carrier *carrier, uint64_t bytes, struct gyre_pinned *pinned)
{
    gyre_pinned_drop(carrier, pinned);
    if (bytes <= CARTS_MOST * PIECE_BYTES)
        return gyre_pinned_make(carrier, bytes, pinned);
    *pinned = (struct gyre_pinned){.bytes = gyre_round_up(bytes, PAGE), .tried = true};
    pinned->memory = aligned_alloc(PAGE, pinned->bytes);
    return pinned->memory ? 0 : -ENOMEM;
}

/* An idle one with so much memory, else any, else a fresh one. */
static struct gyre_haul *take(struct gyre_haul_pool *pool, uint64_t bytes)
{
    struct gyre_haul **at = &pool->first;
    while (*at && (*at)->pinned.bytes < bytes)
        at = &(*at)->next;
    if (!*at)
        at = &pool->first;
    struct gyre_haul *haul = *at;
    if (!haul)
        return calloc(1, sizeof(*haul));
    *at = haul->next;
    pool->count--;
    return haul;
}

/* With memory for so many bytes of a device's; 0: for none. */
static struct gyre_haul *new_haul(struct gyre_comm *comm, uint64_t bytes)
{
    struct gyre_carrier *carrier = &comm->hub->carrier;
    if (bytes && gyre_carrier_open(carrier, gyre_thread_trouble()))
        return NULL;
    struct gyre_haul *haul = take(&comm->hauls, bytes);
    if (!haul || !bytes)
        return haul;
    if (haul->pinned.bytes >= bytes) {
        gyre_pinned_lock(carrier, &haul->pinned);
        return haul;
    }
    if (make_memory(carrier, bytes, &haul->pinned) == 0)
        return haul;
    free_haul(comm, haul);
    return NULL;
}

void gyre_haul_drop(struct gyre_comm *comm, struct gyre_message *message)
{
    struct gyre_haul *haul = message->haul;
    struct gyre_haul_pool *pool = &comm->hauls;
    message->haul = NULL;
    if (!haul)
        return;
    if (pool->count == IDLE_MOST || haul->pinned.bytes > CARTS_MOST * PIECE_BYTES) {
        free_haul(comm, haul);
        return;
    }
    haul->next = pool->first;
    pool->first = haul;
    pool->count++;
}

void gyre_haul_deinit(struct gyre_comm *comm)
{
    struct gyre_haul_pool *pool = &comm->hauls;
    while (pool->first) {
        struct gyre_haul *haul = pool->first;
        pool->first = haul->next;
        free_haul(comm, haul);
    }
    pool->count = 0;
}

/* -- what a message needs ---------------------------------------------------------------------- */

/* Both ends find the same. */
static bool is_cut(const struct gyre_comm *comm, const struct gyre_message *message)
{
    uint32_t here = gyre_comm_world(comm, comm->rank), there = gyre_comm_world(comm, message->peer);
    return message->bytes > PIECE_BYTES && !gyre_domain_mapped(comm->domain, there) &&
           (gyre_domain_has_cuda(comm->domain, here) || gyre_domain_has_cuda(comm->domain, there));
}

static bool is_away(const struct gyre_comm *comm, const struct gyre_message *message)
{
    return message->bytes && gyre_carrier_owns(&comm->hub->carrier, message->data) &&
           !gyre_link_carries(comm->hub->links, gyre_comm_world(comm, message->peer), message->data,
                              message->bytes, message->send);
}

static void begin_piece(const struct gyre_haul *haul, const struct gyre_message *message,
                        struct cart *cart)
{
    cart->stage = haul->away && message->send ? LOAD : POST;
}

static void lay_out(struct gyre_haul *haul, const struct gyre_message *message, uint64_t piece,
                    bool away)
{
    uint64_t pieces = (message->bytes + piece - 1) / piece;
    haul->away = away;
    haul->piece = piece;
    haul->carts = pieces < CARTS_MOST ? (uint32_t)pieces : CARTS_MOST;
    haul->done = 0;
    for (uint32_t i = 0; i < haul->carts; i++) {
        haul->cart[i] = (struct cart){.at = i * piece};
        begin_piece(haul, message, &haul->cart[i]);
    }
}

int gyre_haul_make(struct gyre_comm *comm, struct gyre_message *message)
{
    if (message->peer == comm->rank)
        return 0;
    bool cut = is_cut(comm, message), away = is_away(comm, message);
    if (!cut && !away)
        return 0;
    uint64_t most = CARTS_MOST * PIECE_BYTES;
    uint64_t bytes = cut && message->bytes > most ? most : message->bytes;
    message->haul = new_haul(comm, away ? bytes : 0);
    if (!message->haul)
        return -ENOMEM;
    lay_out(message->haul, message, cut ? PIECE_BYTES : message->bytes, away);
    return 0;
}

/* -- on the way -------------------------------------------------------------------------------- */

struct trip {
    struct gyre_comm *comm;
    const struct gyre_message *message;
    struct gyre_haul *haul;
    uint32_t *posted, most;
    int status; /* of the link, if it has failed */
};

static uint64_t length_of(const struct trip *trip, const struct cart *cart)
{
    uint64_t left = trip->message->bytes - cart->at;
    return left < trip->haul->piece ? left : trip->haul->piece;
}

static uint8_t *caller_bytes(const struct trip *trip, const struct cart *cart)
{
    return (uint8_t *)trip->message->data + cart->at;
}

/* What the link is given. */
static uint8_t *link_bytes(const struct trip *trip, const struct cart *cart)
{
    struct gyre_haul *haul = trip->haul;
    return haul->away ? haul->pinned.memory + (uint64_t)(cart - haul->cart) * haul->piece
                      : caller_bytes(trip, cart);
}

/* The part of its piece that is copied next. */
static uint64_t part_of(const struct trip *trip, const struct cart *cart)
{
    uint64_t left = length_of(trip, cart) - cart->copied;
    return left < PIECE_BYTES ? left : PIECE_BYTES;
}

static bool copy(const struct trip *trip, struct cart *cart)
{
    struct gyre_carrier *carrier = &trip->comm->hub->carrier;
    uint8_t *device = caller_bytes(trip, cart) + cart->copied;
    uint8_t *host = link_bytes(trip, cart) + cart->copied;
    uint64_t bytes = part_of(trip, cart);
    if (!gyre_carrier_room(carrier))
        return false;
    cart->ticket = cart->stage == LOAD ? gyre_carrier_copy(carrier, host, device, bytes)
                                       : gyre_carrier_copy(carrier, device, host, bytes);
    cart->stage++;
    return true;
}

static bool post(struct trip *trip, struct cart *cart)
{
    const struct gyre_message *message = trip->message;
    struct gyre_links *links = trip->comm->hub->links;
    uint32_t peer = gyre_comm_world(trip->comm, message->peer);
    uint32_t number = (uint32_t)(cart - trip->haul->cart);
    uint64_t token = gyre_message_token(trip->comm, message, number);
    struct gyre_match match = message->match;
    if (*trip->posted >= trip->most)
        return false;
    match.lane = (uint16_t)number;
    match.order = cart->turn;
    int status = message->send ? gyre_link_send(links, peer, &match, link_bytes(trip, cart),
                                                length_of(trip, cart), token)
                               : gyre_link_recv(links, peer, &match, link_bytes(trip, cart),
                                                length_of(trip, cart), token);
    trip->status = status < 0 ? status : 0;
    if (status)
        return false;
    ++*trip->posted;
    cart->stage = OUT;
    return true;
}

/* Its piece is where it belongs. */
static void end_piece(struct gyre_haul *haul, const struct gyre_message *message, struct cart *cart)
{
    cart->turn++;
    cart->copied = 0;
    cart->at += haul->carts * haul->piece;
    if (cart->at < message->bytes) {
        begin_piece(haul, message, cart);
        return;
    }
    cart->stage = DONE;
    haul->done++;
}

/* A part has been copied; another, or the way of all of them, is next. */
static void end_copy(const struct trip *trip, struct cart *cart)
{
    cart->copied += part_of(trip, cart);
    if (cart->copied < length_of(trip, cart))
        cart->stage--;
    else if (cart->stage == LOADING)
        cart->stage = POST;
    else
        end_piece(trip->haul, trip->message, cart);
}

/* False: it has to wait, or there is nothing to do. */
static bool step(struct trip *trip, struct cart *cart)
{
    switch (cart->stage) {
    case LOAD:
    case UNLOAD:
        return copy(trip, cart);
    case LOADING:
    case UNLOADING:
        if (!gyre_carrier_done(&trip->comm->hub->carrier, cart->ticket))
            return false;
        end_copy(trip, cart);
        return true;
    case POST:
        return post(trip, cart);
    case OUT:
    case DONE:
        break;
    }
    return false;
}

int gyre_haul_run(struct gyre_comm *comm, const struct gyre_message *message, uint32_t *posted,
                  uint32_t most)
{
    struct trip trip = {comm, message, message->haul, posted, most, 0};
    int moved = 0;
    for (uint32_t i = 0; i < trip.haul->carts && !trip.status; i++)
        while (step(&trip, &trip.haul->cart[i]))
            moved = 1;
    return trip.status ? trip.status : moved;
}

void gyre_haul_complete(const struct gyre_message *message, uint32_t cart)
{
    struct gyre_haul *haul = message->haul;
    if (haul->away && !message->send)
        haul->cart[cart].stage = UNLOAD;
    else
        end_piece(haul, message, &haul->cart[cart]);
}

bool gyre_haul_over(const struct gyre_message *message)
{
    return message->haul->done == message->haul->carts;
}
