/* gyre why, dump and top on jobs with a planted fault: the rank, the call and the kind are named.
 *
 * This program is also the ranks: they make the same calls over and over, and one rank hurts itself
 * at a call that a seed draws. Each of five faults is planted once, on 2 to 5 ranks; with
 * GYRE_TEST_FAULTS=N in the environment there are N more of them, on 2 to 16 ranks, and the shares
 * that were named rightly are printed. A rank that shares its core, and a slow link, are not
 * planted: what other programs do here would decide. SIGUSR2 goes to a rank that stands still. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <gyre/gyre.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum fault { KILLED, STOPPED, COUNT, ORDER, MISSING, FAULTS };

static const char *const fault_word[FAULTS] = {"killed", "stopped", "wrong count", "wrong order",
                                               "missing call"};

struct plant {
    enum fault fault;
    int ranks, victim, call; /* numbered from 1 */
};

/* -- a rank ------------------------------------------------------------------------------------ */

static float data[64], sums[64];

/* The calls in turn: all-reduce, all-gather, all-reduce of another length, barrier.
 * In each of them every rank waits for all others. */
static int make_call(struct gyre_comm *comm, int turn, uint64_t more)
{
    switch (turn % 4) {
    case 0:
        return gyre_barrier(comm);
    case 1:
        return gyre_all_reduce(comm, data, sums, 8 + more, GYRE_F32, GYRE_SUM);
    case 2:
        return gyre_all_gather(comm, data, sums, 2 + more, GYRE_F32);
    default:
        return gyre_all_reduce(comm, data, sums, 32 + more, GYRE_F32, GYRE_MAX);
    }
}

static int make_hurt_call(struct gyre_comm *comm, const struct plant *plant)
{
    printf("victim %d\n", (int)getpid());
    fflush(stdout);
    if (plant->fault == KILLED)
        raise(SIGKILL);
    if (plant->fault == STOPPED)
        raise(SIGSTOP);
    if (plant->fault == MISSING)
        for (;;)
            pause();
    return make_call(comm, plant->call + (plant->fault == ORDER), plant->fault == COUNT);
}

static void tell_own_handler(int number)
{
    (void)number;
    if (write(STDOUT_FILENO, "handler of its own\n", 19) != 19)
        _exit(1);
}

static int be_rank(char **word)
{
    struct plant plant = {(enum fault)atoi(word[0]), atoi(word[1]), atoi(word[2]), atoi(word[3])};
    struct gyre_comm *comm;
    if (getenv("OWN_HANDLER"))
        signal(SIGUSR2, tell_own_handler);
    int status = gyre_init(&comm, NULL);
    if (status)
        return 1;
    bool hurt = gyre_rank(comm) == plant.victim;
    for (int call = 1; !status; call++)
        status =
            hurt && call == plant.call ? make_hurt_call(comm, &plant) : make_call(comm, call, 0);
    gyre_finalize(comm);
    return 1;
}

/* -- one fault --------------------------------------------------------------------------------- */

static struct rig job, asked;
static char self[4096], folder[512];

static void empty_folder(void)
{
    char path[1024];
    const struct dirent *entry;
    DIR *dumps = opendir(folder);
    assert_non_null(dumps);
    while ((entry = readdir(dumps))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    closedir(dumps);
}

static void start_job(const struct plant *plant)
{
    char number[5][16];
    const int of[5] = {(int)plant->fault, plant->ranks, plant->victim, plant->call, plant->ranks};
    for (int i = 0; i < 5; i++)
        snprintf(number[i], sizeof number[i], "%d", of[i]);
    rig_start(&job, WORDS("-n", number[4], "--", self, number[0], number[1], number[2], number[3]));
}

static void ask(const char *where)
{
    rig_run(&asked, NULL, (const char *const[]){"why", "--json", where, NULL});
}

static bool names(const struct plant *plant, bool kind)
{
    char begin[96], number[32];
    snprintf(begin, sizeof begin, "\"kind\":\"%s\",\"rank\":%d,", fault_word[plant->fault],
             plant->victim);
    snprintf(number, sizeof number, "\"number\":%d,", plant->call);
    const char *rank = strchr(begin, ',');
    return rig_has(asked.out_text, kind ? begin : rank) && rig_has(asked.out_text, number);
}

/* Asks a living job until the fault shows: whoever is starved may look stopped for a while. */
static void ask_living(const struct plant *plant, bool until_named)
{
    char process[16];
    rig_wait_for(&job, "victim ");
    snprintf(process, sizeof process, "%d", atoi(strstr(job.out_text, "victim ") + 7));
    for (;;) {
        ask(process);
        bool over = until_named ? names(plant, true)
                                : !rig_has(asked.out_text, "\"kind\":\"nothing\"") && asked.code;
        if (over)
            return;
        rig_end(&asked);
        usleep(20000);
    }
}

static void end_living(void)
{
    rig_signal(&job, SIGKILL);
    rig_wait_end(&job);
    rig_wait_lifeless(&job);
}

/* Plants a fault and asks why. The answer is in `asked`, to be ended. */
static void plant_fault(const struct plant *plant, bool until_named)
{
    empty_folder();
    setenv("GYRE_DEAD_TIME", plant->fault == STOPPED || plant->fault == MISSING ? "0" : "20s", 1);
    start_job(plant);
    if (plant->fault == STOPPED || plant->fault == MISSING) {
        ask_living(plant, until_named);
        end_living();
    } else {
        rig_wait_end(&job);
        ask(folder);
    }
    rig_end(&job);
}

static void expect_named(const struct plant *plant)
{
    plant_fault(plant, true);
    if (!names(plant, true))
        print_error("%s of rank %d at call %d of %d ranks: %s%s", fault_word[plant->fault],
                    plant->victim, plant->call, plant->ranks, asked.out_text, asked.err_text);
    assert_true(names(plant, true));
    assert_int_equal(asked.code, plant->fault == COUNT || plant->fault == ORDER ? 4 : 3);
    rig_end(&asked);
}

static void a_killed_rank_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){KILLED, 3, 1, 25});
}

