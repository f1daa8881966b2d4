/* The verbs driver with several queue pairs to a peer, on one device or several: who carries which
 * part of a message, that nothing overtakes where one device is slower, and what becomes of a device
 * that is of no use, or ceases to be. Two wires in this process, on the stand-in for the library.
 *
 * Lengths are those around one part and around as many as there are queue pairs; chance, from seeds
 * (a third of them under sanitizers), decides on sizes, on when slow devices go on and on when one
 * breaks. */
#include "fake_verbs.h"
#include "haste.h"

#include "base/clock.h"
#include "base/rng.h"
#include "transport/drivers/verbs.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PART         (128u * 1024)
#define MOST         (700u * 1024) /* bytes of a message */
#define PLACES       16u           /* messages under way each way */
#define MESSAGES     120u
#define TURNS_MOST   200000
#define NEVER        12345

static _Alignas(4096) uint8_t arena[2][2][PLACES][MOST]; /* end, out or in, place */

struct rig { /* two ends; tokens are numbers of messages */
    struct gyre_wire *wire[2];
    struct gyre_pipe *pipe[2];
    struct gyre_channel channel[2];
    struct gyre_trouble trouble[2];
    int status[2];
    int sent[2][MESSAGES], got[2][MESSAGES];
    uint32_t order[2], last_got[2]; /* how many have come, and the last of them */
};

/* -- two ends ---------------------------------------------------------------------------------- */

static uint32_t hold(void *context, const void *memory, uint64_t length, void **base,
                     uint64_t *span)
{
    const uint8_t *at = memory, *begin = &arena[0][0][0][0];
    (void)context;
    if (at < begin || at + length > begin + sizeof arena)
        return 0;
    *base = arena;
    *span = sizeof arena;
    return 1;
}

static const struct gyre_sight sight = {.hold = hold};

