/* The price of a schedule.
 *
 *     round      r₀ sends 3, receives 3   ┐  the dearest rank counts: its price is the path's
 *                r₁ sends 1               ┘
 *     rank       latency of the slowest kind used + messages × price + bytes × price + folded bytes
 *     slice      path: the sum over rounds.  busy, work: the sum over a rank's rounds, without
 *                latency; the busiest rank counts
 *     operation  ▐ path ▐ one slice more ▐ one more …   each takes what is scarcest: the links, the
 *                core, or the path shared by the lanes that run beside each other
 *
 * All numbers are whole picoseconds, so all machines compute the same. Ranks of one node share its
 * way to the network: the bytes that they send together pass through it. A way that was idle lets a
 * burst pass at once, and a way in loses time where several ranks send to it. Buffers that outgrow
 * the cache slow what a core moves, and not the network.
 *
 * On mapped memory no message is sent: the receiver reads and writes the bytes in place, or fetches
 * short ones out of entry lines (mapped_price.h).
 *
 * Tested by tests/unit/collectives/choose/choose_test.c. */
#include "collectives/choose/cost.h"

#include "collectives/choose/buffers.h"
#include "collectives/choose/mapped_price.h"

#include <errno.h>
#include <stdlib.h>

#define ALL_RANKS  16u
#define SAMPLE_MAX 32u

/* What one rank does in one round, over one kind of link. */
struct traffic {
    uint64_t sends, receives;
    uint64_t sent, received;
    uint64_t fetched; /* received in entry lines */
    bool granted;
};

struct actor {
    uint32_t rank, node;
    struct traffic traffic[GYRE_LINK_KINDS];
    uint64_t folded;     /* bytes read and written in this round */
    uint64_t busy, work; /* over all rounds */
};

struct sample {
    const struct gyre_link_kinds *link_kinds;
    struct gyre_slice slice;
    struct gyre_mapped_price mapped; /* on mapped memory */
    uint64_t spill_percent;          /* elsewhere, of what a core moves */
    struct actor actor[SAMPLE_MAX];
    uint32_t actors;
};

/* -- numbers ----------------------------------------------------------------------------------- */

static uint64_t scaled(uint64_t a, uint64_t b, uint64_t divisor)
{
    uint64_t usual;
    if (!__builtin_mul_overflow(a, b, &usual))
        return usual / divisor;
    unsigned __int128 product = (unsigned __int128)a * b / divisor;
    return product < GYRE_COST_NEVER ? (uint64_t)product : GYRE_COST_NEVER - 1;
}

static uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum == GYRE_COST_NEVER ? GYRE_COST_NEVER - 1 : sum;
}

