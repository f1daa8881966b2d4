/* Two ends: their inside. */
#include "unit/transport/link/verbs/verbs_ends.h"

#include "base/clock.h"
#include "base/rng.h"
#include "rig/test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

_Alignas(4096) uint8_t ends_arena[2][2][PLACES][MOST];

/* -- two ends ---------------------------------------------------------------------------------- */

struct gyre_memory_lookup ends_lookup;

void ends_memory(void)
{
    if (ends_lookup.shared)
        gyre_lookup_deinit(&ends_lookup);
    memset(&ends_lookup, 0, sizeof ends_lookup);
    assert_int_equal(gyre_lookup_init(&ends_lookup, 1), 0);
}

uint32_t ends_region(void *base, uint64_t length, enum gyre_memory_kind kind)
{
    const struct gyre_region region = {.base = base, .length = length, .kind = kind, .fd = -1};
    return gyre_lookup_add(&ends_lookup, &region);
}

static void hold_arena(void)
{
    if (ends_lookup.shared)
        return;
    ends_memory();
    ends_region(ends_arena, sizeof ends_arena, GYRE_MEMORY_HOST);
}

void ends_devices(void)
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

int ends_open(struct ends *ends, int end, const char *device, const char *queues, bool failover)
{
    struct gyre_wire_options options = {.rank = (uint32_t)end,
                                        .n = 2,
                                        .epoch = 3,
                                        .peers = 1,
                                        .lookup = &ends_lookup,
                                        .failover = failover};
    hold_arena();
    setenv("GYRE_RDMA_DEVICE", device, 1);
    setenv("GYRE_RDMA_QUEUES", queues, 1);
    int status = gyre_driver_verbs.open(&options, &ends->wire[end], &ends->trouble[end]);
    unsetenv("GYRE_RDMA_DEVICE");
    unsetenv("GYRE_RDMA_QUEUES");
    return status;
}

static void attach(struct ends *ends, int end)
{
    ends->status[end] = gyre_driver_verbs.attach(ends->wire[end], &ends->channel[end],
                                                 &ends->pipe[end], &ends->trouble[end]);
}

static void *attach_second(void *ends)
{
    attach(ends, 1);
    return NULL;
}

struct ends *ends_new(const char *device0, const char *device1, const char *queues, bool failover)
{
    struct ends *ends = calloc(1, sizeof *ends);
    pthread_t thread;
    int fd[2];
    for (int end = 0; end < 2; end++)
        for (uint32_t i = 0; i < MESSAGES; i++)
            ends->sent[end][i] = ends->got[end][i] = NEVER;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    for (int end = 0; end < 2; end++) {
        ends->channel[end] =
            (struct gyre_channel){.peer = (uint32_t)!end, .fd = {fd[end]}, .fds = 1};
        int status = ends_open(ends, end, end ? device1 : device0, queues, failover);
        if (status)
            fail_msg("%d (%s)", status, ends->trouble[end].text);
    }
    assert_int_equal(pthread_create(&thread, NULL, attach_second, ends), 0);
    attach(ends, 0);
    pthread_join(thread, NULL);
    for (int end = 0; end < 2; end++)
        if (ends->status[end])
            fail_msg("%d (%s)", ends->status[end], ends->trouble[end].text);
    return ends;
}

void ends_free(struct ends *ends)
{
    gyre_driver_verbs.close(ends->wire[0]);
    gyre_driver_verbs.close(ends->wire[1]);
    free(ends);
    assert_int_equal(fake_verbs.open, 0);
}

const struct gyre_verbs_pipe *ends_inside(const struct ends *ends, int end)
{
    return (const struct gyre_verbs_pipe *)ends->pipe[end];
}

/* -- messages ---------------------------------------------------------------------------------- */

uint8_t *ends_place(int end, bool in, uint32_t number)
{
    return ends_arena[end][in][number % PLACES];
}

/* What message `number` from that end says: a piece of noise that no other one begins with. */
static const uint8_t *text(int end, uint32_t number)
{
    static uint8_t noise[MOST + 2 * MESSAGES];
    for (size_t i = 0; !noise[0] && i < sizeof noise; i++)
        noise[sizeof noise - 1 - i] = (uint8_t)(gyre_mix64(i) | 1);
    return noise + 2 * number + end;
}

void ends_accepted(const struct ends *ends, int end, int status)
{
    if (status)
        fail_msg("end %d: %d (%s)", end, status, ends_inside(ends, end)->end.trouble.text);
}

/* Message `number` from that end to the other. */
void ends_send(struct ends *ends, int end, uint32_t number, uint64_t length)
{
    const struct gyre_match match = {.comm = 1, .sequence = number};
    uint8_t *from = ends_place(end, false, number);
    memcpy(from, text(end, number), length);
    ends_accepted(ends, end, gyre_driver_verbs.send(ends->pipe[end], &match, from, length, number));
}

void ends_recv(struct ends *ends, int end, uint32_t number, uint64_t length)
{
    const struct gyre_match match = {.comm = 1, .sequence = number};
    uint8_t *to = ends_place(end, true, number);
    memset(to, 0, length);
    ends_accepted(ends, end,
                  gyre_driver_verbs.recv(ends->pipe[end], &match, to, length, MESSAGES + number));
}

void ends_brought(int end, uint32_t number, uint64_t length)
{
    if (memcmp(ends_place(end, true, number), text(!end, number), length) != 0)
        fail_msg("message %u of %llu bytes is not what was sent", number,
                 (unsigned long long)length);
}

void ends_look(struct ends *ends)
{
    for (int end = 0; end < 2; end++) {
        struct gyre_completion done[8];
        int count = gyre_driver_verbs.poll(ends->wire[end], gyre_now_ns() + ends->ahead, done, 8);
        for (int i = 0; i < count; i++) {
            bool in = done[i].token >= MESSAGES;
            uint32_t number = (uint32_t)done[i].token % MESSAGES;
            int *slot = in ? &ends->got[end][number] : &ends->sent[end][number];
            assert_int_equal(*slot, NEVER);
            *slot = done[i].status;
            ends->order[end] += in;
            ends->last_got[end] = in ? number : ends->last_got[end];
        }
    }
}

void ends_look_often(struct ends *ends)
{
    for (int turn = 0; turn < 50; turn++)
        ends_look(ends);
}

void ends_until(struct ends *ends, const int *status)
{
    for (int turn = 0; turn < TURNS_MOST && *status == NEVER; turn++)
        ends_look(ends);
    assert_int_not_equal(*status, NEVER);
}

/* One message from end 0 to end 1. */
void ends_carry(struct ends *ends, uint32_t number, uint64_t length)
{
    ends_recv(ends, 1, number, length);
    ends_look_often(ends);
    ends_send(ends, 0, number, length);
    ends_until(ends, &ends->got[1][number]);
    ends_until(ends, &ends->sent[0][number]);
    assert_int_equal(ends->got[1][number], 0);
    assert_int_equal(ends->sent[0][number], 0);
    ends_brought(1, number, length);
}
