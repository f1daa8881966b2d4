/* The agreement of members, event by event: each rule of transport/members/membership.h. */
#include "rig/test.h"

#include "base/clock.h"
#include "transport/members/members.h"
#include "transport/members/membership.h"

#include <string.h>

enum { N = 5 };

#define DEAD  GYRE_SECOND
#define LIMIT (30 * GYRE_SECOND)

/* One member, and what the others tell it. */
static struct agreeing {
    struct gyre_membership *agreement;
    uint64_t now;
    uint8_t standing[N], theirs[N]; /* the first view; what others send */
    bool suspected[N];
    uint32_t newcomers;
} at;

static void begin(uint32_t seat, bool leaving)
{
    const struct gyre_membership_options options = {.n = N,
                                                    .seat = seat,
                                                    .epoch = 1,
                                                    .seen = 1,
                                                    .standing = at.standing,
                                                    .suspected = at.suspected,
                                                    .leaving = leaving,
                                                    .newcomers = at.newcomers,
                                                    .dead_ns = DEAD,
                                                    .suspect_ns = DEAD / 4,
                                                    .limit_ns = LIMIT};
    at.now = GYRE_SECOND;
    assert_int_equal(gyre_membership_create(&options, at.now, &at.agreement), 0);
}

static int fresh(void **state)
{
    memset(&at, 0, sizeof at);
    return 0;
}

static int end(void **state)
{
    gyre_membership_destroy(at.agreement);
    return 0;
}

static enum gyre_membership_outcome tick(void)
{
    gyre_membership_tick(at.agreement, at.now);
    return gyre_membership_outcome(at.agreement);
}

/* Lets time pass in turns of 20 ms, in which this member dials whom it has to. */
static enum gyre_membership_outcome pass(uint64_t ns)
{
    for (uint64_t until = at.now + ns; at.now < until; at.now += 20 * GYRE_MS) {
        for (uint32_t seat = 0; seat < N; seat++)
            if (gyre_membership_looks_for(at.agreement, seat))
                gyre_membership_looks(at.agreement, at.now, seat);
        tick();
    }
    return tick();
}

static void call(uint32_t seat, uint32_t seen, bool leaving)
{
    const struct gyre_statement said = {
        .epoch = 1, .seen = seen, .coordinator = seat, .leaving = leaving, .standing = at.theirs};
    gyre_membership_called(at.agreement, at.now, seat, &said);
}

static void answer(uint32_t seat, uint32_t epoch, uint32_t coordinator)
{
    const struct gyre_statement said = {
        .epoch = epoch, .seen = epoch, .coordinator = coordinator, .standing = at.theirs};
    gyre_membership_answered(at.agreement, at.now, seat, &said);
}

static void refuse(uint32_t seat)
{
    gyre_membership_refused(at.agreement, at.now, seat);
}

static uint32_t target(void)
{
    return gyre_membership_target(at.agreement);
}

/* The view that this member has, as letters: S stands, e ended, s silent, l left, v vacant,
 * c coming. */
static void assert_view(const char *letters, uint32_t epoch)
{
    const struct gyre_statement is = gyre_membership_statement(at.agreement);
    assert_int_equal(is.epoch, epoch);
    for (uint32_t seat = 0; seat < N; seat++)
        assert_int_equal("Seslvc"[is.standing[seat]], letters[seat]);
}

/* -- who coordinates --------------------------------------------------------------------------- */

static void the_lowest_that_lives_coordinates(void **state)
{
    begin(2, false);
    assert_int_equal(target(), 0);
    refuse(0);
    assert_int_equal(target(), 1);
    refuse(1);
    assert_int_equal(target(), 2);
    assert_true(gyre_membership_looks_for(at.agreement, 3));
    assert_false(gyre_membership_looks_for(at.agreement, 0));
}

static void a_member_looks_for_its_coordinator_only(void **state)
{
    begin(2, false);
    for (uint32_t seat = 0; seat < N; seat++)
        assert_int_equal(gyre_membership_looks_for(at.agreement, seat), seat == 0);
}

static void a_silent_coordinator_is_replaced(void **state)
{
    begin(1, false);
    pass(DEAD / 2);
    assert_int_equal(target(), 0);
    pass(DEAD);
    assert_int_equal(target(), 1);
}

