/* Plain stores or stores around the cache, on machines whose prices are known. */

#include "collectives/mapped/store_policy.h"
#include "rig/test.h"

struct machine {
    uint64_t ns[2]; /* of a piece of 256 KiB: plain, around */
};

/* So many pieces; returns how many went around. */
static unsigned store(struct gyre_pace *pace, const struct machine *machine, unsigned pieces)
{
    unsigned around = 0;
    for (unsigned i = 0; i < pieces; i++) {
        struct gyre_pace_way way = gyre_pace_next(pace);
        around += way.around;
        if (way.timed)
            gyre_pace_took(pace, way.around, 256 << 10, machine->ns[way.around]);
    }
    return around;
}

static void the_faster_way_is_taken(void **state)
{
    const struct machine shared = {{7000, 14000}}, apart = {{27000, 16000}};
    struct gyre_pace pace = {0};
    assert_in_range(store(&pace, &shared, 100000), 1, 100000 / 400);
    pace = (struct gyre_pace){0};
    assert_in_range(store(&pace, &apart, 100000), 100000 - 100000 / 400, 100000 - 1);
}

static void a_machine_may_change(void **state)
{
    const struct machine shared = {{7000, 14000}}, apart = {{27000, 16000}};
    struct gyre_pace pace = {0};
    for (int i = 0; i < 3; i++) {
        store(&pace, &shared, 2000);
        assert_false(pace.around);
        store(&pace, &apart, 2000);
        assert_true(pace.around);
    }
}

/* The first pieces find pages that nobody has touched. */
static void cold_pieces_decide_nothing(void **state)
{
    const struct machine cold = {{90000, 90000}}, warm = {{7000, 14000}};
    struct gyre_pace pace = {0};
    store(&pace, &cold, 4);
    assert_in_range(store(&pace, &warm, 1000), 1, 9);
}

static void who_was_held_up_is_forgiven(void **state)
{
    const struct machine shared = {{7000, 14000}}, held_up = {{4000000, 4000000}};
    struct gyre_pace pace = {0};
    store(&pace, &shared, 40);
    for (int i = 0; i < 200; i++) {
        assert_false(pace.around);
        store(&pace, &held_up, 3);
        store(&pace, &shared, 50);
    }
}

static void equals_do_not_take_turns(void **state)
{
    const struct machine alike = {{10000, 9500}};
    struct gyre_pace pace = {0};
    assert_in_range(store(&pace, &alike, 10000), 1, 30);
}

/* Most pieces are not timed: two looks at the clock are long beside 16 KiB. */
static void few_are_timed(void **state)
{
    struct gyre_pace pace = {0};
    unsigned timed = 0;
    for (int i = 0; i < 8000; i++)
        timed += gyre_pace_next(&pace).timed;
    assert_in_range(timed, 1000, 1100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_taken),    cmocka_unit_test(a_machine_may_change),
        cmocka_unit_test(cold_pieces_decide_nothing), cmocka_unit_test(who_was_held_up_is_forgiven),
        cmocka_unit_test(equals_do_not_take_turns),   cmocka_unit_test(few_are_timed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
