/* Connections of the tcp driver that are reset and made anew: every byte arrives once, in order,
 * over both pollers, without keys, authenticated and encrypted. The test makes the connections that
 * the domain would. In haste three modes of six have both pollers and all three securities. */
#include "unit/transport/link/tcp/tcp_drive.h"

#include "base/clock.h"
#include "base/rng.h"
#include "link/resets.h"
#include "rig/haste.h"
#include "transport/link/end.h"

#include <errno.h>
#include <stdio.h>

#define CONNECTIONS 2
#define MESSAGES    40
#define RESETS      60

static const struct mode {
    const char *poller;
    enum gyre_seal_mode security;
} mode[] = {{"epoll", GYRE_SEAL_NONE},    {"io_uring", GYRE_SEAL_NONE},
            {"epoll", GYRE_SEAL_AUTH},    {"io_uring", GYRE_SEAL_AUTH},
            {"epoll", GYRE_SEAL_ENCRYPT}, {"io_uring", GYRE_SEAL_ENCRYPT}};

static const struct gyre_traffic_keys keys[2][CONNECTIONS] = {
    {{.out = {1}, .in = {2}}, {.out = {3}, .in = {4}}},
    {{.out = {2}, .in = {1}}, {.out = {4}, .in = {3}}}};

struct line { /* a pair of renewable pipes, and what has to be made anew */
    struct tcp_pair pair;
    bool narrow; /* kernels take little, so much is under way */
    int fd[2][CONNECTIONS];
    uint32_t number[CONNECTIONS];
    struct gyre_break lost[2][CONNECTIONS];
    bool away[2][CONNECTIONS];
    int renewed;
};

