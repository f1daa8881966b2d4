/* The lobby: connections of strangers, until they have proven the key.
 *
 *     listener ─▶ slot ─▶ M1 right? ─▶ M2 ─▶ M3 right? ─▶ arrival ─▶ taken by the owner
 *                  │         │ no               │ no          │ refused by the owner
 *                  └ 5 s ────┴── hung up on ────┴── silently  └─▶ told why, hung up on
 *
 * A stranger costs one slot of a table made at the start: no allocation, no thread, no answer, at
 * most 128 bytes read. When the table is full, or one address's share of the table, the stranger
 * that has waited longest makes room; without a free descriptor, too. Connections whose M1 held go
 * last. An honest rank needs a millisecond, so a flood mostly throws out its own connections.
 *
 * Tested by tests/unit/transport/join/lobby_test.c and tests/program/job/join_hostile.c. */
#include "transport/join/inside.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LISTENERS = 4, LINES = 8 };

struct lobby_slot {
    struct gyre_io_slot io_slot;
    struct gyre_talk talk;
    struct sockaddr_storage from;
    uint64_t since;
    bool leaving; /* refused: only its last output still has to go */
};

struct lobby_stranger { /* of whose wrong key a line was logged */
    uint32_t rank;
    uint8_t key_id[8];
};

struct gyre_lobby {
    struct gyre_joining *join;
    struct gyre_lobby_options options;
    struct gyre_io_slot listener[LISTENERS];
    uint32_t listeners, lines; /* lines: wrong keys logged so far */
    struct lobby_stranger told[LINES];
    struct lobby_slot slot[];
};

static void drop_stranger(struct gyre_lobby *lobby, struct lobby_slot *slot)
{
    gyre_join_remove_slot(lobby->join, &slot->io_slot);
    gyre_talk_close(&slot->talk);
}

/* A rank comes again and again: one line is enough. False: there is one, or as many as fit. */
static bool is_new_stranger(struct gyre_lobby *lobby, const struct gyre_claim *claim)
{
    for (uint32_t i = 0; i < lobby->lines; i++)
        if (lobby->told[i].rank == claim->rank &&
            memcmp(lobby->told[i].key_id, claim->key_id, sizeof claim->key_id) == 0)
            return false;
    if (lobby->lines == LINES)
        return false;
    struct lobby_stranger *stranger = &lobby->told[lobby->lines++];
    stranger->rank = claim->rank;
    memcpy(stranger->key_id, claim->key_id, sizeof stranger->key_id);
    return true;
}

/* Logs a wrong key. The stranger is told nothing, so the operator of this side must be told. */
static void note_wrong_key(struct gyre_lobby *lobby, const struct lobby_slot *slot)
{
    const struct gyre_handshake *shake = &slot->talk.shake;
    char from[GYRE_ADDRESS_TEXT], theirs[17], mine[17];
    if (!shake->claimed || !is_new_stranger(lobby, &shake->theirs))
        return;
    gyre_address_format(&slot->from, from);
    gyre_hex_write(shake->theirs.key_id, 8, theirs);
    gyre_hex_write(shake->mine.key_id, 8, mine);
    bool key = memcmp(shake->theirs.key_id, shake->mine.key_id, 8) != 0;
    gyre_log(key ? GYRE_LOG_WARN : GYRE_LOG_INFO,
             "hung up on %s, which calls itself rank %u of %u: it is of another %s (its key id %s, "
             "mine %s)%s",
             from, shake->theirs.rank, shake->theirs.world, key ? "key" : "job", theirs, mine,
             lobby->lines == LINES ? "; others are not reported" : "");
}

/* Steps one conversation. 0: *arrival is the caller's, who takes or closes the talk or calls
 * gyre_lobby_refuse(). GYRE_AGAIN: not yet. */
