/* The watch's body: one thread that carries messages between sockets and the vigil.
 *
 *      pidfds, sockets, launcher's pipe, nudge
 *                   │ epoll, until the vigil wants to wake
 *                   ▼
 *      events ─▶ vigil ─▶ tick ─▶ settle: publish the failure, log warnings, send what is owed
 *
 * Invariants
 *   - A peer's last words count before its death: its channel is read to the end before its pidfd
 * is believed.
 *   - health->failure is complete before health->status is set, and both before anybody is woken.
 *   - The lock is held while the thread works and never while it sleeps; nothing under it blocks.
 * report() and share() therefore do their own sending, and a process that exits right after
 * report() has told its peers.
 *   - After a failure the thread goes on until stop(): peers' deaths still matter to whoever waits
 * for a writer to end. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/watch_inside.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES    (64 * 1024)
#define EVENTS         64
#define MESSAGES_A_RUN 64 /* read from one channel before the others have their turn */
#define PATIENCE       (10 * GYRE_SECOND) /* before ranks that have not joined are named */
#define LAST_WORDS     (100 * GYRE_MS)    /* for what sockets have not taken when the thread ends */

enum source { FROM_LINK, FROM_PIDFD, FROM_LAUNCHER, FROM_NUDGE };

static uint64_t tag(enum source source, uint32_t index)
{
    return (uint64_t)source << 32 | index;
}

void gyre_watch_deadline(uint64_t at_ns, struct timespec *out)
{
    out->tv_sec = (time_t)(at_ns / GYRE_SECOND);
    out->tv_nsec = (long)(at_ns % GYRE_SECOND);
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
    gyre_vigil_eof(watch->vigil, gyre_now_ns(), index, why);
    gyre_watch_forget_peer(watch, index);
}

/* Has epoll tell about room exactly while something waits for it. */
static void arm(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    bool waits = gyre_watch_channel_waits(&link->channel);
    struct epoll_event event = {.events = EPOLLIN | (waits ? EPOLLOUT : 0),
                                .data.u64 = tag(FROM_LINK, index)};

    if (waits == link->wants_room || link->broken)
        return;
    link->wants_room = waits;
    epoll_ctl(watch->poller, EPOLL_CTL_MOD, link->channel.fd, &event);
}

static void send_bytes(struct gyre_watch *watch, uint32_t index, const uint8_t *bytes,
                       size_t length, int pass)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (link->broken)
        return;
    int status = gyre_watch_channel_send(&link->channel, bytes, length, pass);
    if (status != 0)
        break_link(watch, index, status);
    else
        arm(watch, index);
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

/* A channel that keeps something is not asked for more: the vigil's word will be newer when there
 * is room. */
static void send_owed(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];

    while (!link->broken && !gyre_watch_channel_waits(&link->channel)) {
        size_t length = gyre_vigil_next_message(watch->vigil, index, bytes);
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

static void publish(struct gyre_watch *watch, const struct gyre_vigil_record *record)
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

/* Acts on everything that the vigil concluded. */
static void settle(struct gyre_watch *watch)
{
    const struct gyre_vigil_record *record = gyre_vigil_failure(watch->vigil);
    const char *warning = gyre_vigil_take_warning(watch->vigil);

    if (record != NULL && !watch->told)
        publish(watch, record);
    if (warning != NULL)
        gyre_log(GYRE_LOG_WARN, "%s", warning);
    for (uint32_t i = 0; i < watch->links; i++)
        send_owed(watch, i);
    if (gyre_vigil_all_left(watch->vigil))
        pthread_cond_broadcast(&watch->changed);
}

/* -- in ---------------------------------------------------------------------------------------- */

static void hear(struct gyre_watch *watch, uint32_t index, const struct gyre_watch_message *message,
                 int passed)
{
    gyre_vigil_receive(watch->vigil, gyre_now_ns(), index, message);
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
            hear(watch, index, &message, passed);
    }
    return 0;
}

