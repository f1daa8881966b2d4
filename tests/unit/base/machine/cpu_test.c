/* Cores and cache of this machine: bounds, because every machine has its own numbers; quotas of
 * groups that the test writes; a limit of locked memory that the test sets. */
#include "base/machine/cpu.h"
#include "base/machine/locked.h"
#include "rig/file_room.h"
#include "rig/test.h"

#include <limits.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_many_ranks_oversubscribe(void **state)
{
    assert_false(gyre_cpu_oversubscribed(1));
    assert_true(gyre_cpu_oversubscribed((int)sysconf(_SC_NPROCESSORS_CONF) + 1));
}

/* The number that the next descriptor gets: it grows where one is left open. */
static int next_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    close(fd);
    return fd;
}

static void test_cache_is_told_once(void **state)
{
    int next = next_descriptor();
    uint64_t bytes = gyre_cpu_cache_bytes();
    assert_true(bytes >= 1024);
    assert_int_equal(gyre_cpu_cache_bytes(), bytes);
    assert_int_equal(next_descriptor(), next);
}

static void put(const char *name, const char *text)
{
    char command[512];
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", file_room_name(name));
    assert_int_equal(system(command), 0);
    assert_non_null(file_room_make(name, text, strlen(text)));
}

/* The least of the process's own group and of all above it holds. */
static void test_quota_of_groups(void **state)
{
    int next = next_descriptor();
    assert_int_equal(gyre_cpu_quota(file_room), INT_MAX);
    put("proc/self/cgroup", "1:cpu:/x\n0::/job/step\n");
    put("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    assert_int_equal(gyre_cpu_quota(file_room), INT_MAX);
    put("sys/fs/cgroup/job/cpu.max", "250000 100000\n");
    assert_int_equal(gyre_cpu_quota(file_room), 3);
    put("sys/fs/cgroup/cpu.max", "200000 100000\n");
    assert_int_equal(gyre_cpu_quota(file_room), 2);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(gyre_cpu_quota(file_room), 2);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
    assert_int_equal(gyre_cpu_quota(file_room), 1);
    assert_int_equal(next_descriptor(), next);
}

static int give_up_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return (int)syscall(SYS_capset, &header, none);
}

/* The limit counts for a process without capabilities. */
static int look_at_locked_memory(void)
{
    const struct rlimit limit = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_MEMLOCK, &limit))
        return 1;
    if (give_up_capabilities())
        return 2;
    return gyre_lockable_bytes() == 1 << 20 ? 0 : 3;
}

static void test_locked_memory(void **state)
{
    int ended;
    pid_t child = fork();
    if (child == 0)
        _exit(look_at_locked_memory());
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(WEXITSTATUS(ended), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_ranks_oversubscribe),
        cmocka_unit_test(test_cache_is_told_once),
        cmocka_unit_test(test_quota_of_groups),
        cmocka_unit_test(test_locked_memory),
    };
    return cmocka_run_group_tests(tests, file_room_open, file_room_close);
}
