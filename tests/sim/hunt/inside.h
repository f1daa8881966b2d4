/* The inside of the hunt, for its files only. */
#ifndef GYRE_TESTS_SIM_HUNT_INSIDE_H
#define GYRE_TESTS_SIM_HUNT_INSIDE_H

#include "base/clock.h"
#include "base/rng.h"
#include "collectives/comm/progress.h"
#include "sim/hunt/hunt.h"
#include "transport/link/on_demand.h"
#include "transport/link/sim/world.h"
#include "transport/watch/detect/failure_detector.h"

#include <setjmp.h>
#include <ucontext.h>

#define HUNT_DEAD  GYRE_SECOND
#define HUNT_LIMIT (10 * GYRE_SECOND) /* of one operation */
#define HUNT_START GYRE_SECOND        /* detectors do not like a clock of 0 */

enum hunt_life { HUNT_LIVES, HUNT_ENDED, HUNT_DEAD_NOW };

/* What a call left behind, to be looked at again in the end. */
struct hunt_result {
    bool called, ended, failed; /* failed: its buffers must not change any more */
    uint8_t *memory[2];         /* with guards around */
    uint64_t bytes[2];
    uint8_t *input, *output;
    struct gyre_work *work[2];
    uint64_t hash; /* of both buffers, when it had failed */
    uint64_t counts[HUNT_RANKS], at[HUNT_RANKS];
};

struct gyre_watch {
    struct gyre_failure_detector *detector;
    uint64_t clear[HUNT_RANKS]; /* per channel: when the last message sent on it arrives */
    /* Per channel: its connection, alike at both ends; 0: broken, or none was made. */
    uint64_t wire[HUNT_RANKS];
    bool dials[HUNT_RANKS];                 /* per channel: a dial is under way */
    struct hunt_event *said[HUNT_RANKS];    /* per channel: the last message sent on it */
    uint64_t asked, wakes_at, silent_until; /* silent_until: a pause ends */
    struct gyre_watch_state mine;
    bool parting, deaf; /* deaf: the rank reads no more */
};

/* A connection of a link that a rank wants made. */
struct hunt_wish {
    bool is;
    uint32_t number;  /* of the last attempt; older ones are forgotten */
    uint64_t vain_ns; /* for which attempts came to nothing */
};

struct gyre_domain { /* a rank */
    uint32_t rank;
    enum hunt_life life;
    struct gyre_links *links;
    struct gyre_on_demand on_demand;
    struct gyre_on_demand_peer far[HUNT_RANKS];
    struct hunt_wish wish[HUNT_RANKS];
    uint32_t asked_of, asked_number; /* the last that was asked for a connection; 0: none was */
    bool links_ended;                /* whoever asks for a connection is told */
    struct gyre_joined joined;
    struct gyre_health health;
    struct gyre_activity activity;
    struct gyre_watch watch;
    struct gyre_comm *comm, *part;
    struct hunt_result result[HUNT_OPS];
    uint64_t nap_until;
    int status;         /* of the first call that failed */
    bool blames_ended;  /* the rank that its failure names had ended before */
    ucontext_t context; /* where it begins */
    jmp_buf turn;       /* where it goes on */
    bool begun;
};

struct hunt {
    const struct hunt_scenario *is;
    struct gyre_sim_world *world;
    struct gyre_member member[HUNT_RANKS];
    struct gyre_domain rank[HUNT_RANKS];
    struct gyre_domain *here; /* whose coroutine runs; NULL: the conductor */
    struct gyre_rng rng;
    FILE *log;
    uint64_t hash, bound;
    bool begun[HUNT_MOST];
    bool spared
        [HUNT_MOST]; /* resets that found no connection, but perhaps one that was being made */
    bool made[HUNT_RANKS][HUNT_RANKS]; /* connections of links, by the lower rank and the higher */
    uint32_t dials_to_reset[HUNT_RANKS];
    uint64_t wires;
    uint32_t reset_ends; /* ranks at an end of a connection of the watch that was reset, as bits */
    uint64_t clogged_until[HUNT_RANKS][HUNT_RANKS], slower_ns[HUNT_RANKS][HUNT_RANKS];
    struct hunt_outcome *outcome;
};

extern struct hunt hunt;

/* -- play.c's lowest part: log.c --------------------------------------------------------------- */

/* An event: into the hash, and into the log if there is one. */
void hunt_note(const char *what, uint32_t rank, uint64_t a, uint64_t b);

/* Something is wrong. The first one counts. */
void hunt_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t hunt_hash(const void *bytes, uint64_t length);

/* -- memory.c ---------------------------------------------------------------------------------- */

void hunt_memory_reset(void);

/* The `skip`-th allocation of that rank from now on fails, once. */
void hunt_memory_fail(uint32_t rank, uint64_t skip);
bool hunt_memory_failed(uint32_t rank);

