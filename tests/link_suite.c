/* The cases. Each gets a fresh net, posts through the driver's table, and pumps (polls all wires)
 * until what it expects has happened; a case that does not get there within its deadline fails,
 * whatever it waits for.
 *
 * Every post is an entry here, its token a number that uses all 64 bits; so a token that comes back
 * changed, twice, or without a post is seen at once, in every case. */
#include "link_suite.h"

#include "base/clock.h"
#include "base/rng.h"
#include "transport/frame.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define POSTS_KEPT 65536u
#define NEVER      12345 /* a status that nothing has */
#define TOKEN_STEP UINT64_C(0x9e3779b97f4a7c15)
#define DEADLINE   (30 * GYRE_SECOND)

struct run {
    const struct gyre_link_bench *bench;
    const struct gyre_driver *driver;
    struct gyre_link_net net;
    int *status;      /* by post */
    uint32_t posts;   /* made so far */
    uint32_t done;    /* completions seen */
    uint64_t give_up; /* real time */
    uint64_t unstep;  /* inverse of TOKEN_STEP */
    int most;         /* completions asked for at once */
};

static const char *suite_name;

/* -- running ----------------------------------------------------------------------------------- */

static uint64_t slowness(void)
{
    const char *text = getenv("GYRE_TEST_SLOW");
    return text && atoi(text) > 0 ? (uint64_t)atoi(text) : 1;
}

static void must(int status, const struct gyre_trouble *trouble)
{
    if (status) {
        fail_msg("%s: connect: %s (%s)", suite_name, gyre_status_name(status), trouble->text);
    }
}

static struct run *start_wish(void **state, const struct gyre_link_wish *wish)
{
    struct run *run = calloc(1, sizeof *run);
    struct gyre_trouble trouble = {0};
    run->bench = *state;
    run->driver = run->bench->driver;
    run->status = malloc(POSTS_KEPT * sizeof *run->status);
    run->most = 16;
    run->give_up = gyre_now_ns() + DEADLINE * slowness();
    run->unstep = TOKEN_STEP;
    for (int i = 0; i < 6; i++) {
        run->unstep *= 2 - TOKEN_STEP * run->unstep;
    }
    run->net.leaves = wish->leaves;
    must(run->bench->connect(wish, &run->net, &trouble), &trouble);
    return run;
}

static struct run *start(void **state)
{
    struct gyre_link_wish wish = {.leaves = 1, .flip_at = -1};
    return start_wish(state, &wish);
}

static void finish(struct run *run)
{
    for (int i = 0; i <= run->net.leaves; i++) {
        run->driver->close(run->net.wire[i]);
    }
    gyre_link_relays_stop(&run->net);
    if (run->bench->disconnect) {
        run->bench->disconnect(&run->net);
    }
    free(run->status);
    free(run);
}

static uint64_t now(const struct run *run)
{
    return run->bench->now ? run->bench->now(&run->net) : gyre_now_ns();
}

static void note(struct run *run, const struct gyre_completion *completion)
{
    uint64_t post = completion->token * run->unstep - 1;
    if (post >= run->posts) {
        fail_msg("%s: a completion with token %#" PRIx64 ", which no post had", suite_name,
                 completion->token);
    }
    if (run->status[post] != NEVER) {
        fail_msg("%s: post %" PRIu64 " completed twice (%d, then %d)", suite_name, post,
                 run->status[post], completion->status);
    }
    assert_true(completion->status <= 0);
    run->status[post] = completion->status;
    run->done++;
}

static int poll_wire(struct run *run, int which)
{
    struct gyre_completion completion[16];
    int count = run->driver->poll(run->net.wire[which], now(run), completion, run->most);
    assert_in_range(count, 0, run->most);
    for (int i = 0; i < count; i++) {
        note(run, &completion[i]);
    }
    return count;
}

static void pump(struct run *run)
{
    int count = 0;
    for (int i = 0; i <= run->net.leaves; i++) {
        count += run->net.wire[i] ? poll_wire(run, i) : 0;
    }
    if (count > 0) {
        return;
    }
    if (run->bench->idle) {
        run->bench->idle(&run->net);
    } else {
        sched_yield();
    }
    if (gyre_now_ns() > run->give_up) {
        fail_msg("%s: gave up with %u of %u posts completed", suite_name, run->done, run->posts);
    }
}

