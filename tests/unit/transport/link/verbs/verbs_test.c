/* What the verbs driver makes of devices that no machine here has, on a stand-in for the library:
 * their limits, and which device, port and GID it takes. */
#include "unit/transport/link/verbs/verbs_half.h"
#include "rig/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    for (uint32_t i = 0; i < COUNT(limits); i++) {
        const struct limit *it = &limits[i];
        struct gyre_verbs_wire *wire = NULL;
        bool short_of_memory = it->status == -ENOMEM;
        tight = (struct rlimit){.rlim_cur = short_of_memory ? 64 << 10 : before.rlim_max,
                                .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &tight), 0);
        fake_verbs_reset();
        fake_verbs.limits.max_cqe = it->completions;
        fake_verbs.limits.max_qp_wr = it->requests;
        fake_verbs.limits.max_qp = it->queues;
        fake_verbs.memory = it->memory;
        int status = half_open(it->peers, &wire);
        if (status != it->status)
            fail_msg("%s: %d (%s)", it->what, status, half_trouble.text);
        if (it->words)
            half_says(half_trouble.text, it->words);
        if (!status && (wire->window != it->window || wire->ring != it->ring))
            fail_msg("%s: window %u, ring %u", it->what, wire->window, wire->ring);
        half_close(wire);
    }
    setrlimit(RLIMIT_MEMLOCK, &before);
}

static void let_lock(bool any)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    syscall(SYS_capget, &header, data);
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    if (any)
        data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective |=
            data[CAP_TO_INDEX(CAP_IPC_LOCK)].permitted & CAP_TO_MASK(CAP_IPC_LOCK);
    syscall(SYS_capset, &header, data);
}

/* The device is not even asked for more; it would refuse. */
static void no_more_is_asked_for_than_may_be_locked(void **state)
{
    struct gyre_verbs_wire *wire;
    struct rlimit before, tight;
    (void)state;
    getrlimit(RLIMIT_MEMLOCK, &before);
    tight = (struct rlimit){.rlim_cur = 200 << 10, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &tight), 0);
    for (int any = 0; any < 2; any++) {
        fake_verbs_reset();
        fake_verbs.memory = any ? UINT64_MAX : 200 << 10;
        let_lock(any);
        assert_int_equal(half_open(1, &wire), 0);
        assert_int_equal(fake_verbs.refused, 0);
        if (!any || geteuid() == 0)
            assert_int_equal(wire->ring, any ? 256 << 10 : 64 << 10);
        half_close(wire);
    }
    setrlimit(RLIMIT_MEMLOCK, &before);
}

/* Runs first: the driver does it once. */
static void forks_are_prepared_for_first(void **state)
{
    struct gyre_verbs_wire *wire;
    (void)state;
    fake_verbs_reset();
    assert_int_equal(half_open(1, &wire), 0);
    assert_true(fake_verbs.fork_ready);
    assert_false(fake_verbs.unprepared);
    half_close(wire);
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
    half_trouble = (struct gyre_trouble){0};
    int status = gyre_verbs_port_choose(&options, 0, &context, &port, &half_trouble);
    if (status != it->status || strcmp(port.device, it->taken ? it->taken : ""))
        fail_msg("%s: %d, \"%s\" (%s)", it->what, status, port.device, half_trouble.text);
    if (!status) {
        assert_int_equal(port.gid_index, it->index);
        assert_string_equal(ibv_get_device_name(context->device), it->taken);
        ibv_close_device(context);
    } else {
        half_says(half_trouble.text, it->words);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forks_are_prepared_for_first),
        cmocka_unit_test(limits_are_read_before_they_are_met),
        cmocka_unit_test(no_more_is_asked_for_than_may_be_locked),
        cmocka_unit_test(ports_are_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
