/* The watch's channel over a stream with keys: messages in any pieces, and what somebody in between
 * may do to them. Channels without keys: detect/message_test.c and tests/program/watch/watch.c.
 */
#include "transport/watch/channel.h"

#include "rig/test.h"

#include <gyre/gyre.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char text[] = "rank 3 ended without a goodbye";
#define TEXT_BYTES (sizeof text - 1)
#define SEALED     (GYRE_WATCH_HEADER_BYTES + TEXT_BYTES + GYRE_SEAL_TAG_BYTES)

struct line { /* the test stands between the two ends */
    struct gyre_watch_channel end[2];
    int near[2], far[2];
};

static void open_line(struct line *line, enum gyre_seal_mode mode)
{
    static const struct gyre_traffic_keys keys[2] = {{.out = {1}, .in = {2}},
                                                     {.out = {2}, .in = {1}}};
    int *fd[2] = {line->near, line->far};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd[i]), 0);
        assert_int_equal(gyre_watch_channel_init(&line->end[i], fd[i][0]), 0);
        assert_int_equal(gyre_watch_channel_seal(&line->end[i], mode, &keys[i]), 0);
    }
}

static void close_line(struct line *line)
{
    for (int i = 0; i < 2; i++) {
        gyre_watch_channel_deinit(&line->end[i]);
        close(line->near[i]);
        close(line->far[i]);
    }
}

/* What the first end writes for one message. */
static void write_one(struct line *line, uint8_t wire[SEALED])
{
    uint8_t bytes[GYRE_WATCH_MESSAGE_MAX];
    struct gyre_watch_message message = {
        .kind = GYRE_WATCH_WARNING, .payload = (const uint8_t *)text, .payload_bytes = TEXT_BYTES};
    size_t length = gyre_watch_encode(&message, bytes);
    assert_int_equal(gyre_watch_channel_send(&line->end[0], bytes, length, -1), 0);
    assert_int_equal(recv(line->near[1], wire, SEALED, MSG_DONTWAIT), SEALED);
}

/* Passes bytes on, and returns what the second end makes of them. */
static int read_one(struct line *line, const uint8_t *wire, size_t length)
{
    uint8_t buffer[GYRE_WATCH_MESSAGE_MAX];
    struct gyre_watch_message message;
    char told[GYRE_WATCH_TEXT_MAX];
    int passed;
    assert_int_equal(send(line->far[1], wire, length, 0), length);
    int status = gyre_watch_channel_receive(&line->end[1], buffer, &message, &passed);
    if (status == 0) {
        gyre_watch_text(&message, told, sizeof told);
        assert_string_equal(told, text);
    }
    return status;
}

static void messages_come_in_pieces(void **state)
{
    for (enum gyre_seal_mode mode = GYRE_SEAL_AUTH; mode <= GYRE_SEAL_ENCRYPT; mode++) {
        struct line line;
        uint8_t wire[SEALED];
        open_line(&line, mode);
        for (size_t cut = 1; cut < SEALED; cut++) {
            write_one(&line, wire);
            assert_int_equal(memmem(wire, SEALED, text, TEXT_BYTES) != NULL,
                             mode == GYRE_SEAL_AUTH);
            assert_int_equal(read_one(&line, wire, cut), GYRE_AGAIN);
            assert_int_equal(read_one(&line, wire + cut, SEALED - cut), 0);
        }
        close_line(&line);
    }
}

/* Writes three messages, has `way` of them read, and returns what becomes of the last. */
static int tamper(enum gyre_seal_mode mode, int way)
{
    struct line line;
    uint8_t wire[3][SEALED];
    open_line(&line, mode);
    for (int i = 0; i < 3; i++)
        write_one(&line, wire[i]);
    assert_int_equal(read_one(&line, wire[0], SEALED), 0);
    int status = read_one(&line, wire[way], SEALED);
    close_line(&line);
    return status;
}

static void repeated_and_dropped_messages_are_corrupt(void **state)
{
    for (enum gyre_seal_mode mode = GYRE_SEAL_AUTH; mode <= GYRE_SEAL_ENCRYPT; mode++) {
        assert_int_equal(tamper(mode, 0), GYRE_CORRUPT);
        assert_int_equal(tamper(mode, 1), 0);
        assert_int_equal(tamper(mode, 2), GYRE_CORRUPT);
    }
}

/* All bytes but those of the length, which says how much to wait for. */
static void an_altered_byte_is_corrupt(void **state)
{
    for (enum gyre_seal_mode mode = GYRE_SEAL_AUTH; mode <= GYRE_SEAL_ENCRYPT; mode++)
        for (size_t at = 4; at < SEALED; at++) {
            struct line line;
            uint8_t wire[SEALED];
            open_line(&line, mode);
            write_one(&line, wire);
            wire[at] ^= 0x20;
            assert_int_equal(read_one(&line, wire, SEALED), GYRE_CORRUPT);
            close_line(&line);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages_come_in_pieces),
                                       cmocka_unit_test(repeated_and_dropped_messages_are_corrupt),
                                       cmocka_unit_test(an_altered_byte_is_corrupt)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
