/* The helper: a thread that drives started operations while the application computes.
 *
 * The helper sleeps while there is no started work. With work it takes the domain whenever no
 * thread is inside a call, drives, and gives way as soon as a thread wants in. So a blocking call
 * never waits for another thread to do its work; it only takes the helper's place.
 *
 * Tested by tests/program/collectives/handles.c. */
#include "collectives/comm/helper.h"

#include "base/clock.h"
#include "base/machine/cpu.h"
#include "base/machine/thread.h"
#include "collectives/comm/progress.h"

#include <errno.h>
#include <time.h>

static void drive(struct gyre_progress_engine *progress)
{
    struct gyre_wait wait = {.deadline = UINT64_MAX};
    progress->helping = true;
    while (progress->busy_count && !gyre_domain_attended(progress->domain) &&
           !gyre_progress_turn(progress, &wait))
        continue;
    progress->helping = false;
}

/* Waits for work, or a little while for a thread to leave the domain. False: the helper shall
 * end. */
static bool await_work(struct gyre_helper *helper, bool busy)
{
    struct timespec until;
    pthread_mutex_lock(&helper->lock);
    atomic_store(&helper->asleep, true);
    if (busy && !helper->stop) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 200000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&helper->wake, &helper->lock, &until);
    }
    while (!helper->stop && atomic_load(&helper->work) == 0)
        pthread_cond_wait(&helper->wake, &helper->lock);
    atomic_store(&helper->asleep, false);
    bool go_on = !helper->stop;
    pthread_mutex_unlock(&helper->lock);
    return go_on;
}

static void *helper_main(void *argument)
{
    struct gyre_progress_engine *progress = argument;
    bool busy = false;
    pthread_setname_np(pthread_self(), "gyre-helper");
    while (await_work(&progress->helper, busy)) {
        busy = true;
        if (!gyre_domain_try_enter(progress->domain))
            continue;
        drive(progress);
        if (!progress->busy_count)
            atomic_store(&progress->helper.work, 0);
        gyre_domain_leave(progress->domain);
    }
    return NULL;
}

static int start_helper(struct gyre_progress_engine *progress)
{
    struct gyre_helper *helper = &progress->helper;
    pthread_condattr_t monotonic;
    pthread_mutex_init(&helper->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&helper->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int status = gyre_thread_start(&helper->thread, helper_main, progress);
    atomic_store(&helper->made, status == 0);
    return status;
}

/* Makes the thread, once, whoever asks first. */
static int make_helper(struct gyre_progress_engine *progress)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&making);
    int status = atomic_load(&progress->helper.made) ? 0 : start_helper(progress);
    pthread_mutex_unlock(&making);
    return status;
}

int gyre_helper_poke(struct gyre_progress_engine *progress)
{
    struct gyre_helper *helper = &progress->helper;
    int status = atomic_load(&helper->made) ? 0 : make_helper(progress);
    if (status)
        return status;
    atomic_store(&helper->work, 1);
    if (atomic_load(&helper->asleep)) {
        pthread_mutex_lock(&helper->lock);
        pthread_cond_signal(&helper->wake);
        pthread_mutex_unlock(&helper->lock);
    }
    return 0;
}

void gyre_helper_take_over(struct gyre_progress_engine *progress)
{
    bool more_to_do = gyre_progress_pending(progress);
    gyre_domain_leave(progress->domain);
    if (more_to_do)
        gyre_helper_poke(progress);
}

void gyre_helper_stop(struct gyre_progress_engine *progress)
{
    struct gyre_helper *helper = &progress->helper;
    if (!atomic_load(&helper->made))
        return;
    pthread_mutex_lock(&helper->lock);
    helper->stop = true;
    pthread_cond_signal(&helper->wake);
    pthread_mutex_unlock(&helper->lock);
    pthread_join(helper->thread, NULL);
    pthread_cond_destroy(&helper->wake);
    pthread_mutex_destroy(&helper->lock);
    atomic_store(&helper->made, false); /* stopped again by finalize, after gyre_shrink() */
}
