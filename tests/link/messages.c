/* Cases: messages of every size, place and order arrive as they were sent. In haste the longest
 * message of single bytes is left out. */
#include "link/run.h"
#include "rig/haste.h"

#include <stdlib.h>
#include <string.h>

static void ping_pong(void **state)
{
    struct link_run *run = link_start(state);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t ball = i, there = 0, back = 0;
        uint32_t before = run->done;
        link_post_recv(run, LEAF, i, &there, 8);
        link_post_recv(run, HUB, i, &back, 8);
        link_post_send(run, HUB, i, &ball, 8);
        link_pump_until(run, before + 2);
        link_post_send(run, LEAF, i, &there, 8);
        link_pump_until(run, before + 4);
        assert_true(back == ball);
    }
    link_all_succeeded(run);
    link_finish(run);
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
    struct link_run *run = link_start(state);
    uint64_t i = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        link_exchange(run, HUB, i++, sizes[s], true);
        link_exchange(run, LEAF, i++, sizes[s], false);
    }
    link_all_succeeded(run);
    link_finish(run);
}

static void any_alignment(void **state)
{
    struct link_run *run = link_start(state);
    static uint8_t data[2][40000], out[2][40000];
    for (uint32_t shift = 0; shift < 16; shift++) {
        uint32_t before = run->done;
        for (int side = 0; side < 2; side++) {
            link_fill(data[side] + shift, 30000, shift + (uint32_t)side);
            link_post_recv(run, side, shift, out[side] + 16 - shift, 30000);
            link_post_send(run, side, shift, data[side] + shift, 30000);
        }
        link_pump_until(run, before + 4);
        link_check(out[0] + 16 - shift, 30000, shift + 1);
        link_check(out[1] + 16 - shift, 30000, shift);
    }
    link_all_succeeded(run);
    link_finish(run);
}

static void receives_in_any_order(void **state)
{
    enum { COUNT = 24 };
    struct link_run *run = link_start(state);
    static uint8_t data[COUNT][70000], out[COUNT][70000];
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t length = i % 3 ? i * 100 : 50000 + i;
        link_fill(data[i], length, i);
        link_post_send(run, HUB, i, data[i], length);
    }
    link_pump_some(run);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t j = (i * 7 + 5) % COUNT;
        link_post_recv(run, LEAF, j, out[j], j % 3 ? j * 100 : 50000 + j);
    }
    link_pump_until(run, 2 * COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        link_check(out[i], i % 3 ? i * 100 : 50000 + i, i);
    }
    link_all_succeeded(run);
    link_finish(run);
}

static void two_communicators(void **state)
{
    enum { COUNT = 16 };
    struct link_run *run = link_start(state);
    uint32_t data[2][COUNT], out[2][COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint16_t comm = 0; comm < 2; comm++) {
            struct gyre_match match = {
                .comm = comm, .sequence = 1, .order = (uint16_t)i, .fingerprint = comm + 7u};
            data[comm][i] = comm * 1000 + i;
            assert_int_equal(link_try_send(run, link_pipe_of(run, HUB), &match, &data[comm][i], 4),
                             0);
            match.order = (uint16_t)(COUNT - 1 - i);
            assert_int_equal(
                link_try_recv(run, link_pipe_of(run, LEAF), &match, &out[comm][COUNT - 1 - i], 4),
                0);
        }
        link_pump(run);
    }
    link_pump_until(run, 4 * COUNT);
    assert_memory_equal(data, out, sizeof data);
    link_all_succeeded(run);
    link_finish(run);
}

/* The buffer is the caller's again at the completion, and not what is still on its way. */
static void a_completed_send_may_be_overwritten(void **state)
{
    enum { LENGTH = 200000, COUNT = 20 };
    struct link_run *run = link_start(state);
    uint8_t *data = malloc(LENGTH), *out = malloc(LENGTH);
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t length = i % 2 ? LENGTH : 3000;
        uint32_t before = run->done;
        link_fill(data, length, i);
        link_post_recv(run, LEAF, i, out, length);
        uint32_t post = link_post_send(run, HUB, i, data, length);
        while (run->status[post] == LINK_NEVER) {
            link_pump(run);
        }
        memset(data, 0xee, LENGTH);
        link_pump_until(run, before + 2);
        link_check(out, length, i);
    }
    link_all_succeeded(run);
    free(data);
    free(out);
    link_finish(run);
}

static void one_completion_at_a_time(void **state)
{
    struct link_run *run = link_start(state);
    uint32_t data = 5, out[32];
    run->most = 1;
    for (uint32_t i = 0; i < 32; i++) {
        link_post_recv(run, LEAF, i, &out[i], 4);
        link_post_send(run, HUB, i, &data, 4);
    }
    link_pump_until(run, 64);
    link_all_succeeded(run);
    link_finish(run);
}

static void bytes_one_at_a_time(void **state)
{
    const struct gyre_link_bench *bench = *state;
    struct gyre_link_wish wish = {.leaves = 1, .split = true, .flip_at = -1};
    if (!bench->splits) {
        print_message("%s: skipped: this carrier cannot deliver single bytes\n", link_suite_name);
        skip();
    }
    struct link_run *run = link_start_wish(state, &wish);
    static const uint64_t sizes[] = {0, 1, 300, 5000, GYRE_EAGER_MAX + 1, 40000};
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes - in_haste(); i++) {
        link_exchange(run, HUB, 2 * i, sizes[i], true);
        link_exchange(run, LEAF, 2 * i + 1, sizes[i], false);
    }
    link_all_succeeded(run);
    link_finish(run);
}

/* 4.1 GiB through one pipe, and one connection where a pipe has several: no counter on the way has
 * 32 bits. Seconds, but for sanitizers and for a bench whose counters another one counts. */
static void beyond_four_gigabytes(void **state)
{
    enum { LENGTH = 32 << 20, TURNS = 132 };
    const struct gyre_link_bench *bench = *state;
    struct gyre_link_wish wish = {.leaves = 1, .narrow = !bench->brief, .flip_at = -1};
    struct link_run *run = link_start_wish(state, &wish);
    uint64_t turns = link_slowness() == 1 && !bench->brief ? TURNS : 4;
    static uint8_t data[LENGTH], out[LENGTH];
    link_fill(data, LENGTH, 1);
    memset(out, 0, LENGTH);
    run->give_up += 5 * LINK_DEADLINE * link_slowness();
    for (uint64_t i = 0; i < turns; i++) {
        uint32_t before = run->done;
        memcpy(data + LENGTH - 8, &i, 8);
        link_post_recv(run, LEAF, i, out, LENGTH);
        link_post_send(run, HUB, i, data, LENGTH);
        link_pump_until(run, before + 2);
        assert_memory_equal(out + LENGTH - 8, &i, 8);
    }
    assert_memory_equal(data, out, LENGTH);
    link_finish(run);
    if (turns < TURNS) {
        print_message("%s: 128 MiB only, as %s\n", link_suite_name,
                      bench->brief ? "another variant sends more" : "GYRE_TEST_SLOW is set");
    }
}

const struct link_case link_messages[] = {LINK_CASE(ping_pong),
                                          LINK_CASE(every_size),
                                          LINK_CASE(any_alignment),
                                          LINK_CASE(receives_in_any_order),
                                          LINK_CASE(two_communicators),
                                          LINK_CASE(a_completed_send_may_be_overwritten),
                                          LINK_CASE(one_completion_at_a_time),
                                          LINK_CASE(bytes_one_at_a_time),
                                          LINK_CASE(beyond_four_gigabytes),
                                          {0}};
