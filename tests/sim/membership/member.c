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

uint32_t seats_of(const uint8_t *standing, uint32_t n)
{
    uint32_t seats = 0;
    for (uint32_t seat = 0; seat < n; seat++)
        seats |= (uint32_t)(standing[seat] == GYRE_STANDS) << seat;
    return seats;
}

/* Posts the next turn; one that was posted before is void. */
static void turn_at(struct world *world, uint32_t seat, uint64_t at)
{
    struct member *member = &world->member[seat];
    member->turning = true;
    post_event(world, at, &(struct event){.kind = TURN, .to = seat, .serial = ++member->turn});
}

void begin_member(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    member->is = (struct gyre_members){.n = world->is->n,
                                       .seat = seat,
                                       .epoch = 1,
                                       .seen = 1,
                                       .standing = member->standing,
                                       .next = member->next,
                                       .at = calloc(world->is->n, sizeof *member->is.at)};
    turn_at(world, seat, seat * GYRE_MS);
}

void end_member(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    if (member->life == ENDS)
        return;
    log_line(world, "seat %u ends", seat);
    member->life = ENDS;
    member->finalized = true;
    for (uint32_t other = 0; other < world->is->n; other++) {
        hang_up(world, seat, other, true);
        hang_up(world, seat, other, false);
    }
}

/* -- while it runs ----------------------------------------------------------------------------- */

void begin_to_shrink(struct world *world, uint32_t seat, bool leaving)
{
    struct member *member = &world->member[seat];
    if (member->life != RUNS)
        return;
    member->life = SLOW;
    member->leaving = leaving;
    member->since = world->now + world->is->slow[seat];
    turn_at(world, seat, member->since);
}

static void lose(struct world *world, uint32_t seat, uint32_t other)
{
    log_line(world, "seat %u has lost seat %u", seat, other);
    world->member[seat].suspected[other] = true;
    begin_to_shrink(world, seat, false);
}

/* What the failure detector learns of another member of the same view. */
static void watch_peer(struct world *world, uint32_t seat, uint32_t other)
{
    struct member *member = &world->member[seat];
    const struct member *peer = &world->member[other];
    uint64_t until;
    bool same = peer->is.epoch == member->is.epoch;
    bool joins = peer->life == JOINS && peer->is.seen == member->is.epoch;
    if (!are_apart(world, seat, other)) {
        if (peer->finalized)
            lose(world, seat, other);
        else if (is_stopped(world, other, &until))
            ;
        else if (joins || (same && peer->life == RUNS))
            member->heard_at[other] = world->now;
        else if (same)
            begin_to_shrink(world, seat, false); /* told of the failure */
    }
    if (member->life == RUNS && world->now - member->heard_at[other] > DEAD)
        lose(world, seat, other);
}

/* Time in which this member stood still is granted to all. */
static void turn_running(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    uint64_t gap = world->now - member->run_at;
    for (uint32_t other = 0; other < world->is->n && gap > LATENESS; other++)
        member->heard_at[other] += gap;
    member->run_at = world->now;
    for (uint32_t other = 0; other < world->is->n && member->life == RUNS; other++)
        if (other != seat && member->standing[other] == GYRE_STANDS)
            watch_peer(world, seat, other);
}

/* -- events ------------------------------------------------------------------------------------ */

static void turn_member(struct world *world, uint32_t seat)
{
    struct member *member = &world->member[seat];
    if (member->life == RUNS)
        turn_running(world, seat);
    else if (member->life == SLOW && world->now >= member->since)
        begin_gathering(world, seat);
    else if (member->life == GATHERS)
        turn_gathering(world, seat);
    else if (member->life == JOINS)
        turn_join(world, seat);
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

static void plan_next_turn(struct world *world, uint32_t seat)
{
    const struct member *member = &world->member[seat];
    uint64_t at = world->now + RUNNING_TURN;
    if (member->life == GATHERS)
        at = next_dial_at(world, seat);
    else if (member->life == JOINS)
        at = world->now + JOINING_TURN;
    else if (member->life == SLOW)
        at = member->since > world->now ? member->since : world->now;
    if (member->life < OVER && !member->turning)
        turn_at(world, seat, at);
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
    } else if (member->finalized) {
        if (event->kind == SYN)
            send_event(world, REFUSED, event->to, event->from, false, event->serial, NULL);
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
