/* How all bytes are moved, and which congestion control a connection begins with. That a paced one
 * stays paced cannot be asked of the kernel, so the order of the calls is watched on their way:
 * what is set after connect() or listen() came too late. */
#include "transport/net/socket.h"

#include "base/clock.h"
#include "rig/test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The control of the last socket that connected or listened, at that moment. */
static char begins_with[16];

/* Who accept4() says has come; NULL: who has. */
static const struct sockaddr_storage *stranger;

int __real_connect(int fd, const struct sockaddr *to, socklen_t length);
int __real_listen(int fd, int backlog);
int __real_accept4(int fd, struct sockaddr *from, socklen_t *length, int flags);

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t length);
int __wrap_listen(int fd, int backlog);
int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *length, int flags);

static void read_control(int fd, char name[16])
{
    socklen_t length = 16;
    memset(name, 0, 16);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length), 0);
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t length)
{
    int type = 0;
    socklen_t room = sizeof type;
    if (!getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &room) && type == SOCK_STREAM)
        read_control(fd, begins_with);
    return __real_connect(fd, to, length);
}

int __wrap_listen(int fd, int backlog)
{
    read_control(fd, begins_with);
    return __real_listen(fd, backlog);
}

int __wrap_accept4(int fd, struct sockaddr *from, socklen_t *length, int flags)
{
    int taken = __real_accept4(fd, from, length, flags);
    if (taken >= 0 && stranger) {
        memcpy(from, stranger, sizeof(struct sockaddr_in));
        *length = sizeof(struct sockaddr_in);
    }
    return taken;
}

static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_storage address;
    assert_int_equal(gyre_address_resolve(text, 0, &address, 1, NULL), 1);
    return address;
}

static void systems_control(char name[16])
{
    int untold = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(untold >= 0);
    read_control(untold, name);
    close(untold);
}

static int accept_one(int listener)
{
    struct sockaddr_storage from;
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 90000), 1);
    int fd = gyre_socket_accept(listener, &from);
    assert_true(fd >= 0);
    return fd;
}

static void inside_a_machine_nothing_paces(void **state)
{
    struct sockaddr_storage address = address_of("127.0.0.1");
    char name[16];
    (void)state;
    int listener = gyre_socket_listen(&address, 0, 0, 4);
    assert_true(listener >= 0);
    assert_string_equal(begins_with, "reno");

    int dialled = gyre_socket_connect(&address, NULL);
    assert_true(dialled >= 0);
    assert_string_equal(begins_with, "reno");

    int taken = accept_one(listener);
    read_control(taken, name);
    assert_string_equal(name, "reno");
    close(taken);
    close(dialled);
    close(listener);
}

static void who_comes_from_elsewhere_gets_the_systems_control(void **state)
{
    struct sockaddr_storage address = address_of("127.0.0.1"), far = address_of("192.0.2.9");
    char usual[16], name[16];
    (void)state;
    systems_control(usual);
    int listener = gyre_socket_listen(&address, 0, 0, 4);
    int dialled = gyre_socket_connect(&address, NULL);
    assert_true(listener >= 0 && dialled >= 0);
    stranger = &far;
    int taken = accept_one(listener);
    stranger = NULL;
    read_control(taken, name);
    assert_string_equal(name, usual);
    close(taken);
    close(dialled);
    close(listener);
}

/* Nobody is there: the attempt has begun, or has failed at once, but with the system's control. */
static void a_way_out_of_the_machine_has_the_systems_control(void **state)
{
    struct sockaddr_storage far = address_of("192.0.2.9"), own;
    char usual[16];
    (void)state;
    systems_control(usual);
    bool outward = !gyre_address_outward(AF_INET, &own);
    *begins_with = '\0';
    gyre_socket_drop(gyre_socket_connect(&far, outward ? &own : NULL));
    assert_string_equal(begins_with, usual);
}

static int option_of(int fd, int level, int option)
{
    int value = -1;
    socklen_t length = sizeof value;
    assert_int_equal(getsockopt(fd, level, option, &value, &length), 0);
    return value;
}

static void an_expedited_connection_goes_first(void **state)
{
    int four = socket(AF_INET, SOCK_STREAM, 0), six = socket(AF_INET6, SOCK_STREAM, 0);
    (void)state;
    assert_true(four >= 0);
    gyre_socket_expedite(four);
    assert_int_equal(option_of(four, IPPROTO_IP, IP_TOS), 0xc0);
    assert_int_equal(option_of(four, SOL_SOCKET, SO_PRIORITY), 6);
    close(four);
    if (six < 0) {
        print_message("skipped: this machine has no IPv6\n");
        skip();
    }
    gyre_socket_expedite(six);
    assert_int_equal(option_of(six, IPPROTO_IPV6, IPV6_TCLASS), 0xc0);
    assert_int_equal(option_of(six, SOL_SOCKET, SO_PRIORITY), 6);
    close(six);
}

/* Just as many bytes are moved as are asked for; a wait ends at its deadline, or with the peer. */
static void bytes_are_moved_whole(void **state)
{
    char out[] = "all of it", in[sizeof out] = "";
    int pair[2];
    uint64_t later = gyre_now_ns() + 60 * GYRE_SECOND;
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(gyre_socket_move(pair[1], POLLIN, in, 1, gyre_now_ns() + 1), GYRE_TIMED_OUT);
    assert_int_equal(gyre_socket_move(pair[0], POLLOUT, out, sizeof out, later), 0);
    assert_int_equal(gyre_socket_move(pair[1], POLLIN, in, 4, later), 0);
    assert_int_equal(gyre_socket_move(pair[1], POLLIN, in + 4, sizeof in - 4, later), 0);
    assert_string_equal(in, out);
    close(pair[0]);
    assert_int_equal(gyre_socket_move(pair[1], POLLIN, in, 1, later), GYRE_PEER_LOST);
    assert_int_equal(gyre_socket_move(pair[1], POLLOUT, out, 1, later), GYRE_PEER_LOST);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inside_a_machine_nothing_paces),
        cmocka_unit_test(who_comes_from_elsewhere_gets_the_systems_control),
        cmocka_unit_test(an_expedited_connection_goes_first),
        cmocka_unit_test(bytes_are_moved_whole),
        cmocka_unit_test(a_way_out_of_the_machine_has_the_systems_control),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
