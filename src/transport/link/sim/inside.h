/* The inside of the simulated world, which its files share.
 *
 *     sim.c       the driver: a stream over each connection
 *     world.c     time, ranks, faults; the table of connections
 *     line.c      one connection: bytes between two ranks
 *     events.c    future events, in order of time */
#ifndef GYRE_TRANSPORT_LINK_SIM_INSIDE_H
#define GYRE_TRANSPORT_LINK_SIM_INSIDE_H

#include "transport/link/sim/world.h"

#include <sys/queue.h>

/* Bytes that arrive as a whole; length 0: the writer's end closed. */
struct gyre_sim_chunk {
    uint64_t due;
    uint32_t length;
    bool comes_in; /* it has taken its reader's shared way in */
};

/* One direction: a ring of bytes, of which the first `arrived` can be read. */
struct gyre_sim_way {
    struct gyre_sim_link link;
    struct gyre_sim_end *writer, *reader;
    uint8_t *bytes;
    uint32_t capacity, start, length, arrived;
    struct gyre_sim_chunk *chunk; /* ring of chunks under way */
    uint32_t chunk_capacity, first_chunk, chunks;
    uint64_t busy_until, last_due;
    /* Bytes in all; position of a byte to corrupt, UINT64_MAX: none. */
    uint64_t written, corrupt_at;
    uint32_t flipped; /* bits, by corrupt() */
    bool scheduled;   /* an ARRIVE event is in the heap */
    bool starved;     /* the writer found no room */
    bool blocked;
    bool closed; /* by the writer */
    bool over;   /* the reader may know that the way is closed */
};

struct gyre_sim_end {
    struct gyre_sim_world *world;
    struct gyre_sim_way *out, *in;
    uint32_t rank;
    bool open, marked;
    void *context; /* of the driver */
    TAILQ_ENTRY(gyre_sim_end) in_marked;
};

/* A connection. end[0] is the lower rank's, and writes way[0]. */
struct gyre_sim_line {
    uint64_t key;
    struct gyre_sim_end end[2];
    struct gyre_sim_way way[2];
};

enum gyre_sim_event_kind { GYRE_SIM_WAKE, GYRE_SIM_ARRIVE, GYRE_SIM_ROOM };

struct gyre_sim_event {
    /* Events of equal times happen in the order in which they were scheduled. */
    uint64_t time, order;
    struct gyre_sim_way *way;
    uint32_t rank;
    enum gyre_sim_event_kind kind;
};

struct gyre_sim_rank {
    uint64_t wake_at;                  /* of its next WAKE event, UINT64_MAX: none */
    uint64_t bytes_per_second;         /* of its shared ways; 0: no limit */
    uint64_t out_until, in_until;      /* when they are free */
    TAILQ_HEAD(, gyre_sim_end) marked; /* ends that the rank shall look at */
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
    bool out_of_memory; /* step() ends the run: without the lost event the run would be another */
};

/* events.c */
void gyre_sim_schedule(struct gyre_sim_world *world, const struct gyre_sim_event *event);

/* Takes the next event of a heap that is not empty. */
struct gyre_sim_event gyre_sim_take_event(struct gyre_sim_world *world);

/* line.c */
void gyre_sim_line_init(struct gyre_sim_line *line, struct gyre_sim_world *world, uint32_t low,
                        uint32_t high);
void gyre_sim_line_release(struct gyre_sim_line *line);
void gyre_sim_way_arrive(struct gyre_sim_way *way); /* an ARRIVE event happens */

/* Schedules the next arrival, if something is under way and the way is not blocked. */
void gyre_sim_way_schedule(struct gyre_sim_way *way);

/* The writer writes no more. `at_once`: bytes under way are lost. */
void gyre_sim_way_close(struct gyre_sim_way *way, bool at_once);
void gyre_sim_end_unmark(struct gyre_sim_end *end);

static inline struct gyre_sim_way *gyre_sim_way_of(struct gyre_sim_line *line, uint32_t from,
                                                   uint32_t to)
{
    return &line->way[from > to];
}

#endif
