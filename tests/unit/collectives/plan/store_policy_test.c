/* Plain stores or stores around the cache, on machines whose prices are known. */

#include "collectives/plan/store_policy.h"
#include "rig/test.h"

struct machine {
    uint64_t ns[2]; /* of a piece of 256 KiB: plain, around */
};

/* So many operations of a piece each; returns how many pieces went around. */
static unsigned store(struct gyre_store_policy *store_policy, const struct machine *machine,
                      unsigned pieces)
{
    unsigned nontemporal = 0;
    for (unsigned i = 0; i < pieces; i++) {
        gyre_store_policy_begin(store_policy);
        struct gyre_store_choice way = gyre_store_policy_next(store_policy);
        nontemporal += way.nontemporal;
        if (way.timed)
            gyre_store_policy_took(store_policy, way.nontemporal, 256 << 10,
                                   machine->ns[way.nontemporal]);
    }
    return nontemporal;
}

static void the_faster_way_is_taken(void **state)
{
    const struct machine shared = {{7000, 14000}}, apart = {{27000, 16000}};
    struct gyre_store_policy store_policy = {0};
    assert_in_range(store(&store_policy, &shared, 100000), 1, 100000 / 200);
    store_policy = (struct gyre_store_policy){0};
    assert_in_range(store(&store_policy, &apart, 100000), 100000 - 100000 / 200, 100000 - 1);
}

static void a_machine_may_change(void **state)
{
    const struct machine shared = {{7000, 14000}}, apart = {{27000, 16000}};
    struct gyre_store_policy store_policy = {0};
    for (int i = 0; i < 3; i++) {
        store(&store_policy, &shared, 2000);
        assert_false(store_policy.nontemporal);
        store(&store_policy, &apart, 2000);
        assert_true(store_policy.nontemporal);
    }
}

/* The first pieces find pages that nobody has touched. */
static void cold_pieces_decide_nothing(void **state)
{
    const struct machine cold = {{90000, 90000}}, warm = {{7000, 14000}};
    struct gyre_store_policy store_policy = {0};
    store(&store_policy, &cold, 4);
    assert_in_range(store(&store_policy, &warm, 1000), 1, 18);
}

static void who_was_held_up_is_forgiven(void **state)
{
    const struct machine shared = {{7000, 14000}}, held_up = {{4000000, 4000000}};
    struct gyre_store_policy store_policy = {0};
    store(&store_policy, &shared, 40);
    for (int i = 0; i < 200; i++) {
        assert_false(store_policy.nontemporal);
        store(&store_policy, &held_up, 3);
        store(&store_policy, &shared, 50);
    }
}

static void equals_do_not_take_turns(void **state)
{
    const struct machine alike = {{10000, 9500}};
    struct gyre_store_policy store_policy = {0};
    assert_in_range(store(&store_policy, &alike, 10000), 1, 60);
}

/* Plain stores find lines in the cache only if the operation before has stored plainly, too. So the
 * first operation of a try looks slow, and the second tells. */
static void a_try_finds_its_own_lines(void **state)
{
    const struct machine cold = {{90000, 14000}};
    struct gyre_store_policy store_policy = {0};
    store(&store_policy, &cold, 100);
    assert_true(store_policy.nontemporal);
    for (bool plain = false; !plain || store_policy.nontemporal;) {
        assert_true(store_policy.operations < 4000);
        gyre_store_policy_begin(&store_policy);
        for (int i = 0; i < 4; i++) {
            struct gyre_store_choice way = gyre_store_policy_next(&store_policy);
            if (way.timed)
                gyre_store_policy_took(&store_policy, way.nontemporal, 256 << 10,
                                       way.nontemporal ? 14000
                                       : plain         ? 7000
                                                       : 30000);
        }
        plain = !gyre_store_policy_next(&store_policy).nontemporal;
    }
}

/* All pieces of an operation are stored alike, whatever the clock says meanwhile. */
static void an_operation_is_stored_one_way(void **state)
{
    struct gyre_store_policy store_policy = {0};
    for (int i = 0; i < 2000; i++) {
        gyre_store_policy_begin(&store_policy);
        bool nontemporal = gyre_store_policy_next(&store_policy).nontemporal;
        for (int piece = 0; piece < 3; piece++) {
            assert_int_equal(gyre_store_policy_next(&store_policy).nontemporal, nontemporal);
            gyre_store_policy_took(&store_policy, nontemporal, 256 << 10,
                                   1000 + (i * 7919) % 50000);
        }
    }
}

/* Most pieces are not timed: two looks at the clock are long beside 16 KiB. */
static void few_are_timed(void **state)
{
    struct gyre_store_policy store_policy = {0};
    unsigned timed = 0;
    for (int i = 0; i < 8000; i++) {
        gyre_store_policy_begin(&store_policy);
        timed += gyre_store_policy_next(&store_policy).timed;
    }
    assert_in_range(timed, 1000, 1100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_taken),
        cmocka_unit_test(a_machine_may_change),
        cmocka_unit_test(cold_pieces_decide_nothing),
        cmocka_unit_test(who_was_held_up_is_forgiven),
        cmocka_unit_test(equals_do_not_take_turns),
        cmocka_unit_test(a_try_finds_its_own_lines),
        cmocka_unit_test(an_operation_is_stored_one_way),
        cmocka_unit_test(few_are_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
