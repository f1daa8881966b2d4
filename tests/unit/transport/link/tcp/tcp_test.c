/* How the tcp driver moves bytes and wakes sleepers, beyond the conformance suite: few connections
 * and a crowd, a bulk transfer that leaves room, alarms, and threads that end with reads in the
 * ring. Over both pollers. */
#include "unit/transport/link/tcp/tcp_drive.h"

#include "transport/link/tcp/inside.h"
#include "transport/stream/frame.h"

#include <pthread.h>
#include <stdio.h>

/* Every size on every pipe and lane, both ways at once. */
static void exchange(const char *variant, enum tcp_pair_family family, int pipes, int connections)
{
    static const size_t sizes[] = {0, 1, 8, 4096, 16384, 16385, 262144, 262145, 3000001};
    struct tcp_pair pair;
    assert_int_equal(tcp_pair_open(&pair, variant, family, pipes, connections), 0);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct job job[TCP_PAIR_PIPES][3];
        struct tally tally[2] = {{0}};
        for (int i = 0; i < pipes * 3; i++)
            start(&pair, i / 3, &job[i / 3][i % 3], sizes[s], s + 1, (unsigned)i % 3);
        poll_until(&pair, tally, pipes * 6, pipes * 6);
        assert_int_equal(tally[0].failed + tally[1].failed, 0);
        for (int i = 0; i < pipes * 3; i++)
            check_and_free(&job[i / 3][i % 3]);
    }
    tcp_pair_close(&pair);
}

/* All that follows would prove nothing about a poller that does not serve. */
static void the_asked_poller_serves(void **state)
{
    struct tcp_pair pair;
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_LOCAL, 0, 0), 0);
    char asked[32], link[32];
    snprintf(asked, sizeof asked, "tcp/%s", (char *)*state);
    tcp->describe(pair.wire[0], link, sizeof link);
    tcp_pair_close(&pair);
    if (strcmp(link, asked)) {
        print_message("%s is refused here: its cases run over %s\n", asked, link);
        skip();
    }
}

static void few_connections_exchange(void **state)
{
    exchange(*state, TCP_PAIR_LOCAL, 1, 1);
    exchange(*state, TCP_PAIR_INET, 1, 2);
}

static void a_crowd_exchanges(void **state)
{
    exchange(*state, TCP_PAIR_LOCAL, 8, 1);
    exchange(*state, TCP_PAIR_INET, 8, 3);
}

/* Joins one more pipe, by sockets that take less than a short message at a time. */
static void join_narrowly(struct tcp_pair *pair)
{
    struct gyre_channel channel[2] = {{.peer = 1, .fds = 1}, {.peer = 0, .fds = 1}};
    int fd[2], least = 1;
    assert_true(tcp_pair_sockets(TCP_PAIR_LOCAL, fd));
    for (int side = 0; side < 2; side++) {
        channel[side].fd[0] = fd[side];
        assert_int_equal(setsockopt(fd[side], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
        assert_int_equal(tcp->attach(pair->wire[side], &channel[side], &pair->pipe[side][0], NULL),
                         0);
    }
}

/* What a full socket takes the beginning of goes on with the message's post. */
static void a_message_may_leave_in_parts(void **state)
{
    enum { COUNT = 40, LENGTH = 4096 };
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    unsigned char *out[COUNT], *in = malloc(COUNT * LENGTH);
    int posts = 0, parts = 0;
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_LOCAL, 0, 0), 0);
    join_narrowly(&pair);
    for (int i = 0; i < COUNT; i++) {
        struct gyre_match name = match((uint64_t)i + 1, 0);
        size_t length = i % 4 == 1 ? 1000 : LENGTH; /* of the one behind it half finds room */
        uint64_t before = tcp->moved(pair.wire[0]);
        out[i] = pattern(LENGTH, (unsigned)i);
        if (!tcp->send_now(pair.pipe[0][0], &name, out[i], length)) {
            parts += tcp->moved(pair.wire[0]) != before;
            assert_int_equal(tcp->send(pair.pipe[0][0], &name, out[i], length, 1), 0);
            posts++;
        }
        assert_int_equal(tcp->recv(pair.pipe[1][0], &name, in + i * LENGTH, length, 1), 0);
        if (i % 4 == 0)
            poll_until(&pair, tally, posts, i + 1); /* and once more from the start */
    }
    poll_until(&pair, tally, posts, COUNT);
    assert_int_equal(tally[0].failed + tally[1].failed, 0);
    assert_in_range(parts, 1, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_memory_equal(in + i * LENGTH, out[i], i % 4 == 1 ? 1000 : LENGTH);
        free(out[i]);
    }
    free(in);
    tcp_pair_close(&pair);
}