static void handle_link(struct gyre_watch *watch, uint32_t index, uint32_t events)
{
    struct gyre_watch_link *link = &watch->link[index];

    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_link(watch, index, MESSAGES_A_RUN);
    if (!(events & EPOLLOUT) || link->broken)
        return;
    int status = gyre_watch_channel_flush(&link->channel);
    if (status != 0)
        break_link(watch, index, status);
    else
        arm(watch, index);
}

static void handle_death(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];

    read_link(watch, index, INT_MAX);
    epoll_ctl(watch->poller, EPOLL_CTL_DEL, link->pidfd, NULL);
    link->pidfd = -1;
    gyre_vigil_ended(watch->vigil, gyre_now_ns(), index);
    gyre_watch_forget_peer(watch, index);
    atomic_store_explicit(&link->ended, true, memory_order_release);
}

static void handle(struct gyre_watch *watch, const struct epoll_event *event)
{
    uint32_t index = (uint32_t)event->data.u64;
    uint64_t count;

    switch ((enum source)(event->data.u64 >> 32)) {
    case FROM_LINK:
        handle_link(watch, index, event->events);
        break;
    case FROM_PIDFD:
        handle_death(watch, index);
        break;
    case FROM_LAUNCHER:
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, watch->launcher, NULL);
        gyre_vigil_launcher_gone(watch->vigil, gyre_now_ns());
        break;
    case FROM_NUDGE:
        if (read(watch->nudge, &count, sizeof count) < 0)
            return; /* somebody else's turn took it */
        break;
    }
}

/* -- the thread -------------------------------------------------------------------------------- */

