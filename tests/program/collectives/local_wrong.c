/* Several ranks in one process: what is refused and why, what one rank's failure is to the others
 * of its process and of the other one, and how ranks end. */
#include "rig/local_rig.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* -- what is wrong ----------------------------------------------------------------------------- */

struct wrong {
    int count[2], device[2]; /* of process 0 and 1 */
    const char *list;        /* GYRE_DEVICES */
    int status;
    const char *story[2]; /* all of these */
    bool other_call;      /* process 1 calls gyre_init() */
};

static int refused(struct rig *rig, int process)
{
    const struct wrong *wrong = rig->argument;
    struct gyre_options options = GYRE_OPTIONS_INIT;
    struct gyre_comm *comm[128];
    int devices[128];
    memset(comm, 0xff, sizeof(comm));
    for (int i = 0; i < 128; i++)
        devices[i] = wrong->device[process];
    if (wrong->list)
        setenv("GYRE_DEVICES", wrong->list, 1);
    options.join_timeout_ms = 20000 * rig_slow();
    int status = process && wrong->other_call
                     ? gyre_init(comm, &options)
                     : gyre_init_in_process(comm, wrong->count[process],
                                            wrong->list ? NULL : devices, &options);
    bool told =
        strstr(gyre_error(NULL), wrong->story[0]) && strstr(gyre_error(NULL), wrong->story[1]);
    bool fine = status == wrong->status && told && (wrong->count[process] < 1 || !comm[0]);
    if (!fine)
        fprintf(stderr, "process %d: %d, \"%s\" (expected \"%s\" and \"%s\")\n", process, status,
                gyre_error(NULL), wrong->story[0], wrong->story[1]);
    return !fine;
}

static void expect_wrong(int processes, const struct wrong *wrong)
{
    struct rig rig = {.n = processes, .process = refused, .argument = (void *)(uintptr_t)wrong};
    assert_int_equal(rig_run(&rig, 30), 0);
}

static void wrong_devices_are_told(void **state)
{
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    expect_wrong(
        1, &(struct wrong){
               {2}, {9}, NULL, GYRE_INVALID, {"rank 0", "is given CUDA device 9: 2 are visible"}});
    expect_wrong(1,
                 &(struct wrong){{1}, {-2}, NULL, GYRE_INVALID, {"device -2", "-1 is no device"}});
    expect_wrong(
        2, &(struct wrong){{3, 1}, {0, 5}, NULL, GYRE_INVALID, {"process 1 of 2", "rank 3 on "}});
    expect_wrong(2, &(struct wrong){
                        {3, 2}, {0, 0}, "0,1,0,1", GYRE_INVALID, {"process 1 of 2", "rank 4 on "}});
    setenv("FAKECUDA_DEVICES", "none", 1);
    expect_wrong(1, &(struct wrong){{2},
                                    {0},
                                    NULL,
                                    GYRE_UNSUPPORTED,
                                    {"is given CUDA device 0: 0 are visible", "-1 is no device"}});
    setenv("FAKECUDA_DEVICES", "2", 1);
}

static void wrong_counts_are_told(void **state)
{
    (void)state;
    expect_wrong(1, &(struct wrong){{0}, {-1}, NULL, GYRE_INVALID, {"0 ranks", "1 to 64"}});
    expect_wrong(1, &(struct wrong){{65}, {-1}, NULL, GYRE_INVALID, {"65 ranks", "1 to 64"}});
    expect_wrong(
        2, &(struct wrong){{2, -1}, {-1, -1}, NULL, GYRE_INVALID, {"process 1 of 2", "-1 ranks"}});
    expect_wrong(2, &(struct wrong){{2, 1},
                                    {-1, -1},
                                    NULL,
                                    GYRE_REFUSED,
                                    {"call is gyre_init_in_process on", "and gyre_init on"},
                                    true});
}

static int wrong_pointers(struct rig *rig, int process)
{
    struct gyre_comm *first[2] = {NULL}, *second[2];
    struct gyre_options short_options = {.size = 3};
    int bad = 0;
    (void)rig, (void)process;
    bad |= gyre_init_in_process(NULL, 2, NULL, NULL) != GYRE_INVALID;
    bad |= gyre_init_in_process(first, 2, NULL, &short_options) != GYRE_INVALID;
    bad |= gyre_init_in_process(first, 2, NULL, NULL) != 0;
    bad |= gyre_init_in_process(second, 2, NULL, NULL) != GYRE_INVALID;
    bad |= !strstr(gyre_error(NULL), "has a communicator already") || second[0] || second[1];
    bad |= gyre_init(second, NULL) != GYRE_INVALID;
    pid_t child = fork();
    if (child == 0)
        _exit(gyre_barrier(first[0]) == GYRE_FORKED && gyre_finalize(first[1]) == GYRE_FORKED ? 0
                                                                                              : 1);
    int ended;
    bad |= waitpid(child, &ended, 0) != child || ended;
    bad |= gyre_finalize(first[0]) != 0;
    bad |= gyre_init(second, NULL) != GYRE_INVALID; /* until the last has gone */
    bad |= gyre_finalize(first[1]) != 0;
    bad |= gyre_init_in_process(first, 1, NULL, NULL) != 0 || gyre_finalize(first[0]) != 0;
    return rig_check(!bad, NULL, "wrong pointers");
}

