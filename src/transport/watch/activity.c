/* Reads what a rank is doing, for the next beat. Tested by tests/program/watch/watch.c. */
#include "transport/watch/activity.h"

#include <string.h>

static void read_calls(const struct gyre_activity *from, struct gyre_watch_state *to)
{
    uint32_t known = atomic_load_explicit(&from->known, memory_order_acquire);

    for (uint32_t i = 0; i < known && i < GYRE_ACTIVITY_CALLS; i++) {
        uint32_t place = (to->sequence - i) % GYRE_ACTIVITY_CALLS;
        uint64_t signature =
            atomic_load_explicit(&from->call[place].signature, memory_order_acquire);
        uint64_t count = atomic_load_explicit(&from->call[place].count, memory_order_acquire);
        if (i == 0) {
            to->signature = signature;
            to->count = count;
        } else {
            to->call[to->calls++] = (struct gyre_watch_call){signature, count};
        }
    }
}

static bool read_activity(const struct gyre_activity *from, struct gyre_watch_state *to)
{
    uint32_t before = atomic_load_explicit(&from->version, memory_order_acquire);

    to->comm = atomic_load_explicit(&from->comm, memory_order_acquire);
    to->sequence = atomic_load_explicit(&from->sequence, memory_order_acquire);
    to->finished = atomic_load_explicit(&from->finished, memory_order_acquire);
    to->fingerprint = atomic_load_explicit(&from->fingerprint, memory_order_acquire);
    read_calls(from, to);
    return (before & 1) == 0 &&
           before == atomic_load_explicit(&from->version, memory_order_relaxed);
}

static bool waits(const struct gyre_activity *activity)
{
    return atomic_load_explicit(&activity->sequence, memory_order_acquire) >
           atomic_load_explicit(&activity->finished, memory_order_relaxed);
}

/* The activity to tell in full: where a thread waits; without one, any in which something is
 * pending. */
static const struct gyre_activity *foremost(const struct gyre_activity *first)
{
    const struct gyre_activity *focus = atomic_load_explicit(&first->focus, memory_order_acquire);

    if (focus == NULL)
        focus = first;
    if (waits(focus))
        return focus;
    for (const struct gyre_activity *at = first; at != NULL; at = at->next)
        if (waits(at))
            return at;
    return focus;
}

/* Tells how far the rank is in other communicators: as many as a state holds, those with pending
 * operations first. */
static void read_others(const struct gyre_activity *first, const struct gyre_activity *told,
                        struct gyre_watch_state *to)
{
    for (int waiting = 1; waiting >= 0; waiting--)
        for (const struct gyre_activity *at = first; at != NULL; at = at->next) {
            if (at == told || waits(at) != waiting || to->elsewhere_count == GYRE_WATCH_ELSEWHERE)
                continue;
            to->elsewhere[to->elsewhere_count++] = (struct gyre_watch_elsewhere){
                .comm = atomic_load_explicit(&at->comm, memory_order_relaxed),
                .sequence = atomic_load_explicit(&at->sequence, memory_order_relaxed),
                .finished = atomic_load_explicit(&at->finished, memory_order_relaxed),
            };
        }
}

static uint64_t entered(const struct gyre_activity *activity)
{
    return atomic_load_explicit(&activity->sequence, memory_order_acquire);
}

/* Whether the refusal is worth telling: until the call that took its place is over, or as the last
 * call. */
static bool tells_refusal(const struct gyre_activity *activity)
{
    uint64_t finished = atomic_load_explicit(&activity->finished, memory_order_relaxed);
    return activity->refused.at != 0 && (activity->refused.sequence > finished ||
                                         activity->refused.sequence >= entered(activity));
}

static void read_refused(const struct gyre_activity *first, struct gyre_watch_state *to)
{
    const struct gyre_activity *newest = NULL;

    for (const struct gyre_activity *at = first; at != NULL; at = at->next)
        if (tells_refusal(at) && (newest == NULL || at->refused.at > newest->refused.at))
            newest = at;
    if (newest == NULL)
        return;
    to->refused.stands = newest->refused.sequence > entered(newest);
    to->refused.comm = atomic_load_explicit(&newest->comm, memory_order_relaxed);
    to->refused.sequence = newest->refused.sequence;
    memcpy(to->refused.why, newest->refused.why, GYRE_WATCH_WHY_MAX);
}

void gyre_activity_note_thread(struct gyre_activity *activity)
{
    static _Thread_local char here; /* its address tells threads apart */
    const void *thread = atomic_load_explicit(&activity->thread, memory_order_relaxed);
    if (thread == NULL)
        atomic_store_explicit(&activity->thread, &here, memory_order_relaxed);
    else if (thread != &here)
        atomic_store_explicit(&activity->threads, true, memory_order_relaxed);
}

bool gyre_activity_read(const struct gyre_activity *first, struct gyre_watch_state *to)
{
    const struct gyre_activity *told = foremost(first);

    if (!read_activity(told, to))
        return false;
    to->motion = atomic_load_explicit(&first->motion, memory_order_acquire);
    if (first->next != NULL)
        read_others(first, told, to);
    read_refused(first, to);
    return true;
}
