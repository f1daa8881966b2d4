/* The CUDA device over the stand-in: which devices there are, what finding them may cost and how it
 * fails, and the contract of every device. */
#include "unit/device/cuda/cuda_rig.h"
#include "rig/device_suite.h"
#include "rig/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct gyre_device *cuda;

/* -- finding devices --------------------------------------------------------------------------- */

/* In a process of its own: no device, the words of $EXPECT, and host memory is classified. */
static int role_absent(void)
{
    struct gyre_region region;
    struct gyre_device_queue *queue;
    struct gyre_device_identity identity;
    struct gyre_trouble trouble = {0}, again = {0};
    int found = cuda->probe(&trouble);
    printf("%d devices: %s\n", found, trouble.text);
    if (found || !strstr(trouble.text, getenv("EXPECT")))
        return 1;
    if (cuda->current() != -1 || cuda->reaches(0, 0) || cuda->identify(0, &identity, NULL) >= 0)
        return 5;
    if (cuda->classify(&region) != GYRE_MEMORY_HOST || fakecuda_alive().contexts)
        return 2;
    if (cuda->alloc(0, 4096, GYRE_SHARE_OPEN, &region, &again) >= 0 || region.base ||
        strcmp(trouble.text, again.text))
        return 3;
    return cuda->queue_create(0, &queue, NULL) < 0 && !queue ? 0 : 4;
}

static void expect_absent(const char *variable, const char *value, const char *words)
{
    const char *old = getenv(variable);
    char *kept = old ? strdup(old) : NULL;
    setenv(variable, value, 1);
    setenv("EXPECT", words, 1);
    assert_int_equal(cuda_rig_end_of(cuda_rig_start("absent", NULL, 0)), 0);
    kept ? setenv(variable, kept, 1) : unsetenv(variable);
    free(kept);
}

static void test_machines_without_cuda_are_told_apart(void **state)
{
    expect_absent("FAKECUDA_DEVICES", "none", "this machine has no CUDA driver");
    expect_absent("FAKECUDA_DEVICES", "0", "sees no device; see nvidia-smi");
    expect_absent("FAKECUDA_FAIL", "cudaGetDriverEntryPointByVersion:3:CUDA_ERROR_NOT_FOUND",
                  "the CUDA driver's cuDeviceGetCount was not found (error 500)");
    expect_absent("FAKECUDA_FAIL", "cuInit:1:CUDA_ERROR_UNKNOWN",
                  "starting the CUDA driver: CUDA_ERROR_UNKNOWN (999)");
    expect_absent("FAKECUDA_FAIL", "cuDeviceGetCount:1:CUDA_ERROR_UNKNOWN", "CUDA_ERROR_UNKNOWN");
}

