/* What must hold at each step, and what must hold at the end. */
#include "sim/membership/inside.h"

#include <stdarg.h>

void set_wrong(struct world *world, const char *format, ...)
{
    va_list arguments;
    if (world->wrong[0])
        return;
    va_start(arguments, format);
    vsnprintf(world->wrong, sizeof world->wrong, format, arguments);
    va_end(arguments);
    log_line(world, "WRONG: %s", world->wrong);
}

/* -- views ------------------------------------------------------------------------------------- */

static struct view view_of(const struct member *member)
{
    return (struct view){member->is.epoch, seats_of(member->standing),
                         processes_of(member, member->standing)};
}

/* Whether all members of a view are in it, so that their operations come to an end. One that stands
 * still may go on. */
static bool view_works(const struct world *world, const struct view *view)
{
    for (uint32_t process = 0; process < world->is->processes; process++) {
        const struct member *member = &world->member[process];
        if (!(view->processes >> process & 1))
            continue;
        const struct view its = view_of(member);
        if (member->life != RUNS || its.epoch != view->epoch || its.seats != view->seats ||
            its.processes != view->processes)
            return false;
    }
    return true;
}

/* Two views of one epoch have no member in common, and never work at one time. */
static void compare_views(struct world *world, const struct view *made)
{
    bool works = view_works(world, made);
    for (const struct view *view = world->view; view < world->view + world->views; view++) {
        if (view->epoch == made->epoch &&
            (view->seats & made->seats || view->processes & made->processes))
            set_wrong(world, "epoch %u has a view of %#x and one of %#x", view->epoch, view->seats,
                      made->seats);
        if (works && view_works(world, view))
            set_wrong(world, "views of %#x and of %#x work at one time, epochs %u and %u",
                      view->seats, made->seats, view->epoch, made->epoch);
    }
}

/* A seat has one member for ever, and a process has one rank. */
static void check_seats(struct world *world, const struct member *member)
{
    if (__builtin_popcount(seats_of(member->standing)) !=
        __builtin_popcount(processes_of(member, member->standing)))
        set_wrong(world, "a process has two ranks in epoch %u", member->is.epoch);
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        if (member->standing[seat] != GYRE_STANDS)
            continue;
        if (world->sits[seat] && world->sits[seat] != member->address[seat])
            set_wrong(world, "seat %u of epoch %u was another process's", seat, member->is.epoch);
        world->sits[seat] = member->address[seat];
    }
}

void check_completion(struct world *world, uint32_t process)
{
    const struct member *member = &world->member[process];
    const struct view made = view_of(member);
    for (uint32_t i = 0; i < world->views; i++) {
        const struct view *view = &world->view[i];
        if (view->epoch != made.epoch || view->seats != made.seats ||
            view->processes != made.processes)
            continue;
        world->view[i] = world->view[--world->views];
        break;
    }
    if (member->leaving)
        set_wrong(world, "process %u leaves and has completed epoch %u", process, made.epoch);
    if (!(made.processes >> process & 1))
        set_wrong(world, "process %u has completed epoch %u without a rank", process, made.epoch);
    check_seats(world, member);
    compare_views(world, &made);
    if (world->views < VIEWS)
        world->view[world->views++] = made;
}

/* -- members ----------------------------------------------------------------------------------- */

/* Whether a process has given the seat at this address up, to ask anew. */
static bool has_given_up(const struct world *world, uint32_t address)
{
    return world->member[process_at(address)].listener != (address & UINT16_MAX);
}

/* Who is left out of a view was hurt, or has gone. */
void check_decision(struct world *world, uint32_t process)
{
    const struct member *decider = &world->member[process];
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        const uint32_t address = decider->address[seat], other = process_at(address);
        const struct member *member = &world->member[other];
        uint8_t standing = decider->next[seat];
        if (!address || has_given_up(world, address))
            continue;
        if (standing == GYRE_STANDING_SILENT && !member->touched && !member->finalized &&
            member->life != OVER)
            set_wrong(world, "process %u takes seat %u, which is well, for silent", process, seat);
        if (standing == GYRE_STANDING_ENDED && !member->finalized && member->life != ASKS)
            set_wrong(world, "process %u takes seat %u, which lives, for ended", process, seat);
        if (standing == GYRE_STANDING_LEFT && !member->leaving)
            set_wrong(world, "process %u takes seat %u, which stays, for one that left", process,
                      seat);
    }
}

static bool somebody_was_hurt(const struct world *world)
{
    for (uint32_t process = 0; process < world->is->processes; process++)
        if (world->member[process].touched || world->member[process].life == OVER)
            return true;
    return false;
}

void check_fate(struct world *world, uint32_t process)
{
    const struct member *member = &world->member[process];
    switch (member->fate) {
    case GYRE_MEMBERSHIP_FENCED:
        if (!member->touched)
            set_wrong(world, "process %u, which is well, is fenced", process);
        break;
    case GYRE_MEMBERSHIP_CUT_OFF:
        if (!somebody_was_hurt(world))
            set_wrong(world, "process %u is cut off, and nothing was", process);
        break;
    case GYRE_MEMBERSHIP_TOLD:
    case GYRE_MEMBERSHIP_DESERTED:
        if (!member->leaving)
            set_wrong(world, "process %u does not leave, and goes", process);
        break;
    default:
        set_wrong(world, "process %u gives up: outcome %d", process, (int)member->fate);
    }
}

/* -- the end ----------------------------------------------------------------------------------- */

static bool is_whole(const struct world *world, uint32_t process)
{
    const struct member *member = &world->member[process];
    const struct view view = view_of(member);
    uint64_t until;
    for (uint32_t other = 0; other < world->is->processes; other++)
        if (view.processes >> other & 1 &&
            (are_apart(world, process, other) || is_stopped(world, other, &until)))
            return false;
    return view_works(world, &view);
}

/* Whether each process that lives is over, asks, or runs in a view that works. */
bool all_settled(const struct world *world)
{
    uint64_t until;
    for (uint32_t process = 0; process < world->is->processes; process++) {
        const struct member *member = &world->member[process];
        bool goes = member->life < ASKS && !is_stopped(world, process, &until);
        if (goes && (member->life != RUNS || !is_whole(world, process)))
            return false;
    }
    return true;
}
