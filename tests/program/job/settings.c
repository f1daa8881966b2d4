/* Settings of the transport that show from outside: how many connections lead to a peer, and at
 * which ports ranks listen. The sockets of a rank are looked at from inside of it. */
#include "rig/comm_rig.h"
#include "rig/test.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FDS = 1024, PORTS = 40 };

/* The port of one end of a connection; 0: the descriptor is none of TCP's. */
static int port_of(int (*ask)(int, struct sockaddr *, socklen_t *), int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    if (ask(fd, (struct sockaddr *)&address, &length))
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return address.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&address)->sin_port) : 0;
}

/* In the ranks: place[0] counts connections of rank 0, place[1] those whose listener was in the
 * range that starts at `argument`. */
static int count_connections(struct gyre_comm *comm, struct rig *rig)
{
    int low = rig->argument ? *(const int *)rig->argument : 0, status = gyre_barrier(comm);
    for (int fd = 0; fd < FDS && gyre_rank(comm) == 0; fd++) {
        int here = port_of(getsockname, fd), there = port_of(getpeername, fd);
        if (!here || !there)
            continue;
        rig->shared->place[0]++;
        rig->shared->place[1] +=
            (here >= low && here < low + PORTS) || (there >= low && there < low + PORTS);
    }
    return status || gyre_barrier(comm) || gyre_finalize(comm);
}

static void run(const char *name, const char *value, int *low, uintptr_t *all, uintptr_t *within)
{
    struct rig rig = {.n = 2, .transport = "tcp", .body = count_connections, .argument = low};
    if (value)
        setenv(name, value, 1);
    rig_start(&rig);
    assert_int_equal(rig_wait(&rig, 30, 0), 0);
    unsetenv(name);
    *all = rig.shared->place[0];
    *within = rig.shared->place[1];
    munmap(rig.shared, sizeof *rig.shared);
}

static void connections_are_as_many_as_wished(void **state)
{
    uintptr_t one, three, ignored;
    (void)state;
    run("GYRE_TCP_CONNECTIONS", NULL, NULL, &one, &ignored);
    run("GYRE_TCP_CONNECTIONS", "3", NULL, &three, &ignored);
    assert_true(one > 0);
    assert_int_equal(three, one + 2);
}

/* Below the ports that the kernel gives out, so nobody is there by chance. */
static void ranks_listen_in_the_range(void **state)
{
    char range[32];
    uintptr_t all, within;
    int low = 12000 + (int)(getpid() % 200) * PORTS;
    (void)state;
    snprintf(range, sizeof range, "%d-%d", low, low + PORTS - 1);
    run("GYRE_PORT_RANGE", NULL, &low, &all, &within);
    assert_int_equal(within, 0);
    run("GYRE_PORT_RANGE", range, &low, &all, &within);
    assert_true(within > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_as_many_as_wished),
        cmocka_unit_test(ranks_listen_in_the_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
