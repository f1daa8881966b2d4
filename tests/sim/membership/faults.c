/* What happens to members and their connections. */
#include "sim/membership/inside.h"

/* Breaks one connection: both ends notice, or only the end that made it. */
static void break_dial(struct world *world, uint32_t from, uint32_t to, bool both)
{
    const struct end *dial = &world->member[from].dial[to];
    if (!dial->serial)
        return;
    world->played[RESET]++;
    post_event(world, world->now,
               &(struct event){.kind = HUNG_UP, .from = to, .to = from, .serial = dial->serial});
    if (both)
        post_event(
            world, world->now,
            &(struct event){
                .kind = HUNG_UP, .from = from, .to = to, .dialed = true, .serial = dial->serial});
}

/* All leave the epoch by agreement, where nothing has failed. */
static void shrink_all(struct world *world, uint32_t leavers)
{
    for (uint32_t seat = 0; seat < world->is->n; seat++) {
        if (world->member[seat].life != RUNS)
            continue;
        begin_to_shrink(world, seat, leavers >> seat & 1);
        world->played[SHRINK]++;
    }
}

static void touch(struct world *world, const struct fault *fault)
{
    for (uint32_t seat = 0; seat < world->is->n; seat++)
        if (fault->kind != STOP || fault->side >> seat & 1)
            world->member[seat].touched = true;
}

void start_fault(struct world *world, uint32_t number)
{
    const struct fault *fault = &world->is->fault[number];
    log_line(world, "fault %u comes: %s", number, fault_name(fault->kind));
    switch (fault->kind) {
    case KILL:
        for (uint32_t seat = 0; seat < world->is->n; seat++)
            if (fault->side >> seat & 1)
                end_member(world, seat);
        world->played[KILL]++;
        break;
    case STOP:
    case CUT:
    case LOSE:
        touch(world, fault);
        world->played[fault->kind]++;
        break;
    case RESET:
        break_dial(world, fault->a, fault->b, !(fault->side & 1));
        break_dial(world, fault->b, fault->a, !(fault->side & 1));
        break;
    case SHRINK:
        shrink_all(world, fault->side);
        break;
    default:
        world->fuse = fault->a;
    }
}

void stop_fault(struct world *world, uint32_t number)
{
    log_line(world, "fault %u goes: %s", number, fault_name(world->is->fault[number].kind));
}
