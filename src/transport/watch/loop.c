/* The watch's thread: events in, the failure detector's conclusions out.
 *
 *      pidfds, sockets, launcher's pipe, nudge
 *                   │ epoll, until the detector wants to wake
 *                   ▼
 *      events ─▶ detector ─▶ tick ─▶ settle: publish the failure, log warnings, send what is owed
 *
 * Invariants
 *   - A peer's last words count before its death: its channel is read to the end before its pidfd
 *     is believed.
 *   - health->failure is complete before health->status is set, and both before anybody is woken.
 *   - The lock is held while the thread works and never while it sleeps; nothing under it blocks.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transport/watch/inside.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EVENTS         64
#define ABSENT         (200 * GYRE_MS)
#define MESSAGES_A_RUN 64 /* read from one channel before the others have their turn */

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

/* -- out --------------------------------------------------------------------------------------- */

static void break_link(struct gyre_watch *watch, uint32_t index, int status)
{
    struct gyre_watch_link *link = &watch->link[index];
    const char *why = status == -EPIPE ? NULL : gyre_status_name(status);

    if (link->broken)
        return;
    link->broken = true;
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, link->channel.fd, NULL);
    gyre_detector_eof(watch->detector, gyre_now_ns(), index, why);
    gyre_watch_forget_peer(watch, index);
}

/* Has epoll tell about room exactly while something waits for it. */
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

/* Of a send. A peer that has closed its end may have said why: reading finds that, and the end. */
static void act_on(struct gyre_watch *watch, uint32_t index, int status)
{
    if (status == -EPIPE || status == -ECONNRESET)
        watch->link[index].deaf = true;
    else if (status != 0)
        break_link(watch, index, status);
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

/* A channel that keeps something is not asked for more: the failure detector's word will be newer
 * when there is room. */
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

static void ring(const struct gyre_bell *bell)
{
    uint64_t one = 1;

    if (bell->word != NULL) {
        atomic_fetch_add(bell->word, 1);
        syscall(SYS_futex, bell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    if (bell->eventfd >= 0 && write(bell->eventfd, &one, sizeof one) < 0)
        return; /* full: it is readable already */
}

static void publish_failure(struct gyre_watch *watch, const struct gyre_detector_record *record)
{
    struct gyre_health *health = watch->is.health;

    watch->told = true;
    health->failure.status = record->status;
    snprintf(health->failure.text, sizeof health->failure.text, "%s", record->text);
    health->failed_rank = record->rank;
    atomic_store_explicit(&health->status, record->status, memory_order_release);
    ring(&watch->is.bell);
    pthread_cond_broadcast(&watch->changed);
    gyre_log(GYRE_LOG_INFO, "failed: %s", record->text);
}

/* Acts on everything that the failure detector concluded. */
void gyre_watch_settle(struct gyre_watch *watch)
{
    const struct gyre_detector_record *record = gyre_detector_failure(watch->detector);
    const char *warning = gyre_detector_take_warning(watch->detector);

    if (record != NULL && !watch->told)
        publish_failure(watch, record);
    if (warning != NULL)
        gyre_log(GYRE_LOG_WARN, "%s", warning);
    for (uint32_t i = 0; i < watch->links; i++)
        gyre_watch_send_owed(watch, i);
    if (gyre_detector_all_left(watch->detector))
        pthread_cond_broadcast(&watch->changed);
}

/* -- in ---------------------------------------------------------------------------------------- */

static void hear_message(struct gyre_watch *watch, uint32_t index,
                         const struct gyre_watch_message *message, int passed)
{
    gyre_detector_receive(watch->detector, gyre_now_ns(), index, message);
    if (message->kind == GYRE_WATCH_BYE)
        gyre_watch_forget_peer(watch, index);
    if (message->epoch == watch->epoch)
        gyre_watch_hear_share(watch, index, message, passed);
    if (passed >= 0)
        close(passed);
}

/* Reads up to `most` messages; returns GYRE_AGAIN when the channel is empty, 0 when there may be
 * more. */
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
            break_link(watch, index, status);
        else
            hear_message(watch, index, &message, passed);
    }
    return 0;
}

static void handle_link(struct gyre_watch *watch, uint32_t index, uint32_t events)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_link(watch, index, MESSAGES_A_RUN);
    if ((events & EPOLLOUT) && !link->broken && !link->deaf)
        act_on(watch, index, gyre_watch_channel_flush(&link->channel));
}