static void a_coordinator_that_others_hear_is_given_time(void **state)
{
    begin(2, false);
    pass(DEAD + 100 * GYRE_MS);
    assert_int_equal(target(), 1);
    answer(1, 1, 0);
    assert_int_equal(target(), 0);
}

/* Who was only told that another lives does not pass that on. */
static void hearsay_is_not_passed_on(void **state)
{
    begin(2, false);
    assert_int_equal(gyre_membership_statement(at.agreement).coordinator, 2);
    answer(0, 1, 0);
    assert_int_equal(gyre_membership_statement(at.agreement).coordinator, 0);
    pass(DEAD + 100 * GYRE_MS);
    answer(1, 1, 0);
    assert_int_equal(target(), 0);
    assert_int_equal(gyre_membership_statement(at.agreement).coordinator, 2);
}

/* -- when the view is written ------------------------------------------------------------------ */

static void all_that_call_are_in_the_view(void **state)
{
    begin(0, false);
    for (uint32_t seat = 1; seat < N; seat++) {
        assert_int_equal(tick(), GYRE_MEMBERSHIP_OPEN);
        call(seat, 1, false);
    }
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SSSSS", 2);
}

static void the_ended_and_the_leaving_are_left_out(void **state)
{
    begin(0, false);
    call(1, 1, false);
    call(2, 1, true);
    gyre_membership_hung_up(at.agreement, at.now, 2);
    refuse(2); /* it left before it ended */
    refuse(3);
    refuse(4);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SSlee", 2);
}

static void the_silent_are_left_out_in_time(void **state)
{
    begin(0, false);
    for (uint32_t seat = 1; seat < N - 1; seat++)
        call(seat, 1, false);
    assert_int_equal(pass(DEAD - 100 * GYRE_MS), GYRE_MEMBERSHIP_OPEN);
    assert_int_equal(pass(200 * GYRE_MS), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SSSSs", 2);
}

static void a_sign_of_life_is_waited_for(void **state)
{
    begin(0, false);
    for (uint32_t seat = 1; seat < N - 1; seat++)
        call(seat, 1, false);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(pass(DEAD / 2), GYRE_MEMBERSHIP_OPEN);
        gyre_membership_hears(at.agreement, at.now, 4);
    }
    assert_true(gyre_membership_awaits(at.agreement, 4));
}

static void the_suspected_have_less_time_until_they_answer(void **state)
{
    at.suspected[3] = at.suspected[4] = true;
    begin(0, false);
    call(1, 1, false);
    call(2, 1, false);
    pass(DEAD / 8);
    answer(4, 1, UINT32_MAX);
    pass(DEAD / 2);
    assert_false(gyre_membership_awaits(at.agreement, 3));
    assert_true(gyre_membership_awaits(at.agreement, 4));
}

static void who_hangs_up_is_waited_for_again(void **state)
{
    begin(0, false);
    for (uint32_t seat = 1; seat < N - 1; seat++)
        call(seat, 1, false);
    assert_false(gyre_membership_awaits(at.agreement, 3));
    gyre_membership_hung_up(at.agreement, at.now, 3);
    call(4, 1, false);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_OPEN);
    assert_true(gyre_membership_awaits(at.agreement, 3));
}

/* A look that has ended does not count when the next begins. */
static void silence_counts_only_while_somebody_looks(void **state)
{
    begin(0, false);
    pass(DEAD / 2);
    for (uint32_t seat = 1; seat < N; seat++)
        if (seat != 4)
            call(seat, 1, false);
    pass(DEAD / 4);
    call(4, 1, false);
    gyre_membership_hung_up(at.agreement, at.now, 3);
    pass(DEAD / 2);
    gyre_membership_hung_up(at.agreement, at.now, 4);
    assert_int_equal(pass(DEAD / 4), GYRE_MEMBERSHIP_OPEN);
    assert_true(gyre_membership_awaits(at.agreement, 3));
    assert_true(gyre_membership_awaits(at.agreement, 4));
}

/* -- quorum ------------------------------------------------------------------------------------ */

static void the_smaller_part_is_cut_off(void **state)
{
    begin(0, false);
    call(1, 1, false);
    assert_int_equal(pass(DEAD + 100 * GYRE_MS), GYRE_MEMBERSHIP_CUT_OFF);
}