static int serve_stranger(struct gyre_lobby *lobby, struct lobby_slot *slot,
                          struct gyre_arrival *arrival)
{
    struct gyre_record record;
    int status;
    do {
        status = gyre_talk_step(&slot->talk, &record);
    } while (!status && slot->leaving);
    if (status == GYRE_REFUSED)
        note_wrong_key(lobby, slot);
    bool pending = status >= 0 && gyre_talk_pending(&slot->talk);
    if (status < 0 || (slot->leaving && !pending)) {
        drop_stranger(lobby, slot);
        return GYRE_AGAIN;
    }
    if (!status && (record.kind || !lobby->options.introduction)) {
        /* The owner watches the socket from now on. */
        gyre_join_remove_slot(lobby->join, &slot->io_slot);
        *arrival = (struct gyre_arrival){&slot->io_slot, &slot->talk, record};
        return 0;
    }
    status = gyre_join_rearm(lobby->join, &slot->io_slot, pending);
    return status ? status : GYRE_AGAIN;
}

int gyre_lobby_refuse(struct gyre_lobby *lobby, const struct gyre_arrival *arrival,
                      const struct gyre_refusal *refusal)
{
    struct lobby_slot *slot = (struct lobby_slot *)arrival->io_slot;
    uint8_t payload[GYRE_REFUSAL_BYTES];
    int status = gyre_join_add_slot(lobby->join, &slot->io_slot, slot->talk.fd, false);
    int length = gyre_refusal_encode(&slot->talk.shake, refusal, payload);
    if (status)
        return status;
    if (length > 0 && !gyre_talk_say(&slot->talk, GYRE_JOIN_REFUSAL, payload, (size_t)length) &&
        gyre_talk_pending(&slot->talk)) {
        slot->leaving = true;
        return gyre_join_rearm(lobby->join, &slot->io_slot, true);
    }
    drop_stranger(lobby, slot);
    return 0;
}

/* Whether the stranger's M1 was right: it has the key, so it is a rank on its way. */
static bool is_known(const struct lobby_slot *slot)
{
    return slot->talk.shake.input > 0 || slot->talk.shake.state == GYRE_HANDSHAKE_PROVEN;
}

/* The one of two that makes room first: a stranger before a known one, then the one that has waited
 * longer. */
static struct lobby_slot *first_to_go(struct lobby_slot *a, struct lobby_slot *b)
{
    if (!a || is_known(a) != is_known(b))
        return !a || is_known(a) ? b : a;
    return a->since <= b->since ? a : b;
}

/* Finds a free slot; where this address has its share already, or none is free, the one that must
 * make room. */
static struct lobby_slot *find_slot(struct gyre_lobby *lobby, const struct sockaddr_storage *from)
{
    struct lobby_slot *any = NULL, *theirs = NULL, *vacant = NULL;
    uint32_t same = 0;
    for (struct lobby_slot *slot = lobby->slot; slot < lobby->slot + lobby->options.slots; slot++) {
        if (slot->io_slot.fd < 0) {
            vacant = slot;
            continue;
        }
        any = first_to_go(any, slot);
        if (!gyre_address_same_host(&slot->from, from))
            continue;
        same++;
        theirs = first_to_go(theirs, slot);
    }
    if (same >= lobby->options.per_address)
        vacant = theirs;
    else if (!vacant)
        vacant = any;
    if (vacant->io_slot.fd >= 0)
        drop_stranger(lobby, vacant);
    return vacant;
}

static int welcome_stranger(struct gyre_lobby *lobby, int fd, const struct sockaddr_storage *from,
                            struct gyre_arrival *arrival)
{
    struct lobby_slot *slot = find_slot(lobby, from);
    uint8_t nonce[GYRE_NONCE_BYTES];
    int status = gyre_random_bytes(nonce, sizeof nonce);
    if (!status)
        status = gyre_handshake_start(&slot->talk.shake, GYRE_HANDSHAKE_SERVER,
                                      &lobby->options.claim, lobby->options.key, nonce);
    if (!status)
        status = gyre_join_add_slot(lobby->join, &slot->io_slot, fd, false);
    if (status) {
        close(fd);
        return status;
    }
    gyre_talk_open(&slot->talk, fd);
    slot->from = *from;
    slot->since = lobby->join->now;
    slot->leaving = false;
    return serve_stranger(lobby, slot, arrival);
}

