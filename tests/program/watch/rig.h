/* Real processes, each with a watch, wired as transport/join/join.h would leave them.
 *
 * The parent makes every socket, forks the ranks, hands out the pids, and lets them start. A rank
 * runs the scenario's function, then says what its health became on the shared board. The parent
 * plays fate: it kills, stops and waits. */
#ifndef GYRE_TESTS_PROGRAM_WATCH_RIG_H
#define GYRE_TESTS_PROGRAM_WATCH_RIG_H

#include "transport/watch/watch.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/types.h>

#define RIG_RANKS 8

struct rig_seat {       /* of one rank, on the board */
    _Atomic int phase;  /* the rank says how far it is */
    _Atomic int status; /* health->status, once it is not 0 */
    uint32_t failed_rank;
    char text[GYRE_TROUBLE_MAX];
    uint64_t failed_at; /* gyre_now_ns() */
    int64_t value;      /* as the scenario likes */
};

struct rig_board {  /* in memory that all processes share */
    _Atomic int go; /* raised by the parent */
    _Atomic uint32_t bell[RIG_RANKS];
    struct gyre_activity activity[RIG_RANKS];
    struct rig_seat seat[RIG_RANKS];
    pid_t pid[RIG_RANKS];
};

struct rig;

struct rig_rank { /* what a scenario's function is given, inside the rank's process */
    struct rig *rig;
    uint32_t rank;
    struct gyre_joined *joined;
    struct gyre_health health;
    struct gyre_watch *watch;
    struct rig_board *board;
};

struct rig {
    uint32_t n;
    uint32_t node[RIG_RANKS]; /* nodes count up from 0 by their lowest rank */
    int dead_time_ms, timeout_ms;
    uint32_t launched; /* the first so many ranks have a launcher's pipe */
    void (*play)(struct rig_rank *me);
    /* below: set by rig_start() */
    struct rig_board *board;
    int pair[RIG_RANKS][RIG_RANKS]; /* [a][b]: a's end of the socket between a and b */
    int listener[RIG_RANKS];        /* of each rank, on loopback */
    struct sockaddr_storage address[RIG_RANKS];
    int launcher_pipe[2];
};

void rig_start(struct rig *rig);  /* forks; returns when every rank has started its watch */
void rig_finish(struct rig *rig); /* kills what is left, reaps, frees */
void rig_kill(struct rig *rig, uint32_t rank, int signal);
void rig_end_launcher(struct rig *rig);

/* Wait for a condition, at most RIG_AWAIT_S × GYRE_TEST_SLOW seconds; then the test fails. */
#define RIG_AWAIT_S 90
void rig_await_phase(struct rig *rig, uint32_t rank, int phase);
void rig_await_failure(struct rig *rig, uint32_t rank);
int rig_exit_code(struct rig *rig, uint32_t rank); /* waits for the rank; −signal if one ended it */
int rig_slow(void);                                /* GYRE_TEST_SLOW, at least 1 */

/* Inside a rank. */
void rig_tell(struct rig_rank *me, int phase);
int rig_await_health(struct rig_rank *me); /* until health fails; the board has it then */
void rig_await_go(struct rig_rank *me, int go);
void rig_pause(void); /* a millisecond, between two looks at a condition */

#endif
