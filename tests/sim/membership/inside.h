/* Jobs whose members agree, in virtual time, each drawn from a seed, with faults.
 *
 *      seed ─▶ scenario ─▶ play ─▶ what is wrong, or nothing
 *                            │
 *                            ├─ play.c     events in the order of their time
 *                            ├─ network.c  connections: delays, cuts, breaks, refusals
 *                            ├─ member.c   a member: it runs, gathers, joins, and is over
 *                            ├─ faults.c   what happens to members and connections
 *                            └─ check.c    what must always hold, and what must at the end
 *
 * The agreement is the library's (transport/members/membership.c). What stands around it, which is
 * gather.c, the join and the watch, is modelled here. */
#ifndef GYRE_TESTS_SIM_MEMBERSHIP_INSIDE_H
#define GYRE_TESTS_SIM_MEMBERSHIP_INSIDE_H

#include "base/clock.h"
#include "base/rng.h"
#include "transport/members/members.h"
#include "transport/members/membership.h"

#include <stdio.h>
#include <string.h>

#define SEATS  12
#define FAULTS 6
#define VIEWS  64 /* distinct completed views of a job that are kept */
#define DEAD   GYRE_SECOND
#define NEVER  UINT64_MAX
#define NOBODY UINT32_MAX
#define BOUND  (20 * GYRE_SECOND) /* within which all is settled once faults have stopped */

/* -- scenarios --------------------------------------------------------------------------------- */

enum fault_kind {
    KILL,   /* the seats of `side` end */
    STOP,   /* the seats of `side` stand still */
    CUT,    /* nothing passes between the seats of `side` and the others */
    LOSE,   /* nothing passes from `side` to the others */
    RESET,  /* the connections of a and b break; `side` odd: only one end notices */
    SHRINK, /* all shrink, and those of `side` leave */
    FUSE,   /* whoever sends the a-th VIEW or GO from then on ends before it */
    FAULT_KINDS
};

struct fault {
    enum fault_kind kind;
    uint32_t a, b, side; /* side: bits */
    uint64_t at, until;  /* until NEVER: for good */
};

struct scenario {
    uint64_t seed;
    uint32_t n, faults;
    uint64_t latency, jitter;
    uint64_t slow[SEATS];   /* from a failure until the program calls gyre_shrink() */
    uint64_t linger[SEATS]; /* from an error of gyre_shrink() until the program finalizes */
    struct fault fault[FAULTS];
};

/* Seed 0: one that is written by hand. */
void draw_scenario(struct scenario *scenario, uint64_t seed);
void print_scenario(const struct scenario *scenario, FILE *to);
const char *fault_name(enum fault_kind kind);

/* Makes a scenario that fails smaller while it fails; *wrong is what the smallest does. */
void shorten_scenario(struct scenario *scenario, char wrong[static 256]);

/* -- a world ----------------------------------------------------------------------------------- */

enum life { RUNS, SLOW, GATHERS, JOINS, OVER, ENDS };

enum event_kind {
    TURN,        /* of seat `to` */
    FAULT_COMES, /* number `to` */
    FAULT_GOES,
    SYN,
    ESTABLISHED,
    REFUSED,
    HUNG_UP, /* of a connection */
    CALL,
    PROBE,
    ANSWER,
    VIEW,
    CUT_OFF, /* as in record.h */
    DONE,
    GO,       /* of a join */
    FINALIZE, /* by seat `to` */
    SETTLE    /* look whether all is settled */
};

struct event {
    uint64_t at, order;
    enum event_kind kind;
    uint32_t from, to;
    bool dialed; /* the connection was made by `from` */
    uint64_t serial;
    struct gyre_statement said;
    uint8_t standing[SEATS];
};

/* One end of a connection between two seats: a seat has at most one dial to another and keeps the
 * newest of its guests. */
struct end {
    uint64_t serial; /* 0: none */
    bool calls;
    uint64_t next_at, pause; /* of a dial */
};

struct member {
    enum life life;
    uint64_t since, beat_at, run_at, turn; /* turn: number of the newest posted */
    bool finalized, leaving, turning;
    enum gyre_membership_outcome fate; /* of a member that is over */
    struct gyre_members is;
    uint8_t standing[SEATS], next[SEATS];
    bool suspected[SEATS];
    uint64_t heard_at[SEATS]; /* while it runs */
    struct gyre_membership *agreement;
    struct end dial[SEATS], guest[SEATS];
    bool said_done, done[SEATS];
    bool touched; /* it was stopped or cut off at some time */
};

struct view {
    uint32_t epoch, seats; /* bits */
};

struct world {
    const struct scenario *is;
    FILE *log;
    struct gyre_rng rng;
    uint64_t now, orders, serials, quiet_at;
    uint64_t in_order[SEATS][SEATS]; /* when what was sent last arrives */
    struct member member[SEATS];
    struct event *queue;
    size_t queued, room;
    int64_t fuse; /* VIEWs and GOs until the sender ends; -1: none */
    uint32_t views, shrinks;
    struct view view[VIEWS];
    bool settled;
    char wrong[256];
    uint32_t played[FAULT_KINDS];
};

void log_line(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Plays; returns whether something is wrong. */
bool play_scenario(const struct scenario *scenario, FILE *log, struct world *world);

/* -- play.c ------------------------------------------------------------------------------------ */

void post_event(struct world *world, uint64_t at, const struct event *event);

/* -- network.c --------------------------------------------------------------------------------- */

/* Whether nothing passes from one seat to the other now, and until when. */
bool is_cut(const struct world *world, uint32_t from, uint32_t to, uint64_t *until);
bool are_apart(const struct world *world, uint32_t one, uint32_t other); /* either way */
bool is_stopped(const struct world *world, uint32_t seat, uint64_t *until);

/* Sends on a connection; `dialed`: `from` has made it. */
void send_event(struct world *world, enum event_kind kind, uint32_t from, uint32_t to, bool dialed,
                uint64_t serial, const struct gyre_statement *said);

/* Makes a new connection. */
void send_syn(struct world *world, uint32_t from, uint32_t to);

/* Closes an end and tells the other. */
void hang_up(struct world *world, uint32_t seat, uint32_t other, bool dialed);

/* -- member.c ---------------------------------------------------------------------------------- */

void begin_member(struct world *world, uint32_t seat);
void end_member(struct world *world, uint32_t seat); /* its process ends */
void take_event(struct world *world, const struct event *event);
void begin_to_shrink(struct world *world, uint32_t seat, bool leaving);
uint32_t seats_of(const uint8_t *standing, uint32_t n); /* as bits */

/* -- gather.c: member's part that models transport/members/gather.c ---------------------------- */

void begin_gathering(struct world *world, uint32_t seat);
void end_gathering(struct world *world, uint32_t seat);
void turn_gathering(struct world *world, uint32_t seat);
void hear_gathering(struct world *world, const struct event *event);
uint64_t next_dial_at(const struct world *world, uint32_t seat);

/* -- join.c ------------------------------------------------------------------------------------ */

void begin_join(struct world *world, uint32_t seat);
void turn_join(struct world *world, uint32_t seat);
void hear_join(struct world *world, const struct event *event);

/* -- faults.c ---------------------------------------------------------------------------------- */

void start_fault(struct world *world, uint32_t number);
void stop_fault(struct world *world, uint32_t number);

/* -- check.c ----------------------------------------------------------------------------------- */

void set_wrong(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_decision(struct world *world, uint32_t seat);
void check_completion(struct world *world, uint32_t seat);
void check_fate(struct world *world, uint32_t seat);
bool all_settled(const struct world *world);

#endif
