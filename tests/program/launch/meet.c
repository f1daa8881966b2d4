/* One `gyre run` for each node, several on this machine: they meet, count their ranks together, and
 * fail together. */
#include "base/port.h"
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NODES_MAX 3

static struct rig node[NODES_MAX];

/* A port that is kept for the launchers until the next one is asked for. */
static const char *free_port(void)
{
    static char text[8];
    static int keeper = -1;
    uint16_t number;
    if (keeper >= 0)
        close(keeper);
    keeper = gyre_port_reserve(&number);
    assert_true(keeper >= 0);
    snprintf(text, sizeof text, "%d", number);
    return text;
}

static const char *port, *restarts = "0", *pause_time = "0", *elastic;

static void start_node(int i, int nodes, const char *size, const char *script)
{
    char count[8], rank[8];
    snprintf(count, sizeof count, "%d", nodes);
    snprintf(rank, sizeof rank, "%d", i);
    rig_start(&node[i],
              (const char *const[]){"run", "--nnodes", count, "--node-rank", rank, "--master-port",
                                    port, "-n", size, "--restarts", restarts, "--restart-pause",
                                    pause_time, elastic ? "--elastic" : "--bind",
                                    elastic ? elastic : "--bind", SHELL(script), NULL});
}

/* Starts the launchers in reverse order, so that node 0 is the last to come. */
static void start_nodes(int nodes, const char *const sizes[], const char *script)
{
    port = free_port();
    for (int i = nodes - 1; i >= 0; i--)
        start_node(i, nodes, sizes[i], script);
}

static void end_nodes(int nodes)
{
    for (int i = 0; i < nodes; i++)
        rig_end(&node[i]);
}

static void write_key(const char *name, char byte)
{
    char path[128], key[32];
    memset(key, byte, sizeof key);
    snprintf(path, sizeof path, "%s/%s", rig_folder(), name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, key, sizeof key), sizeof key);
    close(fd);
    setenv("GYRE_KEY_FILE", path, 1);
}

static void uneven_nodes_count_on(void **state)
{
    static const char *const sizes[] = {"4", "2"};
    char job[2][128];
    (void)state;
    start_nodes(2, sizes,
                "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK; echo $GYRE_JOB "
                "$MASTER_PORT >&2");
    for (int i = 0; i < 2; i++) {
        rig_wait_end(&node[i]);
        assert_int_equal(node[i].code, 0);
        snprintf(job[i], sizeof job[i], "%s", rig_last_line(node[i].err_text) + strlen("[0] "));
    }
    assert_string_equal(job[0], job[1]);
    assert_int_equal(rig_count_lines(node[0].out_text, "[0] 0/6 0/4 0"), 1);
    assert_int_equal(rig_count_lines(node[0].out_text, "[3] 3/6 3/4 0"), 1);
    assert_int_equal(rig_count_lines(node[1].out_text, "[4] 4/6 0/2 1"), 1);
    assert_int_equal(rig_count_lines(node[1].out_text, "[5] 5/6 1/2 1"), 1);
    end_nodes(2);
}

static void a_node_may_end_before_the_others(void **state)
{
    static const char *const sizes[] = {"1", "1"};
    char fifo[128], script[256];
    (void)state;
    snprintf(fifo, sizeof fifo, "%s/gate", rig_folder());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(script, sizeof script, "[ $RANK = 1 ] || cat %s", fifo);
    start_nodes(2, sizes, script);
    rig_wait_end(&node[1]);
    assert_int_equal(node[1].code, 0);
    int gate = open(fifo, O_WRONLY);
    close(gate);
    rig_wait_end(&node[0]);
    rig_expect(&node[0], 0, "");
    end_nodes(2);
}

/* From one leaf through node 0 to the other leaf. */
static void a_failure_is_told_on_every_node(void **state)
{
    static const char *const sizes[] = {"1", "1", "2"};
    (void)state;
    start_nodes(3, sizes, "[ $RANK = 3 ] && { echo no disk >&2; exit 6; }; exec sleep 1000");
    for (int i = 0; i < 3; i++) {
        rig_wait_end(&node[i]);
        rig_expect(&node[i], 6, "gyre run: rank 3 on ");
        rig_expect(&node[i], 6, i == 2 ? "exit code 6" : "exit code 6; its last message: no disk");
        assert_int_equal(rig_count_lines(node[i].err_text, "[3] no disk"), i == 2);
        rig_wait_lifeless(&node[i]);
    }
    end_nodes(3);
}

