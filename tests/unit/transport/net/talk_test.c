/* Records on the way are repeated, dropped and exchanged: the receiver notices each. What whole
 * conversations do is tested by tests/program/job/join_refused.c. */
#include "transport/net/talk.h"
#include "rig/test.h"

#include <gyre/gyre.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAYLOAD = 5, RECORD = GYRE_RECORD_HEADER + PAYLOAD + GYRE_DIGEST_BYTES };

struct talk_rig {
    struct gyre_talk from, to;
    int out, in; /* what `from` has sent is read here; what `to` gets is written there */
};

static void exchange_handshake(struct gyre_handshake *from, struct gyre_handshake *to)
{
    const uint8_t *bytes;
    uint8_t *where;
    size_t length = gyre_handshake_output(from, &bytes);
    assert_true(gyre_handshake_room(to, &where) >= length);
    memcpy(where, bytes, length);
    gyre_handshake_sent(from, length);
    assert_true(gyre_handshake_took(to, length) >= 0);
}

static void open_talks(struct talk_rig *rig)
{
    static const uint8_t key[GYRE_KEY_BYTES] = {1}, nonce[2][GYRE_NONCE_BYTES] = {{2}, {3}};
    struct gyre_claim client = {.version_low = GYRE_PROTOCOL_LOW,
                                .version_high = GYRE_PROTOCOL_HIGH,
                                .rank = 1,
                                .world = 2};
    struct gyre_claim server = {.version_low = GYRE_PROTOCOL_LOW,
                                .version_high = GYRE_PROTOCOL_HIGH,
                                .rank = 0,
                                .world = 2};
    struct gyre_handshake *one = &rig->from.shake, *other = &rig->to.shake;
    int pair[2][2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]), 0);
    gyre_talk_open(&rig->from, pair[0][0]);
    gyre_talk_open(&rig->to, pair[1][0]);
    rig->out = pair[0][1];
    rig->in = pair[1][1];
    assert_int_equal(gyre_handshake_start(one, GYRE_HANDSHAKE_CLIENT, &client, key, nonce[0]), 0);
    assert_int_equal(gyre_handshake_start(other, GYRE_HANDSHAKE_SERVER, &server, key, nonce[1]), 0);
    exchange_handshake(one, other);
    exchange_handshake(other, one);
    exchange_handshake(one, other);
}

static void close_talks(struct talk_rig *rig)
{
    gyre_talk_close(&rig->from);
    gyre_talk_close(&rig->to);
    close(rig->out);
    close(rig->in);
}

static void say(struct talk_rig *rig, const char *payload, uint8_t record[RECORD])
{
    assert_int_equal(gyre_talk_say(&rig->from, 7, payload, PAYLOAD), 0);
    assert_int_equal(recv(rig->out, record, RECORD, MSG_WAITALL), RECORD);
}

static int hear(struct talk_rig *rig, const uint8_t record[RECORD], const char *payload)
{
    struct gyre_record heard;
    assert_int_equal(send(rig->in, record, RECORD, 0), RECORD);
    int status = gyre_talk_step(&rig->to, &heard);
    if (!status)
        assert_memory_equal(heard.payload, payload, PAYLOAD);
    return status;
}

static void records_come_once_and_in_order(void **state)
{
    struct talk_rig rig;
    uint8_t first[RECORD], second[RECORD];
    (void)state;
    open_talks(&rig);
    say(&rig, "first", first);
    say(&rig, "other", second);
    assert_int_equal(hear(&rig, first, "first"), 0);
    assert_int_equal(hear(&rig, second, "other"), 0);
    close_talks(&rig);
}

static void a_repeated_record_is_noticed(void **state)
{
    struct talk_rig rig;
    uint8_t first[RECORD];
    (void)state;
    open_talks(&rig);
    say(&rig, "first", first);
    assert_int_equal(hear(&rig, first, "first"), 0);
    assert_int_equal(hear(&rig, first, "first"), GYRE_CORRUPT);
    close_talks(&rig);
}

static void a_record_before_its_turn_is_noticed(void **state)
{
    struct talk_rig rig;
    uint8_t first[RECORD], second[RECORD];
    (void)state;
    open_talks(&rig);
    say(&rig, "first", first);
    say(&rig, "other", second);
    assert_int_equal(hear(&rig, second, "other"), GYRE_CORRUPT);
    close_talks(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_once_and_in_order),
        cmocka_unit_test(a_repeated_record_is_noticed),
        cmocka_unit_test(a_record_before_its_turn_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
