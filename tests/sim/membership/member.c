/* The life of a member.
 *
 *     RUNS ── its view fails ──▶ SLOW ── the program calls ──▶ GATHERS ── a view ──▶ JOINS ─╮
 *      ▲                                                        │   ▲                    │  │
 *      ╰────────────────────────────────────────────────────────│───╰───────── it fails ─╯  │
 *      ╰────────────────────────────────────────────────────────│───────────────────────────╯
 *                                                               ╰──▶ OVER
 *
 * While it runs, and while its program is slow, the watch answers whoever dials. */
#include "sim/membership/inside.h"

#include <stdlib.h>

#define RUNNING_TURN (50 * GYRE_MS)
#define JOINING_TURN (5 * GYRE_MS)
#define LATENESS     (500 * GYRE_MS) /* of its own, which a member does not count as silence */

uint32_t seats_of(const uint8_t *standing)
{
    uint32_t seats = 0;
    for (uint32_t seat = 0; seat < SEATS; seat++)
        seats |= (uint32_t)(standing[seat] == GYRE_STANDS) << seat;
    return seats;
}

uint32_t processes_of(const struct member *member, const uint8_t *standing)
{
    uint32_t processes = 0;
    for (uint32_t seat = 0; seat < SEATS; seat++)
        if (standing[seat] == GYRE_STANDS)
            processes |= UINT32_C(1) << process_at(member->address[seat]);
    return processes;
}

void turn_at(struct world *world, uint32_t process, uint64_t at)
{
    struct member *member = &world->member[process];
    member->turning = true;
    post_event(world, at, &(struct event){.kind = TURN, .to = process, .serial = ++member->turn});
}

void begin_member(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    member->is = (struct gyre_members){.n = SEATS,
                                       .standing = member->standing,
                                       .next = member->next,
                                       .at = calloc(SEATS, sizeof *member->is.at)};
    begin_to_ask(world, process);
    if (process >= world->is->n) {
        turn_at(world, process, world->is->comes[process]);
        return;
    }
    member->life = RUNS;
    member->is.seat = process;
    member->is.epoch = member->is.seen = 1;
    for (uint32_t seat = 0; seat < world->is->n; seat++)
        member->address[seat] = address_of(seat, 1);
    turn_at(world, process, process * GYRE_MS);
}

void end_member(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    if (member->life == ENDS)
        return;
    log_line(world, "process %u ends", process);
    member->life = ENDS;
    member->finalized = true;
    hang_up_all(world, process);
    end_room(world, process);
}

/* -- while it runs ----------------------------------------------------------------------------- */

void begin_to_shrink(struct world *world, uint32_t process, bool leaving)
{
    struct member *member = &world->member[process];
    if (member->life != RUNS)
        return;
    member->life = SLOW;
    member->leaving = leaving;
    member->since = world->now + world->is->slow[process];
    turn_at(world, process, member->since);
}

static void lose(struct world *world, uint32_t process, uint32_t seat)
{
    log_line(world, "process %u has lost seat %u", process, seat);
    world->member[process].suspected[seat] = true;
    begin_to_shrink(world, process, false);
}

/* What the failure detector learns of another member of the same view. */
static void watch_peer(struct world *world, uint32_t process, uint32_t seat)
{
    struct member *member = &world->member[process];
    const uint32_t other = process_at(member->address[seat]);
    const struct member *peer = &world->member[other];
    uint64_t until;
    bool same = peer->is.epoch == member->is.epoch;
    bool joins = peer->life == JOINS && peer->is.seen == member->is.epoch;
    if (!are_apart(world, process, other)) {
        if (peer->finalized || peer->life == ASKS)
            lose(world, process, seat);
        else if (is_stopped(world, other, &until))
            ;
        else if (joins || (same && peer->life == RUNS))
            member->heard_at[seat] = world->now;
        else if (same)
            begin_to_shrink(world, process, false); /* told of the failure */
    }
    if (member->life == RUNS && world->now - member->heard_at[seat] > DEAD)
        lose(world, process, seat);
}

/* Time in which this member stood still is granted to all. */
static void turn_running(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    uint64_t gap = world->now - member->run_at;
    for (uint32_t seat = 0; seat < SEATS && gap > LATENESS; seat++)
        member->heard_at[seat] += gap;
    member->run_at = world->now;
    for (uint32_t seat = 0; seat < SEATS && member->life == RUNS; seat++)
        if (seat != member->is.seat && member->standing[seat] == GYRE_STANDS)
            watch_peer(world, process, seat);
}

/* -- events ------------------------------------------------------------------------------------ */

static void turn_member(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    if (member->life == RUNS)
        turn_running(world, process);
    else if (member->life == SLOW && world->now >= member->since)
        begin_gathering(world, process);
    else if (member->life == GATHERS)
        turn_gathering(world, process);
    else if (member->life == JOINS)
        turn_join(world, process);
    else if (member->life == ASKS)
        turn_newcomer(world, process);
}

/* The watch tells how this member stands, and hangs up. */
static void answer_by_watch(struct world *world, const struct event *event)
{
    const struct member *member = &world->member[event->to];
    const struct gyre_statement said = {.epoch = member->is.epoch,
                                        .seen = member->is.seen,
                                        .coordinator = NOBODY,
                                        .standing = member->standing};
    send_event(world, ANSWER, event->to, event->from, false, event->serial, &said);
    send_event(world, HUNG_UP, event->to, event->from, false, event->serial, NULL);
}

static void plan_next_turn(struct world *world, uint32_t process)
{
    const struct member *member = &world->member[process];
    uint64_t at = world->now + RUNNING_TURN;
    if (member->life == GATHERS)
        at = next_dial_at(world, process);
    else if (member->life == JOINS)
        at = world->now + JOINING_TURN;
    else if (member->life == SLOW)
        at = member->since > world->now ? member->since : world->now;
    if (member->life < OVER && !member->turning)
        turn_at(world, process, at);
}

/* A member whose address it is not has gone. */
static bool is_for_another(const struct member *member, const struct event *event)
{
    return event->kind == SYN && event->listener != member->listener;
}

void take_event(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    enum life before = member->life;
    if (event->kind == TURN && event->serial != member->turn)
        return;
    if (event->kind == TURN) {
        member->turning = false;
        turn_member(world, event->to);
    } else if (event->kind == FINALIZE) {
        member->finalized = true;
    } else if (member->finalized || is_for_another(member, event)) {
        if (event->kind == SYN)
            send_event(world, REFUSED, event->to, event->from, false, event->serial, NULL);
    } else if (hear_room(world, event)) {
        ;
    } else if (member->life == ASKS) {
        hear_newcomer(world, event);
    } else if (member->life == GATHERS) {
        hear_gathering(world, event);
    } else if (member->life == JOINS) {
        hear_join(world, event);
    } else if (event->kind == SYN && member->life < GATHERS) {
        answer_by_watch(world, event);
    }
    if (member->life != before && member->life != SLOW)
        member->turning = false;
    plan_next_turn(world, event->to);
}
