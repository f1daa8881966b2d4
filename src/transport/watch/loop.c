/* One watch's turn on the process's thread (thread.c): events in, the failure detector's
 * conclusions out.
 *
 *      pidfds, sockets, launcher's pipe
 *                   │ the watch's poller
 *                   ▼
 *      events ─▶ detector ─▶ tick ─▶ settle: publish the failure, log warnings, send what is owed
 *
 * Invariants
 *   - A peer's last words count before its death: its channel is read to the end before its pidfd
 *     is believed.
 *   - health->failure is complete before health->status is set, and both before anybody is woken.
 *   - The lock is held while the watch is served, and never while the thread sleeps. Nothing under
 *     it blocks.
 *
 * Tested by tests/program/watch/watch.c. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/watch/inside.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS         64
#define ABSENT         (200 * GYRE_MS)
#define MESSAGES_A_RUN 64 /* messages read from one channel before the others have their turn */

/* -- out --------------------------------------------------------------------------------------- */

static struct gyre_recorder *recorder_of(const struct gyre_watch *watch)
{
    return watch->is.activity != NULL ? watch->is.activity->recorder : NULL;
}

/* A launcher that ends takes its own ranks with it. To ranks of another launcher, which may go on,
 * that is the loss of the rank that tells it. All ranks of a launcher have one pipe, so whoever is
 * told by one of them sees its end. */
static struct gyre_detector_record seen_from_here(const struct gyre_watch *watch,
                                                  const struct gyre_detector_record *record)
{
    struct gyre_detector_record seen = *record;
    struct pollfd pipe = {.fd = watch->launcher};

    if (record->status != GYRE_LAUNCHER_GONE)
        return seen;
    if (pipe.fd >= 0 && poll(&pipe, 1, 0) == 1)
        seen.rank = GYRE_NOBODY;
    else
        seen.status = GYRE_PEER_LOST;
    return seen;
}

static void publish_failure(struct gyre_watch *watch, const struct gyre_detector_record *record)
{
    struct gyre_health *health = watch->is.health;

    watch->told = true;
    health->failure.status = record->status;
    snprintf(health->failure.text, sizeof health->failure.text, "%s", record->text);
    health->failed_rank = record->rank;
    health->failed_at = gyre_wall_clock_ns();
    atomic_store_explicit(&health->status, record->status, memory_order_release);
    gyre_watch_ring(&watch->is.bell);
    pthread_cond_broadcast(&watch->changed);
    gyre_recorder_end(recorder_of(watch), record->status, record->rank, record->text);
    gyre_log(GYRE_LOG_INFO, "failed: %s", record->text);
}

/* Tells the rank, once, that rank 0 has left before it. */
static void publish_rootless(struct gyre_watch *watch)
{
    if (atomic_exchange(&watch->is.health->rootless, true))
        return;
    gyre_watch_ring(&watch->is.bell);
    gyre_log(GYRE_LOG_INFO, "rank 0 has left; failures on other nodes are seen on links to them");
}

/* Acts on all conclusions of the failure detector. */
void gyre_watch_settle(struct gyre_watch *watch)
{
    const struct gyre_detector_record *record = gyre_detector_failure(watch->detector);
    const char *warning = gyre_detector_take_warning(watch->detector);

    if (gyre_detector_rootless(watch->detector))
        publish_rootless(watch);
    if (record != NULL && !watch->told) {
        const struct gyre_detector_record seen = seen_from_here(watch, record);
        publish_failure(watch, &seen);
    }
    if (warning != NULL)
        gyre_log(GYRE_LOG_WARN, "%s", warning);
    for (uint32_t i = 0; i < watch->links; i++)
        gyre_watch_send_owed(watch, i);
    if (gyre_detector_all_left(watch->detector))
        pthread_cond_broadcast(&watch->changed);
}

/* -- in ---------------------------------------------------------------------------------------- */

static void hear_share(struct gyre_watch *watch, uint32_t index,
                       const struct gyre_watch_message *message, int passed)
{
    if (message->kind == GYRE_WATCH_REPLY)
        gyre_watch_hear_reply(watch, index, message);
    else if (message->kind == GYRE_WATCH_SHARE || message->kind == GYRE_WATCH_UNSHARE)
        gyre_watch_hear_region(watch, index, message, passed);
    else if (message->kind == GYRE_WATCH_TRY)
        gyre_watch_hear_try(watch, index);
}

static void hear_message(struct gyre_watch *watch, uint32_t index,
                         const struct gyre_watch_message *message, int passed)
{
    gyre_detector_receive(watch->detector, gyre_now_ns(), index, message);
    if (message->kind == GYRE_WATCH_BYE)
        pthread_cond_broadcast(&watch->changed);
    if (message->epoch == watch->epoch && watch->link[index].node)
        hear_share(watch, index, message, passed);
    if (passed >= 0)
        close(passed);
}