static void make_devices(void)
{
    fake_verbs_reset();
    fake_verbs.devices = FAKE_DEVICES;
    fake_verbs.port[0] =
        (struct fake_port){"a", IBV_PORT_ACTIVE, 0, {{"::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2}}};
    fake_verbs.port[1] =
        (struct fake_port){"b", IBV_PORT_ACTIVE, 0, {{"::ffff:10.1.0.1", IBV_GID_TYPE_ROCE_V2}}};
    fake_verbs.port[2] =
        (struct fake_port){"c", IBV_PORT_ACTIVE, 0, {{"::ffff:10.2.0.1", IBV_GID_TYPE_ROCE_V2}}};
    fake_verbs.port[3] =
        (struct fake_port){"d", IBV_PORT_ACTIVE, 0, {{"::ffff:10.3.0.1", IBV_GID_TYPE_ROCE_V2}}};
}

static int open_end(struct rig *rig, int end, const char *device, const char *queues, bool failover)
{
    struct gyre_wire_options options = {.rank = (uint32_t)end,
                                        .n = 2,
                                        .epoch = 3,
                                        .peers = 1,
                                        .sight = &sight,
                                        .failover = failover};
    setenv("GYRE_RDMA_DEVICE", device, 1);
    setenv("GYRE_RDMA_QUEUES", queues, 1);
    int status = gyre_driver_verbs.open(&options, &rig->wire[end], &rig->trouble[end]);
    unsetenv("GYRE_RDMA_DEVICE");
    unsetenv("GYRE_RDMA_QUEUES");
    return status;
}

static void attach(struct rig *rig, int end)
{
    rig->status[end] = gyre_driver_verbs.attach(rig->wire[end], &rig->channel[end], &rig->pipe[end],
                                                &rig->trouble[end]);
}

static void *attach_second(void *rig)
{
    attach(rig, 1);
    return NULL;
}

static struct rig *rig_new(const char *device0, const char *device1, const char *queues,
                           bool failover)
{
    struct rig *rig = calloc(1, sizeof *rig);
    pthread_t thread;
    int fd[2];
    for (int end = 0; end < 2; end++)
        for (uint32_t i = 0; i < MESSAGES; i++)
            rig->sent[end][i] = rig->got[end][i] = NEVER;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    for (int end = 0; end < 2; end++) {
        rig->channel[end] =
            (struct gyre_channel){.peer = (uint32_t)!end, .fd = {fd[end]}, .fds = 1};
        int status = open_end(rig, end, end ? device1 : device0, queues, failover);
        if (status)
            fail_msg("%d (%s)", status, rig->trouble[end].text);
    }
    assert_int_equal(pthread_create(&thread, NULL, attach_second, rig), 0);
    attach(rig, 0);
    pthread_join(thread, NULL);
    for (int end = 0; end < 2; end++)
        if (rig->status[end])
            fail_msg("%d (%s)", rig->status[end], rig->trouble[end].text);
    return rig;
}

static void rig_free(struct rig *rig)
{
    gyre_driver_verbs.close(rig->wire[0]);
    gyre_driver_verbs.close(rig->wire[1]);
    free(rig);
    assert_int_equal(fake_verbs.open, 0);
}

static const struct gyre_verbs_pipe *inside(const struct rig *rig, int end)
{
    return (const struct gyre_verbs_pipe *)rig->pipe[end];
}

/* -- messages ---------------------------------------------------------------------------------- */

static uint8_t *place(int end, bool in, uint32_t number)
{
    return arena[end][in][number % PLACES];
}

/* What message `number` from that end says: a piece of noise that no other one begins with. */
static const uint8_t *text(int end, uint32_t number)
{
    static uint8_t noise[MOST + 2 * MESSAGES];
    for (size_t i = 0; !noise[0] && i < sizeof noise; i++)
        noise[sizeof noise - 1 - i] = (uint8_t)(gyre_mix64(i) | 1);
    return noise + 2 * number + end;
}

static void accepted(const struct rig *rig, int end, int status)
{
    if (status)
        fail_msg("end %d: %d (%s)", end, status, inside(rig, end)->trouble.text);
}

/* Message `number` from that end to the other. */
static void post_send(struct rig *rig, int end, uint32_t number, uint64_t length)
{
    const struct gyre_match match = {.comm = 1, .sequence = number};
    uint8_t *from = place(end, false, number);
    memcpy(from, text(end, number), length);
    accepted(rig, end, gyre_driver_verbs.send(rig->pipe[end], &match, from, length, number));
}

static void post_recv(struct rig *rig, int end, uint32_t number, uint64_t length)
{
    const struct gyre_match match = {.comm = 1, .sequence = number};
    uint8_t *to = place(end, true, number);
    memset(to, 0, length);
    accepted(rig, end,
             gyre_driver_verbs.recv(rig->pipe[end], &match, to, length, MESSAGES + number));
}

static void assert_brought(int end, uint32_t number, uint64_t length)
{
    if (memcmp(place(end, true, number), text(!end, number), length) != 0)
        fail_msg("message %u of %llu bytes is not what was sent", number,
                 (unsigned long long)length);
}

static void look(struct rig *rig)
{
    for (int end = 0; end < 2; end++) {
        struct gyre_completion done[8];
        int count = gyre_driver_verbs.poll(rig->wire[end], gyre_now_ns(), done, 8);
        for (int i = 0; i < count; i++) {
            bool in = done[i].token >= MESSAGES;
            uint32_t number = (uint32_t)done[i].token % MESSAGES;
            int *slot = in ? &rig->got[end][number] : &rig->sent[end][number];
            assert_int_equal(*slot, NEVER);
            *slot = done[i].status;
            rig->order[end] += in;
            rig->last_got[end] = in ? number : rig->last_got[end];
        }
    }
}

static void look_often(struct rig *rig)
{
    for (int turn = 0; turn < 50; turn++)
        look(rig);
}

static void until(struct rig *rig, const int *status)
{
    for (int turn = 0; turn < TURNS_MOST && *status == NEVER; turn++)
        look(rig);
    assert_int_not_equal(*status, NEVER);
}

/* One message from end 0 to end 1. */
static void carry(struct rig *rig, uint32_t number, uint64_t length)
{
    post_recv(rig, 1, number, length);
    look_often(rig);
    post_send(rig, 0, number, length);
    until(rig, &rig->got[1][number]);
    until(rig, &rig->sent[0][number]);
    assert_int_equal(rig->got[1][number], 0);
    assert_int_equal(rig->sent[0][number], 0);
    assert_brought(1, number, length);
}

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
        make_devices();
        struct rig *rig = rig_new(wishes[i].device, wishes[i].device, wishes[i].queues, false);
        const struct gyre_verbs_pipe *pipe = inside(rig, 0);
        assert_string_equal(gyre_driver_verbs.serves(rig->wire[0]), wishes[i].name);
        assert_int_equal(pipe->ways, wishes[i].ways);
        assert_int_equal(inside(rig, 1)->ways, wishes[i].ways);
        for (uint32_t k = 0; k < COUNT(lengths); k++) {
            uint32_t before[GYRE_VERBS_QUEUES];
            for (uint32_t way = 1; way < pipe->ways; way++)
                before[way] = pipe->way[way]->sends;
            carry(rig, k, lengths[k]);
            for (uint32_t way = 1; way < pipe->ways; way++)
                if (pipe->way[way]->sends - before[way] != parts_on(lengths[k], way, pipe->ways))
                    fail_msg("%s, %llu bytes: %u requests on queue pair %u", wishes[i].name,
                             (unsigned long long)lengths[k], pipe->way[way]->sends - before[way],
                             way);
        }
        rig_free(rig);
    }
}

/* By the devices' own count, and few answers are asked for. */
static void devices_share_the_bytes(void **state)
{
    (void)state;
    make_devices();
    struct rig *rig = rig_new("a+b", "a+b", "1", false);
    uint64_t before[2] = {fake_verbs.written[0], fake_verbs.written[1]};
    uint32_t answers = fake_verbs.answers[1];
    for (uint32_t i = 0; i < 8; i++)
        post_recv(rig, 1, i, 4 * PART);
    look_often(rig);
    for (uint32_t i = 0; i < 8; i++)
        post_send(rig, 0, i, 4 * PART);
    for (uint32_t i = 0; i < 8; i++)
        until(rig, &rig->sent[0][i]);
    assert_int_equal(fake_verbs.written[1] - before[1], 8 * 2 * PART);
    assert_in_range(fake_verbs.written[0] - before[0], 8 * 2 * PART, 8 * 2 * PART + 8 * 1024);
    assert_in_range(fake_verbs.answers[1] - answers, 1, 8);
    rig_free(rig);
}

/* As many as may be granted a place are written before their receiver looks: no pair runs out of
 * receives, which the stand-in does not forgive. */
static void a_receiver_may_look_late(void **state)
{
    const uint64_t length = 2 * PART;
    struct gyre_completion done;
    (void)state;
    make_devices();
    struct rig *rig = rig_new("a+b", "a+b", "1", false);
    for (uint32_t i = 0; i < GYRE_VERBS_PLACES; i++) {
        const struct gyre_match match = {.comm = 1, .sequence = i};
        uint8_t *from = &arena[0][0][0][0] + i * length, *to = &arena[1][1][0][0] + i * length;
        accepted(rig, 1, gyre_driver_verbs.recv(rig->pipe[1], &match, to, length, MESSAGES + i));
        accepted(rig, 0, gyre_driver_verbs.send(rig->pipe[0], &match, from, length, i));
    }
    gyre_driver_verbs.poll(rig->wire[1], gyre_now_ns(), &done, 1); /* the grants leave */
    for (int turn = 0; turn < 100; turn++)
        gyre_driver_verbs.poll(rig->wire[0], gyre_now_ns(), &done, 1);
    assert_int_equal(inside(rig, 0)->announced, GYRE_VERBS_PLACES);
    for (uint32_t i = 0; i < GYRE_VERBS_PLACES; i++)
        until(rig, &rig->got[1][i]);
    rig_free(rig);
}

/* -- order ------------------------------------------------------------------------------------- */

/* A long message of which one device's share is late, and a short one behind it. */
static void nothing_overtakes_a_late_share(void **state)
{
    (void)state;
    for (int late = 0; late < 3; late++) {
        make_devices();
        struct rig *rig = rig_new("a+b+c", "a+b+c", "1", false);
        post_recv(rig, 1, 0, 5 * PART);
        post_recv(rig, 1, 1, 8);
        post_recv(rig, 1, 2, 5000);
        look_often(rig);
        fake_verbs.slow[late] = true;
        post_send(rig, 0, 0, 5 * PART);
        look_often(rig);
        post_send(rig, 0, 1, 8);
        post_send(rig, 0, 2, 5000);
        look_often(rig);
        assert_int_equal(rig->order[1], 0);
        assert_int_equal(rig->sent[0][0], NEVER);
        while (fake_verbs_hurry(1)) {
            look_often(rig);
            assert_true(!rig->order[1] || rig->got[1][0] == 0);
        }
        for (uint32_t i = 0; i < 3; i++)
            until(rig, &rig->got[1][i]);
        assert_int_equal(rig->last_got[1], 2);
        until(rig, &rig->sent[0][0]);
        assert_brought(1, 0, 5 * PART);
        rig_free(rig);
    }
}

/* -- chance ------------------------------------------------------------------------------------ */

static uint64_t length_of(uint64_t seed, int end, uint32_t number)
{
    static const uint64_t some[] = {8, 200, 5000, 20000, PART, 2 * PART + 5, 3 * PART, MOST};
    uint64_t chance = gyre_mix64(seed << 20 | (uint64_t)end << 19 | number);
    return some[chance % COUNT(some)] - chance / 64 % 5;
}

static bool is_over(const struct rig *rig, uint32_t number)
{
    return rig->sent[0][number] != NEVER && rig->sent[1][number] != NEVER &&
           rig->got[0][number] != NEVER && rig->got[1][number] != NEVER;
}

struct play {
    struct rig *rig;
    uint64_t seed, chance;
    uint32_t posted, over; /* messages, each both ways; the posted ones that have ended */
};

/* Here the sends go first, there the receives. */
static void post_both(struct play *play)
{
    bool receives = play->chance >> 16 & 1;
    for (int k = 0; k < 2; k++, receives = !receives)
        for (int end = 0; end < 2; end++)
            if (receives)
                post_recv(play->rig, end, play->posted, length_of(play->seed, !end, play->posted));
            else
                post_send(play->rig, end, play->posted, length_of(play->seed, end, play->posted));
    play->posted++;
}

static void check_what_is_over(struct play *play)
{
    const struct rig *rig = play->rig;
    for (; play->over < play->posted && is_over(rig, play->over); play->over++)
        for (int end = 0; end < 2; end++) {
            uint32_t number = play->over;
            if (rig->got[end][number] || rig->sent[end][number])
                fail_msg("seed %llu, message %u: %d, %d (%s)", (unsigned long long)play->seed,
                         number, rig->sent[end][number], rig->got[end][number],
                         inside(rig, end)->trouble.text);
            assert_brought(end, number, length_of(play->seed, !end, number));
        }
}

static void one_turn(struct play *play)
{
    play->chance = gyre_mix64(play->chance);
    fake_verbs.slow[play->chance >> 8 & 3] = play->chance & 1;
    if (play->posted < MESSAGES && play->posted - play->over < PLACES)
        post_both(play);
    look(play->rig);
    fake_verbs_hurry((int)(play->chance >> 20 & 7));
    check_what_is_over(play);
}

/* Both directions at once, devices that are slow now and then; `breaks`: one dies at some point, and
 * TCP goes on. */
static void play_all(const char *device, const char *queues, uint64_t seed, bool breaks)
{
    make_devices();
    struct play play = {
        .rig = rig_new(device, device, queues, breaks), .seed = seed, .chance = gyre_mix64(seed)};
    uint32_t doom = breaks ? (uint32_t)(play.chance >> 8) % (MESSAGES / 2) : MESSAGES;
    for (int turn = 0; turn < TURNS_MOST && play.over < MESSAGES; turn++) {
        if (play.over >= doom)
            fake_verbs.dead[seed % inside(play.rig, 0)->ways] = true;
        one_turn(&play);
    }
    if (play.over != MESSAGES)
        fail_msg("seed %llu: %u of %u messages", (unsigned long long)seed, play.over, MESSAGES);
    assert_int_equal(inside(play.rig, 0)->detour.state,
                     breaks ? GYRE_VERBS_DETOURED : GYRE_VERBS_DIRECT);
    rig_free(play.rig);
}

static void all_comes_over_uneven_devices(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (in_haste() ? 2 : 6); seed++) {
        play_all("a+b", "1", seed, false);
        play_all("a+b+c", "1", seed + 100, false);
        play_all("a", "2", seed + 200, false);
    }
}

