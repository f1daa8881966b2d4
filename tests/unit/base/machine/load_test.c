/* What disturbs a measurement, from counters that the test writes: a folder with a `proc` and a
 * `sys` stands in for the machine. */
#include "base/machine/load.h"
#include "base/clock.h"
#include "base/log.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void put(const char *name, const char *text)
{
    assert_non_null(file_room_make(name, text, strlen(text)));
}

static void folder(const char *name)
{
    mkdir(file_room_name(name), 0700);
}

static int make_machine(void **state)
{
    if (file_room_open(state))
        return -1;
    folder("proc");
    folder("proc/812");
    folder("proc/813");
    folder("sys");
    folder("sys/devices");
    folder("sys/devices/system");
    folder("sys/devices/system/cpu");
    folder("sys/devices/system/cpu/cpu0");
    folder("sys/devices/system/cpu/cpu0/thermal_throttle");
    return 0;
}

/* Four cores; ticks of all of them: of users, of nobody, of the hypervisor. */
static void machine(int user, int idle, int stolen)
{
    char text[256];
    snprintf(text, sizeof text,
             "cpu  %d 0 0 %d 0 0 0 %d 0 0\ncpu0 1 2\ncpu1 1 2\ncpu2 1 2\ncpu3 1 2\nintr 7\n", user,
             idle, stolen);
    put("proc/stat", text);
    put("proc/loadavg", "3.25 1 1 2/300 900\n");
}

static void process(int pid, const char *name, int ticks)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "proc/%d/stat", pid);
    snprintf(text, sizeof text, "%d (%s) R 1 1 1 0 -1 0 0 0 0 0 %d 1 0 0 20 0 1 0\n", pid, name,
             ticks);
    put(path, text);
}

static void hot(const char *count)
{
    put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", count);
}

static struct gyre_load_look from, to;

static void begin(void)
{
    machine(1000, 9000, 0);
    process(812, "cc1plus", 500);
    process(813, "a (b) \033c", 40000);
    hot("3\n");
    gyre_load_look(file_room, &from);
}

/* A second later, in which this process took a whole core. */
static struct gyre_load end(void)
{
    struct gyre_load load;
    gyre_load_look(file_room, &to);
    to.at_ns = from.at_ns + GYRE_SECOND;
    to.own_ns = from.own_ns + GYRE_SECOND;
    gyre_load_between(file_room, &from, &to, &load);
    return load;
}

static void expect_told(const struct gyre_load *load, int n, const char *expected)
{
    char text[512], full[512];
    bool told = gyre_load_tell(load, n, text, sizeof text);
    snprintf(full, sizeof full, expected, gyre_host_name());
    assert_string_equal(text, full);
    assert_int_equal(told, *full != 0);
}

static void test_own_work_is_no_load(void **state)
{
    begin();
    machine(1100, 9300, 0);
    struct gyre_load load = end();
    assert_true(load.cores == 4 && load.busy == 1 && load.own == 1);
    expect_told(&load, 1, "");
}

/* Until this process has used the processor for 40 ms. */
static void work(void)
{
    struct timespec used;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while (used.tv_sec == 0 && used.tv_nsec < 40 * (long)GYRE_MS);
}

static void test_work_of_children_is_own_work(void **state)
{
    (void)state;
    gyre_load_look(file_room, &from);
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    gyre_load_look(file_room, &to);
    assert_true(to.own_ns - from.own_ns >= 39 * GYRE_MS);
}

static void test_others_are_named(void **state)
{
    begin();
    machine(1290, 9110, 0);
    process(812, "cc1plus", 690);
    process(813, "a (b) \033c", 40010);
    struct gyre_load load = end();
    expect_told(&load, 1,
                "on %s other processes took 1.9 of 4 cores (above all cc1plus, pid 812), load "
                "average 3.2");
}

static void test_names_are_harmless(void **state)
{
    begin();
    machine(1300, 9100, 0);
    process(813, "a (b) \033c", 40200);
    struct gyre_load load = end();
    assert_string_equal(load.busiest, "a (b) ?c, pid 813");
}

/* Other ranks have this process's name; whoever else took most is told. */
static void test_namesakes_are_not_named(void **state)
{
    char own[32];
    snprintf(own, sizeof own, "proc/%d", getpid());
    folder(own);
    process(getpid(), "gyre", 1);
    begin();
    machine(1300, 9100, 0);
    process(812, "cc1plus", 551);
    process(813, "gyre", 40149);
    struct gyre_load load = end();
    assert_string_equal(load.busiest, "cc1plus, pid 812");
    process(812, "cc1plus", 550); /* a quarter is not much */
    load = end();
    assert_string_equal(load.busiest, "");
}

/* A twentieth of the machine, or a quarter of a core where that is more, is quiet. */
static void test_little_is_quiet(void **state)
{
    begin();
    machine(1125, 9275, 0);
    struct gyre_load load = end();
    expect_told(&load, 1, "");
    machine(1126, 9274, 0);
    load = end();
    expect_told(&load, 1, "on %s other processes took 0.3 of 4 cores, load average 3.2");
    load.cores = 64;
    expect_told(&load, 1, "");
}

static void test_stolen_time_is_told(void **state)
{
    begin();
    machine(1100, 9240, 60);
    struct gyre_load load = end();
    expect_told(&load, 1, "the hypervisor kept 0.6 of 4 cores from %s, load average 3.2");
}

static void test_heat_is_told(void **state)
{
    begin();
    machine(1100, 9300, 0);
    hot("5\n");
    struct gyre_load load = end();
    expect_told(&load, 1,
                "cores of %s were slowed 2 times because they were hot, load average 3.2");
}

/* Ranks of a host are together what is not foreign there; the host disturbed most is told. */
static void test_ranks_are_taken_together(void **state)
{
    struct gyre_load load[4] = {{.host = "a", .cores = 4, .busy = 2, .own = 1},
                                {.host = "a", .cores = 4, .busy = 1.9, .own = 1},
                                {.host = "b", .cores = 4, .busy = 1.5, .own = 1},
                                {.host = "c"}};
    assert_true(gyre_load_of_others(load, 4, 0) == 0);
    assert_true(gyre_load_of_others(load, 4, 2) == 0.5);
    expect_told(load, 4, "on b other processes took 0.5 of 4 cores, load average 0.0");
    expect_told(load, 2, "");
    expect_told(load, 0, "");
}

static void test_a_silent_kernel_tells_nothing(void **state)
{
    begin();
    put("proc/stat", "");
    struct gyre_load load = end();
    assert_true(load.cores == 0);
    expect_told(&load, 1, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_work_is_no_load),
        cmocka_unit_test(test_work_of_children_is_own_work),
        cmocka_unit_test(test_others_are_named),
        cmocka_unit_test(test_names_are_harmless),
        cmocka_unit_test(test_namesakes_are_not_named),
        cmocka_unit_test(test_little_is_quiet),
        cmocka_unit_test(test_stolen_time_is_told),
        cmocka_unit_test(test_heat_is_told),
        cmocka_unit_test(test_ranks_are_taken_together),
        cmocka_unit_test(test_a_silent_kernel_tells_nothing),
    };
    return cmocka_run_group_tests_name("load", tests, make_machine, file_room_close);
}
