/* What watches say: every message survives the way, every damaged one is refused; and channels keep
 * order when sockets are full. */
#include "transport/watch/channel.h"
#include "rig/test.h"

#include <errno.h>
#include <fcntl.h>
#include <gyre/gyre.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* -- the format -------------------------------------------------------------------------------- */

static void test_message_survives(void **state)
{
    const struct gyre_watch_message sent = {
        .kind = GYRE_WATCH_FAILURE,
        .flags = GYRE_WATCH_DECIDED,
        .epoch = 0xabcd,
        .rank = 0x01020304,
        .status = GYRE_PEER_LOST,
        .id = 0x99887766,
        .region_length = 0x1122334455667788,
        .payload = (const uint8_t *)"gone",
        .payload_bytes = 4,
    };
    struct gyre_watch_message got;
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    char text[16];
    size_t length = gyre_watch_encode(&sent, bytes);

    assert_int_equal(length, GYRE_WATCH_HEADER_BYTES + 4);
    assert_int_equal(gyre_watch_length(bytes), length);
    assert_int_equal(gyre_watch_decode(bytes, length, &got), 0);
    assert_int_equal(got.kind, sent.kind);
    assert_int_equal(got.flags, sent.flags);
    assert_int_equal(got.epoch, sent.epoch);
    assert_int_equal(got.rank, sent.rank);
    assert_int_equal(got.status, sent.status);
    assert_int_equal(got.id, sent.id);
    assert_true(got.region_length == sent.region_length);
    gyre_watch_text(&got, text, sizeof text);
    assert_string_equal(text, "gone");
}

static void test_state_survives(void **state)
{
    const struct gyre_watch_state sent = {1,          2,
                                          UINT64_MAX, 4,
                                          5,          6,
                                          7,          8,
                                          3,          {{9, 10}, {11, 12}, {13, 14}},
                                          2,          {{15, 16, 17}, {UINT32_MAX, UINT64_MAX, 18}},
                                          1,          {1, UINT32_MAX, 19, "gyre_send: peer 9"}};
    struct gyre_watch_state got = {0};
    uint8_t bytes[GYRE_WATCH_STATE_BYTES];

    gyre_watch_state_encode(&sent, bytes);
    gyre_watch_state_decode(bytes, &got);
    assert_memory_equal(&sent, &got, sizeof sent);
}

/* Bits that mean nothing are dropped, and of a text without an end the last byte. */
static void test_refusal_of_a_state_is_bounded_and_cleaned(void **state)
{
    const size_t why = GYRE_WATCH_STATE_BYTES - GYRE_WATCH_WHY_MAX;
    struct gyre_watch_state got = {0};
    uint8_t bytes[GYRE_WATCH_STATE_BYTES] = {0};

    memset(bytes + why, 'x', GYRE_WATCH_WHY_MAX);
    memset(bytes + why - 16, 0xfe, 4);
    bytes[why + 1] = '\n';
    gyre_watch_state_decode(bytes, &got);
    assert_true(got.parting == 0 && got.refused.stands == 1);
    assert_int_equal(strlen(got.refused.why), GYRE_WATCH_WHY_MAX - 1);
    assert_int_equal(strncmp(got.refused.why, "x?x", 3), 0);
}

static void test_every_flipped_bit_is_refused(void **state)
{
    const struct gyre_watch_message sent = {.kind = GYRE_WATCH_BYE, .epoch = 1, .rank = 2};
    struct gyre_watch_message got;
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    size_t length = gyre_watch_encode(&sent, bytes);

    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(gyre_watch_decode(bytes, length, &got), GYRE_CORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(gyre_watch_decode(bytes, cut, &got), GYRE_CORRUPT);
}

static void test_nonsense_with_a_right_sum_is_refused(void **state)
{
    const struct gyre_watch_message wrong[] = {
        {.kind = 0},
        {.kind = GYRE_WATCH_KINDS},
        {.kind = GYRE_WATCH_FAILURE, .status = 0},
        {.kind = GYRE_WATCH_FAILURE, .status = 5},
        {.kind = GYRE_WATCH_BEAT, .payload = (const uint8_t *)"x", .payload_bytes = 1},
        {.kind = GYRE_WATCH_TELL},
    };
    struct gyre_watch_message got;
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t length = gyre_watch_encode(&wrong[i], bytes);
        assert_int_equal(gyre_watch_decode(bytes, length, &got), GYRE_CORRUPT);
    }
}

