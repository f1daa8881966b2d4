/* Where processes wait that want to become members of a job that runs.
 *
 *     listeners ─▶ stranger ─▶ proof ─▶ PLACE ─▶ ASK ─▶ waits ─▶ taken
 *                     │          │               └▶ REFUSED, and why
 *                     │          └ a rank of the job that comes too late is told so
 *                     └ whoever cannot prove the job's key, or is not in time, is hung up on
 *
 * A stranger costs one place of a table and is not answered. When all places are taken, or no
 * descriptor is left, the stranger that came first makes room; where all are newcomers', the next
 * is hung up on, or waits at the listener, and tries again.
 *
 * Tested by tests/unit/transport/members/waiting_room_test.c and tests/program/failures/grow.c. */
#include "transport/members/waiting_room.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/machine/thread.h"
#include "base/rng.h"
#include "transport/join/place.h"
#include "transport/join/records.h"
#include "transport/members/record.h"
#include "transport/net/socket.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { PLACES = GYRE_NEWCOMERS_AT_ONCE + 32, LISTENERS = 4, TICK_MS = 100 };

#define PATIENCE   (5 * GYRE_SECOND) /* with a stranger */
#define BEAT       GYRE_SECOND
#define LAST_WORDS (100 * GYRE_MS) /* for newcomers to be told of the end */

struct waiting_guest {
    struct gyre_talk talk; /* fd -1: the place is free */
    uint64_t since;
    uint64_t number; /* in the order of asking, from 1; 0: it has not asked */
    struct gyre_seat seat;
};

struct gyre_waiting_room {
    struct gyre_job job;
    struct sockaddr_storage address;
    char *configuration;
    struct gyre_rendezvous place;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    int wake;             /* an eventfd that ends the thread's wait */
    bool ending;
    _Atomic uint32_t ranks, waiting; /* read and written without the lock, too */
    uint64_t numbers, beat_at;
    uint64_t deaf_until; /* no descriptor was left for whoever is at a listener */
    struct waiting_guest guest[PLACES];
};

/* -- guests: with the lock held ---------------------------------------------------------------- */

static void see_newcomer_off(struct waiting_guest *guest)
{
    gyre_talk_close(&guest->talk);
    *guest = (struct waiting_guest){0};
    gyre_talk_open(&guest->talk, -1);
}

/* Sees off the stranger who came first, and returns the place; NULL: there is no stranger. */
static struct waiting_guest *evict_first_stranger(struct gyre_waiting_room *room)
{
    struct waiting_guest *oldest = NULL;
    for (int i = 0; i < PLACES; i++) {
        struct waiting_guest *guest = &room->guest[i];
        if (guest->talk.fd >= 0 && !guest->number && (!oldest || guest->since < oldest->since))
            oldest = guest;
    }
    if (oldest)
        see_newcomer_off(oldest);
    return oldest;
}

/* A free place, or that of the stranger who came first; NULL: all are newcomers'. */
static struct waiting_guest *find_waiting_place(struct gyre_waiting_room *room)
{
    for (int i = 0; i < PLACES; i++)
        if (room->guest[i].talk.fd < 0)
            return &room->guest[i];
    return evict_first_stranger(room);
}

/* Accepts whoever is at a listener. Where no descriptor is left, a stranger's is used, or the
 * listeners rest for a tick. */
static int accept_guest(struct gyre_waiting_room *room, int listener, uint64_t now)
{
    struct sockaddr_storage from;
    int fd;
    do
        fd = gyre_socket_accept(listener, &from);
    while ((fd == -EMFILE || fd == -ENFILE) && evict_first_stranger(room));
    if (fd == -EMFILE || fd == -ENFILE)
        room->deaf_until = now + TICK_MS * GYRE_MS;
    return fd;
}

