/* The next epoch while its ranks join it.
 *
 *     old epoch   ── gyre_grow() ──── sums, steps, … ──── gyre_grow() ── over
 *                        │                                     │
 *     a thread           ╰─ members agree ─▶ they join ─▶ done ┤
 *     newcomers       wait at rank 0 ─▶ the view ─▶ they join ─┴▶ the first call of all
 *
 * The thread touches of the old epoch its members and its listener, which nothing else uses while
 * all is well. Whatever ends the old communicator waits for the thread first.
 *
 * Tested by tests/program/failures/grow.c. */
#include "collectives/lifecycle/growing.h"

#include "base/log.h"
#include "base/machine/thread.h"
#include "collectives/comm/progress.h"
#include "collectives/lifecycle/next_epoch.h"
#include "collectives/lifecycle/world.h"

#include <errno.h>
#include <stdlib.h>

struct gyre_growing {
    struct gyre_comm *world, *made;
    uint32_t newcomers;
    pthread_t thread;
    bool threaded; /* and not waited for yet */
    _Atomic bool done;
    int status;
    struct gyre_trouble trouble;
};

static int set_lost(const struct gyre_comm *world, struct gyre_trouble *trouble)
{
    uint32_t rank = 0;
    while (rank + 1 < world->n && gyre_domain_stands_next(world->domain, rank))
        rank++;
    const struct gyre_member *member = &gyre_domain_joined(world->domain)->member[rank];
    return gyre_trouble_set(trouble, GYRE_PEER_LOST,
                            "rank %u on %s (pid %d) was lost while the ranks took newcomers in: "
                            "gyre_shrink() goes on without it",
                            rank, member->host, member->pid);
}

/* Agrees and joins. */
static int open_larger(struct gyre_growing *growing)
{
    struct gyre_comm *world = growing->world;
    struct gyre_trouble *trouble = &growing->trouble;
    struct gyre_company company;
    struct gyre_job job;
    int status = gyre_domain_gather(world->domain, "gyre_grow()", false, &company, &job, trouble);
    if (status)
        return status;
    if (company.n != world->n + growing->newcomers)
        status = set_lost(world, trouble);
    else
        status = gyre_epoch_open(world, "gyre_grow", &company, &job, &growing->made, trouble);
    gyre_company_close(&company);
    gyre_wipe(&job, sizeof job);
    return status;
}

static void *run_growing(void *argument)
{
    struct gyre_growing *growing = argument;
    growing->status = open_larger(growing);
    if (growing->status)
        growing->made = NULL;
    atomic_store(&growing->done, true);
    return NULL;
}

int gyre_growing_start(struct gyre_comm *world, uint32_t newcomers, struct gyre_trouble *trouble)
{
    struct gyre_growing *growing = calloc(1, sizeof *growing);
    if (!growing)
        return gyre_trouble_set(trouble, -ENOMEM, "no memory to take newcomers in");
    growing->world = world;
    growing->newcomers = newcomers;
    world->progress->growing = growing;
    gyre_domain_begin_gathering(world->domain);
    growing->threaded = !gyre_thread_start(&growing->thread, run_growing, growing);
    if (growing->threaded)
        pthread_setname_np(growing->thread, "gyre-growing");
    else
        run_growing(growing);
    return 0;
}

int gyre_growing_status(const struct gyre_comm *world, struct gyre_trouble *trouble)
{
    const struct gyre_growing *growing = world->progress->growing;
    if (!atomic_load(&growing->done))
        return GYRE_AGAIN;
    if (growing->status)
        *trouble = growing->trouble;
    return growing->status;
}

uint32_t gyre_growing_newcomers(const struct gyre_comm *world)
{
    return world && world->progress->growing ? world->progress->growing->newcomers : 0;
}

static void await_thread(struct gyre_growing *growing)
{
    if (growing->threaded)
        pthread_join(growing->thread, NULL);
    growing->threaded = false;
    gyre_domain_end_gathering(growing->world->domain);
}

struct gyre_comm *gyre_growing_take(struct gyre_comm *world)
{
    struct gyre_growing *growing = world->progress->growing;
    await_thread(growing);
    struct gyre_comm *made = growing->made;
    world->progress->growing = NULL;
    free(growing);
    return made;
}

int gyre_growing_meet(const struct gyre_comm *world, struct gyre_trouble *trouble)
{
    return gyre_epoch_meet(world->progress->growing->made, trouble);
}

void gyre_growing_settle(struct gyre_comm *world)
{
    struct gyre_growing *growing = world->progress->growing;
    if (!growing)
        return;
    await_thread(growing);
    if (growing->made)
        gyre_domain_leave_listener(growing->made->domain);
}

void gyre_growing_drop(struct gyre_comm *world, int status, const char *why)
{
    if (!world->progress->growing)
        return;
    struct gyre_comm *made = gyre_growing_take(world);
    struct gyre_watch *watch = made ? gyre_domain_watch(made->domain) : NULL;
    if (watch)
        gyre_watch_report(watch, status, UINT32_MAX, false, why);
    if (made)
        gyre_world_free(made, NULL);
}