static void wrong_calls_are_told(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {2}}, "auto", false, wrong_pointers);
}

/* -- failures ---------------------------------------------------------------------------------- */

static void *wait_in_vain(void *argument)
{
    struct seat *seat = argument;
    while ((seat->bad = gyre_barrier(seat->comm)) == 0)
        continue;
    return NULL;
}

/* Rank 1 aborts; every other rank of both processes waits. */
static int one_aborts(struct rig *rig, int process)
{
    static struct table table;
    pthread_t thread[RANKS];
    int bad = sit_down(&table, rig->argument, process);
    rig->shared->ready++;
    rig_until(&rig->shared->ready, rig->n);
    for (int i = 0; i < table.count && !bad; i++)
        if (gyre_rank(table.comm[i]) != 1)
            pthread_create(&thread[i], NULL, wait_in_vain, &table.seat[i]);
    for (int i = 0; i < table.count && !bad; i++)
        if (gyre_rank(table.comm[i]) == 1)
            bad |= gyre_abort(table.comm[i], "enough");
    for (int i = 0; i < table.count && !bad; i++) {
        if (gyre_rank(table.comm[i]) != 1)
            pthread_join(thread[i], NULL);
        else
            wait_in_vain(&table.seat[i]);
        bad |= rig_check(table.seat[i].bad == GYRE_ABORTED &&
                             strstr(gyre_error(table.comm[i]), "rank 1 called gyre_abort()"),
                         table.comm[i], "aborted");
    }
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_finalize(table.comm[i]) != GYRE_ABORTED;
    return bad;
}

static void one_abort_is_all(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {4}}, "auto", false, one_aborts);
    run(&(struct plan){.ranks = {3, 1}}, "auto", false, one_aborts);
    run(&(struct plan){.ranks = {2, 2}}, "auto", true, one_aborts);
}

/* Process 1 is killed while the three ranks of process 0 wait. */
static int lose_process_1(struct rig *rig, int process)
{
    static struct table table;
    pthread_t thread[RANKS];
    int bad = sit_down(&table, rig->argument, process);
    for (int i = 0; i < table.count && !process && !bad; i++)
        pthread_create(&thread[i], NULL, wait_in_vain, &table.seat[i]);
    if (process) {
        rig_until(&rig->shared->ready, 1);
        raise(SIGKILL);
    }
    rig->shared->ready = 1;
    for (int i = 0; i < table.count && !bad; i++) {
        pthread_join(thread[i], NULL);
        bad |= rig_check(table.seat[i].bad == GYRE_PEER_LOST &&
                             strstr(gyre_error(table.comm[i]), "rank 3"),
                         table.comm[i], "lost");
    }
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_finalize(table.comm[i]) != GYRE_PEER_LOST;
    return bad;
}

static void a_process_may_die(void **state)
{
    const struct plan plan = {.ranks = {3, 1}};
    struct rig rig = {.n = 2, .process = lose_process_1, .argument = (void *)(uintptr_t)&plan};
    (void)state;
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 20, 1u << 1), 0);
}

/* A group left open on one rank is told, and is the job's failure. */
static int leave_group_open(struct rig *rig, int process)
{
    static struct table table;
    int32_t value = 0;
    int bad = sit_down(&table, rig->argument, process);
    bad = bad || gyre_group_start(table.comm[0]) ||
          gyre_all_reduce(table.comm[0], &value, &value, 1, GYRE_I32, GYRE_SUM);
    bad = bad || gyre_finalize(table.comm[0]) != GYRE_INVALID;
    bad = bad || gyre_finalize(table.comm[1]) != GYRE_INVALID;
    return bad;
}

static void an_open_group_is_told(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {2}}, "auto", false, leave_group_open);
}

