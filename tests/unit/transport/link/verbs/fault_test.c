/* What the verbs driver makes of failures that no machine here has, on a stand-in for the library:
 * what requests end with, what devices say and do not say, and how a link goes on over TCP. */
#include "unit/transport/link/verbs/verbs_half.h"
#include "rig/test.h"
#include "transport/stream/frame.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define UP IBV_PORT_ACTIVE

/* -- faults ------------------------------------------------------------------------------------ */

static const struct fault {
    enum ibv_wc_status said;
    enum ibv_port_state port;
    int status;
    const char *words;
} faults[] = {
    {IBV_WC_RETRY_EXC_ERR, UP, GYRE_PEER_LOST, "no try was answered"},
    {IBV_WC_RETRY_EXC_ERR, IBV_PORT_DOWN, -ENETDOWN, "this rank's port is down"},
    {IBV_WC_RNR_RETRY_EXC_ERR, UP, GYRE_PEER_LOST, "it had no receive posted at any try"},
    {IBV_WC_REM_ACCESS_ERR, UP, GYRE_PEER_LOST, "remote access error"},
    {IBV_WC_REM_INV_REQ_ERR, UP, GYRE_PEER_LOST, "remote invalid request"},
    {IBV_WC_REM_OP_ERR, UP, GYRE_PEER_LOST, "remote operation error"},
    {IBV_WC_REM_ABORT_ERR, UP, GYRE_PEER_LOST, "abort"},
    {IBV_WC_WR_FLUSH_ERR, UP, GYRE_PEER_LOST, "Flushed"},
    {IBV_WC_RESP_TIMEOUT_ERR, UP, GYRE_PEER_LOST, "timeout"},
    {IBV_WC_BAD_RESP_ERR, UP, GYRE_PEER_LOST, "bad response"},
    {IBV_WC_LOC_PROT_ERR, UP, -EIO, "local protection error"},
    {IBV_WC_LOC_LEN_ERR, UP, -EIO, "local length error"},
    {IBV_WC_LOC_QP_OP_ERR, UP, -EIO, "local QP operation error"},
    {IBV_WC_LOC_ACCESS_ERR, UP, -EIO, "local access error"},
    {IBV_WC_FATAL_ERR, IBV_PORT_DOWN, -EIO, "fatal error"},
    {IBV_WC_GENERAL_ERR, UP, -EIO, "general error"},
};

static void lower(char *text)
{
    for (; *text; text++)
        *text = *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
}

