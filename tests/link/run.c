/* Running one case. Time limits are real time, whatever clock the bench gives to the driver: a
 * case that waits for what never comes must end. */
#include "link/run.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POSTS_KEPT 65536u
#define TOKEN_STEP UINT64_C(0x9e3779b97f4a7c15)

const char *link_suite_name;

uint64_t link_slowness(void)
{
    const char *text = getenv("GYRE_TEST_SLOW");
    return text && atoi(text) > 0 ? (uint64_t)atoi(text) : 1;
}

static void must(int status, const struct gyre_trouble *trouble)
{
    if (status) {
        fail_msg("%s: connect: %s (%s)", link_suite_name, gyre_status_name(status), trouble->text);
    }
}

struct link_run *link_start_wish(void **state, const struct gyre_link_wish *wish)
{
    struct link_run *run = calloc(1, sizeof *run);
    struct gyre_trouble trouble = {0};
    run->bench = *state;
    run->driver = run->bench->driver;
    run->status = malloc(POSTS_KEPT * sizeof *run->status);
    run->most = 16;
    run->give_up = gyre_now_ns() + LINK_DEADLINE * link_slowness();
    run->unstep = TOKEN_STEP;
    for (int i = 0; i < 6; i++) {
        run->unstep *= 2 - TOKEN_STEP * run->unstep;
    }
    run->net.leaves = wish->leaves;
    must(run->bench->connect(wish, &run->net, &trouble), &trouble);
    return run;
}

struct link_run *link_start(void **state)
{
    struct gyre_link_wish wish = {.leaves = 1, .flip_at = -1};
    return link_start_wish(state, &wish);
}

void link_finish(struct link_run *run)
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

static uint64_t now(const struct link_run *run)
{
    return run->bench->now ? run->bench->now(&run->net) : gyre_now_ns();
}

static void note(struct link_run *run, const struct gyre_completion *completion)
{
    uint64_t post = completion->token * run->unstep - 1;
    if (post >= run->posts) {
        fail_msg("%s: a completion with token %#" PRIx64 ", which no post had", link_suite_name,
                 completion->token);
    }
    if (run->status[post] != LINK_NEVER) {
        fail_msg("%s: post %" PRIu64 " completed twice (%d, then %d)", link_suite_name, post,
                 run->status[post], completion->status);
    }
    assert_true(completion->status <= 0);
    run->status[post] = completion->status;
    run->done++;
}

int link_poll_wire(struct link_run *run, int which)
{
    struct gyre_completion completion[16];
    int count = run->driver->poll(run->net.wire[which], now(run), completion, run->most);
    assert_in_range(count, 0, run->most);
    for (int i = 0; i < count; i++) {
        note(run, &completion[i]);
    }
    return count;
}

void link_pump(struct link_run *run)
{
    int count = 0;
    for (int i = 0; i <= run->net.leaves; i++) {
        count += run->net.wire[i] ? link_poll_wire(run, i) : 0;
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
        fail_msg("%s: gave up with %u of %u posts completed", link_suite_name, run->done,
                 run->posts);
    }
}

void link_pump_until(struct link_run *run, uint32_t done)
{
    while (run->done < done) {
        link_pump(run);
    }
}

void link_pump_some(struct link_run *run)
{
    for (int i = 0; i < 200; i++) {
        link_pump(run);
    }
}

struct gyre_match link_name(uint64_t i)
{
    return (struct gyre_match){.comm = 3,
                               .sequence = 1 + i / 64,
                               .lane = (uint16_t)(i % 8),
                               .order = (uint16_t)(i % 64 / 8),
                               .fingerprint = 0xfeedface00000000 + i / 64};
}

static uint64_t next_token(struct link_run *run)
{
    assert_true(run->posts < POSTS_KEPT);
    run->status[run->posts] = LINK_NEVER;
    return (run->posts + 1) * TOKEN_STEP;
}

uint64_t link_token_of(uint32_t post)
{
    return (post + 1) * TOKEN_STEP;
}

