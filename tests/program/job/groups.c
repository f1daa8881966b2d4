/* A process in many groups at once, whose ranks meet in a store: one thread watches for all of
 * them, one mends their connections, one drives what they start, and no group's death, fork or slow
 * store holds up another. */
#include "program/job/store_rig.h"
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* DESCRIPTORS: of a group of two ranks of one node, at most. */
enum { GROUPS = 64, SUMS = 500, DESCRIPTORS = 6, COUNT = 5000 };

/* -- what a process has ------------------------------------------------------------------------ */

#define RENEW "GYRE_TCP_RENEW"

static int count_entries(const char *folder)
{
    DIR *open = opendir(folder);
    int count = -2; /* "." and ".." */
    while (open && readdir(open))
        count++;
    if (open)
        closedir(open);
    return count;
}

/* Whether the process comes to have so many threads: one that has ended shows for a moment more. */
static bool has_threads(int wanted)
{
    const uint64_t limit = rig_now() + UINT64_C(10000000000) * (uint64_t)rig_slow();
    while (count_entries("/proc/self/task") != wanted && rig_now() < limit)
        sched_yield();
    int count = count_entries("/proc/self/task");
    if (count != wanted)
        fprintf(stderr, "%d threads, expected %d\n", count, wanted);
    return count == wanted;
}

static bool sums(struct gyre_comm *comm)
{
    int32_t value = 1;
    return gyre_all_reduce(comm, &value, &value, 1, GYRE_I32, GYRE_SUM) == 0 &&
           value == gyre_size(comm);
}

/* -- many groups ------------------------------------------------------------------------------- */

static int join_groups(struct rig *rig, int rank, struct gyre_comm **comm, int first, int end)
{
    char name[16];
    int bad = 0;
    for (int i = first; i < end && !bad; i++) {
        snprintf(name, sizeof name, "group%d", i);
        bad = store_join(rig->argument, name, rank, 2, &comm[i]);
    }
    return bad != 0;
}

/* Whether the groups behind the first come to have no more than they may: what the watch was just
 * passed, it closes in a moment. */
static bool are_cheap(struct gyre_comm **comm, int first)
{
    const uint64_t limit = rig_now() + UINT64_C(10000000000) * (uint64_t)rig_slow();
    const int most = first + DESCRIPTORS * (GROUPS - 1);
    while (count_entries("/proc/self/fd") > most && gyre_nodes(comm[0]) == 1)
        if (rig_now() > limit) {
            fprintf(stderr, "%d groups have %d descriptors\n", GROUPS - 1,
                    count_entries("/proc/self/fd") - first);
            return false;
        }
    return true;
}

/* All groups sum; one is aborted; the others go on; all end. */
static int use_groups(struct gyre_comm **comm, int rank)
{
    const int aborted = GROUPS / 2;
    int bad = 0;
    for (int i = 0; i < GROUPS; i++)
        bad += rig_check(sums(comm[i]), comm[i], "each group sums");
    if (rank == 1)
        gyre_abort(comm[aborted], "this one only");
    while (sums(comm[aborted])) /* until rank 0 has heard of it */
        ;
    for (int i = 0; i < GROUPS; i++)
        bad += i != aborted && rig_check(sums(comm[i]), comm[i], "the others go on");
    for (int i = 0; i < GROUPS; i++)
        bad += gyre_finalize(comm[i]) != (i == aborted ? GYRE_ABORTED : 0);
    return bad;
}

/* Whether the helper brings the sums of these groups to their end, while nobody calls. */
static bool helper_ends(const int32_t *sum, int first, int end)
{
    const uint64_t limit = rig_now() + UINT64_C(90000000000) * (uint64_t)rig_slow();
    bool ended = false;
    while (!ended && rig_now() < limit) {
        ended = true;
        for (int i = first; i < end; i++)
            ended &= ((const volatile int32_t *)sum)[i * COUNT] == 2;
        sched_yield();
    }
    return ended;
}

static bool start_sum(struct gyre_comm *comm, int32_t *data, struct gyre_work **work)
{
    for (int i = 0; i < COUNT; i++)
        data[i] = 1;
    return gyre_all_reduce_start(comm, data, data, COUNT, GYRE_I32, GYRE_SUM, work) == 0;
}

/* One thread drives what was started in all groups: also while group 0 waits for rank 1, which has
 * not called there, and after group 1 has failed. */