/* Reads up to `most` messages. GYRE_AGAIN: the channel is empty; 0: there may be more. */
static int read_link(struct gyre_watch *watch, uint32_t index, int most)
{
    struct gyre_watch_link *link = &watch->link[index];
    struct gyre_watch_message message;
    int passed;

    for (int i = 0; i < most && !link->broken; i++) {
        int status = gyre_watch_channel_receive(&link->channel, watch->buffer, &message, &passed);
        if (status == GYRE_AGAIN)
            return status;
        if (status != 0)
            gyre_watch_break(watch, index, status);
        else
            hear_message(watch, index, &message, passed);
    }
    return 0;
}

static void handle_link(struct gyre_watch *watch, uint32_t index, uint32_t events)
{
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_link(watch, index, MESSAGES_A_RUN);
    if (events & EPOLLOUT)
        gyre_watch_flush(watch, index);
}

static void handle_death(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    read_link(watch, index, INT_MAX);
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, link->pidfd, NULL);
    link->pidfd = -1;
    gyre_detector_ended(watch->detector, gyre_now_ns(), index);
    link->ended_at = gyre_wall_clock_ns();
    atomic_store_explicit(&link->ended, true, memory_order_release);
    pthread_cond_broadcast(&watch->changed);
}

static void handle(struct gyre_watch *watch, const struct epoll_event *event)
{
    uint32_t index = (uint32_t)event->data.u64;

    switch ((enum gyre_watch_source)(event->data.u64 >> 32)) {
    case GYRE_WATCH_FROM_LINK:
        handle_link(watch, index, event->events);
        break;
    case GYRE_WATCH_FROM_PIDFD:
        handle_death(watch, index);
        break;
    case GYRE_WATCH_FROM_LAUNCHER:
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, watch->launcher, NULL);
        gyre_detector_launcher_gone(watch->detector, gyre_now_ns());
        break;
    case GYRE_WATCH_FROM_DIAL:
        gyre_watch_redial_ready(watch, index);
        break;
    case GYRE_WATCH_FROM_RENEWAL:
        gyre_watch_renewal_ready(watch, index);
        break;
    case GYRE_WATCH_FROM_LISTENER:
        gyre_watch_admit_visitor(watch);
        break;
    case GYRE_WATCH_FROM_VISITOR:
        gyre_watch_hear_visitor(watch, index);
        break;
    }
}

/* -- a turn ------------------------------------------------------------------------------------ */

/* Counts absences. A thread that waits looks every 50 ms. A thread that does not look is kept from
 * running, by others on its core or by a page that comes slowly. Its part may be on its way, so an
 * absence counts as motion. Where several threads call, one may wait and another compute what a
 * peer waits for. So such a rank is always absent. */
static void count_absence(struct gyre_watch *watch, struct gyre_watch_state *fresh)
{
    uint64_t now = gyre_now_ns();
    uint64_t looks = atomic_load_explicit(&watch->is.activity->looks, memory_order_relaxed);

    bool here = looks != watch->looks || fresh->sequence <= fresh->finished;
    bool absent = !here && now - watch->looked_at >= ABSENT;
    bool several = atomic_load_explicit(&watch->is.activity->threads, memory_order_relaxed);

    watch->absences += absent || several;
    if (here || absent)
        watch->looked_at = now;
    watch->looks = looks;
    fresh->motion += watch->absences;
}

/* Looks at the rank's activity, or keeps the last look if the communicator is just writing, and
 * lets the failure detector act on it. */
void gyre_watch_turn(struct gyre_watch *watch)
{
    struct gyre_watch_state fresh = {.rank = watch->is.joined->rank};

    const struct gyre_activity *first = watch->is.activity;

    if (first != NULL && gyre_activity_read(first, &fresh)) {
        count_absence(watch, &fresh);
        watch->mine = fresh;
    }
    gyre_recorder_beat(recorder_of(watch), gyre_now_ns());
    watch->mine.parting = watch->parts_until != 0;
    gyre_detector_tick(watch->detector, gyre_now_ns(), &watch->mine);
    gyre_watch_settle(watch);
}

/* When the watch has to be served next, even without an event. */
static uint64_t wake_at(const struct gyre_watch *watch)
{
    uint64_t wake = gyre_detector_wake(watch->detector);
    const uint64_t due[] = {gyre_watch_redial_wake(watch), gyre_watch_renewals_wake(watch),
                            gyre_watch_visitors_wake(watch)};

    for (size_t i = 0; i < sizeof due / sizeof *due; i++)
        wake = due[i] < wake ? due[i] : wake;
    return wake;
}

static void handle_events(struct gyre_watch *watch)
{
    struct epoll_event event[EVENTS];
    int count = epoll_wait(watch->poller, event, EVENTS, 0);

    for (int i = 0; i < count; i++)
        handle(watch, &event[i]);
}

uint64_t gyre_watch_serve(struct gyre_watch *watch, bool ready)
{
    pthread_mutex_lock(&watch->lock);
    if (ready)
        handle_events(watch);
    gyre_watch_redial_turn(watch, gyre_now_ns());
    gyre_watch_renewals_turn(watch, gyre_now_ns());
    gyre_watch_visitors_turn(watch, gyre_now_ns());
    gyre_watch_answer_errands(watch);
    gyre_watch_answer_tries(watch);
    gyre_watch_turn(watch);
    uint64_t wake = wake_at(watch);
    pthread_mutex_unlock(&watch->lock);
    return wake;
}
