/* What drivers see of a process's own memory: shared and lent, by kind, by ids that never come back,
 * and that something has gone. */
#include "transport/domain/inside.h"
#include "rig/test.h"

#include <stdlib.h>

#define LENGTH 8192u

static struct gyre_domain *domain;
static const struct gyre_memory_lookup *lookup;
static uint8_t own[4 * LENGTH];

static int set_up(void **state)
{
    (void)state;
    domain = calloc(1, sizeof *domain);
    gyre_domain_lookup_init(domain);
    lookup = &domain->lookup;
    return gyre_domain_memory_init(domain);
}

static int tear_down(void **state)
{
    (void)state;
    gyre_domain_memory_deinit(domain);
    free(domain);
    return 0;
}

static uint32_t hold(const uint8_t *memory, uint64_t length)
{
    void *base = NULL;
    uint64_t span = 0;
    uint32_t id = lookup->hold(domain, memory, length, &base, &span);
    assert_true(!id || ((uint8_t *)base <= memory && memory + length <= (uint8_t *)base + span));
    return id;
}

static void what_is_lent_is_held_until_it_is_withdrawn(void **state)
{
    (void)state;
    assert_int_equal(hold(own, 1), 0);
    assert_int_equal(gyre_domain_lend(domain, own + LENGTH, LENGTH), 0);
    uint32_t id = hold(own + LENGTH, LENGTH);
    assert_int_not_equal(id, 0);
    assert_int_equal(hold(own + LENGTH + 100, LENGTH - 100), id);
    assert_int_equal(hold(own + LENGTH + 100, LENGTH - 99), 0);
    assert_int_equal(hold(own + LENGTH - 1, 2), 0);
    assert_int_equal(hold(own + LENGTH, 0), 0);
    assert_true(lookup->lives(domain, id));
    uint32_t before = lookup->gone(domain);
    gyre_domain_withdraw(domain, own + LENGTH, LENGTH);
    assert_int_equal(lookup->gone(domain), before + 1);
    assert_false(lookup->lives(domain, id));
    assert_int_equal(hold(own + LENGTH, LENGTH), 0);
    gyre_domain_withdraw(domain, own + LENGTH, LENGTH);
    assert_int_equal(lookup->gone(domain), before + 1);
}

/* The program may give the same addresses another life: nothing of the old one is believed. */
static void ids_do_not_come_back(void **state)
{
    uint32_t last = 0;
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(gyre_domain_lend(domain, own, LENGTH), 0);
        uint32_t id = hold(own, LENGTH);
        assert_true(id > last);
        last = id;
        gyre_domain_withdraw(domain, own, LENGTH);
    }
}

/* Two communicators lend the same, one of them a part of it. */
static void each_withdraws_its_own(void **state)
{
    (void)state;
    assert_int_equal(gyre_domain_lend(domain, own, LENGTH), 0);
    assert_int_equal(gyre_domain_lend(domain, own, LENGTH), 0);
    assert_int_equal(gyre_domain_lend(domain, own, 2 * LENGTH), 0);
    gyre_domain_withdraw(domain, own, LENGTH);
    assert_int_not_equal(hold(own, LENGTH), 0);
    gyre_domain_withdraw(domain, own, LENGTH);
    assert_int_not_equal(hold(own + LENGTH, LENGTH), 0);
    gyre_domain_withdraw(domain, own, 2 * LENGTH);
    assert_int_equal(hold(own, 1), 0);
}

static void many_are_kept(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(gyre_domain_lend(domain, own + i, 1), 0);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_not_equal(hold(own + i, 1), 0);
    for (uint32_t i = 0; i < 1000; i += 2)
        gyre_domain_withdraw(domain, own + i, 1);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(hold(own + i, 1) != 0, i % 2);
}

static void regions_are_held_too(void **state)
{
    (void)state;
    uint8_t *memory = gyre_domain_keep(domain, LENGTH);
    assert_non_null(memory);
    uint32_t id = hold(memory + 10, LENGTH - 10), before = lookup->gone(domain);
    assert_int_not_equal(id, 0);
    assert_true(lookup->lives(domain, id));
    assert_int_equal(gyre_domain_unshare(domain, memory), 0);
    assert_int_equal(lookup->gone(domain), before + 1);
    assert_false(lookup->lives(domain, id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_lent_is_held_until_it_is_withdrawn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ids_do_not_come_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_withdraws_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(regions_are_held_too, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