static bool read_activity(const struct gyre_activity *from, struct gyre_watch_state *to)
{
    uint32_t before = atomic_load_explicit(&from->version, memory_order_acquire);

    to->comm = atomic_load_explicit(&from->comm, memory_order_relaxed);
    to->sequence = atomic_load_explicit(&from->sequence, memory_order_relaxed);
    to->finished = atomic_load_explicit(&from->finished, memory_order_relaxed);
    to->fingerprint = atomic_load_explicit(&from->fingerprint, memory_order_relaxed);
    to->signature = atomic_load_explicit(&from->signature, memory_order_relaxed);
    to->count = atomic_load_explicit(&from->count, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return (before & 1) == 0 &&
           before == atomic_load_explicit(&from->version, memory_order_relaxed);
}

/* Looks at what the rank does; keeps the last look if the communicator is just writing. */
static void sample(struct gyre_watch *watch, struct gyre_watch_state *mine)
{
    struct gyre_watch_state fresh = {.rank = watch->is.joined->rank};

    if (watch->is.activity != NULL && read_activity(watch->is.activity, &fresh))
        *mine = fresh;
}

static int sleep_ms(struct gyre_watch *watch)
{
    uint64_t now = gyre_now_ns(), wake = gyre_vigil_wake(watch->vigil);

    if (wake <= now)
        return 0;
    return (int)((wake - now + GYRE_MS - 1) / GYRE_MS);
}

static void *run(void *argument)
{
    struct gyre_watch *watch = argument;
    struct gyre_watch_state mine = {.rank = watch->is.joined->rank};
    struct epoll_event event[EVENTS];

    pthread_mutex_lock(&watch->lock);
    while (!watch->ending) {
        int timeout = sleep_ms(watch);
        pthread_mutex_unlock(&watch->lock);
        int count = epoll_wait(watch->poller, event, EVENTS, timeout);
        pthread_mutex_lock(&watch->lock);
        for (int i = 0; i < count; i++)
            handle(watch, &event[i]);
        sample(watch, &mine);
        gyre_vigil_tick(watch->vigil, gyre_now_ns(), &mine);
        settle(watch);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static int start_thread(struct gyre_watch *watch)
{
    pthread_attr_t attributes;
    sigset_t all, before;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = -pthread_create(&watch->thread, &attributes, run, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (status != 0)
        return status;
    pthread_setname_np(watch->thread, "gyre-watch");
    return 0;
}

static void nudge(struct gyre_watch *watch)
{
    uint64_t one = 1;

    if (write(watch->nudge, &one, sizeof one) < 0)
        return; /* full: it is readable already */
}

/* -- start ------------------------------------------------------------------------------------- */

static int listen_to(struct gyre_watch *watch, int fd, uint32_t events, uint64_t label)
{
    struct epoll_event event = {.events = events, .data.u64 = label};
    return epoll_ctl(watch->poller, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int open_link(struct gyre_watch *watch, uint32_t index)
{
    struct gyre_watch_link *link = &watch->link[index];
    const struct gyre_joined *joined = watch->is.joined;
    uint32_t rank = gyre_vigil_peer(watch->vigil, index);
    const struct gyre_peer *peer = &joined->peer[rank];

    link->node =
        joined->member[rank].node == joined->member[joined->rank].node && peer->unix_fd >= 0;
    link->pidfd = link->node ? peer->pidfd : -1;
    int status =
        gyre_watch_channel_init(&link->channel, link->node ? peer->unix_fd : peer->control);
    if (status == 0)
        status = listen_to(watch, link->channel.fd, EPOLLIN, tag(FROM_LINK, index));
    if (status == 0 && link->pidfd >= 0)
        status = listen_to(watch, link->pidfd, EPOLLIN, tag(FROM_PIDFD, index));
    return status;
}

static int open_links(struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    watch->links = gyre_vigil_channels(watch->vigil);
    watch->link = calloc(watch->links + 1, sizeof *watch->link);
    if (watch->link == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "watch: out of memory for %u links",
                                watch->links);
    for (uint32_t i = 0; i < watch->links; i++) {
        int status = open_link(watch, i);
        if (status != 0)
            return gyre_trouble_set(trouble, status,
                                    "watch: cannot watch the channel to rank %u: %s",
                                    gyre_vigil_peer(watch->vigil, i), gyre_status_name(status));
    }
    return 0;
}

static int create_lock(struct gyre_watch *watch)
{
    pthread_condattr_t attributes;
    int status;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    status = -pthread_mutex_init(&watch->lock, NULL);
    if (status == 0)
        status = -pthread_cond_init(&watch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    watch->locks = status == 0;
    return status;
}

static int open_descriptors(struct gyre_watch *watch)
{
    int status;

    watch->poller = epoll_create1(EPOLL_CLOEXEC);
    watch->nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (watch->poller < 0 || watch->nudge < 0)
        return -errno;
    status = listen_to(watch, watch->nudge, EPOLLIN, tag(FROM_NUDGE, 0));
    if (status == 0 && watch->launcher >= 0)
        status = listen_to(watch, watch->launcher, 0, tag(FROM_LAUNCHER, 0)); /* 0: its end alone */
    return status;
}

static int build(struct gyre_watch *watch)
{
    const struct gyre_watch_options *is = &watch->is;
    struct gyre_vigil_options options = {
        .rank = is->joined->rank,
        .n = is->joined->n,
        .epoch = watch->epoch,
        .member = is->joined->member,
        .dead_ns = (uint64_t)is->dead_time_ms * GYRE_MS,
        .timeout_ns = (uint64_t)is->timeout_ms * GYRE_MS,
        .patience_ns = PATIENCE,
    };
    int status = create_lock(watch);

    if (status == 0)
        status = open_descriptors(watch);
    if (status == 0)
        status = gyre_views_create(&watch->views);
    if (status == 0)
        status = gyre_vigil_create(&options, gyre_now_ns(), &watch->vigil);
    return status;
}

static void destroy(struct gyre_watch *watch)
{
    for (uint32_t i = 0; watch->link != NULL && i < watch->links; i++)
        gyre_watch_channel_deinit(&watch->link[i].channel);
    gyre_watch_drop_exports(watch);
    gyre_views_destroy(watch->views);
    gyre_vigil_destroy(watch->vigil);
    if (watch->poller >= 0)
        close(watch->poller);
    if (watch->nudge >= 0)
        close(watch->nudge);
    if (watch->locks && watch->pid == getpid()) {
        pthread_cond_destroy(&watch->changed);
        pthread_mutex_destroy(&watch->lock);
    }
    free(watch->link);
    free(watch);
}

int gyre_watch_start(const struct gyre_watch_options *options, struct gyre_watch **watch,
                     struct gyre_trouble *trouble)
{
    struct gyre_watch *fresh = calloc(1, sizeof *fresh);

    if (fresh == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "watch: out of memory");
    fresh->is = *options;
    fresh->poller = fresh->nudge = -1;
    fresh->pid = getpid();
    fresh->epoch = options->job->epoch;
    fresh->launcher = options->job->launcher_fd;
    int status = build(fresh);
    if (status == 0)
        status = open_links(fresh, trouble);
    if (status == 0)
        status = start_thread(fresh);
    if (status == 0) {
        *watch = fresh;
        return 0;
    }
    destroy(fresh);
    return gyre_trouble_set(trouble, status, "watch: cannot start: %s", gyre_status_name(status));
}

/* -- stop -------------------------------------------------------------------------------------- */

static uint64_t goodbye_limit(const struct gyre_watch *watch)
{
    int wait_ms = watch->is.dead_time_ms > 0 ? watch->is.dead_time_ms : watch->is.timeout_ms;
    return gyre_now_ns() + (uint64_t)wait_ms * GYRE_MS;
}

static void say_goodbye(struct gyre_watch *watch)
{
    struct timespec limit;
    int late = 0;

    gyre_watch_deadline(goodbye_limit(watch), &limit);
    gyre_vigil_leave(watch->vigil, gyre_now_ns());
    settle(watch);
    while (!watch->told && !gyre_vigil_all_left(watch->vigil) && late == 0)
        late = pthread_cond_timedwait(&watch->changed, &watch->lock, &limit);
    watch->ending = true;
}

/* Waits until the socket has taken all that is kept for it; false if it does not in time. */
static bool drain(struct gyre_watch_link *link, uint64_t limit)
{
    struct pollfd room = {.fd = link->channel.fd, .events = POLLOUT};

    while (!link->broken && gyre_watch_channel_waits(&link->channel)) {
        uint64_t now = gyre_now_ns();
        if (now >= limit)
            return false;
        poll(&room, 1, (int)((limit - now) / GYRE_MS) + 1);
        link->broken = gyre_watch_channel_flush(&link->channel) != 0;
    }
    return !link->broken;
}

/* The thread is gone; gives sockets that were full a moment to take the rest. */
static void flush_last_words(struct gyre_watch *watch)
{
    uint64_t limit = gyre_now_ns() + LAST_WORDS;

    for (uint32_t i = 0; i < watch->links; i++) {
        if (!drain(&watch->link[i], limit))
            continue;
        send_owed(watch, i);
        drain(&watch->link[i], limit);
    }
}

void gyre_watch_stop(struct gyre_watch *watch)
{
    if (watch == NULL)
        return;
    if (watch->pid == getpid()) {
        pthread_mutex_lock(&watch->lock);
        say_goodbye(watch);
        pthread_mutex_unlock(&watch->lock);
        nudge(watch);
        pthread_join(watch->thread, NULL);
        flush_last_words(watch);
    }
    destroy(watch);
}

/* -- any thread -------------------------------------------------------------------------------- */

void gyre_watch_report(struct gyre_watch *watch, int status, uint32_t rank, bool echo,
                       const char *text)
{
    struct gyre_vigil_record record = {.status = status, .rank = rank};

    if (watch->pid != getpid())
        return;
    snprintf(record.text, sizeof record.text, "%s", text);
    pthread_mutex_lock(&watch->lock);
    gyre_vigil_report(watch->vigil, gyre_now_ns(), &record, echo);
    settle(watch);
    pthread_mutex_unlock(&watch->lock);
    nudge(watch);
}

bool gyre_watch_peer_ended(struct gyre_watch *watch, uint32_t peer)
{
    int index = gyre_vigil_channel(watch->vigil, peer);
    return index >= 0 && atomic_load_explicit(&watch->link[index].ended, memory_order_acquire);
}