static void all_comes_though_a_device_breaks(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (in_haste() ? 4 : 12); seed++) {
        play_all("a+b", "1", seed, true);
        play_all("a+b+c", "1", seed + 100, true);
    }
    play_all("a", "1", 1, true);
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
        make_devices();
        if (left_out[i].dead >= 0)
            fake_verbs.dead[left_out[i].dead] = true;
        if (left_out[i].spoils >= 0)
            fake_verbs.spoils[left_out[i].spoils] = true;
        struct rig *rig = rig_new(left_out[i].device0, left_out[i].device1, "1", false);
        for (int end = 0; end < 2; end++) {
            const struct gyre_verbs_pipe *pipe = inside(rig, end);
            if (pipe->ways != left_out[i].ways ||
                (pipe->ways > 1 && pipe->way[1] != &pipe->queue[left_out[i].second]))
                fail_msg("%s: %u ways", left_out[i].what, pipe->ways);
        }
        carry(rig, 0, MOST);
        carry(rig, 1, 100);
        rig_free(rig);
    }
}

/* A port that goes ends what is over it, with a word on which one it was. */
static void a_device_that_breaks_is_named(void **state)
{
    (void)state;
    make_devices();
    struct rig *rig = rig_new("a+b", "a+b", "1", false);
    carry(rig, 0, MOST);
    fake_verbs.dead[1] = true;
    post_recv(rig, 1, 1, MOST);
    look_often(rig);
    post_send(rig, 0, 1, MOST);
    until(rig, &rig->sent[0][1]);
    assert_int_equal(rig->sent[0][1], GYRE_PEER_LOST);
    struct gyre_trouble why = {0};
    assert_int_equal(gyre_driver_verbs.state(rig->pipe[0], &why), GYRE_PEER_LOST);
    assert_non_null(strstr(why.text, "(b:1, GID 10.1.0.1, queue pair"));
    rig_free(rig);
}

