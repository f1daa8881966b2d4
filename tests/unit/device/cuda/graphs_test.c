/* Launches of a queue that are recorded and repeated together (src/device/cuda/graphs.c): once more
 * with each repeat, in the order of the queue; and what cannot be recorded harms nothing. */
#include "unit/device/cuda/cuda_rig.h"
#include "rig/device_suite.h"
#include "rig/test.h"

#include <stdlib.h>
#include <string.h>

static const struct gyre_device *cuda;
static struct gyre_region region;
static struct gyre_device_queue *queue;
static struct gyre_trouble trouble;

static int enter(void **state)
{
    region = cuda_rig_region(0);
    queue = cuda_rig_queue(0);
    trouble = (struct gyre_trouble){0};
    return 0;
}

static int leave(void **state)
{
    fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    cuda->queue_destroy(queue);
    cuda->free(&region);
    return 0;
}

static void set(int value)
{
    cuda_rig_copy(0, region.base, &value, sizeof value);
}

/* What is there once all work of the queue has ended. */
static int value(void)
{
    int found = 0;
    device_suite_finish(cuda, queue, cuda->mark(queue, 1), 1);
    cuda_rig_copy(0, &found, region.base, sizeof found);
    return found;
}

/* One int of the region, twice as large. */
static void double_it(void *native_queue, const void *context)
{
    void *at = region.base;
    const struct gyre_fold_task task = {.destination = &at,
                                        .source = (const void *const *)&at,
                                        .destinations = 1,
                                        .sources = 1,
                                        .count = 1};
    cuda_rig_doubling(&task, native_queue);
}

static int launch_twice(void)
{
    int status = cuda->launch(queue, double_it, NULL);
    return status ? status : cuda->launch(queue, double_it, NULL);
}

static struct gyre_device_graph *record(void)
{
    struct gyre_device_graph *graph = NULL;
    assert_int_equal(cuda->record(queue, &trouble), 0);
    assert_int_equal(launch_twice(), 0);
    if (cuda->keep(queue, &graph, &trouble) || cuda->prepare_graph(queue, graph, &trouble))
        fail_msg("%s", trouble.text);
    return graph;
}

/* Launches that are recorded run as ever; a repeat runs all of them, by one call. */
static void test_a_graph_is_its_launches(void **state)
{
    set(1);
    struct gyre_device_graph *graph = record();
    assert_int_equal(value(), 4);
    int launches = fakecuda_calls("cudaLaunchKernel");
    for (int i = 0; i < 3; i++)
        assert_int_equal(cuda->repeat(queue, graph, &trouble), 0);
    assert_int_equal(fakecuda_calls("cudaLaunchKernel"), launches);
    cuda->graph_free(graph);
    assert_int_equal(value(), 4 * 64);
}

/* Behind what was posted before, with whatever is in memory by then. */
static void test_a_repeat_has_its_place_in_the_queue(void **state)
{
    const int five = 5;
    set(1);
    struct gyre_device_graph *graph = record();
    fakecuda_hold(true);
    assert_int_equal(cuda->copy(queue, region.base, &five, sizeof five, 7), 0);
    assert_int_equal(cuda->repeat(queue, graph, &trouble), 0);
    assert_int_equal(cuda->launch(queue, double_it, NULL), 0);
    fakecuda_hold(false);
    device_suite_finish(cuda, queue, 0, 7);
    assert_int_equal(value(), 40);
    cuda->graph_free(graph);
}

static void test_what_is_forgotten_has_run(void **state)
{
    set(1);
    assert_int_equal(cuda->record(queue, &trouble), 0);
    assert_int_equal(launch_twice(), 0);
    assert_int_equal(cuda->keep(queue, NULL, &trouble), 0);
    assert_int_equal(launch_twice(), 0);
    assert_int_equal(value(), 16);
}

