/* Faults, and who may be blamed for what they do.
 *
 * A pause or a bad link that ends long before the dead time must go unnoticed, and a reset of the
 * watch's connections always: a job without any other fault succeeds. So does one whose damaged
 * byte was never sent, or whose failing allocation was never made. */
#include "sim/hunt/inside.h"

#define TOLERATED (HUNT_DEAD * 6 / 10)

void hunt_faults_schedule(void)
{
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        hunt_schedule((struct hunt_event){
            .at = HUNT_START + hunt.is->fault[i].at, .kind = HUNT_FAULT_BEGINS, .channel = i});
}

/* -- links ------------------------------------------------------------------------------------- */

static bool is_of_links(const struct hunt_fault *fault)
{
    return fault->kind >= HUNT_SLOW && fault->kind <= HUNT_SPLIT;
}

static bool lasts(const struct hunt_fault *fault)
{
    return fault->kind == HUNT_PAUSE || is_of_links(fault);
}

/* Whether a split has the rank on the side of its `a`. */
static bool is_aside(const struct hunt_fault *fault, uint32_t rank)
{
    return rank == fault->a || (rank != fault->b && (fault->skip >> rank & 1));
}

/* Whether a fault of links is one of this direction. */
static bool hurts(const struct hunt_fault *fault, uint32_t from, uint32_t to)
{
    bool there = from == fault->a && to == fault->b, back = from == fault->b && to == fault->a;
    if (fault->kind == HUNT_SPLIT)
        return is_aside(fault, from) != is_aside(fault, to);
    return there || (back && fault->kind != HUNT_LOSS);
}

static void slow_down(uint32_t from, uint32_t to, uint64_t slower_ns)
{
    struct gyre_sim_link link = {.latency_ns = hunt.is->latency_ns + slower_ns,
                                 .jitter_ns = hunt.is->jitter_ns,
                                 .bytes_per_second = hunt.is->bytes_per_second,
                                 .piece_bytes = hunt.is->piece_bytes,
                                 .coalesce_ns = hunt.is->coalesce_ns};
    gyre_sim_world_set_link(hunt.world, from, to, &link);
    hunt.slower_ns[from][to] = slower_ns;
}

static void hurt(const struct hunt_fault *fault, uint32_t from, uint32_t to)
{
    uint64_t until = gyre_now_ns() + fault->lasts;
    if (fault->kind == HUNT_SLOW) {
        slow_down(from, to, fault->skip * 2500);
        return;
    }
    gyre_sim_world_block(hunt.world, from, to, true);
    if (hunt.clogged_until[from][to] < until)
        hunt.clogged_until[from][to] = until;
}

static void heal(const struct hunt_fault *fault, uint32_t from, uint32_t to)
{
    if (fault->kind == HUNT_SLOW)
        slow_down(from, to, 0);
    else if (hunt.clogged_until[from][to] <= gyre_now_ns())
        gyre_sim_world_block(hunt.world, from, to, false);
}

static void for_links(const struct hunt_fault *fault,
                      void (*act)(const struct hunt_fault *fault, uint32_t from, uint32_t to))
{
    for (uint32_t from = 0; from < hunt.is->n; from++)
        for (uint32_t to = 0; to < hunt.is->n; to++)
            if (from != to && hurts(fault, from, to))
                act(fault, from, to);
}

/* -- all --------------------------------------------------------------------------------------- */

static void pause_rank(struct gyre_domain *rank, uint64_t until)
{
    gyre_sim_world_pause(hunt.world, rank->rank);
    if (rank->watch.silent_until < until)
        rank->watch.silent_until = until;
}

/* True: it did something. Of damage and of missing memory only the end of the run can tell. */
static bool begin(const struct hunt_fault *fault)
{
    struct gyre_domain *a = &hunt.rank[fault->a], *b = &hunt.rank[fault->b];
    switch (fault->kind) {
    case HUNT_CRASH:
        hunt_rank_crash(a);
        break;
    case HUNT_PAUSE:
        pause_rank(a, gyre_now_ns() + fault->lasts);
        break;
    case HUNT_RESET:
        gyre_sim_world_reset(hunt.world, fault->a, fault->b);
        return b->life == HUNT_LIVES;
    case HUNT_CORRUPT:
        gyre_sim_world_corrupt(hunt.world, fault->a, fault->b, fault->skip);
        return false;
    case HUNT_STALE:
        return hunt_watch_haunt(fault->a, fault->b);
    case HUNT_TWIN:
        return hunt_watch_repeat(fault->a, fault->b);
    case HUNT_NO_MEMORY:
        hunt_memory_fail(fault->a, fault->skip);
        return false;
    case HUNT_RESET_WATCH:
        hunt_watch_reset(fault->a, fault->skip % 2 == 0);
        return true;
    default:
        for_links(fault, hurt);
        return true;
    }
    return true;
}

