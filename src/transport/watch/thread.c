/* The process's thread for its watches: one, however many groups of ranks the process is in.
 *
 *      watch of one group ── its poller ─┐
 *      watch of another ──── its poller ─┼─▶ the thread's poller ─▶ serve() each watch that has
 *      nudge ────────────────────────────┘   until one is due        events, is due or was nudged
 *
 * The first watch starts the thread, and the last one ends it. A watch's poller is one descriptor
 * in the thread's, so a watch leaves by one call, whatever it still has open.
 *
 * `watch_lock` covers the list and everything in it that is not a watch's own. The thread holds it
 * while it serves, and takes the watches' locks one after the other. Nothing under them blocks, but
 * for the unmapping of CUDA memory, which a driver may delay. So no group holds up another, and a
 * watch that has been dismissed is not touched any more.
 *
 * A forked child has no thread, and forgets its parent's: a group that it joins by itself starts
 * another. The lock is held while a process forks, so the child finds the list whole.
 *
 * Tested by tests/program/job/groups.c and tests/program/failures/fork.c. */
#include "transport/watch/inside.h"

#include "base/machine/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS 64

struct gyre_watch_thread {
    pthread_t thread;
    int poller, nudge; /* an epoll of the watches' pollers; an eventfd that wakes the thread */
    bool ending;
    struct gyre_watch *first;
};

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gyre_watch_thread *current; /* NULL: this process has no watch */

/* -- the thread -------------------------------------------------------------------------------- */

/* Notes what the poller tells of. A watch that was dismissed meanwhile is in no list. */
static void note_event(struct gyre_watch_thread *self, const struct epoll_event *event)
{
    uint64_t count;

    if (event->data.ptr == NULL) {
        (void)!read(self->nudge, &count, sizeof count); /* the watches' own marks tell the rest */
        return;
    }
    for (struct gyre_watch *watch = self->first; watch != NULL; watch = watch->next)
        watch->ready |= watch == event->data.ptr;
}

static void serve_all(struct gyre_watch_thread *self)
{
    const uint64_t now = gyre_now_ns();

    for (struct gyre_watch *watch = self->first; watch != NULL; watch = watch->next) {
        bool ready = watch->ready, nudged = atomic_exchange(&watch->nudged, false);
        watch->ready = false;
        if (ready || nudged || now >= watch->wake_at)
            watch->wake_at = gyre_watch_serve(watch, ready);
    }
}

static int sleep_ms(const struct gyre_watch_thread *self)
{
    const uint64_t now = gyre_now_ns();
    uint64_t wake = UINT64_MAX;

    for (const struct gyre_watch *watch = self->first; watch != NULL; watch = watch->next)
        wake = watch->wake_at < wake ? watch->wake_at : wake;
    if (wake <= now)
        return 0;
    return wake == UINT64_MAX ? -1 : (int)((wake - now + GYRE_MS - 1) / GYRE_MS);
}

static void *run(void *argument)
{
    struct gyre_watch_thread *self = argument;
    struct epoll_event event[EVENTS];

    /* By the thread itself: another's name is written into /proc, whose entries for this process
     * the kernel would have to take down at its end. */
    pthread_setname_np(pthread_self(), "gyre-watch");
    pthread_mutex_lock(&watch_lock);
    while (!self->ending) {
        int timeout = sleep_ms(self);
        pthread_mutex_unlock(&watch_lock);
        int count = epoll_wait(self->poller, event, EVENTS, timeout);
        pthread_mutex_lock(&watch_lock);
        for (int i = 0; i < count; i++)
            note_event(self, &event[i]);
        serve_all(self);
    }
    pthread_mutex_unlock(&watch_lock);
    return NULL;
}

/* -- its start and its end --------------------------------------------------------------------- */

static void close_thread(struct gyre_watch_thread *self)
{
    if (self->poller >= 0)
        close(self->poller);
    if (self->nudge >= 0)
        close(self->nudge);
    free(self);
}

static void hold_for_fork(void)
{
    pthread_mutex_lock(&watch_lock);
}

static void resume_after_fork(void)
{
    pthread_mutex_unlock(&watch_lock);
}

static void forget_in_child(void)
{
    if (current != NULL)
        close_thread(current);
    current = NULL;
    pthread_mutex_unlock(&watch_lock);
}

static void follow_forks(void)
{
    pthread_atfork(hold_for_fork, resume_after_fork, forget_in_child);
}

static int open_thread(struct gyre_watch_thread *self)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    self->poller = epoll_create1(EPOLL_CLOEXEC);
    self->nudge = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->poller < 0 || self->nudge < 0 ||
        epoll_ctl(self->poller, EPOLL_CTL_ADD, self->nudge, &event) != 0)
        return -errno;
    return gyre_thread_start(&self->thread, run, self);
}

/* Makes the process's thread, where there is none. */
static int find_thread(void)
{
    struct gyre_watch_thread *self = current == NULL ? calloc(1, sizeof *self) : NULL;

    if (current != NULL)
        return 0;
    if (self == NULL)
        return -ENOMEM;
    int status = open_thread(self);
    if (status == 0)
        current = self;
    else
        close_thread(self);
    return status;
}

/* Ends a thread that no watch will find any more. */
static void end_thread(struct gyre_watch_thread *self)
{
    const uint64_t one = 1;

    (void)!write(self->nudge, &one, sizeof one);
    pthread_join(self->thread, NULL);
    close_thread(self);
}

/* -- watches ----------------------------------------------------------------------------------- */

/* Adds a watch to the process's thread, which it starts if need be. */
static int add_watch(struct gyre_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    int status = find_thread();

    if (status == 0 && epoll_ctl(current->poller, EPOLL_CTL_ADD, watch->poller, &event) != 0)
        status = -errno;
    if (status != 0)
        return status;
    watch->thread = current;
    watch->nudge = current->nudge;
    watch->next = current->first;
    current->first = watch;
    return 0;
}

/* Takes a thread that has no watch out of sight; NULL: it has one, or there is none. */
static struct gyre_watch_thread *retire_idle(void)
{
    struct gyre_watch_thread *idle = current != NULL && current->first == NULL ? current : NULL;

    if (idle != NULL) {
        idle->ending = true;
        current = NULL;
    }
    return idle;
}

int gyre_watch_enlist(struct gyre_watch *watch)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, follow_forks);
    pthread_mutex_lock(&watch_lock);
    int status = add_watch(watch);
    struct gyre_watch_thread *idle = retire_idle(); /* where it was made in vain */
    pthread_mutex_unlock(&watch_lock);
    if (idle != NULL)
        end_thread(idle);
    if (status == 0)
        gyre_watch_nudge(watch);
    return status;
}

void gyre_watch_dismiss(struct gyre_watch *watch)
{
    pthread_mutex_lock(&watch_lock);
    struct gyre_watch **at = &watch->thread->first;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    epoll_ctl(watch->thread->poller, EPOLL_CTL_DEL, watch->poller, NULL);
    struct gyre_watch_thread *idle = retire_idle();
    pthread_mutex_unlock(&watch_lock);
    if (idle != NULL)
        end_thread(idle);
}