static void connect_both(const struct line *line, int fd[2])
{
    int little = 64 * 1024;
    assert_true(tcp_pair_sockets(TCP_PAIR_INET, fd));
    for (int side = 0; line->narrow && side < 2; side++)
        setsockopt(fd[side], SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
}

static void open_line(struct line *line, const struct mode *how, bool narrow)
{
    const struct gyre_wire_options both[2] = {{.variant = how->poller}, {.variant = how->poller}};
    *line = (struct line){.narrow = narrow};
    assert_int_equal(tcp_pair_open_as(&line->pair, both, TCP_PAIR_INET, 0, 0), 0);
    for (int i = 0; i < CONNECTIONS; i++) {
        int fd[2];
        connect_both(line, fd);
        line->fd[0][i] = fd[0];
        line->fd[1][i] = fd[1];
    }
    for (int side = 0; side < 2; side++) {
        struct gyre_channel channel = {.peer = (uint32_t)!side,
                                       .fds = CONNECTIONS,
                                       .renewable = true,
                                       .security = how->security,
                                       .keys = keys[side]};
        memcpy(channel.fd, line->fd[side], sizeof line->fd[side]);
        assert_int_equal(
            tcp->attach(line->pair.wire[side], &channel, &line->pair.pipe[side][0], NULL), 0);
    }
}

static void renew(struct line *line, int i)
{
    int fd[2];
    line->number[i] = line->lost[0][i].number + 1;
    assert_int_equal(line->lost[1][i].number, line->lost[0][i].number);
    connect_both(line, fd);
    for (int side = 0; side < 2; side++) {
        line->fd[side][i] = fd[side];
        line->away[side][i] = false;
        assert_int_equal(tcp->renew(line->pair.pipe[side][0], i, fd[side], line->number[i],
                                    line->lost[!side][i].received),
                         0);
    }
    line->renewed++;
}

/* Does the domain's work. An end that has not noticed is told. */
static void mend(struct line *line, bool tell)
{
    struct gyre_break lost;
    for (int side = 0; side < 2; side++)
        while (tcp->broken(line->pair.wire[side], &lost)) {
            line->lost[side][lost.index] = lost;
            line->away[side][lost.index] = true;
        }
    for (int i = 0; i < CONNECTIONS; i++) {
        for (int side = 0; tell && side < 2; side++)
            if (line->away[!side][i] && !line->away[side][i]) {
                uint64_t received;
                assert_int_equal(tcp->part(line->pair.pipe[side][0], i,
                                           line->lost[!side][i].number + 1, &received),
                                 0);
                assert_true(tcp->broken(line->pair.wire[side], &lost));
                assert_int_equal(lost.received, received);
                line->lost[side][i] = lost;
                line->away[side][i] = true;
            }
        if (line->away[0][i] && line->away[1][i])
            renew(line, i);
    }
}

static const size_t sizes[] = {0, 8, 1000, 4096, 16384, 70000, 262145, 1500000};

/* Sends messages of all sizes both ways, and resets connections at any poll. */
static void hurt(const struct mode *how, uint64_t seed)
{
    struct line line;
    struct gyre_rng rng;
    struct tally tally[2] = {{0}};
    int resets = 0;
    gyre_rng_seed(&rng, seed);
    open_line(&line, how, seed % 2);
    for (int turn = 0; turn < MESSAGES; turn++) {
        struct job job[3];
        for (unsigned lane = 0; lane < 3; lane++)
            start(&line.pair, 0, &job[lane], sizes[gyre_rng_below(&rng, 8)], (uint64_t)turn + 1,
                  lane);
        for (long polls = 0; tally[0].done < 6 * (turn + 1) || tally[1].done < 6 * (turn + 1);
             polls++) {
            assert_true(polls < POLLS_MOST);
            int i = (int)gyre_rng_below(&rng, CONNECTIONS);
            int side = (int)gyre_rng_below(&rng, 2);
            if (resets < RESETS && gyre_rng_below(&rng, 2) == 0 && !line.away[side][i])
                resets += reset_connection(line.fd[side][i]);
            if (gyre_rng_below(&rng, 3))
                poll_side(&line.pair, 0, &tally[0]);
            if (gyre_rng_below(&rng, 3))
                poll_side(&line.pair, 1, &tally[1]);
            mend(&line, gyre_rng_below(&rng, 2));
        }
        assert_int_equal(tally[0].failed + tally[1].failed, 0);
        for (unsigned lane = 0; lane < 3; lane++)
            check_and_free(&job[lane]);
    }
    assert_in_range(resets, RESETS / 2, RESETS);
    assert_in_range(line.renewed, 1, RESETS);
    tcp_pair_close(&line.pair);
}

static void resets_lose_no_byte(void **state)
{
    const struct mode *how = *state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        hurt(how, seed);
}

/* -- ends -------------------------------------------------------------------------------------- */

/* Breaks connection 0 on both sides. */
static void break_first(struct line *line)
{
    struct tally none = {0};
    assert_true(reset_connection(line->fd[0][0]));
    for (int side = 0; side < 2; side++)
        for (long polls = 0; !line->away[side][0]; polls++) {
            struct gyre_break lost;
            assert_true(polls < POLLS_MOST);
            poll_side(&line->pair, side, &none);
            if (tcp->broken(line->pair.wire[side], &lost)) {
                line->lost[side][lost.index] = lost;
                line->away[side][lost.index] = true;
            }
        }
}

static void expect_failed(struct line *line, int status, const char *words)
{
    struct gyre_trouble trouble = {0};
    assert_int_equal(tcp->state(line->pair.pipe[0][0], &trouble), status);
    assert_non_null(strstr(trouble.text, words));
    tcp_pair_close(&line->pair);
}

/* The peer cannot have received what was not sent, nor less than what has been acknowledged. */
static void a_peer_that_claims_the_impossible_is_refused(void **state)
{
    struct tally tally[2] = {{0}};
    struct job job;
    struct line line;
    int fd[2];
    for (int less = 0; less < 2; less++) {
        open_line(&line, *state, false);
        memset(tally, 0, sizeof tally);
        start(&line.pair, 0, &job, 3000000, 1,
              0); /* more than is kept before the kernel is asked */
        poll_until(&line.pair, tally, 2, 2);
        check_and_free(&job);
        break_first(&line);
        connect_both(&line, fd);
        uint64_t claim = less ? 0 : line.lost[1][0].received + 1;
        assert_int_equal(tcp->renew(line.pair.pipe[0][0], 0, fd[0], 1, claim), GYRE_CORRUPT);
        close(fd[0]);
        close(fd[1]);
        expect_failed(&line, GYRE_CORRUPT, "broke and cannot go on");
    }
}

static void poll_at(struct line *line, uint64_t now)
{
    struct gyre_completion out;
    tcp->poll(line->pair.wire[0], now, &out, 1);
}

/* There is no dead time on these wires: 10 s. */
static void nobody_waits_for_ever(void **state)
{
    struct line line;
    open_line(&line, *state, false);
    break_first(&line);
    poll_at(&line, 100 * GYRE_SECOND);
    poll_at(&line, 110 * GYRE_SECOND);
    assert_int_equal(tcp->state(line.pair.pipe[0][0], NULL), 0);
    poll_at(&line, 110 * GYRE_SECOND + 1);
    expect_failed(&line, GYRE_PEER_LOST, "could not be made anew");
}

/* New connections that break before a byte has moved end the pipe, too. */
static void connections_that_break_at_once_are_given_up(void **state)
{
    struct line line;
    open_line(&line, *state, false);
    for (uint64_t i = 0; !tcp->state(line.pair.pipe[0][0], NULL); i++) {
        assert_in_range(i, 0, 200);
        break_first(&line);
        poll_at(&line, (100 + i) * GYRE_SECOND);
        if (!tcp->state(line.pair.pipe[0][0], NULL))
            renew(&line, 0);
    }
    assert_in_range(line.renewed, 100, 110);
    expect_failed(&line, GYRE_PEER_LOST, "could not be made anew");
}

/* What the peer tells too late, or of no connection, changes nothing. */
static void stale_words_change_nothing(void **state)
{
    uint64_t received;
    struct line line;
    open_line(&line, *state, false);
    break_first(&line);
    renew(&line, 0);
    struct gyre_pipe *pipe = line.pair.pipe[0][0];
    assert_int_equal(tcp->part(pipe, 0, 1, &received), -EALREADY);
    assert_int_equal(tcp->part(pipe, -1, 9, &received), GYRE_INVALID);
    assert_int_equal(tcp->part(pipe, CONNECTIONS, 9, &received), GYRE_INVALID);
    assert_int_equal(tcp->renew(pipe, 0, -1, 2, 0), -EALREADY);
    assert_false(tcp->gone(pipe, 0, false));
    assert_int_equal(tcp->state(pipe, NULL), 0);
    assert_int_equal(tcp->part(pipe, 0, 2, &received), 0);
    assert_false(tcp->gone(pipe, 0, false)); /* the peer has not said goodbye */
    tcp_pair_close(&line.pair);
}

/* Rank 0 has heard a goodbye and said its own, which the peer's kernel has no room for: rank 0 may
 * not leave, or a reset would swallow it for good. */
static void a_goodbye_counts_when_it_has_arrived(void **state)
{
    static unsigned char data[60000];
    struct tally tally[2] = {{0}};
    const struct gyre_match name = match(1, 0);
    int little = 1, parted = 0;
    struct line line;
    open_line(&line, *state, false);
    struct gyre_pipe *const *pipe[2] = {line.pair.pipe[0], line.pair.pipe[1]};
    for (int i = 0; i < CONNECTIONS; i++)
        setsockopt(line.fd[1][i], SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tcp->bye(*pipe[1]), GYRE_AGAIN);
        poll_side(&line.pair, 1, &tally[1]);
    }
    assert_int_equal(tcp->send(*pipe[0], &name, data, sizeof data, 1), 0);
    for (long polls = 0; tally[0].done < 1; polls++) {
        assert_true(polls < POLLS_MOST);
        poll_side(&line.pair, 0, &tally[0]);
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(tcp->bye(*pipe[0]), GYRE_AGAIN);
        poll_side(&line.pair, 0, &tally[0]);
    }
    assert_true(reset_connection(line.fd[0][0]));
    for (long polls = 0; parted != 3; polls++) {
        assert_true(polls < POLLS_MOST);
        for (int side = 0; side < 2; side++) {
            int status = tcp->bye(*pipe[side]);
            assert_in_range(status, 0, GYRE_AGAIN);
            parted |= status == 0 ? 1 << side : 0;
            poll_side(&line.pair, side, &tally[side]);
        }
        mend(&line, true);
    }
    assert_int_equal(line.renewed, 1);
    assert_int_equal(tally[0].failed, 0);
    tcp_pair_close(&line.pair);
}

