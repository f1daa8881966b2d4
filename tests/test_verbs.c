/* What the verbs driver makes of devices that no machine here has, on a stand-in for the library:
 * their limits, their ports, what they say of requests, and offers of peers that differ. */
#include "fake_verbs.h"

#include "base/bytes.h"
#include "base/crc.h"
#include "transport/drivers/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct gyre_trouble trouble;

static int open_wire(uint32_t peers, struct gyre_verbs_wire **wire)
{
    struct gyre_wire_options options = {.rank = 3, .n = peers + 1, .peers = peers};
    trouble = (struct gyre_trouble){0};
    return gyre_driver_verbs.open(&options, (struct gyre_wire **)wire, &trouble);
}

static void close_wire(struct gyre_verbs_wire *wire)
{
    gyre_driver_verbs.close((struct gyre_wire *)wire);
    assert_int_equal(fake_verbs.open, 0);
}

static void assert_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("\"%s\" does not say \"%s\"", text, words);
}

/* -- limits ------------------------------------------------------------------------------------ */

static const struct limit {
    const char *what;
    uint32_t peers;
    int completions, requests, queues;
    uint64_t memory;
    int status;
    const char *words;
    uint32_t window, ring;
} limits[] = {
    {"plenty", 10, 1 << 20, 4096, 1000, UINT64_MAX, 0, NULL, 64, 256 << 10},
    {"just enough", 10, 2400, 128, 10, 10 * (528 << 10), 0, NULL, 64, 256 << 10},
    {"fewer completions", 10, 2399, 128, 10, UINT64_MAX, 0, NULL, 32, 256 << 10},
    {"the fewest", 10, 1840, 128, 10, UINT64_MAX, 0, NULL, 8, 256 << 10},
    {"too few completions", 10, 1839, 128, 10, UINT64_MAX, -ENOSPC, "1839 completions", 0, 0},
    {"too few queue pairs", 10, 1 << 20, 128, 9, UINT64_MAX, -ENOSPC, "9 queue pairs", 0, 0},
    {"too few requests", 10, 1 << 20, 127, 10, UINT64_MAX, -ENOSPC, "127 requests", 0, 0},
    {"less memory", 1, 1 << 20, 4096, 9, (528 << 10) - 1, 0, NULL, 64, 128 << 10},
    {"the least memory", 1, 1 << 20, 4096, 9, 48 << 10, 0, NULL, 64, 16 << 10},
    {"too little memory", 1, 1 << 20, 4096, 9, (48 << 10) - 1, -ENOMEM,
     "may lock 64 KiB: raise it (ulimit -l unlimited", 0, 0},
};

static void limits_are_read_before_they_are_met(void **state)
{
    struct rlimit before, tight;
    (void)state;
    getrlimit(RLIMIT_MEMLOCK, &before);
    tight = (struct rlimit){.rlim_cur = 64 << 10, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &tight), 0);
    for (uint32_t i = 0; i < COUNT(limits); i++) {
        const struct limit *it = &limits[i];
        struct gyre_verbs_wire *wire = NULL;
        fake_verbs_reset();
        fake_verbs.limits.max_cqe = it->completions;
        fake_verbs.limits.max_qp_wr = it->requests;
        fake_verbs.limits.max_qp = it->queues;
        fake_verbs.memory = it->memory;
        int status = open_wire(it->peers, &wire);
        if (status != it->status)
            fail_msg("%s: %d (%s)", it->what, status, trouble.text);
        if (it->words)
            assert_says(trouble.text, it->words);
        if (!status && (wire->window != it->window || wire->ring != it->ring))
            fail_msg("%s: window %u, ring %u", it->what, wire->window, wire->ring);
        close_wire(wire);
    }
    setrlimit(RLIMIT_MEMLOCK, &before);
}

/* Runs first: the driver does it once. */
static void forks_are_prepared_for_first(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(open_wire(1, &wire), 0);
    assert_true(fake_verbs.fork_ready);
    assert_false(fake_verbs.unprepared);
    close_wire(wire);
}

/* -- ports ------------------------------------------------------------------------------------- */

#define V1 IBV_GID_TYPE_ROCE_V1
#define V2 IBV_GID_TYPE_ROCE_V2
#define IB IBV_GID_TYPE_IB
#define UP IBV_PORT_ACTIVE

