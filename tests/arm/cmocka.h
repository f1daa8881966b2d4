/* As much of cmocka as the tests of kernels and devices use, for where there is no cmocka: a cross
 * compiler, or programs packed for another machine. A check that fails ends its test. */
#ifndef GYRE_TESTS_ARM_CMOCKA_H
#define GYRE_TESTS_ARM_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
    int (*set_up)(void **state), (*tear_down)(void **state); /* NULL: nothing */
};

#define cmocka_unit_test_setup_teardown(test, set_up, tear_down)                                   \
    {                                                                                              \
#test, test, set_up, tear_down                                                             \
    }
#define cmocka_unit_test(test) cmocka_unit_test_setup_teardown(test, NULL, NULL)
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run(tests, sizeof(tests) / sizeof((tests)[0]))
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    cmocka_run_group_tests(tests, setup, teardown)

jmp_buf *cmocka_failed(void); /* where a failed check goes; one for all files */

#define print_message(...) printf(__VA_ARGS__)
#define skip()             return /* the reason has been printed */
#define fail_msg(...)                                                                              \
    (printf("%s:%d: ", __FILE__, __LINE__), printf(__VA_ARGS__), printf("\n"),                     \
     longjmp(*cmocka_failed(), 1))
#define assert_true(what)         ((what) ? (void)0 : fail_msg("not so: %s", #what))
#define assert_false(what)        assert_true(!(what))
#define assert_null(what)         assert_true(!(what))
#define assert_non_null(what)     assert_true(what)
#define assert_int_equal(a, b)    assert_true((unsigned long long)(a) == (unsigned long long)(b))
#define assert_ptr_equal(a, b)    assert_true((const void *)(a) == (const void *)(b))
#define assert_string_equal(a, b) assert_true(strcmp(a, b) == 0)

#define assert_memory_equal(a, b, bytes)    assert_true(memcmp(a, b, bytes) == 0)
#define assert_in_range(value, least, most) assert_true((value) >= (least) && (value) <= (most))

/* Weak: every file has a copy, the linker keeps one. */
__attribute__((weak)) jmp_buf *cmocka_failed(void)
{
    static jmp_buf place;
    return &place;
}

static inline int cmocka_run_one(const struct CMUnitTest *test)
{
    void *state = NULL;
    if (setjmp(*cmocka_failed())) {
        printf("[  FAILED  ] %s\n", test->name);
        return 1;
    }
    if (test->set_up && test->set_up(&state))
        fail_msg("%s: what comes before it failed", test->name);
    test->run(&state);
    if (test->tear_down && test->tear_down(&state))
        fail_msg("%s: what comes behind it failed", test->name);
    printf("[       OK ] %s\n", test->name);
    return 0;
}

static inline int cmocka_run(const struct CMUnitTest *tests, size_t count)
{
    int failures = 0;
    for (size_t i = 0; i < count; i++)
        failures += cmocka_run_one(&tests[i]);
    return failures;
}

#endif