static void a_signal_ends_all_nodes(void **state)
{
    static const char *const sizes[] = {"1", "1"};
    (void)state;
    start_nodes(2, sizes, "echo ready; exec sleep 1000");
    rig_wait_for(&node[0], "ready");
    rig_wait_for(&node[1], "ready");
    rig_signal(&node[1], SIGTERM);
    for (int i = 0; i < 2; i++) {
        rig_wait_end(&node[i]);
        rig_expect(&node[i], 128 + SIGTERM, "ended by signal 15 (SIGTERM)");
    }
    end_nodes(2);
}

static void a_lost_launcher_is_named(void **state)
{
    static const char *const sizes[] = {"1", "1"};
    (void)state;
    start_nodes(2, sizes, "echo ready; exec sleep 1000");
    rig_wait_for(&node[0], "ready");
    rig_wait_for(&node[1], "ready");
    rig_signal(&node[1], SIGKILL);
    rig_wait_end(&node[0]);
    rig_expect(&node[0], 1, "the launcher of node 1 on ");
    rig_wait_lifeless(&node[0]);
    rig_wait_lifeless(&node[1]);
    end_nodes(2);
}

/* -- restarts ---------------------------------------------------------------------------------- */

/* From one leaf through node 0 to the other leaf. */
static void a_failure_starts_all_nodes_again(void **state)
{
    static const char *const sizes[] = {"1", "1", "1"};
    (void)state;
    restarts = "2";
    start_nodes(3, sizes,
                "echo start $GYRE_EPOCH of $TORCHELASTIC_MAX_RESTARTS;"
                "[ $GYRE_EPOCH = 1 ] && exit 0; [ $RANK = 2 ] && exit 6; exec sleep 1000");
    for (int i = 0; i < 3; i++) {
        char line[32];
        rig_wait_end(&node[i]);
        rig_expect(&node[i], 0, "gyre run: restart 1 of 2: rank 2 on ");
        for (int start = 0; start < 2; start++) {
            snprintf(line, sizeof line, "[%d] start %d of 2", i, start);
            assert_int_equal(rig_count_lines(node[i].out_text, line), 1);
        }
        rig_wait_lifeless(&node[i]);
    }
    end_nodes(3);
}

/* A node whose ranks ended well waits for the others, for its ranks may be needed again. */
static void a_node_that_ended_well_starts_again(void **state)
{
    static const char *const sizes[] = {"1", "1"};
    char fifo[128], script[512];
    (void)state;
    restarts = "1";
    snprintf(fifo, sizeof fifo, "%s/ended", rig_folder());
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(script, sizeof script,
             "echo start $GYRE_EPOCH; [ $GYRE_EPOCH = 1 ] && exit 0; [ $RANK = 0 ] || exit 0;"
             "cat %s; exit 7",
             fifo);
    start_nodes(2, sizes, script);
    rig_wait_for(&node[1], "[1] start 0");
    close(open(fifo, O_WRONLY));
    for (int i = 0; i < 2; i++) {
        rig_wait_end(&node[i]);
        rig_expect(&node[i], 0, "gyre run: restart 1 of 1: rank 0 on ");
    }
    assert_int_equal(rig_count_lines(node[1].out_text, "[1] start 1"), 1);
    end_nodes(2);
}

/* Whoever restarts a lost launcher need not know how often the job was restarted. */
static void a_new_launcher_takes_the_place_of_a_lost_one(void **state)
{
    static const char *const sizes[] = {"1", "1"};
    static const char script[] = "echo start $GYRE_EPOCH of $TORCHELASTIC_MAX_RESTARTS;"
                                 "[ $GYRE_EPOCH = 1 ] && exit 0; exec sleep 1000";
    (void)state;
    restarts = "1";
    for (int lost = 0; lost < 2; lost++) {
        start_nodes(2, sizes, script);
        rig_wait_for(&node[0], "start 0 of 1");
        rig_wait_for(&node[1], "start 0 of 1");
        rig_signal(&node[lost], SIGKILL);
        rig_wait_end(&node[lost]);
        rig_wait_for(&node[!lost], "gyre run: restart 1 of 1: the launcher of node ");
        rig_end(&node[lost]);
        start_node(lost, 2, "1", script);
        for (int i = 0; i < 2; i++) {
            rig_wait_end(&node[i]);
            rig_expect(&node[i], 0, "");
            assert_true(rig_has(node[i].out_text, "start 1 of 1"));
        }
        end_nodes(2);
    }
}

static void a_signal_on_one_node_ends_all_for_good(void **state)
{
    static const char *const sizes[] = {"1", "1", "1"};
    (void)state;
    restarts = "5";
    start_nodes(3, sizes, "echo ready; exec sleep 1000");
    for (int i = 0; i < 3; i++)
        rig_wait_for(&node[i], "ready");
    rig_signal(&node[1], SIGTERM);
    for (int i = 0; i < 3; i++) {
        rig_wait_end(&node[i]);
        rig_expect(&node[i], 128 + SIGTERM, "ended by signal 15 (SIGTERM)");
        assert_false(rig_has(node[i].err_text, "restart"));
    }
    end_nodes(3);
}