static void handle_death(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    read_link(watch, index, INT_MAX);
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, link->pidfd, NULL);
    link->pidfd = -1;
    gyre_detector_ended(watch->detector, gyre_now_ns(), index);
    gyre_watch_forget_peer(watch, index);
    atomic_store_explicit(&link->ended, true, memory_order_release);
}

static void handle(struct gyre_watch *watch, const struct epoll_event *event)
{
    uint32_t index = (uint32_t)event->data.u64;
    uint64_t count;

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
    case GYRE_WATCH_FROM_NUDGE:
        if (read(watch->nudge, &count, sizeof count) < 0)
            return; /* somebody else's turn took it */
        break;
    }
}

/* -- the thread -------------------------------------------------------------------------------- */

static void read_calls(const struct gyre_activity *from, struct gyre_watch_state *to)
{
    uint32_t known = atomic_load_explicit(&from->known, memory_order_acquire);

    for (uint32_t i = 0; i < known && i < GYRE_ACTIVITY_CALLS; i++) {
        uint32_t place = (to->sequence - i) % GYRE_ACTIVITY_CALLS;
        uint64_t signature =
            atomic_load_explicit(&from->call[place].signature, memory_order_acquire);
        uint64_t count = atomic_load_explicit(&from->call[place].count, memory_order_acquire);
        if (i == 0) {
            to->signature = signature;
            to->count = count;
        } else {
            to->call[to->calls++] = (struct gyre_watch_call){signature, count};
        }
    }
}

static bool read_activity(const struct gyre_activity *from, struct gyre_watch_state *to)
{
    uint32_t before = atomic_load_explicit(&from->version, memory_order_acquire);

    to->comm = atomic_load_explicit(&from->comm, memory_order_acquire);
    to->sequence = atomic_load_explicit(&from->sequence, memory_order_acquire);
    to->finished = atomic_load_explicit(&from->finished, memory_order_acquire);
    to->fingerprint = atomic_load_explicit(&from->fingerprint, memory_order_acquire);
    read_calls(from, to);
    return (before & 1) == 0 &&
           before == atomic_load_explicit(&from->version, memory_order_relaxed);
}

static bool waits(const struct gyre_activity *activity)
{
    return atomic_load_explicit(&activity->sequence, memory_order_acquire) >
           atomic_load_explicit(&activity->finished, memory_order_relaxed);
}

/* What a thread waits in; where it does not wait, any communicator in which something is pending.
 */
static const struct gyre_activity *foremost(const struct gyre_activity *first)
{
    const struct gyre_activity *focus = atomic_load_explicit(&first->focus, memory_order_acquire);

    if (focus == NULL)
        focus = first;
    if (waits(focus))
        return focus;
    for (const struct gyre_activity *at = first; at != NULL; at = at->next)
        if (waits(at))
            return at;
    return focus;
}

/* How far the rank is elsewhere; those that wait first, as many as a state holds. */
static void read_others(const struct gyre_activity *first, const struct gyre_activity *told,
                        struct gyre_watch_state *to)
{
    for (int waiting = 1; waiting >= 0; waiting--)
        for (const struct gyre_activity *at = first; at != NULL; at = at->next) {
            if (at == told || waits(at) != waiting || to->elsewhere_count == GYRE_WATCH_ELSEWHERE)
                continue;
            to->elsewhere[to->elsewhere_count++] = (struct gyre_watch_elsewhere){
                .comm = atomic_load_explicit(&at->comm, memory_order_relaxed),
                .sequence = atomic_load_explicit(&at->sequence, memory_order_relaxed),
                .finished = atomic_load_explicit(&at->finished, memory_order_relaxed),
            };
        }
}

