/* The helper: a thread that drives started operations while the application computes.
 *
 *      group's engine ── work ─┐
 *      another's ────── work ──┼─▶ the process's helper: a turn for each that nobody attends
 *      a third's ──────────────┘
 *
 * A process has one, however many groups it is in. Ranks of one process have one each, because
 * they would wait for each other's copies and sums, and have it from their beginning: one thread
 * that holds several ranks does not drive them all. The helper sleeps while there is no started
 * work. With work it takes the domain whenever no thread is inside a call, drives, and gives way as
 * soon as a thread wants in. So a blocking call never waits for another thread to do its work; it
 * only takes the helper's place.
 *
 * Where one group alone has work the helper sleeps in its domain, as a call does, and the group's
 * peers ring. Where others have worked before, it looks for their work every millisecond. Where
 * several have work it takes turns and sleeps in none: a group that waits for a slow peer, or has
 * failed, costs the others a look. After a round in which nothing moved it naps, longer each time.
 *
 * With operations in graphs it has work always: it sleeps beside their launches, and releases them
 * when the job fails.
 *
 * `helper_lock` covers the lists of engines and what is said of a thread. The helper drives without
 * it, and `at` says which engine, so that one that ends waits. A forked child has no helper, and
 * forgets its parent's.
 *
 * Also tested by tests/program/collectives/handles.c and tests/program/job/groups.c. */
#include "collectives/comm/helper.h"

#include "base/clock.h"
#include "base/machine/cpu.h"
#include "base/machine/thread.h"
#include "collectives/comm/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define TURNS      16             /* of one of several groups that have work */
#define LOOK       GYRE_MS        /* at other groups' work, while one works alone */
#define FIRST_NAP  (GYRE_MS / 20) /* where nothing moved */
#define MOST_NAP   GYRE_MS
#define ATTEND_NAP (GYRE_MS / 5) /* where threads in calls drive */

struct gyre_helper_thread {
    pthread_t thread;
    pthread_cond_t wake; /* there is work, or the end */
    pthread_cond_t left; /* `at` is another */
    struct gyre_progress_engine *first;
    struct gyre_progress_engine *at; /* that it drives; NULL: none */
    _Atomic bool asleep;
    _Atomic bool crowded; /* more than one engine has come */
    bool ending;
};

enum round { NOTHING_TO_DO, ATTENDED, STILL, MOVED }; /* a higher one counts */

static pthread_mutex_t helper_lock = PTHREAD_MUTEX_INITIALIZER;
static struct gyre_helper_thread *shared; /* by the groups of this process; NULL: none */

/* -- driving ----------------------------------------------------------------------------------- */

static bool has_more_turns(struct gyre_progress_engine *progress)
{
    return (progress->busy_count || gyre_progress_guards(progress)) &&
           !gyre_domain_attended(progress->domain) &&
           !atomic_load_explicit(&progress->helper.leaving, memory_order_relaxed);
}

/* Drives one of several that have work, and never sleeps. */
static void drive_in_turns(struct gyre_progress_engine *progress)
{
    struct gyre_wait wait = {.deadline = 0};
    uint64_t moves = progress->moves - 1;

    for (int i = 0; i < TURNS && moves != progress->moves && has_more_turns(progress); i++) {
        moves = progress->moves;
        if (gyre_progress_turn(progress, &wait))
            return;
    }
}

/* Drives the only one that has work: as long as no other engine is there, else for a moment. */
static void drive_alone(const struct gyre_helper_thread *self,
                        struct gyre_progress_engine *progress)
{
    struct gyre_wait wait = {.deadline = UINT64_MAX};
    const uint64_t until = gyre_now_ns() + LOOK;

    if (atomic_load(&self->crowded))
        wait.deadline = until;
    while (has_more_turns(progress) && (!atomic_load(&self->crowded) || gyre_now_ns() < until) &&
           !gyre_progress_turn(progress, &wait))
        continue;
}