static const struct choice {
    const char *what;
    struct fake_port port[3];
    const char *device, *gid, *address; /* GYRE_RDMA_DEVICE, GYRE_RDMA_GID, IPv4; NULL: not set */
    int local_rank, local_size;
    const char *taken; /* NULL: none */
    int index, status;
    const char *words;
} choices[] = {
    {.what = "no device", .status = GYRE_UNSUPPORTED, .words = "no RDMA device"},
    {.what = "a port that is down",
     .port = {{"a", IBV_PORT_DOWN, 0, {{"::ffff:10.0.0.1", V2}}}},
     .status = -ENODEV,
     .words = "port 1 of a is down"},
    {.what = "RoCE v2 before v1",
     .port = {{"a", UP, 0, {{"::ffff:10.0.0.1", V1}, {"::ffff:10.0.0.1", V2}}}},
     .taken = "a",
     .index = 1},
    {.what = "only RoCE v1", .port = {{"a", UP, 0, {{"fe80::1", V1}}}}, .taken = "a"},
    {.what = "the address of this process",
     .port = {{"a", UP, 0, {{"::ffff:10.0.0.1", V2}}}, {"b", UP, 0, {{"::ffff:10.9.0.1", V2}}}},
     .address = "10.9.0.1",
     .taken = "b"},
    {.what = "a GID by hand",
     .port = {{"a", UP, 0, {{"::ffff:10.0.0.1", V1}, {"::ffff:10.0.0.1", V2}}}},
     .gid = "0",
     .taken = "a",
     .index = 0},
    {.what = "a GID that is none",
     .port = {{"a", UP, 0, {{"::ffff:10.0.0.1", V2}}}},
     .gid = "3",
     .status = -ENODEV,
     .words = "GYRE_RDMA_GID=3, but port 1 of a has no GID there"},
    {.what = "rank 1 of a node takes the second of two",
     .port = {{"a", UP, 0, {{"::ffff:127.0.0.1", V2}}}, {"b", UP, 0, {{"::ffff:127.0.0.2", V2}}}},
     .local_rank = 1,
     .local_size = 2,
     .taken = "b"},
    {.what = "rank 2 the first again, whatever address it has",
     .port = {{"a", UP, 0, {{"::ffff:127.0.0.1", V2}}}, {"b", UP, 0, {{"::ffff:127.0.0.2", V2}}}},
     .address = "10.9.0.1",
     .local_rank = 2,
     .local_size = 4,
     .taken = "a"},
    {.what = "a node's only rank stays where it is reached",
     .port = {{"a", UP, 0, {{"::ffff:127.0.0.1", V2}}}, {"b", UP, 0, {{"::ffff:10.9.0.1", V2}}}},
     .address = "10.9.0.1",
     .local_size = 1,
     .taken = "b"},
    {.what = "InfiniBand of one subnet",
     .port = {{"a", UP, 0, {{"fe80::1", IB}}}, {"b", UP, 0, {{"fe80::2", IB}}}},
     .local_rank = 1,
     .local_size = 2,
     .taken = "b"},
    {.what = "another subnet is left alone",
     .port = {{"a", UP, 0, {{"fec0::1", IB}}}, {"b", UP, 0, {{"fec1::2", IB}}}},
     .local_rank = 1,
     .local_size = 2,
     .taken = "a"},
    {.what = "a slower one is left alone",
     .port = {{"a", UP, 32, {{"fe80::1", IB}}}, {"b", UP, 4, {{"fe80::2", IB}}}},
     .local_rank = 1,
     .local_size = 2,
     .taken = "a"},
    {.what = "one that is down is left alone",
     .port = {{"a", UP, 0, {{"fe80::1", IB}}}, {"b", IBV_PORT_DOWN, 0, {{"fe80::2", IB}}}},
     .local_rank = 1,
     .local_size = 2,
     .taken = "a"},
    {.what = "a list: rank 1 takes its second",
     .port = {{"a", UP, 0, {{"fec0::1", IB}}}, {"b", UP, 0, {{"fec1::2", IB}}}},
     .device = "a:1,b:1",
     .local_rank = 1,
     .local_size = 2,
     .taken = "b"},
    {.what = "a list: rank 2 its first again",
     .port = {{"a", UP, 0, {{"fec0::1", IB}}}, {"b", UP, 0, {{"fec1::2", IB}}}},
     .device = "b,a",
     .local_rank = 2,
     .local_size = 3,
     .taken = "b"},
    {.what = "a list with a hole",
     .port = {{"a", UP, 0, {{"fec0::1", IB}}}},
     .device = "a,,b",
     .local_rank = 1,
     .local_size = 2,
     .status = GYRE_INVALID,
     .words = "GYRE_RDMA_DEVICE is \"a,,b\""},
    {.what = "a port that is not there",
     .port = {{"a", UP, 0, {{"fec0::1", IB}}}},
     .device = "a:2",
     .status = -ENODEV,
     .words = "a has 1 ports, not 2"},
};