static void test_text_is_cut_and_cleaned(void **state)
{
    const struct gyre_watch_message message = {.payload = (const uint8_t *)"a\nb\x1b[31mcdefgh",
                                               .payload_bytes = 14};
    char text[8];

    gyre_watch_text(&message, text, sizeof text);
    assert_string_equal(text, "a?b?[31");
}

/* Text goes to its end or that of the room, whichever comes first. */
static void test_text_ends_where_it_ends(void **state)
{
    struct gyre_watch_message message = {.payload = (const uint8_t *)"abcdefghij"};
    for (uint32_t bytes = 0; bytes <= 10; bytes++) {
        char text[9] = "........", expected[9];
        message.payload_bytes = bytes;
        snprintf(expected, sizeof expected, "%.*s", bytes < 7 ? (int)bytes : 7, "abcdefghij");
        gyre_watch_text(&message, text, 8);
        assert_string_equal(text, expected);
    }
}

/* -- channels ---------------------------------------------------------------------------------- */

struct ends {
    int fd[2];
    struct gyre_watch_channel channel[2];
};

static struct ends ends_of(int type)
{
    struct ends ends;
    int small = 4096;

    assert_int_equal(socketpair(AF_UNIX, type, 0, ends.fd), 0);
    for (int i = 0; i < 2; i++) {
        setsockopt(ends.fd[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
        assert_int_equal(gyre_watch_channel_init(&ends.channel[i], ends.fd[i]), 0);
    }
    return ends;
}

static void close_ends(struct ends *ends)
{
    for (int i = 0; i < 2; i++) {
        gyre_watch_channel_deinit(&ends->channel[i]);
        close(ends->fd[i]);
    }
}

static void send_number(struct ends *ends, uint32_t number, int pass)
{
    static const uint8_t filler[GYRE_WATCH_PAYLOAD_MAX];
    const struct gyre_watch_message message = {.kind = GYRE_WATCH_SHARE,
                                               .id = number,
                                               .payload = filler,
                                               .payload_bytes = number * 37 % 3000};
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];

    size_t length = gyre_watch_encode(&message, bytes);
    assert_int_equal(gyre_watch_channel_send(&ends->channel[0], bytes, length, pass), 0);
}

static int receive_number(struct ends *ends, uint32_t *number, int *passed)
{
    struct gyre_watch_message message;
    uint8_t buffer[GYRE_WATCH_MESSAGE_MAX];
    int status = gyre_watch_channel_receive(&ends->channel[1], buffer, &message, passed);

    if (status == 0)
        *number = message.id;
    return status;
}

/* Sends far more than the socket takes; then reads, sends more into the room that this made, and
 * only then lets the sender flush. */
static void check_order(int type)
{
    enum { FIRST = 200, MANY = 400 };
    struct ends ends = ends_of(type);
    uint32_t next = 0, got = 0, sent = 0;
    int passed, status;

    while (sent < FIRST)
        send_number(&ends, sent++, -1);
    assert_true(gyre_watch_channel_waits(&ends.channel[0]));
    while (next < MANY) {
        while ((status = receive_number(&ends, &got, &passed)) == 0)
            assert_int_equal(got, next++);
        assert_int_equal(status, GYRE_AGAIN);
        if (sent < MANY)
            send_number(&ends, sent++, -1);
        assert_int_equal(gyre_watch_channel_flush(&ends.channel[0]), 0);
    }
    assert_false(gyre_watch_channel_waits(&ends.channel[0]));
    close_ends(&ends);
}

static void test_full_socket_keeps_the_order(void **state)
{
    check_order(SOCK_SEQPACKET);
    check_order(SOCK_STREAM);
}

/* Descriptors wait with their messages; the sender may close its own at once. */
static void test_descriptors_arrive_with_their_messages(void **state)
{
    enum { MANY = 60 };
    struct ends ends = ends_of(SOCK_SEQPACKET);
    uint32_t next = 0, got = 0;
    int passed;
    char name[2];

    for (uint32_t i = 0; i < MANY; i++) {
        int tube[2];
        assert_int_equal(pipe(tube), 0);
        assert_int_equal(write(tube[1], &(char){(char)i}, 1), 1);
        send_number(&ends, i, tube[0]);
        close(tube[0]);
        close(tube[1]);
    }
    while (next < MANY) {
        while (receive_number(&ends, &got, &passed) == 0) {
            assert_int_equal(read(passed, name, 1), 1);
            assert_int_equal(name[0], (char)next);
            assert_int_equal(got, next++);
            assert_true(fcntl(passed, F_GETFD) & FD_CLOEXEC);
            close(passed);
        }
        assert_int_equal(gyre_watch_channel_flush(&ends.channel[0]), 0);
    }
    close_ends(&ends);
}

/* It closes its end with something unread, of which the kernel tells first. */
static void test_last_words_of_a_peer_that_does_not_listen_arrive(void **state)
{
    struct ends ends = ends_of(SOCK_SEQPACKET);
    uint32_t number = 0;
    int passed;

    send_number(&ends, 7, -1);
    assert_int_equal(send(ends.fd[1], "unread", 6, 0), 6);
    close(ends.fd[0]);
    assert_int_equal(receive_number(&ends, &number, &passed), 0);
    assert_int_equal(number, 7);
    assert_int_equal(receive_number(&ends, &number, &passed), -EPIPE);
    ends.fd[0] = dup(ends.fd[1]);
    close_ends(&ends);
}

static void test_end_and_nonsense_end_a_channel(void **state)
{
    const int types[] = {SOCK_SEQPACKET, SOCK_STREAM};
    uint8_t nonsense[64];
    uint32_t number;
    int passed;

    memset(nonsense, 0xff, sizeof nonsense);
    for (int i = 0; i < 2; i++) {
        struct ends ends = ends_of(types[i]);
        assert_int_equal(receive_number(&ends, &number, &passed), GYRE_AGAIN);
        assert_int_equal(send(ends.fd[0], nonsense, sizeof nonsense, 0), sizeof nonsense);
        assert_int_equal(receive_number(&ends, &number, &passed), GYRE_CORRUPT);
        close_ends(&ends);
        ends = ends_of(types[i]);
        send_number(&ends, 1, -1);
        shutdown(ends.fd[0], SHUT_WR);
        assert_int_equal(receive_number(&ends, &number, &passed), 0);
        assert_int_equal(receive_number(&ends, &number, &passed), -EPIPE);
        close_ends(&ends);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_message_survives),
        cmocka_unit_test(test_state_survives),
        cmocka_unit_test(test_refusal_of_a_state_is_bounded_and_cleaned),
        cmocka_unit_test(test_every_flipped_bit_is_refused),
        cmocka_unit_test(test_nonsense_with_a_right_sum_is_refused),
        cmocka_unit_test(test_text_is_cut_and_cleaned),
        cmocka_unit_test(test_text_ends_where_it_ends),
        cmocka_unit_test(test_full_socket_keeps_the_order),
        cmocka_unit_test(test_descriptors_arrive_with_their_messages),
        cmocka_unit_test(test_last_words_of_a_peer_that_does_not_listen_arrive),
        cmocka_unit_test(test_end_and_nonsense_end_a_channel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