static void pump_until(struct run *run, uint32_t done)
{
    while (run->done < done) {
        pump(run);
    }
}

static void pump_some(struct run *run)
{
    for (int i = 0; i < 200; i++) {
        pump(run);
    }
}

/* -- posting ----------------------------------------------------------------------------------- */

#define HUB  0
#define LEAF 1

static struct gyre_match name(uint64_t i)
{
    return (struct gyre_match){.comm = 3,
                               .sequence = 1 + i / 64,
                               .lane = (uint16_t)(i % 8),
                               .order = (uint16_t)(i % 64 / 8),
                               .fingerprint = 0xfeedface00000000 + i / 64};
}

static uint64_t next_token(struct run *run)
{
    assert_true(run->posts < POSTS_KEPT);
    run->status[run->posts] = NEVER;
    return (run->posts + 1) * TOKEN_STEP;
}

static uint64_t token_of(uint32_t post)
{
    return (post + 1) * TOKEN_STEP;
}

static int try_send(struct run *run, struct gyre_pipe *pipe, const struct gyre_match *match,
                    const void *data, uint64_t length)
{
    int status = run->driver->send(pipe, match, data, length, next_token(run));
    run->posts += status == 0;
    return status;
}

static int try_recv(struct run *run, struct gyre_pipe *pipe, const struct gyre_match *match,
                    void *data, uint64_t length)
{
    int status = run->driver->recv(pipe, match, data, length, next_token(run));
    run->posts += status == 0;
    return status;
}

static struct gyre_pipe *pipe_of(struct run *run, int side)
{
    return side == HUB ? run->net.outward[0] : run->net.inward[0];
}

/* Posts message i; returns the post's number. Waits where all posts are in use. */
static uint32_t post_send(struct run *run, int side, uint64_t i, const void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    int status;
    while ((status = try_send(run, pipe_of(run, side), &match, data, length)) == GYRE_AGAIN) {
        pump(run);
    }
    assert_int_equal(status, 0);
    return run->posts - 1;
}

static uint32_t post_recv(struct run *run, int side, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = name(i);
    int status;
    while ((status = try_recv(run, pipe_of(run, side), &match, data, length)) == GYRE_AGAIN) {
        pump(run);
    }
    assert_int_equal(status, 0);
    return run->posts - 1;
}

static void fill(void *data, uint64_t length, uint64_t seed)
{
    uint8_t *bytes = data;
    for (uint64_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)((i * 131 + seed * 29) >> 3 ^ i);
    }
}

static void check(const void *data, uint64_t length, uint64_t seed)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < length; i++) {
        if (bytes[i] != (uint8_t)((i * 131 + seed * 29) >> 3 ^ i)) {
            fail_msg("%s: byte %" PRIu64 " of %" PRIu64 " is wrong", suite_name, i, length);
        }
    }
}

static void all_succeeded(const struct run *run)
{
    for (uint32_t i = 0; i < run->posts; i++) {
        if (run->status[i]) {
            fail_msg("%s: post %u ended with %s", suite_name, i,
                     run->status[i] == NEVER ? "nothing" : gyre_status_name(run->status[i]));
        }
    }
}

static void exchange(struct run *run, int from, uint64_t i, uint64_t length, bool receive_first)
{
    uint8_t *data = malloc(length + 1), *out = malloc(length + 1);
    uint32_t before = run->done;
    fill(data, length, i);
    memset(out, 0, length + 1);
    if (receive_first) {
        post_recv(run, !from, i, out, length);
    }
    post_send(run, from, i, data, length);
    if (!receive_first) {
        pump_some(run);
        post_recv(run, !from, i, out, length);
    }
    pump_until(run, before + 2);
    check(out, length, i);
    assert_int_equal(out[length], 0);
    free(data);
    free(out);
}

static void pipe_still_works(struct run *run, uint64_t i)
{
    exchange(run, HUB, i, 100, true);
    exchange(run, LEAF, i + 1, 100, false);
    exchange(run, HUB, i + 2, 100000, false);
    exchange(run, LEAF, i + 3, 100000, true);
    assert_int_equal(run->driver->state(pipe_of(run, HUB), NULL), 0);
    assert_int_equal(run->driver->state(pipe_of(run, LEAF), NULL), 0);
}

/* -- messages ---------------------------------------------------------------------------------- */

