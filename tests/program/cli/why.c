/* gyre why, dump and top: what is bad, a living job, and SIGUSR2 to a rank that stands still.
 * Planted faults of all kinds are in program/cli/why_faults.c. */
#include "program/cli/hurt.h"
#include "rig/test.h"
#include "transport/recorder/dump.h"
#include "transport/recorder/recorder.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* -- what is bad ------------------------------------------------------------------------------- */

/* Cuts the dumps whose names have `part` in them. */
static void cut_dumps(const char *part)
{
    char path[1024];
    const struct dirent *entry;
    DIR *dumps = opendir(hurt_folder);
    assert_non_null(dumps);
    while ((entry = readdir(dumps))) {
        snprintf(path, sizeof path, "%s/%s", hurt_folder, entry->d_name);
        if (entry->d_name[0] != '.' && strstr(entry->d_name, part))
            assert_int_equal(truncate(path, 9000), 0);
    }
    closedir(dumps);
}

static void torn_dumps_are_told_and_the_rest_is_used(void **state)
{
    const struct plant plant = {COUNT, 4, 1, 9, false};
    (void)state;
    hurt_plant(&plant, true);
    rig_end(&hurt_asked);
    cut_dumps("-rank-0.");
    hurt_ask(hurt_folder);
    assert_true(rig_has(hurt_asked.err_text, "1 file cannot be used"));
    assert_true(rig_has(hurt_asked.err_text, "is torn"));
    assert_int_equal(hurt_asked.code, 4);
    rig_end(&hurt_asked);
    rig_run(&hurt_asked, NULL, (const char *const[]){"dump", hurt_folder, NULL});
    assert_int_equal(hurt_asked.code, 0);
    assert_true(rig_has(hurt_asked.out_text, "{\"version\":1,\"record\":\"rank\""));
    assert_true(rig_has(hurt_asked.out_text, "\"number\":9,\"call\":\"all_reduce f32 sum"));
    rig_end(&hurt_asked);
    cut_dumps("-rank-2."); /* who may not have come to the call when ranks 0 and 1 disagreed */
    cut_dumps("-rank-3.");
    hurt_ask(hurt_folder);
    assert_int_equal(hurt_asked.code, 4);
    assert_true(
        rig_has(hurt_asked.out_text, "\"kind\":\"mismatch\",\"communicator\":0,\"number\":9"));
    rig_end(&hurt_asked);
    cut_dumps("");
    hurt_ask(hurt_folder);
    rig_expect(&hurt_asked, 2, "has no dump that can be read");
    rig_end(&hurt_asked);
}

static void who_does_not_exist_is_said(void **state)
{
    (void)state;
    hurt_ask("no-such-job-at-all");
    rig_expect(&hurt_asked, 2, "is a rank of a job 'no-such-job-at-all'");
    rig_end(&hurt_asked);
    rig_run(&hurt_asked, NULL, (const char *const[]){"why", NULL});
    rig_expect(&hurt_asked, 2, "which job?");
    rig_end(&hurt_asked);
}

/* A dump of a group that its process has made beside another: 600 calls in a ring of 512. */
static void the_dump_of_a_further_group_is_read(void **state)
{
    static const uint8_t job[16] = {7};
    const struct gyre_recorder_identity identity = {.n = 1, .nodes = 1, .job = job, .host = "here"};
    struct gyre_recorder *first = gyre_recorder_create(&identity);
    struct gyre_recorder *further = gyre_recorder_create(&identity);
    (void)state;
    assert_true(first && further);
    assert_int_equal(further->head->records, GYRE_RECORDS_FEW);
    gyre_recorder_note_comm(further, 0, 1, 0);
    for (uint64_t i = 1; i <= 600; i++)
        gyre_record_ended(
            gyre_record_call(further, &(struct gyre_record_call){.sequence = i, .count = 1}), 0);
    cut_dumps("");
    gyre_recorder_dump(further->head, false);
    gyre_recorder_destroy(further);
    gyre_recorder_destroy(first);
    rig_run(&hurt_asked, NULL, (const char *const[]){"dump", hurt_folder, NULL});
    rig_expect(&hurt_asked, 0, "");
    assert_true(rig_has(hurt_asked.out_text, "\"number\":600,"));
    assert_true(rig_has(hurt_asked.out_text, "\"number\":89,"));
    assert_false(rig_has(hurt_asked.out_text, "\"number\":88,"));
    rig_end(&hurt_asked);
}

/* A rank alone on its node has no peer that holds its records: its launcher does. */
static void a_rank_alone_that_is_killed_leaves_its_records(void **state)
{
    const struct plant plant = {KILLED, 3, 1, 9, true, true};
    (void)state;
    hurt_plant(&plant, true);
    assert_true(hurt_names_kind(&plant) && hurt_names_rank(&plant));
    assert_true(rig_has(hurt_asked.out_text, "{\"rank\":1,"));
    rig_end(&hurt_asked);
    cut_dumps("-rank-0.");
    cut_dumps("-rank-2.");
    rig_run(&hurt_asked, NULL, (const char *const[]){"dump", hurt_folder, NULL});
    rig_expect(&hurt_asked, 0, "");
    assert_true(rig_has(hurt_asked.out_text, "\"record\":\"rank\",\"rank\":1,\"n\":3,"));
    assert_true(rig_has(hurt_asked.out_text, "\"state\":\"failed\""));
    assert_true(
        rig_has(hurt_asked.out_text, "\"rank\":1,\"id\":8,\"communicator\":0,\"number\":8,"));
    assert_false(rig_has(hurt_asked.out_text, "\"number\":9,"));
    rig_end(&hurt_asked);
}

