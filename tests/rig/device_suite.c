/* What every device must do. Memory is written and read by copies between it and the host. */
#include "rig/device_suite.h"
#include "rig/test.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct gyre_device *device;
static gyre_fold doubling;
static struct gyre_device_queue *queue;

/* -- helpers ----------------------------------------------------------------------------------- */

void device_suite_finish(const struct gyre_device *of, struct gyre_device_queue *on, int status,
                         uint64_t token)
{
    uint64_t found = 0;
    while (status == 0) {
        status = of->query(on, &found, 1);
        if (status == 1)
            assert_int_equal(found, token);
        else if (status == 0)
            sched_yield();
    }
    assert_int_equal(status, 1);
}

static void copy(void *to, const void *from, uint64_t length)
{
    device_suite_finish(device, queue, device->copy(queue, to, from, length, 77), 77);
}

static struct gyre_region new_region(uint64_t length)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    if (device->alloc(0, length, GYRE_SHARE_OPEN, &region, &trouble))
        fail_msg("%s", trouble.text);
    return region;
}

static void expect_bytes(const struct gyre_region *region, uint64_t at, const void *bytes,
                         uint64_t length)
{
    char *seen = malloc(length);
    copy(seen, (char *)region->base + at, length);
    assert_memory_equal(seen, bytes, length);
    free(seen);
}

static int make_queue(void **state)
{
    return device->queue_create(0, &queue, NULL);
}

static int end_queue(void **state)
{
    device->queue_destroy(queue);
    return 0;
}

/* -- memory ------------------------------------------------------------------------------------ */

static void test_table(void **state)
{
    assert_ptr_equal(gyre_device_of(device->kind), device);
    assert_true(device->probe(NULL) >= 1);
    assert_non_null(device->name);
}

static void test_memory_is_zeroed_and_aligned(void **state)
{
    static const uint64_t lengths[] = {1, 4096, 4097, (1 << 20) + 1, 5 << 20};
    char *zeros = calloc(1, 5 << 20);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct gyre_region region = new_region(lengths[i]);
        assert_int_equal(region.length, lengths[i]);
        assert_int_equal(region.kind, device->kind);
        assert_int_equal((uintptr_t)region.base % 4096, 0);
        expect_bytes(&region, 0, zeros, lengths[i]);
        copy((char *)region.base + lengths[i] - 1, "x", 1);
        device->free(&region);
        assert_null(region.base);
        device->free(&region);
    }
    free(zeros);
}

static void test_bad_lengths(void **state)
{
    struct gyre_region region;
    struct gyre_trouble trouble = {0};
    assert_int_equal(device->alloc(0, 0, GYRE_SHARE_OPEN, &region, NULL), GYRE_INVALID);
    assert_null(region.base);
    assert_int_equal(device->alloc(0, UINT64_MAX, GYRE_SHARE_OPEN, &region, NULL), -ENOMEM);
    assert_int_equal(device->alloc(0, UINT64_C(1) << 47, GYRE_SHARE_OPEN, &region, &trouble),
                     -ENOMEM);
    assert_true(trouble.text[0]);
    assert_null(region.base);
    device->free(&region);
    device->unimport(&region);
}

static void test_addresses_have_an_owner(void **state)
{
    int local;
    struct gyre_region region = new_region(8192);
    assert_int_equal(device->classify(region.base), device->kind);
    assert_int_equal(device->classify((char *)region.base + 8191), device->kind);
    assert_int_equal(device->classify(&local), GYRE_MEMORY_HOST);
    assert_int_equal(device->classify(NULL), GYRE_MEMORY_HOST);
    device->free(&region);
}

/* -- sharing ----------------------------------------------------------------------------------- */

static void test_import_shares_memory(void **state)
{
    struct gyre_region region = new_region(3 << 20), view;
    assert_int_equal(device->import(0, region.fd, 3 << 20, GYRE_SHARE_OPEN, &view, NULL), 0);
    assert_int_equal(view.fd, -1);
    assert_int_equal(view.length, 3 << 20);
    assert_int_equal(view.kind, device->kind);
    copy((char *)view.base + 1234567, "view", 4);
    copy(region.base, "region", 6);
    expect_bytes(&region, 1234567, "view", 4);
    expect_bytes(&view, 0, "region", 6);
    device->free(&region); /* first: the view goes on */
    expect_bytes(&view, 0, "region", 6);
    device->unimport(&view);
    assert_null(view.base);
    device->unimport(&view);
}

