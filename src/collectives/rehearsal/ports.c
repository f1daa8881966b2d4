/* Ways and cores: when bytes that are written now can be read.
 *
 *     between nodes   [ way out of the node ] ─latency─▶ [ way in ]
 *     in a node       [ sender's core, ⅔ ][ reader's core, ⅓ ] ─latency─▶
 *
 * Bytes go through both ways at once: only a busy way in delays them.
 *
 * A message has a price of its own, too: the sender's core passes one after the other, and so does
 * the reader.
 *
 * Tested by tests/unit/collectives/rehearsal/rehearsal_test.c. */
#include "collectives/rehearsal/inside.h"

static uint32_t node_with(const struct gyre_drill *drill, uint32_t rank)
{
    const struct gyre_layout *layout = drill->asked->whole.layout;
    return layout != NULL ? layout->node[rank] : 0;
}

static const struct gyre_price *price_of(const struct gyre_drill *drill,
                                         const struct gyre_drill_end *end)
{
    const struct gyre_link_kinds *kinds = drill->asked->link_kinds;
    return &kinds->tuning->link[end->near ? kinds->near : kinds->far];
}

static bool passes_ways(const struct gyre_drill *drill, const struct gyre_drill_end *end)
{
    const struct gyre_link_kinds *kinds = drill->asked->link_kinds;
    return (end->near ? kinds->near : kinds->far) == GYRE_LINK_NETWORK;
}

/* The time of the bytes on a core, of which the sender has two thirds. */
static uint64_t core_ps(const struct gyre_drill *drill, const struct gyre_drill_end *end,
                        uint64_t bytes, uint32_t thirds)
{
    return gyre_drill_scaled(bytes * thirds, price_of(drill, end)->kib_ps * drill->spill_percent,
                             UINT64_C(3) * 1024 * 100);
}

uint64_t gyre_drill_occupy(struct gyre_drill *drill, uint32_t rank, uint64_t ps)
{
    uint64_t *until = &drill->rank[rank].core_until;
    return *until = gyre_drill_later(*until, drill->now) + ps;
}

/* The time of the bytes on a node's way, in whole nanoseconds, as the simulator counts. */
static uint64_t way_ps(const struct gyre_drill_node *node, uint64_t bytes)
{
    return (gyre_drill_scaled(bytes, node->kib_ps, 1024) + 999) / 1000 * 1000;
}

/* -- out --------------------------------------------------------------------------------------- */

static uint64_t leave_by_port(struct gyre_drill *drill, const struct gyre_drill_end *end,
                              const struct gyre_drill_chunk *chunk, uint64_t message_ps)
{
    const struct gyre_price *price = price_of(drill, end);
    struct gyre_drill_node *node = &drill->node[node_with(drill, end->rank)];
    uint64_t ready = message_ps != 0 ? gyre_drill_occupy(drill, end->rank, message_ps) : drill->now;
    node->out_until = gyre_drill_later(node->out_until, ready) + way_ps(node, chunk->bytes);
    return node->out_until + (chunk->invites ? price->grant_ns : price->latency_ns) * 1000;
}

void gyre_drill_mark(struct gyre_drill *drill, struct gyre_drill_end *end)
{
    struct gyre_drill_rank *rank = &drill->rank[end->rank];
    if (end->marked)
        return;
    end->marked = true;
    end->next_marked = NULL;
    *(rank->first_marked != NULL ? &rank->last_marked->next_marked : &rank->first_marked) = end;
    rank->last_marked = end;
}

static void await(struct gyre_drill *drill, struct gyre_drill_end *end)
{
    if (end->scheduled || end->first == NULL)
        return;
    end->scheduled = true;
    gyre_drill_schedule(
        drill, &(struct gyre_drill_event){.time = gyre_drill_later(end->first->due, drill->now),
                                          .kind = GYRE_DRILL_ARRIVE,
                                          .end = end});
}

void gyre_drill_launch(struct gyre_drill *drill, struct gyre_drill_end *end,
                       struct gyre_drill_chunk *chunk)
{
    uint64_t message_ps = chunk->sender_weight * price_of(drill, end)->message_ns * 1000;
    chunk->begun = drill->now;
    chunk->due = passes_ways(drill, end)
                     ? leave_by_port(drill, end, chunk, message_ps)
                     : gyre_drill_occupy(drill, end->rank,
                                         message_ps + core_ps(drill, end, chunk->bytes, 2));
    end->last_due = chunk->due = gyre_drill_later(chunk->due, end->last_due);
    *(end->first != NULL ? &end->last->next : &end->first) = chunk;
    end->last = chunk;
    await(drill, end);
}

/* -- in ---------------------------------------------------------------------------------------- */

static void enter_node(struct gyre_drill *drill, const struct gyre_drill_end *end,
                       struct gyre_drill_chunk *chunk)
{
    struct gyre_drill_node *node = &drill->node[node_with(drill, end->peer->rank)];
    chunk->due = gyre_drill_later(chunk->due, node->in_until + way_ps(node, chunk->bytes));
    node->in_until = chunk->due;
}

/* The reader's core takes bytes while the sender's brings them, if it is free so early. */
static void enter_core(struct gyre_drill *drill, const struct gyre_drill_end *end,
                       struct gyre_drill_chunk *chunk)
{
    const struct gyre_price *price = price_of(drill, end);
    uint64_t *core = &drill->rank[end->peer->rank].core_until;
    *core = gyre_drill_later(*core, chunk->begun) + core_ps(drill, end, chunk->bytes, 1);
    chunk->due = gyre_drill_later(chunk->due, *core) +
                 (chunk->invites ? price->grant_ns : price->latency_ns) * 1000;
}

static void come_in_at(struct gyre_drill *drill, struct gyre_drill_end *end,
                       struct gyre_drill_chunk *chunk)
{
    uint64_t *hears = &drill->rank[end->peer->rank].hears_until;
    uint64_t message_ps = chunk->receiver_weight * price_of(drill, end)->message_ns * 1000;
    (passes_ways(drill, end) ? enter_node : enter_core)(drill, end, chunk);
    if (message_ps != 0)
        chunk->due = *hears = gyre_drill_later(chunk->due, *hears + message_ps);
    chunk->taken = true;
}

static void deliver_chunk(struct gyre_drill *drill, struct gyre_drill_end *end)
{
    struct gyre_drill_chunk *chunk = end->first;
    struct gyre_drill_items *arrived = &end->peer->arrived;
    end->first = chunk->next;
    if (chunk->items.first != NULL) {
        *(arrived->first != NULL ? &arrived->last->next : &arrived->first) = chunk->items.first;
        arrived->last = chunk->items.last;
    }
    gyre_drill_give(&drill->chunks, chunk);
}

void gyre_drill_arrive(struct gyre_drill *drill, struct gyre_drill_end *end)
{
    end->scheduled = false;
    while (end->first != NULL && end->first->due <= drill->now) {
        if (end->first->taken)
            deliver_chunk(drill, end);
        else
            come_in_at(drill, end, end->first);
    }
    await(drill, end);
    if (end->peer->used)
        gyre_drill_mark(drill, end->peer);
}
