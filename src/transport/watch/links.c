/* Links to peers: sending over them, and their end.
 *
 * A broken link is only marked. Threads that wait for its peer are woken and ask
 * gyre_watch_link_answers().
 *
 * Tested by tests/program/failures/watch.c. */
#include "transport/watch/inside.h"

#include "base/clock.h"

#include <errno.h>
#include <sys/epoll.h>

static uint64_t tag(enum gyre_watch_source source, uint32_t index)
{
    return (uint64_t)source << 32 | index;
}

int gyre_watch_listen(struct gyre_watch *watch, int fd, uint32_t events,
                      enum gyre_watch_source source, uint32_t index)
{
    struct epoll_event event = {.events = events, .data.u64 = tag(source, index)};
    return epoll_ctl(watch->poller, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void gyre_watch_break(struct gyre_watch *watch, uint32_t index, int status)
{
    struct gyre_watch_link *link = &watch->link[index];
    /* A socket that is closed with bytes unread, as a killed process closes its own, resets. */
    bool closed = status == -EPIPE || status == -ECONNRESET;
    const char *why = closed ? NULL : gyre_status_name(status);

    if (link->broken)
        return;
    if (status == GYRE_CORRUPT) {
        gyre_detector_corrupt(watch->detector, gyre_now_ns(), index);
        gyre_watch_send_owed(watch, index); /* what goes the other way may arrive whole */
    }
    if (link->broken)
        return;
    link->broken = true;
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, link->channel.fd, NULL);
    gyre_detector_eof(watch->detector, gyre_now_ns(), index, why);
    pthread_cond_broadcast(&watch->changed);
}

/* Has epoll tell about room exactly while a message waits for it. */
static void arm(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    bool waits = !link->deaf && gyre_watch_channel_waits(&link->channel);
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0),
                                .data.u64 = tag(GYRE_WATCH_FROM_LINK, index)};

    if (waits == link->wants_room || link->broken)
        return;
    link->wants_room = waits;
    epoll_ctl(watch->poller, EPOLL_CTL_MOD, link->channel.fd, &event);
}

/* Acts on the status of a send. A peer that has closed its end may have said why: reading finds the
 * reason, and the end. */
static void act_on(struct gyre_watch *watch, uint32_t index, int status)
{
    if (status == -EPIPE || status == -ECONNRESET)
        watch->link[index].deaf = true;
    else if (status != 0)
        gyre_watch_break(watch, index, status);
    arm(watch, index);
}

static void send_bytes(struct gyre_watch *watch, uint32_t index, const uint8_t *bytes,
                       size_t length, int pass)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (!link->broken && !link->deaf)
        act_on(watch, index, gyre_watch_channel_send(&link->channel, bytes, length, pass));
}

void gyre_watch_post(struct gyre_watch *watch, uint32_t index,
                     const struct gyre_watch_message *message, int pass)
{
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    struct gyre_watch_message mine = *message;

    mine.epoch = watch->epoch;
    mine.rank = watch->is.joined->rank;
    send_bytes(watch, index, bytes, gyre_watch_encode(&mine, bytes), pass);
}

/* Sends what is owed, unless messages wait in the channel: the failure detector's word will be
 * newer when there is room. */
void gyre_watch_send_owed(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];

    while (!link->broken && !link->deaf && !gyre_watch_channel_waits(&link->channel)) {
        size_t length = gyre_detector_next_message(watch->detector, index, bytes);
        if (length == 0)
            return;
        send_bytes(watch, index, bytes, length, -1);
    }
}

void gyre_watch_flush(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (!link->broken && !link->deaf)
        act_on(watch, index, gyre_watch_channel_flush(&link->channel));
}

bool gyre_watch_link_answers(const struct gyre_watch *watch, uint32_t index)
{
    const struct gyre_watch_link *link = &watch->link[index];

    return link->node && !link->broken && !atomic_load(&link->ended) &&
           !gyre_detector_has_left(watch->detector, index);
}