/* Each call fails once: there is no graph, the sentence says why, and the launches have run. */
static void test_every_call_of_recording_may_fail(void **state)
{
    static const char *const calls[] = {
        "cuStreamCreateWithPriority", "cuStreamBeginCapture",        "cudaLaunchKernel",
        "cuStreamEndCapture",         "cuGraphInstantiateWithFlags", "cuGraphUpload"};
    for (int i = 0; i < 6; i++) {
        struct gyre_device_graph *graph = NULL;
        const bool launch = strcmp(calls[i], "cudaLaunchKernel") == 0;
        set(1);
        trouble = (struct gyre_trouble){0};
        fakecuda_fail(calls[i], launch ? 4 : 1, CUDA_ERROR_LAUNCH_FAILED);
        int status = cuda->record(queue, &trouble);
        assert_int_equal(launch_twice(), 0);
        if (!status)
            status = cuda->keep(queue, &graph, &trouble);
        assert_true((status < 0) == (i < 4));
        assert_true((graph != NULL) == (i >= 4));
        if (graph)
            assert_true(cuda->prepare_graph(queue, graph, &trouble) < 0);
        cuda->graph_free(graph);
        assert_non_null(strstr(trouble.text, "CUDA_ERROR_LAUNCH_FAILED"));
        assert_int_equal(value(), 4);
        fakecuda_fail(NULL, 0, CUDA_SUCCESS);
    }
    set(1);
    cuda->graph_free(record()); /* as if nothing had been */
    assert_int_equal(value(), 4);
}

static void test_a_repeat_may_fail(void **state)
{
    set(1);
    struct gyre_device_graph *graph = record();
    fakecuda_fail("cuGraphLaunch", 1, CUDA_ERROR_LAUNCH_FAILED);
    assert_true(cuda->repeat(queue, graph, &trouble) < 0);
    assert_non_null(strstr(trouble.text, "cuGraphLaunch"));
    cuda->graph_free(graph);
}

/* New streams, and graphs that are made ready, may wait for whatever holds a stream: recording one
 * part after the other makes neither. */
static int waiting_calls(void)
{
    return fakecuda_calls("cuStreamCreateWithPriority") +
           fakecuda_calls("cuGraphInstantiateWithFlags") + fakecuda_calls("cuGraphUpload");
}

static void test_parts_are_recorded_while_the_device_stands(void **state)
{
    struct gyre_device_graph *graph[2] = {NULL, NULL};
    set(1);
    cuda->graph_free(record()); /* there is a recorder from now on */
    const int before = waiting_calls();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuda->record(queue, &trouble), 0);
        assert_int_equal(launch_twice(), 0);
        assert_int_equal(cuda->keep(queue, &graph[i], &trouble), 0);
    }
    assert_int_equal(waiting_calls(), before);
    for (int i = 0; i < 2; i++)
        assert_int_equal(cuda->prepare_graph(queue, graph[i], &trouble), 0);
    assert_int_equal(cuda->repeat(queue, graph[1], &trouble), 0);
    assert_int_equal(value(), 4 * 16 * 4);
    cuda->graph_free(graph[0]);
    cuda->graph_free(graph[1]);
}

/* A queue that ends while it records. */
static void test_an_end_while_recording(void **state)
{
    assert_int_equal(cuda->record(queue, &trouble), 0);
    assert_int_equal(launch_twice(), 0);
}

static void test_nothing_was_left(void **state)
{
    struct fakecuda_alive alive = fakecuda_alive();
    assert_int_equal(alive.ranges + alive.handles + alive.streams - alive.contexts + alive.events,
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_graph_is_its_launches, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_repeat_has_its_place_in_the_queue, enter, leave),
        cmocka_unit_test_setup_teardown(test_what_is_forgotten_has_run, enter, leave),
        cmocka_unit_test_setup_teardown(test_every_call_of_recording_may_fail, enter, leave),
        cmocka_unit_test_setup_teardown(test_a_repeat_may_fail, enter, leave),
        cmocka_unit_test_setup_teardown(test_parts_are_recorded_while_the_device_stands, enter,
                                        leave),
        cmocka_unit_test_setup_teardown(test_an_end_while_recording, enter, leave),
        cmocka_unit_test(test_nothing_was_left),
    };
    cuda = cuda_rig_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
