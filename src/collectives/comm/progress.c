/* Progress of all communicators of a process.
 *
 *      thread in a call ─┐                 ┌─▶ busy[0] engine ──post──┐
 *                        ├─ owns ─▶ poll ──┼─▶ busy[1] engine ──post──┼─▶ links
 *      helper thread ────┘           ▲     └─▶ …                      │
 *                                    └──── completions, by token ◀────┘
 *
 * Only communicators with something in flight are looked at, so a thousand idle ones cost a
 * blocking call nothing. One failure ends all of them: it is the job's, and the job's story is
 * told. */
#include "collectives/comm/progress.h"

#include "base/clock.h"
#include "collectives/comm/comm.h"

#define COMPLETIONS 64
#define DEVICE_NAP  UINT64_C(50000) /* ns: nobody rings when a device has finished */
#define LINKS_EVERY 16              /* turns that left nothing to wait for: then they are heard */

void gyre_hub_init(struct gyre_hub *hub, struct gyre_domain *domain)
{
    hub->domain = domain;
    hub->links = gyre_domain_links(domain);
    gyre_carrier_init(&hub->carrier, gyre_domain_cuda(domain));
}

/* -- who is in --------------------------------------------------------------------------------- */

void gyre_hub_add(struct gyre_hub *hub, struct gyre_comm *comm)
{
    hub->comm[comm->id] = comm;
    hub->activities++;
    if (comm->id)
        gyre_watch_attend(gyre_domain_watch(hub->domain), comm->activity);
}

void gyre_hub_remove(struct gyre_hub *hub, struct gyre_comm *comm)
{
    if (hub->comm[comm->id] != comm)
        return;
    hub->comm[comm->id] = NULL;
    if (comm->id)
        gyre_watch_ignore(gyre_domain_watch(hub->domain), comm->activity);
}

void gyre_hub_drive(struct gyre_comm *comm)
{
    struct gyre_hub *hub = comm->hub;
    if (comm->busy)
        return;
    comm->busy = true;
    hub->busy[hub->busies++] = comm;
}

static bool comm_idle(const struct gyre_comm *comm)
{
    return gyre_engine_idle(comm->engine) && gyre_pairs_idle(comm);
}

/* -- one turn ---------------------------------------------------------------------------------- */

static bool take_completions(struct gyre_hub *hub)
{
    struct gyre_completion done[COMPLETIONS];
    int count = gyre_links_poll(hub->links, gyre_now_ns(), done, COMPLETIONS);
    for (int i = 0; i < count; i++) {
        struct gyre_comm *comm = hub->comm[done[i].token >> 48 & (GYRE_COMM_IDS - 1)];
        if (!comm) /* its last message was withdrawn when it ended */
            continue;
        if ((done[i].token >> 32 & 0xffff) == GYRE_TOKEN_MESSAGE)
            gyre_pairs_complete(comm, &done[i]);
        else
            gyre_engine_complete(comm->engine, &done[i]);
    }
    return count > 0;
}

/* Those that have become idle leave the list. */
static bool run_busy(struct gyre_hub *hub)
{
    bool moved = false;
    for (uint32_t i = 0; i < hub->busies;) {
        struct gyre_comm *comm = hub->busy[i];
        uint32_t before = comm->engine->orders;
        bool mine = gyre_pairs_run(comm);
        if (gyre_engine_run(comm->engine) || mine) {
            gyre_comm_note_finished(comm);
            moved = true;
        }
        if (comm->engine->orders != before)
            gyre_domain_tell_standing(hub->domain);
        comm->busy = !comm_idle(comm);
        if (comm->busy)
            i++;
        else
            hub->busy[i] = hub->busy[--hub->busies];
    }
    return moved;
}

bool gyre_hub_pending(const struct gyre_hub *hub)
{
    for (uint32_t i = 0; i < hub->busies; i++)
        if (!comm_idle(hub->busy[i]))
            return true;
    return false;
}

/* What is over by itself, as short messages that left at once, leaves nothing to ask the links for. */
static bool asks_links(struct gyre_hub *hub, bool moved)
{
    return hub->busies || !moved || ++hub->unasked % LINKS_EVERY == 0;
}

