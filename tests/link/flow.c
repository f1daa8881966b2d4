/* Cases: nobody waits for what another one lacks, and nothing grows without bound. */
#include "link/run.h"

#include <stdlib.h>
#include <string.h>

/* A driver takes at least as many posts as the contract says; with several connections it may take
 * more. */
static void posts_run_out_and_come_back(void **state)
{
    struct link_run *run = link_start(state);
    uint64_t limit = GYRE_PIPE_POSTS, sends = 0, receives = 0;
    uint8_t *data = calloc(1, 100000), *out = calloc(1, 100000);
    struct gyre_match match = link_name(0);
    while (receives < 64 * limit && !link_try_recv(run, link_pipe_of(run, HUB), &match, out, 8)) {
        match = link_name(++receives);
    }
    for (match = link_name(0);
         sends < 64 * limit && !link_try_send(run, link_pipe_of(run, HUB), &match, data, 100000);) {
        match = link_name(++sends);
    }
    assert_in_range(receives, limit, 64 * limit - 1);
    assert_in_range(sends, limit, 64 * limit - 1);
    for (uint64_t i = 0; i < sends; i++) {
        link_post_recv(run, LEAF, i, out, 100000);
    }
    for (uint64_t i = 0; i < receives; i++) {
        link_post_send(run, LEAF, i, data, 8);
    }
    link_pump_until(run, 2 * (sends + receives));
    link_all_succeeded(run);
    link_exchange(run, HUB, sends + receives, 100, true);
    free(data);
    free(out);
    link_finish(run);
}

static void ten_thousand_unexpected(void **state)
{
    enum { COUNT = 10000, LENGTH = 200 };
    struct link_run *run = link_start(state);
    static uint8_t data[LENGTH], out[LENGTH];
    uint64_t sent = 0, got = 0;
    int status;
    while (got < COUNT) {
        struct gyre_match match = link_name(sent);
        while (sent < COUNT && (status = link_try_send(run, link_pipe_of(run, HUB), &match, data,
                                                       LENGTH)) != GYRE_AGAIN) {
            assert_int_equal(status, 0);
            match = link_name(++sent);
        }
        link_pump_some(run);
        for (int i = 0; i < 32 && got < COUNT; i++) {
            link_post_recv(run, LEAF, got++, out, LENGTH);
        }
    }
    link_pump_until(run, 2 * COUNT);
    link_all_succeeded(run);
    link_finish(run);
}

static void flood_from_both_sides(void **state)
{
    enum { COUNT = 3000, LENGTH = 3000 };
    struct link_run *run = link_start(state);
    static uint8_t data[LENGTH], out[2][LENGTH];
    uint64_t sent[2] = {0}, got[2] = {0};
    while (got[0] < COUNT || got[1] < COUNT) {
        for (int side = 0; side < 2; side++) {
            struct gyre_match match = link_name(sent[side]);
            while (sent[side] < COUNT &&
                   link_try_send(run, link_pipe_of(run, side), &match, data, LENGTH) == 0) {
                match = link_name(++sent[side]);
            }
        }
        link_pump_some(run);
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < 16 && got[side] < COUNT; i++) {
                link_post_recv(run, side, got[side]++, out[side], LENGTH);
            }
        }
    }
    link_pump_until(run, 4 * COUNT);
    link_all_succeeded(run);
    link_finish(run);
}

/* What fills the peer's store may be taken only after what stands behind it. */
static void the_last_receive_first(void **state)
{
    struct link_run *run = link_start(state);
    uint32_t count = GYRE_PIPE_POSTS;
    static uint8_t data[GYRE_EAGER_MAX], out[GYRE_EAGER_MAX];
    for (uint32_t i = 0; i < count; i++) {
        link_post_send(run, HUB, i, data, sizeof data);
    }
    link_pump_some(run);
    for (uint32_t i = count; i-- > 0;) {
        uint32_t post = link_post_recv(run, LEAF, i, out, sizeof out);
        while (run->status[post] == LINK_NEVER) {
            link_pump(run);
        }
    }
    link_pump_until(run, 2 * count);
    link_all_succeeded(run);
    link_finish(run);
}

static void a_missing_receive_blocks_nobody(void **state)
{
    struct link_run *run = link_start(state);
    uint8_t *data = malloc(1 << 20), *out = malloc(1 << 20);
    link_fill(data, 1 << 20, 9);
    uint32_t stuck = link_post_send(run, HUB, 1000, data, 1 << 20);
    for (uint64_t i = 0; i < 10; i++) {
        uint32_t before = run->done;
        link_post_send(run, HUB, i, data, i % 2 ? 100 : 100000);
        link_post_recv(run, LEAF, i, out, i % 2 ? 100 : 100000);
        link_pump_until(run, before + 2);
    }
    assert_int_equal(run->status[stuck], LINK_NEVER);
    link_post_recv(run, LEAF, 1000, out, 1 << 20);
    link_pump_until(run, 22);
    link_check(out, 1 << 20, 9);
    link_all_succeeded(run);
    free(data);
    free(out);
    link_finish(run);
}

const struct link_case link_flow[] = {
    LINK_CASE(posts_run_out_and_come_back),     LINK_CASE(ten_thousand_unexpected),
    LINK_CASE(flood_from_both_sides),           LINK_CASE(the_last_receive_first),
    LINK_CASE(a_missing_receive_blocks_nobody), {0}};
