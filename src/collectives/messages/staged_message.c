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
 * Inside a node only the sender knows whether its bytes can be read where they lie, by one copy of all of
 * them, or have to be carried. So it says so first, in a message of its own, the *manner*:
 *
 *     the sender's      manner, then the message whole, or piece by piece
 *     the receiver's    manner, then as it says
 *
 * What is short there is one piece without a manner. */
#include "collectives/messages/staged_message.h"

#include "collectives/comm/comm.h"
#include "collectives/messages/point_to_point.h"
#include "collectives/staging/pinned.h"

#include <errno.h>
#include <stdlib.h>

#define PIECE_BYTES (UINT64_C(1) << 20)
#define CARTS_MOST  4u
#define IDLE_MOST   8u
#define MANNER      CARTS_MOST /* as a cart's number */

enum stage { LOAD, LOADING, POST, OUT, UNLOAD, UNLOADING, DONE };

/* NONE: nothing is said, or all of it has been. */
enum manner { NONE, TO_POST, POSTED, CAME };

struct cart {
    enum stage stage;
    uint16_t turn;
    uint64_t at; /* of its piece in the message */
    uint64_t ticket;
};

struct gyre_haul {
    struct gyre_haul *next; /* idle */
    struct gyre_pinned pinned;
    bool away;      /* the message's memory is a device's: `pinned` has a piece for each cart */
    uint64_t piece; /* bytes, of all but the last; as it is said */
    enum manner manner;
    uint32_t carts, done;
    struct cart cart[CARTS_MOST];
};

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -- storage ----------------------------------------------------------------------------------- */

