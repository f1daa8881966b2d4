/* Progress of all communicators of a process.
 *
 *      thread in a call ─┐                 ┌─▶ busy[0] engine ──post──┐
 *                        ├─ owns ─▶ poll ──┼─▶ busy[1] engine ──post──┼─▶ links
 *      helper thread ────┘           ▲     └─▶ …                      │
 *                                    └──── completions, by token ◀────┘
 *
 * Only communicators with something in flight are looked at, so a thousand idle ones cost a
 * blocking call nothing. One failure ends all of them: it is the job's, and the job's story is
 * told.
 *
 * Tested by tests/sim/comm.c. */
#include "collectives/comm/progress.h"

#include "base/clock.h"
#include "collectives/mapped/device/words.h"
#include "collectives/messages/point_to_point.h"
#include "collectives/messages/token.h"
#include "collectives/staging/pinned.h"
#include "collectives/staging/stream_wait.h"

#include <errno.h>

#define COMPLETIONS 64
/* ns: no doorbell rings when a device has finished. Naps grow from the first to the second while
 * nothing moves. */
#define NAP_LEAST UINT64_C(4000)
#define NAP_MOST  UINT64_C(50000)
/* The links are polled once in so many turns without anything to wait for. */
#define LINKS_EVERY 16

void gyre_progress_init(struct gyre_progress_engine *progress, struct gyre_domain *domain)
{
    progress->domain = domain;
    progress->links = gyre_domain_links(domain);
    progress->nap_ns = NAP_LEAST;
    gyre_fold_queue_init(&progress->fold_queue, gyre_domain_cuda(domain));
}

void gyre_progress_open_device(struct gyre_progress_engine *progress)
{
    struct gyre_fold_queue *fold_queue = &progress->fold_queue;
    struct gyre_trouble trouble = {0};
    if (!fold_queue->device)
        return;
    gyre_domain_enter(progress->domain);
    if (!gyre_fold_queue_open(fold_queue, &trouble)) {
        gyre_pinned_open(fold_queue);
        if (progress->comm[0]->mesh)
            gyre_words_lock(progress->comm[0]->mesh);
    }
    gyre_domain_leave(progress->domain);
}

/* -- who is in --------------------------------------------------------------------------------- */

void gyre_progress_add(struct gyre_progress_engine *progress, struct gyre_comm *comm)
{
    progress->comm[comm->id] = comm;
    progress->activities++;
    if (comm->id)
        gyre_watch_attend(gyre_domain_watch(progress->domain), comm->activity);
}

void gyre_progress_remove(struct gyre_progress_engine *progress, struct gyre_comm *comm)
{
    if (progress->comm[comm->id] != comm)
        return;
    progress->comm[comm->id] = NULL;
    if (comm->id) {
        gyre_watch_ignore(gyre_domain_watch(progress->domain), comm->activity);
        gyre_recorder_drop_comm(comm->activity->recorder, comm->name);
    }
}

void gyre_progress_drive(struct gyre_comm *comm)
{
    struct gyre_progress_engine *progress = comm->progress;
    if (comm->busy)
        return;
    comm->busy = 1;
    progress->busy[progress->busy_count++] = comm;
}

int gyre_progress_add_messages(struct gyre_comm *comm, struct gyre_trouble *trouble)
{
    struct gyre_progress_engine *progress = comm->progress;
    struct gyre_message_route route = {.rank = comm->rank,
                                       .n = comm->n,
                                       .comm = comm->id,
                                       .world = comm->world,
                                       .domain = comm->domain,
                                       .links = progress->links,
                                       .engine = comm->engine,
                                       .fold_queue = &progress->fold_queue};
    if (comm->p2p)
        return 0;
    if (gyre_p2p_create(&route, &comm->p2p))
        return gyre_trouble_set(trouble, -ENOMEM, "no memory for another message");
    progress->activities++;
    return 0;
}

static bool comm_idle(const struct gyre_comm *comm)
{
    return gyre_engine_idle(comm->engine) && gyre_p2p_idle(comm->p2p);
}

/* -- one turn ---------------------------------------------------------------------------------- */

/* An all_to_all_v ends with its last block. */
static void complete_message(struct gyre_comm *comm, const struct gyre_completion *done)
{
    gyre_p2p_complete(comm->p2p, done);
    gyre_progress_note_finished(comm); /* outside of a turn of the communicator */
}