static void ping_pong(void **state)
{
    struct run *run = start(state);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t ball = i, there = 0, back = 0;
        uint32_t before = run->done;
        post_recv(run, LEAF, i, &there, 8);
        post_recv(run, HUB, i, &back, 8);
        post_send(run, HUB, i, &ball, 8);
        pump_until(run, before + 2);
        post_send(run, LEAF, i, &there, 8);
        pump_until(run, before + 4);
        assert_true(back == ball);
    }
    all_succeeded(run);
    finish(run);
}

static void every_size(void **state)
{
    static const uint64_t sizes[] = {0,
                                     1,
                                     63,
                                     256,
                                     257,
                                     GYRE_EAGER_MAX - 1,
                                     GYRE_EAGER_MAX,
                                     GYRE_EAGER_MAX + 1,
                                     GYRE_FRAME_PAYLOAD_MAX - 1,
                                     GYRE_FRAME_PAYLOAD_MAX,
                                     GYRE_FRAME_PAYLOAD_MAX + 1,
                                     8 << 20};
    struct run *run = start(state);
    uint64_t i = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        if (sizes[s] <= run->driver->limits.message_max) {
            exchange(run, HUB, i++, sizes[s], true);
            exchange(run, LEAF, i++, sizes[s], false);
        }
    }
    all_succeeded(run);
    finish(run);
}

static void any_alignment(void **state)
{
    struct run *run = start(state);
    uint32_t step = run->driver->limits.alignment;
    static uint8_t data[2][40000], out[2][40000];
    for (uint32_t shift = 0; shift < 16; shift += step) {
        uint32_t before = run->done;
        for (int side = 0; side < 2; side++) {
            fill(data[side] + shift, 30000, shift + (uint32_t)side);
            post_recv(run, side, shift, out[side] + 16 - shift, 30000);
            post_send(run, side, shift, data[side] + shift, 30000);
        }
        pump_until(run, before + 4);
        check(out[0] + 16 - shift, 30000, shift + 1);
        check(out[1] + 16 - shift, 30000, shift);
    }
    all_succeeded(run);
    finish(run);
}

static void receives_in_any_order(void **state)
{
    enum { COUNT = 24 };
    struct run *run = start(state);
    static uint8_t data[COUNT][70000], out[COUNT][70000];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t length = i % 3 ? i * 100 : 50000 + i;
        fill(data[i], length, i);
        post_send(run, HUB, i, data[i], length);
    }
    pump_some(run);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t j = (i * 7 + 5) % COUNT;
        post_recv(run, LEAF, j, out[j], j % 3 ? j * 100 : 50000 + j);
    }
    pump_until(run, 2 * COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        check(out[i], i % 3 ? i * 100 : 50000 + i, i);
    }
    all_succeeded(run);
    finish(run);
}

static void two_communicators(void **state)
{
    enum { COUNT = 16 };
    struct run *run = start(state);
    uint32_t data[2][COUNT], out[2][COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint16_t comm = 0; comm < 2; comm++) {
            struct gyre_match match = {
                .comm = comm, .sequence = 1, .order = (uint16_t)i, .fingerprint = comm + 7u};
            data[comm][i] = comm * 1000 + i;
            assert_int_equal(try_send(run, pipe_of(run, HUB), &match, &data[comm][i], 4), 0);
            match.order = (uint16_t)(COUNT - 1 - i);
            assert_int_equal(
                try_recv(run, pipe_of(run, LEAF), &match, &out[comm][COUNT - 1 - i], 4), 0);
        }
        pump(run);
    }
    pump_until(run, 4 * COUNT);
    assert_memory_equal(data, out, sizeof data);
    all_succeeded(run);
    finish(run);
}

/* The buffer is the caller's again at the completion, and not what is still on its way. */
static void a_completed_send_may_be_overwritten(void **state)
{
    enum { LENGTH = 200000, COUNT = 20 };
    struct run *run = start(state);
    uint8_t *data = malloc(LENGTH), *out = malloc(LENGTH);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t length = i % 2 ? LENGTH : 3000;
        uint32_t before = run->done;
        fill(data, length, i);
        post_recv(run, LEAF, i, out, length);
        uint32_t post = post_send(run, HUB, i, data, length);
        while (run->status[post] == NEVER) {
            pump(run);
        }
        memset(data, 0xee, LENGTH);
        pump_until(run, before + 2);
        check(out, length, i);
    }
    all_succeeded(run);
    free(data);
    free(out);
    finish(run);
}