static void a_stopped_rank_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){STOPPED, 2, 1, 33});
}

static void a_wrong_count_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){COUNT, 5, 3, 41});
}

static void a_wrong_order_is_named_even_by_two(void **state)
{
    (void)state;
    expect_named(&(struct plant){ORDER, 2, 0, 29});
}

static void a_missing_call_is_named(void **state)
{
    (void)state;
    expect_named(&(struct plant){MISSING, 4, 2, 19});
}

/* -- what is bad ------------------------------------------------------------------------------- */

/* Cuts the dumps whose names have `part` in them. */
static void cut_dumps(const char *part)
{
    char path[1024];
    const struct dirent *entry;
    DIR *dumps = opendir(folder);
    assert_non_null(dumps);
    while ((entry = readdir(dumps))) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.' && strstr(entry->d_name, part))
            assert_int_equal(truncate(path, 9000), 0);
    }
    closedir(dumps);
}

static void torn_dumps_are_told_and_the_rest_is_used(void **state)
{
    const struct plant plant = {COUNT, 4, 1, 9};
    (void)state;
    plant_fault(&plant, true);
    rig_end(&asked);
    cut_dumps("-rank-0.");
    ask(folder);
    assert_true(rig_has(asked.err_text, "1 file cannot be used"));
    assert_true(rig_has(asked.err_text, "is torn"));
    assert_int_equal(asked.code, 4);
    rig_end(&asked);
    rig_run(&asked, NULL, (const char *const[]){"dump", folder, NULL});
    assert_int_equal(asked.code, 0);
    assert_true(rig_has(asked.out_text, "{\"version\":1,\"record\":\"rank\""));
    assert_true(rig_has(asked.out_text, "\"number\":9,\"call\":\"all_reduce f32 sum"));
    rig_end(&asked);
    cut_dumps("");
    ask(folder);
    rig_expect(&asked, 2, "has no dump that can be read");
    rig_end(&asked);
}

static void who_does_not_exist_is_said(void **state)
{
    (void)state;
    ask("no-such-job-at-all");
    rig_expect(&asked, 2, "is a rank of a job 'no-such-job-at-all'");
    rig_end(&asked);
    rig_run(&asked, NULL, (const char *const[]){"why", NULL});
    rig_expect(&asked, 2, "which job?");
    rig_end(&asked);
}

static void top_shows_a_living_job(void **state)
{
    const struct plant plant = {MISSING, 2, 1, 50};
    char process[16];
    (void)state;
    empty_folder();
    setenv("GYRE_DEAD_TIME", "0", 1);
    start_job(&plant);
    rig_wait_for(&job, "victim ");
    snprintf(process, sizeof process, "%d", atoi(strstr(job.out_text, "victim ") + 7));
    rig_run(&asked, NULL, (const char *const[]){"top", process, "-n", "1", NULL});
    rig_expect(&asked, 0, "");
    assert_true(rig_has(asked.out_text, "last call"));
    assert_true(rig_has(asked.out_text, "\n     1 "));
    rig_end(&asked);
    rig_run(&asked, NULL, (const char *const[]){"top", process, "--prometheus", NULL});
    rig_expect(&asked, 0, "");
    assert_true(
        rig_has(asked.out_text, "\n# TYPE gyre_calls_total counter\ngyre_calls_total{job="));
    assert_true(rig_has(asked.out_text, ",rank=\"1\",host=\""));
    assert_true(rig_has(asked.out_text, "\"} 49\n"));
    rig_end(&asked);
    end_living();
    rig_end(&job);
}