/* Each names both ends, and is seen by the posts. */
static void what_requests_end_with_is_told(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(faults); i++) {
        const struct fault *it = &faults[i];
        const struct ibv_wc done = {.status = it->said};
        struct gyre_verbs_wire *wire;
        char text[GYRE_VERBS_STORY], words[64];
        fake_verbs_reset();
        assert_int_equal(half_open(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = half_pipe(wire, 0, -1);
        fake_verbs.port[0].state = it->port;
        gyre_verbs_fail_request(pipe->queue, &done);
        if (pipe->end.status != it->status)
            fail_msg("%s: %d (%s)", ibv_wc_status_str(it->said), pipe->end.status,
                     pipe->end.trouble.text);
        snprintf(text, sizeof text, "%s", pipe->end.trouble.text);
        snprintf(words, sizeof words, "%s", it->words);
        lower(text);
        lower(words);
        half_says(text, words);
        half_says(text, "verbs link from rank 3 to rank 7 (fake0:1, gid ::1, queue pair 41 to gid "
                        "::2, queue pair 42)");
        half_says(text, it->port == UP ? "this rank's port is active" : "this rank's port is down");
        half_says(text, "; tries: 7 of 0.27 s or more, 7 for a receive");
        half_close(wire);
    }
}

static void say_event(struct gyre_verbs_wire *wire, enum ibv_event_type event)
{
    uint64_t ring = 1;
    fake_verbs.has_event = true;
    fake_verbs.event = event;
    assert_int_equal(write(wire->card->context->async_fd, &ring, sizeof ring), sizeof ring);
    gyre_verbs_hear_events(wire);
    assert_false(fake_verbs.has_event);
}

/* Of a device all links go, of a port none by itself: requests tell. */
static void what_devices_say_is_heard(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(half_open(2, &wire), 0);
    const struct gyre_verbs_pipe *one = half_pipe(wire, 0, -1), *two = half_pipe(wire, 1, -1);
    say_event(wire, IBV_EVENT_PORT_ERR);
    assert_int_equal(one->end.status, 0);
    say_event(wire, IBV_EVENT_DEVICE_FATAL);
    assert_int_equal(one->end.status, -ENODEV);
    assert_int_equal(two->end.status, -ENODEV);
    half_says(two->end.trouble.text, "to rank 8 ");
    half_says(two->end.trouble.text,
              "the device has failed or was removed; this rank's port is active");
    half_close(wire);
}

#define SECONDS UINT64_C(1000000000)

static void a_queue_of_completions_that_fails_ends_all(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(half_open(2, &wire), 0);
    const struct gyre_verbs_pipe *one = half_pipe(wire, 0, -1), *two = half_pipe(wire, 1, -1);
    say_event(wire, IBV_EVENT_CQ_ERR);
    assert_int_equal(one->end.status, -EIO);
    assert_int_equal(two->end.status, -EIO);
    half_says(two->end.trouble.text, "to rank 8 ");
    half_says(two->end.trouble.text,
              "the device's queue of completions has failed; this rank's port");
    half_close(wire);
}

/* Looks every dead time / 16, from second to second. */
static void wait_on(struct gyre_verbs_wire *wire, uint64_t from, uint64_t to)
{
    for (uint64_t now = 16 * from; now < 16 * to; now++)
        gyre_verbs_check_timeouts(wire, now * SECONDS / 16);
}

static const struct patience {
    const char *what;
    enum ibv_port_state port; /* after an event said that it is down; UP: none did */
    int query;                /* what the device says of it */
    uint32_t asked;           /* requests that should have been answered */
    uint32_t dead;            /* seconds */
    int status;
    const char *words;
} patiences[] = {
    {"nothing to wait for", UP, 0, 0, 1, 0, NULL},
    {"a port that stays down", IBV_PORT_DOWN, 0, 0, 1, -ENETDOWN,
     "of no use for 1.0 s; this rank's port is down; tries: 7 of 0.27 s"},
    {"a device that says nothing", IBV_PORT_DOWN, ENODEV, 0, 1, -ENODEV, "not to be asked"},
    {"a request without an answer", UP, 0, 2, 1, GYRE_PEER_LOST,
     "neither an answer nor an error for 1.0 s"},
    {"the same of a device that has gone", UP, EIO, 2, 1, -ENODEV, "not to be asked"},
    {"no dead time", IBV_PORT_DOWN, 0, 2, 0, 0, NULL},
};

static void what_never_ends_is_given_up(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(patiences); i++) {
        const struct patience *it = &patiences[i];
        struct gyre_verbs_wire *wire;
        fake_verbs_reset();
        assert_int_equal(half_open(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = half_pipe(wire, 0, -1);
        wire->dead_ns = it->dead * SECONDS;
        pipe->queue->signals = it->asked;
        if (it->port != UP)
            say_event(wire, IBV_EVENT_PORT_ERR);
        fake_verbs.port[0].state = it->port;
        fake_verbs.port_status = it->query;
        wait_on(wire, 100, 101);
        assert_int_equal(pipe->end.status, 0);
        wait_on(wire, 101, 102);
        if (pipe->end.status != it->status)
            fail_msg("%s: %d (%s)", it->what, pipe->end.status, pipe->end.trouble.text);
        if (it->words) {
            half_says(pipe->end.trouble.text, it->words);
            half_says(pipe->end.trouble.text, "queue pair 41 to GID ::2, queue pair 42");
        }
        half_close(wire);
    }
}

/* Nor a process that was stopped for a while, and has not read yet what came meanwhile. */
static void what_goes_on_is_waited_for(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(half_open(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = half_pipe(wire, 0, -1);
    wire->dead_ns = SECONDS;
    say_event(wire, IBV_EVENT_PORT_ERR);
    fake_verbs.port[0].state = IBV_PORT_DOWN;
    pipe->queue->signals = 100;
    wait_on(wire, 100, 101);
    fake_verbs.port[0].state = UP;
    pipe->queue->signals_done++;
    wait_on(wire, 101, 102);
    assert_false(wire->card->doubtful);
    fake_verbs.port[0].state = IBV_PORT_DOWN;
    pipe->queue->signals_done++;
    gyre_verbs_check_timeouts(wire, 5000 * SECONDS);
    gyre_verbs_check_timeouts(wire, 9000 * SECONDS);
    assert_int_equal(pipe->end.status, 0);
    half_close(wire);
}

/* A withdrawn send shows that the peer has given credit back for what never left. Then all posts
 * end, and no device may go on with their memory. */
static void a_stream_that_fails_in_cancel_fails_the_pipe(void **state)
{
    const struct gyre_match match = {.sequence = 1};
    const struct gyre_frame credit = {.kind = GYRE_FRAME_CREDIT,
                                      .match.sequence = 4 + GYRE_UNEXPECTED_CHARGE};
    struct gyre_verbs_wire *wire;
    struct iovec iov[2];
    uint8_t head[GYRE_FRAME_BYTES];
    (void)state;
    fake_verbs_reset();
    assert_int_equal(half_open(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = half_pipe(wire, 0, -1);
    struct gyre_stream *stream = pipe->end.stream[0];
    assert_int_equal(gyre_stream_send(stream, &match, "four", 4, 7), 0);
    assert_true(gyre_stream_gather(stream, iov, 2) > 0);
    gyre_frame_encode(&credit, head);
    assert_int_equal(gyre_stream_feed(stream, head, sizeof head), 0);
    assert_int_equal(gyre_driver_verbs.cancel(&pipe->end, 7), 0);
    assert_int_equal(pipe->end.status, GYRE_CORRUPT);
    half_close(wire);
}

/* -- going on over TCP ------------------------------------------------------------------------- */

/* A device that went without a word does not end what was posted: the pipe fails as it would have
 * failed at once, but not before its time, and not by the clock of a caller that has none. */
static void wait_for_receives(uint32_t number)
{
    struct ibv_qp queue = {.qp_num = 9};
    struct gyre_verbs_wire *wire;
    fake_verbs_reset();
    assert_int_equal(half_open(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = half_pipe(wire, 0, -1);
    pipe->queue[1] = pipe->queue[0];
    pipe->way[pipe->ways++] = &pipe->queue[1];
    pipe->queue->pair = &queue;
    pipe->falls_back = true;
    pipe->queue[number].receives = 3;
    gyre_verbs_break(pipe->queue, -ENETDOWN, "it is no good any more");
    assert_int_equal(fake_verbs.modified, 1);
    assert_true(gyre_verbs_fallback_serve(wire, 0));
    assert_true(gyre_verbs_fallback_serve(wire, 1000 * SECONDS));
    assert_true(gyre_verbs_fallback_serve(wire, 1004 * SECONDS));
    assert_int_equal(pipe->end.status, 0);
    gyre_verbs_fallback_serve(wire, 1006 * SECONDS);
    assert_int_equal(pipe->end.status, -ENETDOWN);
    half_says(pipe->end.trouble.text, "what was posted to the device does not end");
    pipe->queue->pair = NULL;
    half_close(wire);
}

static void receives_that_do_not_end_fail_the_pipe(void **state)
{
    (void)state;
    wait_for_receives(0);
    wait_for_receives(1);
}

static const struct {
    const char *what;
    uint8_t words[16]; /* magic, messages, bytes; little endian */
    int status;
} hellos[] = {
    {"all has come", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 100}, 0},
    {"some has", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 41}, 0},
    {"less than was said to be consumed", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 39}, GYRE_CORRUPT},
    {"more than was sent", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 101}, GYRE_CORRUPT},
    {"a message that was not sent", {0x47, 0x79, 0x72, 0x44, 1, 0, 0, 0, 100}, GYRE_CORRUPT},
    {"other words", {0x48, 0x79, 0x72, 0x44, 0, 0, 0, 0, 100}, GYRE_CORRUPT},
};

/* What the other end says of what has come is bounded by what was sent. The peer before it has
 * gone. */
static void counts_of_the_other_end_are_bounded(void **state)
{
    uint8_t got[256];
    (void)state;
    for (uint32_t i = 0; i < COUNT(hellos); i++) {
        struct ibv_qp queue = {.qp_num = 9};
        struct gyre_verbs_wire *wire;
        int fd[2];
        fake_verbs_reset();
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        assert_int_equal(half_open(2, &wire), 0);
        struct gyre_verbs_pipe *pipe = half_pipe(wire, 1, fd[0]);
        pipe->queue->pair = &queue;
        pipe->falls_back = true;
        pipe->inbox = wire->staging;
        pipe->outbox = wire->staging + wire->ring;
        pipe->written = 100;
        pipe->freed = 40;
        pipe->read = 7;
        assert_int_equal(write(fd[1], hellos[i].words, 16), 16);
        gyre_verbs_break(pipe->queue, GYRE_PEER_LOST, "it is no good any more");
        for (int turn = 0; turn < 3; turn++)
            gyre_verbs_fallback_serve(wire, SECONDS);
        if (pipe->end.status != hellos[i].status)
            fail_msg("%s: %d (%s)", hellos[i].what, pipe->end.status, pipe->end.trouble.text);
        ssize_t sent = recv(fd[1], got, sizeof got, MSG_DONTWAIT);
        if (!pipe->end.status) {
            assert_int_equal(sent, hellos[i].words[8] == 100 ? 16 : 16 + 16 + 59);
            assert_int_equal(got[8], 7);
        }
        close(fd[1]);
        half_close(wire);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_requests_end_with_is_told),
        cmocka_unit_test(what_devices_say_is_heard),
        cmocka_unit_test(a_queue_of_completions_that_fails_ends_all),
        cmocka_unit_test(what_never_ends_is_given_up),
        cmocka_unit_test(what_goes_on_is_waited_for),
        cmocka_unit_test(a_stream_that_fails_in_cancel_fails_the_pipe),
        cmocka_unit_test(receives_that_do_not_end_fail_the_pipe),
        cmocka_unit_test(counts_of_the_other_end_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
