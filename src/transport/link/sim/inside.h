/* The inside of the simulated world, for world.c (time, ranks, faults) and line.c (bytes
 * between two ranks). */
#ifndef GYRE_TRANSPORT_LINK_SIM_INSIDE_H
#define GYRE_TRANSPORT_LINK_SIM_INSIDE_H

#include "transport/link/sim/world.h"

struct gyre_sim_chunk { /* arrives as a whole; length 0: the writer's end closed */
    uint64_t due;
    uint32_t length;
};

struct gyre_sim_way { /* one direction: a ring of bytes, of which the first `arrived` can be read */
    struct gyre_sim_link link;
    struct gyre_sim_end *writer, *reader;
    uint8_t *bytes;
    uint32_t capacity, start, length, arrived;
    struct gyre_sim_chunk *chunk; /* ring: what is under way */
    uint32_t chunk_capacity, first_chunk, chunks;
    uint64_t busy_until, last_due;
    uint64_t written, corrupt_at; /* running count, UINT64_MAX: none */
    bool scheduled;               /* an ARRIVE event is in the heap */
    bool starved;                 /* the writer found no room */
    bool blocked;
    bool closed; /* by the writer */
    bool over;   /* and the reader may know */
};

struct gyre_sim_end {
    struct gyre_sim_world *world;
    struct gyre_sim_way *out, *in;
    uint32_t rank;
    bool open;
    void (*ready)(void *context);
    void *context;
};

struct gyre_sim_line { /* a connection: end[0] is the lower rank's, which writes way[0] */
    uint64_t key;
    struct gyre_sim_end end[2];
    struct gyre_sim_way way[2];
};

enum gyre_sim_event_kind { GYRE_SIM_WAKE, GYRE_SIM_ARRIVE, GYRE_SIM_ROOM };

struct gyre_sim_event {
    uint64_t time, order; /* equal times happen in the order they were scheduled */
    struct gyre_sim_way *way;
    uint32_t rank;
    enum gyre_sim_event_kind kind;
};

struct gyre_sim_rank {
    uint64_t wake_at; /* of its next WAKE event, UINT64_MAX: none */
    bool dead, paused, missed;
};

struct gyre_sim_world {
    struct gyre_sim_options options;
    struct gyre_rng rng;
    uint64_t now, order, trace, events, delivered;
    struct gyre_sim_event *heap;
    uint32_t heap_size, heap_capacity;
    struct gyre_sim_line **line; /* open addressing by key */
    uint32_t lines, line_capacity;
    struct gyre_sim_rank *rank;
    bool out_of_memory; /* step() ends the run: it would not be the same run */
};

/* world.c */
void gyre_sim_schedule(struct gyre_sim_world *world, const struct gyre_sim_event *event);
struct gyre_sim_line *gyre_sim_line_between(struct gyre_sim_world *world, uint32_t a, uint32_t b);

/* line.c */
void gyre_sim_line_init(struct gyre_sim_line *line, struct gyre_sim_world *world, uint32_t low,
                        uint32_t high);
void gyre_sim_line_release(struct gyre_sim_line *line);
void gyre_sim_way_arrive(struct gyre_sim_way *way); /* an ARRIVE event happens */
void gyre_sim_way_schedule(
    struct gyre_sim_way *way); /* if something is under way and free to move */
void gyre_sim_way_close(struct gyre_sim_way *way, bool at_once);
static inline struct gyre_sim_way *gyre_sim_way_of(struct gyre_sim_line *line, uint32_t from,
                                                   uint32_t to)
{
    return &line->way[from > to];
}

#endif
