/* Cases: death, withdrawal, detach, goodbye, and bytes that are not what was sent. Every post ends
 * once. */
#include "link/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void death_ends_every_post_once(void **state)
{
    const struct gyre_link_bench *bench = *state;
    if (!bench->kill) {
        print_message("%s: skipped: this bench cannot kill a side\n", link_suite_name);
        skip();
    }
    struct link_run *run = link_start(state);
    static uint8_t data[100000], out[100000];
    for (uint64_t i = 0; i < 32; i++) {
        link_post_send(run, HUB, i, data, i % 2 ? 100000 : 10000);
        link_post_recv(run, HUB, i, out, i % 2 ? 100000 : 10000);
    }
    link_pump_some(run);
    bench->kill(&run->net);
    link_pump_until(run, 64);
    for (uint32_t post = 0; post < 64; post++) {
        bool receive = post % 2;
        assert_true(receive ? run->status[post] < 0 : run->status[post] <= 0);
    }
    struct gyre_trouble trouble = {0};
    assert_int_equal(run->driver->state(link_pipe_of(run, HUB), &trouble), GYRE_PEER_LOST);
    assert_true(strlen(trouble.text) > 0);
    struct gyre_match match = link_name(99);
    assert_true(link_try_send(run, link_pipe_of(run, HUB), &match, data, 1) < 0);
    assert_true(link_try_recv(run, link_pipe_of(run, HUB), &match, out, 1) < 0);
    link_finish(run);
}

static void cancel_a_waiting_receive(void **state)
{
    struct link_run *run = link_start(state);
    uint8_t *out = calloc(1, 100000);
    uint32_t small = link_post_recv(run, LEAF, 500, out, 8);
    uint32_t large = link_post_recv(run, LEAF, 501, out, 100000);
    link_pump_some(run);
    assert_int_equal(run->driver->cancel(link_pipe_of(run, LEAF), link_token_of(small)), 0);
    assert_int_equal(run->driver->cancel(link_pipe_of(run, LEAF), link_token_of(large)), 0);
    assert_int_equal(run->driver->cancel(link_pipe_of(run, LEAF), link_token_of(large) + 1),
                     -ENOENT);
    link_pump_until(run, 2);
    assert_int_equal(run->status[small], -ECANCELED);
    assert_int_equal(run->status[large], -ECANCELED);
    free(out);
    link_pipe_still_works(run, 0);
    link_finish(run);
}

static void cancel_a_queued_send(void **state)
{
    struct link_run *run = link_start(state);
    uint8_t *data = calloc(1, 100000);
    uint32_t post = link_post_send(run, HUB, 500, data, 100000);
    link_pump_some(run);
    assert_int_equal(run->driver->cancel(link_pipe_of(run, HUB), link_token_of(post)), 0);
    link_pump_until(run, 1);
    assert_int_equal(run->status[post], -ECANCELED);
    free(data);
    link_pipe_still_works(run, 0);
    link_finish(run);
}

/* One side withdraws at some moment of a long message; the other side's end is told, and the pipe
 * goes on. */
static void cancel_half_way(void **state)
{
    enum { LENGTH = 8 << 20 };
    for (int moment = 0; moment < 12; moment++) {
        struct link_run *run = link_start(state);
        int side = moment % 2;
        uint8_t *data = malloc(LENGTH), *out = malloc(LENGTH);
        link_fill(data, LENGTH, 4);
        memset(out, 0, LENGTH);
        uint32_t post[2];
        post[LEAF] = link_post_recv(run, LEAF, 500, out, LENGTH);
        post[HUB] = link_post_send(run, HUB, 500, data, LENGTH);
        for (int i = 0; i < moment / 2; i++) {
            link_pump(run);
        }
        int status = run->driver->cancel(link_pipe_of(run, side), link_token_of(post[side]));
        assert_true(status == 0 || status == -ENOENT);
        while (run->status[post[side]] == LINK_NEVER) {
            link_pump(run);
        }
        assert_int_equal(run->status[post[side]], status ? 0 : -ECANCELED);
        if (!status) { /* the buffer is ours again */
            memset(side == HUB ? data : out, 0xee, LENGTH);
        }
        if (run->status[post[!side]] == LINK_NEVER) {
            link_pump_some(run);
        }
        if (run->status[post[!side]] == LINK_NEVER) {
            assert_int_equal(
                run->driver->cancel(link_pipe_of(run, !side), link_token_of(post[!side])), 0);
            link_pump_until(run, 2);
        }
        link_pipe_still_works(run, 0);
        if (run->status[post[LEAF]] == 0) {
            link_check(out, LENGTH, 4);
        } else if (side == LEAF && !status) {
            link_untouched(out, LENGTH, 0xee);
        }
        free(data);
        free(out);
        link_finish(run);
    }
}