/* A launcher's descriptor that is none is told, and the rank keeps its records all the same. */
static void a_wrong_descriptor_is_told(void **state)
{
    static const char *const wrong[][2] = {
        {"soup", "GYRE_RECORD_FD is \"soup\""},
        {"-3", "GYRE_RECORD_FD is \"-3\""},
        {"0", "GYRE_RECORD_FD is 0, which is no file for records here"},
        {"99999", NULL}, /* what a process of a rank's own inherits */
    };
    char setting[64];
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(setting, sizeof setting, "GYRE_RECORD_FD=%s", wrong[i][0]);
        cut_dumps("");
        rig_run(&hurt_job, NULL,
                WORDS("-n", "3", "--", "env", setting, hurt_program(), "2", "3", "1", "5"));
        assert_int_not_equal(hurt_job.code, 0);
        if (wrong[i][1] ? !rig_has(hurt_job.err_text, wrong[i][1])
                        : rig_has(hurt_job.err_text, "GYRE_RECORD_FD"))
            fail_msg("%s: %s", wrong[i][0], hurt_job.err_text);
        rig_end(&hurt_job);
        rig_run(&hurt_asked, NULL, (const char *const[]){"dump", hurt_folder, NULL});
        rig_expect(&hurt_asked, 0, "");
        assert_true(rig_has(hurt_asked.out_text, "\"record\":\"rank\",\"rank\":1,\"n\":3,"));
        rig_end(&hurt_asked);
    }
}

static void top_shows_a_living_job(void **state)
{
    const struct plant plant = {MISSING, 2, 1, 50, false};
    char process[16];
    (void)state;
    hurt_start(&plant, "0");
    snprintf(process, sizeof process, "%d", hurt_victim());
    rig_run(&hurt_asked, NULL, (const char *const[]){"top", process, "-n", "1", NULL});
    rig_expect(&hurt_asked, 0, "");
    assert_true(rig_has(hurt_asked.out_text, "last call"));
    assert_true(rig_has(hurt_asked.out_text, "\n     1 "));
    rig_end(&hurt_asked);
    rig_run(&hurt_asked, NULL, (const char *const[]){"top", process, "--prometheus", NULL});
    rig_expect(&hurt_asked, 0, "");
    assert_true(
        rig_has(hurt_asked.out_text, "\n# TYPE gyre_calls_total counter\ngyre_calls_total{job="));
    assert_true(rig_has(hurt_asked.out_text, ",rank=\"1\",host=\""));
    assert_true(rig_has(hurt_asked.out_text, "\"} 49\n"));
    rig_end(&hurt_asked);
    hurt_end_living();
    rig_end(&hurt_job);
}

/* -- SIGUSR2 ----------------------------------------------------------------------------------- */

static int count_dumps(void)
{
    int found = 0;
    const struct dirent *entry;
    DIR *dumps = opendir(hurt_folder);
    assert_non_null(dumps);
    while ((entry = readdir(dumps)))
        found += entry->d_name[0] != '.';
    closedir(dumps);
    return found;
}

/* Starts two ranks of which the second stands still in the middle, and signals that one. */
static void signal_a_rank_that_stands_still(void)
{
    const struct plant plant = {MISSING, 2, 1, 21, false};
    hurt_start(&plant, "0");
    kill(hurt_victim(), SIGUSR2);
}

static void sigusr2_dumps_a_rank_that_goes_on(void **state)
{
    (void)state;
    signal_a_rank_that_stands_still();
    for (bool there = false; !there;) {
        rig_run(&hurt_asked, NULL, (const char *const[]){"dump", hurt_folder, NULL});
        there = rig_has(hurt_asked.out_text, "\"number\":20,\"call\":\"barrier\"");
        if (there)
            assert_true(rig_has(hurt_asked.out_text, "\"record\":\"rank\",\"rank\":1,\"n\":2"));
        if (there)
            assert_true(rig_has(hurt_asked.out_text, "\"state\":\"runs\""));
        rig_end(&hurt_asked);
        usleep(20000);
    }
    assert_int_equal(count_dumps(), 1);
    assert_int_equal(hurt_job.code, -1);
    hurt_end_living();
    rig_end(&hurt_job);
}

static void a_handler_of_the_programs_own_is_left_alone(void **state)
{
    (void)state;
    setenv("OWN_HANDLER", "1", 1);
    signal_a_rank_that_stands_still();
    unsetenv("OWN_HANDLER");
    rig_wait_for(&hurt_job, "handler of its own");
    assert_int_equal(count_dumps(), 0);
    hurt_end_living();
    rig_end(&hurt_job);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torn_dumps_are_told_and_the_rest_is_used),
        cmocka_unit_test(who_does_not_exist_is_said),
        cmocka_unit_test(the_dump_of_a_further_group_is_read),
        cmocka_unit_test(a_rank_alone_that_is_killed_leaves_its_records),
        cmocka_unit_test(a_wrong_descriptor_is_told),
        cmocka_unit_test(top_shows_a_living_job),
        cmocka_unit_test(sigusr2_dumps_a_rank_that_goes_on),
        cmocka_unit_test(a_handler_of_the_programs_own_is_left_alone),
    };
    const int code = hurt_become_rank(argc, argv);
    if (code >= 0)
        return code;
    return hurt_prepare() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
