/* How connections of the tcp driver end, beyond the conformance suite: detach and cancel with a
 * read in the ring, the story that a lost peer leaves, goodbyes, and what attach() and open()
 * refuse. Over both pollers. */
#include "unit/transport/link/tcp/tcp_drive.h"

#include <errno.h>

/* With the read in the ring and aimed at the caller's buffer, detach() must have called it back
 * before it returns: what the peer still sends may not appear there. A local socket holds less than
 * one frame, so the read stands in the middle of one. */
static void detach_lets_go_of_buffers(void **state)
{
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    const size_t length = 8u << 20;
    unsigned char *from = pattern(length, 1), *to = calloc(1, length), *after = malloc(length);
    struct gyre_match name = match(1, 0);
    const struct gyre_wire_options wish[2] = {{.variant = "epoll"}, {.variant = *state}};
    assert_int_equal(tcp_pair_open_as(&pair, wish, TCP_PAIR_LOCAL, 1, 1), 0);
    assert_int_equal(tcp->recv(pair.pipe[1][0], &name, to, length, 11), 0);
    assert_int_equal(tcp->send(pair.pipe[0][0], &name, from, length, 12), 0);
    while (to[1000] == 0) {
        poll_side(&pair, 0, &tally[0]);
        poll_side(&pair, 1, &tally[1]);
    }
    quieten(&pair, 1, &tally[1]);
    tcp->detach(pair.pipe[1][0]);
    memcpy(after, to, length);
    poll_until(&pair, tally, 1, 1);
    assert_int_equal(tally[0].last_status, GYRE_PEER_LOST);
    assert_int_equal(tally[1].last_token, 11);
    assert_int_equal(tally[1].last_status, -ECANCELED);
    assert_memory_equal(after, to, length);
    free(from);
    free(to);
    free(after);
    tcp_pair_close(&pair);
}

static void cancel_withdraws(void **state)
{
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    uint64_t first = 1, second = 2, got = 0, value = 77;
    struct gyre_match one = match(1, 0), two = match(2, 1);
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 1, 2), 0);
    assert_int_equal(tcp->recv(pair.pipe[1][0], &one, &first, 8, 21), 0);
    assert_int_equal(tcp->recv(pair.pipe[1][0], &two, &got, 8, 22), 0);
    quieten(&pair, 1, &tally[1]);
    assert_int_equal(tcp->cancel(pair.pipe[1][0], 21), 0);
    poll_until(&pair, tally, 0, 1);
    assert_int_equal(tally[1].last_token, 21);
    assert_int_equal(tally[1].last_status, -ECANCELED);
    assert_int_equal(tcp->cancel(pair.pipe[1][0], 21), -ENOENT);
    assert_int_equal(tcp->send(pair.pipe[0][0], &one, &second, 8, 23), 0);
    assert_int_equal(tcp->send(pair.pipe[0][0], &two, &value, 8, 24), 0);
    poll_until(&pair, tally, 2, 2);
    assert_int_equal(got, 77);
    assert_int_equal(first, 1);
    tcp_pair_close(&pair);
}

static void a_lost_peer_is_told(void **state)
{
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    struct gyre_trouble trouble = {0};
    static unsigned char buffer[64][65536];
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 2, 2), 0);
    for (unsigned i = 0; i < 64; i++) {
        struct gyre_match name = match(i, i);
        assert_int_equal(tcp->recv(pair.pipe[1][0], &name, buffer[i], sizeof buffer[i], i), 0);
    }
    quieten(&pair, 1, &tally[1]);
    tcp->detach(pair.pipe[0][0]);
    assert_true(rings(pair.wire[1], 10000));
    poll_until(&pair, tally, 0, 64);
    assert_int_equal(tally[1].failed, 64);
    assert_int_equal(tcp->state(pair.pipe[1][0], &trouble), GYRE_PEER_LOST);
    assert_non_null(strstr(trouble.text, "rank 0: connection "));
    assert_non_null(strstr(trouble.text, " from rank 1 (127.0.0.1:"));
    assert_non_null(strstr(trouble.text, " to 127.0.0.1:"));
    assert_int_equal(tcp->state(pair.pipe[1][1], NULL), 0);
    struct gyre_match name = match(99, 0);
    assert_int_equal(tcp->send(pair.pipe[1][0], &name, "x", 1, 1), GYRE_PEER_LOST);
    assert_int_equal(tcp->bye(pair.pipe[1][0]), GYRE_PEER_LOST);
    tcp_pair_close(&pair);
}

/* A process that ends closes its sockets in good order; without a goodbye that is a loss all the
 * same. */
