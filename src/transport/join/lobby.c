/* The lobby: connections of strangers, until they have proven the key.
 *
 *     listener ─▶ slot ─▶ M1 right? ─▶ M2 ─▶ M3 right? ─▶ admit() ─▶ elsewhere
 *                  │         │ no               │ no          │ refusal
 *                  └ 5 s ────┴── hung up on ────┴── silently  └─▶ told why, hung up on
 *
 * A stranger costs one slot of a table made at the start and nothing else: no allocation, no
 * thread, no answer, at most 128 bytes read. When the table or one address's share of it is full,
 * the stranger that has waited longest there makes room, before any connection whose M1 held: an
 * honest rank needs a millisecond, so whoever floods mostly throws out itself. */
#include "transport/join/inside.h"

#include "base/log.h"
#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LISTENERS = 4, LINES = 8 };

struct slot {
    struct gyre_io_slot io_slot;
    struct gyre_lobby *lobby;
    struct gyre_talk talk;
    struct sockaddr_storage from;
    uint64_t since;
    bool leaving; /* refused: only its output is still to go */
};

struct listener {
    struct gyre_io_slot io_slot;
    struct gyre_lobby *lobby;
};

struct gyre_lobby {
    struct gyre_joining *join;
    struct gyre_lobby_options options;
    struct listener listener[LISTENERS];
    uint32_t listeners, lines; /* lines: of wrong keys logged so far */
    struct slot slot[];
};

static void leave(struct slot *slot)
{
    gyre_join_remove_slot(slot->lobby->join, &slot->io_slot);
    gyre_talk_close(&slot->talk);
}

static void key_text(const uint8_t id[8], char text[17])
{
    for (int i = 0; i < 8; i++)
        sprintf(text + 2 * i, "%02x", id[i]);
}

/* Nothing is told to the stranger, so the operator of this side must be told. */
static void note_wrong_key(struct slot *slot)
{
    struct gyre_lobby *lobby = slot->lobby;
    const struct gyre_handshake *shake = &slot->talk.shake;
    char from[GYRE_ADDRESS_TEXT], theirs[17], mine[17];
    if (!shake->claimed || lobby->lines++ >= LINES)
        return;
    gyre_address_format(&slot->from, from);
    key_text(shake->theirs.key_id, theirs);
    key_text(shake->mine.key_id, mine);
    bool key = memcmp(shake->theirs.key_id, shake->mine.key_id, 8) != 0;
    gyre_log(key ? GYRE_LOG_WARN : GYRE_LOG_INFO,
             "hung up on %s, which calls itself rank %u of %u: it is of another %s (its key id %s, "
             "mine %s)%s",
             from, shake->theirs.rank, shake->theirs.world, key ? "key" : "job", theirs, mine,
             lobby->lines == LINES ? "; further ones are not reported" : "");
}

static int refuse_guest(struct slot *slot, const struct gyre_refusal *refusal)
{
    uint8_t payload[GYRE_REFUSAL_BYTES];
    int length = gyre_refusal_encode(&slot->talk.shake, refusal, payload);
    if (length > 0 && !gyre_talk_say(&slot->talk, GYRE_JOIN_REFUSAL, payload, (size_t)length) &&
        gyre_talk_pending(&slot->talk)) {
        slot->leaving = true;
        return gyre_join_rearm(slot->lobby->join, &slot->io_slot, true);
    }
    leave(slot);
    return 0;
}

static int meet_guest(struct slot *slot, const struct gyre_record *record)
{
    struct gyre_lobby *lobby = slot->lobby;
    struct gyre_refusal refusal = {0};
    struct gyre_io_slot io_slot = slot->io_slot;
    if (lobby->options.introduction && !record->kind)
        return GYRE_AGAIN;
    gyre_join_remove_slot(lobby->join, &slot->io_slot); /* admit() seats it elsewhere */
    int status = lobby->options.admit(lobby->join, &slot->talk, record, &refusal);
    if (!refusal.code)
        return status;
    int seated = gyre_join_add_slot(lobby->join, &slot->io_slot, io_slot.fd, false);
    if (!seated)
        seated = refuse_guest(slot, &refusal);
    return status == GYRE_AGAIN ? seated : status;
}