static void detach_ends_every_post_once(void **state)
{
    struct link_run *run = link_start(state);
    static uint8_t data[100000], out[100000];
    uint32_t receives[16];
    for (uint64_t i = 0; i < 16; i++) {
        link_post_send(run, HUB, i, data, i % 2 ? 100000 : 10000);
        receives[i] = link_post_recv(run, HUB, i, out, 100000);
    }
    link_pump_some(run);
    run->driver->detach(link_pipe_of(run, HUB));
    memset(out, 0x77, sizeof out);
    link_pump_until(run, 32);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(run->status[receives[i]], -ECANCELED);
    }
    link_untouched(out, sizeof out, 0x77);
    link_finish(run);
}

static void bye_flushes_and_parts(void **state)
{
    struct link_run *run = link_start(state);
    static uint8_t data[2][60000], out[2][60000];
    int parted[2] = {GYRE_AGAIN, GYRE_AGAIN};
    for (int side = 0; side < 2; side++) {
        link_fill(data[side], 60000, (uint64_t)side);
        link_post_recv(run, !side, 1, out[!side], 60000);
        link_post_send(run, side, 1, data[side], 60000);
    }
    assert_int_equal(run->driver->bye(link_pipe_of(run, HUB)), GYRE_AGAIN);
    link_pump_some(run);
    assert_int_equal(run->driver->bye(link_pipe_of(run, HUB)),
                     GYRE_AGAIN); /* the other side has not said it */
    while (parted[0] == GYRE_AGAIN || parted[1] == GYRE_AGAIN) {
        for (int side = 0; side < 2; side++) {
            parted[side] = parted[side] == GYRE_AGAIN ? run->driver->bye(link_pipe_of(run, side))
                                                      : parted[side];
        }
        link_pump(run);
    }
    assert_int_equal(parted[0] | parted[1], 0);
    link_pump_until(run, 4);
    link_check(out[HUB], 60000, LEAF);
    link_check(out[LEAF], 60000, HUB);
    link_all_succeeded(run);
    run->driver->detach(link_pipe_of(run, HUB)); /* and the other side does not mind */
    link_pump_some(run);
    assert_int_equal(run->driver->state(link_pipe_of(run, LEAF), NULL), 0);
    link_finish(run);
}

/* Sends messages that nobody receives, until the peer's store is full. Returns how many left. */
static uint32_t fill_store(struct link_run *run, const void *data)
{
    uint32_t post;
    do {
        post = link_post_send(run, HUB, run->posts, data, GYRE_EAGER_MAX);
        link_pump_some(run);
    } while (run->status[post] == 0);
    assert_int_equal(run->driver->cancel(link_pipe_of(run, HUB), link_token_of(post)), 0);
    link_pump_until(run, run->posts);
    return post;
}

/* A peer that said goodbye and did not wait for ours. What it had sent is received all the same,
 * by receives that are posted later, though this side owes the peer credit that nobody takes. */