static void put(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void choose(const struct choice *it)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_storage address = {0};
    struct gyre_wire_options options = {.local_rank = it->local_rank,
                                        .local_size = it->local_size,
                                        .address = it->address ? &address : NULL};
    struct ibv_context *context = NULL;
    struct gyre_verbs_port port = {.device = ""};
    fake_verbs_reset();
    memcpy(fake_verbs.port, it->port, sizeof it->port);
    fake_verbs.devices = !!it->port[0].name + !!it->port[1].name + !!it->port[2].name;
    if (it->address)
        inet_pton(AF_INET, it->address, &in.sin_addr);
    memcpy(&address, &in, sizeof in);
    put("GYRE_RDMA_DEVICE", it->device);
    put("GYRE_RDMA_GID", it->gid);
    trouble = (struct gyre_trouble){0};
    int status = gyre_verbs_port_choose(&options, 0, &context, &port, &trouble);
    if (status != it->status || strcmp(port.device, it->taken ? it->taken : ""))
        fail_msg("%s: %d, \"%s\" (%s)", it->what, status, port.device, trouble.text);
    if (!status) {
        assert_int_equal(port.gid_index, it->index);
        assert_string_equal(ibv_get_device_name(context->device), it->taken);
        ibv_close_device(context);
    } else {
        assert_says(trouble.text, it->words);
    }
    assert_int_equal(fake_verbs.open, 0);
}

static void ports_are_chosen(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(choices); i++)
        choose(&choices[i]);
    put("GYRE_RDMA_DEVICE", NULL);
    put("GYRE_RDMA_GID", NULL);
}

/* -- faults ------------------------------------------------------------------------------------ */

static struct gyre_verbs_pipe *add_pipe(struct gyre_verbs_wire *wire, uint32_t index, int fd)
{
    const struct gyre_stream_options options = {.posts = GYRE_VERBS_POSTS};
    struct gyre_verbs_pipe *pipe = calloc(1, sizeof *pipe);
    assert_int_equal(gyre_stream_create(&options, &pipe->stream), 0);
    pipe->wire = wire;
    pipe->peer = 7 + index;
    pipe->index = index;
    pipe->fd[0] = fd;
    pipe->fds = 1;
    pipe->queue[0] =
        (struct gyre_verbs_queue){.pipe = pipe,
                                  .card = wire->card,
                                  .proven = true,
                                  .mine = {.number = 41, .gid = {[15] = 1}, .ring = wire->ring},
                                  .theirs = {.number = 42, .gid = {[15] = 2}, .ring = wire->ring}};
    pipe->way[pipe->ways++] = pipe->queue;
    wire->pipe[index] = pipe;
    return pipe;
}

static const struct fault {
    enum ibv_wc_status said;
    enum ibv_port_state port;
    int status;
    const char *words;
} faults[] = {
    {IBV_WC_RETRY_EXC_ERR, UP, GYRE_PEER_LOST, "asked 7 times"},
    {IBV_WC_RETRY_EXC_ERR, IBV_PORT_DOWN, -ENETDOWN, "this rank's port is down"},
    {IBV_WC_RNR_RETRY_EXC_ERR, UP, GYRE_PEER_LOST, "it had no receive posted, 7 times"},
    {IBV_WC_REM_ACCESS_ERR, UP, GYRE_PEER_LOST, "remote access error"},
    {IBV_WC_REM_INV_REQ_ERR, UP, GYRE_PEER_LOST, "remote invalid request"},
    {IBV_WC_REM_OP_ERR, UP, GYRE_PEER_LOST, "remote operation error"},
    {IBV_WC_REM_ABORT_ERR, UP, GYRE_PEER_LOST, "abort"},
    {IBV_WC_WR_FLUSH_ERR, UP, GYRE_PEER_LOST, "Flushed"},
    {IBV_WC_RESP_TIMEOUT_ERR, UP, GYRE_PEER_LOST, "timeout"},
    {IBV_WC_BAD_RESP_ERR, UP, GYRE_PEER_LOST, "bad response"},
    {IBV_WC_LOC_PROT_ERR, UP, -EIO, "local protection error"},
    {IBV_WC_LOC_LEN_ERR, UP, -EIO, "local length error"},
    {IBV_WC_LOC_QP_OP_ERR, UP, -EIO, "local QP operation error"},
    {IBV_WC_LOC_ACCESS_ERR, UP, -EIO, "local access error"},
    {IBV_WC_FATAL_ERR, IBV_PORT_DOWN, -EIO, "fatal error"},
    {IBV_WC_GENERAL_ERR, UP, -EIO, "general error"},
};

