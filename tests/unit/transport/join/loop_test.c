/* The common part of a join. Joins as a whole are tested by tests/program/job/join.c. */
#include "unit/transport/join/join_rig.h"

#include <sys/socket.h>

/* A bit for each lower rank makes the report of a high rank the longest record that rank 0 gets. */
static void rank_0_takes_the_report_of_a_high_rank(void **state)
{
    enum { HIGH = 100000 };
    struct join_rig rig;
    struct gyre_talk talk;
    int pair[2];
    (void)state;
    join_rig_open(&rig, 0, 2);
    free(rig.join.control);
    rig.join.control = calloc(HIGH + 1, sizeof *rig.join.control);
    assert_non_null(rig.join.control);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    memset(&talk, 0, sizeof talk);
    gyre_talk_open(&talk, pair[0]);
    assert_int_equal(gyre_join_control(&rig.join, HIGH, &talk), 0);
    assert_true(gyre_join_report_bytes(HIGH) > GYRE_RECORD_SMALL);
    assert_true(rig.join.control[HIGH].talk.limit >= gyre_join_report_bytes(HIGH));
    gyre_talk_close(&rig.join.control[HIGH].talk);
    close(pair[1]);
    join_rig_close(&rig);
}

static uint64_t seconds_of_a_phase(uint32_t n, int dead_ms, int join_timeout_ms)
{
    const struct gyre_join_options options = {.dead_time_ms = dead_ms,
                                              .join_timeout_ms = join_timeout_ms};
    struct gyre_joining join = {.options = &options, .joined = gyre_joined_create(0, n)};
    assert_non_null(join.joined);
    uint64_t seconds = gyre_join_phase_timeout(&join) / GYRE_SECOND;
    gyre_joined_destroy(join.joined);
    return seconds;
}

static void many_ranks_have_more_time_to_meet(void **state)
{
    (void)state;
    assert_int_equal(seconds_of_a_phase(4, 10000, 300000), 10);
    assert_int_equal(seconds_of_a_phase(4, 1000, 300000), 2);
    assert_int_equal(seconds_of_a_phase(4, 0, 300000), 300);
    assert_in_range(seconds_of_a_phase(512, 10000, 300000), 104, 200);
    assert_int_equal(seconds_of_a_phase(4096, 10000, 300000), 300);
    assert_int_equal(seconds_of_a_phase(512, 10000, 5000), 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank_0_takes_the_report_of_a_high_rank),
        cmocka_unit_test(many_ranks_have_more_time_to_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
