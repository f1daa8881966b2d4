/* Time, ranks and faults of the simulated world.
 *
 * A run is a function of the seed and of what the ranks do. step() takes events in their order
 * until one concerns a rank that lives:
 *
 *      events ─▶ ARRIVE  bytes reach a rank          ─┐
 *                ROOM    a full way has room again   ─┼─▶ that rank's end is marked, and the rank
 *                WAKE    a rank asked for it         ─┘   returned
 *
 * A killed rank's ends close behind what it had written. A paused rank's events are remembered as
 * one. */
#include "transport/link/sim/inside.h"

#include "base/status.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define DEFAULT_POSTS  64u
#define DEFAULT_WINDOW (256u * 1024)

/* -- life -------------------------------------------------------------------------------------- */

int gyre_sim_world_create(const struct gyre_sim_options *options, struct gyre_sim_world **world)
{
    if (options->n == 0) {
        return GYRE_INVALID;
    }
    struct gyre_sim_world *fresh = calloc(1, sizeof *fresh);
    if (!fresh) {
        return -ENOMEM;
    }
    fresh->options = *options;
    fresh->options.posts = options->posts ? options->posts : DEFAULT_POSTS;
    fresh->options.window_bytes = options->window_bytes ? options->window_bytes : DEFAULT_WINDOW;
    fresh->rank = calloc(options->n, sizeof *fresh->rank);
    if (!fresh->rank) {
        gyre_sim_world_destroy(fresh);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < options->n; i++) {
        fresh->rank[i].wake_at = UINT64_MAX;
        fresh->rank[i].bytes_per_second = options->link.bytes_per_second;
        TAILQ_INIT(&fresh->rank[i].marked);
    }
    gyre_rng_seed(&fresh->rng, options->seed);
    *world = fresh;
    return 0;
}

void gyre_sim_world_destroy(struct gyre_sim_world *world)
{
    if (!world) {
        return;
    }
    for (uint32_t i = 0; i < world->line_capacity; i++) {
        if (world->line[i]) {
            gyre_sim_line_release(world->line[i]);
            free(world->line[i]);
        }
    }
    free(world->line);
    free(world->heap);
    free(world->rank);
    free(world);
}

/* -- lines between ranks ----------------------------------------------------------------------- */

static struct gyre_sim_line **line_place(struct gyre_sim_line **table, uint32_t capacity,
                                         uint64_t key)
{
    uint32_t at = (uint32_t)gyre_mix64(key) & (capacity - 1);
    while (table[at] && table[at]->key != key) {
        at = (at + 1) & (capacity - 1);
    }
    return &table[at];
}

static bool grow_lines(struct gyre_sim_world *world)
{
    if (2 * world->lines < world->line_capacity) {
        return true;
    }
    uint32_t capacity = world->line_capacity ? 2 * world->line_capacity : 16;
    struct gyre_sim_line **table = calloc(capacity, sizeof *table);
    if (!table) {
        return false;
    }
    for (uint32_t i = 0; i < world->line_capacity; i++) {
        if (world->line[i]) {
            *line_place(table, capacity, world->line[i]->key) = world->line[i];
        }
    }
    free(world->line);
    world->line = table;
    world->line_capacity = capacity;
    return true;
}

static struct gyre_sim_line *line_between(struct gyre_sim_world *world, uint32_t a, uint32_t b)
{
    assert(a != b && a < world->options.n && b < world->options.n);
    uint32_t low = a < b ? a : b, high = a < b ? b : a;
    if (!grow_lines(world)) {
        return NULL;
    }
    struct gyre_sim_line **place =
        line_place(world->line, world->line_capacity, (uint64_t)low << 32 | high);
    if (!*place && (*place = malloc(sizeof **place))) {
        gyre_sim_line_init(*place, world, low, high);
        world->lines++;
    }
    return *place;
}

static struct gyre_sim_way *way_of_ranks(struct gyre_sim_world *world, uint32_t from, uint32_t to)
{
    struct gyre_sim_line *line = line_between(world, from, to);
    if (!line) {
        world->out_of_memory = true;
        return NULL;
    }
    return gyre_sim_way_of(line, from, to);
}

int gyre_sim_end_open(struct gyre_sim_world *world, uint32_t rank, uint32_t peer, void *context,
                      struct gyre_sim_end **end)
{
    struct gyre_sim_line *line = line_between(world, rank, peer);
    if (!line) {
        return -ENOMEM;
    }
    struct gyre_sim_end *mine = &line->end[rank > peer];
    if (mine->open || mine->out->closed) {
        return GYRE_INVALID;
    }
    mine->open = true;
    mine->context = context;
    *end = mine;
    if (world->rank[peer].dead) {
        gyre_sim_way_close(mine->in, false);
    }
    return 0;
}

/* -- time -------------------------------------------------------------------------------------- */

uint64_t gyre_sim_world_now(const struct gyre_sim_world *world)
{
    return world->now;
}

uint64_t gyre_sim_world_next(const struct gyre_sim_world *world)
{
    return world->heap_size > 0 ? world->heap[0].time : UINT64_MAX;
}

void gyre_sim_world_wake(struct gyre_sim_world *world, uint32_t rank, uint64_t at)
{
    at = at > world->now ? at : world->now;
    if (world->rank[rank].wake_at != at) {
        world->rank[rank].wake_at = at;
        gyre_sim_schedule(
            world, &(struct gyre_sim_event){.time = at, .kind = GYRE_SIM_WAKE, .rank = rank});
    }
}