static uint64_t moved(const struct tcp_pair *pair, int side)
{
    return gyre_driver_tcp.moved(pair->wire[side]);
}

/* A large transfer on pipe 0 takes many polls; a small one on pipe 1 must not wait for its end, and
 * bytes that move before anything completes are counted. */
static void bulk_leaves_room(void **state)
{
    struct tcp_pair pair;
    struct job bulk, small;
    struct tally tally[2] = {{0}};
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 2, 1), 0);
    start(&pair, 0, &bulk, 64u << 20, 1, 0);
    uint64_t before[2] = {moved(&pair, 0), moved(&pair, 1)};
    for (int i = 0; i < 8; i++) {
        poll_side(&pair, 0, &tally[0]);
        poll_side(&pair, 1, &tally[1]);
    }
    assert_int_equal(tally[0].done + tally[1].done, 0);
    assert_true(moved(&pair, 0) > before[0] && moved(&pair, 1) > before[1]);
    start(&pair, 1, &small, 8, 2, 0);
    poll_until(&pair, tally, 2, 2);
    assert_int_equal(tally[0].last_token, 2);
    assert_int_equal(tally[1].last_token, 2);
    poll_until(&pair, tally, 4, 4);
    check_and_free(&bulk);
    check_and_free(&small);
    tcp_pair_close(&pair);
}

/* The most bytes that one poll of a side has moved so far. */
static void poll_measured(struct tcp_pair *pair, int side, struct tally *tally, uint64_t *most)
{
    uint64_t before = moved(pair, side);
    poll_side(pair, side, tally);
    uint64_t now = moved(pair, side) - before;
    *most = now > *most ? now : *most;
}

/* However much the sockets hold, one poll moves a budget and what the last call has moved at once,
 * and little the other way. Side 1 looks seldom, so that there is much to read. */
static void a_poll_has_a_budget(void **state)
{
    enum { LENGTH = 64 << 20, SMALL = 4096 };
    const uint64_t limit =
        GYRE_TCP_BUDGET_BYTES + GYRE_TCP_VECTORS * (GYRE_FRAME_PAYLOAD_MAX + SMALL) + SMALL;
    struct gyre_match name = match(1, 0);
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    uint64_t most[2] = {0};
    unsigned char *out = pattern(LENGTH, 1), *in = malloc(LENGTH);
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 1, 1), 0);
    assert_int_equal(tcp->recv(pair.pipe[1][0], &name, in, LENGTH, 1), 0);
    assert_int_equal(tcp->send(pair.pipe[0][0], &name, out, LENGTH, 1), 0);
    for (int i = 0; tally[0].done + tally[1].done < 2; i++) {
        poll_measured(&pair, 0, &tally[0], &most[0]);
        if (i % 64 == 0)
            poll_measured(&pair, 1, &tally[1], &most[1]);
    }
    assert_int_equal(tally[0].failed + tally[1].failed, 0);
    assert_memory_equal(in, out, LENGTH);
    assert_in_range(most[0], 1, limit);
    assert_in_range(most[1], 1, limit);
    free(in);
    free(out);
    tcp_pair_close(&pair);
}

/* Side 1 only ever polls when its alarm rang; the alarm must be silent before, and ring for every
 * message. */
static void the_alarm_rings(void **state)
{
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 6, 1), 0);
    for (unsigned round = 1; round <= 60; round++) {
        struct gyre_match name = match(round, 0);
        uint64_t value = round, got = 0;
        struct gyre_pipe **to = pair.pipe[1], **from = pair.pipe[0];
        bool unexpected = round % 3 == 0;
        if (!unexpected)
            assert_int_equal(tcp->recv(to[round % 6], &name, &got, sizeof got, round), 0);
        quieten(&pair, 1, &tally[1]);
        assert_int_equal(tcp->send(from[round % 6], &name, &value, sizeof value, round), 0);
        poll_side(&pair, 0, &tally[0]);
        assert_true(rings(pair.wire[1], 10000));
        poll_side(&pair, 1, &tally[1]);
        if (unexpected)
            assert_int_equal(tcp->recv(to[round % 6], &name, &got, sizeof got, round), 0);
        poll_until(&pair, tally, (int)round, (int)round);
        assert_int_equal(got, value);
    }
    assert_int_equal(tally[0].failed + tally[1].failed, 0);
    tcp_pair_close(&pair);
}

