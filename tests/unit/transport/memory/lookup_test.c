/* What drivers see of a process's own memory: shared and lent, by kind, by ids that never come
 * back, and that something has gone. */
#include "transport/memory/lookup.h"
#include "rig/test.h"

#include <string.h>

#define LENGTH 8192u

static struct gyre_memory_lookup lookup;
static uint8_t own[4 * LENGTH];

static int set_up(void **state)
{
    (void)state;
    memset(&lookup, 0, sizeof lookup);
    return gyre_lookup_init(&lookup, 1);
}

static int tear_down(void **state)
{
    (void)state;
    gyre_lookup_deinit(&lookup);
    return 0;
}

static uint32_t hold(const uint8_t *memory, uint64_t length)
{
    void *base = NULL;
    uint64_t span = 0;
    uint32_t id = gyre_lookup_hold(&lookup, GYRE_MEMORY_HOST, memory, length, &base, &span);
    assert_true(!id || ((uint8_t *)base <= memory && memory + length <= (uint8_t *)base + span));
    return id;
}

static void what_is_lent_is_held_until_it_is_withdrawn(void **state)
{
    (void)state;
    assert_int_equal(hold(own, 1), 0);
    assert_int_equal(gyre_lookup_lend(&lookup, own + LENGTH, LENGTH), 0);
    uint32_t id = hold(own + LENGTH, LENGTH);
    assert_int_not_equal(id, 0);
    assert_int_equal(hold(own + LENGTH + 100, LENGTH - 100), id);
    assert_int_equal(hold(own + LENGTH + 100, LENGTH - 99), 0);
    assert_int_equal(hold(own + LENGTH - 1, 2), 0);
    assert_int_equal(hold(own + LENGTH, 0), 0);
    assert_true(gyre_lookup_lives(&lookup, id));
    uint32_t before = gyre_lookup_gone(&lookup);
    gyre_lookup_withdraw(&lookup, own + LENGTH, LENGTH);
    assert_int_equal(gyre_lookup_gone(&lookup), before + 1);
    assert_false(gyre_lookup_lives(&lookup, id));
    assert_int_equal(hold(own + LENGTH, LENGTH), 0);
    gyre_lookup_withdraw(&lookup, own + LENGTH, LENGTH);
    assert_int_equal(gyre_lookup_gone(&lookup), before + 1);
}

/* The program may give the same addresses another life: nothing of the old one is believed. */
static void ids_do_not_come_back(void **state)
{
    uint32_t last = 0;
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(gyre_lookup_lend(&lookup, own, LENGTH), 0);
        uint32_t id = hold(own, LENGTH);
        assert_true(id > last);
        last = id;
        gyre_lookup_withdraw(&lookup, own, LENGTH);
    }
}

/* Two communicators lend the same, one of them a part of it. */
static void each_withdraws_its_own(void **state)
{
    (void)state;
    assert_int_equal(gyre_lookup_lend(&lookup, own, LENGTH), 0);
    assert_int_equal(gyre_lookup_lend(&lookup, own, LENGTH), 0);
    assert_int_equal(gyre_lookup_lend(&lookup, own, 2 * LENGTH), 0);
    gyre_lookup_withdraw(&lookup, own, LENGTH);
    assert_int_not_equal(hold(own, LENGTH), 0);
    gyre_lookup_withdraw(&lookup, own, LENGTH);
    assert_int_not_equal(hold(own + LENGTH, LENGTH), 0);
    gyre_lookup_withdraw(&lookup, own, 2 * LENGTH);
    assert_int_equal(hold(own, 1), 0);
}

static void many_are_kept(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(gyre_lookup_lend(&lookup, own + i, 1), 0);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_not_equal(hold(own + i, 1), 0);
    for (uint32_t i = 0; i < 1000; i += 2)
        gyre_lookup_withdraw(&lookup, own + i, 1);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(hold(own + i, 1) != 0, i % 2);
}

static void regions_are_held_too(void **state)
{
    (void)state;
    struct gyre_shared removed;
    const struct gyre_region region = {.base = own, .length = LENGTH, .fd = -1};
    const uint8_t *memory = own;
    assert_int_not_equal(gyre_lookup_add(&lookup, &region), 0);
    uint32_t id = hold(memory + 10, LENGTH - 10), before = gyre_lookup_gone(&lookup);
    assert_int_not_equal(id, 0);
    assert_true(gyre_lookup_lives(&lookup, id));
    assert_true(gyre_lookup_remove(&lookup, memory, &removed));
    assert_int_equal(removed.id, id);
    assert_false(gyre_lookup_remove(&lookup, memory, &removed));
    assert_int_equal(gyre_lookup_gone(&lookup), before + 1);
    assert_false(gyre_lookup_lives(&lookup, id));
}

/* Peers have a region only when it was marked, and kernels only what nobody merely copies. */
static void regions_are_located_when_peers_have_them(void **state)
{
    (void)state;
    uint64_t offset = 0;
    const struct gyre_region region = {.base = own, .length = LENGTH, .fd = -1};
    uint32_t id = gyre_lookup_add(&lookup, &region);
    enum gyre_memory_kind kind = GYRE_MEMORY_HOST;
    assert_int_equal(gyre_lookup_locate(&lookup, kind, own + 8, 8, true, &offset), 0);
    gyre_lookup_mark_mapped(&lookup, id, true);
    assert_int_equal(gyre_lookup_locate(&lookup, kind, own + 8, 8, true, &offset), id);
    assert_int_equal(offset, 8);
    assert_int_equal(gyre_lookup_locate(&lookup, kind, own + 8, 8, false, &offset), 0);
    assert_int_equal(gyre_lookup_locate(&lookup, GYRE_MEMORY_CUDA, own, 8, true, &offset), 0);
    assert_int_equal(gyre_lookup_locate(&lookup, kind, own, LENGTH + 1, true, &offset), 0);
    assert_null(gyre_lookup_view(&lookup, 1, id, kind, 0, 8));
}

static void a_descriptor_is_taken_once(void **state)
{
    struct gyre_region region = {.base = own, .length = LENGTH, .kind = GYRE_MEMORY_HOST, .fd = 7};
    struct gyre_shared removed;
    (void)state;
    assert_int_not_equal(gyre_lookup_add(&lookup, &region), 0);
    assert_int_equal(gyre_lookup_take_descriptor(&lookup, own + 1), -1);
    assert_int_equal(gyre_lookup_take_descriptor(&lookup, own), 7);
    assert_int_equal(gyre_lookup_take_descriptor(&lookup, own), -1);
    assert_true(gyre_lookup_remove(&lookup, own, &removed));
    assert_int_equal(removed.region.fd, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_lent_is_held_until_it_is_withdrawn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ids_do_not_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_descriptor_is_taken_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_withdraws_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_are_held_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_are_located_when_peers_have_them, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
