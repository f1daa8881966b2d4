/* gyre tune as its users type it: it starts its ranks, measures, and leaves a file that the library
 * reads. No speed is asserted, only that every price is there and that what was not measured stays.
 */
#include "rig/busy_loops.h"
#include "rig/launch_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collectives/choose/tuning.h"
#include "rig/test.h"

static struct rig rig;
static char file[512];

static void put(const char *text)
{
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static void get(char *text, size_t size)
{
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    text[fread(text, 1, size - 1, in)] = '\0';
    fclose(in);
}

static void wrong_words_are_told(void **state)
{
    (void)state;
    rig_run(&rig, NULL, (const char *const[]){"tune", "-n", "1", NULL});
    rig_expect(&rig, 2, "--ranks is \"1\": expected a whole number from 2 to 64");
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"tune", "--uot", "x", NULL});
    rig_expect(&rig, 2, "did you mean '--out'?");
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"tune", "--out", file, NULL});
    rig_expect(&rig, 2, "one rank alone has no links");
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"tune", "-n", "2", "-o", "", NULL});
    rig_expect(&rig, 2, "--out is empty: expected a file");
    rig_end(&rig);
    rig_run(&rig, NULL, (const char *const[]){"tune", "-n", "2", "-o", "/nowhere/at/all", NULL});
    rig_expect(&rig, 1, "/nowhere/at/all: cannot create a file beside it: No such file");
    rig_end(&rig);
    setenv("GYRE_TRACE_SIZE", "none", 1);
    rig_run(&rig, NULL, (const char *const[]){"tune", "-n", "2", "-o", file, NULL});
    rig_expect(&rig, 1, "the ranks over shm failed; what they said is above");
    rig_end(&rig);
    unsetenv("GYRE_TRACE_SIZE");
}

/* Two ranks measure loopback alone: a fifth of the time of tune -n. */
static void tune_in_a_job(const char *path)
{
    rig_run(&rig, NULL,
            (const char *const[]){"run", "-n", "2", "--simulate-nodes", "2x1", "--no-prefix",
                                  rig_tool(), "tune", "--out", path, NULL});
}

static void a_file_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    tune_in_a_job("/nowhere/at/all");
    assert_int_equal(rig.code, 1);
    assert_true(rig_has(rig.err_text, "/nowhere/at/all: cannot create a file beside it: No such"));
    rig_end(&rig);
}

