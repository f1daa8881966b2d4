/* The watch: its start, its goodbye, and the calls of other threads.
 *
 * The failure detector (transport/watch/detect/failure_detector.h) decides, loop.c carries its
 * messages on the process's thread (thread.c), share.c and import.c pass regions around. One lock
 * covers all of these and is never held while anything blocks. report() therefore sends by itself:
 * a process that exits right after a report has told its peers.
 *
 * After a failure the watch is served until stop(), because threads that wait for a writer to end
 * need to hear of peers' deaths. After fork() the child has the memory but no thread: every call
 * there does nothing, and stop() only frees.
 *
 * Tested by tests/program/watch/watch.c. */
#include "base/clock.h"
#include "base/log.h"
#include "transport/watch/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define PATIENCE (10 * GYRE_SECOND) /* before ranks that have not joined are named */
/* For messages that sockets have not taken when the watch ends. */
#define LAST_WORDS (100 * GYRE_MS)
/* For links that broke to be made anew, where a failure or the end has to be told. */
#define LAST_CALL (300 * GYRE_MS)

/* -- start ------------------------------------------------------------------------------------- */

static int open_links(struct gyre_watch *watch, struct gyre_trouble *trouble)
{
    watch->links = gyre_detector_channels(watch->detector);
    watch->link = calloc(watch->links + 1, sizeof *watch->link);
    if (watch->link == NULL)
        return gyre_trouble_set(trouble, -ENOMEM, "watch: out of memory for %u links",
                                watch->links);
    for (uint32_t i = 0; i < watch->links; i++) {
        int status = gyre_watch_open_link(watch, i);
        if (status != 0)
            return gyre_trouble_set(
                trouble, status, "watch: cannot watch the channel to rank %u: %s",
                gyre_detector_peer(watch->detector, i), gyre_status_name(status));
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
        status = -pthread_mutex_init(&watch->unmapping, NULL);
    if (status == 0)
        status = -pthread_cond_init(&watch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    watch->locks = status == 0;
    return status;
}

/* Opens the launcher's pipe once more, as a file of this process's own: all ranks of a machine have
 * inherited one, and the kernel limits how many pollers within pollers may watch a file to 500. A
 * pipe that has ended before stays the inherited one, since the new file would not tell the end. */
static int open_launcher(int inherited)
{
    char path[64];
    struct pollfd ended = {.fd = inherited};

    if (inherited < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", inherited);
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && poll(&ended, 1, 0) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return fcntl(inherited, F_DUPFD_CLOEXEC, 0);
}

static int open_watch_poller(struct gyre_watch *watch)
{
    watch->poller = epoll_create1(EPOLL_CLOEXEC);
    if (watch->poller < 0)
        return -errno;
    return watch->launcher < 0
               ? 0
               : gyre_watch_listen(watch, watch->launcher, 0, GYRE_WATCH_FROM_LAUNCHER, 0);
}

static int build_watch(struct gyre_watch *watch)
{
    const struct gyre_watch_options *is = &watch->is;
    struct gyre_detector_options options = {
        .rank = is->joined->rank,
        .n = is->joined->n,
        .epoch = watch->epoch,
        .fan_out = is->joined->fan_out,
        .member = is->joined->member,
        .dead_ns = (uint64_t)is->dead_time_ms * GYRE_MS,
        .timeout_ns = (uint64_t)is->timeout_ms * GYRE_MS,
        .patience_ns = PATIENCE,
    };
    int status = create_lock(watch);

    if (status == 0)
        status = open_watch_poller(watch);
    if (status == 0)
        status = gyre_views_create(&watch->views);
    if (status == 0)
        status = gyre_detector_create(&options, gyre_now_ns(), &watch->detector);
    return status;
}

/* Frees a watch. Its poller goes first: in a forked child it is the parent's, from which no
 * descriptor may be taken. */
static void destroy(struct gyre_watch *watch)
{
    if (watch->poller >= 0)
        close(watch->poller);
    watch->poller = -1;
    if (watch->launcher >= 0)
        close(watch->launcher);
    for (uint32_t i = 0; watch->link != NULL && i < watch->links; i++) {
        gyre_watch_channel_deinit(&watch->link[i].channel);
        if (atomic_load(&watch->link[i].bell) > 0)
            close(atomic_load(&watch->link[i].bell) - 1);
    }
    gyre_watch_drop_dials(watch);
    gyre_watch_drop_renewals(watch);
    gyre_watch_drop_visitors(watch);
    gyre_watch_drop_exports(watch);
    gyre_watch_drop_errands(watch);
    gyre_views_destroy(watch->views);
    gyre_detector_destroy(watch->detector);
    if (watch->locks && watch->pid == getpid()) {
        pthread_cond_destroy(&watch->changed);
        pthread_mutex_destroy(&watch->lock);
        pthread_mutex_destroy(&watch->unmapping);
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
    fresh->poller = -1;
    fresh->pid = getpid();
    fresh->epoch = options->job->epoch;
    fresh->launcher = open_launcher(options->job->launcher_fd);
    int status = build_watch(fresh);
    if (status == 0)
        status = open_links(fresh, trouble);
    if (status == 0)
        status = gyre_watch_open_visitors(fresh);
    if (status == 0) {
        fresh->mine.rank = options->joined->rank;
        gyre_watch_turn(fresh); /* the first beat: from now on silence counts */
        status = gyre_watch_enlist(fresh);
        if (status != 0)
            gyre_trouble_set(trouble, status,
                             "watch: cannot start a thread: %s (see ulimit -u, ulimit -v)",
                             gyre_status_name(status));
    }
    if (status == 0) {
        *watch = fresh;
        return 0;
    }
    destroy(fresh);
    return gyre_trouble_set(trouble, status, "watch: cannot start: %s", gyre_status_name(status));
}

/* -- stop -------------------------------------------------------------------------------------- */

/* Waits longer than the dead time: a rank that was stopped on its way to its goodbye is told before
 * this rank leaves. */
static uint64_t leaving_deadline(struct gyre_watch *watch)
{
    uint64_t dead_ms = (uint64_t)watch->is.dead_time_ms;
    uint64_t wait_ms = dead_ms > 0 ? dead_ms + dead_ms / 2 : (uint64_t)watch->is.timeout_ms;
    if (watch->parts_until == 0) {
        watch->parts_until = gyre_now_ns() + wait_ms * GYRE_MS;
        watch->parts_clock = gyre_detector_in(watch->detector, wait_ms * GYRE_MS);
    }
    return watch->parts_until;
}

uint64_t gyre_watch_part(struct gyre_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    uint64_t until = leaving_deadline(watch);
    pthread_mutex_unlock(&watch->lock);
    return until;
}

/* Whether a link has broken and its peer, which may live, has not been told of the failure. */
static bool owes_failure(const struct gyre_watch *watch)
{
    bool owes = false;

    for (uint32_t i = 0; watch->told && watch->visitor != NULL && i < watch->links; i++) {
        const struct gyre_watch_link *link = &watch->link[i];
        owes |=
            !link->node && (link->broken ? gyre_detector_awaits(watch->detector, i) : link->deaf);
    }
    return owes;
}

/* Waits until all have left, by the detector's clock. That leaves out the time in which this
 * process did not run. By the clock of the machine the wait could be over before a silent rank is
 * told. */
static void await_goodbyes(struct gyre_watch *watch)
{
    uint64_t left;

    (void)leaving_deadline(watch); /* sets `parts_clock`, where nothing has */
    while (!watch->told && !gyre_detector_all_left(watch->detector) &&
           (left = gyre_detector_left(watch->detector, watch->parts_clock)) > 0)
        if (gyre_watch_sleep(watch, gyre_now_ns() + left) != 0)
            gyre_watch_turn(watch);
}

static void say_goodbye(struct gyre_watch *watch)
{
    gyre_watch_turn(watch); /* the state that goes with the goodbye */
    gyre_detector_leave(watch->detector, gyre_now_ns(), &watch->mine);
    gyre_watch_settle(watch);
    await_goodbyes(watch);
    bool all_left = gyre_detector_all_left(watch->detector);
    uint64_t until = gyre_now_ns() + LAST_CALL;
    for (int late = 0;
         late == 0 && (all_left ? !gyre_detector_may_end(watch->detector) : owes_failure(watch));)
        late = gyre_watch_sleep(watch, until);
}

/* Waits until the socket has taken all messages that wait for it; false: not in time. */
static bool drain_link(struct gyre_watch_link *link, uint64_t limit)
{
    struct pollfd room = {.fd = link->channel.fd, .events = POLLOUT};

    while (!link->broken && !link->deaf && gyre_watch_channel_waits(&link->channel)) {
        uint64_t now = gyre_now_ns();
        if (now >= limit)
            return false;
        poll(&room, 1, (int)((limit - now) / GYRE_MS) + 1);
        link->broken = gyre_watch_channel_flush(&link->channel) != 0;
    }
    return !link->broken && !link->deaf;
}

/* Nobody serves the watch any more; gives sockets that were full a moment to take the rest. */
static void flush_last_words(struct gyre_watch *watch)
{
    uint64_t limit = gyre_now_ns() + LAST_WORDS;

    for (uint32_t i = 0; i < watch->links; i++) {
        if (!drain_link(&watch->link[i], limit))
            continue;
        gyre_watch_send_owed(watch, i);
        drain_link(&watch->link[i], limit);
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
        gyre_watch_dismiss_runner(watch);
        gyre_watch_end_trial(watch);
        gyre_watch_dismiss(watch);
        flush_last_words(watch);
    }
    destroy(watch);
}

/* -- any thread -------------------------------------------------------------------------------- */

int gyre_watch_take_listener(struct gyre_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    int fd = watch->is.joined->listener;
    if (fd >= 0)
        epoll_ctl(watch->poller, EPOLL_CTL_DEL, fd, NULL);
    watch->is.joined->listener = -1;
    gyre_watch_drop_visitors(watch);
    pthread_mutex_unlock(&watch->lock);
    return fd;
}

void gyre_watch_report(struct gyre_watch *watch, int status, uint32_t rank, bool echo,
                       const char *text)
{
    struct gyre_detector_record record = {.status = status, .rank = rank};

    if (watch->pid != getpid())
        return;
    snprintf(record.text, sizeof record.text, "%s", text);
    pthread_mutex_lock(&watch->lock);
    gyre_detector_report(watch->detector, gyre_now_ns(), &record, echo);
    gyre_watch_settle(watch);
    pthread_mutex_unlock(&watch->lock);
    gyre_watch_nudge(watch);
}

void gyre_watch_attend(struct gyre_watch *watch, struct gyre_activity *activity)
{
    if (watch == NULL || watch->pid != getpid())
        return;
    pthread_mutex_lock(&watch->lock);
    activity->next = watch->is.activity->next;
    watch->is.activity->next = activity;
    pthread_mutex_unlock(&watch->lock);
}

void gyre_watch_ignore(struct gyre_watch *watch, struct gyre_activity *activity)
{
    struct gyre_activity *mine = activity;

    if (watch == NULL || watch->pid != getpid())
        return;
    pthread_mutex_lock(&watch->lock);
    for (struct gyre_activity *at = watch->is.activity; at->next != NULL; at = at->next)
        if (at->next == activity) {
            at->next = activity->next;
            break;
        }
    atomic_compare_exchange_strong(&watch->is.activity->focus, &mine, NULL);
    pthread_mutex_unlock(&watch->lock);
}

void gyre_watch_refuse(struct gyre_watch *watch, struct gyre_activity *activity, uint64_t sequence,
                       const char *why)
{
    if (watch == NULL || watch->pid != getpid())
        return;
    pthread_mutex_lock(&watch->lock);
    activity->refused.at = gyre_now_ns();
    activity->refused.sequence = sequence;
    if (why != NULL) {
        memset(activity->refused.why, 0, GYRE_WATCH_WHY_MAX);
        if (snprintf(activity->refused.why, GYRE_WATCH_WHY_MAX, "%s", why) >= GYRE_WATCH_WHY_MAX)
            memcpy(activity->refused.why + GYRE_WATCH_WHY_MAX - 4, "...", 4);
    }
    pthread_mutex_unlock(&watch->lock);
}

uint64_t gyre_watch_peer_ended_at(struct gyre_watch *watch, uint32_t peer)
{
    int index = gyre_detector_channel(watch->detector, peer);
    return index >= 0 ? watch->link[index].ended_at : 0;
}

bool gyre_watch_peer_ended(struct gyre_watch *watch, uint32_t peer)
{
    int index = gyre_detector_channel(watch->detector, peer);
    return index >= 0 && atomic_load_explicit(&watch->link[index].ended, memory_order_acquire);
}
