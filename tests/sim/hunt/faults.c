/* Faults, and who may be blamed for what they do.
 *
 * A pause or a clogged link that ends long before the dead time must go unnoticed, and a reset of
 * the watch's connections always: a job without any other fault succeeds. */
#include "sim/hunt/inside.h"

#define TOLERATED (HUNT_DEAD * 6 / 10)

void hunt_faults_schedule(void)
{
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        hunt_schedule((struct hunt_event){
            .at = HUNT_START + hunt.is->fault[i].at, .kind = HUNT_FAULT_BEGINS, .channel = i});
}

static bool lasts(const struct hunt_fault *fault)
{
    return fault->kind == HUNT_PAUSE || fault->kind == HUNT_CLOG;
}

static void begin(const struct hunt_fault *fault)
{
    struct gyre_domain *a = &hunt.rank[fault->a];
    uint64_t until = gyre_now_ns() + fault->lasts;
    switch (fault->kind) {
    case HUNT_CRASH:
        hunt_rank_crash(a);
        break;
    case HUNT_PAUSE:
        gyre_sim_world_pause(hunt.world, fault->a);
        a->watch.silent_until = a->watch.silent_until > until ? a->watch.silent_until : until;
        break;
    case HUNT_CLOG:
        gyre_sim_world_block(hunt.world, fault->a, fault->b, true);
        if (hunt.clogged_until[fault->a][fault->b] < until)
            hunt.clogged_until[fault->a][fault->b] = until;
        break;
    case HUNT_RESET:
        gyre_sim_world_reset(hunt.world, fault->a, fault->b);
        break;
    case HUNT_CORRUPT:
        gyre_sim_world_corrupt(hunt.world, fault->a, fault->b, fault->skip);
        break;
    case HUNT_STALE:
        hunt_watch_haunt(fault->a, fault->b);
        break;
    case HUNT_NO_MEMORY:
        hunt_memory_fail(fault->a, fault->skip);
        break;
    case HUNT_RESET_WATCH:
        hunt_watch_reset(fault->a, fault->skip % 2 == 0);
        break;
    case HUNT_FAULT_KINDS:
        break;
    }
}

static void end(const struct hunt_fault *fault)
{
    uint64_t now = gyre_now_ns();
    if (fault->kind == HUNT_PAUSE && hunt.rank[fault->a].watch.silent_until <= now)
        gyre_sim_world_resume(hunt.world, fault->a);
    if (fault->kind == HUNT_CLOG && hunt.clogged_until[fault->a][fault->b] <= now)
        gyre_sim_world_block(hunt.world, fault->a, fault->b, false);
}

void hunt_fault_event(const struct hunt_event *event)
{
    const struct hunt_fault *fault = &hunt.is->fault[event->channel];
    if (event->kind == HUNT_FAULT_ENDS) {
        hunt_note("a fault ends", fault->a, fault->kind, fault->b);
        end(fault);
        return;
    }
    hunt_note("a fault begins", fault->a, fault->kind, fault->b);
    hunt.begun[event->channel] = true;
    begin(fault);
    if (lasts(fault))
        hunt_schedule((struct hunt_event){.at = gyre_now_ns() + fault->lasts,
                                          .kind = HUNT_FAULT_ENDS,
                                          .channel = event->channel});
}

/* -- blame ------------------------------------------------------------------------------------- */

static bool too_long(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        sum += hunt.begun[i] && lasts(&hunt.is->fault[i]) ? hunt.is->fault[i].lasts : 0;
    return sum > TOLERATED;
}

static bool may_fail(uint32_t i)
{
    const struct hunt_fault *fault = &hunt.is->fault[i];
    if (!hunt.begun[i] || fault->kind == HUNT_STALE || fault->kind == HUNT_RESET_WATCH)
        return false;
    if (fault->kind == HUNT_NO_MEMORY)
        return hunt_memory_failed(fault->a);
    return !lasts(fault) || too_long();
}

static bool has_two_ends(enum hunt_fault_kind kind)
{
    return kind == HUNT_CLOG || kind == HUNT_RESET || kind == HUNT_CORRUPT;
}

/* A rank that fails for another fault's sake tells so and ends. A peer whose connection was reset
 * just then hears of the end only. */
static bool cut_off(const struct hunt_fault *fault, uint32_t rank)
{
    return fault->kind == HUNT_RESET_WATCH && (rank == 0 || fault->a == rank) &&
           hunt_guilty_faults() > 0;
}

/* A rank that is through leaves when it has waited long enough for the others. If a link is clogged
 * for longer than that, others may still need it. */
bool hunt_guilty(uint32_t rank)
{
    for (uint32_t i = 0; i < hunt.is->faults; i++) {
        const struct hunt_fault *fault = &hunt.is->fault[i];
        if (hunt.begun[i] && cut_off(fault, rank))
            return true;
        if (may_fail(i) && fault->kind == HUNT_CLOG)
            return true;
        if (may_fail(i) && (fault->a == rank || (has_two_ends(fault->kind) && fault->b == rank)))
            return true;
    }
    return false;
}

uint32_t hunt_guilty_faults(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        count += may_fail(i);
    return count;
}
