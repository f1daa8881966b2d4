/* Processes that come new, as transport/members/newcomer.c and waiting_room.c have them.
 *
 *     ASKS ── finds rank 0, which has a place ──▶ waits there ── TAKEN ──▶ JOINS ──▶ RUNS
 *       ▲                                            │                        │
 *       ╰────────── the connection ends ─────────────┴──────── it fails ──────╯
 *
 * Rank 0 of each view that runs has a place, which goes with the process from epoch to epoch. */
#include "sim/membership/inside.h"

#define ASKING_TURN (20 * GYRE_MS)

/* -- a newcomer -------------------------------------------------------------------------------- */

/* Forgets all of an attempt: a further one is a member's that nobody knows. */
void begin_to_ask(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    hang_up_all(world, process);
    gyre_membership_destroy(member->agreement);
    member->agreement = NULL;
    member->life = ASKS;
    member->listener++;
    member->leaving = false;
    member->grows = 0;
    member->is.seat = NOBODY;
    member->is.epoch = member->is.seen = 0;
    member->is.founders = world->is->n;
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        member->standing[seat] = seat < world->is->n ? GYRE_STANDS : GYRE_STANDING_VACANT;
        member->next[seat] = member->standing[seat];
        member->address[seat] = 0;
    }
}

static bool has_place(const struct member *member)
{
    uint32_t root = 0;
    while (root < SEATS && member->standing[root] != GYRE_STANDS)
        root++;
    return member->life == RUNS && member->is.seat == root;
}

/* Finds a place, in turn where there are several. */
static uint32_t find_place(const struct world *world, uint32_t process)
{
    const uint32_t n = world->is->processes;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t other = (uint32_t)((world->now / GYRE_MS + i) % n);
        if (other != process && has_place(&world->member[other]))
            return other;
    }
    return NOBODY;
}

void turn_newcomer(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    uint32_t root = member->ask.serial ? NOBODY : find_place(world, process);
    if (root != NOBODY)
        send_syn(world, process, &member->ask, address_of(root, world->member[root].listener));
    turn_at(world, process, world->now + ASKING_TURN);
}

/* Takes the seat, the members and the view that rank 0 has told. The connection serves the join. */
static void be_taken(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    uint32_t root = 0;
    while (event->standing[root] != GYRE_STANDS)
        root++;
    member->is.seat = event->seat;
    memcpy(member->address, event->address, sizeof member->address);
    gyre_members_expect(&member->is, event->standing, event->said.epoch);
    member->dial[root] = member->ask;
    member->ask = (struct end){0};
    log_line(world, "process %u is taken in as seat %u of view %u", event->to, event->seat,
             event->said.epoch);
    begin_join(world, event->to);
}

void hear_newcomer(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    if (event->kind == SYN) {
        send_event(world, REFUSED, event->to, event->from, false, event->serial, NULL);
        return;
    }
    if (event->dialed || !event->serial || event->serial != member->ask.serial)
        return;
    if (event->kind == ESTABLISHED)
        send_event(world, ASK, event->to, event->from, true, event->serial, NULL);
    else if (event->kind == TAKEN)
        be_taken(world, event);
    else if (event->kind == HUNG_UP || event->kind == REFUSED)
        begin_to_ask(world, event->to);
}

/* -- rank 0 ------------------------------------------------------------------------------------ */

static bool drop_waiting(struct waiting *list, uint32_t *count, uint64_t serial)
{
    for (uint32_t i = 0; i < *count; i++)
        if (list[i].serial == serial) {
            memmove(&list[i], &list[i + 1], (--*count - i) * sizeof *list);
            return true;
        }
    return false;
}

/* Lets a newcomer in, which comes to the place and not to the listener. */
static void answer_newcomer(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    const bool open = member->life < ASKS && member->waits < WAITING_MOST;
    if (event->kind == SYN)
        send_event(world, open ? ESTABLISHED : REFUSED, event->to, event->from, false,
                   event->serial, NULL);
    else if (!open)
        send_event(world, HUNG_UP, event->to, event->from, false, event->serial, NULL);
    else
        member->waiting[member->waits++] = (struct waiting){event->from, event->serial};
}

/* A connection that ends stays among those invited, as it does in gather.c: nobody reads it before
 * the join. */
bool hear_room(struct world *world, const struct event *event)
{
    struct member *member = &world->member[event->to];
    if ((event->kind == SYN && event->seat == NOBODY) || event->kind == ASK) {
        answer_newcomer(world, event);
        return true;
    }
    return event->dialed && event->kind == HUNG_UP &&
           drop_waiting(member->waiting, &member->waits, event->serial);
}

static void invite(struct member *root, uint32_t most)
{
    const uint32_t seats = SEATS - gyre_members_next_seat(root->standing, SEATS);
    most = most < root->waits ? most : root->waits;
    root->invites = most < seats ? most : seats;
    memcpy(root->invited, root->waiting, root->invites * sizeof *root->invited);
    root->waits -= root->invites;
    memmove(root->waiting, &root->waiting[root->invites], root->waits * sizeof *root->waiting);
}

void disinvite(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    for (uint32_t i = 0; i < member->invites; i++)
        send_event(world, HUNG_UP, process, member->invited[i].process, false,
                   member->invited[i].serial, NULL);
    member->invites = 0;
}

void end_room(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    disinvite(world, process);
    member->invites = member->waits;
    memcpy(member->invited, member->waiting, member->waits * sizeof *member->waiting);
    member->waits = 0;
    disinvite(world, process);
}

/* All ranks of the view that runs reach gyre_grow(), and are told how many come. */
void grow_view(struct world *world, uint32_t root, uint32_t most)
{
    struct member *first = &world->member[root];
    const uint32_t seats = seats_of(first->standing);
    for (uint32_t seat = 0; seat < SEATS; seat++) {
        const struct member *member = &world->member[process_at(first->address[seat])];
        if (seats >> seat & 1 && (member->life != RUNS || member->is.epoch != first->is.epoch ||
                                  are_apart(world, root, process_at(first->address[seat]))))
            return;
    }
    invite(first, most);
    if (!first->invites)
        return;
    world->played[GROW]++;
    log_line(world, "process %u invites %u", root, first->invites);
    for (uint32_t seat = 0; seat < SEATS; seat++)
        if (seats >> seat & 1) {
            struct member *member = &world->member[process_at(first->address[seat])];
            member->grows = (uint32_t)__builtin_popcount(seats) + first->invites;
            begin_to_shrink(world, process_at(first->address[seat]), false);
        }
}