static void one_completion_at_a_time(void **state)
{
    struct run *run = start(state);
    uint32_t data = 5, out[32];
    run->most = 1;
    for (uint32_t i = 0; i < 32; i++) {
        post_recv(run, LEAF, i, &out[i], 4);
        post_send(run, HUB, i, &data, 4);
    }
    pump_until(run, 64);
    all_succeeded(run);
    finish(run);
}

static void bytes_one_at_a_time(void **state)
{
    const struct gyre_link_bench *bench = *state;
    struct gyre_link_wish wish = {.leaves = 1, .split = true, .flip_at = -1};
    if (!bench->splits) {
        print_message("%s: skipped: this carrier cannot deliver single bytes\n", suite_name);
        skip();
    }
    struct run *run = start_wish(state, &wish);
    static const uint64_t sizes[] = {0, 1, 300, 5000, GYRE_EAGER_MAX + 1, 40000};
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        exchange(run, HUB, 2 * i, sizes[i], true);
        exchange(run, LEAF, 2 * i + 1, sizes[i], false);
    }
    all_succeeded(run);
    finish(run);
}

/* 5 GiB through one pipe: no counter on the way has 32 bits. Takes seconds, so only where
 * GYRE_TEST_LONG is set. */
static void beyond_four_gigabytes(void **state)
{
    enum { LENGTH = 32 << 20, TURNS = 160 };
    struct run *run = start(state);
    uint64_t turns = getenv("GYRE_TEST_LONG") ? TURNS : 4;
    uint8_t *data = malloc(LENGTH), *out = malloc(LENGTH);
    fill(data, LENGTH, 1);
    run->give_up += 5 * DEADLINE * slowness();
    for (uint64_t i = 0; i < turns; i++) {
        uint32_t before = run->done;
        memcpy(data + LENGTH - 8, &i, 8);
        post_recv(run, LEAF, i, out, LENGTH);
        post_send(run, HUB, i, data, LENGTH);
        pump_until(run, before + 2);
        assert_memory_equal(out + LENGTH - 8, &i, 8);
    }
    assert_memory_equal(data, out, LENGTH);
    free(data);
    free(out);
    finish(run);
    if (turns < TURNS) {
        print_message("%s: 128 MiB only; GYRE_TEST_LONG=1 sends 5 GiB\n", suite_name);
    }
}

/* -- flow control ------------------------------------------------------------------------------ */

/* A driver takes at least as many posts as it says; with several connections it may take more. */
static void posts_run_out_and_come_back(void **state)
{
    struct run *run = start(state);
    uint64_t limit = run->driver->limits.posts, sends = 0, receives = 0;
    uint8_t *data = calloc(1, 100000), *out = calloc(1, 100000);
    struct gyre_match match = name(0);
    while (receives < 64 * limit && !try_recv(run, pipe_of(run, HUB), &match, out, 8)) {
        match = name(++receives);
    }
    for (match = name(0);
         sends < 64 * limit && !try_send(run, pipe_of(run, HUB), &match, data, 100000);) {
        match = name(++sends);
    }
    assert_in_range(receives, limit, 64 * limit - 1);
    assert_in_range(sends, limit, 64 * limit - 1);
    for (uint64_t i = 0; i < sends; i++) {
        post_recv(run, LEAF, i, out, 100000);
    }
    for (uint64_t i = 0; i < receives; i++) {
        post_send(run, LEAF, i, data, 8);
    }
    pump_until(run, 2 * (sends + receives));
    all_succeeded(run);
    exchange(run, HUB, sends + receives, 100, true);
    free(data);
    free(out);
    finish(run);
}

static void ten_thousand_unexpected(void **state)
{
    enum { COUNT = 10000, LENGTH = 200 };
    struct run *run = start(state);
    static uint8_t data[LENGTH], out[LENGTH];
    uint64_t sent = 0, got = 0;
    int status;
    while (got < COUNT) {
        struct gyre_match match = name(sent);
        while (sent < COUNT &&
               (status = try_send(run, pipe_of(run, HUB), &match, data, LENGTH)) != GYRE_AGAIN) {
            assert_int_equal(status, 0);
            match = name(++sent);
        }
        pump_some(run);
        for (int i = 0; i < 32 && got < COUNT; i++) {
            post_recv(run, LEAF, got++, out, LENGTH);
        }
    }
    pump_until(run, 2 * COUNT);
    all_succeeded(run);
    finish(run);
}