/* Memory of another rank's device is refused by each call, and the communicators are unharmed. */
static int give_anothers(struct rig *rig, int process)
{
    static struct table table;
    struct gyre_work *work[2];
    static const uint64_t one_each[2] = {1, 1};
    int bad = sit_down(&table, rig->argument, process);
    if (bad)
        return bad;
    struct gyre_comm *comm = table.comm[0];
    uint8_t *away = table.seat[1].stage.away[2], *own = table.seat[0].stage.away[2];
    bad |= gyre_all_reduce_start(comm, away, own, 4, GYRE_I32, GYRE_SUM, &work[0]) != GYRE_INVALID;
    bad |= !strstr(gyre_error(comm), "memory of CUDA device 1, which device 0");
    bad |= gyre_all_reduce_start(comm, own, away, 4, GYRE_I32, GYRE_SUM, &work[0]) != GYRE_INVALID;
    bad |= gyre_send_start(comm, away, 4, GYRE_I32, 1, &work[0]) != GYRE_INVALID;
    bad |= gyre_all_to_all_v(comm, away, one_each, NULL, own, one_each, NULL, GYRE_I32) !=
           GYRE_INVALID;
    bad = rig_check(!bad, comm, "another device's memory");
    for (int i = 0; i < 2; i++)
        bad |= gyre_all_reduce_start(table.comm[i], table.seat[i].stage.away[2],
                                     table.seat[i].stage.away[2], 4, GYRE_I32, GYRE_SUM, &work[i]);
    for (int i = 0; i < 2; i++)
        bad |= gyre_work_wait(work[i], -1);
    return bad || stand_up(&table);
}

static void anothers_memory_is_refused(void **state)
{
    (void)state;
    setenv("FAKECUDA_DEVICES", "2", 1);
    run(&(struct plan){{2}, true, false, {0, 1}}, "auto", false, give_anothers);
}

/* -- ends -------------------------------------------------------------------------------------- */

/* A rank's work may be under way when it ends: the last to end waits for all of it. */
static int end_before_the_work(struct rig *rig, int process)
{
    static struct table table;
    static int32_t values[RANKS][3000];
    struct gyre_work *work[RANKS][2];
    int bad = sit_down(&table, rig->argument, process);
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_all_reduce_start(table.comm[i], values[i], values[i], 3000, GYRE_I32, GYRE_SUM,
                                     &work[i][0]) ||
               gyre_barrier_start(table.comm[i], &work[i][1]);
    for (int i = 1; i < table.count && !bad; i++)
        bad |= work[i][0] == work[0][0] || work[i][1] == work[0][1];
    bad = bad || gyre_work_wait(work[0][1], -1) || gyre_work_test(work[0][1]) != GYRE_INVALID ||
          stand_up(&table);
    for (int i = 0; i < table.count && !bad; i++)
        bad |= gyre_work_test(work[i][0]) != GYRE_INVALID;
    return bad;
}

/* One that is alone with a call is told by the end, which alone can know. */
static int end_with_one_more(struct rig *rig, int process)
{
    static struct table table;
    struct gyre_work *work;
    int32_t value = 1;
    setenv("GYRE_DEAD_TIME", "1s", 1);
    int bad = sit_down(&table, rig->argument, process), last = table.count - 1;
    bad = bad ||
          gyre_all_reduce_start(table.comm[last], &value, &value, 1, GYRE_I32, GYRE_SUM, &work);
    for (int i = 0; i < last && !bad; i++)
        bad |= rig_check(!gyre_finalize(table.comm[i]), NULL, "an end that is not the last");
    return bad || rig_check(gyre_finalize(table.comm[last]) == GYRE_MISMATCH &&
                                strstr(gyre_error(NULL), "has left by gyre_finalize()"),
                            NULL, "the last end");
}

static void ends_wait_and_tell(void **state)
{
    (void)state;
    run(&(struct plan){.ranks = {4}}, "auto", false, end_before_the_work);
    run(&(struct plan){.ranks = {3, 1}}, "auto", false, end_before_the_work);
    run(&(struct plan){.ranks = {2, 1}}, "tcp", false, end_before_the_work);
    run(&(struct plan){.ranks = {3}}, "auto", false, end_with_one_more);
    run(&(struct plan){.ranks = {3}}, "tcp", false, end_with_one_more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_devices_are_told),     cmocka_unit_test(wrong_counts_are_told),
        cmocka_unit_test(wrong_calls_are_told),       cmocka_unit_test(one_abort_is_all),
        cmocka_unit_test(a_process_may_die),          cmocka_unit_test(an_open_group_is_told),
        cmocka_unit_test(anothers_memory_is_refused), cmocka_unit_test(ends_wait_and_tell),
    };
    setenv("FAKECUDA_DEVICES", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
