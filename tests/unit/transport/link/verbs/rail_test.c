/* The verbs driver with several queue pairs to a peer, on one device or several: who carries which
 * part of a message, that nothing overtakes where one device is slower, and what becomes of a
 * device that is of no use. Two wires in this process, on the stand-in for the library.
 *
 * Lengths are those around one part and around as many as there are queue pairs. */
#include "unit/transport/link/verbs/verbs_ends.h"

#include "base/clock.h"
#include "rig/test.h"

#include <errno.h>
#include <string.h>

/* -- shares ------------------------------------------------------------------------------------ */

static const struct {
    const char *device, *queues;
    uint32_t ways;
    const char *name;
} wishes[] = {
    {"a", "1", 1, "a:1"},
    {"a+b", "1", 2, "a:1+b:1"},
    {"a+b+c", "1", 3, "a:1+b:1+c:1"},
    {"a:1+b+c+d:1", "1", 4, "a:1+b:1+c:1+d:1"},
    {"a", "2", 2, "a:1 x2"},
    {"a", "4", 4, "a:1 x4"},
    {"a+b", "2", 4, "a:1+b:1 x2"},
};

static const uint64_t lengths[] = {20000,    PART,          PART + 1, 2 * PART, 2 * PART + 1,
                                   3 * PART, 4 * PART + 77, 5 * PART, MOST};

/* Requests that a queue pair beside the first is given for a message: the last part is the first
 * one's, the one before it the second one's, and so on. */
static uint32_t parts_on(uint64_t length, uint32_t way, uint32_t ways)
{
    uint32_t parts = (uint32_t)((length + PART - 1) / PART), count = 0;
    for (uint32_t i = 0; i < parts; i++)
        count += i % ways == way;
    return count;
}

static void every_queue_pair_carries_its_share(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(wishes); i++) {
        ends_devices();
        struct ends *ends = ends_new(wishes[i].device, wishes[i].device, wishes[i].queues, false);
        const struct gyre_verbs_pipe *pipe = ends_inside(ends, 0);
        char link[64] = "";
        gyre_driver_verbs.describe(ends->wire[0], link, sizeof link);
        assert_string_equal(link + strlen("verbs/"), wishes[i].name);
        assert_int_equal(pipe->ways, wishes[i].ways);
        assert_int_equal(ends_inside(ends, 1)->ways, wishes[i].ways);
        for (uint32_t k = 0; k < COUNT(lengths); k++) {
            uint32_t before[GYRE_VERBS_QUEUES];
            for (uint32_t way = 1; way < pipe->ways; way++)
                before[way] = pipe->way[way]->sends;
            ends_carry(ends, k, lengths[k]);
            for (uint32_t way = 1; way < pipe->ways; way++)
                if (pipe->way[way]->sends - before[way] != parts_on(lengths[k], way, pipe->ways))
                    fail_msg("%s, %llu bytes: %u requests on queue pair %u", wishes[i].name,
                             (unsigned long long)lengths[k], pipe->way[way]->sends - before[way],
                             way);
        }
        ends_free(ends);
    }
}

/* By the devices' own count, and few answers are asked for. */
static void devices_share_the_bytes(void **state)
{
    (void)state;
    ends_devices();
    struct ends *ends = ends_new("a+b", "a+b", "1", false);
    uint64_t before[2] = {fake_verbs.written[0], fake_verbs.written[1]};
    uint32_t answers = fake_verbs.answers[1];
    for (uint32_t i = 0; i < 8; i++)
        ends_recv(ends, 1, i, 4 * PART);
    ends_look_often(ends);
    for (uint32_t i = 0; i < 8; i++)
        ends_send(ends, 0, i, 4 * PART);
    for (uint32_t i = 0; i < 8; i++)
        ends_until(ends, &ends->sent[0][i]);
    assert_int_equal(fake_verbs.written[1] - before[1], 8 * 2 * PART);
    assert_in_range(fake_verbs.written[0] - before[0], 8 * 2 * PART, 8 * 2 * PART + 8 * 1024);
    assert_in_range(fake_verbs.answers[1] - answers, 1, 8);
    ends_free(ends);
}

