/* The inside of a drill, which its files share.
 *
 *     rehearsal.c   how many slices are rehearsed, and from the start to the end
 *     lanes.c      rounds of ranks: the engine's rules
 *     frames.c     messages between two ranks: credit, grants, frames
 *     ports.c      ways out and in, cores: when bytes are there
 *     events.c     future events in order of time, and storage */
#ifndef GYRE_COLLECTIVES_REHEARSAL_INSIDE_H
#define GYRE_COLLECTIVES_REHEARSAL_INSIDE_H

#include "collectives/rehearsal/rehearsal.h"

#define GYRE_DRILL_LANES_MAX 8u

enum gyre_drill_message_state {
    GYRE_DRILL_UNSENT,
    GYRE_DRILL_QUEUED,  /* short: waits for credit */
    GYRE_DRILL_WAITING, /* for a grant */
    GYRE_DRILL_GRANTED,
    GYRE_DRILL_FRAMED /* its last byte is offered to the way out */
};

/* A message, from the first post of either end to the completion of its receive. */
struct gyre_drill_message {
    struct gyre_drill_message *next; /* of those between its two ends */
    struct gyre_drill_message *in_queue, *in_grants;
    uint64_t round, length, framed;
    uint32_t slice;
    uint8_t sender_lane, receiver_lane;
    uint8_t sender_weight, receiver_weight; /* prices of a message that it costs */
    enum gyre_drill_message_state state;
    bool awaited, arrived, granted, grant_heard, asked;
};

enum gyre_drill_frame {
    GYRE_DRILL_DATA, /* a short message, or the last piece of a long one */
    GYRE_DRILL_GRANT,
    GYRE_DRILL_ASK,
    GYRE_DRILL_CREDIT,
    GYRE_DRILL_TOLD /* no frame: a receive that was posted behind its message */
};

struct gyre_drill_item {
    struct gyre_drill_item *next;
    enum gyre_drill_frame kind;
    struct gyre_drill_message *message;
    uint64_t total; /* of CREDIT */
};

struct gyre_drill_items {
    struct gyre_drill_item *first, *last;
};

/* Frames that are written at once, and arrive so. */
struct gyre_drill_chunk {
    struct gyre_drill_chunk *next;
    struct gyre_drill_items items;
    uint64_t bytes, begun, due;
    uint32_t sender_weight, receiver_weight;
    bool invites; /* a grant is in it, and no message */
    bool carries; /* bytes of a message */
    bool taken;   /* it has its place in the reader's way in */
};

struct gyre_drill_queue {
    struct gyre_drill_message *first, *last;
};

/* One of the two ends of a pair of ranks: what it has sent and not told, and what it is to read. */
struct gyre_drill_end {
    struct gyre_drill_end *peer;
    uint32_t rank;
    bool near, marked, scheduled;
    bool used;  /* its rank has turned to it */
    bool calls; /* its bytes come in at the peer's way, and more of them are under way */
    struct gyre_drill_end *next_marked;
    struct gyre_drill_message *message;       /* from here to the peer */
    struct gyre_drill_queue eager, long_ones; /* from here to the peer, ready but for credit */
    struct gyre_drill_queue grants;           /* of messages to here */
    uint64_t spent, returned;                 /* credit for messages from here */
    uint64_t given, reported;                 /* credit for messages to here */
    uint64_t last_due;
    uint32_t carrying;                     /* chunks under way that carry bytes of messages */
    struct gyre_drill_chunk *first, *last; /* under way from here */
    struct gyre_drill_items arrived;       /* to be read here */
};

struct gyre_drill_pair {
    struct gyre_drill_pair *next; /* of equal hash */
    uint64_t key;
    struct gyre_drill_end end[2];
};

struct gyre_drill_lane {
    struct gyre_slice slice;
    uint64_t round, rounds, fold_ps;
    uint32_t slice_index, outstanding;
    uint32_t early, early_left; /* receives of the next round: posted, and not yet ended */
    bool runs, begun, folds;
};

struct gyre_drill_rank {
    struct gyre_drill_lane *lane;
    struct gyre_drill_end *first_marked, *last_marked;
    uint64_t core_until, hears_until;
    uint32_t callers;           /* ranks of other nodes whose ends call */
    uint32_t next_slice, lanes; /* lanes: that run */
    bool started;
};