static enum round drive(const struct gyre_helper_thread *self,
                        struct gyre_progress_engine *progress, bool alone)
{
    if (!gyre_domain_try_enter(progress->domain))
        return ATTENDED;
    const uint64_t moves = progress->moves;
    progress->helping = true;
    if (alone)
        drive_alone(self, progress);
    else
        drive_in_turns(progress);
    progress->helping = false;
    if (!progress->busy_count && !gyre_progress_guards(progress))
        atomic_store(&progress->helper.work, 0);
    bool attended = gyre_domain_attended(progress->domain), moved = moves != progress->moves;
    gyre_domain_leave(progress->domain);
    return attended ? ATTENDED : moved || alone ? MOVED : STILL;
}

/* -- the thread -------------------------------------------------------------------------------- */

/* An engine that leaves gets no more turns, whatever it still guards: its rank waits to find the
 * thread elsewhere, and would wait for good if the thread came back at once. */
static bool wants_turns(const struct gyre_progress_engine *progress)
{
    return atomic_load(&progress->helper.work) && !atomic_load(&progress->helper.leaving);
}

static uint32_t count_work(const struct gyre_helper_thread *self)
{
    uint32_t count = 0;
    for (const struct gyre_progress_engine *at = self->first; at; at = at->helper.next)
        count += wants_turns(at);
    return count;
}

/* Drives each engine that has work. The lock is held but while one is driven. */
static enum round drive_all_groups(struct gyre_helper_thread *self)
{
    const bool alone = count_work(self) == 1;
    enum round round = NOTHING_TO_DO;

    for (struct gyre_progress_engine *engine = self->first; engine; engine = engine->helper.next) {
        if (!wants_turns(engine))
            continue;
        self->at = engine;
        pthread_mutex_unlock(&helper_lock);
        enum round one = drive(self, engine, alone);
        round = one > round ? one : round;
        pthread_mutex_lock(&helper_lock);
        self->at = NULL;
        pthread_cond_broadcast(&self->left);
    }
    return round;
}

static void nap(struct gyre_helper_thread *self, uint64_t ns)
{
    const uint64_t until = gyre_now_ns() + ns;
    const struct timespec limit = {.tv_sec = (time_t)(until / GYRE_SECOND),
                                   .tv_nsec = (long)(until % GYRE_SECOND)};
    pthread_cond_timedwait(&self->wake, &helper_lock, &limit);
}

/* Waits for work, or a little while: for a thread to leave a domain, or for something to move. */
static void await_work(struct gyre_helper_thread *self, enum round last, uint64_t pause)
{
    atomic_store(&self->asleep, true);
    if (last == ATTENDED && !self->ending)
        nap(self, ATTEND_NAP);
    else if (last == STILL && !self->ending)
        nap(self, pause);
    while (!self->ending && count_work(self) == 0)
        pthread_cond_wait(&self->wake, &helper_lock);
    atomic_store(&self->asleep, false);
}

static void *helper_main(void *argument)
{
    struct gyre_helper_thread *self = argument;
    enum round last = NOTHING_TO_DO;
    uint64_t pause = FIRST_NAP;

    pthread_setname_np(pthread_self(), "gyre-helper");
    prctl(PR_SET_TIMERSLACK, 1UL); /* its naps beside a device are of microseconds */
    pthread_mutex_lock(&helper_lock);
    for (await_work(self, last, pause); !self->ending; await_work(self, last, pause)) {
        last = drive_all_groups(self);
        pause = last != STILL ? FIRST_NAP : 2 * pause < MOST_NAP ? 2 * pause : MOST_NAP;
    }
    pthread_mutex_unlock(&helper_lock);
    return NULL;
}

/* -- its start and its end --------------------------------------------------------------------- */

static void hold_helper(void)
{
    pthread_mutex_lock(&helper_lock);
}

static void release_helper(void)
{
    pthread_mutex_unlock(&helper_lock);
}

static void forget_helper(void)
{
    shared = NULL;
    pthread_mutex_unlock(&helper_lock);
}

