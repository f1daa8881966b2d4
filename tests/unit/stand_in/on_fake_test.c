/* The whole library over the stand-in for CUDA: its device and its kernels are the ones that run
 * here, not those that the library was built with. */
#include "collectives/kernels/reduce.h"
#include "rig/device_suite.h"
#include "stand_in/fakecuda/fakecuda.h"
#include "rig/test.h"

#include <gyre/gyre.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 1000 };

static void test_the_library_sees_the_stand_in(void **state)
{
    struct gyre_device_identity identity;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    assert_non_null(cuda);
    assert_int_equal(cuda->probe(NULL), 3);
    assert_int_equal(cuda->identify(2, &identity, NULL), 0);
    assert_string_equal(identity.name, "CUDA stand-in");
    assert_non_null(gyre_reduce_table(GYRE_MEMORY_CUDA));
}

static void test_its_folds_are_kernels(void **state)
{
    float one[COUNT], two[COUNT];
    struct gyre_region region;
    struct gyre_device_queue *queue;
    const struct gyre_device *cuda = gyre_device_of(GYRE_MEMORY_CUDA);
    gyre_fold sum = gyre_reduce_table(GYRE_MEMORY_CUDA)->fold[GYRE_F32][GYRE_SUM];
    for (int i = 0; i < COUNT; i++)
        one[i] = (float)i, two[i] = (float)(3 * i);
    assert_int_equal(cuda->alloc(1, 2 * sizeof one, GYRE_SHARE_OPEN, &region, NULL), 0);
    assert_int_equal(cuda->classify(region.base), GYRE_MEMORY_CUDA);
    assert_int_equal(cuda->queue_create(1, &queue, NULL), 0);
    void *to = region.base;
    const void *from[] = {region.base, (char *)region.base + sizeof one};
    struct gyre_fold_task task = {&to, from, 1, 2, COUNT, 0, false};
    device_suite_finish(cuda, queue, cuda->copy(queue, region.base, one, sizeof one, 1), 1);
    device_suite_finish(cuda, queue, cuda->copy(queue, (void *)from[1], two, sizeof two, 2), 2);
    device_suite_finish(cuda, queue, cuda->reduce(queue, sum, &task, 3), 3);
    device_suite_finish(cuda, queue, cuda->copy(queue, one, region.base, sizeof one, 4), 4);
    for (int i = 0; i < COUNT; i++)
        assert_true(one[i] == (float)(4 * i));
    cuda->queue_destroy(queue);
    cuda->free(&region);
    assert_int_equal(fakecuda_calls("kernel"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_library_sees_the_stand_in),
        cmocka_unit_test(test_its_folds_are_kernels),
    };
    setenv("FAKECUDA_DEVICES", "3", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