static void test_import_refuses_what_is_no_memory(void **state)
{
    int end[2];
    struct gyre_region view;
    struct gyre_trouble trouble = {0};
    assert_int_equal(device->import(0, -1, 4096, GYRE_SHARE_OPEN, &view, NULL), -EBADF);
    assert_int_equal(pipe(end), 0);
    assert_true(device->import(0, end[0], 4096, GYRE_SHARE_OPEN, &view, &trouble) < 0);
    assert_true(trouble.text[0]);
    assert_null(view.base);
    close(end[0]);
    close(end[1]);
    struct gyre_region region = new_region(4096);
    assert_true(device->import(0, region.fd, 64 << 20, GYRE_SHARE_OPEN, &view, NULL) < 0);
    assert_int_equal(device->import(0, region.fd, 0, GYRE_SHARE_OPEN, &view, NULL), GYRE_INVALID);
    assert_null(view.base);
    device->free(&region);
}

static void test_detached_memory_is_out_of_reach(void **state)
{
    struct gyre_region region = new_region(5 << 20), old, view;
    void *base = region.base;
    assert_int_equal(device->import(0, region.fd, 5 << 20, GYRE_SHARE_OPEN, &old, NULL), 0);
    copy((char *)base + (4 << 20), "content", 7);
    assert_int_equal(device->detach(&region, NULL), 0);
    assert_ptr_equal(region.base, base);
    copy((char *)old.base + (4 << 20), "too late", 8);
    expect_bytes(&region, 4 << 20, "content", 8);
    assert_int_equal(device->import(0, region.fd, 5 << 20, GYRE_SHARE_OPEN, &view, NULL), 0);
    copy(view.base, "new", 3);
    expect_bytes(&region, 0, "new", 3);
    assert_int_equal(device->detach(&region, NULL), 0); /* again */
    expect_bytes(&region, 0, "new", 3);
    device->unimport(&old);
    device->unimport(&view);
    device->free(&region);
}

/* -- queues ------------------------------------------------------------------------------------ */

static void test_copies_arrive(void **state)
{
    static const uint64_t lengths[] = {1, 7, 4096, 100003};
    struct gyre_region one = new_region(200000), two = new_region(200000);
    char *bytes = malloc(100003);
    for (int i = 0; i < 100003; i++)
        bytes[i] = (char)(i * 7);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        copy((char *)one.base + 3, bytes, lengths[i]);
        copy((char *)two.base + 50001, (char *)one.base + 3, lengths[i]);
        expect_bytes(&two, 50001, bytes, lengths[i]);
    }
    assert_int_equal(device->copy(queue, one.base, two.base, 0, 1), 1);
    free(bytes);
    device->free(&one);
    device->free(&two);
}

static void fold(struct gyre_region *region, int count, uint64_t token)
{
    void *destination = region->base;
    const void *source = region->base;
    struct gyre_fold_task task = {&destination, &source, 1, 1, (uint64_t)count, 0, false};
    device_suite_finish(device, queue, device->reduce(queue, doubling, &task, token), token);
}

static void test_folds_are_done(void **state)
{
    int numbers[1000], doubled[1000];
    struct gyre_region region = new_region(sizeof numbers);
    for (int i = 0; i < 1000; i++) {
        numbers[i] = i - 500;
        doubled[i] = 4 * (i - 500);
    }
    copy(region.base, numbers, sizeof numbers);
    fold(&region, 1000, 5);
    fold(&region, 1000, 6);
    expect_bytes(&region, 0, doubled, sizeof doubled);
    device->free(&region);
}

/* Each post reads what the one before wrote; a queue that is full takes more after a query(). */
static void test_work_is_done_in_order(void **state)
{
    enum { POSTS = 1000 };
    struct gyre_region region = new_region(POSTS + 1);
    char *bytes = region.base;
    uint64_t next = 0, tokens[3];
    copy(bytes, "!", 1);
    for (uint64_t posted = 0; next < POSTS;) {
        int status = -EAGAIN;
        if (posted < POSTS)
            status = device->copy(queue, bytes + posted + 1, bytes + posted, 1, posted);
        if (status == 1)
            next++;
        if (status >= 0)
            posted++;
        if (status != -EAGAIN)
            continue;
        int count = device->query(queue, tokens, 3);
        assert_in_range(count, 0, 3);
        for (int i = 0; i < count; i++)
            assert_int_equal(tokens[i], next++);
        if (!count)
            sched_yield();
    }
    expect_bytes(&region, POSTS, "!", 1);
    assert_int_equal(device->query(queue, tokens, 3), 0);
    device->free(&region);
}