static uint64_t entered(const struct gyre_activity *activity)
{
    return atomic_load_explicit(&activity->sequence, memory_order_acquire);
}

/* A refusal tells something until the call that took its place is over, or is the last one. */
static bool tells_refusal(const struct gyre_activity *activity)
{
    uint64_t finished = atomic_load_explicit(&activity->finished, memory_order_relaxed);
    return activity->refused.at != 0 && (activity->refused.sequence > finished ||
                                         activity->refused.sequence >= entered(activity));
}

static void read_refused(const struct gyre_activity *first, struct gyre_watch_state *to)
{
    const struct gyre_activity *newest = NULL;

    for (const struct gyre_activity *at = first; at != NULL; at = at->next)
        if (tells_refusal(at) && (newest == NULL || at->refused.at > newest->refused.at))
            newest = at;
    if (newest == NULL)
        return;
    to->refused.stands = newest->refused.sequence > entered(newest);
    to->refused.comm = atomic_load_explicit(&newest->comm, memory_order_relaxed);
    to->refused.sequence = newest->refused.sequence;
    memcpy(to->refused.why, newest->refused.why, GYRE_WATCH_WHY_MAX);
}

/* A thread that waits looks every 50 ms. One that does not is kept from running, by others on its
 * core or by a page that comes slowly: its part may be on its way, so this counts as motion. */
static void count_absence(struct gyre_watch *watch, struct gyre_watch_state *fresh)
{
    uint64_t now = gyre_now_ns();
    uint64_t looks = atomic_load_explicit(&watch->is.activity->looks, memory_order_relaxed);

    bool here = looks != watch->looks || fresh->sequence <= fresh->finished;
    bool absent = !here && now - watch->looked_at >= ABSENT;

    watch->absences += absent;
    if (here || absent)
        watch->looked_at = now;
    watch->looks = looks;
    fresh->motion += watch->absences;
}

/* Looks at what the rank does, keeping the last look if the communicator is just writing, and lets
 * the failure detector act on it. */
void gyre_watch_turn(struct gyre_watch *watch)
{
    struct gyre_watch_state fresh = {.rank = watch->is.joined->rank};

    const struct gyre_activity *first = watch->is.activity,
                               *told = first != NULL ? foremost(first) : NULL;

    if (told != NULL && read_activity(told, &fresh)) {
        fresh.motion = atomic_load_explicit(&first->motion, memory_order_acquire);
        count_absence(watch, &fresh);
        if (first->next != NULL)
            read_others(first, told, &fresh);
        read_refused(first, &fresh);
        watch->mine = fresh;
    }
    watch->mine.parting = watch->parts_until != 0;
    gyre_detector_tick(watch->detector, gyre_now_ns(), &watch->mine);
    gyre_watch_settle(watch);
}

static int sleep_ms(struct gyre_watch *watch)
{
    uint64_t now = gyre_now_ns(), wake = gyre_detector_wake(watch->detector);

    if (wake <= now)
        return 0;
    return (int)((wake - now + GYRE_MS - 1) / GYRE_MS);
}

void *gyre_watch_run(void *argument)
{
    struct gyre_watch *watch = argument;
    struct epoll_event event[EVENTS];

    pthread_mutex_lock(&watch->lock);
    while (!watch->ending) {
        int timeout = sleep_ms(watch);
        pthread_mutex_unlock(&watch->lock);
        int count = epoll_wait(watch->poller, event, EVENTS, timeout);
        pthread_mutex_lock(&watch->lock);
        for (int i = 0; i < count; i++)
            handle(watch, &event[i]);
        gyre_watch_turn(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}
