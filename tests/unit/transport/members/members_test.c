/* The members of a job over two epochs: seats stay, ranks move up, losses keep their time. */
#include "rig/test.h"

#include "transport/members/members.h"

#include <stdio.h>
#include <string.h>

enum { N = 4, SEAT = 2, SEATS = N + GYRE_NEWCOMERS_OF_A_JOB };

static struct gyre_members *make_members(void)
{
    struct gyre_member member[N] = {0};
    struct gyre_joined joined = {.rank = SEAT, .n = N, .member = member};
    for (int rank = 0; rank < N; rank++) {
        snprintf(member[rank].host, sizeof member[rank].host, "host%d", rank);
        member[rank].pid = 100 + rank;
        member[rank].address.ss_family = (sa_family_t)(10 + rank);
    }
    memset(joined.session_key, 7, sizeof joined.session_key);
    struct gyre_members *members = gyre_members_create(&joined, &(struct gyre_job){.epoch = 1});
    assert_non_null(members);
    return members;
}

static void the_first_epoch_gives_the_seats(void **state)
{
    struct gyre_members *members = make_members();
    assert_int_equal(members->seat, SEAT);
    assert_int_equal(members->epoch, 1);
    assert_int_equal(members->seen, 1);
    assert_int_equal(members->key[0], 7);
    assert_int_equal(gyre_members_count(members->standing, SEATS), N);
    for (uint32_t seat = 0; seat < N; seat++) {
        assert_int_equal(gyre_members_rank(members->standing, SEATS, seat), seat);
        assert_int_equal(members->at[seat].pid, 100 + seat);
        assert_int_equal(members->at[seat].address.ss_family, 10 + seat);
    }
    assert_int_equal(gyre_members_rank(members->standing, SEATS, N), UINT32_MAX);
    gyre_members_release(members);
}

static void ranks_move_up_and_seats_stay(void **state)
{
    struct gyre_members *members = make_members();
    members->next[0] = GYRE_STANDING_ENDED;
    members->seen = 3;
    gyre_members_complete(members);
    uint64_t gone_at = members->at[0].gone_at;
    assert_int_equal(members->epoch, 3);
    assert_int_equal(gyre_members_rank(members->standing, SEATS, 0), UINT32_MAX);
    assert_int_equal(gyre_members_rank(members->standing, SEATS, SEAT), 1);
    assert_true(gone_at > 0 && members->at[1].gone_at == 0);
    members->next[1] = GYRE_STANDING_SILENT;
    members->seen = 4;
    gyre_members_complete(members);
    assert_int_equal(members->epoch, 4);
    assert_int_equal(members->seat, SEAT);
    assert_int_equal(gyre_members_rank(members->standing, SEATS, SEAT), 0);
    assert_int_equal(gyre_members_count(members->standing, SEATS), 2);
    assert_int_equal(members->at[0].gone_at, gone_at);
    gyre_members_release(members);
}

static void a_member_has_a_name(void **state)
{
    struct gyre_members *members = make_members();
    char who[GYRE_MEMBER_WHO_MAX];
    members->next[0] = GYRE_STANDING_LEFT;
    members->seen = 2;
    gyre_members_complete(members);
    assert_string_equal(gyre_members_who(members, 3, who), "rank 2 on host3 (pid 103)");
    assert_string_equal(gyre_members_who(members, 0, who), "former rank 0 on host0 (pid 100)");
    gyre_members_release(members);
}

static void the_last_user_frees_them(void **state)
{
    struct gyre_members *members = make_members();
    assert_ptr_equal(gyre_members_hold(members), members);
    gyre_members_release(members);
    assert_int_equal(members->n, SEATS);
    gyre_members_release(members);
    gyre_members_release(gyre_members_hold(NULL));
}

static void newcomers_get_the_seats_behind(void **state)
{
    struct gyre_members *members = make_members();
    struct gyre_member member[N + 1] = {0};
    struct gyre_joined joined = {.n = N + 1, .member = member};
    uint8_t view[SEATS];
    assert_int_equal(gyre_members_next_seat(members->standing, members->n), N);
    memcpy(view, members->standing, SEATS);
    view[N] = GYRE_STANDS;
    gyre_members_expect(members, view, 2);
    assert_int_equal(members->standing[N], GYRE_STANDING_COMING);
    assert_int_equal(gyre_members_rank(members->standing, SEATS, N), UINT32_MAX);
    assert_int_equal(gyre_members_next_seat(members->standing, members->n), N + 1);
    gyre_members_complete(members);
    member[N].pid = 77;
    gyre_members_note(members, &joined);
    assert_int_equal(gyre_members_rank(members->standing, SEATS, N), N);
    assert_int_equal(members->at[N].pid, 77);
    assert_true(members->at[N].gone_at == 0 && members->at[N + 1].gone_at == 0);
    gyre_members_release(members);
}

/* A view without the newcomers takes the place of one with them. */
static void a_view_that_failed_leaves_no_seat(void **state)
{
    struct gyre_members *members = make_members();
    uint8_t with[SEATS], without[SEATS];
    memcpy(without, members->standing, SEATS);
    memcpy(with, members->standing, SEATS);
    with[N] = GYRE_STANDS;
    gyre_members_expect(members, with, 2);
    gyre_members_expect(members, without, 3);
    gyre_members_complete(members);
    assert_int_equal(gyre_members_next_seat(members->standing, members->n), N);
    assert_int_equal(gyre_members_count(members->standing, SEATS), N);
    gyre_members_release(members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_epoch_gives_the_seats),
        cmocka_unit_test(ranks_move_up_and_seats_stay),
        cmocka_unit_test(a_member_has_a_name),
        cmocka_unit_test(newcomers_get_the_seats_behind),
        cmocka_unit_test(a_view_that_failed_leaves_no_seat),
        cmocka_unit_test(the_last_user_frees_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