static void flood_from_both_sides(void **state)
{
    enum { COUNT = 3000, LENGTH = 3000 };
    struct run *run = start(state);
    static uint8_t data[LENGTH], out[2][LENGTH];
    uint64_t sent[2] = {0}, got[2] = {0};
    while (got[0] < COUNT || got[1] < COUNT) {
        for (int side = 0; side < 2; side++) {
            struct gyre_match match = name(sent[side]);
            while (sent[side] < COUNT &&
                   try_send(run, pipe_of(run, side), &match, data, LENGTH) == 0) {
                match = name(++sent[side]);
            }
        }
        pump_some(run);
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < 16 && got[side] < COUNT; i++) {
                post_recv(run, side, got[side]++, out[side], LENGTH);
            }
        }
    }
    pump_until(run, 4 * COUNT);
    all_succeeded(run);
    finish(run);
}

/* What fills the peer's store may be taken only after what stands behind it. */
static void the_last_receive_first(void **state)
{
    struct run *run = start(state);
    uint32_t count = run->driver->limits.posts;
    static uint8_t data[GYRE_EAGER_MAX], out[GYRE_EAGER_MAX];
    for (uint32_t i = 0; i < count; i++) {
        post_send(run, HUB, i, data, sizeof data);
    }
    pump_some(run);
    for (uint32_t i = count; i-- > 0;) {
        uint32_t post = post_recv(run, LEAF, i, out, sizeof out);
        while (run->status[post] == NEVER) {
            pump(run);
        }
    }
    pump_until(run, 2 * count);
    all_succeeded(run);
    finish(run);
}

static void a_missing_receive_blocks_nobody(void **state)
{
    struct run *run = start(state);
    uint8_t *data = malloc(1 << 20), *out = malloc(1 << 20);
    fill(data, 1 << 20, 9);
    uint32_t stuck = post_send(run, HUB, 1000, data, 1 << 20);
    for (uint64_t i = 0; i < 10; i++) {
        uint32_t before = run->done;
        post_send(run, HUB, i, data, i % 2 ? 100 : 100000);
        post_recv(run, LEAF, i, out, i % 2 ? 100 : 100000);
        pump_until(run, before + 2);
    }
    assert_int_equal(run->status[stuck], NEVER);
    post_recv(run, LEAF, 1000, out, 1 << 20);
    pump_until(run, 22);
    check(out, 1 << 20, 9);
    all_succeeded(run);
    free(data);
    free(out);
    finish(run);
}

/* -- endings ----------------------------------------------------------------------------------- */

static void death_ends_every_post_once(void **state)
{
    const struct gyre_link_bench *bench = *state;
    if (!bench->kill) {
        print_message("%s: skipped: this bench cannot kill a side\n", suite_name);
        skip();
    }
    struct run *run = start(state);
    static uint8_t data[100000], out[100000];
    for (uint64_t i = 0; i < 32; i++) {
        post_send(run, HUB, i, data, i % 2 ? 100000 : 10000);
        post_recv(run, HUB, i, out, i % 2 ? 100000 : 10000);
    }
    pump_some(run);
    bench->kill(&run->net);
    pump_until(run, 64);
    for (uint32_t post = 0; post < 64; post++) {
        bool receive = post % 2;
        assert_true(receive ? run->status[post] < 0 : run->status[post] <= 0);
    }
    struct gyre_trouble trouble = {0};
    assert_int_equal(run->driver->state(pipe_of(run, HUB), &trouble), GYRE_PEER_LOST);
    assert_true(strlen(trouble.text) > 0);
    struct gyre_match match = name(99);
    assert_true(try_send(run, pipe_of(run, HUB), &match, data, 1) < 0);
    assert_true(try_recv(run, pipe_of(run, HUB), &match, out, 1) < 0);
    finish(run);
}

static void cancel_a_waiting_receive(void **state)
{
    struct run *run = start(state);
    uint8_t *out = calloc(1, 100000);
    uint32_t small = post_recv(run, LEAF, 500, out, 8);
    uint32_t large = post_recv(run, LEAF, 501, out, 100000);
    pump_some(run);
    assert_int_equal(run->driver->cancel(pipe_of(run, LEAF), token_of(small)), 0);
    assert_int_equal(run->driver->cancel(pipe_of(run, LEAF), token_of(large)), 0);
    assert_int_equal(run->driver->cancel(pipe_of(run, LEAF), token_of(large) + 1), -ENOENT);
    pump_until(run, 2);
    assert_int_equal(run->status[small], -ECANCELED);
    assert_int_equal(run->status[large], -ECANCELED);
    free(out);
    pipe_still_works(run, 0);
    finish(run);
}

