/* The lobby, with strangers that connect and say nothing: who stays, who makes room. What strangers
 * say is tested by tests/program/job/join_hostile.c. */
#include "unit/transport/join/join_rig.h"

#include <errno.h>
#include <poll.h>
#include <sys/resource.h>

enum { STRANGERS = 3 };

struct lobby_rig {
    struct join_rig base;
    struct gyre_lobby *lobby;
    struct sockaddr_storage address;
    int listener;
};

static void open_lobby(struct lobby_rig *rig)
{
    struct gyre_lobby_options options = {.slots = 8, .per_address = 8, .owner = GYRE_SLOT_ROOT};
    join_rig_open(&rig->base, 0, 2);
    assert_int_equal(gyre_address_resolve("127.0.0.1", 0, &rig->address, 1, NULL), 1);
    rig->listener = gyre_socket_listen(&rig->address, 0, 0, 8);
    assert_true(rig->listener >= 0);
    assert_int_equal(gyre_lobby_create(&rig->base.join, &options, &rig->lobby), 0);
    assert_int_equal(gyre_lobby_listen(rig->lobby, rig->listener), 0);
}

static void close_lobby(struct lobby_rig *rig)
{
    gyre_lobby_destroy(rig->lobby);
    join_rig_close(&rig->base);
}

/* Serves the listener, to which a stranger connects. */
static int let_in(struct lobby_rig *rig)
{
    struct gyre_arrival arrival;
    struct gyre_io_slot *io_slot = NULL;
    while (!io_slot)
        io_slot = gyre_join_wait(&rig->base.join);
    assert_int_equal(io_slot->fd, rig->listener);
    return gyre_lobby_ready(rig->lobby, io_slot, &arrival);
}

static int connect_stranger(const struct lobby_rig *rig)
{
    int fd = gyre_socket_connect(&rig->address, NULL);
    struct pollfd connected = {.fd = fd, .events = POLLOUT};
    assert_true(fd >= 0);
    assert_int_equal(poll(&connected, 1, 90000), 1);
    return fd;
}

static bool was_hung_up_on(int fd, int patience_ms)
{
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    return poll(&ended, 1, patience_ms) == 1;
}

/* The process stood still for six seconds. The stranger's time ends after five that it ran. */
static void time_of_a_pause_counts_for_nobody(void **state)
{
    struct lobby_rig rig;
    (void)state;
    open_lobby(&rig);
    int stranger = connect_stranger(&rig);
    assert_int_equal(let_in(&rig), GYRE_AGAIN);
    rig.base.join.granted -= 6 * GYRE_SECOND;
    assert_null(gyre_join_wait(&rig.base.join));
    gyre_lobby_tick(rig.lobby, rig.base.join.now);
    assert_false(was_hung_up_on(stranger, 0));
    gyre_lobby_tick(rig.lobby, rig.base.join.now + 6 * GYRE_SECOND);
    assert_true(was_hung_up_on(stranger, 90000));
    close(stranger);
    close_lobby(&rig);
}

/* Leaves room for no further descriptor, or for as many as before. */
static void limit_descriptors(struct rlimit *before, bool tight)
{
    int next = dup(STDERR_FILENO);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, before), 0);
    struct rlimit less = {tight ? (rlim_t)next : before->rlim_cur, before->rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
}

static void without_descriptors_the_oldest_stranger_makes_room(void **state)
{
    struct lobby_rig rig;
    struct rlimit limit;
    int stranger[STRANGERS];
    (void)state;
    open_lobby(&rig);
    for (int i = 0; i < STRANGERS; i++) {
        stranger[i] = connect_stranger(&rig);
        if (i < STRANGERS - 1)
            assert_int_equal(let_in(&rig), GYRE_AGAIN);
        rig.base.join.now++;
    }
    limit_descriptors(&limit, true);
    int status = let_in(&rig);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(status, GYRE_AGAIN);
    assert_true(was_hung_up_on(stranger[0], 90000));
    for (int i = 1; i < STRANGERS; i++)
        assert_false(was_hung_up_on(stranger[i], 0));
    for (int i = 0; i < STRANGERS; i++)
        close(stranger[i]);
    close_lobby(&rig);
}

/* With nobody to make room, ranks themselves are too many. */
static void without_descriptors_and_strangers_the_join_fails(void **state)
{
    struct lobby_rig rig;
    struct rlimit limit;
    (void)state;
    open_lobby(&rig);
    int stranger = connect_stranger(&rig);
    limit_descriptors(&limit, true);
    int status = let_in(&rig);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(status, -EMFILE);
    assert_non_null(strstr(rig.base.trouble.text, "ulimit -n"));
    close(stranger);
    close_lobby(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_of_a_pause_counts_for_nobody),
        cmocka_unit_test(without_descriptors_the_oldest_stranger_makes_room),
        cmocka_unit_test(without_descriptors_and_strangers_the_join_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
