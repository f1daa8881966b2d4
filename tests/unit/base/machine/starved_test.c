/* Kills for want of memory and the limit behind them, of groups of both versions that the test
 * writes. */
#include "base/machine/starved.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <stdlib.h>

static void put(const char *name, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", file_room_name(name));
    assert_int_equal(system(command), 0);
    assert_non_null(file_room_make(name, text, strlen(text)));
}

static void expect_limit(const char *amount, const char *path)
{
    char text[512], expected[512];
    gyre_starved_by(file_room, text, sizeof text);
    snprintf(expected, sizeof expected, "%s MiB of %s%s", amount, file_room, path);
    assert_string_equal(text, expected);
}

static void test_machine_without_groups(void **state)
{
    char text[512];
    assert_int_equal(gyre_starved_count(file_room), 0);
    put("proc/vmstat", "pgfault 12\noom_kill 7\n");
    assert_int_equal(gyre_starved_count(file_room), 7);
    gyre_starved_by(file_room, text, sizeof text);
    assert_string_equal(text, "the machine's memory");
}

/* The kills are of the own group, the limit is the least of all above it. */
static void test_version_2(void **state)
{
    put("proc/self/cgroup", "0::/job/step\n");
    put("sys/fs/cgroup/job/step/memory.events", "oom 5\noom_kill 3\noom_group_kill 0\n");
    put("sys/fs/cgroup/job/memory.events", "oom 9\noom_kill 9\n");
    assert_int_equal(gyre_starved_count(file_room), 3);
    put("sys/fs/cgroup/job/step/memory.max", "max\n");
    put("sys/fs/cgroup/job/memory.max", "67108864\n");
    expect_limit("64.0", "/sys/fs/cgroup/job/memory.max");
    put("sys/fs/cgroup/job/step/memory.max", "33554432\n");
    expect_limit("32.0", "/sys/fs/cgroup/job/step/memory.max");
}

/* Where both are in use, memory is in version 1. A container may not see its group's own folder. */
static void test_version_1(void **state)
{
    put("proc/self/cgroup", "7:cpu:/x\n4:memory:/docker/4711\n0::/job/step\n");
    put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(gyre_starved_count(file_room), 2);
    put("sys/fs/cgroup/memory/docker/4711/memory.limit_in_bytes", "1048576\n");
    expect_limit("1.0", "/sys/fs/cgroup/memory/docker/4711/memory.limit_in_bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_without_groups),
        cmocka_unit_test(test_version_2),
        cmocka_unit_test(test_version_1),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
