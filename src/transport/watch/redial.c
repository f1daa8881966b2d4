/* Connections of the watch that broke, and that this rank makes anew.
 *
 *      broken ─▶ connect to the peer's listener ─▶ handshake ─▶ WELCOME ─▶ higher rank: the link
 *        ▲              │ refused: the process       │ closed,              goes on over it
 *        │              │ has ended ─▶ eof()         │ late         lower rank: the peer knows now,
 *        └── 1, 2 … 100 ms later ──── any other ─────┘              and dials
 *
 * Both ends of a broken link dial, for two reasons. An end that has not noticed must be told. And a
 * process that was killed refuses connections at once, so its death is known long before the dead
 * time. But only the higher rank's connection becomes the link: of two that are made at once, both
 * ends choose the same. The higher rank numbers its attempts. The lower rank says which connection
 * broke, so the higher rank does not end a newer one.
 *
 * A listener of a process that is just ending may take a connection and reset it. The next attempt
 * is refused. A peer that is stopped takes a connection and says nothing; the failure detector ends
 * the wait at the dead time.
 *
 * Tested by tests/program/failures/watch_reset.c. */
#include "transport/watch/inside.h"

#include "transport/net/socket.h"
#include "transport/net/talk.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define FIRST_PAUSE GYRE_MS
#define MOST_PAUSE  (100 * GYRE_MS)
#define ATTEMPT     (2 * GYRE_SECOND)
#define TOLD_PAUSE  GYRE_SECOND /* for the higher rank, which knows now, to dial */

struct gyre_watch_dial {
    struct gyre_talk talk; /* fd −1: none is under way */
    bool connecting;
    uint64_t next_at, pause; /* the next attempt, or the end of this one */
};

static void drop_dial(struct gyre_watch *watch, struct gyre_watch_dial *dial)
{
    if (dial->talk.fd >= 0)
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, dial->talk.fd, NULL);
    gyre_talk_close(&dial->talk);
}

static void end_dial(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (link->dial == NULL)
        return;
    drop_dial(watch, link->dial);
    free(link->dial);
    link->dial = NULL;
}

/* Gives the link up: no process listens at the peer's address any more. */
static void conclude_death(struct gyre_watch *watch, uint32_t index)
{
    end_dial(watch, index);
    gyre_detector_eof(watch->detector, gyre_now_ns(), index, NULL);
    pthread_cond_broadcast(&watch->changed);
}

static void dial_failed(struct gyre_watch *watch, uint32_t index, int error)
{
    struct gyre_watch_dial *dial = watch->link[index].dial;

    if (error == ECONNREFUSED) {
        conclude_death(watch, index);
        return;
    }
    drop_dial(watch, dial);
    dial->next_at = gyre_now_ns() + dial->pause;
    dial->pause = 2 * dial->pause < MOST_PAUSE ? 2 * dial->pause : MOST_PAUSE;
}

/* Connects from the address at which this rank listens. */
static int connect_to(const struct gyre_watch *watch, uint32_t rank)
{
    const struct gyre_joined *joined = watch->is.joined;
    const struct sockaddr_storage *own = &joined->member[joined->rank].address;
    struct sockaddr_storage to = joined->member[rank].address;
    bool near = gyre_address_is_loopback(&to) || gyre_address_is_loopback(own);

    gyre_address_take_scope(&to, own);
    return gyre_socket_connect(&to, near ? NULL : own);
}

static void dial_once(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    struct gyre_watch_dial *dial = link->dial;
    uint32_t rank = gyre_detector_peer(watch->detector, index);
    uint16_t wire = rank < watch->is.joined->rank ? ++link->attempts : link->wire;
    int fd = connect_to(watch, rank);

    if (fd < 0) {
        dial_failed(watch, index, -fd);
        return;
    }
    gyre_talk_open(&dial->talk, fd);
    dial->connecting = true;
    dial->next_at = gyre_now_ns() + ATTEMPT;
    if (gyre_watch_start_proof(watch, &dial->talk.shake, GYRE_HANDSHAKE_CLIENT, wire) != 0 ||
        gyre_watch_listen(watch, fd, EPOLLOUT, GYRE_WATCH_FROM_DIAL, index) != 0)
        dial_failed(watch, index, EIO);
}

