/* What is the tcp driver's own, beyond the conformance suite: both pollers, crowds, flights in the
 * ring that must be called back, alarms, and the story that a lost peer leaves. One thread drives
 * both ends, so nothing here waits for time: a case that does not finish within a number of polls
 * has failed. */
#include "tcp_pair.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLLS_MOST 2000000
#define BATCH      16

static const struct gyre_driver *const tcp = &gyre_driver_tcp;

/* What came back on one side, counted by what the test needs. */
struct tally {
    int done, failed, last_status;
    uint64_t last_token;
};

static void poll_side(struct tcp_pair *pair, int side, struct tally *tally)
{
    struct gyre_completion out[BATCH];
    int got = tcp->poll(pair->wire[side], 0, out, BATCH);
    assert_in_range(got, 0, BATCH);
    for (int i = 0; i < got; i++) {
        tally->done++;
        tally->failed += out[i].status != 0;
        tally->last_status = out[i].status;
        tally->last_token = out[i].token;
    }
}

static void poll_until(struct tcp_pair *pair, struct tally tally[2], int done0, int done1)
{
    for (long polls = 0; tally[0].done < done0 || tally[1].done < done1; polls++) {
        assert_true(polls < POLLS_MOST);
        poll_side(pair, 0, &tally[0]);
        poll_side(pair, 1, &tally[1]);
    }
}

static struct gyre_match match(uint64_t sequence, unsigned lane)
{
    return (struct gyre_match){
        .comm = 3, .lane = (uint16_t)lane, .sequence = sequence, .fingerprint = 99};
}

static unsigned char *pattern(size_t length, unsigned seed)
{
    unsigned char *bytes = malloc(length + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 31 + (i >> 8) * 7 + seed);
    return bytes;
}

/* -- traffic
 * -----------------------------------------------------------------------------------------------------
 */

struct job { /* one message each way on one pipe */
    unsigned char *out[2], *in[2];
    size_t length;
};

static void start(struct tcp_pair *pair, int pipe, struct job *job, size_t length,
                  uint64_t sequence, unsigned lane)
{
    struct gyre_match name = match(sequence, lane);
    job->length = length;
    for (int side = 0; side < 2; side++) {
        job->out[side] = pattern(length, (unsigned)sequence + 5 * (unsigned)side + lane);
        job->in[side] = calloc(1, length + 1);
        assert_int_equal(tcp->recv(pair->pipe[side][pipe], &name, job->in[side], length, sequence),
                         0);
        assert_int_equal(tcp->send(pair->pipe[side][pipe], &name, job->out[side], length, sequence),
                         0);
    }
}

static void check_and_free(struct job *job)
{
    for (int side = 0; side < 2; side++) {
        assert_memory_equal(job->in[side], job->out[!side], job->length);
        assert_int_equal(job->in[side][job->length], 0);
    }
    for (int side = 0; side < 2; side++) {
        free(job->in[side]);
        free(job->out[side]);
    }
}

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
    const char *serves = tcp->serves(pair.wire[0]);
    tcp_pair_close(&pair);
    if (strcmp(serves, *state)) {
        print_message("%s is refused here: its cases run over %s\n", (char *)*state, serves);
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

/* A large transfer on pipe 0 takes many polls; a small one on pipe 1 must not wait for its end. */
static void bulk_leaves_room(void **state)
{
    struct tcp_pair pair;
    struct job bulk, small;
    struct tally tally[2] = {{0}};
    assert_int_equal(tcp_pair_open(&pair, *state, TCP_PAIR_INET, 2, 1), 0);
    start(&pair, 0, &bulk, 64u << 20, 1, 0);
    for (int i = 0; i < 8; i++) {
        poll_side(&pair, 0, &tally[0]);
        poll_side(&pair, 1, &tally[1]);
    }
    assert_int_equal(tally[0].done + tally[1].done, 0);
    start(&pair, 1, &small, 8, 2, 0);
    poll_until(&pair, tally, 2, 2);
    assert_int_equal(tally[0].last_token, 2);
    assert_int_equal(tally[1].last_token, 2);
    poll_until(&pair, tally, 4, 4);
    check_and_free(&bulk);
    check_and_free(&small);
    tcp_pair_close(&pair);
}

/* -- sleeping
 * ----------------------------------------------------------------------------------------------------
 */

static bool rings(struct gyre_wire *wire, int timeout_ms)
{
    struct gyre_alarm alarm = {.fd = -1};
    int status = tcp->arm(wire, &alarm);
    if (status == GYRE_AGAIN)
        return true;
    assert_int_equal(status, 0);
    struct pollfd waiting = {.fd = alarm.fd, .events = POLLIN};
    return poll(&waiting, 1, timeout_ms) == 1;
}

static void quieten(struct tcp_pair *pair, int side, struct tally *tally)
{
    for (int i = 0; rings(pair->wire[side], 0); i++) {
        assert_true(i < 1000);
        poll_side(pair, side, tally);
    }
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

/* -- endings
 * -----------------------------------------------------------------------------------------------------
 */

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
    const char *const variant[2] = {"epoll", *state};
    assert_int_equal(tcp_pair_open_as(&pair, variant, TCP_PAIR_LOCAL, 1, 1), 0);
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
    assert_non_null(strstr(trouble.text, "rank 0 (127.0.0.1:"));
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
        cmocka_unit_test_prestate(the_asked_poller_serves, variant),
        cmocka_unit_test_prestate(few_connections_exchange, variant),
        cmocka_unit_test_prestate(a_crowd_exchanges, variant),
        cmocka_unit_test_prestate(bulk_leaves_room, variant),
        cmocka_unit_test_prestate(the_alarm_rings, variant),
        cmocka_unit_test_prestate(a_thread_that_armed_may_end, variant),
        cmocka_unit_test_prestate(detach_lets_go_of_buffers, variant),
        cmocka_unit_test_prestate(cancel_withdraws, variant),
        cmocka_unit_test_prestate(a_lost_peer_is_told, variant),
        cmocka_unit_test_prestate(an_end_without_goodbye_is_a_loss, variant),
        cmocka_unit_test_prestate(goodbyes_are_clean, variant),
        cmocka_unit_test_prestate(attach_refuses, variant),
        cmocka_unit_test(an_unknown_poller_is_refused),
    };
    return cmocka_run_group_tests_name(variant, tests, NULL, NULL);
}

int main(void)
{
    return run_over("epoll") + run_over("io_uring");
}
