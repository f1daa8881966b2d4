/* Groups whose ranks meet in a store: a table in memory that the test shares with its ranks, and a
 * folder. A process is in several at once, with different ranks, and each fails for itself. */
#include "program/job/store_rig.h"
#include "rig/comm_rig.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* -- ranks ------------------------------------------------------------------------------------- */

/* Sums 1 of every rank. */
static bool sums(struct gyre_comm *comm)
{
    int32_t value = 1;
    return gyre_all_reduce(comm, &value, &value, 1, GYRE_I32, GYRE_SUM) == 0 &&
           value == gyre_size(comm);
}

/* Started on one after waiting for none: the groups do not wait for each other. */
static bool sum_at_once(struct gyre_comm *one, struct gyre_comm *two)
{
    int32_t value[2] = {1, 1};
    struct gyre_work *work[2];
    return gyre_all_reduce_start(one, &value[0], &value[0], 1, GYRE_I32, GYRE_SUM, &work[0]) == 0 &&
           gyre_all_reduce_start(two, &value[1], &value[1], 1, GYRE_I32, GYRE_SUM, &work[1]) == 0 &&
           gyre_work_wait(work[1], -1) == 0 && gyre_work_wait(work[0], -1) == 0 &&
           value[0] == gyre_size(one) && value[1] == gyre_size(two);
}

static int expect(bool fine, struct gyre_comm *comm, const char *what)
{
    return comm ? rig_check(fine, comm, what) : 0;
}

/* Ranks 0 and 1 are group "low", ranks 1 and 2 are group "high", all are "all". */
static int be_in_groups(struct rig *rig, int rank)
{
    struct gyre_comm *all, *low = NULL, *high = NULL;
    int bad = store_join(rig->argument, "all", rank, 3, &all);
    if (!bad && rank < 2)
        bad = store_join(rig->argument, "low", rank, 2, &low);
    if (!bad && rank > 0)
        bad = store_join(rig->argument, "high", rank - 1, 2, &high);
    if (bad)
        return 1;
    bad += expect(low ? sum_at_once(all, low) : sums(all), all, "beside low");
    bad += expect(high ? sum_at_once(high, all) : sums(all), all, "beside high");
    if (rank == 1)
        gyre_abort(low, "enough of it");
    while (low && sums(low)) /* until rank 0 has heard of it */
        ;
    bad += expect(low && strstr(gyre_error(low), "enough of it"), low, "low is aborted");
    bad += expect(low && gyre_finalize(low) == GYRE_ABORTED, low ? all : NULL, "low has ended");
    bad += expect(!*gyre_error(all) && sums(all), all, "all goes on");
    bad += expect(high && !*gyre_error(high) && sums(high), high, "high goes on");
    return bad + (gyre_finalize(high) != 0) + (gyre_finalize(all) != 0);
}

static void groups_are_apart(void **state)
{
    struct store_table *table = store_table_make(STORE_GOOD);
    (void)state;
    for (int per_node = 0; per_node <= 1; per_node++)
        assert_int_equal(rig_run(&(struct rig){.n = 3,
                                               .per_node = per_node,
                                               .process = be_in_groups,
                                               .argument = table},
                                 60),
                         0);
    assert_int_equal(store_table_entries(table), 0);
}

static int join_again_and_again(struct rig *rig, int rank)
{
    struct gyre_comm *comm;
    int bad = 0;
    for (int i = 0; i < 5 && !bad; i++)
        bad += store_join(rig->argument, "again", rank, 2, &comm) || !sums(comm) ||
               gyre_finalize(comm);
    return bad;
}

static void a_name_is_used_again(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2,
                                           .process = join_again_and_again,
                                           .argument = store_table_make(STORE_GOOD)},
                             60),
                     0);
}

/* The second group of a name finds the first one's value, until its rank 0 comes. */
static int join_behind_a_dead_group(struct rig *rig, int rank)
{
    struct store_table *table = rig->argument;
    struct gyre_comm *comm;
    int bad = store_join(rig->argument, "late", rank, 2, &comm) || gyre_finalize(comm);
    if (!bad && rank == 0) {
        rig_until(&rig->shared->ready, 1);
        rig_until(&table->gets, rig->shared->flag + 2);
    } else if (!bad) {
        rig->shared->flag = table->gets;
        rig->shared->ready = 1;
    }
    return bad || store_join(rig->argument, "late", rank, 2, &comm) || !sums(comm) ||
           gyre_finalize(comm);
}

static void an_old_value_is_outlived(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2,
                                           .process = join_behind_a_dead_group,
                                           .argument = store_table_make(STORE_KEEPS_ALL)},
                             60),
                     0);
}

/* Ranks of two launchers, of which one has started its ranks before: torchrun after a node has
 * come. */
static int join_with_its_own_count(struct rig *rig, int rank)
{
    struct gyre_comm *comm;
    setenv("TORCHELASTIC_RESTART_COUNT", rank ? "0" : "1", 1);
    return store_join(rig->argument, "counts", rank, 2, &comm) || !sums(comm) ||
           gyre_finalize(comm);
}

static void counts_of_launchers_may_differ(void **state)
{
    (void)state;
    assert_int_equal(rig_run(&(struct rig){.n = 2,
                                           .process = join_with_its_own_count,
                                           .argument = store_table_make(STORE_GOOD)},
                             60),
                     0);
}

/* -- a folder ---------------------------------------------------------------------------------- */

