/* Dials of peers' listeners: the connecting, the handshake, and the pauses between attempts.
 *
 *      begin ─▶ connected ─▶ proof, both ways ─▶ records ─▶ the owner
 *        ▲         │ refused, closed, late
 *        └─ pause ─┘ 1, 2 … 100 ms
 *
 * Tested by tests/program/watch/reset.c. */
#include "transport/watch/inside.h"

#include "transport/net/socket.h"

#include <errno.h>
#include <sys/epoll.h>

#define FIRST_PAUSE GYRE_MS
#define MOST_PAUSE  (100 * GYRE_MS)
#define ATTEMPT     (2 * GYRE_SECOND)

void gyre_dial_init(struct gyre_dial *dial)
{
    gyre_talk_open(&dial->talk, -1);
    dial->connecting = false;
    dial->next_at = 0;
    dial->pause = FIRST_PAUSE;
}

void gyre_dial_drop(struct gyre_watch *watch, struct gyre_dial *dial)
{
    if (dial->talk.fd >= 0)
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, dial->talk.fd, NULL);
    gyre_talk_close(&dial->talk);
}

int gyre_dial_take(struct gyre_watch *watch, struct gyre_dial *dial)
{
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, dial->talk.fd, NULL);
    return gyre_talk_take(&dial->talk);
}

void gyre_dial_pause(struct gyre_watch *watch, struct gyre_dial *dial)
{
    gyre_dial_drop(watch, dial);
    dial->next_at = gyre_now_ns() + dial->pause;
    dial->pause = 2 * dial->pause < MOST_PAUSE ? 2 * dial->pause : MOST_PAUSE;
}

/* Connects from the address at which this rank listens. */
static int connect_to(const struct gyre_watch *watch, uint32_t rank)
{
    const struct gyre_joined *joined = watch->is.joined;

    return gyre_socket_connect_peer(&joined->member[rank].address,
                                    &joined->member[joined->rank].address);
}

int gyre_dial_begin(struct gyre_watch *watch, struct gyre_dial *dial,
                    const struct gyre_dial_goal *goal)
{
    int fd = connect_to(watch, goal->rank);

    if (fd < 0)
        return fd;
    gyre_talk_open(&dial->talk, fd);
    dial->connecting = true;
    dial->next_at = gyre_now_ns() + ATTEMPT;
    if (gyre_watch_start_proof(watch, &dial->talk.shake, GYRE_HANDSHAKE_CLIENT, goal->purpose,
                               goal->stripe) != 0 ||
        gyre_watch_listen(watch, fd, EPOLLOUT, goal->source, goal->index) != 0)
        return -EIO;
    return 0;
}

int gyre_dial_proceed(struct gyre_watch *watch, struct gyre_dial *dial,
                      const struct gyre_dial_goal *goal, struct gyre_record *record)
{
    struct gyre_talk *talk = &dial->talk;
    int status = dial->connecting ? gyre_socket_connected(talk->fd) : 0;

    if (status != 0)
        return status;
    dial->connecting = false;
    status = gyre_talk_step(talk, record);
    if (status == 0 && !gyre_handshake_reached(&talk->shake, goal->rank))
        return GYRE_CORRUPT;
    if (status == GYRE_AGAIN)
        gyre_watch_rearm(watch, talk->fd, EPOLLIN | (gyre_talk_pending(talk) ? EPOLLOUT : 0u),
                         goal->source, goal->index);
    return status == 0 || status == GYRE_AGAIN ? status : -ECONNRESET;
}