/* Of a region that one device cannot take, messages go through the rings. */
static void a_region_is_known_to_all_devices_or_to_none(void **state)
{
    (void)state;
    make_devices();
    struct rig *rig = rig_new("a+b", "a+b", "1", false);
    fake_verbs.memory = 3 * sizeof arena; /* of four registrations */
    uint32_t before = inside(rig, 0)->queue[1].sends;
    carry(rig, 0, MOST);
    assert_int_equal(inside(rig, 0)->queue[1].sends, before);
    assert_in_range(fake_verbs.memory, sizeof arena, 2 * sizeof arena);
    rig_free(rig);
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
        struct rig rig = {.wire = {NULL}};
        make_devices();
        assert_int_equal(open_end(&rig, 0, refusals[i].device, refusals[i].queues, false),
                         GYRE_INVALID);
        if (!strstr(rig.trouble[0].text, refusals[i].words))
            fail_msg("\"%s\" does not say \"%s\"", rig.trouble[0].text, refusals[i].words);
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
        cmocka_unit_test(all_comes_over_uneven_devices),
        cmocka_unit_test(all_comes_though_a_device_breaks),
        cmocka_unit_test(a_device_of_no_use_is_left_out),
        cmocka_unit_test(a_device_that_breaks_is_named),
        cmocka_unit_test(a_region_is_known_to_all_devices_or_to_none),
        cmocka_unit_test(wishes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
