/* A data connection between two ranks whose sockets take a part of a message and then are full: of
 * each message in turn, the welcome among them. The connection stands all the same, and has no byte
 * of the handshake left in it. And a rank that cannot listen. What joins otherwise is tested by
 * tests/program/job/join.c. */
#include "unit/transport/join/join_rig.h"

#include "transport/net/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define IDLE_ROUNDS 200 /* of 40 ms: nothing comes any more */

static int cut, sends; /* the send that is cut, 0: none; and those so far */
static bool full;      /* the next send finds no room */

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    if (full) {
        full = false;
        errno = EAGAIN;
        return -1;
    }
    full = ++sends == cut;
    return __real_send(fd, bytes, full ? length / 2 : length, flags);
}

static void set_up_rank(struct join_rig *rig, uint32_t rank, const char *host)
{
    join_rig_open(rig, rank, 2);
    rig->options.nodes = GYRE_NODES_APART;
    rig->join.joined->node = rank;
    rig->join.phase = GYRE_PHASE_MESH;
    for (uint32_t i = 0; i < 2; i++)
        rig->join.joined->member[i].node = i;
    assert_int_equal(
        gyre_address_resolve(host, 0, &rig->join.identity[rank].outward, 1, &rig->trouble), 1);
}

static void open_rank(struct join_rig *rig, uint32_t rank, struct sockaddr_storage *address)
{
    set_up_rank(rig, rank, "127.0.0.1");
    assert_int_equal(gyre_join_mesh_open(&rig->join, address), 0);
}

/* Serves what is ready. Returns how many events there were. */
static int serve(struct join_rig *rig)
{
    struct gyre_io_slot *io_slot = gyre_join_wait(&rig->join);
    if (io_slot)
        assert_int_equal(gyre_join_mesh_ready(&rig->join, io_slot), 0);
    assert_int_equal(gyre_join_mesh_tick(&rig->join), 0);
    return io_slot != NULL;
}

static void assert_carries(int from, int to)
{
    char got[8] = "";
    struct pollfd ready = {.fd = to, .events = POLLIN};
    assert_int_equal(__real_send(from, "word", 4, 0), 4);
    assert_int_equal(poll(&ready, 1, 90000), 1);
    assert_int_equal(recv(to, got, sizeof got, 0), 4);
    assert_string_equal(got, "word");
}

/* Returns how many messages both sent. */
static int meet(int cut_at)
{
    struct join_rig lower, higher;
    struct sockaddr_storage address, unused;
    int idle = 0;
    cut = cut_at;
    sends = 0;
    open_rank(&lower, 0, &address);
    open_rank(&higher, 1, &unused);
    higher.join.joined->member[0].address = address;
    assert_int_equal(gyre_join_mesh_start(&lower.join), 0);
    assert_int_equal(gyre_join_mesh_start(&higher.join), 0);
    while ((gyre_join_mesh_busy(&lower.join) || gyre_join_mesh_busy(&higher.join)) &&
           idle < IDLE_ROUNDS)
        idle = serve(&lower) + serve(&higher) ? 0 : idle + 1;
    if (idle == IDLE_ROUNDS)
        fail_msg("the ranks wait for ever where send %d is cut", cut_at);
    int below = lower.join.joined->peer[1].tcp[0], above = higher.join.joined->peer[0].tcp[0];
    assert_carries(below, above);
    assert_carries(above, below);
    gyre_join_mesh_close(&lower.join);
    gyre_join_mesh_close(&higher.join);
    join_rig_close(&lower);
    join_rig_close(&higher);
    return sends;
}

static void a_message_that_is_taken_in_part_costs_no_connection(void **state)
{
    (void)state;
    int messages = meet(0);
    assert_true(messages >= 4); /* three of the handshake and the welcome */
    for (int n = 1; n <= messages; n++)
        meet(n);
}

/* Returns what is told by a rank that may listen at that port of that address only. */
static const char *cannot_listen(const char *host, uint16_t port)
{
    static struct join_rig rig;
    struct sockaddr_storage unused;
    set_up_rank(&rig, 1, host);
    rig.options.port_low = rig.options.port_high = port;
    assert_int_not_equal(gyre_join_mesh_open(&rig.join, &unused), 0);
    gyre_join_mesh_close(&rig.join);
    join_rig_close(&rig);
    return rig.trouble.text;
}

static void a_range_without_a_free_port_is_told(void **state)
{
    struct sockaddr_in taken = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof taken;
    char range[64];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(bind(fd, (struct sockaddr *)&taken, length), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&taken, &length), 0);
    const unsigned port = ntohs(taken.sin_port);
    snprintf(range, sizeof range, "GYRE_PORT_RANGE=%u-%u: every port of it is in use", port, port);
    assert_non_null(strstr(cannot_listen("127.0.0.1", (uint16_t)port), range));
    /* An address of documentation is no machine's: the range is not to blame. */
    assert_non_null(strstr(cannot_listen("192.0.2.1", (uint16_t)port), "cannot listen at 192.0.2"));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_without_a_free_port_is_told),
        cmocka_unit_test(a_message_that_is_taken_in_part_costs_no_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