bool gyre_hub_poll(struct gyre_hub *hub)
{
    bool moved = gyre_carrier_busy(&hub->carrier) && gyre_carrier_poll(&hub->carrier);
    moved |= run_busy(hub);
    if (asks_links(hub, moved) && take_completions(hub)) {
        gyre_domain_tell_standing(hub->domain);
        moved = true;
    }
    uint64_t carried = gyre_links_moved(hub->links); /* parts of messages: a peer may wait for it */
    moved |= carried != hub->carried;
    hub->carried = carried;
    hub->moves += moved;
    gyre_activity_move(gyre_domain_activity(hub->domain), hub->moves + carried);
    return moved;
}

static bool something_came(void *context)
{
    struct gyre_hub *hub = context;
    bool came = gyre_hub_poll(hub);
    if (came)
        gyre_domain_ring(hub->domain);
    return came;
}

int gyre_hub_idle_turn(struct gyre_hub *hub, struct gyre_idle *idle, bool (*ready)(void *context),
                       void *context, uint64_t deadline)
{
    if (!hub->helping)
        gyre_activity_look(gyre_domain_activity(hub->domain));
    idle->aside = hub->helping;
    if (gyre_carrier_busy(&hub->carrier) || gyre_domain_ferrying(hub->domain)) {
        uint64_t nap = gyre_now_ns() + DEVICE_NAP;
        deadline = deadline < nap ? deadline : nap;
    }
    return gyre_domain_idle(hub->domain, idle, ready, context, deadline);
}

int gyre_hub_turn(struct gyre_hub *hub, struct gyre_wait *wait)
{
    int status =
        atomic_load_explicit(&gyre_domain_health(hub->domain)->status, memory_order_acquire);
    if (!status && gyre_hub_poll(hub)) {
        wait->idle = (struct gyre_idle){0};
        gyre_domain_ring(hub->domain);
        return 0;
    }
    for (uint32_t i = 0; i < hub->busies; i++)
        gyre_hub_tell_fault(hub->busy[i]);
    if (!status)
        status = gyre_hub_idle_turn(hub, &wait->idle, something_came, hub, wait->deadline);
    if (status)
        gyre_hub_fail(hub, status);
    return status;
}

int gyre_hub_wait(struct gyre_hub *hub, struct gyre_wait *wait)
{
    while (!wait->over(wait->context)) {
        int status = gyre_hub_turn(hub, wait);
        if (status)
            return status;
        if (wait->deadline != UINT64_MAX && gyre_now_ns() >= wait->deadline)
            return wait->over(wait->context) ? 0 : GYRE_AGAIN;
        if (gyre_domain_wanted(hub->domain)) {
            gyre_domain_leave(hub->domain);
            gyre_domain_stand_by(hub->domain, wait->over, wait->context, wait->deadline);
        }
    }
    return 0;
}

/* -- failure ----------------------------------------------------------------------------------- */

static void fail_one(struct gyre_comm *comm, int status)
{
    gyre_engine_fail(comm->engine, status);
    gyre_pairs_fail(comm, status);
}

void gyre_hub_fail(struct gyre_hub *hub, int status)
{
    if (atomic_load_explicit(&hub->failed, memory_order_relaxed))
        return;
    atomic_store_explicit(&hub->failed, status, memory_order_release);
    gyre_links_detach_all(hub->links);
    for (uint32_t id = 0; id < GYRE_COMM_IDS; id++)
        if (hub->comm[id] && hub->comm[id]->engine)
            gyre_engine_let_streams_go(hub->comm[id]->engine);
    for (uint32_t id = 0; id < GYRE_COMM_IDS; id++)
        if (hub->comm[id] && hub->comm[id]->engine)
            fail_one(hub->comm[id], status);
    for (; hub->busies; hub->busies--)
        hub->busy[hub->busies - 1]->busy = false;
}

void gyre_hub_tell_fault(struct gyre_comm *comm)
{
    const struct gyre_fault *fault = &comm->engine->fault;
    struct gyre_hub *hub = comm->hub;
    if (!fault->status || hub->fault_told)
        return;
    hub->fault_told = true;
    gyre_watch_report(gyre_domain_watch(hub->domain), fault->status, fault->peer, fault->echo,
                      fault->trouble.text);
}
