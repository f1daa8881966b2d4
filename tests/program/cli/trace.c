/* GYRE_TRACE and gyre trace on real jobs: over sockets by a ring, in shared memory, with a rank
 * that is killed, with files that are torn, and with a folder that cannot be used.
 *
 * This program is also the ranks: they make a number of all-reduces, and one may kill itself. */
#include "rig/launch_rig.h"
#include "rig/test.h"

#include <dirent.h>
#include <gyre/gyre.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CALLS 12
#define COUNT 30000

/* -- a rank ------------------------------------------------------------------------------------ */

static int be_rank(int victim)
{
    static float data[COUNT];
    struct gyre_comm *comm;
    int status = gyre_init(&comm, NULL);
    if (status) {
        fprintf(stderr, "%s\n", gyre_error(NULL));
        return 1;
    }
    for (int call = 1; !status && call <= CALLS; call++) {
        if (gyre_rank(comm) == victim && call == CALLS / 2)
            raise(SIGKILL);
        status = gyre_all_reduce(comm, data, data, COUNT, GYRE_F32, GYRE_SUM);
    }
    gyre_finalize(comm);
    return status != 0;
}

/* -- jobs -------------------------------------------------------------------------------------- */

static struct rig job, asked;
static char self[4096], folder[512];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s/traces-XXXXXX", rig_folder());
    if (!mkdtemp(folder))
        return 1;
    return setenv("GYRE_TRACE", folder, 1);
}

/* Runs a job to its end, over sockets by a ring. Its words are in `job`, to be ended. */
static void run_job(const char *transport, const char *victim)
{
    setenv("GYRE_TRANSPORT", transport, 1);
    setenv("GYRE_ALGO", strcmp(transport, "tcp") ? "auto" : "ring", 1);
    rig_run(&job, NULL, WORDS("-n", "3", "--", self, victim));
    unsetenv("GYRE_ALGO");
    unsetenv("GYRE_TRANSPORT");
}

static void ask(const char *flag, const char *value)
{
    rig_run(&asked, NULL, (const char *const[]){"trace", folder, flag, value, NULL});
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        found++;
    return found;
}

/* The path of a rank's trace. */
static void trace_of(int rank, char path[1024])
{
    char part[32];
    const struct dirent *entry;
    DIR *traces = opendir(folder);
    assert_non_null(traces);
    snprintf(part, sizeof part, "-rank-%d.gyretrace", rank);
    path[0] = '\0';
    while ((entry = readdir(traces)))
        if (strstr(entry->d_name, part))
            snprintf(path, 1024, "%s/%s", folder, entry->d_name);
    closedir(traces);
    assert_true(path[0]);
}

/* -- the tests --------------------------------------------------------------------------------- */

/* A ring of three passes four messages on, for each call and rank. */
static void a_ring_over_sockets_shows_every_message(void **state)
{
    (void)state;
    run_job("tcp", "none");
    rig_expect(&job, 0, "");
    rig_end(&job);
    ask(NULL, NULL);
    rig_expect(&asked, 0, "");
    assert_true(rig_has(asked.out_text, "ranks: 3 of 3 have traces here"));
    assert_true(rig_has(asked.out_text, "clocks: one host, one clock"));
    rig_end(&asked);
    ask("--chrome", "-");
    rig_expect(&asked, 0, "");
    int sends = count(asked.out_text, "\"ph\":\"s\"");
    assert_int_equal(count(asked.out_text, "\"cat\":\"call\",\"name\":\"all_reduce f32 sum, 30000"),
                     3 * CALLS);
    assert_int_equal(sends % (3 * CALLS * 4), 0);
    assert_true(sends > 0);
    assert_int_equal(count(asked.out_text, "\"ph\":\"f\""), sends);
    assert_true(count(asked.out_text, "\"cat\":\"fold\"") >= 3 * CALLS * 2);
    assert_true(rig_has(asked.out_text, "\"name\":\"receive from 2\""));
    assert_true(rig_has(asked.out_text, "\"way\":\"ring\""));
    assert_false(rig_has(asked.out_text, "\"ended\":false"));
    rig_end(&asked);
}

static void shared_memory_shows_its_passes(void **state)
{
    (void)state;
    run_job("auto", "none");
    rig_expect(&job, 0, "");
    rig_end(&job);
    ask("--chrome", "-");
    rig_expect(&asked, 0, "");
    assert_true(rig_has(asked.out_text, "{\"name\":\"shared memory\"}"));
    assert_int_equal(count(asked.out_text, "\"cat\":\"call\",\"name\":\"all_reduce f32 sum, 30000"),
                     3 * CALLS);
    assert_true(count(asked.out_text, "\"cat\":\"fold\"") >= 3 * CALLS);
    assert_true(count(asked.out_text, "\"cat\":\"copy\"") >= 3 * CALLS);
    rig_end(&asked);
}

/* What the page shows is looked at in a browser: page.py. */
static void a_page_has_all_bars(void **state)
{
    (void)state;
    run_job("tcp", "none");
    rig_end(&job);
    ask("--html", "-");
    rig_expect(&asked, 0, "");
    assert_true(rig_has(asked.out_text, "<!doctype html>"));
    assert_true(rig_has(asked.out_text, "{\"n\":3,\"begin\":"));
    assert_true(rig_has(asked.out_text, "\"labels\":[\"all_reduce f32 sum, 30000 elements\"]}"));
    assert_int_equal(count(asked.out_text, "{\"name\":\"calls\",\"bars\":["), 3);
    assert_true(rig_has(asked.out_text, "</html>"));
    rig_end(&asked);
}