static void cancel_a_queued_send(void **state)
{
    struct run *run = start(state);
    uint8_t *data = calloc(1, 100000);
    uint32_t post = post_send(run, HUB, 500, data, 100000);
    pump_some(run);
    assert_int_equal(run->driver->cancel(pipe_of(run, HUB), token_of(post)), 0);
    pump_until(run, 1);
    assert_int_equal(run->status[post], -ECANCELED);
    free(data);
    pipe_still_works(run, 0);
    finish(run);
}

/* One side withdraws at some moment of a long message; the other side's end is told, and the pipe
 * goes on. */
static void cancel_half_way(void **state)
{
    enum { LENGTH = 8 << 20 };
    for (int moment = 0; moment < 12; moment++) {
        struct run *run = start(state);
        int side = moment % 2;
        uint8_t *data = malloc(LENGTH), *out = malloc(LENGTH);
        fill(data, LENGTH, 4);
        uint32_t post[2];
        post[LEAF] = post_recv(run, LEAF, 500, out, LENGTH);
        post[HUB] = post_send(run, HUB, 500, data, LENGTH);
        for (int i = 0; i < moment / 2; i++) {
            pump(run);
        }
        int status = run->driver->cancel(pipe_of(run, side), token_of(post[side]));
        assert_true(status == 0 || status == -ENOENT);
        while (run->status[post[side]] == NEVER) {
            pump(run);
        }
        assert_int_equal(run->status[post[side]], status ? 0 : -ECANCELED);
        if (!status) { /* the buffer is ours again */
            memset(side == HUB ? data : out, 0xee, LENGTH);
        }
        if (run->status[post[!side]] == NEVER) {
            pump_some(run);
        }
        if (run->status[post[!side]] == NEVER) {
            assert_int_equal(run->driver->cancel(pipe_of(run, !side), token_of(post[!side])), 0);
            pump_until(run, 2);
        }
        pipe_still_works(run, 0);
        if (run->status[post[LEAF]] == 0) {
            check(out, LENGTH, 4);
        } else if (side == LEAF && !status) {
            for (size_t i = 0; i < LENGTH; i++) {
                assert_int_equal(out[i], 0xee);
            }
        }
        free(data);
        free(out);
        finish(run);
    }
}

static void detach_ends_every_post_once(void **state)
{
    struct run *run = start(state);
    static uint8_t data[100000], out[100000];
    uint32_t receives[16];
    for (uint64_t i = 0; i < 16; i++) {
        post_send(run, HUB, i, data, i % 2 ? 100000 : 10000);
        receives[i] = post_recv(run, HUB, i, out, 100000);
    }
    pump_some(run);
    run->driver->detach(pipe_of(run, HUB));
    memset(out, 0x77, sizeof out);
    pump_until(run, 32);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(run->status[receives[i]], -ECANCELED);
    }
    for (size_t i = 0; i < sizeof out; i++) {
        assert_int_equal(out[i], 0x77);
    }
    finish(run);
}

static void bye_flushes_and_parts(void **state)
{
    struct run *run = start(state);
    static uint8_t data[2][60000], out[2][60000];
    int parted[2] = {GYRE_AGAIN, GYRE_AGAIN};
    for (int side = 0; side < 2; side++) {
        fill(data[side], 60000, (uint64_t)side);
        post_recv(run, !side, 1, out[!side], 60000);
        post_send(run, side, 1, data[side], 60000);
    }
    assert_int_equal(run->driver->bye(pipe_of(run, HUB)), GYRE_AGAIN);
    pump_some(run);
    assert_int_equal(run->driver->bye(pipe_of(run, HUB)),
                     GYRE_AGAIN); /* the other side has not said it */
    while (parted[0] == GYRE_AGAIN || parted[1] == GYRE_AGAIN) {
        for (int side = 0; side < 2; side++) {
            parted[side] =
                parted[side] == GYRE_AGAIN ? run->driver->bye(pipe_of(run, side)) : parted[side];
        }
        pump(run);
    }
    assert_int_equal(parted[0] | parted[1], 0);
    pump_until(run, 4);
    check(out[HUB], 60000, LEAF);
    check(out[LEAF], 60000, HUB);
    all_succeeded(run);
    run->driver->detach(pipe_of(run, HUB)); /* and the other side does not mind */
    pump_some(run);
    assert_int_equal(run->driver->state(pipe_of(run, LEAF), NULL), 0);
    finish(run);
}