static int start_room_proof(const struct gyre_waiting_room *room, struct gyre_handshake *shake)
{
    const struct gyre_job *job = &room->job;
    struct gyre_claim claim = {.version_low = GYRE_PROTOCOL_LOW,
                               .version_high = GYRE_PROTOCOL_HIGH,
                               .purpose = GYRE_PURPOSE_NEWCOMER};
    uint8_t nonce[GYRE_NONCE_BYTES];
    memcpy(claim.job, job->id, sizeof claim.job);
    memcpy(claim.key_id, job->key_id, sizeof claim.key_id);
    int status = gyre_random_bytes(nonce, sizeof nonce);
    return status ? status
                  : gyre_handshake_start(shake, GYRE_HANDSHAKE_SERVER, &claim, job->key, nonce);
}

static void admit_to_room(struct gyre_waiting_room *room, int listener, uint64_t now)
{
    int fd = accept_guest(room, listener, now);
    struct waiting_guest *guest = fd >= 0 ? find_waiting_place(room) : NULL;
    if (!guest) {
        gyre_socket_drop(fd);
        return;
    }
    gyre_talk_open(&guest->talk, fd);
    guest->since = now;
    if (start_room_proof(room, &guest->talk.shake))
        see_newcomer_off(guest);
}

/* A rank that meets the room where it looks for its job's rank 0. */
static void refuse_late_rank(struct waiting_guest *guest)
{
    uint8_t payload[GYRE_REFUSAL_BYTES];
    struct gyre_refusal refusal = {.code = GYRE_REFUSAL_DUPLICATE};
    snprintf(refusal.text, sizeof refusal.text,
             "the job has all its ranks and has begun: this process can only come as a newcomer, "
             "by gyre_join()");
    int length = gyre_refusal_encode(&guest->talk.shake, &refusal, payload);
    if (length > 0)
        (void)gyre_talk_say(&guest->talk, GYRE_JOIN_REFUSAL, payload, (size_t)length);
    see_newcomer_off(guest);
}

static void refuse_newcomer(struct waiting_guest *guest, const char *why)
{
    uint8_t payload[2 + GYRE_REFUSAL_TEXT];
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    gyre_put_text(&out, why, GYRE_REFUSAL_TEXT);
    gyre_log(GYRE_LOG_WARN, "a newcomer was refused: %s", why);
    (void)gyre_talk_say(&guest->talk, GYRE_NEWCOMER_REFUSED, payload, (size_t)(out.at - payload));
    see_newcomer_off(guest);
}

static void know_newcomer(const struct gyre_waiting_room *room, struct waiting_guest *guest)
{
    const struct gyre_claim *claim = &guest->talk.shake.theirs;
    uint8_t payload[GYRE_ADDRESS_BYTES];
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    if (claim->purpose == GYRE_PURPOSE_JOIN) {
        refuse_late_rank(guest);
    } else if (claim->purpose != GYRE_PURPOSE_NEWCOMER) {
        see_newcomer_off(guest);
    } else {
        gyre_address_put(&out, &room->address);
        (void)gyre_talk_say(&guest->talk, GYRE_NEWCOMER_PLACE, payload, sizeof payload);
    }
}

static uint32_t count_newcomers(const struct gyre_waiting_room *room)
{
    uint32_t waiting = 0;
    for (int i = 0; i < PLACES; i++)
        waiting += room->guest[i].number != 0;
    return waiting;
}

static void say_wait(struct gyre_waiting_room *room, struct waiting_guest *guest)
{
    uint8_t payload[8];
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    gyre_put_u64(&out, room->ranks, 4);
    gyre_put_u64(&out, count_newcomers(room), 4);
    (void)gyre_talk_say(&guest->talk, GYRE_NEWCOMER_WAIT, payload, sizeof payload);
}