static uint64_t larger_cost(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller_cost(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -- who is looked at -------------------------------------------------------------------------- */

static uint32_t node_of(const struct gyre_slice *slice, uint32_t rank)
{
    return slice->layout ? slice->layout->node[rank] : 0;
}

static void look_at(struct sample *sample, uint32_t rank)
{
    for (uint32_t i = 0; i < sample->actors; i++)
        if (sample->actor[i].rank == rank)
            return;
    if (sample->actors < SAMPLE_MAX)
        sample->actor[sample->actors++] =
            (struct actor){.rank = rank, .node = node_of(&sample->slice, rank)};
}

static bool is_slow(const struct sample *sample, const struct actor *actor)
{
    return sample->link_kinds->slow_kib_ps && actor->node == sample->link_kinds->slow_node;
}

/* Adds ranks of the slow node, as many as there is room for: it sets the pace of all. */
static void look_at_slow_node(struct sample *sample)
{
    const struct gyre_layout *layout = sample->slice.layout;
    uint32_t node = sample->link_kinds->slow_node;
    if (!sample->link_kinds->slow_kib_ps || !layout || node >= layout->nodes)
        return;
    for (uint32_t i = layout->start[node]; i < layout->start[node + 1]; i++)
        look_at(sample, layout->order[i]);
}

/* Fills the sample: all ranks, or the first node where it is small, the root, and some places where
 * algorithms do something special. */
static void choose_ranks(struct sample *sample)
{
    const struct gyre_slice *s = &sample->slice;
    uint32_t n = s->n;
    for (uint32_t rank = 0; rank < n && n <= ALL_RANKS; rank++)
        look_at(sample, rank);
    if (n <= ALL_RANKS)
        return;
    uint32_t special[] = {0, n - 1, s->root, (s->root + 1) % n, n / 2, n / 3, 1};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        look_at(sample, special[i]);
    for (uint32_t i = 0; s->layout && i < s->layout->start[1] && i < ALL_RANKS; i++)
        look_at(sample, s->layout->order[i]);
    look_at_slow_node(sample);
}

/* -- one rank's round -------------------------------------------------------------------------- */

static enum gyre_link_kind kind_to(const struct sample *sample, const struct actor *actor,
                                   uint32_t peer)
{
    return node_of(&sample->slice, peer) == actor->node ? sample->link_kinds->near
                                                        : sample->link_kinds->far;
}

static void count_mapped(const struct sample *sample, struct traffic *traffic,
                         const struct gyre_step *step)
{
    traffic->granted |= !sample->mapped.exchanges;
    if (step->kind == GYRE_SEND) {
        traffic->sends++;
        return;
    }
    traffic->receives++;
    traffic->fetched += sample->mapped.exchanges ? step->length : 0;
    traffic->received += step->at.buffer == GYRE_SCRATCH ? 0 : step->length;
}

static void count_step(const struct sample *sample, struct actor *actor,
                       const struct gyre_step *step)
{
    if (step->kind == GYRE_REDUCE || step->kind == GYRE_COPY) {
        actor->folded = plus(actor->folded, scaled(step->length, step->sources + 1, 1));
        return;
    }
    enum gyre_link_kind kind = kind_to(sample, actor, step->peer);
    struct traffic *traffic = &actor->traffic[kind];
    if (kind == GYRE_LINK_MAPPED) {
        count_mapped(sample, traffic, step);
        return;
    }
    traffic->granted |=
        step->length > (kind == GYRE_LINK_SHM ? GYRE_COST_UNASKED_NEAR : GYRE_COST_UNASKED);
    if (step->kind == GYRE_SEND) {
        traffic->sends++;
        traffic->sent += step->length;
    } else {
        traffic->receives++;
        traffic->received += step->length;
    }
}

static int count_round(struct sample *sample, const struct gyre_algorithm *algorithm,
                       struct actor *actor, uint64_t index, struct gyre_round *round)
{
    sample->slice.rank = actor->rank;
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++)
        actor->traffic[kind] = (struct traffic){0};
    actor->folded = 0;
    gyre_round_clear(round);
    algorithm->round(&sample->slice, index, round);
    for (uint32_t i = 0; i < round->steps; i++)
        count_step(sample, actor, &round->step[i]);
    return round->overflow ? GYRE_INVALID : 0;
}

/* The bytes that the rank's node sends to or receives from the network in this round, the greater
 * of both. */
static uint64_t through_the_door(const struct sample *sample, const struct actor *actor)
{
    const struct gyre_layout *layout = sample->slice.layout;
    uint64_t sent = 0, received = 0, seen = 0;
    for (uint32_t i = 0; layout && i < sample->actors; i++)
        if (sample->actor[i].node == actor->node) {
            sent = plus(sent, sample->actor[i].traffic[GYRE_LINK_NETWORK].sent);
            received = plus(received, sample->actor[i].traffic[GYRE_LINK_NETWORK].received);
            seen++;
        }
    uint64_t ranks = layout ? layout->start[actor->node + 1] - layout->start[actor->node] : 1;
    /* Of other nodes the sample has too few ranks. */
    if ((actor->node == 0 || is_slow(sample, actor)) && seen)
        return scaled(larger_cost(sent, received), ranks, seen);
    return larger_cost(sent, received);
}

/* The bytes that the rank pays for. The price of a KiB is that of one sent and one received. The
 * network does both at once. Inside a machine cores do both, and two thirds of the price are the
 * sender's (measured over loopback: 1 MiB in 123 µs one way, in 185 both ways). */
static uint64_t bytes_paid(const struct sample *sample, const struct actor *actor, int kind)
{
    const struct traffic *t = &actor->traffic[kind];
    if (kind == GYRE_LINK_NETWORK)
        return larger_cost(larger_cost(t->sent, t->received), through_the_door(sample, actor));
    return plus(plus(t->sent, t->sent), t->received) / 3;
}

static uint64_t kib_price(const struct sample *sample, const struct actor *actor, int kind)
{
    const struct gyre_link_kinds *link_kinds = sample->link_kinds;
    const struct gyre_tuning *tuning = link_kinds->tuning;
    if (kind == GYRE_LINK_MAPPED)
        return sample->mapped.kib_ps;
    if (kind != GYRE_LINK_NETWORK)
        return scaled(tuning->link[kind].kib_ps, sample->spill_percent, 100);
    return plus(is_slow(sample, actor) ? link_kinds->slow_kib_ps : tuning->link[kind].kib_ps,
                actor->traffic[kind].receives > 1 ? tuning->incast_kib_ps : 0);
}

static uint64_t price_bytes(const struct sample *sample, const struct actor *actor, int kind)
{
    uint64_t lines =
        scaled(actor->traffic[kind].fetched, sample->link_kinds->tuning->line_kib_ps, 1024);
    return plus(lines,
                scaled(bytes_paid(sample, actor, kind), kib_price(sample, actor, kind), 1024));
}

static uint64_t price_messages(const struct sample *sample, const struct actor *actor, int kind)
{
    const struct gyre_tuning *tuning = sample->link_kinds->tuning;
    const struct traffic *t = &actor->traffic[kind];
    uint64_t messages = larger_cost(t->sends, t->receives);
    if (messages > tuning->crowd)
        messages += messages - tuning->crowd;
    return scaled(messages, tuning->link[kind].message_ns, 1) * 1000;
}

static uint64_t price_traffic(const struct sample *sample, const struct actor *actor, int kind)
{
    return plus(price_messages(sample, actor, kind), price_bytes(sample, actor, kind));
}

static uint64_t latency_of(const struct sample *sample, const struct actor *actor, int kind)
{
    const struct gyre_price *price = &sample->link_kinds->tuning->link[kind];
    const struct traffic *t = &actor->traffic[kind];
    uint64_t ns = price->latency_ns + (t->granted ? price->grant_ns : 0);
    return t->sends + t->receives ? ns * 1000 : 0;
}

static uint64_t price_latency(const struct sample *sample, const struct actor *actor)
{
    uint64_t latency = 0;
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++)
        latency = larger_cost(latency, latency_of(sample, actor, kind));
    return latency;
}