static void what_was_sent_outlives_its_sender(void **state)
{
    static uint8_t data[GYRE_EAGER_MAX], out[GYRE_EAGER_MAX];
    struct link_run *run = link_start(state);
    link_fill(data, sizeof data, 6);
    uint32_t messages = fill_store(run, data);
    assert_int_equal(run->driver->bye(link_pipe_of(run, HUB)), GYRE_AGAIN);
    link_pump_some(run);
    run->driver->detach(link_pipe_of(run, HUB));
    link_pump_some(run);
    for (uint32_t i = 0; i <= messages; i++) {
        uint32_t post = link_post_recv(run, LEAF, i, out, sizeof out);
        link_pump_until(run, run->posts);
        assert_int_equal(run->status[post], i < messages ? 0 : GYRE_PEER_LOST);
        if (i < messages)
            link_check(out, sizeof out, 6);
        memset(out, 0, sizeof out);
        link_pump_some(run);
    }
    link_finish(run);
}

static void another_fingerprint_is_a_mismatch(void **state)
{
    struct link_run *run = link_start(state);
    uint32_t data = 1, out[3];
    struct gyre_match match = link_name(0);
    assert_int_equal(link_try_recv(run, link_pipe_of(run, LEAF), &match, &out[0], 4), 0);
    match.order++;
    assert_int_equal(link_try_recv(run, link_pipe_of(run, LEAF), &match, &out[1], 4), 0);
    match.fingerprint++;
    assert_int_equal(link_try_send(run, link_pipe_of(run, HUB), &match, &data, 4), 0);
    while (run->driver->state(link_pipe_of(run, LEAF), NULL) == 0) {
        link_pump(run);
    }
    link_pump_until(run, 3);
    struct gyre_trouble trouble = {0};
    assert_int_equal(run->driver->state(link_pipe_of(run, LEAF), &trouble), GYRE_MISMATCH);
    assert_true(strlen(trouble.text) > 0);
    assert_int_equal(run->status[0], GYRE_MISMATCH);
    assert_int_equal(run->status[1], GYRE_MISMATCH);
    link_finish(run);
}

static void a_flipped_bit_is_corrupt(void **state)
{
    const struct gyre_link_bench *bench = *state;
    if (!bench->flips) {
        print_message("%s: skipped: nothing can flip a bit of this carrier\n", link_suite_name);
        skip();
    }
    static const int64_t places[] = {0, 5, 9, 17, 22, 30, 32, 100, 1000, 30000};
    for (size_t p = 0; p < sizeof places / sizeof *places; p++) {
        struct gyre_link_wish wish = {.leaves = 1, .flip_at = places[p]};
        struct link_run *run = link_start_wish(state, &wish);
        static uint8_t data[20000], out[20000];
        struct gyre_trouble trouble = {0};
        link_post_recv(run, LEAF, 0, out, 10000);
        link_post_recv(run, LEAF, 1, out, 20000);
        link_post_send(run, HUB, 0, data, 10000);
        link_post_send(run, HUB, 1, data, 20000);
        while (run->driver->state(link_pipe_of(run, LEAF), NULL) == 0) {
            link_pump(run);
        }
        assert_int_equal(run->driver->state(link_pipe_of(run, LEAF), &trouble), GYRE_CORRUPT);
        while (run->status[1] == LINK_NEVER) {
            link_pump(run);
        }
        assert_int_equal(run->status[1], GYRE_CORRUPT);
        link_finish(run);
    }
}

const struct link_case link_endings[] = {LINK_CASE(death_ends_every_post_once),
                                         LINK_CASE(cancel_a_waiting_receive),
                                         LINK_CASE(cancel_a_queued_send),
                                         LINK_CASE(cancel_half_way),
                                         LINK_CASE(detach_ends_every_post_once),
                                         LINK_CASE(bye_flushes_and_parts),
                                         LINK_CASE(what_was_sent_outlives_its_sender),
                                         LINK_CASE(another_fingerprint_is_a_mismatch),
                                         LINK_CASE(a_flipped_bit_is_corrupt),
                                         {0}};