/* The peer has proven itself and welcomes this rank. */
static void hear_welcome(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_dial *dial = watch->link[index].dial;
    struct gyre_traffic_keys keys;

    if (gyre_detector_peer(watch->detector, index) > watch->is.joined->rank) {
        drop_dial(watch, dial);
        dial->next_at = gyre_now_ns() + TOLD_PAUSE;
        return;
    }
    if (gyre_talk_keys(&dial->talk, "gyre watch", &keys) != 0) {
        dial_failed(watch, index, EIO);
        return;
    }
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, dial->talk.fd, NULL);
    int fd = gyre_talk_take(&dial->talk);
    end_dial(watch, index);
    gyre_watch_reopen_link(watch, index, fd, watch->link[index].attempts, &keys);
    gyre_wipe(&keys, sizeof keys);
}

/* Moves the conversation on. 0: the peer welcomes this rank; GYRE_AGAIN: not yet; negative: this is
 * not the peer, or it has hung up. */
static int converse(const struct gyre_watch *watch, uint32_t index)
{
    struct gyre_talk *talk = &watch->link[index].dial->talk;
    struct gyre_record record;
    int status;

    while ((status = gyre_talk_step(talk, &record)) == 0) {
        if (!gyre_handshake_reached(&talk->shake, gyre_detector_peer(watch->detector, index)))
            return GYRE_CORRUPT;
        if (record.kind != 0)
            return record.kind == GYRE_WATCH_WELCOME ? 0 : GYRE_CORRUPT;
    }
    return status;
}

void gyre_watch_redial_ready(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_dial *dial = watch->link[index].dial;

    if (dial == NULL || dial->talk.fd < 0)
        return;
    int status = dial->connecting ? gyre_socket_connected(dial->talk.fd) : 0;
    if (status != 0) {
        dial_failed(watch, index, -status);
        return;
    }
    dial->connecting = false;
    status = converse(watch, index);
    if (status == 0)
        hear_welcome(watch, index);
    else if (status != GYRE_AGAIN)
        dial_failed(watch, index, ECONNRESET);
    else
        gyre_watch_rearm(watch, dial->talk.fd,
                         EPOLLIN | (gyre_talk_pending(&dial->talk) ? EPOLLOUT : 0u),
                         GYRE_WATCH_FROM_DIAL, index);
}

/* Starts to dial. Without memory it is tried again at the next turn. */
static void begin_dial(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_dial *dial = calloc(1, sizeof *dial);

    if (dial == NULL)
        return;
    gyre_talk_open(&dial->talk, -1);
    dial->pause = FIRST_PAUSE;
    watch->link[index].dial = dial;
    dial_once(watch, index);
}

void gyre_watch_redial_turn(struct gyre_watch *watch, uint64_t now)
{
    for (uint32_t i = 0; i < watch->links; i++) {
        struct gyre_watch_dial *dial = watch->link[i].dial;
        if (!watch->link[i].broken || !gyre_detector_awaits(watch->detector, i))
            end_dial(watch, i);
        else if (dial == NULL)
            begin_dial(watch, i);
        else if (dial->talk.fd >= 0 && now >= dial->next_at)
            dial_failed(watch, i, ETIMEDOUT);
        else if (dial->talk.fd < 0 && now >= dial->next_at)
            dial_once(watch, i);
    }
}

uint64_t gyre_watch_redial_wake(const struct gyre_watch *watch)
{
    uint64_t wake = UINT64_MAX;

    for (uint32_t i = 0; i < watch->links; i++)
        if (watch->link[i].dial != NULL && watch->link[i].dial->next_at < wake)
            wake = watch->link[i].dial->next_at;
    return wake;
}

void gyre_watch_drop_dials(struct gyre_watch *watch)
{
    for (uint32_t i = 0; watch->link != NULL && i < watch->links; i++)
        end_dial(watch, i);
}