static int start_in_groups(struct rig *rig, struct gyre_comm **comm, int rank, int watched)
{
    static int32_t data[GROUPS * COUNT];
    struct gyre_work *work[GROUPS];
    int bad = rank == 0 && !start_sum(comm[0], data, &work[0]);
    for (int i = 1; i < GROUPS; i++)
        bad += !start_sum(comm[i], data + i * COUNT, &work[i]);
    bad += !has_threads(watched + 1);
    bad += !helper_ends(data, 1, GROUPS);
    if (rank == 1) {
        rig_until(&rig->shared->flag, 1);
        gyre_abort(comm[1], "this one only");
        bad += !start_sum(comm[0], data, &work[0]);
    }
    rig->shared->flag++;
    bad += !helper_ends(data, 0, 1);
    for (int i = 0; i < GROUPS; i++)
        bad += gyre_work_wait(work[i], -1) != 0 && i != 1;
    return bad;
}

/* The groups are driven by one helper, which comes with the first start and goes with the last
 * group. */
static int be_in_many_that_start(struct rig *rig, int rank)
{
    struct gyre_comm *comm[GROUPS];
    int bad = join_groups(rig, rank, comm, 0, 1);
    const int watched = count_entries("/proc/self/task");
    bad += bad || join_groups(rig, rank, comm, 1, GROUPS);
    bad += bad || start_in_groups(rig, comm, rank, watched);
    for (int i = 0; i < GROUPS; i++)
        bad += gyre_finalize(comm[i]) != (i == 1 ? GYRE_ABORTED : 0);
    return bad + !has_threads(watched - 1);
}

static void many_groups_have_one_helper(void **state)
{
    (void)state;
    for (int per_node = 0; per_node <= 1; per_node++)
        assert_int_equal(rig_run(&(struct rig){.n = 2,
                                               .per_node = per_node,
                                               .process = be_in_many_that_start,
                                               .argument = store_table_make(STORE_GOOD)},
                                 60),
                         0);
}

static int be_in_many(struct rig *rig, int rank)
{
    struct gyre_comm *comm[GROUPS];
    const int open = count_entries("/proc/self/fd");
    int bad = join_groups(rig, rank, comm, 0, 1);
    const int watched = count_entries("/proc/self/task"); /* with a sanitizer's thread, if any */
    const int first = count_entries("/proc/self/fd");
    bad += bad || join_groups(rig, rank, comm, 1, GROUPS);
    bad += !bad && !has_threads(watched);
    bad += !bad && !are_cheap(comm, first);
    bad += bad || use_groups(comm, rank);
    bad += !bad && !has_threads(watched - (getenv(RENEW) ? 2 : 1));
    if (!bad && count_entries("/proc/self/fd") != open)
        fprintf(stderr, "descriptors are left open\n");
    return bad + (count_entries("/proc/self/fd") != open);
}

static void play_many(int per_node)
{
    assert_int_equal(rig_run(&(struct rig){.n = 2,
                                           .per_node = per_node,
                                           .process = be_in_many,
                                           .argument = store_table_make(STORE_GOOD)},
                             60),
                     0);
}

static void many_groups_have_one_thread(void **state)
{
    (void)state;
    play_many(0);
    play_many(1);
}

/* Connections that are made anew have one thread more, for all groups. */
static void many_groups_have_one_mender(void **state)
{
    (void)state;
    setenv(RENEW, "always", 1);
    play_many(1);
    unsetenv(RENEW);
}

/* -- a death ----------------------------------------------------------------------------------- */

static int outlive_low(struct gyre_comm *low, struct gyre_comm *high)
{
    struct gyre_lost_rank lost;
    int count = 0;
    while (sums(low)) /* until its rank 0 is dead */
        ;
    int bad = rig_check(gyre_failure(low, &lost, 1, &count) == GYRE_PEER_LOST && count == 1 &&
                            lost.rank == 0,
                        low, "low has lost rank 0");
    bad += rig_check(gyre_failure(high, NULL, 0, &count) == 0 && count == 0, high, "high is well");
    return bad;
}