/* Bytes that the rank has allocated and not freed. */
uint64_t hunt_memory_held(uint32_t rank);

/* The rig's own memory; it is never counted, and goes with the next reset. */
void *hunt_allocate(uint64_t bytes);

/* -- events.c ---------------------------------------------------------------------------------- */

enum hunt_event_kind {
    HUNT_TICK,    /* a detector wakes */
    HUNT_MESSAGE, /* of one detector to another */
    HUNT_END_OF_CHANNEL,
    HUNT_END_OF_PROCESS,
    HUNT_DIAL,        /* a rank makes a connection of its watch anew */
    HUNT_LINK_DIAL,   /* a rank tries to make a connection of a link */
    HUNT_LINK_ASK,    /* it has reached its peer */
    HUNT_LINK_ANSWER, /* the peer's answer has reached it */
    HUNT_FAULT_BEGINS,
    HUNT_FAULT_ENDS
};

struct hunt_event {
    uint64_t at, order;
    enum hunt_event_kind kind;
    uint32_t rank, channel; /* or the number of the fault */
    uint32_t length;
    uint64_t wire; /* of a message */
    uint8_t *bytes;
};

void hunt_events_reset(void);
void hunt_schedule(struct hunt_event event);
/* Schedules a taken event once more; it stays before those that were scheduled later. */
void hunt_postpone(const struct hunt_event *event, uint64_t at);

/* Takes an event that is due; false: none is. */
bool hunt_take_event(uint64_t now, struct hunt_event *event);

/* -- watch.c ----------------------------------------------------------------------------------- */

int hunt_watch_open(struct gyre_domain *rank);
void hunt_watch_close(struct gyre_domain *rank);
void hunt_watch_handle(const struct hunt_event *event);
void hunt_watch_leave(struct gyre_domain *rank);

/* The process of the rank has ended: whoever could see it does. */
void hunt_watch_end(struct gyre_domain *rank);

/* The connection of the watch of `far` to rank 0, or the rank above it, is reset. The lower rank
 * perhaps does not notice. */
void hunt_watch_reset(uint32_t far, bool root_notices);

/* Messages from an earlier life of `from` arrive at `to`; or its last message, once more. False:
 * there is no way or no message. */
bool hunt_watch_haunt(uint32_t to, uint32_t from);
bool hunt_watch_repeat(uint32_t to, uint32_t from);

/* -- links.c ----------------------------------------------------------------------------------- */

/* Says which peers' links the rank makes at their first use. */
void hunt_links_plan(struct gyre_domain *rank);

/* Has connections made that the rank's links want: as whoever waits in a call does. */
void hunt_links_ask(struct gyre_domain *rank);

void hunt_links_handle(const struct hunt_event *event);

/* Whether two ranks had a connection to reset. An attempt to make one has failed now. */
bool hunt_links_reset(uint32_t a, uint32_t b);

/* What the rank asked last arrives once more. False: it never asked, or has ended. */
bool hunt_links_repeat(uint32_t rank);

/* -- faults.c ---------------------------------------------------------------------------------- */

void hunt_faults_schedule(void);
void hunt_fault_event(const struct hunt_event *event);

/* Counts, at the end, the faults of which only the end tells whether they did something. */
void hunt_faults_count(void);

/* Whether the fault has hit the rank, or a line of it. */
bool hunt_hits(const struct hunt_fault *fault, uint32_t rank);

/* Whether a fault has hit this rank, or a line of it, that explains such a failure. */
bool hunt_guilty(uint32_t rank, int status);

/* Whether ranks may not have heard rank 0 through a tree: the fault has hit, beside another one, a
 * rank that passes the word on and of which the word is not (then rank 0 has others told past it);
 * or the line over which a rank hears. */
bool hunt_cuts_the_tree(const struct hunt_fault *fault);

/* Whether a failure may name this rank because it had ended. */
bool hunt_excuses_end(uint32_t rank);
uint32_t hunt_guilty_faults(void); /* that have begun and that may fail the job */

/* -- program.c --------------------------------------------------------------------------------- */

/* What a rank's program does between gyre_init() and gyre_finalize(). */
void hunt_program(struct gyre_domain *rank);

/* Has anything of a finished call changed since? */
void hunt_program_check(struct gyre_domain *rank);

/* -- rank.c ------------------------------------------------------------------------------------ */

void hunt_rank_open(uint32_t rank);
void hunt_rank_run(struct gyre_domain *rank); /* until it waits */
void hunt_rank_sleep(struct gyre_domain *rank, uint64_t ns);
void hunt_rank_exit(struct gyre_domain *rank); /* the process ends here; does not return */
void hunt_rank_crash(struct gyre_domain *rank);

#endif