/* As many as may be granted a place are written before their receiver looks: no pair runs out of
 * receives, which the stand-in does not forgive. */
static void a_receiver_may_look_late(void **state)
{
    const uint64_t length = 2 * PART;
    struct gyre_completion done;
    (void)state;
    ends_devices();
    struct ends *ends = ends_new("a+b", "a+b", "1", false);
    for (uint32_t i = 0; i < GYRE_VERBS_PLACES; i++) {
        const struct gyre_match match = {.comm = 1, .sequence = i};
        uint8_t *from = &ends_arena[0][0][0][0] + i * length,
                *to = &ends_arena[1][1][0][0] + i * length;
        ends_accepted(ends, 1,
                      gyre_driver_verbs.recv(ends->pipe[1], &match, to, length, MESSAGES + i));
        ends_accepted(ends, 0, gyre_driver_verbs.send(ends->pipe[0], &match, from, length, i));
    }
    gyre_driver_verbs.poll(ends->wire[1], gyre_now_ns(), &done, 1); /* the grants leave */
    for (int turn = 0; turn < 100; turn++)
        gyre_driver_verbs.poll(ends->wire[0], gyre_now_ns(), &done, 1);
    assert_int_equal(ends_inside(ends, 0)->announced, GYRE_VERBS_PLACES);
    for (uint32_t i = 0; i < GYRE_VERBS_PLACES; i++)
        ends_until(ends, &ends->got[1][i]);
    ends_free(ends);
}

/* -- order ------------------------------------------------------------------------------------- */

/* A long message of which one device's share is late, and a short one behind it. */
static void nothing_overtakes_a_late_share(void **state)
{
    (void)state;
    for (int late = 0; late < 3; late++) {
        ends_devices();
        struct ends *ends = ends_new("a+b+c", "a+b+c", "1", false);
        ends_recv(ends, 1, 0, 5 * PART);
        ends_recv(ends, 1, 1, 8);
        ends_recv(ends, 1, 2, 5000);
        ends_look_often(ends);
        fake_verbs.slow[late] = true;
        ends_send(ends, 0, 0, 5 * PART);
        ends_look_often(ends);
        ends_send(ends, 0, 1, 8);
        ends_send(ends, 0, 2, 5000);
        ends_look_often(ends);
        assert_int_equal(ends->order[1], 0);
        assert_int_equal(ends->sent[0][0], NEVER);
        while (fake_verbs_hurry(1)) {
            ends_look_often(ends);
            assert_true(!ends->order[1] || ends->got[1][0] == 0);
        }
        for (uint32_t i = 0; i < 3; i++)
            ends_until(ends, &ends->got[1][i]);
        assert_int_equal(ends->last_got[1], 2);
        ends_until(ends, &ends->sent[0][0]);
        ends_brought(1, 0, 5 * PART);
        ends_free(ends);
    }
}

/* -- what is of no use ------------------------------------------------------------------------- */

static const struct {
    const char *what, *device0, *device1;
    int dead, spoils; /* devices; -1: none */
    uint32_t ways;
    int second; /* number of the second queue pair that serves */
} left_out[] = {
    {"a device that the other end does not have", "a+b+c", "a+nosuch+c", -1, -1, 2, 2},
    {"and that this one does not", "a+nosuch", "a+b", -1, -1, 1, 0},
    {"one end has fewer", "a+b+c", "a+b", -1, -1, 2, 1},
    {"a path that loses all", "a+b+c", "a+b+c", 1, -1, 2, 2},
    {"one that brings other bytes", "a+b+c", "a+b+c", -1, 1, 2, 2},
    {"the last one", "a+b", "a+b", 1, -1, 1, 0},
};

