/* Jobs whose members agree, in virtual time, each drawn from a seed, with faults.
 *
 *      seed ─▶ scenario ─▶ play ─▶ what is wrong, or nothing
 *                            │
 *                            ├─ play.c     events in the order of their time
 *                            ├─ network.c  connections: delays, cuts, breaks, refusals
 *                            ├─ member.c   a member: it runs, gathers, joins, and is over
 *                            ├─ newcomer.c a process that comes new, and rank 0 where it waits
 *                            ├─ faults.c   what happens to members and connections
 *                            └─ check.c    what must always hold, and what must at the end
 *
 * The agreement is the library's (transport/members/membership.c). What stands around it, which is
 * gather.c, the waiting room, the join and the watch, is modelled here.
 *
 * Processes and seats. The founders are processes 0 … n - 1, on the seats of these numbers. Those
 * behind come new, and have a seat from the view on that takes them in: another one each time that
 * they ask anew. A member knows a seat by its address, which is a process and the number of its
 * listener. */
#ifndef GYRE_TESTS_SIM_MEMBERSHIP_INSIDE_H
#define GYRE_TESTS_SIM_MEMBERSHIP_INSIDE_H

#include "base/clock.h"
#include "base/rng.h"
#include "transport/members/members.h"
#include "transport/members/membership.h"

#include <stdio.h>
#include <string.h>

#define PROCESSES 15 /* of which up to 3 come new */
#define SEATS     28 /* of a job, vacant ones included */
#define FAULTS    7
#define VIEWS     64 /* distinct completed views of a job that are kept */
#define DEAD      GYRE_SECOND
#define NEVER     UINT64_MAX
#define NOBODY    UINT32_MAX
#define BOUND     (20 * GYRE_SECOND) /* within which all is settled once faults have stopped */

/* -- scenarios --------------------------------------------------------------------------------- */

enum fault_kind {
    KILL,   /* the seats of `side` end */
    STOP,   /* the seats of `side` stand still */
    CUT,    /* nothing passes between the seats of `side` and the others */
    LOSE,   /* nothing passes from `side` to the others */
    RESET,  /* the connections of a and b break; `side` odd: only one end notices */
    SHRINK, /* all shrink, and those of `side` leave */
    GROW,   /* all grow, by up to `a` + 1 of those that wait at rank 0 */
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
    uint32_t n, processes, faults; /* founders; with those that come new */
    uint64_t latency, jitter;
    uint64_t slow[PROCESSES];   /* from a failure until the program calls gyre_shrink() */
    uint64_t linger[PROCESSES]; /* from an error of gyre_shrink() until the program finalizes */
    uint64_t comes[PROCESSES];  /* when a newcomer begins to ask */
    struct fault fault[FAULTS];
};

/* Seeds 0 to 7: written by hand. */
void draw_scenario(struct scenario *scenario, uint64_t seed);
void print_scenario(const struct scenario *scenario, FILE *to);
const char *fault_name(enum fault_kind kind);

/* Makes a scenario that fails smaller while it fails; *wrong is what the smallest does. */
void shorten_scenario(struct scenario *scenario, char wrong[static 256]);

/* -- a world ----------------------------------------------------------------------------------- */

enum life { RUNS, SLOW, GATHERS, JOINS, ASKS, OVER, ENDS };

enum event_kind {
    TURN,        /* of process `to` */
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
    ASK,
    TAKEN, /* as in waiting_room.h: with the VIEW of which it is the first record */
    DONE,
    GO,       /* of a join */
    FINALIZE, /* by process `to` */
    SETTLE    /* look whether all is settled */
};

struct event {
    uint64_t at, order;
    enum event_kind kind;
    uint32_t from, to;
    bool dialed; /* the connection was made by `from` */
    uint64_t serial;
    uint32_t listener; /* a SYN's */
    uint32_t seat;     /* which the sender has, or gives to a newcomer */
    struct gyre_statement said;
    uint8_t standing[SEATS];
    uint32_t address[SEATS]; /* of the seats that the sender knows */
};

/* An address, of which 0 is none. */
static inline uint32_t address_of(uint32_t process, uint32_t listener)
{
    return process << 16 | listener;
}

static inline uint32_t process_at(uint32_t address)
{
    return address >> 16;
}

/* One end of a connection. A process has at most one dial to a seat, and keeps the newest guest of
 * each process. */
struct end {
    uint64_t serial; /* 0: none */
    uint32_t peer;   /* of a dial: the process */
    bool calls;
    uint64_t next_at, pause; /* of a dial */
};

struct waiting { /* a newcomer's connection, at rank 0 */
    uint32_t process;
    uint64_t serial;
};
enum { WAITING_MOST = 16 };