static int join_by_folder(struct rig *rig, int rank)
{
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct gyre_comm *one, *two;
    unsetenv("GYRE_KEY");
    unsetenv("GYRE_JOB");
    setenv("GYRE_ROOT", rig->argument, 1);
    options.join_timeout_ms = 20000 * rig_slow();
    int bad = gyre_init(&one, &options);
    options.job = "another";
    bad = bad || gyre_init(&two, &options);
    if (bad)
        fprintf(stderr, "rank %d: %s\n", rank, gyre_error(NULL));
    return bad || !sum_at_once(one, two) || gyre_finalize(one) || gyre_finalize(two);
}

static void a_folder_is_a_store(void **state)
{
    char root[300];
    (void)state;
    snprintf(root, sizeof root, "file://%s", file_room_name("jobs/mine"));
    assert_int_equal(
        rig_run(&(struct rig){.n = 3, .process = join_by_folder, .argument = root}, 60), 0);
    assert_int_equal(rmdir(file_room_name("jobs/mine")), 0); /* nothing is left in it */
}

/* -- what is wrong ----------------------------------------------------------------------------- */

static int join_in_vain(struct rig *rig, int rank)
{
    struct store_table *table = rig->argument;
    const struct gyre_store store = store_of(table);
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct gyre_comm *comm = NULL;
    unsetenv("GYRE_KEY");
    options.rank = rank;
    options.world = 2;
    options.job = "vain";
    options.store = &store;
    options.join_timeout_ms = 300;
    rig->shared->status[rank] = gyre_init(&comm, &options);
    snprintf(rig->shared->error[rank], sizeof rig->shared->error[rank], "%s", gyre_error(NULL));
    return comm != NULL;
}

static void expect_vain(enum store_fault fault, const char *of_rank_0, const char *of_rank_1)
{
    struct rig rig = {.n = 2, .process = join_in_vain, .argument = store_table_make(fault)};
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    if (!strstr(rig.shared->error[0], of_rank_0) || !strstr(rig.shared->error[1], of_rank_1))
        fail_msg("fault %d: \"%s\", \"%s\"", fault, rig.shared->error[0], rig.shared->error[1]);
    munmap(rig.shared, sizeof *rig.shared);
}

/* Two processes come as rank 1. The one that is refused, which changes nothing, is rank 2 then. */
static int come_twice(struct rig *rig, int rank)
{
    struct gyre_comm *comm;
    int status = store_join(rig->argument, "twice", rank ? 1 : 0, 3, &comm);
    if (status) {
        if (status != GYRE_REFUSED || !strstr(gyre_error(NULL), "rank 1 is here already"))
            return 1;
        rig->shared->ready++;
        status = store_join(rig->argument, "twice", 2, 3, &comm);
    }
    return status || !sums(comm) || gyre_finalize(comm) || rig->shared->ready != 1;
}

static void two_members_with_one_rank_are_told(void **state)
{
    (void)state;
    assert_int_equal(
        rig_run(
            &(struct rig){.n = 3, .process = come_twice, .argument = store_table_make(STORE_GOOD)},
            60),
        0);
}

static void a_member_that_never_comes_is_named(void **state)
{
    struct rig rig = {.n = 1, .process = join_in_vain, .argument = store_table_make(STORE_GOOD)};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    assert_int_equal(rig.shared->status[0], GYRE_TIMED_OUT);
    if (!strstr(rig.shared->error[0], "1 of 2 ranks did not join") ||
        !strstr(rig.shared->error[0], "rank 1 missing"))
        fail_msg("\"%s\"", rig.shared->error[0]);
    assert_int_equal(store_table_entries(rig.argument), 0);
}

static void a_bad_store_is_told(void **state)
{
    (void)state;
    expect_vain(STORE_SET_FAILS,
                "cannot leave its address in the store as \"gyre/vain\": its set() "
                "returned -5",
                "rank 0 has not left \"gyre/vain\" in the store yet");
    expect_vain(STORE_GET_FAILS, "rank 1",
                "the store does not give \"gyre/vain\": its get() returned");
    expect_vain(STORE_LOSES_ALL, "rank 1", "rank 0 has not left \"gyre/vain\"");
    expect_vain(STORE_LIES, "rank 1", "gyre/vain does not hold \"host port key\"");
    expect_vain(STORE_OVERFLOWS, "rank 1", "the store has 1024 bytes as \"gyre/vain\"");
    expect_vain(STORE_FORGES_KEY, "rank 1", "closed without a word: another key");
}

static void refuse(const struct gyre_options *options, const char *why)
{
    struct gyre_comm *comm;
    assert_int_equal(gyre_init(&comm, options), GYRE_INVALID);
    if (!strstr(gyre_error(NULL), why))
        fail_msg("\"%s\" does not tell \"%s\"", gyre_error(NULL), why);
}

static void bad_options_are_told(void **state)
{
    const struct gyre_store whole = store_of(NULL);
    struct gyre_store store = {sizeof store, NULL, whole.set, NULL, NULL};
    struct gyre_options options = GYRE_OPTIONS_INIT;
    char name[300];
    (void)state;
    options.rank = 0;
    options.world = 2;
    options.store = &store;
    refuse(&options, "options.store has no function get");
    store.get = whole.get;
    refuse(&options, "wants options.job");
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    options.job = name;
    refuse(&options, "1 to 200 characters");
    store.size = 3;
    refuse(&options, "gyre_store.size is 3");
    options.store = NULL;
    options.root = "file://here";
    refuse(&options, "expected file:///folder");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_apart),
        cmocka_unit_test(a_name_is_used_again),
        cmocka_unit_test(an_old_value_is_outlived),
        cmocka_unit_test(counts_of_launchers_may_differ),
        cmocka_unit_test(a_folder_is_a_store),
        cmocka_unit_test(a_bad_store_is_told),
        cmocka_unit_test(bad_options_are_told),
        cmocka_unit_test(two_members_with_one_rank_are_told),
        cmocka_unit_test(a_member_that_never_comes_is_named),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
