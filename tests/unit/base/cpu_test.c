/* Cores and cache of this machine: bounds, because every machine has its own numbers. */
#include "base/cpu.h"
#include "rig/test.h"

#include <unistd.h>

static void test_cores_are_there(void **state)
{
    int cores = gyre_cpu_count();
    assert_true(cores >= 1 && cores <= sysconf(_SC_NPROCESSORS_CONF));
}

static void test_many_ranks_oversubscribe(void **state)
{
    assert_false(gyre_cpu_oversubscribed(1));
    assert_true(gyre_cpu_oversubscribed((int)sysconf(_SC_NPROCESSORS_CONF) + 1));
}

static void test_cache_is_told_once(void **state)
{
    uint64_t bytes = gyre_cpu_cache_bytes();
    assert_true(bytes >= 1024);
    assert_int_equal(gyre_cpu_cache_bytes(), bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cores_are_there),
        cmocka_unit_test(test_many_ranks_oversubscribe),
        cmocka_unit_test(test_cache_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