/* Writes why a newcomer does not fit; false: it fits. */
static bool misfits(const struct gyre_waiting_room *room, const struct waiting_guest *guest,
                    const char *configuration, char why[GYRE_REFUSAL_TEXT])
{
    const struct gyre_claim *claim = &guest->talk.shake.theirs;
    const char *const texts[] = {room->configuration, configuration};
    const char *const who[] = {"the job", "the newcomer"};
    bool version =
        claim->version_low > GYRE_PROTOCOL_HIGH || claim->version_high < GYRE_PROTOCOL_LOW;
    int used =
        snprintf(why, GYRE_REFUSAL_TEXT,
                 "the process on %.63s (pid %d) does not fit: ", guest->seat.host, guest->seat.pid);
    if (version)
        snprintf(why + used, GYRE_REFUSAL_TEXT - (size_t)used, "another version of the protocol");
    else if (strcmp(texts[0], texts[1]) != 0)
        gyre_configuration_difference(texts, who, why + used, GYRE_REFUSAL_TEXT - (size_t)used);
    else if (gyre_address_is_loopback(&room->address) &&
             !gyre_address_is_loopback(&guest->seat.address))
        snprintf(
            why + used, GYRE_REFUSAL_TEXT - (size_t)used,
            "the job's ranks are reached by loopback only; set GYRE_INTERFACE to their network "
            "where the job is started");
    else
        return false;
    return true;
}

static void hear_ask(struct gyre_waiting_room *room, struct waiting_guest *guest,
                     const struct gyre_record *record)
{
    struct gyre_cursor in = gyre_cursor_over(record->payload, record->length);
    char why[GYRE_REFUSAL_TEXT], *configuration = malloc(GYRE_NEWCOMER_TEXT);
    gyre_seat_get(&in, &guest->seat);
    if (configuration)
        gyre_get_text(&in, configuration, GYRE_NEWCOMER_TEXT);
    if (!configuration || in.bad || in.at != in.end || guest->number ||
        record->kind != GYRE_NEWCOMER_ASK) {
        see_newcomer_off(guest);
    } else if (misfits(room, guest, configuration, why)) {
        refuse_newcomer(guest, why);
    } else {
        guest->number = ++room->numbers;
        say_wait(room, guest);
    }
    free(configuration);
}

static void serve_newcomer(struct gyre_waiting_room *room, struct waiting_guest *guest)
{
    struct gyre_record record;
    int status = 0;
    while (guest->talk.fd >= 0 && (status = gyre_talk_step(&guest->talk, &record)) == 0)
        if (record.kind)
            hear_ask(room, guest, &record);
        else
            know_newcomer(room, guest);
    if (guest->talk.fd >= 0 && status != GYRE_AGAIN)
        see_newcomer_off(guest);
}

/* Hangs up on strangers that are late, and tells newcomers that the job lives. */
static void turn_room(struct gyre_waiting_room *room, uint64_t now)
{
    bool beat = now >= room->beat_at;
    if (beat)
        room->beat_at = now + BEAT;
    for (int i = 0; i < PLACES; i++) {
        struct waiting_guest *guest = &room->guest[i];
        if (guest->talk.fd >= 0 && !guest->number && now > guest->since + PATIENCE)
            see_newcomer_off(guest);
        else if (guest->number && beat)
            say_wait(room, guest);
    }
}

/* -- the thread -------------------------------------------------------------------------------- */

struct waits { /* the eventfd, the listeners, the guests */
    struct pollfd at[1 + LISTENERS + PLACES];
};

static void aim_room(struct gyre_waiting_room *room, struct waits *waits)
{
    struct pollfd *at = waits->at;
    const int listeners = gyre_now_ns() < room->deaf_until ? 0 : room->place.listeners;
    *at++ = (struct pollfd){.fd = room->wake, .events = POLLIN};
    for (int i = 0; i < LISTENERS; i++)
        *at++ =
            (struct pollfd){.fd = i < listeners ? room->place.listener[i] : -1, .events = POLLIN};
    for (int i = 0; i < PLACES; i++) {
        const struct gyre_talk *talk = &room->guest[i].talk;
        *at++ = (struct pollfd){.fd = talk->fd,
                                .events = gyre_talk_pending(talk) ? POLLIN | POLLOUT : POLLIN};
    }
}

