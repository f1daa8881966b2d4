/* As much of cmocka as the kernels' tests use, for where there is no cmocka: a cross compiler. A
 * check that fails ends its test. */
#ifndef GYRE_TESTS_ARM_CMOCKA_H
#define GYRE_TESTS_ARM_CMOCKA_H

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*run)(void **state);
};

#define cmocka_unit_test(test)                                                                     \
    {                                                                                              \
#test, test                                                                                \
    }
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cmocka_run(tests, sizeof(tests) / sizeof((tests)[0]))

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
    test->run(&state);
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
