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

/* Whether all members of a view are in it, so that their operations come to an end. One that stands
 * still may go on. */
static bool view_works(const struct world *world, uint32_t epoch, uint32_t seats)
{
    for (uint32_t seat = 0; seat < world->is->n; seat++) {
        const struct member *member = &world->member[seat];
        if (seats >> seat & 1 && (member->life != RUNS || member->is.epoch != epoch ||
                                  seats_of(member->standing, world->is->n) != seats))
            return false;
    }
    return true;
}

/* Two views of one epoch have no member in common, and never work at one time. */
static void compare_views(struct world *world, const struct view *made)
{
    bool works = view_works(world, made->epoch, made->seats);
    for (const struct view *view = world->view; view < world->view + world->views; view++) {
        if (view->epoch == made->epoch && view->seats & made->seats)
            set_wrong(world, "epoch %u has a view of %#x and one of %#x", view->epoch, view->seats,
                      made->seats);
        if (works && view_works(world, view->epoch, view->seats))
            set_wrong(world, "views of %#x and of %#x work at one time, epochs %u and %u",
                      view->seats, made->seats, view->epoch, made->epoch);
    }
}

void check_completion(struct world *world, uint32_t seat)
{
    const struct member *member = &world->member[seat];
    const struct view made = {member->is.epoch, seats_of(member->standing, world->is->n)};
    for (uint32_t i = 0; i < world->views; i++) {
        if (world->view[i].epoch != made.epoch || world->view[i].seats != made.seats)
            continue;
        world->view[i] = world->view[--world->views];
        break;
    }
    if (member->leaving)
        set_wrong(world, "seat %u leaves and has completed epoch %u", seat, made.epoch);
    compare_views(world, &made);
    if (world->views < VIEWS)
        world->view[world->views++] = made;
}

/* -- members ----------------------------------------------------------------------------------- */

/* Who is left out of a view was hurt, or has gone. */
void check_decision(struct world *world, uint32_t seat)
{
    for (uint32_t other = 0; other < world->is->n; other++) {
        const struct member *member = &world->member[other];
        uint8_t standing = world->member[seat].next[other];
        if (standing == GYRE_STANDING_SILENT && !member->touched && !member->finalized &&
            member->life != OVER)
            set_wrong(world, "seat %u takes seat %u, which is well, for silent", seat, other);
        if (standing == GYRE_STANDING_ENDED && !member->finalized)
            set_wrong(world, "seat %u takes seat %u, which lives, for ended", seat, other);
        if (standing == GYRE_STANDING_LEFT && !member->leaving)
            set_wrong(world, "seat %u takes seat %u, which stays, for one that left", seat, other);
    }
}

static bool somebody_was_hurt(const struct world *world)
{
    for (uint32_t seat = 0; seat < world->is->n; seat++)
        if (world->member[seat].touched || world->member[seat].life == OVER)
            return true;
    return false;
}

void check_fate(struct world *world, uint32_t seat)
{
    const struct member *member = &world->member[seat];
    switch (member->fate) {
    case GYRE_MEMBERSHIP_FENCED:
        if (!member->touched)
            set_wrong(world, "seat %u, which is well, is fenced", seat);
        break;
    case GYRE_MEMBERSHIP_CUT_OFF:
        if (!somebody_was_hurt(world))
            set_wrong(world, "seat %u is cut off, and nothing was", seat);
        break;
    case GYRE_MEMBERSHIP_TOLD:
    case GYRE_MEMBERSHIP_DESERTED:
        if (!member->leaving)
            set_wrong(world, "seat %u does not leave, and goes", seat);
        break;
    default:
        set_wrong(world, "seat %u gives up: outcome %d", seat, (int)member->fate);
    }
}

/* -- the end ----------------------------------------------------------------------------------- */

static bool is_whole(const struct world *world, uint32_t seat)
{
    const struct member *member = &world->member[seat];
    uint64_t until;
    for (uint32_t other = 0; other < world->is->n; other++)
        if (member->standing[other] == GYRE_STANDS &&
            (are_apart(world, seat, other) || is_stopped(world, other, &until)))
            return false;
    return view_works(world, member->is.epoch, seats_of(member->standing, world->is->n));
}

/* Whether each member that lives is over, or runs in a view that works. */
bool all_settled(const struct world *world)
{
    uint64_t until;
    for (uint32_t seat = 0; seat < world->is->n; seat++) {
        const struct member *member = &world->member[seat];
        bool goes =
            member->life != ENDS && member->life != OVER && !is_stopped(world, seat, &until);
        if (goes && (member->life != RUNS || !is_whole(world, seat)))
            return false;
    }
    return true;
}
