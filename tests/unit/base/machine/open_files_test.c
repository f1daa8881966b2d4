/* The limit of descriptors, which is raised as far as it goes, and only where that is needed. */
#include "rig/test.h"

#include "base/machine/open_files.h"

enum { SOFT = 64, HARD = 128 };

static rlim_t soft_limit(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_max, HARD);
    return limit.rlim_cur;
}

static void the_limit_is_raised_as_far_as_it_goes(void **state)
{
    const struct rlimit limit = {SOFT, HARD};
    struct rlimit before;
    (void)state;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(gyre_open_files_allow(SOFT, &before));
    assert_int_equal(soft_limit(), SOFT);
    assert_true(gyre_open_files_allow(SOFT + 20, &before));
    assert_int_equal(before.rlim_cur, SOFT);
    assert_int_equal(soft_limit(), SOFT + 20);
    assert_false(gyre_open_files_allow(HARD + 1, &before));
    assert_int_equal(before.rlim_cur, SOFT + 20);
    assert_int_equal(soft_limit(), HARD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_limit_is_raised_as_far_as_it_goes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