/* A folder may be open to others: the new file has a name that nobody can foretell. */
static void plant_link(char *victim, size_t size)
{
    char link[280];
    snprintf(link, sizeof link, "%s.part", file);
    snprintf(victim, size, "%s.victim", file);
    FILE *out = fopen(victim, "w");
    assert_non_null(out);
    fputs("my diary\n", out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(symlink(victim, link), 0);
}

static void expect_unharmed(const char *victim)
{
    char text[64] = "";
    FILE *in = fopen(victim, "r");
    assert_non_null(in);
    assert_non_null(fgets(text, sizeof text, in));
    fclose(in);
    assert_string_equal(text, "my diary\n");
}

/* Three ranks of one machine know three kinds of link. The fourth was measured elsewhere. A link
 * that somebody planted beside the file is not followed. */
static void all_kinds_of_a_machine_are_priced(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_tuning tuning;
    char text[8192], victim[280];
    uint32_t kinds;
    (void)state;
    plant_link(victim, sizeof victim);
    put("# network: 64 ranks of another time\n# a note\n"
        "gyre-tuning 1\nnetwork.kib_ps 123456\nshm.kib_ps 7\nspill_percent 999\nvalues 3\n");
    rig_run(&rig, NULL, (const char *const[]){"tune", "-n", "3", "--out", file, NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, ": loopback measured"));
    assert_true(rig_has(rig.out_text, ": shm mapped measured"));
    rig_end(&rig);
    if (gyre_tuning_read(file, &tuning, &kinds, &trouble))
        fail_msg("%s", trouble.text);
    assert_int_equal(kinds, (1u << GYRE_LINK_KINDS) - 1);
    assert_int_equal(tuning.link[GYRE_LINK_NETWORK].kib_ps, 123456);
    assert_int_not_equal(tuning.link[GYRE_LINK_SHM].kib_ps, 7);
    assert_int_not_equal(tuning.link[GYRE_LINK_LOOPBACK].kib_ps,
                         gyre_tuning_built_in.link[GYRE_LINK_LOOPBACK].kib_ps);
    assert_int_not_equal(tuning.line_kib_ps, gyre_tuning_built_in.line_kib_ps);
    assert_int_not_equal(tuning.spill_percent, 999);
    get(text, sizeof text);
    assert_true(rig_has(text, "\n# loopback: 3 ranks on 3 nodes, "));
    assert_true(rig_has(text, "\n# shm: 3 ranks on 1 node, "));
    assert_true(rig_has(text, "\n# network: 64 ranks of another time\n"));
    expect_unharmed(victim);
}

/* Ranks whose hosts have names of their own are between machines: what three at once cost one is
 * written, too. */
static void a_network_is_priced(void **state)
{
    static const char command[] = "exec unshare --uts sh -c 'hostname \"tune-$RANK\" && "
                                  "exec \"$0\" tune --out \"$1\"' \"$0\" \"$1\"";
    struct gyre_trouble trouble = {0};
    struct gyre_tuning tuning;
    uint32_t kinds;
    (void)state;
    if (system("unshare --uts true 2>/dev/null") != 0) {
        print_message("no host name of its own can be had here\n");
        skip();
    }
    put("gyre-tuning 1\nvalues 0\n");
    rig_run(&rig, NULL,
            (const char *const[]){"run", "-n", "3", "--simulate-nodes", "3x1", "sh", "-c", command,
                                  rig_tool(), file, NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, ": network measured"));
    rig_end(&rig);
    if (gyre_tuning_read(file, &tuning, &kinds, &trouble))
        fail_msg("%s", trouble.text);
    assert_int_equal(kinds, 1u << GYRE_LINK_NETWORK);
    assert_int_not_equal(tuning.incast_kib_ps, 0);
}

/* A job takes the file, and so does what shows its choices. */
static void the_file_is_used(void **state)
{
    (void)state;
    setenv("GYRE_TUNE_FILE", file, 1);
    put("gyre-tuning 1\nloopback.latency_ns 900000000\nvalues 1\n");
    rig_run(&rig, NULL, (const char *const[]){"show", "choices", "-n4", "-t", "tcp", "-e8", NULL});
    assert_int_equal(rig.code, 0);
    assert_true(rig_has(rig.out_text, " 9000"));
    rig_end(&rig);
    put("gyre-tuning 1\nloopback.latency_ns 900000000\n");
    rig_run(&rig, NULL, (const char *const[]){"show", "choices", NULL});
    rig_expect(&rig, 2, "line 2: it ends without \"values\"");
    rig_end(&rig);
    unsetenv("GYRE_TUNE_FILE");
}

/* What is there and no tuning is not overwritten. */
static void another_file_is_left_alone(void **state)
{
    char text[64];
    (void)state;
    put("my diary\n");
    rig_run(&rig, NULL, (const char *const[]){"tune", "-n", "2", "--out", file, NULL});
    rig_expect(&rig, 2, "\"my\" where \"gyre-tuning 1\" is expected");
    rig_end(&rig);
    get(text, sizeof text);
    assert_string_equal(text, "my diary\n");
}

/* Prices of a loaded machine are told to be that, on the terminal and in the file. */
static void a_loaded_machine_is_told(void **state)
{
    char text[8192];
    (void)state;
    put("gyre-tuning 1\nvalues 0\n");
    busy_loops_start();
    tune_in_a_job(file);
    busy_loops_end();
    assert_int_equal(rig.code, 0);
    if (!rig_has(rig.err_text, "gyre tune: warning: while it measured, on ") ||
        !rig_has(rig.err_text, " other processes took "))
        fail_msg("%s", rig.err_text);
    assert_true(rig_has(rig.out_text, ": loopback measured under load; written to "));
    assert_false(rig_has(rig.out_text, "off by"));
    rig_end(&rig);
    get(text, sizeof text);
    assert_true(rig_has(text, ", under load: on "));
    assert_false(rig_has(text, "off by"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_words_are_told),
        cmocka_unit_test(a_file_that_cannot_be_written_is_told),
        cmocka_unit_test(all_kinds_of_a_machine_are_priced),
        cmocka_unit_test(a_network_is_priced),
        cmocka_unit_test(the_file_is_used),
        cmocka_unit_test(another_file_is_left_alone),
        cmocka_unit_test(a_loaded_machine_is_told),
    };
    snprintf(file, sizeof file, "%s/prices", rig_folder());
    return cmocka_run_group_tests_name("gyre tune", tests, NULL, NULL);
}
