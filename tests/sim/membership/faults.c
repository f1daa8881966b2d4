/* What happens to members and their connections. */
#include "sim/membership/inside.h"

/* Breaks one connection: both ends notice, or only the end that made it. */
static void break_end(struct world *world, uint32_t from, const struct end *end, bool both)
{
    const struct event here = {
        .kind = HUNG_UP, .from = end->peer, .to = from, .serial = end->serial};
    const struct event there = {
        .kind = HUNG_UP, .from = from, .to = end->peer, .dialed = true, .serial = end->serial};
    world->played[RESET]++;
    post_event(world, world->now, &here);
    if (both)
        post_event(world, world->now, &there);
}

/* Breaks what one process has dialed to another. */
static void break_dials(struct world *world, uint32_t from, uint32_t to, bool both)
{
    const struct member *member = &world->member[from];
    for (uint32_t seat = 0; seat < SEATS; seat++)
        if (member->dial[seat].serial && member->dial[seat].peer == to)
            break_end(world, from, &member->dial[seat], both);
    if (member->ask.serial && member->ask.peer == to)
        break_end(world, from, &member->ask, both);
}

/* All leave the epoch by agreement, where nothing has failed. */
static void shrink_all(struct world *world, uint32_t leavers)
{
    for (uint32_t process = 0; process < world->is->processes; process++) {
        if (world->member[process].life != RUNS)
            continue;
        begin_to_shrink(world, process, leavers >> process & 1);
        world->played[SHRINK]++;
    }
}

/* Each view that runs grows, at its rank 0's word. */
static void grow_all(struct world *world, uint32_t most)
{
    for (uint32_t process = 0; process < world->is->processes; process++) {
        const struct member *member = &world->member[process];
        uint32_t root = 0;
        while (member->life == RUNS && member->standing[root] != GYRE_STANDS)
            root++;
        if (member->life == RUNS && member->is.seat == root)
            grow_view(world, process, most);
    }
}

static void touch(struct world *world, const struct fault *fault)
{
    for (uint32_t process = 0; process < world->is->processes; process++)
        if (fault->kind != STOP || fault->side >> process & 1)
            world->member[process].touched = true;
}

void start_fault(struct world *world, uint32_t number)
{
    const struct fault *fault = &world->is->fault[number];
    log_line(world, "fault %u comes: %s", number, fault_name(fault->kind));
    switch (fault->kind) {
    case KILL:
        for (uint32_t process = 0; process < world->is->processes; process++)
            if (fault->side >> process & 1)
                end_member(world, process);
        world->played[KILL]++;
        break;
    case STOP:
    case CUT:
    case LOSE:
        touch(world, fault);
        world->played[fault->kind]++;
        break;
    case RESET:
        break_dials(world, fault->a, fault->b, !(fault->side & 1));
        break_dials(world, fault->b, fault->a, !(fault->side & 1));
        break;
    case SHRINK:
        shrink_all(world, fault->side);
        break;
    case GROW:
        grow_all(world, fault->a + 1);
        break;
    default:
        world->fuse = fault->a;
    }
}

void stop_fault(struct world *world, uint32_t number)
{
    log_line(world, "fault %u goes: %s", number, fault_name(world->is->fault[number].kind));
}