static void lower(char *text)
{
    for (; *text; text++)
        *text = *text >= 'A' && *text <= 'Z' ? (char)(*text + 32) : *text;
}

/* Each names both ends, and is seen by the posts. */
static void what_requests_end_with_is_told(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(faults); i++) {
        const struct fault *it = &faults[i];
        const struct ibv_wc done = {.status = it->said};
        struct gyre_verbs_wire *wire;
        char text[GYRE_VERBS_STORY], words[64];
        fake_verbs_reset();
        assert_int_equal(open_wire(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_pipe(wire, 0, -1);
        fake_verbs.port[0].state = it->port;
        gyre_verbs_fail_request(pipe->queue, &done);
        if (pipe->status != it->status)
            fail_msg("%s: %d (%s)", ibv_wc_status_str(it->said), pipe->status, pipe->trouble.text);
        snprintf(text, sizeof text, "%s", pipe->trouble.text);
        snprintf(words, sizeof words, "%s", it->words);
        lower(text);
        lower(words);
        assert_says(text, words);
        assert_says(text,
                    "verbs link from rank 3 to rank 7 (fake0:1, gid ::1, queue pair 41 to gid "
                    "::2, queue pair 42)");
        close_wire(wire);
    }
}

static void say_event(struct gyre_verbs_wire *wire, enum ibv_event_type event)
{
    uint64_t ring = 1;
    fake_verbs.has_event = true;
    fake_verbs.event = event;
    assert_int_equal(write(wire->card->context->async_fd, &ring, sizeof ring), sizeof ring);
    gyre_verbs_look_aside(wire);
    assert_false(fake_verbs.has_event);
}

/* Of a device all links go, of a port none by itself: requests tell. */
static void what_devices_say_is_heard(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(open_wire(2, &wire), 0);
    const struct gyre_verbs_pipe *one = add_pipe(wire, 0, -1), *two = add_pipe(wire, 1, -1);
    say_event(wire, IBV_EVENT_PORT_ERR);
    assert_int_equal(one->status, 0);
    say_event(wire, IBV_EVENT_DEVICE_FATAL);
    assert_int_equal(one->status, -ENODEV);
    assert_int_equal(two->status, -ENODEV);
    assert_says(two->trouble.text, "to rank 8 ");
    assert_says(two->trouble.text, "the device has failed or was removed");
    close_wire(wire);
}

#define SECONDS UINT64_C(1000000000)

static void a_queue_of_completions_that_fails_ends_all(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(open_wire(2, &wire), 0);
    const struct gyre_verbs_pipe *one = add_pipe(wire, 0, -1), *two = add_pipe(wire, 1, -1);
    say_event(wire, IBV_EVENT_CQ_ERR);
    assert_int_equal(one->status, -EIO);
    assert_int_equal(two->status, -EIO);
    assert_says(two->trouble.text, "to rank 8 ");
    assert_says(two->trouble.text, "the device's queue of completions has failed");
    close_wire(wire);
}

/* Looks every dead time / 16, from second to second. */
static void wait_on(struct gyre_verbs_wire *wire, uint64_t from, uint64_t to)
{
    for (uint64_t now = 16 * from; now < 16 * to; now++)
        gyre_verbs_lose_patience(wire, now * SECONDS / 16);
}

static const struct patience {
    const char *what;
    enum ibv_port_state port; /* after an event said that it is down; UP: none did */
    int query;                /* what the device says of it */
    uint32_t asked;           /* requests that should have been answered */
    uint32_t dead;            /* seconds */
    int status;
    const char *words;
} patiences[] = {
    {"nothing to wait for", UP, 0, 0, 1, 0, NULL},
    {"a port that stays down", IBV_PORT_DOWN, 0, 0, 1, -ENETDOWN,
     "this rank's port is down, and has been of no use for 1.0 s"},
    {"a device that says nothing", IBV_PORT_DOWN, ENODEV, 0, 1, -ENODEV, "not to be asked"},
    {"a request without an answer", UP, 0, 2, 1, GYRE_PEER_LOST,
     "neither an answer nor an error for 1.0 s"},
    {"the same of a device that has gone", UP, EIO, 2, 1, -ENODEV, "not to be asked"},
    {"no dead time", IBV_PORT_DOWN, 0, 2, 0, 0, NULL},
};

static void what_never_ends_is_given_up(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(patiences); i++) {
        const struct patience *it = &patiences[i];
        struct gyre_verbs_wire *wire;
        fake_verbs_reset();
        assert_int_equal(open_wire(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_pipe(wire, 0, -1);
        wire->dead_ns = it->dead * SECONDS;
        pipe->queue->signals = it->asked;
        if (it->port != UP)
            say_event(wire, IBV_EVENT_PORT_ERR);
        fake_verbs.port[0].state = it->port;
        fake_verbs.port_status = it->query;
        wait_on(wire, 100, 101);
        assert_int_equal(pipe->status, 0);
        wait_on(wire, 101, 102);
        if (pipe->status != it->status)
            fail_msg("%s: %d (%s)", it->what, pipe->status, pipe->trouble.text);
        if (it->words) {
            assert_says(pipe->trouble.text, it->words);
            assert_says(pipe->trouble.text, "queue pair 41 to GID ::2, queue pair 42");
        }
        close_wire(wire);
    }
}

/* Nor a process that was stopped for a while, and has not read yet what came meanwhile. */
static void what_goes_on_is_waited_for(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(open_wire(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = add_pipe(wire, 0, -1);
    wire->dead_ns = SECONDS;
    say_event(wire, IBV_EVENT_PORT_ERR);
    fake_verbs.port[0].state = IBV_PORT_DOWN;
    pipe->queue->signals = 100;
    wait_on(wire, 100, 101);
    fake_verbs.port[0].state = UP;
    pipe->queue->signals_done++;
    wait_on(wire, 101, 102);
    assert_false(wire->card->doubtful);
    fake_verbs.port[0].state = IBV_PORT_DOWN;
    pipe->queue->signals_done++;
    gyre_verbs_lose_patience(wire, 5000 * SECONDS);
    gyre_verbs_lose_patience(wire, 9000 * SECONDS);
    assert_int_equal(pipe->status, 0);
    close_wire(wire);
}

/* -- going on over TCP ------------------------------------------------------------------------- */

/* A device that went without a word does not end what was posted: the pipe fails as it would have
 * failed at once, but not before its time, and not by the clock of a caller that has none. */
static void wait_for_receives(uint32_t number)
{
    struct ibv_qp queue = {.qp_num = 9};
    struct gyre_verbs_wire *wire;
    fake_verbs_reset();
    assert_int_equal(open_wire(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = add_pipe(wire, 0, -1);
    pipe->queue[1] = pipe->queue[0];
    pipe->way[pipe->ways++] = &pipe->queue[1];
    pipe->queue->pair = &queue;
    pipe->detours = true;
    pipe->queue[number].receives = 3;
    gyre_verbs_break(pipe->queue, -ENETDOWN, "it is no good any more");
    assert_int_equal(fake_verbs.modified, 1);
    assert_true(gyre_verbs_detour_serve(wire, 0));
    assert_true(gyre_verbs_detour_serve(wire, 1000 * SECONDS));
    assert_true(gyre_verbs_detour_serve(wire, 1004 * SECONDS));
    assert_int_equal(pipe->status, 0);
    gyre_verbs_detour_serve(wire, 1006 * SECONDS);
    assert_int_equal(pipe->status, -ENETDOWN);
    assert_says(pipe->trouble.text, "what was posted to the device does not end");
    pipe->queue->pair = NULL;
    close_wire(wire);
}

static void receives_that_do_not_end_fail_the_pipe(void **state)
{
    (void)state;
    wait_for_receives(0);
    wait_for_receives(1);
}

static const struct {
    const char *what;
    uint8_t words[16]; /* magic, messages, bytes; little endian */
    int status;
} hellos[] = {
    {"all has come", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 100}, 0},
    {"some has", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 41}, 0},
    {"less than was said to be consumed", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 39}, GYRE_CORRUPT},
    {"more than was sent", {0x47, 0x79, 0x72, 0x44, 0, 0, 0, 0, 101}, GYRE_CORRUPT},
    {"a message that was not sent", {0x47, 0x79, 0x72, 0x44, 1, 0, 0, 0, 100}, GYRE_CORRUPT},
    {"other words", {0x48, 0x79, 0x72, 0x44, 0, 0, 0, 0, 100}, GYRE_CORRUPT},
};

/* What the other end says of what has come is bounded by what was sent. */
static void counts_of_the_other_end_are_bounded(void **state)
{
    uint8_t got[256];
    (void)state;
    for (uint32_t i = 0; i < COUNT(hellos); i++) {
        struct ibv_qp queue = {.qp_num = 9};
        struct gyre_verbs_wire *wire;
        int fd[2];
        fake_verbs_reset();
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        assert_int_equal(open_wire(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_pipe(wire, 0, fd[0]);
        pipe->queue->pair = &queue;
        pipe->detours = true;
        pipe->inbox = wire->staging;
        pipe->outbox = wire->staging + wire->ring;
        pipe->written = 100;
        pipe->freed = 40;
        pipe->read = 7;
        assert_int_equal(write(fd[1], hellos[i].words, 16), 16);
        gyre_verbs_break(pipe->queue, GYRE_PEER_LOST, "it is no good any more");
        for (int turn = 0; turn < 3; turn++)
            gyre_verbs_detour_serve(wire, SECONDS);
        if (pipe->status != hellos[i].status)
            fail_msg("%s: %d (%s)", hellos[i].what, pipe->status, pipe->trouble.text);
        ssize_t sent = recv(fd[1], got, sizeof got, MSG_DONTWAIT);
        if (!pipe->status) {
            assert_int_equal(sent, hellos[i].words[8] == 100 ? 16 : 16 + 16 + 59);
            assert_int_equal(got[8], 7);
        }
        close(fd[1]);
        close_wire(wire);
    }
}

/* -- slots ------------------------------------------------------------------------------------- */

enum { SLOT = GYRE_VERBS_SLOT, TRAILER = 16, FRAMED = 32 + 8 };

struct slot { /* written by hand; the sum, unless spoiled, is right */
    const char *what;
    uint32_t number; /* record */
    uint16_t length, epoch;
    uint32_t arrived, sequence;
    bool torn;
    bool taken;
};

/* Record 69 is due, one long message has come, and the epoch is 3. */
static const struct slot slots[] = {
    {"the record that is due", 69, FRAMED, 3, 1, 70, false, true},
    {"torn", 69, FRAMED, 3, 1, 70, true, false},
    {"of another epoch", 69, FRAMED, 2, 1, 70, false, false},
    {"of a window ago", 69, FRAMED, 3, 1, 70 - 64, false, false},
    {"of a window later", 69, FRAMED, 3, 1, 70 + 64, false, false},
    {"the next record only", 70, FRAMED, 3, 1, 71, false, false},
    {"before its long message", 69, FRAMED, 3, 2, 70, false, false},
    {"longer than the slot", 69, SLOT - TRAILER + 1, 3, 1, 70, false, false},
    {"of 64 KiB", 69, UINT16_MAX, 3, 1, 70, false, false},
    {"of nothing", 69, 0, 3, 1, 70, false, false},
};

/* A frame of 8 bytes, as another end would send it. */
static void write_frame(uint8_t frame[GYRE_STREAM_NOW_ROOM])
{
    const struct gyre_stream_options options = {.posts = 4};
    const struct gyre_match match = {.comm = 1, .sequence = 5};
    struct gyre_stream *stream;
    assert_int_equal(gyre_stream_create(&options, &stream), 0);
    assert_int_equal(gyre_stream_send_now(stream, &match, "eight by", 8, 1, frame), FRAMED);
    gyre_stream_destroy(stream);
}

static void write_slot(struct gyre_verbs_pipe *pipe, const struct slot *it)
{
    uint8_t frame[GYRE_STREAM_NOW_ROOM + TRAILER] = {0}, *trailer = frame + it->length;
    uint8_t *end = pipe->slots + (it->number % GYRE_VERBS_WINDOW + 1) * SLOT;
    bool fits = it->length <= SLOT - TRAILER;
    write_frame(frame);
    trailer = fits ? trailer : frame + SLOT - TRAILER;
    gyre_put16(trailer, it->length);
    gyre_put16(trailer + 2, it->epoch);
    gyre_put32(trailer + 4, it->arrived);
    gyre_put32(trailer + 12, it->sequence);
    uint32_t sum = gyre_crc32c(0, frame, (size_t)(trailer - frame) + 8);
    gyre_put32(trailer + 8, gyre_crc32c(sum, trailer + 12, 4));
    frame[0] ^= it->torn;
    size_t bytes = (size_t)(trailer - frame) + TRAILER;
    memcpy(end - bytes, frame, bytes);
}

static struct gyre_verbs_pipe *add_slots(struct gyre_verbs_wire *wire, uint8_t got[8])
{
    const struct gyre_match match = {.comm = 1, .sequence = 5};
    struct gyre_verbs_pipe *pipe = add_pipe(wire, 0, -1);
    gyre_verbs_device_place(pipe);
    wire->epoch = 3;
    pipe->queue->mine.window = GYRE_VERBS_WINDOW;
    pipe->taken = 69;
    pipe->arrived = 1;
    assert_int_equal(gyre_stream_recv(pipe->stream, &match, got, 8, 77), 0);
    return pipe;
}

static void only_the_record_that_is_due_is_seen(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT(slots); i++) {
        struct gyre_verbs_wire *wire;
        struct gyre_completion done;
        uint8_t got[8] = {0};
        fake_verbs_reset();
        assert_int_equal(open_wire(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_slots(wire, got);
        write_slot(pipe, &slots[i]);
        if (gyre_verbs_slot_look(pipe) != slots[i].taken || wire->seen != slots[i].taken)
            fail_msg("%s", slots[i].what);
        assert_int_equal(pipe->status, 0);
        assert_int_equal(gyre_stream_complete(pipe->stream, &done, 1), slots[i].taken);
        assert_int_equal(memcmp(got, "eight by", 8) == 0, slots[i].taken);
        close_wire(wire);
    }
}

/* By its completion too, which then only counts; and a completion for what is not there. */
static void a_slot_is_taken_once(void **state)
{
    enum { TOLD = FRAMED | GYRE_VERBS_IN_SLOT };
    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        struct gyre_verbs_wire *wire;
        struct gyre_completion done;
        uint8_t got[8] = {0};
        fake_verbs_reset();
        assert_int_equal(open_wire(1, &wire), 0);
        struct gyre_verbs_pipe *pipe = add_slots(wire, got);
        write_slot(pipe, &slots[0]);
        assert_int_equal(seen && gyre_verbs_slot_look(pipe), seen);
        assert_int_equal(pipe->ahead, seen);
        gyre_verbs_pipe_came(pipe->queue, TOLD);
        assert_int_equal(pipe->status, 0);
        assert_int_equal(pipe->ahead, 0);
        assert_int_equal(pipe->taken, 70);
        assert_int_equal(pipe->read, FRAMED);
        assert_int_equal(gyre_stream_complete(pipe->stream, &done, 1), 1);
        assert_false(gyre_verbs_slot_look(pipe));
        gyre_verbs_pipe_came(pipe->queue, TOLD);
        assert_int_equal(pipe->status, GYRE_CORRUPT);
        assert_says(pipe->trouble.text, "tells of a slot that it has not written");
        close_wire(wire);
    }
}

/* What a broken queue pair brought is decided by its completions. */
static void a_broken_pipe_does_not_look(void **state)
{
    struct gyre_verbs_wire *wire;
    uint8_t got[8] = {0};
    (void)state;
    fake_verbs_reset();
    assert_int_equal(open_wire(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = add_slots(wire, got);
    write_slot(pipe, &slots[0]);
    pipe->broken = true;
    assert_false(gyre_verbs_slot_look(pipe));
    pipe->broken = false;
    gyre_verbs_pipe_came(pipe->queue, FRAMED); /* a record of the inbox, which is zeros */
    assert_int_equal(pipe->status, GYRE_CORRUPT);
    close_wire(wire);
}

/* -- offers ------------------------------------------------------------------------------------ */

enum {
    RECORD = 128,
    WILLING = 4,
    MTU = 5,
    RING = 44,
    WINDOW = 48,
    NETWORK = 52,
    VERSION = 53,
    QUEUES = 55
};

/* What one end hears of an offer like its own but for one field. Returns meet()'s status; its own
 * offer to `said`. */
static int meet(const uint8_t *offer, uint8_t said[RECORD])
{
    uint8_t step[RECORD] = {1};
    struct gyre_verbs_wire *wire;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(open_wire(1, &wire), 0);
    struct gyre_verbs_pipe *pipe = add_pipe(wire, 0, fd[0]);
    pipe->queue->proven = false;
    pipe->ways = 0;
    if (offer) {
        assert_int_equal(write(fd[1], offer, RECORD), RECORD);
        assert_int_equal(write(fd[1], step, RECORD), RECORD);
    } else {
        shutdown(fd[1], SHUT_WR);
    }
    int status = gyre_verbs_meet(pipe, &trouble);
    assert_int_equal(read(fd[1], said, RECORD), RECORD);
    close(fd[1]);
    close_wire(wire);
    return status;
}

static const struct {
    const char *what;
    int at;         /* byte that differs; -1: none */
    uint32_t value; /* instead */
    int status;
    const char *words;
} offers[] = {
    {"the same", -1, 0, GYRE_UNSUPPORTED, "no connection from GID 10.0.0.1 to 10.0.0.1"},
    {"of another program", 0, 1, GYRE_CORRUPT, "made no sense"},
    {"of another version", VERSION, 77, GYRE_UNSUPPORTED, "speaks version 77 of the verbs link"},
    {"RoCE v1", NETWORK, V1, GYRE_UNSUPPORTED,
     "is of RoCE v1 and rank 3's GID 10.0.0.1 of RoCE v2: choose one kind for both"},
    {"InfiniBand", NETWORK, IB, GYRE_UNSUPPORTED, "is of InfiniBand"},
    {"unwilling", WILLING, 0, GYRE_UNSUPPORTED, "it says: "},
    {"an MTU that is none", MTU, 9, GYRE_CORRUPT, "made no sense"},
    {"no window", WINDOW, 0, GYRE_CORRUPT, "made no sense"},
    {"too large a window", WINDOW, 65, GYRE_CORRUPT, "made no sense"},
    {"a ring of 64 MiB", RING + 3, 4, GYRE_CORRUPT, "made no sense"},
    {"no queue pair", QUEUES, 0, GYRE_CORRUPT, "made no sense"},
    {"too many queue pairs", QUEUES, 5, GYRE_CORRUPT, "made no sense"},
};

static void offers_that_differ_are_named(void **state)
{
    uint8_t mine[RECORD], theirs[RECORD], said[RECORD];
    (void)state;
    fake_verbs_reset();
    fake_verbs.modify_status = ENETUNREACH;
    assert_int_equal(meet(NULL, mine), GYRE_PEER_LOST);
    assert_says(trouble.text, "rank 7 hung up while the verbs link to it was made");
    for (uint32_t i = 0; i < COUNT(offers); i++) {
        memcpy(theirs, mine, RECORD);
        if (offers[i].at >= 0)
            theirs[offers[i].at] = (uint8_t)offers[i].value;
        int status = meet(theirs, said);
        if (status != offers[i].status)
            fail_msg("%s: %d (%s)", offers[i].what, status, trouble.text);
        assert_says(trouble.text, offers[i].words);
    }
    fake_verbs.no_queues = true;
    assert_int_equal(meet(mine, said), GYRE_UNSUPPORTED);
    assert_int_equal(said[WILLING], 0);
    assert_says((const char *)said + 64, "fake0:1 gives no queue pair: Cannot allocate memory");
}

/* The last rank meets rank 0 when that has met all others. */
static void who_meets_others_first_is_waited_for(void **state)
{
    enum { PAIR_MS = 500 }; /* of two ranks, at most */
    (void)state;
    for (uint32_t peers = 1; peers <= 32768; peers *= 2)
        assert_true(gyre_verbs_meet_ms(peers) > peers * PAIR_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_are_prepared_for_first),
        cmocka_unit_test(limits_are_read_before_they_are_met),
        cmocka_unit_test(ports_are_chosen),
        cmocka_unit_test(what_requests_end_with_is_told),
        cmocka_unit_test(what_devices_say_is_heard),
        cmocka_unit_test(a_queue_of_completions_that_fails_ends_all),
        cmocka_unit_test(what_never_ends_is_given_up),
        cmocka_unit_test(what_goes_on_is_waited_for),
        cmocka_unit_test(receives_that_do_not_end_fail_the_pipe),
        cmocka_unit_test(counts_of_the_other_end_are_bounded),
        cmocka_unit_test(only_the_record_that_is_due_is_seen),
        cmocka_unit_test(a_slot_is_taken_once),
        cmocka_unit_test(a_broken_pipe_does_not_look),
        cmocka_unit_test(offers_that_differ_are_named),
        cmocka_unit_test(who_meets_others_first_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
