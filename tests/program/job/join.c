/* Joins that succeed: real processes, real sockets. join_refused.c has those that must not. */
#include "rig/clean_room.h"
#include "program/job/join_rig.h"

#include "transport/net/socket.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void join_and_check(int n, enum gyre_join_nodes nodes, int connections, const int *simulated)
{
    static const char *const words[] = {"sharing", "all sharing", "apart"};
    struct rig rig;
    rig_setup(&rig, n);
    for (int i = 0; i < n; i++) {
        rig.rank[i].options.nodes = nodes;
        rig.rank[i].options.connections = connections;
        rig.rank[i].job.simulated_node = simulated ? simulated[i] : -1;
    }
    rig_run(&rig);
    assert_joined(&rig);
    assert_channels(&rig, connections);
    double slowest = 0;
    for (int i = 0; i < n; i++)
        slowest = rig.result[i].ms > slowest ? rig.result[i].ms : slowest;
    print_message("%d ranks, %s: joined after %.1f ms\n", n, words[nodes], slowest);
    for (int i = 0; i < n && simulated; i++)
        for (int j = 0; j < n; j++)
            assert_int_equal(rig.result[0].node_of[i] == rig.result[0].node_of[j],
                             simulated[i] == simulated[j]);
    if (nodes == GYRE_NODES_APART)
        assert_int_equal(rig.result[0].nodes, n);
    else if (!simulated)
        assert_int_equal(rig.result[0].nodes, 1);
    for (int i = 0; i < n && !simulated && nodes != GYRE_NODES_APART; i++) {
        assert_int_equal(rig.result[i].local_rank, i);
        assert_int_equal(rig.result[i].local_size, n);
    }
    rig_teardown(&rig);
}

static void one_rank_needs_nobody(void **state)
{
    (void)state;
    join_and_check(1, GYRE_NODES_SHARE, 1, NULL);
}

static void ranks_of_one_machine_share_memory(void **state)
{
    (void)state;
    for (int n = 2; n <= 8; n *= 2)
        join_and_check(n, GYRE_NODES_SHARE, 2, NULL);
    join_and_check(4, GYRE_NODES_SHARE_ALL, 1, NULL);
}

static void tcp_joins_by_name(void **state)
{
    (void)state;
    for (int n = 2; n <= 8; n *= 2)
        join_and_check(n, GYRE_NODES_APART, n == 2 ? 8 : 2, NULL);
}

static void simulated_nodes_use_tcp_between(void **state)
{
    static const int two_two[] = {0, 0, 1, 1}, four_two[] = {0, 0, 0, 0, 1, 1},
                     mixed[] = {3, 1, 3, 1, 3, 1, 2, 2};
    (void)state;
    join_and_check(4, GYRE_NODES_SHARE, 2, two_two);
    join_and_check(6, GYRE_NODES_SHARE, 1, four_two);
    join_and_check(8, GYRE_NODES_SHARE, 3, mixed);
}

/* -- where rank 0 is found, and how its ranks are reached ---------------------------------------
 */

static void run_and_end(struct rig *rig, int stripes)
{
    rig_run(rig);
    assert_joined(rig);
    assert_channels(rig, stripes);
    rig_teardown(rig);
}

static void rank_0_is_found_by_a_file(void **state)
{
    char path[] = "/tmp/gyre-join-XXXXXX", file[64];
    struct rig rig;
    (void)state;
    assert_int_equal(clean_room_make(path), 0);
    snprintf(file, sizeof file, "%s/root", path);
    rig_setup(&rig, 4);
    FILE *stale = fopen(file, "w"); /* of a job that was killed */
    assert_non_null(stale);
    fprintf(stale, "127.0.0.1 %u\n", rig.port);
    fclose(stale);
    for (int i = 0; i < 4; i++) {
        rig.rank[i].job.root_kind = GYRE_ROOT_FILE;
        rig.rank[i].job.root_port = 0;
        strcpy(rig.rank[i].job.root_file, file);
        rig.rank[i].options.nodes = GYRE_NODES_APART;
    }
    for (int i = 3; i >= 0; i--) /* rank 0 comes last */
        rig_start(&rig, i);
    rig_wait(&rig);
    assert_joined(&rig);
    assert_channels(&rig, 2);
    rig_teardown(&rig);
    assert_int_equal(access(file, F_OK), -1); /* nothing is left behind */
    assert_false(rmdir(path));
}

