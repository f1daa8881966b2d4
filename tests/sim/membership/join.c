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

static bool takes_part(const struct member *member, uint32_t seat)
{
    return seat != member->is.seat && member->next[seat] == GYRE_STANDS;
}

/* Closes the connections that do not serve the join. */
static void keep_company(struct world *world, uint32_t process, uint32_t root)
{
    struct member *member = &world->member[process];
    const bool is_root = member->is.seat == root;
    uint32_t company = is_root ? processes_of(member, member->next) : 0;
    for (uint32_t seat = 0; seat < SEATS; seat++)
        if (is_root || seat != root)
            hang_up_dial(world, process, &member->dial[seat]);
    for (uint32_t other = 0; other < world->is->processes; other++)
        if (!(company >> other & 1))
            hang_up_guest(world, process, other);
}

void begin_join(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    member->life = JOINS;
    member->since = world->now;
    member->said_done = false;
    memset(member->done, 0, sizeof member->done);
    keep_company(world, process, root_of(member));
    gyre_membership_destroy(member->agreement);
    member->agreement = NULL;
    turn_join(world, process);
}

/* A newcomer asks again, a member gathers. */
static void fail_join(struct world *world, uint32_t process)
{
    const struct member *member = &world->member[process];
    log_line(world, "process %u fails to join epoch %u", process, member->is.seen);
    hang_up_all(world, process);
    if (member->is.epoch)
        begin_gathering(world, process);
    else
        begin_to_ask(world, process);
}

/* Whether this member meets all others of the view now. */
static bool meets_all(const struct world *world, uint32_t process)
{
    const struct member *member = &world->member[process];
    uint64_t until;
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        const uint32_t other = process_at(member->address[seat]);
        const struct member *peer = &world->member[other];
        if (!takes_part(member, seat))
            continue;
        bool there = (peer->life == JOINS && peer->is.seen == member->is.seen) ||
                     (peer->life == RUNS && peer->is.epoch == member->is.seen);
        if (!there || peer->is.seat != seat || are_apart(world, process, other) ||
            is_stopped(world, other, &until))
            return false;
    }
    return true;
}

static void complete_join(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    uint32_t before = member->is.epoch;
    gyre_members_complete(&member->is);
    member->life = RUNS;
    member->run_at = world->now;
    memset(member->suspected, 0, sizeof member->suspected);
    for (uint32_t seat = 0; seat < SEATS; seat++)
        member->heard_at[seat] = world->now;
    log_line(world, "process %u completes epoch %u of %#x", process, member->is.epoch,
             seats_of(member->standing));
    world->grown += !before;
    if (member->is.epoch <= before)
        set_wrong(world, "process %u goes from epoch %u back to %u", process, before,
                  member->is.epoch);
    check_completion(world, process);
}

static bool all_done(const struct member *member)
{
    for (uint32_t seat = 0; seat < SEATS; seat++)
        if (takes_part(member, seat) && !member->done[process_at(member->address[seat])])
            return false;
    return true;
}

/* What rank 0 has said last may arrive before what it said first, which is lost with its host: so
 * the order is any. */
static void let_all_go(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    const uint32_t seats = gyre_members_next_seat(member->next, SEATS);
    const uint32_t first = (uint32_t)gyre_rng_below(&world->rng, seats);
    for (uint32_t i = 0; i < seats; i++) {
        const uint32_t seat = (first + i) % seats;
        const uint32_t other = process_at(member->address[seat]);
        if (!takes_part(member, seat))
            continue;
        if (world->fuse >= 0 && world->fuse-- == 0) {
            world->played[FUSE]++;
            end_member(world, process);
            return;
        }
        send_event(world, GO, process, other, false, member->guest[other].serial, NULL);
    }
    complete_join(world, process);
}

void turn_join(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    const uint32_t root = root_of(member);
    const bool is_root = member->is.seat == root;
    if (!member->said_done && meets_all(world, process)) {
        member->said_done = true;
        if (!is_root)
            send_event(world, DONE, process, process_at(member->address[root]), true,
                       member->dial[root].serial, NULL);
    }
    if (is_root && member->said_done && all_done(member))
        let_all_go(world, process);
    else if (world->now - member->since > (is_root ? PHASE : PHASE + PHASE / 2))
        fail_join(world, process);
}

void hear_join(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    const struct end *end =
        event->dialed ? &member->guest[event->from] : &member->dial[root_of(member)];
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
