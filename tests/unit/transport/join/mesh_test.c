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

#define IDLE_ROUNDS   200 /* of 40 ms: nothing comes any more */
#define SEVERAL_DIALS 12  /* events of the rank that dials */

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

/* A rank of `n`, each a node of its own. */
static void set_up_rank(struct join_rig *rig, uint32_t rank, uint32_t n, const char *host)
{
    join_rig_open(rig, rank, n);
    rig->options.nodes = GYRE_NODES_APART;
    rig->join.joined->node = rank;
    rig->join.phase = GYRE_PHASE_MESH;
    for (uint32_t i = 0; i < n; i++)
        rig->join.joined->member[i].node = i;
    assert_int_equal(
        gyre_address_resolve(host, 0, &rig->join.identity[rank].outward, 1, &rig->trouble), 1);
}

static void open_rank(struct join_rig *rig, uint32_t rank, uint32_t n,
                      struct sockaddr_storage *address)
{
    set_up_rank(rig, rank, n, "127.0.0.1");
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

static void close_ranks(struct join_rig *lower, struct join_rig *higher)
{
    gyre_join_mesh_close(&lower->join);
    gyre_join_mesh_close(&higher->join);
    join_rig_close(lower);
    join_rig_close(higher);
}

/* Returns how many messages both sent. */
static int meet(int cut_at)
{
    struct join_rig lower, higher;
    struct sockaddr_storage address, unused;
    int idle = 0;
    cut = cut_at;
    sends = 0;
    open_rank(&lower, 0, 2, &address);
    open_rank(&higher, 1, 2, &unused);
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
    close_ranks(&lower, &higher);
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

/* What a rank says whose node the lower one shares: the plan of one of them is wrong. */
static int call_one_of_this_node(struct join_rig *lower, struct join_rig *higher)
{
    int status = 0;
    for (int idle = 0; !status && idle < IDLE_ROUNDS; idle++) {
        struct gyre_io_slot *io_slot;
        idle = serve(lower) ? 0 : idle;
        if ((io_slot = gyre_join_wait(&higher->join)))
            status = gyre_join_mesh_ready(&higher->join, io_slot);
    }
    return status;
}

static void a_rank_of_this_node_is_refused(void **state)
{
    struct join_rig lower, higher;
    struct sockaddr_storage address, unused;
    (void)state;
    cut = 0;
    open_rank(&lower, 0, 2, &address);
    open_rank(&higher, 1, 2, &unused);
    lower.join.joined->member[1].node = 0;
    higher.join.joined->member[0].address = address;
    assert_int_equal(gyre_join_mesh_start(&lower.join), 0);
    assert_int_equal(gyre_join_mesh_start(&higher.join), 0);
    assert_int_equal(call_one_of_this_node(&lower, &higher), GYRE_REFUSED);
    assert_non_null(strstr(higher.trouble.text, "rank 0 expects no data connection 0 of rank 1"));
    assert_true(lower.join.joined->peer[1].tcp[0] < 0);
    close_ranks(&lower, &higher);
}

/* The address of rank 0 leads to rank 1, which lets rank 2 in. That dials again and again. */
static void another_rank_is_not_taken_for_the_peer(void **state)
{
    struct join_rig middle, last;
    struct sockaddr_storage address, unused;
    int heard = 0;
    (void)state;
    cut = 0;
    open_rank(&middle, 1, 3, &address);
    open_rank(&last, 2, 3, &unused);
    last.join.joined->member[0].address = address;
    last.join.joined->member[1].node = 2; /* it dials rank 0 only */
    assert_int_equal(gyre_join_mesh_start(&last.join), 0);
    while (last.join.joined->peer[0].tcp[0] < 0 &&
           (middle.join.joined->peer[2].tcp[0] < 0 || heard < SEVERAL_DIALS)) {
        serve(&middle);
        heard += serve(&last);
    }
    assert_true(last.join.joined->peer[0].tcp[0] < 0);
    close_ranks(&middle, &last);
}

/* Returns what is told by a rank that may listen at that port of that address only. */
static const char *cannot_listen(const char *host, uint16_t port)
{
    static struct join_rig rig;
    struct sockaddr_storage unused;
    set_up_rank(&rig, 1, 2, host);
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
        cmocka_unit_test(a_rank_of_this_node_is_refused),
        cmocka_unit_test(another_rank_is_not_taken_for_the_peer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
