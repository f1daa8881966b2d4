/* A stage for joins: ranks as forked processes, each with its own hand-made job and options, and
 * what became of them. */
#ifndef GYRE_TESTS_PROGRAM_JOB_JOIN_RIG_H
#define GYRE_TESTS_PROGRAM_JOB_JOIN_RIG_H

#include "transport/join/join.h"

#include <sys/types.h>

#define RIG_RANKS 24

struct rig_result { /* written by the child, in memory shared with the test */
    int status;
    bool returned;
    char text[GYRE_TROUBLE_MAX];
    uint32_t nodes, node, local_rank, local_size;
    uint32_t node_of[RIG_RANKS];
    uint8_t session_key[32];
    int tcps[RIG_RANKS];
    bool connected[RIG_RANKS];   /* by the join */
    uint16_t port_of[RIG_RANKS]; /* of the data listeners */
    bool shares[RIG_RANKS];
    bool has_file; /* that is the memory of a large node */
    int wrong;     /* channels that did not carry what they should */
    double ms;     /* from the start of the rig to the end of the join */
};

struct rig_rank {
    struct gyre_job job;
    struct gyre_join_options options;
    void (*before)(const struct rig_rank *rank); /* in the child, before it joins; NULL: nothing */
    bool talk;    /* after joining, exchange words over every channel */
    bool capture; /* its standard error goes to `log` */
    int log;      /* read end, -1 */
    pid_t pid;
};

struct rig {
    int n;
    uint16_t port;
    int port_keeper; /* keeps the port for this job */
    struct rig_rank rank[RIG_RANKS];
    struct rig_result *result; /* [RIG_RANKS], shared */
};

/* n ranks of one job with a fresh port of 127.0.0.1, 10 s to join, transport auto, channels
 * exercised afterwards. */
void rig_setup(struct rig *rig, int n);
void rig_start(struct rig *rig, int rank);
void rig_run(struct rig *rig);         /* starts all and waits for all */
int rig_first_to_end(struct rig *rig); /* waits for one child, returns its index */
bool rig_log_says(struct rig *rig, int rank,
                  const char *words); /* waits until it does, at most 20 s */
void rig_wait(struct rig *rig);       /* every started child; fails the test if one crashed */
void rig_teardown(struct rig *rig);

#endif
