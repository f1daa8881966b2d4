/* Ways and cores: when bytes that are written now can be read.
 *
 *     between nodes   [ way out of the node ] ─latency─▶ [ way in ]
 *     in a node       [ sender's core, ⅔ ][ reader's core, ⅓ ] ─latency─▶
 *
 * Bytes go through both ways at once: only a busy way in delays them, and the price of an incast
 * where several ranks send to one.
 *
 * A message has a price of its own, too: the sender's core passes one after the other, and so does
 * the reader.
 * A way that was idle carries a burst at once, as a shaper's bucket lets it; a rehearsal begins
 * with an empty bucket, so it is one of many operations that follow each other.
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

/* When a way has carried bytes that it could begin with at `ready`: its clock, which stands behind
 * by no more than a burst takes. */
static uint64_t carried(const struct gyre_drill *drill, const struct gyre_drill_node *node,
                        uint64_t until, uint64_t ready, uint64_t bytes)
{
    uint64_t burst = way_ps(node, drill->asked->link_kinds->tuning->burst_bytes);
    return gyre_drill_later(until, ready > burst ? ready - burst : 0) + way_ps(node, bytes);
}

/* -- out --------------------------------------------------------------------------------------- */

static uint64_t leave_by_port(struct gyre_drill *drill, const struct gyre_drill_end *end,
                              const struct gyre_drill_chunk *chunk, uint64_t message_ps)
{
    const struct gyre_price *price = price_of(drill, end);
    struct gyre_drill_node *node = &drill->node[node_with(drill, end->rank)];
    uint64_t ready = message_ps != 0 ? gyre_drill_occupy(drill, end->rank, message_ps) : drill->now;
    node->out_until = carried(drill, node, node->out_until, ready, chunk->bytes);
    return gyre_drill_later(node->out_until, ready) +
           (chunk->invites ? price->grant_ns : price->latency_ns) * 1000;
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
    end->carrying += chunk->carries;
    *(end->first != NULL ? &end->last->next : &end->first) = chunk;
    end->last = chunk;
    await(drill, end);
}

/* -- in ---------------------------------------------------------------------------------------- */

/* Whether a stream of another rank comes in to this one, too. A stream begins with its first bytes
 * and lasts until no more are under way. */
static bool is_incast(struct gyre_drill *drill, struct gyre_drill_end *end,
                      const struct gyre_drill_chunk *chunk)
{
    struct gyre_drill_rank *reader = &drill->rank[end->peer->rank];
    if (chunk->carries && !end->calls)
        reader->callers++;
    end->calls |= chunk->carries;
    return reader->callers > 1;
}

static void enter_node(struct gyre_drill *drill, struct gyre_drill_end *end,
                       struct gyre_drill_chunk *chunk)
{
    struct gyre_drill_node *node = &drill->node[node_with(drill, end->peer->rank)];
    uint64_t more =
        is_incast(drill, end, chunk) ? drill->asked->link_kinds->tuning->incast_kib_ps : 0;
    uint64_t way = way_ps(node, chunk->bytes);
    uint64_t begun = chunk->due > way ? chunk->due - way : 0;
    node->in_until = carried(drill, node, node->in_until, begun, chunk->bytes) +
                     gyre_drill_scaled(chunk->bytes, more, 1024);
    chunk->due = gyre_drill_later(chunk->due, node->in_until);
}

/* The reader's core takes bytes while the sender's brings them, if it is free so early. */
static void enter_core(struct gyre_drill *drill, struct gyre_drill_end *end,
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
    end->carrying -= chunk->carries;
    if (end->calls && end->carrying == 0) {
        drill->rank[end->peer->rank].callers--;
        end->calls = false;
    }
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