/* Serves what was ready. A guest that was taken meanwhile has another descriptor, or none. */
static void act_in_room(struct gyre_waiting_room *room, const struct waits *waits)
{
    const struct pollfd *listeners = waits->at + 1, *guests = listeners + LISTENERS;
    uint64_t now = gyre_now_ns();
    for (int i = 0; i < PLACES; i++)
        if (guests[i].revents && room->guest[i].talk.fd == guests[i].fd)
            serve_newcomer(room, &room->guest[i]);
    for (int i = 0; i < LISTENERS; i++)
        if (listeners[i].revents & POLLIN)
            admit_to_room(room, listeners[i].fd, now);
    turn_room(room, now);
    room->waiting = count_newcomers(room);
}

static void *run_room(void *argument)
{
    struct gyre_waiting_room *room = argument;
    struct waits waits;
    pthread_setname_np(pthread_self(), "gyre-newcomers");
    pthread_mutex_lock(&room->lock);
    while (!room->ending) {
        aim_room(room, &waits);
        pthread_mutex_unlock(&room->lock);
        poll(waits.at, sizeof waits.at / sizeof *waits.at, TICK_MS);
        pthread_mutex_lock(&room->lock);
        act_in_room(room, &waits);
    }
    pthread_mutex_unlock(&room->lock);
    return NULL;
}

/* -- the owner --------------------------------------------------------------------------------- */

uint32_t gyre_waiting_room_count(struct gyre_waiting_room *room, uint32_t ranks)
{
    if (!room)
        return 0;
    atomic_store_explicit(&room->ranks, ranks, memory_order_relaxed);
    return atomic_load_explicit(&room->waiting, memory_order_relaxed);
}

static struct waiting_guest *find_first_newcomer(struct gyre_waiting_room *room)
{
    struct waiting_guest *first = NULL;
    for (int i = 0; i < PLACES; i++)
        if (room->guest[i].number && (!first || room->guest[i].number < first->number))
            first = &room->guest[i];
    return first;
}

uint32_t gyre_waiting_room_take(struct gyre_waiting_room *room, uint32_t most,
                                struct gyre_newcomer *taken)
{
    uint32_t count = 0;
    struct waiting_guest *guest;
    if (!room)
        return 0;
    pthread_mutex_lock(&room->lock);
    while (count < most && (guest = find_first_newcomer(room))) {
        taken[count++] = (struct gyre_newcomer){guest->talk, guest->seat};
        gyre_talk_open(&guest->talk, -1);
        see_newcomer_off(guest);
    }
    room->waiting = count_newcomers(room);
    pthread_mutex_unlock(&room->lock);
    return count;
}

int gyre_key_hide(const uint8_t by[GYRE_KEY_BYTES], const uint8_t nonce[GYRE_NONCE_BYTES],
                  uint8_t key[GYRE_KEY_BYTES])
{
    static const char purpose[] = "gyre members key";
    const struct gyre_piece secret = {by, GYRE_KEY_BYTES}, salt = {nonce, GYRE_NONCE_BYTES};
    uint8_t pad[GYRE_KEY_BYTES];
    int status = gyre_hkdf_sha256(secret, salt, (struct gyre_piece){purpose, sizeof purpose - 1},
                                  pad, sizeof pad);
    for (int i = 0; i < GYRE_KEY_BYTES; i++)
        key[i] ^= pad[i];
    gyre_wipe(pad, sizeof pad);
    return status;
}