/* The peer sent a message, said goodbye and ended, and its connection was reset. The message is
 * received, and this end parts. */
static void a_peer_that_left_has_said_all(void **state)
{
    unsigned char in[1000], *out = pattern(sizeof in, 1);
    struct tally tally[2] = {{0}};
    const struct gyre_match name = match(1, 0);
    struct line line;
    open_line(&line, *state, false);
    struct gyre_pipe *const *pipe[2] = {line.pair.pipe[0], line.pair.pipe[1]};
    assert_int_equal(tcp->send(*pipe[1], &name, out, sizeof in, 1), 0);
    for (long polls = 0; !gyre_end_has_left(*pipe[0]); polls++) {
        assert_true(polls < POLLS_MOST);
        assert_int_equal(tcp->bye(*pipe[1]), GYRE_AGAIN);
        poll_side(&line.pair, 1, &tally[1]);
        poll_side(&line.pair, 0, &tally[0]);
    }
    assert_true(reset_connection(line.fd[0][0]));
    assert_int_equal(tcp->part(*pipe[0], 0, 1, &(uint64_t){0}), 0);
    assert_true(tcp->gone(*pipe[0], 0, false));
    assert_int_equal(tcp->recv(*pipe[0], &name, in, sizeof in, 2), 0);
    for (long polls = 0; tally[0].done < 1 || tcp->bye(*pipe[0]); polls++) {
        assert_true(polls < POLLS_MOST);
        poll_side(&line.pair, 0, &tally[0]);
    }
    assert_int_equal(tally[0].failed, 0);
    assert_memory_equal(in, out, sizeof in);
    free(out);
    tcp_pair_close(&line.pair);
}

int main(void)
{
    int bad = 0;
    if (!reset_permitted()) {
        puts("skipped: the kernel resets no connection for this process (CAP_NET_ADMIN)");
        return 77;
    }
    for (size_t i = 0; i < sizeof mode / sizeof *mode; i++) {
        void *how = (void *)(uintptr_t)&mode[i];
        if (in_haste() && i % 2 != i / 2 % 2)
            continue;
        const struct CMUnitTest tests[] = {
            cmocka_unit_test_prestate(resets_lose_no_byte, how),
            cmocka_unit_test_prestate(a_peer_that_claims_the_impossible_is_refused, how),
            cmocka_unit_test_prestate(nobody_waits_for_ever, how),
            cmocka_unit_test_prestate(connections_that_break_at_once_are_given_up, how),
            cmocka_unit_test_prestate(stale_words_change_nothing, how),
            cmocka_unit_test_prestate(a_goodbye_counts_when_it_has_arrived, how),
            cmocka_unit_test_prestate(a_peer_that_left_has_said_all, how),
        };
        print_message("%s, %s\n", mode[i].poller, gyre_seal_word(mode[i].security));
        bad += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return bad;
}