static void free_haul(struct gyre_comm *comm, struct gyre_haul *haul)
{
    gyre_pinned_drop(&comm->hub->carrier, &haul->pinned);
    free(haul);
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

/* For all carts, of a device's memory. */
static int make_memory(struct gyre_comm *comm, struct gyre_haul *haul, uint64_t bytes,
                       struct gyre_trouble *trouble)
{
    struct gyre_carrier *carrier = &comm->hub->carrier;
    int status = gyre_carrier_open(carrier, trouble);
    if (status)
        return status;
    if (haul->pinned.bytes >= bytes) {
        gyre_pinned_lock(carrier, &haul->pinned);
        return 0;
    }
    gyre_pinned_drop(carrier, &haul->pinned);
    status = gyre_pinned_make(carrier, bytes, &haul->pinned);
    return status ? gyre_trouble_set(trouble, status, "no memory for pieces of a message") : 0;
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

/* Of a device's memory, at either end, as far as both know. */
static bool is_long(const struct gyre_comm *comm, const struct gyre_message *message)
{
    uint32_t here = gyre_comm_world(comm, comm->rank), there = gyre_comm_world(comm, message->peer);
    return message->bytes > PIECE_BYTES &&
           (gyre_domain_has_cuda(comm->domain, here) || gyre_domain_has_cuda(comm->domain, there));
}

static bool is_near(const struct gyre_comm *comm, const struct gyre_message *message)
{
    return gyre_domain_mapped(comm->domain, gyre_comm_world(comm, message->peer));
}

static bool is_away(const struct gyre_comm *comm, const struct gyre_message *message)
{
    return message->bytes && gyre_carrier_owns(&comm->hub->carrier, message->data);
}

/* The link takes its bytes where they lie, or puts them there. */
static bool is_carried(const struct gyre_comm *comm, const struct gyre_message *message)
{
    return gyre_link_carries(comm->hub->links, gyre_comm_world(comm, message->peer), message->data,
                             message->bytes, message->send);
}

/* Inside a node: the receiver, or its device, reads them where they lie. */
static bool is_seen(const struct gyre_comm *comm, const struct gyre_message *message)
{
    uint64_t offset;
    return is_away(comm, message) ? is_carried(comm, message)
                                  : gyre_domain_locate(comm->domain, GYRE_MEMORY_HOST,
                                                       message->data, message->bytes, &offset) != 0;
}

static void begin_piece(const struct gyre_haul *haul, const struct gyre_message *message,
                        struct cart *cart)
{
    cart->stage = haul->away && message->send ? LOAD : POST;
}

static int lay_out(struct gyre_comm *comm, struct gyre_haul *haul,
                   const struct gyre_message *message, uint64_t piece, bool away,
                   struct gyre_trouble *trouble)
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
    return away ? make_memory(comm, haul, least(message->bytes, haul->carts * piece), trouble) : 0;
}

/* Inside a node, and long: the receiver learns the rest from the manner. */
static int lay_out_near(struct gyre_comm *comm, struct gyre_haul *haul,
                        const struct gyre_message *message, struct gyre_trouble *trouble)
{
    haul->manner = TO_POST;
    haul->carts = haul->done = 0;
    if (!message->send)
        return 0;
    bool seen = is_seen(comm, message);
    return lay_out(comm, haul, message, seen ? message->bytes : PIECE_BYTES,
                   !seen && is_away(comm, message), trouble);
}

int gyre_haul_make(struct gyre_comm *comm, struct gyre_message *message,
                   struct gyre_trouble *trouble)
{
    if (message->peer == comm->rank)
        return 0;
    bool cut = is_long(comm, message), near = is_near(comm, message);
    bool away = is_away(comm, message) && ((near && cut) || !is_carried(comm, message));
    if (!cut && !away)
        return 0;
    struct gyre_haul *haul =
        take(&comm->hauls, away ? least(message->bytes, CARTS_MOST * PIECE_BYTES) : 0);
    if (!haul)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for the pieces of a message");
    haul->manner = NONE;
    int status = near && cut ? lay_out_near(comm, haul, message, trouble)
                             : lay_out(comm, haul, message, cut ? PIECE_BYTES : message->bytes,
                                       away, trouble);
    message->haul = haul;
    if (status)
        gyre_haul_drop(comm, message);
    return status;
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

static bool copy(const struct trip *trip, struct cart *cart)
{
    struct gyre_carrier *carrier = &trip->comm->hub->carrier;
    uint8_t *device = caller_bytes(trip, cart), *host = link_bytes(trip, cart);
    uint64_t bytes = length_of(trip, cart);
    if (!gyre_carrier_room(carrier))
        return false;
    cart->ticket = cart->stage == LOAD ? gyre_carrier_copy(carrier, host, device, bytes)
                                       : gyre_carrier_copy(carrier, device, host, bytes);
    cart->stage++;
    return true;
}

/* The cart's number is its message's lane. */
static bool post_bytes(struct trip *trip, uint32_t number, uint16_t order, void *data,
                       uint64_t bytes)
{
    const struct gyre_message *message = trip->message;
    struct gyre_links *links = trip->comm->hub->links;
    uint32_t peer = gyre_comm_world(trip->comm, message->peer);
    uint64_t token = gyre_message_token(trip->comm, message, number);
    struct gyre_match match = message->match;
    if (*trip->posted >= trip->most)
        return false;
    match.lane = (uint16_t)number;
    match.order = order;
    int status = message->send ? gyre_link_send(links, peer, &match, data, bytes, token)
                               : gyre_link_recv(links, peer, &match, data, bytes, token);
    trip->status = status < 0 ? status : 0;
    if (status)
        return false;
    ++*trip->posted;
    return true;
}

static bool post(struct trip *trip, struct cart *cart)
{
    if (!post_bytes(trip, (uint32_t)(cart - trip->haul->cart), cart->turn, link_bytes(trip, cart),
                    length_of(trip, cart)))
        return false;
    cart->stage = OUT;
    return true;
}

/* The receiver's carts begin when it has come. What fails is this rank's affair, not its link's. */
static bool heed(struct trip *trip)
{
    struct gyre_comm *comm = trip->comm;
    struct gyre_haul *haul = trip->haul;
    struct gyre_trouble trouble = {0};
    const struct gyre_message *message = trip->message;
    bool whole = haul->piece == message->bytes;
    bool carried = whole && is_carried(comm, message);
    haul->manner = NONE;
    if (!whole && haul->piece != PIECE_BYTES)
        trip->status = gyre_trouble_set(
            &trouble, GYRE_CORRUPT, "a message of %llu bytes was announced in pieces of %llu",
            (unsigned long long)message->bytes, (unsigned long long)haul->piece);
    else
        trip->status =
            lay_out(comm, haul, message, haul->piece, !carried && is_away(comm, message), &trouble);
    if (trip->status)
        gyre_engine_fault(comm->engine, trip->status, gyre_comm_world(comm, comm->rank), false,
                          &trouble);
    return !trip->status;
}

static bool run_manner(struct trip *trip)
{
    struct gyre_haul *haul = trip->haul;
    if (haul->manner == CAME)
        return heed(trip);
    if (haul->manner != TO_POST || !post_bytes(trip, MANNER, 0, &haul->piece, sizeof haul->piece))
        return false;
    haul->manner = POSTED;
    return true;
}

/* Its piece is where it belongs. */
static void end_piece(struct gyre_haul *haul, const struct gyre_message *message, struct cart *cart)
{
    cart->turn++;
    cart->at += haul->carts * haul->piece;
    if (cart->at < message->bytes) {
        begin_piece(haul, message, cart);
        return;
    }
    cart->stage = DONE;
    haul->done++;
}

static void end_copy(const struct trip *trip, struct cart *cart)
{
    if (cart->stage == LOADING)
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
    int moved = run_manner(&trip);
    for (uint32_t i = 0; i < trip.haul->carts && !trip.status; i++)
        while (step(&trip, &trip.haul->cart[i]))
            moved = 1;
    return trip.status ? trip.status : moved;
}

void gyre_haul_complete(const struct gyre_message *message, uint32_t cart)
{
    struct gyre_haul *haul = message->haul;
    if (cart == MANNER)
        haul->manner = message->send ? NONE : CAME;
    else if (haul->away && !message->send)
        haul->cart[cart].stage = UNLOAD;
    else
        end_piece(haul, message, &haul->cart[cart]);
}

bool gyre_haul_over(const struct gyre_message *message)
{
    const struct gyre_haul *haul = message->haul;
    return haul->manner == NONE && haul->done == haul->carts;
}