static void *arm_wire(void *wire)
{
    struct gyre_alarm alarm;
    while (tcp->arm(wire, &alarm) == GYRE_AGAIN)
        tcp->poll(wire, 0, (struct gyre_completion[1]){{0}}, 1);
    return NULL;
}

/* The kernel cancels what a thread has in its ring when that thread ends; the wire must not care.
 */
static void a_thread_that_armed_may_end(void **state)
{
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    pthread_t thread;
    uint64_t value = 42, got = 0;
    struct gyre_match name = match(1, 0);
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 1, 1), 0);
    assert_int_equal(tcp->recv(pair.pipe[1][0], &name, &got, sizeof got, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, arm_wire, pair.wire[1]), 0);
    pthread_join(thread, NULL);
    quieten(&pair, 1, &tally[1]);
    assert_int_equal(tcp->send(pair.pipe[0][0], &name, &value, sizeof value, 1), 0);
    assert_true(rings(pair.wire[1], 10000));
    poll_until(&pair, tally, 1, 1);
    assert_int_equal(got, 42);
    assert_int_equal(tally[1].failed, 0);
    tcp_pair_close(&pair);
}

/* How rank 1 stands after a message each way. */
static int stands(const char *variant, const bool bare[2], size_t length)
{
    const struct gyre_wire_options wish[2] = {{.variant = variant, .bare_payload = bare[0]},
                                              {.variant = variant, .bare_payload = bare[1]}};
    struct tcp_pair pair;
    struct job job;
    struct tally tally[2] = {{0}};
    assert_int_equal(tcp_pair_open_as(&pair, wish, TCP_PAIR_INET, 1, 1), 0);
    start(&pair, 0, &job, length, 1, 0);
    for (long polls = 0; tally[1].done < 2 && polls < POLLS_MOST; polls++) {
        poll_side(&pair, 0, &tally[0]);
        poll_side(&pair, 1, &tally[1]);
    }
    assert_int_equal(tally[1].done, 2);
    int status = tcp->state(pair.pipe[1][0], NULL);
    if (!status)
        poll_until(&pair, tally, 2, 2);
    tcp_pair_close(&pair);
    if (!status)
        check_and_free(&job);
    else
        free_job(&job);
    return status;
}

static void payload_is_summed_unless_both_ends_forgo_it(void **state)
{
    static const bool neither[2] = {false, false}, one[2] = {true, false}, other[2] = {false, true},
                      both[2] = {true, true};
    assert_int_equal(stands(*state, neither, 300000), 0);
    assert_int_equal(stands(*state, both, 300000), 0);
    assert_int_equal(stands(*state, one, 300000), GYRE_CORRUPT);
    assert_int_equal(stands(*state, one, 8), GYRE_CORRUPT);
    assert_int_equal(stands(*state, other, 8), GYRE_CORRUPT);
    assert_int_equal(stands(*state, other, 0), GYRE_CORRUPT); /* each frame says which it is */
}

static int run_over(char *variant)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(the_asked_poller_serves, variant),
        cmocka_unit_test_prestate(few_connections_exchange, variant),
        cmocka_unit_test_prestate(a_crowd_exchanges, variant),
        cmocka_unit_test_prestate(payload_is_summed_unless_both_ends_forgo_it, variant),
        cmocka_unit_test_prestate(a_message_may_leave_in_parts, variant),
        cmocka_unit_test_prestate(bulk_leaves_room, variant),
        cmocka_unit_test_prestate(a_poll_has_a_budget, variant),
        cmocka_unit_test_prestate(the_alarm_rings, variant),
        cmocka_unit_test_prestate(a_thread_that_armed_may_end, variant),
    };
    return cmocka_run_group_tests_name(variant, tests, NULL, NULL);
}

int main(void)
{
    return run_over("epoll") + run_over("io_uring");
}