static void a_killed_rank_leaves_its_trace(void **state)
{
    (void)state;
    run_job("tcp", "1");
    assert_true(job.code != 0);
    rig_end(&job);
    ask("--chrome", "-");
    rig_expect(&asked, 0, "");
    assert_int_equal(count(asked.out_text, "\"ph\":\"X\",\"pid\":1,\"tid\":0"), CALLS / 2 - 1);
    assert_true(rig_has(asked.out_text, "\"ended\":false"));
    rig_end(&asked);
}

static void torn_files_are_told_and_the_rest_is_used(void **state)
{
    char path[1024];
    (void)state;
    run_job("tcp", "none");
    rig_end(&job);
    trace_of(1, path);
    assert_int_equal(truncate(path, 8192 + 40 * 64 + 5), 0);
    trace_of(2, path);
    assert_int_equal(truncate(path, 100), 0);
    ask(NULL, NULL);
    rig_expect(&asked, 0, "");
    assert_true(rig_has(asked.err_text, "1 file cannot be used"));
    assert_true(rig_has(asked.err_text, "ends in its head"));
    assert_true(rig_has(asked.err_text, "the file of rank 1 is torn, and read as far as it goes"));
    assert_true(rig_has(asked.out_text, "ranks: 2 of 3 have traces here"));
    rig_end(&asked);
}

static void a_small_trace_keeps_the_newest(void **state)
{
    (void)state;
    setenv("GYRE_TRACE_SIZE", "64K", 1);
    setenv("GYRE_SLICE", "1K", 1);
    run_job("tcp", "none");
    unsetenv("GYRE_SLICE");
    unsetenv("GYRE_TRACE_SIZE");
    rig_expect(&job, 0, "");
    rig_end(&job);
    ask(NULL, NULL);
    rig_expect(&asked, 0, "");
    assert_int_equal(count(asked.out_text, "older events written over"), 3);
    rig_end(&asked);
}

static void the_last_part_can_be_asked_for(void **state)
{
    (void)state;
    run_job("tcp", "none");
    rig_end(&job);
    ask("--last", "0ms");
    rig_expect(&asked, 0, "");
    assert_true(rig_has(asked.out_text, "     0         "));
    rig_end(&asked);
    ask("--last", "soon");
    rig_expect(&asked, 2, "--last");
    rig_end(&asked);
}

/* What is in the files is looked at in unit/cli/trace, and by PyTorch in trace_torch.sh. */
static void torch_and_chakra_get_a_file_for_each_rank(void **state)
{
    char path[1024];
    (void)state;
    run_job("auto", "none");
    rig_end(&job);
    snprintf(path, sizeof path, "%s/out", folder);
    ask("--torch", path);
    rig_expect(&asked, 0, "");
    rig_end(&asked);
    ask("--chakra", path);
    rig_expect(&asked, 0, "");
    rig_end(&asked);
    for (int rank = 0; rank < 3; rank++) {
        snprintf(path, sizeof path, "%s/out%d", folder, rank);
        assert_int_equal(access(path, R_OK), 0);
        snprintf(path, sizeof path, "%s/out.%d.et", folder, rank);
        assert_int_equal(access(path, R_OK), 0);
    }
    ask("--torch", "-");
    rig_expect(&asked, 2, "a file for each rank is written");
    rig_end(&asked);
}

static void what_is_wrong_is_said(void **state)
{
    (void)state;
    ask(NULL, NULL);
    rig_expect(&asked, 2, "has no trace that can be read");
    rig_end(&asked);
    rig_run(&asked, NULL, (const char *const[]){"trace", NULL});
    rig_expect(&asked, 2, "which traces?");
    rig_end(&asked);
    setenv("GYRE_TRACE", "/proc/no/folder", 1);
    run_job("tcp", "none");
    rig_expect(&job, 0, "");
    assert_true(rig_has(job.err_text, "GYRE_TRACE: cannot make folder '/proc/no'"));
    rig_end(&job);
    setenv("GYRE_TRACE", folder, 1);
    setenv("GYRE_TRACE_SIZE", "1K", 1);
    run_job("tcp", "none");
    unsetenv("GYRE_TRACE_SIZE");
    assert_true(job.code != 0);
    assert_true(rig_has(job.err_text, "GYRE_TRACE_SIZE is 1024 bytes: expected 64K to 4G"));
    rig_end(&job);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_ring_over_sockets_shows_every_message, make_folder),
        cmocka_unit_test_setup(shared_memory_shows_its_passes, make_folder),
        cmocka_unit_test_setup(a_page_has_all_bars, make_folder),
        cmocka_unit_test_setup(a_killed_rank_leaves_its_trace, make_folder),
        cmocka_unit_test_setup(torn_files_are_told_and_the_rest_is_used, make_folder),
        cmocka_unit_test_setup(a_small_trace_keeps_the_newest, make_folder),
        cmocka_unit_test_setup(the_last_part_can_be_asked_for, make_folder),
        cmocka_unit_test_setup(torch_and_chakra_get_a_file_for_each_rank, make_folder),
        cmocka_unit_test_setup(what_is_wrong_is_said, make_folder),
    };
    if (argc == 2)
        return be_rank(strcmp(argv[1], "none") ? atoi(argv[1]) : -1);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