static void a_device_of_no_use_is_left_out(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(left_out); i++) {
        ends_devices();
        if (left_out[i].dead >= 0)
            fake_verbs.dead[left_out[i].dead] = true;
        if (left_out[i].spoils >= 0)
            fake_verbs.spoils[left_out[i].spoils] = true;
        struct ends *ends = ends_new(left_out[i].device0, left_out[i].device1, "1", false);
        for (int end = 0; end < 2; end++) {
            const struct gyre_verbs_pipe *pipe = ends_inside(ends, end);
            if (pipe->ways != left_out[i].ways ||
                (pipe->ways > 1 && pipe->way[1] != &pipe->queue[left_out[i].second]))
                fail_msg("%s: %u ways", left_out[i].what, pipe->ways);
        }
        ends_carry(ends, 0, MOST);
        ends_carry(ends, 1, 100);
        ends_free(ends);
    }
}

/* A port that goes ends what is over it, with a word on which one it was. */
static void a_device_that_breaks_is_named(void **state)
{
    (void)state;
    ends_devices();
    struct ends *ends = ends_new("a+b", "a+b", "1", false);
    ends_carry(ends, 0, MOST);
    fake_verbs.dead[1] = true;
    ends_recv(ends, 1, 1, MOST);
    ends_look_often(ends);
    ends_send(ends, 0, 1, MOST);
    ends_until(ends, &ends->sent[0][1]);
    assert_int_equal(ends->sent[0][1], GYRE_PEER_LOST);
    struct gyre_trouble why = {0};
    assert_int_equal(gyre_driver_verbs.state(ends->pipe[0], &why), GYRE_PEER_LOST);
    assert_non_null(strstr(why.text, "(b:1, GID 10.1.0.1, queue pair"));
    ends_free(ends);
}

/* Of a region that one device cannot take, messages go through the rings. */
static void a_region_is_known_to_all_devices_or_to_none(void **state)
{
    (void)state;
    ends_devices();
    struct ends *ends = ends_new("a+b", "a+b", "1", false);
    fake_verbs.memory = 3 * sizeof ends_arena; /* of four registrations */
    uint32_t before = ends_inside(ends, 0)->queue[1].sends;
    ends_carry(ends, 0, MOST);
    assert_int_equal(ends_inside(ends, 0)->queue[1].sends, before);
    assert_in_range(fake_verbs.memory, sizeof ends_arena, 2 * sizeof ends_arena);
    ends_free(ends);
}

static const struct {
    const char *device, *queues, *words;
} refusals[] = {
    {"a+b+c+d+a", "1", "ask for 5 queue pairs to a peer, 1 on each of 5 devices: at most 4"},
    {"a+b", "3", "ask for 6 queue pairs to a peer, 3 on each of 2 devices: at most 4"},
    {"a", "5", "GYRE_RDMA_QUEUES"},
    {"a", "x", "GYRE_RDMA_QUEUES"},
    {"a+", "1", "GYRE_RDMA_DEVICE is \"a+\": expected a device"},
    {"a+b:x", "1", "GYRE_RDMA_DEVICE's port"},
    {"+a", "1", "GYRE_RDMA_DEVICE is \"+a\""},
};

static void wishes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(refusals); i++) {
        struct ends ends = {.wire = {NULL}};
        ends_devices();
        assert_int_equal(ends_open(&ends, 0, refusals[i].device, refusals[i].queues, false),
                         GYRE_INVALID);
        if (!strstr(ends.trouble[0].text, refusals[i].words))
            fail_msg("\"%s\" does not say \"%s\"", ends.trouble[0].text, refusals[i].words);
        assert_int_equal(fake_verbs.open, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_queue_pair_carries_its_share),
        cmocka_unit_test(devices_share_the_bytes),
        cmocka_unit_test(a_receiver_may_look_late),
        cmocka_unit_test(nothing_overtakes_a_late_share),
        cmocka_unit_test(a_device_of_no_use_is_left_out),
        cmocka_unit_test(a_device_that_breaks_is_named),
        cmocka_unit_test(a_region_is_known_to_all_devices_or_to_none),
        cmocka_unit_test(wishes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
