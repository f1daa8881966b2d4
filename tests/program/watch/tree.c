/* The watch's tree, with real processes: whoever of it dies, all are told, with no call to any of
 * them and no link. 20 nodes are three floors: 17, 18 and 19 are below 1, and 1 to 16 below rank 0.
 * So are 20 ranks of a large node. tests/unit/transport/watch/detect/tree_test.c has the rest.
 * In haste three ranks of each kind of job die, and no job has more than 40 ranks. */
#include "rig/comm_rig.h"
#include "rig/haste.h"
#include "rig/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NODES        20
#define LONG_DEAD_MS 600000 /* longer than a test waits: only the end of a process tells */

static void in_a_tree(const struct rig *rig, int rank)
{
    (void)rig, (void)rank;
    setenv("GYRE_LINKS_AT_ONCE", "4", 1);
}

/* Waits for a message that nobody sends. */
static int wait_for_ever(struct gyre_comm *comm, struct rig *rig)
{
    int rank = gyre_rank(comm);
    int32_t word;
    rig->shared->ready++;
    rig_note(rig, comm, gyre_recv(comm, &word, 1, GYRE_I32, (rank + 1) % rig->n), rig_now());
    gyre_finalize(comm);
    return 0;
}

static struct rig tree_of(int n, int per_node, int (*body)(struct gyre_comm *comm, struct rig *rig))
{
    return (struct rig){
        .n = n, .per_node = per_node, .dead_ms = LONG_DEAD_MS, .before = in_a_tree, .body = body};
}

static bool tells_of_one(const char *error, const int *victim, int victims)
{
    char name[16];
    bool tells = false;
    for (int i = 0; i < victims; i++) {
        snprintf(name, sizeof name, "rank %d (", victim[i]);
        tells |= strncmp(error, name, strlen(name)) == 0;
    }
    return tells && strstr(error, "ended without a goodbye");
}

static void kill_and_expect(int n, int per_node, const int *victim, int victims)
{
    struct rig rig = tree_of(n, per_node, wait_for_ever);
    uint64_t excused = 0;
    rig_start(&rig);
    rig_until(&rig.shared->ready, rig.n);
    for (int i = 0; i < victims; i++) {
        excused |= UINT64_C(1) << victim[i];
        kill(rig.pid[victim[i]], SIGKILL);
    }
    assert_int_equal(rig_wait(&rig, 60, excused), 0);
    for (int rank = 0; rank < rig.n; rank++) {
        if (excused >> rank & 1)
            continue;
        assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
        if (!tells_of_one(rig.shared->error[rank], victim, victims))
            fail_msg("rank %d says: %s", rank, rig.shared->error[rank]);
    }
    munmap(rig.shared, sizeof *rig.shared);
}

/* Each of them in another job; in haste the first three. */
static void kill_each_and_expect(int n, int per_node, const int *victim, int victims)
{
    for (int i = 0; i < (in_haste() ? 3 : victims); i++)
        kill_and_expect(n, per_node, &victim[i], 1);
}

static void a_death_anywhere_is_told_to_all(void **state)
{
    const int victim[] = {0, 1, 17, 16, 19};
    (void)state;
    kill_each_and_expect(NODES, 1, victim, 5);
}

static void a_death_in_nodes_of_two_is_told_to_all(void **state)
{
    const int victim[] = {2, 3, 34, 39}; /* the lowest of node 1, its neighbour, below it */
    (void)state;
    kill_each_and_expect(2 * NODES, 2, victim, 4);
}

/* Two large nodes: 20 is the lowest of the second, in which 37 is below 21. */
static void a_death_in_a_large_node_is_told_to_all(void **state)
{
    const int victim[] = {20, 1, 37, 0, 18, 21};
    (void)state;
    kill_each_and_expect(2 * NODES, NODES, victim, 6);
}

/* Rank 17 and rank 1 above it. */
static void two_deaths_on_one_way_are_told(void **state)
{
    const int victims[] = {17, 1};
    (void)state;
    kill_and_expect(NODES, 1, victims, 2);
    kill_and_expect(NODES, NODES, victims, 2);
}

/* Rank 1 stands still for longer than the dead time. Rank 0 and the ranks below rank 1 connect to
 * each other. Who is told of does not matter: a starved rank is silent, too. */
static void stop_and_expect(int per_node)
{
    struct rig rig = tree_of(NODES, per_node, wait_for_ever);
    rig.dead_ms = 2000;
    rig_start(&rig);
    rig_until(&rig.shared->ready, rig.n);
    rig_stop(&rig, 1);
    assert_int_equal(rig_wait(&rig, 60, 1u << 1), 0);
    for (int rank = 0; rank < rig.n; rank++)
        if (rank != 1)
            assert_int_equal(rig.shared->status[rank], GYRE_PEER_LOST);
    munmap(rig.shared, sizeof *rig.shared);
}

static void ranks_below_one_that_stands_still_are_told(void **state)
{
    (void)state;
    stop_and_expect(1);
    stop_and_expect(NODES);
}

/* Goodbyes climb, and the word that all have left comes back. Links are made beside. */
static int sum_and_leave(struct gyre_comm *comm, struct rig *rig)
{
    int32_t sum = 1;
    int status = gyre_all_reduce(comm, &sum, &sum, 1, GYRE_I32, GYRE_SUM);
    if (status || sum != rig->n)
        return 2;
    return gyre_finalize(comm) ? 3 : 0;
}

static void a_job_of_many_nodes_ends_well(void **state)
{
    (void)state;
    for (int per_node = 1; per_node < (in_haste() ? 3 : 4); per_node++) {
        struct rig rig = tree_of(NODES * per_node, per_node, sum_and_leave);
        assert_int_equal(rig_run(&rig, 60), 0);
    }
}

static void a_job_of_large_nodes_ends_well(void **state)
{
    (void)state;
    for (int nodes = 1; nodes < (in_haste() ? 3 : 4); nodes++) {
        struct rig rig = tree_of(NODES * nodes, NODES, sum_and_leave);
        assert_int_equal(rig_run(&rig, 60), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_of_many_nodes_ends_well),
        cmocka_unit_test(a_job_of_large_nodes_ends_well),
        cmocka_unit_test(a_death_anywhere_is_told_to_all),
        cmocka_unit_test(a_death_in_nodes_of_two_is_told_to_all),
        cmocka_unit_test(a_death_in_a_large_node_is_told_to_all),
        cmocka_unit_test(two_deaths_on_one_way_are_told),
        cmocka_unit_test(ranks_below_one_that_stands_still_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