static void end(const struct hunt_fault *fault)
{
    if (fault->kind != HUNT_PAUSE)
        for_links(fault, heal);
    else if (hunt.rank[fault->a].watch.silent_until <= gyre_now_ns())
        gyre_sim_world_resume(hunt.world, fault->a);
}

void hunt_fault_event(const struct hunt_event *event)
{
    const struct hunt_fault *fault = &hunt.is->fault[event->channel];
    bool lived = hunt.rank[fault->a].life == HUNT_LIVES;
    if (event->kind == HUNT_FAULT_ENDS) {
        hunt_note("a fault ends", fault->a, fault->kind, fault->b);
        end(fault);
        return;
    }
    hunt_note("a fault begins", fault->a, fault->kind, fault->b);
    hunt.begun[event->channel] = true;
    if (begin(fault) && lived)
        hunt.outcome->played[fault->kind]++;
    if (lasts(fault))
        hunt_schedule((struct hunt_event){.at = gyre_now_ns() + fault->lasts,
                                          .kind = HUNT_FAULT_ENDS,
                                          .channel = event->channel});
}

/* Whether what could only wait to happen has happened. */
static bool happened(const struct hunt_fault *fault)
{
    return fault->kind == HUNT_NO_MEMORY
               ? hunt_memory_failed(fault->a)
               : gyre_sim_world_corrupted(hunt.world, fault->a, fault->b) > 0;
}

static bool waits_to_happen(const struct hunt_fault *fault)
{
    return fault->kind == HUNT_NO_MEMORY || fault->kind == HUNT_CORRUPT;
}

void hunt_faults_count(void)
{
    for (uint32_t i = 0; i < hunt.is->faults; i++) {
        const struct hunt_fault *fault = &hunt.is->fault[i];
        if (hunt.begun[i] && waits_to_happen(fault))
            hunt.outcome->played[fault->kind] += happened(fault);
    }
}

/* -- blame ------------------------------------------------------------------------------------- */

static bool too_long(void)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        sum += hunt.begun[i] && lasts(&hunt.is->fault[i]) ? hunt.is->fault[i].lasts : 0;
    return sum > TOLERATED;
}

static bool may_fail(uint32_t i)
{
    const struct hunt_fault *fault = &hunt.is->fault[i];
    if (!hunt.begun[i] || fault->kind == HUNT_STALE || fault->kind == HUNT_TWIN ||
        fault->kind == HUNT_RESET_WATCH)
        return false;
    if (waits_to_happen(fault))
        return happened(fault);
    return !lasts(fault) || too_long();
}

static bool has_two_ends(enum hunt_fault_kind kind)
{
    return kind == HUNT_RESET || kind == HUNT_CORRUPT;
}

/* A rank that fails for another fault's sake tells so and ends. A peer whose connection was reset
 * just then hears of the end only. */
static bool cut_off(const struct hunt_fault *fault, uint32_t rank)
{
    return fault->kind == HUNT_RESET_WATCH && (rank == 0 || fault->a == rank) &&
           hunt_guilty_faults() > 0;
}

static bool keeps_root_away(const struct hunt_fault *fault)
{
    if (fault->kind == HUNT_CRASH || fault->kind == HUNT_PAUSE)
        return fault->a == 0;
    return is_of_links(fault) && (fault->kind == HUNT_SPLIT || fault->a == 0 || fault->b == 0);
}

/* Rank 0 tells ranks of other nodes the cause. Where it is missing, or the way to it is, they name
 * the rank whose connection they lost, which has ended because of another fault. */
static bool root_is_missing(const struct hunt_fault *fault, uint32_t i, uint32_t rank)
{
    return hunt.begun[i] && keeps_root_away(fault) && hunt_guilty_faults() > may_fail(i) &&
           atomic_load(&hunt.rank[rank].health.status) != 0;
}

/* A rank that is through leaves when it has waited long enough for the others. If a link is bad for
 * longer than that, others may still need it; so may one that waits for bytes which only a damaged
 * length has promised. */
static bool keeps_waiting(const struct hunt_fault *fault, uint32_t rank)
{
    const struct gyre_domain *left = &hunt.rank[rank];
    return is_of_links(fault) || (fault->kind == HUNT_CORRUPT && left->life == HUNT_ENDED &&
                                  !atomic_load(&left->health.status));
}

bool hunt_guilty(uint32_t rank)
{
    for (uint32_t i = 0; i < hunt.is->faults; i++) {
        const struct hunt_fault *fault = &hunt.is->fault[i];
        if (hunt.begun[i] && cut_off(fault, rank))
            return true;
        if (root_is_missing(fault, i, rank) || (may_fail(i) && keeps_waiting(fault, rank)))
            return true;
        if (may_fail(i) && (fault->a == rank || (has_two_ends(fault->kind) && fault->b == rank)))
            return true;
    }
    return false;
}

uint32_t hunt_guilty_faults(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        count += may_fail(i);
    return count;
}
