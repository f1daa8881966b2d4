/* The name of an indexed Job's first pod, and what is said where it cannot be found. */
#include "transport/job/inside.h"
#include "rig/test.h"

#include <string.h>

static void the_first_pod_is_found(void **state)
{
    static const struct {
        const char *pod;
        int index;
        const char *first;
    } row[] = {
        {"train-3.train.default.svc.cluster.local", 3, "train-0.train.default.svc.cluster.local"},
        {"train-rank-0-12.train.ns.svc", 12, "train-rank-0-0.train.ns.svc"},
        {"train-0.train", 0, "train-0.train"},
        {"train-1-1.s-1", 1, "train-1-0.s-1"},
    };
    char first[256];
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct gyre_trouble trouble = {0};
        assert_int_equal(
            gyre_kubernetes_first_pod(row[i].pod, row[i].index, first, sizeof first, &trouble), 0);
        assert_string_equal(first, row[i].first);
    }
}

static void what_is_missing_is_said(void **state)
{
    static const struct {
        const char *pod;
        int index;
        const char *told;
    } row[] = {
        {"train-3", 3, "give the Job a headless service"},
        {"", 3, "give the Job a headless service"},
        {"train-3.train", 4, "does not end with its JOB_COMPLETION_INDEX, 4"},
        {"train-13.train", 3, "does not end with its JOB_COMPLETION_INDEX, 3"},
        {"-3.train", 3, "does not end with its JOB_COMPLETION_INDEX, 3"},
        {"node7.example.org", 0, "set MASTER_ADDR and MASTER_PORT"},
        {"a-long-name-0.train", 0, "too long"},
    };
    char first[16];
    (void)state;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct gyre_trouble trouble = {0};
        assert_int_equal(
            gyre_kubernetes_first_pod(row[i].pod, row[i].index, first, sizeof first, &trouble),
            GYRE_INVALID);
        assert_non_null(strstr(trouble.text, row[i].told));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_pod_is_found),
        cmocka_unit_test(what_is_missing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