/* Hangs up on the stranger that has waited longest, for its descriptor. False: there is none. */
static bool evict_stranger(struct gyre_lobby *lobby)
{
    struct lobby_slot *oldest = NULL;
    for (struct lobby_slot *slot = lobby->slot; slot < lobby->slot + lobby->options.slots; slot++)
        if (slot->io_slot.fd >= 0)
            oldest = first_to_go(oldest, slot);
    if (!oldest || is_known(oldest))
        return false;
    drop_stranger(lobby, oldest);
    return true;
}

static int accept_stranger(struct gyre_lobby *lobby, int listener, struct gyre_arrival *arrival)
{
    struct sockaddr_storage from;
    int fd;
    do
        fd = gyre_socket_accept(listener, &from);
    while ((fd == -EMFILE || fd == -ENFILE) && evict_stranger(lobby));
    if (fd == -EMFILE || fd == -ENFILE)
        return gyre_join_no_descriptor(lobby->join, fd);
    if (fd < 0) /* the stranger may have gone again */
        return GYRE_AGAIN;
    return welcome_stranger(lobby, fd, &from, arrival);
}

int gyre_lobby_ready(struct gyre_lobby *lobby, struct gyre_io_slot *io_slot,
                     struct gyre_arrival *arrival)
{
    if (io_slot >= lobby->listener && io_slot < lobby->listener + LISTENERS)
        return accept_stranger(lobby, io_slot->fd, arrival);
    return serve_stranger(lobby, (struct lobby_slot *)io_slot, arrival);
}

int gyre_lobby_create(struct gyre_joining *join, const struct gyre_lobby_options *options,
                      struct gyre_lobby **lobby)
{
    struct gyre_lobby *made = calloc(1, sizeof *made + options->slots * sizeof *made->slot);
    if (!made)
        return gyre_trouble_set(join->trouble, -ENOMEM, "no memory for %u waiting connections",
                                options->slots);
    made->join = join;
    made->options = *options;
    for (uint32_t i = 0; i < options->slots; i++) {
        made->slot[i].io_slot = (struct gyre_io_slot){.fd = -1, .owner = options->owner};
        gyre_talk_open(&made->slot[i].talk, -1);
    }
    *lobby = made;
    return 0;
}

int gyre_lobby_listen(struct gyre_lobby *lobby, int fd)
{
    struct gyre_io_slot *listener = &lobby->listener[lobby->listeners];
    *listener = (struct gyre_io_slot){.fd = -1, .owner = lobby->options.owner};
    int status = gyre_join_add_slot(lobby->join, listener, fd, false);
    if (status)
        close(fd);
    else
        lobby->listeners++;
    return status;
}

int gyre_lobby_take_listener(struct gyre_lobby *lobby)
{
    if (lobby->listeners == 0)
        return -1;
    struct gyre_io_slot *listener = &lobby->listener[--lobby->listeners];
    int fd = listener->fd;
    gyre_join_remove_slot(lobby->join, listener);
    return fd;
}

void gyre_lobby_tick(struct gyre_lobby *lobby, uint64_t now)
{
    if (!lobby)
        return;
    for (uint32_t i = 0; i < lobby->options.slots; i++) {
        struct lobby_slot *slot = &lobby->slot[i];
        if (slot->io_slot.fd >= 0 && now > slot->since + GYRE_JOIN_SILENCE)
            drop_stranger(lobby, slot);
    }
}

void gyre_lobby_destroy(struct gyre_lobby *lobby)
{
    if (!lobby)
        return;
    for (uint32_t i = 0; i < lobby->listeners; i++) {
        int fd = lobby->listener[i].fd;
        gyre_join_remove_slot(lobby->join, &lobby->listener[i]);
        close(fd);
    }
    for (uint32_t i = 0; i < lobby->options.slots; i++)
        drop_stranger(lobby, &lobby->slot[i]);
    gyre_wipe(lobby->options.key, sizeof lobby->options.key);
    free(lobby);
}