static void the_ended_do_not_count(void **state)
{
    begin(3, false);
    for (uint32_t seat = 0; seat < 3; seat++)
        refuse(seat);
    call(4, 1, false);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DECIDED);
    assert_view("eeeSS", 2);
}

static void of_two_halves_the_lowest_goes_on(void **state)
{
    begin(0, false);
    refuse(4);
    call(2, 1, false);
    assert_int_equal(pass(DEAD + 100 * GYRE_MS), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SsSse", 2);
    end(state);
    begin(1, false);
    refuse(4);
    call(3, 1, false);
    assert_int_equal(pass(3 * DEAD), GYRE_MEMBERSHIP_CUT_OFF);
}

/* Those that an earlier agreement left out may have gone on with others. */
static void the_silent_of_earlier_agreements_count(void **state)
{
    at.standing[3] = at.standing[4] = GYRE_STANDING_SILENT;
    begin(2, false);
    refuse(0);
    refuse(1);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_CUT_OFF);
}

static void the_coordinator_says_that_all_are_cut_off(void **state)
{
    begin(2, false);
    gyre_membership_cut_off(at.agreement, 1);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_OPEN);
    gyre_membership_cut_off(at.agreement, 0);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_CUT_OFF);
}

/* -- epochs ------------------------------------------------------------------------------------ */

static void an_epoch_is_higher_than_all_that_were_seen(void **state)
{
    begin(0, false);
    for (uint32_t seat = 1; seat < N; seat++)
        call(seat, 3 * seat, false);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SSSSS", 13);
}

static void a_view_is_taken_once(void **state)
{
    const uint8_t theirs[N] = {[4] = GYRE_STANDING_SILENT};
    struct gyre_statement view = {.epoch = 3, .seen = 3, .standing = theirs};
    begin(2, false);
    call(4, 3, false);
    gyre_membership_view_came(at.agreement, at.now, 0, &view);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_OPEN);
    view.epoch = view.seen = 4;
    gyre_membership_view_came(at.agreement, at.now, 0, &view);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_TOLD);
    memcpy(at.theirs, at.standing, N);
    answer(1, 9, UINT32_MAX); /* too late: the view stays */
    assert_view("SSSSs", 4);
}

static void a_newer_view_is_gone_on_from(void **state)
{
    at.theirs[0] = GYRE_STANDING_ENDED;
    begin(2, false);
    answer(1, 2, UINT32_MAX);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_OPEN);
    assert_int_equal(target(), 1);
    assert_view("eSSSS", 2);
}

static void who_is_not_in_a_newer_view_is_fenced(void **state)
{
    at.theirs[2] = GYRE_STANDING_SILENT;
    begin(2, false);
    answer(0, 2, UINT32_MAX);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_FENCED);
}

static void who_is_not_in_the_next_view_is_fenced(void **state)
{
    const uint8_t theirs[N] = {[2] = GYRE_STANDING_SILENT};
    const struct gyre_statement view = {.epoch = 2, .seen = 2, .standing = theirs};
    begin(2, false);
    gyre_membership_view_came(at.agreement, at.now, 0, &view);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_FENCED);
}

/* -- leaving ----------------------------------------------------------------------------------- */

static void who_leaves_does_not_coordinate(void **state)
{
    begin(0, true);
    assert_int_equal(target(), 1);
    for (uint32_t seat = 1; seat < N; seat++)
        refuse(seat);
    assert_int_equal(target(), N);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DESERTED);
}

/* A call says that a seat lives, once. */
static void who_leaves_waits_for_no_caller_that_stops(void **state)
{
    begin(0, true);
    call(1, 1, false);
    pass(DEAD / 2);
    assert_int_equal(target(), 1);
    pass(DEAD);
    assert_int_equal(target(), 2);
}

static void who_leaves_is_told_by_any_newer_view(void **state)
{
    at.theirs[2] = GYRE_STANDING_LEFT;
    begin(2, true);
    answer(0, 2, UINT32_MAX);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_TOLD);
}

/* -- time -------------------------------------------------------------------------------------- */

static void who_was_stopped_grants_that_time(void **state)
{
    begin(0, false);
    pass(DEAD / 2);
    at.now += 2 * LIMIT;
    assert_int_equal(tick(), GYRE_MEMBERSHIP_OPEN);
    assert_true(gyre_membership_awaits(at.agreement, 1));
    assert_int_equal(pass(DEAD), GYRE_MEMBERSHIP_CUT_OFF);
}

