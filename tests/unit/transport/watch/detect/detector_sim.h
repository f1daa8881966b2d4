/* Thousands of vigils in one process and in virtual time.
 *
 * The simulator carries their messages with random latency, in order per channel, wakes them when
 * they ask, and does to them what machines do: kills, stops, delays, cuts. Everything follows from
 * one seed. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_WATCH_DETECT_DETECTOR_SIM_H
#define GYRE_TESTS_UNIT_TRANSPORT_WATCH_DETECT_DETECTOR_SIM_H

#include "base/rng.h"
#include "transport/watch/detect/failure_detector.h"

#define SIM_FOREVER UINT64_MAX

struct sim_rank {
    struct gyre_failure_detector *detector;
    struct gyre_watch_state state; /* what it does; the test may change it at any time */
    uint64_t paused_until;         /* nothing reaches it before; SIM_FOREVER: stopped */
    uint64_t asked, wakes_at;      /* when it wanted to wake, and when it will */
    uint64_t failed_at;            /* when its failure was decided; 0: it has none */
    uint64_t *clear;               /* per channel: when the last message sent on it arrives */
    /* Per channel: its connection, the same number at both ends; 0: broken, or none was made. */
    uint64_t *wire;
    bool *dials;   /* per channel: a dial is under way */
    uint32_t side; /* messages between different sides are lost */
    uint32_t warnings;
    bool dead, lingers; /* lingers: a child keeps its sockets open */
    char warning[GYRE_WATCH_TEXT_MAX];
};

struct sim_event;

struct sim {
    /* set before sim_open() */
    uint32_t n, ranks_per_node;
    uint32_t fan_out; /* of the tree; 0: flat */
    bool large;       /* with a fan-out: nodes are, and their ranks are trees */
    bool devices;     /* each rank has one */
    uint64_t seed, dead_ns, timeout_ns, patience_ns;
    uint64_t latency_max;  /* of a message; the least is 10 µs */
    uint64_t lateness_max; /* of a tick */
    /* the simulator's own */
    struct gyre_rng rng;
    struct gyre_member *member;
    struct sim_rank *rank;
    uint64_t now, order, messages, wires;
    struct sim_event *heap;
    size_t events, room;
};

void sim_open(struct sim *sim);
void sim_close(struct sim *sim);
void sim_run(struct sim *sim, uint64_t duration_ns);

void sim_kill(struct sim *sim, uint32_t rank); /* the process ends; its sockets close */
void sim_kill_open(struct sim *sim,
                   uint32_t rank); /* it ends, but a child keeps its sockets open */
/* A connection between nodes is reset, and of the two ends those that are told notice. */
void sim_reset(struct sim *sim, uint32_t a, uint32_t b, bool a_notices, bool b_notices);
void sim_pause(struct sim *sim, uint32_t rank, uint64_t duration_ns);
void sim_cut_node(struct sim *sim, uint32_t node); /* its network is gone */
void sim_report(struct sim *sim, uint32_t rank, int status, uint32_t blamed, bool echo,
                const char *text);
void sim_leave(struct sim *sim, uint32_t rank);
void sim_eof(struct sim *sim, uint32_t at, uint32_t peer); /* one end of one channel sees its end */

const struct gyre_detector_record *sim_failure(struct sim *sim, uint32_t rank);

#endif