struct member {
    enum life life;
    uint64_t since, beat_at, run_at, turn; /* turn: number of the newest posted */
    bool finalized, leaving, turning;
    uint32_t grows; /* the ranks that the view must have; 0: it does not grow */
    uint32_t listener;
    enum gyre_membership_outcome fate; /* of a member that is over */
    struct gyre_members is;
    uint8_t standing[SEATS], next[SEATS];
    uint32_t address[SEATS];
    bool suspected[SEATS];
    uint64_t heard_at[SEATS]; /* while it runs */
    struct gyre_membership *agreement;
    struct end dial[SEATS], guest[PROCESSES];
    struct end ask;                       /* of a newcomer, to rank 0 */
    struct waiting waiting[WAITING_MOST]; /* here, in the order in which they came */
    struct waiting invited[WAITING_MOST]; /* those that come along with the next view */
    uint32_t waits, invites;
    bool said_done, done[PROCESSES];
    bool touched; /* it was stopped or cut off at some time */
};

struct view {
    uint32_t epoch, seats, processes; /* bits */
};

struct world {
    const struct scenario *is;
    FILE *log;
    struct gyre_rng rng;
    uint64_t now, orders, serials, quiet_at;
    uint64_t in_order[PROCESSES][PROCESSES]; /* when what was sent last arrives */
    struct member member[PROCESSES];
    struct event *queue;
    size_t queued, room;
    int64_t fuse;          /* VIEWs and GOs until the sender ends; -1: none */
    uint32_t views, grown; /* grown: completions by newcomers */
    struct view view[VIEWS];
    uint32_t sits[SEATS]; /* addresses that have completed a view; 0: none yet */
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

/* Whether nothing passes from one process to the other now, and until when. */
bool is_cut(const struct world *world, uint32_t from, uint32_t to, uint64_t *until);
bool are_apart(const struct world *world, uint32_t one, uint32_t other); /* either way */
bool is_stopped(const struct world *world, uint32_t process, uint64_t *until);

/* Sends on a connection; `dialed`: `from` has made it. */
void send_event(struct world *world, enum event_kind kind, uint32_t from, uint32_t to, bool dialed,
                uint64_t serial, const struct gyre_statement *said);

/* The same, to a newcomer: its seat is in the event. */
void send_taken(struct world *world, uint32_t from, const struct waiting *to, uint32_t seat,
                const struct gyre_statement *said);

/* Makes a new connection to an address. */
void send_syn(struct world *world, uint32_t from, struct end *end, uint32_t address);

/* Closes an end and tells the other. */
void hang_up_dial(struct world *world, uint32_t process, struct end *dial);
void hang_up_guest(struct world *world, uint32_t process, uint32_t other);
void hang_up_all(struct world *world, uint32_t process); /* but for those that wait */

/* -- member.c ---------------------------------------------------------------------------------- */

void begin_member(struct world *world, uint32_t process);
void end_member(struct world *world, uint32_t process); /* its process ends */
void take_event(struct world *world, const struct event *event);
void begin_to_shrink(struct world *world, uint32_t process, bool leaving);
void turn_at(struct world *world, uint32_t process, uint64_t at); /* the turn before is void */
uint32_t seats_of(const uint8_t *standing);                       /* as bits */
uint32_t processes_of(const struct member *member, const uint8_t *standing);

/* -- newcomer.c -------------------------------------------------------------------------------- */

void begin_to_ask(struct world *world, uint32_t process);
void turn_newcomer(struct world *world, uint32_t process);
void hear_newcomer(struct world *world, const struct event *event);

/* At rank 0: whether the event is of somebody that waits; grows all ranks of its view; lets go of
 * those that were invited; closes the place. */
bool hear_room(struct world *world, const struct event *event);
void grow_view(struct world *world, uint32_t root, uint32_t most);
void disinvite(struct world *world, uint32_t process);
void end_room(struct world *world, uint32_t process);

/* -- gather.c: member's part that models transport/members/gather.c ---------------------------- */

void begin_gathering(struct world *world, uint32_t process);
void end_gathering(struct world *world, uint32_t process);
void turn_gathering(struct world *world, uint32_t process);
void hear_gathering(struct world *world, const struct event *event);
uint64_t next_dial_at(const struct world *world, uint32_t process);

/* -- join.c ------------------------------------------------------------------------------------ */

void begin_join(struct world *world, uint32_t process);
void turn_join(struct world *world, uint32_t process);
void hear_join(struct world *world, const struct event *event);

/* -- faults.c ---------------------------------------------------------------------------------- */

void start_fault(struct world *world, uint32_t number);
void stop_fault(struct world *world, uint32_t number);

/* -- check.c ----------------------------------------------------------------------------------- */

void set_wrong(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check_decision(struct world *world, uint32_t process);
void check_completion(struct world *world, uint32_t process);
void check_fate(struct world *world, uint32_t process);
bool all_settled(const struct world *world);

#endif