static void a_signal_in_the_pause_ends_all_too(void **state)
{
    static const char *const sizes[] = {"1", "1", "1"};
    (void)state;
    restarts = "5";
    pause_time = "1h";
    start_nodes(3, sizes, "[ $RANK = 0 ] && exit 4; exec sleep 1000");
    for (int i = 0; i < 3; i++)
        rig_wait_for(&node[i], "gyre run: restart 1 of 5 in 3600 s: rank 0 on ");
    rig_signal(&node[1], SIGTERM);
    for (int i = 0; i < 3; i++) {
        rig_wait_end(&node[i]);
        rig_expect(&node[i], i == 1 ? 128 + SIGTERM : 4,
                   i == 1 ? "gyre run: ended by signal 15" : "gyre run: rank 0 on ");
    }
    pause_time = "0";
    end_nodes(3);
}

static void restarts_that_disagree_are_refused(void **state)
{
    (void)state;
    port = free_port();
    restarts = "1";
    start_node(0, 2, "1", "true");
    restarts = "2";
    start_node(1, 2, "1", "true");
    rig_wait_end(&node[1]);
    rig_expect(&node[1], 2, "--restarts is 1 for node 0 and 2 here; give all nodes the same");
    rig_wait_end(&node[0]);
    rig_expect(&node[0], 2, "--restarts is 2 for node 1 and 1 here; give all nodes the same");
    restarts = "0";
    end_nodes(2);
}

/* -- elastic ----------------------------------------------------------------------------------- */

#define WAITS "trap 'exit 0' USR1; echo ready; while :; do sleep 1 & wait; done"

/* Each launcher counts the losses of all: a rank of one leaf, then the launcher of the other. */
static void losses_are_counted_over_the_nodes(void **state)
{
    static const char *const sizes[] = {"1", "2", "2"};
    (void)state;
    elastic = "2";
    start_nodes(3, sizes, "[ $RANK = 4 ] && kill -9 $$;" WAITS);
    for (int i = 0; i < 3; i++) {
        rig_wait_for(&node[i], "ready");
        rig_wait_for(&node[i], "gyre run: 4 of 5 ranks go on without rank 4 on ");
    }
    rig_signal(&node[1], SIGKILL);
    rig_wait_end(&node[1]);
    for (int i = 0; i < 3; i += 2)
        rig_wait_for(&node[i], "2 of 5 ranks go on without 2 ranks of the launcher of node 1 on ");
    for (int i = 0; i < 3; i += 2)
        rig_signal(&node[i], SIGUSR1);
    for (int i = 0; i < 3; i += 2) {
        rig_wait_end(&node[i]);
        rig_expect(&node[i], 0, ", which has gone");
        rig_wait_lifeless(&node[i]);
    }
    end_nodes(3);
}

/* Node 0 decides for all, and all count. A rank of a leaf comes back; then node 0's own does not,
 * because no restart is left. */
static void lost_ranks_of_all_nodes_are_started_again(void **state)
{
    static const char *const sizes[] = {"1", "1", "2"};
    (void)state;
    elastic = "2";
    restarts = "1";
    start_nodes(3, sizes,
                "echo come ${GYRE_JOINING-first};"
                "[ $RANK = 3 ] && [ ! $GYRE_JOINING ] && kill -9 $$;" WAITS);
    for (int i = 0; i < 3; i++) {
        rig_wait_for(&node[i], "gyre run: 3 of 4 ranks go on without rank 3 on ");
        rig_wait_for(&node[i], " is started again (restart 1 of 1); 4 of 4 ranks");
    }
    rig_wait_for(&node[2], "[3] come 1");
    rig_wait_for(&node[0], "[0] ready");
    rig_signal_rank(&node[0], 0, SIGKILL);
    for (int i = 0; i < 3; i++)
        rig_wait_for(&node[i], "gyre run: 3 of 4 ranks go on without rank 0 on ");
    rig_wait_for(&node[1], "[1] ready");
    rig_wait_for(&node[2], "[2] ready");
    rig_wait_for(&node[2], "[3] ready");
    for (int i = 1; i < 3; i++)
        rig_signal(&node[i], SIGUSR1);
    for (int i = 0; i < 3; i++) {
        rig_wait_end(&node[i]);
        assert_int_equal(node[i].code, 0);
        rig_wait_lifeless(&node[i]);
    }
    restarts = "0";
    end_nodes(3);
}