/* First of all: later tests make contexts. */
static void test_no_stray_contexts(void **state)
{
    struct gyre_trouble trouble = {0};
    struct gyre_device_identity identity;
    CUcontext current;
    assert_int_equal(cuda->probe(&trouble), 2);
    assert_int_equal(trouble.status, 0);
    assert_int_equal(cuda->classify(&trouble), GYRE_MEMORY_HOST);
    assert_int_equal(cuda->identify(1, &identity, NULL), 0);
    assert_true(cuda->reaches(0, 1));
    assert_int_equal(cuda->current(), -1);
    assert_int_equal(fakecuda_alive().contexts, 0);
    struct gyre_region region = cuda_rig_region(1);
    cuda->queue_destroy(cuda_rig_queue(1));
    assert_int_equal(fakecuda_alive().contexts, 1);
    assert_int_equal(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    assert_null(current);
    cuda->free(&region);
}

static void test_the_current_device_is_the_thread_s_own(void **state)
{
    assert_true(gyre_device_cuda_present());
    assert_int_equal(cuda->current(), -1);
    CUstream zero = cuda_rig_stream(0), one = cuda_rig_stream(1);
    assert_int_equal(cuda->current(), 1);
    cuda_rig_end_stream(one);
    assert_int_equal(cuda->current(), 0);
    cuda_rig_end_stream(zero);
    assert_int_equal(cuda->current(), -1);
}

static void test_devices_that_do_not_exist(void **state)
{
    struct gyre_region region;
    struct gyre_device_queue *queue;
    struct gyre_trouble trouble = {0}, other = {0};
    assert_int_equal(cuda->alloc(2, 4096, GYRE_SHARE_OPEN, &region, &trouble), GYRE_INVALID);
    cuda_rig_expect_words(&trouble,
                          "CUDA device 2 does not exist: 2 are visible (CUDA_VISIBLE_DEVICES is");
    assert_int_equal(cuda->queue_create(-1, &queue, &other), GYRE_INVALID);
    cuda_rig_expect_words(&other, "CUDA device -1 does not exist");
    assert_null(queue);
}

static void test_devices_are_told_apart(void **state)
{
    struct gyre_device_identity one, two;
    struct gyre_trouble trouble = {0}, failed = {0};
    assert_int_equal(cuda->identify(0, &one, NULL), 0);
    assert_int_equal(cuda->identify(1, &two, NULL), 0);
    assert_memory_not_equal(one.uuid, two.uuid, sizeof one.uuid);
    assert_string_equal(one.name, "CUDA stand-in");
    assert_int_equal(two.memory_bytes, 1 << 30);
    assert_int_equal(cuda->identify(2, &one, &trouble), GYRE_INVALID);
    cuda_rig_expect_words(&trouble, "CUDA device 2 does not exist");
    fakecuda_fail("cuDeviceGetUuid", 1, CUDA_ERROR_UNKNOWN);
    assert_int_equal(cuda->identify(1, &one, &failed), -EIO);
    cuda_rig_expect_words(&failed,
                          "asking for UUID, name, memory and multiprocessors on CUDA device 1: "
                          "CUDA_ERROR_UNKNOWN");
    assert_int_equal(one.memory_bytes, 0);
}

static void test_devices_reach_each_other_or_not(void **state)
{
    assert_true(cuda->reaches(0, 1) && cuda->reaches(1, 1));
    assert_true(cuda->exports(1));
    assert_false(cuda->exports(2) || cuda->exports(-1));
    assert_false(cuda->reaches(0, 2) || cuda->reaches(-1, 0) || cuda->reaches(2, 2));
    fakecuda_peers(false);
    assert_false(cuda->reaches(1, 0));
    assert_true(cuda->reaches(0, 0));
    fakecuda_peers(true);
    fakecuda_fail("cuDeviceCanAccessPeer", 1, CUDA_ERROR_UNKNOWN);
    assert_false(cuda->reaches(0, 1));
}

static void test_a_forked_child_is_refused(void **state)
{
    cuda->queue_destroy(cuda_rig_queue(0));
    pid_t child = fork();
    if (child == 0) {
        struct gyre_region region;
        struct gyre_trouble trouble = {0};
        int status = cuda->alloc(0, 4096, GYRE_SHARE_OPEN, &region, &trouble);
        _exit(status < 0 && strstr(trouble.text, "after fork()") ? 0 : 1);
    }
    assert_int_equal(cuda_rig_end_of(child), 0);
}

/* What a device is asked when it is used for the first time. */
static int role_fresh(void)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    if (cuda->alloc(0, CUDA_RIG_LENGTH, GYRE_SHARE_OPEN, &region, &trouble) >= 0)
        return 1;
    printf("%s\n", trouble.text);
    return strstr(trouble.text, getenv("EXPECT")) ? 0 : 2;
}

static void test_a_first_use_may_fail(void **state)
{
    static const char *const calls[] = {"cuDeviceGet", "cuMemGetAllocationGranularity",
                                        "cuDevicePrimaryCtxRetain"};
    for (int i = 0; i < 3; i++) {
        char plan[96];
        snprintf(plan, sizeof plan, "%s:1:CUDA_ERROR_NOT_PERMITTED", calls[i]);
        setenv("FAKECUDA_FAIL", plan, 1);
        setenv("EXPECT", calls[i], 1);
        assert_int_equal(cuda_rig_end_of(cuda_rig_start("fresh", NULL, 0)), 0);
    }
    unsetenv("FAKECUDA_FAIL");
}

int main(int count, char **words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_stray_contexts),
        cmocka_unit_test(test_machines_without_cuda_are_told_apart),
        cmocka_unit_test(test_devices_that_do_not_exist),
        cmocka_unit_test(test_devices_are_told_apart),
        cmocka_unit_test(test_devices_reach_each_other_or_not),
        cmocka_unit_test(test_the_current_device_is_the_thread_s_own),
        cmocka_unit_test(test_a_forked_child_is_refused),
        cmocka_unit_test(test_a_first_use_may_fail),
    };
    cuda = cuda_rig_begin();
    if (count > 1)
        return !strcmp(words[1], "absent") ? role_absent() : role_fresh();
    setenv("FAKECUDA_DEVICES", "2", 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + device_suite_run("the contract, by CUDA", cuda, cuda_rig_doubling);
}
