/* Cases: short messages without a post, among those with one. */
#include "link/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST 2048u

/* A run of a driver that sends without a post; the case is skipped for others. */
static struct link_run *start(void **state)
{
    struct link_run *run = link_start(state);
    if (run->driver->send_now)
        return run;
    link_finish(run);
    print_message("%s: skipped: no message goes without a post\n", link_suite_name);
    skip();
    return NULL; /* skip() does not return */
}

static bool send_now(struct link_run *run, int side, uint64_t i, uint64_t length)
{
    static uint8_t data[MOST];
    struct gyre_match match = link_name(i);
    link_fill(data, length, i);
    return run->driver->send_now(link_pipe_of(run, side), &match, data, length);
}

static int recv_now(struct link_run *run, int side, uint64_t i, uint64_t length)
{
    static uint8_t data[MOST];
    struct gyre_match match = link_name(i);
    int status = run->driver->recv_now(link_pipe_of(run, side), &match, data, length);
    if (!status)
        link_check(data, length, i);
    return status;
}

/* Until it is there; says whether it was at once. */
static bool take(struct link_run *run, int side, uint64_t i, uint64_t length)
{
    bool at_once = true;
    for (; recv_now(run, side, i, length); at_once = false)
        link_pump(run);
    return at_once;
}

/* Around a ring many times, and through all the credit. */
static void back_and_forth(void **state)
{
    struct link_run *run = start(state);
    uint32_t at_once = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t length = i * 37 % (MOST + 1);
        int from = i / 3 % 2 ? LEAF : HUB;
        assert_int_not_equal(recv_now(run, !from, i, length), 0);
        while (!send_now(run, from, i, length))
            link_pump(run);
        at_once += take(run, !from, i, length);
    }
    assert_true(at_once > 0);
    assert_int_equal(run->done, 0);
    link_pipe_still_works(run, 30000);
    link_finish(run);
}

static void among_posts(void **state)
{
    struct link_run *run = start(state);
    uint8_t *out = calloc(1, 3 * MOST);
    for (uint64_t i = 0; i < 600; i += 3) {
        uint64_t length = i * 37 % (MOST + 1);
        uint32_t before = run->done;
        while (!send_now(run, HUB, i, length) || !send_now(run, HUB, i + 1, length))
            link_pump(run);
        bool early = !recv_now(run, LEAF, i + 1, length); /* the other is first, in one order */
        link_post_recv(run, LEAF, i + 2, out, length);
        while (!send_now(run, HUB, i + 2, length))
            link_pump(run);
        link_pump_until(run, before + 1);
        link_check(out, length, i + 2);
        assert_true(early || take(run, LEAF, i + 1, length)); /* it has come meanwhile */
        assert_int_not_equal(recv_now(run, LEAF, i + 1, length), 0);
        take(run, LEAF, i, length);
    }
    link_all_succeeded(run);
    free(out);
    link_finish(run);
}

/* More than a small ring takes: of one frame only the beginning is there. */
static void a_frame_in_parts(void **state)
{
    enum { COUNT = 28 };
    struct link_run *run = start(state);
    static uint8_t data[COUNT][MOST];
    for (uint64_t i = 0; i < COUNT; i++) {
        link_fill(data[i], MOST, i);
        link_post_send(run, HUB, i, data[i], MOST);
    }
    for (uint64_t i = 0; i < COUNT; i++)
        while (recv_now(run, LEAF, i, MOST))
            link_pump(run);
    link_pump_until(run, COUNT);
    link_all_succeeded(run);
    link_finish(run);
}

static void other_ends_are_told(void **state)
{
    struct link_run *run = start(state);
    struct gyre_match match = link_name(1);
    struct gyre_trouble trouble = {0};
    uint8_t out[8];
    match.fingerprint++;
    assert_true(send_now(run, HUB, 1, 8));
    assert_int_not_equal(run->driver->recv_now(link_pipe_of(run, LEAF), &match, out, 8), 0);
    int status = link_try_recv(run, link_pipe_of(run, LEAF), &match, out, 8);
    while (!status && !(status = run->driver->state(link_pipe_of(run, LEAF), &trouble)))
        link_pump(run);
    assert_int_equal(status, GYRE_MISMATCH);
    assert_int_equal(recv_now(run, LEAF, 1, 8), -ENOENT);
    assert_false(send_now(run, LEAF, 2, 8));
    link_finish(run);
}

const struct link_case link_now[] = {LINK_CASE(back_and_forth),
                                     LINK_CASE(among_posts),
                                     LINK_CASE(a_frame_in_parts),
                                     LINK_CASE(other_ends_are_told),
                                     {0}};