int link_try_send(struct link_run *run, struct gyre_pipe *pipe, const struct gyre_match *match,
                  const void *data, uint64_t length)
{
    int status = run->driver->send(pipe, match, data, length, next_token(run));
    run->posts += status == 0;
    return status;
}

int link_try_recv(struct link_run *run, struct gyre_pipe *pipe, const struct gyre_match *match,
                  void *data, uint64_t length)
{
    int status = run->driver->recv(pipe, match, data, length, next_token(run));
    run->posts += status == 0;
    return status;
}

struct gyre_pipe *link_pipe_of(struct link_run *run, int side)
{
    return side == HUB ? run->net.outward[0] : run->net.inward[0];
}

/* Posts message i; returns the post's number. Waits where all posts are in use. */
uint32_t link_post_send(struct link_run *run, int side, uint64_t i, const void *data,
                        uint64_t length)
{
    struct gyre_match match = link_name(i);
    int status;
    while ((status = link_try_send(run, link_pipe_of(run, side), &match, data, length)) ==
           GYRE_AGAIN) {
        link_pump(run);
    }
    assert_int_equal(status, 0);
    return run->posts - 1;
}

uint32_t link_post_recv(struct link_run *run, int side, uint64_t i, void *data, uint64_t length)
{
    struct gyre_match match = link_name(i);
    int status;
    while ((status = link_try_recv(run, link_pipe_of(run, side), &match, data, length)) ==
           GYRE_AGAIN) {
        link_pump(run);
    }
    assert_int_equal(status, 0);
    return run->posts - 1;
}

void link_fill(void *data, uint64_t length, uint64_t seed)
{
    uint8_t *bytes = data;
    for (uint64_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)((i * 131 + seed * 29) >> 3 ^ i);
    }
}

void link_check(const void *data, uint64_t length, uint64_t seed)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < length; i++) {
        if (bytes[i] != (uint8_t)((i * 131 + seed * 29) >> 3 ^ i)) {
            fail_msg("%s: byte %" PRIu64 " of %" PRIu64 " is wrong", link_suite_name, i, length);
        }
    }
}

void link_untouched(const void *data, uint64_t length, uint8_t value)
{
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < length; i++) {
        if (bytes[i] != value) {
            fail_msg("%s: byte %" PRIu64 " of %" PRIu64 " was written", link_suite_name, i, length);
        }
    }
}

void link_all_succeeded(const struct link_run *run)
{
    for (uint32_t i = 0; i < run->posts; i++) {
        if (run->status[i]) {
            fail_msg("%s: post %u ended with %s", link_suite_name, i,
                     run->status[i] == LINK_NEVER ? "nothing" : gyre_status_name(run->status[i]));
        }
    }
}

void link_exchange(struct link_run *run, int from, uint64_t i, uint64_t length, bool receive_first)
{
    uint8_t *data = malloc(length + 1), *out = malloc(length + 1);
    uint32_t before = run->done;
    link_fill(data, length, i);
    memset(out, 0, length + 1);
    if (receive_first) {
        link_post_recv(run, !from, i, out, length);
    }
    link_post_send(run, from, i, data, length);
    if (!receive_first) {
        link_pump_some(run);
        link_post_recv(run, !from, i, out, length);
    }
    link_pump_until(run, before + 2);
    link_check(out, length, i);
    assert_int_equal(out[length], 0);
    free(data);
    free(out);
}

void link_pipe_still_works(struct link_run *run, uint64_t i)
{
    link_exchange(run, HUB, i, 100, true);
    link_exchange(run, LEAF, i + 1, 100, false);
    link_exchange(run, HUB, i + 2, 100000, false);
    link_exchange(run, LEAF, i + 3, 100000, true);
    assert_int_equal(run->driver->state(link_pipe_of(run, HUB), NULL), 0);
    assert_int_equal(run->driver->state(link_pipe_of(run, LEAF), NULL), 0);
}