static void ipv6_serves(void **state)
{
    struct sockaddr_storage loopback;
    struct rig rig;
    (void)state;
    int fd = gyre_address_resolve("::1", 0, &loopback, 1, NULL) == 1
                 ? gyre_socket_listen(&loopback, 0, 0, 1)
                 : -1;
    if (fd < 0) {
        print_message("no IPv6 on this machine\n");
        skip();
    }
    close(fd);
    rig_setup(&rig, 3);
    for (int i = 0; i < 3; i++) {
        strcpy(rig.rank[i].job.root_host, "[::1]");
        rig.rank[i].options.nodes = GYRE_NODES_APART;
    }
    run_and_end(&rig, 2);
}

static void a_name_that_leads_to_loopback_serves(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 3);
    for (int i = 0; i < 3; i++)
        strcpy(rig.rank[i].job.root_host, "localhost");
    run_and_end(&rig, 2);
}

static void data_listeners_obey_interface_and_range(void **state)
{
    struct rig rig;
    (void)state;
    rig_setup(&rig, 4);
    uint16_t low = 41000, high = 41199;
    for (int i = 0; i < 4; i++) {
        rig.rank[i].options.nodes = GYRE_NODES_APART;
        rig.rank[i].options.interface = i % 2 ? "lo" : "eth99,127.0.0.0/8";
        rig.rank[i].options.port_low = low;
        rig.rank[i].options.port_high = high;
    }
    rig_run(&rig);
    assert_joined(&rig);
    for (int i = 0; i < 4; i++)
        assert_in_range(rig.result[0].port_of[i], low, high);
    rig_teardown(&rig);
}

/* -- one machine, but apart ----------------------------------------------------------------------
 */

static void become_nobody(const struct rig_rank *rank)
{
    (void)rank;
    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        abort();
}

static void another_user_is_served_by_tcp(void **state)
{
    struct rig rig;
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can be two users\n");
        skip();
    }
    rig_setup(&rig, 4);
    rig.rank[2].before = become_nobody;
    rig.rank[2].capture = true;
    rig_run(&rig);
    assert_true(rig_log_says(&rig, 2, "another user id (65534, 0)): tcp serves between them"));
    assert_joined(&rig);
    assert_channels(&rig, 2);
    assert_int_equal(rig.result[0].nodes, 2);
    assert_int_equal(rig.result[0].node_of[2], 1);
    assert_int_equal(rig.result[3].local_size, 3);
    assert_int_equal(rig.result[3].local_rank, 2);
    rig_teardown(&rig);
}

/* -- a large machine --------------------------------------------------------------------------- */

enum { LARGE = 20 }; /* the tree of places: 1 to 16 below 0, 17 to 19 below 1 */

static void setup_large(struct rig *rig)
{
    rig_setup(rig, LARGE);
    for (int i = 0; i < LARGE; i++)
        rig->rank[i].options.links_at_once = 4;
}

/* The ranks of a node but rank 0 have met the one above in the node's tree. */
static void assert_met_along_a_tree(const struct rig *rig)
{
    for (int a = 0; a < rig->n; a++)
        for (int b = 0; b < a; b++) {
            const struct rig_result *high = &rig->result[a], *low = &rig->result[b];
            const bool edge = high->node == low->node && high->local_rank > 0 &&
                              (high->local_rank - 1) / 16 == low->local_rank;
            if (high->shares[b] != edge || low->shares[a] != edge)
                fail_msg("ranks %d and %d are %san edge", b, a, edge ? "" : "no ");
        }
}