static int slot_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    struct slot *slot = (struct slot *)io_slot;
    struct gyre_record record;
    int status;
    do {
        status = gyre_talk_step(&slot->talk, &record);
        if (status < 0) {
            if (status == GYRE_REFUSED)
                note_wrong_key(slot);
            leave(slot);
            return 0;
        }
        if (!status && !slot->leaving)
            status = meet_guest(slot, &record);
        if (status < 0)
            return status;
    } while (!status && slot->io_slot.fd >= 0);
    if (slot->io_slot.fd < 0)
        return 0;
    bool pending = gyre_talk_pending(&slot->talk);
    if (slot->leaving && !pending) {
        leave(slot);
        return 0;
    }
    return gyre_join_rearm(join, io_slot, pending);
}

/* Whose M1 held: it has the key, so it is a rank on its way. */
static bool is_known(const struct slot *slot)
{
    return slot->talk.shake.input > 0 || slot->talk.shake.state == GYRE_HANDSHAKE_PROVEN;
}

/* Who makes room first: a stranger before a known one, then whoever has waited longer. */
static struct slot *first_to_go(struct slot *a, struct slot *b)
{
    if (!a || is_known(a) != is_known(b))
        return !a || is_known(a) ? b : a;
    return a->since <= b->since ? a : b;
}

/* A free slot, unless this address has its share already; else one that must make room. */
static struct slot *find_slot(struct gyre_lobby *lobby, const struct sockaddr_storage *from)
{
    struct slot *any = NULL, *theirs = NULL, *vacant = NULL;
    uint32_t same = 0;
    for (struct slot *slot = lobby->slot; slot < lobby->slot + lobby->options.slots; slot++) {
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
        leave(vacant);
    return vacant;
}

static int welcome_stranger(struct gyre_lobby *lobby, int fd, const struct sockaddr_storage *from)
{
    struct slot *slot = find_slot(lobby, from);
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
    slot->since = gyre_now_ns();
    slot->leaving = false;
    return slot_ready(lobby->join, &slot->io_slot);
}

static int listener_ready(struct gyre_joining *join, struct gyre_io_slot *io_slot)
{
    struct listener *listener = (struct listener *)io_slot;
    struct sockaddr_storage from;
    int fd = gyre_socket_accept(io_slot->fd, &from);
    if (fd == -EMFILE || fd == -ENFILE)
        return gyre_trouble_set(join->trouble, fd,
                                "no descriptor is left for the connections of %u ranks: raise "
                                "\"ulimit -n\"",
                                join->joined->n);
    return fd < 0
               ? 0
               : welcome_stranger(listener->lobby, fd, &from); /* it may have gone again already */
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
        made->slot[i].lobby = made;
        made->slot[i].io_slot = (struct gyre_io_slot){.fd = -1, .ready = slot_ready};
        gyre_talk_open(&made->slot[i].talk, -1);
    }
    *lobby = made;
    return 0;
}

int gyre_lobby_listen(struct gyre_lobby *lobby, int fd)
{
    struct listener *listener = &lobby->listener[lobby->listeners];
    *listener = (struct listener){.io_slot = {.fd = -1, .ready = listener_ready}, .lobby = lobby};
    int status = gyre_join_add_slot(lobby->join, &listener->io_slot, fd, false);
    if (status)
        close(fd);
    else
        lobby->listeners++;
    return status;
}

void gyre_lobby_tick(struct gyre_lobby *lobby, uint64_t now)
{
    if (!lobby)
        return;
    for (uint32_t i = 0; i < lobby->options.slots; i++) {
        struct slot *slot = &lobby->slot[i];
        if (slot->io_slot.fd >= 0 && now > slot->since + GYRE_JOIN_SILENCE)
            leave(slot);
    }
}

void gyre_lobby_destroy(struct gyre_lobby *lobby)
{
    if (!lobby)
        return;
    for (uint32_t i = 0; i < lobby->listeners; i++) {
        int fd = lobby->listener[i].io_slot.fd;
        gyre_join_remove_slot(lobby->join, &lobby->listener[i].io_slot);
        close(fd);
    }
    for (uint32_t i = 0; i < lobby->options.slots; i++)
        leave(&lobby->slot[i]);
    gyre_wipe(lobby->options.key, sizeof lobby->options.key);
    free(lobby);
}