/* Without node 0 the leaves do not hear of each other any more, and go on all the same. */
static void node_0_may_be_lost_too(void **state)
{
    static const char *const sizes[] = {"1", "1", "1"};
    (void)state;
    elastic = "1";
    start_nodes(3, sizes, WAITS);
    for (int i = 0; i < 3; i++)
        rig_wait_for(&node[i], "ready");
    rig_signal(&node[0], SIGKILL);
    rig_wait_end(&node[0]);
    for (int i = 1; i < 3; i++) {
        rig_wait_for(&node[i], "2 of 3 ranks go on without 1 rank of the launcher of node 0 on ");
        rig_signal(&node[i], SIGUSR1);
        rig_wait_end(&node[i]);
        rig_expect(&node[i], 0, ", which has gone");
    }
    end_nodes(3);
}

static void too_few_end_on_every_node(void **state)
{
    static const char *const sizes[] = {"1", "1", "1"};
    (void)state;
    elastic = "3";
    start_nodes(3, sizes, "[ $RANK = 2 ] && exit 6; exec sleep 1000");
    for (int i = 0; i < 3; i++) {
        rig_wait_end(&node[i]);
        rig_expect(
            &node[i], 6,
            "gyre run: 2 of 3 ranks are left, and --elastic needs 3; lost first: rank 2 on ");
        rig_wait_lifeless(&node[i]);
    }
    end_nodes(3);
}

static void bounds_that_disagree_are_refused(void **state)
{
    (void)state;
    port = free_port();
    elastic = "1";
    start_node(0, 2, "1", "true");
    elastic = "1:4";
    start_node(1, 2, "1", "true");
    rig_wait_end(&node[1]);
    rig_expect(&node[1], 2, "--elastic is 1:0 for node 0 and 1:4 here (0: not given)");
    rig_wait_end(&node[0]);
    elastic = NULL;
    end_nodes(2);
}

/* -- refused ----------------------------------------------------------------------------------- */

static void sizes_that_disagree_are_refused(void **state)
{
    static const char *const sizes[] = {"3", "4,2"};
    (void)state;
    start_nodes(2, sizes, "true");
    rig_wait_end(&node[1]);
    rig_expect(&node[1], 2, "node 0 starts 3 ranks, but here its size is given as 4");
    rig_wait_end(&node[0]);
    assert_int_not_equal(node[0].code, 0);
    end_nodes(2);
}

static void another_key_does_not_get_in(void **state)
{
    (void)state;
    port = free_port();
    setenv("GYRE_JOIN_TIMEOUT", "1500ms", 1);
    rig_start(&node[0],
              (const char *const[]){"run", "--nnodes", "2", "--master-port", port, "true", NULL});
    write_key("other", 'b');
    rig_start(&node[1], (const char *const[]){"run", "--nnodes", "2", "--node-rank", "1",
                                              "--master-port", port, "true", NULL});
    for (int i = 0; i < 2; i++) {
        rig_wait_end(&node[i]);
        assert_int_equal(node[i].code, i == 1 ? 2 : 1); /* the key is wrong input */
    }
    assert_true(rig_has(node[1].err_text, "another key"));
    assert_true(rig_has(node[0].err_text, "did not meet"));
    unsetenv("GYRE_JOIN_TIMEOUT");
    write_key("key", 'a');
    end_nodes(2);
}

static int set_up(void **state)
{
    (void)state;
    write_key("key", 'a');
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uneven_nodes_count_on),
        cmocka_unit_test(a_node_may_end_before_the_others),
        cmocka_unit_test(a_failure_is_told_on_every_node),
        cmocka_unit_test(a_signal_ends_all_nodes),
        cmocka_unit_test(a_lost_launcher_is_named),
        cmocka_unit_test(a_failure_starts_all_nodes_again),
        cmocka_unit_test(a_node_that_ended_well_starts_again),
        cmocka_unit_test(a_new_launcher_takes_the_place_of_a_lost_one),
        cmocka_unit_test(a_signal_on_one_node_ends_all_for_good),
        cmocka_unit_test(a_signal_in_the_pause_ends_all_too),
        cmocka_unit_test(restarts_that_disagree_are_refused),
        cmocka_unit_test(losses_are_counted_over_the_nodes),
        cmocka_unit_test(lost_ranks_of_all_nodes_are_started_again),
        cmocka_unit_test(node_0_may_be_lost_too),
        cmocka_unit_test(too_few_end_on_every_node),
        cmocka_unit_test(bounds_that_disagree_are_refused),
        cmocka_unit_test(sizes_that_disagree_are_refused),
        cmocka_unit_test(another_key_does_not_get_in),
    };
    return cmocka_run_group_tests_name("launchers that meet", tests, set_up, NULL);
}