/* Process 0 is in low and dies, 1 is in both, 2 is in high. */
static int lose_one(struct rig *rig, int rank)
{
    struct gyre_comm *low = NULL, *high = NULL;
    int bad = rank < 2 ? store_join(rig->argument, "low", rank, 2, &low) : 0;
    bad = bad || (rank > 0 ? store_join(rig->argument, "high", rank - 1, 2, &high) : 0);
    if (bad)
        return 1;
    if (rank == 0) {
        rig_until(&rig->shared->flag, 1);
        raise(SIGKILL);
    }
    bad += rig_check(sums(high), high, "before the death");
    rig->shared->flag = 1;
    bad += low ? outlive_low(low, high) : 0;
    for (int i = 0; i < SUMS; i++)
        bad += !bad && rig_check(sums(high), high, "after the death");
    bad += gyre_finalize(high) != 0;
    return bad + (low && gyre_finalize(low) != GYRE_PEER_LOST);
}

static void a_death_ends_its_own_groups(void **state)
{
    (void)state;
    for (int per_node = 0; per_node <= 1; per_node++) {
        struct rig rig = {.n = 3,
                          .per_node = per_node,
                          .process = lose_one,
                          .argument = store_table_make(STORE_GOOD)};
        rig_start(&rig);
        assert_int_equal(rig_wait(&rig, 60, 1), 0);
    }
}

/* -- a slow store ------------------------------------------------------------------------------ */

struct slow_join {
    struct store_table *table;
    int rank, status;
    struct gyre_comm *comm;
};

static void *join_slowly(void *argument)
{
    struct slow_join *join = argument;
    join->status = store_join(join->table, "slow", join->rank, 2, &join->comm);
    return NULL;
}

static int sum_meanwhile(struct rig *rig, int rank)
{
    struct store_table **table = rig->argument;
    struct slow_join slow = {.table = table[1], .rank = rank};
    struct gyre_comm *quick;
    pthread_t thread;
    int bad = store_join(table[0], "quick", rank, 2, &quick);
    if (bad || pthread_create(&thread, NULL, join_slowly, &slow))
        return 1;
    if (rank == 1)
        rig_until(&table[1]->gets, 1); /* the thread is in the store now */
    for (int i = 0; i < SUMS; i++)
        bad += !bad && rig_check(sums(quick), quick, "while the other store is slow");
    table[1]->answers = 1;
    pthread_join(thread, NULL);
    bad += slow.status || !sums(slow.comm) || gyre_finalize(slow.comm);
    return bad + (gyre_finalize(quick) != 0);
}

static void a_slow_store_holds_up_nobody(void **state)
{
    struct store_table *table[2] = {store_table_make(STORE_GOOD), store_table_make(STORE_IS_SLOW)};
    (void)state;
    assert_int_equal(
        rig_run(&(struct rig){.n = 2, .process = sum_meanwhile, .argument = table}, 60), 0);
}

/* -- a fork ------------------------------------------------------------------------------------ */

/* The child of each rank joins a group of such children, with a thread of its own for it. */
static int be_child(struct rig *rig, int rank, struct gyre_comm *parents)
{
    struct gyre_comm *comm;
    int before = count_entries("/proc/self/task");
    int bad = store_join(rig->argument, "children", rank, 2, &comm);
    bad += bad || !has_threads(before + 1) || !sums(comm) || gyre_finalize(comm) ||
           !has_threads(before);
    return bad || gyre_barrier(parents) != GYRE_FORKED;
}

static int fork_and_join(struct rig *rig, int rank)
{
    struct gyre_comm *comm;
    int status = 1, bad = store_join(rig->argument, "parents", rank, 2, &comm);
    pid_t child = bad ? -1 : fork();
    if (child == 0)
        _exit(be_child(rig, rank, comm));
    if (child < 0)
        return 1;
    for (int i = 0; i < SUMS; i++)
        bad += !bad && rig_check(sums(comm), comm, "beside the child");
    bad += waitpid(child, &status, 0) != child || status != 0;
    return bad + (gyre_finalize(comm) != 0);
}

static void a_forked_child_has_groups_of_its_own(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2,
                                           .process = fork_and_join,
                                           .argument = store_table_make(STORE_GOOD)},
                             60),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_groups_have_one_thread),
        cmocka_unit_test(many_groups_have_one_mender),
        cmocka_unit_test(many_groups_have_one_helper),
        cmocka_unit_test(a_death_ends_its_own_groups),
        cmocka_unit_test(a_slow_store_holds_up_nobody),
        cmocka_unit_test(a_forked_child_has_groups_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
