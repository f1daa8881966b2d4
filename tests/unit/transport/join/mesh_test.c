/* A data connection between two ranks whose sockets take a part of a message and then are full: of
 * each message in turn, the welcome among them. The connection stands all the same, and has no byte
 * of the handshake left in it. What joins otherwise is tested by tests/program/job/join.c. */
#include "unit/transport/join/join_rig.h"

#include "transport/net/address.h"

#include <errno.h>
#include <poll.h>
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

static void open_rank(struct join_rig *rig, uint32_t rank, struct sockaddr_storage *address)
{
    join_rig_open(rig, rank, 2);
    rig->options.nodes = GYRE_NODES_APART;
    rig->join.joined->node = rank;
    rig->join.phase = GYRE_PHASE_MESH;
    for (uint32_t i = 0; i < 2; i++)
        rig->join.joined->member[i].node = i;
    assert_int_equal(
        gyre_address_resolve("127.0.0.1", 0, &rig->join.identity[rank].outward, 1, &rig->trouble),
        1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_is_taken_in_part_costs_no_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