/* What the ranks of a node share. */
struct gyre_drill_node {
    uint64_t out_until, in_until, kib_ps;
};

enum gyre_drill_event_kind { GYRE_DRILL_START, GYRE_DRILL_ARRIVE, GYRE_DRILL_FOLDED };

struct gyre_drill_event {
    uint64_t time, order;
    struct gyre_drill_end *end; /* of ARRIVE: the writer */
    uint32_t rank;
    uint8_t lane;
    enum gyre_drill_event_kind kind;
};

/* Storage of equal parts, of which none goes back to the heap before the end. */
struct gyre_drill_pool {
    void *given_back, *block;
    uint32_t size, left;
};

struct gyre_drill {
    const struct gyre_rehearsal *asked;
    uint64_t count; /* elements that are rehearsed */
    uint32_t slices;
    uint64_t spill_percent; /* what a core moves takes, of its price */
    uint64_t unasked[2];    /* between nodes, and in one */
    struct gyre_drill_rank *rank;
    struct gyre_drill_lane *lane;
    struct gyre_drill_node *node;
    struct gyre_round round, next; /* next: to a lane's round, in which it receives early */
    struct gyre_drill_pair **pair; /* by hash */
    uint32_t pair_capacity, pairs;
    struct gyre_drill_pool messages, items, chunks, pair_pool;
    struct gyre_drill_event *heap;
    uint32_t heap_size, heap_capacity;
    uint64_t now, order, work, ended;
    uint32_t ranks_left;
    int status;
};

/* events.c */
void *gyre_drill_take(struct gyre_drill *drill, struct gyre_drill_pool *pool);
void gyre_drill_give(struct gyre_drill_pool *pool, void *part);
void gyre_drill_drop(struct gyre_drill_pool *pool);
void gyre_drill_schedule(struct gyre_drill *drill, const struct gyre_drill_event *event);
struct gyre_drill_event gyre_drill_next_event(struct gyre_drill *drill);

/* ports.c */
void gyre_drill_launch(struct gyre_drill *drill, struct gyre_drill_end *end,
                       struct gyre_drill_chunk *chunk);
/* Bytes reach the reader, or have left a core. */
void gyre_drill_arrive(struct gyre_drill *drill, struct gyre_drill_end *end);
void gyre_drill_mark(struct gyre_drill *drill, struct gyre_drill_end *end);

/* When the rank's core is done with something that takes so long. */
uint64_t gyre_drill_occupy(struct gyre_drill *drill, uint32_t rank, uint64_t ps);

/* frames.c */
struct gyre_drill_end *gyre_drill_end_of(struct gyre_drill *drill, uint32_t rank, uint32_t peer);
/* The rank looks at its end from now on, and in its next poll. */
void gyre_drill_turn_to(struct gyre_drill *drill, struct gyre_drill_end *end);
struct gyre_drill_message *gyre_drill_message_of(struct gyre_drill *drill,
                                                 struct gyre_drill_end *from, uint32_t slice,
                                                 uint64_t round, uint64_t length);
void gyre_drill_post_send(struct gyre_drill *drill, struct gyre_drill_end *end,
                          struct gyre_drill_message *message);
void gyre_drill_post_receive(struct gyre_drill *drill, struct gyre_drill_end *end,
                             struct gyre_drill_message *message);
/* Reads and writes at the marked ends of a rank. True: a post has ended. */
bool gyre_drill_poll(struct gyre_drill *drill, uint32_t rank);

/* lanes.c */
int gyre_drill_lanes_init(struct gyre_drill *drill);
/* Moves what the rank can move. */
void gyre_drill_run(struct gyre_drill *drill, uint32_t rank);
void gyre_drill_folded(struct gyre_drill *drill, uint32_t rank, uint8_t lane);

static inline uint64_t gyre_drill_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a × b / divisor */
static inline uint64_t gyre_drill_scaled(uint64_t a, uint64_t b, uint64_t divisor)
{
    return (uint64_t)((unsigned __int128)a * b / divisor);
}

#endif