static void an_end_without_goodbye_is_a_loss(void **state)
{
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    struct gyre_trouble trouble = {0};
    struct gyre_match name = match(1, 0);
    char buffer[8];
    int fd[2];
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 0, 0), 0);
    assert_true(tcp_pair_sockets(TCP_PAIR_INET, fd));
    struct gyre_channel channel = {.peer = 0, .fds = 1, .fd = {fd[1]}};
    assert_int_equal(tcp->attach(pair.wire[1], &channel, &pair.pipe[1][0], NULL), 0);
    assert_int_equal(tcp->recv(pair.pipe[1][0], &name, buffer, sizeof buffer, 5), 0);
    quieten(&pair, 1, &tally[1]);
    tcp->send(pair.pipe[1][0], &name, buffer, 0, 6); /* so that both directions were used */
    shutdown(fd[0], SHUT_WR);
    assert_true(rings(pair.wire[1], 10000));
    poll_until(&pair, tally, 0, 2);
    assert_int_equal(tcp->state(pair.pipe[1][0], &trouble), GYRE_PEER_LOST);
    assert_non_null(strstr(trouble.text, "without a goodbye"));
    close(fd[0]);
    tcp_pair_close(&pair);
}

/* A goodbye on both sides is no failure, not even when the other end has closed by the time it is
 * read. */
static void goodbyes_are_clean(void **state)
{
    struct tcp_pair pair;
    struct tally tally[2] = {{0}};
    struct job job;
    int bye[2] = {GYRE_AGAIN, GYRE_AGAIN};
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 1, 2), 0);
    start(&pair, 0, &job, 1000, 1, 0);
    for (int polls = 0; bye[0] || bye[1]; polls++) {
        assert_true(polls < POLLS_MOST);
        for (int side = 0; side < 2; side++) {
            poll_side(&pair, side, &tally[side]);
            bye[side] = bye[side] ? tcp->bye(pair.pipe[side][0]) : 0;
            assert_true(bye[side] >= 0);
        }
    }
    assert_int_equal(tally[0].done + tally[1].done, 4);
    check_and_free(&job);
    tcp->detach(pair.pipe[0][0]);
    for (int i = 0; i < 100; i++)
        poll_side(&pair, 1, &tally[1]);
    assert_int_equal(tcp->state(pair.pipe[1][0], NULL), 0);
    tcp_pair_close(&pair);
}

/* A peer that has left with a reset, before this end came to attach. */
static void attach_to_one_that_left(void **state)
{
    const struct linger reset = {.l_onoff = 1};
    struct gyre_trouble trouble = {0};
    struct gyre_pipe *pipe;
    struct tcp_pair pair;
    int fd[2];
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 0, 0), 0);
    assert_true(tcp_pair_sockets(TCP_PAIR_INET, fd));
    assert_int_equal(setsockopt(fd[1], SOL_SOCKET, SO_LINGER, &reset, sizeof reset), 0);
    close(fd[1]);
    const struct gyre_channel channel = {.peer = 1, .fds = 1, .fd = {fd[0]}};
    assert_int_equal(tcp->attach(pair.wire[0], &channel, &pipe, &trouble), GYRE_PEER_LOST);
    assert_string_equal(trouble.text, "tcp: rank 1 left while this rank joined");
    close(fd[0]);
    tcp_pair_close(&pair);
}

static void attach_refuses(void **state)
{
    struct tcp_pair pair;
    struct gyre_trouble trouble = {0};
    struct gyre_pipe *pipe = NULL;
    int fd[2];
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_LOCAL, 0, 0), 0);
    assert_true(tcp_pair_sockets(TCP_PAIR_LOCAL, fd));
    struct gyre_channel none = {.peer = 5}, half = {.peer = 5, .fds = 2, .fd = {fd[0], 1 << 20}};
    assert_int_equal(tcp->attach(pair.wire[0], &none, &pipe, &trouble), -EINVAL);
    trouble = (struct gyre_trouble){0};
    assert_int_equal(tcp->attach(pair.wire[0], &half, &pipe, &trouble), -EBADF);
    assert_non_null(strstr(trouble.text, "rank 5"));
    assert_null(pipe);
    assert_int_equal(close(fd[0]), 0); /* still ours */
    assert_int_equal(close(fd[1]), 0);
    tcp_pair_close(&pair);
}

static void an_unknown_poller_is_refused(void **state)
{
    struct gyre_wire_options options = {.n = 2, .variant = "kqueue"};
    struct gyre_trouble trouble = {0};
    struct gyre_wire *wire = NULL;
    assert_int_equal(tcp->open(&options, &wire, &trouble), GYRE_INVALID);
    assert_non_null(strstr(trouble.text, "\"kqueue\""));
    assert_null(wire);
    tcp->close(NULL);
}

static int run_over(char *variant)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(detach_lets_go_of_buffers, variant),
        cmocka_unit_test_prestate(cancel_withdraws, variant),
        cmocka_unit_test_prestate(a_lost_peer_is_told, variant),
        cmocka_unit_test_prestate(an_end_without_goodbye_is_a_loss, variant),
        cmocka_unit_test_prestate(goodbyes_are_clean, variant),
        cmocka_unit_test_prestate(attach_to_one_that_left, variant),
        cmocka_unit_test_prestate(attach_refuses, variant),
        cmocka_unit_test(an_unknown_poller_is_refused),
    };
    return cmocka_run_group_tests_name(variant, tests, NULL, NULL);
}

int main(void)
{
    return run_over("epoll") + run_over("io_uring");
}