static void who_lives_and_does_not_call_is_too_late(void **state)
{
    begin(0, false);
    for (uint32_t seat = 1; seat < N - 1; seat++)
        call(seat, 1, false);
    while (at.now < LIMIT) {
        assert_int_equal(pass(DEAD / 2), GYRE_MEMBERSHIP_OPEN);
        gyre_membership_hears(at.agreement, at.now, 4);
    }
    pass(DEAD / 2);
    gyre_membership_hears(at.agreement, at.now, 4);
    assert_int_equal(pass(3 * DEAD / 4), GYRE_MEMBERSHIP_LATE);
}

/* -- newcomers --------------------------------------------------------------------------------- */

static void newcomers_sit_behind_all_that_have_called(void **state)
{
    at.newcomers = 1;
    at.standing[1] = GYRE_STANDING_ENDED;
    at.standing[3] = at.standing[4] = GYRE_STANDING_VACANT;
    begin(0, false);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_OPEN);
    call(2, 1, false);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SeSSv", 2);
}

static void nobody_comes_where_a_member_is_lost(void **state)
{
    at.newcomers = 1;
    at.standing[3] = at.standing[4] = GYRE_STANDING_VACANT;
    begin(0, false);
    call(1, 1, false);
    refuse(2);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SSevv", 2);
}

/* Others may have completed the view in which they came. */
static void newcomers_of_a_view_that_may_be_completed_count(void **state)
{
    at.standing[2] = at.standing[3] = at.standing[4] = GYRE_STANDING_COMING;
    begin(0, false);
    call(1, 2, false);
    assert_true(gyre_membership_looks_for(at.agreement, 3));
    assert_int_equal(pass(2 * DEAD), GYRE_MEMBERSHIP_CUT_OFF);
}

static void newcomers_that_have_ended_do_not(void **state)
{
    at.standing[2] = at.standing[3] = at.standing[4] = GYRE_STANDING_COMING;
    begin(0, false);
    call(1, 2, false);
    for (uint32_t seat = 2; seat < N; seat++)
        refuse(seat);
    assert_int_equal(tick(), GYRE_MEMBERSHIP_DECIDED);
    assert_view("SSeee", 3);
}

#define RULE(test) cmocka_unit_test_setup_teardown(test, fresh, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(the_lowest_that_lives_coordinates),
        RULE(a_member_looks_for_its_coordinator_only),
        RULE(a_silent_coordinator_is_replaced),
        RULE(a_coordinator_that_others_hear_is_given_time),
        RULE(hearsay_is_not_passed_on),
        RULE(all_that_call_are_in_the_view),
        RULE(the_ended_and_the_leaving_are_left_out),
        RULE(the_silent_are_left_out_in_time),
        RULE(a_sign_of_life_is_waited_for),
        RULE(the_suspected_have_less_time_until_they_answer),
        RULE(who_hangs_up_is_waited_for_again),
        RULE(silence_counts_only_while_somebody_looks),
        RULE(the_smaller_part_is_cut_off),
        RULE(the_ended_do_not_count),
        RULE(of_two_halves_the_lowest_goes_on),
        RULE(the_silent_of_earlier_agreements_count),
        RULE(the_coordinator_says_that_all_are_cut_off),
        RULE(an_epoch_is_higher_than_all_that_were_seen),
        RULE(a_view_is_taken_once),
        RULE(a_newer_view_is_gone_on_from),
        RULE(who_is_not_in_a_newer_view_is_fenced),
        RULE(who_is_not_in_the_next_view_is_fenced),
        RULE(who_leaves_does_not_coordinate),
        RULE(who_leaves_waits_for_no_caller_that_stops),
        RULE(who_leaves_is_told_by_any_newer_view),
        RULE(newcomers_sit_behind_all_that_have_called),
        RULE(nobody_comes_where_a_member_is_lost),
        RULE(newcomers_of_a_view_that_may_be_completed_count),
        RULE(newcomers_that_have_ended_do_not),
        RULE(who_was_stopped_grants_that_time),
        RULE(who_lives_and_does_not_call_is_too_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