static bool take_completions(struct gyre_progress_engine *progress)
{
    struct gyre_completion done[COMPLETIONS];
    int count = gyre_links_poll(progress->links, gyre_now_ns(), done, COMPLETIONS);
    for (int i = 0; i < count; i++) {
        struct gyre_comm *comm =
            progress->comm[gyre_token_comm(done[i].token) & (GYRE_COMM_IDS - 1)];
        if (!comm) /* its last message was withdrawn when the communicator ended */
            continue;
        if (gyre_token_is_message(done[i].token))
            complete_message(comm, &done[i]);
        else
            gyre_engine_complete(comm->engine, &done[i]);
    }
    return count > 0;
}

/* Runs the busy communicators; idle ones leave the list. */
static bool run_busy(struct gyre_progress_engine *progress)
{
    bool moved = false;
    for (uint32_t i = 0; i < progress->busy_count;) {
        struct gyre_comm *comm = progress->busy[i];
        uint32_t before = comm->engine->orders;
        bool mine = gyre_p2p_run(comm->p2p);
        if (gyre_engine_run(comm->engine) || mine) {
            gyre_progress_note_finished(comm);
            moved = true;
        }
        if (comm->engine->orders != before)
            gyre_domain_tell_standing(progress->domain);
        comm->busy = !comm_idle(comm);
        if (comm->busy) {
            i++;
            continue;
        }
        progress->busy[i] = progress->busy[--progress->busy_count];
    }
    return moved;
}

bool gyre_progress_pending(const struct gyre_progress_engine *progress)
{
    for (uint32_t i = 0; i < progress->busy_count; i++)
        if (!comm_idle(progress->busy[i]))
            return true;
    return gyre_progress_guards(progress);
}

/* Whether this turn polls the links. Work that ends by itself, as short messages that left at once,
 * asks nothing of the links. */
static bool asks_links(struct gyre_progress_engine *progress, bool moved)
{
    return progress->busy_count || !moved || ++progress->unasked % LINKS_EVERY == 0;
}

bool gyre_progress_poll(struct gyre_progress_engine *progress)
{
    bool moved = (gyre_fold_queue_busy(&progress->fold_queue) || gyre_stream_wait_any()) &&
                 gyre_fold_queue_poll(&progress->fold_queue);
    moved |= run_busy(progress);
    if (asks_links(progress, moved) && take_completions(progress)) {
        gyre_domain_tell_standing(progress->domain);
        moved = true;
    }
    uint64_t carried =
        /* Parts of messages moved: a peer may wait for the rest. */
        gyre_links_moved(progress->links);
    moved |= carried != progress->carried;
    progress->carried = carried;
    progress->moves += moved;
    if (moved)
        progress->nap_ns = NAP_LEAST;
    gyre_activity_move(gyre_domain_activity(progress->domain), progress->moves + carried);
    return moved;
}

static bool something_came(struct gyre_progress_engine *progress)
{
    bool came = gyre_progress_poll(progress);
    if (came)
        gyre_domain_ring(progress->domain);
    return came;
}

int gyre_progress_idle_turn(struct gyre_progress_engine *progress, struct gyre_idle *idle,
                            uint64_t deadline)
{
    if (!progress->helping) {
        gyre_activity_look(gyre_domain_activity(progress->domain));
        gyre_activity_note_thread(gyre_domain_activity(progress->domain));
    }
    idle->aside = progress->helping;
    if (gyre_fold_queue_busy(&progress->fold_queue) || gyre_stream_wait_any() ||
        gyre_domain_is_copying(progress->domain)) {
        uint64_t nap = gyre_now_ns() + progress->nap_ns;
        deadline = deadline < nap ? deadline : nap;
    }
    int status = gyre_domain_idle(progress->domain, idle, deadline);
    if (status == GYRE_IDLE_ASLEEP && progress->nap_ns < NAP_MOST)
        progress->nap_ns += progress->nap_ns / 2;
    return status;
}

