/* Faults, and who may be blamed for what they do.
 *
 * A pause or a bad link that ends long before the dead time must go unnoticed, and a reset of the
 * watch's connections always: a job without any other fault succeeds. So does one whose damaged
 * byte was never sent, or whose failing allocation was never made.
 *
 * A failure is explained by a fault that may fail the job and that has hit the rank of which the
 * failure speaks, or a line of that rank. Altered bytes are told only where a bit was flipped,
 * missing memory where an allocation has failed, and calls that differ where a rank's program ended
 * early because of that. The one other true story is that of a rank which had ended: see
 * hunt_excuses_end(). */
#include "sim/hunt/inside.h"

#include <errno.h>

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

/* Whether a reset finds no connection: at most the attempt to make one fails. */
static bool spares(const struct hunt_fault *fault)
{
    bool *spared = &hunt.spared[fault - hunt.is->fault];
    *spared = !hunt_links_reset(fault->a, fault->b);
    return *spared;
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
        if (spares(fault))
            return true;
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
    case HUNT_RESET_DIAL:
        hunt.dials_to_reset[fault->a] += 1 + fault->skip % 3;
        return true;
    case HUNT_STALE_DIAL:
        return hunt_links_repeat(fault->a);
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

static bool is_harmless(const struct hunt_fault *fault)
{
    return fault->kind == HUNT_STALE || fault->kind == HUNT_TWIN ||
           fault->kind >= HUNT_RESET_WATCH; /* the rest are of what is made anew, or tried again */
}

/* Whether the fault has begun and may fail the job. */
static bool may_fail(uint32_t i)
{
    const struct hunt_fault *fault = &hunt.is->fault[i];
    if (!hunt.begun[i] || hunt.spared[i] || is_harmless(fault))
        return false;
    if (waits_to_happen(fault))
        return happened(fault);
    return !lasts(fault) || too_long();
}

uint32_t hunt_guilty_faults(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        count += may_fail(i);
    return count;
}

bool hunt_hits(const struct hunt_fault *fault, uint32_t rank)
{
    switch (fault->kind) {
    case HUNT_CRASH:
    case HUNT_PAUSE:
    case HUNT_NO_MEMORY:
        return fault->a == rank;
    case HUNT_SPLIT: /* each rank has a line to the other part */
        return true;
    default:
        return fault->a == rank || fault->b == rank;
    }
}

/* Whether the fault is one that can bring about such a failure. */
static bool explains(const struct hunt_fault *fault, int status)
{
    switch (status) {
    case GYRE_CORRUPT:
        return fault->kind == HUNT_CORRUPT;
    case -ENOMEM:
        return fault->kind == HUNT_NO_MEMORY;
    case GYRE_MISMATCH: /* the rank's program ended early */
        return fault->kind == HUNT_NO_MEMORY;
    default:
        return true;
    }
}

bool hunt_guilty(uint32_t rank, int status)
{
    for (uint32_t i = 0; i < hunt.is->faults; i++)
        if (may_fail(i) && explains(&hunt.is->fault[i], status) &&
            hunt_hits(&hunt.is->fault[i], rank))
            return true;
    return false;
}

static bool keeps_root_away(const struct hunt_fault *fault)
{
    if (fault->kind == HUNT_CRASH || fault->kind == HUNT_PAUSE)
        return fault->a == 0;
    return is_of_links(fault) && hunt_hits(fault, 0);
}

/* The rank through which a rank hears rank 0, in a tree. */
static uint32_t rank_above(uint32_t rank)
{
    const struct hunt_scenario *is = hunt.is;
    const uint32_t node = rank / is->per_node, place = rank % is->per_node;
    if (place > 0)
        return rank - place + (is->large ? gyre_joined_above(place, is->fan_out) : 0);
    return node > 0 ? gyre_joined_above(node, is->fan_out) * is->per_node : HUNT_NOBODY;
}

/* Whether others hear rank 0 through this one, in a tree: those of its node, and of nodes below. */
static bool passes_on(uint32_t rank)
{
    for (uint32_t below = rank + 1; below < hunt.is->n; below++)
        if (rank_above(below) == rank)
            return true;
    return false;
}

/* Whether the fault is of the line over which one of two ranks hears rank 0. */
static bool cuts_an_edge(const struct hunt_fault *fault)
{
    const uint32_t low = fault->a < fault->b ? fault->a : fault->b,
                   high = fault->a ^ fault->b ^ low;
    return hunt.is->fan_out && is_of_links(fault) && fault->kind != HUNT_SPLIT &&
           rank_above(high) == low;
}

bool hunt_cuts_the_tree(const struct hunt_fault *fault)
{
    const uint32_t told = hunt.rank[0].health.failed_rank, guilty = hunt_guilty_faults();
    const bool fails = may_fail((uint32_t)(fault - hunt.is->fault));
    const bool delays = fault->kind == HUNT_PAUSE || is_of_links(fault);
    bool cuts = guilty > 0 && cuts_an_edge(fault);
    if (!hunt.is->fan_out || !(fails ? guilty > 1 : delays && guilty > 0))
        return cuts;
    for (uint32_t rank = 1; rank < hunt.is->n; rank++)
        cuts |= hunt_hits(fault, rank) && passes_on(rank) && rank != told;
    return cuts;
}

/* Whether a rank may be told the end of `rank`, which had ended because of a fault, and not that
 * fault. There are four ways to that:
 *
 *   - the reset of its watch's connection swallowed its last word, or rank 0's
 *   - rank 0, which tells the cause to ranks of other nodes, is away, or the way to it is
 *   - in a tree, a rank that passes rank 0's word on is stopped by a second fault
 *   - it was through and left when it had waited long enough, but others were behind a bad link */
bool hunt_excuses_end(uint32_t rank)
{
    bool excused = hunt.reset_ends >> rank & 1;
    for (uint32_t i = 0; i < hunt.is->faults; i++) {
        const struct hunt_fault *fault = &hunt.is->fault[i];
        if (hunt.begun[i])
            excused |= (fault->kind == HUNT_RESET_WATCH && hunt_hits(fault, rank)) ||
                       keeps_root_away(fault) || hunt_cuts_the_tree(fault) ||
                       (is_of_links(fault) && may_fail(i));
    }
    return excused && hunt_guilty_faults() > 0;
}
