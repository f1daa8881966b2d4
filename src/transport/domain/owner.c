/* Ownership of the domain: one thread at a time, its owner, drives it.
 *
 *     enter      waits until the owner gives way     the owner sees `wanted` and leaves
 *     stand by   waits for the owner's progress, or to become the owner
 *
 * Threads that wait in enter() draw numbers and come in by turn, and nobody enters before them. So
 * calls begin in the order of their arrival.
 *
 * Tested by tests/unit/transport/domain/owner_test.c and tests/program/collectives/threads.c. */
#include "transport/domain/inside.h"

#include "base/clock.h"
#include "transport/domain/futex.h"

#include <limits.h>
#include <sched.h>

#define STAND_NS (2 * GYRE_MS)

bool gyre_domain_try_enter(struct gyre_domain *domain)
{
    return atomic_load_explicit(&domain->owner, memory_order_relaxed) == 0 &&
           atomic_exchange_explicit(&domain->owner, 1, memory_order_acquire) == 0;
}

/* Waits for this thread's turn. The owner is the helper, or another thread in a call. */
static void queue_up(struct gyre_domain *domain)
{
    uint32_t number = atomic_fetch_add(&domain->numbers, 1);
    atomic_fetch_add(&domain->wanted, 1);
    gyre_domain_wake_owner(domain);
    while (atomic_load(&domain->turn) != number || !gyre_domain_try_enter(domain))
        sched_yield();
    atomic_store(&domain->turn, number + 1);
    atomic_fetch_sub(&domain->wanted, 1);
}

void gyre_domain_enter(struct gyre_domain *domain)
{
    if (!gyre_domain_wanted(domain) && gyre_domain_try_enter(domain))
        return;
    gyre_activity_note_thread(&domain->activity);
    queue_up(domain);
}

void gyre_domain_enter_aside(struct gyre_domain *domain)
{
    if (gyre_domain_wanted(domain) || !gyre_domain_try_enter(domain))
        queue_up(domain);
}

void gyre_domain_tell_standing(struct gyre_domain *domain)
{
    if (atomic_load_explicit(&domain->standing, memory_order_relaxed) == 0)
        return;
    atomic_fetch_add(&domain->standing_word, 1);
    gyre_futex_wake(&domain->standing_word, INT_MAX);
}

void gyre_domain_leave(struct gyre_domain *domain)
{
    atomic_store_explicit(&domain->owner, 0, memory_order_release);
    gyre_domain_tell_standing(domain);
}

uint32_t gyre_domain_stand_aside(struct gyre_domain *domain)
{
    gyre_domain_leave(domain);
    atomic_fetch_add(&domain->standing, 1);
    return atomic_load(&domain->standing_word);
}

/* Stands by. No fence orders "I stand by" with the leaver's look for it: a fence would cost every
 * call. A thread that slips through looks again after STAND_NS. */
bool gyre_domain_stand_by(struct gyre_domain *domain, uint32_t *seen, uint64_t deadline)
{
    const struct timespec most = {0, STAND_NS};
    bool owner = false;
    if (gyre_now_ns() >= deadline || atomic_load(&domain->health.status)) {
        gyre_domain_enter(domain);
        return true;
    }
    if (!gyre_domain_wanted(domain))
        owner = gyre_domain_try_enter(domain);
    if (!owner)
        gyre_futex_wait(&domain->standing_word, *seen, &most);
    *seen = atomic_load(&domain->standing_word);
    return owner;
}

void gyre_domain_stand_down(struct gyre_domain *domain, bool owner)
{
    atomic_fetch_sub(&domain->standing, 1);
    if (!owner)
        gyre_domain_enter(domain);
}

bool gyre_domain_wanted(const struct gyre_domain *domain)
{
    return atomic_load_explicit(&((struct gyre_domain *)(uintptr_t)domain)->wanted,
                                memory_order_relaxed) != 0;
}

bool gyre_domain_attended(const struct gyre_domain *domain)
{
    return gyre_domain_wanted(domain) ||
           atomic_load_explicit(&((struct gyre_domain *)(uintptr_t)domain)->standing,
                                memory_order_relaxed) != 0;
}