static void ranks_of_a_large_machine_meet_along_a_tree(void **state)
{
    struct rig rig;
    (void)state;
    setup_large(&rig);
    rig_run(&rig);
    assert_joined(&rig);
    assert_int_equal(rig.result[0].nodes, 1);
    assert_met_along_a_tree(&rig);
    for (int i = 0; i < LARGE; i++)
        assert_true(rig.result[i].has_file);
    rig_teardown(&rig);
}

/* Rank 1 cannot share memory. So ranks 17 to 19, which are below it on the machine, call rank 0. In
 * the node 18 and 19 are below rank 2, and meet it later. */
static void a_rank_that_cannot_share_is_climbed_past(void **state)
{
    struct rig rig;
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can be two users\n");
        skip();
    }
    setup_large(&rig);
    rig.rank[1].before = become_nobody;
    rig_run(&rig);
    assert_joined(&rig);
    assert_int_equal(rig.result[0].nodes, 2);
    assert_int_equal(rig.result[1].local_size, 1);
    assert_int_equal(rig.result[18].local_rank, 17);
    assert_met_along_a_tree(&rig);
    for (int i = 0; i < LARGE; i++)
        assert_int_equal(rig.result[i].has_file, i != 1);
    rig_teardown(&rig);
}

/* -- more ranks than connect at once, and a device --------------------------------------------- */

/* Joins ranks that connect two at once, so 16 where one of them has a device. */
static void join_with_a_device(struct rig *rig, int n, enum gyre_join_channels channels)
{
    rig_setup(rig, n);
    for (int i = 0; i < n; i++) {
        rig->rank[i].options.nodes = GYRE_NODES_APART;
        rig->rank[i].options.links_at_once = 2;
    }
    rig->rank[3].options.channels = channels;
    rig_run(rig);
    assert_joined(rig);
}

static void partners_connect_where_a_rank_has_a_device(void **state)
{
    static const int apart[] = {1, 2, 3, 4, 8, 12, 16, 17, 18, 19}; /* of 20, around the ring */
    struct rig rig;
    (void)state;
    join_with_a_device(&rig, 20, GYRE_CHANNELS_PARTNERS);
    for (int a = 0; a < 20; a++)
        for (int b = 0; b < 20; b++) {
            bool partners = false;
            for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
                partners |= (a + apart[i]) % 20 == b;
            if (rig.result[a].connected[b] != partners)
                fail_msg("%d and %d are %spartners", a, b, partners ? "" : "no ");
        }
    rig_teardown(&rig);
}

static void all_connect_where_they_must(void **state)
{
    static const struct {
        int n;
        enum gyre_join_channels channels;
    } jobs[] = {{20, GYRE_CHANNELS_ALL}, {16, GYRE_CHANNELS_PARTNERS}};
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        struct rig rig;
        join_with_a_device(&rig, jobs[i].n, jobs[i].channels);
        for (int a = 0; a < jobs[i].n; a++)
            for (int b = 0; b < jobs[i].n; b++)
                assert_int_equal(rig.result[a].connected[b], a != b);
        rig_teardown(&rig);
    }
}

static void none_connects_where_all_can_wait(void **state)
{
    struct rig rig;
    (void)state;
    join_with_a_device(&rig, 4, GYRE_CHANNELS_NONE);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < 4; b++)
            assert_false(rig.result[a].connected[b]);
    rig_teardown(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_needs_nobody),
        cmocka_unit_test(ranks_of_one_machine_share_memory),
        cmocka_unit_test(tcp_joins_by_name),
        cmocka_unit_test(simulated_nodes_use_tcp_between),
        cmocka_unit_test(rank_0_is_found_by_a_file),
        cmocka_unit_test(ipv6_serves),
        cmocka_unit_test(a_name_that_leads_to_loopback_serves),
        cmocka_unit_test(data_listeners_obey_interface_and_range),
        cmocka_unit_test(another_user_is_served_by_tcp),
        cmocka_unit_test(ranks_of_a_large_machine_meet_along_a_tree),
        cmocka_unit_test(a_rank_that_cannot_share_is_climbed_past),
        cmocka_unit_test(partners_connect_where_a_rank_has_a_device),
        cmocka_unit_test(all_connect_where_they_must),
        cmocka_unit_test(none_connects_where_all_can_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
