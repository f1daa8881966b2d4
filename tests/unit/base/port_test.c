/* A reserved port: taken for others, free for its listener. */
#include "base/port.h"

#include "transport/net/address.h"
#include "transport/net/socket.h"
#include "rig/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

static int bind_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status = bind(fd, (struct sockaddr *)&address, sizeof address) ? -errno : 0;
    close(fd);
    return status;
}

static void others_find_it_taken(void **state)
{
    uint16_t port;
    int fd = gyre_port_reserve(&port);
    assert_true(fd >= 0);
    assert_in_range(port, 20000, 31999);
    assert_int_equal(bind_to(port), -EADDRINUSE);
    close(fd);
    assert_int_equal(bind_to(port), 0);
}

static int listen_at(const char *host, uint16_t port)
{
    struct sockaddr_storage address;
    assert_int_equal(gyre_address_resolve(host, port, &address, 1, NULL), 1);
    return gyre_socket_listen(&address, 0, 0, 4);
}

static void its_listener_is_let_in(void **state)
{
    static const char *const hosts[] = {"127.0.0.1", "0.0.0.0", "::"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        uint16_t port;
        int fd = gyre_port_reserve(&port), listener = listen_at(hosts[i], port);
        assert_true(fd >= 0 && listener >= 0);
        assert_int_equal(bind_to(port), -EADDRINUSE);
        close(listener);
        close(fd);
    }
}

/* 64 at once: none is given twice. */
static void no_two_are_the_same(void **state)
{
    uint16_t port[64];
    int fd[64];
    for (int i = 0; i < 64; i++) {
        assert_true((fd[i] = gyre_port_reserve(&port[i])) >= 0);
        for (int before = 0; before < i; before++)
            assert_int_not_equal(port[before], port[i]);
    }
    for (int i = 0; i < 64; i++)
        close(fd[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_find_it_taken),
        cmocka_unit_test(its_listener_is_let_in),
        cmocka_unit_test(no_two_are_the_same),
    };
    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
