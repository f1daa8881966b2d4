/* Joins that succeed: real processes, real sockets. proc_join_refused.c has those that must not. */
#include "join_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* All joined, all channels carried the right words, and every rank has the same picture. */
static void assert_joined(const struct rig *rig)
{
    for (int i = 0; i < rig->n; i++) {
        const struct rig_result *result = &rig->result[i];
        if (!result->returned || result->status)
            fail_msg("rank %d: status %d: %s", i, result->status, result->text);
        assert_int_equal(result->wrong, 0);
        assert_int_equal(result->nodes, rig->result[0].nodes);
        assert_memory_equal(result->node_of, rig->result[0].node_of, sizeof result->node_of);
        assert_memory_equal(result->session_key, rig->result[0].session_key, 32);
    }
}

/* Ranks of one node share memory and have no TCP between them; ranks of two have `stripes`
 * connections. */
static void assert_channels(const struct rig *rig, int stripes)
{
    for (int a = 0; a < rig->n; a++)
        for (int b = 0; b < rig->n; b++) {
            const struct rig_result *result = &rig->result[a];
            bool near = a != b && result->node_of[a] == result->node_of[b];
            assert_int_equal(result->shares[b], near);
            assert_int_equal(result->tcps[b], a == b || near ? 0 : stripes);
        }
}

static void join_and_check(int n, const char *transport, int connections, const int *simulated)
{
    struct rig rig;
    rig_setup(&rig, n);
    for (int i = 0; i < n; i++) {
        rig.rank[i].options.transport = transport;
        rig.rank[i].options.connections = connections;
        rig.rank[i].job.simulated_node = simulated ? simulated[i] : -1;
    }
    rig_run(&rig);
    assert_joined(&rig);
    assert_channels(&rig, connections);
    double slowest = 0;
    for (int i = 0; i < n; i++)
        slowest = rig.result[i].ms > slowest ? rig.result[i].ms : slowest;
    print_message("%d ranks, %s: joined after %.1f ms\n", n, transport, slowest);
    for (int i = 0; i < n && simulated; i++)
        for (int j = 0; j < n; j++)
            assert_int_equal(rig.result[0].node_of[i] == rig.result[0].node_of[j],
                             simulated[i] == simulated[j]);
    if (!strcmp(transport, "tcp"))
        assert_int_equal(rig.result[0].nodes, n);
    else if (!simulated)
        assert_int_equal(rig.result[0].nodes, 1);
    for (int i = 0; i < n && !simulated && strcmp(transport, "tcp"); i++) {
        assert_int_equal(rig.result[i].local_rank, i);
        assert_int_equal(rig.result[i].local_size, n);
    }
    rig_teardown(&rig);
}

static void one_rank_needs_nobody(void **state)
{
    (void)state;
    join_and_check(1, "auto", 1, NULL);
}

static void ranks_of_one_machine_share_memory(void **state)
{
    (void)state;
    for (int n = 2; n <= 8; n *= 2)
        join_and_check(n, "auto", 2, NULL);
    join_and_check(4, "shm", 1, NULL);
}

static void tcp_joins_by_name(void **state)
{
    (void)state;
    for (int n = 2; n <= 8; n *= 2)
        join_and_check(n, "tcp", n == 2 ? 8 : 2, NULL);
}

static void simulated_nodes_use_tcp_between(void **state)
{
    static const int two_two[] = {0, 0, 1, 1}, four_two[] = {0, 0, 0, 0, 1, 1},
                     mixed[] = {3, 1, 3, 1, 3, 1, 2, 2};
    (void)state;
    join_and_check(4, "auto", 2, two_two);
    join_and_check(6, "auto", 1, four_two);
    join_and_check(8, "auto", 3, mixed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_needs_nobody),
        cmocka_unit_test(ranks_of_one_machine_share_memory),
        cmocka_unit_test(tcp_joins_by_name),
        cmocka_unit_test(simulated_nodes_use_tcp_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