/* -- wrong bytes ------------------------------------------------------------------------------- */

static void another_fingerprint_is_a_mismatch(void **state)
{
    struct run *run = start(state);
    uint32_t data = 1, out[3];
    struct gyre_match match = name(0);
    assert_int_equal(try_recv(run, pipe_of(run, LEAF), &match, &out[0], 4), 0);
    match.order++;
    assert_int_equal(try_recv(run, pipe_of(run, LEAF), &match, &out[1], 4), 0);
    match.fingerprint++;
    assert_int_equal(try_send(run, pipe_of(run, HUB), &match, &data, 4), 0);
    while (run->driver->state(pipe_of(run, LEAF), NULL) == 0) {
        pump(run);
    }
    pump_until(run, 3);
    struct gyre_trouble trouble = {0};
    assert_int_equal(run->driver->state(pipe_of(run, LEAF), &trouble), GYRE_MISMATCH);
    assert_true(strlen(trouble.text) > 0);
    assert_int_equal(run->status[0], GYRE_MISMATCH);
    assert_int_equal(run->status[1], GYRE_MISMATCH);
    finish(run);
}

static void a_flipped_bit_is_corrupt(void **state)
{
    const struct gyre_link_bench *bench = *state;
    if (!bench->flips) {
        print_message("%s: skipped: nothing can flip a bit of this carrier\n", suite_name);
        skip();
    }
    static const int64_t places[] = {0, 5, 9, 17, 22, 30, 32, 100, 1000, 30000};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        struct gyre_link_wish wish = {.leaves = 1, .flip_at = places[p]};
        struct run *run = start_wish(state, &wish);
        static uint8_t data[20000], out[20000];
        struct gyre_trouble trouble = {0};
        post_recv(run, LEAF, 0, out, 10000);
        post_recv(run, LEAF, 1, out, 20000);
        post_send(run, HUB, 0, data, 10000);
        post_send(run, HUB, 1, data, 20000);
        while (run->driver->state(pipe_of(run, LEAF), NULL) == 0) {
            pump(run);
        }
        assert_int_equal(run->driver->state(pipe_of(run, LEAF), &trouble), GYRE_CORRUPT);
        while (run->status[1] == NEVER) {
            pump(run);
        }
        assert_int_equal(run->status[1], GYRE_CORRUPT);
        finish(run);
    }
}

/* -- wires ------------------------------------------------------------------------------------- */

static void settle_and_arm(struct run *run, struct gyre_alarm *alarm)
{
    while (run->driver->arm(run->net.wire[HUB], alarm) == GYRE_AGAIN) {
        pump(run);
    }
}

static void a_sleeper_is_woken(void **state)
{
    struct run *run = start(state);
    struct gyre_alarm alarm = {.fd = -1};
    for (uint64_t i = 0; i < 20; i++) {
        uint32_t data = 6, out = 0, before = run->done;
        uint32_t receive = post_recv(run, HUB, i, &out, 4);
        settle_and_arm(run, &alarm);
        uint32_t send = post_send(run, LEAF, i, &data, 4);
        while (run->status[send] == NEVER) {
            poll_wire(run, LEAF);
        }
        assert_int_equal(run->status[receive], NEVER); /* nobody polled the hub */
        if (alarm.fd >= 0) {
            struct pollfd wait = {.fd = alarm.fd, .events = POLLIN};
            assert_int_equal(poll(&wait, 1, (int)(10000 * slowness())), 1);
        }
        pump_until(run, before + 2);
        assert_int_equal(out, 6);
    }
    finish(run);
}

