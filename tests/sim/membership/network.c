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

bool is_stopped(const struct world *world, uint32_t seat, uint64_t *until)
{
    *until = 0;
    for (const struct fault *fault = world->is->fault; fault < world->is->fault + world->is->faults;
         fault++)
        if (fault->kind == STOP && fault->side >> seat & 1 && fault->at <= world->now &&
            world->now < fault->until && fault->until > *until)
            *until = fault->until;
    return *until != 0;
}

/* The kernel sends again what was not acknowledged, for as long as a silence may last. */
void send_event(struct world *world, enum event_kind kind, uint32_t from, uint32_t to, bool dialed,
                uint64_t serial, const struct gyre_statement *said)
{
    struct event event = {.kind = kind, .from = from, .to = to, .dialed = dialed, .serial = serial};
    uint64_t delay = world->is->latency, heals, at;
    if (said) {
        event.said = *said;
        memcpy(event.standing, said->standing, world->is->n);
    }
    if (world->is->jitter)
        delay += gyre_rng_below(&world->rng, world->is->jitter);
    at = world->now + delay;
    if (is_cut(world, from, to, &heals)) {
        if (heals == NEVER || heals - world->now > DEAD) {
            post_event(
                world, world->now + DEAD,
                &(struct event){
                    .kind = HUNG_UP, .from = to, .to = from, .dialed = !dialed, .serial = serial});
            return;
        }
        at = heals + delay;
    }
    if (at < world->in_order[from][to])
        at = world->in_order[from][to];
    world->in_order[from][to] = at;
    post_event(world, at, &event);
}

void send_syn(struct world *world, uint32_t from, uint32_t to)
{
    struct end *dial = &world->member[from].dial[to];
    dial->serial = ++world->serials;
    dial->calls = false;
    if (!are_apart(world, from, to))
        send_event(world, SYN, from, to, true, dial->serial, NULL);
}

void hang_up(struct world *world, uint32_t seat, uint32_t other, bool dialed)
{
    struct member *member = &world->member[seat];
    struct end *end = dialed ? &member->dial[other] : &member->guest[other];
    if (end->serial)
        send_event(world, HUNG_UP, seat, other, dialed, end->serial, NULL);
    end->serial = 0;
    end->calls = false;
}