static void let_helper_follow_forks(void)
{
    pthread_atfork(hold_helper, release_helper, forget_helper);
}

static void free_thread(struct gyre_helper_thread *self)
{
    pthread_cond_destroy(&self->wake);
    pthread_cond_destroy(&self->left);
    free(self);
}

void gyre_helper_prepare(struct gyre_progress_engine *progress)
{
    progress->helper.spare = calloc(1, sizeof *progress->helper.spare);
}

static int start_thread(struct gyre_progress_engine *progress, struct gyre_helper_thread **made)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct gyre_helper_thread *self = progress->helper.spare;
    pthread_condattr_t monotonic;

    if (!self)
        self = calloc(1, sizeof *self);
    if (!self)
        return -ENOMEM;
    progress->helper.spare = NULL;
    pthread_once(&once, let_helper_follow_forks);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&self->wake, &monotonic);
    pthread_cond_init(&self->left, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int status = gyre_thread_start(&self->thread, helper_main, self);
    if (status)
        free_thread(self);
    else
        *made = self;
    return status;
}

/* Gives an engine its thread, once, whoever asks first. */
static int come_to_helper(struct gyre_progress_engine *progress)
{
    const bool apart = progress->ranks != NULL;
    struct gyre_helper_thread *thread = apart ? NULL : shared;
    int status = thread ? 0 : start_thread(progress, &thread);

    if (status)
        return status;
    if (!apart)
        shared = thread;
    atomic_store(&progress->helper.leaving, false);
    progress->helper.next = thread->first;
    thread->first = progress;
    atomic_store(&thread->crowded, progress->helper.next != NULL);
    atomic_store(&progress->helper.thread, thread);
    return 0;
}

int gyre_helper_start(struct gyre_progress_engine *progress)
{
    pthread_mutex_lock(&helper_lock);
    int status = atomic_load(&progress->helper.thread) ? 0 : come_to_helper(progress);
    pthread_mutex_unlock(&helper_lock);
    return status;
}

int gyre_helper_poke(struct gyre_progress_engine *progress)
{
    struct gyre_helper *helper = &progress->helper;
    int status = atomic_load(&helper->thread) ? 0 : gyre_helper_start(progress);
    if (status)
        return status;
    struct gyre_helper_thread *thread = atomic_load(&helper->thread);
    atomic_store(&helper->work, 1);
    if (atomic_load(&thread->asleep)) {
        pthread_mutex_lock(&helper_lock);
        pthread_cond_signal(&thread->wake);
        pthread_mutex_unlock(&helper_lock);
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

/* Takes the engine from its thread, and the thread from sight if the engine was its last. */
static bool is_last(struct gyre_progress_engine *progress, struct gyre_helper_thread *thread)
{
    struct gyre_progress_engine **at = &thread->first;

    atomic_store(&progress->helper.leaving, true);
    while (thread->at == progress)
        pthread_cond_wait(&thread->left, &helper_lock);
    while (*at != progress)
        at = &(*at)->helper.next;
    *at = progress->helper.next;
    atomic_store(&thread->crowded, thread->first && thread->first->helper.next);
    atomic_store(&progress->helper.thread, NULL);
    atomic_store(&progress->helper.work, 0);
    thread->ending = thread->first == NULL;
    if (thread->ending && thread == shared)
        shared = NULL;
    pthread_cond_signal(&thread->wake);
    return thread->ending;
}

void gyre_helper_stop(struct gyre_progress_engine *progress)
{
    struct gyre_helper_thread *thread = atomic_load(&progress->helper.thread);
    free(progress->helper.spare);
    progress->helper.spare = NULL;
    if (!thread)
        return;
    pthread_mutex_lock(&helper_lock);
    bool ended = is_last(progress, thread);
    pthread_mutex_unlock(&helper_lock);
    if (!ended)
        return;
    pthread_join(thread->thread, NULL);
    free_thread(thread);
}