static void test_queues_are_apart(void **state)
{
    uint64_t token;
    struct gyre_device_queue *other;
    struct gyre_region region = new_region(4096);
    assert_int_equal(device->queue_create(0, &other, NULL), 0);
    int status = device->copy(other, region.base, "a", 1, 1);
    copy((char *)region.base + 1, "b", 1);
    assert_int_equal(device->query(queue, &token, 1), 0);
    device_suite_finish(device, other, status, 1);
    expect_bytes(&region, 0, "ab", 2);
    assert_int_equal(device->after(other, NULL, NULL), 0);
    device->queue_destroy(other);
    device->queue_destroy(NULL);
    device->free(&region);
}

/* A mark is behind what was posted, reported or not, and needs nothing before it. */
static void test_marks_are_reported_in_order(void **state)
{
    struct gyre_region region = new_region(4096);
    device_suite_finish(device, queue, device->mark(queue, 1), 1);
    int posted = device->copy(queue, region.base, "mark", 4, 2);
    int marked = device->mark(queue, 3);
    device_suite_finish(device, queue, posted, 2);
    device_suite_finish(device, queue, marked, 3);
    expect_bytes(&region, 0, "mark", 4);
    device->free(&region);
}

static void test_no_stream_is_nothing_to_wait_for(void **state)
{
    static _Atomic uint64_t word;
    assert_int_equal(device->after(queue, NULL, NULL), 0);
    assert_int_equal(device->hold(queue, NULL, &word, 1, NULL), 0);
    device_suite_finish(device, queue, device->mark(queue, 1), 1);
}

/* -- the machine ------------------------------------------------------------------------------- */

static void test_devices_have_an_identity(void **state)
{
    struct gyre_device_identity one = {0}, again = {0};
    memset(&one, 0xff, sizeof one);
    assert_int_equal(device->identify(0, &one, NULL), 0);
    assert_int_equal(device->identify(0, &again, NULL), 0);
    assert_memory_equal(&one, &again, sizeof one);
    assert_in_range(strnlen(one.name, sizeof one.name), 1, sizeof one.name - 1);
    assert_true(device->reaches(0, 0));
    assert_true(device->exports(0));
    assert_in_range(device->current() + 1, 0, device->probe(NULL));
}

static void test_pinned_memory_is_copied_from_and_to(void **state)
{
    enum { PINNED = 64 << 10 };
    char *memory = mmap(NULL, PINNED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct gyre_region region = new_region(PINNED);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(device->pin(0, memory, PINNED, NULL), 0);
        memset(memory, 'p' + again, PINNED);
        copy(region.base, memory, PINNED);
        memset(memory, 0, PINNED / 2);
        copy(memory, (char *)region.base + PINNED / 2, PINNED / 2);
        expect_bytes(&region, 0, memory, PINNED);
        device->unpin(0, memory);
    }
    device->free(&region);
    munmap(memory, PINNED);
}

int device_suite_run(const char *name, const struct gyre_device *tested, gyre_fold fold_of_it)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_memory_is_zeroed_and_aligned),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_addresses_have_an_owner),
        cmocka_unit_test(test_import_shares_memory),
        cmocka_unit_test(test_import_refuses_what_is_no_memory),
        cmocka_unit_test(test_detached_memory_is_out_of_reach),
        cmocka_unit_test(test_copies_arrive),
        cmocka_unit_test(test_folds_are_done),
        cmocka_unit_test(test_work_is_done_in_order),
        cmocka_unit_test(test_queues_are_apart),
        cmocka_unit_test(test_marks_are_reported_in_order),
        cmocka_unit_test(test_no_stream_is_nothing_to_wait_for),
        cmocka_unit_test(test_devices_have_an_identity),
        cmocka_unit_test(test_pinned_memory_is_copied_from_and_to),
    };
    device = tested;
    doubling = fold_of_it;
    return cmocka_run_group_tests_name(name, tests, make_queue, end_queue);
}
