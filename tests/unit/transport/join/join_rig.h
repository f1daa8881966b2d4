/* The state of a join without its protocol: what the parts of a join are tested with. */
#ifndef GYRE_TESTS_UNIT_TRANSPORT_JOIN_JOIN_RIG_H
#define GYRE_TESTS_UNIT_TRANSPORT_JOIN_JOIN_RIG_H

#include "transport/join/inside.h"
#include "rig/test.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

struct join_rig {
    struct gyre_joining join;
    struct gyre_job job;
    struct gyre_join_options options;
    struct gyre_trouble trouble;
};

/* `rank` of `n` ranks of this machine, whose dead time is 10 s. */
static inline void join_rig_open(struct join_rig *rig, uint32_t rank, uint32_t n)
{
    *rig = (struct join_rig){
        .job = {.rank = (int)rank, .world = (int)n, .simulated_node = -1},
        .options = {.join_timeout_ms = 60000, .dead_time_ms = 10000, .connections = 1}};
    memset(rig->job.key, 0x4b, sizeof rig->job.key);
    rig->join = (struct gyre_joining){.job = &rig->job,
                                      .options = &rig->options,
                                      .trouble = &rig->trouble,
                                      .joined = gyre_joined_create(rank, n),
                                      .identity = calloc(n, sizeof(struct gyre_rank_identity)),
                                      .control = calloc(n, sizeof(struct gyre_control)),
                                      .epoll = epoll_create1(EPOLL_CLOEXEC),
                                      .now = gyre_now_ns()};
    assert_non_null(rig->join.joined);
    assert_non_null(rig->join.identity);
    assert_non_null(rig->join.control);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(gyre_identity_gather(&rig->job, &rig->join.identity[i]), 0);
}

static inline void join_rig_close(struct join_rig *rig)
{
    close(rig->join.epoll);
    free(rig->join.control);
    free(rig->join.identity);
    gyre_joined_destroy(rig->join.joined);
}

#endif
