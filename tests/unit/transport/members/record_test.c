/* Statements as bytes: they come back, and nothing that is wrong is taken. */
#include "rig/test.h"

#include "transport/members/record.h"

#include <gyre/gyre.h>

#include <string.h>

enum { N = 3, BYTES = 16 };

static const uint8_t standing[N] = {GYRE_STANDS, GYRE_STANDING_SILENT, GYRE_STANDING_LEFT};

static size_t encode(uint8_t bytes[BYTES + 1], struct gyre_statement said)
{
    said.standing = standing;
    return gyre_statement_encode(&said, N, bytes);
}

static int decode(uint8_t *bytes, size_t length, struct gyre_statement *heard)
{
    const struct gyre_record record = {.payload = bytes, .length = length};
    return gyre_statement_decode(&record, N, heard);
}

static void a_statement_comes_back(void **state)
{
    static const uint8_t wire[BYTES] = {7, 0, 0, 0, 9, 1, 0, 0, 2, 0, 0, 0, 1, 0, 2, 3};
    struct gyre_statement heard;
    uint8_t bytes[BYTES + 1];
    size_t length = encode(bytes, (struct gyre_statement){7, 265, 2, true, NULL});
    assert_int_equal(length, BYTES);
    assert_int_equal(length, gyre_statement_bytes(N));
    assert_memory_equal(bytes, wire, BYTES);
    assert_int_equal(decode(bytes, length, &heard), 0);
    assert_int_equal(heard.epoch, 7);
    assert_int_equal(heard.seen, 265);
    assert_int_equal(heard.coordinator, 2);
    assert_true(heard.leaving);
    assert_memory_equal(heard.standing, standing, N);
}

static void no_other_length_is_taken(void **state)
{
    struct gyre_statement heard;
    uint8_t bytes[BYTES + 1] = {0};
    encode(bytes, (struct gyre_statement){1, 1, 0, false, NULL});
    for (size_t length = 0; length <= BYTES + 1; length++)
        assert_int_equal(decode(bytes, length, &heard), length == BYTES ? 0 : GYRE_CORRUPT);
}

static void an_unknown_standing_is_refused(void **state)
{
    struct gyre_statement heard;
    uint8_t bytes[BYTES + 1];
    for (uint32_t seat = 0; seat < N; seat++) {
        encode(bytes, (struct gyre_statement){1, 1, 0, false, NULL});
        bytes[BYTES - N + seat] = GYRE_STANDINGS;
        assert_int_equal(decode(bytes, BYTES, &heard), GYRE_CORRUPT);
    }
}

static void an_epoch_was_seen_before_it_is_completed(void **state)
{
    struct gyre_statement heard;
    uint8_t bytes[BYTES + 1];
    encode(bytes, (struct gyre_statement){2, 1, 0, false, NULL});
    assert_int_equal(decode(bytes, BYTES, &heard), GYRE_CORRUPT);
}

static void a_coordinator_that_is_no_seat_is_none(void **state)
{
    struct gyre_statement heard;
    uint8_t bytes[BYTES + 1];
    encode(bytes, (struct gyre_statement){1, 1, N, false, NULL});
    assert_int_equal(decode(bytes, BYTES, &heard), 0);
    assert_int_equal(heard.coordinator, UINT32_MAX);
}

static void a_member_outside_an_agreement_says_how_it_stands(void **state)
{
    struct gyre_members members = {
        .n = N, .epoch = 4, .seen = 6, .standing = (uint8_t *)(uintptr_t)standing};
    struct gyre_statement said = gyre_members_statement(&members);
    assert_int_equal(said.epoch, 4);
    assert_int_equal(said.seen, 6);
    assert_int_equal(said.coordinator, UINT32_MAX);
    assert_false(said.leaving);
    assert_ptr_equal(said.standing, standing);
}

static void seats_are_read_where_they_may_stand(void **state)
{
    struct gyre_seat at[N] = {0};
    uint8_t bytes[8 + GYRE_SEAT_BYTES + 1] = {1, 0, 0, 0, 1, 0, 0, 0};
    struct gyre_record record = {.payload = bytes, .length = 8 + GYRE_SEAT_BYTES};
    bytes[8 + 24] = 77;
    memcpy(bytes + 8 + 28, "host", 5);
    assert_int_equal(gyre_seats_read(&record, 1, N, at), 0);
    assert_int_equal(at[1].pid, 77);
    assert_string_equal(at[1].host, "host");
    assert_int_equal(gyre_seats_read(&record, 2, N, at), GYRE_CORRUPT); /* below the least */
    assert_int_equal(gyre_seats_read(&record, 0, 1, at), GYRE_CORRUPT); /* behind the last */
    record.length++;
    assert_int_equal(gyre_seats_read(&record, 1, N, at), GYRE_CORRUPT);
    record.length = 7;
    assert_int_equal(gyre_seats_read(&record, 1, N, at), GYRE_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_statement_comes_back),
        cmocka_unit_test(no_other_length_is_taken),
        cmocka_unit_test(an_unknown_standing_is_refused),
        cmocka_unit_test(an_epoch_was_seen_before_it_is_completed),
        cmocka_unit_test(a_coordinator_that_is_no_seat_is_none),
        cmocka_unit_test(seats_are_read_where_they_may_stand),
        cmocka_unit_test(a_member_outside_an_agreement_says_how_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
