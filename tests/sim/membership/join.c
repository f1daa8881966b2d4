/* The join of a view, as transport/join does it: all members take part, or it fails for those that
 * are left. Each says DONE to its rank 0 when it has met all others. Rank 0 then says GO to one
 * after the other, and may end in between. */
#include "sim/membership/inside.h"

#define PHASE (2 * GYRE_SECOND) /* that rank 0 waits; others wait half as long again */

static uint32_t root_of(const struct member *member)
{
    uint32_t root = 0;
    while (member->next[root] != GYRE_STANDS)
        root++;
    return root;
}

static bool takes_part(const struct world *world, uint32_t seat, uint32_t other)
{
    return other != seat && world->member[seat].next[other] == GYRE_STANDS;
}

void begin_join(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    uint32_t root = root_of(member);
    member->life = JOINS;
    member->since = world->now;
    member->said_done = false;
    memset(member->done, 0, sizeof member->done);
    for (uint32_t other = 0; other < world->is->n; other++) {
        if (seat == root || other != root)
            hang_up(world, seat, other, true);
        if (seat != root || !takes_part(world, seat, other))
            hang_up(world, seat, other, false);
    }
    gyre_membership_destroy(member->agreement);
    member->agreement = NULL;
    turn_join(world, seat);
}

static void fail_join(struct world *world, uint32_t seat)
{
    log_line(world, "seat %u fails to join epoch %u", seat, world->member[seat].is.seen);
    for (uint32_t other = 0; other < world->is->n; other++) {
        hang_up(world, seat, other, true);
        hang_up(world, seat, other, false);
    }
    begin_gathering(world, seat);
}

/* Whether this member meets all others of the view now. */
static bool meets_all(const struct world *world, uint32_t seat)
{
    const struct member *member = &world->member[seat];
    uint64_t until;
    for (uint32_t other = 0; other < world->is->n; other++) {
        const struct member *peer = &world->member[other];
        if (!takes_part(world, seat, other))
            continue;
        bool there = (peer->life == JOINS && peer->is.seen == member->is.seen) ||
                     (peer->life == RUNS && peer->is.epoch == member->is.seen);
        if (!there || are_apart(world, seat, other) || is_stopped(world, other, &until))
            return false;
    }
    return true;
}

static void complete_join(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    uint32_t before = member->is.epoch;
    gyre_members_complete(&member->is);
    member->life = RUNS;
    member->run_at = world->now;
    memset(member->suspected, 0, sizeof member->suspected);
    for (uint32_t other = 0; other < world->is->n; other++)
        member->heard_at[other] = world->now;
    log_line(world, "seat %u completes epoch %u of %#x", seat, member->is.epoch,
             seats_of(member->standing, world->is->n));
    if (member->is.epoch <= before)
        set_wrong(world, "seat %u goes from epoch %u back to %u", seat, before, member->is.epoch);
    check_completion(world, seat);
}

static bool all_done(const struct world *world, uint32_t seat)
{
    for (uint32_t other = 0; other < world->is->n; other++)
        if (takes_part(world, seat, other) && !world->member[seat].done[other])
            return false;
    return true;
}

static void let_all_go(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    for (uint32_t other = 0; other < world->is->n; other++) {
        if (!takes_part(world, seat, other))
            continue;
        if (world->fuse >= 0 && world->fuse-- == 0) {
            world->played[FUSE]++;
            end_member(world, seat);
            return;
        }
        send_event(world, GO, seat, other, false, member->guest[other].serial, NULL);
    }
    complete_join(world, seat);
}

void turn_join(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    uint32_t root = root_of(member);
    if (!member->said_done && meets_all(world, seat)) {
        member->said_done = true;
        if (seat != root)
            send_event(world, DONE, seat, root, true, member->dial[root].serial, NULL);
    }
    if (seat == root && member->said_done && all_done(world, seat))
        let_all_go(world, seat);
    else if (world->now - member->since > (seat == root ? PHASE : PHASE + PHASE / 2))
        fail_join(world, seat);
}

void hear_join(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    const struct end *end =
        event->dialed ? &member->guest[event->from] : &member->dial[event->from];
    if (event->kind == SYN) { /* its listener is the join's, which takes no member */
        send_event(world, HUNG_UP, event->to, event->from, false, event->serial, NULL);
        return;
    }
    if (!end->serial || end->serial != event->serial)
        return;
    if (event->kind == HUNG_UP)
        fail_join(world, event->to);
    else if (event->kind == GO)
        complete_join(world, event->to);
    else if (event->kind == DONE)
        member->done[event->from] = true;
    if (member->life == JOINS)
        turn_join(world, event->to);
}