/* What came before arm() is not slept through. */
static void arm_sees_what_came(void **state)
{
    struct run *run = start(state);
    struct gyre_alarm alarm = {.fd = -1};
    uint32_t data = 6, out = 0;
    post_recv(run, HUB, 0, &out, 4);
    settle_and_arm(run, &alarm);
    uint32_t send = post_send(run, LEAF, 0, &data, 4);
    while (run->status[send] == NEVER) {
        poll_wire(run, LEAF);
    }
    for (int i = 0; run->bench->idle && i < 100; i++) {
        run->bench->idle(&run->net);
    }
    int status = run->driver->arm(run->net.wire[HUB], &alarm);
    if (status == 0) { /* then at least the alarm rings */
        assert_true(alarm.fd >= 0);
        struct pollfd wait = {.fd = alarm.fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, (int)(10000 * slowness())), 1);
    } else {
        assert_int_equal(status, GYRE_AGAIN);
    }
    pump_until(run, 2);
    finish(run);
}

static void several_pipes_and_one_that_leaves(void **state)
{
    struct gyre_link_wish wish = {.leaves = GYRE_LINK_LEAVES, .flip_at = -1};
    struct run *run = start_wish(state, &wish);
    uint32_t data[GYRE_LINK_LEAVES], out[GYRE_LINK_LEAVES], back[GYRE_LINK_LEAVES], lost = 0;
    struct gyre_match match = name(0);
    assert_int_equal(try_recv(run, run->net.outward[0], &match, &lost, 4), 0);
    run->driver->detach(run->net.inward[0]);
    pump_until(run, 1);
    assert_int_equal(run->status[0], GYRE_PEER_LOST);
    assert_int_equal(run->driver->state(run->net.outward[0], NULL), GYRE_PEER_LOST);
    for (uint32_t i = 1; i < GYRE_LINK_LEAVES; i++) {
        data[i] = 100 + i;
        assert_int_equal(try_recv(run, run->net.inward[i], &match, &out[i], 4), 0);
        assert_int_equal(try_recv(run, run->net.outward[i], &match, &back[i], 4), 0);
        assert_int_equal(try_send(run, run->net.outward[i], &match, &data[i], 4), 0);
        assert_int_equal(try_send(run, run->net.inward[i], &match, &data[i], 4), 0);
    }
    pump_until(run, 1 + 4 * (GYRE_LINK_LEAVES - 1));
    for (uint32_t i = 1; i < GYRE_LINK_LEAVES; i++) {
        assert_int_equal(out[i], data[i]);
        assert_int_equal(back[i], data[i]);
        assert_int_equal(run->driver->state(run->net.outward[i], NULL), 0);
    }
    finish(run);
}

/* -- the suite --------------------------------------------------------------------------------- */

#define CASE(function)                                                                             \
    {                                                                                              \
        .name = #function, .test_func = function                                                   \
    }

static const struct CMUnitTest cases[] = {CASE(ping_pong),
                                          CASE(every_size),
                                          CASE(any_alignment),
                                          CASE(receives_in_any_order),
                                          CASE(two_communicators),
                                          CASE(a_completed_send_may_be_overwritten),
                                          CASE(one_completion_at_a_time),
                                          CASE(bytes_one_at_a_time),
                                          CASE(beyond_four_gigabytes),
                                          CASE(posts_run_out_and_come_back),
                                          CASE(ten_thousand_unexpected),
                                          CASE(flood_from_both_sides),
                                          CASE(the_last_receive_first),
                                          CASE(a_missing_receive_blocks_nobody),
                                          CASE(death_ends_every_post_once),
                                          CASE(cancel_a_waiting_receive),
                                          CASE(cancel_a_queued_send),
                                          CASE(cancel_half_way),
                                          CASE(detach_ends_every_post_once),
                                          CASE(bye_flushes_and_parts),
                                          CASE(another_fingerprint_is_a_mismatch),
                                          CASE(a_flipped_bit_is_corrupt),
                                          CASE(a_sleeper_is_woken),
                                          CASE(arm_sees_what_came),
                                          CASE(several_pipes_and_one_that_leaves)};

#define CASES (sizeof cases / sizeof *cases)

int gyre_link_suite(const char *name_of_driver, const struct gyre_link_bench *bench)
{
    static char names[CASES][96];
    static struct CMUnitTest tests[CASES];
    suite_name = name_of_driver;
    for (size_t i = 0; i < CASES; i++) {
        snprintf(names[i], sizeof names[i], "%s: %s", name_of_driver, cases[i].name);
        tests[i] = cases[i];
        tests[i].name = names[i];
        tests[i].initial_state = (void *)bench;
    }
    return _cmocka_run_group_tests(name_of_driver, tests, CASES, NULL, NULL);
}