int gyre_newcomer_say_taken(struct gyre_talk *talk, const struct gyre_members *members,
                            uint32_t seat)
{
    uint8_t payload[GYRE_TAKEN_BYTES], nonce[GYRE_NONCE_BYTES], key[GYRE_KEY_BYTES];
    struct gyre_cursor out = gyre_cursor_over(payload, sizeof payload);
    int status = gyre_random_bytes(nonce, sizeof nonce);
    memcpy(key, members->key, sizeof key);
    if (!status)
        status = gyre_key_hide(members->met.key, nonce, key);
    if (status)
        return status;
    gyre_put_bytes(&out, nonce, sizeof nonce);
    gyre_put_bytes(&out, key, sizeof key);
    gyre_put_bytes(&out, members->id, sizeof members->id);
    gyre_put_bytes(&out, members->key_id, sizeof members->key_id);
    gyre_put_u64(&out, members->founders, 4);
    gyre_put_u64(&out, seat, 4);
    return gyre_talk_say(talk, GYRE_NEWCOMER_TAKEN, payload, sizeof payload);
}

/* -- beginning and end ------------------------------------------------------------------------- */

static void free_room(struct gyre_waiting_room *room)
{
    for (int i = 0; i < PLACES; i++)
        see_newcomer_off(&room->guest[i]);
    gyre_rendezvous_close(&room->place);
    if (room->wake >= 0)
        close(room->wake);
    pthread_mutex_destroy(&room->lock);
    gyre_wipe(&room->job, sizeof room->job);
    free(room->configuration);
    free(room);
}

static int start_room(struct gyre_waiting_room *room,
                      const struct gyre_waiting_room_options *options, struct gyre_trouble *trouble)
{
    const struct gyre_rendezvous_wish wish = {.job = &room->job,
                                              .interface = options->interface,
                                              .port_low = options->port_low,
                                              .port_high = options->port_high,
                                              .moved = true};
    if (!room->configuration || room->wake < 0)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to let newcomers wait");
    int status = gyre_rendezvous_open(&wish, &room->place, trouble);
    if (status)
        return status;
    status = gyre_thread_start(&room->thread, run_room, room);
    if (status)
        return gyre_trouble_set(trouble, status,
                                "cannot start the thread where newcomers wait: %s (see ulimit -u)",
                                gyre_status_name(status));
    return 0;
}

int gyre_waiting_room_open(const struct gyre_waiting_room_options *options,
                           struct gyre_waiting_room **out, struct gyre_trouble *trouble)
{
    struct gyre_waiting_room *room = calloc(1, sizeof *room);
    if (!room)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to let newcomers wait");
    pthread_mutex_init(&room->lock, NULL);
    for (int i = 0; i < PLACES; i++)
        gyre_talk_open(&room->guest[i].talk, -1);
    room->job = *options->job;
    room->address = options->address;
    room->job.local_world = gyre_address_is_loopback(&room->address) ? room->job.world : -1;
    room->configuration = strdup(options->configuration);
    room->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int status = start_room(room, options, trouble);
    if (status)
        free_room(room);
    else
        *out = room;
    return status;
}

static void tell_over(struct gyre_waiting_room *room)
{
    uint64_t until = gyre_now_ns() + LAST_WORDS;
    for (int i = 0; i < PLACES; i++)
        if (room->guest[i].number)
            (void)gyre_talk_say(&room->guest[i].talk, GYRE_NEWCOMER_OVER, NULL, 0);
    for (int i = 0; i < PLACES; i++)
        if (room->guest[i].number)
            gyre_talk_drain(&room->guest[i].talk, until);
}

void gyre_waiting_room_close(struct gyre_waiting_room *room, bool over)
{
    uint64_t one = 1;
    if (!room)
        return;
    pthread_mutex_lock(&room->lock);
    room->ending = true;
    pthread_mutex_unlock(&room->lock);
    if (write(room->wake, &one, sizeof one) < 0)
        gyre_log(GYRE_LOG_DEBUG, "newcomers' thread: %s", strerror(errno));
    pthread_join(room->thread, NULL);
    if (over)
        tell_over(room);
    free_room(room);
}
