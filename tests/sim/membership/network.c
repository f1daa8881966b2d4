/* Connections between members: delays, cuts, breaks and refusals. */
#include "sim/membership/inside.h"

static bool crosses(const struct fault *fault, uint32_t from, uint32_t to)
{
    bool from_in = fault->side >> from & 1, to_in = fault->side >> to & 1;
    return fault->kind == CUT ? from_in != to_in : fault->kind == LOSE && from_in && !to_in;
}

bool is_cut(const struct world *world, uint32_t from, uint32_t to, uint64_t *until)
{
    *until = 0;
    for (const struct fault *fault = world->is->fault; fault < world->is->fault + world->is->faults;
         fault++)
        if (fault->at <= world->now && world->now < fault->until && crosses(fault, from, to) &&
            fault->until > *until)
            *until = fault->until;
    return *until != 0;
}

bool are_apart(const struct world *world, uint32_t one, uint32_t other)
{
    uint64_t until;
    return is_cut(world, one, other, &until) || is_cut(world, other, one, &until);
}

bool is_stopped(const struct world *world, uint32_t process, uint64_t *until)
{
    *until = 0;
    for (const struct fault *fault = world->is->fault; fault < world->is->fault + world->is->faults;
         fault++)
        if (fault->kind == STOP && fault->side >> process & 1 && fault->at <= world->now &&
            world->now < fault->until && fault->until > *until)
            *until = fault->until;
    return *until != 0;
}

/* The kernel sends again what was not acknowledged, for as long as a silence may last. */
static void transmit(struct world *world, struct event *event, const struct gyre_statement *said)
{
    const uint32_t from = event->from, to = event->to;
    uint64_t delay = world->is->latency, heals, at;
    if (said) {
        event->said = *said;
        memcpy(event->standing, said->standing, SEATS);
        memcpy(event->address, world->member[from].address, sizeof event->address);
    }
    if (world->is->jitter)
        delay += gyre_rng_below(&world->rng, world->is->jitter);
    at = world->now + delay;
    if (is_cut(world, from, to, &heals)) {
        if (heals == NEVER || heals - world->now > DEAD) {
            post_event(world, world->now + DEAD,
                       &(struct event){.kind = HUNG_UP,
                                       .from = to,
                                       .to = from,
                                       .dialed = !event->dialed,
                                       .serial = event->serial});
            return;
        }
        at = heals + delay;
    }
    if (at < world->in_order[from][to])
        at = world->in_order[from][to];
    world->in_order[from][to] = at;
    post_event(world, at, event);
}

void send_event(struct world *world, enum event_kind kind, uint32_t from, uint32_t to, bool dialed,
                uint64_t serial, const struct gyre_statement *said)
{
    struct event event = {.kind = kind,
                          .from = from,
                          .to = to,
                          .dialed = dialed,
                          .serial = serial,
                          .seat = world->member[from].is.seat};
    transmit(world, &event, said);
}

void send_taken(struct world *world, uint32_t from, const struct waiting *to, uint32_t seat,
                const struct gyre_statement *said)
{
    struct event event = {
        .kind = TAKEN, .from = from, .to = to->process, .serial = to->serial, .seat = seat};
    transmit(world, &event, said);
}

void send_syn(struct world *world, uint32_t from, struct end *end, uint32_t address)
{
    struct event event = {.kind = SYN,
                          .from = from,
                          .to = process_at(address),
                          .dialed = true,
                          .serial = ++world->serials,
                          .seat = world->member[from].is.seat,
                          .listener = address & UINT16_MAX};
    end->serial = event.serial;
    end->peer = event.to;
    end->calls = false;
    if (!are_apart(world, from, event.to))
        transmit(world, &event, NULL);
}

void hang_up_dial(struct world *world, uint32_t process, struct end *dial)
{
    if (dial->serial)
        send_event(world, HUNG_UP, process, dial->peer, true, dial->serial, NULL);
    dial->serial = 0;
    dial->calls = false;
}

void hang_up_guest(struct world *world, uint32_t process, uint32_t other)
{
    struct end *guest = &world->member[process].guest[other];
    if (guest->serial)
        send_event(world, HUNG_UP, process, other, false, guest->serial, NULL);
    guest->serial = 0;
    guest->calls = false;
}

void hang_up_all(struct world *world, uint32_t process)
{
    struct member *member = &world->member[process];
    for (uint32_t seat = 0; seat < SEATS; seat++)
        hang_up_dial(world, process, &member->dial[seat]);
    for (uint32_t other = 0; other < world->is->processes; other++)
        hang_up_guest(world, process, other);
    hang_up_dial(world, process, &member->ask);
}