static void happen(struct gyre_sim_world *world, const struct gyre_sim_event *event)
{
    switch (event->kind) {
    case GYRE_SIM_ARRIVE:
        gyre_sim_way_arrive(event->way);
        break;
    case GYRE_SIM_ROOM:
        if (event->way->writer->open) {
            gyre_sim_end_mark(event->way->writer);
        }
        break;
    case GYRE_SIM_WAKE:
        if (world->rank[event->rank].wake_at == event->time) {
            world->rank[event->rank].wake_at = UINT64_MAX;
        }
        break;
    }
}

int64_t gyre_sim_world_step(struct gyre_sim_world *world)
{
    while (world->heap_size > 0 && !world->out_of_memory) {
        struct gyre_sim_event event = gyre_sim_take_event(world);
        struct gyre_sim_rank *rank = &world->rank[event.rank];
        world->now = event.time;
        world->events++;
        world->trace =
            gyre_mix64(world->trace ^ event.time ^ (uint64_t)event.rank << 40 ^ event.kind);
        happen(world, &event);
        rank->missed |= rank->paused;
        if (!rank->dead && !rank->paused) {
            return event.rank;
        }
    }
    return -1;
}

uint64_t gyre_sim_world_trace(const struct gyre_sim_world *world)
{
    return world->trace;
}

uint64_t gyre_sim_world_events(const struct gyre_sim_world *world)
{
    return world->events;
}

uint64_t gyre_sim_world_bytes(const struct gyre_sim_world *world)
{
    return world->delivered;
}

uint32_t gyre_sim_world_posts(const struct gyre_sim_world *world)
{
    return world->options.posts;
}

void gyre_sim_world_set_ways(struct gyre_sim_world *world, uint32_t rank, uint64_t bytes_per_second)
{
    world->rank[rank].bytes_per_second = bytes_per_second;
}

uint32_t gyre_sim_world_eager(const struct gyre_sim_world *world)
{
    return world->options.eager_bytes;
}

uint32_t gyre_sim_world_size(const struct gyre_sim_world *world)
{
    return world->options.n;
}

/* -- marked ends ------------------------------------------------------------------------------- */

bool gyre_sim_world_has_marked(const struct gyre_sim_world *world, uint32_t rank)
{
    return !TAILQ_EMPTY(&world->rank[rank].marked);
}

void *gyre_sim_world_take_marked(struct gyre_sim_world *world, uint32_t rank)
{
    struct gyre_sim_end *end = TAILQ_FIRST(&world->rank[rank].marked);
    if (!end) {
        return NULL;
    }
    gyre_sim_end_unmark(end);
    return end->context;
}

/* -- faults ------------------------------------------------------------------------------------ */

void gyre_sim_world_set_link(struct gyre_sim_world *world, uint32_t from, uint32_t to,
                             const struct gyre_sim_link *link)
{
    struct gyre_sim_way *way = way_of_ranks(world, from, to);
    if (way) {
        way->link = *link;
    }
}

void gyre_sim_world_kill(struct gyre_sim_world *world, uint32_t rank)
{
    world->rank[rank].dead = true;
    for (uint32_t i = 0; i < world->line_capacity; i++) {
        struct gyre_sim_line *line = world->line[i];
        for (int side = 0; line && side < 2; side++) {
            if (line->end[side].rank == rank) {
                line->end[side].open = false;
                gyre_sim_way_close(line->end[side].out, false);
            }
        }
    }
}

bool gyre_sim_world_dead(const struct gyre_sim_world *world, uint32_t rank)
{
    return world->rank[rank].dead;
}

void gyre_sim_world_pause(struct gyre_sim_world *world, uint32_t rank)
{
    world->rank[rank].paused = true;
}

void gyre_sim_world_resume(struct gyre_sim_world *world, uint32_t rank)
{
    world->rank[rank].paused = false;
    if (world->rank[rank].missed) {
        world->rank[rank].missed = false;
        gyre_sim_world_wake(world, rank, world->now);
    }
}

void gyre_sim_world_block(struct gyre_sim_world *world, uint32_t from, uint32_t to, bool blocked)
{
    struct gyre_sim_way *way = way_of_ranks(world, from, to);
    if (way) {
        way->blocked = blocked;
        gyre_sim_way_schedule(way);
    }
}

void gyre_sim_world_corrupt(struct gyre_sim_world *world, uint32_t from, uint32_t to,
                            uint64_t skip_bytes)
{
    struct gyre_sim_way *way = way_of_ranks(world, from, to);
    if (way) {
        way->corrupt_at = way->written + skip_bytes;
    }
}

uint32_t gyre_sim_world_corrupted(struct gyre_sim_world *world, uint32_t from, uint32_t to)
{
    const struct gyre_sim_way *way = way_of_ranks(world, from, to);
    return way ? way->flipped : 0;
}

void gyre_sim_world_reset(struct gyre_sim_world *world, uint32_t a, uint32_t b)
{
    struct gyre_sim_line *line = line_between(world, a, b);
    if (line) {
        gyre_sim_way_close(&line->way[0], true);
        gyre_sim_way_close(&line->way[1], true);
    }
}
