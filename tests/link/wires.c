/* Cases: sleeping and waking, and several pipes on one wire. */
#include "link/run.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

static void settle_and_arm(struct link_run *run, struct gyre_alarm *alarm)
{
    while (run->driver->arm(run->net.wire[HUB], alarm) == GYRE_AGAIN) {
        link_pump(run);
    }
}

static void a_sleeper_is_woken(void **state)
{
    struct link_run *run = link_start(state);
    struct gyre_alarm alarm = {.fd = -1};
    for (uint64_t i = 0; i < 20; i++) {
        uint32_t data = 6, out = 0, before = run->done;
        uint32_t receive = link_post_recv(run, HUB, i, &out, 4);
        settle_and_arm(run, &alarm);
        uint32_t send = link_post_send(run, LEAF, i, &data, 4);
        while (run->status[send] == LINK_NEVER) {
            link_poll_wire(run, LEAF);
        }
        assert_int_equal(run->status[receive], LINK_NEVER); /* nobody polled the hub */
        if (alarm.fd >= 0) {
            struct pollfd wait = {.fd = alarm.fd, .events = POLLIN};
            assert_int_equal(poll(&wait, 1, (int)(10000 * link_slowness())), 1);
        }
        link_pump_until(run, before + 2);
        assert_int_equal(out, 6);
    }
    link_finish(run);
}

/* What came before arm() is not slept through. */
static void arm_sees_what_came(void **state)
{
    struct link_run *run = link_start(state);
    struct gyre_alarm alarm = {.fd = -1};
    uint32_t data = 6, out = 0;
    link_post_recv(run, HUB, 0, &out, 4);
    settle_and_arm(run, &alarm);
    uint32_t send = link_post_send(run, LEAF, 0, &data, 4);
    while (run->status[send] == LINK_NEVER) {
        link_poll_wire(run, LEAF);
    }
    for (int i = 0; run->bench->idle && i < 100; i++) {
        run->bench->idle(&run->net);
    }
    int status = run->driver->arm(run->net.wire[HUB], &alarm);
    if (status == 0) { /* then at least the alarm rings */
        assert_true(alarm.fd >= 0);
        struct pollfd wait = {.fd = alarm.fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, (int)(10000 * link_slowness())), 1);
    } else {
        assert_int_equal(status, GYRE_AGAIN);
    }
    link_pump_until(run, 2);
    link_finish(run);
}

static void several_pipes_and_one_that_leaves(void **state)
{
    struct gyre_link_wish wish = {.leaves = GYRE_LINK_LEAVES, .flip_at = -1};
    struct link_run *run = link_start_wish(state, &wish);
    uint32_t data[GYRE_LINK_LEAVES], out[GYRE_LINK_LEAVES], back[GYRE_LINK_LEAVES], lost = 0;
    struct gyre_match match = link_name(0);
    assert_int_equal(link_try_recv(run, run->net.outward[0], &match, &lost, 4), 0);
    run->driver->detach(run->net.inward[0]);
    if (run->bench->deaf) {
        assert_int_equal(run->driver->cancel(run->net.outward[0], link_token_of(0)), 0);
    }
    link_pump_until(run, 1);
    int expected = run->bench->deaf ? 0 : GYRE_PEER_LOST;
    assert_int_equal(run->status[0], run->bench->deaf ? -ECANCELED : GYRE_PEER_LOST);
    assert_int_equal(run->driver->state(run->net.outward[0], NULL), expected);
    for (uint32_t i = 1; i < GYRE_LINK_LEAVES; i++) {
        data[i] = 100 + i;
        assert_int_equal(link_try_recv(run, run->net.inward[i], &match, &out[i], 4), 0);
        assert_int_equal(link_try_recv(run, run->net.outward[i], &match, &back[i], 4), 0);
        assert_int_equal(link_try_send(run, run->net.outward[i], &match, &data[i], 4), 0);
        assert_int_equal(link_try_send(run, run->net.inward[i], &match, &data[i], 4), 0);
    }
    link_pump_until(run, 1 + 4 * (GYRE_LINK_LEAVES - 1));
    for (uint32_t i = 1; i < GYRE_LINK_LEAVES; i++) {
        assert_int_equal(out[i], data[i]);
        assert_int_equal(back[i], data[i]);
        assert_int_equal(run->driver->state(run->net.outward[i], NULL), 0);
    }
    link_finish(run);
}

const struct link_case link_wires[] = {LINK_CASE(a_sleeper_is_woken),
                                       LINK_CASE(arm_sees_what_came),
                                       LINK_CASE(several_pipes_and_one_that_leaves),
                                       {0}};
