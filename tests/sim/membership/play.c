/* Events in the order of their time. What comes to a member that stands still waits until it goes
 * on. */
#include "sim/membership/inside.h"

#include <stdarg.h>
#include <stdlib.h>

void log_line(struct world *world, const char *format, ...)
{
    va_list arguments;
    if (!world->log)
        return;
    fprintf(world->log, "%12.3f ms  ", (double)world->now / 1e6);
    va_start(arguments, format);
    vfprintf(world->log, format, arguments);
    va_end(arguments);
    fputc('\n', world->log);
}

/* -- a heap ------------------------------------------------------------------------------------ */

static bool earlier(const struct event *one, const struct event *other)
{
    return one->at < other->at || (one->at == other->at && one->order < other->order);
}

static void swap(struct event *one, struct event *other)
{
    struct event kept = *one;
    *one = *other;
    *other = kept;
}

static void push_event(struct world *world, const struct event *event)
{
    if (world->queued == world->room) {
        world->room = world->room ? 2 * world->room : 256;
        world->queue = realloc(world->queue, world->room * sizeof *world->queue);
        if (!world->queue)
            abort();
    }
    size_t at = world->queued++;
    world->queue[at] = *event;
    for (; at && earlier(&world->queue[at], &world->queue[(at - 1) / 2]); at = (at - 1) / 2)
        swap(&world->queue[at], &world->queue[(at - 1) / 2]);
}

static struct event pop_event(struct world *world)
{
    struct event first = world->queue[0];
    size_t at = 0, least;
    world->queue[0] = world->queue[--world->queued];
    for (;; at = least) {
        least = at;
        for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < world->queued; child++)
            if (earlier(&world->queue[child], &world->queue[least]))
                least = child;
        if (least == at)
            return first;
        swap(&world->queue[at], &world->queue[least]);
    }
}

void post_event(struct world *world, uint64_t at, const struct event *event)
{
    struct event posted = *event;
    posted.at = at;
    posted.order = world->orders++;
    push_event(world, &posted);
}

/* -- play -------------------------------------------------------------------------------------- */

static void settle_later(struct world *world)
{
    world->settled = all_settled(world);
    if (!world->settled)
        post_event(world, world->now + 200 * GYRE_MS, &(struct event){.kind = SETTLE});
}

static void take(struct world *world, struct event *event)
{
    uint64_t until;
    event->said.standing = event->standing;
    if (event->kind == FAULT_COMES)
        start_fault(world, event->to);
    else if (event->kind == FAULT_GOES)
        stop_fault(world, event->to);
    else if (event->kind == SETTLE)
        settle_later(world);
    else if (world->member[event->to].life != ENDS && is_stopped(world, event->to, &until) &&
             until != NEVER)
        post_event(world, until, event);
    else if (world->member[event->to].life == ENDS || !is_stopped(world, event->to, &until))
        take_event(world, event);
}

static void begin_world(struct world *world)
{
    const struct scenario *is = world->is;
    world->quiet_at = GYRE_SECOND;
    for (uint32_t process = 0; process < is->processes; process++)
        begin_member(world, process);
    for (uint32_t i = 0; i < is->faults; i++) {
        const struct fault *fault = &is->fault[i];
        uint64_t last = fault->until == NEVER ? fault->at : fault->until;
        post_event(world, fault->at, &(struct event){.kind = FAULT_COMES, .to = i});
        if (fault->until != NEVER)
            post_event(world, fault->until, &(struct event){.kind = FAULT_GOES, .to = i});
        world->quiet_at = last > world->quiet_at ? last : world->quiet_at;
    }
    post_event(world, world->quiet_at + DEAD, &(struct event){.kind = SETTLE});
}

bool play_scenario(const struct scenario *scenario, FILE *log, struct world *world)
{
    *world = (struct world){.is = scenario, .log = log, .fuse = -1};
    gyre_rng_seed(&world->rng, scenario->seed);
    begin_world(world);
    while (world->queued && !world->settled && !world->wrong[0]) {
        struct event event = pop_event(world);
        world->now = event.at;
        if (world->now > world->quiet_at + BOUND)
            set_wrong(world, "members are not settled %.0f s after the last fault", BOUND / 1e9);
        else
            take(world, &event);
    }
    for (uint32_t process = 0; process < scenario->processes; process++) {
        gyre_membership_destroy(world->member[process].agreement);
        free(world->member[process].is.at);
    }
    free(world->queue);
    return world->wrong[0] != '\0';
}