/* The time that a burst saves a round: its bytes pass at once, where the network's way was idle
 * while messages were under way and with the cores. */
static uint64_t passes_at_once(const struct sample *sample, const struct actor *actor,
                               uint64_t latency)
{
    if (!sample->link_kinds->tuning->burst_bytes)
        return 0;
    uint64_t burst = scaled(sample->link_kinds->tuning->burst_bytes,
                            kib_price(sample, actor, GYRE_LINK_NETWORK), 1024);
    uint64_t under_way = latency_of(sample, actor, GYRE_LINK_NETWORK) == latency ? latency : 0;
    uint64_t idle = plus(under_way, price_messages(sample, actor, GYRE_LINK_NETWORK));
    uint64_t bytes = price_bytes(sample, actor, GYRE_LINK_NETWORK);
    return smaller_cost(smaller_cost(burst, bytes), idle);
}

/* The price of the folds. On mapped memory folds move the bytes. */
static uint64_t price_folds(const struct sample *sample, const struct actor *actor)
{
    const struct gyre_tuning *tuning = sample->link_kinds->tuning;
    bool mapped = sample->link_kinds->near == GYRE_LINK_MAPPED;
    uint64_t kib_ps = scaled(tuning->fold_kib_ps, sample->spill_percent, 100);
    return scaled(actor->folded, mapped ? sample->mapped.kib_ps : kib_ps, 1024);
}

/* The time that this round takes the rank. */
static uint64_t price_round(const struct sample *sample, struct actor *actor)
{
    uint64_t links = 0, fold = price_folds(sample, actor);
    actor->work = plus(actor->work, fold);
    for (int kind = 0; kind < GYRE_LINK_KINDS; kind++)
        if (actor->traffic[kind].sends + actor->traffic[kind].receives) {
            uint64_t price = price_traffic(sample, actor, kind);
            links = plus(links, price);
            if (kind != GYRE_LINK_NETWORK)
                actor->work = plus(actor->work, price);
        }
    actor->busy = plus(actor->busy, links);
    uint64_t latency = price_latency(sample, actor);
    return plus(plus(latency, links), fold) - passes_at_once(sample, actor, latency);
}

/* -- the cache --------------------------------------------------------------------------------- */

/* Ranks of other nodes may be on this machine, too: those over loopback are. */
static uint32_t ranks_of_a_machine(const struct gyre_slice *slice,
                                   const struct gyre_link_kinds *link_kinds)
{
    bool many = slice->layout && link_kinds->far == GYRE_LINK_NETWORK;
    return many ? slice->layout->start[1] : slice->n;
}

