/* Counts by peer and tag: every one is found again, however many there are, and none that was not
 * made. */
#include "collectives/messages/tags.h"

#include "rig/test.h"

#define PEERS 7u
#define TAGS  500u

static uint32_t tag_of(uint32_t i)
{
    return 1 + i * 8191u % 0x7fffffffu;
}

static void every_count_is_found_again(void **state)
{
    (void)state;
    struct gyre_tag_table table = {0};
    for (uint32_t i = 0; i < TAGS; i++)
        for (uint32_t peer = 0; peer < PEERS; peer++) {
            struct gyre_tag_count *count = gyre_tag_count(&table, peer, tag_of(i));
            assert_non_null(count);
            assert_int_equal(count->named[0] + count->named[1], 0);
            count->named[0] = i + peer;
            count->named[1] = i * peer;
        }
    assert_int_equal(table.used, PEERS * TAGS);
    for (uint32_t i = 0; i < TAGS; i++)
        for (uint32_t peer = 0; peer < PEERS; peer++) {
            assert_int_equal(gyre_tag_count(&table, peer, tag_of(i))->named[0], i + peer);
            assert_int_equal(gyre_tag_named(&table, peer, tag_of(i), true), i * peer);
        }
    assert_int_equal(table.used, PEERS * TAGS);
    gyre_tag_deinit(&table);
}

static void a_look_makes_no_count(void **state)
{
    (void)state;
    struct gyre_tag_table table = {0};
    assert_int_equal(gyre_tag_named(&table, 3, 5, false), 0);
    assert_null(table.count);
    gyre_tag_count(&table, 3, 5)->named[0] = 4;
    assert_int_equal(gyre_tag_named(&table, 3, 5, false), 4);
    assert_int_equal(gyre_tag_named(&table, 4, 5, false), 0);
    assert_int_equal(gyre_tag_named(&table, 3, 6, false), 0);
    assert_int_equal(table.used, 1);
    gyre_tag_deinit(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_count_is_found_again),
        cmocka_unit_test(a_look_makes_no_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