int gyre_progress_turn(struct gyre_progress_engine *progress, struct gyre_wait *wait)
{
    int status =
        atomic_load_explicit(&gyre_domain_health(progress->domain)->status, memory_order_acquire);
    if (!status && gyre_progress_poll(progress)) {
        wait->idle = (struct gyre_idle){0};
        gyre_domain_ring(progress->domain);
        return 0;
    }
    for (uint32_t i = 0; i < progress->busy_count; i++)
        gyre_progress_tell_fault(progress->busy[i]);
    if (!status)
        status = gyre_progress_idle_turn(progress, &wait->idle, wait->deadline);
    if (status == GYRE_IDLE_ASLEEP) {
        for (uint32_t i = 0; i < progress->busy_count; i++)
            gyre_engine_note_waits(progress->busy[i]->engine);
        gyre_domain_sleep(progress->domain, something_came(progress));
        return 0;
    }
    if (status)
        gyre_progress_fail(progress, status);
    return status;
}

static bool is_over(const struct gyre_wait *wait)
{
    bool over = false;
    for (; wait && !over; wait = wait->also)
        over = __atomic_load_n((const uint32_t *)wait->word, __ATOMIC_ACQUIRE) != wait->old;
    return over;
}

/* Waits for the progress that another thread makes, which wants to drive. */
static void stand_by(struct gyre_domain *domain, const struct gyre_wait *wait)
{
    uint32_t seen = gyre_domain_stand_aside(domain);
    bool owner = false;
    while (!owner && !is_over(wait))
        owner = gyre_domain_stand_by(domain, &seen, wait->deadline);
    gyre_domain_stand_down(domain, owner);
}

int gyre_progress_wait(struct gyre_progress_engine *progress, struct gyre_wait *wait)
{
    while (!is_over(wait)) {
        int status = gyre_progress_turn(progress, wait);
        if (status)
            return status;
        if (wait->deadline != UINT64_MAX && gyre_now_ns() >= wait->deadline)
            return is_over(wait) ? 0 : GYRE_AGAIN;
        if (gyre_domain_wanted(progress->domain))
            stand_by(progress->domain, wait);
    }
    return 0;
}

int gyre_progress_await(struct gyre_progress_engine *progress, const _Atomic int *status)
{
    struct gyre_wait wait = {.word = status, .old = GYRE_AGAIN, .deadline = UINT64_MAX};
    gyre_progress_wait(progress, &wait);
    return *status;
}

/* -- failure ----------------------------------------------------------------------------------- */

static void fail_one(struct gyre_comm *comm, int status)
{
    gyre_engine_fail(comm->engine, status);
    gyre_p2p_fail(comm->p2p, status);
}

void gyre_progress_fail(struct gyre_progress_engine *progress, int status)
{
    if (atomic_load_explicit(&progress->failed, memory_order_relaxed))
        return;
    atomic_store_explicit(&progress->failed, status, memory_order_release);
    gyre_domain_dump(progress->domain);
    /* Streams first: the watch may be unmapping memory, for which a driver waits for them, and the
     * links' end waits for the watch. */
    for (uint32_t id = 0; id < GYRE_COMM_IDS; id++)
        if (progress->comm[id] && progress->comm[id]->engine)
            gyre_engine_let_streams_go(progress->comm[id]->engine);
    if (progress->links)
        gyre_links_detach_all(progress->links);
    for (uint32_t id = 0; id < GYRE_COMM_IDS; id++)
        if (progress->comm[id] && progress->comm[id]->engine)
            fail_one(progress->comm[id], status);
    for (; progress->busy_count; progress->busy_count--)
        progress->busy[progress->busy_count - 1]->busy = 0;
}

int gyre_progress_failure(const struct gyre_progress_engine *progress)
{
    const int failed = atomic_load(&progress->failed);
    return failed ? failed : atomic_load(&gyre_domain_health(progress->domain)->status);
}

const char *gyre_progress_story(const struct gyre_progress_engine *progress)
{
    const struct gyre_trouble *refusal = gyre_thread_trouble();
    const struct gyre_health *health = gyre_domain_health(progress->domain);
    if (atomic_load_explicit(&health->status, memory_order_acquire))
        return health->failure.text;
    if (progress->trouble.status)
        return progress->trouble.text;
    return refusal->ended ? "" : refusal->text;
}

void gyre_progress_tell_fault(struct gyre_comm *comm)
{
    const struct gyre_fault *fault = &comm->engine->fault;
    struct gyre_progress_engine *progress = comm->progress;
    if (!fault->status || progress->fault_told)
        return;
    progress->fault_told = true;
    gyre_watch_report(gyre_domain_watch(progress->domain), fault->status, fault->peer, fault->echo,
                      fault->trouble.text);
}