/* -- SIGUSR2 ----------------------------------------------------------------------------------- */

static int count_dumps(void)
{
    int found = 0;
    const struct dirent *entry;
    DIR *dumps = opendir(folder);
    assert_non_null(dumps);
    while ((entry = readdir(dumps)))
        found += entry->d_name[0] != '.';
    closedir(dumps);
    return found;
}

/* Starts two ranks of which the second stands still in the middle, and signals that one. */
static void signal_a_rank_that_stands_still(void)
{
    const struct plant plant = {MISSING, 2, 1, 21};
    empty_folder();
    setenv("GYRE_DEAD_TIME", "0", 1);
    start_job(&plant);
    rig_wait_for(&job, "victim ");
    kill(atoi(strstr(job.out_text, "victim ") + 7), SIGUSR2);
}

static void sigusr2_dumps_a_rank_that_goes_on(void **state)
{
    (void)state;
    signal_a_rank_that_stands_still();
    for (bool there = false; !there;) {
        rig_run(&asked, NULL, (const char *const[]){"dump", folder, NULL});
        there = rig_has(asked.out_text, "\"number\":20,\"call\":\"barrier\"");
        if (there)
            assert_true(rig_has(asked.out_text, "\"record\":\"rank\",\"rank\":1,\"n\":2"));
        if (there)
            assert_true(rig_has(asked.out_text, "\"state\":\"runs\""));
        rig_end(&asked);
        usleep(20000);
    }
    assert_int_equal(count_dumps(), 1);
    assert_int_equal(job.code, -1);
    end_living();
    rig_end(&job);
}

static void a_handler_of_the_programs_own_is_left_alone(void **state)
{
    (void)state;
    setenv("OWN_HANDLER", "1", 1);
    signal_a_rank_that_stands_still();
    unsetenv("OWN_HANDLER");
    rig_wait_for(&job, "handler of its own");
    assert_int_equal(count_dumps(), 0);
    end_living();
    rig_end(&job);
}

/* -- many -------------------------------------------------------------------------------------- */

static uint32_t drawn = 1;

static int draw(int least, int most)
{
    drawn = drawn * 1664525u + 1013904223u;
    return least + (int)((drawn >> 8) % (uint32_t)(most - least + 1));
}

static void many_faults_are_named(void **state)
{
    const char *text = getenv("GYRE_TEST_FAULTS");
    int faults = text ? atoi(text) : 0, ranks_named = 0, kinds_named = 0;
    (void)state;
    for (int i = 0; i < faults; i++) {
        struct plant plant = {(enum fault)(i % FAULTS), draw(2, 16), 0, draw(14, 200)};
        plant.victim = draw(0, plant.ranks - 1);
        plant_fault(&plant, false);
        bool rank = names(&plant, false), kind = names(&plant, true);
        ranks_named += rank;
        kinds_named += kind;
        if (!rank || !kind)
            print_message("%s of rank %d at call %d of %d ranks: %.200s\n", fault_word[plant.fault],
                          plant.victim, plant.call, plant.ranks, asked.out_text);
        rig_end(&asked);
    }
    if (faults) {
        print_message("%d faults: rank and call named in %d, the kind in %d\n", faults, ranks_named,
                      kinds_named);
        assert_true(ranks_named * 100 >= faults * 99);
        assert_true(kinds_named * 100 >= faults * 95);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_stopped_rank_is_named),
        cmocka_unit_test(a_wrong_count_is_named),
        cmocka_unit_test(a_wrong_order_is_named_even_by_two),
        cmocka_unit_test(a_missing_call_is_named),
        cmocka_unit_test(torn_dumps_are_told_and_the_rest_is_used),
        cmocka_unit_test(who_does_not_exist_is_said),
        cmocka_unit_test(top_shows_a_living_job),
        cmocka_unit_test(sigusr2_dumps_a_rank_that_goes_on),
        cmocka_unit_test(a_handler_of_the_programs_own_is_left_alone),
        cmocka_unit_test(many_faults_are_named),
    };
    if (argc == 5)
        return be_rank(argv + 1);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return 1;
    snprintf(folder, sizeof folder, "%s/dumps", rig_folder());
    if (mkdir(folder, 0700))
        return 1;
    setenv("GYRE_DUMP", folder, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
