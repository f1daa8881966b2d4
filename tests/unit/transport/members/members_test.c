/* The members of a job over two epochs: seats stay, ranks move up, losses keep their time. */
#include "rig/test.h"

#include "transport/members/members.h"

#include <stdio.h>
#include <string.h>

enum { N = 4, SEAT = 2 };

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
    struct gyre_members *members = gyre_members_create(&joined, 1);
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
    assert_int_equal(gyre_members_count(members->standing, N), N);
    for (uint32_t seat = 0; seat < N; seat++) {
        assert_int_equal(gyre_members_rank(members->standing, N, seat), seat);
        assert_int_equal(members->at[seat].pid, 100 + seat);
        assert_int_equal(members->at[seat].address.ss_family, 10 + seat);
    }
    assert_int_equal(gyre_members_rank(members->standing, N, N), UINT32_MAX);
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
    assert_int_equal(gyre_members_rank(members->standing, N, 0), UINT32_MAX);
    assert_int_equal(gyre_members_rank(members->standing, N, SEAT), 1);
    assert_true(gone_at > 0 && members->at[1].gone_at == 0);
    members->next[1] = GYRE_STANDING_SILENT;
    members->seen = 4;
    gyre_members_complete(members);
    assert_int_equal(members->epoch, 4);
    assert_int_equal(members->seat, SEAT);
    assert_int_equal(gyre_members_rank(members->standing, N, SEAT), 0);
    assert_int_equal(gyre_members_count(members->standing, N), 2);
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
    assert_int_equal(members->n, N);
    gyre_members_release(members);
    gyre_members_release(gyre_members_hold(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_epoch_gives_the_seats),
        cmocka_unit_test(ranks_move_up_and_seats_stay),
        cmocka_unit_test(a_member_has_a_name),
        cmocka_unit_test(the_last_user_frees_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