uint64_t gyre_cost_spill(const struct gyre_slice *slice, const struct gyre_link_kinds *link_kinds)
{
    const struct gyre_tuning *tuning = link_kinds->tuning;
    const uint64_t window = tuning->window_kib * 1024;
    uint64_t all = gyre_buffers_of(slice, ranks_of_a_machine(slice, link_kinds)).all;
    return 100 + (all > window ? scaled(tuning->spill_percent, all - window, all) : 0);
}

/* -- the walk ---------------------------------------------------------------------------------- */

static int fit(struct gyre_walk *walk, const struct gyre_algorithm *algorithm,
               struct sample *sample, uint64_t *rounds, uint64_t *idle)
{
    struct gyre_extent room = {0};
    *rounds = *idle = 0;
    for (uint32_t i = 0; i < sample->actors; i++) {
        sample->slice.rank = sample->actor[i].rank;
        struct gyre_extent extent = algorithm->extent(&sample->slice);
        *rounds = larger_cost(*rounds, extent.rounds);
        *idle = larger_cost(*idle, extent.idle_rounds);
        room.step_max = extent.step_max > room.step_max ? extent.step_max : room.step_max;
        room.source_max = extent.source_max > room.source_max ? extent.source_max : room.source_max;
    }
    struct gyre_round *round = &walk->round;
    if (round->step && round->step_max >= room.step_max && round->source_max >= room.source_max)
        return 0;
    gyre_round_deinit(round);
    return gyre_round_init(round, &room);
}

void gyre_walk_deinit(struct gyre_walk *walk)
{
    gyre_round_deinit(&walk->round);
}

/* Walks one round. *busy: a rank of the sample has a step. */
static int walk_round(struct sample *sample, const struct gyre_algorithm *algorithm, uint64_t index,
                      struct gyre_walk *walk, uint64_t *time, bool *busy)
{
    *time = 0;
    *busy = false;
    for (uint32_t i = 0; i < sample->actors; i++) {
        if (count_round(sample, algorithm, &sample->actor[i], index, &walk->round))
            return GYRE_INVALID;
        *busy |= walk->round.steps > 0;
    }
    for (uint32_t i = 0; i < sample->actors; i++)
        *time = larger_cost(*time, price_round(sample, &sample->actor[i]));
    return 0;
}

/* The path with the rounds in which no rank of the sample has a step. In every round that is not
 * idle some rank works; where the sample misses it (a chain goes from rank to rank), the round
 * takes the average time of the others. */
static uint64_t with_unseen(uint64_t path, uint64_t rounds, uint64_t seen)
{
    return seen ? scaled(path, rounds, seen) : path;
}

int gyre_cost_slice(const struct gyre_algorithm *algorithm, const struct gyre_slice *slice,
                    const struct gyre_link_kinds *link_kinds, uint64_t limit,
                    struct gyre_walk *walk, struct gyre_cost *cost)
{
    struct sample sample = {.link_kinds = link_kinds, .slice = *slice};
    uint64_t rounds, idle, seen = 0;
    *cost = (struct gyre_cost){0};
    choose_ranks(&sample);
    if (link_kinds->near == GYRE_LINK_MAPPED)
        sample.mapped = gyre_mapped_price(&sample.slice, link_kinds->tuning);
    else
        sample.spill_percent = gyre_cost_spill(&sample.slice, link_kinds);
    int status = fit(walk, algorithm, &sample, &rounds, &idle);
    for (uint64_t r = 0; !status && r < rounds && cost->path <= limit; r++) {
        uint64_t time;
        bool busy;
        status = walk_round(&sample, algorithm, r, walk, &time, &busy);
        cost->path = plus(cost->path, time);
        seen += busy;
    }
    if (cost->path <= limit)
        cost->path = with_unseen(cost->path, rounds - idle, seen);
    for (uint32_t i = 0; i < sample.actors; i++) {
        cost->busy = larger_cost(cost->busy, sample.actor[i].busy);
        cost->work = larger_cost(cost->work, sample.actor[i].work);
    }
    if (cost->path > limit)
        cost->path = GYRE_COST_NEVER;
    return status;
}

/* -- the operation ----------------------------------------------------------------------------- */

uint64_t gyre_cost_total(const struct gyre_cost *slice, uint64_t count, uint64_t slice_count,
                         uint32_t lanes)
{
    if (slice->path == GYRE_COST_NEVER)
        return GYRE_COST_NEVER;
    if (count <= slice_count)
        return slice->path;
    uint64_t each = larger_cost(slice->path / lanes, larger_cost(slice->busy, slice->work));
    return plus(slice->path, scaled(each, count - slice_count, slice_count));
}
